//! `rhumb top` of what is no router, RIB or node: a waypoint, and the servers of a private
//! exchange.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use serde_json::Value;

use crate::harness::{Place, Run, Running};

use crate::waypoints::{ENDS, Rig, Sender, pass, receive, socket, udp};
use crate::wire::Line;

/// A screen of the daemons at these addresses, as a table and for programs.
fn screen(place: &Place, admins: &[&str], screen: &str) -> (String, Value) {
    let mut arguments = vec!["top", "--interval", "1", "--count", "1", "--screen", screen];
    arguments.extend(admins.iter().flat_map(|admin| ["--admin", admin]));
    let shown = |more: &[&str]| {
        let run = Run::of(place.command(&[more, &arguments].concat()).output().unwrap());
        assert_eq!(run.code, 0, "{}", run.errors);
        run
    };
    (shown(&[]).output, shown(&["--json"]).object())
}

/// The only row that has this text in some cell.
#[track_caller]
fn row<'a>(object: &'a Value, text: &str) -> &'a Value {
    let rows = object["rows"].as_array().unwrap();
    let has = |row: &&Value| row.as_object().unwrap().values().any(|cell| cell == text);
    let found: Vec<&Value> = rows.iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{text}: {object:#}");
    found[0]
}

#[test]
fn a_waypoints_accounts_and_drops_are_shown() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    let waypoint = rig.start(r1, "w1", &[Line::R1], "");
    let admin = waypoint.ready["admin"].as_str().unwrap();
    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    let packet = udp(Line::A, Line::B, &[9; 172]);
    for _ in 0..5 {
        a.send_by(&[pass(Line::R1)], &packet);
        assert_eq!(receive(&b).len(), 172);
    }
    let stamped = a.stamp(&[pass(Line::R1)], &packet);
    a.send(&stamped);
    a.send(&stamped);
    r1.enter(|| {
        let (table, overview) = screen(&rig.place, &[admin], "overview");
        assert_eq!(row(&overview, "waypoint")["peers"], 1.0, "{table}");
        let (_, flows) = screen(&rig.place, &[admin], "flows");
        let principal = format!("principal {}", pass(Line::R1).principal);
        assert!(row(&flows, &principal)["pkt_s"].is_number(), "{flows:#}");
        let (table, drops) = screen(&rig.place, &[admin], "drops");
        assert_eq!(row(&drops, "replay")["in_all"], 1.0, "{table}");
        let (_, work) = screen(&rig.place, &[admin], "work");
        assert_eq!(row(&work, "forwarded packets")["is"], 6.0, "{work:#}");
    });
}

#[test]
fn the_servers_of_an_exchange_are_shown_and_what_is_wrong_when_one_is_alone() {
    let place = Place::new();
    let names = ["one", "two"].map(|server| place.keygen("node", &format!("{server}.key")));
    let site = place.keygen("node", "site.key");
    place.write(
        "roster.toml",
        &format!("[[site]]\nmember = \"m\"\nsite = \"a\"\nasn = 64512\nname = \"{site}\"\n"),
    );
    let server = |label: &str, party: u8, peer: &str| -> (Running, Value) {
        let text = format!(
            "[exchange]\nparty = {party}\nkey = \"{label}.key\"\nroster = \"roster.toml\"\n\
             listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nshards = 1\npeer = [\"{peer}\"]\n"
        );
        place.write(&format!("{label}.toml"), &text);
        let mut running = place.start(&["--config", &format!("{label}.toml"), "exchange"]);
        let ready = running.next_object();
        (running, ready)
    };
    let (two, of_two) = server("two", 2, &format!("{}@127.0.0.1:1", names[0]));
    let at_two = of_two["address"].as_str().unwrap();
    let (_one, of_one) = server("one", 1, &format!("{}@{at_two}", names[1]));
    let admins = [&of_one, &of_two].map(|ready| ready["admin"].as_str().unwrap());
    let warnings = || screen(&place, &admins, "warnings").1;
    let is_paired = || warnings()["rows"].as_array().unwrap().is_empty();
    // They find each other within a moment.
    let is_well = (0..30).any(|_| is_paired());
    assert!(is_well, "{:#}", warnings());
    let (table, overview) = screen(&place, &admins, "overview");
    assert_eq!(overview["rows"].as_array().unwrap().len(), 2, "{table}");
    // The book has labels for both.
    assert_eq!(row(&overview, "one")["what"], "exchange", "{table}");
    let (_, work) = screen(&place, &admins[..1], "work");
    assert_eq!(row(&work, "sites")["is"], 1.0, "{work:#}");
    drop(two);
    let alone = "it has no connection with the other server";
    let is_told = (0..30).any(|_| warnings().to_string().contains(alone));
    assert!(is_told, "{:#}", warnings());
    assert!(warnings().to_string().contains("says nothing for"));
}
