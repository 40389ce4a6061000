//! A router on a thread and a real socket, as simple as can be: it accepts every
//! name, and carries between the names that are connected to it. It verifies nothing;
//! what routers verify is tested where routers are.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.
#![allow(clippy::unwrap_used)] // Clippy knows tests by their functions, and these are helpers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{PacketIo, Wake};
use rhumb_link::{Endpoint, SessionId};
use rhumb_trust::Identity;
use rhumb_wire::accept::Accept;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::pdu::decrement_ttl;
use rhumb_wire::{Action, Batch, Name, Pdu, PduHeader, Role};

/// A running router; stops when dropped.
pub struct Relay {
    pub address: SocketAddr,
    pub name: Name,
    /// The data of all PDUs that it has carried, as it reads them.
    pub read: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// What it does besides carrying.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// What its Accepts say.
    pub published: bool,
    /// Answers no advertisement.
    pub silent: bool,
    /// Refuses every advertisement.
    pub refuses: bool,
    /// Loses one PDU of data in so many; 0 for none.
    pub loses_one_in: u64,
    /// Answers the first so many PDUs of data with "not yet".
    pub unready: u64,
    /// The longest data of a PDU that it carries.
    pub longest: u16,
    /// Keeps what it reads.
    pub keeps: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            published: true,
            silent: false,
            refuses: false,
            loses_one_in: 0,
            unready: 0,
            longest: u16::MAX,
            keeps: false,
        }
    }
}

struct Stop {
    asked: AtomicBool,
    wake: Wake,
}

struct Worker {
    name: Name,
    endpoint: Endpoint,
    socket: UdpSocket,
    behaviour: Behaviour,
    data_seen: u64,
    read: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Who advertised a name that is not its own last.
    served: HashMap<Name, SessionId>,
    incoming: Batch,
    outgoing: Batch,
}

impl Relay {
    pub fn start(behaviour: Behaviour) -> Self {
        let identity = Arc::new(Identity::generate(Role::Router, 1).unwrap());
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
        let address = socket.local_address();
        let config = rhumb_link::Config::default();
        let read = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let worker = Worker {
            name: identity.name(),
            endpoint: Endpoint::new(identity.clone(), config, [5; 32], Instant::now()).unwrap(),
            socket,
            behaviour,
            data_seen: 0,
            read: read.clone(),
            served: HashMap::new(),
            incoming: Batch::new(),
            outgoing: Batch::new(),
        };
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), wake: Wake::new().unwrap() });
        let asked = stop.clone();
        let thread = Some(std::thread::spawn(move || worker.run(&asked)));
        Self { address, name: identity.name(), read, stop, thread }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.asked.store(true, Ordering::Relaxed);
        self.stop.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(mut self, stop: &Stop) {
        while !stop.asked.load(Ordering::Relaxed) {
            let received = self.socket.receive(&mut self.incoming).unwrap();
            let now = Instant::now();
            for slot in 0..self.incoming.len() {
                match self.handle(slot, now) {
                    Some(to) => self.incoming.redirect(slot, to),
                    None => self.incoming.drop_datagram(slot),
                }
            }
            self.endpoint.handle_timeout(now);
            while self.endpoint.poll_event().is_some() {}
            self.endpoint.poll_transmit(&mut self.outgoing);
            self.socket.send(&self.incoming).unwrap();
            self.socket.send(&self.outgoing).unwrap();
            self.outgoing.clear();
            if received == 0 {
                let timeout = self.endpoint.poll_timeout().map(|at| at.duration_since(now));
                self.socket.wait(timeout, Some(&stop.wake)).unwrap();
            }
        }
    }

    /// Handles one datagram; says where it goes when it is carried on.
    fn handle(&mut self, slot: usize, now: Instant) -> Option<SocketAddr> {
        let (from, datagram) = self.incoming.datagram_mut(slot);
        match Datagram::parse(datagram).ok()? {
            Datagram::Record(_) => {}
            handshake => {
                let _ = self.endpoint.handle_handshake(from, handshake, now);
                return None;
            }
        }
        let opened = self.endpoint.open(from, datagram, now).ok()?;
        if opened.plaintext.is_empty() {
            return None;
        }
        let plaintext = datagram[opened.plaintext.clone()].to_vec();
        let pdu = Pdu::parse(&plaintext).ok()?;
        let header = pdu.header();
        // Labels are between two ends of a session; this router knows none, and so gives none on.
        if header.action == Action::FlowAccept {
            return None;
        }
        if header.action == Action::Advertise {
            self.answer_advertisement(opened.session, header, now);
            return None;
        }
        if self.behaviour.keeps {
            self.read.lock().unwrap().push(pdu.data().to_vec());
        }
        if matches!(header.action, Action::Data | Action::Ping) {
            if let Some(reason) = self.objection(header, pdu.data().len()) {
                self.nack(opened.session, header, reason, now);
                return None;
            }
            let loses_one_in = self.behaviour.loses_one_in;
            if loses_one_in > 0 && self.data_seen.is_multiple_of(loses_one_in) {
                return None;
            }
        }
        let served = || self.served.get(&header.destination).copied();
        let next = self.endpoint.session_of(&header.destination).or_else(served)?;
        let (_, datagram) = self.incoming.datagram_mut(slot);
        decrement_ttl(&mut datagram[opened.plaintext]);
        self.endpoint.seal(next, datagram, now).ok()
    }

    fn objection(&mut self, header: PduHeader, data_len: usize) -> Option<Reason> {
        self.data_seen += 1;
        if self.data_seen <= self.behaviour.unready {
            return Some(Reason::NotYet(20));
        }
        if data_len > usize::from(self.behaviour.longest) {
            return Some(Reason::TooBig(self.behaviour.longest));
        }
        if header.ttl <= 1 {
            return Some(Reason::TtlExceeded);
        }
        let known = self.endpoint.session_of(&header.destination).is_some()
            || self.served.contains_key(&header.destination);
        (!known).then_some(Reason::Unreachable(200))
    }

    fn answer_advertisement(&mut self, session: SessionId, about: PduHeader, now: Instant) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        if self.behaviour.silent {
            return;
        }
        if self.behaviour.refuses {
            return self.nack(session, about, Reason::BadCertificate, now);
        }
        if self.endpoint.session_of(&about.source).is_none() {
            self.served.insert(about.source, session);
        }
        let mut data = Vec::new();
        let until_s = since_1970.as_secs() + 600;
        Accept { name: about.source, until_s, published: self.behaviour.published }.emit(&mut data);
        let header =
            PduHeader { tag: about.tag, ..PduHeader::new(Action::Accept, self.name, about.source) };
        self.send(session, header, &data, now);
    }

    fn nack(&mut self, session: SessionId, about: PduHeader, reason: Reason, now: Instant) {
        let mut data = Vec::new();
        Nack { reason, reporter: Some(self.name) }.emit(&mut data);
        let header = PduHeader {
            tag: about.tag,
            ..PduHeader::new(Action::Nack, about.destination, about.source)
        };
        self.send(session, header, &data, now);
    }

    fn send(&mut self, session: SessionId, header: PduHeader, data: &[u8], now: Instant) {
        let mut pdu = Vec::new();
        header.emit(data, &[], &mut pdu).unwrap();
        let address = self.endpoint.peer(session).unwrap().address;
        let datagram = self.outgoing.push_with(address, pdu.len() + RECORD_OVERHEAD);
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(&pdu);
        let _ = self.endpoint.seal(session, datagram, now);
    }
}

/// Waits no longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);
