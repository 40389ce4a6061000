//! Keys of a waypoint while packets flow: an epoch ends and another begins without a loss, what is
//! revoked at the key server passes no more, and what is wrong with files is said in one line.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::harness;
use crate::waypoints::{
    ENDS, FOLLOW, PATIENCE, Pass, Rig, Sender, count, count_waiting, pass, receive, socket, udp,
};
use crate::wire::Line;

/// What the last packet carries.
const END: &[u8] = b"the end";

#[test]
fn an_epoch_rolls_under_load_without_a_loss() {
    let Some(rig) = Rig::new() else { return };
    let w1 = rig.start(&rig.line.r1, "w1", &[Line::R1], "");
    let b = socket(&rig.line.b, ENDS);
    let (epoch, sent) = (AtomicU8::new(1), AtomicU64::new(0));
    let received = std::thread::scope(|scope| {
        let mut a = Sender::on(&rig.line.a);
        let sender = scope.spawn(|| {
            let mut last = 1;
            while last != 0 {
                // The end is a packet, too: the receiver waits for it.
                last = epoch.load(Ordering::Acquire);
                let (epoch, text) = if last == 0 { (2, END) } else { (last, &b"steady"[..]) };
                sent.fetch_add(1, Ordering::Release);
                a.send_by(&[Pass { epoch, ..pass(Line::R1) }], &udp(Line::A, Line::B, text));
                std::thread::sleep(Duration::from_micros(500));
            }
            drop(a);
        });
        let receiver = scope.spawn(|| {
            // All is in order on the one line.
            let mut received = 1;
            while receive(&b) != END {
                received += 1;
            }
            received
        });
        let some_more = || {
            let until = sent.load(Ordering::Acquire) + 200;
            while sent.load(Ordering::Acquire) < until && !sender.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let epochs = |expected: &[u8]| {
            let expected = serde_json::json!(expected);
            rig.wait_for(&rig.line.r1, &w1, |status| status["epochs"] == expected);
        };
        some_more();
        // The operator's order: the waypoint has the next epoch first,
        // then the principals, then the old one ends.
        rig.write_master("w1", Line::R1, 2);
        epochs(&[1, 2]);
        some_more();
        epoch.store(2, Ordering::Release);
        some_more();
        // What is under way has arrived by then, since all is in order on the one line.
        std::fs::remove_file(rig.place.path("w1.keys/10.8.0.2-1.master")).expect("a file");
        let id = w1.running.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill").success());
        epochs(&[2]);
        some_more();
        epoch.store(0, Ordering::Release);
        sender.join().expect("a sender");
        receiver.join().expect("a receiver")
    });
    let sent = sent.load(Ordering::Acquire);
    assert!(sent >= 800, "{sent}");
    assert_eq!(received, sent, "{:#}", rig.status(&rig.line.r1, &w1));
    let status =
        rig.wait_for(&rig.line.r1, &w1, |it| count(it, &["counters", "forwarded_packets"]) == sent);
    assert_eq!(count(&status, &["counters", "dropped_packets"]), 0, "{status:#}");
    // The old one is over.
    Sender::on(&rig.line.a).send_by(&[pass(Line::R1)], &udp(Line::A, Line::B, b"old"));
    rig.wait_for(&rig.line.r1, &w1, |it| count(it, &["dropped_by_reason", "epoch"]) == 1);
}

#[test]
fn a_key_file_that_is_damaged_changes_nothing() {
    let Some(rig) = Rig::new() else { return };
    let w1 = rig.start(&rig.line.r1, "w1", &[Line::R1], "");
    let b = socket(&rig.line.b, ENDS);
    std::fs::write(rig.place.path("w1.keys/new.master"), "rhumb-master 1\nwaypo").expect("a file");
    let begin = std::time::Instant::now();
    let mut errors = String::new();
    while !errors.contains("going on with the keys that are there") {
        assert!(begin.elapsed() < PATIENCE, "{errors}");
        errors += &w1.running.errors_so_far();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(errors.contains("new.master"), "{errors}");
    Sender::on(&rig.line.a).send_by(&[pass(Line::R1)], &udp(Line::A, Line::B, b"on"));
    assert_eq!(receive(&b), b"on");
}

#[test]
fn what_is_revoked_passes_no_more_once_the_operator_is_told_so() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    let server = rig.start_key_server(r1, Line::R1);
    let w1 = rig.start(r1, "w1", &[Line::R1], FOLLOW);
    let status = rig.status(r1, &w1);
    assert_eq!(status["revocations"]["is_current"], true, "{status:#}");

    let b = socket(b, ENDS);
    let mut a = Sender::on(a);
    let packet = |text: &str| udp(Line::A, Line::B, text.as_bytes());
    let whose = [
        pass(Line::R1),
        Pass { delegation: Some(17), ..pass(Line::R1) },
        Pass { delegation: Some(18), ..pass(Line::R1) },
        Pass { principal: 8, ..pass(Line::R1) },
    ];
    let passes = |a: &mut Sender, expected: [bool; 4]| {
        for (pass, passes) in whose.into_iter().zip(expected) {
            a.send_by(&[pass], &packet(if passes { "passes" } else { "is revoked" }));
        }
        for _ in expected.iter().filter(|passes| **passes) {
            assert_eq!(receive(&b), b"passes");
        }
    };
    passes(&mut a, [true; 4]);
    let revoke = |more: &[&str]| {
        let report = rig.revoke(r1, more);
        assert_eq!((&report["waypoints"], &report["reached"]), (&1.into(), &1.into()));
        // Usually some ten milliseconds, and to be under a second; this
        // machine may be busy with everything else.
        assert!(report["elapsed_ms"].as_u64() < Some(10_000), "{report}");
    };
    revoke(&["--id", "17"]);
    passes(&mut a, [true, false, true, true]);
    revoke(&[]);
    passes(&mut a, [false, false, false, true]);
    rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "revoked"]) == 4);
    assert_eq!(count_waiting(&b), 0);
    // Without its server a waypoint goes on with what it knows.
    server.kill();
    rig.wait_for(r1, &w1, |it| it["revocations"]["is_current"] == false);
    passes(&mut a, [false, false, false, true]);
    let metrics = rig.metrics(r1, &w1);
    assert!(metrics.contains("rhumb_waypoint_follows_key_server 0\n"), "{metrics}");
}

