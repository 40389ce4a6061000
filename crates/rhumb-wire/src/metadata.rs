//! Metadata: what a name is the hash of. A role, a public key, a creation time, a few attributes.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | magic `RM` |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | role: 1 node, 2 router, 3 RIB, 4 domain, 5 capsule |
//! | 4 | 1 | key algorithm: 1 ECDSA P-256 (33 bytes, SEC 1 compressed), 2 Ed25519 (32 bytes) |
//! | 5 | 33 or 32 | public key |
//! | .. | 8 | creation time, seconds since 1970 |
//! | .. | 1 | number of attributes, at most 8 |
//! | .. | .. | per attribute: key length (1 byte), key, value length (1 byte), value |
//!
//! Canonical: attribute keys are 1 to 32 characters of `a-z`, `0-9` and `-`, strictly ascending;
//! values are UTF-8 of at most 64 bytes. There is no second encoding of the same metadata, so a
//! name has one pre-image that we accept.

use std::collections::BTreeMap;

use crate::WireError;
use crate::reader::Reader;

/// What a name is the hash of: who holds it and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// What kind of thing carries the name.
    pub role: Role,
    /// The key whose holder speaks for the name.
    pub key: PublicKey,
    /// When the name was made, in seconds since 1970. It also tells two names of one key apart.
    pub created_s: u64,
    /// Free attributes, in key order.
    attributes: BTreeMap<String, String>,
}

impl Metadata {
    /// The largest encoding: every field at its bound.
    pub const MAX_LEN: usize = 5
        + PublicKey::MAX_LEN
        + 8
        + 1
        + MAX_ATTRIBUTES * (2 + MAX_ATTRIBUTE_KEY + MAX_ATTRIBUTE_VALUE);

    /// Metadata without attributes.
    pub fn new(role: Role, key: PublicKey, created_s: u64) -> Self {
        Self { role, key, created_s, attributes: BTreeMap::new() }
    }

    /// Adds an attribute.
    ///
    /// # Errors
    /// When the key, the value or their number break the bounds of the encoding.
    pub fn with_attribute(mut self, key: &str, value: &str) -> Result<Self, WireError> {
        check_attribute(key.as_bytes(), value.as_bytes())?;
        self.attributes.insert(key.to_owned(), value.to_owned());
        if self.attributes.len() > MAX_ATTRIBUTES {
            return Err(WireError::TooLong { field: "attributes", limit: MAX_ATTRIBUTES });
        }
        Ok(self)
    }

    /// The attributes, in key order.
    pub fn attributes(&self) -> &BTreeMap<String, String> {
        &self.attributes
    }

