//! An entry as cells of a store that many servers write at once (decision 0093).
//!
//! A row has one cell for each register of an entry, one for each route that is one of several, and
//! some beside them. Of two cells of one slot the one of the higher rank is in force, and the rank
//! of a statement is its sequence: so a row is the same in the end whoever writes what, in whatever
//! order and however often, and no writer waits for another. What one register says of another (a
//! withdrawal of what came before it, a route that is to be the only one) is worked out by
//! [`Row::entry`] when the row is read. Nothing is deleted: every cell says until when it is kept.
//!
//! | slot | value | rank |
//! |---|---|---|
//! | metadata | the metadata | when it was written |
//! | bookkeeping | who brought the newest statement, on whose share, until when all is kept; what was counted | until when, then when it was written |
//! | route, locator, withdrawal, export | the certificate; or 0 and the sequence (8 bytes) | the sequence |
//! | published | the list of names | its sequence |
//! | one of several, by whom it names | the certificate | its sequence |
//! | several to | the highest sequence of them (8 bytes) | the same |
//! | stepping in | the sequence of a newer word for a server (8 bytes), and the older one that stands in for it; or nothing | when it was written |
//!
//! INVARIANT: whatever set of statements several servers admit, each by what it has read, the row
//! says the same as the entry of one server that admitted all of them.

mod plan;
#[cfg(test)]
mod tests;

pub use plan::{Index, Plan, Shadowed, Written};

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::sync::Arc;

use rhumb_wire::rib::MAX_WAYS;
use rhumb_wire::{Certificate, Metadata, Name, PublishedNames, Scope, Statement};

use crate::Entry;
use crate::entry::{Register, has_expired};
use crate::limits::Givers;
use crate::record::{VERSION, decode_share, encode_share};
use crate::share::Share;
use crate::stepping::split_step;

/// Where a cell is in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// What the name is the hash of.
    Metadata,
    /// Who brought it, and what it counts on.
    Bookkeeping,
    /// The older word for a server that stands in for a newer one.
    StepIn,
    /// The route or service that is to be the only one.
    Route,
    /// Where the name is.
    Locator,
    /// Up to where nothing holds.
    Withdrawal,
    /// By which domain it is known outside.
    Export,
    /// The names under it.
    Published,
    /// Up to where there were routes that are each one of several.
    SeveralTo,
    /// A route that is one of several, by whom it names.
    Several(Name),
}

/// What is written to one slot of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Where.
    pub slot: Slot,
    /// Which of two is in force: the higher one.
    pub rank: i64,
    /// The bytes; at most some hundreds, of published names 1000.
    pub value: Vec<u8>,
    /// The second, since 1970, up to which the store is to keep it.
    pub keep_until_s: u64,
}

/// All cells of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row(BTreeMap<Slot, Held>);

/// A cell in its row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    rank: i64,
    keep_until_s: u64,
    value: Vec<u8>,
}

/// A cell does not parse, so the store is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// What a row says of its entry as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bookkeeping {
    keep_until_s: u64,
    publisher: Name,
    share: Share,
    givers: Givers,
    /// Up to when it is counted and found by its address, and with how many bytes.
    indexed: (u64, u64),
}

impl Row {
    /// Takes a cell, if it is newer than what is there. Of two of one rank, which an issuer can
    /// make by signing twice, the one that is kept longer is in force, then that of the greater
    /// bytes, as the stores have it.
    pub fn put(&mut self, cell: Cell) {
        let held = Held { rank: cell.rank, keep_until_s: cell.keep_until_s, value: cell.value };
        match self.0.entry(cell.slot) {
            Place::Vacant(place) => _ = place.insert(held),
            Place::Occupied(mut place) if *place.get() < held => _ = place.insert(held),
            Place::Occupied(_) => {}
        }
    }

