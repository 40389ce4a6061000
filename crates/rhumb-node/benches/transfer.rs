//! What a file costs from node to node over one router on
//! loopback, against the same bytes over bare sockets.
//!
//! Three threads share the cores: sending node, router, receiving node. The bare run moves
//! datagrams of the same size in the same batches over the same two hops, one thread, without keys,
//! names, acknowledgements or files: what remains of a transfer when all that this suite adds is
//! taken away. Files are encrypted from end to end beside the hops, and hashed at the receiver. All
//! runs alternate; ratios are of CPU time, which other load on the machine moves less than it moves
//! the wall clock.
//!
//! Run by `cargo xtask bench transfer`; `--json` prints one object. Takes about half a minute.

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;
#[path = "../tests/relay/mod.rs"]
mod relay;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::median;
use relay::{Behaviour, Relay};
use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_node::transfer::{ReadAt, WriteAt, sha256_of};
use rhumb_node::{Config, Node};
use rhumb_trust::Identity;
use rhumb_wire::transfer::{FileName, Kind, Offer};
use rhumb_wire::{Batch, Role};

const FILE_BYTES: u64 = 256 << 20;
const ROUNDS: usize = 5;
/// The chunk of file in a datagram of the default size.
const CHUNK_BYTES: u64 = 1322;
const DATAGRAM_BYTES: usize = 1452;
const BATCH_DATAGRAMS: u64 = 64;

/// Two passes of AES-GCM at each of two hops and two of SHA-256, each about as dear as all that the
/// bare run does to a byte, and half as much again for everything else.
const AT_MOST: f64 = 10.0;
fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([Run::of(|| runtime.block_on(transfer())), Run::of(bare)]);
    }
    let ratio = median(
        rounds.iter().map(|[transfer, bare]| transfer.cpu.as_secs_f64() / bare.cpu.as_secs_f64()),
    );
    let [transfers, bares] = [0, 1].map(|at| Figures::of(rounds.iter().map(move |it| &it[at])));
    let met = ratio <= AT_MOST;
    if json {
        let conditions = conditions().map(|(name, value)| format!("{name:?}:{value:?}")).join(",");
        println!(
            "{{\"bench\":\"transfer\",\"conditions\":{{{conditions}}},\"transfer\":{},\"bare\":{},\
             \"targets\":[{{\"name\":\"cpu_against_bare\",\"value\":{ratio:.2},\"target\":\"at most {AT_MOST}\",\"met\":{met}}}]}}",
            transfers.json(),
            bares.json(),
        );
    } else {
        println!("{}", conditions().map(|(name, value)| format!("{name}: {value}")).join("; "));
        println!("transfer: {}", transfers.text());
        println!("bare:     {}", bares.text());
        let verdict = if met { "met" } else { "MISSED" };
        println!("a transfer costs {ratio:.2} times the CPU, target at most {AT_MOST}: {verdict}");
    }
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

struct Figures {
    mb_per_s: f64,
    cpu_s_per_gb: f64,
}

impl Figures {
    fn of<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> Self {
        let bytes = FILE_BYTES as f64;
        Self {
            mb_per_s: median(runs.clone().map(|run| bytes / 1e6 / run.wall.as_secs_f64())),
            cpu_s_per_gb: median(runs.map(|run| run.cpu.as_secs_f64() / (bytes / 1e9))),
        }
    }

    fn json(&self) -> String {
        let Self { mb_per_s, cpu_s_per_gb } = self;
        format!("{{\"mb_per_s\":{mb_per_s:.0},\"cpu_s_per_gb\":{cpu_s_per_gb:.2}}}")
    }

    fn text(&self) -> String {
        format!("{:.0} MB/s, {:.2} CPU seconds per GB", self.mb_per_s, self.cpu_s_per_gb)
    }
}

/// A file without a disk: any length, the same byte everywhere.
struct Pattern;

impl ReadAt for Pattern {
    fn read_exact_at(&mut self, _offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0x5A);
        Ok(())
    }
}

impl WriteAt for Pattern {
    fn write_all_at(&mut self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

async fn transfer() {
    let relay = Relay::start(Behaviour::default());
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let identity = Arc::new(Identity::generate(Role::Node, 1).expect("a key"));
        nodes.push(Node::join(identity, Config::new(relay.address)).await.expect("joined"));
    }
    let sha256 = sha256_of(&mut Pattern, FILE_BYTES).expect("a pattern can be read");
    let name = FileName::new("pattern").expect("a fit name");
    let offer = Offer { kind: Kind::File, length: FILE_BYTES, sha256, name };
    let (sent, received) = tokio::join!(
        nodes[0].send_file(nodes[1].name(), Pattern, offer, |_| ()),
        nodes[1].receive_file(|_| Ok(Pattern), |_| ()),
    );
    sent.expect("sent");
    received.expect("received");
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

/// What the figures depend on, in words without
/// characters that JSON escapes otherwise than Rust does.
fn conditions() -> [(&'static str, String); 5] {
    let [cpu, kernel, load] = machine::conditions();
    [
        ("path", "node, router and node on three threads, UDP over IPv4 loopback".into()),
        kernel,
        cpu,
        load,
        ("rounds", format!("{ROUNDS} of {} MB each, alternating; medians", FILE_BYTES / 1_000_000)),
    ]
}
