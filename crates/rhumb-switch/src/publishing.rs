//! What this router says, and has RIBs keep: where it is, which routers carry for it, and the words
//! of those that are attached to it.
//!
//! 1. Its own statements are made anew at half-life, and at once when another upstream is in use or
//!    a RIB shows that it refuses them.
//! 2. A name that was attached is published; its holder is told when a RIB has its word durably.
//! 3. What a RIB has lost is published again as it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_directory::{PublishOutcome, Slot, Table, until};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, Identity, Now, Verified, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::rib::{Refusal, RequestId, RibResponseBody};
use rhumb_wire::{Action, Certificate, Metadata, Name, PduHeader, Scope, Statement};

use crate::config::Config;
use crate::event::Event;
use crate::job::HeldPdu;
use crate::routes::Attached;
use crate::{DropReason, Switch};

/// Our word, and what RIBs are asked to keep.
pub(crate) struct Publishing {
    identity: Arc<Identity>,
    /// Where others reach this router, if they do directly.
    locator: Option<Locator>,
    lease_s: u64,
    /// Our own certificates for the routers we hand traffic to.
    delegations: Table<Name, Certificate>,
    own_due: Instant,
    /// What was published last of ourselves.
    own: Option<Certificate>,
    last_sequence: u64,
    /// Who waits to hear that a name is published: session and tag of the
    /// advertisement. One that is forgotten hears it when it advertises again, as is
    /// the way with a name that is not published.
    awaiting: Table<Slot, (SessionId, u32)>,
    /// Servers that wait for a RIB's word on whether they may take the place of newer ones.
    standing_by: Table<Name, (HeldPdu, Verified<Chain>)>,
}

impl Publishing {
    pub(crate) fn new(identity: Arc<Identity>, config: &Config, now: Instant) -> Self {
        Self {
            identity,
            locator: config.locator.and_then(Locator::new),
            lease_s: config.lease_s,
            delegations: Table::new(MAX_DELEGATIONS),
            own_due: now,
            own: None,
            last_sequence: 0,
            awaiting: Table::new(config.max_publications),
            standing_by: Table::new(MAX_STANDING_BY),
        }
    }

    /// Of this router.
    pub(crate) fn name(&self) -> Name {
        self.identity.name()
    }

    /// Of this router.
    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        self.identity.metadata()
    }

    /// What was published last of ourselves.
    pub(crate) fn own_statement(&self) -> Option<&Certificate> {
        self.own.as_ref()
    }

    /// When our own statements are to be made anew.
    pub(crate) fn own_due(&self) -> Instant {
        self.own_due
    }

    /// Our own statements are to be made anew when it is asked for next.
    pub(crate) fn hasten_own(&mut self, now: Instant) {
        self.own_due = now;
    }

    /// Our own certificate for the router we hand traffic to, renewed at half-life.
    pub(crate) fn delegation_to(&mut self, router: Name, now: Now) -> Option<Certificate> {
        let fresh = |c: &&mut Certificate| c.not_after_s > now.unix_s() + self.lease_s / 2;
        if let Some(certificate) = self.delegations.get(&router).filter(fresh) {
            return Some(certificate.clone());
        }
        let statement = Statement::Route { via: router, scope: Scope::Any };
        let certificate = self.certify(statement, now)?;
        self.delegations.insert(router, certificate.clone());
        Some(certificate)
    }

    /// Whether traffic was handed to a router lately.
    pub(crate) fn has_delegated_to(&self, router: &Name) -> bool {
        self.delegations.peek(router).is_some()
    }

    pub(crate) fn delegations(&self) -> impl Iterator<Item = &Certificate> {
        self.delegations.iter().map(|(_, certificate)| certificate)
    }

    /// Somebody waits to hear that what it said is published.
    pub(crate) fn await_publication(&mut self, slot: Slot, session: SessionId, tag: u32) {
        self.awaiting.insert(slot, (session, tag));
    }

    /// A server waits for a RIB's word on whether it may take the place of a newer one.
    pub(crate) fn stand_by(&mut self, request: HeldPdu, chain: Verified<Chain>, tag: u32) {
        let name = chain.origin();
        self.await_publication(Slot::of(&chain.certificates()[0]), request.session, tag);
        self.standing_by.insert(name, (request, chain));
    }

    /// The server that may take the place of a newer one now.
    pub(crate) fn take_standing_by(&mut self, name: &Name) -> Option<(HeldPdu, Verified<Chain>)> {
        let standing_by = self.standing_by.remove(name)?;
        self.awaiting.remove(&Slot::of(&standing_by.1.certificates()[0]));
        Some(standing_by)
    }

    fn certify(&mut self, statement: Statement, now: Now) -> Option<Certificate> {
        // No statement of ours had this number before: the clock in milliseconds, or one more.
        self.last_sequence = now.unix_ms.max(self.last_sequence.saturating_add(1));
        let window = Window::starting(now.unix_s(), self.lease_s);
        self.identity.certify(statement, self.last_sequence, window).ok()
    }

    /// Where this router is, said anew; `upstream` is the one in use.
    fn certify_own(&mut self, upstream: Option<Name>, now: Now) -> Option<Certificate> {
        self.own_due = now.instant + Duration::from_secs(self.lease_s.max(2)) / 2;
        let statement = match (self.locator, upstream) {
            (Some(locator), _) => Statement::Locator(locator),
            (None, Some(via)) => Statement::Route { via, scope: Scope::Any },
            (None, None) => return None,
        };
        let certificate = self.certify(statement, now)?;
        self.own = Some(certificate.clone());
        Some(certificate)
    }

    /// Our own statement was refused. Where an earlier run of ours had a clock ahead of this one's,
    /// and the RIB shows what it said, the next one goes on from there: at once, because each time
    /// is after one more statement that we signed.
    fn own_refused(&mut self, newer: Option<&Certificate>, now: Instant) {
        self.own_due = match newer {
            Some(newer)
                if newer.sequence > self.last_sequence && self.identity.has_signed(newer) =>
            {
                self.last_sequence = newer.sequence;
                now
            }
            _ => now + RETRY_OWN_STATEMENTS,
        };
    }
}

