//! Section 9: the header of payloads, the offers of files, and the lists of folders.

use rhumb_wire::folder::{Entry, EntryKind, FileSpan, Listing};
use rhumb_wire::held::Held;
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
        ("a fifth kind", [&bytes[..8], &[4], &bytes[9..]].concat()),
        ("what has no end yet, with a length", [&bytes[..8], &[2], &bytes[9..]].concat()),
    ] {
        file.refused("9.1", "offer", name, &bytes, Offer::parse(&bytes));
    }
    listings(file);
    hashed_listings(file);
    held(file);
}

fn listings(file: &mut File) {
    let entry = |path: &str, kind| Entry { path: path.to_owned(), kind };
    let of_file = |length, is_executable| EntryKind::File { length, is_executable, sha256: None };
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
        ("a file without the SHA-256 that it is to have", listed(&[(3, 0, b"a")])),
        ("a sixth kind of entry", listed(&[(5, 0, b"a")])),
        ("33 names deep", listed(&deep)),
        ("files of more bytes than there are", listed(&[(1, 1 << 56, b"a")])),
        ("a byte missing", bytes[..bytes.len() - 1].to_vec()),
    ] {
        file.refused("9.1", "list of a folder", name, &bytes, Listing::parse(&bytes));
    }
}

fn hashed_listings(file: &mut File) {
    let entry = |path: &str, length, is_executable, sha256| {
        let kind = EntryKind::File { length, is_executable, sha256: Some(sha256) };
        Entry { path: path.to_owned(), kind }
    };
    let entries = vec![
        Entry { path: "bin".to_owned(), kind: EntryKind::Folder },
        entry("bin/run", 5, true, [0xAA; 32]),
        entry("käse.txt", 4_000_000_000, false, [0xBB; 32]),
    ];
    let fields = json!({ "entries": [
        { "path": "bin", "kind": 0, "length": 0 },
        { "path": "bin/run", "kind": 4, "length": 5, "sha256": hex(&[0xAA; 32]) },
        { "path": "käse.txt", "kind": 3, "length": 4_000_000_000_u64, "sha256": hex(&[0xBB; 32]) },
    ]});
    let listing = Listing::new(entries).unwrap();
    let bytes = listing.emit()[Listing::HEAD_LEN..].to_vec();
    assert_eq!(Listing::parse(&bytes), Ok(listing));
    file.good("9.1", "list of a folder", "files with their SHA-256", &fields, &bytes);
    let one = |kind: u8, length: u64, path: u8, sha256: &[u8]| {
        [&[kind][..], &length.to_be_bytes(), &[0, 1, path], sha256].concat()
    };
    for (name, bytes) in [
        ("files with their SHA-256 and without", [one(1, 1, b'a', &[]), one(3, 1, b'b', &[9; 32])]),
        ("a file of no bytes with another SHA-256", [one(3, 0, b'a', &[9; 32]), Vec::new()]),
        ("a SHA-256 too short", [one(4, 1, b'a', &[9; 31]), Vec::new()]),
    ] {
        let bytes = bytes.concat();
        file.refused("9.1", "list of a folder", name, &bytes, Listing::parse(&bytes));
    }
}

/// What a receiver says of three files, of 5, 0 and 7 bytes.
fn held(file: &mut File) {
    let spans = [5, 0, 7].map(|length| FileSpan { at: 0, length, sha256: [0; 32] });
    let mut held = Held::nothing(&spans);
    held.begin_with(2, 6);
    let mut bytes = Vec::new();
    held.emit(&mut bytes);
    let fields = json!({ "first": 2, "there": 6, "whole": [false, true, false] });
    file.good("9.1", "files that are there", "a part of the third", &fields, &bytes);
    held.add_whole(0);
    held.add_whole(2);
    let mut bytes = Vec::new();
    held.emit(&mut bytes);
    let fields = json!({ "first": 0, "there": 0, "whole": [true, true, true] });
    file.good("9.1", "files that are there", "all", &fields, &bytes);
    let said = |first: u32, there: u64, bits: u8| {
        [&first.to_be_bytes()[..], &there.to_be_bytes(), &[bits]].concat()
    };
    for (name, bytes) in [
        ("all of a file that is not whole", said(0, 5, 0b0100_0000)),
        ("one that is whole comes first", said(0, 0, 0b1100_0000)),
        ("a part although all are whole", said(0, 1, 0b1110_0000)),
        ("a file that there is not", said(3, 0, 0b0100_0000)),
        ("a file of no bytes that is missing", said(0, 0, 0)),
        ("a bit of no file", said(0, 0, 0b0101_0000)),
        ("a byte too many", [&said(0, 0, 0b0100_0000)[..], &[0]].concat()),
    ] {
        file.refused("9.1", "files that are there", name, &bytes, Held::parse(&bytes, &spans));
    }
}

const TRANSFER: TransferId = TransferId(0x0102_0304_0506_0708);
