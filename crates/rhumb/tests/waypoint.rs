//! Two waypoints on a line, by each kind of packet I/O: what proves its way passes, in both
//! families, in order; all else is dropped, counted and not answered.
#![cfg(target_os = "linux")]

use rhumb_capability::{Encapsulation, Suite};
use rhumb_io::ip::{IpBatch, IpIo, RawOptions, RawSocket};
use waypoints::{
    Daemon, ENDS, IcmpEar, PORT, Pass, Rig, Sender, count, count_waiting, ip, pass, receive,
    right_checksum, socket, udp,
};

use crate::waypoints;
use crate::wire::{Host, Line};

const WAYS: [(&str, &str, [Pass; 2]); 2] = [
    (Line::A, Line::B, [pass(Line::R1), pass(Line::R2)]),
    (Line::A6, Line::B6, [pass(Line::R1_6), pass(Line::R2_6)]),
];

/// Sends packets of both families and several sizes through
/// both waypoints, there and in the other order.
fn carry(rig: &Rig, ways: [(&str, &str, [Pass; 2]); 2]) -> u64 {
    let b = socket(&rig.line.b, ENDS);
    let mut a = Sender::on(&rig.line.a);
    let mut sent = 0;
    for (from, to, [first, second]) in ways {
        for passes in [vec![first, second], vec![second, first], vec![second]] {
            for len in [0, 1, 100, 1000, 1300] {
                let payload = vec![len as u8; len];
                a.send_by(&passes, &udp(from, to, &payload));
                assert_eq!(receive(&b), payload);
                sent += 1;
            }
        }
    }
    assert_eq!(count_waiting(&b), 0);
    sent
}

fn forwarded(rig: &Rig, host: &Host, daemon: &Daemon, at_least: u64) -> u64 {
    let path = ["counters", "forwarded_packets"];
    let status = rig.wait_for(host, daemon, |status| count(status, &path) >= at_least);
    count(&status, &path)
}

#[test]
fn raw_sockets_carry_both_families_in_any_order() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("io = \"raw\"");
    assert_eq!(w1.ready["io"], "raw");
    assert_eq!(carry(&rig, WAYS), 30);
    assert_eq!(forwarded(&rig, &rig.line.r1, &w1, 20), 20);
    assert_eq!(forwarded(&rig, &rig.line.r2, &w2, 30), 30);
    // Not UDP alone: what follows the IP header is as it was, to the byte.
    let mut raw = rig
        .line
        .b
        .enter(|| RawSocket::open(&RawOptions { protocol: Some(6), ..RawOptions::default() }));
    let raw = raw.as_mut().expect("a socket");
    let tcp: Vec<u8> = (0..400).map(|at| (at * 7) as u8).collect();
    let mut packet = ip(Line::A, Line::B, 6, &tcp);
    packet[1] = 0xB8;
    right_checksum(&mut packet);
    Sender::on(&rig.line.a).send_by(&[pass(Line::R1), pass(Line::R2)], &packet);
    raw.wait(Some(waypoints::PATIENCE), None).expect("a wait");
    let mut batch = IpBatch::new(2000);
    assert_eq!(raw.receive(&mut batch).expect("a packet"), 1);
    let received = batch.packet(0);
    assert_eq!((&received[20..], received[1], received[8]), (&tcp[..], 0xB8, 62));
    assert_eq!(received[12..20], packet[12..20]);
    for daemon in [w1, w2] {
        let (code, errors) = daemon.running.end();
        assert_eq!((code, errors.as_str()), (0, ""));
    }
}

