//! A RIB and routers as processes, and what the system tells of them.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_wire::Name;
use serde_json::Value;

use crate::harness::{Place, Running, remote};
use crate::machine::{self, Core};

/// A daemon that is ready.
pub(crate) struct Daemon {
    running: Running,
    pub(crate) ready: Value,
    pub(crate) address: SocketAddr,
    pub(crate) name: Name,
}

impl Daemon {
    /// Starts a daemon on a core.
    pub(crate) fn start(place: &Place, core: Core, words: &[&str]) -> Self {
        machine::pin(core);
        let mut running = place.start(words);
        machine::pin(Core::Load);
        let ready = running.next_object();
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        let name = ready["name"].as_str().unwrap().parse().unwrap();
        Self { running, ready, address, name }
    }

    /// A RIB with its defaults.
    pub(crate) fn rib(place: &Place) -> Self {
        place.keygen("rib", "rib.key");
        Self::start(
            place,
            Core::Load,
            &["rib", "--listen", ANY, "--key", "rib.key", "--admin", ANY],
        )
    }

    /// A router with its defaults, on the core that is measured.
    pub(crate) fn router(place: &Place, key: &str, rib: &Self) -> Self {
        place.keygen("router", key);
        let to_rib = remote(&rib.ready);
        let words = ["router", "--listen", ANY, "--admin", ANY, "--key", key, "--rib", &to_rib];
        Self::start(place, Core::Measured, &words)
    }

    /// What it says of itself.
    pub(crate) fn status(&self, place: &Place) -> Value {
        let admin = self.ready["admin"].as_str().unwrap();
        place.run(&["--json", "status", "--admin", admin]).object()
    }

    /// What its forwarding thread, which is its first one, has had of a processor.
    pub(crate) fn forwarding_cpu(&self) -> Duration {
        let id = self.running.child.id();
        let path = format!("/proc/{id}/task/{id}/schedstat");
        let text = std::fs::read_to_string(path).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }

    /// Bytes of memory that it has.
    pub(crate) fn resident(&self) -> u64 {
        let id = self.running.child.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }
}

pub(crate) const ANY: &str = "127.0.0.1:0";
