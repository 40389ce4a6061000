//! A worker: one thread, one [`Waypoint`] core, one place to send by.
//!
//! One turn:
//! 1. what is ordered is done: keys, revocations, the end;
//! 2. what others handed over is handled;
//! 3. wait for packets, a wake or the next report;
//! 4. receive batches, hand over what belongs to other workers, handle the rest.
//!
//! To handle a batch: verify and change it in place, send it, tell
//! sources what could not be sent, send what is told.
//!
//! Invariant: queues between workers are bounded; what finds no room is dropped and counted.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_capability::{
    Carriage, Epoch, EpochKeys, ErrorRelay, Next, Packet, Revocations, Undelivered, Verdict,
    Waypoint, fragments, into_udp, is_icmp,
};
use rhumb_daemon::clock;
use rhumb_io::Wake;
use rhumb_io::ip::{Fate, IpBatch, IpIo, Paths};
use rhumb_waypoint::Totals;

use super::io::{Handed, Inlet, Kind, PACKET_LEN, Sorter};

/// What a worker is told.
pub(super) enum Order {
    /// Take capabilities for this address of this epoch, too. The
    /// second is for the relay, which worker 0 has.
    Install(IpAddr, Box<(EpochKeys, EpochKeys)>),
    /// Take them no longer.
    Retire(IpAddr, Epoch),
    /// This is revoked. The other end waits until all of these are dropped.
    Revoke(Arc<Revocations>, Sender<()>),
    /// Dropped when all that was ordered before is done.
    Fence(Sender<()>),
    /// End, after a last report.
    End,
}

/// All that a worker has.
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) waypoint: Waypoint,
    /// Worker 0 has it.
    pub(super) relay: Option<ErrorRelay>,
    pub(super) io: Box<dyn IpIo + Send>,
    pub(super) orders: Receiver<Order>,
    pub(super) handed: Receiver<Handed>,
    pub(super) inlets: Vec<Inlet>,
    pub(super) port: u16,
    pub(super) totals: Arc<Mutex<Totals>>,
}

/// The end of a worker that others hold.
pub(super) struct Handle {
    pub(super) orders: Sender<Order>,
    pub(super) wake: Wake,
    pub(super) totals: Arc<Mutex<Totals>>,
    pub(super) thread: Option<std::thread::JoinHandle<()>>,
}

impl Handle {
    /// Tells the worker something.
    pub(super) fn tell(&self, order: Order) {
        // One that has ended takes no more orders: the waypoint ends for it.
        let _ = self.orders.send(order);
        self.wake.wake();
    }

    /// Whether it had to end.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(std::thread::JoinHandle::is_finished)
    }
}

/// What is reused from batch to batch.
struct Desk {
    sorter: Sorter,
    batch: IpBatch,
    replies: IpBatch,
    packets: Vec<Packet>,
    /// Numbers in the batch of these packets.
    numbers: Vec<usize>,
    paths: Paths,
}

