//! A table whose keys go stale: a key is a slot and the slot's generation, so
//! that a key to something removed finds nothing, even after the slot was used
//! again. Look-up is one index and one comparison.

/// A table of `T`.
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Where a value is, while it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    slot: u32,
    generation: u32,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Values held, borrowed ones included.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.value = Some(value);
            return Key { slot, generation: entry.generation };
        }
        let slot = u32::try_from(self.slots.len()).expect("invariant: limits are far below 2^32");
        // Nodes have one or two of what is here, and a vector begins with room for four.
        if self.slots.len() < 4 {
            self.slots.reserve_exact(1);
        }
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Key { slot, generation: 0 }
    }

    /// Puts a value where another table's key points to, in place of what was there.
    pub(crate) fn put(&mut self, key: Key, value: T) {
        let slot = key.slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || Slot { generation: 0, value: None });
        }
        self.slots[slot] = Slot { generation: key.generation, value: Some(value) };
    }

    /// Undoes [`Slots::put`].
    pub(crate) fn forget(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(key.slot as usize)
            && slot.generation == key.generation
        {
            slot.value = None;
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.slot as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    /// Lends a value out: its key stays valid, and finds it again after [`Slots::restore`].
    pub(crate) fn borrow(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation == key.generation { slot.value.take() } else { None }
    }

    /// Puts a borrowed value back.
    pub(crate) fn restore(&mut self, key: Key, value: T) {
        let slot = &mut self.slots[key.slot as usize];
        debug_assert!(slot.generation == key.generation && slot.value.is_none());
        slot.value = Some(value);
    }

    /// Ends a key, whether its value is here or borrowed.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot);
        slot.value.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| {
            let key = Key { slot: slot as u32, generation: entry.generation };
            Some((key, entry.value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!((slots.get(second), slots.len()), (Some(&'b'), 1));
    }

    #[test]
    fn a_borrowed_value_keeps_its_key() {
        let mut slots = Slots::new();
        let key = slots.insert('a');
        assert_eq!(slots.borrow(key), Some('a'));
        assert_eq!((slots.get(key), slots.len()), (None, 1));
        assert_ne!(slots.insert('b'), key);
        slots.restore(key, 'c');
        assert_eq!(slots.get(key), Some(&'c'));
        slots.borrow(key);
        assert_eq!((slots.remove(key), slots.len()), (None, 1));
    }
}
