//! Recorded routing data (MRT, RFC 6396): the messages in it, and
//! its tables as messages that would make them.
//!
//! The whole recordings lie beside the repository, in
//! `shared/data/bgp`; excerpts of two are in `tests/data`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's data may be broken, and its world begins at some instant"
)]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use rhumb_bgp::{Config, ConnectionId, Event, Session, Side};

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Speaker {
    pub(crate) number: u32,
    pub(crate) address: IpAddr,
    /// Numbers in its paths have four octets.
    pub(crate) four_octet_as: bool,
}

/// A recording that lies beside the repository, unpacked; nothing,
/// with the reason printed, if it is not there.
pub(crate) fn recording(name: &str) -> Option<Vec<u8>> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bgp").join(name);
    let program = if name.ends_with(".gz") { "gzip" } else { "bzip2" };
    if !path.exists() {
        println!("skipped: {name} is not beside the repository");
        return None;
    }
    match Command::new(program).arg("-dc").arg(&path).stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        _ => {
            println!("skipped: {name}: `{program}` does not unpack it");
            None
        }
    }
}

/// An excerpt that is part of the repository.
pub(crate) fn excerpt(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// The BGP messages of a recording of updates, in their order.
pub(crate) fn messages(recording: &[u8]) -> Vec<(Speaker, &[u8])> {
    records(recording)
        .filter(|record| record.kind == BGP4MP)
        .filter_map(|record| message(&record))
        .collect()
}

/// A table (`TABLE_DUMP_V2`), as for each speaker the
/// UPDATE messages of its routes, one for each route.
pub(crate) fn table(recording: &[u8]) -> BTreeMap<Speaker, Vec<Vec<u8>>> {
    let mut speakers = Vec::new();
    let mut tables = BTreeMap::new();
    for record in records(recording).filter(|record| record.kind == TABLE_DUMP_V2) {
        match record.subtype {
            1 => speakers = peer_index(record.body),
            2 | 4 => routes(record.subtype == 4, record.body, &speakers, &mut tables),
            _ => {}
        }
    }
    tables
}

/// A session whose neighbour is a speaker of a recording.
pub(crate) struct Listener {
    pub(crate) session: Session,
    connection: ConnectionId,
    pub(crate) now: Instant,
}

impl Listener {
    pub(crate) fn new(speaker: Speaker) -> Self {
        let now = Instant::now();
        let mut config = Config::new(OURS, [10, 0, 0, 1].into(), speaker.number);
        config.passive = true;
        config.enforce_first_as = false;
        let mut session = Session::new(config, 1).unwrap();
        session.start(now);
        let connection = session.connected(Side::Incoming, now).unwrap();
        let mut listener = Self { session, connection, now };
        listener.hear(&open(speaker));
        listener.hear(&[&[0xff; 16][..], &[0, 19, 4]].concat());
        assert!(matches!(listener.session.poll_event(), Some(Event::Up(_))));
        while listener.session.poll_transmit(now).is_some() {}
        listener
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.session.handle_bytes(self.connection, bytes, self.now);
    }
}

/// Our number: in no path of the recordings.
pub(crate) const OURS: u32 = 4_199_999_999;

struct Record<'a> {
    kind: u16,
    subtype: u16,
    body: &'a [u8],
}

fn records(mut rest: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let header = rest.get(..12)?;
        let length = number(&header[8..12]) as usize;
        let body = rest.get(12..12 + length)?;
        rest = &rest[12 + length..];
        Some(Record {
            kind: number(&header[4..6]) as u16,
            subtype: number(&header[6..8]) as u16,
            body,
        })
    })
}

fn message<'a>(record: &Record<'a>) -> Option<(Speaker, &'a [u8])> {
    let width = match record.subtype {
        1 => 2,
        4 => 4,
        _ => return None,
    };
    let body = record.body;
    let family = number(&body[2 * width + 2..2 * width + 4]);
    let address_at = 2 * width + 4;
    let address_len = if family == 1 { 4 } else { 16 };
    let speaker = Speaker {
        number: number(&body[..width]),
        address: address(&body[address_at..address_at + address_len]),
        four_octet_as: width == 4,
    };
    Some((speaker, &body[address_at + 2 * address_len..]))
}

