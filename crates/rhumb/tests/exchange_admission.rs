//! Who may talk to a server of the exchange, and what those who may not are told.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rhumb_channel::{Channel, ChannelError, Protocol, connect};
use rhumb_exchange::{Common, Form, Hello, Lane, Roster, Speaker, VERSION};

use crate::exchanging::member::{SERVER, block_on, roster_of};
use crate::exchanging::{Exchange, Server, is_paired, peers};

/// A server of party two that waits for others.
fn second(exchange: &Exchange) -> Server {
    exchange.configure("two", "127.0.0.1:0", &exchange.callers());
    exchange.start("two")
}

async fn call(exchange: &Exchange, who: &str, server: &Server) -> Result<Channel, ChannelError> {
    connect(&exchange.credentials(who), server.address, server.name, &SERVER).await
}

#[test]
fn names_that_are_not_in_the_roster_are_refused_until_they_are() {
    let exchange = Exchange::new(2);
    exchange.write_roster("roster.toml", 0..1);
    let server = second(&exchange);
    block_on(async {
        let error = call(&exchange, "member-1", &server).await.unwrap_err();
        assert!(matches!(error, ChannelError::Refused { .. }), "{error}");
        exchange.write_roster("roster.toml", 0..2);
        server.running.nudge("HUP");
        server.wait_for(&exchange, "second site", |status| status["sites"] == 2);
        call(&exchange, "member-1", &server).await.unwrap();
    });
    let status = server.status(&exchange);
    assert_eq!(status["door"]["stranger"], 1);
    // A roster that is not in order changes nothing.
    exchange.place.write("roster.toml", "[[site]]\n");
    server.running.nudge("HUP");
    server.running.wait_for_error("the roster stays as it was");
    assert_eq!(server.status(&exchange)["sites"], 2);
}

#[test]
fn a_member_cannot_speak_as_a_party_and_the_first_party_is_not_called() {
    let exchange = Exchange::new(1);
    let (one, two) = exchange.start_pair();
    let pair = Protocol { name: "rhumb-exchange-pair/1", ..SERVER };
    block_on(async {
        for server in [&one, &two] {
            let member = exchange.credentials("member-0");
            let mut channel = connect(&member, server.address, server.name, &pair).await.unwrap();
            channel.inbox.next().await.unwrap_err();
        }
    });
    for server in [&one, &two] {
        server.wait_for(&exchange, "refusal", |status| status["connections"]["refused"] == 1);
        let status = server.wait_for(&exchange, "pair", is_paired);
        assert_eq!(status["connections"]["pairs"], 1);
    }
}

#[test]
fn a_server_with_another_key_than_expected_is_named() {
    let exchange = Exchange::new(1);
    let two = second(&exchange);
    let other = exchange.name("two-b").to_owned();
    exchange.configure("one", "127.0.0.1:0", &format!("peer = [\"{other}@{}\"]", two.address));
    let one = exchange.start("one");
    let line = one.running.wait_for_error("the other party is not reached");
    assert!(line.contains(&other) && line.contains(&two.name.to_string()), "{line}");
}

