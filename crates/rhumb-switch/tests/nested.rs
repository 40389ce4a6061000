//! Trust domains within domains: what is exported is reached from everywhere, by borders; nothing
//! else leaves; and nobody outside learns anything of the inside.
//!
//! Two domains lie in a third, and in one of them lies a fourth. Each has a RIB, an
//! interior router and a border router, but for the outermost, which has a RIB alone:
//!
//! ```text
//! world ── sea ── port: interior, border
//!   │       └──── interior, border
//!   └───── land: interior, border
//! ```
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_switch::{Config, Domain, DropReason};
use rhumb_trust::{Access, Export, Identity, Membership, Rule, Standing, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::metadata::Metadata;
use rhumb_wire::nack::Reason;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Action, Certificate, Limits, Name, PduHeader, Rights, Role, Scope, Statement};

use crate::world::{Router, Stranger, World};

mod capabilities;
mod groups;

const SECOND: Duration = Duration::from_secs(1);
const LIFETIME_S: u64 = 24 * 3600;

/// A domain with its RIB and its routers.
struct Station {
    identity: Arc<Identity>,
    /// By which it is a member of the domains around it, too.
    membership: Option<Membership>,
    around: Vec<Name>,
    rib: usize,
    interior: usize,
    border: usize,
    /// A second one, if there is.
    other_border: Option<usize>,
}

struct Nest {
    world: World,
    /// That of the outermost domain.
    rib: usize,
    sea: Station,
    land: Station,
    port: Station,
}

fn says(world: &World, issuer: &Identity, statement: Statement, number: u64) -> Certificate {
    let is_domain = issuer.metadata().role == Role::Domain;
    let window = Window::starting(world.now.unix_s(), if is_domain { LIFETIME_S } else { 600 });
    issuer.certify(statement, world.now.unix_ms + number, window).unwrap()
}

fn admit(
    world: &World,
    domain: &Identity,
    by: Option<&Membership>,
    member: Name,
    rights: Rights,
) -> Membership {
    let window = Window::starting(world.now.unix_s(), LIFETIME_S);
    Membership::sign(domain, by, member, rights, world.now.unix_ms, window).unwrap()
}

/// What a RIB of a domain is told: it serves everybody, and members have room of their own.
fn rib_of(domain: Name) -> rhumb_rib::Config {
    let mut config = rhumb_rib::Config::default();
    config.domain = Some(domain);
    config.keeps_log = true;
    let members = Rule::of_domain(domain, Rights::PUBLISH, Standing::Admitted);
    config.access =
        Access { rules: vec![members], otherwise: Standing::Stranger, ..Access::default() };
    config
}

impl Station {
    fn new(
        world: &mut World,
        (number, borders): (u8, u8),
        parent: (&Identity, Option<&Self>, usize),
    ) -> Self {
        let (around_it, station, parents_rib) = parent;
        let identity = world.identity(Role::Domain);
        let all = Rights::from_bits(15).unwrap();
        let by = station.and_then(|it| it.membership.as_ref());
        let membership = admit(world, around_it, by, identity.name(), all);
        let further = station.map_or(&[][..], |it| &it.around);
        let around: Vec<Name> = [&[around_it.name()], further].concat();
        let mut config = rib_of(identity.name());
        config.parents = vec![world.remote_of(parents_rib)];
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let member = admit(world, &identity, Some(&membership), rib.name(), Rights::PUBLISH);
        let rib = Arc::new(rib.with_membership(member).unwrap());
        let rib = world.rib_of(rib, config);
        let scope = if borders > 1 { Scope::Several } else { Scope::Any };
        let mut router = |number: u8, is_border: bool| {
            let router = Identity::generate(Role::Router, 0).unwrap();
            let name = router.name();
            let rights = Rights::CARRY.and(Rights::PUBLISH);
            let member = admit(world, &identity, Some(&membership), name, rights);
            let router = Arc::new(router.with_membership(member).unwrap());
            let address = SocketAddr::from(([10, 0, 1, number], 4000));
            // Of two files the second is the newer.
            let later = u64::from(number) * 2;
            let metadata: Arc<Metadata> = identity.metadata().clone();
            let border = Statement::Route { via: name, scope };
            let outward = Scope::ByDomain { up_to: None };
            let export = Statement::Route { via: around_it.name(), scope: outward };
            let words =
                [says(world, &identity, border, later), says(world, &identity, export, later + 1)];
            let words = words.into_iter().filter(|_| is_border);
            let words = words.map(|word| (metadata.clone(), word)).collect();
            let domain = Some(Domain {
                name: identity.name(),
                around: around.clone(),
                customers: Vec::new(),
                words,
            });
            let (ribs, locator) = (vec![world.remote_of(rib)], Some(address));
            world.router_with(
                router,
                address,
                Config { ribs, locator, domain, check_rib_answers: 1, ..Config::default() },
            )
        };
        let (interior, border) = (router(3 * number, false), router(3 * number + 1, true));
        let other_border = (borders > 1).then(|| router(3 * number + 2, true));
        let membership = Some(membership);
        Self { identity, membership, around, rib, interior, border, other_border }
    }

