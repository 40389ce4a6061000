//! Domains that tell each other which domains they reach: what is told and taken, in the order of
//! which rules, and that nothing forged, looping or leaked gets through, whatever the topology.

use std::collections::BTreeMap;

use rhumb_rib::{Neighbour, Neighbours, NotTaken, Own, Relation, Tell};
use rhumb_trust::Now;
use rhumb_wire::{Certificate, Metadata, Name, Offer, Role, Scope, Statement};

use crate::world::{Holder, NOW_S, window};

fn now() -> Now {
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    let instant = std::time::Instant::now();
    Now { instant, unix_ms: NOW_S * 1000 }
}

impl Holder {
    /// A domain's word that a neighbour may carry for it.
    pub(crate) fn carriage(&self, via: Name, up_to: Option<Name>, number: u64) -> Certificate {
        self.say(Statement::Route { via, scope: Scope::ByNeighbour { up_to } }, number, window())
    }
}

/// A domain with its border and its table.
struct Domain {
    holder: Holder,
    own: Own,
    neighbours: Vec<Neighbour>,
    table: Option<Neighbours>,
}

impl Domain {
    fn new() -> Self {
        let (holder, border) = (Holder::of(Role::Domain), Holder::new());
        let own = Own {
            ribs: Vec::new(),
            metadata: vec![holder.metadata(), border.metadata()],
            ends: vec![[holder.route(border.name(), 1), border.locator(1)]],
        };
        Self { holder, own, neighbours: Vec::new(), table: None }
    }

    fn name(&self) -> Name {
        self.holder.name()
    }

    fn table(&self) -> &Neighbours {
        self.table.as_ref().expect("it has begun")
    }
}

/// Domains by number.
struct World {
    domains: Vec<Domain>,
    around: Vec<Vec<Name>>,
    now: Now,
}

impl World {
    fn new(len: usize) -> Self {
        let domains = (0..len).map(|_| Domain::new()).collect();
        Self { domains, around: vec![Vec::new(); len], now: now() }
    }

    fn name(&self, at: usize) -> Name {
        self.domains[at].name()
    }

    /// Says who `to` is to `from`, who lets it carry as goes with that.
    fn neighbour(&mut self, from: usize, to: usize, relation: Relation) -> &mut Neighbour {
        let name = self.name(to);
        let up_to = (relation != Relation::Provider).then_some(name);
        let mut neighbour = Neighbour::new(name, relation);
        neighbour.carriage = Some(self.domains[from].holder.carriage(name, up_to, to as u64 + 1));
        self.domains[from].neighbours.push(neighbour);
        self.domains[from].neighbours.last_mut().expect("one")
    }

    fn customer(&mut self, provider: usize, customer: usize) {
        self.neighbour(provider, customer, Relation::Customer);
        self.neighbour(customer, provider, Relation::Provider);
    }

    fn peers(&mut self, one: usize, other: usize) {
        self.neighbour(one, other, Relation::Peer);
        self.neighbour(other, one, Relation::Peer);
    }

    fn begin(&mut self) {
        // Whoever lies in a domain lies in those around it.
        for _ in 0..self.domains.len() {
            for at in 0..self.domains.len() {
                let providers: Vec<Name> = self.providers(at).collect();
                let further = self.domains.iter().zip(&self.around);
                let further = further.filter(|(it, _)| providers.contains(&it.name()));
                let all = further.flat_map(|(_, around)| around.clone());
                let mut all: Vec<Name> = all.chain(providers.clone()).collect();
                all.sort();
                all.dedup();
                all.retain(|name| *name != self.name(at));
                self.around[at] = all;
            }
        }
        for (domain, around) in self.domains.iter_mut().zip(&self.around) {
            let own = domain.holder.name();
            domain.table = Some(Neighbours::new(own, around, &domain.neighbours, 64));
        }
    }

    fn providers(&self, at: usize) -> impl Iterator<Item = Name> {
        let rules = self.domains[at].neighbours.iter();
        rules.filter(|it| it.relation == Relation::Provider).map(|it| it.domain)
    }

