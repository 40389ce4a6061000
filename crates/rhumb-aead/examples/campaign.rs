//! Seals and opens random records with every backend that the processor has, and compares each byte
//! and tag with aws-lc's: `cargo run --release -p rhumb-aead --example campaign -- RECORDS SEED`.
//!
//! Each record differs in length (mostly packets', some up to 9,000 bytes), place in memory,
//! associated data, nonce and neighbours; keys are drawn anew every 64 calls. One of sixteen is
//! spoiled before it is opened. The program ends at the first difference, with what it takes to see
//! it again.

use rhumb_aead::{Algorithm, Backend, Choice, Key, MAX_RECORDS, Record, open, seal};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>().expect("a number"));
    let records = arguments.next().unwrap_or(1_000_000);
    let mut noise = Noise(arguments.next().unwrap_or(1));
    let backends: Vec<Backend> =
        Backend::ALL.into_iter().filter(|it| it.is_possible() && *it != Backend::Library).collect();
    println!("{backends:?} and what is chosen, beside the library");
    let mut texts = Noise(0);
    let pool: Vec<u8> = (0..POOL / 8).flat_map(|_| texts.word().to_le_bytes()).collect();
    let (mut done, mut told, mut bytes) = (0, 0, 0);
    while done < records {
        let start = noise.0;
        let keys = Keys::draw(&mut noise, &backends);
        for _ in 0..64 {
            let plans = draw(&mut noise);
            let expected = by_library(&plans, &keys, &pool);
            for own in &keys.own {
                if let Err(at) = check(&plans, own, &pool, &expected) {
                    eprintln!("record {at} of {plans:?} differs, {:?}", own[0]);
                    eprintln!("again: campaign 1 {start}");
                    std::process::exit(1);
                }
            }
            done += plans.len() as u64;
            bytes += plans.iter().map(|plan| plan.len as u64).sum::<u64>();
        }
        if done / TELL_EVERY > told {
            told = done / TELL_EVERY;
            println!("{done} records of {bytes} bytes, each by {} backends", keys.own.len());
        }
    }
    println!(
        "{done} records of {bytes} bytes, each by {} backends: no difference",
        backends.len() + 1
    );
}

/// The same keys for each way to compute.
struct Keys {
    library: Vec<Key>,
    own: Vec<Vec<Key>>,
}

impl Keys {
    fn draw(noise: &mut Noise, backends: &[Backend]) -> Self {
        let secrets: Vec<(Algorithm, Vec<u8>)> = (0..KEYS)
            .map(|at| {
                let algorithm = [Algorithm::Aes256Gcm, Algorithm::Aes128Gcm][at % 2];
                let words = algorithm.key_len() / 8;
                (algorithm, (0..words).flat_map(|_| noise.word().to_le_bytes()).collect())
            })
            .collect();
        let all = |make: &dyn Fn(Algorithm, &[u8]) -> Key| -> Vec<Key> {
            secrets.iter().map(|(algorithm, secret)| make(*algorithm, secret)).collect()
        };
        let own = backends.iter().map(|it| all(&|a, secret| Key::for_backend(a, secret, *it)));
        let chosen = all(&|algorithm, secret| Key::new(algorithm, secret, Choice::Fastest));
        Self {
            library: all(&|it, secret| Key::for_backend(it, secret, Backend::Library)),
            own: own.chain(std::iter::once(chosen)).collect(),
        }
    }
}

#[derive(Debug)]
struct Plan {
    key: usize,
    nonce: [u8; 12],
    text: usize,
    len: usize,
    place: usize,
    aad_len: usize,
    spoiled: Option<usize>,
}

/// A call's records: of any number up to the most, in one of the mixtures that matter.
fn draw(noise: &mut Noise) -> Vec<Plan> {
    let count = 1 + noise.below(MAX_RECORDS);
    let (mixture, common) = (noise.below(4), noise.below(2048));
    (0..count)
        .map(|_| {
            let len = match mixture {
                0 => noise.below(130),
                1 => common,
                _ if noise.below(64) == 0 => noise.below(9000),
                _ => noise.below(2048),
            };
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&noise.word().to_le_bytes());
            nonce[8..].copy_from_slice(&noise.word().to_le_bytes()[..4]);
            Plan {
                key: if noise.below(8) == 0 { noise.below(KEYS) } else { 0 },
                nonce,
                text: noise.below(POOL - 9000),
                len,
                place: noise.below(64),
                aad_len: if noise.below(16) == 0 { noise.below(100) } else { noise.below(17) },
                spoiled: (noise.below(16) == 0).then(|| noise.below(128)),
            }
        })
        .collect()
}

type Sealed = (Vec<u8>, [u8; 16]);

fn by_library(plans: &[Plan], keys: &Keys, pool: &[u8]) -> Vec<Sealed> {
    let sealed = plans.iter().map(|plan| {
        let mut bytes = pool[plan.text..][..plan.len].to_vec();
        let aad = &pool[..plan.aad_len];
        let tag = keys.library[plan.key].seal(plan.nonce, aad, &mut bytes);
        (bytes, tag)
    });
    sealed.collect()
}

/// The first record that differs.
fn check(plans: &[Plan], keys: &[Key], pool: &[u8], expected: &[Sealed]) -> Result<(), usize> {
    let mut buffers: Vec<Vec<u8>> = plans.iter().map(|it| vec![0; it.place + it.len]).collect();
    let mut records = Vec::with_capacity(plans.len());
    for (plan, buffer) in plans.iter().zip(&mut buffers) {
        let (text, aad) = (&pool[plan.text..][..plan.len], &pool[..plan.aad_len]);
        let bytes = &mut buffer[plan.place..];
        // Half of them from another buffer, half in place.
        records.push(if plan.place % 2 == 0 {
            Record::between(&keys[plan.key], plan.nonce, aad, text, bytes)
        } else {
            bytes.copy_from_slice(text);
            Record::in_place(&keys[plan.key], plan.nonce, aad, bytes)
        });
    }
    seal(&mut records);
    for (at, (record, (bytes, tag))) in records.iter_mut().zip(expected).enumerate() {
        if *record.bytes != **bytes || record.tag != *tag {
            return Err(at);
        }
        record.from = None;
        if let Some(bit) = plans[at].spoiled {
            record.tag[bit / 8] ^= 1 << (bit % 8);
        }
    }
    let opened = open(&mut records);
    for (at, (record, plan)) in records.iter().zip(plans).enumerate() {
        let is_right = match plan.spoiled {
            Some(_) => record.bytes.iter().all(|byte| *byte == 0),
            None => *record.bytes == pool[plan.text..][..plan.len],
        };
        if !is_right || opened.is_open(at) == plan.spoiled.is_some() {
            return Err(at);
        }
    }
    Ok(())
}

/// SplitMix64: random enough to draw lengths, and the same each time.
struct Noise(u64);

impl Noise {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }
}

const KEYS: usize = 4;
const POOL: usize = 64 << 10;
const TELL_EVERY: u64 = 10_000_000;
