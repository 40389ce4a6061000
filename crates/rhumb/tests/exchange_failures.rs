//! Servers of a private exchange that are killed, restarted and stood in for: no route is lost,
//! none is half computed, and members need do nothing.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use crate::exchanging::member::{Playing, indifferent, last, silent};
use crate::exchanging::{Exchange, Server, is_paired, peers};

fn start(exchange: &Exchange, servers: &[&Server], count: u16) -> Vec<Playing> {
    let all = usize::from(count);
    (0..count).map(|lane| Playing::start(exchange, lane, all, servers, indifferent)).collect()
}

/// Something new gets through, and what was there before still is.
fn check(m: &[Playing], round: usize) {
    let text = format!("a by 0, {round}");
    m[0].announce("a", &[1, 2], &text);
    m[1].wait_for_routes(&[("a", 0, &text)]);
    m[2].wait_for_routes(&[("a", 0, &text), ("b", 1, "b by 1")]);
    m[0].wait_for_routes(&[("b", 1, "b by 1")]);
}

#[test]
fn each_party_may_be_killed_and_started_again() {
    let exchange = Exchange::new(3);
    let (mut one, mut two) = exchange.start_pair();
    let m = start(&exchange, &[&one, &two], 3);
    m[1].announce("b", &[0, 2], "b by 1");
    check(&m, 0);
    for (round, is_gentle) in [(1, true), (2, false)] {
        let address = one.address;
        end(one, is_gentle);
        // Said while nobody computes.
        m[0].announce("a", &[1], "said meanwhile");
        one = exchange.start_again("one", address, &peers(&[&two]));
        m[1].wait_for_routes(&[("a", 0, "said meanwhile")]);
        m[2].wait_for_routes(&[("b", 1, "b by 1")]);
        check(&m, round);
        let address = two.address;
        end(two, is_gentle);
        m[0].withdraw("a");
        two = exchange.start_again("two", address, &exchange.callers());
        m[1].wait_for_routes(&[]);
        m[2].wait_for_routes(&[("b", 1, "b by 1")]);
        check(&m, 10 + round);
    }
}

fn end(server: Server, is_gentle: bool) {
    if is_gentle {
        assert_eq!(server.running.signal("TERM"), 0);
    } else {
        server.running.kill();
    }
}

#[test]
fn a_party_killed_in_the_middle_of_a_flood_leaves_nothing_half_computed() {
    let exchange = Exchange::new(3);
    let (mut one, mut two) = exchange.start_pair();
    let m = start(&exchange, &[&one, &two], 3);
    m[1].wait_for("connection", |seen| seen.is_synced);
    let routes: Vec<(String, String)> =
        (0..400).map(|number| (format!("d{number:03}"), format!("route {number}"))).collect();
    for (number, (to, route)) in routes.iter().enumerate() {
        // To one or the other, so that a policy of another route would be seen.
        m[0].announce(to, &[1 + (number % 2) as u16], route);
        if number == 150 {
            let address = two.address;
            end(two, false);
            two = exchange.start_again("two", address, &exchange.callers());
        }
        if number == 300 {
            let address = one.address;
            end(one, false);
            one = exchange.start_again("one", address, &peers(&[&two]));
        }
    }
    for lane in [1, 2] {
        let expected: Vec<(&str, u16, &str)> = routes
            .iter()
            .enumerate()
            .filter(|(number, _)| number % 2 == lane - 1)
            .map(|(_, (to, route))| (to.as_str(), 0, route.as_str()))
            .collect();
        m[lane].wait_for_routes(&expected);
    }
}

#[test]
fn a_standby_of_the_second_party_takes_over() {
    let exchange = Exchange::new(3);
    exchange.configure("two", "127.0.0.1:0", &exchange.callers());
    exchange.configure("two-b", "127.0.0.1:0", &exchange.callers());
    let (two, spare) = (exchange.start("two"), exchange.start("two-b"));
    exchange.configure("one", "127.0.0.1:0", &peers(&[&two, &spare]));
    let one = exchange.start("one");
    two.wait_for(&exchange, "pair", is_paired);
    let m = start(&exchange, &[&one, &two, &spare], 3);
    m[1].announce("b", &[0, 2], "b by 1");
    check(&m, 0);
    assert!(!is_paired(&spare.status(&exchange)), "it hears, and computes nothing");
    let address = two.address;
    end(two, false);
    spare.wait_for(&exchange, "pair", is_paired);
    check(&m, 1);
    // The first is back: it is the standby now.
    let two = exchange.start_again("two", address, &exchange.callers());
    check(&m, 2);
    assert!(!is_paired(&two.status(&exchange)));
    end(spare, true);
    two.wait_for(&exchange, "pair", is_paired);
    check(&m, 3);
}

