//! Over veth: source - router - sink, in namespaces. What routes is Linux (IPv4, and
//! SRv6 with its HMAC checked or not), or a loop that forwards without looking,
//! verifies, or stamps, by raw sockets, TUN or AF_XDP.
//!
//! Source, router and sink share one core and none interrupts another when it wakes: the source
//! sends a window of packets, the router's kernel takes them all (threaded NAPI), the
//! forwarding thread forwards them all, the sink receives them. So a router is always measured
//! at its limit, with full batches, whichever is the slower; on two cores it gets few packets
//! at a time when the load is. CPU time is that of the router's two threads; what the sink's
//! kernel does is on another core and not counted. Packets are made, and stamped, before each
//! slice, so that all are fresh and unlike each other, and the source only sends. All kinds
//! take turns within a round, forwards and backwards.

pub(crate) mod load;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rhumb_capability::{PLATYPUS_PROTOCOL, PacketIds, Stamper, Suite, Verifier};
use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket};
use rhumb_io::pin_thread;

use crate::forwarder::{self, Backend, PACKET_LEN, Step, Work};
use crate::keys::{Clock, fill_replay_filter, stamper, verifier};
use crate::rig::wire::{Host, Line};
use crate::rig::{Rig, sys};
use crate::traffic::{HMAC_KEY, INNER_PROTOCOL, SIZES, fill, ip_packet, srv6_packet};

pub(crate) const ROUNDS: usize = 11;
/// Packets of a slice: the router is at work for 10 to 50 ms.
pub(crate) const PACKETS: usize = BATCHES * BATCH;
const BATCHES: usize = 160;
const BATCH: usize = 64;
/// Packets on their way at most: as many as the ring of a veth device holds.
const WINDOW: usize = 256;
/// What has not arrived after this long is lost.
const LOST_AFTER: Duration = Duration::from_millis(200);
const CORE: usize = 0;
/// Where the sink's kernel handles what arrives.
const SINK_CORE: usize = 1;
/// Where the router's stack gives packets to the TUN device.
const BEHIND_TUN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// What the router's kernel is as an endpoint of segment routing.
const SEGMENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0x5E6, 0, 0, 0, 0, 1);

/// What routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Linux,
    /// Linux, as an endpoint of segment routing, with the HMAC of packets checked or not.
    Srv6 {
        checked: bool,
    },
    Waypoint(Backend, Task),
}

/// What the waypoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Null,
    Verify,
    Stamp,
}

pub(crate) const BACKENDS: [Backend; 3] = [Backend::Raw, Backend::Tun, Backend::Xdp];
const TASKS: [Task; 3] = [Task::Null, Task::Verify, Task::Stamp];

/// All kinds, those to be compared next to each other.
pub(crate) fn kinds() -> Vec<Kind> {
    let linux = [Kind::Linux, Kind::Srv6 { checked: false }, Kind::Srv6 { checked: true }];
    let waypoints = BACKENDS.into_iter().flat_map(|it| TASKS.map(|task| Kind::Waypoint(it, task)));
    linux.into_iter().chain(waypoints).collect()
}

/// One slice.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slice {
    pub(crate) arrived: usize,
    pub(crate) lost: usize,
    /// From the first packet that is sent to the last one that arrives.
    pub(crate) elapsed: Duration,
    /// Of the thread that handles arrival at the router.
    pub(crate) arrival: Duration,
    pub(crate) work: Work,
}

/// All slices of one kind at one size.
pub(crate) struct Series {
    pub(crate) kind: Kind,
    pub(crate) size: usize,
    /// Bytes of a packet while it has all its headers: more than the size where they take more.
    pub(crate) bytes: usize,
    pub(crate) slices: Vec<Slice>,
}

/// Everything there is to measure over veth; an empty answer, and why, without root.
pub(crate) fn measure() -> Result<Vec<Series>, &'static str> {
    let place = Place::new().ok_or("needs root and the ip command")?;
    let mut bench = Bench::new(place, BATCHES, PACKET_LEN);
    // The forwarding threads inherit both.
    pin_thread(CORE).map_err(|_| "cannot keep to a core")?;
    sys::wake_politely();
    let mut all: Vec<Series> = Vec::new();
    for size in SIZES {
        all.extend(kinds().into_iter().map(|kind| Series {
            kind,
            size,
            bytes: bench.bytes(kind, size),
            slices: Vec::new(),
        }));
    }
    // The first round warms up.
    for round in 0..=ROUNDS {
        let numbers = 0..all.len();
        let order: Vec<usize> =
            if round % 2 == 0 { numbers.collect() } else { numbers.rev().collect() };
        for number in order {
            let Series { kind, size, slices, .. } = &mut all[number];
            let slice = bench.run(*kind, *size);
            if round > 0 {
                slices.push(slice);
            }
        }
    }
    Ok(all)
}

