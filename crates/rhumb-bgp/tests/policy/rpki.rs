//! Origin validation.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rhumb_bgp::policy::prefix::covers;
use rhumb_bgp::policy::rpki::origin_of;
use rhumb_bgp::policy::{Vrp, Vrps};
use rustbgpd_wire::{Prefix, RpkiValidation};

use super::prefix::some_prefix;
use super::{as_path, prefix};

fn vrp(text: &str, max_len: u8, asn: u32) -> Vrp {
    Vrp::new(prefix(text), max_len, asn).unwrap()
}

fn set(vrps: &[(&str, u8, u32)]) -> BTreeSet<Vrp> {
    vrps.iter().map(|(prefix, max_len, asn)| vrp(prefix, *max_len, *asn)).collect()
}

/// The definition in RFC 6811, section 2, word by word.
fn by_definition(vrps: &BTreeSet<Vrp>, prefix: Prefix, origin: Option<u32>) -> RpkiValidation {
    let covering: Vec<&Vrp> = vrps.iter().filter(|vrp| covers(vrp.prefix, prefix)).collect();
    let matched = covering
        .iter()
        .any(|vrp| prefix.prefix_len() <= vrp.max_len && Some(vrp.asn) == origin && vrp.asn != 0);
    match (covering.is_empty(), matched) {
        (true, _) => RpkiValidation::NotFound,
        (false, true) => RpkiValidation::Valid,
        (false, false) => RpkiValidation::Invalid,
    }
}

#[test]
fn the_table_of_states() {
    let vrps = Vrps::new(&set(&[
        ("10.0.0.0/8", 16, 64_500),
        ("10.1.0.0/16", 24, 64_501),
        ("10.1.0.0/16", 16, 64_502),
        ("192.0.2.0/24", 24, 0),
        ("2001:db8::/32", 48, 64_500),
    ]));
    for (text, origin, state) in [
        ("10.0.0.0/8", Some(64_500), RpkiValidation::Valid),
        ("10.2.0.0/16", Some(64_500), RpkiValidation::Valid),
        ("10.2.0.0/17", Some(64_500), RpkiValidation::Invalid),
        ("10.0.0.0/8", Some(64_501), RpkiValidation::Invalid),
        ("10.1.2.0/24", Some(64_501), RpkiValidation::Valid),
        ("10.1.0.0/16", Some(64_502), RpkiValidation::Valid),
        ("10.1.0.0/16", Some(64_500), RpkiValidation::Valid),
        ("10.1.2.0/24", Some(64_502), RpkiValidation::Invalid),
        ("10.1.0.0/16", None, RpkiValidation::Invalid),
        ("0.0.0.0/0", Some(64_500), RpkiValidation::NotFound),
        ("11.0.0.0/8", Some(64_500), RpkiValidation::NotFound),
        ("192.0.2.0/24", Some(64_500), RpkiValidation::Invalid),
        ("192.0.2.0/24", Some(0), RpkiValidation::Invalid),
        ("2001:db8::/32", Some(64_500), RpkiValidation::Valid),
        ("2001:db8::/49", Some(64_500), RpkiValidation::Invalid),
        ("2001:db9::/32", Some(64_500), RpkiValidation::NotFound),
    ] {
        assert_eq!(vrps.validate(prefix(text), origin), state, "{text} by {origin:?}");
    }
    assert_eq!(Vrps::default().validate(prefix("10.0.0.0/8"), Some(1)), RpkiValidation::NotFound);
    assert!(Vrps::default().is_empty() && vrps.len() == 5);
}

#[test]
fn the_origin_is_the_last_of_the_path() {
    for (path, origin) in [
        ("64501 64502", Some(64_502)),
        ("64501", Some(64_501)),
        ("", Some(64_500)),
        ("64501 {64502,64503}", None),
        ("{64502} 64501", Some(64_501)),
    ] {
        assert_eq!(origin_of(&as_path(path), 64_500), origin, "{path}");
    }
}

