//! Expressions over paths.

use proptest::prelude::*;
use rhumb_bgp::policy::path::{MOST_COUNT, MOST_TEXT, Problem, path_text};
use rhumb_bgp::policy::{PathPattern, PolicyError};
use rustbgpd_wire::{AsPath, AsPathSegment};

use super::as_path;

fn pattern(text: &str) -> PathPattern {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Expression, paths that it matches, paths that it does not.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

const TABLE: &[Row] = &[
    ("^$", &[""], &["1", "65000"]),
    (
        "_65000_",
        &["65000", "1 65000", "65000 1", "1 65000 2", "1 {2,65000}", "{65000,2} 3"],
        &["", "650001", "165000", "1 6500 0"],
    ),
    (
        "_65000_65001_",
        &["65000 65001", "1 65000 65001 2", "{65000,65001} 1"],
        &["65000 1 65001", "65001 65000", "65000 1 65001 {65000,1}"],
    ),
    ("^65000_", &["65000", "65000 1"], &["1 65000", "650001 2", ""]),
    ("_65000$", &["65000", "1 65000"], &["65000 1", "165000"]),
    ("^65000$", &["65000"], &["65000 65000", "1 65000"]),
    (
        "^65000 .* 65010$",
        &["65000 1 65010", "65000 1 2 65010"],
        &["65000 65010", "65000 1 65010 2"],
    ),
    ("^65000 (.* )?65010$", &["65000 1 65010", "65000 65010"], &["65000 165010", "65000"]),
    ("^(65000|65001)_", &["65000", "65001 7"], &["65002", "7 65000"]),
    ("^[0-9]+$", &["1", "4294967295"], &["", "1 2", "{1}"]),
    ("^65000 [0-9]+$", &["65000 1", "65000 65000"], &["65000", "65000 1 2", "65000 {1}"]),
    ("^([0-9]+)( [0-9]+){2}$", &["1 2 3"], &["1 2", "1 2 3 4"]),
    ("( [0-9]+){3,}$", &["0 1 2 3", "0 1 2 3 4"], &["0 1 2"]),
    ("^65000( 65000)*$", &["65000", "65000 65000 65000"], &["65000 65001", ""]),
    (
        "[65000-65010]",
        &["65000", "1 65005 2", "{1,65010}"],
        &["64999", "65011", "650005", "165005", ""],
    ),
    ("^[65000-65010]$", &["65000", "65010"], &["65000 1", "65011"]),
    ("_[64512-65534]_", &["64512", "1 65534"], &["64511", "65535", "4200000000"]),
    ("_[4200000000-4294967294]_", &["4200000000", "1 4294967294 2"], &["4294967295", "420000000"]),
    ("[05-35]", &["5", "1 35", "17"], &["4", "36", "175"]),
    ("_6500[12]_", &["65001", "65002"], &["65003", "650012"]),
    ("_6500[0-3]$", &["65003", "1 65000"], &["65004"]),
    ("_6500[^12]_", &["65003", "65000"], &["65001"]),
    ("^[^ ]+$", &["1", "{1,2}"], &["1 2", ""]),
    ("65", &["165000", "65", "1 2650"], &["1 6 5", ""]),
    ("\\{", &["1 {2,3}"], &["1 2 3"]),
    ("^[^{]*$", &["1 2 3", ""], &["1 {2,3}"]),
    (".*", &["", "1", "{1,2}"], &[]),
    ("1?2", &["2", "12", "32"], &["1"]),
    ("^1|2$", &["1 3", "3 2", "12"], &["3 1", "2 3"]),
    ("_1__2_", &[], &["1 2"]),
];

#[test]
fn the_table_of_expressions() {
    for (expression, fits, others) in TABLE {
        let compiled = pattern(expression);
        for path in *fits {
            assert!(compiled.matches(&as_path(path)), "{expression} matches `{path}`");
        }
        for path in *others {
            assert!(!compiled.matches(&as_path(path)), "{expression} does not match `{path}`");
        }
        assert_eq!(compiled.to_string(), *expression);
    }
}

#[test]
fn the_text_of_a_path_is_that_of_routers() {
    for text in ["", "1", "1 2 3", "1 {2,3}", "1 {2,3} 4", "{7}"] {
        assert_eq!(path_text(&as_path(text)), text);
    }
    // Empty segments, and sequences that were split because one holds 255.
    let sequence = |numbers: &[u32]| AsPathSegment::AsSequence(numbers.to_vec());
    let segments =
        vec![sequence(&[]), sequence(&[1, 2]), AsPathSegment::AsSet(vec![]), sequence(&[3])];
    assert_eq!(path_text(&AsPath { segments }), "1 2 3");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (expression, at, problem) in [
        ("_65000_x", 7, Problem::Character('x')),
        ("^65000\u{e9}", 6, Problem::Character('\u{e9}')),
        ("\\d+", 0, Problem::Escape),
        ("(1)\\1", 3, Problem::Escape),
        ("1\\", 1, Problem::Escape),
        ("_[65000", 1, Problem::Bracket),
        ("[]", 0, Problem::Bracket),
        ("[^]", 0, Problem::Bracket),
        ("[a-z]", 0, Problem::Bracket),
        ("[9-0]", 0, Problem::Bracket),
        ("[[:digit:]]", 0, Problem::Bracket),
        ("1]", 1, Problem::Bracket),
        ("[5-35]", 0, Problem::Ambiguous),
        ("[65010-65000]", 0, Problem::Range),
        ("[65000-4294967296]", 0, Problem::Range),
        ("{65000,65001}", 0, Problem::Brace),
        ("1{256}", 1, Problem::Brace),
        ("1{3,2}", 1, Problem::Brace),
        ("1{-1}", 1, Problem::Brace),
        ("1}", 1, Problem::Brace),
        ("1{2", 1, Problem::Brace),
        ("*", 0, Problem::NoExpression),
        ("^*", 1, Problem::NoExpression),
        ("1|*", 2, Problem::NoExpression),
        ("1*?", 2, Problem::NoExpression),
        ("1{2}+", 4, Problem::NoExpression),
        ("(?i)1", 0, Problem::NoExpression),
        ("(1", 0, Problem::NoExpression),
        ("1)", 0, Problem::NoExpression),
        ("((1{255}){255}){255}", 0, Problem::TooBig),
    ] {
        let refused = expression.parse::<PathPattern>().unwrap_err();
        assert_eq!(refused, PolicyError::Path { at, problem }, "{expression}");
        assert!(refused.to_string().starts_with(&format!("at byte {at}: ")), "{refused}");
    }
}

#[test]
fn length_and_counts_are_bounded_from_both_sides() {
    assert!("1".repeat(MOST_TEXT).parse::<PathPattern>().is_ok());
    assert!("1".repeat(MOST_TEXT + 1).parse::<PathPattern>().is_err());
    assert!(format!("1{{{MOST_COUNT}}}").parse::<PathPattern>().is_ok());
    assert!(format!("1{{{}}}", MOST_COUNT + 1).parse::<PathPattern>().is_err());
}

/// What makes an engine that backtracks run for ages. The figure is one of work,
/// not of time: this ends, or the test does not.
#[test]
fn hostile_paths_take_linear_time() {
    let long = AsPath { segments: vec![AsPathSegment::AsSequence(vec![1; 16_000])] };
    for expression in
        ["(1*)*2", "(1 ?)*$2", "^(([0-9]+ )*)*2$", "(1|1 |1 1)*2", "_1_.*_1_.*_1_.*_1_.*_2_"]
    {
        assert!(!pattern(expression).matches(&long), "{expression}");
    }
}

/// A path of a few numbers that are near each other, so that expressions match sometimes.
fn some_path() -> impl Strategy<Value = AsPath> {
    let number = prop_oneof![64_998u32..65_012, 1u32..12, Just(650_001)];
    let numbers = proptest::collection::vec(number, 0..6);
    let segment = (numbers, 0..5u8).prop_map(|(numbers, kind)| match kind {
        0 => AsPathSegment::AsSet(numbers),
        _ => AsPathSegment::AsSequence(numbers),
    });
    proptest::collection::vec(segment, 0..3).prop_map(|segments| AsPath { segments })
}

proptest! {
    /// What expressions over text mean in numbers, for those with a meaning in numbers.
    #[test]
    fn expressions_mean_what_they_mean_over_numbers(path in some_path(), a in 64_998u32..65_012, b in 1u32..12) {
        let numbers: Vec<u32> = path.asns().collect();
        let sequences_only = path.segments.iter().all(|s| matches!(s, AsPathSegment::AsSequence(_)));
        let matches = |text: String| pattern(&text).matches(&path);
        prop_assert_eq!(matches(format!("_{a}_")), numbers.contains(&a));
        prop_assert_eq!(matches("^$".to_owned()), numbers.is_empty());
        let range = 65_000..=65_000 + b;
        prop_assert_eq!(matches(format!("[65000-{}]", 65_000 + b)), numbers.iter().any(|n| range.contains(n)));
        if sequences_only {
            prop_assert_eq!(matches(format!("^{a}_")), numbers.first() == Some(&a));
            prop_assert_eq!(matches(format!("_{b}$")), numbers.last() == Some(&b));
            let neighbours = numbers.windows(2).any(|pair| pair == [a, b]);
            prop_assert_eq!(matches(format!("_{a}_{b}_")), neighbours);
            let count = numbers.len();
            let of_length = |length: usize| matches(format!("^[0-9]+( [0-9]+){{{length}}}$"));
            prop_assert_eq!(of_length(count.saturating_sub(1)), count > 0);
            prop_assert_eq!(of_length(count), false);
        }
    }

    #[test]
    fn no_text_is_too_odd(text: String, path in some_path()) {
        if let Ok(pattern) = text.parse::<PathPattern>() {
            pattern.matches(&path);
        }
    }

    #[test]
    fn marks_in_any_order_are_an_expression_or_refused(text in "[0-9_ ^$.*+?|()\\[\\]{},-]{0,24}", path in some_path()) {
        if let Ok(pattern) = text.parse::<PathPattern>() {
            pattern.matches(&path);
        }
    }
}
