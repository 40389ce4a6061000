//! Who may join a router: rules in options and files, read
//! again without loss, and those refused are shown.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running, remote};
use crate::network::Network;

/// A router beside the network's own, with more options.
fn router(place: &Place, network: &Network, more: &[&str]) -> (Running, Value) {
    if !place.path("closed.key").exists() {
        place.keygen("router", "closed.key");
    }
    let rib = remote(&network.rib_ready);
    let any = "127.0.0.1:0";
    let mut arguments =
        vec!["router", "--listen", any, "--admin", any, "--key", "closed.key", "--rib", &rib];
    arguments.extend(more);
    let mut router = place.start(&arguments);
    let ready = router.next_object();
    (router, ready)
}

fn status(place: &Place, ready: &Value) -> Value {
    place.run(&["--json", "status", "--admin", ready["admin"].as_str().unwrap()]).object()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn without_a_rule_everybody_may_join() {
    let place = Place::new();
    let network = Network::start(&place);
    let mut node = place.start(&["receive", "--router", &network.router()]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    let ping = place.run(&["ping", &name, "--count", "1", "--router", &network.router()]);
    assert_eq!(ping.code, 0, "{}", ping.errors);
    assert_eq!(status(&place, &network.router_ready)["refused"], serde_json::json!([]));
}

#[test]
fn a_closed_router_takes_whom_it_admits_and_shows_whom_it_refused() {
    let place = Place::new();
    let network = Network::start(&place);
    let alice = place.keygen("node", "alice.key");
    let mallory = place.keygen("node", "mallory.key");
    let (_router, ready) = router(&place, &network, &["--strangers", "refused", "--admit", &alice]);
    let closed = remote(&ready);
    let mut receiver = place.start(&["receive", "--key", "alice.key", "--router", &closed]);
    receiver.next_object();
    let refused = place.run(&["ping", &alice, "--key", "mallory.key", "--router", &closed]);
    assert_eq!(refused.code, 2, "{}{}", refused.output, refused.errors);
    let shown = wait_for("who was refused is shown", || {
        status(&place, &ready)["refused"].as_array().and_then(|refused| refused.first().cloned())
    });
    assert_eq!(shown["name"], mallory.as_str(), "{shown}");
    assert_eq!(shown["wanted"], "join", "{shown}");
    assert!(shown["age_s"].is_u64() && shown["times"].as_u64().unwrap() >= 1, "{shown}");
    let people = place.run(&["status", "--admin", ready["admin"].as_str().unwrap()]).output;
    assert!(people.contains("refused:\n") && people.contains(&mallory), "{people}");
}

#[test]
fn rules_are_read_again_while_others_go_on() {
    let place = Place::new();
    let network = Network::start(&place);
    let alice = place.keygen("node", "alice.key");
    place.keygen("node", "bob.key");
    let bob = place.keygen("node", "carol.key");
    let neighbour = network.router_ready["name"].as_str().unwrap();
    place.write("friends", &format!("{alice}\n{neighbour}\n"));
    place.write(
        "own.toml",
        "[router]\nstrangers = \"refused\"\n[[router.access]]\nnames = \"friends\"\n",
    );
    let (router, ready) = router(&place, &network, &["--config", "own.toml"]);
    let closed = remote(&ready);
    let mut receiver = place.start(&["receive", "--key", "alice.key", "--router", &closed]);
    receiver.next_object();
    let ping =
        || place.run(&["ping", &alice, "--count", "1", "--key", "carol.key", "--router", &closed]);
    assert_eq!(ping().code, 2);
    // From elsewhere all the while, which is lost by no change of the rules.
    let mut steady = place.start(&["ping", &alice, "--count", "60", "--router", &network.router()]);
    place.write("friends", &format!("{alice}\n{neighbour}\n{bob} # another one\n"));
    router.nudge("HUP");
    wait_for("whom the new rules admit may join", || (ping().code == 0).then_some(()));
    place.write("friends", "nobody\n");
    router.nudge("HUP");
    router.wait_for_error("going on with the rules from before");
    assert_eq!(ping().code, 0);
    assert_eq!(steady.next_object()["answered"], 60);
    // Whom the rules refuse now loses what it has.
    place.write("friends", "# nobody\n");
    router.nudge("HUP");
    wait_for("Alice is detached", || {
        status(&place, &ready)["attached"].as_array().unwrap().is_empty().then_some(())
    });
}

#[test]
fn a_closed_rib_serves_whom_it_admits_and_shows_whom_it_refused() {
    let place = Place::new();
    for role in ["rib", "router"] {
        place.keygen(role, &format!("{role}.key"));
    }
    let stranger = place.keygen("router", "stranger.key");
    let any = "127.0.0.1:0";
    place.write("friends", "# nobody yet\n");
    let mut rib = place.start(&[
        "rib",
        "--listen",
        any,
        "--admin",
        any,
        "--key",
        "rib.key",
        "--strangers",
        "refused",
        "--admit-file",
        "friends",
    ]);
    let rib_ready = rib.next_object();
    let start = |key: &str| {
        let to_rib = remote(&rib_ready);
        let arguments = ["router", "--listen", any, "--admin", any, "--key", key, "--rib", &to_rib];
        let mut router = place.start(&arguments);
        let ready = router.next_object();
        (router, ready)
    };
    let (refused, refused_ready) = start("stranger.key");
    refused.wait_for_error("does not serve this router");
    let shown = wait_for("who was refused is shown", || {
        let status = status(&place, &rib_ready);
        status["refused"].as_array().and_then(|refused| refused.first().cloned())
    });
    assert_eq!((&shown["name"], &shown["source"]), (&stranger.clone().into(), &"127.0.0.1".into()));
    let own = &status(&place, &refused_ready)["refused_publications"][0];
    assert_eq!(own["name"], stranger.as_str());
    assert!(own["reason"].as_str().unwrap().contains("does not serve"), "{own}");
    // As soon as the rules say so it is served, and nobody has to start again.
    place.write("friends", &format!("{stranger}\n"));
    rib.nudge("HUP");
    wait_for("its statement is stored", || {
        (status(&place, &rib_ready)["stored_names"] == 1).then_some(())
    });
}
