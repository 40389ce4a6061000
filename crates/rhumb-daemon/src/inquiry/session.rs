//! One secure session with a RIB or a router, for tools that ask something and wait for the answer.
//!
//! Blocking, one question at a time: programs that talk to names use `rhumb-node`. Questions are
//! asked again while no answer comes, so a lost datagram costs [`ASK_AGAIN_AFTER`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::key;
use crate::remote::{Remote, any_port_towards};
use rhumb_io::Wake;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{
    DEFAULT_MAX_DATAGRAM_LEN, Endpoint, Event, Limits, LinkError, Peer, SessionId, Transport,
};
use rhumb_stream::{Carrier, Settings};
use rhumb_trust::Identity;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader, Role};

/// A session that is up.
pub struct Session {
    endpoint: Endpoint,
    carrier: Carrier,
    /// Ends a wait when something happens to a stream.
    wake: Option<Wake>,
    id: SessionId,
    peer: Name,
    batch: Batch,
    next_tag: u32,
}

/// What a session may go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    /// Sealed datagrams alone.
    Udp,
    /// These, and frames over TLS on TCP when nobody answers them.
    UdpAndTls,
}

/// How the way to a peer is.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// What the session goes over.
    pub transport: Transport,
    /// How long an answer takes, once one was measured.
    pub round_trip: Option<Duration>,
    /// The largest datagram that is known to get through, in bytes of UDP payload.
    pub max_datagram_len: u16,
}

