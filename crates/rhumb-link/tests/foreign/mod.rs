//! A peer that is no endpoint: a bare DTLS library with whatever certificate a test wants.

// Each test is a crate of its own and uses a part.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dimpl::{Dtls, DtlsCertificate, Output};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rhumb_trust::Identity;

use crate::pair::{Flying, Net};

/// Which DTLS it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Dtls12,
    Dtls13,
}

pub struct Foreign {
    dtls: Dtls,
    pub address: SocketAddr,
    pub peer: SocketAddr,
    pub connected: bool,
    pub messages: Vec<Vec<u8>>,
    /// Whether it stopped: the library gave up.
    pub failed: bool,
}

impl Foreign {
    pub fn new(
        net: &Net,
        version: Version,
        certificate: DtlsCertificate,
        client_of: Option<usize>,
    ) -> Self {
        let config = Arc::new(dimpl::Config::default());
        let mut dtls = match version {
            Version::Dtls12 => Dtls::new_12(config, certificate, net.now),
            Version::Dtls13 => Dtls::new_13(config, certificate, net.now),
        };
        dtls.set_active(client_of.is_some());
        Self {
            dtls,
            address: "198.51.100.7:5684".parse().unwrap(),
            peer: client_of
                .map_or_else(|| "0.0.0.0:0".parse().unwrap(), |host| net.hosts[host].address),
            connected: false,
            messages: Vec::new(),
            failed: false,
        }
    }

    pub fn say(&mut self, message: &[u8]) {
        self.dtls.send_application_data(message).unwrap();
    }

    /// Lets time pass for it and the network.
    pub fn run(&mut self, net: &mut Net, span: Duration) {
        let end = net.now + span;
        while net.now < end {
            self.failed |= self.dtls.handle_timeout(net.now).is_err();
            for flying in std::mem::take(&mut net.outside) {
                // As any stock stack would, it ignores what is not DTLS.
                if flying.to == self.address && (20..=63).contains(&flying.bytes[0]) {
                    self.peer = flying.from;
                    self.failed |= self.dtls.handle_packet(&flying.bytes).is_err();
                }
            }
            let mut buffer = [0; 4096];
            while !self.failed {
                match self.dtls.poll_output(&mut buffer) {
                    Output::Packet(bytes) => net.launch(Flying {
                        from: self.address,
                        to: self.peer,
                        bytes: bytes.to_vec(),
                    }),
                    Output::Connected => self.connected = true,
                    Output::ApplicationData(message) => self.messages.push(message.to_vec()),
                    Output::Timeout(_) => break,
                    _ => {}
                }
            }
            net.run(Duration::from_millis(5));
        }
    }
}

/// A certificate of `identity`'s key that carries `metadata`, if any.
pub fn certificate(identity: &Identity, metadata: Option<Vec<u8>>) -> DtlsCertificate {
    let key = KeyPair::try_from(identity.pkcs8_der()).unwrap();
    let mut params = CertificateParams::default();
    params.custom_extensions = metadata
        .map(|content| CustomExtension::from_oid_content(&[2, 25, 74_088_145], content))
        .into_iter()
        .collect();
    DtlsCertificate {
        certificate: params.self_signed(&key).unwrap().der().to_vec(),
        private_key: identity.pkcs8_der().to_vec(),
    }
}
