//! Section 9: the header of payloads, and the offers of files.

use rhumb_wire::payload::{Half, PayloadHeader, PayloadKind};
use rhumb_wire::transfer::{FileName, Offer, TransferId};
use serde_json::json;

use super::file::{File, hex};
use super::parties::Parties;

pub(crate) fn write(_: &Parties, file: &mut File) {
    for (name, kind, port, body) in [
        ("a datagram", PayloadKind::Datagram, 7, &b"good day"[..]),
        ("a datagram of nothing", PayloadKind::Datagram, 65535, b""),
        ("of a connection", PayloadKind::Connection, 0, b"QUIC"),
        ("the second half of one of a connection", PayloadKind::Half, 9, b"\x01IC"),
    ] {
        let bytes = [&PayloadHeader { kind, port }.emit()[..], body].concat();
        let fields = json!({"kind": kind as u8, "port": port, "body": hex(body)});
        file.good("9", "payload", name, &fields, &bytes);
    }
    for (name, bytes) in [
        ("kind 0", [0, 0, 0, 7]),
        ("kind 2", [2, 0, 0, 7]),
        ("kind 5", [5, 0, 0, 7]),
        ("a port of a connection", [3, 0, 0, 7]),
        ("a reserved byte set", [1, 1, 0, 7]),
    ] {
        file.refused("9", "payload", name, &bytes, PayloadHeader::parse(&bytes));
    }
    file.refused("9", "payload", "3 bytes", &[1, 0, 0], PayloadHeader::parse(&[1, 0, 0]));
    for (name, half) in [
        ("the first half", Half { is_second: false, bytes: b"QU" }),
        ("the second half", Half { is_second: true, bytes: b"IC" }),
    ] {
        let mut body = Vec::new();
        half.emit(&mut body);
        let fields = json!({"is_second": half.is_second, "bytes": hex(half.bytes)});
        file.good("9.2", "half", name, &fields, &body);
    }
    for (name, body) in [("a third half", &[2, 0][..]), ("a half of nothing", &[1])] {
        file.refused("9.2", "half", name, body, Half::parse(body));
    }
    offers(file);
}

fn offers(file: &mut File) {
    let name = FileName::new("käse.txt").unwrap();
    let offer = Offer { length: 5_000_000_000, sha256: [0xCC; 32], name };
    let fields = json!({
        // As text: it has more bits than some readers of JSON keep.
        "transfer": format!("{:016x}", TRANSFER.0),
        "length": offer.length,
        "sha256": hex(&offer.sha256),
        "name": "käse.txt",
    });
    let mut bytes = Vec::new();
    offer.emit(TRANSFER, &mut bytes);
    assert_eq!(Offer::parse(&bytes), Ok((TRANSFER, offer)));
    file.good("9.1", "offer", "of a file", &fields, &bytes);
    let named = |name: &[u8]| {
        [&TRANSFER.0.to_be_bytes()[..], &[0; 8], &[0xCC; 32], &[name.len() as u8], name].concat()
    };
    let too_many = [&bytes[..], &[0]].concat();
    for (name, bytes) in [
        ("a file name of nothing", named(b"")),
        ("a file name ..", named(b"..")),
        ("a file name with a slash", named(b"a/b")),
        ("a file name with a backslash", named(b"a\\b")),
        ("a file name with a line end", named(b"a\nb")),
        ("a file name that turns the text around", named("a\u{202E}b".as_bytes())),
        ("a file name with an Arabic letter mark", named("a\u{061C}b".as_bytes())),
        ("a file name with a line separator", named("a\u{2028}b".as_bytes())),
        ("a file name not UTF-8", named(b"a\xFF")),
        ("a byte too many", too_many),
    ] {
        file.refused("9.1", "offer", name, &bytes, Offer::parse(&bytes));
    }
}

const TRANSFER: TransferId = TransferId(0x0102_0304_0506_0708);
