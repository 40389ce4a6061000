//! What happens when things break: routers that restart, sessions that fall
//! silent, names that move, RIBs that are gone.

use std::time::Duration;

use rhumb_switch::{DropReason, Remote};
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, PduHeader};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn known_names_are_served_with_the_rib_gone() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    world.send(a, b, b"before");
    world.run(SECOND);
    world.rib = None;
    for _ in 0..60 {
        world.send(a, b, b"after");
        world.run(SECOND);
    }
    assert_eq!(world.nodes[b].received.len(), 61);
}

#[test]
fn a_rib_that_lost_its_store_is_told_everything_anew_within_seconds() {
    let mut world = World::new();
    world.line(3);
    let nodes: Vec<usize> = (0..24).map(|number| world.node(number % 3)).collect();
    world.run(5 * SECOND);
    for round in 1..=2 {
        let (secret, now) = (world.secret(), world.now);
        let rib = world.rib.as_mut().unwrap();
        assert_eq!(rib.server.stored_names().unwrap(), 27, "round {round}");
        rib.lose_store(secret, now);
        // The routers miss it in at most seven seconds: five until they
        // ask whether it is there, and two of asking.
        world.run(12 * SECOND);
    }
    let stored = world.rib.as_mut().unwrap().server.stored_names().unwrap();
    assert_eq!(stored, 27);
    let (a, b) = (nodes[0], nodes[23]);
    world.send(a, b, b"found");
    world.run(SECOND);
    assert_eq!(world.nodes[b].received.len(), 1);
}

#[test]
fn leases_are_renewed_for_as_long_as_it_takes() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    for minute in 0..45 {
        world.send(a, b, b"once a minute");
        world.run(60 * SECOND);
        assert_eq!(world.nodes[b].received.len(), minute + 1, "lost in minute {minute}");
    }
}

#[test]
fn a_name_that_moves_is_found_again() {
    let mut world = World::new();
    world.line(3);
    let (a, identity) = (world.node(0), world.identity(Role::Node));
    let old = world.node_of(identity.clone(), 2);
    world.run(SECOND);
    world.send(a, old, b"to the old place");
    world.run(SECOND);
    assert_eq!(world.nodes[old].received.len(), 1);
    // The same name at another router; the old process is gone without a word.
    let gone = world.nodes[old].address;
    world.network.capture(gone, gone);
    let new = world.node_of(identity, 1);
    world.nodes.swap(old, new);
    let (kept, lost) = (old, new);
    world.nodes.truncate(lost);
    world.run(SECOND);
    world.send(a, kept, b"to the new place");
    world.run(30 * SECOND);
    let bodies: Vec<_> = world.nodes[kept].received.iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(bodies, [b"to the new place".to_vec()]);
}

#[test]
fn a_router_that_restarts_takes_its_place_again() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    world.send(a, b, b"before");
    world.run(SECOND);
    // The middle router forgets everything and comes back under the same name.
    let identity = world.routers[1].identity.clone();
    drop(world.routers.remove(1));
    world.router(identity, router_address(1), None, Some(router_address(1)));
    let restarted = world.routers.pop().unwrap();
    world.routers.insert(1, restarted);
    world.run(30 * SECOND);
    world.send(a, b, b"after");
    world.run(5 * SECOND);
    assert_eq!(world.nodes[b].received.len(), 2);
}

#[test]
fn a_node_that_falls_silent_is_detached() {
    let mut world = World::new();
    world.line(1);
    let (a, b) = (world.node(0), world.node(0));
    let to = world.name(b);
    world.nodes.truncate(b);
    world.run(25 * SECOND);
    world.nodes[a].core.send(to, 1, b"too late", world.now).unwrap();
    world.run(10 * SECOND);
    assert!(world.dropped(0, DropReason::Unreachable) > 0);
    assert_eq!(world.routers[0].switch.status(world.now).attached.len(), 1);
}

#[test]
fn routers_with_addresses_connect_when_a_route_leads_there() {
    let mut world = World::new();
    world.two_apart();
    let (a, b) = (world.node(0), world.node(1));
    world.send(a, b, b"over a new session");
    world.run(2 * SECOND);
    assert_eq!(world.nodes[b].received.len(), 1);
    assert_eq!(world.routers[0].switch.status(world.now).sessions.len(), 3);
}

#[test]
fn an_upstream_of_the_wrong_name_is_not_used() {
    let mut world = World::new();
    world.line(1);
    let stranger = world.identity(Role::Router).name();
    let identity = world.identity(Role::Router);
    let upstream = Remote { address: router_address(0), name: Some(stranger) };
    let router = world.router(identity, router_address(1), Some(upstream), None);
    world.run(5 * SECOND);
    let status = world.routers[router].switch.status(world.now);
    assert_eq!(status.sessions.len(), 1, "only the RIB's: {:?}", status.sessions);
}

#[test]
fn a_router_that_stops_is_missed_at_once() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    world.send(a, b, b"before");
    world.run(SECOND);
    let now = world.now;
    world.routers[1].switch.close_all(now);
    world.settle();
    for neighbour in [0, 2] {
        let sessions = world.routers[neighbour].switch.status(world.now).sessions;
        let to_it = sessions.iter().any(|s| s.peer == world.routers[1].switch.name());
        assert!(!to_it, "router {neighbour} still counts on it");
    }
}

#[test]
fn whoever_sends_right_behind_a_close_is_told() {
    let mut world = World::new();
    world.line(1);
    let router = world.routers[0].switch.name();
    let mut join = || {
        let mut stranger = Stranger::new(&mut world, 0, Role::Node);
        let header = PduHeader::new(Action::Advertise, stranger.name(), router);
        let route = stranger.route(router, &world);
        stranger.send(&mut world, header, &[], &[route]);
        stranger
    };
    let (mut sender, mut receiver) = (join(), join());
    let data = PduHeader::new(Action::Data, sender.name(), receiver.name());
    for _ in 0..3 {
        sender.send(&mut world, data, &[7; 100], &[]);
    }
    assert_eq!(sender.nacks(), []);
    receiver.close(&world);
    sender.send(&mut world, data, &[7; 100], &[]);
    assert_eq!(world.dropped(0, DropReason::NextHopGone), 0);
    assert!(matches!(sender.nacks()[..], [Reason::NotYet(_) | Reason::Unreachable(_)]));
}
