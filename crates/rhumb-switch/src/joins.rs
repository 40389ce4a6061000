//! How names become parts of groups: what members ask, what is verified of it, what next routers
//! are told, and what they answer. What is said to whom is decided in `groups`.
//!
//! 1. A request comes with the chain of whoever asks, as any PDU, so there is a grant for him.
//! 2. Where is the group? Here is its root, or a next router leads there; while that is not known
//!    he is told to come back, and nothing is kept.
//! 3. Is he a member, with the right that it takes: *join* to receive, *publish* to send? That is
//!    verified off the worker, unless it was before.
//! 4. Next routers are told, with the same membership and his chain grown by our certificate; so
//!    every router of the tree verifies both. He is answered when they have.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rhumb_directory::until;
use rhumb_link::SessionId;
use rhumb_trust::{Membership, Noted, Now, Removal, Verified};
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::group::{GroupAccept, GroupRequest, Part};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Name, Pdu, PduHeader, Rights};

use crate::answer::CHAIN_AHEAD_TAG;
use crate::grants::Grant;
use crate::groups::{Errand, Group, LOOK_EVERY, Member, NextRouters, Shown, Way};
use crate::job::{HeldPdu, Task};
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::next_hop::Stop;
use crate::routes::Found;
use crate::status::{GroupStatus, LISTED};
use crate::{DropReason, Switch};

// What members ask.
impl Switch {
    /// Somebody whose chain is verified wants to be a part of a group.
    pub(crate) fn handle_group_request(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        grant: &Grant,
        now: Now,
    ) -> Result<(), Stop> {
        let malformed = || Stop::new(DropReason::MalformedPdu, Reason::BadCertificate);
        // The others need no grant, and were told apart before.
        let Ok(GroupRequest::Join { part, issuers, certificates }) =
            GroupRequest::parse(pdu.data())
        else {
            return Err(malformed());
        };
        let membership = Membership::from_lists(issuers, certificates).map_err(|_| malformed())?;
        self.join_group((from, pdu), part, membership, grant, now)
    }

