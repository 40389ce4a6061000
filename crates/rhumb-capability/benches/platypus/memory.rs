//! What a capability costs in memory: nanoseconds per packet to forward without
//! looking, to verify, to refuse and to stamp, at the sizes of the paper's Table
//! 3, which here are those of the stamped packet.
//!
//! All kinds take turns within a round, so that a noisy machine disturbs all alike; figures
//! are medians over the rounds, and a ratio is the median of the ratios within a round.
//! Packets are verified in batches of 64 and were never seen before. Null forwarding reads
//! and checks all of the header, and strips it.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use rhumb_capability::{Carriage, Packet, PacketIds, Stamper, Suite, Verdict, Verifier};
use serde_json::{Value, json};

use crate::keys::{START_US, fill_replay_filter, stamper, verifier};
use crate::machine::median;
use crate::report::{Target, rounded};
use crate::traffic::{SIZES, ip_packet};

const ROUNDS: usize = 21;
/// As long as packets of all sizes of a round take at the rate that the replay filter is made for.
const ROUND_US: u64 = 12_500;
const PACKETS: usize = 4096;
const BATCH: usize = 64;
const WAYPOINT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SUITES: [(&str, Suite); 3] = [
    ("header-aes", Suite::HeaderAes),
    ("header-sip", Suite::HeaderSip),
    ("packet-polyval", Suite::PacketPolyval),
];
const MOST_LEVELS: u32 = 3;

/// Nanoseconds to verify a packet of 68 bytes, at most.
const VERIFY_NS: f64 = 60.0;
/// What a packet that fails costs in terms of one that passes, at most.
const REFUSE_OF_VERIFY: f64 = 1.2;

/// Nanoseconds per packet, a figure for each round.
#[derive(Default)]
struct Figures {
    null: Vec<f64>,
    verify: Vec<f64>,
    refuse: Vec<f64>,
    stamp: Vec<f64>,
}

/// One suite, number of levels and size.
pub(crate) struct Series {
    suite: &'static str,
    levels: u32,
    bytes: usize,
    figures: Figures,
}

/// What stamps packets and what takes them.
struct Kind {
    suite: &'static str,
    levels: u32,
    stamper: Stamper,
    verifier: Verifier,
}

/// Everything there is to measure in memory, or the suites that are named.
pub(crate) fn measure(names: &[String]) -> Vec<Series> {
    let is_named = |(suite, _): &(&str, Suite)| names.iter().any(|name| name == suite);
    let all_of_them = !SUITES.iter().any(is_named);
    let mut kinds: Vec<Kind> = SUITES
        .into_iter()
        .filter(|suite| all_of_them || is_named(suite))
        .flat_map(|(name, suite)| (0..=MOST_LEVELS).map(move |levels| (name, suite, levels)))
        .map(|(name, suite, levels)| {
            let (stamper, mut verifier) = (stamper(WAYPOINT, suite, levels), verifier(&[WAYPOINT]));
            fill_replay_filter(&mut verifier, &stamper);
            Kind { suite: name, levels, stamper, verifier }
        })
        .collect();
    let mut all: Vec<Series> = Vec::new();
    let mut ids = PacketIds::new(0, 0);
    for round in 0..ROUNDS {
        for (turn, size) in SIZES.into_iter().enumerate() {
            // Or the replay filter would see more than it is made for.
            let turns = round * SIZES.len() + turn;
            let now_us = START_US + ROUND_US * turns as u64 / SIZES.len() as u64;
            for kind in &mut kinds {
                // Three levels do not fit into 68 bytes.
                let bytes = size.max(IP_HEADER_LEN + kind.stamper.overhead());
                let is_same = |series: &Series| {
                    (series.suite, series.levels, series.bytes) == (kind.suite, kind.levels, bytes)
                };
                let at = all.iter().position(is_same).unwrap_or_else(|| {
                    let (suite, levels) = (kind.suite, kind.levels);
                    all.push(Series { suite, levels, bytes, figures: Figures::default() });
                    all.len() - 1
                });
                measure_kind(kind, bytes, &mut ids, now_us, &mut all[at].figures);
            }
        }
    }
    all
}

/// Packets in an arena, all of one size, with room before each.
struct Load {
    arena: Vec<u8>,
    packets: Vec<Packet>,
}

