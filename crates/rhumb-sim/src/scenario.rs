//! Whole lives of random worlds: what there is, how bad the links are, who talks and what goes
//! wrong all follow from a seed.
//!
//! 1. A topology is drawn, and the conditions of its links.
//! 2. For a while nodes send each other messages and faults strike:
//!    crashes, pauses, partitions, moves, bad links.
//! 3. All is mended, and what is down starts again.
//! 4. Then every node must be joined and published, and every node
//!    must reach every other, within stated times.
//!
//! The witness of the world watches throughout. See [`live`].

use std::time::Duration;

use crate::Fault;
use crate::conditions::Conditions;
use crate::random::Random;
use crate::station::StationId;
use crate::world::{Totals, World};

/// A drawn world and its cast.
struct Scene {
    world: World,
    random: Random,
    ribs: Vec<StationId>,
    routers: Vec<StationId>,
    nodes: Vec<StationId>,
}

/// Lives one world from beginning to end.
///
/// # Panics
/// On a violation, and when the world does not recover;
/// with the seed and the last things that happened.
pub fn live(seed: u64) -> Totals {
    let mut scene = Scene::draw(seed);
    scene.world.run(SETTLING);
    let trouble = scene.draw_trouble();
    scene.world.run(trouble);
    scene.mend();
    scene.world.run(CONVALESCENCE);
    scene.demand_membership();
    scene.demand_delivery();
    scene.world.totals()
}

impl Scene {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed).fork(SCENE);
        let mut world = World::new(seed, draw_conditions(&mut random));
        let ribs = vec![world.add_rib()];
        let mut routers = Vec::new();
        let mut depths = Vec::new();
        for number in 0..1 + random.below(MOST_ROUTERS) {
            let upstream = (number > 0 && !random.chance(0.25)).then(|| random.below(number));
            let upstream = upstream.filter(|&upstream| depths[upstream] < MOST_DEPTH);
            depths.push(upstream.map_or(0, |upstream| depths[upstream] + 1));
            let flows = *random.pick(&[16, 256, rhumb_switch::DEFAULT_MAX_FLOWS]);
            let upstream = upstream.map(|upstream| routers[upstream]);
            routers.push(world.add_router_with(upstream, |config| config.max_flows = flows));
        }
        for &router in &routers {
            let time = random.time(Duration::from_micros(50), Duration::from_millis(5));
            world.apply(&Fault::SetVerifierTime(router, time));
        }
        let nodes: Vec<_> = (0..2 + random.below(MOST_NODES - 1))
            .map(|_| world.add_node(*random.pick(&routers)))
            .collect();
        for station in world.ids() {
            let ahead_ms = random.below(60_001) as i64 - 30_000;
            if random.chance(0.3) {
                world.apply(&Fault::SetClock { station, ahead_ms });
            }
        }
        Self { world, random, ribs, routers, nodes }
    }

    /// Decides who talks and what goes wrong; returns for how long.
    fn draw_trouble(&mut self) -> Duration {
        let long = self.random.chance(LONG_LIVES);
        let most = if long { Duration::from_secs(4500) } else { Duration::from_secs(180) };
        let trouble = self.random.time(Duration::from_secs(30), most);
        for _ in 0..20 + self.random.below(200) {
            let (from, to) = (*self.random.pick(&self.nodes), *self.random.pick(&self.nodes));
            let (after, len) = (self.random.time(Duration::ZERO, trouble), self.draw_len());
            // A burst now and then: queues fill, and a flow's first PDUs meet on the slow path.
            let burst = if self.random.chance(0.1) { 1 + self.random.below(40) } else { 1 };
            for _ in 0..burst {
                self.world.schedule_message(after, from, to, len);
            }
        }
        for _ in 0..self.random.below(MOST_FAULTS + 1) {
            let at = self.random.time(Duration::ZERO, trouble);
            let lasts = self.random.time(Duration::from_millis(50), Duration::from_secs(45));
            let ends = (at + lasts).min(trouble);
            self.draw_fault(at, ends);
        }
        trouble
    }

    fn draw_len(&mut self) -> usize {
        *self.random.pick(&[8, 36, 100, 700, 1200, 1310])
    }

    /// One thing that goes wrong at one time and is, where it can be, mended at another.
    fn draw_fault(&mut self, at: Duration, ends: Duration) {
        let world = &mut self.world;
        let random = &mut self.random;
        let all: Vec<StationId> = world.ids().collect();
        let anyone = *random.pick(&all);
        let (node, router) = (*random.pick(&self.nodes), *random.pick(&self.routers));
        match random.below(12) {
            0 => schedule(world, at, Fault::Crash(router), ends, Fault::Start(router)),
            1 => {
                for &rib in &self.ribs {
                    schedule(world, at, Fault::Crash(rib), ends, Fault::Start(rib));
                }
            }
            2 => schedule(world, at, Fault::Crash(node), ends, Fault::Start(node)),
            3 => schedule(world, at, Fault::Freeze(anyone), ends, Fault::Thaw(anyone)),
            4 => {
                let group = all.iter().copied().filter(|_| random.chance(0.5)).collect();
                schedule(world, at, Fault::Part(group), ends, Fault::MendAll);
            }
            5 => {
                let other = *random.pick(&all);
                schedule(world, at, Fault::Cut(anyone, other), ends, Fault::Mend(anyone, other));
            }
            6 => {
                let other = *random.pick(&all);
                let cut = Fault::CutOneWay(anyone, other);
                schedule(world, at, cut, ends, Fault::Mend(anyone, other));
            }
            7 => world.schedule(at, Fault::MoveAddress(node)),
            8 => world.schedule(at, Fault::MoveRouter { node, router }),
            9 => schedule(world, at, Fault::Leave(node), ends, Fault::Start(node)),
            10 => {
                let bad = Conditions { loss: 0.4, ..Conditions::ROUGH };
                let good = draw_conditions(random);
                schedule(world, at, Fault::SetAllLinks(bad), ends, Fault::SetAllLinks(good));
            }
            _ => world.schedule(at, Fault::Start(anyone)),
        }
    }

    fn mend(&mut self) {
        let world = &mut self.world;
        world.apply(&Fault::MendAll);
        world.apply(&Fault::SetAllLinks(Conditions { loss: 0.01, ..Conditions::LAN }));
        for station in world.ids() {
            world.apply(&Fault::Thaw(station));
            if !world.is_running(station) {
                world.apply(&Fault::Start(station));
            }
        }
    }

    fn demand_membership(&mut self) {
        let nodes = self.nodes.clone();
        let published = |world: &World| nodes.iter().all(|node| world.is_published(*node));
        if !self.world.run_until(RECOVERY, published) {
            let missing: Vec<_> =
                nodes.iter().filter(|node| !self.world.is_published(**node)).collect();
            self.world.give_up(&format!("{missing:?} are not joined and published"));
        }
    }

    fn demand_delivery(&mut self) {
        for &from in &self.nodes.clone() {
            for &to in &self.nodes.clone() {
                let before = self.world.received(to).len();
                let deadline = self.world.now() + DELIVERY;
                let source = self.world.name(from);
                loop {
                    // Loss is not an error: who wants to be sure sends again.
                    let _ = self.world.send(from, to, 64);
                    let arrived = |world: &World| {
                        world.received(to)[before..].iter().any(|message| message.from == source)
                    };
                    if self.world.run_until(Duration::from_secs(1), arrived) {
                        break;
                    }
                    if self.world.now() >= deadline {
                        self.world.give_up(&format!("{from:?} does not reach {to:?}"));
                    }
                }
            }
        }
    }
}

