//! Who may have how much of this end's processor while much comes in at once.
//!
//! A packet full of tiny frames costs up to eighty times what one full of data does, so time is
//! what counts: whoever drives an end measures it. When a batch has taken long, a connection that
//! has had its share of it loses what else came of it, as on a path that is full: who floods finds
//! that his packets get lost, and others hardly wait.
//!
//! Peers that were chosen, by this end or by their names, have equal shares. Strangers have one
//! together, since names cost nothing, and equal ones of that.

use std::time::{Duration, Instant};

/// What all connections have had.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The number of the batch, what it took so far, and what of it was for strangers.
    batch: u64,
    all: Duration,
    strangers: Duration,
    /// The number of the present age, and when it began.
    age: u64,
    aged_at: Instant,
    /// Who had something in this age, and in the one before.
    active: Active,
    active_before: Active,
}

/// What one connection has had.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spent {
    batch: u64,
    took: Duration,
    age: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Active {
    chosen: u32,
    strangers: u32,
}

impl Shares {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            batch: 1,
            all: Duration::ZERO,
            strangers: Duration::ZERO,
            age: 1,
            aged_at: now,
            active: Active::default(),
            active_before: Active::default(),
        }
    }

    /// Everybody begins anew.
    pub(crate) fn begin_batch(&mut self, now: Instant) {
        self.batch += 1;
        (self.all, self.strangers) = (Duration::ZERO, Duration::ZERO);
        if now.saturating_duration_since(self.aged_at) >= AGE {
            self.aged_at = now;
            self.age += 1;
            self.active_before = std::mem::take(&mut self.active);
        }
    }

    /// A packet of a connection took so long.
    pub(crate) fn charge(&mut self, spent: &mut Spent, is_stranger: bool, took: Duration) {
        let took = took.min(MOST);
        if spent.batch != self.batch {
            (spent.batch, spent.took) = (self.batch, Duration::ZERO);
        }
        spent.took += took;
        self.all += took;
        if is_stranger {
            self.strangers += took;
        }
        if spent.age != self.age {
            spent.age = self.age;
            *self.active.of(is_stranger) += 1;
        }
    }

    /// Whether a connection has something left of its share.
    pub(crate) fn has_left(&self, spent: &Spent, is_stranger: bool) -> bool {
        if self.all < FREE {
            return true;
        }
        let took = if spent.batch == self.batch { spent.took } else { Duration::ZERO };
        let (now, before) = (self.active, self.active_before);
        let strangers = now.strangers.max(before.strangers).max(u32::from(is_stranger));
        let chosen = now.chosen.max(before.chosen).max(u32::from(!is_stranger));
        let parties = chosen + strangers.min(1);
        // Who is alone takes from nobody.
        let part = (parties > 1).then(|| (SHARED / parties).max(LEAST));
        if !is_stranger {
            return part.is_none_or(|part| took < part);
        }
        let of_it = (part.unwrap_or(SHARED) / strangers).max(LEAST_OF_A_STRANGER);
        part.is_none_or(|part| self.strangers < part) && (strangers == 1 || took < of_it)
    }
}

impl Active {
    fn of(&mut self, is_stranger: bool) -> &mut u32 {
        if is_stranger { &mut self.strangers } else { &mut self.chosen }
    }
}

/// What a batch may take whoever it is of: with as many packets of data as one can have, 3 ms.
const FREE: Duration = Duration::from_millis(5);
/// What is shared: others wait for about this long behind one that floods.
const SHARED: Duration = Duration::from_millis(10);
/// The least share.
const LEAST: Duration = Duration::from_millis(2);
/// A stranger's: with as many as there can be, 64 ms in all.
const LEAST_OF_A_STRANGER: Duration = Duration::from_micros(250);
/// Twice what any packet takes: the thread was interrupted, which is nobody's fault.
const MOST: Duration = Duration::from_micros(500);
/// How long who had something counts as one who may want more.
const AGE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the first instant")]
    fn shares() -> (Shares, Instant) {
        let now = Instant::now();
        (Shares::new(now), now)
    }

    /// How many quarters of a millisecond somebody gets until he has nothing left.
    fn quarters(shares: &mut Shares, spent: &mut Spent, is_stranger: bool) -> u32 {
        let mut count = 0;
        while shares.has_left(spent, is_stranger) && count < 1000 {
            shares.charge(spent, is_stranger, Duration::from_micros(250));
            count += 1;
        }
        count
    }

    /// As many, each of whom had next to nothing.
    fn peers<const N: usize>(shares: &mut Shares, is_stranger: bool) -> [Spent; N] {
        let mut peers = [Spent::default(); N];
        for peer in &mut peers {
            shares.charge(peer, is_stranger, Duration::ZERO);
        }
        peers
    }

    #[test]
    fn who_is_alone_has_everything_and_two_have_a_half_each() {
        let (mut shares, now) = shares();
        let [mut one] = peers(&mut shares, false);
        assert_eq!(quarters(&mut shares, &mut one, false), 1000);
        let [mut other] = peers(&mut shares, false);
        assert!(!shares.has_left(&one, false));
        assert_eq!(quarters(&mut shares, &mut other, false), 20);
        shares.begin_batch(now);
        assert_eq!(quarters(&mut shares, &mut one, false), 20);
        // The other one has had nothing for long.
        shares.begin_batch(now + AGE);
        shares.charge(&mut one, false, Duration::ZERO);
        shares.begin_batch(now + 2 * AGE);
        assert_eq!(quarters(&mut shares, &mut one, false), 1000);
    }

    #[test]
    fn nobody_loses_anything_while_a_batch_takes_little() {
        let (mut shares, _) = shares();
        let mut peers: [Spent; 50] = peers(&mut shares, false);
        // Packets of data, of one among many.
        for _ in 0..1024 {
            assert!(shares.has_left(&peers[0], false));
            shares.charge(&mut peers[0], false, Duration::from_micros(4));
        }
        // An interruption is charged for in part.
        shares.charge(&mut peers[0], false, Duration::from_secs(1));
        assert!(shares.has_left(&peers[0], false));
    }

    #[test]
    fn strangers_have_one_share_together_however_many_they_are() {
        let (mut shares, _) = shares();
        let [mut chosen] = peers(&mut shares, false);
        let mut strangers: [Spent; 256] = peers(&mut shares, true);
        let had: u32 = strangers.iter_mut().map(|it| quarters(&mut shares, it, true)).sum();
        assert_eq!(had, 20, "five milliseconds");
        assert_eq!(quarters(&mut shares, &mut chosen, false), 20);
    }

    #[test]
    fn strangers_among_themselves_have_equal_shares() {
        let (mut shares, _) = shares();
        let mut strangers: [Spent; 4] = peers(&mut shares, true);
        let [first, others @ ..] = &mut strangers;
        assert_eq!(quarters(&mut shares, first, true), 20, "while nobody else wants it");
        for stranger in others {
            assert_eq!(quarters(&mut shares, stranger, true), 10);
        }
    }

    #[test]
    fn of_many_each_has_a_least() {
        let (mut shares, _) = shares();
        let mut chosen: [Spent; 50] = peers(&mut shares, false);
        let [first, others @ ..] = &mut chosen;
        assert_eq!(quarters(&mut shares, first, false), 20, "while nobody else wants it");
        for peer in others {
            assert_eq!(quarters(&mut shares, peer, false), 8);
        }
    }
}
