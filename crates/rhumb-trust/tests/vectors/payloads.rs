//! Section 9: the header of payloads, and the messages of a file transfer.

use rhumb_wire::payload::{Half, PayloadHeader, PayloadKind};
use rhumb_wire::transfer::{
    Ack, CancelReason, Chunk, FileName, Message, MessageBody, Offer, TransferId, Verdict,
};
use serde_json::{Value, json};

use super::file::{File, hex};
use super::parties::Parties;

pub(crate) fn write(_: &Parties, file: &mut File) {
    for (name, kind, port, body) in [
        ("a datagram", PayloadKind::Datagram, 7, &b"good day"[..]),
        ("a datagram of nothing", PayloadKind::Datagram, 65535, b""),
        ("a message of a transfer", PayloadKind::Transfer, 0, b"\x02\0\0\0\0\0\0\0\x01\0\0\0\x09"),
        ("of a connection", PayloadKind::Connection, 0, b"QUIC"),
        ("the second half of one of a connection", PayloadKind::Half, 9, b"\x01IC"),
    ] {
        let bytes = [&PayloadHeader { kind, port }.emit()[..], body].concat();
        let fields = json!({"kind": kind as u8, "port": port, "body": hex(body)});
        file.good("9", "payload", name, &fields, &bytes);
    }
    for (name, bytes) in [
        ("kind 0", [0, 0, 0, 7]),
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
    for (name, fields, body) in messages() {
        file.good("9.1", "transfer message", &name, &identified(fields), &emitted(body));
    }
    refusals(file);
}

fn messages() -> Vec<(String, Value, MessageBody<'static>)> {
    let name = FileName::new("käse.txt").unwrap();
    let offer = Offer { length: 5_000_000_000, sha256: [0xCC; 32], name };
    let offered = json!({
        "kind": 1, "length": offer.length, "sha256": hex(&offer.sha256), "name": "käse.txt",
    });
    let chunk = Chunk { number: 3, ack_every: 16, offset: 4_999_999_998, bytes: b"hi" };
    let sent = json!({"kind": 3, "number": 3, "acknowledge_every": 16, "offset": chunk.offset, "bytes": "6869"});
    let ack = |ranges: Vec<std::ops::Range<u64>>| {
        let shown: Vec<[u64; 2]> = ranges.iter().map(|range| [range.start, range.end]).collect();
        let fields =
            json!({"kind": 4, "cumulative": 5, "window": 1 << 20, "newest": 3, "ranges": shown});
        (fields, MessageBody::Ack(Ack { cumulative: 5, window: 1 << 20, newest: 3, ranges }))
    };
    let (plain, all) = ack(vec![]);
    let (ranged, some) = ack(vec![7..8, 10..20]);
    let accepted = json!({"kind": 2, "window": 1 << 20});
    let mut messages = vec![
        ("Offer".to_owned(), offered, MessageBody::Offer(offer)),
        ("Accept".to_owned(), accepted, MessageBody::Accept { window: 1 << 20 }),
        ("Chunk".to_owned(), sent, MessageBody::Chunk(chunk)),
        ("Ack".to_owned(), plain, all),
        ("Ack with ranges".to_owned(), ranged, some),
    ];
    for (name, verdict) in [("intact", Verdict::Intact), ("corrupt", Verdict::Corrupt)] {
        let fields = json!({"kind": 5, "verdict": verdict as u8});
        messages.push((format!("Finished: {name}"), fields, MessageBody::Finished(verdict)));
    }
    for reason in [
        CancelReason::Stopped,
        CancelReason::Declined,
        CancelReason::TooLarge,
        CancelReason::Busy,
        CancelReason::ReadFailed,
        CancelReason::WriteFailed,
        CancelReason::TimedOut,
        CancelReason::Unknown,
    ] {
        let fields = json!({"kind": 6, "reason": reason as u8});
        messages.push((format!("Cancel: {reason}"), fields, MessageBody::Cancel(reason)));
    }
    messages
}

fn refusals(file: &mut File) {
    let head = |kind: u8| [&[kind][..], &TRANSFER.0.to_be_bytes()].concat();
    let offer =
        |name: &[u8]| [&head(1)[..], &[0; 8], &[0xCC; 32], &[name.len() as u8], name].concat();
    let ack = |count: u8, pairs: &[u32]| {
        let pairs: Vec<u8> = pairs.iter().flat_map(|number| number.to_be_bytes()).collect();
        [&head(4)[..], &[0; 16], &[count], &pairs].concat()
    };
    let chunk = |offset: u64, bytes: &[u8]| {
        [&head(3)[..], &[0, 0, 0, 3, 1], &offset.to_be_bytes(), bytes].concat()
    };
    for (name, bytes) in [
        ("kind 0", head(0)),
        ("kind 7", head(7)),
        ("a file name of nothing", offer(b"")),
        ("a file name ..", offer(b"..")),
        ("a file name with a slash", offer(b"a/b")),
        ("a file name with a backslash", offer(b"a\\b")),
        ("a file name with a line end", offer(b"a\nb")),
        ("a file name that turns the text around", offer("a\u{202E}b".as_bytes())),
        ("a file name with an Arabic letter mark", offer("a\u{061C}b".as_bytes())),
        ("a file name with a line separator", offer("a\u{2028}b".as_bytes())),
        ("a file name not UTF-8", offer(b"a\xFF")),
        ("a chunk of nothing", chunk(0, b"")),
        ("a chunk beyond 2^64", chunk(u64::MAX, b"hi")),
        ("49 ranges", ack(49, &[1; 98])),
        ("a gap of 0", ack(1, &[0, 1])),
        ("a range of nothing", ack(1, &[1, 0])),
        ("verdict 2", [&head(5)[..], &[2]].concat()),
        ("reason 0", [&head(6)[..], &[0]].concat()),
        ("reason 9", [&head(6)[..], &[9]].concat()),
        ("a byte too many", [&head(2)[..], &[0; 5]].concat()),
    ] {
        file.refused("9.1", "transfer message", name, &bytes, Message::parse(&bytes));
    }
}

fn identified(mut fields: Value) -> Value {
    // As text: it has more bits than some readers of JSON keep.
    fields["transfer"] = json!(format!("{:016x}", TRANSFER.0));
    fields
}

fn emitted(body: MessageBody<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = Message { id: TRANSFER, body };
    message.emit(&mut bytes);
    assert_eq!(Message::parse(&bytes), Ok(message));
    bytes
}

const TRANSFER: TransferId = TransferId(0x0102_0304_0506_0708);
