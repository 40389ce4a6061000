//! Against FRR's bgpd: roles, routes of both families, several paths,
//! refreshes, silence, restarts, signed segments.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests against a process have a clock"
)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use peer::{
    Daemon, Peer, announce_both, announce_three_paths, endpoints, graceful, is_expiry, output,
    prefix, quick, several_paths, wait_for_answer, withdraw_both,
};
use rhumb_bgp::wire::BgpRole;
use rhumb_bgp::{Config, DownReason, Event, Family};

use crate::peer;

struct World {
    peer: Peer,
    frr: Option<Daemon>,
    test: String,
    theirs: SocketAddr,
    files: tempfile::TempDir,
}

impl World {
    /// Nothing if there is no FRR.
    fn new(
        test: &str,
        options: &str,
        secret: &str,
        change: impl FnOnce(&mut Config),
    ) -> Option<Self> {
        let (listener, theirs) = endpoints();
        let ours = listener.local_addr().unwrap();
        let files = tempfile::tempdir().unwrap();
        let text = format!(
            "bgp route-map delay-timer 0
router bgp 64501
 bgp router-id 10.0.0.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 neighbor 127.0.0.1 remote-as 64500
 neighbor 127.0.0.1 port {}
 neighbor 127.0.0.1 update-source {}
 neighbor 127.0.0.1 disable-connected-check
 neighbor 127.0.0.1 timers connect 1
 {options}
 address-family ipv4 unicast
  network 10.2.0.0/24
  neighbor 127.0.0.1 activate
  neighbor 127.0.0.1 soft-reconfiguration inbound
  neighbor 127.0.0.1 route-map hop out
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:200::/48
  neighbor 127.0.0.1 activate
  neighbor 127.0.0.1 soft-reconfiguration inbound
  neighbor 127.0.0.1 route-map hop out
 exit-address-family
route-map hop permit 1
 set ip next-hop 192.0.2.2
 set ipv6 next-hop global 2001:db8::2
",
            ours.port(),
            theirs.ip(),
        );
        std::fs::write(files.path().join("bgpd.conf"), text).unwrap();
        let mut config = peer::config();
        change(&mut config);
        let peer = Peer::new(config, listener, theirs, secret.as_bytes());
        let mut world = Self { peer, frr: None, test: test.to_owned(), theirs, files };
        world.start().then_some(world)
    }

    fn start(&mut self) -> bool {
        let path = |name: &str| self.files.path().join(name);
        let (port, address) = (self.theirs.port().to_string(), self.theirs.ip().to_string());
        let mut command = Command::new("/usr/lib/frr/bgpd");
        command.args(["-Z", "-n", "-S", "-P", "0", "-p", &port, "-l", &address]);
        command.arg("-f").arg(path("bgpd.conf")).arg("-i").arg(path("pid"));
        command
            .arg("--vty_socket")
            .arg(self.files.path())
            .arg("--log")
            .arg(format!("file:{}", path("log").display()));
        self.frr = Daemon::start(&self.test, &mut command);
        self.frr.is_some()
    }

    fn path(&self) -> PathBuf {
        self.files.path().to_owned()
    }

    #[track_caller]
    fn until(&mut self, words: &str, holds: impl Fn(&str) -> bool) -> String {
        let path = self.path();
        self.peer.run_until_answer(|| ask(&path, words), holds)
    }
}

fn ask(path: &Path, words: &str) -> String {
    output(Command::new("vtysh").arg("--vty_socket").arg(path).args(["-d", "bgpd", "-c", words]))
}

