//! What this server tells the others that it has changed.
//!
//! A server numbers its changes, one number for each commit, and writes them to partitions of its
//! own. So nobody who reads them needs a clock: the next number is what is awaited, and a number
//! that is left out is a write under way, or one that failed. That there is such a server, and how
//! far it is, stands in a table that all servers read; a server is in it before it writes its first
//! change, and nothing is acknowledged while that may be over.
//!
//! A commit that fails may be there all the same, now or later. So its names are kept until others
//! have been told of them, and this server hears of them as if another had changed them.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex as Lock, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_rib::RibError;
use rhumb_wire::Name;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::failure::other;
use crate::statements::Statements;

/// The changes of this server.
pub(crate) struct Changes {
    /// Of this process: another one after a restart, whose numbers begin again.
    pub(crate) server: [u8; SERVER_LEN],
    next: AtomicI64,
    /// When the others were told last that this server is there.
    present: Mutex<Option<Instant>>,
    failed: Lock<Failed>,
}

/// Names of commits that have failed.
#[derive(Default)]
struct Failed {
    /// Of which this server has not heard.
    unheard: HashSet<Name>,
    /// Of which the others have not.
    untold: HashSet<Name>,
    /// Of which they are being told.
    telling: Vec<Name>,
    /// There were more of them than are kept.
    are_lost: bool,
}

/// What has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Changed<'a> {
    /// Entries of these names.
    Names(&'a [Name]),
    /// Who is no member any more.
    Removals,
}

impl Failed {
    /// What fails anew from here on is told anew.
    fn begin_telling(&mut self) -> Vec<Name> {
        if self.telling.is_empty() {
            self.telling = self.untold.iter().take(NAMES_PER_CHANGE).copied().collect();
            self.telling.iter().for_each(|name| _ = self.untold.remove(name));
        }
        self.telling.clone()
    }
}

impl Changes {
    pub(crate) fn begin() -> Result<Self, RibError> {
        let mut server = [0; SERVER_LEN];
        aws_lc_rs::rand::fill(&mut server).map_err(other)?;
        let (present, failed) = (Mutex::new(None), Lock::default());
        Ok(Self { server, next: AtomicI64::new(0), present, failed })
    }

    /// Tells the others. When this has returned, whoever reads the changes from then on finds it.
    pub(crate) async fn tell(
        &self,
        statements: &Statements,
        changed: Changed<'_>,
    ) -> Result<(), RibError> {
        self.be_present(statements).await?;
        let (names, chunks) = match changed {
            Changed::Removals => (&[][..], 1),
            Changed::Names([]) => return Ok(()),
            Changed::Names(names) => (names, names.len().div_ceil(NAMES_PER_CHANGE)),
        };
        for chunk in 0..chunks {
            let names = names.iter().skip(chunk * NAMES_PER_CHANGE).take(NAMES_PER_CHANGE);
            let names: Vec<u8> = names.flat_map(|name| name.0).collect();
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let values = (&self.server[..], number / BLOCK, number, names, CHANGES_TTL_S);
            statements.ask(&statements.write_change, values).await?;
        }
        Ok(())
    }

    /// These were to be changed, and it is not known what became of them.
    pub(crate) fn note_failed(&self, names: &[Name]) {
        let mut failed = self.failed();
        if failed.unheard.len() + names.len() > MOST_FAILED {
            failed.unheard.clear();
            failed.are_lost = true;
        } else {
            failed.unheard.extend(names);
        }
        // Of those beyond, others are told when an order is repeated that is there already.
        let room = MOST_FAILED.saturating_sub(failed.untold.len());
        failed.untold.extend(&names[..names.len().min(room)]);
    }

    /// Those that were noted since the last time; `None` if they were too many.
    pub(crate) fn take_failed(&self) -> Option<HashSet<Name>> {
        let mut failed = self.failed();
        let unheard = mem::take(&mut failed.unheard);
        (!mem::take(&mut failed.are_lost)).then_some(unheard)
    }

    /// Tells the others of some of those that they have not been told of, if that takes no longer
    /// than a moment; otherwise of the same the next time.
    pub(crate) async fn tell_failed(&self, statements: &Statements) {
        let telling = self.failed().begin_telling();
        let told = timeout(MOMENT, self.tell(statements, Changed::Names(&telling))).await;
        if let Ok(Ok(())) = told {
            self.failed().telling.clear();
        }
    }

    fn failed(&self) -> MutexGuard<'_, Failed> {
        // A panic within leaves less, never something wrong.
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the others that this server is there, unless that was done lately.
    pub(crate) async fn be_present(&self, statements: &Statements) -> Result<(), RibError> {
        let mut present = self.present.lock().await;
        let began = Instant::now();
        if present.is_some_and(|told| began.duration_since(told) < TELL_PRESENT) {
            return Ok(());
        }
        let number = self.next.load(Ordering::Relaxed);
        let values = (&self.server[..], number, PRESENT_TTL_S);
        statements.ask(&statements.write_server, values).await?;
        *present = Some(began);
        Ok(())
    }
}

/// Random, so that no two servers have one.
pub(crate) const SERVER_LEN: usize = 16;
/// Numbers in one partition.
pub(crate) const BLOCK: i64 = 4096;
/// 32 kB.
const NAMES_PER_CHANGE: usize = 1000;
/// What is written within it is there when others read it for the last time, ten seconds after
/// they heard of it; of what takes longer they are told once more.
pub(crate) const TOLD_FOR: Duration = Duration::from_secs(8);
/// For how long changes are kept for servers that were away: ten minutes.
pub(crate) const CHANGES_TTL_S: i32 = 600;
/// For how long a server is there that says nothing.
const PRESENT_TTL_S: i32 = 60;
const TELL_PRESENT: Duration = Duration::from_secs(15);
/// For each of both: 3 MB.
const MOST_FAILED: usize = 50_000;
/// A small part of the time within which what others change is to be heard.
const MOMENT: Duration = Duration::from_millis(250);
