//! A session that is set up: pools of triples, orders, and one run at a time.
//!
//! Invariant: triples leave a pool when a run starts, all that it needs, in the
//! order of their serial numbers. Each message of the run says which they are,
//! so the parties cannot be out of step unseen.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::cipher::{Place, Usage};
use crate::coins::digest;
use crate::extension::{CHUNK_BLOCKS, CHUNK_WORDS, ExtensionReceiver, ExtensionSender};
use crate::message::{Body, HEADER_LEN, LevelTag, Sender};
use crate::parameters::{Parameters, Party, Stock};
use crate::program::{Input, Inputs, Outputs, Program, words};
use crate::run::{Masks, Orders, Run, Workspace, needs};
use crate::translation::{OrderPair, PendingOrder, transfers, trees_len};
use crate::triples::{ChunkRows, FourVectors, Kind, Payload, Pool, batch_len};
use crate::{MAX_LANES, MAX_MESSAGE, MAX_ORDER, MAX_ORDER_SLOTS, MpcError, OrderSlot};

pub(crate) struct Engine {
    party: Party,
    parameters: Parameters,
    receiver: ExtensionReceiver,
    sender: ExtensionSender,
    rows: ChunkRows,
    /// This party's part of the last batch.
    part: Vec<u8>,
    bits: Pool<u64>,
    vectors: Pool<FourVectors>,
    orders: Orders,
    /// Orders that were begun.
    epochs: u64,
    pending_order: Option<PendingOrder>,
    /// Runs that were begun.
    runs: u64,
    run: Option<Run>,
    /// Of the last run, for the next.
    space: Workspace,
    /// The peer's first level of a run that this party has not
    /// begun. There is no second: the peer waits.
    early: Option<(LevelTag, Vec<u8>)>,
    outputs: Option<Outputs>,
}

impl Engine {
    pub(crate) fn new(
        party: Party,
        parameters: Parameters,
        receiver: ExtensionReceiver,
        sender: ExtensionSender,
    ) -> Self {
        Self {
            party,
            parameters,
            receiver,
            sender,
            rows: ChunkRows::new(),
            part: Vec::new(),
            bits: Pool::new(Kind::Bits, parameters.bit_words.into()),
            vectors: Pool::new(Kind::Vectors, parameters.vector_words.into()),
            orders: [const { None }; MAX_ORDER_SLOTS],
            epochs: 0,
            pending_order: None,
            runs: 0,
            run: None,
            space: Workspace::default(),
            early: None,
            outputs: None,
        }
    }

    pub(crate) fn stock(&self) -> Stock {
        Stock {
            bit_words: self.bits.words(),
            vector_words: self.vectors.words(),
            bit_words_used: self.bits.next_serial(),
            vector_words_used: self.vectors.next_serial(),
        }
    }

    pub(crate) fn order_epoch(&self, slot: OrderSlot) -> Option<u64> {
        self.orders.get(usize::from(slot.0))?.as_ref().map(|pair| pair.epoch)
    }

    pub(crate) fn take_outputs(&mut self) -> Option<Outputs> {
        self.outputs.take()
    }

    pub(crate) fn batches_under_way(&self) -> usize {
        self.bits.under_way() + self.vectors.under_way()
    }

    /// One batch of each kind of which there is less than wanted, if there is room.
    pub(crate) fn provide(&mut self, [bits, vectors]: [u64; 2], out: &mut Sender<'_>) {
        if self.bits.lacks(bits) {
            self.begin_batch(Kind::Bits, out);
        }
        if self.vectors.lacks(vectors) {
            self.begin_batch(Kind::Vectors, out);
        }
    }

    pub(crate) fn handle(&mut self, body: Body<'_>, out: &mut Sender<'_>) -> Result<(), MpcError> {
        match body {
            Body::Triples { kind, batch, corrections } => {
                self.take_part(kind, batch, corrections, out)
            }
            Body::Level { tag, opened } => match self.run.take() {
                Some(run) => self.take_level(run, &tag, opened, out),
                None if self.early.is_none() && tag.level == 0 => {
                    self.early = Some((tag, opened.to_vec()));
                    Ok(())
                }
                None => Err(MpcError::Unexpected("a level")),
            },
            Body::Order { slot, size, epoch, flips, corrections } if self.party == Party::Two => {
                if self.run.is_some() {
                    return Err(MpcError::Unexpected("an order during a run"));
                }
                let values = self.order_values(slot, size, epoch, corrections)?;
                let mut trees = Vec::with_capacity(trees_len(size.into()));
                let pair = OrderPair::grow(epoch, size.into(), &values, flips, &mut trees);
                self.orders[usize::from(slot)] = Some(pair);
                out.send(&Body::OrderTrees { slot, epoch, corrections: &trees });
                Ok(())
            }
            Body::OrderTrees { slot, epoch, corrections } => {
                let is_it = |order: &PendingOrder| (order.slot, order.epoch) == (slot, epoch);
                let Some(order) = self.pending_order.take().filter(is_it) else {
                    return Err(MpcError::Unexpected(body.name()));
                };
                self.orders[usize::from(slot)] = Some(order.finish(corrections)?);
                Ok(())
            }
            _ => Err(MpcError::Unexpected(body.name())),
        }
    }

