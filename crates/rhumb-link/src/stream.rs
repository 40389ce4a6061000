//! Sessions over a stream: what takes the place of lanes there, and what an endpoint and whoever
//! carries its streams tell each other (`docs/spec.md`, section 4.7).
//!
//! The endpoint sees neither TCP nor TLS. Whoever has it opens connections, shakes hands on them,
//! and brings what came of that as [`StreamNews`]; [`StreamOrder`]s say what it wants.
//!
//! INVARIANT: what is not sealed goes to a stream's address and nowhere else, and is taken from
//! there and nowhere else. So a [`StreamLane`] readies nothing but PDUs and closes, which go where
//! their session sends to; and a record that is to be opened is never looked for among streams,
//! whatever index it says.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_trust::x509::Claim;
use rhumb_wire::Name;
use rhumb_wire::datagram::{Counter, RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex};

use crate::lane::SendLane;
use crate::watch::Watch;
use crate::{AttemptId, DropReason, LinkError, Source};

/// What a session sends with.
pub(crate) enum Sending {
    /// Datagrams, sealed.
    Sealed(SendLane),
    /// Frames of a stream, which seals them.
    Stream(StreamLane),
}

/// The sending side of a stream.
pub(crate) struct StreamLane {
    index: SessionIndex,
    frames: u64,
    last: Instant,
}

/// What a session keeps beside while it is on a stream.
#[derive(Default)]
pub(crate) struct OnStream {
    /// The watch of its peer, which rests: TCP may be late for longer than it waits.
    pub(crate) watch: Option<Box<Watch>>,
    /// When UDP is tried again, where we dialled.
    pub(crate) back: Option<Back>,
}

/// The way back to UDP.
pub(crate) struct Back {
    pub(crate) at: Instant,
    pub(crate) interval: Duration,
}

/// A stream that is being dialled.
pub(crate) struct Dial {
    /// The UDP address of whoever is dialled.
    pub(crate) address: SocketAddr,
    pub(crate) expected: Option<Name>,
    /// Whether a caller wants to know what comes of it.
    pub(crate) announced: bool,
    /// Why UDP has failed, once it has.
    pub(crate) udp_failed: Option<LinkError>,
    /// Why it could not be dialled, once that is so, and UDP goes on.
    pub(crate) failed: Option<LinkError>,
}

/// What whoever carries streams tells the endpoint.
#[derive(Debug)]
pub enum StreamNews {
    /// A handshake is over: both names are proven.
    Opened(Box<NewStream>),
    /// A stream that was to be dialled could not be.
    Failed {
        /// Of the order to dial.
        attempt: AttemptId,
        /// Why.
        error: LinkError,
    },
    /// A stream is no more.
    Lost {
        /// Its index.
        index: SessionIndex,
    },
}

/// A stream on which a handshake is over.
#[derive(Debug)]
pub struct NewStream {
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The name that was proven there.
    pub claim: Claim,
    /// The largest datagram that the peer receives, as its parameters say.
    pub max_datagram_len: u16,
    /// Of the order to dial, where there was one.
    pub attempt: Option<AttemptId>,
    /// The number of the certificate that we have shown: that of the last [`StreamOrder::Show`]
    /// when the handshake began, or 0.
    pub shown: u32,
}

/// What the endpoint wants of whoever carries its streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamOrder {
    /// Dial whoever has this UDP address: [`StreamNews::Opened`] or [`StreamNews::Failed`] says
    /// what came of it.
    Dial {
        /// To be told with the outcome.
        attempt: AttemptId,
        /// Where it takes datagrams.
        address: SocketAddr,
        /// Who has to be there; anybody when none is given.
        expected: Option<Name>,
    },
    /// Close a stream, once what is to be sent on it has been.
    Close {
        /// Its index.
        index: SessionIndex,
    },
    /// Somebody who is admitted is at this source: handshakes from there are not strangers'.
    Know {
        /// Where.
        source: Source,
    },
    /// Show another certificate from now on, of the same key.
    Show {
        /// DER.
        certificate: Vec<u8>,
        /// Its number.
        number: u32,
    },
}

impl Sending {
    /// Readies a record or a frame in place: 12 bytes of room, the plaintext, 16 bytes of room.
    #[inline]
    pub(crate) fn seal(
        &mut self,
        kind: RecordKind,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        match self {
            Self::Sealed(lane) => lane.seal(kind, buffer, now),
            Self::Stream(lane) => lane.frame(kind, buffer, now),
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// When anything was readied last.
    pub(crate) fn last_sealed(&self) -> Instant {
        match self {
            Self::Sealed(lane) => lane.last_sealed,
            Self::Stream(lane) => lane.last,
        }
    }

    /// Records or frames readied so far.
    pub(crate) fn sealed(&self) -> u64 {
        match self {
            Self::Sealed(lane) => lane.sealed(),
            Self::Stream(lane) => lane.frames,
        }
    }

    /// Whether a counter will run out: a stream's keys are its own affair.
    pub(crate) fn nearly_exhausted(&self) -> bool {
        match self {
            Self::Sealed(lane) => lane.nearly_exhausted(),
            Self::Stream(_) => false,
        }
    }
}

impl StreamLane {
    pub(crate) fn new(index: SessionIndex, now: Instant) -> Self {
        Self { index, frames: 0, last: now }
    }

    /// Writes what tells a frame's kind and stream to whoever carries it.
    pub(crate) fn frame(
        &mut self,
        kind: RecordKind,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        // Path messages go to addresses that are not the session's.
        if kind == RecordKind::Path {
            return Err(DropReason::StaleSession);
        }
        if buffer.len() < RECORD_OVERHEAD {
            return Err(DropReason::TooShort);
        }
        let header = RecordHeader { kind, index: self.index, counter: Counter::new(0, 0) };
        buffer[..RecordHeader::LEN].copy_from_slice(&header.emit());
        self.frames += 1;
        self.last = now;
        Ok(())
    }
}

impl Back {
    /// The first time UDP is tried again, or the next one, which takes twice as long. `chance`
    /// spreads those of whom one failure has moved here together.
    pub(crate) fn after(interval: Duration, chance: u64, now: Instant) -> Self {
        let spread = interval.mul_f64(SPREAD * (chance % 1024) as f64 / 1024.0);
        Self { at: now + interval - spread, interval }
    }

    pub(crate) fn next(&self, chance: u64, now: Instant) -> Self {
        Self::after((self.interval * 2).min(MAX_UDP_RETRY.max(self.interval)), chance, now)
    }
}

/// Where UDP is blocked it stays so for hours, mostly; a laptop that comes home should not wait as
/// long for the better way.
const MAX_UDP_RETRY: Duration = Duration::from_secs(900);
/// The share of an interval that chance takes off.
const SPREAD: f64 = 0.25;
