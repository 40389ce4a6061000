//! How long statements may hold: as long as superseded ones have to be remembered.

use rhumb_wire::metadata::Role;
use rhumb_wire::{Certificate, Statement};

/// The longest that a statement may last, one day. It bounds how long superseded
/// sequences must be remembered, and how long a stolen statement is of use. Leases last
/// minutes; routers' locators are renewed hourly.
pub const MAX_LIFETIME_S: u64 = 24 * 60 * 60;

/// The longest that a capsule's or a group's word for its server may last, thirty days: its owner
/// signs by hand, with a key that is kept away from the network. The way to the server is
/// the server's own word, which lasts minutes; so who answers for a capsule can be
/// outdated for no longer than a RIB is lied to.
pub const MAX_SERVICE_LIFETIME_S: u64 = 30 * MAX_LIFETIME_S;

/// The longest that a domain's word for its border router, or for the domain around it, may last:
/// as a capsule's, since its key is kept off line as that is. The way to the border is the router's
/// own word, which lasts minutes.
pub const MAX_DELEGATION_LIFETIME_S: u64 = MAX_SERVICE_LIFETIME_S;

/// The longest that a domain's word for a member may last, a year and a day: domains' keys are kept
/// off line. Nobody keeps its sequence. A domain that takes its word back sooner says so by a
/// removal, which lasts as long, so that it outlives whatever it counts against.
pub const MAX_MEMBERSHIP_LIFETIME_S: u64 = 366 * MAX_LIFETIME_S;

/// The longest that a statement of an issuer of this role may last. Sequences are remembered for as
/// long after their admission: an older statement then fails its window.
pub fn max_lifetime_s(statement: &Statement, issuer: Role) -> u64 {
    match (statement, issuer) {
        (Statement::Service { .. }, Role::Capsule | Role::Domain) => MAX_SERVICE_LIFETIME_S,
        (Statement::Route { .. }, Role::Domain) => MAX_DELEGATION_LIFETIME_S,
        (Statement::Member { .. } | Statement::Removal { .. }, _) => MAX_MEMBERSHIP_LIFETIME_S,
        _ => MAX_LIFETIME_S,
    }
}

/// Whether a statement lasts longer than any of its kind may. While its issuer's role is not known,
/// it may last as long as those of the role that may say it for longest.
pub fn lasts_too_long(certificate: &Certificate, issuer: Option<Role>) -> bool {
    let statement = &certificate.statement;
    let longest_s = match issuer {
        Some(role) => max_lifetime_s(statement, role),
        None => {
            max_lifetime_s(statement, Role::Capsule).max(max_lifetime_s(statement, Role::Domain))
        }
    };
    certificate.not_after_s.saturating_sub(certificate.not_before_s) > longest_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, Window};
    use rhumb_wire::{Name, Scope};

    #[test]
    fn a_statement_lasts_a_day_unless_its_issuers_key_is_kept_off_line() {
        let name = Name([7; 32]);
        let route = |scope| Statement::Route { via: name, scope };
        let (inside, outside) = (route(Scope::Any), route(Scope::ByDomain { up_to: None }));
        let service = Statement::Service { server: name, several: false };
        let (day, month) = (MAX_LIFETIME_S, 30 * MAX_LIFETIME_S);
        let cases = [
            (Role::Domain, inside, month),
            (Role::Domain, outside, month),
            (Role::Domain, service, month),
            (Role::Domain, Statement::Withdrawal, day),
            (Role::Capsule, service, month),
            (Role::Capsule, inside, day),
            (Role::Router, inside, day),
            (Role::Node, outside, day),
        ];
        for (role, statement, longest_s) in cases {
            let issuer = Identity::generate(role, 1).unwrap();
            let lasting = |s| issuer.certify(statement, 1, Window::starting(1000, s)).unwrap();
            let too_long = |s, role| lasts_too_long(&lasting(s), role);
            assert!(!too_long(longest_s, Some(role)), "{role:?} {statement:?}");
            assert!(too_long(longest_s + 1, Some(role)), "{role:?} {statement:?}");
            // Nobody is refused for a role that is not known yet, and nothing lasts for ever.
            assert!(!too_long(longest_s, None), "{role:?} {statement:?}");
            assert!(too_long(month + 1, None), "{role:?} {statement:?}");
        }
    }
}
