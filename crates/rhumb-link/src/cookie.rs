//! Stateless cookies for foreign peers: they prove that they receive at
//! their address before anything is kept for them.
//!
//! 1. A hello without a cookie is answered by one (HelloVerifyRequest, or
//!    HelloRetryRequest), made here and forgotten.
//! 2. The cookie comes back with a hello from which the first can be written again. Only then is a
//!    handshake of the library made. It has to have seen the first hello and to have sent the
//!    cookie by itself, since DTLS 1.3 signs both: so it is fed the first hello, and what it
//!    answers, which is what was sent, is thrown away.
//!
//! For that the library has to make the same cookie. It draws a secret from its generator, and its
//! cookie is the HMAC-SHA256 of the hello's random bytes under that secret. So the generator is
//! given a seed, 64 bits of our HMAC over time, address and first hello: a cookie is good for one
//! hello from one address, for 10 to 20 s. Nothing else that the library draws from that generator
//! is secret: the server's random bytes, explicit nonces of DTLS 1.2 under keys that are never the
//! same, and the spread of its timers. Ephemeral keys and signatures come from the system.

use std::net::SocketAddr;
use std::time::Instant;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use zeroize::Zeroizing;

use crate::hello::{COOKIE_LEN, Hello, Version};
use crate::retry::{HelloHash, ip_octets};

/// Makes and checks cookies.
pub(crate) struct Cookies {
    key: hmac::Key,
    /// What slots of time count from.
    began: Instant,
}

/// What a cookie proved: the library is made with the seed, and fed the first hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) seed: u64,
    /// A handshake message.
    pub(crate) first_hello: Vec<u8>,
}

impl Cookies {
    pub(crate) fn new(key: &[u8], now: Instant) -> Self {
        Self { key: hmac::Key::new(HMAC_SHA256, key), began: now }
    }

    /// The cookie for a first hello from `address`.
    pub(crate) fn issue(
        &self,
        address: SocketAddr,
        hello: &Hello<'_>,
        now: Instant,
    ) -> [u8; COOKIE_LEN] {
        let first = hello.firsts().next().unwrap_or_default();
        let seed = self.seed(self.slot(now), address, &HelloHash::of_message(&first));
        cookie(seed, hello)
    }

    /// What a hello's cookie proves, if it was issued to `address` for this hello, and lately.
    pub(crate) fn verify(
        &self,
        address: SocketAddr,
        hello: &Hello<'_>,
        now: Instant,
    ) -> Option<Proof> {
        let given = hello.cookie().filter(|given| given.len() == COOKIE_LEN)?;
        let slot = self.slot(now);
        for first_hello in hello.firsts() {
            let hash = HelloHash::of_message(&first_hello);
            for slot in [Some(slot), slot.checked_sub(1)].into_iter().flatten() {
                let seed = self.seed(slot, address, &hash);
                if verify_slices_are_equal(&cookie(seed, hello), given).is_ok() {
                    return Some(Proof { seed, first_hello });
                }
            }
        }
        None
    }

    fn seed(&self, slot: u64, address: SocketAddr, first_hello: &HelloHash) -> u64 {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&slot.to_be_bytes());
        context.update(&ip_octets(address));
        context.update(&address.port().to_be_bytes());
        context.update(&first_hello.0);
        let tag = context.sign();
        u64::from_be_bytes(
            *tag.as_ref().first_chunk().expect("invariant: an HMAC-SHA256 tag has 32 bytes"),
        )
    }

    fn slot(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs() / SLOT_S
    }
}

/// What `dimpl` 0.9 makes with this seed; a test compares them. It draws the spread of its first
/// timer, in DTLS 1.3 that of its limit of records, and then the secret.
fn cookie(seed: u64, hello: &Hello<'_>) -> [u8; COOKIE_LEN] {
    let mut generator = StdRng::seed_from_u64(seed);
    let _: f32 = generator.random();
    if hello.version == Version::Dtls13 {
        let _: u64 = generator.random();
    }
    let secret: Zeroizing<[u8; 32]> = Zeroizing::new(generator.random());
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, &*secret), hello.random());
    *tag.as_ref().first_chunk().expect("invariant: an HMAC-SHA256 tag has 32 bytes")
}

