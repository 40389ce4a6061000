//! Section 5: a PDU of every action, in both forms, and what must be
//! refused. The data are those of the other files.

use rhumb_wire::accept::Accept;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::pdu::{Frame, Label, LabelledHeader, LabelledPdu};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Certificate, Metadata, Name, Pdu, PduHeader, Statement};
use serde_json::json;

use super::certificates;
use super::file::{File, hex};
use super::parties::{LIFETIME_S, NOW_S, Parties};

/// One PDU in full form.
struct Example {
    name: &'static str,
    action: Action,
    from: Name,
    to: Name,
    data: Vec<u8>,
    certificates: Vec<Certificate>,
}

pub(crate) fn write(parties: &Parties, file: &mut File) {
    for (example, tag) in examples(parties).into_iter().zip(1..) {
        example.write(tag, file);
    }
    let header = PayloadHeader { kind: PayloadKind::Datagram, port: 7 };
    let payload = [&header.emit()[..], b"good day"].concat();
    let mut unknown = Vec::new();
    Nack { reason: Reason::UnknownFlow, reporter: None }.emit(&mut unknown);
    for (name, action, data) in [
        ("Data", Action::Data, &payload[..]),
        ("Ping", Action::Ping, b"ping"),
        ("Nack", Action::Nack, &unknown),
    ] {
        let header =
            LabelledHeader { action, ttl: 64, tag: 0x0102_0304, label: Label(0xAABB_CCDD) };
        let mut bytes = Vec::new();
        header.emit(data, &mut bytes).unwrap();
        let fields = json!({
            "action": number(action), "ttl": header.ttl, "tag": header.tag, "label": header.label.0,
            "data": hex(data),
        });
        file.good("5", "labelled PDU", name, &fields, &bytes);
    }
    refusals(parties, file);
    labelled_refusals(file);
}

fn examples(parties: &Parties) -> Vec<Example> {
    let Parties { alice, bob, near, rib, domain, .. } = parties;
    let header = PayloadHeader { kind: PayloadKind::Datagram, port: 7 };
    let payload = [&header.emit()[..], b"good day"].concat();
    let (mut nack, mut accept, mut request, mut response) = <[Vec<u8>; 4]>::default().into();
    Nack { reason: Reason::NotYet(50), reporter: Some(near.name) }.emit(&mut nack);
    Accept { name: alice.name, until_s: NOW_S + LIFETIME_S, published: true }.emit(&mut accept);
    let id = RequestId(7);
    RibRequest { id, body: RibRequestBody::LookUpRoute(bob.name) }.emit(&mut request);
    RibResponse { id, body: RibResponseBody::Stored }.emit(&mut response);
    let mut metadata = Vec::new();
    Metadata::emit_list(std::slice::from_ref(&alice.metadata), &mut metadata);
    let label = FlowAccept { label: Label(0xAABB_CCDD) }.emit().to_vec();
    let example = |name, action, (from, to), data: &[u8], certificates| {
        let data = data.to_vec();
        Example { name, action, from, to, data, certificates }
    };
    let (out, back) = ((alice.name, bob.name), (bob.name, alice.name));
    let (up, down) = ((alice.name, near.name), (near.name, alice.name));
    let (to_group, of_group) = ((alice.name, domain.name), (domain.name, alice.name));
    let (asking, answering) = ((near.name, rib.name), (rib.name, near.name));
    vec![
        example("Data", Action::Data, out, &payload, vec![]),
        example("Data of nothing", Action::Data, out, b"", vec![]),
        example("Data with a chain", Action::Data, out, &payload, vec![alice.route(near)]),
        example("Nack", Action::Nack, back, &nack, vec![]),
        example("Ping", Action::Ping, out, b"ping", vec![]),
        example("Pong", Action::Pong, back, b"ping", vec![]),
        example("Advertise", Action::Advertise, up, b"", vec![alice.route(near)]),
        example(
            "Advertise with metadata",
            Action::Advertise,
            up,
            &metadata,
            vec![alice.route(near)],
        ),
        example(
            "Advertise to leave",
            Action::Advertise,
            up,
            b"",
            vec![alice.says(Statement::Withdrawal)],
        ),
        example("Accept", Action::Accept, down, &accept, vec![]),
        example("RibRequest", Action::RibRequest, asking, &request, vec![]),
        example("RibResponse", Action::RibResponse, answering, &response, vec![]),
        example("FlowAccept", Action::FlowAccept, back, &label, vec![]),
        example("GroupRequest", Action::GroupRequest, to_group, &[0; 4], vec![alice.route(near)]),
        example("GroupAccept", Action::GroupAccept, of_group, &[0; 9], vec![]),
        example("Heads", Action::Heads, answering, &[1], vec![]),
    ]
}

