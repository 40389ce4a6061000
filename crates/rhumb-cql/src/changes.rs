//! What this server tells the others that it has changed.
//!
//! A server numbers its changes, one number for each commit, and writes them to partitions of its
//! own. So nobody who reads them needs a clock: the next number is what is awaited, and a number
//! that is left out is a write under way, or one that failed. That there is such a server, and how
//! far it is, stands in a table that all servers read; a server is in it before it writes its first
//! change, and nothing is acknowledged while that may be over.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rhumb_rib::RibError;
use rhumb_wire::Name;
use tokio::sync::Mutex;

use crate::failure::other;
use crate::statements::Statements;

/// The changes of this server.
pub(crate) struct Changes {
    /// Of this process: another one after a restart, whose numbers begin again.
    pub(crate) server: [u8; SERVER_LEN],
    next: AtomicI64,
    /// When the others were told last that this server is there.
    present: Mutex<Option<Instant>>,
}

/// What has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Changed<'a> {
    /// Entries of these names.
    Names(&'a [Name]),
    /// Who is no member any more.
    Removals,
}

impl Changes {
    pub(crate) fn begin() -> Result<Self, RibError> {
        let mut server = [0; SERVER_LEN];
        aws_lc_rs::rand::fill(&mut server).map_err(other)?;
        Ok(Self { server, next: AtomicI64::new(0), present: Mutex::new(None) })
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
