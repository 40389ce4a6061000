//! A table that cannot grow beyond its bound and keeps what is in use.
//!
//! The entries stand in a list without gaps, found by an index of their places: so a random sample
//! costs as many steps as it has entries, and [`Table::sweep`] can rid a large table of what has
//! expired without walking it. What has to go when the table is full is decided in `eviction`.
//!
//! INVARIANT: at most `bound` entries; what is over is never returned by [`Table::current`].

use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use rhumb_trust::Now;

use crate::chance::Chance;
use crate::eviction::Eviction;

/// At most so many entries; a new one takes the place of what is not in use.
pub struct Table<K, V> {
    entries: Vec<Entry<K, V>>,
    places: HashTable<u32>,
    eviction: Eviction,
    hasher: RandomState,
    bound: usize,
}

struct Entry<K, V> {
    key: K,
    value: V,
    used: bool,
}

/// What ends by itself.
pub trait Expires {
    /// Whether it is of no use any more.
    fn is_over(&self, now: Instant) -> bool;
}

/// What is nothing but its end.
impl Expires for Instant {
    fn is_over(&self, now: Instant) -> bool {
        *self <= now
    }
}

/// The moment at which a certificate's last second has passed, on the monotonic clock.
pub fn until(not_after_s: u64, now: Now) -> Instant {
    // Bounded, so that a statement for a million years cannot overflow the clock.
    let left_s = not_after_s.saturating_add(1).saturating_sub(now.unix_s()).min(MAX_LEFT_S);
    now.instant + Duration::from_secs(left_s)
}

/// How full a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// So many are there.
    pub used: usize,
    /// So many have room.
    pub bound: usize,
}

impl std::ops::AddAssign for Fill {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.bound += other.bound;
    }
}

impl<K: Eq + Hash, V> Table<K, V> {
    /// Bytes for each entry, without what a value points to: the lists may have twice the room they
    /// need, the index is at least 7/16 full, with a byte of its own for each place.
    pub const MAX_BYTES_AN_ENTRY: usize =
        2 * (size_of::<Entry<K, V>>() + Eviction::BYTES_A_PLACE) + (size_of::<u32>() + 1) * 16 / 7;

    /// A table of at most `bound` entries (at least one).
    pub fn new(bound: usize) -> Self {
        let bound = bound.clamp(1, MAX_PLACES);
        Self {
            entries: Vec::new(),
            places: HashTable::new(),
            eviction: Eviction::new(bound),
            hasher: RandomState::default(),
            bound,
        }
    }

    /// The value of a key, and marks it as used.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place_of(key)?;
        let entry = &mut self.entries[place];
        entry.used = true;
        Some(&mut entry.value)
    }

    /// The value of a key, without marking it as used.
    pub fn peek(&self, key: &K) -> Option<&V> {
        Some(&self.entries[self.place_of(key)?].value)
    }

    /// The same, to be changed.
    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place_of(key)?;
        Some(&mut self.entries[place].value)
    }

    /// Enters a value, or replaces that of the key. A new one counts as used from the next time on.
    pub fn insert(&mut self, key: K, value: V) {
        if let Some(place) = self.place_of(&key) {
            self.entries[place].value = value;
            return;
        }
        let hash = self.hasher.hash_one(&key);
        let entry = Entry { key, value, used: false };
        let place = if self.is_full() {
            let entries = &mut self.entries;
            let place =
                self.eviction.evict(|place| std::mem::take(&mut entries[place as usize].used));
            self.eviction.enter_again(place);
            self.forget_place(place as usize);
            self.entries[place as usize] = entry;
            place
        } else {
            self.entries.push(entry);
            let entries = &mut self.entries;
            self.eviction.push(|place| std::mem::take(&mut entries[place as usize].used));
            (self.entries.len() - 1) as u32
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let rehash = |&other: &u32| hasher.hash_one(&entries[other as usize].key);
        self.places.insert_unique(hash, place, rehash);
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.place_of(key)?;
        Some(self.remove_place(place).1)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.value))
    }

    /// Whether one more takes another's place.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.bound
    }

    /// How full it is.
    pub fn fill(&self) -> Fill {
        Fill { used: self.entries.len(), bound: self.bound }
    }

    fn place_of(&self, key: &K) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        let place = self.places.find(hash, |&place| self.entries[place as usize].key == *key)?;
        Some(*place as usize)
    }

    /// Takes a place out of the index.
    fn forget_place(&mut self, place: usize) {
        let hash = self.hasher.hash_one(&self.entries[place].key);
        if let Ok(entry) = self.places.find_entry(hash, |&other| other as usize == place) {
            entry.remove();
        }
    }

    fn remove_place(&mut self, place: usize) -> (K, V) {
        self.forget_place(place);
        let last = self.entries.len() - 1;
        if place != last {
            let hash = self.hasher.hash_one(&self.entries[last].key);
            if let Some(moved) = self.places.find_mut(hash, |&other| other as usize == last) {
                *moved = place as u32;
            }
        }
        self.eviction.swap_remove(place as u32);
        let entry = self.entries.swap_remove(place);
        (entry.key, entry.value)
    }
}

impl<K: Eq + Hash, V: Expires> Table<K, V> {
    /// As [`Table::get`], of what is not over; what is, is removed.
    pub fn current(&mut self, key: &K, now: Instant) -> Option<&mut V> {
        let place = self.place_of(key)?;
        if self.entries[place].value.is_over(now) {
            self.remove_place(place);
            return None;
        }
        let entry = &mut self.entries[place];
        entry.used = true;
        Some(&mut entry.value)
    }

