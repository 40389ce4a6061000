//! Folders that go file by file: only what the receiver lacks is sent, each file is compared with
//! what the list says of it, a list that makes no sense ends it before anything is written, and a
//! receiver of an earlier version gets the folder as one file.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rhumb_node::transfer::{Offered, PORT, TransferError, WriteAt, sha256_of};
use rhumb_node::{Admits, Config, Node, ReceiveReport, Stream};
use rhumb_trust::Identity;
use rhumb_wire::Role;
use rhumb_wire::folder::{Entry, EntryKind, FileSpan, Listing};
use rhumb_wire::held::Held;
use rhumb_wire::transfer::{CancelReason, FileName, Kind, Offer, TransferId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

/// A disk with one folder on its way in, which outlives whoever writes to it.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    held: Option<Held>,
    /// How much counts, as it was told last.
    settled: u64,
    finished: u32,
}

impl Disk {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("no panic")
    }
}

impl WriteAt for Disk {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.kept().bytes.write_all_at(offset, bytes)
    }

    fn recall_files(
        &mut self,
        files: &[FileSpan],
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<Held>> {
        let kept = self.kept();
        if let Some(held) = &kept.held
            && let Some(missing) = held.missing(files)
        {
            see(&kept.bytes[(missing.at - held.there()) as usize..missing.at as usize]);
        }
        Ok(kept.held.clone())
    }

    fn settle_files(&mut self, length: u64, held: &Held, _: &[u8; 32]) -> io::Result<()> {
        let mut kept = self.kept();
        (kept.settled, kept.held) = (length, Some(held.clone()));
        Ok(())
    }

    fn finish(&mut self, _: &FileName) -> io::Result<()> {
        self.kept().finished += 1;
        Ok(())
    }
}

/// A folder of three files and an empty one: its content, its offer, and where its files are.
struct Folder {
    content: Vec<u8>,
    head_len: usize,
    offer: Offer,
    files: Vec<FileSpan>,
}

fn folder() -> Folder {
    let content = [("a", vec![1; 1000]), ("b", Vec::new()), ("c", vec![3; 700]), ("d", vec![4; 9])];
    let entry = |(path, bytes): &(&str, Vec<u8>)| {
        let length = bytes.len() as u64;
        let sha256 = Some(sha256_of(&mut &bytes[..], length).expect("memory can be read"));
        let kind = EntryKind::File { length, is_executable: false, sha256 };
        Entry { path: (*path).to_owned(), kind }
    };
    let listing = Listing::new(content.iter().map(entry).collect()).expect("a fit list");
    let head = listing.emit();
    let name = FileName::new("folder").expect("a fit name");
    let sha256 = sha256_of(&mut &head[..], head.len() as u64).expect("memory can be read");
    let offer = Offer { kind: Kind::FileByFile, length: listing.content_len(), sha256, name };
    let files = listing.spans().expect("they have hashes");
    let head_len = head.len();
    let content = head.into_iter().chain(content.into_iter().flat_map(|it| it.1)).collect();
    Folder { content, head_len, offer, files }
}

async fn join(relay: &Relay) -> Node {
    let identity = Arc::new(Identity::generate(Role::Node, 1).expect("a key"));
    Node::join(identity, Config::new(relay.address)).await.expect("the relay takes everybody")
}

type Receiving = JoinHandle<Result<ReceiveReport, TransferError>>;

async fn receive(node: &Node, disk: &Disk) -> Receiving {
    let (node, disk) = (node.clone(), disk.clone());
    let open = move |_: &Offered| Ok(disk.clone());
    let receiving = tokio::spawn(async move { node.receive_file(open, |_| ()).await });
    // It waits for a file from then on.
    tokio::task::yield_now().await;
    receiving
}

async fn report(receiving: Receiving) -> Result<ReceiveReport, TransferError> {
    timeout(PATIENCE, receiving).await.expect("in time").expect("no panic")
}

/// Offers a folder by hand, and says how much of it the receiver has.
async fn offer(from: &Node, to: &Node, offer: &Offer) -> (Stream, u64) {
    let mut stream = from.open(to.name(), PORT).await.expect("opened");
    let mut head = Vec::new();
    offer.emit(TransferId(1), &mut head);
    stream.write_all(&head).await.expect("written");
    let has = timeout(PATIENCE, stream.read_u64()).await.expect("in time").expect("said");
    (stream, has)
}

