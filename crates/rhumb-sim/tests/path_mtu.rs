//! A link that carries less than its ends take, and tells nobody: what is too
//! large is refused in time, and all else goes on.

use std::time::Duration;

use rhumb_link::RAISE_INTERVAL;
use rhumb_node::SendError;
use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_wire::payload::PayloadHeader;
use rhumb_wire::{PduHeader, datagram::RECORD_OVERHEAD};

const SECOND: Duration = Duration::from_secs(1);

fn narrow(largest_datagram: usize) -> Conditions {
    Conditions { largest_datagram, ..Conditions::LAN }
}

/// The longest body that a datagram of `len` bytes carries.
fn body(len: usize) -> usize {
    len - RECORD_OVERHEAD - PduHeader::LEN - PayloadHeader::LEN
}

fn longest(world: &World, from: StationId, to: StationId) -> usize {
    world.core(from).expect("it runs").max_body_len(world.name(to), world.clock_of(from))
}

/// Sends the longest bodies there may be, ten a second: how many of the last second's arrived, and
/// how long the shortest was. Now and then one is longer, and refused: whether the path has grown.
fn send_longest(world: &mut World, from: StationId, to: StationId, seconds: u32) -> (usize, usize) {
    let (mut arrived, mut shortest) = (0, usize::MAX);
    for tick in 0..seconds * 10 {
        let before = world.received(to).len();
        let len = longest(world, from, to);
        match world.send(from, to, len) {
            Ok(_) | Err(SendError::TooBig { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        world.run(SECOND / 10);
        if tick >= (seconds - 1) * 10 {
            arrived += world.received(to).len() - before;
            shortest = shortest.min(len);
        }
    }
    (arrived, shortest)
}

#[test]
fn a_narrow_link_anywhere_on_the_way_is_found() {
    for (seed, at) in (0..3).zip([0, 1, 2]) {
        let mut world = World::new(seed, Conditions::LAN);
        world.add_rib();
        let routers = world.add_line(2);
        let (a, b) = (world.add_node(routers[0]), world.add_node(routers[1]));
        let link = [(a, routers[0]), (routers[0], routers[1]), (routers[1], b)][at];
        world.apply(&Fault::SetLink(link.0, link.1, narrow(1372)));
        world.run(5 * SECOND);
        for (from, to) in [(a, b), (b, a)] {
            let (arrived, len) = send_longest(&mut world, from, to, 10);
            assert!(arrived >= 9 && len == body(1372), "link {at}: {arrived} of {len} bytes");
        }
    }
}

#[test]
fn a_link_that_shrinks_in_the_middle_is_noticed_and_one_that_grows_too() {
    let mut world = World::new(7, Conditions::LAN);
    world.add_rib();
    let routers = world.add_line(2);
    let (a, b) = (world.add_node(routers[0]), world.add_node(routers[1]));
    world.run(5 * SECOND);
    assert_eq!(send_longest(&mut world, a, b, 3), (10, body(1452)));
    for carries in [1332, 1272, 1232] {
        world.apply(&Fault::SetLink(routers[0], routers[1], narrow(carries)));
        let (arrived, _) = send_longest(&mut world, a, b, 4);
        assert!(arrived >= 9, "{arrived}, three seconds after it carries {carries}");
        let (arrived, len) = send_longest(&mut world, a, b, 20);
        assert!(arrived >= 9 && len == body(carries), "{arrived} of {len} bytes");
    }
    world.apply(&Fault::SetLink(routers[0], routers[1], Conditions::LAN));
    world.run(RAISE_INTERVAL + SECOND);
    assert_eq!(send_longest(&mut world, a, b, 30), (10, body(1452)));
}
