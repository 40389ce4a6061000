//! Party one: decides what both do next, from what both have heard.
//!
//! Lanes take turns, one announcement each, and so do kinds of orders, so that neither a full table
//! nor a new member keeps the others waiting.

mod presence;
mod questions;
mod sync;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use self::sync::Sync;
use super::Role;
use crate::ExchangeError;
use crate::config::ServerConfig;
use crate::message::Mark;
use crate::message::pair::{Item, Order, PairMessage};
use crate::roster::Lane;
use crate::route::{Destination, RouteId};
use crate::shard::Shard;
use crate::shard::select::SELECTIONS;
use crate::shard::sweep::Sweep;
use questions::Questions;

/// What party one keeps of a pair.
pub(in crate::shard) struct Lead {
    pub(in crate::shard) began: Instant,
    /// Party two has said what it held at the beginning.
    is_reconciled: bool,
    /// A former pair has exported something.
    had_former: bool,
    /// Members may be told what is gone.
    pub(in crate::shard) is_settled: bool,
    /// What a former pair has exported, and is not current yet.
    awaited: BTreeSet<Item>,
    /// Lanes that had routes when this pair began, each
    /// with the first incarnation of which one was.
    former: BTreeMap<Lane, u64>,
    theirs: Vec<Theirs>,
    /// Since when a lane is not connected to both.
    absent: BTreeMap<Lane, Instant>,
    queues: Vec<VecDeque<Word>>,
    /// Lanes whose first word may be ready, each once.
    ready: VecDeque<Lane>,
    is_ready: Vec<bool>,
    /// What party two is to forget, or both.
    forget: Vec<Item>,
    adopt: Vec<Item>,
    /// Lanes whose connection is another, and lanes that leave.
    parting: Vec<Lane>,
    leaving: Vec<Lane>,
    /// Lanes that are connected to both, and have not joined.
    joining: BTreeSet<Lane>,
    questions: Questions,
    pub(in crate::shard) syncs: BTreeMap<Lane, Sync>,
    /// Lanes that have said what they hold: to look at now, and once the pair has settled.
    pub(in crate::shard) said: Vec<Lane>,
    pub(in crate::shard) said_early: Vec<Lane>,
    pub(in crate::shard) replays: VecDeque<Lane>,
    /// What is done first, of exports, selections, questions and replays.
    turn: usize,
    /// Asked in this turn.
    asked: usize,
    /// Orders that come next, of which the first may wait for triples or for the engine's order.
    waiting: VecDeque<Order>,
    installing: Option<(u8, Option<u64>)>,
    /// Slots of the engine whose order holds, the one used last at the end.
    pub(in crate::shard) slots: Vec<u8>,
    /// The order to hand out that party two has not done yet.
    pub(in crate::shard) undone: Option<u64>,
    /// In which round a lane's route was compared last.
    compared: Vec<u64>,
    pub(in crate::shard) sweep: Sweep,
}

/// What party two has heard of a lane.
#[derive(Default)]
struct Theirs {
    last: Mark,
    /// Its announcements.
    held: BTreeMap<Mark, TheirRoute>,
    /// Those that it refused, and party one has or may still hear.
    refused: BTreeSet<Mark>,
    /// Connected, and whether it takes part in rounds.
    here: Option<bool>,
    /// Times that it was ordered to leave, and party two has not done so.
    leaving: u32,
}

/// An announcement that party two has heard.
#[derive(Clone, Copy)]
struct TheirRoute {
    id: RouteId,
    is_exported: bool,
}

/// One of a lane's words that wait.
struct Word {
    mark: Mark,
    what: What,
}

enum What {
    Announce,
    Withdraw(Destination),
    End,
}

impl Lead {
    pub(in crate::shard) fn new(lanes: usize, now: Instant, pass: Duration) -> Self {
        Self {
            began: now,
            is_reconciled: false,
            had_former: false,
            is_settled: false,
            awaited: BTreeSet::new(),
            former: BTreeMap::new(),
            theirs: (0..lanes).map(|_| Theirs::default()).collect(),
            absent: (0..lanes).map(|lane| (Lane(lane as u16), now)).collect(),
            queues: (0..lanes).map(|_| VecDeque::new()).collect(),
            ready: VecDeque::new(),
            is_ready: vec![false; lanes],
            forget: Vec::new(),
            adopt: Vec::new(),
            parting: Vec::new(),
            leaving: Vec::new(),
            joining: BTreeSet::new(),
            questions: Questions::default(),
            syncs: BTreeMap::new(),
            said: Vec::new(),
            said_early: Vec::new(),
            replays: VecDeque::new(),
            turn: 0,
            asked: 0,
            waiting: VecDeque::new(),
            installing: None,
            slots: Vec::new(),
            undone: None,
            compared: vec![0; lanes],
            sweep: Sweep::new(now, pass),
        }
    }

    /// Whether no word waits, and no order.
    pub(in crate::shard) fn is_quiet(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty()
    }

    pub(in crate::shard) fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    pub(in crate::shard) fn timeout(&self, config: &ServerConfig) -> Option<Instant> {
        let stale = self.absent.iter().map(|(lane, since)| stale_at(config, *lane, *since)).min();
        let settle = (!self.is_settled).then_some(self.began + config.settle);
        [stale, settle, Some(self.sweep.due)].into_iter().flatten().min()
    }

    /// Words of a lane that wait.
    pub(in crate::shard) fn waiting_of(&self, lane: Lane) -> usize {
        self.queues[lane.index()].len()
    }

