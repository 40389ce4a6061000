//! Who may send to a node: strangers are refused where it says
//! so, and hold no place that is kept for others.

use std::sync::Arc;
use std::time::Duration;

use rhumb_node::core::DropReason;
use rhumb_node::transfer::{Offered, PORT, ReadAt, TransferError, sha256_of};
use rhumb_node::{Config, EndError, Node, PingError, Refusal, Wanted};
use rhumb_trust::{Access, Identity, Rule, Standing};
use rhumb_wire::transfer::{FileName, Kind, Offer};
use rhumb_wire::{Name, Role};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate(Role::Node, 1).expect("a key"))
}

async fn join(relay: &Relay) -> Node {
    Node::join(identity(), Config::new(relay.address)).await.expect("the relay takes everybody")
}

fn only(name: Name, otherwise: Standing) -> Access {
    let rule = Rule::named(name, Standing::Admitted);
    Access { rules: vec![rule], otherwise, ..Access::default() }
}

fn file(name: &str) -> (Vec<u8>, Offer) {
    let bytes = vec![7; 1000];
    let sha256 = sha256_of(&mut bytes.as_slice(), 1000).expect("memory can be read");
    (
        bytes,
        Offer {
            kind: Kind::File,
            length: 1000,
            sha256,
            name: FileName::new(name).expect("a fit name"),
        },
    )
}

async fn next(refusals: &mut mpsc::Receiver<Refusal>) -> Refusal {
    timeout(PATIENCE, refusals.recv()).await.expect("a refusal in time").expect("the node is there")
}

#[tokio::test]
async fn who_may_not_send_here_is_refused_and_told_of() {
    let relay = Relay::start(Behaviour::default());
    let (friend, stranger) = (join(&relay).await, join(&relay).await);
    let mut config = Config::new(relay.address);
    config.access = only(friend.name(), Standing::Refused);
    let own = Node::join(identity(), config).await.expect("joined");
    let (from, to) = (stranger.name(), own.name());
    let mut refusals = own.refusals();
    let mut port = own.bind_plain(5).await.expect("a port");

    let unanswered = stranger.ping(to, Duration::from_millis(200)).await;
    assert_eq!(unanswered, Err(PingError::TimedOut));
    assert_eq!(next(&mut refusals).await, Refusal { from, to, wanted: Wanted::Ping });
    friend.ping(to, PATIENCE).await.expect("friends are answered");

    stranger.send_plain(to, 5, b"let me in").await.expect("sent");
    let wanted = Wanted::Datagram { port: 5 };
    assert_eq!(next(&mut refusals).await, Refusal { from, to, wanted });
    friend.send_plain(to, 5, b"hello").await.expect("sent");
    let message = timeout(PATIENCE, port.receive()).await.expect("in time").expect("a message");
    assert_eq!((message.from, &message.body[..]), (friend.name(), &b"hello"[..]));

    let receiver = own.clone();
    let receiving = tokio::spawn(async move {
        let open = |_: &Offered| Ok(Vec::new());
        receiver.receive_file(open, |_| ()).await
    });
    let (bytes, offer) = file("unwanted");
    let refused = timeout(PATIENCE, stranger.send_file(to, bytes, offer, |_| ())).await;
    let declined = TransferError::Connection(EndError::Refused(to));
    assert_eq!(refused.expect("an answer in time").expect_err("declined"), declined);
    let wanted = Wanted::Connection { port: None };
    assert_eq!(next(&mut refusals).await, Refusal { from, to, wanted });
    let (bytes, offer) = file("wanted");
    let sent = timeout(PATIENCE, friend.send_file(to, bytes, offer, |_| ())).await;
    sent.expect("an answer in time").expect("taken");
    let received = timeout(PATIENCE, receiving).await.expect("in time").expect("no panic");
    assert_eq!(received.expect("received").from, friend.name());
    let status = own.status().await.expect("it runs");
    assert!(status.drops.of(DropReason::SenderRefused) >= 2);

    // The rules change while it runs.
    own.set_access(Access::default());
    stranger.ping(to, PATIENCE).await.expect("everybody is answered now");
}

