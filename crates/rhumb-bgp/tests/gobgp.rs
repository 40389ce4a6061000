//! Against GoBGP: routes of both families, several paths,
//! refreshes, silence, restarts, signed segments.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests against a process have a clock"
)]

use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use peer::{
    Daemon, Peer, announce_both, announce_three_paths, endpoints, graceful, is_expiry, output,
    prefix, quick, several_paths, wait_for_answer, withdraw_both,
};
use rhumb_bgp::{Config, DownReason, Event, Family};

use crate::peer;

struct World {
    peer: Peer,
    api_port: u16,
    gobgp: Option<Daemon>,
    test: String,
    files: tempfile::TempDir,
}

impl World {
    /// GoBGP waits for us to connect. Nothing if there is no GoBGP.
    fn new(test: &str, secret: &str, change: impl FnOnce(&mut Config)) -> Option<Self> {
        let (listener, theirs) = endpoints();
        let api_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let files = tempfile::tempdir().unwrap();
        let family = |name: &str| {
            format!(
                "[[neighbors.afi-safis]]
                [neighbors.afi-safis.config]
                afi-safi-name = \"{name}\"
                [neighbors.afi-safis.add-paths.config]
                receive = true
                send-max = 8
                [neighbors.afi-safis.mp-graceful-restart.config]
                enabled = true\n"
            )
        };
        let password =
            if secret.is_empty() { String::new() } else { format!("auth-password = \"{secret}\"") };
        let text = format!(
            "[global.config]
            as = 64501
            router-id = \"10.0.0.2\"
            port = {}
            local-address-list = [\"{}\"]
            [[neighbors]]
            [neighbors.config]
            neighbor-address = \"127.0.0.1\"
            peer-as = 64500
            {password}
            [neighbors.timers.config]
            idle-hold-time-after-reset = 1
            [neighbors.graceful-restart.config]
            enabled = true
            restart-time = 60
            [neighbors.transport.config]
            passive-mode = true
            local-address = \"{}\"
            {}{}",
            theirs.port(),
            theirs.ip(),
            theirs.ip(),
            family("ipv4-unicast"),
            family("ipv6-unicast"),
        );
        std::fs::write(files.path().join("gobgpd.toml"), text).unwrap();
        let mut config = peer::config();
        change(&mut config);
        let peer = Peer::new(config, listener, theirs, secret.as_bytes());
        let mut world = Self { peer, api_port, gobgp: None, test: test.to_owned(), files };
        world.start(&[]).then_some(world)
    }

    fn start(&mut self, arguments: &[&str]) -> bool {
        let mut command = Command::new("gobgpd");
        command
            .arg("-f")
            .arg(self.files.path().join("gobgpd.toml"))
            .arg("--pprof-disable")
            .arg(format!("--api-hosts=127.0.0.1:{}", self.api_port))
            .args(arguments);
        self.gobgp = Daemon::start(&self.test, &mut command);
        self.gobgp.is_some()
    }

    /// Has it announce its two routes.
    fn add_both(&mut self) {
        self.until("global", |answer| answer.contains("64501"));
        self.ask("global rib add 10.2.0.0/24 nexthop 192.0.2.2 -a ipv4");
        self.ask("global rib add 2001:db8:200::/48 nexthop 2001:db8::2 -a ipv6");
    }

    fn ask(&self, words: &str) -> String {
        ask(self.api_port, words)
    }

    #[track_caller]
    fn until(&mut self, words: &str, holds: impl Fn(&str) -> bool) -> String {
        let port = self.api_port;
        self.peer.run_until_answer(|| ask(port, words), holds)
    }
}

fn ask(port: u16, words: &str) -> String {
    output(
        Command::new("gobgp")
            .args(["-u", "127.0.0.1", "-p", &port.to_string()])
            .args(words.split(' ')),
    )
}

#[test]
fn routes_of_both_families_go_both_ways_and_again_when_asked() {
    let test = "routes_of_both_families_go_both_ways_and_again_when_asked";
    let Some(mut world) = World::new(test, "", |_| {}) else { return };
    announce_both(&mut world.peer);
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
    let four =
        world.until("neighbor 127.0.0.1 adj-in -a ipv4", |answer| answer.contains("10.1.0.0/24"));
    for words in ["192.0.2.10", "64510 4200000000", "{Med: 7}", "64510:1"] {
        assert!(four.contains(words), "{words}: {four}");
    }
    let six = world
        .until("neighbor 127.0.0.1 adj-in -a ipv6", |answer| answer.contains("2001:db8:100::/48"));
    assert!(six.contains("2001:db8::10"), "{six}");

    world.add_both();
    assert_eq!(world.peer.run_until_route("10.2.0.0/24"), [64501]);
    assert_eq!(world.peer.run_until_route("2001:db8:200::/48"), [64501]);
    // GoBGP knows no enhanced refresh: what it says again changes nothing.
    let heard = world.peer.session.counters().updates_received;
    assert!(world.peer.session.request_refresh(Family::Ipv4, Instant::now()));
    world.peer.run_until("GoBGP answers", |peer| peer.session.counters().updates_received > heard);

    withdraw_both(&mut world.peer);
    world.until("neighbor 127.0.0.1 adj-in -a ipv4", |answer| !answer.contains("10.1.0.0/24"));
    world
        .until("neighbor 127.0.0.1 adj-in -a ipv6", |answer| !answer.contains("2001:db8:100::/48"));
    world.ask("global rib del 10.2.0.0/24 -a ipv4");
    world.ask("global rib del 2001:db8:200::/48 -a ipv6");
    world.peer.run_until_gone("10.2.0.0/24");
    world.peer.run_until_gone("2001:db8:200::/48");
}

#[test]
fn several_paths_to_a_prefix_arrive() {
    let Some(mut world) = World::new("several_paths_to_a_prefix_arrive", "", several_paths) else {
        return;
    };
    announce_three_paths(&mut world.peer);
    world.until("neighbor 127.0.0.1 adj-in -a ipv4", |answer| {
        answer.matches("64500 645").count() == 3
    });
    world.peer.withdraw(prefix("10.1.0.0/24"), 2);
    let left = world.until("neighbor 127.0.0.1 adj-in -a ipv4", |answer| {
        answer.matches("64500 645").count() == 2
    });
    assert!(!left.contains("64512"), "{left}");
}

#[test]
fn silence_ends_the_session_on_either_side() {
    let Some(mut world) = World::new("silence_ends_the_session_on_either_side", "", quick) else {
        return;
    };
    announce_both(&mut world.peer);
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
    world.add_both();
    world.peer.run_until_route("10.2.0.0/24");
    world.gobgp.as_ref().unwrap().signal("STOP");
    world.peer.run_until_event(
        "we give up",
        |event| matches!(event, Event::Down(DownReason::Sent(said)) if is_expiry(said)),
    );
    world.peer.run_until_gone("10.2.0.0/24");
    world.gobgp.as_ref().unwrap().signal("CONT");
    world.peer.forget();
    world.peer.run_until_route("2001:db8:200::/48");
    let adj_in = "neighbor 127.0.0.1 adj-in -a ipv4";
    world.until(adj_in, |answer| answer.contains("10.1.0.0/24"));
    // Nobody drives our side meanwhile.
    wait_for_answer(|| world.ask(adj_in), |answer| !answer.contains("10.1.0.0/24"));
    world.peer.run_until_event(
        "GoBGP gives up",
        |event| matches!(event, Event::Down(DownReason::Received(said)) if is_expiry(said)),
    );
}

#[test]
fn routes_stay_while_gobgp_restarts() {
    let Some(mut world) = World::new("routes_stay_while_gobgp_restarts", "", graceful) else {
        return;
    };
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
    world.add_both();
    world.peer.run_until_route("10.2.0.0/24");
    world.peer.run_until_route("2001:db8:200::/48");
    world.peer.forget();
    world.gobgp.take().unwrap().kill();
    world.peer.run_until_event("gone", |event| *event == Event::Down(DownReason::Closed));
    assert_eq!(world.peer.session.count_stale(Family::Ipv4), 1);
    assert!(world.start(&["-r"]));
    // It has one of them still.
    world.until("global", |answer| answer.contains("64501"));
    world.ask("global rib add 10.2.0.0/24 nexthop 192.0.2.2 -a ipv4");
    world.peer.run_until_up();
    world.peer.expect_after_restart();
}

#[test]
fn signed_segments_are_taken() {
    let Some(mut world) = World::new("signed_segments_are_taken", "secret", |_| {}) else { return };
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
}