impl Example {
    fn write(&self, tag: u32, file: &mut File) {
        let header = PduHeader { tag, ..PduHeader::new(self.action, self.from, self.to) };
        let mut bytes = Vec::new();
        header.emit(&self.data, &self.certificates, &mut bytes).unwrap();
        let fields = json!({
            "action": number(self.action),
            "ttl": header.ttl,
            "tag": tag,
            "source": self.from.to_string(),
            "destination": self.to.to_string(),
            "data": hex(&self.data),
            "certificates": certificates::hexes(&self.certificates),
        });
        file.good("5", "PDU", self.name, &fields, &bytes);
    }
}

fn refusals(parties: &Parties, file: &mut File) {
    let Parties { alice, near, .. } = parties;
    let header = PduHeader::new(Action::Advertise, alice.name, near.name);
    let mut bytes = Vec::new();
    header.emit(b"data", &[alice.route(near)], &mut bytes).unwrap();
    let mut none = bytes[..PduHeader::LEN + 4].to_vec();
    none.push(0);
    file.refused("5", "PDU", "an empty list of certificates", &none, parsed(&none));
    let changes: [(&str, usize, u8); 8] = [
        ("another magic", 0, 0),
        ("version 2", 2, 2),
        ("action 0", 3, 0),
        ("action 13", 3, 13),
        ("an unknown flag", 4, 5),
        ("both flags", 4, 3),
        ("certificates without the flag", 4, 0),
        ("data longer than the PDU", 6, 1),
    ];
    for (name, at, value) in changes {
        let mut bent = bytes.clone();
        bent[at] = value;
        file.refused("5", "PDU", name, &bent, parsed(&bent));
    }
    let long = [&bytes[..], &[0]].concat();
    file.refused("5", "PDU", "a byte too many", &long, parsed(&long));
    let short = &bytes[..PduHeader::LEN - 1];
    file.refused("5", "PDU", "shorter than a header", short, parsed(short));
}

fn labelled_refusals(file: &mut File) {
    let header = LabelledHeader { action: Action::Data, ttl: 64, tag: 9, label: Label(7) };
    let mut bytes = Vec::new();
    header.emit(b"data", &mut bytes).unwrap();
    for (name, at, value) in [
        ("Pong", 3, Action::Pong as u8),
        ("Advertise", 3, Action::Advertise as u8),
        ("with certificates", 4, 3),
        ("data longer than the PDU", 7, 5),
        ("a byte too many", 7, 3),
    ] {
        let mut bent = bytes.clone();
        bent[at] = value;
        file.refused("5", "labelled PDU", name, &bent, LabelledPdu::parse(&bent).map(|_| ()));
    }
}

/// Checks all of a PDU, its certificates too.
fn parsed(bytes: &[u8]) -> Result<(), rhumb_wire::WireError> {
    match Frame::parse(bytes)? {
        Frame::Full(_) => Pdu::parse(bytes)?.certificates().map(|_| ()),
        Frame::Labelled(_) => Ok(()),
    }
}

fn number(action: Action) -> u8 {
    action as u8
}
