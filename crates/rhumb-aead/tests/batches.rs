//! Many records in one call: each comes out as by itself, whatever stands beside it.

use proptest::prelude::*;
use rhumb_aead::{Algorithm, Backend, Choice, Key, MAX_RECORDS, Record, open, seal};

use crate::{backends, noise};

/// One record of a batch: which key, how long, where in memory, and what is spoiled before opening.
#[derive(Clone, Debug)]
struct Plan {
    key: usize,
    len: usize,
    place: usize,
    aad_len: usize,
    spoiled: Option<Spoiled>,
}

#[derive(Clone, Copy, Debug)]
enum Spoiled {
    Tag(usize),
    Bytes(usize),
    Nonce,
    Aad,
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let spoiled = prop_oneof![
        6 => Just(None),
        1 => (0..128_usize).prop_map(|bit| Some(Spoiled::Tag(bit))),
        1 => any::<usize>().prop_map(|bit| Some(Spoiled::Bytes(bit))),
        1 => Just(Some(Spoiled::Nonce)),
        1 => Just(Some(Spoiled::Aad)),
    ];
    // Mostly one key, and mostly short: such are worked on together.
    let key = prop_oneof![6 => Just(0_usize), 1 => 0..KEYS];
    let len = prop_oneof![3 => 0..130_usize, 2 => 0..1400_usize, 1 => 4000..4200_usize];
    let plan = (key, len, 0..64_usize, 0..40_usize, spoiled)
        .prop_map(|(key, len, place, aad_len, spoiled)| Plan { key, len, place, aad_len, spoiled });
    // Runs of one length, too.
    let runs = (plan.clone(), 1..9_usize).prop_map(|(plan, count)| vec![plan; count]);
    prop_oneof![
        prop::collection::vec(plan, 0..=MAX_RECORDS),
        prop::collection::vec(runs, 0..=7).prop_map(|runs| runs.concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_record_is_as_by_itself(plans in plans(), seed in any::<u64>()) {
        for backend in backends() {
            check(&plans, seed, |algorithm, secret| Key::for_backend(algorithm, secret, backend));
        }
        for choice in [Choice::Fastest, Choice::Own] {
            check(&plans, seed, |algorithm, secret| Key::new(algorithm, secret, choice));
        }
    }
}

fn check(plans: &[Plan], seed: u64, key: impl Fn(Algorithm, &[u8]) -> Key) {
    let algorithm = |at: usize| [Algorithm::Aes256Gcm, Algorithm::Aes128Gcm][at % 2];
    let secret = |at: usize| noise(seed ^ at as u64, algorithm(at).key_len());
    let keys: Vec<Key> = (0..KEYS).map(|at| key(algorithm(at), &secret(at))).collect();
    let nonce = |at: usize| noise(seed ^ at as u64 ^ 0xFF00, 12).try_into().expect("12 bytes");
    let aad = noise(seed, 64);
    let plain: Vec<Vec<u8>> =
        plans.iter().enumerate().map(|(at, plan)| noise(seed ^ at as u64, plan.len)).collect();
    let mut buffers: Vec<Vec<u8>> = plans.iter().map(|plan| vec![0; plan.place]).collect();
    buffers.iter_mut().zip(&plain).for_each(|(buffer, plain)| buffer.extend(plain));
    let records = |buffers: &mut Vec<Vec<u8>>, run: &mut dyn FnMut(&mut [Record<'_>])| {
        let mut records: Vec<Record<'_>> = plans
            .iter()
            .zip(buffers)
            .enumerate()
            .map(|(at, (plan, buffer))| {
                let bytes = &mut buffer[plan.place..];
                Record::in_place(&keys[plan.key], nonce(at), &aad[..plan.aad_len], bytes)
            })
            .collect();
        run(&mut records);
    };
    let mut tags = Vec::new();
    records(&mut buffers, &mut |records| {
        seal(records);
        tags = records.iter().map(|record| record.tag).collect();
    });
    for (at, plan) in plans.iter().enumerate() {
        let library = Key::for_backend(algorithm(plan.key), &secret(plan.key), Backend::Library);
        let mut expected = plain[at].clone();
        let tag = library.seal(nonce(at), &aad[..plan.aad_len], &mut expected);
        assert_eq!((&buffers[at][plan.place..], tags[at]), (&expected[..], tag), "{at} {plan:?}");
    }
    records(&mut buffers, &mut |records| {
        let mut holds = Vec::new();
        for ((record, plan), tag) in records.iter_mut().zip(plans).zip(&tags) {
            record.tag = *tag;
            holds.push(!spoil(record, plan.spoiled));
        }
        let opened = open(records);
        assert_eq!(opened.are_all(), holds.iter().all(|it| *it));
        for (at, (record, holds)) in records.iter().zip(holds).enumerate() {
            assert_eq!(opened.is_open(at), holds, "{at} {:?}", plans[at]);
            let expected = if holds { plain[at].clone() } else { vec![0; plans[at].len] };
            assert!(*record.bytes == expected, "{at} {:?}", plans[at]);
        }
        assert!(!opened.is_open(plans.len()));
    });
}

/// Whether there was anything to spoil.
fn spoil(record: &mut Record<'_>, how: Option<Spoiled>) -> bool {
    match how {
        None => return false,
        Some(Spoiled::Tag(bit)) => record.tag[bit / 8] ^= 1 << (bit % 8),
        Some(Spoiled::Bytes(_)) if record.bytes.is_empty() => return false,
        Some(Spoiled::Bytes(bit)) => {
            let len = record.bytes.len();
            record.bytes[bit / 8 % len] ^= 1 << (bit % 8);
        }
        Some(Spoiled::Nonce) => record.nonce[11] ^= 1,
        Some(Spoiled::Aad) if record.aad.is_empty() => record.aad = b"\0",
        Some(Spoiled::Aad) => record.aad = &record.aad[1..],
    }
    true
}

/// Every bit of a tag counts.
#[test]
fn a_tag_holds_in_all_its_bits() {
    for backend in backends() {
        let key = Key::for_backend(Algorithm::Aes256Gcm, &[1; 32], backend);
        let mut sealed = *b"a few bytes";
        let tag = key.seal([2; 12], b"", &mut sealed);
        for bit in 0..128 {
            let (mut wrong, mut bytes) = (tag, sealed);
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.open([2; 12], b"", &mut bytes, &wrong), "{backend:?} {bit}");
            assert_eq!(bytes, [0; 11]);
        }
        assert!(key.open([2; 12], b"", &mut sealed, &tag));
    }
}

#[test]
fn a_choice_is_kept() {
    for choice in [Choice::Library, Choice::Fastest, Choice::Own] {
        let key = Key::new(Algorithm::Aes256Gcm, &[0; 32], choice);
        assert_eq!(key.backend(), Backend::of(choice));
    }
    assert_eq!(Backend::of(Choice::Library), Backend::Library);
}

/// Nobody has measured Neon, so it is taken by whoever asks for it alone.
#[test]
fn what_is_fastest_was_measured() {
    let (fastest, own) = (Backend::of(Choice::Fastest), Backend::of(Choice::Own));
    assert_eq!(own, backends().next().unwrap());
    assert_eq!(fastest, if own == Backend::Neon { Backend::Library } else { own });
}

#[test]
fn what_is_shown_of_a_key_is_no_secret() {
    let key = Key::new(Algorithm::Aes128Gcm, &[0xAB; 16], Choice::default());
    let shown = format!("{key:?}");
    assert_eq!(shown, format!("Key {{ backend: {:?}, .. }}", key.backend()));
}

#[test]
#[should_panic(expected = "at most 64 records")]
fn too_many_records_are_refused() {
    let key = Key::new(Algorithm::Aes256Gcm, &[0; 32], Choice::Fastest);
    let mut buffers = [[0_u8; 1]; MAX_RECORDS + 1];
    let records = buffers.iter_mut().map(|it| Record::in_place(&key, [0; 12], b"", it));
    seal(&mut records.collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "read from and written to as much")]
fn buffers_of_two_lengths_are_refused() {
    let key = Key::new(Algorithm::Aes256Gcm, &[0; 32], Choice::Fastest);
    let _ = key.open_into([0; 12], b"", &[0; 3], &[0; 16], &mut [0; 4]);
}

#[test]
#[should_panic(expected = "as long as its algorithm says")]
fn a_key_of_another_length_is_refused() {
    Key::new(Algorithm::Aes256Gcm, &[0; 16], Choice::Fastest);
}

const KEYS: usize = 4;
