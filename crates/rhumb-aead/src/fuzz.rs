//! What must hold of any records.

use crate::{Algorithm, Backend, Choice, Key, MAX_RECORDS, NONCE_LEN, Record, open, seal};

/// Every backend seals records as aws-lc does, alone and in a batch of any mixture; what was sealed
/// opens, what was spoiled does not and leaves zeros, and no record has an effect on another.
///
/// Each three bytes are a record: its key and what is spoiled, its length, where it stands and how
/// much associated data it has. The bytes are the keys and texts, too.
pub fn aead(data: &[u8]) {
    let plans: Vec<Plan> =
        data.as_chunks::<3>().0.iter().take(MAX_RECORDS).map(|bytes| Plan::of(*bytes)).collect();
    let pool: Vec<u8> = data.iter().copied().cycle().take(POOL).collect();
    let pool = if pool.is_empty() { vec![0; POOL] } else { pool };
    let expected: Vec<Sealed> = plans
        .iter()
        .enumerate()
        .map(|(at, plan)| {
            let key = plan.key(&pool, |it, secret| Key::for_backend(it, secret, Backend::Library));
            let mut bytes = plan.text(&pool).to_vec();
            let tag = key.seal(nonce(at), plan.aad(&pool), &mut bytes);
            Sealed { bytes, tag }
        })
        .collect();
    for backend in Backend::ALL.into_iter().filter(|it| it.is_possible()) {
        check(&plans, &pool, &expected, |it, secret| Key::for_backend(it, secret, backend));
    }
    check(&plans, &pool, &expected, |it, secret| Key::new(it, secret, Choice::Fastest));
}

fn check(
    plans: &[Plan],
    pool: &[u8],
    expected: &[Sealed],
    make: impl Fn(Algorithm, &[u8]) -> Key + Copy,
) {
    let keys = [0, 1, 2, 3].map(|key| Plan { key, ..Plan::of([0; 3]) }.key(pool, make));
    let mut buffers: Vec<Vec<u8>> = plans.iter().map(|plan| vec![0; plan.place]).collect();
    let mut records = Vec::new();
    for ((at, plan), buffer) in plans.iter().enumerate().zip(&mut buffers) {
        buffer.extend_from_slice(plan.text(pool));
        let bytes = &mut buffer[plan.place..];
        records.push(Record::in_place(&keys[plan.key], nonce(at), plan.aad(pool), bytes));
    }
    seal(&mut records);
    for (record, expected) in records.iter().zip(expected) {
        assert_eq!((&*record.bytes, record.tag), (&*expected.bytes, expected.tag));
    }
    for (record, plan) in records.iter_mut().zip(plans) {
        if plan.is_spoiled {
            record.tag[plan.place % 16] ^= 1 << (plan.key + 4 * (plan.len % 2));
        }
    }
    let opened = open(&mut records);
    for (at, (record, plan)) in records.iter().zip(plans).enumerate() {
        assert_eq!(opened.is_open(at), !plan.is_spoiled);
        let zeros = vec![0; plan.len];
        assert_eq!(*record.bytes, *if plan.is_spoiled { &zeros } else { plan.text(pool) });
    }
}

struct Sealed {
    bytes: Vec<u8>,
    tag: [u8; 16],
}

struct Plan {
    key: usize,
    is_spoiled: bool,
    len: usize,
    place: usize,
    aad_len: usize,
}

impl Plan {
    fn of([kind, len, rest]: [u8; 3]) -> Self {
        // Mostly the first key; lengths up to 2047, and few beyond what is left to the library.
        let key = if kind & 0x0C == 0 { usize::from(kind >> 4 & 3) } else { 0 };
        let long = if kind & 0xC0 == 0xC0 { 2560 } else { 0 };
        Self {
            key,
            is_spoiled: kind & 3 == 3,
            len: usize::from(len) + 256 * usize::from(kind >> 4 & 7) + long,
            place: usize::from(rest & 63),
            aad_len: usize::from(rest >> 2),
        }
    }

    fn key(&self, pool: &[u8], make: impl Fn(Algorithm, &[u8]) -> Key) -> Key {
        let algorithm = [Algorithm::Aes256Gcm, Algorithm::Aes128Gcm][self.key % 2];
        make(algorithm, &pool[self.key..][..algorithm.key_len()])
    }

    fn text<'p>(&self, pool: &'p [u8]) -> &'p [u8] {
        &pool[self.place..][..self.len]
    }

    fn aad<'p>(&self, pool: &'p [u8]) -> &'p [u8] {
        &pool[..self.aad_len]
    }
}

fn nonce(at: usize) -> [u8; NONCE_LEN] {
    [at as u8; NONCE_LEN]
}

/// More than any text and place.
const POOL: usize = 5000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            super::aead(&data);
        }
    }
}
