//! Statements to keep published: every RIB is to have them, and
//! they count as published when the first one does.
//!
//! 1. A publication goes to all RIBs that are ready, and to the others when they are.
//! 2. It is repeated at each until that one has stored it, or refuses it for good.
//! 3. It ends when all have, when a newer one of the same issuer and kind
//!    takes its place, or with its certificates.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_wire::rib::{Refusal, RequestId, RibRequestBody};
use rhumb_wire::{Certificate, Metadata, Name, Statement};

pub(super) struct Publications {
    /// In an order, so that a world of one seed lives one life.
    by_slot: BTreeMap<Slot, Publication>,
    bound: usize,
    /// What RIBs are to be sent when there is time: after they
    /// became ready. Each slot once per RIB at most.
    backlog: VecDeque<(usize, Slot)>,
    backlog_due: Option<Instant>,
}

/// Statements of one slot that all RIBs are to hold.
struct Publication {
    metadata: Arc<Metadata>,
    certificates: Vec<Certificate>,
    /// When the certificates end.
    until: Instant,
    /// Requests from this one on are about it, earlier ones about what it took the place of.
    first_id: RequestId,
    /// How far each RIB is.
    at: Vec<Progress>,
    is_stored: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not sent: the RIB is not ready.
    Due,
    Sent {
        tries: u32,
        again_at: Instant,
    },
    /// Refused, but perhaps not for ever.
    Postponed {
        tries: u32,
        again_at: Instant,
    },
    Stored,
    Refused,
}

/// What one publication is of: the next one of the same slot takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Who says it.
    pub issuer: Name,
    /// What is said.
    pub kind: Kind,
}

/// What issuers say, as far as one does not take another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Which way the issuer is reached, by a route or a server, or that it is not any more.
    Way,
    /// Where it is.
    Locator,
    /// By which domain it is known outside.
    Export,
    /// One way of several: by this router or server.
    OneOf(Name),
}

impl Slot {
    /// Where a statement belongs.
    pub fn of(certificate: &Certificate) -> Self {
        let kind = match certificate.statement {
            Statement::Locator(_) => Kind::Locator,
            statement if statement.exports_by().is_some() => Kind::Export,
            statement if statement.is_one_of_several() => {
                statement.hands_on_to().map_or(Kind::Way, Kind::OneOf)
            }
            _ => Kind::Way,
        };
        Self { issuer: certificate.issuer, kind }
    }
}

/// What an answer means to whoever publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The first RIB has stored it.
    Published,
    /// Every RIB that can be asked refuses it.
    Refused(Refusal),
    /// Nothing new.
    GoesOn,
}

impl Publications {
    /// Those of at most `bound` issuers.
    pub(super) fn new(bound: usize) -> Self {
        let (by_slot, backlog) = (BTreeMap::new(), VecDeque::new());
        Self { by_slot, bound, backlog, backlog_due: None }
    }

    /// Whether statements of `issuer` can be taken: in place of its earlier ones always.
    pub(super) fn has_room(&self, issuer: &Name) -> bool {
        let of_issuer = |kind| Slot { issuer: *issuer, kind };
        let last = Kind::OneOf(Name([0xFF; Name::LEN]));
        let mut known = self.by_slot.range(of_issuer(Kind::Way)..=of_issuer(last));
        self.by_slot.len() < self.bound || known.next().is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.by_slot.len()
    }

    pub(super) fn insert(
        &mut self,
        slot: Slot,
        metadata: Arc<Metadata>,
        certificates: Vec<Certificate>,
        until: Instant,
        first_id: RequestId,
        replicas: usize,
    ) {
        let at = vec![Progress::Due; replicas];
        let fresh = Publication { metadata, certificates, until, first_id, at, is_stored: false };
        self.by_slot.insert(slot, fresh);
    }

