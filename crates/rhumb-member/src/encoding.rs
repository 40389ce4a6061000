//! How prefixes and routes are bytes on the private exchange, which knows neither.
//!
//! A destination is public: the variant, 0 to 3, then 4 or 6, the prefix's length, and as
//! many of its bytes as the length needs. Variants are versions of one route for different
//! members: those for whom it is prepended get another one. A route is secret:
//! `VERSION`, the announcing router's BGP identifier, 4 bytes, which breaks ties, and
//! the attributes as `rhumb_bgp` writes them: the next hop behind its length, then path
//! attributes as between speakers of four-octet AS numbers.

use std::net::{IpAddr, Ipv4Addr};

use rhumb_bgp::policy::prefix::{address_of, family_len, prefix_of};
use rhumb_bgp::wire::Prefix;
use rhumb_bgp::{Attributes, Family, NextHop};

/// Where a route leads, and which of the announcer's versions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where it leads.
    pub prefix: Prefix,
    /// Below [`VARIANTS`].
    pub variant: u8,
}

/// A route of another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The BGP identifier of the router that announces it.
    pub router_id: Ipv4Addr,
    /// As its announcer made them.
    pub attributes: Attributes,
}

/// Why bytes of another member are no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Of a version that is not known here.
    Version,
    /// Cut off, or with attributes that cannot be read.
    Attributes,
    /// The next hop is of another family than the prefix, or is none that packets could go to.
    NextHop,
}

impl Malformed {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "of an unknown version",
            Self::Attributes => "attributes cannot be read",
            Self::NextHop => "no next hop for such a prefix",
        }
    }
}

impl Place {
    /// As a destination at the exchange.
    pub fn to_bytes(self) -> Vec<u8> {
        let len = self.prefix.prefix_len();
        let (family, address) = match address_of(self.prefix) {
            IpAddr::V4(address) => (4, address.octets().to_vec()),
            IpAddr::V6(address) => (6, address.octets().to_vec()),
        };
        let mut bytes = vec![self.variant, family, len];
        bytes.extend(&address[..usize::from(len).div_ceil(8)]);
        bytes
    }

    /// None for bytes that are not what [`Place::to_bytes`] gives.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[variant, family, len], rest) = bytes.split_first_chunk()?;
        let address = match family {
            4 => IpAddr::from(filled::<4>(rest)?),
            6 => IpAddr::from(filled::<16>(rest)?),
            _ => return None,
        };
        let prefix = prefix_of(address, len).filter(|prefix| len <= family_len(*prefix))?;
        let place = Self { prefix, variant };
        (usize::from(variant) < VARIANTS && place.to_bytes() == bytes).then_some(place)
    }
}

impl Announced {
    /// As a route at the exchange.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&[VERSION], &self.router_id.octets()[..], self.attributes.canonical()].concat()
    }

    /// # Errors
    ///
    /// What is wrong with a route to `prefix`.
    pub fn parse(prefix: Prefix, bytes: &[u8]) -> Result<Self, Malformed> {
        let (&[version, ..], rest) = bytes.split_first_chunk::<1>().ok_or(Malformed::Version)?;
        if version != VERSION {
            return Err(Malformed::Version);
        }
        let (router_id, rest) = rest.split_first_chunk().ok_or(Malformed::Attributes)?;
        let attributes = Attributes::parse(rest).ok_or(Malformed::Attributes)?;
        let is_right = match attributes.next_hop() {
            NextHop::V4(next_hop) => {
                Family::of(&prefix) == Family::Ipv4 && is_unicast(next_hop.into())
            }
            NextHop::V6(next_hop, local) => {
                Family::of(&prefix) == Family::Ipv6
                    && is_unicast(next_hop.into())
                    && local.is_none()
            }
        };
        if !is_right {
            return Err(Malformed::NextHop);
        }
        Ok(Self { router_id: Ipv4Addr::from(*router_id), attributes })
    }
}

fn filled<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut all = [0; N];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(all)
}

fn is_unicast(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_local || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Versions of one route: not prepended, or once to three times.
pub const VARIANTS: usize = 4;
/// Of the form of routes.
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_bgp::policy::prefix::parse_prefix;
    use rhumb_bgp::wire::{AsPath, AsPathSegment, Origin, PathAttribute};

    fn attributes(next_hop: NextHop) -> Attributes {
        let path = AsPath { segments: vec![AsPathSegment::AsSequence(vec![64500, 64501])] };
        let list = [PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(path)];
        Attributes::new(next_hop, &list).unwrap()
    }

    #[test]
    fn places_come_back_and_have_one_form() {
        for text in ["0.0.0.0/0", "192.0.2.0/24", "192.0.2.1/32", "::/0", "2001:db8::/33"] {
            for variant in 0..VARIANTS as u8 {
                let place = Place { prefix: parse_prefix(text).unwrap(), variant };
                assert_eq!(Place::parse(&place.to_bytes()), Some(place), "{text}");
            }
        }
        let wrong: [&[u8]; 8] = [
            &[],
            &[0, 4],
            &[4, 4, 0],
            &[0, 5, 0],
            &[0, 4, 33, 1, 2, 3, 4, 5],
            &[0, 4, 24, 192, 0, 2, 0],
            &[0, 4, 20, 192, 0, 0xFF],
            &[0, 4, 24, 192, 0],
        ];
        for bytes in wrong {
            assert_eq!(Place::parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_route_comes_back_and_its_next_hop_is_looked_at() {
        let (v4, v6) =
            (parse_prefix("192.0.2.0/24").unwrap(), parse_prefix("2001:db8::/32").unwrap());
        let route = |next_hop| Announced {
            router_id: [192, 0, 2, 1].into(),
            attributes: attributes(next_hop),
        };
        let good = route(NextHop::V4([192, 0, 2, 9].into()));
        assert_eq!(Announced::parse(v4, &good.to_bytes()), Ok(good.clone()));
        assert_eq!(Announced::parse(v6, &good.to_bytes()), Err(Malformed::NextHop));
        for next_hop in [
            NextHop::V4([0, 0, 0, 0].into()),
            NextHop::V4([127, 0, 0, 1].into()),
            NextHop::V4([224, 0, 0, 1].into()),
            NextHop::V6("2001:db8::1".parse().unwrap(), None),
        ] {
            let bytes = route(next_hop).to_bytes();
            assert_eq!(Announced::parse(v4, &bytes), Err(Malformed::NextHop), "{next_hop}");
        }
        let with_local =
            NextHop::V6("2001:db8::1".parse().unwrap(), Some("fe80::1".parse().unwrap()));
        assert_eq!(Announced::parse(v6, &route(with_local).to_bytes()), Err(Malformed::NextHop));
        let mut other = good.to_bytes();
        other[0] = 2;
        assert_eq!(Announced::parse(v4, &other), Err(Malformed::Version));
        let cut = &good.to_bytes()[..12];
        assert_eq!(Announced::parse(v4, cut), Err(Malformed::Attributes));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_route_or_refused(bytes: Vec<u8>) {
            let _ = Place::parse(&bytes);
            let prefix = parse_prefix("192.0.2.0/24").unwrap();
            let behind = [&[VERSION, 192, 0, 2, 1, 4, 192, 0, 2, 9], &bytes[..]].concat();
            for bytes in [&bytes, &behind] {
                if let Ok(route) = Announced::parse(prefix, bytes) {
                    prop_assert_eq!(Announced::parse(prefix, &route.to_bytes()), Ok(route));
                }
            }
        }
    }
}
