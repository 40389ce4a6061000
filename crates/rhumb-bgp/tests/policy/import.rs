//! What becomes of routes of others.

use rhumb_bgp::policy::{
    Conditions, Edits, ImportPolicy, Policy, Ranking, Route, Rule, Unwanted, Verdict,
};
use rustbgpd_wire::RpkiValidation;

use super::{attributes, route};

fn policy(rules: Vec<Rule>) -> ImportPolicy {
    ImportPolicy {
        rules: Policy::new(rules, Verdict::Accept).unwrap(),
        own_asn: 64_999,
        first_asn: true,
        blackhole: false,
        ranking: Ranking::default(),
    }
}

#[test]
fn what_a_route_server_would_check_is_checked() {
    let strict = policy(Vec::new());
    let lax = ImportPolicy { first_asn: false, blackhole: true, ..strict.clone() };
    for (path, communities, refused, refused_lax) in [
        ("64500 64501", "", None, None),
        ("64500 64999 64501", "", Some(Unwanted::Loop), Some(Unwanted::Loop)),
        ("64500 {64999}", "", Some(Unwanted::Loop), Some(Unwanted::Loop)),
        ("64501 64500", "", Some(Unwanted::FirstAsn), None),
        ("{64500}", "", Some(Unwanted::FirstAsn), None),
        ("", "", Some(Unwanted::FirstAsn), None),
        ("64500", "blackhole", Some(Unwanted::Blackhole), None),
        ("64500", "no-export", None, None),
    ] {
        let attributes = attributes(path, communities);
        let route = route("10.0.0.0/8", &attributes);
        assert_eq!(strict.import(&route).err(), refused, "{path} {communities}");
        assert_eq!(lax.import(&route).err(), refused_lax, "{path} {communities}");
    }
}

#[test]
fn rules_prefer_change_and_refuse() {
    let community = |text: &str| Conditions {
        communities: vec![text.parse().unwrap()],
        ..Conditions::default()
    };
    let invalid = Conditions { validities: vec![RpkiValidation::Invalid], ..Conditions::default() };
    let edits = Edits {
        preference: Some(0),
        delete_communities: vec!["*:*".parse().unwrap()],
        ..Edits::default()
    };
    let policy = policy(vec![
        Rule { when: invalid, verdict: Verdict::Reject, edits: Edits::default() },
        Rule { when: community("graceful-shutdown"), verdict: Verdict::Accept, edits },
    ]);
    assert!(policy.asks_validity());
    let plain = attributes("64500 1", "1:1");
    let imported = policy.import(&route("10.0.0.0/8", &plain)).unwrap();
    assert_eq!((imported.preference, imported.attributes), (100, plain.clone()));
    let leaving = attributes("64500 1", "graceful-shutdown 1:2:3");
    let imported = policy.import(&route("10.0.0.0/8", &leaving)).unwrap();
    assert_eq!((imported.preference, imported.attributes), (0, attributes("64500 1", "1:2:3")));
    let invalid = Route { validity: RpkiValidation::Invalid, ..route("10.0.0.0/8", &plain) };
    assert_eq!(policy.import(&invalid), Err(Unwanted::Rule(Some(0))));
}
