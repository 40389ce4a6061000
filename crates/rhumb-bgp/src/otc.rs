//! Only-to-Customer (RFC 9234, section 5): by the roles of both sides, a route
//! that would leak is known and goes no further.

use rustbgpd_wire::BgpRole;

/// What becomes of a route at a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stays as it is.
    Keep,
    /// The attribute is added, with this number.
    Mark(u32),
    /// It is a leak.
    Leak,
}

/// A route that comes from the neighbour; `ours` is our role, `mark` the attribute that it carries.
pub(crate) fn ingress(ours: BgpRole, remote_as: u32, mark: Option<u32>) -> Verdict {
    match (ours, mark) {
        (BgpRole::Provider | BgpRole::RouteServer, Some(_)) => Verdict::Leak,
        (BgpRole::Peer, Some(number)) if number != remote_as => Verdict::Leak,
        (BgpRole::Peer | BgpRole::Customer | BgpRole::RouteServerClient, None) => {
            Verdict::Mark(remote_as)
        }
        _ => Verdict::Keep,
    }
}

/// A route that goes to the neighbour.
pub(crate) fn egress(ours: BgpRole, local_as: u32, mark: Option<u32>) -> Verdict {
    match (ours, mark) {
        (BgpRole::Customer | BgpRole::RouteServerClient | BgpRole::Peer, Some(_)) => Verdict::Leak,
        (BgpRole::Provider | BgpRole::RouteServer | BgpRole::Peer, None) => Verdict::Mark(local_as),
        _ => Verdict::Keep,
    }
}

/// Whether two roles fit together (RFC 9234, table 2).
pub(crate) fn fit(ours: BgpRole, theirs: BgpRole) -> bool {
    matches!(
        (ours, theirs),
        (BgpRole::Provider, BgpRole::Customer)
            | (BgpRole::Customer, BgpRole::Provider)
            | (BgpRole::RouteServer, BgpRole::RouteServerClient)
            | (BgpRole::RouteServerClient, BgpRole::RouteServer)
            | (BgpRole::Peer, BgpRole::Peer)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Keep, Leak, Mark};

    #[test]
    fn every_rule_of_rfc_9234_section_5() {
        // Our role, without a mark, marked by the neighbour, marked by another: from the neighbour.
        let from = [
            (BgpRole::Provider, Keep, Leak, Leak),
            (BgpRole::RouteServer, Keep, Leak, Leak),
            (BgpRole::Peer, Mark(2), Keep, Leak),
            (BgpRole::Customer, Mark(2), Keep, Keep),
            (BgpRole::RouteServerClient, Mark(2), Keep, Keep),
        ];
        for (ours, bare, by_neighbour, by_other) in from {
            assert_eq!(ingress(ours, 2, None), bare, "{ours:?}");
            assert_eq!(ingress(ours, 2, Some(2)), by_neighbour, "{ours:?}");
            assert_eq!(ingress(ours, 2, Some(3)), by_other, "{ours:?}");
        }
        // Our role, without a mark, with one: to the neighbour.
        let to = [
            (BgpRole::Provider, Mark(1), Keep),
            (BgpRole::RouteServer, Mark(1), Keep),
            (BgpRole::Peer, Mark(1), Leak),
            (BgpRole::Customer, Keep, Leak),
            (BgpRole::RouteServerClient, Keep, Leak),
        ];
        for (ours, bare, marked) in to {
            assert_eq!(egress(ours, 1, None), bare, "{ours:?}");
            assert_eq!(egress(ours, 1, Some(3)), marked, "{ours:?}");
        }
    }
}
