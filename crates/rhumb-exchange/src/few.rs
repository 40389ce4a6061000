//! A map of few entries, most often one, of which there are many: per destination, say.
//! A node of `BTreeMap` has room for eleven, which for a full table is a multiple of
//! all else; here one entry takes the room of one.

/// A map as a sorted list. Adding takes time in proportion to what is there.
#[derive(Debug, Clone)]
pub struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Few<K, V> {
    /// Adds an entry; gives the value in whose place it comes.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// In the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// In the order of keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_in_the_order_of_keys() {
        let mut few = Few::default();
        assert!(few.is_empty());
        for (key, former) in [(5, None), (1, None), (3, None), (5, Some(50))] {
            assert_eq!(few.insert(key, key * 10), former);
        }
        assert_eq!(few.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [1, 3, 5]);
        few.iter_mut().for_each(|(_, value)| *value += 1);
        assert_eq!((few.remove(&3), few.remove(&3)), (Some(31), None));
        assert_eq!((few.get(&1), few.get(&3), few.len()), (Some(&11), None, 2));
    }
}
