//! Where sessions come from: how many strangers at each source
//! have, and where somebody was who is admitted.
//!
//! Names cost nothing and addresses do, so sessions that strangers began are counted by source. Who
//! is admitted counts nowhere, and neither does whom we connected to ourselves.

use std::collections::HashMap;
use std::time::Instant;

use crate::{SessionId, Source};

/// Sessions of strangers by source, and sources of those who are admitted.
#[derive(Default)]
pub(crate) struct Census {
    source_of: HashMap<SessionId, Source>,
    strangers_at: HashMap<Source, usize>,
    /// When somebody admitted was last seen to be there.
    known: HashMap<Source, Instant>,
}

impl Census {
    /// Counts a stranger's session, once, where it came from first.
    pub(crate) fn enter(&mut self, session: SessionId, source: Source) {
        self.source_of.entry(session).or_insert_with(|| {
            *self.strangers_at.entry(source).or_default() += 1;
            source
        });
    }

    /// Counts it no longer, if it was counted.
    pub(crate) fn leave(&mut self, session: SessionId) {
        let Some(source) = self.source_of.remove(&session) else { return };
        if let Some(count) = self.strangers_at.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.strangers_at.remove(&source);
            }
        }
    }

    /// Sessions of strangers.
    pub(crate) fn strangers(&self) -> usize {
        self.source_of.len()
    }

    /// Those of one source.
    pub(crate) fn strangers_at(&self, source: Source) -> usize {
        self.strangers_at.get(&source).copied().unwrap_or(0)
    }

    /// The most that one source has.
    pub(crate) fn most_at_one(&self) -> usize {
        self.strangers_at.values().copied().max().unwrap_or(0)
    }

    /// Somebody who is admitted is there.
    pub(crate) fn know(&mut self, source: Source, now: Instant) {
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&source) {
            let oldest = self.known.iter().min_by_key(|(_, at)| **at).map(|(source, _)| *source);
            oldest.map(|source| self.known.remove(&source));
        }
        self.known.insert(source, now);
    }

    /// Whether somebody who is admitted was there lately.
    pub(crate) fn is_known(&self, source: Source) -> bool {
        self.known.contains_key(&source)
    }
}

/// Sources that are known. Only who is admitted can push one out.
const MAX_KNOWN: usize = 4096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::slots::Slots;

    fn source(n: u32) -> Source {
        Source::V4(n.to_be_bytes())
    }

    #[test]
    fn each_session_counts_once_and_where_it_came_from() {
        let (mut census, mut slots) = (Census::default(), Slots::new());
        let sessions: Vec<_> = (0..3).map(|_| SessionId(slots.insert(()))).collect();
        census.enter(sessions[0], source(1));
        census.enter(sessions[0], source(2));
        census.enter(sessions[1], source(1));
        census.enter(sessions[2], source(2));
        assert_eq!((census.strangers(), census.most_at_one()), (3, 2));
        census.leave(sessions[1]);
        census.leave(sessions[1]);
        assert_eq!((census.strangers_at(source(1)), census.strangers_at(source(2))), (1, 1));
        census.leave(sessions[0]);
        assert_eq!(census.strangers_at.len(), 1);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn the_known_are_bounded_and_the_oldest_goes() {
        let (mut census, now) = (Census::default(), Instant::now());
        for n in 0..=MAX_KNOWN as u32 {
            census.know(source(n), now + Duration::from_secs(n.into()));
        }
        assert!(!census.is_known(source(0)) && census.is_known(source(1)));
        assert_eq!(census.known.len(), MAX_KNOWN);
    }
}
