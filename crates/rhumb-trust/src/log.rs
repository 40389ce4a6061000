//! The log of a RIB, as whoever asks sees it: how its trees are hashed, whose head it is, and what
//! an answer's way through the map, or a head's way back to an earlier one, proves.
//!
//! **The map** is a binary trie over positions, which are hashes of names, so that a way that ends
//! at another name does not tell that name. A node has a bit at which its two sides differ; what
//! all positions below have in common is left out, as in a Patricia tree. A leaf's hash is over its
//! position and its value, a node's over its bit and its two sides. Whoever goes down by the bits
//! of a position meets the same node at each step, whoever goes, since each hash binds the next:
//! so of one root a name's way ends at one leaf alone, and is either there or absent, even if
//! the tree was built against all rules.
//!
//! **The history** is the tree of RFC 6962 over the heads of the log: a head has the root of all
//! before it. A way from it back to an earlier one shows that this one is among them.
//!
//! Each hash begins with a byte that says of what it is, so none is taken for another.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::log::{Hash, Head, MapPath, NOTHING, PathEnd};
use rhumb_wire::{Certificate, Metadata, Name};

use crate::verify::{check_signed, check_times, name_of};
use crate::{Identity, StatementError, TrustError, Verified};

/// What a RIB says of its log at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roots {
    /// How many heads there are before this one.
    pub epoch: u64,
    /// When the log began.
    pub began_ms: u64,
    /// Now.
    pub made_ms: u64,
    /// How many names are in the map.
    pub names: u64,
    /// The root of the map.
    pub map: Hash,
    /// The root of the tree of all heads before.
    pub history: Hash,
}

impl Identity {
    /// Signs a head of this RIB's log.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub fn sign_head(&self, roots: Roots) -> Result<Head, TrustError> {
        let Roots { epoch, began_ms, made_ms, names, map, history } = roots;
        let (rib, signature) = (self.name(), [0; SIGNATURE_LEN]);
        let mut head = Head { epoch, began_ms, made_ms, names, rib, map, history, signature };
        head.signature = self.sign(&SystemRandom::new(), &head.signed_bytes())?;
        Ok(head)
    }
}

/// Believes a head, or says why not: one of the past is still its RIB's word, one from the future
/// is nobody's.
///
/// # Errors
/// When it was made later than `now_s`, give or take [`CLOCK_SKEW_S`](crate::CLOCK_SKEW_S), `rib`
/// are not its RIB's metadata, or the signature is not that key's.
pub fn verify_head(
    head: Head,
    rib: &Metadata,
    now_s: u64,
) -> Result<Verified<Head>, StatementError> {
    check_times(head.made_ms / 1000, u64::MAX, now_s)?;
    if name_of(rib) != head.rib {
        return Err(StatementError::WrongMetadata);
    }
    check_signed(&head.signed_bytes(), &head.signature, &rib.key)?;
    Ok(Verified::vouch(head))
}

/// What a way through the map of a head says of `name`: the fingerprints of what the RIB holds of
/// it, none if it is absent. `None` when the way is not one through this map by that name.
pub fn held_of<'a>(head: &Verified<Head>, name: &Name, path: &'a MapPath) -> Option<&'a [Hash]> {
    let position = position_of(name);
    let (mut hash, held): (Hash, &[Hash]) = match &path.end {
        PathEnd::Nothing => return (head.map == NOTHING).then_some(&[]),
        PathEnd::Name(held) => (leaf(&position, &value_of(held)), held),
        // The same position would be the name itself.
        PathEnd::Other { position: other, .. } if *other == position => return None,
        PathEnd::Other { position, value } => (leaf(position, value), &[]),
    };
    for (bit, other) in path.branches.iter().rev() {
        hash = match bit_of(&position, *bit) {
            false => node(*bit, &hash, other),
            true => node(*bit, other, &hash),
        };
    }
    (hash == head.map).then_some(held)
}

/// Whether `earlier` is among the heads before `later`, as this way back shows.
pub fn is_before(earlier: &Verified<Head>, later: &Verified<Head>, back: &[Hash]) -> bool {
    let is_one_log = earlier.rib == later.rib && earlier.began_ms == later.began_ms;
    if !is_one_log || earlier.epoch >= later.epoch {
        return false;
    }
    // RFC 9162, section 2.1.3.2.
    let (mut at, mut last, mut hash) = (earlier.epoch, later.epoch - 1, head_hash(earlier));
    for other in back {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            hash = history_node(other, &hash);
            while at % 2 == 0 && at != 0 {
                (at, last) = (at / 2, last / 2);
            }
        } else {
            hash = history_node(&hash, other);
        }
        (at, last) = (at / 2, last / 2);
    }
    last == 0 && hash == later.history
}

/// Where a name is in the map.
pub fn position_of(name: &Name) -> Hash {
    hash_of(POSITION, &[&name.0])
}

/// The fingerprint of a certificate, signature included: of two that say the same, one alone was
/// shown.
pub fn fingerprint(certificate: &Certificate) -> Hash {
    let mut bytes = Vec::with_capacity(Certificate::MAX_LEN);
    certificate.emit(&mut bytes);
    hash_of(FINGERPRINT, &[&bytes])
}

/// The value of what is held of a name.
pub fn value_of(fingerprints: &[Hash]) -> Hash {
    hash_of(VALUE, &[fingerprints.as_flattened()])
}

/// The hash of a leaf of the map.
pub fn leaf(position: &Hash, value: &Hash) -> Hash {
    hash_of(LEAF, &[position, value])
}

