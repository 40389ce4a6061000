//! The border of a trust domain: honest traffic flows over it, both ways,
//! with names and with labels, and each PDU is on an account; without a
//! capability nothing does, and who sends hears why.

use std::time::Duration;

use rhumb_capability::{DelegationId, Prefix, Principal};
use rhumb_node::core::{Event, SendFailure};
use rhumb_switch::{DropReason, Event as SwitchEvent, NamePrefix, short_address};
use rhumb_wire::nack::{CapabilityFault, Reason};

use crate::world::World;
use crate::world::border::PRINCIPAL;

const SECOND: Duration = Duration::from_secs(1);
/// A header with two names and one capability that is not delegated.
const STAMP_LEN: usize = 48 + 32;
const MISSING: Reason = Reason::Capability(CapabilityFault::Missing);

/// Three routers, of which the middle one demands
/// capabilities of the first, and both ends of a flow.
fn scene() -> (World, usize, usize) {
    let mut world = World::new();
    world.line(3);
    world.border(0, 1);
    let (a, b) = (world.node(0), world.node(2));
    (world, a, b)
}

fn failures(world: &mut World, node: usize) -> Vec<Reason> {
    let events = std::mem::take(&mut world.nodes[node].events);
    let reason = |event| match event {
        Event::SendFailed { reason: SendFailure::Nacked(reason), .. } => Some(reason),
        _ => None,
    };
    events.into_iter().filter_map(reason).collect()
}

fn told(world: &mut World, router: usize) -> Vec<CapabilityFault> {
    let switch = &mut world.routers[router].switch;
    let events = std::iter::from_fn(|| switch.poll_event());
    let fault = |event| match event {
        SwitchEvent::CapabilityRefused { fault, .. } => Some(fault),
        _ => None,
    };
    events.filter_map(fault).collect()
}

#[test]
fn stamped_traffic_flows_both_ways_and_is_counted() {
    let (mut world, a, b) = scene();
    for _ in 0..3 {
        world.send(a, b, b"over the border");
        world.send(b, a, b"and back");
        world.run(SECOND);
    }
    assert_eq!(world.nodes[b].received.len(), 3);
    assert_eq!(world.nodes[a].received.len(), 3);
    let before = world.billed(1, PRINCIPAL);
    let capture = world.capture(0, 1);
    for _ in 0..50 {
        world.send(a, b, &[2; 100]);
        world.settle();
    }
    // In labelled form, each behind a stamp; the last hop knows nothing of it.
    let lens: Vec<_> = capture.datagrams().iter().map(|d| d.bytes.len()).collect();
    assert_eq!(lens, [12 + STAMP_LEN + 16 + 4 + 100 + 16; 50]);
    assert_eq!(world.billed(1, PRINCIPAL) - before, 50);
    assert_eq!(world.nodes[b].received.len(), 53);
    assert_eq!(world.refused(1), []);
    assert_eq!(world.dropped(1, DropReason::Unstamped), 0);
}

#[test]
fn both_sides_of_a_border_may_demand() {
    let mut world = World::new();
    world.line(2);
    world.border(0, 1);
    world.border(1, 0);
    let (a, b) = (world.node(0), world.node(1));
    for round in 0..20 {
        world.send(a, b, &[round; 64]);
        world.send(b, a, &[round; 64]);
        world.run(Duration::from_millis(300));
    }
    assert_eq!((world.nodes[b].received.len(), world.nodes[a].received.len()), (20, 20));
    let ping = world.name(b);
    world.nodes[a].core.ping(ping, 64, 500, world.now).unwrap();
    world.run(SECOND);
    let ponged = |e: &Event| matches!(e, Event::Pong { from, .. } if *from == ping);
    assert!(world.nodes[a].events.iter().any(ponged), "a pong needs a stamp, too, and had one");
    assert!(world.billed(0, PRINCIPAL) > 20 && world.billed(1, PRINCIPAL) > 20);
    // The routers themselves can be asked without.
    for router in [0, 1] {
        let to = world.routers[router].switch.name();
        world.nodes[a].core.ping(to, 64, 64, world.now).unwrap();
        world.run(SECOND);
        let ponged = |e: &Event| matches!(e, Event::Pong { from, .. } if *from == to);
        assert!(world.nodes[a].events.iter().any(ponged), "router {router}");
    }
}

