//! One handshake of a stream: from a connection to two proven names and their parameters.
//!
//! 1. TCP, TLS, with a certificate of each end.
//! 2. Whoever was dialled says its parameters first.
//! 3. Whoever dialled says its own when it takes the stream into use, which it may not want to any
//!    more: the last word is its, so that both ends know of the stream or neither does.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rhumb_link::{AttemptId, HandshakeError, Incompatibility, LinkError, Ticket};
use rhumb_trust::x509::Claim;
use rhumb_wire::stream::StreamParameters;

use crate::credentials::{PROTOCOL, proven, reason_of};
use crate::protected::{Life, Protected};
use crate::stream::is_for_later;
use crate::tls::{State, Tls};

/// A handshake that is not over.
pub(crate) struct HalfOpen {
    pub(crate) socket: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) side: Side,
    /// The number of the certificate that it shows.
    pub(crate) shown: u32,
    pub(crate) deadline: Instant,
    stage: Stage,
    /// Whether TCP has yet to connect.
    connecting: bool,
    /// Ours, until they are said.
    parameters: Option<StreamParameters>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// What TLS has brought.
    data: Vec<u8>,
}

/// How far TLS is.
enum Stage {
    Shaking(Tls),
    /// The names are proven; parameters follow.
    Proven(Box<(Protected, Claim)>),
    /// It is with whoever goes on with it, or has failed.
    Gone,
}

/// What a finished handshake has shown.
pub(crate) struct Proof {
    tls: Protected,
    pub(crate) claim: Claim,
    pub(crate) theirs: StreamParameters,
}

/// Who began.
pub(crate) enum Side {
    /// Somebody else.
    Accepted(Option<Ticket>),
    /// We did, for this attempt.
    Dialled(AttemptId),
}

/// A stream whose handshake is over.
pub(crate) struct Arrived {
    pub(crate) socket: TcpStream,
    pub(crate) tls: Box<Protected>,
    pub(crate) peer: SocketAddr,
    pub(crate) claim: Claim,
    pub(crate) theirs: StreamParameters,
    /// Ours, where we dialled: to be said when the stream is taken into use.
    pub(crate) ours: Option<StreamParameters>,
    pub(crate) attempt: Option<AttemptId>,
    pub(crate) shown: u32,
    /// What came behind the parameters, sealed and opened.
    pub(crate) early: (Vec<u8>, Vec<u8>),
    pub(crate) unsent: Vec<u8>,
}

/// What a step brought.
pub(crate) enum Progress {
    /// More has to come, or to go: whether it waits for the latter.
    Waits {
        also_write: bool,
    },
    /// Both parameters are known, as far as they have to be.
    Ready(Box<Proof>),
    Failed(LinkError),
}

impl HalfOpen {
    pub(crate) fn accepted(
        socket: TcpStream,
        peer: SocketAddr,
        ticket: Ticket,
        (tls, shown): (Tls, u32),
        parameters: StreamParameters,
        now: Instant,
    ) -> Self {
        let side = Side::Accepted(Some(ticket));
        Self::new((socket, peer), side, (tls, shown), parameters, now + HANDSHAKE_TIME)
    }

    /// With a socket that is about to connect.
    pub(crate) fn dialled(
        socket: TcpStream,
        peer: SocketAddr,
        attempt: AttemptId,
        (tls, shown): (Tls, u32),
        parameters: StreamParameters,
        now: Instant,
    ) -> Self {
        let side = Side::Dialled(attempt);
        let dialled = Self::new((socket, peer), side, (tls, shown), parameters, now + DIAL_TIME);
        Self { connecting: true, ..dialled }
    }

