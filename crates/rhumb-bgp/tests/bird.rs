//! Against BIRD: sessions, routes of both families, several paths,
//! refreshes, silence, restarts, signed segments.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests against a process have a clock"
)]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use peer::{
    Daemon, Peer, announce_both, announce_three_paths, attributes, endpoints, graceful, is_expiry,
    output, prefix, quick, several_paths, withdraw_both,
};
use rhumb_bgp::wire::BgpRole;
use rhumb_bgp::{Config, DownReason, Event, Family};

use crate::peer;

/// BIRD with a neighbour, and that neighbour.
struct World {
    peer: Peer,
    bird: Option<Daemon>,
    test: String,
    files: tempfile::TempDir,
}

impl World {
    /// `options` go into the protocol of BIRD; nothing if there is no BIRD.
    fn new(
        test: &str,
        options: &str,
        change: impl FnOnce(&mut Config),
        secret: &str,
    ) -> Option<Self> {
        let (listener, theirs) = endpoints();
        let ours = listener.local_addr().unwrap();
        let files = tempfile::tempdir().unwrap();
        let text = format!(
            "router id 10.0.0.2;
            protocol device {{}}
            protocol static four {{ ipv4; route 10.2.0.0/24 blackhole; }}
            protocol static more {{ ipv4 {{ preference 50; }}; route 10.2.0.0/24 unreachable; }}
            protocol static six {{ ipv6; route 2001:db8:200::/48 blackhole; }}
            protocol bgp rhumb {{
              local {} port {} as 64501;
              neighbor {} port {} as 64500;
              multihop; connect delay time 1; connect retry time 1; error wait time 1,1; enforce first as off;
              {options}
              ipv4 {{ import all; export all; next hop address 192.0.2.2; add paths on; }};
              ipv6 {{ import all; export all; next hop address 2001:db8::2; add paths on; }};
            }}",
            theirs.ip(),
            theirs.port(),
            ours.ip(),
            ours.port(),
        );
        std::fs::write(files.path().join("bird.conf"), text).unwrap();
        let mut config = peer::config();
        change(&mut config);
        let peer = Peer::new(config, listener, theirs, secret.as_bytes());
        let mut world = Self { peer, bird: None, test: test.to_owned(), files };
        world.start(&[]).then_some(world)
    }

