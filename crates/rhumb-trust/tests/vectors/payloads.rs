//! Section 9: the header of payloads, the offers of files, and the lists of folders.

use rhumb_wire::folder::{Entry, EntryKind, Listing};
use rhumb_wire::payload::{Half, PayloadHeader, PayloadKind};
use rhumb_wire::transfer::{FileName, Kind, Offer, TransferId};
use serde_json::json;

use super::file::{File, hex};
use super::parties::Parties;

pub(crate) fn write(_: &Parties, file: &mut File) {
    for (name, kind, port, body) in [
        ("a datagram", PayloadKind::Datagram, 7, &b"good day"[..]),
        ("a datagram of nothing", PayloadKind::Datagram, 65535, b""),
        ("of a connection", PayloadKind::Connection, 0, b"QUIC"),
        ("the second half of one of a connection", PayloadKind::Half, 9, b"\x01IC"),
        ("a record of a connection", PayloadKind::Record, 0, b"sealed"),
    ] {
        let bytes = [&PayloadHeader { kind, port }.emit()[..], body].concat();
        let fields = json!({"kind": kind as u8, "port": port, "body": hex(body)});
        file.good("9", "payload", name, &fields, &bytes);
    }
    for (name, bytes) in [
        ("kind 0", [0, 0, 0, 7]),
        ("kind 2", [2, 0, 0, 7]),
        ("kind 6", [6, 0, 0, 7]),
        ("a port of a connection", [3, 0, 0, 7]),
        ("a port of a record", [5, 0, 0, 7]),
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
    let offer = Offer { kind: Kind::File, length: 5_000_000_000, sha256: [0xCC; 32], name };
    let fields = json!({
        // As text: it has more bits than some readers of JSON keep.
        "transfer": format!("{:016x}", TRANSFER.0),
        "kind": 0,
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
        ("a fourth kind", [&bytes[..8], &[3], &bytes[9..]].concat()),
        ("what has no end yet, with a length", [&bytes[..8], &[2], &bytes[9..]].concat()),
    ] {
        file.refused("9.1", "offer", name, &bytes, Offer::parse(&bytes));
    }
    listings(file);
}

fn listings(file: &mut File) {
    let entry = |path: &str, kind| Entry { path: path.to_owned(), kind };
    let of_file = |length, is_executable| EntryKind::File { length, is_executable };
    let entries = vec![
        entry("bin", EntryKind::Folder),
        entry("bin/run", of_file(5, true)),
        entry("bin-old", EntryKind::Folder),
        entry("käse.txt", of_file(4_000_000_000, false)),
    ];
    let fields = json!({ "entries": [
        { "path": "bin", "kind": 0, "length": 0 },
        { "path": "bin/run", "kind": 2, "length": 5 },
        { "path": "bin-old", "kind": 0, "length": 0 },
        { "path": "käse.txt", "kind": 1, "length": 4_000_000_000_u64 },
    ]});
    let listing = Listing::new(entries).unwrap();
    let bytes = listing.emit()[Listing::HEAD_LEN..].to_vec();
    assert_eq!(Listing::parse(&bytes), Ok(listing));
    file.good("9.1", "list of a folder", "four entries", &fields, &bytes);
    file.good("9.1", "list of a folder", "nothing", &json!({ "entries": [] }), &[]);
    let listed = |entries: &[(u8, u64, &[u8])]| {
        let of = |(kind, length, path): &(u8, u64, &[u8])| {
            let path_len = (path.len() as u16).to_be_bytes();
            [&[*kind][..], &length.to_be_bytes(), &path_len, path].concat()
        };
        entries.iter().flat_map(of).collect::<Vec<_>>()
    };
    let deep = (1..=33_usize).map(|depth| vec!["d"; depth].join("/")).collect::<Vec<_>>();
    let deep: Vec<_> = deep.iter().map(|path| (0, 0, path.as_bytes())).collect();
    for (name, bytes) in [
        ("a path that leads out", listed(&[(1, 0, b"..")])),
        ("a path from the root", listed(&[(1, 0, b"/a")])),
        ("a path with a dot", listed(&[(0, 0, b"a"), (1, 0, b"a/./b")])),
        ("a path that ends with a slash", listed(&[(0, 0, b"a/")])),
        ("a path of nothing", listed(&[(1, 0, b"")])),
        ("a path not UTF-8", listed(&[(1, 0, b"a\xFF")])),
        ("a path with a backslash", listed(&[(1, 0, b"a\\b")])),
        ("a file in a folder that is not listed", listed(&[(1, 0, b"a/b")])),
        ("a file in a file", listed(&[(1, 0, b"a"), (1, 0, b"a/b")])),
        ("a path twice", listed(&[(1, 0, b"a"), (1, 0, b"a")])),
        ("paths out of order", listed(&[(1, 0, b"b"), (1, 0, b"a")])),
        ("a folder with bytes", listed(&[(0, 1, b"a")])),
        ("a fourth kind of entry", listed(&[(3, 0, b"a")])),
        ("33 names deep", listed(&deep)),
        ("files of more bytes than there are", listed(&[(1, 1 << 56, b"a")])),
        ("a byte missing", bytes[..bytes.len() - 1].to_vec()),
    ] {
        file.refused("9.1", "list of a folder", name, &bytes, Listing::parse(&bytes));
    }
}

const TRANSFER: TransferId = TransferId(0x0102_0304_0506_0708);
