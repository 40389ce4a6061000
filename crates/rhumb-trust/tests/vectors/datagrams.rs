//! Sections 4 and 10: the clear bytes of datagrams, session parameters, and discovery.

use std::num::NonZeroU64;

use rhumb_wire::bundle;
use rhumb_wire::datagram::{
    AEAD_TAG_LEN, Counter, Datagram, HELLO_ID_LEN, LANES, PathMessage, RECORD_OVERHEAD,
    RecordHeader, RecordKind, SessionIndex, SessionParameters, TOKEN_LEN,
};
use rhumb_wire::discovery::{Discovery, Nonce};
use rhumb_wire::stream::{StreamFrame, StreamParameters};
use serde_json::json;

use super::file::{File, hex};
use super::parties::Parties;

pub(crate) fn write(_: &Parties, file: &mut File) {
    headers(file);
    let token: [u8; TOKEN_LEN] = std::array::from_fn(|at| at as u8);
    for token in [None, Some(&token)] {
        let mut bytes = Vec::new();
        Datagram::emit_initial(token, DTLS, &mut bytes);
        let fields = json!({"token": token.map(|token| hex(token)), "dtls": hex(DTLS)});
        let name = if token.is_some() { "with a token" } else { "without a token" };
        file.good("4.3", "initial", name, &fields, &bytes);
    }
    let mut retry = Vec::new();
    let hello: [u8; HELLO_ID_LEN] = std::array::from_fn(|at| 0xE0 + at as u8);
    Datagram::emit_retry(&hello, &token, &mut retry);
    let fields = json!({"hello": hex(&hello), "token": hex(&token)});
    file.good("4.3", "retry", "a token", &fields, &retry);
    let index = SessionIndex::new(0x0123_4567).unwrap();
    let parameters = SessionParameters { index, lanes: 1, max_datagram_len: 1472 };
    let fields = json!({"index": index.as_u32(), "lanes": 1, "largest_datagram": 1472});
    file.good("4.3", "session parameters", "usual", &fields, &parameters.emit());
    let base = index.base();
    let eight = SessionParameters { index: base, lanes: LANES, ..parameters };
    let fields = json!({"index": base.as_u32(), "lanes": LANES, "largest_datagram": 1472});
    file.good("4.3", "session parameters", "eight lanes", &fields, &eight.emit());
    datagram_refusals(&retry, file);
    parameter_refusals(parameters.emit(), file);
    path_messages(file);
    streams(file);
    bundles(file);
}

fn bundles(file: &mut File) {
    let form = "bundle";
    let of = |pdus: &[&[u8]]| {
        let mut bytes = Vec::new();
        pdus.iter().for_each(|pdu| bundle::push(&mut bytes, pdu));
        bytes
    };
    let (first, second) = (&b"a PDU stands here"[..], &b"and another"[..]);
    for (name, pdus) in
        [("empty", vec![]), ("of one", vec![first]), ("of two", vec![first, second])]
    {
        let fields = json!({"pdus": pdus.iter().map(|pdu| hex(pdu)).collect::<Vec<_>>()});
        file.good("4.8", form, name, &fields, &of(&pdus));
    }
    let two = of(&[first, second]);
    for (name, bytes) in [
        ("ends within a PDU", two[..two.len() - 1].to_vec()),
        ("ends within a length", [&two[..], &[0]].concat()),
        ("an empty PDU", [&two[..], &[0, 0]].concat()),
        ("more than 64 PDUs", of(&[&b"x"[..]; bundle::MAX_PDUS + 1])),
    ] {
        file.refused("4.8", form, name, &bytes, bundle::pdus(&bytes).map(Iterator::count));
    }
}

