//! Against ExaBGP: routes of both families, several paths, signed
//! segments. It writes what it hears into a file.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests against a process have a clock"
)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use peer::{
    Daemon, Peer, announce_both, announce_three_paths, endpoints, several_paths, withdraw_both,
};
use rhumb_bgp::{Config, Event};

use crate::peer;

struct World {
    peer: Peer,
    _exabgp: Daemon,
    files: tempfile::TempDir,
}

impl World {
    /// ExaBGP connects to us. Nothing if there is no ExaBGP.
    fn new(
        test: &str,
        options: &str,
        secret: &str,
        change: impl FnOnce(&mut Config),
    ) -> Option<Self> {
        let (listener, theirs) = endpoints();
        let ours = listener.local_addr().unwrap();
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name);
        let reader = format!(
            "#!/usr/bin/env python3
import sys
with open('{}', 'w', buffering=1) as heard:
    while line := sys.stdin.readline():
        heard.write(line)
",
            path("heard").display(),
        );
        std::fs::write(path("hear"), reader).unwrap();
        std::fs::set_permissions(path("hear"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let text = format!(
            "process hear {{ run {}; encoder text; }}
            neighbor 127.0.0.1 {{
              router-id 10.0.0.2; local-address {}; local-as 64501; peer-as 64500; connect {};
              {options}
              family {{ ipv4 unicast; ipv6 unicast; }}
              capability {{ route-refresh; add-path send/receive; }}
              api {{ processes [hear]; receive {{ parsed; update; }} }}
              static {{
                route 10.2.0.0/24 next-hop 192.0.2.2;
                route 2001:db8:200::/48 next-hop 2001:db8::2;
              }}
            }}",
            path("hear").display(),
            theirs.ip(),
            ours.port(),
        );
        std::fs::write(path("exabgp.conf"), text).unwrap();
        let mut command = Command::new("exabgp");
        command
            .env("exabgp.daemon.user", "root")
            .env("exabgp.api.cli", "false")
            .env("exabgp.daemon.drop", "false");
        let exabgp = Daemon::start(test, command.arg(path("exabgp.conf")))?;
        let mut config = peer::config();
        config.passive = true;
        change(&mut config);
        let peer = Peer::new(config, listener, theirs, secret.as_bytes());
        Some(Self { peer, _exabgp: exabgp, files })
    }

    #[track_caller]
    fn until_heard(&mut self, holds: impl Fn(&str) -> bool) -> String {
        let path = self.files.path().join("heard");
        self.peer.run_until_answer(|| std::fs::read_to_string(&path).unwrap_or_default(), holds)
    }
}

#[test]
fn routes_of_both_families_go_both_ways() {
    let Some(mut world) = World::new("routes_of_both_families_go_both_ways", "", "", |_| {}) else {
        return;
    };
    announce_both(&mut world.peer);
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
    assert_eq!(world.peer.run_until_route("10.2.0.0/24"), [64501]);
    assert_eq!(world.peer.run_until_route("2001:db8:200::/48"), [64501]);
    let heard = world
        .until_heard(|heard| heard.contains("10.1.0.0/24") && heard.contains("2001:db8:100::/48"));
    for words in ["64510 4200000000", "192.0.2.10", "med 7", "64510:1", "2001:db8::10"] {
        assert!(heard.contains(words), "{words}: {heard}");
    }
    withdraw_both(&mut world.peer);
    world.until_heard(|heard| {
        let lost =
            |prefix| heard.lines().any(|line| line.contains("withdrawn") && line.contains(prefix));
        lost("10.1.0.0/24") && lost("2001:db8:100::/48")
    });
}

#[test]
fn several_paths_to_a_prefix_arrive() {
    let Some(mut world) = World::new("several_paths_to_a_prefix_arrive", "", "", several_paths)
    else {
        return;
    };
    announce_three_paths(&mut world.peer);
    world.until_heard(|heard| {
        (1..=3).all(|path| heard.contains(&format!("path-information 0.0.0.{path}")))
    });
}

#[test]
fn signed_segments_are_taken() {
    let options = "md5-password \"secret\";";
    let Some(mut world) = World::new("signed_segments_are_taken", options, "secret", |_| {}) else {
        return;
    };
    world.peer.run_until_event("up", |event| matches!(event, Event::Up(_)));
}
