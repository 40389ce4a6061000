//! The largest data that fit all the way to a destination, learned from NACKs (GDP paper,
//! section 3.3): the counterpart of Path MTU Discovery. A lesson is forgotten after a while,
//! because paths grow: soon at first, since a router that has just connected learns within a round
//! trip or two what its path carries; each time that it turns out to hold still, after twice as
//! long, up to ten minutes (RFC 8201, section 4).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_wire::Name;

/// What has been learned of paths.
#[derive(Debug, Default)]
pub(crate) struct PathLimits {
    limits: HashMap<Name, Limit>,
}

#[derive(Debug)]
struct Limit {
    max_data_len: usize,
    learned_at: Instant,
    valid_for: Duration,
}

impl Limit {
    fn is_valid(&self, now: Instant) -> bool {
        now < self.learned_at + self.valid_for
    }
}

impl PathLimits {
    /// Learns that data to `destination` may be
    /// `max_data_len` bytes; says whether that is believed.
    pub(crate) fn learn(&mut self, destination: Name, max_data_len: u16, now: Instant) -> bool {
        let max_data_len = usize::from(max_data_len);
        if max_data_len < MIN_DATA_LEN {
            return false;
        }
        if self.limits.len() >= MAX_LIMITS && !self.limits.contains_key(&destination) {
            self.make_room(now);
        }
        let valid_for = match self.limits.get(&destination) {
            Some(known) if known.max_data_len != max_data_len => VALID_FOR_FIRST,
            // Of many PDUs under way each is refused: that is one lesson.
            Some(known) if known.is_valid(now) => return true,
            Some(known) => (known.valid_for * 2).min(VALID_FOR_LAST),
            None => VALID_FOR_FIRST,
        };
        self.limits.insert(destination, Limit { max_data_len, learned_at: now, valid_for });
        true
    }

    /// What was learned of the path to `destination`, if it is recent.
    pub(crate) fn max_data_len(&self, destination: &Name, now: Instant) -> Option<usize> {
        let limit = self.limits.get(destination)?;
        limit.is_valid(now).then_some(limit.max_data_len)
    }

    /// Forgets what is old, or else the oldest.
    fn make_room(&mut self, now: Instant) {
        self.limits.retain(|_, limit| limit.is_valid(now));
        if self.limits.len() >= MAX_LIMITS
            && let Some(oldest) =
                self.limits.iter().min_by_key(|(_, limit)| limit.learned_at).map(|(name, _)| *name)
        {
            self.limits.remove(&oldest);
        }
    }
}

/// Longer than the search of a router for the size of a path that tells it nothing.
const VALID_FOR_FIRST: Duration = Duration::from_secs(4);
/// As in RFC 8201.
const VALID_FOR_LAST: Duration = Duration::from_secs(600);
/// Less is of no use to a program: a faulty router must not bring a node down to crumbs.
const MIN_DATA_LEN: usize = 64;
/// About 100 KB when full.
const MAX_LIMITS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name([7; 32]);

    #[test]
    fn what_holds_still_is_believed_for_longer_and_what_changed_is_not() {
        let mut now = Instant::now();
        let mut limits = PathLimits::default();
        let mut valid_for = VALID_FOR_FIRST;
        for _ in 0..20 {
            for _ in 0..3 {
                assert!(limits.learn(NAME, 1000, now));
            }
            assert_eq!(
                limits.max_data_len(&NAME, now + valid_for - Duration::from_nanos(1)),
                Some(1000)
            );
            now += valid_for;
            assert_eq!(limits.max_data_len(&NAME, now), None);
            valid_for = (valid_for * 2).min(VALID_FOR_LAST);
        }
        assert_eq!(valid_for, VALID_FOR_LAST);
        for other in [1200, 900] {
            assert!(limits.learn(NAME, other, now));
            assert_eq!(limits.max_data_len(&NAME, now), Some(usize::from(other)), "at once");
            assert_eq!(limits.max_data_len(&NAME, now + VALID_FOR_FIRST), None);
        }
    }

    #[test]
    fn lessons_are_bounded_in_value_time_and_number() {
        let start = Instant::now();
        let mut limits = PathLimits::default();
        assert!(!limits.learn(NAME, MIN_DATA_LEN as u16 - 1, start));
        assert_eq!(limits.max_data_len(&NAME, start), None);
        assert!(limits.learn(NAME, MIN_DATA_LEN as u16, start));
        assert_eq!(limits.max_data_len(&NAME, start), Some(MIN_DATA_LEN));
        let later = start + VALID_FOR_FIRST;
        assert_eq!(limits.max_data_len(&NAME, later - Duration::from_nanos(1)), Some(64));
        assert_eq!(limits.max_data_len(&NAME, later), None);
        for n in 0..2 * MAX_LIMITS as u32 {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            limits.learn(Name(bytes), 1000, later + Duration::from_nanos(n.into()));
            assert!(limits.limits.len() <= MAX_LIMITS);
        }
    }
}
