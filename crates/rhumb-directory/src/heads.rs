//! The heads of RIBs' logs that are kept, and what two of them prove against the RIB that signed
//! them.
//!
//! Of each RIB the newest head is kept. A later one counts when it is shown to follow; one of the
//! same epoch that says otherwise, or of a log that ran at the same time, is a [`Fork`]: two heads
//! that one RIB signed and no honest one does, for whoever has its metadata. Where heads come from
//! does not matter, so routers can hand them to each other.
//!
//! INVARIANT: nothing enters that was not verified, and no head takes the place of another that it
//! does not follow. What a RIB cannot or will not link proves nothing by itself: perhaps it has
//! forgotten a head of long ago.

use rhumb_trust::log::{is_before, verify_head};
use rhumb_trust::{CLOCK_SKEW_S, Verified};
use rhumb_wire::log::{Hash, Head};
use rhumb_wire::{Metadata, Name};

use crate::table::Table;

/// The newest heads of a bounded number of RIBs.
pub struct Heads {
    newest: Table<Name, Verified<Head>>,
    forks: Table<Name, Fork>,
}

/// Two heads of one RIB that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The one that came first.
    pub one: Head,
    /// The other one.
    pub other: Head,
}

/// What came of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is the first of its log that is known.
    First,
    /// It was known.
    Same,
    /// It follows the one that was known, and is kept in its place.
    Newer,
    /// The one that is known follows it.
    Older,
    /// It was not shown whether it follows, or is followed by, the one of this epoch, which is
    /// kept.
    Unlinked {
        /// Of the one that is kept.
        kept: u64,
    },
    /// It contradicts the one that was known, which is kept. The RIB is not to be trusted.
    Forked,
}

impl Heads {
    /// Of at most so many RIBs.
    pub fn new(bound: usize) -> Self {
        Self { newest: Table::new(bound), forks: Table::new(bound) }
    }

    /// The newest head of a RIB that is known.
    pub fn newest(&mut self, rib: &Name) -> Option<&Verified<Head>> {
        self.newest.get(rib).map(|head| &*head)
    }

    /// The same, which does not count as a use.
    pub fn peek(&self, rib: &Name) -> Option<&Head> {
        self.newest.peek(rib).map(|head| &**head)
    }

    /// The newest heads of all RIBs.
    pub fn all_newest(&self) -> impl Iterator<Item = &Head> {
        self.newest.iter().map(|(_, head)| &**head)
    }

    /// Knows this head in place of another one of the same RIB, from which nobody leads to it any
    /// more.
    pub fn begin_anew(&mut self, head: Verified<Head>) {
        self.newest.insert(head.rib, head);
    }

    /// What proves that a RIB has told different things to different askers, if anything does.
    pub fn fork(&self, rib: &Name) -> Option<&Fork> {
        self.forks.peek(rib)
    }

    /// All of those.
    pub fn forks(&self) -> impl Iterator<Item = &Fork> {
        self.forks.iter().map(|(_, fork)| fork)
    }

    /// Takes a head over, with the way back from the later one of it and the one that is known.
    pub fn take(&mut self, head: Verified<Head>, back: &[Hash]) -> Taken {
        let rib = head.rib;
        let Some(known) = self.newest.get(&rib) else {
            self.newest.insert(rib, head);
            return Taken::First;
        };
        if contradict(known, &head) {
            let fork = Fork { one: **known, other: *head };
            if self.forks.peek(&rib).is_none() {
                self.forks.insert(rib, fork);
            }
            return Taken::Forked;
        }
        if known.began_ms != head.began_ms {
            // The RIB was started anew.
            let is_newer = known.began_ms < head.began_ms;
            if is_newer {
                *known = head;
            }
            return if is_newer { Taken::First } else { Taken::Older };
        }
        if known.epoch == head.epoch {
            return Taken::Same;
        }
        if is_before(known, &head, back) {
            *known = head;
            return Taken::Newer;
        }
        match is_before(&head, known, back) {
            true => Taken::Older,
            false => Taken::Unlinked { kept: known.epoch },
        }
    }
}

impl Fork {
    /// Whether this proves something against the RIB of these metadata, to whomever it is shown.
    pub fn is_proof(&self, rib: &Metadata, now_s: u64) -> bool {
        let [one, other] = [self.one, self.other].map(|head| verify_head(head, rib, now_s));
        matches!((one, other), (Ok(one), Ok(other)) if contradict(&one, &other))
    }
}

