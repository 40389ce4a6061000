//! What a RIB says of all that it answers, so that it cannot answer differently to different
//! askers: heads of its log, and what shows that an answer is as one of them says.
//!
//! A RIB keeps a map from each name to what it holds of that, hashes it into a tree, and signs the
//! root together with the root of a second tree, of all heads before: that is a head. How the trees
//! are hashed is in `rhumb_trust::log`.
//!
//! A head:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | as of a certificate, of type 9 and scope 0 |
//! | 4 | 8 | epoch: how many heads of this log there are before it |
//! | 12 | 8 | when the log began, in milliseconds since 1970: which log it is, of this RIB's |
//! | 20 | 8 | when the head was made, likewise |
//! | 28 | 8 | names in the map |
//! | 36 | 32 | the RIB |
//! | 68 | 32 | root of the map; zeros when it is empty |
//! | 100 | 32 | root of the tree of all heads before; zeros when there are none |
//! | 132 | 64 | signature, as of a certificate |
//!
//! The data of a `Heads` PDU are a count (1 byte, 1 to 6), then as many heads.
//!
//! A way through the map, from the root to where a name is, or would be:
//!
//! | size | field |
//! |---|---|
//! | 1 | what is there: 0 nothing, in an empty map; 1 the name itself; 2 another one |
//! | .. | 1: a count, 1 to 16, then as many fingerprints of certificates, 32 bytes each. 2: position (32), value (32) |
//! | 32 | a bit for each of the 256 of a position: at which of them the way branches |
//! | 32 each | for each such bit, from the first on, the hash of the other side |

use crate::certificate::{SIGNATURE_LEN, SIGNING_CONTEXT, VERSION, read_beginning};
use crate::reader::Reader;
use crate::{Name, WireError};

/// A SHA-256 hash, or zeros for that of nothing.
pub type Hash = [u8; 32];

/// What a RIB says that it holds and held. Parsed, not verified: `rhumb-trust` does that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// How many heads of this log there are before it.
    pub epoch: u64,
    /// When the log began: which one it is of this RIB's.
    pub began_ms: u64,
    /// When the head was made.
    pub made_ms: u64,
    /// How many names are in the map.
    pub names: u64,
    /// Whose log it is, and whose key signs.
    pub rib: Name,
    /// The root of the map.
    pub map: Hash,
    /// The root of the tree of all heads before.
    pub history: Hash,
    /// The signature, unverified.
    pub signature: [u8; SIGNATURE_LEN],
}

/// A way through the map, from the root to where a name is, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapPath {
    /// What is there.
    pub end: PathEnd,
    /// At which bits of the position it branches, in ascending order, with the hash of the other
    /// side of each.
    pub branches: Vec<(u8, Hash)>,
}

/// What a way through the map comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEnd {
    /// The map is empty.
    Nothing,
    /// The name itself: the fingerprints of what is held of it, in their order.
    Name(Vec<Hash>),
    /// Another name, which does not show.
    Other {
        /// Where it is.
        position: Hash,
        /// The hash of what is held of it.
        value: Hash,
    },
}

impl Head {
    /// Bytes of a head.
    pub const LEN: usize = 132 + SIGNATURE_LEN;
    /// Most heads in one PDU: as many as fit any path with its header and sealing.
    pub const MAX_LIST: usize = 6;

