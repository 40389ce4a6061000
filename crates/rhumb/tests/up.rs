//! One node for all programs of a host: `rhumb up`, as `docs/ports.md` says.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use crate::harness::{Place, Running};
use crate::network::Network;
use crate::proxy::{answers, curl, echo, echoing_web_server, socket, text};

fn up(place: &Place, router: &str, file: &str) -> Running {
    place.start(&["--config", file, "up", "--router", router, "--admin", "127.0.0.1:0"])
}

/// What it says until it is ready: the parts first, in any order, and itself last.
fn ready(running: &mut Running) -> Vec<Value> {
    let mut told = Vec::new();
    loop {
        told.push(running.next_object());
        if told.last().unwrap()["role"] == json!("node") {
            return told;
        }
    }
}

fn address(told: &[Value], role: &str) -> SocketAddr {
    let found = told.iter().find(|it| it["role"] == json!(role));
    found.unwrap_or_else(|| panic!("{role}: {told:?}"))["local"].as_str().unwrap().parse().unwrap()
}

#[test]
fn one_node_offers_several_programs_and_another_brings_them_here() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let client = place.keygen("node", "client.key");
    let server = place.keygen("node", "server.key");
    let (web, echo) = (echoing_web_server(), echo());
    place.write(
        "server.toml",
        &format!(
            "[node]\nkey = \"server.key\"\n[up]\nproxy = \"off\"\ncommands = false\n\
             [[up.serve]]\nport = 80\nto = \"{web}\"\nallow = [\"{client}\"]\n\
             [[up.serve]]\nport = 81\nto = \"{web}\"\nallow = [\"{server}\"]\n\
             [[up.serve]]\nport = 7\nudp = true\nto = \"{echo}\"\nallow_all = true\n"
        ),
    );
    let mut serving = up(&place, &router, "server.toml");
    let told = ready(&mut serving);
    let services = told.iter().filter(|it| it["role"] == json!("service")).count();
    assert_eq!(services, 3, "{told:?}");
    place.write(
        "client.toml",
        &format!(
            "[node]\nkey = \"client.key\"\n[up]\nproxy = \"127.0.0.1:0\"\n\
             [[up.forward]]\nlocal = \"127.0.0.1:0\"\nto = \"{server}:7\"\nudp = true\n"
        ),
    );
    let mut using = up(&place, &router, "client.toml");
    let told = ready(&mut using);
    answers(&socket(), address(&told, "forward"), b"hello", b"echo hello");
    let proxy = format!("socks5h://{}", address(&told, "proxy"));
    let output = curl(&["--proxy", &proxy, "http://server.rhumb.internal/up"]);
    assert!(text(&output.stdout).starts_with("GET /up "), "{output:?}");
    // What is offered to somebody else is not for this one.
    let output = curl(&["--proxy", &proxy, "http://server.rhumb.internal:81/"]);
    assert_eq!(output.status.code(), Some(97), "{output:?}");
    // Both programs went by one connection, which its status shows.
    let admin = told.last().unwrap()["admin"].as_str().unwrap();
    let status = place.run(&["--json", "status", "--admin", admin]).object();
    assert_eq!(status["connections"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["connections"][0]["peer"], json!(server), "{status}");
    // Another one for the same user would be asked in the place of this one.
    place.write("again.toml", "[up]\nproxy = \"off\"\n");
    let again = ["--config", "again.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    place.run(&again).is_refused_with(&["another node runs for this user"]);
    assert_eq!(using.end().0, 0);
    assert_eq!(serving.end().0, 0);
}

#[test]
fn other_commands_use_the_node_that_runs() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let client = place.keygen("node", "client.key");
    let server = place.keygen("node", "server.key");
    let web = echoing_web_server();
    let offered = ["serve", "80", "--to", &web.to_string(), "--allow", &client];
    let mut serving =
        place.start(&[&offered[..], &["--key", "server.key", "--router", &router]].concat());
    serving.next_object();
    place.write("up.toml", "[node]\nkey = \"client.key\"\n[up]\nproxy = \"off\"\n");
    let mut running = up(&place, &router, "up.toml");
    ready(&mut running);
    // Nobody says who is to ask, nor by which router: the name that runs does.
    let pinged = place.run(&["--json", "ping", &server, "--count", "2"]).object();
    assert_eq!(pinged["answered"], json!(2), "{pinged}");
    let nobody = place.keygen("node", "nobody.key");
    assert_eq!(place.run(&["ping", &nobody]).code, 1);
    let mut forward = place.start(&["forward", "127.0.0.1:0", &format!("{server}:80")]);
    let told = forward.next_object();
    assert_eq!(told["name"], json!(client), "{told}");
    let url = format!("http://{}/by-it", told["local"].as_str().unwrap());
    assert!(text(&curl(&[&url]).stdout).starts_with("GET /by-it "));
    // It goes with who asked for it.
    assert_eq!(forward.end().0, 0);
    let gone = std::time::Instant::now();
    while curl(&[&url]).status.success() {
        assert!(gone.elapsed() < std::time::Duration::from_secs(10), "it still listens");
    }
    place.run(&["forward", "127.0.0.1:0", &format!("{nobody}:80")]).is_refused_with(&["no way to"]);
    let mut offer = place.start(&["serve", "90", "--to", &web.to_string(), "--allow-all"]);
    assert_eq!(offer.next_object()["name"], json!(client));
    let there = format!("{client}:90");
    let mut forward = place.start(&["forward", "127.0.0.1:0", &there, "--router", &router]);
    let url = format!("http://{}/", forward.next_object()["local"].as_str().unwrap());
    assert!(curl(&[&url]).status.success());
    // Two of them for one port.
    place.run(&["serve", "90", "--to", "127.0.0.1:1", "--allow-all"]).is_refused_with(&["port 90"]);
    // The node ends, and with it what was asked of it.
    assert_eq!(running.end().0, 0);
    let (code, errors) = offer.end_by_itself();
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("the running node has ended it"), "{errors}");
}

