//! AF_XDP on one end of a wire, an ordinary socket on the other: what is delivered, and what the
//! kernel still does on the same interface.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::xdp::{self, XdpSocket};
use rhumb_io::{PacketIo, SendReport};
use rhumb_wire::Batch;
use socket2::{Domain, Protocol, Socket, Type};
#[allow(dead_code, reason = "other tests use the rest")]
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::sockets::{bind, datagrams_of};
use crate::wire::{Host, Wire};

/// AF_XDP on the near end of a wire, at all addresses of one family.
fn near(wire: &Wire, any: &str) -> XdpSocket {
    attach(&wire.near, any, &xdp::Options::default()).unwrap()
}

fn attach(host: &Host, ip: &str, options: &xdp::Options) -> Result<XdpSocket, String> {
    let ip: IpAddr = ip.parse().unwrap();
    host.enter(|| {
        let socket = bind(ip, Options { whole: false, ..Options::default() });
        XdpSocket::attach(socket, options).map_err(|refused| refused.refusal.to_string())
    })
}

/// A socket on the far end.
fn far(wire: &Wire, ip: &str) -> UdpSocket {
    let ip: IpAddr = ip.parse().unwrap();
    wire.far.enter(|| bind(ip, Options { whole: false, ..Options::default() }))
}

fn address(ip: &str, port: u16) -> SocketAddr {
    format!("{ip}:{port}").parse().unwrap()
}

fn send(from: &mut impl PacketIo, to: SocketAddr, datagrams: &[Vec<u8>]) -> SendReport {
    let mut batch = Batch::new();
    for datagram in datagrams {
        batch.push(to, datagram);
    }
    from.send(&batch).unwrap()
}

/// Either end.
trait Receive: PacketIo {
    fn wait_for(&mut self, time: Duration) -> bool;

    /// What comes until `count` have come, or none for `patience`.
    fn take(&mut self, count: usize, patience: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
        let (mut batch, mut received) = (Batch::new(), Vec::new());
        while received.len() < count && self.wait_for(patience) {
            self.receive(&mut batch).unwrap();
            received.extend(batch.iter().map(|(peer, bytes)| (peer, bytes.to_vec())));
        }
        received
    }

    #[track_caller]
    fn receives(&mut self, from: SocketAddr, datagrams: &[Vec<u8>]) {
        let received = self.take(datagrams.len(), Duration::from_secs(5));
        assert_eq!(received.len(), datagrams.len());
        for (index, ((peer, bytes), sent)) in received.iter().zip(datagrams).enumerate() {
            assert_eq!((*peer, bytes), (from, sent), "datagram {index}");
        }
    }
}

impl Receive for UdpSocket {
    fn wait_for(&mut self, time: Duration) -> bool {
        self.wait(Some(time), None).unwrap().readable
    }
}

impl Receive for XdpSocket {
    fn wait_for(&mut self, time: Duration) -> bool {
        self.wait(Some(time), None).unwrap().readable
    }
}

/// Sends from the near end until datagrams leave by the
/// rings: the first one to a peer goes by the socket.
fn settle(near: &mut XdpSocket, to: SocketAddr, far: &mut UdpSocket) {
    let begin = Instant::now();
    let first = near.counters().xdp_sent_datagrams;
    while near.counters().xdp_sent_datagrams == first {
        assert_eq!(send(near, to, &[vec![0]]).sent, 1);
        assert!(far.take(1, Duration::from_secs(5)).len() == 1, "nothing arrives");
        assert!(begin.elapsed() < Duration::from_secs(10), "nothing goes by the rings");
    }
}

