//! The end that gets the file: writes chunks where they belong,
//! says what has arrived, and judges the whole.
//!
//! 1. `Receiving`: every byte is written once, on arrival. It is hashed on arrival where it is the
//!    next one; where it came out of order it is read back later, a bounded piece with every call;
//! 2. `Ending`: all bytes are there and hashed, or the transfer was ended, see [`Farewell`].
//!
//! Memory is a bounded number of ranges; what would exceed it, or
//! the window, is dropped and will be sent again.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use rhumb_wire::nack::Reason;
use rhumb_wire::transfer::{
    Ack, CancelReason, Chunk, Message, MessageBody, Offer, TransferId, Verdict,
};

use super::farewell::{Farewell, LastWord};
use super::range_set::RangeSet;
use super::round_trip::MAX_ACK_DELAY;
use super::storage::{REREAD_LEN, WriteAt, finish};
use super::{DEFAULT_PATIENCE, Event, TransferError};

/// What a receiver takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Bytes of the largest file.
    pub max_length: u64,
    /// How far beyond the first missing byte the sender may go. This much may have
    /// to be read back, nothing is held in memory.
    pub window: u32,
    /// How long to wait for a sender that is silent.
    pub patience: Duration,
}

impl Default for ReceiverConfig {
    /// Any file. The window is that of 1 Gbit/s over 250 ms, or of 10 Gbit/s over 25 ms.
    fn default() -> Self {
        Self { max_length: u64::MAX, window: 32 << 20, patience: DEFAULT_PATIENCE }
    }
}

/// What a receiver has taken and dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverCounts {
    /// Chunks that brought something new.
    pub chunks: u64,
    /// Messages sent.
    pub messages: u64,
    /// Dropped: chunks that brought nothing new.
    pub duplicates: u64,
    /// Dropped: chunks beyond the window, or one hole too many.
    pub beyond_window: u64,
    /// Dropped: messages of another transfer.
    pub foreign: u64,
    /// Dropped: messages that a sender does not send.
    pub unexpected: u64,
    /// Dropped: chunks beyond the end of the file, offers that differ from the one taken.
    pub implausible: u64,
}

/// The end that gets the file.
#[derive(Debug)]
pub struct Receiver<W> {
    id: TransferId,
    offer: Offer,
    window: u32,
    patience: Duration,
    phase: Phase<W>,
    /// Every byte before this has arrived.
    cumulative: u64,
    acknowledgement: Acknowledgement,
    heard_at: Instant,
    last_nack: Option<Reason>,
    told_bytes: u64,
    outcome: Option<Event>,
    counts: ReceiverCounts,
}

#[derive(Debug)]
enum Phase<W> {
    Receiving(Box<Incoming<W>>),
    Ending(Farewell, Option<W>),
}

/// The file as far as it is there.
#[derive(Debug)]
struct Incoming<W> {
    sink: W,
    /// What has arrived beyond the cumulative offset.
    beyond: RangeSet,
    /// Every byte before this is hashed.
    hashed: u64,
    digest: Digest,
}

struct Digest(digest::Context);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Disorder {
    #[default]
    None,
    /// None since the last Ack.
    Before,
    SinceLastAck,
}

/// When to say what has arrived, and what of it.
#[derive(Debug, Default)]
struct Acknowledgement {
    /// The offer is to be accepted, or accepted again.
    accept: bool,
    now: bool,
    due_at: Option<Instant>,
    /// The path does not take messages before this.
    not_before: Option<Instant>,
    /// Chunks since the last Ack.
    unsaid: u8,
    /// Chunks come out of order at present.
    disorder: Disorder,
    /// The newest number that has arrived.
    newest: Option<u32>,
    /// Offsets of the last chunks beyond the cumulative offset, to
    /// say first what is new (RFC 2018, section 4).
    recent: VecDeque<u64>,
}

