//! Routing policy as operators write it: what a route must look like, and what follows.
//!
//! A member of an exchange has two policies. [`export`] says which other members may get a route of
//! its own, by rules, by lists and by the communities that route servers know. [`import`] refuses
//! routes of others, and ranks those that are left into classes that the member deems equal: within
//! the best class the exchange may choose. Both are [`rule`]s over the matchers of this module:
//!
//! | module | what it holds |
//! |---|---|
//! | [`path`] | regular expressions over AS paths |
//! | [`community`] | communities of the three kinds, and patterns of them |
//! | [`prefix`] | lists of prefixes with bounds of length |
//! | [`rpki`] | origin validation (RFC 6811) |
//! | [`rtr`] | how what validates comes from a cache (RFC 8210) |
//! | [`rule`] | conditions, edits, and lists of rules of which the first that fits counts |
//! | [`export`], [`import`], [`ranking`] | the two policies, and the order of routes (RFC 4271, section 9.1) |
//! | [`member`] | who is a member: indices and sets of them |
//!
//! All expressions are read by `FromStr`. `docs/exchange-policy.md` is the page for operators.

pub mod community;
pub mod export;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzz;
pub mod import;
pub mod member;
pub mod path;
pub mod prefix;
pub mod ranking;
mod route;
pub mod rpki;
pub mod rtr;
pub mod rule;

pub use community::{Community, CommunityPattern};
pub use export::{Export, ExportPolicy, Variant};
pub use import::{ImportPolicy, Imported, Unwanted};
pub use member::{Member, MemberSet, Roster};
pub use path::PathPattern;
pub use prefix::{PrefixRange, PrefixSet};
pub use ranking::{Candidate, Ranked, Ranking, Ties};
pub use route::Route;
pub use rpki::{Vrp, Vrps};
pub use rule::{Conditions, Decision, Edits, Policy, Rule, Verdict};
/// What the RPKI says of a route.
pub use rustbgpd_wire::RpkiValidation;

/// What is wrong with a policy, or with one expression of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// An expression over paths, the byte at which it is wrong, and how.
    #[error("at byte {at}: {problem}")]
    Path {
        /// From 0.
        at: usize,
        /// What is there.
        problem: path::Problem,
    },
    /// No community, or no pattern of communities.
    #[error(
        "`{0}` is no community; give A:B, A:B:C, rt:A:B, ro:A:B, ext:TYPE:SUBTYPE:VALUE or a \
         name like no-export; in patterns a number may be * or LOW-HIGH"
    )]
    Community(String),
    /// No prefix, or no bounds of length behind it.
    #[error(
        "`{0}` is no prefix like 192.0.2.0/24, 10.0.0.0/8 ge 16 le 24, 10.0.0.0/8+ or 10.0.0.0/8{{16,24}}, \
         with zeros behind its length"
    )]
    Prefix(String),
    /// Bounds that no prefix is within: not len <= ge <= le <= the family's most.
    #[error("no prefix is within the lengths of `{0}`; its length <= ge <= le")]
    Lengths(String),
    /// More of something than policies may have.
    #[error("more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many at most.
        most: usize,
    },
}

/// Rules of one policy: beyond it, a table of prefixes was written as
/// rules; a list of prefixes holds them better.
pub const MOST_RULES: usize = 10_000;
/// Prefixes of all lists of one policy: all routes of today's Internet, twice over.
pub const MOST_PREFIXES: usize = 2_000_000;
/// Path expressions of one policy. Each takes up to
/// [`path::MOST_PROGRAM`] bytes, and up to a microsecond per route.
pub const MOST_PATHS: usize = 4_000;
