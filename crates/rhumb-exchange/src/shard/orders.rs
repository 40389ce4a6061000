//! What both parties do, by party one's order: changes of the table, and what is handed out, at
//! once; a run of Select-Best in two steps, [`Shard::perform`] and [`Shard::finish_run`].
//!
//! Handing out takes no computation: the announcers have shared a key for each lane that may have a
//! route. Party two says when it has done it, and party one orders the next then, so that what
//! waits for members' connections grows no faster than both parties work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rhumb_mpc::{OrderSlot, Party};

use super::Shard;
use super::table::Held;
use crate::circuits::{Form, SelectBest};
use crate::config::REPLAY_LANES;
use crate::message::member::{OFFER_LEN, Offer, ToMember};
use crate::message::pair::{Item, Order, PairMessage};
use crate::roster::Lane;
use crate::route::RouteId;
use crate::{ExchangeError, MAX_MEMBER_MESSAGE};

/// Circuits that were made. There are at most 6 sizes, times slots for orders.
#[derive(Default)]
pub(super) struct Programs(HashMap<(usize, u8), Arc<SelectBest>>);

impl Programs {
    pub(super) fn select(
        &mut self,
        form: Form,
        routes: usize,
        slot: u8,
    ) -> Result<Arc<SelectBest>, ExchangeError> {
        let key = (places(form, routes), slot);
        if let Some(circuit) = self.0.get(&key) {
            return Ok(Arc::clone(circuit));
        }
        let circuit = Arc::new(match form {
            Form::Paper => SelectBest::paper(key.0)?,
            Form::Index => SelectBest::index(key.0)?,
            Form::TopClass => SelectBest::top_class(key.0, OrderSlot(slot))?,
        });
        self.0.insert(key, Arc::clone(&circuit));
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
            Order::Export(items) => self.export(position, &items)?,
            Order::Replay { lane, ids } => self.replay(position, lane, &ids)?,
            Order::Select(selections) => self.begin_select(selections)?,
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
        match order {
            Order::Select(selections) => self.select_needs(selections),
            _ => Ok([0; 2]),
        }
    }

    /// The engine has handled a message: is the run done?
    pub(super) fn finish_run(&mut self) -> Result<(), ExchangeError> {
        let Some(pair) = &mut self.pair else { return Ok(()) };
        let Some(outputs) = pair.session.take_outputs() else { return Ok(()) };
        let Some(selections) = pair.running.take() else { return Ok(()) };
        self.finish_select(&selections, outputs)
    }

    /// Party one sends sealed routes and its shares, party
    /// two its shares: to all who are here alike.
    fn export(&mut self, position: u64, items: &[Item]) -> Result<(), ExchangeError> {
        check_count(items.len(), crate::config::MAX_BATCH)?;
        let lanes = self.connections.len();
        let (mut routes, mut keys) = (Vec::new(), Vec::new());
        for item in items {
            let held = self.check_held(*item)?;
            let id = held.id;
            keys.push(held.share.keys(lanes));
            routes.push((id, self.set_current(*item, position, position)));
        }
        for lane in self.joined() {
            let shares = routes.iter().zip(&keys);
            let shares = shares.map(|((id, former), keys)| (*id, *former, keys[lane.index()]));
            self.hand_out(lane, position, &shares.collect::<Vec<_>>());
        }
        self.counters.exported += items.len() as u64;
        self.handed_out(position);
        Ok(())
    }

    /// The same to one member, of what it lacks.
    fn replay(&mut self, position: u64, lane: Lane, ids: &[RouteId]) -> Result<(), ExchangeError> {
        check_count(ids.len(), REPLAY_LANES)?;
        self.connection(lane)?;
        let mut shares = Vec::with_capacity(ids.len());
        for id in ids {
            let held = self.table.item_of(*id).and_then(|item| self.table.held(item));
            let held = held.filter(|held| held.current.is_some());
            let share = &held.ok_or(ExchangeError::OutOfStep("a route to replay"))?.share;
            shares.push((*id, None, share.key(lane)));
        }
        self.hand_out(lane, position, &shares);
        self.mark_replayed(lane, position, ids);
        self.counters.replayed += ids.len() as u64;
        self.handed_out(position);
        Ok(())
    }

    /// Party two says so, and party one waits for that.
    fn handed_out(&mut self, position: u64) {
        match self.lead() {
            Some(lead) => lead.undone = Some(position),
            None => self.tell_peer(&PairMessage::Done { position }),
        }
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

    /// All of a lane is gone, also what was not current; the member is
    /// to begin again from nothing, if it is here.
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
