//! Sections 6 and 7: the data of Accept, FlowAccept and Nack PDUs.

use rhumb_wire::Rights;
use rhumb_wire::accept::Accept;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::group::{GroupAccept, GroupRequest, Part};
use rhumb_wire::nack::{CapabilityFault, Nack, Reason};
use rhumb_wire::pdu::Label;
use serde_json::json;

use super::file::{File, hex};
use super::parties::{LIFETIME_S, NOW_S, Parties};

pub(crate) fn write(parties: &Parties, file: &mut File) {
    for (name, published) in [("verified", false), ("and published", true)] {
        let accept = Accept { name: parties.alice.name, until_s: NOW_S + LIFETIME_S, published };
        let mut bytes = Vec::new();
        accept.emit(&mut bytes);
        let fields = json!({
            "name": accept.name.to_string(), "until_s": accept.until_s, "published": published,
        });
        file.good("6", "Accept", name, &fields, &bytes);
        if published {
            bytes[40] = 2;
            file.refused("6", "Accept", "published 2", &bytes, Accept::parse(&bytes));
            file.refused("6", "Accept", "cut short", &bytes[..40], Accept::parse(&bytes[..40]));
        }
    }
    let bytes = FlowAccept { label: Label(0xAABB_CCDD) }.emit();
    file.good("6", "FlowAccept", "a label", &json!({"label": 0xAABB_CCDD_u32}), &bytes);
    for data in [&bytes[..3], &[0; 5]] {
        let name = format!("{} bytes", data.len());
        file.refused("6", "FlowAccept", &name, data, FlowAccept::parse(data));
    }
    groups(parties, file);
    nacks(parties, file);
}

fn groups(parties: &Parties, file: &mut File) {
    let issuers = vec![parties.domain.metadata.clone()];
    let certificates = vec![parties.domain.member(&parties.alice, Rights::JOIN)];
    let join = |part| GroupRequest::Join {
        part,
        issuers: issuers.clone(),
        certificates: certificates.clone(),
    };
    let requests = [
        ("leave", 0, GroupRequest::Leave),
        ("receive", 1, join(Part::Receives)),
        ("send", 2, join(Part::Sends)),
        ("both", 3, join(Part::Both)),
    ];
    for (name, kind, request) in requests {
        let mut bytes = Vec::new();
        request.emit(&mut bytes);
        let lists = if kind == 0 { String::new() } else { hex(&bytes[1..]) };
        let fields = json!({"kind": kind, "lists": lists});
        file.good("15", "GroupRequest", name, &fields, &bytes);
        let refused = [[&bytes[..], &[0]].concat(), [&[5], &bytes[1..]].concat()];
        for (what, data) in ["with more behind", "of kind 5"].into_iter().zip(refused) {
            let name = format!("{name} {what}");
            file.refused("15", "GroupRequest", &name, &data, GroupRequest::parse(&data));
        }
    }
    for (kind, part) in [(0, None), (1, Some(Part::Receives)), (3, Some(Part::Both))] {
        let until_s = if part.is_some() { NOW_S + LIFETIME_S } else { 0 };
        let bytes = GroupAccept { part, until_s }.emit();
        let fields = json!({"kind": kind, "until_s": until_s});
        file.good("15", "GroupAccept", &format!("of kind {kind}"), &fields, &bytes);
    }
    for (name, data) in [
        ("cut short", &[1; 8][..]),
        ("of kind 4", &[4; 9]),
        ("of nothing until", &[0, 0, 0, 0, 0, 0, 0, 0, 1]),
    ] {
        file.refused("15", "GroupAccept", name, data, GroupAccept::parse(data));
    }
}

fn nacks(parties: &Parties, file: &mut File) {
    let near = &parties.near;
    for (name, number, value, reason) in [
        ("not yet", 1, 50, Reason::NotYet(50)),
        ("unreachable", 2, 2000, Reason::Unreachable(2000)),
        ("too big", 3, 1200, Reason::TooBig(1200)),
        ("TTL exceeded", 4, 0, Reason::TtlExceeded),
        ("bad certificate", 5, 0, Reason::BadCertificate),
        ("not authorised", 6, 0, Reason::NotAuthorised),
        ("unknown flow", 7, 0, Reason::UnknownFlow),
        ("overloaded", 8, 10, Reason::Overloaded(10)),
        ("superseded", 9, 0, Reason::Superseded),
        ("expired", 10, 0, Reason::Expired),
        ("not yet valid", 11, 0, Reason::NotYetValid),
        ("capability missing", 12, 1, Reason::Capability(CapabilityFault::Missing)),
        ("capability of another time", 12, 2, Reason::Capability(CapabilityFault::Time)),
        ("capability revoked", 12, 3, Reason::Capability(CapabilityFault::Revoked)),
        ("capability refused", 12, 4, Reason::Capability(CapabilityFault::Refused)),
    ] {
        for reporter in [Some(near.name), None] {
            let mut bytes = Vec::new();
            Nack { reason, reporter }.emit(&mut bytes);
            let reporter = reporter.map(|name| name.to_string());
            let fields =
                json!({"reason": number, "value": value, "reporter": reporter, "metadata": null});
            let suffix = if reporter.is_some() { "" } else { ", no reporter" };
            file.good("7", "Nack", &format!("{name}{suffix}"), &fields, &bytes);
        }
    }
    let mut bytes = Vec::new();
    Nack { reason: Reason::TtlExceeded, reporter: Some(near.name) }.emit(&mut bytes);
    bytes.extend_from_slice(&near.metadata.emit());
    let fields = json!({
        "reason": 4, "value": 0, "reporter": near.name.to_string(),
        "metadata": hex(&near.metadata.emit()),
    });
    file.good("7", "Nack", "TTL exceeded, with metadata", &fields, &bytes);

    bytes[0] = 1;
    let refused = Nack::parse_with_metadata(&bytes);
    file.refused("7", "Nack", "metadata with another reason", &bytes, refused);
    for (name, data) in [
        ("reason 0", &[0, 0, 0, 0][..]),
        ("no fault of a capability", &[12, 0, 0, 0]),
        ("an unknown fault of a capability", &[12, 0, 0, 5]),
        ("reason 13", &[13, 0, 0, 0]),
        ("a reserved byte set", &[1, 1, 0, 50]),
        ("a value that means nothing", &[5, 0, 0, 1]),
        ("3 bytes", &[1, 0, 0]),
        ("5 bytes", &[1, 0, 0, 50, 0]),
    ] {
        file.refused("7", "Nack", name, data, Nack::parse_with_metadata(data));
    }
}
