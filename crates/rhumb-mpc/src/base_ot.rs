//! The first 128 oblivious transfers, with public keys: "Endemic oblivious transfer" of Masny and
//! Rindal (CCS 2019, figure 8), twice: with Diffie-Hellman over ristretto255, and with ML-KEM
//! (`base_ot/lattice.rs`). Each key is made of both, so a sender's keys are secret while either
//! holds.
//!
//! ```text
//! receiver  t random, R' a random point;  sends r[c] = tG - H(c, R'),  r[1-c] = R', and its
//!           offers of ML-KEM
//! sender    a random;                     sends A = aG; has p[j] = a (r[j] + H(j, r[1-j])), and
//!           s[j] of ML-KEM; sends its answers to the offers
//! keys      k[j] = KDF(j, p[j], s[j], all that was said);  the receiver has p[c] = tA, and s[c]
//! ```
//!
//! 1. [`BaseTransfers::new`]: points and offers. These messages of the parties cross.
//! 2. [`BaseTransfers::answer`]: the keys that this party sends, and its answers.
//! 3. [`AnsweredTransfers::finish`]: the keys that it receives.
//!
//! The points need nothing but the random oracle and CDH, also against a receiver that deviates;
//! the "simplest OT" of Chou and Orlandi saves a point per transfer, and lacks a proof of that. The
//! receiver's choice shows in no branch and no index. What hides it from the sender is Module-LWE:
//! the points would do so from anybody, but the offers tell it to whoever breaks that.

pub(crate) mod lattice;

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use ml_kem::SharedKey;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use self::lattice::{ANSWER_LEN, LatticeReceiver, OFFER_LEN};
use crate::MpcError;
use crate::coins::{Seed, digest, low_half};

/// As many as the correlation has bits.
pub(crate) const COUNT: usize = 128;
const POINT: usize = 32;
/// Of a transfer: two points, and an offer of ML-KEM.
const PART: usize = 2 * POINT + OFFER_LEN;
/// The sender's point, and the receiver's part of each
/// transfer: a party plays both in one message.
pub(crate) const MESSAGE_LEN: usize = POINT + COUNT * PART;
/// The sender's answers to all offers.
pub(crate) const ANSWERS_LEN: usize = COUNT * ANSWER_LEN;

/// Both keys of each transfer in which a party sends.
pub(crate) type Pairs = Zeroizing<Vec<[u128; 2]>>;
/// The chosen key of each transfer in which it receives.
pub(crate) type Chosen = Zeroizing<Vec<u128>>;

/// One of the transfers.
#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    /// What both know of each other.
    pub(crate) session: &'a [u8; 32],
    pub(crate) number: usize,
}

/// What a party keeps until the other's message is here.
pub(crate) struct BaseTransfers {
    session: [u8; 32],
    seed: Seed,
    sender_secret: Zeroizing<Scalar>,
    receivers: Receivers,
    sent: Vec<u8>,
}

/// And until the other's answers are here.
pub(crate) struct AnsweredTransfers {
    session: [u8; 32],
    receivers: Receivers,
    sent: Vec<u8>,
    /// The point of the other one, as a sender.
    sender_bytes: [u8; POINT],
    sender_point: RistrettoPoint,
}

/// The secrets of all transfers in which a party receives.
struct Receivers {
    scalars: Zeroizing<Vec<Scalar>>,
    lattice: Vec<LatticeReceiver>,
    /// Which key of each transfer it wants.
    choices: Zeroizing<u128>,
}

