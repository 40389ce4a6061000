//! A router with two workers: files and pings cross it,
//! both workers forward, and it stops as any other.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running, remote};

struct Net {
    rib: Running,
    router: Running,
    ready: Value,
}

fn start(place: &Place, more: &[&str]) -> Net {
    place.keygen("rib", "rib.key");
    place.keygen("router", "router.key");
    let any = "127.0.0.1:0";
    let mut rib = place.start(&["rib", "--key", "rib.key", "--listen", any, "--store", "s.redb"]);
    let at = remote(&rib.next_object());
    let mut arguments = vec!["router", "--key", "router.key", "--listen", any, "--rib", &at];
    arguments.extend_from_slice(&["--admin", any]);
    arguments.extend_from_slice(more);
    let mut router = place.start(&arguments);
    let ready = router.next_object();
    Net { rib, router, ready }
}

fn status(place: &Place, net: &Net) -> Value {
    let admin = net.ready["admin"].as_str().unwrap();
    place.run(&["--json", "status", "--admin", admin]).object()
}

/// What each worker has forwarded.
fn forwarded(status: &Value) -> Vec<u64> {
    let workers = status["workers"].as_array().unwrap();
    workers.iter().map(|worker| worker["forwarded_pdus"].as_u64().unwrap()).collect()
}

/// A key file of a node that sends on an even lane, or on an odd
/// one: the lane is in the first byte of its name.
fn keygen_on(place: &Place, odd: bool, file: &str) -> String {
    for attempt in 0..100 {
        let candidate = format!("{file}.{attempt}");
        let name = place.keygen("node", &candidate);
        let first = name.parse::<rhumb_wire::Name>().unwrap().0[0];
        if (first % 2 == 1) == odd {
            std::fs::rename(place.path(&candidate), place.path(file)).unwrap();
            return name;
        }
    }
    panic!("a hundred names on one side");
}

#[test]
fn both_workers_forward() {
    let place = Place::new();
    let net = start(&place, &["--workers", "2"]);
    let router = remote(&net.ready);
    std::fs::create_dir(place.path("inbox")).unwrap();
    let receiver = keygen_on(&place, true, "b.key");
    let mut receiving =
        place.start(&["receive", "--dir", "inbox", "--key", "b.key", "--router", &router]);
    receiving.next_object();

    let content = "a line of a letter\n".repeat(400_000);
    place.write("letter", &content);
    for (odd, key) in [(false, "even.key"), (true, "odd.key")] {
        keygen_on(&place, odd, key);
        let sent =
            place.run(&["send", "letter", "--to", &receiver, "--router", &router, "--key", key]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        assert_eq!(receiving.next_object()["bytes"], content.len());
        let ping =
            place.run(&["ping", &receiver, "--count", "5", "--router", &router, "--key", key]);
        assert_eq!(ping.code, 0, "{}", ping.errors);
    }
    for name in ["letter", "letter.1"] {
        assert_eq!(std::fs::read_to_string(place.path("inbox").join(name)).unwrap(), content);
    }

    // A worker reports once a second.
    let deadline = Instant::now() + Duration::from_secs(10);
    let told = loop {
        let told = status(&place, &net);
        let forwarded = forwarded(&told);
        assert_eq!(forwarded.len(), 2);
        if forwarded.iter().all(|pdus| *pdus > 1000) {
            break told;
        }
        assert!(Instant::now() < deadline, "{told:#}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let total = told["counters"]["forwarded_pdus"].as_u64().unwrap();
    assert_eq!(total, forwarded(&told).iter().sum::<u64>());
    // What is handed over is how flows begin, not how they go on: the datagrams of a file that are
    // sent before the first acknowledgement, its control messages and the pings, which are a few
    // dozen of 11,500, also on a busy machine.
    let handed = told["counters"]["handed_over"].as_u64().unwrap();
    assert!(handed * 50 < total, "{told:#}");
    assert_eq!(net.router.end().0, 0);
    assert_eq!(receiving.end().0, 0);
    assert_eq!(net.rib.end().0, 0);
}

#[test]
fn an_idle_session_of_a_workers_lane_does_not_fall_silent() {
    let place = Place::new();
    let net = start(&place, &["--workers", "2"]);
    let router = remote(&net.ready);
    let receiver = keygen_on(&place, true, "b.key");
    let mut receiving = place.start(&["receive", "--key", "b.key", "--router", &router]);
    receiving.next_object();
    let age = |status: &Value| {
        let sessions = status["sessions"].as_array().unwrap();
        let of = |it: &&Value| it["peer"] == receiver.as_str();
        sessions.iter().find(of).map(|it| it["age_s"].as_u64().unwrap())
    };
    // Longer than the silence after which a session is over.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = status(&place, &net);
        match age(&told) {
            Some(age) if age >= 24 => break,
            Some(_) => assert!(Instant::now() < deadline, "{told:#}"),
            None => panic!("the session is over: {told:#}"),
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(receiving.end().0, 0);
}

#[test]
fn a_number_of_workers_that_cannot_be_is_refused() {
    let place = Place::new();
    for workers in ["0", "9", "two"] {
        let arguments = ["router", "--key", "r.key", "--rib", "127.0.0.1:9", "--workers", workers];
        let refused = place.run(&arguments);
        assert_eq!(refused.code, 2);
        assert!(refused.errors.contains("give 1 to 8, or auto"), "{}", refused.errors);
    }
}
