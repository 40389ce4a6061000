//! A domain takes back what made a name its member: by one command, at every router that is there
//! and at one that is started later without any RIB.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::domains::admit;
use crate::harness::{Place, Run, Running, remote};

const ANY: &str = "127.0.0.1:0";
/// Far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A RIB and a router of the domain, which take its members alone.
struct Started {
    running: Running,
    at: String,
    admin: String,
}

fn started(place: &Place, domain: &str, role: &[&str]) -> Started {
    let closed = ["--strangers", "refused", "--admit-domain", domain];
    let plain = ["--listen", ANY, "--admin", ANY];
    let mut running = place.start(&[role, &plain, &closed].concat());
    let ready = running.next_object();
    let (at, admin) = (remote(&ready), ready["admin"].as_str().unwrap().to_owned());
    Started { running, at, admin }
}

fn start_rib(place: &Place, domain: &str, label: &str) -> Started {
    let (key, store) = (format!("rib-{label}.key"), format!("rib-{label}.redb"));
    if !place.path(&key).exists() {
        place.keygen("rib", &key);
    }
    started(place, domain, &["rib", "--key", &key, "--store", &store])
}

fn start_router(place: &Place, domain: &str, label: &str, ribs: &[&str]) -> Started {
    let (key, state) = (format!("router-{label}.key"), format!("router-{label}.state"));
    let mut role = vec!["router", "--key", &key, "--state", &state];
    ribs.iter().for_each(|rib| role.extend(["--rib", rib]));
    started(place, domain, &role)
}

fn status(place: &Place, of: &Started) -> Value {
    place.run(&["--json", "status", "--admin", &of.admin]).object()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ping(place: &Place, from: &str, name: &str, router: &Started) -> Run {
    place.run(&["ping", name, "--count", "1", "--key", from, "--router", &router.at])
}

#[test]
fn who_is_removed_by_one_command_is_out_everywhere_until_it_is_admitted_again() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    admit(&place, "domain.key", "domain-site.key", "join,carry,publish,admit");
    for key in ["router-1.key", "router-2.key"] {
        admit(&place, "domain-site.key", key, "carry,publish");
    }
    let mallory = admit(&place, "domain-site.key", "node-mallory.key", "join");
    admit(&place, "domain-site.key", "node-bob.key", "join");
    let first = start_rib(&place, &domain, "1");
    let second = start_rib(&place, &domain, "2");
    let known = [first.at.clone(), second.at.clone()];
    let at = [known[0].as_str(), known[1].as_str()];
    let one = start_router(&place, &domain, "1", &at);
    let two = start_router(&place, &domain, "2", &at);
    let receive = ["receive", "--key", "node-bob.key", "--router", &one.at];
    let mut bob = place.start(&receive);
    let bob_name = bob.next_object()["name"].as_str().unwrap().to_owned();
    for router in [&one, &two] {
        let reached = ping(&place, "node-mallory.key", &bob_name, router);
        assert_eq!(reached.code, 0, "{}{}", reached.output, reached.errors);
    }
    let receive = ["receive", "--key", "node-mallory.key", "--router", &two.at];
    let mut listening = place.start(&receive);
    listening.next_object();

    // By a key of its domain that may admit; one RIB is away, and is said to lack it.
    second.running.kill();
    let remove = ["domain", "remove", &mallory, "--key", "domain-site.key"];
    let run = place.run(&[&remove[..], &["--rib", at[0], "--rib", at[1]]].concat());
    assert_eq!(run.code, 1, "{}{}", run.output, run.errors);
    assert!(run.output.contains(&format!("stored by {}", at[0])), "{}", run.output);
    assert!(run.output.contains(&format!("not stored by {}", at[1])), "{}", run.output);
    assert!(run.errors.contains("1 of 2 RIBs"), "{}", run.errors);
    for router in [&one, &two] {
        wait_for("it is heard", || status(&place, router)["removals"] == 1);
        let refused = ping(&place, "node-mallory.key", &bob_name, router);
        assert_eq!(refused.code, 2, "{}{}", refused.output, refused.errors);
    }
    assert_eq!(status(&place, &first)["removals"], 1);
    assert_eq!(status(&place, &two)["counters"]["members_removed"], 1);
    let why = place.run(&["why", &mallory, "--admin", &two.admin]);
    assert!(why.output.contains("it was removed from"), "{}", why.output);

    // A router that is killed, and starts again while no RIB is there.
    first.running.kill();
    two.running.kill();
    let two = start_router(&place, &domain, "2", &at);
    assert_eq!(status(&place, &two)["removals"], 1);
    assert_eq!(ping(&place, "node-mallory.key", &bob_name, &two).code, 2);
    // A RIB that is killed has it still, and tells a router that never heard.
    let rib = start_rib(&place, &domain, "1");
    assert_eq!(status(&place, &rib)["removals"], 1);
    std::fs::remove_file(place.path("router-2.state")).unwrap();
    two.running.kill();
    let two = start_router(&place, &domain, "2", &[&rib.at]);
    wait_for("it is told", || status(&place, &two)["removals"] == 1);

    // Admitted again, it is a member again.
    let again = ["domain", "admit", &mallory, "--key", "domain-site.key", "--rights", "join"];
    std::fs::remove_file(place.path("node-mallory.membership")).unwrap();
    let run = place.run(&[&again[..], &["--out", "node-mallory.membership"]].concat());
    assert_eq!(run.code, 0, "{}", run.errors);
    let receive = ["receive", "--key", "node-bob.key", "--router", &two.at];
    bob.kill();
    let mut bob = place.start(&receive);
    bob.next_object();
    let reached = ping(&place, "node-mallory.key", &bob_name, &two);
    assert_eq!(reached.code, 0, "{}{}", reached.output, reached.errors);
}

