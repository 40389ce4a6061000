//! What a member does with a route of another: refuse it, or take it with a preference.
//!
//! The exchange cannot check routes that it cannot read, so what a route server would check is
//! checked here, before the member's rules.

use rustbgpd_wire::{COMMUNITY_BLACKHOLE, PathAttribute};

use super::community::Community;
use super::ranking::{DEFAULT_PREFERENCE, Ranking, first_asn};
use super::route::Route;
use super::rule::Policy;

/// A member's policy for the routes of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportPolicy {
    /// The member's rules.
    pub rules: Policy,
    /// The member's AS: a path that has it is a loop, which
    /// its router would refuse after it was chosen.
    pub own_asn: u32,
    /// Whether a path must begin with its announcer's AS (RFC 4271, section 6.3). Off for who
    /// carries its customers' routes without adding itself.
    pub first_asn: bool,
    /// Whether routes with the community BLACKHOLE come to the rules. RFC 7999,
    /// section 3.3, has it off unless agreed upon.
    pub blackhole: bool,
    /// The order of what is taken.
    pub ranking: Ranking,
}

/// A route that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// How much it is preferred.
    pub preference: u32,
    /// As the member's router gets them.
    pub attributes: Vec<PathAttribute>,
}

/// Why a route was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unwanted {
    /// The member's own AS is in its path.
    Loop,
    /// The path does not begin with its announcer.
    FirstAsn,
    /// It asks for packets to be thrown away.
    Blackhole,
    /// By this rule, from 0; `None` is none that fitted.
    Rule(Option<usize>),
}

impl ImportPolicy {
    /// What becomes of a route.
    ///
    /// # Errors
    ///
    /// Why it is not taken.
    pub fn import(&self, route: &Route<'_>) -> Result<Imported, Unwanted> {
        if route.path().contains_asn(self.own_asn) {
            return Err(Unwanted::Loop);
        }
        if self.first_asn && first_asn(route.path()) != Some(route.announcer_asn) {
            return Err(Unwanted::FirstAsn);
        }
        let blackhole = Community::Standard(COMMUNITY_BLACKHOLE);
        if !self.blackhole
            && Community::of(route.attributes).any(|community| community == blackhole)
        {
            return Err(Unwanted::Blackhole);
        }
        let decision = self.rules.decide(route);
        let edits = decision.accepted.ok_or(Unwanted::Rule(decision.rule))?;
        let mut attributes = route.attributes.to_vec();
        edits.apply(&mut attributes, route.announcer_asn);
        Ok(Imported { preference: edits.preference.unwrap_or(DEFAULT_PREFERENCE), attributes })
    }

    /// Whether another state of the RPKI can change what becomes of a route.
    pub fn asks_validity(&self) -> bool {
        self.ranking.validity_first || self.rules.asks_validity()
    }
}