    /// A RIB has lost the statements of a slot that are stored everywhere: `stored` says which.
    /// What is still on its way goes there as it is.
    pub(super) fn lost(
        &mut self,
        slot: Slot,
        (replica, replicas): (usize, usize),
        first_id: RequestId,
        stored: impl FnOnce() -> (Arc<Metadata>, Vec<Certificate>, Instant),
    ) {
        let publication = self.by_slot.entry(slot).or_insert_with(|| {
            let (metadata, certificates, until) = stored();
            let at = vec![Progress::Stored; replicas];
            Publication { metadata, certificates, until, first_id, at, is_stored: true }
        });
        publication.at[replica] = Progress::Due;
    }

    /// A RIB is ready: whatever it does not have goes there, some at a time.
    pub(super) fn replica_ready(&mut self, replica: usize, now: Instant) {
        // What is left from the last time that it was
        // ready would be sent twice, and more each time.
        self.backlog.retain(|(behind, _)| *behind != replica);
        for (slot, publication) in &mut self.by_slot {
            let progress = &mut publication.at[replica];
            if !matches!(progress, Progress::Stored | Progress::Refused) {
                *progress = Progress::Due;
                self.backlog.push_back((replica, *slot));
            }
        }
        if !self.backlog.is_empty() {
            self.backlog_due = Some(now);
        }
    }

    /// The next that is to be sent from the backlog, to whom.
    pub(super) fn take_backlog(&mut self, now: Instant) -> Vec<(usize, Slot)> {
        if self.backlog_due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let taken: Vec<_> = self.backlog.drain(..self.backlog.len().min(BACKLOG_BURST)).collect();
        self.backlog_due = (!self.backlog.is_empty()).then_some(now + BACKLOG_INTERVAL);
        taken
    }

    pub(super) fn backlog_due(&self) -> Option<Instant> {
        self.backlog_due
    }

    /// What to send of `slot` to a RIB now; none when that one has it, or it has ended.
    pub(super) fn send(
        &mut self,
        slot: &Slot,
        replica: usize,
        now: Instant,
    ) -> Option<RibRequestBody> {
        let publication = self.by_slot.get_mut(slot).filter(|p| p.until > now)?;
        let tries = match publication.at[replica] {
            Progress::Due => 0,
            Progress::Sent { tries, .. } | Progress::Postponed { tries, .. } => tries,
            Progress::Stored | Progress::Refused => return None,
        };
        let again_at = now + REPEAT_AFTER * 2u32.pow(tries.min(MAX_DOUBLINGS));
        publication.at[replica] = Progress::Sent { tries: tries + 1, again_at };
        Some(RibRequestBody::Publish {
            metadata: vec![(*publication.metadata).clone()],
            certificates: publication.certificates.clone(),
        })
    }

    /// The RIBs at which it is time to repeat a publication. It is dropped when it has ended.
    pub(super) fn repeats(&mut self, slot: &Slot, now: Instant) -> Vec<usize> {
        let Some(publication) = self.by_slot.get(slot) else { return Vec::new() };
        if publication.until <= now {
            self.by_slot.remove(slot);
            return Vec::new();
        }
        let is_due = |progress: &Progress| progress.again_at().is_some_and(|at| at <= now);
        publication.at.iter().enumerate().filter(|(_, p)| is_due(p)).map(|(i, _)| i).collect()
    }

    /// A RIB cannot be reached: it is sent what it lacks when it is ready again.
    pub(super) fn wait_for(&mut self, slot: &Slot, replica: usize) {
        if let Some(publication) = self.by_slot.get_mut(slot) {
            publication.at[replica] = Progress::Due;
        }
    }

    /// When a publication is to be looked at again.
    pub(super) fn due(&self, slot: &Slot) -> Option<Instant> {
        let publication = self.by_slot.get(slot)?;
        publication.at.iter().filter_map(Progress::again_at).chain([publication.until]).min()
    }

