//! The order of routes.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use rhumb_bgp::policy::{Candidate, Ranking, Ties};
use rustbgpd_wire::{Origin, RpkiValidation};

const PLAIN: Candidate = Candidate {
    preference: 100,
    path_length: 3,
    origin: Origin::Igp,
    med: 0,
    neighbour: 64_500,
    validity: RpkiValidation::NotFound,
    router_id: Ipv4Addr::new(10, 0, 0, 5),
};

fn order(ranking: Ranking, candidates: &[Candidate]) -> Vec<(usize, u32)> {
    ranking.rank(candidates).iter().map(|ranked| (ranked.index, ranked.class)).collect()
}

/// RFC 4271, section 9.1.2.2, as it is written: steps that eliminate, on what is left.
fn best_by_elimination(ranking: Ranking, all: &[Candidate], left: &[usize]) -> usize {
    let mut left = left.to_vec();
    let validity = |at: &usize| match all[*at].validity {
        RpkiValidation::Valid => 0,
        RpkiValidation::NotFound => 1,
        RpkiValidation::Invalid => 2,
    };
    if ranking.validity_first {
        let best = left.iter().map(validity).min().unwrap();
        left.retain(|at| validity(at) == best);
    }
    let most = left.iter().map(|at| all[*at].preference).max().unwrap();
    left.retain(|at| all[*at].preference == most);
    let shortest = left.iter().map(|at| all[*at].path_length).min().unwrap();
    left.retain(|at| all[*at].path_length == shortest);
    let lowest = left.iter().map(|at| all[*at].origin).min().unwrap();
    left.retain(|at| all[*at].origin == lowest);
    let same = left.clone();
    left.retain(|m| {
        !same.iter().any(|n| all[*n].neighbour == all[*m].neighbour && all[*n].med < all[*m].med)
    });
    let lowest = left.iter().map(|at| all[*at].router_id).min().unwrap();
    left.retain(|at| all[*at].router_id == lowest);
    left[0]
}

#[test]
fn each_step_decides_where_those_before_do_not() {
    let better = [
        Candidate { preference: 101, path_length: 9, ..PLAIN },
        Candidate { path_length: 2, origin: Origin::Incomplete, ..PLAIN },
        Candidate { med: 0, router_id: Ipv4Addr::new(10, 0, 0, 9), ..PLAIN },
        Candidate { med: 7, router_id: Ipv4Addr::new(10, 0, 0, 1), ..PLAIN },
        Candidate { med: 9, neighbour: 64_501, router_id: Ipv4Addr::new(10, 0, 0, 10), ..PLAIN },
        Candidate { origin: Origin::Egp, router_id: Ipv4Addr::new(10, 0, 0, 0), ..PLAIN },
    ];
    let places: Vec<usize> =
        order(Ranking::default(), &better).into_iter().map(|(at, _)| at).collect();
    // The one with a MED of 7 is behind that of its neighbour with 0; once
    // that is taken, its identifier is the lowest.
    assert_eq!(places, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn med_counts_only_among_routes_of_one_neighbour() {
    let high = Candidate { med: 1000, router_id: Ipv4Addr::new(10, 0, 0, 1), ..PLAIN };
    let other = Candidate { neighbour: 64_501, router_id: Ipv4Addr::new(10, 0, 0, 2), ..PLAIN };
    let low = Candidate { med: 1, router_id: Ipv4Addr::new(10, 0, 0, 3), ..PLAIN };
    let places = |candidates: &[Candidate]| -> Vec<usize> {
        Ranking::default().rank(candidates).iter().map(|ranked| ranked.index).collect()
    };
    assert_eq!(places(&[high, other]), [0, 1]);
    // Whether the first loses depends on whether the third is there.
    assert_eq!(places(&[high, other, low]), [1, 2, 0]);
}

#[test]
fn validity_is_first_where_asked_for() {
    let invalid = Candidate { validity: RpkiValidation::Invalid, preference: 300, ..PLAIN };
    let unknown = Candidate { preference: 200, ..PLAIN };
    let valid = Candidate { validity: RpkiValidation::Valid, ..PLAIN };
    let all = [invalid, unknown, valid];
    assert_eq!(order(Ranking::default(), &all), [(0, 0), (1, 1), (2, 2)]);
    let first = Ranking { validity_first: true, ..Ranking::default() };
    assert_eq!(order(first, &all), [(2, 0), (1, 1), (0, 2)]);
}

#[test]
fn the_knob_says_how_deep_ties_go() {
    let all = [
        Candidate { path_length: 1, ..PLAIN },
        Candidate { path_length: 1, origin: Origin::Incomplete, med: 5, ..PLAIN },
        Candidate { path_length: 2, ..PLAIN },
        Candidate { preference: 50, path_length: 1, ..PLAIN },
    ];
    let classes = |ties| -> Vec<u32> {
        Ranking { ties, ..Ranking::default() }
            .rank(&all)
            .iter()
            .map(|ranked| ranked.class)
            .collect()
    };
    assert_eq!(classes(Ties::PathLength), [0, 0, 1, 2]);
    assert_eq!(classes(Ties::Preference), [0, 0, 0, 1]);
    assert!(Ranking::default().rank(&[]).is_empty());
}

fn some_candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let candidate = (0..3u32, 0..3u32, 0..3u8, 0..3u32, 0..3u32, 0..3u8, 0..6u32).prop_map(
        |(preference, path_length, origin, med, neighbour, validity, router_id)| Candidate {
            preference,
            path_length,
            origin: Origin::from_u8(origin).unwrap(),
            med,
            neighbour,
            validity: [RpkiValidation::Valid, RpkiValidation::NotFound, RpkiValidation::Invalid]
                [usize::from(validity)],
            router_id: router_id.into(),
        },
    );
    proptest::collection::vec(candidate, 0..24)
}

proptest! {
    #[test]
    fn the_order_is_that_of_repeated_elimination(all in some_candidates(), validity_first: bool, deep: bool) {
        let ties = if deep { Ties::PathLength } else { Ties::Preference };
        let ranking = Ranking { validity_first, ties };
        let ranked = ranking.rank(&all);
        let mut left: Vec<usize> = (0..all.len()).collect();
        for place in &ranked {
            prop_assert_eq!(place.index, best_by_elimination(ranking, &all, &left));
            left.retain(|at| *at != place.index);
        }
        prop_assert!(left.is_empty());
        // Classes are runs of what is tied, numbered from zero without gaps.
        prop_assert!(ranked.first().is_none_or(|first| first.class == 0));
        for pair in ranked.windows(2) {
            let tied = ranking.tied(&all[pair[0].index], &all[pair[1].index]);
            prop_assert_eq!(pair[1].class - pair[0].class, u32::from(!tied));
        }
    }
}
