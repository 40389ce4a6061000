//! Lists of prefixes with bounds of length, and the index behind them and behind origin validation.
//!
//! The index is a sorted array in which every entry knows the nearest entry before it that covers it. What covers a prefix is found by one binary
//! search, and then from cover to cover. It is rebuilt when its list changes.

use std::fmt;
use std::net::IpAddr;
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
    /// Whether `prefix` is in it. Takes a binary search, and a step for every range whose prefix covers it.
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
        self.0.entries.len()
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
    /// By prefix, so by address and then by length: what covers an entry is before it.
    entries: Vec<Entry<T>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry<T> {
    prefix: Prefix,
    /// The place of the nearest entry before this one that covers it, or [`NONE`].
    cover: u32,
    value: T,
}

impl<T> Nested<T> {
    /// The entries that cover `prefix`, the longest first.
    pub(crate) fn covering(&self, prefix: Prefix) -> impl Iterator<Item = (Prefix, &T)> {
        let after = self.entries.partition_point(|entry| entry.prefix <= prefix);
        let mut next = after.checked_sub(1);
        let mut covering = false;
        std::iter::from_fn(move || {
            loop {
                let entry = &self.entries[next?];
                next = (entry.cover != NONE).then_some(entry.cover as usize);
                // Whatever covers a covering entry covers the prefix.
                covering = covering || covers(entry.prefix, prefix);
                if covering {
                    return Some((entry.prefix, &entry.value));
                }
            }
        })
    }

    /// All entries, by prefix.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix, &T)> {
        self.entries.iter().map(|entry| (entry.prefix, &entry.value))
    }
}

impl<T> Default for Nested<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> FromIterator<(Prefix, T)> for Nested<T> {
    fn from_iter<I: IntoIterator<Item = (Prefix, T)>>(values: I) -> Self {
        let entry = |(prefix, value)| Entry { prefix, cover: NONE, value };
        let mut entries: Vec<Entry<T>> = values.into_iter().map(entry).collect();
        assert!(entries.len() < NONE as usize, "more entries than an index has places");
        entries.sort_by_key(|entry| entry.prefix);
        // The covers of the entry before, from the shortest.
        let mut covers_of_last: Vec<u32> = Vec::new();
        for at in 0..entries.len() {
            while let Some(last) = covers_of_last.last() {
                if covers(entries[*last as usize].prefix, entries[at].prefix) {
                    entries[at].cover = *last;
                    break;
                }
                covers_of_last.pop();
            }
            covers_of_last.push(u32::try_from(at).expect("invariant: it is below the bound above"));
        }
        Self { entries }
    }
}

/// No place.
const NONE: u32 = u32::MAX;
