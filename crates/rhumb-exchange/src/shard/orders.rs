//! What both parties do, by party one's order: changes of the table at once, runs in two steps, [`Shard::perform`] and
//! [`Shard::finish_run`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rhumb_mpc::{Inputs, OrderSlot, Outputs, Party, Program};
use zeroize::Zeroizing;

use super::Shard;
use super::table::Held;
use crate::circuits::{ExportAll, Form, SelectBest, SharedRoute};
use crate::config::REPLAY_LANES;
use crate::message::member::{OFFER_LEN, Offer, ToMember};
use crate::message::pair::{Item, Order, PairMessage};
use crate::roster::Lane;
use crate::route::RouteId;
use crate::{ExchangeError, MAX_MEMBER_MESSAGE};

/// Circuits that were made. There are at most 64 sizes of one and 6 of the other, times slots for orders.
#[derive(Default)]
pub(super) struct Programs {
    exports: HashMap<usize, Arc<ExportAll>>,
    selects: HashMap<(usize, u8), Arc<SelectBest>>,
}

impl Programs {
    fn export(&mut self, routes: usize) -> Result<Arc<ExportAll>, ExchangeError> {
        if let Some(circuit) = self.exports.get(&routes) {
            return Ok(Arc::clone(circuit));
        }
        let circuit = Arc::new(ExportAll::new(routes)?);
        self.exports.insert(routes, Arc::clone(&circuit));
        Ok(circuit)
    }

    pub(super) fn select(
        &mut self,
        form: Form,
        routes: usize,
        slot: u8,
    ) -> Result<Arc<SelectBest>, ExchangeError> {
        let key = (places(form, routes), slot);
        if let Some(circuit) = self.selects.get(&key) {
            return Ok(Arc::clone(circuit));
        }
        let circuit = Arc::new(match form {
            Form::Paper => SelectBest::paper(key.0)?,
            Form::Index => SelectBest::index(key.0)?,
            Form::TopClass => SelectBest::top_class(key.0, OrderSlot(slot))?,
        });
        self.selects.insert(key, Arc::clone(&circuit));
        Ok(circuit)
    }
}

/// Places of the circuit for so many routes.
pub(super) fn places(form: Form, routes: usize) -> usize {
    match form {
        Form::Paper => (routes + 1).next_power_of_two() - 1,
        Form::Index | Form::TopClass => routes.next_power_of_two(),
    }
}

impl Shard {
    /// Does an order, or begins its run.
    pub(super) fn perform(
        &mut self,
        position: u64,
        order: Order,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        match order {
            Order::Export(_) | Order::Replay { .. } => return self.begin_run(position, order),
            Order::Select(selections) => return self.begin_select(position, selections),
            Order::Arrange { slot, announcers } => self.arrange(slot, announcers)?,
            Order::Adopt(items) => {
                for item in items {
                    self.check_held(item)?;
                    self.set_current(item, position, 0);
                }
            }
            Order::Forget(items) => {
                for item in items {
                    if self.table.held(item).is_some_and(|held| held.current.is_none()) {
                        self.table.drop_item(item);
                    }
                }
            }
            Order::Remove(ids) => self.remove(&ids, position)?,
            Order::Join { lane, participates } => {
                self.connection(lane)?.joined = Some((position, participates));
                let tag = self.tag(position);
                self.tell(lane, &ToMember::Joined { tag });
            }
            Order::Part(lane) => {
                self.connection(lane)?.joined = None;
                self.rounds.part(lane);
            }
            Order::Leave(lane) => self.leave(lane, position)?,
            Order::Ask { ids, lanes } => self.ask(position, ids, lanes, now)?,
        }
        Ok(())
    }

    /// What an order's run takes of the pools, in words of triples of bits and vectors.
    pub(super) fn needs(&mut self, order: &Order) -> Result<[u64; 2], ExchangeError> {
        let (program, lanes) = match order {
            Order::Select(selections) => return self.select_needs(selections),
            Order::Export(items) => (self.export(items)?, self.connections.len()),
            Order::Replay { ids, .. } => (self.replay(ids)?, ids.len()),
            _ => return Ok([0; 2]),
        };
        let cost = program.cost();
        Ok([cost.ands, cost.vector_ands].map(|ands| (ands * lanes.div_ceil(64)) as u64))
    }

