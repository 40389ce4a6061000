//! `rhumb capability`: what is made, what it says, and what is answered to what is wrong.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::os::unix::fs::PermissionsExt;

use crate::harness::Place;
use crate::keyzone::{KeyZone, WAYPOINTS, ZONE};

const ANY: &str = "127.0.0.1:0";

#[test]
fn a_capability_is_minted_delegated_twice_and_shown_without_its_secret() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let resolver = server.address.to_string();
    let made = zone.capability(&[
        "delegate",
        "--from",
        "42.principal",
        "--prefix",
        "203.0.112.0/20",
        "--id",
        "7",
        "--waypoint",
        WAYPOINTS[0],
        "--resolver",
        &resolver,
        "--out",
        "customer.capability",
    ]);
    assert_eq!((&made["levels"], &made["id"]), (&1.into(), &7.into()));
    let further = zone.capability(&[
        "delegate",
        "--from",
        "customer.capability",
        "--prefix",
        "203.0.113.0/24",
        "--id",
        "8",
        "--out",
        "branch.capability",
    ]);
    assert_eq!((&further["levels"], &further["not_after_s"]), (&2.into(), &made["not_after_s"]));
    let reply = zone.capability(&[
        "delegate",
        "--from",
        "branch.capability",
        "--reply-to",
        "203.0.113.9",
        "--id",
        "9",
    ]);
    assert_eq!((&reply["levels"], &reply["prefix"]), (&3.into(), &"203.0.113.9/32".into()));
    let shown = zone.capability(&["inspect", "branch.capability"]);
    assert_eq!(shown["principal"], 42);
    assert_eq!(shown["delegations"][1]["prefix"], "203.0.113.0/24");
    assert_eq!((&shown["suite"], &shown["covers_payload"]), (&"header-aes".into(), &false.into()));
    let for_people = zone.place.run(&["capability", "inspect", "branch.capability"]).output;
    assert!(for_people.contains("whoever is on the way can replace the payload"), "{for_people}");
    for command in [&["waypoint"][..], &["keyserver"], &["capability", "mint"]] {
        let help = zone.place.run(&[command, &["--help"]].concat()).output;
        assert!(help.contains("cover the header only"), "{help}");
    }
    assert_eq!(shown["is_over"], false);

    let delegate = |from: &str, more: &[&str]| {
        let own = ["capability", "delegate", "--from", from, "--id", "1", "--out", "x.capability"];
        zone.place.run(&[&own, more].concat())
    };
    delegate("branch.capability", &["--prefix", "203.0.112.0/24"])
        .is_refused_with(&["not within what was delegated"]);
    delegate("192.0.2.1-9.capability", &["--reply-to", "203.0.113.9"])
        .is_refused_with(&["delegations"]);
    delegate("42.principal", &["--prefix", "203.0.113.0/24"]).is_refused_with(&[
        "--waypoint",
        WAYPOINTS[0],
        WAYPOINTS[1],
    ]);
    delegate("42.principal", &["--prefix", "203.0.113.0/24", "--waypoint", "192.0.2.9"])
        .is_refused_with(&["does not name waypoint 192.0.2.9"]);
    delegate("a.master", &["--prefix", "203.0.113.0/24"]).is_refused_with(&["a.master"]);
    let again = zone.place.run(&[
        "capability",
        "delegate",
        "--from",
        "customer.capability",
        "--prefix",
        "203.0.113.0/24",
        "--id",
        "8",
        "--out",
        "branch.capability",
    ]);
    again.is_refused_with(&["branch.capability exists", "never overwritten"]);
}

