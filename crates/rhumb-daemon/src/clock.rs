//! The one place where daemons and commands read the clocks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rhumb_trust::Now;

/// The time, on both clocks.
pub fn now() -> Now {
    Now { instant: Instant::now(), unix_ms: unix_us() / 1000 }
}

/// Microseconds of Unix time.
pub fn unix_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let offset_us = OFFSET_S.load(Ordering::Relaxed).saturating_mul(1_000_000);
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX).saturating_add_signed(offset_us)
}

/// Lets the civil clock of this process be ahead by `offset_s`
/// seconds, or behind. For tests of what takes hours.
pub fn set_offset(offset_s: i64) {
    OFFSET_S.store(offset_s, Ordering::Relaxed);
}

/// `unix_s` as `hh:mm:ss` of that day, UTC.
pub(crate) fn time_of_day(unix_s: u64) -> String {
    let second = unix_s % SECONDS_A_DAY;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// `unix_s` as `yyyy-mm-dd hh:mm:ss`, UTC.
pub fn date_and_time(unix_s: u64) -> String {
    // Years begin in March, so that the day of a leap year
    // comes last; 400 of them have 146,097 days.
    let days = unix_s / SECONDS_A_DAY + DAYS_FROM_MARCH_0_TO_1970;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day + 2) / 153;
    let day = day - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {}", time_of_day(unix_s))
}

/// How long from `now_s` until `then_s`, for people.
pub fn time_left(now_s: u64, then_s: u64) -> String {
    match then_s.checked_sub(now_s) {
        None => "over".to_owned(),
        Some(left_s) => format!("{} left", span(left_s)),
    }
}

/// A time for people, rounded down.
pub fn span(span_s: u64) -> String {
    match span_s {
        0..=119 => format!("{span_s} s"),
        120..=7199 => format!("{} min", span_s / 60),
        7200..=172_799 => format!("{} h", span_s / 3600),
        _ => format!("{} days", span_s / SECONDS_A_DAY),
    }
}

static OFFSET_S: AtomicI64 = AtomicI64::new(0);

const SECONDS_A_DAY: u64 = 86_400;
const DAYS_FROM_MARCH_0_TO_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_798_761_599, "2026-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date_and_time(unix_s), text);
        }
    }

    #[test]
    fn times_read_well() {
        assert_eq!(time_of_day(0), "00:00:00");
        assert_eq!(time_of_day(86_400 + 3_661), "01:01:01");
        assert_eq!(time_left(10, 9), "over");
        assert_eq!(time_left(10, 129), "119 s left");
        assert_eq!(time_left(10, 130), "2 min left");
        assert_eq!(time_left(0, 7_199), "119 min left");
        assert_eq!(time_left(0, 7_200), "2 h left");
        assert_eq!(time_left(0, 172_799), "47 h left");
        assert_eq!(time_left(0, 172_800), "2 days left");
    }
}
