//! What members have said: what party two has heard of it, and which of it is ordered next.
//!
//! Invariant: an announcement is ordered only if both parties hold it, of each lane in the order in
//! which it was said. What one of them lacks though it has heard later words of the lane was
//! replaced meanwhile, and is forgotten by the other.

use super::{TheirRoute, Theirs, What, Word};
use crate::ExchangeError;
use crate::message::Mark;
use crate::message::member::ToMember;
use crate::message::pair::{HeardWhat, Item, Order, PairMessage};
use crate::roster::Lane;
use crate::route::{Destination, RouteId};
use crate::shard::{Output, Shard};
use std::collections::BTreeSet;
use std::time::Instant;

/// What the first words of the lanes come to.
enum Next {
    /// It goes into the next run.
    Export(Item),
    /// These are no more. Those that another call gave already may be among them.
    Remove(Vec<RouteId>),
    /// Nothing to do for both.
    Skip,
    /// Party two has not heard it.
    Wait,
}

impl Shard {
    /// This party has heard a word of a lane, and it is in the table.
    pub(in crate::shard) fn lead_heard(
        &mut self,
        lane: Lane,
        before: Mark,
        mark: Mark,
        what: HeardWhat,
        withdrawn: Option<Destination>,
    ) {
        self.forget_between(lane, before, mark);
        let Some(lead) = self.lead() else { return };
        let what = match (what, withdrawn) {
            (HeardWhat::Nothing, Some(destination)) => What::Withdraw(destination),
            (HeardWhat::Nothing, None) => What::End,
            _ => What::Announce,
        };
        lead.push(lane, mark, what);
    }

    /// This party has refused a route: party two is to forget it. What the
    /// lane had to the same destination is withdrawn.
    pub(in crate::shard) fn lead_refused(
        &mut self,
        (lane, mark): Item,
        before: Mark,
        withdrawn: Option<Destination>,
    ) {
        let Some(lead) = self.lead() else { return };
        let theirs = &mut lead.theirs[lane.index()];
        theirs.refused.remove(&mark);
        let is_theirs = theirs.held.contains_key(&mark);
        if let Some(destination) = withdrawn {
            self.lead_heard(lane, before, mark, HeardWhat::Nothing, Some(destination));
        } else {
            self.forget_between(lane, before, mark);
        }
        if let Some(lead) = self.lead().filter(|_| is_theirs) {
            lead.forget.push((lane, mark));
        }
    }

    /// What party two has heard between two words that this one has heard was replaced.
    fn forget_between(&mut self, lane: Lane, before: Mark, mark: Mark) {
        use std::ops::Bound::Excluded;
        let Some(lead) = self.lead().filter(|_| before < mark) else { return };
        let between = lead.theirs[lane.index()].held.range((Excluded(before), Excluded(mark)));
        let passed: Vec<Item> = between.map(|(mark, _)| (lane, *mark)).collect();
        lead.forget.extend(passed);
    }