    fn name(&self) -> Name {
        self.identity.name()
    }
}

impl Nest {
    fn new() -> Self {
        Self::with_borders(1, false)
    }

    /// Each domain has so many, of which the second may come later.
    fn with_borders(borders: u8, one_later: bool) -> Self {
        let mut world = World::new();
        world.rib = None;
        let outermost = world.identity(Role::Domain);
        let rib = world.identity(Role::Rib);
        let rib = world.rib_of(rib, rib_of(outermost.name()));
        let sea = Station::new(&mut world, (1, borders), (&outermost, None, rib));
        let land = Station::new(&mut world, (2, borders), (&outermost, None, rib));
        let port = Station::new(&mut world, (3, borders), (&sea.identity, Some(&sea), sea.rib));
        let mut nest = Self { world, rib, sea, land, port };
        nest.other_borders().for_each(|border| border.is_dead = one_later);
        nest.world.run(3 * SECOND);
        nest
    }

    fn other_borders(&mut self) -> impl Iterator<Item = &mut Router> {
        let others = [&self.sea, &self.land, &self.port].map(|it| it.other_border);
        let routers = self.world.routers.iter_mut().enumerate();
        routers.filter(move |(at, _)| others.contains(&Some(*at))).map(|(_, router)| router)
    }

    /// How many of what two nodes send each other in so many tenths of a second arrive at each.
    fn talk(&mut self, nodes: (usize, usize), times: usize) -> [usize; 2] {
        let nodes = [nodes.0, nodes.1];
        let before = nodes.map(|node| self.world.nodes[node].received.len());
        for _ in 0..times {
            self.world.send(nodes[0], nodes[1], b"on its way");
            self.world.send(nodes[1], nodes[0], b"on its way");
            self.world.run(SECOND / 10);
        }
        // What has to be sent again comes later.
        self.world.run(SECOND);
        [0, 1].map(|it| self.world.nodes[nodes[it]].received.len() - before[it])
    }

    fn node(&mut self, router: usize) -> usize {
        self.world.node(router)
    }

    /// A node that says that it is known outside, by this domain.
    fn exported(&mut self, station: fn(&Self) -> &Station, up_to: Option<Name>) -> usize {
        let (domain, at) = (station(self).name(), station(self).interior);
        let identity = self.world.identity(Role::Node);
        let export = Some(Export { domain, up_to });
        let node = self.world.node_with(identity, at, |config| config.export = export);
        self.world.run(2 * SECOND);
        assert!(self.world.nodes[node].core.is_joined());
        node
    }

    fn publish(&mut self, rib: usize, body: RibRequestBody) {
        let mut data = Vec::new();
        RibRequest { id: RequestId(1), body }.emit(&mut data);
        let mut publisher = Stranger::at(&mut self.world, rib);
        let to = self.world.remote_of(rib).name.unwrap();
        let header = PduHeader::new(Action::RibRequest, publisher.name(), to);
        publisher.send(&mut self.world, header, &data, &[]);
        self.world.run(2 * SECOND);
    }

