//! A node's core and a scripted router in virtual time, a millisecond apart.
//!
//! The router is an [`Endpoint`] that accepts: handshakes, keys and
//! seals are real, what it says is up to the test.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.
#![allow(clippy::unwrap_used)] // Clippy knows tests by their functions, and these are helpers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{Endpoint, SessionId};
use rhumb_node::Config;
use rhumb_node::core::{Core, Event, Seed};
use rhumb_trust::{Identity, Now};
use rhumb_wire::accept::Accept;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::pdu::{Frame, LabelledHeader};
use rhumb_wire::{Action, Batch, Certificate, Name, PduHeader, Role};

pub const LATENCY: Duration = Duration::from_millis(1);
pub const START_S: u64 = 1_800_000_000;

/// A core, its router, and the wire between them.
pub struct World {
    pub now: Now,
    pub identity: Arc<Identity>,
    pub core: Core,
    pub router: Router,
    /// Cuts the wire.
    pub cut: bool,
    pub events: Vec<Event>,
    /// Bodies that arrived at the node.
    pub arrived: Vec<(Name, u16, Vec<u8>)>,
    /// And who each was for.
    pub arrived_for: Vec<Name>,
    to_router: VecDeque<(Instant, Vec<u8>)>,
    to_node: VecDeque<(Instant, Vec<u8>)>,
}

/// A router that does what it is told.
pub struct Router {
    pub identity: Arc<Identity>,
    pub endpoint: Endpoint,
    pub session: Option<SessionId>,
    /// What it says to advertisements.
    pub on_advertise: OnAdvertise,
    /// What it shows for that.
    pub shown: Vec<Certificate>,
    /// Advertisements to lose before that.
    pub lose_advertisements: usize,
    /// Every PDU that came, advertisements that were lost included.
    pub seen: Vec<Seen>,
    /// Every PDU that came in labelled form.
    pub labelled: Vec<(LabelledHeader, Vec<u8>)>,
    pub sessions_seen: usize,
    pub out: Batch,
}

/// What a router says to advertisements.
#[derive(Debug, Clone, Copy)]
pub enum OnAdvertise {
    Accept {
        lease_s: u64,
        published: bool,
    },
    Nack(Reason),
    /// Superseded, by whatever is in [`Router::shown`].
    Superseded,
    Silence,
}

/// A PDU that came to the router.
#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Now,
    pub header: PduHeader,
    pub data: Vec<u8>,
    pub certificates: Vec<Certificate>,
}