    /// Parses a head that fills `bytes`.
    ///
    /// # Errors
    /// When `bytes` are not exactly one head in its one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let head = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(head)
    }

    /// Parses the data of a `Heads` PDU.
    ///
    /// # Errors
    /// When `data` is not exactly a list of at least one head.
    pub fn parse_list(data: &[u8]) -> Result<Vec<Self>, WireError> {
        let mut reader = Reader::new(data);
        let count = usize::from(reader.u8()?);
        if count > Self::MAX_LIST {
            return Err(WireError::TooLong { field: "heads", limit: Self::MAX_LIST });
        }
        if count == 0 {
            return Err(WireError::NotCanonical("heads"));
        }
        let heads = (0..count).map(|_| Self::read(&mut reader)).collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(heads)
    }

    /// Appends the one encoding of a list, of at least one head.
    ///
    /// # Panics
    /// When there are more than [`Head::MAX_LIST`].
    pub fn emit_list(heads: &[Self], out: &mut Vec<u8>) {
        assert!(
            (1..=Self::MAX_LIST).contains(&heads.len()),
            "more heads than a list holds, or none"
        );
        out.push(heads.len() as u8);
        heads.iter().for_each(|head| head.emit(out));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        read_beginning(reader, TYPE, "head")?;
        let [epoch, began_ms, made_ms, names] =
            [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let rib = reader.name()?;
        let (map, history, signature) = (reader.array()?, reader.array()?, reader.array()?);
        if began_ms > made_ms {
            return Err(WireError::NotCanonical("times of a head"));
        }
        if (epoch == 0) != (history == NOTHING) || (names == 0) != (map == NOTHING) {
            return Err(WireError::NotCanonical("root of a head"));
        }
        Ok(Self { epoch, began_ms, made_ms, names, rib, map, history, signature })
    }

    /// Appends the one encoding of this head.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_unsigned(out);
        out.extend_from_slice(&self.signature);
    }

    /// The bytes that the signature is over: the context of certificates, then all but the
    /// signature.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut out = SIGNING_CONTEXT.to_vec();
        self.emit_unsigned(&mut out);
        out
    }

    fn emit_unsigned(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, TYPE, 0, 0]);
        for number in [self.epoch, self.began_ms, self.made_ms, self.names] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.rib.0);
        out.extend_from_slice(&self.map);
        out.extend_from_slice(&self.history);
    }
}

impl MapPath {
    /// Most fingerprints of one name: a RIB holds fewer.
    pub const MAX_FINGERPRINTS: usize = 16;

    /// Parses a way that fills `bytes`.
    ///
    /// # Errors
    /// When `bytes` are not exactly one way in its one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let path = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(path)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let end = match reader.u8()? {
            0 => PathEnd::Nothing,
            1 => PathEnd::Name(read_fingerprints(reader)?),
            2 => PathEnd::Other { position: reader.array()?, value: reader.array()? },
            value => return Err(WireError::UnknownVariant { field: "end of a way", value }),
        };
        let bits: [u8; 32] = reader.array()?;
        let mut branches = Vec::new();
        for bit in 0..=u8::MAX {
            if bits[usize::from(bit / 8)] & (0x80 >> (bit % 8)) != 0 {
                branches.push((bit, reader.array()?));
            }
        }
        if end == PathEnd::Nothing && !branches.is_empty() {
            return Err(WireError::NotCanonical("way through an empty map"));
        }
        Ok(Self { end, branches })
    }

    /// Appends the one encoding of this way, whose branches are in ascending order.
    ///
    /// # Panics
    /// When there are more fingerprints than a way holds.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match &self.end {
            PathEnd::Nothing => out.push(0),
            PathEnd::Name(fingerprints) => {
                assert!(
                    fingerprints.len() <= Self::MAX_FINGERPRINTS,
                    "more fingerprints than a way holds"
                );
                out.extend_from_slice(&[1, fingerprints.len() as u8]);
                fingerprints.iter().for_each(|fingerprint| out.extend_from_slice(fingerprint));
            }
            PathEnd::Other { position, value } => {
                out.push(2);
                out.extend_from_slice(position);
                out.extend_from_slice(value);
            }
        }
        let mut bits = [0; 32];
        for (bit, _) in &self.branches {
            bits[usize::from(bit / 8)] |= 0x80 >> (bit % 8);
        }
        out.extend_from_slice(&bits);
        self.branches.iter().for_each(|(_, hash)| out.extend_from_slice(hash));
    }

    /// A way, unless it is said that there is none to tell yet.
    pub(crate) fn read_if_told(reader: &mut Reader<'_>) -> Result<Option<Self>, WireError> {
        match reader.peek() {
            Some(NOT_YET) => reader.u8().map(|_| None),
            _ => Self::read(reader).map(Some),
        }
    }

    pub(crate) fn emit_if_told(path: Option<&Self>, out: &mut Vec<u8>) {
        match path {
            Some(path) => path.emit(out),
            None => out.push(NOT_YET),
        }
    }

    /// Bytes that [`MapPath::emit`] appends.
    pub fn emitted_len(&self) -> usize {
        let end = match &self.end {
            PathEnd::Nothing => 0,
            PathEnd::Name(fingerprints) => 1 + 32 * fingerprints.len(),
            PathEnd::Other { .. } => 64,
        };
        1 + end + 32 + 32 * self.branches.len()
    }
}

