//! One connection: QUIC's, the two names that it is between, and the streams that programs have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{ConnectionError, ConnectionHandle, Dir, Side, TransportErrorCode};
use rhumb_link::Records;
use rhumb_trust::{CLOCK_SKEW_S, Now, Standing};
use rhumb_wire::Name;

use crate::credentials::{Proof, Verifier};
use crate::pace::{self, Pace};
use crate::packets::Waiting;
use crate::shares::Spent;
use crate::{EndError, NOT_ALLOWED};

pub use quinn_proto::StreamId;

/// A connection, and what hangs on it.
pub(crate) struct Connection {
    pub(crate) handle: ConnectionHandle,
    pub(crate) quic: quinn_proto::Connection,
    pub(crate) local: Name,
    pub(crate) peer: Name,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) origin: Origin,
    /// How the rules have the peer treated, since it has proven itself.
    pub(crate) standing: Standing,
    /// When a membership of the peer's ends that it was let in by.
    pub(crate) member_until_s: Option<u64>,
    pub(crate) phase: Phase,
    /// As the core's table of timers has it.
    pub(crate) timer: Option<Instant>,
    /// Whether the core's queue of those with something to send has it.
    pub(crate) is_ready: bool,
    /// Streams that the peer opened, whose port has not arrived whole.
    pub(crate) unclaimed: HashMap<StreamId, Option<u8>>,
    /// Ports of streams of ours that could not be written yet.
    pub(crate) heads: HashMap<StreamId, Head>,
    /// Streams that programs have.
    pub(crate) held: HashSet<StreamId>,
    /// Programs that want to know how it ends.
    pub(crate) keepers: usize,
    /// When it was used last, by either end.
    pub(crate) used_at: Instant,
    /// What it has had of this end's processor.
    pub(crate) spent: Spent,
    pub(crate) pace: Pace,
    /// What packets are sealed with, if the peer takes any.
    pub(crate) records: Option<Records>,
    pub(crate) waiting: Waiting,
    /// The longest body of a payload to the peer, as was said when something left last.
    pub(crate) longest: usize,
}

/// Who began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Ours,
    Theirs { is_stranger: bool },
}

impl Origin {
    pub(crate) fn is_stranger(self) -> bool {
        matches!(self, Self::Theirs { is_stranger: true })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Beginning {
        ends_at: Instant,
    },
    Open {
        /// When the peer speaks for its name no longer, or belongs to its domain; `None` when the
        /// name is its own and it was let in as nobody's member.
        proof_ends_at: Option<Instant>,
    },
    Over(EndError),
}

/// The port at the head of a stream, as far as it is not written.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) port: [u8; 2],
    pub(crate) written: usize,
    /// The program has finished the stream meanwhile.
    pub(crate) finishes: bool,
}

