//! Lists of prefixes with bounds of length, and the index behind them and behind origin validation.
//!
//! The index is a hash table by prefix: what covers a prefix is looked for once for every length
//! that there is, of which there are few. It is rebuilt when its list changes.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use rustbgpd_wire::{Ipv4Prefix, Ipv6Prefix, Prefix};

use super::PolicyError;

/// A prefix, and how long those within it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixRange {
    prefix: Prefix,
    least: u8,
    most: u8,
}

impl PrefixRange {
    /// The prefix itself and nothing else.
    pub fn exact(prefix: Prefix) -> Self {
        Self { prefix, least: prefix.prefix_len(), most: prefix.prefix_len() }
    }

    /// The prefix and all within it.
    pub fn or_longer(prefix: Prefix) -> Self {
        Self { prefix, least: prefix.prefix_len(), most: family_len(prefix) }
    }

    /// Those within `prefix` that are `least` to `most` bits long, if there are any.
    pub fn within(prefix: Prefix, least: u8, most: u8) -> Option<Self> {
        let possible = prefix.prefix_len() <= least && least <= most && most <= family_len(prefix);
        possible.then_some(Self { prefix, least, most })
    }

    /// Whether `prefix` is in it.
    pub fn contains(&self, prefix: Prefix) -> bool {
        covers(self.prefix, prefix) && (self.least..=self.most).contains(&prefix.prefix_len())
    }
}

impl FromStr for PrefixRange {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = || PolicyError::Prefix(text.to_owned());
        let trimmed = text.trim();
        if let Some(prefix) = trimmed.strip_suffix('+') {
            return parse_prefix(prefix).map(Self::or_longer).ok_or_else(wrong);
        }
        let (prefix, least, most) = if let Some((prefix, bounds)) = trimmed.split_once('{') {
            let bounds = bounds.strip_suffix('}').and_then(|bounds| bounds.split_once(','));
            let (least, most) = bounds.ok_or_else(wrong)?;
            (prefix, Some(least.trim()), Some(most.trim()))
        } else {
            let mut words = trimmed.split_ascii_whitespace();
            let prefix = words.next().ok_or_else(wrong)?;
            match (words.next(), words.next(), words.next(), words.next(), words.next()) {
                (None, ..) => (prefix, None, None),
                (Some("ge"), Some(least), None, ..) => (prefix, Some(least), None),
                (Some("le"), Some(most), None, ..) => (prefix, None, Some(most)),
                (Some("ge"), Some(least), Some("le"), Some(most), None) => {
                    (prefix, Some(least), Some(most))
                }
                _ => return Err(wrong()),
            }
        };
        let prefix = parse_prefix(prefix).ok_or_else(wrong)?;
        let length = |text: Option<&str>| {
            text.map(|text| text.parse::<u8>().map_err(|_| wrong())).transpose()
        };
        let (least, most) = match (length(least)?, length(most)?) {
            (None, None) => (prefix.prefix_len(), prefix.prefix_len()),
            (least, most) => {
                (least.unwrap_or(prefix.prefix_len()), most.unwrap_or(family_len(prefix)))
            }
        };
        Self::within(prefix, least, most).ok_or_else(|| PolicyError::Lengths(text.to_owned()))
    }
}

impl fmt::Display for PrefixRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        let len = self.prefix.prefix_len();
        if (self.least, self.most) == (len, len) {
            return Ok(());
        }
        if self.least != len {
            write!(f, " ge {}", self.least)?;
        }
        if self.most != family_len(self.prefix) || self.least == len {
            write!(f, " le {}", self.most)?;
        }
        Ok(())
    }
}

/// `ADDRESS/LENGTH` with zeros behind its length.
pub fn parse_prefix(text: &str) -> Option<Prefix> {
    let (address, len) = text.split_once('/')?;
    if !len.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (address, len) = (address.parse().ok()?, len.parse().ok()?);
    let prefix = prefix_of(address, len)?;
    (address_of(prefix) == address).then_some(prefix)
}

/// The prefix of an address, or `None` where it is longer than the address.
pub fn prefix_of(address: IpAddr, len: u8) -> Option<Prefix> {
    match address {
        IpAddr::V4(address) if len <= 32 => Some(Prefix::V4(Ipv4Prefix::new(address, len))),
        IpAddr::V6(address) if len <= 128 => Some(Prefix::V6(Ipv6Prefix::new(address, len))),
        _ => None,
    }
}

/// The first address of a prefix.
pub fn address_of(prefix: Prefix) -> IpAddr {
    match prefix {
        Prefix::V4(prefix) => prefix.addr.into(),
        Prefix::V6(prefix) => prefix.addr.into(),
    }
}

