//! A route on its way: an opaque destination, an opaque secret, and what is made of them for the servers.
//!
//! 1. [`seal`]: destination, announcer and route, filled up to a size class, are encrypted under a key used once.
//! 2. [`Share::split`]: key and policy are shared between the parties. Party one's share is a seed of 16 bytes.
//! 3. A member that opens the key of a sealed route opens it with [`open`].

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::coins::{digest, stretch};
use crate::roster::{Lane, LaneSet};
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

/// Names one announcement: a digest of who announces, where it leads, and a nonce that the announcer drew and only those see who may have
/// the route. So nobody can take another's id, and nobody who opens a route can be lied to about the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub [u8; 16]);

impl RouteId {
    pub(crate) fn new(from: Lane, destination: &Destination, nonce: &[u8; 16]) -> Self {
        let digest =
            digest(b"rhumb-exchange route", &[&from.0.to_le_bytes(), &destination.0, nonce]);
        Self(*digest.first_chunk().expect("invariant: 32 bytes have 16"))
    }
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

/// A party's share of one announcement. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Share {
    /// Of who may have the route: a row of all lanes. What the announcer had no word for is zero at both parties.
    pub(crate) policy: Vec<u64>,
    /// Words for lanes of a roster that the announcer has, and this party not yet.
    pub(crate) beyond: Vec<u64>,
    pub(crate) key: u128,
}

impl Share {
    /// Party two's share, where party one's is the seed.
    pub(crate) fn split(policy: &LaneSet, key: &[u8; 16], seed: &[u8; 16]) -> Self {
        Self::of_seed(seed, policy.words().len()).masking(policy, u128::from_le_bytes(*key))
    }

    /// What masks becomes what is masked.
    pub(crate) fn masking(mut self, policy: &LaneSet, key: u128) -> Self {
        self.key ^= key;
        for (share, word) in self.policy.iter_mut().zip(policy.words()) {
            *share ^= word;
        }
        self
    }

    /// Party one's share. Bits beyond the announcer's last lane are random like all others, and party two's the same: nobody's.
    pub(crate) fn of_seed(seed: &[u8; 16], words: usize) -> Self {
        let blocks = stretch(seed, 1 + words.div_ceil(2));
        let halves = blocks[1..].iter().flat_map(|block| [*block as u64, (*block >> 64) as u64]);
        Self { policy: halves.take(words).collect(), beyond: Vec::new(), key: blocks[0] }
    }

    /// For a roster of so many words.
    pub(crate) fn fit(&mut self, words: usize) {
        self.policy.append(&mut self.beyond);
        if self.policy.len() > words {
            self.beyond = self.policy.split_off(words);
        }
        self.policy.resize(words, 0);
    }

    /// The bit of one lane.
    pub(crate) fn bit(&self, lane: Lane) -> u64 {
        self.policy[lane.index() / 64] >> (lane.0 % 64) & 1
    }
}

/// What a member finds in a sealed route.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) destination: Destination,
    pub(crate) from: Lane,
    pub(crate) route: Route,
}

/// Destination, announcer and route under a key that is used for nothing else, so that one nonce does. The id is authenticated.
pub(crate) fn seal(
    nonce: &[u8; 16],
    key: &[u8; 16],
    from: Lane,
    destination: &Destination,
    route: &Route,
) -> Vec<u8> {
    let id = RouteId::new(from, destination, nonce);
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
        .seal_in_place_append_tag(used_once, Aad::from(id.0), &mut bytes)
        .expect("invariant: a few kilobytes are below the cipher's bound");
    bytes
}

