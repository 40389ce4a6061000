//! Who has a session as a foreign peer and sends whatever it likes gets nothing over the border
//! that is not stamped for it, and nobody is billed for the attempt.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::sync::Arc;

use rhumb_capability::{
    Credential, Encapsulation, PacketIds, Principal, Revocation, Revocations, Stamper,
};
use rhumb_switch::{DropReason, PDU_PROTOCOL, short_address};
use rhumb_wire::datagram::RecordHeader;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::{CapabilityFault, Nack, Reason};
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, Name, PduHeader};
use world::border::PRINCIPAL;
use world::{Stranger, World};

use crate::world;

const DATA: &[u8] = &[
    1, 0, 0, 7, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
    9, 9, 9, 9, 9, 9,
];
const REFUSED: Reason = Reason::Capability(CapabilityFault::Refused);
const TIME: Reason = Reason::Capability(CapabilityFault::Time);
const MISSING: Reason = Reason::Capability(CapabilityFault::Missing);

/// A router that demands capabilities of a stranger, which is attached there, and a node.
struct Scene {
    world: World,
    node: usize,
    stranger: Stranger,
    ids: PacketIds,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        world.line(1);
        let node = world.node(0);
        let mut stranger = Stranger::new(&mut world, 0, Role::Node);
        let router = world.routers[0].switch.name();
        world.demand(0, &[stranger.name()]);
        let join = PduHeader::new(Action::Advertise, stranger.name(), router);
        let certificate = stranger.route(router, &world);
        stranger.send(&mut world, join, &[], &[certificate]);
        assert!(stranger.inbox.iter().any(|(header, _)| header.action == Action::Accept));
        stranger.inbox.clear();
        Self { world, node, stranger, ids: PacketIds::new(0, 5) }
    }

    fn credential(&self) -> Credential {
        self.world.capability(0, PRINCIPAL, 0)
    }

    fn data(&self) -> Vec<u8> {
        self.pdu(Action::Data)
    }

    fn pdu(&self, action: Action) -> Vec<u8> {
        let mut pdu = Vec::new();
        let to = self.world.name(self.node);
        PduHeader { tag: 3, ..PduHeader::new(action, self.stranger.name(), to) }
            .emit(DATA, &[], &mut pdu)
            .unwrap();
        pdu
    }

    fn names(&self) -> (Name, Name) {
        (self.stranger.name(), self.world.name(self.node))
    }

    /// A PDU behind a stamp that speaks of these names.
    fn stamped_for(
        &mut self,
        credentials: &[&Credential],
        (source, destination): (Name, Name),
        protocol: u8,
        pdu: &[u8],
    ) -> Vec<u8> {
        let stamper = Stamper::new(credentials, Encapsulation::Datagram).unwrap();
        let mut buffer = vec![0; stamper.headroom()];
        let at = buffer.len();
        buffer.extend_from_slice(pdu);
        let addresses = (short_address(&source), short_address(&destination));
        let now_us = self.world.now.unix_ms * 1000;
        let end = buffer.len();
        stamper
            .stamp_payload(&mut buffer, at..end, addresses, protocol, &mut self.ids, now_us)
            .unwrap();
        buffer
    }

    fn stamped(&mut self, credential: &Credential, pdu: &[u8]) -> Vec<u8> {
        self.stamped_for(&[credential], self.names(), PDU_PROTOCOL, pdu)
    }

    fn send(&mut self, plaintext: &[u8]) {
        let mut datagram = vec![0; RecordHeader::LEN];
        datagram.extend_from_slice(plaintext);
        self.stranger.send_datagram(&mut self.world, datagram);
    }

    fn arrived(&self) -> usize {
        self.world.nodes[self.node].received.len()
    }

    /// Sends, and sees that it was refused for this reason, billed to nobody, and answered so.
    #[track_caller]
    fn refuses(&mut self, plaintext: &[u8], reason: &str, told: Option<Reason>) {
        let (arrived, billed) = (self.arrived(), self.billed());
        let before = self.world.refused(0);
        let count = self.world.dropped(0, DropReason::CapabilityRefused);
        self.stranger.inbox.clear();
        self.send(plaintext);
        let counted =
            |all: &[(&str, u64)]| all.iter().find(|it| it.0 == reason).map_or(0, |it| it.1);
        assert_eq!(counted(&self.world.refused(0)), counted(&before) + 1, "{reason}");
        assert_eq!(self.world.dropped(0, DropReason::CapabilityRefused), count + 1);
        assert_eq!((self.arrived(), self.billed()), (arrived, billed), "{reason}");
        assert_eq!(self.stranger.nacks(), Vec::from_iter(told), "{reason}");
    }

    /// Sends, and sees that it arrived and was billed.
    #[track_caller]
    fn takes(&mut self, plaintext: &[u8]) {
        let (arrived, billed) = (self.arrived(), self.billed());
        self.send(plaintext);
        assert_eq!((self.arrived(), self.billed()), (arrived + 1, billed + 1));
    }

    fn billed(&self) -> u64 {
        let border = self.world.routers[0].switch.border().unwrap();
        border.verifier().accounts().total().packets
    }

    /// The label that the router gave for the flow.
    fn label(&self) -> Label {
        let told =
            self.stranger.inbox.iter().find(|(header, _)| header.action == Action::FlowAccept);
        FlowAccept::parse(&told.unwrap().1).unwrap().label
    }

    fn labelled(&self, action: Action, label: Label) -> Vec<u8> {
        let mut pdu = Vec::new();
        LabelledHeader { action, ttl: 64, tag: 4, label }.emit(DATA, &mut pdu).unwrap();
        pdu
    }
}

