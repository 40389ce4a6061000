//! A name that lets one other name talk with it hears from no third one: at the same router, at
//! another one, and also when flows were known before it said so.

use std::time::Duration;

use rhumb_trust::Window;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
const DATA: &[u8] = &[1, 0, 0, 7, 1, 2, 3, 4];

/// Joins, or renews, for this scope.
fn join(world: &mut World, router: usize, who: &mut Stranger, scope: Scope) {
    let via = world.routers[router].switch.name();
    // No two statements have the same number.
    world.run(Duration::from_millis(2));
    let window = Window::starting(world.now.unix_s(), 600);
    let statement = Statement::Route { via, scope };
    let word =
        who.identity.certify(statement, world.now.unix_ms, window).expect("a key that signs");
    let header = PduHeader::new(Action::Advertise, who.name(), via);
    who.send(world, header, &[], &[word]);
    assert!(who.inbox.iter().any(|(header, _)| header.action == Action::Accept));
    who.inbox.clear();
}

fn joined(world: &mut World, router: usize) -> Stranger {
    let mut stranger = Stranger::new(world, router, Role::Node);
    join(world, router, &mut stranger, Scope::Any);
    stranger
}

/// The sources of the data that came; forgets them.
fn heard(world: &mut World, who: &mut Stranger) -> Vec<Name> {
    who.settle(world);
    let inbox = std::mem::take(&mut who.inbox);
    let data = inbox.iter().filter(|(header, _)| header.action == Action::Data);
    data.map(|(header, _)| header.source).collect()
}

#[test]
fn at_the_same_router_nobody_else_is_heard() {
    let mut world = World::new();
    world.line(1);
    let [mut a, mut b, mut c] = [0; 3].map(|router| joined(&mut world, router));
    join(&mut world, 0, &mut a, Scope::Destination(b.name()));
    for (from, name) in [(&mut b, a.name()), (&mut c, a.name())] {
        let header = PduHeader::new(Action::Data, from.name(), name);
        from.send(&mut world, header, DATA, &[]);
    }
    assert_eq!(heard(&mut world, &mut a), [b.name()]);
    assert_eq!(c.nacks(), [Reason::NotAuthorised]);
    // Nor does it talk to anybody else.
    let header = PduHeader::new(Action::Data, a.name(), c.name());
    a.send(&mut world, header, DATA, &[]);
    assert_eq!(a.nacks(), [Reason::NotAuthorised]);
    assert_eq!(heard(&mut world, &mut c), []);
}

#[test]
fn a_flow_that_is_known_ends_with_the_scope_that_allowed_it() {
    // The destination is at the source's router, or two routers on.
    for at in [0, 2] {
        let mut world = World::new();
        world.line(3);
        let mut a = joined(&mut world, at);
        let (mut b, mut c) = (joined(&mut world, 0), joined(&mut world, 0));
        let target = a.name();
        // A stranger does not send again by itself, and
        // each router looks for what it does not know.
        for _ in 0..6 {
            for from in [&mut b, &mut c] {
                let header = PduHeader::new(Action::Data, from.name(), target);
                from.send(&mut world, header, DATA, &[]);
            }
            world.run(SECOND);
        }
        let before = heard(&mut world, &mut a);
        assert!(before.contains(&b.name()) && before.contains(&c.name()));
        join(&mut world, at, &mut a, Scope::Destination(b.name()));
        for _ in 0..10 {
            for from in [&mut b, &mut c] {
                let header = PduHeader::new(Action::Data, from.name(), target);
                from.send(&mut world, header, DATA, &[]);
            }
            world.run(SECOND / 10);
        }
        b.nacks();
        let header = PduHeader::new(Action::Data, b.name(), target);
        b.send(&mut world, header, DATA, &[]);
        let after = heard(&mut world, &mut a);
        assert!(after.contains(&b.name()), "router {at}");
        assert!(!after.contains(&c.name()), "router {at}");
        assert!(c.nacks().contains(&Reason::NotAuthorised), "router {at}: its source is told");
        // And it may widen it again.
        join(&mut world, at, &mut a, Scope::Any);
        world.run(SECOND);
        for _ in 0..6 {
            let header = PduHeader::new(Action::Data, c.name(), target);
            c.send(&mut world, header, DATA, &[]);
            world.run(SECOND);
        }
        assert!(heard(&mut world, &mut a).contains(&c.name()), "router {at}");
    }
}

#[test]
fn a_node_that_joins_for_one_peer_says_so() {
    let mut world = World::new();
    world.line(3);
    let (peer, other) = (world.node(0), world.node(0));
    let only = world.name(peer);
    let scoped = world.node_for(2, Some(only));
    for from in [peer, other] {
        world.send(from, scoped, b"may I?");
        world.run(SECOND);
    }
    assert_eq!(world.nodes[scoped].received, [(only, b"may I?".to_vec())]);
    world.send(scoped, peer, b"you may");
    world.send(scoped, other, b"you may not");
    world.run(SECOND);
    assert_eq!(world.nodes[peer].received.len(), 1);
    assert_eq!(world.nodes[other].received.len(), 0);
}
