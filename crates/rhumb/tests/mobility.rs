//! Real processes whose addresses change while a file flows: behind a translator of addresses that
//! forgets them, and on a link whose address is taken away and replaced.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Run, remote};
use crate::namespaces::Namespace;
use crate::network::Network;

/// A translator of addresses between one node and a router, that forgets the node now and then: the
/// router sees it at another port, and what goes to the former one is lost.
struct Translator {
    address: SocketAddr,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    rebindings: AtomicUsize,
    /// Handshake datagrams of either end after the first rebinding.
    handshakes: AtomicUsize,
}

impl Translator {
    /// Forgets after so many datagrams of the node, as often as `times` says.
    fn start(router: SocketAddr, every: usize, times: usize) -> Self {
        let inner = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (inner.local_addr().unwrap(), Arc::new(Seen::default()));
        let watching = Arc::clone(&seen);
        let thread = std::thread::spawn(move || translate(&inner, router, every, times, &watching));
        Self { address, seen, thread: Some(thread) }
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn translate(inner: &UdpSocket, router: SocketAddr, every: usize, times: usize, seen: &Seen) {
    let node: Mutex<Option<SocketAddr>> = Mutex::new(None);
    let outer = Mutex::new(Arc::new(outward(router)));
    let present = || Arc::clone(&outer.lock().unwrap());
    inner.set_read_timeout(Some(SLICE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 65_535];
            while !seen.stop.load(Ordering::Relaxed) {
                // A socket that was replaced meanwhile is closed with
                // this turn, and what it holds is lost.
                let socket = present();
                let Ok(len) = socket.recv(&mut buffer) else { continue };
                count_handshake(seen, &buffer[..len]);
                if let (Some(node), true) =
                    (*node.lock().unwrap(), Arc::ptr_eq(&socket, &present()))
                {
                    let _ = inner.send_to(&buffer[..len], node);
                }
            }
        });
        let (mut buffer, mut passed) = ([0; 65_535], 0_usize);
        while !seen.stop.load(Ordering::Relaxed) {
            let Ok((len, from)) = inner.recv_from(&mut buffer) else { continue };
            *node.lock().unwrap() = Some(from);
            passed += 1;
            if passed.is_multiple_of(every) && seen.rebindings.load(Ordering::Relaxed) < times {
                *outer.lock().unwrap() = Arc::new(outward(router));
                seen.rebindings.fetch_add(1, Ordering::Relaxed);
            }
            count_handshake(seen, &buffer[..len]);
            let _ = present().send(&buffer[..len]);
        }
    });
}

fn outward(router: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(router).unwrap();
    socket.set_read_timeout(Some(SLICE)).unwrap();
    socket
}

