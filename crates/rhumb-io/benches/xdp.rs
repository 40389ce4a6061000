//! What AF_XDP is worth on veth pairs, per datagram, against plain sockets and against sockets
//! with segments and superpackets.
//!
//! On one wire: a source and a sink on one end, a forwarder on the other that sends each datagram
//! back to the sink and does nothing else. On two: source, forwarder and sink in a line, the
//! forwarder with rings on both of its interfaces; sockets are as the router uses them there, and
//! let datagrams gather ([`GATHER`]). Source and sink share core 0, the forwarder has core 1.
//! The source's runs are cut into datagrams before they enter the wire (the fair case); with GRO
//! the forwarder's end puts them together again. Per kind of forwarder a slice of [`DATAGRAMS`], in
//! turns; medians over the rounds, and a ratio is the median of the ratios within a round.
//!
//! What the kernel does for the end that receives is on core 0 in both directions, as if a device
//! had interrupted there (on veth the receive path of the far end would otherwise count as the
//! forwarder's sending, and be half of it). So the CPU time of the forwarder has its system calls,
//! sending down to the device, and nothing of arrival. veth has no zero copy.
//!
//! Run by `cargo xtask bench xdp`; `--json` prints one object. Needs root; takes half a minute.

mod machine;
#[path = "machine/thread_cpu.rs"]
mod thread_cpu;
#[path = "../tests/wire/mod.rs"]
mod wire;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::median;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{Backend, Choice, PacketIo, open, pin_thread, xdp};
use rhumb_wire::Batch;
use wire::{Host, Line, Wire};

const SIZES: [usize; 3] = [64, 1000, 1400];
/// Bytes of a datagram on two wires.
const TWO_WIRES_SIZE: usize = 1000;
/// What the router lets datagrams gather for, unless told otherwise.
const GATHER: Duration = Duration::from_micros(50);
const ROUNDS: usize = 9;
/// Datagrams of a slice: the forwarder is at work for some 50 ms.
const DATAGRAMS: usize = 160 * BATCH;
/// Datagrams of a batch of the source: of each size, some full runs.
const BATCH: usize = 256;
/// Datagrams on their way at most: fewer than the rings and queues hold.
const WINDOW: usize = 1024;
/// What has not come back after this long is lost.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// The design's measurement, with encryption, was 3.2 times
/// as many datagrams at 64 bytes and 3.0 at 1000.
const CHEAPER_THAN_PLAIN: f64 = 2.5;
/// Mpps by size: the same measurement.
const MPPS_PER_CPU_SECOND: [(usize, f64); 2] = [(64, 0.68), (1000, 0.60)];

/// At least so many times cheaper than sockets with segments and superpackets, on two wires.
const CHEAPER_THAN_RUNS: f64 = 1.3;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let results = Wire::new().zip(Line::new()).map(|(wire, line)| {
        let one = Ground::one_wire(&wire);
        let mut results: Vec<Size> = SIZES.map(|bytes| measure(&one, bytes)).into();
        results.push(measure(&Ground::two_wires(&line), TWO_WIRES_SIZE));
        results
    });
    match (results, json) {
        (Some(results), true) => print_json(&results),
        (Some(results), false) => print_text(&results),
        (None, true) => {
            println!(
                "{{\"bench\":\"xdp\",\"conditions\":{{\"skipped\":\"needs root\"}},\"targets\":[]}}"
            );
        }
        (None, false) => println!("nothing was measured"),
    }
}

/// What forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Runs,
    Xdp,
}

const KINDS: [Kind; 3] = [Kind::Plain, Kind::Runs, Kind::Xdp];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain sockets",
            Self::Runs => "GSO + GRO",
            Self::Xdp => "AF_XDP, copy",
        }
    }

    fn open(self, ground: &Ground<'_>) -> Backend {
        let runs = self == Self::Runs;
        let coalesce = (runs && ground.wires > 1).then_some(GATHER);
        let options = Options { gso: runs, gro: runs, coalesce, ..Options::default() };
        let choice = match self {
            Self::Xdp => Choice::Xdp(xdp::Options::default()),
            _ => Choice::Socket,
        };
        let any = "0.0.0.0:0".parse().expect("an address");
        let mut opened = open(&choice, any, options, 1).expect("a port");
        for interface in opened.interfaces {
            if let Err(refusal) = interface.rings {
                panic!("{}: {refusal}", interface.name);
            }
        }
        let backend = opened.backends.remove(0);
        assert!(self != Self::Xdp || backend.interfaces().len() == ground.wires);
        backend
    }
}

/// Where it happens.
struct Ground<'a> {
    wires: usize,
    source: &'a Host,
    forwarder: &'a Host,
    sink: &'a Host,
    /// Addresses of source and sink, and the forwarder's as the source has it.
    addresses: [&'static str; 3],
}

