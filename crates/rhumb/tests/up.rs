//! One node for all programs of a host: `rhumb up`, as `docs/ports.md` says.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;

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
    // What is offered to somebody else is not for this one. Where the other end takes longer to say
    // so than the proxy waits, nothing comes instead.
    let refused = (0..20).find(|_| {
        let output = curl(&["--proxy", &proxy, "http://server.rhumb.internal:81/"]);
        let code = output.status.code();
        assert!(matches!(code, Some(REFUSED_BY_PROXY | NOTHING_CAME)), "{output:?}");
        code == Some(REFUSED_BY_PROXY)
    });
    assert!(refused.is_some(), "it is never said");
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

#[test]
fn the_way_to_a_name_is_traced_by_the_node_that_runs() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let client = place.keygen("node", "client.key");
    let server = place.keygen("node", "server.key");
    std::fs::create_dir(place.path("inbox")).unwrap();
    let receive = ["receive", "--dir", "inbox", "--key", "server.key", "--router", &router];
    let rules = ["--from", &client];
    let mut receiver = place.start(&[&receive[..], &rules].concat());
    receiver.next_object();
    place.write("up.toml", "[node]\nkey = \"client.key\"\n[up]\nproxy = \"off\"\n");
    let mut running = up(&place, &router, "up.toml");
    ready(&mut running);
    let traced = place.run(&["--json", "trace", &server]).object();
    assert_eq!((&traced["from"], &traced["reached"]), (&json!(client), &json!(true)), "{traced}");
    let hops = traced["hops"].as_array().unwrap();
    assert_eq!(hops.last().unwrap()["name"], json!(server), "{traced}");
    // The evidence comes over the socket as it came over the network.
    assert_eq!(hops[0]["right"]["issuer"], json!(client), "{traced}");
    let shown = place.run(&["trace", &server]).output;
    assert!(shown.contains("this node says: router may carry"), "{shown}");
    // A key of one's own is a node of one's own, which this receiver does not let in.
    place.keygen("node", "other.key");
    let by_own = place.run(&["trace", &server, "--key", "other.key", "--router", &router]);
    assert_eq!(by_own.code, 1, "{}", by_own.errors);
    let nobody = place.keygen("node", "nobody.key");
    let unknown = place.run(&["trace", &nobody]);
    assert_eq!(unknown.code, 1, "{}", unknown.errors);
    assert!(unknown.errors.contains("no way"), "{}", unknown.errors);
    assert_eq!(running.end().0, 0);
}

#[test]
fn an_older_node_is_told_apart_from_one_that_refuses() {
    let place = Place::new();
    let server = place.keygen("node", "server.key");
    let client = place.keygen("node", "client.key");
    // What a node answers that does not know the request.
    let older = "the running node is of another version: restart `rhumb up`";
    std::fs::DirBuilder::new().mode(0o700).create(place.path("rhumb")).unwrap();
    let listener = UnixListener::bind(place.path("rhumb/up.node")).unwrap();
    let answers = std::thread::spawn(move || {
        // Both ask who is there first, and the trace for a ping.
        for _ in 0..5 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let answer = match line.contains("\"who\"") || line.contains("\"ping\"") {
                true => json!({ "name": client, "round_trip_us": 1.0 }),
                false => json!({ "error": older }),
            };
            writeln!(stream, "{answer}").unwrap();
        }
    });
    let traced = place.run(&["trace", &server]);
    assert_eq!(traced.code, 1, "{}", traced.errors);
    assert!(traced.errors.contains(older), "{}", traced.errors);
    place.run(&["receive", "--once"]).is_refused_with(&[older]);
    answers.join().unwrap();
}