fn schedule(world: &mut World, at: Duration, fault: Fault, ends: Duration, mended: Fault) {
    world.schedule(at, fault);
    world.schedule(ends, mended);
}

fn draw_conditions(random: &mut Random) -> Conditions {
    let mut share = |most: f64| if random.chance(0.5) { most * random.fraction() } else { 0.0 };
    let (loss, duplication, corruption, reordering) =
        (share(0.1), share(0.1), share(0.02), share(0.1));
    Conditions {
        loss,
        duplication,
        corruption,
        reordering,
        delay: random.time(Duration::from_micros(50), Duration::from_millis(60)),
        jitter: random.time(Duration::ZERO, Duration::from_millis(20)),
        bandwidth_bps: random.chance(0.3).then_some(5_000_000),
        queue_bytes: 64 << 10,
        spares_handshakes: random.chance(0.5),
        // Every path carries 1232.
        largest_datagram: 1232 + random.below(300),
    }
}

/// Before anything goes wrong.
const SETTLING: Duration = Duration::from_secs(10);
/// After all is mended: a session that is dead at one end is noticed after
/// 20 s of silence, and back-offs last seconds.
const CONVALESCENCE: Duration = Duration::from_secs(30);
/// And then until every node is back.
const RECOVERY: Duration = Duration::from_secs(60);
/// From one node to another, by sending every second.
const DELIVERY: Duration = Duration::from_secs(30);
const MOST_ROUTERS: usize = 7;
/// Chains have eight certificates at most.
const MOST_DEPTH: usize = 2;
const MOST_NODES: usize = 5;
const MOST_FAULTS: usize = 8;
/// The share of worlds that live long enough for sessions to be renewed.
const LONG_LIVES: f64 = 0.05;
/// The source of everything drawn here.
const SCENE: u64 = 4;
