//! Entries: read, committed, paged through.
//!
//! A commit writes each name by itself, all at once, and is acknowledged when a quorum has every
//! one:
//!
//! 1. What has to be written is worked out against the row ([`Row::plan`]).
//! 2. Where the name is counted and found by its address comes first, so that nothing is stored
//!    that is not counted. Renewals mostly have nothing of it.
//! 3. All cells of the name, in one write to its partition; and beside it, once for the commit,
//!    what has changed, for other servers; they are told once more when all is there, where that
//!    took longer than they look for it.
//! 4. Where something could hide what was written, the row is read again: what is not in force is
//!    not called stored.

use std::sync::Arc;
use std::time::Instant;

use rhumb_rib::cells::{Cell, Index, Plan, Row, Slot, Written as Time};
use rhumb_rib::store::{Answer, Change, MOST_LISTED, Page, Read, Wanted};
use rhumb_rib::{Account, Entry, Footprint, RibError};
use rhumb_wire::Name;
use tokio::task::JoinSet;

use crate::Cluster;
use crate::changes::{Changed, TOLD_FOR};
use crate::cluster::{Inner, Ready, now, ttl_s};
use crate::failure::other;
use crate::metrics::{Kind, add_one};
use crate::rows::{Columns, row_of};

impl Cluster {
    /// The entry of a name.
    ///
    /// # Errors
    /// When too few nodes answer in time, too much is asked at once, or the entry is damaged.
    pub async fn entry(&self, name: &Name) -> Result<Option<Entry>, RibError> {
        self.0.timed(Kind::Read, self.0.entry(name)).await
    }

    /// The first name with this beginning, the least if there are several.
    ///
    /// # Errors
    /// As [`Cluster::entry`].
    pub async fn first_with(
        &self,
        beginning: &[u8; Name::ADDRESS_LEN],
    ) -> Result<Option<Name>, RibError> {
        self.0.timed(Kind::Read, self.0.first_with(beginning)).await
    }

    /// Writes all changes, an absent entry meaning removal. When this returns `Ok`, a quorum has
    /// all of them, but for those of the names that it returns: a newer statement hides what was
    /// written, though its time may be over, or they have had too many ways within a day. After an
    /// error some may be written, or be written yet; to commit them again does no harm, and this
    /// server, too, is told of them by its [`Feed`](crate::Feed). Entries that are past are not
    /// written.
    ///
    /// # Errors
    /// As [`Cluster::entry`].
    pub async fn commit(&self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        self.0.timed(Kind::Write, commit(&self.0, changes)).await
    }

    /// At most `limit` entries behind `after`, or from the first, in an order of the cluster's own.
    /// What is written meanwhile may be missed or not. Fewer than that are the last ones.
    ///
    /// # Errors
    /// As [`Cluster::entry`]; whoever goes on behind the name of a damaged entry gets the others.
    pub async fn entries_after(
        &self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        self.0.timed(Kind::Read, self.0.entries_after(after, limit)).await
    }

    /// A page of what is stored, in an order of the cluster's own: one read of so many rows. Rows
    /// whose entries are over are left out, so a page with few names may have another behind it.
    /// Of a beginning it finds whole names alone.
    ///
    /// # Errors
    /// As [`Cluster::entry`], but that a damaged entry is listed as one;
    /// [`RibError::NotInOrder`] of the beginning of a name.
    pub async fn page(&self, wanted: &Wanted) -> Result<Page, RibError> {
        self.0.timed(Kind::Read, self.0.page(wanted)).await
    }

    /// Answers a question of the directory's ([`rhumb_rib::store::Awaited`]).
    ///
    /// # Errors
    /// As those that it is one of.
    pub async fn read(&self, read: &Read) -> Result<Answer, RibError> {
        Ok(match read {
            Read::Entry(name) => Answer::Entry(self.entry(name).await?.map(Box::new)),
            Read::FirstWith(beginning) => Answer::FirstWith(self.first_with(beginning).await?),
            Read::After(after, limit) => Answer::After(self.entries_after(*after, *limit).await?),
            Read::Names => Answer::Names(self.names().await?),
            Read::Held(account) => Answer::Held(self.held(account).await?),
        })
    }
}

impl Inner {
    async fn entry(&self, name: &Name) -> Result<Option<Entry>, RibError> {
        let _place = self.place()?;
        let row = self.row(self.ready().await?, name).await?;
        let entry = row.entry(now().now_s);
        self.seen.note(*name, row);
        entry.map_err(|_| RibError::DamagedEntry { name: *name })
    }

