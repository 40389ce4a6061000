//! Files that go on where they were when either end began anew: by content, for the same sender and
//! the same name, and with what is no good thrown away once.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rhumb_node::transfer::{Offered, PORT, TransferError, WriteAt, sha256_of};
use rhumb_node::{Admits, Config, Node, ReceiveReport, Stream};
use rhumb_trust::Identity;
use rhumb_wire::Role;
use rhumb_wire::transfer::{
    CancelReason, ENDED, FileName, Kind, Offer, TransferId, emit_end, emit_frame_head,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

/// A disk with one file, which outlives whoever writes to it.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    settled: usize,
    finished: u32,
    /// How much it takes, if that is bounded.
    room: Option<usize>,
}

impl WriteAt for Disk {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut kept = self.0.lock().expect("no panic");
        if kept.room.is_some_and(|room| offset as usize + bytes.len() > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        kept.bytes.write_all_at(offset, bytes)
    }

    fn recall(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let kept = self.0.lock().expect("no panic");
        see(&kept.bytes[..kept.settled]);
        Ok(kept.settled as u64)
    }

    fn settle(&mut self, length: u64, sha256: &[u8; 32]) -> io::Result<()> {
        let mut kept = self.0.lock().expect("no panic");
        assert_eq!(sha256_of(&mut &kept.bytes[..], length)?, *sha256, "of what is there");
        kept.settled = length as usize;
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        let mut kept = self.0.lock().expect("no panic");
        kept.bytes.clear();
        kept.settled = 0;
        Ok(())
    }

    fn finish(&mut self, _: &FileName) -> io::Result<()> {
        self.0.lock().expect("no panic").finished += 1;
        Ok(())
    }
}

async fn join(relay: &Relay) -> Node {
    let identity = Arc::new(Identity::generate(Role::Node, 1).expect("a key"));
    Node::join(identity, Config::new(relay.address)).await.expect("the relay takes everybody")
}

fn file(name: &str) -> (Vec<u8>, Offer) {
    let bytes: Vec<u8> = (0..1000_usize).map(|n| (n * 31 + n / 251) as u8).collect();
    let sha256 = sha256_of(&mut bytes.as_slice(), 1000).expect("memory can be read");
    let name = FileName::new(name).expect("a fit name");
    (bytes, Offer { kind: Kind::File, length: 1000, sha256, name })
}

/// Receives one file onto a disk.
async fn receive(node: &Node, disk: &Disk) -> JoinHandle<Result<ReceiveReport, TransferError>> {
    let (node, disk) = (node.clone(), disk.clone());
    let open = move |_: &Offered| Ok(disk.clone());
    let receiving = tokio::spawn(async move { node.receive_file(open, |_| ()).await });
    // It waits for a file from then on.
    tokio::task::yield_now().await;
    receiving
}

async fn report(
    receiving: JoinHandle<Result<ReceiveReport, TransferError>>,
) -> Result<ReceiveReport, TransferError> {
    timeout(PATIENCE, receiving).await.expect("in time").expect("no panic")
}

/// Offers a file by hand, and says how much of it the receiver has.
async fn offer(from: &Node, to: &Node, id: u64, offer: &Offer) -> (Stream, u64) {
    let mut stream = from.open(to.name(), PORT).await.expect("opened");
    let mut head = Vec::new();
    offer.emit(TransferId(id), &mut head);
    stream.write_all(&head).await.expect("written");
    let has = timeout(PATIENCE, stream.read_u64()).await.expect("in time").expect("said");
    (stream, has)
}

/// Writes so much that the receiver has all up to `until`.
async fn write(stream: &mut Stream, bytes: &[u8], until: usize) {
    stream.write_all(bytes).await.expect("written");
    while stream.read_u64().await.expect("said") < until as u64 {}
}

/// A receiver that is gone and has the first 400 of 1000 bytes from `from`.
async fn broken_at_400(from: &Node, to: &Node, disk: &Disk) {
    let (bytes, offered) = file("first");
    let receiving = receive(to, disk).await;
    let (mut stream, has) = offer(from, to, 1, &offered).await;
    assert_eq!(has, 0);
    write(&mut stream, &bytes[..400], 400).await;
    stream.reset(CancelReason::Stopped.code());
    let stopped = TransferError::EndedByPeer(CancelReason::Stopped);
    assert_eq!(report(receiving).await.expect_err("stopped"), stopped);
}

