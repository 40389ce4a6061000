//! Names that an owner publishes under its own: a signed list of labels, and what each stands for.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 60 | as of a certificate, of type 8 and scope 0 |
//! | 60 | 1 | number of labels, at most 24; none takes all of them back |
//! | .. | .. | for each, by strictly ascending labels: length (1), label, name (32) |
//! | end - 64 | 64 | signature, as of a certificate |
//!
//! The list is whole: of two of one owner's the one with the higher sequence is in force, and what
//! it does not name has no name. It is no [`Certificate`](crate::Certificate), which are all small:
//! neither parser takes the other's type.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::certificate::{SIGNATURE_LEN, SIGNING_CONTEXT, VERSION, read_beginning};
use crate::reader::Reader;
use crate::{Name, WireError};

/// What an owner says that names are called under its own. Parsed, not verified: `rhumb-trust` does
/// that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedNames {
    /// Of two lists of one owner the higher is in force. Owners use milliseconds since 1970.
    pub sequence: u64,
    /// First second in which the list holds.
    pub not_before_s: u64,
    /// Last second in which the list holds.
    pub not_after_s: u64,
    /// Whose word it is, and whose key signs.
    pub owner: Name,
    /// What is called how.
    pub names: BTreeMap<PublishedLabel, Name>,
    /// The signature, unverified.
    pub signature: [u8; SIGNATURE_LEN],
}

/// 1 to 32 of `a-z`, `0-9`, `-` and `_`, the first a letter or digit: a word that is the same in a
/// host's name, and in which no dot makes it unclear where the owner begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishedLabel(String);

impl PublishedNames {
    /// Most labels in a list.
    pub const MAX_LABELS: usize = 24;
    /// Most bytes of a list, so that it goes to a RIB together with metadata of 120 bytes in the
    /// smallest datagram that a session may have.
    pub const MAX_LEN: usize = 1000;

    /// Parses a list that fills `bytes`.
    ///
    /// # Errors
    /// When `bytes` are not exactly one list in its one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let published = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(published)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        read_beginning(reader, TYPE, "certificate")?;
        let sequence = reader.u64()?;
        let (not_before_s, not_after_s) = (reader.u64()?, reader.u64()?);
        if not_before_s > not_after_s {
            return Err(WireError::NotCanonical("validity window"));
        }
        let owner = reader.name()?;
        let names = read_names(reader)?;
        let signature = reader.array()?;
        let published = Self { sequence, not_before_s, not_after_s, owner, names, signature };
        match published.is_too_long() {
            true => Err(WireError::TooLong { field: "published names", limit: Self::MAX_LEN }),
            false => Ok(published),
        }
    }

    /// Whether these are more than a list holds.
    pub fn is_too_long(&self) -> bool {
        self.names.len() > Self::MAX_LABELS || self.emitted_len() > Self::MAX_LEN
    }

    /// Bytes that [`PublishedNames::emit`] appends.
    pub fn emitted_len(&self) -> usize {
        let len_of = |label: &PublishedLabel| 1 + label.0.len() + Name::LEN;
        BODY + 1 + self.names.keys().map(len_of).sum::<usize>() + SIGNATURE_LEN
    }

    /// Appends the one encoding of this list.
    ///
    /// # Panics
    /// When there are more labels than a list holds.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_unsigned(out);
        out.extend_from_slice(&self.signature);
    }

    /// The bytes that the signature is over: the context of certificates, then all but the
    /// signature.
    ///
    /// # Panics
    /// As [`PublishedNames::emit`].
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut out = SIGNING_CONTEXT.to_vec();
        self.emit_unsigned(&mut out);
        out
    }

    fn emit_unsigned(&self, out: &mut Vec<u8>) {
        assert!(self.names.len() <= Self::MAX_LABELS, "more labels than a list holds");
        out.extend_from_slice(&[VERSION, TYPE, 0, 0]);
        for number in [self.sequence, self.not_before_s, self.not_after_s] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.owner.0);
        out.push(self.names.len() as u8);
        for (label, name) in &self.names {
            out.push(label.0.len() as u8);
            out.extend_from_slice(label.0.as_bytes());
            out.extend_from_slice(&name.0);
        }
    }
}

fn read_names(reader: &mut Reader<'_>) -> Result<BTreeMap<PublishedLabel, Name>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > PublishedNames::MAX_LABELS {
        let limit = PublishedNames::MAX_LABELS;
        return Err(WireError::TooLong { field: "labels", limit });
    }
    let mut names = BTreeMap::new();
    for _ in 0..count {
        let len = usize::from(reader.u8()?);
        let label = std::str::from_utf8(reader.take(len)?).ok().and_then(|it| it.parse().ok());
        let label: PublishedLabel = label.ok_or(WireError::NotCanonical("label"))?;
        if names.last_key_value().is_some_and(|(last, _)| *last >= label) {
            return Err(WireError::NotCanonical("order of labels"));
        }
        names.insert(label, reader.name()?);
    }
    Ok(names)
}

