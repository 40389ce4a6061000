//! Where a waypoint's packets come from and go to: one place per worker for Platypus itself, and
//! threads that receive what comes another way and hand it to the worker it belongs to.
//!
//! - `raw`: worker 0 has raw sockets for IP protocol 253, the others send only. `xdp`: the same,
//!   and past the kernel each worker has its share of the device's queues.
//! - `tun`: each worker has a queue of the device, to which the addresses are
//!   led; everything comes by it, ICMP and UDP too.
//! - Beside raw sockets and AF_XDP: a thread for ICMP, one for ICMPv6, and one
//!   for UDP at each address. All of it leaves by the worker's own place, so that
//!   what was too big is known packet by packet.
//!
//! Why one receiver that hands over, and not a socket per worker: packets of one flow
//! must meet one replay filter, whichever way they came, and a raw socket per worker
//! would get a copy of every packet each. Decision 0021.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rhumb_capability::{PLATYPUS_PROTOCOL, core_of};
use rhumb_daemon::config::{PacketIoChoice, WaypointSettings};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket, Tun, TunOptions, UdpCarriage};
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::xdp::{self, XdpPackets};
use rhumb_io::{IoError, Wake};

/// Packets on their way to the worker that they belong to.
pub(super) struct Handed {
    pub(super) packets: IpBatch,
    pub(super) kind: Kind,
    /// Where the empty batch goes.
    pub(super) home: SyncSender<IpBatch>,
}

/// How packets came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As IP packets of Platypus.
    Platypus,
    /// In UDP, and so they go on.
    Udp,
    /// ICMP, for worker 0.
    Icmp,
}

/// The way to a worker.
#[derive(Clone)]
pub(super) struct Inlet {
    pub(super) packets: SyncSender<Handed>,
    pub(super) wake: Wake,
    /// Packets that found its queue full.
    pub(super) overflows: Arc<std::sync::atomic::AtomicU64>,
}

/// All places.
pub(super) struct Places {
    /// One per worker.
    pub(super) own: Vec<Box<dyn IpIo + Send>>,
    /// What is received by threads of their own.
    pub(super) others: Vec<(Kind, Box<dyn IpIo + Send>)>,
    /// For people: `raw`, `tun NAME`, `xdp_copy` or `xdp_zero_copy`.
    pub(super) name: String,
}

/// Opens all that the settings ask for.
pub(super) fn open(settings: &WaypointSettings) -> Outcome<Places> {
    let addresses = &settings.verifier.addresses;
    let workers = usize::from(settings.workers);
    if let PacketIoChoice::Tun(name) = &settings.io {
        let options = TunOptions { name: name.clone(), ..TunOptions::default() };
        let queues = Tun::open_queues(&options, workers).map_err(Failure::setup)?;
        for address in addresses {
            queues[0].lead(*address).map_err(Failure::setup)?;
        }
        warn_unless_forwarding(addresses);
        let name = format!("tun {}", queues[0].name());
        let own = queues.into_iter().map(|queue| Box::new(queue) as _).collect();
        return Ok(Places { own, others: Vec::new(), name });
    }
    let mut sockets = vec![raw(addresses, Some(PLATYPUS_PROTOCOL)).map_err(Failure::setup)?];
    for _ in 1..workers {
        sockets.push(raw(addresses, None).map_err(Failure::setup)?);
    }
    let (own, name) = match &settings.io {
        PacketIoChoice::Xdp { interfaces, zero_copy_only } => {
            with_rings(sockets, interfaces, *zero_copy_only)
        }
        _ => (boxed(sockets), "raw".to_owned()),
    };
    let mut others: Vec<(Kind, Box<dyn IpIo + Send>)> = Vec::new();
    for (protocol, is_v4) in [(ICMP, true), (ICMP_V6, false)] {
        let family: Vec<IpAddr> =
            addresses.iter().filter(|it| it.is_ipv4() == is_v4).copied().collect();
        if !family.is_empty() {
            let socket = raw(&family, Some(protocol)).map_err(Failure::setup)?;
            others.push((Kind::Icmp, Box::new(socket)));
        }
    }
    if settings.udp {
        for address in addresses {
            let port = settings.verifier.port;
            let socket = UdpSocket::bind(SocketAddr::new(*address, port), Options::default());
            let carriage =
                UdpCarriage::new(socket.map_err(Failure::setup)?, PLATYPUS_PROTOCOL, port);
            others.push((Kind::Udp, Box::new(carriage.map_err(Failure::setup)?)));
        }
    }
    Ok(Places { own, others, name })
}

/// Raw sockets of the families of these addresses. They take what comes to any address of the host:
/// else the kernel would answer for those that are not ours.
fn raw(addresses: &[IpAddr], protocol: Option<u8>) -> Result<RawSocket, IoError> {
    let mut options = RawOptions { protocol, ..RawOptions::default() };
    if !addresses.iter().any(IpAddr::is_ipv4) {
        options.ipv4 = None;
    }
    if !addresses.iter().any(IpAddr::is_ipv6) {
        options.ipv6 = None;
    }
    RawSocket::open(&options)
}

fn boxed<I: IpIo + Send + 'static>(all: Vec<I>) -> Vec<Box<dyn IpIo + Send>> {
    all.into_iter().map(|io| Box::new(io) as _).collect()
}

