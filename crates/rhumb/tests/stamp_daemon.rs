//! `rhumb stamp daemon`: sockets handed over, users, and what is forwarded
//! for others, each by its way and nothing else.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::TcpStream;
use std::process::Command;

use crate::harness::Run;
use crate::stamping::{Rig, Started, behind, output_on, traces, wait_until, write_file};
use crate::wire::{Host, Line};

/// Serves a page at b.
fn serve_page(rig: &Rig, port: u16) -> Started {
    write_file(&rig.place.path("page"), 100_000);
    let folder = rig.place.folder().display().to_string();
    let server = Started::script(
        &rig.line.b,
        &format!("python3 -m http.server -d {folder} --bind :: {port}"),
    );
    wait_until("the server", || rig.line.b.run("ss -Hltn").contains(&format!(":{port} ")));
    server
}

/// Whether a user of a host gets the page.
fn gets_page(host: &Host, user: u32, address: &str, port: u16) -> bool {
    let script = format!(
        "exec setpriv --reuid {user} --clear-groups curl -s --max-time 4 -o /dev/null http://{address}:{port}/page"
    );
    output_on(host, Command::new("sh").args(["-c", &script])).status.success()
}

#[test]
fn a_socket_that_is_handed_over_is_stamped_and_its_neighbour_is_not() {
    let Some(rig) = Rig::new(0, &["python3"]) else { return };
    let _server = serve_page(&rig, 80);
    rig.line.a.run(&format!("chmod 755 {}", rig.place.folder().display()));
    let keys = ["--capability", "w1.cap", "--capability", "w2.cap"];
    let daemon = rig.daemon(&[&keys[..], &["--socket", "door", "--allow", "4242"]].concat());

    rig.place.write("client.py", CLIENT);
    let door = rig.place.path("door").display().to_string();
    let client = |user: u32, via: &str| {
        let client = rig.place.path("client.py").display().to_string();
        let user = user.to_string();
        let arguments = [&*client, &door, via, Line::B, &user];
        Run::of(output_on(&rig.line.a, Command::new("python3").args(arguments)))
    };
    let via = format!("{},{}", Line::R1, Line::R2);
    for user in [0, 4242] {
        let before = rig.passed();
        let run = client(user, &via);
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        let told = run.object();
        assert_eq!(told["stamped"], serde_json::json!({"stamped": true, "mtu": 1416}));
        assert_eq!(told["page"], 100_000);
        assert_eq!(told["neighbour"], "timed out");
        assert_eq!(told["unstamped"], serde_json::json!({"stamped": false}));
        assert_eq!(told["mark"], 0);
        rig.expect_passed(&before, 2);
    }
    let stranger = client(4343, &via).object();
    let why = stranger["stamped"]["error"].as_str().unwrap();
    assert!(why.contains("4343") && why.contains("--allow"), "{why}");
    let elsewhere = client(0, "192.0.2.77").object();
    let why = elsewhere["stamped"]["error"].as_str().unwrap();
    assert!(why.contains("192.0.2.77"), "{why}");

    // The connections are over, and so are their ways.
    wait_until("the end of the way", || {
        let status = daemon.status(&rig.place, &rig.line.a);
        status["ways"].as_array().unwrap().is_empty()
    });
    let mut daemon = daemon;
    drop(daemon.started.0.stdin.take());
    assert!(daemon.started.0.wait().unwrap().success());
    assert_eq!(traces(&rig.line.a), "");
    assert!(!rig.place.path("door").exists());
}

/// Hands one socket over, and not another; prints what came of it.
const CLIENT: &str = "
import json, os, socket, sys
door, via, b, user = sys.argv[1:]
os.setresuid(int(user), int(user), int(user))
told = {}

def ask(stamper, sock, via):
    socket.send_fds(stamper, [json.dumps({'via': via}).encode() + b'\\n'], [sock.fileno()])
    return json.loads(stamper.makefile().readline())