impl Way {
    /// Whether there is no more to find out.
    fn is_whole(&self) -> bool {
        self.transport == Transport::Tls
            || (self.round_trip.is_some() && self.max_datagram_len >= DEFAULT_MAX_DATAGRAM_LEN)
    }
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
        let reached = Self::reach(identity, remote, Ways::Udp, patience)?;
        reached.map_err(|error| unreachable(&remote, &error))
    }

    /// As [`Session::connect`], over one of `ways`; or why nobody there shook hands.
    ///
    /// # Errors
    /// When this host lacks what it takes.
    pub fn reach(
        identity: Arc<Identity>,
        remote: Remote,
        ways: Ways,
        patience: Duration,
    ) -> Outcome<Result<Self, LinkError>> {
        let config = {
            let mut config = rhumb_link::Config::default();
            config.accept = false;
            config.streams = ways == Ways::UdpAndTls;
            config
        };
        let (mut carrier, wake) = carrier(&identity, remote, &config)?;
        let start = Instant::now();
        let mut endpoint = Endpoint::new(identity, config, key::fresh_secret()?, start)
            .map_err(Failure::operation)?;
        endpoint.connect(remote.address, remote.name, start);
        let mut batch = Batch::new();
        loop {
            let until = start + patience;
            turn(&mut endpoint, (&mut carrier, wake.as_ref()), &mut batch, until)?;
            while let Some(event) = endpoint.poll_event() {
                match event {
                    Event::Established { session: id, peer, .. } => {
                        return Ok(Ok(Self {
                            endpoint,
                            carrier,
                            wake,
                            id,
                            peer,
                            batch,
                            next_tag: 1,
                        }));
                    }
                    Event::Failed { error, .. } => return Ok(Err(error)),
                    _ => {}
                }
            }
            if start.elapsed() > patience {
                return Ok(Err(LinkError::TimedOut));
            }
        }
    }

    /// What the peer is, by its metadata.
    pub fn peer_role(&self) -> Option<Role> {
        self.endpoint.peer(self.id).map(|peer| peer.metadata.role)
    }

    /// What the session goes over, while it lasts.
    pub fn transport(&self) -> Option<Transport> {
        self.endpoint.peer(self.id).map(Peer::transport)
    }

    /// How the way to the peer is, as far as it is found out within `patience`.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn way(&mut self, patience: Duration) -> Outcome<Way> {
        let until = Instant::now() + patience;
        let mut settled_at = until;
        let mut known = self.way_now()?;
        while !known.is_whole() && Instant::now() < settled_at.min(until) {
            self.receive(|_| false, until.min(Instant::now() + LOOK_EVERY))?;
            let now = self.way_now()?;
            if now.max_datagram_len != known.max_datagram_len {
                settled_at = Instant::now() + SETTLED_AFTER;
            }
            known = now;
        }
        Ok(known)
    }

    fn way_now(&self) -> Outcome<Way> {
        let peer = self.endpoint.peer(self.id);
        let peer = peer.ok_or_else(|| Failure::operation_text("the session has ended"))?;
        Ok(Way {
            transport: peer.transport(),
            round_trip: self.endpoint.round_trip(self.id),
            max_datagram_len: peer.max_datagram_len,
        })
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
        let _ = self.carrier.send(&mut self.batch);
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
        self.carrier.send(&mut self.batch).map_err(Failure::operation)?;
        Ok(())
    }

    /// The first PDU of such a tag, of what has arrived by now or arrives until `until`.
    fn receive(
        &mut self,
        is_one: impl Fn(u32) -> bool,
        until: Instant,
    ) -> Outcome<Option<Received>> {
        let carried = (&mut self.carrier, self.wake.as_ref());
        let opened = turn(&mut self.endpoint, carried, &mut self.batch, until)?;
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

/// What datagrams go by, and streams if the endpoint has any, with what ends a wait for these.
fn carrier(
    identity: &Arc<Identity>,
    remote: Remote,
    config: &rhumb_link::Config,
) -> Outcome<(Carrier, Option<Wake>)> {
    let local = any_port_towards(remote.address);
    let socket = UdpSocket::bind(local, Options::default()).map_err(Failure::setup)?;
    let mut carrier = Carrier::new(socket);
    if !config.streams {
        return Ok((carrier, None));
    }
    let (max_datagram_len, limits) = (config.max_datagram_len, Limits::default());
    let settings = Settings { listening: None, max_datagram_len, limits };
    let wake = Wake::new().map_err(Failure::operation)?;
    let carried = carrier.carry_streams(Arc::clone(identity), settings, wake.clone());
    carried.map_err(Failure::operation)?;
    Ok((carrier, Some(wake)))
}

/// Timers, sending, at most one wait, receiving. Returns the plaintexts opened.
fn turn(
    endpoint: &mut Endpoint,
    (carrier, wake): (&mut Carrier, Option<&Wake>),
    batch: &mut Batch,
    until: Instant,
) -> Outcome<Vec<Vec<u8>>> {
    endpoint.handle_timeout(Instant::now());
    flush(endpoint, carrier, batch)?;
    let due = if carrier.meet(endpoint, clock::now()) {
        flush(endpoint, carrier, batch)?;
        // There may be events: whoever waits for one has to see it first.
        Instant::now()
    } else {
        endpoint.poll_timeout().map_or(until, |due| due.min(until))
    };
    let wait = due.saturating_duration_since(Instant::now());
    carrier.wait(Some(wait), wake).map_err(Failure::operation)?;
    carrier.receive(batch).map_err(Failure::operation)?;
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
    flush(endpoint, carrier, batch)?;
    Ok(plaintexts)
}

fn flush(endpoint: &mut Endpoint, carrier: &mut Carrier, batch: &mut Batch) -> Outcome {
    batch.clear();
    endpoint.poll_transmit(batch);
    carrier.send(batch).map_err(Failure::operation)?;
    Ok(())
}

fn unreachable(remote: &Remote, error: &LinkError) -> Failure {
    Failure::setup_text(format!(
        "{} unreachable: {error}; check that it runs, and its name and address",
        remote.address
    ))
}

/// Several round trips anywhere on Earth, and short enough to go unnoticed.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(400);
/// How often it is looked whether more is known of the way.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Asking about one size three times takes less: then it is the largest one that gets through.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
