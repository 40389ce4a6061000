//! The time, twice: monotonic for timers, civil for the windows of certificates. Whoever owns a
//! clock makes one of these and hands it down; no core reads a clock.

use std::time::{Duration, Instant};

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For timers: never goes back.
    pub instant: Instant,
    /// For certificates: milliseconds since 1970, as well as this machine knows.
    pub unix_ms: u64,
}

impl Now {
    /// Seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        self.unix_ms / 1000
    }

    /// The moment of `instant`, by a civil clock that has gone right since.
    pub fn at(self, instant: Instant) -> Self {
        self.plus(instant.saturating_duration_since(self.instant))
    }

    /// The moment `after` this one, on both clocks: for tests and for worlds with a virtual clock.
    pub fn plus(self, after: Duration) -> Self {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        Self { instant: self.instant + after, unix_ms: self.unix_ms.saturating_add(after_ms) }
    }
}
