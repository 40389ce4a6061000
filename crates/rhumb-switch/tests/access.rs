//! Rules of access: whom they refuse neither joins nor
//! sends, is told so, and is told of in `status`.

use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_switch::{DropReason, Wanted};
use rhumb_trust::{Access, Rule, Standing};
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name, PduHeader};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
const DATA: &[u8] = &[1, 0, 0, 9, 42];

fn rule(name: Name, standing: Standing) -> Rule {
    Rule::named(name, standing)
}

/// Everybody but these names is refused.
fn closed_but_for(names: &[Name]) -> Access {
    let rules = names.iter().map(|name| rule(*name, Standing::Admitted)).collect();
    Access { rules, otherwise: Standing::Refused, ..Access::default() }
}

fn set_access(world: &mut World, access: Access) {
    let now = world.now;
    world.routers[0].switch.set_access(access, now);
}

#[test]
fn who_is_refused_neither_joins_nor_sends_and_is_told_so() {
    let mut world = World::new();
    world.line(1);
    let (node, other) = (world.node(0), world.node(0));
    let closed = closed_but_for(&[world.name(node), world.name(other)]);
    set_access(&mut world, closed);
    let mut refused = Stranger::new(&mut world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let route = refused.route(via, &world);
    let join = PduHeader::new(Action::Advertise, refused.name(), via);
    refused.send(&mut world, join, &[], std::slice::from_ref(&route));
    assert_eq!(refused.nacks(), [Reason::NotAuthorised]);
    let data = PduHeader::new(Action::Data, refused.name(), world.name(node));
    refused.send(&mut world, data, DATA, &[route]);
    assert_eq!(refused.nacks(), [Reason::NotAuthorised]);
    let ping = PduHeader::new(Action::Ping, refused.name(), via);
    refused.send(&mut world, ping, DATA, &[]);
    assert_eq!(world.dropped(0, DropReason::AccessRefused), 3);
    assert!(world.nodes[node].received.is_empty());

    let status = world.routers[0].switch.status(world.now);
    let [seen] = &status.refused[..] else { panic!("{:?}", status.refused) };
    assert_eq!((seen.name, seen.wanted, seen.times), (refused.name(), Wanted::Answer, 3));
    assert!(!status.attached.iter().any(|attached| attached.name == refused.name()));
    world.send(node, other, b"as before");
    world.run(SECOND);
    assert_eq!(world.nodes[other].received.len(), 1);
}

#[test]
fn rules_that_change_end_the_sessions_of_whom_they_refuse_and_of_nobody_else() {
    let mut world = World::new();
    world.line(1);
    let (node, other) = (world.node(0), world.node(0));
    world.nodes[other].events.clear();
    let closed = closed_but_for(&[world.name(node)]);
    set_access(&mut world, closed);
    world.run(SECOND);
    let attached = |world: &World| {
        let status = world.routers[0].switch.status(world.now);
        status.attached.iter().map(|attached| attached.name).collect::<Vec<_>>()
    };
    assert_eq!(attached(&world), [world.name(node)]);
    assert!(world.dropped(0, DropReason::AccessRefused) > 0, "it tried to join again");
    let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
    assert!(world.nodes[other].events.iter().any(lost), "{:?}", world.nodes[other].events);
    // RIBs are configured: no rule has to name them.
    let status = world.routers[0].switch.status(world.now);
    assert!(status.ribs.iter().all(|rib| rib.name.is_some()));

    set_access(&mut world, Access::default());
    world.run(30 * SECOND);
    assert_eq!(attached(&world).len(), 2);
    assert!(world.nodes[other].core.is_joined());
}

#[test]
fn refused_names_are_remembered_up_to_a_bound_the_last_first() {
    let mut world = World::new();
    world.line(1);
    set_access(&mut world, closed_but_for(&[]));
    let via = world.routers[0].switch.name();
    let mut last = via;
    for _ in 0..40 {
        let mut refused = Stranger::new(&mut world, 0, Role::Node);
        let route = refused.route(via, &world);
        let join = PduHeader::new(Action::Advertise, refused.name(), via);
        refused.send(&mut world, join, &[], &[route]);
        last = refused.name();
    }
    let status = world.routers[0].switch.status(world.now);
    assert_eq!((status.refused.len(), status.refused[0].name), (32, last));
}