/// AF_XDP, of which each socket gets its share of the queues; or the
/// sockets as they were and a line that says why.
fn with_rings(
    sockets: Vec<RawSocket>,
    interfaces: &[String],
    zero_copy_only: bool,
) -> (Vec<Box<dyn IpIo + Send>>, String) {
    let names: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    let options = xdp::Options { zero_copy_only, ..xdp::Options::default() };
    match XdpPackets::attach_shared(sockets, &names, &options) {
        Ok(all) => {
            let idle = all.iter().filter(|rings| rings.queues() == 0).count();
            if idle > 0 {
                tracing::warn!(
                    idle,
                    "more workers than receive queues: these get packets from the others alone"
                );
            }
            let mut with_queues = all.iter().filter(|rings| rings.queues() > 0);
            let is_zero_copy = with_queues.all(XdpPackets::is_zero_copy);
            let name = if is_zero_copy { "xdp_zero_copy" } else { "xdp_copy" };
            (boxed(all), name.to_owned())
        }
        Err(refused) => {
            let refusal = &refused.refusal;
            if zero_copy_only {
                tracing::info!("packet I/O by raw sockets: {refusal}");
            } else {
                tracing::warn!("no AF_XDP, going on with raw sockets: {refusal}");
            }
            (boxed(refused.socket), "raw".to_owned())
        }
    }
}

/// Packets come to a TUN device and leave it only if the kernel forwards.
fn warn_unless_forwarding(addresses: &[IpAddr]) {
    for (is_v4, path) in
        [(true, "/proc/sys/net/ipv4/ip_forward"), (false, "/proc/sys/net/ipv6/conf/all/forwarding")]
    {
        let is_off = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
        if is_off && addresses.iter().any(|address| address.is_ipv4() == is_v4) {
            tracing::warn!("this host does not forward: write 1 to {path}, or use --io raw");
        }
    }
}

/// A thread that receives and hands over, until it is told to end.
pub(super) struct Receiver {
    stop: Arc<AtomicBool>,
    wake: Wake,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Receiver {
    /// Starts it.
    pub(super) fn start(
        kind: Kind,
        mut io: Box<dyn IpIo + Send>,
        inlets: Vec<Inlet>,
        port: u16,
    ) -> Outcome<Self> {
        let wake = Wake::new().map_err(Failure::setup)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, own_wake) = (Arc::clone(&stop), wake.clone());
        let run = move || {
            let mut sorter = Sorter::new(inlets, port);
            let mut packets = sorter.fresh();
            while !stopped.load(Ordering::Acquire) {
                let received =
                    io.wait(Some(MAX_WAIT), Some(&own_wake)).and_then(|_| io.receive(&mut packets));
                match received {
                    Ok(0) => {}
                    Ok(_) => packets = sorter.hand_over(packets, kind),
                    Err(error) => {
                        tracing::error!(%error, ?kind, "packets are received no longer");
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("{kind:?}").to_lowercase())
            .spawn(run)
            .map_err(Failure::operation)?;
        Ok(Self { stop, wake, thread: Some(thread) })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

/// Gives packets to the workers that they belong to, in batches that come back.
pub(super) struct Sorter {
    inlets: Vec<Inlet>,
    port: u16,
    home: SyncSender<IpBatch>,
    empty: std::sync::mpsc::Receiver<IpBatch>,
}

impl Sorter {
    pub(super) fn new(inlets: Vec<Inlet>, port: u16) -> Self {
        let (home, empty) = sync_channel(QUEUE);
        Self { inlets, port, home, empty }
    }

    /// An empty batch.
    pub(super) fn fresh(&self) -> IpBatch {
        let mut batch = self.empty.try_recv().unwrap_or_else(|_| IpBatch::new(PACKET_LEN));
        batch.clear();
        batch
    }

    /// Hands over a whole batch, and returns an empty one.
    pub(super) fn hand_over(&mut self, packets: IpBatch, kind: Kind) -> IpBatch {
        if kind == Kind::Icmp || self.inlets.len() == 1 {
            self.send(0, packets, kind);
            return self.fresh();
        }
        let mut packets = packets;
        let all = |_: usize| true;
        self.sort(&mut packets, kind, all);
        packets.clear();
        packets
    }

    /// Copies packets to their workers: those whose worker `is_wanted` says.
    pub(super) fn sort(
        &mut self,
        packets: &mut IpBatch,
        kind: Kind,
        is_wanted: impl Fn(usize) -> bool,
    ) {
        let cores = self.inlets.len();
        let mut sorted: [Option<IpBatch>; MAX_WORKERS] = [const { None }; MAX_WORKERS];
        for index in 0..packets.len() {
            let packet = packets.packet(index);
            if packet.is_empty() {
                continue;
            }
            let core = usize::from(core_of(packet, self.port, cores as u16));
            if is_wanted(core) {
                sorted[core].get_or_insert_with(|| self.fresh()).push(packet);
                packets.drop_packet(index);
            }
        }
        for (core, packets) in sorted.into_iter().enumerate() {
            if let Some(packets) = packets {
                self.send(core, packets, kind);
            }
        }
    }

    pub(super) fn send(&self, core: usize, packets: IpBatch, kind: Kind) {
        let inlet = &self.inlets[core];
        let handed = Handed { packets, kind, home: self.home.clone() };
        match inlet.packets.try_send(handed) {
            Ok(()) => inlet.wake.wake(),
            Err(TrySendError::Full(handed) | TrySendError::Disconnected(handed)) => {
                let lost = handed.packets.iter().count() as u64;
                inlet.overflows.fetch_add(lost, Ordering::Relaxed);
                // There is room: no more batches are made than fit.
                let _ = self.home.try_send(handed.packets);
            }
        }
    }
}

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// As the configuration bounds them.
const MAX_WORKERS: usize = 8;
/// Jumbo frames. A larger packet is dropped and counted.
pub(super) const PACKET_LEN: usize = 9216;
/// Batches that wait for one worker: some milliseconds of work.
pub(super) const QUEUE: usize = 16;
/// Nothing depends on it: a receiver is woken when it has to end.
const MAX_WAIT: Duration = Duration::from_secs(10);
