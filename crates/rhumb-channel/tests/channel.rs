//! Channels over loopback: who gets in and who does not, what is told to
//! whom, and what a slow or rude peer costs others.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rhumb_channel::{
    BINDING_LEN, Channel, ChannelError, Credentials, Listener, MAX_HANDSHAKES,
    MAX_HANDSHAKES_A_SOURCE, Protocol, SendError, connect, connect_to_anybody,
};
use rhumb_trust::Identity;
use rhumb_wire::{Name, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

const LONGEST: usize = 1 << 20;
const PLAIN: Protocol =
    Protocol { name: "test/1", max_received: LONGEST, max_sent: LONGEST, max_queue: 1 << 21 };

fn credentials() -> Credentials {
    Credentials::new(&Identity::generate(Role::Node, 1).unwrap()).unwrap()
}

/// A door, and the channels that come in by it.
struct Server {
    name: Name,
    address: SocketAddr,
    roster: Arc<Mutex<HashSet<Name>>>,
    counters: Arc<rhumb_channel::Counters>,
    channels: mpsc::UnboundedReceiver<Channel>,
}

impl Server {
    async fn start(members: &[&Credentials]) -> Self {
        let own = credentials();
        let roster: HashSet<Name> = members.iter().map(|member| member.name()).collect();
        let roster = Arc::new(Mutex::new(roster));
        let admitted = Arc::clone(&roster);
        let any = "127.0.0.1:0".parse().unwrap();
        let admits = move |name| admitted.lock().unwrap().contains(&name);
        let mut listener = Listener::bind(any, &own, &[PLAIN], admits).await.unwrap();
        let (address, counters) = (listener.local_addr().unwrap(), listener.counters());
        let (sender, channels) = mpsc::unbounded_channel();
        tokio::spawn(async move { while sender.send(listener.accept().await).is_ok() {} });
        Self { name: own.name(), address, roster, counters, channels }
    }

    async fn connect(&self, from: &Credentials) -> Result<Channel, ChannelError> {
        connect(from, self.address, self.name, &PLAIN).await
    }
}

/// Waits until a counter has reached a value.
async fn reaches(counter: impl Fn() -> u64, value: u64) {
    for _ in 0..1000 {
        if counter() >= value {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the counter stays at {}, below {value}", counter());
}

#[tokio::test]
async fn messages_of_all_lengths_go_both_ways_in_order() {
    let member = credentials();
    let mut server = Server::start(&[&member]).await;
    let mut near = server.connect(&member).await.unwrap();
    let mut far = server.channels.recv().await.unwrap();
    assert_eq!((near.peer, far.peer), (server.name, member.name()));
    let messages = [1, 2, 3, 16_383, 16_384, 16_385, LONGEST].map(|len| vec![7; len]);
    for message in &messages {
        near.outbox.send(message.clone()).await.unwrap();
        far.outbox.send(message.clone()).await.unwrap();
        assert_eq!(&near.inbox.next().await.unwrap(), message);
    }
    for message in &messages {
        assert_eq!(&far.inbox.next().await.unwrap(), message);
    }
    assert_eq!(near.outbox.try_send(vec![0; LONGEST + 1]), Err(SendError::TooLong));
}

#[tokio::test]
async fn another_name_than_expected_is_named_with_the_one_expected() {
    let member = credentials();
    let server = Server::start(&[&member]).await;
    let other = credentials().name();
    let error = connect(&member, server.address, other, &PLAIN).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&server.name.to_string()) && text.contains(&other.to_string()), "{text}");
    reaches(|| server.counters.failed.load(Ordering::Relaxed), 1).await;
}

#[tokio::test]
async fn who_is_not_in_the_roster_is_told_so_until_it_is_there() {
    let member = credentials();
    let mut server = Server::start(&[]).await;
    let error = server.connect(&member).await.unwrap_err();
    assert!(matches!(error, ChannelError::Refused { own } if own == member.name()), "{error}");
    reaches(|| server.counters.strangers.load(Ordering::Relaxed), 1).await;
    server.roster.lock().unwrap().insert(member.name());
    server.connect(&member).await.unwrap();
    assert_eq!(server.channels.recv().await.unwrap().peer, member.name());
}

#[tokio::test]
async fn another_version_is_told_so_on_both_sides() {
    let member = credentials();
    let server = Server::start(&[&member]).await;
    let newer = Protocol { name: "test/2", ..PLAIN };
    let error = connect(&member, server.address, server.name, &newer).await.unwrap_err();
    assert!(error.to_string().contains("test/2"), "{error}");
    assert!(matches!(error, ChannelError::OtherProtocol { .. }), "{error}");
    reaches(|| server.counters.other_protocols.load(Ordering::Relaxed), 1).await;
}

#[tokio::test]
async fn a_message_above_the_bound_ends_its_channel_alone() {
    let (rude, fair) = (credentials(), credentials());
    let mut server = Server::start(&[&rude, &fair]).await;
    let longer = Protocol { max_sent: 4 * LONGEST, max_queue: 8 << 20, ..PLAIN };
    let rude = connect(&rude, server.address, server.name, &longer).await.unwrap();
    let mut of_rude = server.channels.recv().await.unwrap();
    let fair = server.connect(&fair).await.unwrap();
    let mut of_fair = server.channels.recv().await.unwrap();
    rude.outbox.send(vec![1; LONGEST + 1]).await.unwrap();
    fair.outbox.send(vec![2; 5]).await.unwrap();
    let error = of_rude.inbox.next().await.unwrap_err();
    assert!(matches!(error, ChannelError::FrameTooLong { len, .. } if len == LONGEST + 1));
    assert_eq!(of_fair.inbox.next().await.unwrap(), [2; 5]);
}

#[tokio::test]
async fn who_does_not_read_fills_its_own_queue_and_no_other() {
    let (slow, fair) = (credentials(), credentials());
    let mut server = Server::start(&[&slow, &fair]).await;
    let _slow = server.connect(&slow).await.unwrap();
    let to_slow = server.channels.recv().await.unwrap();
    let mut fair = server.connect(&fair).await.unwrap();
    let to_fair = server.channels.recv().await.unwrap();
    // Sockets hold some megabytes themselves; a queue that were not bounded would take all of this.
    let refused = (0..256).find_map(|_| to_slow.outbox.try_send(vec![0; LONGEST]).err());
    assert_eq!(refused, Some(SendError::Full));
    assert!(to_slow.outbox.waiting() <= PLAIN.max_queue);
    to_fair.outbox.try_send(vec![3; 9]).unwrap();
    assert_eq!(fair.inbox.next().await.unwrap(), [3; 9]);
}

#[tokio::test]
async fn a_goodbye_comes_after_what_was_sent_and_a_cut_is_no_goodbye() {
    let (polite, lost) = (credentials(), credentials());
    let mut server = Server::start(&[&polite, &lost]).await;
    let channel = server.connect(&polite).await.unwrap();
    let mut far = server.channels.recv().await.unwrap();
    for number in 1..=100 {
        channel.outbox.try_send(vec![number]).unwrap();
    }
    drop(channel.outbox);
    let ended = tokio::spawn(channel.inbox.finish(Duration::from_secs(10)));
    for number in 1..=100 {
        assert_eq!(far.inbox.next().await.unwrap(), [number]);
    }
    assert!(matches!(far.inbox.next().await, Err(ChannelError::Closed)));
    drop(far);
    ended.await.unwrap();

    drop(server.connect(&lost).await.unwrap());
    let error = server.channels.recv().await.unwrap().inbox.next().await.unwrap_err();
    assert!(!matches!(error, ChannelError::Closed), "{error}");
}

#[tokio::test]
async fn strangers_hold_neither_places_nor_memory() {
    let member = credentials();
    let server = Server::start(&[&member]).await;
    // From many addresses, more than there are places; nobody says a word.
    let mut idle = Vec::new();
    for number in 0..=MAX_HANDSHAKES / MAX_HANDSHAKES_A_SOURCE {
        for _ in 0..MAX_HANDSHAKES_A_SOURCE {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(format!("127.0.0.{}:0", 10 + number).parse().unwrap()).unwrap();
            idle.push(socket.connect(server.address).await.unwrap());
        }
    }
    reaches(|| server.counters.late.load(Ordering::Relaxed), 1).await;
    server.connect(&member).await.unwrap();
    // And from the member's own address, more than its share: those beyond it are closed at once.
    let mut more = Vec::new();
    for _ in 0..=MAX_HANDSHAKES_A_SOURCE {
        more.push(TcpStream::connect(server.address).await.unwrap());
    }
    reaches(|| server.counters.crowded.load(Ordering::Relaxed), 1).await;
}

#[tokio::test]
async fn what_is_not_tls_is_closed_and_counted() {
    let server = Server::start(&[]).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    reaches(|| server.counters.failed.load(Ordering::Relaxed), 1).await;
}

#[tokio::test]
async fn both_ends_of_a_channel_know_what_no_other_channel_has() {
    let member = credentials();
    let mut server = Server::start(&[&member]).await;
    let mut bindings = Vec::new();
    for _ in 0..2 {
        let ours = connect_to_anybody(&member, server.address, &PLAIN).await.unwrap();
        let theirs = server.channels.recv().await.unwrap();
        assert_eq!((ours.peer, theirs.peer), (server.name, member.name()));
        assert_eq!((ours.peer_role, theirs.peer_role), (Role::Node, Role::Node));
        assert_eq!(ours.binding, theirs.binding);
        bindings.push(ours.binding);
    }
    assert_ne!(bindings[0], bindings[1]);
    assert_ne!(bindings[0], [0; BINDING_LEN]);
}