    /// Everybody tells everybody. Whether anything changed.
    fn round(&mut self) -> bool {
        let before: u64 = self.domains.iter().map(|it| it.table().changes()).sum();
        for from in 0..self.domains.len() {
            for to in 0..self.domains.len() {
                let (teller, hearer) = (self.name(from), self.name(to));
                let told =
                    self.domains[from].table().told_to(hearer, &self.domains[from].own, self.now);
                let Some(table) = &mut self.domains[to].table else { continue };
                if table.rules().any(|it| it.domain == teller) {
                    for (domain, offer) in &told {
                        assert_eq!(table.hear(teller, *domain, offer, self.now), Ok(()));
                    }
                    let all = told.iter().map(|(domain, _)| *domain).collect();
                    table.retract_all_but(teller, &all);
                }
            }
        }
        before != self.domains.iter().map(|it| it.table().changes()).sum()
    }

    fn settle(&mut self) {
        for _ in 0..4 * self.domains.len() {
            if !self.round() {
                return;
            }
        }
        panic!("they go on telling each other");
    }

    fn ways(&self, from: usize, to: usize) -> Vec<Vec<usize>> {
        let number = |name: &Name| self.domains.iter().position(|it| it.name() == *name);
        let ways = self.domains[from].table().ways(self.name(to), self.now);
        ways.iter().map(|way| way.path.iter().filter_map(number).collect()).collect()
    }

    fn relation(&self, of: usize, to: usize) -> Relation {
        let name = self.name(to);
        let rules = self.domains[of].neighbours.iter().find(|it| it.domain == name);
        rules.expect("neighbours").relation
    }
}

/// Two providers (0, 1) that peer; 2 and 3 are customers of both.
fn square() -> World {
    let mut world = World::new(4);
    world.peers(0, 1);
    for customer in [2, 3] {
        world.customer(0, customer);
        world.customer(1, customer);
    }
    world
}

#[test]
fn a_domain_is_reached_by_each_neighbour_that_leads_there_and_preference_goes_before_cost() {
    let mut world = square();
    world.domains[2].neighbours[0].cost = 20;
    world.begin();
    world.settle();
    assert_eq!(world.ways(2, 3), [[3, 1], [3, 0]], "the cheaper one first");
    assert_eq!(world.ways(0, 3), [vec![3], vec![3, 1]], "customers go before peers");
    let mut world = square();
    world.domains[2].neighbours[0].cost = 20;
    world.domains[2].neighbours[0].preference = 101;
    world.begin();
    world.settle();
    assert_eq!(world.ways(2, 3), [[3, 0], [3, 1]], "the one that is liked better first");
}

#[test]
fn what_is_withdrawn_goes_and_what_is_told_again_comes_back() {
    let mut world = square();
    world.begin();
    world.settle();
    assert_eq!(world.ways(2, 3).len(), 2);
    let (first, third) = (world.name(0), world.name(3));
    let rules = world.domains[0].neighbours.clone();
    let mut silent = rules.clone();
    silent.iter_mut().for_each(|it| it.withhold = vec![third]);
    let own = world.name(0);
    for (rules, expected) in [(silent, 1), (rules, 2)] {
        world.domains[0].table = Some(Neighbours::new(own, &[], &rules, 64));
        world.settle();
        assert_eq!(world.ways(2, 3).len(), expected);
    }
    let table = world.domains[2].table.as_mut().unwrap();
    table.retract(first, third);
    assert_eq!(world.ways(2, 3), [[3, 1]]);
}

#[test]
fn no_domain_carries_between_its_providers_or_its_peers() {
    // 2 has the providers 0 and 1, which have nobody else in common, and the peer 3.
    let mut world = World::new(4);
    world.customer(0, 2);
    world.customer(1, 2);
    world.peers(2, 3);
    world.begin();
    world.settle();
    assert_eq!(world.ways(0, 1), Vec::<Vec<usize>>::new());
    assert_eq!(world.ways(3, 0), Vec::<Vec<usize>>::new());
    assert_eq!((world.ways(0, 2), world.ways(3, 2)), (vec![vec![2]], vec![vec![2]]));
}

