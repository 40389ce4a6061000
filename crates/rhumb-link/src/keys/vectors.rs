//! The test vectors of `docs/vectors/link.json`: key schedule, sealed records and
//! retry tokens, which are private to this crate. `cargo xtask vectors` writes
//! the file; all others are made in `rhumb-trust`.

use std::path::Path;
use std::time::{Duration, Instant};

use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex};
use serde_json::{Value, json};

use super::{EXPORT_LEN, ExportedKeys, KEY_LEN, LaneSecret, SALT_LEN, expand};
use crate::aead::nonce;
use crate::lane::{EPOCH_LIFETIME, ReceiveLane, SendLane};
use crate::retry::{HelloHash, RetryTokens};
use crate::{Cipher, DropReason, Records};

#[test]
#[cfg(not(rhumb_null_cipher))]
fn the_file_says_what_the_code_does() {
    let mut vectors = Vec::new();
    for client in [true, false] {
        schedule(client, &mut vectors);
        records(client, &mut vectors);
    }
    refused_records(&mut vectors);
    for client in [true, false] {
        records_of_connections(client, &mut vectors);
    }
    tokens(&mut vectors);
    let made = Value::Array(vectors);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/link.json");
    if std::env::var_os("RHUMB_WRITE_VECTORS").is_some() {
        std::fs::write(&path, format!("{made:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for (made, stored) in made.as_array().unwrap().iter().zip(stored.as_array().unwrap()) {
        assert_eq!(made, stored, "docs/vectors/link.json says otherwise than the code");
    }
    assert_eq!(made, stored, "docs/vectors/link.json has more or fewer vectors than the code");
}

/// What the handshake exports: the bytes 0 to 87.
fn exported() -> [u8; EXPORT_LEN] {
    std::array::from_fn(|at| at as u8)
}

fn secrets(client: bool) -> LaneSecret {
    lane_secret(client, 0)
}

fn lane_secret(client: bool, lane: usize) -> LaneSecret {
    let secrets = ExportedKeys::new(&exported()).unwrap().lane_secrets(client).0;
    secrets.into_iter().nth(lane).unwrap()
}

fn schedule(client: bool, vectors: &mut Vec<Value>) {
    lane_schedule(client, 0, 3, vectors);
    lane_schedule(client, 7, 2, vectors);
}

fn lane_schedule(client: bool, lane: usize, epochs: u16, vectors: &mut Vec<Value>) {
    let mut secret = lane_secret(client, lane);
    for epoch in 0..epochs {
        let key: [u8; KEY_LEN] = *expand(&secret.prk(), &[b"rhumb/1 key"]);
        let salt: [u8; SALT_LEN] = *expand(&secret.prk(), &[b"rhumb/1 salt"]);
        let on_lane = if lane == 0 { String::new() } else { format!(" on lane {lane}") };
        let name = format!("sent by the {}{on_lane}, epoch {epoch}", end(client));
        let fields = json!({
            "exported": hex(&exported()), "sender": end(client), "lane": lane, "epoch": epoch,
            "secret": hex(&*secret.0), "key": hex(&key), "salt": hex(&salt),
        });
        vectors.push(json!({
            "section": "4.2", "form": "epoch keys", "name": name, "fields": fields,
            "hex": hex(&[&key[..], &salt].concat()),
        }));
        secret = secret.next();
    }
}

/// A lane that sends: the first records of epoch 0, and
/// after the epoch's time the first of epoch 1.
fn records(client: bool, vectors: &mut Vec<Value>) {
    let start = now();
    let index = SessionIndex::new(0x0123_4567).unwrap();
    let mut lane = SendLane::new(Cipher::Aes256Gcm, secrets(client), index, start);
    let mut receiver = ReceiveLane::new(Cipher::Aes256Gcm, secrets(client), start);
    for (name, kind, plaintext, at) in [
        ("keep-alive", RecordKind::Pdu, &b""[..], start),
        ("in epoch 0", RecordKind::Pdu, b"any PDU stands here", start),
        ("in epoch 1", RecordKind::Pdu, b"any PDU stands here", start + EPOCH_LIFETIME),
        ("close", RecordKind::Close, b"", start + EPOCH_LIFETIME),
    ] {
        let mut record = vec![0; RECORD_OVERHEAD + plaintext.len()];
        record[RecordHeader::LEN..][..plaintext.len()].copy_from_slice(plaintext);
        lane.seal(kind, &mut record, at).unwrap();
        let header = RecordHeader::parse(&record).unwrap();
        let mut opened = record.clone();
        let place = receiver.open(header, &mut opened, at).unwrap();
        assert_eq!(&opened[place], plaintext);

        let epoch = header.counter.epoch();
        let mut secret = secrets(client);
        (0..epoch).for_each(|_| secret = secret.next());
        let salt: [u8; SALT_LEN] = *expand(&secret.prk(), &[b"rhumb/1 salt"]);
        let fields = json!({
            "exported": hex(&exported()),
            "sender": end(client),
            "type": if kind == RecordKind::Pdu { 0x8 } else { 0xB },
            "index": index.as_u32(),
            "epoch": epoch,
            "number": header.counter.packet_number(),
            "nonce": hex(&nonce(&salt, header.counter)),
            "associated_data": hex(&record[..RecordHeader::LEN]),
            "plaintext": hex(plaintext),
        });
        let name = format!("sent by the {}: {name}", end(client));
        vectors.push(json!({
            "section": "4.1", "form": "sealed record", "name": name, "fields": fields,
            "hex": hex(&record),
        }));
    }
}

/// What ends seal by the keys of a connection.
fn records_of_connections(client: bool, vectors: &mut Vec<Value>) {
    let start = now();
    let export: [u8; Records::EXPORT_LEN] = std::array::from_fn(|at| at as u8 ^ 0xA0);
    let mut ends = [client, !client].map(|it| Records::new(&export, it, start).unwrap());
    let [sends, receives] = &mut ends;
    for at in [start, start + EPOCH_LIFETIME] {
        let plaintext = b"any packet stands here";
        let mut record = vec![0; RECORD_OVERHEAD + plaintext.len()];
        record[RecordHeader::LEN..][..plaintext.len()].copy_from_slice(plaintext);
        sends.seal(&mut record, at).unwrap();
        let header = RecordHeader::parse(&record).unwrap();
        let (sealed, mut opened) = (&record[RecordHeader::LEN..], [0; 64]);
        assert_eq!(receives.open(header, sealed, &mut opened, at), Ok(plaintext.len()));
        assert_eq!(&opened[..plaintext.len()], plaintext);
        let epoch = header.counter.epoch();
        let fields = json!({
            "exported": hex(&export), "sender": end(client), "index": header.index.as_u32(),
            "epoch": epoch, "number": header.counter.packet_number(), "plaintext": hex(plaintext),
        });
        vectors.push(json!({
            "section": "9.2", "form": "record of a connection",
            "name": format!("sent by the {}, epoch {epoch}", end(client)),
            "fields": fields, "hex": hex(&record),
        }));
    }
}

fn refused_records(vectors: &mut Vec<Value>) {
    let start = now();
    let index = SessionIndex::new(0x0123_4567).unwrap();
    let mut lane = SendLane::new(Cipher::Aes256Gcm, secrets(true), index, start);
    let mut good = vec![7; RECORD_OVERHEAD + 4];
    lane.seal(RecordKind::Pdu, &mut good, start).unwrap();
    for (name, at, change) in [
        ("another index", 3, 1),
        ("another epoch", 5, 1),
        ("another packet number", 11, 1),
        ("another ciphertext", 12, 1),
        ("another tag", good.len() - 1, 0x80),
        ("a close in place of a PDU", 0, 0x30),
        ("five epochs ahead", 5, 5),
    ] {
        let mut record = good.clone();
        record[at] ^= change;
        let header = RecordHeader::parse(&record).unwrap();
        let mut receiver = ReceiveLane::new(Cipher::Aes256Gcm, secrets(true), start);
        let error: DropReason = receiver.open(header, &mut record.clone(), start).unwrap_err();
        let fields = json!({"exported": hex(&exported()), "sender": "client"});
        vectors.push(json!({
            "section": "4.1", "form": "sealed record", "name": name, "fields": fields,
            "error": error.as_str(), "hex": hex(&record),
        }));
    }
}

fn tokens(vectors: &mut Vec<Value>) {
    let start = now();
    let key: [u8; 32] = std::array::from_fn(|at| at as u8);
    let mut hello = vec![22, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4];
    hello.extend_from_slice(&[1, 2, 3, 4]);
    let tokens = RetryTokens::new(&key, start);
    let at = start + Duration::from_secs(258);
    for (ip, port) in [("192.0.2.1", 7460), ("2001:db8::1", 7460)] {
        let address = std::net::SocketAddr::new(ip.parse().unwrap(), port);
        let token = tokens.issue(address, &HelloHash::of(&hello), at);
        assert!(tokens.verify(&token, address, &HelloHash::of(&hello), at));
        let fields = json!({
            "key": hex(&key), "time_s": 258, "ip": ip, "port": port, "dtls": hex(&hello),
        });
        vectors.push(json!({
            "section": "4.3", "form": "retry token", "name": format!("for {address}"),
            "fields": fields, "hex": hex(&token),
        }));
    }
}

fn end(client: bool) -> &'static str {
    if client { "client" } else { "server" }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
fn now() -> Instant {
    Instant::now()
}
