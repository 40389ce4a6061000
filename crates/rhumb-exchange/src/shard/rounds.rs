//! Select-Best, round by round: who is asked, who has answered, and when a round goes on.
//!
//! 1. Party one orders a round: the routes of a destination in the order of
//!    lanes, and the lanes that are asked. All who take part are asked alike,
//!    whether they have any of the routes or not.
//! 2. Members answer both parties with shares. Party two says whose are there once all are, or its
//!    time is up. Who has let the time pass is asked like all others, and not waited for: for two
//!    seconds, and twice as long each further time.
//! 3. Party one fixes the lanes that count: those who answered both. The result goes to them as
//!    shares; the others are told that they were missed.
//!
//! Invariant: a round compares what is current. When one of its routes is
//! replaced or removed, it is void at both parties.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rhumb_mpc::Party;
use zeroize::Zeroizing;

use super::{MAX_COMPARED, Shard};
use crate::ExchangeError;
use crate::circuits::Form;
use crate::message::Tag;
use crate::message::member::ToMember;
use crate::message::pair::PairMessage;
use crate::roster::{Lane, LaneSet};
use crate::route::{Destination, RouteId};

#[derive(Default)]
pub(super) struct Rounds {
    open: BTreeMap<u64, Round>,
    by_destination: HashMap<Destination, u64>,
    /// At party two: those that wait no longer, until party one is told.
    complete: Vec<u64>,
    /// At party one: those that wait for nobody.
    decided: BTreeSet<u64>,
    /// The deadline of each, in the order of rounds: the time allowed is the same for all.
    deadlines: BTreeMap<u64, Instant>,
    /// Who has not answered when it was waited for.
    silent: BTreeMap<Lane, Silence>,
}

/// Of a lane that let the time of a round pass.
struct Silence {
    /// How often in a row.
    times: u32,
    /// Until then it is not waited for.
    until: Instant,
}

/// A round.
pub(super) struct Round {
    pub(super) ids: Vec<RouteId>,
    destination: Destination,
    asked: LaneSet,
    /// Those it waits for.
    awaited: LaneSet,
    awaited_count: usize,
    answers: HashMap<Lane, Zeroizing<Vec<u8>>>,
    is_complete: bool,
    /// At party one: who has answered party two.
    theirs: Option<LaneSet>,
}

/// Bytes of a member's ranking of so many routes.
pub(crate) fn ranking_len(form: Form, routes: usize) -> usize {
    (routes * form.ranking_bits()).div_ceil(8)
}

impl Round {
    /// Rows of the counted members' rankings for each route; other lanes are zero.
    pub(super) fn rankings(
        &self,
        form: Form,
        counted: &[u64],
        lanes: usize,
    ) -> Result<Vec<Vec<Vec<u64>>>, ExchangeError> {
        let bits = form.ranking_bits();
        let mut rows = vec![vec![vec![0_u64; lanes.div_ceil(64)]; bits]; self.ids.len()];
        let counted = LaneSet::from_words(counted.to_vec(), lanes)
            .ok_or(ExchangeError::OutOfStep("the lanes of a round"))?;
        for lane in counted.iter() {
            let answer = self.answers.get(&lane).ok_or(ExchangeError::OutOfStep("a ranking"))?;
            for (number, rows) in rows.iter_mut().enumerate() {
                for (bit, row) in rows.iter_mut().enumerate() {
                    let at = number * bits + bit;
                    let value = u64::from(answer[at / 8] >> (at % 8) & 1);
                    row[lane.index() / 64] |= value << (lane.0 % 64);
                }
            }
        }
        Ok(rows)
    }

    fn answered(&self, lanes: usize) -> LaneSet {
        let mut set = LaneSet::none(lanes);
        self.answers.keys().for_each(|lane| set.insert(*lane));
        set
    }

    /// Waits for a lane no more; whether it waits for nobody then.
    fn awaits_no_more(&mut self, lane: Lane) -> bool {
        if self.awaited.contains(lane) {
            self.awaited.remove(lane);
            self.awaited_count -= 1;
        }
        self.awaited_count == 0
    }
}

