//! A TUN device in a namespace: what the host's stack sends into it, and what it takes from it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_io::Counters;
use rhumb_io::ip::{Fate, HEADROOM, IpBatch, IpIo, Tun, TunOptions};
use socket2::{Domain, Protocol, Socket, Type};

use crate::packets::{packet, send};
use crate::wire::Host;

/// This host on the device, and somebody behind it.
const HERE: [&str; 2] = ["10.7.0.1", "2001:db8:7::1"];
const THERE: [&str; 2] = ["10.7.0.2", "2001:db8:7::2"];

fn options() -> TunOptions {
    let [v4, v6] = HERE.map(|ip| ip.parse::<IpAddr>().unwrap());
    TunOptions { mtu: 1400, addresses: vec![(v4, 24), (v6, 64)], ..TunOptions::default() }
}

fn host() -> Option<Host> {
    Host::new().map_err(|error| println!("skipped: namespaces need root and ip ({error})")).ok()
}

/// Packets of ours, without what the stack sends of its own: multicast above all.
fn from_here(tun: &mut Tun, count: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while found.len() < count {
        let mut batch = IpBatch::new(1400);
        assert!(tun.wait(Some(Duration::from_secs(5)), None).unwrap().readable, "nothing came");
        tun.receive(&mut batch).unwrap();
        let is_ours = |packet: &[u8]| {
            let [_, to] = ends(packet);
            THERE.iter().any(|there| to == there.parse::<IpAddr>().unwrap())
        };
        found.extend(batch.iter().filter(|(_, it)| is_ours(it)).map(|(_, it)| it.to_vec()));
    }
    found
}

fn ends(packet: &[u8]) -> [IpAddr; 2] {
    let (from, to) = rhumb_io::ip::ends_of(packet).unwrap();
    [from, to]
}

#[test]
fn an_echo_is_answered_by_a_reflector_in_user_space() {
    let Some(host) = host() else { return };
    let mut tun = host.enter(|| Tun::open(&options())).unwrap();
    for (there, [request, answer], protocol) in
        [(THERE[0], [8, 0], Protocol::ICMPV4), (THERE[1], [128, 129], Protocol::ICMPV6)]
    {
        let to = SocketAddr::new(there.parse().unwrap(), 0);
        let domain = Domain::for_address(to);
        let socket = host.enter(|| Socket::new(domain, Type::DGRAM, Some(protocol))).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(&[request, 0, 0, 0, 0, 0, 0, 1, 42], &to.into()).unwrap();

        let mut echo = from_here(&mut tun, 1).remove(0);
        let (header, addresses, len) = if to.is_ipv4() { (20, 12, 4) } else { (40, 8, 16) };
        assert_eq!((echo.len(), echo[header]), (header + 9, request));
        let (source, destination) = echo[addresses..].split_at_mut(len);
        source.swap_with_slice(&mut destination[..len]);
        echo[header] = answer;
        // The ones' complement sum of the message changes by what its first byte does.
        let at = header + 2;
        let was = u32::from(u16::from_be_bytes([echo[at], echo[at + 1]]));
        let now = was + 0xFFFF - (u32::from(answer) << 8) + (u32::from(request) << 8);
        let now = ((now & 0xFFFF) + (now >> 16)) as u16;
        echo[at..at + 2].copy_from_slice(&now.to_be_bytes());
        assert_eq!(send(&mut tun, &[&echo]), [Fate::Sent]);

        let mut heard = [MaybeUninit::uninit(); 64];
        assert_eq!(socket.recv(&mut heard).expect("an answer"), 9);
    }
    assert_eq!(tun.counters().sent_datagrams, 2);
}

