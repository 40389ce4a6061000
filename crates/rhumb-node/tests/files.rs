//! Files between nodes over real sockets: whole, checked, and at a decent rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use rhumb_node::transfer::{Offered, PORT, TransferError, WriteAt, sha256_of};
use rhumb_node::{Admits, Config, Node, ReceiveReport};
use rhumb_trust::{AdCert, Identity, Window};
use rhumb_wire::Role;
use rhumb_wire::transfer::{CancelReason, FileName, Kind, LOOKING, Offer, TransferId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

/// A place for a file that the test can look into.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

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
    (bytes, Offer { kind: Kind::File, length, sha256, name })
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
        move |_| Ok(sink.clone()),
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
        let open = |offered: &Offered| match offered.offer.length {
            1000 => Ok(Memory::default()),
            _ => Err(CancelReason::Declined),
        };
        b.receive_file(open, |_| ()).await
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
        let open = |_: &Offered| Ok(Memory::default());
        b.receive_file(open, move |_| begin.notify_one()).await
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
        let open = |_: &Offered| Ok(Memory::default());
        one.receive_file(open, move |_| begin.notify_one()).await
    });
    let (bytes, offer) = file(64 << 20);
    let memory = Memory::default();
    let sink = memory.clone();
    let move_it = async {
        begun.notified().await;
        let second = two.serve(word(&two, 2)).await.expect("accepted");
        let open = move |_: &Offered| Ok(sink.clone());
        let received = two.receive_file(open, |_| ()).await;
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

/// How a file of 1000 bytes ends whose receiver says this.
async fn sent_to_who_says(said: &[u8]) -> TransferError {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let mut listener = b.listen(PORT, Admits::Everybody).expect("a free port");
    let answering = async {
        let mut stream = listener.accept().await.expect("a stream");
        stream.write_all(said).await.expect("written");
        let mut content = Vec::new();
        let _ = stream.read_to_end(&mut content).await;
    };
    let (bytes, offer) = file(1000);
    let sending = a.send_file(b.name(), bytes, offer, |_| ());
    let both = timeout(PATIENCE, async { tokio::join!(sending, answering).0 });
    both.await.expect("in time").expect_err("not received")
}

#[tokio::test]
async fn a_receiver_who_makes_no_sense_ends_the_file() {
    let nonsense = TransferError::EndedByPeer(CancelReason::Nonsense);
    let numbers = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    };
    assert_eq!(sent_to_who_says(&numbers(&[1001])).await, nonsense, "more than there is");
    assert_eq!(sent_to_who_says(&numbers(&[0, 600, 500])).await, nonsense, "less than before");
    let looks = |looked_at: u64| LOOKING + looked_at;
    assert_eq!(sent_to_who_says(&numbers(&[looks(1001)])).await, nonsense, "looks at too much");
    let looked = [numbers(&[looks(0), looks(900), 900, looks(1000), 1000]), vec![1]].concat();
    assert_eq!(sent_to_who_says(&looked).await, TransferError::Corrupt, "it has looked");
    let judged = |verdict: u8| [numbers(&[0, 1000]), vec![verdict]].concat();
    assert_eq!(sent_to_who_says(&judged(2)).await, nonsense, "no verdict");
    assert_eq!(sent_to_who_says(&judged(1)).await, TransferError::Corrupt);
}

/// How a file is received whose sender offers so many bytes and writes these.
async fn received_of(length: u64, bytes: &[u8]) -> Result<ReceiveReport, TransferError> {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let to = b.name();
    let sending = async {
        // What is no offer takes no place.
        let mut noise = a.open(to, PORT).await.expect("opened");
        noise.write_all(&[0xFF; 400]).await.expect("written");
        let mut answer = Vec::new();
        noise.read_to_end(&mut answer).await.expect_err("it is ended");
        let mut stream = a.open(to, PORT).await.expect("opened");
        let (_, offer) = file(1000);
        let mut head = Vec::new();
        Offer { length, ..offer }.emit(TransferId(7), &mut head);
        stream.write_all(&head).await.expect("written");
        stream.write_all(bytes).await.expect("written");
        stream.shutdown().await.expect("finished");
        let _ = stream.read_to_end(&mut answer).await;
    };
    let receiving = b.receive_file(|_| Ok(Memory::default()), |_| ());
    let both = timeout(PATIENCE, async { tokio::join!(receiving, sending).0 });
    both.await.expect("in time")
}

