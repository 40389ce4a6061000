//! Section 8: every request to a RIB and every response.

use rhumb_wire::certificate::Locator;
use rhumb_wire::rib::{
    MAX_LEVEL, MAX_REMOVALS, Mark, Refusal, RemovalLists, RequestId, RibRequest, RibRequestBody,
    RibResponse, RibResponseBody, StoreId,
};
use rhumb_wire::{Certificate, Metadata, Name, Offer, Rights, Scope, Statement};
use serde_json::{Value, json};

use super::certificates;
use super::file::{File, hex};
use super::log;
use super::names;
use super::parties::{Parties, Party, SEQUENCE};

pub(crate) fn write(parties: &Parties, file: &mut File) {
    requests(parties, file);
    responses(parties, file);
    refusals(parties, file);
}

fn requests(parties: &Parties, file: &mut File) {
    let Parties { alice, near, domain, .. } = parties;
    let asked_domains = |revision, after| RibRequestBody::Domains { revision, after };
    let chain = vec![alice.route(near), near.locator("192.0.2.1:7460")];
    let order = |metadata, certificates| RibRequestBody::Publish { metadata, certificates };
    let both = vec![alice.metadata.clone(), near.metadata.clone()];
    for (name, body) in [
        ("look up a route", RibRequestBody::LookUpRoute(alice.name)),
        ("look up metadata", RibRequestBody::LookUpMetadata(alice.name)),
        ("publish a chain", order(both, chain)),
        ("publish a withdrawal", order(vec![], vec![alice.says(Statement::Withdrawal)])),
        ("acknowledge", RibRequestBody::Acknowledge),
        ("which store", RibRequestBody::WhichStore),
        ("look up an export", RibRequestBody::LookUpExport(alice.name)),
        ("look up an address", RibRequestBody::LookUpAddress(alice.name.beginning())),
        ("removals, for the first time", RibRequestBody::Removals(Mark::default())),
        ("removals since", RibRequestBody::Removals(MARK)),
        ("domains, for the first time", asked_domains(0, Name([0; 32]))),
        ("domains behind one", asked_domains(11, domain.name)),
        ("look up another way", RibRequestBody::LookUpWay { name: alice.name, number: 1 }),
        ("look up names", RibRequestBody::LookUpNames(alice.name)),
        ("prove", RibRequestBody::Prove(alice.name)),
        ("way back", RibRequestBody::WayBack { began_ms: SEQUENCE, from: 3, to: 70_000 }),
        ("publish names", {
            let published = alice.publishes(&[("door", near)]);
            RibRequestBody::PublishNames { metadata: vec![alice.metadata.clone()], published }
        }),
        ("gone", RibRequestBody::Gone { name: alice.name, sequence: 1_700_000_000_000 }),
    ] {
        let fields = match &body {
            RibRequestBody::LookUpRoute(name) => json!({"kind": 1, "name": name.to_string()}),
            RibRequestBody::LookUpMetadata(name) => json!({"kind": 2, "name": name.to_string()}),
            RibRequestBody::Publish { metadata, certificates } => json!({
                "kind": 3,
                "metadata": names::hexes(metadata),
                "certificates": certificates::hexes(certificates),
            }),
            RibRequestBody::PublishNames { metadata, published } => json!({
                "kind": 12,
                "metadata": names::hexes(metadata),
                "published": hex(&certificates::published_bytes(published)),
            }),
            RibRequestBody::LookUpNames(name) => json!({"kind": 13, "name": name.to_string()}),
            RibRequestBody::Prove(name) => json!({"kind": 14, "name": name.to_string()}),
            RibRequestBody::WayBack { began_ms, from, to } => {
                json!({"kind": 15, "began_ms": began_ms, "epochs": [from, to]})
            }
            RibRequestBody::Acknowledge => json!({"kind": 4}),
            RibRequestBody::WhichStore => json!({"kind": 5}),
            RibRequestBody::LookUpExport(name) => json!({"kind": 7, "name": name.to_string()}),
            RibRequestBody::LookUpAddress(beginning) => {
                json!({"kind": 11, "beginning": hex(beginning)})
            }
            RibRequestBody::LookUpWay { name, number } => {
                json!({"kind": 9, "name": name.to_string(), "number": number})
            }
            RibRequestBody::Gone { name, sequence } => {
                json!({"kind": 6, "name": name.to_string(), "sequence": sequence})
            }
            RibRequestBody::Removals(since) => marked(8, since),
            RibRequestBody::Domains { revision, after } => {
                json!({"kind": 10, "revision": revision, "after": after.to_string()})
            }
        };
        let mut bytes = Vec::new();
        RibRequest { id: RequestId(7), body }.emit(&mut bytes);
        file.good("8", "RIB request", name, &identified(fields), &bytes);
    }
}

