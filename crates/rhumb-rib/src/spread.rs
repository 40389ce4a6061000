//! A map of any size that never takes long for one key: of many small ones, so that what grows is
//! always small.
//!
//! A map of half a million keys that doubles hashes each of them again and takes tens of megabytes
//! that were not used before: tens of milliseconds, for which everybody else would wait. Which part
//! a key is in is told by a hash with a random seed, because strangers choose keys.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

#[derive(Debug)]
pub(crate) struct Spread<K, V> {
    seed: RandomState,
    /// One, until there are so many keys that it is worth [`PARTS`].
    parts: Vec<HashTable<(K, V)>>,
    len: usize,
}

impl<K, V> Default for Spread<K, V> {
    fn default() -> Self {
        Self { seed: RandomState::default(), parts: vec![HashTable::new()], len: 0 }
    }
}

impl<K: Eq + Hash, V> Spread<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.find(self.hash(key), key)
    }

    /// Looks for up to [`READ_AHEAD`] keys, hashed before the first is looked for, so that memory
    /// is waited for together.
    pub(crate) fn find_all(&self, keys: &[K]) -> [Option<&V>; READ_AHEAD] {
        let mut hashes = [0; READ_AHEAD];
        hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = self.hash(key));
        let mut found = [None; READ_AHEAD];
        for ((value, hash), key) in found.iter_mut().zip(hashes).zip(keys) {
            *value = self.find(hash, key);
        }
        found
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hash(key);
        let part = self.part(hash);
        self.parts[part].find_mut(hash, |(it, _)| it == key).map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.parts.len() == 1 && self.len == MOST_IN_ONE {
            let together = std::mem::take(&mut self.parts[0]);
            self.parts.resize_with(PARTS, HashTable::new);
            together.into_iter().for_each(|(key, value)| _ = self.put(key, value));
        }
        self.len += usize::from(self.put(key, value));
    }

    /// Whether the key is new.
    fn put(&mut self, key: K, value: V) -> bool {
        let hash = self.hash(&key);
        let (part, seed) = (self.part(hash), &self.seed);
        let rehash = |(key, _): &(K, V)| seed.hash_one(key);
        match self.parts[part].entry(hash, |(it, _)| *it == key, rehash) {
            Entry::Occupied(mut there) => {
                there.get_mut().1 = value;
                false
            }
            Entry::Vacant(place) => {
                place.insert((key, value));
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let hash = self.hash(key);
        let part = self.part(hash);
        if let Ok(there) = self.parts[part].find_entry(hash, |(it, _)| it == key) {
            there.remove();
            self.len -= 1;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn find(&self, hash: u64, key: &K) -> Option<&V> {
        let part = &self.parts[self.part(hash)];
        part.find(hash, |(it, _)| it == key).map(|(_, value)| value)
    }

    /// Computed once for the part and for the place in it.
    fn hash(&self, key: &K) -> u64 {
        self.seed.hash_one(key)
    }

    /// By bits that a table looks at neither for the place, unless it has thousands of millions,
    /// nor for what it keeps of a hash beside it, which are the lowest and the highest.
    fn part(&self, hash: u64) -> usize {
        match self.parts.len() {
            1 => 0,
            parts => (hash >> 40) as usize % parts,
        }
    }
}

/// Keys that are looked for together: as many as memory can be waited for at a time.
pub(crate) const READ_AHEAD: usize = 16;
/// With half a million keys each of them doubles at two thousand.
const PARTS: usize = 256;
/// These are hashed once more in one turn.
const MOST_IN_ONE: usize = 1024;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_holds_what_a_map_holds_before_and_after_it_is_spread() {
        let (mut spread, mut map) = (Spread::default(), HashMap::new());
        for turn in 0u64..20_000 {
            let key = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
            match turn % 5 {
                0 => {
                    spread.remove(&key);
                    map.remove(&key);
                }
                _ => {
                    spread.insert(key, turn);
                    map.insert(key, turn);
                }
            }
            assert_eq!(spread.len(), map.len());
        }
        assert!(spread.len() > MOST_IN_ONE, "{}", spread.len());
        for key in 0..4096 {
            assert_eq!(spread.get(&key), map.get(&key));
            assert_eq!(spread.get_mut(&key), map.get_mut(&key));
            assert_eq!(spread.contains_key(&key), map.contains_key(&key));
            let found = spread.find_all(&[key, key + 1]);
            assert_eq!(found[..3], [map.get(&key), map.get(&(key + 1)), None]);
        }
        let largest = spread.parts.iter().map(HashTable::len).max();
        assert!(largest.is_some_and(|largest| largest < 64), "{largest:?}");
    }
}
