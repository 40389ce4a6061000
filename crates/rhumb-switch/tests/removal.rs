//! A domain takes back what made a name its member: within a second, at every router that judges by
//! its memberships, whatever one of the RIBs does, and over a restart without any RIB.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::sync::Arc;
use std::time::Duration;

use rhumb_switch::{Config, SavedRoutes, SessionStatus};
use rhumb_trust::{
    Access, Identity, MAX_MEMBERSHIP_LIFETIME_S, Membership, Removal, Rule, Standing, Window,
};
use rhumb_wire::rib::{
    Mark, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId,
};
use rhumb_wire::{Action, Name, PduHeader, Rights, Role};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

/// A domain with two RIBs and two routers, which take its members; others as `otherwise` says.
struct Scene {
    world: World,
    domain: Identity,
    ribs: [usize; 2],
    config: Config,
}

fn scene(otherwise: Standing) -> Scene {
    let mut world = World::new();
    world.rib = None;
    let domain = Identity::generate(Role::Domain, 0).unwrap();
    let rule = |rights| Rule::of_domain(domain.name(), rights, Standing::Admitted);
    let ribs = [1, 2].map(|number| {
        let mut config = rhumb_rib::Config::default();
        config.store = StoreId([number; 16]);
        config.domain = Some(domain.name());
        config.access = Access { rules: vec![rule(Rights::PUBLISH)], ..Access::default() };
        let identity = world.identity(Role::Rib);
        world.rib_of(identity, config)
    });
    let mut config = world.config.clone();
    config.ribs = ribs.map(|rib| world.remote_of(rib)).to_vec();
    let access = Access { rules: vec![rule(Rights::JOIN)], otherwise, ..Access::default() };
    // That of one router is a copy of the other's.
    config.access = access;
    for number in 0..2 {
        let config = Config { locator: Some(router_address(number)), ..config.clone() };
        let identity = world.identity(Role::Router);
        world.router_with(identity, router_address(number), config);
    }
    world.run(2 * SECOND);
    Scene { world, domain, ribs, config }
}

fn window(world: &World) -> Window {
    Window::starting(world.now.unix_s(), MAX_MEMBERSHIP_LIFETIME_S)
}

impl Scene {
    fn admit(&self, member: Name) -> Membership {
        let (now, window) = (self.world.now.unix_ms, window(&self.world));
        Membership::sign(&self.domain, None, member, Rights::JOIN, now, window).unwrap()
    }

    /// A node that is a member, at a router.
    fn member(&mut self, router: usize) -> usize {
        let node = Identity::generate(Role::Node, 0).unwrap();
        let membership = self.admit(node.name());
        let node = self.world.node_of(Arc::new(node.with_membership(membership).unwrap()), router);
        self.world.run(2 * SECOND);
        assert!(self.world.nodes[node].core.is_joined());
        node
    }

    /// Has the domain remove a node, at one of its RIBs.
    fn remove(&mut self, node: usize, rib: usize) {
        let (name, now) = (self.world.name(node), self.world.now.unix_ms);
        let removal = Removal::sign(&self.domain, None, name, now, window(&self.world)).unwrap();
        let (metadata, certificates) = removal.lists();
        let body = RibRequestBody::Publish { metadata, certificates };
        assert_eq!(self.ask(rib, body), RibResponseBody::Stored);
    }

    fn ask(&mut self, rib: usize, body: RibRequestBody) -> RibResponseBody {
        let mut operator = Stranger::at(&mut self.world, rib);
        let mut data = Vec::new();
        RibRequest { id: RequestId(9), body }.emit(&mut data);
        let to = self.world.replicas[rib].name;
        let header = PduHeader::new(Action::RibRequest, operator.name(), to);
        operator.send(&mut self.world, header, &data, &[]);
        let (_, answer) = operator.inbox.pop().unwrap();
        RibResponse::parse(&answer).unwrap().body
    }

    fn session(&self, router: usize, node: usize) -> Option<SessionStatus> {
        let name = self.world.name(node);
        let status = self.world.routers[router].switch.status(self.world.now);
        status.sessions.into_iter().find(|session| session.peer == name)
    }

    fn restart(&mut self, router: usize, state: Option<Vec<u8>>, config: Config) {
        let identity = self.world.routers[router].identity.clone();
        drop(self.world.routers.remove(router));
        self.world.router_with(identity, router_address(router), config);
        let mut restarted = self.world.routers.pop().unwrap();
        if let Some(state) = state {
            let state = SavedRoutes::parse(&state).unwrap();
            restarted.switch.import_routes(state, self.world.now);
        }
        self.world.routers.insert(router, restarted);
    }
}

