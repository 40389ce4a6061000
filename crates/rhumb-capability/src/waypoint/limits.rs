//! How many ICMP messages a waypoint sends: as Linux does by default (`icmp_msgs_per_sec`,
//! `icmp_msgs_burst`, `icmp_ratelimit`).
//!
//! All messages together are bounded, and those to one host more tightly, but for what path MTU
//! discovery needs. Hosts share [`HOSTS`] buckets by their addresses, so nothing is allocated, and
//! a host that shares one is told less.
//!
//! Invariant: in any time t at most `burst + t / interval` messages pass a bucket.

use std::hash::BuildHasher;
use std::net::IpAddr;

use foldhash::fast::RandomState;

/// Whether a message may be sent.
#[derive(Debug)]
pub(super) struct IcmpLimits {
    all: Bucket,
    interval_us: u64,
    host_interval_us: u64,
    hosts: Vec<Bucket>,
    hasher: RandomState,
}

/// A token bucket, kept as the moment at which it would be full again.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    full_us: u64,
}

impl IcmpLimits {
    /// The limits of one of `cores` that share what is allowed.
    pub(super) fn new(cores: u16) -> Self {
        Self {
            all: Bucket::default(),
            interval_us: INTERVAL_US * u64::from(cores.max(1)),
            host_interval_us: HOST_INTERVAL_US,
            hosts: vec![Bucket::default(); HOSTS],
            hasher: RandomState::default(),
        }
    }

    /// The same for answers to questions, of which a host gets more.
    pub(super) fn for_answers(cores: u16) -> Self {
        Self { host_interval_us: ANSWER_INTERVAL_US, ..Self::new(cores) }
    }

    /// Takes a token for a message to `host`; false when there is none.
    pub(super) fn allow(&mut self, host: IpAddr, is_of_path_mtu: bool, now_us: u64) -> bool {
        let of_host = &mut self.hosts[self.hasher.hash_one(host) as usize % HOSTS];
        if !is_of_path_mtu && !of_host.has(self.host_interval_us, HOST_BURST, now_us) {
            return false;
        }
        if !self.all.has(self.interval_us, BURST, now_us) {
            return false;
        }
        self.all.take(self.interval_us, now_us);
        if !is_of_path_mtu {
            of_host.take(self.host_interval_us, now_us);
        }
        true
    }
}

impl Bucket {
    fn has(&mut self, interval_us: u64, burst: u64, now_us: u64) -> bool {
        let missing_us = self.full_us.saturating_sub(now_us);
        if missing_us > interval_us * burst {
            // The clock was set back.
            self.full_us = now_us;
            return true;
        }
        missing_us + interval_us <= interval_us * burst
    }

    fn take(&mut self, interval_us: u64, now_us: u64) {
        self.full_us = self.full_us.max(now_us) + interval_us;
    }
}

/// A thousand a second.
const INTERVAL_US: u64 = 1_000;
const BURST: u64 = 50;
/// To one host one a second.
const HOST_INTERVAL_US: u64 = 1_000_000;
const HOST_BURST: u64 = 6;
/// Ten a second: a stamper asks by each of its ways, at most every 400 ms.
const ANSWER_INTERVAL_US: u64 = 100_000;
/// 8 kB of buckets.
const HOSTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0A00_0000 + number).into()
    }

    #[test]
    fn a_host_gets_a_burst_and_then_one_a_second() {
        let mut limits = IcmpLimits::new(1);
        let now = 1_700_000_000_000_000;
        let told = |limits: &mut IcmpLimits, from: u64, to: u64| {
            (from..to).filter(|ms| limits.allow(host(1), false, now + ms * 1000)).count() as u64
        };
        assert_eq!(told(&mut limits, 0, 10), HOST_BURST);
        assert_eq!(told(&mut limits, 10, 10_000), 9);
        assert!(limits.allow(host(1), true, now + 10_000_000), "path MTU is not held back");
    }

    #[test]
    fn all_hosts_together_are_bounded_and_cores_share() {
        for cores in [1, 4] {
            let mut limits = IcmpLimits::new(cores);
            let told = (0..1_000_000_u32)
                .filter(|us| limits.allow(host(*us), true, 1_000_000 + u64::from(*us)))
                .count() as u64;
            let expected = 1000 / u64::from(cores) + BURST;
            assert!((expected - 1..=expected).contains(&told), "{told}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_silences_nobody() {
        let mut limits = IcmpLimits::new(1);
        let now = 1_700_000_000_000_000;
        for _ in 0..20 {
            limits.allow(host(1), false, now);
        }
        assert!(limits.allow(host(1), false, now - 3_600_000_000));
    }
}
