//! The path attributes of a route, kept once for all routes that share them.
//!
//! They are kept as bytes: the next hop, then all other attributes as a message between speakers of
//! four-octet numbers has them, by ascending type. So a table is small, equal attributes are equal
//! bytes, and to send them again is to copy them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rustbgpd_wire::attribute::{decode_path_attributes, encode_path_attributes};
use rustbgpd_wire::constants::attr_type;
use rustbgpd_wire::{AsPath, EncodeError, PathAttribute};

/// The attributes of a route. Clones share one allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Attributes(Arc<Box<[u8]>>);

/// Where a route's packets go next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// The next hop of IPv4 routes.
    V4(Ipv4Addr),
    /// The next hop of IPv6 routes: its global address and, of a neighbour
    /// on the same link, its local one (RFC 2545).
    V6(Ipv6Addr, Option<Ipv6Addr>),
}

impl Attributes {
    /// Attributes of a route that begins here. A `NEXT_HOP` or `MP_REACH_NLRI`
    /// among `list` is left out: `next_hop` says it.
    ///
    /// # Errors
    ///
    /// What cannot be written: an AS path with a set or with AS 0, among others.
    pub fn new(next_hop: NextHop, list: &[PathAttribute]) -> Result<Self, EncodeError> {
        let mut bytes = Vec::new();
        write(next_hop, list.to_vec(), &mut bytes)?;
        Ok(Self::from_canonical(&bytes))
    }

    /// Where packets go next: the address of the neighbour's family.
    #[must_use]
    pub fn next_hop(&self) -> NextHop {
        let bytes = &self.0[1..];
        match self.0[0] {
            4 => NextHop::V4(Ipv4Addr::from_octets(array(bytes))),
            16 => NextHop::V6(Ipv6Addr::from_octets(array(bytes)), None),
            _ => NextHop::V6(
                Ipv6Addr::from_octets(array(bytes)),
                Some(Ipv6Addr::from_octets(array(&bytes[16..]))),
            ),
        }
    }

    /// All attributes but the next hop, by ascending type.
    #[must_use]
    pub fn list(&self) -> Vec<PathAttribute> {
        // What was written here can be read; an empty list stands for the impossible.
        decode_path_attributes(self.wire(), true, &[]).unwrap_or_default()
    }

    /// The autonomous systems on the way; empty if the route begins with the announcer.
    #[must_use]
    pub fn as_path(&self) -> AsPath {
        let path = self.list().into_iter().find_map(|attribute| match attribute {
            PathAttribute::AsPath(path) => Some(path),
            _ => None,
        });
        path.unwrap_or(AsPath { segments: Vec::new() })
    }

    /// All attributes but the next hop, as a message
    /// between speakers of four-octet numbers has them.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.0[1 + usize::from(self.0[0])..]
    }

    /// Attributes of bytes that [`Attributes::canonical`] gave, perhaps to a stranger: nothing
    /// unless they can be read, and are in the form in which they would be written.
    #[must_use]
    pub fn parse(canonical: &[u8]) -> Option<Self> {
        let (len, rest) = canonical.split_first()?;
        let (next_hop, wire) = rest.split_at_checked(usize::from(*len))?;
        let next_hop = match next_hop.len() {
            4 => NextHop::V4(Ipv4Addr::from_octets(array(next_hop))),
            16 => NextHop::V6(Ipv6Addr::from_octets(array(next_hop)), None),
            32 => NextHop::V6(
                Ipv6Addr::from_octets(array(next_hop)),
                Some(Ipv6Addr::from_octets(array(&next_hop[16..]))),
            ),
            _ => return None,
        };
        let list = decode_path_attributes(wire, true, &[]).ok()?;
        let attributes = Self::new(next_hop, &list).ok()?;
        (attributes.canonical() == canonical).then_some(attributes)
    }

    /// The next hop (behind its length) and the other attributes: equal bytes are equal attributes.
    #[must_use]
    pub fn canonical(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_canonical(bytes: &[u8]) -> Self {
        Self(Arc::new(bytes.into()))
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Tells equal attributes of one interner apart without reading them.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn is_kept_elsewhere(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attributes")
            .field("next_hop", &self.next_hop())
            .field("list", &self.list())
            .finish()
    }
}

impl NextHop {
    /// The (global) address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::V4(address) => IpAddr::V4(*address),
            Self::V6(global, _) => IpAddr::V6(*global),
        }
    }

    /// As `MP_REACH_NLRI` has it, behind its length.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::V4(address) => {
                bytes.push(4);
                bytes.extend(address.octets());
            }
            Self::V6(global, None) => {
                bytes.push(16);
                bytes.extend(global.octets());
            }
            Self::V6(global, Some(local)) => {
                bytes.push(32);
                bytes.extend(global.octets());
                bytes.extend(local.octets());
            }
        }
    }
}

impl std::fmt::Display for NextHop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address().fmt(f)
    }
}

/// Appends the canonical bytes of these attributes.
///
/// # Errors
///
/// What cannot be written.
pub(crate) fn write(
    next_hop: NextHop,
    mut list: Vec<PathAttribute>,
    bytes: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    list.retain(|attribute| !is_next_hop(attribute));
    list.sort_by_key(PathAttribute::type_code);
    next_hop.write(bytes);
    encode_path_attributes(&list, bytes, true, false)
}

/// Whether an attribute says where to go, or which prefixes there are, and is no part of the list.
fn is_next_hop(attribute: &PathAttribute) -> bool {
    let apart = [attr_type::NEXT_HOP, attr_type::MP_REACH_NLRI, attr_type::MP_UNREACH_NLRI];
    apart.contains(&attribute.type_code())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustbgpd_wire::{AsPathSegment, Origin};

    #[test]
    fn they_come_back_as_they_went_in_and_in_order() {
        let path = AsPath { segments: vec![AsPathSegment::AsSequence(vec![64500, 4_200_000_000])] };
        let list = [
            PathAttribute::Communities(vec![1, 2]),
            PathAttribute::AsPath(path.clone()),
            PathAttribute::NextHop(Ipv4Addr::LOCALHOST),
            PathAttribute::Origin(Origin::Igp),
        ];
        let hops = [
            NextHop::V4([192, 0, 2, 1].into()),
            NextHop::V6("2001:db8::1".parse().unwrap(), None),
            NextHop::V6("2001:db8::1".parse().unwrap(), Some("fe80::1".parse().unwrap())),
        ];
        for hop in hops {
            let attributes = Attributes::new(hop, &list).unwrap();
            assert_eq!(attributes.next_hop(), hop);
            let expected = [list[3].clone(), list[1].clone(), list[0].clone()];
            assert_eq!(attributes.list(), expected);
            assert_eq!(attributes.as_path(), path);
            assert_eq!(Attributes::from_canonical(attributes.canonical()), attributes);
            assert_eq!(Attributes::parse(attributes.canonical()), Some(attributes.clone()));
            assert_eq!(Attributes::parse(&attributes.canonical()[..20]), None);
        }
    }
}
