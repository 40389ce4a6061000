//! Keys and time of the bench: one master key, one principal, credentials of every
//! suite and number of levels, and a clock that begins in the middle of a window, so
//! that no window ends while something is measured.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use rhumb_capability::{
    Capability, Carriage, Credential, DelegationId, Delegations, Encapsulation, Epoch, EpochKeys,
    Flags, Master, Packet, PacketIds, Principal, Scheme, Stamper, Suite, Verdict, Verifier,
    VerifierConfig, WindowClock,
};

use crate::traffic::ip_packet;

/// In the middle of a window of any length that there is.
pub(crate) const START_US: u64 = 1_700_001_000_000_000;

/// Time as sender and waypoint see it.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// Microseconds of Unix time.
    pub(crate) fn now_us(&self) -> u64 {
        START_US + self.0.elapsed().as_micros() as u64
    }
}

/// A verifier that takes what [`stamper`] stamps for these addresses.
pub(crate) fn verifier(addresses: &[Ipv4Addr]) -> Verifier {
    let addresses = addresses.iter().map(|address| IpAddr::V4(*address)).collect();
    let mut verifier = Verifier::new(VerifierConfig::new(addresses)).expect("a configuration");
    verifier.install_epoch(epoch_keys());
    verifier
}

/// Stamps packets to 10.0.0.0/8 for one waypoint.
pub(crate) fn stamper(waypoint: Ipv4Addr, suite: Suite, levels: u32) -> Stamper {
    let capability = Capability {
        waypoint: waypoint.into(),
        principal: Principal(9),
        flags: Flags::NONE,
        window: WindowClock::default().at(START_US),
        epoch: Epoch(1),
        suite,
        scheme: Scheme::CaveatChain,
        delegations: Delegations::default(),
    };
    let record = epoch_keys().mint(capability, u64::MAX).expect("a record");
    let mut credential: Credential = record.into();
    for level in 0..levels {
        let id = DelegationId::new(level).expect("an id");
        let prefix = "10.0.0.0/8".parse().expect("a prefix");
        credential = credential.delegate(prefix, id).expect("a delegation");
    }
    Stamper::new(&[&credential], Encapsulation::IP).expect("a stamper")
}

/// Has a verifier take packets of the last seconds, so that it has touched all memory of its replay
/// filter, as one that has been at work for a while.
pub(crate) fn fill_replay_filter(verifier: &mut Verifier, stamper: &Stamper) {
    const STEP_US: u64 = 16_000;
    const STEPS: u64 = 280;
    const PACKETS: usize = 700;
    let [from, to] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let packet = ip_packet(from, to, 24);
    let room = stamper.headroom();
    let stride = room + packet.len();
    let mut arena = vec![0; stride * PACKETS];
    let (mut packets, mut ids) = (Vec::with_capacity(PACKETS), PacketIds::new(2, 0));
    for step in (1..=STEPS).rev() {
        let now_us = START_US - step * STEP_US;
        packets.clear();
        for (number, slot) in arena.chunks_mut(stride).enumerate() {
            slot[room..].copy_from_slice(&packet);
            let range = stamper.stamp(slot, room..stride, &mut ids, now_us).expect("room enough");
            packets.push(Packet::new(number * stride + range.start, range.len(), Carriage::Ip));
        }
        verifier.verify_batch(&mut arena, &mut packets, now_us);
        let is_taken = |packet: &Packet| matches!(packet.verdict, Verdict::Forward(_));
        assert!(packets.iter().all(is_taken), "a good packet was dropped");
    }
}

fn epoch_keys() -> EpochKeys {
    EpochKeys::new(Epoch(1), &Master::new([7; Master::LEN]))
}