#[test]
fn several_workers_share_the_traffic_and_one_filter_each_flow() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("io = \"raw\"\nworkers = 3");
    assert_eq!(carry(&rig, WAYS), 30);
    assert_eq!(forwarded(&rig, &rig.line.r2, &w2, 30), 30);
    let b = socket(&rig.line.b, ENDS);
    let mut a = Sender::on(&rig.line.a);
    let packet = a.stamp(&WAYS[0].2, &udp(Line::A, Line::B, b"once"));
    for _ in 0..10 {
        a.send(&packet);
    }
    rig.wait_for(&rig.line.r1, &w1, |it| count(it, &["dropped_by_reason", "replay"]) == 9);
    assert_eq!((receive(&b), count_waiting(&b)), (b"once".to_vec(), 0));
}

#[test]
fn pinned_workers_keep_to_a_core_each() {
    let Some(rig) = Rig::new() else { return };
    let w1 = rig.start(&rig.line.r1, "w1", &[Line::R1], "workers = 2\npin = true");
    let mut found = Vec::new();
    let tasks = format!("/proc/{}/task", w1.running.child.id());
    for task in std::fs::read_dir(tasks).expect("threads") {
        let path = task.expect("a thread").path();
        let text = |name| std::fs::read_to_string(path.join(name)).expect("what Linux tells");
        let status = text("status");
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        found.push((text("comm").trim().to_owned(), cores.expect("cores").trim().to_owned()));
    }
    let cores_of = |name: &str| {
        let of_name = found.iter().find(|(its, _)| its == name);
        of_name.map(|(_, cores)| cores.as_str())
    };
    let there_are = std::thread::available_parallelism().map_or(1, usize::from);
    for worker in 0..2.min(there_are) {
        let number = worker.to_string();
        assert_eq!(cores_of(&format!("worker {worker}")), Some(&*number), "{found:?}");
    }
    assert_ne!(cores_of("control"), Some("0"), "the others go where there is room: {found:?}");
    // One that cannot be had costs a warning; and packets pass either way.
    let b = socket(&rig.line.b, ENDS);
    Sender::on(&rig.line.a).send_by(&[pass(Line::R1)], &udp(Line::A, Line::B, b"pinned"));
    assert_eq!(receive(&b), b"pinned");
}

#[test]
fn af_xdp_carries_the_same() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("io = \"xdp\"\ninterfaces = [\"left\", \"right\"]");
    assert_eq!((&w1.ready["io"], &w2.ready["io"]), (&"xdp_copy".into(), &"xdp_copy".into()));
    assert_eq!(carry(&rig, WAYS), 30);
    assert_eq!(forwarded(&rig, &rig.line.r2, &w2, 30), 30);
    let status = rig.wait_for(&rig.line.r1, &w1, |it| count(it, &["io", "received_packets"]) >= 20);
    assert!(count(&status, &["io", "xdp_received_packets"]) >= 20, "{status:#}");
}

#[test]
fn af_xdp_has_a_worker_for_each_queue_and_one_account_of_all() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, .. } = &rig.line;
    let queues = "numtxqueues 2 numrxqueues 2";
    a.run("ip link del right");
    let other = r1.path();
    a.run(&format!("ip link add right {queues} type veth peer name left {queues} netns {other}"));
    for (host, device, number) in [(a, "right", 1), (r1, "left", 2)] {
        host.run(&format!(
            "ip address add 10.8.0.{number}/24 dev {device}; \
             ip address add 2001:db8:8:0::{number}/64 dev {device} nodad; ip link set {device} up"
        ));
    }
    a.run("ip route add default via 10.8.0.2; ip route add default via 2001:db8:8:0::2");
    let [w1, w2] = rig.start_both("io = \"xdp\"\ninterfaces = [\"left\", \"right\"]\nworkers = 2");
    assert_eq!(w1.ready["io"], "xdp_copy");
    assert_eq!(carry(&rig, WAYS), 30);
    assert_eq!(forwarded(&rig, &rig.line.r2, &w2, 30), 30);
    // From many sources, which the kernel spreads over queues, and
    // the waypoint over workers, each otherwise.
    let b = socket(&rig.line.b, ENDS);
    let mut sender = Sender::on(a);
    let from = |number: u32| format!("10.8.0.{}", 10 + number);
    let mut stamped = Vec::new();
    for number in 0..32 {
        let packet = udp(&from(number), Line::B, &number.to_be_bytes());
        stamped.push(sender.stamp(&WAYS[0].2, &packet));
    }
    for packet in stamped.iter().chain(&stamped) {
        sender.send(packet);
    }
    let mut numbers: Vec<Vec<u8>> = (0..32).map(|_| receive(&b)).collect();
    numbers.sort();
    let expected: Vec<Vec<u8>> = (0..32_u32).map(|number| number.to_be_bytes().to_vec()).collect();
    assert_eq!(numbers, expected);
    // Each met the filter that its first copy met, whichever queue it came by.
    let status = rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "replay"]) == 32);
    assert_eq!(count_waiting(&b), 0);
    assert_eq!(count(&status, &["counters", "forwarded_packets"]), 20 + 32);
    assert_eq!(count(&status, &["io", "xdp_received_packets"]), 20 + 64);
    assert_eq!(w1.running.end().0, 0);
    let accounts = ["--json", "waypoint", "accounts", "--accounts", "w1.accounts"];
    let book = rig.place.run(&accounts).object();
    assert_eq!(book["accounts"][0]["packets"], 20 + 32, "{book:#}");
}