    fn join_group(
        &mut self,
        (from, pdu): (SessionId, &Pdu<'_>),
        part: Part,
        membership: Membership,
        grant: &Grant,
        now: Now,
    ) -> Result<(), Stop> {
        let (name, group) = (pdu.source(), pdu.destination());
        let has_ended = membership.not_after_s() < now.unix_s();
        if has_ended
            || !is_let(&membership, name, group, part)
            || self.was_removed(&group, &membership)
        {
            return Err(Stop::new(DropReason::NotAMember, Reason::NotAuthorised));
        }
        let way = self.way_to_group(name, group, from, now)?;
        let known = self.groups.get(&group).and_then(|it| it.member(name, from));
        if let Some(known) = known.filter(|it| *it.membership == membership) {
            let membership = known.membership.clone();
            self.enter_group((group, way), (from, pdu.header()), (part, membership), grant, now);
            return Ok(());
        }
        if self.jobs.is_admitting(name, from) {
            let reason = Reason::NotYet(RETRY_WHEN_BUSY_MS);
            return Err(Stop::new(DropReason::VerificationPending, reason));
        }
        let busy = || Stop::new(DropReason::Overloaded, Reason::Overloaded(RETRY_WHEN_BUSY_MS));
        let has_room = known.is_some()
            || self.groups.has_room(&group, from) && self.has_room_for_name(from, now);
        if !has_room || !self.is_listened_to(from, now) {
            return Err(busy());
        }
        let request = HeldPdu { session: from, pdu: pdu.as_bytes().to_vec() };
        let membership = Box::new(membership);
        match self.queue_job(Some(from), Task::Join { request, membership }, now) {
            true => {
                self.jobs.note_admitting(name, from);
                Ok(())
            }
            false => Err(busy()),
        }
    }

    /// Verdict on a membership.
    pub(crate) fn membership_checked(
        &mut self,
        request: &HeldPdu,
        membership: Membership,
        is_member: bool,
        now: Now,
    ) {
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        let (name, group, from) = (pdu.source(), pdu.destination(), request.session);
        self.jobs.end_admitting(name, from);
        let Ok(GroupRequest::Join { part, .. }) = GroupRequest::parse(pdu.data()) else { return };
        if !is_member || self.was_removed(&group, &membership) {
            if !is_member && !membership.is_signed() {
                self.note_forged(from, now);
            }
            let stop = Stop::new(DropReason::NotAMember, Reason::NotAuthorised);
            return self.stop(from, &pdu, &stop, now);
        }
        // Both were there when it was brought, and may be gone since.
        let Some(grant) = self.grant(name, from, now) else { return };
        match self.way_to_group(name, group, from, now) {
            Ok(way) => {
                let part = (part, Arc::new(membership));
                self.enter_group((group, way), (from, pdu.header()), part, &grant, now);
            }
            Err(stop) => self.stop(from, &pdu, &stop, now),
        }
    }

    /// Somebody is a part of a group from now on, for as long as his membership and his chain hold.
    fn enter_group(
        &mut self,
        (group, way): (Name, Way),
        (from, about): (SessionId, PduHeader),
        (part, membership): (Part, Arc<Membership>),
        grant: &Grant,
        now: Now,
    ) {
        let until_s = membership.not_after_s().min(grant.chain.not_after_s());
        let until = until(until_s, now).min(grant.until);
        let (tag, asked_at) = (about.tag, now.instant);
        let member = Member { part, membership, until, until_s, tag, is_answered: false, asked_at };
        self.groups.enter(group, (about.source, from), member, way);
        self.count_joined(from, self.groups.members_by(from), now);
        self.routes.changed(&group);
        self.settle_group(group, now);
    }

    fn was_removed(&self, group: &Name, membership: &Membership) -> bool {
        let of_group = self.groups.get(group);
        self.removals().against(membership).is_some()
            || of_group.is_some_and(|it| it.removals.are_against(membership))
    }

    /// Where a group is: here, or by which next hop.
    fn way_to_group(
        &mut self,
        name: Name,
        group: Name,
        from: SessionId,
        now: Now,
    ) -> Result<Way, Stop> {
        // Who sends is told from above, too.
        if let Some(known) = self.groups.get(&group).filter(|it| it.upward() == Some(from)) {
            return Ok(known.way.clone());
        }
        if let Found::Way(way) = self.routes.find(&group, now.instant)
            && way.chain.toward_origin(self.name()) == Some(way.chain.holder())
            && way.chain.holder() == group
        {
            return Ok(Way::Here(None));
        }
        let next = self.next_hop((name, group), from, now)?;
        Ok(match next.last {
            true => Way::Here(Some(next.session)),
            false => Way::By(next.session, next.level),
        })
    }
}

// How somebody is a part of a group no longer.
impl Switch {
    /// That takes no chain: who leaves may have withdrawn his before, a removal proves itself.
    pub(crate) fn handle_group_end(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) {
        if GroupRequest::parse(pdu.data()) == Ok(GroupRequest::Leave) {
            return self.leave_group(from, pdu, now);
        }
        if let Err(stop) = self.take_group_removal(from, pdu, now) {
            self.stop(from, pdu, &stop, now);
        }
    }

    /// A session takes back what it brought itself.
    fn leave_group(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) {
        let (name, group) = (pdu.source(), pdu.destination());
        let is_in = self.groups.get(&group).is_some_and(|it| it.member(name, from).is_some());
        self.answer_group((group, name), (from, pdu.tag()), NOTHING, now);
        if is_in {
            self.drop_members(&group, now, |member, session| (*member, session) != (name, from));
            self.settle_group(group, now);
        }
    }

