//! The number by which people see that two machines mean each other: it stands on both screens, and
//! on different ones if somebody is in between.
//!
//! 1. Both ends have a channel whose ends have proven a name each, of which neither was known.
//! 2. Who asks commits to a nonce ([`Opening::commitment`]), the keeper says its own, and then the
//!    nonce that was committed to is shown and checked ([`opens`]).
//! 3. Both compute the number ([`number`]) from the nonces, from who they are, from the channel's
//!    own secret, and from what is asked for.
//!
//! INVARIANT: whoever is in between has to choose his nonce for one side before he knows the other
//! side's, so that of a million tries one makes the numbers equal, and each try is a request that
//! people see. Without the commitment he would compute a million nonces until they are.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use rhumb_wire::admission::Offer;
use rhumb_wire::{Name, PublishedLabel};

use crate::TrustError;
use crate::invitation::Meeting;

/// What who asks has committed to.
pub struct Opening([u8; NONCE_LEN]);

/// Six digits, three and three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number(u32);

impl Opening {
    /// A new one.
    ///
    /// # Errors
    /// When the system's generator fails.
    pub fn generate() -> Result<Self, TrustError> {
        fresh_nonce().map(Self)
    }

    /// What is said of it first, by `joiner`.
    pub fn commitment(&self, joiner: Name) -> [u8; 32] {
        commitment(joiner, &self.0)
    }

    /// The nonce itself, to be said after the keeper's.
    pub fn nonce(&self) -> [u8; NONCE_LEN] {
        self.0
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opening(..)")
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03} {:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A nonce of the keeper's.
///
/// # Errors
/// When the system's generator fails.
pub fn fresh_nonce() -> Result<[u8; NONCE_LEN], TrustError> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).map_err(|_| TrustError::Crypto)?;
    Ok(nonce)
}

/// Whether `nonce` is what `joiner` has committed to.
pub fn opens(commitment_said: &[u8; 32], joiner: Name, nonce: &[u8; NONCE_LEN]) -> bool {
    verify_slices_are_equal(commitment_said, &commitment(joiner, nonce)).is_ok()
}

/// What both screens show, of whoever asks under `nonce` to be called `label` in what is offered.
pub fn number(
    meeting: &Meeting,
    offer: &Offer,
    nonce: &[u8; NONCE_LEN],
    label: &PublishedLabel,
) -> Number {
    let mut said = NUMBER_CONTEXT.to_vec();
    said.extend_from_slice(&meeting.keeper.0);
    said.extend_from_slice(&meeting.joiner.0);
    said.extend_from_slice(&meeting.binding);
    said.extend_from_slice(&offer.nonce);
    said.extend_from_slice(nonce);
    said.extend_from_slice(&offer.domain.0);
    // Labels are at most 32 bytes long, and the last thing is what is left.
    said.push(offer.network.as_str().len() as u8);
    said.extend_from_slice(offer.network.as_str().as_bytes());
    said.extend_from_slice(label.as_str().as_bytes());
    let hash = digest(&SHA256, &said);
    let first = hash.as_ref().first_chunk().expect("invariant: SHA-256 is 32 bytes");
    // Of 2^64 the remainder is as even as anybody can see.
    Number((u64::from_be_bytes(*first) % NUMBERS) as u32)
}

fn commitment(joiner: Name, nonce: &[u8; NONCE_LEN]) -> [u8; 32] {
    let hash = digest(&SHA256, &[COMMITMENT_CONTEXT, &joiner.0[..], &nonce[..]].concat());
    hash.as_ref().try_into().expect("invariant: SHA-256 is 32 bytes")
}

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 32;
/// Six digits: as many as people compare, and one try in a million.
const NUMBERS: u64 = 1_000_000;
const COMMITMENT_CONTEXT: &[u8] = b"rhumb comparison 1 commitment";
const NUMBER_CONTEXT: &[u8] = b"rhumb comparison 1 number";

#[cfg(test)]
mod tests {
    use super::*;

    fn meeting(keeper: u8, joiner: u8, binding: u8) -> Meeting {
        let name = |byte| Name([byte; 32]);
        Meeting { keeper: name(keeper), joiner: name(joiner), binding: [binding; 32] }
    }

    fn offer(nonce: u8) -> Offer {
        let network = "home".parse().unwrap();
        Offer { network, domain: Name([9; 32]), has_members: false, nonce: [nonce; 32] }
    }

    #[test]
    fn both_ends_compute_the_same_and_everything_is_in_it() {
        let label = |text: &str| text.parse::<PublishedLabel>().unwrap();
        let here = || number(&meeting(1, 2, 3), &offer(4), &[5; 32], &label("alice"));
        assert_eq!(here(), here());
        let domain = Offer { domain: Name([8; 32]), ..offer(4) };
        let network = Offer { network: label("homea"), ..offer(4) };
        // As what is one label less would be the beginning of the other.
        let shifted = number(&meeting(1, 2, 3), &network, &[5; 32], &label("lice"));
        for other in [
            number(&meeting(7, 2, 3), &offer(4), &[5; 32], &label("alice")),
            number(&meeting(1, 7, 3), &offer(4), &[5; 32], &label("alice")),
            number(&meeting(1, 2, 7), &offer(4), &[5; 32], &label("alice")),
            number(&meeting(1, 2, 3), &offer(7), &[5; 32], &label("alice")),
            number(&meeting(1, 2, 3), &offer(4), &[7; 32], &label("alice")),
            number(&meeting(1, 2, 3), &offer(4), &[5; 32], &label("bob")),
            number(&meeting(1, 2, 3), &domain, &[5; 32], &label("alice")),
            shifted,
        ] {
            assert_ne!(other, here());
        }
    }

    #[test]
    fn a_commitment_is_opened_by_one_nonce_of_one_name() {
        let opening = Opening::generate().unwrap();
        let (own, other) = (Name([1; 32]), Name([2; 32]));
        let said = opening.commitment(own);
        assert!(opens(&said, own, &opening.nonce()));
        assert!(!opens(&said, other, &opening.nonce()), "somebody else's, passed on");
        assert!(!opens(&said, own, &fresh_nonce().unwrap()));
        assert_eq!(format!("{opening:?}"), "Opening(..)");
    }

    #[test]
    fn who_is_in_between_can_choose_nothing_that_makes_the_numbers_equal() {
        // He has a channel to each side, and each side's nonce comes after his own. Whatever he
        // chose before, the honest nonce that follows makes the number another one.
        let label: PublishedLabel = "alice".parse().unwrap();
        let equal = (0..2000u32).filter(|_| {
            let (joiners, keepers) = (fresh_nonce().unwrap(), fresh_nonce().unwrap());
            let (his, hers) = (fresh_nonce().unwrap(), fresh_nonce().unwrap());
            let to_joiner = Offer { nonce: his, ..offer(0) };
            let from_keeper = Offer { nonce: keepers, ..offer(0) };
            number(&meeting(7, 2, 3), &to_joiner, &joiners, &label)
                == number(&meeting(1, 7, 4), &from_keeper, &hers, &label)
        });
        // Two of 2000 in one of 500,000 runs.
        assert!(equal.count() <= 1);
    }

    #[test]
    fn a_number_is_six_digits_whatever_it_is() {
        assert_eq!(Number(7).to_string(), "000 007");
        assert_eq!(Number(482_913).to_string(), "482 913");
    }
}
