//! Both sides of connections of ours, each with rustls as it usually is at the other end, and what
//! a peer says that it must not.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rhumb_trust::{Identity, x509};
use rhumb_wire::Role;
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConnection, Connection, ServerConnection, SupportedCipherSuite,
};

use super::*;
use crate::credentials::{Credentials, SUITES};
use crate::tls::{State, Tls};

fn credentials(suites: &[SupportedCipherSuite]) -> Credentials {
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let certificate = x509::make(&identity).unwrap();
    Credentials::offering(suites, identity.name(), identity.pkcs8_der(), certificate).unwrap()
}

fn tls(we_dial: bool) -> Tls {
    let it = credentials(&SUITES);
    match we_dial {
        true => Tls::client(it.client(None).unwrap(), Ipv4Addr::LOCALHOST.into()).unwrap(),
        false => Tls::server(it.server()).unwrap(),
    }
}

/// A stock end, the one that we do not have. As a server it hands out tickets, as usual.
fn stock(we_dial: bool, suites: &[SupportedCipherSuite]) -> Connection {
    let it = credentials(suites);
    if we_dial {
        let mut config = (*it.server()).clone();
        config.send_tls13_tickets = 2;
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        return ServerConnection::new(Arc::new(config)).unwrap().into();
    }
    let name = ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    ClientConnection::new(it.client(None).unwrap(), name).unwrap().into()
}

/// A connection that is open at both ends: ours, and a stock one.
fn open(we_dial: bool, suites: &[SupportedCipherSuite]) -> (Protected, Connection) {
    let (mut tls, mut peer) = (tls(we_dial), stock(we_dial, suites));
    let mut incoming = Vec::new();
    loop {
        let mut out = Vec::new();
        let (taken, state) = tls.advance(&mut incoming, &mut out, &mut |_| panic!("no data"));
        incoming.drain(..taken);
        tell(&mut peer, &out);
        if state.unwrap() == State::Open {
            break;
        }
        incoming.extend(hear(&mut peer));
    }
    assert!(!peer.is_handshaking());
    let mut ours = tls.into_protected().unwrap();
    let tickets = [incoming, hear(&mut peer)].concat();
    assert_eq!(tickets.is_empty(), !we_dial);
    assert_eq!(opened(&mut ours, &tickets), (vec![], Ok(Life::Open)));
    (ours, peer)
}

/// A connection of ours at both ends, the one that dialled first.
fn pair() -> [Protected; 2] {
    let mut ends = [tls(true), tls(false)];
    let mut flight = Vec::new();
    for turn in 0..6 {
        let mut incoming = std::mem::take(&mut flight);
        let (taken, state) = ends[turn % 2].advance(&mut incoming, &mut flight, &mut |_| ());
        assert_eq!((taken, state.is_ok()), (incoming.len(), true));
    }
    ends.map(|end| end.into_protected().unwrap())
}

/// What a stock end has to send.
fn hear(peer: &mut Connection) -> Vec<u8> {
    let mut out = Vec::new();
    while peer.wants_write() {
        peer.write_tls(&mut out).unwrap();
    }
    out
}

/// A stock end is given bytes, and reads what it can.
fn try_tell(peer: &mut Connection, mut bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut data = Vec::new();
    while !bytes.is_empty() {
        peer.read_tls(&mut bytes).unwrap();
        peer.process_new_packets()?;
        let mut chunk = [0; 1 << 15];
        while let Ok(read @ 1..) = peer.reader().read(&mut chunk) {
            data.extend_from_slice(&chunk[..read]);
        }
    }
    Ok(data)
}

fn tell(peer: &mut Connection, bytes: &[u8]) -> Vec<u8> {
    try_tell(peer, bytes).unwrap()
}

fn opened(by: &mut Protected, incoming: &[u8]) -> (Vec<u8>, Result<Life, Fault>) {
    let mut data = Vec::new();
    let (_, state) = by.open(&mut incoming.to_vec(), &mut |it| data.extend_from_slice(it));
    (data, state)
}

fn sealed(by: &mut Protected, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    by.append(data, &mut out).unwrap();
    out
}

