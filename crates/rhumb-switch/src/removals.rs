//! Who is a member of a domain no longer: what RIBs tell of it, and what it changes here.
//!
//! 1. A switch that judges by memberships asks each of its RIBs for removals, and is told of the
//!    next ones unasked: `directory`.
//! 2. What concerns none of its domains it leaves; what it knows need not be verified again; the
//!    rest is, off the worker.
//! 3. From then on the rules take whoever was removed for no member. Sessions that showed such a
//!    membership end, and with them the grants, labels and flows that were made while it counted:
//!    who is not refused altogether comes again, as a stranger.
//! 4. Removals outlive the process with the routes: [`SavedRoutes`](crate::SavedRoutes).
//!
//! INVARIANT: no RIB can keep from this switch what another one of its RIBs tells, and none can
//! have it shut out anybody but by his own domain's word.

use rhumb_directory::{Answered, Question};
use rhumb_link::SessionId;
use rhumb_trust::{Noted, Now, Removal, Removals, Standing, Verified};
use rhumb_wire::Name;
use rhumb_wire::rib::{Mark, RemovalLists, RequestId};

use crate::domain::Place;
use crate::event::Event;
use crate::job::{HeardRemovals, Task, ToldRemovals};
use crate::status::Wanted;
use crate::{DropReason, Switch};

impl Switch {
    /// Asks RIBs for removals, if rules or this router's place make it judge by memberships.
    pub(crate) fn want_removals(&mut self, now: Now) {
        if self.judges_by().next().is_some() {
            self.directory.want_removals(now.instant);
        }
    }

    /// The domains whose memberships are judged here.
    fn judges_by(&self) -> impl Iterator<Item = Name> {
        let place = self.transit.place().into_iter().flat_map(Place::domains);
        self.admission.access().domains().chain(place)
    }

    pub(crate) fn removals(&self) -> &Removals {
        &self.admission.access().removals
    }

    /// A RIB answers with removals, or tells some unasked.
    pub(crate) fn handle_removals(
        &mut self,
        (from, id): (SessionId, RequestId),
        (to, lists): (Mark, Vec<RemovalLists>),
        now: Now,
    ) {
        let was_asked = self.directory.has_asked_removals(id, from)
            && matches!(
                self.directory.take_answered(id, from, now.instant),
                Answered::Question(Question::Removals(_), _)
            );
        let were_any = !lists.is_empty();
        let all = lists.len();
        let parsed: Vec<Removal> =
            lists.into_iter().filter_map(|lists| Removal::from_lists(lists).ok()).collect();
        let all_are_some = parsed.len() == all;
        let domains: Vec<Name> = self.judges_by().collect();
        let is_news = |removal: &Removal| {
            domains.iter().any(|domain| removal.is_of(domain))
                && self.removals().would(removal) == Noted::New
        };
        let removals: Vec<Removal> = parsed.into_iter().filter(is_news).collect();
        let is_in_hand = match removals.is_empty() {
            true => {
                self.directory.removals_told(from, to, (were_any, all_are_some), now.instant);
                true
            }
            false => {
                let told = ToldRemovals { from, to, removals, all_are_some };
                self.queue_job(Some(from), Task::Removals(told), now)
            }
        };
        // What is not in hand is told again.
        if is_in_hand && !was_asked {
            self.directory.acknowledge(from, id);
        }
        self.flush_requests(now);
    }

    /// Verdict on removals.
    pub(crate) fn removals_verified(&mut self, heard: HeardRemovals, now: Now) {
        let HeardRemovals { from, to, believed, are_all_believed } = heard;
        let mut new = Vec::with_capacity(believed.len());
        for removal in believed {
            if self.removals().note(removal.clone()) == Noted::New {
                new.push(removal);
            }
        }
        let counters = self.plane.counters_mut();
        counters.removals_heard += new.len() as u64;
        counters.rib_answers_refused += u64::from(!are_all_believed);
        self.end_removed(&new, now);
        self.directory.removals_told(from, to, (true, are_all_believed), now.instant);
    }

    /// Ends the sessions of those whose memberships were taken back.
    fn end_removed(&mut self, new: &[Verified<Removal>], now: Now) {
        let was_removed = |peer: &rhumb_link::Peer| {
            let shown = peer.membership.as_deref();
            shown.is_some_and(|shown| new.iter().any(|it| it.counts_against(shown)))
        };
        let sessions = self.plane.link().sessions().filter(|(_, peer)| was_removed(peer));
        let removed: Vec<(SessionId, Name)> =
            sessions.map(|(session, peer)| (session, peer.name)).collect();
        for (session, name) in removed {
            if self.treatment(session, now).standing == Standing::Refused {
                self.note_refused(session, Wanted::Join, now);
            }
            self.plane.counters_mut().members_removed += 1;
            self.plane.tell(Event::Removed { name });
            self.plane.link_mut().close(session, now.instant);
        }
    }

    /// Has removals of an earlier run count again, before anybody can show what they are about.
    pub(crate) fn recall_removals(&mut self, removals: Vec<Removal>, now: Now) {
        let recalled = removals.into_iter().filter_map(|removal| removal.recall().ok());
        let new: Vec<_> = recalled
            .filter(|removal| self.removals().note(removal.clone()) == Noted::New)
            .collect();
        self.end_removed(&new, now);
    }

    /// Forgets removals that have ended; all are asked for again, in case that it is the clock that
    /// is wrong.
    pub(crate) fn sweep_removals(&mut self, now: Now) {
        if !self.removals().sweep(now.unix_s()).is_empty() {
            self.directory.doubt_removals();
        }
    }

    /// Whether removals were heard or have ended shows in this number.
    pub fn removals_revision(&self) -> u64 {
        self.removals().revision()
    }

    /// A RIB refuses to tell of removals.
    pub(crate) fn removals_refused(&mut self, replica: usize, now: Now) {
        self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
        self.directory.removals_refused(replica, now.instant);
    }
}