impl World {
    /// A world whose router accepts; nothing has happened yet.
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    /// A world of which the node's configuration is changed.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let now = Now { instant: Instant::now(), unix_ms: START_S * 1000 };
        let identity = Arc::new(Identity::generate(Role::Node, 1).unwrap());
        let mut config = Config::new(router_address());
        change(&mut config);
        let seed = Seed { link: [1; 32], spread: 2 };
        Self {
            now,
            core: Core::new(identity.clone(), &config, &seed, now).unwrap(),
            identity,
            router: Router::new(now),
            cut: false,
            events: Vec::new(),
            arrived: Vec::new(),
            arrived_for: Vec::new(),
            to_router: VecDeque::new(),
            to_node: VecDeque::new(),
        }
    }

    /// A world in which the node has joined.
    pub fn joined() -> Self {
        let mut world = Self::new();
        world.run_for(Duration::from_millis(100));
        assert!(world.core.is_joined(), "{:?}", world.events);
        world.events.clear();
        world.router.seen.clear();
        world
    }

    /// Lets time pass.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now.instant + duration;
        loop {
            self.exchange();
            let next = [
                self.core.poll_timeout(),
                self.router.endpoint.poll_timeout(),
                self.to_router.front().map(|(at, _)| *at),
                self.to_node.front().map(|(at, _)| *at),
            ];
            let next = next.into_iter().flatten().min().unwrap_or(end);
            // A deadline that has passed would make time stand still.
            let next = next.max(self.now.instant + Duration::from_micros(1));
            if next > end {
                self.now = self.now.plus(end - self.now.instant);
                self.exchange();
                return;
            }
            self.now = self.now.plus(next - self.now.instant);
        }
    }

    /// Puts another router in the place of this one: other keys, no memory.
    pub fn replace_router(&mut self) {
        self.router = Router::new(self.now);
    }

    fn exchange(&mut self) {
        let now = self.now;
        self.router.endpoint.handle_timeout(now.instant);
        while let Some((_, datagram)) = pop_due(&mut self.to_router, now.instant) {
            self.router.handle(datagram, now);
        }
        let mut batch = Batch::new();
        while let Some((_, datagram)) = pop_due(&mut self.to_node, now.instant) {
            batch.push(router_address(), &datagram);
        }
        self.core.handle_batch(&mut batch, now);
        for arrival in self.core.arrivals(&batch) {
            self.arrived.push((arrival.from, arrival.port, arrival.body.to_vec()));
            self.arrived_for.push(arrival.to);
        }
        self.core.handle_timeout(now);
        while let Some(event) = self.core.poll_event() {
            self.events.push(event);
        }
        self.carry();
    }

    /// Takes what both ends have to send to the wire.
    pub fn carry(&mut self) {
        let arrives_at = self.now.instant + LATENCY;
        let mut out = Batch::new();
        loop {
            let before = out.len();
            self.core.poll_transmit(&mut out, self.now);
            if out.len() == before {
                break;
            }
        }
        self.put_on_wire(&out);
        self.router.endpoint.poll_transmit(&mut self.router.out);
        if !self.cut {
            let datagrams = self.router.out.iter().map(|(_, d)| (arrives_at, d.to_vec()));
            self.to_node.extend(datagrams);
        }
        self.router.out.clear();
    }

    /// Puts datagrams of the node on the wire.
    pub fn put_on_wire(&mut self, out: &Batch) {
        let arrives_at = self.now.instant + LATENCY;
        for (to, datagram) in out.iter() {
            assert_eq!(to, router_address(), "a node talks to its router only");
            if !self.cut {
                self.to_router.push_back((arrives_at, datagram.to_vec()));
            }
        }
    }

    /// Lets the router send a NACK about a PDU it has seen.
    pub fn nack(&mut self, about: &Seen, reason: Reason) {
        let reporter = Some(self.router.identity.name());
        let mut data = Vec::new();
        Nack { reason, reporter }.emit(&mut data);
        let header = PduHeader {
            tag: about.header.tag,
            ..PduHeader::new(Action::Nack, about.header.destination, about.header.source)
        };
        self.router.send(header, &data, self.now);
    }

    /// The first event that `pick` picks, taken out.
    pub fn take_event<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> Option<T> {
        let at = self.events.iter().position(|event| pick(event).is_some())?;
        pick(&self.events.remove(at))
    }
}

impl Router {
    pub fn new(now: Now) -> Self {
        let identity = Arc::new(Identity::generate(Role::Router, 1).unwrap());
        let config = rhumb_link::Config::default();
        Self {
            endpoint: Endpoint::new(identity.clone(), config, [3; 32], now.instant).unwrap(),
            identity,
            session: None,
            on_advertise: OnAdvertise::Accept { lease_s: 600, published: true },
            shown: Vec::new(),
            lose_advertisements: 0,
            seen: Vec::new(),
            labelled: Vec::new(),
            sessions_seen: 0,
            out: Batch::new(),
        }
    }

    /// The PDUs seen of an action.
    pub fn seen(&self, action: Action) -> Vec<Seen> {
        self.seen.iter().filter(|seen| seen.header.action == action).cloned().collect()
    }

    /// Sends a PDU to the node.
    pub fn send(&mut self, header: PduHeader, data: &[u8], now: Now) {
        self.send_with(header, data, &[], now);
    }

    fn send_with(&mut self, header: PduHeader, data: &[u8], shown: &[Certificate], now: Now) {
        let mut pdu = Vec::new();
        header.emit(data, shown, &mut pdu).unwrap();
        self.send_pdu(&pdu, now);
    }

    /// Says that what was advertised under this tag is
    /// superseded, by whatever is in [`Router::shown`].
    pub fn supersede(&mut self, about: PduHeader, now: Now) {
        let mut data = Vec::new();
        Nack { reason: Reason::Superseded, reporter: None }.emit(&mut data);
        let header = PduHeader {
            tag: about.tag,
            ..PduHeader::new(Action::Nack, about.destination, about.source)
        };
        let shown = self.shown.clone();
        self.send_with(header, &data, &shown, now);
    }

