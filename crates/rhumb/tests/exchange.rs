//! The two servers of a private exchange as processes, with members that the test plays: routes go
//! where their policies say, and nowhere else.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{Read, Write};
use std::net::TcpStream;

use exchanging::member::{Playing, SERVER, block_on, indifferent, last, silent};
use exchanging::{Exchange, Server};
use rhumb_channel::{Protocol, connect};

use crate::exchanging;

/// Members of an exchange, all connected and with all that there is.
fn members(exchange: &Exchange, servers: &[&Server], count: u16) -> Vec<Playing> {
    let all = usize::from(count);
    let start = |lane| Playing::start(exchange, lane, all, servers, indifferent);
    let members: Vec<Playing> = (0..count).map(start).collect();
    for member in &members {
        member.act(rhumb_exchange::Member::end_of_table);
        member.wait_for("table", |seen| seen.is_synced);
    }
    members
}

/// It keeps its connection and what fits, and both parties name it.
#[test]
fn a_site_that_announces_beyond_its_quota_is_named_and_others_notice_nothing() {
    let exchange = Exchange::new(3);
    // One in each shard.
    exchange.add_to_site("roster.toml", 0, "max_routes = 1");
    let (one, two) = exchange.start_pair();
    let m = members(&exchange, &[&one, &two], 3);
    ["a", "b", "c", "d"].into_iter().for_each(|to| m[0].announce(to, &[2], "by 0"));
    ["a", "b", "c", "d"].into_iter().for_each(|to| m[1].announce(to, &[2], "by 1"));
    m[2].wait_for("all that fits", |seen| {
        let of = |lane| seen.routes.keys().filter(|(_, from)| *from == lane).count();
        (1..=2).contains(&of(0)) && of(1) == 4
    });
    for server in [&one, &two] {
        server.running.wait_for_error("beyond the site's quota");
        let status = server.wait_for(&exchange, "refusals", |status| {
            status["routes"]["refused"].as_u64().unwrap() >= 2
        });
        let refused = |lane: usize| &status["members"][lane]["refused_routes"];
        assert_eq!((refused(0), refused(1).as_u64()), (&status["routes"]["refused"], Some(0)));
    }
    let (tell, told) = std::sync::mpsc::channel();
    m[0].act(move |member| tell.send(member.status().refused).unwrap());
    assert!(told.recv().unwrap() >= 2);
}

#[test]
fn routes_go_to_those_whom_their_policies_have_and_to_nobody_else() {
    let exchange = Exchange::new(4);
    let (one, two) = exchange.start_pair();
    let m = members(&exchange, &[&one, &two], 4);
    m[0].announce("a", &[1, 2], "a by 0");
    m[1].announce("b", &[0, 1, 3], "b by 1");
    m[3].announce("c", &[], "c by 3");
    m[1].wait_for_routes(&[("a", 0, "a by 0")]);
    m[2].wait_for_routes(&[("a", 0, "a by 0")]);
    m[0].wait_for_routes(&[("b", 1, "b by 1")]);
    m[3].wait_for_routes(&[("b", 1, "b by 1")]);

    // Anew, to others: who had it before and does not any more loses it.
    m[0].announce("a", &[2, 3], "a by 0 again");
    m[2].wait_for_routes(&[("a", 0, "a by 0 again")]);
    m[3].wait_for_routes(&[("a", 0, "a by 0 again"), ("b", 1, "b by 1")]);
    m[1].wait_for_routes(&[]);
    m[0].withdraw("a");
    m[2].wait_for_routes(&[]);
    m[3].wait_for_routes(&[("b", 1, "b by 1")]);

    for server in [&one, &two] {
        // Shards report one after the other: two routes are
        // current before the first is taken back, too.
        let status = server.wait_for(&exchange, "table", |status| {
            status["routes"]["current"] == 2 && status["routes"]["exported"] == 4
        });
        assert_eq!(status["members"].as_array().unwrap().len(), 4);
        assert_eq!(status["routes"]["exported"], 4);
        // To hand routes out nothing is computed.
        assert_eq!(status["triples"]["vectors_used"], 0);
    }
    let latency = &one.status(&exchange)["export_latency_us"];
    assert!(latency["p50"].as_u64() <= latency["p99"].as_u64() && latency["p50"].is_u64());
    let mut stream = TcpStream::connect(&one.admin).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", one.admin).unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    for line in ["rhumb_exchange_exported_routes_total 4", "rhumb_exchange_connected_members 4"] {
        assert!(metrics.lines().any(|it| it == line), "{metrics}");
    }
}

#[test]
fn the_best_of_several_is_chosen_by_taste_and_then_by_load() {
    let exchange = Exchange::new(5);
    exchange.place.write("load", "m0/a 90\nm1/a 10\nm2/a 50\n");
    let (one, two) = exchange.start_pair_with("port_load = \"load\"\nrechoose_ms = 400");
    let servers = [&one, &two];
    let start = |lane, taste| Playing::start(&exchange, lane, 5, &servers, taste);
    let m: Vec<Playing> = [
        start(0, indifferent),
        start(1, indifferent),
        start(2, indifferent),
        start(3, indifferent),
        start(4, last),
    ]
    .into();
    for (lane, member) in m.iter().enumerate().take(3) {
        member.announce("a", &[3, 4], &format!("a by {lane}"));
    }
    let chosen = |member: &Playing, whose| {
        member.wait_for("selection", |seen| {
            seen.routes.len() == 3 && seen.selected.get("a") == Some(&Some(whose))
        });
    };
    chosen(&m[3], 1);
    chosen(&m[4], 2);
    // Another load, and nothing besides: what was chosen is chosen
    // anew, and nobody was without a route meanwhile.
    exchange.place.write("load", "m0/a 5\nm1/a 90\nm2/a 50\n");
    chosen(&m[3], 0);
    chosen(&m[4], 2);
    assert!([3, 4].iter().all(|lane| m[*lane].seen().retracted == 0));
    let latency = |status: &serde_json::Value| status["round_latency_us"]["p99"].is_u64();
    one.wait_for(&exchange, "latency of rounds", latency);
    two.wait_for(&exchange, "latency of rounds", latency);
}

