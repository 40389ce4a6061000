//! Which rounds are begun, and with which order of the engine they are decided.

use crate::circuits::Form;
use crate::message::pair::Order;
use crate::roster::{Lane, LaneSet};
use crate::route::Destination;
use crate::shard::orders::places;
use crate::shard::{MAX_COMPARED, Shard};
use rhumb_mpc::{MAX_ORDER_SLOTS, OrderSlot};

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

    /// The next result, and the engine's order for it.
    pub(super) fn select_order(&mut self) -> Option<Order> {
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