fn responses(parties: &Parties, file: &mut File) {
    let Parties { alice, bob, near, far, rib, domain, .. } = parties;
    let admits = domain.member(far, Rights::ADMIT);
    let removals = vec![
        (vec![domain.metadata.clone()], vec![domain.removal(near)]),
        (vec![domain.metadata.clone(), far.metadata.clone()], vec![admits, far.removal(alice)]),
    ];
    let (name, metadata) = (alice.name, vec![alice.metadata.clone(), near.metadata.clone()]);
    let certificates = vec![alice.route(near), near.locator("192.0.2.1:7460")];
    let withdrawal = vec![alice.says(Statement::Withdrawal)];
    let found = |level, metadata, certificates| RibResponseBody::Found {
        name,
        level,
        metadata,
        certificates,
    };
    let changed = |level, metadata, certificates| RibResponseBody::Changed {
        name,
        level,
        metadata,
        certificates,
    };
    let absence = rib.says(Statement::Absence { subject: bob.name });
    for (name, body) in [
        ("found", found(0, metadata.clone(), certificates.clone())),
        ("found beyond", found(2, metadata.clone(), certificates.clone())),
        ("found metadata", found(0, vec![alice.metadata.clone()], vec![])),
        ("absent", RibResponseBody::Absent(absence)),
        ("stored", RibResponseBody::Stored),
        ("store", RibResponseBody::Store(StoreId(*b"sixteen of bytes"))),
        ("changed", changed(0, metadata.clone(), certificates.clone())),
        ("changed beyond", changed(MAX_LEVEL, metadata, certificates)),
        ("changed: withdrawn", changed(0, vec![], withdrawal)),
        ("removals", RibResponseBody::Removals { to: MARK, removals }),
        (
            "names",
            RibResponseBody::Names {
                metadata: vec![alice.metadata.clone()],
                published: alice.publishes(&[("door", near)]),
            },
        ),
        (
            "no names, without metadata",
            RibResponseBody::Names { metadata: vec![], published: alice.publishes(&[]) },
        ),
        ("proof", log::proof(parties)),
        ("proof, of what waits for the next head", log::without_way(parties)),
        ("way back", RibResponseBody::WayBack(vec![[1; 32], [2; 32], [3; 32]])),
        ("way back to the only head", RibResponseBody::WayBack(vec![])),
        ("no more removals", RibResponseBody::Removals { to: MARK, removals: vec![] }),
        ("domains", offered_domains(parties)),
        (
            "domains as they were",
            RibResponseBody::Domains { revision: 11, is_end: true, offered: vec![] },
        ),
    ] {
        let fields = response_fields(&body);
        file.good("8", "RIB response", name, &identified(fields), &emitted(body));
    }
    for refusal in Refusal::ALL {
        let fields = json!({"kind": 4, "refusal": refusal as u8, "certificates": []});
        let name = format!("refused: {}", refusal.as_str());
        let bytes = emitted(RibResponseBody::Refused(refusal));
        file.good("8", "RIB response", &name, &identified(fields), &bytes);
    }
    let newer = RibResponseBody::Superseded(parties.alice.route(&parties.near));
    let fields = identified(response_fields(&newer));
    file.good("8", "RIB response", "refused: superseded by a route", &fields, &emitted(newer));
}

