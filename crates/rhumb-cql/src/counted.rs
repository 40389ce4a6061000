//! What was counted lately on accounts, and for how long that may be used; meanwhile what this
//! server adds is added to it.
//!
//! What everybody counts on is spread over partitions by a keyed hash, so each of them is like all
//! others. Some are counted, until there are [`ENOUGH`] names in them, and stand for all: of a
//! small store these are all of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_rib::{Account, Held};

/// What was counted lately.
#[derive(Debug)]
pub(crate) struct Accounts {
    counted: Mutex<HashMap<(Account, i32), Counted>>,
    /// Accounts that are being counted again.
    again: Mutex<HashSet<Account>>,
    /// The partition that is counted first: servers count different ones.
    first: u32,
}

/// One partition of an account.
#[derive(Debug, Clone, Copy)]
struct Counted {
    held: Held,
    read: Instant,
    fresh_until: Instant,
}

impl Accounts {
    /// Some number that is not another server's.
    pub(crate) fn new(first: u32) -> Self {
        Self { counted: Mutex::default(), again: Mutex::default(), first }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Account, i32), Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Partitions that have not been counted and are needed to say anything, at most so many.
    pub(crate) fn uncounted(&self, account: &Account, buckets: i32, most: usize) -> Vec<i32> {
        let (counted, mut names, mut uncounted) = (self.lock(), 0, Vec::new());
        for bucket in self.order(buckets) {
            match counted.get(&(*account, bucket)) {
                _ if names >= ENOUGH || uncounted.len() >= most => break,
                Some(counted) => names += counted.held.names,
                None => uncounted.push(bucket),
            }
        }
        uncounted
    }

    /// The partition, of those that stand for all, which was counted longest ago, if that is no
    /// longer to be used then.
    pub(crate) fn stale(&self, account: &Account, buckets: i32, now: Instant) -> Option<i32> {
        let counted = self.lock();
        let all = self.standing(&counted, account, buckets);
        let stale = all.filter(|(_, counted)| counted.fresh_until <= now);
        stale.min_by_key(|(_, counted)| counted.read).map(|(bucket, _)| bucket)
    }

    /// Partitions that stand for all, as far as they have been counted.
    fn standing<'a>(
        &self,
        counted: &'a HashMap<(Account, i32), Counted>,
        account: &'a Account,
        buckets: i32,
    ) -> impl Iterator<Item = (i32, &'a Counted)> + use<'a> {
        let mut names = 0;
        let all = self.order(buckets);
        let all = all.filter_map(|bucket| Some((bucket, counted.get(&(*account, bucket))?)));
        all.take_while(move |(_, counted)| {
            let are_enough = names >= ENOUGH;
            names += counted.held.names;
            !are_enough
        })
    }

    /// Whether nobody else counts this account again, until [`Accounts::end_again`].
    pub(crate) fn begin_again(&self, account: Account) -> bool {
        self.again.lock().unwrap_or_else(PoisonError::into_inner).insert(account)
    }

    pub(crate) fn end_again(&self, account: &Account) {
        self.again.lock().unwrap_or_else(PoisonError::into_inner).remove(account);
    }

    /// Partitions in the order in which they are counted.
    fn order(&self, buckets: i32) -> impl Iterator<Item = i32> + use<> {
        let first = (self.first % buckets.unsigned_abs().max(1)).cast_signed();
        (0..buckets).map(move |number| (first + number) % buckets)
    }

    /// A partition was counted, which began then.
    pub(crate) fn note(&self, account: Account, bucket: i32, held: Held, began: Instant) {
        let mut counted = self.lock();
        let now = Instant::now();
        if counted.len() >= MOST_ACCOUNTS {
            // Those of all stay; of the others, what is not fresh is of no use.
            counted.retain(|(account, _), held| account.is_of_all() || held.fresh_until > now);
            if counted.len() >= MOST_ACCOUNTS {
                counted.retain(|(account, _), _| account.is_of_all());
            }
        }
        let for_long = (now.duration_since(began) * COUNTING_PART).clamp(FRESH, LONGEST);
        let fresh_until = now + if held.names < LARGE { FRESH } else { for_long };
        counted.insert((account, bucket), Counted { held, read: now, fresh_until });
    }

    /// What is there now is less than what was read. Where it takes long to count, that is found
    /// when it is counted the next time.
    pub(crate) fn forget(&self, account: Account, bucket: i32) {
        let mut counted = self.lock();
        if counted.get(&(account, bucket)).is_some_and(|it| it.held.names < LARGE) {
            counted.remove(&(account, bucket));
        }
    }

    /// Adds what this server has written since it was read.
    pub(crate) fn add(&self, account: Account, bucket: i32, moved: (i64, i64)) {
        if let Some(counted) = self.lock().get_mut(&(account, bucket)) {
            counted.held = counted.held.moved_by(moved);
        }
    }

    /// What there is, by those partitions that stand for all.
    pub(crate) fn estimate(&self, account: &Account, buckets: i32) -> Held {
        let counted = self.lock();
        let (mut held, mut of) = (Held::default(), 0);
        for (_, counted) in self.standing(&counted, account, buckets) {
            held.names += counted.held.names;
            held.bytes += counted.held.bytes;
            of += 1;
        }
        let all = |part: u64| part.saturating_mul(u64::from(buckets.unsigned_abs())) / of.max(1);
        Held { names: all(held.names), bytes: all(held.bytes) }
    }
}

