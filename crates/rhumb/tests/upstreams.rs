//! A site's router with two upstreams, the first of which is killed:
//! whoever sends to the site reaches it by the other.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running, remote};

const ANY: &str = "127.0.0.1:0";

/// Starts a router of the key `NAME.key`, which is made, and returns its ready line.
fn router(place: &Place, name: &str, rib: &str, more: &[&str]) -> (Running, Value) {
    let key = format!("{name}.key");
    place.keygen("router", &key);
    let arguments = ["router", "--listen", ANY, "--admin", ANY, "--key", &key, "--rib", rib];
    let mut router = place.start(&[&arguments[..], more].concat());
    let ready = router.next_object();
    (router, ready)
}

/// How the site's router says that its upstreams stand, once that is `expected`.
fn wait_for_states(place: &Place, site: &Value, expected: [&str; 2]) {
    let begin = Instant::now();
    loop {
        let admin = site["admin"].as_str().expect("it has one");
        let status = place.run(&["--json", "status", "--admin", admin]).object();
        let states = [0, 1].map(|index| status["upstreams"][index]["state"].clone());
        if states == expected {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{states:?}");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_site_is_reached_by_its_other_upstream_when_the_first_is_killed() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib = place.start(&["rib", "--listen", ANY, "--key", "rib.key", "--store", "rib.redb"]);
    let rib = remote(&rib.next_object());
    let (first, first_ready) = router(&place, "first", &rib, &[]);
    let (_second, second_ready) = router(&place, "second", &rib, &[]);
    let (_far, far) = router(&place, "far", &rib, &[]);
    let behind = [remote(&first_ready), remote(&second_ready)];
    let more = ["--locator", "none", "--upstream", &behind[0], "--upstream", &behind[1]];
    let (_site, site) = router(&place, "site", &rib, &more);
    let mut receiver = place.start(&["receive", "--router", &remote(&site)]);
    let name = receiver.next_object()["name"].as_str().expect("it has one").to_owned();
    wait_for_states(&place, &site, ["in use", "standing by"]);
    let far = remote(&far);
    let ping = || place.run(&["ping", &name, "--count", "1", "--router", &far]);
    let before = ping();
    assert_eq!(before.code, 0, "{}", before.errors);

    first.kill();
    let begin = Instant::now();
    loop {
        let ping = ping();
        if ping.code == 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", ping.errors);
    }
    wait_for_states(&place, &site, ["not reached", "in use"]);
    let trace = place.run(&["--json", "trace", &name, "--router", &far]).object();
    let second = &second_ready["name"];
    assert!(trace["hops"].as_array().expect("a list").iter().any(|hop| hop["name"] == *second));
}

/// For a machine that is busy with everything else: the
/// time itself is asserted where it is virtual.
const PATIENCE: Duration = Duration::from_secs(30);