#[test]
fn without_a_capability_nothing_passes_and_the_source_hears_why() {
    let (mut world, a, b) = scene();
    world.routers[0].switch.set_stamps(None);
    world.send(a, b, &[1; 100]);
    world.run(20 * SECOND);
    assert!(world.nodes[b].received.is_empty());
    assert_eq!(failures(&mut world, a), [MISSING]);
    assert!(world.dropped(1, DropReason::Unstamped) > 0);
    assert_eq!(told(&mut world, 0)[0], CapabilityFault::Missing, "whoever runs it knows");
    // The other way nothing is demanded.
    world.send(b, a, b"free of charge");
    world.run(SECOND);
    assert_eq!(world.nodes[a].received.len(), 1);
    assert_eq!(world.billed(1, PRINCIPAL), 0);
}

#[test]
fn a_demand_holds_for_flows_that_have_their_labels_already() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    for _ in 0..4 {
        world.send(a, b, b"warm up");
        world.run(SECOND);
    }
    let foreign = world.routers[0].switch.name();
    world.demand(1, &[foreign]);
    world.send(a, b, &[1; 100]);
    world.run(20 * SECOND);
    assert_eq!(world.nodes[b].received.len(), 4);
    assert_eq!(failures(&mut world, a), [MISSING]);
    let credential = world.capability(1, PRINCIPAL, 0);
    world.stamp(0, 1, vec![(NamePrefix::ANY, credential)]);
    world.send(a, b, &[1; 100]);
    world.run(SECOND);
    assert_eq!(world.nodes[b].received.len(), 5);
}

#[test]
fn who_stamps_before_it_is_asked_to_loses_nothing() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    let credential = world.capability(1, PRINCIPAL, 0);
    world.stamp(0, 1, vec![(NamePrefix::ANY, credential)]);
    let foreign = world.routers[0].switch.name();
    for round in 0..20 {
        if round == 10 {
            world.demand(1, &[foreign]);
        }
        world.send(a, b, &[round; 64]);
        world.settle();
        if round % 5 == 0 {
            world.run(SECOND);
        }
    }
    world.run(SECOND);
    assert_eq!(world.nodes[b].received.len(), 20);
    assert!(world.billed(1, PRINCIPAL) >= 10);
}

#[test]
fn a_window_ends_without_loss_where_the_next_capability_is_there() {
    let (mut world, a, b) = scene();
    let credentials = [1, 0].map(|ahead| (NamePrefix::ANY, world.capability(1, PRINCIPAL, ahead)));
    let mut last_s = 0;
    for (_, credential) in &credentials {
        last_s = last_s.max(credential.not_after_s());
    }
    world.stamp(0, 1, credentials.into());
    let mut sent = 0;
    while world.now.unix_s() + 20 < last_s {
        world.send(a, b, b"on and on");
        world.run(7 * SECOND);
        sent += 1;
    }
    assert_eq!(world.nodes[b].received.len(), sent);
    assert_eq!(world.refused(1), []);
    // And then there is none.
    world.run(40 * SECOND);
    told(&mut world, 0);
    world.send(a, b, b"too late");
    world.run(20 * SECOND);
    assert_eq!(world.nodes[b].received.len(), sent);
    assert_eq!(failures(&mut world, a), [MISSING]);
    assert!(world.dropped(0, DropReason::NoCapability) > 0);
    assert!(!told(&mut world, 0).is_empty());
    assert_eq!(world.refused(1), [], "it knows by itself that it has none");
}

#[test]
fn the_largest_payload_leaves_room_for_the_stamp() {
    let (mut world, a, b) = scene();
    let max = world.nodes[a].core.max_body_len(world.name(b), world.now);
    world.send(a, b, &vec![7; max]);
    world.run(SECOND);
    assert!(world.nodes[b].received.is_empty());
    let Reason::TooBig(data_len) = failures(&mut world, a)[0] else { panic!("too big") };
    let less = world.nodes[a].core.max_body_len(world.name(b), world.now);
    assert_eq!(max - less, STAMP_LEN, "{data_len}");
    for _ in 0..3 {
        world.send(a, b, &vec![7; less]);
        world.run(SECOND);
    }
    assert_eq!(world.nodes[b].received.len(), 3);
}

