//! What a key's TXT record holds: what the question does not say already, sealed for the principal.
//!
//! ```text
//! record = version and suite, 4 bits each | scheme 1 | epoch 1 | not after 4, Unix seconds | s 16
//! sealed = AES-256-GCM-SIV(record), tag 16 at its end;
//!          nonce: zeros; associated data: the query name
//! ```
//!
//! 39 bytes: so short that an answer is not twice its question, and goes in a datagram. Waypoint,
//! principal, flags and window are in the query name, which the seal covers. The nonce is always
//! the same, which this cipher (RFC 8452) allows: with it, equal records for one name are equal
//! bytes, and that is all anybody learns. A cache may mix old and new.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use rhumb_capability::{Capability, Delegations, Epoch, KeyRecord, Scheme, Secret, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::question::KeyQuestion;

/// The key that a principal and its operator share.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SharedKey([u8; SharedKey::LEN]);

impl SharedKey {
    /// Its bytes.
    pub const LEN: usize = 32;

    /// Takes random bytes over. The caller wipes its copy.
    #[must_use]
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for whoever writes them somewhere safe.
    #[must_use]
    pub fn expose(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    fn aead(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM_SIV, &self.0).map(LessSafeKey::new).ok()
    }
}

impl std::fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

/// Seals `record` as the answer to `query_name`. `None` when it is over
/// after 2106, or the cryptographic library fails.
#[must_use]
pub fn seal(record: &KeyRecord, key: &SharedKey, query_name: &str) -> Option<Vec<u8>> {
    let capability = &record.capability;
    let mut clear = Zeroizing::new(Vec::with_capacity(RECORD_LEN));
    clear.extend([VERSION << 4 | capability.suite.number(), capability.scheme.number()]);
    clear.push(capability.epoch.0);
    clear.extend(u32::try_from(record.not_after_s).ok()?.to_be_bytes());
    clear.extend(record.secret.expose());
    let tag =
        key.aead()?.seal_in_place_separate_tag(nonce(), Aad::from(query_name), &mut clear).ok()?;
    Some([&clear[..], tag.as_ref()].concat())
}

/// Opens what [`seal`] made for the same name, as the answer to `question`.
#[must_use]
pub fn open(
    sealed: &[u8],
    key: &SharedKey,
    question: &KeyQuestion,
    query_name: &str,
) -> Option<KeyRecord> {
    if sealed.len() != RECORD_LEN + TAG_LEN {
        return None;
    }
    let mut buffer = Zeroizing::new(sealed.to_vec());
    let clear = key.aead()?.open_in_place(nonce(), Aad::from(query_name), &mut buffer).ok()?;
    let (&[kind, scheme, epoch], rest) = clear.split_first_chunk()?;
    let (not_after, secret) = rest.split_first_chunk()?;
    if kind >> 4 != VERSION {
        return None;
    }
    let capability = Capability {
        waypoint: question.waypoint,
        principal: question.principal,
        flags: question.flags,
        window: question.window,
        epoch: Epoch(epoch),
        suite: Suite::from_number(kind & 0xF)?,
        scheme: Scheme::from_number(scheme)?,
        delegations: Delegations::default(),
    };
    let secret = Secret::new(secret.try_into().ok()?);
    Some(KeyRecord { capability, secret, not_after_s: u32::from_be_bytes(*not_after).into() })
}

/// The same for all: see above.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

const VERSION: u8 = 1;
const RECORD_LEN: usize = 3 + 4 + Secret::LEN;
const TAG_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::{Flags, Principal, Window};

    fn example() -> (KeyQuestion, KeyRecord) {
        let question = KeyQuestion {
            waypoint: [192, 0, 2, 1].into(),
            principal: Principal(42),
            flags: Flags::NONE,
            window: Window(7),
        };
        let capability = Capability {
            waypoint: question.waypoint,
            principal: question.principal,
            flags: question.flags,
            window: question.window,
            epoch: Epoch(3),
            suite: Suite::HeaderSip,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        let secret = Secret::new([9; 16]);
        (question, KeyRecord { capability, secret, not_after_s: 1_800_000_000 })
    }

    #[test]
    fn a_record_opens_with_its_key_and_under_its_name_alone() {
        let (question, record) = example();
        let key = SharedKey::new([1; 32]);
        let sealed = seal(&record, &key, "label._k.example").unwrap();
        assert_eq!(sealed.len(), 39);
        let opened = |sealed: &[u8], key: &SharedKey, name| open(sealed, key, &question, name);
        assert_eq!(opened(&sealed, &key, "label._k.example"), Some(record));
        assert_eq!(opened(&sealed, &SharedKey::new([2; 32]), "label._k.example"), None);
        assert_eq!(opened(&sealed, &key, "other._k.example"), None);
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(&changed, &key, "label._k.example"), None, "{bit}");
        }
        for len in 0..sealed.len() {
            assert_eq!(opened(&sealed[..len], &key, "label._k.example"), None);
        }
    }

    #[test]
    fn equal_records_are_equal_bytes_and_show_no_secret() {
        let (_, record) = example();
        let key = SharedKey::new([1; 32]);
        let sealed = seal(&record, &key, "label._k.example").unwrap();
        assert_eq!(seal(&record, &key, "label._k.example").unwrap(), sealed);
        assert!(!sealed.windows(4).any(|part| part == [9; 4]));
        assert_eq!(format!("{key:?}"), "SharedKey(..)");
    }
}