#[test]
fn what_is_wrong_is_said_at_the_start_in_one_line() {
    let place = harness::Place::new();
    let run = |text: &str, arguments: &[&str]| {
        place.write("w.toml", text);
        let all = [&["--config", "w.toml", "waypoint"], arguments].concat();
        place.run(&all)
    };
    run("", &[]).is_refused_with(&["--master FILE"]);
    run("[waypoint]\nmaster = [\"none\"]\n", &[]).is_refused_with(&["--address IP"]);
    let least = "[waypoint]\naddresses = [\"192.0.2.1\"]\nmaster = [\"w.master\"]\n";
    run(least, &["--check"]).is_refused_with(&["w.master", "No such file"]);
    let made = place.run(&["capability", "master", "192.0.2.1", "--out", "w.master"]);
    assert_eq!(made.code, 0, "{}", made.errors);
    let checked = run(least, &["--check"]);
    assert_eq!(
        (checked.code, checked.output.as_str()),
        (0, "in order: 1 addresses, 1 master keys\n")
    );
    run(&format!("{least}adress = []\n"), &["--check"]).is_refused_with(&[
        "w.toml, line 4",
        "unknown key `adress`",
        "did you mean `addresses`?",
    ]);
    run(&format!("{least}key_server = \"127.0.0.1:53\"\n"), &[])
        .is_refused_with(&["key_server, zone and key"]);
    run(least, &["--address", "192.0.2.2", "--check"])
        .is_refused_with(&["it is the master of 192.0.2.1"]);
    run(least, &["accounts"]).is_refused_with(&["--accounts DIR"]);
}
