//! Two nodes, a router and a RIB, run as their users
//! run them: files, pings, traces, and what fails.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Place, Running, remote};
use crate::network::Network;

#[test]
fn files_arrive_under_names_of_their_own() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let receiver_name = place.keygen("node", "b.key");
    std::fs::create_dir(place.path("inbox")).unwrap();
    let mut receiver =
        place.start(&["receive", "--dir", "inbox", "--key", "b.key", "--router", &router]);
    let ready = receiver.next_object();
    assert_eq!(ready["name"], receiver_name.as_str());
    assert_eq!(ready["router"], network.router_ready["name"]);

    for (content, expected) in [("first", "letter"), ("second", "letter.1")] {
        place.write("letter", content);
        let sent =
            place.run(&["--json", "send", "letter", "--to", &receiver_name, "--router", &router]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        let received = receiver.next_object();
        assert_eq!(received["sha256"], sent.object()["sha256"]);
        let path = place.path("inbox").join(expected);
        assert_eq!(received["received"], format!("inbox/{expected}"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), content);
    }
    assert_eq!(std::fs::read_dir(place.path("inbox")).unwrap().count(), 2);
    assert_eq!(receiver.end().0, 0);
}

#[test]
fn once_means_one_file_and_its_sender_is_named() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let sender_name = place.keygen("node", "a.key");
    let mut receiver = place.start(&["receive", "--once", "--router", &router]);
    let name = receiver.next_object()["name"].as_str().unwrap().to_owned();
    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/note", "x");
    let sent =
        place.run(&["send", "out/note", "--to", &name, "--router", &router, "--key", "a.key"]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert!(sent.output.starts_with("sent note (1 B) to "), "{}", sent.output);
    assert_eq!(receiver.next_object()["from"], sender_name.as_str());
    assert_eq!(receiver.end().0, 0);
    assert_eq!(std::fs::read_to_string(place.path("note")).unwrap(), "x");
}

#[test]
fn pings_and_traces_tell_the_way() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let mut other = place.start(&["receive", "--router", &router]);
    let name = other.next_object()["name"].as_str().unwrap().to_owned();

    let ping = place.run(&["--json", "ping", &name, "--count", "3", "--router", &router]);
    assert_eq!(ping.code, 0, "{}", ping.errors);
    let ping = ping.object();
    assert_eq!((&ping["sent"], &ping["answered"]), (&3.into(), &3.into()));
    assert!(ping["min_us"].as_f64() <= ping["median_us"].as_f64());
    assert!(ping["median_us"].as_f64() <= ping["max_us"].as_f64());

    let trace = place.run(&["--json", "trace", &name, "--router", &router]);
    assert_eq!(trace.code, 0, "{}", trace.errors);
    let trace = trace.object();
    assert_eq!(trace["reached"], true);
    let hops: Vec<&str> =
        trace["hops"].as_array().unwrap().iter().map(|hop| hop["name"].as_str().unwrap()).collect();
    assert_eq!(hops, [network.router_ready["name"].as_str().unwrap(), &name]);
    let right = &trace["hops"][0]["right"];
    assert_eq!(right["issuer"], trace["from"], "the router shows this node's word for it");
    let text = place.run(&["trace", &name, "--router", &router]).output;
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("this node says: "), "{text}");
}

#[test]
fn ipv6_serves_as_well() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: ipv6_serves_as_well (this machine has no IPv6 loopback)");
        return;
    }
    let place = Place::new();
    let network = Network::start_at(&place, "[::1]:0", |_| {});
    let router = network.router();
    assert!(router.contains("@[::1]:"), "{router}");
    let mut other = place.start(&["receive", "--router", &router]);
    let name = other.next_object()["name"].as_str().unwrap().to_owned();
    let ping = place.run(&["ping", &name, "--count", "1", "--router", &router]);
    assert_eq!(ping.code, 0, "{}", ping.errors);
    let admin = network.router_ready["admin"].as_str().unwrap();
    assert_eq!(place.run(&["status", "--admin", admin]).code, 0);
}

