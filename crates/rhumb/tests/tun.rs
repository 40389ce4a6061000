//! Programs that know nothing of names talk by addresses that are names (`rhumb tun`): ping, curl
//! and iperf3 between two hosts, over routers, of which one dies; and who may not is not heard.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use serde_json::{Value, json};

use crate::domains::admit;
use crate::harness::{Place, Run, Running, remote};
use crate::namespaces::Namespace;
use crate::pages::{after, built, commands, page, play};

/// Hosts on one Ethernet: those of routers, the first with a RIB, and those of nodes.
pub(crate) struct Rig {
    pub(crate) place: Place,
    /// Holds the wires.
    _ethernet: Namespace,
    hosts: Vec<Namespace>,
    _rib: Running,
    to_rib: String,
    /// Each with how it is joined.
    pub(crate) routers: Vec<(Running, String)>,
}

impl Rig {
    /// So many of each. `None`, and why, where it cannot be.
    pub(crate) fn new(routers: usize, nodes: usize) -> Option<Self> {
        if !std::path::Path::new("/dev/net/tun").exists() {
            println!("skipped: there is no /dev/net/tun");
            return None;
        }
        let ethernet = Namespace::new()?;
        let hosts: Vec<_> =
            (0..routers + nodes).map(|_| Namespace::new()).collect::<Option<_>>()?;
        ethernet.bridge(&hosts.iter().collect::<Vec<_>>());
        for (number, host) in hosts.iter().enumerate() {
            host.run(&format!("ip addr add 10.9.0.{}/24 dev eth", number + 1));
        }
        let place = Place::new();
        place.keygen("rib", "rib.key");
        let rib = ["rib", "--listen", "10.9.0.1:0", "--key", "rib.key"];
        let mut rib = place.start_in(hosts[0].id(), &rib);
        let to_rib = remote(&rib.next_object());
        let start = |number: usize| {
            let key = format!("router{number}.key");
            place.keygen("router", &key);
            let listen = format!("10.9.0.{}:0", number + 1);
            let router = ["router", "--listen", &listen, "--key", &key, "--discovery", "off"];
            let router = [&router[..], &["--rib", &to_rib]].concat();
            let mut router = place.start_in(hosts[number].id(), &router);
            let ready = remote(&router.next_object());
            (router, ready)
        };
        let routers = (0..routers).map(start).collect();
        Some(Self { place, _ethernet: ethernet, hosts, _rib: rib, to_rib, routers })
    }

    fn host(&self, node: usize) -> &Namespace {
        &self.hosts[self.routers.len() + node]
    }

    /// Starts `rhumb tun` on the host of a node.
    pub(crate) fn tun(&self, node: usize, key: &str, more: &[&str]) -> Tun {
        let tun = ["tun", "--key", key, "--admin", "127.0.0.1:0"];
        let mut running = self.place.start_in(self.host(node).id(), &[&tun[..], more].concat());
        let ready = running.next_object();
        assert_eq!(ready["role"], json!("tun"), "{ready}");
        Tun { running, ready }
    }

    fn status(&self, node: usize, tun: &Tun) -> Value {
        let arguments = ["--json", "status", "--admin", tun.ready["admin"].as_str().unwrap()];
        let run = self.place.command_in(self.host(node).id(), &arguments).output();
        Run::of(run.unwrap()).object()
    }

    /// Kills the router that a node has joined.
    pub(crate) fn kill_router_of(&mut self, node: usize, tun: &Tun) {
        let joined = self.status(node, tun)["router"].clone();
        let joined = joined.as_str().unwrap();
        let router = self.routers.iter_mut().find(|(_, ready)| ready.starts_with(joined)).unwrap();
        router.0.child.kill().unwrap();
        router.0.child.wait().unwrap();
    }