#[tokio::test]
async fn both_ends_begin_anew_and_only_what_is_missing_is_sent() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let disk = Disk::default();
    broken_at_400(&a, &b, &disk).await;
    let receiving = receive(&b, &disk).await;
    let (bytes, offer) = file("another name");
    let sent = timeout(PATIENCE, a.send_file(b.name(), bytes.clone(), offer, |_| ())).await;
    let sent = sent.expect("in time").expect("sent");
    assert_eq!((sent.resumed_from, sent.sent, sent.restarts), (400, 600, 0));
    let received = report(receiving).await.expect("received");
    assert_eq!((received.resumed_from, received.file_name.as_str()), (400, "another name"));
    let kept = disk.0.lock().expect("no panic");
    assert!(kept.bytes == bytes, "the very same bytes");
    assert_eq!(kept.finished, 1);
}

#[tokio::test]
async fn what_is_no_good_is_thrown_away_once_and_all_of_it_comes_again() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let disk = Disk::default();
    broken_at_400(&a, &b, &disk).await;
    disk.0.lock().expect("no panic").bytes[7] ^= 1;
    let receiving = receive(&b, &disk).await;
    let (bytes, offer) = file("first");
    let sent = timeout(PATIENCE, a.send_file(b.name(), bytes.clone(), offer, |_| ())).await;
    let sent = sent.expect("in time").expect("sent");
    assert_eq!((sent.resumed_from, sent.sent, sent.restarts), (0, 600 + 1000, 1));
    assert_eq!(report(receiving).await.expect("received").resumed_from, 0);
    assert!(disk.0.lock().expect("no panic").bytes == bytes, "the very same bytes");

    // The sender's file is another one than it says: no second time.
    disk.0.lock().expect("no panic").settled = 400;
    let receiving = receive(&b, &disk).await;
    let (_, offer) = file("first");
    let sent = timeout(PATIENCE, a.send_file(b.name(), vec![9; 1000], offer, |_| ())).await;
    assert_eq!(sent.expect("in time").expect_err("not the file"), TransferError::Corrupt);
    assert_eq!(report(receiving).await.expect_err("not the file"), TransferError::Corrupt);
    assert_eq!(disk.0.lock().expect("no panic").settled, 0, "nothing of it is kept");
}

#[tokio::test]
async fn a_sender_that_began_anew_goes_on_with_what_is_under_way() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let disk = Disk::default();
    let receiving = receive(&b, &disk).await;
    let (bytes, first) = file("before");
    let (mut dead, has) = offer(&a, &b, 1, &first).await;
    assert_eq!(has, 0);
    write(&mut dead, &bytes[..400], 400).await;
    // Nobody else waits for a file: it is the same one, once its stream is still.
    let (_, again) = file("after");
    let (mut stream, has) = offer(&a, &b, 2, &again).await;
    assert_eq!(has, 400);
    stream.write_all(&bytes[400..]).await.expect("written");
    assert_eq!(report(receiving).await.expect("received").file_name, "after");
    assert!(disk.0.lock().expect("no panic").bytes == bytes, "the very same bytes");
}

#[tokio::test]
async fn one_content_twice_at_a_time_is_two_files() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let (one, two) = (Disk::default(), Disk::default());
    let first = receive(&b, &one).await;
    let (bytes, offered) = file("twice");
    let (mut stream, _) = offer(&a, &b, 1, &offered).await;
    let second = receive(&b, &two).await;
    let slowly = async {
        for part in bytes.chunks(50) {
            stream.write_all(part).await.expect("written");
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    let beside = a.send_file(b.name(), bytes.clone(), offered.clone(), |_| ());
    let both = timeout(PATIENCE, async { tokio::join!(beside, slowly).0 });
    let sent = both.await.expect("in time").expect("sent");
    assert_eq!((sent.resumed_from, sent.sent), (0, 1000));
    for (receiving, disk) in [(first, one), (second, two)] {
        report(receiving).await.expect("received");
        assert!(disk.0.lock().expect("no panic").bytes == bytes, "the very same bytes");
    }
}

#[tokio::test]
async fn nobody_goes_on_with_what_another_one_sends() {
    let relay = Relay::start(Behaviour::default());
    let (a, b, c) = (join(&relay).await, join(&relay).await, join(&relay).await);
    let _first = receive(&b, &Disk::default()).await;
    let (bytes, offered) = file("secret");
    let (mut stream, _) = offer(&a, &b, 1, &offered).await;
    write(&mut stream, &bytes[..400], 400).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    // He knows what it is, and even the number of the transfer.
    let _second = receive(&b, &Disk::default()).await;
    assert_eq!(offer(&c, &b, 1, &offered).await.1, 0, "he is told nothing of it");
    // Whoever began it goes on with it.
    assert_eq!(offer(&a, &b, 2, &offered).await.1, 400);
}

#[tokio::test]
async fn a_disk_that_was_full_keeps_what_it_has() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let disk = Disk::default();
    disk.0.lock().expect("no panic").room = Some(600);
    let receiving = receive(&b, &disk).await;
    let (bytes, offered) = file("large");
    let (mut stream, _) = offer(&a, &b, 1, &offered).await;
    write(&mut stream, &bytes[..500], 500).await;
    stream.write_all(&bytes[500..]).await.expect("written");
    let full = TransferError::Write(io::ErrorKind::StorageFull);
    assert_eq!(report(receiving).await.expect_err("no room"), full);
    disk.0.lock().expect("no panic").room = None;
    let receiving = receive(&b, &disk).await;
    let sent = timeout(PATIENCE, a.send_file(b.name(), bytes.clone(), offered, |_| ())).await;
    assert_eq!(sent.expect("in time").expect("sent").sent, 500);
    assert_eq!(report(receiving).await.expect("received").resumed_from, 500);
    assert!(disk.0.lock().expect("no panic").bytes == bytes, "the very same bytes");
}