#[test]
fn both_ways_at_every_size() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "::");
    let mut far = far(&wire, "::");
    let [near_port, far_port] = [near.local_address().port(), far.local_address().port()];
    // 1472 and 1452 bytes are the largest that fit; beyond, the
    // kernel cuts packets and puts them together.
    let sizes: Vec<usize> =
        [1, 2, 17, 18, 19, 63, 64, 65, 1000, 1451, 1452, 1453, 1471, 1472, 1473, 3000, 65_000]
            .into_iter()
            .flat_map(|size| [size; 3])
            .collect();
    let datagrams = datagrams_of(&sizes);
    for (near_ip, far_ip, fit) in
        [("10.9.0.1", "10.9.0.2", 42), ("[2001:db8:9::1]", "[2001:db8:9::2]", 33)]
    {
        let (from, to) = (address(near_ip, near_port), address(far_ip, far_port));
        settle(&mut near, to, &mut far);
        let before = near.counters();
        for (datagram, size) in datagrams.iter().zip(&sizes) {
            let one = std::slice::from_ref(datagram);
            assert_eq!(send(&mut near, to, one).sent, 1, "{size} bytes");
            far.receives(from, one);
            assert_eq!(send(&mut far, from, one).sent, 1, "{size} bytes");
            near.receives(to, one);
        }
        let after = near.counters();
        assert_eq!(after.received_datagrams - before.received_datagrams, sizes.len() as u64);
        assert_eq!(after.xdp_received_datagrams - before.xdp_received_datagrams, fit);
        let sent = after.xdp_sent_datagrams - before.xdp_sent_datagrams;
        // All that fit, but for one a second, with which the way is confirmed.
        assert!(sent <= fit && sent > fit / 2, "{sent} of {fit}");
        assert_eq!(after.receive_malformed, 0);
    }
}

#[test]
fn packets_larger_than_usual() {
    let Some(wire) = Wire::new() else { return };
    wire.near.run("ip link set near mtu 3400");
    wire.far.run("ip link set far mtu 3400");
    let mut near = near(&wire, "0.0.0.0");
    let mut far = far(&wire, "10.9.0.2");
    let (from, to) = (address("10.9.0.1", near.local_address().port()), far.local_address());
    settle(&mut near, to, &mut far);
    for (size, fits) in [(3372, 20), (3373, 0)] {
        let (datagrams, before) = (datagrams_of(&[size; 20]), near.counters());
        assert_eq!(send(&mut near, to, &datagrams).sent, 20);
        far.receives(from, &datagrams);
        assert_eq!(send(&mut far, from, &datagrams).sent, 20);
        near.receives(to, &datagrams);
        let after = near.counters();
        assert_eq!(after.xdp_received_datagrams - before.xdp_received_datagrams, fits, "{size}");
    }
    // The way is told to be narrower than the wire: what no
    // longer fits goes by the socket, which cuts it.
    wire.near.run("ip route replace 10.9.0.0/24 dev near mtu 1400 src 10.9.0.1");
    let begin = Instant::now();
    let datagrams = datagrams_of(&[3000; 5]);
    loop {
        let before = near.counters().xdp_sent_datagrams;
        assert_eq!(send(&mut near, to, &datagrams).sent, 5);
        far.receives(from, &datagrams);
        // Twice in a row, or it was only the batch in which the way is renewed.
        assert_eq!(send(&mut near, to, &datagrams).sent, 5);
        far.receives(from, &datagrams);
        if near.counters().xdp_sent_datagrams == before {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "the narrower way was not noticed");
    }
    settle(&mut near, to, &mut far);
}

#[test]
fn between_link_local_addresses_and_in_one_batch() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "::");
    let mut far = far(&wire, "::");
    let link_local = |host: &Host, device: &str| {
        let text = host.run(&format!("ip -6 -o address show dev {device} scope link"));
        let index = host.run(&format!("ip -o link show dev {device} | cut -d: -f1"));
        let ip = text.split_whitespace().nth(3).unwrap().split('/').next().unwrap().to_owned();
        (ip, index.trim().to_owned())
    };
    let (near_ip, near_index) = link_local(&wire.near, "near");
    let (far_ip, far_index) = link_local(&wire.far, "far");
    let to = address(&format!("[{far_ip}%{near_index}]"), far.local_address().port());
    let from = address(&format!("[{near_ip}%{far_index}]"), near.local_address().port());
    settle(&mut near, to, &mut far);
    // A datagram that is too large goes by the socket, and
    // those behind it do too: they keep their order.
    let datagrams = datagrams_of(&[100, 200, 3000, 300, 1452, 1453, 5]);
    for _ in 0..3 {
        assert_eq!(send(&mut near, to, &datagrams).sent, 7);
        far.receives(from, &datagrams);
        assert_eq!(send(&mut far, from, &datagrams).sent, 7);
        let mut received: Vec<Vec<u8>> =
            near.take(7, Duration::from_secs(5)).into_iter().map(|(_, bytes)| bytes).collect();
        // Towards us they do not: what is cut takes the way through the kernel.
        let mut sent = datagrams.clone();
        received.sort();
        sent.sort();
        assert!(received == sent);
    }
}

