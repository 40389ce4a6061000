//! Section 8.11: heads of a log, and ways through the map that it signs.

use rhumb_trust::log::{
    Roots, bit_of, fingerprint, held_of, leaf, node, position_of, value_of, verify_head,
};
use rhumb_wire::log::{Hash, Head, MapPath, NOTHING, PathEnd};
use rhumb_wire::rib::RibResponseBody;
use serde_json::json;

use super::file::{File, hex};
use super::parties::{NOW_S, Parties, SEQUENCE};

pub(crate) fn write(parties: &Parties, file: &mut File) {
    let (full, empty) = (head(parties, map(parties), 2), head(parties, NOTHING, 0));
    for (name, heads) in [("one", vec![full]), ("two", vec![full, empty])] {
        let fields = json!({"heads": heads.iter().map(|head| json!({
            "epoch": head.epoch,
            "began_ms": head.began_ms,
            "made_ms": head.made_ms,
            "names": head.names,
            "rib": head.rib.to_string(),
            "map": hex(&head.map),
            "history": hex(&head.history),
        })).collect::<Vec<_>>()});
        let mut bytes = Vec::new();
        Head::emit_list(&heads, &mut bytes);
        file.good("8.11", "heads", name, &fields, &bytes);
    }
    let bytes = head_bytes(&full);
    let changed = |at: usize, byte: u8| {
        let mut bytes = [&[1], &bytes[..]].concat();
        bytes[1 + at] = byte;
        bytes
    };
    for (name, bytes) in [
        ("none", vec![0]),
        ("seven", [&[7], &bytes.repeat(7)[..]].concat()),
        ("another version", changed(0, 2)),
        ("another type", changed(1, 8)),
        ("a scope", changed(2, 1)),
        ("made before its log began", changed(22, 0)),
        ("names without a root", [&[1], &head_bytes(&Head { map: NOTHING, ..full })[..]].concat()),
        ("heads before it, and no history", {
            [&[1], &head_bytes(&Head { history: NOTHING, ..full })[..]].concat()
        }),
        ("cut short", [&[1], &bytes[..100]].concat()),
    ] {
        file.refused("8.11", "heads", name, &bytes, Head::parse_list(&bytes));
    }
    proofs(parties, file);
}

/// What ways say of names, and ways that are of no use.
fn proofs(parties: &Parties, file: &mut File) {
    let (full, empty) = (head(parties, map(parties), 2), head(parties, NOTHING, 0));
    let [alice, bob, far] = [&parties.alice, &parties.bob, &parties.far].map(|it| it.name);
    let nothing = MapPath { end: PathEnd::Nothing, branches: Vec::new() };
    for (title, name, head, path) in [
        ("of a name that is there", alice, full, way(parties, true)),
        ("of one that is not, beside it", absent(parties), full, way_to_none(parties)),
        ("of any name in an empty map", far, empty, nothing.clone()),
    ] {
        let verified = verify_head(head, &parties.rib.metadata, NOW_S + 1).unwrap();
        let held = held_of(&verified, &name, &path).unwrap();
        let held: Vec<String> = held.iter().map(|hash| hex(hash)).collect();
        let fields = json!({"name": name.to_string(), "held": held});
        let bytes = [head_bytes(&head), way_bytes(Some(&path))].concat();
        file.good("8.11", "proof", title, &fields, &bytes);
    }
    let denied = MapPath {
        end: PathEnd::Other { position: position_of(&alice), value: value_of(&held(parties)) },
        ..way(parties, true)
    };
    for (title, name, head, path) in [
        ("a name denied by its own leaf", alice, full, denied),
        ("another name's way", bob, full, way(parties, true)),
        ("of another map", alice, full, nothing),
        ("of what is not held", alice, full, way(parties, false)),
    ] {
        let verified = verify_head(head, &parties.rib.metadata, NOW_S + 1).unwrap();
        let outcome = held_of(&verified, &name, &path).ok_or("no way through the map of the head");
        let bytes = [head_bytes(&head), way_bytes(Some(&path))].concat();
        let vector = file.refused("8.11", "proof", title, &bytes, outcome);
        vector["fields"] = json!({"name": name.to_string()});
    }
}

fn head(parties: &Parties, map: Hash, names: u64) -> Head {
    let (began_ms, made_ms) = (SEQUENCE - 5000, SEQUENCE);
    parties.rib.head(Roots { epoch: 3, began_ms, made_ms, names, map, history: [9; 32] })
}

/// What is held of alice.
fn held(parties: &Parties) -> Vec<Hash> {
    let Parties { alice, near, .. } = parties;
    vec![fingerprint(&alice.route(near)), fingerprint(&alice.locator("192.0.2.9:7460"))]
}

/// The leaves of alice and of bob, and the bit that tells them apart.
fn leaves(parties: &Parties) -> (u8, [Hash; 2]) {
    let [alice, bob] = [&parties.alice, &parties.bob].map(|it| position_of(&it.name));
    let bit = (0..=u8::MAX).find(|bit| bit_of(&alice, *bit) != bit_of(&bob, *bit)).unwrap();
    (bit, [leaf(&alice, &value_of(&held(parties))), leaf(&bob, &value_of(&[[8; 32]]))])
}

fn map(parties: &Parties) -> Hash {
    let (bit, [alice, bob]) = leaves(parties);
    match bit_of(&position_of(&parties.alice.name), bit) {
        false => node(bit, &alice, &bob),
        true => node(bit, &bob, &alice),
    }
}

/// The way to alice, with all that is held of her, or with less.
fn way(parties: &Parties, is_whole: bool) -> MapPath {
    let (bit, [_, bob]) = leaves(parties);
    let mut held = held(parties);
    if !is_whole {
        held.pop();
    }
    MapPath { end: PathEnd::Name(held), branches: vec![(bit, bob)] }
}

/// A name that is not there, on the side of alice.
fn absent(parties: &Parties) -> rhumb_wire::Name {
    let (bit, _) = leaves(parties);
    let side = bit_of(&position_of(&parties.alice.name), bit);
    let mut names = parties.all().into_iter().map(|party| party.name).skip(2);
    names.find(|name| bit_of(&position_of(name), bit) == side).unwrap()
}

fn way_to_none(parties: &Parties) -> MapPath {
    let end = PathEnd::Other {
        position: position_of(&parties.alice.name),
        value: value_of(&held(parties)),
    };
    MapPath { end, ..way(parties, true) }
}

pub(crate) fn proof(parties: &Parties) -> RibResponseBody {
    let head = head(parties, map(parties), 2);
    RibResponseBody::Proof { head, path: Some(way(parties, true)) }
}

pub(crate) fn without_way(parties: &Parties) -> RibResponseBody {
    RibResponseBody::Proof { head: head(parties, map(parties), 2), path: None }
}

pub(crate) fn head_bytes(head: &Head) -> Vec<u8> {
    let mut bytes = Vec::new();
    head.emit(&mut bytes);
    bytes
}

/// A way as it stands in an answer.
pub(crate) fn way_bytes(path: Option<&MapPath>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match path {
        Some(path) => path.emit(&mut bytes),
        None => bytes.push(3),
    }
    bytes
}
