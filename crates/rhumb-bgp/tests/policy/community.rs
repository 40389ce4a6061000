//! Communities and their patterns.

use proptest::prelude::*;
use rhumb_bgp::policy::{Community, CommunityPattern, PolicyError};
use rustbgpd_wire::{ExtendedCommunity, LargeCommunity, PathAttribute};

fn community(text: &str) -> Community {
    text.parse().unwrap()
}

fn matches(pattern: &str, text: &str) -> bool {
    pattern.parse::<CommunityPattern>().unwrap().matches(community(text))
}

#[test]
fn the_table_of_patterns() {
    for (pattern, fits, others) in [
        ("65000:1", vec!["65000:1"], vec!["65000:2", "65001:1", "65000:1:0", "rt:65000:1"]),
        ("65000:*", vec!["65000:0", "65000:65535"], vec!["65001:0", "65000:0:0"]),
        ("*:666", vec!["0:666", "65535:666", "blackhole"], vec!["65535:667", "0:0:666"]),
        ("*:*", vec!["0:0", "no-export"], vec!["0:0:0", "ro:1:1"]),
        ("65000:100-199", vec!["65000:100", "65000:199"], vec!["65000:99", "65000:200"]),
        ("64512-65534:1", vec!["64512:1", "65534:1"], vec!["64511:1", "65535:1", "65000:2"]),
        ("no-export", vec!["65535:65281"], vec!["65535:65282"]),
        ("blackhole", vec!["65535:666"], vec!["65535:667"]),
        ("graceful-shutdown", vec!["65535:0"], vec!["65535:1"]),
        ("6695:1:*", vec!["6695:1:0", "6695:1:4294967295"], vec!["6695:0:1", "6696:1:1", "6695:1"]),
        ("*:0-1:64500", vec!["7:0:64500", "4294967295:1:64500"], vec!["7:2:64500", "7:0:64501"]),
        (
            "rt:65000:1",
            vec!["rt:65000:1", "ext:2:2:0xfde80001"],
            vec!["ro:65000:1", "rt:65000:2", "65000:1"],
        ),
        (
            "rt:*:*",
            vec!["rt:0:0", "rt:4200000000:9", "rt:9:4200000000"],
            vec!["ro:0:0", "ext:3:0xc:8"],
        ),
        ("ro:4200000000:*", vec!["ro:4200000000:65535"], vec!["ro:1:1", "rt:4200000000:1"]),
        ("ext:0x43:0:*", vec!["ext:0x43:0:2", "ext:67:0:0"], vec!["ext:0x43:1:2", "ext:3:0:2"]),
        ("ext:0:0:5", vec!["ext:0:0:5"], vec!["ext:0:0:6"]),
    ] {
        for text in fits {
            assert!(matches(pattern, text), "{pattern} matches {text}");
        }
        for text in others {
            assert!(!matches(pattern, text), "{pattern} does not match {text}");
        }
    }
}

#[test]
fn what_is_no_community_is_refused() {
    for text in [
        "",
        ":",
        "1",
        "65536:1",
        "1:65536",
        "1:",
        "a:b",
        "+1:2",
        "-1:2",
        "1:2:3:4",
        "1:2:4294967296",
        "1:200-100",
        "1:1-2-3",
        "rt:1",
        "rt:65536:65536",
        "ext:256:0:0",
        "ext:0:0",
        "ext:0:0:0x1000000000000",
        "NO-EXPORT",
        "1 :2",
        "0x:1",
        "*-5:1",
    ] {
        assert_eq!(
            text.parse::<CommunityPattern>(),
            Err(PolicyError::Community(text.to_owned())),
            "{text}"
        );
    }
    // Patterns of several are no community.
    for text in ["1:*", "1:2-3", "*:1:1", "rt:1:*", "ext:0:0:*"] {
        assert!(
            text.parse::<CommunityPattern>().is_ok() && text.parse::<Community>().is_err(),
            "{text}"
        );
    }
}

#[test]
fn communities_are_added_once_and_removed_with_their_attribute() {
    let mut attributes = vec![PathAttribute::CommunitiesPartial(vec![7])];
    for text in ["0:7", "65000:1", "65000:1", "1:2:3", "rt:1:2", "rt:1:2"] {
        community(text).add_to(&mut attributes);
    }
    assert_eq!(
        attributes,
        [
            PathAttribute::CommunitiesPartial(vec![7, 65_000 << 16 | 1]),
            PathAttribute::LargeCommunities(vec![LargeCommunity::new(1, 2, 3)]),
            PathAttribute::ExtendedCommunities(vec![ExtendedCommunity::new(0x0002_0001_0000_0002)]),
        ]
    );
    assert_eq!(Community::of(&attributes).count(), 4);
    attributes.push(PathAttribute::Med(1));
    Community::remove_from(&mut attributes, |it| it != community("0:7"));
    assert_eq!(attributes, [PathAttribute::CommunitiesPartial(vec![7]), PathAttribute::Med(1)]);
}

fn some_community() -> impl Strategy<Value = Community> {
    prop_oneof![
        any::<u32>().prop_map(Community::Standard),
        any::<[u32; 3]>().prop_map(|[a, b, c]| Community::Large(LargeCommunity::new(a, b, c))),
        any::<u64>().prop_map(|raw| Community::Extended(ExtendedCommunity::new(raw))),
        // Route targets and origins, which are few among all numbers.
        (0u64..4, 2u64..4, any::<u64>())
            .prop_map(|(kind, subtype, value)| kind << 56 | subtype << 48 | value >> 16)
            .prop_map(|raw| Community::Extended(ExtendedCommunity::new(raw))),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(there in some_community()) {
        let text = there.to_string();
        prop_assert_eq!(text.parse::<Community>(), Ok(there), "{}", text);
        prop_assert!(text.parse::<CommunityPattern>().unwrap().matches(there));
    }

    #[test]
    fn no_text_is_too_odd(text: String) {
        if let Ok(community) = text.parse::<Community>() {
            prop_assert_eq!(community.to_string().parse(), Ok(community));
        }
    }
}
