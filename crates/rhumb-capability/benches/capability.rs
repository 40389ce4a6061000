//! What a capability costs, in memory: nanoseconds per packet to forward without looking, to verify, to refuse and to stamp,
//! at the paper's sizes (Table 3: 68, 348 and 1500 bytes, here those of the stamped packet).
//!
//! All kinds take turns within a round, so that a noisy machine disturbs all alike; figures are medians over the rounds, and
//! a ratio is the median of the ratios within a round. Packets are verified in batches of 64 and were never seen before.
//!
//! Run by `cargo xtask bench capability`; `--json` prints one object. Takes about 10 seconds.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use rhumb_capability::{
    Capability, Carriage, Credential, Delegations, Encapsulation, Epoch, EpochKeys, Flags, Master,
    Packet, PacketIds, Principal, Scheme, Stamper, Suite, Verdict, Verifier, VerifierConfig,
    WindowClock,
};

const ROUNDS: usize = 21;
const PACKETS: usize = 4096;
const BATCH: usize = 64;
const SIZES: [usize; 3] = [68, 348, 1500];
/// In the middle of a window. Each round is 5 ms later, or the replay filter would see more than it is made for.
const START_US: u64 = 1_700_001_000_000_000;
const WAYPOINT: [u8; 4] = [192, 0, 2, 1];

/// What is compared with what, the most the ratio may be, or the most nanoseconds alone.
const TARGETS: [(&str, Option<&str>, f64); 2] = [
    ("verify header-aes 68", None, 60.0),
    ("refuse header-aes 68", Some("verify header-aes 68"), 1.2),
];

struct Series {
    label: String,
    ns: Vec<f64>,
}

/// One kind of packet: what stamps it and what takes it.
struct Kind {
    name: &'static str,
    levels: usize,
    stamper: Stamper,
    verifier: Verifier,
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut kinds = kinds();
    let mut all: Vec<Series> = Vec::new();
    let mut ids = PacketIds::new(0, 0);
    for round in 0..ROUNDS {
        let now_us = START_US + 5000 * round as u64;
        for size in SIZES {
            for kind in &mut kinds {
                for (label, ns) in measure(kind, size, &mut ids, now_us) {
                    match all.iter_mut().find(|series| series.label == label) {
                        Some(series) => series.ns.push(ns),
                        None => all.push(Series { label, ns: vec![ns] }),
                    }
                }
            }
        }
    }
    if json { print_json(&all) } else { print_text(&all) }
}