/// A burst that nobody waits for: whatever does not arrive is accounted for.
#[test]
fn bursts_of_ten_thousand() {
    let Some(wire) = Wire::new() else { return };
    for (gso, ip, far_ip, size) in [
        (true, "10.9.0.1", "10.9.0.2", 1000),
        (false, "10.9.0.1", "10.9.0.2", 64),
        (true, "[2001:db8:9::1]", "[2001:db8:9::2]", 1400),
    ] {
        let mut near = near(&wire, "::");
        let any = "::".parse().unwrap();
        let mut far = wire.far.enter(|| bind(any, Options { gso, ..Options::default() }));
        let to = address(ip, near.local_address().port());
        let from = address(far_ip, far.local_address().port());
        settle(&mut near, from, &mut far);
        let numbered = |round: usize| -> Vec<Vec<u8>> {
            let number = |index: usize| ((round * 100 + index) as u32).to_be_bytes();
            (0..100).map(|index| [&number(index)[..], &vec![7; size - 4]].concat()).collect()
        };
        let (before, drops_before) = (near.counters(), drops(&wire));
        let received = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| near.take(BURST, Duration::from_secs(1)));
            for round in 0..BURST / 100 {
                assert_eq!(send(&mut far, to, &numbered(round)).sent, 100);
            }
            receiver.join().unwrap()
        });
        assert!(received.iter().all(|(peer, bytes)| *peer == from && bytes.len() == size));
        let numbers: Vec<&[u8]> = received.iter().map(|(_, bytes)| &bytes[..4]).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order, each once");
        let after = near.counters();
        let overflows = (after.receive_queue_overflows - before.receive_queue_overflows) as usize;
        let on_the_wire = drops(&wire) - drops_before;
        println!(
            "GSO {gso}, {size} B: {} of {BURST} arrived, {overflows} overflowed, {on_the_wire} dropped on the wire",
            received.len()
        );
        assert!(received.len() + overflows + on_the_wire >= BURST, "lost without a trace");
        assert_eq!(
            after.xdp_received_datagrams - before.xdp_received_datagrams,
            received.len() as u64
        );

        // The other way, in batches that the far end takes before the next.
        for round in 0..BURST / 100 {
            let datagrams = numbered(round);
            assert_eq!(send(&mut near, from, &datagrams).sent, 100);
            far.receives(to, &datagrams);
        }
        let sent = near.counters().xdp_sent_datagrams - before.xdp_sent_datagrams;
        assert!(sent > BURST as u64 / 2, "{sent} went by the rings");
    }
}

const BURST: usize = 10_000;

/// Packets that the two interfaces say they dropped towards the near end.
fn drops(wire: &Wire) -> usize {
    let column = |host: &Host, device: &str, at: usize| -> usize {
        let text = host.run(&format!("grep {device}: /proc/net/dev"));
        text.split_whitespace().nth(at).unwrap().parse().unwrap()
    };
    column(&wire.near, "near", 4) + column(&wire.far, "far", 12)
}

