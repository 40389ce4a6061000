//! The part of a base transfer that a quantum computer does not open: "Endemic oblivious transfer"
//! (Masny and Rindal, CCS 2019, figure 8) with the keys of ML-KEM-768 (FIPS 203), as theirs has it
//! with Kyber.
//!
//! ```text
//! receiver  (t, rho) a key of ML-KEM, R' a random vector;
//!           sends rho, r[c] = t - H(c, rho, R'), r[1-c] = R'
//! sender    encapsulates to (r[j] + H(j, rho, r[1-j]), rho) for both j; sends both ciphertexts
//! ```
//!
//! Vectors have 768 coefficients modulo q = 3329, each as its remainder, as in ML-KEM's keys. The
//! receiver's choice shows in no branch and no index: random vectors are made of wide numbers that
//! are reduced, since rejecting what is too large would take a time that tells which hash it is.

use aes::Aes256Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use ml_kem::{
    Ciphertext, Decapsulate, DecapsulationKey768, EncapsulationKey768, Key, KeyExport, MlKem768,
    SharedKey,
};
use subtle::{Choice, ConditionallySelectable};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::{Transfer, put_both};
use crate::MpcError;
use crate::coins::{Seed, digest};

/// Bytes from the receiver: `rho`, `r[0]`, `r[1]`.
pub(crate) const OFFER_LEN: usize = RHO_LEN + 2 * VECTOR_LEN;
/// Bytes from the sender: both ciphertexts.
pub(crate) const ANSWER_LEN: usize = 2 * CIPHERTEXT_LEN;

/// What the receiver keeps until the sender's answer is here.
#[derive(ZeroizeOnDrop)]
pub(crate) struct LatticeReceiver(DecapsulationKey768);

impl LatticeReceiver {
    /// Appends [`OFFER_LEN`] bytes for the sender.
    pub(crate) fn new(transfer: Transfer<'_>, seed: &Seed, choice: u8, sent: &mut Vec<u8>) -> Self {
        let number = transfer.number as u64;
        let secret = Zeroizing::new(seed.derive(b"base lattice", number));
        let key = DecapsulationKey768::from_seed((*secret).into());
        let public = key.encapsulation_key().to_bytes();
        let (vector, rho) = public.split_first_chunk().expect(KEY);
        let rho = rho.first_chunk().expect(KEY);
        let random = Zeroizing::new(seed.derive(b"base lattice decoy", number));
        let decoy = encode(&uniform(b"rhumb-mpc lattice decoy", &[&random[..]]));
        let public = decode(vector).expect("invariant: a key that was made is reduced");
        let honest = encode(&subtract(&public, &mask(transfer, choice, rho, &decoy)));
        sent.extend_from_slice(rho);
        put_both(&honest, &decoy, choice, sent);
        Self(key)
    }

    /// The secret that it chose, of what the sender answered.
    pub(crate) fn open(&self, choice: u8, answer: &[u8; ANSWER_LEN]) -> Zeroizing<SharedKey> {
        let (first, second) = answer.split_at(CIPHERTEXT_LEN);
        let mut chosen = Ciphertext::<MlKem768>::default();
        for (byte, (first, second)) in chosen.iter_mut().zip(first.iter().zip(second)) {
            *byte = u8::conditional_select(first, second, Choice::from(choice));
        }
        Zeroizing::new(self.0.decapsulate(&chosen))
    }
}

/// The sender's secrets, and its answer.
pub(crate) fn answer(
    transfer: Transfer<'_>,
    seed: &Seed,
    offer: &[u8; OFFER_LEN],
) -> Result<(Zeroizing<[SharedKey; 2]>, [u8; ANSWER_LEN]), MpcError> {
    let coins = Zeroizing::new(seed.derive(b"base encapsulation", transfer.number as u64));
    let mut secrets = Zeroizing::new([SharedKey::default(); 2]);
    let mut answer = [0; ANSWER_LEN];
    let keys = encapsulation_keys(transfer, offer)?;
    let places = secrets.iter_mut().zip(answer.as_chunks_mut::<CIPHERTEXT_LEN>().0);
    for ((key, coins), (secret, place)) in keys.iter().zip(coins.as_chunks().0).zip(places) {
        let ciphertext;
        (ciphertext, *secret) = key.encapsulate_deterministic(coins.into());
        *place = ciphertext.into();
    }
    Ok((secrets, answer))
}

