//! A pair of parties as a shard sees it: the engine's session,
//! what is under way, and what each role keeps.

mod lead;

use std::collections::VecDeque;
use std::time::Instant;

use rhumb_mpc::{MAX_ORDER_SLOTS, OrderSlot, Party, Seed, Session, Stock};

use self::lead::Lead;
use super::{Output, Shard};
use crate::ExchangeError;
use crate::circuits::Form;
use crate::message::Tag;
use crate::message::pair::{Heard, HeardWhat, Order, PairMessage, Selection};
use crate::roster::Lane;

/// A pair.
pub(super) struct Pair {
    pub(super) epoch: u64,
    pub(super) session: Session,
    /// Orders that were begun.
    pub(super) position: u64,
    /// The rounds of the run under way.
    pub(super) running: Option<Vec<Selection>>,
    /// Who is in the order of each slot of the engine, at which place.
    pub(super) arrangements: [Vec<Lane>; MAX_ORDER_SLOTS],
    pub(super) role: Role,
}

pub(super) enum Role {
    Lead(Box<Lead>),
    Follow(Follow),
}

/// Party two's part.
#[derive(Default)]
pub(super) struct Follow {
    /// Orders that wait for the run under way.
    pub(super) orders: VecDeque<(u64, Order)>,
    /// What was heard since party one was told.
    pub(super) heard: Vec<Heard>,
}

impl Pair {
    pub(super) fn is_ready(&self) -> bool {
        self.session.is_ready()
    }

    pub(super) fn stock(&self) -> Stock {
        self.session.stock()
    }

    pub(super) fn waiting(&self) -> usize {
        match &self.role {
            Role::Lead(lead) => lead.waiting(),
            Role::Follow(follow) => follow.orders.len(),
        }
    }

    /// Words of a lane that wait for an order.
    pub(super) fn waiting_of(&self, lane: Lane) -> usize {
        match &self.role {
            Role::Lead(lead) => lead.waiting_of(lane),
            Role::Follow(_) => 0,
        }
    }

    pub(super) fn forget_orders(&mut self) {
        if let Role::Lead(lead) = &mut self.role {
            lead.slots.clear();
        }
    }

    pub(super) fn tag(&self, position: u64) -> Tag {
        Tag { epoch: self.epoch, position }
    }

    pub(super) fn order_epoch(&self, slot: u8) -> Option<u64> {
        self.session.order_epoch(OrderSlot(slot))
    }
}

impl Shard {
    /// The other party is there: `epoch` is what both hellos give, the
    /// seed is fresh from the system's generator.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Engine`] if the pools are out of their bounds.
    pub fn pair_begun(
        &mut self,
        epoch: u64,
        seed: Seed,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        self.end_pair();
        let session = Session::new(self.party, self.config.engine, seed)?;
        let lanes = self.connections.len();
        let role = match self.party {
            Party::One => Role::Lead(Box::new(Lead::new(lanes, now, self.config.pass))),
            Party::Two => Role::Follow(Follow::default()),
        };
        let arrangements = [const { Vec::new() }; MAX_ORDER_SLOTS];
        self.pair = Some(Pair { epoch, session, position: 0, running: None, arrangements, role });
        match self.party {
            Party::One => self.begin_lead(now),
            Party::Two => self.tell_all(),
        }
        self.flush_engine();
        Ok(())
    }

    /// The connection to the other party has ended. Nothing
    /// that was under way counts; what is held stays.
    pub fn pair_ended(&mut self, _now: Instant) {
        self.end_pair();
    }

    /// A message of the other party for this shard.
    pub fn peer_message(&mut self, bytes: &[u8], now: Instant) {
        if self.pair.is_none() {
            return;
        }
        if let Err(error) = self.take_peer_message(bytes, now) {
            self.fail_pair(error);
        }
        self.pump(now);
    }

