//! Endpoints in virtual time, joined by a network that can
//! lose, hold back, repeat and show every datagram.
//!
//! Deterministic: datagrams arrive in the order of
//! their time and number, and nothing reads a clock.

// Each test is a crate of its own and uses a part.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{
    Config, DropReason, Endpoint, Event, HandshakeDone, SessionId, StreamNews, StreamOrder,
};
use rhumb_trust::Identity;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader, SessionIndex};
use rhumb_wire::{Batch, Name, Role, stream};

/// A datagram on its way.
#[derive(Debug, Clone)]
pub struct Flying {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// What happens to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    Lost,
    /// Arrives this much later than others.
    Late(Duration),
    /// Arrives now and once more, this much later.
    Twice(Duration),
    /// Arrives with the byte at this offset changed.
    Altered(usize),
}

pub struct Host {
    pub endpoint: Endpoint,
    pub address: SocketAddr,
    /// What happened, but for [`Event::Resized`].
    pub events: Vec<Event>,
    /// The largest datagrams, as they were told of.
    pub sizes: Vec<(SessionId, u16)>,
    /// What it wants of whoever carries its streams.
    pub orders: Vec<StreamOrder>,
    /// Plaintexts that arrived, keep-alives not among them.
    pub received: Vec<(SessionId, Vec<u8>)>,
}

type Judge = Box<dyn FnMut(usize, &Flying) -> Fate>;

pub struct Net {
    pub now: Instant,
    pub hosts: Vec<Host>,
    pub delay: Duration,
    /// Every datagram sent, in order.
    pub sent: Vec<Flying>,
    /// Streams: the address that one has at its end, and whose end the other one is, and where.
    pub streams: BTreeMap<SocketAddr, (usize, SocketAddr)>,
    /// Datagrams that arrived where no endpoint is.
    pub outside: Vec<Flying>,
    /// How long steps of handshakes take that are done elsewhere.
    pub work_takes: Duration,
    /// How many steps of handshakes were done elsewhere.
    pub worked: usize,
    /// What was done elsewhere, of which hosts, and when they are told.
    working: BTreeMap<(Instant, usize), (usize, HandshakeDone)>,
    in_flight: BTreeMap<(Instant, usize), Flying>,
    numbers: usize,
    fate: Judge,
}

impl Net {
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    pub fn new() -> Self {
        Self {
            now: Instant::now(),
            hosts: Vec::new(),
            delay: Duration::from_millis(10),
            sent: Vec::new(),
            streams: BTreeMap::new(),
            outside: Vec::new(),
            work_takes: Duration::from_millis(3),
            worked: 0,
            working: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            numbers: 0,
            fate: Box::new(|_, _| Fate::Arrives),
        }
    }

    /// Two hosts, 0 and 1.
    pub fn pair() -> Self {
        Self::pair_with(Config::default(), Config::default())
    }

    pub fn pair_with(first: Config, second: Config) -> Self {
        let mut net = Self::new();
        net.add(first);
        net.add(second);
        net
    }

    pub fn add(&mut self, config: Config) -> usize {
        self.add_identity(identity(), config)
    }

    pub fn add_identity(&mut self, identity: Arc<Identity>, config: Config) -> usize {
        let number = self.hosts.len();
        let secret = [number as u8 + 1; 32];
        let endpoint = Endpoint::new(identity, config, secret, self.now).unwrap();
        self.hosts.push(Host {
            endpoint,
            address: SocketAddr::from(([192, 0, 2, number as u8 + 1], 4000)),
            events: Vec::new(),
            sizes: Vec::new(),
            orders: Vec::new(),
            received: Vec::new(),
        });
        number
    }

    /// Decides what happens to the n-th datagram sent from now on.
    pub fn set_fate(&mut self, mut fate: impl FnMut(usize, &Flying) -> Fate + 'static) {
        let first = self.sent.len();
        self.fate = Box::new(move |number, flying| fate(number - first, flying));
    }

    pub fn connect(&mut self, from: usize, to: usize) -> rhumb_link::AttemptId {
        let address = self.hosts[to].address;
        let attempt = self.hosts[from].endpoint.connect(address, None, self.now);
        self.collect(from);
        attempt
    }

    /// Connects 0 to 1 and waits until both know.
    pub fn establish(&mut self) -> (SessionId, SessionId) {
        self.connect(0, 1);
        self.run(Duration::from_secs(1));
        (self.session(0, 1), self.session(1, 0))
    }

    /// The session that host `of` has with host `with`.
    pub fn session(&self, of: usize, with: usize) -> SessionId {
        self.find_session(of, with).expect("there is a session")
    }

    pub fn find_session(&self, of: usize, with: usize) -> Option<SessionId> {
        self.hosts[of].endpoint.session_of(&self.name(with))
    }

    pub fn name(&self, host: usize) -> Name {
        self.hosts[host].endpoint.name()
    }

    pub fn seal(
        &mut self,
        from: usize,
        session: SessionId,
        plaintext: &[u8],
    ) -> Result<Flying, DropReason> {
        let mut bytes = vec![0; plaintext.len() + RECORD_OVERHEAD];
        bytes[RecordHeader::LEN..][..plaintext.len()].copy_from_slice(plaintext);
        let to = self.hosts[from].endpoint.seal(session, &mut bytes, self.now)?;
        Ok(Flying { from: self.hosts[from].address, to, bytes })
    }

    /// Sends a plaintext over the network.
    pub fn send(&mut self, from: usize, to: usize, plaintext: &[u8]) {
        let session = self.session(from, to);
        let flying = self.seal(from, session, plaintext).expect("sealed");
        self.launch(flying);
    }