/// The two keys of an offer, of which the receiver has made one.
fn encapsulation_keys(
    transfer: Transfer<'_>,
    offer: &[u8; OFFER_LEN],
) -> Result<[EncapsulationKey768; 2], MpcError> {
    let (rho, vectors) = offer.split_first_chunk().expect(OFFER);
    let (first, second) = vectors.split_first_chunk().expect(OFFER);
    let second = second.first_chunk().expect(OFFER);
    let unmasked = |which, vector, other| {
        let sum = add(&decode(vector)?, &mask(transfer, which, rho, other));
        let mut key = Key::<EncapsulationKey768>::default();
        key[..VECTOR_LEN].copy_from_slice(&encode(&sum));
        key[VECTOR_LEN..].copy_from_slice(rho);
        Ok(EncapsulationKey768::new(&key).expect("invariant: a sum is reduced"))
    };
    Ok([unmasked(0, first, second)?, unmasked(1, second, first)?])
}

/// The paper's random oracle into the vectors.
fn mask(
    transfer: Transfer<'_>,
    which: u8,
    rho: &[u8; RHO_LEN],
    other: &[u8; VECTOR_LEN],
) -> Vector {
    let number = (transfer.number as u64).to_le_bytes();
    uniform(b"rhumb-mpc lattice mask", &[transfer.session, &number, &[which], rho, other])
}

/// A vector from the parts: AES-256 with their digest as a key, counting. A block of sixteen bytes
/// makes a coefficient, so that none is likelier than another by more than 2^-128.
fn uniform(label: &[u8], parts: &[&[u8]]) -> Vector {
    let cipher = Aes256Enc::new((&*Zeroizing::new(digest(label, parts))).into());
    let mut vector = Zeroizing::new([0; COEFFICIENTS]);
    let mut blocks = Zeroizing::new([aes::Block::default(); 64]);
    for (step, coefficients) in vector.chunks_exact_mut(blocks.len()).enumerate() {
        for (place, block) in blocks.iter_mut().enumerate() {
            *block = ((64 * step + place) as u128).to_le_bytes().into();
        }
        cipher.encrypt_blocks(&mut blocks[..]);
        for (coefficient, block) in coefficients.iter_mut().zip(&blocks[..]) {
            *coefficient = remainder(u128::from_le_bytes((*block).into()));
        }
    }
    vector
}

/// Modulo q, in the same steps for all numbers.
fn remainder(number: u128) -> u16 {
    let high = reduce((number >> 64) as u64);
    let low = reduce(number as u64);
    reduce(u64::from(high) * (u64::MAX % Q + 1) + u64::from(low))
}

/// Modulo q, by Barrett: the quotient is too small by one at most.
fn reduce(number: u64) -> u16 {
    let quotient = (u128::from(number) * u128::from(u64::MAX / Q)) >> 64;
    reduce_once((number - quotient as u64 * Q) as u16)
}

/// What is below 2q.
fn reduce_once(number: u16) -> u16 {
    let less = number.wrapping_sub(Q as u16);
    u16::conditional_select(&less, &number, Choice::from((less >> 15) as u8))
}

fn add(left: &Vector, right: &Vector) -> Vector {
    combine(left, right, |left, right| left + right)
}

fn subtract(left: &Vector, right: &Vector) -> Vector {
    combine(left, right, |left, right| left + Q as u16 - right)
}

fn combine(left: &Vector, right: &Vector, with: impl Fn(u16, u16) -> u16) -> Vector {
    let mut vector = Zeroizing::new([0; COEFFICIENTS]);
    for (out, (left, right)) in vector.iter_mut().zip(left.iter().zip(&right[..])) {
        *out = reduce_once(with(*left, *right));
    }
    vector
}

/// Twelve bits for each coefficient, as `ByteEncode` of FIPS 203.
fn encode(vector: &Vector) -> [u8; VECTOR_LEN] {
    let mut encoded = [0; VECTOR_LEN];
    for (bytes, pair) in encoded.as_chunks_mut::<3>().0.iter_mut().zip(vector.as_chunks().0) {
        let [low, high] = pair.map(u32::from);
        let [a, b, c, _] = (low | high << 12).to_le_bytes();
        *bytes = [a, b, c];
    }
    encoded
}

