//! Lists of prefixes.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use rhumb_bgp::policy::prefix::{covers, parse_prefix};
use rhumb_bgp::policy::{PolicyError, PrefixRange, PrefixSet};
use rustbgpd_wire::{Ipv4Prefix, Ipv6Prefix, Prefix};

use super::prefix;

#[test]
fn the_table_of_ranges() {
    for (range, fits, others) in [
        (
            "192.0.2.0/24",
            vec!["192.0.2.0/24"],
            vec!["192.0.2.0/25", "192.0.0.0/16", "192.0.3.0/24"],
        ),
        (
            "10.0.0.0/8 ge 16 le 24",
            vec!["10.1.0.0/16", "10.1.2.0/24"],
            vec!["10.0.0.0/8", "10.0.0.0/15", "10.0.0.0/25", "11.0.0.0/16"],
        ),
        ("10.0.0.0/8 ge 16", vec!["10.1.0.0/16", "10.1.2.3/32"], vec!["10.0.0.0/8"]),
        ("10.0.0.0/8 le 9", vec!["10.0.0.0/8", "10.128.0.0/9"], vec!["10.0.0.0/10"]),
        (
            "10.0.0.0/8{9,10}",
            vec!["10.0.0.0/9", "10.192.0.0/10"],
            vec!["10.0.0.0/8", "10.0.0.0/11"],
        ),
        ("10.0.0.0/8+", vec!["10.0.0.0/8", "10.1.2.3/32"], vec!["0.0.0.0/0", "9.0.0.0/8"]),
        ("0.0.0.0/0", vec!["0.0.0.0/0"], vec!["0.0.0.0/1", "::/0"]),
        ("0.0.0.0/0 ge 25", vec!["1.0.0.0/25"], vec!["1.0.0.0/24", "2001:db8::/32"]),
        (
            "2001:db8::/32 le 48",
            vec!["2001:db8::/32", "2001:db8:7::/48"],
            vec!["2001:db8::/49", "2001:db9::/48"],
        ),
        ("::/0+", vec!["::/0", "::1/128"], vec!["0.0.0.0/0"]),
    ] {
        let parsed: PrefixRange = range.parse().unwrap();
        let set: PrefixSet = [parsed].into_iter().collect();
        for text in fits {
            assert!(
                parsed.contains(prefix(text)) && set.contains(prefix(text)),
                "{range} has {text}"
            );
        }
        for text in others {
            assert!(
                !parsed.contains(prefix(text)) && !set.contains(prefix(text)),
                "{range} has not {text}"
            );
        }
        assert_eq!(parsed.to_string().parse(), Ok(parsed), "{range}");
    }
}

#[test]
fn what_is_no_range_is_refused() {
    for text in [
        "",
        "10.0.0.0",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "2001:db8::/129",
        "10.0.0.0/+8",
        "10/8",
        "10.0.0.0/8 ge",
        "10.0.0.0/8 gt 9",
        "10.0.0.0/8 ge x",
        "10.0.0.0/8 le 24 ge 16",
        "10.0.0.0/8 ge 9 le 10 11",
        "10.0.0.0/8{9}",
        "10.0.0.0/8{9,10",
        "10.0.0.0/8-",
    ] {
        assert_eq!(
            text.parse::<PrefixRange>(),
            Err(PolicyError::Prefix(text.to_owned())),
            "{text}"
        );
    }
    for text in [
        "10.0.0.0/8 ge 7",
        "10.0.0.0/8 le 7",
        "10.0.0.0/8 ge 24 le 16",
        "10.0.0.0/8 le 33",
        "::/0{1,129}",
    ] {
        assert_eq!(
            text.parse::<PrefixRange>(),
            Err(PolicyError::Lengths(text.to_owned())),
            "{text}"
        );
    }
}

#[test]
fn next_hops_are_within_prefixes_of_any_bounds() {
    let set: PrefixSet = ["192.0.2.0/24", "2001:db8::/64 le 65"]
        .iter()
        .map(|it| it.parse::<PrefixRange>().unwrap())
        .collect();
    assert!(set.contains_address("192.0.2.77".parse().unwrap()));
    assert!(set.contains_address("2001:db8::7".parse().unwrap()));
    assert!(!set.contains_address("192.0.3.1".parse().unwrap()));
    assert!(!set.contains_address("2001:db8:0:1::".parse().unwrap()));
    assert!(PrefixSet::default().is_empty() && !PrefixSet::default().contains(prefix("0.0.0.0/0")));
}

/// Prefixes that lie within each other often: few bits of the address differ.
pub(crate) fn some_prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        (0..=32u8, 0..16u32).prop_map(|(len, bits)| {
            let address = (bits & 3) | (bits >> 2) << 14 | 10 << 24;
            Prefix::V4(Ipv4Prefix::new(Ipv4Addr::from(address), len))
        }),
        (0..=128u8, 0..16u128).prop_map(|(len, bits)| {
            let address = (bits & 3) | (bits >> 2) << 78 | 0x2001 << 112;
            Prefix::V6(Ipv6Prefix::new(Ipv6Addr::from(address), len))
        }),
    ]
}

fn some_range() -> impl Strategy<Value = PrefixRange> {
    (some_prefix(), 0..40u8, 0..40u8).prop_map(|(prefix, a, b)| {
        let len = prefix.prefix_len();
        let most = if matches!(prefix, Prefix::V4(_)) { 32 } else { 128 };
        let least = (len + a).min(most);
        PrefixRange::within(prefix, least, (least + b).min(most)).unwrap()
    })
}

proptest! {
    /// The index says what a search of all ranges says.
    #[test]
    fn the_index_finds_what_a_search_finds(
        ranges in proptest::collection::vec(some_range(), 0..60),
        tried in proptest::collection::vec(some_prefix(), 30),
    ) {
        let set: PrefixSet = ranges.iter().copied().collect();
        prop_assert_eq!(set.len(), ranges.len());
        for prefix in tried {
            let by_search = ranges.iter().any(|range| range.contains(prefix));
            prop_assert_eq!(set.contains(prefix), by_search, "{}", prefix);
        }
    }

    #[test]
    fn what_is_written_is_read(range in some_range(), prefix in some_prefix()) {
        prop_assert_eq!(range.to_string().parse(), Ok(range));
        prop_assert_eq!(parse_prefix(&prefix.to_string()), Some(prefix));
        prop_assert!(covers(prefix, prefix));
    }

    #[test]
    fn no_text_is_too_odd(text: String) {
        if let Ok(range) = text.parse::<PrefixRange>() {
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }
}
