//! AF_XDP on two interfaces of a host, for several workers: who gets what, what goes from one
//! interface to the other, and what becomes of it when one of them cannot, or is gone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{Backend, Choice, Opened, PacketIo, open, xdp};
use rhumb_wire::Batch;
use rhumb_wire::datagram::{Counter, LANES, RecordHeader, RecordKind, SessionIndex};

use crate::sockets::bind;
use crate::wire::{Host, Line};

/// The hosts on both sides of `r1`, which has interfaces `left` and `right`: its
/// addresses there, and those of the hosts beyond.
const SIDES: [Side; 2] = [
    Side { ours: ["10.8.0.2", "2001:db8:8:0::2"], theirs: ["10.8.0.1", "2001:db8:8:0::1"] },
    Side { ours: ["10.8.1.1", "2001:db8:8:1::1"], theirs: ["10.8.1.2", "2001:db8:8:1::2"] },
];

struct Side {
    ours: [&'static str; 2],
    theirs: [&'static str; 2],
}

/// Lays the wires of `r1` again, with so many queues each.
fn lay(line: &Line, queues: usize) {
    line.r1.run("ip link delete left; ip link delete right");
    lay_left(line, queues);
    let (count, r2) = (format!("numtxqueues {queues} numrxqueues {queues}"), line.r2.path());
    line.r1.run(&format!("ip link add right {count} type veth peer name left {count} netns {r2}"));
    up(&line.r1, "right", &SIDES[1].ours);
    up(&line.r2, "left", &SIDES[1].theirs);
}

fn lay_left(line: &Line, queues: usize) {
    let (count, a) = (format!("numtxqueues {queues} numrxqueues {queues}"), line.a.path());
    line.r1.run(&format!("ip link add left {count} type veth peer name right {count} netns {a}"));
    up(&line.r1, "left", &SIDES[0].ours);
    up(&line.a, "right", &SIDES[0].theirs);
}

fn up(host: &Host, device: &str, [v4, v6]: &[&str; 2]) {
    host.run(&format!(
        "ip address add {v4}/24 dev {device}; ip address add {v6}/64 dev {device} nodad; \
         ip link set {device} up"
    ));
}

/// Two hosts beside `r1`, by their sides.
fn hosts(line: &Line) -> [&Host; 2] {
    [&line.a, &line.r2]
}

fn open_on(host: &Host, interfaces: &[&str], workers: usize) -> Opened {
    let interfaces = interfaces.iter().map(|&name| name.to_owned()).collect();
    let choice = Choice::Xdp(xdp::Options { interfaces, ..xdp::Options::default() });
    let any = "[::]:0".parse().unwrap();
    host.enter(|| open(&choice, any, Options::default(), workers).unwrap())
}

/// What is said of each interface, and the backends.
fn said(opened: Opened) -> (Vec<Backend>, Vec<String>) {
    let say = |it: xdp::OnInterface| match it.rings {
        Ok(rings) => format!("{}: {} queues", it.name, rings.queues),
        Err(refusal) => format!("{}: {refusal}", it.name),
    };
    (opened.backends, opened.interfaces.into_iter().map(say).collect())
}

fn record(kind: RecordKind, lane: u8, number: u32) -> Vec<u8> {
    let index = SessionIndex::new(0x0ABC_DE08).unwrap().with_lane(lane);
    let header = RecordHeader { kind, index, counter: Counter::new(1, u64::from(number)) };
    [&header.emit()[..], &number.to_be_bytes(), &[7; 30]].concat()
}

fn peer_on(host: &Host, ip: &str) -> UdpSocket {
    let ip = ip.parse().unwrap();
    host.enter(|| bind(ip, Options::default()))
}

/// Single datagrams: runs would be joined and then be of several lanes.
fn send(from: &mut UdpSocket, to: SocketAddr, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        let mut batch = Batch::new();
        batch.push(to, datagram);
        assert_eq!(from.send(&batch).unwrap().sent, 1);
    }
}

/// What a backend receives until nothing comes for `patience`.
fn take(io: &mut Backend, patience: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut batch, mut received) = (Batch::new(), Vec::new());
    let mut last = Instant::now();
    // A wait may be shorter than it was asked to be.
    while last.elapsed() < patience {
        io.wait(Some(patience), None).unwrap();
        while io.receive(&mut batch).unwrap() > 0 {
            received.extend(batch.iter().map(|(peer, bytes)| (peer, bytes.to_vec())));
            last = Instant::now();
        }
    }
    received
}