#[test]
fn only_what_is_stamped_passes_in_either_form() {
    let mut scene = Scene::new();
    let (credential, data) = (scene.credential(), scene.data());
    let stamped = scene.stamped(&credential, &data);
    scene.takes(&stamped);
    let label = scene.label();
    let labelled = scene.labelled(Action::Data, label);
    let stamped = scene.stamped(&credential, &labelled);
    scene.takes(&stamped);
    scene.stranger.inbox.clear();
    for (count, plain) in [data, labelled].iter().enumerate() {
        scene.send(plain);
        assert_eq!(scene.stranger.nacks(), [MISSING]);
        assert_eq!(scene.world.dropped(0, DropReason::Unstamped), count as u64 + 1);
    }
    for action in [Action::Ping, Action::Pong] {
        let pdu = scene.pdu(action);
        scene.send(&pdu);
    }
    assert_eq!(scene.world.dropped(0, DropReason::Unstamped), 4);
    assert_eq!((scene.arrived(), scene.billed()), (2, 2));
}

#[test]
fn capabilities_of_another_time_are_refused() {
    let mut scene = Scene::new();
    let data = scene.data();
    for (ahead, reason) in [(-2, "window_expired"), (2, "window_early")] {
        let credential = scene.world.capability(0, PRINCIPAL, ahead);
        let stamped = scene.stamped(&credential, &data);
        scene.refuses(&stamped, reason, Some(TIME));
    }
    let credential = scene.credential();
    let stamped = scene.stamped(&credential, &data);
    scene.world.run(std::time::Duration::from_secs(4));
    scene.refuses(&stamped, "stale", Some(TIME));
    let mut other_epoch = scene.stamped(&credential, &data);
    other_epoch[48 + 16 + 5] ^= 1;
    scene.refuses(&other_epoch, "epoch", Some(TIME));
}

#[test]
fn a_stamp_cannot_be_made_without_the_secret() {
    let mut scene = Scene::new();
    let (credential, data) = (scene.credential(), scene.data());
    // At whose cost: the principal stands behind the waypoint.
    let mut other = scene.stamped(&credential, &data);
    other[48 + 16 + 3] ^= 1;
    scene.refuses(&other, "binding", Some(REFUSED));
    let mut guessed = scene.stamped(&credential, &data);
    guessed[79] ^= 1;
    scene.refuses(&guessed, "binding", Some(REFUSED));
    // Another principal's is good, and goes on that one's account.
    let theirs = scene.world.capability(0, Principal(8), 0);
    let stamped = scene.stamped(&theirs, &data);
    scene.takes(&stamped);
    assert_eq!((scene.world.billed(0, PRINCIPAL), scene.world.billed(0, Principal(8))), (0, 1));
}

#[test]
fn nothing_passes_twice() {
    let mut scene = Scene::new();
    let (credential, data) = (scene.credential(), scene.data());
    let stamped = scene.stamped(&credential, &data);
    scene.takes(&stamped);
    scene.refuses(&stamped, "replay", None);
    let label = {
        scene.stranger.inbox.clear();
        let fresh = scene.stamped(&credential, &data);
        scene.world.run(std::time::Duration::from_secs(1));
        scene.takes(&fresh);
        scene.label()
    };
    let labelled = scene.labelled(Action::Data, label);
    let stamped = scene.stamped(&credential, &labelled);
    scene.takes(&stamped);
    scene.refuses(&stamped, "replay", None);
}

#[test]
fn what_is_revoked_ends_at_once() {
    let mut scene = Scene::new();
    let (credential, data) = (scene.credential(), scene.data());
    let stamped = scene.stamped(&credential, &data);
    scene.takes(&stamped);
    let mut revocations = Revocations::new();
    let order = Revocation { principal: PRINCIPAL, delegation: None, until_s: u64::MAX };
    revocations.apply(1, &[order]).unwrap();
    let border = scene.world.routers[0].switch.border_mut().unwrap();
    border.verifier_mut().set_revocations(Arc::new(revocations));
    let stamped = scene.stamped(&credential, &data);
    scene.refuses(&stamped, "revoked", Some(Reason::Capability(CapabilityFault::Revoked)));
}