#[test]
fn sixty_four_packets_come_in_one_batch_with_room_in_front() {
    let Some(host) = host() else { return };
    let mut tun = host.enter(|| Tun::open(&options())).unwrap();
    // What the stack says by itself when a device comes up is not of interest.
    host.run(&format!("ip address del {}/64 dev {}", HERE[1], tun.name()));
    while tun.wait(Some(Duration::from_millis(200)), None).unwrap().readable {
        tun.receive(&mut IpBatch::new(1400)).unwrap();
    }
    let socket = host.enter(|| UdpSocket::bind((HERE[0], 0))).unwrap();
    for number in 0..70_u8 {
        socket.send_to(&[number; 100], (THERE[0], 9)).unwrap();
    }
    let mut batch = IpBatch::new(1400);
    assert_eq!(tun.receive(&mut batch).unwrap(), 64);
    for (number, packet) in batch.iter() {
        assert_eq!((packet.len(), packet[28]), (128, number as u8));
        assert_eq!(batch.headroom(number), HEADROOM);
    }
    assert_eq!(tun.receive(&mut batch).unwrap(), 6);
    assert_eq!(tun.receive(&mut batch).unwrap(), 0);
}

#[test]
fn what_is_too_large_for_the_room_or_no_packet_is_counted() {
    let Some(host) = host() else { return };
    let mut tun = host.enter(|| Tun::open(&options())).unwrap();
    assert_eq!(tun.mtu(), 1400);
    let device = format!("/sys/class/net/{}/mtu", tun.name());
    let mtu = host.run(&format!("unshare --mount sh -ec 'mount -t sysfs none /sys; cat {device}'"));
    assert_eq!(mtu.trim(), "1400");
    let socket = host.enter(|| UdpSocket::bind((HERE[0], 0))).unwrap();
    socket.send_to(&[1; 1000], (THERE[0], 9)).unwrap();
    socket.send_to(&[2; 100], (THERE[0], 9)).unwrap();
    let (mut small, mut found) = (IpBatch::new(500), Vec::new());
    while found.is_empty() {
        assert!(tun.wait(Some(Duration::from_secs(5)), None).unwrap().readable, "nothing came");
        tun.receive(&mut small).unwrap();
        let ours = small.iter().filter(|(_, it)| it[0] >> 4 == 4 && it[9] == 17);
        found.extend(ours.map(|(_, packet)| packet[28]));
    }
    assert_eq!(found, [2]);
    assert_eq!(tun.counters().receive_malformed, 1);

    let good = packet(THERE[0], HERE[0], 17, 20);
    assert_eq!(
        send(&mut tun, &[&good[..30], b"?", &good]),
        [Fate::Unreachable, Fate::Unreachable, Fate::Sent]
    );
    host.run(&format!("ip link set {} down", tun.name()));
    assert_eq!(send(&mut tun, &[&good]), [Fate::Unreachable], "the device is down");
    assert_eq!(tun.counters().send_dropped_unreachable, 3);
    host.run(&format!("ip link set {} up", tun.name()));
    assert_eq!(send(&mut tun, &[&good]), [Fate::Sent]);
}

/// What is wrong in a header or a checksum, the stack at the other end drops.
#[test]
fn tcp_goes_through_two_devices_as_superpackets_and_without() {
    for superpackets in [true, false] {
        let (Some(one), Some(other)) = (host(), host()) else { return };
        let device = |host: &Host, ips: [&str; 2], superpackets| {
            let addresses = vec![(ips[0].parse().unwrap(), 24), (ips[1].parse().unwrap(), 64)];
            let options =
                TunOptions { addresses, superpackets, mtu: 1400, ..TunOptions::default() };
            host.enter(|| Tun::open(&options)).unwrap()
        };
        let mut tuns = [device(&one, HERE, superpackets), device(&other, THERE, false)];
        let stop = AtomicBool::new(false);
        let carried = std::thread::scope(|scope| {
            let carrier = scope.spawn(|| carry(&mut tuns, &stop));
            for ip in THERE {
                let to = SocketAddr::new(ip.parse().unwrap(), 0);
                let listener = other.enter(|| TcpListener::bind(to)).unwrap();
                let to = listener.local_addr().unwrap();
                let mut stream = one.enter(|| TcpStream::connect(to)).unwrap();
                let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 3) as u8).collect();
                let sending = scope.spawn({
                    let sent = sent.clone();
                    move || stream.write_all(&sent)
                });
                let (mut stream, mut received) = (listener.accept().unwrap().0, Vec::new());
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                stream.read_to_end(&mut received).unwrap();
                sending.join().unwrap().unwrap();
                assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
            }
            stop.store(true, Ordering::Release);
            carrier.join().unwrap()
        });
        // 1360 bytes go into a packet, or less.
        assert!(carried.received_datagrams > 4400, "{carried:?}");
        let together = carried.received_datagrams > 2 * carried.received_messages;
        assert_eq!(together, superpackets, "{carried:?}");
        assert_eq!(carried.receive_malformed, 0);
    }
}

