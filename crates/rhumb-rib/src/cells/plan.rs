//! What has to be written so that a row says what an entry says, and how it is known afterwards
//! that it does.
//!
//! A cell that is newer than another one which can be seen is seen itself, once it is written.
//! Where there was none to be seen, a newer one may have been there whose time is over: stores let
//! it hide what is older for a while yet. And what a stranger brings is kept for less long than
//! what others may write at the same moment. In both cases the row is read again after it was
//! written ([`Plan::is_to_be_read`], [`Plan::check`], [`Plan::lengthened`]).

use super::{Bookkeeping, Cell, Row, Slot, emit, emit_register, rank_of};
use crate::{Account, Entry, Footprint, Share};

/// What is to be written of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Cells of its row, all in one write.
    pub cells: Vec<Cell>,
    /// What else says that there is such a name, where that has to be written again: before the
    /// cells, so that nothing is stored that is not counted.
    pub index: Option<Index>,
    is_to_be_read: bool,
}

/// Where a name is counted and found by its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// On these accounts.
    pub accounts: Vec<Account>,
    /// On these of them for the first time.
    pub joined: Vec<Account>,
    /// On these no more.
    pub left: Vec<Account>,
    /// With so many bytes.
    pub bytes: u64,
    /// Up to this second since 1970.
    pub keep_until_s: u64,
}

/// When something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Seconds since 1970, by the clock of the server.
    pub now_s: u64,
    /// Microseconds since 1970, by the same.
    pub now_us: i64,
}

/// Something was written and is not what the row says then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadowed;

impl Row {
    /// What to write so that this row says what `after` says, too: nothing when it does already, or
    /// when the entry is past.
    ///
    /// # Errors
    /// [`Shadowed`] when another word for a server has stepped in since the entry was read.
    pub fn plan(&self, after: &Entry, written: Written) -> Result<Plan, Shadowed> {
        let mut plan = Plan::default();
        if after.is_past(written.now_s) {
            return Ok(plan);
        }
        for (slot, register) in [
            (Slot::Route, &after.route),
            (Slot::Locator, &after.locator),
            (Slot::Withdrawal, &after.withdrawal),
            (Slot::Export, &after.export),
        ] {
            if let Some(sequence) = register.sequence() {
                self.supersede(&mut plan, after, slot, sequence, || emit_register(register));
            }
        }
        for held in &after.several {
            let Some(via) = held.statement.hands_on_to() else { continue };
            self.supersede(&mut plan, after, Slot::Several(via), held.sequence, || emit(held));
        }
        if let Some(to) = after.several_to {
            self.supersede(&mut plan, after, Slot::SeveralTo, to, || to.to_be_bytes().to_vec());
        }
        if let Some(published) = &after.published {
            self.supersede(&mut plan, after, Slot::Published, published.sequence, || {
                let mut value = Vec::with_capacity(published.emitted_len());
                published.emit(&mut value);
                value
            });
        }
        self.step(&mut plan, after, written)?;
        self.keep_books(&mut plan, after, written);
        Ok(plan)
    }

    /// Writes what is newer than what is there.
    fn supersede(
        &self,
        plan: &mut Plan,
        after: &Entry,
        slot: Slot,
        sequence: u64,
        value: impl FnOnce() -> Vec<u8>,
    ) {
        let (rank, before) = (rank_of(sequence), self.rank(slot));
        if before.is_none_or(|before| before < rank) {
            plan.is_to_be_read |= before.is_none();
            let keep_until_s = after.keep_until_s;
            plan.cells.push(Cell { slot, rank, value: value(), keep_until_s });
        }
    }

    /// Writes which older word for a server stands in for a newer one, or that none does any more.
    fn step(&self, plan: &mut Plan, after: &Entry, written: Written) -> Result<(), Shadowed> {
        let Some(change) = &after.stepping.change else { return Ok(()) };
        let before = self.0.get(&Slot::StepIn);
        if before.is_some_and(|held| held.value == *change) || before.is_none() && change.is_empty()
        {
            return Ok(());
        }
        let seen = before.map_or(0, |held| held.rank);
        if seen != after.stepping.seen {
            return Err(Shadowed);
        }
        plan.cells.push(Cell {
            slot: Slot::StepIn,
            rank: written.now_us.max(seen + 1),
            value: change.clone(),
            keep_until_s: after.keep_until_s,
        });
        Ok(())
    }

