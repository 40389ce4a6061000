//! Attackers with sockets of their own on loopback addresses, and the honest traffic that they are
//! to leave alone: for tests of processes, and for the bench that measures the same attacks.
//!
//! A [`Stranger`] has a secure session by the production
//! link, and sends whatever PDUs it likes over it.

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "each test uses a part; a test may panic"
)]

mod at_rate;
mod fill;
mod floods;
mod flow;
mod foreign;
mod hellos;
mod joins;
mod locators;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_link::{Endpoint, Event, SessionId};
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::datagram::{Datagram, RecordHeader};
use rhumb_wire::pdu::Frame;
use rhumb_wire::{Action, Batch, Certificate, Name, PduHeader, Role, Scope, Statement};

pub(crate) use at_rate::AtRate;
pub(crate) use fill::{Publisher, fill, keep_filling};
pub(crate) use floods::{
    ATTACKER, forge_certificates, forge_chains, forge_statements, lower_ttl, ping_random_names,
};
pub(crate) use flow::{Carried, Flow};
pub(crate) use foreign::{OpenSsl, spoof_hellos};
pub(crate) use hellos::ProvenHellos;
pub(crate) use joins::{Joined, joins};
pub(crate) use locators::publish_locators;

/// Somebody with a secure session: what a node of another make, or an attacker, can do.
pub(crate) struct Stranger {
    pub(crate) identity: Arc<Identity>,
    /// PDUs that came and have not been taken yet: header and data.
    pub(crate) inbox: VecDeque<(PduHeader, Vec<u8>)>,
    /// Of all datagrams that it sent.
    pub(crate) sent_bytes: u64,
    endpoint: Endpoint,
    session: Option<SessionId>,
    peer: Option<Name>,
    socket: UdpSocket,
    to: SocketAddr,
    /// Where its PDUs go instead of to its peer.
    diverted: Option<SocketAddr>,
    buffer: Vec<u8>,
}

impl Stranger {
    /// One at this address who begins to connect to whoever is there.
    pub(crate) fn begin(at: Ipv4Addr, to: SocketAddr, role: Role) -> Self {
        Self::begin_as(Arc::new(Identity::generate(role, now().unix_s()).unwrap()), at, to)
    }

