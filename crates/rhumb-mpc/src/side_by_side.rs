//! What all transfers of a chunk go through, sixteen blocks of 128 bits side by
//! side: AES under one key or under sixteen, and squares turned over their diagonal.
//! It is nearly all of the work of the set-up phase.
//!
//! Invariant: `portable` and `x86_64` give the same. `unsafe` stands only here, where the latter is
//! called, and where it loads and stores.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use zeroize::Zeroize;

/// Blocks of a row.
pub(crate) const ROW_BLOCKS: usize = 16;
/// Four blocks, each the low half first: what the widest registers hold.
pub(crate) type Quad = [u64; 8];
/// Sixteen blocks.
pub(crate) type Row = [Quad; ROW_BLOCKS / 4];
/// Of bits, sixteen squares: block `b` of all rows is one. Of transfers, block `b` of row `j` is
/// the value of transfer `128 b + j`.
pub(crate) type Squares = [Row; 128];

/// On whole lines of the cache: a register's load or store then takes one, not two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, zeroize::Zeroize)]
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

/// Generators that stretch seeds, to be used together. Wiped when dropped.
pub(crate) struct Generators {
    ciphers: Ciphers,
}

enum Ciphers {
    #[cfg(target_arch = "x86_64")]
    Wide(Vec<x86_64::Schedule>),
    Portable(Vec<aes::Aes128Enc>),
}

impl Generators {
    pub(crate) fn new(seeds: &[u128]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_wide() {
            let mut schedules = vec![x86_64::NO_SCHEDULE; seeds.len()];
            #[allow(
                unsafe_code,
                reason = "a function for processors with AVX-512 is called on one"
            )]
            // SAFETY: the condition of `x86_64`'s functions is what `is_wide` has asked for.
            unsafe {
                x86_64::expand_all(seeds, &mut schedules);
            }
            return Self { ciphers: Ciphers::Wide(schedules) };
        }
        Self { ciphers: Ciphers::Portable(portable::ciphers(seeds)) }
    }

    /// The streams of the generators in `which`, one after the other, in equal
    /// parts of `streams`. Block `i` of a stream is the encryption of `first + i`;
    /// the sum must not carry into the high half.
    #[inline]
    pub(crate) fn stretch(&self, which: std::ops::Range<usize>, first: u128, streams: &mut [Quad]) {
        match &self.ciphers {
            #[cfg(target_arch = "x86_64")]
            #[allow(
                unsafe_code,
                reason = "a function for processors with AVX-512 is called on one"
            )]
            // SAFETY: `Wide` is made only where `is_wide` says so, which
            // is the condition of `x86_64`'s functions.
            Ciphers::Wide(schedules) => unsafe {
                x86_64::stretch(&schedules[which], first, streams);
            },
            Ciphers::Portable(ciphers) => portable::stretch(&ciphers[which], first, streams),
        }
    }
}

impl Drop for Generators {
    fn drop(&mut self) {
        match &mut self.ciphers {
            #[cfg(target_arch = "x86_64")]
            Ciphers::Wide(schedules) => schedules.zeroize(),
            // These wipe themselves.
            Ciphers::Portable(_) => {}
        }
    }
}

/// Calls a function of `x86_64` where the processor has what it takes, and of `portable` elsewhere.
macro_rules! either {
    ($name:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if is_wide() {
            #[allow(unsafe_code, reason = "a function for processors with AVX-512 is called on one")]
            // SAFETY: the condition of `x86_64`'s functions is what `is_wide` has asked for.
            return unsafe { x86_64::$name($($argument),*) };
        }
        portable::$name($($argument),*)
    }};
}

/// Both blocks, encrypted under each seed.
#[inline]
pub(crate) fn children(seeds: &[u128], blocks: [u128; 2], children: &mut [[u128; 2]]) {
    either!(children(seeds, blocks, children));
}

/// In each of the sixteen squares bit `j` of row `i` becomes bit `i` of row `j`.
#[inline]
pub(crate) fn turn(squares: &mut Squares) {
    either!(turn(squares));
}

/// `E(k, s(x)) ^ s(x)` with `s(l | r) = l^r | l`, of each block `x`, under the key of its column.
#[inline]
pub(crate) fn hash(rows: &mut [Row], keys: &[u128; ROW_BLOCKS]) {
    either!(hash(rows, keys));
}

/// The lowest bits of [`hash`] of all blocks plus `delta`, 64 to a word;
/// the words of a column are one after the other.
#[inline]
pub(crate) fn hash_to_bits(
    squares: &Squares,
    delta: u128,
    keys: &[u128; ROW_BLOCKS],
) -> [u64; 2 * ROW_BLOCKS] {
    either!(hash_to_bits(squares, delta, keys))
}

