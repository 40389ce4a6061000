//! A domain removes a key that it admitted to admit others, at one of its two RIBs, while 1,000
//! routers judge by its memberships, and nodes that this key admitted are at twenty of them.
//!
//! What is measured is from when the order leaves the operator until a router judges by it, and
//! until the last node's session has ended. Routers and RIBs are production cores; handshakes,
//! questions, changes and acknowledgements go over links that lose one datagram in a hundred.
//! Computing takes no virtual time but for routers' verifiers.

use std::time::Duration;

use rhumb_sim::{Conditions, StationId, World};
use rhumb_switch::{Event, Switch};
use rhumb_trust::{Access, Identity, Removal, Rule, Standing, Window};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Action, PduHeader, Rights, Role};
use serde_json::json;

use crate::figures::Figures;
use crate::nest::{admit, member};

pub(crate) fn measure(figures: &mut Figures) {
    let mut scene = Scene::new();
    let sent_at = scene.remove();
    let mut heard: Vec<Option<Duration>> = vec![None; ROUTERS];
    let mut ended = None;
    while scene.world.now() < sent_at + GIVEN_UP_AFTER {
        scene.world.run(STEP);
        let now = scene.world.now() - sent_at;
        for (router, at) in scene.routers.iter().zip(&mut heard) {
            if at.is_none() && scene.revision(*router) > 0 {
                *at = Some(now);
            }
        }
        if ended.is_none() && scene.are_nodes_out() {
            ended = Some(now);
        }
        if ended.is_some() && heard.iter().all(Option::is_some) {
            break;
        }
    }
    let mut took: Vec<f64> = heard.into_iter().map(|at| ms(at.unwrap_or(GIVEN_UP_AFTER))).collect();
    took.sort_by(f64::total_cmp);
    let last = took[ROUTERS - 1];
    let half = "half of the routers judge by it";
    figures.add("removal_in_force_half", half, took[ROUTERS / 2], "ms");
    let most = "99 in 100 of the routers judge by it";
    figures.add("removal_in_force_99_percent", most, took[ROUTERS * 99 / 100], "ms");
    let (all, second) = ("all routers judge by it", (1000.0, "at 1,000 routers within a second"));
    figures.hold("removal_in_force_all", all, (last, "ms"), second);
    let (what, ended) = ("the last session that rests on it", ms(ended.unwrap_or(GIVEN_UP_AFTER)));
    let bound = (1000.0, "what rests on it has ended");
    figures.hold("removed_sessions_ended", what, (ended, "ms"), bound);
    figures.condition(
        "removal",
        json!({
            "routers": ROUTERS,
            "ribs": 2,
            "ribs_told": 1,
            "one_way_ms": ms(LINKS.delay),
            "jitter_ms": ms(LINKS.jitter),
            "loss": LINKS.loss,
            "events": scene.world.totals().events,
        }),
    );
}

struct Scene {
    world: World,
    domain: Identity,
    site: Identity,
    ribs: [StationId; 2],
    operator: StationId,
    routers: Vec<StationId>,
    nodes: usize,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new(16, LINKS);
        world.expect_at_most(u64::MAX);
        let [domain, site] = [0, 1].map(|_| Identity::generate(Role::Domain, 0).expect("a key"));
        let name = domain.name();
        let rule = |rights| Rule::of_domain(name, rights, Standing::Admitted);
        let ribs = [0, 1].map(|_| {
            world.add_rib_with(|config| {
                config.domain = Some(name);
                config.access = Access { rules: vec![rule(Rights::PUBLISH)], ..Access::default() };
            })
        });
        let own = admit(&domain, None, site.name(), Rights::JOIN.and(Rights::ADMIT));
        let mut routers = Vec::with_capacity(ROUTERS);
        while routers.len() < ROUTERS {
            for _ in 0..AT_ONCE {
                let router = member((&domain, None), Role::Router, Rights::PUBLISH);
                let remotes = ribs.map(|rib| world.remote(rib)).to_vec();
                routers.push(world.add_router_as(router, |config| {
                    config.ribs = remotes;
                    config.access = Access { rules: vec![rule(Rights::JOIN)], ..Access::default() };
                    // Few names are here.
                    config.max_flows = 64;
                    config.max_grants = 64;
                    config.max_routes = 64;
                    config.max_publications = 64;
                }));
            }
            world.run(BETWEEN);
        }
        let mut nodes = 0;
        for router in routers.iter().step_by(ROUTERS / NODES) {
            let node = member((&site, Some(&own)), Role::Node, Rights::JOIN);
            world.add_node_as(node, *router, |_| ());
            nodes += 1;
        }
        let operator = world.add_outsider(Role::Node);
        let (rib, address) = (world.name(ribs[0]), world.address(ribs[0]));
        world.with_outsider(operator, |operator, now| operator.connect(address, Some(rib), now));
        world.run(SETTLING);
        let scene = Self { world, domain, site, ribs, operator, routers, nodes };
        let admitted = scene.routers.iter().filter(|router| scene.has_member(**router)).count();
        assert_eq!(admitted, nodes, "each node is at its router, as a member");
        scene
    }

    /// Sends the order; returns when.
    fn remove(&mut self) -> Duration {
        let now = self.world.clock_of(self.operator);
        let window = Window::starting(now.unix_s(), LIFETIME_S);
        let removed = self.site.name();
        let removal = Removal::sign(&self.domain, None, removed, now.unix_ms, window);
        let (metadata, certificates) = removal.expect("a domain's own word").lists();
        let mut data = Vec::new();
        let body = RibRequestBody::Publish { metadata, certificates };
        RibRequest { id: RequestId(1), body }.emit(&mut data);
        let rib = self.world.name(self.ribs[0]);
        let sent = self.world.with_outsider(self.operator, |operator, now| {
            let session = operator.session_with(&rib).expect("a session");
            let header = PduHeader::new(Action::RibRequest, operator.name(), rib);
            operator.send(session, header, &data, &[], now)
        });
        assert_eq!(sent, Some(true));
        self.world.now()
    }

    fn revision(&self, router: StationId) -> u64 {
        self.world.switch(router).map_or(0, Switch::removals_revision)
    }

    fn has_member(&self, router: StationId) -> bool {
        let now = self.world.clock_of(router);
        let Some(switch) = self.world.switch(router) else { return false };
        let sessions = switch.status(now).sessions;
        sessions.iter().any(|it| it.role == Role::Node && it.standing == "admitted")
    }

    fn are_nodes_out(&self) -> bool {
        let is_out = |router: &&StationId| {
            let events = self.world.router_events(**router);
            events.iter().any(|event| matches!(event, Event::Removed { .. }))
        };
        self.routers.iter().filter(is_out).count() == self.nodes
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const ROUTERS: usize = 1000;
const NODES: usize = 20;
/// Routers that start at the same time, and how long until the next do.
const AT_ONCE: usize = 50;
const BETWEEN: Duration = Duration::from_millis(500);
/// A wide-area network of medium size, not at its best.
const LINKS: Conditions = Conditions {
    loss: 0.01,
    delay: Duration::from_millis(20),
    jitter: Duration::from_millis(10),
    spares_handshakes: true,
    ..Conditions::LAN
};
const SETTLING: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(1);
const GIVEN_UP_AFTER: Duration = Duration::from_secs(90);
const LIFETIME_S: u64 = 30 * 24 * 3600;
