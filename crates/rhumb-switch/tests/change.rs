//! What a RIB says has changed: a withdrawal and a move reach every router that cached the route
//! within a second, also over a network that loses datagrams, and nothing older comes back.

use std::time::Duration;

use rhumb_io::memory::Conditions;
use rhumb_switch::{DropReason, Event};
use rhumb_trust::Window;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::rib::{RequestId, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Certificate, Name, PduHeader, Scope, Statement};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

/// Routers that reach each other directly, with a node each;
/// the first node's route is cached everywhere.
fn star(world: &mut World, routers: usize) -> Vec<usize> {
    for index in 0..routers {
        let identity = world.identity(Role::Router);
        world.router(identity, router_address(index), None, Some(router_address(index)));
    }
    world.run(SECOND);
    let nodes: Vec<usize> = (0..routers).map(|router| world.node(router)).collect();
    for &node in &nodes[1..] {
        world.send(node, nodes[0], b"to be cached");
    }
    world.run(3 * SECOND);
    assert_eq!(world.nodes[nodes[0]].received.len(), routers - 1);
    assert!((1..routers).all(|router| routes(world, router) == 1));
    nodes
}

fn routes(world: &World, router: usize) -> usize {
    world.routers[router].switch.status(world.now).routes
}

/// Whether `router` hands a PDU of its node to where `to` was, at once.
fn is_carried(world: &mut World, node: usize, to: Name, router: usize) -> bool {
    let before = world.counters(router).forwarded_pdus;
    world.nodes[node].core.send(to, 7, b"still there?", world.now).expect("room");
    world.settle();
    world.counters(router).forwarded_pdus > before
}

/// Lets the network lose datagrams until the RIB has told of a change for the first time, and a
/// second longer. Whether it told of any: a node that leaves says so twice, and both may be lost.
fn lose_until_told(world: &mut World, loss: f64) -> bool {
    world.network.set_conditions(Conditions { loss, ..Conditions::default() });
    let told = |world: &World| world.rib.as_ref().map(|rib| rib.server.counters().changes_sent);
    let before = told(world);
    let mut steps = 0;
    while told(world) == before {
        world.run(STEP);
        steps += 1;
        if steps == 1000 {
            return false;
        }
    }
    world.run(SECOND - STEP);
    world.network.set_conditions(Conditions::default());
    true
}

#[test]
fn a_withdrawal_reaches_every_router_within_a_second() {
    let mut told = 0;
    for (seed, loss) in [(1, 0.0), (2, 0.1), (3, 0.1), (4, 0.1)] {
        let mut world = World::with_conditions(seed, Conditions::default());
        let nodes = star(&mut world, 5);
        let to = world.name(nodes[0]);
        world.nodes[nodes[0]].core.leave(world.now);
        if !lose_until_told(&mut world, loss) {
            assert!(loss > 0.0, "nothing was lost");
            continue;
        }
        told += 1;
        for (router, &node) in nodes.iter().enumerate().skip(1) {
            assert_eq!(routes(&world, router), 0, "router {router}, loss {loss}");
            assert_eq!(world.counters(router).rib_changes, 1);
            assert!(!is_carried(&mut world, node, to, router), "router {router}, loss {loss}");
        }
        let counters = world.rib.as_ref().unwrap().server.counters();
        assert_eq!((counters.changes_acknowledged, counters.changes_given_up), (4, 0));
    }
    assert!(told >= 3, "{told} of 4");
}

#[test]
fn a_move_reaches_every_router_within_a_second() {
    for (seed, loss) in [(1, 0.0), (2, 0.1), (3, 0.1)] {
        let mut world = World::with_conditions(seed, Conditions::default());
        let nodes = star(&mut world, 4);
        let identity = world.identity(Role::Node);
        let old = world.node_of(identity.clone(), 0);
        world.run(SECOND);
        for &node in &nodes[1..] {
            world.send(node, old, b"to the old place");
        }
        world.run(SECOND);
        assert_eq!(world.nodes[old].received.len(), 3);
        let new = world.node_of(identity, 3);
        assert!(lose_until_told(&mut world, loss), "the RIB tells nobody");
        // No RIB is asked any more: who cached the old way has the new one.
        let asked: Vec<u64> = (0..4).map(|router| world.counters(router).rib_requests).collect();
        for &node in &nodes[1..] {
            world.send(node, new, b"to the new place");
            world.settle();
        }
        world.run(SECOND / 10);
        assert_eq!(world.nodes[new].received.len(), 3, "loss {loss}");
        assert_eq!(world.nodes[old].received.len(), 3);
        for (router, asked) in asked.iter().enumerate().take(3).skip(1) {
            assert_eq!(world.counters(router).rib_requests, *asked, "router {router}");
        }
        // Its old router was told, and sends on what still comes.
        let events = std::iter::from_fn(|| world.routers[0].switch.poll_event());
        assert!(events.collect::<Vec<_>>().contains(&Event::Moved { name: world.name(new) }));
        world.send(nodes[0], new, b"from the old router");
        world.run(SECOND / 10);
        assert_eq!(world.nodes[new].received.len(), 4, "loss {loss}");
        assert_eq!(world.counters(0).rib_requests, asked[0], "it had to ask for the new way");
    }
}

