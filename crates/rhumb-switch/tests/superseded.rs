//! Who comes with something older than its name's newest statement is shown that
//! statement, wherever the news is: by its router or by the RIB. Its holder goes on
//! from there, or leaves the name to a later claim.

use std::time::Duration;

use rhumb_node::core::Event as NodeEvent;
use rhumb_switch::{Config, DropReason, Event};
use rhumb_trust::Window;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
/// How far the clock of an earlier process was ahead.
const AHEAD_MS: u64 = 30_000;

/// A name that joined at a router with a clock that was ahead, and what it said.
fn ahead(world: &mut World, router: usize) -> (Stranger, Certificate) {
    let mut earlier = Stranger::new(world, router, Role::Node);
    let via = world.routers[router].switch.name();
    let statement = Statement::Route { via, scope: Scope::Any };
    let window = Window::starting(world.now.unix_s(), 600);
    let said = earlier
        .identity
        .certify(statement, world.now.unix_ms + AHEAD_MS, window)
        .expect("a key that signs");
    let join = PduHeader::new(Action::Advertise, earlier.name(), via);
    earlier.send(world, join, &[], std::slice::from_ref(&said));
    world.run(SECOND);
    assert!(earlier.nacks().is_empty());
    (earlier, said)
}

fn events(world: &mut World, router: usize) -> Vec<Event> {
    std::iter::from_fn(|| world.routers[router].switch.poll_event()).collect()
}

#[test]
fn the_router_and_the_rib_show_the_newer_statement_and_its_holder_goes_on() {
    // At the same router, which knows it attached; at another
    // one, which has to hear of it from the RIB.
    for router in [0, 2] {
        let mut world = World::new();
        world.line(3);
        let client = world.node(1);
        let (earlier, said) = ahead(&mut world, 0);
        let node = world.node_of(earlier.identity.clone(), router);
        world.run(2 * SECOND);
        assert!(world.nodes[node].core.lease().unwrap().published, "at router {router}");
        world.send(client, node, b"there?");
        world.run(SECOND);
        assert_eq!(world.nodes[node].received.len(), 1, "at router {router}");
        // From where its earlier self was, not from the end of all numbers.
        let mut probe = Stranger::with_identity(&mut world, 0, earlier.identity.clone());
        let join = PduHeader::new(Action::Advertise, probe.name(), world.routers[0].switch.name());
        probe.send(&mut world, join, &[], std::slice::from_ref(&said));
        world.run(SECOND);
        probe.settle(&mut world);
        let newest = probe.shown.last().expect("it is superseded in its turn");
        assert!(newest.sequence > said.sequence && newest.sequence <= said.sequence + 3);
    }
}

#[test]
fn whoever_lost_a_name_to_a_later_claim_is_told() {
    let mut world = World::new();
    world.line(3);
    let client = world.node(1);
    let identity = world.identity(Role::Node);
    let first = world.node_of(identity.clone(), 0);
    world.run(SECOND);
    assert!(world.nodes[first].core.lease().unwrap().published);
    events(&mut world, 0);
    let second = world.node_of(identity, 2);
    world.run(SECOND);
    let name = world.name(first);
    assert!(world.nodes[second].core.lease().unwrap().published);
    let via = world.routers[2].switch.name();
    assert!(events(&mut world, 0).contains(&Event::Moved { name }));
    assert_eq!(world.nodes[first].events.last(), Some(&NodeEvent::Displaced { via }));
    assert!(world.nodes[first].core.is_over());
    world.run(700 * SECOND);
    // Nobody fights: the later claim stays.
    assert!(world.nodes[second].core.lease().unwrap().published);
    let displaced = |event: &NodeEvent| matches!(event, NodeEvent::Displaced { .. });
    assert!(!world.nodes[second].events.iter().any(displaced));
    world.nodes[client].core.send(name, 7, b"who?", world.now).unwrap();
    world.run(SECOND);
    assert_eq!((world.nodes[first].received.len(), world.nodes[second].received.len()), (0, 1));
}

#[test]
fn a_routers_own_word_goes_on_from_what_it_said_before() {
    let mut world = World::new();
    world.line(1);
    let identity = world.routers[0].identity.clone();
    let address = world.routers[0].address;
    // An earlier run of it, whose clock was ahead, published something.
    drop(world.routers.remove(0));
    let before = world.now;
    world.now = rhumb_trust::Now { unix_ms: before.unix_ms + AHEAD_MS, ..before };
    world.router(identity.clone(), address, None, Some(address));
    world.run(2 * SECOND);
    let name = identity.name();
    assert!(events(&mut world, 0).contains(&Event::Published { name }));
    drop(world.routers.remove(0));
    let passed = world.now.instant - before.instant;
    world.now = before.plus(passed);
    world.router(identity, address, None, Some(address));
    world.run(2 * SECOND);
    let told = events(&mut world, 0);
    let refusal = rhumb_wire::rib::Refusal::Superseded;
    assert!(told.contains(&Event::PublishRefused { name, refusal }), "{told:?}");
    assert!(told.contains(&Event::Published { name }), "{told:?}");
}

#[test]
fn names_that_wait_for_a_rib_are_bounded_and_one_more_is_told_to_come_back() {
    let mut world = World::new();
    world.config = Config { max_publications: 3, ..Config::default() };
    world.line(1);
    let rib = world.rib.take();
    world.run(25 * SECOND);
    let via = world.routers[0].switch.name();
    let join = |world: &mut World| {
        let mut node = Stranger::new(world, 0, Role::Node);
        let route = node.route(via, world);
        let header = PduHeader::new(Action::Advertise, node.name(), via);
        node.send(world, header, &[], std::slice::from_ref(&route));
        (node, header, route)
    };
    for _ in 0..3 {
        let (mut node, ..) = join(&mut world);
        assert!(node.nacks().is_empty());
    }
    let (mut late, header, route) = join(&mut world);
    assert!(matches!(late.nacks()[..], [Reason::Overloaded(ms)] if ms > 0));
    assert_eq!(world.dropped(0, DropReason::Overloaded), 1);
    assert_eq!(world.routers[0].switch.status(world.now).attached.len(), 3);
    // When the RIB is back, so is the room.
    world.rib = rib;
    world.run(30 * SECOND);
    late.keep_alive(&mut world);
    let mut late = Stranger::with_identity(&mut world, 0, late.identity.clone());
    late.send(&mut world, header, &[], std::slice::from_ref(&route));
    world.run(SECOND);
    assert!(late.nacks().is_empty());
    assert!(events(&mut world, 0).contains(&Event::Published { name: late.name() }));
}