    pub(crate) fn install_order(
        &mut self,
        slot: OrderSlot,
        order: &[u32],
        out: &mut Sender<'_>,
    ) -> Result<(), MpcError> {
        if self.party == Party::Two {
            return Err(MpcError::Input("is an order, which only party one has"));
        }
        check_slot(slot.0)?;
        let mut sorted = Zeroizing::new(order.to_vec());
        sorted.sort_unstable();
        let is_permutation = sorted.iter().enumerate().all(|(i, value)| i as u32 == *value);
        if !is_permutation || !(2..=MAX_ORDER).contains(&order.len()) {
            return Err(MpcError::Input("is no permutation of 2 to 64 wires"));
        }
        if self.run.is_some() || self.early.is_some() || self.pending_order.is_some() {
            return Err(MpcError::Busy);
        }
        let epoch = self.epochs;
        let mut corrections = Vec::new();
        let (place, rows) = (order_place(epoch), &mut self.rows.values);
        let choices = self.receiver.extend(place, rows, &mut corrections);
        self.receiver.values(place, rows);
        let mut chosen = Zeroizing::new(Vec::with_capacity(64 * CHUNK_WORDS));
        for word in 0..transfers(order.len()).div_ceil(64) {
            chosen.extend(rows.word(word));
        }
        let (pending, flips) = PendingOrder::new(slot.0, epoch, order, &choices, &chosen);
        let size = order.len() as u8;
        let corrections = &corrections;
        out.send(&Body::Order { slot: slot.0, size, epoch, flips: &flips, corrections });
        self.pending_order = Some(pending);
        self.epochs += 1;
        Ok(())
    }

    /// Whether [`Engine::start`] would begin. Changes nothing.
    pub(crate) fn check_start(&self, program: &Program, inputs: &Inputs) -> Result<(), MpcError> {
        if self.run.is_some() || self.outputs.is_some() || self.pending_order.is_some() {
            return Err(MpcError::Busy);
        }
        check_inputs(program, inputs)?;
        let lanes = words(inputs.lanes);
        for level in &program.levels {
            let longest = level.payload_len(Party::Two, lanes);
            if longest > MAX_MESSAGE - LEVEL_OVERHEAD {
                let most = (MAX_MESSAGE - LEVEL_OVERHEAD) as u64;
                return Err(MpcError::OutOfRange { what: "the size of a level", least: 0, most });
            }
            for gate in &level.permutes {
                let pair = self.orders.get(usize::from(gate.slot)).and_then(Option::as_ref);
                if pair.is_none_or(|pair| pair.forward.size() != gate.ins.len()) {
                    return Err(MpcError::NoOrder { slot: gate.slot });
                }
            }
        }
        let stocks = [self.bits.words(), self.vectors.words()];
        for (needed, stock) in needs(program, inputs.lanes).into_iter().zip(stocks) {
            if needed > stock {
                return Err(MpcError::NotEnoughTriples { needed, stock });
            }
        }
        Ok(())
    }

    pub(crate) fn start(
        &mut self,
        program: &Arc<Program>,
        inputs: &Inputs,
        out: &mut Sender<'_>,
    ) -> Result<(), MpcError> {
        let tag = LevelTag {
            run: self.runs,
            level: 0,
            lanes: inputs.lanes as u32,
            program: program.digest,
            bit_serial: self.bits.next_serial(),
            vector_serial: self.vectors.next_serial(),
            orders: self.orders_digest(program),
        };
        let [bit_words, vector_words] = needs(program, inputs.lanes).map(|words| words as usize);
        self.bits.take(bit_words)?;
        self.vectors.take(vector_words)?;
        self.runs += 1;
        let run = Run::new(program, tag, inputs, std::mem::take(&mut self.space));
        self.begin_level(run, out);
        // A run without rounds is done: what came early is another's.
        match (self.run.take(), self.early.take()) {
            (Some(run), Some((tag, opened))) => self.take_level(run, &tag, &opened, out),
            (run, early) => {
                (self.run, self.early) = (run, early);
                Ok(())
            }
        }
    }

    fn begin_level(&mut self, mut run: Run, out: &mut Sender<'_>) {
        let tag = run.tag();
        let masks = Masks { bits: self.bits.taken(), vectors: self.vectors.taken() };
        if let Some(opened) = run.begin_level(masks, &mut self.orders) {
            out.send(&Body::Level { tag, opened });
            self.run = Some(run);
            return;
        }
        let (outputs, space) = run.finish();
        (self.outputs, self.space) = (Some(outputs), space);
        self.bits.wipe_taken();
        self.vectors.wipe_taken();
    }

    fn take_level(
        &mut self,
        mut run: Run,
        tag: &LevelTag,
        opened: &[u8],
        out: &mut Sender<'_>,
    ) -> Result<(), MpcError> {
        run.tag().check(tag)?;
        let masks = Masks { bits: self.bits.taken(), vectors: self.vectors.taken() };
        run.finish_level(masks, &mut self.orders, opened)?;
        self.begin_level(run, out);
        Ok(())
    }