/// As `ByteDecode` of FIPS 203; but what is no remainder is refused, as it is in a key.
fn decode(encoded: &[u8; VECTOR_LEN]) -> Result<Vector, MpcError> {
    let mut vector = Zeroizing::new([0; COEFFICIENTS]);
    let mut largest = 0;
    for (pair, [a, b, c]) in vector.as_chunks_mut().0.iter_mut().zip(encoded.as_chunks().0) {
        let both = u32::from_le_bytes([*a, *b, *c, 0]);
        *pair = [(both & 0xFFF) as u16, (both >> 12) as u16];
        largest = largest.max(pair[0]).max(pair[1]);
    }
    if u64::from(largest) < Q {
        return Ok(vector);
    }
    Err(COEFFICIENT)
}

/// Each below q.
type Vector = Zeroizing<[u16; COEFFICIENTS]>;

pub(crate) const COEFFICIENT: MpcError =
    MpcError::Malformed("a coefficient of a base transfer that is not below 3329");
/// ML-KEM's modulus.
const Q: u64 = 3329;
/// Three polynomials of 256.
const COEFFICIENTS: usize = 768;
const VECTOR_LEN: usize = COEFFICIENTS * 12 / 8;
const RHO_LEN: usize = 32;
const CIPHERTEXT_LEN: usize = 1088;
const KEY: &str = "invariant: a key is a vector and rho";
const OFFER: &str = "invariant: an offer is rho and two vectors";

#[cfg(test)]
mod tests {
    use aws_lc_rs::kem::{self, ML_KEM_768};
    use proptest::prelude::*;

    use super::*;

    const TRANSFER: Transfer<'_> = Transfer { session: &[3; 32], number: 5 };

    fn offer(seed: u8, choice: u8) -> (LatticeReceiver, [u8; OFFER_LEN]) {
        let mut sent = Vec::new();
        let receiver = LatticeReceiver::new(TRANSFER, &Seed::new([seed; 32]), choice, &mut sent);
        (receiver, sent.try_into().unwrap())
    }

    /// Another library encapsulates to both keys of an offer.
    #[test]
    fn a_receiver_opens_what_another_library_answers_and_only_what_it_chose() {
        for choice in [0, 1] {
            let (receiver, offer) = offer(1, choice);
            let mut answer = Vec::new();
            let secrets = encapsulation_keys(TRANSFER, &offer).unwrap().map(|key| {
                let key = kem::EncapsulationKey::new(&ML_KEM_768, &key.to_bytes()).unwrap();
                let (ciphertext, secret) = key.encapsulate().unwrap();
                answer.extend_from_slice(ciphertext.as_ref());
                secret.as_ref().to_vec()
            });
            let answer = answer.try_into().unwrap();
            assert_eq!(receiver.open(choice, &answer)[..], secrets[usize::from(choice)]);
            // What it opens of the other is what ML-KEM makes of a ciphertext for somebody else.
            let other = receiver.open(1 - choice, &answer);
            assert!(secrets.iter().all(|secret| other[..] != *secret));
        }
    }

    /// Another library makes the receiver's key.
    #[test]
    fn a_sender_answers_the_keys_of_another_library() {
        for choice in [0, 1] {
            let key = kem::DecapsulationKey::generate(&ML_KEM_768).unwrap();
            let public = key.encapsulation_key().unwrap().key_bytes().unwrap();
            let (vector, rho) = public.as_ref().split_first_chunk().unwrap();
            let rho = rho.try_into().unwrap();
            let decoy = encode(&uniform(b"decoy", &[]));
            let mask = mask(TRANSFER, choice, rho, &decoy);
            let honest = encode(&subtract(&decode(vector).unwrap(), &mask));
            let mut offer = rho.to_vec();
            put_both(&honest, &decoy, choice, &mut offer);
            let offer = offer.try_into().unwrap();
            let (secrets, answer) = answer(TRANSFER, &Seed::new([2; 32]), &offer).unwrap();
            let opened = answer.as_chunks::<CIPHERTEXT_LEN>().0.iter().map(|ciphertext| {
                let secret = key.decapsulate(ciphertext[..].into()).unwrap();
                secret.as_ref().to_vec()
            });
            for (which, (opened, secret)) in opened.zip(secrets.iter()).enumerate() {
                assert_eq!(opened == secret[..], which == usize::from(choice));
            }
        }
    }