    /// Somebody who is known by his session brings a removal. Where nobody is a part of the group
    /// it is about nobody.
    fn take_group_removal(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> Result<(), Stop> {
        let bad = || Stop::new(DropReason::BadCertificate, Reason::BadCertificate);
        let peer = self.plane.peer(from).map(|peer| peer.name);
        let unknown = Stop::new(DropReason::Unreachable, Reason::Unreachable(RETRY_WHEN_BUSY_MS));
        let group = self.groups.get(&pdu.destination()).ok_or(unknown)?;
        let Ok(GroupRequest::Remove { issuers, certificates }) = GroupRequest::parse(pdu.data())
        else {
            return Err(bad());
        };
        let removal = Removal::from_lists((issuers, certificates)).map_err(|_| bad())?;
        if peer != Some(pdu.source()) || !removal.is_of(&pdu.destination()) {
            return Err(Stop::new(DropReason::NotAuthorised, Reason::NotAuthorised));
        }
        let would = group.removals.would(&removal);
        if would == Noted::Known {
            let names = (pdu.destination(), pdu.source());
            self.answer_group(names, (from, pdu.tag()), NOTHING, now);
            return Ok(());
        }
        let busy = || Stop::new(DropReason::Overloaded, Reason::Overloaded(RETRY_WHEN_BUSY_MS));
        let has_room = would == Noted::New
            && self.groups.have_room_for_removal()
            && self.has_room_for_name(from, now);
        if !has_room || !self.is_listened_to(from, now) {
            return Err(busy());
        }
        let request = HeldPdu { session: from, pdu: pdu.as_bytes().to_vec() };
        let task = Task::Expel { request, removal: Box::new(removal) };
        self.queue_job(Some(from), task, now).then_some(()).ok_or_else(busy)
    }

    /// Verdict on a removal: whoever it counts against is a part of the group no longer.
    pub(crate) fn expelled(
        &mut self,
        request: &HeldPdu,
        removal: Option<Verified<Removal>>,
        now: Now,
    ) {
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        let (group, from) = (pdu.destination(), request.session);
        let Some(removal) = removal else {
            self.note_forged(from, now);
            let stop = Stop::new(DropReason::BadCertificate, Reason::BadCertificate);
            return self.stop(from, &pdu, &stop, now);
        };
        let by = (from, self.charged_for(from, now));
        let Self { groups, plane, .. } = self;
        let Some(entry) = groups.get_mut(&group) else { return };
        let routers = entry.routers(|it| plane.is_router(it));
        let replaced = entry.removals.note(removal.clone(), by, &routers, now.instant);
        let counts = |(name, session, it): (&Name, SessionId, &Member)| {
            removal.counts_against(&it.membership).then_some((*name, session))
        };
        let out: Vec<(Name, SessionId)> = entry.members().filter_map(counts).collect();
        if let Some(replaced) = replaced {
            self.charge_removal(by.1);
            self.discharge_removals(replaced);
        }
        self.put_out(group, (&out, Reason::NotAuthorised), now);
        self.answer_group((group, pdu.source()), (from, pdu.tag()), NOTHING, now);
        self.settle_group(group, now);
    }
}

// What next routers answer.
impl Switch {
    /// A next router has taken somebody for what we said, or forgotten him.
    pub(crate) fn handle_group_accept(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        let (group, member) = (pdu.source(), pdu.destination());
        let Ok(accept) = GroupAccept::parse(pdu.data()) else {
            self.plane.drop_pdu(DropReason::MalformedPdu);
            return None;
        };
        if member == self.name() {
            let entry = self.groups.get_mut(&group);
            if !entry.is_some_and(|it| it.removals.note_known(pdu.tag(), from)) {
                self.plane.drop_pdu(DropReason::UnexpectedAnswer);
            }
            return None;
        }
        let until = until(accept.until_s, now);
        let entry = self.groups.get_mut(&group);
        match entry.map(|it| it.note_answer((member, from), (accept.part, until), now.instant)) {
            Some(true) => self.settle_group(group, now),
            _ => self.plane.drop_pdu(DropReason::UnexpectedAnswer),
        }
        None
    }

