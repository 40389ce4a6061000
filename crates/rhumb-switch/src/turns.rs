//! Whose turn it is: public-key work that waits, shared out by who pays for it.
//!
//! 1. Four kinds take turns: answers to our own questions, sessions that are admitted, strangers,
//!    and strangers of whose sources work was refused lately, which have one turn in ten. A kind
//!    that has nothing to do leaves its turn to the next.
//! 2. Within a kind, those who pay take turns: each session
//!    that is admitted, each source of strangers.
//! 3. Within a source, a session of which nothing was
//!    refused goes before one of which something was.
//! 4. When the room of a kind is full, whoever has most
//!    waiting loses the last of it to whoever has less.
//!
//! INVARIANT: what waits of each kind is bounded. Before the first work of somebody
//! who has nothing waiting yet, each other one of its kind has one turn at most,
//! and the other kinds as many as [`ROUND`] says.

use std::collections::{HashMap, VecDeque};

use foldhash::quality::RandomState;
use rhumb_directory::Fill;
use rhumb_link::{SessionId, Source};

/// Who pays for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// We asked for it.
    Ourselves,
    /// A session that is admitted.
    Admitted(SessionId),
    /// A host of strangers.
    Stranger {
        source: Source,
        /// Work for this source was refused lately.
        is_suspect: bool,
        /// Something was refused of this very session.
        was_refused: bool,
    },
}

/// Work that waits.
pub(crate) struct Turns<J> {
    own: Circle<(), J>,
    admitted: Circle<SessionId, J>,
    strangers: Circle<Source, J>,
    suspects: Circle<Source, J>,
    /// The next place in [`ROUND`].
    next: usize,
}

/// What became of work that was brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pushed<J> {
    /// It waits.
    Taken,
    /// It waits, and this does not any more.
    InsteadOf(J),
    /// There is no room for it.
    Full,
}

/// Those who take turns within a kind.
struct Circle<K, J> {
    waiting: HashMap<K, Waiting<J>, RandomState>,
    turns: VecDeque<K>,
    len: usize,
    bound: usize,
    /// Of one who pays.
    share: usize,
}

/// What waits of one who pays.
struct Waiting<J> {
    first: VecDeque<J>,
    /// Of sessions of which something was refused.
    last: VecDeque<J>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Own,
    Admitted,
    Strangers,
    Suspects,
}

impl<J> Turns<J> {
    pub(crate) fn new() -> Self {
        Self {
            own: Circle::new(MAX_OWN, MAX_OWN),
            admitted: Circle::new(MAX_ADMITTED, MAX_OF_A_SESSION),
            strangers: Circle::new(MAX_STRANGERS, MAX_OF_A_SOURCE),
            suspects: Circle::new(MAX_SUSPECTS, MAX_OF_A_SOURCE),
            next: 0,
        }
    }

    pub(crate) fn push(&mut self, payer: Payer, job: J) -> Pushed<J> {
        match payer {
            Payer::Ourselves => self.own.push((), job, true),
            Payer::Admitted(session) => self.admitted.push(session, job, true),
            Payer::Stranger { source, is_suspect: false, was_refused } => {
                self.strangers.push(source, job, !was_refused)
            }
            Payer::Stranger { source, was_refused, .. } => {
                self.suspects.push(source, job, !was_refused)
            }
        }
    }

    /// The next. Work: one step for each kind.
    pub(crate) fn pop(&mut self) -> Option<J> {
        for _ in 0..ROUND.len() {
            let kind = ROUND[self.next];
            self.next = (self.next + 1) % ROUND.len();
            let job = match kind {
                Kind::Own => self.own.pop(),
                Kind::Admitted => self.admitted.pop(),
                Kind::Strangers => self.strangers.pop(),
                Kind::Suspects => self.suspects.pop(),
            };
            if job.is_some() {
                return job;
            }
        }
        None
    }

    pub(crate) fn fill(&self) -> Fill {
        let mut fill = Fill { used: self.own.len, bound: self.own.bound };
        fill += Fill { used: self.admitted.len, bound: self.admitted.bound };
        fill += Fill { used: self.strangers.len, bound: self.strangers.bound };
        fill += Fill { used: self.suspects.len, bound: self.suspects.bound };
        fill
    }
}

impl<K: Copy + Eq + std::hash::Hash, J> Circle<K, J> {
    fn new(bound: usize, share: usize) -> Self {
        let (waiting, turns) = (HashMap::default(), VecDeque::new());
        Self { waiting, turns, len: 0, bound, share }
    }

    fn push(&mut self, key: K, job: J, goes_first: bool) -> Pushed<J> {
        let own = self.waiting.get(&key).map_or(0, Waiting::len);
        if own >= self.share {
            return Pushed::Full;
        }
        let mut outcome = Pushed::Taken;
        if self.len >= self.bound {
            match self.take_from_longest(own) {
                Some(lost) => outcome = Pushed::InsteadOf(lost),
                None => return Pushed::Full,
            }
        }
        let turns = &mut self.turns;
        let waiting = self.waiting.entry(key).or_insert_with(|| {
            turns.push_back(key);
            Waiting { first: VecDeque::new(), last: VecDeque::new() }
        });
        match goes_first {
            true => waiting.first.push_back(job),
            false => waiting.last.push_back(job),
        }
        self.len += 1;
        outcome
    }

