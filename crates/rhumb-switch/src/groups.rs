//! Groups: names that many receive what is sent to. What is kept of each here, and what is to be
//! said to whom of it; no more than that, so that it can be tried by itself.
//!
//! Routers on the ways from members to a group make a tree, whose root is where the group's name
//! is attached or leads to. Each knows who behind which session receives and who sends. It tells
//! the next router toward the root one that receives, for all of its own, and everybody who sends;
//! and it tells routers that receive who sends. So a PDU goes up and down along the tree and is
//! copied where ways part.
//!
//! INVARIANT: in here is nobody whose membership was not verified and whose chain was not.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use rhumb_link::SessionId;
use rhumb_trust::{Membership, Removal, Verified};
use rhumb_wire::Name;
use rhumb_wire::group::Part;

use crate::group_removals::{GroupRemovals, MAX_TRIES, retry_after};

/// All groups that somebody here is a part of.
#[derive(Default)]
pub(crate) struct Groups {
    groups: HashMap<Name, Group, RandomState>,
    /// The groups that have something to do with a session.
    of_session: HashMap<SessionId, Vec<Name>, RandomState>,
    /// Members of all groups, by the sessions that brought them.
    members: HashMap<SessionId, usize, RandomState>,
    /// Removals of all groups.
    pub(crate) removals: usize,
}

/// What is kept of a group.
pub(crate) struct Group {
    members: BTreeMap<(Name, SessionId), Member>,
    told: BTreeMap<(Name, SessionId), Told>,
    pub(crate) way: Way,
    /// Sessions behind which somebody receives, each once, and those of next routers that may
    /// be about to name another one.
    receivers: Vec<SessionId>,
    /// These, and how long they are waited for.
    waited_for: BTreeMap<SessionId, Instant>,
    pub(crate) removals: GroupRemovals,
    /// When to look at it again.
    pub(crate) due: Instant,
    /// When to look again where the group is.
    pub(crate) way_due: Instant,
}

/// Where a group is from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// Here: the root. Who answers for the name, if somebody does.
    Here(Option<SessionId>),
    /// By this next hop, so many domains further out.
    By(SessionId, u8),
    /// Not known at present.
    Lost,
}

impl Way {
    /// The session that it rests on.
    fn session(&self) -> Option<SessionId> {
        match *self {
            Self::By(session, _) => Some(session),
            Self::Here(holder) => holder,
            Self::Lost => None,
        }
    }

    /// What is left of it without that session.
    fn without_session(&self) -> Self {
        match self {
            Self::Here(_) => Self::Here(None),
            Self::By(..) | Self::Lost => Self::Lost,
        }
    }
}

/// Somebody who is a part of a group, as brought by one session.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) part: Part,
    pub(crate) membership: Arc<Membership>,
    pub(crate) until: Instant,
    pub(crate) until_s: u64,
    /// Of the request, for what there is to be said about it later.
    pub(crate) tag: u32,
    pub(crate) is_answered: bool,
    pub(crate) asked_at: Instant,
}

/// What a next router was told of a member.
#[derive(Debug, Clone)]
struct Told {
    /// None when he is to be forgotten there.
    part: Option<Part>,
    /// Who brought him here, if he was shown by his own chain: another session brings another one.
    from: Option<SessionId>,
    /// Until when it holds there, once that was said.
    accepted: Option<Instant>,
    /// Whether what was told last was accepted.
    is_taken: bool,
    /// Until when it was said to hold.
    until_s: u64,
    /// When to say it again, if it is to be.
    again_at: Instant,
    tries: u32,
    /// It will not have him be a part of the group.
    is_refused: bool,
}

/// What a router is to do about a group.
#[derive(Debug, Clone)]
pub(crate) enum Errand {
    /// Tell a next router that somebody is a part of it.
    Tell { to: SessionId, member: Name, as_what: Shown },
    /// Tell it that he is no longer.
    TellLeft { to: SessionId, member: Name },
    /// Tell it that somebody was removed.
    TellRemoved { to: SessionId, number: u32, removal: Arc<Verified<Removal>> },
    /// Answer whoever asked.
    Answer { member: Name, from: SessionId },
}

/// As what somebody is told of to a next router.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) part: Part,
    /// The member whose membership shows it: he, or one whom he admitted, if he is a domain.
    pub(crate) by: Name,
    /// Who brought that one.
    pub(crate) from: SessionId,
}

