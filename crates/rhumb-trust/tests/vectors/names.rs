//! Section 1: names and their text, metadata and lists of them.

use rhumb_trust::name_of;
use rhumb_wire::{Metadata, Name, PublicKey, Role};
use serde_json::{Value, json};

use super::file::{File, hex};
use super::parties::{NOW_S, Parties};

pub(crate) fn write(parties: &Parties, file: &mut File) {
    texts(parties, file);
    for party in parties.all() {
        let mut fields = fields(&party.metadata);
        fields["seed"] = json!(hex(&party.seed));
        file.good("1", "metadata", party.title, &fields, &party.metadata.emit());
    }
    let plain = on_p256(Role::Node);
    let some = plain.clone().with_attribute("site", "").unwrap();
    let some = some.with_attribute("label", "käse").unwrap();
    let mut most = on_p256(Role::Router);
    for number in 1..=8 {
        let key = format!("{number}{}", "-".repeat(31));
        most = most.with_attribute(&key, &"v".repeat(64)).unwrap();
    }
    for (name, metadata) in
        [("P-256", &plain), ("attributes", &some), ("as long as metadata get", &most)]
    {
        file.good("1", "metadata", name, &fields(metadata), &metadata.emit());
    }
    metadata_refusals(&some, file);
    lists(&[parties.alice.metadata.clone(), plain], file);
}

fn texts(parties: &Parties, file: &mut File) {
    for (name, value) in [
        ("all zeros", Name([0; 32])),
        ("all ones", Name([0xFF; 32])),
        ("alice", parties.alice.name),
    ] {
        let fields = json!({"text": value.to_string(), "short": value.short()});
        file.good("1", "name", name, &fields, &value.0);
    }
    let text = parties.alice.name.to_string();
    let (most, last) = text.split_at(51);
    let spare_bit = if last == "a" { "b" } else { "r" };
    for (name, text) in [
        ("capitals", text.to_uppercase()),
        ("a spare bit set", format!("{most}{spare_bit}")),
        ("51 characters", most.to_owned()),
        ("padding", format!("{text}====")),
        ("a character outside the alphabet", format!("{most}1")),
    ] {
        file.refused("1", "name text", name, text.as_bytes(), text.parse::<Name>());
    }
}

fn metadata_refusals(metadata: &Metadata, file: &mut File) {
    let bytes = metadata.emit();
    let first_key = 5 + 33 + 8 + 1 + 1;
    let changes: [(&str, usize, u8); 9] = [
        ("another magic", 1, b'N'),
        ("version 2", 2, 2),
        ("role 0", 3, 0),
        ("role 6", 3, 6),
        ("key algorithm 3", 4, 3),
        ("an uncompressed point", 5, 4),
        ("nine attributes", 46, 9),
        ("an attribute's key in capitals", first_key, b'L'),
        ("attributes out of order", first_key, b'z'),
    ];
    for (name, at, value) in changes {
        let mut bent = bytes.clone();
        bent[at] = value;
        file.refused("1", "metadata", name, &bent, Metadata::parse(&bent));
    }
    let mut not_utf8 = bytes.clone();
    let umlaut = bytes.windows(2).position(|pair| pair == "ä".as_bytes()).unwrap();
    not_utf8[umlaut] = 0xFF;
    file.refused("1", "metadata", "a value not UTF-8", &not_utf8, Metadata::parse(&not_utf8));
    let short = &bytes[..bytes.len() - 1];
    file.refused("1", "metadata", "cut short", short, Metadata::parse(short));
    let long = [&bytes[..], &[0]].concat();
    file.refused("1", "metadata", "a byte too many", &long, Metadata::parse(&long));
}

fn lists(list: &[Metadata], file: &mut File) {
    let mut bytes = Vec::new();
    Metadata::emit_list(list, &mut bytes);
    let fields = json!({"metadata": hexes(list)});
    file.good("1", "metadata list", "two", &fields, &bytes);
    file.good("1", "metadata list", "none", &json!({"metadata": []}), &[]);
    file.refused("1", "metadata list", "none, counted", &[0], Metadata::parse_list(&[0]));
    let mut ten = vec![10];
    for _ in 0..10 {
        ten.extend_from_slice(&bytes[1..3]);
        ten.extend_from_slice(&list[0].emit());
    }
    file.refused("1", "metadata list", "ten", &ten, Metadata::parse_list(&ten));
}

/// Metadata of the P-256 key whose private half is 1, so of the curve's base point.
pub(crate) fn on_p256(role: Role) -> Metadata {
    Metadata::new(role, PublicKey::EcdsaP256(BASE_POINT), NOW_S)
}

pub(crate) fn hexes(list: &[Metadata]) -> Vec<String> {
    list.iter().map(|metadata| hex(&metadata.emit())).collect()
}

fn fields(metadata: &Metadata) -> Value {
    let algorithm = match metadata.key {
        PublicKey::EcdsaP256(_) => "P-256",
        PublicKey::Ed25519(_) => "Ed25519",
    };
    let attributes: Vec<_> = metadata.attributes().iter().map(|pair| json!(pair)).collect();
    json!({
        "name": name_of(metadata).to_string(),
        "role": metadata.role.as_str(),
        "algorithm": algorithm,
        "key": hex(metadata.key.as_bytes()),
        "created_s": metadata.created_s,
        "attributes": attributes,
    })
}

/// FIPS 186-5, section 3.2.1.3 of SP 800-186: G of P-256, compressed.
const BASE_POINT: [u8; 33] = [
    0x03, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40,
    0xf2, 0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2,
    0x96,
];
