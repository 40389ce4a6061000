//! A network in memory for tests: endpoints with addresses and bounded queues, and between them
//! seeded loss, duplication and reordering, wiretaps and forged senders.
//!
//! Invariant: with the same seed and the same calls in the same order, the same datagrams arrive in
//! the same order. No time passes: what is sent and not lost can be received at once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhumb_wire::Batch;

use crate::{Counters, IoError, PacketIo, SendReport};

/// How a network treats datagrams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Share of datagrams that are lost, 0 to 1.
    pub loss: f64,
    /// Share of datagrams that arrive twice, 0 to 1.
    pub duplication: f64,
    /// Share of datagrams that overtake up to [`REORDER_SPAN`]
    /// of those that wait in front of them, 0 to 1.
    pub reordering: f64,
    /// Datagrams that wait at one endpoint at most; what comes when so many wait is lost.
    pub queue_datagrams: usize,
    /// Bytes of the largest datagram that the network carries.
    pub largest_datagram: usize,
}

impl Default for Conditions {
    /// A perfect network, but for its bounds.
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            queue_datagrams: 4096,
            largest_datagram: 65_507,
        }
    }
}

/// Most datagrams that a reordered one overtakes.
pub const REORDER_SPAN: usize = 8;

/// A datagram as a wiretap sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Who sent it, by its own account.
    pub from: SocketAddr,
    /// Who it goes to.
    pub to: SocketAddr,
    /// The datagram.
    pub bytes: Vec<u8>,
}

/// What became of the datagrams of a network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fates {
    /// Put into a queue, duplicates included.
    pub delivered: u64,
    /// Of these, second copies.
    pub duplicated: u64,
    /// Of these, those that overtook others.
    pub reordered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost because the receiver's queue was full.
    pub overflowed: u64,
}

/// A network in memory. Clones are the same network.
#[derive(Debug, Clone)]
pub struct Network {
    state: Arc<Mutex<State>>,
}

