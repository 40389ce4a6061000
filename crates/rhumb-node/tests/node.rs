//! Nodes over real sockets: what a program that uses the library sees.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_node::core::{DropReason, SendFailure};
use rhumb_node::{Config, Message, Node, NodeError, PingError, PlainPort, Remote, SendError};
use rhumb_trust::Identity;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Name, Role};
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

const NOBODY: Name = Name([7; 32]);

fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate(Role::Node, 1).expect("a key"))
}

async fn join(relay: &Relay) -> Node {
    Node::join(identity(), Config::new(relay.address)).await.expect("the relay takes everybody")
}

async fn receive(port: &mut PlainPort) -> Message {
    let message = timeout(PATIENCE, port.receive()).await.expect("a message in time");
    message.expect("the node is there")
}

fn unused_address() -> SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("an address")
}

#[tokio::test]
async fn two_nodes_talk_by_name() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let (mut port_a, mut port_b) =
        (a.bind_plain(1).await.expect("a port"), b.bind_plain(2).await.expect("a port"));
    // Both threads have gone to sleep, and nothing but the calls below wakes them for seconds.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begin = Instant::now();
    port_a.send_to(b.name(), 2, b"hello").await.expect("sent");
    let message = receive(&mut port_b).await;
    assert_eq!(
        message,
        Message {
            from: a.name(),
            as_member: false,
            from_port: None,
            to: b.name(),
            body: b"hello".to_vec()
        }
    );
    port_b.send_to(message.from, 1, b"and hello to you").await.expect("sent");
    let answer = receive(&mut port_a).await;
    assert_eq!(
        answer,
        Message {
            as_member: false,
            from: b.name(),
            from_port: None,
            to: a.name(),
            body: b"and hello to you".to_vec()
        }
    );
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn everything_a_program_sends_arrives_in_order_on_a_good_path() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let mut port = b.bind_plain(2).await.expect("a port");
    // No more under way than any socket's queue holds.
    for round in 0..100u32 {
        for n in 0..100 {
            a.send_plain(b.name(), 2, &(round * 100 + n).to_be_bytes()).await.expect("sent");
        }
        for n in 0..100 {
            assert_eq!(receive(&mut port).await.body, (round * 100 + n).to_be_bytes());
        }
    }
    let traffic = a.status().await.expect("a node").traffic;
    assert_eq!((traffic.sent, traffic.resent), (10_000, 0));
}

