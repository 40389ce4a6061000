//! Conditions, edits and lists of rules.

use std::sync::Arc;

use rhumb_bgp::policy::path::path_text;
use rhumb_bgp::policy::rule::MOST_PREPENDS;
use rhumb_bgp::policy::{
    Conditions, Edits, MOST_PATHS, MOST_RULES, Member, Policy, PolicyError, PrefixRange, PrefixSet,
    Route, Rule, Verdict,
};
use rustbgpd_wire::{AsPath, AsPathSegment, Origin, PathAttribute, RpkiValidation};

use super::{as_path, attributes, roster, route};

fn list(ranges: &[&str]) -> Arc<PrefixSet> {
    Arc::new(ranges.iter().map(|text| text.parse::<PrefixRange>().unwrap()).collect())
}

fn rule(when: Conditions, verdict: Verdict) -> Rule {
    Rule { when, verdict, edits: Edits::default() }
}

#[test]
fn each_condition_alone() {
    let mut attributes = attributes("64500 64501", "65000:1");
    attributes.push(PathAttribute::Med(50));
    let mut plain = route("10.1.0.0/16", &attributes);
    plain.validity = RpkiValidation::Valid;
    let none = Conditions::default;
    let holding = [
        none(),
        Conditions {
            prefixes: vec![list(&["192.0.2.0/24"]), list(&["10.0.0.0/8 le 16"])],
            ..none()
        },
        Conditions { paths: vec!["^1_".parse().unwrap(), "_64501$".parse().unwrap()], ..none() },
        Conditions {
            communities: vec!["1:1".parse().unwrap(), "65000:*".parse().unwrap()],
            ..none()
        },
        Conditions { origins: vec![Origin::Egp, Origin::Igp], ..none() },
        Conditions { origin_asns: vec![1..=2, 64_501..=64_501], ..none() },
        Conditions { med: Some(50..=50), ..none() },
        Conditions { path_length: Some(2..=2), ..none() },
        Conditions { next_hops: Some(list(&["192.0.2.0/28"])), ..none() },
        Conditions { announcers: Some(roster(&[1, 2]).set([Member(0)])), ..none() },
        Conditions { validities: vec![RpkiValidation::Valid], ..none() },
    ];
    let failing = [
        Conditions { prefixes: vec![list(&["10.0.0.0/8"])], ..none() },
        Conditions { paths: vec!["^64501_".parse().unwrap()], ..none() },
        Conditions {
            communities: vec!["65000:2".parse().unwrap(), "65000:1:*".parse().unwrap()],
            ..none()
        },
        Conditions { origins: vec![Origin::Incomplete], ..none() },
        Conditions { origin_asns: vec![64_500..=64_500], ..none() },
        Conditions { med: Some(51..=u32::MAX), ..none() },
        Conditions { path_length: Some(0..=1), ..none() },
        Conditions { next_hops: Some(list(&["192.0.3.0/24"])), ..none() },
        Conditions { announcers: Some(roster(&[1, 2]).set([Member(1)])), ..none() },
        Conditions {
            validities: vec![RpkiValidation::Invalid, RpkiValidation::NotFound],
            ..none()
        },
    ];
    for conditions in &holding {
        assert!(conditions.hold(&plain), "{conditions:?}");
    }
    for conditions in &failing {
        assert!(!conditions.hold(&plain), "{conditions:?}");
    }
    // All must hold: any that fails beside any that holds fails.
    for fails in &failing {
        let both =
            Conditions { validities: vec![RpkiValidation::Valid, plain.validity], ..fails.clone() };
        assert!(!both.hold(&plain) || fails.validities.len() == 2);
    }
}