impl Network {
    /// A network without endpoints. All chance follows from `seed`.
    pub fn new(seed: u64, conditions: Conditions) -> Self {
        let state = State {
            conditions,
            chance: Chance(seed),
            queues: HashMap::new(),
            taps: Vec::new(),
            fates: Fates::default(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// An endpoint with `address`. The address is free again when the endpoint is dropped.
    pub fn endpoint(&self, address: SocketAddr) -> Result<Endpoint, IoError> {
        let mut state = self.lock();
        if state.queues.contains_key(&address) {
            let source = io::ErrorKind::AddrInUse.into();
            return Err(IoError::Bind { address, source });
        }
        state.queues.insert(address, VecDeque::new());
        drop(state);
        Ok(Endpoint { network: self.clone(), address, counters: Counters::default() })
    }

    /// Treats the datagrams sent from now on by other conditions.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.lock().conditions = conditions;
    }

    /// Records all datagrams sent from now on between two addresses,
    /// both ways, those that will be lost included.
    pub fn capture(&self, one: SocketAddr, other: SocketAddr) -> Capture {
        let capture = Capture { datagrams: Arc::default() };
        self.lock().taps.push(Tap { one, other, capture: capture.clone() });
        capture
    }

    /// Delivers a datagram with a sender's address of the caller's choice, as an attacker on the
    /// path can: past chance and wiretaps. Says whether there was an endpoint with room.
    pub fn inject(&self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> bool {
        self.lock().deliver(from, to, datagram)
    }

    /// What became of the datagrams so far.
    pub fn fates(&self) -> Fates {
        self.lock().fates
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test thread that panicked leaves the queues
        // whole: each change to them is a single call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of a network: a backend.
#[derive(Debug)]
pub struct Endpoint {
    network: Network,
    address: SocketAddr,
    counters: Counters,
}

impl Endpoint {
    /// What the endpoint has done so far; one call and one message per batch and datagram.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl PacketIo for Endpoint {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        batch.clear();
        self.counters.receive_calls += 1;
        let mut state = self.network.lock();
        let queue = state.queue_of(self.address);
        let waiting = queue.len().min(BATCH_DATAGRAMS);
        for (peer, datagram) in queue.drain(..waiting) {
            batch.push(peer, &datagram);
            self.counters.received_bytes += datagram.len() as u64;
        }
        self.counters.received_messages += waiting as u64;
        self.counters.received_datagrams += waiting as u64;
        Ok(waiting)
    }

    fn send(&mut self, batch: &Batch) -> io::Result<SendReport> {
        let mut report = SendReport::default();
        let mut state = self.network.lock();
        self.counters.send_calls += 1;
        for (peer, datagram) in batch.iter() {
            if datagram.len() > state.conditions.largest_datagram {
                report.dropped_too_big += 1;
            } else if peer.is_ipv4() != self.address.is_ipv4() {
                report.dropped_unreachable += 1;
            } else {
                state.carry(self.address, peer, datagram);
                report.sent += 1;
                self.counters.sent_messages += 1;
                self.counters.sent_datagrams += 1;
                self.counters.sent_bytes += datagram.len() as u64;
            }
        }
        self.counters.add_drops(&report);
        Ok(report)
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn headroom(&self) -> usize {
        0
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.network.lock().queues.remove(&self.address);
    }
}

/// What a wiretap recorded. Clones are the same recording.
#[derive(Debug, Clone)]
pub struct Capture {
    datagrams: Arc<Mutex<Vec<Captured>>>,
}

impl Capture {
    /// The datagrams so far, in the order of sending. They are kept.
    pub fn datagrams(&self) -> Vec<Captured> {
        self.lock().clone()
    }

    /// The datagrams so far, in the order of sending. They are forgotten.
    pub fn take(&self) -> Vec<Captured> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Captured>> {
        self.datagrams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    conditions: Conditions,
    chance: Chance,
    queues: HashMap<SocketAddr, Queue>,
    taps: Vec<Tap>,
    fates: Fates,
}

/// Datagrams that wait, with their senders.
type Queue = VecDeque<(SocketAddr, Vec<u8>)>;

#[derive(Debug)]
struct Tap {
    one: SocketAddr,
    other: SocketAddr,
    capture: Capture,
}

impl State {
    fn queue_of(&mut self, address: SocketAddr) -> &mut Queue {
        self.queues
            .get_mut(&address)
            .expect("invariant: an endpoint has a queue until it is dropped")
    }

    /// Takes a datagram on its way: wiretaps, then chance, then the queue.
    fn carry(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        for tap in &self.taps {
            if [(tap.one, tap.other), (tap.other, tap.one)].contains(&(from, to)) {
                tap.capture.lock().push(Captured { from, to, bytes: datagram.to_vec() });
            }
        }
        if self.chance.happens(self.conditions.loss) {
            self.fates.lost += 1;
            return;
        }
        self.deliver(from, to, datagram);
        if self.chance.happens(self.conditions.duplication) && self.deliver(from, to, datagram) {
            self.fates.duplicated += 1;
        }
        if self.chance.happens(self.conditions.reordering) {
            self.reorder(to);
        }
    }

    /// Puts a datagram at the end of the receiver's queue; says whether there is one with room.
    /// Datagrams to nobody vanish, as they do on a real network.
    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(&to) else { return false };
        if queue.len() >= self.conditions.queue_datagrams {
            self.fates.overflowed += 1;
            return false;
        }
        queue.push_back((from, datagram.to_vec()));
        self.fates.delivered += 1;
        true
    }

    /// Lets the last datagram of a queue overtake some others.
    fn reorder(&mut self, to: SocketAddr) {
        let Some(queue) = self.queues.get_mut(&to) else { return };
        let span = queue.len().saturating_sub(1).min(REORDER_SPAN);
        if span == 0 {
            return;
        }
        let overtaken = 1 + self.chance.below(span);
        if let Some(last) = queue.pop_back() {
            queue.insert(queue.len() - overtaken, last);
            self.fates.reordered += 1;
        }
    }
}

/// Deterministic chance: SplitMix64 (Steele, Lea, Flood 2014). For tests only, never for secrets.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// True with the probability given: never for 0, always for 1.
    fn happens(&mut self, probability: f64) -> bool {
        // 53 bits fill a double's mantissa, so the quotient is exact and below 1.
        ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < probability
    }

    /// A number below `bound`, which is not 0. The bias is
    /// below 2^-32 for the small bounds used here.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Most datagrams received in one batch.
const BATCH_DATAGRAMS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_splitmix64() {
        // The reference sequence for seed 0.
        let mut chance = Chance(0);
        assert_eq!(chance.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(chance.next(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn certain_things_happen_and_impossible_ones_do_not() {
        let mut chance = Chance(7);
        assert!((0..1000).all(|_| chance.happens(1.0)));
        assert!(!(0..1000).any(|_| chance.happens(0.0)));
        let half = (0..10_000).filter(|_| chance.happens(0.5)).count();
        assert!((4_800..5_200).contains(&half), "{half}");
    }
}
