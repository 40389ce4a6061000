//! Who sent how much: packets and bytes by principal, and by delegation below it. Nothing is
//! counted before a packet has proven its capability and was found to be no replay.
//!
//! Invariant: tables have room for all they may ever hold from the start, so counting allocates
//! nothing. What finds no place is counted as unlisted: no packet is lost from the sum.

use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::{DelegationId, Delegations, MAX_LEVELS, Principal};

/// Whose packets: a principal's, or those of one line of delegates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    /// Who pays.
    pub principal: Principal,
    /// The ids of the delegations, the first delegator's first, and [`NOBODY`] after the last.
    ids: [u32; MAX_LEVELS],
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Packets forwarded.
    pub packets: u64,
    /// Their bytes, as IP packets before they were stamped.
    pub bytes: u64,
}

/// The counters of one verifier.
#[derive(Debug)]
pub struct Accounts {
    limit: usize,
    principals: HashMap<Principal, Usage, RandomState>,
    delegates: HashMap<Account, Usage, RandomState>,
    total: Usage,
    unlisted: Usage,
    unlisted_delegates: Usage,
}

impl Account {
    pub(crate) const NONE: Self = Self { principal: Principal(0), ids: [NOBODY; MAX_LEVELS] };

    /// The packets of a principal under these delegations.
    pub fn new(principal: Principal, delegations: &Delegations) -> Self {
        let mut account = Self::of(principal);
        for (place, level) in account.ids.iter_mut().zip(delegations.iter()) {
            *place = level.id.as_u32();
        }
        account
    }

    /// A principal itself.
    #[inline]
    pub(crate) fn of(principal: Principal) -> Self {
        Self { principal, ids: [NOBODY; MAX_LEVELS] }
    }

    #[inline]
    pub(crate) fn set_level(&mut self, level: usize, id: DelegationId) {
        self.ids[level] = id.as_u32();
    }

    /// The ids of the delegations, the first delegator's first.
    pub fn ids(&self) -> impl Iterator<Item = DelegationId> {
        self.ids.into_iter().filter_map(DelegationId::new)
    }

    /// Whether packets were sent under a delegation.
    pub fn is_delegated(&self) -> bool {
        self.ids[0] != NOBODY
    }
}

impl Usage {
    fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    fn merge(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl Accounts {
    /// Room for `limit` principals, and for as many lines of delegates.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            principals: HashMap::with_capacity_and_hasher(limit, RandomState::default()),
            delegates: HashMap::with_capacity_and_hasher(limit, RandomState::default()),
            total: Usage::default(),
            unlisted: Usage::default(),
            unlisted_delegates: Usage::default(),
        }
    }

    /// What all principals sent together.
    pub fn total(&self) -> Usage {
        self.total
    }

    /// What was sent by principals that found no place in the table.
    pub fn unlisted(&self) -> Usage {
        self.unlisted
    }

    /// What was sent by delegates that found no place in
    /// theirs. It is part of what their principals sent.
    pub fn unlisted_delegates(&self) -> Usage {
        self.unlisted_delegates
    }

    /// What a principal sent, its delegates included.
    pub fn principal(&self, principal: Principal) -> Usage {
        self.principals.get(&principal).copied().unwrap_or_default()
    }

    /// What was sent under exactly these delegations.
    pub fn delegates(&self, account: &Account) -> Usage {
        self.delegates.get(account).copied().unwrap_or_default()
    }

    /// All principals, in no order.
    pub fn principals(&self) -> impl Iterator<Item = (Principal, Usage)> {
        self.principals.iter().map(|(principal, usage)| (*principal, *usage))
    }

    /// All lines of delegates, in no order.
    pub fn all_delegates(&self) -> impl Iterator<Item = (Account, Usage)> {
        self.delegates.iter().map(|(account, usage)| (*account, *usage))
    }

    /// Adds the counters of another verifier: another core's.
    pub fn merge(&mut self, other: &Self) {
        self.total.merge(other.total);
        self.unlisted.merge(other.unlisted);
        self.unlisted_delegates.merge(other.unlisted_delegates);
        for (principal, usage) in &other.principals {
            let place = entry(&mut self.principals, *principal, self.limit);
            place.unwrap_or(&mut self.unlisted).merge(*usage);
        }
        for (account, usage) in &other.delegates {
            let place = entry(&mut self.delegates, *account, self.limit);
            place.unwrap_or(&mut self.unlisted_delegates).merge(*usage);
        }
    }

    /// Counts what was sent one after the other on one account.
    pub(crate) fn add(&mut self, Run { account, usage }: &Run) {
        if usage.packets == 0 {
            return;
        }
        self.total.merge(*usage);
        let place = entry(&mut self.principals, account.principal, self.limit);
        place.unwrap_or(&mut self.unlisted).merge(*usage);
        if account.is_delegated() {
            let place = entry(&mut self.delegates, *account, self.limit);
            place.unwrap_or(&mut self.unlisted_delegates).merge(*usage);
        }
    }
}