/// Leaves in `streams[0]` the sum of all streams, in `rows[level]` that of those whose number has
/// the level's bit, the highest first.
#[inline]
pub(crate) fn fold(streams: &mut [Row], rows: &mut [Row]) {
    either!(fold(streams, rows));
}

/// Adds to each sum the vector of its lane, where the lane's bit is one. A
/// word of bits has 64 lanes, in sixteen quads.
#[inline]
pub(crate) fn add_selected(sums: &mut [Aligned<Quad>], bits: &[u64], vectors: &[Aligned<Quad>]) {
    either!(add_selected(sums, bits, vectors));
}

/// Adds each stream to `all` and to its own part of `each`, masked by its word of `keep`.
#[inline]
pub(crate) fn add_streams(streams: &[Quad], keep: &[u64], all: &mut [Quad], each: &mut [Quad]) {
    either!(add_streams(streams, keep, all, each));
}

/// Whether `x86_64` may be used here.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_wide() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("vaes")
}

/// Swaps ever smaller squares (Hacker's Delight, section 7-3). A square of 64 goes across words;
/// smaller ones do not, and compilers make wide instructions of their loops.
#[inline(always)]
fn turn_rows(squares: &mut Squares) {
    let (upper, lower) = squares.split_at_mut(64);
    for (upper, lower) in upper.as_flattened_mut().iter_mut().zip(lower.as_flattened_mut()) {
        for (upper, lower) in upper.as_chunks_mut::<2>().0.iter_mut().zip(lower.as_chunks_mut().0) {
            let [_, high]: &mut [u64; 2] = upper;
            let [low, _]: &mut [u64; 2] = lower;
            std::mem::swap(high, low);
        }
    }
    swap_squares::<32>(squares, 0x0000_0000_ffff_ffff);
    swap_squares::<16>(squares, 0x0000_ffff_0000_ffff);
    swap_squares::<8>(squares, 0x00ff_00ff_00ff_00ff);
    swap_squares::<4>(squares, 0x0f0f_0f0f_0f0f_0f0f);
    swap_squares::<2>(squares, 0x3333_3333_3333_3333);
    swap_squares::<1>(squares, 0x5555_5555_5555_5555);
}

#[inline(always)]
fn swap_squares<const SIDE: usize>(squares: &mut Squares, low: u64) {
    for rows in squares.chunks_exact_mut(2 * SIDE) {
        let (upper, lower) = rows.split_at_mut(SIDE);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            let words = upper.as_flattened_mut().iter_mut().zip(lower.as_flattened_mut());
            for (upper, lower) in words {
                let exchanged = ((*upper >> SIDE) ^ *lower) & low;
                *lower ^= exchanged;
                *upper ^= exchanged << SIDE;
            }
        }
    }
}

#[inline(always)]
fn fold_rows(streams: &mut [Row], rows: &mut [Row]) {
    let mut streams = streams;
    for row in rows.iter_mut() {
        let half = streams.len() / 2;
        let (low, high) = streams.split_at_mut(half);
        let sum = row.as_flattened_mut();
        sum.fill(0);
        for (low, high) in low.iter_mut().zip(high) {
            let words = low.as_flattened_mut().iter_mut().zip(high.as_flattened_mut());
            for ((low, high), sum) in words.zip(sum.iter_mut()) {
                *low ^= *high;
                *sum ^= *high;
            }
        }
        streams = low;
    }
}

#[inline(always)]
fn add_selected_lanes(sums: &mut [Aligned<Quad>], bits: &[u64], vectors: &[Aligned<Quad>]) {
    let words = sums.chunks_exact_mut(16).zip(vectors.chunks_exact(16)).zip(bits);
    for ((sums, vectors), bits) in words {
        for (quad, (sum, vector)) in sums.iter_mut().zip(vectors).enumerate() {
            for (half, (sum, vector)) in sum.0.iter_mut().zip(&vector.0).enumerate() {
                let lane = 4 * quad + half / 2;
                *sum ^= vector & 0_u64.wrapping_sub(bits >> lane & 1);
            }
        }
    }
}

