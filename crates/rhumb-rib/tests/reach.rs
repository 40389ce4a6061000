//! Names of domains that have no domain around them in common: found at home, reached by the
//! neighbour that the rules put first, by another one when that withdraws, and nothing of any
//! inside is told to anybody outside.

use std::net::SocketAddr;

use rhumb_rib::{Neighbour, Relation};
use rhumb_trust::{Access, Rule, Standing, name_of, verify_chain};
use rhumb_wire::rib::{Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Statement};

use crate::beyond::Domain;
use crate::world::net::Net;
use crate::world::{Holder, NOW_S};

/// `home` is a customer of `left` and `right`, and so is `near`; their RIBs serve members alone.
struct Square {
    net: Net,
    end: usize,
    near: Domain,
    left: Domain,
    right: Domain,
    home: Domain,
}

impl Square {
    fn new() -> Self {
        let mut net = Net::new();
        let end = net.add_end(Role::Router);
        let [near, left, right, home] = [(); 4].map(|()| Domain::at(&mut net, end, None));
        let mut square = Self { net, end, near, left, right, home };
        square.settings(|_| {});
        square.net.run(4000);
        square
    }

    /// `change` may change how the near domain treats its neighbours, left and right.
    fn settings(&mut self, change: impl Fn(&mut Vec<Neighbour>)) {
        let Self { near, left, right, home, .. } = self;
        let rib = |net: &Net, at: &Domain| (net.name_of(at.rib), Net::address(at.rib));
        let say = |net: &Net, by: &Domain, to: &Domain, relation: Relation| {
            let mut neighbour = Neighbour::new(to.name(), relation);
            let up_to = (relation != Relation::Provider).then_some(to.name());
            neighbour.ribs = vec![rib(net, to)];
            neighbour.carriage = Some(by.holder.carriage(to.name(), up_to, to.rib as u64 + 1));
            neighbour
        };
        for (at, above) in [(&*near, true), (left, false), (right, false), (home, true)] {
            let others = if above { [&*left, right] } else { [&*near, home] };
            let relation = if above { Relation::Provider } else { Relation::Customer };
            let mut neighbours: Vec<_> = others.map(|to| say(&self.net, at, to, relation)).into();
            if at.rib == near.rib {
                change(&mut neighbours);
            }
            let member = self.net.ends[self.end].identity.name();
            self.net.configure(at.rib, |config| {
                config.neighbours = neighbours;
                config.address = Some(Net::address(at.rib));
                let rules = vec![Rule::named(member, Standing::Admitted)];
                config.access = Access { rules, otherwise: Standing::Refused, ..Access::default() };
            });
        }
    }

    /// A node of the home domain, known outside.
    fn node(&mut self) -> Holder {
        let (node, router) = (Holder::of(Role::Node), Holder::new());
        let (end, rib, domain) = (self.end, self.home.rib, self.home.name());
        self.net.publish(end, rib, &router, router.locator(1));
        self.net.publish(end, rib, &node, node.route(router.name(), 1));
        self.net.publish(end, rib, &node, node.export(domain, 2));
        node
    }

    fn way(&mut self, name: Name, number: u8) -> Option<Vec<Certificate>> {
        let body = match number {
            0 => RibRequestBody::LookUpRoute(name),
            number => RibRequestBody::LookUpWay { name, number },
        };
        match self.net.ask(self.end, self.near.rib, body) {
            RibResponseBody::Found { level, certificates, metadata, .. } => {
                assert_eq!(level, 1);
                let key_of =
                    |name: &Name| metadata.iter().find(|m| name_of(m) == *name).map(|m| m.key);
                assert!(verify_chain(name, certificates.clone(), key_of, NOW_S).is_ok());
                Some(certificates)
            }
            RibResponseBody::Absent(_) => None,
            other => panic!("{other:?}"),
        }
    }

    /// The issuers on each way that the end was told of unasked, repetitions once.
    fn changes(&self, of: Name) -> Vec<Vec<Name>> {
        let told = self.net.ends[self.end].responses().into_iter();
        let mut all: Vec<Vec<Name>> = told
            .filter_map(|it| match it.body {
                RibResponseBody::Changed { name, level: 1, certificates, .. } if name == of => {
                    Some(certificates.iter().map(|it| it.issuer).collect())
                }
                _ => None,
            })
            .collect();
        all.dedup();
        all
    }

    /// By which of the two neighbours a way leads.
    fn by(&mut self, name: Name, number: u8) -> Option<Name> {
        self.way(name, number).map(|way| way[way.len() - 2].issuer)
    }
}

