//! A RIB that comes back without its store, or with an old one:
//! routers tell it anew what it lacks, within seconds.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use rhumb_wire::Name;
use serde_json::{Value, json};

use crate::harness::{Place, Running, remote};
use crate::network::{Network, answers, start_router, wait_until};

pub(crate) fn start_rib(place: &Place, address: &Value) -> (Running, Value) {
    let address = address.as_str().unwrap();
    let (key, store) = ("rib.key", "rib.redb");
    let arguments = ["rib", "--listen", address, "--admin", "127.0.0.1:0", "--key", key];
    let mut rib = place.start(&[&arguments[..], &["--store", store]].concat());
    let ready = rib.next_object();
    (rib, ready)
}

#[test]
fn a_rib_that_lost_its_disk_is_told_everything_anew() {
    let place = Place::new();
    let network = Network::start(&place);
    let mut node = place.start(&["receive", "--router", &network.router()]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    network.rib.kill();
    fs::remove_file(place.path("rib.redb")).unwrap();
    let (_rib, ready) = start_rib(&place, &network.rib_ready["address"]);
    let admin = ready["admin"].as_str().unwrap();
    wait_until("the router and its client are stored again", || {
        place.run(&["--json", "status", "--admin", admin]).object()["stored_names"] == 2
    });
    // Another router finds it there.
    let (_other, other) = start_router(&place, "other.key", &[&remote(&ready)]);
    wait_until("the name is found", || answers(&place, &name, &other));
}

#[test]
fn after_an_old_backup_the_newest_wins() {
    let place = Place::new();
    let network = Network::start(&place);
    let rib = remote(&network.rib_ready);
    let (_second, second) = start_router(&place, "second.key", &[&rib]);
    let made = place.keygen("node", "mover.key");
    let start = |router: &str| place.start(&["receive", "--key", "mover.key", "--router", router]);
    let mut before = start(&network.router());
    let name = before.next_object()["name"].as_str().unwrap().to_owned();
    assert_eq!(name, made);
    // The back-up is of the time when it was at the first router.
    network.rib.kill();
    fs::copy(place.path("rib.redb"), place.path("backup")).unwrap();
    let (rib_again, ready) = start_rib(&place, &network.rib_ready["address"]);
    before.kill();
    let mut after = start(&second);
    after.next_object();
    let (_third, third) = start_router(&place, "third.key", &[&remote(&ready)]);
    wait_until("the name is found where it went", || answers(&place, &name, &third));
    rib_again.kill();
    fs::copy(place.path("backup"), place.path("rib.redb")).unwrap();
    let (_rib, ready) = start_rib(&place, &network.rib_ready["address"]);
    let (_fourth, fourth) = start_router(&place, "fourth.key", &[&remote(&ready)]);
    wait_until("the newest counts again", || answers(&place, &name, &fourth));
}

#[test]
fn a_copy_made_while_a_rib_serves_is_a_store_to_go_on_with() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let socket = place.path("admin.sock");
    let socket = socket.to_str().unwrap();
    let start = |admin: &str, store: &str| {
        let place = ["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--admin", admin];
        [&place[..], &["--store", store]].concat().iter().map(ToString::to_string).collect()
    };
    let run = |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut rib = place.start(&arguments);
        let ready = rib.next_object();
        (rib, ready)
    };
    let (rib, ready) = run(start(socket, "rib.redb"));
    let (router, at) = start_router(&place, "router.key", &[&remote(&ready)]);
    let mut node = place.start(&["receive", "--router", &at]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    let back_up = |to: &str| place.run(&["--json", "rib", "backup", to, "--admin", socket]);
    let made = back_up("copy.redb").object();
    assert_eq!((made["names"].as_u64(), made["damaged"].as_u64()), (Some(2), Some(0)));
    let mode = fs::metadata(place.path("copy.redb")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!place.path("copy.redb.part").exists());
    // It takes no file's place, be it a store, something else or a link.
    let before = fs::read(place.path("copy.redb")).unwrap();
    back_up("copy.redb").is_refused_with(&["copy.redb", "already"]);
    fs::write(place.path("other.redb.part"), "in use").unwrap();
    back_up("other.redb").is_refused_with(&["other.redb.part", "remove"]);
    assert_eq!(fs::read(place.path("copy.redb")).unwrap(), before);
    assert_eq!(fs::read_to_string(place.path("other.redb.part")).unwrap(), "in use");
    // The RIB went on, and everybody else is gone when the copy takes its place.
    assert!(answers(&place, &name, &at));
    node.kill();
    router.kill();
    rib.kill();
    let (_rib, ready) = run(start("127.0.0.1:0", "copy.redb"));
    let admin = ready["admin"].as_str().unwrap();
    let status = place.run(&["--json", "status", "--admin", admin]).object();
    assert_eq!(status["stored_names"], 2);
    // Every user can ask an address, so it gives no copy.
    let refused = place.run(&["rib", "backup", "third.redb", "--admin", admin]);
    refused.is_refused_with(&["Unix socket"]);
    let given = page_of(admin, "/backup");
    assert!(given.starts_with("HTTP/1.1 403 ") && given.contains("Unix socket"), "{given}");
    assert!(!place.path("third.redb").exists());
}

