//! `rhumb up` on machines of one LAN, each a network namespace on one bridge: they find each other
//! with no file and no name by hand, and nobody comes in, or is led elsewhere, unseen.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, Credentials, Listener, Protocol, connect_to_anybody};
use rhumb_trust::Identity;
use rhumb_trust::comparison::{Opening, opens};
use rhumb_wire::Role;
use rhumb_wire::admission::{Admission, Offer, Refusal};
use serde_json::{Value, json};

use crate::discovery::Site;
use crate::harness::{Place, Run, Running};
use crate::hosts::{host, wait_for};
use crate::namespaces::Namespace;
use crate::pages::{commands, page as page_of};
use crate::recorder::Recorder;
use crate::terminal::Terminal;

/// A machine.
struct Machine {
    namespace: Namespace,
    place: Place,
}

impl Machine {
    fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.place.command_in(self.namespace.id(), arguments).output().unwrap())
    }

    fn start(&self, arguments: &[&str]) -> Running {
        self.place.start_in(self.namespace.id(), arguments)
    }

    /// A shell in a terminal, in which somebody sits, of a machine that is called so.
    fn sit(&self, name: &str) -> Option<Terminal> {
        let net = format!("--net=/proc/{}/ns/net", self.namespace.id());
        let inside = format!(
            "echo {name} > /proc/sys/kernel/hostname; PATH=\"$(dirname \"$RHUMB\"):$PATH\" PS1='{name} $ ' exec sh -i"
        );
        self.place.write("inside.sh", &inside);
        let line = format!("exec nsenter {net} unshare --uts sh inside.sh");
        let terminal = Terminal::open(&self.place, 200, 50, &line)?;
        terminal.wait_for_words(&format!("{name} $"));
        Some(terminal)
    }

    /// A command of a shell, as a page has it.
    fn shell(&self, line: &str) -> Command {
        let as_here = self.place.command(&[""; 0]);
        let program = env!("CARGO_BIN_EXE_rhumb");
        let folder = std::path::Path::new(program).parent().unwrap().display().to_string();
        let mut shell = self.namespace.enter("sh");
        shell.args(["-c", line]).current_dir(self.place.folder()).stdin(Stdio::null());
        shell.envs(as_here.get_envs().filter_map(|(key, it)| Some((key, it?))));
        shell.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
        shell
    }

    /// A test of this file, as a process that goes another way for being told to be `who`.
    fn as_test(&self, test: &str, who: &str) -> Command {
        let mut command = self.namespace.enter(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(STRANGER, who);
        command
    }

    fn reaches(&self, label: &str) -> bool {
        self.run(&["ping", label, "--count", "1"]).code == 0
    }

    /// The networks that it is in: what each is called, and whether it is kept there.
    fn networks(&self) -> Vec<(String, bool)> {
        let listed = self.run(&["--json", "network"]);
        let lines = listed.output.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        lines
            .map(|it| (it["network"].as_str().unwrap().to_owned(), it["kept_here"] == true))
            .collect()
    }

    fn members(&self) -> Vec<String> {
        let shown = self.run(&["--json", "network", "show"]);
        let lines = shown.output.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        lines.map(|it| it["label"].as_str().unwrap().to_owned()).collect()
    }

    fn address(&self, ip: &str) {
        self.namespace.run(&format!("ip address flush dev eth; ip address add {ip}/24 dev eth"));
    }

    /// Takes all addresses away but the one of IPv6 that the device gives itself, by `mac`.
    fn only_on_link(&self, mac: &str) {
        self.namespace.run(&format!(
            "ip link set eth down; ip address flush dev eth; ip link set eth address {mac} up"
        ));
        let list = || {
            let mut command = self.namespace.enter("ip");
            command.args(["-6", "-o", "address", "show", "dev", "eth", "scope", "link"]).output()
        };
        wait_for("an address of the link", || !list().unwrap().stdout.is_empty());
    }
}

