//! Groups that this node is a part of: it receives what is sent to them, or sends to them, by the
//! membership that each group's owner gave it.
//!
//! 1. [`Groups::join`] takes a membership. Once the router has accepted the node's own name,
//!    [`Groups::handle_timeout`] asks it, and again until it answers.
//! 2. It asks again when half of the time that the router gave has passed, and every other router
//!    anew. A router that refuses is asked again later, ever less often: perhaps the group is not
//!    known there yet.
//! 3. [`Groups::leave`] tells the router that the node is no part of it any longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rhumb_link::SessionId;
use rhumb_trust::{Membership, Now, Removal};
use rhumb_wire::group::{GroupAccept, GroupRequest, Part};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name, PduHeader, Rights};

use super::event::Event;
use super::turn::Turn;
use crate::GroupError;

/// The groups, each by its name.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Few: they are searched one by one.
    list: Vec<Group>,
    removals: Vec<Told>,
}

/// A removal that the router is told of.
#[derive(Debug)]
struct Told {
    group: Name,
    request: GroupRequest,
    tag: u32,
    ask_at: Instant,
    wait: Duration,
}

#[derive(Debug)]
struct Group {
    name: Name,
    /// None when the node leaves it.
    joins: Option<(Part, Membership)>,
    /// The session that all below is about.
    session: Option<SessionId>,
    /// The tag under which the router was asked last.
    tag: u32,
    /// When to ask it, or ask again.
    ask_at: Option<Instant>,
    wait: Duration,
    tries: u32,
    accepted: bool,
    was_refused: bool,
}

impl Groups {
    /// Is a part of a group from now on.
    pub(super) fn join(
        &mut self,
        (group, part): (Name, Part),
        membership: Membership,
        node: Name,
        now: Now,
    ) -> Result<(), GroupError> {
        membership.check(&node, now.unix_s()).map_err(GroupError::Membership)?;
        if !membership.is_of(&group) {
            return Err(GroupError::OtherGroup { domain: membership.domain() });
        }
        let rights = membership.rights();
        if part.receives() && !rights.hold(Rights::JOIN) {
            return Err(GroupError::NoRight { right: "join", to: "receive from" });
        }
        if part.sends() && !rights.hold(Rights::PUBLISH) {
            return Err(GroupError::NoRight { right: "publish", to: "send to" });
        }
        let before = self.list.iter().position(|it| it.name == group);
        if before.is_none() && self.list.len() >= MAX_GROUPS {
            return Err(GroupError::TooMany);
        }
        let fresh = Group {
            name: group,
            joins: Some((part, membership)),
            session: None,
            tag: 0,
            ask_at: None,
            wait: FIRST_RESEND,
            tries: 0,
            accepted: false,
            was_refused: false,
        };
        match before {
            Some(at) => self.list[at] = fresh,
            None => self.list.push(fresh),
        }
        Ok(())
    }

    /// Is no part of a group any longer.
    pub(super) fn leave(&mut self, group: Name, now: Now) {
        if let Some(group) = self.list.iter_mut().find(|it| it.name == group) {
            (group.joins, group.accepted) = (None, false);
            (group.ask_at, group.wait, group.tries) = (Some(now.instant), FIRST_RESEND, 0);
        }
    }

    /// Tells the router, until it answers, that somebody is a member no longer.
    pub(super) fn remove(&mut self, group: Name, removal: &Removal, now: Now) {
        let (issuers, certificates) = removal.lists();
        let request = GroupRequest::Remove { issuers, certificates };
        let (ask_at, wait) = (now.instant, FIRST_RESEND);
        self.removals.push(Told { group, request, tag: 0, ask_at, wait });
    }

    /// Whether what is for this group is for us.
    pub(super) fn receives(&self, group: &Name) -> bool {
        let joins = |it: &Group| it.joins.as_ref().is_some_and(|(part, _)| part.receives());
        self.list.iter().any(|it| it.name == *group && joins(it))
    }

    /// Whether it is one of ours, whatever for.
    pub(super) fn holds(&self, group: &Name) -> bool {
        self.list.iter().any(|it| it.name == *group)
    }

    /// Asks what there is to ask of the router joined.
    pub(super) fn handle_timeout(&mut self, joined: Option<SessionId>, now: Now) {
        let Some(session) = joined else { return };
        for group in &mut self.list {
            if group.session != Some(session) {
                (group.session, group.ask_at) = (Some(session), Some(now.instant));
                (group.accepted, group.was_refused) = (false, false);
                (group.wait, group.tries) = (FIRST_RESEND, 0);
            }
        }
        // Nobody remembers on another session that the node was a part of it.
        self.list.retain(|it| it.joins.is_some() || it.tries < MAX_TRIES_TO_LEAVE);
    }

    /// When to ask again.
    pub(super) fn poll_timeout(&self, joined: Option<SessionId>) -> Option<Instant> {
        let on_session = self.list.iter().filter(|it| joined.is_some() && it.session == joined);
        let removals = self.removals.iter().filter(|_| joined.is_some()).map(|it| it.ask_at);
        on_session.filter_map(|it| it.ask_at).chain(removals).min()
    }

