//! What the sender knows of its chunks: which are under way, which are lost, what has arrived.
//!
//! Every byte that was ever sent is in exactly one of three places: arrived, under way, or lost and
//! to be sent again. Loss is told by what arrived, not by silence (RFC 8985 and RFC 9002,
//! section 6): a transmission is lost when one three later has arrived, or when one later has
//! arrived and more than a round trip has passed. The first rule is given up for good once it has
//! been wrong, because then the path reorders.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use rhumb_wire::transfer::Ack;

use super::range_set::RangeSet;

#[derive(Debug)]
pub(super) struct Scoreboard {
    /// Every byte before this has arrived.
    cumulative: u64,
    /// The end of what was ever sent.
    sent_until: u64,
    /// By offset: what is under way. What arrives leaves,
    /// so handling an Ack costs what is new in it.
    under_way: BTreeMap<u64, UnderWay>,
    under_way_bytes: u64,
    lost: RangeSet,
    /// By number, from `first_number` on without a gap: each transmission that may matter yet.
    transmissions: VecDeque<Transmission>,
    first_number: u64,
    /// The newest transmission known to have arrived.
    newest: Option<u64>,
    /// All bytes known to have arrived.
    arrived_bytes: u64,
    /// How much later than a round trip a chunk may come
    /// before it is lost, in quarters of a round trip.
    lateness_quarters: u32,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    end: u64,
    /// Its last transmission.
    number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Transmission {
    offset: u64,
    sent_at: Instant,
    /// All bytes known to have arrived when it went out.
    arrived_bytes: u64,
}

/// What an Ack brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Bytes not known to have arrived before.
    pub bytes: u64,
    /// Taken from the newest transmission that arrived.
    pub sample: Option<Sample>,
    /// Something that was held for lost was only late.
    pub was_only_late: bool,
}

/// What one transmission, from going out to being acknowledged, shows of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub round_trip: Duration,
    /// Bytes that were acknowledged meanwhile.
    pub arrived: u64,
}

/// What is lost since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub chunks: u32,
    pub newest: Option<u64>,
    /// When to look again.
    pub look_at: Option<Instant>,
}

impl Scoreboard {
    pub(super) fn new() -> Self {
        Self {
            cumulative: 0,
            sent_until: 0,
            under_way: BTreeMap::new(),
            under_way_bytes: 0,
            lost: RangeSet::default(),
            transmissions: VecDeque::new(),
            first_number: 0,
            newest: None,
            arrived_bytes: 0,
            lateness_quarters: 1,
        }
    }

    /// Every byte before this has arrived.
    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// The end of what was ever sent.
    pub(super) fn sent_until(&self) -> u64 {
        self.sent_until
    }

    pub(super) fn under_way_bytes(&self) -> u64 {
        self.under_way_bytes
    }

    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The newest transmission known to have arrived.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// All transmissions before this number have arrived, are lost, or were made again.
    pub(super) fn first_number(&self) -> u64 {
        self.first_number
    }

    /// The number of the next transmission.
    pub(super) fn next_number(&self) -> u64 {
        self.first_number + self.transmissions.len() as u64
    }

    /// Takes the first lost bytes, at most `max_len`, to be sent again.
    pub(super) fn take_lost(&mut self, max_len: u64) -> Option<Range<u64>> {
        self.lost.take_first(max_len)
    }

    /// `range`, new or taken from the lost, goes out.
    pub(super) fn sent(&mut self, range: Range<u64>, now: Instant) {
        let number = self.next_number();
        let arrived_bytes = self.arrived_bytes;
        self.transmissions.push_back(Transmission {
            offset: range.start,
            sent_at: now,
            arrived_bytes,
        });
        self.under_way_bytes += range.end - range.start;
        self.sent_until = self.sent_until.max(range.end);
        self.under_way.insert(range.start, UnderWay { end: range.end, number });
    }