    fn start(&mut self, arguments: &[&str]) -> bool {
        let mut command = Command::new("bird");
        let path = |name| self.path(name);
        command
            .arg("-f")
            .arg("-c")
            .arg(path("bird.conf"))
            .arg("-s")
            .arg(path("ctl"))
            .arg("-P")
            .arg(path("pid"));
        self.bird = Daemon::start(&self.test, command.args(arguments));
        self.bird.is_some()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// What `birdc` says.
    fn ask(&self, words: &str) -> String {
        output(Command::new("birdc").arg("-s").arg(self.path("ctl")).args(words.split(' ')))
    }

    /// Drives our side until BIRD's answer holds.
    #[track_caller]
    fn until_bird(&mut self, words: &str, holds: impl Fn(&str) -> bool) -> String {
        let ctl = self.path("ctl");
        let ask = || output(Command::new("birdc").arg("-s").arg(&ctl).args(words.split(' ')));
        self.peer.run_until_answer(ask, holds)
    }
}

fn announced(event: &Event, wanted: &str) -> bool {
    matches!(event, Event::Announced { prefix, .. } if *prefix == peer::prefix(wanted))
}

fn withdrawn(event: &Event, wanted: &str) -> bool {
    matches!(event, Event::Withdrawn { prefix, .. } if *prefix == peer::prefix(wanted))
}

#[test]
fn routes_of_both_families_go_both_ways_unchanged() {
    let server = |config: &mut Config| config.role = Some(BgpRole::RouteServer);
    let test = "routes_of_both_families_go_both_ways_unchanged";
    let Some(mut world) = World::new(test, "local role rs_client;", server, "") else { return };
    announce_both(&mut world.peer);
    world.peer.run_until_up();
    assert_eq!(
        world.peer.session.negotiated().unwrap().remote_role,
        Some(BgpRole::RouteServerClient)
    );
    for wanted in ["10.2.0.0/24", "2001:db8:200::/48"] {
        let is_it = |event: &&Event| announced(event, wanted);
        let Some(Event::Announced { attributes, .. }) = world.peer.events.iter().find(is_it) else {
            panic!("{wanted}")
        };
        assert_eq!(attributes.as_path().asns().collect::<Vec<_>>(), [64501]);
    }
    let answer =
        world.until_bird("show route all 10.1.0.0/24", |answer| answer.contains("10.1.0.0/24"));
    let expected =
        ["as_path: 64510 4200000000\n", "next_hop: 192.0.2.10\n", "med: 7\n", "(64510,1)"];
    for words in expected {
        assert!(answer.contains(words), "{words}: {answer}");
    }
    // RFC 9234: a route server marks what it hands on.
    assert!(answer.contains("otc: 64500") || answer.contains("[t: 00 00 fb f4]"), "{answer}");
    let answer = world.until_bird("show route all 2001:db8:100::/48", |answer| {
        answer.contains("2001:db8:100::/48")
    });
    assert!(answer.contains("next_hop: 2001:db8::10"), "{answer}");

    withdraw_both(&mut world.peer);
    world.until_bird("show route all 10.1.0.0/24", |answer| answer.contains("Network not found"));
    world.until_bird("show route all 2001:db8:100::/48", |answer| {
        answer.contains("Network not found")
    });
    world.ask("disable four");
    world.ask("disable more");
    world.ask("disable six");
    world.peer.run_until_event("IPv4 is gone", |event| withdrawn(event, "10.2.0.0/24"));
    world.peer.run_until_event("IPv6 is gone", |event| withdrawn(event, "2001:db8:200::/48"));
}

#[test]
fn several_paths_to_a_prefix_go_both_ways() {
    let Some(mut world) =
        World::new("several_paths_to_a_prefix_go_both_ways", "", several_paths, "")
    else {
        return;
    };
    announce_three_paths(&mut world.peer);
    world.peer.run_until_up();
    let theirs = world.peer.events.iter().filter(|event| announced(event, "10.2.0.0/24")).count();
    assert_eq!(theirs, 2, "{:#?}", world.peer.events);
    let count = |answer: &str| answer.matches("as_path: 64500 645").count();
    let answer = world.until_bird("show route all 10.1.0.0/24", |answer| count(answer) == 3);
    assert!(answer.contains("64500 64513"), "{answer}");
    world.peer.withdraw(prefix("10.1.0.0/24"), 2);
    let answer = world.until_bird("show route all 10.1.0.0/24", |answer| count(answer) == 2);
    assert!(!answer.contains("64500 64512"), "{answer}");
}

#[test]
fn each_side_says_all_again_when_asked() {
    let Some(mut world) = World::new("each_side_says_all_again_when_asked", "", |_| {}, "") else {
        return;
    };
    let route = attributes("192.0.2.10".parse().unwrap(), &[64500], &[]);
    for number in 0..50 {
        world.peer.announce(prefix(&format!("10.1.{number}.0/24")), 0, &route);
    }
    world.peer.run_until_up();
    world.peer.forget();
    assert!(world.peer.session.request_refresh(Family::Ipv6, Instant::now()));
    world.peer.run_until_event("all again", |event| *event == Event::Refreshed(Family::Ipv6));
    assert!(
        !world.peer.events.iter().any(|event| matches!(event, Event::Withdrawn { .. })),
        "nothing was lost"
    );
    assert_eq!(world.peer.session.count_in(Family::Ipv6), 1);

    let refreshes = world.peer.session.counters().refreshes_answered;
    world.ask("reload in rhumb");
    world
        .peer
        .run_until("BIRD asks", |peer| peer.session.counters().refreshes_answered > refreshes);
    world.until_bird("show route count protocol rhumb", |answer| answer.contains("50 of"));
}

#[test]
fn silence_ends_the_session_on_either_side() {
    let Some(mut world) = World::new("silence_ends_the_session_on_either_side", "", quick, "")
    else {
        return;
    };
    world.peer.run_until_up();
    world.bird.as_ref().unwrap().signal("STOP");
    world.peer.run_until_event(
        "we give up",
        |event| matches!(event, Event::Down(DownReason::Sent(said)) if is_expiry(said)),
    );
    world.bird.as_ref().unwrap().signal("CONT");
    world.peer.forget();
    world.peer.run_until_up();
    // Nobody drives our side meanwhile.
    std::thread::sleep(Duration::from_millis(4500));
    world.peer.run_until_event(
        "BIRD gives up",
        |event| matches!(event, Event::Down(DownReason::Received(said)) if is_expiry(said)),
    );
}

#[test]
fn routes_stay_while_bird_restarts() {
    let Some(mut world) =
        World::new("routes_stay_while_bird_restarts", "graceful restart on;", graceful, "")
    else {
        return;
    };
    world.peer.run_until_up();
    world.peer.forget();
    world.bird.take().unwrap().kill();
    world.peer.run_until_event("gone", |event| *event == Event::Down(DownReason::Closed));
    assert_eq!(world.peer.session.count_stale(Family::Ipv4), 1);
    assert!(world.start(&["-R"]));
    world.peer.run_until_up();
    let is_lost = |event: &Event| matches!(event, Event::Withdrawn { .. });
    assert!(!world.peer.events.iter().any(is_lost), "{:#?}", world.peer.events);
    assert_eq!(
        (world.peer.session.count_in(Family::Ipv4), world.peer.session.count_stale(Family::Ipv4)),
        (1, 0)
    );
}

#[test]
fn signed_segments_are_taken_and_others_are_not() {
    let test = "signed_segments_are_taken_and_others_are_not";
    let Some(mut world) = World::new(test, "password \"secret\";", |_| {}, "secret") else {
        return;
    };
    world.peer.run_until_up();
    drop(world);
    let Some(mut world) = World::new(test, "password \"secret\";", |_| {}, "Secret") else {
        return;
    };
    world.peer.run_for(Duration::from_secs(5));
    assert!(world.peer.events.is_empty(), "{:?}", world.peer.events);
}