impl Rounds {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get(&self, position: u64) -> Option<&Round> {
        self.open.get(&position)
    }

    pub(super) fn has(&self, destination: &Destination) -> bool {
        self.by_destination.contains_key(destination)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|(_, deadline)| *deadline)
    }

    /// Rounds whose time is up wait no longer.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(entry) = self.deadlines.first_entry().filter(|entry| *entry.get() <= now) {
            let position = entry.remove_entry().0;
            let awaited = self.open.get(&position).map(|round| round.awaited.iter().collect());
            let awaited: Vec<Lane> = awaited.unwrap_or_default();
            awaited.into_iter().for_each(|lane| self.was_silent(lane, now));
            self.complete(position);
        }
    }

    fn was_silent(&mut self, lane: Lane, now: Instant) {
        let silence = self.silent.entry(lane).or_insert(Silence { times: 0, until: now });
        // Of rounds that waited at the same time one counts.
        if silence.until <= now {
            silence.times = (silence.times + 1).min(MOST_SILENCE);
            silence.until = now + SILENCE * (1 << silence.times);
        }
    }

    fn is_set_aside(&self, lane: Lane, now: Instant) -> bool {
        self.silent.get(&lane).is_some_and(|silence| silence.until > now)
    }

    /// A lane is gone: nobody waits for it.
    pub(super) fn part(&mut self, lane: Lane) {
        let mut complete = Vec::new();
        for (position, round) in &mut self.open {
            if round.asked.contains(lane) {
                round.asked.remove(lane);
                round.answers.remove(&lane);
                if round.awaits_no_more(lane) {
                    complete.push(*position);
                }
            }
        }
        complete.into_iter().for_each(|position| self.complete(position));
    }

    fn close(&mut self, position: u64) -> Option<Round> {
        let round = self.open.remove(&position)?;
        self.by_destination.remove(&round.destination);
        self.deadlines.remove(&position);
        self.decided.remove(&position);
        Some(round)
    }

    fn complete(&mut self, position: u64) {
        if let Some(round) = self.open.get_mut(&position).filter(|round| !round.is_complete) {
            round.is_complete = true;
            if round.theirs.is_some() {
                self.decided.insert(position);
            }
            self.deadlines.remove(&position);
            self.complete.push(position);
        }
    }
}

impl Shard {
    /// Both: a round begins.
    pub(super) fn ask(
        &mut self,
        position: u64,
        ids: Vec<RouteId>,
        lanes: Vec<u64>,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        let asked = LaneSet::from_words(lanes, self.connections.len());
        let asked = asked.ok_or(ExchangeError::OutOfStep("the lanes of a round"))?;
        let first = ids.first().and_then(|id| self.table.item_of(*id));
        let destination =
            first.and_then(|item| self.table.held(item)).map(|held| held.destination.clone());
        let destination = destination.ok_or(ExchangeError::OutOfStep("a round's route"))?;
        let current = self.table.current(&destination).filter_map(|item| self.table.held(item));
        if !current.map(|held| held.id).eq(ids.iter().copied()) || ids.len() > MAX_COMPARED {
            return Err(ExchangeError::OutOfStep("the routes of a round"));
        }
        self.rounds.by_destination.insert(destination.clone(), position);
        self.rounds.deadlines.insert(position, now + self.config.ranking);
        let round = Tag { epoch: self.tag(position).epoch, position };
        for lane in asked.iter() {
            self.tell(lane, &ToMember::Ask { round, ids: ids.clone() });
        }
        let mut awaited = asked.clone();
        for lane in asked.iter().filter(|lane| self.rounds.is_set_aside(*lane, now)) {
            awaited.remove(lane);
        }
        let round = Round {
            ids,
            destination,
            asked,
            awaited_count: awaited.iter().count(),
            awaited,
            answers: HashMap::new(),
            is_complete: false,
            theirs: None,
        };
        let waits_for_nobody = round.awaited_count == 0;
        self.rounds.open.insert(position, round);
        if waits_for_nobody {
            self.rounds.complete(position);
        }
        Ok(())
    }

