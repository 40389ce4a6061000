//! Triples: shares of random `a`, `b` and of their product, made from one random transfer in each
//! direction, and the pool they wait in.
//!
//! A party's `a` are its choices as receiver, its `b` the differences of the two values
//! it has as sender. Of the cross term of one direction the receiver has the value it
//! chose, and the sender the first of its values; they differ by `a b`. So a triple
//! costs no message beyond the extension's. With one bit of the values they are triples
//! of bits; with all 128, of a bit and a vector.
//!
//! Invariant: a word of the pool has a serial number, is given out once, and
//! is wiped where it stood. Nothing is stored: after a crash both parties
//! begin a session with new keys, and so new triples.

use std::collections::VecDeque;

use crate::cipher::{Place, Usage};
use crate::extension::{
    CHUNK_BLOCKS, CHUNK_WORDS, ExtensionReceiver, ExtensionSender, Rows, correction_len,
};
use crate::side_by_side::{Aligned, Quad, add_selected};
use crate::wipe::wipe;
use crate::{FieldBits, MpcError};

/// Vectors of four lanes.
pub(crate) type FourVectors = Aligned<Quad>;

/// Chunks of 2048 that are made with one message: 65 kB of it at k = 2, and about a tenth of a
/// millisecond of each party, for which a run may have to wait.
const CHUNKS: usize = 4;
/// Words of triples in a batch.
pub(crate) const BATCH_WORDS: u64 = (CHUNKS * CHUNK_WORDS) as u64;

/// Bits, or a bit and a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bits,
    Vectors,
}

impl Kind {
    /// Of a chunk's first block.
    fn place(self, batch: u64, chunk: usize) -> Place {
        let usage = match self {
            Self::Bits => Usage::BitTriples,
            Self::Vectors => Usage::VectorTriples,
        };
        let chunks = batch * CHUNKS as u64 + chunk as u64;
        Place { usage, block: chunks * CHUNK_BLOCKS as u64 }
    }
}

/// Bytes of corrections of a batch.
pub(crate) fn batch_len(field: FieldBits) -> usize {
    CHUNKS * correction_len(field)
}

/// Products of a selecting bit and something: a bit (packed by 64), or a vector of 128.
pub(crate) trait Payload: Copy + Default {
    /// Payloads that 64 selecting bits have.
    const PER_WORD: usize;
    /// What the receiver of a chunk chose, appended.
    fn chosen(receiver: &ExtensionReceiver, first: Place, rows: &mut Rows, chosen: &mut Vec<Self>);
    /// The first values of the sender of a chunk, and their sums with the second ones, appended.
    fn both(
        sender: &ExtensionSender,
        first: Place,
        rows: &mut ChunkRows,
        values: &mut Vec<Self>,
        sums: &mut Vec<Self>,
    );
    /// Adds what was chosen, and the payload of each selecting bit that is one.
    fn add_cross_terms(sums: &mut [Self], chosen: &[Self], bits: &[u64], payloads: &[Self]);
}

impl Payload for u64 {
    const PER_WORD: usize = 1;

    fn chosen(receiver: &ExtensionReceiver, first: Place, rows: &mut Rows, chosen: &mut Vec<Self>) {
        chosen.extend_from_slice(&receiver.bits(first, rows));
    }

    fn both(
        sender: &ExtensionSender,
        first: Place,
        rows: &mut ChunkRows,
        values: &mut Vec<Self>,
        sums: &mut Vec<Self>,
    ) {
        let [zeros, ones] = sender.bits(first, &rows.values);
        values.extend_from_slice(&zeros);
        sums.extend(zeros.iter().zip(&ones).map(|(zero, one)| zero ^ one));
    }

    fn add_cross_terms(sums: &mut [Self], chosen: &[Self], bits: &[u64], payloads: &[Self]) {
        let products = bits.iter().zip(payloads).map(|(bits, payload)| bits & payload);
        for ((sum, chosen), product) in sums.iter_mut().zip(chosen).zip(products) {
            *sum ^= chosen ^ product;
        }
    }
}

impl Payload for FourVectors {
    const PER_WORD: usize = 16;

    fn chosen(receiver: &ExtensionReceiver, first: Place, rows: &mut Rows, chosen: &mut Vec<Self>) {
        receiver.values(first, rows);
        (0..CHUNK_WORDS).for_each(|word| chosen.extend(rows.quads(word)));
    }

