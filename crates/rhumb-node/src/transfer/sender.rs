//! The end that has the file: a state machine that turns
//! acknowledgements, NACKs and the time into chunks.
//!
//! 1. `Offering`: the offer goes out, again and again, until the receiver accepts;
//! 2. `Sending`: lost bytes first, then new ones, as far as the congestion window and the
//!    receiver's window reach. When nothing comes back for a timeout, one chunk goes out as a
//!    probe, twice; at the next timeout everything under way is held for lost. A NACK of the path
//!    pauses all this for as long as it says. When everything has arrived and no verdict comes, the
//!    offer serves as the question;
//! 3. `Ending`: one side has spoken the last word, see [`Farewell`].
//!
//! The file is read when a chunk goes out, and never held.
//! Memory is one small record per chunk under way.

use std::ops::Range;
use std::time::{Duration, Instant};

use rhumb_wire::nack::Reason;
use rhumb_wire::payload::PayloadHeader;
use rhumb_wire::transfer::{
    Ack, CancelReason, Chunk, Message, MessageBody, Offer, TransferId, Verdict,
};

use super::congestion::Congestion;
use super::farewell::{Farewell, LastWord};
use super::pacer::{Pace, Pacer};
use super::round_trip::RoundTrip;
use super::scoreboard::Scoreboard;
use super::storage::ReadAt;
use super::{DEFAULT_PATIENCE, Event, MIN_BODY_LEN, TransferError};

/// What a sender may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderConfig {
    /// Bytes of the longest message the path is believed to carry, at least [`MIN_BODY_LEN`].
    pub max_body_len: usize,
    /// How long to go on without progress.
    pub patience: Duration,
}

impl Default for SenderConfig {
    /// For a path that carries datagrams of 1280 bytes, as every path of IPv6 does: less 48 of IPv6
    /// and UDP, 28 of a record, 76 of a PDU and 4 of a payload.
    fn default() -> Self {
        Self { max_body_len: 1280 - 48 - 28 - 76 - PayloadHeader::LEN, patience: DEFAULT_PATIENCE }
    }
}

/// What a sender has sent, and what it has dropped of what came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Messages sent.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Chunks among them whose bytes had been sent before.
    pub repeated_chunks: u64,
    /// Times that nothing came back in time.
    pub timeouts: u64,
    /// NACKs of the path.
    pub nacks: u64,
    /// Dropped: messages of another transfer.
    pub foreign: u64,
    /// Dropped: messages that have no meaning now, as late ones do.
    pub unexpected: u64,
    /// Dropped: messages that speak of what was never sent.
    pub implausible: u64,
}

/// The end that has the file.
#[derive(Debug)]
pub struct Sender<R> {
    id: TransferId,
    offer: Offer,
    source: R,
    patience: Duration,
    max_body_len: usize,
    phase: Phase,
    board: Scoreboard,
    congestion: Congestion,
    round_trip: RoundTrip,
    pacer: Pacer,
    /// The pacer holds the next chunk back until then.
    held_until: Option<Instant>,
    /// The receiver takes nothing from here on.
    window_end: u64,
    pause: Pause,
    /// One chunk may go out whatever the window says.
    probe: bool,
    /// The offer is to go out as a question.
    ask: bool,
    /// A timeout counts from here.
    quiet_since: Instant,
    progress_at: Instant,
    look_for_losses_at: Option<Instant>,
    /// Bytes, from the start of the file, that have arrived; and that were told of.
    arrived_bytes: u64,
    told_bytes: u64,
    outcome: Option<Event>,
    counts: SenderCounts,
}

#[derive(Debug)]
enum Phase {
    Offering { next_at: Instant, first_at: Option<Instant>, offers: u32 },
    Sending,
    Ending(Farewell),
}

/// What the path has said.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    /// Messages refused that are not yet held for lost; all have numbers below `refused_before`.
    refused: u32,
    refused_before: u64,
    /// Pauses since the last progress.
    in_a_row: u32,
    last: Option<Reason>,
}

