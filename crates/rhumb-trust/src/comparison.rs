//! The number by which people see that two machines mean each other: the same on both screens, and
//! different ones if somebody is in between.
//!
//! 1. Both ends have a channel whose ends have proven a name each, of which neither was known.
//! 2. The keeper commits to a nonce ([`Opening::commitment`]), who asks says one of its own, and
//!    the keeper shows the number to its people before it shows its nonce. Who asks checks that
//!    ([`opens`]) and shows the number, too.
//! 3. The number ([`Comparison::number`]) is of the nonces, of who both are, of the channel's own
//!    secret, and of what is asked for.
//!
//! INVARIANT: whoever is in between knows no number of an honest end before that end's people see
//! it. Towards who asks he is bound by his commitment; towards a keeper he has said his nonce. So
//! of a million tries one makes the numbers equal, and each is a request that is counted and seen:
//! he cannot give up unseen the many that do not fit.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use rhumb_wire::{Name, PublishedLabel};

use crate::TrustError;
use crate::invitation::Meeting;

/// A nonce of an end's.
pub struct Opening([u8; NONCE_LEN]);

/// What a number is of.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// Who has met on which channel.
    pub meeting: &'a Meeting,
    /// What the network is called.
    pub network: &'a PublishedLabel,
    /// Which trust domain it is.
    pub domain: Name,
    /// What who asks would like to be called.
    pub label: &'a PublishedLabel,
    /// The keeper's nonce.
    pub keepers: &'a [u8; NONCE_LEN],
    /// The nonce of who asks.
    pub joiners: &'a [u8; NONCE_LEN],
}

/// Six digits, three and three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number(u32);

impl Opening {
    /// A new one.
    ///
    /// # Errors
    /// When the system's generator fails.
    pub fn generate() -> Result<Self, TrustError> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| TrustError::Crypto)?;
        Ok(Self(nonce))
    }

    /// What `keeper` says of it first.
    pub fn commitment(&self, keeper: Name) -> [u8; 32] {
        commitment(keeper, &self.0)
    }

    /// The nonce itself.
    pub fn nonce(&self) -> [u8; NONCE_LEN] {
        self.0
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opening(..)")
    }
}

impl Comparison<'_> {
    /// What both screens show.
    pub fn number(&self) -> Number {
        let Self { meeting, network, domain, label, keepers, joiners } = self;
        let mut said = NUMBER_CONTEXT.to_vec();
        said.extend_from_slice(&meeting.keeper.0);
        said.extend_from_slice(&meeting.joiner.0);
        said.extend_from_slice(&meeting.binding);
        said.extend_from_slice(&keepers[..]);
        said.extend_from_slice(&joiners[..]);
        said.extend_from_slice(&domain.0);
        // Labels are at most 32 bytes long, and the last thing is what is left.
        said.push(network.as_str().len() as u8);
        said.extend_from_slice(network.as_str().as_bytes());
        said.extend_from_slice(label.as_str().as_bytes());
        let hash = digest(&SHA256, &said);
        let first = hash.as_ref().first_chunk().expect("invariant: SHA-256 is 32 bytes");
        // Of 2^64 the remainder is as even as anybody can see.
        Number((u64::from_be_bytes(*first) % NUMBERS) as u32)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03} {:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Whether `nonce` is what `keeper` has committed to.
pub fn opens(commitment_said: &[u8; 32], keeper: Name, nonce: &[u8; NONCE_LEN]) -> bool {
    verify_slices_are_equal(commitment_said, &commitment(keeper, nonce)).is_ok()
}

fn commitment(keeper: Name, nonce: &[u8; NONCE_LEN]) -> [u8; 32] {
    let hash = digest(&SHA256, &[COMMITMENT_CONTEXT, &keeper.0[..], &nonce[..]].concat());
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

    fn number(meeting: &Meeting, [network, label]: [&str; 2], [domain, k, j]: [u8; 3]) -> Number {
        let (network, label) = (network.parse().unwrap(), label.parse().unwrap());
        let (keepers, joiners) = ([k; NONCE_LEN], [j; NONCE_LEN]);
        let domain = Name([domain; 32]);
        let (network, label) = (&network, &label);
        let comparison =
            Comparison { meeting, network, domain, label, keepers: &keepers, joiners: &joiners };
        comparison.number()
    }

    #[test]
    fn both_ends_compute_the_same_and_everything_is_in_it() {
        let labels = ["home", "alice"];
        let here = number(&meeting(1, 2, 3), labels, [4, 5, 6]);
        assert_eq!(here, number(&meeting(1, 2, 3), labels, [4, 5, 6]));
        for other in [
            number(&meeting(7, 2, 3), labels, [4, 5, 6]),
            number(&meeting(1, 7, 3), labels, [4, 5, 6]),
            number(&meeting(1, 2, 7), labels, [4, 5, 6]),
            number(&meeting(1, 2, 3), labels, [7, 5, 6]),
            number(&meeting(1, 2, 3), labels, [4, 7, 6]),
            number(&meeting(1, 2, 3), labels, [4, 5, 7]),
            number(&meeting(1, 2, 3), ["home", "bob"], [4, 5, 6]),
            // What one label lacks is the beginning of the other.
            number(&meeting(1, 2, 3), ["homea", "lice"], [4, 5, 6]),
        ] {
            assert_ne!(other, here);
        }
    }

    #[test]
    fn a_commitment_is_opened_by_one_nonce_of_one_name() {
        let opening = Opening::generate().unwrap();
        let (own, other) = (Name([1; 32]), Name([2; 32]));
        let said = opening.commitment(own);
        assert!(opens(&said, own, &opening.nonce()));
        assert!(!opens(&said, other, &opening.nonce()), "somebody else's, passed on");
        assert!(!opens(&said, own, &Opening::generate().unwrap().nonce()));
        assert_eq!(format!("{opening:?}"), "Opening(..)");
    }

    #[test]
    fn a_number_is_six_digits_whatever_it_is() {
        assert_eq!(Number(7).to_string(), "000 007");
        assert_eq!(Number(482_913).to_string(), "482 913");
    }
}