    /// Takes an Ack in; `None` when it speaks of what was never sent.
    pub(super) fn acknowledged(&mut self, ack: &Ack, now: Instant) -> Option<Arrival> {
        let ends = ack.ranges.last().map_or(ack.cumulative, |range| range.end);
        let newest = expand(ack.newest, self.next_number());
        if ends > self.sent_until || newest >= self.next_number() {
            return None;
        }
        let mut arrival = Arrival::default();
        let is_news = self.newest.is_none_or(|known| known < newest);
        self.newest = self.newest.max(Some(newest));
        self.cumulative = self.cumulative.max(ack.cumulative);
        self.arrived(0..ack.cumulative, newest, &mut arrival);
        for range in &ack.ranges {
            self.arrived(range.clone(), newest, &mut arrival);
        }
        self.arrived_bytes += arrival.bytes;
        if is_news {
            arrival.sample = self.sample(newest, now);
        }
        self.forget_settled();
        Some(arrival)
    }

    fn sample(&self, number: u64, now: Instant) -> Option<Sample> {
        let index = number.checked_sub(self.first_number)?;
        let transmission = self.transmissions.get(index as usize)?;
        Some(Sample {
            round_trip: now.saturating_duration_since(transmission.sent_at),
            arrived: self.arrived_bytes - transmission.arrived_bytes,
        })
    }

    fn arrived(&mut self, range: Range<u64>, newest: u64, arrival: &mut Arrival) {
        while let Some((&offset, &UnderWay { end, number })) =
            self.under_way.range(range.clone()).next()
        {
            // Chunks do not overlap, so all after one that ends beyond the range start beyond it.
            if end > range.end {
                break;
            }
            self.under_way.remove(&offset);
            self.under_way_bytes -= end - offset;
            arrival.bytes += end - offset;
            // The transmission itself has not arrived, so an earlier one has.
            arrival.was_only_late |= number > newest;
        }
        let late = self.lost.remove(&range);
        arrival.bytes += late;
        arrival.was_only_late |= late > 0;
    }

    /// Finds what is lost by what has arrived. `round_trip` is how long an answer takes now.
    pub(super) fn find_losses(&mut self, round_trip: Duration, now: Instant) -> Losses {
        let mut losses = Losses::default();
        let patience = self.patience(round_trip);
        while let (Some(first), Some(newest)) = (self.transmissions.front(), self.newest) {
            let number = self.first_number;
            if number >= newest {
                break;
            }
            let by_count = !self.reorders() && number + REORDERING <= newest;
            let overdue_at = first.sent_at + patience;
            if !by_count && now < overdue_at {
                losses.look_at = Some(overdue_at);
                break;
            }
            self.lose_first();
            losses.chunks += 1;
            losses.newest = Some(number);
            self.forget_settled();
        }
        losses
    }

    /// Holds up to `count` transmissions for lost whose answer
    /// is overdue, and returns how many there were.
    pub(super) fn lose_overdue(&mut self, count: u32, round_trip: Duration, now: Instant) -> u32 {
        let patience = self.patience(round_trip);
        let mut lost = 0;
        while lost < count
            && self.transmissions.front().is_some_and(|it| it.sent_at + patience <= now)
        {
            self.lose_first();
            self.forget_settled();
            lost += 1;
        }
        lost
    }

    /// Holds the `count` oldest transmissions for lost.
    pub(super) fn lose_oldest(&mut self, count: u32) {
        for _ in 0..count {
            self.forget_settled();
            if self.transmissions.is_empty() {
                break;
            }
            self.lose_first();
        }
        self.forget_settled();
    }

    /// Holds everything under way for lost.
    pub(super) fn lose_all(&mut self) {
        self.lose_oldest(u32::MAX);
    }

    /// Holds what is longer than `max_len` for lost: it cannot have passed.
    pub(super) fn lose_longer_than(&mut self, max_len: u64) {
        let cumulative = self.cumulative;
        let (lost, bytes) = (&mut self.lost, &mut self.under_way_bytes);
        self.under_way.retain(|&offset, chunk| {
            let keep = chunk.end - offset <= max_len;
            if !keep {
                *bytes -= chunk.end - offset;
                lost.insert(offset.max(cumulative)..chunk.end);
            }
            keep
        });
        self.forget_settled();
    }