    /// Nodes inside of the innermost domain and of the one on the other side, known everywhere.
    fn far_apart(&mut self) -> (usize, usize) {
        (self.exported(|nest| &nest.port, None), self.exported(|nest| &nest.land, None))
    }

    /// Whether what `from` sends to `to` arrives.
    fn arrives(&mut self, from: usize, to: usize) -> bool {
        let before = self.world.nodes[to].received.len();
        self.world.send(from, to, b"to whom it concerns");
        self.world.run(3 * SECOND);
        self.world.nodes[to].received.len() > before
    }

    fn dropped(&self, station: &Station, reason: DropReason) -> u64 {
        self.world.dropped(station.border, reason)
    }

    /// Names of what nobody outside of the domain around the innermost one is to know.
    fn inside(&self) -> Vec<Name> {
        let routers = [self.port.interior, self.port.border, self.sea.interior];
        let routers = routers.map(|it| self.world.routers[it].switch.name());
        let ribs = [self.port.rib, self.sea.rib].map(|it| self.world.remote_of(it).name.unwrap());
        routers.into_iter().chain(ribs).collect()
    }
}

fn contains(bytes: &[u8], name: &Name) -> bool {
    bytes.windows(Name::LEN).any(|window| window == name.0)
}

/// A node that a station's domain keeps inside, at the interior router of another one, by whose
/// domain it would be known outside.
fn kept_inside(
    nest: &mut Nest,
    station: fn(&Nest) -> &Station,
    at: fn(&Nest) -> &Station,
) -> usize {
    let node = Identity::generate(Role::Node, 0).unwrap();
    let Station { identity, membership, .. } = station(nest);
    let window = Window::starting(nest.world.now.unix_s(), LIFETIME_S);
    let limits = Limits { inside_only: true, ..Limits::NONE };
    let by = (&**identity, membership.as_ref());
    let shown = Membership::sign_within(limits, by, node.name(), Rights::JOIN, 1, window).unwrap();
    let node = Arc::new(node.with_membership(shown).unwrap());
    let export = Some(Export { domain: at(nest).name(), up_to: None });
    let router = at(nest).interior;
    let node = nest.world.node_with(node, router, |config| config.export = export);
    nest.world.run(2 * SECOND);
    assert!(nest.world.nodes[node].core.is_joined());
    node
}

#[test]
fn who_is_kept_inside_reaches_its_domain_and_nothing_around_it_from_whichever_router() {
    let mut nest = Nest::new();
    let (port, sea) = (nest.port.interior, nest.sea.interior);
    let (_, far) = nest.far_apart();
    let in_sea = nest.exported(|nest| &nest.sea, None);
    let (by_its_router, by_the_border) = (nest.node(port), nest.node(nest.port.border));
    let member = kept_inside(&mut nest, |nest| &nest.port, |nest| &nest.port);
    assert!(nest.arrives(member, by_its_router) && nest.arrives(member, by_the_border));
    assert!(!nest.arrives(member, in_sea) && !nest.arrives(member, far));
    assert!(nest.world.dropped(port, DropReason::OutOfReach) > 0);
    // Whom it may not send to may send to it, but is not answered.
    let name = nest.world.name(member);
    let pings = |nest: &mut Nest, from: usize| {
        for _ in 0..3 {
            nest.world.nodes[from].core.ping(name, 64, 36, nest.world.now).unwrap();
            nest.world.run(SECOND);
        }
        let events = std::mem::take(&mut nest.world.nodes[from].events);
        events.iter().any(|event| matches!(event, Event::Pong { .. }))
    };
    assert!(pings(&mut nest, by_the_border) && !pings(&mut nest, in_sea));
    // A router of the domain around would take its own inside for the member's.
    let member = kept_inside(&mut nest, |nest| &nest.port, |nest| &nest.sea);
    let at_sea = nest.node(sea);
    assert!(!nest.arrives(member, at_sea) && !nest.arrives(member, in_sea));
    // A member of the domain around reaches all of that from within.
    let member = kept_inside(&mut nest, |nest| &nest.sea, |nest| &nest.port);
    assert!(nest.arrives(member, by_the_border) && nest.arrives(member, in_sea));
    assert!(!nest.arrives(member, far));
}

