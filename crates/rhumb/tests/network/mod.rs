//! The smallest network: a RIB and a router, as processes.

#![allow(dead_code, clippy::unwrap_used)] // Each user takes a part of this; a test may panic.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running, remote};

/// A RIB and a router that runs with it.
pub(crate) struct Network {
    pub(crate) rib: Running,
    pub(crate) router: Running,
    pub(crate) rib_ready: Value,
    pub(crate) router_ready: Value,
}

impl Network {
    /// Starts both in `place`, with keys `rib.key` and `router.key`.
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_with(place, |_| {})
    }

    /// As [`Network::start`], after `prepare` had a look at each command.
    pub(crate) fn start_with(place: &Place, prepare: impl Fn(&mut Command)) -> Self {
        Self::start_at(place, "127.0.0.1:0", prepare)
    }

    /// As [`Network::start_with`], listening on `any`.
    pub(crate) fn start_at(place: &Place, any: &str, prepare: impl Fn(&mut Command)) -> Self {
        place.keygen("rib", "rib.key");
        place.keygen("router", "router.key");
        let key = "--key";
        let mut rib = place.start_with(
            &["rib", "--listen", any, "--admin", any, key, "rib.key", "--store", "rib.redb"],
            &prepare,
        );
        let rib_ready = rib.next_object();
        let to_rib = remote(&rib_ready);
        let mut router = place.start_with(
            &["router", "--listen", any, "--admin", any, key, "router.key", "--rib", &to_rib],
            &prepare,
        );
        let router_ready = router.next_object();
        Self { rib, router, rib_ready, router_ready }
    }

    /// `NAME@ADDR` of the router.
    pub(crate) fn router(&self) -> String {
        remote(&self.router_ready)
    }
}

/// A router of a new key, told of these RIBs.
pub(crate) fn start_router(place: &Place, key: &str, ribs: &[&str]) -> (Running, String) {
    place.keygen("router", key);
    let mut arguments = vec!["router", "--listen", "127.0.0.1:0", "--key", key];
    ribs.iter().for_each(|rib| arguments.extend(["--rib", rib]));
    let mut router = place.start(&arguments);
    let ready = remote(&router.next_object());
    (router, ready)
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub(crate) fn answers(place: &Place, name: &str, router: &str) -> bool {
    place.run(&["ping", name, "--count", "1", "--router", router]).code == 0
}

/// Far less than half a lease of ten minutes, after which everything is published anyway; far more
/// than anything takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