#[test]
fn files_are_received_by_the_node_that_runs() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let own = place.keygen("node", "own.key");
    let sender = place.keygen("node", "sender.key");
    let send = |file: &str, by: &[&str]| {
        let sent = ["--json", "send", file, "--to", &own, "--router", &router];
        place.run(&[&sent[..], by].concat())
    };
    let by_sender = ["--key", "sender.key"];
    std::fs::create_dir(place.path("inbox")).unwrap();
    place.write("up.toml", "[node]\nkey = \"own.key\"\n[up]\nproxy = \"off\"\n");
    let mut running = up(&place, &router, "up.toml");
    ready(&mut running);
    place.write("letter", &"dear all ".repeat(100_000));
    // Nobody receives before the command does, nor for whom it does not name.
    assert_eq!(send("letter", &by_sender).code, 1);
    let receive = ["receive", "--dir", "inbox", "--from", &sender, "--max-size", "1MB"];
    let mut receiver = place.start(&receive);
    assert_eq!(receiver.next_object()["name"], json!(own));
    let stranger = send("letter", &[]);
    assert_eq!(stranger.code, 1, "{}", stranger.errors);
    let sent = send("letter", &by_sender);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let received = receiver.next_object();
    assert_eq!(received["from"], json!(sender), "{received}");
    assert_eq!((&received["to"], &received["sha256"]), (&json!(own), &sent.object()["sha256"]));
    let there = std::fs::read(place.path("inbox/letter")).unwrap();
    assert!(there == std::fs::read(place.path("letter")).unwrap(), "the very same bytes");
    // What is refused here is told at both ends, and the next one is waited for.
    place.write("large", &"x".repeat(2_000_000));
    let refused = send("large", &by_sender);
    assert_eq!(refused.code, 1, "{}", refused.errors);
    assert!(refused.errors.contains("larger than the receiver takes"), "{}", refused.errors);
    assert_eq!(receiver.next_object()["refused"], json!("large"));
    // A folder arrives as a folder, and several files at once as several.
    std::fs::create_dir_all(place.path("tree/deep")).unwrap();
    place.write("tree/deep/leaf", "green");
    assert_eq!(send("tree", &by_sender).code, 0);
    assert_eq!(receiver.next_object()["is_folder"], json!(true));
    assert_eq!(std::fs::read(place.path("inbox/tree/deep/leaf")).unwrap(), b"green");
    assert_eq!(std::fs::read_dir(place.path("inbox")).unwrap().count(), 2, "nothing else is left");
    // Files of one command would come to the other by chance.
    place.run(&receive).is_refused_with(&["receives for another command", "--key FILE"]);
    place.run(&["receive", "--admin"]).is_refused_with(&["--key FILE", "rhumb status"]);
    // The command ends, and with it what was offered for it; a later one takes its place.
    assert_eq!(receiver.end().0, 0);
    assert_eq!(send("letter", &by_sender).code, 1);
    let mut one = place.start(&[&receive[..], &["--once"]].concat());
    one.next_object();
    assert_eq!(send("large", &by_sender).code, 1, "it is refused, and another one waited for");
    assert_eq!(one.next_object()["refused"], json!("large"));
    let sent = send("letter", &by_sender);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert!(one.next_object()["received"].as_str().unwrap().ends_with("letter.1"));
    assert_eq!(one.end_by_itself().0, 0);
    let mut receiver = place.start(&receive);
    receiver.next_object();
    assert_eq!(running.end().0, 0);
    let (code, errors) = receiver.end_by_itself();
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("the running node has ended it"), "{errors}");
}

#[test]
fn a_part_goes_on_behind_the_node_that_runs_when_the_command_was_killed() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let own = place.keygen("node", "own.key");
    let sender = place.keygen("node", "sender.key");
    std::fs::create_dir(place.path("inbox")).unwrap();
    place.write("up.toml", "[node]\nkey = \"own.key\"\n[up]\nproxy = \"off\"\n");
    let mut running = up(&place, &router, "up.toml");
    ready(&mut running);
    let bytes: Vec<u8> = (0..40_000_000_u32).map(|at| (at >> 8) as u8).collect();
    std::fs::write(place.path("film"), &bytes).unwrap();
    let receive = ["receive", "--dir", "inbox", "--from", &sender];
    let mut receiver = place.start(&receive);
    receiver.next_object();
    let send = ["send", "film", "--to", &own, "--key", "sender.key", "--router", &router];
    let sending = place.start(&send);
    let begun = std::time::Instant::now();
    let has_mark = || {
        let parts = std::fs::read_dir(place.path("inbox/.rhumb-parts"));
        parts.is_ok_and(|mut parts| {
            parts.any(|part| {
                let part = part.unwrap();
                part.path().extension().is_some_and(|it| it == "mark")
                    && part.metadata().is_ok_and(|it| it.len() > 0)
            })
        })
    };
    while !has_mark() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "nothing arrives");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    receiver.kill();
    drop(sending);
    let mut receiver = place.start(&receive);
    receiver.next_object();
    let sent = place.run(&[&["--json"], &send[..]].concat());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert!(sent.object()["resumed_from"].as_u64().unwrap() > 0, "{}", sent.output);
    assert_eq!(receiver.next_object()["resumed_from"], sent.object()["resumed_from"]);
    assert!(std::fs::read(place.path("inbox/film")).unwrap() == bytes, "the very same bytes");
    assert_eq!(running.end().0, 0);
}

/// What curl ends with. Source: curl(1).
const REFUSED_BY_PROXY: i32 = 97;
const NOTHING_CAME: i32 = 52;