fn measure_kind(
    kind: &mut Kind,
    bytes: usize,
    ids: &mut PacketIds,
    now_us: u64,
    figures: &mut Figures,
) {
    let room = kind.stamper.headroom().next_multiple_of(64);
    let [from, to] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let inner = ip_packet(from, to, bytes - kind.stamper.overhead());
    let stride = (room + inner.len()).next_multiple_of(64);
    let mut arena = vec![0; stride * PACKETS];
    for slot in arena.chunks_mut(stride) {
        slot[room..room + inner.len()].copy_from_slice(&inner);
    }
    let places: Vec<_> = (0..BATCH)
        .map(|number| number * stride + room..number * stride + room + inner.len())
        .collect();
    let mut packets = Vec::with_capacity(PACKETS);
    let begin = Instant::now();
    for (first, slots) in (0..).step_by(BATCH).zip(arena.chunks_mut(stride * BATCH)) {
        kind.stamper.stamp_batch(slots, &places, ids, now_us, |_, stamped| {
            let place = stamped.expect("room enough");
            packets.push(Packet::new(first * stride + place.start, place.len(), Carriage::Ip));
        });
    }
    figures.stamp.push(begin.elapsed().as_nanos() as f64 / PACKETS as f64);

    let load = Load { arena, packets };
    let verifier = &mut kind.verifier;
    let refused = per_batch(&load, true, |arena, packets| {
        verifier.verify_batch(arena, packets, now_us);
    });
    assert_eq!(refused.1, 0, "a packet with a wrong binding passed");
    let taken = per_batch(&load, false, |arena, packets| {
        verifier.verify_batch(arena, packets, now_us);
    });
    assert_eq!(taken.1, PACKETS, "a good packet was dropped");
    let null = per_batch(&load, false, |arena, packets| {
        verifier.forward_unverified(arena, packets, now_us);
    });
    assert_eq!(null.1, PACKETS, "a good packet was dropped");
    figures.null.push(null.0);
    figures.verify.push(taken.0);
    figures.refuse.push(refused.0);
}

/// Nanoseconds per packet, and packets that were forwarded. Batches stand in an arena that is used
/// again and again, as a receiver's does; only what is done with them is timed.
fn per_batch(
    load: &Load,
    spoilt: bool,
    mut handle: impl FnMut(&mut [u8], &mut [Packet]),
) -> (f64, usize) {
    let stride = load.arena.len() / PACKETS;
    let mut arena = vec![0; stride * BATCH];
    let mut batch = Vec::with_capacity(BATCH);
    let (mut elapsed, mut forwarded) = (Duration::ZERO, 0);
    for (slots, packets) in load.arena.chunks(stride * BATCH).zip(load.packets.chunks(BATCH)) {
        arena.copy_from_slice(slots);
        batch.clear();
        for packet in packets {
            let start = packet.start % arena.len();
            batch.push(Packet { start, ..*packet });
            if spoilt {
                // The last byte of the binding of the one capability.
                let at = start + IP_HEADER_LEN + usize::from(arena[start + 33]) * 4 - 1;
                arena[at] ^= 1;
            }
        }
        let begin = Instant::now();
        handle(&mut arena, &mut batch);
        elapsed += begin.elapsed();
        let is_forwarded = |packet: &&Packet| matches!(packet.verdict, Verdict::Forward(_));
        forwarded += batch.iter().filter(is_forwarded).count();
    }
    black_box(&arena);
    (elapsed.as_nanos() as f64 / PACKETS as f64, forwarded)
}

/// What the figures are to be, of the suite that is the default,
/// without delegations, at the paper's worst case.
pub(crate) fn targets(all: &[Series]) -> Vec<Target> {
    let is_meant = |series: &&Series| {
        (series.suite, series.levels, series.bytes) == (SUITES[0].0, 0, SIZES[0])
    };
    let Some(Series { figures, .. }) = all.iter().find(is_meant) else { return Vec::new() };
    let ratios = figures.refuse.iter().zip(&figures.verify).map(|(refuse, verify)| refuse / verify);
    vec![
        Target::at_most("verify_ns_68", median(figures.verify.iter().copied()), VERIFY_NS),
        Target::at_most("refuse_of_verify_68", median(ratios), REFUSE_OF_VERIFY),
    ]
}

impl Series {
    fn row(&self) -> [(&'static str, f64); 4] {
        let Figures { null, verify, refuse, stamp } = &self.figures;
        [("null", null), ("verify", verify), ("refuse", refuse), ("stamp", stamp)]
            .map(|(name, values)| (name, median(values.iter().copied())))
    }

    pub(crate) fn json(&self) -> Value {
        let mut row = json!({ "suite": self.suite, "levels": self.levels, "bytes": self.bytes });
        for (name, ns) in self.row() {
            row[format!("{name}_ns")] = rounded(ns).into();
        }
        row
    }
}

pub(crate) fn print_text(all: &[Series]) {
    println!("in memory: ns per packet, medians of {ROUNDS} rounds of {PACKETS} packets");
    println!("suite           levels  bytes    null  verify  refuse   stamp");
    for series in all {
        let Series { suite, levels, bytes, .. } = series;
        let [null, verify, refuse, stamp] = series.row().map(|(_, ns)| ns);
        println!(
            "{suite:<15} {levels:>6} {bytes:>6} {null:>7.1} {verify:>7.1} {refuse:>7.1} {stamp:>7.1}"
        );
    }
}

const IP_HEADER_LEN: usize = 20;
