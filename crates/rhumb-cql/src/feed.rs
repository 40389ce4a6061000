//! What other servers have changed, heard within a second.
//!
//! Four times a second a server reads which servers there are and, of each other one, the changes
//! from the next number on. A write may become visible after a later one: the numbers in between
//! are awaited until they can only be failures. Every name is told as soon as it is heard, and
//! again, since the write that it announces is under way at the same time: when nearly all writes
//! have ended, later where the cluster is slow, and when it must have.
//!
//! So is every name of a commit of this server's own that has failed, since what became of it is
//! not known; others are told of it here until they have been.
//!
//! Who could not read for longer than changes are kept is told so ([`Heard::Lost`]), as is who
//! meets a server whose beginning it may have missed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_rib::RibError;
use rhumb_wire::Name;
use scylla::response::PagingState;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::changes::{BLOCK, CHANGES_TTL_S, TOLD_FOR};
use crate::cluster::{Inner, Ready};
use crate::failure::other;

/// The changes of other servers.
pub struct Feed {
    inner: Arc<Inner>,
    servers: HashMap<Vec<u8>, Followed>,
    /// When everything was read last.
    complete: Instant,
    again: [Again; AGAIN.len()],
    /// Read, and not told yet.
    fresh: Fresh,
    heard: VecDeque<Heard>,
}

/// What has changed.
#[derive(Default)]
struct Fresh {
    names: HashSet<Name>,
    removals: bool,
}

/// Names that are to be told once more, so long after they were heard.
struct Again {
    after: Duration,
    names: VecDeque<(Instant, Name)>,
}

/// What was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Heard {
    /// The entries of these names are to be read again; of none, when nothing has changed.
    Names(Vec<Name>),
    /// The same of names that were told before, unless what was read since is what was changed.
    Again(Vec<Name>),
    /// All removals are to be read again.
    Removals,
    /// Something may have been missed: nothing that is remembered may be used.
    Lost,
}

/// How far one other server has been followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Followed {
    /// The least number that has not been heard.
    next: i64,
    /// Those above that have.
    ahead: BTreeSet<i64>,
    /// Since when the next one has been left out.
    gap_since: Option<Instant>,
    last_seen: Option<Instant>,
}

impl Feed {
    pub(crate) async fn begin(inner: Arc<Inner>) -> Result<Self, RibError> {
        let mut feed = Self {
            inner,
            servers: HashMap::new(),
            complete: Instant::now(),
            again: AGAIN.map(Again::new),
            fresh: Fresh::default(),
            heard: VecDeque::new(),
        };
        let ready_inner = feed.inner.clone();
        let ready = ready_inner.ready().await?;
        ready.changes.be_present(&ready.statements).await?;
        let all = servers(ready).await?;
        for (server, next) in all.into_iter().filter(|(it, _)| *it != ready.changes.server) {
            let followed =
                Followed { next, last_seen: Some(Instant::now()), ..Followed::default() };
            feed.servers.insert(server, followed);
        }
        Ok(feed)
    }

    /// Waits for the next thing that another server has changed, some quarter of a second at most:
    /// then it is of no names, and tells that nothing has changed. May be dropped while it waits,
    /// and called again. What it tells, this handle has forgotten itself.
    ///
    /// # Errors
    /// When the cluster does not answer; to be called again, nothing is lost by it.
    pub async fn next(&mut self) -> Result<Heard, RibError> {
        if self.heard.is_empty() {
            sleep(INTERVAL).await;
            self.poll().await?;
        }
        let heard = self.heard.pop_front().unwrap_or(Heard::Names(Vec::new()));
        match &heard {
            Heard::Names(names) | Heard::Again(names) => {
                names.iter().for_each(|it| self.inner.seen.forget(it));
            }
            Heard::Lost => self.inner.seen.forget_all(),
            Heard::Removals => {}
        }
        Ok(heard)
    }