#[tokio::test]
async fn a_sender_who_makes_no_sense_ends_the_file() {
    let nonsense = TransferError::EndedByPeer(CancelReason::Nonsense);
    let (bytes, _) = file(1000);
    assert_eq!(received_of(1000, &bytes).await.expect("received").bytes, 1000);
    assert_eq!(received_of(999, &bytes).await.expect_err("too much"), nonsense);
    assert_eq!(received_of(1001, &bytes).await.expect_err("too little"), nonsense);
    assert_eq!(
        received_of(1000, &[7; 1000]).await.expect_err("other bytes"),
        TransferError::Corrupt
    );
}

#[tokio::test]
async fn a_file_goes_on_by_another_stream_where_it_was() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let to = b.name();
    let (bytes, offer) = file(1000);
    let mut head = Vec::new();
    offer.emit(TransferId(7), &mut head);
    let memory = Memory::default();
    let sink = memory.clone();
    let sending = async {
        let mut streams = Vec::new();
        // Each breaks off in the middle, but the last one, and none is ended.
        for (from, until) in [(0, 400), (400, 900), (900, 1000)] {
            let mut stream = a.open(to, PORT).await.expect("opened");
            stream.write_all(&head).await.expect("written");
            let has = stream.read_u64().await.expect("said");
            assert_eq!(has, from as u64);
            stream.write_all(&bytes[from..until]).await.expect("written");
            while stream.read_u64().await.expect("said") < until as u64 {}
            streams.push(stream);
        }
        let last = streams.last_mut().expect("three");
        assert_eq!(last.read_u8().await.expect("judged"), 0);
    };
    let receiving = b.receive_file(move |_| Ok(sink.clone()), |_| ());
    let both = timeout(PATIENCE, async { tokio::join!(receiving, sending).0 });
    both.await.expect("in time").expect("received");
    assert!(*memory.0.lock().expect("no panic") == bytes, "the very same bytes");
}

#[tokio::test]
async fn who_receives_at_a_node_that_has_ended_is_told() {
    let relay = Relay::start(Behaviour::default());
    let node = join(&relay).await;
    let other = node.clone();
    let waiting =
        tokio::spawn(async move { other.receive_file(|_| Ok(Memory::default()), |_| ()).await });
    tokio::task::yield_now().await;
    let later = node.clone();
    node.leave().await;
    let ended = timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    assert_eq!(ended, Err(TransferError::Stopped));
    let begun_later = later.receive_file(|_| Ok(Memory::default()), |_| ());
    let ended = timeout(PATIENCE, begun_later).await.expect("in time");
    assert_eq!(ended, Err(TransferError::Stopped));
}

#[tokio::test]
async fn a_router_on_the_way_reads_nothing_of_a_file() {
    let relay = Relay::start(Behaviour { keeps: true, ..Behaviour::default() });
    let (a, b) = (join(&relay).await, join(&relay).await);
    let bytes = b"nobody but the two of us".repeat(10_000);
    let length = bytes.len() as u64;
    let sha256 = sha256_of(&mut bytes.as_slice(), length).expect("memory can be read");
    let name = FileName::new("secret-plans.txt").expect("a fit name");
    let receiving = b.receive_file(|_| Ok(Memory::default()), |_| ());
    let sending =
        a.send_file(b.name(), bytes, Offer { kind: Kind::File, length, sha256, name }, |_| ());
    let both = timeout(PATIENCE, async { tokio::join!(receiving, sending) });
    let (received, sent) = both.await.expect("in time");
    assert!(received.is_ok() && sent.is_ok(), "{received:?}, {sent:?}");
    let reads = |what: &[u8]| {
        let read = relay.read.lock().expect("no panic");
        read.iter().any(|data| data.windows(what.len()).any(|part| part == what))
    };
    let hidden = [&b"nobody but"[..], b"secret-plans", &sha256];
    assert!(!hidden.into_iter().any(reads), "it is sealed by its ends");
    // What is plain is what the router reads.
    let mut port = b.bind_plain(7).await.expect("a free port");
    a.send_plain(b.name(), 7, b"nobody but the two of us").await.expect("queued");
    timeout(PATIENCE, port.receive()).await.expect("in time").expect("a message");
    assert!(reads(b"nobody but"));
}

#[tokio::test]
async fn whoever_receives_right_after_another_one_has_gone_is_there() {
    let relay = Relay::start(Behaviour::default());
    let b = join(&relay).await;
    for _ in 0..3 {
        let receiving = b.receive_file(|_| Ok(Memory::default()), |_| ());
        let waited = timeout(std::time::Duration::from_millis(20), receiving).await;
        assert!(waited.is_err(), "it waits for a file: {waited:?}");
    }
}
