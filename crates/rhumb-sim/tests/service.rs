//! A name moves from server to server while others talk to it: everything arrives, at one server or
//! the other, and the server that was lets go.

use std::time::Duration;

use rhumb_node::core::{Event, ServiceEnd};
use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_wire::{Name, Role};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// An AdCert's usual time.
const WEEK_S: u64 = 7 * 86_400;

/// A line of three routers, a client at one end, and a server at each of the others.
struct Scene {
    world: World,
    owner: StationId,
    client: StationId,
    servers: [StationId; 2],
    /// Numbers of the messages that the client sent.
    sent: Vec<u64>,
}

impl Scene {
    fn new(seed: u64, conditions: Conditions) -> Self {
        let mut world = World::new(seed, conditions);
        world.add_rib();
        let line = world.add_line(3);
        let owner = world.add_outsider(Role::Capsule);
        let client = world.add_node(line[0]);
        let servers = [line[2], line[1]].map(|router| world.add_node(router));
        let all = |world: &World| {
            [client, servers[0], servers[1]].iter().all(|node| world.is_published(*node))
        };
        assert!(world.run_until(60 * SECOND, all), "{}", world.history());
        Self { world, owner, client, servers, sent: Vec::new() }
    }

    fn capsule(&self) -> Name {
        self.world.name(self.owner)
    }

    /// The owner moves the capsule, and nobody talks until that is known.
    fn serve_at(&mut self, server: usize) {
        let (server, name) = (self.servers[server], self.capsule());
        assert!(self.world.let_serve(self.owner, server, WEEK_S));
        let serves = |world: &World| world.is_serving(server, name);
        assert!(self.world.run_until(30 * SECOND, serves), "{}", self.world.history());
    }

    /// The client sends a message every 10 ms and pings every 50.
    fn talk(&mut self, duration: Duration) {
        let (end, name) = (self.world.now() + duration, self.capsule());
        while self.world.now() < end {
            for step in 0..5 {
                if step == 0 {
                    self.world.with_core(self.client, |core, now| core.ping(name, 64, 36, now));
                }
                let sent = self.world.send_to_name(self.client, name, 100);
                self.sent.push(sent.expect("room for a message"));
                self.world.run(10 * MS);
            }
        }
    }

    fn received(&self) -> [usize; 2] {
        self.servers.map(|server| self.world.received(server).len())
    }

    /// Messages that arrived nowhere.
    fn missing(&self) -> usize {
        let arrived = |number: &&u64| self.world.message(**number).delivered_at.is_none();
        self.sent.iter().filter(arrived).count()
    }

    fn slowest(&self) -> Duration {
        let took = |number: &u64| {
            let message = self.world.message(*number);
            message.delivered_at.map(|at| at - message.sent_at)
        };
        self.sent.iter().filter_map(took).max().unwrap_or_default()
    }

    fn told(&self, node: StationId, what: impl Fn(&Event) -> bool) -> usize {
        self.world.told(node).iter().filter(|(_, event)| what(event)).count()
    }

    fn ends(&self, server: usize) -> usize {
        self.told(self.servers[server], |event| {
            matches!(event, Event::NotServing { reason: ServiceEnd::Superseded, .. })
        })
    }
}

#[test]
fn a_move_loses_nothing() {
    for seed in 1..=10 {
        let mut scene = Scene::new(seed, Conditions::LAN);
        scene.serve_at(0);
        scene.talk(SECOND);
        let mut before = scene.received();
        assert!(before[0] > 0 && before[1] == 0, "{before:?}");
        for (moves, server) in [1, 0, 1, 0].into_iter().enumerate() {
            assert!(scene.world.let_serve(scene.owner, scene.servers[server], WEEK_S));
            scene.talk(2 * SECOND);
            let now = scene.received();
            // What was under way to the former one may still get there.
            assert!(now[server] >= before[server] + 150, "{before:?}, {now:?}");
            assert_eq!(scene.ends(1 - server), 1 + moves / 2, "told once for each move");
            before = now;
        }
        scene.world.run(5 * SECOND);
        assert_eq!(scene.missing(), 0, "of {}: {}", scene.sent.len(), scene.world.history());
        assert_eq!(scene.told(scene.client, |e| matches!(e, Event::SendFailed { .. })), 0);
        let pongs = scene.told(scene.client, |e| matches!(e, Event::Pong { .. }));
        assert_eq!(pongs, scene.sent.len() / 5, "every ping is answered");
        assert!(scene.slowest() < SECOND / 2, "the slowest took {:?}", scene.slowest());
        println!(
            "seed {seed}: {} messages, {} resent, the slowest took {:?}",
            scene.sent.len(),
            scene.world.core(scene.client).map_or(0, |core| core.traffic().resent),
            scene.slowest(),
        );
    }
}