/// Packets that follow one another and are of one account, as
/// packets often are: they are counted together.
pub(crate) struct Run {
    account: Account,
    usage: Usage,
}

impl Run {
    pub(crate) const EMPTY: Self =
        Self { account: Account::NONE, usage: Usage { packets: 0, bytes: 0 } };

    /// Counts a packet; first, if it is of another account, the run to all accounts.
    #[inline]
    pub(crate) fn add(&mut self, accounts: &mut Accounts, account: &Account, bytes: u64) {
        if self.account != *account {
            accounts.add(self);
            *self = Self { account: *account, usage: Usage::default() };
        }
        self.usage.add(bytes);
    }
}

/// The entry of `key`, unless there is none and no room for one.
#[inline]
fn entry<K: Hash + Eq>(
    table: &mut HashMap<K, Usage, RandomState>,
    key: K,
    limit: usize,
) -> Option<&mut Usage> {
    if table.len() < limit { Some(table.entry(key).or_default()) } else { table.get_mut(&key) }
}

/// No delegation id: they have 24 bits.
const NOBODY: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn add(accounts: &mut Accounts, account: &Account, bytes: u64) {
        let mut run = Run::EMPTY;
        run.add(accounts, account, bytes);
        accounts.add(&run);
    }

    #[test]
    fn a_run_is_what_its_packets_are() {
        let [mut one_by_one, mut by_runs] = [(); 2].map(|()| Accounts::with_limit(3));
        let mut run = Run::EMPTY;
        for (number, ids) in [&[][..], &[], &[1], &[1], &[1, 2], &[], &[2], &[2]].iter().enumerate()
        {
            let account = account(number as u32 / 3, ids);
            add(&mut one_by_one, &account, 100 + number as u64);
            run.add(&mut by_runs, &account, 100 + number as u64);
        }
        by_runs.add(&run);
        assert_eq!(by_runs.total(), one_by_one.total());
        let sorted = |accounts: &Accounts| {
            let mut all: Vec<_> = accounts.all_delegates().collect();
            all.sort_by_key(|(account, _)| *account);
            let mut principals: Vec<_> = accounts.principals().collect();
            principals.sort_by_key(|(principal, _)| *principal);
            (all, principals)
        };
        assert_eq!(sorted(&by_runs), sorted(&one_by_one));
    }

    fn account(principal: u32, ids: &[u32]) -> Account {
        let mut account = Account::of(Principal(principal));
        for (level, id) in ids.iter().enumerate() {
            account.set_level(level, DelegationId::new(*id).unwrap());
        }
        account
    }

    #[test]
    fn a_principal_pays_for_its_delegates_who_are_told_apart() {
        let mut accounts = Accounts::with_limit(10);
        add(&mut accounts, &account(1, &[]), 100);
        add(&mut accounts, &account(1, &[5]), 10);
        add(&mut accounts, &account(1, &[5, 6]), 1);
        add(&mut accounts, &account(2, &[5]), 1000);
        assert_eq!(accounts.principal(Principal(1)), Usage { packets: 3, bytes: 111 });
        assert_eq!(accounts.delegates(&account(1, &[5])), Usage { packets: 1, bytes: 10 });
        assert_eq!(accounts.delegates(&account(1, &[5, 6])), Usage { packets: 1, bytes: 1 });
        assert_eq!(accounts.all_delegates().count(), 3);
        assert_eq!(accounts.total(), Usage { packets: 4, bytes: 1111 });
    }

    #[test]
    fn a_full_table_loses_no_packet() {
        let mut accounts = Accounts::with_limit(2);
        for principal in 0..5 {
            add(&mut accounts, &account(principal, &[1]), 10);
            add(&mut accounts, &account(principal, &[1]), 10);
        }
        let listed: u64 = accounts.principals().map(|(_, usage)| usage.packets).sum();
        assert_eq!((accounts.principals().count(), listed), (2, 4));
        assert_eq!(accounts.unlisted(), Usage { packets: 6, bytes: 60 });
        assert_eq!(accounts.unlisted_delegates(), Usage { packets: 6, bytes: 60 });
        assert_eq!(accounts.total(), Usage { packets: 10, bytes: 100 });
    }

    #[test]
    fn cores_are_added_up() {
        let mut sum = Accounts::with_limit(2);
        for _ in 0..2 {
            let mut core = Accounts::with_limit(4);
            for principal in 0..3 {
                add(&mut core, &account(principal, &[9]), 5);
            }
            sum.merge(&core);
        }
        let listed: u64 = sum.principals().map(|(_, usage)| usage.bytes).sum();
        assert_eq!(listed + sum.unlisted().bytes, 30);
        assert_eq!(sum.total(), Usage { packets: 6, bytes: 30 });
    }
}
