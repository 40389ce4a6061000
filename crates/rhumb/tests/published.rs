//! Names that owners publish under their own, by processes: commands and programs are led to whom
//! an owner says, see a change within seconds, are told why they are not led, and believe no RIB.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_trust::{Identity, Window};
use rhumb_wire::rib::{RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Name, PduHeader, PublishedNames, Role};
use serde_json::json;

use crate::attackers::{Stranger, now};
use crate::harness::{Place, Run, Running, remote};
use crate::network::Network;
use crate::proxy::{curl, echoing_web_server, text};
use crate::rib_store::start_rib;

/// Who publishes here.
const ALICE: &str = "alice.key";

/// What is published, and at which RIB.
fn publish(place: &Place, rib: &str, names: &[&str]) -> Run {
    let to = ["--key", ALICE, "--rib", rib];
    let run = place.run(&[&["--json", "name", "publish"], names, &to[..]].concat());
    assert_eq!(run.code, 0, "{}", run.errors);
    run
}

fn receiving(place: &Place, router: &str, key: &str) -> (Running, String) {
    let name = place.keygen("node", key);
    let mut node = place.start(&["receive", "--key", key, "--router", router]);
    assert_eq!(node.next_object()["name"], json!(name));
    (node, name)
}

#[test]
fn a_label_under_a_name_is_whoever_its_owner_says() {
    let place = Place::new();
    let network = Network::start(&place);
    let (router, rib) = (network.router(), remote(&network.rib_ready));
    let (_camera, camera) = receiving(&place, &router, "camera.key");
    let (_door, door) = receiving(&place, &router, "door.key");
    let alice = place.keygen("domain", ALICE);
    let said = publish(&place, &rib, &["camera=camera", &format!("door={door}")]).object();
    assert_eq!(said["names"], json!({ "camera": camera, "door": door }));

    let ping = |called: &str, more: &[&str]| {
        let ping = ["--json", "ping", called, "--count", "1", "--router", &router];
        place.run(&[&ping[..], more].concat())
    };
    for called in ["camera.alice", "Camera.alice", &format!("camera.{alice}")] {
        let run = ping(called, &["--rib", &rib]);
        assert_eq!((run.code, &run.object()["name"]), (0, &json!(camera)), "{}", run.errors);
    }
    let trace = place.run(&["--json", "trace", "door.alice", "--router", &router, "--rib", &rib]);
    assert_eq!((trace.code, &trace.object()["name"]), (0, &json!(door)), "{}", trace.errors);
    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/letter", "x");
    // By the RIBs of the file, too.
    place.write("asks.toml", &format!("[node]\nrib = [\"{rib}\"]\n"));
    let send = ["--config", "asks.toml", "--json", "send", "out/letter", "--to", "door.alice"];
    let sent = place.run(&[&send[..], &["--router", &router]].concat());
    assert_eq!((sent.code, &sent.object()["to"]), (0, &json!(door)), "{}", sent.errors);

    // The list is whole: what is not said again is gone.
    let said = publish(&place, &rib, &["camera=door"]).object();
    assert_eq!(said["gone"], json!(["door"]));
    assert_eq!(ping("camera.alice", &["--rib", &rib]).object()["name"], json!(door));
    ping("door.alice", &["--rib", &rib]).is_refused_with(&["alice calls nobody door"]);
    // A RIB that is started again knows it.
    network.rib.kill();
    let (_rib, ready) = start_rib(&place, &network.rib_ready["address"]);
    assert_eq!(remote(&ready), rib);
    let shown = place.run(&["--json", "name", "published", "alice", "--rib", &rib]).object();
    assert_eq!(shown["names"], json!({ "camera": door }));

    // What this user calls so is nobody else's to say.
    assert_eq!(place.run(&["name", "add", "camera.alice", &camera]).code, 0);
    assert_eq!(ping("camera.alice", &[]).object()["name"], json!(camera));
    assert_eq!(ping("camera.alice", &["--rib", &rib]).object()["name"], json!(camera));
}

