//! A bounded map that forgets what was not asked for
//! lately: two generations, each of half the size.
//!
//! New and used values go to the young generation. When that is full it becomes the old one, and
//! the old one passes away. So a value survives at least half the size's worth of other insertions
//! after its last use, and nothing is kept in order. Keys are hashed with a random seed, because
//! strangers choose them.
//!
//! Every operation takes constant time, at its worst as in the mean: what passes away is dropped
//! two by two with what is inserted, since tens of thousands of entries at once take milliseconds,
//! for which everybody else would wait; and the room of a generation is made at once where it was
//! needed before, so that nothing is hashed again while it grows.

use std::collections::{HashMap, hash_map};
use std::hash::Hash;
use std::mem;

#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// What is left to be dropped of the generation before that: forgotten already.
    passing: Option<hash_map::IntoIter<K, V>>,
    half: usize,
}

impl<K: Eq + Hash + Clone, V> Generations<K, V> {
    /// Holds at most `bound` values, and at least two.
    pub(crate) fn new(bound: usize) -> Self {
        let (young, old, half) = (HashMap::new(), HashMap::new(), (bound / 2).max(1));
        Self { young, old, passing: None, half }
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
            let full = mem::replace(&mut self.young, HashMap::with_capacity(self.half));
            self.passing = Some(mem::replace(&mut self.old, full).into_iter());
        }
        self.old.remove(&key);
        self.young.insert(key, value);
        self.drop_some();
    }

    /// Drops two of what passes away, so that it is gone before the next generation is half full.
    fn drop_some(&mut self) {
        let Some(passing) = &mut self.passing else { return };
        if passing.by_ref().take(2).count() == 0 {
            self.passing = None;
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.passing = None;
    }

    /// How many values take memory, those included that are forgotten.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len() + self.passing.as_ref().map_or(0, ExactSizeIterator::len)
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
    fn no_insertion_drops_more_than_a_few() {
        let mut map = Generations::new(1000);
        let shared = std::rc::Rc::new(());
        for key in 0..10_000 {
            let before = std::rc::Rc::strong_count(&shared);
            map.insert(key, shared.clone());
            let after = std::rc::Rc::strong_count(&shared);
            assert!(after + 1 >= before, "{key}: {before} and then {after}");
            assert!(after - 1 <= 1000, "{after} take memory");
        }
        map.clear();
        assert_eq!(std::rc::Rc::strong_count(&shared), 1);
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
