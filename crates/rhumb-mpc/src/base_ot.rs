//! The first 128 oblivious transfers, with public keys: "Endemic oblivious transfer" of Masny and
//! Rindal (CCS 2019, figure 8, with Diffie-Hellman over ristretto255). One flow each way, which
//! cross: neither waits for the other.
//!
//! ```text
//! receiver  t random, R' a random point;  sends r[c] = tG - H(c, R'),  r[1-c] = R'
//! sender    a random;                     sends A = aG
//! keys      k[j] = KDF(j, a (r[j] + H(j, r[1-j])));  the receiver has k[c] = KDF(c, tA)
//! ```
//!
//! It needs nothing but the random oracle and CDH, also against a receiver that deviates; the
//! "simplest OT" of Chou and Orlandi saves a point per transfer, and lacks a proof of that. The
//! receiver's choice shows in no branch and no index.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use crate::MpcError;
use crate::coins::{Seed, digest, low_half};

/// As many as the correlation has bits.
pub(crate) const COUNT: usize = 128;
const POINT: usize = 32;
/// The sender's point, and two of the receiver for each
/// transfer: a party plays both in one message.
pub(crate) const MESSAGE_LEN: usize = POINT + COUNT * 2 * POINT;

/// What a party keeps until the other's message is here.
pub(crate) struct BaseTransfers {
    sender_secret: Zeroizing<Scalar>,
    receiver_secrets: Zeroizing<Vec<Scalar>>,
    /// Which key of each transfer the receiver wants.
    choices: Zeroizing<u128>,
    sent: Vec<u8>,
}

/// The keys of both roles.
pub(crate) struct BaseKeys {
    /// Both keys of each transfer in which this party sends.
    pub(crate) pairs: Zeroizing<Vec<[u128; 2]>>,
    /// The chosen key of each transfer in which it receives.
    pub(crate) chosen: Zeroizing<Vec<u128>>,
}

impl BaseTransfers {
    /// Makes this party's message; bit `i` of `choices` is its choice in transfer `i`.
    pub(crate) fn new(seed: &Seed, choices: u128) -> Self {
        let scalar = |label: &[u8], number| {
            Scalar::from_bytes_mod_order_wide(&Zeroizing::new(seed.derive(label, number)))
        };
        let sender_secret = Zeroizing::new(scalar(b"base sender", 0));
        let mut sent = RistrettoPoint::mul_base(&sender_secret).compress().0.to_vec();
        let mut receiver_secrets = Zeroizing::new(Vec::with_capacity(COUNT));
        for number in 0..COUNT {
            let secret = scalar(b"base receiver", number as u64);
            let random = seed.derive(b"base decoy", number as u64);
            let decoy = RistrettoPoint::from_uniform_bytes(&random).compress().0;
            let choice = (choices >> number) as u8 & 1;
            let honest = RistrettoPoint::mul_base(&secret) - mask_point(number, choice, &decoy);
            let honest = honest.compress().0;
            let choice = Choice::from(choice);
            for byte in 0..POINT {
                sent.push(u8::conditional_select(&honest[byte], &decoy[byte], choice));
            }
            for byte in 0..POINT {
                sent.push(u8::conditional_select(&decoy[byte], &honest[byte], choice));
            }
            receiver_secrets.push(secret);
        }
        Self { sender_secret, receiver_secrets, choices: Zeroizing::new(choices), sent }
    }

    /// [`MESSAGE_LEN`] bytes.
    pub(crate) fn message(&self) -> &[u8] {
        &self.sent
    }