fn path_messages(file: &mut File) {
    let form = "path message";
    let (challenge, answer) = (0x0102_0304_0506_0708, 0xF1F2_F3F4_F5F6_F7F8);
    let mut messages = Vec::new();
    for (name, challenge, answer, padding) in [
        ("a challenge", challenge, 0, 0),
        ("an answer", 0, answer, 0),
        ("both", challenge, answer, 0),
        ("a probe for datagrams of 1252 bytes", challenge, 0, 1252 - 44),
    ] {
        let [challenge, answer] = [challenge, answer].map(NonZeroU64::new);
        let text = |value: Option<NonZeroU64>| value.map(|value| hex(&value.get().to_be_bytes()));
        let fields =
            json!({"challenge": text(challenge), "answer": text(answer), "padding": padding});
        let mut bytes = PathMessage { challenge, answer }.emit().to_vec();
        messages.push(bytes.clone());
        bytes.resize(bytes.len() + padding, 0);
        assert_eq!(PathMessage::parse(&bytes), Ok(PathMessage { challenge, answer }));
        file.good("4.5", form, name, &fields, &bytes);
    }
    let padded = |message: usize, padding: &[u8]| [&messages[message][..], padding].concat();
    for (name, bytes) in [
        ("neither", vec![0; 16]),
        ("a byte less", vec![1; 15]),
        ("a byte too many", vec![1; 17]),
        ("padding that is not zero", padded(0, &[0, 0, 1])),
        ("padding behind an answer", padded(1, &[0])),
        ("padding behind both", padded(2, &[0])),
        ("padding behind nothing", vec![0; 100]),
    ] {
        file.refused("4.5", form, name, &bytes, PathMessage::parse(&bytes));
    }
}

fn streams(file: &mut File) {
    let form = "stream parameters";
    let parameters = StreamParameters { max_datagram_len: 1452 };
    let fields = json!({"largest_datagram": 1452});
    file.good("4.7", form, "usual", &fields, &parameters.emit());
    let changed = |at: usize, value: u8| {
        let mut bytes = parameters.emit();
        bytes[at] = value;
        bytes.to_vec()
    };
    for (name, bytes) in [
        ("of another length", changed(1, 11)),
        ("eight lanes", changed(5, LANES)),
        ("a session index", changed(9, 1)),
        ("version 2", changed(4, 2)),
    ] {
        file.refused("4.7", form, name, &bytes, StreamParameters::split(&bytes));
    }
    let form = "frame";
    let longest = 1452 - RECORD_OVERHEAD;
    for (name, frame) in [
        ("a PDU", StreamFrame::Pdu(&[0xAB; 5])),
        ("a keep-alive", StreamFrame::Pdu(&[])),
        ("a close", StreamFrame::Close),
    ] {
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        let (kind, pdu) = match frame {
            StreamFrame::Pdu(pdu) => (0x80, pdu),
            StreamFrame::Close => (0xB0, &[][..]),
        };
        assert_eq!(StreamFrame::split(&bytes, longest), Ok(Some((frame, bytes.len()))));
        file.good("4.7", form, name, &json!({"type": kind, "pdu": hex(pdu)}), &bytes);
    }
    for (name, bytes) in [
        ("no type", vec![0, 0]),
        ("of no such type", vec![0, 1, 0x90]),
        ("a path message", [&[0, 17, 0xD0][..], &[1; 16]].concat()),
        ("a close that says something", vec![0, 2, 0xB0, 0]),
        ("a longer PDU than fits 1452 bytes", [&[5, 0x92, 0x80][..], &vec![0; 1425]].concat()),
    ] {
        file.refused("4.7", form, name, &bytes, StreamFrame::split(&bytes, longest));
    }
}

