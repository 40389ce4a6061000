//! Wrong bytes, failing storage and a lying peer end a transfer
//! with the right reason, or do nothing at all.

use std::io;
use std::time::Instant;

use super::one_end::{accept, ack, chunk, offer_of, receiver_of, sender_of};
use super::pair::{End, Fate, ID, MS, Pair, Path, failed, file};
use rhumb_node::transfer::{Event, ReadAt, Sender, SenderConfig, TransferError, WriteAt};
use rhumb_wire::transfer::{CancelReason, Message, MessageBody, Verdict};

/// Storage with a fault.
#[derive(Debug, Clone, Default)]
struct Faulty {
    bytes: Vec<u8>,
    writes: u32,
    flip_in_write: Option<u32>,
    full_at: Option<u64>,
    unreadable: bool,
    unreadable_from: Option<u64>,
}

impl ReadAt for Faulty {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.unreadable || self.unreadable_from.is_some_and(|from| offset >= from) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes.read_exact_at(offset, buffer)
    }
}

impl WriteAt for Faulty {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.full_at.is_some_and(|end| offset >= end) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.write_all_at(offset, bytes)?;
        self.writes += 1;
        if self.flip_in_write == Some(self.writes) {
            self.bytes[offset as usize] ^= 1;
        }
        Ok(())
    }
}

/// The first chunk is lost once, so that those after it are written out of order and read back.
fn into_storage(storage: Faulty) -> Pair<Vec<u8>, Faulty> {
    let content = file(200_000, 1);
    let mut pair = Pair::new(content, 200_000, Path::new(MS * 5), |_| Ok(storage));
    let mut lost = false;
    pair.switch = Box::new(move |_, _, bytes| {
        let message = Message::parse(bytes).expect("only messages travel");
        let is_first = matches!(message.body, MessageBody::Chunk(chunk) if chunk.offset == 0);
        if is_first && !std::mem::replace(&mut lost, true) { Fate::Drop } else { Fate::Forward }
    });
    pair
}

#[test]
fn bytes_that_are_wrong_on_disk_are_found() {
    let report = into_storage(Faulty::default()).run();
    assert_eq!(report.receiver, Some(Event::Completed), "without a fault");
    let report = into_storage(Faulty { flip_in_write: Some(3), ..Faulty::default() }).run();
    assert_eq!(report.receiver, failed(TransferError::Corrupt));
    assert_eq!(report.sender, failed(TransferError::Corrupt));
}

#[test]
fn a_full_disk_ends_the_transfer() {
    let report = into_storage(Faulty { full_at: Some(50_000), ..Faulty::default() }).run();
    assert_eq!(report.receiver, failed(TransferError::Write(io::ErrorKind::StorageFull)));
    assert_eq!(report.sender, failed(TransferError::EndedByPeer(CancelReason::WriteFailed)));
}