    /// The keys, from the peer's message. `session` is what both know of each other.
    pub(crate) fn finish(self, received: &[u8], session: &[u8; 32]) -> Result<BaseKeys, MpcError> {
        let [their_sender, their_pairs @ ..] = received.as_chunks::<POINT>().0 else {
            return Err(MpcError::Malformed("base transfers"));
        };
        if received.len() != MESSAGE_LEN {
            return Err(MpcError::Malformed("base transfers"));
        }
        let sender_point = decompress(their_sender)?;
        let mine: &[[u8; POINT]] = self.sent.as_chunks().0;
        let mut keys = BaseKeys {
            pairs: Zeroizing::new(Vec::with_capacity(COUNT)),
            chosen: Zeroizing::new(Vec::with_capacity(COUNT)),
        };
        for (number, pair) in their_pairs.as_chunks::<2>().0.iter().enumerate() {
            let mut both = [0; 2];
            for (which, key) in both.iter_mut().enumerate() {
                let masked =
                    decompress(&pair[which])? + mask_point(number, which as u8, &pair[1 - which]);
                let shared = masked * *self.sender_secret;
                *key = derive_key(session, number, which as u8, &mine[0], &shared);
            }
            keys.pairs.push(both);
        }
        for (number, secret) in self.receiver_secrets.iter().enumerate() {
            let choice = (*self.choices >> number) as u8 & 1;
            let shared = sender_point * secret;
            keys.chosen.push(derive_key(session, number, choice, their_sender, &shared));
        }
        Ok(keys)
    }
}

/// The paper's random oracle into the group.
fn mask_point(number: usize, which: u8, other: &[u8; POINT]) -> RistrettoPoint {
    let number = (number as u64).to_le_bytes();
    let half = |half: u8| digest(b"rhumb-mpc base mask", &[&number, &[which, half], other]);
    let mut uniform = [0; 64];
    uniform[..32].copy_from_slice(&half(0));
    uniform[32..].copy_from_slice(&half(1));
    RistrettoPoint::from_uniform_bytes(&uniform)
}

fn derive_key(
    session: &[u8; 32],
    number: usize,
    which: u8,
    sender: &[u8; POINT],
    shared: &RistrettoPoint,
) -> u128 {
    let shared = Zeroizing::new(shared.compress().0);
    let number = (number as u64).to_le_bytes();
    let parts: [&[u8]; 5] = [session, &number, &[which], sender, &shared[..]];
    low_half(&Zeroizing::new(digest(b"rhumb-mpc base key", &parts)))
}

fn decompress(bytes: &[u8; POINT]) -> Result<RistrettoPoint, MpcError> {
    let point = CompressedRistretto(*bytes).decompress();
    point.filter(|point| !point.is_identity()).ok_or(MpcError::Malformed("a point of the curve"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_has_the_key_it_chose_and_not_the_other() {
        let choices = [0x0123_4567_89ab_cdef_u128 << 60, !0x5555_u128];
        let transfers = [0, 1].map(|i| BaseTransfers::new(&Seed::new([i as u8; 32]), choices[i]));
        let messages = [0, 1].map(|i| transfers[i].message().to_vec());
        assert_eq!(messages[0].len(), MESSAGE_LEN);
        let [one, two] = transfers;
        let one = one.finish(&messages[1], &[9; 32]).unwrap();
        let two = two.finish(&messages[0], &[9; 32]).unwrap();
        for (sender, receiver, choices) in [(&one, &two, choices[1]), (&two, &one, choices[0])] {
            for number in 0..COUNT {
                let choice = (choices >> number & 1) as usize;
                assert_eq!(sender.pairs[number][choice], receiver.chosen[number]);
                assert_ne!(sender.pairs[number][1 - choice], receiver.chosen[number]);
            }
        }
    }

    #[test]
    fn what_is_no_point_is_refused() {
        let good = BaseTransfers::new(&Seed::new([1; 32]), 0).message().to_vec();
        let finish =
            |bytes: &[u8]| BaseTransfers::new(&Seed::new([2; 32]), 0).finish(bytes, &[0; 32]).err();
        assert_eq!(finish(&good), None);
        assert_eq!(finish(&good[..good.len() - 1]), Some(MpcError::Malformed("base transfers")));
        assert_eq!(finish(&good[..good.len() - 32]), Some(MpcError::Malformed("base transfers")));
        for at in [0, 32, good.len() - 32] {
            for wrong in [0, 0xFF] {
                let mut bytes = good.clone();
                bytes[at..at + 32].fill(wrong);
                assert_eq!(finish(&bytes), Some(MpcError::Malformed("a point of the curve")));
            }
        }
    }
}
