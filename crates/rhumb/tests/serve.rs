//! A name that moves between servers: its owner certifies one and then
//! another; whoever sends to it notices nothing.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_trust::{AdCert, Identity, Window};
use rhumb_wire::{Name, Role};

use crate::harness::{Place, remote};
use crate::network::Network;

/// The owner lets `server` answer for `capsule.key` by the AdCert in `file`.
fn certify(place: &Place, server: &str, file: &str) {
    let run = place.run(&["certify", "--server", server, "--out", file]);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert!(run.output.contains(server) && run.output.contains(file), "{}", run.output);
}

#[test]
fn a_capsule_moves_and_whoever_sends_to_it_notices_nothing() {
    let place = Place::new();
    let network = Network::start(&place);
    place.keygen("router", "second.key");
    let (rib, key) = (remote(&network.rib_ready), "--key");
    let mut second =
        place.start(&["router", "--listen", "127.0.0.1:0", key, "second.key", "--rib", &rib]);
    let routers = [network.router(), remote(&second.next_object())];
    let capsule = place.keygen("capsule", "capsule.key");
    let servers = ["one", "two"].map(|server| place.keygen("node", &format!("{server}.key")));
    let serve = |number: usize, name: &str| {
        std::fs::create_dir_all(place.path(name)).unwrap();
        let (key, word) = (format!("{name}.key"), format!("{name}.adcert"));
        place.start(&[
            "receive",
            "--dir",
            name,
            "--key",
            &key,
            "--serve",
            &word,
            "--router",
            &routers[number],
        ])
    };
    let send = |text: &str| {
        place.write("letter", text);
        let sent =
            place.run(&["--json", "send", "letter", "--to", &capsule, "--router", &routers[1]]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
    };

    certify(&place, &servers[0], "one.adcert");
    let mut one = serve(0, "one");
    let ready = one.next_object();
    assert_eq!(ready["serves"][0], capsule.as_str());
    assert_eq!(ready["name"], servers[0].as_str(), "and it has its own name besides");
    send("first");
    let received = one.next_object();
    assert_eq!(received["to"], capsule.as_str());
    assert_eq!(std::fs::read_to_string(place.path("one/letter")).unwrap(), "first");

    // Somebody pings all the while.
    let mut ping =
        place.start_for_people(&["ping", &capsule, "--count", "1000000", "--router", &routers[1]]);
    for _ in 0..5 {
        assert!(ping.next_line().ends_with(" ms"));
    }
    certify(&place, &servers[1], "two.adcert");
    let mut two = serve(1, "two");
    assert_eq!(two.next_object()["serves"][0], capsule.as_str());
    let told = one.next_object();
    assert_eq!((&told["service"], &told["state"]), (&capsule.as_str().into(), &"ended".into()));
    assert!(told["reason"].as_str().unwrap().contains("moved it to another server"));
    let mut lines = ping.lines_so_far();
    // As many more come as may have been under way, and some.
    lines.extend((0..20).map(|_| ping.next_line()));
    assert!(lines.iter().all(|line| line.ends_with(" ms")), "{lines:?}");
    ping.kill();

    send("second");
    assert_eq!(two.next_object()["to"], capsule.as_str());
    assert_eq!(std::fs::read_to_string(place.path("two/letter")).unwrap(), "second");
    assert!(one.lines_so_far().is_empty(), "told once, and it got nothing any more");
    // It may not come back by the old word, wherever it asks; and its own name is none the worse.
    assert_eq!(one.end().0, 0);
    for router in &routers {
        place
            .run(&["receive", key, "one.key", "--serve", "one.adcert", "--router", router])
            .is_refused_with(&[&capsule, "moved it to another server"]);
    }
    send("third");
    assert!(two.next_object()["received"].as_str().unwrap().ends_with("letter.1"));
    assert_eq!(two.end().0, 0);
    let gone = place.run(&["ping", &capsule, "--router", &routers[0]]);
    assert_eq!(gone.code, 1);
    assert!(gone.errors.contains("no way to that name is known"), "{}", gone.errors);
}

#[test]
fn a_renewed_adcert_is_read_when_asked_and_a_bad_one_changes_nothing() {
    let place = Place::new();
    let network = Network::start(&place);
    let server: Name = place.keygen("node", "server.key").parse().unwrap();
    let owner = Identity::generate(Role::Capsule, 1).unwrap();
    let capsule = owner.name().to_string();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let sign = |owner: &Identity, sequence: u64, lasts_s: u64| {
        std::fs::remove_file(place.path("word")).ok();
        let window = Window::starting(now_s, lasts_s);
        AdCert::sign(owner, server, sequence, window).unwrap().save(&place.path("word")).unwrap();
    };
    let until = || {
        let facts = place.run(&["--json", "inspect", "word"]).object();
        facts["not_after_s"].as_u64().unwrap()
    };
    sign(&owner, 2, 3600);
    let router = network.router();
    let arguments = ["--log", "info", "receive", "--key", "server.key", "--serve", "word"];
    let mut serving = place.start(&[&arguments[..], &["--router", &router]].concat());
    assert_eq!(serving.next_object()["serves"][0], capsule.as_str());
    assert_eq!(until(), now_s + 3600);

    // Older than the one in use, of another name, none at all: each
    // is said, and the name is served as before.
    sign(&owner, 1, 3600);
    serving.nudge("HUP");
    serving.wait_for_error("going on with the AdCert from before");
    sign(&Identity::generate(Role::Capsule, 1).unwrap(), 9, 3600);
    serving.nudge("HUP");
    serving.wait_for_error("of another name");
    place.write("word", "not an AdCert\n");
    serving.nudge("HUP");
    serving.wait_for_error("is no AdCert");
    let ping = |router: &str| place.run(&["ping", &capsule, "--count", "1", "--router", router]);
    assert_eq!(ping(&router).code, 0);

    sign(&owner, 3, 7200);
    serving.nudge("HUP");
    serving.wait_for_error("read the AdCert again");
    let told = serving.next_object();
    assert_eq!((&told["service"], &told["state"]), (&capsule.as_str().into(), &"serving".into()));
    assert_eq!(ping(&router).code, 0);
    assert_eq!(serving.end().0, 0);
}

#[test]
fn an_adcert_is_read_in_words_and_is_no_secret() {
    let place = Place::new();
    let server = place.keygen("node", "server.key");
    let label = ["--json", "keygen", "--role", "capsule", "--label", "water levels"];
    let capsule = place.run(&label).object()["name"].as_str().unwrap().to_owned();
    certify(&place, &server, "capsule.adcert");
    place
        .run(&["certify", "--server", &server])
        .is_refused_with(&["capsule.adcert exists", "--out"]);
    let words = place.run(&["inspect", "capsule.adcert"]);
    assert_eq!(words.code, 0, "{}", words.errors);
    for what in [&capsule, &server, "(water levels)", "may answer for me", " days left)"] {
        assert!(words.output.contains(what), "`{what}` is not in: {}", words.output);
    }
    let facts = place.run(&["--json", "inspect", "capsule.adcert"]).object();
    assert_eq!(facts["adcert"], capsule.as_str());
    assert_eq!(facts["server"], server.as_str());
    assert_eq!(facts["holds"], true);
    let lasts_s = facts["not_after_s"].as_u64().unwrap() - facts["not_before_s"].as_u64().unwrap();
    assert_eq!(lasts_s, 7 * 86_400);
    let text = std::fs::read_to_string(place.path("capsule.adcert")).unwrap();
    let key = std::fs::read_to_string(place.path("capsule.key")).unwrap();
    let secret = key.lines().find_map(|line| line.strip_prefix("key ")).unwrap();
    assert!(!text.contains(secret));
}

#[test]
fn what_does_not_serve_is_refused_before_a_router_is_asked() {
    let place = Place::new();
    let server: Name = place.keygen("node", "server.key").parse().unwrap();
    let other: Name = place.keygen("node", "other.key").parse().unwrap();
    let owner = Identity::generate(Role::Capsule, 1).unwrap();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let make = |file: &str, server: Name, begins_s: u64| {
        let window = Window::starting(begins_s, 3600);
        AdCert::sign(&owner, server, 1, window).unwrap().save(&place.path(file)).unwrap();
    };
    make("elsewhere", other, now_s);
    make("past", server, now_s - 7200);
    make("future", server, now_s + 7200);
    place.write("text", "not an AdCert\n");
    make("good", server, now_s);
    let text = std::fs::read_to_string(place.path("good")).unwrap();
    place.write("cut", &text[..text.len() - 9]);
    // One hex digit of the signature, which is at the end.
    let last = if text.ends_with("0\n") { "1\n" } else { "0\n" };
    place.write("forged", &format!("{}{last}", &text[..text.len() - 2]));
    let serve = |file: &str| {
        let key = ["--key", "server.key", "--router", "127.0.0.1:9"];
        place.run(&[&["receive", "--serve", file], &key[..]].concat())
    };
    let names = [server, other].map(|name| name.to_string());
    serve("elsewhere").is_refused_with(&["elsewhere", &names[0], &names[1], "rhumb certify"]);
    serve("past").is_refused_with(&["past", "expired", "rhumb certify"]);
    serve("future").is_refused_with(&["future", "not valid for another", "clock"]);
    serve("text").is_refused_with(&["text is no AdCert", "rhumb certify"]);
    serve("server.key").is_refused_with(&["server.key is no AdCert"]);
    serve("cut").is_refused_with(&["cut", "damaged in line 4"]);
    serve("forged").is_refused_with(&["forged", "signature is not the issuer's"]);
    serve("nothing").is_refused_with(&["cannot read nothing", "No such file"]);
    place
        .run(&["receive", "--serve", "good", "--router", "127.0.0.1:9"])
        .is_refused_with(&["--key"]);
    // And on the owner's side.
    let certify = |key: &str| place.run(&["certify", "--server", &names[0], "--key", key]);
    certify("server.key").is_refused_with(&["names a node, not a capsule", "--role capsule"]);
    certify("none.key").is_refused_with(&["rhumb keygen --role capsule --out none.key"]);
    let days = place.run(&["certify", "--server", &names[0], "--days", "31"]);
    assert_eq!(days.code, 2);
    assert!(days.errors.contains("1..=30"), "{}", days.errors);
}

#[test]
fn when_the_newer_server_is_killed_the_older_one_serves_again() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let capsule = place.keygen("capsule", "capsule.key");
    let serve = |name: &str| {
        let server = place.keygen("node", &format!("{name}.key"));
        let (key, word) = (format!("{name}.key"), format!("{name}.adcert"));
        certify(&place, &server, &word);
        let mut serving =
            place.start(&["receive", "--key", &key, "--serve", &word, "--router", &router]);
        assert_eq!(serving.next_object()["serves"][0], capsule.as_str());
        serving
    };
    let mut older = serve("older");
    let newer = serve("newer");
    assert_eq!(older.next_object()["state"], "ended");
    newer.kill();
    // The router finds it silent after 20 s.
    let begin = Instant::now();
    let mut told = Vec::new();
    while told.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(90), "{}", older.errors_so_far());
        std::thread::sleep(Duration::from_millis(100));
        told = older.lines_so_far();
    }
    assert!(told[0].contains("serving"), "{told:?}");
    place.write("letter", "who is there?");
    let sent = place.run(&["send", "letter", "--to", &capsule, "--router", &router]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let received = std::iter::from_fn(|| Some(older.next_object()))
        .find(|said| said["received"].is_string())
        .unwrap();
    assert_eq!(received["to"], capsule.as_str());
}