#[test]
fn a_removal_is_signed_off_line_carried_and_said_what_is_wrong_with() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    let mallory = place.keygen("node", "mallory.key");
    let remove = |more: &[&str]| place.run(&[&["domain", "remove"][..], more].concat());
    let signed = remove(&[&mallory, "--out", "mallory.removal"]);
    assert_eq!(signed.code, 0, "{}", signed.errors);
    assert!(signed.output.contains("is my member no longer"), "{}", signed.output);
    remove(&[&mallory, "--out", "mallory.removal"]).is_refused_with(&["is not overwritten"]);
    let inspected = place.run(&["--json", "domain", "inspect", "mallory.removal"]).object();
    assert_eq!(
        (&inspected["issuer"], &inspected["removed"]),
        (&domain.clone().into(), &mallory.clone().into())
    );

    remove(&[&mallory, "--key", "mallory.key", "--out", "x"])
        .is_refused_with(&["only who may admit"]);
    remove(&[&domain, "--out", "x"]).is_refused_with(&["neither itself"]);
    remove(&[&mallory]).refused_by_the_command_line("--rib");
    let text = std::fs::read_to_string(place.path("mallory.removal")).unwrap();
    place.write("bent.removal", &text[..text.len() - 9]);
    place.run(&["domain", "inspect", "bent.removal"]).is_refused_with(&["bent.removal"]);

    // A RIB of that domain takes it from whoever carries it, and one of another does not.
    let other = place.keygen("domain", "other.key");
    let start = |of: &str, label: &str| {
        let (key, store) = (format!("rib-{label}.key"), format!("{label}.redb"));
        place.keygen("rib", &key);
        let rib = ["rib", "--key", &key, "--store", &store, "--listen", ANY, "--domain", of];
        let mut running = place.start(&rib);
        let at = remote(&running.next_object());
        (running, at)
    };
    let (_ours, ours) = start(inspected["issuer"].as_str().unwrap(), "ours");
    let (_others, others) = start(&other, "others");
    let carry = |rib: &str| remove(&["--from", "mallory.removal", "--rib", rib]);
    let told = carry(&ours);
    assert_eq!(told.code, 0, "{}{}", told.output, told.errors);
    assert_eq!(carry(&ours).code, 0, "it is acknowledged again");
    let refused = carry(&others);
    assert_eq!(refused.code, 1, "{}", refused.output);
    assert!(refused.output.contains("it has to be of this domain"), "{}", refused.output);
}
