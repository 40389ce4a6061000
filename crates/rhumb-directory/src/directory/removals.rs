//! Who was removed from domains, as each RIB tells it.
//!
//! 1. Whoever judges by memberships wants to hear of removals: [`Directory::want_removals`].
//! 2. When a session with a RIB begins, it is asked for those behind the mark up to which it has
//!    told, until it answers; when what it told is verified, it is asked on, until there are none.
//! 3. From then on it tells of each new one unasked, and is asked on. In case that it gave up, or
//!    withholds what others tell, each RIB is asked once a minute anyway.
//! 4. A RIB of whose removals not all were believed is asked for everything at the next time: a
//!    clock may have been wrong.
//!
//! INVARIANT: no RIB is asked more in a minute than it takes to hear all that a register holds, and
//! one that tells what is not believed, far less.

use std::time::{Duration, Instant};

use rhumb_link::SessionId;
use rhumb_wire::rib::{Mark, RequestId, RibRequestBody};

use super::{Directory, Question};

pub(super) struct Walks {
    is_wanted: bool,
    by_replica: Vec<Walk>,
}

/// How far one RIB has told.
#[derive(Default, Clone)]
struct Walk {
    mark: Mark,
    /// When to ask in this session.
    due: Option<Instant>,
    /// In vain, in a row.
    tries: u32,
    is_doubtful: bool,
    /// What it has cost since it was waited for last.
    spent: u32,
}

impl Walks {
    pub(super) fn new(replicas: usize) -> Self {
        Self { is_wanted: false, by_replica: vec![Walk::default(); replicas] }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.by_replica.iter().filter_map(|walk| walk.due).min()
    }

    /// The session with a RIB ended: it is asked again in the next.
    pub(super) fn closed(&mut self, replica: usize) {
        let walk = &mut self.by_replica[replica];
        (walk.due, walk.tries) = (None, 0);
    }
}

impl Directory {
    /// Has RIBs tell of removals from now on.
    pub fn want_removals(&mut self, now: Instant) {
        if std::mem::replace(&mut self.walks.is_wanted, true) {
            return;
        }
        for replica in 0..self.replicas.len() {
            self.begin_walk(replica, now);
        }
    }

    /// Has RIBs tell everything once more: removals count now that did not matter before.
    pub fn want_removals_anew(&mut self, now: Instant) {
        self.walks.is_wanted = true;
        for replica in 0..self.replicas.len() {
            self.walks.by_replica[replica].mark = Mark::default();
            self.begin_walk(replica, now);
        }
    }

    /// There may be a session with a RIB now.
    pub(super) fn begin_walk(&mut self, replica: usize, now: Instant) {
        if self.walks.is_wanted && self.replicas[replica].session().is_some() {
            self.ask_removals(replica, now);
        }
    }

    fn ask_removals(&mut self, replica: usize, now: Instant) {
        let walk = &mut self.walks.by_replica[replica];
        walk.due = Some(now + REPEAT_AFTER * 2u32.pow(walk.tries.min(MAX_DOUBLINGS)));
        walk.tries += 1;
        let body = RibRequestBody::Removals(walk.mark);
        self.send(replica, Question::Removals(replica), body, now);
    }

    pub(super) fn ask_removals_again(&mut self, now: Instant) {
        for replica in 0..self.walks.by_replica.len() {
            if self.walks.by_replica[replica].due.is_some_and(|due| due <= now) {
                self.ask_removals(replica, now);
            }
        }
    }

    /// The RIB at the other end of a session has told removals as far as this mark, which were
    /// looked at: whether there were any, and all of them are believed.
    pub fn removals_told(
        &mut self,
        session: SessionId,
        to: Mark,
        (were_any, all_believed): (bool, bool),
        now: Instant,
    ) {
        let Some(replica) = self.replica_of(session).filter(|_| self.walks.is_wanted) else {
            return;
        };
        let walk = &mut self.walks.by_replica[replica];
        walk.is_doubtful |= !all_believed;
        let goes_on = were_any && walk.mark != to;
        walk.spent += if all_believed { 1 } else { COST_OF_DOUBT };
        (walk.mark, walk.tries) = (to, 0);
        if goes_on && walk.spent <= MOST_IN_A_MINUTE {
            return self.ask_removals(replica, now);
        }
        if std::mem::take(&mut walk.is_doubtful) {
            walk.mark = Mark::default();
        }
        walk.spent = 0;
        walk.due = Some(now + ASK_AGAIN_AFTER);
    }

    /// Whether the response of this identifier answers a question for removals in this session.
    pub fn has_asked_removals(&self, id: RequestId, session: SessionId) -> bool {
        self.requests.get(&id).is_some_and(|request| {
            request.session == session && matches!(request.question, Question::Removals(_))
        })
    }

    /// What was told may be needed once more: all RIBs are asked for everything at the next time.
    pub fn doubt_removals(&mut self) {
        self.walks.by_replica.iter_mut().for_each(|walk| walk.is_doubtful = true);
    }

    /// A RIB cannot tell of removals: perhaps it is of an earlier version.
    pub fn removals_refused(&mut self, replica: usize, now: Instant) {
        if let Some(walk) = self.walks.by_replica.get_mut(replica) {
            walk.due = Some(now + ASK_AGAIN_AFTER);
        }
    }

    fn replica_of(&self, session: SessionId) -> Option<usize> {
        self.replicas.iter().position(|rib| rib.session() == Some(session))
    }
}

/// As long as an answer may take on a bad day.
const REPEAT_AFTER: Duration = Duration::from_millis(500);
const MAX_DOUBLINGS: u32 = 4;
/// Answers in a row after which a RIB is left alone for a minute: as many removals as are kept.
const MOST_IN_A_MINUTE: u32 = 1 << 14;
/// One that tells what is not believed is asked 256 times.
const COST_OF_DOUBT: u32 = 1 << 6;
/// Of a thousand routers a RIB hears 17 questions in a second.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