#[test]
fn files_are_their_owners_alone_and_inspect_shows_no_secret() {
    let zone = KeyZone::new(ANY);
    let files = ["42.principal", "principals", "a.master", "operator.tsig"];
    for (file, kind) in files.into_iter().zip(["principal", "principals", "master", "signer"]) {
        let path = zone.place.path(file);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
        let text = std::fs::read_to_string(&path).unwrap();
        let json = zone.place.run(&["--json", "capability", "inspect", file]);
        assert_eq!(json.object()["kind"], kind);
        let people = zone.place.run(&["capability", "inspect", file]);
        for secret in text.split(|c: char| c.is_whitespace() || "\";".contains(c)) {
            let shown = json.output.contains(secret) || people.output.contains(secret);
            assert!(secret.len() < 24 || !shown, "{file}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let open = zone.place.run(&["capability", "inspect", file]);
        open.is_refused_with(&["mode 640", "chmod 600"]);
    }
    zone.place.write("other", "hello\n");
    let path = zone.place.path("other");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    zone.place.run(&["capability", "inspect", "other"]).is_refused_with(&["it is no capability"]);
    zone.place.run(&["capability", "inspect", "none"]).is_refused_with(&["no file none"]);
}

#[test]
fn nothing_is_made_twice() {
    let zone = KeyZone::new(ANY);
    let book = std::fs::read(zone.place.path("principals")).unwrap();
    for (arguments, why) in [
        (&["mint", "42", "--out", "again"][..], &["principal 42 is in principals already"][..]),
        (&["mint", "43", "--out", "42.principal"], &["42.principal exists"]),
        (&["mint", "43", "--waypoint", "192.0.2.9"], &["192.0.2.9", "[[keyserver.waypoint]]"]),
        (&["signer", "operator", "--out", "a.tsig"], &["a.tsig exists", "--out"]),
        (&["signer", "two..dots"], &["two..dots"]),
        (&["master", WAYPOINTS[0], "--out", "a.master"], &["a.master exists"]),
        (&["master", WAYPOINTS[0], "--after", "b.master"], &["is the master of 2001:db8::1"]),
    ] {
        zone.place.run(&[&["capability"], arguments].concat()).is_refused_with(why);
    }
    assert_eq!(std::fs::read(zone.place.path("principals")).unwrap(), book);
    let one = zone.capability(&["mint", "43", "--waypoint", WAYPOINTS[1]]);
    assert_eq!(one["waypoints"].as_array().unwrap().len(), 1);
    let next =
        zone.capability(&["master", WAYPOINTS[0], "--after", "a.master", "--out", "a2.master"]);
    assert_eq!(next["epoch"], 2);
}

#[test]
fn the_key_servers_configuration_is_checked_to_the_line() {
    let zone = KeyZone::new(ANY);
    let good = std::fs::read_to_string(zone.place.path("rhumb.toml")).unwrap();
    let checked = zone.place.run(&["--json", "keyserver", "--check"]);
    assert_eq!(checked.code, 0, "{}", checked.errors);
    assert_eq!(checked.object()["principals"], 1);
    assert!(!zone.place.path("revocations").exists());
    for (from, to, why) in [
        ("operators", "operator", &["line 5", "did you mean `operators`?"][..]),
        ("follower = \"a.tsig\"", "folower = \"a.tsig\"", &["line 10", "did you mean `follower`?"]),
        (
            "operators = [\"operator.tsig\"]\n",
            "",
            &["nobody could revoke", "rhumb capability signer"],
        ),
        (&format!("zone = \"{ZONE}\"\n"), "", &["no zone", "zone ="]),
        ("addresses = [\"127.0.0.53\"]\n", "", &["in the zone itself", "addresses"]),
        ("a.master", "c.master", &["no file c.master", "rhumb capability master 192.0.2.1"]),
        ("a.master", "b.master", &["is that of 2001:db8::1, not of 192.0.2.1"]),
        ("b.tsig", "a.tsig", &["another key is named a.example"]),
        ("window_bits = 10", "window_bits = 9", &["line 8", "10, 11 or 12"]),
        ("2001:db8::1", "192.0.2.1", &["192.0.2.1 is there twice"]),
        (
            "follower = \"a",
            "suite = \"rot13\"\nfollower = \"a",
            &["line 10", "no suite", "header-aes"],
        ),
        ("operators", "rate_per_s = 0\noperators", &["line 5", "1 or more"]),
        ("127.0.0.1:0\"]", "here\"]", &["line 3", "`here` is not an address"]),
    ] {
        zone.place.write("rhumb.toml", &good.replacen(from, to, 1));
        zone.place.run(&["keyserver", "--check"]).is_refused_with(why);
    }
    let place = Place::new();
    place.run(&["keyserver"]).is_refused_with(&["nobody could revoke"]);
    place.run(&["capability", "mint", "1"]).is_refused_with(&["no zone"]);
}

#[test]
fn whoever_is_not_answered_is_told_why() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let resolver = server.address.to_string();
    let fetch = || {
        zone.place.run(&[
            "capability",
            "delegate",
            "--from",
            "42.principal",
            "--prefix",
            "203.0.113.0/24",
            "--id",
            "1",
            "--waypoint",
            WAYPOINTS[0],
            "--resolver",
            &resolver,
        ])
    };
    assert_eq!(zone.revoke(&server, &["42"]).object()["waypoints"], 2);
    let refused = fetch();
    assert_eq!(refused.code, 1);
    assert!(refused.errors.contains("revoked"), "{}", refused.errors);
    server.running.kill();
    let dead = fetch();
    assert_eq!(dead.code, 1);
    assert!(dead.errors.contains("resolver"), "{}", dead.errors);
    let nobody = zone.place.run(&[
        "capability",
        "revoke",
        "42",
        "--key",
        "operator.tsig",
        "--server",
        &resolver,
    ]);
    nobody.is_refused_with(&["does it run there?"]);
}
