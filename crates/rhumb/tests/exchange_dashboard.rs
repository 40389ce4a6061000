//! The dashboard beside both servers of a private exchange and a member's proxy that run: what a
//! browser shows of them while routes are chosen.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use serde_json::json;

use crate::driven::Browser;
use crate::exchanging::member::{Playing, indifferent};
use crate::exchanging::proxy::{self, Settings};
use crate::exchanging::{Exchange, Server};

#[test]
fn a_browser_sees_both_parties_and_a_member_while_routes_are_chosen() {
    let exchange = Exchange::new(4);
    let (one, two) = exchange.start_pair();
    let at = |server: &Server| format!("\"{}@{}\"", server.name, server.address);
    let servers = format!("exchange = [{}]\nneutral = [{}]\n", at(&one), at(&two));
    let member = "admin = \"./proxy.sock\"\n";
    let settings = Settings { servers: &servers, member, ..Settings::default() };
    let proxy = proxy::start(&exchange, 3, &settings);
    let admins = [one.admin.as_str(), &two.admin, "./proxy.sock"];
    let Some((browser, _dashboard)) = Browser::of_daemons(&exchange.place, &admins) else { return };
    browser.run("location.hash = 'exchange'", &json!([]));
    for party in ["Party 1", "Party 2"] {
        browser.wait_for_figure(party, "Members", "1of 4");
        browser.wait_for_figure(party, "Rounds", "0done");
        browser.wait_for_figure(party, "Routes", "0current");
    }
    // Others come while somebody looks, and one of two routes is chosen for the third.
    let start = |lane| Playing::start(&exchange, lane, 4, &[&one, &two], indifferent);
    let m: Vec<Playing> = (0..3).map(start).collect();
    m[0].announce("a", &[2], "a by 0");
    m[1].announce("a", &[2], "a by 1");
    m[2].wait_for("selection", |seen| seen.selected.contains_key("a"));
    for party in ["Party 1", "Party 2"] {
        browser.wait_for_figure(party, "Members", "4of 4");
        browser.wait_for_figure(party, "Routes", "2current");
        browser.wait_for_figure(party, "Rounds", "[1-9][0-9]*done");
        browser.wait_for_figure(party, "Other party", "there.+");
    }
    for site in ["m0/a", "m1/a", "m2/a", "m3/a"] {
        browser.wait_for_row("Members", &[("Site", site), ("Routes refused", "0")]);
    }
    for shard in ["0", "1"] {
        browser.wait_for_row("Shards", &[("Shard", shard), ("Computes", "yes")]);
    }
    browser.wait_for_figure("Member m3/a", "Shards", "2of 2");
    browser.wait_for_figure("Member m3/a", "Own routes", "0");
    // A party that ends is missed, by the other one and on the page.
    drop(proxy);
    two.running.kill();
    browser.wait_for_figure("Party 1", "Other party", "away");
    browser.run("location.hash = 'overview'", &json!([]));
    browser.wait_for("document.querySelector('.alarms').textContent.includes('it has ended')");
    browser.wait_for(
        "document.querySelector('.alarms').textContent.includes('no connection with the other server')",
    );
    assert_eq!(browser.console(), [""; 0]);
}