#[test]
fn routes_of_both_families_go_both_ways_and_again_when_asked() {
    let test = "routes_of_both_families_go_both_ways_and_again_when_asked";
    let server = |config: &mut Config| config.role = Some(BgpRole::RouteServer);
    let Some(mut world) = World::new(test, "neighbor 127.0.0.1 local-role rs-client", "", server)
    else {
        return;
    };
    announce_both(&mut world.peer);
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
    assert_eq!(
        world.peer.session.negotiated().unwrap().remote_role,
        Some(BgpRole::RouteServerClient)
    );
    assert_eq!(world.peer.run_until_route("10.2.0.0/24"), [64501]);
    assert_eq!(world.peer.run_until_route("2001:db8:200::/48"), [64501]);
    let four = world.until("show bgp ipv4 unicast 10.1.0.0/24", |answer| answer.contains("64510"));
    for words in ["64510 4200000000", "192.0.2.10", "metric 7", "64510:1", "otc 64500"] {
        assert!(four.contains(words), "{words}: {four}");
    }
    let six =
        world.until("show bgp ipv6 unicast 2001:db8:100::/48", |answer| answer.contains("64510"));
    assert!(six.contains("2001:db8::10"), "{six}");

    let answered = world.peer.session.counters().refreshes_answered;
    let path = world.path();
    ask(
        &path,
        "configure\nrouter bgp 64501\naddress-family ipv4 unicast\nno neighbor 127.0.0.1 soft-reconfiguration inbound",
    );
    ask(&path, "clear bgp ipv4 unicast 127.0.0.1 in");
    world.peer.run_until("FRR asks", |peer| peer.session.counters().refreshes_answered > answered);
    let heard = world.peer.session.counters().updates_received;
    assert!(world.peer.session.request_refresh(Family::Ipv6, Instant::now()));
    world.peer.run_until("all again", |peer| {
        let session = &peer.session;
        session.counters().updates_received > heard && session.count_stale(Family::Ipv6) == 0
    });
    assert_eq!(world.peer.session.count_in(Family::Ipv6), 1);

    withdraw_both(&mut world.peer);
    world.until("show bgp ipv4 unicast 10.1.0.0/24", |answer| answer.contains("not in table"));
    world
        .until("show bgp ipv6 unicast 2001:db8:100::/48", |answer| answer.contains("not in table"));
    ask(&path, "configure\nrouter bgp 64501\naddress-family ipv4 unicast\nno network 10.2.0.0/24");
    world.peer.run_until_gone("10.2.0.0/24");
}

#[test]
fn several_paths_to_a_prefix_arrive() {
    let Some(mut world) = World::new("several_paths_to_a_prefix_arrive", "", "", several_paths)
    else {
        return;
    };
    announce_three_paths(&mut world.peer);
    world.until("show bgp ipv4 unicast 10.1.0.0/24", |answer| {
        answer.matches("64500 6451").count() == 3
    });
    world.peer.withdraw(prefix("10.1.0.0/24"), 2);
    let left = world.until("show bgp ipv4 unicast 10.1.0.0/24", |answer| {
        answer.matches("64500 6451").count() == 2
    });
    assert!(!left.contains("64512"), "{left}");
}

#[test]
fn silence_ends_the_session_on_either_side() {
    let test = "silence_ends_the_session_on_either_side";
    let Some(mut world) = World::new(test, "", "", quick) else { return };
    announce_both(&mut world.peer);
    world.peer.run_until_route("10.2.0.0/24");
    world.frr.as_ref().unwrap().signal("STOP");
    world.peer.run_until_event(
        "we give up",
        |event| matches!(event, Event::Down(DownReason::Sent(said)) if is_expiry(said)),
    );
    world.peer.run_until_gone("10.2.0.0/24");
    world.frr.as_ref().unwrap().signal("CONT");
    world.peer.forget();
    world.peer.run_until_route("10.2.0.0/24");
    let (path, question) = (world.path(), "show bgp ipv4 unicast 10.1.0.0/24");
    world.until(question, |answer| answer.contains("64510"));
    // Nobody drives our side meanwhile.
    wait_for_answer(|| ask(&path, question), |answer| answer.contains("not in table"));
    world.peer.run_until_event(
        "FRR gives up",
        |event| matches!(event, Event::Down(DownReason::Received(said)) if is_expiry(said)),
    );
}

#[test]
fn routes_stay_while_frr_restarts() {
    let test = "routes_stay_while_frr_restarts";
    let Some(mut world) = World::new(test, "", "", graceful) else { return };
    world.peer.run_until_up();
    world.peer.forget();
    world.frr.take().unwrap().kill();
    world.peer.run_until_event("gone", |event| *event == Event::Down(DownReason::Closed));
    assert_eq!(world.peer.session.count_stale(Family::Ipv4), 1);
    // It has one of them still.
    let file = world.files.path().join("bgpd.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("  network 2001:db8:200::/48\n", "")).unwrap();
    assert!(world.start());
    world.peer.run_until_up();
    world.peer.expect_after_restart();
}

#[test]
fn signed_segments_are_taken() {
    let options = "neighbor 127.0.0.1 password secret";
    let Some(mut world) = World::new("signed_segments_are_taken", options, "secret", |_| {}) else {
        return;
    };
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
}