#[test]
fn names_are_listed_page_by_page_by_a_socket_alone_while_a_rib_serves() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let own = ["--key", "rib.key", "--admin", "./rib.sock"];
    let mut rib = place.start(&[&["rib", "--listen", "127.0.0.1:0"], &own[..]].concat());
    let to_rib = remote(&rib.next_object());
    let (_router, at) = start_router(&place, "hill.key", &[&to_rib]);
    let router = at.split('@').next().unwrap().to_owned();
    let node = place.keygen("node", "carol.key");
    let mut receiver = place.start(&["receive", "--key", "carol.key", "--router", &at]);
    receiver.next_object();
    let list = |more: &[&str]| {
        place.run(&[&["--json", "rib", "list", "--admin", "./rib.sock"], more].concat())
    };
    let of = |more: &[&str]| {
        let page = list(more).object();
        let names = page["names"].as_array().unwrap();
        let names: Vec<String> =
            names.iter().map(|it| it["name"].as_str().unwrap().into()).collect();
        (names, page["next"].as_str().map(str::to_owned))
    };
    let mut both = [router.clone(), node.clone()];
    // In the order of names, in which digits stand behind letters.
    both.sort_by_key(|text| text.parse::<Name>().unwrap());
    assert_eq!(of(&[]), (both.to_vec(), None));
    assert_eq!(of(&["--limit", "1"]), (both[..1].to_vec(), Some(both[0].clone())));
    assert_eq!(of(&["--limit", "1", "--after", &both[0]]), (both[1..].to_vec(), None));
    assert_eq!(of(&["carol"]).0, [node.as_str()]);
    assert_eq!(of(&[&router[..9]]).0, [router.as_str()]);
    list(&["Nobody"]).is_refused_with(&["not called so here", "a to z"]);
    let told = &list(&["carol"]).object()["names"][0];
    let said = &told["statements"][0];
    assert_eq!((&told["role"], &told["published_by"]), (&json!("node"), &json!(router)));
    assert_eq!((&said["kind"], &said["via"]), (&json!("route"), &json!(router)));
    assert!((1..=600).contains(&said["ends_in_s"].as_u64().unwrap()), "{told}");
    let shown = place.run(&["rib", "list", "carol", "--admin", "./rib.sock"]).output;
    assert!(shown.contains("(carol) node") && shown.contains("route via"), "{shown}");
    // Who leaves says so, and what is listed is what is stored now.
    assert_eq!(receiver.end().0, 0);
    wait_until("the withdrawal", || {
        list(&["carol"]).object()["names"][0]["statements"][0]["kind"] == "withdrawal"
    });
    // Every user can ask an address, and a router stores no names.
    let elsewhere = Place::new();
    let network = Network::start(&elsewhere);
    let open = network.rib_ready["admin"].as_str().unwrap();
    place.run(&["rib", "list", "--admin", open]).is_refused_with(&["Unix socket only"]);
    let given = page_of(open, "/names");
    assert!(given.starts_with("HTTP/1.1 403 ") && given.contains("Unix socket"), "{given}");
    place.keygen("router", "mill.key");
    let own = ["--key", "mill.key", "--rib", &to_rib, "--admin", "./mill.sock"];
    let mut other = place.start(&[&["router", "--listen", "127.0.0.1:0"], &own[..]].concat());
    other.next_object();
    place
        .run(&["rib", "list", "--admin", "./mill.sock"])
        .is_refused_with(&["no names are stored here"]);
}

fn page_of(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn stats_tell_how_busy_a_rib_is_and_refuse_what_is_none() {
    let place = Place::new();
    let network = Network::start(&place);
    let admin = network.rib_ready["admin"].as_str().unwrap();
    let mut node = place.start(&["receive", "--router", &network.router()]);
    node.next_object();
    let stats = place.run(&["--json", "rib", "stats", "--admin", admin]).object();
    assert_eq!((stats["stored_names"].as_u64(), stats["sessions"].as_u64()), (Some(2), Some(1)));
    assert_eq!(stats["store_failures"], 0);
    let metrics = place.run(&["--json", "status", "--admin", admin]).object();
    let waited = metrics["counters"]["orders_waited"]["below_ms"].as_array().unwrap();
    let orders: u64 = waited.iter().map(|count| count.as_u64().unwrap()).sum();
    assert!(orders >= 2, "{waited:?}");
    let router = network.router_ready["admin"].as_str().unwrap();
    place.run(&["rib", "stats", "--admin", router]).is_refused_with(&["router", "--admin"]);
}
