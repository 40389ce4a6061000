//! A client at one router, and servers that answer for one name, each at a router of its own: for
//! tests, and for what is measured (`benches/domains/anycast.rs`).
#![allow(dead_code, reason = "tests and bench each take a part of it")]

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_wire::{Name, Role};

/// How far the router of each server is from the client's.
pub(crate) const DELAYS_MS: [u32; 3] = [5, 20, 40];
/// Between two messages of the client.
const STEP: Duration = Duration::from_millis(10);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const WEEK_S: u64 = 7 * 86_400;

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) routers: Vec<StationId>,
    /// The nearest first.
    pub(crate) servers: Vec<StationId>,
    owner: StationId,
    client: StationId,
    sent: Vec<u64>,
    /// Messages for which the client had no room.
    refused: usize,
}

impl Scene {
    /// Three servers, at routers that are [`DELAYS_MS`] away by links that are otherwise as `links`
    /// says. The farthest serves first, so that the nearest is not the first that is known.
    pub(crate) fn new(seed: u64, links: Conditions) -> Self {
        let mut world = World::new(seed, links);
        world.add_rib();
        let near = world.add_router(None);
        let routers: Vec<StationId> = DELAYS_MS.iter().map(|_| world.add_router(None)).collect();
        for (router, delay) in routers.iter().zip(DELAYS_MS) {
            let far = Conditions { delay: delay * MS, ..links };
            world.apply(&Fault::SetLink(near, *router, far));
        }
        let mut scene = Self::at(world, near, &routers);
        for server in (0..scene.servers.len()).rev() {
            scene.serve(server);
        }
        scene
    }

    /// A client at `near` and a server at each of `routers`, joined; nobody serves yet.
    pub(crate) fn at(mut world: World, near: StationId, routers: &[StationId]) -> Self {
        let owner = world.add_outsider(Role::Capsule);
        let client = world.add_node(near);
        let servers: Vec<StationId> = routers.iter().map(|it| world.add_node(*it)).collect();
        let nodes = [&[client], &servers[..]].concat();
        let all = |world: &World| nodes.iter().all(|node| world.is_published(*node));
        assert!(world.run_until(60 * SECOND, all), "{}", world.history());
        let routers = routers.to_vec();
        Self { world, routers, servers, owner, client, sent: Vec::new(), refused: 0 }
    }

    fn name(&self) -> Name {
        self.world.name(self.owner)
    }

    /// Lets a server answer, beside the others.
    pub(crate) fn serve(&mut self, server: usize) {
        let (server, name) = (self.servers[server], self.name());
        assert!(self.world.let_serve_beside(self.owner, server, WEEK_S));
        let serves = |world: &World| world.is_serving(server, name);
        assert!(self.world.run_until(30 * SECOND, serves), "{}", self.world.history());
    }

    /// The client sends a message every 10 ms, and what is under way arrives. How many each server
    /// got meanwhile.
    pub(crate) fn talk(&mut self, duration: Duration) -> Vec<usize> {
        let before = self.received();
        let (end, name) = (self.world.now() + duration, self.name());
        while self.world.now() < end {
            match self.world.send_to_name(self.client, name, 100) {
                Ok(sent) => self.sent.push(sent),
                Err(_) => self.refused += 1,
            }
            self.world.run(STEP);
        }
        self.world.run(100 * MS);
        self.received().iter().zip(before).map(|(now, before)| now - before).collect()
    }

    fn received(&self) -> Vec<usize> {
        self.servers.iter().map(|server| self.world.received(*server).len()).collect()
    }

    /// The longest time after `since` in which nothing arrived at any server.
    pub(crate) fn longest_silence(&self, since: Duration) -> Duration {
        let arrived = self.servers.iter().flat_map(|server| self.world.received(*server));
        let mut times: Vec<Duration> = arrived.map(|it| it.at).filter(|at| *at > since).collect();
        times.extend([since, self.world.now()]);
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// Messages that did not arrive, since it was last said.
    pub(crate) fn missing(&mut self) -> usize {
        let is_missing = |number: &u64| self.world.message(*number).delivered_at.is_none();
        let sent = std::mem::take(&mut self.sent);
        std::mem::take(&mut self.refused) + sent.into_iter().filter(is_missing).count()
    }
}
