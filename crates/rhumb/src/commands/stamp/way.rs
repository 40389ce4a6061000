//! One way through waypoints: a TUN device that the rules lead packets into, and a thread that stamps what comes and sends it to
//! the first waypoint.
//!
//! The device's MTU is what the path to the first waypoint takes, less what stamping adds. So the host's own stack cuts, refuses
//! and answers as it would for any path: TCP sends smaller segments, UDP that may not be cut gets EMSGSIZE, and who is forwarded
//! gets the usual ICMP. When the path to the first waypoint takes less than before, the kernel refuses a stamped packet; then
//! the MTU is set anew. What lies beyond the first waypoint, waypoints report to the host in its own terms.
//!
//! Invariant: the thread ends with the value.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_capability::{Encapsulation, PLATYPUS_PROTOCOL, PacketIds, Stamper};
use rhumb_io::Wake;
use rhumb_io::ip::{IpBatch, IpIo, Paths, RawOptions, RawSocket, Tun};
use rhumb_io::steering::Steering;

use super::keys::{Chosen, Keys};
use super::stamping::{Counts, Fallback, Stampers, count_fates, stamp_batch};
use crate::clock;
use crate::failure::{Failure, Outcome};

/// Waypoints in their order, of each family that is to be stamped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Via {
    pub(crate) v4: Vec<IpAddr>,
    pub(crate) v6: Vec<IpAddr>,
}

/// A way that is in use.
#[derive(Debug)]
pub(crate) struct Way {
    via: Via,
    device: String,
    shared: Arc<Shared>,
    /// What the stampers were made of, by family; `Err` with the waypoint that has no key.
    chosen: [Option<Result<Chosen, IpAddr>>; 2],
    departures: [Option<Departure>; 2],
    thread: Option<JoinHandle<()>>,
}

/// How packets of one family leave this host: from which address, where to, and in what.
#[derive(Debug)]
pub(crate) struct Departure {
    source: IpAddr,
    /// The first waypoint, or where a translator has it.
    to: IpAddr,
    udp: Option<Carriage>,
}

/// A port of this host that packets leave from in UDP. They are sent by the raw socket, which keeps their hop limit and class and
/// tells what became of each; the socket here keeps the port from others, and by it the kernel learns what the path takes.
/// Nobody reads what it receives: waypoints answer to the original source.
#[derive(Debug)]
struct Carriage {
    _socket: UdpSocket,
    source_port: u16,
    to: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    stampers: Mutex<Arc<Stampers>>,
    counts: Counts,
    mtu: AtomicU32,
    is_over: AtomicBool,
    wake: Wake,
}

/// What the thread works with.
struct Worker {
    tun: Tun,
    raw: RawSocket,
    steering: Steering,
    paths: Paths,
    shared: Arc<Shared>,
    via: Via,
    /// Where packets of each family go, and whether in UDP.
    first_hops: [Option<(IpAddr, bool)>; 2],
    fallback: Fallback,
    ids: PacketIds,
}

impl Via {
    /// The waypoints of a family.
    pub(crate) fn of(&self, is_v6: bool) -> &[IpAddr] {
        if is_v6 { &self.v6 } else { &self.v4 }
    }

    /// Takes one list of one family. False when there is one of that family already, or it mixes families.
    pub(crate) fn take(&mut self, list: &[IpAddr]) -> bool {
        let Some(first) = list.first() else { return false };
        let mine = if first.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        let fits = mine.is_empty() && list.iter().all(|it| it.is_ipv4() == first.is_ipv4());
        if fits {
            mine.extend_from_slice(list);
        }
        fits
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.v4.iter().chain(&self.v6).copied()
    }
}

impl std::fmt::Display for Via {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text =
            |list: &[IpAddr]| list.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        match (self.v4.is_empty(), self.v6.is_empty()) {
            (false, false) => write!(f, "{} and {}", text(&self.v4), text(&self.v6)),
            (_, true) => f.write_str(&text(&self.v4)),
            (true, false) => f.write_str(&text(&self.v6)),
        }
    }
}

