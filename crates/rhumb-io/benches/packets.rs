//! What it costs to take an IP packet of a host's protocol in and send it on unchanged (null
//! forwarding), by each backend, beside what the kernel's own IPv4 forwarding costs.
//!
//! source - forwarder - sink, over two veth pairs. Source and sink are on core 0, the
//! forwarder on core 1: a thread that rewrites the destination, takes one off the TTL and
//! mends the checksum; for the kernel, nothing but `ip_forward`. Packets have protocol 253 and
//! the lengths of the Platypus paper's Table 3.
//!
//! What is measured is CPU time per packet at the forwarder, of two threads: the forwarder's own,
//! and the one in which its kernel handles arrival (threaded NAPI, on core 0), which does all of
//! the kernel's own forwarding. What the sink's kernel does is not counted: it is on the core that
//! does not send to the sink, which is core 0 for our forwarders, and core 1, with nothing else to
//! do, for the kernel's. Per kind a slice of [`PACKETS`], in turns; medians over the rounds.
//!
//! Run by `cargo xtask bench packets`; `--json` prints
//! one object. Needs root; takes about 20 seconds.

mod machine;
mod rig;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::median;
use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket, Tun, TunOptions};
use rhumb_io::pin_thread;
use rhumb_io::xdp::{self, XdpPackets};
use rig::wire::Line;
use rig::{Rig, sys, thread_cpu};

/// Bytes of the packets, IP header included.
const SIZES: [usize; 3] = [68, 348, 1500];
const ROUNDS: usize = 9;
/// Packets of a slice: the forwarder is at work for some 50 ms.
const PACKETS: usize = 160 * BATCH;
const BATCH: usize = 64;
/// Packets on their way at most: as many as the ring of a veth device holds.
const WINDOW: usize = 256;
/// What has not arrived after this long is lost.
const LOST_AFTER: Duration = Duration::from_millis(200);
const PROTOCOL: u8 = 253;
/// Of source and sink, and of arrival at the forwarder.
const LOAD_CORE: usize = 0;
const FORWARDER_CORE: usize = 1;
/// Where the stack gives packets to the TUN device.
const BEHIND_TUN: &str = "10.77.0.2";

/// How many times as many packets frames carry as raw sockets do, at least,
/// all CPU time of the forwarder counted: a packet is copied more often, but
/// sees neither the stack nor a socket's queue.
const XDP_OVER_RAW: f64 = 1.4;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let results = Rig::new(LOAD_CORE, LOAD_CORE).map(|rig| SIZES.map(|bytes| measure(&rig, bytes)));
    match (results, json) {
        (Some(results), true) => print_json(&results),
        (Some(results), false) => print_text(&results),
        (None, true) => println!(
            "{{\"bench\":\"packets\",\"conditions\":{{\"skipped\":\"needs root\"}},\"targets\":[]}}"
        ),
        (None, false) => println!("nothing was measured"),
    }
}

/// What forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linux,
    Raw,
    Tun,
    Xdp,
}

const KINDS: [Kind; 4] = [Kind::Linux, Kind::Raw, Kind::Tun, Kind::Xdp];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Raw => "raw",
            Self::Tun => "tun",
            Self::Xdp => "xdp, copy",
        }
    }

    /// Where the source sends, so that it comes to the forwarder.
    fn address(self) -> &'static str {
        match self {
            Self::Linux => Line::R2,
            Self::Raw | Self::Xdp => Line::R1,
            Self::Tun => BEHIND_TUN,
        }
    }

    /// The backend, in the forwarder's namespace.
    fn open(self) -> Option<Box<dyn IpIo + Send>> {
        let options = RawOptions { protocol: Some(PROTOCOL), ipv6: None, ..RawOptions::default() };
        let raw = || RawSocket::open(&options).expect("raw sockets");
        match self {
            Self::Linux => None,
            Self::Raw => Some(Box::new(raw())),
            Self::Tun => {
                let addresses = vec![("10.77.0.1".parse().expect("an address"), 24)];
                let options = TunOptions { addresses, ..TunOptions::default() };
                Some(Box::new(Tun::open(&options).expect("a TUN device")))
            }
            Self::Xdp => {
                let interfaces = ["left", "right"];
                let attached = XdpPackets::attach(raw(), &interfaces, &xdp::Options::default());
                Some(Box::new(attached.unwrap_or_else(|refused| panic!("{}", refused.refusal))))
            }
        }
    }
}

/// One slice.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    packets: usize,
    lost: usize,
    /// Of the forwarding thread.
    thread: Duration,
    /// Of the thread that handles arrival.
    arrival: Duration,
}

impl Slice {
    fn thread_ns(&self) -> f64 {
        self.thread.as_nanos() as f64 / self.packets as f64
    }