/// The next routers of a group.
#[derive(Debug, Default)]
pub(crate) struct NextRouters {
    /// Those that receive, and the one toward the root.
    pub(crate) all: Vec<SessionId>,
    /// Those of them that are outside of the domain at whose border this router stands.
    pub(crate) outside: Vec<SessionId>,
    pub(crate) domain: Option<Name>,
}

impl NextRouters {
    /// The domain that a router is outside of, if it is.
    pub(crate) fn domain_for(&self, router: SessionId) -> Option<Name> {
        self.domain.filter(|_| self.outside.contains(&router))
    }
}

impl Told {
    fn nothing(now: Instant) -> Self {
        Self {
            part: None,
            from: None,
            accepted: None,
            is_taken: false,
            until_s: 0,
            again_at: now,
            tries: 0,
            is_refused: false,
        }
    }
}

impl Groups {
    /// How many members there are of all groups.
    pub(crate) fn members(&self) -> usize {
        self.members.values().sum()
    }

    /// How many a session brought.
    pub(crate) fn members_by(&self, session: SessionId) -> usize {
        self.members.get(&session).copied().unwrap_or(0)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Group> {
        self.groups.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &Name) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Group)> {
        self.groups.iter()
    }

    /// Whether one more removal fits, whatever group it is of.
    pub(crate) fn have_room_for_removal(&self) -> bool {
        self.removals < MAX_REMOVALS_IN_ALL
    }

    /// Whether one more fits, of somebody who is new here.
    pub(crate) fn has_room(&self, group: &Name, session: SessionId) -> bool {
        let in_group = self.groups.get(group).map_or(0, |it| it.members.len());
        in_group < MAX_MEMBERS
            && self.members_by(session) < MAX_MEMBERS_BY_SESSION
            && self.members() < MAX_MEMBERS_IN_ALL
    }

    /// Somebody is a part of a group from now on, which is found by this way if it is new here.
    pub(crate) fn enter(
        &mut self,
        group: Name,
        (name, session): (Name, SessionId),
        member: Member,
        way: Way,
    ) {
        let now = member.asked_at;
        self.concern(session, group);
        self.concern_way(&way, group);
        let entry = self.groups.entry(group).or_insert_with(|| Group::new(way.clone(), now));
        if !entry.is_in_use() {
            entry.way = way;
        }
        entry.due = now;
        // Who asks again while he waits waits since he asked first.
        let before = entry.members.get(&(name, session)).filter(|it| !it.is_answered);
        let asked_at = before.map_or(now, |it| it.asked_at);
        let member = Member { asked_at, ..member };
        if entry.members.insert((name, session), member).is_none() {
            *self.members.entry(session).or_insert(0) += 1;
        }
        entry.note_receivers();
    }

    /// It was looked where a group is, which is not known without a way. Whether that is elsewhere.
    pub(crate) fn note_way(&mut self, group: Name, way: Option<Way>, now: Instant) -> bool {
        if let Some(way) = &way {
            self.concern_way(way, group);
        }
        let Some(entry) = self.groups.get_mut(&group) else { return false };
        let is_lost = entry.way == Way::Lost && way.is_none() && entry.is_in_use();
        entry.way_due = now + if is_lost { LOOK_WHEN_LOST } else { LOOK_EVERY };
        let other = way.filter(|way| *way != entry.way);
        other.map(|way| entry.way = way).is_some()
    }

    fn concern_way(&mut self, way: &Way, group: Name) {
        if let Some(session) = way.session() {
            self.concern(session, group);
        }
    }

    /// A group has something to do with a session.
    pub(crate) fn concern(&mut self, session: SessionId, group: Name) {
        let groups = self.of_session.entry(session).or_default();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }

    /// Removes those of a group's members that do not stay. The sessions that had brought them.
    pub(crate) fn retain(
        &mut self,
        group: &Name,
        now: Instant,
        stays: impl Fn(&Name, SessionId, &Member) -> bool,
    ) -> Vec<SessionId> {
        let Some(entry) = self.groups.get_mut(group) else { return Vec::new() };
        let mut gone = Vec::new();
        entry.members.retain(|(name, session), member| {
            let stays = stays(name, *session, member);
            if !stays {
                gone.push(*session);
            }
            stays
        });
        for session in &gone {
            if let Some(count) = self.members.get_mut(session) {
                *count = count.saturating_sub(1);
            }
        }
        if !gone.is_empty() {
            self.members.retain(|_, count| *count > 0);
            entry.note_receivers();
            entry.due = now;
        }
        gone
    }

