//! Asks waypoints whether a way works: by ICMP echo requests to its last waypoint, stamped as any
//! packet that goes there, which that waypoint answers (`docs/platypus.md`, section 9). One thread
//! for the ways of one family, where there are several.
//!
//! A probe carries a random number. An answer, or the word of a waypoint that the capability was
//! revoked, counts only if that number is in it: only who is on the way can have it.
//!
//! Invariant: the thread ends with the value.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_capability::{CapabilityError, PacketIds};
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::Wake;
use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket, ends_of};
use rhumb_waypoint::choice::{Choice, Said, Standing};

use super::in_use::Shared;
use super::lane::Lane;
use super::refusals::refusing;

/// Who asks.
#[derive(Debug)]
pub(super) struct Prober {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    choice: Mutex<Choice>,
    changes: AtomicU64,
    is_over: AtomicBool,
    wake: Wake,
}

/// What the thread works with.
struct Worker {
    is_v6: bool,
    shared: Arc<Shared>,
    state: Arc<State>,
    raw: RawSocket,
    icmp: RawSocket,
    batch: IpBatch,
    ids: PacketIds,
    identifier: u16,
    sequence: u16,
    stamped_before: u64,
    busy_until: Instant,
}

impl Prober {
    /// Starts to ask by all lanes of a family.
    pub(super) fn start(shared: &Arc<Shared>, is_v6: bool) -> Outcome<Self> {
        let now = clock::now().instant;
        let lanes = shared.lanes()[usize::from(is_v6)].len();
        let state = Arc::new(State {
            choice: Mutex::new(Choice::new(lanes, now)),
            changes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            wake: Wake::new().map_err(Failure::setup)?,
        });
        let any = RawOptions::default();
        let (protocol, ipv4, ipv6) =
            if is_v6 { (ICMP_V6, None, any.ipv6) } else { (ICMP_V4, any.ipv4, None) };
        let icmp = RawOptions {
            protocol: Some(protocol),
            ipv4,
            ipv6,
            buffer_bytes: BUFFER_BYTES,
            ..RawOptions::default()
        };
        let random = super::random();
        let mut worker = Worker {
            is_v6,
            shared: Arc::clone(shared),
            state: Arc::clone(&state),
            raw: RawSocket::open(&any).map_err(Failure::setup)?,
            icmp: RawSocket::open(&icmp).map_err(Failure::setup)?,
            batch: IpBatch::new(PACKET_LEN),
            ids: PacketIds::new(1 + u8::from(is_v6), random as u32),
            identifier: (random >> 32) as u16,
            sequence: 0,
            stamped_before: 0,
            busy_until: now,
        };
        let run = move || {
            if let Err(error) = worker.run() {
                tracing::error!(%error, "ways are not asked any more: the one in use stays");
            }
        };
        let thread = std::thread::Builder::new().name("probe".to_owned()).spawn(run);
        Ok(Self { state, thread: Some(thread.map_err(Failure::operation)?) })
    }