    fn both(
        sender: &ExtensionSender,
        first: Place,
        rows: &mut ChunkRows,
        values: &mut Vec<Self>,
        sums: &mut Vec<Self>,
    ) {
        let ChunkRows { values: zeros, others: ones } = rows;
        sender.values(first, zeros, ones);
        for word in 0..CHUNK_WORDS {
            values.extend(zeros.quads(word));
            sums.extend(zeros.quads(word).zip(ones.quads(word)).map(|(zero, one)| {
                let mut sum = zero;
                sum.0.iter_mut().zip(one.0).for_each(|(sum, one)| *sum ^= one);
                sum
            }));
        }
    }

    fn add_cross_terms(sums: &mut [Self], chosen: &[Self], bits: &[u64], payloads: &[Self]) {
        for (sum, chosen) in sums.iter_mut().zip(chosen) {
            sum.0.iter_mut().zip(chosen.0).for_each(|(sum, chosen)| *sum ^= chosen);
        }
        add_selected(sums, bits, payloads);
    }
}

/// Room for a chunk's transfers, and for their second values.
pub(crate) struct ChunkRows {
    pub(crate) values: Rows,
    pub(crate) others: Rows,
}

impl ChunkRows {
    pub(crate) fn new() -> Self {
        Self { values: Rows::new(), others: Rows::new() }
    }
}

/// Words of triples. Wiped when dropped.
pub(crate) struct Triples<P: Payload> {
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<P>,
    pub(crate) c: Vec<P>,
}

impl<P: Payload> Triples<P> {
    fn with_capacity(words: usize) -> Self {
        let payloads = words * P::PER_WORD;
        Self {
            a: Vec::with_capacity(words),
            b: Vec::with_capacity(payloads),
            c: Vec::with_capacity(payloads),
        }
    }
}

impl<P: Payload> Drop for Triples<P> {
    fn drop(&mut self) {
        wipe(&mut self.a);
        wipe(&mut self.b);
        wipe(&mut self.c);
    }
}

/// Words of triples where they stand.
#[derive(Clone, Copy)]
pub(crate) struct TripleRows<'a, P> {
    pub(crate) a: &'a [u64],
    pub(crate) b: &'a [P],
    pub(crate) c: &'a [P],
}

impl<P: Payload> TripleRows<'_, P> {
    /// From word `at` on, so many.
    #[inline]
    pub(crate) fn part(&self, at: usize, words: usize) -> Self {
        let payloads = at * P::PER_WORD..(at + words) * P::PER_WORD;
        let (b, c) = (&self.b[payloads.clone()], &self.c[payloads]);
        Self { a: &self.a[at..at + words], b, c }
    }
}

/// A batch of which this party has sent its part: its choices and what it chose.
struct Half<P: Payload> {
    choices: Vec<u64>,
    chosen: Vec<P>,
}

impl<P: Payload> Half<P> {
    fn clear(&mut self) {
        wipe(&mut self.choices);
        wipe(&mut self.chosen);
        self.choices.clear();
        self.chosen.clear();
    }
}

impl<P: Payload> Drop for Half<P> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The pool of one kind: batches under way, and words in stock.
pub(crate) struct Pool<P: Payload> {
    kind: Kind,
    capacity: u64,
    /// Batches of which this party's part is sent and the other's is not here.
    halves: VecDeque<Half<P>>,
    /// Of batches that are complete, wiped, for others.
    spare: Vec<Half<P>>,
    /// Batches that this party has begun.
    begun: u64,
    /// Batches that are complete.
    completed: u64,
    stock: Triples<P>,
    /// Words at the front of the stock that are used and wiped.
    spent: usize,
    /// Words after those that a run has.
    taken: usize,
    /// The serial number of the next word to be used.
    next: u64,
}

impl<P: Payload> Pool<P> {
    /// `capacity` in words.
    pub(crate) fn new(kind: Kind, capacity: u64) -> Self {
        // What `expects` lets in, and what a run may have taken of as much: a vector that grew
        // would leave its old place unwiped. Memory that is never reached is never got.
        let words = 4 * capacity as usize;
        Self {
            kind,
            capacity,
            halves: VecDeque::new(),
            spare: Vec::new(),
            begun: 0,
            completed: 0,
            stock: Triples::with_capacity(words),
            spent: 0,
            taken: 0,
            next: 0,
        }
    }

    /// Words ready for use.
    pub(crate) fn words(&self) -> u64 {
        (self.stock.a.len() - self.spent - self.taken) as u64
    }

