//! Stateless retry: an initiator proves that it receives
//! at its address before anything is kept for it.
//!
//! The token is the time it was made and a MAC over time, address and hello, so one made for
//! another address or another hello is worthless, and a stolen one can only repeat the very same
//! hello for ten seconds. Verifying costs one HMAC.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use rhumb_wire::datagram::{HELLO_ID_LEN, TOKEN_LEN};

/// Makes and checks retry tokens.
pub(crate) struct RetryTokens {
    key: hmac::Key,
    /// What token times count from.
    began: Instant,
}

impl RetryTokens {
    pub(crate) fn new(key: &[u8], now: Instant) -> Self {
        Self { key: hmac::Key::new(HMAC_SHA256, key), began: now }
    }

    /// A token for a hello from `address`.
    pub(crate) fn issue(
        &self,
        address: SocketAddr,
        hello: &HelloHash,
        now: Instant,
    ) -> [u8; TOKEN_LEN] {
        let time_s = self.time_s(now);
        let mut token = [0; TOKEN_LEN];
        token[..8].copy_from_slice(&time_s.to_be_bytes());
        token[8..].copy_from_slice(&self.mac(time_s, address, hello));
        token
    }

    /// Whether `token` was issued for this hello from `address`, and lately.
    pub(crate) fn verify(
        &self,
        token: &[u8; TOKEN_LEN],
        address: SocketAddr,
        hello: &HelloHash,
        now: Instant,
    ) -> bool {
        let [a, b, c, d, e, f, g, h, mac @ ..] = token;
        let time_s = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        let fresh = self.time_s(now).checked_sub(time_s).is_some_and(|age| age <= LIFETIME_S);
        let expected = self.mac(time_s, address, hello);
        verify_slices_are_equal(&expected, mac).is_ok() && fresh
    }

    fn mac(&self, time_s: u64, address: SocketAddr, hello: &HelloHash) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&time_s.to_be_bytes());
        context.update(&ip_octets(address));
        context.update(&address.port().to_be_bytes());
        context.update(&hello.0);
        let tag = context.sign();
        *tag.as_ref().first_chunk().expect("invariant: an HMAC-SHA256 tag has 32 bytes")
    }

    fn time_s(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs()
    }
}

/// The hash of a hello, without its record header, whose
/// sequence number differs when it is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HelloHash(pub(crate) [u8; 32]);

impl HelloHash {
    pub(crate) fn of(datagram: &[u8]) -> Self {
        Self::of_message(datagram.get(DTLS_RECORD_HEADER_LEN..).unwrap_or_default())
    }

    /// What a retry says of the hello that it answers.
    pub(crate) fn id(&self) -> [u8; HELLO_ID_LEN] {
        *self.0.first_chunk().expect("invariant: SHA-256 is 32 bytes")
    }

    /// The same of a hello that has no record header.
    pub(crate) fn of_message(message: &[u8]) -> Self {
        let hash = digest(&SHA256, message);
        Self(hash.as_ref().try_into().expect("invariant: SHA-256 is 32 bytes"))
    }
}

/// An address as 16 bytes: IPv4 mapped into IPv6.
pub(crate) fn ip_octets(address: SocketAddr) -> [u8; 16] {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

const DTLS_RECORD_HEADER_LEN: usize = 13;
/// One round trip and a retransmission, generously.
const LIFETIME_S: u64 = RETRY_TOKEN_LIFETIME.as_secs();
/// How long a retry token is good for.
pub const RETRY_TOKEN_LIFETIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn a_token_is_good_for_its_address_hello_and_time_only() {
        let now = Instant::now();
        let tokens = RetryTokens::new(&[7; 32], now);
        let address: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let hello = HelloHash::of(&[1; 100]);
        let later = now + Duration::from_secs(5);
        let token = tokens.issue(address, &hello, later);
        assert!(tokens.verify(&token, address, &hello, later));
        assert!(tokens.verify(&token, address, &hello, later + RETRY_TOKEN_LIFETIME));
        let expired = later + RETRY_TOKEN_LIFETIME + Duration::from_secs(1);
        assert!(!tokens.verify(&token, address, &hello, expired));
        assert!(!tokens.verify(&token, address, &hello, now), "from the future");
        for other in ["192.0.2.1:8", "192.0.2.2:7", "[::1]:7"] {
            assert!(!tokens.verify(&token, other.parse().unwrap(), &hello, later));
        }
        assert!(!tokens.verify(&token, address, &HelloHash::of(&[2; 100]), later));
        assert!(!RetryTokens::new(&[8; 32], now).verify(&token, address, &hello, later));
        for bit in 0..TOKEN_LEN * 8 {
            let mut tampered = token;
            tampered[bit / 8] ^= 1 << (bit % 8);
            assert!(!tokens.verify(&tampered, address, &hello, later), "bit {bit}");
        }
    }

    #[test]
    fn the_record_header_does_not_matter() {
        let (mut first, mut again) = ([9; 50], [9; 50]);
        (first[10], again[10]) = (0, 1);
        assert_eq!(HelloHash::of(&first), HelloHash::of(&again));
        again[13] = 0;
        assert_ne!(HelloHash::of(&first), HelloHash::of(&again));
    }
}
