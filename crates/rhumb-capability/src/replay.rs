//! The replay filter of one core: what was here within the time that a packet is taken.
//! `docs/platypus.md`, section 7.
//!
//! A packet is known by 64 bits of its MAC that are on no wire: equal for the same packet under the
//! same capability, and for no other. They are kept in one of 256 parts, which its id's own time
//! selects; so a packet and its repetition meet in the same part, however late the repetition
//! comes, and there is no moment of rotation between them. A part serves 16 ms; 256 of them are
//! longer than a packet is taken, so what a part held before is over when it is used again. A line
//! of it begins anew with the first packet that finds it so: nothing is ever cleared.
//!
//! Packets of one moment are all in one part or two, which the processor therefore has at hand: a
//! part of a quarter of a second cost 20 ns a packet in waiting for memory and for page tables.
//!
//! No principal can take a part from the others: it has a place for a packet only while it has less
//! of the part than is left to all. So one has half of it at most, and of several with all they can
//! get each has as much as is left over. What each has is counted under a keyed hash that is
//! another one in each slice of time. Lines are chosen by a keyed hash, too, so a principal, which
//! can compute its own marks, cannot choose those that all land in a few lines.
//!
//! Invariant: a packet is never taken twice. Where there is no place, it is refused;
//! where 32 bits and the place happen to be another's (once in 300 million packets in
//! a line that is full), it is refused as well.

use std::hash::BuildHasher;

use crate::packet_id::{MAX_AGE_US, MAX_AHEAD_US};
use crate::side_by_side::prefetch;
use crate::{DropReason, PacketId, Principal};

/// What was here.
#[derive(Debug)]
pub(crate) struct ReplayFilter {
    /// Lines of 16 words: part and fill, then marks.
    /// Zeroed memory that nobody touched costs nothing.
    words: Vec<u32>,
    /// Words before the first line, so that each is one cache line.
    offset: usize,
    lines_per_part: usize,
    /// Of each part: what it has in all, and then what principals have of it.
    shares: Vec<Share>,
    shares_per_part: usize,
    /// Marks that a part takes.
    room: u32,
    keys: [u64; 2],
}

/// How much of a part is taken.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    slice: u32,
    taken: u32,
}

impl ReplayFilter {
    /// A filter for a core that forwards up to `packets_per_s`.
    pub(crate) fn new(packets_per_s: u32) -> Self {
        let per_part = (u64::from(packets_per_s) * (1 << SLICE_BITS)) / 1_000_000;
        let lines_per_part = (per_part / USUAL_FILL).next_power_of_two() as usize;
        let words = vec![0_u32; (PARTS * lines_per_part + 1) * LINE];
        let misaligned = words.as_ptr().addr() / size_of::<u32>() % LINE;
        let offset = (LINE - misaligned) % LINE;
        let shares_per_part = lines_per_part.clamp(LEAST_SHARES, MOST_SHARES);
        Self {
            words,
            offset,
            lines_per_part,
            shares: vec![Share::default(); PARTS * shares_per_part],
            shares_per_part,
            room: (lines_per_part * MOST_FILL) as u32,
            // The hasher of the standard library has keys from the system's randomness.
            keys: [(); 2].map(|()| std::hash::RandomState::new().hash_one(packets_per_s)),
        }
    }

    /// Has what `take` will look at brought near.
    #[inline]
    pub(crate) fn prefetch(&self, id: PacketId, principal: Principal, fingerprint: u64) {
        let slice = slice_of(id);
        let part = slice as usize % PARTS;
        let line = part * self.lines_per_part + self.place(fingerprint);
        prefetch(&self.words[self.offset + line * LINE]);
        prefetch(&self.shares[part * self.shares_per_part + self.share(slice, principal)]);
    }

    /// Takes a packet that was not here, or says why not.
    #[inline]
    pub(crate) fn take(
        &mut self,
        id: PacketId,
        principal: Principal,
        fingerprint: u64,
    ) -> Result<(), DropReason> {
        let slice = slice_of(id);
        let part = slice as usize % PARTS;
        let all = part * self.shares_per_part;
        let its = all + self.share(slice, principal);
        let [taken, its_own] = [all, its].map(|at| self.shares[at].in_slice(slice));
        let has_share = its_own < self.room - taken;
        self.take_place(part, slice, fingerprint, has_share)?;
        self.shares[all] = Share { slice, taken: taken + 1 };
        self.shares[its] = Share { slice, taken: its_own + 1 };
        Ok(())
    }

    #[inline]
    fn take_place(
        &mut self,
        part: usize,
        slice: u32,
        fingerprint: u64,
        has_share: bool,
    ) -> Result<(), DropReason> {
        let mark = ((fingerprint >> 32) as u32).max(1);
        let first = part * self.lines_per_part;
        let place = self.place(fingerprint);
        if let Some(verdict) = take_in(self.line(first + place), slice, mark, has_share) {
            return verdict;
        }
        // A line that is full stays so while its part
        // serves; whoever comes later looks here as well.
        let other = self.place(fingerprint.rotate_left(32));
        take_in(self.line(first + other), slice, mark, has_share)
            .unwrap_or(Err(DropReason::ReplayFull))
    }

    /// The line of a part that a packet has its mark in.
    #[inline]
    fn place(&self, fingerprint: u64) -> usize {
        self.spread(fingerprint) as usize & (self.lines_per_part - 1)
    }

    /// Where a part counts what a principal has: not at 0, which is the sum.
    #[inline]
    fn share(&self, slice: u32, principal: Principal) -> usize {
        // Twice: where a key has few bits in the middle, once leaves neighbours near each other.
        let hash = self.spread(self.spread(u64::from(slice) << 32 | u64::from(principal.0)));
        1 + (((hash & 0xFFFF_FFFF) as usize * (self.shares_per_part - 1)) >> 32)
    }

