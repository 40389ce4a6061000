//! What a node sends once arrives once or not at all,
//! however often routers ask for it again on the way.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, World};

/// The witness ends the world when a message arrives twice.
#[test]
fn a_burst_that_sets_up_its_own_path_arrives_once() {
    for seed in 1..=40 {
        let mut world =
            World::new(seed, Conditions { loss: 0.0, corruption: 0.0, ..Conditions::ROUGH });
        world.add_rib();
        let line = world.add_line(2 + seed as usize % 4);
        for router in &line {
            // Slow enough for PDUs to overtake the verification of their chain.
            world.apply(&Fault::SetVerifierTime(*router, Duration::from_millis(seed % 7)));
        }
        let (a, b) = (world.add_node(line[0]), world.add_node(line[line.len() - 1]));
        world.run(Duration::from_secs(10));
        // Small ones carry their chain along, large ones have it sent ahead.
        for (number, len) in [1300, 40, 1300, 700, 1300].into_iter().enumerate() {
            world.schedule_message(Duration::from_millis(3 * number as u64), a, b, len);
        }
        world.run(Duration::from_secs(10));
        assert_eq!(world.received(b).len(), 5, "seed {seed}: {}", world.history());
    }
}