    /// The path has shown that it reorders.
    pub(super) fn expect_lateness(&mut self) {
        self.lateness_quarters = (self.lateness_quarters * 2).min(MAX_LATENESS_QUARTERS);
    }

    fn patience(&self, round_trip: Duration) -> Duration {
        round_trip + (round_trip / 4).max(GRANULARITY) * self.lateness_quarters
    }

    fn reorders(&self) -> bool {
        self.lateness_quarters > 1
    }

    /// Moves the first transmission, which is under way, to the lost.
    fn lose_first(&mut self) {
        let Some(Transmission { offset, .. }) = self.transmissions.pop_front() else { return };
        self.first_number += 1;
        if let Some(UnderWay { end, .. }) = self.under_way.remove(&offset) {
            self.under_way_bytes -= end - offset;
            // A part may have arrived, in a chunk that was cut otherwise.
            self.lost.insert(offset.max(self.cumulative)..end);
        }
    }

    /// Drops transmissions from the front that have arrived, are lost, or were made again since.
    fn forget_settled(&mut self) {
        while let Some(first) = self.transmissions.front() {
            let current = self.under_way.get(&first.offset);
            if current.is_some_and(|chunk| chunk.number == self.first_number) {
                break;
            }
            self.transmissions.pop_front();
            self.first_number += 1;
        }
    }
}

/// The number nearest below `next` (or, where the peer is
/// wrong, not below) that ends in these 32 bits.
fn expand(low: u32, next: u64) -> u64 {
    let back = (next as u32).wrapping_sub(low);
    match next.checked_sub(back.into()) {
        Some(number) if back <= u32::MAX / 2 => number,
        _ => next + u64::from(low.wrapping_sub(next as u32)),
    }
}