impl BaseTransfers {
    /// Makes this party's message, for a session that is named by what both know of each other;
    /// bit `i` of `choices` is its choice in transfer `i`.
    pub(crate) fn new(seed: Seed, choices: u128, session: &[u8; 32]) -> Self {
        let scalar = |label: &[u8], number| {
            Scalar::from_bytes_mod_order_wide(&Zeroizing::new(seed.derive(label, number)))
        };
        let sender_secret = Zeroizing::new(scalar(b"base sender", 0));
        let mut sent = Vec::with_capacity(MESSAGE_LEN);
        sent.extend(RistrettoPoint::mul_base(&sender_secret).compress().0);
        let mut scalars = Zeroizing::new(Vec::with_capacity(COUNT));
        let mut lattice = Vec::with_capacity(COUNT);
        for number in 0..COUNT {
            let transfer = Transfer { session, number };
            let choice = (choices >> number) as u8 & 1;
            let secret = scalar(b"base receiver", number as u64);
            let random = seed.derive(b"base decoy", number as u64);
            let decoy = RistrettoPoint::from_uniform_bytes(&random).compress().0;
            let honest = RistrettoPoint::mul_base(&secret) - mask_point(transfer, choice, &decoy);
            put_both(&honest.compress().0, &decoy, choice, &mut sent);
            scalars.push(secret);
            lattice.push(LatticeReceiver::new(transfer, &seed, choice, &mut sent));
        }
        let receivers = Receivers { scalars, lattice, choices: Zeroizing::new(choices) };
        Self { session: *session, seed, sender_secret, receivers, sent }
    }

    /// [`MESSAGE_LEN`] bytes.
    pub(crate) fn message(&self) -> &[u8] {
        &self.sent
    }

    /// The keys of the transfers in which this party sends, from the peer's
    /// message; appends [`ANSWERS_LEN`] bytes for the peer.
    pub(crate) fn answer(
        self,
        received: &[u8],
        answers: &mut Vec<u8>,
    ) -> Result<(Pairs, AnsweredTransfers), MpcError> {
        let Self { session, seed, sender_secret, receivers, sent } = self;
        let (sender_bytes, parts) = split_message(received)?;
        let sender_point = decompress(sender_bytes)?;
        let (mine, _) = split_message(&sent)?;
        let mut pairs = Zeroizing::new(Vec::with_capacity(COUNT));
        for (number, part) in parts.iter().enumerate() {
            let transfer = Transfer { session: &session, number };
            let (points, offer) = split_part(part);
            let (secrets, answer) = lattice::answer(transfer, &seed, offer)?;
            let transcript = transfer.transcript(mine, part, &answer);
            let mut both = [0; 2];
            for (which, key) in both.iter_mut().enumerate() {
                let mask = mask_point(transfer, which as u8, points[1 - which]);
                let shared = (decompress(points[which])? + mask) * *sender_secret;
                *key = derive_key(&transcript, which as u8, &shared, &secrets[which]);
            }
            pairs.push(both);
            answers.extend_from_slice(&answer);
        }
        let sender_bytes = *sender_bytes;
        Ok((pairs, AnsweredTransfers { session, receivers, sent, sender_bytes, sender_point }))
    }
}

impl AnsweredTransfers {
    /// The keys of the transfers in which this party receives, from the peer's answers.
    pub(crate) fn finish(self, answers: &[u8]) -> Result<Chosen, MpcError> {
        let Self { session, receivers, sent, sender_bytes, sender_point } = self;
        let (_, parts) = split_message(&sent)?;
        let (answers, []) = answers.as_chunks() else { return Err(LENGTH) };
        if answers.len() != COUNT {
            return Err(LENGTH);
        }
        let mut chosen = Zeroizing::new(Vec::with_capacity(COUNT));
        let said = parts.iter().zip(answers);
        let secrets = receivers.scalars.iter().zip(&receivers.lattice);
        for (number, ((scalar, lattice), (part, answer))) in secrets.zip(said).enumerate() {
            let transfer = Transfer { session: &session, number };
            let choice = (*receivers.choices >> number) as u8 & 1;
            let transcript = transfer.transcript(&sender_bytes, part, answer);
            let secret = lattice.open(choice, answer);
            chosen.push(derive_key(&transcript, choice, &(sender_point * scalar), &secret));
        }
        Ok(chosen)
    }
}