    /// A session has ended, and with it what it brought and what was told there. The groups.
    pub(crate) fn forget_session(&mut self, session: SessionId, now: Instant) -> Vec<Name> {
        let groups = self.of_session.remove(&session).unwrap_or_default();
        for name in &groups {
            self.retain(name, now, |_, from, _| from != session);
            if let Some(group) = self.groups.get_mut(name) {
                group.told.retain(|(_, to), _| *to != session);
                group.removals.forget_session(session);
                group.waited_for.remove(&session);
                group.note_receivers();
                if group.way.session() == Some(session) {
                    (group.way, group.way_due) = (group.way.without_session(), now);
                }
                group.due = now;
            }
        }
        groups
    }

    /// Forgets a group in which there is nobody, and nobody to be told so, nor to be kept out.
    pub(crate) fn forget_if_empty(&mut self, name: &Name) {
        let is_empty = |group: &Group| !group.is_in_use() && group.removals.are_none();
        if self.groups.get(name).is_some_and(is_empty) {
            self.groups.remove(name);
            self.of_session.retain(|_, groups| {
                groups.retain(|other| other != name);
                !groups.is_empty()
            });
        }
    }

    /// Those that are to be looked at by now.
    pub(crate) fn due(&self, now: Instant) -> Vec<Name> {
        let due = self.groups.iter().filter(|(_, group)| group.due <= now);
        due.map(|(name, _)| *name).collect()
    }

    /// When the next one is.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.groups.values().map(|group| group.due).min()
    }
}

impl Group {
    fn new(way: Way, now: Instant) -> Self {
        Self {
            members: BTreeMap::new(),
            told: BTreeMap::new(),
            way,
            receivers: Vec::new(),
            waited_for: BTreeMap::new(),
            removals: GroupRemovals::default(),
            due: now,
            way_due: now + LOOK_EVERY,
        }
    }

