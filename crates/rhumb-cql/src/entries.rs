//! Entries: read, committed, paged through.
//!
//! A commit writes each name by itself, all at once, and is acknowledged when a quorum has every
//! one:
//!
//! 1. What has to be written is worked out against the row ([`Row::plan`]).
//! 2. Where the name is counted and found by its address comes first, so that nothing is stored
//!    that is not counted. Renewals mostly have nothing of it.
//! 3. All cells of the name, in one write to its partition; and beside it, once for the commit,
//!    what has changed, for other servers.
//! 4. Where something could hide what was written, the row is read again: what is not in force is
//!    not called stored.

use std::sync::Arc;

use rhumb_rib::cells::{Cell, Index, Plan, Row, Slot, Written};
use rhumb_rib::store::Change;
use rhumb_rib::{Account, Entry, Footprint, RibError};
use rhumb_wire::Name;
use scylla::response::PagingState;
use tokio::task::JoinSet;

use crate::Cluster;
use crate::changes::Changed;
use crate::cluster::{Inner, Ready, now, ttl_s};
use crate::failure::other;
use crate::metrics::{Kind, add_one};
use crate::rows::{Columns, row_of};

/// Some entries, in an order of the cluster's own.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page {
    /// Those that can be read.
    pub entries: Vec<(Name, Entry)>,
    /// Names whose entries are damaged.
    pub damaged: Vec<Name>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<PageMark>,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageMark(Vec<u8>);

impl PageMark {
    /// As bytes, to go on later.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From bytes that [`PageMark::as_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

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
    /// all of them. After an error some may be written, or be written yet; to commit them again
    /// does no harm. Entries that are past are not written.
    ///
    /// # Errors
    /// As [`Cluster::entry`]; [`RibError::Shadowed`] when a newer statement hides what was written,
    /// though its time is over; [`RibError::TooManyWays`].
    pub async fn commit(&self, changes: &[Change]) -> Result<(), RibError> {
        self.0.timed(Kind::Write, commit(&self.0, changes)).await
    }

    /// Some hundred entries from there on, or from the first. What is written meanwhile may be
    /// missed or not. Entries whose time is over are left out.
    ///
    /// # Errors
    /// As [`Cluster::entry`].
    pub async fn page(&self, from: Option<&PageMark>) -> Result<Page, RibError> {
        self.0.timed(Kind::Read, self.0.page(from)).await
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

    async fn page(&self, from: Option<&PageMark>) -> Result<Page, RibError> {
        let _place = self.place()?;
        let statements = &self.ready().await?.statements;
        let from = from.map_or_else(PagingState::start, |mark| {
            PagingState::new_from_raw_bytes(mark.0.as_slice())
        });
        let (read, next) = statements.read_page(&statements.read_rows, (), from).await?;
        let (mut entries, mut damaged) = (Vec::new(), Vec::new());
        let now_s = now().now_s;
        for columns in read.rows::<Columns>().map_err(other)? {
            match row_of(columns.map_err(other)?) {
                Ok((name, row)) => match row.entry(now_s) {
                    Ok(entry) => entries.extend(entry.map(|entry| (name, entry))),
                    Err(_) => damaged.push(name),
                },
                Err(RibError::DamagedEntry { name }) => damaged.push(name),
                Err(error) => return Err(error),
            }
        }
        let next = next.as_ref().and_then(PagingState::as_bytes_slice);
        Ok(Page { entries, damaged, next: next.map(|mark| PageMark(mark.to_vec())) })
    }

    /// Writes one name, and remembers what it is then.
    async fn write_name(&self, name: Name, after: Option<Entry>) -> Result<(), RibError> {
        let ready = self.ready().await?;
        let written = self.write_row(ready, name, after).await;
        match &written {
            Ok(Some(row)) => self.seen.note(name, row.clone()),
            // After an error it is not known what is there.
            Ok(None) | Err(_) => self.seen.forget(&name),
        }
        written.map(drop)
    }

    async fn write_row(
        &self,
        ready: &Ready,
        name: Name,
        after: Option<Entry>,
    ) -> Result<Option<Row>, RibError> {
        let mut row = match self.seen.row(&name) {
            Some(row) if after.is_some() => row,
            _ => self.row(ready, &name).await?,
        };
        let now = now();
        let Some(after) = after else {
            self.remove(ready, name, &row, now).await?;
            return Ok(None);
        };
        let plan = row.plan(&after, now).map_err(|_| RibError::Shadowed { name })?;
        let is_way = |cell: &Cell| matches!(cell.slot, Slot::Several(_)) && !row.has(cell.slot);
        let adds_ways = plan.cells.iter().any(is_way);
        if adds_ways && row.ways() >= MOST_WAYS {
            return Err(RibError::TooManyWays { name, most: MOST_WAYS });
        }
        if let Some(index) = &plan.index {
            self.write_index(ready, name, index, now).await?;
        }
        self.write_cells(ready, name, &plan.cells, now).await?;
        add_one(&self.metrics.names_written);
        if plan.is_to_be_read() {
            return self.read_back(ready, name, &plan, now).await.map(Some);
        }
        plan.apply(&mut row);
        Ok(Some(row))
    }

    async fn write_cells(
        &self,
        ready: &Ready,
        name: Name,
        cells: &[Cell],
        now: Written,
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
        plan: &Plan,
        now: Written,
    ) -> Result<Row, RibError> {
        add_one(&self.metrics.read_back);
        let row = self.row(ready, &name).await?;
        plan.check(&row).map_err(|_| RibError::Shadowed { name })?;
        self.write_cells(ready, name, &plan.lengthened(&row), now).await?;
        Ok(row)
    }

    /// Deletes what can be seen, and nothing that somebody adds meanwhile.
    async fn remove(
        &self,
        ready: &Ready,
        name: Name,
        row: &Row,
        now: Written,
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
        now: Written,
    ) -> Result<(), RibError> {
        self.count(ready, name, index, now).await?;
        self.leave(ready, name, &index.left, now).await?;
        let statements = &ready.statements;
        let ttl_s = ttl_s(index.keep_until_s, now);
        let values = (&name.beginning()[..], &name.0[..], now.now_us, ttl_s);
        statements.ask(&statements.write_address, values).await.map(drop)
    }
}

/// Writes all names of a commit, and beside them which they are.
async fn commit(inner: &Arc<Inner>, changes: &[Change]) -> Result<(), RibError> {
    let (width, _places) = inner.places(changes.len())?;
    let ready = inner.ready().await?;
    let names: Vec<Name> = changes.iter().map(|(name, _)| *name).collect();
    let mut tasks = JoinSet::new();
    let told = ready.changes.tell(&ready.statements, Changed::Names(&names));
    let written = async {
        for (name, after) in changes {
            while tasks.len() >= width {
                joined(tasks.join_next().await)?;
            }
            let (inner, name, after) = (inner.clone(), *name, after.clone());
            tasks.spawn(async move { inner.write_name(name, after).await });
        }
        while let Some(done) = tasks.join_next().await {
            joined(Some(done))?;
        }
        Ok(())
    };
    let (written, told) = tokio::join!(written, told);
    let result = written.and(told);
    if result.is_err() {
        names.iter().for_each(|name| inner.seen.forget(name));
    }
    result
}

fn joined(
    done: Option<Result<Result<(), RibError>, tokio::task::JoinError>>,
) -> Result<(), RibError> {
    done.map_or(Ok(()), |done| done.map_err(other)?)
}

/// Ways of one name, each one of several, that are remembered at once: eight may be in force, and
/// the others are over and not forgotten yet.
const MOST_WAYS: usize = 64;
