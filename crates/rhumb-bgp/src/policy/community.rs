//! Communities: standard (RFC 1997), large (RFC 8092) and extended
//! (RFC 4360), and patterns of them with wildcards.
//!
//! A pattern matches communities of its own kind only: `65000:1` is standard, `65000:1:2` is large,
//! `rt:65000:1` is extended. A route target or origin matches in all three of its encodings whose
//! numbers are equal, so that `rt:65000:1` is independent of how the sender wrote the AS.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use rustbgpd_wire::{ExtendedCommunity, LargeCommunity, PathAttribute};

use super::PolicyError;

/// One community.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Community {
    /// High 16 bits, usually an AS, and low 16 bits.
    Standard(u32),
    /// Three numbers of 32 bits, the first an AS.
    Large(LargeCommunity),
    /// Eight bytes, of which the first two are the type.
    Extended(ExtendedCommunity),
}

impl Community {
    /// All communities of a route, in its order.
    pub fn of(attributes: &[PathAttribute]) -> impl Iterator<Item = Self> {
        attributes.iter().flat_map(|attribute| {
            let standard = attribute.communities().unwrap_or_default();
            let large = attribute.large_communities().unwrap_or_default();
            let extended = attribute.extended_communities().unwrap_or_default();
            let standard = standard.iter().copied().map(Self::Standard);
            let large = large.iter().copied().map(Self::Large);
            standard.chain(large).chain(extended.iter().copied().map(Self::Extended))
        })
    }

    /// Adds it to a route, unless it is there.
    pub fn add_to(self, attributes: &mut Vec<PathAttribute>) {
        if Self::of(attributes).any(|there| there == self) {
            return;
        }
        match self {
            Self::Standard(community) => {
                match attributes.iter_mut().find_map(PathAttribute::communities_mut) {
                    Some(list) => list.push(community),
                    None => attributes.push(PathAttribute::Communities(vec![community])),
                }
            }
            Self::Large(community) => {
                match attributes.iter_mut().find_map(PathAttribute::large_communities_mut) {
                    Some(list) => list.push(community),
                    None => attributes.push(PathAttribute::LargeCommunities(vec![community])),
                }
            }
            Self::Extended(community) => {
                match attributes.iter_mut().find_map(PathAttribute::extended_communities_mut) {
                    Some(list) => list.push(community),
                    None => attributes.push(PathAttribute::ExtendedCommunities(vec![community])),
                }
            }
        }
    }

    /// Takes out of a route all of which `unwanted` says so;
    /// an attribute that is empty then goes, too.
    pub fn remove_from(
        attributes: &mut Vec<PathAttribute>,
        mut unwanted: impl FnMut(Self) -> bool,
    ) {
        attributes.retain_mut(|attribute| {
            let mut left = None;
            if let Some(list) = attribute.communities_mut() {
                list.retain(|community| !unwanted(Self::Standard(*community)));
                left = Some(list.len());
            }
            if let Some(list) = attribute.large_communities_mut() {
                list.retain(|community| !unwanted(Self::Large(*community)));
                left = Some(list.len());
            }
            if let Some(list) = attribute.extended_communities_mut() {
                list.retain(|community| !unwanted(Self::Extended(*community)));
                left = Some(list.len());
            }
            left != Some(0)
        });
    }
}

impl FromStr for Community {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let pattern: CommunityPattern = text.parse()?;
        pattern.single().ok_or_else(|| PolicyError::Community(text.to_owned()))
    }
}

/// Standard communities with a name: RFCs 1997, 7999, 8326, 9494.
const NAMES: [(&str, u32); 7] = [
    ("no-export", rustbgpd_wire::COMMUNITY_NO_EXPORT),
    ("no-advertise", rustbgpd_wire::COMMUNITY_NO_ADVERTISE),
    ("no-export-subconfed", rustbgpd_wire::COMMUNITY_NO_EXPORT_SUBCONFED),
    ("blackhole", rustbgpd_wire::COMMUNITY_BLACKHOLE),
    ("graceful-shutdown", rustbgpd_wire::COMMUNITY_GRACEFUL_SHUTDOWN),
    ("llgr-stale", rustbgpd_wire::COMMUNITY_LLGR_STALE),
    ("no-llgr", rustbgpd_wire::COMMUNITY_NO_LLGR),
];

/// A pattern: each number of a community is given, a range, or anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommunityPattern {
    /// `A:B`
    Standard([Numbers; 2]),
    /// `A:B:C`
    Large([Numbers; 3]),
    /// `rt:A:B` and `ro:A:B`: the subtype (2 or 3), and both numbers.
    TwoPart {
        /// Route target or route origin.
        subtype: u8,
        /// The AS, and what follows it.
        numbers: [Numbers; 2],
    },
    /// `ext:TYPE:SUBTYPE:VALUE`, for all others.
    Raw {
        /// Type and subtype.
        kind: [Numbers; 2],
        /// The six bytes behind them, as a number.
        value: Option<u64>,
    },
}

/// Numbers from the first to the last.
pub type Numbers = RangeInclusive<u32>;

impl CommunityPattern {
    /// Whether it matches a community.
    pub fn matches(&self, community: Community) -> bool {
        match (self, community) {
            (Self::Standard([high, low]), Community::Standard(community)) => {
                high.contains(&(community >> 16)) && low.contains(&(community & 0xFFFF))
            }
            (Self::Large([global, first, second]), Community::Large(community)) => {
                global.contains(&community.global_admin)
                    && first.contains(&community.local_data1)
                    && second.contains(&community.local_data2)
            }
            (Self::TwoPart { subtype, numbers: [high, low] }, Community::Extended(community)) => {
                let two_part = match subtype {
                    &ROUTE_TARGET => community.route_target(),
                    _ => community.route_origin(),
                };
                two_part.is_some_and(|(a, b)| high.contains(&a) && low.contains(&b))
            }
            (Self::Raw { kind: [high, low], value }, Community::Extended(community)) => {
                high.contains(&community.type_byte().into())
                    && low.contains(&community.subtype().into())
                    && value.is_none_or(|value| value == community.as_u64() & RAW_VALUE)
            }
            _ => false,
        }
    }

