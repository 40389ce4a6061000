//! Names that have lately shown that they belong to a domain whose members were chosen: when they
//! come again, strangers do not take their places. Nobody is here who has not proven it, and
//! whoever is here has to prove it again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_wire::Name;

/// These names, and when each proved it last.
#[derive(Debug, Default)]
pub(super) struct Lately(HashMap<Name, Instant>);

impl Lately {
    pub(super) fn note(&mut self, name: Name, now: Instant) {
        if self.0.len() >= MOST && !self.0.contains_key(&name) {
            let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(name, _)| *name);
            oldest.map(|name| self.0.remove(&name));
        }
        self.0.insert(name, now);
    }

    pub(super) fn has(&self, name: &Name, now: Instant) -> bool {
        self.0.get(name).is_some_and(|at| now.saturating_duration_since(*at) < LASTS)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// As many as can be connected.
const MOST: usize = 1024;
/// A machine that restarts, or a night.
const LASTS: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the first instant")]
    fn the_newest_are_kept_for_a_day() {
        let (mut lately, start) = (Lately::default(), Instant::now());
        let name = |n: usize| Name([[n as u8, (n >> 8) as u8]; 16].concat().try_into().unwrap());
        for n in 0..=MOST {
            lately.note(name(n), start + Duration::from_secs(n as u64));
        }
        let now = start + Duration::from_secs(MOST as u64);
        assert!(!lately.has(&name(0), now) && lately.has(&name(1), now));
        assert!(!lately.has(&name(1), now + LASTS));
        lately.clear();
        assert!(!lately.has(&name(2), now));
    }
}