#[tokio::test]
async fn a_node_that_refuses_everybody_still_sends_files() {
    let relay = Relay::start(Behaviour::default());
    let mut config = Config::new(relay.address);
    config.access = Access { rules: Vec::new(), otherwise: Standing::Refused, ..Access::default() };
    let closed = Node::join(identity(), config).await.expect("joined");
    let other = join(&relay).await;
    let to = other.name();
    let receiving = tokio::spawn(async move {
        let open = |_: &Offered| Ok(Vec::new());
        other.receive_file(open, |_| ()).await
    });
    let (bytes, offer) = file("out");
    let sent = timeout(PATIENCE, closed.send_file(to, bytes, offer, |_| ())).await;
    sent.expect("a verdict in time").expect("its receiver's answers come in");
    receiving.await.expect("no panic").expect("received");
}

/// Strangers offer files and then fall silent, which holds a place for half a minute.
#[tokio::test]
async fn strangers_who_stall_leave_a_place_for_whoever_is_admitted() {
    let relay = Relay::start(Behaviour::default());
    let friend = join(&relay).await;
    let mut config = Config::new(relay.address);
    config.access = only(friend.name(), Standing::Stranger);
    let own = Node::join(identity(), config).await.expect("joined");
    let to = own.name();
    let (opened, mut places) = mpsc::unbounded_channel();
    for _ in 0..4 {
        let (own, opened) = (own.clone(), opened.clone());
        tokio::spawn(async move {
            let open = move |offered: &Offered| {
                let _ = opened.send(offered.from);
                Ok(Vec::new())
            };
            own.receive_file(open, |_| ()).await
        });
    }
    let mut stalled = Vec::new();
    for _ in 0..6 {
        let stranger = join(&relay).await;
        let (_, offer) = file("never sent");
        // Its file cannot be read, so all that comes is the offer.
        let stall = tokio::spawn(async move { stranger.send_file(to, Slow, offer, |_| ()).await });
        stalled.push(stall);
    }
    for _ in 0..3 {
        let from = timeout(PATIENCE, places.recv()).await.expect("in time").expect("a place");
        assert_ne!(from, friend.name());
    }
    let (bytes, offer) = file("in time");
    let sent = timeout(PATIENCE, friend.send_file(to, bytes, offer, |_| ())).await;
    sent.expect("a verdict in time").expect("a place was kept for it");
    stalled.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Strangers open streams and offer nothing on them.
#[tokio::test]
async fn strangers_who_offer_nothing_hold_up_nobody() {
    let relay = Relay::start(Behaviour::default());
    let (friend, stranger) = (join(&relay).await, join(&relay).await);
    let mut config = Config::new(relay.address);
    config.access = only(friend.name(), Standing::Stranger);
    let own = Node::join(identity(), config).await.expect("joined");
    let to = own.name();
    let receiving = tokio::spawn(async move {
        let open = |_: &Offered| Ok(Vec::new());
        own.receive_file(open, |_| ()).await
    });
    // Whoever comes before files are received hears that nothing is offered.
    let first = async {
        loop {
            match stranger.open(to, PORT).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let mut silent = vec![timeout(PATIENCE, first).await.expect("in time")];
    for _ in 1..200 {
        let opened = timeout(PATIENCE, stranger.open(to, PORT)).await;
        silent.push(opened.expect("in time").expect("opened"));
    }
    let (bytes, offer) = file("in time");
    let sent = timeout(PATIENCE, friend.send_file(to, bytes, offer, |_| ())).await;
    sent.expect("a verdict in time").expect("received");
    let received = timeout(PATIENCE, receiving).await.expect("in time").expect("no panic");
    assert_eq!(received.expect("received").from, friend.name());
}

/// A disk that takes very long.
struct Slow;

impl ReadAt for Slow {
    #[expect(
        clippy::disallowed_methods,
        reason = "holds up one node's own thread, as a disk would"
    )]
    fn read_exact_at(&mut self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
        std::thread::sleep(PATIENCE);
        Err(std::io::ErrorKind::TimedOut.into())
    }
}
