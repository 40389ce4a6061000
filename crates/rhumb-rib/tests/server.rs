//! The directory over secure sessions: a router asks, and nobody asks in another's name.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{Endpoint, SessionId};
use rhumb_rib::server::{SWEEP_INTERVAL, Server};
use rhumb_rib::store::{Embedded, Memory, Store};
use rhumb_rib::{Config, DropReason, RibError};
use rhumb_trust::{Identity, Now, verify_chain, verify_statement};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader, Role, Statement};

use crate::world::{Holder, NOW_S, routes};

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 4000);
const ROUTER: ([u8; 4], u16) = ([192, 0, 2, 2], 4000);

/// A router's endpoint and a server, joined by nothing that loses anything.
struct Pair<S> {
    server: Server<S>,
    router: Endpoint,
    identity: Arc<Identity>,
    now: Now,
    session: Option<SessionId>,
    received: VecDeque<(PduHeader, RibResponse)>,
}

impl<S: Store> Pair<S> {
    fn connected(store: S, router: rhumb_link::Config) -> Self {
        let rib = Arc::new(Identity::generate(Role::Rib, 0).expect("a key"));
        let identity = Arc::new(Identity::generate(Role::Router, 0).expect("a key"));
        #[expect(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
        let now = Now { instant: Instant::now(), unix_ms: NOW_S * 1000 };
        let link = rhumb_link::Config::default();
        let server = Server::new(rib, store, Config::default(), link, [1; 32], now);
        let router = Endpoint::new(identity.clone(), router, [2; 32], now.instant);
        let mut pair = Self {
            server: server.expect("a server"),
            router: router.expect("an endpoint"),
            identity,
            now,
            session: None,
            received: VecDeque::new(),
        };
        pair.router.connect(SERVER.into(), Some(pair.server.name()), pair.now.instant);
        pair.settle(&[]);
        pair.session = pair.router.session_of(&pair.server.name());
        assert!(pair.session.is_some(), "no session");
        pair
    }

    /// Carries datagrams to and fro until nobody has any, then some time passes, a few times over.
    fn settle(&mut self, datagrams: &[Vec<u8>]) {
        let mut batch = Batch::new();
        for datagram in datagrams {
            batch.push(ROUTER.into(), datagram);
        }
        for _ in 0..8 {
            loop {
                let mut out = Batch::new();
                self.router.poll_transmit(&mut out);
                for (to, datagram) in out.iter() {
                    assert_eq!(to, SocketAddr::from(SERVER));
                    batch.push(ROUTER.into(), datagram);
                }
                if batch.is_empty() {
                    break;
                }
                self.server.handle_batch(&mut batch, self.now);
                let sent: Vec<_> = batch.iter().map(|(_, datagram)| datagram.to_vec()).collect();
                batch.clear();
                sent.into_iter().for_each(|datagram| self.deliver(datagram));
            }
            self.now = self.now.plus(Duration::from_millis(20));
            self.router.handle_timeout(self.now.instant);
            self.server.handle_timeout(self.now);
            self.server.poll_transmit(&mut batch);
            let sent: Vec<_> = batch.iter().map(|(_, datagram)| datagram.to_vec()).collect();
            batch.clear();
            sent.into_iter().for_each(|datagram| self.deliver(datagram));
        }
    }

    fn deliver(&mut self, mut datagram: Vec<u8>) {
        match Datagram::parse(&datagram).expect("a datagram of ours") {
            Datagram::Record(_) => {
                let now = self.now.instant;
                let opened = self.router.open(SERVER.into(), &mut datagram, now).expect("opened");
                if !opened.plaintext.is_empty() {
                    let pdu = Pdu::parse(&datagram[opened.plaintext]).expect("a PDU");
                    let response = RibResponse::parse(pdu.data()).expect("a response");
                    self.received.push_back((pdu.header(), response));
                }
            }
            handshake => {
                let _ = self.router.handle_handshake(SERVER.into(), handshake, self.now.instant);
            }
        }
    }

    fn sealed(&mut self, header: PduHeader, data: &[u8]) -> Vec<u8> {
        let mut pdu = vec![0; RecordHeader::LEN];
        header.emit(data, &[], &mut pdu).expect("it fits");
        self.sealed_bytes(pdu)
    }

    fn sealed_bytes(&mut self, mut datagram: Vec<u8>) -> Vec<u8> {
        datagram.resize(datagram.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
        let session = self.session.expect("connected");
        self.router.seal(session, &mut datagram, self.now.instant).expect("sealed");
        datagram
    }

    fn request_header(&self, tag: u32) -> PduHeader {
        let (router, rib) = (self.identity.name(), self.server.name());
        PduHeader { tag, ..PduHeader::new(Action::RibRequest, router, rib) }
    }

    fn request(&mut self, tag: u32, body: RibRequestBody) -> Vec<u8> {
        let mut data = Vec::new();
        RibRequest { id: RequestId(tag + 1000), body }.emit(&mut data);
        self.sealed(self.request_header(tag), &data)
    }

    /// Sends requests in one batch; returns the answers by tag, in the order they came.
    fn ask(&mut self, bodies: Vec<RibRequestBody>) -> Vec<(u32, RibResponseBody)> {
        let requests: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(tag, body)| self.request(tag as u32, body))
            .collect();
        self.settle(&requests);
        let (server, router) = (self.server.name(), self.identity.name());
        self.received
            .drain(..)
            .map(|(header, response)| {
                assert_eq!((header.action, header.source), (Action::RibResponse, server));
                assert_eq!(header.destination, router);
                assert_eq!(response.id, RequestId(header.tag + 1000));
                (header.tag, response.body)
            })
            .collect()
    }
}

