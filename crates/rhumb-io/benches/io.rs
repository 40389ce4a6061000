//! What segments (GSO) and superpackets (GRO) are worth on UDP over
//! loopback, per datagram, sending and receiving.
//!
//! One thread sends a batch and then receives it, in turns, so nothing is lost and each half is
//! measured by itself. On loopback the sending half includes delivery into the receiver's queue.
//! The four pairings of a sender with or without GSO and a receiver with or without GRO are
//! interleaved in short slices: rates and CPU times are medians over the rounds, and a ratio is the
//! median of the ratios of CPU time within a round. Only ratios travel between machines.
//!
//! Run by `cargo xtask bench io`; `--json` prints one object. Takes about 6 seconds.

mod machine;
#[path = "machine/thread_cpu.rs"]
mod thread_cpu;

use std::time::{Duration, Instant};

use machine::median;
use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_wire::Batch;

const SIZES: [usize; 3] = [64, 1000, 1400];
const ROUNDS: usize = 15;
const SLICE: Duration = Duration::from_millis(30);

/// Most datagrams sent before they are received; fewer when the receive queue cannot hold so many.
const BATCH_DATAGRAMS: usize = 512;

/// More than the kernel charges to the receive queue for a datagram of any of the sizes.
const QUEUE_BYTES_PER_DATAGRAM: usize = 4096;

/// How much cheaper, at least, a datagram should be to send by segments and to receive in
/// superpackets. One datagram costs the kernel about 3 us to send by itself and a sixteenth of that
/// in a full run; copying the bytes is not saved.
const TARGETS: [(&str, [f64; 3]); 2] =
    [("gso_send", [5.0, 4.0, 3.0]), ("gro_receive", [3.0, 2.0, 2.0])];

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let results: Vec<Vec<Pairing>> = SIZES.iter().map(|&bytes| measure(bytes)).collect();
    let ratios: Vec<Ratio> =
        results.iter().enumerate().flat_map(|(at, four)| ratios(at, four)).collect();
    if json { print_json(&results, &ratios) } else { print_text(&results, &ratios) }
}

/// A sender and a receiver, and what they did in each round.
struct Pairing {
    gso: bool,
    gro: bool,
    bytes: usize,
    sender: UdpSocket,
    receiver: UdpSocket,
    sending: Vec<Slice>,
    receiving: Vec<Slice>,
}

/// One half of one round.
#[derive(Clone, Copy, Default)]
struct Slice {
    datagrams: usize,
    wall: Duration,
    cpu: Duration,
}

impl Slice {
    fn cpu_ns_per_datagram(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.datagrams as f64
    }

    fn datagrams_per_s(&self) -> f64 {
        self.datagrams as f64 / self.wall.as_secs_f64()
    }

    /// Adds `datagrams` handled since the two clocks were read.
    fn add(&mut self, datagrams: usize, begin: (Instant, Duration)) {
        self.datagrams += datagrams;
        self.cpu += thread_cpu::now() - begin.1;
        self.wall += begin.0.elapsed();
    }
}

fn measure(bytes: usize) -> Vec<Pairing> {
    let pairs = [(false, false), (false, true), (true, false), (true, true)];
    let mut pairings: Vec<Pairing> =
        pairs.into_iter().map(|(gso, gro)| Pairing::new(bytes, gso, gro)).collect();
    for pairing in &mut pairings {
        pairing.run(SLICE);
        pairing.sending.clear();
        pairing.receiving.clear();
    }
    for _ in 0..ROUNDS {
        for pairing in &mut pairings {
            pairing.run(SLICE);
        }
    }
    pairings
}

impl Pairing {
    fn new(bytes: usize, gso: bool, gro: bool) -> Self {
        let bind = |options| {
            UdpSocket::bind(([127, 0, 0, 1], 0).into(), options).expect("a free loopback port")
        };
        let sender = bind(Options { gso, ..Options::default() });
        let receiver = bind(Options { gro, ..Options::default() });
        assert_eq!(sender.capabilities().gso, gso, "the kernel has no UDP_SEGMENT");
        assert_eq!(receiver.capabilities().gro, gro, "the kernel has no UDP_GRO");
        Self { gso, gro, bytes, sender, receiver, sending: Vec::new(), receiving: Vec::new() }
    }

    /// Sends and receives batches in turns for as long as `time`.
    fn run(&mut self, time: Duration) {
        let queue = self.receiver.capabilities().receive_buffer_bytes;
        let datagrams = (queue / QUEUE_BYTES_PER_DATAGRAM).clamp(16, BATCH_DATAGRAMS);
        let (mut outgoing, mut incoming) = (Batch::new(), Batch::new());
        for _ in 0..datagrams {
            outgoing.push(self.receiver.local_address(), &vec![0x5A; self.bytes]);
        }
        let (mut sending, mut receiving) = (Slice::default(), Slice::default());
        let end = Instant::now() + time;
        while Instant::now() < end {
            let clocks = (Instant::now(), thread_cpu::now());
            let sent = self.sender.send(&outgoing).expect("loopback takes datagrams").sent;
            sending.add(sent, clocks);
            let clocks = (Instant::now(), thread_cpu::now());
            let mut received = 0;
            while received < sent {
                match self.receiver.receive(&mut incoming).expect("loopback gives datagrams") {
                    0 => break,
                    some => received += some,
                }
            }
            receiving.add(received, clocks);
        }
        self.sending.push(sending);
        self.receiving.push(receiving);
    }

