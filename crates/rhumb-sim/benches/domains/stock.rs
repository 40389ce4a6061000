//! Names without nodes: published at a RIB by the production directory, with real signatures,
//! before the world begins.
#![allow(dead_code, reason = "tests and bench each take a part of it")]

use std::sync::Arc;

use rhumb_rib::{Asker, Outcome, Rib};
use rhumb_sim::{Disk, START_S};
use rhumb_trust::{Export, Identity};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

use crate::nest::{self, says};

/// Names without nodes, of one domain: of so many one is known outside, from the first on.
#[derive(Default)]
pub(crate) struct Stock {
    pub(crate) names: Vec<Name>,
    /// Keys of the first ones.
    pub(crate) keys: Vec<Identity>,
}

impl Stock {
    /// The name of this number among those that are known outside.
    pub(crate) fn exported(&self, at: usize) -> Option<Name> {
        self.names.get(at * EXPORTED_ONE_IN).copied()
    }

    /// That among all others.
    pub(crate) fn kept_in(&self, at: usize) -> Option<Name> {
        self.names.get(at + at / (EXPORTED_ONE_IN - 1) + 1).copied()
    }
}

/// A store of so many names, at the routers of a domain in turn, and their keys as far as they are
/// to be kept.
pub(crate) fn fill(
    config: &rhumb_rib::Config,
    domain: Name,
    routers: &[Name],
    (wanted, kept): (usize, usize),
) -> (Disk, Stock) {
    let (disk, mut stock) = (Disk::default(), Stock::default());
    if wanted == 0 {
        return (disk, stock);
    }
    let mut config = config.clone();
    config.signatures_per_admitted_per_s = u32::MAX;
    config.max_names_per_publisher = u64::MAX;
    config.parents.clear();
    let rib = Arc::new(nest::key(Role::Rib));
    let mut rib = Rib::new(rib, disk.clone(), config);
    for number in 0..wanted {
        let key = nest::key(Role::Node);
        let via = routers[number % routers.len()];
        let mut words = vec![says(&key, Statement::Route { via, scope: Scope::Any }, 0)];
        if number.is_multiple_of(EXPORTED_ONE_IN) {
            words.push(says(&key, Export { domain, up_to: None }.statement(), 1));
        }
        stock.names.push(key.name());
        let order = publication(&key, words, number as u32);
        let outcome = rib.handle_request(Asker::admitted(via, 1300), &order, START_S);
        assert!(matches!(outcome, Outcome::Staged(_)), "{outcome:?}");
        if number % COMMIT == COMMIT - 1 || number + 1 == wanted {
            let stored = rib.commit();
            assert!(stored.iter().all(|it| it.body == RibResponseBody::Stored), "{stored:?}");
        }
        if stock.keys.len() < kept {
            stock.keys.push(key);
        }
    }
    (disk, stock)
}

/// An order to publish what a name says.
pub(crate) fn publication(key: &Identity, certificates: Vec<Certificate>, id: u32) -> Vec<u8> {
    let metadata = vec![(**key.metadata()).clone()];
    let body = RibRequestBody::Publish { metadata, certificates };
    let mut data = Vec::new();
    RibRequest { id: RequestId(id), body }.emit(&mut data);
    data
}

/// One name in so many is known outside of its domain.
pub(crate) const EXPORTED_ONE_IN: usize = 100;
const COMMIT: usize = 512;
