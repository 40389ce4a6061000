//! Public-key work that others cause: who may cause how much, and what need not be done twice.
//!
//! Sessions that are admitted pay for themselves, all others by where they come from, because names
//! cost nothing: whose turn it is, `turns` says. A source of which work is refused has fewer turns
//! for a while, and a chain that was refused is known when it comes again.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use rhumb_directory::Fill;
use rhumb_link::{Rate, SessionId, Source, TokenBucket, TokenBuckets};
use rhumb_trust::{Now, Standing};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Name, Pdu};

use crate::job::{HeldPdu, Job, Task};
use crate::saved::Import;
use crate::turns::{Payer, Pushed, Turns};
use crate::{DropReason, Switch};

/// Work that waits or is under way, and what is known of who causes it.
pub(crate) struct Jobs {
    turns: Turns<Job>,
    under_way: usize,
    /// Sources whose chain is being verified, by the session
    /// it came in on: one verification at a time.
    admitting: HashSet<(Name, SessionId)>,
    /// Chains of an earlier run that are still to be verified.
    imports: VecDeque<Import>,
    /// Whether what was handed out last was a step of a handshake.
    was_handshake: bool,
    /// Work of each source that may be refused before it has fewer turns.
    patience: TokenBuckets,
    /// Work of sessions of which something was refused, at sources without patience left.
    doubtful: TokenBucket,
    refused: RefusedChains,
    /// How long work took of late, from when it was brought to when it was done.
    time: Option<Duration>,
}

impl Jobs {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            turns: Turns::new(),
            under_way: 0,
            admitting: HashSet::new(),
            imports: VecDeque::new(),
            was_handshake: false,
            patience: TokenBuckets::new(PATIENCE, now),
            doubtful: TokenBucket::new(DOUBTFUL, now),
            refused: RefusedChains::default(),
            time: None,
        }
    }

    /// Whether a chain of a source that came in on a session is being verified.
    pub(crate) fn is_admitting(&self, source: Name, session: SessionId) -> bool {
        self.admitting.contains(&(source, session))
    }

    /// A chain of a source that came in on a session is being verified from now on.
    pub(crate) fn note_admitting(&mut self, source: Name, session: SessionId) {
        self.admitting.insert((source, session));
    }

    /// The verification of a chain is over, or given up.
    pub(crate) fn end_admitting(&mut self, source: Name, session: SessionId) {
        self.admitting.remove(&(source, session));
    }

    /// Chains of an earlier run are to be verified when no other work waits.
    pub(crate) fn import(&mut self, chains: impl Iterator<Item = Import>) {
        self.imports.extend(chains);
    }

    /// Those that are still to be verified.
    pub(crate) fn imports(&self) -> impl Iterator<Item = &Import> {
        self.imports.iter()
    }

    /// The next of them, if there is time for it.
    pub(crate) fn take_import(&mut self) -> Option<Import> {
        (self.under_way < MAX_IMPORTS_AT_ONCE).then(|| self.imports.pop_front()).flatten()
    }

    /// Work that waits.
    pub(crate) fn fill(&self) -> Fill {
        self.turns.fill()
    }

    /// How long work took of late.
    pub(crate) fn time(&self) -> Duration {
        self.time.unwrap_or_default()
    }

    /// Work was done that was brought so long ago.
    fn note_time(&mut self, time: Duration) {
        self.time = Some(self.time.map_or(time, |smoothed| (smoothed * 7 + time) / 8));
    }
}

impl Switch {
    /// The next piece of public-key work, a verification or a step of a handshake that somebody
    /// else begins, to be run off this thread. No more is handed out at once than keeps a few
    /// threads busy: what waits here waits in the order of turns, what waits elsewhere does not.
    pub fn poll_job(&mut self) -> Option<Job> {
        if self.jobs.under_way >= MAX_UNDER_WAY {
            return None;
        }
        // One by one, if there are both: handshakes are few, since the link bounds their rates.
        let job = match self.jobs.was_handshake {
            true => self.next_verification().or_else(|| self.next_handshake()),
            false => self.next_handshake().or_else(|| self.next_verification()),
        };
        let job = job.or_else(|| self.next_import())?;
        self.jobs.was_handshake = matches!(job.task, Task::Handshake(_));
        self.jobs.under_way += 1;
        Some(job)
    }

    fn next_verification(&mut self) -> Option<Job> {
        self.jobs.turns.pop()
    }

    fn next_handshake(&mut self) -> Option<Job> {
        let task = Task::Handshake(self.plane.link_mut().poll_handshake_job()?);
        Some(Job { task, now_s: 0, brought_at: None })
    }

    /// Whether what a session brings is looked at at all: where much was refused, only so much of
    /// it is in a second, of all such sessions together. Costs less than to read it.
    pub(crate) fn is_listened_to(&mut self, session: SessionId, now: Now) -> bool {
        match self.payer(session, now) {
            Payer::Stranger { is_suspect: true, was_refused: true, .. } => {
                self.jobs.doubtful.take(1, now.instant)
            }
            _ => true,
        }
    }