    /// Both directions of the session between 0 and 1 carry data
    /// now, over a network that is good from now on.
    pub fn assert_carries(&mut self, context: &str) {
        self.set_fate(|_, _| Fate::Arrives);
        for (from, to) in [(0, 1), (1, 0)] {
            self.hosts[to].received.clear();
            let text = format!("{context} {from}");
            self.send(from, to, text.as_bytes());
            self.run(Duration::from_millis(100));
            let received = &self.hosts[to].received;
            assert!(
                received.iter().any(|(_, bytes)| bytes == text.as_bytes()),
                "{context}: {from} to {to} is cut; drops {:?}",
                self.drops(to)
            );
        }
    }

    /// Reasons that were counted, with their counts.
    pub fn drops(&self, host: usize) -> Vec<(DropReason, u64)> {
        self.hosts[host].endpoint.drops().iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Puts a datagram on the network, where its fate is decided.
    pub fn launch(&mut self, flying: Flying) {
        let number = self.sent.len();
        self.sent.push(flying.clone());
        let arrives = self.now + self.delay;
        match (self.fate)(number, &flying) {
            Fate::Arrives => self.fly(arrives, flying),
            Fate::Lost => {}
            Fate::Altered(at) => {
                let mut altered = flying;
                altered.bytes[at] ^= 0xFF;
                self.fly(arrives, altered);
            }
            Fate::Late(more) => self.fly(arrives + more, flying),
            Fate::Twice(more) => {
                self.fly(arrives, flying.clone());
                self.fly(arrives + more, flying);
            }
        }
    }

    fn fly(&mut self, arrives: Instant, flying: Flying) {
        self.numbers += 1;
        self.in_flight.insert((arrives, self.numbers), flying);
    }

    /// Gives a datagram to whoever has its address, at once.
    pub fn deliver(&mut self, flying: &Flying) -> Result<(), DropReason> {
        if let Some((host, from)) = self.streams.get(&flying.to).copied() {
            let to = self.hosts[host].address;
            return self.deliver(&Flying { from, to, bytes: flying.bytes.clone() });
        }
        let Some(to) = self.hosts.iter().position(|host| host.address == flying.to) else {
            self.outside.push(flying.clone());
            return Ok(());
        };
        let host = &mut self.hosts[to];
        let mut bytes = flying.bytes.clone();
        let result = match Datagram::parse(&flying.bytes) {
            Ok(Datagram::Record(_)) => {
                host.endpoint.open(flying.from, &mut bytes, self.now).map(|opened| {
                    if !opened.plaintext.is_empty() {
                        let plaintext = bytes[opened.plaintext].to_vec();
                        host.received.push((opened.session, plaintext));
                    }
                })
            }
            Ok(datagram) => host.endpoint.handle_handshake(flying.from, datagram, self.now),
            Err(_) => Err(DropReason::Malformed),
        };
        self.collect(to);
        result
    }

    /// Takes the stream that has this index at `host` away, and tells the other end.
    pub fn cut(&mut self, host: usize, index: SessionIndex) {
        let here = |(address, (peer, _)): (&SocketAddr, &(usize, SocketAddr))| {
            (*peer != host && stream::index_of(address) == Some(index)).then_some(*address)
        };
        let Some(address) = self.streams.iter().find_map(here) else { return };
        let Some((peer, there)) = self.streams.remove(&address) else { return };
        let lost = |address| stream::index_of(&address).map(|index| StreamNews::Lost { index });
        for (host, address) in [(host, address), (peer, there)] {
            if let Some(news) = lost(address) {
                assert_eq!(self.hosts[host].endpoint.handle_stream(news, self.now), None);
            }
        }
        self.streams.remove(&there);
        self.collect(peer);
    }

    /// Takes what a host has to say.
    pub fn collect(&mut self, host: usize) {
        while let Some(job) = self.hosts[host].endpoint.poll_handshake_job() {
            self.numbers += 1;
            self.worked += 1;
            self.working.insert((self.now + self.work_takes, self.numbers), (host, job.run()));
        }
        let mut batch = Batch::new();
        let from = self.hosts[host].address;
        self.hosts[host].endpoint.poll_transmit(&mut batch);
        while let Some(event) = self.hosts[host].endpoint.poll_event() {
            match event {
                Event::Resized { session, now, .. } => {
                    self.hosts[host].sizes.push((session, now));
                }
                event => self.hosts[host].events.push(event),
            }
        }
        for (to, bytes) in batch.iter() {
            self.launch(Flying { from, to, bytes: bytes.to_vec() });
        }
        while let Some(order) = self.hosts[host].endpoint.poll_stream_order() {
            if let StreamOrder::Close { index } = order {
                self.cut(host, index);
            }
            self.hosts[host].orders.push(order);
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
            let work = self.working.keys().next().map(|(at, _)| *at);
            let timers = self.hosts.iter().filter_map(|host| host.endpoint.poll_timeout());
            let Some(next) = timers.chain(arrival).chain(work).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let flying = entry.remove();
                let _ = self.deliver(&flying);
            }
            while let Some(entry) = self.working.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (host, done) = entry.remove();
                self.hosts[host].endpoint.handle_handshake_done(done, self.now);
                self.collect(host);
            }
            for host in 0..self.hosts.len() {
                self.hosts[host].endpoint.handle_timeout(self.now);
                self.collect(host);
            }
        }
        self.now = end;
    }

    /// Events of a host since the last call.
    pub fn take_events(&mut self, host: usize) -> Vec<Event> {
        std::mem::take(&mut self.hosts[host].events)
    }
}

pub fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate(Role::Node, 1).unwrap())
}

pub fn is_record(bytes: &[u8]) -> bool {
    matches!(Datagram::parse(bytes), Ok(Datagram::Record(_)))
}
