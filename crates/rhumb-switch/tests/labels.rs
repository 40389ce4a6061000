//! Labels take the place of names hop by hop, and a hop that forgets them loses nobody's data.

use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, PduHeader};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn both_ends_of_a_path_speak_in_labels() {
    let (mut world, a, b) = World::with_flow();
    let first = world.network.capture(world.nodes[a].address, world.routers[0].address);
    let last = world.network.capture(world.routers[2].address, world.nodes[b].address);
    world.send(a, b, b"12345678");
    world.settle();
    for capture in [first, last] {
        let lens: Vec<_> = capture.datagrams().iter().map(|d| d.bytes.len()).collect();
        assert_eq!(lens, [12 + LabelledHeader::LEN + 4 + 8 + 16]);
    }
    assert_eq!(world.nodes[b].received.last().unwrap(), &(world.name(a), b"12345678".to_vec()));
}

#[test]
fn a_router_that_forgets_its_labels_loses_nothing() {
    for restarted in 0..3 {
        let (mut world, a, b) = World::with_flow();
        let identity = world.routers[restarted].identity.clone();
        let (upstream, locator) = match restarted {
            1 => (None, Some(router_address(1))),
            _ => {
                let address = router_address(1);
                let name = Some(world.routers[1].switch.name());
                (Some(rhumb_switch::Remote { address, name }), None)
            }
        };
        drop(world.routers.remove(restarted));
        world.router(identity, router_address(restarted), upstream, locator);
        let router = world.routers.pop().unwrap();
        world.routers.insert(restarted, router);
        // Whoever had a session with it finds out by its silence, and comes back.
        world.run(40 * SECOND);
        let before = world.nodes[b].received.len();
        for _ in 0..20 {
            world.send(a, b, b"and on we go");
            world.run(Duration::from_millis(50));
        }
        world.run(5 * SECOND);
        assert_eq!(world.nodes[b].received.len(), before + 20, "router {restarted}");
    }
}

#[test]
fn evicted_flows_recover_without_loss() {
    let mut world = World::new();
    world.config.max_flows = 2;
    world.line(3);
    let (a, bs) = (world.node(0), [world.node(2), world.node(2), world.node(2)]);
    for round in 0..30 {
        for b in bs {
            world.send(a, b, &[round; 32]);
        }
        world.run(Duration::from_millis(200));
    }
    world.run(SECOND);
    for b in bs {
        assert_eq!(world.nodes[b].received.len(), 30);
    }
    let forgotten: u64 = (0..3).map(|r| world.dropped(r, DropReason::UnknownFlow)).sum();
    assert!(forgotten > 0, "three flows do not fit into two places");
}

#[test]
fn a_label_is_worth_nothing_on_another_session() {
    let (mut world, a, b) = World::with_flow();
    let received = world.nodes[b].received.len();
    let mut stranger = Stranger::new(&mut world, 0, Role::Node);
    let mut answered = 0;
    for place in 0..4 {
        for tag in 0..4 {
            let label = Label(tag << 24 | place);
            let header = LabelledHeader { action: Action::Data, ttl: 64, tag: 1, label };
            stranger.send_labelled(&mut world, header, b"let me ride along");
            answered += 1;
        }
    }
    assert_eq!(world.nodes[b].received.len(), received);
    assert_eq!(world.dropped(0, DropReason::UnknownFlow), answered);
    assert_eq!(stranger.labelled_nacks, vec![Reason::UnknownFlow; answered as usize]);
    // Nor can it make others forget theirs.
    let header = LabelledHeader { action: Action::Nack, ttl: 64, tag: 1, label: Label(1 << 24) };
    stranger.send_labelled(&mut world, header, &[7, 0, 0, 0]);
    assert_eq!(world.dropped(0, DropReason::UnexpectedAnswer), 1);
    world.send(a, b, b"undisturbed");
    world.settle();
    assert_eq!(world.nodes[b].received.len(), received + 1);
}

#[test]
fn a_sender_that_ignores_labels_is_told_seldom() {
    let mut world = World::new();
    world.line(1);
    let node = world.node(0);
    let mut stranger = Stranger::new(&mut world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let join = PduHeader::new(Action::Advertise, stranger.name(), via);
    let certificate = stranger.route(via, &world);
    stranger.send(&mut world, join, &[], &[certificate]);
    stranger.inbox.clear();
    let header = PduHeader::new(Action::Data, stranger.name(), world.name(node));
    for _ in 0..100 {
        stranger.send(&mut world, header, &[1, 0, 0, 1, 5], &[]);
    }
    let told =
        |s: &Stranger| s.inbox.iter().filter(|(h, _)| h.action == Action::FlowAccept).count();
    assert_eq!(told(&stranger), 1);
    world.run(SECOND);
    stranger.send(&mut world, header, &[1, 0, 0, 1, 5], &[]);
    assert_eq!(told(&stranger), 2);
    assert_eq!(world.nodes[node].received.len(), 101);
}

/// The data of a session's largest datagram, less seal, header and
/// names: what any hop can send on in full form.
#[test]
fn a_label_makes_no_room_for_more_data() {
    for workers in [1, 2] {
        let mut world = World::new();
        world.config.link.workers = workers;
        world.line(1);
        let node = world.node(0);
        let mut stranger = Stranger::new(&mut world, 0, Role::Node);
        let via = world.routers[0].switch.name();
        let join = PduHeader::new(Action::Advertise, stranger.name(), via);
        let certificate = stranger.route(via, &world);
        stranger.send(&mut world, join, &[], &[certificate]);
        let header = PduHeader::new(Action::Data, stranger.name(), world.name(node));
        for _ in 0..2 {
            stranger.send(&mut world, header, &[1, 0, 0, 1, 5], &[]);
        }
        let told = stranger.inbox.iter().find(|(header, _)| header.action == Action::FlowAccept);
        let label = Label(u32::from_be_bytes(told.unwrap().1[..].try_into().unwrap()));
        stranger.inbox.clear();
        let limit = usize::from(rhumb_link::DEFAULT_MAX_DATAGRAM_LEN) - 28 - 76;
        let before = world.nodes[node].received.len();
        for (len, tag) in [(limit, 7), (limit + 1, 8), (limit, 9)] {
            let mut data = vec![0; len];
            data[..4].copy_from_slice(&[1, 0, 0, 1]);
            let header = LabelledHeader { action: Action::Data, ttl: 64, tag, label };
            stranger.send_labelled(&mut world, header, &data);
        }
        assert_eq!(world.nodes[node].received.len(), before + 2);
        assert_eq!(stranger.nacks(), [Reason::TooBig(limit as u16)]);
        assert_eq!(world.dropped(0, DropReason::TooBig), 1);
    }
}