#[test]
fn a_name_is_found_at_home_and_reached_by_the_neighbour_that_is_liked_better() {
    let mut square = Square::new();
    let node = square.node();
    let (left, right) = (square.left.name(), square.right.name());
    for (liked, first, second) in [(0, left, right), (1, right, left)] {
        square.settings(|neighbours| neighbours[liked].preference = 500);
        square.net.run(4000);
        let way = square.way(node.name(), 0).expect("found");
        let issuers: Vec<Name> = way.iter().map(|it| it.issuer).collect();
        let border = if first == left { &square.left.border } else { &square.right.border };
        assert_eq!(issuers, [node.name(), square.home.name(), first, border.name()]);
        assert_eq!(square.by(node.name(), 1), Some(second));
        assert_eq!(square.by(node.name(), 2), Some(first), "around and around");
    }
    // Its key is known to whoever meets it before it was looked for here.
    let other = square.node();
    let metadata = RibRequestBody::LookUpMetadata(other.name());
    let answer = square.net.ask(square.end, square.left.rib, metadata);
    assert!(matches!(answer, RibResponseBody::Found { metadata, level: 1, .. }
        if metadata == [other.metadata()]));
    // Nobody is asked twice for what is known.
    let sought = square.net.rib(square.near.rib).counters().sought;
    assert!(square.way(node.name(), 0).is_some());
    assert_eq!(square.net.rib(square.near.rib).counters().sought, sought);
}

#[test]
fn whoever_was_told_a_way_is_told_another_one_when_the_first_is_withdrawn() {
    let mut square = Square::new();
    let node = square.node();
    square.settings(|neighbours| neighbours[0].preference = 500);
    square.net.run(4000);
    let (left, right, home) = (square.left.name(), square.right.name(), square.home.name());
    assert_eq!(square.by(node.name(), 0), Some(left));
    // Nobody asks again for a while.
    square.net.run(30_000);
    let near = square.near.name();
    let rib = square.left.rib;
    square.net.ends[square.end].heard.clear();
    square.net.configure(rib, |config| {
        let to_near = config.neighbours.iter_mut().find(|it| it.domain == near).unwrap();
        to_near.withhold = vec![home];
    });
    square.net.run(8000);
    let told = square.net.ends[square.end].responses();
    let changed = told.into_iter().find_map(|it| match it.body {
        RibResponseBody::Changed { name, level: 1, certificates, .. } if name == node.name() => {
            Some(certificates)
        }
        _ => None,
    });
    let changed = changed.expect("a change");
    assert_eq!(changed[changed.len() - 2].issuer, right);
    assert_eq!(square.by(node.name(), 0), Some(right));
    // With neither of them it is nowhere.
    let rib = square.right.rib;
    square.net.ends[square.end].heard.clear();
    square.net.configure(rib, |config| config.neighbours.clear());
    square.net.run(20_000);
    // Whoever was told is told that: by what it is known, and no way.
    let told = square.changes(node.name());
    assert_eq!(told, [[node.name()]]);
    assert_eq!(square.by(node.name(), 0), None);
}

#[test]
fn a_rib_on_the_only_way_that_is_started_again_is_gone_for_nobody() {
    let mut square = Square::new();
    let node = square.node();
    square.settings(|neighbours| drop(neighbours.remove(1)));
    square.net.run(4000);
    let (left, home) = (square.left.name(), square.home.name());
    let border = square.left.border.name();
    let way = [node.name(), home, left, border];
    assert_eq!(square.by(node.name(), 0), Some(left));
    square.net.run(20_000);
    square.net.ends[square.end].heard.clear();
    let rib = square.left.rib;
    square.net.configure(rib, |_| {});
    square.net.run(30_000);
    let told = square.changes(node.name());
    assert!(told.iter().all(|issuers| *issuers == way), "{told:?}");
    assert_eq!(square.by(node.name(), 0), Some(left));

    // Its domain is lost for good, and comes back.
    square.net.ends[square.end].heard.clear();
    let near = square.near.name();
    let withhold = |square: &mut Square, what: Vec<Name>| {
        square.net.configure(rib, |config| {
            let to_near = config.neighbours.iter_mut().find(|it| it.domain == near).unwrap();
            to_near.withhold = what.clone();
        });
    };
    withhold(&mut square, vec![home]);
    square.net.run(20_000);
    assert_eq!(square.changes(node.name()), [[node.name()]]);
    square.net.ends[square.end].heard.clear();
    withhold(&mut square, Vec::new());
    square.net.run(20_000);
    assert_eq!(square.changes(node.name()), [way]);
}

