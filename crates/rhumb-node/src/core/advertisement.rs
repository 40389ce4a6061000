//! What is said to a router until that answers: a statement of the node's own, or what it says for
//! a name that it serves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_trust::Now;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, Name, PduHeader};

use super::event::Event;
use super::turn::Turn;

/// A PDU, and when it is sent again.
#[derive(Debug)]
pub(super) struct Repeated {
    pub(super) tag: u32,
    pdu: Vec<u8>,
    /// When to send it again; `None` once it is answered.
    pub(super) resend_at: Option<Instant>,
    interval: Duration,
}

/// One statement, and when it is said again.
#[derive(Debug)]
pub(super) struct Advertisement {
    pub(super) said: Repeated,
    pub(super) certificate: Arc<Certificate>,
    /// When to give up waiting for the answer, while there is no lease to end it.
    pub(super) patience_ends: Instant,
}

impl Repeated {
    /// To be sent at once.
    pub(super) fn new(tag: u32, pdu: Vec<u8>, now: Instant) -> Self {
        Self { tag, pdu, resend_at: Some(now), interval: FIRST_RESEND }
    }

    /// The PDU, if it is time to send it or to send it again.
    pub(super) fn send(&mut self, now: Instant) -> Option<&[u8]> {
        self.resend_at.filter(|at| *at <= now)?;
        self.resend_at = Some(now + self.interval);
        self.interval = (self.interval * 2).min(LAST_RESEND);
        Some(&self.pdu)
    }

    /// It was heard, and is said again until it is answered in full.
    pub(super) fn wait_on(&mut self, now: Instant) {
        self.resend_at = Some(now + self.interval);
    }
}

impl Advertisement {
    /// To be sent at once.
    pub(super) fn new(
        certificate: Arc<Certificate>,
        router: Name,
        patience: Duration,
        turn: &mut Turn<'_>,
    ) -> Self {
        let tag = turn.take_tag();
        let header =
            PduHeader { tag, ..PduHeader::new(Action::Advertise, certificate.issuer, router) };
        let mut pdu = Vec::new();
        let certificates = std::slice::from_ref(&*certificate);
        header.emit(&[], certificates, &mut pdu).expect("invariant: one certificate fits");
        let said = Repeated::new(tag, pdu, turn.now.instant);
        Self { said, certificate, patience_ends: turn.now.instant + patience }
    }

    /// The router does not take by which domain the name is known outside. Whoever joined goes on
    /// all the same, inside; it is said again with the next renewal.
    pub(super) fn refused(&mut self, reason: Reason, turn: &mut Turn<'_>) -> Option<Event> {
        if let Some(wait) = reason.retry_after() {
            let again_at = turn.now.instant + turn.jitter.lengthen(wait.max(FIRST_RESEND));
            self.said.resend_at = Some(again_at);
            return None;
        }
        // Also when it was taken at first: RIBs have the last word.
        self.said.resend_at = None;
        Some(Event::NotExported { reason })
    }
}

/// Whether less than half of a word's time is over.
pub(super) fn is_fresh(word: &Certificate, now: Now) -> bool {
    let half_s = word.not_after_s.saturating_sub(word.not_before_s) / 2;
    (word.not_before_s..word.not_after_s - half_s).contains(&now.unix_s())
}

/// An Accept takes a round trip and a verification; the RIB may be slow.
pub(super) const FIRST_RESEND: Duration = Duration::from_millis(500);
pub(super) const LAST_RESEND: Duration = Duration::from_secs(2);