/// Carries packets between two devices until told to stop. Returns what the first one counted.
fn carry(tuns: &mut [Tun; 2], stop: &AtomicBool) -> Counters {
    let mut batch = IpBatch::new(1400);
    while !stop.load(Ordering::Acquire) {
        let mut moved = 0;
        for (from, to) in [(0, 1), (1, 0)] {
            moved += tuns[from].receive(&mut batch).unwrap();
            assert!(batch.iter().all(|(_, packet)| packet.len() <= 1400));
            tuns[to].send(&mut batch).unwrap();
        }
        if moved == 0 {
            tuns[0].wait(Some(Duration::from_millis(1)), None).unwrap();
        }
    }
    tuns[0].counters()
}

#[test]
fn queues_of_one_device_share_its_packets() {
    let Some(host) = host() else { return };
    let named = TunOptions { name: "several".into(), ..options() };
    let mut queues = host.enter(|| Tun::open_queues(&named, 3)).unwrap();
    assert!(queues.iter().all(|queue| queue.name() == "several"));
    let sockets: Vec<UdpSocket> =
        (0..64).map(|_| host.enter(|| UdpSocket::bind((HERE[0], 0))).unwrap()).collect();
    for socket in &sockets {
        socket.send_to(&[7; 10], (THERE[0], 9)).unwrap();
    }
    let mut per_queue = [0; 3];
    for (queue, count) in queues.iter_mut().zip(&mut per_queue) {
        let mut batch = IpBatch::new(1400);
        while queue.receive(&mut batch).unwrap() > 0 {
            *count += batch.iter().filter(|(_, it)| it[0] >> 4 == 4).count();
        }
    }
    assert_eq!(per_queue.iter().sum::<usize>(), 64);
    assert!(per_queue.iter().filter(|count| **count > 0).count() > 1, "{per_queue:?}");
}

#[test]
fn what_cannot_be_had_is_said_clearly_and_nothing_stays_behind() {
    let Some(host) = host() else { return };
    let named = |name: &str| TunOptions { name: name.into(), ..options() };
    let first = host.enter(|| Tun::open(&named("mine"))).unwrap();
    let taken = host.enter(|| Tun::open(&named("mine"))).unwrap_err().to_string();
    assert!(taken.contains("mine") && taken.contains("in use"), "{taken}");
    let long = host.enter(|| Tun::open(&named("sixteen-letters-"))).unwrap_err().to_string();
    assert!(long.contains("sixteen-letters-") && long.contains("TUNSETIFF"), "{long}");
    let narrow = TunOptions { mtu: 20, ..named("narrow") };
    let narrow = host.enter(|| Tun::open(&narrow)).unwrap_err().to_string();
    assert!(narrow.contains("narrow") && narrow.contains("RTM_NEWLINK"), "{narrow}");
    drop(first);
    assert_eq!(host.run("ip -o link | wc -l").trim(), "1", "loopback alone");
    let _again = host.enter(|| Tun::open(&named("mine"))).unwrap();
}