#[test]
fn members_that_are_removed_are_out_at_every_router_within_a_second_and_say_why() {
    let mut scene = scene(Standing::Refused);
    let nodes = [scene.member(0), scene.member(1)];
    let other = scene.member(0);
    scene.world.send(nodes[0], other, b"while it lasts");
    scene.world.run(SECOND);
    assert_eq!(scene.world.nodes[other].received.len(), 1);
    for node in nodes {
        scene.remove(node, scene.ribs[0]);
    }
    scene.world.run(SECOND);
    for (router, node) in nodes.into_iter().enumerate() {
        assert!(scene.session(router, node).is_none_or(|it| it.standing == "refused"));
        let status = scene.world.routers[router].switch.status(scene.world.now);
        assert_eq!((status.removals, status.counters.removals_heard), (2, 2));
        assert_eq!(status.counters.members_removed, 1);
        let refused = status.refused.iter().find(|it| it.name == scene.world.name(node)).unwrap();
        let why = refused.missing.clone().unwrap();
        assert!(why.contains("was removed from") && why.contains("by that domain"), "{why}");
    }
    scene.world.run(5 * SECOND);
    assert!(nodes.iter().all(|node| !scene.world.nodes[*node].core.is_joined()));
    assert!(scene.world.nodes[other].core.is_joined(), "it was not removed");
    assert_eq!(scene.world.nodes[other].received.len(), 1);
}

#[test]
fn where_strangers_are_let_in_who_was_removed_is_one() {
    let mut scene = scene(Standing::Stranger);
    let node = scene.member(0);
    assert_eq!(scene.session(0, node).unwrap().standing, "admitted");
    scene.remove(node, scene.ribs[1]);
    scene.world.run(SECOND);
    assert!(scene.session(0, node).is_none_or(|it| it.standing == "stranger"));
    scene.world.run(20 * SECOND);
    let session = scene.session(0, node).unwrap();
    assert_eq!(session.standing, "stranger");
    let domain = scene.domain.name();
    assert_eq!(session.membership.unwrap().removed_by, Some(domain));
    assert!(session.missing.unwrap().contains("was removed from"));
    assert!(scene.world.nodes[node].core.is_joined());
}

#[test]
fn a_rib_that_withholds_a_removal_keeps_it_from_nobody_who_has_another() {
    let mut scene = scene(Standing::Refused);
    let node = scene.member(0);
    // The first, which answers soonest and is asked for routes, is never told.
    scene.remove(node, scene.ribs[1]);
    scene.world.run(SECOND);
    assert!(scene.session(0, node).is_none_or(|it| it.standing == "refused"));
    let asked = RibRequestBody::Removals(Mark::default());
    let RibResponseBody::Removals { removals, .. } = scene.ask(scene.ribs[0], asked) else {
        panic!("no removals")
    };
    assert!(removals.is_empty());
}

#[test]
fn one_that_was_away_hears_of_it_when_it_comes_back_and_one_that_restarts_knows_it() {
    let mut scene = scene(Standing::Refused);
    let node = scene.member(0);
    scene.remove(node, scene.ribs[0]);
    scene.world.run(SECOND);
    let (name, now) = (scene.world.name(node), scene.world.now);
    let state = scene.world.routers[0].switch.export_routes(now).encode();
    let config = Config { locator: Some(router_address(0)), ..scene.config.clone() };
    let without_ribs = Config { ribs: Vec::new(), ..config.clone() };
    // Without its file and without RIBs it knows nothing of it: the attack.
    scene.restart(0, None, without_ribs.clone());
    scene.world.run(30 * SECOND);
    assert!(scene.session(0, node).is_some_and(|it| it.standing == "admitted"));
    scene.restart(0, Some(state), without_ribs);
    assert_eq!(scene.world.routers[0].switch.status(now).removals, 1);
    scene.world.run(60 * SECOND);
    assert!(scene.session(0, node).is_none_or(|it| it.standing == "refused"));
    let status = scene.world.routers[0].switch.status(scene.world.now);
    assert!(status.refused.iter().any(|it| it.name == name));
    // Without its file, but with RIBs, it is told.
    scene.restart(0, None, config);
    scene.world.run(60 * SECOND);
    assert!(scene.session(0, node).is_none_or(|it| it.standing == "refused"));
    assert_eq!(scene.world.routers[0].switch.status(scene.world.now).removals, 1);
}

#[test]
fn new_rules_do_not_let_in_who_was_removed() {
    let mut scene = scene(Standing::Refused);
    let node = scene.member(0);
    scene.remove(node, scene.ribs[0]);
    scene.world.run(SECOND);
    let (now, access) = (scene.world.now, scene.config.access.clone());
    assert!(access.removals.is_empty(), "a copy of the configuration is not the router's own");
    scene.world.routers[0].switch.set_access(access, now);
    scene.world.run(60 * SECOND);
    assert!(scene.session(0, node).is_none_or(|it| it.standing == "refused"));
}

