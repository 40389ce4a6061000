//! What entries count on, by reading: each account has a row for each name, in a partition of its
//! own, or in 64 where everybody counts on it.
//!
//! Counters would not do: a write that may have arrived cannot be sent again. A row for each name
//! can, and it ends by itself with the name. Which of the 64 partitions a name is in is told by a
//! keyed hash, so nobody can choose names that make one of them large.
//!
//! Reading takes the store time in proportion to what there is to count. So what was read is used
//! for a second, and where there is more to count for so much longer that counting takes no more
//! than a few hundredths of a node's time; meanwhile what this server adds itself is added to it.
//! Of the accounts of all, some partitions are read again at a time.

use std::time::Instant;

use aws_lc_rs::hmac;
use rhumb_rib::cells::{Index, Written};
use rhumb_rib::{Account, Held, RibError};
use rhumb_wire::Name;

use crate::cluster::{Inner, Ready, ttl_s};
use crate::failure::other;

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