/// Whether all addresses of `inner` are in `outer`.
pub fn covers(outer: Prefix, inner: Prefix) -> bool {
    match (outer, inner) {
        (Prefix::V4(outer), Prefix::V4(inner)) => {
            outer.len <= inner.len && Ipv4Prefix::new(inner.addr, outer.len) == outer
        }
        (Prefix::V6(outer), Prefix::V6(inner)) => {
            outer.len <= inner.len && Ipv6Prefix::new(inner.addr, outer.len) == outer
        }
        _ => false,
    }
}

/// The length of an address of its family.
pub fn family_len(prefix: Prefix) -> u8 {
    match prefix {
        Prefix::V4(_) => 32,
        Prefix::V6(_) => 128,
    }
}

/// A list of prefixes with bounds, in no order: a prefix is in it if it is in one of its ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixSet(Nested<(u8, u8)>);

impl PrefixSet {
    /// Whether `prefix` is in it. Takes a look for every length that the list has.
    pub fn contains(&self, prefix: Prefix) -> bool {
        let len = prefix.prefix_len();
        self.0.covering(prefix).any(|(_, (least, most))| (*least..=*most).contains(&len))
    }

    /// Whether an address is within one of its prefixes, whatever their bounds of length.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        let whole = match address {
            IpAddr::V4(address) => Prefix::V4(Ipv4Prefix::new(address, 32)),
            IpAddr::V6(address) => Prefix::V6(Ipv6Prefix::new(address, 128)),
        };
        self.0.covering(whole).next().is_some()
    }

    /// How many ranges it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<PrefixRange> for PrefixSet {
    fn from_iter<I: IntoIterator<Item = PrefixRange>>(ranges: I) -> Self {
        Self(ranges.into_iter().map(|range| (range.prefix, (range.least, range.most))).collect())
    }
}

/// The index: values by prefix, several for one prefix if need be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nested<T> {
    /// By prefix.
    values: Vec<(Prefix, T)>,
    /// Where a prefix's values begin and end.
    places: HashMap<Prefix, Range<u32>>,
    /// Lengths that there are, the longest first: of IPv4, and of IPv6.
    lengths: [Vec<u8>; 2],
}

impl<T> Nested<T> {
    /// The values of all that covers `prefix`, the longest first.
    /// Takes a look for every length that there is.
    pub(crate) fn covering(&self, prefix: Prefix) -> impl Iterator<Item = (Prefix, &T)> {
        let lengths = self.lengths[usize::from(matches!(prefix, Prefix::V6(_)))].iter();
        let shorter = lengths.copied().skip_while(move |len| *len > prefix.prefix_len());
        let found = shorter.filter_map(move |len| self.places.get(&truncated(prefix, len)));
        found
            .flat_map(|place| &self.values[place.start as usize..place.end as usize])
            .map(|(prefix, value)| (*prefix, value))
    }

    /// All values, by prefix.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix, &T)> {
        self.values.iter().map(|(prefix, value)| (*prefix, value))
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

impl<T> Default for Nested<T> {
    fn default() -> Self {
        Self { values: Vec::new(), places: HashMap::new(), lengths: [Vec::new(), Vec::new()] }
    }
}

impl<T> FromIterator<(Prefix, T)> for Nested<T> {
    fn from_iter<I: IntoIterator<Item = (Prefix, T)>>(values: I) -> Self {
        let mut values: Vec<(Prefix, T)> = values.into_iter().collect();
        assert!(u32::try_from(values.len()).is_ok(), "more values than an index has places");
        values.sort_by_key(|(prefix, _)| *prefix);
        let mut places = HashMap::with_capacity(values.len());
        let mut lengths = [[false; 129]; 2];
        let mut start = 0;
        for same in values.chunk_by(|(a, _), (b, _)| a == b) {
            let prefix = same[0].0;
            let end = start + u32::try_from(same.len()).expect("invariant: all together are fewer");
            places.insert(prefix, start..end);
            lengths[usize::from(matches!(prefix, Prefix::V6(_)))]
                [usize::from(prefix.prefix_len())] = true;
            start = end;
        }
        places.shrink_to_fit();
        let lengths =
            lengths.map(|there| (0..=128u8).rev().filter(|len| there[usize::from(*len)]).collect());
        Self { values, places, lengths }
    }
}

/// The prefix of `len` bits that covers a longer one.
fn truncated(prefix: Prefix, len: u8) -> Prefix {
    match prefix {
        Prefix::V4(prefix) => Prefix::V4(Ipv4Prefix::new(prefix.addr, len)),
        Prefix::V6(prefix) => Prefix::V6(Ipv6Prefix::new(prefix.addr, len)),
    }
}
