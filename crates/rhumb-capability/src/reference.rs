//! Reference only: the two delegation schemes of the paper's Table 2, for IPv4, exactly
//! as printed. Their weaknesses are named tests (`tests/known_breaks.rs`); a waypoint
//! takes them only where its configuration says so.
//!
//! ```text
//! F(k, x) = PRF(k, x), bits and counters as one byte each
//! H(x) = first 16 bytes of SHA-256(x)
//! chaining   s0 = s ^ H(id);  si = F(s(i-1), pi)          key: s|p|   handed over: s|p|
//! XOR        s0 = s, d = H(s) ^ H(id);                    key: d      handed over: d, s|p|
//!            d ^= F(s(i-1), pi | i);  si = F(s(i-1), i)
//! ```

use aws_lc_rs::digest::{SHA256, digest};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::prf::{BLOCK, PrfInput, prf, xor};
use crate::{Delegation, DelegationId, Prefix, Scheme, Suite};

/// What a delegate of the XOR scheme holds.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct XorKeys {
    /// What bindings are made with.
    pub(crate) key: [u8; BLOCK],
    /// What longer prefixes are made with.
    pub(crate) tail: [u8; BLOCK],
}

/// The key of a chaining delegation.
pub(crate) fn bit_chain(
    suite: Suite,
    secret: &[u8; BLOCK],
    delegation: &Delegation,
) -> [u8; BLOCK] {
    let mut state = *secret;
    xor(&mut state, &hash_id(delegation.id));
    bit_chain_extend(suite, &mut state, &delegation.prefix, 0);
    state
}

/// Goes on from a prefix of `from` bits to all of `prefix`.
pub(crate) fn bit_chain_extend(suite: Suite, state: &mut [u8; BLOCK], prefix: &Prefix, from: u8) {
    for number in from + 1..=prefix.len() {
        *state = prf(suite, state, &PrfInput::new(&[&[prefix.bit(number)]]));
    }
}

/// The keys of an XOR delegation.
pub(crate) fn xor_keys(suite: Suite, secret: &[u8; BLOCK], delegation: &Delegation) -> XorKeys {
    let mut keys = XorKeys { key: hash(secret), tail: *secret };
    xor(&mut keys.key, &hash_id(delegation.id));
    xor_extend(suite, &mut keys, &delegation.prefix, 0);
    keys
}

/// Goes on from a prefix of `from` bits to all of `prefix`.
pub(crate) fn xor_extend(suite: Suite, keys: &mut XorKeys, prefix: &Prefix, from: u8) {
    for number in from + 1..=prefix.len() {
        let share = prf(suite, &keys.tail, &PrfInput::new(&[&[prefix.bit(number), number]]));
        xor(&mut keys.key, &share);
        keys.tail = prf(suite, &keys.tail, &PrfInput::new(&[&[number]]));
    }
}

/// What a binding is made with, at the waypoint, from the undelegated secret.
pub(crate) fn binding_key(
    suite: Suite,
    scheme: Scheme,
    secret: &[u8; BLOCK],
    delegation: Option<&Delegation>,
) -> [u8; BLOCK] {
    match (scheme, delegation) {
        (_, None) => *secret,
        (Scheme::Xor, Some(delegation)) => xor_keys(suite, secret, delegation).key,
        (_, Some(delegation)) => bit_chain(suite, secret, delegation),
    }
}

/// H of a delegation id.
pub(crate) fn hash_id(id: DelegationId) -> [u8; BLOCK] {
    hash(&id.to_bytes())
}

/// H.
pub(crate) fn hash(bytes: &[u8]) -> [u8; BLOCK] {
    let digest = digest(&SHA256, bytes);
    *digest.as_ref().first_chunk().expect("invariant: a SHA-256 digest has 32 bytes")
}
