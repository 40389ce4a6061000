//! A RIB below another one, as processes: it keeps a session with the one above, asks it for what
//! it does not know, and serves on when that one is gone.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, remote};

const ANY: &str = "127.0.0.1:0";
const PATIENCE: Duration = Duration::from_secs(20);

/// The status of a daemon, as soon as it is as it is to be.
fn status(place: &Place, ready: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let admin = ready["admin"].as_str().unwrap();
        let status = place.run(&["--json", "status", "--admin", admin]).object();
        if is_so(&status) {
            return status;
        }
        assert!(since.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_rib_asks_the_one_above_and_serves_without_it() {
    let place = Place::new();
    let (outer_domain, domain) =
        (place.keygen("domain", "outer-domain.key"), place.keygen("domain", "domain.key"));
    let outer_name = place.keygen("rib", "outer.key");
    place.keygen("rib", "rib.key");
    let start = |key: &str, store: &str, domain: &str, more: &[&str]| {
        let plain = ["rib", "--key", key, "--store", store, "--listen", ANY, "--domain", domain];
        place.start(&[&plain[..], &["--admin", ANY], more].concat())
    };
    let mut outer = start("outer.key", "outer.redb", &outer_domain, &[]);
    let above = remote(&outer.next_object());
    let mut rib = start("rib.key", "rib.redb", &domain, &["--parent", &above]);
    let ready = rib.next_object();
    let is_there = |status: &Value| status["parents"][0]["name"] == outer_name.as_str();
    assert_eq!(status(&place, &ready, is_there)["domain"], domain.as_str());

    place.keygen("router", "router.key");
    let at = remote(&ready);
    let mut router = place.start(&["router", "--key", "router.key", "--listen", ANY, "--rib", &at]);
    let router = remote(&router.next_object());
    place.keygen("node", "alice.key");
    place.keygen("node", "bob.key");
    let nobody = place.keygen("node", "nobody.key");
    let mut alice = place.start(&["receive", "--key", "alice.key", "--router", &router]);
    let alice = alice.next_object()["name"].as_str().unwrap().to_owned();
    let ping = |name: &str| {
        place.run(&["ping", name, "--count", "1", "--key", "bob.key", "--router", &router]).code
    };
    assert_eq!(ping(&alice), 0);
    let before = status(&place, &ready, |_| true)["counters"]["climbs"].as_u64().unwrap();
    assert_ne!(ping(&nobody), 0);
    status(&place, &ready, |status| status["counters"]["climbs"].as_u64().unwrap() > before);

    outer.kill();
    status(&place, &ready, |status| status["parents"][0]["name"].is_null());
    assert_eq!(ping(&alice), 0);
}

#[test]
fn a_rib_of_no_domain_has_none_above_it() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let run = place.run(&["rib", "--key", "rib.key", "--parent", "127.0.0.1:9"]);
    assert_eq!(run.code, 2, "{}", run.output);
    assert!(run.errors.contains("give --domain NAME"), "{}", run.errors);
}
