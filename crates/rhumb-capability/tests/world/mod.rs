//! Waypoints and packets for the tests: a sender, a
//! destination, and up to four waypoints between them.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "helpers of tests, each of which uses some"
)]

use std::net::IpAddr;
use std::ops::Range;

use rhumb_capability::{
    Advanced, Capability, Carriage, Credential, Delegation, DelegationId, Delegations, DropReason,
    Encapsulation, Epoch, EpochKeys, Family, Flags, Master, Packet, PacketIds, Principal, Scheme,
    Stamper, Suite, Verdict, Verifier, VerifierConfig, WindowClock,
};

/// The middle of a window, in microseconds of Unix time.
pub const NOW_US: u64 = 1_700_001_000_000_000;
pub const PRINCIPAL: Principal = Principal(7);
pub const EPOCH: Epoch = Epoch(3);

pub fn waypoint(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => [192, 0, 2, number].into(),
        Family::V6 => {
            let mut octets = [0; 16];
            (octets[0], octets[1], octets[15]) = (0x20, 0x01, number);
            octets.into()
        }
    }
}

pub fn source(family: Family) -> IpAddr {
    host(family, "10.0.0.1", "2001:db8:1::1")
}

pub fn destination(family: Family) -> IpAddr {
    host(family, "10.20.30.40", "2001:db8:2::2")
}

fn host(family: Family, v4: &str, v6: &str) -> IpAddr {
    if family == Family::V4 { v4 } else { v6 }.parse().unwrap()
}

/// Prefixes around the destination, the widest first.
pub fn prefixes(family: Family) -> [&'static str; 3] {
    match family {
        Family::V4 => ["10.0.0.0/8", "10.20.0.0/16", "10.20.30.40/32"],
        Family::V6 => ["2001:db8::/32", "2001:db8:2::/48", "2001:db8:2::2/128"],
    }
}

pub fn delegation(prefix: &str, id: u32) -> Delegation {
    Delegation { prefix: prefix.parse().unwrap(), id: DelegationId::new(id).unwrap() }
}

pub fn master(number: u8) -> Master {
    Master::new(std::array::from_fn(|at| number.wrapping_mul(31) ^ at as u8))
}

pub fn config(family: Family, number: u8) -> VerifierConfig {
    let mut config = VerifierConfig::new(vec![waypoint(family, number)]);
    (config.packets_per_s, config.accounts) = (50_000, 64);
    config
}

pub fn verifier_of(config: VerifierConfig, number: u8) -> Verifier {
    let mut verifier = Verifier::new(config).unwrap();
    verifier.install_epoch(EpochKeys::new(EPOCH, &master(number)));
    verifier
}

pub fn verifier(family: Family, number: u8) -> Verifier {
    verifier_of(config(family, number), number)
}

pub fn capability(family: Family, number: u8, suite: Suite, scheme: Scheme) -> Capability {
    Capability {
        waypoint: waypoint(family, number),
        principal: PRINCIPAL,
        flags: Flags::NONE,
        window: WindowClock::default().at(NOW_US),
        epoch: EPOCH,
        suite,
        scheme,
        delegations: Delegations::default(),
    }
}

pub fn mint(capability: Capability, number: u8) -> Credential {
    let keys = EpochKeys::new(capability.epoch, &master(number));
    keys.mint(capability, u64::MAX).unwrap().into()
}

/// A principal's own credential for waypoint `number`.
pub fn credential(family: Family, number: u8, suite: Suite) -> Credential {
    mint(capability(family, number, suite, Scheme::CaveatChain), number)
}

/// The same, delegated `levels` times.
pub fn delegated(family: Family, number: u8, suite: Suite, levels: usize) -> Credential {
    let mut credential = credential(family, number, suite);
    for (level, prefix) in prefixes(family)[..levels].iter().enumerate() {
        let delegation = delegation(prefix, 100 + level as u32);
        credential = credential.delegate(delegation.prefix, delegation.id).unwrap();
    }
    credential
}