#[test]
fn a_payload_has_a_possible_length() {
    for (text, max_len, possible) in [
        ("10.0.0.0/8", 7, false),
        ("10.0.0.0/8", 8, true),
        ("10.0.0.0/8", 32, true),
        ("10.0.0.0/8", 33, false),
        ("::/0", 128, true),
    ] {
        assert_eq!(
            Vrp::new(prefix(text), max_len, 1).is_some(),
            possible,
            "{text} up to {max_len}"
        );
    }
}

#[test]
fn a_change_is_told_to_those_whose_state_it_changes() {
    let before = Vrps::new(&set(&[("10.0.0.0/8", 24, 64_500), ("192.0.2.0/24", 24, 64_500)]));
    let after = Vrps::new(&set(&[("10.0.0.0/8", 24, 64_500), ("10.1.0.0/16", 16, 64_501)]));
    let routes = [
        ("10.0.0.0/8", 64_500),
        ("10.1.0.0/16", 64_500),
        ("10.1.0.0/16", 64_501),
        ("10.1.2.0/24", 64_501),
        ("192.0.2.0/24", 64_500),
        ("192.0.2.0/24", 64_501),
        ("198.51.100.0/24", 64_500),
    ];
    let asked = routes.iter().map(|(text, origin)| (prefix(text), Some(*origin), (*text, *origin)));
    let changed: Vec<_> = after.changes(&before, asked).collect();
    assert_eq!(
        changed,
        [
            (("10.1.0.0/16", 64_501), RpkiValidation::Valid),
            (("192.0.2.0/24", 64_500), RpkiValidation::NotFound),
            (("192.0.2.0/24", 64_501), RpkiValidation::NotFound),
        ]
    );
    let touched = after.touched(&before);
    assert!(touched.contains(prefix("10.1.0.0/16")) && !touched.contains(prefix("10.0.0.0/8")));
    assert!(after.touched(&after).is_empty());
}

pub(crate) fn some_vrps() -> impl Strategy<Value = BTreeSet<Vrp>> {
    let vrp = (some_prefix(), 0..20u8, 0..4u32).prop_map(|(prefix, more, asn)| {
        let most = if matches!(prefix, Prefix::V4(_)) { 32 } else { 128 };
        Vrp::new(prefix, (prefix.prefix_len() + more).min(most), asn).unwrap()
    });
    proptest::collection::btree_set(vrp, 0..40)
}

proptest! {
    #[test]
    fn states_are_those_of_the_definition(
        vrps in some_vrps(),
        routes in proptest::collection::vec((some_prefix(), proptest::option::of(0..4u32)), 40),
    ) {
        let index = Vrps::new(&vrps);
        prop_assert!(index.iter().eq(vrps.iter().copied()));
        for (prefix, origin) in routes {
            prop_assert_eq!(index.validate(prefix, origin), by_definition(&vrps, prefix, origin));
        }
    }

    /// All whose state changes are told, and nobody else.
    #[test]
    fn changes_are_those_of_all_routes(
        before in some_vrps(),
        after in some_vrps(),
        routes in proptest::collection::vec((some_prefix(), proptest::option::of(0..4u32)), 40),
    ) {
        // Some stay.
        let after: BTreeSet<Vrp> = before.iter().step_by(2).copied().chain(after).collect();
        let (old, new) = (Vrps::new(&before), Vrps::new(&after));
        let asked = routes.iter().enumerate().map(|(at, (prefix, origin))| (*prefix, *origin, at));
        let told: Vec<(usize, RpkiValidation)> = new.changes(&old, asked).collect();
        let expected = routes.iter().enumerate().filter_map(|(at, (prefix, origin))| {
            let now = by_definition(&after, *prefix, *origin);
            (now != by_definition(&before, *prefix, *origin)).then_some((at, now))
        });
        prop_assert_eq!(told, expected.collect::<Vec<_>>());
    }
}
