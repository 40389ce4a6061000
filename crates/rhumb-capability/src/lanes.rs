//! The MACs of up to eight packets side by side: while one packet's cipher waits for itself, the processor works on the others.
//!
//! Two kinds of packets: those of suites 1 and 3 under the caveat chain, which is nearly all, go through their steps
//! together; the others each by itself.

use std::mem::ManuallyDrop;

use zeroize::Zeroize;

use crate::derive::{binding_key, binding_key_input, delegation_input, secret_input};
use crate::header::{Layout, Place, delegation_at};
use crate::mac::{Message, mac_once};
use crate::prf::{AesKey, BLOCK, PrfInput, prf, xor};
use crate::{EpochKeys, Family, Scheme, Suite, Window, reference};

/// Packets side by side.
pub(crate) const LANES: usize = 8;

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
    /// Not dropped when overwritten: that would wipe them byte by byte, which takes longer than to use them.
    schedules: [ManuallyDrop<AesKey>; LANES],
    messages: Box<[Message; LANES]>,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self {
            keys: [[0; BLOCK]; LANES],
            schedules: std::array::from_fn(|_| ManuallyDrop::new(AesKey::new(&[0; BLOCK]))),
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
        let mut macs = [[0; BLOCK]; LANES];
        let side_by_side = work.map(|work| work.filter(|work| work.is_aes_chain()));
        self.derive(epochs, &side_by_side);
        self.header_macs(&side_by_side, &mut macs);
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

    /// Leaves in each lane the key of its binding, expanded.
    #[inline]
    fn derive(&mut self, epochs: &[EpochKeys], work: &[Option<&Work>; LANES]) {
        let mut most_levels = 0;
        for (lane, work) in work.iter().enumerate() {
            let Some(work) = work else { continue };
            let wire = self.messages[lane].header_from(work.place.at);
            let input = secret_input(wire, work.family, work.window);
            self.keys[lane] = epochs[work.epoch].expanded(work.suite).prf(&input);
            most_levels = most_levels.max(work.levels());
        }
        for level in 0..most_levels {
            for (lane, work) in work.iter().enumerate() {
                let Some(work) = work.filter(|work| level < work.levels()) else { continue };
                let wire = self.messages[lane].header_from(work.place.at);
                self.step(lane, &delegation_input(wire, work.family, level));
            }
        }
        let binding_key = binding_key_input();
        for (lane, work) in work.iter().enumerate() {
            if work.is_some() {
                self.step(lane, &binding_key);
            }
        }
    }

    #[inline]
    fn step(&mut self, lane: usize, input: &PrfInput) {
        let key = ManuallyDrop::new(AesKey::new(&self.keys[lane]));
        self.keys[lane] = key.prf(input);
    }

    /// CBC-MAC of all lanes of suite 1, block by block.
    #[inline]
    fn header_macs(&mut self, work: &[Option<&Work>; LANES], macs: &mut [[u8; BLOCK]; LANES]) {
        let is_mine =
            |work: &Option<&Work>| work.is_some_and(|work| work.suite == Suite::HeaderAes);
        let mut most_blocks = 0;
        for (lane, work) in work.iter().enumerate() {
            if is_mine(work) {
                self.schedules[lane] = ManuallyDrop::new(AesKey::new(&self.keys[lane]));
                most_blocks = most_blocks.max(self.messages[lane].blocks().len());
            }
        }
        for number in 0..most_blocks {
            for (lane, work) in work.iter().enumerate() {
                let blocks = self.messages[lane].blocks();
                if let (true, Some(block)) = (is_mine(work), blocks.get(number)) {
                    xor(&mut macs[lane], block);
                    self.schedules[lane].encrypt(&mut macs[lane]);
                }
            }
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.keys.zeroize();
        for schedule in &mut self.schedules {
            let spent = ManuallyDrop::new(AesKey::new(&[0; BLOCK]));
            drop(ManuallyDrop::into_inner(std::mem::replace(schedule, spent)));
        }
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