#[test]
fn a_router_in_the_middle_that_moves_ends_the_routes_through_it() {
    let mut world = World::new();
    let identities: Vec<_> = (0..3).map(|_| world.identity(Role::Router)).collect();
    for index in [0, 1] {
        world.router(
            identities[index].clone(),
            router_address(index),
            None,
            Some(router_address(index)),
        );
    }
    let upstream =
        rhumb_switch::Remote { address: router_address(1), name: Some(identities[1].name()) };
    world.router(identities[2].clone(), router_address(2), Some(upstream), None);
    world.run(2 * SECOND);
    let (a, b) = (world.node(0), world.node(2));
    world.send(a, b, b"over the middle");
    world.run(SECOND);
    assert_eq!(world.nodes[b].received.len(), 1);
    // The middle one is at another address from now on.
    drop(world.routers.remove(1));
    let address = router_address(9);
    world.router(identities[1].clone(), address, None, Some(address));
    let moved = world.routers.pop().unwrap();
    world.routers.insert(1, moved);
    world.run(SECOND);
    assert_eq!(world.counters(0).rib_changes, 1);
    let asked = world.counters(0).rib_requests;
    world.send(a, b, b"where now?");
    world.run(SECOND);
    assert!(world.counters(0).rib_requests > asked, "the old way is not used");
    let sessions = world.routers[0].switch.status(world.now).sessions;
    let to_middle = sessions.iter().find(|session| session.peer == identities[1].name());
    assert_eq!(to_middle.map(|session| session.address), Some(address));
}

#[test]
fn a_withdrawal_ends_grants_too() {
    let mut world = World::new();
    let nodes = star(&mut world, 2);
    let to = world.name(nodes[0]);
    let mut stranger = Stranger::new(&mut world, 1, Role::Node);
    let via = world.routers[1].switch.name();
    let join = PduHeader::new(Action::Advertise, stranger.name(), via);
    let own = stranger.route(via, &world);
    stranger.send(&mut world, join, &[], std::slice::from_ref(&own));
    let data = PduHeader::new(Action::Data, stranger.name(), to);
    stranger.send(&mut world, data, &[7; 64], &[]);
    world.run(SECOND);
    stranger.settle(&mut world);
    let arrived = world.nodes[nodes[0]].received.len();
    stranger.inbox.clear();
    // It withdraws through another router; this one hears of it from the RIB.
    world.run(SECOND);
    let window = rhumb_trust::Window::starting(world.now.unix_s(), 600);
    let withdrawal = rhumb_wire::Statement::Withdrawal;
    let withdrawal = stranger.identity.certify(withdrawal, world.now.unix_ms, window).unwrap();
    let mut elsewhere = Stranger::with_identity(&mut world, 0, stranger.identity.clone());
    let header = PduHeader::new(Action::Advertise, stranger.name(), world.routers[0].switch.name());
    elsewhere.send(&mut world, header, &[], std::slice::from_ref(&withdrawal));
    world.run(SECOND);
    stranger.send(&mut world, data, &[7; 64], &[]);
    // It is told at once that its name was taken back, and by which statement.
    assert_eq!(stranger.nacks(), [Reason::Superseded, Reason::NotAuthorised]);
    assert_eq!(stranger.shown, std::slice::from_ref(&withdrawal));
    assert_eq!(world.nodes[nodes[0]].received.len(), arrived);
    // The old certificate does not bring it back.
    stranger.send(&mut world, join, &[], std::slice::from_ref(&own));
    assert_eq!(stranger.nacks(), [Reason::Superseded]);
    assert_eq!(stranger.shown, [withdrawal.clone(), withdrawal]);
}

