//! Processes that are killed under load and start again use no nonce twice: their session keys were
//! only in memory, and the next ones come from fresh handshakes.
//!
//! The witness ends a world in which a packet number is used twice in a lane. Keys are not seen on
//! the wire, so here the ciphertexts are looked at as well: the same key and number for the same
//! plaintext would be the same bytes.

use std::collections::HashSet;
use std::time::Duration;

use rhumb_sim::{Conditions, Fault, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const KILLS: u32 = 40;

#[test]
fn no_record_is_the_same_as_another_over_kills_and_restarts() {
    for seed in 1..=3 {
        let mut world = World::new(seed, Conditions::LAN);
        let rib = world.add_rib();
        let line = world.add_line(3);
        let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
        world.run(5 * SECOND);
        world.tap();
        let stations = [a, b, line[0], line[1], line[2], rib];
        for kill in 0..KILLS {
            let victim = stations[kill as usize % stations.len()];
            for _ in 0..20 {
                let _ = world.send(a, b, 64);
                let _ = world.send(b, a, 64);
                world.run(5 * MS);
            }
            world.apply(&Fault::Crash(victim));
            // At once, as a supervisor does it, or after peers have noticed.
            world.run(MS + SECOND * (kill % 3));
            world.apply(&Fault::Start(victim));
            world.run(300 * MS * (kill % 4));
        }
        world.run(60 * SECOND);
        let records = world.tap();
        let is_record = |first: u8| matches!(first >> 4, 0x8 | 0xB | 0xD | 0xE);
        let mut seen = HashSet::new();
        let mut count = 0;
        for (at, flight) in &records {
            if flight.bytes.first().is_some_and(|first| is_record(*first)) {
                count += 1;
                let is_new = seen.insert(flight.bytes.clone());
                assert!(is_new, "seed {seed}: sent again at {at:?} from {}", flight.from);
            }
        }
        assert!(count > 5_000, "{count} records");
        world.send(a, b, 64).unwrap();
        let before = world.received(b).len();
        assert!(world.run_until(5 * SECOND, |world| world.received(b).len() > before));
    }
}