/// A bridge, and machines at 10.9.0.1, 10.9.0.2 and so on.
fn lan<const N: usize>() -> Option<(Namespace, [Machine; N])> {
    let switch = Namespace::new()?;
    let mut machines = Vec::new();
    for _ in 0..N {
        machines.push(Machine { namespace: Namespace::new()?, place: host() });
    }
    switch.bridge(&machines.iter().map(|it| &it.namespace).collect::<Vec<_>>());
    for (index, machine) in machines.iter().enumerate() {
        machine.address(&format!("10.9.0.{}", index + 1));
    }
    machines.try_into().ok().map(|machines| (switch, machines))
}

/// What it says until it says what is asked for.
#[track_caller]
fn until(running: &mut Running, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let told = running.next_object();
        if is_it(&told) {
            return told;
        }
    }
}

fn is_role(role: &'static str) -> impl Fn(&Value) -> bool {
    move |told| told["role"] == role
}

fn is_told(what: &'static str) -> impl Fn(&Value) -> bool {
    move |told| told["told"] == what
}

/// A process that ends with this.
struct Beside(Child);

impl Beside {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// A web server in a namespace.
    fn web(machine: &Machine, page: &str) -> Self {
        std::fs::create_dir_all(machine.place.path("web")).unwrap();
        machine.place.write("web/index.html", page);
        let mut command = machine.namespace.enter("python3");
        command.args(["-m", "http.server", "80", "--bind", "127.0.0.1"]);
        Self::start(command.args(["-d", machine.place.path("web").to_str().unwrap()]))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The page that `machine` gets from `label`, by the proxy of its node.
fn page(machine: &Machine, proxy: &Value, label: &str) -> String {
    let mut command = machine.namespace.enter("curl");
    let proxy = format!("socks5h://{}", proxy["local"].as_str().unwrap());
    command.args(["--silent", "--max-time", "10", "--proxy", &proxy]);
    let output = command.arg(format!("http://{label}.rhumb.internal/")).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn two_machines_see_each_other_by_one_command_each() {
    let Some((_switch, [kitchen, desk])) = lan::<2>() else { return };
    let _web = Beside::web(&kitchen, "in the kitchen");
    let begin = Instant::now();
    let mut first = kitchen.start(&["up", "--trust-lan", "--as", "kitchen", "--serve", "80"]);
    let ready = until(&mut first, is_role("network"));
    assert_eq!((&ready["network"], &ready["node"]), (&json!("kitchen-lan"), &json!(true)));
    let mut second = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    let joined = until(&mut second, is_told("joined"));
    assert_eq!(joined["fingerprint"], ready["fingerprint"], "{joined}");
    let proxy = until(&mut second, is_role("proxy"));
    let node = until(&mut second, is_role("node"));
    assert_eq!(node["network"], "desk in kitchen-lan");
    // A page over names by three commands, and then both ways; the proxy of a node that is a part
    // has said where only there.
    wait_for("a page", || page(&desk, &proxy, "kitchen") == "in the kitchen");
    println!("from the first `rhumb up` to the first page: {:?}", begin.elapsed());
    assert_eq!(until(&mut first, is_told("came"))["label"], "desk");
    assert!(desk.reaches("kitchen"));
    wait_for("the other way", || kitchen.reaches("desk"));
    let _web = Beside::web(&desk, "on the desk");
    let mut server = desk.start(&["serve", "80", "--allow-domain", "kitchen-lan"]);
    server.next_object();
    let mut forward = kitchen.start(&["forward", "127.0.0.1:8080", "desk:80"]);
    forward.next_object();
    wait_for("a page the other way", || {
        let mut command = kitchen.namespace.enter("curl");
        let got = command.args(["--silent", "http://127.0.0.1:8080/"]).output().unwrap();
        got.stdout == b"on the desk"
    });
    // Nothing is wrong, and everybody's files are as with a network by invitation.
    let doctor = desk.run(&["doctor"]);
    assert!(doctor.output.contains("\nnothing is wrong\n"), "{}", doctor.output);
    assert_eq!(kitchen.members(), ["desk", "kitchen"]);
    assert_eq!(desk.networks(), [("kitchen-lan".to_owned(), false)]);
    // Its host starts again, at another address: the member finds it, and so does one that starts.
    assert_eq!(first.signal("TERM"), 0);
    kitchen.address("10.9.0.77");
    let mut first = kitchen.start(&["up"]);
    assert_eq!(until(&mut first, is_role("network"))["host"], "10.9.0.77");
    wait_for("it is found again", || desk.reaches("kitchen"));
    // So is its keeper, by the node that goes on.
    let is_moved = || desk.run(&["network"]).output.contains("10.9.0.77");
    wait_for("it is written down", is_moved);
    assert_eq!(second.signal("TERM"), 0);
    let mut second = desk.start(&["up"]);
    until(&mut second, is_role("node"));
    assert!(desk.reaches("kitchen"));
    kitchen.run(&["up"]).is_refused_with(&["kitchen-lan runs here already"]);
}

#[test]
fn machines_that_have_ipv6_on_the_link_alone_see_each_other() {
    let Some((_switch, [kitchen, desk])) = lan::<2>() else { return };
    kitchen.only_on_link("02:00:00:00:00:01");
    desk.only_on_link("02:00:00:00:00:02");
    let mut first = kitchen.start(&["up", "--trust-lan", "--as", "kitchen"]);
    let ready = until(&mut first, is_role("network"));
    assert_eq!(ready["host"], "fe80::ff:fe00:1%eth");
    let mut second = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    let joined = until(&mut second, is_told("joined"));
    assert_eq!(joined["host"], "fe80::ff:fe00:1%eth");
    assert_eq!(until(&mut second, is_role("node"))["network"], "desk in kitchen-lan");
    assert_eq!(until(&mut first, is_told("came"))["label"], "desk");
    assert!(desk.reaches("kitchen"));
    wait_for("the other way", || kitchen.reaches("desk"));
    let doctor = desk.run(&["doctor"]);
    assert!(doctor.output.contains("\nnothing is wrong\n"), "{}", doctor.output);
    let doctor = kitchen.run(&["doctor"]);
    assert!(doctor.output.contains("\nnothing is wrong\n"), "{}", doctor.output);
    // Such an address means nothing elsewhere, so there is no code for it.
    let invite = ["network", "invite", "--as", "attic"];
    kitchen.run(&invite).is_refused_with(&["%eth", "that link alone", "rhumb up"]);
    // The host starts again at another address: the member that runs finds it.
    assert_eq!(first.signal("TERM"), 0);
    kitchen.only_on_link("02:00:00:00:00:77");
    let mut first = kitchen.start(&["up"]);
    assert_eq!(until(&mut first, is_role("network"))["host"], "fe80::ff:fe00:77%eth");
    wait_for("it is found again", || desk.reaches("kitchen"));
    wait_for("it is written down", || {
        desk.run(&["network"]).output.contains("fe80::ff:fe00:77%eth")
    });
    // The member starts again, and its interface is called otherwise.
    assert_eq!(second.signal("TERM"), 0);
    desk.namespace.run("ip link set eth down; ip link set eth name left; ip link set left up");
    let mut second = desk.start(&["up"]);
    until(&mut second, is_role("node"));
    assert!(desk.reaches("kitchen"));
    assert!(desk.run(&["network"]).output.contains("fe80::ff:fe00:77%left"));
}

#[test]
fn one_that_has_ipv6_alone_finds_one_that_has_both() {
    let Some((_switch, [kitchen, desk, hall])) = lan::<3>() else { return };
    kitchen.only_on_link("02:00:00:00:00:01");
    kitchen.namespace.run("ip address add 10.9.0.1/24 dev eth");
    desk.only_on_link("02:00:00:00:00:02");
    let mut first = kitchen.start(&["up", "--trust-lan", "--as", "kitchen"]);
    assert_eq!(until(&mut first, is_role("network"))["host"], "10.9.0.1");
    let mut second = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    assert_eq!(until(&mut second, is_told("joined"))["host"], "fe80::ff:fe00:1%eth");
    until(&mut second, is_role("node"));
    // And so does one that has IPv4 alone, and reaches the other by the host.
    let mut third = hall.start(&["up", "--trust-lan", "--as", "hall"]);
    assert_eq!(until(&mut third, is_told("joined"))["host"], "10.9.0.1");
    until(&mut third, is_role("node"));
    assert!(desk.reaches("kitchen"));
    assert!(hall.reaches("desk"));
}

#[test]
fn the_doctor_looks_on_the_link_for_the_host_of_its_network() {
    let Some((_switch, [kitchen, desk])) = lan::<2>() else { return };
    let mut first = kitchen.start(&["up", "--trust-lan", "--as", "kitchen"]);
    until(&mut first, is_role("network"));
    let mut second = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    until(&mut second, is_role("node"));
    let link = |desk: &Machine| {
        let run = desk.run(&["--json", "doctor"]);
        let mut lines = run.output.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        lines.find(|it| it["check"] == "link").map(|it| (run.code, it)).unwrap()
    };
    let (_, said) = link(&desk);
    assert!(
        said["state"] == "ok" && said["found"].as_str().unwrap().contains("as it was"),
        "{said}"
    );
    // While this host is off the other one gets another address.
    assert_eq!((second.signal("TERM"), first.signal("TERM")), (0, 0));
    let (code, said) = link(&desk);
    assert_eq!((code, &said["state"]), (1, &json!("problem")), "{said}");
    assert!(said["do"].as_str().unwrap().contains("`rhumb up` there"), "{said}");
    kitchen.address("10.9.0.78");
    let mut first = kitchen.start(&["up"]);
    until(&mut first, is_role("network"));
    let (code, said) = link(&desk);
    assert_eq!((code, &said["state"]), (0, &json!("ok")), "{said}");
    assert!(
        said["found"].as_str().unwrap().contains("at 10.9.0.78 now, and no longer at 10.9.0.1")
    );
    // It has only looked.
    assert!(desk.run(&["network"]).output.contains("10.9.0.1"));
}

/// Types a line.
fn types(terminal: &Terminal, line: &str) {
    terminal.press(&[line.trim(), "Enter"]);
}

#[test]
fn people_compare_a_number_and_say_yes_on_both_screens() {
    let page = page_of("docs/lan.md");
    let all = commands(&page, "# Two machines of one LAN", "## Without anybody");
    let [first_up, second_up, ping, serve, curl] = all[..] else { panic!("{all:?}") };
    let Some((_switch, [kitchen, desk])) = lan::<2>() else { return };
    // Without the file that others of these tests have.
    for machine in [&kitchen, &desk] {
        std::fs::remove_file(machine.place.path("rhumb.toml")).unwrap();
    }
    let third = Machine { namespace: Namespace::new().unwrap(), place: host() };
    kitchen.namespace.wire("wire", &third.namespace, "eth");
    kitchen.namespace.run("ip address add 10.8.0.1/24 dev wire");
    third.address("10.8.0.3");
    let (Some(at_kitchen), Some(at_desk)) = (kitchen.sit("kitchen"), desk.sit("desk")) else {
        return;
    };
    let begin = Instant::now();
    let mut recorder = Recorder::begin("lan", RECORDED, [&kitchen.place, &desk.place]);
    types(&at_kitchen, first_up);
    at_kitchen.wait_for_words("nobody comes in before somebody here has let him in");
    recorder.look("kitchen", &at_kitchen);
    types(&at_desk, second_up);
    let shown = at_desk.wait_for_words("is it the same? [y/N]");
    let number = shown.lines().find(|it| it.starts_with("    ")).unwrap().trim().to_owned();
    let asked = at_kitchen.wait_for_words("desk, at 10.9.0.2, asks to be let in");
    assert!(asked.contains(&number), "{number}: {asked}");
    recorder.look("desk", &at_desk);
    recorder.look("kitchen", &at_kitchen);
    // One yes is not enough, whichever it is; and it is for what has stood there for a moment.
    std::thread::sleep(Duration::from_millis(1500));
    types(&at_kitchen, "y");
    at_kitchen.wait_for_words("desk comes in as soon as somebody presses y there, too");
    assert_eq!(kitchen.members(), ["kitchen"]);
    types(&at_desk, "y");
    at_desk.wait_for_words("ready: this host is");
    at_kitchen.wait_for_words("desk is in the network now, which has 2 members");
    recorder.look("kitchen", &at_kitchen);
    recorder.look("desk", &at_desk);
    let pinged = desk.shell(ping).output().unwrap();
    println!("from the first `rhumb up` to the first answer: {:?}", begin.elapsed());
    assert!(pinged.status.success(), "{pinged:?}");
    recorder.add("desk", &format!("$ {}", ping.trim()));
    recorder.add("desk", &String::from_utf8(pinged.stdout).unwrap());
    recorder.end();
    wait_for("the other way", || kitchen.reaches("desk"));
    let _web = Beside::web(&kitchen, "in the kitchen");
    let mut serving = kitchen.shell(serve);
    let _serving = Beside::start(&mut serving);
    wait_for("a page", || desk.shell(curl).output().unwrap().stdout == b"in the kitchen");
    println!("from the first `rhumb up` to the first page: {:?}", begin.elapsed());

    // A machine of the same name gets a number, which is told before anybody says yes. Who does not
    // see the same number says no, and is in nothing.
    let Some(at_third) = third.sit("kitchen") else { return };
    types(&at_third, "rhumb up");
    at_third.wait_for_words("is it the same? [y/N]");
    at_kitchen.wait_for_words("kitchen-2, at 10.8.0.3, asks to be let in");
    types(&at_third, "n");
    at_third.wait_for_words("nothing was joined, and nothing was written");
    at_kitchen.wait_for_words("kitchen-2 asks no longer");
    assert_eq!(kitchen.members(), ["desk", "kitchen"]);

    // A no at the keeper's screen is told at once, before those who ask have said anything.
    types(&at_third, "clear");
    types(&at_kitchen, "clear");
    types(&at_third, "rhumb up --as cellar");
    at_third.wait_for_words("is it the same? [y/N]");
    at_kitchen.wait_for_words("cellar, at 10.8.0.3, asks to be let in");
    std::thread::sleep(Duration::from_millis(1500));
    types(&at_kitchen, "n");
    at_kitchen.wait_for_words("cellar is told that it is not let in");
    at_third.wait_for_words("somebody at that host has said no");
    assert_eq!(kitchen.members(), ["desk", "kitchen"]);
    assert!(third.networks().is_empty());
}

#[test]
fn nobody_comes_into_a_network_that_is_there_by_asking_alone() {
    let Some((_switch, [kitchen, desk])) = lan::<2>() else { return };
    // Nobody sits there, and nobody has said that the LAN is trusted.
    let mut keeping = kitchen.start(&["up", "--lan", "--as", "kitchen"]);
    until(&mut keeping, is_role("network"));
    desk.run(&["up", "--lan"]).is_refused_with(&[
        "kitchen-lan",
        "10.9.0.1",
        "--trust-lan",
        "rhumb join",
    ]);
    assert!(desk.networks().is_empty());
    let mut asking = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    let number = until(&mut asking, is_told("compare"))["number"].as_str().unwrap().to_owned();
    let asks = || kitchen.run(&["--json", "network", "admit"]).output;
    wait_for("it is seen", || asks().contains(&number) && asks().contains("10.9.0.2"));
    let other = if number.starts_with('1') { "200 000" } else { "100 000" };
    kitchen.run(&["network", "admit", other]).is_refused_with(&["nobody asks", "in between"]);
    assert_eq!(kitchen.members(), ["kitchen"]);
    // Whoever leaves asks no longer.
    assert_eq!(asking.signal("TERM"), -1);
    wait_for("it is gone", || asks().is_empty());
    kitchen.run(&["network", "admit", &number]).is_refused_with(&["nobody asks"]);
    // Somebody refuses it, and it hears that although it has agreed; the next request is another.
    let mut asking = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    let number = until(&mut asking, is_told("compare"))["number"].as_str().unwrap().to_owned();
    wait_for("it is seen", || asks().contains(&number));
    let refused = kitchen.run(&["--json", "network", "admit", "--refuse", &number]);
    assert_eq!(refused.object()["refused"], "desk", "{}", refused.errors);
    let (code, errors) = asking.end_by_itself();
    assert!(code == 2 && errors.contains("somebody at that host has said no"), "{errors}");
    assert!(desk.networks().is_empty());
    assert_eq!(kitchen.members(), ["kitchen"]);
    // Again, and somebody lets it in who sees the same number, by another way than the network.
    let mut asking = desk.start(&["up", "--trust-lan", "--as", "desk"]);
    let number = until(&mut asking, is_told("compare"))["number"].as_str().unwrap().to_owned();
    wait_for("it is seen", || asks().contains(&number));
    let admitted = kitchen.run(&["--json", "network", "admit", &number]);
    assert_eq!(admitted.object()["let_in"], "desk", "{}", admitted.errors);
    until(&mut asking, is_role("node"));
    assert!(desk.reaches("kitchen"));
    // A network by invitation takes nobody so.
    let keeper = crate::hosts::Keeper::create("home");
    let _running = keeper.run();
    keeper.place.run(&["network", "admit"]).is_refused_with(&["rhumb network invite home"]);
}

#[test]
fn of_two_that_are_made_at_one_time_one_gives_way() {
    let Some((_switch, [one, two])) = lan::<2>() else { return };
    let mut first = one.start(&["up", "--trust-lan", "--as", "one"]);
    let mut second = two.start(&["up", "--trust-lan", "--as", "two"]);
    until(&mut first, is_role("network"));
    until(&mut second, is_role("network"));
    wait_for("they are in one network", || {
        let all = [one.networks(), two.networks()].concat();
        all.len() == 2 && all[0].0 == all[1].0 && all.iter().filter(|it| it.1).count() == 1
    });
    wait_for("one reaches two", || one.reaches("two"));
    wait_for("two reaches one", || two.reaches("one"));
    // What gave way has left nothing, not even in the book of names.
    let (kept, gone) = match one.networks()[0].0.as_str() {
        "one-lan" => (&two, "two-lan"),
        _ => (&one, "one-lan"),
    };
    let names = kept.run(&["name"]).output;
    assert!(!names.contains(gone), "{names}");
}

#[test]
fn of_several_networks_none_is_joined_that_nobody_chose() {
    let Some((switch, [one, two, guest])) = lan::<3>() else { return };
    // Each is made while the other is not seen.
    switch.run("ip link set port1 down");
    let mut first = one.start(&["up", "--lan", "--as", "one"]);
    let ready = until(&mut first, is_role("network"));
    switch.run("ip link set port0 down; ip link set port1 up");
    let mut second = two.start(&["up", "--lan", "--as", "two"]);
    until(&mut second, is_role("network"));
    switch.run("ip link set port0 up");
    // Both are told.
    until(&mut first, is_told("another"));
    assert_eq!(until(&mut second, is_told("another"))["network"], "one-lan");
    let trusting = ["up", "--trust-lan", "--as", "guest"];
    guest.run(&trusting).is_refused_with(&["several networks", "one-lan", "two-lan", "--lan"]);
    assert!(guest.networks().is_empty());
    let elsewhere = [&trusting[..], &["--lan", "sea"]].concat();
    guest.run(&elsewhere).is_refused_with(&["no network that is called sea"]);
    let fingerprint = ready["fingerprint"].as_str().unwrap();
    let mut joining = guest.start(&[&trusting[..], &["--lan", fingerprint]].concat());
    let number = until(&mut joining, is_told("compare"))["number"].as_str().unwrap().to_owned();
    wait_for("it is let in", || one.run(&["network", "admit", &number]).code == 0);
    until(&mut joining, is_role("node"));
    // From now on it asks nobody: it is in one, whoever else answers.
    assert_eq!(joining.signal("TERM"), 0);
    let mut again = guest.start(&["up", "--trust-lan"]);
    assert_eq!(until(&mut again, is_role("node"))["network"], "guest in one-lan");
    assert!(guest.reaches("one"));
    assert_eq!(guest.networks(), [("one-lan".to_owned(), false)]);
}

#[test]
fn a_lan_that_lets_nothing_pass_is_told_with_what_to_do() {
    let Some((switch, [one, two])) = lan::<2>() else { return };
    two.namespace.run("ip address flush dev eth");
    two.run(&["up", "--trust-lan"])
        .is_refused_with(&["no address on a network", "rhumb join CODE"]);
    two.address("10.9.0.2");
    // As on a Wi-Fi for guests, where hosts do not see each other.
    switch.run("bridge link set dev port0 isolated on; bridge link set dev port1 isolated on");
    let mut first = one.start(&["up", "--trust-lan", "--as", "one"]);
    until(&mut first, is_role("network"));
    let Some(terminal) = two.sit("two") else { return };
    types(&terminal, "rhumb up");
    terminal.wait_for_words("something keeps broadcasts or UDP");
    terminal.wait_for_words("rhumb network invite two-lan --as LABEL");
}

#[test]
fn what_strangers_say_out_of_turn_lets_nobody_in_and_their_tries_are_few() {
    if std::env::var(STRANGER).is_ok() {
        return runtime().block_on(be_strangers());
    }
    let Some((_switch, [kitchen, desk])) = lan::<2>() else { return };
    let mut keeping = kitchen.start(&["up", "--lan", "--as", "kitchen"]);
    until(&mut keeping, is_role("network"));
    let output = desk.as_test(STRANGER_TEST, "stranger").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    assert_eq!(kitchen.members(), ["kitchen"]);
}

#[test]
fn whoever_is_in_between_shows_the_two_other_numbers_or_none() {
    if let Ok(how) = std::env::var(STRANGER) {
        return runtime().block_on(be_in_between(how == PASSING_ON));
    }
    let Some((switch, [kitchen, desk, between])) = lan::<3>() else { return };
    // Two machines see each other by the third alone, which has a router to be found by.
    switch.run("bridge link set dev port0 isolated on; bridge link set dev port1 isolated on");
    let mut keeping = kitchen.start(&["up", "--lan", "--as", "kitchen"]);
    until(&mut keeping, is_role("network"));
    let Machine { namespace, place } = &between;
    let _router = Site::start(place, namespace, "10.9.0.3:7460", &["--discovery", "on"]);
    let begin = |how| {
        let answering = Beside::start(&mut between.as_test(BETWEEN_TEST, how));
        let listening = || namespace.enter("ss").args(["-Hltn", "sport = :7462"]).output();
        wait_for("he listens", || !listening().unwrap().stdout.is_empty());
        answering
    };
    let asks = || kitchen.run(&["--json", "network", "admit"]).output;
    // Who finds no such network makes none.
    let trusting = ["up", "--trust-lan", "--as", "desk", "--lan", "kitchen-lan"];

    // Somebody who speaks for each to the other says yes at once, and has nobody let him in.
    let answering = begin("speaking for both");
    let mut asking = desk.start(&trusting);
    let number = until(&mut asking, is_told("compare"))["number"].as_str().unwrap().to_owned();
    wait_for("he asks", || asks().contains("10.9.0.3") && asks().contains("\"agreed\":true"));
    assert!(!asks().contains(&number), "{number}: {}", asks());
    kitchen.run(&["network", "admit", &number]).is_refused_with(&["nobody asks", "in between"]);
    assert_eq!(kitchen.members(), ["kitchen"]);
    drop((answering, asking));
    assert!(desk.networks().is_empty());

    // Somebody who passes on what each says cannot, since it was said to another one.
    let _answering = begin(PASSING_ON);
    wait_for("it is seen through", || {
        let run = desk.run(&trusting);
        run.code != 0 && run.errors.contains("somebody may be in between")
    });
    assert_eq!(kitchen.members(), ["kitchen"]);
    assert!(desk.networks().is_empty());
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A channel to the keeper, and what it says first to `identity`.
async fn asked(identity: &Identity) -> (Channel, Option<Admission>) {
    let credentials = Credentials::new(identity).unwrap();
    let keeper = "10.9.0.1:7462".parse().unwrap();
    let mut channel = connect_to_anybody(&credentials, keeper, &PROTOCOL).await.unwrap();
    say(&channel, Admission::Ask("desk".parse().unwrap())).await;
    let answer = hear(&mut channel).await;
    (channel, answer)
}

async fn offered(identity: &Identity) -> (Channel, Offer) {
    match asked(identity).await {
        (channel, Some(Admission::Offer(offer))) => (channel, offer),
        (_, other) => panic!("{other:?}"),
    }
}

async fn say(channel: &Channel, message: Admission) {
    let _ = channel.outbox.send(message.emit()).await;
}

async fn hear(channel: &mut Channel) -> Option<Admission> {
    let message = channel.inbox.next().await.ok()?;
    Some(Admission::parse(&message).unwrap())
}

/// What a process in the namespace of a stranger does.
async fn be_strangers() {
    let identity = || Identity::generate(Role::Node, 1).unwrap();
    let stranger = identity();
    // Agreed before anything was shown, or instead of that.
    let (mut channel, offer) = offered(&stranger).await;
    assert_eq!(offer.network.as_str(), "kitchen-lan");
    say(&channel, Admission::Agree).await;
    assert_eq!(hear(&mut channel).await, None);
    // A router's key is not for this.
    let router = Identity::generate(Role::Router, 1).unwrap();
    let (_, answer) = asked(&router).await;
    assert_eq!(answer, Some(Admission::Refusal(Refusal::OtherRole(Role::Node))));
    // The keeper's nonce comes after the other one, and is what it has committed to. All agree at
    // once, and wait for somebody who lets them in; more than a few tries a minute nobody has,
    // whatever he calls himself: of so many one would fit, and none can be given up unseen.
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let (mut channel, offer) = offered(&identity()).await;
        let early = tokio::time::timeout(Duration::from_millis(100), hear(&mut channel)).await;
        assert!(early.is_err(), "{early:?}");
        say(&channel, Admission::Reveal([7; 32])).await;
        match hear(&mut channel).await {
            Some(Admission::Reveal(nonce)) => {
                assert!(opens(&offer.commitment, channel.peer, &nonce));
            }
            other => panic!("{other:?}"),
        }
        say(&channel, Admission::Agree).await;
        waiting.push(channel);
    }
    for _ in 0..20 {
        let (mut channel, _) = offered(&identity()).await;
        say(&channel, Admission::Reveal([7; 32])).await;
        assert_eq!(hear(&mut channel).await, Some(Admission::Refusal(Refusal::Busy)));
    }
    for channel in &mut waiting {
        let heard = tokio::time::timeout(Duration::from_millis(100), hear(channel)).await;
        assert!(heard.is_err(), "{heard:?}");
    }
}

/// What a process does that is the keeper for who asks, and who asks for the keeper.
async fn be_in_between(is_passing_on: bool) {
    let [as_keeper, as_desk] = [1, 2].map(|_| Identity::generate(Role::Node, 1).unwrap());
    let credentials = Credentials::new(&as_keeper).unwrap();
    let here = "10.9.0.3:7462".parse().unwrap();
    let mut listener = Listener::bind(here, &credentials, &[PROTOCOL], |_| true).await.unwrap();
    loop {
        let mut desk = listener.accept().await;
        // The keeper, too, looks around.
        if desk.address.ip() != Ipv4Addr::new(10, 9, 0, 2) || hear(&mut desk).await.is_none() {
            continue;
        }
        let (mut keeper, offer) = offered(&as_desk).await;
        let own = Opening::generate().unwrap();
        let said = if is_passing_on { offer.commitment } else { own.commitment(as_keeper.name()) };
        say(&desk, Admission::Offer(Offer { commitment: said, ..offer })).await;
        let Some(reveal) = hear(&mut desk).await else { continue };
        say(&keeper, reveal).await;
        let Some(Admission::Reveal(nonce)) = hear(&mut keeper).await else { panic!("too many") };
        say(&desk, Admission::Reveal(if is_passing_on { nonce } else { own.nonce() })).await;
        say(&keeper, Admission::Agree).await;
        while let Some(word) = hear(&mut keeper).await {
            say(&desk, word).await;
        }
    }
}

/// As the program speaks it, from both ends.
const PROTOCOL: Protocol = Protocol {
    name: "rhumb-network/1",
    max_received: Admission::MAX_TOLD_LEN,
    max_sent: Admission::MAX_TOLD_LEN,
    max_queue: Admission::MAX_TOLD_LEN,
};
const STRANGER_TEST: &str =
    "lan::what_strangers_say_out_of_turn_lets_nobody_in_and_their_tries_are_few";
const BETWEEN_TEST: &str = "lan::whoever_is_in_between_shows_the_two_other_numbers_or_none";
const PASSING_ON: &str = "passing on";
/// Says to a process of those tests which stranger it is.
const STRANGER: &str = "RHUMB_TEST_STRANGER";
/// Below the recording in the page.
const RECORDED: &str = "rhumb up on two machines of one LAN: the same number on both screens, a yes on each, and a ping";