#[test]
fn storage_that_cannot_be_read_back_ends_the_transfer() {
    let report = into_storage(Faulty { unreadable: true, ..Faulty::default() }).run();
    assert_eq!(report.receiver, failed(TransferError::Write(io::ErrorKind::UnexpectedEof)));
    assert_eq!(report.sender, failed(TransferError::EndedByPeer(CancelReason::WriteFailed)));
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_transfer() {
    let start = Instant::now();
    let bytes = file(200_000, 1);
    let offer = offer_of(&bytes);
    let source = Faulty { bytes, unreadable_from: Some(100_000), ..Faulty::default() };
    let mut sender = Sender::new(ID, offer, source, &SenderConfig::default(), start);
    let mut out = Vec::new();
    assert!(sender.poll_transmit(start, &mut out));
    sender.handle_message(&accept(1 << 20), start);
    let mut highest = 0;
    loop {
        out.clear();
        assert!(sender.poll_transmit(start, &mut out));
        match Message::parse(&out).unwrap().body {
            MessageBody::Chunk(chunk) => {
                highest = chunk.offset + chunk.bytes.len() as u64;
                let newest = chunk.number;
                sender.handle_message(&ack(highest, newest), start);
            }
            body => {
                assert_eq!(body, MessageBody::Cancel(CancelReason::ReadFailed));
                break;
            }
        }
    }
    assert!((98_000..102_000).contains(&highest), "{highest}");
    assert_eq!(sender.poll_event(), Some(Event::Progress { bytes: highest }));
    assert_eq!(sender.poll_event(), failed(TransferError::Read(io::ErrorKind::UnexpectedEof)));
    assert_eq!(sender.poll_event(), None);
}

#[test]
fn a_bit_that_turns_on_the_way_is_found() {
    let mut pair = Pair::in_memory(&file(50_000, 1), Path::new(MS));
    let mut count = 0;
    pair.switch = Box::new(move |_, from, bytes| {
        count += u32::from(from == End::Sender);
        if count != 20 || from != End::Sender {
            return Fate::Forward;
        }
        let mut bytes = bytes.to_vec();
        *bytes.last_mut().unwrap() ^= 0x80;
        Fate::Replace(bytes)
    });
    let report = pair.run();
    assert_eq!(report.receiver, failed(TransferError::Corrupt));
    assert_eq!(report.sender, failed(TransferError::Corrupt));
}

#[test]
fn a_chunk_never_changes_what_is_there() {
    let now = Instant::now();
    let mut receiver = receiver_of(b"0123456789", 100, now);
    receiver.handle_message(&chunk(0, 4, b"45"), now);
    receiver.handle_message(&chunk(1, 0, b"01"), now);
    // Right where bytes are missing, wrong where they are not.
    receiver.handle_message(&chunk(2, 0, b"xx23xx67"), now);
    receiver.handle_message(&chunk(3, 7, b"x89"), now);
    assert_eq!(receiver.poll_event(), Some(Event::Progress { bytes: 10 }));
    assert_eq!(receiver.poll_event(), Some(Event::Completed));
    assert_eq!(receiver.into_storage().unwrap(), b"0123456789");
}

#[test]
fn what_lies_outside_is_dropped() {
    let now = Instant::now();
    let mut receiver = receiver_of(&[7; 100], 50, now);
    receiver.handle_message(&chunk(0, 40, &[7; 10]), now);
    assert_eq!(receiver.counts().chunks, 1, "the last bytes of the window");
    receiver.handle_message(&chunk(1, 41, &[7; 10]), now);
    assert_eq!(receiver.counts().beyond_window, 1, "one beyond it");
    receiver.handle_message(&chunk(2, 91, &[7; 10]), now);
    receiver.handle_message(&chunk(3, u64::MAX - 1, &[7]), now);
    assert_eq!(receiver.counts().implausible, 2, "beyond the file");
    receiver.handle_message(&chunk(4, 42, &[9; 8]), now);
    assert_eq!(receiver.counts().duplicates, 1);
    assert!(receiver.into_storage().unwrap().len() <= 50);
}

#[test]
fn holes_are_bounded() {
    let now = Instant::now();
    let content = vec![0; 200_000];
    let mut receiver = receiver_of(&content, 200_000, now);
    for i in 0..100_000 {
        receiver.handle_message(&chunk(i, u64::from(i) * 2 + 1, &[0]), now);
    }
    assert_eq!(receiver.counts().chunks, 16 * 1024);
    assert_eq!(receiver.counts().beyond_window, 100_000 - 16 * 1024);
    // What fills a hole is still taken.
    receiver.handle_message(&chunk(100_000, 0, &[0]), now);
    assert_eq!(receiver.poll_event(), Some(Event::Progress { bytes: 2 }));
}

#[test]
fn a_lying_receiver_is_not_believed() {
    let now = Instant::now();
    let mut sender = sender_of(&file(100_000, 1), now);
    let finished = Message { id: ID, body: MessageBody::Finished(Verdict::Intact) };
    sender.handle_message(&accept(u32::MAX), now);
    assert_eq!(sender.counts().unexpected, 1, "nothing was offered yet");
    let mut out = Vec::new();
    assert!(sender.poll_transmit(now, &mut out));
    sender.handle_message(&finished, now);
    sender.handle_message(&accept(u32::MAX), now);
    while sender.poll_transmit(now, &mut out) {}
    sender.handle_message(&finished, now);
    assert_eq!(sender.counts().implausible, 2, "not all was sent");
    for (cumulative, newest) in [(99_999, 0), (u64::MAX, 0), (1, 5000), (1, u32::MAX)] {
        sender.handle_message(&ack(cumulative, newest), now);
    }
    assert_eq!(sender.counts().implausible, 6);
    assert_eq!(sender.poll_event(), None);
}
