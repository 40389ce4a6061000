//! The whole exchange on tables and policies of a real one: each member holds what its peers let it
//! have, and is given what a route server would choose that sees everything.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use rhumb_exchange::{Form, RouteId};

use crate::world::{Random, World, destination, small};

/// Members of the matrix, and those of them that are lanes here.
const MEMBERS: usize = 314;
const LANES: usize = 70;

/// Whether a row's member lets a column's have its routes.
fn policies() -> Vec<Vec<bool>> {
    let rows = include_str!("data/ixbr-policy.txt").lines().map(|line| {
        let digits = line.chars().map(|digit| digit.to_digit(16).unwrap());
        let bits = digits.flat_map(|digit| (0..4).rev().map(move |bit| digit >> bit & 1 == 1));
        bits.skip(4 * line.len() - MEMBERS).collect()
    });
    rows.collect()
}

/// By prefix and announcer, the AS path. Announcers are lanes in the order in which they appear.
fn table(text: &str) -> BTreeMap<(String, u16), String> {
    let mut announcers: BTreeMap<String, u16> = BTreeMap::new();
    let mut table = BTreeMap::new();
    for line in text.lines() {
        let (prefix, path) = line.split_once(' ').unwrap();
        let (first, next) = (path.split(' ').next().unwrap(), announcers.len() as u16);
        let announcer = *announcers.entry(first.to_owned()).or_insert(next);
        if usize::from(announcer) < LANES {
            table.entry((prefix.to_owned(), announcer)).or_insert(path.to_owned());
        }
    }
    table
}

/// A member prefers short paths, and some members more than others.
fn class(member: u16, announcer: u16, path: &str) -> u8 {
    let liking = Random(u64::from(member) * 1000 + u64::from(announcer)).below(4);
    (11 + liking).saturating_sub(path.split(' ').count()).clamp(1, 15) as u8
}

fn check(text: &str, form: Form) {
    let (policies, table) = (policies(), table(text));
    let permits = |from: u16, to: u16| from != to && policies[usize::from(from)][usize::from(to)];
    let mut config = small(LANES, form, 2);
    config.batch = 16;
    config.engine.vector_words = config.engine.vector_words.max(256);
    let mut world = World::with(config, 11);
    let load: Vec<u8> = (0..LANES as u64).map(|lane| Random(lane).below(16) as u8).collect();
    world.prefer(&load);
    world.settle();
    let known: Rc<RefCell<HashMap<RouteId, (u16, String)>>> = Rc::default();
    for lane in 0..LANES as u16 {
        let known = Rc::clone(&known);
        world.rank_by(lane, move |candidate| {
            let known = known.borrow();
            let (announcer, path) = &known[&candidate.id];
            assert_eq!(*announcer, candidate.from.0);
            class(lane, *announcer, path)
        });
    }
    let mut ids = HashMap::new();
    for ((prefix, from), path) in &table {
        let lanes: Vec<u16> = (0..LANES as u16).filter(|to| permits(*from, *to)).collect();
        let id = world.announce(*from, prefix.as_bytes(), &lanes, path.as_bytes());
        known.borrow_mut().insert(id, (*from, path.clone()));
        ids.insert((prefix.clone(), *from), id);
    }
    world.pass(Duration::from_secs(5));
    let prefixes: std::collections::BTreeSet<&String> =
        table.keys().map(|(prefix, _)| prefix).collect();
    let (mut held, mut chosen) = (0, 0);
    for lane in 0..LANES as u16 {
        let mine = table.iter().filter(|((_, from), _)| permits(*from, lane));
        let mut expected: Vec<_> = mine
            .map(|((prefix, from), path)| {
                let id = ids[&(prefix.clone(), *from)];
                (destination(prefix.as_bytes()), *from, id, path.as_bytes().to_vec())
            })
            .collect();
        expected.sort();
        assert_eq!(world.offered(lane), expected, "lane {lane}");
        held += expected.len();
        for prefix in &prefixes {
            let all: Vec<u16> = (0..LANES as u16)
                .filter(|from| table.contains_key(&((*prefix).clone(), *from)))
                .collect();
            let best = all.iter().filter(|from| permits(**from, lane)).max_by_key(|from| {
                let path = &table[&((*prefix).clone(), **from)];
                (class(lane, **from, path), load[usize::from(**from)], Reverse(**from))
            });
            if let (Some(best), true) = (best, all.len() > 1) {
                let best = ids[&((*prefix).clone(), *best)];
                assert_eq!(
                    world.selected(lane, prefix.as_bytes()),
                    Some(Some(best)),
                    "{lane}, {prefix}"
                );
                chosen += 1;
            }
        }
    }
    println!("{form:?}: {} routes, {held} held by {LANES} members, {chosen} chosen", table.len());
    assert!(held > 1000 && chosen > 200, "{held} {chosen}");
}

#[test]
fn a_table_with_many_routes_to_a_prefix() {
    check(include_str!("data/ixbr-ipv6.txt"), Form::TopClass);
}

#[test]
fn the_circuit_that_compares_gives_the_same() {
    let text = include_str!("data/ixbr-ipv6.txt");
    let some: Vec<&str> = text.lines().take(100).collect();
    check(&some.join("\n"), Form::Index);
}