    fn begin_batch(&mut self, kind: Kind, out: &mut Sender<'_>) {
        let Self { receiver, rows, part, bits, vectors, .. } = self;
        part.clear();
        let batch = match kind {
            Kind::Bits => bits.begin(receiver, rows, part),
            Kind::Vectors => vectors.begin(receiver, rows, part),
        };
        out.send(&Body::Triples { kind, batch, corrections: part });
    }

    fn take_part(
        &mut self,
        kind: Kind,
        batch: u64,
        part: &[u8],
        out: &mut Sender<'_>,
    ) -> Result<(), MpcError> {
        if part.len() != batch_len(self.parameters.field) {
            return Err(MpcError::Malformed("the length of a part of triples"));
        }
        let has_begun = match kind {
            Kind::Bits => self.bits.expects(batch)?,
            Kind::Vectors => self.vectors.expects(batch)?,
        };
        if !has_begun {
            self.begin_batch(kind, out);
        }
        let Self { sender, rows, bits, vectors, .. } = self;
        match kind {
            Kind::Bits => complete(bits, sender, rows, part),
            Kind::Vectors => complete(vectors, sender, rows, part),
        }
    }

    /// Party two: both values of each transfer of an order.
    fn order_values(
        &mut self,
        slot: u8,
        size: u8,
        epoch: u64,
        corrections: &[u8],
    ) -> Result<Zeroizing<Vec<[u128; 2]>>, MpcError> {
        if check_slot(slot).is_err() || !(2..=MAX_ORDER).contains(&usize::from(size)) {
            return Err(MpcError::Malformed("an order"));
        }
        if epoch != self.epochs {
            return Err(MpcError::Desynchronised("the number of an order"));
        }
        self.epochs += 1;
        let (place, ChunkRows { values, others }) = (order_place(epoch), &mut self.rows);
        self.sender.extend(place, values, corrections)?;
        self.sender.values(place, values, others);
        let mut both = Zeroizing::new(Vec::with_capacity(64 * CHUNK_WORDS));
        for word in 0..transfers(size.into()).div_ceil(64) {
            both.extend(values.word(word).zip(others.word(word)).map(|(zero, one)| [zero, one]));
        }
        Ok(both)
    }

    fn orders_digest(&self, program: &Program) -> [u8; 32] {
        let mut state = Vec::new();
        for gate in program.levels.iter().flat_map(|level| &level.permutes) {
            if let Some(pair) = &self.orders[usize::from(gate.slot)] {
                state.push(gate.slot);
                for number in [pair.epoch, pair.forward.next(), pair.inverse.next()] {
                    state.extend(number.to_le_bytes());
                }
            }
        }
        digest(b"rhumb-mpc orders", &[&state])
    }
}

fn complete<P: Payload>(
    pool: &mut Pool<P>,
    sender: &ExtensionSender,
    rows: &mut ChunkRows,
    part: &[u8],
) -> Result<(), MpcError> {
    pool.complete(sender, rows, part)
}

/// Each order has a chunk of the extension to itself.
fn order_place(epoch: u64) -> Place {
    Place { usage: Usage::Orders, block: epoch * CHUNK_BLOCKS as u64 }
}

fn check_slot(slot: u8) -> Result<(), MpcError> {
    if usize::from(slot) < MAX_ORDER_SLOTS {
        return Ok(());
    }
    let most = MAX_ORDER_SLOTS as u64 - 1;
    Err(MpcError::OutOfRange { what: "the slot of an order", least: 0, most })
}

/// Every input that the party has a value or a share of must be there once,
/// with the right number of lanes; and no other.
fn check_inputs(program: &Program, inputs: &Inputs) -> Result<(), MpcError> {
    if inputs.digest != program.digest {
        return Err(MpcError::Input("is made for another program"));
    }
    debug_assert!(inputs.lanes <= MAX_LANES);
    let given = inputs.bits.iter().map(|(wire, row)| (*wire, row.len()));
    check_wires(&program.inputs, given, inputs.party, words(inputs.lanes))?;
    let given = inputs.vectors.iter().map(|(wire, vectors)| (*wire, vectors.len()));
    check_wires(&program.vector_inputs, given, inputs.party, inputs.lanes)
}

fn check_wires(
    wanted: &[Input],
    given: impl Iterator<Item = (u32, usize)>,
    party: Party,
    len: usize,
) -> Result<(), MpcError> {
    let mut mine: Vec<u32> =
        wanted.iter().filter(|input| input.owner.includes(party)).map(|input| input.wire).collect();
    let mut seen = Vec::with_capacity(mine.len());
    for (wire, given_len) in given {
        if given_len != len {
            return Err(MpcError::Input("has another number of lanes"));
        }
        seen.push(wire);
    }
    mine.sort_unstable();
    seen.sort_unstable();
    if mine == seen {
        Ok(())
    } else {
        Err(MpcError::Input("is missing, given twice, or not this party's"))
    }
}

/// Header and tag of a level.
const LEVEL_OVERHEAD: usize = HEADER_LEN + 96;