#[test]
fn domains_that_are_each_others_customers_tell_each_other_of_nobody_twice() {
    let mut world = World::new(3);
    world.neighbour(0, 1, Relation::Customer);
    world.neighbour(1, 0, Relation::Customer);
    world.neighbour(1, 2, Relation::Customer);
    world.neighbour(2, 1, Relation::Provider);
    world.begin();
    world.settle();
    assert_eq!(world.ways(0, 2), [[2, 1]]);
    assert_eq!(world.ways(1, 2), [[2]], "not by who has heard of it here");
    assert_eq!(world.ways(2, 0), [[0, 1]]);
}

#[test]
fn each_thing_that_is_wrong_with_an_offer_is_refused_with_its_reason() {
    let mut world = World::new(4);
    world.customer(1, 0);
    world.customer(1, 2);
    world.begin();
    let (own, neighbour, far, other) = (world.name(0), world.name(1), world.name(2), world.name(3));
    let holder = |at: usize| &world.domains[at].holder;
    let offer = |certificates: Vec<Certificate>, of: &[usize]| Offer {
        cost: 0,
        ribs: Vec::new(),
        metadata: of.iter().map(|at| holder(*at).metadata()).collect::<Vec<Metadata>>(),
        certificates,
    };
    let good = offer(vec![holder(2).carriage(neighbour, None, 1)], &[2]);
    let mut forged = good.clone();
    forged.certificates[0].signature[5] ^= 1;
    let mut table = Neighbours::new(own, &[], &world.domains[0].neighbours, 64);
    let mut hear = |domain: Name, offer: &Offer| table.hear(neighbour, domain, offer, world.now);
    assert_eq!(hear(far, &good), Ok(()));
    assert_eq!(hear(far, &forged), Err(NotTaken::Unverified));
    assert_eq!(hear(other, &good), Err(NotTaken::Unverified), "it is another's word");
    assert_eq!(hear(own, &good), Err(NotTaken::Loop));
    let back = [holder(2).carriage(own, None, 1), holder(0).carriage(neighbour, None, 1)];
    assert_eq!(hear(far, &offer(back.to_vec(), &[2, 0])), Err(NotTaken::Loop));
    let twice = [(2, 3), (3, 2), (2, 1)];
    let twice = twice.map(|(by, to)| holder(by).carriage(world.name(to), None, 1)).to_vec();
    assert_eq!(hear(far, &offer(twice, &[2, 3])), Err(NotTaken::Loop));
    let elsewhere = offer(vec![holder(2).carriage(other, None, 1)], &[2]);
    assert_eq!(hear(far, &elsewhere), Err(NotTaken::Shape), "it does not lead to the neighbour");
    let bounded = offer(vec![holder(2).carriage(neighbour, Some(other), 1)], &[2]);
    assert_eq!(hear(far, &bounded), Err(NotTaken::OutOfBounds));
    let within = offer(vec![holder(2).carriage(neighbour, Some(neighbour), 1)], &[2]);
    assert_eq!(hear(far, &within), Ok(()), "the provider is around");
    assert_eq!(hear(far, &offer(vec![], &[])), Err(NotTaken::Shape));
    assert_eq!(table.hear(other, far, &good, world.now), Err(NotTaken::Rule), "no neighbour");
    // Six domains on the way leave no room for a name, a border and an address.
    let line: Vec<Holder> = (0..6).map(|_| Holder::of(Role::Domain)).collect();
    let next = |at: usize| line.get(at + 1).map_or(neighbour, Holder::name);
    let long = Offer {
        metadata: line.iter().map(Holder::metadata).collect(),
        certificates: (0..6).map(|at| line[at].carriage(next(at), None, 1)).collect(),
        ..good
    };
    assert_eq!(table.hear(neighbour, line[0].name(), &long, world.now), Err(NotTaken::TooFar));
}

