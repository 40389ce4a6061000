//! The `aes` crate's instructions or software, and what compilers make of plain loops.

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use super::{
    Aligned, Quad, ROW_BLOCKS, Row, Squares, add_kept_streams, add_selected_lanes, fold_rows,
    turn_rows,
};

pub(super) fn ciphers(seeds: &[u128]) -> Vec<Aes128Enc> {
    seeds.iter().map(|seed| Aes128Enc::new(&seed.to_le_bytes().into())).collect()
}

pub(super) fn children(seeds: &[u128], blocks: [u128; 2], children: &mut [[u128; 2]]) {
    for (seed, pair) in seeds.iter().zip(children) {
        let key = Aes128Enc::new(&seed.to_le_bytes().into());
        let mut blocks: [aes::Block; 2] = blocks.map(|block| block.to_le_bytes().into());
        key.encrypt_blocks(&mut blocks);
        *pair = blocks.map(|block| u128::from_le_bytes(block.into()));
    }
}

pub(super) fn stretch(ciphers: &[Aes128Enc], first: u128, streams: &mut [Quad]) {
    let quads = streams.len() / ciphers.len();
    for (cipher, stream) in ciphers.iter().zip(streams.chunks_exact_mut(quads)) {
        let words = stream.as_flattened_mut().as_chunks_mut::<2>().0;
        for (number, words) in words.iter_mut().enumerate() {
            *words = halves(first + number as u128);
        }
        for words in words.chunks_mut(ROW_BLOCKS) {
            encrypt(cipher, words);
        }
    }
}

pub(super) fn turn(squares: &mut Squares) {
    turn_rows(squares);
}

pub(super) fn fold(streams: &mut [Row], rows: &mut [Row]) {
    fold_rows(streams, rows);
}

pub(super) fn add_selected(sums: &mut [Aligned<Quad>], bits: &[u64], vectors: &[Aligned<Quad>]) {
    add_selected_lanes(sums, bits, vectors);
}

pub(super) fn add_streams(streams: &[Quad], keep: &[u64], all: &mut [Quad], each: &mut [Quad]) {
    add_kept_streams(streams, keep, all, each);
}

pub(super) fn hash(rows: &mut [Row], keys: &[u128; ROW_BLOCKS]) {
    for (column, key) in keys.iter().enumerate() {
        let cipher = Aes128Enc::new(&key.to_le_bytes().into());
        for rows in rows.chunks_mut(ROW_BLOCKS) {
            let mut mixed = [[0; 2]; ROW_BLOCKS];
            for (mixed, row) in mixed.iter_mut().zip(&*rows) {
                *mixed = mix(block(row, column), [0, 0]);
            }
            let mut hashed = mixed;
            encrypt(&cipher, &mut hashed);
            for ((row, hashed), mixed) in rows.iter_mut().zip(&hashed).zip(&mixed) {
                let words = &mut row.as_flattened_mut()[2 * column..2 * column + 2];
                words.copy_from_slice(&[hashed[0] ^ mixed[0], hashed[1] ^ mixed[1]]);
            }
        }
    }
}

pub(super) fn hash_to_bits(
    squares: &Squares,
    delta: u128,
    keys: &[u128; ROW_BLOCKS],
) -> [u64; 2 * ROW_BLOCKS] {
    let delta = halves(delta);
    let mut bits = [0; 2 * ROW_BLOCKS];
    for (column, key) in keys.iter().enumerate() {
        let cipher = Aes128Enc::new(&key.to_le_bytes().into());
        for (number, rows) in squares.chunks_exact(ROW_BLOCKS).enumerate() {
            let mut mixed = [[0; 2]; ROW_BLOCKS];
            for (mixed, row) in mixed.iter_mut().zip(rows) {
                *mixed = mix(block(row, column), delta);
            }
            let mut hashed = mixed;
            encrypt(&cipher, &mut hashed);
            let word = &mut bits[2 * column + number / 4];
            for (at, (hashed, mixed)) in hashed.iter().zip(&mixed).enumerate() {
                *word |= ((hashed[0] ^ mixed[0]) & 1) << (number % 4 * ROW_BLOCKS + at);
            }
        }
    }
    bits
}

/// `s(x + delta)`: linear, a permutation, and a permutation still when its argument is added.
#[inline]
fn mix(block: [u64; 2], delta: [u64; 2]) -> [u64; 2] {
    let [low, high] = [block[0] ^ delta[0], block[1] ^ delta[1]];
    [high, low ^ high]
}

#[inline]
fn block(row: &Row, column: usize) -> [u64; 2] {
    let words = row.as_flattened();
    [words[2 * column], words[2 * column + 1]]
}

#[inline]
fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// Up to a row of blocks.
#[inline]
fn encrypt(cipher: &Aes128Enc, values: &mut [[u64; 2]]) {
    let mut blocks = [aes::Block::default(); ROW_BLOCKS];
    for (block, value) in blocks.iter_mut().zip(&*values) {
        let value = u128::from(value[1]) << 64 | u128::from(value[0]);
        *block = value.to_le_bytes().into();
    }
    let used = &mut blocks[..values.len()];
    cipher.encrypt_blocks(used);
    for (value, block) in values.iter_mut().zip(used) {
        *value = halves(u128::from_le_bytes((*block).into()));
    }
}