    fn all_ns(&self) -> f64 {
        (self.thread + self.arrival).as_nanos() as f64 / self.packets as f64
    }
}

/// All slices of one size, by kind.
struct Size {
    bytes: usize,
    slices: [Vec<Slice>; KINDS.len()],
}

fn measure(rig: &Rig, bytes: usize) -> Size {
    let mut size = Size { bytes, slices: Default::default() };
    for round in 0..=ROUNDS {
        for (kind, slices) in KINDS.into_iter().zip(&mut size.slices) {
            let slice = run(rig, kind, bytes);
            // The first round warms up.
            if round > 0 {
                slices.push(slice);
            }
        }
    }
    size
}

fn run(rig: &Rig, kind: Kind, bytes: usize) -> Slice {
    let Line { a, r1, r2, .. } = &rig.line;
    let mut backend = r1.enter(|| kind.open());
    let mut source = a.enter(|| RawSocket::open(&RawOptions::default())).expect("raw sockets");
    let sink = RawOptions { protocol: Some(PROTOCOL), ipv6: None, ..RawOptions::default() };
    let mut sink = r2.enter(|| RawSocket::open(&sink)).expect("raw sockets");
    let packet = packet(kind.address(), bytes);
    rig.handle_sinks_arrivals_on(if kind == Kind::Linux { FORWARDER_CORE } else { LOAD_CORE });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forwarder = scope
            .spawn(|| backend.as_mut().map_or(Duration::ZERO, |it| forward(it.as_mut(), &stop)));
        // Without a second core the figures are worse, not wrong.
        let _ = pin_thread(LOAD_CORE);
        let before = sys::cpu_of(rig.arrival);
        let packets = load(&mut source, &mut sink, &packet);
        let arrival = sys::cpu_of(rig.arrival).saturating_sub(before);
        stop.store(true, Ordering::Release);
        let thread = forwarder.join().expect("the forwarder works");
        Slice { packets, lost: PACKETS - packets, thread, arrival }
    })
}

/// Sends all there is to send, receives what arrives, and returns how many those are.
fn load(source: &mut RawSocket, sink: &mut RawSocket, packet: &[u8]) -> usize {
    let (mut outgoing, mut incoming) = (IpBatch::new(1500), IpBatch::new(1500));
    for _ in 0..BATCH {
        assert!(outgoing.push(packet), "a packet of ours fits");
    }
    let (mut sent, mut received, mut lost) = (0, 0, 0);
    let mut last = Instant::now();
    while received + lost < PACKETS {
        if sent < PACKETS && sent - received - lost + BATCH <= WINDOW {
            sent += source.send(&mut outgoing).expect("the wire takes packets").sent;
        }
        let packets = sink.receive(&mut incoming).expect("the wire gives packets");
        received += packets;
        if packets > 0 {
            last = Instant::now();
        } else if last.elapsed() > LOST_AFTER {
            lost = sent - received;
        } else if sent - received - lost + BATCH > WINDOW || sent >= PACKETS {
            sink.wait(Some(Duration::from_millis(1)), None).expect("waiting");
        }
    }
    received
}

/// Null forwarding: every packet goes on to the sink. Returns the CPU time of the thread.
fn forward(backend: &mut dyn IpIo, stop: &AtomicBool) -> Duration {
    let _ = pin_thread(FORWARDER_CORE);
    let sink: std::net::Ipv4Addr = Line::R2.parse().expect("an address");
    let (mut packets, begin) = (IpBatch::new(1500), thread_cpu::now());
    while !stop.load(Ordering::Acquire) {
        backend.wait(Some(Duration::from_millis(10)), None).expect("waiting");
        while backend.receive(&mut packets).expect("receiving") > 0 {
            for (_, packet) in packets.iter_mut() {
                packet[8] -= 1;
                packet[16..20].copy_from_slice(&sink.octets());
                right_checksum(packet);
            }
            backend.send(&mut packets).expect("sending");
        }
    }
    thread_cpu::now() - begin
}

/// A packet from the source, of `bytes` in all.
fn packet(to: &str, bytes: usize) -> Vec<u8> {
    let [from, to]: [std::net::Ipv4Addr; 2] =
        [Line::A, to].map(|ip| ip.parse().expect("an address"));
    let mut packet = vec![0x5A; bytes];
    packet[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, PROTOCOL, 0, 0]);
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    right_checksum(&mut packet);
    packet
}