#[test]
fn a_tun_device_carries_the_same_for_addresses_that_are_led_to_it() {
    let Some(rig) = Rig::new() else { return };
    const W: [&str; 4] = ["10.8.9.1", "10.8.9.2", "2001:db8:9::1", "2001:db8:9::2"];
    let Line { r1, r2, .. } = &rig.line;
    r1.run("ip route add 10.8.9.2 via 10.8.1.2; ip route add 2001:db8:9::2 via 2001:db8:8:1::2");
    r2.run("ip route add 10.8.9.1 via 10.8.1.1; ip route add 2001:db8:9::1 via 2001:db8:8:1::1");
    let w1 = rig.start(r1, "w1", &[W[0], W[2]], "io = \"tun\"\ninterfaces = [\"platypus\"]");
    let w2 = rig.start(r2, "w2", &[W[1], W[3]], "io = \"tun\"\nworkers = 2");
    assert_eq!((&w1.ready["io"], &w2.ready["io"]), (&"tun platypus".into(), &"tun rhumb0".into()));
    let ways = [
        (Line::A, Line::B, [pass(W[0]), pass(W[1])]),
        (Line::A6, Line::B6, [pass(W[2]), pass(W[3])]),
    ];
    assert_eq!(carry(&rig, ways), 30);
    assert_eq!(forwarded(&rig, r2, &w2, 30), 30);
    // A device gets fragments as they are.
    let mut a = Sender::on(&rig.line.a);
    let mut fragment = a.stamp(&[pass(W[0])], &udp(Line::A, Line::B, b"cut"));
    fragment[6] = 0x20;
    right_checksum(&mut fragment);
    a.send(&fragment);
    rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "fragment"]) == 1);
}

#[test]
fn udp_carries_both_families_from_waypoint_to_waypoint() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("io = \"raw\"");
    let b = socket(&rig.line.b, ENDS);
    let mut a = Sender::on(&rig.line.a);
    let out = socket(&rig.line.a, 0);
    for (from, to, passes) in WAYS {
        for len in [1, 101, 1300] {
            let payload = vec![len as u8; len];
            let packet = udp(from, to, &payload);
            let stamped = a.stamp_as(&passes, &packet, Encapsulation::Datagram);
            let waypoint: std::net::IpAddr = passes[0].waypoint.parse().expect("an address");
            let waypoint = match waypoint {
                std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                std::net::IpAddr::V6(v6) => v6,
            };
            out.send_to(&stamped, (waypoint, PORT)).expect("a way");
            assert_eq!(receive(&b), payload);
            // The same packet by the other carriage is the same packet.
            if from == Line::A && len == 101 {
                let mut raw = ip(from, passes[0].waypoint, 253, &stamped);
                right_checksum(&mut raw);
                a.send(&raw);
            }
        }
    }
    rig.wait_for(&rig.line.r1, &w1, |it| count(it, &["dropped_by_reason", "replay"]) == 1);
    assert_eq!(forwarded(&rig, &rig.line.r2, &w2, 6), 6);
    assert_eq!(count_waiting(&b), 0);
}