/// A cookie is good in the slot that it was made in and in the next: longer
/// than a round trip and a few retransmissions.
const SLOT_S: u64 = 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use dimpl::{Dtls, Output};
    use rhumb_trust::{Identity, x509};
    use rhumb_wire::Role;

    use super::*;
    use crate::dtls::{Library, Style};
    use crate::{hello, peek};

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn now() -> Instant {
        Instant::now()
    }

    fn library() -> Library {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let certificate = x509::make(&identity).unwrap();
        Library::new(certificate, identity.pkcs8_der().to_vec()).unwrap()
    }

    /// A client of each version, and one that leaves the version to the server.
    fn clients(now: Instant) -> Vec<Dtls> {
        let config = || Arc::new(dimpl::Config::default());
        let certificate = || library().certificate();
        let mut clients = vec![
            Dtls::new_12(config(), certificate(), now),
            Dtls::new_13(config(), certificate(), now),
            Dtls::new_auto(config(), certificate(), now),
        ];
        clients.iter_mut().for_each(|client| client.set_active(true));
        clients
    }

    fn next_datagram(dtls: &mut Dtls) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        match dtls.poll_output(&mut buffer) {
            Output::Packet(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn answer(cookies: &Cookies, library: &Library, bytes: &[u8], now: Instant) -> Vec<u8> {
        let hello = Hello::parse(bytes).unwrap();
        let cookie = cookies.issue(address(1), &hello, now);
        match hello.version {
            Version::Dtls12 => hello::verify_request(&cookie),
            Version::Dtls13 => hello::retry_request(hello.suite(&library.suites).unwrap(), &cookie),
        }
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn the_library_would_have_sent_what_was_sent() {
        let (now, library) = (now(), library());
        let cookies = Cookies::new(&[7; 32], now);
        for mut client in clients(now) {
            client.handle_timeout(now).unwrap();
            let first = next_datagram(&mut client);
            let sent = answer(&cookies, &library, &first, now);
            assert!(sent.len() <= 115, "{} bytes", sent.len());
            client.handle_packet(&sent).unwrap();
            let second = next_datagram(&mut client);
            let hello = Hello::parse(&second).unwrap();
            let proof = cookies.verify(address(1), &hello, now).expect("it is good");
            if hello.version == Version::Dtls13 {
                assert_eq!(hello::first_record(&proof.first_hello)[13..], first[13..]);
            }
            let would_have_sent = library.answer_of(hello.version, &proof, now);
            assert_eq!(would_have_sent, sent, "{:?}", hello.version);
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_address_hello_and_time_only() {
        let (start, library) = (now(), library());
        let cookies = Cookies::new(&[7; 32], start);
        let issued = start + Duration::from_secs(25);
        for mut client in clients(issued) {
            client.handle_timeout(issued).unwrap();
            let first = next_datagram(&mut client);
            client.handle_packet(&answer(&cookies, &library, &first, issued)).unwrap();
            let second = next_datagram(&mut client);
            let is_good = |cookies: &Cookies, address, bytes: &[u8], now| {
                let hello = Hello::parse(bytes).ok();
                hello.is_some_and(|hello| cookies.verify(address, &hello, now).is_some())
            };
            assert!(is_good(&cookies, address(1), &second, issued));
            assert!(!is_good(&cookies, address(2), &second, issued));
            assert!(!is_good(&Cookies::new(&[8; 32], start), address(1), &second, issued));
            // Slots of ten seconds: this one began at 20.
            for (age_s, expected) in [(0, false), (19, false), (20, true), (39, true), (40, false)]
            {
                let at = start + Duration::from_secs(age_s);
                assert_eq!(is_good(&cookies, address(1), &second, at), expected, "at {age_s} s");
            }
            // All but extensions is bound in 1.2, and all but what padding holds in 1.3.
            for at in (25..70).step_by(3) {
                let mut other = second.clone();
                other[at] ^= 1;
                assert!(!is_good(&cookies, address(1), &other, issued), "byte {at}");
            }
            assert!(!is_good(&cookies, address(1), &first, issued), "without a cookie");
        }
    }

    #[test]
    fn our_own_hellos_are_one_fragment_with_and_without_a_cookie() {
        let (now, library) = (now(), library());
        let cookies = Cookies::new(&[7; 32], now);
        let mut buffer = vec![0; 4096];
        let mut initiator = library.initiate(Style::Foreign, now);
        initiator.handle_timeout(now).unwrap();
        let mut sizes = Vec::new();
        for _ in 0..2 {
            let crate::handshake::Output::Datagram(bytes) = initiator.poll(&mut buffer).unwrap()
            else {
                panic!("a hello")
            };
            let bytes = bytes.to_vec();
            sizes.push(bytes.len());
            assert_eq!(peek::records(&bytes).count(), 1);
            initiator.handle(&answer(&cookies, &library, &bytes, now), now).unwrap();
        }
        assert!(sizes.iter().all(|size| *size <= 224), "{sizes:?}");
    }
}