    /// When [`Shard::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let lead = match self.pair.as_ref().map(|pair| &pair.role) {
            Some(Role::Lead(lead)) => lead.timeout(&self.config),
            _ => None,
        };
        [self.rounds.timeout(), lead].into_iter().flatten().min()
    }

    /// The time of [`Shard::poll_timeout`] is there.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.rounds.expire(now);
        self.leave_stale(now);
        self.sweep(now);
        self.pump(now);
    }

    /// Makes triples while there is nothing better to do; true if it did. To be called when idle,
    /// until it is false; messages to the other party come of it.
    ///
    /// What is more urgent comes after the batches that are under way, so they are few; and while
    /// members rank, only what is low is filled up.
    pub fn refill(&mut self) -> bool {
        let Some(pair) = &mut self.pair else { return false };
        let Role::Lead(lead) = &pair.role else { return false };
        if !pair.session.is_ready() || pair.running.is_some() {
            return false;
        }
        let is_quiet = self.rounds.len() == 0 && lead.is_quiet();
        let (mut wanted, most) = if is_quiet {
            ([u64::MAX; 2], BATCHES)
        } else {
            let engine = self.config.engine;
            ([engine.bit_words, engine.vector_words].map(|words| u64::from(words) / 2), 1)
        };
        // No other circuit chooses between vectors.
        if self.config.common.form != Form::Paper {
            wanted[1] = 0;
        }
        if pair.session.batches_under_way() >= most {
            return false;
        }
        match pair.session.provide(wanted) {
            Ok(did) => {
                self.flush_engine();
                did
            }
            Err(error) => {
                self.fail_pair(error.into());
                false
            }
        }
    }

    fn take_peer_message(&mut self, bytes: &[u8], now: Instant) -> Result<(), ExchangeError> {
        let (shard, message) = PairMessage::parse(bytes)?;
        if shard != self.number {
            return Err(ExchangeError::Malformed("it is for another shard"));
        }
        match (message, self.party) {
            (PairMessage::Engine(message), _) => {
                let Some(pair) = &mut self.pair else { return Ok(()) };
                pair.session.handle(message)?;
                self.flush_engine();
                self.finish_run()
            }
            (PairMessage::Order { position, order }, Party::Two) => {
                self.take_order(position, order)
            }
            (message, Party::One) => self.take_note(message, now),
            (_, Party::Two) => Err(ExchangeError::Unexpected("a note of party two")),
        }
    }

    /// Goes on as far as it can.
    pub(super) fn pump(&mut self, now: Instant) {
        self.unheeded = None;
        let result = match self.party {
            Party::One => self.lead_on(now),
            Party::Two => self.follow_on(now),
        };
        if let Err(error) = result {
            self.fail_pair(error);
        }
    }

    pub(super) fn flush_engine(&mut self) {
        let Some(pair) = &mut self.pair else { return };
        while let Some(message) = pair.session.poll_message() {
            let message = PairMessage::Engine(&message).emit(self.number);
            self.outbox.push_back(Output::Peer(message));
        }
    }

    pub(super) fn fail_pair(&mut self, error: ExchangeError) {
        if self.pair.is_some() {
            self.end_pair();
            self.outbox.push_back(Output::PairFailed(error));
        }
    }

    pub(super) fn end_pair(&mut self) {
        if self.pair.take().is_some() {
            self.counters.pairs_ended += 1;
            self.outbox.retain(|output| !matches!(output, Output::Peer(_)));
        }
        self.rounds.clear();
        self.table.end_pair();
        self.connections.iter_mut().for_each(|connection| connection.joined = None);
    }

    /// Party two: tells all that it holds, and who is here.
    fn tell_all(&mut self) {
        let mut heard = Vec::new();
        for lane in (0..self.connections.len()).map(|lane| Lane(lane as u16)) {
            for (mark, held) in self.table.items(lane) {
                let what = match held.exported {
                    true => HeardWhat::Exported(held.id),
                    false => HeardWhat::Route(held.id),
                };
                heard.push(Heard { item: (lane, mark), what });
            }
            let last = self.table.last(lane);
            if last.number > 0 && self.table.held((lane, last)).is_none() {
                let what = match self.table.last_was_refused(lane) {
                    true => HeardWhat::Refused,
                    false => HeardWhat::Nothing,
                };
                heard.push(Heard { item: (lane, last), what });
            }
        }
        for heard in heard.chunks(MAX_HEARD) {
            self.tell_peer(&PairMessage::Have(heard.to_vec()));
        }
        for lane in (0..self.connections.len()).map(|lane| Lane(lane as u16)) {
            let connection = self.connections[lane.index()];
            if connection.is_connected {
                let participates = connection.participates;
                self.tell_peer(&PairMessage::Here { lane, participates });
            }
        }
        self.tell_peer(&PairMessage::HaveEnd);
    }
}

/// Items of one message: 144 KB.
pub(super) const MAX_HEARD: usize = 4096;
/// Batches of triples under way while nothing else is to be done: half a
/// millisecond's work, so that both parties have some.
const BATCHES: usize = 4;