#[test]
fn why_nobody_is_found_is_said_in_as_many_ways_as_there_are() {
    let place = Place::new();
    let network = Network::start(&place);
    let rib = remote(&network.rib_ready);
    let alice = place.keygen("node", ALICE);
    place.keygen("node", "bob.key");
    let ping = |called: &str, more: &[&str]| {
        place.run(&[&["ping", called, "--router", "127.0.0.1:9"], more].concat())
    };
    let asks = ["--rib", &rib];
    ping("camera.alice", &[]).is_refused_with(&["looked up at a RIB", "--rib NAME@ADDR"]);
    ping("camera.alice", &asks).is_refused_with(&["no RIB that was asked knows alice"]);
    // The router is known there, and has said nothing.
    ping("camera.router", &asks).is_refused_with(&["router publishes no names"]);
    publish(&place, &rib, &["camera=bob"]);
    ping("door.alice", &asks).is_refused_with(&["alice calls nobody door"]);
    let later = ["--clock-offset-s", &(31 * 86_400).to_string()].map(str::to_owned);
    let later: Vec<&str> = later.iter().map(String::as_str).chain(asks).collect();
    ping("camera.alice", &later).is_refused_with(&["what alice publishes has expired"]);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = format!("{alice}@{}", silent.local_addr().unwrap());
    ping("camera.alice", &["--rib", &nobody]).is_refused_with(&["no RIB answers"]);
    // One that is away does not matter beside another one.
    let found = ping("camera.alice", &["--rib", &nobody, "--rib", &rib]);
    assert!(!found.errors.contains("RIB"), "{}", found.errors);
    let withdrawn = place.run(&["name", "withdraw", "--key", ALICE, "--rib", &rib]);
    assert_eq!(withdrawn.code, 0, "{}", withdrawn.errors);
    ping("camera.alice", &asks).is_refused_with(&["alice publishes no names"]);
    // One level, and nothing that has other meanings.
    ping("a.camera.alice", &asks).refused_by_the_command_line("camera.alice publishes no names");
    let names = ["name", "publish", "--key", ALICE, "--rib", &rib];
    for (given, problem) in [
        ("Camera=bob", "cannot be published"),
        ("a.b=bob", "cannot be published"),
        ("camera", "no LABEL=NAME"),
        ("camera=nobody", "nothing is called so here"),
    ] {
        place.run(&[&names[..], &[given]].concat()).refused_by_the_command_line(problem);
    }
    place.run(&[&names[..], &["a=bob", "a=alice"]].concat()).is_refused_with(&["given twice"]);
    let many: Vec<String> = (0..25).map(|number| format!("n{number}=bob")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    place.run(&[&names[..], &many].concat()).is_refused_with(&["24 labels"]);
    // Nobody lets somebody in by another's word.
    let serve = ["serve", "80", "--key", "bob.key", "--allow", "camera.alice"];
    place.run(&serve).refused_by_the_command_line("nothing is called so here");
}

fn served(place: &Place, router: &str, key: &str) -> (Running, String) {
    let name = place.keygen("node", key);
    let web = echoing_web_server().to_string();
    let serve = ["serve", "80", "--key", key, "--router", router, "--to", &web, "--allow-all"];
    let mut server = place.start(&serve);
    assert_eq!(server.next_object()["ready"], json!(true));
    (server, name)
}

/// Asks again until that is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn programs_are_led_to_whom_an_owner_says_now() {
    let place = Place::new();
    let network = Network::start(&place);
    let (router, rib) = (network.router(), remote(&network.rib_ready));
    let (server, first) = served(&place, &router, "first.key");
    let (_other, second) = served(&place, &router, "second.key");
    place.keygen("node", ALICE);
    publish(&place, &rib, &[&format!("web={first}")]);
    let mut proxy = place.start(&["proxy", "127.0.0.1:0", "--router", &router, "--rib", &rib]);
    let ready = proxy.next_object();
    let local = ready["local"].as_str().unwrap();
    let url = "http://web.alice.rhumb.internal/";
    let by_socks = || curl(&["--fail", "--proxy", &format!("socks5h://{local}"), url]);
    let by_http = || curl(&["--proxy", &format!("http://{local}"), url]);
    assert!(text(&by_socks().stdout).starts_with("GET / "), "{:?}", by_socks());
    assert!(text(&by_http().stdout).starts_with("GET "), "{:?}", by_http());

    // The first is gone; its owner leads to the second, and the program is there within seconds.
    assert_eq!(server.end().0, 0);
    publish(&place, &rib, &[&format!("web={second}")]);
    until("the change is seen", || by_socks().status.success());
    assert_eq!(place.run(&["name", "withdraw", "--key", ALICE, "--rib", &rib]).code, 0);
    until("the end is seen", || {
        let page = text(&by_http().stdout);
        page.contains("alice publishes no names")
    });
    until("programs by SOCKS hear so", || by_socks().status.code() == Some(97));

    // A node that runs for all commands asks for them, and a port of such a name comes here.
    publish(&place, &rib, &[&format!("web={second}")]);
    let file = |to: &str| {
        let brought = format!("[[up.forward]]\nlocal = \"127.0.0.1:0\"\nto = \"{to}\"\n");
        place.write("up.toml", &format!("[up]\nproxy = \"off\"\nrib = [\"{rib}\"]\n{brought}"));
    };
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    // What its file says of whose port, the book and the owner say, too.
    file("x.alice:80");
    place.run(&up).is_refused_with(&["alice calls nobody x"]);
    for to in ["second:80", "web.alice:80"] {
        file(to);
        let mut up = place.start(&up);
        let brought = up.next_object();
        assert_eq!(brought["to"], json!(second), "{brought}");
        let local = brought["local"].as_str().unwrap();
        let page = curl(&["--fail", &format!("http://{local}/by-file")]);
        assert!(text(&page.stdout).starts_with("GET /by-file "), "{page:?}");
        assert_eq!(up.end().0, 0);
    }
    let mut up = place.start(&up);
    while up.next_object()["role"] != json!("node") {}
    let ping = place.run(&["--json", "ping", "web.alice", "--count", "1"]);
    assert_eq!((ping.code, &ping.object()["name"]), (0, &json!(second)), "{}", ping.errors);
    place.run(&["ping", "x.alice"]).is_refused_with(&["alice calls nobody x"]);
    let mut forward = place.start(&["forward", "0", "web.alice:80"]);
    let local = forward.next_object()["local"].as_str().unwrap().to_owned();
    let page = curl(&["--fail", &format!("http://{local}/by-forward")]);
    assert!(text(&page.stdout).starts_with("GET /by-forward "), "{page:?}");
}