    /// A keyed hash.
    #[inline]
    fn spread(&self, number: u64) -> u64 {
        let [added, multiplied] = self.keys;
        let product = u128::from(number ^ added) * u128::from(multiplied | 1);
        (product >> 64) as u64 ^ product as u64
    }

    #[inline]
    fn line(&mut self, number: usize) -> &mut [u32; LINE] {
        let start = self.offset + number * LINE;
        self.words[start..].first_chunk_mut().expect("invariant: one line more than is used")
    }
}

impl Share {
    /// What was taken in a slice: what stands there of another one is over.
    #[inline]
    fn in_slice(self, slice: u32) -> u32 {
        if self.slice == slice { self.taken } else { 0 }
    }
}

/// The slice of time that a packet belongs to, as far as
/// a line's first word has room for it: 51 days.
#[inline]
fn slice_of(id: PacketId) -> u32 {
    (id.time_us() >> SLICE_BITS) as u32 & (u32::MAX >> FILL_BITS)
}

/// `None` when the line is full of others. Without a share nothing is written.
#[inline]
fn take_in(
    line: &mut [u32; LINE],
    slice: u32,
    mark: u32,
    has_share: bool,
) -> Option<Result<(), DropReason>> {
    let head = line[0];
    // What a part held before it was used again is over, and left to be written over: without a
    // branch, which could not be foreseen.
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
    if !has_share {
        return Some(Err(DropReason::ReplayFull));
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
/// A part serves 2^14 microseconds, 16 ms: at a million packets a second, it
/// takes a quarter of a usual second-level cache.
const SLICE_BITS: u32 = 14;
/// Marks per line at the greatest rate, which one principal
/// alone may have: less than half of [`MOST_FILL`].
const USUAL_FILL: u64 = 4;
/// Marks per line that a part takes in all, of 15 that a line has room for: of a thousand packets
/// in lines this full ten find both their lines full.
const MOST_FILL: usize = 10;
/// Principals that happen to be counted together have one share, in one slice out of as many as
/// this: 2 MB for the larger filters.
const MOST_SHARES: usize = 1024;
/// Small filters, too, tell some principals apart.
const LEAST_SHARES: usize = 64;

// A part is used again only when nothing that it held can be
// taken any more: one slice begins as another ends.
const _: () = assert!(((PARTS as u64 - 1) << SLICE_BITS) >= MAX_AGE_US + MAX_AHEAD_US);

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Principal = Principal(1);

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
            assert_eq!(filter.take(id(number * 100, 0), ONE, fingerprint(number)), Ok(()));
        }
        for number in 0..2_000 {
            let again = filter.take(id(number * 100, 0), ONE, fingerprint(number));
            assert_eq!(again, Err(DropReason::Replay), "{number}");
        }
    }

    #[test]
    fn at_its_rate_it_has_a_place_for_all() {
        let rate = 200_000;
        let mut filter = ReplayFilter::new(rate);
        let mut refused = 0;
        for number in 0..u64::from(rate) * 5 {
            refused += u64::from(filter.take(id(number * 5, 0), ONE, fingerprint(number)).is_err());
        }
        assert!(refused <= 10, "{refused} of a million");
    }

    #[test]
    fn too_many_are_refused_and_those_taken_stay_known() {
        let mut filter = ReplayFilter::new(1);
        let taken: Vec<u64> =
            (0..100).filter(|n| filter.take(id(7, *n), ONE, fingerprint(*n)).is_ok()).collect();
        assert_eq!(taken.len(), MOST_FILL / 2);
        let full = filter.take(id(7, 100), ONE, fingerprint(100));
        assert_eq!(full, Err(DropReason::ReplayFull));
        for number in taken {
            let again = filter.take(id(7, number), ONE, fingerprint(number));
            assert_eq!(again, Err(DropReason::Replay));
        }
        // Another part is another matter.
        assert_eq!(filter.take(id(7 + (1 << SLICE_BITS), 100), ONE, fingerprint(100)), Ok(()));
    }

    /// Packets, of 1,000 of another principal, that are lost in a slice
    /// in which these have taken all they can get.
    fn lost_beside(greedy: u32, choose: impl Fn(u64) -> bool) -> usize {
        let mut filter = ReplayFilter::new(1_000_000);
        let chosen: Vec<u64> =
            (0..).map(fingerprint).filter(|it| choose(*it)).take(61_440).collect();
        for (number, fingerprint) in (0..).zip(chosen) {
            let _ = filter.take(id(7, 0), Principal(100 + number % greedy), fingerprint);
        }
        let honest = (1_000_000..1_001_000).map(fingerprint);
        honest.filter(|it| filter.take(id(7, 0), ONE, *it).is_err()).count()
    }

    #[test]
    fn whoever_fills_a_slice_leaves_room_for_others() {
        assert_eq!(lost_beside(1, |_| true), 0);
        let lost = lost_beside(4, |_| true);
        assert!(lost <= 2, "{lost} beside four");
        // Who computes marks and sends only those that would
        // be in the same few lines gets no further.
        let lost = lost_beside(1, |fingerprint| fingerprint & 0xFFF < 0x400);
        assert!(lost <= 1, "{lost}");
    }

    #[test]
    fn principals_that_are_counted_together_are_so_in_one_slice_only() {
        // Whatever the keys are: with some a hash of one multiplication alone keeps them near.
        for _ in 0..2000 {
            let filter = ReplayFilter::new(1_000_000);
            let together = |slice: &u32| {
                filter.share(*slice, Principal(5)) == filter.share(*slice, Principal(6))
            };
            let slices = (0..10_000).filter(together).count();
            assert!(slices < 60, "{slices} of 10,000");
        }
    }
}
