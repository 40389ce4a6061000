//! The replay window: which packet numbers were opened already, over all epochs of a receive lane.
//!
//! A ring of bits as in RFC 6479: advancing clears whole words instead of shifting. Invariant: a
//! number is accepted at most once, because numbers below the window are refused and numbers inside
//! it have a bit that is only cleared once they have left it. Check before opening, update after: a
//! forged number must not move the window.

use crate::DropReason;

/// A sliding window over packet numbers.
pub(crate) struct ReplayWindow {
    /// One more than the highest number seen; 0 when none was.
    next: u64,
    words: [u64; WORDS],
}

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        Self { next: 0, words: [0; WORDS] }
    }

    /// The highest number that was opened.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Whether `number` may still be opened.
    #[inline]
    pub(crate) fn check(&self, number: u64) -> Result<(), DropReason> {
        if number >= self.next {
            return Ok(());
        }
        if self.next - number > WINDOW {
            return Err(DropReason::TooOld);
        }
        let (word, bit) = place(number);
        if self.words[word] & bit == 0 { Ok(()) } else { Err(DropReason::Replayed) }
    }

    /// Notes that `number`, which passed the check, was opened.
    #[inline]
    pub(crate) fn update(&mut self, number: u64) {
        if number >= self.next {
            let words_passed = number / 64 - self.next.saturating_sub(1) / 64;
            for step in 0..words_passed.min(WORDS as u64) {
                self.words[((number / 64 - step) % WORDS as u64) as usize] = 0;
            }
            self.next = number + 1;
        }
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }
}

#[inline]
fn place(number: u64) -> (usize, u64) {
    ((number / 64 % WORDS as u64) as usize, 1 << (number % 64))
}

const WORDS: usize = 64;
/// Numbers behind the highest that are still told apart. One word less than the ring holds: the
/// word that is being entered was cleared whole. At 10^6 packets a second, 4 ms of reordering.
const WINDOW: u64 = (WORDS as u64 - 1) * 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn the_window_ends_where_it_says() {
        for highest in [WINDOW, WINDOW + 1, 10 * WINDOW + 63, 10 * WINDOW + 64] {
            let mut window = ReplayWindow::new();
            window.update(highest);
            assert_eq!(window.check(highest + 1 - WINDOW), Ok(()));
            if highest >= WINDOW {
                assert_eq!(window.check(highest - WINDOW), Err(DropReason::TooOld));
            }
        }
        const { assert!(WINDOW >= 2048, "the protocol asks for 2048 or more") };
    }

    proptest! {
        /// Against a model that remembers everything: never
        /// twice, and never refused inside of the window.
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((0u64..3 * WINDOW, any::<bool>()), 1..400)) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::new(), HashSet::new(), None::<u64>);
            for (step, near) in steps {
                let number = if near { highest.unwrap_or(0).saturating_add(step % 70).saturating_sub(35) } else { step };
                let expected = match highest {
                    Some(highest) if highest + 1 > number + WINDOW => Err(DropReason::TooOld),
                    _ if seen.contains(&number) => Err(DropReason::Replayed),
                    _ => Ok(()),
                };
                prop_assert_eq!(window.check(number), expected);
                if expected.is_ok() {
                    window.update(number);
                    seen.insert(number);
                    highest = highest.max(Some(number));
                }
            }
        }
    }
}