    /// A RIB answered request `id`. `is_ready` says of a RIB whether it can be asked.
    pub(super) fn answered(
        &mut self,
        slot: &Slot,
        (replica, id): (usize, RequestId),
        answer: Result<(), Refusal>,
        now: Instant,
        is_ready: impl Fn(usize) -> bool,
    ) -> PublishOutcome {
        let Some(publication) = self.by_slot.get_mut(slot) else {
            return PublishOutcome::GoesOn;
        };
        let Progress::Sent { tries, .. } = publication.at[replica] else {
            return PublishOutcome::GoesOn;
        };
        if id.0.wrapping_sub(publication.first_id.0) > u32::MAX / 2 {
            return PublishOutcome::GoesOn;
        }
        publication.at[replica] = match answer {
            Ok(()) => Progress::Stored,
            Err(Refusal::StoreFailed | Refusal::QuotaExceeded | Refusal::Overloaded) => {
                let again_at = now + POSTPONE_FOR * 2u32.pow(tries.min(MAX_DOUBLINGS));
                Progress::Postponed { tries, again_at }
            }
            Err(_) => Progress::Refused,
        };
        let outcome = match answer {
            Ok(()) if !std::mem::replace(&mut publication.is_stored, true) => {
                PublishOutcome::Published
            }
            Err(refusal) if !publication.is_stored && publication.is_refused(is_ready) => {
                PublishOutcome::Refused(refusal)
            }
            _ => PublishOutcome::GoesOn,
        };
        let is_over = matches!(outcome, PublishOutcome::Refused(_)) || publication.is_over();
        if is_over {
            self.by_slot.remove(slot);
        }
        outcome
    }
}

impl Publication {
    /// Whether no RIB that can be asked may still store it.
    fn is_refused(&self, is_ready: impl Fn(usize) -> bool) -> bool {
        self.at.iter().enumerate().all(|(replica, progress)| match progress {
            Progress::Due | Progress::Sent { .. } => !is_ready(replica),
            _ => true,
        })
    }

    fn is_over(&self) -> bool {
        self.at.iter().all(|progress| matches!(progress, Progress::Stored | Progress::Refused))
    }
}

impl Progress {
    fn again_at(&self) -> Option<Instant> {
        match self {
            Self::Sent { again_at, .. } | Self::Postponed { again_at, .. } => Some(*again_at),
            _ => None,
        }
    }
}

/// Ten times a busy local RIB's answer; doubled per try.
const REPEAT_AFTER: Duration = Duration::from_millis(200);
/// A store that is full or failed is not better in a moment.
const POSTPONE_FOR: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 3;
/// With [`BACKLOG_INTERVAL`] 6,400 a second: half of what a RIB takes.
const BACKLOG_BURST: usize = 64;
const BACKLOG_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::{PublicKey, Role};

    fn name(number: u8) -> Name {
        Name([number; 32])
    }

    fn way(issuer: Name) -> Slot {
        Slot { issuer, kind: Kind::Way }
    }

    fn insert(publications: &mut Publications, issuer: Name, until: Instant) {
        let metadata = Metadata::new(Role::Node, PublicKey::Ed25519([1; 32]), 0);
        publications.insert(way(issuer), metadata.into(), Vec::new(), until, RequestId(0), 2);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn the_bound_holds_from_both_sides_and_room_comes_back() {
        let now = Instant::now();
        let until = now + Duration::from_secs(600);
        let mut publications = Publications::new(3);
        for number in 0..3 {
            assert!(publications.has_room(&name(number)));
            insert(&mut publications, name(number), until);
        }
        assert!(!publications.has_room(&name(3)));
        assert!(publications.has_room(&name(2)), "a renewal takes no more room");
        // A RIB that comes and goes does not let the backlog grow.
        for _ in 0..100 {
            publications.replica_ready(0, now);
            publications.replica_ready(1, now);
        }
        assert_eq!(publications.backlog.len(), 6);
        // What all have, or what has ended, makes room.
        for replica in 0..2 {
            assert!(publications.send(&way(name(0)), replica, now).is_some());
            publications.answered(&way(name(0)), (replica, RequestId(0)), Ok(()), now, |_| true);
        }
        assert!(publications.has_room(&name(3)));
        insert(&mut publications, name(3), until);
        assert!(!publications.has_room(&name(4)));
        assert!(publications.repeats(&way(name(1)), until).is_empty());
        assert!(publications.has_room(&name(4)));
    }
}