#[test]
fn a_neighbour_fills_no_more_than_its_part_and_rules_refuse_what_they_name() {
    let mut world = World::new(7);
    world.customer(0, 1);
    for far in 2..7 {
        world.customer(1, far);
    }
    let refused = world.name(2);
    world.domains[0].neighbours[0].refuse = vec![refused];
    world.begin();
    let own = world.name(0);
    world.domains[0].table = Some(Neighbours::new(own, &[], &world.domains[0].neighbours, 3));
    let by = world.name(1);
    for _ in 0..3 {
        let told = world.domains[1].table().told_to(own, &world.domains[1].own, world.now);
        for far in 2..7 {
            // What its customers say to it.
            let told = world.domains[far].table().told_to(by, &world.domains[far].own, world.now);
            let (teller, now) = (world.name(far), world.now);
            let table = world.domains[1].table.as_mut().unwrap();
            for (domain, offer) in told {
                table.hear(teller, domain, &offer, now).unwrap();
            }
        }
        let table = world.domains[0].table.as_mut().unwrap();
        for (domain, offer) in &told {
            let taken = table.hear(by, *domain, offer, world.now);
            assert!(matches!(taken, Ok(()) | Err(NotTaken::Full | NotTaken::Rule)), "{taken:?}");
        }
        assert!(table.offered_by(by) <= 3);
    }
    let table = world.domains[0].table();
    assert_eq!(table.offered_by(by), 3);
    let not_taken: BTreeMap<_, _> = table.not_taken().collect();
    assert!(not_taken["full"] > 0 && not_taken["rule"] > 0, "{not_taken:?}");
    assert!(table.ways(refused, world.now).is_empty());
}

#[test]
fn what_is_told_follows_the_rules_word_for_word() {
    for (tell, expected) in
        [(Tell::Nothing, 0), (Tell::Own, 1), (Tell::Customers, 2), (Tell::All, 3)]
    {
        // 0 has a customer 1, a provider 2 which lets everybody know it, and tells 3.
        let mut world = World::new(4);
        world.customer(0, 1);
        world.customer(2, 0);
        world.peers(0, 3);
        let name = world.name(0);
        world.domains[2].neighbours[0].carriage =
            Some(world.domains[2].holder.carriage(name, None, 9));
        world.domains[0].neighbours[2].tell = tell;
        world.begin();
        world.settle();
        assert_eq!(world.domains[3].table().offered_by(name), expected, "{tell:?}");
    }
}

/// A small generator of numbers, so that each topology can be had again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn in_any_topology_ways_have_no_loops_and_no_valleys_and_lead_where_everybody_says() {
    for seed in 1..=12u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut world = World::new(7);
        // Lower numbers are providers of higher ones, or peers of them.
        for one in 0..7 {
            for other in one + 1..7 {
                match numbers.below(4) {
                    0 | 1 => world.customer(one, other),
                    2 => world.peers(one, other),
                    _ => {}
                }
            }
        }
        for at in 0..7 {
            for neighbour in &mut world.domains[at].neighbours {
                neighbour.cost = numbers.below(50) as u32;
            }
        }
        world.begin();
        world.settle();
        let (mut ways, mut longest) = (0, 0);
        for from in 0..7 {
            for to in (0..7).filter(|to| *to != from) {
                for way in world.ways(from, to) {
                    check(&world, from, &way);
                    (ways, longest) = (ways + 1, longest.max(way.len()));
                }
            }
        }
        assert!(ways > 12 && longest > 1, "seed {seed}: {ways} ways, the longest by {longest}");
    }
}

/// A way goes up to providers, across to one peer at most, and down to customers.
fn check(world: &World, from: usize, way: &[usize]) {
    let mut seen = vec![from];
    let mut may_climb = true;
    let mut at = from;
    for &next in way.iter().rev() {
        assert!(!seen.contains(&next), "a loop: {way:?} from {from}");
        match world.relation(at, next) {
            Relation::Provider => assert!(may_climb, "a valley: {way:?} from {from}"),
            Relation::Peer => {
                assert!(may_climb, "a valley: {way:?} from {from}");
                may_climb = false;
            }
            Relation::Customer => may_climb = false,
        }
        seen.push(next);
        at = next;
    }
    assert_eq!(Some(&at), way.first(), "it leads there");
}