/// An IP packet from the source to the destination.
pub fn ip_packet(family: Family, payload: &[u8]) -> Vec<u8> {
    ip_packet_to(family, payload, destination(family))
}

pub fn ip_packet_to(family: Family, payload: &[u8], destination: IpAddr) -> Vec<u8> {
    let mut packet = match (source(family), destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let len = (20 + payload.len() as u16).to_be_bytes();
            let mut packet = vec![0x45, 0xB8, len[0], len[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
            set_checksum(&mut packet);
            packet
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let len = (payload.len() as u16).to_be_bytes();
            let mut packet = vec![0x6B, 0x81, 0x23, 0x45, len[0], len[1], 6, 64];
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
            packet
        }
        _ => panic!("one family"),
    };
    packet.extend_from_slice(payload);
    packet
}

pub fn set_checksum(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let mut sum: u32 =
        packet[..len].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    sum = (sum >> 16) + (sum & 0xFFFF);
    sum = (sum >> 16) + (sum & 0xFFFF);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

pub fn stamp_with(stamper: &Stamper, packet: &[u8], now_us: u64) -> Vec<u8> {
    stamp_in(stamper, packet, &mut PacketIds::new(1, (now_us % 16_000) as u32), now_us)
}

pub fn stamp_in(stamper: &Stamper, packet: &[u8], ids: &mut PacketIds, now_us: u64) -> Vec<u8> {
    let room = stamper.headroom();
    let mut buffer = vec![0xEE; room];
    buffer.extend_from_slice(packet);
    let range = stamper.stamp(&mut buffer, room..room + packet.len(), ids, now_us).unwrap();
    buffer[range].to_vec()
}

/// A packet as IP protocol 253, stamped with these.
pub fn stamped(credentials: &[&Credential], packet: &[u8]) -> Vec<u8> {
    stamp_with(&Stamper::new(credentials, Encapsulation::IP).unwrap(), packet, NOW_US)
}

/// Verdict on one packet, and what it then is.
pub fn verify_as(
    verifier: &mut Verifier,
    packet: &[u8],
    carriage: Carriage,
    now_us: u64,
) -> (Verdict, Vec<u8>) {
    let mut arena = packet.to_vec();
    let mut packets = [Packet::new(0, packet.len(), carriage)];
    verifier.verify_batch(&mut arena, &mut packets, now_us);
    let Packet { start, len, verdict, .. } = packets[0];
    if matches!(verdict, Verdict::Drop(_)) {
        assert_eq!((&arena[..], start, len), (packet, 0, packet.len()), "dropped, so unchanged");
    }
    (verdict, arena[range(start, len)].to_vec())
}

fn range(start: usize, len: usize) -> Range<usize> {
    start..start + len
}

pub fn verify(verifier: &mut Verifier, packet: &[u8]) -> (Verdict, Vec<u8>) {
    verify_as(verifier, packet, Carriage::Ip, NOW_US)
}

pub fn reason(verifier: &mut Verifier, packet: &[u8]) -> Option<DropReason> {
    reason_at(verifier, packet, NOW_US)
}

pub fn reason_at(verifier: &mut Verifier, packet: &[u8], now_us: u64) -> Option<DropReason> {
    match verify_as(verifier, packet, Carriage::Ip, now_us).0 {
        Verdict::Drop(reason) => Some(reason),
        Verdict::Forward(_) => None,
        Verdict::Pending => panic!("no verdict"),
    }
}

#[track_caller]
pub fn forwarded(verifier: &mut Verifier, packet: &[u8]) -> (Advanced, Vec<u8>) {
    match verify(verifier, packet) {
        (Verdict::Forward(advanced), packet) => (advanced, packet),
        (verdict, _) => panic!("{verdict:?}"),
    }
}

/// Where the Platypus header of an IP packet begins.
pub fn header_at(family: Family) -> usize {
    if family == Family::V4 { 20 } else { 40 }
}
