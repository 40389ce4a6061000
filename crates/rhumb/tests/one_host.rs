//! A member's router, its proxy and the exchange's servers on one host, by the configuration that
//! the documentation has for it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exchanging::{Exchange, PATIENCE, Server, is_paired};
use crate::harness::Running;
use crate::wire::Host;

/// The line without which nothing comes up, and no word is said.
const SAME_HOST: &str = "multihop; strict bind yes;";
/// Names and addresses of the page, and those of the second member: of its router, proxy and AS.
const OF_ANOTHER: [(&str, &str); 4] = [
    ("192.0.2.2", "192.0.2.12"),
    ("192.0.2.3", "192.0.2.13"),
    ("as 64500", "as 64501"),
    ("2001:db8::2", "2001:db8::12"),
];

/// A router, ended with the value.
struct Bird(Child);

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the page says that a BIRD on the proxy's host is to be told.
fn snippet() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exchange-member.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("### BIRD on the same host").unwrap();
    let (_, block) = section.split_once("```text\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

fn for_member(number: usize, mut text: String) -> String {
    // To a next hop on its own host there is no way for BIRD: these are elsewhere on the network,
    // as those of other members are.
    let elsewhere = format!("next hop address 192.0.2.{};", 97 + number);
    text = text.replace("next hop address 192.0.2.2;", &elsewhere);
    if number == 1 {
        OF_ANOTHER.iter().for_each(|(from, to)| text = text.replace(from, to));
    }
    text
}

/// A member's router, which announces a network of its own.
fn bird(exchange: &Exchange, number: usize, snippet: &str) -> Bird {
    let text = format!(
        "router id 192.0.2.2;\nlog stderr all;\nprotocol device {{ }}\n\
         filter to_exchange {{ if source = RTS_STATIC then accept; reject; }}\n\
         protocol static {{ ipv4; route 203.0.{}.0/24 blackhole; }}\n{snippet}",
        113 + number
    );
    let file = format!("bird{number}.conf");
    exchange.place.write(&file, &for_member(number, text));
    let folder = exchange.place.folder();
    let log = std::fs::File::create(folder.join(format!("bird{number}.log"))).unwrap();
    let socket = format!("bird{number}.ctl");
    let mut command = Command::new("bird");
    command.args(["-f", "-c", &file, "-s", &socket, "-P", &format!("bird{number}.pid")]);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Bird(command.spawn().unwrap())
}

fn birdc(exchange: &Exchange, number: usize, command: &str) -> String {
    let socket = exchange.place.path(&format!("bird{number}.ctl"));
    let output =
        Command::new("birdc").arg("-s").arg(socket).args(command.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both parties, as a proxy is told of them.
fn remotes(one: &Server, two: &Server) -> [String; 2] {
    [one, two].map(|server| format!("\"{}@{}\"", server.name, server.address))
}

/// A member's proxy, as the page configures one.
fn proxy(exchange: &Exchange, number: usize, [one, two]: &[String; 2]) -> Running {
    let text = format!(
        "[member]\nkey = \"member-{number}.key\"\nroster = \"roster.toml\"\nasn = {}\n\
         exchange_asn = 64499\nexchange = [{one}]\nneutral = [{two}]\ncontrol = \"member-{number}.sock\"\n\
         [member.bgp]\nrouter = \"192.0.2.2\"\nlisten = \"192.0.2.3\"\n\
         [member.export]\notherwise = \"accept\"\n[member.import]\notherwise = \"accept\"\n",
        64500 + number
    );
    let file = format!("member-{number}.toml");
    exchange.place.write(&file, &for_member(number, text));
    let mut running = exchange.place.start(&["--config", &file, "member"]);
    assert_eq!(running.next_object()["ready"], true);
    running
}

#[track_caller]
fn wait_for(exchange: &Exchange, number: usize, what: &str, is_so: impl Fn(&Value) -> bool) {
    let (begin, file) = (Instant::now(), format!("member-{number}.toml"));
    loop {
        let status = exchange.place.run(&["--json", "--config", &file, "member", "status"]);
        let status = status.object()["router"].clone();
        if is_so(&status) {
            return;
        }
        let log = std::fs::read_to_string(exchange.place.path("bird0.log")).unwrap();
        assert!(begin.elapsed() < PATIENCE, "no {what}: {status:#}\n{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn host() -> Option<Host> {
    if Command::new("bird").arg("--version").output().is_err() {
        println!("skipped: without bird (Debian package bird2)");
        return None;
    }
    let host = Host::new().map_err(|error| println!("skipped: namespaces need root ({error})"));
    let host = host.ok()?;
    // The networks of the page are on an interface, as an exchange's is.
    host.run(
        "ip link set lo up; ip link add lan type veth peer name far; ip link set far up; ip link set lan up; \
         for n in 2 3 12 13; do ip address add 192.0.2.$n/24 dev lan; \
         ip address add 2001:db8::$n/64 dev lan nodad; done",
    );
    Some(host)
}

#[test]
fn routers_beside_their_proxies_get_each_others_routes() {
    let Some(host) = host() else { return };
    let exchange = host.enter(|| Exchange::new(2));
    let (one, two) = host.enter(|| exchange.start_pair());
    let text = snippet();
    let _birds = host.enter(|| [0, 1].map(|number| bird(&exchange, number, &text)));
    let servers = remotes(&one, &two);
    let _proxies = host.enter(|| [0, 1].map(|number| proxy(&exchange, number, &servers)));
    for number in [0, 1] {
        wait_for(&exchange, number, "session", |router| {
            router["state"] == "established" && router["waits_for"].is_null()
        });
    }
    for (number, other) in [(0, "203.0.114.0/24"), (1, "203.0.113.0/24")] {
        let begin = Instant::now();
        loop {
            let routes = birdc(&exchange, number, "show route protocol exchange");
            // The next hop is a router's on the network, and found there.
            if routes.contains(other) && !routes.contains("unreachable") {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{routes}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_router_that_stays_idle_is_said_to_and_why() {
    let Some(host) = host() else { return };
    let exchange = host.enter(|| Exchange::new(1));
    let (one, two) = host.enter(|| exchange.start_pair());
    let text = snippet();
    assert!(text.contains(SAME_HOST), "{text}");
    let idle = host.enter(|| bird(&exchange, 0, &text.replace(SAME_HOST, "")));
    let servers = remotes(&one, &two);
    let running = host.enter(|| proxy(&exchange, 0, &servers));
    wait_for(&exchange, 0, "advice", |router| {
        let problem = router["problem"].as_str().unwrap_or_default();
        router["waits_for"].is_string() && problem.contains("`multihop;`")
    });
    running.wait_for_error("multihop");
    drop((running, idle));

    // The other half of the line missing, whoever comes second is told.
    let _bird = host.enter(|| bird(&exchange, 0, &text.replace(SAME_HOST, "multihop;")));
    let begin = Instant::now();
    while !birdc(&exchange, 0, "show protocols").contains("exchange") {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    let run = host.enter(|| exchange.place.run(&["--config", "member-0.toml", "member"]));
    run.is_refused_with(&["192.0.2.3:179", "strict bind yes"]);
}

/// Whoever has read that somebody is not reached reads, too, when that is over, at the level at
/// which it all is said by default.
#[test]
fn a_log_does_not_end_with_what_is_over() {
    let exchange = Exchange::new(1);
    let (one, two) = exchange.start_pair();
    let address = two.address;
    one.running.errors_so_far();
    two.running.kill();
    one.running.wait_for_error("is not reached");
    let two = exchange.start_again("two", address, &exchange.callers());
    one.wait_for(&exchange, "a pair", is_paired);
    let line = one.running.wait_for_error("is reached now");
    assert!(line.contains("WARN"), "{line}");
    drop(two);
}
