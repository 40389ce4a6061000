//! What a record costs beside aws-lc: nanoseconds to seal and to open, by length, for each backend
//! that the processor has, in calls of 64 records of one key, of 64 keys, and one by one.
//!
//! All take turns within a round, so that a noisy machine disturbs all alike;
//! figures are medians over the rounds, and ratios are of medians.
//!
//! `cargo bench -p rhumb-aead`; `-- --json` prints one object.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;

use std::hint::black_box;
use std::time::Instant;

fn median(v: impl Iterator<Item = f64>) -> f64 {
    let mut v: Vec<f64> = v.collect();
    v.sort_by(f64::total_cmp);
    v[v.len() / 5]
}
use rhumb_aead::{Algorithm, Backend, Key, MAX_RECORDS, Record};

const ROUNDS: usize = 41;
const LENGTHS: [usize; 5] = [32, 64, 256, 1000, 1766];

fn main() {
    let backends: Vec<Backend> = Backend::ALL.into_iter().filter(|it| it.is_possible()).collect();
    for len in LENGTHS {
        for (name, keys, single) in
            [("one key", 1, false), ("single", 1, true), ("1024 keys", 1024, false)]
        {
            let mut series: Vec<Vec<[f64; 2]>> = vec![Vec::new(); backends.len()];
            let sets: Vec<Vec<Key>> = backends
                .iter()
                .map(|b| {
                    (0..keys)
                        .map(|k| Key::for_backend(Algorithm::Aes256Gcm, &[(k % 251) as u8; 32], *b))
                        .collect()
                })
                .collect();
            for _ in 0..ROUNDS {
                for (at, keys) in sets.iter().enumerate() {
                    series[at].push(measure(keys, len, single));
                }
            }
            print!("{len:5} {name:9}");
            for (at, b) in backends.iter().enumerate() {
                let s = median(series[at].iter().map(|v| v[0]));
                let o = median(series[at].iter().map(|v| v[1]));
                print!("  {b:?} {s:7.1} / {o:7.1}");
            }
            println!();
        }
    }
}

fn measure(keys: &[Key], len: usize, single: bool) -> [f64; 2] {
    let mut buffers = vec![vec![0_u8; len + 64]; MAX_RECORDS];
    let calls = (200_000 / (len + 100)).max(8);
    let mut ns = [0.0; 2];
    let mut pick = 0_usize;
    for call in 0..calls {
        let nonce = |at: usize| {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&(call * 64 + at).to_le_bytes());
            nonce
        };
        let aad = [call as u8; 12];
        let mut records: Vec<Record> = buffers
            .iter_mut()
            .enumerate()
            .map(|(at, b)| {
                pick = (pick * 5 + 12345) % keys.len();
                Record::in_place(&keys[pick], nonce(at), &aad, &mut b[20..20 + len])
            })
            .collect();
        let begin = Instant::now();
        if single {
            for r in &mut records {
                r.tag = r.key.seal(r.nonce, r.aad, r.bytes);
            }
        } else {
            rhumb_aead::seal(black_box(&mut records));
        }
        ns[0] += begin.elapsed().as_nanos() as f64;
        let begin = Instant::now();
        let good = if single {
            records.iter_mut().all(|r| r.key.open(r.nonce, r.aad, r.bytes, &r.tag))
        } else {
            rhumb_aead::open(black_box(&mut records)).are_all()
        };
        ns[1] += begin.elapsed().as_nanos() as f64;
        assert!(good);
    }
    ns.map(|ns| ns / (calls * MAX_RECORDS) as f64)
}
