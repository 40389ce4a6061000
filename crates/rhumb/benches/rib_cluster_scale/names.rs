//! Names by their popularity, and what the store is to have of each: a route to one of many
//! routers, which have an address. Nobody has signed for most; some have holders with keys, who
//! change what is said of them: the most popular ones, and others from all ranks alike.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_rib::Entry;
use rhumb_rib::cells::Written;
use rhumb_trust::{Identity, name_of};
use rhumb_wire::certificate::Locator;
use rhumb_wire::{Metadata, Name, Role, Scope, Statement};

use crate::unsigned::{NAMES_A_ROUTER, entry, metadata};
use crate::world::Holder;

/// So many names, from the most popular one on.
pub(crate) struct Names {
    pub(crate) names: Vec<Name>,
    routers: Vec<Metadata>,
    /// The last two routers: who asks and tells RIBs, and who tells them of moves.
    pub(crate) tellers: [Arc<Identity>; 2],
    /// Who can sign for their names, until somebody takes them.
    pub(crate) holders: Vec<Holder>,
    held: HashMap<Name, Metadata>,
    /// When all was said and stored.
    pub(crate) written: Written,
}

impl Names {
    pub(crate) fn new(count: usize, written: Written) -> Self {
        let tellers =
            [(); 2].map(|()| Arc::new(Identity::generate(Role::Router, 0).expect("a key")));
        let unsigned = (0..count.div_ceil(NAMES_A_ROUTER)).map(|at| metadata(Role::Router, at));
        let known = tellers.iter().map(|it| (**it.metadata()).clone());
        let routers = unsigned.chain(known).collect();
        let every = (count / HOLDERS).max(1);
        let (mut holders, mut held) = (Vec::new(), HashMap::new());
        let mut name = |rank: usize| {
            if rank >= HELD_FIRST && !rank.is_multiple_of(every) {
                return name_of(&metadata(Role::Node, rank));
            }
            let holder = Holder::new();
            let name = holder.name();
            held.insert(name, (**holder.0.metadata()).clone());
            holders.push(holder);
            name
        };
        let names = (0..count).map(&mut name).collect();
        Self { names, routers, tellers, holders, held, written }
    }

    /// Names and routers.
    pub(crate) fn entries(&self) -> usize {
        self.names.len() + self.routers.len()
    }

    pub(crate) fn routers(&self) -> usize {
        self.routers.len()
    }

    /// Which name, of names and behind them routers.
    pub(crate) fn name(&self, at: usize) -> Name {
        match at.checked_sub(self.names.len()) {
            None => self.names[at],
            Some(router) => name_of(&self.routers[router]),
        }
    }

    /// What the store is to have of it.
    pub(crate) fn entry(&self, at: usize) -> Entry {
        let now_s = self.written.now_s;
        let Some(router) = at.checked_sub(self.names.len()) else {
            let router = &self.routers[at / NAMES_A_ROUTER];
            let via = name_of(router);
            let name = self.names[at];
            let route = Statement::Route { via, scope: Scope::Any };
            return match self.held.get(&name) {
                Some(metadata) => entry(metadata, route, via, now_s),
                None => entry(&metadata(Role::Node, at), route, via, now_s),
            };
        };
        let locator = Locator::new(([192, 0, 2, 1], 4000).into()).expect("usable");
        let router = &self.routers[router];
        entry(router, Statement::Locator(locator), name_of(router), now_s)
    }

    /// The names that a router has published, and itself.
    pub(crate) fn published_by(&self, router: usize) -> Vec<usize> {
        let first = router * NAMES_A_ROUTER;
        let behind = first..(first + NAMES_A_ROUTER).min(self.names.len());
        behind.chain([self.names.len() + router]).collect()
    }
}

/// Of all ranks, about.
const HOLDERS: usize = 50_000;
/// All of the most popular names have one.
const HELD_FIRST: usize = 1000;
