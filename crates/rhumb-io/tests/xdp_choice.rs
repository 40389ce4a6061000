//! Which backend there is, why, and that nothing of it stays behind.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rhumb_io::udp::Options;
use rhumb_io::xdp::Refusal;
use rhumb_io::{Backend, Choice, Device, Opened, PacketIo, open, xdp};
use rhumb_wire::Batch;

use crate::wire::{Host, Wire};

fn on(interface: &str) -> xdp::Options {
    xdp::Options { interfaces: vec![interface.to_owned()], ..xdp::Options::default() }
}

/// The backend of one worker, and why it has no rings.
struct One {
    backend: Backend,
    refusal: Option<Refusal>,
}

fn open_on(host: &Host, address: &str, choice: &Choice) -> One {
    let address: SocketAddr = address.parse().unwrap();
    let opened = host.enter(|| open(choice, address, Options::default(), 1).unwrap());
    let Opened { mut backends, interfaces, refusal, .. } = opened;
    let refused = interfaces.into_iter().find_map(|it| it.rings.err());
    One { backend: backends.remove(0), refusal: refusal.or(refused) }
}

/// The choice is not taken up, for a reason that says
/// `why`; there is a socket that works in its place.
#[track_caller]
fn refused(host: &Host, address: &str, choice: &Choice, why: &str) {
    let One { mut backend, refusal } = open_on(host, address, choice);
    let refusal = refusal.expect("a refusal").to_string();
    assert!(refusal.contains(why), "{refusal}");
    assert!(!refusal.contains('\n'), "{refusal}");
    assert_eq!((backend.name(), backend.interfaces()), ("socket", vec![]));
    let mut batch = Batch::new();
    let to = backend.local_address();
    batch.push(to, b"to itself");
    assert_eq!(backend.send(&batch).unwrap().sent, 1);
    assert!(backend.wait(Some(Duration::from_secs(5)), None).unwrap().readable);
    assert_eq!(backend.receive(&mut batch).unwrap(), 1);
}

/// Whether an interface has a program.
fn has_program(host: &Host, device: &str) -> bool {
    host.run(&format!("ip link show dev {device}")).contains("xdp")
}

/// An interface has no program any more, soon: a process that another
/// test starts holds our descriptors for a moment.
fn loses_program(host: &Host, device: &str) {
    let begin = Instant::now();
    while has_program(host, device) {
        assert!(begin.elapsed() < Duration::from_secs(5), "the program is still there");
    }
}

#[test]
fn the_backend_that_was_asked_for() {
    let Some(Wire { near, far: _far }) = Wire::new() else { return };
    let opened = open_on(&near, "10.9.0.1:0", &Choice::Socket);
    assert!(opened.refusal.is_none() && opened.backend.name() == "socket");
    assert!(!has_program(&near, "near"));
    // Named, by its address, or the only one there is.
    let unnamed = xdp::Options::default();
    for (address, options) in [
        ("10.9.0.1:0", on("near")),
        ("10.9.0.1:0", unnamed.clone()),
        ("[2001:db8:9::1]:0", unnamed.clone()),
        ("0.0.0.0:0", unnamed.clone()),
        ("[::]:0", xdp::Options { queue: Some(0), ..unnamed }),
    ] {
        let One { backend, refusal } = open_on(&near, address, &Choice::Xdp(options));
        assert!(refusal.is_none(), "{refusal:?}");
        assert_eq!((backend.name(), backend.interfaces()), ("xdp_copy", vec![("near", 1)]));
        assert!(has_program(&near, "near"));
        drop(backend);
        loses_program(&near, "near");
    }
}

/// The kernel is not done with a queue when its rings are closed.
#[test]
fn closed_and_opened_again_at_once() {
    let Some(Wire { near, far: _far }) = Wire::new() else { return };
    for _ in 0..50 {
        let opened = open_on(&near, "10.9.0.1:0", &Choice::Xdp(on("near")));
        assert!(opened.refusal.is_none(), "{:?}", opened.refusal);
    }
}

