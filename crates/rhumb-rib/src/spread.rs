//! A map of any size that never takes long for one key: of many small ones, so that what grows is
//! always small.
//!
//! A map of half a million keys that doubles hashes each of them again and takes tens of megabytes
//! that were not used before: tens of milliseconds, for which everybody else would wait. Which part
//! a key is in is told by a hash with a random seed, because strangers choose keys.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

#[derive(Debug)]
pub(crate) struct Spread<K, V> {
    seed: RandomState,
    /// One, until there are so many keys that it is worth [`PARTS`].
    parts: Vec<HashMap<K, V>>,
    len: usize,
}

impl<K, V> Default for Spread<K, V> {
    fn default() -> Self {
        Self { seed: RandomState::new(), parts: vec![HashMap::new()], len: 0 }
    }
}

impl<K: Eq + Hash, V> Spread<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.parts[self.part(key)].get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let part = self.part(key);
        self.parts[part].get_mut(key)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.parts.len() == 1 && self.len == MOST_IN_ONE {
            let together = std::mem::take(&mut self.parts[0]);
            self.parts.resize_with(PARTS, HashMap::new);
            for (key, value) in together {
                let part = self.part(&key);
                self.parts[part].insert(key, value);
            }
        }
        let part = self.part(&key);
        self.len += usize::from(self.parts[part].insert(key, value).is_none());
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let part = self.part(key);
        self.len -= usize::from(self.parts[part].remove(key).is_some());
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives back the memory of one part, for who needs none of it any more. Whether there was one:
    /// all at once takes milliseconds.
    pub(crate) fn drop_part(&mut self) -> bool {
        self.parts.pop().is_some()
    }

    fn part(&self, key: &K) -> usize {
        match self.parts.len() {
            1 => 0,
            parts => self.seed.hash_one(key) as usize % parts,
        }
    }
}

/// With half a million keys each of them doubles at two thousand.
const PARTS: usize = 256;
/// These are hashed once more in one turn.
const MOST_IN_ONE: usize = 1024;

#[cfg(test)]
mod tests {
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
        }
        let largest = spread.parts.iter().map(HashMap::len).max();
        assert!(largest.is_some_and(|largest| largest < 64), "{largest:?}");
    }
}
