//! Accounts: who sent how much, by principal and delegation; replays are
//! not billed; they survive a restart and a kill.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;
use waypoints::{
    ENDS, PATIENCE, Pass, Rig, Sender, count, count_waiting, pass, receive, right_checksum, socket,
    udp,
};

use crate::waypoints;
use crate::wire::Line;

/// The bill of the last period, as an operator asks for it.
fn bill(rig: &Rig) -> Value {
    let run = rig.place.run(&["--json", "waypoint", "accounts", "--accounts", "w1.accounts"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    run.object()
}

/// Packets, bytes and dropped packets of a line of a bill.
fn line(bill: &Value, principal: u32, delegations: &[u32]) -> Option<[u64; 3]> {
    let is_it = |line: &&Value| {
        line["principal"] == principal && line["delegations"] == serde_json::json!(delegations)
    };
    let line = bill["accounts"].as_array()?.iter().find(is_it)?;
    Some(["packets", "bytes", "dropped_packets"].map(|key| line[key].as_u64().unwrap_or(u64::MAX)))
}

/// Waits until a line of the bill is so.
#[track_caller]
fn wait_for_line(rig: &Rig, principal: u32, delegations: &[u32], expected: [u64; 3]) -> Value {
    let begin = Instant::now();
    loop {
        let bill = bill(rig);
        let line = line(&bill, principal, delegations);
        if line == Some(expected) {
            return bill;
        }
        assert!(begin.elapsed() < PATIENCE, "{line:?} is not {expected:?}: {bill:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_bill_tells_principals_and_delegates_and_outlives_a_kill() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    // A month does not end during the test, as a day might.
    let w1 = rig.start(r1, "w1", &[Line::R1], "period = \"month\"");
    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    let packet = udp(Line::A, Line::B, &[9; 172]);
    let own = pass(Line::R1);
    let delegate = Pass { delegation: Some(17), ..own };
    let other = Pass { principal: 4_000_000_000, ..own };
    let send = |a: &mut Sender, pass: Pass, times: u64| {
        for _ in 0..times {
            a.send_by(&[pass], &packet);
            assert_eq!(receive(&b).len(), 172);
        }
    };
    send(&mut a, own, 5);
    send(&mut a, delegate, 3);
    send(&mut a, other, 2);
    // Replays and packets out of hops have proven whose they are: they are told, and not billed.
    let again = a.stamp(&[own], &packet);
    for _ in 0..4 {
        a.send(&again);
    }
    let mut late = packet.clone();
    late[8] = 1;
    right_checksum(&mut late);
    a.send_by(&[own], &late);
    // What is not proven is on nobody's account.
    let mut forged = a.stamp(&[Pass { principal: 9, ..own }], &packet);
    forged[40] ^= 1;
    a.send(&forged);
    // 5 and 3 and one of the four: 200 bytes each as they were before they were stamped.
    let bill = wait_for_line(&rig, 7, &[], [9, 1800, 4]);
    assert_eq!(line(&bill, 7, &[17]), Some([3, 600, 0]));
    assert_eq!(line(&bill, 4_000_000_000, &[]), Some([2, 400, 0]));
    assert_eq!(line(&bill, 9, &[]), None);
    let its = &bill["accounts"][0];
    let now_s = waypoints::now_us() / 1_000_000;
    let (first, last) = (its["first_s"].as_u64().unwrap_or(0), its["last_s"].as_u64().unwrap_or(0));
    assert!(first <= last && last <= now_s && first > now_s - 600, "{its}");
    assert_eq!((receive(&b).len(), count_waiting(&b)), (172, 0));

    let metrics = rig.metrics(r1, &w1);
    for text in [
        "rhumb_waypoint_principal_packets_total{principal=\"7\"} 9\n",
        "rhumb_waypoint_principal_bytes_total{principal=\"4000000000\"} 400\n",
        "rhumb_waypoint_principal_packets_total{principal=\"other\"} 0\n",
        "rhumb_waypoint_dropped_packets_total{reason=\"replay\"} 3\n",
    ] {
        assert!(metrics.contains(text), "{text} is not in {metrics}");
    }
    // Killed without a warning: what was in the file is there, and goes on.
    w1.running.kill();
    let w1 = rig.start_again(r1, "w1");
    assert_eq!(line(&self::bill(&rig), 7, &[]), Some([9, 1800, 4]));
    send(&mut a, own, 1);
    wait_for_line(&rig, 7, &[], [10, 2000, 4]);
    send(&mut a, delegate, 1);
    // Asked to end, it loses nothing.
    rig.wait_for(r1, &w1, |it| count(it, &["counters", "forwarded_packets"]) >= 1);
    assert_eq!(w1.running.end().0, 0);
    assert_eq!(line(&self::bill(&rig), 7, &[]), Some([11, 2200, 4]));

    let table = rig.place.run(&["waypoint", "accounts", "--accounts", "w1.accounts"]);
    assert!(
        table.output.contains("4000000000") && table.output.contains("  by 17"),
        "{}",
        table.output
    );
    let periods =
        rig.place.run(&["waypoint", "accounts", "--accounts", "w1.accounts", "--period", "all"]);
    assert_eq!(periods.output.lines().count(), 1);
    let folder = std::fs::read_dir(rig.place.path("w1.accounts")).expect("a folder");
    for entry in folder.flatten() {
        assert_eq!(entry.metadata().expect("metadata").permissions().mode() & 0o777, 0o600);
    }
}