    /// Sends a PDU in labelled form to the node.
    pub fn send_labelled(&mut self, header: LabelledHeader, data: &[u8], now: Now) {
        let mut pdu = Vec::new();
        header.emit(data, &mut pdu).unwrap();
        self.send_pdu(&pdu, now);
    }

    fn send_pdu(&mut self, pdu: &[u8], now: Now) {
        let Some(session) = self.session else { panic!("no node is connected") };
        let datagram = self.out.push_with(node_address(), pdu.len() + RECORD_OVERHEAD);
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(pdu);
        if self.endpoint.seal(session, datagram, now.instant).is_err() {
            // The session has just ended.
            self.out.drop_datagram(self.out.len() - 1);
        }
    }

    /// Sends an Accept of a name of the node's.
    pub fn accept(&mut self, name: Name, tag: u32, until_s: u64, published: bool, now: Now) {
        let mut data = Vec::new();
        Accept { name, until_s, published }.emit(&mut data);
        let peer = self.session.and_then(|session| self.endpoint.peer(session));
        let to = peer.map_or(name, |peer| peer.name);
        let header = PduHeader { tag, ..PduHeader::new(Action::Accept, self.identity.name(), to) };
        self.send(header, &data, now);
    }

    pub fn handle(&mut self, mut datagram: Vec<u8>, now: Now) {
        match Datagram::parse(&datagram).unwrap() {
            Datagram::Record(_) => {
                let Ok(opened) = self.endpoint.open(node_address(), &mut datagram, now.instant)
                else {
                    return;
                };
                self.watch_sessions();
                if !opened.plaintext.is_empty() {
                    self.session = Some(opened.session);
                    self.handle_pdu(&datagram[opened.plaintext], now);
                }
            }
            handshake => {
                let _ = self.endpoint.handle_handshake(node_address(), handshake, now.instant);
                self.watch_sessions();
            }
        }
    }

    fn watch_sessions(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                rhumb_link::Event::Established { session, .. } => {
                    self.session = Some(session);
                    self.sessions_seen += 1;
                }
                rhumb_link::Event::Closed { session, .. } if self.session == Some(session) => {
                    self.session = None;
                }
                _ => {}
            }
        }
    }

    fn handle_pdu(&mut self, plaintext: &[u8], now: Now) {
        let pdu = match Frame::parse(plaintext).unwrap() {
            Frame::Full(pdu) => pdu,
            Frame::Labelled(pdu) => {
                self.labelled.push((pdu.header(), pdu.data().to_vec()));
                return;
            }
        };
        let header = pdu.header();
        self.seen.push(Seen {
            at: now,
            header,
            data: pdu.data().to_vec(),
            certificates: pdu.certificates().unwrap(),
        });
        if header.action != Action::Advertise {
            return;
        }
        if self.lose_advertisements > 0 {
            self.lose_advertisements -= 1;
            return;
        }
        match self.on_advertise {
            OnAdvertise::Accept { lease_s, published } => {
                self.accept(header.source, header.tag, now.unix_s() + lease_s, published, now);
            }
            OnAdvertise::Nack(reason) => {
                let mut data = Vec::new();
                Nack { reason, reporter: None }.emit(&mut data);
                let header = PduHeader {
                    tag: header.tag,
                    ..PduHeader::new(Action::Nack, header.destination, header.source)
                };
                self.send(header, &data, now);
            }
            OnAdvertise::Superseded => self.supersede(header, now),
            OnAdvertise::Silence => {}
        }
    }
}

fn pop_due(queue: &mut VecDeque<(Instant, Vec<u8>)>, now: Instant) -> Option<(Instant, Vec<u8>)> {
    if queue.front()?.0 > now { None } else { queue.pop_front() }
}

pub fn router_address() -> SocketAddr {
    "192.0.2.1:7700".parse().unwrap()
}

pub fn node_address() -> SocketAddr {
    "192.0.2.2:5000".parse().unwrap()
}
