//! Datagrams larger than the path takes in one piece are fragmented by the system, singly; segments are not given up for
//! the others. The test runs itself again in a network namespace of its own, whose loopback device takes 1500 bytes.
#![cfg(target_os = "linux")]

mod sockets;

use std::env;
use std::process::Command;

use rhumb_io::PacketIo;
use rhumb_io::udp::Options;
use sockets::{datagrams_of, loopback, receive_all, send_all};

/// Set in the process that runs inside of the namespace.
const INSIDE: &str = "RHUMB_TEST_PATH_MTU_INSIDE";

#[test]
fn datagrams_larger_than_the_path_takes() {
    if env::var_os(INSIDE).is_some() {
        return inside();
    }
    let set_up = "ip link set lo mtu 1500 up && exec \"$0\" --exact \"$1\" --nocapture";
    let namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]);
        command.arg(env::current_exe().expect("the test's own path"));
        command.arg("datagrams_larger_than_the_path_takes").env(INSIDE, "1");
        command.output()
    };
    if !namespace("ip link set lo mtu 1500 up").is_ok_and(|output| output.status.success()) {
        println!("skipped: a network namespace needs root, unshare and ip");
        return;
    }
    let output = namespace(set_up).expect("it ran a moment ago");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

fn inside() {
    let (mut sender, mut receiver) = (loopback(Options::default()), loopback(Options::default()));
    let to = receiver.local_address();
    // 1472 is the largest payload that fits: 1500 - 20 - 8.
    for (len, fits) in [(1000, true), (1472, true), (1473, false), (1766, false), (1000, true)] {
        let before = sender.counters();
        let sent = datagrams_of(&vec![len; 30]);
        send_all(&mut sender, to, &sent);
        let received = receive_all(&mut receiver, sent.len());
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&sent), "{len} bytes");
        let after = sender.counters();
        assert_eq!(after.sent_messages - before.sent_messages, if fits { 1 } else { 30 }, "{len}");
        let refused = after.segmentation_refused - before.segmentation_refused;
        assert_eq!(refused, u64::from(!fits), "{len} bytes");
        assert!(sender.capabilities().gso);
    }
}
