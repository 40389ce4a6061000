//! An exchange: one handshake with one address, from the first
//! hello to the first record, and a little longer.
//!
//! 1. `Handshaking`: DTLS. Ends with the peer's name proven and keys exported.
//! 2. `Agreeing`: our lane exists; our session parameters are
//!    sent, 250 ms doubling, until the peer's arrive.
//! 3. `Greeting`, only if there is a session with that name: empty records go out under the new
//!    keys, while the session goes on sending under its own, because the peer may have given this
//!    handshake up. The first record of the peer's renews the session.
//! 4. `Established`: the session sends. Parameters are repeated until a record of the
//!    peer was opened, which shows that it has ours; then the exchange stays for
//!    [`LINGER`], to answer what was lost, and is forgotten.
//!
//! An initiator goes through phases: it tries as to a native peer, then as to a foreign one, and
//! again. An error of the library ends a phase, not the attempt, because anyone who can send from
//! the peer's address can cause one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_trust::x509::{Claim, IdentityError};
use rhumb_wire::Name;
use rhumb_wire::datagram::{Datagram, SessionIndex, TOKEN_LEN};

use crate::admission::Ticket;
use crate::dtls::Style;
use crate::elsewhere::Elsewhere;
use crate::handshake::{Handshake, Output};
use crate::keys::{ExportedKeys, LaneSecrets};
use crate::lane::{SendLane, UnusedLane};
use crate::retry::HelloHash;
use crate::timers::Armed;
use crate::{AttemptId, HandshakeError, Peer, SessionId};

pub(crate) struct Exchange {
    pub(crate) address: SocketAddr,
    pub(crate) side: Side,
    pub(crate) handshake: Box<dyn Handshake>,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) progress: Progress,
    /// Which of our certificates it shows, by its number.
    pub(crate) shows: u32,
    /// When the library wants to be called.
    pub(crate) library_due: Instant,
    /// When this phase, or the whole exchange, is over.
    pub(crate) deadline: Instant,
    pub(crate) armed: Armed,
}

/// Which side we are, and what only that side knows.
pub(crate) enum Side {
    Initiator(Initiation),
    Responder(Response),
}

pub(crate) struct Initiation {
    pub(crate) attempt: AttemptId,
    /// Whether a caller asked for it; otherwise it renews a session.
    pub(crate) announced: bool,
    pub(crate) expected: Option<Name>,
    pub(crate) phase: usize,
    /// When the attempt is over, whatever its phase.
    pub(crate) give_up: Instant,
    pub(crate) style: Style,
    /// Our first datagram, to be sent again with a token.
    pub(crate) hello: Vec<u8>,
    pub(crate) token: Option<[u8; TOKEN_LEN]>,
    /// Retries that are still answered; more are when the library repeats its hello.
    pub(crate) retries_left: u8,
    /// Whether the peer's first DTLS datagram has come: ours go without wrapping from then on.
    pub(crate) answered: bool,
    /// While only one datagram may go out, because nobody
    /// has answered at the address: whether it has.
    pub(crate) once: Option<bool>,
}

/// Its peer's address is proven: by a token, or by a cookie.
pub(crate) struct Response {
    /// The hello that began it.
    pub(crate) hello: HelloHash,
    /// Its random bytes, which are compared sooner than it is hashed.
    pub(crate) random: Option<[u8; 32]>,
    /// The place among the half-open, until the session is established.
    pub(crate) ticket: Option<Ticket>,
}

pub(crate) enum Progress {
    Handshaking(Evidence),
    Agreeing(Agreement),
    Greeting(Renewal),
    Established { session: SessionId, index: SessionIndex, repeat: Option<Repeat> },
}

/// What a handshake has brought so far.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) claim: Option<Result<Claim, IdentityError>>,
    pub(crate) keys: Option<ExportedKeys>,
    pub(crate) connected: bool,
}

/// A proven peer whose parameters are awaited.
pub(crate) struct Agreement {
    pub(crate) peer: Claim,
    /// To send with.
    pub(crate) secrets: Box<LaneSecrets>,
    /// Our receive lane.
    pub(crate) index: SessionIndex,
    pub(crate) repeat: Option<Repeat>,
}

/// A session's next keys, which the peer has not shown to have yet.
pub(crate) struct Renewal {
    pub(crate) peer: Peer,
    pub(crate) send: Box<SendLane>,
    /// What workers will send with.
    pub(crate) for_workers: Vec<(u8, UnusedLane)>,
    /// Our receive lane.
    pub(crate) index: SessionIndex,
    pub(crate) repeat: Option<Repeat>,
}

