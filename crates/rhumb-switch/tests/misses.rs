//! PDUs of no known flow are looked into up to a bound for each host: beyond it they cost neither
//! others nor the host's own flows anything, and who is honest only has to resend.

use std::collections::HashMap;
use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_trust::{Access, Rule, Standing};
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, Name, PduHeader};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
/// What strangers of one host may spend at once, and how
/// long it takes until they have as much again.
const MISSES: usize = 2000;
const QUESTIONS: u64 = 100;
const WINDOW: Duration = Duration::from_millis(100);
/// How many times that much a router's may.
const OF_A_ROUTER: usize = 5;
/// Each with so many names: together more than twice the misses of a
/// window, and more than are near in a table of flows.
const SERVERS: usize = 18;
const NAMES: usize = 250;
/// Too short for an answer.
const TINY: &[u8] = &[1];
/// What a node takes for a datagram.
const DATA: &[u8] = &[1, 0, 0, 9, 42];

/// A world of one router with a node.
fn world() -> (World, usize) {
    let mut world = World::new();
    // To have a denial proven is a question, too.
    world.config.check_rib_answers = 0;
    world.line(1);
    let node = world.node(0);
    (world, node)
}

fn joined(world: &mut World) -> Stranger {
    let mut stranger = Stranger::new(world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let route = stranger.route(via, world);
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    stranger.send(world, header, &[], &[route]);
    stranger
}

fn data_to(stranger: &Stranger, destination: Name) -> PduHeader {
    PduHeader::new(Action::Data, stranger.name(), destination)
}

/// Sends so many PDUs to names that nobody has, in one moment.
fn flood(world: &mut World, stranger: &mut Stranger, count: usize) {
    for number in 0..count {
        let mut name = [9; 32];
        name[..8].copy_from_slice(&(number as u64).to_be_bytes());
        stranger.send(world, data_to(stranger, Name(name)), TINY, &[]);
    }
}

/// The label that the router gave.
fn label_of(stranger: &Stranger) -> Label {
    let accept = |(header, data): &(PduHeader, Vec<u8>)| {
        (header.action == Action::FlowAccept)
            .then(|| FlowAccept::parse(data).expect("a label").label)
    };
    stranger.inbox.iter().find_map(accept).expect("it was told one")
}

#[test]
fn a_flood_is_bounded_and_costs_known_flows_and_other_hosts_nothing() {
    let (mut world, node) = world();
    let to = world.name(node);
    let other = world.node(0);
    let mut flooding = joined(&mut world);
    // A flow that is known, with a label.
    flooding.send(&mut world, data_to(&flooding, to), DATA, &[]);
    world.run(WINDOW);
    flooding.settle(&mut world);
    let label = label_of(&flooding);
    let asked = world.counters(0).rib_requests;
    flood(&mut world, &mut flooding, MISSES);
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), 0);
    flood(&mut world, &mut flooding, 10);
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), 10);
    assert_eq!(world.counters(0).rib_requests - asked, QUESTIONS);

    let before = world.nodes[node].received.len();
    for _ in 0..3 {
        flooding.send(&mut world, data_to(&flooding, to), DATA, &[]);
        let header = LabelledHeader { action: Action::Data, ttl: 9, tag: 3, label };
        flooding.send_labelled(&mut world, header, DATA);
    }
    assert_eq!(world.nodes[node].received.len(), before + 6, "known flows go on");
    world.send(other, node, b"of another host");
    world.settle();
    assert_eq!(world.nodes[node].received.len(), before + 7, "others begin flows");
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), 10);
}

#[test]
fn who_is_refused_is_told_and_may_resend_when_the_window_is_over() {
    let (mut world, node) = world();
    let to = world.name(node);
    let mut stranger = joined(&mut world);
    world.run(WINDOW);
    flood(&mut world, &mut stranger, MISSES);
    stranger.inbox.clear();
    stranger.send(&mut world, data_to(&stranger, to), DATA, &[]);
    let nacks = stranger.nacks();
    let [Reason::Overloaded(wait_ms)] = nacks[..] else { panic!("told {nacks:?}") };
    assert!(world.nodes[node].received.is_empty());
    world.run(Duration::from_millis(wait_ms.into()));
    stranger.send(&mut world, data_to(&stranger, to), DATA, &[]);
    assert_eq!(world.nodes[node].received.len(), 1);
    // The share is whole again, and no more than that.
    world.run(WINDOW);
    flood(&mut world, &mut stranger, MISSES + 1);
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), 2);
}

#[test]
fn a_router_that_is_admitted_has_the_shares_of_several_nodes_and_one_that_says_so_itself_has_not() {
    let (mut world, _) = world();
    let mut stranger = Stranger::new(&mut world, 0, Role::Router);
    flood(&mut world, &mut stranger, MISSES + 3);
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), 3);
    assert_eq!(world.dropped(0, DropReason::NotAuthorised), MISSES as u64);

    let mut admitted = Stranger::new(&mut world, 0, Role::Router);
    let rule = Rule::named(admitted.name(), Standing::Admitted);
    let access = Access { rules: vec![rule], ..Access::default() };
    let now = world.now;
    world.routers[0].switch.set_access(access, now);
    flood(&mut world, &mut admitted, OF_A_ROUTER * MISSES + 3);
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), 6);
    assert_eq!(world.dropped(0, DropReason::NotAuthorised), ((1 + OF_A_ROUTER) * MISSES) as u64);
}

/// A node that begins more flows in one moment than are looked into, and in the end more than are
/// near in the table: all that it sends arrives.
#[test]
fn an_honest_burst_beyond_the_bound_arrives() {
    let (mut world, node) = world();
    let mut names = Vec::new();
    let new_server = |_| {
        let mut server = joined(&mut world);
        for _ in 0..NAMES {
            let owner = world.identity(Role::Capsule);
            server.serve(&mut world, &owner, 0);
            names.push(owner.name());
        }
        // A RIB takes so many statements at once from one router.
        world.run(SECOND);
        assert_eq!(server.nacks(), []);
        server
    };
    let mut servers: Vec<Stranger> = (0..SERVERS).map(new_server).collect();
    for (half, names) in names.chunks(names.len() / 2).enumerate() {
        servers.iter_mut().for_each(|server| server.keep_alive(&mut world));
        send_to_all(&mut world, node, names);
        let refused = (1 + half) * (names.len() - MISSES);
        assert_eq!(world.dropped(0, DropReason::TooManyMisses), refused as u64);
        world.run(SECOND);
    }
    let flows = world.routers[0].switch.status(world.now).flows;
    assert!(flows > 4096, "{flows} flows");
    send_to_all(&mut world, node, &names);
    assert!(
        servers.iter_mut().map(|server| arrived(&mut world, server)).all(|each| each == [2; NAMES])
    );
}

fn send_to_all(world: &mut World, from: usize, names: &[Name]) {
    for names in names.chunks(50) {
        for name in names {
            let sent = world.nodes[from].core.send(*name, 7, b"one of a flow", world.now);
            sent.expect("room");
        }
        world.settle();
    }
}

/// How many PDUs came for each name that a server answers for.
fn arrived(world: &mut World, server: &mut Stranger) -> Vec<usize> {
    server.settle(world);
    let mut counts = HashMap::new();
    for (header, _) in server.inbox.iter().filter(|(header, _)| header.action == Action::Data) {
        *counts.entry(header.destination).or_insert(0) += 1;
    }
    counts.into_values().collect()
}
