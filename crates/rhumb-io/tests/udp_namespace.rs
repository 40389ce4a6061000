//! Paths that loopback does not offer: one that takes only 1500 bytes, and a neighbour that does
//! not answer. Each test runs itself again in a network namespace of its own.
#![cfg(target_os = "linux")]

use std::env;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::Options;
use rhumb_wire::Batch;

use crate::sockets::{bind, datagrams_of, loopback, receive_all, send_all};

/// Set in the process that runs inside of a namespace.
const INSIDE: &str = "RHUMB_TEST_INSIDE_NAMESPACE";

/// Runs `inside` in a process of its own, in a network namespace that the shell command `set_up`
/// has prepared. `test` is the name of the calling test.
fn in_namespace(test: &str, set_up: &str, inside: fn()) {
    if env::var_os(INSIDE).is_some() {
        return inside();
    }
    let run = |script: &str| -> std::io::Result<Output> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).arg(env::current_exe()?);
        command.arg(format!("udp_namespace::{test}"));
        command.env(INSIDE, "1").output()
    };
    if !run(set_up).is_ok_and(|output| output.status.success()) {
        println!("skipped: a network namespace needs root, unshare and ip");
        return;
    }
    let script = format!("{set_up} && exec \"$0\" --exact \"$1\" --nocapture");
    let output = run(&script).expect("it ran a moment ago");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

/// Where they may be cut, datagrams larger than the path takes are fragmented by the system,
/// singly; segments are not given up for the others.
#[test]
fn datagrams_larger_than_the_path_takes() {
    let set_up = "ip link set lo mtu 1500 up";
    in_namespace("datagrams_larger_than_the_path_takes", set_up, || {
        let mut sender = loopback(Options { whole: false, ..Options::default() });
        let mut receiver = loopback(Options::default());
        let to = receiver.local_address();
        // 1472 is the largest payload that fits: 1500 - 20 - 8.
        for (len, fits) in [(1000, true), (1472, true), (1473, false), (1766, false), (1000, true)]
        {
            let before = sender.counters();
            let sent = datagrams_of(&vec![len; 30]);
            send_all(&mut sender, to, &sent);
            let received = receive_all(&mut receiver, sent.len());
            assert!(received.iter().map(|(_, bytes)| bytes).eq(&sent), "{len} bytes");
            let after = sender.counters();
            let messages = after.sent_messages - before.sent_messages;
            assert_eq!(messages, if fits { 1 } else { 30 }, "{len} bytes");
            let refused = after.segmentation_refused - before.segmentation_refused;
            assert_eq!(refused, u64::from(!fits), "{len} bytes");
            assert!(sender.capabilities().gso);
        }
    });
}

/// Where they go whole or not at all, which is usual, those that are too large are dropped and
/// counted, and others are not harmed.
#[test]
fn whole_datagrams_or_none() {
    in_namespace("whole_datagrams_or_none", "ip link set lo mtu 1500 up", || {
        for (ip, fits) in [("127.0.0.1", 1472), ("::1", 1452)] {
            let mut sender = bind(ip.parse().unwrap(), Options::default());
            let mut receiver = bind(ip.parse().unwrap(), Options::default());
            let mut batch = Batch::new();
            for datagram in datagrams_of(&[fits, fits + 1, fits, fits + 1, 9000]) {
                batch.push(receiver.local_address(), &datagram);
            }
            let report = sender.send(&batch).expect("what is too large is no failure");
            assert_eq!((report.sent, report.dropped_too_big), (2, 3), "{ip}: {report:?}");
            assert_eq!(receive_all(&mut receiver, 2).len(), 2);
            assert!(sender.capabilities().gso);
        }
    });
}

/// Datagrams to a neighbour that does not answer wait in the system. A small send queue is then
/// full: a send gives up soon and counts. The default queue is larger than what the system keeps
/// for one neighbour, so others are still served.
#[test]
fn a_neighbour_that_does_not_answer() {
    let set_up = "ip link set lo up && ip link add near type veth peer name far && \
                  ip address add 10.9.0.1/24 dev near && ip link set near up && ip link set far up";
    in_namespace("a_neighbour_that_does_not_answer", set_up, || {
        let silent = SocketAddr::from(([10, 9, 0, 2], 9));
        let flood = |batch: &mut Batch| {
            batch.clear();
            for datagram in datagrams_of(&[1400; 50]) {
                batch.push(silent, &datagram);
            }
        };
        let mut batch = Batch::new();

        let small = Options { send_buffer_bytes: Some(20_000), ..Options::default() };
        let mut sender = bind([0, 0, 0, 0].into(), small);
        let begin = Instant::now();
        flood(&mut batch);
        let report = sender.send(&batch).expect("a full queue is no failure");
        assert!(report.dropped_busy > 0, "{report:?}");
        assert_eq!(report.sent + report.dropped_busy, 50, "{report:?}");
        assert_eq!(sender.counters().send_dropped_busy, report.dropped_busy as u64);
        assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());

        let mut sender = bind([0, 0, 0, 0].into(), Options::default());
        let mut receiver = bind([0, 0, 0, 0].into(), Options::default());
        let port = receiver.local_address().port();
        for _ in 0..20 {
            flood(&mut batch);
            batch.push(SocketAddr::from(([127, 0, 0, 1], port)), b"others");
            assert_eq!(sender.send(&batch).expect("a full queue is no failure").dropped_busy, 0);
        }
        assert_eq!(receive_all(&mut receiver, 20).len(), 20);
    });
}
