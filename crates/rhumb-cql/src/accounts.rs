//! What entries count on, by reading: each account has a row for each name, in a partition of its
//! own, or in many where everybody counts on it.
//!
//! Counters would not do: a write that may have arrived cannot be sent again. A row for each name
//! can, and it ends by itself with the name. Which of those partitions a name is in is told by a
//! keyed hash, so nobody can choose names that make one of them large.
//!
//! Reading takes the store time in proportion to what there is to count. So what was read is used
//! for a second, and where that is much for many times as long as it took; meanwhile what this
//! server adds itself is added to it. Of the accounts of all, as many partitions are counted as it
//! takes to know the number of names to a hundredth ([`counted`](crate::counted)), each by one node
//! alone: what that lacks of the last seconds is less than what is not known anyway.

use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::hmac;
use rhumb_rib::cells::{Index, Written};
use rhumb_rib::{Account, Held, RibError};
use rhumb_wire::Name;
use tokio::task::JoinSet;

use crate::Cluster;
use crate::cluster::{Inner, Ready, ttl_s};
use crate::failure::other;
use crate::metrics::Kind;

impl Cluster {
    /// What is counted on an account, as of about a second ago; what this server has added since is
    /// in it. Where everybody counts on it and it is much, it is known to a hundredth, as of fifty
    /// times as long ago as it takes to count.
    ///
    /// # Errors
    /// When the cluster does not answer, or too much is asked at once.
    pub async fn held(&self, account: &Account) -> Result<Held, RibError> {
        self.0.timed(Kind::Read, held(&self.0, account)).await
    }

    /// About how many names have an entry.
    ///
    /// # Errors
    /// As [`Cluster::held`].
    pub async fn names(&self) -> Result<u64, RibError> {
        let admitted = self.held(&Account::Admitted).await?;
        Ok(admitted.names + self.held(&Account::Strangers).await?.names)
    }
}

/// What is counted on an account. Nobody waits for what was counted once to be counted again where
/// that may be much.
async fn held(inner: &Arc<Inner>, account: &Account) -> Result<Held, RibError> {
    let ready = inner.ready().await?;
    let buckets = if account.is_of_all() { ready.format.buckets } else { 1 };
    let (now, mut at_once) = (Instant::now(), 1);
    loop {
        let uncounted = inner.accounts.uncounted(account, buckets, at_once);
        if uncounted.is_empty() {
            break;
        }
        let mut tasks = JoinSet::new();
        for bucket in uncounted {
            let (inner, account) = (inner.clone(), *account);
            tasks.spawn(async move { inner.read_account(&account, bucket).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(other)??;
        }
        // Few where there is much in each.
        at_once = MOST_AT_ONCE.min(2 * at_once);
    }
    match inner.accounts.stale(account, buckets, now) {
        Some(bucket) if !account.is_of_all() => inner.read_account(account, bucket).await?,
        Some(_) if inner.accounts.begin_again(*account) => {
            tokio::spawn(count_again(inner.clone(), *account, buckets));
        }
        _ => {}
    }
    Ok(inner.accounts.estimate(account, buckets))
}

/// Counts again what was counted too long ago, one partition after the other. What fails is tried
/// when somebody asks the next time.
async fn count_again(inner: Arc<Inner>, account: Account, buckets: i32) {
    let now = Instant::now();
    while let Some(bucket) = inner.accounts.stale(&account, buckets, now)
        && inner.read_account(&account, bucket).await.is_ok()
    {}
    inner.accounts.end_again(&account);
}

impl Inner {
    async fn read_account(&self, account: &Account, bucket: i32) -> Result<(), RibError> {
        let _place = self.place()?;
        let statements = &self.ready().await?.statements;
        let began = Instant::now();
        let by = match account.is_of_all() {
            true => &statements.count_account,
            false => &statements.read_account,
        };
        let read = statements.read(by, (account.key(), bucket)).await?;
        let (names, bytes) = read.single_row::<(i64, Option<i64>)>().map_err(other)?;
        let count = |of: i64| u64::try_from(of).unwrap_or(0);
        let held = Held { names: count(names), bytes: count(bytes.unwrap_or(0)) };
        self.accounts.note(*account, bucket, held, began);
        Ok(())
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
            self.accounts.forget(*account, bucket);
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

/// A small part of all requests that may be under way.
const MOST_AT_ONCE: usize = 32;