    /// Takes a NACK of a next router of a group about somebody it was told of, or about what he
    /// sent. Whether it is one.
    pub(crate) fn take_group_nack(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        let (group, name) = (pdu.source(), pdu.destination());
        let Some(entry) = self.groups.get_mut(&group) else { return false };
        let Ok((nack, _)) = Nack::parse_with_metadata(pdu.data()) else { return false };
        let (is_refused, wait_ms) = match nack.reason {
            Reason::NotYet(ms) | Reason::Overloaded(ms) => (false, ms),
            Reason::Unreachable(ms) => (true, ms),
            Reason::NotAuthorised => (true, REFUSED_FOR_MS),
            _ => (false, RETRY_WHEN_BUSY_MS),
        };
        let is_about_data = pdu.tag() != CHAIN_AHEAD_TAG;
        // What a router does not take of what is sent is not told to its source, who would send it
        // to all again; but it is told how much fits.
        if is_about_data && !matches!(nack.reason, Reason::NotAuthorised | Reason::TooBig(_)) {
            return entry.is_accepted(name, from, now.instant);
        }
        // Members are not told who sends, so none of them says that nothing fits for all.
        if let Reason::TooBig(_) = nack.reason {
            if !entry.is_accepted(name, from, now.instant) {
                return false;
            }
            let ingress =
                entry.members().find(|(member, session, _)| **member == name && *session != from);
            let Some(ingress) = ingress.map(|(_, session, _)| session) else { return true };
            let about = PduHeader { tag: pdu.tag(), ..PduHeader::new(Action::Data, name, group) };
            let reporter = nack.reporter.filter(|_| !self.is_outside(ingress, now));
            self.send_nack(ingress, about, Nack { reporter, ..nack }, now);
            return true;
        }
        let wait_ms = if is_about_data { 0 } else { wait_ms };
        let again_at = now.instant + Duration::from_millis(wait_ms.into());
        if !entry.note_refusal((name, from), (is_refused, again_at), now.instant) {
            return false;
        }
        self.admission.end_acceptance(name, from);
        if is_refused && !is_about_data {
            self.refused_further_on((group, name), from, nack.reason, now);
        }
        self.settle_group(group, now);
        true
    }

    /// A router further on does not let somebody be a part of a group: he is told, unless he has
    /// been answered already.
    fn refused_further_on(
        &mut self,
        (group, name): (Name, Name),
        by: SessionId,
        reason: Reason,
        now: Now,
    ) {
        let Some(entry) = self.groups.get(&group) else { return };
        let waiting = |(member, session, it): (&Name, SessionId, &Member)| {
            (*member == name && session != by && !it.is_answered).then_some((name, session))
        };
        let Some(waiting) = entry.members().find_map(waiting) else { return };
        self.put_out(group, (&[waiting], reason), now);
    }
}

// What is said to whom.
impl Switch {
    /// Looks after the groups that are due.
    pub(crate) fn settle_groups(&mut self, now: Now) {
        for group in self.groups.due(now.instant) {
            self.settle_group(group, now);
        }
    }

    /// A session has ended: what it brought is a part of groups no longer.
    pub(crate) fn forget_in_groups(&mut self, session: SessionId, now: Now) {
        for group in self.groups.forget_session(session, now.instant) {
            self.routes.changed(&group);
            self.settle_group(group, now);
        }
    }

    /// Some are parts of a group no longer, and are told so.
    fn put_out(&mut self, group: Name, (out, reason): (&[(Name, SessionId)], Reason), now: Now) {
        for (name, session) in out {
            let tag = self.groups.get(&group).and_then(|it| Some(it.member(*name, *session)?.tag));
            let Some(tag) = tag else { continue };
            let about = PduHeader { tag, ..PduHeader::new(Action::GroupRequest, *name, group) };
            let nack = Nack { reason, reporter: Some(self.name()) };
            self.send_nack(*session, about, nack, now);
        }
        let out: BTreeSet<(Name, SessionId)> = out.iter().copied().collect();
        self.drop_members(&group, now, |name, session| !out.contains(&(*name, session)));
    }

    fn drop_members(&mut self, group: &Name, now: Now, stays: impl Fn(&Name, SessionId) -> bool) {
        let before = self.groups.get(group).map_or(Vec::new(), |it| it.receivers().to_vec());
        let gone = self.groups.retain(group, now.instant, |name, session, _| stays(name, session));
        if gone.is_empty() {
            return;
        }
        for session in gone {
            self.count_joined(session, self.groups.members_by(session), now);
        }
        if let Some(entry) = self.groups.get_mut(group) {
            entry.wait_for_others(
                before.iter().filter(|it| self.plane.is_router(**it)),
                now.instant,
            );
        }
        self.routes.changed(group);
    }