/// What a stock end seals of this.
fn said(peer: &mut Connection, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in data.chunks(10_000) {
        peer.writer().write_all(part).unwrap();
        out.extend(hear(peer));
    }
    out
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A record of any kind that this end seals.
fn record(by: &mut Protected, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    by.sealing.append(kind, content, &mut out).unwrap();
    out
}

#[test]
fn stock_tls_understands_us_and_we_understand_it() {
    for (we_dial, suites) in [(true, &SUITES[..]), (false, &SUITES), (true, &SUITES[1..])] {
        let (mut ours, mut peer) = open(we_dial, suites);
        for len in [1_usize, 2, 1_003, 16_383, 16_384, 16_385, 40_000, 70_000] {
            let data = bytes(len);
            let records = sealed(&mut ours, &data);
            assert_eq!(records.len(), len + len.div_ceil(1 << 14) * 22);
            assert_eq!(tell(&mut peer, &records), data, "{len}");
            let (mut kept, mut got) = (Vec::new(), Vec::new());
            for part in said(&mut peer, &data).chunks(7_001) {
                kept.extend_from_slice(part);
                let (taken, state) = ours.open(&mut kept, &mut |it| got.extend_from_slice(it));
                assert_eq!(state, Ok(Life::Open));
                kept.drain(..taken);
            }
            assert_eq!((kept.len(), got), (0, data), "{len}");
        }
    }
}

#[test]
fn keys_are_renewed_by_either_end_and_stock_tls_goes_along() {
    for we_dial in [true, false] {
        let (ours, mut peer) = open(we_dial, &SUITES);
        let mut ours = ours.with_most_sealed(3);
        for turn in 0..10 {
            let data = bytes(100 + turn);
            let records = sealed(&mut ours, &data);
            // The parts of a batch go with one key, whatever it has sealed by then.
            assert_eq!(records.len(), 122 + turn + if turn % 3 == 0 && turn > 0 { 27 } else { 0 });
            assert_eq!(tell(&mut peer, &records), data);
            peer.refresh_traffic_keys().unwrap();
            let records = said(&mut peer, &data);
            assert_eq!(opened(&mut ours, &records), (data, Ok(Life::Open)));
            // It has asked for ours, too, or it has not: both are in order.
            ours.is_update_due = false;
        }
    }
}

#[test]
fn who_asks_for_a_key_gets_it_once_before_the_next_data_and_nothing_while_we_are_silent() {
    let (mut ours, mut peer) = open(true, &SUITES);
    let mut asks = Vec::new();
    for _ in 0..20 {
        peer.refresh_traffic_keys().unwrap();
        asks.extend(hear(&mut peer));
    }
    assert_eq!(opened(&mut ours, &asks), (vec![], Ok(Life::Open)));
    assert!(ours.is_update_due, "stock TLS asks");
    let records = sealed(&mut ours, b"data");
    assert_eq!(records.len(), 27 + 26);
    assert_eq!(tell(&mut peer, &records), b"data");
    assert_eq!(sealed(&mut ours, b"data").len(), 26);
    // Not asked, not answered.
    let [mut ours, mut peer] = pair();
    let update = record(&mut peer, HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, UPDATE_NOT_REQUESTED]);
    assert_eq!(opened(&mut ours, &update), (vec![], Ok(Life::Open)));
    assert_eq!(sealed(&mut ours, b"data").len(), 26);
}

#[test]
fn the_last_words_are_understood_and_nothing_behind_them_is_heard() {
    for we_dial in [true, false] {
        let (mut ours, mut peer) = open(we_dial, &SUITES);
        let mut words = sealed(&mut ours, b"last");
        ours.close(&mut words);
        assert_eq!(tell(&mut peer, &words), b"last");
        assert!(peer.process_new_packets().unwrap().peer_has_closed());
        assert_eq!(ours.append(b"more", &mut words), Err(Fault::Exhausted));

        let (mut ours, mut peer) = open(we_dial, &SUITES);
        let mut words = said(&mut peer, b"last");
        peer.send_close_notify();
        words.extend(hear(&mut peer));
        words.extend(b"whatever this is");
        assert_eq!(opened(&mut ours, &words), (b"last".to_vec(), Ok(Life::Closed)));
    }
    // All other alerts end it as well, but the one that another follows.
    for (alert, state) in [(0, Life::Closed), (40, Life::Closed), (90, Life::Open)] {
        let [mut ours, mut peer] = pair();
        let words = record(&mut peer, ALERT, &[1, alert]);
        assert_eq!(opened(&mut ours, &words), (vec![], Ok(state)));
    }
}

