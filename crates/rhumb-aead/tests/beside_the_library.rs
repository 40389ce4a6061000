//! Every backend gives what aws-lc gives, at every length, place in memory and length of associated
//! data. The counter of 32 bits is not seen to wrap: that is 2^32 blocks, and longer records are
//! refused.

use rhumb_aead::{Algorithm, Backend, Key, Record, open, seal};

use crate::{backends, noise};

const ALGORITHMS: [Algorithm; 2] = [Algorithm::Aes256Gcm, Algorithm::Aes128Gcm];

#[cfg(target_arch = "x86_64")]
#[test]
fn avx512_at_every_length_and_place() {
    every_length_and_place(Backend::Avx512);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx2_at_every_length_and_place() {
    every_length_and_place(Backend::Avx2);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn aes_ni_at_every_length_and_place() {
    every_length_and_place(Backend::AesNi);
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon_at_every_length_and_place() {
    every_length_and_place(Backend::Neon);
}

/// Lengths up to several parts of any backend, each at every place within a line of memory.
fn every_length_and_place(backend: Backend) {
    if !backend.is_possible() {
        println!("skipped: this processor has no {backend:?}");
        return;
    }
    for algorithm in ALGORITHMS {
        let (secret, plain) = (noise(1, algorithm.key_len()), noise(2, MOST));
        let library = Key::for_backend(algorithm, &secret, Backend::Library);
        let key = Key::for_backend(algorithm, &secret, backend);
        let (mut expected, mut buffer) = (vec![0; MOST], vec![0; MOST + 2 * 64]);
        for len in 0..=MOST {
            let nonce = noise(len as u64, 12).try_into().expect("12 bytes");
            let aad = &plain[..len % 21];
            expected[..len].copy_from_slice(&plain[..len]);
            let tag = library.seal(nonce, aad, &mut expected[..len]);
            for place in 0..64 {
                // What stands before and behind is not touched.
                buffer.fill(0xA5);
                let (before, rest) = buffer.split_at_mut(place);
                let (bytes, behind) = rest.split_at_mut(len);
                bytes.copy_from_slice(&plain[..len]);
                let context = (backend, algorithm, len, place);
                assert_eq!(key.seal(nonce, aad, bytes), tag, "{context:?}");
                assert!(*bytes == expected[..len], "sealed {context:?}");
                assert!(key.open(nonce, aad, bytes, &tag), "{context:?}");
                assert!(*bytes == plain[..len], "opened {context:?}");
                let is_untouched = before.iter().chain(&behind[..64]).all(|it| *it == 0xA5);
                assert!(is_untouched, "{context:?}");
            }
        }
    }
}

#[test]
fn every_length_of_associated_data() {
    let all = noise(3, 300);
    for algorithm in ALGORITHMS {
        let secret = noise(4, algorithm.key_len());
        let library = Key::for_backend(algorithm, &secret, Backend::Library);
        for backend in backends() {
            let key = Key::for_backend(algorithm, &secret, backend);
            for (aad_len, len) in
                (0..=64).chain([255, 300]).flat_map(|it| [0, 1, 64, 300].map(|len| (it, len)))
            {
                let (aad, nonce) = (&all[..aad_len], [aad_len as u8; 12]);
                let (mut ours, mut theirs) = (all[..len].to_vec(), all[..len].to_vec());
                let tag = key.seal(nonce, aad, &mut ours);
                assert_eq!(tag, library.seal(nonce, aad, &mut theirs), "{backend:?} {aad_len}");
                assert_eq!(ours, theirs, "{backend:?} {aad_len}");
                assert!(key.open(nonce, aad, &mut ours, &tag));
                assert!(!key.open(nonce, &[aad, &[0]].concat(), &mut theirs, &tag));
            }
        }
    }
}

/// Counters beyond one byte and beyond two.
#[test]
fn long_records() {
    for len in [4064, 4095, 9000, 65_536, 1_100_000] {
        let (secret, plain) = (noise(5, 32), noise(6, len));
        let library = Key::for_backend(Algorithm::Aes256Gcm, &secret, Backend::Library);
        let mut expected = plain.clone();
        let tag = library.seal([9; 12], b"long", &mut expected);
        for backend in backends() {
            let key = Key::for_backend(Algorithm::Aes256Gcm, &secret, backend);
            let mut bytes = plain.clone();
            assert_eq!(key.seal([9; 12], b"long", &mut bytes), tag, "{backend:?} {len}");
            assert!(bytes == expected, "{backend:?} {len}");
            assert!(key.open([9; 12], b"long", &mut bytes, &tag) && bytes == plain);
        }
    }
}

#[test]
fn from_one_buffer_to_another() {
    for backend in backends() {
        let key = Key::for_backend(Algorithm::Aes256Gcm, &noise(7, 32), backend);
        for len in 0..700 {
            let plain = noise(8, len);
            let (mut sealed, mut opened) = (vec![1; len], vec![2; len]);
            let mut records = [Record::between(&key, [3; 12], b"a", &plain, &mut sealed)];
            seal(&mut records);
            let tag = records[0].tag;
            let mut in_place = plain.clone();
            assert_eq!(key.seal([3; 12], b"a", &mut in_place), tag);
            assert_eq!(in_place, sealed);
            assert!(key.open_into([3; 12], b"a", &sealed, &tag, &mut opened));
            assert_eq!(opened, plain, "{backend:?} {len}");
            // What does not hold leaves the source alone, and nothing in the other buffer.
            let mut records =
                [Record::between(&key, [4; 12], b"a", &sealed, &mut opened).with_tag(tag)];
            assert!(!open(&mut records).is_open(0));
            assert_eq!((opened, sealed), (vec![0; len], in_place), "{backend:?}");
        }
    }
}

const MOST: usize = 2048;