#[test]
fn a_rule_about_another_domain_counts_with_who_was_removed_from_that_before() {
    let mut scene = scene(Standing::Stranger);
    let node = scene.member(0);
    let (now, with_rule) = (scene.world.now, scene.config.access.clone());
    let other = Identity::generate(Role::Domain, 0).unwrap();
    let of_other = Rule::of_domain(other.name(), Rights::JOIN, Standing::Admitted);
    let without = Access { rules: vec![of_other], ..Access::default() };
    scene.world.routers[0].switch.set_access(without, now);
    scene.remove(node, scene.ribs[0]);
    scene.world.run(5 * SECOND);
    assert_eq!(
        scene.world.routers[0].switch.status(scene.world.now).removals,
        0,
        "it is nothing here"
    );
    let now = scene.world.now;
    scene.world.routers[0].switch.set_access(with_rule, now);
    scene.world.run(SECOND);
    assert_eq!(scene.world.routers[0].switch.status(scene.world.now).removals, 1);
    assert!(scene.session(0, node).is_none_or(|it| it.standing == "stranger"));
}

#[test]
fn a_removal_by_another_domain_shuts_out_nobody_of_this_one() {
    let mut scene = scene(Standing::Refused);
    let node = scene.member(0);
    let (name, now) = (scene.world.name(node), scene.world.now);
    // A RIB that is of another domain, too, which removes whom it never admitted.
    let other = Identity::generate(Role::Domain, 0).unwrap();
    let by_other = Removal::sign(&other, None, name, now.unix_ms, window(&scene.world)).unwrap();
    let liar = &mut scene.world.replicas[scene.ribs[0]].server;
    let rule = Rule::of_domain(other.name(), Rights::PUBLISH, Standing::Admitted);
    liar.set_access(Access { rules: vec![rule], ..Access::default() }, now);
    let (metadata, certificates) = by_other.lists();
    let body = RibRequestBody::Publish { metadata, certificates };
    assert_eq!(scene.ask(scene.ribs[0], body), RibResponseBody::Stored);
    scene.world.run(70 * SECOND);
    assert_eq!(scene.session(0, node).unwrap().standing, "admitted");
    assert_eq!(scene.world.routers[0].switch.status(scene.world.now).removals, 0);
}

#[test]
fn a_rib_that_forges_removals_shuts_out_nobody_and_delays_none_of_anothers() {
    let mut scene = scene(Standing::Refused);
    let (domain, world) = (scene.domain.name(), &mut scene.world);
    let (node, router) = (Identity::generate(Role::Node, 0).unwrap(), world.identity(Role::Router));
    let (name, now) = (node.name(), world.now);
    let membership = {
        let window = window(world);
        Membership::sign(&scene.domain, None, name, Rights::JOIN, now.unix_ms, window).unwrap()
    };
    // It says that the domain removed the node, with a signature that is not the domain's; and goes
    // on from the same mark for ever.
    let genuine = Removal::sign(&scene.domain, None, name, now.unix_ms, window(world)).unwrap();
    let (metadata, mut certificates) = genuine.lists();
    certificates[0].signature[7] ^= 1;
    let forged = vec![(metadata, certificates)];
    let lie = move |asked: &RibRequestBody, truth| match asked {
        RibRequestBody::Removals(since) => {
            Some(RibResponseBody::Removals { to: *since, removals: forged.clone() })
        }
        _ => Some(truth),
    };
    let liar = world.liar(Box::new(lie));
    let remote = rhumb_switch::Remote {
        address: world.liars[liar].address(),
        name: Some(world.liars[liar].identity.name()),
    };
    let mut config = Config { locator: Some(router_address(7)), ..scene.config.clone() };
    config.ribs.insert(0, remote);
    let third = world.router_with(router, router_address(7), config);
    let node = world.node_of(Arc::new(node.with_membership(membership).unwrap()), third);
    world.run(10 * SECOND);
    assert_eq!(scene.session(third, node).unwrap().standing, "admitted");
    let status = scene.world.routers[third].switch.status(scene.world.now);
    assert_eq!((status.removals, status.counters.removals_heard), (0, 0));
    assert!(status.counters.rib_answers_refused > 0);
    // Nor does it ask so much more for that.
    assert!(scene.world.liars[liar].asked < 50, "{} questions", scene.world.liars[liar].asked);
    // What an honest one tells is in force at once.
    scene.remove(node, scene.ribs[1]);
    scene.world.run(SECOND);
    assert!(scene.session(third, node).is_none_or(|it| it.standing == "refused"));
    let status = scene.world.routers[third].switch.status(scene.world.now);
    assert!(
        status
            .refused
            .iter()
            .any(|it| { it.missing.as_ref().is_some_and(|why| why.contains(&domain.to_string())) })
    );
}