    /// Takes a cell as the store gave it, which tells neither the rank of a statement, since that
    /// is within it, nor until when it is kept.
    ///
    /// # Errors
    /// When the value does not parse.
    pub fn read(&mut self, slot: Slot, written_us: i64, value: Vec<u8>) -> Result<(), Damaged> {
        let rank = match slot {
            Slot::Metadata | Slot::Bookkeeping | Slot::StepIn => written_us,
            Slot::SeveralTo => rank_of(sequence_in(&value)?),
            Slot::Published => rank_of(published_in(&value)?.sequence),
            _ => rank_of(register_in(&value)?.sequence().ok_or(Damaged)?),
        };
        self.put(Cell { slot, rank, value, keep_until_s: 0 });
        Ok(())
    }

    /// How many routes there are that are each one of several, the expired ones included.
    pub fn ways(&self) -> usize {
        self.0.keys().filter(|slot| matches!(slot, Slot::Several(_))).count()
    }

    /// Whether there is a cell in this slot.
    pub fn has(&self, slot: Slot) -> bool {
        self.0.contains_key(&slot)
    }

    /// The entry that the row amounts to; `None` when nothing is known of the name, or no more. Of
    /// more ways than may be beside each other, which only servers that admit them at once can
    /// bring about, the newest are in force.
    ///
    /// # Errors
    /// When a cell does not parse.
    pub fn entry(&self, now_s: u64) -> Result<Option<Entry>, Damaged> {
        let (Some(metadata), Some(book)) =
            (self.value(Slot::Metadata), self.value(Slot::Bookkeeping))
        else {
            return Ok(None);
        };
        let book = Bookkeeping::decode(book)?;
        let mut entry = Entry::new(Metadata::parse(metadata).map_err(|_| Damaged)?, book.publisher);
        (entry.share, entry.givers) = (book.share, book.givers);
        entry.keep_until_s = book.keep_until_s;
        entry.withdrawal = self.register(Slot::Withdrawal, |it| *it == Statement::Withdrawal)?;
        entry.locator = self.register(Slot::Locator, |it| matches!(it, Statement::Locator(_)))?;
        entry.export = self.register(Slot::Export, |it| {
            matches!(it, Statement::Route { scope: Scope::ByDomain { .. }, .. })
        })?;
        entry.route = self.register(Slot::Route, Statement::is_way)?;
        entry.several = self.several(&entry, now_s)?;
        entry.several_to = self.value(Slot::SeveralTo).map(sequence_in).transpose()?;
        if entry.several_to > entry.route.sequence() {
            entry.route.forget();
        } else {
            self.step_in(&mut entry)?;
        }
        if let Some(withdrawn_to) = entry.withdrawal.sequence() {
            for register in [&mut entry.route, &mut entry.locator, &mut entry.export] {
                register.withdraw(withdrawn_to);
            }
        }
        entry.published = self.value(Slot::Published).map(published_in).transpose()?.map(Box::new);
        entry.stepping.seen = self.0.get(&Slot::StepIn).map_or(0, |held| held.rank);
        Ok(Some(entry))
    }

    /// Those that came after the route which was to be the only one, and were not withdrawn.
    fn several(&self, entry: &Entry, now_s: u64) -> Result<Vec<Certificate>, Damaged> {
        let over = entry.route.sequence().max(entry.withdrawal.sequence());
        let mut several = Vec::new();
        for (slot, held) in &self.0 {
            let Slot::Several(_) = slot else { continue };
            let Register::Holds(certificate) = register_in(&held.value)? else {
                return Err(Damaged);
            };
            if Some(certificate.sequence) > over && !has_expired(&certificate, now_s) {
                several.push(Arc::unwrap_or_clone(certificate));
            }
        }
        let most = usize::from(MAX_WAYS);
        if several.len() > most {
            several.sort_by_key(|it| std::cmp::Reverse((it.sequence, it.statement.hands_on_to())));
            several.truncate(most);
            several.sort_by_key(|it| it.statement.hands_on_to());
        }
        Ok(several)
    }

