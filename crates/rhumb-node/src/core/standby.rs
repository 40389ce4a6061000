//! A router to go to when the present one falls silent,
//! found and connected while that is only suspected.
//!
//! 1. The present router leaves a first question unanswered:
//!    [`Standby::suspect`] begins to seek another one.
//! 2. The first finished handshake makes it [`Standby::Ready`]. Nothing is advertised to it. It is
//!    asked to find the ways to whom this node talks with ([`Standby::poll_inquiry`]), so that
//!    neither look-ups nor handshakes are left for later.
//! 3. The present router is lost: [`Membership`](super::membership::Membership) takes the one that
//!    stands by, or goes on with the search where it is.
//! 4. Otherwise it is let go [`KEPT_FOR`] after the last suspicion. So
//!    suspicions cost one handshake in that time at most, and a search in
//!    vain is not repeated for [`SEEK_AGAIN_AFTER`].

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_link::{AttemptId, SessionId};
use rhumb_wire::Name;

use super::event::Disconnection;
use super::search::Search;
use super::seeking::Seeking;
use super::turn::Turn;

/// Who might take over.
#[derive(Debug)]
pub(super) enum Standby {
    /// Nobody, and nobody is sought before the time given.
    Nobody { sought_again_from: Option<Instant> },
    /// Somebody is sought.
    Seeking(Seeking),
    /// This one.
    Ready(Ready),
}

/// A router with which there is a session, and nothing else.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) session: SessionId,
    pub(super) router: Name,
    pub(super) address: SocketAddr,
    let_go_at: Instant,
    /// When this round of inquiries about ways began, and how many there have been.
    inquiring_since: Instant,
    inquiries: usize,
}

impl Standby {
    pub(super) fn nobody() -> Self {
        Self::Nobody { sought_again_from: None }
    }

    /// The present router, at `address`, may be gone.
    pub(super) fn suspect(&mut self, address: SocketAddr, search: &mut Search, now: Instant) {
        match self {
            Self::Nobody { sought_again_from }
                if !search.is_fixed() && sought_again_from.is_none_or(|from| from <= now) =>
            {
                let seeking = Seeking::begin(search, now);
                search.skip(address);
                *self = Self::Seeking(seeking);
            }
            Self::Ready(ready) => ready.suspected(now),
            _ => {}
        }
    }

    /// Seeks on, or lets go.
    pub(super) fn handle_timeout(&mut self, search: &mut Search, turn: &mut Turn<'_>) {
        match self {
            Self::Nobody { .. } => {}
            Self::Seeking(seeking) => {
                if seeking.go_on(search, turn).is_err() {
                    search.end();
                    let from = turn.now.instant + SEEK_AGAIN_AFTER;
                    *self = Self::Nobody { sought_again_from: Some(from) };
                }
            }
            Self::Ready(ready) if ready.let_go_at <= turn.now.instant => self.let_go(search, turn),
            Self::Ready(_) => {}
        }
    }

    /// Somebody on the local network answers.
    pub(super) fn heard_of_another(&mut self, now: Instant) {
        if let Self::Seeking(seeking) = self {
            seeking.heard_of_another(now);
        }
    }

    /// A handshake is finished with somebody who is not the present router. Whether that one stands
    /// by now; otherwise its session is of no use.
    pub(super) fn takes(
        &mut self,
        session: SessionId,
        router: Name,
        address: SocketAddr,
        search: &mut Search,
        now: Instant,
    ) -> bool {
        match self {
            Self::Seeking(seeking) if seeking.tries(address) => {
                if !search.allows(&router) {
                    self.pass_over(
                        address,
                        Disconnection::NotAllowed { address, router },
                        search,
                        now,
                    );
                    return false;
                }
                search.end();
                let let_go_at = now + KEPT_FOR;
                let (inquiring_since, inquiries) = (now, 0);
                let ready =
                    Ready { session, router, address, let_go_at, inquiring_since, inquiries };
                *self = Self::Ready(ready);
                true
            }
            Self::Ready(ready) => ready.session == session,
            _ => false,
        }
    }

    /// An attempt came to nothing.
    pub(super) fn handle_failed(
        &mut self,
        failed: AttemptId,
        address: SocketAddr,
        reason: Disconnection,
        search: &mut Search,
        now: Instant,
    ) {
        if matches!(self, Self::Seeking(seeking) if seeking.made(failed)) {
            self.pass_over(address, reason, search, now);
        }
    }

    /// Whoever is at `address` will not do, or is the present router by another address.
    pub(super) fn pass_over(
        &mut self,
        address: SocketAddr,
        reason: Disconnection,
        search: &mut Search,
        now: Instant,
    ) {
        if let Self::Seeking(seeking) = self
            && seeking.tries(address)
        {
            search.avoid(address, now);
            seeking.pass_over(address, reason, now);
        }
    }

    /// A session ended.
    pub(super) fn handle_closed(&mut self, session: SessionId) {
        if matches!(self, Self::Ready(ready) if ready.session == session) {
            *self = Self::nobody();
        }
    }

    /// There is no use for anybody.
    pub(super) fn let_go(&mut self, search: &mut Search, turn: &mut Turn<'_>) {
        match std::mem::replace(self, Self::nobody()) {
            Self::Nobody { .. } => {}
            Self::Seeking(_) => search.end(),
            Self::Ready(ready) => turn.endpoint.close(ready.session, turn.now.instant),
        }
    }

    /// Takes whoever there is; the search goes on if it is under way.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::nobody())
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// The session on which to ask for ways, when it is time to.
    pub(super) fn poll_inquiry(&mut self, now: Instant) -> Option<SessionId> {
        let Self::Ready(ready) = self else { return None };
        ready.next_inquiry().filter(|at| *at <= now)?;
        ready.inquiries += 1;
        Some(ready.session)
    }

    /// When something has to be done.
    pub(super) fn poll_timeout(&self, search: &Search) -> Option<Instant> {
        match self {
            Self::Nobody { .. } => None,
            Self::Seeking(seeking) => seeking.poll_timeout(search),
            Self::Ready(ready) => {
                [ready.next_inquiry(), Some(ready.let_go_at)].into_iter().flatten().min()
            }
        }
    }
}

impl Ready {
    fn suspected(&mut self, now: Instant) {
        self.let_go_at = now + KEPT_FOR;
        if now >= self.inquiring_since + INQUIRE_AGAIN_AFTER {
            (self.inquiring_since, self.inquiries) = (now, 0);
        }
    }

    fn next_inquiry(&self) -> Option<Instant> {
        Some(self.inquiring_since + *INQUIRIES_AT.get(self.inquiries)?)
    }
}

/// The first inquiry has the router look a way up, a later one has it connect to where the way
/// leads; several, because they get lost, and the router's own RIB may be slow.
const INQUIRIES_AT: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(350),
];
/// On a bad path suspicions follow each other at once, and ways stay known for longer than this.
const INQUIRE_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// A router that leaves one question unanswered, and answers the next, often does so again soon.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Each search asks all of the local network.
const SEEK_AGAIN_AFTER: Duration = Duration::from_secs(10);