fn headers(file: &mut File) {
    for (name, kind, index, epoch, number) in [
        ("PDU", RecordKind::Pdu, 0x0123_4567, 1, 2),
        ("close", RecordKind::Close, 1, 0, 0),
        ("path message", RecordKind::Path, 1, 0, 3),
        ("bundle", RecordKind::Bundle, 1, 0, 4),
        ("the last of everything", RecordKind::Pdu, 0x0FFF_FFFF, u16::MAX, (1 << 48) - 1),
    ] {
        let index = SessionIndex::new(index).unwrap();
        let header = RecordHeader { kind, index, counter: Counter::new(epoch, number) };
        let kind = match kind {
            RecordKind::Pdu => 0x8,
            RecordKind::Close => 0xB,
            RecordKind::Path => 0xD,
            RecordKind::Bundle => 0xE,
        };
        let index = index.as_u32();
        let fields = json!({"type": kind, "index": index, "epoch": epoch, "number": number});
        file.good("4.1", "sealed header", name, &fields, &header.emit());
    }
    for (name, bytes) in [
        ("no room for a tag", [&[0x80][..], &[0; RecordHeader::LEN + AEAD_TAG_LEN - 2]].concat()),
        ("of no such type", [&[0xC0][..], &[0; 27]].concat()),
    ] {
        file.refused("4.1", "sealed datagram", name, &bytes, RecordHeader::parse(&bytes));
    }
}

fn datagram_refusals(retry: &[u8], file: &mut File) {
    let initial = |token_len: u8, rest: &[u8]| [&[0x90, 0, 0, 1, token_len][..], rest].concat();
    for (name, bytes) in [
        ("nothing", vec![]),
        ("first byte 0", vec![0; 40]),
        ("first byte 19", vec![19; 40]),
        ("first byte 64", vec![64; 40]),
        ("initial of version 2", [&[0x90, 0, 0, 2, 0], DTLS].concat()),
        ("initial with a token of 1 byte", initial(1, &[&[7], DTLS].concat())),
        ("initial without a DTLS datagram", initial(0, b"")),
        ("initial around something else", initial(0, &[0x80; 40])),
        ("retry of version 2", [&[0xA0, 0, 0, 2], &retry[4..]].concat()),
        ("retry cut short", retry[..27].to_vec()),
        ("retry with a byte too many", [retry, &[0]].concat()),
    ] {
        file.refused("4", "datagram", name, &bytes, Datagram::parse(&bytes));
    }
}

fn parameter_refusals(good: [u8; SessionParameters::LEN], file: &mut File) {
    let form = "session parameters";
    for (name, at, value) in [
        ("another magic", 0, b'X'),
        ("version 2", 2, 2),
        ("two lanes", 3, 2),
        ("eight lanes from another than lane 0", 3, LANES),
        ("an index of 29 bits", 4, 0x10),
    ] {
        let mut bent = good;
        bent[at] = value;
        file.refused("4.3", form, name, &bent, SessionParameters::parse(&bent));
    }
    let long = [&good[..], &[0]].concat();
    file.refused("4.3", form, "a byte too many", &long, SessionParameters::parse(&long));
}

pub(crate) fn write_discovery(_: &Parties, file: &mut File) {
    let nonce = Nonce([1, 2, 3, 4, 5, 6, 7, 8]);
    let (mut query, mut answer) = (Vec::new(), Vec::new());
    Discovery::Query(nonce).emit(&mut query);
    Discovery::Answer(nonce).emit(&mut answer);
    for (name, bytes) in [("query", &query), ("answer", &answer)] {
        let fields = json!({"kind": name, "nonce": hex(&nonce.0)});
        file.good("10", "discovery", name, &fields, bytes);
    }
    let mut padded = query.clone();
    padded[63] = 1;
    let third = [&[0xC0, 0, 0, 3], &answer[4..]].concat();
    for (name, bytes) in [
        ("a query of 63 bytes", query[..63].to_vec()),
        ("a query of 65 bytes", [&query[..], &[0]].concat()),
        ("a query whose padding is not zero", padded),
        ("an answer of 11 bytes", answer[..11].to_vec()),
        ("an answer of 13 bytes", [&answer[..], &[0]].concat()),
        ("kind 3", third),
    ] {
        file.refused("10", "discovery", name, &bytes, Discovery::parse(&bytes));
    }
}

/// The start of a DTLS record; an initial holds whatever begins like one.
const DTLS: &[u8] = &[22, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4];
