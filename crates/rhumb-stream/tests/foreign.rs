//! A TLS stack that is not ours, by the specification alone: OpenSSL.

#![allow(clippy::unwrap_used)] // A test may.

use rhumb_link::Transport;
use rhumb_trust::Identity;
use rhumb_wire::Role;
use rhumb_wire::stream::{StreamFrame, StreamParameters};

use crate::client::{Client, USUAL};
use crate::middlebox::{Middlebox, Mischief};
use crate::world::World;

/// What it says of itself: 1,452 bytes.
const PARAMETERS: [u8; 12] = [0, 10, b'R', b'P', 1, 1, 0, 0, 0, 0, 0x05, 0xAC];

#[test]
fn openssl_dials_and_pdus_go_both_ways() {
    let mut world = World::new();
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let mut client = Client::dial(world.listens, Some(&identity), &USUAL);
    let len = StreamParameters::FRAME_LEN;
    world.until("our parameters", |_| client.output().len() >= len);
    assert_eq!(client.output(), PARAMETERS, "they are as its own: {}", client.errors());
    assert!(world.ends[1].endpoint.session_of(&identity.name()).is_none(), "it may not want to");
    client.say(&PARAMETERS);
    // A PDU, a keep-alive, and a PDU that comes in two.
    client.say(&[0, 6, 0x80, b'f', b'i', b'r', b's', b't', 0, 1, 0x80, 0, 7, 0x80, b's', b'e']);
    world.until("a PDU", |it| !it.ends[1].received.is_empty());
    client.say(b"cond");
    world.until("another", |it| it.ends[1].received == [&b"first"[..], b"second"]);
    let session = world.ends[1].endpoint.session_of(&identity.name()).unwrap();
    let peer = world.ends[1].endpoint.peer(session).unwrap();
    assert_eq!((peer.transport(), peer.initiator), (Transport::Tls, false));
    let now = world.now();
    world.ends[1].send(identity.name(), [&b"and back"[..]], now);
    let mut expected = PARAMETERS.to_vec();
    StreamFrame::Pdu(b"and back").emit(&mut expected);
    world.until("our PDU", |_| client.output() == expected);
    client.say(&[0, 1, 0xB0]);
    world.until("closed", |it| it.ends[1].endpoint.session_of(&identity.name()).is_none());
    world.until("and the connection with it", |_| client.is_over());
}

#[test]
fn openssl_takes_its_next_keys_and_has_ours_when_it_asks() {
    let mut world = World::new();
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let mut client = Client::dial_to_command(world.listens, &identity, &USUAL);
    world.until("our parameters", |_| client.output() == PARAMETERS);
    client.say(&PARAMETERS);
    let name = identity.name();
    world.until("a session", |it| it.ends[1].endpoint.session_of(&name).is_some());
    let mut expected = PARAMETERS.to_vec();
    // What tells of a key of ours takes 27 bytes, and a frame by itself 22 more than it is long.
    for (turn, (command, update)) in [("k", 0), ("K", 27), ("K", 27)].into_iter().enumerate() {
        client.say(format!("{command}\n").as_bytes());
        let taken = turn + 1;
        world.until("its key", |_| client.errors().matches("KEYUPDATE").count() == taken);
        client.say(&[0, 4, 0x80, b'n', b'e', b'w']);
        world.until("a PDU", |it| it.ends[1].received.len() == taken);
        assert!(world.ends[1].received.iter().all(|pdu| pdu == b"new"));
        let (now, before) = (world.now(), world.ends[1].counters().sent_bytes);
        world.ends[1].send(name, [&b"back"[..]], now);
        assert_eq!(world.ends[1].counters().sent_bytes - before, 3 + 4 + 22 + update);
        StreamFrame::Pdu(b"back").emit(&mut expected);
        world.until("our PDU", |_| client.output() == expected);
    }
    assert!(world.ends[1].endpoint.session_of(&name).is_some());
}

#[test]
fn openssl_is_told_that_a_record_was_altered() {
    let mut world = World::new();
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let middlebox = Middlebox::new(world.listens);
    let mut client = Client::dial(middlebox.address, Some(&identity), &USUAL);
    world.until("our parameters", |_| client.output() == PARAMETERS);
    client.say(&PARAMETERS);
    let name = identity.name();
    world.until("a session", |it| it.ends[1].endpoint.session_of(&name).is_some());
    middlebox.begins(Mischief::Alters, 0);
    client.say(&[0, 8, 0x80, b'a', b'l', b't', b'e', b'r', b'e', b'd']);
    world.until("the end", |_| client.is_over());
    assert!(client.errors().contains("bad record mac"), "{}", client.errors());
    assert_eq!(world.ends[1].counters().malformed, 1);
    assert!(world.ends[1].received.is_empty());
}

#[test]
fn who_shows_no_name_or_speaks_something_else_gets_nowhere() {
    let mut world = World::new();
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let own = world.ends[1].identity.clone();
    for (who, arguments) in [
        (None, &USUAL[..]),
        (Some(&identity), &["-tls1_2", "-alpn", "rhumb/1"]),
        (Some(&identity), &["-tls1_3", "-alpn", "h2"]),
        (Some(&identity), &["-tls1_3"]),
        (Some(&*own), &USUAL),
    ] {
        let mut client = Client::dial(world.listens, who, arguments);
        let before = world.ends[1].counters().handshakes_failed;
        world.until("refused", |it| {
            client.say(&PARAMETERS);
            client.is_over() && it.ends[1].counters().handshakes_failed > before
        });
        assert_eq!(client.output(), [], "{arguments:?}");
    }
    assert_eq!(world.ends[1].counters().open, 0);
    assert!(world.ends[1].events.is_empty());
}
