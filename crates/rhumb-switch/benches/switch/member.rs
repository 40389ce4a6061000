//! A node at the switch: the production link by real handshakes, a certificate for the router, and data that it seals and
//! opens outside of what is measured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rhumb_link::{Endpoint, SessionId};
use rhumb_switch::{Config, Switch};
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::{Action, Batch, Name, Pdu, PduHeader, Role, Scope, Statement};

use crate::chance::Chance;

/// A node with one session, to the switch.
pub(crate) struct Member {
    identity: Arc<Identity>,
    endpoint: Endpoint,
    /// Where the switch sees it.
    pub(crate) address: SocketAddr,
    router: Name,
    router_address: SocketAddr,
    session: Option<SessionId>,
    joined: bool,
}

impl Member {
    /// A member that begins to connect.
    pub(crate) fn new(
        address: SocketAddr,
        router: Name,
        router_address: SocketAddr,
        now: Now,
    ) -> Self {
        let identity = identity(Role::Node, now);
        let mut endpoint =
            Endpoint::new(identity.clone(), link_config(), [3; 32], now.instant).expect("endpoint");
        endpoint.connect(router_address, Some(router), now.instant);
        Self { identity, endpoint, address, router, router_address, session: None, joined: false }
    }

    pub(crate) fn name(&self) -> Name {
        self.identity.name()
    }

    /// Whether the switch carries for this member.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }

    /// Takes what came before it joined.
    pub(crate) fn handle(&mut self, datagram: &mut [u8], now: Now) {
        match Datagram::parse(datagram) {
            Ok(Datagram::Record(_)) => {
                let is_accept = |pdu: Pdu<'_>| pdu.action() == Action::Accept;
                self.joined |= self.open(datagram, now).is_some_and(is_accept);
            }
            Ok(handshake) => {
                let from = self.router_address;
                let _ = self.endpoint.handle_handshake(from, handshake, now.instant);
            }
            Err(_) => {}
        }
    }

    /// Appends what it has to say; the first thing on a session is its certificate.
    pub(crate) fn transmit(&mut self, out: &mut Batch, now: Now) {
        self.endpoint.handle_timeout(now.instant);
        self.endpoint.poll_transmit(out);
        while let Some(event) = self.endpoint.poll_event() {
            if let rhumb_link::Event::Established { session, .. } = event {
                self.session = Some(session);
                self.advertise(out, now);
            }
        }
    }

    fn advertise(&mut self, out: &mut Batch, now: Now) {
        let statement = Statement::Route { via: self.router, scope: Scope::Any };
        let window = Window::starting(now.unix_s(), LEASE_S);
        let certificate = self.identity.certify(statement, 1, window).expect("a signature");
        let mut pdu = Vec::new();
        PduHeader::new(Action::Advertise, self.name(), self.router)
            .emit(&[], &[certificate], &mut pdu)
            .expect("one certificate fits");
        self.push(out, self.router_address, &pdu, now);
    }

    /// Appends an empty record, so that the session does not go silent.
    pub(crate) fn keep_alive(&mut self, out: &mut Batch, now: Now) {
        self.push(out, self.router_address, &[], now);
    }

    /// Appends a sealed PDU; `peer` is written beside it.
    pub(crate) fn push(&mut self, out: &mut Batch, peer: SocketAddr, pdu: &[u8], now: Now) {
        let session = self.session.expect("a session");
        let datagram = out.push_with(peer, pdu.len() + RECORD_OVERHEAD);
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(pdu);
        self.endpoint.seal(session, datagram, now.instant).expect("the session lives");
    }

    /// Opens a record and reads its PDU.
    pub(crate) fn open<'a>(&mut self, datagram: &'a mut [u8], now: Now) -> Option<Pdu<'a>> {
        let opened = self.endpoint.open(self.router_address, datagram, now.instant).ok()?;
        Pdu::parse(&datagram[opened.plaintext]).ok()
    }
}

/// The bytes of a Data PDU: the header, and `payload` bytes of data that depend on `chance`.
pub(crate) fn data_pdu(
    source: Name,
    destination: Name,
    payload: usize,
    chance: &mut Chance,
) -> Vec<u8> {
    let data: Vec<u8> = (0..payload).map(|_| chance.next_u64() as u8).collect();
    let mut pdu = Vec::new();
    PduHeader::new(Action::Data, source, destination)
        .emit(&data, &[], &mut pdu)
        .expect("the payload fits");
    pdu
}

/// A switch with no RIB and no upstream router, which is all that its own members need.
pub(crate) fn switch(max_flows: usize, now: Now) -> Switch {
    let config = Config { max_flows, link: link_config(), ..Config::default() };
    Switch::new(identity(Role::Router, now), config, [4; 32], now).expect("switch")
}

pub(crate) fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Now { instant: std::time::Instant::now(), unix_ms }
}

fn identity(role: Role, now: Now) -> Arc<Identity> {
    Arc::new(Identity::generate(role, now.unix_s()).expect("a key"))
}

fn link_config() -> rhumb_link::Config {
    let mut config = rhumb_link::Config::default();
    config.max_datagram_len = MAX_DATAGRAM_LEN;
    config
}

/// Room for a payload of 8,900 bytes.
const MAX_DATAGRAM_LEN: u16 = 9200;
/// Longer than any bench.
const LEASE_S: u64 = 3600;
