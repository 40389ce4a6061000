//! The test vectors of `docs/vectors/runs.json`: parts of runs, and what is none. `cargo xtask
//! vectors` writes the file.

use std::path::Path;

use serde_json::{Value, json};

use super::*;

#[test]
fn the_file_says_what_the_code_does() {
    let addresses: [[IpAddr; 2]; 2] = [
        [[10, 1, 0, 1].into(), [10, 2, 0, 1].into()],
        [ME.address().into(), FRIEND.address().into()],
    ];
    let mut vectors = Vec::new();
    for (family, [from, to]) in ["IPv4", "IPv6"].into_iter().zip(addresses) {
        let packet = run(from, to, 1300);
        let all = parts(&packet, 258, 600);
        assert_eq!(all.len(), 3);
        for (part, which) in all.iter().zip(["first", "second", "last"]) {
            vectors.push(good(&format!("the {which} part of a run over {family}"), part));
        }
        let (tcp, protocol, length) = if family == "IPv4" { (29, 18, 12) } else { (49, 15, 14) };
        for (name, at, bytes) in [
            ("segments of no length", 5, &[0, 0][..]),
            ("a run that is longer than a packet", 7, &[0xFF, 0xFF]),
            ("a run that ends before its part", 7, &[0, 9]),
            ("another protocol", protocol, &[17]),
            ("a length of the whole", length, &[9]),
            ("a checksum", tcp + 16, &[9]),
            ("a segment that begins", tcp + 13, &[0x12]),
        ] {
            let mut part = all[0].clone();
            part[at..at + bytes.len()].copy_from_slice(bytes);
            vectors.push(refused(&format!("{name}, over {family}"), &part));
        }
    }
    let beyond = [&[2, 0, 1, 0xFF, 0xFF][..], b"x"].concat();
    for (name, part) in [
        ("nothing of a run", &[2, 0, 1, 0, 0][..]),
        ("beyond the end of any run", &beyond),
        ("without its headers", &[3, 0, 1, 0, 0, 0, 9, 0, 9]),
        ("another kind", &[4, 0, 1, 0, 0, 9]),
        ("3 bytes", &[2, 0, 1]),
    ] {
        vectors.push(refused(name, part));
    }
    let made = Value::Array(vectors);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/runs.json");
    if std::env::var_os("RHUMB_WRITE_VECTORS").is_some() {
        std::fs::write(&path, format!("{made:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(made, stored, "docs/vectors/runs.json says otherwise than the code");
}

fn good(name: &str, bytes: &[u8]) -> Value {
    let part = Part::parse(bytes).unwrap();
    let (headers, segment_len, total) = match &part.headers {
        Some(it) => (hex(it.head.bytes()), it.segment_len, it.total),
        None => (String::new(), 0, 0),
    };
    let fields = json!({
        "number": part.number, "offset": part.offset, "octets": hex(part.bytes),
        "headers": headers, "segment_length": segment_len, "total": total,
    });
    json!({ "section": "9.3", "form": "part of a run", "name": name, "fields": fields, "hex": hex(bytes) })
}

fn refused(name: &str, bytes: &[u8]) -> Value {
    assert_eq!(Part::parse(bytes), None, "{name}");
    let error = DropReason::Malformed.as_str();
    json!({ "section": "9.3", "form": "part of a run", "name": name, "error": error, "hex": hex(bytes) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