    /// A member's ranking. What is for no round, or comes after its time, is counted and dropped.
    pub(super) fn take_ranking(
        &mut self,
        lane: Lane,
        tag: Tag,
        share: &[u8],
        _now: Instant,
    ) -> Result<(), ExchangeError> {
        let epoch = self.pair.as_ref().map(|pair| pair.epoch);
        let form = self.config.common.form;
        let round = self.rounds.open.get_mut(&tag.position).filter(|round| {
            Some(tag.epoch) == epoch && !round.is_complete && round.asked.contains(lane)
        });
        let Some(round) = round else {
            self.counters.late_rankings += 1;
            return Ok(());
        };
        if share.len() != ranking_len(form, round.ids.len()) {
            return Err(ExchangeError::Malformed("the length of a ranking"));
        }
        round.answers.entry(lane).or_insert_with(|| Zeroizing::new(share.to_vec()));
        let waits_for_nobody = round.awaits_no_more(lane);
        self.rounds.silent.remove(&lane);
        if waits_for_nobody {
            self.rounds.complete(tag.position);
        }
        Ok(())
    }

    /// Party two: says whose rankings are here, of rounds that wait no longer.
    pub(super) fn tell_answered(&mut self, _now: Instant) {
        for position in std::mem::take(&mut self.rounds.complete) {
            if let Some(round) = self.rounds.get(position) {
                let lanes = round.answered(self.connections.len()).words().to_vec();
                self.tell_peer(&PairMessage::Answered { round: position, lanes });
            }
        }
    }

    /// Party one: whose rankings party two has.
    pub(super) fn take_answered(
        &mut self,
        position: u64,
        lanes: Vec<u64>,
    ) -> Result<(), ExchangeError> {
        let lanes = LaneSet::from_words(lanes, self.connections.len());
        let lanes = lanes.ok_or(ExchangeError::Malformed("the lanes of a round"))?;
        if let Some(round) = self.rounds.open.get_mut(&position) {
            round.theirs = Some(lanes);
            if round.is_complete {
                self.rounds.decided.insert(position);
            }
        }
        Ok(())
    }

    /// Party one: the first rounds that can go on.
    pub(super) fn decided(&mut self, most: usize) -> Vec<u64> {
        self.rounds.complete.clear();
        self.rounds.decided.iter().copied().take(most).collect()
    }

    /// Party one: whose rankings count.
    pub(super) fn counted(&self, position: u64) -> Option<LaneSet> {
        let round = self.rounds.get(position)?;
        let mine = round.answered(self.connections.len());
        Some(mine.and(round.theirs.as_ref()?))
    }

    /// A round is over, without a result.
    pub(super) fn close_round(&mut self, position: u64) {
        let none = LaneSet::none(self.connections.len());
        self.close_round_but(position, &none);
    }

    /// A round is over. Party one tells those who were asked and do not count.
    pub(super) fn close_round_but(&mut self, position: u64, counted: &LaneSet) {
        let Some(round) = self.rounds.close(position) else { return };
        if self.party == Party::One {
            let tag = self.tag(position);
            for lane in round.asked.iter().filter(|lane| !counted.contains(*lane)) {
                self.counters.missed += 1;
                self.tell(lane, &ToMember::Missed { round: tag });
            }
        }
    }

    /// What is current of a lane for a destination is another: a round
    /// that compared it is void, and another will be.
    pub(super) fn destination_changed(&mut self, destination: &Destination, by: Lane) {
        if let Some(position) = self.rounds.by_destination.get(destination).copied() {
            self.rounds.close(position);
        }
        self.lead_destination_changed(destination, by);
    }
}

/// How long who was silent is not waited for, doubled for each time.
const SILENCE: Duration = Duration::from_secs(1);
/// Times that count: four minutes.
const MOST_SILENCE: u32 = 8;
