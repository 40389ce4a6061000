//! One way through waypoints, or several of which one is in use: a TUN device that the rules lead
//! packets into, and a thread that stamps what comes and sends it to the first waypoint of the lane
//! in use. Where a family has several lanes, a [`Prober`] tells which.
//!
//! The device's MTU is what the path to the first waypoint takes, less what stamping adds. So the
//! host's own stack cuts, refuses and answers as it would for any path: TCP sends smaller segments,
//! UDP that may not be cut gets EMSGSIZE, and who is forwarded gets the usual ICMP. When the path
//! to the first waypoint takes less than before, the kernel refuses a stamped packet; then the MTU
//! is set anew. It is the smallest of all lanes, so that it stays when another one is taken. What
//! lies beyond the first waypoint, waypoints report to the host in its own terms.
//!
//! Invariant: the thread ends with the value.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_capability::{PLATYPUS_PROTOCOL, PacketIds, Stamper};
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::Wake;
use rhumb_io::ip::{IpBatch, IpIo, Paths, RawOptions, RawSocket, Tun};
use rhumb_io::steering::Steering;
use rhumb_waypoint::choice::Choice;
use rhumb_waypoint::stamping::{Counts, Fallback, Stampers, count_fates, stamp_batch};
use rhumb_waypoint::via::{Via, text};

use super::in_use::Shared;
use super::keys::{Chosen, Keys};
use super::lane::{Departure, Lane, Leaves, lanes_of};
use super::probing::Prober;

/// A way that is in use.
#[derive(Debug)]
pub(crate) struct Way {
    via: Via,
    device: String,
    shared: Arc<Shared>,
    /// Of each list of waypoints, by family, what its stamper was made
    /// of; `Err` with the waypoint that has no key.
    chosen: [Vec<Option<Result<Chosen, IpAddr>>>; 2],
    departures: [Vec<Option<Departure>>; 2],
    /// Who asks which lane works, where there are several.
    probers: [Option<Prober>; 2],
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Worker {
    tun: Tun,
    raw: RawSocket,
    steering: Steering,
    paths: Paths,
    shared: Arc<Shared>,
    fallback: Fallback,
    ids: PacketIds,
}

impl Way {
    /// Starts stamping what comes out of `tun`, which has no packets yet.
    pub(crate) fn start(
        via: Via,
        tun: Tun,
        departures: [Vec<Option<Departure>>; 2],
        fallback: Fallback,
    ) -> Outcome<Self> {
        let device = tun.name().to_owned();
        let chosen = [false, true].map(|is_v6| via.of(is_v6).iter().map(|_| None).collect());
        let lanes = lanes_of(&via, &departures, |_, _| None);
        let shared = Arc::new(Shared {
            lanes: Mutex::new(Arc::new(lanes)),
            current: Default::default(),
            counts: Counts::default(),
            mtu: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            wake: Wake::new().map_err(Failure::setup)?,
        });
        // The protocol is received only so that the kernel learns
        // what paths take from ICMP about its packets.
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
            fallback,
            ids: PacketIds::new(0, super::random() as u32),
        };
        let probers = [None, None];
        let mut way = Self { via, device, shared, chosen, departures, probers, thread: None };
        worker.fit_mtu()?;
        let run = move || {
            if let Err(error) = worker.run() {
                tracing::error!(%error, device = worker.tun.name(), "stamping ended");
            }
        };
        let thread = std::thread::Builder::new().name("stamp".to_owned()).spawn(run);
        way.thread = Some(thread.map_err(Failure::operation)?);
        for is_v6 in [false, true] {
            if way.via.of(is_v6).len() > 1 {
                way.probers[usize::from(is_v6)] = Some(Prober::start(&way.shared, is_v6)?);
            }
        }
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

    /// Has a lane send from another address from now on, or not at all.
    pub(crate) fn depart(&mut self, is_v6: bool, lane: usize, departure: Option<Departure>) {
        let family = usize::from(is_v6);
        self.departures[family][lane] = departure;
        // The next look at the keys makes another stamper.
        self.chosen[family][lane] = None;
    }

    /// How packets of a family leave this host by each of its lanes, if there is a route.
    pub(crate) fn departures(&self, is_v6: bool) -> &[Option<Departure>] {
        &self.departures[usize::from(is_v6)]
    }

    /// Which lane of a family is in use.
    pub(crate) fn current(&self, is_v6: bool) -> usize {
        self.shared.current(is_v6)
    }

    /// How the lanes of a family stand, where there are several.
    pub(crate) fn choice(&self, is_v6: bool) -> Option<Choice> {
        self.probers[usize::from(is_v6)].as_ref().map(Prober::choice)
    }

    /// How often another lane was taken.
    pub(crate) fn changes(&self) -> u64 {
        self.probers.iter().flatten().map(Prober::changes).sum()
    }

    /// The keys of the lanes of a family: `Err` with the waypoint that has none.
    pub(crate) fn chosen(&self, is_v6: bool) -> impl Iterator<Item = &Result<Chosen, IpAddr>> {
        self.chosen[usize::from(is_v6)].iter().flatten()
    }

    /// Whether every family that is to be stamped has the keys of one of its lanes.
    pub(crate) fn is_ready(&self) -> bool {
        [false, true]
            .into_iter()
            .all(|is_v6| self.via.of(is_v6).is_empty() || self.chosen(is_v6).any(Result::is_ok))
    }

