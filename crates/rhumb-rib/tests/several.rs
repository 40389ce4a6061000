//! Routes and services that are each one of several stand beside each other, until one is to be the
//! only one; and what strangers could make of that.

use std::cell::Cell;
use std::rc::Rc;

use rhumb_rib::store::{Change, Memory, RemovalChange, Store};
use rhumb_rib::{Account, Config, Entry, Held, RibError};
use rhumb_trust::Removal;
use rhumb_wire::rib::{MAX_WAYS, Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

use crate::world::{Directory, Holder, NOW_S, window};

const ROUTERS: [Name; 3] = [Name([1; 32]), Name([2; 32]), Name([3; 32])];

fn among(owner: &Holder, server: Name, sequence: u64) -> Certificate {
    owner.say(Statement::Service { server, several: true }, sequence, window())
}

/// An owner whom three servers answer for, each at a router of its own.
struct Served {
    directory: Directory<crate::Usual>,
    owner: Holder,
    servers: [Holder; 3],
}

fn served() -> Served {
    let mut directory = Directory::new();
    let owner = Holder::of(Role::Capsule);
    let servers = [0; 3].map(|_| Holder::of(Role::Node));
    for ((server, router), sequence) in servers.iter().zip(ROUTERS).zip(5..) {
        directory.tell(server, server.route(router, 20)).expect("stored");
        directory.tell(&owner, among(&owner, server.name(), sequence)).expect("stored");
    }
    Served { directory, owner, servers }
}

impl<S: Store> Directory<S> {
    /// Who answers for a name, by the ways of these numbers.
    fn servers(&mut self, name: Name, numbers: std::ops::Range<u8>) -> Vec<Name> {
        let way = |number| match self.ask(match number {
            0 => RibRequestBody::LookUpRoute(name),
            number => RibRequestBody::LookUpWay { name, number },
        }) {
            RibResponseBody::Found { certificates, .. } => {
                certificates.first()?.statement.hands_on_to()
            }
            RibResponseBody::Absent(_) => None,
            other => panic!("{other:?} is no answer to a look-up"),
        };
        numbers.filter_map(way).collect()
    }

    fn all_servers(&mut self, name: Name) -> Vec<Name> {
        let mut servers = self.servers(name, 0..MAX_WAYS);
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

fn sorted(names: impl IntoIterator<Item = Name>) -> Vec<Name> {
    let mut names: Vec<Name> = names.into_iter().collect();
    names.sort_unstable();
    names
}

#[test]
fn each_of_several_servers_is_found_by_its_number_around_and_around() {
    let Served { mut directory, owner, servers } = served();
    let found = directory.servers(owner.name(), 0..6);
    assert_eq!(sorted(found[..3].to_vec()), sorted(servers.each_ref().map(Holder::name)));
    assert_eq!(found[..3], found[3..]);
    // A name that has one way has it under every number.
    assert_eq!(directory.servers(servers[0].name(), 0..4), [ROUTERS[0]; 4]);
}

#[test]
fn whichever_way_they_come_the_same_ones_are_in_force() {
    let owner = Holder::of(Role::Capsule);
    let servers = [0; 3].map(|_| Holder::of(Role::Node));
    let [a, b, c] = servers.each_ref().map(Holder::name);
    let alone =
        |sequence| owner.say(Statement::Service { server: a, several: false }, sequence, window());
    let before = [among(&owner, a, 1), among(&owner, b, 2), alone(3)];
    for (said, in_force) in [
        (vec![among(&owner, a, 1), among(&owner, b, 2), among(&owner, b, 4)], vec![a, b]),
        ([&before[..], &[among(&owner, b, 4), among(&owner, c, 5)]].concat(), vec![b, c]),
        ([&before[..], &[among(&owner, c, 2)]].concat(), vec![a]),
        ([&before[..], &[owner.withdrawal(3), among(&owner, c, 4)]].concat(), vec![c]),
        (vec![among(&owner, a, 1), owner.withdrawal(2), among(&owner, b, 2)], vec![]),
    ] {
        for rotation in 0..said.len() {
            for reversed in [false, true] {
                let mut directory = Directory::new();
                for server in &servers {
                    directory.tell(server, server.route(ROUTERS[0], 20)).expect("stored");
                }
                let mut order = said.clone();
                order.rotate_left(rotation);
                if reversed {
                    order.reverse();
                }
                for certificate in order {
                    let _ = directory.tell(&owner, certificate);
                }
                let found = directory.all_servers(owner.name());
                assert_eq!(found, sorted(in_force.clone()), "{rotation} {reversed}");
            }
        }
    }
}

#[test]
fn a_ninth_finds_no_room_until_another_has_ended_and_a_renewal_takes_none() {
    let mut directory = Directory::new();
    let owner = Holder::of(Role::Capsule);
    let server = |number: u8| Name([number + 1; 32]);
    for number in 0..MAX_WAYS {
        let word = among(&owner, server(number), u64::from(number) + 1);
        assert_eq!(directory.tell(&owner, word), Ok(()));
    }
    let ninth = |sequence| among(&owner, server(MAX_WAYS), sequence);
    assert_eq!(directory.tell(&owner, ninth(20)), Err(Refusal::QuotaExceeded));
    assert_eq!(directory.tell(&owner, among(&owner, server(0), 21)), Ok(()));
    directory.now_s = NOW_S + 700;
    let later = rhumb_trust::Window::starting(directory.now_s, 600);
    let word = Statement::Service { server: server(MAX_WAYS), several: true };
    assert_eq!(directory.tell(&owner, owner.say(word, 22, later)), Ok(()));
}

#[test]
fn a_server_whose_router_says_that_it_is_gone_is_none_of_several_until_it_is_back() {
    let Served { mut directory, owner, servers } = served();
    let [gone, second, third] = servers.each_ref().map(Holder::name);
    let word = |sequence| RibRequestBody::Gone { name: gone, sequence };
    assert_eq!(directory.ask_as(ROUTERS[1], word(20)), None);
    assert_eq!(directory.all_servers(owner.name()).len(), 3, "somebody else says so");
    assert_eq!(directory.ask_as(ROUTERS[0], word(20)), None);
    assert_eq!(directory.all_servers(owner.name()), sorted([second, third]));
    directory.tell(&servers[0], servers[0].route(ROUTERS[0], 21)).expect("stored");
    assert_eq!(directory.all_servers(owner.name()), sorted([gone, second, third]));
}

#[test]
fn a_domain_has_several_borders_and_what_it_exports_is_reached_by_each() {
    let mut directory = Directory::new();
    let (node, domain) = (Holder::of(Role::Node), Holder::of(Role::Domain));
    let borders = [Holder::new(), Holder::new()];
    let scope = Scope::ByDomain { up_to: None };
    let export = node.say(Statement::Route { via: domain.name(), scope }, 1, window());
    directory.tell(&node, export).expect("stored");
    for (border, sequence) in borders.iter().zip(1..) {
        let route = Statement::Route { via: border.name(), scope: Scope::Several };
        directory.tell(&domain, domain.say(route, sequence, window())).expect("stored");
        directory.tell(border, border.locator(1)).expect("stored");
    }
    let mut by = Vec::new();
    for number in 1..3 {
        let name = node.name();
        match directory.ask(RibRequestBody::LookUpWay { name, number }) {
            RibResponseBody::Found { certificates, .. } => {
                assert_eq!(certificates.len(), 3);
                by.extend(certificates[1].statement.hands_on_to());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sorted(by), sorted(borders.each_ref().map(Holder::name)));
}

/// A store that counts what is read of it.
struct Counted {
    store: Memory,
    reads: Rc<Cell<usize>>,
}

impl Store for Counted {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        self.reads.set(self.reads.get() + 1);
        self.store.entry(name)
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        self.store.entries_after(after, limit)
    }

    fn names(&mut self) -> Result<u64, RibError> {
        self.store.names()
    }

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        self.store.held(account)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        self.store.commit(changes)
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        self.store.removals()
    }

    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError> {
        self.store.commit_removals(changes)
    }
}

#[test]
fn names_that_branch_into_nothing_cost_no_more_reads_than_eight_ways_of_eight() {
    let reads = Rc::new(Cell::new(0));
    let store = Counted { store: Memory::new(), reads: reads.clone() };
    let mut config = Config::default();
    config.cached_entries = 1;
    let mut directory = Directory::over(store, config);
    // Each of a level names all of the next; what the last ones name is not there.
    let levels: Vec<Vec<Holder>> = (0..5).map(|_| Holder::line(8)).collect();
    for (level, next) in levels.iter().zip(&levels[1..]) {
        for (holder, sequence) in level.iter().zip(1..) {
            for via in next {
                let route = Statement::Service { server: via.name(), several: true };
                let word = holder.say(route, sequence, window());
                directory.tell(holder, word).expect("stored");
            }
        }
    }
    let name = levels[0][0].name();
    reads.set(0);
    directory.ask(RibRequestBody::LookUpWay { name, number: 7 });
    assert!((8..=64).contains(&reads.get()), "{} reads", reads.get());
}

#[test]
fn who_is_told_of_a_change_sees_the_newest() {
    let Served { mut directory, owner, servers } = served();
    // Whichever way their names are sorted.
    for sequence in 30..40 {
        let server = servers[sequence as usize % 3].name();
        directory.tell(&owner, among(&owner, server, sequence)).expect("stored");
        let first = directory.found(owner.name()).remove(0);
        assert_eq!((first.sequence, first.statement.hands_on_to()), (sequence, Some(server)));
    }
}
