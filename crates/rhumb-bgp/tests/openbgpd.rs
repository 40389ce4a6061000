//! Against OpenBGPD: routes of both families, several
//! paths, requests for all again, signed segments.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests against a process have a clock"
)]

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use peer::{
    Daemon, Peer, announce_both, announce_three_paths, endpoints, output, prefix, several_paths,
    withdraw_both,
};
use rhumb_bgp::{Config, Event, Family};

use crate::peer;

struct World {
    peer: Peer,
    _bgpd: Daemon,
    files: tempfile::TempDir,
}

impl World {
    /// OpenBGPD waits for us to connect. Nothing if there is no OpenBGPD.
    fn new(test: &str, options: &str, change: impl FnOnce(&mut Config)) -> Option<Self> {
        let (listener, theirs) = endpoints();
        Self::at(test, listener, theirs, &format!("passive\n{options}"), "", change)
    }

    fn at(
        test: &str,
        listener: TcpListener,
        theirs: SocketAddr,
        options: &str,
        secret: &str,
        change: impl FnOnce(&mut Config),
    ) -> Option<Self> {
        let ours = listener.local_addr().unwrap().ip();
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name);
        let text = format!(
            "AS 64501
router-id 10.0.0.2
fib-update no
listen on {} port {}
socket \"{}\"
network 10.2.0.0/24 set nexthop 192.0.2.2
network 2001:db8:200::/48 set nexthop 2001:db8::2
neighbor {ours} {{
  remote-as 64500
  local-address {}
  multihop 2
  enforce neighbor-as no
  announce IPv4 unicast
  announce IPv6 unicast
  {options}
}}
allow from any
allow to any
match to any set nexthop no-modify
",
            theirs.ip(),
            theirs.port(),
            path("ctl").display(),
            theirs.ip(),
        );
        std::fs::write(path("bgpd.conf"), text).unwrap();
        // Its processes go there for good; where no systemd is nobody has made it after a start.
        let _ = std::fs::create_dir_all("/run/openbgpd");
        let mut command = Command::new("/usr/sbin/bgpd");
        let bgpd = Daemon::start(test, command.arg("-d").arg("-f").arg(path("bgpd.conf")))?;
        let mut config = peer::config();
        change(&mut config);
        let peer = Peer::new(config, listener, theirs, secret.as_bytes());
        Some(Self { peer, _bgpd: bgpd, files })
    }

    fn path(&self) -> PathBuf {
        self.files.path().join("ctl")
    }

    #[track_caller]
    fn until(&mut self, words: &str, holds: impl Fn(&str) -> bool) -> String {
        let path = self.path();
        self.peer.run_until_answer(|| ask(&path, words), holds)
    }
}

fn ask(path: &Path, words: &str) -> String {
    output(Command::new("bgpctl").arg("-s").arg(path).args(words.split(' ')))
}

/// How many requests for all again it has had, of what `bgpctl` says of a neighbour.
fn requests(answer: &str) -> Option<&str> {
    let line = answer.lines().find(|line| line.trim_start().starts_with("Request "))?;
    line.split_whitespace().last()
}

#[test]
fn routes_of_both_families_go_both_ways_and_again_when_asked() {
    let test = "routes_of_both_families_go_both_ways_and_again_when_asked";
    let Some(mut world) = World::new(test, "", |_| {}) else { return };
    announce_both(&mut world.peer);
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
    assert_eq!(world.peer.run_until_route("10.2.0.0/24"), [64501]);
    assert_eq!(world.peer.run_until_route("2001:db8:200::/48"), [64501]);
    let four = world.until("show rib detail in 10.1.0.0/24", |answer| answer.contains("64510"));
    for words in ["64510 4200000000", "192.0.2.10", "metric 7", "64510:1"] {
        assert!(four.contains(words), "{words}: {four}");
    }
    let six =
        world.until("show rib detail in 2001:db8:100::/48", |answer| answer.contains("64510"));
    assert!(six.contains("2001:db8::10"), "{six}");

    let answered = world.peer.session.counters().refreshes_answered;
    ask(&world.path(), "neighbor 127.0.0.1 refresh");
    world
        .peer
        .run_until("OpenBGPD asks", |peer| peer.session.counters().refreshes_answered > answered);

    // Releases 7.5 to 7.7 take what they have agreed on for what they have not, log that, and do
    // not answer anybody. They have read it, though, or the count would not grow.
    assert!(world.peer.session.request_refresh(Family::Ipv4, Instant::now()));
    assert!(world.peer.session.request_refresh(Family::Ipv6, Instant::now()));
    let two = |answer: &str| requests(answer) == Some("2");
    world.until("show neighbor 127.0.0.1", two);
    assert_eq!(world.peer.run_until_route("10.2.0.0/24"), [64501]);

    withdraw_both(&mut world.peer);
    world.until("show rib in 10.1.0.0/24", |answer| !answer.contains("64510"));
    world.until("show rib in 2001:db8:100::/48", |answer| !answer.contains("64510"));
    ask(&world.path(), "network delete 10.2.0.0/24");
    world.peer.run_until_gone("10.2.0.0/24");
}

#[test]
fn several_paths_to_a_prefix_arrive() {
    let test = "several_paths_to_a_prefix_arrive";
    let Some(mut world) = World::new(test, "announce add-path recv yes", several_paths) else {
        return;
    };
    announce_three_paths(&mut world.peer);
    world.until("show rib in 10.1.0.0/24", |answer| answer.matches("64500 6451").count() == 3);
    world.peer.withdraw(prefix("10.1.0.0/24"), 2);
    let left =
        world.until("show rib in 10.1.0.0/24", |answer| answer.matches("64500 6451").count() == 2);
    assert!(!left.contains("64512"), "{left}");
}

/// OpenBGPD connects to port 179 alone, and its listener takes no signed segments on Linux.
#[test]
fn signed_segments_are_taken() {
    let test = "signed_segments_are_taken";
    let Ok(listener) = TcpListener::bind("127.0.0.3:179") else {
        println!("skipped: {test}: port 179 is not ours to take");
        return;
    };
    let (_, theirs) = endpoints();
    let options = "tcp md5sig password secret";
    let Some(mut world) =
        World::at(test, listener, theirs, options, "secret", |config| config.passive = true)
    else {
        return;
    };
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
}
