//! Party one: decides what both do next, from what both have heard.
//!
//! Invariant: an announcement is ordered only if both hold it, of each lane in the order in which it was said. What one of them lacks
//! though it has heard later words of the lane was taken back meanwhile, and is forgotten by the other.
//!
//! Lanes take turns, one announcement each, and so do kinds of orders, so that neither a full table nor a new member keeps the others
//! waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use rhumb_mpc::{MAX_ORDER_SLOTS, OrderSlot};

use super::orders::places;
use super::pair::Role;
use super::sync::Sync;
use super::{MAX_COMPARED, Shard};
use crate::ExchangeError;
use crate::circuits::Form;
use crate::config::ServerConfig;
use crate::message::Mark;
use crate::message::member::ToMember;
use crate::message::pair::{HeardWhat, Item, Order, PairMessage};
use crate::roster::{Lane, LaneSet};
use crate::route::{Destination, RouteId};

/// What party one keeps of a pair.
pub(super) struct Lead {
    pub(super) began: Instant,
    /// Party two has said what it held at the beginning.
    is_reconciled: bool,
    /// A former pair has exported something.
    had_former: bool,
    /// Members may be told what is gone.
    pub(super) is_settled: bool,
    /// What a former pair has exported, and is not current yet.
    awaited: BTreeSet<Item>,
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
    /// Destinations to ask about, with the lanes to ask, and their order.
    to_ask: HashMap<Destination, LaneSet>,
    ask_order: VecDeque<Destination>,
    pub(super) syncs: BTreeMap<Lane, Sync>,
    pub(super) replays: VecDeque<Lane>,
    /// What is done first, of exports, selections, questions and replays.
    turn: usize,
    /// Orders that come next, of which the first may wait for triples or for the engine's order.
    waiting: VecDeque<Order>,
    installing: Option<(u8, Option<u64>)>,
    /// What the engine's slots hold, the one used last at the end: announcers, in the order of places.
    pub(super) slots: Vec<(u8, Vec<Lane>)>,
}

