//! The figures of a worker at one moment, and of all workers together. Written by the worker twice
//! a second, so that whoever reads them never makes it wait.

use std::collections::HashMap;

use rhumb_capability::{
    Account, Accounts, DropCounts, DropReason, Epoch, ErrorRelay, IcmpCounters, Principal, Usage,
    Waypoint,
};
use rhumb_io::Counters;

/// Everything that only grows since the start, and the epochs.
#[derive(Debug, Default)]
pub struct Totals {
    /// What principals sent, their delegates included.
    pub principals: HashMap<Principal, Usage>,
    /// What was sent under delegations.
    pub delegates: HashMap<Account, Usage>,
    /// Proven and dropped all the same.
    pub dropped: HashMap<Principal, u64>,
    /// What all sent.
    pub total: Usage,
    /// What found no place in the tables.
    pub unlisted: Usage,
    /// What was dropped, by reason.
    pub drops: DropCounts,
    /// ICMP sent, and not sent.
    pub icmp: IcmpCounters,
    /// What packet I/O counted.
    pub io: Counters,
    /// Packets that found a queue between workers full.
    pub overflows: u64,
    /// Epochs whose capabilities are taken.
    pub epochs: Vec<Epoch>,
}

impl Totals {
    /// Takes the figures of a worker in place of what was here.
    pub fn take(
        &mut self,
        waypoint: &Waypoint,
        relay: Option<&ErrorRelay>,
        io: Counters,
        overflows: u64,
    ) {
        self.take_accounts(waypoint.accounts());
        self.dropped.extend(waypoint.dropped());
        self.drops.clone_from(waypoint.drops());
        self.icmp.clone_from(waypoint.icmp());
        if let Some(relay) = relay {
            self.icmp.add(relay.counters());
        }
        (self.io, self.overflows) = (io, overflows);
        self.epochs.clear();
        self.epochs.extend(waypoint.live_epochs());
    }

    /// Takes what principals sent in place of what was here.
    pub fn take_accounts(&mut self, accounts: &Accounts) {
        if self.total.packets != accounts.total().packets {
            self.principals.extend(accounts.principals());
            self.delegates.extend(accounts.all_delegates());
        }
        (self.total, self.unlisted) = (accounts.total(), accounts.unlisted());
    }

    /// Adds the figures of another worker.
    pub fn add(&mut self, other: &Self) {
        for (principal, usage) in &other.principals {
            merge(self.principals.entry(*principal).or_default(), *usage);
        }
        for (account, usage) in &other.delegates {
            merge(self.delegates.entry(*account).or_default(), *usage);
        }
        for (principal, count) in &other.dropped {
            *self.dropped.entry(*principal).or_default() += count;
        }
        merge(&mut self.total, other.total);
        merge(&mut self.unlisted, other.unlisted);
        self.drops.merge(&other.drops);
        self.icmp.add(&other.icmp);
        self.io.add(&other.io);
        self.overflows += other.overflows;
        self.epochs.clone_from(&other.epochs);
    }

    /// Reasons of drops and their counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        self.drops.iter()
    }
}

fn merge(sum: &mut Usage, other: Usage) {
    sum.packets += other.packets;
    sum.bytes += other.bytes;
}