fn response_fields(body: &RibResponseBody) -> Value {
    let listed = |kinds: [u8; 2], name: &Name, level: u8, metadata: &[_], certificates: &[_]| {
        let is_beyond = level > 0;
        let mut fields = json!({
            "kind": kinds[usize::from(is_beyond)],
            "name": name.to_string(),
            "metadata": names::hexes(metadata),
            "certificates": certificates::hexes(certificates),
        });
        if is_beyond {
            fields["level"] = json!(level);
        }
        fields
    };
    match body {
        RibResponseBody::Found { name, level, metadata, certificates } => {
            listed([1, 7], name, *level, metadata, certificates)
        }
        RibResponseBody::Absent(absence) => {
            json!({"kind": 2, "certificates": certificates::hexes(std::slice::from_ref(absence))})
        }
        RibResponseBody::Stored => json!({"kind": 3}),
        RibResponseBody::Store(StoreId(id)) => {
            let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"kind": 6, "store": hex})
        }
        RibResponseBody::Refused(refusal) => {
            json!({"kind": 4, "refusal": *refusal as u8, "certificates": []})
        }
        RibResponseBody::Superseded(newer) => json!({
            "kind": 4,
            "refusal": Refusal::Superseded as u8,
            "certificates": certificates::hexes(std::slice::from_ref(newer)),
        }),
        RibResponseBody::Changed { name, level, metadata, certificates } => {
            listed([5, 8], name, *level, metadata, certificates)
        }
        RibResponseBody::Removals { to, removals } => {
            let mut fields = marked(9, to);
            fields["removals"] = removals.iter().map(|lists| hex(&together(lists))).collect();
            fields
        }
        RibResponseBody::Names { metadata, published } => json!({
            "kind": 11,
            "metadata": names::hexes(metadata),
            "published": hex(&certificates::published_bytes(published)),
        }),
        RibResponseBody::Proof { head, path } => json!({
            "kind": 12,
            "head": hex(&log::head_bytes(head)),
            "way": hex(&log::way_bytes(path.as_ref())),
        }),
        RibResponseBody::WayBack(hashes) => {
            let hashes: Vec<String> = hashes.iter().map(|hash| hex(hash)).collect();
            json!({"kind": 13, "back": hashes})
        }
        RibResponseBody::Domains { revision, is_end, offered } => {
            let one = |(domain, offer): &(Name, Offer)| {
                json!({
                    "domain": domain.to_string(),
                    "cost": offer.cost,
                    "ribs": offer.ribs.iter().map(|(name, at)| {
                        json!({"name": name.to_string(), "address": at.address().to_string()})
                    }).collect::<Vec<_>>(),
                    "metadata": names::hexes(&offer.metadata),
                    "certificates": certificates::hexes(&offer.certificates),
                })
            };
            let offered: Vec<Value> = offered.iter().map(one).collect();
            json!({"kind": 10, "revision": revision, "end": is_end, "offered": offered})
        }
    }
}

/// A neighbour by its border, with its word for who is told, and a domain that it leads to.
fn offered_domains(parties: &Parties) -> RibResponseBody {
    let Parties { near, far, rib, domain, .. } = parties;
    let scope = Scope::ByNeighbour { up_to: None };
    let by = |via: &Party| Statement::Route { via: via.name, scope };
    let ribs = vec![(rib.name, Locator::new(([192, 0, 2, 7], 7461).into()).unwrap())];
    let own = Offer {
        cost: 0,
        ribs: ribs.clone(),
        metadata: vec![domain.metadata.clone(), near.metadata.clone()],
        certificates: vec![
            domain.says(by(far)),
            domain.says(Statement::Route { via: near.name, scope: Scope::Several }),
            near.locator("192.0.2.1:7460"),
        ],
    };
    let other = Offer {
        cost: 10,
        ribs: Vec::new(),
        metadata: vec![far.metadata.clone()],
        certificates: vec![far.says(by(domain))],
    };
    let mut offered = vec![(domain.name, own), (far.name, other)];
    offered.sort_by_key(|(domain, _)| *domain);
    RibResponseBody::Domains { revision: 11, is_end: false, offered }
}