#[tokio::test]
async fn what_is_not_received_is_dropped_and_counted() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let mut port = b.bind_plain(2).await.expect("a port");
    for round in 1..=15 {
        for _ in 0..100 {
            a.send_plain(b.name(), 2, b"bound").await.expect("sent");
            a.send_plain(b.name(), 3, b"unbound").await.expect("sent");
        }
        let begin = Instant::now();
        while b.status().await.expect("a node").traffic.received < round * 200 {
            assert!(begin.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let drops = b.status().await.expect("a node").drops;
    assert_eq!(drops.of(DropReason::PortUnbound), 1500);
    assert_eq!(drops.of(DropReason::PortFull), 1500 - 1024);
    assert_eq!(receive(&mut port).await.body, b"bound");
}

#[tokio::test]
async fn a_port_has_one_receiver_at_a_time() {
    let relay = Relay::start(Behaviour::default());
    let node = join(&relay).await;
    let port = node.bind_plain(1).await.expect("a port");
    assert!(matches!(node.bind_plain(1).await, Err(NodeError::PortInUse { port: 1 })));
    drop(port);
    node.bind_plain(1).await.expect("free again");
}

#[tokio::test]
async fn data_that_a_router_is_not_ready_for_arrive_later() {
    let relay = Relay::start(Behaviour { unready: 3, ..Behaviour::default() });
    let (a, b) = (join(&relay).await, join(&relay).await);
    let mut port = b.bind_plain(2).await.expect("a port");
    a.send_plain(b.name(), 2, b"patience").await.expect("sent");
    assert_eq!(receive(&mut port).await.body, b"patience");
    assert_eq!(a.status().await.expect("a node").traffic.resent, 3);
}

#[tokio::test]
async fn what_could_not_be_delivered_is_told_once_to_whoever_sends_next() {
    let relay = Relay::start(Behaviour::default());
    let mut config = Config::new(relay.address);
    config.give_up_after = Duration::from_millis(300);
    let node = Node::join(identity(), config).await.expect("joined");
    node.send_plain(NOBODY, 1, b"hello?").await.expect("queued");
    tokio::time::sleep(Duration::from_millis(600)).await;
    let error = node.send_plain(NOBODY, 1, b"hello?").await.expect_err("nobody is there");
    let reason = SendFailure::Nacked(Reason::Unreachable(200));
    assert_eq!(error, SendError::Undelivered { to: NOBODY, reason });
    node.send_plain(NOBODY, 1, b"hello?").await.expect("queued");
}

#[tokio::test]
async fn what_does_not_fit_is_refused() {
    let relay = Relay::start(Behaviour::default());
    let node = join(&relay).await;
    let max = node.max_body_len(NOBODY);
    assert_eq!(max, 1452 - 28 - 76 - 4);
    let error = node.send_plain(NOBODY, 1, &vec![0; max + 1]).await.expect_err("too long");
    assert_eq!(error, SendError::TooBig { len: max + 1, max });
}

#[tokio::test]
async fn a_ping_measures_and_a_trace_names_the_way() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let reply = a.ping(b.name(), PATIENCE).await.expect("an answer");
    assert!(reply.rtt < Duration::from_secs(1), "{:?}", reply.rtt);
    let hops = a.trace(b.name(), 8, PATIENCE).await.expect("a way");
    let names: Vec<_> = hops.iter().map(|hop| hop.router).collect();
    assert_eq!(names, [Some(relay.name), Some(b.name())]);
    assert!(hops.iter().all(|hop| hop.rtt.is_some()));
    let unreachable = PingError::Unreachable { reporter: Some(relay.name) };
    let brief = Duration::from_millis(500);
    assert_eq!(a.ping(NOBODY, brief).await, Err(unreachable));
}

#[tokio::test]
async fn a_lost_ping_is_sent_again() {
    let relay = Relay::start(Behaviour { loses_one_in: 2, ..Behaviour::default() });
    let (a, b) = (join(&relay).await, join(&relay).await);
    for _ in 0..2 {
        a.ping(b.name(), PATIENCE).await.expect("an answer, to the second if not the first");
    }
}

#[tokio::test]
async fn a_ping_goes_on_when_its_first_try_is_given_up() {
    // Six times "not yet, 20 ms" are more than a tenth of a second allows.
    let relay = Relay::start(Behaviour { unready: 6, ..Behaviour::default() });
    let b = join(&relay).await;
    let mut config = Config::new(relay.address);
    config.give_up_after = Duration::from_millis(100);
    let a = Node::join(identity(), config).await.expect("joined");
    a.ping(b.name(), PATIENCE).await.expect("an answer to the second try");
    assert_eq!(a.status().await.expect("a node").traffic.given_up, 1);
}

#[tokio::test]
async fn status_tells_of_the_membership() {
    let relay = Relay::start(Behaviour::default());
    let node = join(&relay).await;
    let status = node.status().await.expect("a node");
    assert_eq!(status.name, node.name());
    assert_eq!((status.router, status.router_address), (Some(relay.name), Some(relay.address)));
    assert!(status.joined && status.published);
    let left = status.lease_left.expect("a lease").as_secs();
    assert!((590..=600).contains(&left), "{left}");
    assert_eq!(node.router().await, Some(relay.name));
}

#[tokio::test]
async fn a_node_that_left_is_closed_for_all_its_handles() {
    let relay = Relay::start(Behaviour::default());
    let node = join(&relay).await;
    let mut port = node.bind_plain(1).await.expect("a port");
    assert!(node.clone().leave().await, "the relay confirms");
    assert_eq!(timeout(PATIENCE, port.receive()).await, Ok(None));
    assert!(matches!(node.bind_plain(2).await, Err(NodeError::Closed)));
    assert!(matches!(node.status().await, Err(NodeError::Closed)));
    let begin = Instant::now();
    while node.send_plain(NOBODY, 1, b"").await != Err(SendError::Closed) {
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(node.ping(NOBODY, PATIENCE).await, Err(PingError::Send(SendError::Closed)));
}

#[tokio::test]
async fn a_node_whose_handles_are_dropped_leaves() {
    let relay = Relay::start(Behaviour::default());
    let mut config = Config::new(relay.address);
    let address = unused_address();
    config.bind = Some(address);
    let node = Node::join(identity(), config.clone()).await.expect("joined");
    drop(node);
    let begin = Instant::now();
    // Its socket is free once its thread has ended.
    while let Err(error) = Node::join(identity(), config.clone()).await {
        assert!(matches!(error, NodeError::Io(_)), "{error}");
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_address_without_a_router_is_told() {
    let address = unused_address();
    let mut config = Config::new(address);
    config.join_timeout = Duration::from_millis(300);
    let begin = Instant::now();
    let error = Node::join(identity(), config).await.expect_err("nobody is there");
    assert!(matches!(error, NodeError::RouterUnreachable { address: at, .. } if at == address));
    assert!(begin.elapsed() < Duration::from_secs(2));
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && !text.contains('\n'), "{text}");
}

#[tokio::test]
async fn another_router_than_the_one_expected_is_told() {
    let relay = Relay::start(Behaviour::default());
    let config = Config::new(Remote { address: relay.address, name: Some(NOBODY) });
    let error = Node::join(identity(), config).await.expect_err("somebody else is there");
    assert!(matches!(
        error,
        NodeError::WrongRouter { expected: NOBODY, actual, .. } if actual == relay.name
    ));
}

#[tokio::test]
async fn a_router_that_refuses_or_cannot_publish_or_is_silent_is_told() {
    let outcomes = [
        Behaviour { refuses: true, ..Behaviour::default() },
        Behaviour { published: false, ..Behaviour::default() },
        Behaviour { silent: true, ..Behaviour::default() },
    ];
    for (at, behaviour) in outcomes.into_iter().enumerate() {
        let relay = Relay::start(behaviour);
        let mut config = Config::new(relay.address);
        config.join_timeout = Duration::from_millis(700);
        let error = Node::join(identity(), config).await.expect_err("no membership");
        let expected = match error {
            NodeError::Refused { router, reason: Reason::BadCertificate } => (0, router),
            NodeError::NotPublished { router } => (1, router),
            NodeError::NoAnswer { router } => (2, router),
            other => panic!("{other}"),
        };
        assert_eq!(expected, (at, relay.name));
    }
}

#[tokio::test]
async fn a_name_need_not_be_published_when_told_so() {
    let relay = Relay::start(Behaviour { published: false, ..Behaviour::default() });
    let mut config = Config::new(relay.address);
    config.require_published = false;
    let node = Node::join(identity(), config).await.expect("joined");
    assert!(!node.status().await.expect("a node").published);
}

#[tokio::test]
async fn an_address_in_use_is_told() {
    let relay = Relay::start(Behaviour::default());
    let mut config = Config::new(relay.address);
    config.bind = Some(relay.address);
    let error = Node::join(identity(), config).await.expect_err("the relay has it");
    assert!(error.to_string().contains("in use"), "{error}");
}