    fn pop(&mut self) -> Option<J> {
        let key = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&key)?;
        let job = waiting.first.pop_front().or_else(|| waiting.last.pop_front());
        match waiting.len() {
            0 => drop(self.waiting.remove(&key)),
            _ => self.turns.push_back(key),
        }
        self.len -= usize::from(job.is_some());
        job
    }

    /// The last work of whoever has most waiting, if that is
    /// more than what the newcomer has and brings.
    fn take_from_longest(&mut self, newcomer: usize) -> Option<J> {
        let (key, len) =
            self.waiting.iter().map(|(key, it)| (*key, it.len())).max_by_key(|(_, len)| *len)?;
        if len <= newcomer + 1 {
            return None;
        }
        let waiting = self.waiting.get_mut(&key)?;
        let job = waiting.last.pop_back().or_else(|| waiting.first.pop_back());
        self.len -= usize::from(job.is_some());
        job
    }
}

impl<J> Waiting<J> {
    fn len(&self) -> usize {
        self.first.len() + self.last.len()
    }
}

/// In which order the kinds have their turns.
const ROUND: [Kind; 10] = [
    Kind::Own,
    Kind::Admitted,
    Kind::Strangers,
    Kind::Own,
    Kind::Admitted,
    Kind::Strangers,
    Kind::Own,
    Kind::Admitted,
    Kind::Strangers,
    Kind::Suspects,
];
/// Verifications that wait, of all kinds 352: at 0.3 ms each, 100 ms
/// of work. Beyond, PDUs are told to come back.
const MAX_OWN: usize = 96;
const MAX_ADMITTED: usize = 128;
const MAX_STRANGERS: usize = 96;
const MAX_SUSPECTS: usize = 32;
/// One session's share of those that are admitted: a
/// router that many nodes begin their flows through.
const MAX_OF_A_SESSION: usize = 32;
/// One source's share of strangers'.
const MAX_OF_A_SOURCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(source: u32, is_suspect: bool, was_refused: bool) -> Payer {
        Payer::Stranger { source: Source::V4(source.to_be_bytes()), is_suspect, was_refused }
    }

    /// How much is done before `job`.
    fn done_before(turns: &mut Turns<u32>, job: u32) -> usize {
        std::iter::from_fn(|| turns.pop()).position(|next| next == job).expect("it has its turn")
    }

    const HONEST: u32 = u32::MAX;

    #[test]
    fn what_one_source_brings_delays_others_by_one_however_much_it_is() {
        for sessions in [1, 40, 4000] {
            let mut turns = Turns::new();
            for session in 0..sessions {
                turns.push(stranger(1, false, false), session);
                turns.push(stranger(1, true, true), session);
            }
            assert!(turns.fill().used <= 2 * MAX_OF_A_SOURCE);
            assert_eq!(turns.push(stranger(2, false, false), HONEST), Pushed::Taken);
            assert!(done_before(&mut turns, HONEST) <= 2, "{sessions}");
        }
    }

    #[test]
    fn sources_of_which_something_was_refused_delay_others_by_one_in_ten() {
        let mut turns = Turns::new();
        for source in 0..4000 {
            turns.push(stranger(source, true, true), source);
        }
        for number in 0..20 {
            turns.push(stranger(5000 + number, false, false), 10_000 + number);
        }
        let done: Vec<u32> = (0..22).filter_map(|_| turns.pop()).collect();
        let refused = done.iter().filter(|job| **job < 10_000).count();
        assert!(refused <= 20 / 3 + 1, "{refused} of {done:?}");
    }

    #[test]
    fn a_session_of_which_nothing_was_refused_goes_before_others_of_its_source() {
        let mut turns = Turns::new();
        for number in 0..MAX_OF_A_SOURCE as u32 - 1 {
            turns.push(stranger(1, true, true), number);
        }
        assert_eq!(turns.push(stranger(1, true, false), HONEST), Pushed::Taken);
        assert_eq!(done_before(&mut turns, HONEST), 0);
    }

    #[test]
    fn a_newcomer_takes_room_from_whoever_has_most_and_the_bound_holds() {
        let mut turns = Turns::new();
        for number in 0..4000 {
            turns.push(stranger(number % 4, false, false), number);
        }
        assert_eq!(turns.fill().used, MAX_STRANGERS);
        for source in 10..10 + MAX_STRANGERS as u32 - 4 {
            assert!(matches!(
                turns.push(stranger(source, false, false), source),
                Pushed::InsteadOf(_)
            ));
        }
        assert_eq!(turns.fill().used, MAX_STRANGERS);
        assert_eq!(turns.push(stranger(5000, false, false), 1), Pushed::Full);
        assert_eq!(turns.push(Payer::Ourselves, HONEST), Pushed::Taken);
        assert!(done_before(&mut turns, HONEST) <= 1);
    }
}