/// A frame of these bytes.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    emit_frame_head(bytes.len() as u32, &mut framed);
    framed.extend_from_slice(bytes);
    framed
}

#[tokio::test]
async fn what_has_no_end_yet_goes_on_by_another_stream() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let disk = Disk::default();
    let receiving = receive(&b, &disk).await;
    let name = FileName::new("log").expect("a fit name");
    let endless = Offer { kind: Kind::Endless, length: 0, sha256: [7; 32], name };
    let (mut first, has) = offer(&a, &b, 1, &endless).await;
    assert_eq!(has, 0);
    // It breaks in the middle of a frame, and the next begins with one of its own.
    write(&mut first, &frame(b"before and")[..10], 6).await;
    let (mut second, has) = offer(&a, &b, 1, &endless).await;
    assert_eq!(has, 6);
    second.write_all(&frame(b" after")).await.expect("written");
    let mut end = Vec::new();
    let whole = sha256_of(&mut &b"before after"[..], 12).expect("memory can be read");
    emit_end(&whole, &mut end);
    second.write_all(&end).await.expect("written");
    let said = async {
        loop {
            let said = second.read_u64().await.expect("said");
            if said & ENDED != 0 {
                break (said - ENDED, second.read_u8().await.expect("judged"));
            }
        }
    };
    assert_eq!(timeout(PATIENCE, said).await.expect("in time"), (12, 0));
    let received = report(receiving).await.expect("received");
    assert_eq!((received.bytes, received.sha256), (12, whole));
    assert_eq!(disk.0.lock().expect("no panic").bytes, b"before after");
}

#[tokio::test]
async fn what_was_read_once_is_sent_again_as_far_as_it_has_not_arrived() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let mut listener = b.listen(PORT, Admits::Everybody).expect("a free port");
    // Takes an offer, says how much it has, and reads so much.
    let mut takes = async |has: u64, len: usize| {
        let mut stream = listener.accept().await.expect("a stream");
        let mut head = [0; Offer::HEAD_LEN + 3];
        stream.read_exact(&mut head).await.expect("an offer");
        stream.write_u64(has).await.expect("written");
        let mut bytes = vec![0; len];
        stream.read_exact(&mut bytes).await.expect("so much");
        (stream, bytes)
    };
    let answering = async {
        let (mut stream, bytes) = takes(0, 10).await;
        assert_eq!(bytes, frame(b"piped!"));
        stream.write_u64(4).await.expect("written");
        // It has said so before it ends it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        stream.reset(CancelReason::Busy.code());
        let (stream, bytes) = takes(4, 6).await;
        assert_eq!(bytes, frame(b"d!"));
        stream.reset(CancelReason::Busy.code());
        // Here is one that began anew.
        let _stream = takes(0, 0).await;
        std::future::pending::<()>().await;
    };
    let (mut pipe, source) = tokio::io::duplex(1 << 10);
    pipe.write_all(b"piped!").await.expect("taken");
    let name = FileName::new("log").expect("a fit name");
    let sending = a.send_endless(b.name(), source, name, |_| ());
    let sent = timeout(PATIENCE, async {
        tokio::select! {
            sent = sending => sent,
            () = answering => unreachable!("it waits"),
        }
    });
    let sent = sent.await.expect("in time").expect_err("it cannot be read again");
    assert_eq!(sent, TransferError::NotKept);
}
