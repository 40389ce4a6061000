//! Programs that know nothing of names talk over them, as `docs/ports.md` says: curl with a web
//! server, and ssh, over three routers, of which one dies.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Place, Running, remote};
use crate::network::Network;
use crate::pages::{after, built, commands, page, play};

/// A RIB and three routers.
struct Routers {
    network: Network,
    others: Vec<(Running, Value)>,
}

impl Routers {
    fn start(place: &Place) -> Self {
        let network = Network::start(place);
        let rib = remote(&network.rib_ready);
        let others = ["second.key", "third.key"].map(|key| {
            place.keygen("router", key);
            let arguments = ["router", "--listen", "127.0.0.1:0", "--key", key, "--rib", &rib];
            let mut router = place.start(&arguments);
            let ready = router.next_object();
            (router, ready)
        });
        Self { network, others: others.into() }
    }

    fn first(&self) -> String {
        self.network.router()
    }

    fn other(&self, number: usize) -> String {
        remote(&self.others[number].1)
    }
}

/// A web server that gives everybody the same.
pub(crate) fn web_server(body: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |mut tcp: TcpStream| {
        let mut asked = Vec::new();
        let mut part = [0; 1024];
        while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
            match tcp.read(&mut part) {
                Ok(1..) => asked.extend_from_slice(&part),
                _ => return,
            }
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = tcp.write_all(head.as_bytes()).and_then(|()| tcp.write_all(&body));
    };
    std::thread::spawn(move || {
        let serve = std::sync::Arc::new(serve);
        for tcp in listener.incoming().flatten() {
            let serve = std::sync::Arc::clone(&serve);
            std::thread::spawn(move || serve(tcp));
        }
    });
    address
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 2_654_435_761) >> 11) as u8).collect()
}

pub(crate) fn curl(ready: &Value, more: &[&str]) -> Command {
    let url = format!("http://{}/", ready["local"].as_str().unwrap());
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60"]).args(more).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn fetched(output: &Output) -> &[u8] {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    &output.stdout
}

/// A node that offers a program to one name, and one of that name that brings it here.
fn pair(
    place: &Place,
    to: SocketAddr,
    serve: &[&str],
    forward: &[&str],
) -> (Running, Running, Value) {
    let client = place.keygen("node", "client.key");
    let to = to.to_string();
    let offered = ["serve", "80", "--to", &to, "--allow", &client, "--key", "server.key"];
    let name = place.keygen("node", "server.key");
    let mut server = place.start(&[&offered[..], serve].concat());
    let ready = server.next_object();
    assert_eq!((&ready["name"], &ready["port"]), (&json!(name), &json!(80)));
    let service = format!("{name}:80");
    let wanted = ["forward", "127.0.0.1:0", &service, "--key", "client.key"];
    let mut forwarder = place.start(&[&wanted[..], forward].concat());
    let ready = forwarder.next_object();
    assert_eq!((&ready["to"], &ready["port"]), (&json!(name), &json!(80)));
    (server, forwarder, ready)
}

#[test]
fn a_web_server_is_reached_by_name_although_its_router_dies() {
    let place = Place::new();
    let mut routers = Routers::start(&place);
    let body = noise(12_000_000);
    let web = web_server(body.clone());
    let (first, second, third) = (routers.first(), routers.other(0), routers.other(1));
    let (mut server, mut forwarder, ready) =
        pair(&place, web, &["--root", &second, "--root", &third], &["--router", &first]);
    assert_eq!(fetched(&curl(&ready, &[]).output().unwrap()), body);
    let connected = server.next_object();
    assert!(connected["connected"].is_string(), "{connected}");
    assert!(server.next_object()["sent"].as_u64() > Some(12_000_000));
    assert!(forwarder.next_object()["received"].as_u64() > Some(12_000_000));

    let fetching = curl(&ready, &["--limit-rate", "3M"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    routers.others.remove(0).0.kill();
    let output = fetching.wait_with_output().unwrap();
    assert_eq!(fetched(&output), body, "the way moved to another router meanwhile");
    assert!(server.next_object()["connected"].is_string());
    assert_eq!(server.end().0, 0);
    assert_eq!(forwarder.end().0, 0);
}

#[test]
fn who_may_not_and_what_is_not_there_are_said_in_a_line() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    place.run(&["serve", "80", "--router", &router]).is_refused_with(&["--allow"]);
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let node = ["--router", router.as_str()];
    let (mut server, mut forwarder, ready) = pair(&place, closed, &node, &node);
    let name = ready["to"].as_str().unwrap().to_owned();

    // The program is not there.
    assert!(!curl(&ready, &[]).output().unwrap().status.success());
    let ended = forwarder.next_object();
    assert!(ended["reason"].as_str().unwrap().contains("cannot be reached"), "{ended}");

    // Another port of the same name.
    let other = format!("{name}:81");
    let arguments = ["forward", "127.0.0.1:0", &other, "--key", "client.key", "--router", &router];
    drop(forwarder);
    let mut other = place.start(&arguments);
    let ready = other.next_object();
    assert!(!curl(&ready, &[]).output().unwrap().status.success());
    let ended = other.next_object();
    assert!(ended["reason"].as_str().unwrap().contains("nothing is served"), "{ended}");

    // Another name, and nobody.
    let service = format!("{name}:80");
    let stranger = place.run(&["forward", "0", &service, "--router", &router]);
    stranger.is_refused_with(&["takes no connections from this name"]);
    let refused = server.next_object();
    assert!(refused["refused"].is_string(), "{refused}");
    let nobody = format!("{}:80", place.keygen("node", "nobody.key"));
    let begin = Instant::now();
    let nowhere = place.run(&["forward", "0", &nobody, "--router", &router]);
    nowhere.is_refused_with(&["no way to"]);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());

    // A port of this host that is taken.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let refused =
        place.run(&["forward", &taken, &service, "--key", "client.key", "--router", &router]);
    refused.is_refused_with(&["cannot listen on"]);
    place.run(&["forward", "0", "80"]).refused_by_the_command_line("NAME:80");
}