impl Worker {
    /// Works until it is told to end.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut desk = Desk {
            sorter: Sorter::new(self.inlets.clone(), self.port),
            batch: IpBatch::new(PACKET_LEN),
            replies: IpBatch::new(PACKET_LEN),
            packets: Vec::new(),
            numbers: Vec::new(),
            paths: Paths::new()?,
        };
        let wake = self.inlets[self.number].wake.clone();
        let mut next_report = Instant::now();
        loop {
            if !self.take_orders() {
                self.report();
                return Ok(());
            }
            let now = Instant::now();
            if next_report <= now {
                self.report();
                next_report = now + REPORT_INTERVAL;
            }
            let more = self.take_handed(&mut desk)?;
            let left =
                if more { Duration::ZERO } else { next_report.saturating_duration_since(now) };
            self.io.wait(Some(left), Some(&wake))?;
            for _ in 0..MAX_BATCHES_A_TURN {
                let mut batch = std::mem::replace(&mut desk.batch, IpBatch::new(0));
                let received = self.io.receive(&mut batch)?;
                if received > 0 {
                    self.pass_on_others(&mut batch, &mut desk);
                    self.handle(&mut batch, Kind::Platypus, &mut desk)?;
                }
                desk.batch = batch;
                if received == 0 {
                    break;
                }
            }
        }
    }

    /// Does what is ordered; whether it goes on.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Install(address, keys)) => {
                    let (keys, for_relay) = *keys;
                    self.waypoint.install_epoch_for(address, keys);
                    if let Some(relay) = &mut self.relay {
                        relay.install_epoch_for(address, for_relay);
                    }
                }
                Ok(Order::Retire(address, epoch)) => {
                    self.waypoint.retire_epoch_for(address, epoch);
                    if let Some(relay) = &mut self.relay {
                        relay.retire_epoch_for(address, epoch);
                    }
                }
                Ok(Order::Revoke(revocations, done)) => {
                    self.waypoint.set_revocations(revocations);
                    drop(done);
                }
                Ok(Order::Fence(done)) => drop(done),
                Err(TryRecvError::Empty) => return true,
                Ok(Order::End) | Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Handles what was handed over, a bounded number of batches; whether there may be more.
    fn take_handed(&mut self, desk: &mut Desk) -> io::Result<bool> {
        for _ in 0..MAX_BATCHES_A_TURN {
            let Ok(Handed { mut packets, kind, home }) = self.handed.try_recv() else {
                return Ok(false);
            };
            self.handle(&mut packets, kind, desk)?;
            // A home that is full, or gone, needs it no more.
            let _ = home.try_send(packets);
        }
        Ok(true)
    }

    /// Hands over packets that belong to other workers.
    fn pass_on_others(&mut self, batch: &mut IpBatch, desk: &mut Desk) {
        if self.inlets.len() == 1 {
            return;
        }
        if self.relay.is_none() {
            self.pass_on_icmp(batch, desk);
        }
        let own = self.number;
        desk.sorter.sort(batch, Kind::Platypus, |core| core != own);
    }

    /// Of a TUN device any queue may have ICMP.
    fn pass_on_icmp(&self, batch: &mut IpBatch, desk: &mut Desk) {
        let mut messages = None;
        for index in 0..batch.len() {
            if is_icmp(batch.packet(index)) {
                messages.get_or_insert_with(|| desk.sorter.fresh()).push(batch.packet(index));
                batch.drop_packet(index);
            }
        }
        if let Some(messages) = messages {
            desk.sorter.send(0, messages, Kind::Icmp);
        }
    }

    fn handle(&mut self, batch: &mut IpBatch, kind: Kind, desk: &mut Desk) -> io::Result<()> {
        let now_us = clock::unix_us();
        desk.replies.clear();
        self.relay_icmp(batch, kind, now_us, &mut desk.replies);
        self.verify(batch, kind, now_us, desk);
        if !desk.numbers.is_empty() {
            let report = self.io.send(batch)?;
            if report.dropped_too_big + report.dropped_unreachable > 0 {
                self.tell_undelivered(batch, now_us, desk);
            }
        }
        if !desk.replies.is_empty() {
            self.io.send(&mut desk.replies)?;
        }
        Ok(())
    }

    /// Takes ICMP out of a batch. Only a TUN device gives it together with other packets.
    fn relay_icmp(&mut self, batch: &mut IpBatch, kind: Kind, now_us: u64, replies: &mut IpBatch) {
        let Some(relay) = &mut self.relay else { return };
        for index in 0..batch.len() {
            let packet = batch.packet(index);
            if kind == Kind::Icmp || is_icmp(packet) {
                if !packet.is_empty() {
                    relay.handle(packet, now_us, |reply| {
                        replies.push(reply);
                    });
                }
                batch.drop_packet(index);
            }
        }
    }

    /// Leaves in the batch what is to be sent, and in the desk what that is.
    fn verify(&mut self, batch: &mut IpBatch, kind: Kind, now_us: u64, desk: &mut Desk) {
        let Desk { packets, numbers, replies, .. } = desk;
        packets.clear();
        numbers.clear();
        for index in 0..batch.len() {
            let range = batch.place_in_arena(index);
            if !range.is_empty() {
                packets.push(Packet::new(range.start, range.len(), Carriage::Ip));
                numbers.push(index);
            }
        }
        self.waypoint.handle_batch(batch.arena_mut(), packets, now_us, |reply| {
            replies.push(reply);
        });
        for (packet, &index) in packets.iter().zip(&*numbers) {
            match packet.verdict {
                Verdict::Forward(advanced) => {
                    batch.place_by_arena(index, packet.start..packet.start + packet.len);
                    if kind == Kind::Udp && matches!(advanced.next, Next::Waypoint(_)) {
                        let (room, range) = batch.room_mut(index);
                        if let Some(range) = into_udp(room, range, self.port) {
                            batch.place(index, range);
                        }
                    }
                }
                Verdict::Drop(_) | Verdict::Pending => batch.drop_packet(index),
            }
        }
    }

    fn tell_undelivered(&mut self, batch: &IpBatch, now_us: u64, desk: &mut Desk) {
        let Desk { packets, numbers, replies, paths, .. } = desk;
        let mut last: Option<(IpAddr, Option<u32>)> = None;
        for (packet, &index) in packets.iter().zip(&*numbers) {
            let Verdict::Forward(advanced) = packet.verdict else { continue };
            let (bytes, to) = (batch.packet(index), advanced.next.address());
            let why = match batch.fate(index) {
                Fate::TooBig => {
                    let known = last.filter(|(of, _)| *of == to).map(|(_, mtu)| mtu);
                    let mtu = known.unwrap_or_else(|| paths.largest_packet(to));
                    last = Some((to, mtu));
                    // A path that has become wider meanwhile needs no message.
                    let Some(mtu) = mtu.filter(|mtu| (*mtu as usize) < bytes.len()) else {
                        continue;
                    };
                    let is_last = matches!(advanced.next, Next::Destination(_));
                    if is_last && cut(bytes, mtu, replies) {
                        continue;
                    }
                    Undelivered::TooBig { mtu }
                }
                Fate::Unreachable => Undelivered::Unreachable,
                _ => continue,
            };
            self.waypoint.handle_undelivered(bytes, advanced.next, why, now_us, |reply| {
                replies.push(reply);
            });
        }
    }

    /// Writes down what there is to tell.
    fn report(&self) {
        let overflows = self.inlets[self.number].overflows.load(Ordering::Relaxed);
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.take(&self.waypoint, self.relay.as_ref(), self.io.counters(), overflows);
    }
}

/// Whether a packet could be cut; then `out` has its fragments.
fn cut(packet: &[u8], mtu: u32, out: &mut IpBatch) -> bool {
    fragments(packet, mtu, |fragment| {
        // A fragment is smaller than its packet, which has come in such a batch.
        out.push(fragment);
    })
}

/// How old the figures of a worker are at most.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// With 64 packets a batch, a turn stays well below a millisecond.
const MAX_BATCHES_A_TURN: usize = 8;
