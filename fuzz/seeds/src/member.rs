//! Examples of what one member sends another through the private exchange.

use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::wire::{AsPath, AsPathSegment, LargeCommunity, Origin, PathAttribute};
use rhumb_bgp::{Attributes, NextHop};
use rhumb_member::{Announced, Place};

/// A place behind its length, and a route to it, of both families.
pub(crate) fn routes() -> Vec<Vec<u8>> {
    let path = AsPath { segments: vec![AsPathSegment::AsSequence(vec![64501, 64510])] };
    let list = [
        PathAttribute::Origin(Origin::Igp),
        PathAttribute::AsPath(path),
        PathAttribute::LargeCommunities(vec![LargeCommunity::new(64499, 0, 64500)]),
    ];
    let v4 = ("198.51.100.0/24", NextHop::V4([192, 0, 2, 9].into()));
    let v6 = "2001:db8::9".parse().expect("an address");
    let v6 = ("2001:db8::/33", NextHop::V6(v6, None));
    [v4, v6]
        .map(|(prefix, next_hop)| {
            let prefix = parse_prefix(prefix).expect("a prefix");
            let place = Place { prefix, variant: 1 }.to_bytes();
            let attributes = Attributes::new(next_hop, &list).expect("they can be written");
            let route = Announced { router_id: [192, 0, 2, 1].into(), attributes }.to_bytes();
            assert!(Announced::parse(prefix, &route).is_ok(), "{route:02x?}");
            let len = u8::try_from(place.len()).expect("a place is short");
            [&[len][..], &place, &route].concat()
        })
        .to_vec()
}