fn publish(holder: &Holder, certificate: Certificate) -> RibRequestBody {
    RibRequestBody::Publish { metadata: vec![holder.metadata()], certificates: vec![certificate] }
}

#[test]
fn a_router_publishes_and_looks_up_over_its_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Embedded::open(&folder.path().join("rib")).expect("a store");
    let mut pair = Pair::connected(store, rhumb_link::Config::default());
    let line = Holder::line(4);
    let chain = routes(&line, 1);
    let mut requests: Vec<_> =
        line.iter().zip(&chain).map(|(holder, route)| publish(holder, route.clone())).collect();
    requests.push(RibRequestBody::LookUpRoute(Name([7; 32])));
    requests.push(publish(&line[0], Certificate { sequence: 9, ..chain[0].clone() }));
    let answers = pair.ask(requests);
    // Look-ups and refusals at once, orders when they are durable: all three by one commit.
    let tags: Vec<_> = answers.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [3, 4, 0, 1, 2]);
    assert_eq!(pair.server.counters().commits, 1);
    let RibResponseBody::Absent(absence) = &answers[0].1 else { panic!("{answers:?}") };
    let rib = pair.router.peer(pair.session.expect("connected")).expect("a peer");
    assert!(verify_statement(absence, &rib.metadata, NOW_S).is_ok());
    assert_eq!(answers[1].1, RibResponseBody::Refused(Refusal::BadSignature));
    assert!(answers[2..].iter().all(|(_, body)| *body == RibResponseBody::Stored));
    let answers = pair.ask(vec![RibRequestBody::LookUpRoute(line[0].name())]);
    let [(0, RibResponseBody::Found { certificates, .. })] = &answers[..] else {
        panic!("{answers:?}")
    };
    let key_of = |name: &Name| {
        line.iter().find(|holder| holder.name() == *name).map(|holder| holder.metadata().key)
    };
    let verified = verify_chain(line[0].name(), certificates.clone(), key_of, NOW_S);
    assert_eq!(verified.map(|chain| chain.routers().count()), Ok(3));
    assert_eq!(pair.server.counters().sessions_established, 1);
    assert_eq!(pair.server.stored_names().expect("readable"), 3);
}

