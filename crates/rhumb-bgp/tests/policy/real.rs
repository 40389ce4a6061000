//! Matchers against real routes: a table of an exchange in Johannesburg, and messages of one in
//! London. Each is compared with what the numbers say.

use std::collections::BTreeMap;

use rhumb_bgp::policy::path::path_text;
use rhumb_bgp::policy::rpki::origin_of;
use rhumb_bgp::policy::{
    Candidate, Community, CommunityPattern, PathPattern, PrefixRange, PrefixSet, Ranking, Route,
    Vrp, Vrps,
};
use rustbgpd_wire::{AsPath, AsPathSegment, PathAttribute, Prefix, RpkiValidation};

use super::mrt::{Archived, routes};

const ARCHIVES: [&str; 2] =
    ["route-views.jinx.ribs.1401487200.bz2", "bgpdump.updates.20070211.0141.gz"];
/// Of each archive: enough for every kind of path in it, and a second of work.
const MOST: usize = 60_000;

fn path(route: &Archived) -> &AsPath {
    let path = route.attributes.iter().find_map(|attribute| match attribute {
        PathAttribute::AsPath(path) => Some(path),
        _ => None,
    });
    path.unwrap()
}

fn archives() -> Vec<Archived> {
    ARCHIVES.iter().filter_map(|name| routes(name, MOST)).flatten().collect()
}

#[test]
fn expressions_match_real_paths_as_their_numbers_say() {
    let routes = archives();
    let has_set =
        |path: &AsPath| path.segments.iter().any(|it| matches!(it, AsPathSegment::AsSet(_)));
    type Says = fn(&AsPath) -> bool;
    let table: [(&str, Says); 8] = [
        ("_3356_", |path| path.contains_asn(3356)),
        ("^(6939|37271)_", |path| matches!(path.asns().next(), Some(6939 | 37_271))),
        ("_(701|702|703)_", |path| path.asns().any(|asn| matches!(asn, 701..=703))),
        ("[701-1299]", |path| path.asns().any(|asn| (701..=1299).contains(&asn))),
        ("_[64512-65534]_", |path| path.asns().any(|asn| (64_512..=65_534).contains(&asn))),
        ("[65536-4294967295]", |path| path.asns().any(|asn| asn > 65_535)),
        ("\\{", |path| path.segments.iter().any(|it| matches!(it, AsPathSegment::AsSet(_)))),
        (
            "^[0-9]+$",
            |path| matches!(&path.segments[..], [AsPathSegment::AsSequence(one)] if one.len() == 1),
        ),
    ];
    let mut found = [0; 8];
    for (at, (text, says)) in table.iter().enumerate() {
        let pattern: PathPattern = text.parse().unwrap();
        for route in &routes {
            let expected = says(path(route));
            assert_eq!(
                pattern.matches(path(route)),
                expected,
                "{text} and {}",
                path_text(path(route))
            );
            found[at] += usize::from(expected);
        }
    }
    // Real routes have all of that, or the comparison would be of nothing.
    assert!(
        routes.is_empty() || found.iter().filter(|count| **count > 0).count() >= 6,
        "{found:?}"
    );
    let sets = routes.iter().filter(|route| has_set(path(route))).count();
    println!("{} routes, {sets} with sets, matches {found:?}", routes.len());
}

#[test]
fn communities_of_real_routes_are_matched_and_written() {
    let routes = archives();
    let pattern: CommunityPattern = "3356:*".parse().unwrap();
    let mut found = 0;
    for route in &routes {
        for community in Community::of(&route.attributes) {
            assert_eq!(community.to_string().parse(), Ok(community));
            let expected = matches!(community, Community::Standard(it) if it >> 16 == 3356);
            assert_eq!(pattern.matches(community), expected);
            found += 1;
        }
    }
    assert!(routes.is_empty() || found > 1000, "{found} communities");
}

#[test]
fn prefixes_of_real_routes_are_found_and_validated() {
    let routes = archives();
    let mut prefixes: Vec<Prefix> = routes.iter().map(|route| route.prefix).collect();
    prefixes.sort();
    prefixes.dedup();
    // Every third is in the list, with what is in it.
    let listed: Vec<Prefix> = prefixes.iter().copied().step_by(3).collect();
    let set: PrefixSet = listed.iter().map(|prefix| PrefixRange::exact(*prefix)).collect();
    for prefix in &prefixes {
        assert_eq!(set.contains(*prefix), listed.binary_search(prefix).is_ok());
    }
    // All routes' origins are said to be right; then what is
    // seen is valid, and under another AS it is not.
    let origin = |route: &Archived| origin_of(path(route), route.peer);
    let vrps = routes
        .iter()
        .filter_map(|route| Vrp::new(route.prefix, route.prefix.prefix_len(), origin(route)?));
    let vrps = Vrps::new(&vrps.collect());
    for route in &routes {
        let state = vrps.validate(route.prefix, origin(route));
        let by_set = origin(route).is_none();
        assert!(
            state == RpkiValidation::Valid || by_set || origin(route) == Some(0),
            "{}",
            route.prefix
        );
        assert_ne!(vrps.validate(route.prefix, Some(4_294_967_294)), RpkiValidation::Valid);
    }
}

#[test]
fn real_routes_to_one_destination_have_an_order() {
    let mut by_prefix: BTreeMap<Prefix, Vec<Archived>> = BTreeMap::new();
    for route in archives() {
        by_prefix.entry(route.prefix).or_default().push(route);
    }
    let mut several = 0;
    for routes in by_prefix.values().filter(|routes| routes.len() > 1) {
        several += 1;
        let candidate = |route: &Archived| {
            let route = Route {
                prefix: route.prefix,
                attributes: &route.attributes,
                next_hop: None,
                announcer: rhumb_bgp::policy::Member(0),
                announcer_asn: route.peer,
                validity: RpkiValidation::NotFound,
            };
            Candidate::new(&route, 100, route.announcer_asn.into())
        };
        let candidates: Vec<Candidate> = routes.iter().map(candidate).collect();
        let ranked = Ranking::default().rank(&candidates);
        let shortest = candidates.iter().map(|it| it.path_length).min().unwrap();
        assert_eq!(candidates[ranked[0].index].path_length, shortest);
        let first_class = ranked.iter().filter(|it| it.class == 0).count();
        assert_eq!(first_class, candidates.iter().filter(|it| it.path_length == shortest).count());
    }
    println!("{several} destinations with several routes");
}
