//! Places at a program: there are so many, and no peer takes more than half of what the others
//! leave. So one that opens stream after stream, and keeps them, keeps nobody else out.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_wire::Name;

/// Who has how many.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    /// Each has one more owner than the peer has places.
    taken: HashMap<Name, Arc<()>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _of: Arc<()>,
}

impl Places {
    /// So many, and nobody has one.
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: HashMap::new() }
    }

    /// A place for a peer, unless it has as many as are left.
    pub(super) fn take(&mut self, peer: Name) -> Option<Place> {
        self.taken.retain(|_, of_it| count(of_it) > 0);
        let left = self.most.saturating_sub(self.taken.values().map(count).sum());
        let of_it = self.taken.entry(peer).or_default();
        (count(of_it) < left).then(|| Place { _of: Arc::clone(of_it) })
    }
}

fn count(of_it: &Arc<()>) -> usize {
    Arc::strong_count(of_it) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as one gets.
    fn take_all(places: &mut Places, peer: u8) -> Vec<Place> {
        std::iter::from_fn(|| places.take(Name([peer; 32]))).take(1000).collect()
    }

    #[test]
    fn who_takes_all_that_he_gets_leaves_others_theirs() {
        let mut places = Places::new(400);
        let mut held: Vec<Vec<Place>> = (0..3).map(|peer| take_all(&mut places, peer)).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [200, 100, 50]);
        held.remove(0);
        assert_eq!(take_all(&mut places, 3).len(), 125);
        assert!(places.take(Name([1; 32])).is_some(), "of what was given back");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_nobody_is_remembered() {
        let mut places = Places::new(400);
        for round in 0..3 {
            assert_eq!(take_all(&mut places, round).len(), 200);
        }
        let last = places.take(Name([9; 32]));
        assert_eq!((places.taken.len(), last.is_some()), (1, true));
    }
}
