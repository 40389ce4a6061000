//! Privacy of shares, by exact enumeration of all coins for two routes, two members and keys of a
//! bit: what either party gets from members has the same distribution whatever the policies, keys
//! and rankings are; and with a member that may have none of the routes, whatever the keys are.
//! What the engine opens is enumerated in `rhumb-mpc`.

use std::collections::BTreeMap;

use crate::member::rounds::masked;
use crate::roster::{Lane, LaneSet};
use crate::route::mask;

/// Two members, two routes.
const M: usize = 2;
const R: usize = 2;
/// Of secrets: policies, keys, rankings. Each lane of a route has
/// a share of the key, so there are more coins.
const SECRETS: usize = R * M + R + M * R;
const COINS: usize = R * M + R * M + M * R;

/// What a party gets: its shares of each route's policy and of its key
/// for each lane, and of each member's ranking.
type View = (Vec<(u64, Vec<u128>)>, Vec<u8>);

fn bits(value: usize, from: usize, count: usize) -> usize {
    value >> from & ((1 << count) - 1)
}

/// Both parties' views, where all secrets and all coins are bits of a number.
fn views(secrets: usize, coins: usize) -> [View; 2] {
    let mut views: [View; 2] = Default::default();
    for route in 0..R {
        let at = route * M;
        let mut policy = LaneSet::none(M);
        (0..M).filter(|lane| bits(secrets, at + lane, 1) == 1).for_each(|lane| {
            policy.insert(Lane(lane as u16));
        });
        let mut row = vec![bits(coins, at, M) as u64];
        let coin = |lane| bits(coins, R * M + at + lane, 1) as u128;
        let mut keys: Vec<u128> = (0..M).map(coin).collect();
        views[0].0.push((row[0], keys.clone()));
        mask(&mut row, &mut keys, &policy, bits(secrets, R * M + route, 1) as u128);
        views[1].0.push((row[0], keys));
    }
    for member in 0..M {
        let (secret, coin) = (R * M + R + member * R, 2 * R * M + member * R);
        let (mask, mut ranking) = (bits(coins, coin, R) as u8, [bits(secrets, secret, R) as u8]);
        masked(&mut ranking, &[mask]);
        views[0].1.push(mask);
        views[1].1.push(ranking[0]);
    }
    views
}

fn histogram(secrets: usize, party: usize) -> BTreeMap<View, u32> {
    let mut histogram = BTreeMap::new();
    for coins in 0..1 << COINS {
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
        assert_eq!(first.len(), 1 << COINS);
        for secrets in (0..1 << SECRETS).step_by(7) {
            assert!(histogram(secrets, party) == first, "party {party}, secrets {secrets}");
        }
    }
}

/// All that a party gets, and what the other one hands out of both routes to a member of the first.
fn with_seat(secrets: usize, party: usize, seat: usize) -> BTreeMap<(View, Vec<u128>), u32> {
    let mut histogram = BTreeMap::new();
    for coins in 0..1 << COINS {
        let [one, two] = views(secrets, coins);
        let (mine, other) = if party == 0 { (one, two) } else { (two, one) };
        let handed_out = other.0.iter().map(|(_, keys)| keys[seat]).collect();
        *histogram.entry((mine, handed_out)).or_default() += 1;
    }
    histogram
}

/// Whatever it computes with that: it does not have the key.
#[test]
fn a_party_with_a_member_has_no_key_of_a_route_that_the_member_may_not_have() {
    for party in [0, 1] {
        // The other member may have both routes, or one, or none.
        for policy in [0b10_10, 0b10_00, 0b00_00] {
            let keys = [0b00, 0b01, 0b10, 0b11].map(|keys| policy | keys << (R * M));
            let all = keys.map(|secrets| with_seat(secrets, party, 0));
            assert!(all.iter().all(|one| *one == all[0]), "party {party}, policy {policy:b}");
        }
        // Of a route that it may have it has the key, and of the other one not.
        let [first, second, both] =
            [0b00, 0b01, 0b10].map(|keys| with_seat(0b00_01 | keys << (R * M), party, 0));
        assert!(first != second && first == both);
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
            .map(|(one, two)| (one.0 ^ two.0, one.1[0] ^ two.1[0]))
            .collect::<Vec<_>>()
    };
    assert_eq!(opened(0b10_01_10_11_01, 0), opened(0b10_01_10_11_01, 777));
    assert_ne!(opened(0b10_01_10_11_01, 0), opened(0b10_01_10_11_11, 0));
}
