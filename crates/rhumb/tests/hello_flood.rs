//! OpenSSL clients and a node amid a flood of hellos in the name of others, against the router as it is run.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

mod harness;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harness::{Network, Place};
use rhumb_trust::Identity;
use rhumb_wire::Role;

/// Hellos a second, if the machine has time for them.
const RATE: u64 = 20_000;
const CLIENTS: usize = 25;
/// For one client: what a machine that does much else needs, not what a handshake does.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn openssl_and_nodes_finish_amid_spoofed_hellos() {
    if let Err(error) = Command::new("openssl").arg("version").output() {
        println!("skipped: OpenSSL amid a flood (no openssl command: {error})");
        return;
    }
    let place = Place::new();
    let network = Network::start(&place);
    let router: SocketAddr = network.router_ready["address"].as_str().unwrap().parse().unwrap();
    let identity = Identity::generate(Role::Node, 1).unwrap();
    std::fs::write(place.path("cert.der"), rhumb_link::certificate::make(&identity).unwrap())
        .unwrap();
    std::fs::write(place.path("key.der"), identity.pkcs8_der()).unwrap();
    assert!(handshake(&place, router).is_some(), "without a flood");

    let flood = Flood::start(router);
    let times: Vec<_> = (0..CLIENTS).filter_map(|_| handshake(&place, router)).collect();
    place.keygen("node", "node.key");
    let name = network.router_ready["name"].as_str().unwrap();
    let ping =
        place.run(&["--json", "ping", name, "--router", &network.router(), "--key", "node.key"]);
    let per_s = flood.end();
    let within = times.iter().filter(|time| **time < Duration::from_secs(2)).count();
    println!("{per_s} hellos a second; {} of {CLIENTS} finished, {within} within 2 s", times.len());
    assert_eq!(times.len(), CLIENTS, "of {per_s} hellos a second");
    assert_eq!(ping.code, 0, "{}", ping.errors);
}

/// How long a whole handshake of DTLS 1.2 takes; nothing if it does not finish.
fn handshake(place: &Place, router: SocketAddr) -> Option<Duration> {
    let begun = Instant::now();
    let mut child = Command::new("openssl")
        .args(["s_client", "-dtls1_2", "-timeout", "-connect", &router.to_string()])
        .args(["-use_srtp", "SRTP_AEAD_AES_256_GCM"])
        .args(["-certform", "DER", "-cert", "cert.der", "-keyform", "DER", "-key", "key.der"])
        .current_dir(place.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // At the end of its input it ends, once the handshake has.
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = begun.elapsed();
    let output = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
    output.contains("Cipher is ECDHE-ECDSA").then_some(took)
}

/// Sends hellos from many addresses, and looks at no answer.
struct Flood {
    ends: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    begun: Instant,
    thread: JoinHandle<()>,
}

impl Flood {
    fn start(router: SocketAddr) -> Self {
        let sockets: Vec<UdpSocket> = (0..250)
            .map(|n| {
                let address = Ipv4Addr::new(127, 77, n, 1);
                let socket = UdpSocket::bind((address, 0)).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            })
            .collect();
        let (ends, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends_too, sent_too, begun) = (Arc::clone(&ends), Arc::clone(&sent), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut count = 0u64;
            while !ends_too.load(Ordering::Relaxed) {
                let owed = begun.elapsed().as_micros() as u64 * RATE / 1_000_000;
                while count < owed {
                    let socket = &sockets[count as usize % sockets.len()];
                    let _ = socket.send_to(&hello(count), router);
                    count += 1;
                }
                sent_too.store(count, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { ends, sent, begun, thread }
    }

    /// Hellos a second.
    fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed) * 1000 / self.begun.elapsed().as_millis() as u64
    }
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
