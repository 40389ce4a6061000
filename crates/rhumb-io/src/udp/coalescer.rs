//! Adaptive coalescing: when to let datagrams gather instead of being woken by each of them, as
//! network cards do with interrupts.
//!
//! A turn of a worker costs a wake and system calls, and sending costs by runs, not by datagrams: a
//! worker that is fast gets few datagrams at a time and pays most for each. So while they come
//! close upon each other, the worker sleeps a little before it receives. What comes after silence
//! is never held back, nor is anything while batches are full by themselves.
//!
//! Invariant: a pause is never longer than the bound that was given. Per turn: a few comparisons.

use std::time::{Duration, Instant};

/// Decides, turn by turn, how long datagrams may gather.
#[derive(Debug)]
pub(super) struct Coalescer {
    most: Duration,
    /// When the turn before ended.
    before: Option<Instant>,
    /// Whether it is the end of a pause that comes next.
    paused: bool,
    /// Turns to go without a pause, since the last ones brought too little.
    skip: u32,
    /// How many that will be next time.
    penalty: u32,
}

impl Coalescer {
    /// One whose pauses are at most that long.
    pub(super) fn new(most: Duration) -> Self {
        Self { most, before: None, paused: false, skip: 0, penalty: 1 }
    }

    /// How long to let datagrams gather before they are received, after a turn that received so
    /// many and ended now. `None`: wait for the next one as long as it takes.
    pub(super) fn pause_after(&mut self, received: u64, now: Instant) -> Option<Duration> {
        let before = self.before.replace(now)?;
        if std::mem::take(&mut self.paused) {
            self.judge(received);
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let received = u32::try_from(received).ok().filter(|n| (1..FULL).contains(n))?;
        let each = now.saturating_duration_since(before) / received;
        if each * WORTH > self.most {
            return None;
        }
        self.paused = true;
        Some(self.most.min(each * FULL))
    }

    /// Learns from what a pause brought. Bursts with silence between
    /// them look like a stream, until one pauses.
    fn judge(&mut self, received: u64) {
        if received >= u64::from(WORTH) {
            self.penalty = 1;
        } else {
            self.skip = self.penalty;
            self.penalty = (2 * self.penalty).min(MAX_PENALTY);
        }
    }
}

/// Datagrams that a pause must promise, and bring: a pause costs a system
/// call and a wake, as a turn that it saves does.
const WORTH: u32 = 4;
/// Datagrams beyond which a turn's own cost is a small part of theirs.
const FULL: u32 = 32;
/// Turns between pauses that bring nothing: they then cost nothing that could be measured.
const MAX_PENALTY: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(50);

    /// Pauses after turns that end so many microseconds apart with so many datagrams.
    fn pauses(turns: impl IntoIterator<Item = (u64, u64)>) -> Vec<Option<u128>> {
        let (mut coalescer, mut now) = (Coalescer::new(MOST), Instant::now());
        let mut turn = |(after_us, received)| {
            now += Duration::from_micros(after_us);
            coalescer.pause_after(received, now).map(|pause| pause.as_micros())
        };
        turns.into_iter().map(&mut turn).collect()
    }

    #[test]
    fn the_first_after_silence_is_not_held_back() {
        assert_eq!(pauses([(0, 1), (1_000, 1), (1_000, 1)]), [None; 3]);
        assert_eq!(pauses([(0, 1), (3, 1), (1_000_000, 5)]), [None, Some(50), None]);
    }

    #[test]
    fn datagrams_that_come_close_upon_each_other_gather() {
        assert_eq!(pauses([(0, 1), (12, 1)]), [None, Some(50)], "four may come");
        assert_eq!(pauses([(0, 1), (13, 1)]), [None, None], "less than four may");
        assert_eq!(pauses([(0, 1), (31, 31)]), [None, Some(32)], "no longer than for a full batch");
    }

    #[test]
    fn nothing_waits_while_batches_are_full_or_empty() {
        assert_eq!(pauses([(0, 1), (10, 32), (10, 1024), (10, 0)]), [None; 4]);
    }

    #[test]
    fn pauses_go_on_while_they_bring_something() {
        let stream = [(0, 1), (5, 1), (50, 10), (50, 4), (50, 10)];
        assert_eq!(pauses(stream), [None, Some(50), Some(50), Some(50), Some(50)]);
    }

    #[test]
    fn pauses_that_bring_nothing_become_rare() {
        // Bursts that look like a stream, and then nothing: each
        // turn that is not after a pause promises one.
        let (mut coalescer, mut now) = (Coalescer::new(MOST), Instant::now());
        let mut paused = false;
        let mut count = 0;
        for _ in 0..10_000 {
            now += Duration::from_micros(20);
            let received = if paused { 0 } else { 10 };
            paused = coalescer.pause_after(received, now).is_some();
            count += u32::from(paused);
        }
        assert!((10..=25).contains(&count), "{count}: one in {MAX_PENALTY} at last");
    }
}