#[test]
fn a_router_that_carried_for_a_name_carries_no_more_when_it_has_withdrawn() {
    let mut world = World::new();
    let nodes = star(&mut world, 2);
    let [entry, to] = [world.routers[0].switch.name(), world.name(nodes[0])];
    // The name is known to the RIB, and a router of its choice carries for it: by a chain of two.
    let mut holder = Stranger::new(&mut world, 1, Role::Node);
    let via = world.routers[1].switch.name();
    let own = holder.route(via, &world);
    let join = PduHeader::new(Action::Advertise, holder.name(), via);
    holder.send(&mut world, join, &[], &[own]);
    world.run(SECOND);
    let mut carrier = Stranger::new(&mut world, 0, Role::Router);
    let chain = [holder.route(carrier.name(), &world), carrier.route(entry, &world)];
    let data = PduHeader::new(Action::Data, holder.name(), to);
    carrier.send(&mut world, data, &[7; 64], &chain);
    carrier.send(&mut world, data, &[7; 64], &chain);
    world.run(SECOND);
    carrier.inbox.clear();
    let forwarded = world.counters(0).forwarded_pdus;
    carrier.send(&mut world, data, &[7; 64], &[]);
    assert_eq!(world.counters(0).forwarded_pdus, forwarded + 1);
    assert!(carrier.nacks().is_empty());
    world.run(SECOND);
    let window = rhumb_trust::Window::starting(world.now.unix_s(), 600);
    let withdrawal = rhumb_wire::Statement::Withdrawal;
    let withdrawal = holder.identity.certify(withdrawal, world.now.unix_ms, window).unwrap();
    holder.send(&mut world, join, &[], &[withdrawal]);
    world.run(SECOND);
    carrier.send(&mut world, data, &[7; 64], &[]);
    assert_eq!(carrier.nacks(), [Reason::NotAuthorised]);
    carrier.send(&mut world, data, &[7; 64], &chain);
    assert_eq!(carrier.nacks(), [Reason::Superseded]);
    assert_eq!(world.counters(0).forwarded_pdus, forwarded + 1);
}

#[test]
fn a_name_that_appears_is_told_to_who_looked_for_it() {
    let mut world = World::new();
    let nodes = star(&mut world, 2);
    let identity = world.identity(Role::Node);
    world.nodes[nodes[1]].core.send(identity.name(), 7, b"too early", world.now).unwrap();
    world.run(SECOND);
    assert_eq!((routes(&world, 1), world.counters(1).rib_changes), (1, 0));
    let late = world.node_of(identity, 0);
    world.run(SECOND);
    assert_eq!((routes(&world, 1), world.counters(1).rib_changes), (2, 1));
    world.send(nodes[1], late, b"and here it is");
    world.run(SECOND / 10);
    assert!(!world.nodes[late].received.is_empty());
}

#[test]
fn nothing_older_forged_or_foreign_is_taken_over() {
    let mut world = World::new();
    // Keeps the first route it ever told of a name, and the last.
    let told = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = told.clone();
    let liar = world.liar(Box::new(move |question, truth| {
        if let (RibRequestBody::LookUpRoute(_), RibResponseBody::Found { .. }) = (question, &truth)
        {
            seen.borrow_mut().push(truth.clone());
        }
        Some(truth)
    }));
    let nodes = star(&mut world, 2);
    let to = world.name(nodes[0]);
    let old: Vec<(Vec<_>, Vec<Certificate>)> = told
        .borrow()
        .iter()
        .filter_map(|body| match body {
            RibResponseBody::Found { name, metadata, certificates, .. } if *name == to => {
                Some((metadata.clone(), certificates.clone()))
            }
            _ => None,
        })
        .collect();
    let (metadata, certificates) = old[0].clone();
    world.nodes[nodes[0]].core.leave(world.now);
    world.run(SECOND);
    assert_eq!((routes(&world, 1), world.counters(1).rib_changes), (0, 1));
    let router = world.routers[1].switch.name();
    let changed = |id, certificates| RibResponse {
        id: RequestId(id),
        body: RibResponseBody::Changed {
            name: to,
            level: 0,
            metadata: metadata.clone(),
            certificates,
        },
    };
    let mut forged = certificates.clone();
    forged[0].sequence += 1_000_000;
    let mut foreign = certificates.clone();
    foreign.remove(0);
    let accepted = world.counters(1).chains_accepted;
    for (id, certificates) in [certificates, forged, foreign].into_iter().enumerate() {
        world.liars[liar].tell(router, 0, &changed(id as u32, certificates), world.now);
        world.run(SECOND);
        assert_eq!((routes(&world, 1), world.counters(1).rib_changes), (0, 1), "change {id}");
    }
    assert_eq!(world.counters(1).chains_accepted, accepted);
    assert_eq!(world.counters(1).rib_answers_refused, 1, "the forged one; the others cost nothing");
    assert_eq!(world.dropped(1, DropReason::UnexpectedRibAnswer), 1, "the foreign one");
    // Who is no RIB is not heard at all.
    let mut stranger = Stranger::new(&mut world, 1, Role::Rib);
    let mut data = Vec::new();
    changed(9, old[0].1.clone()).emit(&mut data);
    let header = PduHeader::new(Action::RibResponse, stranger.name(), router);
    stranger.send(&mut world, header, &data, &[]);
    assert_eq!(world.dropped(1, DropReason::UnexpectedRibAnswer), 2);
    assert!(stranger.inbox.is_empty(), "not even acknowledged");
}