impl Departure {
    /// From `source` to `to`; in UDP where its address and port are given.
    pub(crate) fn new(source: IpAddr, to: IpAddr, udp: Option<SocketAddr>) -> Outcome<Self> {
        let udp = udp.map(|to| Carriage::open(source, to)).transpose()?;
        Ok(Self { source, to, udp })
    }

    /// Where this host sends from.
    pub(crate) fn source(&self) -> IpAddr {
        self.source
    }

    /// Where stamped packets go.
    pub(crate) fn to(&self) -> IpAddr {
        self.to
    }

    /// Where they go in UDP, if they do.
    pub(crate) fn udp(&self) -> Option<SocketAddr> {
        self.udp.as_ref().map(|udp| udp.to)
    }

    fn set_source(&mut self, source: IpAddr) -> Outcome {
        if let Some(udp) = &mut self.udp {
            *udp = Carriage::open(source, udp.to)?;
        }
        self.source = source;
        Ok(())
    }

    fn encapsulation(&self) -> Encapsulation {
        let source = Some(self.source);
        match &self.udp {
            None => Encapsulation::Ip { source },
            Some(udp) => Encapsulation::Udp {
                source,
                source_port: udp.source_port,
                destination: Some(self.to),
                port: udp.to.port(),
            },
        }
    }
}

impl Carriage {
    fn open(source: IpAddr, to: SocketAddr) -> Outcome<Self> {
        let open = || {
            let socket = UdpSocket::bind((source, 0))?;
            socket.connect(to)?;
            let source_port = socket.local_addr()?.port();
            Ok(Self { _socket: socket, source_port, to })
        };
        open().map_err(|error: io::Error| {
            Failure::setup_text(format!("no UDP from {source} to {to}: {error}"))
        })
    }
}

impl Way {
    /// Starts stamping what comes out of `tun`, which has no packets yet.
    pub(crate) fn start(
        via: Via,
        tun: Tun,
        departures: [Option<Departure>; 2],
        fallback: Fallback,
    ) -> Outcome<Self> {
        let device = tun.name().to_owned();
        let shared = Arc::new(Shared {
            stampers: Mutex::default(),
            counts: Counts::default(),
            mtu: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            wake: Wake::new().map_err(Failure::setup)?,
        });
        // The protocol is received only so that the kernel learns what paths take from ICMP about its packets.
        let raw = RawOptions {
            protocol: Some(PLATYPUS_PROTOCOL),
            buffer_bytes: RAW_BUFFER_BYTES,
            ..RawOptions::default()
        };
        let mut worker = Worker {
            tun,
            raw: RawSocket::open(&raw).map_err(Failure::setup)?,
            steering: Steering::new().map_err(Failure::setup)?,
            paths: Paths::new().map_err(Failure::setup)?,
            shared: Arc::clone(&shared),
            via: via.clone(),
            first_hops: departures
                .each_ref()
                .map(|it| it.as_ref().map(|it| (it.to, it.udp.is_some()))),
            fallback,
            ids: PacketIds::new(0, super::random() as u32),
        };
        let mut way = Self { via, device, shared, chosen: [None, None], departures, thread: None };
        worker.fit_mtu()?;
        let run = move || {
            if let Err(error) = worker.run() {
                tracing::error!(%error, device = worker.tun.name(), "stamping ended");
            }
        };
        let thread = std::thread::Builder::new().name("stamp".to_owned()).spawn(run);
        way.thread = Some(thread.map_err(Failure::operation)?);
        Ok(way)
    }

    /// The waypoints.
    pub(crate) fn via(&self) -> &Via {
        &self.via
    }