    /// Parses the one encoding of some metadata.
    ///
    /// # Errors
    /// When `bytes` are not exactly such an encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != MAGIC {
            return Err(WireError::BadMagic);
        }
        match reader.u8()? {
            VERSION => {}
            version => return Err(WireError::UnknownVersion(version)),
        }
        let role = Role::from_u8(reader.u8()?)?;
        let key = PublicKey::read(&mut reader)?;
        let created_s = reader.u64()?;
        let count = usize::from(reader.u8()?);
        if count > MAX_ATTRIBUTES {
            return Err(WireError::TooLong { field: "attributes", limit: MAX_ATTRIBUTES });
        }
        let mut attributes = BTreeMap::new();
        for _ in 0..count {
            let key_len = usize::from(reader.u8()?);
            let key = reader.take(key_len)?;
            let value_len = usize::from(reader.u8()?);
            let value = reader.take(value_len)?;
            let (key, value) = check_attribute(key, value)?;
            if attributes
                .last_key_value()
                .is_some_and(|(last, _): (&String, _)| last.as_str() >= key)
            {
                return Err(WireError::NotCanonical("attribute order"));
            }
            attributes.insert(key.to_owned(), value.to_owned());
        }
        reader.finish()?;
        Ok(Self { role, key, created_s, attributes })
    }

    /// Parses a list that fills `bytes`: a count (1 byte), then per item a length (2 bytes) and the
    /// encoding. No bytes at all are an empty list too: what carries nothing need not say so.
    ///
    /// # Errors
    /// When `bytes` are not exactly one list, or an item is no metadata.
    pub fn parse_list(bytes: &[u8]) -> Result<Vec<Self>, WireError> {
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(bytes);
        let list = Self::read_list(&mut reader)?;
        reader.finish()?;
        match list.is_empty() {
            true => Err(WireError::NotCanonical("metadata list")),
            false => Ok(list),
        }
    }

    pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        let count = usize::from(reader.u8()?);
        if count > MAX_LIST {
            return Err(WireError::TooLong { field: "metadata list", limit: MAX_LIST });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            let len = usize::from(reader.u16()?);
            list.push(Self::parse(reader.take(len)?)?);
        }
        Ok(list)
    }

    /// Appends a list, as [`Metadata::parse_list`] reads it, its count included.
    ///
    /// # Panics
    /// When there are more than [`MAX_LIST`].
    pub fn emit_list(list: &[Self], out: &mut Vec<u8>) {
        assert!(list.len() <= MAX_LIST, "more metadata than a list can hold");
        out.push(bounded_u8(list.len()));
        for metadata in list {
            out.extend_from_slice(&(metadata.emitted_len() as u16).to_be_bytes());
            metadata.emit_to(out);
        }
    }

    /// The one encoding of this metadata.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.emitted_len());
        self.emit_to(&mut out);
        out
    }

    /// How long [`Metadata::emit`] is.
    pub fn emitted_len(&self) -> usize {
        let of_attribute = |(key, value): (&String, &String)| 2 + key.len() + value.len();
        let attributes: usize = self.attributes.iter().map(of_attribute).sum();
        5 + self.key.as_bytes().len() + 8 + 1 + attributes
    }

    /// As [`Metadata::emit`], behind what is in `out`.
    pub fn emit_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.push(self.role as u8);
        out.push(self.key.algorithm());
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(&self.created_s.to_be_bytes());
        out.push(bounded_u8(self.attributes.len()));
        for (key, value) in &self.attributes {
            out.push(bounded_u8(key.len()));
            out.extend_from_slice(key.as_bytes());
            out.push(bounded_u8(value.len()));
            out.extend_from_slice(value.as_bytes());
        }
    }
}

/// What kind of thing carries a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Role {
    /// An end system: a program that sends and receives.
    Node = 1,
    /// A switch that forwards for others.
    Router = 2,
    /// A Routing Information Base.
    Rib = 3,
    /// A trust domain.
    Domain = 4,
    /// A data object, served by whoever its owner says.
    Capsule = 5,
}

impl Role {
    fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            1 => Self::Node,
            2 => Self::Router,
            3 => Self::Rib,
            4 => Self::Domain,
            5 => Self::Capsule,
            value => return Err(WireError::UnknownVariant { field: "role", value }),
        })
    }

    /// The role in lower-case English.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Router => "router",
            Self::Rib => "rib",
            Self::Domain => "domain",
            Self::Capsule => "capsule",
        }
    }
}

/// A public key with its algorithm. Whether the bytes are a
/// point on the curve is decided where it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PublicKey {
    /// ECDSA on P-256 with SHA-256: SEC 1 compressed point.
    /// Speaks DTLS, so nodes and routers have it.
    EcdsaP256([u8; 33]),
    /// Ed25519 (RFC 8032), for keys that never speak DTLS.
    Ed25519([u8; 32]),
}

impl PublicKey {
    const MAX_LEN: usize = 33;

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u8()? {
            1 => match reader.array::<33>()? {
                key if matches!(key[0], 2 | 3) => Ok(Self::EcdsaP256(key)),
                _ => Err(WireError::NotCanonical("public key")),
            },
            2 => Ok(Self::Ed25519(reader.array()?)),
            value => Err(WireError::UnknownVariant { field: "key algorithm", value }),
        }
    }

    fn algorithm(&self) -> u8 {
        match self {
            Self::EcdsaP256(_) => 1,
            Self::Ed25519(_) => 2,
        }
    }

    /// The key's bytes in the form its variant documents.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::EcdsaP256(bytes) => bytes,
            Self::Ed25519(bytes) => bytes,
        }
    }
}