#[test]
fn each_worker_gets_its_lanes_by_rings_on_every_interface() {
    let Some(line) = Line::new() else { return };
    for (queues, workers) in [(1, 2), (2, 2), (1, 3), (2, 8)] {
        lay(&line, queues);
        let (mut all, said) = said(open_on(&line.r1, &["left", "right"], workers));
        let expected = ["left", "right"].map(|name| format!("{name}: {queues} queues"));
        assert_eq!(said, expected);
        let port = all[0].local_address().port();
        let mut sent = 0;
        for (side, host) in SIDES.iter().zip(hosts(&line)) {
            for (ours, theirs) in side.ours.iter().zip(side.theirs) {
                let to = SocketAddr::new(ours.parse().unwrap(), port);
                // Several, so that the kernel spreads them over queues.
                for number in 0..4 {
                    let mut peer = peer_on(host, theirs);
                    for lane in 0..LANES {
                        for kind in [
                            RecordKind::Pdu,
                            RecordKind::Close,
                            RecordKind::Path,
                            RecordKind::Bundle,
                        ] {
                            send(&mut peer, to, &[record(kind, lane, number)]);
                            sent += 1;
                        }
                    }
                    // No records, and what is too short to say: those are the first worker's.
                    for first in [22, 63, 0x90, 0xA0, 0xC0, 0xFF, 0] {
                        send(&mut peer, to, &[[&[first][..], &[0xFF; 40]].concat()]);
                        sent += 1;
                    }
                    send(&mut peer, to, &[vec![0x80], vec![0x80, 0, 1]]);
                    sent += 2;
                }
            }
        }
        let (mut received, mut by_rings) = (0, 0);
        for (worker, io) in all.iter_mut().enumerate() {
            for (_, datagram) in take(io, Duration::from_millis(200)) {
                let lane = RecordHeader::parse(&datagram).map_or(0, |header| header.index.lane());
                assert_eq!(usize::from(lane) % workers, worker, "{datagram:?}");
                received += 1;
            }
            by_rings += io.counters().xdp_received_datagrams;
        }
        assert_eq!((received, by_rings), (sent, sent as u64), "{queues} queues, {workers} workers");
    }
}

/// Forwards what comes from one side to a peer on the other, as a router's worker would.
fn forward(io: &mut Backend, ways: &HashMap<SocketAddr, SocketAddr>, stop: &AtomicBool) {
    let mut batch = Batch::new();
    while !stop.load(Ordering::Acquire) {
        io.wait(Some(Duration::from_millis(5)), None).unwrap();
        while io.receive(&mut batch).unwrap() > 0 {
            for index in 0..batch.len() {
                let from = batch.slots()[index].peer;
                batch.redirect(index, ways[&from]);
            }
            io.send(&batch).unwrap();
        }
    }
}

/// Peers on both sides, who each has its partner on the other.
struct Peers {
    /// By pairs: one on the left, one on the right.
    pairs: Vec<[UdpSocket; 2]>,
    ways: HashMap<SocketAddr, SocketAddr>,
}

impl Peers {
    fn new(line: &Line, count: usize) -> Self {
        let pair = |number: usize| {
            let [left, right] = [0, 1].map(|side| {
                let host: &Host = hosts(line)[side];
                peer_on(host, SIDES[side].theirs[number % 2])
            });
            [left, right]
        };
        let pairs: Vec<[UdpSocket; 2]> = (0..count).map(pair).collect();
        let ends = |[left, right]: &[UdpSocket; 2]| {
            let [left, right] = [left.local_address(), right.local_address()];
            [(left, right), (right, left)]
        };
        Self { ways: pairs.iter().flat_map(ends).collect(), pairs }
    }

    /// Each sends `count` datagrams on each lane, its partner takes them at once; whatever comes
    /// has to be there once, and in the order of its lane. Returns how many came.
    fn exchange(&mut self, port: u16, count: u32) -> usize {
        let mut received = 0;
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            for side in [0, 1] {
                let [from, to] = if side == 0 { [0, 1] } else { [1, 0] };
                let ours = SIDES[from].ours[number % 2].parse().unwrap();
                for round in 0..count {
                    let lanes = (0..LANES).map(|lane| record(RecordKind::Pdu, lane, round));
                    let datagrams: Vec<Vec<u8>> = lanes.collect();
                    send(&mut pair[from], SocketAddr::new(ours, port), &datagrams);
                    received += take_round(&mut pair[to], round);
                }
            }
        }
        received
    }
}

