//! Keys and time of the bench: one master key, one principal, credentials of every suite and number of levels, and a clock that
//! begins in the middle of a window, so that no window ends while something is measured.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use rhumb_capability::{
    Capability, Credential, DelegationId, Delegations, Encapsulation, Epoch, EpochKeys, Flags,
    Master, Principal, Scheme, Stamper, Suite, Verifier, VerifierConfig, WindowClock,
};

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

fn epoch_keys() -> EpochKeys {
    EpochKeys::new(Epoch(1), &Master::new([7; Master::LEN]))
}