impl<'a> Ground<'a> {
    fn one_wire(wire: &'a Wire) -> Self {
        let Wire { near, far } = wire;
        prepare([(far, "far"), (near, "near")], (far, "far"), (near, "near"));
        let addresses = ["10.9.0.2", "10.9.0.2", "10.9.0.1"];
        Self { wires: 1, source: far, forwarder: near, sink: far, addresses }
    }

    fn two_wires(line: &'a Line) -> Self {
        let Line { a, r1, r2, .. } = line;
        prepare([(a, "right"), (r1, "right")], (r2, "left"), (r1, "left"));
        let addresses = [Line::A, Line::R2, Line::R1];
        Self { wires: 2, source: a, forwarder: r1, sink: r2, addresses }
    }
}

/// Whole runs leave neither of the devices that cut; arrivals at one are
/// handled on core 0, and put together at another.
fn prepare(cut: [(&Host, &str); 2], steered: (&Host, &str), joined: (&Host, &str)) {
    for (host, device) in cut {
        host.run(&format!("ip link set {device} gso_max_segs 1"));
    }
    let (host, device) = steered;
    // Each namespace sees its devices in a /sys of its own.
    host.run(&format!(
        "unshare --mount sh -ec 'mount -t sysfs none /sys; \
         echo 1 > /sys/class/net/{device}/queues/rx-0/rps_cpus'"
    ));
    let (host, device) = joined;
    host.enter(|| sys::generic_receive_offload(device)).expect("veth has this feature");
}

/// One slice.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    datagrams: usize,
    lost: usize,
    wall: Duration,
    /// Of the forwarding thread.
    cpu: Duration,
}

impl Slice {
    fn ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.datagrams as f64
    }

    fn mpps(&self) -> f64 {
        self.datagrams as f64 / self.wall.as_secs_f64() / 1e6
    }
}

/// All slices of one size on one ground, by kind.
struct Size {
    wires: usize,
    bytes: usize,
    slices: [Vec<Slice>; 3],
}

fn measure(ground: &Ground<'_>, bytes: usize) -> Size {
    let mut size = Size { wires: ground.wires, bytes, slices: Default::default() };
    for round in 0..=ROUNDS {
        for (kind, slices) in KINDS.into_iter().zip(&mut size.slices) {
            let slice = run(ground, kind, bytes);
            // The first round warms up.
            if round > 0 {
                slices.push(slice);
            }
        }
    }
    size
}

fn run(ground: &Ground<'_>, kind: Kind, bytes: usize) -> Slice {
    let mut backend = ground.forwarder.enter(|| kind.open(ground));
    let stop = AtomicBool::new(false);
    let at = |ip: &str, port| SocketAddr::new(ip.parse().expect("an address"), port);
    let bind = |host: &Host, ip| {
        host.enter(|| UdpSocket::bind(at(ip, 0), Options::default())).expect("a free port")
    };
    let [source_ip, sink_ip, forwarder_ip] = ground.addresses;
    let (mut source, mut sink) = (bind(ground.source, source_ip), bind(ground.sink, sink_ip));
    let (to, back) = (at(forwarder_ip, backend.local_address().port()), sink.local_address());
    std::thread::scope(|scope| {
        let forwarder = scope.spawn(|| forward(&mut backend, back, &stop));
        let _ = pin_thread(0);
        let begin = Instant::now();
        let (datagrams, last) = load(&mut source, &mut sink, to, bytes);
        stop.store(true, Ordering::Release);
        let cpu = forwarder.join().expect("the forwarder works");
        Slice { datagrams, lost: DATAGRAMS - datagrams, wall: last - begin, cpu }
    })
}

/// Sends all there is to send, receives what comes back, and returns
/// how many those are and when the last one came.
fn load(
    source: &mut UdpSocket,
    sink: &mut UdpSocket,
    to: SocketAddr,
    bytes: usize,
) -> (usize, Instant) {
    let (mut outgoing, mut incoming) = (Batch::new(), Batch::new());
    for _ in 0..BATCH {
        outgoing.push(to, &vec![0x5A; bytes]);
    }
    let (mut sent, mut received, mut lost) = (0, 0, 0);
    let mut last = Instant::now();
    while received + lost < DATAGRAMS {
        if sent < DATAGRAMS && sent - received - lost + BATCH <= WINDOW {
            sent += source.send(&outgoing).expect("the wire takes datagrams").sent;
        }
        let datagrams = sink.receive(&mut incoming).expect("the wire gives datagrams");
        received += datagrams;
        if datagrams > 0 {
            last = Instant::now();
        } else if last.elapsed() > LOST_AFTER {
            lost = sent - received;
        } else if sent - received - lost + BATCH > WINDOW || sent >= DATAGRAMS {
            sink.wait(Some(Duration::from_millis(1)), None).expect("waiting");
        }
    }
    (received, last)
}

