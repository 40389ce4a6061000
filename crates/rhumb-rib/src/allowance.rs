//! How much public-key work may be done in a second: for one asker, or for all.
//!
//! A count that starts again with each second. It admits up to twice the rate across the border of
//! two seconds, which is of no account here: it bounds a flood, it does not shape traffic.

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowance {
    second: u64,
    used: u32,
}

impl Allowance {
    /// Takes `amount` from what `per_s` leaves in this second; `false`
    /// when that is not there, and nothing is taken.
    pub(crate) fn take(&mut self, amount: u32, per_s: u32, now_s: u64) -> bool {
        if self.second != now_s {
            *self = Self { second: now_s, used: 0 };
        }
        let used = self.used.saturating_add(amount);
        let within = used <= per_s;
        if within {
            self.used = used;
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_bound() {
        let mut allowance = Allowance::default();
        assert!(allowance.take(2, 3, 10));
        assert!(!allowance.take(2, 3, 10));
        assert!(allowance.take(1, 3, 10));
        assert!(!allowance.take(1, 3, 10));
        assert!(allowance.take(3, 3, 11));
        // A clock that jumped back opens no more than one second's worth.
        assert!(allowance.take(3, 3, 5));
        assert!(!allowance.take(1, 3, 5));
    }
}