    /// Removes what is over among 20 entries at random, again while it is more than a
    /// quarter of them, up to 4 times (GDP paper, section 4.4).
    pub fn sweep(&mut self, chance: &mut Chance, now: Instant) -> Swept {
        let mut removed = 0;
        for _ in 0..MAX_SAMPLES {
            let mut over = 0;
            for _ in 0..SAMPLE.min(self.entries.len()) {
                let place = chance.below(self.entries.len());
                if self.entries[place].value.is_over(now) {
                    self.remove_place(place);
                    over += 1;
                }
            }
            removed += over;
            if over * MANY <= SAMPLE.min(over + self.entries.len()) {
                return Swept { removed, goes_on: false };
            }
        }
        Swept { removed, goes_on: !self.entries.is_empty() }
    }
}

/// What a sweep came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// So many are gone.
    pub removed: usize,
    /// The last sample was still full of what is over.
    pub goes_on: bool,
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, other: Self) {
        self.removed += other.removed;
        self.goes_on |= other.goes_on;
    }
}

/// Places are numbers of 32 bits.
const MAX_PLACES: usize = u32::MAX as usize;
/// Enough to tell a quarter from next to nothing: when less than an
/// eighth is over, fewer than one in twenty go on.
const SAMPLE: usize = 20;
/// One in so many that are over is as many as may stay.
const MANY: usize = 4;
/// Bounds what one sweep costs: 80 entries looked at, about 10 us.
const MAX_SAMPLES: usize = 4;
/// A year.
const MAX_LEFT_S: u64 = 366 * 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn what_is_used_survives_a_flood_however_much_it_is() {
        for in_use in [1, 10, 400, 800] {
            let mut table = Table::new(1000);
            for key in 0..in_use {
                table.insert(key, "in use");
                table.get(&key);
            }
            for stranger in 1000..30_000 {
                table.insert(stranger, "stranger");
                assert!(table.fill().used <= 1000);
            }
            for key in 0..in_use {
                assert_eq!(table.get(&key), Some(&mut "in use"), "{key} of {in_use}");
            }
            assert!(table.peek(&1000).is_none() && table.peek(&29_999).is_some());
        }
    }

    #[test]
    fn what_is_not_used_any_more_makes_room() {
        let mut table = Table::new(100);
        for key in 0..100 {
            table.insert(key, ());
            table.get(&key);
        }
        // A second population takes over, each used as soon as it is there.
        for key in 100..1000 {
            table.insert(key, ());
            table.get(&key);
        }
        assert!((0..100).all(|key| table.peek(&key).is_none()));
        assert_eq!(table.fill(), Fill { used: 100, bound: 100 });
    }

    #[test]
    fn what_is_over_is_not_returned_and_swept_away() {
        let now = start();
        let end = now + Duration::from_secs(1);
        let mut table = Table::new(100_000);
        for key in 0..50_000 {
            // Of four, three end.
            table.insert(key, if key % 4 == 0 { end + Duration::from_secs(9) } else { end });
        }
        let mut chance = Chance::new(&[7; 32], 0);
        assert_eq!(table.sweep(&mut chance, now), Swept::default());
        assert!(table.current(&1, now).is_some());
        assert!(table.current(&1, end).is_none());
        assert_eq!(table.fill().used, 49_999);
        let (mut sweeps, mut pauses) = (0, 0);
        while table.fill().used > 2 * 12_500 {
            sweeps += 1;
            pauses += usize::from(!table.sweep(&mut chance, end).goes_on);
            assert!(sweeps < 1000, "{} left", table.fill().used);
        }
        // A sample may by chance be better than the table, but seldom is.
        assert!(pauses < sweeps / 10, "{pauses} pauses in {sweeps} sweeps");
        assert!((0..50_000).step_by(4).all(|key| table.peek(&key).is_some()));
        assert_eq!(table.sweep(&mut chance, end + Duration::from_secs(9)).removed, 80);
    }

    #[test]
    fn a_small_table_is_swept_empty() {
        let now = start();
        let mut table = Table::new(10);
        (0..3).for_each(|key| table.insert(key, now));
        let mut chance = Chance::new(&[7; 32], 1);
        for _ in 0..20 {
            table.sweep(&mut chance, now);
        }
        assert_eq!(table.fill().used, 0);
        assert_eq!(table.sweep(&mut chance, now), Swept::default());
    }

    proptest! {
        #[test]
        fn answers_are_never_stale_and_the_bound_holds(operations in prop::collection::vec((0u8..4, 0u8..40, any::<u16>()), 0..400)) {
            let mut table = Table::new(16);
            let mut model = std::collections::HashMap::new();
            for (operation, key, value) in operations {
                match operation {
                    0 | 1 => { table.insert(key, value); model.insert(key, value); }
                    2 => { table.remove(&key); model.remove(&key); }
                    _ => {
                        // An entry may have been evicted, but never brings back an older value.
                        if let Some(seen) = table.get(&key) {
                            prop_assert_eq!(Some(*seen), model.get(&key).copied());
                        }
                    }
                }
                prop_assert!(table.fill().used <= 16);
                prop_assert!(table.iter().all(|(key, value)| model.get(key) == Some(value)));
                prop_assert_eq!(table.places.len(), table.entries.len());
            }
        }
    }
}
