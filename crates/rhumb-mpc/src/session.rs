//! A party's side of a session with the other, sans-IO: messages come in by [`Session::handle`] and
//! go out by [`Session::poll_message`].
//!
//! 1. Hello: version, parameters, a nonce. What both said names the session.
//! 2. Base: 128 transfers with public keys in each direction (`base_ot.rs`).
//! 3. Trees: answers to what the peer has sent for them, and the seeds that they are extended from
//!    (`extension.rs`). Now it is ready (`engine.rs`):
//!    triples are made while idle, and programs run with them.
//!
//! Invariant: a message is handled only if it is the next of this session. Whatever is wrong with
//! one ends the session for good, and wipes its secrets; both parties begin another, from new
//! seeds. Nothing is ever stored, so nothing can be used again.

use std::collections::VecDeque;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::base_ot::{self, AnsweredTransfers, BaseTransfers};
use crate::coins::{Seed, digest, low_half};
use crate::engine::Engine;
use crate::extension::{ExtensionReceiver, ExtensionSender};
use crate::message::{Body, Message, Sender, SessionId};
use crate::parameters::{POOLS, Parameters, Party, Stock};
use crate::program::{Inputs, Outputs, Program};
use crate::translation::parse_corrections;
use crate::{MpcError, OrderSlot};

/// A party's side of a session.
pub struct Session {
    party: Party,
    parameters: Parameters,
    nonce: [u8; 32],
    id: SessionId,
    phase: Phase,
    outbox: VecDeque<Vec<u8>>,
    /// Messages that were sent, to be written over.
    spare: Vec<Vec<u8>>,
    /// Messages sent and handled.
    sent: u64,
    received: u64,
}

enum Phase {
    Hello(Seed),
    Base { transfers: Box<BaseTransfers>, delta: Zeroizing<u128>, context: [u8; 32] },
    Trees(Box<Trees>),
    Ready(Box<Engine>),
    Failed,
}

/// What is kept until the peer's answers and corrections are here.
struct Trees {
    receiver: ExtensionReceiver,
    transfers: AnsweredTransfers,
    delta: Zeroizing<u128>,
    /// Of the hash in the direction in which this party sends.
    start: u128,
}

impl Session {
    /// Begins one, from a seed that was never used before. Its first message is ready.
    ///
    /// # Errors
    ///
    /// [`MpcError::OutOfRange`] if a pool does not hold a batch, or is above its bound.
    pub fn new(party: Party, parameters: Parameters, seed: Seed) -> Result<Self, MpcError> {
        parameters.check()?;
        let nonce = *seed.derive(b"nonce", 0).first_chunk().expect("invariant: 64 bytes have 32");
        let mut session = Self {
            party,
            parameters,
            nonce,
            id: SessionId::default(),
            phase: Phase::Hello(seed),
            outbox: VecDeque::new(),
            spare: Vec::new(),
            sent: 0,
            received: 0,
        };
        session.send(&Body::Hello { party, parameters, nonce });
        Ok(session)
    }

    /// Takes the peer's next message.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with it. The session has failed then, and
    /// every later call says [`MpcError::Failed`].
    pub fn handle(&mut self, message: &[u8]) -> Result<(), MpcError> {
        let result = self.receive(message);
        if result.is_err() {
            self.phase = Phase::Failed;
            self.outbox.clear();
        }
        result
    }

    /// The next message for the peer.
    pub fn poll_message(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// Takes back the memory of a message that was sent, for another. Worth it: a new message is as
    /// long as a level or a batch of triples, for which memory often comes fresh from the system.
    pub fn recycle(&mut self, mut message: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            message.clear();
            self.spare.push(message);
        }
    }

