//! How long statements may hold: as long as superseded ones have to be remembered.

use rhumb_wire::metadata::Role;
use rhumb_wire::{Certificate, Statement};

/// The longest that a statement may last, one day. It bounds how long superseded
/// sequences must be remembered, and how long a stolen statement is of use. Leases last
/// minutes; routers' locators are renewed hourly.
pub const MAX_LIFETIME_S: u64 = 24 * 60 * 60;

/// The longest that a capsule's word for its server may last, thirty days: its owner
/// signs by hand, with a key that is kept away from the network. The way to the server is
/// the server's own word, which lasts minutes; so who answers for a capsule can be
/// outdated for no longer than a RIB is lied to.
pub const MAX_SERVICE_LIFETIME_S: u64 = 30 * MAX_LIFETIME_S;

/// The longest that a domain's word for a member may last, a year and a day: domains' keys are kept
/// off line. Nobody keeps its sequence; a domain that wants to take its word back sooner gives it
/// for less, by a key that it admitted for that.
pub const MAX_MEMBERSHIP_LIFETIME_S: u64 = 366 * MAX_LIFETIME_S;

/// The longest that a statement of an issuer of this role may last. Sequences are remembered for as
/// long after their admission: an older statement then fails its window.
pub fn max_lifetime_s(statement: &Statement, issuer: Role) -> u64 {
    match (statement, issuer) {
        (Statement::Service { .. }, Role::Capsule) => MAX_SERVICE_LIFETIME_S,
        (Statement::Member { .. }, _) => MAX_MEMBERSHIP_LIFETIME_S,
        _ => MAX_LIFETIME_S,
    }
}

/// Whether a statement lasts longer than any of its kind may. While its issuer's role is not known,
/// that of a capsule is supposed.
pub fn lasts_too_long(certificate: &Certificate, issuer: Option<Role>) -> bool {
    let lifetime_s = certificate.not_after_s.saturating_sub(certificate.not_before_s);
    lifetime_s > max_lifetime_s(&certificate.statement, issuer.unwrap_or(Role::Capsule))
}