    /// As [`Stranger::begin`], under a name that may have a session already.
    pub(crate) fn begin_as(identity: Arc<Identity>, at: Ipv4Addr, to: SocketAddr) -> Self {
        let mut secret = [0; 32];
        aws_lc_rs::rand::fill(&mut secret).unwrap();
        let (config, begun) = (rhumb_link::Config::default(), Instant::now());
        let mut endpoint = Endpoint::new(identity.clone(), config, secret, begun).unwrap();
        if to.port() != 0 {
            let _ = endpoint.connect(to, None, begun);
        }
        let socket = UdpSocket::bind((at, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut stranger = Self {
            identity,
            inbox: VecDeque::new(),
            sent_bytes: 0,
            endpoint,
            session: None,
            peer: None,
            socket,
            to,
            diverted: None,
            buffer: vec![0; 2048],
        };
        stranger.pump();
        stranger
    }

    /// One who waits for others to connect, as a RIB does, and talks with the last who did.
    pub(crate) fn await_others(at: Ipv4Addr, role: Role) -> Self {
        Self::begin(at, SocketAddr::from((at, 0)), role)
    }

    /// Where others find it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// As [`Stranger::begin`], until there is a session.
    pub(crate) fn connect(at: Ipv4Addr, to: SocketAddr, role: Role) -> Self {
        let mut stranger = Self::begin(at, to, role);
        stranger.wait("a session", |stranger| stranger.session.is_some());
        stranger
    }

    /// As [`Stranger::connect`], until the router carries for it.
    pub(crate) fn join(at: Ipv4Addr, router: SocketAddr, role: Role) -> Self {
        let mut stranger = Self::connect(at, router, role);
        stranger.advertise();
        stranger.wait("an Accept", Self::is_accepted);
        stranger
    }

    /// Asks the router to carry for it.
    pub(crate) fn advertise(&mut self) {
        let via = self.peer();
        let route = self.route(via);
        self.send(PduHeader::new(Action::Advertise, self.name(), via), &[], &[route]);
    }

    /// Whether the router has said that it does.
    pub(crate) fn is_accepted(&mut self) -> bool {
        self.take(|header| header.action == Action::Accept).is_some()
    }

    pub(crate) fn name(&self) -> Name {
        self.identity.name()
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> Name {
        self.peer.unwrap()
    }

    /// A route that this stranger issues, from now for ten minutes.
    pub(crate) fn route(&self, via: Name) -> Certificate {
        let now = now();
        let statement = Statement::Route { via, scope: Scope::Any };
        let window = Window::starting(now.unix_s(), 600);
        self.identity.certify(statement, now.unix_ms, window).unwrap()
    }

    /// Sends a PDU, if there is a session.
    pub(crate) fn send(&mut self, header: PduHeader, data: &[u8], certificates: &[Certificate]) {
        let Some(session) = self.session else { return };
        let mut datagram = vec![0; RecordHeader::LEN];
        header.emit(data, certificates, &mut datagram).unwrap();
        datagram.extend_from_slice(&[0; 16]);
        if let Ok(to) = self.endpoint.seal(session, &mut datagram, Instant::now()) {
            self.sent_bytes += datagram.len() as u64;
            let _ = self.socket.send_to(&datagram, self.diverted.unwrap_or(to));
        }
    }

    /// Sends its PDUs there from now on, whoever is there.
    pub(crate) fn divert(&mut self, to: SocketAddr) {
        self.diverted = Some(to);
    }

    /// Takes the first of the PDUs that came which is of this kind.
    pub(crate) fn take(&mut self, is: impl Fn(&PduHeader) -> bool) -> Option<Vec<u8>> {
        let at = self.inbox.iter().position(|(header, _)| is(header))?;
        self.inbox.remove(at).map(|(_, data)| data)
    }

    /// Lets what has come pass.
    pub(crate) fn ignore(&mut self) {
        self.pump();
        self.inbox.clear();
    }

    /// Ends the session, which the peer is told.
    pub(crate) fn close(&mut self) {
        if let Some(session) = self.session.take() {
            self.endpoint.close(session, Instant::now());
            self.transmit();
        }
    }

    /// Does and sends the same, but to somebody else. What its peer was to be told
    /// goes to `unsent`.
    pub(crate) fn close_towards(mut self, nowhere: SocketAddr, unsent: &mut Vec<Vec<u8>>) {
        let Some(session) = self.session.take() else { return };
        self.endpoint.close(session, Instant::now());
        let mut out = Batch::new();
        self.endpoint.poll_transmit(&mut out);
        for (_, datagram) in out.iter() {
            let _ = self.socket.send_to(datagram, nowhere);
            unsent.push(datagram.to_vec());
        }
    }

    /// Takes what has come, and does and sends what is due.
    pub(crate) fn pump(&mut self) {
        while let Ok((len, from)) = self.socket.recv_from(&mut self.buffer) {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.handle(from, &mut buffer[..len]);
            self.buffer = buffer;
        }
        self.endpoint.handle_timeout(Instant::now());
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Established { session, peer, .. } => {
                    (self.session, self.peer) = (Some(session), Some(peer));
                }
                Event::Closed { session, .. } if self.session == Some(session) => {
                    self.session = None;
                }
                _ => {}
            }
        }
        self.transmit();
    }

    fn handle(&mut self, from: SocketAddr, datagram: &mut [u8]) {
        match Datagram::parse(datagram) {
            Ok(Datagram::Record(_)) => {
                let Ok(opened) = self.endpoint.open(from, datagram, Instant::now()) else { return };
                if let Ok(Frame::Full(pdu)) = Frame::parse(&datagram[opened.plaintext]) {
                    self.inbox.push_back((pdu.header(), pdu.data().to_vec()));
                }
            }
            Ok(handshake) => {
                let _ = self.endpoint.handle_handshake(from, handshake, Instant::now());
            }
            Err(_) => {}
        }
    }

    fn transmit(&mut self) {
        let mut out = Batch::new();
        self.endpoint.poll_transmit(&mut out);
        for (to, datagram) in out.iter() {
            self.sent_bytes += datagram.len() as u64;
            let _ = self.socket.send_to(datagram, to);
        }
    }

    /// Goes on until it is so.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "no {what}");
            self.pump();
            std::thread::sleep(TURN);
        }
    }
}

pub(crate) fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Now { instant: Instant::now(), unix_ms: since.as_millis() as u64 }
}

/// For a machine that is busy with everything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How often sockets without anything to wake one are looked at.
const TURN: Duration = Duration::from_micros(500);