    /// Whether somebody is a part of it, or a next router is to hear that nobody is. Otherwise it
    /// is kept for its removals alone.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.members.is_empty() || !self.told.is_empty()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&Name, SessionId, &Member)> {
        self.members.iter().map(|((name, session), member)| (name, *session, member))
    }

    pub(crate) fn member(&self, name: Name, session: SessionId) -> Option<&Member> {
        self.members.get(&(name, session))
    }

    /// Sessions that are to have a copy.
    pub(crate) fn receivers(&self) -> &[SessionId] {
        &self.receivers
    }

    /// The next hop toward the root.
    pub(crate) fn upward(&self) -> Option<SessionId> {
        match self.way {
            Way::By(session, _) => Some(session),
            Way::Here(_) | Way::Lost => None,
        }
    }

    /// How many domains further out the root is.
    pub(crate) fn level(&self) -> u8 {
        match self.way {
            Way::By(_, level) => level,
            Way::Here(_) | Way::Lost => 0,
        }
    }

    /// Whether a next router takes what somebody sends.
    pub(crate) fn is_accepted(&self, sender: Name, by: SessionId, now: Instant) -> bool {
        let told = self.told.get(&(sender, by));
        told.is_some_and(|told| {
            told.part.is_some_and(Part::sends) && told.accepted.is_some_and(|until| now < until)
        })
    }

    fn note_receivers(&mut self) {
        let receive = self.members.iter().filter(|(_, member)| member.part.receives());
        self.receivers = receive.map(|((_, session), _)| *session).collect();
        self.receivers.sort_unstable();
        self.receivers.dedup();
        self.waited_for.retain(|session, _| self.receivers.binary_search(session).is_err());
        self.receivers.extend(self.waited_for.keys());
    }

    /// Some are gone. Those of these next routers that have nobody now who receives for all of
    /// theirs have copies for a moment longer: they may be about to name another one.
    pub(crate) fn wait_for_others<'a>(
        &mut self,
        routers: impl Iterator<Item = &'a SessionId>,
        now: Instant,
    ) {
        let without = routers.filter(|it| !self.receivers.contains(it));
        self.waited_for.extend(without.map(|it| (*it, now + NAMES_ANOTHER_WITHIN)));
        self.note_receivers();
    }

    /// Whether a next router has had its time to name another one that receives.
    pub(crate) fn end_waiting(&mut self, now: Instant) -> bool {
        let before = self.waited_for.len();
        self.waited_for.retain(|_, until| now < *until);
        self.note_receivers();
        self.waited_for.len() < before
    }

    /// A next router answered what it was told. Whether that was asked.
    pub(crate) fn note_answer(
        &mut self,
        (member, by): (Name, SessionId),
        (part, until): (Option<Part>, Instant),
        now: Instant,
    ) -> bool {
        let Some(told) = self.told.get_mut(&(member, by)) else { return false };
        if told.part != part {
            return false;
        }
        self.due = now;
        match part {
            None => {
                self.told.remove(&(member, by));
            }
            Some(_) => {
                (told.accepted, told.is_taken) = (Some(until), true);
                (told.tries, told.is_refused) = (0, false);
                told.again_at = now + (until.saturating_duration_since(now) / 2).max(LOOK_EVERY);
            }
        }
        true
    }

    /// A next router does not take what it was told, or not any more; it may be told again then,
    /// but later each time if it goes on so. Whether it was told.
    pub(crate) fn note_refusal(
        &mut self,
        (member, by): (Name, SessionId),
        (is_refused, again_at): (bool, Instant),
        now: Instant,
    ) -> bool {
        let Some(told) = self.told.get_mut(&(member, by)) else { return false };
        // Who is not known there need not be forgotten there.
        if is_refused && told.part.is_none() {
            self.told.remove(&(member, by));
            return true;
        }
        let slowed = told.tries.checked_sub(QUICK_TRIES).map(|slow| now + retry_after(slow));
        (told.accepted, told.is_taken) = (None, false);
        (told.again_at, told.is_refused) = (slowed.unwrap_or(again_at).max(again_at), is_refused);
        self.due = self.due.min(told.again_at);
        true
    }

    /// What is to be done now about these next routers, and until when nothing is if nothing
    /// happens.
    pub(crate) fn settle(&mut self, routers: &NextRouters, now: Instant) -> Vec<Errand> {
        let waited_for = self.waited_for.values().copied();
        let mut due = waited_for.chain([now + LOOK_EVERY]).min().unwrap_or(now);
        // Whom a domain admitted nobody outside was told of, so nobody is told that he is removed.
        let stays_inside = |to, removal: &Removal| {
            routers.domain_for(to).is_some_and(|domain| removal.is_of(&domain))
        };
        let to_tell = self.removals.due_to_tell(&routers.all, stays_inside, now, &mut due);
        let tell = |(to, number, removal)| Errand::TellRemoved { to, number, removal };
        let mut errands: Vec<Errand> = to_tell.into_iter().map(tell).collect();
        let wanted = self.wanted(routers);
        for (&(member, to), told) in &mut self.told {
            if told.part.is_some() && !wanted.contains_key(&(member, to)) {
                *told = Told::nothing(now);
            }
        }
        for (&(member, to), &as_what) in &wanted {
            let Shown { part, by, from } = as_what;
            let until_s = self.members.get(&(by, from)).map_or(0, |it| it.until_s);
            let told = self.told.entry((member, to)).or_insert(Told::nothing(now));
            if told.part != Some(part) {
                // Who sends goes on while it becomes one that receives, too.
                let accepted = told.accepted.filter(|_| told.part.is_some_and(Part::sends));
                *told = Told { part: Some(part), accepted, ..Told::nothing(now) };
            }
            let from = (member == by).then_some(from);
            if told.from != from {
                // What was told before may hold no longer: who comes anew withdraws it.
                (told.from, told.is_taken) = (from, false);
                (told.again_at, told.tries) = (now, 0);
            }
            let is_old = !told.is_taken || told.until_s < until_s;
            if is_old && told.again_at <= now {
                (told.again_at, told.until_s) = (now + retry_after(told.tries), until_s);
                (told.is_taken, told.tries) = (false, told.tries + 1);
                errands.push(Errand::Tell { to, member, as_what });
            }
            if is_old {
                due = due.min(told.again_at);
            }
        }
        self.told.retain(|(member, to), told| {
            if told.part.is_none() && told.again_at <= now {
                told.again_at = now + retry_after(told.tries);
                told.tries += 1;
                errands.push(Errand::TellLeft { to: *to, member: *member });
            }
            due = if told.part.is_none() { due.min(told.again_at) } else { due };
            told.part.is_some() || told.tries < MAX_TRIES
        });
        errands.extend(self.answers(now, &mut due));
        self.due = due;
        errands
    }

    /// Who is to be answered: those whose part is known wherever it has to be, or who have waited
    /// long enough for that.
    fn answers(&mut self, now: Instant, due: &mut Instant) -> Vec<Errand> {
        let upward = self.upward();
        let is_settled = |name: &Name| {
            let concern = self.told.iter().filter(|((member, to), told)| {
                told.part.is_some() && (member == name || Some(*to) == upward)
            });
            concern.into_iter().all(|(_, told)| told.is_taken)
        };
        let waiting = self.members.iter().filter(|(_, member)| !member.is_answered);
        let answered: Vec<(Name, SessionId)> = waiting
            .filter(|((name, _), member)| {
                let waited = now.saturating_duration_since(member.asked_at);
                let is_due = is_settled(name) || waited >= ANSWER_AFTER;
                if !is_due {
                    *due = (*due).min(member.asked_at + ANSWER_AFTER);
                }
                is_due
            })
            .map(|(key, _)| *key)
            .collect();
        let answer = |(name, from): (Name, SessionId)| {
            self.members.get_mut(&(name, from))?.is_answered = true;
            Some(Errand::Answer { member: name, from })
        };
        answered.into_iter().filter_map(answer).collect()
    }

    /// What next routers are to know, by member and router.
    fn wanted(&self, routers: &NextRouters) -> BTreeMap<(Name, SessionId), Shown> {
        let mut wanted = BTreeMap::new();
        let senders = self.senders();
        let upward = self.upward();
        for to in &routers.all {
            for (sender, sessions) in &senders {
                // Where he comes from he is known, unless he comes from elsewhere, too: who has
                // moved may not have left there yet.
                let elsewhere = sessions.iter().filter(|(_, from)| from != to);
                if let Some((_, from)) = elsewhere.max() {
                    let (part, by, from) = (Part::Sends, *sender, *from);
                    wanted.insert((*sender, *to), Shown { part, by, from });
                }
            }
        }
        if let Some(to) = upward
            && let Some((member, (by, from))) = self.receiver_for(to, routers.domain_for(to))
        {
            let also_sends = wanted.get(&(member, to)).copied();
            let receives = Shown { part: Part::Receives, by, from };
            let both = also_sends.map(|sends| Shown { part: Part::Both, ..sends });
            wanted.insert((member, to), both.unwrap_or(receives));
        }
        wanted
    }

    /// The next routers: those that receive, and the one toward the root.
    pub(crate) fn routers(&self, is_router: impl Fn(SessionId) -> bool) -> Vec<SessionId> {
        let downward = self.receivers.iter().copied().filter(|session| is_router(*session));
        downward.chain(self.upward()).collect()
    }

    /// Who sends, each with the sessions that brought him, and when.
    fn senders(&self) -> BTreeMap<Name, Vec<(Instant, SessionId)>> {
        let mut senders: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((name, session), member) in &self.members {
            if member.part.sends() {
                senders.entry(*name).or_default().push((member.asked_at, *session));
            }
        }
        senders
    }

    /// One that receives for all here, and who shows it. To a router outside of a domain that is
    /// the domain, if it admitted somebody here. Otherwise it is whoever the router was told of
    /// already, as long as he is there, and then the one who stays longest.
    fn receiver_for(
        &self,
        upward: SessionId,
        domain: Option<Name>,
    ) -> Option<(Name, (Name, SessionId))> {
        let ours = self
            .members
            .iter()
            .filter(|((_, session), member)| member.part.receives() && *session != upward);
        let shown = ours.map(|(key, member)| {
            let admitted = |it: &Name| member.membership.shares().any(|(name, _)| name == *it);
            (domain.filter(admitted).unwrap_or(key.0), *key, member.until_s)
        });
        let rank = |(shown, key, until_s): &(Name, (Name, SessionId), u64)| {
            let told = self.told.get(&(*shown, upward));
            let is_refused = told.is_some_and(|told| told.is_refused);
            let is_told = told.and_then(|told| told.part).is_some_and(Part::receives);
            (!is_refused, domain == Some(*shown), is_told, *until_s, *key)
        };
        shown.max_by_key(rank).map(|(shown, key, _)| (shown, key))
    }
}

/// The most members of one group at one router.
const MAX_MEMBERS: usize = 16_384;
/// A router brings those of many nodes.
const MAX_MEMBERS_BY_SESSION: usize = 1024;
/// A kilobyte each.
const MAX_MEMBERS_IN_ALL: usize = 65_536;
/// Likewise; strangers' are among their names, too.
const MAX_REMOVALS_IN_ALL: usize = 65_536;
/// How often is looked whether everything is as it was.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look-up and a handshake take less.
const LOOK_WHEN_LOST: Duration = Duration::from_millis(100);
/// A removal reaches a router, and whom that names is verified, though one datagram or another is
/// lost; less than the second after which nothing reaches who is no member.
const NAMES_ANOTHER_WITHIN: Duration = Duration::from_millis(900);
/// So often a next router is told when it says: what it has to look up first is there soon.
const QUICK_TRIES: u32 = 8;
/// Who asks is answered by then, though a router further on has not answered.
const ANSWER_AFTER: Duration = Duration::from_secs(2);