    /// What is known.
    pub(super) fn choice(&self) -> Choice {
        self.state.choice.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often another way was taken.
    pub(super) fn changes(&self) -> u64 {
        self.state.changes.load(Ordering::Relaxed)
    }

    /// Has keys and addresses looked at anew.
    pub(super) fn wake(&self) {
        self.state.wake.wake();
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        self.state.wake.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(&mut self) -> io::Result<()> {
        let mut choice = self.state.choice.lock().unwrap_or_else(PoisonError::into_inner).clone();
        while !self.state.is_over.load(Ordering::Acquire) {
            let now = clock::now().instant;
            self.ask(&mut choice, now)?;
            choice.choose(now);
            self.publish(&choice);
            let until = choice.next().unwrap_or(now).saturating_duration_since(now);
            self.icmp.wait(Some(until.min(LOOK)), Some(&self.state.wake))?;
            self.hear(&mut choice)?;
            self.publish(&choice);
        }
        Ok(())
    }

    /// Sends what is due.
    fn ask(&mut self, choice: &mut Choice, now: Instant) -> io::Result<()> {
        let stamped = self.shared.counts().stamped_packets.load(Ordering::Relaxed);
        if stamped != self.stamped_before {
            (self.stamped_before, self.busy_until) = (stamped, now + BUSY);
        }
        let is_busy = now < self.busy_until;
        let lanes = self.shared.lanes();
        for (number, lane) in lanes[usize::from(self.is_v6)].iter().enumerate() {
            let was_closed = choice.ways()[number].standing() == Standing::Closed;
            if lane.stamper().is_none() {
                if !was_closed {
                    choice.set_unasked(number, Standing::Closed, now);
                }
                continue;
            }
            if was_closed {
                choice.open(number, now);
            }
            if !choice.is_due(number, is_busy, now) {
                continue;
            }
            let nonce = super::random();
            match self.probe(lane, nonce) {
                Ok(probe) => {
                    self.batch.clear();
                    if self.batch.push(&probe) {
                        // What becomes of it shows by its answer.
                        self.raw.send(&mut self.batch)?;
                    }
                    choice.sent(number, nonce, now);
                }
                Err(_) => choice.set_unasked(number, Standing::NotAsked, now),
            }
        }
        Ok(())
    }

    fn probe(&mut self, lane: &Lane, nonce: u64) -> Result<Vec<u8>, CapabilityError> {
        let (Some(stamper), Some(source)) = (lane.stamper(), lane.source()) else {
            return Err(CapabilityError::CapabilityCount(0));
        };
        self.sequence = self.sequence.wrapping_add(1);
        let question = question(source, lane.last(), self.identifier, self.sequence, nonce);
        let room = stamper.headroom();
        let mut buffer = vec![0; room];
        buffer.extend_from_slice(&question);
        let end = buffer.len();
        let place = stamper.stamp(&mut buffer, room..end, &mut self.ids, clock::unix_us())?;
        Ok(buffer[place].to_vec())
    }

    /// Reads what has come.
    fn hear(&mut self, choice: &mut Choice) -> io::Result<()> {
        for _ in 0..MOST_BATCHES {
            self.batch.clear();
            if self.icmp.receive(&mut self.batch)? == 0 {
                break;
            }
            let now = clock::now().instant;
            for index in 0..self.batch.len() {
                let packet = self.batch.packet(index);
                let Some(said) = said(packet) else { continue };
                let flying: Vec<u64> = choice.flying().collect();
                let is_in =
                    |nonce: &u64| packet.windows(8).any(|bytes| bytes == nonce.to_be_bytes());
                if let Some(nonce) = flying.into_iter().find(is_in) {
                    choice.heard(nonce, said, now);
                }
            }
        }
        Ok(())
    }

    /// Has packets take the way that was chosen, and lets others see what is known.
    fn publish(&mut self, choice: &Choice) {
        let (before, after) = (self.shared.current(self.is_v6), choice.current());
        if before != after {
            self.shared.set_current(self.is_v6, after);
            self.state.changes.fetch_add(1, Ordering::Relaxed);
            let lanes = self.shared.lanes();
            let lanes = &lanes[usize::from(self.is_v6)];
            let why = choice.ways()[before].standing().as_str();
            tracing::warn!(
                from = %lanes[before], to = %lanes[after], why,
                "packets take another way"
            );
        }
        *self.state.choice.lock().unwrap_or_else(PoisonError::into_inner) = choice.clone();
    }
}

/// An echo request from this host to a waypoint.
fn question(source: IpAddr, to: IpAddr, identifier: u16, sequence: u16, nonce: u64) -> Vec<u8> {
    let mut icmp = vec![if to.is_ipv4() { 8 } else { 128 }, 0, 0, 0];
    icmp.extend(identifier.to_be_bytes());
    icmp.extend(sequence.to_be_bytes());
    icmp.extend(nonce.to_be_bytes());
    let len = icmp.len() as u16;
    let mut packet;
    let mut pseudo = Vec::new();
    match (source, to) {
        (IpAddr::V4(source), IpAddr::V4(to)) => {
            packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, ICMP_V4, 0, 0];
            packet[2..4].copy_from_slice(&(20 + len).to_be_bytes());
            packet.extend(source.octets());
            packet.extend(to.octets());
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (source, to) => {
            packet = vec![0x60, 0, 0, 0, 0, 0, ICMP_V6, HOPS];
            packet[4..6].copy_from_slice(&len.to_be_bytes());
            for address in [source, to] {
                let octets = match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                    IpAddr::V6(v6) => v6.octets(),
                };
                packet.extend(octets);
                pseudo.extend(octets);
            }
            pseudo.extend([0, 0, len.to_be_bytes()[0], len.to_be_bytes()[1], 0, 0, 0, ICMP_V6]);
        }
    }
    let sum = checksum(&[&pseudo[..], &icmp].concat());
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.extend(icmp);
    packet
}

/// The Internet checksum of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

/// What an ICMP packet says of a probe, if that is what it speaks of.
fn said(packet: &[u8]) -> Option<Said> {
    let (from, _) = ends_of(packet)?;
    if let Some(waypoint) = refusing(packet) {
        return Some(Said::Prohibited(waypoint));
    }
    let (header_len, reply) = match from {
        IpAddr::V4(_) => (usize::from(packet.first()? & 0x0F) * 4, 0),
        IpAddr::V6(_) => (40, 129),
    };
    (*packet.get(header_len)? == reply).then_some(Said::Here)
}

const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;
/// As of any packet of this host.
const HOPS: u8 = 64;
/// As long as an ICMPv6 error is at most.
const PACKET_LEN: usize = 1280;
/// ICMP of others comes there, too.
const BUFFER_BYTES: usize = 256 << 10;
/// So that a flood of ICMP does not keep probes from being sent.
const MOST_BATCHES: usize = 8;
/// How soon it is noticed that packets go, or that a key has come.
const LOOK: Duration = Duration::from_millis(200);
/// For so long after the last packet the way in use is asked at its pace.
const BUSY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_whole_packet_with_right_checksums() {
        let packet =
            question([192, 0, 2, 9].into(), [192, 0, 2, 1].into(), 7, 8, 0x0102_0304_0506_0708);
        assert_eq!((packet.len(), checksum(&packet[..20]), checksum(&packet[20..])), (36, 0, 0));
        assert_eq!(packet[20..28], [8, 0, packet[22], packet[23], 0, 7, 0, 8]);
        let (source, to) = ("2001:db8::9".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let packet = question(source, to, 7, 8, 9);
        assert_eq!((packet.len(), packet[40]), (56, 128));
        let pseudo = [&packet[8..40], &[0, 0, 0, 16, 0, 0, 0, 58], &packet[40..]].concat();
        assert_eq!(checksum(&pseudo), 0);
    }

    #[test]
    fn answers_and_prohibitions_are_heard_and_questions_are_not() {
        let mut packet = question([192, 0, 2, 9].into(), [192, 0, 2, 1].into(), 7, 8, 9);
        assert_eq!(said(&packet), None);
        packet[20] = 0;
        assert_eq!(said(&packet), Some(Said::Here));
        (packet[20], packet[21]) = (3, 13);
        assert_eq!(said(&packet), Some(Said::Prohibited([192, 0, 2, 9].into())));
        for len in 0..21 {
            assert_eq!(said(&packet[..len]), None);
        }
    }
}
