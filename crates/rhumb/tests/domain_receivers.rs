//! Nodes let in the members of a domain, and nobody else: their services, and files for them. Who
//! was removed is out, even where routers carry for everybody.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::domains::admit;
use crate::harness::{Place, Running, remote};
use crate::ports::{curl, fetched, web_server};

const ANY: &str = "127.0.0.1:0";
const BODY: &[u8] = b"for members";
/// Far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A domain, a RIB that keeps its removals, and a router that carries for everybody.
struct Rig {
    place: Place,
    domain: String,
    rib: Option<Running>,
    rib_at: String,
    _router: Running,
    router: String,
}

impl Rig {
    fn start() -> Self {
        let place = Place::new();
        let domain = place.keygen("domain", "domain.key");
        place.keygen("rib", "rib.key");
        place.keygen("router", "router.key");
        let (rib, rib_at) = start_rib(&place, &domain, ANY);
        let router = ["router", "--listen", ANY, "--key", "router.key", "--rib", &rib_at];
        let mut running = place.start(&router);
        let router = remote(&running.next_object());
        Self { place, domain, rib: Some(rib), rib_at, _router: running, router }
    }

    /// A node of this key brings the service of `name` here, as soon as it is let in.
    fn forward(&self, key: &str, name: &str) -> (Running, Value) {
        let since = Instant::now();
        loop {
            let mut running = self.place.start(&self.forwarding(key, &format!("{name}:80")));
            if let Some(ready) = running.next_object_or_end() {
                return (running, ready);
            }
            assert!(since.elapsed() < PATIENCE, "{}", running.errors_so_far());
        }
    }

    fn forwarding<'a>(&'a self, key: &'a str, service: &'a str) -> [&'a str; 7] {
        ["forward", ANY, service, "--key", key, "--router", &self.router]
    }

    fn serve(&self, to: &str) -> Running {
        let offered = ["serve", "80", "--to", to, "--key", "bob.key", "--router", &self.router];
        let members = ["--allow-domain", &self.domain, "--rib", &self.rib_at];
        let mut running = self.place.start(&[&offered[..], &members].concat());
        running.next_object();
        running
    }

    fn start_rib(&mut self) {
        let address = self.rib_at.split_once('@').unwrap().1.to_owned();
        self.rib = Some(start_rib(&self.place, &self.domain, &address).0);
    }
}

fn start_rib(place: &Place, domain: &str, listen: &str) -> (Running, String) {
    let keeps = ["--key", "rib.key", "--store", "rib.redb", "--domain", domain];
    let mut running = place.start(&[&["rib", "--listen", listen][..], &keeps].concat());
    let at = remote(&running.next_object());
    (running, at)
}

fn is_served(ready: &Value) -> bool {
    let output = curl(ready, &[]).output().unwrap();
    assert!(!output.status.success() || fetched(&output) == BODY);
    output.status.success()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_service_is_for_members_until_they_are_removed() {
    let mut rig = Rig::start();
    let bob = rig.place.keygen("node", "bob.key");
    admit(&rig.place, "domain.key", "node-alice.key", "join");
    let mallory = admit(&rig.place, "domain.key", "node-mallory.key", "join");
    rig.place.keygen("node", "eve.key");
    let web = web_server(BODY.to_vec()).to_string();
    let mut server = rig.serve(&web);
    let [alice, mallorys] =
        ["node-alice.key", "node-mallory.key"].map(|key| rig.forward(key, &bob));
    assert!(is_served(&alice.1) && is_served(&mallorys.1));
    // Who shows nothing hears so before a program relies on it.
    let service = format!("{bob}:80");
    let eve = rig.place.run(&rig.forwarding("eve.key", &service));
    eve.is_refused_with(&["takes no connections from this name"]);

    let remove = ["domain", "remove", &mallory, "--key", "domain.key", "--rib", &rig.rib_at];
    let run = rig.place.run(&remove);
    assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    wait_for("she is put out", || !is_served(&mallorys.1));
    assert!(is_served(&alice.1));
    let mut refused = std::iter::repeat_with(|| server.next_object());
    assert!(refused.any(|it| it["refused"] == mallory.as_str()), "it is told");

    // The service begins anew while no RIB is there: nobody gets in by a membership, until one is.
    rig.rib.take().unwrap().kill();
    server.kill();
    let server = rig.serve(&web);
    server.wait_for_error("does not tell who was removed");
    assert!(!is_served(&mallorys.1));
    assert!(!is_served(&alice.1), "who knows whether she was removed?");
    rig.start_rib();
    wait_for("the RIB has told", || is_served(&alice.1));
    assert!(!is_served(&mallorys.1));
    drop(server);
}

#[test]
fn without_a_rib_it_is_said_that_removals_are_not_heard() {
    let rig = Rig::start();
    let bob = rig.place.keygen("node", "bob.key");
    admit(&rig.place, "domain.key", "node-alice.key", "join");
    let web = web_server(BODY.to_vec()).to_string();
    let offered = ["serve", "80", "--to", &web, "--key", "bob.key", "--router", &rig.router];
    let members = ["--allow-domain", &rig.domain];
    let mut server = rig.place.start(&[&offered[..], &members].concat());
    server.next_object();
    server.wait_for_error("give --rib");
    let (_alice, ready) = rig.forward("node-alice.key", &bob);
    assert!(is_served(&ready));
}

#[test]
fn files_come_from_members_and_from_nobody_else() {
    let rig = Rig::start();
    let bob = rig.place.keygen("node", "bob.key");
    let alice = admit(&rig.place, "domain.key", "node-alice.key", "join");
    rig.place.keygen("node", "eve.key");
    rig.place.write("small", "a few bytes");
    std::fs::create_dir(rig.place.path("inbox")).unwrap();
    let receive = ["receive", "--dir", "inbox", "--key", "bob.key", "--router", &rig.router];
    let members = ["--from-domain", &rig.domain, "--rib", &rig.rib_at];
    let mut receiver = rig.place.start(&[&receive[..], &members].concat());
    receiver.next_object();
    let send = |key: &str| {
        let to = ["--to", &bob, "--router", &rig.router, "--key", key];
        rig.place.run(&[&["--quiet", "send", "small"][..], &to].concat())
    };
    wait_for("the RIB has told", || send("node-alice.key").code == 0);
    let mut told = std::iter::repeat_with(|| receiver.next_object());
    let received = told.find(|it| it["from"].is_string()).unwrap();
    assert_eq!(received["from"], alice.as_str());
    let refused = send("eve.key");
    assert_eq!(refused.code, 1, "{}", refused.errors);
    assert!(refused.errors.contains("takes no connections from this name"), "{}", refused.errors);
    let files = std::fs::read_dir(rig.place.path("inbox")).unwrap();
    assert!(files.count() >= 1);
}
