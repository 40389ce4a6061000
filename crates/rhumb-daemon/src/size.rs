//! Sizes of files as people write them: `500 kB`, `10GB`, `1.5 GiB`, or bytes; and rates: `2
//! Mbit/s`.

/// A number of bytes, or what is wrong with its text.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size; give one like 500MB, 10GB or 2GiB");
    let text = text.trim();
    let unit_at = text.find(|char: char| !(char.is_ascii_digit() || char == '.'));
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let unit: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Ok((number * unit) as u64)
}

/// A rate in 1000 bits a second, at least one, or what is wrong with its text.
pub(crate) fn parse_rate(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no rate; give one like 500kbit, 2Mbit/s or 1Gbit");
    let text = text.trim();
    let unit_at = text.find(|char: char| !(char.is_ascii_digit() || char == '.'));
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let kbit: f64 = match unit.trim().trim_end_matches("/s").to_ascii_lowercase().as_str() {
        "kbit" => 1.0,
        "mbit" => 1e3,
        "gbit" => 1e6,
        _ => return Err(wrong()),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? * kbit;
    match rate >= 1.0 && rate <= f64::from(u32::MAX) {
        true => Ok(rate as u32),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [("0", 0), ("7", 7), ("500 kB", 500_000), ("10GB", 10_000_000_000)];
        let binary = [("2GiB", 2 << 30), ("1.5 KiB", 1536), ("3m", 3_000_000)];
        for (text, bytes) in cases.into_iter().chain(binary) {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "much", "5 elephants", "-1", "1..2", "GB"] {
            assert!(parse_size(text).unwrap_err().contains("give one like"), "{text}");
        }
    }

    #[test]
    fn rates_have_a_unit_and_are_not_nothing() {
        for (text, kbit) in
            [("500kbit", 500), ("2 Mbit/s", 2000), ("1.5Gbit", 1_500_000), ("1kbit/s", 1)]
        {
            assert_eq!(parse_rate(text), Ok(kbit), "{text}");
        }
        for text in ["500", "0kbit", "0.9kbit", "5000Gbit", "kbit", "2MB", "-1Mbit", "1..2Mbit"] {
            assert!(parse_rate(text).unwrap_err().contains("give one like"), "{text}");
        }
    }
}
