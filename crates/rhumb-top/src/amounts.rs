//! Numbers as people read them: short, with a unit, and never wider than their column.

/// What is shown where nothing is known.
pub(crate) const UNKNOWN: &str = "-";

/// So many, in thousands from ten thousand on.
pub(crate) fn count(value: u64) -> String {
    if value < 10_000 { value.to_string() } else { scaled(value as f64) }
}

/// So many a second.
pub(crate) fn rate(value: f64) -> String {
    match value {
        _ if value <= 0.0 => "0".to_owned(),
        _ if value < 10.0 => format!("{value:.1}"),
        _ if value < 10_000.0 => format!("{value:.0}"),
        _ => scaled(value),
    }
}

/// Bytes a second, as bits a second.
pub(crate) fn bits(bytes_a_second: f64) -> String {
    let value = bytes_a_second * 8.0;
    if value < 1000.0 { format!("{value:.0}") } else { scaled(value) }
}

/// A time of so many seconds, by its two largest units.
pub(crate) fn span(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m {rest:02}s"),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

/// A round trip.
pub(crate) fn milliseconds(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2} ms"),
        _ if value < 100.0 => format!("{value:.1} ms"),
        _ => format!("{value:.0} ms"),
    }
}

fn scaled(value: f64) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1}{}", UNITS[unit])
}

const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!([count(9_999), count(10_000), count(u64::MAX)], ["9999", "10.0k", "18.4E"]);
        assert_eq!(
            [rate(0.0), rate(0.25), rate(99.6), rate(99_999.0)],
            ["0", "0.2", "100", "100.0k"]
        );
        assert_eq!([bits(1.0), bits(125.0), bits(1.25e9)], ["8", "1.0k", "10.0G"]);
        assert_eq!(
            [span(59), span(61), span(3_700), span(200_000)],
            ["59s", "1m 01s", "1h 01m", "2d 07h"]
        );
        assert_eq!([milliseconds(0.125), milliseconds(250.0)], ["0.12 ms", "250 ms"]);
    }

    #[test]
    fn no_amount_is_wider_than_nine_columns() {
        for value in [0, 1, 999, 1_000, 9_999, 10_000, 999_949, 999_951, u64::MAX] {
            for text in [count(value), rate(value as f64), bits(value as f64)] {
                assert!(text.len() <= 9, "{text}");
            }
        }
    }
}
