//! How members of trust domains are held to what their domains leave them: their names when they
//! are attached, what they send when it goes on, and to whom when a flow is made.
//!
//! Flows of sessions that have a rate are marked ([`Ready::Metered`](crate::flows::Ready)), so that
//! the path of a known flow leaves them to the slow path, and looks at nothing that it did not look
//! at before. Only the switch itself has accounts: its other workers get no copy of such flows.

use rhumb_directory::Question;
use rhumb_link::SessionId;
use rhumb_trust::{Membership, Missing, Now};
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::{LabelledHeader, LabelledPdu};
use rhumb_wire::{Certificate, Limits, Name, Pdu};

use crate::event::Event;
use crate::limits::{Bounds, Exhausted};
use crate::next_hop::Stop;
use crate::routes::Found;
use crate::status::Wanted;
use crate::{DropReason, Switch};

// Which bounds hold.
impl Switch {
    /// What the peer of a session may have, by the membership that it shows now.
    pub(crate) fn bounds_of(&self, session: SessionId, now: Now) -> Option<Box<Bounds>> {
        let peer = self.plane.peer(session)?;
        let membership = peer.membership.as_deref()?;
        // One that begins later is held to its limits before it gives anything.
        let holds = membership.member() == peer.name
            && membership.is_signed()
            && !membership.has_ended(now.unix_s())
            && self.removals().against(membership).is_none();
        if !holds || membership.shares().all(|(_, limits)| limits == Limits::NONE) {
            return None;
        }
        let bind = |limits: &Limits| limits.names > 0 || limits.kbit_per_s > 0;
        let Limits { inside_only, only_to, .. } = membership.limits();
        Some(Box::new(Bounds {
            domain: membership.domain(),
            shares: membership.shares().filter(|(_, limits)| bind(limits)).collect(),
            only_to,
            levels: inside_only.then(|| self.levels_inside(membership)),
        }))
    }

    /// Of how many domains, our own first, everything is inside of a member's.
    fn levels_inside(&self, membership: &Membership) -> u8 {
        let domain = membership.nearest_domain();
        match self.transit.place() {
            Some(place) => place.levels_within(&domain),
            // Which of several domains we are in is not known here.
            None => u8::from(domain == membership.domain()),
        }
    }

    /// Looks again at what the peer of a session may have: it shows another membership, or that has
    /// ended. What it has attached too much is detached, and its flows are looked into again.
    pub(crate) fn bound_anew(&mut self, session: SessionId, now: Now) {
        let bounds = self.bounds_of(session, now);
        if !self.admission.bind(session, bounds, now.instant) {
            return;
        }
        if let Some(peer) = self.plane.peer(session).map(|peer| peer.name) {
            self.routes.changed(&peer);
        }
        self.forget_detached(session, now);
        while let Some(exhausted) = self.admission.without_room(session, None, 0) {
            let Some(name) = self.neighbour(session, now).attached.pop() else { return };
            let left = self.neighbour(session, now).attached.len();
            self.count_attached(session, left + 1, now);
            if self.routes.attached_on(&name, session).is_some() {
                self.routes.detach_all_but(&name, |attached| attached.session != session);
                self.plane.tell(Event::Left { name });
                self.note_exhausted(session, Wanted::Join, names_missing(&exhausted), now);
            }
        }
    }

    fn note_exhausted(&mut self, session: SessionId, wanted: Wanted, missing: Missing, now: Now) {
        if let Some(peer) = self.plane.peer(session) {
            self.admission.note_limited(&peer.name, wanted, missing, now);
        }
    }
}

// Names.
impl Switch {
    /// Whether the domain of a session's peer leaves it room for a name, by its holder's own word.
    /// One that another session has attached, which counts on the same accounts, moves, unless it
    /// is attached by several. If there is no room, that is noted.
    pub(crate) fn may_have_name(
        &mut self,
        session: SessionId,
        own: &Certificate,
        now: Now,
    ) -> bool {
        let moves = !own.statement.is_one_of_several();
        let elsewhere = self.routes.attached_as(&own.issuer).next();
        let elsewhere = elsewhere.filter(|_| moves).map(|attached| attached.session);
        let Some(full) = self.admission.without_room(session, elsewhere, 1) else { return true };
        // Perhaps names count there that have left.
        if self.admission.may_look(&full.giver, now.instant) {
            for other in self.admission.sessions_on(&full.giver) {
                self.forget_detached(other, now);
            }
        }
        let Some(full) = self.admission.without_room(session, elsewhere, 1) else { return true };
        self.note_exhausted(session, Wanted::Join, names_missing(&full), now);
        false
    }

    /// Names that a session attached and that are not attached by it any more count no longer.
    pub(crate) fn forget_detached(&mut self, session: SessionId, now: Now) {
        let mut attached = std::mem::take(&mut self.neighbour(session, now).attached);
        let before = attached.len();
        attached.retain(|name| self.routes.attached_on(name, session).is_some());
        self.neighbour(session, now).attached = attached;
        self.count_attached(session, before, now);
    }
}