// Publications.
impl Switch {
    /// Publishes where this router is, again at half-life.
    pub(crate) fn renew_own_statements(&mut self, now: Now) {
        if self.publishing.own_due > now.instant {
            return;
        }
        let upstream = self.peering.upstream().and_then(|session| self.plane.peer(session));
        let upstream = upstream.map(|peer| peer.name);
        if let Some(certificate) = self.publishing.certify_own(upstream, now) {
            let metadata = self.publishing.metadata().clone();
            self.publish(metadata, vec![certificate], now);
        }
        // Each for itself: another border may have a newer word of the domain's for the domain
        // around, by which this one's is superseded.
        let words = self.transit.place().map_or(Vec::new(), |place| place.words(now.unix_s()));
        for (metadata, word) in words {
            self.publish(metadata, vec![word], now);
        }
    }

    /// Keeps statements of one issuer published at every RIB until the first of them ends.
    pub(crate) fn publish(
        &mut self,
        metadata: Arc<Metadata>,
        certificates: Vec<Certificate>,
        now: Now,
    ) {
        let end = until(certificates.iter().map(|it| it.not_after_s).min().unwrap_or(0), now);
        self.directory.publish(metadata, certificates, end, now.instant);
    }

    pub(crate) fn handle_published(
        &mut self,
        slot: Slot,
        request: (usize, RequestId),
        body: &RibResponseBody,
        now: Now,
    ) {
        let (answer, newer) = match body {
            RibResponseBody::Stored => (Ok(()), None),
            RibResponseBody::Refused(refusal) => (Err(*refusal), None),
            RibResponseBody::Superseded(newer) => (Err(Refusal::Superseded), Some(newer)),
            _ => return self.plane.drop_pdu(DropReason::UnexpectedRibAnswer),
        };
        match self.directory.published(slot, request, answer, now.instant) {
            PublishOutcome::Published => self.published(slot, now),
            PublishOutcome::Refused(refusal) => self.publish_refused(slot, refusal, newer, now),
            PublishOutcome::GoesOn => {}
        }
    }

