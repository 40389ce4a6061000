//! Who takes part: each site of each member is a lane, the same at both servers and at all members.
//!
//! Invariant: a lane's number is one site's for as long as servers run. Lanes are added at the end,
//! and a lane whose site is gone stays, closed: so a roster that has more lanes extends the former,
//! and those who have either agree about all lanes that both have.

use std::collections::HashMap;

use crate::coins::digest;
use crate::{ExchangeError, MAX_ROUTE};

/// A member's site: its place in the roster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

impl Lane {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What is known of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Names it, once in the roster, such as `as64500-fra`.
    pub id: String,
    /// Whose it is, in words.
    pub member: String,
    /// Of its network.
    pub asn: u32,
    /// Hash of the public key that it connects with.
    pub key: [u8; 32],
}

/// How much a site may announce. What does not fit is refused, and the site told; what fits stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Routes.
    pub routes: u32,
    /// Bytes of them, sealed.
    pub bytes: u64,
}

impl Default for Quota {
    /// Above what a proxy takes of a router unless told otherwise (200,000), at 512 bytes each.
    fn default() -> Self {
        Self { routes: 1 << 18, bytes: 1 << 27 }
    }
}

impl Quota {
    /// What a shard lets a site have of it: its part, and some
    /// more, as destinations do not divide evenly.
    pub(crate) fn in_shard(self, shards: u16) -> Self {
        if shards < 2 {
            return self;
        }
        let part = u64::from(self.routes).div_ceil(shards.into());
        let routes = (part + part / 8 + UNEVEN).min(self.routes.into()) as u32;
        let part = self.bytes.div_ceil(shards.into());
        let bytes = (part + part / 8 + UNEVEN * LONGEST_SEALED).min(self.bytes);
        Self { routes, bytes }
    }
}

/// All lanes, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    sites: Vec<Site>,
    /// Of the first lane, the first two, and so on.
    digests: Vec<[u8; 32]>,
    closed: LaneSet,
    quotas: Vec<Quota>,
    by_key: HashMap<[u8; 32], Lane>,
    by_id: HashMap<String, Lane>,
}

impl Roster {
    /// Checks and numbers them.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::OutOfRange`] without a site or above
    /// [`MAX_LANES`]; [`ExchangeError::BadRoster`] if an id or a key is
    /// there twice, or a text is empty or above [`MAX_TEXT`].
    pub fn new(sites: Vec<Site>) -> Result<Self, ExchangeError> {
        if !(1..=MAX_LANES).contains(&sites.len()) {
            let what = "the number of lanes";
            return Err(ExchangeError::OutOfRange { what, least: 1, most: MAX_LANES });
        }
        let (mut by_key, mut by_id) = (HashMap::new(), HashMap::new());
        let mut digests: Vec<[u8; 32]> = Vec::with_capacity(sites.len());
        for (number, site) in sites.iter().enumerate() {
            let lane = Lane(number as u16);
            for text in [&site.id, &site.member] {
                if !(1..=MAX_TEXT).contains(&text.len()) {
                    return Err(ExchangeError::BadRoster(
                        "has a text of no or too many bytes",
                        number,
                    ));
                }
            }
            let before = digests.last().copied().unwrap_or_default();
            let parts: [&[u8]; 3] = [&before, &site.asn.to_le_bytes(), &site.key];
            digests.push(digest(b"rhumb-exchange roster", &parts));
            if by_key.insert(site.key, lane).is_some() {
                return Err(ExchangeError::BadRoster("has the key of an earlier one", number));
            }
            if by_id.insert(site.id.clone(), lane).is_some() {
                return Err(ExchangeError::BadRoster("has the id of an earlier one", number));
            }
        }
        let (closed, quotas) = (LaneSet::none(sites.len()), vec![Quota::default(); sites.len()]);
        Ok(Self { digests, sites, closed, quotas, by_key, by_id })
    }

    /// The same without these sites: their lanes stay, and are nobody's.
    #[must_use]
    pub fn without(mut self, gone: impl IntoIterator<Item = Lane>) -> Self {
        for lane in gone {
            if let Some(site) = self.sites.get(lane.index()) {
                self.by_key.remove(&site.key);
                self.closed.insert(lane);
            }
        }
        self
    }

    /// The same where these sites may announce so much. It is no part of the digest: of two parties
    /// with different quotas the lower one counts.
    #[must_use]
    pub fn with_quotas(mut self, quotas: impl IntoIterator<Item = Quota>) -> Self {
        self.quotas.iter_mut().zip(quotas).for_each(|(mine, given)| *mine = given);
        self
    }

    /// How much a lane may announce, in all shards.
    #[must_use]
    pub fn quota(&self, lane: Lane) -> Quota {
        self.quotas.get(lane.index()).copied().unwrap_or_default()
    }