#[test]
fn a_member_that_does_not_rank_delays_others_for_a_moment_alone() {
    let exchange = Exchange::new(4);
    let (one, two) = exchange.start_pair_with("rank_deadline_ms = 300");
    let servers = [&one, &two];
    let taste = |lane| if lane == 3 { silent } else { indifferent };
    let m: Vec<Playing> =
        (0..4).map(|lane| Playing::start(&exchange, lane, 4, &servers, taste(lane))).collect();
    m[0].announce("a", &[2, 3], "a by 0");
    m[1].announce("a", &[2, 3], "a by 1");
    m[2].wait_for("selection", |seen| seen.selected.contains_key("a"));
    let missed = m[3].wait_for("word that it was missed", |seen| seen.missed > 0);
    assert_eq!((missed.routes.len(), missed.selected.len()), (2, 0));
    assert!(missed.asked > 0);
}

#[test]
fn who_joins_late_gets_all_and_who_is_gone_for_long_loses_its_routes() {
    let exchange = Exchange::new(3);
    let (one, two) = exchange.start_pair();
    let servers = [&one, &two];
    let start = |lane| Playing::start(&exchange, lane, 3, &servers, indifferent);
    let (first, second) = (start(0), start(1));
    first.announce("a", &[1, 2], "a by 0");
    second.announce("b", &[0, 2], "b by 1");
    first.wait_for_routes(&[("b", 1, "b by 1")]);
    second.wait_for_routes(&[("a", 0, "a by 0")]);
    let third = start(2);
    third.wait_for_routes(&[("a", 0, "a by 0"), ("b", 1, "b by 1")]);
    // Gone, without a goodbye.
    drop(first);
    third.wait_for_routes(&[("b", 1, "b by 1")]);
    second.wait_for_routes(&[]);
    // And back, with something else.
    let first = start(0);
    first.announce("c", &[2], "c by 0");
    first.act(rhumb_exchange::Member::end_of_table);
    first.wait_for_routes(&[("b", 1, "b by 1")]);
    third.wait_for_routes(&[("b", 1, "b by 1"), ("c", 0, "c by 0")]);
}

#[test]
fn a_member_that_reaches_one_party_alone_holds_nobody_up() {
    let exchange = Exchange::new(3);
    let (one, two) = exchange.start_pair();
    let m: Vec<Playing> =
        (0..2).map(|lane| Playing::start(&exchange, lane, 3, &[&one, &two], indifferent)).collect();
    for server in [&one, &two] {
        let half = Playing::start(&exchange, 2, 3, &[server], indifferent);
        half.announce("x", &[0, 1], "x by 2");
        server.wait_for(&exchange, "half", |status| status["routes"]["held"].as_u64() > Some(0));
        m[0].announce("a", &[1], "a by 0");
        m[1].wait_for_routes(&[("a", 0, "a by 0")]);
        // It is killed there. What one party alone has heard counts nowhere.
        drop(half);
        server.wait_for(&exchange, "end", |status| status["routes"]["held"] == 1);
        m[0].withdraw("a");
        m[1].wait_for_routes(&[]);
        server.wait_for(&exchange, "end", |status| status["routes"]["held"] == 0);
    }
}

#[test]
fn rude_members_are_cut_and_others_notice_nothing() {
    let exchange = Exchange::new(3);
    let (one, two) = exchange.start_pair();
    let m: Vec<Playing> =
        (0..2).map(|lane| Playing::start(&exchange, lane, 3, &[&one, &two], indifferent)).collect();
    m[0].announce("a", &[1], "a by 0");
    m[1].wait_for_routes(&[("a", 0, "a by 0")]);
    let rude = exchange.credentials("member-2");
    let longer = Protocol { max_sent: 4 << 20, ..SERVER };
    let common = rhumb_exchange::Common {
        shards: 2,
        ..rhumb_exchange::Common::new(std::sync::Arc::new(exchanging::member::roster_of(
            &exchange, 3,
        )))
    };
    let lane = rhumb_exchange::Lane(2);
    let hello = common.hello(rhumb_exchange::Speaker::Member { lane, participates: true }).emit();
    // Too long; for no shard; of no kind; an announcement cut short; a mark of zero.
    for message in [
        vec![1; (1 << 20) + 1],
        vec![1, 9, 0, 0],
        vec![99, 0, 0],
        vec![1, 0, 0, 5],
        [&[4, 0, 0][..], &[0; 16]].concat(),
    ] {
        for server in [&one, &two] {
            block_on(async {
                let mut channel =
                    connect(&rude, server.address, server.name, &longer).await.unwrap();
                channel.outbox.send(hello.clone()).await.unwrap();
                channel.outbox.send(message.clone()).await.unwrap();
                while channel.inbox.next().await.is_ok() {}
            });
        }
    }
    m[0].announce("b", &[1], "b by 0");
    m[1].wait_for_routes(&[("a", 0, "a by 0"), ("b", 0, "b by 0")]);
    for server in [&one, &two] {
        // The first never becomes a message.
        server.wait_for(&exchange, "cut", |status| status["connections"]["cut"] == 4);
    }
    assert!(m[0].seen().errors.is_empty() && m[1].seen().errors.is_empty());
}