/// What a router's worker does, without the switch. Returns the CPU time of the thread.
fn forward(backend: &mut Backend, to: SocketAddr, stop: &AtomicBool) -> Duration {
    let _ = pin_thread(1);
    let (mut batch, begin) = (Batch::new(), thread_cpu::now());
    while !stop.load(Ordering::Acquire) {
        backend.wait(Some(Duration::from_millis(10)), None).expect("waiting");
        while backend.receive(&mut batch).expect("receiving") > 0 {
            for index in 0..batch.len() {
                batch.redirect(index, to);
            }
            backend.send(&batch).expect("sending");
        }
    }
    thread_cpu::now() - begin
}

/// Medians of one kind at one size.
struct Row {
    wires: usize,
    kind: Kind,
    bytes: usize,
    mpps: f64,
    ns: f64,
    lost: usize,
}

impl Size {
    fn rows(&self) -> [Row; 3] {
        std::array::from_fn(|at| {
            let slices = &self.slices[at];
            Row {
                wires: self.wires,
                kind: KINDS[at],
                bytes: self.bytes,
                mpps: median(slices.iter().map(Slice::mpps)),
                ns: median(slices.iter().map(Slice::ns)),
                lost: slices.iter().map(|slice| slice.lost).sum(),
            }
        })
    }

    /// How many times cheaper the third kind is than kind `at`, by the forwarder's CPU time.
    fn cheaper_than(&self, at: usize) -> f64 {
        let pairs = self.slices[at].iter().zip(&self.slices[2]);
        median(pairs.map(|(other, xdp)| other.ns() / xdp.ns()))
    }
}

struct Target {
    name: String,
    value: f64,
    at_least: f64,
}

fn targets(sizes: &[Size]) -> Vec<Target> {
    let ratio = |size: &Size| Target {
        name: format!("xdp_cheaper_than_plain_{}", size.bytes),
        value: size.cheaper_than(0),
        at_least: CHEAPER_THAN_PLAIN,
    };
    let one_wire = || sizes.iter().filter(|size| size.wires == 1);
    let rate = |(bytes, at_least): (usize, f64)| {
        let size = one_wire().find(|size| size.bytes == bytes).expect("a size of ours");
        let value = 1e3 / size.rows()[2].ns;
        Target { name: format!("xdp_mpps_per_cpu_s_{bytes}"), value, at_least }
    };
    let two_wires = sizes.iter().filter(|size| size.wires > 1).map(|size| Target {
        name: format!("xdp_two_interfaces_cheaper_than_sockets_{}", size.bytes),
        value: size.cheaper_than(1),
        at_least: CHEAPER_THAN_RUNS,
    });
    one_wire().map(ratio).chain(MPPS_PER_CPU_SECOND.map(rate)).chain(two_wires).collect()
}

fn print_text(sizes: &[Size]) {
    println!("{}", conditions().map(|(name, value)| format!("{name}: {value}")).join("; "));
    println!("wires forwarder        bytes    Mpps   CPU ns   lost");
    for row in sizes.iter().flat_map(Size::rows) {
        println!(
            "{:>5} {:<14} {:>7} {:>7.3} {:>8.0} {:>6}",
            row.wires,
            row.kind.name(),
            row.bytes,
            row.mpps,
            row.ns,
            row.lost
        );
    }
    for size in sizes {
        println!(
            "GSO + GRO over AF_XDP at {} B, {} wires: {:.2} times the cost of it",
            size.bytes,
            size.wires,
            size.cheaper_than(1)
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
            "{{\"wires\":{},\"bytes\":{},\"forwarder\":{:?},\"mpps\":{:.3},\"cpu_ns\":{:.0},\"lost\":{}}}",
            row.wires,
            row.bytes,
            row.kind.name(),
            row.mpps,
            row.ns,
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
        "{{\"bench\":\"xdp\",\"conditions\":{{{conditions}}},\"results\":[{}],\"targets\":[{}]}}",
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
            "one veth pair between namespaces, or two; MTU 1500, runs cut in software, NAPI GRO on arrival"
                .into(),
        ),
        kernel,
        cpu,
        load,
        ("rounds", format!("{ROUNDS} of {DATAGRAMS} datagrams each, in turns; medians")),
    ]
}

/// System calls. Source: Linux `include/uapi/linux/ethtool.h`.
#[allow(unsafe_code)]
mod sys {
    use std::io;
    use std::mem::zeroed;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }

    /// Has a device of this thread's namespace put arriving datagrams together.
    pub(crate) fn generic_receive_offload(device: &str) -> io::Result<()> {
        const SET_GRO: u32 = 0x2C;
        // Any socket will do to ask by.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        let mut value = Value { command: SET_GRO, data: 1 };
        // SAFETY: an ifreq is integers, and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names a device, ends with a zero, and points to a value of the form
        // that this command takes; both are valid for the whole call.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