    /// Whether the thread still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Takes the keys for now. Cheap when they are those in use. That one
    /// is missing is said, unless it is waited for.
    pub(crate) fn refresh(&mut self, keys: &Keys, now_ms: u64, is_waited_for: bool) {
        let wanted = [false, true].map(|is_v6| {
            let lanes = self.via.of(is_v6).iter();
            lanes.map(|via| Some(keys.choose(via, now_ms))).collect::<Vec<_>>()
        });
        if wanted == self.chosen {
            return;
        }
        let lanes = lanes_of(&self.via, &self.departures, |via, departure| {
            match keys.choose(via, now_ms) {
                Ok(chosen) => {
                    let windows: Vec<u32> = chosen.iter().map(|it| it.window.0).collect();
                    let by = text(via);
                    tracing::info!(via = %by, ?windows, "stamping with the keys of these windows");
                    let stamper = keys.stamper(via, departure.encapsulation(), now_ms);
                    stamper.map_err(|error| tracing::error!(%error, via = %by, "cannot stamp")).ok()
                }
                Err(waypoint) => {
                    if !is_waited_for {
                        tracing::warn!(%waypoint, via = %text(via), "no valid key: packets are not stamped");
                    }
                    None
                }
            }
        });
        *self.shared.lanes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lanes);
        self.chosen = wanted;
        self.shared.wake.wake();
        self.probers.iter().flatten().for_each(Prober::wake);
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
        let mut lanes = self.shared.lanes();
        // The MTU was set before there was a stamper to ask: delegated capabilities take more room.
        let mut fit_again = Instant::now();
        while !self.shared.is_over.load(Ordering::Acquire) {
            let pause = fit_again.saturating_duration_since(Instant::now());
            self.tun.wait(Some(pause), Some(&self.shared.wake))?;
            let newest = self.shared.lanes();
            if !Arc::ptr_eq(&lanes, &newest) {
                lanes = newest;
                // Others may have other delegations, which take room.
                fit_again = Instant::now();
            }
            for _ in 0..MAX_BATCHES_A_TURN {
                if self.tun.receive(&mut batch)? == 0 {
                    break;
                }
                let now_us = clock::unix_us();
                let counts = &self.shared.counts;
                let [v4, v6] = [false, true].map(|is_v6| {
                    lanes[usize::from(is_v6)].get(self.shared.current(is_v6))?.stamper()
                });
                let stampers = Stampers { v4, v6 };
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

    /// Gives the device the MTU that the paths leave.
    fn fit_mtu(&mut self) -> Outcome {
        let lanes = self.shared.lanes();
        let mut mtu = None;
        let mut refused = None;
        for lane in lanes.iter().flatten() {
            match self.left_by(lane) {
                Ok(left) => mtu = Some(mtu.unwrap_or(left).min(left)),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        // A lane that is no good by itself is of no importance beside one that is.
        let Some(mtu) = mtu else {
            return refused.map_or(Ok(()), Err);
        };
        if mtu != self.shared.mtu.load(Ordering::Relaxed) {
            self.steering.set_mtu(self.tun.name(), mtu).map_err(Failure::setup)?;
            self.shared.mtu.store(mtu, Ordering::Relaxed);
            tracing::info!(device = self.tun.name(), mtu, "the largest packet to stamp");
        }
        Ok(())
    }

    /// What the path of a lane leaves to packets.
    fn left_by(&mut self, lane: &Lane) -> Outcome<u32> {
        let first = lane.via[0];
        let Leaves { to, is_udp, .. } = lane.leaves.ok_or_else(|| no_way(first, first))?;
        let is_v6 = first.is_ipv6();
        let path = self.paths.largest_packet(to).ok_or_else(|| no_way(first, to))?;
        let overhead = lane
            .stamper()
            .map_or_else(|| usual_overhead(lane.via.len(), is_v6, is_udp), Stamper::overhead);
        let overhead = (overhead + if is_v6 { 0 } else { WHOLE_V4 }) as u32;
        let (least, family) = if is_v6 { (LEAST_V6, "IPv6") } else { (LEAST_V4, "IPv4") };
        let left = path.saturating_sub(overhead);
        if left < least {
            return Err(Failure::setup_text(format!(
                "the path to waypoint {first} takes packets of {path} bytes; stamping adds {overhead}, \
                 and {family} needs {least}"
            )));
        }
        Ok(left)
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

/// IPv4 packets that cannot be made again from the header (fragments, options, tunnels) travel
/// whole, with another header in front. Fragments are as large as the device lets them be, so each
/// packet leaves this much free.
const WHOLE_V4: usize = 20;
/// RFC 8200: smaller packets IPv6 does not cut.
const LEAST_V6: u32 = 1280;
/// RFC 791: what every host takes.
const LEAST_V4: u32 = 576;
/// Ethernet's: room for so much is always there.
const USUAL_PACKET: usize = 1500;
/// How soon it is noticed that a path takes more again. The
/// kernel believes in a narrow one for ten minutes.
const FIT_INTERVAL: Duration = Duration::from_secs(30);
/// Half a thousand packets between two looks at the time and at the keys.
const MAX_BATCHES_A_TURN: usize = 8;
/// Nobody reads what the raw socket receives.
const RAW_BUFFER_BYTES: usize = 256 << 10;
