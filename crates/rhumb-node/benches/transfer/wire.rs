//! A long wire between two hosts, each a network namespace: a TUN device at either end, and two
//! threads between them.
//!
//! Each direction has a rate, a queue in front of it that drops what finds it full, and a delay
//! behind it; packets from the near host to the far one are lost by chance besides, when they have
//! taken their time on the wire. The threads go before whatever else the machine does.
//!
//! Invariant: hosts, devices and threads are gone with the [`Wire`].

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_io::ip::{IpBatch, IpIo, Tun, TunOptions};

use crate::hosts::Host;

/// What a wire is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kind {
    /// Of the two directions together.
    pub(crate) round_trip: Duration,
    /// The part of the packets from near to far that gets lost.
    pub(crate) loss: f64,
}

/// Two hosts, and what is between them.
pub(crate) struct Wire {
    pub(crate) near: Host,
    pub(crate) far: Host,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What goes from one end to the other.
struct Direction {
    queue: Duration,
    delay: Duration,
    loss: f64,
    /// When all that was sent so far is on the wire.
    free_at: Instant,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    dice: u64,
}

impl Kind {
    /// A bandwidth-delay product, and not less than a short one has.
    pub(crate) fn queue(&self) -> Duration {
        self.round_trip.max(SHORTEST_QUEUE)
    }
}

impl Wire {
    /// A new one.
    ///
    /// # Errors
    /// Why this process may not make one.
    pub(crate) fn new(kind: Kind) -> Result<Self, String> {
        let host = || Host::new().map_err(|error| format!("a network namespace: {error}"));
        let (near, far) = (host()?, host()?);
        let device = |host: &Host, address: IpAddr| {
            // TCP has room for what is under way, and learns nothing for the next turn.
            host.run(&format!(
                "for it in rmem wmem; do echo '4096 131072 {TCP_BUFFER}' > /proc/sys/net/ipv4/tcp_$it; done; \
                 echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save"
            ));
            let options = TunOptions {
                name: "wire".into(),
                mtu: MTU,
                superpackets: false,
                addresses: vec![(address, 24)],
            };
            host.enter(|| Tun::open(&options)).map_err(|error| format!("a TUN device: {error}"))
        };
        let (here, there) = (device(&near, NEAR)?, device(&far, FAR)?);
        let again = |end: &Tun| end.again().map_err(|error| format!("a TUN device: {error}"));
        let ways = [(again(&here)?, again(&there)?, kind.loss), (there, here, 0.0)];
        let stop = Arc::<AtomicBool>::default();
        let threads = ways.map(|(from, to, loss)| {
            let (asked, direction) = (Arc::clone(&stop), Direction::new(kind, loss));
            std::thread::spawn(move || carry(from, to, direction, &asked))
        });
        Ok(Self { near, far, stop, threads: threads.into() })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Direction {
    fn new(kind: Kind, loss: f64) -> Self {
        Self {
            queue: kind.queue(),
            delay: kind.round_trip / 2,
            loss,
            free_at: Instant::now(),
            under_way: VecDeque::new(),
            dice: 1,
        }
    }

    fn take(&mut self, packet: &[u8], now: Instant) {
        if self.free_at.saturating_duration_since(now) > self.queue {
            return;
        }
        let nanos = packet.len() as u64 * 1_000_000_000 / RATE_BYTES_PER_S;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(nanos);
        // Source: Knuth's MMIX; its upper bits are as good as this needs.
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = (self.dice >> 11) as f64 / (1_u64 << 53) as f64;
        if chance >= self.loss {
            self.under_way.push_back((self.free_at + self.delay, packet.to_vec()));
        }
    }

    /// Hands over what has arrived.
    fn give(&mut self, now: Instant, packets: &mut IpBatch) {
        while packets.len() < MOST_AT_ONCE
            && self.under_way.front().is_some_and(|(at, _)| *at <= now)
        {
            if let Some((_, packet)) = self.under_way.pop_front() {
                packets.push(&packet);
            }
        }
    }
}

/// Carries from one device to another until it is told to stop.
fn carry(mut from: Tun, mut to: Tun, mut direction: Direction, stop: &AtomicBool) {
    priority::raise();
    let mut packets = IpBatch::new(MTU as usize);
    while !stop.load(Ordering::Relaxed) {
        let received = from.receive(&mut packets).expect("a device that is there");
        let now = Instant::now();
        for (_, packet) in packets.iter() {
            direction.take(packet, now);
        }
        packets.clear();
        direction.give(Instant::now(), &mut packets);
        if !packets.is_empty() {
            to.send(&mut packets).expect("a device that is there");
        } else if received == 0 {
            let next = direction.under_way.front().map(|(at, _)| *at);
            let wait = next.map_or(LOOKS_EVERY, |at| at.saturating_duration_since(Instant::now()));
            from.wait(Some(wait.min(LOOKS_EVERY)), None).expect("waiting");
        }
    }
}

/// Source: setpriority(2), whose number 0 is the calling thread.
#[allow(unsafe_code, reason = "setpriority has no safe form in the standard library")]
mod priority {
    /// Has this thread go before others, as far as the system allows.
    pub(super) fn raise() {
        // SAFETY: no memory is involved; a refusal makes the wire less punctual, not wrong.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
    }
}

/// 100 Mbit/s, of IP packets.
pub(crate) const RATE_BYTES_PER_S: u64 = 12_500_000;
pub(crate) const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 1));
pub(crate) const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 2));
/// Some tens of milliseconds, as access lines have at the least.
const SHORTEST_QUEUE: Duration = Duration::from_millis(20);
const MTU: u32 = 1500;
/// Four times what the longest wire and its queue hold.
const TCP_BUFFER: u32 = 32 << 20;
const MOST_AT_ONCE: usize = 64;
/// How soon it notices that it is to stop.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
