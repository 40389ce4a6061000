//! Which rounds are begun, and with which order of the engine they are decided.
//!
//! Lanes take turns here, too: neither one that changes a full table nor one that joins, and is to
//! be asked about all, keeps others' changes waiting. What has changed comes before what has not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use rhumb_mpc::{MAX_ORDER_SLOTS, OrderSlot};

use super::Lead;
use crate::ExchangeError;
use crate::circuits::Form;
use crate::message::pair::{Order, Selection};
use crate::roster::{Lane, LaneSet};
use crate::route::Destination;
use crate::shard::orders::places;
use crate::shard::pair::Role;
use crate::shard::select::SELECTIONS;
use crate::shard::{MAX_COMPARED, Shard};

/// Destinations to ask about, in their order.
#[derive(Default)]
pub(super) struct Questions {
    waiting: HashMap<Destination, (LaneSet, Turn)>,
    queue: BTreeMap<Turn, Destination>,
    /// The turn of the last that was asked about, and the last turn of each lane.
    asked: [u64; 2],
    last: HashMap<(bool, Lane), u64>,
    numbers: u64,
}

/// The least is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// It has not changed.
    is_old: bool,
    /// In each, every lane has one.
    turn: u64,
    number: u64,
}

impl Questions {
    /// Asks `lanes`, because of what `by` has announced,
    /// or, about what is old, because it has joined.
    fn ask(&mut self, destination: &Destination, lanes: &LaneSet, by: Lane, is_old: bool) {
        if let Some((asked, turn)) = self.waiting.get_mut(destination) {
            lanes.iter().for_each(|lane| asked.insert(lane));
            if !turn.is_old || is_old {
                return;
            }
        }
        let last = self.last.entry((is_old, by)).or_default();
        *last = self.asked[usize::from(is_old)].max(*last) + 1;
        self.numbers += 1;
        let turn = Turn { is_old, turn: *last, number: self.numbers };
        match self.waiting.get_mut(destination) {
            Some((_, old)) => {
                self.queue.remove(old);
                *old = turn;
            }
            None => {
                self.waiting.insert(destination.clone(), (lanes.clone(), turn));
            }
        }
        self.queue.insert(turn, destination.clone());
    }

    /// The next after another.
    fn next(&self, after: Option<Turn>) -> Option<(Turn, &Destination)> {
        let least = after.map_or(Unbounded, Excluded);
        self.queue.range((least, Unbounded)).next().map(|(turn, destination)| (*turn, destination))
    }

    fn take(&mut self, turn: Turn) -> Option<LaneSet> {
        let asked = &mut self.asked[usize::from(turn.is_old)];
        // Less, if it had to wait for a round of its destination.
        *asked = turn.turn.max(*asked);
        let destination = self.queue.remove(&turn)?;
        self.waiting.remove(&destination).map(|(lanes, _)| lanes)
    }
}

impl Lead {
    /// Asks about what has not changed, because of nothing that anybody did.
    pub(in crate::shard) fn ask_about_old(&mut self, destination: &Destination, lanes: &LaneSet) {
        self.questions.ask(destination, lanes, NOBODY, true);
    }
}

impl Shard {
    /// What is current of a lane for a destination is another: ask all.
    pub(in crate::shard) fn lead_destination_changed(
        &mut self,
        destination: &Destination,
        by: Lane,
    ) {
        let lanes = self.all_lanes();
        if let Some(lead) = self.lead() {
            lead.questions.ask(destination, &lanes, by, false);
        }
    }

    /// A lane is to be asked about all destinations with several routes.
    pub(in crate::shard) fn ask_about_all(&mut self, lane: Lane) {
        let mut lanes = LaneSet::none(self.connections.len());
        lanes.insert(lane);
        let mut contested: Vec<Destination> = self.table.contested().cloned().collect();
        // In an order that is the same for the same history.
        contested.sort_unstable();
        let Some(lead) = self.lead() else { return };
        contested.iter().for_each(|it| lead.questions.ask(it, &lanes, lane, true));
    }

