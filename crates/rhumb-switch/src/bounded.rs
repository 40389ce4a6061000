//! A map that cannot grow beyond its bound and keeps what is in use.
//!
//! Two generations: entries enter the young one; when it is half the bound, it becomes the old one and the old one is
//! forgotten. A hit among the old moves to the young. So whatever is used once per generation stays, eviction costs no
//! bookkeeping per hit, and the whole never exceeds the bound.

use std::hash::Hash;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

pub(crate) struct BoundedMap<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    half: usize,
}

impl<K: Eq + Hash, V> BoundedMap<K, V> {
    /// A map of at most `bound` entries (at least two).
    pub(crate) fn new(bound: usize) -> Self {
        let hasher = RandomState::default();
        Self {
            young: HashMap::with_hasher(hasher.clone()),
            old: HashMap::with_hasher(hasher),
            half: (bound / 2).max(1),
        }
    }

    /// The value of a key, and marks it as used.
    #[inline]
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        // Two look-ups where one would do, but the borrow of an early return would last to the end.
        if self.young.contains_key(key) {
            return self.young.get_mut(key);
        }
        self.promote(key)
    }

    /// The value of a key, without marking it as used.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            // The freed table of the old generation serves as the next young one: no allocation in steady state.
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.young.iter().chain(&self.old)
    }

    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    #[cold]
    fn promote(&mut self, key: &K) -> Option<&mut V> {
        let (key, value) = self.old.remove_entry(key)?;
        if self.young.len() >= self.half {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        Some(self.young.entry(key).or_insert(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_used_survives_a_flood() {
        let mut map = BoundedMap::new(100);
        map.insert(0u32, "in use");
        for stranger in 1..100_000 {
            map.insert(stranger, "stranger");
            assert!(map.len() <= 100);
            if stranger % 49 == 0 {
                assert_eq!(map.get(&0), Some(&mut "in use"), "after {stranger}");
            }
        }
    }

    proptest! {
        #[test]
        fn answers_are_never_stale_and_the_bound_holds(operations in prop::collection::vec((0u8..4, 0u8..40, any::<u16>()), 0..400)) {
            let mut map = BoundedMap::new(16);
            let mut model = std::collections::HashMap::new();
            for (operation, key, value) in operations {
                match operation {
                    0 | 1 => { map.insert(key, value); model.insert(key, value); }
                    2 => { map.remove(&key); model.remove(&key); }
                    _ => {
                        // An entry may have been evicted, but never brings back an older value.
                        if let Some(seen) = map.get(&key) {
                            prop_assert_eq!(Some(*seen), model.get(&key).copied());
                        }
                    }
                }
                prop_assert!(map.len() <= 16);
            }
        }
    }
}