    /// Brings a group in order: who is a part of it no longer is forgotten, and next routers are
    /// told what they should know.
    fn settle_group(&mut self, group: Name, now: Now) {
        let Some(entry) = self.groups.get(&group) else { return };
        if entry.way_due <= now.instant {
            self.look_after_group(group, now);
        }
        let entry = self.groups.get_mut(&group);
        if entry.is_some_and(|it| it.end_waiting(now.instant)) {
            self.routes.changed(&group);
        }
        let routers = self.next_routers(&group, now);
        let Some(entry) = self.groups.get_mut(&group) else { return };
        for errand in entry.settle(&routers, now.instant) {
            match errand {
                Errand::Tell { to, member, as_what } => {
                    self.tell_member((group, member), to, as_what, now);
                }
                Errand::TellLeft { to, member } => {
                    let (names, about) = ((group, member), (to, CHAIN_AHEAD_TAG));
                    self.send_group_request(names, about, &GroupRequest::Leave, now);
                }
                Errand::TellRemoved { to, number, removal } => {
                    let (issuers, certificates) = removal.lists();
                    let request = GroupRequest::Remove { issuers, certificates };
                    self.send_group_request((group, self.name()), (to, number), &request, now);
                }
                Errand::Answer { member, from } => {
                    let known = self.groups.get(&group).and_then(|it| it.member(member, from));
                    let Some(known) = known else { continue };
                    let accept = GroupAccept { part: Some(known.part), until_s: known.until_s };
                    let about = (from, known.tag);
                    self.answer_group((group, member), about, accept, now);
                }
            }
        }
        self.groups.forget_if_empty(&group);
    }

    fn next_routers(&self, group: &Name, now: Now) -> NextRouters {
        let entry = self.groups.get(group);
        let all = entry.map_or(Vec::new(), |it| it.routers(|it| self.plane.is_router(it)));
        let outside = all.iter().copied().filter(|it| self.is_outside(*it, now)).collect();
        NextRouters { all, outside, domain: self.domain_at_border() }
    }

    /// Looks whether a group is still where it was, and its members are still what they were.
    fn look_after_group(&mut self, group: Name, now: Now) {
        if let Some(entry) = self.groups.get_mut(&group) {
            let over = entry.removals.sweep(now.unix_s());
            self.discharge_removals(over);
        }
        let members: Vec<(Name, SessionId)> = match self.groups.get(&group) {
            Some(entry) => entry.members().map(|(name, from, _)| (*name, from)).collect(),
            None => return,
        };
        let mut over = Vec::new();
        for (name, from) in &members {
            let member = self.groups.get(&group).and_then(|it| it.member(*name, *from)).cloned();
            let Some(member) = member else { continue };
            let holds = member.until > now.instant
                && self.grant(*name, *from, now).is_some()
                && !self.was_removed(&group, &member.membership);
            if !holds {
                over.push((*name, *from));
            }
        }
        self.put_out(group, (&over, Reason::NotAuthorised), now);
        // Whoever leads there himself cannot have it looked up: we would lead back.
        let upward = self.groups.get(&group).and_then(Group::upward);
        let for_whom = members.iter().find(|it| Some(it.1) != upward && !over.contains(it));
        let way = match for_whom {
            Some((name, from)) => self.way_to_group(*name, group, *from, now).ok(),
            None => None,
        };
        if self.groups.note_way(group, way, now.instant) {
            self.routes.changed(&group);
        }
    }