#[test]
fn what_a_peer_must_not_say_ends_the_connection_and_it_is_told_why() {
    use Fault::{Decode, IllegalParameter, UnexpectedMessage};
    let half_a_ticket = [NEW_SESSION_TICKET, 0, 0, 2, 0];
    let update_and_more = [KEY_UPDATE, 0, 0, 1, 0, KEY_UPDATE, 0, 0, 1, 0];
    let cases: [(u8, &[u8], Fault); 18] = [
        (HANDSHAKE, &[], UnexpectedMessage),
        (HANDSHAKE, &[KEY_UPDATE, 0, 0], UnexpectedMessage),
        // Half a message of the handshake is not waited for.
        (HANDSHAKE, &[KEY_UPDATE, 0, 0, 1], UnexpectedMessage),
        (HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 2], IllegalParameter),
        (HANDSHAKE, &[KEY_UPDATE, 0, 0, 0], Decode),
        (HANDSHAKE, &[KEY_UPDATE, 0, 0, 2, 0, 0], Decode),
        (HANDSHAKE, &update_and_more, UnexpectedMessage),
        (HANDSHAKE, &half_a_ticket, UnexpectedMessage),
        // A CertificateRequest, and a Finished again.
        (HANDSHAKE, &[13, 0, 0, 3, 0, 0, 0], UnexpectedMessage),
        (HANDSHAKE, &[20, 0, 0, 1, 0], UnexpectedMessage),
        (ALERT, &[], UnexpectedMessage),
        (ALERT, &[2], Decode),
        (ALERT, &[2, 40, 2, 40], Decode),
        // A protected ChangeCipherSpec, a heartbeat, nothing but padding, no such thing.
        (20, &[1], UnexpectedMessage),
        (DATA + 1, &[1, 0, 0], UnexpectedMessage),
        (0, &[], UnexpectedMessage),
        (0, &[0; 40], UnexpectedMessage),
        (255, b"data", UnexpectedMessage),
    ];
    for (kind, content, fault) in cases {
        let [mut ours, mut peer] = pair();
        let records = [sealed(&mut peer, b"good"), record(&mut peer, kind, content)].concat();
        let records = [records, sealed(&mut peer, b"more")].concat();
        assert_eq!(opened(&mut ours, &records), (b"good".to_vec(), Err(fault)), "{content:?}");
        // Nothing goes on but the alert.
        let mut alert = Vec::new();
        let more = sealed(&mut peer, b"more");
        assert_eq!(opened(&mut ours, &more), (vec![], Ok(Life::Closed)));
        assert_eq!(ours.append(b"more", &mut alert), Err(Fault::Exhausted));
        assert_eq!(ours.seal(Outgoing::default()), Err(Fault::Exhausted));
        ours.close(&mut alert);
        assert!(alert.is_empty());
        ours.say(fault, &mut alert);
        assert_eq!(peer.opening.open(&mut alert).unwrap(), (ALERT, &[2, fault as u8][..]));
    }
    // Tickets are for those who dialled.
    let [mut client, mut server] = pair();
    let ticket = [NEW_SESSION_TICKET, 0, 0, 1, 0];
    let tickets = record(&mut server, HANDSHAKE, &[ticket, ticket].concat());
    assert_eq!(opened(&mut client, &tickets), (vec![], Ok(Life::Open)));
    let ticket = record(&mut client, HANDSHAKE, &ticket);
    assert_eq!(opened(&mut server, &ticket), (vec![], Err(UnexpectedMessage)));
}

#[test]
fn stock_tls_is_told_what_it_did_wrong_and_understands() {
    for we_dial in [true, false] {
        let (mut ours, mut peer) = open(we_dial, &SUITES);
        let mut records = said(&mut peer, b"altered");
        *records.last_mut().unwrap() ^= 1;
        assert_eq!(opened(&mut ours, &records), (vec![], Err(Fault::BadRecord)));
        let mut alert = Vec::new();
        ours.say(Fault::BadRecord, &mut alert);
        let expected = Error::AlertReceived(AlertDescription::BadRecordMac);
        assert_eq!(try_tell(&mut peer, &alert), Err(expected));
    }
}

/// Records of this kind, each sealed as it has to be.
fn idle(by: &mut Protected, (kind, content): (u8, &[u8]), count: u32) -> Vec<u8> {
    let one = |_| {
        let record = record(by, kind, content);
        if kind == HANDSHAKE {
            let secrets = by.secrets.next_sending().unwrap();
            by.sealing = Sealing::new(secrets, Choice::Library).unwrap();
        }
        record
    };
    (0..count).flat_map(one).collect()
}

#[test]
fn records_that_bring_nothing_are_borne_for_a_while() {
    let empty: (u8, &[u8]) = (DATA, b"");
    let update: (u8, &[u8]) = (HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, UPDATE_REQUESTED]);
    for what in [empty, update] {
        let [mut ours, mut peer] = pair();
        let mut records = idle(&mut peer, what, MOST_IDLE);
        records.extend(sealed(&mut peer, b"data"));
        records.extend(idle(&mut peer, what, MOST_IDLE));
        assert_eq!(opened(&mut ours, &records), (b"data".to_vec(), Ok(Life::Open)));
        let one_more = idle(&mut peer, what, 1);
        assert_eq!(opened(&mut ours, &one_more), (vec![], Err(Fault::UnexpectedMessage)));
    }
}

/// rustls keeps places in the bytes that it was last given. Half a message of the handshake behind
/// the handshake's end would be lost in it: whoever sends that is not gone on with.
#[test]
fn half_a_message_behind_the_handshakes_end_is_not_waited_for() {
    let mut ends = [tls(true), tls(false)];
    let mut flights = [Vec::new(), Vec::new()];
    let hello = ends[0].advance(&mut [], &mut flights[0], &mut |_| ());
    assert_eq!(hello, (0, Ok(State::Shaking)));
    ends[1].advance(&mut flights[0].clone(), &mut flights[1], &mut |_| ()).1.unwrap();
    let (mut last, [client, mut server]) = (Vec::new(), ends);
    let mut client = client;
    let (_, state) = client.advance(&mut flights[1], &mut last, &mut |_| ());
    assert_eq!(state, Ok(State::Open));
    let mut client = client.into_protected().unwrap();
    last.extend(record(&mut client, HANDSHAKE, &[KEY_UPDATE, 0, 0, 1]));
    let (_, state) = server.advance(&mut last, &mut Vec::new(), &mut |_| ());
    assert!(state.is_err(), "{state:?}");
}