fn read_fingerprints(reader: &mut Reader<'_>) -> Result<Vec<Hash>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > MapPath::MAX_FINGERPRINTS {
        let limit = MapPath::MAX_FINGERPRINTS;
        return Err(WireError::TooLong { field: "fingerprints", limit });
    }
    if count == 0 {
        return Err(WireError::NotCanonical("fingerprints"));
    }
    (0..count).map(|_| reader.array()).collect()
}

/// The hash of nothing.
pub const NOTHING: Hash = [0; 32];
/// Beside the types of certificates.
const TYPE: u8 = 9;
/// In the place of what is there at the end of a way.
const NOT_YET: u8 = 3;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_head() -> impl Strategy<Value = Head> {
        let hash = any::<Hash>;
        (any::<[u32; 4]>(), hash(), hash(), hash(), any::<[u8; SIGNATURE_LEN]>()).prop_map(
            |([epoch, began, lasts, names], rib, map, history, signature)| Head {
                epoch: epoch.into(),
                began_ms: began.into(),
                made_ms: u64::from(began) + u64::from(lasts),
                names: names.into(),
                rib: Name(rib),
                map: if names == 0 { NOTHING } else { map },
                history: if epoch == 0 { NOTHING } else { history },
                signature,
            },
        )
    }

    pub(crate) fn any_path() -> impl Strategy<Value = MapPath> {
        let end = prop_oneof![
            prop::collection::vec(any::<Hash>(), 1..=MapPath::MAX_FINGERPRINTS)
                .prop_map(PathEnd::Name),
            any::<(Hash, Hash)>().prop_map(|(position, value)| PathEnd::Other { position, value }),
        ];
        let branches = prop::collection::btree_map(any::<u8>(), any::<Hash>(), 0..40);
        (end, branches)
            .prop_map(|(end, branches)| MapPath { end, branches: branches.into_iter().collect() })
    }

    proptest! {
        #[test]
        fn a_head_comes_back_as_it_was(head in any_head()) {
            let mut bytes = Vec::new();
            head.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), Head::LEN);
            prop_assert_eq!(Head::parse(&bytes), Ok(head));
        }

        #[test]
        fn a_list_of_heads_comes_back_as_it_was(
            heads in prop::collection::vec(any_head(), 1..=Head::MAX_LIST),
        ) {
            let mut bytes = Vec::new();
            Head::emit_list(&heads, &mut bytes);
            prop_assert_eq!(Head::parse_list(&bytes), Ok(heads));
            bytes.push(0);
            prop_assert!(Head::parse_list(&bytes).is_err());
        }

        #[test]
        fn a_way_comes_back_as_it_was(path in any_path()) {
            let mut bytes = Vec::new();
            path.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), path.emitted_len());
            prop_assert_eq!(MapPath::parse(&bytes), Ok(path));
        }

        #[test]
        fn whatever_parses_has_one_spelling(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzz::log(&bytes);
        }
    }

    #[test]
    fn what_is_cut_or_contradicts_itself_is_refused() {
        let path = MapPath { end: PathEnd::Name(vec![[7; 32]]), branches: vec![(3, [1; 32])] };
        let mut bytes = Vec::new();
        path.emit(&mut bytes);
        for len in 0..bytes.len() {
            assert!(MapPath::parse(&bytes[..len]).is_err(), "{len}");
        }
        let mut head = Head {
            epoch: 0,
            began_ms: 1,
            made_ms: 1,
            names: 0,
            rib: Name([1; 32]),
            map: NOTHING,
            history: NOTHING,
            signature: [0; SIGNATURE_LEN],
        };
        let parses = |head: &Head| {
            let mut bytes = Vec::new();
            head.emit(&mut bytes);
            Head::parse(&bytes).is_ok()
        };
        assert!(parses(&head));
        head.epoch = 1;
        assert!(!parses(&head), "heads before it, and none in its history");
        (head.epoch, head.map) = (0, [1; 32]);
        assert!(!parses(&head), "a map of no name");
        (head.names, head.began_ms) = (1, 2);
        assert!(!parses(&head), "made before its log began");
        let empty = MapPath { end: PathEnd::Name(Vec::new()), branches: Vec::new() };
        let mut bytes = Vec::new();
        empty.emit(&mut bytes);
        assert!(MapPath::parse(&bytes).is_err(), "a name of which nothing is held");
    }
}