impl<R: ReadAt> Sender<R> {
    /// Offers the first `offer.length` bytes of `source`. `id` must be random, so that no other
    /// transfer to the same receiver has it.
    pub fn new(
        id: TransferId,
        offer: Offer,
        source: R,
        config: &SenderConfig,
        now: Instant,
    ) -> Self {
        let max_body_len = config.max_body_len.max(MIN_BODY_LEN);
        Self {
            id,
            offer,
            source,
            patience: config.patience,
            max_body_len,
            phase: Phase::Offering { next_at: now, first_at: None, offers: 0 },
            board: Scoreboard::new(),
            congestion: Congestion::new(chunk_len(max_body_len)),
            round_trip: RoundTrip::new(),
            pacer: Pacer::new(now),
            held_until: None,
            window_end: 0,
            pause: Pause::default(),
            probe: false,
            ask: false,
            quiet_since: now,
            progress_at: now,
            look_for_losses_at: None,
            arrived_bytes: 0,
            told_bytes: 0,
            outcome: None,
            counts: SenderCounts::default(),
        }
    }

    /// Offers the same file once more, as another transfer: to
    /// a receiver that knows nothing of this one.
    #[must_use]
    pub fn begin_again(self, id: TransferId, now: Instant) -> Self {
        let config = SenderConfig { max_body_len: self.max_body_len, patience: self.patience };
        Self::new(id, self.offer, self.source, &config, now)
    }