/// Names that are counted for all: their number is then known to a hundredth, mostly to three
/// thousandths.
const ENOUGH: u64 = 100_000;
/// From here on a partition takes a node more than some hundredths of a second to count.
const LARGE: u64 = 10_000;
/// For how long what was read is used.
const FRESH: Duration = Duration::from_secs(1);
/// And what is large for so many times as long as counting took, so that it takes no more than a
/// small part of a node's time, and less where nodes have much to do.
const COUNTING_PART: u32 = 50;
/// But no longer than that.
const LONGEST: Duration = Duration::from_secs(300);
const MOST_ACCOUNTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn held(names: u64) -> Held {
        Held { names, bytes: 100 * names }
    }

    /// Counts what has not been, and returns which partitions those were.
    fn count(accounts: &Accounts, now: Instant, names: u64) -> Vec<i32> {
        let mut all = Vec::new();
        while let [bucket] = accounts.uncounted(&ALL, 64, 1)[..] {
            accounts.note(ALL, bucket, held(names), now);
            all.push(bucket);
        }
        all
    }

    #[test]
    fn of_a_small_store_all_partitions_are_counted_and_what_is_added_counts() {
        let (accounts, began) = (Accounts::new(70), Instant::now());
        assert_eq!(accounts.uncounted(&ALL, 64, 3), [6, 7, 8]);
        let counted = count(&accounts, began, 10);
        assert_eq!((counted.len(), counted[0], counted[63]), (64, 6, 5), "all, each once");
        accounts.add(ALL, 3, (1, 7));
        assert_eq!(accounts.estimate(&ALL, 64), Held { names: 641, bytes: 64_007 });
        // At once where something was taken away, and again when it is time.
        accounts.forget(ALL, 40);
        assert_eq!(accounts.uncounted(&ALL, 64, 3), [40]);
        accounts.note(ALL, 40, held(9), began);
        assert_eq!(accounts.stale(&ALL, 64, began), None);
        assert_eq!(accounts.stale(&ALL, 64, Instant::now() + FRESH), Some(6), "the oldest");
    }

    #[test]
    fn of_a_large_store_some_partitions_stand_for_all() {
        let (accounts, began) = (Accounts::new(62), Instant::now());
        assert_eq!(count(&accounts, began, 40_000), [62, 63, 0]);
        assert_eq!(accounts.estimate(&ALL, 64), held(64 * 40_000));
        // What is added elsewhere is as what is added to these.
        accounts.add(ALL, 30, (1, 7));
        accounts.add(ALL, 0, (3, 300));
        let all = Held { names: 64 * 40_001, bytes: 64 * 4_000_100 };
        assert_eq!(accounts.estimate(&ALL, 64), all);
        // What was counted beyond what is enough is not counted again, so it says nothing.
        accounts.note(ALL, 1, held(90_000), began);
        assert_eq!(accounts.estimate(&ALL, 64), all);
        // Who leaves is not worth counting all others of the partition.
        accounts.forget(ALL, 0);
        assert!(accounts.uncounted(&ALL, 64, 1).is_empty());
        assert_eq!(accounts.estimate(&ALL, 64), all);
        assert_eq!(accounts.stale(&ALL, 64, Instant::now() + LONGEST), Some(62));
        assert!(accounts.begin_again(ALL) && !accounts.begin_again(ALL), "by one at a time");
        accounts.end_again(&ALL);
        assert!(accounts.begin_again(ALL));
    }

    /// A slow cluster is counted less often, so that counting does not keep it slow.
    #[test]
    fn what_takes_long_to_count_is_used_for_longer() {
        let (accounts, began) = (Accounts::new(0), Instant::now());
        let now = Instant::now() + Duration::from_secs(101);
        accounts.note(ALL, 0, held(200_000), began);
        assert_eq!(accounts.stale(&ALL, 64, now), Some(0));
        accounts.note(ALL, 0, held(200_000), began.checked_sub(Duration::from_secs(3)).unwrap());
        assert_eq!(accounts.stale(&ALL, 64, now), None);
        assert_eq!(accounts.stale(&ALL, 64, now + Duration::from_secs(60)), Some(0));
        // What is small is found as it is, however slow the cluster.
        accounts.note(ALL, 0, held(9_999), began.checked_sub(Duration::from_secs(3)).unwrap());
        assert_eq!(accounts.stale(&ALL, 64, Instant::now() + FRESH), Some(0));
    }

    #[test]
    fn accounts_that_nobody_asks_for_are_forgotten_within_a_bound() {
        let (accounts, now) = (Accounts::new(0), Instant::now());
        accounts.note(ALL, 5, held(1), now);
        for number in 0..=MOST_ACCOUNTS as u32 {
            let source = rhumb_link::Source::V4(number.to_be_bytes());
            accounts.note(Account::Source(source), 0, held(1), now);
        }
        assert!(accounts.lock().len() <= MOST_ACCOUNTS);
        assert_eq!(accounts.estimate(&ALL, 64), held(64), "those of all stay");
    }

    const ALL: Account = Account::Admitted;
}
