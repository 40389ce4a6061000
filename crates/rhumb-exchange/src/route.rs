//! A route on its way: an opaque destination, an opaque
//! secret, and what is made of them for the servers.
//!
//! 1. [`seal`]: destination, announcer and route, filled up to a size
//!    class, are encrypted under a key used once.
//! 2. [`split`]: the policy is shared between the parties, and for each lane the key if it may have
//!    the route, zero if not. Party one's share of all is a seed of 16 bytes. What a lane may not
//!    have is not there, so neither party can give it away.
//! 3. A member that opens the key of a sealed route opens it with [`open`].

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::coins::{digest, stretch};
use crate::roster::{Lane, LaneSet, MAX_LANES};
use crate::{ExchangeError, MAX_DESTINATION, MAX_ROUTE};

/// Where a route leads: public bytes, which the servers see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(Arc<[u8]>);

impl Destination {
    /// Takes a copy.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::TooLong`] above [`MAX_DESTINATION`].
    pub fn new(bytes: &[u8]) -> Result<Self, ExchangeError> {
        check_len("a destination", bytes.len(), MAX_DESTINATION)?;
        Ok(Self(bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Names one announcement: a digest of who announces, where it leads, the sealed route, and a nonce
/// that the announcer drew and no member sees that may not have the route. Both parties make it. So
/// nobody can take another's id, and nobody who opens a route can be lied to about any of these:
/// not even by a party that knows the key, since one of its own members may have the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub [u8; 16]);

impl RouteId {
    pub(crate) fn new(
        from: Lane,
        destination: &Destination,
        nonce: &[u8; 16],
        sealed: &[u8; 32],
    ) -> Self {
        let parts: [&[u8]; 4] = [&from.0.to_le_bytes(), &destination.0, nonce, sealed];
        let digest = digest(b"rhumb-exchange route", &parts);
        Self(*digest.first_chunk().expect("invariant: 32 bytes have 16"))
    }
}

/// What party two knows of a sealed route.
pub(crate) fn sealed_digest(sealed: &[u8]) -> [u8; 32] {
    digest(b"rhumb-exchange sealed", &[sealed])
}

/// A route's bytes: secret. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Route(Vec<u8>);

impl Route {
    /// Takes a copy.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::TooLong`] above [`MAX_ROUTE`].
    pub fn new(bytes: &[u8]) -> Result<Self, ExchangeError> {
        check_len("a route", bytes.len(), MAX_ROUTE)?;
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Route(..)")
    }
}

fn check_len(what: &'static str, len: usize, most: usize) -> Result<(), ExchangeError> {
    if len <= most { Ok(()) } else { Err(ExchangeError::TooLong { what, len, most }) }
}

/// A party's share of one announcement: who may have the route, and for
/// each lane the key, or zero. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub(crate) enum Share {
    /// Party one's: all of it comes of the seed. The announcer knew so many lanes.
    Seed { seed: [u8; 16], lanes: u16 },
    /// Party two's: what it is, under what comes of the seed.
    Masked { policy: Box<[u64]>, keys: Box<[u128]> },
}

impl Share {
    /// A row of so many words: lanes that the announcer did not know are zero at both parties. Bits
    /// beyond its last lane are alike at both.
    pub(crate) fn policy(&self, words: usize) -> Zeroizing<Vec<u64>> {
        let mut row = match self {
            Self::Seed { seed, lanes } => policy_mask(seed, usize::from(*lanes).div_ceil(64)),
            Self::Masked { policy, .. } => Zeroizing::new(policy.to_vec()),
        };
        row.resize(words, 0);
        row
    }

    /// Of each of so many lanes.
    pub(crate) fn keys(&self, lanes: usize) -> Zeroizing<Vec<u128>> {
        let mut keys = match self {
            Self::Seed { seed, lanes: known } => {
                stretch(seed, KEYS_FROM, lanes.min((*known).into()))
            }
            Self::Masked { keys, .. } => Zeroizing::new(keys[..lanes.min(keys.len())].to_vec()),
        };
        keys.resize(lanes, 0);
        keys
    }

    /// Bytes of keys that a party has to keep: party one has the seed.
    pub(crate) fn keys_len(&self) -> usize {
        match self {
            Self::Seed { .. } => 0,
            Self::Masked { keys, .. } => size_of_val(&**keys),
        }
    }

    /// Of one lane.
    pub(crate) fn key(&self, lane: Lane) -> u128 {
        match self {
            Self::Seed { lanes, .. } if lane.0 >= *lanes => 0,
            Self::Seed { seed, .. } => stretch(seed, KEYS_FROM + lane.index(), 1)[0],
            Self::Masked { keys, .. } => keys.get(lane.index()).copied().unwrap_or(0),
        }
    }
}

/// What party two gets of a route for so many lanes, where party one gets the seed: shares of the
/// policy and of each lane's key.
pub(crate) fn split(
    policy: &LaneSet,
    lanes: u16,
    key: &[u8; 16],
    seed: &[u8; 16],
) -> (Zeroizing<Vec<u64>>, Zeroizing<Vec<u128>>) {
    let mut row = policy_mask(seed, usize::from(lanes).div_ceil(64));
    let mut keys = stretch(seed, KEYS_FROM, lanes.into());
    mask(&mut row, &mut keys, policy, u128::from_le_bytes(*key));
    (row, keys)
}

/// What masks becomes what is masked. Which lanes may have the key decides no branch.
pub(crate) fn mask(row: &mut [u64], keys: &mut [u128], policy: &LaneSet, key: u128) {
    for (share, word) in row.iter_mut().zip(policy.words()) {
        *share ^= word;
    }
    for (lanes, word) in keys.chunks_mut(64).zip(policy.words()) {
        for (lane, share) in lanes.iter_mut().enumerate() {
            *share ^= key & 0_u128.wrapping_sub(u128::from(word >> lane & 1));
        }
    }
}

/// The first blocks of the stretched seed.
fn policy_mask(seed: &[u8; 16], words: usize) -> Zeroizing<Vec<u64>> {
    let blocks = stretch(seed, 0, words.div_ceil(2));
    let halves = blocks.iter().flat_map(|block| [*block as u64, (*block >> 64) as u64]);
    Zeroizing::new(halves.take(words).collect())
}

/// The block of the stretched seed that belongs to the first
/// lane's key: behind those of the longest policy.
const KEYS_FROM: usize = MAX_LANES / 128;

/// What a member finds in a sealed route.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) destination: Destination,
    pub(crate) from: Lane,
    pub(crate) route: Route,
}

/// Destination, announcer and route under a key that is
/// used for nothing else, so that one nonce does.
pub(crate) fn seal(
    nonce: &[u8; 16],
    key: &[u8; 16],
    from: Lane,
    destination: &Destination,
    route: &Route,
) -> Vec<u8> {
    let len = HEAD_LEN + destination.0.len() + route.0.len();
    let class = SIZE_CLASSES.into_iter().find(|class| *class >= len);
    let class = class.expect("invariant: the largest class holds the longest of both");
    let mut bytes = Vec::with_capacity(class + TAG_LEN);
    bytes.extend(nonce);
    bytes.extend(from.0.to_le_bytes());
    bytes.push(destination.0.len() as u8);
    bytes.extend((route.0.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&destination.0);
    bytes.extend_from_slice(&route.0);
    bytes.resize(class, 0);
    let used_once = Nonce::assume_unique_for_key([0; 12]);
    cipher(key)
        .seal_in_place_append_tag(used_once, Aad::empty(), &mut bytes)
        .expect("invariant: a few kilobytes are below the cipher's bound");
    bytes
}

/// None if the key is another's, or the sealed route is, or the announcer made nonsense, or says to
/// be another or to lead elsewhere than it told the servers.
pub(crate) fn open(id: RouteId, key: &[u8; 16], sealed: &[u8]) -> Option<Opened> {
    let mut bytes = Zeroizing::new(sealed.to_vec());
    let used_once = Nonce::assume_unique_for_key([0; 12]);
    let plain = cipher(key).open_in_place(used_once, Aad::empty(), &mut bytes).ok()?;
    let (nonce, rest) = plain.split_first_chunk::<16>()?;
    let (head, rest) = rest.split_first_chunk::<5>()?;
    let [from_low, from_high, destination_len, route_low, route_high] = *head;
    let (destination, rest) = rest.split_at_checked(usize::from(destination_len))?;
    let route = rest.get(..usize::from(u16::from_le_bytes([route_low, route_high])))?;
    let from = Lane(u16::from_le_bytes([from_low, from_high]));
    let destination = Destination::new(destination).ok()?;
    if RouteId::new(from, &destination, nonce, &sealed_digest(sealed)) != id {
        return None;
    }
    Some(Opened { destination, from, route: Route::new(route).ok()? })
}

/// Whether a sealed route can have this length.
pub(crate) fn is_sealed_len(len: usize) -> bool {
    SIZE_CLASSES.iter().any(|class| class + TAG_LEN == len)
}

fn cipher(key: &[u8; 16]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_128_GCM, key).expect("invariant: 16 bytes are a key");
    LessSafeKey::new(key)
}

/// Nonce, announcer, lengths.
const HEAD_LEN: usize = 16 + 5;
const TAG_LEN: usize = 16;

/// Bytes to which what is sealed is filled up. The class is what everybody learns of a route's
/// length: of the routes at exchanges nearly all fit the first two.
pub const SIZE_CLASSES: [usize; 6] =
    [128, 256, 512, 1024, 2048, HEAD_LEN + MAX_DESTINATION + MAX_ROUTE];

#[cfg(test)]
mod tests {
    use super::*;

    fn id(from: u16, destination: &Destination, nonce: &[u8; 16], sealed: &[u8]) -> RouteId {
        RouteId::new(Lane(from), destination, nonce, &sealed_digest(sealed))
    }

    #[test]
    fn a_route_comes_out_as_it_went_in_and_only_with_its_key_and_id() {
        let (nonce, key) = ([1; 16], [2; 16]);
        let destination = Destination::new(b"here").unwrap();
        for len in [0, 1, 100, 103, 104, 2000, MAX_ROUTE] {
            let route = Route::new(&vec![7; len]).unwrap();
            let sealed = seal(&nonce, &key, Lane(9), &destination, &route);
            assert!(is_sealed_len(sealed.len()), "{len}");
            let id = id(9, &destination, &nonce, &sealed);
            let opened = open(id, &key, &sealed).unwrap();
            assert_eq!(
                (opened.from, &opened.destination, &opened.route),
                (Lane(9), &destination, &route)
            );
            assert!(open(id, &[3; 16], &sealed).is_none());
            assert!(open(RouteId([3; 16]), &key, &sealed).is_none());
        }
        assert!(Route::new(&vec![0; MAX_ROUTE + 1]).is_err());
        assert!(Destination::new(&[0; MAX_DESTINATION + 1]).is_err());
        let longest = Destination::new(&[0; MAX_DESTINATION]).unwrap();
        seal(&nonce, &key, Lane(0), &longest, &Route::new(&vec![0; MAX_ROUTE]).unwrap());
    }

    #[test]
    fn an_announcer_cannot_say_to_be_another_or_to_lead_elsewhere() {
        let (nonce, key) = ([1; 16], [2; 16]);
        let [here, there] = [b"here", b"back"].map(|name| Destination::new(name).unwrap());
        let route = Route::new(b"route").unwrap();
        for (from, destination) in [(9, &here), (8, &here), (9, &there)] {
            let sealed = seal(&nonce, &key, Lane(from), destination, &route);
            // The servers know who and where, and make the id of it.
            let is_true = (from, destination) == (9, &here);
            assert_eq!(open(id(9, &here, &nonce, &sealed), &key, &sealed).is_some(), is_true);
        }
    }

    /// A party that knows a route's key, by a member of its own, seals another under it.
    #[test]
    fn who_knows_the_key_cannot_put_another_route_in_the_place_of_the_sealed() {
        let (nonce, key) = ([1; 16], [2; 16]);
        let destination = Destination::new(b"here").unwrap();
        let sealed = seal(&nonce, &key, Lane(9), &destination, &Route::new(b"route").unwrap());
        let id = id(9, &destination, &nonce, &sealed);
        let forged = seal(&nonce, &key, Lane(9), &destination, &Route::new(b"wrong").unwrap());
        assert!(open(id, &key, &sealed).is_some() && open(id, &key, &forged).is_none());
    }

    /// Lanes that have the key, by both parties' shares.
    fn holders(parties: &[Share; 2], lanes: u16, key: &[u8; 16]) -> Vec<u16> {
        let key = u128::from_le_bytes(*key);
        let rows = parties.each_ref().map(|share| share.keys(lanes.into()));
        let policies =
            parties.each_ref().map(|share| share.policy(usize::from(lanes).div_ceil(64)));
        let mut holders = Vec::new();
        for lane in 0..lanes {
            let at = usize::from(lane);
            let opened = rows[0][at] ^ rows[1][at];
            assert_eq!(opened, parties[0].key(Lane(lane)) ^ parties[1].key(Lane(lane)));
            assert!(opened == 0 || opened == key, "{lane}");
            let bit = (policies[0][at / 64] ^ policies[1][at / 64]) >> (lane % 64) & 1;
            assert_eq!(bit == 1, opened == key, "{lane}");
            if opened == key {
                holders.push(lane);
            }
        }
        holders
    }

    fn parties(policy: &LaneSet, lanes: u16, key: &[u8; 16], seed: [u8; 16]) -> [Share; 2] {
        let (row, keys) = split(policy, lanes, key, &seed);
        let two = Share::Masked { policy: row.as_slice().into(), keys: keys.as_slice().into() };
        [Share::Seed { seed, lanes }, two]
    }

    #[test]
    fn shares_fit_a_roster_that_grows_and_one_that_has_not_grown_yet() {
        let mut policy = LaneSet::none(130);
        [5, 70, 129].into_iter().for_each(|lane| policy.insert(Lane(lane)));
        let parties = parties(&policy, 130, &[5; 16], [6; 16]);
        // Lanes of the roster, and who has the route.
        let rosters: [(u16, &[u16]); 5] = [
            (64, &[5]),
            (100, &[5, 70]),
            (129, &[5, 70]),
            (130, &[5, 70, 129]),
            (320, &[5, 70, 129]),
        ];
        for (lanes, expected) in rosters {
            assert_eq!(holders(&parties, lanes, &[5; 16]), expected);
        }
    }

    #[test]
    fn shares_put_together_are_policy_and_key() {
        let mut policy = LaneSet::none(200);
        let permitted = [0, 63, 64, 199];
        permitted.into_iter().for_each(|lane| policy.insert(Lane(lane)));
        assert_eq!(holders(&parties(&policy, 200, &[5; 16], [6; 16]), 200, &[5; 16]), permitted);
    }

    /// The seed's blocks are those of one counter, wherever it is begun.
    #[test]
    fn a_seed_is_stretched_alike_from_any_block_on() {
        let all = stretch(&[7; 16], 0, 100);
        for (from, count) in [(0, 1), (31, 40), (99, 1), (50, 0)] {
            assert_eq!(*stretch(&[7; 16], from, count), all[from..from + count]);
        }
        assert!((1..100).all(|number| !all[..number].contains(&all[number])));
    }
}