/// By what a name is known outside of its domain, and no way there: what a RIB says when it has
/// lost the last one.
#[test]
fn where_nothing_leads_any_more_is_forgotten_if_it_was_found_further_out_and_asked_for_again() {
    for level in [0, 1] {
        let mut world = World::new();
        let liar = world.liar(Box::new(move |_, truth| match truth {
            RibResponseBody::Found { name, metadata, certificates, .. } => {
                Some(RibResponseBody::Found { name, level, metadata, certificates })
            }
            truth => Some(truth),
        }));
        let nodes = star(&mut world, 2);
        let identity = world.identity(Role::Node);
        let known = world.node_with(identity.clone(), 0, |_| {});
        world.run(SECOND);
        world.send(nodes[1], known, b"to be cached");
        world.run(SECOND);
        assert_eq!(routes(&world, 1), 2);

        let via = world.identity(Role::Domain).name();
        let export = Statement::Route { via, scope: Scope::ByDomain { up_to: None } };
        let window = Window::starting(world.now.unix_s(), 600);
        let export = identity.certify(export, world.now.unix_ms, window).unwrap();
        let mut forged = export.clone();
        forged.signature[7] ^= 1;
        let router = world.routers[1].switch.name();
        for (id, certificate) in [(1, forged), (2, export)] {
            assert_eq!(routes(&world, 1), 2, "not by what is forged");
            let body = RibResponseBody::Changed {
                name: identity.name(),
                level: 1,
                metadata: vec![(**identity.metadata()).clone()],
                certificates: vec![certificate],
            };
            let told = RibResponse { id: RequestId(id), body };
            world.liars[liar].tell(router, 0, &told, world.now);
            world.settle();
        }
        assert_eq!(routes(&world, 1), 2 - usize::from(level), "level {level}");
        world.send(nodes[1], known, b"it is asked for again");
        world.run(2 * SECOND);
        assert_eq!(world.nodes[known].received.len(), 2);
        assert_eq!(routes(&world, 1), 2);
    }
}

#[test]
fn who_leaves_and_closes_at_once_has_left_everywhere() {
    let mut world = World::new();
    let nodes = star(&mut world, 2);
    let mut stranger = Stranger::new(&mut world, 0, Role::Node);
    let router = world.routers[0].switch.name();
    let join = PduHeader::new(Action::Advertise, stranger.name(), router);
    let own = stranger.route(router, &world);
    stranger.send(&mut world, join, &[], &[own]);
    world.nodes[nodes[1]].core.send(stranger.name(), 7, b"to be cached", world.now).unwrap();
    world.run(SECOND);
    assert_eq!(routes(&world, 1), 2);
    let window = rhumb_trust::Window::starting(world.now.unix_s(), 600);
    let withdrawal = rhumb_wire::Statement::Withdrawal;
    let withdrawal = stranger.identity.certify(withdrawal, world.now.unix_ms, window).unwrap();
    stranger.send_and_close(&mut world, join, &[withdrawal]);
    world.run(SECOND);
    assert_eq!(routes(&world, 1), 1);
}