/// Takes what comes of a round, on each lane once.
fn take_round(socket: &mut UdpSocket, round: u32) -> usize {
    let (mut batch, mut lanes) = (Batch::new(), Vec::new());
    let begin = Instant::now();
    while lanes.len() < usize::from(LANES) && begin.elapsed() < Duration::from_millis(500) {
        socket.wait(Some(Duration::from_millis(50)), None).unwrap();
        socket.receive(&mut batch).unwrap();
        for (_, bytes) in batch.iter() {
            let header = RecordHeader::parse(bytes).unwrap();
            // A late one of a round that was given up is none of this.
            if bytes[RecordHeader::LEN..][..4] == round.to_be_bytes() {
                assert!(!lanes.contains(&header.index.lane()), "twice");
                lanes.push(header.index.lane());
            }
        }
    }
    lanes.len()
}

/// Runs a thread for each worker while `work` is done.
fn with_workers<T>(
    all: &mut [Backend],
    ways: &HashMap<SocketAddr, SocketAddr>,
    work: impl FnOnce() -> T,
) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for io in all {
            let stop = &stop;
            scope.spawn(move || forward(io, ways, stop));
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Release);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn by_rings(all: &[Backend]) -> [u64; 2] {
    let counters = all.iter().map(Backend::counters);
    counters.fold([0, 0], |[received, sent], it| {
        [received + it.xdp_received_datagrams, sent + it.xdp_sent_datagrams]
    })
}

#[test]
fn two_workers_forward_between_two_interfaces_and_lose_nothing() {
    let Some(line) = Line::new() else { return };
    for queues in [1, 2] {
        lay(&line, queues);
        // None is named: all that are up are taken.
        let (mut all, said) = said(open_on(&line.r1, &[], 2));
        assert_eq!(said, ["left", "right"].map(|name| format!("{name}: {queues} queues")));
        let port = all[0].local_address().port();
        let mut peers = Peers::new(&line, 4);
        let ways = peers.ways.clone();
        let received = with_workers(&mut all, &ways, || peers.exchange(port, 50));
        // Four pairs, both ways, fifty rounds.
        let all_of_them = 4 * 2 * 50 * usize::from(LANES);
        assert_eq!(received, all_of_them, "{queues} queues");
        let [in_frames, out_frames] = by_rings(&all);
        assert_eq!(in_frames, all_of_them as u64);
        // But for what confirms a way, once a second for each worker and peer.
        assert!(out_frames as usize > all_of_them / 2, "{out_frames} of {all_of_them}");
        assert!(all.iter().all(|io| io.counters().xdp_sent_datagrams > 0));
    }
}

/// A datagram whose bytes all follow from its number.
fn patterned(number: u32) -> Vec<u8> {
    let pattern = (0..900).map(|at| (number.wrapping_mul(31) >> (at % 24)) as u8);
    let mut datagram = record(RecordKind::Pdu, (number % 8) as u8, number);
    datagram.extend(pattern);
    datagram
}

/// What came of a number, once and as it was sent.
fn note(seen: &mut HashSet<u32>, datagram: &[u8]) {
    let number = datagram[RecordHeader::LEN..][..4].try_into().map(u32::from_be_bytes).unwrap();
    assert!(datagram == patterned(number), "{number} was changed");
    assert!(seen.insert(number), "{number} came twice");
}

/// Takes all, and sends it back.
fn echo(io: &mut Backend, stop: &AtomicBool) -> HashSet<u32> {
    let (mut batch, mut seen) = (Batch::new(), HashSet::new());
    while !stop.load(Ordering::Acquire) {
        io.wait(Some(Duration::from_millis(5)), None).unwrap();
        while io.receive(&mut batch).unwrap() > 0 {
            batch.iter().for_each(|(_, datagram)| note(&mut seen, datagram));
            io.send(&batch).unwrap();
        }
    }
    seen
}