#[test]
fn a_neighbour_that_is_away_goes_last_and_comes_back() {
    let mut square = Square::new();
    let node = square.node();
    square.settings(|neighbours| neighbours[0].preference = 500);
    square.net.run(4000);
    let (left, right) = (square.left.name(), square.right.name());
    assert_eq!(square.by(node.name(), 0), Some(left));
    let address: SocketAddr = Net::address(square.left.rib);
    square.net.cut.insert(address);
    square.net.run(60_000);
    assert_eq!(square.by(node.name(), 0), Some(right));
    assert_eq!(square.by(node.name(), 1), Some(left), "it may be that its RIB alone is away");
    square.net.cut.clear();
    square.net.run(10_000);
    assert_eq!(square.by(node.name(), 0), Some(left));
}

#[test]
fn who_is_outside_is_told_exports_and_offers_to_neighbours_and_nothing_else() {
    let mut square = Square::new();
    let node = square.node();
    let (kept, router) = (Holder::of(Role::Node), Holder::new());
    let (end, home) = (square.end, square.home.rib);
    square.net.publish(end, home, &router, router.locator(1));
    square.net.publish(end, home, &kept, kept.route(router.name(), 1));
    let bound = square.home.name();
    square.net.publish(end, home, &kept, kept.export_up_to(bound, Some(bound), 2));

    let stranger = square.net.add_end(Role::Router);
    let ask = |square: &mut Square, body| square.net.ask(stranger, home, body);
    let found = ask(&mut square, RibRequestBody::LookUpExport(node.name()));
    let RibResponseBody::Found { certificates, metadata, .. } = found else { panic!() };
    assert_eq!(
        certificates,
        [node.export(square.home.name(), 2)]
            .map(|it| Certificate { signature: certificates[0].signature, ..it })
    );
    assert_eq!(metadata, [node.metadata()]);
    // What an exported server answers for is known behind the word for it.
    let capsule = Holder::of(Role::Capsule);
    let service = Statement::Service { server: node.name(), several: false };
    let service = capsule.say(service, 1, crate::world::window());
    square.net.publish(end, home, &capsule, service.clone());
    let found = ask(&mut square, RibRequestBody::LookUpExport(capsule.name()));
    let RibResponseBody::Found { certificates, .. } = found else { panic!() };
    assert_eq!((certificates.len(), &certificates[0]), (2, &service));
    for name in [kept.name(), router.name()] {
        let answer = ask(&mut square, RibRequestBody::LookUpExport(name));
        assert!(matches!(answer, RibResponseBody::Absent(_)), "{answer:?}");
    }
    let refused = RibResponseBody::Refused(Refusal::NotAuthorised);
    for body in [
        RibRequestBody::LookUpRoute(node.name()),
        RibRequestBody::LookUpMetadata(node.name()),
        RibRequestBody::LookUpAddress(node.name().beginning()),
        RibRequestBody::Domains { revision: 0, after: Name([0; 32]) },
    ] {
        assert_eq!(ask(&mut square, body), refused);
    }
    // Nor does a change of the inside come to who asked from outside.
    let moved = Holder::new();
    square.net.publish(end, home, &moved, moved.locator(1));
    square.net.publish(end, home, &node, node.route(moved.name(), 3));
    square.net.run(2000);
    let told = square.net.ends[stranger].responses();
    assert!(!told.iter().any(|it| matches!(it.body, RibResponseBody::Changed { .. })));
}

#[test]
fn a_border_is_told_by_which_certificates_a_neighbour_may_be_carried() {
    let mut square = Square::new();
    let (end, left, home) = (square.end, square.left.rib, square.home.name());
    let answer = square.net.ask(end, left, RibRequestBody::LookUpExport(home));
    let RibResponseBody::Found { certificates, level: 0, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(certificates.len(), 1);
    assert_eq!(certificates[0].issuer, home);
    assert_eq!(certificates[0].statement.exports_by(), Some(square.left.name()));
    // The others never said so of each other.
    let answer = square.net.ask(end, square.near.rib, RibRequestBody::LookUpExport(home));
    assert!(matches!(answer, RibResponseBody::Absent(_) | RibResponseBody::Found { .. }));
    let far = square.right.name();
    let answer = square.net.ask(end, left, RibRequestBody::LookUpExport(far));
    assert!(matches!(answer, RibResponseBody::Absent(_)), "{answer:?}");
}