impl<W: WriteAt> Receiver<W> {
    /// Answers an offer. If its length is within bounds, `open` decides: it gives the storage for
    /// the file, or a reason not to take it, which the sender is told.
    pub fn new(
        id: TransferId,
        offer: Offer,
        config: &ReceiverConfig,
        now: Instant,
        open: impl FnOnce(&Offer) -> Result<W, CancelReason>,
    ) -> Self {
        let mut outcome = None;
        let mut refuse = |reason, error| {
            outcome = Some(Event::Failed(error));
            Phase::Ending(Farewell::say(LastWord::Cancel(reason), now), None)
        };
        let phase = if offer.length > config.max_length {
            let (length, limit) = (offer.length, config.max_length);
            refuse(CancelReason::TooLarge, TransferError::TooLarge { length, limit })
        } else {
            match open(&offer) {
                Ok(sink) => Phase::Receiving(Box::new(Incoming::new(sink))),
                Err(reason) => refuse(reason, TransferError::Refused(reason)),
            }
        };
        let mut receiver = Self {
            id,
            offer,
            window: config.window,
            patience: config.patience,
            phase,
            cumulative: 0,
            acknowledgement: Acknowledgement { accept: true, ..Acknowledgement::default() },
            heard_at: now,
            last_nack: None,
            told_bytes: 0,
            outcome,
            counts: ReceiverCounts::default(),
        };
        receiver.hash_and_judge(now);
        receiver
    }

    /// What was taken and dropped so far.
    pub fn counts(&self) -> ReceiverCounts {
        self.counts
    }

    /// What is being received.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Whether nothing is left to send or to wait for.
    pub fn is_closed(&self) -> bool {
        matches!(&self.phase, Phase::Ending(farewell, _) if farewell.is_over())
    }

    /// The storage, unless it was never opened.
    pub fn into_storage(self) -> Option<W> {
        match self.phase {
            Phase::Receiving(incoming) => Some(incoming.sink),
            Phase::Ending(_, sink) => sink,
        }
    }

    /// Takes a message of the sender. Writes at most the chunk it brings.
    pub fn handle_message(&mut self, message: &Message<'_>, now: Instant) {
        if message.id != self.id {
            self.counts.foreign += 1;
            return;
        }
        if let Phase::Ending(farewell, _) = &mut self.phase {
            farewell.handle(&message.body);
            return;
        }
        match &message.body {
            MessageBody::Offer(offer) => self.handle_offer(offer, now),
            MessageBody::Chunk(chunk) => self.handle_chunk(chunk, now),
            MessageBody::Cancel(reason) => {
                let farewell = Farewell::repeat(LastWord::Cancel(*reason));
                self.end(farewell, Event::Failed(TransferError::EndedByPeer(*reason)));
            }
            MessageBody::Accept { .. } | MessageBody::Ack(_) | MessageBody::Finished(_) => {
                self.counts.unexpected += 1;
            }
        }
    }

    /// Takes a NACK about one of the messages sent: says it again when the path takes it.
    pub fn handle_nack(&mut self, reason: Reason, now: Instant) {
        self.last_nack = Some(reason);
        if let Some(wait) = reason.retry_after() {
            if let Phase::Ending(farewell, _) = &mut self.phase {
                return farewell.handle_nack(wait, now);
            }
            let pending = &mut self.acknowledgement;
            pending.not_before = pending.not_before.max(Some(now + wait));
            if pending.newest.is_some() {
                pending.now = true;
            } else {
                pending.accept = true;
            }
        }
    }

    /// Ends the transfer because its user says so.
    pub fn cancel(&mut self, now: Instant) {
        self.give_up(CancelReason::Stopped, TransferError::Stopped, now);
    }