/// None if the key is another's, or the announcer made nonsense, or says to be another or to lead elsewhere than it told the servers.
pub(crate) fn open(id: RouteId, key: &[u8; 16], sealed: &[u8]) -> Option<Opened> {
    let mut bytes = Zeroizing::new(sealed.to_vec());
    let used_once = Nonce::assume_unique_for_key([0; 12]);
    let plain = cipher(key).open_in_place(used_once, Aad::from(id.0), &mut bytes).ok()?;
    let (nonce, rest) = plain.split_first_chunk::<16>()?;
    let (head, rest) = rest.split_first_chunk::<5>()?;
    let [from_low, from_high, destination_len, route_low, route_high] = *head;
    let (destination, rest) = rest.split_at_checked(usize::from(destination_len))?;
    let route = rest.get(..usize::from(u16::from_le_bytes([route_low, route_high])))?;
    let from = Lane(u16::from_le_bytes([from_low, from_high]));
    let destination = Destination::new(destination).ok()?;
    if RouteId::new(from, &destination, nonce) != id {
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

/// Bytes to which what is sealed is filled up. The class is what everybody learns of a route's length: of the routes at
/// exchanges nearly all fit the first two.
pub const SIZE_CLASSES: [usize; 6] =
    [128, 256, 512, 1024, 2048, HEAD_LEN + MAX_DESTINATION + MAX_ROUTE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_comes_out_as_it_went_in_and_only_with_its_key_and_id() {
        let (nonce, key) = ([1; 16], [2; 16]);
        let destination = Destination::new(b"here").unwrap();
        let id = RouteId::new(Lane(9), &destination, &nonce);
        for len in [0, 1, 100, 103, 104, 2000, MAX_ROUTE] {
            let route = Route::new(&vec![7; len]).unwrap();
            let sealed = seal(&nonce, &key, Lane(9), &destination, &route);
            assert!(is_sealed_len(sealed.len()), "{len}");
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
        // The servers know who and where, and make the id of it.
        let id = RouteId::new(Lane(9), &here, &nonce);
        let route = Route::new(b"route").unwrap();
        for (from, destination) in [(Lane(8), &here), (Lane(9), &there)] {
            let mut bytes = vec![0; SIZE_CLASSES[0]];
            let head = [
                &nonce[..],
                &from.0.to_le_bytes(),
                &[4, 5, 0],
                destination.as_bytes(),
                route.as_bytes(),
            ];
            let head = head.concat();
            bytes[..head.len()].copy_from_slice(&head);
            let used_once = Nonce::assume_unique_for_key([0; 12]);
            cipher(&key).seal_in_place_append_tag(used_once, Aad::from(id.0), &mut bytes).unwrap();
            assert!(open(id, &key, &bytes).is_none());
        }
    }

    #[test]
    fn shares_fit_a_roster_that_grows_and_one_that_has_not_grown_yet() {
        let mut policy = LaneSet::none(130);
        [5, 70, 129].into_iter().for_each(|lane| policy.insert(Lane(lane)));
        let mut parties = [Share::of_seed(&[6; 16], 3), Share::split(&policy, &[5; 16], &[6; 16])];
        // Lanes of the roster, and who has the route.
        let rosters: [(u16, &[u16]); 4] =
            [(64, &[5]), (128, &[5, 70]), (192, &[5, 70, 129]), (320, &[5, 70, 129])];
        for (lanes, expected) in rosters {
            parties.iter_mut().for_each(|share| share.fit(usize::from(lanes) / 64));
            let [one, two] = &parties;
            let has = |lane: &u16| one.bit(Lane(*lane)) ^ two.bit(Lane(*lane)) == 1;
            assert_eq!((0..lanes).filter(has).collect::<Vec<_>>(), expected);
            assert_eq!(one.policy.len(), usize::from(lanes) / 64);
        }
    }

    #[test]
    fn shares_put_together_are_policy_and_key() {
        let mut policy = LaneSet::none(200);
        [0, 63, 64, 199].into_iter().for_each(|lane| policy.insert(Lane(lane)));
        let key = [5; 16];
        let two = Share::split(&policy, &key, &[6; 16]);
        let one = Share::of_seed(&[6; 16], 4);
        assert_eq!(one.key ^ two.key, u128::from_le_bytes(key));
        for lane in 0..200 {
            let opened = one.bit(Lane(lane)) ^ two.bit(Lane(lane)) == 1;
            assert_eq!(opened, policy.contains(Lane(lane)), "{lane}");
        }
    }
}
