//! The circuits on tables and policies of real exchanges: all forms choose
//! what a route server would that sees everything.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;

use rhumb_exchange::circuits::oracle::{self, Preference};
use rhumb_exchange::circuits::{Choice, SelectBest};
use rhumb_mpc::OrderSlot;

use crate::pair::{ClearRoute, Pair, Random};

/// Members of the matrix.
const MEMBERS: usize = 314;
const SLOT: OrderSlot = OrderSlot(3);

/// Row by row: whether a row's member lets a column's have its routes.
fn policies() -> Vec<Vec<bool>> {
    let lines = include_str!("data/ixbr-policy.txt").lines();
    let rows: Vec<Vec<bool>> = lines
        .map(|line| {
            let digits = line.chars().map(|digit| digit.to_digit(16).unwrap());
            let bits = digits.flat_map(|digit| (0..4).rev().map(move |bit| digit >> bit & 1 == 1));
            bits.skip(4 * line.len() - MEMBERS).collect()
        })
        .collect();
    let ones = rows.iter().flatten().filter(|bit| **bit).count();
    assert_eq!((rows.len(), ones * 10_000 / (MEMBERS * MEMBERS)), (MEMBERS, 946));
    rows
}

/// Prefixes with their routes: announcer, AS path's length.
fn prefixes(table: &str) -> Vec<Vec<(usize, usize)>> {
    let mut announcers: BTreeMap<String, usize> = BTreeMap::new();
    let mut prefixes: Vec<(String, Vec<(usize, usize)>)> = Vec::new();
    for line in table.lines() {
        let (prefix, path) = line.split_once(' ').unwrap();
        let (first, next) = (path.split(' ').next().unwrap(), announcers.len());
        let announcer = *announcers.entry(first.to_owned()).or_insert(next);
        let route = (announcer, path.split(' ').count());
        match prefixes.last_mut().filter(|(last, _)| last == prefix) {
            Some((_, routes)) => routes.push(route),
            None => prefixes.push((prefix.to_owned(), vec![route])),
        }
    }
    prefixes.into_iter().map(|(_, routes)| routes).collect()
}

/// A member prefers short paths, and some members more than others.
fn class(member: usize, (announcer, path): (usize, usize)) -> u8 {
    let liking = Random((member * 1000 + announcer) as u64).below(4) as usize;
    (11 + liking).saturating_sub(path).clamp(1, 15) as u8
}

fn load(announcer: usize) -> u8 {
    Random(announcer as u64).below(16) as u8
}

/// What each member gets of a prefix, from everything in the clear.
fn expected(routes: &[(usize, usize)], policies: &[Vec<bool>]) -> Vec<Option<usize>> {
    let of = |member: usize| {
        let mut best: Option<(u8, u8, usize)> = None;
        for (place, route) in routes.iter().enumerate() {
            let rank = (class(member, *route), load(route.0));
            let is_better = best.is_none_or(|(class, load, _)| rank > (class, load));
            if policies[route.0][member] && is_better {
                best = Some((rank.0, rank.1, place));
            }
        }
        best.map(|(.., place)| place)
    };
    (0..MEMBERS).map(of).collect()
}

fn check(pair: &mut Pair, routes: &[(usize, usize)], policies: &[Vec<bool>], with_paper: bool) {
    let expected = expected(routes, policies);
    let mut random = Random(routes.len() as u64);
    let compared: Vec<ClearRoute> = routes
        .iter()
        .map(|route| ClearRoute {
            policy: policies[route.0].clone(),
            ranking: (0..MEMBERS).map(|member| class(member, *route)).collect(),
            load: vec![load(route.0); MEMBERS],
            keys: Vec::new(),
        })
        .collect();
    for (member, expected) in expected.iter().enumerate() {
        let seen: Vec<Preference> = compared
            .iter()
            .map(|route| Preference {
                permitted: route.policy[member],
                class: route.ranking[member],
                load: route.load[member],
            })
            .collect();
        assert_eq!((oracle::index(&seen), oracle::paper(&seen)), (*expected, *expected));
    }
    let is_place = |choices: Vec<Choice>| {
        for (choice, expected) in choices.into_iter().zip(&expected) {
            assert_eq!(choice, expected.map_or(Choice::Nothing, Choice::Place));
        }
    };
    let circuit = SelectBest::index(routes.len()).unwrap();
    is_place(pair.select(&circuit, &compared, &mut random));

    // The exchange's order, and what members say of their best class of those that they may have.
    let circuit = SelectBest::top_class(routes.len(), SLOT).unwrap();
    let mut order: Vec<u32> = (0..circuit.places() as u32).collect();
    order.sort_by_key(|place| {
        std::cmp::Reverse(routes.get(*place as usize).map(|route| load(route.0)))
    });
    pair.install(SLOT, &order);
    let best: Vec<u8> = (0..MEMBERS)
        .map(|member| {
            let permitted = compared.iter().filter(|route| route.policy[member]);
            permitted.map(|route| route.ranking[member]).max().unwrap_or(0)
        })
        .collect();
    let wanted: Vec<ClearRoute> = compared
        .iter()
        .map(|route| {
            let is_best = route.ranking.iter().zip(&best).map(|(class, best)| class == best);
            ClearRoute {
                policy: route.policy.clone(),
                ranking: is_best.map(u8::from).collect(),
                ..ClearRoute::default()
            }
        })
        .collect();
    is_place(pair.select(&circuit, &wanted, &mut random));

    if with_paper {
        let with_keys: Vec<ClearRoute> = compared
            .iter()
            .map(|route| ClearRoute { keys: vec![random.wide(); MEMBERS], ..route.clone() })
            .collect();
        let circuit = SelectBest::paper(routes.len()).unwrap();
        let choices = pair.select(&circuit, &with_keys, &mut random);
        for (choice, expected) in choices.into_iter().zip(&expected) {
            let key = expected.map(|place| with_keys[place].keys[0]);
            assert_eq!(choice, key.map_or(Choice::Nothing, Choice::Key));
        }
    }
}

#[test]
fn many_routes_per_prefix() {
    let (mut pair, policies) = (Pair::new(), policies());
    let prefixes = prefixes(include_str!("data/ixbr-ipv6.txt"));
    assert_eq!(prefixes.iter().map(Vec::len).max(), Some(10));
    for (number, routes) in prefixes.iter().enumerate() {
        check(&mut pair, routes, &policies, number % 8 == 0);
    }
}

#[test]
fn many_announcers() {
    let (mut pair, policies) = (Pair::new(), policies());
    for routes in prefixes(include_str!("data/ixbr-ipv4.txt")) {
        check(&mut pair, &routes, &policies, true);
    }
}

/// Every prefix with several routes of the tables that the excerpts are from, made by the same rule
/// without steps. To be run optimized: `RHUMB_IXBR_TABLE=FILE cargo test --release -p
/// rhumb-exchange --test all real_tables -- --ignored`.
#[test]
#[ignore = "takes a table that is not in the repository, and minutes"]
fn a_whole_table() {
    let file = std::env::var("RHUMB_IXBR_TABLE").unwrap();
    let table = std::fs::read_to_string(file).unwrap();
    let (mut pair, policies) = (Pair::new(), policies());
    let prefixes = prefixes(&table);
    for routes in &prefixes {
        check(&mut pair, routes, &policies, true);
    }
    println!("{} prefixes", prefixes.len());
}