    /// Appends the next message to `out`, at most [`super::MIN_BODY_LEN`] bytes, or says that there
    /// is none now. Reads back and hashes at most 64 KiB.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.hash_and_judge(now);
        if self.heard_at + self.patience <= now {
            let error =
                TransferError::NoProgress { after: self.patience, last_nack: self.last_nack };
            self.give_up(CancelReason::TimedOut, error, now);
        }
        let body = match &mut self.phase {
            Phase::Receiving(incoming) => {
                self.acknowledgement.poll(self.cumulative, self.window, &incoming.beyond, now)
            }
            Phase::Ending(farewell, _) => farewell.poll_transmit(now).map(LastWord::body),
        };
        let Some(body) = body else { return false };
        Message { id: self.id, body }.emit(out);
        self.counts.messages += 1;
        true
    }

    /// When to call `poll_transmit` again if nothing else happens; `None` when it is of no use.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            // Nothing but hashing is left to do, so do it.
            Phase::Receiving(_) if self.cumulative == self.offer.length => Some(self.heard_at),
            Phase::Receiving(_) => {
                let patience_end = self.heard_at + self.patience;
                Some(
                    self.acknowledgement
                        .poll_timeout()
                        .map_or(patience_end, |at| at.min(patience_end)),
                )
            }
            Phase::Ending(farewell, _) => farewell.poll_timeout(),
        }
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        let bytes = self.cumulative;
        if bytes > self.told_bytes {
            self.told_bytes = bytes;
            return Some(Event::Progress { bytes });
        }
        self.outcome.take()
    }

    // 1. Receiving

    fn handle_offer(&mut self, offer: &Offer, now: Instant) {
        if *offer != self.offer {
            self.counts.implausible += 1;
            return;
        }
        self.heard_at = now;
        match self.acknowledgement.newest {
            None => self.acknowledgement.accept = true,
            Some(_) => self.acknowledgement.now = true,
        }
    }

    fn handle_chunk(&mut self, chunk: &Chunk<'_>, now: Instant) {
        let range = chunk.offset..chunk.offset + chunk.bytes.len() as u64;
        if range.end > self.offer.length {
            self.counts.implausible += 1;
            return;
        }
        self.heard_at = now;
        let Phase::Receiving(incoming) = &mut self.phase else { return };
        if incoming.is_too_far(self.cumulative, &range, self.window) {
            self.counts.beyond_window += 1;
            return;
        }
        match incoming.write(self.cumulative, &range, chunk.bytes) {
            Err(error) => {
                let error = TransferError::Write(error.kind());
                self.give_up(CancelReason::WriteFailed, error, now);
                return;
            }
            Ok(0) => {
                self.counts.duplicates += 1;
                // An Ack was lost, or the sender would not repeat itself.
                self.acknowledgement.now = true;
            }
            Ok(_) => {
                self.counts.chunks += 1;
                self.cumulative = incoming.advance(self.cumulative);
            }
        }
        self.acknowledgement.chunk_arrived(chunk, now);
        self.hash_and_judge(now);
    }

    /// Goes on hashing, and when all is hashed, ends the transfer with a verdict.
    fn hash_and_judge(&mut self, now: Instant) {
        let Phase::Receiving(incoming) = &mut self.phase else { return };
        if let Err(error) = incoming.hash_some(self.cumulative) {
            let error = TransferError::Write(error.kind());
            self.give_up(CancelReason::WriteFailed, error, now);
            return;
        }
        if incoming.hashed < self.offer.length {
            return;
        }
        let (verdict, outcome) = if incoming.digest.value() == self.offer.sha256 {
            (Verdict::Intact, Event::Completed)
        } else {
            (Verdict::Corrupt, Event::Failed(TransferError::Corrupt))
        };
        self.end(Farewell::say(LastWord::Finished(verdict), now), outcome);
    }

    // 2. Ending

    fn give_up(&mut self, reason: CancelReason, error: TransferError, now: Instant) {
        if matches!(self.phase, Phase::Receiving(_)) {
            self.end(Farewell::say(LastWord::Cancel(reason), now), Event::Failed(error));
        }
    }

    fn end(&mut self, farewell: Farewell, outcome: Event) {
        let before = std::mem::replace(&mut self.phase, Phase::Ending(farewell, None));
        if let (Phase::Receiving(incoming), Phase::Ending(_, sink)) = (before, &mut self.phase) {
            *sink = Some(incoming.sink);
        }
        self.outcome = Some(outcome);
    }
}

impl<W: WriteAt> Incoming<W> {
    fn new(sink: W) -> Self {
        let digest = Digest(digest::Context::new(&digest::SHA256));
        Self { sink, beyond: RangeSet::default(), hashed: 0, digest }
    }

    /// Whether `range` leaves the window, or would make a hole more than are kept.
    fn is_too_far(&self, cumulative: u64, range: &Range<u64>, window: u32) -> bool {
        let makes_a_hole = cumulative < range.start && !self.beyond.touches(range);
        range.end > cumulative.saturating_add(window.into())
            || (makes_a_hole && self.beyond.count() >= MAX_HOLES)
    }

