//! Memberships that are replaced while daemons run: nobody is restarted, no session ends, and what
//! counts is what is shown now.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::{Duration, Instant, SystemTime};

use rhumb_trust::{Identity, Membership, Window, load_key};
use rhumb_wire::Rights;
use serde_json::Value;

use crate::domains::admit;
use crate::harness::{Place, Running, remote};

const ANY: &str = "127.0.0.1:0";
/// Far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// By how much clocks may differ, so for how long a membership counts that is over.
const SKEW_S: u64 = 60;
/// What is about to end does so when everything has started.
const ENDS_IN_S: u64 = 8;

struct Scene {
    place: Place,
    rib: Running,
    rib_admin: String,
    router: Running,
    router_at: String,
    admin: String,
}

impl Scene {
    /// A RIB and a router of a domain, which take its members alone.
    fn start(prepare: impl FnOnce(&Place)) -> Self {
        let place = Place::new();
        let domain = place.keygen("domain", "domain.key");
        admit(&place, "domain.key", "rib-1.key", "publish");
        admit(&place, "domain.key", "router-1.key", "carry,publish");
        admit(&place, "domain.key", "node-bob.key", "join");
        admit(&place, "domain.key", "node-alice.key", "join");
        prepare(&place);
        let closed = ["--strangers", "refused", "--admit-domain", &domain];
        let plain = ["--listen", ANY, "--admin", ANY];
        let mut rib = place.start(&[&["rib", "--key", "rib-1.key"][..], &plain, &closed].concat());
        let rib_ready = rib.next_object();
        let at = remote(&rib_ready);
        let role = ["--log", "info", "router", "--key", "router-1.key", "--rib", &at];
        let mut router = place.start(&[&role[..], &plain, &closed].concat());
        let ready = router.next_object();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            rib,
            rib_admin: text(&rib_ready["admin"]),
            router_at: remote(&ready),
            admin: text(&ready["admin"]),
            place,
            router,
        }
    }

    fn status_at(&self, admin: &str) -> Value {
        self.place.run(&["--json", "status", "--admin", admin]).object()
    }

    fn status(&self) -> Value {
        self.status_at(&self.admin)
    }

    /// How long a session of the daemon at `admin` with the peer has lasted.
    fn age_s(&self, admin: &str, peer: &str) -> Option<u64> {
        let status = self.status_at(admin);
        let sessions = status["sessions"].as_array().unwrap();
        sessions.iter().find(|it| it["peer"] == peer).and_then(|it| it["age_s"].as_u64())
    }

    /// The command line of a ping from Alice.
    fn ping<'a>(&'a self, name: &'a str, count: &'a str) -> [&'a str; 9] {
        let router = &self.router_at;
        let key = "node-alice.key";
        ["--json", "ping", name, "--count", count, "--key", key, "--router", router]
    }

    fn receive(&self, key: &str) -> (Running, String, String) {
        let receive = ["receive", "--key", key, "--router", &self.router_at, "--admin", ANY];
        let mut receiver = self.place.start(&receive);
        let ready = receiver.next_object();
        let text = |key: &str| ready[key].as_str().unwrap().to_owned();
        (receiver, text("name"), text("admin"))
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// The domain admits the holder of `key` until then; put beside the key as an operator does it.
fn give(place: &Place, key: &str, rights: Rights, not_after_s: u64) {
    let load = |file: &str| -> Identity { load_key(&place.path(file), None).unwrap() };
    let (domain, member) = (load("domain.key"), load(key));
    let window = Window { not_before_s: now_s() - 1000, not_after_s };
    let sequence = now_s() * 1000;
    let signed = Membership::sign(&domain, None, member.name(), rights, sequence, window).unwrap();
    put(place, key, &signed.to_text());
}

/// As a whole, by renaming.
fn put(place: &Place, key: &str, text: &str) {
    place.write("membership.new", text);
    let beside = key.replace(".key", ".membership");
    std::fs::rename(place.path("membership.new"), place.path(&beside)).unwrap();
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn memberships_that_end_are_replaced_and_no_session_is_cut() {
    let carrying = Rights::CARRY.and(Rights::PUBLISH);
    let ends_s = now_s() + ENDS_IN_S - SKEW_S;
    let scene = Scene::start(|place| {
        give(place, "router-1.key", carrying, ends_s);
        give(place, "node-bob.key", Rights::JOIN, ends_s);
    });
    let place = &scene.place;
    let (bob, bob_name, bob_admin) = scene.receive("node-bob.key");
    let router = scene.status();
    let router_name = router["name"].as_str().unwrap().to_owned();
    assert!(router["membership"]["warning"].as_str().unwrap().contains("it is over"), "{router}");
    scene.router.wait_for_error("the membership is over; put another from the domain");

    let pinging = place.command(&scene.ping(&bob_name, "600"));
    let pinging = Running::spawn(pinging);
    let lasts_s = now_s() + 900;
    give(place, "router-1.key", carrying, lasts_s);
    scene.router.nudge("HUP");
    // A node notices by itself.
    give(place, "node-bob.key", Rights::JOIN, lasts_s);
    for (what, admin) in [("router", &scene.admin), ("node", &bob_admin)] {
        wait_for(what, || {
            let told = scene.status_at(admin)["membership"].clone();
            told["expires_in_s"].as_u64() > Some(800) && told["warning"].is_null()
        });
    }
    let membership_of = |admin: &str, peer: &str| {
        let status = scene.status_at(admin);
        let sessions = status["sessions"].as_array().unwrap().clone();
        sessions.iter().find(|it| it["peer"] == peer).map(|it| it["membership"].clone())
    };
    wait_for("the router sees Bob's", || {
        membership_of(&scene.admin, &bob_name)
            .is_some_and(|it| it["expires_in_s"].as_u64() > Some(800))
    });
    // Long after the former ones are over, whatever clocks may differ by.
    while now_s() < ends_s + SKEW_S + 5 {
        std::thread::sleep(Duration::from_millis(200));
    }
    let (code, pinged) = pinging.end_by_itself();
    assert_eq!(code, 0, "{pinged}");
    assert_eq!(place.run(&scene.ping(&bob_name, "1")).code, 0);
    assert!(scene.age_s(&scene.admin, &bob_name) >= Some(ENDS_IN_S), "Bob's session is the same");
    let at_the_rib = scene.age_s(&scene.rib_admin, &router_name);
    assert!(at_the_rib >= Some(ENDS_IN_S), "the router's session is the same");
    let metrics = scene.status_at(&bob_admin);
    assert_eq!(metrics["membership"]["rights"], serde_json::json!(["join"]));
    bob.end();
}

#[test]
fn rights_are_narrowed_and_given_back_and_a_bad_file_changes_nothing() {
    let scene = Scene::start(|_| {});
    let place = &scene.place;
    let (bob, bob_name, bob_admin) = scene.receive("node-bob.key");
    let reached = || place.run(&scene.ping(&bob_name, "1")).code == 0;
    assert!(reached());

    // It says nothing that holds: the one from before is shown.
    let good = std::fs::read_to_string(place.path("node-bob.membership")).unwrap();
    put(place, "node-bob.key", &good[..good.len() - 9]);
    bob.wait_for_error("going on with the membership from before");
    let alices = std::fs::read_to_string(place.path("node-alice.membership")).unwrap();
    put(place, "node-bob.key", &alices);
    bob.wait_for_error("this membership is that of");
    assert!(reached());
    let told = scene.status_at(&bob_admin)["membership"].clone();
    assert_eq!(told["rights"], serde_json::json!(["join"]), "{told}");

    // Without the right to join it is let in no longer; and is again when it is given back.
    give(place, "node-bob.key", Rights::PUBLISH, now_s() + 900);
    wait_for("Bob is out", || scene.age_s(&scene.admin, &bob_name).is_none() || !reached());
    let why = place.run(&["why", &bob_name, "--admin", &scene.admin]);
    assert!(why.output.contains("does not give it the right to join"), "{}", why.output);
    give(place, "node-bob.key", Rights::JOIN, now_s() + 900);
    wait_for("Bob is back", reached);

    // A RIB does the same at its next look, and a signal makes it look at once.
    give(place, "rib-1.key", Rights::JOIN, now_s() + 900);
    scene.rib.nudge("HUP");
    wait_for("the RIB shows it", || {
        scene.status_at(&scene.rib_admin)["membership"]["rights"] == serde_json::json!(["join"])
    });
    assert!(reached());
}