    async fn poll(&mut self) -> Result<(), RibError> {
        let inner = self.inner.clone();
        let ready = inner.ready().await?;
        ready.changes.be_present(&ready.statements).await?;
        let began = Instant::now();
        let away = began.duration_since(self.complete);
        for (server, number) in servers(ready).await? {
            if server == ready.changes.server {
                continue;
            }
            if let Some(followed) = self.servers.get_mut(&server) {
                followed.last_seen = Some(began);
                continue;
            }
            // One that is new has not changed anything yet, unless nobody looked for a while.
            if number > 0 {
                self.lose();
            }
            let followed = Followed { next: number, last_seen: Some(began), ..Followed::default() };
            self.servers.insert(server, followed);
        }
        if away > LONGEST_AWAY {
            self.lose();
        }
        let mut reads = JoinSet::new();
        for (server, Followed { next, .. }) in &self.servers {
            let (inner, server, next) = (inner.clone(), server.clone(), *next);
            reads.spawn(async move { (read(&inner, &server, next).await, server) });
        }
        // What was read of one server is told, whatever becomes of the others, and of this future.
        let mut result = Ok(());
        while let Some(read) = reads.join_next().await {
            let (read, server) = read.map_err(other)?;
            match (read, self.servers.get_mut(&server)) {
                (Ok(read), Some(followed)) => self.fresh.add(followed.take(read, began)),
                (Ok(_), None) => {}
                (Err(error), _) => result = Err(error),
            }
        }
        let is_there = |followed: &Followed| {
            followed.last_seen.is_some_and(|seen| began.duration_since(seen) < FOLLOWED_FOR)
        };
        self.servers.retain(|_, followed| is_there(followed));
        if result.is_ok() {
            self.complete = began;
        }
        match ready.changes.take_failed() {
            Some(failed) => self.fresh.names.extend(failed),
            None => self.lose(),
        }
        self.tell(began);
        ready.changes.tell_failed(&ready.statements).await;
        result
    }

    fn tell(&mut self, now: Instant) {
        let Fresh { names, removals } = mem::take(&mut self.fresh);
        if removals {
            self.heard.push_back(Heard::Removals);
        }
        let mut told_again = HashSet::new();
        for again in &mut self.again {
            told_again.extend(again.take_due(now));
            again.names.extend(names.iter().map(|name| (now, *name)));
        }
        if self.again.iter().any(|again| again.names.len() > MOST_AGAIN) {
            self.lose();
            return;
        }
        let told = [
            Heard::Names(names.iter().copied().collect()),
            Heard::Again(told_again.difference(&names).copied().collect()),
        ];
        let is_told = |heard: &Heard| matches!(heard, Heard::Names(names) | Heard::Again(names) if !names.is_empty());
        self.heard.extend(told.into_iter().filter(is_told));
    }

    /// Nothing that was to be told matters beside this.
    fn lose(&mut self) {
        self.again.iter_mut().for_each(|again| again.names.clear());
        self.heard.clear();
        self.heard.push_back(Heard::Lost);
        self.heard.push_back(Heard::Removals);
    }
}

impl Fresh {
    fn add(&mut self, changes: Vec<Vec<u8>>) {
        for names in changes {
            self.removals |= names.is_empty();
            self.names.extend(names.as_chunks().0.iter().copied().map(Name));
        }
    }
}

impl Again {
    fn new(after: Duration) -> Self {
        Self { after, names: VecDeque::new() }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Name> {
        let is_due = |since: Instant| now.duration_since(since) >= self.after;
        let due = self.names.partition_point(|(since, _)| is_due(*since));
        self.names.drain(..due).map(|(_, name)| name).collect()
    }
}

impl Followed {
    /// Takes what was read from the next number on, and returns what is new of it.
    fn take(&mut self, read: BTreeMap<i64, Vec<u8>>, now: Instant) -> Vec<Vec<u8>> {
        let mut fresh = Vec::new();
        for (number, names) in read {
            if number >= self.next && self.ahead.insert(number) {
                fresh.push(names);
            }
        }
        self.advance();
        if self.ahead.is_empty() {
            self.gap_since = None;
            return fresh;
        }
        let since = *self.gap_since.get_or_insert(now);
        if now.duration_since(since) >= WRITTEN_BY {
            // What is missing has failed.
            self.next = self.ahead.first().copied().unwrap_or(self.next);
            self.advance();
            self.gap_since = (!self.ahead.is_empty()).then_some(now);
        }
        fresh
    }