    /// Writes what of `range` is not there yet, and returns how many bytes that is. What is there
    /// stays as it is: it may have been hashed.
    fn write(&mut self, cumulative: u64, range: &Range<u64>, bytes: &[u8]) -> std::io::Result<u64> {
        let mut written = 0;
        let new = range.start.max(cumulative)..range.end.max(cumulative);
        for piece in self.beyond.missing(&new) {
            let bytes =
                &bytes[(piece.start - range.start) as usize..(piece.end - range.start) as usize];
            self.sink.write_all_at(piece.start, bytes)?;
            if piece.start == self.hashed {
                self.digest.0.update(bytes);
                self.hashed = piece.end;
            }
            written += piece.end - piece.start;
            self.beyond.insert(piece);
        }
        Ok(written)
    }

    /// Moves the cumulative offset over what has arrived.
    fn advance(&mut self, cumulative: u64) -> u64 {
        match self.beyond.containing(cumulative) {
            Some(range) => {
                self.beyond.remove(&range);
                range.end
            }
            None => cumulative,
        }
    }

    /// Reads back and hashes a bounded piece of what came out of order.
    fn hash_some(&mut self, cumulative: u64) -> std::io::Result<()> {
        let len = (cumulative.saturating_sub(self.hashed)).min(REREAD_LEN as u64);
        if len > 0 {
            let mut buffer = vec![0; len as usize];
            self.sink.read_exact_at(self.hashed, &mut buffer)?;
            self.digest.0.update(&buffer);
            self.hashed += len;
        }
        Ok(())
    }
}

impl Digest {
    fn value(&self) -> [u8; 32] {
        finish(self.0.clone())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(..)")
    }
}

impl Acknowledgement {
    /// A chunk inside the window arrived. A jump in the numbers is a loss, or reordering: the
    /// sender should know soon, but where jumps are common, not of each.
    fn chunk_arrived(&mut self, chunk: &Chunk<'_>, now: Instant) {
        let expected = self.newest.map_or(chunk.number, |newest| newest.wrapping_add(1));
        let ahead = chunk.number.wrapping_sub(expected);
        if ahead <= u32::MAX / 2 {
            self.newest = Some(chunk.number);
        }
        self.recent.push_back(chunk.offset);
        if self.recent.len() > Ack::MAX_RANGES {
            self.recent.pop_front();
        }
        self.unsaid = self.unsaid.saturating_add(1);
        let (jump, calm) = (ahead != 0, self.disorder == Disorder::None);
        let every = if calm { chunk.ack_every } else { (chunk.ack_every / 4).max(2) };
        self.now |= (jump && calm) || self.unsaid >= every;
        if jump {
            self.disorder = Disorder::SinceLastAck;
        }
        self.due_at.get_or_insert(now + MAX_ACK_DELAY);
    }

    fn poll(
        &mut self,
        cumulative: u64,
        window: u32,
        beyond: &RangeSet,
        now: Instant,
    ) -> Option<MessageBody<'static>> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        if std::mem::take(&mut self.accept) {
            return Some(MessageBody::Accept { window });
        }
        let newest = self.newest?;
        if !self.now && self.due_at.is_none_or(|at| now < at) {
            return None;
        }
        (self.now, self.due_at, self.unsaid, self.not_before) = (false, None, 0, None);
        self.disorder = match self.disorder {
            Disorder::SinceLastAck => Disorder::Before,
            Disorder::Before | Disorder::None => Disorder::None,
        };
        let ranges = self.ranges(cumulative, beyond);
        Some(MessageBody::Ack(Ack { cumulative, window, newest, ranges }))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.not_before {
            Some(at) if self.accept || self.now => Some(at),
            Some(at) => self.due_at.map(|due_at| due_at.max(at)),
            None => self.due_at,
        }
    }

    /// What to report: everything if there is room, otherwise what holds
    /// the last chunks and then the first ranges.
    fn ranges(&self, cumulative: u64, beyond: &RangeSet) -> Vec<Range<u64>> {
        if beyond.count() <= Ack::MAX_RANGES {
            return beyond.iter().collect();
        }
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(Ack::MAX_RANGES);
        let recent = self.recent.iter().rev().filter(|&&offset| offset >= cumulative);
        for range in recent.filter_map(|&offset| beyond.containing(offset)).chain(beyond.iter()) {
            if ranges.len() == Ack::MAX_RANGES {
                break;
            }
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}

/// Holes kept at once: those of a full default window in which
/// every second chunk is lost, in 1.3 MB of memory.
const MAX_HOLES: usize = 16 * 1024;
