//! A waypoint that starts again: what it took before is not taken twice; while
//! its key server is away, what was revoked stays so where it is kept in a
//! file, and what is wrong with the file is said.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use rhumb_capability::Encapsulation;

use crate::waypoints::{
    ENDS, FOLLOW, PATIENCE, Pass, Rig, Sender, count, now_us, pass, receive, socket, udp,
};
use crate::wire::Line;

const PASSES: [Pass; 2] = [pass(Line::R1), Pass { principal: 8, ..pass(Line::R1) }];

/// Sends a packet of principal 7, who is revoked, and then one
/// of principal 8, who is not; only that comes.
fn only_the_other_passes(rig: &Rig, a: &mut Sender, b: &std::net::UdpSocket) {
    for (pass, text) in PASSES.into_iter().zip(["is revoked", "passes"]) {
        a.send_by(&[pass], &udp(Line::A, Line::B, text.as_bytes()));
    }
    assert_eq!(receive(b), b"passes", "{}", rig.place.folder().display());
}

#[test]
fn revocations_outlive_a_restart_while_the_key_server_is_away() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    let server = rig.start_key_server(r1, Line::R1);
    let w1 = rig.start(r1, "w1", &[Line::R1], &format!("{FOLLOW}\nrevocations = \"kept\""));
    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    for pass in PASSES {
        a.send_by(&[pass], &udp(Line::A, Line::B, b"before"));
        assert_eq!(receive(&b), b"before");
    }
    rig.revoke(r1, &[]);
    only_the_other_passes(&rig, &mut a, &b);
    let kept = rig.place.path("kept");
    // It is written down before the operator is told that it is in force here.
    let text = std::fs::read_to_string(&kept).expect("a file");
    assert!(text.contains("revoke:7 "), "{text}");

    // Killed, and started again without the server: in force before the first packet passes.
    server.kill();
    w1.running.kill();
    let w1 = rig.start_again(r1, "w1");
    w1.running.wait_for_error("going on with the revocations that were kept");
    only_the_other_passes(&rig, &mut a, &b);
    let status = rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "revoked"]) == 1);
    let of = &status["revocations"];
    assert_eq!((&of["in_force"], &of["is_current"]), (&1.into(), &false.into()), "{status:#}");

    // The server comes back, and takes it back.
    let server = rig.start_key_server_again(r1);
    rig.wait_for(r1, &w1, |it| it["revocations"]["is_current"] == true);
    rig.revoke(r1, &["--restore"]);
    a.send_by(&PASSES[..1], &udp(Line::A, Line::B, b"again"));
    assert_eq!(receive(&b), b"again");
    let text = std::fs::read_to_string(&kept).expect("a file");
    assert!(!text.contains("revoke:7 "), "{text}");
    let metrics = rig.metrics(r1, &w1);
    assert!(metrics.contains("rhumb_waypoint_revocations_are_kept 1\n"), "{metrics}");
    drop(server);
}

#[test]
fn a_damaged_file_keeps_a_waypoint_from_starting_without_its_key_server() {
    let Some(rig) = Rig::new() else { return };
    let r1 = &rig.line.r1;
    let server = rig.start_key_server(r1, Line::R1);
    let w1 = rig.start(r1, "w1", &[Line::R1], &format!("{FOLLOW}\nrevocations = \"kept\""));
    rig.revoke(r1, &[]);
    assert_eq!(w1.running.end().0, 0);
    let kept = rig.place.path("kept");
    let whole = std::fs::read_to_string(&kept).expect("a file");
    let damaged = whole.replace("revoke:7", "revoke:6");
    std::fs::write(&kept, &damaged).expect("damage");

    // With the server there, it is no harm.
    let w1 = rig.start_again(r1, "w1");
    let status = rig.wait_for(r1, &w1, |it| it["revocations"]["is_kept"] == true);
    assert_eq!(status["revocations"]["in_force"], 1, "{status:#}");
    assert_eq!(std::fs::read_to_string(&kept).expect("a file"), whole);
    assert_eq!(w1.running.end().0, 0);

    std::fs::write(&kept, &damaged).expect("damage");
    server.kill();
    let refused = r1.enter(|| rig.place.run(&["--config", "w1.toml", "waypoint"]));
    assert_eq!(refused.code, 2, "{}", refused.errors);
    for said in ["kept is damaged in line 3", "remove the file"] {
        assert!(refused.errors.contains(said), "{}", refused.errors);
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("a file"), damaged, "nothing is lost");
    // Without it nothing is known, and that is said.
    std::fs::remove_file(&kept).expect("no file");
    let w1 = rig.start_again(r1, "w1");
    w1.running.wait_for_error("going on without revocations");
}

#[test]
fn what_was_taken_before_a_restart_is_neither_taken_nor_billed_again() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    let w1 = rig.start(r1, "w1", &[Line::R1], "");
    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    // Dated as a packet may be: now, and ahead by nearly all that is
    // allowed. Both are still in time after the restart.
    let dated = [0, 450_000].map(|ahead_us| {
        let packet = udp(Line::A, Line::B, b"once");
        let stamped =
            a.stamp_at(&[pass(Line::R1)], &packet, Encapsulation::IP, now_us() + ahead_us);
        a.send(&stamped);
        assert_eq!(receive(&b), b"once");
        stamped
    });
    let taken_at = Instant::now();
    w1.running.kill();
    let w1 = rig.start_at_once(r1, "w1");
    let started = Instant::now();
    assert!(taken_at.elapsed() < Duration::from_millis(2_900), "too late to show anything");
    // Again and again, until both are too old in any case;
    // meanwhile somebody who stamps anew is served soon.
    let mut fresh_after = None;
    let mut sent = 0;
    while taken_at.elapsed() < Duration::from_secs(4) {
        dated.iter().for_each(|packet| a.send(packet));
        sent += 2;
        if fresh_after.is_none() {
            a.send_by(&[pass(Line::R1)], &udp(Line::A, Line::B, b"fresh"));
            if count_waiting_of(&b, b"fresh") > 0 {
                fresh_after = Some(started.elapsed());
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let fresh_after = fresh_after.expect("who stamps anew is served");
    println!("what is stamped anew passes {fresh_after:?} after the start");
    assert!(fresh_after < PATIENCE);
    let status = rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "stale"]) >= sent);
    assert_eq!(count(&status, &["dropped_by_reason", "replay"]), 0, "{status:#}");
    assert_eq!(count_waiting_of(&b, b"once"), 0, "taken twice");
}

/// How many of this text have come and were not received; what else has come is dropped.
fn count_waiting_of(socket: &std::net::UdpSocket, text: &[u8]) -> usize {
    socket.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 64];
    let mut count = 0;
    while let Ok(len) = socket.recv(&mut buffer) {
        assert_ne!(&buffer[..len], b"once", "taken twice");
        count += usize::from(&buffer[..len] == text);
    }
    socket.set_nonblocking(false).expect("a socket");
    count
}