#[test]
fn what_proves_nothing_is_dropped_and_counted_and_not_answered() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("suites = [\"header-aes\"]");
    let Line { a: host_a, r1, r2, b, .. } = &rig.line;
    let (b, mut ear, mut a) = (socket(b, ENDS), IcmpEar::on(host_a), Sender::on(host_a));
    let both = [pass(Line::R1), pass(Line::R2)];
    let good = udp(Line::A, Line::B, b"good");
    let mut expected = std::collections::BTreeMap::new();
    let mut bad = |a: &mut Sender, packet: &[u8], reason: &'static str| {
        a.send(packet);
        *expected.entry(reason).or_insert(0) += 1;
    };
    for n in 0..200_u32 {
        // Malformed, each byte of the header in turn.
        let mut packet = a.stamp(&both, &good);
        packet[20] = ((n % 15 + 2) << 4) as u8 & 0xE0;
        bad(&mut a, &packet, "version");
        let mut packet = a.stamp(&both, &good);
        let last = packet.len() - good.len() + 20 - 1;
        packet[last - 20] ^= 1 + n as u8 % 200;
        bad(&mut a, &packet, "binding");
        // Principals and epochs that nobody has.
        let stranger = Pass { principal: n, epoch: 9, ..both[0] };
        let packet = a.stamp(&[stranger], &good);
        bad(&mut a, &packet, "epoch");
    }
    // Stamped for the first waypoint, sent to the second.
    let mut packet = a.stamp(&both, &good);
    packet[16..20].copy_from_slice(&[10, 8, 1, 2]);
    right_checksum(&mut packet);
    a.send(&packet);
    let other = [Pass { suite: Suite::HeaderSip, ..both[0] }];
    let packet = a.stamp(&other, &good);
    bad(&mut a, &packet, "suite");
    let packet = a.stamp(&both, &udp(Line::A, "127.0.0.1", b"inside"));
    a.send(&packet);
    let inside = a.stamp(&both[..1], &udp(Line::A, Line::R1, b"inside"));
    bad(&mut a, &inside, "unroutable");
    expected.entry("unroutable").and_modify(|it| *it += 1);
    for (reason, want) in expected {
        rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", reason]) == want);
    }
    rig.wait_for(r2, &w2, |it| count(it, &["dropped_by_reason", "wrong_waypoint"]) == 1);
    // One that passes, behind them all: nothing else has come, and nobody was told anything.
    a.send_by(&both, &good);
    assert_eq!((receive(&b), count_waiting(&b)), (b"good".to_vec(), 0));
    assert_eq!(ear.errors(), Vec::<Vec<u8>>::new());
    let (status, metrics) = (rig.status(r1, &w1), rig.metrics(r1, &w1));
    assert_eq!(count(&status, &["icmp_sent", "time_exceeded"]), 0);
    let line = "rhumb_waypoint_dropped_packets_total{reason=\"binding\"} 200\n";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn a_way_back_and_forth_ends() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("");
    let b = socket(&rig.line.b, ENDS);
    let [first, second] = WAYS[0].2;
    let mut a = Sender::on(&rig.line.a);
    a.send_by(&[first, second, first, second], &udp(Line::A, Line::B, b"dizzy"));
    assert_eq!(receive(&b), b"dizzy");
    assert_eq!(forwarded(&rig, &rig.line.r1, &w1, 2), 2);
    assert_eq!(forwarded(&rig, &rig.line.r2, &w2, 2), 2);
    assert_eq!(count_waiting(&b), 0);
}