#[test]
fn the_source_chooses_the_principal_and_the_destination_is_restricted() {
    let mut world = World::new();
    world.line(3);
    let foreign = world.routers[0].switch.name();
    world.demand(1, &[foreign]);
    let (a, other) = (world.node(0), world.node(0));
    let (b, c) = (world.node(2), world.node(2));
    let for_all = world.capability(1, Principal(1), 0);
    let for_a = world.capability(1, Principal(2), 0);
    let to_b = Prefix::host(short_address(&world.name(b)));
    let for_a = for_a.delegate(to_b, DelegationId::new(9).unwrap()).unwrap();
    let only_a = NamePrefix::parse(&world.name(a).to_string()[..20]).unwrap();
    world.stamp(0, 1, vec![(NamePrefix::ANY, for_all), (only_a, for_a)]);
    let billed = |world: &World| [1, 2].map(|it| world.billed(1, Principal(it)));
    for (round, times) in [1, 4].into_iter().enumerate() {
        let before = billed(&world);
        for (from, to) in [(a, b), (a, b), (other, b), (a, c)].repeat(times) {
            world.send(from, to, b"whose bill is it?");
            world.run(SECOND);
        }
        // The first ones come again, until the way is there.
        // From a to c, the narrower one does not serve.
        if round > 0 {
            let after = billed(&world);
            assert_eq!([0, 1].map(|at| after[at] - before[at]), [8, 8]);
        }
    }
    assert_eq!((world.nodes[b].received.len(), world.nodes[c].received.len()), (15, 5));
    let border = world.routers[1].switch.border().unwrap();
    let delegates: Vec<_> = border.verifier().accounts().all_delegates().collect();
    let [(account, usage)] = delegates[..] else { panic!("{delegates:?}") };
    assert_eq!((account.ids().next(), usage.packets), (DelegationId::new(9), billed(&world)[1]));
}

#[test]
fn several_workers_leave_the_border_to_the_switch() {
    let mut world = World::new();
    world.config.link.workers = 4;
    world.line(3);
    world.border(0, 1);
    let (a, b) = (world.node(0), world.node(2));
    for _ in 0..10 {
        world.send(a, b, b"stamped");
        world.send(b, a, b"and not");
        world.run(SECOND);
    }
    assert_eq!((world.nodes[b].received.len(), world.nodes[a].received.len()), (10, 10));
    assert!(world.billed(1, PRINCIPAL) >= 10);
    assert_eq!(world.refused(1), []);
}

#[test]
fn a_lossy_network_breaks_nothing() {
    let conditions = rhumb_io::memory::Conditions {
        loss: 0.05,
        duplication: 0.05,
        reordering: 0.1,
        ..Default::default()
    };
    let mut world = World::with_conditions(3, conditions);
    world.line(2);
    world.run(5 * SECOND);
    world.border(0, 1);
    let roles = [world.identity(rhumb_wire::Role::Node), world.identity(rhumb_wire::Role::Node)];
    let [a, b] = [0, 1].map(|at| world.node_of(roles[at].clone(), at));
    world.run(20 * SECOND);
    for _ in 0..200 {
        world.send(a, b, b"again");
        world.run(Duration::from_millis(20));
    }
    let arrived = world.nodes[b].received.len();
    assert!((130..=200).contains(&arrived), "{arrived} of 200 arrived");
    assert_eq!(world.refused(1), [], "links drop copies before they are verified");
}

#[test]
fn names_that_begin_alike() {
    let name = rhumb_wire::Name([0xAB; 32]);
    let text = name.to_string();
    for len in [0, 1, 2, 7, 8, 51, 52] {
        let prefix = NamePrefix::parse(&text[..len]).unwrap();
        assert!(prefix.contains(&name), "{len}");
        for bit in 0..256 {
            let mut other = name;
            other.0[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(prefix.contains(&other), bit >= 5 * len, "{len} characters, bit {bit}");
        }
    }
    assert_eq!(NamePrefix::parse(""), Some(NamePrefix::ANY));
    for wrong in ["A", "1", " ", "é", &format!("{text}a")] {
        assert_eq!(NamePrefix::parse(wrong), None, "{wrong}");
    }
}
