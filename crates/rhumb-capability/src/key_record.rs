//! What a key server gives a principal: the secret of one capability, sealed for it alone. `docs/platypus.md`, section 6.
//!
//! ```text
//! record = version 1 | suite 1 | scheme 1 | flags 1 | epoch 1 | family 1 (4, 6) | window 4 | not after 8, Unix seconds
//!        | waypoint 4 or 16 | principal 4 | s 16
//! sealed = nonce 12 | AES-256-GCM-SIV(record), tag 16 at its end; associated data: the query name
//! ```

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::header::address;
use crate::{
    Capability, CapabilityError, Delegations, Epoch, Family, Flags, Principal, Scheme, Secret,
    Suite, Window,
};

/// An undelegated capability and its secret, as minted. It becomes a [`Credential`](crate::Credential).
#[derive(Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// What the secret is for.
    pub capability: Capability,
    /// The s of the capability.
    pub secret: Secret,
    /// The last second in which a waypoint may take it.
    pub not_after_s: u64,
}

/// The key that a principal and an operator share, for records.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct RecordKey([u8; RecordKey::LEN]);

impl RecordKey {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// Takes random bytes over. The caller wipes its copy.
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    fn aead(&self) -> Result<LessSafeKey, CapabilityError> {
        let key = UnboundKey::new(&AES_256_GCM_SIV, &self.0);
        key.map(LessSafeKey::new).map_err(|_| CapabilityError::Crypto)
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKey(..)")
    }
}

impl KeyRecord {
    /// Bytes of a nonce for [`KeyRecord::seal`].
    pub const NONCE_LEN: usize = 12;

    /// The one encoding of the record, in clear.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let Capability { waypoint, principal, flags, window, epoch, suite, scheme, .. } =
            self.capability;
        let mut out = Zeroizing::new(Vec::with_capacity(MAX_LEN));
        let family = if waypoint.is_ipv4() { 4 } else { 6 };
        let head = [VERSION, suite.number(), scheme.number(), flags.bits(), epoch.0, family];
        out.extend_from_slice(&head);
        out.extend_from_slice(&window.0.to_be_bytes());
        out.extend_from_slice(&self.not_after_s.to_be_bytes());
        match waypoint {
            IpAddr::V4(v4) => out.extend_from_slice(&v4.octets()),
            IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
        }
        out.extend_from_slice(&principal.0.to_be_bytes());
        out.extend_from_slice(self.secret.expose());
        out
    }

    /// Reads a record in clear.
    ///
    /// # Errors
    /// When `bytes` are not exactly one record.
    pub fn decode(bytes: &[u8]) -> Result<Self, CapabilityError> {
        let (&[version, suite, scheme, flags, epoch, family], rest) =
            bytes.split_first_chunk().ok_or(CapabilityError::Malformed("key record"))?;
        if version != VERSION {
            return Err(CapabilityError::Malformed("version"));
        }
        let family = match family {
            4 => Family::V4,
            6 => Family::V6,
            _ => return Err(CapabilityError::Malformed("family")),
        };
        let width = family.address_len();
        if rest.len() != 4 + 8 + width + 4 + Secret::LEN {
            return Err(CapabilityError::Malformed("length"));
        }
        let capability = Capability {
            waypoint: address(&rest[12..12 + width]),
            principal: Principal(u32::from_be_bytes(array(&rest[12 + width..]))),
            flags: Flags::from_bits(flags).ok_or(CapabilityError::Malformed("flags"))?,
            window: Window(u32::from_be_bytes(array(rest))),
            epoch: Epoch(epoch),
            suite: Suite::from_number(suite).ok_or(CapabilityError::Malformed("suite"))?,
            scheme: Scheme::from_number(scheme).ok_or(CapabilityError::Malformed("scheme"))?,
            delegations: Delegations::default(),
        };
        if capability.scheme != Scheme::CaveatChain && family != Family::V4 {
            return Err(CapabilityError::Malformed("scheme"));
        }
        let not_after_s = u64::from_be_bytes(array(&rest[4..]));
        Ok(Self { capability, secret: Secret::new(array(&rest[16 + width..])), not_after_s })
    }

    /// Seals the record for the holder of `key`, as the answer to `query_name` and to no other question.
    ///
    /// `nonce` is fresh and random; the cipher forgives one used twice, and then only shows whether the records were equal.
    ///
    /// # Errors
    /// When the cryptographic library fails.
    pub fn seal(
        &self,
        key: &RecordKey,
        query_name: &[u8],
        nonce: [u8; Self::NONCE_LEN],
    ) -> Result<Vec<u8>, CapabilityError> {
        let mut record = self.encode();
        let unique = Nonce::assume_unique_for_key(nonce);
        let tag = key
            .aead()?
            .seal_in_place_separate_tag(unique, Aad::from(query_name), &mut record)
            .map_err(|_| CapabilityError::Crypto)?;
        Ok([&nonce[..], &record[..], tag.as_ref()].concat())
    }

    /// Opens what [`KeyRecord::seal`] made for the same name.
    ///
    /// # Errors
    /// When it was sealed with another key or for another name, or is damaged.
    pub fn open(
        key: &RecordKey,
        query_name: &[u8],
        sealed: &[u8],
    ) -> Result<Self, CapabilityError> {
        let (nonce, sealed) = sealed.split_first_chunk().ok_or(CapabilityError::RecordNotOpened)?;
        if sealed.len() > MAX_LEN + TAG_LEN {
            return Err(CapabilityError::RecordNotOpened);
        }
        let mut buffer = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let record = key
            .aead()?
            .open_in_place(nonce, Aad::from(query_name), &mut buffer)
            .map_err(|_| CapabilityError::RecordNotOpened)?;
        Self::decode(record)
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("invariant: the length of the record was checked")
}

const VERSION: u8 = 1;
const TAG_LEN: usize = 16;
const MAX_LEN: usize = 6 + 4 + 8 + 16 + 4 + Secret::LEN;
