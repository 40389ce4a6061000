//! Peers of another make: OpenSSL's client, and hellos
//! in the name of others that look like its own.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rhumb_trust::Identity;
use rhumb_wire::Role;

use super::AtRate;

/// A key with its certificate in a folder, for OpenSSL.
pub(crate) struct OpenSsl<'a> {
    folder: &'a Path,
}

impl<'a> OpenSsl<'a> {
    /// # Errors
    ///
    /// When there is no `openssl`.
    pub(crate) fn new(folder: &'a Path) -> Result<Self, std::io::Error> {
        Command::new("openssl").arg("version").output()?;
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let certificate = rhumb_trust::x509::make(&identity).unwrap();
        std::fs::write(folder.join("cert.der"), certificate)?;
        std::fs::write(folder.join("key.der"), identity.pkcs8_der())?;
        Ok(Self { folder })
    }

    /// How long a whole handshake of DTLS 1.2 takes, with the start of a
    /// process; nothing if it is not over by then.
    pub(crate) fn handshake(&self, router: SocketAddr, patience: Duration) -> Option<Duration> {
        let begun = Instant::now();
        let mut child = Command::new("openssl")
            .args(["s_client", "-dtls1_2", "-timeout", "-connect", &router.to_string()])
            .args(["-use_srtp", "SRTP_AEAD_AES_256_GCM"])
            .args(["-certform", "DER", "-cert", "cert.der", "-keyform", "DER", "-key", "key.der"])
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // At the end of its input it ends, once the handshake has.
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > patience {
                child.kill().unwrap();
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let took = begun.elapsed();
        let output =
            String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
        output.contains("Cipher is ECDHE-ECDSA").then_some(took)
    }
}

/// Sends hellos of DTLS 1.2 from many addresses, and looks at no answer.
pub(crate) fn spoof_hellos(router: SocketAddr, per_s: u64) -> AtRate {
    let bind = |number| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 77, number, 1), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let sockets: Vec<UdpSocket> = (0..250).map(bind).collect();
    AtRate::start(per_s, move |count| {
        let _ = sockets[count as usize % sockets.len()].send_to(&hello(count), router);
    })
}

/// A first hello of DTLS 1.2, whose random bytes are of this number.
fn hello(number: u64) -> Vec<u8> {
    let mut body = vec![0xFE, 0xFD];
    body.extend_from_slice(&[number.to_be_bytes(); 4].concat());
    // No session, no cookie, a suite, no compression, the groups: as long as what is answered.
    body.extend_from_slice(&[0, 0, 0, 2, 0xC0, 0x2B, 1, 0, 0, 8, 0, 10, 0, 4, 0, 2, 0, 23]);
    let len = [0, 0, body.len() as u8];
    let message = [&[1][..], &len, &[0; 5], &len, &body].concat();
    let header = [22, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, message.len() as u8];
    [&header[..], &message].concat()
}
