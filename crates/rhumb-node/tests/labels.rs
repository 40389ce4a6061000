//! Labels in place of names, in both directions: used
//! once they are known, given up once they are not.

use std::time::Duration;

use rhumb_node::core::DropReason;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, Batch, Name, PduHeader};

use crate::world::{LATENCY, World};

const TO: Name = Name([7; 32]);
const LABEL: Label = Label(0xABCD);
const SECOND: Duration = Duration::from_secs(1);

/// A world in which the router has given a label for the flow to `TO`.
fn with_label() -> World {
    let mut world = World::joined();
    give_label(&mut world, TO, LABEL);
    world.run_for(2 * LATENCY);
    world
}

fn give_label(world: &mut World, destination: Name, label: Label) {
    let header = PduHeader::new(Action::FlowAccept, destination, world.core.name());
    world.router.send(header, &FlowAccept { label }.emit(), world.now);
}

/// The router says that it does not know the label of this PDU.
fn nack_label(world: &mut World, about: LabelledHeader) {
    let mut data = Vec::new();
    Nack { reason: Reason::UnknownFlow, reporter: None }.emit(&mut data);
    let header = LabelledHeader { action: Action::Nack, ..about };
    world.router.send_labelled(header, &data, world.now);
}

fn send(world: &mut World, to: Name) {
    world.core.send(to, 9, b"body", world.now).expect("room");
    world.run_for(LATENCY);
}

#[test]
fn a_flow_goes_by_label_once_the_router_gives_one() {
    let mut world = with_label();
    send(&mut world, TO);
    send(&mut world, Name([8; 32]));
    let (header, data) = world.router.labelled[0].clone();
    assert_eq!((header.action, header.label), (Action::Data, LABEL));
    assert_eq!((header.ttl, &data[4..]), (PduHeader::INITIAL_TTL, &b"body"[..]));
    assert_eq!(world.router.labelled.len(), 1);
    assert_eq!(world.router.seen(Action::Data).len(), 1, "the other flow has none");
}

#[test]
fn pings_and_data_without_a_copy_go_by_label_too() {
    let mut world = with_label();
    world.core.ping(TO, 3, 36, world.now).expect("room");
    let mut out = Batch::new();
    world.core.send_unkept(TO, b"payload", &mut out, world.now).expect("joined");
    world.put_on_wire(&out);
    world.run_for(LATENCY);
    let mut seen: Vec<_> =
        world.router.labelled.iter().map(|(header, _)| (header.action, header.ttl)).collect();
    seen.sort_by_key(|(_, ttl)| *ttl);
    assert_eq!(seen, [(Action::Ping, 3), (Action::Data, PduHeader::INITIAL_TTL)]);
}

#[test]
fn a_label_that_is_not_known_any_more_is_given_up_and_the_data_come_in_full() {
    let mut world = with_label();
    send(&mut world, TO);
    let (header, data) = world.router.labelled[0].clone();
    nack_label(&mut world, header);
    world.run_for(20 * LATENCY);
    let again = world.router.seen(Action::Data);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].header.tag, again[0].header.destination), (header.tag, TO));
    assert_eq!(again[0].data, data);
    // A new label is taken up again.
    give_label(&mut world, TO, Label(1));
    world.run_for(2 * LATENCY);
    send(&mut world, TO);
    assert_eq!(world.router.labelled.last().expect("a PDU").0.label, Label(1));
}

#[test]
fn a_nack_about_a_label_never_given_is_dropped() {
    let mut world = with_label();
    send(&mut world, TO);
    let (header, _) = world.router.labelled[0];
    nack_label(&mut world, LabelledHeader { label: Label(5), ..header });
    world.run_for(20 * LATENCY);
    assert_eq!(world.core.drops().of(DropReason::UnknownNack), 1);
    assert!(world.router.seen(Action::Data).is_empty());
    send(&mut world, TO);
    assert_eq!(world.router.labelled.len(), 2, "the label stands");
}

#[test]
fn labels_end_with_their_session() {
    let mut world = with_label();
    let session = world.router.session.expect("a session");
    world.router.endpoint.close(session, world.now.instant);
    world.run_for(SECOND);
    assert!(world.core.is_joined());
    send(&mut world, TO);
    assert!(world.router.labelled.is_empty());
    assert_eq!(world.router.seen(Action::Data).len(), 1);
}

#[test]
fn a_source_is_given_a_label_that_then_stands_for_it() {
    let mut world = World::joined();
    let from = Name([5; 32]);
    let in_full = PduHeader::new(Action::Data, from, world.core.name());
    world.router.send(in_full, &[1, 0, 0, 9, b'1'], world.now);
    world.run_for(3 * LATENCY);
    let told = world.router.seen(Action::FlowAccept)[0].clone();
    assert_eq!((told.header.source, told.header.destination), (world.core.name(), from));
    let label = FlowAccept::parse(&told.data).expect("a FlowAccept").label;
    let header = LabelledHeader { action: Action::Data, ttl: 9, tag: 1, label };
    world.router.send_labelled(header, &[1, 0, 0, 9, b'2'], world.now);
    let ping = LabelledHeader { action: Action::Ping, ..header };
    world.router.send_labelled(ping, b"data", world.now);
    world.run_for(3 * LATENCY);
    assert_eq!(world.arrived, [(from, 9, b"1".to_vec()), (from, 9, b"2".to_vec())]);
    let pong = world.router.seen(Action::Pong)[0].clone();
    assert_eq!((pong.header.destination, pong.data), (from, b"data".to_vec()));
}

#[test]
fn a_label_that_was_not_given_is_answered_so_that_names_come_back() {
    let mut world = World::joined();
    let header = LabelledHeader { action: Action::Data, ttl: 9, tag: 3, label: Label(99) };
    world.router.send_labelled(header, &[1, 0, 0, 9, b'x'], world.now);
    world.run_for(3 * LATENCY);
    assert!(world.arrived.is_empty());
    assert_eq!(world.core.drops().of(DropReason::UnknownLabel), 1);
    let (answer, data) = world.router.labelled[0].clone();
    assert_eq!((answer.action, answer.tag, answer.label), (Action::Nack, 3, Label(99)));
    assert_eq!(Nack::parse(&data).expect("a NACK").reason, Reason::UnknownFlow);
}