    /// A receiver that fixes one key has no say in the other: whatever it changes in an
    /// offer to make the other key its own, the oracle moves the first one away.
    #[test]
    fn both_keys_of_an_offer_cannot_be_chosen() {
        let (mine, offer_mine) = offer(1, 0);
        let wanted = encapsulation_keys(TRANSFER, &offer_mine).unwrap();
        let [first, second] = wanted.map(|key| key.to_bytes());
        assert_eq!(first, mine.0.encapsulation_key().to_bytes());
        assert_ne!(first, second);
        // It puts a key of its own in the place of the other as well, for the mask that was there.
        let (another, _) = offer(1, 1);
        let own = another.0.encapsulation_key().to_bytes();
        let rho = offer_mine.first_chunk().unwrap();
        let (honest, _) = offer_mine[RHO_LEN..].split_first_chunk().unwrap();
        let vector = decode(own.first_chunk().unwrap()).unwrap();
        let other = encode(&subtract(&vector, &mask(TRANSFER, 1, rho, honest)));
        let forged = [&rho[..], honest, &other].concat().try_into().unwrap();
        let [moved, forced] = encapsulation_keys(TRANSFER, &forged).unwrap();
        assert_eq!(forced.to_bytes(), own);
        assert_ne!(moved.to_bytes(), first);
    }

    #[test]
    fn masks_differ_by_all_that_they_are_made_of() {
        let (rho, other) = ([1; RHO_LEN], [2; VECTOR_LEN]);
        let elsewhere = Transfer { session: &[4; 32], number: 5 };
        let later = Transfer { session: &[3; 32], number: 6 };
        let mut masks = vec![
            mask(TRANSFER, 0, &rho, &other),
            mask(TRANSFER, 1, &rho, &other),
            mask(TRANSFER, 0, &[3; RHO_LEN], &other),
            mask(TRANSFER, 0, &rho, &[3; VECTOR_LEN]),
            mask(elsewhere, 0, &rho, &other),
            mask(later, 0, &rho, &other),
        ];
        masks.sort_unstable_by_key(|mask| **mask);
        masks.dedup();
        assert_eq!(masks.len(), 6);
    }

    /// The vector that was made, and the random one.
    #[test]
    fn both_vectors_of_an_offer_fill_the_whole_range() {
        let mut counts = [[0_u32; 2]; 14];
        for seed in 0..40 {
            let (_, offer) = offer(seed, 0);
            for (which, vector) in offer[RHO_LEN..].as_chunks().0.iter().enumerate() {
                let vector = decode(vector).unwrap();
                vector.iter().for_each(|value| counts[usize::from(*value >> 8)][which] += 1);
            }
        }
        // 30720 coefficients each; 13 parts are of 256 values, the last one of 3328 alone.
        for part in &counts[..13] {
            let expected = 30720.0 * 256.0 / 3329.0;
            for count in part {
                let deviation = (f64::from(*count) - expected) / expected.sqrt();
                assert!(deviation.abs() < 6.0, "{counts:?}");
            }
        }
    }

    #[test]
    fn coefficients_are_taken_below_the_modulus_and_refused_from_it_on() {
        for (value, is_good) in [(0, true), (3328, true), (3329, false), (4095, false)] {
            for at in [0, 1, COEFFICIENTS - 2, COEFFICIENTS - 1] {
                let mut vector = Zeroizing::new([7; COEFFICIENTS]);
                vector[at] = value;
                let decoded = decode(&encode(&vector));
                assert_eq!(decoded, if is_good { Ok(vector) } else { Err(COEFFICIENT) });
            }
        }
    }

    proptest! {
        #[test]
        fn remainders_are_those_of_division(number in any::<u128>(), small in 0..2 * Q as u16) {
            prop_assert_eq!(u128::from(remainder(number)), number % u128::from(Q));
            prop_assert_eq!(u128::from(remainder(u128::MAX - number % 9999)),
                (u128::MAX - number % 9999) % u128::from(Q));
            prop_assert_eq!(reduce_once(small), small % Q as u16);
        }

        #[test]
        fn subtraction_undoes_addition(left in any::<[u8; 8]>(), right in any::<[u8; 8]>()) {
            let [left, right] = [left, right].map(|seed| uniform(b"any", &[&seed]));
            prop_assert_eq!(&subtract(&add(&left, &right), &right), &left);
            prop_assert_eq!(&decode(&encode(&left)).unwrap(), &left);
        }
    }
}
