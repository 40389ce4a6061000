//! RIB and router as services: how they end, what they
//! tell, and that a router goes on without its RIB.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rhumb_link::{Backend, CipherChoice};

use crate::harness::{Place, send_signal, wait_for};
use crate::network::Network;

fn http(admin: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn admin(ready: &serde_json::Value) -> &str {
    ready["admin"].as_str().unwrap()
}

#[test]
fn signals_end_them_cleanly() {
    for signal in ["TERM", "INT"] {
        let place = Place::new();
        let network = Network::start(&place);
        assert_eq!(network.router.signal(signal), 0);
        assert_eq!(network.rib.signal(signal), 0);
    }
}

#[test]
fn a_daemon_whose_log_nobody_reads_any_more_ends_when_it_is_told() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let serve = ["--json", "--log", "info", "rib", "--listen", "127.0.0.1:0", "--key", "rib.key"];
    let mut command = place.command(&[&serve[..], &["--store", "rib.redb"]].concat());
    let mut rib = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(rib.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    drop((rib.stdout.take(), rib.stderr.take()));
    send_signal(rib.id(), "TERM");
    assert_eq!(wait_for(&mut rib), 0);
}

/// The niceness of each thread of a process, by its name.
#[cfg(target_os = "linux")]
fn niceness(process: u32) -> std::collections::HashMap<String, i32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).unwrap();
    let of = |stat: String| {
        let (head, rest) = stat.rsplit_once(')').unwrap();
        // What follows the name begins with field 3, and niceness is field 19 (proc(5)).
        let nice = rest.split_whitespace().nth(16).unwrap().parse().unwrap();
        (head.split_once('(').unwrap().1.to_owned(), nice)
    };
    tasks.map(|task| of(stat(task.unwrap()))).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn public_key_work_gives_way_to_the_threads_that_move_datagrams() {
    let place = Place::new();
    let network = Network::start(&place);
    for daemon in [&network.router, &network.rib] {
        // The thread itself sets it, a moment after it began.
        let deadline = Instant::now() + Duration::from_secs(20);
        let found = loop {
            let found = niceness(daemon.child.id());
            if found["verifier"] == found["rhumb"] + 5 || Instant::now() > deadline {
                break found;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(found["verifier"], found["rhumb"] + 5, "{found:?}");
        let others = found.iter().filter(|(name, _)| *name != "verifier");
        assert!(others.clone().count() >= 2, "{found:?}");
        assert!(others.clone().all(|(_, nice)| *nice == found["rhumb"]), "{found:?}");
    }
}

#[test]
fn a_sealed_key_serves_with_its_passphrase() {
    let place = Place::new();
    place.write("words", "open sesame\n");
    let made = place.run(&[
        "--json",
        "keygen",
        "--role",
        "rib",
        "--passphrase-file",
        "words",
        "--label",
        "cave",
    ]);
    assert_eq!(made.object()["sealed"], true);
    let arguments = ["rib", "--listen", "127.0.0.1:0", "--key", "rib.key"];
    let mut rib = place.start_with(&arguments, |command| {
        command.env("RHUMB_PASSPHRASE", "open sesame");
    });
    assert_eq!(rib.next_object()["name"], made.object()["name"]);
    assert_eq!(rib.end().0, 0);
}

#[test]
fn a_store_has_one_owner_and_outlives_it() {
    let place = Place::new();
    let network = Network::start(&place);
    place
        .run(&["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--store", "rib.redb"])
        .is_refused_with(&["rib.redb", "in use by another process"]);
    network.rib.kill();
    let mut again = place.start(&[
        "rib",
        "--listen",
        "127.0.0.1:0",
        "--key",
        "rib.key",
        "--store",
        "rib.redb",
        "--admin",
        "127.0.0.1:0",
    ]);
    let ready = again.next_object();
    let status = place.run(&["--json", "status", "--admin", admin(&ready)]).object();
    assert_eq!(status["stored_names"], 1, "the router is remembered: {status}");
}

#[test]
fn status_tells_people_and_programs() {
    let place = Place::new();
    let network = Network::start(&place);
    let status = place.run(&["--json", "status", "--admin", admin(&network.router_ready)]);
    assert_eq!(status.code, 0, "{}", status.errors);
    let status = status.object();
    assert_eq!(status["role"], "router");
    assert_eq!(status["name"], network.router_ready["name"]);
    assert_eq!(status["ribs"][0]["name"], network.rib_ready["name"]);
    assert_eq!(status["dropped_datagrams"]["replayed"], 0);
    assert_eq!(status["tables"]["sessions"]["used"], 1, "the RIB's: {status}");
    assert!(status["tables"]["flows"]["bound"].as_u64().unwrap() > 0);
    assert!(status["own_statement"]["expires_in_s"].as_u64().unwrap() > 0, "{status}");
    let mut node = place.start(&["receive", "--router", &network.router()]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    let ping = place.run(&["ping", &name, "--count", "1", "--router", &network.router()]);
    assert_eq!(ping.code, 0, "{}", ping.errors);
    let admin_of_router = admin(&network.router_ready);
    let text = place.run(&["status", "--flows", "--admin", admin_of_router]).output;
    assert!(text.contains(&format!("destination {name}, ")), "{text}");
    assert!(text.contains("flows: 1 of "), "{text}");
    assert!(!place.run(&["status", "--admin", admin_of_router]).output.contains("newest flows"));
    let text = place.run(&["status", "--admin", admin(&network.rib_ready)]).output;
    assert!(text.starts_with("rib "), "{text}");
    assert!(text.contains("sessions:"), "{text}");
    // The configuration file may name the endpoint.
    place.write("rhumb.toml", &format!("[router]\nadmin = \"{}\"\n", admin(&network.router_ready)));
    assert!(place.run(&["status"]).output.starts_with("router "));
}

#[test]
fn who_leaves_aes_gcm_to_the_library_talks_to_everybody() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let by_library = ["receive", "--cipher", "library", "--log", "rhumb=debug"];
    let mut node = place.start(&[&by_library[..], &["--router", &router]].concat());
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    let by_default = place.run(&["--json", "ping", &name, "--count", "3", "--router", &router]);
    assert_eq!(by_default.code, 0, "{}", by_default.errors);
    place.write("library.toml", "cipher = \"library\"\nlog = \"rhumb=debug\"\n");
    let ping = ["ping", &name, "--count", "1", "--router", &router, "--config", "library.toml"];
    let by_file = place.run(&ping);
    assert_eq!(by_file.code, 0, "{}", by_file.errors);
    let says_library = |errors: &str| errors.contains("by=Library");
    assert!(says_library(&by_file.errors), "{}", by_file.errors);
    let by_option = place.run(&[&ping[..], &["--cipher", "fastest"]].concat());
    assert_eq!(by_option.code, 0, "{}", by_option.errors);
    let is_library = |choice| Backend::of(choice) == Backend::Library;
    let is_fastest = is_library(CipherChoice::Fastest);
    assert_eq!(says_library(&by_option.errors), is_fastest, "the option comes first");
    let by_own = place.run(&[&ping[..], &["--cipher", "own"]].concat());
    if is_library(CipherChoice::Own) {
        by_own.is_refused_with(&["own needs a processor", "--cipher fastest"]);
    } else {
        assert!(by_own.code == 0 && !says_library(&by_own.errors), "{}", by_own.errors);
    }
    place.write("library.toml", "cipher = \"aes\"\n");
    let problem = "library.toml, line 1: cipher is `aes`; give fastest, library or own";
    place.run(&ping).is_refused_with(&[problem]);
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let place = Place::new();
    let network = Network::start(&place);
    for ready in [&network.rib_ready, &network.router_ready] {
        let admin = admin(ready);
        let answer = http(admin, &format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        let mut samples = 0;
        for line in body.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("rhumb_"), "{line}");
            // Sums of seconds alone have parts.
            match name.ends_with("_seconds_sum") {
                true => assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}"),
                false => assert!(value.parse::<u64>().is_ok(), "{line}"),
            }
            samples += 1;
        }
        assert!(samples > 20, "{body}");
        assert!(body.contains("rhumb_link_dropped_datagrams_total{reason=\"replayed\"} 0"));
        assert!(body.contains("\nrhumb_io_backend{kind=\"socket\"} 1\n"), "{body}");
        assert!(!body.contains(ready["name"].as_str().unwrap()), "metrics hold no names");
    }
}