/// The rig, with segment routing.
struct Place(Rig);

impl Place {
    fn new() -> Option<Self> {
        let rig = Rig::new(CORE, SINK_CORE)?;
        let Line { r1: router, r2: sink, .. } = &rig.line;
        // The last of it is for the TUN device, which gets packets of IPv6 itself otherwise.
        router.run(&format!(
            "cd /proc/sys/net/ipv6/conf; echo 1 > all/seg6_enabled; echo 1 > left/seg6_enabled; \
             ip -6 route add {SEGMENT}/128 encap seg6local action End dev right; \
             echo {} | setsid ip sr hmac set {} sha256; echo 1 > default/disable_ipv6",
            HMAC_KEY.1, HMAC_KEY.0
        ));
        // The sink takes what has such a header, and does not look at it.
        sink.run(
            "cd /proc/sys/net/ipv6/conf; echo 1 > all/seg6_enabled; echo 1 > left/seg6_enabled; \
             echo -1 > left/seg6_require_hmac",
        );
        Some(Self(rig))
    }

    fn router(&self) -> &Host {
        &self.0.line.r1
    }
}

/// What is used from slice to slice.
struct Bench {
    place: Place,
    clock: Clock,
    ids: PacketIds,
    gateway_ids: PacketIds,
    verifier: Verifier,
    /// For the waypoint's own address, and for the one behind its TUN device.
    stampers: [Stamper; 2],
    /// The gateway's, for the sink as the next waypoint.
    gateway: Stamper,
    batches: Vec<IpBatch>,
}

impl Bench {
    fn new(place: Place, batches: usize, packet_len: usize) -> Self {
        let [router, sink] = [Line::R1, Line::R2].map(address);
        let by = |waypoint| stamper(waypoint, Suite::HeaderAes, 0);
        let stampers = [by(router), by(BEHIND_TUN)];
        let mut verifier = verifier(&[router, BEHIND_TUN]);
        fill_replay_filter(&mut verifier, &stampers[0]);
        Self {
            place,
            clock: Clock::new(),
            ids: PacketIds::new(0, 0),
            gateway_ids: PacketIds::new(1, 0),
            verifier,
            stampers,
            gateway: by(sink),
            batches: (0..batches).map(|_| IpBatch::new(packet_len)).collect(),
        }
    }

    /// Bytes of a packet while it has all its headers.
    fn bytes(&self, kind: Kind, size: usize) -> usize {
        let plain = self.plain(kind, size).len();
        match kind {
            Kind::Waypoint(..) => plain + self.gateway.overhead(),
            Kind::Linux | Kind::Srv6 { .. } => plain,
        }
    }

    /// A packet as it is before the source stamps it, if it does.
    fn plain(&self, kind: Kind, size: usize) -> Vec<u8> {
        let [source, router, sink] = [Line::A, Line::R1, Line::R2].map(address);
        let to_router = |backend| if backend == Backend::Tun { BEHIND_TUN } else { router };
        match kind {
            Kind::Linux => ip_packet(source, sink, size),
            Kind::Srv6 { .. } => {
                let [source, sink] = [Line::A6, Line::R2_6].map(|it| it.parse().expect("IPv6"));
                srv6_packet(source, SEGMENT, sink, size)
            }
            Kind::Waypoint(backend, Task::Stamp) => {
                ip_packet(source, to_router(backend), size - self.gateway.overhead())
            }
            Kind::Waypoint(_, Task::Null | Task::Verify) => {
                ip_packet(source, sink, size - self.stampers[0].overhead())
            }
        }
    }

    /// What the source stamps with.
    fn stamper(&self, kind: Kind) -> Option<&Stamper> {
        match kind {
            Kind::Waypoint(Backend::Tun, Task::Null | Task::Verify) => Some(&self.stampers[1]),
            Kind::Waypoint(_, Task::Null | Task::Verify) => Some(&self.stampers[0]),
            _ => None,
        }
    }

    /// What comes to the waypoint, and what leaves it, by protocol.
    fn protocols(kind: Kind) -> [u8; 2] {
        match kind {
            Kind::Waypoint(_, Task::Stamp) => [INNER_PROTOCOL, PLATYPUS_PROTOCOL],
            _ => [PLATYPUS_PROTOCOL, INNER_PROTOCOL],
        }
    }

    /// What the waypoint forwards by; the kernel needs nothing.
    fn backend(&self, kind: Kind) -> Option<Box<dyn IpIo + Send>> {
        let Kind::Waypoint(backend, _) = kind else { return None };
        let [incoming, _] = Self::protocols(kind);
        Some(self.place.router().enter(|| backend.open(incoming)))
    }