    /// The next round, if there is room for one.
    pub(super) fn next_question(&mut self) -> Option<Order> {
        let mut after = None;
        loop {
            let (turn, destination) = self.lead()?.questions.next(after)?;
            let (most, destination) =
                (if turn.is_old { MAX_BACKLOG } else { MAX_ROUNDS }, destination.clone());
            if self.rounds.len() >= most {
                return None;
            }
            if self.rounds.has(&destination) {
                after = Some(turn);
                continue;
            }
            let lanes = self.lead()?.questions.take(turn)?;
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
    }

    /// The next results, or the order of the engine that the first of them needs.
    pub(super) fn select_order(&mut self) -> Option<Order> {
        let stock = self.pair.as_ref()?.stock();
        let (mut selections, mut needed) = (Vec::new(), [0; 2]);
        for round in self.decided(LOOKS) {
            let lanes = self.counted(round)?;
            let slot = match self.slot_for(round, &lanes) {
                Some(slot) => slot,
                None if selections.is_empty() => return self.arrange_order(round),
                None => continue,
            };
            let selection = Selection { round, lanes: lanes.words().to_vec(), slot };
            // The first waits for triples, others do not.
            let [bits, vectors] = self.select_needs(std::slice::from_ref(&selection)).ok()?;
            needed = [needed[0] + bits, needed[1] + vectors];
            let is_there = needed[0] <= stock.bit_words && needed[1] <= stock.vector_words;
            if !selections.is_empty() && !is_there {
                break;
            }
            selections.push(selection);
            if selections.len() == SELECTIONS {
                break;
            }
        }
        (!selections.is_empty()).then_some(Order::Select(selections))
    }

    /// The slot whose order has a round's announcers, if
    /// there is one; any if the circuit takes none.
    fn slot_for(&mut self, round: u64, counted: &LaneSet) -> Option<u8> {
        if self.config.common.form != Form::TopClass || counted.is_empty() {
            return Some(0);
        }
        let announcers = self.announcers(round)?;
        let pair = self.pair.as_mut()?;
        let Role::Lead(lead) = &mut pair.role else { return None };
        announcers.iter().for_each(|lane| lead.compared[lane.index()] = round);
        let needed = announcers.len().next_power_of_two();
        let at = lead.slots.iter().rposition(|slot| {
            let arranged = &pair.arrangements[usize::from(*slot)];
            arranged.len().next_power_of_two() == needed
                && announcers.iter().all(|lane| arranged.binary_search(lane).is_ok())
        })?;
        let slot = lead.slots.remove(at);
        lead.slots.push(slot);
        Some(slot)
    }

    fn announcers(&self, round: u64) -> Option<Vec<Lane>> {
        let ids = &self.rounds.get(round)?.ids;
        ids.iter().map(|id| Some(self.table.item_of(*id)?.0)).collect()
    }

    /// An order of a round's announcers. Places that are left go to the lanes that were compared
    /// last: the next destination may be theirs.
    fn arrange_order(&mut self, round: u64) -> Option<Order> {
        let mut announcers = self.announcers(round)?;
        let lead = self.lead()?;
        let left = announcers.len().next_power_of_two() - announcers.len();
        let lanes = (0..lead.compared.len()).map(|lane| Lane(lane as u16));
        let mut others: Vec<Lane> = lanes
            .filter(|lane| lead.compared[lane.index()] > 0 && !announcers.contains(lane))
            .collect();
        others.sort_by_key(|lane| Reverse(lead.compared[lane.index()]));
        announcers.extend(others.into_iter().take(left));
        announcers.sort_unstable();
        let is_full = lead.slots.len() == MAX_ORDER_SLOTS;
        let slot = if is_full { lead.slots.remove(0) } else { lead.slots.len() as u8 };
        lead.slots.push(slot);
        Some(Order::Arrange { slot, announcers })
    }

    /// Party one: gives a slot the order of its announcers.
    pub(in crate::shard) fn install(&mut self, slot: u8) -> Result<(), ExchangeError> {
        let Some(pair) = &mut self.pair else { return Ok(()) };
        let announcers = &pair.arrangements[usize::from(slot)];
        let places = places(Form::TopClass, announcers.len());
        // The preferred first; of announcers alike, the lower lane.
        let mut order: Vec<u32> = (0..places as u32).collect();
        let preference = |place: &u32| {
            announcers.get(*place as usize).map(|lane| self.preferences.in_force[lane.index()])
        };
        order.sort_by_key(|place| Reverse(preference(place)));
        let former = pair.order_epoch(slot);
        pair.session.install_order(OrderSlot(slot), &order)?;
        self.counters.orders_installed += 1;
        self.flush_engine();
        if let Some(lead) = self.lead() {
            lead.installing = Some((slot, former));
        }
        Ok(())
    }
}

/// Rounds under way at a time: each waits for its slowest member.
const MAX_ROUNDS: usize = 256;
/// Of them about what has not changed: as many keep the engine busy, at 1 ms a round, while members
/// 100 ms away answer. The rest is for what changes.
const MAX_BACKLOG: usize = 128;

/// It has turns as lanes have, and is none: there are 4096 at most.
const NOBODY: Lane = Lane(u16::MAX);

/// Decided rounds among which those of a run are looked for: a run may have to
/// leave some out until their orders are there.
const LOOKS: usize = 4 * SELECTIONS;

#[cfg(test)]
mod tests {
    use super::*;

    fn order(questions: &mut Questions, count: usize) -> Vec<Vec<u8>> {
        let mut order = Vec::new();
        for _ in 0..count {
            let Some((turn, destination)) = questions.next(None) else { break };
            order.push(destination.as_bytes().to_vec());
            questions.take(turn);
        }
        order
    }

    #[test]
    fn lanes_take_turns_and_what_changed_comes_first() {
        let mut questions = Questions::default();
        let all = LaneSet::none(4);
        let to = |bytes: &[u8]| Destination::new(bytes).unwrap();
        for number in 0..100 {
            questions.ask(&to(&[3, number]), &all, Lane(3), true);
            questions.ask(&to(&[0, number]), &all, Lane(0), false);
        }
        assert_eq!(order(&mut questions, 50).len(), 50);
        questions.ask(&to(b"one"), &all, Lane(1), false);
        // It was to be asked about anyway, and has changed now;
        // asking once more about it changes nothing.
        questions.ask(&to(&[3, 99]), &all, Lane(2), false);
        questions.ask(&to(&[3, 99]), &all, Lane(3), true);
        let next = order(&mut questions, 3);
        assert_eq!(next, [vec![0, 50], b"one".to_vec(), vec![3, 99]]);
        let rest = order(&mut questions, 1000);
        assert_eq!(rest.len(), 49 + 99);
        assert!(rest[..49].iter().all(|destination| destination[0] == 0));
        assert!(questions.waiting.is_empty() && questions.queue.is_empty());
    }
}
