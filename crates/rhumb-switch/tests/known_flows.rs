//! What happens to others leaves known flows alone: they keep their labels, through sessions that
//! end, NACKs, and routes that change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_io::memory::Capture;
use rhumb_switch::{Config, Tables};
use rhumb_trust::Window;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::pdu::LabelledHeader;
use rhumb_wire::{Action, PduHeader, Statement};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);
/// With one thing that happens in each: 1,000 a second.
const STEP: Duration = Duration::from_millis(1);
/// Strangers at busy sources begin 166 handshakes at once, and no more.
const STEPS: usize = 150;
const BODY: &[u8] = b"twelve bytes";

fn joined(world: &mut World, router: usize, role: Role) -> Stranger {
    let mut stranger = Stranger::new(world, router, role);
    let via = world.routers[router].switch.name();
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    let route = stranger.route(via, world);
    stranger.send(world, header, &[], &[route]);
    stranger.inbox.clear();
    stranger
}

/// How many datagrams carried the body under a label, and how many under names.
fn forms(capture: &Capture) -> (usize, usize) {
    let of = |header: usize| {
        let len = 12 + header + 4 + BODY.len() + 16;
        capture.datagrams().iter().filter(|it| it.bytes.len() == len).count()
    };
    (of(LabelledHeader::LEN), of(PduHeader::LEN))
}

/// Sends once in each step, beside what else happens. All of it
/// arrives, and under labels on each link of the line.
fn stays_labelled(
    world: &mut World,
    (a, b): (usize, usize),
    links: &[(SocketAddr, SocketAddr)],
    mut happens: impl FnMut(&mut World, usize),
) {
    let captures: Vec<_> =
        links.iter().map(|(from, to)| world.network.capture(*from, *to)).collect();
    let before = world.nodes[b].received.len();
    let again = |world: &World| -> u64 {
        (0..world.routers.len()).map(|at| world.counters(at).flows_looked_into_again).sum()
    };
    let again_before = again(world);
    for step in 0..STEPS {
        happens(world, step);
        world.send(a, b, BODY);
        world.run(STEP);
    }
    assert_eq!(world.nodes[b].received.len(), before + STEPS);
    for capture in captures {
        assert_eq!(forms(&capture), (STEPS, 0));
    }
    // Whoever shares a bucket with one of the others by chance is looked into once more.
    let again = again(world) - again_before;
    assert!(again <= 5, "{again}");
}

