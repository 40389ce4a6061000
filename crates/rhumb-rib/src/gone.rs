//! Names that are not where their routes lead, by the word of the router that each route names.
//!
//! A route ends with its lease, minutes after its holder died; its router knows sooner. What it
//! says ends nothing that is published: it only lets an older server of a capsule take the place of
//! a newer one that is not there.
//!
//! INVARIANT: only the router that a name itself has named is heard about it, and only
//! about that very route: the next one makes the word void. Kept in memory; where it is
//! lost, the end of the lease says the same later.

use std::collections::{HashMap, VecDeque};

use rhumb_wire::{Certificate, Name};

/// The sequences of routes whose names are gone.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    by_name: HashMap<Name, u64>,
    /// In the order in which they went.
    order: VecDeque<Name>,
}

impl Gone {
    pub(crate) fn note(&mut self, name: Name, sequence: u64) {
        if self.by_name.insert(name, sequence).is_none() {
            self.order.push_back(name);
        }
        while self.order.len() > MAX_GONE {
            if let Some(oldest) = self.order.pop_front() {
                self.by_name.remove(&oldest);
            }
        }
    }

    /// Whether the name was gone, and is not any more where it has another route.
    pub(crate) fn take_returned(&mut self, route: &Certificate) -> bool {
        let is_back = self.by_name.get(&route.issuer).is_some_and(|gone| *gone != route.sequence);
        if is_back {
            self.by_name.remove(&route.issuer);
        }
        is_back
    }

    /// Whether the name is not where this route of it leads.
    pub(crate) fn contains(&self, route: &Certificate) -> bool {
        self.by_name.get(&route.issuer) == Some(&route.sequence)
    }
}

/// Routers tell of servers alone, and one that is
/// forgotten costs the rest of a lease: 3 MB when full.
const MAX_GONE: usize = 1 << 15;