    /// What was sent and dropped so far.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// The estimate of the path's round-trip time, acknowledgement included.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.smoothed()
    }

    /// Whether nothing is left to send or to wait for.
    pub fn is_closed(&self) -> bool {
        matches!(&self.phase, Phase::Ending(farewell) if farewell.is_over())
    }

    /// Takes a message of the receiver.
    pub fn handle_message(&mut self, message: &Message<'_>, now: Instant) {
        if message.id != self.id {
            self.counts.foreign += 1;
            return;
        }
        if let Phase::Ending(farewell) = &mut self.phase {
            farewell.handle(&message.body);
            return;
        }
        match &message.body {
            MessageBody::Accept { window } => self.handle_accept(*window, now),
            MessageBody::Ack(ack) => self.handle_ack(ack, now),
            MessageBody::Finished(verdict) => self.handle_finished(*verdict),
            MessageBody::Cancel(reason) => {
                let farewell = Farewell::repeat(LastWord::Cancel(*reason));
                self.end(farewell, Event::Failed(TransferError::EndedByPeer(*reason)));
            }
            MessageBody::Offer(_) | MessageBody::Chunk(_) => self.counts.unexpected += 1,
        }
    }

    /// Takes a NACK about one of the messages sent: waits and sends again, or cuts smaller chunks.
    pub fn handle_nack(&mut self, reason: Reason, now: Instant) {
        self.counts.nacks += 1;
        self.pause.last = Some(reason);
        if let Reason::TooBig(data_len) = reason {
            let body_len = usize::from(data_len).saturating_sub(PayloadHeader::LEN);
            self.shrink_messages(body_len.max(MIN_BODY_LEN));
            return;
        }
        let until = now + reason.retry_after().unwrap_or(REPAIR_PAUSE).max(MIN_PAUSE);
        match &mut self.phase {
            Phase::Offering { next_at, offers, .. } if *offers > 0 => *next_at = until,
            Phase::Offering { .. } | Phase::Ending(_) => {}
            Phase::Sending => {
                self.pause.in_a_row += u32::from(self.pause.until.is_none());
                self.pause.until = self.pause.until.max(Some(until));
                let (first, next) = (self.board.first_number(), self.board.next_number());
                let most = u32::try_from(next - first).unwrap_or(u32::MAX);
                self.pause.refused = (self.pause.refused + 1).min(most);
                self.pause.refused_before = next;
            }
        }
    }

    /// The path carries messages of `body_len` bytes now, as
    /// far as is known: more than before, or less.
    pub fn fit(&mut self, body_len: usize) {
        let body_len = body_len.max(MIN_BODY_LEN);
        if body_len > self.max_body_len {
            self.max_body_len = body_len;
            self.congestion.set_chunk_len(chunk_len(body_len));
        } else {
            self.shrink_messages(body_len);
        }
    }

    /// Ends the transfer because its user says so.
    pub fn cancel(&mut self, now: Instant) {
        self.give_up(CancelReason::Stopped, TransferError::Stopped, now);
    }

    /// Appends the next message to `out`, at most `max_body_len` bytes of it, or says that there is
    /// none now. Reads at most one chunk of the file.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        self.handle_timeouts(now);
        let sent = match &mut self.phase {
            Phase::Offering { next_at, .. } if now < *next_at => false,
            Phase::Offering { next_at, first_at, offers } => {
                *next_at = now + (OFFER_PAUSE * (1 << (*offers).min(3)));
                first_at.get_or_insert(now);
                *offers += 1;
                self.emit_offer(out);
                true
            }
            Phase::Sending => self.transmit_chunk(now, out) || self.transmit_question(now, out),
            Phase::Ending(_) => false,
        };
        // Not part of the match: reading the file may just have failed.
        let sent = sent || self.transmit_last_word(now, out);
        self.counts.messages += u64::from(sent);
        self.counts.bytes += (out.len() - start) as u64;
        sent
    }

    /// When to call `poll_transmit` again if nothing else happens; `None` when it is of no use.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let patience_end = self.progress_at + self.patience;
        match &self.phase {
            Phase::Offering { next_at, .. } => Some(patience_end.min(*next_at)),
            Phase::Sending => {
                let next = self.pause.until.unwrap_or_else(|| {
                    let timeout_at = self.quiet_since + self.round_trip.timeout();
                    [self.look_for_losses_at, self.held_until]
                        .into_iter()
                        .flatten()
                        .fold(timeout_at, Instant::min)
                });
                Some(patience_end.min(next))
            }
            Phase::Ending(farewell) => farewell.poll_timeout(),
        }
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        let bytes = self.arrived_bytes;
        if bytes > self.told_bytes {
            self.told_bytes = bytes;
            return Some(Event::Progress { bytes });
        }
        self.outcome.take()
    }

    // 1. Offering

    fn handle_accept(&mut self, window: u32, now: Instant) {
        self.window_end =
            self.window_end.max(self.board.cumulative().saturating_add(window.into()));
        let Phase::Offering { first_at, offers, .. } = &self.phase else { return };
        let Some(first_at) = *first_at else {
            self.counts.unexpected += 1;
            return;
        };
        if *offers == 1 {
            self.round_trip.sample(now.saturating_duration_since(first_at));
        }
        self.phase = Phase::Sending;
        self.progressed(now);
    }

    fn emit_offer(&self, out: &mut Vec<u8>) {
        Message { id: self.id, body: MessageBody::Offer(self.offer.clone()) }.emit(out);
    }

    // 2. Sending

    fn handle_ack(&mut self, ack: &Ack, now: Instant) {
        let under_way = self.board.under_way_bytes();
        if !matches!(self.phase, Phase::Sending) {
            self.counts.unexpected += 1;
            return;
        }
        let Some(arrival) = self.board.acknowledged(ack, now) else {
            self.counts.implausible += 1;
            return;
        };
        if ack.cumulative == self.board.cumulative() {
            self.window_end = self.window_end.max(ack.cumulative.saturating_add(ack.window.into()));
        }
        if let Some(sample) = arrival.sample {
            self.round_trip.sample(sample.round_trip);
            self.congestion.observe(sample, self.round_trip.shortest());
        }
        if arrival.was_only_late && self.round_trip.backoff() == 0 && self.pause.in_a_row == 0 {
            self.board.expect_lateness();
            self.congestion.regret();
        }
        if arrival.bytes > 0 {
            let newest = self.board.newest().unwrap_or(0);
            let round_trip = self.round_trip.smoothed();
            self.congestion.acknowledged(arrival.bytes, under_way, newest, round_trip, now);
            self.arrived_bytes = self.board.cumulative();
            self.progressed(now);
        }
        self.find_losses(now);
    }

    fn find_losses(&mut self, now: Instant) {
        let losses = self.board.find_losses(self.round_trip.current(), now);
        self.look_for_losses_at = losses.look_at;
        // What the path refused is lost, but it says nothing of how much the path carries.
        let refused = losses.chunks.min(self.pause.refused);
        self.pause.refused -= refused;
        if self.pause.refused_before <= self.board.first_number() {
            self.pause.refused = 0;
        }
        if let (Some(newest), true) = (losses.newest, losses.chunks > refused) {
            self.congestion.lost(newest, self.board.next_number());
        }
    }

    fn progressed(&mut self, now: Instant) {
        self.round_trip.progressed();
        self.progress_at = now;
        self.quiet_since = now;
        if self.pause.until.is_none() {
            self.pause.in_a_row = 0;
        }
    }

    fn shrink_messages(&mut self, body_len: usize) {
        if body_len < self.max_body_len {
            self.max_body_len = body_len;
            self.congestion.set_chunk_len(chunk_len(body_len));
            self.board.lose_longer_than(chunk_len(body_len));
        }
    }

    fn handle_timeouts(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Ending(_)) {
            return;
        }
        if self.progress_at + self.patience <= now {
            let error =
                TransferError::NoProgress { after: self.patience, last_nack: self.pause.last };
            self.give_up(CancelReason::TimedOut, error, now);
            return;
        }
        if !matches!(self.phase, Phase::Sending) {
            return;
        }
        if let Some(until) = self.pause.until {
            if until <= now {
                self.resume(now);
            }
            return;
        }
        if self.look_for_losses_at.is_some_and(|at| at <= now) {
            self.find_losses(now);
        }
        if self.quiet_since + self.round_trip.timeout() <= now {
            self.handle_silence(now);
        }
    }

    /// The time is over that the path asked for. What it refused is among what is still under way:
    /// where the answer is overdue it is sent again at once, and otherwise something else goes in
    /// its stead until losses show what it was.
    fn resume(&mut self, now: Instant) {
        let round_trip = self.round_trip.current();
        self.pause.refused -= self.board.lose_overdue(self.pause.refused, round_trip, now);
        self.pause.until = None;
        self.quiet_since = now;
        if self.pause.in_a_row > FREE_PAUSES {
            self.congestion.timed_out(self.board.next_number());
        }
    }

    fn handle_silence(&mut self, now: Instant) {
        self.counts.timeouts += 1;
        self.quiet_since = now;
        self.round_trip.timed_out();
        if self.board.under_way_bytes() == 0 {
            self.ask = true;
        } else if self.round_trip.backoff() <= PROBES {
            self.board.lose_oldest(1);
            self.probe = true;
        } else {
            self.board.lose_all();
            self.congestion.timed_out(self.board.next_number());
        }
    }

    fn transmit_chunk(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let first_new = self.board.sent_until();
        let Some(range) = self.next_range(now) else { return false };
        let start = out.len();
        let len = (range.end - range.start) as usize;
        let chunk = Chunk {
            number: self.board.next_number() as u32,
            ack_every: self.ack_every(),
            offset: range.start,
            bytes: &[],
        };
        chunk.emit_header(self.id, len, out);
        let header_end = out.len();
        out.resize(header_end + len, 0);
        if let Err(error) = self.source.read_exact_at(range.start, &mut out[header_end..]) {
            out.truncate(start);
            self.give_up(CancelReason::ReadFailed, TransferError::Read(error.kind()), now);
            return false;
        }
        self.counts.repeated_chunks += u64::from(range.start < first_new);
        self.probe = false;
        self.quiet_since = now;
        self.pacer.sent(len as u64);
        self.board.sent(range, now);
        true
    }

    /// What goes out next, if the path, the windows and the pacer let it.
    fn next_range(&mut self, now: Instant) -> Option<Range<u64>> {
        let len = chunk_len(self.max_body_len);
        let new = self.next_new_range(len);
        let refused = u64::from(self.pause.refused) * len;
        let under_way = self.board.under_way_bytes().saturating_sub(refused);
        let has_room = under_way + len <= self.congestion.window();
        self.held_until = None;
        if self.pause.until.is_some()
            || !(has_room || self.probe)
            || !(self.board.has_lost() || new.is_some())
        {
            return None;
        }
        let pace = Pace {
            window: self.congestion.window(),
            round_trip: self.round_trip.smoothed(),
            is_slow_start: self.congestion.is_slow_start(),
            chunk_len: len,
        };
        match self.pacer.poll(pace, now) {
            Err(until) if !self.probe => {
                self.held_until = Some(until);
                None
            }
            _ => self.board.take_lost(len).or(new),
        }
    }

    fn next_new_range(&self, len: u64) -> Option<Range<u64>> {
        let start = self.board.sent_until();
        let end = start.saturating_add(len).min(self.offer.length).min(self.window_end);
        // A chunk cut short by the receiver's window would cost as much
        // as a long one, and soon the window moves.
        let is_whole = end == self.offer.length || start.saturating_add(len) == end;
        (start < end && (is_whole || self.board.under_way_bytes() == 0)).then_some(start..end)
    }

    fn transmit_question(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.ask) {
            return false;
        }
        self.quiet_since = now;
        self.emit_offer(out);
        true
    }

    /// A quarter of the window, so that acknowledgements keep it
    /// moving, within what RFC 5681 and offload suggest.
    fn ack_every(&self) -> u8 {
        let chunks = self.congestion.window() / chunk_len(self.max_body_len);
        (chunks / 4).clamp(2, MAX_ACK_EVERY.into()) as u8
    }

    // 3. Ending

    fn handle_finished(&mut self, verdict: Verdict) {
        if self.board.sent_until() < self.offer.length {
            self.counts.implausible += 1;
            return;
        }
        self.arrived_bytes = self.offer.length;
        let outcome = match verdict {
            Verdict::Intact => Event::Completed,
            Verdict::Corrupt => Event::Failed(TransferError::Corrupt),
        };
        self.end(Farewell::repeat(LastWord::Finished(verdict)), outcome);
    }

    fn give_up(&mut self, reason: CancelReason, error: TransferError, now: Instant) {
        if !matches!(self.phase, Phase::Ending(_)) {
            self.end(Farewell::say(LastWord::Cancel(reason), now), Event::Failed(error));
        }
    }

    fn end(&mut self, farewell: Farewell, outcome: Event) {
        self.phase = Phase::Ending(farewell);
        self.outcome = Some(outcome);
    }

    fn transmit_last_word(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Phase::Ending(farewell) = &mut self.phase else { return false };
        let Some(word) = farewell.poll_transmit(now) else { return false };
        Message { id: self.id, body: word.body() }.emit(out);
        true
    }
}

fn chunk_len(max_body_len: usize) -> u64 {
    (max_body_len - Message::CHUNK_OVERHEAD) as u64
}

/// Doubled three times at most: 2 s.
const OFFER_PAUSE: Duration = Duration::from_millis(250);
/// For a NACK that names no time: as long as it takes to advertise a name again.
const REPAIR_PAUSE: Duration = Duration::from_millis(100);
/// A NACK that asks for no time at all does not make a busy loop.
const MIN_PAUSE: Duration = Duration::from_millis(1);
/// A path that looks up a route, or hiccups, refuses once
/// or twice; one that goes on refusing is full.
const FREE_PAUSES: u32 = 3;
/// As many timeouts may come of one datagram lost here and
/// there, and so are no reason to hold all for lost.
const PROBES: u32 = 2;
/// Acknowledgements are then a thousandth of the traffic, and a burst that one sets free is still
/// shorter than what a socket holds.
const MAX_ACK_EVERY: u8 = 16;
