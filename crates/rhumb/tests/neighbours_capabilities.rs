//! Domains that demand capabilities of each other's borders, as processes, by the page of the
//! operators as it stands: who has one passes and is billed; who has none, one for another name, or
//! one that was revoked, does not, and hears why.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running};
use crate::neighbours::{
    Domain, Planned, admit, beside, ping, plan, reaches, receiver, start, start_border,
};
use crate::pages::page;

const PATIENCE: Duration = Duration::from_secs(60);
const MISSING: &str = "no capability for a router on the way";

/// The part of the page, with names and an address of this machine in it.
struct Recipe {
    text: String,
}

impl Recipe {
    fn new(border: &str) -> Self {
        let page = page("docs/operators.md");
        let (_, rest) = page.split_once("#### Who pays at the border").unwrap();
        let (part, _) = rest.split_once("\n### ").unwrap();
        // Free when it is looked for.
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let text = part.replace("BORDER_NAME", border).replace("192.0.2.53:53", &at);
        Self { text }
    }

    /// The block with settings that begins so.
    fn settings(&self, begin: &str) -> &str {
        let blocks = self.text.split("```toml\n").skip(1);
        let mut blocks = blocks.map(|block| block.split_once("```").unwrap().0);
        blocks.find(|block| block.starts_with(begin)).unwrap()
    }

    /// The arguments of the command that begins so.
    fn command(&self, begin: &str) -> Vec<&str> {
        let lines = self.text.lines().filter(|line| line.starts_with("rhumb "));
        let mut lines = lines.map(|line| line.split(" # ").next().unwrap().trim());
        let line = lines.find(|line| line.starts_with(begin)).unwrap();
        line.split_whitespace().skip(1).collect()
    }

    #[track_caller]
    fn play(&self, place: &Place, begin: &str) -> String {
        let run = place.run(&self.command(begin));
        assert_eq!(run.code, 0, "{begin}: {}", run.errors);
        run.output
    }
}

/// Of `near`, by settings, in place of the one before.
fn restart_border(place: &Place, near: &mut Domain, settings: &str) {
    near.border.take().unwrap().kill();
    place.write("near-border.toml", settings);
    let (border, admin) = start_border(place, "near", &near.rib, &[]);
    (near.border, near.border_admin) = (Some(border), admin);
}

fn dropped(place: &Place, domain: &Domain, reason: &str) -> u64 {
    let run = place.run(&["--json", "status", "--admin", &domain.border_admin]);
    assert_eq!(run.code, 0, "{}", run.errors);
    run.object()["dropped_pdus"][reason].as_u64().unwrap_or(0)
}

/// Pings in vain, until it hears this.
#[track_caller]
fn is_refused(place: &Place, domain: &Domain, to: &str, text: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let run = ping(place, domain, "node-bob.key", to);
        if run.code == 1 && run.errors.contains(text) {
            return;
        }
        assert!(Instant::now() < until, "{}: {}{}", run.code, run.output, run.errors);
    }
}

/// Makes what the page says, has the key server running, and gives both borders' settings.
fn demand(place: &Place, recipe: &Recipe, home: &mut Planned) -> Running {
    place.write("zone.toml", recipe.settings("[keyserver]"));
    for command in ["rhumb capability master", "rhumb capability signer operator"] {
        recipe.play(place, command);
    }
    recipe.play(place, "rhumb capability signer border.example");
    recipe.play(place, "rhumb --config zone.toml capability mint");
    let mut keyserver = place.start(&recipe.command("rhumb --config zone.toml keyserver"));
    keyserver.next_object();
    home.border = recipe.settings("[border]").to_owned();
    keyserver
}

/// Two neighbours, of which `home` demands what `near` has or lacks.
#[test]
fn a_neighbours_border_passes_by_what_it_was_given_alone() {
    let place = Place::new();
    let mut plans: Vec<Planned> = ["near", "home"].map(|label| plan(&place, label)).into();
    let recipe = Recipe::new(&plans[1].router);
    let _keyserver = demand(&place, &recipe, &mut plans[1]);
    let mut near = start(&place, &plans, &plans[0], &[beside("home", "peer")]);
    let home = start(&place, &plans, &plans[1], &[beside("near", "peer")]);
    near.wait_for_ways(&place, &home.name, &[&home.name]);
    let (_alice, alice) = receiver(&place, &home, "alice");
    let (_carol, carol) = receiver(&place, &home, "carol");
    for (domain, key) in [("near", "node-bob.key"), ("home", "node-dave.key")] {
        admit(&place, &format!("domain-{domain}.key"), "node", key, "join");
    }
    is_refused(&place, &near, &alice, MISSING);
    assert!(dropped(&place, &home, "unstamped") > 0);
    // Within the domain nobody needs one.
    reaches(&place, &home, "node-dave.key", &alice);

    let stamp = recipe.settings("[[border.stamp]]");
    restart_border(&place, &mut near, stamp);
    reaches(&place, &near, "node-bob.key", &alice);
    let until = Instant::now() + PATIENCE;
    let mut bill = recipe.command("rhumb waypoint accounts");
    bill.insert(0, "--json");
    loop {
        let shown: Value = place.run(&bill).object();
        if shown["accounts"][0]["principal"] == 42 {
            break;
        }
        assert!(Instant::now() < until, "nobody is billed: {shown}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let revoke = "rhumb --config zone.toml capability revoke";
    recipe.play(&place, revoke);
    is_refused(&place, &near, &alice, "was revoked");
    assert!(dropped(&place, &home, "capability_refused") > 0);
    let run = place.run(&[&recipe.command(revoke)[..], &["--restore"]].concat());
    assert_eq!(run.code, 0, "{}", run.errors);
    reaches(&place, &near, "node-bob.key", &alice);

    // A border that was handed on what is for carol.
    let delegate = recipe.command("rhumb capability delegate");
    let delegate = delegate.iter().map(|it| if *it == "CAROL_NAME" { carol.as_str() } else { it });
    let run = place.run(&delegate.collect::<Vec<_>>());
    assert_eq!(run.code, 0, "{}", run.errors);
    let (peer, _) = stamp.split_once("principal").unwrap();
    restart_border(&place, &mut near, &format!("{peer}capability = [\"carol.capability\"]\n"));
    reaches(&place, &near, "node-bob.key", &carol);
    is_refused(&place, &near, &alice, MISSING);
    assert!(dropped(&place, &near, "no_capability") > 0);
}
