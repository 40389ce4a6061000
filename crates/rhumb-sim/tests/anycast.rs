//! A name that several servers answer for: who sends reaches the nearest that is there, and within
//! a second another one when that dies, without the owner doing anything.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_wire::{Name, Role};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const WEEK_S: u64 = 7 * 86_400;
/// How far the router of each server is from the client's.
const DELAYS_MS: [u32; 3] = [5, 20, 40];

/// A client at one router, and three servers, each at a router of its own.
struct Scene {
    world: World,
    owner: StationId,
    client: StationId,
    routers: Vec<StationId>,
    servers: Vec<StationId>,
    sent: Vec<u64>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed, Conditions::LAN);
        world.add_rib();
        let near = world.add_router(None);
        let routers: Vec<StationId> = DELAYS_MS.iter().map(|_| world.add_router(None)).collect();
        for (router, delay) in routers.iter().zip(DELAYS_MS) {
            let far = Conditions { delay: delay * MS, ..Conditions::LAN };
            world.apply(&Fault::SetLink(near, *router, far));
        }
        let owner = world.add_outsider(Role::Capsule);
        let client = world.add_node(near);
        let servers: Vec<StationId> = routers.iter().map(|it| world.add_node(*it)).collect();
        let mut scene = Self { world, owner, client, routers, servers, sent: Vec::new() };
        let nodes = [&[scene.client], &scene.servers[..]].concat();
        let all = |world: &World| nodes.iter().all(|node| world.is_published(*node));
        assert!(scene.world.run_until(60 * SECOND, all), "{}", scene.world.history());
        // The farthest first, so that the nearest is not the first that is known.
        for server in (0..scene.servers.len()).rev() {
            scene.serve(server);
        }
        scene
    }

    fn capsule(&self) -> Name {
        self.world.name(self.owner)
    }

    fn serve(&mut self, server: usize) {
        let (server, name) = (self.servers[server], self.capsule());
        assert!(self.world.let_serve_beside(self.owner, server, WEEK_S));
        let serves = |world: &World| world.is_serving(server, name);
        assert!(self.world.run_until(30 * SECOND, serves), "{}", self.world.history());
    }

    /// The client sends a message every 10 ms, and what is under way arrives. How many each server
    /// got meanwhile.
    fn talk(&mut self, duration: Duration) -> Vec<usize> {
        let before = self.received();
        let (end, name) = (self.world.now() + duration, self.capsule());
        while self.world.now() < end {
            let sent = self.world.send_to_name(self.client, name, 100);
            self.sent.push(sent.expect("room for a message"));
            self.world.run(10 * MS);
        }
        self.world.run(100 * MS);
        self.received().iter().zip(before).map(|(now, before)| now - before).collect()
    }

    fn received(&self) -> Vec<usize> {
        self.servers.iter().map(|server| self.world.received(*server).len()).collect()
    }

    /// The longest time after `since` in which nothing arrived at any server.
    fn longest_silence(&self, since: Duration) -> Duration {
        let arrived = self.servers.iter().flat_map(|server| self.world.received(*server));
        let mut times: Vec<Duration> = arrived.map(|it| it.at).filter(|at| *at > since).collect();
        times.extend([since, self.world.now()]);
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    fn missing(&self) -> usize {
        let is_missing = |number: &&u64| self.world.message(**number).delivered_at.is_none();
        self.sent.iter().filter(is_missing).count()
    }
}

#[test]
fn who_sends_reaches_the_nearest_once_all_are_measured() {
    for seed in 1..=5 {
        let mut scene = Scene::new(seed);
        scene.talk(SECOND);
        let [near, middle, far] = scene.talk(2 * SECOND)[..] else { panic!() };
        assert!(near >= 190 && middle == 0 && far == 0, "{seed}: {near} {middle} {far}");
        assert_eq!(scene.missing(), 0);
    }
}

#[test]
fn when_the_nearest_dies_the_next_one_answers_within_a_second() {
    for seed in 1..=5 {
        for dies in ["the server", "its router"] {
            let mut scene = Scene::new(seed);
            scene.talk(2 * SECOND);
            let died_at = scene.world.now();
            let who = if dies == "its router" { scene.routers[0] } else { scene.servers[0] };
            scene.world.apply(&Fault::Crash(who));
            scene.talk(3 * SECOND);
            let silence = scene.longest_silence(died_at);
            assert!(silence < SECOND, "{seed}, {dies}: {silence:?}");
            // What is sent from then on all arrives, and at the nearest that is left.
            scene.sent.clear();
            let [near, middle, far] = scene.talk(2 * SECOND)[..] else { panic!() };
            assert_eq!((near, scene.missing(), far), (0, 0, 0), "{seed}, {dies}");
            assert!(middle >= 190);
            scene.world.apply(&Fault::Start(who));
            if dies == "the server" {
                scene.serve(0);
            }
            scene.talk(20 * SECOND);
            let [near, ..] = scene.talk(2 * SECOND)[..] else { panic!() };
            assert!(near >= 190, "{seed}, {dies}: it is back, and the nearest: {near}");
        }
    }
}

#[test]
fn a_server_that_leaves_loses_nothing() {
    for seed in 1..=5 {
        let mut scene = Scene::new(seed);
        scene.talk(2 * SECOND);
        scene.world.apply(&Fault::Leave(scene.servers[0]));
        scene.talk(2 * SECOND);
        assert!(scene.missing() <= 1, "{seed}: {} were under way", scene.missing());
    }
}

#[test]
fn two_servers_at_one_router_take_each_others_place() {
    let mut world = World::new(3, Conditions::LAN);
    world.add_rib();
    let (near, far) = (world.add_router(None), world.add_router(None));
    let owner = world.add_outsider(Role::Capsule);
    let client = world.add_node(near);
    let servers = vec![world.add_node(far), world.add_node(far)];
    let routers = vec![far];
    let mut scene = Scene { world, owner, client, routers, servers, sent: Vec::new() };
    let nodes = [&[scene.client], &scene.servers[..]].concat();
    let all = |world: &World| nodes.iter().all(|node| world.is_published(*node));
    assert!(scene.world.run_until(60 * SECOND, all), "{}", scene.world.history());
    scene.serve(0);
    scene.serve(1);
    let before = scene.talk(SECOND);
    assert_eq!((before.iter().sum::<usize>(), scene.missing()), (100, 0), "{before:?}");
    let answers = usize::from(before[1] > before[0]);
    let died_at = scene.world.now();
    scene.world.apply(&Fault::Crash(scene.servers[answers]));
    let after = scene.talk(2 * SECOND);
    assert!(scene.longest_silence(died_at) < SECOND, "{:?}", scene.longest_silence(died_at));
    assert!(after[1 - answers] > 100, "{after:?}");
}