    fn lost(&self) -> u64 {
        self.sender.counters().sent_datagrams - self.receiver.counters().received_datagrams
    }

    fn name(&self) -> String {
        let with = |does: bool, what| if does { what } else { "plain" };
        format!("{} / {}", with(self.gso, "GSO"), with(self.gro, "GRO"))
    }
}

/// Medians of one half of a pairing.
struct Median {
    datagrams_per_s: f64,
    cpu_s_per_gb: f64,
}

impl Median {
    fn of(slices: &[Slice], bytes: usize) -> Self {
        // Nanoseconds per byte are seconds per gigabyte.
        let cpu = |slice: &Slice| slice.cpu_ns_per_datagram() / bytes as f64;
        Self {
            datagrams_per_s: median(slices.iter().map(Slice::datagrams_per_s)),
            cpu_s_per_gb: median(slices.iter().map(cpu)),
        }
    }
}

struct Ratio {
    name: &'static str,
    bytes: usize,
    ratio: f64,
    at_least: f64,
}

impl Ratio {
    fn met(&self) -> bool {
        self.ratio >= self.at_least
    }
}

/// The two ratios for size number `at`. That of GSO is taken with a receiver without GRO,
/// so that the kernel has to cut the runs in software, as it does for a device that cannot:
/// the fair case. That of GRO is the best case, since loopback carries the superpackets
/// whole; a device builds them in software first.
fn ratios(at: usize, four: &[Pairing]) -> [Ratio; 2] {
    let find = |gso, gro| {
        four.iter()
            .find(|pairing| (pairing.gso, pairing.gro) == (gso, gro))
            .expect("all four pairings")
    };
    let ratio = |slow: &[Slice], fast: &[Slice]| {
        let in_round = |(slow, fast): (&Slice, &Slice)| {
            slow.cpu_ns_per_datagram() / fast.cpu_ns_per_datagram()
        };
        median(slow.iter().zip(fast).map(in_round))
    };
    let measured = [
        ratio(&find(false, false).sending, &find(true, false).sending),
        ratio(&find(true, false).receiving, &find(true, true).receiving),
    ];
    let target = |which: usize| {
        let (name, at_least) = TARGETS[which];
        Ratio { name, bytes: SIZES[at], ratio: measured[which], at_least: at_least[at] }
    };
    [target(0), target(1)]
}

fn print_text(results: &[Vec<Pairing>], ratios: &[Ratio]) {
    println!("{}", conditions().map(|(name, value)| format!("{name}: {value}")).join("; "));
    println!("send / receive   bytes   send Mpps  CPU s/GB   receive Mpps  CPU s/GB   lost");
    for pairing in results.iter().flatten() {
        let sending = Median::of(&pairing.sending, pairing.bytes);
        let receiving = Median::of(&pairing.receiving, pairing.bytes);
        println!(
            "{:<14} {:>7} {:>11.2} {:>9.2} {:>14.2} {:>9.2} {:>6}",
            pairing.name(),
            pairing.bytes,
            sending.datagrams_per_s / 1e6,
            sending.cpu_s_per_gb,
            receiving.datagrams_per_s / 1e6,
            receiving.cpu_s_per_gb,
            pairing.lost(),
        );
    }
    for ratio in ratios {
        let verdict = if ratio.met() { "met" } else { "MISSED" };
        let Ratio { name, bytes, ratio, at_least } = ratio;
        println!("{name} at {bytes} B: {ratio:.2} times cheaper, target {at_least}: {verdict}");
    }
}

fn print_json(results: &[Vec<Pairing>], ratios: &[Ratio]) {
    let conditions = conditions().map(|(name, value)| format!("{name:?}:{value:?}")).join(",");
    let result = |pairing: &Pairing| {
        let sending = Median::of(&pairing.sending, pairing.bytes);
        let receiving = Median::of(&pairing.receiving, pairing.bytes);
        format!(
            "{{\"bytes\":{},\"gso\":{},\"gro\":{},\"send_datagrams_per_s\":{:.0},\"send_cpu_s_per_gb\":{:.3},\
             \"receive_datagrams_per_s\":{:.0},\"receive_cpu_s_per_gb\":{:.3},\"lost\":{}}}",
            pairing.bytes,
            pairing.gso,
            pairing.gro,
            sending.datagrams_per_s,
            sending.cpu_s_per_gb,
            receiving.datagrams_per_s,
            receiving.cpu_s_per_gb,
            pairing.lost(),
        )
    };
    let target = |ratio: &Ratio| {
        format!(
            "{{\"name\":\"{}_{}\",\"value\":{:.2},\"target\":\"at least {}\",\"met\":{}}}",
            ratio.name,
            ratio.bytes,
            ratio.ratio,
            ratio.at_least,
            ratio.met()
        )
    };
    let results: Vec<String> = results.iter().flatten().map(result).collect();
    let targets: Vec<String> = ratios.iter().map(target).collect();
    println!(
        "{{\"bench\":\"io\",\"conditions\":{{{conditions}}},\"results\":[{}],\"targets\":[{}]}}",
        results.join(","),
        targets.join(",")
    );
}

/// What the figures depend on, in words without
/// characters that JSON escapes otherwise than Rust does.
fn conditions() -> [(&'static str, String); 5] {
    let [cpu, kernel, load] = machine::conditions();
    [
        ("path", "UDP over IPv4 loopback, one thread sends and receives in turns".into()),
        kernel,
        cpu,
        load,
        ("rounds", format!("{ROUNDS} of {} ms each, interleaved; medians", SLICE.as_millis())),
    ]
}
