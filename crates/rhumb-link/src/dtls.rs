//! Handshakes by `dimpl` on aws-lc. Only this file knows the library.
//!
//! Between native peers the handshake is DTLS 1.3 and nothing else, so that certificates, and with them names, are
//! never in the clear; the address was proven by our retry token, so the library's own cookie is off. With a foreign peer
//! the version is negotiated down to DTLS 1.2 and the library's cookie exchange is on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dimpl::{Config, ConfigBuilder, Dtls, DtlsCertificate, SrtpProfile};

use crate::handshake::{Handshake, Output};
use crate::keys::ExportedKeys;
use crate::{HandshakeError, LinkError};

/// Makes handshakes under one certificate.
pub(crate) struct Library {
    native: Arc<Config>,
    foreign: Arc<Config>,
    certificate: DtlsCertificate,
    #[cfg(feature = "repeatable-handshakes")]
    repeatable: Option<Repeatable>,
}

/// Where handshakes that are to be the same in each run take their chance from: the next number is the next one's seed.
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
        let config = |style| {
            let built = config(style).build().map(Arc::new);
            built.map_err(|error| LinkError::Handshake(error.into()))
        };
        Ok(Self {
            native: config(Style::Native)?,
            foreign: config(Style::Foreign)?,
            certificate: DtlsCertificate { certificate, private_key },
            #[cfg(feature = "repeatable-handshakes")]
            repeatable: None,
        })
    }

    /// Takes all chance that handshakes need, but for keys and signatures, from `secret`.
    #[cfg(feature = "repeatable-handshakes")]
    pub(crate) fn repeat(&mut self, secret: &[u8]) {
        let first = secret.first_chunk().copied().map_or(0, u64::from_be_bytes);
        self.repeatable = Some(Repeatable { next_seed: first.into() });
    }

    /// Begins a handshake.
    pub(crate) fn initiate(&self, style: Style, now: Instant) -> Box<dyn Handshake> {
        let mut dtls = self.make(style, now);
        dtls.set_active(true);
        Box::new(DtlsHandshake { dtls })
    }

    /// Awaits a hello.
    pub(crate) fn respond(&self, style: Style, now: Instant) -> Box<dyn Handshake> {
        Box::new(DtlsHandshake { dtls: self.make(style, now) })
    }

    fn make(&self, style: Style, now: Instant) -> Dtls {
        let certificate = self.certificate.clone();
        match style {
            Style::Native => Dtls::new_13(self.config(style), certificate, now),
            Style::Foreign => Dtls::new_auto(self.config(style), certificate, now),
        }
    }

    fn config(&self, style: Style) -> Arc<Config> {
        #[cfg(feature = "repeatable-handshakes")]
        if let Some(Repeatable { next_seed }) = &self.repeatable {
            let seed = next_seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if let Ok(seeded) = config(style).dangerously_set_rng_seed(seed).build() {
                return Arc::new(seeded);
            }
        }
        match style {
            Style::Native => Arc::clone(&self.native),
            Style::Foreign => Arc::clone(&self.foreign),
        }
    }
}

fn config(style: Style) -> ConfigBuilder {
    Config::builder()
        .mtu(HANDSHAKE_DATAGRAM_LEN)
        .max_queue_rx(MAX_WAITING_RECORDS)
        .use_server_cookie(style == Style::Foreign)
        .flight_start_rto(FIRST_RETRANSMISSION)
        .flight_retries(RETRANSMISSIONS)
        .handshake_timeout(HANDSHAKE_TIMEOUT)
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
        // It may say that it took nothing, but only before the version is known, and we send once connected.
        self.dtls.send_application_data(message)?;
        Ok(())
    }

    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> Result<Output<'a>, HandshakeError> {
        Ok(match self.dtls.poll_output(buffer) {
            dimpl::Output::Packet(datagram) => Output::Datagram(datagram),
            dimpl::Output::PeerCert(der) => Output::Certificate(der),
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
const HANDSHAKE_DATAGRAM_LEN: usize = 1200;
/// Records of a flight that wait for one before them. The largest certificate is a handful.
const MAX_WAITING_RECORDS: usize = 64;
/// A quarter of a second: above most round trips, and a lost datagram is hardly noticed.
const FIRST_RETRANSMISSION: Duration = Duration::from_millis(250);
/// Four doublings: 7.75 s in all, then the timeout.
const RETRANSMISSIONS: usize = 4;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);
