//! How a RIB has behaved: faults that were proven against it, and for how long it is asked last.
//!
//! Whoever runs replicas of a directory need not be trusted: what one of them did wrong is counted
//! here by kind, shown in `status`, and makes it the last to be asked for a while, and longer for
//! each further time.
//!
//! INVARIANT: only what `words` or `logs` has proven, or an answer with a bad signature, enters:
//! neither a stranger nor a name's holder can bring it about. What is slow or behind is no fault.

use std::fmt;
use std::time::{Duration, Instant};

/// What a RIB did that no honest one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It answered what does not verify, or about something else.
    Forged,
    /// It served an older statement than it had shown, or had said that it stored.
    Stale,
    /// It denied a name whose statement it said that it stored, before and after.
    Withheld,
    /// It denied what it had itself shown, before and after.
    Contradicted,
    /// It showed, before and after, what its log did not say in between.
    Unlogged,
    /// It signed heads of its log that do not follow each other.
    Forked,
}

impl Fault {
    /// All of them, in the order of their counts.
    pub const ALL: [Self; 6] = [
        Self::Forged,
        Self::Stale,
        Self::Withheld,
        Self::Contradicted,
        Self::Unlogged,
        Self::Forked,
    ];

    /// Its label in status and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forged => "forged",
            Self::Stale => "stale",
            Self::Withheld => "withheld",
            Self::Contradicted => "contradicted",
            Self::Unlogged => "unlogged",
            Self::Forked => "forked",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forged => "it answered what nobody has signed, or about something else",
            Self::Stale => "it served an older statement than it had stored",
            Self::Withheld => "it denied a name whose statement it said it had stored",
            Self::Contradicted => "it denied a name that it had shown",
            Self::Unlogged => "it showed what its own log does not say",
            Self::Forked => "it signed two histories: it tells one this and another one that",
        })
    }
}

/// What is on record about one RIB.
#[derive(Debug, Clone, Default)]
pub struct Conduct {
    times: [u64; Fault::ALL.len()],
    last: Option<(Fault, Instant)>,
    suspected_until: Option<Instant>,
    /// Of faults, since it was above suspicion for as long as the last suspicion lasted.
    repeats: u32,
    is_told: bool,
    behind: u64,
    unanswered: u64,
}

/// Why a RIB is asked last, and for how much longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspicion {
    /// The last fault.
    pub fault: Fault,
    /// How long ago that was.
    pub ago: Duration,
    /// Until it is asked as others are.
    pub left: Duration,
}

impl Conduct {
    /// How often a fault was proven.
    pub fn times(&self, fault: Fault) -> u64 {
        self.times[fault as usize]
    }

    /// How often it did not have what another RIB had, and took it over when it was shown that.
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// How many rounds of a question ended without its answer.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Why it is asked last now, if it is.
    pub fn suspicion(&self, now: Instant) -> Option<Suspicion> {
        let left = self.suspected_until?.checked_duration_since(now).filter(|it| !it.is_zero())?;
        let (fault, at) = self.last?;
        Some(Suspicion { fault, ago: now.saturating_duration_since(at), left })
    }

    pub(super) fn note(&mut self, fault: Fault, now: Instant) {
        self.times[fault as usize] += 1;
        if self.suspicion(now).is_none_or(|it| it.fault != fault) {
            self.is_told = false;
        }
        // Whoever was above suspicion for as long as it lasted begins anew.
        let forgiven = |until: Instant| until + suspected_for(self.repeats) <= now;
        if self.suspected_until.is_some_and(forgiven) {
            self.repeats = 0;
        }
        self.repeats = (self.repeats + 1).min(MAX_REPEATS);
        self.suspected_until = Some(now + suspected_for(self.repeats));
        self.last = Some((fault, now));
    }

    pub(super) fn note_behind(&mut self) {
        self.behind += 1;
    }

    pub(super) fn note_unanswered(&mut self) {
        self.unanswered += 1;
    }

    /// The fault that was not told of yet: once while the suspicion of it lasts.
    pub(super) fn take_news(&mut self) -> Option<Fault> {
        let (fault, _) = self.last.filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(fault)
    }
}

/// Doubled with each fault: once is ten minutes, a lease of everything that it served; eight times
/// are a day.
fn suspected_for(repeats: u32) -> Duration {
    SUSPECTED_FOR * 2u32.pow(repeats.saturating_sub(1))
}

const SUSPECTED_FOR: Duration = Duration::from_secs(600);
const MAX_REPEATS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn suspicion_ends_lasts_longer_for_who_goes_on_and_begins_anew_for_who_was_good() {
        let start = Instant::now();
        let mut conduct = Conduct::default();
        assert_eq!((conduct.suspicion(start), conduct.take_news()), (None, None));
        conduct.note(Fault::Stale, start);
        assert_eq!((conduct.take_news(), conduct.take_news()), (Some(Fault::Stale), None));
        assert!(conduct.suspicion(start + SUSPECTED_FOR - Duration::from_secs(1)).is_some());
        let ended = start + SUSPECTED_FOR;
        assert_eq!(conduct.suspicion(ended), None);
        // The same fault soon after: news again, and twice as long.
        conduct.note(Fault::Stale, ended);
        assert_eq!(conduct.take_news(), Some(Fault::Stale));
        assert_eq!(conduct.suspicion(ended).map(|it| it.left), Some(2 * SUSPECTED_FOR));
        conduct.note(Fault::Stale, ended);
        assert_eq!(conduct.take_news(), None, "the same suspicion");
        conduct.note(Fault::Forged, ended);
        assert_eq!(conduct.take_news(), Some(Fault::Forged));
        // Long after, it is as if it were the first.
        let late = ended + 100 * SUSPECTED_FOR;
        conduct.note(Fault::Stale, late);
        assert_eq!(conduct.suspicion(late).map(|it| it.left), Some(SUSPECTED_FOR));
        assert_eq!((conduct.times(Fault::Stale), conduct.times(Fault::Forged)), (4, 1));
        (0..100).for_each(|_| conduct.note(Fault::Stale, late));
        let longest = SUSPECTED_FOR * 2u32.pow(MAX_REPEATS - 1);
        assert_eq!(conduct.suspicion(late).map(|it| it.left), Some(longest));
    }
}
