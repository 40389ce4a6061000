//! The log of a RIB among real processes: a router has its answers proven, also after a restart of
//! the RIB, which begins another log; and it can be left off.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use serde_json::Value;

use crate::harness::{Place, Running, remote};
use crate::network::{answers, start_router, wait_until};

const ANY: &str = "127.0.0.1:0";

/// A RIB, a router that has each of its answers proven, and another one with nodes.
struct Scene {
    place: Place,
    rib: Option<Running>,
    rib_ready: Value,
    _routers: [Running; 2],
    near: String,
    near_admin: String,
    far: String,
}

impl Scene {
    fn new(settings: &str) -> Self {
        let place = Place::new();
        place.write("rhumb.toml", &format!("[router]\ncheck_rib_answers = 1\n[rib]\n{settings}\n"));
        place.keygen("rib", "rib.key");
        place.keygen("router", "near.key");
        let (rib, rib_ready) = start_rib(&place, ANY);
        let at = remote(&rib_ready);
        let words = ["--config", "rhumb.toml", "router", "--listen", ANY, "--key", "near.key"];
        let mut router = place.start(&[&words[..], &["--rib", &at, "--admin", ANY]].concat());
        let ready = router.next_object();
        let (other, far) = start_router(&place, "far.key", &[&at]);
        let near_admin = ready["admin"].as_str().unwrap().to_owned();
        let (rib, near) = (Some(rib), remote(&ready));
        Self { place, rib, rib_ready, _routers: [router, other], near, near_admin, far }
    }

    /// The near router looks a new name up; how it sees the RIB then.
    fn look_up(&self) -> Value {
        let mut node = self.place.start(&["receive", "--router", &self.far]);
        let name = node.next_object()["name"].as_str().unwrap().to_owned();
        wait_until("the node is reached", || answers(&self.place, &name, &self.near));
        self.seen()
    }

    fn seen(&self) -> Value {
        let words = ["--json", "status", "--admin", &self.near_admin];
        self.place.run(&words).object()["ribs"][0].clone()
    }

    /// The RIB comes back, with its store and its key.
    fn restart_rib(&mut self) {
        self.rib.take().unwrap().kill();
        let (rib, ready) = start_rib(&self.place, self.rib_ready["address"].as_str().unwrap());
        (self.rib, self.rib_ready) = (Some(rib), ready);
    }
}

fn start_rib(place: &Place, listen: &str) -> (Running, Value) {
    let words = ["--config", "rhumb.toml", "rib", "--listen", listen, "--key", "rib.key"];
    let mut rib = place.start(&[&words[..], &["--store", "rib.redb", "--admin", ANY]].concat());
    let ready = rib.next_object();
    (rib, ready)
}

fn is_blameless(rib: &Value) -> bool {
    rib["faults"].as_object().unwrap().values().all(|times| *times == 0) && rib["fork"].is_null()
}

#[test]
fn answers_are_proven_before_and_after_a_restart_of_the_rib() {
    let mut scene = Scene::new("");
    let proven = |rib: &Value| rib["proven"].as_u64().unwrap();
    wait_until("an answer is proven", || proven(&scene.look_up()) > 0);
    let before = scene.seen();
    assert!(before["log_epoch"].is_u64() && before["log_names"].as_u64() > Some(2), "{before}");
    let admin = scene.rib_ready["admin"].as_str().unwrap();
    wait_until("the log says what is stored", || {
        let status = scene.place.run(&["--json", "status", "--admin", admin]).object();
        status["log"]["names"] == status["stored_names"]
    });
    let status = scene.place.run(&["--json", "status", "--admin", admin]).object();
    assert!(status["counters"]["proofs_shown"].as_u64() > Some(0), "{status}");
    scene.restart_rib();
    wait_until("one is proven by the new log", || proven(&scene.look_up()) > proven(&before));
    let after = scene.seen();
    assert!(is_blameless(&after), "{after}");
    assert!(
        after["log_names"].as_u64() >= before["log_names"].as_u64(),
        "it began with all: {after}"
    );
}

#[test]
fn a_rib_without_a_log_is_no_worse_than_before() {
    let scene = Scene::new("log = false");
    for _ in 0..3 {
        let rib = scene.look_up();
        assert!(is_blameless(&rib) && rib["log_epoch"].is_null(), "{rib}");
        assert_eq!((&rib["proven"], &rib["unproven"]), (&0.into(), &0.into()));
    }
    let admin = scene.rib_ready["admin"].as_str().unwrap();
    let status = scene.place.run(&["--json", "status", "--admin", admin]).object();
    assert!(status["log"].is_null(), "{status}");
    scene.place.write("rhumb.toml", "[rib]\nlog = true\nstore = \"cql://127.0.0.1/rhumb\"\n");
    let words = ["--config", "rhumb.toml", "rib", "--listen", ANY, "--key", "rib.key"];
    scene.place.run(&words).is_refused_with(&["log = true", "keep names in a file"]);
}
