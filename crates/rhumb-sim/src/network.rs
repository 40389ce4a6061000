//! Who is at which address, what the links between stations do, and which of them are cut.
//!
//! Links belong to stations, not to addresses: a node that moves takes its link along. Each
//! direction of a pair has its own conditions and its own chance.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::StationId;
use crate::conditions::{Conditions, Direction, Fate, Sort};
use crate::random::{Random, mix};

/// A datagram on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    /// The address it claims to come from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// The datagram.
    pub bytes: Vec<u8>,
    /// Whether whoever sent it holds the address it claims; otherwise an attacker wrote it.
    pub genuine: bool,
}

/// What became of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fates {
    /// Given to the network.
    pub sent: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost in a full queue.
    pub overflowed: u64,
    /// Lost because the link was cut.
    pub cut: u64,
    /// Sent to an address that nobody held.
    pub astray: u64,
    /// Second copies.
    pub doubled: u64,
    /// Copies of which a bit was flipped.
    pub broken: u64,
}

pub(crate) struct Network {
    random: Random,
    default: Conditions,
    directions: BTreeMap<(StationId, StationId), Direction>,
    cuts: BTreeSet<(StationId, StationId)>,
    holders: BTreeMap<SocketAddr, StationId>,
    pub(crate) fates: Fates,
}

impl Network {
    pub(crate) fn new(random: Random, default: Conditions) -> Self {
        Self {
            random,
            default,
            directions: BTreeMap::new(),
            cuts: BTreeSet::new(),
            holders: BTreeMap::new(),
            fates: Fates::default(),
        }
    }

    /// Gives `station` an address, and takes it from whoever had it.
    pub(crate) fn settle(&mut self, station: StationId, address: SocketAddr) {
        self.holders.insert(address, station);
    }

    /// Nobody is at `address` any more.
    pub(crate) fn vacate(&mut self, address: SocketAddr) {
        self.holders.remove(&address);
    }

    pub(crate) fn holder(&self, address: SocketAddr) -> Option<StationId> {
        self.holders.get(&address).copied()
    }

    /// Changes the link between two stations, both ways.
    pub(crate) fn set_link(&mut self, a: StationId, b: StationId, conditions: Conditions) {
        self.direction(a, b).conditions = conditions;
        self.direction(b, a).conditions = conditions;
    }

    /// Changes all links, present and future.
    pub(crate) fn set_all_links(&mut self, conditions: Conditions) {
        self.default = conditions;
        self.directions.values_mut().for_each(|direction| direction.conditions = conditions);
    }

    pub(crate) fn cut(&mut self, a: StationId, b: StationId) {
        self.cuts.extend([(a, b), (b, a)]);
    }

    /// Cuts one direction.
    pub(crate) fn cut_one_way(&mut self, from: StationId, to: StationId) {
        self.cuts.insert((from, to));
    }

    pub(crate) fn mend(&mut self, a: StationId, b: StationId) {
        self.cuts.remove(&(a, b));
        self.cuts.remove(&(b, a));
    }

    pub(crate) fn mend_all(&mut self) {
        self.cuts.clear();
    }

    /// Sends a datagram of `sender`. Returns when it arrives, perhaps twice, perhaps broken.
    pub(crate) fn carry(
        &mut self,
        sender: StationId,
        flight: Flight,
        now: Duration,
    ) -> impl Iterator<Item = (Duration, Flight)> + use<> {
        self.fates.sent += 1;
        let (first, second) = match self.fate(sender, &flight, now) {
            None => (None, None),
            Some((at, again, flipped)) => {
                let copy = again.map(|again| (again, flight.clone()));
                let whole = match flipped {
                    Some(bit) => self.broken(flight, bit),
                    None => flight,
                };
                (Some((at, whole)), copy)
            }
        };
        self.fates.doubled += u64::from(second.is_some());
        first.into_iter().chain(second)
    }

    fn fate(
        &mut self,
        sender: StationId,
        flight: &Flight,
        now: Duration,
    ) -> Option<(Duration, Option<Duration>, Option<u64>)> {
        let Some(receiver) = self.holder(flight.to) else {
            self.fates.astray += 1;
            return None;
        };
        let sort = if is_record(&flight.bytes) { Sort::Record } else { Sort::Handshake };
        let fate = self.direction(sender, receiver).carry(sort, flight.bytes.len(), now);
        if self.cuts.contains(&(sender, receiver)) {
            self.fates.cut += 1;
            return None;
        }
        match fate {
            Fate::Carried { at, again, flipped } => Some((at, again, flipped)),
            Fate::Lost => {
                self.fates.lost += 1;
                None
            }
            Fate::Overflowed => {
                self.fates.overflowed += 1;
                None
            }
        }
    }

    fn broken(&mut self, mut flight: Flight, bit: u64) -> Flight {
        self.fates.broken += 1;
        let bits = flight.bytes.len() as u64 * 8;
        if bits > 0 {
            let bit = (bit % bits) as usize;
            flight.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // What arrives is nobody's word.
        flight.genuine = false;
        flight
    }

    fn direction(&mut self, from: StationId, to: StationId) -> &mut Direction {
        let (random, default) = (&self.random, self.default);
        self.directions.entry((from, to)).or_insert_with(|| {
            let label = mix(from.0 as u64).wrapping_mul(3) ^ mix(to.0 as u64 + 1);
            Direction::new(default, random.fork(label))
        })
    }
}

/// Whether a datagram is a sealed one, by its first byte.
pub(crate) fn is_record(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(0x80..=0x8F | 0xB0..=0xBF | 0xD0..=0xDF | 0xE0..=0xEF))
}
