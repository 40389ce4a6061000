//! The one place of the binary that reads the clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rhumb_trust::Now;

/// The time, on both clocks.
pub(crate) fn now() -> Now {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    Now { instant: Instant::now(), unix_ms }
}

/// `unix_s` as `hh:mm:ss` of that day, UTC.
pub(crate) fn time_of_day(unix_s: u64) -> String {
    let second = unix_s % SECONDS_A_DAY;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// How long from `now_s` until `then_s`, for people.
pub(crate) fn time_left(now_s: u64, then_s: u64) -> String {
    match then_s.checked_sub(now_s) {
        None => "over".to_owned(),
        Some(left @ 0..=119) => format!("{left} s left"),
        Some(left @ 120..=7199) => format!("{} min left", left / 60),
        Some(left) => format!("{} h left", left / 3600),
    }
}

const SECONDS_A_DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!(time_of_day(0), "00:00:00");
        assert_eq!(time_of_day(86_400 + 3_661), "01:01:01");
        assert_eq!(time_left(10, 9), "over");
        assert_eq!(time_left(10, 129), "119 s left");
        assert_eq!(time_left(10, 130), "2 min left");
        assert_eq!(time_left(0, 7_199), "119 min left");
        assert_eq!(time_left(0, 7_200), "2 h left");
    }
}
