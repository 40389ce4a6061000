//! How a route changes on its way out, and which routes stay here.

use rustbgpd_wire::constants::attr_type;
use rustbgpd_wire::{
    AsPath, AsPathSegment, COMMUNITY_NO_ADVERTISE, COMMUNITY_NO_EXPORT,
    COMMUNITY_NO_EXPORT_SUBCONFED, PathAttribute, Prefix,
};

use crate::attributes::{self, Attributes, NextHop};
use crate::config::{Config, Propagation};
use crate::family::Family;
use crate::otc::{self, Verdict};

/// Why a route is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Withheld {
    /// Its family is not spoken with this neighbour.
    Family,
    /// There is no next hop of its family.
    NextHop,
    /// It is for customers alone, and the neighbour is none (RFC 9234).
    OnlyToCustomer,
    /// A community forbids it: `NO_EXPORT` or `NO_ADVERTISE` (RFC 1997).
    Community,
    /// Its attributes cannot be written.
    Attributes,
}

/// The canonical bytes of a route's attributes as the
/// neighbour gets them; nothing if they go as they are.
///
/// # Errors
///
/// Why the route stays here.
pub(crate) fn prepare(
    config: &Config,
    prefix: &Prefix,
    given: &Attributes,
) -> Result<Option<Vec<u8>>, Withheld> {
    let family = Family::of(prefix);
    if !config.speaks(family) {
        return Err(Withheld::Family);
    }
    let next_hop = next_hop(config, family, given)?;
    let is_plain = config.propagation == Propagation::Transparent && config.role.is_none();
    if is_plain && !has_type(given.wire(), attr_type::LOCAL_PREF) {
        return Ok(None);
    }
    let mut list = given.list();
    list.retain(|attribute| attribute.type_code() != attr_type::LOCAL_PREF);
    if matches!(config.propagation, Propagation::External { .. }) {
        if list
            .iter()
            .filter_map(PathAttribute::communities)
            .flatten()
            .any(|community| stays(*community))
        {
            return Err(Withheld::Community);
        }
        list.retain(|attribute| attribute.type_code() != attr_type::MULTI_EXIT_DISC);
        prepend(config.local_as, &mut list);
    }
    if let Some(role) = config.role {
        let mark = list.iter().find_map(PathAttribute::only_to_customer);
        match otc::egress(role, config.local_as, mark) {
            Verdict::Keep => {}
            Verdict::Mark(number) => list.push(PathAttribute::OnlyToCustomer(number)),
            Verdict::Leak => return Err(Withheld::OnlyToCustomer),
        }
    }
    let mut bytes = Vec::new();
    attributes::write(next_hop, list, &mut bytes).map_err(|_| Withheld::Attributes)?;
    Ok(Some(bytes))
}

fn next_hop(config: &Config, family: Family, given: &Attributes) -> Result<NextHop, Withheld> {
    match (config.propagation, family, given.next_hop()) {
        (Propagation::Transparent, Family::Ipv4, hop @ NextHop::V4(_))
        | (Propagation::Transparent, Family::Ipv6, hop @ NextHop::V6(..)) => Ok(hop),
        (Propagation::External { next_hop: Some(ours), .. }, Family::Ipv4, _) => {
            Ok(NextHop::V4(ours))
        }
        (Propagation::External { next_hop_v6: Some(ours), .. }, Family::Ipv6, _) => {
            Ok(NextHop::V6(ours, None))
        }
        _ => Err(Withheld::NextHop),
    }
}

fn stays(community: u32) -> bool {
    [COMMUNITY_NO_EXPORT, COMMUNITY_NO_ADVERTISE, COMMUNITY_NO_EXPORT_SUBCONFED]
        .contains(&community)
}

/// Our number goes first (RFC 4271, section 5.1.2).
fn prepend(number: u32, list: &mut Vec<PathAttribute>) {
    let path = list.iter_mut().find_map(|attribute| match attribute {
        PathAttribute::AsPath(path) => Some(path),
        _ => None,
    });
    let Some(path) = path else {
        let segments = vec![AsPathSegment::AsSequence(vec![number])];
        list.push(PathAttribute::AsPath(AsPath { segments }));
        return;
    };
    match path.segments.first_mut() {
        Some(AsPathSegment::AsSequence(first)) if first.len() < MAX_SEGMENT => {
            first.insert(0, number);
        }
        _ => path.segments.insert(0, AsPathSegment::AsSequence(vec![number])),
    }
}

/// Whether well-formed attributes hold one of this type.
fn has_type(wire: &[u8], wanted: u8) -> bool {
    let mut rest = wire;
    while let [flags, kind, tail @ ..] = rest {
        if *kind == wanted {
            return true;
        }
        let is_extended = flags & EXTENDED_LENGTH != 0;
        let (length, value) = match tail {
            [high, low, value @ ..] if is_extended => {
                (usize::from(u16::from_be_bytes([*high, *low])), value)
            }
            [length, value @ ..] if !is_extended => (usize::from(*length), value),
            _ => return false,
        };
        rest = value.get(length..).unwrap_or_default();
    }
    false
}

/// The length of a segment is one octet (RFC 4271, section 4.3).
const MAX_SEGMENT: usize = 255;
const EXTENDED_LENGTH: u8 = rustbgpd_wire::constants::attr_flags::EXTENDED_LENGTH;