#[test]
fn what_is_exported_is_reached_three_domains_away_and_answers() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    assert!(nest.arrives(a, b) && nest.arrives(b, a));
    // Interior routers meet nobody but those of their own domain.
    for (station, peers) in [(&nest.port, 1), (&nest.land, 1)] {
        let sessions = nest.world.routers[station.interior].switch.status(nest.world.now).sessions;
        let routers: Vec<_> = sessions.iter().filter(|it| it.role == Role::Router).collect();
        assert_eq!(routers.len(), peers, "{routers:?}");
        let border = nest.world.routers[station.border].switch.name();
        assert!(routers.iter().all(|it| it.peer == border));
    }
    // And flows get their labels as within one domain.
    nest.world.warm_up(a, b);
    let before = nest.world.counters(nest.sea.border).flows_looked_into_again;
    nest.world.warm_up(a, b);
    assert_eq!(nest.world.counters(nest.sea.border).flows_looked_into_again, before);
}

#[test]
fn what_is_not_exported_neither_leaves_nor_is_found() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    let (home, land) = (nest.node(nest.port.interior), nest.node(nest.land.interior));
    assert!(nest.arrives(a, home) && nest.arrives(home, a), "inside they are reached");
    assert!(!nest.arrives(home, b), "it may not leave");
    assert!(nest.dropped(&nest.port, DropReason::NotExported) > 0);
    assert!(!nest.arrives(b, home) && !nest.arrives(a, land), "nobody outside finds them");
}

#[test]
fn an_export_goes_no_further_than_it_says() {
    let mut nest = Nest::new();
    let sea = nest.sea.name();
    let (_, b) = nest.far_apart();
    let bounded = nest.exported(|nest| &nest.port, Some(sea));
    let neighbour = nest.node(nest.sea.interior);
    assert!(nest.arrives(bounded, neighbour), "the domain around knows it");
    assert!(nest.arrives(neighbour, bounded));
    assert!(!nest.arrives(b, bounded), "and nobody further out");
    assert!(!nest.arrives(bounded, b), "nor does it get there");
    assert!(nest.dropped(&nest.sea, DropReason::NotExported) > 0);
}

#[test]
fn a_border_that_shows_what_it_must_not_is_refused() {
    let mut nest = Nest::new();
    let (_, b) = nest.far_apart();
    let mut border = Stranger::new(&mut nest.world, nest.land.border, Role::Router);
    let via = nest.world.routers[nest.land.border].switch.name();
    let (name, domain) = (nest.world.identity(Role::Node), nest.world.identity(Role::Domain));
    let shown = |up_to, number, world: &World| {
        let scope = Scope::ByDomain { up_to };
        let by = Statement::Route { via: border.name(), scope: Scope::Any };
        let export = Statement::Route { via: domain.name(), scope };
        [says(world, &name, export, number), says(world, &domain, by, 0), border.route(via, world)]
    };
    let mut metadata = Vec::new();
    let issuers = [&name, &domain].map(|it| (**it.metadata()).clone());
    Metadata::emit_list(&issuers, &mut metadata);
    let header = PduHeader::new(Action::Advertise, name.name(), nest.world.name(b));
    let bounded = shown(Some(nest.port.name()), 0, &nest.world);
    let own = shown(Some(nest.land.name()), 1, &nest.world);
    let anywhere = shown(None, 2, &nest.world);
    border.send(&mut nest.world, header, &metadata, &bounded);
    assert_eq!(nest.dropped(&nest.land, DropReason::OutOfBounds), 1);
    assert!(!border.inbox.iter().any(|(header, _)| header.action == Action::Accept));
    // What is for where it comes to is taken.
    for chain in [own, anywhere] {
        border.inbox.clear();
        border.send(&mut nest.world, header, &metadata, &chain);
        assert!(border.inbox.iter().any(|(header, _)| header.action == Action::Accept));
    }
    assert_eq!(nest.dropped(&nest.land, DropReason::OutOfBounds), 1);
}