/// What party two has heard of a lane.
#[derive(Default)]
struct Theirs {
    last: Mark,
    /// Its announcements, and whether it has exported them.
    held: BTreeMap<Mark, bool>,
    /// Connected, and whether it takes part in rounds.
    here: Option<bool>,
    /// Times that it was ordered to leave, and party two has not done so.
    leaving: u32,
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
    pub(super) fn new(lanes: usize, now: Instant) -> Self {
        Self {
            began: now,
            is_reconciled: false,
            had_former: false,
            is_settled: false,
            awaited: BTreeSet::new(),
            theirs: (0..lanes).map(|_| Theirs::default()).collect(),
            absent: (0..lanes).map(|lane| (Lane(lane as u16), now)).collect(),
            queues: (0..lanes).map(|_| VecDeque::new()).collect(),
            ready: VecDeque::new(),
            is_ready: vec![false; lanes],
            forget: Vec::new(),
            adopt: Vec::new(),
            parting: Vec::new(),
            leaving: Vec::new(),
            to_ask: HashMap::new(),
            ask_order: VecDeque::new(),
            syncs: BTreeMap::new(),
            replays: VecDeque::new(),
            turn: 0,
            waiting: VecDeque::new(),
            installing: None,
            slots: Vec::new(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    pub(super) fn timeout(&self, config: &ServerConfig) -> Option<Instant> {
        let stale = self.absent.values().min().map(|since| *since + config.stale);
        let settle = (!self.is_settled).then_some(self.began + config.settle);
        [stale, settle].into_iter().flatten().min()
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

    fn ask_later(&mut self, destination: &Destination, lanes: &LaneSet) {
        match self.to_ask.get_mut(destination) {
            Some(asked) => lanes.iter().for_each(|lane| asked.insert(lane)),
            None => {
                self.to_ask.insert(destination.clone(), lanes.clone());
                self.ask_order.push_back(destination.clone());
            }
        }
    }
}

/// What the first words of the lanes come to.
enum Next {
    /// It goes into the next run.
    Export(Item),
    Do(Order),
    /// Nothing to do for both.
    Skip,
    /// Party two has not heard it.
    Wait,
}

impl Shard {
    pub(super) fn lead(&mut self) -> Option<&mut Lead> {
        match self.pair.as_mut().map(|pair| &mut pair.role) {
            Some(Role::Lead(lead)) => Some(lead),
            _ => None,
        }
    }

    /// A pair has begun: all that is held waits.
    pub(super) fn begin_lead(&mut self, now: Instant) {
        let lanes = (0..self.connections.len()).map(|lane| Lane(lane as u16));
        for lane in lanes {
            let items: Vec<(Mark, bool)> =
                self.table.items(lane).map(|(mark, held)| (mark, held.exported)).collect();
            let Some(lead) = self.lead() else { return };
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

    /// This party has heard a word of a lane, and it is in the table.
    pub(super) fn lead_heard(
        &mut self,
        lane: Lane,
        before: Mark,
        mark: Mark,
        what: HeardWhat,
        withdrawn: Option<Destination>,
    ) {
        let Some(lead) = self.lead() else { return };
        let theirs = &lead.theirs[lane.index()];
        if before < mark {
            use std::ops::Bound::Excluded;
            let between = theirs.held.range((Excluded(before), Excluded(mark)));
            let passed: Vec<Item> = between.map(|(mark, _)| (lane, *mark)).collect();
            lead.forget.extend(passed);
        }
        let what = match (what, withdrawn) {
            (HeardWhat::Nothing, Some(destination)) => What::Withdraw(destination),
            (HeardWhat::Nothing, None) => What::End,
            _ => What::Announce,
        };
        lead.push(lane, mark, what);
    }

    /// A lane's connections have changed, or may have.
    pub(super) fn lane_changed(&mut self, lane: Lane, now: Instant) {
        let connection = self.connections[lane.index()];
        let Some(lead) = self.lead() else { return };
        let is_here = connection.is_connected && lead.theirs[lane.index()].here.is_some();
        if is_here {
            lead.absent.remove(&lane);
        } else {
            lead.absent.entry(lane).or_insert(now);
        }
        lead.wake(lane);
        // Whoever has another connection joins anew, at a place that both parties mark.
        if connection.joined.is_some() && !lead.parting.contains(&lane) {
            lead.parting.push(lane);
        }
    }

    pub(super) fn take_note(
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
            PairMessage::Engine(_) | PairMessage::Order { .. } => {
                return Err(ExchangeError::Unexpected("an order of party two"));
            }
        }
        Ok(())
    }

    fn their(&mut self, lane: Lane) -> Result<&mut Theirs, ExchangeError> {
        let theirs = self.lead().and_then(|lead| lead.theirs.get_mut(lane.index()));
        theirs.ok_or(ExchangeError::Malformed("a lane"))
    }

    fn take_heard(&mut self, item: Item, what: HeardWhat) -> Result<(), ExchangeError> {
        let (lane, mark) = item;
        let most = 2 * self.config.max_routes_per_lane;
        let theirs = self.their(lane)?;
        if theirs.leaving > 0 {
            return Ok(());
        }
        theirs.last = theirs.last.max(mark);
        let is_exported = what == HeardWhat::Exported;
        if what != HeardWhat::Nothing {
            if theirs.held.len() >= most {
                return Err(ExchangeError::TooMany { what: "routes of one lane in a shard", most });
            }
            theirs.held.insert(mark, is_exported);
        }
        let is_superseded = self.table.held(item).is_none() && mark <= self.table.last(lane);
        let Some(lead) = self.lead() else { return Ok(()) };
        if is_exported {
            lead.had_former = true;
            lead.awaited.insert(item);
        }
        if is_superseded && what != HeardWhat::Nothing {
            lead.forget.push(item);
        }
        lead.wake(lane);
        Ok(())
    }

    /// Orders what can be done, up to a run.
    pub(super) fn lead_on(&mut self, now: Instant) -> Result<(), ExchangeError> {
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

    /// Whether the triples and the engine's order that it takes are there. If not, they are asked for.
    fn can_run(&mut self, order: &Order) -> Result<bool, ExchangeError> {
        let [bit_words, vector_words] = self.needs(order)?;
        let Some(pair) = &mut self.pair else { return Ok(false) };
        let stock = pair.session.stock();
        if stock.bit_words < bit_words || stock.vector_words < vector_words {
            pair.session.refill()?;
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
        self.settle(now);
        self.look_at_syncs();
        let turn = self.lead()?.turn;
        // Twice: a member that has everything now is asked about all.
        for kind in (0..8).map(|kind| (turn + kind) % 4) {
            let order = match kind {
                0 => self.next_words(),
                1 => self.select_order(),
                2 => self.next_question(),
                _ => self.next_replay(),
            };
            if order.is_some() {
                self.lead()?.turn = (kind + 1) % 4;
                return order;
            }
        }
        None
    }

    fn forget(&mut self) -> Order {
        let items = self.lead().map(|lead| std::mem::take(&mut lead.forget)).unwrap_or_default();
        items.iter().for_each(|item| self.lead_dropped(*item));
        Order::Forget(items)
    }

    /// Members that came or went.
    fn next_membership(&mut self) -> Option<Order> {
        let lead = self.lead()?;
        if let Some(lane) = lead.parting.pop() {
            lead.syncs.remove(&lane);
            return Some(Order::Part(lane));
        }
        if let Some(lane) = lead.leaving.pop() {
            return Some(Order::Leave(lane));
        }
        let lanes = (0..self.connections.len()).map(|lane| Lane(lane as u16));
        for lane in lanes {
            let connection = self.connections[lane.index()];
            if connection.is_connected && connection.joined.is_none() {
                let participates = connection.participates;
                if let Some(theirs) = self.lead()?.theirs[lane.index()].here {
                    return Some(Order::Join { lane, participates: participates && theirs });
                }
            }
        }
        None
    }

    /// What members have said: one run of announcements, or something that comes before it.
    fn next_words(&mut self) -> Option<Order> {
        let most = self.config.batch;
        let mut batch: Vec<Item> = Vec::new();
        let mut first = None;
        while batch.len() < most && first.is_none() && self.lead()?.adopt.len() < MAX_ADOPTED {
            let Some(lane) = self.lead()?.ready.pop_front() else { break };
            self.lead()?.is_ready[lane.index()] = false;
            match self.next_word(lane) {
                Next::Wait => continue,
                Next::Skip => {}
                Next::Export(item) => batch.push(item),
                Next::Do(order) => first = Some(order),
            }
            self.lead()?.wake(lane);
        }
        let lead = self.lead()?;
        if !lead.adopt.is_empty() {
            lead.waiting.extend(first);
            first = Some(Order::Adopt(std::mem::take(&mut lead.adopt)));
        }
        if !batch.is_empty() {
            lead.waiting.push_back(Order::Export(batch));
        }
        first.or_else(|| lead.waiting.pop_front())
    }

    /// Takes a lane's first word, unless it waits.
    ///
    /// No word before it waits for a run: an announcement that a later word takes back is not the lane's latest, and is dropped.
    fn next_word(&mut self, lane: Lane) -> Next {
        let Some(lead) = self.lead() else { return Next::Wait };
        let Some(Word { mark, what }) = lead.queues[lane.index()].pop_front() else {
            return Next::Wait;
        };
        let item = (lane, mark);
        let theirs = &lead.theirs[lane.index()];
        let (their_word, their_last) = (theirs.held.get(&mark).copied(), theirs.last);
        match what {
            What::Withdraw(destination) => {
                let current = self.table.current(&destination).find(|(other, _)| *other == lane);
                let id = current.and_then(|item| self.table.held(item)).map(|held| held.id);
                id.map_or(Next::Skip, |id| Next::Do(Order::Remove(vec![id])))
            }
            What::End => self.end(lane, mark),
            What::Announce => {
                let Some(held) = self.table.held(item) else { return Next::Skip };
                let was_exported = held.exported || their_word == Some(true);
                if !self.table.is_latest(item, &held.destination) {
                    self.drop_word(item, their_word.is_some());
                    return Next::Skip;
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

    /// A lane has said all that it began with: what earlier incarnations had is gone.
    fn end(&mut self, lane: Lane, mark: Mark) -> Next {
        let is_old = |other: &Mark| other.incarnation < mark.incarnation;
        let old: Vec<(Mark, RouteId, bool)> = self
            .table
            .items(lane)
            .take_while(|(other, _)| is_old(other))
            .map(|(other, held)| (other, held.id, held.current.is_some()))
            .collect();
        let mut ids = Vec::new();
        for (other, id, is_current) in old {
            if is_current {
                ids.push(id);
            } else {
                self.table.drop_item((lane, other));
            }
        }
        let theirs = self.lead().map(|lead| {
            let theirs = lead.theirs[lane.index()].held.keys();
            theirs.take_while(|other| is_old(other)).map(|other| (lane, *other)).collect()
        });
        let mut theirs: Vec<Item> = theirs.unwrap_or_default();
        theirs.retain(|item| self.table.held(*item).is_none());
        if let Some(lead) = self.lead() {
            lead.forget.extend(theirs);
        }
        if ids.is_empty() { Next::Skip } else { Next::Do(Order::Remove(ids)) }
    }

    /// Both have made this current; the lane's former route is gone.
    pub(super) fn lead_current(&mut self, item: Item, former: Option<(Mark, RouteId)>, since: u64) {
        let id = self.table.held(item).map(|held| held.id);
        let Some(lead) = self.lead() else { return };
        lead.awaited.remove(&item);
        let theirs = &mut lead.theirs[item.0.index()];
        theirs.held.insert(item.1, true);
        if let Some((mark, _)) = former {
            theirs.held.remove(&mark);
            lead.awaited.remove(&(item.0, mark));
        }
        let (Some(id), 0) = (id, since) else { return };
        // Those who have said what they hold before this may lack it.
        for (lane, sync) in &mut lead.syncs {
            if sync.late_adoption(id) {
                lead.replays.push_back(*lane);
            }
        }
        if let Some((_, former)) = former {
            let tag = self.tag(self.pair.as_ref().map_or(0, |pair| pair.position));
            for lane in self.joined() {
                self.tell(lane, &ToMember::Retract { tag, ids: vec![former] });
            }
        }
    }

    /// An announcement is held no more, at neither party.
    pub(super) fn lead_dropped(&mut self, item: Item) {
        if let Some(lead) = self.lead() {
            lead.awaited.remove(&item);
            lead.theirs[item.0.index()].held.remove(&item.1);
        }
    }

    pub(super) fn lead_left(&mut self, lane: Lane) {
        let Some(lead) = self.lead() else { return };
        lead.queues[lane.index()].clear();
        lead.awaited.retain(|(other, _)| *other != lane);
        let theirs = &mut lead.theirs[lane.index()];
        theirs.held.clear();
        theirs.last = Mark::default();
        theirs.leaving += 1;
    }

    /// Lanes that were gone for too long leave.
    pub(super) fn leave_stale(&mut self, now: Instant) {
        let stale = self.config.stale;
        let Some(lead) = self.lead() else { return };
        let gone = lead.absent.iter().filter(|(_, since)| now >= **since + stale);
        let gone: Vec<Lane> = gone.map(|(lane, _)| *lane).collect();
        for lane in gone {
            if let Some(lead) = self.lead() {
                lead.absent.remove(&lane);
            }
            self.take_bye(lane);
        }
    }

    /// A lane leaves, and what it has said.
    pub(super) fn take_bye(&mut self, lane: Lane) {
        let has_words = self.table.len(lane) > 0 || self.table.last(lane).number > 0;
        let Some(lead) = self.lead() else { return };
        let theirs = &lead.theirs[lane.index()];
        if has_words || !theirs.held.is_empty() || theirs.last.number > 0 {
            lead.queues[lane.index()].clear();
            if !lead.leaving.contains(&lane) {
                lead.leaving.push(lane);
            }
        }
    }

    /// Members may be told what is gone once the tables of a former pair are here, or their time is up.
    fn settle(&mut self, now: Instant) {
        let deadline = self.config.settle;
        let Some(lead) = self.lead() else { return };
        if lead.is_settled {
            return;
        }
        let is_late = now >= lead.began + deadline;
        let has_all = lead.had_former && lead.awaited.is_empty();
        if !is_late && !has_all {
            return;
        }
        let lanes = (0..self.connections.len()).map(|lane| Lane(lane as u16));
        let mut lanes = lanes.filter(|lane| self.connections[lane.index()].joined.is_some());
        if is_late || lanes.all(|lane| self.table.has_ended(lane)) {
            if let Some(lead) = self.lead() {
                lead.is_settled = true;
            }
        }
    }

    /// What is current for a destination is another: ask all.
    pub(super) fn lead_destination_changed(&mut self, destination: &Destination) {
        let mut lanes = LaneSet::none(self.connections.len());
        (0..self.connections.len()).for_each(|lane| lanes.insert(Lane(lane as u16)));
        if let Some(lead) = self.lead() {
            lead.ask_later(destination, &lanes);
        }
    }

    /// A lane is to be asked about all destinations with several routes.
    pub(super) fn ask_about_all(&mut self, lane: Lane) {
        let mut lanes = LaneSet::none(self.connections.len());
        lanes.insert(lane);
        let contested: Vec<Destination> = self.table.contested().cloned().collect();
        let Some(lead) = self.lead() else { return };
        contested.iter().for_each(|destination| lead.ask_later(destination, &lanes));
    }

    /// The next round, if there is room for one.
    fn next_question(&mut self) -> Option<Order> {
        let looks = self.lead()?.ask_order.len();
        for _ in 0..looks {
            if self.rounds.len() >= MAX_ROUNDS {
                return None;
            }
            let destination = self.lead()?.ask_order.pop_front()?;
            if self.rounds.has(&destination) {
                self.lead()?.ask_order.push_back(destination);
                continue;
            }
            let lanes = self.lead()?.to_ask.remove(&destination)?;
            let mut asked = LaneSet::none(self.connections.len());
            for lane in lanes.iter() {
                if self.connections[lane.index()]
                    .joined
                    .is_some_and(|(_, participates)| participates)
                {
                    asked.insert(lane);
                }
            }
            let count = self.table.current_len(&destination);
            if asked.is_empty() || !(2..=MAX_COMPARED).contains(&count) {
                continue;
            }
            let ids = self.table.current(&destination).filter_map(|item| self.table.held(item));
            let ids = ids.map(|held| held.id).collect();
            return Some(Order::Ask { ids, lanes: asked.words().to_vec() });
        }
        None
    }

    /// The next result, and the engine's order for it.
    fn select_order(&mut self) -> Option<Order> {
        let (round, lanes) = self.next_selection()?;
        let form = self.config.common.form;
        let slot =
            if form == Form::TopClass && !lanes.is_empty() { self.slot_for(round)? } else { 0 };
        Some(Order::Select { round, lanes: lanes.words().to_vec(), slot })
    }

    /// The slot that holds the order of a round's announcers, which may be installed first.
    fn slot_for(&mut self, round: u64) -> Option<u8> {
        let ids = &self.rounds.get(round)?.ids;
        let announcers: Vec<Lane> =
            ids.iter().filter_map(|id| self.table.item_of(*id)).map(|(lane, _)| lane).collect();
        let places = places(Form::TopClass, announcers.len());
        let slots = &mut self.lead()?.slots;
        if let Some(at) = slots.iter().position(|(_, others)| *others == announcers) {
            let used = slots.remove(at);
            let slot = used.0;
            slots.push(used);
            return Some(slot);
        }
        let slot =
            if slots.len() < MAX_ORDER_SLOTS { slots.len() as u8 } else { slots.remove(0).0 };
        slots.push((slot, announcers.clone()));
        // The preferred first; of announcers alike, the lower lane.
        let mut order: Vec<u32> = (0..places as u32).collect();
        let preference = |place: &u32| {
            announcers.get(*place as usize).map(|lane| self.preferences[lane.index()])
        };
        order.sort_by_key(|place| std::cmp::Reverse(preference(place)));
        let pair = self.pair.as_mut()?;
        let former = pair.order_epoch(slot);
        if let Err(error) = pair.session.install_order(OrderSlot(slot), &order) {
            self.fail_pair(error.into());
            return None;
        }
        self.counters.orders_installed += 1;
        self.flush_engine();
        self.lead()?.installing = Some((slot, former));
        Some(slot)
    }
}

/// Rounds under way at a time: each waits for its slowest member.
const MAX_ROUNDS: usize = 256;

/// Announcements of one order: 72 KB.
const MAX_ADOPTED: usize = 4096;