/// Two workers at once on the two rings that a queue has once: each frame is in one place.
#[test]
fn workers_that_share_a_queue_keep_each_frame_whole() {
    let Some(line) = Line::new() else { return };
    let (mut all, said) = said(open_on(&line.r1, &["left"], 2));
    assert_eq!(said, ["left: 1 queues"]);
    let to = SocketAddr::new(SIDES[0].ours[0].parse().unwrap(), all[0].local_address().port());
    let mut peer = peer_on(&line.a, SIDES[0].theirs[0]);
    let (stop, count) = (AtomicBool::new(false), 40_000);
    let (mut back, mut batch) = (HashSet::new(), Batch::new());
    let seen: Vec<HashSet<u32>> = thread::scope(|scope| {
        let echoes = all.iter_mut().map(|io| scope.spawn(|| echo(io, &stop)));
        let echoes: Vec<_> = echoes.collect();
        let mut take_back = |peer: &mut UdpSocket| {
            while peer.receive(&mut batch).unwrap() > 0 {
                batch.iter().for_each(|(_, datagram)| note(&mut back, datagram));
            }
        };
        for first in (0..count).step_by(64) {
            let mut run = Batch::new();
            (first..first + 64).for_each(|number| run.push(to, &patterned(number)));
            assert_eq!(peer.send(&run).unwrap().sent, 64);
            take_back(&mut peer);
        }
        while peer.wait(Some(Duration::from_millis(500)), None).unwrap().readable {
            take_back(&mut peer);
        }
        stop.store(true, Ordering::Release);
        echoes.into_iter().map(|echo| echo.join().unwrap()).collect()
    });
    let by_rings = by_rings(&all);
    println!("{} and {} came, {} came back", seen[0].len(), seen[1].len(), back.len());
    println!("{by_rings:?} by rings");
    for (worker, seen) in (0..).zip(&seen) {
        assert!(seen.len() > 1000 && seen.iter().all(|number| number % 2 == worker));
    }
    assert!(back.len() > 2000 && by_rings[1] > 1000);
    assert!(back.iter().all(|number| seen[(number % 2) as usize].contains(number)));
}

/// Who sends on one lane without end would hold all frames of the queue in the rings of its worker,
/// if that does not keep up, and nobody else would receive any more.
#[test]
fn a_worker_that_stands_still_takes_nothing_from_the_others() {
    let Some(line) = Line::new() else { return };
    let (mut all, _) = said(open_on(&line.r1, &["left", "right"], 2));
    let to = SocketAddr::new(SIDES[0].ours[0].parse().unwrap(), all[0].local_address().port());
    let mut peer = peer_on(&line.a, SIDES[0].theirs[0]);
    let mut flood = Batch::new();
    (0..64).for_each(|number| flood.push(to, &record(RecordKind::Pdu, 1, number)));
    for _ in 0..200 {
        peer.send(&flood).unwrap();
    }
    // Worker 1 has received nothing so far.
    for round in 0..100 {
        let datagrams: Vec<Vec<u8>> =
            (0..32).map(|number| record(RecordKind::Pdu, 0, 100 * round + number)).collect();
        peer.send(&flood).unwrap();
        send(&mut peer, to, &datagrams);
        let mut received = Vec::new();
        let begin = Instant::now();
        while received.len() < 32 && begin.elapsed() < Duration::from_secs(5) {
            received.extend(take(&mut all[0], Duration::from_millis(1)).into_iter().map(|it| it.1));
        }
        assert_eq!(received.len(), 32, "round {round}");
        assert_eq!(received, datagrams);
    }
    let [first, second] = [0, 1].map(|worker: usize| all[worker].counters());
    assert_eq!(first.xdp_received_datagrams, 3200);
    // It is the flood alone that has overflown, and only that worker's rings.
    assert_eq!(first.receive_queue_overflows, 0);
    assert!(second.receive_queue_overflows > 0);
    let held = take(&mut all[1], Duration::from_millis(100));
    assert!(held.len() >= 2048 && held.iter().all(|(_, it)| it[3] & 7 == 1), "{}", held.len());
    // And the frames are there again.
    send(&mut peer, to, &[record(RecordKind::Pdu, 1, 9)]);
    assert_eq!(take(&mut all[1], Duration::from_millis(100)).len(), 1);
}