    /// Whether it is set up.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready(_))
    }

    /// Whether it has failed, for good.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed)
    }

    /// What it was begun with.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// What is in the pools; nothing before the session is ready.
    #[must_use]
    pub fn stock(&self) -> Stock {
        match &self.phase {
            Phase::Ready(engine) => engine.stock(),
            _ => Stock::default(),
        }
    }

    /// Begins another batch of triples for each pool with room for it; true if it did. The peer
    /// answers on its own. To be called while idle, until it is false.
    ///
    /// # Errors
    ///
    /// [`MpcError::NotReady`], [`MpcError::Failed`].
    pub fn refill(&mut self) -> Result<bool, MpcError> {
        self.provide([u64::MAX; 2])
    }

    /// As [`Session::refill`], for pools that have less than so many words of bits and of vectors
    /// with those that are under way.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn provide(&mut self, words: [u64; 2]) -> Result<bool, MpcError> {
        let sent = self.sent;
        self.with_engine(|engine, out| {
            engine.provide(words, out);
            Ok(())
        })?;
        Ok(self.sent > sent)
    }

    /// Batches that this party has begun and the peer has not answered. What is sent after them
    /// waits until the peer has made its part of them.
    #[must_use]
    pub fn batches_under_way(&self) -> usize {
        match &self.phase {
            Phase::Ready(engine) => engine.batches_under_way(),
            _ => 0,
        }
    }

    /// Party one: puts an order into a slot, in place of the one there. Wire `i` of
    /// [`Circuit::permute`](crate::Circuit::permute) is wire `order[i]` of what it was given.
    /// Takes one round trip; both parties must be idle meanwhile, and
    /// [`Session::order_epoch`] tells when it is there.
    ///
    /// # Errors
    ///
    /// [`MpcError::Input`] if it is not a permutation of 2 to [`MAX_ORDER`](crate::MAX_ORDER) wires
    /// or this is party two; [`MpcError::Busy`]; [`MpcError::OutOfRange`] if there is no such slot.
    pub fn install_order(&mut self, slot: OrderSlot, order: &[u32]) -> Result<(), MpcError> {
        self.with_engine(|engine, out| engine.install_order(slot, order, out))
    }

    /// How many orders had been installed with the one in this slot.
    #[must_use]
    pub fn order_epoch(&self, slot: OrderSlot) -> Option<u64> {
        match &self.phase {
            Phase::Ready(engine) => engine.order_epoch(slot),
            _ => None,
        }
    }

    /// Begins a run. Both parties must begin the same programs with as many lanes in the same
    /// order, one at a time. [`Session::take_outputs`] tells when it is done.
    ///
    /// # Errors
    ///
    /// [`MpcError::Busy`] if a run is under way or its outputs are not taken;
    /// [`MpcError::NotEnoughTriples`]; [`MpcError::NoOrder`]; [`MpcError::Input`] if inputs are
    /// missing or not this party's. The session goes on then. But if the peer has begun another
    /// program already, it fails, as by a message.
    pub fn start(&mut self, program: &Arc<Program>, inputs: &Inputs) -> Result<(), MpcError> {
        if inputs.party != self.party {
            return Err(MpcError::Input("is made for the other party"));
        }
        self.with_engine(|engine, _| engine.check_start(program, inputs))?;
        let result = self.with_engine(|engine, out| engine.start(program, inputs, out));
        if result.is_err() {
            self.phase = Phase::Failed;
            self.outbox.clear();
        }
        result
    }

    /// This party's shares of the results, once the run is done.
    pub fn take_outputs(&mut self) -> Option<Outputs> {
        match &mut self.phase {
            Phase::Ready(engine) => engine.take_outputs(),
            _ => None,
        }
    }

    fn with_engine<T>(
        &mut self,
        act: impl FnOnce(&mut Engine, &mut Sender<'_>) -> Result<T, MpcError>,
    ) -> Result<T, MpcError> {
        let Self { phase, outbox, spare, sent, id, .. } = self;
        match phase {
            Phase::Ready(engine) => act(engine, &mut Sender { outbox, spare, sent, id: *id }),
            Phase::Failed => Err(MpcError::Failed),
            _ => Err(MpcError::NotReady),
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), MpcError> {
        if self.has_failed() {
            return Err(MpcError::Failed);
        }
        let message = Message::parse(bytes)?;
        if message.session != self.id {
            return Err(MpcError::OtherSession);
        }
        if message.number != self.received {
            let (expected, found) = (self.received, message.number);
            return Err(MpcError::Sequence { expected, found });
        }
        self.received += 1;
        // Whatever returns early leaves it failed.
        self.phase = match (std::mem::replace(&mut self.phase, Phase::Failed), message.body) {
            (Phase::Hello(seed), Body::Hello { party, parameters, nonce }) => {
                let context = self.meet(party, parameters, &nonce)?;
                self.begin_transfers(seed, context)
            }
            (Phase::Base { transfers, delta, context }, Body::Base(theirs)) => {
                Phase::Trees(Box::new(self.grow(*transfers, delta, &context, theirs)?))
            }
            (Phase::Trees(trees), Body::Trees(theirs)) => {
                Phase::Ready(Box::new(self.ready(*trees, theirs)?))
            }
            (Phase::Ready(mut engine), body) => {
                let Self { outbox, spare, sent, id, .. } = self;
                engine.handle(body, &mut Sender { outbox, spare, sent, id: *id })?;
                Phase::Ready(engine)
            }
            (_, body) => return Err(MpcError::Unexpected(body.name())),
        };
        Ok(())
    }

    /// Compares parameters, and names the session by both hellos.
    fn meet(
        &mut self,
        party: Party,
        parameters: Parameters,
        nonce: &[u8; 32],
    ) -> Result<[u8; 32], MpcError> {
        if party == self.party {
            return Err(MpcError::SameParty);
        }
        if parameters.field != self.parameters.field {
            return Err(MpcError::Parameter("field of the extension"));
        }
        let sizes = |parameters: Parameters| [parameters.bit_words, parameters.vector_words];
        for (at, pool) in POOLS.into_iter().enumerate() {
            if sizes(parameters)[at] != sizes(self.parameters)[at] {
                return Err(MpcError::Parameter(pool));
            }
        }
        let mut nonces = [&self.nonce, nonce];
        if self.party == Party::Two {
            nonces.reverse();
        }
        let field = [parameters.field.bits() as u8, crate::VERSION];
        let context = digest(b"rhumb-mpc session", &[nonces[0], nonces[1], &field]);
        self.id = *context.first_chunk().expect("invariant: 32 bytes have 16");
        Ok(context)
    }

    /// What this party does not choose is the correlation of the extension that it sends in.
    fn begin_transfers(&mut self, seed: Seed, context: [u8; 32]) -> Phase {
        let random = Zeroizing::new(seed.derive(b"delta", 0));
        let delta = random.first_chunk().expect("invariant: 64 bytes have 16");
        let delta = Zeroizing::new(u128::from_le_bytes(*delta));
        let transfers = Box::new(BaseTransfers::new(seed, !*delta, &context));
        self.send(&Body::Base(transfers.message()));
        Phase::Base { transfers, delta, context }
    }

    fn grow(
        &mut self,
        transfers: BaseTransfers,
        delta: Zeroizing<u128>,
        context: &[u8; 32],
        theirs: &[u8],
    ) -> Result<Trees, MpcError> {
        let mut reply = Vec::new();
        let (pairs, transfers) = transfers.answer(theirs, &mut reply)?;
        let start =
            |receiver: Party| low_half(&digest(b"rhumb-mpc hash", &[context, &[receiver as u8]]));
        let mut corrections = Vec::new();
        let field = self.parameters.field;
        let receiver = ExtensionReceiver::new(field, &pairs, start(self.party), &mut corrections);
        reply.extend(corrections.as_flattened().iter().flat_map(|value| value.to_le_bytes()));
        self.send(&Body::Trees(&reply));
        Ok(Trees { receiver, transfers, delta, start: start(self.party.other()) })
    }

    fn ready(&mut self, trees: Trees, theirs: &[u8]) -> Result<Engine, MpcError> {
        let field = self.parameters.field;
        let corrections_len = field.trees() * (field.bits() - 1) * 32;
        if theirs.len() != base_ot::ANSWERS_LEN + corrections_len {
            return Err(MpcError::Malformed("answers to base transfers, and corrections of trees"));
        }
        let (answers, corrections) = theirs.split_at(base_ot::ANSWERS_LEN);
        let corrections = parse_corrections(corrections);
        let Trees { receiver, transfers, delta, start } = trees;
        let chosen = transfers.finish(answers)?;
        let sender = ExtensionSender::new(field, &chosen, *delta, start, &corrections);
        Ok(Engine::new(self.party, self.parameters, receiver, sender))
    }

    fn send(&mut self, body: &Body<'_>) {
        let Self { outbox, spare, sent, id, .. } = self;
        Sender { outbox, spare, sent, id: *id }.send(body);
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?}, {:?}, ..)", self.party, self.stock())
    }
}

/// Messages kept to be written over: a level, and a batch of each kind.
const MAX_SPARE: usize = 3;
