//! A machine whose clock is wrong is told so in that word, at
//! the start and in status, and not every second.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::Duration;

use crate::harness::{Place, remote};
use crate::network::Network;

#[test]
fn a_router_whose_clock_is_a_day_off_says_so_once_and_shows_it() {
    for (offset, how) in [("86400", "ahead of"), ("-86400", "behind")] {
        let place = Place::new();
        let network = Network::start(&place);
        place.keygen("router", "off.key");
        let rib = remote(&network.rib_ready);
        let mut router = place.start(&[
            "--clock-offset-s",
            offset,
            "router",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--key",
            "off.key",
            "--rib",
            &rib,
        ]);
        let ready = router.next_object();
        // 23 h or 24 h: the RIB's word may be two seconds old.
        let words = format!("this machine's clock is {how} the RIB's by at least 2");
        router.wait_for_error(&words);
        let admin = ready["admin"].as_str().unwrap();
        let status = place.run(&["--json", "status", "--admin", admin]).object();
        assert!(status["clock"].as_str().unwrap().starts_with(&words), "{status}");
        let said = &status["clock"].as_str().unwrap()[words.len()..];
        assert!(said.starts_with("3 h: here it is") || said.starts_with("4 h: here"), "{said}");
        let shown = &status["refused_publications"][0];
        assert_eq!(shown["name"], ready["name"], "{status}");
        let people = place.run(&["status", "--admin", admin]).output;
        assert!(people.contains(&format!("clock: {words}")), "{people}");
        // It is tried again each second; a line about it is not.
        let times = || {
            let status = place.run(&["--json", "status", "--admin", admin]).object();
            status["refused_publications"][0]["times"].as_u64().unwrap()
        };
        while times() < 4 {
            std::thread::sleep(Duration::from_millis(200));
        }
        let errors = router.errors_so_far();
        assert!(!errors.contains("clock") && !errors.contains("refused"), "{errors}");
    }
}

#[test]
fn a_router_whose_clock_is_right_says_nothing() {
    let place = Place::new();
    let network = Network::start(&place);
    let admin = network.router_ready["admin"].as_str().unwrap();
    let status = place.run(&["--json", "status", "--admin", admin]).object();
    assert!(status["clock"].is_null(), "{status}");
    assert_eq!(network.router.errors_so_far(), "");
}