#[test]
fn an_interface_that_refuses_is_left_to_the_sockets() {
    let Some(line) = Line::new() else { return };
    let other = "there can be one at a time";
    // Another program, frames that are too large, no driver, nothing there, no Ethernet.
    let mut before = None;
    let cases: [(&str, &str, &str); 5] = [
        ("right", "", other),
        ("right", "ip link set right mtu 3827", "an MTU of 3827 bytes"),
        (
            "bridge",
            "ip link add bridge type bridge; ip link set bridge up",
            "the driver of bridge runs no XDP program",
        ),
        ("nothing", "", "interface nothing cannot be used"),
        ("lo", "", "lo is none"),
    ];
    for (name, preparation, why) in cases {
        if why == other {
            before = Some(open_on(&line.r1, &[name], 1));
        }
        line.r1.run(preparation);
        let (mut all, said) = said(open_on(&line.r1, &["left", name], 2));
        assert_eq!(said[0], "left: 1 queues");
        assert!(said[1].starts_with(&format!("{name}: ")) && said[1].contains(why), "{said:?}");
        assert_eq!((all[0].name(), all[0].interfaces()), ("xdp_copy", vec![("left", 1)]));
        let port = all[0].local_address().port();
        let mut peers = Peers::new(&line, 2);
        let ways = peers.ways.clone();
        let received = with_workers(&mut all, &ways, || peers.exchange(port, 10));
        let all_of_them = 2 * 2 * 10 * usize::from(LANES);
        assert_eq!(received, all_of_them, "{name}");
        // One way comes by rings and leaves by the sockets, the other way as much.
        assert_eq!(by_rings(&all)[0], all_of_them as u64 / 2, "{name}");
        drop(before.take());
        line.r1.run("ip link set right mtu 1500");
    }
}

#[test]
fn an_interface_that_is_removed_under_traffic_leaves_the_rest_as_it_was() {
    let Some(line) = Line::new() else { return };
    let (mut all, _) = said(open_on(&line.r1, &["left", "right"], 2));
    let port = all[0].local_address().port();
    let mut peers = Peers::new(&line, 2);
    let ways = peers.ways.clone();
    let all_of_them = 2 * 2 * 10 * usize::from(LANES);
    with_workers(&mut all, &ways, || {
        assert_eq!(peers.exchange(port, 10), all_of_them);
        line.r1.run("ip link delete left");
        // While there is no wire nothing comes, and nobody minds.
        for (pair, ours) in peers.pairs.iter_mut().zip(SIDES[1].ours) {
            let to = SocketAddr::new(ours.parse().unwrap(), port);
            send(&mut pair[1], to, &[record(RecordKind::Pdu, 1, 0), record(RecordKind::Pdu, 2, 0)]);
        }
        lay_left(&line, 1);
        let begin = Instant::now();
        // Until the last way that began at the old one is forgotten.
        while peers.exchange(port, 10) < all_of_them {
            assert!(begin.elapsed() < Duration::from_secs(60), "it does not work any more");
        }
    });
    let before = by_rings(&all);
    let begin = Instant::now();
    while all.iter().any(|io| io.interfaces() != [("right", 1)]) {
        for io in &mut all {
            io.wait(Some(Duration::from_millis(50)), None).unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "it was not noticed");
    }
    assert_eq!(all[0].name(), "xdp_copy");
    // From the left it comes by the socket and leaves by the rings of the right, and back.
    let received = with_workers(&mut all, &ways, || peers.exchange(port, 10));
    assert_eq!(received, all_of_them);
    let [in_frames, out_frames] = by_rings(&all);
    assert_eq!(in_frames - before[0], all_of_them as u64 / 2);
    assert!(out_frames > before[1]);
}

/// A worker that ends leaves its lanes to the first: its rings go, and the program passes on what
/// is for them, as the system does with its socket.
#[test]
fn what_a_worker_that_ended_leaves_goes_to_the_first() {
    let Some(line) = Line::new() else { return };
    let (mut all, _) = said(open_on(&line.r1, &["left", "right"], 2));
    let to = SocketAddr::new(SIDES[0].ours[0].parse().unwrap(), all[0].local_address().port());
    let mut peer = peer_on(&line.a, SIDES[0].theirs[0]);
    let datagrams: Vec<Vec<u8>> =
        (0..64).map(|number| record(RecordKind::Pdu, (number % 8) as u8, number)).collect();
    send(&mut peer, to, &datagrams);
    assert_eq!(take(&mut all[1], Duration::from_millis(100)).len(), 32);
    drop(all.pop());
    send(&mut peer, to, &datagrams);
    let received = take(&mut all[0], Duration::from_secs(1));
    assert_eq!(received.len(), 32 + 64, "nothing is lost");
    assert_eq!(all[0].counters().xdp_received_datagrams, 64, "its own lanes go by its rings");
    // Another one takes its place.
    drop(all);
    let (mut all, said) = said(open_on(&line.r1, &["left", "right"], 2));
    assert_eq!(said, ["left: 1 queues", "right: 1 queues"]);
    let to = SocketAddr::new(to.ip(), all[0].local_address().port());
    send(&mut peer, to, &datagrams);
    for io in &mut all {
        assert_eq!(take(io, Duration::from_millis(100)).len(), 32);
        assert_eq!(io.counters().xdp_received_datagrams, 32);
    }
}