    fn advance(&mut self) {
        let before = self.next;
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
        if self.next != before {
            self.gap_since = None;
        }
    }
}

/// The other servers that are there, each with its next number.
async fn servers(ready: &Ready) -> Result<Vec<(Vec<u8>, i64)>, RibError> {
    let statements = &ready.statements;
    let read = statements.read(&statements.read_servers, ()).await?;
    let rows = read.rows::<(Vec<u8>, i64)>().map_err(other)?;
    rows.map(|row| row.map_err(other)).collect()
}

/// The changes of a server from this number on: those in its block and in the next one, or as many
/// of them as are enough for once.
async fn read(inner: &Inner, server: &[u8], next: i64) -> Result<BTreeMap<i64, Vec<u8>>, RibError> {
    let statements = &inner.ready().await?.statements;
    let (mut changes, mut bytes) = (BTreeMap::new(), 0);
    let block = next / BLOCK;
    // Few are under way at once, so the next block has some only when this one is near its end.
    let blocks = if next % BLOCK >= BLOCK / 2 { block..=block + 1 } else { block..=block };
    for block in blocks {
        let mut from = Some(PagingState::start());
        while let Some(page) = from.take_if(|_| bytes < MOST_BYTES) {
            let of_block = (server, block, next);
            let (read, next_page) =
                statements.read_page(&statements.read_changes, of_block, page).await?;
            for row in read.rows::<(i64, Vec<u8>)>().map_err(other)? {
                let (number, names) = row.map_err(other)?;
                bytes += names.len();
                changes.insert(number, names);
            }
            from = next_page;
        }
    }
    Ok(changes)
}

/// What is read of one server at a time; somewhat more, since pages are read whole.
const MOST_BYTES: usize = 8 << 20;
/// How often it is read.
const INTERVAL: Duration = Duration::from_millis(250);
/// Within a second with the look before and the one after.
const NEARLY_ALL_WRITTEN: Duration = Duration::from_millis(300);
/// A write that has not been seen by then has failed: longer than a request is waited for.
const WRITTEN_BY: Duration = Duration::from_secs(10);
/// When a name is told again. Who has read the change by then reads nothing.
const AGAIN: [Duration; 4] =
    [NEARLY_ALL_WRITTEN, Duration::from_secs(1), Duration::from_secs(3), WRITTEN_BY];
const _: () = assert!(TOLD_FOR.as_secs() < WRITTEN_BY.as_secs());
/// Half of what changes are kept for.
const LONGEST_AWAY: Duration = Duration::from_secs(CHANGES_TTL_S as u64 / 2);
/// For how long a server is followed that is there no more.
const FOLLOWED_FOR: Duration = Duration::from_secs(CHANGES_TTL_S as u64);
/// 48 MB each time; more is forgotten, with everything.
const MOST_AGAIN: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(numbers: &[i64]) -> BTreeMap<i64, Vec<u8>> {
        numbers.iter().map(|number| (*number, vec![*number as u8])).collect()
    }

    #[test]
    fn what_was_heard_is_told_again_when_it_is_time_and_once() {
        let began = Instant::now();
        let mut again = Again::new(NEARLY_ALL_WRITTEN);
        let [first, second] = [Name([1; 32]), Name([2; 32])];
        again.names.extend([(began, first), (began + NEARLY_ALL_WRITTEN / 2, second)]);
        assert_eq!(again.take_due(began + NEARLY_ALL_WRITTEN - Duration::from_millis(1)), []);
        assert_eq!(again.take_due(began + NEARLY_ALL_WRITTEN), [first]);
        assert_eq!(again.take_due(began + NEARLY_ALL_WRITTEN), []);
        assert_eq!(again.take_due(began + 2 * NEARLY_ALL_WRITTEN), [second]);
    }

    #[test]
    fn a_number_that_comes_late_is_heard_and_none_twice() {
        let now = Instant::now();
        let mut followed = Followed::default();
        assert_eq!(followed.take(read(&[0, 1, 3]), now), [[0], [1], [3]]);
        assert_eq!(followed.next, 2);
        assert!(followed.take(read(&[3]), now + WRITTEN_BY / 2).is_empty());
        assert_eq!(followed.take(read(&[2, 3, 4]), now + WRITTEN_BY / 2), [[2], [4]]);
        assert_eq!(followed, Followed { next: 5, ..Followed::default() });
    }

    #[test]
    fn a_number_that_never_comes_is_given_up_when_it_must_have_failed() {
        let now = Instant::now();
        let mut followed = Followed::default();
        assert_eq!(followed.take(read(&[1, 2, 5]), now).len(), 3);
        let early = now + WRITTEN_BY - Duration::from_millis(1);
        assert!(followed.take(read(&[1, 2, 5]), early).is_empty());
        assert_eq!(followed.next, 0);
        followed.take(BTreeMap::new(), now + WRITTEN_BY);
        assert_eq!(followed.next, 3, "the next gap has its own time");
        followed.take(BTreeMap::new(), now + 2 * WRITTEN_BY);
        assert_eq!(followed.next, 6);
    }
}