#[test]
fn a_domain_carries_for_nobody_but_its_own() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    assert!(nest.arrives(a, b));
    // A router of nobody's domain brings what may not pass.
    let mut foreign = Stranger::new(&mut nest.world, nest.sea.border, Role::Router);
    let via = nest.world.routers[nest.sea.border].switch.name();
    let route = foreign.route(via, &nest.world);
    let header = PduHeader::new(Action::Data, foreign.name(), nest.world.name(b));
    for _ in 0..5 {
        let certificates = std::slice::from_ref(&route);
        foreign.send(&mut nest.world, header, b"for somebody else", certificates);
        nest.world.run(SECOND);
    }
    assert!(nest.dropped(&nest.sea, DropReason::NotExported) > 0);
    assert_eq!(nest.world.nodes[b].received.len(), 1, "what a sent, and nothing else");
}

#[test]
fn nobody_outside_learns_anything_of_the_inside() {
    let mut nest = Nest::new();
    let (a, _) = nest.far_apart();
    // It hears all that leaves, opened.
    let mut outsider = Stranger::new(&mut nest.world, nest.sea.border, Role::Router);
    let to = nest.world.name(a);
    // It asks for what is exported, and pings and traces it.
    let via = nest.world.routers[nest.sea.border].switch.name();
    let route = outsider.route(via, &nest.world);
    let join = PduHeader::new(Action::Advertise, outsider.name(), via);
    outsider.send(&mut nest.world, join, &[], std::slice::from_ref(&route));
    nest.world.run(SECOND);
    for ttl in [64, 3, 2] {
        let header = PduHeader { ttl, tag: 7, ..PduHeader::new(Action::Ping, outsider.name(), to) };
        for _ in 0..8 {
            let certificates = std::slice::from_ref(&route);
            outsider.send(&mut nest.world, header, &[0; 1000], certificates);
            nest.world.run(SECOND);
            outsider.settle(&mut nest.world);
        }
    }
    let pongs = outsider.inbox.iter().filter(|(header, _)| header.action == Action::Pong).count();
    let nacks = outsider.nacks();
    assert!(pongs > 0 && nacks.contains(&Reason::TtlExceeded), "{pongs}, {nacks:?}");
    // Two of the inside find each other by the border, which then has the RIB's head, and tells
    // other routers of it.
    let inside = (nest.node(nest.sea.border), nest.node(nest.sea.interior));
    nest.talk(inside, 2);
    for _ in 0..30 {
        nest.world.run(5 * SECOND);
        outsider.keep_alive(&mut nest.world);
        outsider.settle(&mut nest.world);
    }
    let ribs = nest.world.routers[nest.sea.border].switch.status(nest.world.now).ribs;
    assert!(ribs.iter().any(|rib| rib.log_epoch.is_some()), "the border has heads to tell");
    for name in nest.inside() {
        assert!(!contains(&outsider.heard, &name), "a name of the inside");
    }
    assert!(contains(&outsider.heard, &via), "the border itself is known");
}

#[test]
fn who_leaves_is_soon_not_found_from_anywhere() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    assert!(nest.arrives(b, a));
    let now = nest.world.now;
    nest.world.nodes[a].core.leave(now);
    nest.world.run(SECOND);
    assert!(!nest.arrives(b, a));
    let unreachable = nest.world.dropped(nest.land.interior, DropReason::Unreachable);
    assert!(unreachable > 0);
}

#[test]
fn who_calls_itself_a_node_is_shown_no_more_than_a_router() {
    let mut nest = Nest::new();
    let (a, _) = nest.far_apart();
    // Nobody's role is more than its own word.
    let mut tap = Stranger::new(&mut nest.world, nest.land.border, Role::Node);
    let lure = nest.world.identity(Role::Node);
    let locator = Statement::Locator(Locator::new(tap.address).unwrap());
    let route = Statement::Route { via: tap.name(), scope: Scope::Any };
    let certificates =
        vec![says(&nest.world, &lure, route, 0), says(&nest.world, &tap.identity, locator, 0)];
    let metadata = [&lure, &tap.identity].map(|it| (**it.metadata()).clone()).to_vec();
    nest.publish(nest.rib, RibRequestBody::Publish { metadata, certificates });
    for _ in 0..8 {
        let (now, to) = (nest.world.now, lure.name());
        nest.world.nodes[a].core.send(to, 7, b"for the lure", now).unwrap();
        nest.world.run(SECOND);
        tap.settle(&mut nest.world);
    }
    assert!(contains(&tap.heard, &nest.world.name(a)), "it hears what is for it");
    for name in nest.inside() {
        assert!(!contains(&tap.heard, &name), "a name of the inside");
    }
}