#[test]
fn the_kernel_does_the_rest_on_the_same_interface() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "::");
    // Another port, on the near end, by a plain socket; and TCP.
    let cut = Options { whole: false, ..Options::default() };
    let mut plain = wire.near.enter(|| bind("::".parse().unwrap(), cut));
    let mut far = far(&wire, "::");
    let listener = wire.near.enter(|| TcpListener::bind("[::]:0")).unwrap();
    for (ip, far_ip) in [("10.9.0.1", "10.9.0.2"), ("[2001:db8:9::1]", "[2001:db8:9::2]")] {
        // Both ends forget each other: ARP and neighbour discovery have to pass.
        wire.near.run("ip neighbour flush dev near");
        wire.far.run("ip neighbour flush dev far");
        ping(&wire.far, ip);
        ping(&wire.near, far_ip);
        let from = address(far_ip, far.local_address().port());
        for receiver in [&mut plain as &mut dyn Port, &mut near] {
            receiver.exchange(&mut far, ip, from);
        }
        let to = address(ip, listener.local_addr().unwrap().port());
        let mut stream = wire.far.enter(|| TcpStream::connect(to)).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        stream.write_all(&[9; 100_000][..]).unwrap();
        drop(stream);
        let mut read = Vec::new();
        accepted.read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), 100_000);
    }
    assert!(near.counters().xdp_received_datagrams > 0);
    assert!(plain.counters().received_datagrams > 0);
}

/// A socket that exchanges a few datagrams with the far end.
trait Port {
    fn exchange(&mut self, far: &mut UdpSocket, ip: &str, from: SocketAddr);
}

impl<T: Receive> Port for T {
    fn exchange(&mut self, far: &mut UdpSocket, ip: &str, from: SocketAddr) {
        let to = address(ip, self.local_address().port());
        let datagrams = datagrams_of(&[10, 1000, 2000]);
        for datagram in datagrams {
            let one = [datagram];
            assert_eq!(send(far, to, &one).sent, 1);
            self.receives(from, &one);
            assert_eq!(send(self, from, &one).sent, 1);
            far.receives(to, &one);
        }
    }
}

/// One echo request, answered.
#[track_caller]
fn ping(host: &Host, ip: &str) {
    let to: SocketAddr = address(ip, 0);
    let (domain, protocol, request) = if to.is_ipv4() {
        (Domain::IPV4, Protocol::ICMPV4, 8)
    } else {
        (Domain::IPV6, Protocol::ICMPV6, 128)
    };
    let socket = host.enter(|| Socket::new(domain, Type::DGRAM, Some(protocol))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send_to(&[request, 0, 0, 0, 0, 0, 0, 1], &to.into()).unwrap();
    let mut answer = [MaybeUninit::uninit(); 64];
    assert_eq!(socket.recv(&mut answer).expect("an answer"), 8);
}

#[test]
fn a_neighbour_that_changes_its_hardware_address() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "0.0.0.0");
    let mut far = far(&wire, "10.9.0.2");
    let to = far.local_address();
    // The kernel asks again when its neighbour is silent, by default after half a minute.
    wire.near.run(
        "cd /proc/sys/net/ipv4/neigh/near; echo 500 > base_reachable_time_ms; \
         echo 1 > delay_first_probe_time; echo 100 > retrans_time_ms",
    );
    settle(&mut near, to, &mut far);
    wire.far.run("ip link set far address 02:00:00:00:00:77");
    let begin = Instant::now();
    loop {
        send(&mut near, to, &[vec![1]]);
        if !far.take(1, Duration::from_millis(50)).is_empty() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the new address was never learnt");
    }
    far.take(usize::MAX, Duration::from_millis(100));
    settle(&mut near, to, &mut far);
    let from = address("10.9.0.1", near.local_address().port());
    let datagrams = datagrams_of(&[500; 20]);
    assert_eq!(send(&mut near, to, &datagrams).sent, 20);
    far.receives(from, &datagrams);
}

/// Who claims to be the host itself would have it answer itself for ever.
#[test]
fn senders_that_nobody_outside_can_be() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "0.0.0.0");
    near.wait(Some(Duration::ZERO), None).unwrap();
    let port = near.local_address().port();
    // Protocol 255 is a socket whose datagrams begin with an IPv4
    // header; the kernel adds length and checksum.
    let open = || Socket::new(Domain::IPV4, Type::from(3), Some(Protocol::from(255)));
    let raw = wire.far.enter(open).unwrap();
    let forge = |source: [u8; 4]| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend(source.into_iter().chain([10, 9, 0, 1]));
        packet.extend([7460_u16, port, 12, 0].map(u16::to_be_bytes).concat());
        packet.extend(b"data");
        raw.send_to(&packet, &address("10.9.0.1", port).into()).unwrap();
    };
    let malformed = |near: &XdpSocket| near.counters().receive_malformed;
    for (count, source) in [[10, 9, 0, 1], [127, 0, 0, 1], [224, 0, 0, 1]].into_iter().enumerate() {
        forge(source);
        assert_eq!(near.take(1, Duration::from_millis(100)), [], "{source:?}");
        assert_eq!(malformed(&near), count as u64 + 1, "{source:?}");
    }
    forge([10, 9, 0, 77]);
    near.receives(address("10.9.0.77", 7460), &[b"data".to_vec()]);
}

