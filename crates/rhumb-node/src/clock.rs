//! The clocks of this machine, for the parts that are driven by real time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rhumb_trust::Now;

/// This moment.
pub(crate) fn now() -> Now {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    Now { instant: Instant::now(), unix_ms }
}
