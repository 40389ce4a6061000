//! Adding stations to a world. Addresses, keys and secrets
//! follow from the seed and the order of adding.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_switch::Remote;
use rhumb_trust::Identity;
use rhumb_wire::Role;

use crate::link::link_config;
use crate::random::Random;
use crate::rib::Disk;
use crate::router::VERIFIER_TIME;
use crate::station::{Plan, Station, StationId};
use crate::world::START_S;
use crate::{World, key};

impl World {
    /// A RIB. Routers added later use it.
    pub fn add_rib(&mut self) -> StationId {
        self.add_rib_with(|_| ())
    }

    /// A RIB whose configuration is changed by `adjust`.
    pub fn add_rib_with(&mut self, adjust: impl FnOnce(&mut rhumb_rib::Config)) -> StationId {
        let mut config = Box::<rhumb_rib::Config>::default();
        adjust(&mut config);
        self.add(Role::Rib, Plan::Rib { disk: Disk::default(), config, lies: false })
    }

    /// A RIB that can be told to lie, by [`crate::Fault::SetLie`].
    pub fn add_lying_rib(&mut self) -> StationId {
        let config = Box::default();
        self.add(Role::Rib, Plan::Rib { disk: Disk::default(), config, lies: true })
    }

    /// A RIB of somebody's own key, which may show a membership, on a disk that may hold something.
    pub fn add_rib_as(
        &mut self,
        identity: Arc<Identity>,
        config: rhumb_rib::Config,
        disk: Disk,
    ) -> StationId {
        let plan = Plan::Rib { disk, config: Box::new(config), lies: false };
        self.add_identity(identity, Role::Rib, plan)
    }

    /// A router of somebody's own key, which publishes its address, and is told of no RIB but in
    /// `adjust`.
    pub fn add_router_as(
        &mut self,
        identity: Arc<Identity>,
        adjust: impl FnOnce(&mut rhumb_switch::Config),
    ) -> StationId {
        let locator = Some(self.next_address(Role::Router));
        let mut config = rhumb_switch::Config {
            link: link_config(),
            locator,
            ..rhumb_switch::Config::default()
        };
        adjust(&mut config);
        let plan = Plan::Router { config, verifier_time: VERIFIER_TIME };
        self.add_identity(identity, Role::Router, plan)
    }

    /// A router. Without an upstream it publishes its address, with one it is reached through that.
    pub fn add_router(&mut self, upstream: Option<StationId>) -> StationId {
        self.add_router_with(upstream, |_| ())
    }

    /// A router whose configuration is changed by `adjust`.
    pub fn add_router_with(
        &mut self,
        upstream: Option<StationId>,
        adjust: impl FnOnce(&mut rhumb_switch::Config),
    ) -> StationId {
        let is_rib = |id: &StationId| matches!(self.stations[id.0].plan, Plan::Rib { .. });
        let ribs = self.ids().filter(is_rib).map(|rib| self.remote(rib)).collect();
        let mut config = rhumb_switch::Config {
            link: link_config(),
            ribs,
            upstreams: upstream.map(|router| self.remote(router)).into_iter().collect(),
            locator: upstream.is_none().then(|| self.next_address(Role::Router)),
            ..rhumb_switch::Config::default()
        };
        adjust(&mut config);
        self.add(Role::Router, Plan::Router { config, verifier_time: VERIFIER_TIME })
    }

    /// A router that is reached through any of several others, the first of which it prefers.
    pub fn add_router_behind(&mut self, upstreams: &[StationId]) -> StationId {
        let remotes = upstreams.iter().map(|&router| self.remote(router)).collect();
        self.add_router_with(upstreams.first().copied(), |config| config.upstreams = remotes)
    }

    /// A line of routers: the middle one publishes its address, the others
    /// are reached through their inner neighbours.
    pub fn add_line(&mut self, len: usize) -> Vec<StationId> {
        let middle = self.add_router(None);
        let mut line = vec![middle];
        let before = len / 2;
        for _ in 0..before {
            line.insert(0, self.add_router(Some(line[0])));
        }
        for _ in before + 1..len {
            line.push(self.add_router(line.last().copied()));
        }
        line
    }