impl Transfer<'_> {
    /// All that was said in it.
    fn transcript(
        self,
        sender: &[u8; POINT],
        part: &[u8; PART],
        answer: &[u8; ANSWER_LEN],
    ) -> [u8; 32] {
        let number = (self.number as u64).to_le_bytes();
        digest(b"rhumb-mpc base transcript", &[self.session, &number, sender, part, answer])
    }
}

/// The sender's point, and the receiver's parts.
fn split_message(message: &[u8]) -> Result<(&[u8; POINT], &[[u8; PART]]), MpcError> {
    if message.len() != MESSAGE_LEN {
        return Err(LENGTH);
    }
    let (sender, parts) = message.split_first_chunk().ok_or(LENGTH)?;
    Ok((sender, parts.as_chunks().0))
}

fn split_part(part: &[u8; PART]) -> ([&[u8; POINT]; 2], &[u8; OFFER_LEN]) {
    let (first, rest) = part.split_first_chunk().expect(PARTS);
    let (second, offer) = rest.split_first_chunk().expect(PARTS);
    ([first, second], offer.first_chunk().expect(PARTS))
}

/// The paper's random oracle into the group.
fn mask_point(transfer: Transfer<'_>, which: u8, other: &[u8; POINT]) -> RistrettoPoint {
    let number = (transfer.number as u64).to_le_bytes();
    let half = |half: u8| {
        let parts: [&[u8]; 4] = [transfer.session, &number, &[which, half], other];
        digest(b"rhumb-mpc base mask", &parts)
    };
    let mut uniform = [0; 64];
    uniform[..32].copy_from_slice(&half(0));
    uniform[32..].copy_from_slice(&half(1));
    RistrettoPoint::from_uniform_bytes(&uniform)
}

/// Of both secrets: who lacks one of them knows nothing of the key.
fn derive_key(
    transcript: &[u8; 32],
    which: u8,
    point: &RistrettoPoint,
    secret: &SharedKey,
) -> u128 {
    let point = Zeroizing::new(point.compress().0);
    let parts: [&[u8]; 4] = [transcript, &[which], &point[..], secret];
    low_half(&Zeroizing::new(digest(b"rhumb-mpc base key", &parts)))
}

/// Appends both, the honest one at the place of the choice.
pub(crate) fn put_both(honest: &[u8], decoy: &[u8], choice: u8, sent: &mut Vec<u8>) {
    for swap in [Choice::from(choice), !Choice::from(choice)] {
        let bytes = honest.iter().zip(decoy);
        sent.extend(bytes.map(|(honest, decoy)| u8::conditional_select(honest, decoy, swap)));
    }
}

fn decompress(bytes: &[u8; POINT]) -> Result<RistrettoPoint, MpcError> {
    let point = CompressedRistretto(*bytes).decompress();
    point.filter(|point| !point.is_identity()).ok_or(MpcError::Malformed("a point of the curve"))
}

