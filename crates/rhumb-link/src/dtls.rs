//! Handshakes by `dimpl` on aws-lc. Only this file knows the library.
//!
//! Between native peers the handshake is DTLS 1.3 and nothing else, so that certificates, and with
//! them names, are never in the clear; the address was proven by our retry token, so the library's
//! own cookie is off. With a foreign peer the version is negotiated down to DTLS 1.2. Its cookie
//! has come back already when a responder is made: `cookie`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dimpl::{Config, ConfigBuilder, Dtls, DtlsCertificate, SrtpProfile};
use rhumb_trust::x509;

use crate::cookie::Proof;
use crate::handshake::{Handshake, MAX_OUTPUT, Output};
use crate::hello::{self, Version};
use crate::keys::ExportedKeys;
use crate::{HandshakeError, LinkError};

/// Makes handshakes under one certificate.
pub(crate) struct Library {
    native: Arc<Config>,
    /// To begin with, of each style.
    initiators: [Arc<Config>; 2],
    /// What it can agree upon in DTLS 1.3.
    pub(crate) suites: Vec<u16>,
    pub(crate) groups: Vec<u16>,
    certificate: DtlsCertificate,
    #[cfg(feature = "repeatable-handshakes")]
    repeatable: Option<Repeatable>,
}

/// Where handshakes that are to be the same in each run take their chance
/// from: the next number is the next one's seed.
#[cfg(feature = "repeatable-handshakes")]
struct Repeatable {
    next_seed: std::sync::atomic::AtomicU64,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Somebody who speaks our retry, and DTLS 1.3.
    Native,
    /// A stock DTLS stack.
    Foreign,
}

impl Library {
    pub(crate) fn new(certificate: Vec<u8>, private_key: Vec<u8>) -> Result<Self, LinkError> {
        let build = |config: ConfigBuilder| {
            let built = config.build().map(Arc::new);
            built.map_err(|error| LinkError::Handshake(error.into()))
        };
        let hello_len = hello_len(certificate.len());
        let initiator = |style| build(config(style).mtu(hello_len));
        let native = build(config(Style::Native))?;
        Ok(Self {
            initiators: [initiator(Style::Native)?, initiator(Style::Foreign)?],
            suites: native.dtls13_cipher_suites().map(|suite| suite.suite().as_u16()).collect(),
            groups: native.kx_groups().map(|group| group.name().as_u16()).collect(),
            native,
            certificate: DtlsCertificate { certificate, private_key },
            #[cfg(feature = "repeatable-handshakes")]
            repeatable: None,
        })
    }

    /// As this one, under another certificate of the same key.
    pub(crate) fn showing(&self, certificate: Vec<u8>) -> Result<Self, LinkError> {
        #[cfg_attr(not(feature = "repeatable-handshakes"), allow(unused_mut))]
        let mut library = Self::new(certificate, self.certificate.private_key.clone())?;
        #[cfg(feature = "repeatable-handshakes")]
        if let Some(Repeatable { next_seed }) = &self.repeatable {
            let next = next_seed.load(std::sync::atomic::Ordering::Relaxed);
            library.repeatable = Some(Repeatable { next_seed: next.into() });
        }
        Ok(library)
    }

    /// Takes all chance that handshakes need, but for keys and signatures, from `secret`.
    #[cfg(feature = "repeatable-handshakes")]
    pub(crate) fn repeat(&mut self, secret: &[u8]) {
        let first = secret.first_chunk().copied().map_or(0, u64::from_be_bytes);
        self.repeatable = Some(Repeatable { next_seed: first.into() });
    }

    /// Begins a handshake.
    pub(crate) fn initiate(&self, style: Style, now: Instant) -> Box<dyn Handshake> {
        let certificate = self.certificate.clone();
        let config = Arc::clone(&self.initiators[style as usize]);
        let hello_len = config.mtu();
        let config = self.seeded(config, || self::config(style).mtu(hello_len));
        let mut dtls = match style {
            Style::Native => Dtls::new_13(config, certificate, now),
            Style::Foreign => Dtls::new_auto(config, certificate, now),
        };
        dtls.set_active(true);
        Box::new(DtlsHandshake { dtls })
    }

    /// Awaits the hello of a native peer whose address is proven.
    pub(crate) fn respond(&self, now: Instant) -> Box<dyn Handshake> {
        let config = self.seeded(Arc::clone(&self.native), || config(Style::Native));
        Box::new(DtlsHandshake { dtls: Dtls::new_13(config, self.certificate.clone(), now) })
    }

    /// Awaits the hello of a foreign peer that has brought its cookie back:
    /// as if it had answered the first one itself.
    pub(crate) fn respond_again(
        &self,
        version: Version,
        proof: &Proof,
        now: Instant,
    ) -> Result<Box<dyn Handshake>, HandshakeError> {
        let mut dtls = self.answering(version, proof, now)?;
        let mut sent_before = vec![0; MAX_OUTPUT];
        // The answer, and that it waits.
        for _ in 0..2 {
            dtls.poll_output(&mut sent_before);
        }
        Ok(Box::new(DtlsHandshake { dtls }))
    }