impl PublishedLabel {
    /// Most characters.
    pub const MAX_LEN: usize = 32;

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PublishedLabel {
    type Err = WireError;

    fn from_str(text: &str) -> Result<Self, WireError> {
        let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let begins_well = text.bytes().next().is_some_and(is_fit);
        let goes_on = text.bytes().all(|byte| is_fit(byte) || b"-_".contains(&byte));
        match begins_well && goes_on && text.len() <= Self::MAX_LEN {
            true => Ok(Self(text.to_owned())),
            false => Err(WireError::NotCanonical("label")),
        }
    }
}

impl fmt::Display for PublishedLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The type of certificates that this is.
const TYPE: u8 = 8;
/// Where the number of labels is.
const BODY: usize = 60;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Certificate;
    use crate::certificate::tests::{any_certificate, any_name};
    use proptest::prelude::*;

    pub(crate) fn any_published() -> impl Strategy<Value = PublishedNames> {
        let names = prop::collection::btree_map("[a-z0-9][a-z0-9_-]{0,31}", any_name(), 0..=13);
        let halves = any::<[[u8; 32]; 2]>();
        (any::<[u64; 3]>(), any_name(), names, halves).prop_map(
            |([sequence, a, b], owner, names, halves)| PublishedNames {
                sequence,
                not_before_s: a.min(b),
                not_after_s: a.max(b),
                owner,
                names: names
                    .into_iter()
                    .map(|(label, name)| (label.parse().expect("a label"), name))
                    .collect(),
                signature: halves.concat().try_into().expect("two halves of 32"),
            },
        )
    }

    fn of(labels: &[&str]) -> PublishedNames {
        PublishedNames {
            sequence: 1,
            not_before_s: 2,
            not_after_s: 3,
            owner: Name([4; 32]),
            names: labels.iter().map(|it| (it.parse().unwrap(), Name([5; 32]))).collect(),
            signature: [6; SIGNATURE_LEN],
        }
    }

    fn bytes_of(published: &PublishedNames) -> Vec<u8> {
        let mut out = Vec::new();
        published.emit(&mut out);
        out
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(published in any_published()) {
            let mut bytes = bytes_of(&published);
            prop_assert_eq!(bytes.len(), published.emitted_len());
            prop_assert_eq!(PublishedNames::parse(&bytes), Ok(published));
            for cut in 0..bytes.len() {
                prop_assert!(PublishedNames::parse(&bytes[..cut]).is_err());
            }
            bytes.push(0);
            prop_assert_eq!(PublishedNames::parse(&bytes), Err(WireError::TrailingBytes));
        }

        #[test]
        fn neither_certificates_nor_lists_are_read_as_the_other(
            published in any_published(),
            certificate in any_certificate(),
        ) {
            prop_assert!(Certificate::parse(&bytes_of(&published)).is_err());
            let mut bytes = Vec::new();
            certificate.emit(&mut bytes);
            prop_assert!(PublishedNames::parse(&bytes).is_err());
            prop_assert_ne!(published.signed_bytes(), certificate.signed_bytes());
        }
    }

    #[test]
    fn labels_are_lower_case_words_without_dots() {
        for good in ["a", "9", "camera", "cam-1_x", &"a".repeat(32)] {
            assert_eq!(good.parse::<PublishedLabel>().unwrap().as_str(), good);
        }
        for bad in ["", "Camera", "a.b", "-a", "_a", "a b", "b\u{f6}b", &"a".repeat(33)] {
            assert!(bad.parse::<PublishedLabel>().is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_out_of_order_or_twice_are_refused() {
        let good = bytes_of(&of(&["a", "b"]));
        assert!(PublishedNames::parse(&good).is_ok());
        for second in [b'a', b'B', b'.'] {
            let mut bad = good.clone();
            bad[BODY + 1 + 2 + Name::LEN + 1] = second;
            assert!(matches!(PublishedNames::parse(&bad), Err(WireError::NotCanonical(_))));
        }
        let mut swapped = good;
        swapped[BODY + 1 + 1] = b'c';
        let refused = PublishedNames::parse(&swapped);
        assert_eq!(refused, Err(WireError::NotCanonical("order of labels")));
    }

    #[test]
    fn a_list_is_bounded_in_labels_and_in_bytes() {
        let numbered = |count: usize, width: usize| -> Vec<String> {
            (0..count).map(|number| format!("{number:0width$}")).collect()
        };
        let list = |labels: Vec<String>| of(&labels.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!list(numbered(PublishedNames::MAX_LABELS, 2)).is_too_long());
        assert!(list(numbered(PublishedNames::MAX_LABELS + 1, 2)).is_too_long());
        let fits = list(numbered(13, 32));
        assert_eq!(PublishedNames::parse(&bytes_of(&fits)), Ok(fits));
        let too_long = list(numbered(14, 32));
        assert!(too_long.is_too_long());
        let refused = WireError::TooLong { field: "published names", limit: 1000 };
        assert_eq!(PublishedNames::parse(&bytes_of(&too_long)), Err(refused));
        let mut many = bytes_of(&of(&[]));
        many[BODY] = PublishedNames::MAX_LABELS as u8 + 1;
        let refused = WireError::TooLong { field: "labels", limit: PublishedNames::MAX_LABELS };
        assert_eq!(PublishedNames::parse(&many), Err(refused));
    }
}
