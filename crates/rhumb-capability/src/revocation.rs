//! What a waypoint takes no longer, before its window ends. Pushed by
//! the operator under a serial that only grows.

use hashbrown::HashMap;

use crate::{CapabilityError, DelegationId, Principal};

/// One order of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revocation {
    /// Whose capabilities.
    pub principal: Principal,
    /// Only those delegated under this id, on any level; `None` for all of them.
    pub delegation: Option<DelegationId>,
    /// The last second of Unix time for which it must be known: when
    /// the last window that could be meant is over.
    pub until_s: u64,
}

/// All orders in force, and the serial of the last one.
#[derive(Debug, Clone, Default)]
pub struct Revocations {
    serial: u64,
    set: HashMap<(Principal, Option<DelegationId>), u64, foldhash::quality::RandomState>,
    /// Latest end of all, so that an empty set costs nothing per packet.
    principals: HashMap<Principal, u64, foldhash::quality::RandomState>,
}

impl Revocations {
    /// Orders that are kept, at most: several megabytes.
    pub const MOST: usize = 100_000;

    /// Nothing is revoked.
    pub fn new() -> Self {
        Self::default()
    }

    /// The serial of the last order taken.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Takes orders under `serial`, all or none. False when the serial is not
    /// above the last: an old message, and nothing was changed. An order that is
    /// there already is prolonged, never shortened.
    ///
    /// # Errors
    /// When there would be more than [`Revocations::MOST`].
    pub fn apply(&mut self, serial: u64, orders: &[Revocation]) -> Result<bool, CapabilityError> {
        if serial <= self.serial {
            return Ok(false);
        }
        if self.set.len() + orders.len() > Self::MOST {
            let limit = Self::MOST as u64;
            return Err(CapabilityError::TooLarge { what: "the number of revocations", limit });
        }
        for order in orders {
            let until = self.set.entry((order.principal, order.delegation)).or_default();
            *until = (*until).max(order.until_s);
            let latest = self.principals.entry(order.principal).or_default();
            *latest = (*latest).max(order.until_s);
        }
        self.serial = serial;
        Ok(true)
    }

    /// Forgets what is over at `now_s`, seconds of Unix time.
    pub fn expire(&mut self, now_s: u64) {
        self.set.retain(|_, until_s| *until_s >= now_s);
        self.principals.retain(|_, until_s| *until_s >= now_s);
    }

    /// Orders in force.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether nothing is revoked.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The orders in force, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Revocation> {
        self.set.iter().map(|(&(principal, delegation), &until_s)| Revocation {
            principal,
            delegation,
            until_s,
        })
    }

    /// Whether a capability with these delegations is revoked at `now_s`.
    #[inline]
    pub fn refuses(
        &self,
        principal: Principal,
        mut delegations: impl Iterator<Item = DelegationId>,
        now_s: u64,
    ) -> bool {
        // Most principals have no order at all, and most waypoints have none for anybody.
        if self.principals.is_empty() || !self.principals.contains_key(&principal) {
            return false;
        }
        let holds = |id| self.set.get(&(principal, id)).is_some_and(|until_s| *until_s >= now_s);
        holds(None) || delegations.any(|id| holds(Some(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(principal: u32, id: Option<u32>, until_s: u64) -> Revocation {
        let delegation = id.and_then(DelegationId::new);
        Revocation { principal: Principal(principal), delegation, until_s }
    }

    fn refuses(set: &Revocations, principal: u32, ids: &[u32], now_s: u64) -> bool {
        let ids = ids.iter().copied().filter_map(DelegationId::new);
        set.refuses(Principal(principal), ids, now_s)
    }

    #[test]
    fn principals_and_delegations_of_any_level_are_refused() {
        let mut set = Revocations::new();
        assert_eq!(set.apply(5, &[order(1, None, 100), order(2, Some(7), 100)]), Ok(true));
        assert!(refuses(&set, 1, &[], 100) && refuses(&set, 1, &[7], 0));
        assert!(refuses(&set, 2, &[7], 0) && refuses(&set, 2, &[1, 2, 7], 0));
        assert!(!refuses(&set, 2, &[], 0) && !refuses(&set, 2, &[8], 0));
        assert!(!refuses(&set, 3, &[7], 0));
    }

    #[test]
    fn a_serial_only_grows_and_an_order_is_not_shortened() {
        let mut set = Revocations::new();
        assert_eq!(set.apply(5, &[order(1, None, 100)]), Ok(true));
        for old in [5, 4, 0] {
            assert_eq!(set.apply(old, &[order(9, None, 100)]), Ok(false));
        }
        assert_eq!((set.serial(), set.len()), (5, 1));
        assert_eq!(set.apply(6, &[order(1, None, 50)]), Ok(true));
        assert!(refuses(&set, 1, &[], 100));
    }

    #[test]
    fn orders_end() {
        let mut set = Revocations::new();
        set.apply(1, &[order(1, None, 100), order(1, Some(2), 200)]).unwrap();
        assert!(!refuses(&set, 1, &[], 101) && refuses(&set, 1, &[2], 101));
        set.expire(101);
        assert_eq!(set.iter().collect::<Vec<_>>(), [order(1, Some(2), 200)]);
        set.expire(201);
        assert!(set.is_empty() && !refuses(&set, 1, &[2], 200));
    }

    #[test]
    fn there_is_a_bound_and_it_takes_nothing_in_part() {
        let mut set = Revocations::new();
        let most: Vec<_> = (0..Revocations::MOST as u32).map(|n| order(n, None, 9)).collect();
        assert_eq!(set.apply(1, &most), Ok(true));
        assert!(set.apply(2, &[order(u32::MAX, None, 9)]).is_err());
        assert_eq!((set.serial(), set.len()), (1, Revocations::MOST));
    }
}