// What is carried.
impl Switch {
    /// Whether a PDU that is to be carried is within the rates of whoever sent it.
    pub(crate) fn may_carry(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        let Err(full) = self.carry(from, pdu.as_bytes().len(), now) else { return true };
        let stop = Stop::new(DropReason::RateExceeded, Reason::Overloaded(full.retry_ms));
        self.stop(from, pdu, &stop, now);
        self.note_exhausted(from, Wanted::Send, rate_missing(&full), now);
        false
    }

    /// The same of a labelled PDU that is no NACK.
    pub(crate) fn may_carry_labelled(
        &mut self,
        from: SessionId,
        pdu: &LabelledPdu<'_>,
        now: Now,
    ) -> bool {
        let len = LabelledHeader::LEN + pdu.data().len();
        let Err(full) = self.carry(from, len, now) else { return true };
        self.plane.drop_pdu(DropReason::RateExceeded);
        self.nack_labelled(from, pdu, Reason::Overloaded(full.retry_ms), now);
        self.note_exhausted(from, Wanted::Send, rate_missing(&full), now);
        false
    }

    /// Whether what a session sends counts against a rate.
    pub(crate) fn is_metered(&self, from: SessionId) -> bool {
        let bounds = self.admission.known_neighbour(from).and_then(|it| it.bounds.as_ref());
        bounds.is_some_and(|bounds| bounds.are_metered())
    }

    fn carry(&mut self, from: SessionId, len: usize, now: Now) -> Result<(), Exhausted> {
        self.neighbour(from, now);
        self.admission.carry(from, len, now.instant)
    }
}

// To whom it goes.
impl Switch {
    /// Whether a session may send to a name, wherever that is.
    pub(crate) fn check_only_to(
        &mut self,
        from: SessionId,
        to: &Name,
        now: Now,
    ) -> Result<(), Stop> {
        let bounds = self.neighbour(from, now).bounds.as_deref();
        match bounds.filter(|bounds| !bounds.let_send_to(to)) {
            None => Ok(()),
            Some(Bounds { domain, only_to, .. }) => {
                let missing = Missing::Only { domain: *domain, only_to: only_to.unwrap_or(*to) };
                Err(self.out_of_reach(from, missing, now))
            }
        }
    }

    /// Whether a session may send to what was found so many domains further out.
    pub(crate) fn check_level(&mut self, from: SessionId, level: u8, now: Now) -> Result<(), Stop> {
        let bounds = self.neighbour(from, now).bounds.as_deref();
        match bounds.filter(|bounds| !bounds.reach(level)) {
            None => Ok(()),
            Some(Bounds { domain, .. }) => {
                let missing = Missing::Inside { domain: *domain };
                Err(self.out_of_reach(from, missing, now))
            }
        }
    }

    fn out_of_reach(&mut self, from: SessionId, missing: Missing, now: Now) -> Stop {
        self.note_exhausted(from, Wanted::Send, missing, now);
        Stop::new(DropReason::OutOfReach, self.not_for_it(from))
    }

    /// Whether a session may answer: whoever may not send to a name does not send to it behind an
    /// answer. If not, the answer is dropped.
    pub(crate) fn may_answer(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        if self.neighbour(from, now).bounds.is_none() {
            return true;
        }
        let to = pdu.destination();
        let is_only = self.check_only_to(from, &to, now);
        match is_only.and_then(|()| self.check_level_of(from, to, now)) {
            Ok(()) => self.may_carry(from, pdu, now),
            Err(stop) => {
                self.stop(from, pdu, &stop, now);
                false
            }
        }
    }

    /// Whether a session may send to a name, by where that was found; if that is not known, RIBs
    /// are asked, for the next answer.
    fn check_level_of(&mut self, from: SessionId, to: Name, now: Now) -> Result<(), Stop> {
        let bounds = self.neighbour(from, now).bounds.as_deref();
        if bounds.is_none_or(|bounds| bounds.levels.is_none()) {
            return Ok(());
        }
        let level = match self.routes.find(&to, now.instant) {
            Found::Attached { .. } | Found::AttachedBySeveral(_) => 0,
            Found::Way(way) => way.level,
            Found::AbsentUntil(_) => u8::MAX,
            Found::Unknown => {
                self.ask(from, Question::Route(to), now);
                self.flush_requests(now);
                let reason = Reason::NotYet(self.look_up_takes_ms());
                return Err(Stop::new(DropReason::RoutePending, reason));
            }
        };
        self.check_level(from, level, now)
    }
}

fn names_missing(full: &Exhausted) -> Missing {
    Missing::Names { giver: full.giver, names: full.limits.names }
}

fn rate_missing(full: &Exhausted) -> Missing {
    Missing::Rate { giver: full.giver, kbit_per_s: full.limits.kbit_per_s }
}
