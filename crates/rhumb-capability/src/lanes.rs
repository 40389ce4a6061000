//! The MACs of up to eight packets side by side: while one packet's cipher waits for itself, the processor works on the others.
//!
//! Two kinds of packets: those of suites 1 and 3 under the caveat chain, which is nearly all, go through their steps
//! together; the others each by itself.

use zeroize::Zeroize;

use crate::derive::{binding_key, binding_key_input, delegation_input, secret_input};
use crate::header::{Layout, Place, delegation_at};
use crate::mac::{Message, mac_once};
use crate::prf::{BLOCK, PrfInput, prf};
use crate::side_by_side::{LANES, cbc_macs};
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

/// Where keys and messages of eight packets are while they are worked on. Overwritten by each batch, wiped at the end.
pub(crate) struct Lanes {
    keys: [[u8; BLOCK]; LANES],
    messages: Box<[Message; LANES]>,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self {
            keys: [[0; BLOCK]; LANES],
            messages: Box::new(std::array::from_fn(|_| Message::empty())),
        }
    }

    /// Takes a packet's header, for the capability that its pointer is at.
    #[inline]
    pub(crate) fn load(&mut self, lane: usize, header: &[u8], layout: &Layout) {
        self.messages[lane].write(header, layout, layout.pointer);
    }

    /// The MACs of the lanes that have work; of the others something.
    #[inline]
    pub(crate) fn macs<'a>(
        &mut self,
        epochs: &[EpochKeys],
        work: &[Option<&'a Work>; LANES],
        payloads: &[&'a [u8]; LANES],
    ) -> [[u8; BLOCK]; LANES] {
        let side_by_side = work.map(|work| work.filter(|work| work.is_aes_chain()));
        self.derive(epochs, &side_by_side);
        let mut macs = self.header_macs(&side_by_side);
        for (lane, work) in work.iter().enumerate() {
            let Some(work) = work else { continue };
            let message = &self.messages[lane];
            if !work.is_aes_chain() {
                let wire = message.header_from(work.place.at);
                let key = single_key(&epochs[work.epoch], work, wire);
                macs[lane] = mac_once(work.suite, &key, message, payloads[lane]);
            } else if work.suite == Suite::PacketPolyval {
                macs[lane] = mac_once(work.suite, &self.keys[lane], message, payloads[lane]);
            }
        }
        macs
    }

    /// Leaves in each lane the key of its binding.
    #[inline]
    fn derive(&mut self, epochs: &[EpochKeys], work: &[Option<&Work>; LANES]) {
        let mut most_levels = 0;
        let mut inputs = [PrfInput::NONE; LANES];
        for (lane, work) in work.iter().enumerate() {
            let Some(work) = work else { continue };
            let wire = self.messages[lane].header_from(work.place.at);
            inputs[lane] = secret_input(wire, work.family, work.window);
            self.keys[lane] = *epochs[work.epoch].key(work.suite);
            most_levels = most_levels.max(work.levels());
        }
        self.step(&inputs);
        for level in 0..most_levels {
            for (lane, work) in work.iter().enumerate() {
                inputs[lane] = PrfInput::NONE;
                let Some(work) = work.filter(|work| level < work.levels()) else { continue };
                let wire = self.messages[lane].header_from(work.place.at);
                inputs[lane] = delegation_input(wire, work.family, level);
            }
            self.step(&inputs);
        }
        self.step(&work.map(|work| work.map_or(PrfInput::NONE, |_| binding_key_input())));
    }

    /// The next key of each lane that has an input.
    #[inline]
    fn step(&mut self, inputs: &[PrfInput; LANES]) {
        let blocks = inputs.each_ref().map(PrfInput::blocks);
        let keys = cbc_macs(&self.keys, &blocks);
        for (lane, key) in keys.iter().enumerate() {
            if !blocks[lane].is_empty() {
                self.keys[lane] = *key;
            }
        }
    }

    /// CBC-MAC of all lanes of suite 1.
    #[inline]
    fn header_macs(&self, work: &[Option<&Work>; LANES]) -> [[u8; BLOCK]; LANES] {
        let mut blocks: [&[[u8; BLOCK]]; LANES] = [&[]; LANES];
        for (lane, work) in work.iter().enumerate() {
            if work.is_some_and(|work| work.suite == Suite::HeaderAes) {
                blocks[lane] = self.messages[lane].blocks();
            }
        }
        cbc_macs(&self.keys, &blocks)
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