#[test]
fn web_pages_under_foreign_names_and_other_requests_are_refused() {
    let place = Place::new();
    let network = Network::start(&place);
    let admin = admin(&network.rib_ready);
    let status = |request: &str| http(admin, request).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        status("GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        "HTTP/1.1 403 Forbidden"
    );
    assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(
        status("PUT /status HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "HTTP/1.1 405 Method Not Allowed"
    );
    // Far more than a request, without an end: the
    // connection is closed, and others are still served.
    let mut flood = TcpStream::connect(admin).unwrap();
    let _ = flood.write_all(&vec![b'x'; 1 << 20]);
    assert!(status("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").ends_with("200 OK"));
}

#[test]
fn a_router_goes_on_without_its_rib() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let mut other = place.start(&["receive", "--router", &router]);
    let name = other.next_object()["name"].as_str().unwrap().to_owned();
    let mut ping = place.start(&["ping", &name, "--count", "100", "--router", &router]);
    let forwarded = || {
        let run = place.run(&["--json", "status", "--admin", admin(&network.router_ready)]);
        run.object()["counters"]["forwarded_pdus"].as_u64().unwrap()
    };
    let start = Instant::now();
    while forwarded() < 4 {
        assert!(start.elapsed() < Duration::from_secs(20), "they never talked");
    }
    network.rib.kill();
    // A new node joins all the same, and those that talk go on.
    let joined = place.run(&["ping", &name, "--router", &router]);
    assert_eq!(joined.code, 0, "{}", joined.errors);
    assert_eq!(ping.next_object()["answered"], 100);
    assert_eq!(ping.end().0, 0);
}
