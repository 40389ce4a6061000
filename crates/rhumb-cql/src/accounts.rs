//! What entries count on, by reading: each account has a row for each name, in a partition of its own,
//! or in 64 where everybody counts on it.
//!
//! Counters would not do: a write that may have arrived cannot be sent again. A row for each name can,
//! and it ends by itself with the name. Which of the 64 partitions a name is in is told by a keyed
//! hash, so nobody can choose names that make one of them large.
//!
//! Reading takes the store time in proportion to what there is to count. So what was read is used for
//! a second, and where there is more to count for so much longer that counting takes no more than a
//! few hundredths of a node's time; meanwhile what this server adds itself is added to it. Of the
//! accounts of all, some partitions are read again at a time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use rhumb_rib::cells::{Index, Written};
use rhumb_rib::{Account, Held, RibError};
use rhumb_wire::Name;

use crate::cluster::{Inner, Ready, ttl_s};
use crate::failure::other;

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

    /// Which of the partitions have to be read, the longest not read first; and those that have never
    /// been, all of them.
    fn stale(&self, account: &Account, buckets: i32, now: Instant) -> Vec<i32> {
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

    fn note(&self, account: Account, bucket: i32, held: Held) {
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

    /// Adds what this server has written since it was read.
    fn add(&self, account: Account, bucket: i32, moved: (i64, i64)) {
        if let Some(counted) = self.lock().get_mut(&(account, bucket)) {
            counted.held = counted.held.moved_by(moved);
        }
    }

    fn sum(&self, account: &Account, buckets: i32) -> Held {
        let counted = self.lock();
        let each = (0..buckets).filter_map(|bucket| counted.get(&(*account, bucket)));
        each.fold(Held::default(), |sum, counted| {
            let Held { names, bytes } = counted.held;
            Held { names: sum.names + names, bytes: sum.bytes + bytes }
        })
    }
}

impl Inner {
    pub(crate) async fn held(&self, account: &Account) -> Result<Held, RibError> {
        let ready = self.ready().await?;
        let buckets = if account.is_of_all() { ready.format.buckets } else { 1 };
        let stale = self.accounts.stale(account, buckets, Instant::now());
        if !stale.is_empty() {
            let _place = self.place()?;
            for bucket in stale {
                let held = self.read_account(ready, account, bucket).await?;
                self.accounts.note(*account, bucket, held);
            }
        }
        Ok(self.accounts.sum(account, buckets))
    }

    async fn read_account(
        &self,
        ready: &Ready,
        account: &Account,
        bucket: i32,
    ) -> Result<Held, RibError> {
        let statements = &ready.statements;
        let read = statements.read(&statements.read_account, (account.key(), bucket)).await?;
        let (names, bytes) = read.single_row::<(i64, Option<i64>)>().map_err(other)?;
        let count = |of: i64| u64::try_from(of).unwrap_or(0);
        Ok(Held { names: count(names), bytes: count(bytes.unwrap_or(0)) })
    }

    /// Counts a name on its accounts.
    pub(crate) async fn count(
        &self,
        ready: &Ready,
        name: Name,
        index: &Index,
        now: Written,
    ) -> Result<(), RibError> {
        let bytes = i64::try_from(index.bytes).unwrap_or(i64::MAX);
        let ttl_s = ttl_s(index.keep_until_s, now);
        let statements = &ready.statements;
        for account in &index.accounts {
            let bucket = bucket_of(ready, account, &name);
            let values = (account.key(), bucket, &name.0[..], bytes, now.now_us, ttl_s);
            statements.ask(&statements.write_account, values).await?;
            if index.joined.contains(account) {
                self.accounts.add(*account, bucket, (1, bytes));
            }
        }
        Ok(())
    }

    /// Counts a name on these accounts no more.
    pub(crate) async fn leave(
        &self,
        ready: &Ready,
        name: Name,
        left: &[Account],
        now: Written,
    ) -> Result<(), RibError> {
        let statements = &ready.statements;
        for account in left {
            let bucket = bucket_of(ready, account, &name);
            let values = (now.now_us, account.key(), bucket, &name.0[..]);
            statements.ask(&statements.delete_account, values).await?;
            self.accounts.lock().remove(&(*account, bucket));
        }
        Ok(())
    }
}

/// In which partition of an account a name is counted.
fn bucket_of(ready: &Ready, account: &Account, name: &Name) -> i32 {
    if !account.is_of_all() {
        return 0;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, &ready.format.secret);
    let tag = hmac::sign(&key, &name.0);
    let number = tag.as_ref().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    (number % ready.format.buckets.unsigned_abs()).cast_signed()
}

/// For how long what was read is used.
const FRESH: Duration = Duration::from_secs(1);
/// And a second longer for so many rows, which a node counts in some hundredths of a second.
const COUNTED_PER_S: u64 = 10_000;
const LONGEST_S: u64 = 60;
/// Partitions of one account that are read again at a time.
const READ_AT_ONCE: usize = 8;
const MOST_ACCOUNTS: usize = 100_000;