#[test]
fn a_standby_of_the_first_party_takes_over() {
    let exchange = Exchange::new(3);
    exchange.configure("two", "127.0.0.1:0", &exchange.callers());
    let two = exchange.start("two");
    let others = format!("{}\nstandby = \"{}\"", peers(&[&two]), exchange.name("one-b"));
    exchange.configure("one", "127.0.0.1:0", &others);
    let one = exchange.start("one");
    let primary = format!("{}\nprimary = \"{}@{}\"", peers(&[&two]), one.name, one.address);
    exchange.configure("one-b", "127.0.0.1:0", &primary);
    let spare = exchange.start("one-b");
    one.wait_for(&exchange, "pair", is_paired);
    let m = start(&exchange, &[&one, &two, &spare], 3);
    m[1].announce("b", &[0, 2], "b by 1");
    check(&m, 0);
    assert!(!is_paired(&spare.status(&exchange)), "it hears, and computes nothing");
    let address = one.address;
    end(one, false);
    spare.wait_for(&exchange, "pair", is_paired);
    check(&m, 1);
    // The first is back, and finds the other party in a pair.
    let one = exchange.start_again("one", address, &others);
    one.running.wait_for_error("the other party is in a pair with another server");
    check(&m, 2);
    assert!(is_paired(&spare.status(&exchange)));
    end(spare, true);
    one.wait_for(&exchange, "pair", is_paired);
    check(&m, 3);
}

#[test]
fn a_member_killed_while_it_is_asked_holds_up_nobody() {
    let exchange = Exchange::new(4);
    // Longer than any test waits.
    let patient = "rank_deadline_ms = 60000";
    exchange.configure("two", "127.0.0.1:0", &format!("{}\n{patient}", exchange.callers()));
    let two = exchange.start("two");
    exchange.configure("one", "127.0.0.1:0", &format!("{}\n{patient}", peers(&[&two])));
    let one = exchange.start("one");
    let servers = [&one, &two];
    let m: Vec<Playing> =
        (0..3).map(|lane| Playing::start(&exchange, lane, 4, &servers, indifferent)).collect();
    let asked = Playing::start(&exchange, 3, 4, &servers, silent);
    m[0].announce("d", &[2, 3], "d by 0");
    m[1].announce("d", &[2, 3], "d by 1");
    asked.wait_for("question", |seen| seen.asked > 0);
    assert!(m[2].seen().selected.is_empty());
    drop(asked);
    m[2].wait_for("result", |seen| seen.selected.contains_key("d"));
    let back = Playing::start(&exchange, 3, 4, &servers, last);
    back.wait_for("result of its own", |seen| seen.selected.get("d") == Some(&Some(1)));
}

#[test]
fn a_roster_grows_and_shrinks_and_those_who_stay_notice_nothing() {
    let exchange = Exchange::new(3);
    exchange.write_roster("roster.toml", 0..2);
    let (one, two) = exchange.start_pair();
    let reload = |sites: usize| {
        for server in [&one, &two] {
            server.running.nudge("HUP");
            server.wait_for(&exchange, "sites", |status| status["sites"] == sites);
        }
    };
    let mut old = start(&exchange, &[&one, &two], 2);
    old[0].announce("a", &[1], "a by 0");
    old[1].announce("b", &[0], "b by 1");
    old[1].wait_for_routes(&[("a", 0, "a by 0")]);
    old[0].wait_for_routes(&[("b", 1, "b by 1")]);
    exchange.write_roster("roster.toml", 0..3);
    reload(3);
    // Those with the old roster go on, and those who have
    // the new one announce to the newcomer, too.
    let new = Playing::start(&exchange, 2, 3, &[&one, &two], indifferent);
    new.announce("c", &[0, 1], "c by 2");
    old[1].wait_for_routes(&[("a", 0, "a by 0"), ("c", 2, "c by 2")]);
    old[0].take_roster(&exchange, 3);
    old[0].announce("a", &[1, 2], "a for all");
    new.wait_for_routes(&[("a", 0, "a for all")]);
    old[1].wait_for_routes(&[("a", 0, "a for all"), ("c", 2, "c by 2")]);
    for member in &old {
        let seen = member.seen();
        assert_eq!((seen.retracted, &seen.errors[..]), (0, &[][..]), "{seen:#?}");
    }

    exchange.remove_site("roster.toml", 2);
    reload(2);
    old[1].wait_for_routes(&[("a", 0, "a for all")]);
    old[0].wait_for_routes(&[("b", 1, "b by 1")]);
    assert!(old.iter().all(|member| member.seen().errors.is_empty()));
    new.wait_for("end", |seen| !seen.errors.is_empty());

    // Other places would make lanes of others: nothing changes.
    exchange.write_roster("roster.toml", [1, 0, 2]);
    one.running.nudge("HUP");
    let line = one.running.wait_for_error("the roster stays as it was");
    assert!(line.contains("removed = true"), "{line}");
    old[1].announce("b", &[0], "b goes on");
    old[0].wait_for_routes(&[("b", 1, "b goes on")]);
}
