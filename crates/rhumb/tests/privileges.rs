//! Daemons that are started by root give up what they need no more, in every thread, and go on
//! working: waypoints and routers keep no capability, a stamper those of the network alone; with
//! `run_as` they are another user.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use stamping::{Started, output_on, traces, wait_until};

use crate::harness;
use crate::stamping;
use crate::waypoints::{Daemon, ENDS, Pass, Rig, Sender, pass, receive, socket, udp};
use crate::wire::Line;

/// A user of whom the system need not know.
const USER: u32 = 4242;

/// What the kernel says of every thread of a process: ids,
/// groups, capabilities, and whether it can gain any.
#[track_caller]
fn expect_privileges(process: u32, user: u32, capabilities: u64) {
    let mut threads = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let line = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("no {key} in {text}"))
        };
        for key in ["Uid", "Gid"] {
            let ids: Vec<u32> =
                line(key).split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(ids, [user; 4], "{text}");
        }
        if user != 0 {
            assert_eq!(line("Groups").trim(), user.to_string(), "{text}");
        }
        for key in ["CapEff", "CapPrm"] {
            let found = u64::from_str_radix(line(key).trim(), 16).unwrap();
            assert_eq!(found, capabilities, "{key}: {text}");
        }
        for key in ["CapInh", "CapAmb"] {
            assert_eq!(line(key).trim().trim_start_matches('0'), "", "{key}: {text}");
        }
        assert_eq!(line("NoNewPrivs").trim(), "1", "{text}");
        threads += 1;
    }
    assert!(threads > 1, "{threads} threads");
}

/// Gives files to the user, who can reach them.
fn give(folder: &Path, names: &[&str]) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in names {
        let path = folder.join(name);
        if !path.exists() {
            std::fs::create_dir(&path).unwrap();
        }
        chown(&path, Some(USER), Some(USER)).unwrap();
        if path.is_dir() {
            for entry in std::fs::read_dir(&path).unwrap() {
                chown(entry.unwrap().path(), Some(USER), Some(USER)).unwrap();
            }
        }
    }
}

/// Sends a packet that passes the waypoint of r1 with a key of this epoch.
fn passes(rig: &Rig, b: &std::net::UdpSocket, epoch: u8) {
    let mut a = Sender::on(&rig.line.a);
    a.send_by(&[Pass { epoch, ..pass(Line::R1) }], &udp(Line::A, Line::B, b"passes"));
    assert_eq!(receive(b), b"passes");
}

#[test]
fn a_waypoint_keeps_nothing_and_goes_on() {
    let Some(rig) = Rig::new() else { return };
    let b = socket(&rig.line.b, ENDS);
    for io in ["io = \"raw\"\nworkers = 2", "io = \"xdp\"\ninterfaces = [\"left\", \"right\"]"] {
        rig.write_master("w1", Line::R1, 1);
        rig.write_config("w1", &[Line::R1], &format!("{io}\nrun_as = \"{USER}\""));
        give(rig.place.folder(), &["w1.keys", "w1.accounts"]);
        let w1: Daemon = rig.start_again(&rig.line.r1, "w1");
        expect_privileges(w1.running.child.id(), USER, 0);
        passes(&rig, &b, 1);
        // Another epoch is taken, by the user's own eyes.
        rig.write_master("w1", Line::R1, 2);
        give(rig.place.folder(), &["w1.keys"]);
        rig.wait_for(&rig.line.r1, &w1, |it| it["epochs"] == serde_json::json!([1, 2]));
        passes(&rig, &b, 2);
        let (code, errors) = w1.running.end();
        assert_eq!(code, 0, "the accounts were written: {errors}");
        let books = std::fs::read_dir(rig.place.path("w1.accounts")).unwrap();
        assert!(books.count() > 0);
        std::fs::remove_dir_all(rig.place.path("w1.keys")).unwrap();
    }
    // Without another user it is root, who owns files and can do no more.
    std::fs::remove_dir_all(rig.place.path("w1.accounts")).unwrap();
    let w1 = rig.start(&rig.line.r1, "w1", &[Line::R1], "");
    expect_privileges(w1.running.child.id(), 0, 0);
    passes(&rig, &b, 1);
}

#[test]
fn what_the_user_may_not_read_is_said_at_the_start() {
    let Some(rig) = Rig::new() else { return };
    rig.write_master("w1", Line::R1, 1);
    rig.write_config("w1", &[Line::R1], &format!("run_as = \"{USER}\""));
    give(rig.place.folder(), &["w1.accounts"]);
    let run = || rig.line.r1.enter(|| rig.place.run(&["--config", "w1.toml", "waypoint"]));
    run().is_refused_with(&["w1.keys", "Permission denied", "the user that the waypoint runs as"]);
    rig.write_config("w1", &[Line::R1], "run_as = \"nobody here\"");
    run().is_refused_with(&["there is no user `nobody here`", "line "]);
}

