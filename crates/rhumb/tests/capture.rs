//! What somebody sees who records the wires between routers:
//! no name, no metadata, no byte of what is sent.
//!
//! R1 and R3 reach R2 only through taps that record every
//! datagram in both directions, handshakes included.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use data_encoding::{BASE32_NOPAD, HEXLOWER};

use crate::harness::{Place, Running, remote};

/// Carries datagrams between one client and a server, and keeps a copy of each.
struct Tap {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tap {
    fn on(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let (seen, stopped) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (record, stop) = (Arc::clone(&seen), Arc::clone(&stopped));
        let thread = std::thread::spawn(move || {
            let mut client = None;
            let mut buffer = vec![0; 65_536];
            while !stop.load(Ordering::Acquire) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                let to = if from == server {
                    client
                } else {
                    client = Some(from);
                    Some(server)
                };
                if let Some(to) = to {
                    record.lock().unwrap().push(buffer[..len].to_vec());
                    // A full queue is a lost datagram, as on any wire.
                    let _ = socket.send_to(&buffer[..len], to);
                }
            }
        });
        Self { address, seen, stopped, thread: Some(thread) }
    }

    /// Everything recorded, one datagram after the other.
    fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Short windows of what must not be seen.
#[derive(Default)]
struct Forbidden(HashSet<[u8; WINDOW]>);

impl Forbidden {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend(
            bytes.windows(WINDOW).map(|window| -> [u8; WINDOW] { window.try_into().unwrap() }),
        );
    }

    fn is_in(&self, datagram: &[u8]) -> bool {
        datagram.windows(WINDOW).any(|window| self.0.contains(window))
    }
}

/// Eight bytes of random content occur by chance once in 10^11 runs of this size.
const WINDOW: usize = 8;

fn router(place: &Place, key: &str, more: &[&str]) -> (Running, serde_json::Value) {
    place.keygen("router", key);
    let mut arguments = vec!["router", "--listen", "127.0.0.1:0", "--key", key];
    arguments.extend(more);
    let mut running = place.start(&arguments);
    let ready = running.next_object();
    (running, ready)
}

#[test]
fn no_name_and_no_payload_byte_between_routers() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib = place.start(&["rib", "--listen", "127.0.0.1:0", "--key", "rib.key"]);
    let to_rib = remote(&rib.next_object());
    let (_r2, r2_ready) = router(&place, "r2.key", &["--rib", &to_rib]);
    let r2_address: SocketAddr = r2_ready["address"].as_str().unwrap().parse().unwrap();
    let taps = [Tap::on(r2_address), Tap::on(r2_address)];
    let tapped = |tap: &Tap| format!("{}@{}", r2_ready["name"].as_str().unwrap(), tap.address);
    let edge = |key: &str, tap: &Tap| {
        let more = ["--rib", &to_rib, "--upstream", &tapped(tap), "--locator", "none"];
        router(&place, key, &more)
    };
    let (_r1, r1_ready) = edge("r1.key", &taps[0]);
    let (_r3, r3_ready) = edge("r3.key", &taps[1]);
    for key in ["a.key", "b.key"] {
        place.keygen("node", key);
    }
    let mut receiver = place.start(&[
        "receive",
        "--once",
        "--dir",
        ".",
        "--key",
        "b.key",
        "--router",
        &remote(&r3_ready),
    ]);
    let to = receiver.next_object()["name"].as_str().unwrap().to_owned();
    let payload: Vec<u8> = {
        // Any bytes without structure serve; those of a generator are the same in each run.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()
        };
        (0..25_000).flat_map(|_| next()).collect()
    };
    std::fs::create_dir(place.path("out")).unwrap();
    std::fs::write(place.path("out/payload-of-this-test"), &payload).unwrap();
    let sent = place.run(&[
        "send",
        "out/payload-of-this-test",
        "--to",
        &to,
        "--key",
        "a.key",
        "--router",
        &remote(&r1_ready),
    ]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert_eq!(receiver.next_object()["bytes"], payload.len());

    let mut forbidden = Forbidden::default();
    forbidden.add(&payload);
    forbidden.add(b"payload-of-this-test");
    for file in ["rib.key", "r1.key", "r2.key", "r3.key", "a.key", "b.key"] {
        let text = std::fs::read_to_string(place.path(file)).unwrap();
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let name = line("name ");
        forbidden.add(name.as_bytes());
        forbidden.add(&BASE32_NOPAD.decode(name.to_uppercase().as_bytes()).unwrap());
        forbidden.add(&HEXLOWER.decode(line("metadata ").as_bytes()).unwrap());
    }
    for tap in &taps {
        let seen = tap.seen();
        let bytes: usize = seen.iter().map(Vec::len).sum();
        assert!(bytes > payload.len(), "the payload went another way: {bytes} bytes seen");
        let found = seen.iter().filter(|datagram| forbidden.is_in(datagram)).count();
        assert_eq!(found, 0, "of {} datagrams", seen.len());
    }
    // The search does find what is there.
    assert!(forbidden.is_in(&payload[1000..1100]));
}