    /// Tells a next router that somebody is a part of a group, with all that shows it.
    fn tell_member(
        &mut self,
        (group, name): (Name, Name),
        to: SessionId,
        Shown { part, by, from }: Shown,
        now: Now,
    ) {
        let known = self.groups.get(&group).and_then(|it| it.member(by, from));
        let Some(membership) = known.and_then(|it| it.membership.of_admitter(&name)) else {
            return;
        };
        let Some(grant) = self.grant(by, from, now) else { return };
        let presented = match name == by {
            true => self.present(&grant, (from, to), (name, group), now),
            false => self.present_domain(name, to, now),
        };
        let (chain, chain_len) = match presented {
            Ok(presented) => presented,
            Err(stop) => return self.not_shown((group, name), to, stop.nack, now),
        };
        self.groups.concern(to, group);
        let mut data = Vec::new();
        let (issuers, certificates) = (membership.issuers(), membership.certificates());
        let (issuers, certificates) = (issuers.to_vec(), certificates.to_vec());
        GroupRequest::Join { part, issuers, certificates }.emit(&mut data);
        let header =
            PduHeader { tag: CHAIN_AHEAD_TAG, ..PduHeader::new(Action::GroupRequest, name, group) };
        let len = PduHeader::LEN + data.len() + chain_len + RECORD_OVERHEAD;
        if self.room_to(to).is_some_and(|room| len <= usize::from(room)) {
            return self.send(to, header, &data, &chain, now);
        }
        let ahead = PduHeader { action: Action::Advertise, ..header };
        self.send(to, ahead, &[], &chain, now);
        self.send(to, header, &data, &[], now);
    }

    /// Somebody cannot be shown to a next router, perhaps because he is not known there.
    fn not_shown(&mut self, (group, name): (Name, Name), to: SessionId, reason: Reason, now: Now) {
        let wait = reason.retry_after().unwrap_or(LOOK_EVERY);
        let is_refused = !matches!(reason, Reason::NotYet(_) | Reason::Overloaded(_));
        let Some(entry) = self.groups.get_mut(&group) else { return };
        entry.note_refusal((name, to), (is_refused, now.instant + wait), now.instant);
        if is_refused {
            self.refused_further_on((group, name), to, reason, now);
        }
    }

    fn send_group_request(
        &mut self,
        (group, source): (Name, Name),
        (to, tag): (SessionId, u32),
        request: &GroupRequest,
        now: Now,
    ) {
        let mut data = Vec::new();
        request.emit(&mut data);
        let header = PduHeader { tag, ..PduHeader::new(Action::GroupRequest, source, group) };
        self.send(to, header, &data, &[], now);
    }

    fn answer_group(
        &mut self,
        (group, name): (Name, Name),
        (to, tag): (SessionId, u32),
        accept: GroupAccept,
        now: Now,
    ) {
        let header = PduHeader { tag, ..PduHeader::new(Action::GroupAccept, group, name) };
        self.send(to, header, &accept.emit(), &[], now);
    }
}

// For whoever runs it.
impl Switch {
    pub(crate) fn group_status(&self) -> Vec<GroupStatus> {
        let peer_name = |session| self.plane.peer(session).map(|peer| peer.name);
        let status = |(name, group): (&Name, &Group)| GroupStatus {
            name: *name,
            members: group.members().count(),
            senders: group.members().filter(|(.., it)| it.part.sends()).count(),
            branches: group.receivers().len(),
            toward_root: group.upward().and_then(peer_name),
            is_root: matches!(group.way, Way::Here(_)),
        };
        let in_use = self.groups.iter().filter(|(_, group)| group.is_in_use());
        let mut all: Vec<GroupStatus> = in_use.map(status).collect();
        all.sort_unstable_by_key(|it| (std::cmp::Reverse(it.members), it.name));
        all.truncate(LISTED);
        all
    }
}

/// Whether a membership lets a name be a part of a group, if it is what it says.
fn is_let(membership: &Membership, name: Name, group: Name, part: Part) -> bool {
    let rights = membership.rights();
    membership.member() == name
        && membership.is_of(&group)
        && (!part.receives() || rights.hold(Rights::JOIN))
        && (!part.sends() || rights.hold(Rights::PUBLISH))
}

/// The answer about whoever is no part of a group any longer.
const NOTHING: GroupAccept = GroupAccept { part: None, until_s: 0 };
/// As long as RIBs' word holds that there is nothing, about.
const REFUSED_FOR_MS: u16 = 1000;