fn kinds() -> Vec<Kind> {
    [
        ("header-aes", Suite::HeaderAes, 0),
        ("header-aes, 3 levels", Suite::HeaderAes, 3),
        ("header-sip", Suite::HeaderSip, 0),
        ("packet-polyval", Suite::PacketPolyval, 0),
    ]
    .map(|(name, suite, levels)| {
        let master = Master::new([7; Master::LEN]);
        let keys = || EpochKeys::new(Epoch(1), &master);
        let mut verifier =
            Verifier::new(VerifierConfig::new(vec![WAYPOINT.into()])).expect("a configuration");
        verifier.install_epoch(keys());
        let capability = Capability {
            waypoint: WAYPOINT.into(),
            principal: Principal(9),
            flags: Flags::NONE,
            window: WindowClock::default().at(START_US),
            epoch: Epoch(1),
            suite,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        let mut credential: Credential =
            keys().mint(capability, u64::MAX).expect("a record").into();
        for level in 0..levels as u32 {
            let id = rhumb_capability::DelegationId::new(level).expect("an id");
            let prefix = "10.0.0.0/8".parse().expect("a prefix");
            credential = credential.delegate(prefix, id).expect("a delegation");
        }
        let stamper = Stamper::new(&[&credential], Encapsulation::IP).expect("a stamper");
        Kind { name, levels, stamper, verifier }
    })
    .into()
}

/// Packets in an arena, all of one size, with room before each.
struct Load {
    arena: Vec<u8>,
    packets: Vec<Packet>,
}

fn measure(kind: &mut Kind, size: usize, ids: &mut PacketIds, now_us: u64) -> Vec<(String, f64)> {
    // Three levels do not fit into 68 bytes.
    let size = size.max(20 + kind.stamper.overhead());
    let room = kind.stamper.headroom().next_multiple_of(64);
    let inner = ip_packet(size - kind.stamper.overhead());
    let stride = (room + inner.len()).next_multiple_of(64);
    let mut arena = vec![0; stride * PACKETS];
    for slot in arena.chunks_mut(stride) {
        slot[room..room + inner.len()].copy_from_slice(&inner);
    }
    let name = |what: &str| format!("{what} {} {size}", kind.name);
    let mut figures = Vec::new();
    let mut packets = Vec::with_capacity(PACKETS);
    let ns = per_packet(|| {
        for (number, slot) in arena.chunks_mut(stride).enumerate() {
            let packet = room..room + inner.len();
            let range = kind.stamper.stamp(slot, packet, ids, now_us).expect("room enough");
            packets.push(Packet::new(number * stride + range.start, range.len(), Carriage::Ip));
        }
    });
    figures.push((name("stamp"), ns));

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
    if kind.levels == 0 && kind.name == "header-aes" {
        let null = per_batch(&load, false, |arena, packets| {
            verifier.forward_unverified(arena, packets, now_us);
        });
        assert_eq!(null.1, PACKETS);
        figures.push((format!("null {size}"), null.0));
    }
    figures.push((name("verify"), taken.0));
    figures.push((name("refuse"), refused.0));
    figures
}

/// Nanoseconds per packet, and packets that were forwarded. Batches stand in an arena that is used again and again, as a
/// receiver's does; only what is done with them is timed.
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
                let at = start + 20 + usize::from(arena[start + 33]) * 4 - 1;
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

fn per_packet(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}

fn ip_packet(len: usize) -> Vec<u8> {
    let mut packet = vec![0xA5; len];
    let [high, low] = (len as u16).to_be_bytes();
    packet[..12].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    for (at, address) in [(12, [10, 0, 0, 1]), (16, [10, 0, 0, 2])] {
        let address: IpAddr = address.into();
        if let IpAddr::V4(address) = address {
            packet[at..at + 4].copy_from_slice(&address.octets());
        }
    }
    packet
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn find<'a>(all: &'a [Series], label: &str) -> &'a [f64] {
    &all.iter().find(|series| series.label == label).expect("a series").ns
}

/// What a target speaks of, and whether it holds.
fn figure(all: &[Series], label: &str, base: Option<&str>, most: f64) -> (f64, bool) {
    let values = find(all, label);
    let figure = match base {
        None => median(values),
        Some(base) => {
            let ratios: Vec<f64> = values.iter().zip(find(all, base)).map(|(a, b)| a / b).collect();
            median(&ratios)
        }
    };
    (figure, figure <= most)
}

fn print_text(all: &[Series]) {
    println!("nanoseconds per packet, medians of {ROUNDS} rounds of {PACKETS} packets");
    for series in all {
        println!("  {:<36}{:8.1}", series.label, median(&series.ns));
    }
    for (label, base, most) in TARGETS {
        let (figure, holds) = figure(all, label, base, most);
        let base = base.map_or_else(|| "ns".to_owned(), |base| format!("x {base}"));
        let verdict = if holds { "holds" } else { "missed" };
        println!("{label}: {figure:.2} {base}, at most {most}: {verdict}");
    }
}

fn print_json(all: &[Series]) {
    let figures: serde_json::Map<String, serde_json::Value> =
        all.iter().map(|series| (series.label.clone(), median(&series.ns).into())).collect();
    let targets: Vec<serde_json::Value> = TARGETS
        .iter()
        .map(|(label, base, most)| {
            let (figure, holds) = figure(all, label, *base, *most);
            serde_json::json!({
                "label": label, "base": base, "figure": figure, "most": most, "holds": holds,
            })
        })
        .collect();
    println!("{}", serde_json::json!({ "ns_per_packet": figures, "targets": targets }));
}
