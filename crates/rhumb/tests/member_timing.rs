//! When a real proxy speaks to the parties says nothing about its routes,
//! whatever it thinks about them and for how long.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::Duration;

use rhumb_exchange::Party;

use crate::exchanging::Exchange;
use crate::exchanging::parties::{Frame, Parties};
use crate::exchanging::proxy::{self, Settings};
use crate::exchanging::router::attributes;

/// The proxy that is watched, and those who announce to it.
const PROXY: u16 = 2;
const ANNOUNCERS: [u16; 2] = [0, 1];

/// A policy that takes long to be gone through.
fn long_policy() -> String {
    let rule = |number: u32| {
        let asn = 4_200_000_000 + number;
        format!("[[member.import.rule]]\npath = [\"_{asn}_\"]\naction = \"reject\"\n")
    };
    (0..2000).map(rule).collect()
}

/// When both answers to a question came after it, each in
/// microseconds behind the later of both questions.
fn answers(frames: &[Frame]) -> Option<[i64; 2]> {
    let last = |party: Party, kind: u8, is_proxys: bool| {
        let mut frames = frames.iter().rev().filter(|it| it.is_proxys == is_proxys);
        frames.find(|it| it.party == party && it.bytes[0] == kind).map(|it| it.at)
    };
    let asked = last(Party::One, 8, false)?.max(last(Party::Two, 8, false)?);
    let behind = |party| {
        let at = last(party, 7, true)?;
        (at > asked).then(|| (at - asked).as_micros() as i64)
    };
    Some([behind(Party::One)?, behind(Party::Two)?])
}

/// How well one side is told from the other by what is
/// greater: 0.5 is not at all, 0 and 1 are always.
fn told_apart(left: &[i64], right: &[i64]) -> f64 {
    let wins = left.iter().flat_map(|a| right.iter().map(move |b| f64::from(a.cmp(b) as i8 + 1)));
    wins.sum::<f64>() / (2 * left.len() * right.len()) as f64
}

#[test]
fn a_proxy_answers_as_late_for_routes_that_it_may_have_as_for_others() {
    let exchange = Exchange::new(3);
    let parties = Parties::start(&exchange, 3);
    parties.act(|core| ANNOUNCERS.into_iter().for_each(|lane| core.start_member(lane)));
    let servers = parties.servers(&exchange);
    let import = long_policy();
    let settings = Settings { servers: &servers, import: &import, ..Settings::default() };
    let proxy = proxy::start(&exchange, PROXY, &settings);
    proxy.wait_for("table", |status| status["exchange"]["synced"] == true);

    let mut number = 0_u32;
    let mut told_apart_by = || {
        let mut seen = [Vec::new(), Vec::new()];
        for _ in 0..2 * SAMPLES {
            // Which is which has no pattern in time.
            let may_have = ((number * 7 + number / 5) % 2) as usize;
            let to: &[u16] = if may_have == 1 { &[PROXY] } else { &[] };
            let place = vec![0, 4, 24, 10, (number >> 8) as u8, number as u8];
            let before = parties.frames().len();
            for from in ANNOUNCERS {
                let asn = 64500 + u32::from(from);
                let attributes = attributes(asn, &[64600 + number, 64700], &[]);
                let route = [&[1, 10, 0, 0, from as u8][..], attributes.canonical()].concat();
                parties.announce(from, place.clone(), to, route);
            }
            let late = parties.wait_for("answer", |frames| answers(&frames[before..]));
            seen[may_have].push(late);
            number += 1;
            // What it thinks now is not to be in the way of the next.
            std::thread::sleep(Duration::from_millis(40));
        }
        let of = |side: &[[i64; 2]], party: usize| side.iter().map(|it| it[party]).collect();
        let apart = [0, 1].map(|party| {
            let [without, with]: [Vec<i64>; 2] = seen.each_ref().map(|side| of(side, party));
            told_apart(&with, &without)
        });
        println!("told apart by parties one and two: {apart:.2?}");
        apart.map(|apart| (0.5 - apart).abs()).into_iter().fold(0.0, f64::max)
    };
    // On a busy machine, that what is late happens to be on one side; not again and again.
    let is_alike = (0..ATTEMPTS).any(|_| told_apart_by() < MOST);
    let status = proxy.status();
    assert!(status["counters"]["offered"].as_u64().unwrap() >= u64::from(SAMPLES) / 2);
    assert!(is_alike, "answers tell which routes it may have: {status:#}");
}

/// Of each kind.
const SAMPLES: u32 = 50;
/// By chance one attempt of two thousand tells them apart better than this, if nothing does.
const MOST: f64 = 0.2;
const ATTEMPTS: usize = 3;