#[test]
fn a_capsules_port_is_offered_by_its_server_alone() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let capsule = place.keygen("capsule", "capsule.key");
    let server = place.keygen("node", "server.key");
    let certified = place.run(&["certify", "--server", &server]);
    assert_eq!(certified.code, 0, "{}", certified.errors);
    let web = web_server(b"of the capsule".to_vec()).to_string();
    let service = format!("{capsule}:80");
    let node = ["--key", "server.key", "--router", &router];
    let offered = ["serve", &service, "--to", &web, "--allow-all", "--admin", "127.0.0.1:0"];
    // Without the owner's word it is somebody else's name.
    let refused = place.run(&[&offered[..], &node].concat());
    refused.is_refused_with(&["is not this node's name"]);
    let mut serving =
        place.start(&[&offered[..], &node, &["--ad-cert", "capsule.adcert"]].concat());
    let serves = serving.next_object();
    assert_eq!(serves["name"], json!(capsule));
    let mut forwarder = place.start(&["forward", "127.0.0.1:0", &service, "--router", &router]);
    let ready = forwarder.next_object();
    assert_eq!(fetched(&curl(&ready, &[]).output().unwrap()), b"of the capsule");
    let admin = serves["admin"].as_str().unwrap();
    let status = place.run(&["--json", "status", "--admin", admin]).object();
    let connected = &status["connections"][0];
    assert_eq!(connected["peer"], ready["name"], "{status}");
    assert!(connected["round_trip_ms"].is_number(), "{status}");
    assert_eq!(status["ends"]["other_names"], json!(0), "{status}");
    // The server's own name has the same port, and it is not offered by that.
    let own = format!("{server}:80");
    let mut forwarder = place.start(&["forward", "127.0.0.1:0", &own, "--router", &router]);
    let ready = forwarder.next_object();
    assert!(!curl(&ready, &[]).output().unwrap().status.success());
    let ended = forwarder.next_object();
    assert!(ended["reason"].as_str().unwrap().contains("nothing is served"), "{ended}");
}

/// A server of ssh for this test alone, ended with the value.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ssh_goes_over_a_name() {
    if !Path::new("/usr/sbin/sshd").exists() || !rustix::process::geteuid().is_root() {
        println!("skipped: it needs sshd, and root to start it");
        return;
    }
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(place.path(key))
            .status();
        assert!(made.unwrap().success());
    }
    std::fs::copy(place.path("user.pub"), place.path("authorized")).unwrap();
    std::fs::create_dir_all("/run/sshd").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = place.folder().display();
    let settings = format!(
        "ListenAddress {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
         StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n"
    );
    place.write("sshd.conf", &settings);
    let mut command = Command::new("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f"]).arg(place.path("sshd.conf"));
    let log = std::fs::File::create(place.path("sshd.log")).unwrap();
    let _sshd = Sshd(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());

    let node = ["--router", router.as_str()];
    let (_server, _forwarder, ready) = pair(&place, port, &node, &node);
    let local: SocketAddr = ready["local"].as_str().unwrap().parse().unwrap();
    let output = Command::new("ssh")
        .args([
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ])
        .args(["-o", "ConnectTimeout=20", "-o", "BatchMode=yes", "-i"])
        .arg(place.path("user"))
        .args(["-p", &local.port().to_string(), "root@127.0.0.1", "echo over a name"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let log = std::fs::read_to_string(place.path("sshd.log")).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "over a name\n", "{errors}{log}");
}

#[test]
fn the_page_works_as_it_stands() {
    let place = Place::new();
    built(&place);
    let page = page("docs/ports.md");
    let all = commands(&page, "# Programs over names", "`[up.tun]`, which may be empty");
    let mut script = "export PATH=\"$PWD/target/release:$PATH\"\n".to_owned();
    for (number, block) in all.iter().enumerate() {
        script += &format!("echo; echo '$ block {number}'\n{block}");
    }
    script += "\nexit 0\n";
    let Some(played) = play(&place, &script, &["curl", "python3"]) else { return };
    let block = |words: &str| {
        let number = all.iter().position(|block| block.contains(words)).unwrap();
        after(&played, &format!("block {number}\n"))
    };
    let web = "a page over a name";
    let served = block("curl --no-progress-meter http://127.0.0.1:9000/");
    assert!(served.contains(web) && served.contains("connections"), "{played}");
    assert!(block("nobody allowed it").contains("\nnobody allowed it"), "{played}");
    let datagrams = block("python3 ask.py");
    assert!(datagrams.contains("A DATAGRAM OVER A NAME"), "{played}");
    let proxied = block("rhumb proxy --key");
    assert!(proxied.matches(web).count() == 2 && proxied.contains("FindProxyForURL"), "{played}");
    for capability in ["9002/", "9003/"] {
        assert!(block(capability).contains(web), "{played}");
    }
    assert!(block("it takes a").contains("\nit takes a capability"), "{played}");
    let up = block("rhumb --config up.toml up");
    assert!(up.contains(web) && up.contains("3: "), "{played}");
}