fn peer_index(body: &[u8]) -> Vec<Speaker> {
    let name = number(&body[4..6]) as usize;
    let mut rest = &body[6 + name..];
    let count = number(&rest[..2]);
    rest = &rest[2..];
    let mut speakers = Vec::new();
    for _ in 0..count {
        let kind = rest[0];
        let address_len = if kind & 1 == 0 { 4 } else { 16 };
        let width = if kind & 2 == 0 { 2 } else { 4 };
        let address = address(&rest[5..5 + address_len]);
        let number = number(&rest[5 + address_len..5 + address_len + width]);
        speakers.push(Speaker { number, address, four_octet_as: true });
        rest = &rest[5 + address_len + width..];
    }
    speakers
}

fn routes(
    is_v6: bool,
    body: &[u8],
    speakers: &[Speaker],
    tables: &mut BTreeMap<Speaker, Vec<Vec<u8>>>,
) {
    let prefix_len = 1 + usize::from(body[4].div_ceil(8));
    let prefix = &body[4..4 + prefix_len];
    let mut rest = &body[4 + prefix_len..];
    let count = number(&rest[..2]);
    rest = &rest[2..];
    for _ in 0..count {
        let speaker = speakers[number(&rest[..2]) as usize];
        let length = number(&rest[6..8]) as usize;
        let attributes = &rest[8..8 + length];
        rest = &rest[8 + length..];
        let update = if is_v6 {
            update(&reach(attributes, prefix), &[])
        } else {
            update(attributes, prefix)
        };
        tables.entry(speaker).or_default().push(update);
    }
}

/// In tables, `MP_REACH_NLRI` is the next hop alone (RFC 6396, section 4.3.4).
fn reach(attributes: &[u8], prefix: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut rest = attributes;
    while let [flags, kind, ..] = *rest {
        let (header, length) = match flags & 0x10 {
            0 => (3, usize::from(rest[2])),
            _ => (4, number(&rest[2..4]) as usize),
        };
        if kind == 14 {
            let value = [&[0, 2, 1], &rest[header..header + length], &[0], prefix].concat();
            whole.extend([0x80, 14, value.len() as u8]);
            whole.extend(value);
        } else {
            whole.extend(&rest[..header + length]);
        }
        rest = &rest[header + length..];
    }
    whole
}

fn update(attributes: &[u8], nlri: &[u8]) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    message.extend(((23 + attributes.len() + nlri.len()) as u16).to_be_bytes());
    message.extend([2, 0, 0]);
    message.extend((attributes.len() as u16).to_be_bytes());
    message.extend(attributes);
    message.extend(nlri);
    message
}

fn open(speaker: Speaker) -> Vec<u8> {
    let mut capabilities = vec![1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1];
    if speaker.four_octet_as {
        capabilities.extend([65, 4]);
        capabilities.extend(speaker.number.to_be_bytes());
    }
    let mut message = vec![0xff; 16];
    message.extend([0, 31 + capabilities.len() as u8, 1, 4]);
    message.extend(u16::try_from(speaker.number).unwrap_or(23456).to_be_bytes());
    message.extend([0, 0, 10, 0, 0, 2, 2 + capabilities.len() as u8, 2, capabilities.len() as u8]);
    message.extend(capabilities);
    message
}

fn address(bytes: &[u8]) -> IpAddr {
    match bytes.first_chunk::<16>() {
        Some(bytes) => Ipv6Addr::from_octets(*bytes).into(),
        None => Ipv4Addr::from_octets(*bytes.first_chunk().unwrap()).into(),
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

const BGP4MP: u16 = 16;
const TABLE_DUMP_V2: u16 = 13;
