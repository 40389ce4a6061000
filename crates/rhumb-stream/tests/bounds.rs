//! What strangers can make an end hold, and whom they cannot hold up by it.

#![allow(clippy::unwrap_used)] // A test may.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rhumb_link::Limits;
use rhumb_stream::MAX_BACKLOG;
use rhumb_trust::Identity;
use rhumb_wire::Role;
use rhumb_wire::stream::StreamParameters;

use crate::client::{Client, USUAL};
use crate::middlebox::{Middlebox, Mischief};
use crate::world::World;

/// A connection from this address of loopback.
fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// Whether the other end has closed it.
fn is_closed(socket: &mut TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    match socket.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn a_source_that_says_nothing_holds_up_nobody_else_and_not_for_long() {
    let mut limits = Limits::default();
    (limits.half_open_per_source, limits.half_open) = (8, 16);
    let mut world = World::with(limits);
    let mut silent: Vec<_> = (0..20).map(|_| connect_from(9, world.listens)).collect();
    world.until("refused", |it| it.ends[1].counters().refused == 12);
    assert_eq!(world.ends[1].counters().half_open, 8);
    // Somebody at another address is not in its way.
    world.establish();
    world.assert_carries();
    // Half of a hello is as good as nothing.
    for socket in &mut silent {
        let _ = socket.write_all(&[22, 3, 1, 1, 0, 1, 0, 0, 0xFC]);
    }
    world.until("over", |it| it.ends[1].counters().half_open == 0);
    assert_eq!(world.ends[1].counters().handshakes_failed, 8);
    world.until("closed", |_| silent.iter_mut().all(is_closed));
    world.assert_carries();
}

#[test]
fn many_sources_that_say_nothing_are_bounded_together() {
    let mut limits = Limits::default();
    (limits.half_open_per_source, limits.half_open) = (8, 16);
    let mut world = World::with(limits);
    let silent: Vec<_> = (2..42).map(|host| connect_from(host, world.listens)).collect();
    world.until("refused", |it| it.ends[1].counters().refused == 24);
    assert_eq!(world.ends[1].counters().half_open, 16);
    drop(silent);
    world.until("over", |it| it.ends[1].counters().half_open == 0);
    world.establish();
}

#[test]
fn streams_are_bounded_all_in_all() {
    let mut limits = Limits::default();
    limits.sessions = 2;
    let mut world = World::with(limits);
    world.establish();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let mut client = Client::dial(world.listens, Some(&identity), &USUAL);
        world.until("taken or refused", |it| {
            it.ends[1].counters().refused > 0
                || client.output().len() >= StreamParameters::FRAME_LEN
        });
        client.say(&StreamParameters { max_datagram_len: 1452 }.emit());
        clients.push(client);
    }
    world.until("refused", |it| it.ends[1].counters().refused > 0);
    world.until("two at most", |it| it.ends[1].counters().open <= 2);
    world.assert_carries();
}

#[test]
fn who_does_not_read_loses_what_is_sent_to_it_and_holds_up_nobody() {
    let mut world = World::new();
    let middlebox = Middlebox::new(world.listens);
    world.establish_by(middlebox.address);
    // Another one, whose end reads.
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let mut client = Client::dial(world.listens, Some(&identity), &USUAL);
    world.until("its parameters", |_| client.output().len() >= StreamParameters::FRAME_LEN);
    client.say(&StreamParameters { max_datagram_len: 1452 }.emit());
    let name = identity.name();
    world.until("its session", |it| it.ends[1].endpoint.session_of(&name).is_some());
    middlebox.begins(Mischief::Stalls, 0);
    // More than the system keeps, and what we keep beside.
    let pdu = [7; 1_000];
    let mut sent = 0;
    while world.ends[1].counters().dropped_busy == 0 {
        world.send(1, [&pdu[..]; 64]);
        sent += 64;
        assert!(sent * pdu.len() < (64 << 20), "it is all kept");
        if sent % 4_096 == 0 {
            world.turn();
        }
    }
    let before = world.ends[1].counters();
    for _ in 0..100 {
        world.send(1, [&pdu[..]; 64]);
    }
    let after = world.ends[1].counters();
    let kept = (after.sent_frames - before.sent_frames) as usize * 1_003;
    assert!(kept <= MAX_BACKLOG, "{kept}");
    let (heard, now) = (client.output().len(), world.now());
    world.ends[1].send(name, [&b"for who reads"[..]], now);
    world.until("read", |_| client.output().len() > heard);
    middlebox.ends();
    world.until("read at last", |it| {
        it.ends[0].counters().received_frames >= it.ends[1].counters().sent_frames - 2
    });
}

#[test]
fn half_a_frame_is_waited_for_as_long_as_the_session_lives_and_no_longer() {
    let mut world = World::new();
    let identity = Identity::generate(Role::Node, 1).unwrap();
    let mut client = Client::dial(world.listens, Some(&identity), &USUAL);
    world.until("our parameters", |_| client.output().len() >= StreamParameters::FRAME_LEN);
    client.say(&StreamParameters { max_datagram_len: 1452 }.emit());
    client.say(&[4, 0, 0x80, 1, 2, 3]);
    let name = identity.name();
    world.until("a session", |it| it.ends[1].endpoint.session_of(&name).is_some());
    world.establish();
    world.assert_carries();
    world.skip(Duration::from_secs(16));
    assert!(world.ends[1].endpoint.session_of(&name).is_some());
    world.skip(Duration::from_secs(6));
    world.until("over", |_| client.is_over());
    assert!(world.ends[1].endpoint.session_of(&name).is_none());
    assert!(world.ends[1].received.iter().all(|pdu| pdu == b"carried"));
}

#[test]
fn what_is_no_frame_ends_the_stream() {
    let mut world = World::new();
    let parameters = StreamParameters { max_datagram_len: 1452 }.emit().to_vec();
    let mut small = parameters.clone();
    let at = small.len() - 2;
    small[at..].copy_from_slice(&1_231_u16.to_be_bytes());
    for (what, said) in [
        ("no length", [&parameters[..], &[0, 0]].concat()),
        ("no such type", [&parameters[..], &[0, 1, 0x90]].concat()),
        ("a path message", [&parameters[..], &[0, 17, 0xD0]].concat()),
        ("a longer PDU than may be", [&parameters[..], &[0xFF, 0xFF, 0x80]].concat()),
        ("a close that goes on", [&parameters[..], &[0, 2, 0xB0, 0]].concat()),
        ("no parameters", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("datagrams too small", small),
    ] {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let mut client = Client::dial(world.listens, Some(&identity), &USUAL);
        world.until("our parameters", |_| client.output().len() >= StreamParameters::FRAME_LEN);
        client.say(&said);
        world.until(what, |_| client.is_over());
        assert!(world.ends[1].endpoint.session_of(&identity.name()).is_none(), "{what}");
    }
    let counters = world.ends[1].counters();
    assert_eq!((counters.open, counters.malformed, counters.handshakes_failed), (0, 5, 1));
    assert!(world.ends[1].received.is_empty());
}