fn line_of(world: &World, a: usize, b: usize) -> Vec<(SocketAddr, SocketAddr)> {
    let routers = world.routers.iter().map(|router| router.address);
    let mut stops = vec![world.nodes[a].address];
    stops.extend(routers);
    stops.push(world.nodes[b].address);
    stops.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn sessions_that_end_leave_the_flows_of_others_their_labels() {
    for at in [0, 1, 2] {
        let (mut world, a, b) = World::with_flow();
        let links = line_of(&world, a, b);
        stays_labelled(&mut world, (a, b), &links, |world, step| {
            // One that only comes and goes; one that joins
            // and leaves; one that has a flow to itself.
            if step % 3 == 0 {
                Stranger::new(world, at, Role::Node).close(world);
                return;
            }
            let mut stranger = joined(world, at, Role::Node);
            let to_itself = PduHeader::new(Action::Ping, stranger.name(), stranger.name());
            if step % 3 == 1 {
                stranger.send(world, to_itself, &[1; 8], &[]);
            }
            stranger.close(world);
        });
    }
}

#[test]
fn sessions_that_end_at_one_switch_leave_the_flows_of_those_that_share_its_tables() {
    let mut world = World::new();
    let tables = Arc::new(Tables::new(&Config::default(), &[9; 32], world.now.instant));
    world.tables = Some(tables);
    world.two_apart();
    let (a, b) = (world.node(0), world.node(0));
    world.warm_up(a, b);
    let links =
        [(world.nodes[a].address, router_address(0)), (router_address(0), world.nodes[b].address)];
    stays_labelled(&mut world, (a, b), &links, |world, step| {
        let mut stranger = joined(world, 1, Role::Node);
        let to_itself = PduHeader::new(Action::Ping, stranger.name(), stranger.name());
        if step % 2 == 0 {
            stranger.send(world, to_itself, &[1; 8], &[]);
        }
        stranger.close(world);
    });
}

#[test]
fn nacks_touch_the_flow_that_they_are_about_and_no_other() {
    let (mut world, a, b) = World::with_flow();
    let links = line_of(&world, a, b);
    // Two that play into each other's hands: what one sends, the other
    // refuses, and says of itself that it is a router.
    let mut sender = joined(&mut world, 0, Role::Node);
    let mut refuser = joined(&mut world, 0, Role::Router);
    let there = PduHeader::new(Action::Ping, sender.name(), refuser.name());
    let back = PduHeader::new(Action::Nack, refuser.name(), sender.name());
    let reasons = [
        Reason::NotAuthorised,
        Reason::BadCertificate,
        Reason::Expired,
        Reason::Unreachable(1),
        Reason::TtlExceeded,
    ];
    let relayed = world.counters(0).relayed_back;
    stays_labelled(&mut world, (a, b), &links, |world, step| {
        sender.send(world, there, &[1; 64], &[]);
        let mut data = Vec::new();
        Nack { reason: reasons[step % reasons.len()], reporter: None }.emit(&mut data);
        refuser.send(world, back, &data, &[]);
    });
    assert_eq!(world.counters(0).relayed_back - relayed, STEPS as u64, "they were about a flow");
}

#[test]
fn routes_of_others_that_change_leave_flows_their_labels() {
    let (mut world, a, b) = World::with_flow();
    let links = line_of(&world, a, b);
    let mut fickle = joined(&mut world, 2, Role::Node);
    let mut friend = joined(&mut world, 0, Role::Node);
    let target = PduHeader::new(Action::Ping, friend.name(), fickle.name());
    let via = world.routers[2].switch.name();
    let join = PduHeader::new(Action::Advertise, fickle.name(), via);
    stays_labelled(&mut world, (a, b), &links, |world, _| {
        friend.send(world, target, &[1; 64], &[]);
        let window = Window::starting(world.now.unix_s(), 600);
        let leave = fickle.identity.certify(Statement::Withdrawal, world.now.unix_ms, window);
        fickle.send(world, join, &[], &[leave.unwrap()]);
        world.now = world.now.plus(STEP);
        let route = fickle.route(via, world);
        fickle.send(world, join, &[], &[route]);
    });
}

#[test]
fn copies_at_other_workers_stand_while_others_come_and_go() {
    let mut world = World::new();
    world.config.link.workers = 2;
    world.line(1);
    // It sends on lane 1, which is the other worker's.
    let identity = loop {
        let identity = world.identity(Role::Node);
        if identity.name().0[0] % 8 == 1 {
            break identity;
        }
    };
    let a = world.node_of(identity, 0);
    world.run(SECOND);
    let b = world.node(0);
    for _ in 0..2 {
        world.warm_up(a, b);
    }
    let by_worker = |world: &World| world.routers[0].workers[0].counters().forwarded_pdus;
    let before = by_worker(&world);
    let links = line_of(&world, a, b);
    stays_labelled(&mut world, (a, b), &links, |world, step| {
        let mut stranger = joined(world, 0, Role::Node);
        let to_itself = PduHeader::new(Action::Ping, stranger.name(), stranger.name());
        if step % 2 == 0 {
            stranger.send(world, to_itself, &[1; 8], &[]);
        }
        stranger.close(world);
    });
    let forwarded = (by_worker(&world) - before) as usize;
    assert!(forwarded >= STEPS - 5, "{forwarded} of {STEPS} by the worker that has the lane");
}

#[test]
fn a_fresh_handshake_ends_the_labels_of_its_peer_and_of_nobody_else() {
    let (mut world, a, b) = World::with_flow();
    let mut receiver = joined(&mut world, 2, Role::Node);
    let target = receiver.name();
    let labels = [0xAB, 0xCD];
    let send = |world: &mut World| {
        world.nodes[a].core.send(target, 7, BODY, world.now).unwrap();
        world.run(SECOND);
    };
    send(&mut world);
    receiver.settle(&mut world);
    let last = world.network.capture(world.routers[2].address, receiver.address);
    let header = PduHeader::new(Action::FlowAccept, target, world.name(a));
    receiver.send(&mut world, header, &[0, 0, 0, labels[0]], &[]);
    send(&mut world);
    assert_eq!(forms(&last), (1, 0), "the label is used");
    // Another process of the same name: it knows nothing of the label.
    let identity = receiver.identity.clone();
    let mut other = Stranger::with_identity(&mut world, 2, identity);
    let last = world.network.capture(world.routers[2].address, other.address);
    let links = line_of(&world, a, b);
    stays_labelled(&mut world, (a, b), &links, |world, _| other.keep_alive(world));
    send(&mut world);
    other.settle(&mut world);
    let names = other.inbox.iter().filter(|(header, _)| header.action == Action::Data).count();
    assert!(names > 0 && forms(&last).0 == 0, "names, until it has given a label");
    other.send(&mut world, header, &[0, 0, 0, labels[1]], &[]);
    send(&mut world);
    assert_eq!(forms(&last).0, 1, "its own label is used");
}
