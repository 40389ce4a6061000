//! Files between nodes over real sockets: whole, checked, and at a decent rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use rhumb_node::transfer::{ReadAt, ReceiverConfig, TransferError, WriteAt, sha256_of};
use rhumb_node::{Config, Node};
use rhumb_trust::{AdCert, Identity, Window};
use rhumb_wire::Role;
use rhumb_wire::transfer::{CancelReason, FileName, Offer};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

/// A place for a file that the test can look into.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl ReadAt for Memory {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.lock().expect("no panic").read_exact_at(offset, buffer)
    }
}

impl WriteAt for Memory {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.lock().expect("no panic").write_all_at(offset, bytes)
    }
}

async fn join(relay: &Relay) -> Node {
    let identity = Arc::new(Identity::generate(Role::Node, 1).expect("a key"));
    Node::join(identity, Config::new(relay.address)).await.expect("the relay takes everybody")
}

fn file(len: usize) -> (Vec<u8>, Offer) {
    let bytes: Vec<u8> = (0..len).map(|n| (n * 31 + n / 251) as u8).collect();
    let length = bytes.len() as u64;
    let sha256 = sha256_of(&mut bytes.as_slice(), length).expect("memory can be read");
    let name = FileName::new("figures.bin").expect("a fit name");
    (bytes, Offer { length, sha256, name })
}

/// Sends a file of `len` bytes over a relay and checks all that is told about it.
async fn carry(behaviour: Behaviour, len: usize) {
    let relay = Relay::start(behaviour);
    let (a, b) = (join(&relay).await, join(&relay).await);
    let (bytes, offer) = file(len);
    let memory = Memory::default();
    let sink = memory.clone();
    let (sent_bytes, received_bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count_sent, count_received) = (sent_bytes.clone(), received_bytes.clone());
    let sending = a.send_file(b.name(), bytes.clone(), offer.clone(), move |n| {
        count_sent.store(n, Ordering::Relaxed);
    });
    let receiving = b.receive_file(
        ReceiverConfig::default(),
        move |_, _| Ok(sink.clone()),
        move |n| count_received.store(n, Ordering::Relaxed),
    );
    let (sent, received) = timeout(PATIENCE, async { tokio::join!(sending, receiving) })
        .await
        .expect("a file in time");
    let (sent, received) = (sent.expect("sent"), received.expect("received"));
    assert!(*memory.0.lock().expect("no panic") == bytes, "the very same bytes");
    assert_eq!((received.from, received.bytes), (a.name(), offer.length));
    assert_eq!((received.file_name.as_str(), received.sha256), ("figures.bin", offer.sha256));
    assert_eq!(sent.bytes, offer.length);
    assert_eq!(sent_bytes.load(Ordering::Relaxed), offer.length);
    assert_eq!(received_bytes.load(Ordering::Relaxed), offer.length);
}

#[tokio::test]
async fn a_file_arrives_whole() {
    for len in [0, 1, 100_000, 8 << 20] {
        carry(Behaviour::default(), len).await;
    }
}

#[tokio::test]
async fn a_file_arrives_whole_although_one_in_fifty_is_lost() {
    carry(Behaviour { loses_one_in: 50, ..Behaviour::default() }, 2 << 20).await;
}

#[tokio::test]
async fn a_file_arrives_although_the_router_needs_time_first() {
    carry(Behaviour { unready: 5, ..Behaviour::default() }, 100_000).await;
}

#[tokio::test]
async fn an_offer_that_is_declined_is_told_and_the_next_one_taken() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let to = b.name();
    let receiving = tokio::spawn(async move {
        let open = |_, offer: &Offer| match offer.length {
            1000 => Ok(Memory::default()),
            _ => Err(CancelReason::Declined),
        };
        b.receive_file(ReceiverConfig::default(), open, |_| ()).await
    });
    let (bytes, offer) = file(500);
    let refused = timeout(PATIENCE, a.send_file(to, bytes, offer, |_| ())).await;
    let declined = TransferError::EndedByPeer(CancelReason::Declined);
    assert_eq!(refused.expect("an answer in time").expect_err("declined"), declined);
    let (bytes, offer) = file(1000);
    timeout(PATIENCE, a.send_file(to, bytes, offer, |_| ()))
        .await
        .expect("an answer in time")
        .expect("taken");
    let received = timeout(PATIENCE, receiving).await.expect("in time").expect("no panic");
    assert_eq!(received.expect("received").bytes, 1000);
}

