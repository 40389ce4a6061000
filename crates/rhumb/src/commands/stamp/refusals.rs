//! What waypoints say of packets that they refuse: "administratively prohibited", by ICMP, when a
//! capability was revoked. Whoever sent the packet hears it from the system; who runs the stamper
//! hears it here, by a log line and in the status.
//!
//! Invariant: at most [`MOST_BATCHES`] are read in a turn, and a waypoint is
//! logged at most once in [`AGAIN`]. ICMP is not signed: anybody can write such a
//! message, so nothing follows from it but words.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket, ends_of};

/// Listens for it.
pub(super) struct Refusals {
    /// For ICMP and for ICMPv6, where the system has them.
    sockets: Vec<RawSocket>,
    batch: IpBatch,
    heard: BTreeMap<IpAddr, Heard>,
}

/// Of one waypoint.
#[derive(Debug, Clone, Copy)]
struct Heard {
    messages: u64,
    last: Instant,
    said: Instant,
}

impl Refusals {
    /// Where the system has no such sockets, nothing is heard, and nothing else is worse for it.
    pub(super) fn listen() -> Self {
        let ipv6 = RawOptions::default().ipv6;
        let icmp = RawOptions { protocol: Some(ICMP_V4), ipv6: None, ..small() };
        let icmp_v6 = RawOptions { protocol: Some(ICMP_V6), ipv4: None, ipv6, ..small() };
        let open = |options: &RawOptions| {
            let socket = RawSocket::open(options);
            socket.inspect_err(|error| tracing::debug!(%error, "refusals are not heard")).ok()
        };
        let sockets = [icmp, icmp_v6].iter().filter_map(open).collect();
        Self { sockets, batch: IpBatch::new(PACKET_LEN), heard: BTreeMap::new() }
    }

    /// Reads what has come from these waypoints.
    pub(super) fn turn(&mut self, waypoints: &[IpAddr], now: Instant) {
        for at in 0..self.sockets.len() {
            for _ in 0..MOST_BATCHES {
                self.batch.clear();
                match self.sockets[at].receive(&mut self.batch) {
                    Ok(1..) => {}
                    _ => break,
                }
                for index in 0..self.batch.len() {
                    let from = refusing(self.batch.packet(index));
                    if let Some(from) = from.filter(|from| waypoints.contains(from)) {
                        note(&mut self.heard, from, now);
                    }
                }
            }
        }
    }

    /// Messages of all waypoints.
    pub(super) fn messages(&self) -> u64 {
        self.heard.values().map(|heard| heard.messages).sum()
    }

    /// A line for each waypoint that refuses.
    pub(super) fn lines(&self, now: Instant) -> Vec<String> {
        let line = |(waypoint, heard): (&IpAddr, &Heard)| {
            let ago = now.saturating_duration_since(heard.last).as_secs();
            format!("{waypoint}: revoked, {} messages, the last {ago} s ago", heard.messages)
        };
        self.heard.iter().map(line).collect()
    }
}

fn note(heard: &mut BTreeMap<IpAddr, Heard>, waypoint: IpAddr, now: Instant) {
    let first = !heard.contains_key(&waypoint);
    let entry = heard.entry(waypoint).or_insert(Heard { messages: 0, last: now, said: now });
    (entry.messages, entry.last) = (entry.messages + 1, now);
    if first || now.saturating_duration_since(entry.said) >= AGAIN {
        entry.said = now;
        tracing::warn!(
            %waypoint,
            "a waypoint refuses packets: it says that the capability was revoked; ask whom it is from"
        );
    }
}

/// Who says of a packet that it is prohibited.
pub(super) fn refusing(packet: &[u8]) -> Option<IpAddr> {
    let (from, _) = ends_of(packet)?;
    let header_len = match packet.first()? >> 4 {
        4 => usize::from(packet.first()? & 0x0F) * 4,
        _ => IPV6_LEN,
    };
    let said = packet.get(header_len..header_len + 2)?;
    let prohibited = if from.is_ipv4() { PROHIBITED_V4 } else { PROHIBITED_V6 };
    (said == prohibited).then_some(from)
}

fn small() -> RawOptions {
    RawOptions { buffer_bytes: BUFFER_BYTES, ..RawOptions::default() }
}

const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;
/// Type and code: RFC 1812, section 5.2.7.1, and RFC 4443, section 3.1.
const PROHIBITED_V4: [u8; 2] = [3, 13];
const PROHIBITED_V6: [u8; 2] = [1, 1];
const IPV6_LEN: usize = 40;
/// As long as an ICMPv6 error is at most.
const PACKET_LEN: usize = 1280;
/// A waypoint sends one message a second to one host.
const BUFFER_BYTES: usize = 64 << 10;
/// So that a flood of ICMP does not hold up the rest of a turn.
const MOST_BATCHES: usize = 4;
/// Who reads the log knows it for so long.
const AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn icmp(kind: u8, code: u8) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[3] = 28;
        packet[9] = ICMP_V4;
        packet[12..16].copy_from_slice(&[10, 0, 1, 1]);
        (packet[20], packet[21]) = (kind, code);
        packet
    }

    #[test]
    fn only_prohibition_is_a_refusal() {
        assert_eq!(refusing(&icmp(3, 13)), Some([10, 0, 1, 1].into()));
        for (kind, code) in [(3, 1), (11, 13), (8, 0)] {
            assert_eq!(refusing(&icmp(kind, code)), None);
        }
        for len in 0..22 {
            assert_eq!(refusing(&icmp(3, 13)[..len]), None);
        }
    }

    #[test]
    fn a_waypoint_is_counted_and_said_once_a_minute() {
        let (mut heard, waypoint) = (BTreeMap::new(), [10, 0, 1, 1].into());
        #[allow(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        let begin = Instant::now();
        for second in 0..=60 {
            note(&mut heard, waypoint, begin + Duration::from_secs(second));
            let said = heard[&waypoint].said - begin;
            assert_eq!(said, Duration::from_secs(second / 60 * 60));
        }
        assert_eq!(heard[&waypoint].messages, 61);
    }
}
