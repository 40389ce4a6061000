//! Routers that are being tried, one after the other, as the search finds them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_link::AttemptId;

use super::event::Disconnection;
use super::search::Search;
use super::turn::Turn;
use crate::Remote;

/// A round of the search, and whom it has led to.
#[derive(Debug)]
pub(super) struct Seeking {
    attempts: Vec<Attempt>,
    /// When to try the next one although those before have not
    /// failed yet; `None`: as soon as there is one.
    hold_until: Option<Instant>,
    /// Why the last one that failed did.
    last: Disconnection,
}

#[derive(Debug)]
struct Attempt {
    id: AttemptId,
    address: SocketAddr,
}

impl Seeking {
    /// Begins a round.
    pub(super) fn begin(search: &mut Search, now: Instant) -> Self {
        search.begin(now);
        Self { attempts: Vec::new(), hold_until: None, last: Disconnection::NotFound }
    }

    /// Tries the next router, unless there is none yet, or the one before deserves some patience.
    /// Why the round has failed, when nobody is left.
    pub(super) fn go_on(
        &mut self,
        search: &mut Search,
        turn: &mut Turn<'_>,
    ) -> Result<(), Disconnection> {
        let now = turn.now.instant;
        if self.hold_until.is_some_and(|until| until > now) {
            return Ok(());
        }
        if let Some(Remote { address, name }) = search.next(now) {
            let id = turn.endpoint.connect(address, name, now);
            self.attempts.push(Attempt { id, address });
            self.hold_until = Some(now + TRY_ANOTHER_AFTER).filter(|_| !search.is_fixed());
            return Ok(());
        }
        self.hold_until = None;
        match self.attempts.is_empty() && search.is_exhausted() {
            true => Err(std::mem::replace(&mut self.last, Disconnection::NotFound)),
            false => Ok(()),
        }
    }

    /// Somebody else may be tried now.
    pub(super) fn heard_of_another(&mut self, now: Instant) {
        self.hold_until.get_or_insert(now);
    }

    /// Whoever is at `address` will not do: the next one is tried at once.
    pub(super) fn pass_over(&mut self, address: SocketAddr, reason: Disconnection, now: Instant) {
        self.attempts.retain(|attempt| attempt.address != address);
        self.hold_until = Some(now);
        self.last = reason;
    }

    pub(super) fn made(&self, attempt: AttemptId) -> bool {
        self.attempts.iter().any(|it| it.id == attempt)
    }

    pub(super) fn tries(&self, address: SocketAddr) -> bool {
        self.attempts.iter().any(|it| it.address == address)
    }

    /// When to go on.
    pub(super) fn poll_timeout(&self, search: &Search) -> Option<Instant> {
        [self.hold_until, search.poll_timeout()].into_iter().flatten().min()
    }
}

/// A handshake on a local network takes milliseconds, and under a second to most of the world.
/// Whoever takes longer goes on beside the next one, and the first to finish is joined: so somebody
/// who only pretends to be a router costs this much.
const TRY_ANOTHER_AFTER: Duration = Duration::from_secs(1);
