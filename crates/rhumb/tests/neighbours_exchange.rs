//! Domains that tell each other through a private exchange which domains they reach: both servers,
//! RIBs, borders and nodes as processes. No RIB asks another what it offers; a name is reached,
//! and what is withdrawn is gone. An exchange that dies: `crates/rhumb-rib/tests/exchange.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running};
use crate::neighbours::{
    Beside, Domain, Planned, admit, beside, ping, plan, reaches, receiver, settle, start,
};

const PATIENCE: Duration = Duration::from_secs(60);
const LABELS: [&str; 3] = ["near", "left", "home"];

/// Starts both servers; what settings of members say of them.
fn exchange(place: &Place) -> ([Running; 2], String) {
    let names = ["one", "two"].map(|server| place.keygen("node", &format!("{server}.key")));
    let sites = LABELS.map(|label| {
        let name = place.keygen("node", &format!("{label}-at-exchange.key"));
        format!("[[site]]\nmember = \"{label}\"\nsite = \"a\"\nasn = 64512\nname = \"{name}\"\n")
    });
    place.write("roster.toml", &sites.concat());
    let server = |label: &str, party: u8, peer: &str| {
        let text = format!(
            "[exchange]\nparty = {party}\nkey = \"{label}.key\"\nroster = \"roster.toml\"\n\
             listen = \"127.0.0.1:0\"\npeer = [\"{peer}\"]\n"
        );
        place.write(&format!("{label}.toml"), &text);
        let mut running = place.start(&["--config", &format!("{label}.toml"), "exchange"]);
        let at = running.next_object()["address"].as_str().unwrap().to_owned();
        (running, at)
    };
    let (two, at_two) = server("two", 2, &format!("{}@127.0.0.1:1", names[0]));
    let (one, at_one) = server("one", 1, &format!("{}@{at_two}", names[1]));
    let servers = format!(
        "roster = \"roster.toml\"\nexchange = [\"{}@{at_one}\"]\nneutral = [\"{}@{at_two}\"]\n",
        names[0], names[1]
    );
    ([one, two], servers)
}

fn status(place: &Place, domain: &Domain) -> Value {
    let run = place.run(&["--json", "status", "--admin", &domain.rib_admin]);
    assert_eq!(run.code, 0, "{}", run.errors);
    run.object()
}

#[track_caller]
fn wait_for(place: &Place, domain: &Domain, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = status(place, domain);
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < until, "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `near` and `home` are customers of `left`.
#[test]
fn names_are_reached_over_domains_that_tell_each_other_through_a_private_exchange() {
    let place = Place::new();
    let (_exchange, servers) = exchange(&place);
    let mut plans: Vec<Planned> = LABELS.map(|label| plan(&place, label)).into();
    for planned in &mut plans {
        let key = format!("key = \"{}-at-exchange.key\"\n", planned.label);
        planned.exchange = format!("[rib.exchange]\n{key}{servers}");
    }
    let [near, left, home] = &plans[..] else { panic!() };
    let below = || [beside("left", "provider")];
    let above = [beside("near", "customer"), beside("home", "customer")];
    let near = start(&place, &plans, near, &below());
    let left = start(&place, &plans, left, &above);
    let home = start(&place, &plans, home, &below());

    near.wait_for_ways(&place, &home.name, &[&left.name]);
    let shown = place.run(&["domain", "routes", &home.name, "--admin", &near.rib_admin]).output;
    assert!(shown.contains("(provider, told through the exchange), preference 100"), "{shown}");
    // Home is told nothing by a session, and yet there are sessions to ask for names.
    // A word to each, and what it knows of each for the other.
    let told = wait_for(&place, &left, |it| it["exchange"]["counters"]["told"] == 4);
    assert_eq!(told["counters"]["domains_told"], 0);
    assert_eq!(told["exchange"]["site"], "left/a");
    assert_eq!(told["exchange"]["member"]["announced_routes"], 32, "whatever it offers");

    let (_alice, alice) = receiver(&place, &home, "alice");
    admit(&place, "domain-near.key", "node", "node-bob.key", "join");
    reaches(&place, &near, "node-bob.key", &alice);

    // Left offers home to near no longer.
    let withheld =
        Beside { more: format!("withhold = [\"{}\"]", home.name), ..beside("near", "customer") };
    settle(&place, &plans, &plans[1], &[withheld, beside("home", "customer")]);
    left.rib_process.nudge("HUP");
    near.wait_for_ways(&place, &home.name, &[]);
    // Nor do its routers go by a way that they were told before, whose certificates still hold.
    let until = Instant::now() + PATIENCE;
    while ping(&place, &near, "node-bob.key", &alice).code == 0 {
        assert!(Instant::now() < until, "they still do");
        std::thread::sleep(Duration::from_millis(500));
    }
    settle(&place, &plans, &plans[1], &above);
    left.rib_process.nudge("HUP");
    near.wait_for_ways(&place, &home.name, &[&left.name]);
    reaches(&place, &near, "node-bob.key", &alice);
}
