//! A set of bytes of a file, kept as its ranges: never empty, ascending, apart from each other.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of offsets.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges it takes to write the set down.
    pub(super) fn count(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// The range that holds `offset`.
    pub(super) fn containing(&self, offset: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..=offset).next_back()?;
        (offset < end).then_some(start..end)
    }

    /// Whether `range` touches or overlaps a range that is
    /// there, so that adding it makes no new one.
    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.range(..=range.end).next_back().is_some_and(|(_, &end)| end >= range.start)
    }

    /// What of `range` is not in the set.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut from = self.containing(range.start).map_or(range.start, |held| held.end);
        for (&start, &end) in self.ranges.range(from..range.end.max(from)) {
            if from < start {
                missing.push(from..start);
            }
            from = end;
        }
        if from < range.end {
            missing.push(from..range.end);
        }
        missing
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&held_start, &held_end)) = self.ranges.range(..=end).next_back() {
            if held_end < start {
                break;
            }
            start = start.min(held_start);
            end = end.max(held_end);
            self.ranges.remove(&held_start);
        }
        self.ranges.insert(start, end);
    }

    /// Takes `range` out and returns how many bytes of it were there.
    pub(super) fn remove(&mut self, range: &Range<u64>) -> u64 {
        let mut removed = 0;
        if range.is_empty() {
            return removed;
        }
        while let Some((&held_start, &held_end)) = self.ranges.range(..range.end).next_back() {
            if held_end <= range.start {
                break;
            }
            self.ranges.remove(&held_start);
            if range.end < held_end {
                self.ranges.insert(range.end, held_end);
            }
            if held_start < range.start {
                self.ranges.insert(held_start, range.start);
            }
            removed += held_end.min(range.end) - held_start.max(range.start);
        }
        removed
    }

    /// Takes out the first bytes, at most `max_len` and all of one range.
    pub(super) fn take_first(&mut self, max_len: u64) -> Option<Range<u64>> {
        let (start, end) = self.ranges.pop_first()?;
        let cut = end.min(start + max_len);
        if cut < end {
            self.ranges.insert(cut, end);
        }
        Some(start..cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bytes(set: &RangeSet) -> BTreeSet<u64> {
        set.iter().flatten().collect()
    }

    #[test]
    fn takes_the_first_bytes() {
        let mut set = RangeSet::default();
        set.insert(10..15);
        set.insert(20..22);
        assert_eq!(set.take_first(3), Some(10..13));
        assert_eq!(set.take_first(3), Some(13..15));
        assert_eq!(set.take_first(3), Some(20..22));
        assert_eq!(set.take_first(3), None);
    }

    proptest! {
        /// Against a set of single bytes, and always in its one form.
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..12), 0..40)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (insert, start, len) in steps {
                let range = start..start + len;
                let missing: BTreeSet<u64> = set.missing(&range).into_iter().flatten().collect();
                prop_assert_eq!(missing, range.clone().filter(|byte| !model.contains(byte)).collect());
                if insert {
                    let (before, touches) = (set.count(), set.touches(&range));
                    set.insert(range.clone());
                    prop_assert!(range.is_empty() || touches == (set.count() <= before));
                    model.extend(range);
                } else {
                    let before = model.len();
                    model.retain(|byte| !range.contains(byte));
                    prop_assert_eq!(set.remove(&range), (before - model.len()) as u64);
                }
                prop_assert_eq!(bytes(&set), model.clone());
                let ranges: Vec<_> = set.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!(ranges.iter().all(|range| range.start < range.end));
                for byte in 0..80 {
                    prop_assert_eq!(set.containing(byte).is_some(), model.contains(&byte));
                }
            }
        }
    }
}