fn refusals(parties: &Parties, file: &mut File) {
    let Parties { alice, near, .. } = parties;
    let mut look_up = Vec::new();
    RibRequest { id: RequestId(7), body: RibRequestBody::LookUpRoute(alice.name) }
        .emit(&mut look_up);
    let unknown = [&[0], &look_up[1..]].concat();
    let long = [&look_up[..], &[0]].concat();
    let short = look_up[..36].to_vec();
    let way = |number: u8| [&[9, 0, 0, 0, 7][..], &alice.name.0, &[number]].concat();
    for (name, bytes) in [
        ("kind 0", unknown),
        ("a byte too many", long),
        ("cut short", short),
        ("the first way as another one", way(0)),
        ("a ninth way", way(8)),
        ("a way back to the head itself", [&[15, 0, 0, 0, 7][..], &[3; 24]].concat()),
    ] {
        file.refused("8", "RIB request", name, &bytes, RibRequest::parse(&bytes));
    }
    let mut not_an_absence = vec![2, 0, 0, 0, 7];
    Certificate::emit_list(&[alice.route(near)], &mut not_an_absence);
    let domains = |end: u8, rest: &[u8]| [&[10, 0, 0, 0, 7][..], &[1; 8], &[end], rest].concat();
    let nothing = [&[5, 0, 0, 0, 7][..], &alice.name.0, &[0, 0]].concat();
    for (name, bytes) in [
        ("kind 0", vec![0, 0, 0, 0, 7]),
        ("kind 7", vec![7, 0, 0, 0, 7]),
        ("domains, neither the end nor not", domains(2, &[0])),
        ("more domains than there may be", domains(0, &[17])),
        (
            "a domain twice",
            domains(0, &[&[2][..], &[&[5; 32][..], &[0, 8], &NONE].concat().repeat(2)].concat()),
        ),
        (
            "an offer of another version",
            domains(0, &[&[1][..], &[5; 32], &[0, 8, 2], &NONE[1..]].concat()),
        ),
        (
            "an offer of three RIBs",
            domains(0, &[&[1][..], &[5; 32], &[0, 8, 1, 0, 0, 0, 0, 3, 0, 0]].concat()),
        ),
        ("names, cut short", vec![11, 0, 0, 0, 7, 0, 1, 8]),
        ("names, with a certificate", {
            let mut bytes = vec![11, 0, 0, 0, 7, 0];
            alice.route(near).emit(&mut bytes);
            bytes
        }),
        ("store, cut short", vec![6, 0, 0, 0, 7, 1, 2, 3]),
        ("refusal 0", vec![4, 0, 0, 0, 7, 0]),
        ("refusal 14", vec![4, 0, 0, 0, 7, 14]),
        ("a way back of 65 hashes", [&[13, 0, 0, 0, 7, 65][..], &[1; 65 * 32]].concat()),
        ("a proof without a way", {
            let mut bytes = emitted(log::without_way(parties));
            bytes.pop();
            bytes
        }),
        ("absent, of no certificate", vec![2, 0, 0, 0, 7, 0]),
        ("absent, of a route", not_an_absence),
        ("changed to nothing", nothing),
        ("superseded, cut short", vec![4, 0, 0, 0, 7, 7]),
        ("more removals than there may be", {
            [&[9, 0, 0, 0, 7][..], &[0; 24], &[MAX_REMOVALS as u8 + 1]].concat()
        }),
        ("a removal of no certificate", [&[9, 0, 0, 0, 7][..], &[0; 24], &[1, 0, 0]].concat()),
        ("removals, cut short", vec![9, 0, 0, 0, 7, 1]),
        ("stored, and a byte", vec![3, 0, 0, 0, 7, 0]),
    ] {
        file.refused("8", "RIB response", name, &bytes, RibResponse::parse(&bytes));
    }
}

fn marked(kind: u8, mark: &Mark) -> Value {
    json!({"kind": kind, "store": hex(&mark.store.0), "position": mark.position})
}

fn together((metadata, certificates): &RemovalLists) -> Vec<u8> {
    let mut bytes = Vec::new();
    Metadata::emit_list(metadata, &mut bytes);
    Certificate::emit_list(certificates, &mut bytes);
    bytes
}

/// An offer of nothing.
const NONE: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];
const MARK: Mark = Mark { store: StoreId(*b"sixteen of bytes"), position: 11 };

fn identified(mut fields: Value) -> Value {
    fields["identifier"] = json!(7);
    fields
}

fn emitted(body: RibResponseBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    RibResponse { id: RequestId(7), body }.emit(&mut bytes);
    bytes
}