#[test]
fn a_look_up_three_domains_away_asks_each_level_once_and_then_nobody() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    let asked = |nest: &Nest| {
        [nest.port.rib, nest.sea.rib].map(|it| nest.world.replicas[it].server.counters().climbs)
    };
    assert!(nest.arrives(a, b));
    // The way to the border of the domain around is asked for once, too.
    assert_eq!(asked(&nest), [2, 1]);
    let another = nest.exported(|nest| &nest.land, None);
    assert!(nest.arrives(a, another));
    assert_eq!(asked(&nest), [3, 2], "cold: one question at each level");
    let neighbour = nest.exported(|nest| &nest.port, None);
    assert!(nest.arrives(neighbour, b) && nest.arrives(neighbour, another));
    assert_eq!(asked(&nest), [3, 2], "warm: none");
}

#[test]
fn a_router_takes_exports_by_its_own_domain_alone_and_who_joined_stays() {
    let mut nest = Nest::new();
    let (identity, land) = (nest.world.identity(Role::Node), nest.land.name());
    let export = Some(Export { domain: land, up_to: None });
    let at = nest.port.interior;
    let node = nest.world.node_with(identity, at, |config| config.export = export);
    nest.world.run(2 * SECOND);
    let events = &nest.world.nodes[node].events;
    let told = Event::NotExported { reason: Reason::NotAuthorised };
    assert_eq!(events.iter().filter(|it| **it == told).count(), 1, "{events:?}");
    let neighbour = nest.node(nest.port.interior);
    assert!(nest.arrives(neighbour, node));
}

#[test]
fn an_export_is_renewed_with_the_lease_and_by_new_words_in_time() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    nest.world.run(4000 * SECOND);
    assert!(nest.arrives(a, b) && nest.arrives(b, a));
}

#[test]
fn a_border_that_dies_has_its_place_taken_by_another_one_of_its_domain() {
    let stations: [fn(&Nest) -> &Station; 3] = [|it| &it.port, |it| &it.sea, |it| &it.land];
    for dying in stations {
        let mut nest = Nest::with_borders(2, false);
        let (a, b) = nest.far_apart();
        assert!(nest.arrives(a, b) && nest.arrives(b, a));
        // By whom it goes now.
        let forwarded = |nest: &Nest, border: usize| nest.world.counters(border).forwarded_pdus;
        let of = dying(&nest);
        let (one, other) = (of.border, of.other_border.unwrap());
        let before = [one, other].map(|border| forwarded(&nest, border));
        assert!(nest.arrives(a, b) && nest.arrives(b, a));
        let after = [one, other].map(|border| forwarded(&nest, border));
        let is_one = after[0] - before[0] >= after[1] - before[1];
        nest.world.routers[if is_one { one } else { other }].is_dead = true;
        // What is sent in the first second may be lost; nobody does anything.
        nest.talk((a, b), 10);
        assert_eq!(nest.talk((a, b), 10), [10, 10], "{before:?} {after:?}");
    }
}

#[test]
fn a_border_that_comes_later_is_soon_known_to_who_goes_by_another_one() {
    let mut nest = Nest::with_borders(2, true);
    let (a, b) = nest.far_apart();
    assert_eq!(nest.talk((a, b), 10), [10, 10]);
    nest.other_borders().for_each(|border| border.is_dead = false);
    nest.talk((a, b), 30);
    // The first ones die, all at once.
    for border in [nest.sea.border, nest.land.border, nest.port.border] {
        nest.world.routers[border].is_dead = true;
    }
    nest.talk((a, b), 20);
    assert_eq!(nest.talk((a, b), 10), [10, 10]);
}