    /// Writes who brought it and until when it is kept, and where it is counted where that has
    /// changed, or where it would not be for long enough.
    fn keep_books(&self, plan: &mut Plan, after: &Entry, written: Written) {
        let before = self.bookkeeping();
        let footprint = Footprint::of(after);
        let keep_until_s = after.keep_until_s.max(before.as_ref().map_or(0, |it| it.keep_until_s));
        let accounts: Vec<Account> = footprint.accounts().collect();
        let counted_before = self.accounts_before(written.now_s);
        let is_counted = before.as_ref().is_some_and(|book| {
            let (until_s, bytes) = book.indexed;
            until_s >= keep_until_s && footprint.bytes.abs_diff(bytes) <= bytes / 8
        });
        let mut indexed = before.as_ref().map_or((0, 0), |book| book.indexed);
        if !is_counted || counted_before != accounts || self.value(Slot::Metadata).is_none() {
            let is_joined = |it: &&Account| before.is_none() || !counted_before.contains(it);
            let joined = accounts.iter().filter(is_joined).copied().collect();
            let left = counted_before.iter().filter(|it| !accounts.contains(it)).copied().collect();
            // Half as long again, so that renewals need not write it every time.
            let longer_s = keep_until_s.saturating_sub(written.now_s) / 2;
            indexed = (keep_until_s.saturating_add(longer_s), footprint.bytes);
            let rank = written.now_us.max(self.rank(Slot::Metadata).unwrap_or(0) + 1);
            let value = after.metadata.emit();
            plan.cells.push(Cell { slot: Slot::Metadata, rank, value, keep_until_s: indexed.0 });
            let bytes = footprint.bytes;
            plan.index = Some(Index { accounts, joined, left, bytes, keep_until_s: indexed.0 });
        }
        plan.is_to_be_read |= after.share != Share::Admitted;
        let Entry { publisher, share, .. } = *after;
        let givers = after.givers.clone();
        let book = Bookkeeping { keep_until_s, publisher, share, givers, indexed };
        let is_known = before.is_some_and(|before| before == book);
        if !is_known || !plan.cells.is_empty() {
            let before = self.rank(Slot::Bookkeeping).unwrap_or(0);
            let rank = rank_of_books(keep_until_s, written.now_us).max(before + 1);
            let value = book.encode();
            plan.cells.push(Cell { slot: Slot::Bookkeeping, rank, value, keep_until_s });
        }
    }

    /// The accounts that the row counts on as it is.
    fn accounts_before(&self, now_s: u64) -> Vec<Account> {
        match self.entry(now_s) {
            Ok(Some(entry)) => Footprint::of(&entry).accounts().collect(),
            _ => Vec::new(),
        }
    }

    /// What to delete, and of which rank, so that nothing is known of the name: a deletion hides
    /// what is of its rank or a lower one, so whatever somebody adds meanwhile stays. The metadata
    /// stays until its time is over, since that somebody counts on it.
    pub fn deletions(&self) -> impl Iterator<Item = (Slot, i64)> {
        let cells = self.0.iter().map(|(slot, held)| (*slot, held.rank));
        cells.filter(|(slot, _)| *slot != Slot::Metadata)
    }
}

impl Plan {
    /// Whether what was written has to be read again before it may be called stored.
    pub fn is_to_be_read(&self) -> bool {
        self.is_to_be_read && !self.cells.is_empty()
    }

    /// Whether the row that was read afterwards has what was written, or what is newer.
    ///
    /// # Errors
    /// [`Shadowed`] when it has not.
    pub fn check(&self, row: &Row) -> Result<(), Shadowed> {
        let is_there = |cell: &Cell| match row.0.get(&cell.slot) {
            // Who writes books at once is not of importance; what is published is.
            Some(_) if matches!(cell.slot, Slot::Bookkeeping | Slot::Metadata) => true,
            Some(held) => {
                held.rank > cell.rank || held.rank == cell.rank && held.value == cell.value
            }
            None => false,
        };
        if self.cells.iter().all(is_there) { Ok(()) } else { Err(Shadowed) }
    }

    /// The cells that have to be written again, to be kept as long as what others wrote meanwhile:
    /// this plan's own, and those that came to the row since it was `before` and are over what this
    /// plan wrote. Else what is older would be seen again after them.
    pub fn lengthened(&self, before: &Row, row: &Row) -> Vec<Cell> {
        let Some(book) = row.bookkeeping() else { return Vec::new() };
        let keep_until_s = book.keep_until_s;
        let is_statement =
            |cell: &&Cell| !matches!(cell.slot, Slot::Metadata | Slot::Bookkeeping | Slot::StepIn);
        let least = self.cells.iter().filter(is_statement).map(|cell| cell.rank).min();
        let own =
            self.cells.iter().filter(|cell| is_statement(cell) && cell.keep_until_s < keep_until_s);
        let own = own.map(|cell| Cell { keep_until_s, ..cell.clone() });
        let is_over_others = |slot: Slot| {
            matches!(slot, Slot::Withdrawal | Slot::Route | Slot::SeveralTo)
                && row.rank(slot) > before.rank(slot).max(least)
                && self.cells.iter().all(|cell| cell.slot != slot)
        };
        let of_others = row.0.iter().filter(|(slot, _)| is_over_others(**slot));
        let of_others = of_others.map(|(slot, held)| {
            let (slot, rank, value) = (*slot, held.rank, held.value.clone());
            Cell { slot, rank, value, keep_until_s }
        });
        own.chain(of_others).collect()
    }

    /// What the row is after the plan was carried out.
    pub fn apply(&self, row: &mut Row) {
        for cell in &self.cells {
            row.put(cell.clone());
        }
    }
}

/// Who keeps an entry for longer has the say in its books; of those who do so equally long, who
/// wrote later.
fn rank_of_books(keep_until_s: u64, now_us: i64) -> i64 {
    let until_s = i64::try_from(keep_until_s.min(u64::from(u32::MAX))).unwrap_or(i64::MAX);
    // In two milliseconds since the longest time before it that anything is kept.
    let since_ms = now_us / 1000 - until_s.saturating_sub(BOOKS_BEFORE_S).saturating_mul(1000);
    (until_s << TIME_BITS) | (since_ms / 2).clamp(0, (1 << TIME_BITS) - 1)
}

/// Bits of a rank for the time, in units of 2 ms: 49 days.
const TIME_BITS: u32 = 31;
/// Longer than anything is kept for: 30 days, and what clocks differ by.
const BOOKS_BEFORE_S: i64 = 48 * 24 * 60 * 60;
