//! Seals and opens records with keys and plaintexts that SEED decides, and tells nothing of them:
//! `cargo run -p rhumb-aead --example same_path -- SEED [leak]`.
//!
//! Which instructions a processor executes meanwhile must not depend on SEED. An emulator tells
//! which they are, so `cargo xtask test` compares two seeds on aarch64, where valgrind follows
//! nothing. With `leak` there is a branch that does depend on it, which must be noticed.

use std::hint::black_box;

use rhumb_aead::{Algorithm, Choice, Key, Record, open, seal};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().and_then(|it| it.parse().ok()).expect("a number to begin with");
    let mut noise = Noise(seed);
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm] {
        let secret = noise.bytes(algorithm.key_len());
        let key = Key::new(algorithm, &secret, Choice::Own);
        for len in (0..150).chain([256, 300, 1000]) {
            run(&key, len, &mut noise);
        }
    }
    if arguments.next().is_some_and(|it| it == "leak") && noise.bytes(1)[0] & 1 == 1 {
        leak();
    }
}

fn run(key: &Key, len: usize, noise: &mut Noise) {
    let mut buffers = [len, len + 1, len / 2].map(|len| noise.bytes(len));
    let mut records = buffers
        .each_mut()
        .map(|bytes| Record::in_place(key, [len as u8; 12], &AAD[..len % AAD.len()], bytes));
    seal(&mut records);
    records[1].tag[len % 16] ^= 1 << (len % 8);
    assert_eq!(open(&mut records).bits(), 0b101);
}

#[inline(never)]
fn leak() {
    black_box(0);
}

/// SplitMix64, which has no branch.
struct Noise(u64);

impl Noise {
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.word().to_le_bytes());
        words.take(len).collect()
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

const AAD: &[u8; 40] = &[9; 40];