#[tokio::test]
async fn only_files_that_the_receiver_lacks_are_sent() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let Folder { content, head_len, offer, files } = folder();
    let disk = Disk::default();
    // It has the first file, and a part of the third one.
    let mut held = Held::nothing(&files);
    held.add_whole(0);
    held.begin_with(2, 300);
    let upto = (files[2].at + 300) as usize;
    *disk.kept() = Kept { bytes: content[..upto].to_vec(), held: Some(held), ..Kept::default() };
    let receiving = receive(&b, &disk).await;
    let sent = timeout(PATIENCE, a.send_file(b.name(), content.clone(), offer, |_| ())).await;
    let sent = sent.expect("in time").expect("sent");
    assert_eq!((sent.resumed_from, sent.restarts), (1300, 0));
    assert_eq!(sent.sent, head_len as u64 + 400 + 9, "the list, and what is missing");
    let received = report(receiving).await.expect("received");
    assert_eq!((received.resumed_from, received.bytes), (1300, content.len() as u64));
    assert!(disk.kept().bytes == content, "the very same bytes");
    assert_eq!(disk.kept().finished, 1);
    // All of it is there by now.
    let receiving = receive(&b, &disk).await;
    let Folder { offer, .. } = folder();
    disk.kept().held.as_mut().expect("settled").add_whole(2);
    disk.kept().held.as_mut().expect("settled").add_whole(3);
    let sent = timeout(PATIENCE, a.send_file(b.name(), content, offer, |_| ())).await;
    assert_eq!(sent.expect("in time").expect("sent").sent, head_len as u64, "nothing but the list");
    report(receiving).await.expect("received");
}

#[tokio::test]
async fn a_file_that_is_another_one_than_its_list_says_ends_it_and_the_others_stay() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let Folder { mut content, head_len, offer, files } = folder();
    let disk = Disk::default();
    let receiving = receive(&b, &disk).await;
    content[files[2].at as usize] ^= 1;
    let sent = timeout(PATIENCE, a.send_file(b.name(), content, offer, |_| ())).await;
    assert_eq!(sent.expect("in time").expect_err("not the file"), TransferError::Corrupt);
    assert_eq!(report(receiving).await.expect_err("not the file"), TransferError::Corrupt);
    let kept = disk.kept();
    let held = kept.held.as_ref().expect("settled");
    assert_eq!([0, 1, 2, 3].map(|it| held.is_whole(it)), [true, true, false, false]);
    assert_eq!((kept.settled, kept.finished), (head_len as u64 + 1000, 0));
}

#[tokio::test]
async fn what_is_no_good_of_a_file_is_thrown_away_once_and_that_file_comes_again() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let Folder { content, head_len, offer, files } = folder();
    let disk = Disk::default();
    let mut held = Held::nothing(&files);
    held.add_whole(0);
    held.begin_with(2, 300);
    let mut bytes = content[..(files[2].at + 300) as usize].to_vec();
    bytes[files[2].at as usize] ^= 1;
    *disk.kept() = Kept { bytes, held: Some(held), ..Kept::default() };
    let receiving = receive(&b, &disk).await;
    let sent = timeout(PATIENCE, a.send_file(b.name(), content.clone(), offer, |_| ())).await;
    let sent = sent.expect("in time").expect("sent");
    assert_eq!((sent.resumed_from, sent.restarts), (1000, 1));
    let most = head_len as u64 + 400 + 9 + 700 + 9;
    assert!((head_len as u64 + 400 + 700 + 9..=most).contains(&sent.sent), "{sent:?}");
    assert_eq!(report(receiving).await.expect("received").resumed_from, 1000);
    assert!(disk.kept().bytes == content, "the very same bytes");
}

#[tokio::test]
async fn a_stream_that_breaks_is_followed_by_one_without_the_list() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let Folder { content, head_len, offer: offered, files } = folder();
    let disk = Disk::default();
    let receiving = receive(&b, &disk).await;
    let (mut first, has) = offer(&a, &b, &offered).await;
    assert_eq!(has, 0);
    first.write_all(&content[..head_len]).await.expect("written");
    let mut word = vec![0; 8 + Held::encoded_len(files.len())];
    first.read_exact(&mut word).await.expect("said");
    assert_eq!(Held::parse(&word[8..], &files), Ok(Held::nothing(&files)));
    first.write_all(&content[head_len..head_len + 1100]).await.expect("written");
    let until = head_len as u64 + 1100;
    while first.read_u64().await.expect("said") < until {}
    let (mut second, has) = offer(&a, &b, &offered).await;
    assert_eq!(has, until);
    let mut word = vec![0; Held::encoded_len(files.len())];
    second.read_exact(&mut word).await.expect("said");
    let mut held = Held::nothing(&files);
    held.add_whole(0);
    held.begin_with(2, 100);
    assert_eq!(Held::parse(&word, &files), Ok(held));
    second.write_all(&content[until as usize..]).await.expect("written");
    assert_eq!(report(receiving).await.expect("received").bytes, content.len() as u64);
    assert!(disk.kept().bytes == content, "the very same bytes");
}

