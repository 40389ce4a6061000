//! All heads of a log, as the tree of RFC 6962, of which old parts are forgotten but for their
//! hashes: the way back to any of the last [`KEPT`] heads is known, in 4 MB, for ever.
//!
//! Complete subtrees alone are kept, by level: level 0 has the heads themselves. Of each level the
//! last ones stay that a way back to one of those heads can need; what is complete to the left of
//! them is part of a larger one.

use std::collections::VecDeque;

use rhumb_trust::log::{head_hash, history_node};
use rhumb_wire::log::{Hash, Head, NOTHING};

/// All heads of a log.
#[derive(Debug, Default)]
pub struct History {
    len: u64,
    levels: Vec<Level>,
}

/// Complete subtrees of one size.
#[derive(Debug, Default)]
struct Level {
    /// Those before that are forgotten.
    first: u64,
    hashes: VecDeque<Hash>,
}

impl History {
    /// How many heads there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the next head.
    pub fn push(&mut self, head: &Head) {
        self.len += 1;
        let mut hash = head_hash(head);
        for height in 0.. {
            if self.levels.len() == height {
                self.levels.push(Level::default());
            }
            let level = &mut self.levels[height];
            level.push(hash, KEPT >> height);
            let count = level.first + level.hashes.len() as u64;
            if !count.is_multiple_of(2) {
                return;
            }
            let Some(left) = level.get(count - 2) else { return };
            hash = history_node(&left, &hash);
        }
    }

    /// The root of the tree of all heads; of nothing when there are none.
    pub fn root(&self) -> Hash {
        self.hash_of(0, self.len).unwrap_or(NOTHING)
    }

    /// The way from the root of the first `len` heads back to the one of this epoch: nothing if it
    /// is too long ago, or not there.
    pub fn way_back(&self, epoch: u64, len: u64) -> Option<Vec<Hash>> {
        if epoch >= len || len > self.len || self.len - epoch > KEPT {
            return None;
        }
        let (mut from, mut to) = (0, len);
        let mut back = Vec::new();
        while to - from > 1 {
            let middle = from + largest_below(to - from);
            let (other_from, other_to) = match epoch < middle {
                true => (middle, std::mem::replace(&mut to, middle)),
                false => (std::mem::replace(&mut from, middle), middle),
            };
            back.push(self.hash_of(other_from, other_to)?);
        }
        back.reverse();
        Some(back)
    }

    /// The hash of the heads of these epochs, which are a subtree.
    fn hash_of(&self, from: u64, to: u64) -> Option<Hash> {
        let len = to.checked_sub(from).filter(|len| *len > 0)?;
        if len.is_power_of_two() {
            let height = len.trailing_zeros();
            return self.levels.get(height as usize)?.get(from >> height);
        }
        let middle = from + largest_below(len);
        Some(history_node(&self.hash_of(from, middle)?, &self.hash_of(middle, to)?))
    }
}

impl Level {
    fn push(&mut self, hash: Hash, kept: u64) {
        self.hashes.push_back(hash);
        // One more than the heads need, for the pair that the first one is in; and another one.
        while self.hashes.len() as u64 > kept + 3 {
            self.hashes.pop_front();
            self.first += 1;
        }
    }

    fn get(&self, at: u64) -> Option<Hash> {
        let at = at.checked_sub(self.first)?;
        self.hashes.get(usize::try_from(at).ok()?).copied()
    }
}

/// The largest power of two that is less.
fn largest_below(len: u64) -> u64 {
    len.next_power_of_two() / 2
}

/// With a head a second, 18 hours; whoever asks more seldom begins anew.
const KEPT: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::log::{Roots, is_before, verify_head};
    use rhumb_trust::{Identity, Verified};
    use rhumb_wire::Role;

    fn head(rib: &Identity, history: &History, began_ms: u64) -> Verified<Head> {
        let (epoch, history) = (history.len(), history.root());
        let roots = Roots { epoch, began_ms, made_ms: began_ms, names: 0, map: NOTHING, history };
        verify_head(rib.sign_head(roots).unwrap(), rib.metadata(), 0).unwrap()
    }

    #[test]
    fn each_head_is_shown_to_be_before_each_later_one_and_none_else_is() {
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let mut history = History::default();
        let mut heads: Vec<Verified<Head>> = Vec::new();
        for _ in 0..70 {
            let latest = head(&rib, &history, 7);
            for (epoch, earlier) in heads.iter().enumerate() {
                let back = history.way_back(epoch as u64, latest.epoch).unwrap();
                assert!(back.len() <= 7);
                assert!(is_before(earlier, &latest, &back), "{epoch} of {}", heads.len());
                assert!(!is_before(&latest, earlier, &back));
                let other = &heads[(epoch + 1) % heads.len()];
                assert!(heads.len() == 1 || !is_before(other, &latest, &back));
                let long = [&back[..], &[[1; 32]]].concat();
                assert!(!is_before(earlier, &latest, &long));
                if let [.., _] = back[..] {
                    assert!(!is_before(earlier, &latest, &back[1..]));
                    let mut bent = back;
                    bent[0][0] ^= 1;
                    assert!(!is_before(earlier, &latest, &bent));
                }
            }
            assert_eq!(history.way_back(latest.epoch, latest.epoch), None);
            assert_eq!(history.way_back(0, latest.epoch + 1), None);
            history.push(&latest);
            heads.push(latest);
        }
        // Between any two of them, too, and not only from the last one.
        for (at, later) in heads.iter().enumerate() {
            for earlier in &heads[..at] {
                let back = history.way_back(earlier.epoch, later.epoch).unwrap();
                assert!(is_before(earlier, later, &back), "{} of {at}", earlier.epoch);
            }
        }
        let other_log = head(&rib, &history, 8);
        assert!(!is_before(&heads[0], &other_log, &history.way_back(0, 70).unwrap()));
    }

    #[test]
    fn what_is_long_ago_is_forgotten_and_all_since_is_known() {
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let mut history = History::default();
        let begins = head(&rib, &history, 0);
        // Heads are not signed here: their hashes are what counts.
        let of = |epoch: u64| Head { epoch, ..*begins };
        let far = 2 * KEPT + 12_345;
        for epoch in 0..far {
            history.push(&of(epoch));
        }
        assert_eq!(history.way_back(far - KEPT - 1, far), None);
        for (epoch, len) in [(far - KEPT, far - KEPT + 1), (far - 40_000, far - 20_000)] {
            assert!(history.way_back(epoch, len).is_some(), "{epoch} of {len}");
        }
        let roots = Roots {
            epoch: far,
            began_ms: 0,
            made_ms: 0,
            names: 0,
            map: NOTHING,
            history: history.root(),
        };
        let latest = verify_head(rib.sign_head(roots).unwrap(), rib.metadata(), 0).unwrap();
        for epoch in (far - KEPT..far).step_by(997).chain([far - KEPT, far - 1]) {
            let back = history.way_back(epoch, far).unwrap();
            let signed =
                Roots { epoch, began_ms: 0, made_ms: 0, names: 0, map: NOTHING, history: NOTHING };
            let signed = verify_head(rib.sign_head(signed).unwrap(), rib.metadata(), 0).unwrap();
            assert!(is_before(&signed, &latest, &back), "{epoch}");
        }
        let kept: usize = history.levels.iter().map(|level| level.hashes.len()).sum();
        assert!(kept as u64 <= 2 * KEPT + 300, "{kept}");
    }
}