    /// Has a task done, if there is room for it among those of whoever causes it: `session`, or we
    /// ourselves. Whether there is.
    pub(crate) fn queue_job(&mut self, session: Option<SessionId>, task: Task, now: Now) -> bool {
        let payer = match session {
            Some(session) => self.payer(session, now),
            None => Payer::Ourselves,
        };
        let job = Job { task, now_s: now.unix_s(), brought_at: Some(now.instant) };
        match self.jobs.turns.push(payer, job) {
            Pushed::Taken => true,
            Pushed::InsteadOf(lost) => {
                self.give_up(lost, now);
                true
            }
            Pushed::Full => false,
        }
    }

    fn payer(&mut self, session: SessionId, now: Now) -> Payer {
        let neighbour = self.neighbour(session, now);
        let was_refused = neighbour.was_refused;
        if neighbour.standing == Standing::Admitted {
            return Payer::Admitted(session);
        }
        match self.source_of(session) {
            Some(source) => {
                let is_suspect = !self.jobs.patience.has(source, 1, now.instant);
                Payer::Stranger { source, is_suspect, was_refused }
            }
            None => Payer::Ourselves,
        }
    }

    /// Where a session's peer is, by its own proof.
    pub(crate) fn source_of(&self, session: SessionId) -> Option<Source> {
        self.plane.peer(session).map(|peer| Source::of(peer.address))
    }

    /// Work that waited has to make room for others'.
    fn give_up(&mut self, job: Job, now: Now) {
        let (Task::Admit { request, .. }
        | Task::Withdrawal { request, .. }
        | Task::Join { request, .. }
        | Task::Expel { request, .. }) = job.task
        else {
            return self.plane.drop_pdu(DropReason::Overloaded);
        };
        let HeldPdu { session, pdu } = request;
        let Ok(pdu) = Pdu::parse(&pdu) else { return };
        self.jobs.end_admitting(pdu.source(), session);
        self.plane.drop_pdu(DropReason::Overloaded);
        let reason = Reason::Overloaded(RETRY_WHEN_BUSY_MS);
        self.send_nack(session, pdu.header(), Nack { reason, reporter: Some(self.name()) }, now);
    }

    /// A job is done that was brought at this time.
    pub(crate) fn note_done(&mut self, brought_at: Option<Instant>, now: Now) {
        self.jobs.under_way = self.jobs.under_way.saturating_sub(1);
        if let Some(brought_at) = brought_at {
            self.jobs.note_time(now.instant.saturating_duration_since(brought_at));
        }
    }

    /// A session brought something whose signatures are not what they should be.
    pub(crate) fn note_forged(&mut self, session: SessionId, now: Now) {
        let Some(source) = self.source_of(session) else { return };
        self.neighbour(session, now).was_refused = true;
        self.jobs.patience.take(source, 1, now.instant);
    }

    /// This chain was refused, for a reason that does not pass.
    pub(crate) fn note_refused_chain(&mut self, fingerprint: [u8; 32]) {
        self.jobs.refused.insert(fingerprint);
    }

    /// Whether a chain is one that was refused lately.
    /// `fingerprint` is asked for only if there are any.
    pub(crate) fn was_chain_refused(&self, fingerprint: impl FnOnce() -> [u8; 32]) -> bool {
        let refused = &self.jobs.refused;
        !refused.is_empty() && refused.contains(&fingerprint())
    }
}

/// Chains that were refused, in two generations: the older one goes when the newer one is full.
#[derive(Debug, Default)]
struct RefusedChains {
    newer: HashSet<[u8; 32], RandomState>,
    older: HashSet<[u8; 32], RandomState>,
}

impl RefusedChains {
    fn is_empty(&self) -> bool {
        self.newer.is_empty() && self.older.is_empty()
    }

    fn contains(&self, fingerprint: &[u8; 32]) -> bool {
        self.newer.contains(fingerprint) || self.older.contains(fingerprint)
    }

    fn insert(&mut self, fingerprint: [u8; 32]) {
        if self.newer.len() >= MAX_REFUSED {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(fingerprint);
    }
}

/// When to ask again who was too busy: long enough to matter to whoever is short of something.
pub(crate) const RETRY_WHEN_BUSY_MS: u16 = 200;
/// At 0.3 ms each, 5 ms of one thread's work: enough that
/// threads have work until they are given more.
const MAX_UNDER_WAY: usize = 16;
/// Few, so that work that somebody waits for never waits long for it.
const MAX_IMPORTS_AT_ONCE: usize = 8;
/// A damaged key file or a mistake causes a few; a source that causes
/// more is not honest, or not for the next seconds.
const PATIENCE: Rate = Rate { per_s: 1, burst: 4 };
/// Three per cent of a core: enough for who repeats a mistake and then mends it.
const DOUBTFUL: Rate = Rate { per_s: 200, burst: 32 };
/// In each generation: 400 KB in all.
const MAX_REFUSED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_chains_are_known_for_a_while_and_their_number_is_bounded() {
        let mut refused = RefusedChains::default();
        let fingerprint = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            bytes
        };
        for number in 0..100_000 {
            refused.insert(fingerprint(number));
            let oldest = number.saturating_sub(MAX_REFUSED - 1);
            assert!(refused.contains(&fingerprint(oldest)));
        }
        assert!(!refused.contains(&fingerprint(0)));
        assert!(refused.newer.len() + refused.older.len() <= 2 * MAX_REFUSED);
    }
}