/// The hash of a node of the map, whose sides differ in this bit.
pub fn node(bit: u8, zero: &Hash, one: &Hash) -> Hash {
    hash_of(NODE, &[&[bit], zero, one])
}

/// The hash of a head, as a leaf of the history.
pub fn head_hash(head: &Head) -> Hash {
    hash_of(HEAD, &[&head.signed_bytes()])
}

/// The hash of a node of the history.
pub fn history_node(left: &Hash, right: &Hash) -> Hash {
    hash_of(HISTORY, &[left, right])
}

/// A bit of a position, the first being 0.
pub fn bit_of(position: &Hash, bit: u8) -> bool {
    position[usize::from(bit / 8)] & (0x80 >> (bit % 8)) != 0
}

/// In one piece on the stack where it fits, as leaves and nodes do: a context of the library is on
/// the heap, and costs as much as a hash.
fn hash_of(kind: u8, parts: &[&[u8]]) -> Hash {
    let mut buffer = [0; 96];
    buffer[0] = kind;
    let mut len = 1;
    for part in parts {
        let Some(room) = buffer.get_mut(len..len + part.len()) else {
            let all = [&[kind], &parts.concat()[..]].concat();
            return sha256(&all);
        };
        room.copy_from_slice(part);
        len += part.len();
    }
    sha256(&buffer[..len])
}

fn sha256(bytes: &[u8]) -> Hash {
    digest(&SHA256, bytes).as_ref().try_into().expect("invariant: SHA-256 is 32 bytes")
}

const LEAF: u8 = 0;
const NODE: u8 = 1;
const VALUE: u8 = 2;
const POSITION: u8 = 3;
const FINGERPRINT: u8 = 4;
const HEAD: u8 = 5;
const HISTORY: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Role;

    fn head(rib: &Identity, map: Hash, names: u64) -> Verified<Head> {
        let (began_ms, made_ms) = (1_000_000, 2_000_000);
        let roots = Roots { epoch: 0, began_ms, made_ms, names, map, history: NOTHING };
        verify_head(rib.sign_head(roots).unwrap(), rib.metadata(), 2000).unwrap()
    }

    #[test]
    fn a_head_is_its_ribs_and_not_from_the_future() {
        let [rib, other] = [(); 2].map(|()| Identity::generate(Role::Rib, 0).unwrap());
        let roots = Roots {
            epoch: 3,
            began_ms: 1_000_000,
            made_ms: 2_000_000,
            names: 1,
            map: [1; 32],
            history: [2; 32],
        };
        let head = rib.sign_head(roots).unwrap();
        let verify = |head: Head, by: &Identity, now_s| verify_head(head, by.metadata(), now_s);
        assert!(verify(head, &rib, 2000).is_ok() && verify(head, &rib, 1940).is_ok());
        assert!(verify(head, &rib, 9_000_000).is_ok(), "the past is its word, too");
        assert_eq!(
            verify(head, &rib, 1939).unwrap_err(),
            StatementError::NotYetValid { starts_in_s: 61 }
        );
        assert_eq!(verify(head, &other, 2000).unwrap_err(), StatementError::WrongMetadata);
        let mut bytes = Vec::new();
        head.emit(&mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let Ok(flipped) = Head::parse(&flipped) else { continue };
            assert!(verify(flipped, &rib, 2000).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_way_is_by_the_bits_of_the_name_and_to_the_root_of_the_head() {
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let [at, other] = [a, b].map(|name| position_of(&name));
        let held = vec![[7; 32]];
        let leaves = [leaf(&at, &value_of(&held)), leaf(&other, &value_of(&[[8; 32]]))];
        let bit = (0..=u8::MAX).find(|bit| bit_of(&at, *bit) != bit_of(&other, *bit)).unwrap();
        let root = match bit_of(&at, bit) {
            false => node(bit, &leaves[0], &leaves[1]),
            true => node(bit, &leaves[1], &leaves[0]),
        };
        let head = head(&rib, root, 2);
        let path = MapPath { end: PathEnd::Name(held.clone()), branches: vec![(bit, leaves[1])] };
        assert_eq!(held_of(&head, &a, &path), Some(&held[..]));
        assert_eq!(held_of(&head, &b, &path), None, "another name's");
        let other_held = MapPath { end: PathEnd::Name(vec![[9; 32]]), ..path.clone() };
        assert_eq!(held_of(&head, &a, &other_held), None, "something else is held");
        // A name is denied by the leaf that its way ends at: never by its own.
        let value = value_of(&held);
        let denies = |name: &Name, position, value, branch| {
            let end = PathEnd::Other { position, value };
            let path = MapPath { end, branches: vec![(bit, branch)] };
            held_of(&head, name, &path).map(<[Hash]>::to_vec)
        };
        assert_eq!(denies(&a, at, value, leaves[1]), None);
        assert_eq!(denies(&a, other, value_of(&[[8; 32]]), leaves[0]), None, "the other side");
        let nobody = (3..).map(|byte| Name([byte; 32]));
        let mut nobody = nobody.filter(|it| bit_of(&position_of(it), bit) == bit_of(&at, bit));
        let nobody = nobody.next().unwrap();
        assert_eq!(denies(&nobody, at, value, leaves[1]), Some(Vec::new()));
        let empty = MapPath { end: PathEnd::Nothing, branches: Vec::new() };
        assert_eq!(held_of(&head, &a, &empty), None);
        assert_eq!(held_of(&self::head(&rib, NOTHING, 0), &a, &empty), Some(&[][..]));
    }
}