#[test]
fn files_are_sent_by_the_node_that_runs() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let client = place.keygen("node", "client.key");
    let receiver_name = place.keygen("node", "receiver.key");
    std::fs::create_dir(place.path("inbox")).unwrap();
    let rules = ["--from", &client, "--max-size", "1MB"];
    let receive = ["receive", "--dir", "inbox", "--key", "receiver.key", "--router", &router];
    let mut receiver = place.start(&[&receive[..], &rules].concat());
    receiver.next_object();
    place.write("up.toml", "[node]\nkey = \"client.key\"\n[up]\nproxy = \"off\"\n");
    let mut running = up(&place, &router, "up.toml");
    ready(&mut running);
    place.write("letter", &"dear all ".repeat(100_000));
    let sent = place.run(&["--json", "send", "letter", "--to", &receiver_name]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let (sent, received) = (sent.object(), receiver.next_object());
    assert_eq!((&received["from"], &received["sha256"]), (&json!(client), &sent["sha256"]));
    assert_eq!((&sent["sent_bytes"], &sent["resumed_from"]), (&json!(900_000), &json!(0)));
    let there = std::fs::read(place.path("inbox/letter")).unwrap();
    assert!(there == std::fs::read(place.path("letter")).unwrap(), "the very same bytes");
    // What fails is told as if the command had done it.
    place.write("large", &"x".repeat(2_000_000));
    let refused = place.run(&["send", "large", "--to", &receiver_name]);
    assert_eq!(refused.code, 1, "{}", refused.errors);
    assert!(refused.errors.contains("larger than the receiver takes"), "{}", refused.errors);
    // In the name of nobody in particular it is refused.
    let stranger = place.run(&["send", "letter", "--to", &receiver_name, "--router", &router]);
    assert_eq!(stranger.code, 1, "{}", stranger.errors);
    assert_eq!(running.end().0, 0);
}

#[test]
fn a_first_start_makes_a_name_that_stays_and_what_is_wrong_is_a_line() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    place.write("off.toml", "[up]\nproxy = \"off\"\n");
    let name = |running: &mut Running| ready(running).last().unwrap()["name"].clone();
    let mut first = up(&place, &router, "off.toml");
    let made = name(&mut first);
    assert_eq!(first.end().0, 0);
    let mut again = up(&place, &router, "off.toml");
    assert_eq!(name(&mut again), made);
    assert_eq!(again.end().0, 0);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let refused = |text: &str, what: &str| {
        place.write("wrong.toml", text);
        let arguments =
            ["--config", "wrong.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
        place.run(&arguments).is_refused_with(&[what]);
    };
    place.keygen("node", "other.key");
    let node = "[node]\nkey = \"other.key\"\n";
    refused(&format!("{node}[up]\nproxy = \"{taken}\"\n"), "choose another port");
    refused("[[up.serve]]\nport = 80\n", "nobody could use it");
    let strange = place.keygen("capsule", "capsule.key");
    let by_name = format!("{node}[[up.serve]]\nport = 1\nname = \"{strange}\"\nallow_all = true\n");
    refused(&by_name, "is not this node's name");
    let twice = "[[up.serve]]\nport = 1\nallow_all = true\n".repeat(2);
    refused(&format!("{node}[up]\nproxy = \"off\"\n{twice}"), "port 1");
}