    fn push(&mut self, lane: Lane, mark: Mark, what: What) {
        self.queues[lane.index()].push_back(Word { mark, what });
        self.wake(lane);
    }

    fn wake(&mut self, lane: Lane) {
        if !self.queues[lane.index()].is_empty() && !self.is_ready[lane.index()] {
            self.is_ready[lane.index()] = true;
            self.ready.push_back(lane);
        }
    }
}

/// When a lane that is not there leaves; at once if its site is gone.
fn stale_at(config: &ServerConfig, lane: Lane, since: Instant) -> Instant {
    if config.common.roster.is_closed(lane) { since } else { since + config.stale }
}

impl Shard {
    pub(in crate::shard) fn lead(&mut self) -> Option<&mut Lead> {
        match self.pair.as_mut().map(|pair| &mut pair.role) {
            Some(Role::Lead(lead)) => Some(lead),
            _ => None,
        }
    }

    /// A pair has begun: all that is held waits.
    pub(in crate::shard) fn begin_lead(&mut self, now: Instant) {
        let lanes = (0..self.connections.len()).map(|lane| Lane(lane as u16));
        for lane in lanes {
            let items: Vec<(Mark, bool)> =
                self.table.items(lane).map(|(mark, held)| (mark, held.exported)).collect();
            let Some(lead) = self.lead() else { return };
            if let Some((first, _)) = items.first() {
                lead.former.insert(lane, first.incarnation);
            }
            for (mark, exported) in items {
                lead.push(lane, mark, What::Announce);
                if exported {
                    lead.had_former = true;
                    lead.awaited.insert((lane, mark));
                }
            }
            self.lane_changed(lane, now);
        }
    }

    /// Orders what can be done, up to a run.
    pub(in crate::shard) fn lead_on(&mut self, now: Instant) -> Result<(), ExchangeError> {
        loop {
            let Some(pair) = &self.pair else { return Ok(()) };
            let is_busy = pair.running.is_some() || !pair.session.is_ready();
            if is_busy || !self.lead().is_some_and(|lead| lead.is_reconciled) {
                return Ok(());
            }
            let Some(order) = self.next_order(now) else { return Ok(()) };
            if !self.can_run(&order)? {
                if let Some(lead) = self.lead() {
                    lead.waiting.push_front(order);
                }
                return Ok(());
            }
            let Some(pair) = &mut self.pair else { return Ok(()) };
            pair.position += 1;
            let position = pair.position;
            let message = PairMessage::Order { position, order };
            self.tell_peer(&message);
            let PairMessage::Order { order, .. } = message else { return Ok(()) };
            self.perform(position, order, now)?;
        }
    }

    /// Whether the triples and the engine's order that it
    /// takes are there. If not, they are asked for.
    fn can_run(&mut self, order: &Order) -> Result<bool, ExchangeError> {
        let [bit_words, vector_words] = self.needs(order)?;
        let Some(pair) = &mut self.pair else { return Ok(false) };
        let stock = pair.session.stock();
        if stock.bit_words < bit_words || stock.vector_words < vector_words {
            let more = |words| if words == 0 { 0 } else { words + MORE_WORDS };
            let [bits, vectors] = [bit_words, vector_words].map(more);
            while pair.session.provide([bits, vectors])? {}
            self.flush_engine();
            return Ok(false);
        }
        let installing = self.lead().and_then(|lead| lead.installing);
        if let Some((slot, former)) = installing {
            let Some(pair) = &self.pair else { return Ok(false) };
            if pair.order_epoch(slot) == former {
                return Ok(false);
            }
            if let Some(lead) = self.lead() {
                lead.installing = None;
            }
        }
        Ok(true)
    }

    fn next_order(&mut self, now: Instant) -> Option<Order> {
        if let Some(order) = self.lead()?.waiting.pop_front() {
            return Some(order);
        }
        if let Some(order) = self.next_membership() {
            return Some(order);
        }
        let lead = self.lead()?;
        if !lead.forget.is_empty() {
            return Some(self.forget());
        }
        let turn = self.lead()?.turn;
        // Twice: with the last words a pair may settle, and a member
        // that has everything now is asked about all.
        for at in 0..8 {
            if at % 4 == 0 {
                self.settle(now);
                self.look_at_syncs();
            }
            let kind = (turn + at) % 4;
            let may_hand_out = self.lead()?.undone.is_none();
            let order = match kind {
                0 if may_hand_out => self.next_words(),
                1 => self.select_order(),
                2 => self.next_question(),
                3 if may_hand_out => self.next_replay(),
                _ => None,
            };
            if order.is_some() {
                let lead = self.lead()?;
                // Questions take no run: those that are answered
                // at the same time are computed together.
                lead.asked = if kind == 2 { lead.asked + 1 } else { 0 };
                let goes_on = (1..SELECTIONS).contains(&lead.asked);
                lead.turn = if goes_on { kind } else { (kind + 1) % 4 };
                return order;
            }
        }
        None
    }

    fn forget(&mut self) -> Order {
        let items = self.lead().map(|lead| {
            let first = lead.forget.len().saturating_sub(words::MAX_ITEMS);
            lead.forget.split_off(first)
        });
        let items = items.unwrap_or_default();
        items.iter().for_each(|item| self.lead_dropped(*item));
        Order::Forget(items)
    }
}

/// Words of triples that are made besides those which a
/// run waits for: the next will want some, too.
const MORE_WORDS: u64 = 1024;
