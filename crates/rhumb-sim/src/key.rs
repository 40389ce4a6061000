//! Keys that follow from the seed: names spread timers, so a world
//! whose names differed would not be the same world.
//!
//! The private key is a number drawn from the seed, put into the PKCS #8 form (RFC 5208, RFC 5915)
//! that identities are loaded from. Keys of this kind protect nothing but a simulation.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rhumb_trust::Identity;
use rhumb_wire::{Metadata, PublicKey, Role};
use zeroize::Zeroizing;

use crate::random::Random;

/// The identity that follows from `random`.
///
/// # Panics
/// When the library refuses a key: once in 2^32 seeds the number is no private key of the curve.
pub(crate) fn identity(role: Role, created_s: u64, random: &mut Random) -> Identity {
    let scalar = random.bytes();
    let bare = [&BARE_HEAD[..], &scalar].concat();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bare)
        .expect("a drawn number is a private key");
    let point = pair.public_key().as_ref();
    let whole = [&WHOLE_HEAD[..], &scalar, &POINT_HEAD, point].concat();
    let parity = 2 + (point[64] & 1);
    let mut compressed = [parity; 33];
    compressed[1..].copy_from_slice(&point[1..33]);
    let metadata = Metadata::new(role, PublicKey::EcdsaP256(compressed), created_s);
    Identity::from_parts(metadata, Zeroizing::new(whole))
        .expect("the public half was computed from the private one")
}

/// Everything before the private key: version, algorithm
/// (id-ecPublicKey, prime256v1), and the head of the key.
const BARE_HEAD: [u8; 35] = [
    0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01,
    0x01, 0x04, 0x20,
];
/// The same where the public key follows.
const WHOLE_HEAD: [u8; 36] = [
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02,
    0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02,
    0x01, 0x01, 0x04, 0x20,
];
/// Between the private and the public key.
const POINT_HEAD: [u8; 5] = [0xa1, 0x44, 0x03, 0x42, 0x00];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_name() {
        let name = |seed| identity(Role::Node, 5, &mut Random::new(seed)).name();
        assert_eq!(name(1), name(1));
        assert_ne!(name(1), name(2));
    }
}
