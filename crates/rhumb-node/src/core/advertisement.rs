//! A statement of a node's own, said to its router until that answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_trust::Now;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, Name, PduHeader};

use super::event::Event;
use super::turn::Turn;

/// One statement, and when it is said again.
#[derive(Debug)]
pub(super) struct Advertisement {
    pub(super) tag: u32,
    pub(super) certificate: Arc<Certificate>,
    pdu: Vec<u8>,
    /// When to send it again; `None` once it is answered.
    pub(super) resend_at: Option<Instant>,
    interval: Duration,
    /// When to give up waiting for the answer, while there is no lease to end it.
    pub(super) patience_ends: Instant,
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
        Self {
            tag,
            certificate,
            pdu,
            resend_at: Some(turn.now.instant),
            interval: FIRST_RESEND,
            patience_ends: turn.now.instant + patience,
        }
    }

    /// The PDU, if it is time to send it or to send it again.
    pub(super) fn send(&mut self, now: Instant) -> Option<&[u8]> {
        self.resend_at.filter(|at| *at <= now)?;
        self.resend_at = Some(now + self.interval);
        self.interval = (self.interval * 2).min(LAST_RESEND);
        Some(&self.pdu)
    }

    /// The router does not take by which domain the name is known outside. Whoever joined goes on
    /// all the same, inside; it is said again with the next renewal.
    pub(super) fn refused(&mut self, reason: Reason, turn: &mut Turn<'_>) -> Option<Event> {
        if let Some(wait) = reason.retry_after() {
            let again_at = turn.now.instant + turn.jitter.lengthen(wait.max(FIRST_RESEND));
            self.resend_at = Some(again_at);
            return None;
        }
        // Also when it was taken at first: RIBs have the last word.
        self.resend_at = None;
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