#[test]
fn parties_that_were_started_differently_say_in_what() {
    let exchange = Exchange::new(2);
    exchange.write_roster("other.toml", 0..1);
    let two = second(&exchange);
    for (more, difference) in [
        ("shards = 3", "another number of shards"),
        ("select_best = \"paper\"", "another circuit for the best route"),
        ("thin_link = true", "another field of the computation"),
        ("bit_words = 70000", "another size of the pools of triples"),
        ("roster = \"other.toml\"", "another roster"),
    ] {
        let key = more.split(' ').next().unwrap();
        exchange.configure("one", "127.0.0.1:0", &peers(&[&two]));
        let path = exchange.place.path("one.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(key)).collect();
        lines.push(more);
        std::fs::write(path, lines.join("\n")).unwrap();
        let one = exchange.start("one");
        let line = one.running.wait_for_error("no pair with the other party");
        assert!(line.contains(difference), "{line}");
        let line = two.running.wait_for_error("no pair with the other party");
        assert!(line.contains(difference), "{line}");
    }
}

#[test]
fn members_that_were_started_differently_are_told_in_what() {
    let exchange = Exchange::new(2);
    let two = second(&exchange);
    let common = Common { shards: 2, ..Common::new(Arc::new(roster_of(&exchange, 2))) };
    let hello = |common: &Common, lane| {
        common.hello(Speaker::Member { lane: Lane(lane), participates: true })
    };
    let shards = Common { shards: 3, ..common.clone() };
    let form = Common { form: Form::Paper, ..common.clone() };
    let mut sites: Vec<_> = common.roster.sites().map(|(_, site)| site.clone()).collect();
    sites.reverse();
    let roster = Common { roster: Arc::new(Roster::new(sites).unwrap()), ..common.clone() };
    // The version follows the six bytes by which a hello is known.
    let mut newer = hello(&common, 0).emit();
    newer[6] += 1;
    let versions = format!(
        "the other side speaks version {} of the exchange's protocol, not {VERSION}",
        VERSION + 1
    );
    let cases = [
        (hello(&shards, 0).emit(), "another number of shards"),
        (hello(&form, 0).emit(), "another circuit"),
        (hello(&roster, 0).emit(), "another roster"),
        (hello(&common, 1).emit(), "its key is that of lane 0"),
        (newer, &*versions),
    ];
    for (hello, difference) in cases {
        block_on(async {
            let mut channel = call(&exchange, "member-0", &two).await.unwrap();
            channel.outbox.send(hello).await.unwrap();
            // The server says with what it was started, so that the member sees what differs, too.
            assert!(Hello::parse(&channel.inbox.next().await.unwrap()).is_ok());
            channel.inbox.next().await.unwrap_err();
        });
        let line = two.running.wait_for_error("a member is refused");
        assert!(line.contains(difference), "{line}");
    }
    assert_eq!(two.status(&exchange)["connections"]["refused"], 5);
    let later = Protocol { name: "rhumb-exchange-member/2", ..SERVER };
    block_on(async {
        let member = exchange.credentials("member-0");
        let error = connect(&member, two.address, two.name, &later).await.unwrap_err();
        assert!(matches!(error, ChannelError::OtherProtocol { .. }), "{error}");
    });
}

#[test]
fn strangers_and_nonsense_cost_nobody_anything() {
    let exchange = Exchange::new(1);
    let (one, two) = exchange.start_pair();
    let mut idle: Vec<TcpStream> = Vec::new();
    for server in [&one, &two] {
        // Fewer than the share of one address, which the members here have, too.
        for _ in 0..40 {
            idle.push(TcpStream::connect(server.address).unwrap());
        }
        let mut rude = TcpStream::connect(server.address).unwrap();
        rude.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = rude.write_all(&[0xff; 4096]);
        let _ = rude.read_to_end(&mut Vec::new());
    }
    block_on(async {
        // No hello, but something else.
        let mut channel = call(&exchange, "member-0", &two).await.unwrap();
        channel.outbox.send(vec![1; 9]).await.unwrap();
        channel.inbox.next().await.unwrap();
        channel.inbox.next().await.unwrap_err();
    });
    two.running.wait_for_error("it is no hello of an exchange");
    // In the pair that they were in before.
    for server in [&one, &two] {
        let status = server.wait_for(&exchange, "pair", is_paired);
        assert_eq!(status["connections"]["pairs"], 1);
    }
}

#[test]
fn a_configuration_is_checked_without_being_used() {
    let exchange = Exchange::new(2);
    exchange.configure(
        "one",
        "127.0.0.1:0",
        &format!("peer = [\"{}@127.0.0.1:1\"]", exchange.name("two")),
    );
    let check =
        |file: &str| exchange.place.run(&["--json", "--config", file, "exchange", "--check"]);
    let checked = check("one.toml").object();
    assert_eq!((&checked["party"], &checked["sites"]), (&1.into(), &2.into()));
    exchange.place.write("roster.toml", "[[site]]\nmember = \"m\"\nsyte = \"a\"\n");
    check("one.toml").is_refused_with(&["roster roster.toml, line 3", "did you mean `site`?"]);
    exchange.place.write("wrong.toml", "[exchange]\nparti = 1\n");
    check("wrong.toml").is_refused_with(&["wrong.toml, line 2", "did you mean `party`?"]);
    exchange.place.write("wrong.toml", "[exchange]\nparty = 1\n");
    check("wrong.toml").is_refused_with(&["the other party"]);
}