#[test]
fn a_name_that_nobody_holds_fails_soon_and_with_code_1() {
    let place = Place::new();
    let network = Network::start(&place);
    let nobody = place.keygen("node", "nobody.key");
    place.write("file", "x");
    let router = network.router();
    let fails = |command: &[&str]| {
        let begin = Instant::now();
        let run = place.run(&[command, &["--router", &router]].concat());
        assert_eq!(run.code, 1, "{}", run.errors);
        assert!(run.errors.contains("no way to"), "{}", run.errors);
        assert_eq!(run.errors.lines().count(), 1, "{}", run.errors);
        assert!(begin.elapsed() < Duration::from_secs(10));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| fails(&["ping", &nobody]));
        scope.spawn(|| fails(&["trace", &nobody]));
        scope.spawn(|| fails(&["send", "file", "--to", &nobody]));
    });
}

#[test]
fn another_router_than_the_one_named_is_refused() {
    let place = Place::new();
    let network = Network::start(&place);
    let address = network.router_ready["address"].as_str().unwrap();
    let other = place.keygen("router", "other.key");
    let remote = format!("{other}@{address}");
    place.run(&["ping", &other, "--router", &remote]).is_refused_with(&[
        address,
        &other,
        network.router_ready["name"].as_str().unwrap(),
    ]);
    let rib_address = network.rib_ready["address"].as_str().unwrap();
    let rib = format!("{other}@{rib_address}");
    let begin = Instant::now();
    place
        .run(&["router", "--key", "other.key", "--listen", "127.0.0.1:0", "--rib", &rib])
        .is_refused_with(&["RIB", rib_address, "expected", "check"]);
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "a wrong name needs no deadline to be noticed"
    );
}

#[test]
fn of_two_processes_with_one_key_the_first_ends_and_says_why() {
    let place = Place::new();
    let network = Network::start(&place);
    place.keygen("router", "second.key");
    let rib = remote(&network.rib_ready);
    let listen = ["--listen", "127.0.0.1:0", "--key", "second.key"];
    let mut second = place.start(&[&["router"], &listen[..], &["--rib", &rib]].concat());
    let second_router = remote(&second.next_object());
    let name = place.keygen("node", "twice.key");
    let receive = |router: &str| {
        let mut receiver = place.start(&["receive", "--key", "twice.key", "--router", router]);
        assert_eq!(receiver.next_object()["name"], name.as_str());
        receiver
    };
    let first = receive(&network.router());
    let _later = receive(&second_router);
    let (code, errors) = first.end_by_itself();
    assert_eq!(code, 1, "{errors}");
    let via = second_router.split('@').next().unwrap();
    assert!(errors.contains("another process has joined with this key"), "{errors}");
    assert!(errors.contains(via), "{errors}");
    assert!(errors.lines().count() <= 2, "{errors}");
}

#[test]
fn the_librarys_example_greets_and_is_answered() {
    // Cargo builds it with the tests of the whole workspace, beside the binary.
    let example = Path::new(env!("CARGO_BIN_EXE_rhumb")).with_file_name("examples/hello");
    if !example.exists() {
        println!("skipped: the library's example is not built: `cargo build --examples` does that");
        return;
    }
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router_ready["address"].as_str().unwrap();
    let hello = |words: &[&str]| {
        let mut command = Command::new(&example);
        command.arg(router).args(words);
        Running::spawn(command)
    };
    let mut friend = hello(&[]);
    let name = friend.next_line();
    let mut greeter = hello(&[&name]);
    assert_eq!(greeter.next_line(), format!("{name} says: hello to you, too"));
    assert!(friend.next_line().ends_with(" says: hello"));
    assert_eq!(greeter.end_by_itself().0, 0);
    friend.kill();
}