#[tokio::test]
async fn a_list_that_is_not_what_was_offered_is_nonsense_before_anything_is_written() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let Folder { content, head_len, offer: offered, .. } = folder();
    let head = &content[..head_len];
    let hash_of = |head: &[u8]| sha256_of(&mut { head }, head.len() as u64).expect("memory");
    let by_hash = |head: &[u8]| (head.to_vec(), Offer { sha256: hash_of(head), ..offered.clone() });
    let out = [&head[..15], b"/", &head[16..]].concat();
    let plain = Listing::parse(&head[4..]).expect("a list").without_hashes().emit();
    let long = Offer { length: u64::from(u32::MAX), ..offered.clone() };
    for (what, (list, offer_of_it)) in [
        (
            "another list than was offered",
            ([&head[..5], &[9], &head[6..]].concat(), offered.clone()),
        ),
        ("a path that leads out", by_hash(&out)),
        ("no hashes", by_hash(&plain)),
        (
            "another length",
            (head.to_vec(), Offer { length: offered.length + 1, ..offered.clone() }),
        ),
        ("more than there is", (u32::MAX.to_be_bytes().to_vec(), offered.clone())),
        ("more than a list may have", (((1_u32 << 24) + 1).to_be_bytes().to_vec(), long)),
        ("more than the list", ([head, b"more"].concat(), offered.clone())),
    ] {
        let disk = Disk::default();
        let receiving = receive(&b, &disk).await;
        let (mut stream, has) = offer(&a, &b, &offer_of_it).await;
        assert_eq!(has, 0);
        stream.write_all(&list).await.expect("written");
        let ended = timeout(PATIENCE, stream.read_u64()).await.expect("in time");
        let error = TransferError::from(ended.expect_err(what));
        assert_eq!(error, TransferError::EndedByPeer(CancelReason::Nonsense), "{what}");
        report(receiving).await.expect_err(what);
        assert!(disk.kept().bytes.is_empty(), "{what}");
    }
}

#[tokio::test]
async fn a_receiver_of_an_earlier_version_gets_the_folder_as_one_file() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let Folder { content, head_len, offer, .. } = folder();
    let mut listener = b.listen(PORT, Admits::Everybody).expect("a free port");
    let receiving = tokio::spawn(async move {
        let mut accepted = async || {
            let mut stream = listener.accept().await.expect("a stream");
            let mut head = vec![0; Offer::HEAD_LEN + 6];
            stream.read_exact(&mut head).await.expect("an offer");
            (stream, Offer::parse(&head).expect("an offer").1)
        };
        // It knows no such kind, and says what it says of what is no offer.
        let (stream, offered) = accepted().await;
        assert_eq!(offered.kind, Kind::FileByFile);
        stream.reset(CancelReason::Nonsense.code());
        let (mut stream, offered) = accepted().await;
        stream.write_u64(0).await.expect("written");
        let mut bytes = vec![0; offered.length as usize];
        stream.read_exact(&mut bytes).await.expect("all of it");
        stream.write_u64(offered.length).await.expect("written");
        stream.write_u8(0).await.expect("written");
        stream.deliver().await.expect("heard");
        (offered, bytes)
    });
    let sent = timeout(PATIENCE, a.send_file(b.name(), content.clone(), offer, |_| ())).await;
    let sent = sent.expect("in time").expect("sent");
    let (offered, bytes) = timeout(PATIENCE, receiving).await.expect("in time").expect("no panic");
    assert_eq!(offered.kind, Kind::Folder);
    let listing = Listing::parse(&content[4..head_len]).expect("a list").without_hashes();
    assert!(bytes == [&listing.emit(), &content[head_len..]].concat(), "what it has always taken");
    let sha256 = sha256_of(&mut &bytes[..], offered.length).expect("memory can be read");
    assert_eq!((sent.sha256, sent.bytes, offered.sha256), (sha256, offered.length, sha256));
}