#[test]
fn a_node_that_runs_publishes_and_says_so_again() {
    let place = Place::new();
    let network = Network::start(&place);
    let (router, rib) = (network.router(), remote(&network.rib_ready));
    let (_camera, camera) = receiving(&place, &router, "camera.key");
    let alice = place.keygen("node", ALICE);
    // What the file says is all: nothing of what a RIB has is said again.
    publish(&place, &rib, &["old=camera"]);
    let said = format!("publish = [\"camera=camera\"]\nrib = [\"{rib}\"]\n");
    place.write("up.toml", &format!("[node]\nkey = \"{ALICE}\"\n[up]\nproxy = \"off\"\n{said}"));
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    let start = || {
        let mut up = place.start(&up);
        let ready = up.next_object();
        (up, ready)
    };
    let status = |ready: &serde_json::Value| {
        let admin = ready["admin"].as_str().unwrap();
        place.run(&["--json", "status", "--admin", admin]).object()["published_names"].clone()
    };
    let (running, ready) = start();
    assert_eq!(ready["name"], json!(alice));
    until("it is stored", || status(&ready)["ribs_missing"] == json!(0));
    let told = status(&ready);
    let left_s = told["expires_in_s"].as_u64().unwrap();
    assert!(told["labels"] == json!(1) && left_s > 29 * 86_400, "{told}");
    let shown = || place.run(&["--json", "name", "published", "alice", "--rib", &rib]).object();
    let first = shown();
    assert_eq!(first["names"], json!({ "camera": camera }), "{first}");
    assert_eq!(running.end().0, 0);
    let admin = network.rib_ready["admin"].as_str().unwrap();
    let of_rib = place.run(&["--json", "status", "--admin", admin]).object()["counters"].clone();
    assert_eq!(of_rib["lists_stored"], json!(2), "hers by hand, and by the node: {of_rib}");
    assert!(of_rib["lists_told"].as_u64() >= Some(2), "to the node, and here: {of_rib}");
    // While no RIB is there it goes on trying, and says what is missing.
    network.rib.kill();
    let (running, ready) = start();
    running.wait_for_error("does not publish this node's names");
    assert_eq!(status(&ready)["ribs_missing"], json!(1));
    let (_rib, _) = start_rib(&place, &network.rib_ready["address"]);
    until("it is stored", || status(&ready)["ribs_missing"] == json!(0));
    let (first, second) = (first["sequence"].as_u64(), shown()["sequence"].as_u64());
    assert!(first < second, "{first:?} {second:?}");
    assert_eq!(running.end().0, 0);
}

#[test]
fn a_rib_that_refuses_strangers_is_asked_in_the_name_of_who_is_admitted() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let (alice, bob) = (place.keygen("node", ALICE), place.keygen("node", "bob.key"));
    let rib = ["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--strangers", "refused"];
    let mut running = place.start(&[&rib[..], &["--admit", &alice, "--admit", &bob]].concat());
    let rib = remote(&running.next_object());
    publish(&place, &rib, &["bob=bob"]);
    let shown = ["--json", "name", "published", "alice", "--rib", &rib];
    place.run(&shown).is_refused_with(&["the RIB refuses to answer"]);
    let shown = place.run(&[&shown[..], &["--key", "bob.key"]].concat());
    assert_eq!(shown.object()["names"], json!({ "bob": bob }), "{}", shown.errors);
}