#[test]
fn a_stamp_is_for_one_router_and_for_what_it_says() {
    let mut scene = Scene::new();
    let (credential, data) = (scene.credential(), scene.data());
    scene.world.router(scene.world.identity(Role::Router), world::router_address(5), None, None);
    let elsewhere = scene.world.capability(1, PRINCIPAL, 0);
    let stamped = scene.stamped(&elsewhere, &data);
    scene.refuses(&stamped, "wrong_waypoint", Some(REFUSED));
    let two = scene.stamped_for(&[&credential, &elsewhere], scene.names(), PDU_PROTOCOL, &data);
    scene.refuses(&two, "count", Some(REFUSED));
    let (source, destination) = scene.names();
    let mixed = [(destination, source), (source, source), (destination, destination)];
    for names in mixed {
        let stamped = scene.stamped_for(&[&credential], names, PDU_PROTOCOL, &data);
        scene.refuses(&stamped, "inner_mismatch", Some(REFUSED));
    }
    // The stamp of a UDP packet of some IP waypoint with the same key.
    let stamped = scene.stamped_for(&[&credential], scene.names(), 17, &data);
    scene.refuses(&stamped, "inner_mismatch", Some(REFUSED));
    // A label stands for its names.
    let stamped = scene.stamped(&credential, &data);
    scene.takes(&stamped);
    let labelled = scene.labelled(Action::Data, scene.label());
    for names in mixed {
        let stamped = scene.stamped_for(&[&credential], names, PDU_PROTOCOL, &labelled);
        scene.refuses(&stamped, "inner_mismatch", Some(REFUSED));
    }
}

#[test]
fn malformed_stamps_are_dropped_and_counted() {
    let mut scene = Scene::new();
    let (credential, data) = (scene.credential(), scene.data());
    let good = scene.stamped(&credential, &data);
    scene.refuses(&good[..60], "truncated", None);
    scene.refuses(&good[..1], "truncated", None);
    for (at, value, reason) in
        [(0, 0x13, "reserved"), (1, 99, "suite"), (2, 0, "count"), (3, 1, "pointer")]
    {
        let mut bad = good.clone();
        bad[at] = value;
        scene.refuses(&bad, reason, None);
    }
    scene.refuses(&[&good[..], &[0]].concat(), "inner_length", None);
    // Behind a good stamp, no PDU, or one that needs none.
    let malformed = |scene: &Scene| scene.world.dropped(0, DropReason::MalformedPdu);
    for pdu in
        [vec![], vec![0; 100], good.clone(), scene.pdu(Action::Nack), scene.pdu(Action::Advertise)]
    {
        let before = malformed(&scene);
        let stamped = scene.stamped(&credential, &pdu);
        scene.send(&stamped);
        assert_eq!(malformed(&scene), before + 1);
    }
    // And a label that was never given.
    let labelled = scene.labelled(Action::Data, Label(77));
    let stamped = scene.stamped(&credential, &labelled);
    scene.send(&stamped);
    assert_eq!(scene.world.dropped(0, DropReason::UnknownFlow), 1);
    assert_eq!((scene.arrived(), scene.billed()), (0, 0));
    scene.takes(&good);
}

#[test]
fn refusals_are_answered_within_limits() {
    let mut scene = Scene::new();
    let data = scene.data();
    for _ in 0..2500 {
        scene.send(&data);
    }
    assert_eq!(scene.world.dropped(0, DropReason::Unstamped), 2500);
    assert_eq!(scene.stranger.nacks().len(), 2000);
    // What is too short to be answered is not.
    let mut short = Vec::new();
    let (from, to) = scene.names();
    PduHeader::new(Action::Data, from, to).emit(&[1; 3], &[], &mut short).unwrap();
    scene.world.run(std::time::Duration::from_secs(1));
    scene.send(&short);
    assert_eq!(scene.stranger.nacks(), []);
}

#[test]
fn nacks_pass_the_border_unstamped_but_carry_little() {
    let mut scene = Scene::new();
    // A flow to the stranger, about which it may send NACKs.
    let (from, to) = (scene.node, scene.stranger.name());
    for _ in 0..2 {
        scene.world.nodes[from].core.send(to, 7, &[5; 100], scene.world.now).unwrap();
        scene.world.run(std::time::Duration::from_secs(1));
    }
    let mut nack = Vec::new();
    let reporter = Some(scene.stranger.name());
    Nack { reason: Reason::Unreachable(1), reporter }.emit(&mut nack);
    let mut pdu = Vec::new();
    let header = PduHeader::new(Action::Nack, to, scene.world.name(from));
    header.emit(&nack, &[], &mut pdu).unwrap();
    for _ in 0..1000 {
        scene.send(&pdu);
    }
    let most = (1 << 16) / pdu.len() as u64;
    assert_eq!(scene.world.counters(0).relayed_back, most);
    assert_eq!(scene.world.dropped(0, DropReason::Overloaded), 1000 - most);
}