    /// How many lanes there are.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.sites.len()
    }

    /// Words of a row of all lanes.
    #[must_use]
    pub fn words(&self) -> usize {
        self.sites.len().div_ceil(64)
    }

    /// What all must have alike: each lane's AS and key. What sites are
    /// called, and which are gone, is no part of it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        *self.digests.last().expect("invariant: a roster has a lane")
    }

    /// The same of the first so many lanes, if there are as many.
    #[must_use]
    pub fn digest_of(&self, lanes: usize) -> Option<[u8; 32]> {
        self.digests.get(lanes.checked_sub(1)?).copied()
    }

    /// Whether this has all lanes of another roster, as they are there, and perhaps more.
    #[must_use]
    pub fn extends(&self, other: &Self) -> bool {
        self.digest_of(other.lanes()) == Some(other.digest())
    }

    /// Whether a lane's site is gone.
    #[must_use]
    pub fn is_closed(&self, lane: Lane) -> bool {
        self.closed.contains(lane)
    }

    /// A lane's site.
    #[must_use]
    pub fn site(&self, lane: Lane) -> Option<&Site> {
        self.sites.get(lane.index())
    }

    /// The sites in order.
    pub fn sites(&self) -> impl Iterator<Item = (Lane, &Site)> {
        self.sites.iter().enumerate().map(|(number, site)| (Lane(number as u16), site))
    }

    /// Whose key this is the hash of, unless its site is gone.
    #[must_use]
    pub fn lane_of_key(&self, key: &[u8; 32]) -> Option<Lane> {
        self.by_key.get(key).copied()
    }

    /// Who has this id.
    #[must_use]
    pub fn lane_of_id(&self, id: &str) -> Option<Lane> {
        self.by_id.get(id).copied()
    }
}

/// A set of lanes, such as those that may have a route.
#[derive(Clone, PartialEq, Eq)]
pub struct LaneSet {
    words: Vec<u64>,
}

impl LaneSet {
    /// None of this many.
    #[must_use]
    pub fn none(lanes: usize) -> Self {
        Self { words: vec![0; lanes.div_ceil(64)] }
    }

    /// Those listed.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Policy`] if one is not of the roster.
    pub fn of(
        roster: &Roster,
        lanes: impl IntoIterator<Item = Lane>,
    ) -> Result<Self, ExchangeError> {
        let mut set = Self::none(roster.lanes());
        for lane in lanes {
            if lane.index() >= roster.lanes() {
                return Err(ExchangeError::Policy { lane, lanes: roster.lanes() });
            }
            set.insert(lane);
        }
        Ok(set)
    }

    /// All but one.
    #[must_use]
    pub fn all_but(roster: &Roster, but: Lane) -> Self {
        let mut set = Self::none(roster.lanes());
        roster.sites().filter(|(lane, _)| *lane != but).for_each(|(lane, _)| set.insert(lane));
        set
    }

    /// Whether it has this lane.
    #[must_use]
    pub fn contains(&self, lane: Lane) -> bool {
        self.words.get(lane.index() / 64).is_some_and(|word| word >> (lane.0 % 64) & 1 == 1)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Its lanes, in order.
    pub fn iter(&self) -> impl Iterator<Item = Lane> + '_ {
        (0..self.words.len() * 64).map(|lane| Lane(lane as u16)).filter(|lane| self.contains(*lane))
    }

    pub(crate) fn insert(&mut self, lane: Lane) {
        self.words[lane.index() / 64] |= 1 << (lane.0 % 64);
    }

    pub(crate) fn remove(&mut self, lane: Lane) {
        self.words[lane.index() / 64] &= !(1 << (lane.0 % 64));
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// None if it names lanes beyond the last.
    pub(crate) fn from_words(words: Vec<u64>, lanes: usize) -> Option<Self> {
        let beyond = match lanes % 64 {
            0 => 0,
            used => words.last()? >> used,
        };
        (words.len() == lanes.div_ceil(64) && beyond == 0).then_some(Self { words })
    }

    /// Those in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(left, right)| left & right);
        Self { words: words.collect() }
    }
}

impl std::fmt::Debug for LaneSet {
    /// A policy is a secret: it has no place in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LaneSet(..)")
    }
}

/// The largest exchanges have 1,100 members at their route servers; this leaves room for sites.
pub const MAX_LANES: usize = 4096;

/// Routes that a shard may have of a site beyond its part of the quota and an eighth of it.
const UNEVEN: u64 = 64;
const LONGEST_SEALED: u64 = (MAX_ROUTE + 128) as u64;

/// Bytes of an id or a member's name.
pub const MAX_TEXT: usize = 128;