#[test]
fn reasons_for_a_socket_instead() {
    let Some(Wire { near, far }) = Wire::new() else { return };
    let xdp = |interface: &str| Choice::Xdp(on(interface));
    let auto = Choice::Auto { interfaces: vec!["near".to_owned()] };
    refused(&near, "10.9.0.1:0", &auto, "the driver of near has no zero copy");
    refused(
        &near,
        "127.0.0.1:0",
        &xdp("nothing"),
        "interface nothing cannot be used: No such device",
    );
    refused(&near, "127.0.0.1:0", &xdp("lo"), "lo is none");
    refused(&near, "127.0.0.1:0", &xdp("near"), "127.0.0.1 is not an address of near");
    let unnamed = Choice::Xdp(xdp::Options::default());
    refused(&near, "127.0.0.1:0", &unnamed, "127.0.0.1");
    let beyond = Choice::Xdp(xdp::Options { queue: Some(9), ..on("near") });
    refused(&near, "10.9.0.1:0", &beyond, "bind(AF_XDP)");

    // One program at a time.
    let first = open_on(&near, "10.9.0.1:0", &xdp("near"));
    assert!(first.refusal.is_none());
    refused(&near, "10.9.0.1:0", &xdp("near"), "near has an XDP program already");
    assert_eq!(first.backend.name(), "xdp_copy");
    drop(first);

    // A bridge has no native mode.
    near.run("ip link add bridge type bridge && ip address add 10.8.0.1/24 dev bridge && ip link set bridge up");
    near.run("ip link add port type veth peer name end && ip link set port master bridge up && ip link set end up");
    refused(&near, "10.8.0.1:0", &unnamed, "the driver of bridge runs no XDP program");
    // Unless it is forced.
    let generic = Choice::Xdp(xdp::Options { generic: true, ..on("bridge") });
    let opened = open_on(&near, "10.8.0.1:0", &generic);
    assert!(opened.refusal.is_none(), "{:?}", opened.refusal);
    assert_eq!(opened.backend.interfaces(), [("bridge", 1)]);

    // A packet of 3826 bytes fits our frames; this driver wants more room.
    far.run("ip link set far mtu 3827");
    near.run("ip link set near mtu 3827");
    refused(&near, "10.9.0.1:0", &xdp("near"), "an MTU of 3827 bytes, and AF_XDP frames hold 3826");
    near.run("ip link set near mtu 3826");
    refused(&near, "10.9.0.1:0", &xdp("near"), "the driver of near");
    // The driver has a word in it too: here it is the other end that could send what does not fit.
    near.run("ip link set near mtu 1500");
    refused(&near, "10.9.0.1:0", &xdp("near"), "a smaller MTU");
}

/// What `ethtool`, another program, says of a feature of `near`.
fn ethtool(host: &Host, feature: &str) -> bool {
    host.run("ethtool -k near").contains(&format!("{feature}: on"))
}

#[test]
fn what_devices_do_themselves() {
    let Some(Wire { near, far: _far }) = Wire::new() else { return };
    let devices = |address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        near.enter(|| {
            let opened = open(&Choice::Socket, address, Options::default(), 1).unwrap();
            opened.backends[0].devices()
        })
    };
    let veth = |cuts_runs| vec![Device { name: "near".to_owned(), cuts_runs, joins_runs: false }];
    for address in ["10.9.0.1:0", "[2001:db8:9::1]:0", "0.0.0.0:0", "[::]:0"] {
        assert_eq!(devices(address), veth(true), "{address}");
    }
    // Loopback is none, and who is bound there sends by no device.
    assert_eq!(devices("127.0.0.1:0"), []);
    near.run("ip link set near down");
    assert_eq!(devices("10.9.0.1:0"), veth(true), "a cable may come");
    near.run("ip link set near up");
    let has_ethtool = Command::new("ethtool").arg("--version").output().is_ok();
    if !has_ethtool {
        println!("skipped: to turn features off needs ethtool");
        return;
    }
    assert!(ethtool(&near, "tx-udp-segmentation") && !ethtool(&near, "rx-gro-hw"));
    near.run("ethtool -K near tx-udp-segmentation off");
    assert!(!ethtool(&near, "tx-udp-segmentation"));
    assert_eq!(devices("10.9.0.1:0"), veth(false));
}

/// The command that runs one of these tests again, on a host where it finds itself inside.
fn again(test: &str, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(env::current_exe().unwrap());
    command.args(["--exact", &format!("xdp_choice::{test}"), "--nocapture"]).env(INSIDE, "1");
    command
}

/// What a test does inside: opens the backend and says which it is.
fn open_inside() -> Backend {
    let address = "10.9.0.1:7460".parse().unwrap();
    let Opened { mut backends, mut interfaces, .. } =
        open(&Choice::Xdp(on("near")), address, Options::default(), 1).unwrap();
    let (backend, refusal) = (backends.remove(0), interfaces.remove(0).rings.err());
    println!("backend {} {}", backend.name(), refusal.map_or(String::new(), |it| it.to_string()));
    backend
}

fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

const INSIDE: &str = "RHUMB_TEST_INSIDE";

#[test]
fn without_privilege_there_is_a_socket() {
    if is_inside() {
        open_inside();
        return;
    }
    let Some(Wire { near, far: _far }) = Wire::new() else { return };
    let less = ["--bounding-set=-all", "--inh-caps=-all"];
    let test = "without_privilege_there_is_a_socket";
    let Ok(output) = near.enter(|| again(test, "setpriv", &less).output()) else {
        println!("skipped: to give privileges up needs setpriv");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("backend socket AF_XDP needs CAP_NET_ADMIN"), "{text}");
}

/// However the process ends, the interface is as it was.
#[test]
fn a_killed_process_leaves_no_program() {
    if is_inside() {
        let _backend = open_inside();
        // Until it is killed, or its parent is gone.
        let _ = std::io::stdin().lines().count();
        return;
    }
    let Some(Wire { near, far: _far }) = Wire::new() else { return };
    let start = || {
        let mut command = again("a_killed_process_leaves_no_program", "env", &[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    let mut child = near.enter(start).unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let ready = output.lines().map_while(Result::ok).find(|line| line.contains("backend "));
    assert!(ready.is_some_and(|line| line.contains("xdp_copy")));
    assert!(has_program(&near, "near"));
    child.kill().unwrap();
    child.wait().unwrap();
    loses_program(&near, "near");
    // And the next one can begin.
    assert!(open_on(&near, "10.9.0.1:0", &Choice::Xdp(on("near"))).refusal.is_none());
}
