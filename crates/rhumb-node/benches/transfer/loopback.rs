//! What a file costs from node to node over one router on loopback, against the same bytes over
//! bare sockets, and beside others for scale.
//!
//! Three threads share the cores: sending node, router, receiving node. The bare run moves
//! datagrams of the same size in the same batches over the same two hops, one thread, without keys,
//! names, acknowledgements or files: what remains of a transfer when all that this suite adds is
//! taken away. Files are encrypted from end to end beside the hops, and hashed at the receiver. All
//! runs alternate; ratios are of CPU time, which other load on the machine moves less than it moves
//! the wall clock.

use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_wire::Batch;

use crate::flows::{Flow, Progress};
use crate::machine::median;
use crate::place::Place;
use crate::report::{Report, Target};

/// Who is looked at; the first is held against the bare sockets.
const FLOWS: [Flow; 3] = [Flow::File, Flow::Tcp("cubic"), Flow::Quic("cubic")];

pub(crate) fn run(report: &mut Report) {
    report.condition(
        "loopback",
        format!("node, router and node on three threads, UDP over IPv4; {ROUNDS} rounds of {} MB each, alternating; medians", FILE_BYTES / 1_000_000),
    );
    let place = Place::loopback();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let flows =
            FLOWS.map(|flow| Run::of(|| flow.run(&place, FILE_BYTES, &Progress::default())));
        rounds.push((flows, Run::of(bare)));
    }
    for (at, flow) in FLOWS.iter().enumerate() {
        figures(flow.name(), rounds.iter().map(|(flows, _)| &flows[at]), report);
    }
    figures("bare", rounds.iter().map(|(_, bare)| bare), report);
    let ratio = median(
        rounds.iter().map(|(flows, bare)| flows[0].cpu.as_secs_f64() / bare.cpu.as_secs_f64()),
    );
    report.target(Target::at_most("cpu_against_bare".into(), ratio, AT_MOST));
}

fn figures<'a>(name: &str, runs: impl Iterator<Item = &'a Run> + Clone, report: &mut Report) {
    let bytes = FILE_BYTES as f64;
    let mb_per_s = median(runs.clone().map(|run| bytes / 1e6 / run.wall.as_secs_f64()));
    let cpu_s_per_gb = median(runs.map(|run| run.cpu.as_secs_f64() / (bytes / 1e9)));
    report.row("loopback", name, &[("mb_per_s", mb_per_s), ("cpu_s_per_gb", cpu_s_per_gb)]);
}

struct Run {
    wall: Duration,
    cpu: Duration,
}

impl Run {
    fn of(work: impl FnOnce()) -> Self {
        let (wall, cpu) = (Instant::now(), process_cpu());
        work();
        Self { wall: wall.elapsed(), cpu: process_cpu() - cpu }
    }
}

/// As many datagrams, over two hops, in batches.
fn bare() {
    let bind = || {
        UdpSocket::bind(([127, 0, 0, 1], 0).into(), Options::default()).expect("a loopback port")
    };
    let (mut source, mut forwarder, mut sink) = (bind(), bind(), bind());
    let (mut outgoing, mut carried, mut incoming) = (Batch::new(), Batch::new(), Batch::new());
    for _ in 0..BATCH_DATAGRAMS {
        outgoing.push(forwarder.local_address(), &[0x5A; DATAGRAM_BYTES]);
    }
    for _ in 0..FILE_BYTES / CHUNK_BYTES / BATCH_DATAGRAMS {
        source.send(&outgoing).expect("loopback takes datagrams");
        while forwarder.receive(&mut carried).expect("loopback gives datagrams") > 0 {
            for slot in 0..carried.len() {
                carried.redirect(slot, sink.local_address());
            }
            forwarder.send(&carried).expect("loopback takes datagrams");
        }
        while sink.receive(&mut incoming).expect("loopback gives datagrams") > 0 {}
    }
}

/// CPU time of this process, in user and system mode: fields 14
/// and 15 of its stat, in hundredths of a second.
fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

const FILE_BYTES: u64 = 256 << 20;
const ROUNDS: usize = 5;
/// The chunk of file in a datagram of the default size.
const CHUNK_BYTES: u64 = 1322;
const DATAGRAM_BYTES: usize = 1452;
const BATCH_DATAGRAMS: u64 = 64;
/// Two passes of AES-GCM at each of two hops and two of SHA-256, each about as dear as all that the
/// bare run does to a byte, and half as much again for everything else.
const AT_MOST: f64 = 10.0;
