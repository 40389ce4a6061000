//! A bounded map that forgets what was not asked for
//! lately: two generations, each of half the size.
//!
//! New and used values go to the young generation. When that is full it becomes the old one, and
//! the old one is dropped. So a value survives at least half the size's worth of other insertions
//! after its last use, every operation takes constant time, and nothing is kept in order. Keys are
//! hashed with a random seed, because strangers choose them.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Eq + Hash + Clone, V> Generations<K, V> {
    /// Holds at most `bound` values, and at least two.
    pub(crate) fn new(bound: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), half: (bound / 2).max(1) }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(key) {
            self.insert(key.clone(), value);
        }
        self.young.get_mut(key)
    }

    /// The value of `key`, made if there is none.
    pub(crate) fn value_or_insert(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if self.get_mut(key).is_none() {
            self.insert(key.clone(), make());
        }
        self.young.get_mut(key).expect("invariant: what was used last is young")
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let mut map = Generations::new(10);
        map.insert(u32::MAX, "used");
        for key in 0..1000 {
            map.insert(key, "new");
            assert!(map.len() <= 10, "{}", map.len());
            assert_eq!(map.get_mut(&u32::MAX), Some(&mut "used"));
        }
        assert!(map.get_mut(&0).is_none());
    }

    #[test]
    fn a_newer_value_hides_an_older_one_for_good() {
        let mut map = Generations::new(2);
        map.insert(1, "first");
        map.insert(2, "other");
        map.insert(1, "second");
        assert_eq!(map.get_mut(&1), Some(&mut "second"));
        map.remove(&1);
        assert_eq!(map.get_mut(&1), None);
    }
}
