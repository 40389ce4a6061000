//! Pings under way: each is tried again every second, because
//! pings and pongs get lost, until its time is over.

use std::time::{Duration, Instant};

use rhumb_trust::Now;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Certificate, Metadata, Name, PduHeader};
use tokio::sync::oneshot;

use super::orders::{PingAnswer, PingOrder};
use crate::core::{Core, Evidence};
use crate::{PingError, SendError};

/// The pings under way.
#[derive(Default)]
pub(super) struct Pings {
    waits: Vec<Wait>,
}

struct Wait {
    to: Name,
    ttl: u8,
    /// The tags of all tries.
    tags: Vec<u32>,
    ends_at: Instant,
    next_try: Instant,
    /// The last word of a router, and who it is.
    last_nack: Option<(Reason, Option<Name>)>,
    done: oneshot::Sender<Result<PingAnswer, PingError>>,
}

/// What a router said in the destination's stead.
pub(super) struct PingNack {
    pub(super) reason: Reason,
    pub(super) reporter: Option<Name>,
    pub(super) rtt: Option<Duration>,
    pub(super) retried: bool,
    pub(super) evidence: Option<Box<Evidence>>,
}

impl Pings {
    pub(super) fn begin(&mut self, order: PingOrder, core: &mut Core, now: Now) {
        let PingOrder { to, ttl, timeout, done } = order;
        if self.waits.len() >= MAX_PINGS {
            let _ = done.send(Err(SendError::NoRoom.into()));
            return;
        }
        let mut wait = Wait {
            to,
            ttl,
            tags: Vec::new(),
            ends_at: now.instant + timeout,
            next_try: now.instant,
            last_nack: None,
            done,
        };
        match wait.try_once(core, now) {
            Ok(()) => self.waits.push(wait),
            Err(error) => wait.tell(Err(error.into())),
        }
    }

    pub(super) fn handle_pong(&mut self, tag: u32, rtt: Duration) {
        if let Some(at) = self.position(tag) {
            self.waits.swap_remove(at).tell(Ok(PingAnswer::Pong { rtt }));
        }
    }

    pub(super) fn handle_nack(&mut self, tag: u32, nack: PingNack) {
        let PingNack { reason, reporter, rtt, retried, evidence } = nack;
        let Some(at) = self.position(tag) else { return };
        let wait = &mut self.waits[at];
        wait.last_nack = Some((reason, reporter));
        // Where waiting is the cure, the next try may find it cured, whatever became of this one.
        let waits = matches!(
            reason,
            Reason::NotYet(_)
                | Reason::Overloaded(_)
                | Reason::UnknownFlow
                | Reason::BadCertificate
                | Reason::NotAuthorised
                | Reason::Superseded
                | Reason::Expired
                | Reason::NotYetValid
        );
        if retried || waits {
            return;
        }
        let wait = self.waits.swap_remove(at);
        let answer = match reason {
            Reason::TtlExceeded => Ok(PingAnswer::Expired { reporter, rtt, evidence }),
            _ => Err(wait.verdict()),
        };
        wait.tell(answer);
    }

    /// Tries again what is due, ends what is over or no longer wanted.
    pub(super) fn handle_timeout(&mut self, core: &mut Core, now: Now) {
        let mut at = 0;
        while at < self.waits.len() {
            let wait = &mut self.waits[at];
            if wait.done.is_closed() {
                self.waits.swap_remove(at);
            } else if wait.ends_at <= now.instant {
                let wait = self.waits.swap_remove(at);
                let error = wait.verdict();
                wait.tell(Err(error));
            } else {
                if wait.next_try <= now.instant {
                    // No room now is no reason to give up: the next try may find some.
                    let _ = wait.try_once(core, now);
                }
                at += 1;
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.waits.iter().map(|wait| wait.ends_at.min(wait.next_try)).min()
    }

    fn position(&self, tag: u32) -> Option<usize> {
        self.waits.iter().position(|wait| wait.tags.contains(&tag))
    }
}

impl Wait {
    fn try_once(&mut self, core: &mut Core, now: Now) -> Result<(), SendError> {
        self.next_try = now.instant + TRY_AGAIN_AFTER;
        // A trace's ping leaves the routers room for their evidence, as far as the path does.
        let room = core.max_body_len(self.to, now).min(EVIDENCE_LEN);
        let len = if self.ttl < PduHeader::INITIAL_TTL { room } else { Nack::MAX_LEN };
        let tag = core.ping(self.to, self.ttl, len, now)?;
        self.tags.push(tag);
        Ok(())
    }

    /// Why there is no answer.
    fn verdict(&self) -> PingError {
        match self.last_nack {
            None => PingError::TimedOut,
            Some((Reason::Unreachable(_), reporter)) => PingError::Unreachable { reporter },
            Some((reason, reporter)) => PingError::Refused { reason, reporter },
        }
    }

    fn tell(self, answer: Result<PingAnswer, PingError>) {
        // Whoever asked may have lost interest.
        let _ = self.done.send(answer);
    }
}

/// The largest evidence: a NACK, metadata, a list of one certificate.
const EVIDENCE_LEN: usize = Nack::MAX_LEN + Metadata::MAX_LEN + 1 + Certificate::MAX_LEN;
/// Longer than the round trip of nearly all paths, so that few pings are answered twice.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// They are searched one by one.
const MAX_PINGS: usize = 256;