/// So many later ones that arrive condemn a transmission (RFC 5681, RFC 9002).
const REORDERING: u64 = 3;
/// A round trip and a quarter, as RFC 8985 has it; then, on paths that
/// reorder, up to twice as long as a round trip.
const MAX_LATENESS_QUARTERS: u32 = 4;
/// What clocks and schedulers make of nothing.
const GRANULARITY: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ack(cumulative: u64, newest: u32, ranges: &[(u64, u64)]) -> Ack {
        let ranges = ranges.iter().map(|&(start, end)| start..end).collect();
        Ack { cumulative, window: 1 << 20, newest, ranges }
    }

    /// Ten chunks of 100 bytes, sent 1 ms apart.
    fn ten(start: Instant) -> Scoreboard {
        let mut board = Scoreboard::new();
        for i in 0..10 {
            board.sent(i * 100..(i + 1) * 100, start + MS * i as u32);
        }
        board
    }

    #[test]
    fn every_byte_is_in_one_place() {
        let start = Instant::now();
        let mut board = ten(start);
        let arrival =
            board.acknowledged(&ack(200, 6, &[(300, 400), (600, 700)]), start + MS * 20).unwrap();
        assert_eq!(arrival.bytes, 400);
        assert_eq!(arrival.sample, Some(Sample { round_trip: MS * 14, arrived: 400 }));
        assert!(!arrival.was_only_late);
        assert_eq!(board.under_way_bytes(), 600);
        let losses = board.find_losses(MS * 100, start + MS * 20);
        assert_eq!(
            (losses.chunks, losses.newest),
            (1, Some(2)),
            "2, but neither 4 nor 5, by the count"
        );
        assert_eq!(losses.look_at, Some(start + MS * 4 + MS * 125));
        let losses = board.find_losses(MS * 100, start + MS * 129);
        assert_eq!((losses.chunks, losses.newest), (1, Some(4)), "by the clock");
        assert_eq!(board.take_lost(60), Some(200..260));
        assert_eq!(board.take_lost(60), Some(260..300));
        assert_eq!(board.take_lost(60), Some(400..460));
    }

    #[test]
    fn an_ack_again_brings_nothing() {
        let start = Instant::now();
        let mut board = ten(start);
        let first = ack(200, 4, &[(400, 500)]);
        assert_eq!(board.acknowledged(&first, start).unwrap().bytes, 300);
        assert_eq!(board.acknowledged(&first, start), Some(Arrival::default()));
    }

    #[test]
    fn what_was_never_sent_is_not_believed() {
        let now = Instant::now();
        let mut board = ten(now);
        assert_eq!(board.acknowledged(&ack(1001, 9, &[]), now), None);
        assert_eq!(board.acknowledged(&ack(0, 9, &[(100, 1001)]), now), None);
        assert_eq!(board.acknowledged(&ack(100, 10, &[]), now), None);
        assert_eq!(board.acknowledged(&ack(100, u32::MAX, &[]), now), None);
        assert_eq!(board.under_way_bytes(), 1000);
        assert_eq!(board.acknowledged(&ack(1000, 9, &[]), now).unwrap().bytes, 1000);
    }

    #[test]
    fn lateness_is_noticed_before_and_after_sending_again() {
        let start = Instant::now();
        let mut board = ten(start);
        board.acknowledged(&ack(0, 9, &[(200, 1000)]), start + MS * 10);
        assert_eq!(board.find_losses(MS * 9, start + MS * 10).chunks, 2);
        assert_eq!(board.take_lost(100), Some(0..100));
        board.sent(0..100, start + MS * 10);
        let before = board.acknowledged(&ack(0, 9, &[(100, 1000)]), start + MS * 11).unwrap();
        assert!(before.was_only_late);
        let after = board.acknowledged(&ack(1000, 9, &[]), start + MS * 11).unwrap();
        assert!(after.was_only_late && after.bytes == 100);
        assert_eq!(board.under_way_bytes(), 0);
        board.expect_lateness();
        for i in 10..20 {
            board.sent(i * 100..(i + 1) * 100, start + MS * 20);
        }
        board.acknowledged(&ack(1000, 20, &[(1900, 2000)]), start + MS * 29);
        assert_eq!(
            board.find_losses(MS * 9, start + MS * 29).chunks,
            0,
            "the count is not trusted any more"
        );
    }

    #[test]
    fn chunks_that_are_too_long_are_cut_anew() {
        let start = Instant::now();
        let mut board = ten(start);
        board.sent(1000..1040, start);
        board.lose_longer_than(50);
        assert_eq!(board.under_way_bytes(), 40);
        assert_eq!(board.take_lost(50), Some(0..50));
        board.sent(0..50, start);
        // Some had passed after all; the rest of the first is
        // lost again, and what arrived of it is not.
        board.acknowledged(&ack(30, 11, &[]), start);
        board.lose_all();
        assert_eq!(board.take_lost(2000), Some(30..1040));
        assert_eq!(board.under_way_bytes(), 0);
    }

    #[test]
    fn only_what_is_overdue_is_lost_when_the_path_says_so() {
        let start = Instant::now();
        let mut board = ten(start);
        let now = start + MS * 4 + MS * 125;
        assert_eq!(board.lose_overdue(2, MS * 100, now), 2);
        assert_eq!(board.lose_overdue(9, MS * 100, now), 3);
        assert_eq!(board.first_number(), 5);
        assert_eq!(board.take_lost(1000), Some(0..500));
    }

    #[test]
    fn numbers_wrap() {
        let next = (1 << 32) + 5;
        assert_eq!(expand(4, next), (1 << 32) + 4);
        assert_eq!(expand(u32::MAX, next), u64::from(u32::MAX));
        assert_eq!(expand(5, next), next);
        assert_eq!(expand(0, 3), 0);
        assert!(expand(u32::MAX, 3) >= 3);
    }
}