    /// One that has its answer to the first hello still to say.
    fn answering(
        &self,
        version: Version,
        proof: &Proof,
        now: Instant,
    ) -> Result<Dtls, HandshakeError> {
        let config = config(Style::Foreign).dangerously_set_rng_seed(proof.seed).build()?;
        let certificate = self.certificate.clone();
        let mut dtls = match version {
            Version::Dtls12 => Dtls::new_12(Arc::new(config), certificate, now),
            Version::Dtls13 => Dtls::new_auto(Arc::new(config), certificate, now),
        };
        dtls.handle_timeout(now)?;
        dtls.handle_packet(&hello::first_record(&proof.first_hello))?;
        Ok(dtls)
    }

    #[cfg(test)]
    pub(crate) fn answer_of(&self, version: Version, proof: &Proof, now: Instant) -> Vec<u8> {
        let mut dtls = self.answering(version, proof, now).expect("it takes the hello");
        let mut buffer = vec![0; MAX_OUTPUT];
        match dtls.poll_output(&mut buffer) {
            dimpl::Output::Packet(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[cfg(test)]
    pub(crate) fn certificate(&self) -> DtlsCertificate {
        self.certificate.clone()
    }

    #[cfg(feature = "repeatable-handshakes")]
    fn seeded(&self, usual: Arc<Config>, build: impl FnOnce() -> ConfigBuilder) -> Arc<Config> {
        let Some(Repeatable { next_seed }) = &self.repeatable else { return usual };
        let seed = next_seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        build().dangerously_set_rng_seed(seed).build().map_or(usual, Arc::new)
    }

    #[cfg(not(feature = "repeatable-handshakes"))]
    #[allow(clippy::unused_self)]
    fn seeded(&self, usual: Arc<Config>, _: impl FnOnce() -> ConfigBuilder) -> Arc<Config> {
        usual
    }
}

fn config(style: Style) -> ConfigBuilder {
    Config::builder()
        .mtu(HANDSHAKE_DATAGRAM_LEN)
        .max_queue_rx(MAX_WAITING_RECORDS)
        .max_queue_tx(MAX_WAITING_RECORDS)
        .use_server_cookie(style == Style::Foreign)
        .flight_start_rto(FIRST_RETRANSMISSION)
        .flight_retries(RETRANSMISSIONS)
        .handshake_timeout(HANDSHAKE_TIMEOUT)
}

/// What the library is told that an initiator's datagrams hold. It fills hellos up to that with
/// padding, which nobody needs whose responder answers strangers with less than they sent, so it is
/// as small as it can be: a hello with a cookie is one fragment, and a flight with our certificate
/// fewer than twelve, which is all that `dimpl` 0.9 has room for. Fragments travel together in one
/// datagram: `endpoint::handshakes`.
fn hello_len(certificate_len: usize) -> usize {
    let fragment_len = certificate_len.div_ceil(MAX_CERTIFICATE_FRAGMENTS) + FRAGMENT_OVERHEAD;
    fragment_len.clamp(HELLO_WITH_COOKIE_LEN, HANDSHAKE_DATAGRAM_LEN)
}

struct DtlsHandshake {
    dtls: Dtls,
}

impl Handshake for DtlsHandshake {
    fn handle(&mut self, datagram: &[u8], now: Instant) -> Result<(), HandshakeError> {
        self.dtls.handle_timeout(now)?;
        Ok(self.dtls.handle_packet(datagram)?)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), HandshakeError> {
        Ok(self.dtls.handle_timeout(now)?)
    }

    fn send(&mut self, message: &[u8]) -> Result<(), HandshakeError> {
        // It may say that it took nothing, but only before the
        // version is known, and we send once connected.
        self.dtls.send_application_data(message)?;
        Ok(())
    }

    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> Result<Output<'a>, HandshakeError> {
        Ok(match self.dtls.poll_output(buffer) {
            dimpl::Output::Packet(datagram) => Output::Datagram(datagram),
            dimpl::Output::PeerCert(der) => Output::Claim(x509::read(der)),
            dimpl::Output::KeyingMaterial(keys, SrtpProfile::AEAD_AES_256_GCM) => {
                Output::Keys(ExportedKeys::new(&keys))
            }
            dimpl::Output::KeyingMaterial(..) => Output::Keys(None),
            dimpl::Output::Connected => Output::Connected,
            dimpl::Output::ApplicationData(message) => Output::Message(message),
            dimpl::Output::Timeout(at) => Output::Wait(at),
            // An output larger than any that is of use to us ends the handshake as if the peer had.
            dimpl::Output::CloseNotify | dimpl::Output::BufferTooSmall { .. } | _ => Output::Closed,
        })
    }
}

/// Fits an IPv6 minimum MTU of 1,280 bytes together with our header and token.
pub(crate) const HANDSHAKE_DATAGRAM_LEN: usize = 1200;
/// The largest of our hellos with a cookie as our own responders make it, and some padding, which
/// tells them what the hello without it was.
const HELLO_WITH_COOKIE_LEN: usize = 224;
/// What follows the certificate in a flight, signature and end, takes three more at most.
const MAX_CERTIFICATE_FRAGMENTS: usize = 7;
/// Headers of record and message, type and tag of the record.
const FRAGMENT_OVERHEAD: usize = 13 + 12 + 1 + 16;
/// Records of a flight that wait for one before them. The largest certificate is a handful.
const MAX_WAITING_RECORDS: usize = 64;
/// A quarter of a second: above most round trips, and a lost datagram is hardly noticed.
const FIRST_RETRANSMISSION: Duration = Duration::from_millis(250);
/// Four doublings: 7.75 s in all, then the timeout.
const RETRANSMISSIONS: usize = 4;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);
