//! Party two: says what it hears, and does what party one orders, in that order.

use std::time::Instant;

use super::Shard;
use super::pair::{MAX_HEARD, Role};
use crate::ExchangeError;
use crate::message::pair::{Heard, HeardWhat, Item, Order, PairMessage};

impl Shard {
    /// Something has been heard. Party one is told when
    /// there is nothing else to send, or much to tell.
    pub(super) fn note_heard(&mut self, item: Item, what: HeardWhat) {
        let Some(Role::Follow(follow)) = self.pair.as_mut().map(|pair| &mut pair.role) else {
            return;
        };
        follow.heard.push(Heard { item, what });
        if follow.heard.len() >= MAX_HEARD {
            self.tell_heard();
        }
    }

    pub(super) fn tell_heard(&mut self) {
        let Some(Role::Follow(follow)) = self.pair.as_mut().map(|pair| &mut pair.role) else {
            return;
        };
        if !follow.heard.is_empty() {
            let heard = std::mem::take(&mut follow.heard);
            self.tell_peer(&PairMessage::Have(heard));
        }
    }

    pub(super) fn take_order(&mut self, position: u64, order: Order) -> Result<(), ExchangeError> {
        let Some(pair) = &mut self.pair else { return Ok(()) };
        let Role::Follow(follow) = &mut pair.role else { return Ok(()) };
        let expected = pair.position + follow.orders.len() as u64 + 1;
        if position != expected {
            return Err(ExchangeError::OutOfStep("the position of an order"));
        }
        if follow.orders.len() >= MAX_ORDERS {
            return Err(ExchangeError::TooMany { what: "orders ahead of a run", most: MAX_ORDERS });
        }
        follow.orders.push_back((position, order));
        Ok(())
    }

    /// Does what was ordered, up to a run.
    pub(super) fn follow_on(&mut self, now: Instant) -> Result<(), ExchangeError> {
        loop {
            let Some(pair) = &mut self.pair else { return Ok(()) };
            let Role::Follow(follow) = &mut pair.role else { return Ok(()) };
            if pair.running.is_some() {
                break;
            }
            let Some((position, order)) = follow.orders.pop_front() else { break };
            pair.position = position;
            self.perform(position, order, now)?;
        }
        self.tell_answered(now);
        Ok(())
    }
}

/// Party one gives no more than a few orders between two runs for each lane.
const MAX_ORDERS: usize = 1 << 16;
