//! The paper's Figure 4: what a router forwards of the load
//! that it is offered, in the smallest packets.
//!
//! Source and sink are on one core, the router on the other, so that the load does not depend on
//! it: the source sends at a rate, by AF_XDP, which is its cheapest way, and what the router has no
//! time for is lost in the ring before it. The sink drops packets as soon as its kernel has them.
//! Forwarded is what leaves the router, over the time from the first packet sent to the last one
//! that leaves; all kinds take turns within a round.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rhumb_io::ip::{IpBatch, IpIo};
use rhumb_io::pin_thread;
use serde_json::{Value, json};

use super::{BATCH, Bench, CORE, Kind, Place, SINK_CORE, Task};
use crate::forwarder::{self, Backend};
use crate::machine::median;
use crate::report::rounded;
use crate::rig::sys;
use crate::rig::wire::Line;
use crate::traffic::SIZES;

/// Thousands of packets a second that the source aims at.
const OFFERED_KPPS: [f64; 10] =
    [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0];
const ROUNDS: usize = 5;
/// Batches of a slice: 41 to 410 ms, so that what rings hold hardly counts.
const BATCHES: usize = 640;
/// Room for the smallest packets.
const PACKET_LEN: usize = 128;
/// When nothing has left the router for this long, nothing will.
const QUIET: Duration = Duration::from_millis(5);

/// What became of one load at one router.
struct Slice {
    /// Thousands of packets a second.
    offered: f64,
    forwarded: f64,
}

/// All slices of one load at one router.
pub(crate) struct Series {
    kind: Kind,
    slices: Vec<Slice>,
}

/// Everything there is to measure; an empty answer, and why, without root and two cores.
pub(crate) fn measure() -> Result<Vec<Series>, &'static str> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("needs two cores");
    }
    let place = Place::new().ok_or("needs root and the ip command")?;
    drop_early(&place);
    let mut bench = Bench::new(place, BATCHES, PACKET_LEN);
    pin_thread(SINK_CORE).map_err(|_| "cannot keep to a core")?;
    sys::wake_politely();
    let kinds = [
        Kind::Linux,
        Kind::Waypoint(Backend::Xdp, Task::Null),
        Kind::Waypoint(Backend::Xdp, Task::Verify),
        Kind::Waypoint(Backend::Xdp, Task::Stamp),
        Kind::Waypoint(Backend::Raw, Task::Verify),
    ];
    let mut all: Vec<(f64, Series)> = Vec::new();
    for kind in kinds {
        all.extend(OFFERED_KPPS.map(|kpps| (kpps, Series { kind, slices: Vec::new() })));
    }
    for _ in 0..ROUNDS {
        for (kpps, Series { kind, slices }) in &mut all {
            slices.push(bench.offer(*kind, *kpps));
        }
    }
    Ok(all.into_iter().map(|(_, series)| series).collect())
}

impl Bench {
    /// Offers a load of so many thousand packets a second.
    fn offer(&mut self, kind: Kind, kpps: f64) -> Slice {
        let plain = self.plain(kind, SIZES[0]);
        // The protocol is one that nobody sends to the source.
        let open = || Backend::Xdp.open_on(&["right"], UNUSED_PROTOCOL);
        let mut source = self.place.0.line.a.enter(open);
        let mut io = self.backend(kind);
        let mut batches = self.packets(kind, &plain);
        let (clock, stop) = (self.clock, AtomicBool::new(false));
        let (step, place) = self.step(kind);
        let sink = &place.0.line.r2;
        let before = sink.enter(count);
        let interval = Duration::from_secs_f64(BATCH as f64 / (kpps * 1e3));
        let slice = std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_thread(CORE).expect("a thread may keep to a core");
                io.as_mut().map(|io| forwarder::run(io.as_mut(), step, clock, &stop))
            });
            let begin = Instant::now();
            send(source.as_mut(), &mut batches, interval, begin);
            let offered = rate(BATCHES * BATCH, begin.elapsed());
            let (count, elapsed) = sink.enter(|| settled(begin));
            stop.store(true, Ordering::Release);
            Slice { offered, forwarded: rate(count - before, elapsed) }
        });
        self.batches = batches;
        slice
    }
}

/// Has the sink's kernel drop what arrives as soon as it asks for its way. It answers no question
/// for its link address any more, so the router is told.
fn drop_early(place: &Place) {
    let Line { r1: router, r2: sink, .. } = &place.0.line;
    let link = sink.run("ip -o link show left");
    let address = link.split_once("link/ether ").and_then(|(_, rest)| rest.split(' ').next());
    let address = address.expect("a veth device has an address");
    router.run(&format!(
        "ip neighbour replace {} lladdr {address} dev right nud permanent",
        Line::R2
    ));
    sink.run(
        "ip rule add pref 1 lookup local; ip rule add pref 0 iif left blackhole; \
         ip rule del pref 0 lookup local",
    );
}

/// Sends a batch at each interval, or as soon as it can.
fn send(source: &mut dyn IpIo, batches: &mut [IpBatch], interval: Duration, begin: Instant) {
    let mut due = Duration::ZERO;
    for batch in batches {
        while begin.elapsed() < due {
            spin_loop();
        }
        source.send(batch).expect("the wire takes packets");
        due += interval;
    }
}

fn rate(packets: usize, time: Duration) -> f64 {
    packets as f64 / time.as_secs_f64() / 1e3
}

/// How many have come when no more do, and when the last one did.
fn settled(begin: Instant) -> (usize, Duration) {
    let (mut before, mut last) = (count(), begin.elapsed());
    loop {
        let (now, at) = (count(), begin.elapsed());
        if now != before {
            (before, last) = (now, at);
        } else if at - last > QUIET {
            return (now, last);
        }
    }
}

/// Packets received by the interface `left` of this thread's namespace.
fn count() -> usize {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").expect("the kernel counts");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("left:"));
    let received = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    received.expect("the rig has this interface")
}

impl Series {
    /// Thousands of packets a second: offered, and forwarded.
    fn row(&self) -> [f64; 2] {
        [
            median(self.slices.iter().map(|slice| slice.offered)),
            median(self.slices.iter().map(|slice| slice.forwarded)),
        ]
    }

    pub(crate) fn json(&self) -> Value {
        let [offered, forwarded] = self.row().map(rounded);
        json!({ "router": self.kind.name(), "offered_kpps": offered, "forwarded_kpps": forwarded })
    }
}

pub(crate) fn print_text(all: &[Series]) {
    println!(
        "by load: thousands of packets a second, {} bytes, medians of {ROUNDS} rounds",
        SIZES[0]
    );
    println!("router             offered  forwarded");
    for series in all {
        let [offered, forwarded] = series.row();
        println!("{:<17} {offered:>8.0} {forwarded:>10.0}", series.kind.name());
    }
}

/// What the figures depend on.
pub(crate) const PATH: &str = "two veth pairs between namespaces, MTU 1500; router (threaded NAPI included) on core 0, source \
     (AF_XDP) and sink on core 1; packets of 68 bytes";
/// For experiments, as Platypus's is: nothing in the rig uses it.
const UNUSED_PROTOCOL: u8 = 252;