    /// Packets that are ready to be sent; they go back to [`Bench::batches`].
    fn packets(&mut self, kind: Kind, plain: &[u8]) -> Vec<IpBatch> {
        let mut batches = std::mem::take(&mut self.batches);
        let mut ids = std::mem::replace(&mut self.ids, PacketIds::new(0, 0));
        let now_us = self.clock.now_us();
        fill(&mut batches, BATCH, plain, self.stamper(kind), &mut ids, now_us);
        self.ids = ids;
        batches
    }

    /// What the waypoint does, and where it is.
    fn step(&mut self, kind: Kind) -> (Step<'_>, &Place) {
        let step = match kind {
            Kind::Waypoint(_, Task::Stamp) => Step::Stamp(&self.gateway, &mut self.gateway_ids),
            Kind::Waypoint(_, Task::Verify) => Step::Verify(&mut self.verifier),
            _ => Step::Null(&mut self.verifier),
        };
        (step, &self.place)
    }

    fn run(&mut self, kind: Kind, size: usize) -> Slice {
        if let Kind::Srv6 { checked } = kind {
            let value = if checked { "1" } else { "-1" };
            let path = "/proc/sys/net/ipv6/conf/left/seg6_require_hmac";
            self.place.router().enter(|| std::fs::write(path, value)).expect("a setting");
        }
        let plain = self.plain(kind, size);
        let Line { a, r2: sink, .. } = &self.place.0.line;
        let [_, outgoing] = Self::protocols(kind);
        let mut source = a.enter(|| RawSocket::open(&RawOptions::default())).expect("raw sockets");
        let options = RawOptions { protocol: Some(outgoing), ..RawOptions::default() };
        let mut sink = sink.enter(|| RawSocket::open(&options)).expect("raw sockets");
        let mut io = self.backend(kind);
        let mut batches = self.packets(kind, &plain);
        let (clock, stop, thread) = (self.clock, AtomicBool::new(false), self.place.0.arrival);
        let (step, _) = self.step(kind);
        let slice = std::thread::scope(|scope| {
            let forwarder = scope
                .spawn(|| io.as_mut().map(|io| forwarder::run(io.as_mut(), step, clock, &stop)));
            let before = sys::cpu_of(thread);
            let (arrived, elapsed) = load(&mut source, &mut sink, &mut batches);
            let arrival = sys::cpu_of(thread).saturating_sub(before);
            stop.store(true, Ordering::Release);
            let work = forwarder.join().expect("the forwarder works").unwrap_or_default();
            Slice { arrived, lost: PACKETS - arrived, elapsed, arrival, work }
        });
        assert_eq!(slice.work.refused, 0, "{kind:?} refused packets that are right");
        self.batches = batches;
        slice
    }
}

/// Sends all there is to send, and receives what arrives.
/// Returns how many those are, and how long it took.
fn load(
    source: &mut RawSocket,
    sink: &mut RawSocket,
    batches: &mut [IpBatch],
) -> (usize, Duration) {
    let mut incoming = IpBatch::new(PACKET_LEN);
    let mut outgoing = batches.iter_mut();
    let (mut sent, mut received, mut lost) = (0, 0, 0);
    let begin = Instant::now();
    let mut last = begin;
    while received + lost < PACKETS {
        if sent - received - lost + BATCH <= WINDOW
            && let Some(batch) = outgoing.next()
        {
            let report = source.send(batch).expect("the wire takes packets");
            lost += BATCH - report.sent;
            sent += BATCH;
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
    (received, last - begin)
}

impl Slice {
    /// Nanoseconds of the router per packet, all of them.
    pub(crate) fn all_ns(&self) -> f64 {
        self.per_packet(self.arrival + self.work.cpu)
    }

    pub(crate) fn arrival_ns(&self) -> f64 {
        self.per_packet(self.arrival)
    }

    pub(crate) fn thread_ns(&self) -> f64 {
        self.per_packet(self.work.cpu)
    }

    /// To verify, to stamp, or to do neither.
    pub(crate) fn handling_ns(&self) -> f64 {
        self.per_packet(self.work.handling)
    }

    /// Thousands of packets that arrive per second of the wall, of all that share the core.
    pub(crate) fn kpps(&self) -> f64 {
        self.arrived as f64 / self.elapsed.as_secs_f64() / 1e3
    }

    fn per_packet(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.arrived.max(1) as f64
    }
}

impl Kind {
    pub(crate) fn name(self) -> String {
        let Self::Waypoint(backend, task) = self else {
            return match self {
                Self::Linux => "Linux IPv4",
                Self::Srv6 { checked: true } => "Linux SRv6, HMAC",
                _ => "Linux SRv6",
            }
            .to_owned();
        };
        let task = match task {
            Task::Null => "null",
            Task::Verify => "verify",
            Task::Stamp => "stamp",
        };
        format!("{}, {task}", backend.name())
    }
}

fn address(text: &str) -> Ipv4Addr {
    text.parse().expect("an address")
}
