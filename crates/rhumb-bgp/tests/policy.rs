//! Policies: matchers against tables written by hand, against real routes, and against BIRD.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod bird;
mod community;
mod export;
mod import;
mod mrt;
mod path;
mod prefix;
mod ranking;
mod real;
mod rpki;
mod rtr;
mod rules;

use std::net::Ipv4Addr;

use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::policy::{Member, Roster, Route};
use rustbgpd_wire::{AsPath, AsPathSegment, Origin, PathAttribute, Prefix, RpkiValidation};

/// A path from its text: numbers, and sets in braces.
fn as_path(text: &str) -> AsPath {
    let mut segments = Vec::new();
    for word in text.split_ascii_whitespace() {
        if let Some(set) = word.strip_prefix('{') {
            let numbers = set.trim_end_matches('}').split(',').map(|n| n.parse().unwrap());
            segments.push(AsPathSegment::AsSet(numbers.collect()));
        } else if let Some(AsPathSegment::AsSequence(numbers)) = segments.last_mut() {
            numbers.push(word.parse().unwrap());
        } else {
            segments.push(AsPathSegment::AsSequence(vec![word.parse().unwrap()]));
        }
    }
    AsPath { segments }
}

fn prefix(text: &str) -> Prefix {
    parse_prefix(text).unwrap()
}

/// Attributes of a route with this path, and these communities, standard and large.
fn attributes(path: &str, communities: &str) -> Vec<PathAttribute> {
    let mut attributes =
        vec![PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(as_path(path))];
    for community in communities.split_ascii_whitespace() {
        community.parse::<rhumb_bgp::policy::Community>().unwrap().add_to(&mut attributes);
    }
    attributes
}

fn route<'a>(destination: &str, attributes: &'a [PathAttribute]) -> Route<'a> {
    Route {
        prefix: prefix(destination),
        attributes,
        next_hop: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        announcer: Member(0),
        announcer_asn: 64_500,
        validity: RpkiValidation::NotFound,
    }
}

/// Members with these ASes.
fn roster(asns: &[u32]) -> Roster {
    Roster::new(asns.to_vec()).unwrap()
}
