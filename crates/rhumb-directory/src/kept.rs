//! A remote that a session is kept to, whatever happens: a RIB or an upstream router. Whoever owns
//! the link is asked for an attempt when one is due, and reports what became of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_link::{AttemptId, SessionId};

use crate::Remote;

/// Another party, and how far the session with it is.
pub struct Kept {
    remote: Remote,
    state: State,
    /// In a row; a session that was lost counts as one.
    failures: u32,
}

enum State {
    Waiting { until: Instant },
    Connecting(AttemptId),
    Ready { session: SessionId, since: Instant },
}

impl Kept {
    /// A party to which a session is wanted at once.
    pub fn new(remote: Remote, now: Instant) -> Self {
        Self { remote, state: State::Waiting { until: now }, failures: 0 }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.remote.address
    }

    /// The session with it, if there is one.
    pub fn session(&self) -> Option<SessionId> {
        self.ready().map(|(session, _)| session)
    }

    /// Since when it is there.
    pub fn there_since(&self) -> Option<Instant> {
        self.ready().map(|(_, since)| since)
    }

    /// When it wants to be connected to.
    pub fn retry_at(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            _ => None,
        }
    }

    /// What to connect to now, if that is wanted.
    pub fn connect_due(&self, now: Instant) -> Option<Remote> {
        self.retry_at().filter(|at| *at <= now).map(|_| self.remote)
    }

    /// An attempt has begun.
    pub fn connecting(&mut self, attempt: AttemptId) {
        self.state = State::Connecting(attempt);
    }

    /// Whether this attempt is under way to it.
    pub fn is_attempted(&self, attempt: AttemptId) -> bool {
        matches!(self.state, State::Connecting(its) if its == attempt)
    }

    /// The attempt has come to a session.
    pub fn established(&mut self, session: SessionId, now: Instant) {
        self.state = State::Ready { session, since: now };
        self.failures = 0;
    }

    /// An attempt failed; it is tried again later.
    pub fn failed(&mut self, now: Instant) {
        self.failures += 1;
        self.state = State::Waiting { until: now + reconnect_delay(self.failures) };
    }

    /// The session has ended; it is connected to again.
    pub fn closed(&mut self, now: Instant) {
        self.failures = 0;
        self.failed(now);
    }

    fn ready(&self) -> Option<(SessionId, Instant)> {
        match self.state {
            State::Ready { session, since } => Some((session, since)),
            _ => None,
        }
    }
}

/// 100 ms, doubled per failure up to 3.2 s: what restarts
/// is found soon, what is gone costs little.
pub fn reconnect_delay(failures: u32) -> Duration {
    Duration::from_millis(100) * 2u32.pow(failures.clamp(1, 6) - 1)
}