    /// The next request that is due.
    pub(super) fn poll_transmit(&mut self, node: Name, turn: &mut Turn<'_>) -> Option<Vec<u8>> {
        let now = turn.now.instant;
        if let Some(told) = self.removals.iter_mut().find(|it| it.ask_at <= now) {
            told.tag = turn.take_tag();
            told.ask_at = now + turn.jitter.lengthen(told.wait);
            told.wait = (told.wait * 2).min(LAST_RESEND);
            return Some(emit(&told.request, (node, told.group), told.tag));
        }
        let group = self.list.iter_mut().find(|it| it.ask_at.is_some_and(|at| at <= now))?;
        group.tag = turn.take_tag();
        group.ask_at = Some(now + turn.jitter.lengthen(group.wait));
        group.wait = (group.wait * 2).min(LAST_RESEND);
        group.tries += 1;
        let request = match &group.joins {
            None => GroupRequest::Leave,
            Some((part, membership)) => GroupRequest::Join {
                part: *part,
                issuers: membership.issuers().to_vec(),
                certificates: membership.certificates().to_vec(),
            },
        };
        Some(emit(&request, (node, group.name), group.tag))
    }

    /// The router answers. Whether it was asked.
    pub(super) fn handle_accept(
        &mut self,
        (tag, name): (u32, Name),
        accept: GroupAccept,
        now: Now,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let told = self.removals.iter().position(|it| it.group == name && it.tag == tag);
        if let Some(at) = told.filter(|_| accept.part.is_none()) {
            self.removals.remove(at);
            events.push_back(Event::GroupTold { group: name, refused: None });
            return true;
        }
        let asked = |it: &Group| {
            it.name == name && it.tag == tag && accept.part == it.joins.as_ref().map(|it| it.0)
        };
        let Some(at) = self.list.iter().position(asked) else { return false };
        let group = &mut self.list[at];
        if group.joins.is_none() {
            self.list.remove(at);
            return true;
        }
        let left_ms = accept.until_s.saturating_mul(1000).saturating_sub(now.unix_ms);
        let half = Duration::from_millis(left_ms / 2).clamp(LEAST_RENEWAL, LAST_RENEWAL);
        group.ask_at = Some(now.instant + half);
        (group.wait, group.tries, group.was_refused) = (FIRST_RESEND, 0, false);
        if !std::mem::replace(&mut group.accepted, true) {
            events.push_back(Event::InGroup { group: name, until_s: accept.until_s });
        }
        true
    }

    /// The router does not, or not yet, let the node be a part of a group. Whether it was asked.
    pub(super) fn handle_nack(
        &mut self,
        (tag, name): (u32, Name),
        reason: Reason,
        turn: &mut Turn<'_>,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let told = self.removals.iter().position(|it| it.group == name && it.tag == tag);
        if let Some(at) = told {
            if let (Reason::NotYet(_) | Reason::Overloaded(_), Some(wait)) =
                (reason, reason.retry_after())
            {
                self.removals[at].ask_at = turn.now.instant + wait.max(LEAST_WAIT);
            } else {
                self.removals.remove(at);
                events.push_back(Event::GroupTold { group: name, refused: Some(reason) });
            }
            return true;
        }
        let group = self.list.iter_mut().find(|it| it.name == name && it.tag == tag);
        let Some(group) = group.filter(|it| it.ask_at.is_some()) else { return false };
        let wait = match reason.retry_after() {
            Some(wait) => wait.clamp(LEAST_WAIT, LAST_RESEND),
            None => group.wait.max(FIRST_RESEND),
        };
        group.ask_at = Some(turn.now.instant + turn.jitter.lengthen(wait));
        let is_final = !matches!(reason, Reason::NotYet(_) | Reason::Overloaded(_));
        if is_final && !std::mem::replace(&mut group.was_refused, true) {
            group.accepted = false;
            events.push_back(Event::NotInGroup { group: name, reason });
        }
        true
    }

    /// The router does not know that the node sends to a group: it is asked before it is time.
    pub(super) fn ask_again(&mut self, name: Name, now: Now) {
        let group = self.list.iter_mut().find(|it| it.name == name);
        if let Some(group) = group.filter(|it| it.accepted) {
            (group.accepted, group.ask_at) = (false, Some(now.instant));
        }
    }
}

fn emit(request: &GroupRequest, (node, group): (Name, Name), tag: u32) -> Vec<u8> {
    let mut data = Vec::new();
    request.emit(&mut data);
    let header = PduHeader { tag, ..PduHeader::new(Action::GroupRequest, node, group) };
    let mut pdu = Vec::new();
    header.emit(&data, &[], &mut pdu).expect("invariant: a membership fits a PDU");
    pdu
}

/// As many as a node answers for names of others.
const MAX_GROUPS: usize = 64;
/// As for the node's own name: a round trip and a verification.
const FIRST_RESEND: Duration = Duration::from_millis(500);
/// A router that refuses may have heard more by then.
const LAST_RESEND: Duration = Duration::from_secs(30);
/// A router that asks for less would make the node a flood.
const LEAST_WAIT: Duration = Duration::from_millis(20);
const LEAST_RENEWAL: Duration = Duration::from_secs(1);
/// Clocks are set now and then.
const LAST_RENEWAL: Duration = Duration::from_secs(3600);
const MAX_TRIES_TO_LEAVE: u32 = 4;