fn count_handshake(seen: &Seen, datagram: &[u8]) {
    let is_handshake = matches!(datagram.first(), Some(20..=63 | 0x90 | 0xA0));
    if is_handshake && seen.rebindings.load(Ordering::Relaxed) > 0 {
        seen.handshakes.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long a thread of the translator waits before it looks
/// whether it should end, or its socket was replaced.
const SLICE: Duration = Duration::from_millis(5);

fn status(place: &Place, ready: &Value) -> Value {
    place.run(&["--json", "status", "--admin", ready["admin"].as_str().unwrap()]).object()
}

/// A file of so many bytes, no two blocks of which are alike.
fn write_file(place: &Place, name: &str, bytes: usize) {
    let content: Vec<u8> = (0..bytes as u64 / 8)
        .flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes())
        .collect();
    std::fs::write(place.path(name), content).unwrap();
}

#[test]
fn a_transfer_survives_a_translator_that_forgets_the_sender_or_the_receiver() {
    for sender_moves in [true, false] {
        let place = Place::new();
        let network = Network::start(&place);
        let router: SocketAddr = network.router_ready["address"].as_str().unwrap().parse().unwrap();
        let name = network.router_ready["name"].as_str().unwrap();
        // A receiver sends fewer datagrams than the sender.
        let every = if sender_moves { 2000 } else { 50 };
        let translator = Translator::start(router, every, 3);
        let (direct, through) = (network.router(), format!("{name}@{}", translator.address));
        let (of_sender, of_receiver) =
            if sender_moves { (&through, &direct) } else { (&direct, &through) };
        write_file(&place, "large", 20_000_000);
        std::fs::create_dir(place.path("inbox")).unwrap();
        let mut receiver = place.start(&["receive", "--dir", "inbox", "--router", of_receiver]);
        let to = receiver.next_object()["name"].as_str().unwrap().to_owned();
        let sent = place.run(&["--json", "send", "large", "--to", &to, "--router", of_sender]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        assert_eq!(receiver.next_object()["sha256"], sent.object()["sha256"]);
        assert_eq!(translator.seen.rebindings.load(Ordering::Relaxed), 3);
        assert_eq!(translator.seen.handshakes.load(Ordering::Relaxed), 0);
        let moved = status(&place, &network.router_ready)["counters"]["sessions_moved"].as_u64();
        // Two rebindings within 100 ms may be one move.
        assert!((1..=3).contains(&moved.unwrap()), "{moved:?}");
    }
}

#[test]
fn a_transfer_survives_another_address_of_the_link() {
    let (Some(host), Some(nodes)) = (Namespace::new(), Namespace::new()) else { return };
    host.wire("eth", &nodes, "eth");
    host.run("ip address add 10.9.0.1/24 dev eth");
    nodes.run("ip address add 10.9.0.2/24 dev eth");
    let slow = "tc qdisc add dev eth root tbf rate 100mbit burst 64k latency 20ms";
    let limited = nodes.enter("sh").args(["-c", slow]).output();
    if !limited.is_ok_and(|output| output.status.success()) {
        println!("skipped: the transfer needs a slow link, and so tc and its token bucket filter");
        return;
    }
    let place = Place::new();
    for (role, key) in [("rib", "rib.key"), ("router", "router.key")] {
        place.keygen(role, key);
    }
    let mut rib =
        place.start_in(host.id(), &["rib", "--listen", "127.0.0.1:0", "--key", "rib.key"]);
    let to_rib = remote(&rib.next_object());
    let mut router = place.start_in(
        host.id(),
        &[
            "router",
            "--listen",
            "10.9.0.1:0",
            "--key",
            "router.key",
            "--rib",
            &to_rib,
            "--admin",
            "127.0.0.1:0",
        ],
    );
    let ready = router.next_object();
    let admin = ready["admin"].as_str().unwrap();
    let to_router = remote(&ready);
    let counters = || {
        let arguments = ["--json", "status", "--admin", admin];
        let status = Run::of(place.command_in(host.id(), &arguments).output().unwrap()).object();
        let read = |name: &str| status["counters"][name].as_u64().unwrap();
        (read("forwarded_pdus"), read("sessions_moved"))
    };

    write_file(&place, "large", 40_000_000);
    std::fs::create_dir(place.path("inbox")).unwrap();
    let mut receiver =
        place.start_in(host.id(), &["receive", "--dir", "inbox", "--router", &to_router]);
    let to = receiver.next_object()["name"].as_str().unwrap().to_owned();
    let log = ["--log", "rhumb_node=debug"];
    let arguments = [&log[..], &["send", "large", "--to", &to, "--router", &to_router]].concat();
    let mut sender = place.start_in(nodes.id(), &arguments);
    let begin = Instant::now();
    for address in 3..6 {
        let (before, _) = counters();
        while counters().0 < before + 3000 {
            assert!(begin.elapsed() < Duration::from_secs(20), "the transfer stands still");
            std::thread::sleep(Duration::from_millis(20));
        }
        nodes.run(&format!("ip address flush dev eth; ip address add 10.9.0.{address}/24 dev eth"));
    }
    assert!(sender.next_object()["sha256"].is_string());
    let received = receiver.next_object();
    let [sent, arrived] =
        ["large", "inbox/large"].map(|name| std::fs::read(place.path(name)).unwrap());
    assert!(sent == arrived, "{received}");
    assert_eq!(counters().1, 3, "each change of address is one move");
    let told = sender.errors_so_far();
    assert!(told.contains("Joined"), "{told}");
    assert!(!told.contains("Disconnected"), "the session lived on: {told}");
}