#[test]
fn an_interface_that_goes_down_and_comes_up() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "0.0.0.0");
    let mut far = far(&wire, "10.9.0.2");
    let (to, datagrams) = (far.local_address(), datagrams_of(&[500; 20]));
    settle(&mut near, to, &mut far);
    for _ in 0..2 {
        wire.near.run("ip link set near down");
        for _ in 0..5 {
            let report = send(&mut near, to, &datagrams);
            assert_eq!(report.sent + report.dropped(), 20);
            near.wait(Some(Duration::from_millis(10)), None).unwrap();
            assert_eq!(near.receive(&mut Batch::new()).unwrap(), 0);
        }
        wire.near.run("ip link set near up");
        let begin = Instant::now();
        while far.take(1, Duration::from_millis(100)).is_empty() {
            send(&mut near, to, &datagrams);
            assert!(begin.elapsed() < Duration::from_secs(10), "nothing arrives any more");
        }
        far.take(usize::MAX, Duration::from_millis(100));
        settle(&mut near, to, &mut far);
        let from = address("10.9.0.1", near.local_address().port());
        let before = near.counters().xdp_received_datagrams;
        assert_eq!(send(&mut far, from, &datagrams).sent, 20);
        near.receives(to, &datagrams);
        assert_eq!(near.counters().xdp_received_datagrams - before, 20);
    }
}

#[test]
fn an_interface_that_goes_away_leaves_a_socket() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "0.0.0.0");
    let mut far = far(&wire, "10.9.0.2");
    settle(&mut near, far.local_address(), &mut far);
    wire.near.run("ip link delete near");
    wire.lay();
    let to = far.local_address();
    let begin = Instant::now();
    while near.queues() > 0 {
        send(&mut near, to, &[vec![1]]);
        assert!(begin.elapsed() < Duration::from_secs(10), "it was not noticed");
    }
    // The wire is another one, and works by the socket.
    far.take(usize::MAX, Duration::from_millis(100));
    let from = address("10.9.0.1", near.local_address().port());
    let datagrams = datagrams_of(&[500; 20]);
    assert_eq!(send(&mut near, to, &datagrams).sent, 20);
    far.receives(from, &datagrams);
    assert_eq!(send(&mut far, from, &datagrams).sent, 20);
    near.receives(to, &datagrams);
}

#[test]
fn addresses_that_come_and_go() {
    let Some(wire) = Wire::new() else { return };
    let mut near = near(&wire, "0.0.0.0");
    let mut far = far(&wire, "10.9.0.2");
    wire.near.run("ip address add 10.9.0.7/24 dev near");
    let to = address("10.9.0.7", near.local_address().port());
    let from = far.local_address();
    let begin = Instant::now();
    // Through the socket at first, by the rings soon.
    while near.counters().xdp_received_datagrams == 0 {
        assert_eq!(send(&mut far, to, &[vec![1]]).sent, 1);
        near.receives(from, &[vec![1]]);
        assert!(begin.elapsed() < Duration::from_secs(10), "the address was not noticed");
    }
    // Somebody else's datagrams are not ours.
    wire.near.run("ip address delete 10.9.0.7/24 dev near");
    let begin = Instant::now();
    loop {
        near.wait(Some(Duration::from_millis(50)), None).unwrap();
        near.receive(&mut Batch::new()).unwrap();
        let before = near.counters().received_datagrams;
        send(&mut far, to, &[vec![2]]);
        near.take(1, Duration::from_millis(50));
        if near.counters().received_datagrams == before {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "the address is still ours");
    }
}
