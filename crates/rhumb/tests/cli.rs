//! Wrong input: each is answered by one line that says what and what to do, and by exit code 2.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;

use crate::harness::Place;

#[test]
fn keygen_makes_a_key_that_only_its_owner_can_read_and_never_overwrites_it() {
    let place = Place::new();
    let run = place.run(&["--json", "keygen", "--role", "router", "--label", "north tower"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    let report = run.object();
    assert_eq!(report["role"], "router");
    assert_eq!(report["name"].as_str().unwrap().len(), 52);
    assert_eq!(report["file"], "router.key");
    let mode = std::fs::metadata(place.path("router.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(place.path("router.key")).unwrap();
    place.run(&["keygen", "--role", "router"]).is_refused_with(&[
        "router.key exists",
        "never overwritten",
        "--out",
    ]);
    assert_eq!(std::fs::read(place.path("router.key")).unwrap(), before);
    let long = "x".repeat(65);
    place.run(&["keygen", "--out", "b.key", "--label", &long]).is_refused_with(&["label"]);
    assert!(!place.path("b.key").exists());
}

#[test]
fn a_missing_key_is_answered_with_the_command_that_makes_one() {
    let place = Place::new();
    place.run(&["rib"]).is_refused_with(&["a rib needs a key", "rhumb keygen --role rib"]);
    place
        .run(&["rib", "--key", "no.key"])
        .is_refused_with(&["no key file no.key", "rhumb keygen --role rib --out no.key"]);
    place
        .run(&["router", "--key", "no.key", "--rib", "127.0.0.1:9"])
        .is_refused_with(&["rhumb keygen --role router --out no.key"]);
    let name = place.keygen("node", "a.key");
    place
        .run(&["ping", &name, "--router", "127.0.0.1:9", "--key", "no.key"])
        .is_refused_with(&["rhumb keygen --role node --out no.key"]);
}

#[test]
fn a_key_that_does_not_serve_is_refused_with_its_reason() {
    let place = Place::new();
    place.keygen("node", "node.key");
    place
        .run(&["rib", "--key", "node.key"])
        .is_refused_with(&["names a node, not a rib", "rhumb keygen --role rib"]);

    place.keygen("rib", "open.key");
    std::fs::set_permissions(place.path("open.key"), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    place.run(&["rib", "--key", "open.key"]).is_refused_with(&["chmod 600 open.key"]);

    place.write("damaged.key", "rhumb-key 1\nname x\n");
    std::fs::set_permissions(place.path("damaged.key"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    place.run(&["rib", "--key", "damaged.key"]).is_refused_with(&["damaged.key", "backup"]);

    place.write("words", "open sesame\n");
    let sealed = ["keygen", "--role", "rib", "--out", "sealed.key", "--passphrase-file", "words"];
    assert_eq!(place.run(&sealed).code, 0);
    place
        .run(&["rib", "--key", "sealed.key"])
        .is_refused_with(&["sealed.key is sealed", "RHUMB_PASSPHRASE"]);
    let wrong = place
        .command(&["rib", "--key", "sealed.key"])
        .env("RHUMB_PASSPHRASE", "open barley")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("does not open"));
    place.write("empty", "");
    place
        .run(&["keygen", "--out", "c.key", "--passphrase-file", "empty"])
        .is_refused_with(&["passphrase file empty is empty"]);
}

#[test]
fn ports_in_use_are_named() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = udp.local_addr().unwrap().to_string();
    place.run(&["rib", "--key", "rib.key", "--listen", &taken]).is_refused_with(&[
        &taken,
        "in use",
        "choose another port",
    ]);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = tcp.local_addr().unwrap().to_string();
    place
        .run(&["rib", "--key", "rib.key", "--listen", "127.0.0.1:0", "--admin", &taken])
        .is_refused_with(&[&taken, "in use", "another port"]);
    place
        .run(&["rib", "--key", "rib.key", "--admin", "0.0.0.0:0"])
        .is_refused_with(&["open to others", "loopback"]);
}

#[test]
fn a_store_that_cannot_be_used_is_named() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let open = |store: &str| {
        place.run(&["rib", "--key", "rib.key", "--listen", "127.0.0.1:0", "--store", store])
    };
    open("nowhere/rib.redb").is_refused_with(&["nowhere/rib.redb", "No such file"]);
    place.write("text", &"not a store\n".repeat(1000));
    open("text").is_refused_with(&["text is not a store", "name another file"]);
}

/// An address at which nobody answers: bound, so that nobody else does, and never read.
fn silent() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[test]
fn an_unreachable_rib_is_named_and_the_router_goes_on() {
    let place = Place::new();
    let (_socket, address) = silent();
    place.keygen("router", "router.key");
    let mut router = place.start(&[
        "router",
        "--key",
        "router.key",
        "--listen",
        "127.0.0.1:0",
        "--rib",
        &address,
    ]);
    assert_eq!(router.next_object()["ready"], true);
    let (code, errors) = router.end();
    assert_eq!(code, 0, "{errors}");
    for what in ["RIB", &address, "unreachable", "check", "going on"] {
        assert!(errors.contains(what), "`{what}` is not in: {errors}");
    }
}

#[test]
fn an_unreachable_router_is_named() {
    let place = Place::new();
    let (_socket, address) = silent();
    let name = place.keygen("node", "a.key");
    place.run(&["ping", &name, "--router", &address]).is_refused_with(&[
        "no router answers",
        &address,
        "check",
    ]);
}

#[test]
fn a_router_has_to_know_a_rib_and_how_it_is_reached() {
    let place = Place::new();
    place.keygen("router", "router.key");
    place
        .run(&["router", "--key", "router.key"])
        .is_refused_with(&["a router needs a RIB", "--rib NAME@ADDR"]);
    let rib = ["router", "--key", "router.key", "--rib", "127.0.0.1:9", "--locator", "none"];
    place.run(&rib).is_refused_with(&["--upstream NAME@ADDR"]);
}

#[test]
fn files_that_cannot_be_sent_or_received_are_named_before_anything_is_sent() {
    let place = Place::new();
    let name = place.keygen("node", "a.key");
    let send = |file: &str| place.run(&["send", file, "--to", &name, "--router", "127.0.0.1:9"]);
    send("nothing").is_refused_with(&["cannot send nothing", "No such file"]);
    send("/dev/null").is_refused_with(&["cannot send /dev/null", "rhumb send -"]);
    std::fs::write(place.path("tab\tname"), "x").unwrap();
    send("tab\tname").is_refused_with(&["--name"]);
    let receive = |dir: &str| place.run(&["receive", "--dir", dir, "--router", "127.0.0.1:9"]);
    receive("nowhere").is_refused_with(&["nowhere", "--dir"]);
    receive("a.key").is_refused_with(&["no folder"]);
    place.run(&["demo", "nothing"]).is_refused_with(&["cannot move nothing", "No such file"]);
}

#[test]
fn options_that_make_no_sense_say_what_would() {
    let place = Place::new();
    let says = |arguments: &[&str], what: &str| {
        let run = place.run(arguments);
        assert_eq!(run.code, 2, "{}", run.errors);
        assert!(run.errors.contains(what), "`{what}` is not in: {}", run.errors);
    };
    says(&["rib", "--listen", "nowhere"], "give one like 192.0.2.1:7460");
    says(&["router", "--rib", "abc@127.0.0.1:9"], "a name is 52 characters");
    says(&["ping", "abc"], "a name is 52 characters");
    says(&["router", "--lease-s", "59"], "60..=86400");
    says(&["ping", "--router", "127.0.0.1:9", "--root", "127.0.0.1:9"], "cannot be used with");
    says(&["router", "--discovery", "maybe"], "possible values: on, off");
    says(&["roter"], "router");
    says(&["--log", "a=b=c", "status"], "try `info`");
}

#[test]
fn status_says_when_nobody_is_there() {
    let place = Place::new();
    place.run(&["status"]).is_refused_with(&["no daemon of this user", "give --admin"]);
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    place.run(&["status", "--admin", &closed]).is_refused_with(&[
        "nothing answers",
        &closed,
        "--admin",
    ]);
}
