//! A router that keeps its routes in a file: it knows them again after a restart, with no RIB
//! there, and a file that is damaged or cannot be written is said so in one line.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Place, Running, remote};
use crate::network::Network;

const ANY: &str = "127.0.0.1:0";

/// Starts a second router, `second.key`, which keeps its routes in `routes`.
fn start(place: &Place, rib: &str) -> (Running, Value) {
    let mut router = place.start(&[
        "router",
        "--listen",
        ANY,
        "--admin",
        ANY,
        "--key",
        "second.key",
        "--rib",
        rib,
        "--state",
        "routes",
    ]);
    let ready = router.next_object();
    (router, ready)
}

fn status(place: &Place, ready: &Value) -> Value {
    place.run(&["--json", "status", "--admin", ready["admin"].as_str().unwrap()]).object()
}

#[test]
fn routes_outlive_the_process_and_its_rib() {
    let place = Place::new();
    let network = Network::start(&place);
    place.keygen("router", "second.key");
    let (router, ready) = start(&place, &remote(&network.rib_ready));
    let mut node = place.start(&["receive", "--router", &network.router()]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    let ping = place.run(&["ping", &name, "--count", "1", "--router", &remote(&ready)]);
    assert_eq!(ping.code, 0, "{}", ping.errors);
    assert!(status(&place, &ready)["routes"].as_u64().unwrap() >= 1);
    assert_eq!(router.signal("TERM"), 0);
    let mode = std::fs::metadata(place.path("routes")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let rib_ready = network.rib_ready.clone();
    let Network { rib, router: _first, .. } = network;
    rib.kill();
    let rib = remote(&rib_ready);
    let (again, ready) = start(&place, &rib);
    let status = status(&place, &ready);
    assert!(status["counters"]["routes_restored"].as_u64().unwrap() >= 1, "{status}");
    assert!(status["routes"].as_u64().unwrap() >= 1, "{status}");
    let (code, errors) = again.end();
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains("unreachable") && errors.contains("saved"), "{errors}");
}

#[test]
fn a_damaged_file_costs_a_warning() {
    let place = Place::new();
    let network = Network::start(&place);
    place.keygen("router", "second.key");
    for (bytes, why) in [(&b"nonsense"[..], "no saved routes"), (b"RHRS\x01\0\0", "damaged")] {
        std::fs::write(place.path("routes"), bytes).unwrap();
        let (router, ready) = start(&place, &remote(&network.rib_ready));
        assert_eq!(status(&place, &ready)["routes"], 0);
        let (code, errors) = router.end();
        assert_eq!(code, 0, "{errors}");
        let lines: Vec<&str> = errors.lines().filter(|line| line.contains("state file")).collect();
        assert_eq!(lines.len(), 1, "{errors}");
        assert!(lines[0].contains("routes") && lines[0].contains(why), "{errors}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_at_the_start() {
    let place = Place::new();
    let network = Network::start(&place);
    let rib = remote(&network.rib_ready);
    place
        .run(&[
            "router",
            "--listen",
            ANY,
            "--key",
            "router.key",
            "--rib",
            &rib,
            "--state",
            "missing/routes",
        ])
        .is_refused_with(&["missing/routes", "--state"]);
}
