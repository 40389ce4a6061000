//! Three servers answer for a name, the nearest dies without a word, or its router does: for how
//! long nobody answers.
//!
//! A client sends every 10 ms, in worlds of different seeds; what is measured is the longest time
//! after the death in which nothing arrived at any server. Routers are 5, 20 and 40 ms away, and
//! links lose one datagram in a hundred.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_wire::Role;
use serde_json::json;

use crate::figures::Figures;

pub(crate) fn measure(figures: &mut Figures) {
    let mut silences: Vec<f64> = Vec::new();
    let (mut nearest, mut all) = (0, 0);
    for seed in 0..WORLDS {
        let mut scene = Scene::new(seed);
        scene.talk(3 * SECOND);
        let before = scene.received();
        scene.talk(SECOND);
        let after = scene.received();
        nearest += after[0] - before[0];
        all += after.iter().zip(&before).map(|(after, before)| after - before).sum::<usize>();
        let dies = if seed % 2 == 0 { scene.servers[0] } else { scene.routers[0] };
        silences.push(scene.silence_after(dies));
    }
    silences.sort_by(f64::total_cmp);
    let at = |share: usize| silences[silences.len() * share / 100];
    figures.add("anycast_failover_half", "nobody answered for no longer, in half", at(50), "ms");
    let bound = (1000.0, "another one answers within a second");
    figures.hold("anycast_failover_p99", "in 99 of 100", (at(99), "ms"), bound);
    let share = nearest as f64 / f64::from(u32::try_from(all).unwrap_or(u32::MAX)) * 100.0;
    figures.add("anycast_nearest", "of what arrived in peace, at the nearest", share, "percent");
    figures.condition(
        "anycast",
        json!({ "worlds": WORLDS, "servers": DELAYS_MS.len(), "one_way_ms": DELAYS_MS, "loss": LOSS }),
    );
}

struct Scene {
    world: World,
    owner: StationId,
    client: StationId,
    routers: Vec<StationId>,
    servers: Vec<StationId>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let lan = Conditions { loss: LOSS, ..Conditions::LAN };
        let mut world = World::new(seed, lan);
        world.add_rib();
        let near = world.add_router(None);
        let routers: Vec<StationId> = DELAYS_MS.iter().map(|_| world.add_router(None)).collect();
        for (router, delay) in routers.iter().zip(DELAYS_MS) {
            let delay = Duration::from_millis(delay);
            world.apply(&Fault::SetLink(near, *router, Conditions { delay, ..lan }));
        }
        let owner = world.add_outsider(Role::Capsule);
        let client = world.add_node(near);
        let servers: Vec<StationId> = routers.iter().map(|it| world.add_node(*it)).collect();
        let mut scene = Self { world, owner, client, routers, servers };
        let nodes = [&[scene.client], &scene.servers[..]].concat();
        let joined = |world: &World| nodes.iter().all(|node| world.is_published(*node));
        assert!(scene.world.run_until(60 * SECOND, joined), "{}", scene.world.history());
        let name = scene.world.name(scene.owner);
        for server in scene.servers.clone() {
            assert!(scene.world.let_serve_beside(scene.owner, server, WEEK_S));
            let serves = |world: &World| world.is_serving(server, name);
            assert!(scene.world.run_until(30 * SECOND, serves), "{}", scene.world.history());
        }
        scene
    }

    fn talk(&mut self, duration: Duration) {
        let (end, name) = (self.world.now() + duration, self.world.name(self.owner));
        while self.world.now() < end {
            let _ = self.world.send_to_name(self.client, name, 100);
            self.world.run(STEP);
        }
    }

    fn received(&self) -> Vec<usize> {
        self.servers.iter().map(|server| self.world.received(*server).len()).collect()
    }

    /// Milliseconds in which nothing arrived, at most, after somebody died.
    fn silence_after(&mut self, dies: StationId) -> f64 {
        let died_at = self.world.now();
        self.world.apply(&Fault::Crash(dies));
        self.talk(WATCHED);
        let arrived = self.servers.iter().flat_map(|server| self.world.received(*server));
        let mut times: Vec<Duration> = arrived.map(|it| it.at).filter(|at| *at > died_at).collect();
        times.extend([died_at, self.world.now()]);
        times.sort_unstable();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(WATCHED);
        longest.as_secs_f64() * 1000.0
    }
}

const WORLDS: u64 = 200;
/// How far the router of each server is from the client's.
const DELAYS_MS: [u64; 3] = [5, 20, 40];
const LOSS: f64 = 0.01;
const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);
const WATCHED: Duration = Duration::from_secs(4);
const WEEK_S: u64 = 7 * 86_400;
