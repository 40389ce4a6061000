//! Section 11 of the specification: stamped PDUs, byte for byte. The vectors are made here, and
//! again by the model in Python (`tests/python/test_platypus.py`).
//!
//! `RHUMB_WRITE_VECTORS=1` writes them, as `cargo xtask vectors` does.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::path::Path;

use rhumb_capability::{
    Capability, Credential, DelegationId, Delegations, Encapsulation, Epoch, EpochKeys, Flags,
    HeaderView, Master, PacketIds, Prefix, Principal, Scheme, Stamper, Suite, WindowClock,
};
use rhumb_switch::{PDU_PROTOCOL, short_address};
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, Name, PduHeader};
use serde_json::{Value, json};

/// 2023-11-14 22:13:20 UTC.
const NOW_US: u64 = 1_700_000_000_000_000;
const SOURCE: Name = Name([0xA1; 32]);
const DESTINATION: Name = Name([0xB2; 32]);
const ROUTER: Name = Name([0xC3; 32]);
const MASTER: [u8; Master::LEN] = [7; Master::LEN];
const DATA: &[u8] = b"\x01\x00\x00\x07over the border";

#[test]
fn the_vectors_say_what_the_code_does() {
    let (mut full, mut labelled) = (Vec::new(), Vec::new());
    let header = PduHeader { tag: 5, ..PduHeader::new(Action::Data, SOURCE, DESTINATION) };
    header.emit(DATA, &[], &mut full).unwrap();
    LabelledHeader { action: Action::Data, ttl: 63, tag: 6, label: Label(0x0100_0002) }
        .emit(DATA, &mut labelled)
        .unwrap();
    let own = credential();
    let id = DelegationId::new(17).unwrap();
    let reply = own.delegate(Prefix::host(short_address(&DESTINATION)), id).unwrap();
    let made = json!([
        vector("in full form", &own, &full),
        vector("in labelled form", &own, &labelled),
        vector("delegated for one destination", &reply, &full),
    ]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/platypus/pdus.json");
    if std::env::var_os("RHUMB_WRITE_VECTORS").is_some() {
        std::fs::write(&path, format!("{made:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(made, stored, "docs/vectors/platypus/pdus.json says otherwise than the code");
}

fn credential() -> Credential {
    let capability = Capability {
        waypoint: short_address(&ROUTER),
        principal: Principal(7),
        flags: Flags::NONE,
        window: WindowClock::default().at(NOW_US),
        epoch: Epoch(3),
        suite: Suite::ALL[0],
        scheme: Scheme::CaveatChain,
        delegations: Delegations::default(),
    };
    EpochKeys::new(Epoch(3), &Master::new(MASTER)).mint(capability, 1_700_003_600).unwrap().into()
}

fn vector(name: &str, credential: &Credential, pdu: &[u8]) -> Value {
    let stamper = Stamper::new(&[credential], Encapsulation::Datagram).unwrap();
    let mut bytes = vec![0; stamper.headroom()];
    bytes.extend_from_slice(pdu);
    let range = stamper.headroom()..bytes.len();
    let addresses = (short_address(&SOURCE), short_address(&DESTINATION));
    let mut ids = PacketIds::new(0, 77);
    stamper.stamp_payload(&mut bytes, range, addresses, PDU_PROTOCOL, &mut ids, NOW_US).unwrap();
    let view = HeaderView::parse(&bytes).unwrap();
    let capability = credential.capability();
    let delegations: Vec<Value> = capability
        .delegations
        .iter()
        .map(|level| json!([level.prefix.to_string(), level.id.as_u32()]))
        .collect();
    json!({
        "section": "11",
        "form": "stamped PDU",
        "name": name,
        "hex": hex(&bytes),
        "fields": {
            "names": {
                "source": SOURCE.to_string(),
                "destination": DESTINATION.to_string(),
                "router": ROUTER.to_string(),
            },
            "suite": view.suite().number(),
            "source": view.source(),
            "destination": view.destination(),
            "protocol": view.protocol(),
            "do_not_fragment": false,
            "id": hex(&view.id().0.to_be_bytes()),
            "payload": hex(pdu),
            "capabilities": [{
                "waypoint": capability.waypoint,
                "principal": capability.principal.0,
                "window": capability.window.0,
                "epoch": capability.epoch.0,
                "scheme": capability.scheme.number(),
                "delegations": delegations,
                "master": hex(&MASTER),
            }],
        },
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