    /// The one community that it matches, if it is one; of a route
    /// target or origin, in the shortest encoding.
    fn single(&self) -> Option<Community> {
        let one =
            |numbers: &Numbers| (numbers.start() == numbers.end()).then_some(*numbers.start());
        match self {
            Self::Standard([high, low]) => Some(Community::Standard(one(high)? << 16 | one(low)?)),
            Self::Large([global, first, second]) => {
                Some(Community::Large(LargeCommunity::new(one(global)?, one(first)?, one(second)?)))
            }
            Self::TwoPart { subtype, numbers: [high, low] } => {
                let (high, low) = (one(high)?, one(low)?);
                let subtype = u64::from(*subtype) << 48;
                let value = match (u16::try_from(high), u16::try_from(low)) {
                    (Ok(high), _) => u64::from(high) << 32 | u64::from(low),
                    (Err(_), Ok(low)) => 2 << 56 | u64::from(high) << 16 | u64::from(low),
                    _ => return None,
                };
                Some(Community::Extended(ExtendedCommunity::new(subtype | value)))
            }
            Self::Raw { kind: [high, low], value } => {
                let kind = u64::from(one(high)?) << 56 | u64::from(one(low)?) << 48;
                Some(Community::Extended(ExtendedCommunity::new(kind | (*value)?)))
            }
        }
    }
}

impl FromStr for CommunityPattern {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        if let Some((_, community)) = NAMES.iter().find(|(name, _)| *name == text) {
            let (high, low) = (community >> 16, community & 0xFFFF);
            return Ok(Self::Standard([high..=high, low..=low]));
        }
        let parts: Vec<&str> = text.split(':').collect();
        let parsed = match parts[..] {
            [kind @ ("rt" | "ro"), high, low] => two_part(kind, high, low),
            ["ext", kind, subtype, value] => raw(kind, subtype, value),
            [high, low] => both(numbers(high, 0xFFFF), numbers(low, 0xFFFF)).map(Self::Standard),
            [global, first, second] => both(numbers(first, u32::MAX), numbers(second, u32::MAX))
                .zip(numbers(global, u32::MAX))
                .map(|([first, second], global)| Self::Large([global, first, second])),
            _ => None,
        };
        parsed.ok_or_else(|| PolicyError::Community(text.to_owned()))
    }
}

fn both(a: Option<Numbers>, b: Option<Numbers>) -> Option<[Numbers; 2]> {
    a.zip(b).map(|(a, b)| [a, b])
}

fn two_part(kind: &str, high: &str, low: &str) -> Option<CommunityPattern> {
    let subtype = if kind == "rt" { ROUTE_TARGET } else { ROUTE_ORIGIN };
    let high = numbers(high, u32::MAX)?;
    let low = numbers(low, u32::MAX)?;
    // The two numbers share six bytes.
    let fits = *high.start() <= 0xFFFF || *low.start() <= 0xFFFF;
    fits.then_some(CommunityPattern::TwoPart { subtype, numbers: [high, low] })
}

fn raw(kind: &str, subtype: &str, value: &str) -> Option<CommunityPattern> {
    let value = match value {
        "*" => None,
        value => Some(number(value).filter(|value| *value <= RAW_VALUE)?),
    };
    let kind = both(numbers(kind, 0xFF), numbers(subtype, 0xFF))?;
    Some(CommunityPattern::Raw { kind, value })
}

/// `*`, `N` or `N-M`, up to `most`.
fn numbers(text: &str, most: u32) -> Option<Numbers> {
    if text == "*" {
        return Some(0..=most);
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let parse = |end| number(end).and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= most);
    let (low, high) = (parse(low)?, parse(high)?);
    (low <= high).then_some(low..=high)
}

/// Digits, or `0x` and hexadecimal digits: no sign.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    let first = digits.chars().next()?;
    first.is_digit(radix).then(|| u64::from_str_radix(digits, radix).ok())?
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard(community) => match NAMES.iter().find(|(_, named)| named == community) {
                Some((name, _)) => f.write_str(name),
                None => write!(f, "{}:{}", community >> 16, community & 0xFFFF),
            },
            Self::Large(community) => write!(f, "{community}"),
            Self::Extended(community) => {
                let two_part = match community.type_byte() {
                    0 | 2 => community
                        .route_target()
                        .map(|numbers| ("rt", numbers))
                        .or_else(|| community.route_origin().map(|numbers| ("ro", numbers))),
                    _ => None,
                };
                match two_part {
                    // In the encoding that reading the text gives again.
                    Some((kind, (high, low)))
                        if (high > 0xFFFF) == (community.type_byte() == 2) =>
                    {
                        write!(f, "{kind}:{high}:{low}")
                    }
                    _ => write!(
                        f,
                        "ext:{:#x}:{:#x}:{:#x}",
                        community.type_byte(),
                        community.subtype(),
                        community.as_u64() & RAW_VALUE
                    ),
                }
            }
        }
    }
}

/// RFC 4360, section 4.
const ROUTE_TARGET: u8 = 2;
/// RFC 4360, section 5.
const ROUTE_ORIGIN: u8 = 3;
/// The six bytes behind type and subtype.
const RAW_VALUE: u64 = 0xFFFF_FFFF_FFFF;