#[test]
fn a_router_keeps_nothing_with_sockets_and_with_af_xdp() {
    let Some(rig) = Rig::new() else { return };
    let place = &rig.place;
    place.keygen("rib", "rib.key");
    place.keygen("router", "router.key");
    // Where root without its capabilities could not write, either.
    give(place.folder(), &["state"]);
    let r1 = &rig.line.r1;
    let rib = ["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--store", "rib.redb"];
    let mut rib = r1.enter(|| place.start(&rib));
    let rib_at = harness::remote(&rib.next_object());
    for io in [&["--io", "socket", "--workers", "2"][..], &["--io", "xdp", "--interface", "left"]] {
        let user = USER.to_string();
        let listen = format!("{}:7460", Line::R1);
        let own = ["router", "--listen", &listen, "--key", "router.key", "--rib", &rib_at];
        let more = ["--run-as", &user, "--state", "state/routes"];
        let mut router = r1.enter(|| place.start(&[&own[..], &more, io].concat()));
        let ready = router.next_object();
        expect_privileges(router.child.id(), USER, 0);
        let mut node =
            rig.line.a.enter(|| place.start(&["receive", "--router", &harness::remote(&ready)]));
        let name = node.next_object()["name"].as_str().unwrap().to_owned();
        let ping = ["ping", &name, "--count", "1", "--router", &harness::remote(&ready)];
        let run = rig.line.a.enter(|| place.run(&ping));
        assert_eq!(run.code, 0, "{}", run.errors);
        assert_eq!(router.end().0, 0);
    }
}

/// `NET_ADMIN` and `NET_RAW`. Source: Linux `include/uapi/linux/capability.h`.
const OF_THE_NETWORK: u64 = 1 << 12 | 1 << 13;

#[test]
fn a_stamper_keeps_what_is_the_networks_and_opens_ways_as_before() {
    let Some(rig) = stamping::Rig::new(0, &["python3", "curl", "setpriv"]) else { return };
    let folder = rig.place.folder().display().to_string();
    rig.place.write("page", "page");
    let server = format!("python3 -m http.server -d {folder} --bind :: 80");
    let _server = Started::script(&rig.line.b, &server);
    wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":80 "));
    let gets = |user: u32| {
        let curl = format!(
            "exec setpriv --reuid {user} --clear-groups curl -s --max-time 4 -o /dev/null http://{}/page",
            Line::B
        );
        output_on(&rig.line.a, Command::new("sh").args(["-c", &curl])).status.success()
    };
    let policy = |user: u32, via: &str| {
        rig.place.write(
            "gateway.toml",
            &format!(
                "[stamp]\ncapability = [\"w1.cap\", \"w2.cap\"]\nrun_as = \"{USER}\"\nsocket = \"door\"\n\
                 [[stamp.policy]]\nuser = \"{user}\"\nvia = {via}\n"
            ),
        );
    };
    let both = format!("[\"{}\", \"{}\"]", Line::R1, Line::R2);
    policy(4343, &both);
    give(rig.place.folder(), &[]);
    // Where udev runs, everybody may open the device; here only in what this process sees.
    let script = "mknod tun c 10 200; chmod 666 tun; mount --bind tun /dev/net/tun; exec \"$@\"";
    let daemon =
        rig.place.command(&["--with-parent", "--config", "gateway.toml", "stamp", "daemon"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh"]).arg(daemon.get_program());
    command.args(daemon.get_args()).current_dir(rig.place.folder());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut daemon = Started::on(&rig.line.a, &mut command);
    let mut line = String::new();
    BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("stamper ready"), "{line}");

    expect_privileges(daemon.0.id(), USER, OF_THE_NETWORK);
    assert!(gets(4343));
    assert!(!gets(4444));
    let door = std::fs::metadata(rig.place.path("door")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&door), USER);
    // Another way, which has a device of its own.
    let twice = [Line::R1, Line::R2, Line::R1, Line::R2];
    policy(4444, &format!("{twice:?}"));
    rig.line.a.run(&format!("kill -HUP {}", daemon.0.id()));
    wait_until("the other way", || gets(4444));
    expect_privileges(daemon.0.id(), USER, OF_THE_NETWORK);
    drop(daemon.0.stdin.take());
    assert!(daemon.0.wait().unwrap().success());
    assert_eq!(traces(&rig.line.a), "", "it could clean up");
}
