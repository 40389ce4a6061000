//! What was counted lately on accounts, and for how long that may be used: a second, and longer
//! where there is more to count; meanwhile what this server adds is added to it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_rib::{Account, Held};

/// What was counted lately.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<HashMap<(Account, i32), Counted>>);

/// One partition of an account.
#[derive(Debug, Clone, Copy)]
struct Counted {
    held: Held,
    read: Instant,
}

impl Counted {
    fn is_fresh(&self, now: Instant) -> bool {
        let seconds = self.held.names / COUNTED_PER_S;
        now.duration_since(self.read) < FRESH.max(Duration::from_secs(seconds.min(LONGEST_S)))
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<(Account, i32), Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which of the partitions have to be read, the longest not read first; and those that have
    /// never been, all of them.
    pub(crate) fn stale(&self, account: &Account, buckets: i32, now: Instant) -> Vec<i32> {
        let counted = self.lock();
        let mut stale: Vec<(Option<Instant>, i32)> = (0..buckets)
            .filter_map(|bucket| match counted.get(&(*account, bucket)) {
                Some(held) if held.is_fresh(now) => None,
                held => Some((held.map(|held| held.read), bucket)),
            })
            .collect();
        stale.sort_unstable();
        let unread = stale.iter().filter(|(read, _)| read.is_none()).count();
        stale.into_iter().map(|(_, bucket)| bucket).take(unread.max(READ_AT_ONCE)).collect()
    }

    pub(crate) fn note(&self, account: Account, bucket: i32, held: Held) {
        let mut counted = self.lock();
        if counted.len() >= MOST_ACCOUNTS {
            // Those of all stay; of the others, what is not fresh is of no use.
            let now = Instant::now();
            counted.retain(|(account, _), held| account.is_of_all() || held.is_fresh(now));
            if counted.len() >= MOST_ACCOUNTS {
                counted.retain(|(account, _), _| account.is_of_all());
            }
        }
        counted.insert((account, bucket), Counted { held, read: Instant::now() });
    }

    /// What is there now is not what was read.
    pub(crate) fn forget(&self, account: Account, bucket: i32) {
        self.lock().remove(&(account, bucket));
    }

    /// Adds what this server has written since it was read.
    pub(crate) fn add(&self, account: Account, bucket: i32, moved: (i64, i64)) {
        if let Some(counted) = self.lock().get_mut(&(account, bucket)) {
            counted.held = counted.held.moved_by(moved);
        }
    }

    pub(crate) fn sum(&self, account: &Account, buckets: i32) -> Held {
        let counted = self.lock();
        let each = (0..buckets).filter_map(|bucket| counted.get(&(*account, bucket)));
        each.fold(Held::default(), |sum, counted| {
            let Held { names, bytes } = counted.held;
            Held { names: sum.names + names, bytes: sum.bytes + bytes }
        })
    }
}

/// For how long what was read is used.
const FRESH: Duration = Duration::from_secs(1);
/// And a second longer for so many rows, which a node counts in some hundredths of a second.
const COUNTED_PER_S: u64 = 10_000;
const LONGEST_S: u64 = 60;
/// Partitions of one account that are read again at a time.
const READ_AT_ONCE: usize = 8;
const MOST_ACCOUNTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn held(names: u64) -> Held {
        Held { names, bytes: 100 * names }
    }

    #[test]
    fn what_is_large_is_counted_less_often_and_what_is_added_meanwhile_counts() {
        let accounts = Accounts::default();
        let (all, buckets) = (Account::Admitted, 64);
        let began = Instant::now();
        assert_eq!(accounts.stale(&all, buckets, began).len(), 64, "all of them once");
        for bucket in 0..buckets {
            accounts.note(all, bucket, held(if bucket < 32 { 10 } else { 100_000 }));
        }
        accounts.add(all, 3, (1, 7));
        let sum = accounts.sum(&all, buckets);
        assert_eq!(sum, Held { names: 3_200_321, bytes: 320_032_007 });
        assert!(accounts.stale(&all, buckets, Instant::now()).is_empty());
        // Some of the small ones at a time, and the large ones when it is their turn.
        let later = began + Duration::from_secs(3);
        let stale = accounts.stale(&all, buckets, later);
        assert!(stale.len() == READ_AT_ONCE && stale.iter().all(|bucket| *bucket < 32));
        accounts.forget(all, 40);
        assert_eq!(accounts.stale(&all, buckets, later)[0], 40);
    }

    #[test]
    fn accounts_that_nobody_asks_for_are_forgotten_within_a_bound() {
        let accounts = Accounts::default();
        accounts.note(Account::Strangers, 5, held(1));
        for number in 0..=MOST_ACCOUNTS as u32 {
            let source = rhumb_link::Source::V4(number.to_be_bytes());
            accounts.note(Account::Source(source), 0, held(1));
        }
        assert!(accounts.lock().len() <= MOST_ACCOUNTS);
        assert_eq!(accounts.sum(&Account::Strangers, 64), held(1));
    }
}
