//! What was in use lately, by name, as far as there is room for it.
//!
//! What was not asked for longest makes room for what is new: each name stands in a queue, and one
//! that was asked for since its last turn is put behind all others. Nothing is moved when it is
//! asked for, and nothing takes long: map and queue grow in small parts, and what gives way does
//! so one by one.
//!
//! INVARIANT: a name stands in the queue once, and what all take is never above the bound.

use rhumb_wire::Name;

use crate::pieces::Pieces;
use crate::spread::Spread;

pub(crate) struct Recent<V> {
    kept: Spread<Name, Kept<V>>,
    queue: Pieces<Name>,
    taken: usize,
    bound: usize,
    place: usize,
}

struct Kept<V> {
    /// `None` when it counts no longer: the name's turn in the queue is still to come.
    value: Option<V>,
    size: usize,
    is_used: bool,
}

impl<V> Recent<V> {
    /// For what takes so much together, each `place` besides its size.
    pub(crate) fn new(bound: usize, place: usize) -> Self {
        Self { kept: Spread::default(), queue: Pieces::default(), taken: 0, bound, place }
    }

    pub(crate) fn get(&mut self, name: &Name) -> Option<&V> {
        self.use_again(name).map(|(value, _)| value)
    }

    /// As [`Recent::get`], and whether it was asked for before, since its last turn.
    pub(crate) fn use_again(&mut self, name: &Name) -> Option<(&V, bool)> {
        let kept = self.kept.get_mut(name)?;
        let is_again = kept.is_used;
        // What is written has to be carried back to memory.
        if !is_again {
            kept.is_used = true;
        }
        kept.value.as_ref().map(|value| (value, is_again))
    }

    /// Has what is kept of these names come near, and does nothing else: `bring` is called for each
    /// that is there. Returns those that are not.
    pub(crate) fn read_ahead(&self, names: &[Name], bring: impl FnMut(&V)) -> Vec<Name> {
        // All are found before any is brought: what it holds stands elsewhere again.
        let values = self.kept.find_all(names).map(|kept| kept?.value.as_ref());
        let is_missing = |(name, value): (&Name, &Option<&V>)| value.is_none().then_some(*name);
        let missing = names.iter().zip(&values).filter_map(is_missing).collect();
        values.into_iter().flatten().for_each(bring);
        missing
    }

    pub(crate) fn insert(&mut self, name: Name, value: V, size: usize) {
        self.taken += size;
        match self.kept.get_mut(&name) {
            Some(kept) => {
                self.taken -= kept.size;
                (kept.value, kept.size) = (Some(value), size);
            }
            None => {
                self.taken += self.place;
                self.kept.insert(name, Kept { value: Some(value), size, is_used: false });
                self.queue.push(name);
            }
        }
        self.make_room();
    }

    /// Whether there is room for one more of this size, and `name` has none yet.
    pub(crate) fn has_room(&self, name: &Name, size: usize) -> bool {
        self.taken + self.place + size <= self.bound && !self.kept.contains_key(name)
    }

    /// What is kept of a name counts no longer.
    pub(crate) fn remove(&mut self, name: &Name) {
        if let Some(kept) = self.kept.get_mut(name) {
            self.taken -= kept.size;
            (kept.value, kept.size) = (None, 0);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.bound, self.place);
    }

    fn make_room(&mut self) {
        let mut spared = 0;
        while self.taken > self.bound {
            let Some(name) = self.queue.pop() else { return };
            let Some(kept) = self.kept.get_mut(&name) else { continue };
            if spared < MAX_SPARED && std::mem::take(&mut kept.is_used) && kept.value.is_some() {
                spared += 1;
                self.queue.push(name);
            } else {
                self.taken -= kept.size + self.place;
                self.kept.remove(&name);
            }
        }
    }
}

/// Bounds the work of one that is new.
const MAX_SPARED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 240;
    const PLACE: usize = 160;

    fn name(number: usize) -> Name {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_be_bytes());
        Name(name)
    }

    #[test]
    fn what_is_in_use_stays_whatever_else_comes_and_nothing_is_beyond_the_bound() {
        let mut recent = Recent::new(100 * (SIZE + PLACE), PLACE);
        for number in 0..10_000 {
            recent.insert(name(number), number, SIZE);
            assert_eq!(recent.get(&name(0)), Some(&0), "{number}");
            assert!(recent.taken <= recent.bound && recent.kept.len() <= 100);
        }
        assert_eq!(recent.kept.len(), 100);
        assert_eq!(recent.get(&name(9_999)), Some(&9_999));
        assert_eq!(recent.get(&name(5_000)), None);
        // All are in use: something gives way all the same.
        (0..10_000).for_each(|number| _ = recent.get(&name(number)));
        recent.insert(name(10_000), 1, SIZE);
        assert!(recent.taken <= recent.bound);
        assert_eq!(recent.get(&name(10_000)), Some(&1));
    }

    #[test]
    fn what_was_removed_is_not_there_and_may_come_again_as_often_as_it_likes() {
        let mut recent = Recent::new(100 * (SIZE + PLACE), PLACE);
        for number in 0..100_000 {
            recent.insert(name(number % 10), number, SIZE);
            recent.remove(&name(number % 10));
            assert_eq!(recent.get(&name(number % 10)), None);
        }
        assert_eq!((recent.taken, recent.kept.len()), (10 * PLACE, 10));
        recent.insert(name(3), 7, SIZE);
        assert_eq!(recent.get(&name(3)), Some(&7));
        // Another takes its place, of another size.
        recent.insert(name(3), 8, 2 * SIZE);
        assert_eq!(recent.get(&name(3)), Some(&8));
        assert_eq!(recent.taken, 10 * PLACE + 2 * SIZE);
        let mut queued = 0;
        while recent.queue.pop().is_some() {
            queued += 1;
        }
        assert_eq!(queued, 10);
        recent.clear();
        assert!(recent.get(&name(3)).is_none() && recent.taken == 0);
    }

    #[test]
    fn there_is_room_until_something_would_have_to_give_way() {
        let mut recent = Recent::new(10 * (SIZE + PLACE), PLACE);
        for number in 0..10 {
            assert!(recent.has_room(&name(number), SIZE), "{number}");
            recent.insert(name(number), number, SIZE);
            assert!(!recent.has_room(&name(number), SIZE));
        }
        assert!(!recent.has_room(&name(10), SIZE));
        let mut none = Recent::new(0, 1);
        assert!(!none.has_room(&name(0), 0));
        none.insert(name(0), 0, 0);
        assert!(none.get(&name(0)).is_none() && none.taken == 0);
    }
}
