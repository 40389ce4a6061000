//! The routers through which this one is reached:
//! sessions are kept to all of them, and one is in use.
//!
//! 1. [`Upstreams::connect_due`] says which want a connection
//!    attempt; the switch reports what became of it.
//! 2. [`Upstreams::choose`] picks the first in the order of preference that is there. When the one
//!    in use is lost, the next one takes its place at once; one that is preferred takes it back
//!    when it has been there for [`HOLD_DOWN`].
//! 3. The switch then says in its own statement through whom it is
//!    reached, and RIBs tell whoever needs to know.
//!
//! INVARIANT: the one in use has a session, or none has.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_directory::{Kept, Remote};
use rhumb_link::{AttemptId, SessionId};

pub(crate) struct Upstreams {
    /// The preferred one first.
    list: Vec<Kept>,
    used: Option<usize>,
}

/// How one upstream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpstreamState {
    pub(crate) address: SocketAddr,
    pub(crate) session: Option<SessionId>,
    pub(crate) is_used: bool,
}

impl Upstreams {
    pub(crate) fn new(remotes: &[Remote], now: Instant) -> Self {
        Self { list: remotes.iter().map(|&remote| Kept::new(remote, now)).collect(), used: None }
    }

    /// Those that want to be connected to now. The caller reports
    /// each attempt with [`Upstreams::connecting`].
    pub(crate) fn connect_due(&self, now: Instant) -> Vec<(usize, Remote)> {
        let list = self.list.iter().enumerate();
        list.filter_map(|(index, it)| Some((index, it.connect_due(now)?))).collect()
    }

    pub(crate) fn connecting(&mut self, index: usize, attempt: AttemptId) {
        self.list[index].connecting(attempt);
    }

    /// Whether `attempt` was to one of them, which is there now.
    pub(crate) fn established(
        &mut self,
        attempt: AttemptId,
        session: SessionId,
        now: Instant,
    ) -> bool {
        let it = self.list.iter_mut().find(|it| it.is_attempted(attempt));
        it.map(|it| it.established(session, now)).is_some()
    }

    /// Whether `attempt` was to one of them; it is tried again later.
    pub(crate) fn failed(&mut self, attempt: AttemptId, now: Instant) -> Option<SocketAddr> {
        let it = self.list.iter_mut().find(|it| it.is_attempted(attempt))?;
        it.failed(now);
        Some(it.address())
    }

    /// Whether the session was with one of them; it is connected to again.
    pub(crate) fn closed(&mut self, session: SessionId, now: Instant) -> Option<SocketAddr> {
        let it = self.list.iter_mut().find(|it| it.session() == Some(session))?;
        it.closed(now);
        Some(it.address())
    }

    /// Picks the one to use. Whether that is another one than before.
    pub(crate) fn choose(&mut self, now: Instant) -> bool {
        let present = self.used.filter(|&used| self.list[used].session().is_some());
        let is_settled = |it: &Kept| it.there_since().is_some_and(|at| at + HOLD_DOWN <= now);
        let chosen = match present {
            Some(used) => self.list[..used].iter().position(is_settled).or(Some(used)),
            None => self.list.iter().position(|it| it.session().is_some()),
        };
        std::mem::replace(&mut self.used, chosen) != chosen && chosen.is_some()
    }

    /// The session with the one in use.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.list[self.used?].session()
    }

    /// Whether the session is with one of them.
    pub(crate) fn is_one(&self, session: SessionId) -> bool {
        self.list.iter().any(|it| it.session() == Some(session))
    }

    /// Those that are there, if there is more than one: when the
    /// one in use is lost, another takes its place.
    pub(crate) fn exchangeable(&self) -> Vec<SessionId> {
        let there: Vec<SessionId> = self.list.iter().filter_map(Kept::session).collect();
        if there.len() > 1 { there } else { Vec::new() }
    }

    /// The session of an upstream that is there alone of
    /// several: there is nowhere to go without haste.
    pub(crate) fn alone(&self) -> Option<SessionId> {
        let mut there = self.list.iter().filter_map(Kept::session);
        there.next().filter(|_| there.next().is_none())
    }

    /// How each stands, the preferred one first.
    pub(crate) fn states(&self) -> impl Iterator<Item = UpstreamState> {
        self.list.iter().enumerate().map(|(index, it)| {
            let session = it.session();
            let is_used = self.used == Some(index) && session.is_some();
            UpstreamState { address: it.address(), session, is_used }
        })
    }

    /// When something has to be done.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let used = self.used.unwrap_or(0);
        let due = |(index, it): (usize, &Kept)| {
            let settled = it.there_since().filter(|_| index < used).map(|since| since + HOLD_DOWN);
            it.retry_at().or(settled)
        };
        self.list.iter().enumerate().filter_map(due).min()
    }
}

/// How long a preferred upstream has to be there before it is used again: one
/// that comes and goes moves a site's traffic twice a minute at most, and to wait
/// costs nothing while another one does the work.
pub(crate) const HOLD_DOWN: Duration = Duration::from_secs(30);
