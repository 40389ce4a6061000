//! The replay filter of one core: what was here within the time that a packet is taken. `docs/platypus.md`, section 7.
//!
//! A packet is known by 64 bits of its MAC that are on no wire: equal for the same packet under the same capability, and
//! for no other. They are kept in one of 256 parts, which its id's own time selects; so a packet and its repetition meet
//! in the same part, however late the repetition comes, and there is no moment of rotation between them. A part serves
//! 16 ms; 256 of them are longer than a packet is taken, so what a part held before is over when it is
//! used again. A line of it begins anew with the first packet that finds it so: nothing is ever cleared.
//!
//! Packets of one moment are all in one part or two, which the processor therefore has at hand: a part of a quarter of a second
//! cost 20 ns a packet in waiting for memory and for page tables.
//!
//! Invariant: a packet is never taken twice. Where there is no place, it is refused; where 32 bits and the place happen to
//! be another's (once in 300 million packets in a line that is full), it is refused as well.

use crate::packet_id::{MAX_AGE_US, MAX_AHEAD_US};
use crate::side_by_side::prefetch;
use crate::{DropReason, PacketId};

/// What was here.
#[derive(Debug)]
pub(crate) struct ReplayFilter {
    /// Lines of 16 words: part and fill, then marks. Zeroed memory that nobody touched costs nothing.
    words: Vec<u32>,
    /// Words before the first line, so that each is one cache line.
    offset: usize,
    lines_per_part: usize,
}

impl ReplayFilter {
    /// A filter for a core that forwards up to `packets_per_s`.
    pub(crate) fn new(packets_per_s: u32) -> Self {
        let per_part = (u64::from(packets_per_s) * (1 << SLICE_BITS)) / 1_000_000;
        let lines_per_part = (per_part / USUAL_FILL).next_power_of_two() as usize;
        let words = vec![0_u32; (PARTS * lines_per_part + 1) * LINE];
        let misaligned = words.as_ptr().addr() / size_of::<u32>() % LINE;
        let offset = (LINE - misaligned) % LINE;
        Self { words, offset, lines_per_part }
    }

    /// Has what `take` will look at brought near.
    #[inline]
    pub(crate) fn prefetch(&self, id: PacketId, fingerprint: u64) {
        let part = slice_of(id) as usize % PARTS * self.lines_per_part;
        let line = part + (fingerprint as usize & (self.lines_per_part - 1));
        prefetch(&self.words[self.offset + line * LINE]);
    }

    /// Takes a packet that was not here, or says why not.
    #[inline]
    pub(crate) fn take(&mut self, id: PacketId, fingerprint: u64) -> Result<(), DropReason> {
        let slice = slice_of(id);
        let mark = ((fingerprint >> 32) as u32).max(1);
        let mask = self.lines_per_part - 1;
        let part = slice as usize % PARTS * self.lines_per_part;
        let place = fingerprint as usize & mask;
        if let Some(verdict) = take_in(self.line(part + place), slice, mark) {
            return verdict;
        }
        // A line that is full stays so while its part serves; whoever comes later looks here as well.
        let other = place ^ (mark.wrapping_mul(0x9E37_79B1) >> 8) as usize & mask;
        take_in(self.line(part + other), slice, mark).unwrap_or(Err(DropReason::ReplayFull))
    }

    #[inline]
    fn line(&mut self, number: usize) -> &mut [u32; LINE] {
        let start = self.offset + number * LINE;
        self.words[start..].first_chunk_mut().expect("invariant: one line more than is used")
    }
}

/// The slice of time that a packet belongs to, as far as a line's first word has room for it: 51 days.
#[inline]
fn slice_of(id: PacketId) -> u32 {
    (id.time_us() >> SLICE_BITS) as u32 & (u32::MAX >> FILL_BITS)
}

/// `None` when the line is full of others.
#[inline]
fn take_in(line: &mut [u32; LINE], slice: u32, mark: u32) -> Option<Result<(), DropReason>> {
    let head = line[0];
    // What a part held before it was used again is over, and left to be written over: without a branch, which could not be
    // foreseen.
    let fill = if head >> FILL_BITS == slice { head & FILL_MASK } else { 0 };
    let mut same = 0_u32;
    for (at, other) in line[1..].iter().enumerate() {
        same |= u32::from(*other == mark) << at;
    }
    if same & ((1 << fill) - 1) != 0 {
        return Some(Err(DropReason::Replay));
    }
    if fill as usize + 1 == LINE {
        return None;
    }
    line[1 + fill as usize] = mark;
    line[0] = slice << FILL_BITS | (fill + 1);
    Some(Ok(()))
}

/// Words of a cache line.
const LINE: usize = 16;
/// The low bits of a line's first word say how many marks it has: at most 15.
const FILL_BITS: u32 = 4;
const FILL_MASK: u32 = (1 << FILL_BITS) - 1;
const PARTS: usize = 256;
/// A part serves 2^14 microseconds, 16 ms: at a million packets a second, it takes a quarter of a usual second-level cache.
const SLICE_BITS: u32 = 14;
/// Marks per line at the greatest rate: of 100,000 packets in lines this full, fewer than one finds both its lines full.
const USUAL_FILL: u64 = 6;

// A part is used again only when nothing that it held can be taken any more: one slice begins as another ends.
const _: () = assert!(((PARTS as u64 - 1) << SLICE_BITS) >= MAX_AGE_US + MAX_AHEAD_US);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(us: u64, counter: u64) -> PacketId {
        PacketId(us << 20 | counter)
    }

    /// Fingerprints of packets: any numbers that are well spread.
    fn fingerprint(number: u64) -> u64 {
        let x = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    #[test]
    fn a_packet_is_taken_once() {
        let mut filter = ReplayFilter::new(10_000);
        for number in 0..2_000 {
            assert_eq!(filter.take(id(number * 100, 0), fingerprint(number)), Ok(()));
        }
        for number in 0..2_000 {
            let again = filter.take(id(number * 100, 0), fingerprint(number));
            assert_eq!(again, Err(DropReason::Replay), "{number}");
        }
    }

    #[test]
    fn at_its_rate_it_has_a_place_for_all() {
        let rate = 200_000;
        let mut filter = ReplayFilter::new(rate);
        let mut refused = 0;
        for number in 0..u64::from(rate) * 5 {
            refused += u64::from(filter.take(id(number * 5, 0), fingerprint(number)).is_err());
        }
        assert!(refused <= 10, "{refused} of a million");
    }

    #[test]
    fn too_many_are_refused_and_those_taken_stay_known() {
        let mut filter = ReplayFilter::new(1);
        let taken: Vec<u64> =
            (0..100).filter(|n| filter.take(id(7, *n), fingerprint(*n)).is_ok()).collect();
        assert_eq!(taken.len(), LINE - 1);
        let full = filter.take(id(7, 100), fingerprint(100));
        assert_eq!(full, Err(DropReason::ReplayFull));
        for number in taken {
            let again = filter.take(id(7, number), fingerprint(number));
            assert_eq!(again, Err(DropReason::Replay));
        }
        // Another part is another matter.
        assert_eq!(filter.take(id(7 + (1 << SLICE_BITS), 100), fingerprint(100)), Ok(()));
    }
}