    async fn row(&self, ready: &Ready, name: &Name) -> Result<Row, RibError> {
        let statements = &ready.statements;
        let read = statements.read(&statements.read_row, (&name.0[..],)).await?;
        match read.maybe_first_row::<Columns>().map_err(other)? {
            Some(columns) => Ok(row_of(columns)?.1),
            None => Ok(Row::default()),
        }
    }

    async fn first_with(&self, beginning: &[u8]) -> Result<Option<Name>, RibError> {
        let _place = self.place()?;
        let statements = &self.ready().await?.statements;
        let read = statements.read(&statements.read_address, (beginning,)).await?;
        let found = read.maybe_first_row::<(Vec<u8>,)>().map_err(other)?;
        Ok(found.and_then(|(name,)| name.try_into().ok()).map(Name))
    }

    async fn entries_after(
        &self,
        mut after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        let _place = self.place()?;
        let statements = &self.ready().await?.statements;
        let now_s = now().now_s;
        let mut entries = Vec::new();
        while entries.len() < limit {
            let asked = (limit - entries.len()).min(ROWS_AT_ONCE);
            let read = statements.names_after(after, asked).await?;
            for columns in read.rows::<Columns>().map_err(other)? {
                let (name, row) = row_of(columns.map_err(other)?)?;
                let entry = row.entry(now_s).map_err(|_| RibError::DamagedEntry { name })?;
                entries.extend(entry.map(|entry| (name, entry)));
                after = Some(name);
            }
            // Rows whose entries are over are none, so fewer entries are not the end yet.
            if read.rows_num() < asked {
                break;
            }
        }
        Ok(entries)
    }

    async fn page(&self, wanted: &Wanted) -> Result<Page, RibError> {
        if let Some(name) = wanted.beginning.whole() {
            let entry = match self.entry(&name).await {
                Ok(entry) => entry.map(Some),
                Err(RibError::DamagedEntry { .. }) => Some(None),
                Err(error) => return Err(error),
            };
            let names = entry.into_iter().map(|entry| (name, entry)).collect();
            return Ok(Page { names, next: None });
        }
        if !wanted.beginning.is_of_all() {
            return Err(RibError::NotInOrder);
        }
        let _place = self.place()?;
        let statements = &self.ready().await?.statements;
        let asked = wanted.limit.clamp(1, MOST_LISTED);
        let read = statements.names_after(wanted.after, asked).await?;
        let (mut names, mut last) = (Vec::new(), None);
        for columns in read.rows::<Columns>().map_err(other)? {
            let (name, row) = row_of(columns.map_err(other)?)?;
            match row.entry(now().now_s) {
                Ok(entry) => names.extend(entry.map(|entry| (name, Some(entry)))),
                Err(_) => names.push((name, None)),
            }
            last = Some(name);
        }
        Ok(Page { names, next: last.filter(|_| read.rows_num() == asked) })
    }

    /// Writes one name, and remembers what it is then: whether it was stored, or cannot be.
    async fn write_name(&self, name: Name, after: Option<Entry>) -> Result<bool, RibError> {
        let ready = self.ready().await?;
        match self.write_row(ready, name, after).await {
            Ok(Written::Stored(row)) => {
                self.seen.note(name, row);
                Ok(true)
            }
            Ok(Written::Removed) => {
                self.seen.forget(&name);
                Ok(true)
            }
            // What cannot be stored of one name is no reason to refuse the others'.
            Ok(Written::Hidden) | Err(RibError::DamagedEntry { .. }) => {
                self.seen.forget(&name);
                add_one(&self.metrics.shadowed);
                Ok(false)
            }
            // It is not known what is there.
            Err(error) => {
                self.seen.forget(&name);
                Err(error)
            }
        }
    }

    async fn write_row(
        &self,
        ready: &Ready,
        name: Name,
        after: Option<Entry>,
    ) -> Result<Written, RibError> {
        let mut row = match self.seen.row(&name) {
            Some(row) if after.is_some() => row,
            _ => self.row(ready, &name).await?,
        };
        let now = now();
        let Some(after) = after else {
            self.remove(ready, name, &row, now).await?;
            return Ok(Written::Removed);
        };
        let Ok(plan) = row.plan(&after, now) else { return Ok(Written::Hidden) };
        let is_way = |cell: &Cell| matches!(cell.slot, Slot::Several(_)) && !row.has(cell.slot);
        let adds_ways = plan.cells.iter().any(is_way);
        if adds_ways && row.ways() >= MOST_WAYS {
            return Ok(Written::Hidden);
        }
        if let Some(index) = &plan.index {
            self.write_index(ready, name, index, now).await?;
        }
        self.write_cells(ready, name, &plan.cells, now).await?;
        add_one(&self.metrics.names_written);
        if plan.is_to_be_read() {
            return self.read_back(ready, name, &row, &plan, now).await;
        }
        plan.apply(&mut row);
        Ok(Written::Stored(row))
    }

