//! Waypoint and gateway as loops of the bench's own: packets in by a backend,
//! one thing done with each, packets out. What a product does as well, but for
//! null forwarding, which must not exist there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rhumb_capability::{Carriage, Packet, PacketIds, Stamper, Verdict, Verifier};
use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket, Tun, TunOptions};
use rhumb_io::xdp::{self, XdpPackets};

use crate::keys::Clock;
use crate::rig::thread_cpu;

/// How packets come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Raw,
    Tun,
    Xdp,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Tun => "tun",
            Self::Xdp => "xdp",
        }
    }

    /// Opens it in the namespace of this thread, a router's, for packets of `protocol`.
    pub(crate) fn open(self, protocol: u8) -> Box<dyn IpIo + Send> {
        self.open_on(&["left", "right"], protocol)
    }

    /// The same, on these interfaces where it is bound to any.
    pub(crate) fn open_on(self, interfaces: &[&str], protocol: u8) -> Box<dyn IpIo + Send> {
        let options = RawOptions { protocol: Some(protocol), ipv6: None, ..RawOptions::default() };
        let raw = || RawSocket::open(&options).expect("raw sockets");
        match self {
            Self::Raw => Box::new(raw()),
            Self::Tun => {
                let addresses = vec![("10.77.0.1".parse().expect("an address"), 24)];
                let options = TunOptions { addresses, ..TunOptions::default() };
                Box::new(Tun::open(&options).expect("a TUN device"))
            }
            Self::Xdp => {
                let attached = XdpPackets::attach(raw(), interfaces, &xdp::Options::default());
                Box::new(attached.unwrap_or_else(|refused| panic!("{}", refused.refusal)))
            }
        }
    }
}

/// What is done with packets.
pub(crate) enum Step<'a> {
    /// Everything but the proof: the header is read and checked, and stripped.
    Null(&'a mut Verifier),
    Verify(&'a mut Verifier),
    Stamp(&'a Stamper, &'a mut PacketIds),
}

/// What a forwarder did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// Of its thread, and of what the kernel did in it.
    pub(crate) cpu: Duration,
    pub(crate) packets: usize,
    pub(crate) batches: usize,
    /// From the wall, as a waypoint would see it: to receive, to verify or stamp, to send.
    pub(crate) receiving: Duration,
    pub(crate) handling: Duration,
    pub(crate) sending: Duration,
    /// Packets that were not forwarded.
    pub(crate) refused: usize,
}

/// Forwards until it is to stop.
pub(crate) fn run(io: &mut dyn IpIo, mut step: Step<'_>, clock: Clock, stop: &AtomicBool) -> Work {
    let (mut batch, mut packets) = (IpBatch::new(PACKET_LEN), Vec::new());
    let (mut work, begin) = (Work::default(), thread_cpu::now());
    while !stop.load(Ordering::Acquire) {
        io.wait(Some(Duration::from_millis(10)), None).expect("waiting");
        loop {
            let start = Instant::now();
            let received = io.receive(&mut batch).expect("receiving");
            if received == 0 {
                break;
            }
            let taken = Instant::now();
            work.refused += step.handle(&mut batch, &mut packets, clock.now_us());
            let handled = Instant::now();
            io.send(&mut batch).expect("sending");
            work.receiving += taken - start;
            work.handling += handled - taken;
            work.sending += handled.elapsed();
            work.packets += received;
            work.batches += 1;
        }
    }
    work.cpu = thread_cpu::now() - begin;
    work
}

impl Step<'_> {
    /// Handles a batch; how many packets may not go on.
    pub(crate) fn handle(
        &mut self,
        batch: &mut IpBatch,
        packets: &mut Vec<Packet>,
        now_us: u64,
    ) -> usize {
        match self {
            Self::Null(verifier) => at_once(batch, packets, |arena, packets| {
                verifier.forward_unverified(arena, packets, now_us);
            }),
            Self::Verify(verifier) => at_once(batch, packets, |arena, packets| {
                verifier.verify_batch(arena, packets, now_us);
            }),
            Self::Stamp(stamper, ids) => stamp(batch, stamper, ids, now_us),
        }
    }
}

/// Has all packets of a batch handled together.
fn at_once(
    batch: &mut IpBatch,
    packets: &mut Vec<Packet>,
    handle: impl FnOnce(&mut [u8], &mut [Packet]),
) -> usize {
    packets.clear();
    for index in 0..batch.len() {
        let place = batch.place_in_arena(index);
        packets.push(Packet::new(place.start, place.len(), Carriage::Ip));
    }
    handle(batch.arena_mut(), packets);
    let mut refused = 0;
    for (index, packet) in packets.iter().enumerate() {
        if let Verdict::Forward(_) = packet.verdict {
            batch.place_by_arena(index, packet.start..packet.start + packet.len);
        } else {
            batch.drop_packet(index);
            refused += 1;
        }
    }
    refused
}

fn stamp(batch: &mut IpBatch, stamper: &Stamper, ids: &mut PacketIds, now_us: u64) -> usize {
    let places: Vec<_> = (0..batch.len()).map(|index| batch.place_in_arena(index)).collect();
    let mut results = Vec::with_capacity(places.len());
    stamper.stamp_batch(batch.arena_mut(), &places, ids, now_us, |index, stamped| {
        results.push((index, stamped));
    });
    let mut refused = 0;
    for (index, stamped) in results {
        match stamped {
            Ok(place) => batch.place_by_arena(index, place),
            Err(_) => {
                batch.drop_packet(index);
                refused += 1;
            }
        }
    }
    refused
}

/// An Ethernet's.
pub(crate) const PACKET_LEN: usize = 1500;