const LENGTH: MpcError = MpcError::Malformed("base transfers");
const PARTS: &str = "invariant: a part is two points and an offer";

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use zeroize::ZeroizeOnDrop;

    use super::*;

    const SESSION: [u8; 32] = [9; 32];

    fn transfers(seed: u8, choices: u128) -> BaseTransfers {
        BaseTransfers::new(Seed::new([seed; 32]), choices, &SESSION)
    }

    /// The keys of two parties with these choices, each as a sender and as a receiver.
    pub(crate) fn transferred(choices: [u128; 2]) -> [(Pairs, Chosen); 2] {
        let begun = [0, 1].map(|i| transfers(i as u8, choices[i]));
        let messages = begun.each_ref().map(|transfers| transfers.message().to_vec());
        let mut answers = [Vec::new(), Vec::new()];
        let [one, two] = begun;
        let (pairs_one, one) = one.answer(&messages[1], &mut answers[0]).unwrap();
        let (pairs_two, two) = two.answer(&messages[0], &mut answers[1]).unwrap();
        for (message, answers) in messages.iter().zip(&answers) {
            assert_eq!((message.len(), answers.len()), (MESSAGE_LEN, ANSWERS_LEN));
        }
        let chosen = [one.finish(&answers[1]).unwrap(), two.finish(&answers[0]).unwrap()];
        let [chosen_one, chosen_two] = chosen;
        [(pairs_one, chosen_one), (pairs_two, chosen_two)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]

        #[test]
        fn the_receiver_has_the_key_it_chose_and_not_the_other(choices in any::<[u128; 2]>()) {
            let [one, two] = transferred(choices);
            for (pairs, chosen, choices) in [(one.0, two.1, choices[1]), (two.0, one.1, choices[0])]
            {
                for number in 0..COUNT {
                    let choice = (choices >> number & 1) as usize;
                    prop_assert_eq!(pairs[number][choice], chosen[number]);
                    prop_assert_ne!(pairs[number][1 - choice], chosen[number]);
                }
            }
        }
    }

    #[test]
    fn a_key_is_of_both_secrets_and_of_what_was_said() {
        let [first, second] = [RistrettoPoint::mul_base(&5_u8.into()), RistrettoPoint::default()];
        let secrets = [SharedKey::default(), [1; 32].into()];
        let transfer = Transfer { session: &SESSION, number: 7 };
        let transcript = |at: usize| {
            let (mut sender, mut part, mut answer) = ([0; POINT], [0; PART], [0; ANSWER_LEN]);
            match at {
                0 => {}
                1 => sender[31] = 1,
                2 => part[PART - 1] = 1,
                _ => answer[0] = 1,
            }
            transfer.transcript(&sender, &part, &answer)
        };
        let said = transcript(0);
        let mut keys = vec![
            derive_key(&said, 0, &first, &secrets[0]),
            derive_key(&said, 0, &second, &secrets[0]),
            derive_key(&said, 0, &first, &secrets[1]),
            derive_key(&said, 1, &first, &secrets[0]),
        ];
        keys.extend((1..4).map(|at| derive_key(&transcript(at), 0, &first, &secrets[0])));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 7);
    }

    /// A receiver that kept all, and later has the logarithm of the sender's point, as by a quantum
    /// computer: with points alone it had both keys.
    #[test]
    fn a_transcript_and_the_logarithm_of_the_point_open_no_other_key() {
        let [sender, receiver] = [transfers(1, 0), transfers(2, 0)];
        let (message, offered) = (sender.message().to_vec(), receiver.message().to_vec());
        let logarithm = *sender.sender_secret;
        let mut answers = Vec::new();
        let (pairs, _) = sender.answer(&offered, &mut answers).unwrap();
        let (point, _) = split_message(&message).unwrap();
        let (_, parts) = split_message(&offered).unwrap();
        for (number, (part, answer)) in parts.iter().zip(answers.as_chunks().0).enumerate() {
            let transfer = Transfer { session: &SESSION, number };
            let (points, offer) = split_part(part);
            let transcript = transfer.transcript(point, part, answer);
            let key = |which: u8, secret: &SharedKey| {
                let mask = mask_point(transfer, which, points[usize::from(1 - which)]);
                let unmasked = decompress(points[usize::from(which)]).unwrap() + mask;
                derive_key(&transcript, which, &(unmasked * logarithm), secret)
            };
            let opened = |which| receiver.receivers.lattice[number].open(which, answer);
            assert_eq!(key(0, &opened(0)), pairs[number][0], "it chose this one");
            assert_ne!(key(1, &opened(1)), pairs[number][1]);
            // That is for want of the other secret alone.
            let seed = Seed::new([1; 32]);
            let (secrets, _) = lattice::answer(transfer, &seed, offer).unwrap();
            assert_eq!(key(1, &secrets[1]), pairs[number][1]);
        }
    }

    #[test]
    fn all_is_of_the_seed_the_choices_and_the_session() {
        let message = transfers(1, 5).message().to_vec();
        assert_eq!(transfers(1, 5).message(), message);
        assert_ne!(transfers(2, 5).message(), message);
        assert_ne!(transfers(1, 4).message(), message);
        let elsewhere = BaseTransfers::new(Seed::new([1; 32]), 5, &[8; 32]);
        assert_ne!(elsewhere.message(), message);
        let offered = transfers(3, 0).message().to_vec();
        let answered = [(); 2].map(|()| {
            let mut answers = Vec::new();
            let (pairs, _) = transfers(1, 5).answer(&offered, &mut answers).unwrap();
            (answers, pairs.to_vec())
        });
        assert_eq!(answered[0], answered[1]);
    }

    #[test]
    fn what_is_no_message_of_base_transfers_is_refused_and_named() {
        let good = transfers(1, 0).message().to_vec();
        let answer = |bytes: &[u8]| transfers(2, 0).answer(bytes, &mut Vec::new()).err();
        assert_eq!(answer(&good), None);
        for len in [0, 31, 32, good.len() - PART, good.len() - 1] {
            assert_eq!(answer(&good[..len]), Some(LENGTH));
        }
        assert_eq!(answer(&[&good[..], &[0]].concat()), Some(LENGTH));
        let last = good.len() - PART;
        for at in [0, POINT, last, last + POINT] {
            for wrong in [0, 0xFF] {
                let mut bytes = good.clone();
                bytes[at..at + POINT].fill(wrong);
                assert_eq!(answer(&bytes), Some(MpcError::Malformed("a point of the curve")));
            }
        }
        // `rho` may be anything; a coefficient may not.
        let rho = last + 2 * POINT;
        for (at, error) in [
            (rho, None),
            (rho + 32, Some(lattice::COEFFICIENT)),
            (good.len() - 3, Some(lattice::COEFFICIENT)),
        ] {
            let mut bytes = good.clone();
            bytes[at..at + 3].fill(0xFF);
            assert_eq!(answer(&bytes), error);
        }
    }

    #[test]
    fn answers_of_another_length_are_refused_and_others_give_other_keys() {
        let offered = transfers(1, 0).message().to_vec();
        let receiver = || {
            let said = transfers(2, 0).message().to_vec();
            transfers(1, 0).answer(&said, &mut Vec::new()).unwrap().1
        };
        let mut answers = Vec::new();
        let (pairs, _) = transfers(2, 0).answer(&offered, &mut answers).unwrap();
        for len in [0, ANSWER_LEN, ANSWERS_LEN - ANSWER_LEN, ANSWERS_LEN - 1] {
            assert_eq!(receiver().finish(&answers[..len]).err(), Some(LENGTH));
        }
        let chosen = receiver().finish(&answers).unwrap();
        // Of both ciphertexts, as both were said.
        for at in [0, ANSWER_LEN - 1] {
            let mut changed = answers.clone();
            changed[at] ^= 1;
            let other = receiver().finish(&changed).unwrap();
            assert_eq!(chosen[0], pairs[0][0]);
            assert_ne!(other[0], pairs[0][0]);
            assert_eq!(other[1..], chosen[1..]);
        }
    }

    /// Does not compile where a secret is not.
    #[test]
    fn secrets_are_wiped_when_dropped() {
        fn is_wiped(_: &impl ZeroizeOnDrop) {}
        let BaseTransfers { seed, sender_secret, receivers, .. } = transfers(1, 0);
        let Receivers { scalars, lattice, choices } = receivers;
        is_wiped(&seed);
        is_wiped(&sender_secret);
        is_wiped(&scalars);
        is_wiped(&choices);
        lattice.iter().for_each(is_wiped);
        let [(pairs, chosen), _] = transferred([0; 2]);
        is_wiped(&pairs);
        is_wiped(&chosen);
    }
}