    fn new(
        (socket, peer): (TcpStream, SocketAddr),
        side: Side,
        (tls, shown): (Tls, u32),
        parameters: StreamParameters,
        deadline: Instant,
    ) -> Self {
        Self {
            socket,
            peer,
            side,
            shown,
            deadline,
            stage: Stage::Shaking(tls),
            connecting: false,
            parameters: Some(parameters),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Goes on as far as can be. Work: a flight of TLS, with its public-key operations.
    pub(crate) fn step(&mut self) -> Progress {
        match self.try_step() {
            Ok(progress) => progress,
            Err(error) => {
                // An alert, perhaps; it is lost with the connection if the system takes it not now.
                let _ = self.socket.write(&self.outgoing);
                Progress::Failed(error)
            }
        }
    }

    fn try_step(&mut self) -> Result<Progress, LinkError> {
        if self.connecting {
            match self.socket.take_error() {
                Ok(None) if self.socket.peer_addr().is_ok() => self.connecting = false,
                Ok(None) => return Ok(Progress::Waits { also_write: true }),
                Ok(Some(_)) | Err(_) => return Err(LinkError::TimedOut),
            }
        }
        let is_over = self.read()?;
        self.advance()?;
        let is_proven = matches!(self.stage, Stage::Proven(_));
        if is_proven && matches!(self.side, Side::Accepted(_)) {
            self.say_parameters()?;
        }
        self.write()?;
        if is_proven && let Some((theirs, len)) = self.split_parameters()? {
            self.data.drain(..len);
            if let Stage::Proven(proven) = std::mem::replace(&mut self.stage, Stage::Gone) {
                let (tls, claim) = *proven;
                return Ok(Progress::Ready(Box::new(Proof { tls, claim, theirs })));
            }
        }
        match is_over {
            true => Err(CLOSED),
            false => Ok(Progress::Waits { also_write: !self.outgoing.is_empty() }),
        }
    }

    /// The stream, now that it is ready.
    pub(crate) fn into_arrived(self, proof: Proof) -> Arrived {
        let Proof { tls, claim, theirs } = proof;
        let attempt = match self.side {
            Side::Dialled(attempt) => Some(attempt),
            Side::Accepted(_) => None,
        };
        Arrived {
            socket: self.socket,
            tls: Box::new(tls),
            peer: self.peer,
            claim,
            theirs,
            ours: self.parameters,
            attempt,
            shown: self.shown,
            early: (self.incoming, self.data),
            unsent: self.outgoing,
        }
    }

    /// Reads what there is, as far as it is of a handshake's length; whether the peer says no more.
    fn read(&mut self) -> Result<bool, LinkError> {
        let mut chunk = [0; CHUNK_LEN];
        loop {
            if self.incoming.len() + self.data.len() > MAX_INCOMING {
                return Err(LinkError::Incompatible(Incompatibility::TooMuch));
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => return Ok(true),
                Ok(read) => self.incoming.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_for_later(&error) => return Ok(false),
                Err(_) => return Err(CLOSED),
            }
            // What follows the parameters is for the stream to read.
            if self.incoming.len() >= CHUNK_LEN {
                return Ok(false);
            }
        }
    }

    /// Goes through what has come.
    fn advance(&mut self) -> Result<(), LinkError> {
        let Self { stage, incoming, outgoing, data, .. } = self;
        let mut keep = |bytes: &[u8]| data.extend_from_slice(bytes);
        let failed = |text: String| LinkError::Handshake(HandshakeError::of_stream(text));
        let (taken, state) = match stage {
            Stage::Shaking(tls) => {
                let (taken, state) = tls.advance(incoming, outgoing, &mut keep);
                let reason = |error| reason_of(&error).unwrap_or_else(|| failed(error.to_string()));
                (taken, state.map_err(reason))
            }
            Stage::Proven(proven) => {
                let tls = &mut proven.0;
                let (taken, life) = tls.open(incoming, &mut keep);
                let state = match life {
                    Ok(Life::Open) => Ok(State::Open),
                    Ok(Life::Closed) => Ok(State::Closed),
                    Err(fault) => {
                        tls.say(fault, outgoing);
                        Err(failed(fault.to_string()))
                    }
                };
                (taken, state)
            }
            Stage::Gone => (0, Ok(State::Closed)),
        };
        incoming.drain(..taken);
        match state? {
            State::Shaking => Ok(()),
            State::Open => self.prove(),
            State::Closed => Err(CLOSED),
        }
    }

    /// Makes sure who is there, and that they speak what we do, once TLS is open.
    fn prove(&mut self) -> Result<(), LinkError> {
        let Stage::Shaking(tls) = &self.stage else { return Ok(()) };
        let common = tls.common();
        if common.alpn_protocol() != Some(PROTOCOL) {
            return Err(LinkError::Incompatible(Incompatibility::Protocol));
        }
        let claim = proven(common.peer_certificates())?;
        // What it shows of a domain costs signatures: they are looked at here, and kept.
        if let Some(membership) = &claim.membership {
            membership.is_signed();
        }
        if let Stage::Shaking(tls) = std::mem::replace(&mut self.stage, Stage::Gone) {
            let opened = tls.into_protected().map_err(|error| {
                LinkError::Handshake(HandshakeError::of_stream(error.to_string()))
            })?;
            self.stage = Stage::Proven(Box::new((opened, claim)));
        }
        Ok(())
    }

    fn say_parameters(&mut self) -> Result<(), LinkError> {
        let Stage::Proven(proven) = &mut self.stage else { return Ok(()) };
        let Some(parameters) = self.parameters.take() else { return Ok(()) };
        proven.0.append(&parameters.emit(), &mut self.outgoing).map_err(|_| CLOSED)
    }

    fn split_parameters(&self) -> Result<Option<(StreamParameters, usize)>, LinkError> {
        let incompatible = |error| LinkError::Incompatible(Incompatibility::Parameters(error));
        StreamParameters::split(&self.data).map_err(incompatible)
    }

    fn write(&mut self) -> Result<(), LinkError> {
        while !self.outgoing.is_empty() {
            match self.socket.write(&self.outgoing) {
                Ok(0) => return Err(CLOSED),
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_for_later(&error) => break,
                Err(_) => return Err(CLOSED),
            }
        }
        Ok(())
    }
}

const CLOSED: LinkError = LinkError::Incompatible(Incompatibility::Closed);

/// How long a handshake of somebody else's may take: as one over UDP.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// How long one of ours may: a firewall that drops what it does not like costs two seconds of
/// repeated SYNs, and the port beside it is tried meanwhile.
pub(crate) const DIAL_TIME: Duration = Duration::from_secs(8);
/// A flight with a certificate that shows a membership of four takes less than half of it.
const MAX_INCOMING: usize = 32 << 10;
const CHUNK_LEN: usize = 4096;
