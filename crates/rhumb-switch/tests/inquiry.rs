//! A peer that has not joined asks for a way by an empty ping: what is missing is sought, and
//! nothing is carried or answered.

use rhumb_switch::DropReason;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name, PduHeader};

use crate::world::{Stranger, World};

/// Two routers that publish their addresses and have not
/// met, a node at the second, a peer of the first.
fn scene() -> (World, usize, Stranger) {
    let mut world = World::new();
    world.two_apart();
    let node = world.node(1);
    world.run(std::time::Duration::from_secs(2));
    let peer = Stranger::new(&mut world, 0, Role::Node);
    (world, node, peer)
}

fn have_met(world: &World) -> bool {
    let name = world.routers[1].switch.name();
    let status = world.routers[0].switch.status(world.now);
    status.sessions.iter().any(|session| session.peer == name)
}

fn ping(from: Name, to: Name) -> PduHeader {
    PduHeader::new(Action::Ping, from, to)
}

#[test]
fn an_inquiry_has_the_way_looked_up_and_then_connected_to() {
    let (mut world, node, mut peer) = scene();
    let routes = |world: &World| world.routers[0].switch.status(world.now).routes;
    let header = ping(peer.name(), world.name(node));
    assert_eq!((routes(&world), have_met(&world)), (0, false));
    peer.send(&mut world, header, &[], &[]);
    assert_eq!((routes(&world), have_met(&world)), (1, false));
    peer.send(&mut world, header, &[], &[]);
    assert!(have_met(&world));
    peer.send(&mut world, header, &[], &[]);
    assert!(peer.inbox.is_empty(), "{:?}", peer.inbox);
    assert_eq!(world.counters(0).forwarded_pdus, 0);
    assert_eq!(world.dropped(0, DropReason::NotAuthorised), 0);
}

#[test]
fn what_is_no_inquiry_is_refused_and_nothing_is_sought_for_it() {
    let (mut world, node, mut peer) = scene();
    let (own, to, other) = (peer.name(), world.name(node), world.routers[1].switch.name());
    let asked = world.counters(0).rib_requests;
    // With something to carry, or to be answered; in another's name.
    peer.send(&mut world, ping(own, to), &[7; 64], &[]);
    peer.send(&mut world, PduHeader::new(Action::Data, own, to), &[7; 64], &[]);
    peer.send(&mut world, ping(other, to), &[7; 64], &[]);
    assert_eq!(peer.nacks(), [Reason::NotAuthorised; 3]);
    for header in [ping(other, to), PduHeader::new(Action::Data, own, to)] {
        peer.send(&mut world, header, &[], &[]);
    }
    assert_eq!(world.dropped(0, DropReason::NotAuthorised), 5);
    assert_eq!(world.counters(0).rib_requests, asked);
    assert!(!have_met(&world));
}
