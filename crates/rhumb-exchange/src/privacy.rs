//! Privacy of shares, by exact enumeration of all coins for two routes, two members and keys of a bit: what either party gets from members
//! has the same distribution whatever the policies, keys and rankings are. What the engine opens is enumerated in `rhumb-mpc`.

use std::collections::BTreeMap;

use crate::member::rounds::masked;
use crate::roster::{Lane, LaneSet};
use crate::route::Share;

/// Two members, two routes.
const M: usize = 2;
const R: usize = 2;
/// Policies, keys, rankings.
const BITS: usize = R * M + R + M * R;

/// What a party gets: its shares of each route's policy and key, and of each member's ranking.
type View = (Vec<(u64, u128)>, Vec<u8>);

fn bits(value: usize, from: usize, count: usize) -> usize {
    value >> from & ((1 << count) - 1)
}

/// Both parties' views, where all secrets and all coins are bits of a number.
fn views(secrets: usize, coins: usize) -> [View; 2] {
    let mut views: [View; 2] = Default::default();
    for route in 0..R {
        let (policy_at, key_at) = (route * M, R * M + route);
        let mask = Share {
            policy: vec![bits(coins, policy_at, M) as u64],
            beyond: Vec::new(),
            key: bits(coins, key_at, 1) as u128,
        };
        let mut policy = LaneSet::none(M);
        (0..M).filter(|lane| bits(secrets, policy_at + lane, 1) == 1).for_each(|lane| {
            policy.insert(Lane(lane as u16));
        });
        let masked = mask.clone().masking(&policy, bits(secrets, key_at, 1) as u128);
        for (view, share) in views.iter_mut().zip([mask, masked]) {
            view.0.push((share.policy[0], share.key));
        }
    }
    for member in 0..M {
        let at = R * M + R + member * R;
        let (mask, mut ranking) = (bits(coins, at, R) as u8, [bits(secrets, at, R) as u8]);
        masked(&mut ranking, &[mask]);
        views[0].1.push(mask);
        views[1].1.push(ranking[0]);
    }
    views
}

fn histogram(secrets: usize, party: usize) -> BTreeMap<View, u32> {
    let mut histogram = BTreeMap::new();
    for coins in 0..1 << BITS {
        let [one, two] = views(secrets, coins);
        *histogram.entry(if party == 0 { one } else { two }).or_default() += 1;
    }
    histogram
}

#[test]
fn a_partys_shares_are_uniform_whatever_the_secrets() {
    for party in [0, 1] {
        let first = histogram(0, party);
        // Uniform: each of all views once.
        assert_eq!(first.len(), 1 << BITS);
        for secrets in (0..1 << BITS).step_by(7) {
            assert!(histogram(secrets, party) == first, "party {party}, secrets {secrets}");
        }
    }
}

/// Both together see everything: the enumeration would see a leak.
#[test]
fn both_parties_together_see_the_secrets() {
    let opened = |secrets, coins| {
        let [one, two] = views(secrets, coins);
        one.0
            .iter()
            .zip(&two.0)
            .map(|(one, two)| (one.0 ^ two.0, one.1 ^ two.1))
            .collect::<Vec<_>>()
    };
    assert_eq!(opened(0b10_01_10_11_01, 0), opened(0b10_01_10_11_01, 777));
    assert_ne!(opened(0b10_01_10_11_01, 0), opened(0b10_01_10_11_11, 0));
}