fn right_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let words =
        packet[..20].chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let checksum = !((folded & 0xFFFF) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Medians of one kind at one size.
struct Row {
    kind: Kind,
    bytes: usize,
    thread_ns: f64,
    all_ns: f64,
    lost: usize,
}

impl Row {
    /// Thousands of packets per second of the forwarding thread's CPU
    /// time; of the kernel's, where there is none.
    fn kpps(&self) -> f64 {
        1e6 / if self.kind == Kind::Linux { self.all_ns } else { self.thread_ns }
    }

    /// Thousands of packets per second of all the forwarder's CPU time.
    fn kpps_of_all(&self) -> f64 {
        1e6 / self.all_ns
    }
}

impl Size {
    fn rows(&self) -> [Row; KINDS.len()] {
        std::array::from_fn(|at| {
            let slices = &self.slices[at];
            Row {
                kind: KINDS[at],
                bytes: self.bytes,
                thread_ns: median(slices.iter().map(Slice::thread_ns)),
                all_ns: median(slices.iter().map(Slice::all_ns)),
                lost: slices.iter().map(|slice| slice.lost).sum(),
            }
        })
    }

    /// The rate of one kind in terms of another's, all CPU time counted.
    fn ratio(&self, kind: Kind, other: Kind) -> f64 {
        let slices = |kind| &self.slices[KINDS.iter().position(|it| *it == kind).unwrap_or(0)];
        let pairs = slices(kind).iter().zip(slices(other));
        median(pairs.map(|(one, other)| other.all_ns() / one.all_ns()))
    }
}

struct Target {
    name: String,
    value: f64,
    at_least: f64,
}

fn targets(sizes: &[Size]) -> Vec<Target> {
    let target = |size: &Size| Target {
        name: format!("xdp_over_raw_{}", size.bytes),
        value: size.ratio(Kind::Xdp, Kind::Raw),
        at_least: XDP_OVER_RAW,
    };
    sizes.iter().map(target).collect()
}

fn print_text(sizes: &[Size]) {
    println!("{}", conditions().map(|(name, value)| format!("{name}: {value}")).join("; "));
    println!("forwarder   bytes  kpps/thread-s  kpps/CPU-s  thread ns  all ns   lost");
    for row in sizes.iter().flat_map(Size::rows) {
        println!(
            "{:<10} {:>6} {:>14.0} {:>11.0} {:>10.0} {:>7.0} {:>6}",
            row.kind.name(),
            row.bytes,
            row.kpps(),
            row.kpps_of_all(),
            row.thread_ns,
            row.all_ns,
            row.lost
        );
    }
    for size in sizes {
        let of_linux = |kind| size.ratio(kind, Kind::Linux);
        println!(
            "of the kernel's own rate at {} B: raw {:.2}, tun {:.2}, xdp {:.2}",
            size.bytes,
            of_linux(Kind::Raw),
            of_linux(Kind::Tun),
            of_linux(Kind::Xdp)
        );
    }
    for Target { name, value, at_least } in targets(sizes) {
        let verdict = if value >= at_least { "met" } else { "MISSED" };
        println!("{name}: {value:.2}, target {at_least}: {verdict}");
    }
}

fn print_json(sizes: &[Size]) {
    let conditions = conditions().map(|(name, value)| format!("{name:?}:{value:?}")).join(",");
    let result = |row: Row| {
        format!(
            "{{\"bytes\":{},\"forwarder\":{:?},\"kpps_per_thread_s\":{:.0},\"kpps_per_cpu_s\":{:.0},\
             \"thread_ns\":{:.0},\"all_ns\":{:.0},\"lost\":{}}}",
            row.bytes,
            row.kind.name(),
            row.kpps(),
            row.kpps_of_all(),
            row.thread_ns,
            row.all_ns,
            row.lost
        )
    };
    let target = |Target { name, value, at_least }: Target| {
        let met = value >= at_least;
        format!(
            "{{\"name\":{name:?},\"value\":{value:.2},\"target\":\"at least {at_least}\",\"met\":{met}}}"
        )
    };
    let results: Vec<String> = sizes.iter().flat_map(Size::rows).map(result).collect();
    let targets: Vec<String> = targets(sizes).into_iter().map(target).collect();
    println!(
        "{{\"bench\":\"packets\",\"conditions\":{{{conditions}}},\"results\":[{}],\"targets\":[{}]}}",
        results.join(","),
        targets.join(",")
    );
}

/// What the figures depend on, in words without
/// characters that JSON escapes otherwise than Rust does.
fn conditions() -> [(&'static str, String); 5] {
    let [cpu, kernel, load] = machine::conditions();
    [
        (
            "path",
            "two veth pairs between namespaces, MTU 1500, threaded NAPI at the forwarder, whose thread and arrivals are \
             counted; arrivals at the sink are on the core that does not send to it, and not counted"
                .into(),
        ),
        kernel,
        cpu,
        load,
        ("rounds", format!("{ROUNDS} of {PACKETS} packets each, in turns; medians")),
    ]
}
