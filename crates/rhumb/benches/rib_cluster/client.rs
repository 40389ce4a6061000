//! Who asks a RIB: one session over a socket of its own, with whatever is under way by number.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{Endpoint, Event, SessionId};
use rhumb_trust::Identity;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Batch, Name, Pdu, PduHeader};

/// A socket with its sessions.
pub(crate) struct Line {
    pub(crate) endpoint: Endpoint,
    socket: UdpSocket,
    own: Name,
    batch: Batch,
}

impl Line {
    pub(crate) fn new(identity: &Arc<Identity>) -> Self {
        let link = rhumb_link::Config::default();
        let endpoint = Endpoint::new(identity.clone(), link, [9; 32], Instant::now());
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Options::default());
        let (endpoint, socket) = (endpoint.expect("an endpoint"), socket.expect("a socket"));
        Self { endpoint, socket, own: identity.name(), batch: Batch::new() }
    }

    /// Sends a request's data.
    pub(crate) fn send(&mut self, session: SessionId, to: Name, data: &[u8]) {
        let mut datagram = vec![0; RecordHeader::LEN];
        let header = PduHeader::new(Action::RibRequest, self.own, to);
        header.emit(data, &[], &mut datagram).expect("it fits");
        datagram.resize(datagram.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
        let to = self.endpoint.seal(session, &mut datagram, Instant::now()).expect("sealed");
        self.batch.clear();
        self.batch.push(to, &datagram);
        self.socket.send(&self.batch).expect("sent");
    }

    /// Waits so long for datagrams, and takes what they are: answers, with the session of each.
    pub(crate) fn turn(&mut self, within: Duration) -> Vec<(SessionId, RibResponse)> {
        let now = Instant::now();
        self.endpoint.handle_timeout(now);
        self.batch.clear();
        self.endpoint.poll_transmit(&mut self.batch);
        self.socket.send(&self.batch).expect("sent");
        let mut answers = Vec::new();
        if !self.socket.wait(Some(within), None).expect("a wait").readable {
            return answers;
        }
        self.batch.clear();
        self.socket.receive(&mut self.batch).expect("received");
        let now = Instant::now();
        for at in 0..self.batch.len() {
            let (from, datagram) = self.batch.datagram_mut(at);
            match Datagram::parse(datagram) {
                Ok(Datagram::Record(_)) => {
                    let Ok(opened) = self.endpoint.open(from, datagram, now) else { continue };
                    let Ok(pdu) = Pdu::parse(&datagram[opened.plaintext.clone()]) else { continue };
                    let answer = RibResponse::parse(pdu.data()).expect("a response");
                    answers.push((opened.session, answer));
                }
                Ok(handshake) => _ = self.endpoint.handle_handshake(from, handshake, now),
                Err(_) => {}
            }
        }
        answers
    }
}

/// A session with one RIB.
pub(crate) struct Client {
    line: Line,
    session: SessionId,
    rib: Name,
    next_id: u32,
}

impl Client {
    pub(crate) fn connect(identity: &Arc<Identity>, (rib, address): (Name, SocketAddr)) -> Self {
        let mut line = Line::new(identity);
        line.endpoint.connect(address, Some(rib), Instant::now());
        let began = Instant::now();
        loop {
            line.turn(Duration::from_millis(10));
            if let Some(session) = line.endpoint.session_of(&rib) {
                return Self { line, session, rib, next_id: 0 };
            }
            assert!(began.elapsed() < Duration::from_secs(20), "no session");
        }
    }

    pub(crate) fn ask(&mut self, body: RibRequestBody) -> RequestId {
        self.next_id = self.next_id.wrapping_add(1);
        let id = RequestId(self.next_id);
        self.send(id, body);
        id
    }

    fn send(&mut self, id: RequestId, body: RibRequestBody) {
        let mut data = Vec::new();
        RibRequest { id, body }.emit(&mut data);
        self.line.send(self.session, self.rib, &data);
    }

    /// What comes within this time. What was told without being asked is acknowledged.
    pub(crate) fn answers(&mut self, within: Duration) -> Vec<RibResponse> {
        let mut answers = Vec::new();
        for (_, answer) in self.line.turn(within) {
            if matches!(answer.body, RibResponseBody::Changed { .. }) {
                self.send(answer.id, RibRequestBody::Acknowledge);
            }
            answers.push(answer);
        }
        while let Some(event) = self.line.endpoint.poll_event() {
            assert!(!matches!(event, Event::Closed { .. }), "a RIB closed a session");
        }
        answers
    }
}
