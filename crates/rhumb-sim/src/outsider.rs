//! Somebody with a secure endpoint who sends any PDU it likes: a node of
//! another make, or an attacker who holds a key.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rhumb_link::{AttemptId, Endpoint, Event, LinkError, SessionId};
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader, Scope, Statement};

/// A PDU that an outsider received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// On which session.
    pub session: SessionId,
    /// Its header.
    pub header: PduHeader,
    /// Its data.
    pub data: Vec<u8>,
}

/// An endpoint under a script's control.
pub struct Outsider {
    identity: Arc<Identity>,
    endpoint: Endpoint,
    outgoing: Batch,
    /// PDUs that came.
    pub inbox: Vec<Received>,
    /// What its endpoint told.
    pub events: Vec<Event>,
}

impl Outsider {
    pub(crate) fn new(
        identity: Arc<Identity>,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let config = crate::link::link_config();
        let endpoint = Endpoint::new(identity.clone(), config, secret, now.instant)?;
        let (inbox, events) = (Vec::new(), Vec::new());
        Ok(Self { identity, endpoint, outgoing: Batch::new(), inbox, events })
    }

    /// Begins a handshake.
    pub fn connect(&mut self, address: SocketAddr, expected: Option<Name>, now: Now) -> AttemptId {
        self.endpoint.connect(address, expected, now.instant)
    }

    /// The session with a name.
    pub fn session_with(&self, name: &Name) -> Option<SessionId> {
        self.endpoint.session_of(name)
    }

    /// Its own name.
    pub fn name(&self) -> Name {
        self.identity.name()
    }

    /// Its endpoint.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Signs a route of its own to `via`, for ten minutes from now.
    ///
    /// # Panics
    /// When the library cannot sign.
    pub fn route(&self, via: Name, now: Now) -> Certificate {
        let statement = Statement::Route { via, scope: Scope::Any };
        let window = Window::starting(now.unix_s(), 600);
        self.identity.certify(statement, now.unix_ms, window).expect("a key in memory signs")
    }

    /// Queues a PDU, whatever it says; whether there is such a session and the PDU fits it.
    pub fn send(
        &mut self,
        session: SessionId,
        header: PduHeader,
        data: &[u8],
        certificates: &[Certificate],
        now: Now,
    ) -> bool {
        let mut datagram = vec![0; RecordHeader::LEN];
        if header.emit(data, certificates, &mut datagram).is_err() {
            return false;
        }
        datagram.resize(datagram.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
        match self.endpoint.seal(session, &mut datagram, now.instant) {
            Ok(to) => {
                self.outgoing.push(to, &datagram);
                true
            }
            Err(_) => false,
        }
    }

    /// The reasons of the NACKs that came, oldest first.
    pub fn nacks(&self) -> Vec<Reason> {
        let nacks = self.inbox.iter().filter(|received| received.header.action == Action::Nack);
        nacks.filter_map(|nack| Some(Nack::parse(&nack.data).ok()?.reason)).collect()
    }

    pub(crate) fn turn(&mut self, batch: &mut Batch, now: Now) {
        for index in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(index);
            match Datagram::parse(datagram) {
                Ok(Datagram::Record(_)) => {
                    if let Ok(opened) = self.endpoint.open(from, datagram, now.instant)
                        && let Ok(pdu) = Pdu::parse(&datagram[opened.plaintext])
                    {
                        let (header, data) = (pdu.header(), pdu.data().to_vec());
                        self.inbox.push(Received { session: opened.session, header, data });
                    }
                }
                Ok(handshake) => {
                    let _ = self.endpoint.handle_handshake(from, handshake, now.instant);
                }
                Err(_) => {}
            }
        }
        batch.clear();
        self.endpoint.handle_timeout(now.instant);
        while let Some(event) = self.endpoint.poll_event() {
            self.events.push(event);
        }
        for (to, datagram) in self.outgoing.iter() {
            batch.push(to, datagram);
        }
        self.outgoing.clear();
        self.endpoint.poll_transmit(batch);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }
}