    /// Serial number of the next word.
    pub(crate) fn next_serial(&self) -> u64 {
        self.next
    }

    /// Batches that this party has begun and the peer has not answered.
    pub(crate) fn under_way(&self) -> usize {
        self.halves.len()
    }

    /// Whether there are fewer words than wanted and another batch fits, those under way included.
    pub(crate) fn lacks(&self, wanted: u64) -> bool {
        let coming = self.words() + self.halves.len() as u64 * BATCH_WORDS;
        coming < wanted && coming + BATCH_WORDS <= self.capacity
    }

    /// Begins the next batch; gives its number and appends this party's part.
    pub(crate) fn begin(
        &mut self,
        receiver: &ExtensionReceiver,
        rows: &mut ChunkRows,
        part: &mut Vec<u8>,
    ) -> u64 {
        let batch = self.begun;
        let words = BATCH_WORDS as usize;
        let mut half = self.spare.pop().unwrap_or_else(|| Half {
            choices: Vec::with_capacity(words),
            chosen: Vec::with_capacity(words * P::PER_WORD),
        });
        for chunk in 0..CHUNKS {
            let place = self.kind.place(batch, chunk);
            let choices = receiver.extend(place, &mut rows.values, part);
            half.choices.extend_from_slice(&choices);
            P::chosen(receiver, place, &mut rows.values, &mut half.chosen);
        }
        self.halves.push_back(half);
        self.begun += 1;
        batch
    }

    /// Whether the peer's part of this batch is the next; and whether this party has sent its own.
    ///
    /// The peer may be ahead by one computation and fill what that took: hence twice the capacity.
    pub(crate) fn expects(&self, batch: u64) -> Result<bool, MpcError> {
        if batch != self.completed {
            return Err(MpcError::Desynchronised("the number of a batch of triples"));
        }
        if self.words() + BATCH_WORDS > 2 * self.capacity {
            return Err(MpcError::PoolOverflow);
        }
        Ok(!self.halves.is_empty())
    }

    /// Completes the next batch, with the peer's part.
    pub(crate) fn complete(
        &mut self,
        sender: &ExtensionSender,
        rows: &mut ChunkRows,
        part: &[u8],
    ) -> Result<(), MpcError> {
        let Some(mut half) = self.halves.pop_front() else {
            return Err(MpcError::Unexpected("a part of triples"));
        };
        // What is moved is less than what was used since the last time; and the stock stays
        // together, in a cache if it is small.
        let (len, batch) = (self.stock.a.len(), BATCH_WORDS as usize);
        if self.spent >= len - self.spent || len + batch > 4 * self.capacity as usize {
            self.compact();
        }
        let chunk_len = part.len() / CHUNKS;
        let per_chunk = CHUNK_WORDS * P::PER_WORD;
        let halves =
            half.choices.chunks_exact(CHUNK_WORDS).zip(half.chosen.chunks_exact(per_chunk));
        let parts = part.chunks_exact(chunk_len);
        for (chunk, ((choices, chosen), part)) in halves.zip(parts).enumerate() {
            let place = self.kind.place(self.completed, chunk);
            sender.extend(place, &mut rows.values, part)?;
            let start = self.stock.b.len();
            let Triples { a, b, c } = &mut self.stock;
            P::both(sender, place, rows, c, b);
            a.extend_from_slice(choices);
            P::add_cross_terms(&mut c[start..], chosen, choices, &b[start..]);
        }
        half.clear();
        self.spare.push(half);
        self.completed += 1;
        Ok(())
    }

    /// Gives the next words to a run. They stay where they are until it is done.
    pub(crate) fn take(&mut self, words: usize) -> Result<(), MpcError> {
        let stock = self.words();
        if words as u64 > stock {
            return Err(MpcError::NotEnoughTriples { needed: words as u64, stock });
        }
        debug_assert_eq!(self.taken, 0, "there is one run at a time");
        self.taken = words;
        self.next += words as u64;
        Ok(())
    }