    /// Its TUN device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// The device's MTU, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.shared.mtu.load(Ordering::Relaxed)
    }

    /// What was done.
    pub(crate) fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Sends from another address from now on.
    pub(crate) fn set_source(&mut self, is_v6: bool, source: IpAddr) -> Outcome {
        if let Some(departure) = &mut self.departures[usize::from(is_v6)] {
            departure.set_source(source)?;
        }
        // The next look at the keys makes another stamper.
        self.chosen[usize::from(is_v6)] = None;
        Ok(())
    }

    /// How packets of a family leave this host, if it has waypoints.
    pub(crate) fn departure(&self, is_v6: bool) -> Option<&Departure> {
        self.departures[usize::from(is_v6)].as_ref()
    }

    /// The keys in use, by family: `Err` with the waypoint that has none.
    pub(crate) fn chosen(&self, is_v6: bool) -> Option<&Result<Chosen, IpAddr>> {
        self.chosen[usize::from(is_v6)].as_ref()
    }

    /// Whether every family that is to be stamped has its keys.
    pub(crate) fn is_ready(&self) -> bool {
        [false, true]
            .into_iter()
            .all(|is_v6| self.via.of(is_v6).is_empty() || matches!(self.chosen(is_v6), Some(Ok(_))))
    }

    /// Whether the thread still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Takes the keys for now. Cheap when they are those in use. That one is missing is said, unless it is waited for.
    pub(crate) fn refresh(&mut self, keys: &Keys, now_ms: u64, is_waited_for: bool) {
        let families = [false, true];
        let wanted = families.map(|is_v6| {
            let via = self.via.of(is_v6);
            (!via.is_empty()).then(|| keys.choose(via, now_ms))
        });
        if wanted == self.chosen {
            return;
        }
        let mut stampers = Stampers::default();
        for is_v6 in families {
            let (via, index) = (self.via.of(is_v6), usize::from(is_v6));
            let Some(departure) = &self.departures[index] else { continue };
            match &wanted[index] {
                Some(Ok(chosen)) => {
                    let place = if is_v6 { &mut stampers.v6 } else { &mut stampers.v4 };
                    match keys.stamper(via, departure.encapsulation(), now_ms) {
                        Ok(stamper) => *place = Some(stamper),
                        Err(error) => tracing::error!(%error, via = %self.via, "cannot stamp"),
                    }
                    let windows: Vec<u32> = chosen.iter().map(|it| it.window.0).collect();
                    tracing::info!(via = %self.via, ?windows, "stamping with the keys of these windows");
                }
                Some(Err(waypoint)) if !is_waited_for => {
                    tracing::warn!(%waypoint, via = %self.via, "no valid key: packets are not stamped");
                }
                _ => {}
            }
        }
        let mut shared = self.shared.stampers.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = Arc::new(stampers);
        drop(shared);
        self.chosen = wanted;
        self.shared.wake.wake();
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.wake.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(&mut self) -> std::io::Result<()> {
        let mut batch = IpBatch::new(self.largest_packet());
        let mut stampers = self.stampers();
        // The MTU was set before there was a stamper to ask: delegated capabilities take more room.
        let mut fit_again = Instant::now();
        while !self.shared.is_over.load(Ordering::Acquire) {
            let pause = fit_again.saturating_duration_since(Instant::now());
            self.tun.wait(Some(pause), Some(&self.shared.wake))?;
            let newest = self.stampers();
            if !Arc::ptr_eq(&stampers, &newest) {
                stampers = newest;
                // Others may have other delegations, which take room.
                fit_again = Instant::now();
            }
            for _ in 0..MAX_BATCHES_A_TURN {
                if self.tun.receive(&mut batch)? == 0 {
                    break;
                }
                let now_us = clock::unix_us();
                let counts = &self.shared.counts;
                stamp_batch(&mut batch, &stampers, self.fallback, &mut self.ids, now_us, counts);
                self.raw.send(&mut batch)?;
                if count_fates(&batch, counts) {
                    fit_again = Instant::now();
                }
            }
            if fit_again <= Instant::now() {
                fit_again = Instant::now() + FIT_INTERVAL;
                if let Err(error) = self.fit_mtu() {
                    tracing::warn!(%error, device = self.tun.name(), "the device keeps its MTU");
                }
                if self.largest_packet() > batch.packet_len() {
                    batch = IpBatch::new(self.largest_packet());
                }
            }
        }
        Ok(())
    }

    /// What the device may give us, with what it has in its queue from before its MTU was lowered.
    fn largest_packet(&self) -> usize {
        (self.shared.mtu.load(Ordering::Relaxed) as usize).max(USUAL_PACKET)
    }

    fn stampers(&self) -> Arc<Stampers> {
        Arc::clone(&self.shared.stampers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the device the MTU that the path leaves.
    fn fit_mtu(&mut self) -> Outcome {
        let stampers = self.stampers();
        let mut mtu = u32::MAX;
        for is_v6 in [false, true] {
            let via = self.via.of(is_v6);
            let Some((&first, (to, is_udp))) = via.first().zip(self.first_hops[usize::from(is_v6)])
            else {
                continue;
            };
            let path = self.paths.largest_packet(to).ok_or_else(|| no_way(first, to))?;
            let stamper = if is_v6 { &stampers.v6 } else { &stampers.v4 };
            let overhead = stamper
                .as_ref()
                .map_or_else(|| usual_overhead(via.len(), is_v6, is_udp), Stamper::overhead);
            let overhead = (overhead + if is_v6 { 0 } else { WHOLE_V4 }) as u32;
            let (least, family) = if is_v6 { (LEAST_V6, "IPv6") } else { (LEAST_V4, "IPv4") };
            let left = path.saturating_sub(overhead);
            if left < least {
                return Err(Failure::setup_text(format!(
                    "the path to waypoint {first} takes packets of {path} bytes; stamping adds {overhead}, \
                     and {family} needs {least}"
                )));
            }
            mtu = mtu.min(left);
        }
        if mtu != self.shared.mtu.load(Ordering::Relaxed) {
            self.steering.set_mtu(self.tun.name(), mtu).map_err(Failure::setup)?;
            self.shared.mtu.store(mtu, Ordering::Relaxed);
            tracing::info!(device = self.tun.name(), mtu, "the largest packet to stamp");
        }
        Ok(())
    }
}

/// Bytes that stamping adds, before there is a stamper to ask.
fn usual_overhead(waypoints: usize, is_v6: bool, is_udp: bool) -> usize {
    let header = if is_v6 { 48 + 32 * waypoints } else { 24 + 20 * waypoints };
    header + if is_udp { UDP_LEN } else { 0 }
}

/// What is said when the kernel has no route.
pub(crate) fn no_way(waypoint: IpAddr, to: IpAddr) -> Failure {
    let by = if waypoint == to { String::new() } else { format!(" at {to}") };
    Failure::setup_text(format!("this host has no way to waypoint {waypoint}{by}"))
}

const UDP_LEN: usize = 8;

/// IPv4 packets that cannot be made again from the header (fragments, options, tunnels) travel whole, with another header in
/// front. Fragments are as large as the device lets them be, so each packet leaves this much free.
const WHOLE_V4: usize = 20;
/// RFC 8200: smaller packets IPv6 does not cut.
const LEAST_V6: u32 = 1280;
/// RFC 791: what every host takes.
const LEAST_V4: u32 = 576;
/// Ethernet's: room for so much is always there.
const USUAL_PACKET: usize = 1500;
/// How soon it is noticed that a path takes more again. The kernel believes in a narrow one for ten minutes.
const FIT_INTERVAL: Duration = Duration::from_secs(30);
/// Half a thousand packets between two looks at the time and at the keys.
const MAX_BATCHES_A_TURN: usize = 8;
/// Nobody reads what the raw socket receives.
const RAW_BUFFER_BYTES: usize = 256 << 10;