#[inline(always)]
fn add_kept_streams(streams: &[Quad], keep: &[u64], all: &mut [Quad], each: &mut [Quad]) {
    let len = all.len();
    let streams = streams.chunks_exact(len).zip(each.chunks_exact_mut(len)).zip(keep);
    for ((stream, own), keep) in streams {
        for (stream, (all, own)) in stream.iter().zip(all.iter_mut().zip(own)) {
            for (word, (all, own)) in stream.iter().zip(all.iter_mut().zip(own)) {
                let kept = word & keep;
                *all ^= kept;
                *own ^= kept;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        *state ^ *state >> 29
    }

    fn squares(seed: u64) -> Box<Squares> {
        let mut state = seed;
        let mut squares = Box::new([[[0; 8]; 4]; 128]);
        for quad in squares.as_flattened_mut() {
            *quad = std::array::from_fn(|_| random(&mut state));
        }
        squares
    }

    fn block(row: &Row, number: usize) -> u128 {
        let words = row.as_flattened();
        u128::from(words[2 * number + 1]) << 64 | u128::from(words[2 * number])
    }

    #[test]
    fn every_bit_is_where_it_belongs() {
        let rows = squares(1);
        let mut turned = rows.clone();
        turn(&mut turned);
        for number in [0, 7, 15] {
            for (i, row) in rows.iter().enumerate() {
                for (j, column) in turned.iter().enumerate() {
                    assert_eq!(block(row, number) >> j & 1, block(column, number) >> i & 1);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn both_ways_give_the_same(
            seed in any::<u64>(),
            delta in any::<u128>(),
            keys in prop::array::uniform16(any::<u128>()),
            depth in 1_usize..=4,
            quads in 1_usize..6,
        ) {
            let mut rows = [squares(seed), squares(seed)];
            turn(&mut rows[0]);
            portable::turn(&mut rows[1]);
            prop_assert!(rows[0] == rows[1]);

            let bits = hash_to_bits(&rows[0], delta, &keys);
            prop_assert_eq!(bits, portable::hash_to_bits(&rows[1], delta, &keys));
            // The number of rows need not be even.
            hash(&mut rows[0][..127], &keys);
            portable::hash(&mut rows[1][..127], &keys);
            prop_assert!(rows[0] == rows[1]);

            let mut sums = [[[[0; 8]; 4]; 4]; 2];
            fold(&mut rows[0][..1 << depth], &mut sums[0][..depth]);
            portable::fold(&mut rows[1][..1 << depth], &mut sums[1][..depth]);
            prop_assert!(rows[0] == rows[1] && sums[0] == sums[1]);

            let mut pairs = [[[0; 2]; 15]; 2];
            children(&keys[1..], [delta, !delta], &mut pairs[0]);
            portable::children(&keys[1..], [delta, !delta], &mut pairs[1]);
            prop_assert_eq!(pairs[0], pairs[1]);

            let first = 5_u128 << 64 | u128::from(seed >> 8);
            let mut streams = [vec![[0; 8]; 14 * quads], vec![[0; 8]; 14 * quads]];
            Generators::new(&keys).stretch(1..15, first, &mut streams[0]);
            portable::stretch(&portable::ciphers(&keys)[1..15], first, &mut streams[1]);
            prop_assert!(streams[0] == streams[1]);
        }
    }

    #[test]
    fn the_vectors_of_lanes_whose_bit_is_one_are_added() {
        let vectors: Vec<Aligned<Quad>> =
            squares(2).as_flattened()[..48].iter().map(|quad| Aligned(*quad)).collect();
        let bits = [0x0123_4567_89ab_cdef, 0, u64::MAX];
        let before: Vec<Aligned<Quad>> =
            squares(3).as_flattened()[..48].iter().map(|quad| Aligned(*quad)).collect();
        let mut sums = [before.clone(), before.clone()];
        add_selected(&mut sums[0], &bits, &vectors);
        portable::add_selected(&mut sums[1], &bits, &vectors);
        assert!(sums[0] == sums[1]);
        for (lane, bit) in (0..192).map(|lane| (lane, bits[lane / 64] >> (lane % 64) & 1)) {
            for half in 0..2 {
                let at = |quads: &[Aligned<Quad>]| quads[lane / 4].0[lane % 4 * 2 + half];
                assert_eq!(at(&sums[0]) ^ at(&before), bit * at(&vectors), "lane {lane}");
            }
        }
    }

    /// FIPS 197, appendix C.1.
    #[test]
    fn the_cipher_is_aes_128() {
        let key = u128::from_le_bytes(std::array::from_fn(|i| i as u8));
        let plain = u128::from_le_bytes(std::array::from_fn(|i| i as u8 * 0x11));
        let mut stream = [[0; 8]; 2];
        Generators::new(&[key]).stretch(0..1, plain, &mut stream);
        let first = u128::from(stream[0][1]) << 64 | u128::from(stream[0][0]);
        assert_eq!(first.swap_bytes(), 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a);
    }
}