    /// The words of the run.
    pub(crate) fn taken(&self) -> TripleRows<'_, P> {
        let Triples { a, b, c } = &self.stock;
        TripleRows { a, b, c }.part(self.spent, self.taken)
    }

    /// Wipes the words of the run, which is done.
    pub(crate) fn wipe_taken(&mut self) {
        let at = self.spent..self.spent + self.taken;
        let payloads = at.start * P::PER_WORD..at.end * P::PER_WORD;
        wipe(&mut self.stock.a[at]);
        wipe(&mut self.stock.b[payloads.clone()]);
        wipe(&mut self.stock.c[payloads]);
        self.spent += self.taken;
        self.taken = 0;
    }

    /// Moves what is in stock to the front, over what is used.
    fn compact(&mut self) {
        let payloads = self.spent * P::PER_WORD;
        wipe_front(&mut self.stock.a, self.spent);
        wipe_front(&mut self.stock.b, payloads);
        wipe_front(&mut self.stock.c, payloads);
        self.spent = 0;
    }
}

fn wipe_front<T: Copy + Default>(values: &mut Vec<T>, count: usize) {
    values.copy_within(count.., 0);
    let left = values.len() - count;
    wipe(&mut values[left..]);
    values.truncate(left);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base_ot::tests::transferred;
    use crate::translation::parse_corrections;

    struct Side<P: Payload> {
        receiver: ExtensionReceiver,
        sender: ExtensionSender,
        pool: Pool<P>,
    }

    /// Both sides, with pools of some batches.
    fn sides<P: Payload>(field: FieldBits, kind: Kind, batches: u64) -> [Side<P>; 2] {
        let deltas = [0x1111_2222_3333_4444_5555, !0x7777_8888_9999_aaaa_u128];
        let mut number = 0;
        let grown = transferred(deltas.map(|delta| !delta)).map(|(pairs, chosen)| {
            let mut corrections = Vec::new();
            let start = number as u128;
            number += 1;
            let receiver = ExtensionReceiver::new(field, &pairs, start, &mut corrections);
            let bytes: Vec<u8> =
                corrections.as_flattened().iter().flat_map(|v| v.to_le_bytes()).collect();
            (receiver, chosen, parse_corrections(&bytes))
        });
        let corrections = [grown[1].2.clone(), grown[0].2.clone()];
        let mut number = 0;
        grown.map(|(receiver, chosen, _)| {
            let start = 1 - number as u128;
            let sender =
                ExtensionSender::new(field, &chosen, deltas[number], start, &corrections[number]);
            number += 1;
            Side { receiver, sender, pool: Pool::new(kind, batches * BATCH_WORDS) }
        })
    }

    fn fill<P: Payload>(sides: &mut [Side<P>; 2], field: FieldBits) {
        let mut rows = ChunkRows::new();
        let parts = sides.each_mut().map(|side| {
            let mut part = Vec::new();
            let batch = side.pool.begin(&side.receiver, &mut rows, &mut part);
            assert_eq!(part.len(), batch_len(field));
            (batch, part)
        });
        for (side, (batch, part)) in sides.iter_mut().zip([&parts[1], &parts[0]]) {
            assert_eq!(side.pool.expects(*batch), Ok(true));
            side.pool.complete(&side.sender, &mut rows, part).unwrap();
        }
    }

    /// Bits that a payload has for each selecting bit.
    trait Bits {
        fn of_lane(rows: &[Self], lane: usize) -> u128
        where
            Self: Sized;
    }

    impl Bits for u64 {
        fn of_lane(rows: &[Self], lane: usize) -> u128 {
            u128::from(rows[0] >> lane & 1)
        }
    }

    impl Bits for FourVectors {
        fn of_lane(rows: &[Self], lane: usize) -> u128 {
            let [low, high] = [0, 1].map(|half| rows[lane / 4].0[lane % 4 * 2 + half]);
            u128::from(high) << 64 | u128::from(low)
        }
    }

    /// Takes words and checks them.
    fn check<P: Payload + Bits>(sides: &mut [Side<P>; 2], words: usize) {
        sides.iter_mut().for_each(|side| side.pool.take(words).unwrap());
        let [one, two] = sides.each_ref().map(|side| side.pool.taken());
        for word in 0..words {
            let a = one.a[word] ^ two.a[word];
            let [one, two] = [one, two].map(|rows| rows.part(word, 1));
            for lane in 0..64 {
                let sum = |of: [&[P]; 2]| P::of_lane(of[0], lane) ^ P::of_lane(of[1], lane);
                let expected = if a >> lane & 1 == 1 { sum([one.b, two.b]) } else { 0 };
                assert_eq!(sum([one.c, two.c]), expected, "word {word}, lane {lane}");
            }
        }
        // No share is a constant: half of the bits are ones, within eight standard deviations.
        for triples in [&one, &two] {
            let ones: u64 = triples.a.iter().map(|a| u64::from(a.count_ones())).sum();
            let (bits, far) = (64 * words as u64, 4 * (64 * words as u64).isqrt());
            assert!(ones.abs_diff(bits / 2) < far, "{ones} ones of {bits}");
        }
        sides.iter_mut().for_each(|side| side.pool.wipe_taken());
    }

    #[test]
    fn three_million_triples_of_bits_are_right() {
        for field in [FieldBits::Two, FieldBits::Four] {
            let mut sides = sides::<u64>(field, Kind::Bits, 12);
            for _ in 0..192 {
                fill(&mut sides, field);
                let words = sides[0].pool.words() as usize;
                check(&mut sides, words);
            }
            assert_eq!(sides[0].pool.next_serial() * 64, 192 * 8192);
        }
    }

    #[test]
    fn triples_of_vectors_are_right() {
        for field in [FieldBits::Two, FieldBits::Four] {
            let mut sides = sides::<FourVectors>(field, Kind::Vectors, 3);
            for words in [1, 100, 200, 83] {
                fill(&mut sides, field);
                check(&mut sides, words);
            }
            assert_eq!(sides[1].pool.next_serial(), 384);
            assert_eq!(sides[1].pool.words(), 128);
        }
    }

    #[test]
    fn words_are_given_out_once_and_wiped() {
        let field = FieldBits::Two;
        let mut sides = sides::<u64>(field, Kind::Bits, 2);
        fn take(sides: &mut [Side<u64>; 2], words: usize) -> Vec<u64> {
            sides[0].pool.take(words).unwrap();
            let taken = sides[0].pool.taken().a.to_vec();
            sides[0].pool.wipe_taken();
            taken
        }
        fill(&mut sides, field);
        let first = take(&mut sides, 100);
        assert!(sides[0].pool.stock.b[..100].iter().all(|word| *word == 0));
        let second = take(&mut sides, 28);
        assert_eq!([first.len(), second.len()], [100, 28]);
        assert!(first.iter().all(|word| !second.contains(word)));
        let error = sides[0].pool.take(1).err();
        assert_eq!(error, Some(MpcError::NotEnoughTriples { needed: 1, stock: 0 }));
        assert_eq!(sides[0].pool.next_serial(), 128);
        // The place is used again only after it was wiped.
        for _ in 0..3 {
            fill(&mut sides, field);
        }
        assert_eq!(sides[0].pool.words(), 384);
        assert!(sides[0].pool.stock.a.iter().all(|word| !first.contains(word)));
    }

    #[test]
    fn a_pool_stays_where_it_is_with_all_that_a_run_may_have() {
        let field = FieldBits::Two;
        let mut sides = sides::<u64>(field, Kind::Bits, 2);
        let places = |side: &Side<u64>| [side.pool.stock.a.as_ptr(), side.pool.stock.b.as_ptr()];
        let before = places(&sides[0]);
        // As full as it may be, given to a run, and as full again;
        // then all of it once more, from other places.
        for first in [512, 150, 256] {
            while sides[0].pool.expects(sides[0].pool.completed).is_ok() {
                fill(&mut sides, field);
            }
            let full = sides[0].pool.words() as usize;
            for side in &mut sides {
                side.pool.take(first.min(full)).unwrap();
            }
            while sides[0].pool.expects(sides[0].pool.completed).is_ok() {
                fill(&mut sides, field);
            }
            sides.iter_mut().for_each(|side| side.pool.wipe_taken());
            assert_eq!(places(&sides[0]), before);
            let words = sides[0].pool.words() as usize;
            check(&mut sides, words.min(225));
        }
    }

    #[test]
    fn a_pool_takes_twice_its_capacity_and_no_more() {
        let field = FieldBits::Four;
        let mut sides = sides::<u64>(field, Kind::Bits, 1);
        assert!(sides[0].pool.lacks(u64::MAX));
        fill(&mut sides, field);
        assert!(!sides[0].pool.lacks(u64::MAX));
        fill(&mut sides, field);
        assert_eq!(sides[0].pool.expects(2), Err(MpcError::PoolOverflow));
        let out_of_step = Err(MpcError::Desynchronised("the number of a batch of triples"));
        assert_eq!(sides[0].pool.expects(1), out_of_step);
        assert_eq!(sides[0].pool.expects(3), out_of_step);
    }
}