impl Connection {
    /// When this connection has to be looked at by itself, QUIC's own timers apart.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Beginning { ends_at } => Some(*ends_at),
            Phase::Open { proof_ends_at } => {
                let unused = self.held.is_empty().then(|| self.used_at + UNUSED_FOR);
                [*proof_ends_at, unused].into_iter().flatten().min()
            }
            Phase::Over(_) => None,
        }
    }

    /// When its pace lets it send again, if not now.
    pub(crate) fn holds_until(&self, now: Instant) -> Option<Instant> {
        // Last words wait for nothing.
        self.pace.holds_until(now).filter(|_| !self.quic.is_closed())
    }

    /// How many datagrams of this length its pace lets go together.
    pub(crate) fn sends_together(&self, len: usize) -> usize {
        self.bytes_per_s().map_or(usize::MAX, |rate| pace::together(len, rate))
    }

    /// Datagrams of this connection leave: so long each, so many bytes in all.
    pub(crate) fn sent(&mut self, (each, all): (usize, usize), now: Instant) {
        if let Some(rate) = self.bytes_per_s() {
            self.pace.sent((each, all), rate, now);
        }
    }

    fn bytes_per_s(&self) -> Option<u64> {
        self.quic.congestion_state().metrics().pacing_rate.map(|bits_per_s| bits_per_s / 8)
    }

    pub(crate) fn side(&self) -> Side {
        self.quic.side()
    }

    /// Whether this end may write to a stream; the other way round, whether it may read.
    pub(crate) fn writes(&self, stream: StreamId) -> bool {
        stream.dir() == Dir::Bi || stream.initiator() == self.side()
    }

    pub(crate) fn reads(&self, stream: StreamId) -> bool {
        stream.dir() == Dir::Bi || stream.initiator() != self.side()
    }

    /// The proof has been given; `now` is when.
    pub(crate) fn opened(&mut self, now: Now) {
        let until_s = self.holds_until_s();
        let left_ms = until_s.saturating_add(1).saturating_mul(1000).saturating_sub(now.unix_ms);
        // Timers do not reach further, and the clock is looked at again then.
        let left = Duration::from_millis(left_ms).min(LOOK_AGAIN);
        let proof_ends_at = (until_s != u64::MAX).then(|| now.instant + left);
        self.phase = Phase::Open { proof_ends_at };
        self.used_at = now.instant;
    }

    /// The last second in which the peer has proven what it was let in by.
    fn holds_until_s(&self) -> u64 {
        let member_until_s = self.member_until_s.map(|it| it.saturating_add(CLOCK_SKEW_S));
        let speaks_until_s = self.verifier.proof().map_or(0, Proof::until_s);
        member_until_s.map_or(speaks_until_s, |it| it.min(speaks_until_s))
    }

    /// Why the peer has no right to the connection any longer: it speaks for its name no more, or
    /// belongs to its domain. If it has one, looks again later.
    pub(crate) fn proof_has_ended(&mut self, now: Now) -> Option<EndError> {
        let Phase::Open { proof_ends_at: Some(at) } = self.phase else { return None };
        if at > now.instant {
            return None;
        }
        let until_s = self.holds_until_s();
        if until_s <= now.unix_s() {
            let speaks = self.verifier.proof().is_some_and(|it| it.until_s() > now.unix_s());
            return Some(match speaks {
                true => EndError::NotAllowed(self.peer),
                false => EndError::ProofEnded(self.peer),
            });
        }
        let left_ms = until_s.saturating_add(1).saturating_mul(1000).saturating_sub(now.unix_ms);
        let left = Duration::from_millis(left_ms).min(LOOK_AGAIN);
        self.phase = Phase::Open { proof_ends_at: Some(now.instant + left) };
        None
    }

    /// What QUIC's reason for its end means here.
    pub(crate) fn explain(&self, reason: &ConnectionError) -> EndError {
        let peer = self.peer;
        if let Some(Err(error)) = self.verifier.outcome() {
            return EndError::NotProven(error);
        }
        let protocol = |what: String| EndError::Protocol { peer, what };
        match reason {
            ConnectionError::VersionMismatch => EndError::OtherVersion(peer),
            ConnectionError::TransportError(error) if is_alert(error.code, NO_PROTOCOL) => {
                EndError::OtherVersion(peer)
            }
            ConnectionError::TransportError(error) => protocol(error.to_string()),
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                TransportErrorCode::CONNECTION_REFUSED => EndError::Refused(peer),
                // QUIC keeps the code back until the handshake is over (RFC 9000, section 10.2.3).
                TransportErrorCode::APPLICATION_ERROR => EndError::ClosedByPeer { peer, code: 0 },
                code if is_alert(code, NO_PROTOCOL) => EndError::OtherVersion(peer),
                code if CERTIFICATE_ALERTS.iter().any(|it| is_alert(code, *it)) => {
                    EndError::ProofRefused(peer)
                }
                _ => protocol(close.to_string()),
            },
            ConnectionError::ApplicationClosed(close)
                if close.error_code.into_inner() == NOT_ALLOWED =>
            {
                EndError::Refused(peer)
            }
            ConnectionError::ApplicationClosed(close) => {
                EndError::ClosedByPeer { peer, code: close.error_code.into_inner() }
            }
            ConnectionError::Reset => EndError::Forgotten(peer),
            ConnectionError::TimedOut if matches!(self.phase, Phase::Beginning { .. }) => {
                EndError::NoAnswer(peer)
            }
            ConnectionError::TimedOut => EndError::Lost(peer),
            ConnectionError::LocallyClosed => EndError::Closed,
            ConnectionError::CidsExhausted => EndError::TooMany,
        }
    }
}

fn is_alert(code: TransportErrorCode, alert: u8) -> bool {
    code == TransportErrorCode::crypto(alert)
}

/// Alerts of TLS (RFC 8446, section 6).
const NO_PROTOCOL: u8 = 120;
const CERTIFICATE_ALERTS: [u8; 8] = [42, 43, 44, 45, 46, 48, 49, 116];
/// A connection without streams costs keep-alives, and a new one two round trips.
const UNUSED_FOR: Duration = Duration::from_secs(120);
/// Owners' words last days, and clocks are set now and then.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
