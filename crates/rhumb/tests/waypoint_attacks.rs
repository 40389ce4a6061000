//! What those can do who are on the way, or have a capability themselves: the attacks that
//! `docs/platypus.md` speaks of, on a waypoint that runs.
#![cfg(target_os = "linux")]

use std::time::Duration;

use rhumb_capability::Suite;

use crate::waypoints::{
    ENDS, Pass, Rig, Sender, count, count_waiting, now_us, pass, receive, socket, udp,
};
use crate::wire::Line;

/// Bytes of an IPv4 header, and of the Platypus header of one capability.
const STAMP_END: usize = 20 + 44;

#[test]
fn who_is_on_the_way_replaces_a_payload_under_header_suites_and_not_under_packet_polyval() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    let w1 = rig.start(r1, "w1", &[Line::R1], "");
    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    for suite in Suite::ALL {
        let original =
            a.stamp(&[Pass { suite, ..pass(Line::R1) }], &udp(Line::A, Line::B, b"ours!!"));
        // It keeps the stamp, and puts a payload of its own behind it.
        let mut replaced = original.clone();
        replaced[STAMP_END..].copy_from_slice(&udp(Line::A, Line::B, b"theirs")[20..]);
        a.send(&replaced);
        a.send(&original);
        let expected: &[u8] = if suite.covers_payload() { b"ours!!" } else { b"theirs" };
        assert_eq!(receive(&b), expected, "{suite}");
    }
    // One passes of each pair: the original is a repetition, or what was replaced is a forgery.
    let status = rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "binding"]) == 1);
    assert_eq!(count(&status, &["dropped_by_reason", "replay"]), 2, "{status:#}");
    assert_eq!(count_waiting(&b), 0);
}

#[test]
fn a_principal_that_fills_a_slice_of_the_filter_takes_nothing_from_another() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    let w1 = rig.start(r1, "w1", &[Line::R1], "");
    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    let [greedy, honest] = [8, 7].map(|principal| Pass { principal, ..pass(Line::R1) });
    // All packets are of one slice of 16 ms, of which a
    // filter for 100,000 packets a second takes 5,120.
    let slice_us = (now_us() + 450_000) >> 14 << 14;
    let packet = udp(Line::A, Line::B, b"x");
    let flood = a.stamp_many(greedy, &packet, 8_000, slice_us);
    for some in flood.chunks(50) {
        some.iter().for_each(|packet| a.send(packet));
        // No faster than the waypoint's socket takes them.
        std::thread::sleep(Duration::from_millis(2));
    }
    while count_waiting(&b) > 0 {}
    let mut passed = 0;
    for some in a.stamp_many(honest, &packet, 200, slice_us).chunks(20) {
        some.iter().for_each(|packet| a.send(packet));
        std::thread::sleep(Duration::from_millis(10));
        passed += count_waiting(&b);
    }
    let status = rig.wait_for(r1, &w1, |it| {
        count(it, &["counters", "forwarded_packets"]) + count(it, &["counters", "dropped_packets"])
            == 8_200
    });
    let full = count(&status, &["dropped_by_reason", "replay_full"]);
    assert!(
        now_us() < slice_us + 3_000_000 || full > 0,
        "this machine is too slow to show anything"
    );
    passed += count_waiting(&b);
    assert!(passed >= 198, "{passed} of 200 beside a flood: {status:#}");
    // The other one has had what is its share, and no more.
    assert!((5_440..=5_444).contains(&full), "{status:#}");
}