fn check_attribute<'a>(key: &'a [u8], value: &'a [u8]) -> Result<(&'a str, &'a str), WireError> {
    if key.len() > MAX_ATTRIBUTE_KEY {
        return Err(WireError::TooLong { field: "attribute key", limit: MAX_ATTRIBUTE_KEY });
    }
    if value.len() > MAX_ATTRIBUTE_VALUE {
        return Err(WireError::TooLong { field: "attribute value", limit: MAX_ATTRIBUTE_VALUE });
    }
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    if key.is_empty() || !key.iter().all(plain) {
        return Err(WireError::NotCanonical("attribute key"));
    }
    let key = std::str::from_utf8(key).map_err(|_| WireError::NotCanonical("attribute key"))?;
    let value =
        std::str::from_utf8(value).map_err(|_| WireError::NotCanonical("attribute value"))?;
    Ok((key, value))
}

fn bounded_u8(len: usize) -> u8 {
    u8::try_from(len).expect("invariant: every length here is bounded below 256 on construction")
}

/// Most metadata in a list: one per certificate of a chain, and one for the name itself.
pub const MAX_LIST: usize = crate::certificate::MAX_CHAIN + 1;

const MAGIC: [u8; 2] = *b"RM";
const VERSION: u8 = 1;
/// Enough for a label, a place and a contact; small, because metadata travels in handshakes.
const MAX_ATTRIBUTES: usize = 8;
const MAX_ATTRIBUTE_KEY: usize = 32;
const MAX_ATTRIBUTE_VALUE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> PublicKey {
        let mut bytes = [7; 33];
        bytes[0] = 2;
        PublicKey::EcdsaP256(bytes)
    }

    #[test]
    fn a_second_spelling_is_refused() {
        let metadata = Metadata::new(Role::Node, key(), 9)
            .with_attribute("a", "1")
            .and_then(|m| m.with_attribute("b", "2"))
            .unwrap();
        let bytes = metadata.emit();
        assert_eq!(Metadata::parse(&bytes), Ok(metadata));
        let mut swapped = bytes.clone();
        let end = swapped.len();
        swapped[end - 8..].copy_from_slice(&[1, b'b', 1, b'2', 1, b'a', 1, b'1']);
        assert_eq!(Metadata::parse(&swapped), Err(WireError::NotCanonical("attribute order")));
        let mut uncompressed = bytes;
        uncompressed[5] = 4;
        assert_eq!(Metadata::parse(&uncompressed), Err(WireError::NotCanonical("public key")));
    }

    #[test]
    fn bounds_hold_from_both_sides() {
        let metadata = Metadata::new(Role::Capsule, PublicKey::Ed25519([1; 32]), 0);
        let long = |n: usize| "v".repeat(n);
        assert!(metadata.clone().with_attribute("k", &long(MAX_ATTRIBUTE_VALUE)).is_ok());
        assert!(metadata.clone().with_attribute("k", &long(MAX_ATTRIBUTE_VALUE + 1)).is_err());
        assert!(metadata.clone().with_attribute(&"k".repeat(MAX_ATTRIBUTE_KEY + 1), "").is_err());
        assert!(metadata.clone().with_attribute("Key", "").is_err());
        let full =
            (0..MAX_ATTRIBUTES).try_fold(metadata, |m, i| m.with_attribute(&format!("k{i}"), ""));
        assert!(full.clone().unwrap().with_attribute("k0", "again").is_ok());
        assert!(full.unwrap().with_attribute("one-more", "").is_err());
    }

    proptest! {
        #[test]
        fn what_parses_re_emits(attributes in prop::collection::btree_map("[a-z0-9-]{1,32}", "\\PC{0,16}", 0..8),
                                created_s: u64, ed: bool) {
            let key = if ed { PublicKey::Ed25519([3; 32]) } else { key() };
            let mut metadata = Metadata::new(Role::Router, key, created_s);
            for (name, value) in &attributes {
                metadata = metadata.with_attribute(name, value).unwrap();
            }
            let bytes = metadata.emit();
            prop_assert!(bytes.len() <= Metadata::MAX_LEN);
            prop_assert_eq!(Metadata::parse(&bytes), Ok(metadata));
            for cut in 0..bytes.len() {
                prop_assert!(Metadata::parse(&bytes[..cut]).is_err());
            }
        }
    }
}
