//! How long the router carries this node's traffic, and when to ask for more.
//!
//! Invariant: a lease ends no later than the certificate it rests on, and is
//! renewed at half-life, so that one lost renewal after another still leaves half
//! of it for further tries (GDP paper, section 3.6).

use std::time::{Duration, Instant};

use rhumb_trust::Now;
use rhumb_wire::accept::Accept;

/// What an Accept grants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    until_s: u64,
    renew_at: Instant,
    ends_at: Instant,
    published: bool,
    /// Accepts in a row that said "not published".
    unpublished: u32,
}

/// The lease, for whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseStatus {
    /// The last second of it, since 1970, as the router says.
    pub until_s: u64,
    /// Whether the RIB holds the route.
    pub published: bool,
}

impl Lease {
    /// The lease that an Accept grants; `former` is the one it renews. It is renewed at half-life,
    /// and sooner while the name is not published.
    pub(super) fn begin(accept: Accept, lease_s: u64, former: Option<Self>, now: Now) -> Self {
        let left_s = accept.until_s.saturating_sub(now.unix_s()).min(lease_s);
        // A router with a fast clock grants a lease that seems to be
        // over: it still gets the time of a renewal.
        let left = Duration::from_secs(left_s).max(LEAST_LEASE);
        let unpublished = match (accept.published, former) {
            (true, _) => 0,
            (false, Some(former)) => former.unpublished.saturating_add(1),
            (false, None) => 1,
        };
        let renew_in = match unpublished {
            0 => left / 2,
            n => (left / 2).min(FIRST_REPUBLISH * 2u32.pow((n - 1).min(MAX_DOUBLINGS))),
        };
        Self {
            until_s: accept.until_s,
            renew_at: now.instant + renew_in,
            ends_at: now.instant + left,
            published: accept.published,
            unpublished,
        }
    }

    /// When to advertise again.
    pub(super) fn renew_at(&self) -> Instant {
        self.renew_at
    }

    /// When the router will carry no more.
    pub(super) fn ends_at(&self) -> Instant {
        self.ends_at
    }

    pub(super) fn status(&self) -> LeaseStatus {
        LeaseStatus { until_s: self.until_s, published: self.published }
    }

    /// Whether a further Accept of the same advertisement brings news.
    pub(super) fn learns_from(&self, accept: Accept) -> bool {
        accept.published && !self.published
    }
}

/// The shortest time between renewals is half of this, whatever a router says.
const LEAST_LEASE: Duration = Duration::from_secs(2);
/// How soon a name that is not published is advertised again, at first.
const FIRST_REPUBLISH: Duration = Duration::from_secs(1);
/// So at the latest after 32 s.
const MAX_DOUBLINGS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Name;

    fn begin(
        until_in_s: u64,
        published: bool,
        former: Option<Lease>,
    ) -> (Duration, Duration, Lease) {
        let now = Now { instant: Instant::now(), unix_ms: 5_000_000 };
        let accept = Accept { name: Name([1; 32]), until_s: now.unix_s() + until_in_s, published };
        let lease = Lease::begin(accept, 600, former, now);
        (lease.renew_at() - now.instant, lease.ends_at() - now.instant, lease)
    }

    #[test]
    fn a_lease_is_no_longer_than_its_certificate_and_no_shorter_than_a_renewal_takes() {
        let seconds =
            |(renew, end, _): (Duration, Duration, Lease)| (renew.as_secs(), end.as_secs());
        assert_eq!(seconds(begin(600, true, None)), (300, 600));
        assert_eq!(seconds(begin(100_000, true, None)), (300, 600));
        assert_eq!(seconds(begin(60, true, None)), (30, 60));
        assert_eq!(seconds(begin(0, true, None)), (1, 2));
    }

    #[test]
    fn a_name_that_is_not_published_is_advertised_sooner_but_ever_less_often() {
        let (mut waits, mut lease) = (Vec::new(), None);
        for _ in 0..8 {
            let (renew, _, next) = begin(600, false, lease);
            waits.push(renew.as_secs());
            lease = Some(next);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(begin(600, true, lease).0.as_secs(), 300);
        assert_eq!(begin(4, false, lease).0.as_secs(), 2, "never later than half-life");
    }
}