#[test]
fn what_a_route_does_not_say_has_a_meaning() {
    let nothing = Route { next_hop: None, ..route("10.0.0.0/8", &[]) };
    let none = Conditions::default;
    for (conditions, holds) in [
        (Conditions { med: Some(0..=0), ..none() }, true),
        (Conditions { origins: vec![Origin::Incomplete], ..none() }, true),
        (Conditions { paths: vec!["^$".parse().unwrap()], ..none() }, true),
        (Conditions { path_length: Some(0..=0), ..none() }, true),
        (Conditions { origin_asns: vec![64_500..=64_500], ..none() }, true),
        (Conditions { next_hops: Some(list(&["0.0.0.0/0"])), ..none() }, false),
        (Conditions { communities: vec!["*:*".parse().unwrap()], ..none() }, false),
    ] {
        assert_eq!(conditions.hold(&nothing), holds, "{conditions:?}");
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let by_path =
        |text: &str| Conditions { paths: vec![text.parse().unwrap()], ..Conditions::default() };
    let preferred = Edits { preference: Some(200), ..Edits::default() };
    let rules = vec![
        rule(by_path("_64666_"), Verdict::Reject),
        Rule { when: by_path("^64500_"), verdict: Verdict::Accept, edits: preferred.clone() },
        rule(by_path("_64501_"), Verdict::Accept),
    ];
    for (otherwise, accepted) in [(Verdict::Accept, true), (Verdict::Reject, false)] {
        let policy = Policy::new(rules.clone(), otherwise).unwrap();
        for (path, rule, edits) in [
            ("64500 64666", Some(0), None),
            ("64500 64501", Some(1), Some(&preferred)),
            ("64502 64501", Some(2), Some(&Edits::default())),
            ("64502", None, accepted.then_some(&Edits::default())),
        ] {
            let attributes = attributes(path, "");
            let decision = policy.decide(&route("10.0.0.0/8", &attributes));
            assert_eq!((decision.rule, decision.accepted), (rule, edits), "{path}");
        }
        assert!(!policy.asks_validity());
    }
}

#[test]
fn edits_change_what_they_say_and_nothing_else() {
    let mut changed = attributes("64500 64501", "65000:1 65000:2 1:2:3");
    changed.push(PathAttribute::Med(5));
    let edits = Edits {
        delete_communities: vec!["65000:*".parse().unwrap()],
        add_communities: vec!["65000:2".parse().unwrap(), "4:5:6".parse().unwrap()],
        med: Some(7),
        prepend: 2,
        ..Edits::default()
    };
    edits.apply(&mut changed, 1);
    let mut expected = attributes("64500 64500 64500 64501", "1:2:3 4:5:6");
    expected.extend([PathAttribute::Communities(vec![65_000 << 16 | 2]), PathAttribute::Med(7)]);
    assert_eq!(changed, expected);
    let before = changed.clone();
    Edits::default().apply(&mut changed, 1);
    assert_eq!(changed, before);
}

#[test]
fn a_prepend_repeats_the_first_of_the_path() {
    let prepended = |path: AsPath| {
        let mut attributes = vec![PathAttribute::AsPath(path)];
        Edits { prepend: 2, ..Edits::default() }.apply(&mut attributes, 9);
        match &attributes[..] {
            [PathAttribute::AsPath(path)] => path.clone(),
            other => panic!("{other:?}"),
        }
    };
    for (path, expected) in [("1 2", "1 1 1 2"), ("", "9 9"), ("{1,2} 3", "9 9 {1,2} 3")] {
        assert_eq!(path_text(&prepended(as_path(path))), expected);
    }
    // A segment holds 255.
    for (len, segments) in [(253, 1), (254, 2)] {
        let path = AsPath { segments: vec![AsPathSegment::AsSequence(vec![7; len])] };
        let longer = prepended(path);
        assert_eq!((longer.segments.len(), longer.len()), (segments, len + 2));
        assert!(longer.asns().all(|asn| asn == 7));
    }
    let mut nothing = Vec::new();
    Edits { prepend: 1, ..Edits::default() }.apply(&mut nothing, 9);
    assert_eq!(nothing, [PathAttribute::AsPath(as_path("9"))]);
}

#[test]
fn policies_are_bounded_from_both_sides() {
    let plain = rule(Conditions::default(), Verdict::Accept);
    let policy = |rules| Policy::new(rules, Verdict::Reject);
    assert!(policy(vec![plain.clone(); MOST_RULES]).is_ok());
    let refused = policy(vec![plain.clone(); MOST_RULES + 1]).unwrap_err();
    assert_eq!(refused, PolicyError::TooMany { what: "rules", most: MOST_RULES });
    let paths = |count| {
        let when =
            Conditions { paths: vec!["_1_".parse().unwrap(); count], ..Conditions::default() };
        policy(vec![rule(when, Verdict::Accept)])
    };
    assert!(paths(MOST_PATHS).is_ok());
    assert_eq!(
        paths(MOST_PATHS + 1).unwrap_err().to_string(),
        format!("more than {MOST_PATHS} path expressions")
    );
    let prepends = |prepend| {
        policy(vec![Rule { edits: Edits { prepend, ..Edits::default() }, ..plain.clone() }])
    };
    assert!(prepends(MOST_PREPENDS).is_ok() && prepends(MOST_PREPENDS + 1).is_err());
}

/// Lists are counted once, however many rules share them.
#[test]
fn prefixes_are_bounded_from_both_sides() {
    let range: PrefixRange = "10.0.0.0/8".parse().unwrap();
    let lists = |count: usize, times: usize| {
        let list: Arc<PrefixSet> = Arc::new(std::iter::repeat_n(range, count).collect());
        let when = Conditions { prefixes: vec![list; times], ..Conditions::default() };
        Policy::new(vec![rule(when, Verdict::Accept)], Verdict::Reject)
    };
    assert!(lists(rhumb_bgp::policy::MOST_PREFIXES, 3).is_ok());
    assert!(lists(rhumb_bgp::policy::MOST_PREFIXES + 1, 1).is_err());
}