/// Whether no RIB that keeps one log at a time, and adds to it alone, signs both of these.
fn contradict(one: &Head, other: &Head) -> bool {
    if one.rib != other.rib {
        return false;
    }
    if one.began_ms == other.began_ms {
        return one.epoch == other.epoch && one.signed_bytes() != other.signed_bytes();
    }
    let (first, second) = if one.began_ms < other.began_ms { (one, other) } else { (other, one) };
    // Clocks may be set back a little, and the RIB be started anew just then.
    first.made_ms > second.began_ms.saturating_add(CLOCK_SKEW_S * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::Identity;
    use rhumb_trust::log::{Roots, head_hash, history_node};
    use rhumb_wire::Role;
    use rhumb_wire::log::NOTHING;

    const NOW_S: u64 = 1_000_000;

    fn head(rib: &Identity, (began_ms, epoch, made_ms): (u64, u64, u64), history: Hash) -> Head {
        let (names, map) = (1, [epoch as u8 + 1; 32]);
        rib.sign_head(Roots { epoch, began_ms, made_ms, names, map, history }).unwrap()
    }

    fn verified(rib: &Identity, head: Head) -> Verified<Head> {
        verify_head(head, rib.metadata(), NOW_S).unwrap()
    }

    #[test]
    fn a_head_that_follows_is_kept_and_one_that_does_not_is_not() {
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let first = head(&rib, (5, 0, 10), NOTHING);
        let second = head(&rib, (5, 1, 20), head_hash(&first));
        let both = history_node(&head_hash(&first), &head_hash(&second));
        let third = head(&rib, (5, 2, 30), both);
        let mut heads = Heads::new(4);
        let mut take = |head, back: &[Hash]| heads.take(verified(&rib, head), back);
        assert_eq!(take(second, &[]), Taken::First);
        assert_eq!(take(second, &[]), Taken::Same);
        assert_eq!(take(first, &[]), Taken::Older);
        assert_eq!(take(third, &[]), Taken::Unlinked { kept: 1 });
        assert_eq!(take(third, &[head_hash(&second)]), Taken::Unlinked { kept: 1 });
        assert_eq!(take(third, &[head_hash(&first)]), Taken::Newer);
        assert_eq!(take(first, &[head_hash(&second)]), Taken::Older);
        assert_eq!(heads.newest(&rib.name()).map(|it| it.epoch), Some(2));
        assert_eq!(heads.forks().count(), 0);
    }

    #[test]
    fn two_heads_of_one_epoch_are_proof_for_everybody_and_of_that_rib_alone() {
        let [rib, other] = [(); 2].map(|()| Identity::generate(Role::Rib, 0).unwrap());
        let one = head(&rib, (5, 3, 10), [1; 32]);
        let forked = head(&rib, (5, 3, 10), [2; 32]);
        let mut heads = Heads::new(4);
        assert_eq!(heads.take(verified(&rib, one), &[]), Taken::First);
        assert_eq!(heads.take(verified(&rib, forked), &[]), Taken::Forked);
        let fork = *heads.fork(&rib.name()).unwrap();
        assert_eq!(fork, Fork { one, other: forked });
        assert!(fork.is_proof(rib.metadata(), NOW_S));
        assert!(!fork.is_proof(other.metadata(), NOW_S));
        assert!(!Fork { one, other: one }.is_proof(rib.metadata(), NOW_S));
        // Nobody else makes one for it.
        let mut made_up = forked;
        made_up.made_ms += 1;
        assert!(!Fork { one, other: made_up }.is_proof(rib.metadata(), NOW_S));
        let theirs = head(&other, (5, 3, 10), [2; 32]);
        assert!(!Fork { one, other: theirs }.is_proof(rib.metadata(), NOW_S));
        assert_eq!(heads.newest(&rib.name()).map(|it| it.history), Some([1; 32]));
    }

    #[test]
    fn a_rib_that_was_started_anew_has_another_log_but_not_two_at_a_time() {
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let skew_ms = CLOCK_SKEW_S * 1000;
        let begin = |began_ms, made_ms| head(&rib, (began_ms, 0, made_ms), NOTHING);
        let mut heads = Heads::new(4);
        let mut take = |head| heads.take(verified(&rib, head), &[]);
        assert_eq!(take(begin(1000, 200_000)), Taken::First);
        assert_eq!(take(begin(200_000 - skew_ms, 400_000)), Taken::First, "within the skew");
        assert_eq!(take(begin(1000, 200_000)), Taken::Older);
        assert_eq!(take(begin(1000, 200_001)), Taken::Forked, "it went on while the other ran");
        assert!(heads.fork(&rib.name()).unwrap().is_proof(rib.metadata(), NOW_S));
    }
}