    /// Puts the word that stands in for the route in its place, if that is still the one.
    fn step_in(&self, entry: &mut Entry) -> Result<(), Damaged> {
        let Some((instead_of, older)) = self.value(Slot::StepIn).and_then(split_step) else {
            return Ok(());
        };
        let older = Certificate::parse(older).map_err(|_| Damaged)?;
        let is_over = entry.route.sequence().is_some_and(|newest| newest > instead_of)
            || entry.withdrawal.sequence().is_some_and(|to| to >= older.sequence);
        if !is_over {
            entry.route = Register::from(older);
            entry.stepping.instead_of = Some(instead_of);
        }
        Ok(())
    }

    fn register(&self, slot: Slot, kind: impl Fn(&Statement) -> bool) -> Result<Register, Damaged> {
        let Some(value) = self.value(slot) else { return Ok(Register::Empty) };
        match register_in(value)? {
            Register::Holds(held) if !kind(&held.statement) => Err(Damaged),
            register => Ok(register),
        }
    }

    fn value(&self, slot: Slot) -> Option<&[u8]> {
        self.0.get(&slot).map(|held| held.value.as_slice())
    }

    fn rank(&self, slot: Slot) -> Option<i64> {
        self.0.get(&slot).map(|held| held.rank)
    }

    fn bookkeeping(&self) -> Option<Bookkeeping> {
        Bookkeeping::decode(self.value(Slot::Bookkeeping)?).ok()
    }
}

impl Bookkeeping {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.keep_until_s.to_be_bytes());
        out.extend_from_slice(&self.publisher.0);
        out.extend_from_slice(&self.indexed.0.to_be_bytes());
        out.extend_from_slice(&self.indexed.1.to_be_bytes());
        encode_share(self.share, &self.givers, &mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let decode = || {
            let (&version, rest) = bytes.split_first()?;
            let (keep_until_s, rest) = rest.split_first_chunk()?;
            let (publisher, rest) = rest.split_first_chunk()?;
            let (until_s, rest) = rest.split_first_chunk()?;
            let (counted, rest) = rest.split_first_chunk()?;
            let (share, givers, rest) = decode_share(version, rest)?;
            rest.is_empty().then_some(Self {
                keep_until_s: u64::from_be_bytes(*keep_until_s),
                publisher: Name(*publisher),
                share,
                givers,
                indexed: (u64::from_be_bytes(*until_s), u64::from_be_bytes(*counted)),
            })
        };
        decode().ok_or(Damaged)
    }
}

/// Ranks are in the order of the sequences. The least number is no rank, since it means "none" to
/// the stores; so the two highest sequences have one rank, and the bytes of the statements, which
/// begin alike up to the sequence, tell them apart.
pub fn rank_of(sequence: u64) -> i64 {
    let rank = i128::from(sequence) + i128::from(i64::MIN) + 1;
    i64::try_from(rank).unwrap_or(i64::MAX)
}

/// What a register's cell has as its value, but of an empty one.
fn emit_register(register: &Register) -> Vec<u8> {
    match register {
        Register::Holds(certificate) => emit(certificate),
        Register::Floor(sequence) => [&[0][..], &sequence.to_be_bytes()].concat(),
        Register::Empty => Vec::new(),
    }
}

fn emit(certificate: &Certificate) -> Vec<u8> {
    let mut out = Vec::with_capacity(certificate.emitted_len());
    certificate.emit(&mut out);
    out
}

/// A certificate begins with its version, which is not 0.
fn register_in(value: &[u8]) -> Result<Register, Damaged> {
    match value {
        [0, sequence @ ..] => Ok(Register::Floor(sequence_in(sequence)?)),
        _ => Certificate::parse(value).map(Register::from).map_err(|_| Damaged),
    }
}

fn sequence_in(value: &[u8]) -> Result<u64, Damaged> {
    value.try_into().map(u64::from_be_bytes).map_err(|_| Damaged)
}

fn published_in(value: &[u8]) -> Result<PublishedNames, Damaged> {
    PublishedNames::parse(value).map_err(|_| Damaged)
}
