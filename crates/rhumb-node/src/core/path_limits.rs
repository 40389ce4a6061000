//! The largest data that fit all the way to a destination, learned from NACKs (GDP paper, section 3.3): the counterpart
//! of Path MTU Discovery, and as there a lesson is forgotten after ten minutes (RFC 8201, section 4).

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
}

impl PathLimits {
    /// Learns that data to `destination` may be `max_data_len` bytes; says whether that is believed.
    pub(crate) fn learn(&mut self, destination: Name, max_data_len: u16, now: Instant) -> bool {
        let max_data_len = usize::from(max_data_len);
        if max_data_len < MIN_DATA_LEN {
            return false;
        }
        if self.limits.len() >= MAX_LIMITS && !self.limits.contains_key(&destination) {
            self.make_room(now);
        }
        self.limits.insert(destination, Limit { max_data_len, learned_at: now });
        true
    }

    /// What was learned of the path to `destination`, if it is recent.
    pub(crate) fn max_data_len(&self, destination: &Name, now: Instant) -> Option<usize> {
        let limit = self.limits.get(destination)?;
        (now < limit.learned_at + VALID_FOR).then_some(limit.max_data_len)
    }

    /// Forgets what is old, or else the oldest.
    fn make_room(&mut self, now: Instant) {
        self.limits.retain(|_, limit| now < limit.learned_at + VALID_FOR);
        if self.limits.len() >= MAX_LIMITS
            && let Some(oldest) =
                self.limits.iter().min_by_key(|(_, limit)| limit.learned_at).map(|(name, _)| *name)
        {
            self.limits.remove(&oldest);
        }
    }
}

/// As in RFC 8201: paths change.
const VALID_FOR: Duration = Duration::from_secs(600);
/// Less is of no use to a program: a faulty router must not bring a node down to crumbs.
const MIN_DATA_LEN: usize = 64;
/// About 100 KB when full.
const MAX_LIMITS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name([7; 32]);

    #[test]
    fn lessons_are_bounded_in_value_time_and_number() {
        let start = Instant::now();
        let mut limits = PathLimits::default();
        assert!(!limits.learn(NAME, MIN_DATA_LEN as u16 - 1, start));
        assert_eq!(limits.max_data_len(&NAME, start), None);
        assert!(limits.learn(NAME, MIN_DATA_LEN as u16, start));
        assert_eq!(limits.max_data_len(&NAME, start), Some(MIN_DATA_LEN));
        let later = start + VALID_FOR;
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
