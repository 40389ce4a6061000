//! The MACs of up to sixteen packets side by side: while one packet's cipher waits for itself, the
//! processor works on the others.
//!
//! Two kinds of packets: those of suites 1 and 3 under the caveat chain, which is nearly all, go
//! through their steps together; the others each by itself.

use zeroize::Zeroize;

use crate::derive::{
    BINDING_KEY_INPUT, binding_key, delegation_input, secret_block_v4, secret_input,
};
use crate::header::{Layout, Place, delegation_at};
use crate::mac::{Message, mac_once};
use crate::messages::Messages;
use crate::prf::{BLOCK, PrfInput, prf};
use crate::side_by_side::{LANES, Row, cbc_macs};
use crate::{EpochKeys, Family, Scheme, Suite, Window, reference};

/// What the key of a packet's binding is derived from.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) suite: Suite,
    pub(crate) family: Family,
    pub(crate) place: Place,
    /// Which of the live epochs.
    pub(crate) epoch: usize,
    pub(crate) window: Window,
}

impl Work {
    pub(crate) const NONE: Self = Self {
        suite: Suite::HeaderAes,
        family: Family::V4,
        place: Place::NONE,
        epoch: 0,
        window: Window(0),
    };

    #[inline]
    fn is_aes_chain(&self) -> bool {
        self.suite != Suite::HeaderSip && self.place.scheme == Scheme::CaveatChain
    }

    fn levels(&self) -> usize {
        usize::from(self.place.levels)
    }
}

/// A packet whose MAC is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) work: &'a Work,
    pub(crate) layout: &'a Layout,
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Where keys and messages of a group of packets are while they are
/// worked on. Overwritten by each, wiped at the end.
pub(crate) struct Lanes {
    keys: Row,
    inputs: Inputs,
    messages: Box<Messages>,
    /// For packets that go by themselves.
    single: Box<Message>,
}

/// What the next key of each lane is derived from.
struct Inputs {
    rows: [Row; PrfInput::MOST_BLOCKS],
    /// Blocks of each lane.
    lens: [u8; LANES],
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self {
            keys: Row::ZERO,
            inputs: Inputs { rows: [Row::ZERO; PrfInput::MOST_BLOCKS], lens: [0; LANES] },
            messages: Box::new(Messages::empty()),
            single: Box::new(Message::empty()),
        }
    }

    /// The MACs of the lanes that have a load; of the others something.
    #[inline]
    pub(crate) fn macs(&mut self, epochs: &[EpochKeys], loads: &[Option<Load<'_>>; LANES]) -> Row {
        let (mut most_levels, mut single_ones) = (0, false);
        // Nearly always all packets are of one epoch and suite, whose key has been made ready.
        let (mut shared, mut is_shared) = (None, true);
        for (lane, load) in loads.iter().enumerate() {
            self.inputs.lens[lane] = 0;
            self.messages.clear(lane);
            let Some(Load { work, layout, header, .. }) = load else { continue };
            if !work.is_aes_chain() {
                single_ones = true;
                continue;
            }
            let wire = &header[usize::from(work.place.at)..];
            self.inputs.set_secret(lane, wire, work);
            let origin = (work.epoch, work.suite);
            is_shared &= *shared.get_or_insert(origin) == origin;
            most_levels = most_levels.max(work.levels());
            if work.suite == Suite::HeaderAes {
                self.messages.set(lane, header, layout);
            } else {
                single_ones = true;
            }
        }
        self.keys = match shared {
            Some((epoch, suite)) if is_shared => {
                let key = epochs[epoch].long_key(suite);
                key.cbc_macs(&self.inputs.rows, &self.inputs.lens)
            }
            _ => self.secrets_of_many(epochs, loads),
        };
        for level in 0..most_levels {
            self.delegate(loads, level);
        }
        self.keys = cbc_macs(&self.keys, &[BINDING_KEY_INPUT], &[1; LANES]);
        let mut macs = self.messages.macs(&self.keys);
        if single_ones {
            self.add_single_ones(epochs, loads, &mut macs);
        }
        macs
    }

    /// The secrets of packets of different epochs or suites.
    fn secrets_of_many(&mut self, epochs: &[EpochKeys], loads: &[Option<Load<'_>>; LANES]) -> Row {
        for (key, load) in self.keys.0.iter_mut().zip(loads) {
            if let Some(Load { work, .. }) = load {
                *key = *epochs[work.epoch].key(work.suite);
            }
        }
        cbc_macs(&self.keys, &self.inputs.rows, &self.inputs.lens)
    }

    /// Replaces the secrets of packets that were delegated this far.
    fn delegate(&mut self, loads: &[Option<Load<'_>>; LANES], level: usize) {
        let is_delegated = |load: &Load<'_>| load.work.is_aes_chain() && level < load.work.levels();
        for (lane, load) in loads.iter().enumerate() {
            self.inputs.lens[lane] = 0;
            let Some(Load { work, header, .. }) = load.filter(is_delegated) else { continue };
            let wire = &header[usize::from(work.place.at)..];
            self.inputs.set(lane, &delegation_input(wire, work.family, level));
        }
        let keys = cbc_macs(&self.keys, &self.inputs.rows, &self.inputs.lens);
        for (lane, key) in keys.0.iter().enumerate() {
            if self.inputs.lens[lane] > 0 {
                self.keys.0[lane] = *key;
            }
        }
    }

    /// The MACs of packets that do not go side by side, or only as far as their keys.
    fn add_single_ones(
        &mut self,
        epochs: &[EpochKeys],
        loads: &[Option<Load<'_>>; LANES],
        macs: &mut Row,
    ) {
        for (lane, load) in loads.iter().enumerate() {
            let Some(Load { work, layout, header, payload }) = load else { continue };
            let key = if !work.is_aes_chain() {
                single_key(&epochs[work.epoch], work, &header[usize::from(work.place.at)..])
            } else if work.suite == Suite::PacketPolyval {
                self.keys.0[lane]
            } else {
                continue;
            };
            self.single.write(header, layout, layout.pointer);
            macs.0[lane] = mac_once(work.suite, &key, &self.single, payload);
        }
    }
}

impl Inputs {
    #[inline]
    fn set_secret(&mut self, lane: usize, wire: &[u8], work: &Work) {
        match (work.family, wire.first_chunk()) {
            (Family::V4, Some(wire)) => {
                self.rows[0].0[lane] = secret_block_v4(wire, work.window);
                self.lens[lane] = 1;
            }
            _ => self.set(lane, &secret_input(wire, work.family, work.window)),
        }
    }

    #[inline]
    fn set(&mut self, lane: usize, input: &PrfInput) {
        let blocks = input.blocks();
        for (row, block) in self.rows.iter_mut().zip(blocks) {
            row.0[lane] = *block;
        }
        self.lens[lane] = blocks.len() as u8;
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.keys.zeroize();
    }
}

/// The key of one packet's binding, step by step: SipHash, and the paper's schemes.
fn single_key(epoch: &EpochKeys, work: &Work, wire: &[u8]) -> [u8; BLOCK] {
    let Work { suite, family, window, .. } = *work;
    let mut secret = prf(suite, epoch.key(suite), &secret_input(wire, family, window));
    if work.place.scheme != Scheme::CaveatChain {
        let delegation = (work.levels() > 0).then(|| delegation_at(wire, family, 0));
        return reference::binding_key(suite, work.place.scheme, &secret, delegation.as_ref());
    }
    for level in 0..work.levels() {
        secret = prf(suite, &secret, &delegation_input(wire, family, level));
    }
    *binding_key(suite, &secret)
}
