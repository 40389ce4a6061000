//! One secure session with a RIB or a router, for tools that ask something and wait for the answer.
//!
//! Blocking, one question at a time: programs that talk to names use `rhumb-node`. Questions are
//! asked again while no answer comes, so a lost datagram costs [`ASK_AGAIN_AFTER`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::key;
use crate::remote::{Remote, any_port_towards};
use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{Endpoint, Event, SessionId};
use rhumb_trust::Identity;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader};

/// A session that is up.
pub struct Session {
    endpoint: Endpoint,
    socket: UdpSocket,
    id: SessionId,
    peer: Name,
    batch: Batch,
    next_tag: u32,
}

/// A PDU that came in.
#[derive(Debug)]
pub struct Received {
    /// Its header.
    pub header: PduHeader,
    /// Its data.
    pub data: Vec<u8>,
}

impl Session {
    /// Connects as `identity`, or says why not.
    pub fn connect(identity: Arc<Identity>, remote: Remote, patience: Duration) -> Outcome<Self> {
        let config = {
            let mut config = rhumb_link::Config::default();
            config.accept = false;
            config
        };
        let start = Instant::now();
        let mut endpoint = Endpoint::new(identity, config, key::fresh_secret()?, start)
            .map_err(Failure::operation)?;
        let local = any_port_towards(remote.address);
        let mut socket = UdpSocket::bind(local, Options::default()).map_err(Failure::setup)?;
        endpoint.connect(remote.address, remote.name, start);
        let mut batch = Batch::new();
        loop {
            turn(&mut endpoint, &mut socket, &mut batch, start + patience)?;
            while let Some(event) = endpoint.poll_event() {
                match event {
                    Event::Established { session: id, peer, .. } => {
                        return Ok(Self { endpoint, socket, id, peer, batch, next_tag: 1 });
                    }
                    Event::Failed { error, .. } => return Err(unreachable(&remote, &error)),
                    _ => {}
                }
            }
            if start.elapsed() > patience {
                return Err(unreachable(&remote, &rhumb_link::LinkError::TimedOut));
            }
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Name {
        self.peer
    }

    /// Sends a PDU to the peer and waits for one that `answers`. `None` when none came in time.
    pub fn ask(
        &mut self,
        action: Action,
        source: Name,
        data: &[u8],
        certificates: &[Certificate],
        patience: Duration,
    ) -> Outcome<Option<Received>> {
        let tag = self.next_tag;
        self.next_tag += 1;
        let header = PduHeader { tag, ..PduHeader::new(action, source, self.peer) };
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            self.send(&header, data, certificates)?;
            let again = deadline.min(Instant::now() + ASK_AGAIN_AFTER);
            while Instant::now() < again {
                if let Some(answer) = self.receive(|of| of == tag, again)? {
                    return Ok(Some(answer));
                }
            }
        }
        Ok(None)
    }

    /// Sends a PDU that nobody answers.
    pub fn say(&mut self, action: Action, source: Name, data: &[u8]) -> Outcome {
        let header = PduHeader { tag: self.next_tag, ..PduHeader::new(action, source, self.peer) };
        self.next_tag += 1;
        self.send(&header, data, &[])
    }

    /// What the peer says by itself until then.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn unasked(&mut self, until: Instant) -> Outcome<Option<Received>> {
        self.receive(|_| true, until)
    }

    /// Ends the session, and says so to the peer.
    pub fn close(mut self) {
        self.endpoint.close(self.id, Instant::now());
        self.batch.clear();
        self.endpoint.poll_transmit(&mut self.batch);
        // The peer notices by itself if this is lost.
        let _ = self.socket.send(&self.batch);
    }

    fn send(&mut self, header: &PduHeader, data: &[u8], certificates: &[Certificate]) -> Outcome {
        let mut pdu = Vec::new();
        header.emit(data, certificates, &mut pdu).map_err(Failure::operation)?;
        let mut datagram = vec![0; pdu.len() + RECORD_OVERHEAD];
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(&pdu);
        let address = self
            .endpoint
            .seal(self.id, &mut datagram, Instant::now())
            .map_err(|reason| Failure::operation_text(format!("cannot send: {reason}")))?;
        self.batch.clear();
        self.batch.push(address, &datagram);
        self.socket.send(&self.batch).map_err(Failure::operation)?;
        Ok(())
    }

    /// The first PDU of such a tag, of what has arrived by now or arrives until `until`.
    fn receive(
        &mut self,
        is_one: impl Fn(u32) -> bool,
        until: Instant,
    ) -> Outcome<Option<Received>> {
        let opened = turn(&mut self.endpoint, &mut self.socket, &mut self.batch, until)?;
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::Closed { reason, .. } = event {
                tracing::debug!(?reason, "a session ended");
                return Err(Failure::operation_text("the session has ended"));
            }
        }
        let parsed = opened.iter().filter_map(|plaintext| Pdu::parse(plaintext).ok());
        Ok(parsed
            .filter(|pdu| is_one(pdu.tag()))
            .map(|pdu| Received { header: pdu.header(), data: pdu.data().to_vec() })
            .next())
    }
}

/// Timers, sending, at most one wait, receiving. Returns the plaintexts opened.
fn turn(
    endpoint: &mut Endpoint,
    socket: &mut UdpSocket,
    batch: &mut Batch,
    until: Instant,
) -> Outcome<Vec<Vec<u8>>> {
    endpoint.handle_timeout(Instant::now());
    flush(endpoint, socket, batch)?;
    let due = endpoint.poll_timeout().map_or(until, |due| due.min(until));
    let wait = due.saturating_duration_since(Instant::now());
    socket.wait(Some(wait), None).map_err(Failure::operation)?;
    socket.receive(batch).map_err(Failure::operation)?;
    let now = Instant::now();
    let mut plaintexts = Vec::new();
    for index in 0..batch.len() {
        let (from, datagram) = batch.datagram_mut(index);
        // What is dropped is counted by the endpoint; who asks notices that no answer came.
        match Datagram::parse(datagram) {
            Ok(Datagram::Record(_)) => {
                if let Ok(opened) = endpoint.open(from, datagram, now) {
                    plaintexts.push(datagram[opened.plaintext].to_vec());
                }
            }
            Ok(handshake) => drop(endpoint.handle_handshake(from, handshake, now)),
            Err(_) => {}
        }
    }
    flush(endpoint, socket, batch)?;
    Ok(plaintexts)
}

fn flush(endpoint: &mut Endpoint, socket: &mut UdpSocket, batch: &mut Batch) -> Outcome {
    batch.clear();
    endpoint.poll_transmit(batch);
    socket.send(batch).map_err(Failure::operation)?;
    Ok(())
}

fn unreachable(remote: &Remote, error: &rhumb_link::LinkError) -> Failure {
    Failure::setup_text(format!(
        "{} unreachable: {error}; check that it runs, and its name and address",
        remote.address
    ))
}

/// Several round trips anywhere on Earth, and short enough to go unnoticed.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(400);