/// When to send our parameters again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat {
    pub(crate) at: Instant,
    pub(crate) interval: Duration,
}

impl Initiation {
    /// Our hello, wrapped, with the token if there is one.
    pub(crate) fn initial(&self) -> Vec<u8> {
        let mut initial = Vec::with_capacity(5 + TOKEN_LEN + self.hello.len());
        Datagram::emit_initial(self.token.as_ref(), &self.hello, &mut initial);
        initial
    }
}

impl Repeat {
    pub(crate) fn first(now: Instant) -> Self {
        Self { at: now + FIRST_REPEAT, interval: FIRST_REPEAT }
    }

    pub(crate) fn next(self, now: Instant) -> Self {
        let interval = self.interval * 2;
        Self { at: now + interval, interval }
    }
}

impl Exchange {
    /// The next output: first those of what was done elsewhere.
    pub(crate) fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> Result<Output<'a>, HandshakeError> {
        match self.elsewhere.next() {
            Some(said) => Ok(said.into_output(buffer)),
            None => self.handshake.poll(buffer),
        }
    }

    /// Gives what goes on now until `at`, and an attempt no longer than all of it may take.
    pub(crate) fn wait_until(&mut self, at: Instant) {
        self.deadline = match &self.side {
            Side::Initiator(initiation) if !self.is_established() => at.min(initiation.give_up),
            _ => at,
        };
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.progress, Progress::Established { .. })
    }

    /// The attempt of ours that it is, if it is one.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        match &self.side {
            Side::Initiator(initiation) => Some(initiation.attempt),
            Side::Responder(_) => None,
        }
    }

    pub(crate) fn is_client(&self) -> bool {
        matches!(self.side, Side::Initiator(_))
    }

    /// Our receive lane, if there is one that is no session's own yet.
    pub(crate) fn pending_lane(&self) -> Option<SessionIndex> {
        match &self.progress {
            Progress::Agreeing(agreement) => Some(agreement.index),
            Progress::Greeting(renewal) => Some(renewal.index),
            Progress::Handshaking(_) | Progress::Established { .. } => None,
        }
    }

    /// Our receive lane, if there is one.
    pub(crate) fn lane(&self) -> Option<SessionIndex> {
        match &self.progress {
            Progress::Established { index, .. } => Some(*index),
            _ => self.pending_lane(),
        }
    }

    pub(crate) fn repeat_mut(&mut self) -> Option<&mut Option<Repeat>> {
        match &mut self.progress {
            Progress::Handshaking(_) => None,
            Progress::Agreeing(agreement) => Some(&mut agreement.repeat),
            Progress::Greeting(renewal) => Some(&mut renewal.repeat),
            Progress::Established { repeat, .. } => Some(repeat),
        }
    }

    /// When anything has to be done, if nothing comes until then.
    pub(crate) fn due(&self) -> Instant {
        let repeat = match &self.progress {
            Progress::Handshaking(_) => None,
            Progress::Agreeing(agreement) => agreement.repeat,
            Progress::Greeting(renewal) => renewal.repeat,
            Progress::Established { repeat, .. } => *repeat,
        };
        let due = self.library_due.min(self.deadline);
        repeat.map_or(due, |repeat| due.min(repeat.at))
    }
}

/// How an initiator tries: as what, and for how long while nobody answers.
pub(crate) const PHASES: [(Style, Duration); 4] = [
    (Style::Native, Duration::from_millis(1000)),
    (Style::Foreign, Duration::from_millis(1000)),
    (Style::Native, Duration::from_millis(3000)),
    (Style::Foreign, Duration::from_millis(3000)),
];
/// How long an attempt may take in all.
pub(crate) const ATTEMPT_TIME: Duration = Duration::from_secs(12);
/// How long a handshake that was answered may take, and how long another's may.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// How long the peer's parameters are awaited.
pub(crate) const AGREEMENT_TIME: Duration = Duration::from_secs(8);
/// How long an exchange answers after the peer was confirmed.
pub(crate) const LINGER: Duration = Duration::from_secs(3);
/// How often a hello is sent again for a retry, until the library's own timer repeats it. A forged
/// retry costs a hello, so this bounds what a forger can make us send.
pub(crate) const RETRIES_PER_HELLO: u8 = 3;
const FIRST_REPEAT: Duration = Duration::from_millis(250);