    /// A program on the host of a node.
    pub(crate) fn program(&self, node: usize, program: &[&str]) -> Command {
        let mut command = self.host(node).enter(program[0]);
        command.args(&program[1..]);
        command.current_dir(self.place.folder());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A server, which asks no name server about itself before it begins.
    pub(crate) fn serve(&self, node: usize, program: &[&str]) -> Server {
        let script = "mount --bind /dev/null /etc/resolv.conf && exec \"$@\"";
        let program = [&["unshare", "--mount", "sh", "-c", script, "sh"][..], program].concat();
        let mut command = self.program(node, &program);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Server(command.spawn().unwrap())
    }

    /// Runs a program again until it does what it should, as its server begins to listen.
    pub(crate) fn until_it_works(&self, node: usize, program: &[&str]) -> Output {
        let begin = Instant::now();
        loop {
            let output = self.program(node, program).output().unwrap();
            if output.status.success() {
                return output;
            }
            let errors =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(begin.elapsed() < Duration::from_secs(20), "{program:?}: {errors}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// As [`Rig::until_it_works`], for iperf3, which does not say by its code that it has not.
    fn iperf(&self, node: usize, program: &[&str]) -> Value {
        let begin = Instant::now();
        loop {
            let output = self.until_it_works(node, program);
            let said: Value = serde_json::from_slice(&output.stdout).unwrap();
            if said.get("error").is_none() {
                return said;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// A running `rhumb tun`.
pub(crate) struct Tun {
    running: Running,
    ready: Value,
}

impl Tun {
    pub(crate) fn ip(&self) -> &str {
        self.ready["ip"].as_str().unwrap()
    }

    fn name(&self) -> &str {
        self.ready["name"].as_str().unwrap()
    }
}

/// Ended with the value.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn texts(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

pub(crate) fn is_there(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|it| it.status.success());
    if !found {
        println!("skipped: without {program}");
    }
    found
}

/// Whether the memory of a process holds a text.
fn holds(process: u32, text: &[u8]) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let mut memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut bytes = Vec::new();
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let range = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, until] =
            [range.0, range.1].map(|it| u64::from_str_radix(it, 16).unwrap_or_default());
        bytes.resize(usize::try_from(until - from).unwrap(), 0);
        memory.seek(SeekFrom::Start(from)).is_ok()
            && memory.read_exact(&mut bytes).is_ok()
            && is_among(&bytes, text)
    })
}

/// Whether a text is among many bytes. What looks for its first one is the standard library's,
/// which is optimised where tests are not.
fn is_among(mut bytes: &[u8], text: &[u8]) -> bool {
    while matches!(bytes.skip_until(text[0]), Ok(1..)) {
        if bytes.starts_with(&text[1..]) {
            return true;
        }
    }
    false
}

#[test]
fn unmodified_programs_talk_although_a_router_dies_and_no_router_reads_them() {
    if !["curl", "iperf3", "python3"].iter().all(|it| is_there(it)) {
        return;
    }
    let Some(mut rig) = Rig::new(3, 2) else { return };
    let [alice, bob] = ["alice.key", "bob.key"].map(|key| rig.place.keygen("node", key));
    let [first, second, third] = [0, 1, 2].map(|number| rig.routers[number].1.clone());
    let here = rig.tun(0, "alice.key", &["--allow", &bob, "--router", &first]);
    let there = ["--allow", &alice, "--root", &second, "--root", &third];
    let there = rig.tun(1, "bob.key", &there);
    let secret = "what no router has ever read. ";
    rig.place.write("page", &secret.repeat(400_000));
    let _web = rig.serve(1, &["python3", "-m", "http.server", "80", "--bind", there.ip()]);
    let url = format!("http://[{}]/page", there.ip());
    let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "60", &url];
    let page = rig.until_it_works(0, &curl);
    assert!(page.stdout == secret.repeat(400_000).into_bytes());
    // It was in the memory of who sent it, so it would be found where it is.
    assert!(holds(there.running.child.id(), secret.as_bytes()));
    for (router, _) in &rig.routers {
        assert!(!holds(router.child.id(), secret.as_bytes()), "a router has read it");
    }

    // The way of a second one changes in the middle.
    let slow = [&curl[..], &["--limit-rate", "4M"]].concat();
    let slow = rig.program(0, &slow).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    rig.kill_router_of(1, &there);
    let page = slow.wait_with_output().unwrap();
    assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
    assert!(page.stdout == secret.repeat(400_000).into_bytes());

    let _iperf = rig.serve(1, &["iperf3", "-s"]);
    let client = ["iperf3", "--json", "-n", "4M", "-c", there.ip()];
    let tcp = rig.iperf(0, &client);
    assert!(tcp["end"]["sum_sent"]["bytes"].as_u64() >= Some(4 << 20), "{tcp}");
    let udp = rig.iperf(0, &[&client[..], &["-u", "-b", "20M"]].concat());
    assert!(udp["end"]["sum"]["packets"].as_u64() > Some(100), "{udp}");
    if is_there("ping") {
        // The longest that fits, whatever the way.
        let ping = ["ping", "-c", "3", "-i", "0.2", "-M", "do", "-s", "1232", there.ip()];
        rig.until_it_works(0, &ping);
    }
    let status = rig.status(0, &here);
    assert_eq!((&status["role"], &status["tun"]["ip"]), (&json!("tun"), &json!(here.ip())));
    assert!(status["tun"]["received"]["bytes"].as_u64() > Some(24_000_000), "{status}");
    for reason in ["spoofed", "not_allowed", "not_for_us", "malformed"] {
        assert_eq!(status["tun"]["drops"][reason], json!(0), "{status}");
    }
    assert_eq!(here.running.end().0, 0);
    assert_eq!(there.running.end().0, 0);
}

#[test]
fn who_was_not_allowed_may_answer_and_nothing_else() {
    if !is_there("curl") || !is_there("python3") {
        return;
    }
    let Some(rig) = Rig::new(1, 2) else { return };
    let router = rig.routers[0].1.clone();
    let [alice, _] = ["alice.key", "bob.key"].map(|key| rig.place.keygen("node", key));
    // Nobody has told Alice of Bob: keys alone put them into the book, which is elsewhere.
    std::fs::rename(rig.place.path(".local"), rig.place.path("elsewhere")).unwrap();
    // Alice lets nobody begin; Bob takes her.
    let mut here = rig.tun(0, "alice.key", &["--rib", &rig.to_rib, "--router", &router]);
    let there = rig.tun(1, "bob.key", &["--allow", &alice, "--router", &router]);
    let servers = [(0, &here), (1, &there)].map(|(node, tun)| {
        rig.place.write("index.html", "hello");
        rig.serve(node, &["python3", "-m", "http.server", "80", "--bind", tun.ip()])
    });
    let curl = |tun: &Tun| {
        let url = format!("http://[{}]/", tun.ip());
        ["curl", "--silent", "--show-error", "--fail", "--max-time", "3", &url]
            .map(str::to_owned)
            .to_vec()
    };
    // He is refused before anything of his is looked at, and hears so.
    let (to_alice, to_bob) = (curl(&here), curl(&there));
    let output = rig.program(1, &texts(&to_alice)).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(here.running.next_object()["refused"], json!(there.name()));
    assert!(rig.status(1, &there)["tun"]["drops"]["unreachable"].as_u64() > Some(0));
    // She asks him, and has his answer; by the same connection he begins nothing.
    let answered = rig.until_it_works(0, &texts(&to_bob));
    assert_eq!(answered.stdout, b"hello");
    std::thread::sleep(Duration::from_secs(3));
    let output = rig.program(1, &texts(&to_alice)).output().unwrap();
    assert!(!output.status.success(), "Bob has begun");
    let status = rig.status(0, &here);
    assert!(status["tun"]["drops"]["not_allowed"].as_u64() > Some(0), "{status}");
    // Somebody whom nobody knows.
    let nobody = "http://[fd12:3456:789a:bcde:f012:3456:789a:bcde]/";
    let output = rig.program(0, &["curl", "--silent", "--show-error", nobody]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("No route to host") || errors.contains("ouldn't connect"), "{errors}");
    let status = rig.status(0, &here);
    assert!(status["tun"]["drops"]["unknown_name"].as_u64() > Some(0), "{status}");
    drop(servers);
}

#[test]
fn programs_find_names_as_hosts() {
    if !["curl", "dig", "getent", "python3"].iter().all(|it| is_there(it)) {
        return;
    }
    let Some(rig) = Rig::new(1, 2) else { return };
    let router = rig.routers[0].1.clone();
    let [alice, bob] = ["alice.key", "bob.key"].map(|key| rig.place.keygen("node", key));
    // Nobody has told Alice of Bob: keys alone put them into the book, which is elsewhere.
    std::fs::rename(rig.place.path(".local"), rig.place.path("elsewhere")).unwrap();
    let here = rig.tun(0, "alice.key", &["--resolver", "127.0.0.1:53", "--router", &router]);
    let there = rig.tun(1, "bob.key", &["--allow", &alice, "--router", &router]);
    assert_eq!(here.ready["resolver"], json!("127.0.0.1:53"));
    rig.place.write("index.html", "hello");
    let _web = rig.serve(1, &["python3", "-m", "http.server", "80", "--bind", there.ip()]);

    let dig = |words: &[&str]| {
        let dig = [&["dig", "@127.0.0.1", "+tries=1", "+time=5"][..], words].concat();
        String::from_utf8(rig.program(0, &dig).output().unwrap().stdout).unwrap()
    };
    let bobs = format!("{bob}.rhumb.internal");
    let address = format!("{}\n", there.ip());
    assert_eq!(dig(&["+short", &bobs, "AAAA"]), address);
    assert_eq!(dig(&["+short", "+tcp", &bobs.to_uppercase(), "AAAA"]), address);
    for (host, kind, status) in [
        (&*bobs, "A", "status: NOERROR"),
        ("camera.rhumb.internal", "AAAA", "status: NXDOMAIN"),
        ("example.org", "AAAA", "status: REFUSED"),
        ("rhumb.internal", "AXFR", "Transfer failed"),
    ] {
        let said = dig(&[host, kind]);
        assert!(said.contains(status) && !said.contains("ANSWER SECTION"), "{said}");
    }
    // A label counts as soon as it is in the book.
    let added = rig.place.run(&["name", "add", "Camera", &bob]);
    assert_eq!(added.code, 0);
    assert_eq!(dig(&["+short", "camera.rhumb.internal", "AAAA"]), address);

    // Programs that know nothing but what their system resolves. The packets find Bob, since his
    // address went out.
    rig.place.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n");
    let script = "mount --bind resolv.conf /etc/resolv.conf && getent ahostsv6 \"$1\" && \
                  exec curl --silent --show-error --fail --max-time 20 \"http://$1/\"";
    for host in [&*bobs, "camera.rhumb.internal"] {
        let program = ["unshare", "--mount", "sh", "-c", script, "sh", host];
        let output = rig.until_it_works(0, &program);
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.contains(there.ip()) && output.ends_with("hello"), "{output}");
    }
    let status = rig.status(0, &here);
    let counts = &status["resolver"];
    assert!(counts["address"].as_u64() >= Some(5), "{status}");
    assert!(counts["refused"].as_u64() >= Some(2), "{status}");
    assert_eq!(counts["malformed"], json!(0), "{status}");
}

#[test]
fn what_an_owner_publishes_is_a_host_and_a_change_is_seen_within_seconds() {
    if !["curl", "dig", "python3"].iter().all(|it| is_there(it)) {
        return;
    }
    let Some(rig) = Rig::new(1, 2) else { return };
    let router = rig.routers[0].1.clone();
    let [alice, bob, owner] =
        ["alice.key", "bob.key", "owner.key"].map(|key| rig.place.keygen("node", key));
    let asks = ["--resolver", "127.0.0.1:53", "--router", &router, "--rib", &rig.to_rib];
    let here = rig.tun(0, "alice.key", &asks);
    let there = rig.tun(1, "bob.key", &["--allow", &alice, "--router", &router]);
    let publish = |names: &[&str]| {
        let to = ["--key", "owner.key", "--rib", &rig.to_rib];
        let arguments = [&["name", "publish"], names, &to[..]].concat();
        let run = rig.place.command_in(rig.hosts[0].id(), &arguments).output();
        let run = Run::of(run.unwrap());
        assert_eq!(run.code, 0, "{}", run.errors);
    };
    let dig = |host: &str, kind: &str| {
        let dig = ["dig", "@127.0.0.1", "+tries=1", "+time=10", host, kind];
        String::from_utf8(rig.program(0, &dig).output().unwrap().stdout).unwrap()
    };
    let host = "camera.owner.rhumb.internal";
    let in_full = format!("camera.{owner}.rhumb.internal");
    let until = |host: &str, kind: &str, what: &str| {
        let begin = Instant::now();
        while !dig(host, kind).contains(what) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{}", dig(host, kind));
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    // Nobody knows the owner there; then it says who its camera is, and that it has another.
    assert!(dig(host, "AAAA").contains("status: NXDOMAIN"), "{}", dig(host, "AAAA"));
    publish(&["door=alice"]);
    until("door.owner.rhumb.internal", "AAAA", here.ip());
    assert!(dig(host, "AAAA").contains("status: NXDOMAIN"), "{}", dig(host, "AAAA"));
    publish(&[&format!("camera={bob}")]);
    until(host, "AAAA", there.ip());
    until(&in_full, "AAAA", there.ip());
    let said = dig(host, "A");
    assert!(said.contains("status: NOERROR") && !said.contains("ANSWER SECTION"), "{said}");
    until("door.owner.rhumb.internal", "AAAA", "status: NXDOMAIN");

    // A program is led there, and its packets find the name.
    rig.place.write("index.html", "hello");
    let _web = rig.serve(1, &["python3", "-m", "http.server", "80", "--bind", there.ip()]);
    rig.place.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:10 attempts:1\n");
    let script = "mount --bind resolv.conf /etc/resolv.conf && \
                  exec curl --silent --show-error --fail --max-time 20 \"http://$1/\"";
    let page = rig.until_it_works(0, &["unshare", "--mount", "sh", "-c", script, "sh", host]);
    assert_eq!(page.stdout, b"hello");
    let status = rig.status(0, &here);
    assert!(status["resolver"]["no_such_host"].as_u64() >= Some(2), "{status}");
    // Without an answer of the RIB it is not said that there is no such host.
    assert_eq!(rig.place.run(&["name", "add", "carol", &Name([7; 32]).to_string()]).code, 0);
    rig.hosts[0].run("ip link set eth down");
    assert!(dig("x.carol.rhumb.internal", "AAAA").contains("status: SERVFAIL"));
}

#[test]
fn one_node_of_a_host_has_the_device_too() {
    if !["curl", "getent", "python3"].iter().all(|it| is_there(it)) {
        return;
    }
    let Some(rig) = Rig::new(1, 2) else { return };
    let router = rig.routers[0].1.clone();
    let [alice, bob] = ["alice.key", "bob.key"].map(|key| rig.place.keygen("node", key));
    let tun = "resolver = \"127.0.0.1:53\"";
    let head = |key: &str| format!("[node]\nkey = \"{key}\"\n[up]\nproxy = \"off\"\n");
    rig.place.write("alice.toml", &format!("{}[up.tun]\n{tun}\n", head("alice.key")));
    let allow = format!("allow = [\"{alice}\"]\n[[up.serve]]\nport = 80\nallow_all = true\n");
    let bobs = format!("{}commands = false\n[up.tun]\n{allow}", head("bob.key"));
    rig.place.write("bob.toml", &bobs);
    let up = |node: usize, file: &str| {
        let up = ["--config", file, "up", "--router", &router, "--admin", "127.0.0.1:0"];
        let mut running = rig.place.start_in(rig.host(node).id(), &up);
        let ready = loop {
            let told = running.next_object();
            if told["role"] == json!("node") {
                break told;
            }
        };
        Tun { running, ready }
    };
    let (here, there) = (up(0, "alice.toml"), up(1, "bob.toml"));
    assert_eq!(here.ready["resolver"], json!("127.0.0.1:53"), "{}", here.ready);
    assert_eq!(here.ready["device"], json!("rhumb0"), "{}", here.ready);
    // Root gave up what made the device.
    let process = format!("/proc/{}/status", here.running.child.id());
    let process = std::fs::read_to_string(process).unwrap();
    assert!(process.contains("CapEff:\t0000000000000000"), "{process}");
    rig.place.write("index.html", "hello");
    let _web = rig.serve(1, &["python3", "-m", "http.server", "80", "--bind", there.ip()]);
    rig.place.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n");
    let script = "mount --bind resolv.conf /etc/resolv.conf && getent ahostsv6 \"$1\" && \
                  exec curl --silent --show-error --fail --max-time 20 \"http://$1/\"";
    let host = format!("{bob}.rhumb.internal");
    for host in [&*host, "bob.rhumb.internal"] {
        let program = ["unshare", "--mount", "sh", "-c", script, "sh", host];
        let output = rig.until_it_works(0, &program);
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.contains(there.ip()) && output.ends_with("hello"), "{output}");
    }
    let status = rig.status(0, &here);
    assert!(status["tun"]["received"]["bytes"].as_u64() > Some(0), "{status}");
    assert!(status["resolver"]["address"].as_u64() >= Some(2), "{status}");
    // Another one on this host, for the same user and for none.
    let run = |file: &str| {
        let again = ["--config", file, "up", "--router", &router, "--admin", "127.0.0.1:0"];
        Run::of(rig.place.command_in(rig.host(0).id(), &again).output().unwrap())
    };
    run("alice.toml").is_refused_with(&["another node runs for this user"]);
    rig.place.write("carol.toml", "[up]\nproxy = \"off\"\ncommands = false\n[up.tun]\n");
    run("carol.toml").is_refused_with(&["fd00::/8", "leads elsewhere"]);
    rig.place.write("carol.toml", "[up]\ncommands = false\n[up.tun]\nresolver = \"127.0.0.1:53\"");
    run("carol.toml").is_refused_with(&["cannot resolve names on 127.0.0.1:53", "another one"]);
    // What is asked for together lasts as long.
    assert_eq!(here.running.end().0, 0);
    assert_eq!(there.running.end().0, 0);
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let Some(rig) = Rig::new(1, 1) else { return };
    let router = rig.routers[0].1.clone();
    rig.place.keygen("node", "alice.key");
    let _tun = rig.tun(0, "alice.key", &["--router", &router]);
    let run = |more: &[&str]| {
        let arguments = [&["tun", "--router", &router][..], more].concat();
        Run::of(rig.place.command_in(rig.host(0).id(), &arguments).output().unwrap())
    };
    run(&["--key", "alice.key"])
        .is_refused_with(&["another `rhumb tun` or `rhumb up` runs with this key"]);
    run(&["--device", "rhumb0"]).is_refused_with(&["rhumb0", "in use", "another name"]);
    run(&["--device", "a-name-that-is-too-long"]).is_refused_with(&["a-name-that-is-too-long"]);
    run(&[]).is_refused_with(&["fd00::/8", "leads elsewhere"]);
    let elsewhere = ["--resolver", "0.0.0.0:5354"];
    run(&elsewhere).is_refused_with(&["0.0.0.0:5354", "no loopback address"]);
    run(&["--mtu", "1279"]).refused_by_the_command_line("1280");
    // Root without the right to administer the network.
    rig.place.write("up.toml", "[up]\nproxy = \"off\"\n[up.tun]\n");
    for arguments in [&["tun", "--router", &router][..], &["--config", "up.toml", "up"]] {
        let inside = rig.place.command(arguments);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
        command.arg(inside.get_program()).args(inside.get_args());
        command.current_dir(rig.place.folder()).env("HOME", rig.place.folder());
        command.env("XDG_RUNTIME_DIR", rig.place.folder());
        match command.output() {
            Ok(output) => Run::of(output).is_refused_with(&["CAP_NET_ADMIN"]),
            Err(_) => println!("skipped: without setpriv"),
        }
    }
}

#[test]
fn the_page_works_as_it_stands() {
    let place = Place::new();
    built(&place);
    let page = page("docs/tun.md");
    let all = commands(&page, "# Addresses", "## Who may send");
    let mut script = "export PATH=\"$PWD/target/release:$PATH\"\n".to_owned();
    for (number, block) in all.iter().enumerate() {
        script += &format!("echo; echo '$ block {number}'\n{block}");
    }
    script += "\nexit 0\n";
    let needs = ["curl", "python3", "jq", "ping", "nft"];
    let Some(played) = play(&place, &script, &needs) else { return };
    let block = |words: &str| {
        let number = all.iter().position(|block| block.contains(words)).unwrap();
        after(&played, &format!("block {number}\n"))
    };
    assert!(block("rhumb tun").matches("on rhumb0 (status:").count() == 2, "{played}");
    assert!(block("ping -c 3").contains(" 0% packet loss"), "{played}");
    assert!(block("curl").contains("a page of Bob's"), "{played}");
    assert!(block("as it should be").contains("\nas it should be"), "{played}");
    let ruled = block("not for Alice");
    assert!(ruled.matches("a page of Bob's").count() == 1, "{played}");
    assert!(ruled.contains("\nnot for Alice"), "{played}");
}

#[test]
fn members_of_a_domain_send_packets_and_nobody_else() {
    let Some(rig) = Rig::new(1, 3) else { return };
    let domain = rig.place.keygen("domain", "domain.key");
    let bob = rig.place.keygen("node", "bob.key");
    admit(&rig.place, "domain.key", "node-alice.key", "join");
    rig.place.keygen("node", "eve.key");
    let router = ["--router", rig.routers[0].1.as_str()];
    let members = ["--allow-domain", &domain, "--rib", &rig.to_rib];
    let there = rig.tun(0, "bob.key", &[&router[..], &members].concat());
    let to_bob = [&router[..], &["--peer", &bob]].concat();
    let _alice = rig.tun(1, "node-alice.key", &to_bob);
    let _eve = rig.tun(2, "eve.key", &to_bob);
    let ping = ["ping", "-c", "1", "-W", "1", there.ip()];
    rig.until_it_works(1, &ping);
    assert!(!rig.program(2, &ping).output().unwrap().status.success());
    assert!(rig.program(1, &ping).output().unwrap().status.success());
}

#[test]
fn who_is_removed_is_out_while_addresses_are_looked_up_at_the_same_rib() {
    let Some(rig) = Rig::new(1, 2) else { return };
    let domain = rig.place.keygen("domain", "domain.key");
    let bob = rig.place.keygen("node", "bob.key");
    let alice = admit(&rig.place, "domain.key", "node-alice.key", "join");
    rig.place.keygen("rib", "domain-rib.key");
    let keeps = ["--key", "domain-rib.key", "--store", "domain.redb", "--domain", &domain];
    let keeps = [&["rib", "--listen", "10.9.0.1:0"][..], &keeps].concat();
    let mut rib = rig.place.start_in(rig.hosts[0].id(), &keeps);
    let to_rib = remote(&rib.next_object());
    let router = ["--router", rig.routers[0].1.as_str()];
    let members = ["--allow-domain", &domain, "--rib", &to_rib];
    let there = rig.tun(0, "bob.key", &[&router[..], &members].concat());
    let _alice = rig.tun(1, "node-alice.key", &[&router[..], &["--peer", &bob]].concat());
    let ping = ["ping", "-c", "1", "-W", "1", there.ip()];
    rig.until_it_works(1, &ping);
    // Bob's host wants an address that nobody has, of which his device asks the RIB.
    let nobody = ["ping", "-c", "1", "-W", "1", "fd12:3456:789a::1"];
    assert!(!rig.program(0, &nobody).output().unwrap().status.success());
    let remove = ["domain", "remove", &alice, "--key", "domain.key", "--rib", &to_rib];
    let run = rig.place.command_in(rig.hosts[0].id(), &remove).output();
    let run = Run::of(run.unwrap());
    assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    let since = Instant::now();
    while rig.program(1, &ping).output().unwrap().status.success() {
        assert!(since.elapsed() < Duration::from_secs(20), "she is still let in");
    }
    assert!(!rig.program(1, &ping).output().unwrap().status.success());
}

/// A host in a network behind that of a node, whose host hands on.
fn behind(rig: &Rig, node: usize, network: u8) -> Option<Namespace> {
    let (gateway, host) = (rig.host(node), Namespace::new()?);
    gateway.wire("lan", &host, "eth");
    gateway.run(&format!(
        "ip addr add 10.{network}.0.1/24 dev lan && sysctl -qw net.ipv4.ip_forward=1"
    ));
    let via = format!("ip route add default via 10.{network}.0.1");
    host.run(&format!("ip addr add 10.{network}.0.7/24 dev eth && {via}"));
    Some(host)
}

#[test]
fn networks_behind_two_names_are_joined_and_nobody_else_gets_in() {
    if !["curl", "python3"].iter().all(|it| is_there(it)) {
        return;
    }
    let Some(rig) = Rig::new(1, 3) else { return };
    let [alice, bob, _] =
        ["alice.key", "bob.key", "eve.key"].map(|key| rig.place.keygen("node", key));
    let (Some(in_alices), Some(in_bobs)) = (behind(&rig, 0, 1), behind(&rig, 1, 2)) else { return };
    let router = ["--router", rig.routers[0].1.as_str()];
    let site = |own: &str, allowed: &str, theirs: &str| {
        let accepted = format!("{theirs}={allowed}");
        ["--advertise-route", own, "--allow", allowed, "--accept-route", &accepted]
            .map(str::to_owned)
    };
    let start = |node, key, site: &[String]| {
        let more = [&router[..], &texts(site)].concat();
        rig.tun(node, key, &more)
    };
    let _bobs = start(1, "bob.key", &site("10.2.0.0/24", &alice, "10.1.0.0/24"));
    let alices = start(0, "alice.key", &site("10.1.0.0/24", &bob, "10.2.0.0/16"));
    let _eves = start(2, "eve.key", &site("10.3.0.0/24", &bob, "10.2.0.0/24"));
    let within = |host: &Namespace, program: &str| {
        let mut command = host.enter("sh");
        command.args(["-ec", program]);
        command.current_dir(rig.place.folder()).stdin(Stdio::null());
        command
    };
    let begin = Instant::now();
    while !within(&in_alices, "ping -c 1 -W 1 10.2.0.7").output().unwrap().status.success() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", rig.status(0, &alices));
    }
    assert!(within(&in_bobs, "ping -c 1 -W 2 10.1.0.7").status().unwrap().success());
    let said = &rig.status(0, &alices)["tun"]["accepted_routes"];
    assert_eq!(*said, json!([{ "network": "10.2.0.0/24", "name": bob }]));
    // What is longer than the device takes is cut by TCP, which the gateway tells how much fits.
    rig.place.write("page", &"a page of ten words, which is sent often. ".repeat(100_000));
    let mut web = within(&in_bobs, "exec python3 -m http.server 80 --bind 10.2.0.7");
    let _web = Server(web.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let fetch =
        "curl -sS --fail --retry 20 --retry-connrefused --retry-delay 1 -m 60 http://10.2.0.7/page";
    let fetched = within(&in_alices, fetch).output().unwrap();
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    assert_eq!(fetched.stdout, std::fs::read(rig.place.path("page")).unwrap());
    // Behind bob there is more than he says, and nobody said that anything is there for eve.
    assert!(!within(&in_alices, "ping -c 1 -W 1 10.2.1.7").output().unwrap().status.success());
    let ping = ["ping", "-c", "1", "-W", "1", "10.2.0.7"];
    assert!(!rig.program(2, &ping).output().unwrap().status.success());
}

#[test]
fn networks_that_cannot_lie_so_are_refused_at_the_start() {
    let place = Place::new();
    let name = place.keygen("node", "bob.key");
    let refused = |more: &[&str], why: &str| {
        let tun = ["tun", "--router", "192.0.2.9:7460"];
        place.run(&[&tun[..], more].concat()).is_refused_with(&[why]);
    };
    let accept = |network: &str| format!("{network}={name}");
    refused(&["--accept-route", &accept("0.0.0.0/0")], "is everything");
    refused(&["--accept-route", &accept("fd00::/16")], "addresses of names");
    refused(&["--accept-route", &accept("192.0.2.0/24")], "the router 192.0.2.9 lies in");
    let both = ["--advertise-route", "10.0.0.0/8", "--accept-route", &accept("10.1.0.0/16")];
    refused(&both, "overlap");
    let tun = |more: &str| place.run(&["tun", "--accept-route", more]);
    tun("10.0.0.1/8=x").refused_by_the_command_line("is an address in 10.0.0.0/8");
    tun("10.0.0.0/8").refused_by_the_command_line("NETWORK=NAME");
}
