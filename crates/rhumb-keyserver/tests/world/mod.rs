//! A key server with two waypoints and two principals, and those who ask it, in virtual time.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of this; a test may panic"
)]

use std::collections::HashMap;
use std::net::IpAddr;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Record, Ttl};
use domain::rdata::Txt;
use rhumb_capability::{Epoch, EpochKeys, Flags, Master, Principal, Suite, Window, WindowClock};
use rhumb_keyserver::Zone;
use rhumb_keyserver::principal::{KnownWaypoint, PrincipalFile};
use rhumb_keyserver::question::KeyQuestion;
use rhumb_keyserver::record::SharedKey;
use rhumb_keyserver::revocation::Book;
use rhumb_keyserver::server::{Config, KeyServer, Outcome, Transport, Waypoint};
use rhumb_keyserver::tsig::{Keyring, TsigKey};

pub(crate) const APEX: &str = "_k.example.net";
pub(crate) const GRACE_MS: u32 = 10_000;
/// The start of a window of 1024 s.
pub(crate) const START_MS: u64 = (1_800_000_000 >> 10 << 10) * 1000;

pub(crate) fn waypoints() -> [IpAddr; 2] {
    ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]
}

pub(crate) fn clock() -> WindowClock {
    WindowClock::new(10, GRACE_MS, 5_000).unwrap()
}

pub(crate) fn key(name: &str) -> TsigKey {
    TsigKey::new(name, &[name.len() as u8; 32]).unwrap()
}

pub(crate) fn epoch_keys(epoch: u8) -> EpochKeys {
    EpochKeys::new(Epoch(epoch), &Master::new([epoch; 16]))
}

pub(crate) fn config() -> Config {
    let mut keyring = Keyring::default();
    let operator = keyring.add(key("operator")).unwrap();
    let followers = ["waypoint-a", "waypoint-bb"].map(|name| keyring.add(key(name)).unwrap());
    let waypoints = waypoints().into_iter().zip(followers).map(|(address, follower)| Waypoint {
        address,
        clock: clock(),
        suite: Suite::HeaderAes,
        keys: epoch_keys(1),
        follower: Some(follower),
    });
    let principals = [42, 43].map(|number| (Principal(number), SharedKey::new([number as u8; 32])));
    Config {
        zone: Zone::new(APEX, &[], vec![[192, 0, 2, 53].into()]).unwrap(),
        waypoints: waypoints.collect(),
        principals: HashMap::from(principals),
        keyring,
        operators: vec![operator],
        rate_per_s: 1_000_000,
        secret: [1; 16],
    }
}

pub(crate) fn server() -> KeyServer {
    KeyServer::new(config(), Book::default())
}

pub(crate) fn principal_file(number: u32) -> PrincipalFile {
    let known =
        waypoints().map(|address| KnownWaypoint::new(address, 10, GRACE_MS, 5_000).unwrap());
    let key = SharedKey::new([number as u8; 32]);
    PrincipalFile::new(Principal(number), APEX, key, known.to_vec()).unwrap()
}

pub(crate) fn question(waypoint: IpAddr, principal: u32, window: u32) -> KeyQuestion {
    KeyQuestion {
        waypoint,
        principal: Principal(principal),
        flags: Flags::NONE,
        window: Window(window),
    }
}

pub(crate) fn window_at(now_ms: u64) -> u32 {
    clock().at(now_ms * 1000).0
}

pub(crate) fn query(name: &str, qtype: Rtype) -> Vec<u8> {
    query_in(name, qtype, Class::IN)
}

pub(crate) fn query_in(name: &str, qtype: Rtype, class: Class) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(77);
    let mut section = builder.question();
    let name = Name::<Vec<u8>>::vec_from_str(name).unwrap();
    section.push((name, qtype, class)).unwrap();
    section.finish()
}

pub(crate) fn with_opt(message: Vec<u8>, payload_size: u16, version: u8) -> Vec<u8> {
    let mut message = message;
    message.extend([0, 0, 41]);
    message.extend(payload_size.to_be_bytes());
    message.extend([0, version, 0, 0, 0, 0]);
    message[11] += 1;
    message
}

/// An update that adds these records.
pub(crate) fn update(records: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(78);
    builder.header_mut().set_opcode(Opcode::UPDATE);
    let mut zone = builder.question();
    zone.push((Name::<Vec<u8>>::vec_from_str(APEX).unwrap(), Rtype::SOA)).unwrap();
    let mut section = zone.authority();
    for (owner, text) in records {
        let owner = Name::<Vec<u8>>::vec_from_str(&format!("{owner}.{APEX}")).unwrap();
        let text = Txt::<Vec<u8>>::build_from_slice(text.as_bytes()).unwrap();
        section.push(Record::new(owner, Class::IN, Ttl::ZERO, text)).unwrap();
    }
    section.finish()
}

pub(crate) const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));

#[track_caller]
pub(crate) fn ask_by(
    server: &mut KeyServer,
    message: &[u8],
    transport: Transport,
    now_ms: u64,
) -> Vec<u8> {
    match server.handle(message, SOURCE, transport, now_ms) {
        Outcome::Answer(answer) => answer,
        Outcome::Store(staged) => server.stored(&staged, true, now_ms),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn ask(server: &mut KeyServer, message: &[u8], now_ms: u64) -> Vec<u8> {
    ask_by(server, message, Transport::Datagram, now_ms)
}

pub(crate) fn rcode(answer: &[u8]) -> Rcode {
    Message::from_octets(answer).unwrap().header().rcode()
}

pub(crate) fn is_truncated(answer: &[u8]) -> bool {
    Message::from_octets(answer).unwrap().header().tc()
}

/// Strings and TTLs of the TXT records of an answer.
pub(crate) fn texts(answer: &[u8]) -> Vec<(Vec<u8>, u32)> {
    let message = Message::from_octets(answer).unwrap();
    let texts = message.answer().unwrap().limit_to::<Txt<_>>();
    texts
        .map(|text| {
            let text = text.unwrap();
            (text.data().iter().flatten().copied().collect(), text.ttl().as_secs())
        })
        .collect()
}