    /// The engine has handled a message: is the run done?
    pub(super) fn finish_run(&mut self, _now: Instant) -> Result<(), ExchangeError> {
        let Some(pair) = &mut self.pair else { return Ok(()) };
        let Some(outputs) = pair.session.take_outputs() else { return Ok(()) };
        let Some((position, order)) = pair.running.take() else { return Ok(()) };
        match order {
            Order::Export(items) => self.finish_export(position, &items, &outputs),
            Order::Replay { lane, ids } => self.finish_replay(position, lane, &ids, &outputs),
            Order::Select(selections) => self.finish_select(&selections, outputs),
            _ => Ok(()),
        }
    }

    pub(super) fn begin_run(&mut self, position: u64, order: Order) -> Result<(), ExchangeError> {
        let (program, inputs) = match &order {
            Order::Select(selections) => self.select_run(selections)?,
            Order::Export(items) => (self.export(items)?, self.export_inputs(items)?),
            Order::Replay { lane, ids } => (self.replay(ids)?, self.replay_inputs(*lane, ids)?),
            _ => return Ok(()),
        };
        let Some(pair) = &mut self.pair else { return Ok(()) };
        pair.session.start(&program, &inputs)?;
        pair.running = Some((position, order));
        self.flush_engine();
        Ok(())
    }

    fn export(&mut self, items: &[Item]) -> Result<Arc<Program>, ExchangeError> {
        check_count(items.len(), crate::config::MAX_BATCH)?;
        Ok(Arc::clone(self.programs.export(items.len())?.program()))
    }

    fn replay(&mut self, ids: &[RouteId]) -> Result<Arc<Program>, ExchangeError> {
        check_count(ids.len(), REPLAY_LANES)?;
        Ok(Arc::clone(self.programs.export(1)?.program()))
    }

