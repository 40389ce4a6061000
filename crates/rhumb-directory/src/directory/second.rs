//! How often something is done in a second, of which there may be so much.

use std::time::{Duration, Instant};

/// The second that runs, and how often it was done in it.
#[derive(Default)]
pub(super) struct Second {
    began: Option<Instant>,
    times: u32,
}

impl Second {
    /// Whether it may be done once more, so many times being the most; it is counted if so.
    pub(super) fn take(&mut self, most: u32, now: Instant) -> bool {
        if self.began.is_none_or(|began| began + Duration::from_secs(1) <= now) {
            *self = Self { began: Some(now), times: 0 };
        }
        let may = self.times < most;
        self.times += u32::from(may);
        may
    }
}