    async fn write_cells(
        &self,
        ready: &Ready,
        name: Name,
        cells: &[Cell],
        now: Time,
    ) -> Result<(), RibError> {
        if cells.is_empty() {
            return Ok(());
        }
        let write = |cell: &Cell| {
            let ttl_s = ttl_s(cell.keep_until_s, now);
            ready.statements.write(&name.0, cell.slot, cell.rank, ttl_s, cell.value.clone())
        };
        ready.statements.batch(cells.iter().map(write).collect()).await
    }

    /// Reads what was written, and writes it again where what others wrote meanwhile is kept
    /// longer.
    async fn read_back(
        &self,
        ready: &Ready,
        name: Name,
        before: &Row,
        plan: &Plan,
        now: Time,
    ) -> Result<Written, RibError> {
        add_one(&self.metrics.read_back);
        let row = self.row(ready, &name).await?;
        if plan.check(&row).is_err() {
            return Ok(Written::Hidden);
        }
        self.write_cells(ready, name, &plan.lengthened(before, &row), now).await?;
        Ok(Written::Stored(row))
    }

    /// Deletes what can be seen, and nothing that somebody adds meanwhile.
    async fn remove(
        &self,
        ready: &Ready,
        name: Name,
        row: &Row,
        now: Time,
    ) -> Result<(), RibError> {
        let entry = row.entry(now.now_s).map_err(|_| RibError::DamagedEntry { name });
        let deletions =
            row.deletions().map(|(slot, rank)| ready.statements.delete(&name.0, slot, rank));
        let deletions: Vec<_> = deletions.collect();
        if deletions.is_empty() {
            return Ok(());
        }
        ready.statements.batch(deletions).await?;
        if let Some(entry) = entry.unwrap_or_default() {
            let footprint = Footprint::of(&entry);
            let left: Vec<Account> = footprint.accounts().collect();
            self.leave(ready, name, &left, now).await?;
            let statements = &ready.statements;
            let values = (now.now_us, &name.beginning()[..], &name.0[..]);
            statements.ask(&statements.delete_address, values).await?;
        }
        Ok(())
    }

    async fn write_index(
        &self,
        ready: &Ready,
        name: Name,
        index: &Index,
        now: Time,
    ) -> Result<(), RibError> {
        self.count(ready, name, index, now).await?;
        self.leave(ready, name, &index.left, now).await?;
        let statements = &ready.statements;
        let ttl_s = ttl_s(index.keep_until_s, now);
        let values = (&name.beginning()[..], &name.0[..], now.now_us, ttl_s);
        statements.ask(&statements.write_address, values).await.map(drop)
    }
}

/// Writes all names of a commit, and beside them which they are. Returns those that cannot be
/// stored.
async fn commit(inner: &Arc<Inner>, changes: &[Change]) -> Result<Vec<Name>, RibError> {
    let (width, _places) = inner.places(changes.len())?;
    let ready = inner.ready().await?;
    let names: Vec<Name> = changes.iter().map(|change| change.name).collect();
    let tell = || ready.changes.tell(&ready.statements, Changed::Names(&names));
    let began = Instant::now();
    let (written, told) = tokio::join!(write_all(inner, changes, width), tell());
    let mut result = told.and(written);
    // Others may have read these names for the last time before they were there.
    if result.is_ok() && began.elapsed() >= TOLD_FOR {
        result = tell().await.and(result);
    }
    if result.is_err() {
        names.iter().for_each(|name| inner.seen.forget(name));
        ready.changes.note_failed(&names);
    }
    result
}

async fn write_all(
    inner: &Arc<Inner>,
    changes: &[Change],
    width: usize,
) -> Result<Vec<Name>, RibError> {
    let mut hidden = Vec::new();
    let mut tasks: JoinSet<Result<Option<Name>, RibError>> = JoinSet::new();
    let mut left = changes.iter();
    loop {
        while tasks.len() < width
            && let Some(change) = left.next()
        {
            let (inner, name, after) = (inner.clone(), change.name, change.after.clone());
            tasks.spawn(async move {
                let is_stored = inner.write_name(name, after).await?;
                Ok((!is_stored).then_some(name))
            });
        }
        match tasks.join_next().await {
            Some(done) => hidden.extend(done.map_err(other)??),
            None => return Ok(hidden),
        }
    }
}

/// What became of a name.
enum Written {
    Stored(Row),
    Removed,
    /// It cannot be seen, or not be written.
    Hidden,
}

/// Ways of one name, each one of several, that are remembered at once: eight may be in force, and
/// the others are over and not forgotten yet.
const MOST_WAYS: usize = 64;
/// 20 MB at most.
const ROWS_AT_ONCE: usize = 1000;