    /// A node at a router.
    pub fn add_node(&mut self, router: StationId) -> StationId {
        self.add_node_with(router, |_| ())
    }

    /// A node whose configuration is changed by `adjust`.
    pub fn add_node_with(
        &mut self,
        router: StationId,
        adjust: impl FnOnce(&mut rhumb_node::Config),
    ) -> StationId {
        let config = self.node_config(router, adjust);
        self.add(Role::Node, Plan::Node { config })
    }

    /// As [`World::add_node_with`], of somebody's own key, which may show a membership.
    pub fn add_node_as(
        &mut self,
        identity: Arc<Identity>,
        router: StationId,
        adjust: impl FnOnce(&mut rhumb_node::Config),
    ) -> StationId {
        let config = self.node_config(router, adjust);
        self.add_identity(identity, Role::Node, Plan::Node { config })
    }

    /// Puts routers on the local network of a node: they
    /// hear what it asks there. Before, nobody does.
    pub fn put_nearby(&mut self, node: StationId, routers: &[StationId]) {
        self.nearby.insert(node, routers.to_vec());
    }

    /// A second node of the same name, at another router.
    pub fn add_double(&mut self, node: StationId, router: StationId) -> StationId {
        let config = self.node_config(router, |_| ());
        let identity = self.stations[node.0].identity.clone();
        self.add_identity(identity, Role::Node, Plan::Node { config })
    }

    /// As [`World::add_outsider`], of somebody's own key, which may show a membership.
    pub fn add_outsider_as(&mut self, identity: Arc<Identity>) -> StationId {
        let role = identity.metadata().role;
        self.add_identity(identity, role, Plan::Outsider)
    }

    /// Somebody with a key of its own who follows a script.
    pub fn add_outsider(&mut self, role: Role) -> StationId {
        self.add(role, Plan::Outsider)
    }

    pub(crate) fn node_config(
        &self,
        router: StationId,
        adjust: impl FnOnce(&mut rhumb_node::Config),
    ) -> rhumb_node::Config {
        let Remote { address, name } = self.remote(router);
        let mut config = rhumb_node::Config::new(rhumb_node::Remote { address, name });
        config.repeatable_handshakes = true;
        adjust(&mut config);
        config
    }

    /// An address that nobody has.
    pub(crate) fn next_address(&self, role: Role) -> SocketAddr {
        let net = match role {
            Role::Rib => 0,
            Role::Router => 1,
            Role::Node => 2,
            _ => 3,
        };
        let [.., high, low] = (self.stations.len() as u32 + 1).to_be_bytes();
        SocketAddr::from(([10, net, high, low], 4000))
    }

    fn add(&mut self, role: Role, plan: Plan) -> StationId {
        let mut random = self.random.fork(KEYS ^ self.stations.len() as u64);
        let identity = Arc::new(key::identity(role, START_S, &mut random));
        self.add_identity(identity, role, plan)
    }

    fn add_identity(&mut self, identity: Arc<Identity>, role: Role, plan: Plan) -> StationId {
        let id = StationId(self.stations.len());
        let address = self.next_address(role);
        let secrets: Random = self.random.fork(SECRETS ^ id.0 as u64);
        self.witness.keep_secret(id, identity.name(), identity.metadata());
        self.stations.push(Station::new(identity, address, plan, secrets));
        self.received.push(Vec::new());
        self.told.push(Vec::new());
        self.over.push(false);
        self.network.settle(id, address);
        self.start(id);
        id
    }

    pub(crate) fn start(&mut self, id: StationId) {
        let now = self.clock_of(id);
        self.over[id.0] = false;
        self.stations[id.0].start(now).expect("a generated key serves for secure links");
        self.wake(id, self.now + Duration::from_micros(1));
    }

    /// How others are told of a station.
    pub fn remote(&self, station: StationId) -> Remote {
        Remote { address: self.address(station), name: Some(self.name(station)) }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = StationId> + use<> {
        (0..self.stations.len()).map(StationId)
    }
}

/// The sources of keys and of secrets.
const KEYS: u64 = 2 << 32;
const SECRETS: u64 = 3 << 32;
