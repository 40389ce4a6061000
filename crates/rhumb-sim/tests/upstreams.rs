//! A site with two upstream routers: when the one in use dies, its traffic takes the way by the
//! other within a second, goes back when the preferred one has been there for a while, and does not
//! follow one that comes and goes.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_switch::Event;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// A preferred upstream is used again when it has been there for so long.
const HOLD_DOWN: Duration = Duration::from_secs(30);

struct Site {
    world: World,
    upstreams: [StationId; 2],
    router: StationId,
    /// One elsewhere, and one at the site.
    nodes: [StationId; 2],
}

fn site(seed: u64) -> Site {
    let mut world = World::new(seed, Conditions { delay: 5 * MS, ..Conditions::LAN });
    world.add_rib();
    let upstreams = [world.add_router(None), world.add_router(None)];
    let far = world.add_router(None);
    let router = world.add_router_behind(&upstreams);
    let nodes = [world.add_node(far), world.add_node(router)];
    // Until it is known that hardly anything is lost on the way to the upstreams.
    world.run(60 * SECOND);
    Site { world, upstreams, router, nodes }
}

impl Site {
    /// The one elsewhere sends to the one at the site every 10 ms, who does not answer: so the
    /// site's router has no session with that one's router, which would be another way. The numbers
    /// of the messages, and when they were sent.
    fn talk_for(&mut self, duration: Duration) -> Vec<(u64, Duration)> {
        let world = &mut self.world;
        let end = world.now() + duration;
        let mut sent = Vec::new();
        while world.now() < end {
            if let Ok(number) = world.send(self.nodes[0], self.nodes[1], 50) {
                sent.push((number, world.now()));
            }
            world.run(10 * MS);
        }
        sent
    }

    fn is_lost(&self, number: u64) -> bool {
        self.world.message(number).delivered_at.is_none()
    }

    /// Which upstreams the site's router has used, in order.
    fn used(&self) -> Vec<usize> {
        let names = self.upstreams.map(|upstream| self.world.name(upstream));
        let events = self.world.router_events(self.router);
        let used = events.iter().filter_map(|event| match event {
            Event::UpstreamUsed { name } => names.iter().position(|it| it == name),
            _ => None,
        });
        used.collect()
    }
}

#[test]
fn traffic_goes_again_within_a_second_of_the_death_and_back_without_loss() {
    for (seed, is_idle) in [(1, false), (2, false), (3, true), (4, true)] {
        let mut site = site(seed);
        let before = if is_idle { Vec::new() } else { site.talk_for(SECOND) };
        site.world.run(SECOND / 10);
        assert!(before.iter().all(|(number, _)| !site.is_lost(*number)));
        let died = site.world.now();
        site.world.apply(&Fault::Crash(site.upstreams[0]));
        let sent = site.talk_for(5 * SECOND);
        site.world.run(SECOND);
        let lost = sent.iter().filter(|(number, _)| site.is_lost(*number)).map(|(_, at)| *at);
        // Whoever has to find the way first waits for it, and loses nothing.
        let last = lost.max().unwrap_or(died);
        assert!(last < died + SECOND, "seed {seed}: lost {:?} after", last - died);
        assert_eq!(last == died, is_idle, "seed {seed}: in use it is missed");
        assert_eq!(site.used(), [0, 1]);

        site.world.apply(&Fault::Start(site.upstreams[0]));
        let sent = site.talk_for(HOLD_DOWN + 10 * SECOND);
        site.world.run(SECOND);
        assert_eq!(site.used(), [0, 1, 0]);
        let lost = sent.iter().filter(|(number, _)| site.is_lost(*number)).count();
        assert_eq!(lost, 0, "seed {seed}, of {}", sent.len());
    }
}

#[test]
fn an_upstream_that_comes_and_goes_is_not_followed() {
    let mut site = site(5);
    for _ in 0..5 {
        site.world.apply(&Fault::Crash(site.upstreams[0]));
        site.world.run(10 * SECOND);
        site.world.apply(&Fault::Start(site.upstreams[0]));
        site.world.run(20 * SECOND);
    }
    assert_eq!(site.used(), [0, 1]);
    site.world.run(HOLD_DOWN);
    assert_eq!(site.used(), [0, 1, 0]);
}

#[test]
fn a_site_whose_upstreams_are_all_dead_is_there_again_with_the_first_that_is() {
    let mut site = site(6);
    for upstream in site.upstreams {
        site.world.apply(&Fault::Crash(upstream));
    }
    site.world.run(60 * SECOND);
    site.world.apply(&Fault::Start(site.upstreams[1]));
    site.world.run(15 * SECOND);
    let sent = site.talk_for(SECOND);
    site.world.run(SECOND);
    assert!(sent.iter().all(|(number, _)| !site.is_lost(*number)));
    assert_eq!(site.used().last(), Some(&1));
}