    pub(in crate::shard) fn take_note(
        &mut self,
        message: PairMessage<'_>,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        match message {
            PairMessage::Have(heard) => {
                for heard in heard {
                    self.take_heard(heard.item, heard.what)?;
                }
            }
            PairMessage::HaveEnd => {
                if let Some(lead) = self.lead() {
                    lead.is_reconciled = true;
                }
            }
            PairMessage::Here { lane, participates } => {
                self.their(lane)?.here = Some(participates);
                self.lane_changed(lane, now);
            }
            PairMessage::Away { lane } => {
                self.their(lane)?.here = None;
                self.lane_changed(lane, now);
            }
            PairMessage::Left { lane } => {
                let theirs = self.their(lane)?;
                theirs.leaving = theirs.leaving.saturating_sub(1);
            }
            PairMessage::Answered { round, lanes } => self.take_answered(round, lanes)?,
            PairMessage::Done { position } => {
                if self.lead().is_none_or(|lead| lead.undone.take() != Some(position)) {
                    return Err(ExchangeError::OutOfStep("what was handed out"));
                }
            }
            PairMessage::Engine(_) | PairMessage::Order { .. } => {
                return Err(ExchangeError::Unexpected("an order of party two"));
            }
        }
        Ok(())
    }

    pub(super) fn their(&mut self, lane: Lane) -> Result<&mut Theirs, ExchangeError> {
        let theirs = self.lead().and_then(|lead| lead.theirs.get_mut(lane.index()));
        theirs.ok_or(ExchangeError::Malformed("a lane"))
    }

    fn take_heard(&mut self, item: Item, what: HeardWhat) -> Result<(), ExchangeError> {
        let (lane, mark) = item;
        if self.their(lane)?.leaving > 0 {
            return Ok(());
        }
        let most = self.most_waiting(lane) + self.config.quota(self.party, lane).routes as usize;
        let is_superseded = self.table.held(item).is_none() && mark <= self.table.last(lane);
        let theirs = self.their(lane)?;
        theirs.last = theirs.last.max(mark);
        let (id, is_exported) = match what {
            HeardWhat::Route(id) => (Some(id), false),
            HeardWhat::Exported(id) => (Some(id), true),
            HeardWhat::Nothing => (None, false),
            HeardWhat::Refused => {
                // Who says more of these to party two alone has no use for them.
                if !is_superseded && theirs.refused.len() < most {
                    theirs.refused.insert(mark);
                }
                (None, false)
            }
        };
        // Party two has a higher quota for the lane than this one.
        let is_too_much = theirs.held.len() >= most;
        if let Some(id) = id.filter(|_| !is_too_much) {
            theirs.held.insert(mark, TheirRoute { id, is_exported });
        }
        let Some(lead) = self.lead() else { return Ok(()) };
        if id.is_some() && !lead.is_reconciled {
            let first = lead.former.entry(lane).or_insert(mark.incarnation);
            *first = mark.incarnation.min(*first);
        }
        if is_exported {
            lead.had_former = true;
            lead.awaited.insert(item);
        }
        if (is_superseded || is_too_much) && id.is_some() {
            lead.forget.push(item);
        }
        lead.wake(lane);
        Ok(())
    }

    /// What members have said: announcements to hand out under one order, and what comes before it.
    pub(super) fn next_words(&mut self) -> Option<Order> {
        let most = self.config.batch;
        let (mut batch, mut removed) = (Vec::new(), BTreeSet::new());
        while batch.len() < most
            && removed.len() < MAX_ITEMS
            && self.lead()?.adopt.len() < MAX_ITEMS
        {
            let Some(lane) = self.lead()?.ready.pop_front() else { break };
            self.lead()?.is_ready[lane.index()] = false;
            match self.next_word(lane) {
                Next::Wait => continue,
                Next::Skip => {}
                Next::Export(item) => batch.push(item),
                Next::Remove(ids) => removed.extend(ids),
            }
            self.lead()?.wake(lane);
        }
        // Not in the order of lanes, which would tell members who announced what
        // they may not have: ids are digests of nonces.
        batch.sort_by_key(|item| self.table.held(*item).map(|held| held.id));
        let lead = self.lead()?;
        if !lead.adopt.is_empty() {
            lead.waiting.push_back(Order::Adopt(std::mem::take(&mut lead.adopt)));
        }
        let removed: Vec<RouteId> = removed.into_iter().collect();
        let removals = removed.chunks(MAX_ITEMS).map(|ids| Order::Remove(ids.to_vec()));
        lead.waiting.extend(removals);
        if !batch.is_empty() {
            lead.waiting.push_back(Order::Export(batch));
        }
        lead.waiting.pop_front()
    }

    /// Takes a lane's first word, unless it waits.
    ///
    /// No word before it waits for a run: an announcement that a later word takes back is not the
    /// lane's latest, and is dropped.
    fn next_word(&mut self, lane: Lane) -> Next {
        let Some(lead) = self.lead() else { return Next::Wait };
        let Some(Word { mark, what }) = lead.queues[lane.index()].pop_front() else {
            return Next::Wait;
        };
        let item = (lane, mark);
        let theirs = &mut lead.theirs[lane.index()];
        let (their_word, their_last) = (theirs.held.get(&mark).copied(), theirs.last);
        let was_refused = theirs.refused.remove(&mark);
        match what {
            What::Withdraw(destination) => {
                let current = self.table.current(&destination).find(|(other, _)| *other == lane);
                let id = current.and_then(|item| self.table.held(item)).map(|held| held.id);
                id.map_or(Next::Skip, |id| Next::Remove(vec![id]))
            }
            What::End => self.end(lane, mark),
            What::Announce => {
                let Some(held) = self.table.held(item) else { return Next::Skip };
                let id = held.id;
                let was_exported =
                    held.exported || their_word.is_some_and(|theirs| theirs.is_exported);
                if self.table.latest(lane, &held.destination) != Some(mark) {
                    self.drop_word(item, their_word.is_some());
                    return Next::Skip;
                }
                if was_refused {
                    return self.drop_refused(item);
                }
                let is_alike = their_word.is_none_or(|theirs| theirs.id == id);
                if !is_alike || their_word.is_none() && their_last == mark {
                    return self.drop_word_that_differs(item, their_word.is_some());
                }
                let Some(lead) = self.lead() else { return Next::Wait };
                match their_word {
                    Some(_) if was_exported && !lead.is_settled => {
                        lead.adopt.push(item);
                        Next::Skip
                    }
                    Some(_) => Next::Export(item),
                    None if their_last > mark => {
                        self.drop_word(item, false);
                        Next::Skip
                    }
                    None => {
                        lead.queues[lane.index()].push_front(Word { mark, what: What::Announce });
                        Next::Wait
                    }
                }
            }
        }
    }

    /// An announcement that was taken back before it was ordered.
    fn drop_word(&mut self, item: Item, is_theirs: bool) {
        self.table.drop_item(item);
        match self.lead() {
            Some(lead) if is_theirs => lead.forget.push(item),
            _ => self.lead_dropped(item),
        }
    }

    /// A member told the parties different things under one mark. Neither counts, and
    /// the member is cut; orders name routes by their ids, so one that was current
    /// would fail the pair, and everybody with it.
    fn drop_word_that_differs(&mut self, item: Item, is_theirs: bool) -> Next {
        self.drop_word(item, is_theirs);
        let error = ExchangeError::Unexpected("another word for the other party");
        self.outbox.push_back(Output::MemberFailed { lane: item.0, error });
        Next::Skip
    }

    /// Party two has refused it, and party one not: the lower quota counts.
    fn drop_refused(&mut self, item: Item) -> Next {
        let (lane, mark) = item;
        let destination = self.table.held(item).map(|held| held.destination.clone());
        self.drop_word(item, false);
        self.tell_refused(lane, mark);
        let current = destination
            .and_then(|destination| self.table.current(&destination).find(|(it, _)| *it == lane));
        let id = current.and_then(|item| self.table.held(item)).map(|held| held.id);
        id.map_or(Next::Skip, |id| Next::Remove(vec![id]))
    }

    /// A lane has said all that it began with: what earlier incarnations had is gone. What it has
    /// said again stays until that takes its place: it may be in the run that comes next.
    fn end(&mut self, lane: Lane, mark: Mark) -> Next {
        let is_old = |other: &Mark| other.incarnation < mark.incarnation;
        let (mut ids, mut dropped) = (Vec::new(), Vec::new());
        for (other, held) in self.table.items(lane).take_while(|(other, _)| is_old(other)) {
            if held.current.is_none() {
                dropped.push((lane, other));
            } else if self.table.latest(lane, &held.destination).is_none_or(|it| is_old(&it)) {
                ids.push(held.id);
            }
        }
        dropped.into_iter().for_each(|item| drop(self.table.drop_item(item)));
        let theirs = self.lead().map(|lead| {
            let theirs = lead.theirs[lane.index()].held.keys();
            theirs.take_while(|other| is_old(other)).map(|other| (lane, *other)).collect()
        });
        let mut theirs: Vec<Item> = theirs.unwrap_or_default();
        theirs.retain(|item| self.table.held(*item).is_none());
        if let Some(lead) = self.lead() {
            lead.forget.extend(theirs);
        }
        if ids.is_empty() { Next::Skip } else { Next::Remove(ids) }
    }

    /// Both have made this current; the lane's former route is gone.
    pub(in crate::shard) fn lead_current(
        &mut self,
        item: Item,
        former: Option<(Mark, RouteId)>,
        since: u64,
    ) {
        let id = self.table.held(item).map(|held| held.id);
        let Some(lead) = self.lead() else { return };
        lead.awaited.remove(&item);
        let theirs = &mut lead.theirs[item.0.index()];
        if let Some(id) = id {
            theirs.held.insert(item.1, TheirRoute { id, is_exported: true });
        }
        if let Some((mark, _)) = former {
            theirs.held.remove(&mark);
            lead.awaited.remove(&(item.0, mark));
        }
        let (Some(id), 0) = (id, since) else { return };
        lead.adopted(id);
        if let Some((_, former)) = former {
            let tag = self.tag(self.pair.as_ref().map_or(0, |pair| pair.position));
            for lane in self.joined() {
                self.tell(lane, &ToMember::Retract { tag, ids: vec![former] });
            }
        }
    }

    /// An announcement is held no more, at neither party.
    pub(in crate::shard) fn lead_dropped(&mut self, item: Item) {
        if let Some(lead) = self.lead() {
            lead.awaited.remove(&item);
            lead.theirs[item.0.index()].held.remove(&item.1);
        }
    }

    pub(in crate::shard) fn lead_left(&mut self, lane: Lane) {
        let Some(lead) = self.lead() else { return };
        lead.queues[lane.index()].clear();
        // The member may say the same words again.
        lead.forget.retain(|(other, _)| *other != lane);
        lead.awaited.retain(|(other, _)| *other != lane);
        lead.former.remove(&lane);
        let theirs = &mut lead.theirs[lane.index()];
        theirs.held.clear();
        theirs.refused.clear();
        theirs.last = Mark::default();
        theirs.leaving += 1;
    }
}

/// Announcements, or ids, of one order: 72 KB.
pub(super) const MAX_ITEMS: usize = 4096;
