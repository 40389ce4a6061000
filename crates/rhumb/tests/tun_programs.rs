//! Programs that people use, unchanged, between two hosts that have their names as addresses: a
//! database's client, ssh and WireGuard, over three routers, of which one dies in the middle; and a
//! browser.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::tun::{Rig, Tun, is_there};

/// Two hosts over three routers: Alice's is the first; Bob's is one of the others, and if that dies
/// he goes to the last.
fn alice_and_bob() -> Option<(Rig, Tun, Tun)> {
    let rig = Rig::new(3, 2)?;
    let [alice, bob] = ["alice.key", "bob.key"].map(|key| rig.place.keygen("node", key));
    let [first, second, third] = [0, 1, 2].map(|number| rig.routers[number].1.clone());
    // Each lets the other begin: a tunnel within is begun by either end.
    let here = rig.tun(0, "alice.key", &["--allow", &bob, "--router", &first]);
    let there = ["--allow", &alice, "--root", &second, "--root", &third];
    let there = rig.tun(1, "bob.key", &there);
    Some((rig, here, there))
}

/// A program that is asked line by line, over one connection.
struct Talk {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Talk {
    fn with(mut program: Command) -> Self {
        let mut child = program.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (asks, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, asks, answers: BufReader::new(answers) }
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.asks, "{line}").unwrap();
        self.asks.flush().unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server of ssh on an address, which takes `user` for root.
fn sshd(rig: &Rig, ip: &str) -> crate::tun::Server {
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(rig.place.path(key))
            .status();
        assert!(made.unwrap().success());
    }
    std::fs::copy(rig.place.path("user.pub"), rig.place.path("authorized")).unwrap();
    std::fs::create_dir_all("/run/sshd").unwrap();
    let folder = rig.place.folder().display();
    let settings = format!(
        "ListenAddress [{ip}]:22\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
         StrictModes no\nUsePAM no\nUseDNS no\nPidFile none\nPermitRootLogin prohibit-password\n"
    );
    rig.place.write("sshd.conf", &settings);
    let file = rig.place.path("sshd.conf").display().to_string();
    rig.serve(1, &["/usr/sbin/sshd", "-D", "-e", "-f", &file])
}

/// Lays a tunnel of WireGuard through that of names, and returns its address at Bob's end.
fn wireguard(rig: &Rig, ips: [&str; 2]) -> (Vec<crate::tun::Server>, &'static str) {
    // Its sockets are in a folder that all namespaces share.
    let devices = ["a", "b"].map(|end| format!("wg{end}{}", std::process::id()));
    let keys = ["wg-alice", "wg-bob"].map(|file| {
        let script = format!("umask 077; wg genkey > {file} && wg pubkey < {file}");
        let output = rig.program(0, &["sh", "-c", &script]).output().unwrap();
        (file, String::from_utf8(output.stdout).unwrap().trim().to_owned())
    });
    let servers = devices.iter().enumerate();
    let servers = servers.map(|(node, device)| rig.serve(node, &["wireguard-go", "-f", device]));
    let servers = servers.collect();
    for node in [0, 1] {
        let (device, other) = (&devices[node], 1 - node);
        let script = format!(
            "wg set {device} listen-port 51820 private-key {} peer {} allowed-ips 10.77.0.{}/32 \
             endpoint [{}]:51820 && (ip addr add 10.77.0.{}/24 dev {device} || true) && \
             ip link set {device} mtu 1200 up",
            keys[node].0,
            keys[other].1,
            other + 1,
            ips[other],
            node + 1
        );
        rig.until_it_works(node, &["sh", "-c", &script]);
    }
    (servers, "10.77.0.2")
}

#[test]
fn sessions_of_programs_outlive_a_router() {
    let needs = ["redis-server", "redis-cli", "ssh", "ssh-keygen", "wg", "wireguard-go", "ping"];
    if !needs.iter().all(|it| is_there(it)) || !Path::new("/usr/sbin/sshd").exists() {
        println!("skipped: without one of {needs:?} and sshd");
        return;
    }
    let Some((mut rig, here, there)) = alice_and_bob() else { return };
    let (_sshd, ip) = (sshd(&rig, there.ip()), there.ip());
    let redis = ["redis-server", "--bind", ip, "--protected-mode", "no", "--save", ""];
    let _redis = rig.serve(1, &redis);
    let (_tunnel, within) = wireguard(&rig, [here.ip(), ip]);
    let ping = ["ping", "-c", "3", "-i", "0.2", "-W", "5", within];
    rig.until_it_works(0, &ping);
    let client = ["redis-cli", "-h", ip];
    rig.until_it_works(0, &[&client[..], &["ping"]].concat());
    let mut database = Talk::with(rig.program(0, &client));
    assert_eq!(database.ask("set boat rhumb"), "OK");
    let connection = database.ask("client id");
    let user = rig.place.path("user").display().to_string();
    let quiet = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];
    let to = ["-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-i", &user, "-l", "root", ip];
    let ssh = [&["ssh", "-F", "none"][..], &quiet, &to].concat();
    rig.until_it_works(0, &[&ssh[..], &["true"]].concat());
    let mut shell = Talk::with(rig.program(0, &[&ssh[..], &["cat"]].concat()));
    assert_eq!(shell.ask("before"), "before");

    rig.kill_router_of(1, &there);
    assert_eq!(shell.ask("after"), "after");
    assert_eq!(database.ask("get boat"), "rhumb");
    // It would connect again by itself, as another one.
    assert_eq!(database.ask("client id"), connection);
    rig.until_it_works(0, &ping);
}

#[test]
fn a_browser_opens_a_host_that_is_a_name() {
    if !["chromium", "python3"].iter().all(|it| is_there(it)) {
        return;
    }
    let Some((rig, _here, there)) = alice_and_bob() else { return };
    rig.place.write("index.html", "<p>a page of Bob's</p>");
    let _web = rig.serve(1, &["python3", "-m", "http.server", "80", "--bind", there.ip()]);
    let url = format!("http://[{}]/", there.ip());
    rig.until_it_works(0, &["curl", "--silent", "--fail", "--max-time", "5", &url]);
    let profile = format!("--user-data-dir={}", rig.place.path("browser").display());
    let browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"];
    let more = ["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"];
    let opened = [&profile, "--timeout=30000", "--dump-dom", &url];
    let output = rig.program(0, &[&browser[..], &more, &opened].concat()).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(page.contains("<p>a page of Bob's</p>"), "{page}{errors}");
}
