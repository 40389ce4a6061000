//! `rhumb member` without an exchange or a router: what it refuses to
//! begin with, and what it says while it waits.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::os::unix::fs::PermissionsExt;

use crate::harness::Place;

/// A folder with a key, a roster that has it, and settings for addresses at which nobody is.
fn place() -> (Place, String) {
    let place = Place::new();
    let name = place.keygen("node", "member.key");
    place.write("roster.toml", &site(64500, &name));
    place.write("member.toml", &settings(64500, &name));
    (place, name)
}

fn site(asn: u32, name: &str) -> String {
    format!("[[site]]\nmember = \"Example Net\"\nsite = \"fra1\"\nasn = {asn}\nname = \"{name}\"\n")
}

fn settings(asn: u32, name: &str) -> String {
    let server = format!("{name}@127.0.0.1:1");
    format!(
        "[member]\nkey = \"member.key\"\nroster = \"roster.toml\"\nasn = {asn}\nexchange_asn = 64499\n\
         exchange = [\"{server}\"]\nneutral = [\"{server}\"]\ncontrol = \"member.sock\"\n\
         [member.bgp]\nrouter = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:0\"\nid = \"192.0.2.3\"\n"
    )
}

const CHECK: [&str; 4] = ["--config", "member.toml", "member", "--check"];

#[test]
fn what_is_in_order_is_said_to_be() {
    let (place, name) = place();
    let run = place.run(&[&["--json"], &CHECK[..]].concat());
    let told = run.object();
    assert_eq!(told["checked"], true);
    assert_eq!(told["site"], "Example Net/fra1");
    assert_eq!(told["name"], *name);
    assert_eq!(told["servers"], 2);
}

#[test]
fn a_stranger_to_the_roster_and_another_as_are_refused() {
    let (place, name) = place();
    let other = place.keygen("node", "other.key");
    place.write("roster.toml", &site(64500, &other));
    place.run(&CHECK).is_refused_with(&["roster.toml has no site with our key", &name]);
    place.write("roster.toml", &site(64501, &name));
    place.run(&CHECK).is_refused_with(&["our key for AS 64501", "64500"]);
    place.write("roster.toml", "");
    place.run(&CHECK).is_refused_with(&["roster.toml", "no site"]);
    std::fs::remove_file(place.path("member.key")).unwrap();
    place.run(&CHECK).is_refused_with(&["no key file member.key", "rhumb keygen"]);
}

#[test]
fn it_answers_while_nobody_is_there_and_takes_its_socket_away() {
    let (place, _) = place();
    let ask = |question: &[&str]| {
        place.run(&[&["--json", "--config", "member.toml", "member"], question].concat())
    };
    ask(&["routes"]).is_refused_with(&["nothing answers at control socket member.sock"]);
    let mut running = place.start(&["--config", "member.toml", "member"]);
    let ready = running.next_object();
    assert_eq!(ready["site"], "Example Net/fra1");
    let mode = std::fs::metadata(place.path("member.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = ask(&["status"]).object();
    assert_ne!(status["router"]["state"], "established");
    assert_eq!(status["exchange"]["synced"], false);
    assert_eq!(status["servers"].as_array().unwrap().len(), 2);
    let routes = ask(&["routes", "192.0.2.0/24"]).object();
    assert_eq!(routes, serde_json::json!({ "routes": [], "own": [] }));
    let run = ask(&["routes", "192.0.2.1/24"]);
    assert_eq!(run.code, 2, "{}", run.errors);
    assert!(run.errors.contains("is no prefix"), "{}", run.errors);

    // A roster that is wrong changes nothing.
    place.write("roster.toml", "nonsense");
    running.nudge("HUP");
    running.wait_for_error("all stays as it was");
    assert_eq!(ask(&["status"]).object()["reloads"], 0);
    assert_eq!(running.signal("TERM"), 0);
    assert!(!place.path("member.sock").exists());
}