    fn export_inputs(&mut self, items: &[Item]) -> Result<Inputs, ExchangeError> {
        let lanes = self.connections.len();
        let circuit = self.programs.export(items.len())?;
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let held = self.check_held(*item)?;
            keys.push(Zeroizing::new(vec![held.share.key; lanes]));
        }
        let routes = items.iter().zip(&keys).filter_map(|(item, keys)| {
            let policy = &self.table.held(*item)?.share.policy;
            Some(SharedRoute { policy, keys })
        });
        let routes: Vec<SharedRoute<'_>> = routes.collect();
        Ok(circuit.inputs(self.party, lanes, &routes)?)
    }

    /// Party one sends sealed routes and its shares, party two its shares: to all who are here alike.
    fn finish_export(
        &mut self,
        position: u64,
        items: &[Item],
        outputs: &Outputs,
    ) -> Result<(), ExchangeError> {
        let circuit = self.programs.export(items.len())?;
        let mut routes = Vec::with_capacity(items.len());
        for item in items {
            let id = self.check_held(*item)?.id;
            routes.push((id, self.set_current(*item, position, position)));
        }
        let results = circuit.results(outputs);
        for lane in self.joined() {
            let routes = routes.iter().zip(results);
            let shares = routes.map(|((id, former), keys)| (*id, *former, keys[lane.index()]));
            self.hand_out(lane, position, &shares.collect::<Vec<_>>());
        }
        self.counters.export_runs += 1;
        self.counters.exported += items.len() as u64;
        Ok(())
    }

    fn replay_inputs(&mut self, lane: Lane, ids: &[RouteId]) -> Result<Inputs, ExchangeError> {
        self.connection(lane)?;
        let circuit = self.programs.export(1)?;
        let mut policy = Zeroizing::new(vec![0_u64; ids.len().div_ceil(64)]);
        let mut keys = Zeroizing::new(Vec::with_capacity(ids.len()));
        for (number, id) in ids.iter().enumerate() {
            let held = self.table.item_of(*id).and_then(|item| self.table.held(item));
            let held = held.filter(|held| held.current.is_some());
            let share = &held.ok_or(ExchangeError::OutOfStep("a route to replay"))?.share;
            policy[number / 64] |= share.bit(lane) << (number % 64);
            keys.push(share.key);
        }
        let route = SharedRoute { policy: &policy, keys: &keys };
        Ok(circuit.inputs(self.party, ids.len(), &[route])?)
    }

    fn finish_replay(
        &mut self,
        position: u64,
        lane: Lane,
        ids: &[RouteId],
        outputs: &Outputs,
    ) -> Result<(), ExchangeError> {
        let circuit = self.programs.export(1)?;
        let keys = &circuit.results(outputs)[0];
        let shares: Vec<_> = ids.iter().zip(keys).map(|(id, key)| (*id, None, *key)).collect();
        self.hand_out(lane, position, &shares);
        self.mark_replayed(lane, position, ids);
        self.counters.replayed += ids.len() as u64;
        Ok(())
    }

    /// Sends shares of keys, in messages within their bound.
    fn hand_out(&mut self, lane: Lane, position: u64, shares: &[(RouteId, Option<RouteId>, u128)]) {
        let tag = self.tag(position);
        if self.party == Party::Two {
            for shares in shares.chunks(MAX_MEMBER_MESSAGE / 64) {
                let shares = shares.iter().map(|(id, _, share)| (*id, *share)).collect();
                self.tell(lane, &ToMember::Shares { tag, shares });
            }
            return;
        }
        let (mut messages, mut offers, mut len) = (Vec::new(), Vec::new(), 0);
        for (id, replaces, share) in shares {
            let Some(held) = self.table.item_of(*id).and_then(|item| self.table.held(item)) else {
                continue;
            };
            let sealed = &held.sealed[..];
            if len + OFFER_LEN + sealed.len() > MAX_MEMBER_MESSAGE - MESSAGE_HEAD_LEN {
                let offers = std::mem::take(&mut offers);
                messages.push(ToMember::Offers { tag, offers }.emit(self.number));
                len = 0;
            }
            len += OFFER_LEN + sealed.len();
            offers.push(Offer { id: *id, replaces: *replaces, share: *share, sealed });
        }
        messages.push(ToMember::Offers { tag, offers }.emit(self.number));
        if self.connections[lane.index()].is_connected {
            let outputs =
                messages.into_iter().map(|message| super::Output::Member { lane, message });
            self.outbox.extend(outputs);
        }
    }

    /// Makes a route current; what it replaces is gone, and a round that compared it is void.
    fn set_current(&mut self, item: Item, position: u64, since: u64) -> Option<RouteId> {
        let destination = self.table.held(item)?.destination.clone();
        let former = self.table.make_current(item, position, since);
        self.destination_changed(&destination, item.0);
        self.lead_current(item, former, since);
        former.map(|(_, id)| id)
    }

    fn remove(&mut self, ids: &[RouteId], position: u64) -> Result<(), ExchangeError> {
        for id in ids {
            let removed = self.table.remove(*id, position);
            let (item, destination) =
                removed.ok_or(ExchangeError::OutOfStep("a route to remove"))?;
            self.destination_changed(&destination, item.0);
            self.lead_dropped(item);
        }
        if self.party == Party::One && !ids.is_empty() {
            let tag = self.tag(position);
            for lane in self.joined() {
                for ids in ids.chunks(MAX_MEMBER_MESSAGE / 32) {
                    self.tell(lane, &ToMember::Retract { tag, ids: ids.to_vec() });
                }
            }
        }
        Ok(())
    }

    /// All of a lane is gone, also what was not current; the member is to begin again from nothing, if it is here.
    fn leave(&mut self, lane: Lane, position: u64) -> Result<(), ExchangeError> {
        self.connection(lane)?;
        let (current, others): (Vec<_>, Vec<_>) = self
            .table
            .items(lane)
            .map(|(mark, held)| (mark, held.id, held.current.is_some()))
            .partition(|(.., is_current)| *is_current);
        let ids: Vec<RouteId> = current.into_iter().map(|(_, id, _)| id).collect();
        self.remove(&ids, position)?;
        for (mark, ..) in others {
            self.table.drop_item((lane, mark));
        }
        self.table.reset(lane);
        self.tell(lane, &ToMember::Resume { mark: self.table.last(lane) });
        match self.party {
            Party::One => self.lead_left(lane),
            Party::Two => {
                self.tell_heard();
                self.tell_peer(&PairMessage::Left { lane });
            }
        }
        Ok(())
    }

    pub(super) fn check_held(&self, item: Item) -> Result<&Held, ExchangeError> {
        self.table.held(item).ok_or(ExchangeError::OutOfStep("an announcement that is ordered"))
    }

    fn connection(&mut self, lane: Lane) -> Result<&mut super::Connection, ExchangeError> {
        self.connections.get_mut(lane.index()).ok_or(ExchangeError::OutOfStep("a lane"))
    }

    pub(super) fn tag(&self, position: u64) -> crate::message::Tag {
        self.pair.as_ref().map(|pair| pair.tag(position)).unwrap_or_default()
    }
}

fn check_count(count: usize, most: usize) -> Result<(), ExchangeError> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(ExchangeError::OutOfStep("the size of a run"))
}

/// Kind, shard, tag, count.
const MESSAGE_HEAD_LEN: usize = 3 + 16 + 4;
