//! Response-rate limiting: how many datagrams a source network is answered,
//! so that nobody is flooded in another's name.
//!
//! A source is a /24 or a /56, since whoever forges addresses has neighbours to choose from. Of the
//! answers beyond the rate every second one goes out truncated, no longer than the question: a real
//! client comes again over TCP, where addresses cannot be forged.
//!
//! Invariant: memory is fixed. Sources share a bucket when their keyed
//! hashes meet; nobody can aim at another's bucket.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Buckets of tokens, by source network.
#[derive(Debug)]
pub(crate) struct Limiter {
    secret: [u8; 16],
    rate_per_s: u32,
    buckets: Vec<Bucket>,
}

/// What may be sent to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// The whole answer.
    Whole,
    /// Only that the answer is too long for a datagram.
    Truncated,
    /// Nothing.
    Nothing,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// In thousandths of an answer.
    tokens: u64,
    filled_ms: u64,
    /// Answers withheld since the bucket was last full enough.
    withheld: u32,
}

impl Limiter {
    /// Answers `rate_per_s` a second and source, and [`BURST_S`] seconds' worth of them at once.
    pub(crate) fn new(secret: [u8; 16], rate_per_s: u32) -> Self {
        let full = Bucket { tokens: capacity(rate_per_s), filled_ms: 0, withheld: 0 };
        Self { secret, rate_per_s, buckets: vec![full; BUCKETS] }
    }

    /// Takes a token of `source`.
    pub(crate) fn take(&mut self, source: IpAddr, now_ms: u64) -> Allowance {
        let index = self.index(source);
        let bucket = &mut self.buckets[index];
        let gained = now_ms.saturating_sub(bucket.filled_ms).saturating_mul(self.rate_per_s.into());
        bucket.tokens = bucket.tokens.saturating_add(gained).min(capacity(self.rate_per_s));
        bucket.filled_ms = now_ms;
        if let Some(left) = bucket.tokens.checked_sub(ANSWER) {
            bucket.tokens = left;
            bucket.withheld = 0;
            return Allowance::Whole;
        }
        bucket.withheld = bucket.withheld.wrapping_add(1);
        if bucket.withheld.is_multiple_of(SLIP) { Allowance::Truncated } else { Allowance::Nothing }
    }

    fn index(&self, source: IpAddr) -> usize {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        match source.to_canonical() {
            IpAddr::V4(address) => address.octets()[..3].hash(&mut hasher),
            IpAddr::V6(address) => address.octets()[..7].hash(&mut hasher),
        }
        (hasher.finish() % BUCKETS as u64) as usize
    }
}

fn capacity(rate_per_s: u32) -> u64 {
    u64::from(rate_per_s) * BURST_S * ANSWER
}

/// A resolver asks for many of its clients when a window
/// begins; jitter spreads that over more than this.
const BURST_S: u64 = 2;
const ANSWER: u64 = 1000;
/// Every second answer beyond the rate says "come by TCP": RFC 5358's and BIND's usual choice.
const SLIP: u32 = 2;
/// 96 kB: enough for the networks that a zone of keys is asked from.
const BUCKETS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_rate_and_then_every_second_one_truncated() {
        let mut limiter = Limiter::new([1; 16], 10);
        let source = IpAddr::from([192, 0, 2, 1]);
        let neighbour = IpAddr::from([192, 0, 2, 200]);
        let count = |limiter: &mut Limiter, source, now_ms| {
            (0..40).map(|_| limiter.take(source, now_ms)).filter(|a| *a == Allowance::Whole).count()
        };
        assert_eq!(count(&mut limiter, source, 5_000), 20);
        let further: Vec<Allowance> = (0..4).map(|_| limiter.take(neighbour, 5_000)).collect();
        let (t, n) = (Allowance::Truncated, Allowance::Nothing);
        assert_eq!(further, [n, t, n, t]);
        assert_eq!(count(&mut limiter, source, 5_500), 5);
        // Whoever is elsewhere has a bucket of their own, and time that goes back gives nothing.
        assert_eq!(count(&mut limiter, IpAddr::from([198, 51, 100, 1]), 5_500), 20);
        assert_eq!(count(&mut limiter, source, 0), 0);
        assert_eq!(count(&mut limiter, "::ffff:192.0.2.9".parse().unwrap(), 1), 0);
    }
}
