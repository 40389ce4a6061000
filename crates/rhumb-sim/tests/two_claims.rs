//! Two processes that hold one key claim one name at two routers: the
//! newest statement wins, and everybody agrees.

#![allow(clippy::unwrap_used)] // A helper of a test may panic as the test may.

use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_sim::{Conditions, StationId, World};

const SECOND: Duration = Duration::from_secs(1);

/// Routers in a line, and on them: somebody who sends, whom it sends to, and a second process with
/// that one's key, which joins `at` one of the routers.
fn claimed_twice(seed: u64, at: usize) -> (World, Vec<StationId>, [StationId; 3]) {
    let mut world = World::new(seed, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, first) = (world.add_node(line[1]), world.add_node(line[0]));
    world.run(5 * SECOND);
    world.send(a, first, 50).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(first).len(), 1);
    let second = world.add_double(first, line[at]);
    assert!(world.run_until(5 * SECOND, |world| world.is_published(second)));
    (world, line, [a, first, second])
}

#[test]
fn the_newer_claim_gets_the_traffic_and_nothing_comes_twice() {
    for seed in 1..=5 {
        let (mut world, line, [a, first, second]) = claimed_twice(seed, 2);
        world.run(SECOND);
        // Both are told: the one that it is in, the other one by
        // its router that, and where, the name is now.
        let name = world.name(first);
        let moved = rhumb_switch::Event::Moved { name };
        assert!(world.router_events(line[0]).contains(&moved), "{}", world.history());
        let via = world.name(line[2]);
        let told = world.told(first).last().map(|(_, event)| event.clone());
        assert_eq!(told, Some(Event::Displaced { via }), "{}", world.history());
        let before = (world.received(first).len(), world.received(second).len());
        for _ in 0..60 {
            world.send(a, first, 50).unwrap();
            world.run(10 * SECOND);
        }
        let got = (world.received(first).len() - before.0, world.received(second).len() - before.1);
        assert_eq!(got, (0, 60), "{}", world.history());
        assert!(world.is_published(second));
    }
}

#[test]
fn when_the_older_one_goes_silent_the_newer_one_gets_everything() {
    let (mut world, _, [a, first, second]) = claimed_twice(6, 2);
    world.apply(&rhumb_sim::Fault::Crash(first));
    world.run(25 * SECOND);
    for _ in 0..20 {
        world.send(a, first, 50).unwrap();
        world.run(SECOND);
    }
    let got = world.received(second).len();
    assert!(got >= 18, "{got} of 20: {}", world.history());
}

#[test]
fn at_one_router_the_former_process_ends_at_once_and_the_newer_one_is_told() {
    for seed in 1..=5 {
        let (mut world, line, [a, first, second]) = claimed_twice(seed, 0);
        // The former one hears of it with its next record, which is a keep-alive at the latest.
        world.run(7 * SECOND);
        let via = world.name(line[0]);
        let last = |world: &World, node| world.told(node).last().map(|(_, event)| event.clone());
        assert_eq!(last(&world, first), Some(Event::Displaced { via }), "{}", world.history());
        assert_eq!(last(&world, second), Some(Event::Contested { via }), "{}", world.history());
        let told = rhumb_switch::Event::TwoProcesses { name: world.name(first) };
        let tellings = world.router_events(line[0]).iter().filter(|event| **event == told).count();
        assert_eq!(tellings, 1, "{}", world.history());
        let before = world.received(second).len();
        for _ in 0..60 {
            world.send(a, first, 50).unwrap();
            world.run(10 * SECOND);
        }
        assert_eq!(world.received(second).len() - before, 60, "{}", world.history());
        let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
        assert!(!world.told(second).iter().any(|(_, event)| lost(event)), "{}", world.history());
    }
}

/// The claims of two processes, and what somebody sends to their name, in each
/// order, and as close upon each other as may be.
#[test]
fn in_whatever_order_two_claims_and_a_message_come_one_claim_wins_for_all() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let gaps = [0, 40, 150, 400, 1_000, 5_000, 50_000, 1_000_000].map(Duration::from_micros);
    let mut seed = 100;
    for order in orders {
        for gap in gaps {
            seed += 1;
            one_claim_wins(seed, order, gap);
        }
    }
}

/// What happens first, second and third: the first claim (0), the second one (1), the message (2).
fn one_claim_wins(seed: u64, order: [usize; 3], gap: Duration) {
    let mut world = World::new(seed, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, first) = (world.add_node(line[1]), world.add_node(line[0]));
    let second = world.add_double(first, line[2]);
    world.apply(&rhumb_sim::Fault::Crash(first));
    world.apply(&rhumb_sim::Fault::Crash(second));
    assert!(world.run_until(5 * SECOND, |world| world.is_published(a)));
    for (place, what) in order.into_iter().enumerate() {
        let after = SECOND + gap * place as u32;
        match what {
            0 => world.schedule(after, rhumb_sim::Fault::Start(first)),
            1 => world.schedule(after, rhumb_sim::Fault::Start(second)),
            _ => world.schedule_message(after, a, first, 50),
        }
    }
    world.run(SECOND + 40 * SECOND);
    let context = |world: &World| format!("{order:?}, {gap:?}: {}", world.history());
    let running = [first, second].map(|node| world.is_running(node));
    assert!(running == [true, false] || running == [false, true], "{}", context(&world));
    let [winner, loser] = if running[0] { [first, second] } else { [second, first] };
    assert!(world.is_published(winner), "{}", context(&world));
    let told = world.told(loser).last().map(|(_, event)| event.clone());
    assert!(matches!(told, Some(Event::Displaced { .. })), "{told:?} {}", context(&world));
    // Where the claims are apart by more than a clock's tick, the later one wins.
    if gap >= Duration::from_millis(5) {
        let last = order.into_iter().rfind(|what| *what < 2);
        assert_eq!(winner == first, last == Some(0), "{}", context(&world));
    }
    let before = (world.received(winner).len(), world.received(loser).len());
    assert!(before.0 + before.1 <= 1, "the message came once at most");
    for _ in 0..5 {
        world.send(a, first, 50).unwrap();
        world.run(SECOND);
    }
    let got = (world.received(winner).len() - before.0, world.received(loser).len() - before.1);
    assert_eq!(got, (5, 0), "{}", context(&world));
}