#[test]
fn the_server_that_was_does_not_come_back_by_renewing() {
    let mut scene = Scene::new(11, Conditions::LAN);
    scene.serve_at(0);
    scene.serve_at(1);
    // Both renew their own names several times over.
    for _ in 0..20 {
        scene.world.run(60 * SECOND);
        scene.talk(50 * MS);
    }
    scene.world.run(5 * SECOND);
    assert_eq!(scene.received(), [0, scene.sent.len()], "{}", scene.world.history());
    assert_eq!((scene.ends(0), scene.ends(1)), (1, 0));
    // Nor by joining another session, of which its router makes a try.
    scene.world.apply(&Fault::MoveAddress(scene.servers[0]));
    scene.world.run(60 * SECOND);
    scene.talk(SECOND);
    scene.world.run(5 * SECOND);
    assert_eq!(scene.received(), [0, scene.sent.len()], "{}", scene.world.history());
    assert_eq!(scene.missing(), 0);
}

#[test]
fn a_server_that_dies_is_replaced() {
    for seed in 21..=25 {
        let mut scene = Scene::new(seed, Conditions::LAN);
        scene.serve_at(0);
        scene.talk(SECOND);
        scene.world.apply(&Fault::Crash(scene.servers[0]));
        scene.serve_at(1);
        let before = scene.received()[1];
        scene.talk(SECOND);
        scene.world.run(5 * SECOND);
        assert_eq!(scene.received()[1] - before, 100, "{}", scene.world.history());
    }
}

#[test]
fn on_bad_links_a_move_comes_to_its_end_too() {
    for seed in 31..=35 {
        let mut scene = Scene::new(seed, Conditions::ROUGH);
        scene.serve_at(0);
        scene.talk(SECOND);
        scene.serve_at(1);
        scene.world.run(10 * SECOND);
        let before = scene.received();
        scene.talk(5 * SECOND);
        scene.world.run(5 * SECOND);
        let after = scene.received();
        assert_eq!(after[0], before[0], "the former one gets nothing: {}", scene.world.history());
        // Four hops, each of which loses 3.5 %.
        assert!(after[1] - before[1] >= 350, "{before:?}, {after:?}: {}", scene.world.history());
        assert_eq!(scene.ends(0), 1);
    }
}

#[test]
fn when_the_newer_server_dies_the_older_one_takes_its_place_until_there_is_a_newer_one() {
    for seed in 1..=5 {
        let mut scene = Scene::new(seed, Conditions::LAN);
        scene.serve_at(0);
        scene.serve_at(1);
        scene.talk(SECOND);
        assert_eq!((scene.ends(0), scene.received()[0]), (1, 0), "{}", scene.world.history());
        scene.world.run(60 * SECOND);
        assert_eq!(scene.ends(0), 1, "it stands by, and nobody hears of it");

        let name = scene.capsule();
        scene.world.apply(&Fault::Crash(scene.servers[1]));
        let (standby, begin) = (scene.servers[0], scene.world.now());
        let serves = |world: &World| world.is_serving(standby, name);
        // The router finds the dead one silent after 20 s, and the
        // other one asks every five or a little later.
        assert!(scene.world.run_until(30 * SECOND, serves), "{}", scene.world.history());
        println!("seed {seed}: served again after {:?}", scene.world.now() - begin);
        scene.world.run(3 * SECOND);
        scene.sent.clear();
        scene.talk(2 * SECOND);
        scene.world.run(5 * SECOND);
        assert_eq!((scene.missing(), scene.received()[0]), (0, scene.sent.len()), "seed {seed}");

        // The other one is there again, by a newer word.
        scene.world.apply(&Fault::Start(scene.servers[1]));
        let (newer, before) = (scene.servers[1], scene.received());
        assert!(scene.world.run_until(30 * SECOND, |world| world.is_published(newer)));
        scene.serve_at(1);
        scene.world.run(SECOND);
        scene.talk(2 * SECOND);
        scene.world.run(5 * SECOND);
        assert_eq!(scene.missing(), 0, "seed {seed}: {}", scene.world.history());
        assert_eq!(scene.ends(0), 2, "told of the move");
        assert_eq!(scene.received()[0], before[0], "nothing goes to the older one any more");
    }
}