with socket.socket(socket.AF_UNIX) as stamper, socket.socket() as one, socket.socket() as other:
    stamper.connect(door)
    try:
        told['stamped'] = ask(stamper, one, via.split(','))
    except OSError:
        told['stamped'] = json.loads(stamper.makefile().readline())
    if 'error' not in told['stamped']:
        one.settimeout(10)
        one.connect((b, 80))
        one.sendall(b'GET /page HTTP/1.0\\r\\n\\r\\n')
        answer = b''
        while part := one.recv(65536):
            answer += part
        told['page'] = len(answer.split(b'\\r\\n\\r\\n', 1)[1])
        other.settimeout(1)
        try:
            other.connect((b, 80))
            told['neighbour'] = 'connected'
        except OSError as error:
            told['neighbour'] = str(error)
        told['unstamped'] = ask(stamper, one, [])
        told['mark'] = one.getsockopt(socket.SOL_SOCKET, socket.SO_MARK)
print(json.dumps(told))
";

#[test]
fn what_a_user_sends_is_stamped_and_others_are_not() {
    let Some(rig) = Rig::new(0, &["python3", "curl", "setpriv"]) else { return };
    let _server = serve_page(&rig, 80);
    let via = format!("{},{}", Line::R1, Line::R2);
    let via6 = format!("{},{}", Line::R1_6, Line::R2_6);
    let mut options = vec!["--via", &via, "--via", &via6, "--user", "4242"];
    for file in ["w1.cap", "w2.cap", "w1v6.cap", "w2v6.cap"] {
        options.extend(["--capability", file]);
    }
    let _daemon = rig.daemon(&options);
    let b6 = format!("[{}]", Line::B6);
    for address in [Line::B, &b6] {
        assert!(gets_page(&rig.line.a, 4242, address, 80), "{address}");
        assert!(!gets_page(&rig.line.a, 4343, address, 80), "{address}");
    }
    // The host moves to another address; the daemon follows.
    rig.line.a.run(
        "ip address del 10.8.0.1/24 dev right; ip address add 10.8.0.7/24 dev right; \
         ip route replace default via 10.8.0.2",
    );
    wait_until("the page", || gets_page(&rig.line.a, 4242, Line::B, 80));
    assert!(!gets_page(&rig.line.a, 4343, Line::B, 80));
}

#[test]
fn a_gateway_stamps_by_policy_for_hosts_that_know_nothing_of_it() {
    let Some(rig) = Rig::new(0, &["python3", "curl", "setpriv"]) else { return };
    let _servers = [serve_page(&rig, 80), serve_page(&rig, 81)];
    let host = behind(&rig);
    let policy = |ports: &str| {
        let text = format!(
            "[stamp]\ncapability = [\"w1.cap\", \"w2.cap\"]\n\n[[stamp.policy]]\nfrom = \"10.8.9.0/24\"\n\
             to = \"10.8.2.0/24\"\nprotocol = \"tcp\"\nports = \"{ports}\"\nvia = [\"{}\", \"{}\"]\n",
            Line::R1,
            Line::R2
        );
        rig.place.write("gateway.toml", &text);
    };
    policy("80");
    let daemon = rig.daemon(&["--config", "gateway.toml"]);
    assert!(gets_page(&host, 0, Line::B, 80));
    assert!(!gets_page(&host, 0, Line::B, 81), "no policy for this port");
    assert!(!gets_page(&rig.line.a, 0, Line::B, 80), "the gateway's own traffic is not forwarded");
    let elsewhere = host.enter(|| TcpStream::connect((Line::R1, 9)));
    let refused = std::io::ErrorKind::ConnectionRefused;
    assert_eq!(elsewhere.unwrap_err().kind(), refused, "what fits no policy goes its usual way");

    policy("80-81");
    let id = daemon.started.0.id();
    rig.line.a.run(&format!("kill -HUP {id}"));
    wait_until("the new policy", || {
        let policies = daemon.status(&rig.place, &rig.line.a)["policies"].to_string();
        policies.contains("80-81")
    });
    assert!(gets_page(&host, 0, Line::B, 81));
    assert!(gets_page(&host, 0, Line::B, 80));

    // A file that is wrong changes nothing.
    policy("81-80");
    rig.line.a.run(&format!("kill -HUP {id}"));
    assert!(gets_page(&host, 0, Line::B, 81));
}