    fn published(&mut self, slot: Slot, now: Now) {
        let issuer = slot.issuer;
        // Who publishes is told of changes too.
        self.directory.note_watched(issuer);
        self.plane.tell(Event::Published { name: issuer });
        self.stand_in(issuer, now);
        let mut until_s = now.unix_s();
        let is_it = |attached: &Attached| attached.certificates.first().map(Slot::of) == Some(slot);
        if let Some(attached) = self.routes.attached_mut(&issuer, is_it) {
            attached.published = true;
            until_s = attached.until_s;
        }
        if let Some((session, tag)) = self.publishing.awaiting.remove(&slot) {
            self.accept(session, issuer, until_s, tag, true, now);
        }
    }

    /// A RIB with another store than before has perhaps lost what was stored there. Own statements
    /// are made anew, those of others published again as they are.
    pub(crate) fn handle_store(&mut self, replica: usize, body: &RibResponseBody, now: Now) {
        let store = match body {
            RibResponseBody::Store(store) => Some(*store),
            _ => None,
        };
        if self.directory.store_told(replica, store) {
            let attached = self.routes.attached().filter(|(_, attached)| attached.published);
            let names = attached.map(|(name, _)| *name).collect();
            self.directory.publish_anew(replica, names, now.instant);
            self.publishing.own_due = now.instant;
        }
    }

    /// Publishes some of what a RIB has lost.
    pub(crate) fn publish_behind(&mut self, now: Now) {
        for (replica, name) in self.directory.take_behind(now.instant) {
            // Whose metadata are forgotten is published again with its next renewal.
            let Some(metadata) = self.metadata_of(&name) else { continue };
            for words in self.routes.attached_as(&name).map(Attached::words) {
                let Some(end_s) = words.iter().map(|it| it.not_after_s).min() else { continue };
                let (metadata, end) = (metadata.clone(), until(end_s, now));
                self.directory.publish_at(replica, metadata, words, end, now.instant);
            }
        }
    }

    fn publish_refused(
        &mut self,
        slot: Slot,
        refusal: Refusal,
        newer: Option<&Certificate>,
        now: Now,
    ) {
        let issuer = slot.issuer;
        if self.is_said_already(newer) {
            return;
        }
        self.plane.tell(Event::PublishRefused { name: issuer, refusal });
        self.publishing.standing_by.remove(&issuer);
        let is_of_clocks = matches!(refusal, Refusal::Expired | Refusal::NotYetValid);
        if issuer == self.name() {
            if is_of_clocks {
                // Its denial tells its time.
                self.directory.look_up_route(NOBODY, now.instant);
            }
            return self.publishing.own_refused(newer, now.instant);
        }
        if is_of_clocks {
            // By our clock it holds: the RIB's is wrong, or ours. Whoever advertised
            // goes on advertising, as is the way with a name that is not published,
            // and keeps what we can do for it meanwhile.
            return;
        }
        if let Some((session, tag)) = self.publishing.awaiting.remove(&slot) {
            self.routes.detach_all_but(&issuer, |attached| attached.session != session);
            self.admission.end_grant(issuer, session);
            let about = PduHeader { tag, ..PduHeader::new(Action::Advertise, issuer, self.name()) };
            if let Some(newer) = newer.filter(|newer| newer.issuer == issuer) {
                // Its holder can tell whether that is true, and go on from there.
                return self.nack_superseded(session, about, newer, now);
            }
            let reason = match refusal {
                Refusal::QuotaExceeded | Refusal::StoreFailed | Refusal::Overloaded => {
                    Reason::Overloaded(RETRY_PUBLICATION_MS)
                }
                Refusal::Superseded => Reason::Superseded,
                Refusal::NotAuthorised => Reason::NotAuthorised,
                _ => Reason::BadCertificate,
            };
            self.send_nack(session, about, Nack { reason, reporter: Some(self.name()) }, now);
        }
    }
}

/// The hash of nothing that anybody knows.
const NOBODY: Name = Name([0; 32]);
const RETRY_OWN_STATEMENTS: Duration = Duration::from_secs(1);
const RETRY_PUBLICATION_MS: u16 = 1000;
/// Routers that traffic was handed to lately. One that was forgotten costs a signature when it is
/// used again, and that the chains of its traffic are presented once more.
const MAX_DELEGATIONS: usize = 4096;
/// Each waits for one answer of a RIB; who is pushed out advertises again.
const MAX_STANDING_BY: usize = 1024;
