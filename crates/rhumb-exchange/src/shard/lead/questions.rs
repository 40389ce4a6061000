//! Which rounds are begun, and with which order of the engine they are decided.

use std::cmp::Reverse;

use rhumb_mpc::{MAX_ORDER_SLOTS, OrderSlot};

use crate::ExchangeError;
use crate::circuits::Form;
use crate::message::pair::{Order, Selection};
use crate::roster::{Lane, LaneSet};
use crate::route::Destination;
use crate::shard::orders::places;
use crate::shard::pair::Role;
use crate::shard::select::SELECTIONS;
use crate::shard::{MAX_COMPARED, Shard};

impl Shard {
    /// What is current for a destination is another: ask all.
    pub(in crate::shard) fn lead_destination_changed(&mut self, destination: &Destination) {
        let mut lanes = LaneSet::none(self.connections.len());
        (0..self.connections.len()).for_each(|lane| lanes.insert(Lane(lane as u16)));
        if let Some(lead) = self.lead() {
            lead.ask_later(destination, &lanes);
        }
    }

    /// A lane is to be asked about all destinations with several routes.
    pub(in crate::shard) fn ask_about_all(&mut self, lane: Lane) {
        let mut lanes = LaneSet::none(self.connections.len());
        lanes.insert(lane);
        let contested: Vec<Destination> = self.table.contested().cloned().collect();
        let Some(lead) = self.lead() else { return };
        contested.iter().for_each(|destination| lead.ask_later(destination, &lanes));
    }

    /// The next round, if there is room for one.
    pub(super) fn next_question(&mut self) -> Option<Order> {
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

    /// The slot whose order has a round's announcers, if there is one; any if the circuit takes none.
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

    /// An order of a round's announcers. Places that are left go to the lanes that were compared last: the next destination may be theirs.
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
            announcers.get(*place as usize).map(|lane| self.preferences[lane.index()])
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

/// Decided rounds among which those of a run are looked for: a run may have to leave some out until their orders are there.
const LOOKS: usize = 4 * SELECTIONS;