/// Somebody who says to be a RIB, and answers whoever asks for names with what he was told last.
struct Liar {
    rib: String,
    tell: Sender<Option<PublishedNames>>,
    _thread: JoinHandle<()>,
}

impl Liar {
    fn begin(owner: &Identity) -> Self {
        let mut stranger = Stranger::await_others(Ipv4Addr::LOCALHOST, Role::Rib);
        let rib = format!("{}@{}", stranger.name(), stranger.address());
        let (tell, told) = channel();
        let metadata = (**owner.metadata()).clone();
        let run = move || {
            let mut answer: Option<PublishedNames> = None;
            loop {
                match told.try_recv() {
                    Ok(other) => answer = other,
                    Err(std::sync::mpsc::TryRecvError::Empty) => {}
                    Err(_) => return,
                }
                stranger.pump();
                while let Some((header, data)) = stranger.inbox.pop_front() {
                    let Ok(RibRequest { id, body }) = RibRequest::parse(&data) else { continue };
                    let metadata = vec![metadata.clone()];
                    let body = match (&body, &answer) {
                        (RibRequestBody::LookUpNames(_), Some(published)) => {
                            let published = published.clone();
                            RibResponseBody::Names { metadata, published }
                        }
                        // Whosever they are asked for, these are shown.
                        (RibRequestBody::LookUpMetadata(name), _) => {
                            let (name, certificates) = (*name, Vec::new());
                            RibResponseBody::Found { name, level: 0, metadata, certificates }
                        }
                        _ => continue,
                    };
                    let mut out = Vec::new();
                    RibResponse { id, body }.emit(&mut out);
                    let (from, to) = (stranger.name(), header.source);
                    let tag = header.tag;
                    let header = PduHeader { tag, ..PduHeader::new(Action::RibResponse, from, to) };
                    stranger.send(header, &out, &[]);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Self { rib, tell, _thread: std::thread::spawn(run) }
    }

    fn shows(&self, published: PublishedNames) {
        self.tell.send(Some(published)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn list(owner: &Identity, name: Name, sequence: u64) -> PublishedNames {
    let names = BTreeMap::from([("web".parse().unwrap(), name)]);
    owner.publish(names, sequence, Window::starting(now().unix_s(), 600)).unwrap()
}

#[test]
fn what_a_lying_rib_shows_is_refused() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let (server, first) = served(&place, &router, "first.key");
    let (_other, second) = served(&place, &router, "second.key");
    let [first, second]: [Name; 2] = [first, second].map(|it| it.parse().unwrap());
    let [alice, mallory] = [0, 1].map(|it| Identity::generate(Role::Node, it).unwrap());
    assert_eq!(place.run(&["name", "add", "alice", &alice.name().to_string()]).code, 0);
    let liar = Liar::begin(&alice);
    let ping = || {
        let ping = ["--json", "ping", "web.alice", "--count", "1", "--router", &router];
        place.run(&[&ping[..], &["--rib", &liar.rib]].concat())
    };
    // He can tell the truth.
    let good = list(&alice, first, 10);
    liar.shows(good.clone());
    assert_eq!(ping().object()["name"], json!(first), "{}", ping().errors);
    let of_mallory = list(&mallory, second, 11);
    let mut bent = good.clone();
    *bent.names.values_mut().next().unwrap() = second;
    let in_her_name = PublishedNames { owner: alice.name(), ..of_mallory.clone() };
    for lie in [of_mallory, in_her_name, bent, PublishedNames { sequence: 12, ..good.clone() }] {
        liar.shows(lie);
        ping().is_refused_with(&["names that alice has not signed", "do not trust that RIB"]);
    }

    // What a program has seen, it sees nothing older than.
    liar.shows(list(&alice, second, 20));
    let proxy = ["proxy", "127.0.0.1:0", "--router", &router, "--rib", &liar.rib];
    let mut proxy = place.start(&proxy);
    let ready = proxy.next_object();
    let local = format!("http://{}", ready["local"].as_str().unwrap());
    let fetch = || text(&curl(&["--proxy", &local, "http://web.alice.rhumb.internal/"]).stdout);
    assert!(fetch().starts_with("GET "), "{}", fetch());
    liar.shows(good);
    until("the older list is noticed", || fetch().contains("older names of alice"));
    for _ in 0..20 {
        let page = fetch();
        assert!(page.contains("older names of alice"), "{page}");
        std::thread::sleep(Duration::from_millis(100));
    }
    liar.shows(list(&alice, second, 21));
    until("a newer one counts", || fetch().starts_with("GET "));
    drop(server);
}