#[tokio::test]
async fn a_transfer_ends_when_its_future_is_dropped() {
    let relay = Relay::start(Behaviour { loses_one_in: 10, ..Behaviour::default() });
    let (a, b) = (join(&relay).await, join(&relay).await);
    let to = b.name();
    let begun = Arc::new(Notify::new());
    let begin = begun.clone();
    let receiving = tokio::spawn(async move {
        let open = |_, _: &Offer| Ok(Memory::default());
        b.receive_file(ReceiverConfig::default(), open, move |_| begin.notify_one()).await
    });
    let (bytes, offer) = file(64 << 20);
    let sending = a.send_file(to, bytes, offer, |_| ());
    tokio::select! {
        sent = sending => panic!("it takes longer than its first bytes: {sent:?}"),
        () = begun.notified() => {}
    }
    let received = timeout(PATIENCE, receiving).await.expect("in time").expect("no panic");
    let stopped = TransferError::EndedByPeer(CancelReason::Stopped);
    assert_eq!(received.expect_err("the sender stopped"), stopped);
}

#[tokio::test]
async fn a_file_begins_again_when_its_name_moves_to_another_server() {
    let relay = Relay::start(Behaviour::default());
    let (a, one, two) = (join(&relay).await, join(&relay).await, join(&relay).await);
    let owner = Identity::generate(Role::Capsule, 1).expect("a key");
    let word = |server: &Node, sequence| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
        let window = Window::starting(since_1970.as_secs(), 600);
        AdCert::sign(&owner, server.name(), sequence, window).expect("a key that signs")
    };
    let _first = one.serve(word(&one, 1)).await.expect("accepted");
    let begun = Arc::new(Notify::new());
    let begin = begun.clone();
    let receiving = tokio::spawn(async move {
        let open = |_, _: &Offer| Ok(Memory::default());
        one.receive_file(ReceiverConfig::default(), open, move |_| begin.notify_one()).await
    });
    let (bytes, offer) = file(64 << 20);
    let memory = Memory::default();
    let sink = memory.clone();
    let move_it = async {
        begun.notified().await;
        let second = two.serve(word(&two, 2)).await.expect("accepted");
        let open = move |_, _: &Offer| Ok(sink.clone());
        let received = two.receive_file(ReceiverConfig::default(), open, |_| ()).await;
        (second, received)
    };
    let sending = a.send_file(owner.name(), bytes.clone(), offer, |_| ());
    let both = timeout(PATIENCE, async { tokio::join!(sending, move_it) });
    let (sent, (_second, received)) = both.await.expect("a file in time");
    assert_eq!(sent.expect("sent").restarts, 1);
    let received = received.expect("received");
    assert_eq!((received.from, received.to), (a.name(), owner.name()));
    assert!(*memory.0.lock().expect("no panic") == bytes, "the very same bytes");
    receiving.abort();
}

#[tokio::test]
async fn leaving_waits_for_the_verdict_to_get_through() {
    let relay = Relay::start(Behaviour { loses_a_verdict: true, ..Behaviour::default() });
    let (a, b) = (join(&relay).await, join(&relay).await);
    let to = b.name();
    let receiving = tokio::spawn(async move {
        let received =
            b.receive_file(ReceiverConfig::default(), |_, _| Ok(Memory::default()), |_| ()).await;
        b.leave().await;
        received
    });
    let (bytes, offer) = file(10_000);
    let sent = timeout(PATIENCE, a.send_file(to, bytes, offer, |_| ())).await;
    sent.expect("a verdict in time").expect("an intact file");
    receiving.await.expect("no panic").expect("received");
}
