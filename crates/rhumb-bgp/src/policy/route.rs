//! What a policy looks at.

use std::cell::OnceCell;
use std::net::IpAddr;

use rustbgpd_wire::{AsPath, Origin, PathAttribute, Prefix, RpkiValidation};

use super::member::Member;
use super::path::path_text;

/// A route, as its announcer gave it.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// The destination.
    pub prefix: Prefix,
    /// Its attributes, without those of reachability (RFC 4760).
    pub attributes: &'a [PathAttribute],
    /// Where packets go; it is no attribute of its own in IPv6.
    pub next_hop: Option<IpAddr>,
    /// Who announced it.
    pub announcer: Member,
    /// The announcer's AS.
    pub announcer_asn: u32,
    /// What the RPKI says of its origin.
    pub validity: RpkiValidation,
}

impl<'a> Route<'a> {
    /// The path; one without segments where there is none.
    pub fn path(&self) -> &'a AsPath {
        as_path(self.attributes).unwrap_or(&NO_PATH)
    }

    /// How its origin came to know it; incomplete where it does not say.
    pub fn origin(&self) -> Origin {
        let origin = self.attributes.iter().find_map(|attribute| match attribute {
            PathAttribute::Origin(origin) => Some(*origin),
            _ => None,
        });
        origin.unwrap_or(Origin::Incomplete)
    }

    /// The multi-exit discriminator; a route without is as
    /// one with zero (RFC 4271, section 9.1.2.2).
    pub fn med(&self) -> u32 {
        let med = self.attributes.iter().find_map(|attribute| match attribute {
            PathAttribute::Med(med) => Some(*med),
            _ => None,
        });
        med.unwrap_or(0)
    }
}

pub(super) fn as_path(attributes: &[PathAttribute]) -> Option<&AsPath> {
    attributes.iter().find_map(|attribute| match attribute {
        PathAttribute::AsPath(path) => Some(path),
        _ => None,
    })
}

/// A route under evaluation: the text of its path is made once for all rules, if one asks for it.
pub(super) struct Examined<'a> {
    pub(super) route: Route<'a>,
    text: OnceCell<String>,
}

impl<'a> Examined<'a> {
    pub(super) fn new(route: Route<'a>) -> Self {
        Self { route, text: OnceCell::new() }
    }

    pub(super) fn path_text(&self) -> &str {
        self.text.get_or_init(|| path_text(self.route.path()))
    }
}

static NO_PATH: AsPath = AsPath { segments: Vec::new() };