#[test]
fn questions_that_come_together_are_answered_one_by_one_and_before_a_close_behind_them() {
    let mut pair = Pair::connected(crate::usual(Memory::new()), rhumb_link::Config::default());
    let line = Holder::line(3);
    let orders = line.iter().zip(routes(&line, 1)).map(|(it, route)| publish(it, route)).collect();
    assert_eq!(pair.ask(orders).len(), 2);
    let ask = |number: u8| match number % 3 {
        0 => RibRequestBody::LookUpRoute(line[0].name()),
        1 => RibRequestBody::LookUpMetadata(line[1].name()),
        _ => RibRequestBody::LookUpRoute(Name([number; 32])),
    };
    for (tag, body) in pair.ask((0..40).map(ask).collect()) {
        let name = match body {
            RibResponseBody::Found { name, .. } => name,
            RibResponseBody::Absent(absence) => match absence.statement {
                Statement::Absence { subject } => subject,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let asked = [line[0].name(), line[1].name(), Name([tag as u8; 32])];
        assert_eq!(name, asked[tag as usize % 3]);
    }
    let mut all: Vec<_> = (0..40).map(|tag| pair.request(tag, ask(tag as u8))).collect();
    [5, 17, 30].iter().for_each(|at| all.insert(*at, b"foreign".to_vec()));
    let session = pair.session.expect("connected");
    pair.router.close(session, pair.now.instant);
    let late = all.remove(42);
    let mut batch = Batch::new();
    all.iter().for_each(|datagram| batch.push(ROUTER.into(), datagram));
    let mut out = Batch::new();
    pair.router.poll_transmit(&mut out);
    out.iter().for_each(|(_, close)| batch.push(ROUTER.into(), close));
    batch.push(ROUTER.into(), &late);
    let before = pair.server.counters().dropped(DropReason::RefusedByLink);
    pair.server.handle_batch(&mut batch, pair.now);
    assert_eq!(batch.iter().filter(|(_, datagram)| !datagram.is_empty()).count(), 39);
    assert_eq!(pair.server.counters().dropped(DropReason::RefusedByLink), before + 1);
}

#[test]
fn nobody_asks_in_anothers_name_or_for_another_service() {
    let mut pair = Pair::connected(crate::usual(Memory::new()), rhumb_link::Config::default());
    let header = pair.request_header(5);
    let mut data = Vec::new();
    let body = RibRequestBody::LookUpRoute(Name([7; 32]));
    RibRequest { id: RequestId(1005), body }.emit(&mut data);
    let wrong = [
        (PduHeader { source: Name([1; 32]), ..header }, DropReason::ForeignSource),
        (PduHeader { destination: Name([1; 32]), ..header }, DropReason::OtherDestination),
        (PduHeader { action: Action::Data, ..header }, DropReason::NotARequest),
        (PduHeader { action: Action::RibResponse, ..header }, DropReason::NotARequest),
    ];
    for (header, reason) in wrong {
        let before = pair.server.counters().dropped(reason);
        let datagram = pair.sealed(header, &data);
        pair.settle(&[datagram]);
        assert_eq!(pair.server.counters().dropped(reason), before + 1, "{reason:?}");
    }
    let no_pdu = pair.sealed_bytes([&[0; RecordHeader::LEN][..], b"hello"].concat());
    let unreadable = pair.sealed(header, &data[..4]);
    let good = pair.sealed(header, &data);
    let mut flipped = pair.sealed(header, &data);
    flipped[40] ^= 1;
    pair.settle(&[
        no_pdu,
        unreadable,
        b"foreign".to_vec(),
        good.clone(),
        good, // Replayed.
        flipped,
    ]);
    let counters = pair.server.counters();
    assert_eq!(counters.dropped(DropReason::MalformedPdu), 1);
    assert_eq!(counters.dropped(DropReason::UnreadableRequest), 1);
    assert_eq!(counters.dropped(DropReason::ForeignDatagram), 1);
    assert_eq!(counters.dropped(DropReason::RefusedByLink), 2);
    assert_eq!(pair.received.len(), 1, "only the good one is answered, and once");
}

#[test]
fn an_answer_is_cut_to_what_its_asker_receives() {
    let mut small = rhumb_link::Config::default();
    small.max_datagram_len = 1232;
    let mut pair = Pair::connected(crate::usual(Memory::new()), small);
    let line = Holder::line(8);
    let requests = line.iter().zip(routes(&line, 1)).map(|(h, route)| publish(h, route)).collect();
    assert_eq!(pair.ask(requests).len(), 7);
    let answers = pair.ask(vec![RibRequestBody::LookUpRoute(line[0].name())]);
    let [(0, RibResponseBody::Found { certificates, .. })] = &answers[..] else {
        panic!("{answers:?}")
    };
    // 1232 - 104 of sealing and header - 39 of the frame:
    // six routes of 156, and no room for a seventh.
    assert_eq!(certificates.len(), 6);
    assert_eq!(pair.server.counters().dropped(DropReason::Unsendable), 0);
}

#[test]
fn a_timeout_comes_at_least_once_in_a_sweep_interval() {
    let pair = Pair::connected(crate::usual(Memory::new()), rhumb_link::Config::default());
    let due = pair.server.poll_timeout().expect("a sweep");
    assert!(due <= pair.now.instant + SWEEP_INTERVAL);
}

#[test]
fn subscriptions_end_with_the_session() {
    let mut pair = Pair::connected(crate::usual(Memory::new()), rhumb_link::Config::default());
    let holder = Holder::new();
    pair.ask(vec![RibRequestBody::LookUpRoute(holder.name())]);
    let answers = pair.ask(vec![publish(&holder, holder.locator(1))]);
    assert_eq!(answers.len(), 1, "a publisher is not told of its own order: {answers:?}");
    assert_eq!(pair.server.counters().changes_sent, 0);
    assert_eq!(pair.server.subscriptions(), 2, "the absent name and the published one");
    pair.router.close(pair.session.expect("connected"), pair.now.instant);
    pair.settle(&[]);
    assert_eq!(pair.server.subscriptions(), 0);
}

#[test]
fn a_clock_that_jumps_plainly_wrong_empties_nothing() {
    let mut pair = Pair::connected(Memory::new(), rhumb_link::Config::default());
    let holder = Holder::new();
    pair.ask(vec![publish(&holder, holder.locator(1))]);
    let mut jumped = pair.now.plus(SWEEP_INTERVAL);
    jumped.unix_ms += 10 * 365 * 86_400 * 1000;
    for seconds in 1..=3 {
        pair.server.handle_timeout(jumped);
        assert_eq!(pair.server.counters().sweeps_refused, seconds);
        let error = pair.server.poll_error();
        assert_eq!(matches!(error, Some(RibError::ClockJumped { .. })), seconds == 1, "once");
        jumped = jumped.plus(SWEEP_INTERVAL);
    }
    assert_eq!(pair.server.stored_names().expect("a count"), 1);
    // Two days that have really passed are another matter.
    pair.server.handle_timeout(pair.now.plus(Duration::from_secs(3 * 86_400)));
    assert_eq!(pair.server.stored_names().expect("a count"), 0);
    assert_eq!(pair.server.counters().sweeps_refused, 3);
}
