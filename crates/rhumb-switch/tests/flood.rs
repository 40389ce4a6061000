//! A flood of names that nobody needs fills every table and pushes nothing out that is in use.

use std::sync::Arc;
use std::time::Duration;

use rhumb_switch::{Config, DropReason};
use rhumb_trust::Identity;
use rhumb_wire::metadata::Role;
use rhumb_wire::{Action, Certificate, Name, PduHeader};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Of each table of the router that is flooded.
const BOUND: usize = 64;
const FLOOD: usize = 10 * BOUND;
/// Flows in use, half of them in labels and half in names.
const PAIRS: usize = 4;
const MILLION: usize = 1_000_000;
/// What a session's PDUs of no known flow are bounded by,
/// the questions asked for them, and for how long.
const A_WINDOW: usize = 2000;
const QUESTIONS: usize = 100;
const WINDOW: Duration = Duration::from_millis(110);
/// Each with as many names as a session may attach, at most.
const SERVERS: usize = 4;
const DATA: &[u8] = &[1, 0, 0, 9, 42];

/// Two routers, of which the first is flooded, and what passes through it all the time.
struct Scene {
    world: World,
    /// Nodes that speak in labels, at the first router, and those they send to, at the second.
    pairs: Vec<(usize, usize)>,
    /// A sender that keeps to names.
    by_names: Stranger,
    attacker: Stranger,
    /// A node that nobody sends to.
    leaving: usize,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        let roomy = Config::default();
        let small =
            Config { max_flows: BOUND, max_grants: BOUND, max_routes: BOUND, ..roomy.clone() };
        for (index, config) in [small, roomy].into_iter().enumerate() {
            world.config = config;
            let identity = world.identity(Role::Router);
            world.router(identity, router_address(index), None, Some(router_address(index)));
        }
        world.run(SECOND);
        let pairs = (0..PAIRS).map(|_| (world.node(0), world.node(1))).collect();
        let [by_names, attacker] = [(); 2].map(|()| Stranger::new(&mut world, 0, Role::Node));
        let leaving = world.node(0);
        let mut scene = Self { world, pairs, by_names, attacker, leaving };
        for stranger in [&mut scene.by_names, &mut scene.attacker] {
            join(&mut scene.world, stranger, 0);
        }
        for _ in 0..10 {
            scene.use_flows();
            scene.pass(100 * MS);
        }
        scene
    }

    /// One PDU of each flow in use.
    fn use_flows(&mut self) {
        for &(from, to) in &self.pairs {
            self.world.send(from, to, b"in use");
            let to = self.world.name(to);
            let header = PduHeader::new(Action::Data, self.by_names.name(), to);
            self.by_names.send(&mut self.world, header, DATA, &[]);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.world.run(time);
        for stranger in [&mut self.by_names, &mut self.attacker] {
            stranger.keep_alive(&mut self.world);
        }
    }

    fn received(&self) -> usize {
        self.pairs.iter().map(|(_, to)| self.world.nodes[*to].received.len()).sum()
    }

    fn asked(&self) -> u64 {
        self.world.counters(0).rib_requests
    }

    /// Sends a flood with the flows in use among it, every one of whose PDUs must arrive.
    fn flood(&mut self, mut step: impl FnMut(&mut World, &mut Stranger, usize)) {
        for number in 0..FLOOD {
            step(&mut self.world, &mut self.attacker, number);
            self.pass(5 * MS);
            if number % 16 == 0 {
                let before = self.received();
                self.use_flows();
                self.world.settle();
                assert_eq!(self.received(), before + 2 * PAIRS, "after {number}");
            }
        }
        let status = self.world.routers[0].switch.status(self.world.now);
        for table in &status.tables {
            assert!(table.used <= table.bound, "{table:?}");
        }
    }

    fn is_full(&self, name: &str) -> bool {
        let status = self.world.routers[0].switch.status(self.world.now);
        status.tables.iter().any(|table| table.name == name && table.used == table.bound)
    }

    /// All flows are looked up anew, and all that they need for it is still there.
    fn check_nothing_is_asked_again(&mut self) {
        // When a name leaves, all flows ask.
        self.world.nodes[self.leaving].core.leave(self.world.now);
        self.pass(100 * MS);
        let (before, asked) = (self.received(), self.asked());
        self.use_flows();
        self.world.settle();
        assert_eq!(self.received(), before + 2 * PAIRS);
        assert_eq!(self.asked(), asked);
    }
}

fn join(world: &mut World, stranger: &mut Stranger, router: usize) {
    let via = world.routers[router].switch.name();
    let certificate = stranger.route(via, world);
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    stranger.send(world, header, &[], &[certificate]);
    world.run(50 * MS);
}

fn any_name(number: usize, kind: u8) -> Name {
    let mut name = [kind; 32];
    name[..8].copy_from_slice(&(number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    Name(name)
}

#[test]
fn destinations_and_sources_that_do_not_exist() {
    let mut scene = Scene::new();
    let to = scene.world.name(scene.pairs[0].1);
    scene.flood(|world, attacker, number| {
        let nowhere = PduHeader::new(Action::Data, attacker.name(), any_name(number, 1));
        attacker.send(world, nowhere, DATA, &[]);
        let from_nowhere = PduHeader::new(Action::Data, any_name(number, 2), to);
        attacker.send(world, from_nowhere, DATA, &[]);
        // A chain of somebody of whom nobody has heard, so that the RIB is asked for the metadata.
        let issuer = any_name(number, 3);
        let via = world.routers[0].switch.name();
        let chain = [Certificate { issuer, ..attacker.route(attacker.name(), world) }];
        let chain = [chain[0].clone(), attacker.route(via, world)];
        let unheard_of = PduHeader::new(Action::Data, issuer, to);
        attacker.send(world, unheard_of, DATA, &chain);
    });
    assert!(scene.is_full("absences"));
    scene.check_nothing_is_asked_again();
}

/// Figure 6 of the paper at its worst: nobody asks for a name twice but those who use one.
#[test]
fn a_million_random_destinations_cost_what_is_in_use_nothing() {
    let mut scene = Scene::new();
    let attacker = scene.attacker.name();
    for round in 0..MILLION / A_WINDOW {
        let names = (0..A_WINDOW).map(|number| any_name(1 + round * A_WINDOW + number, 4));
        let headers: Vec<PduHeader> =
            names.map(|name| PduHeader::new(Action::Data, attacker, name)).collect();
        let before = scene.received();
        let (ahead, behind) = headers.split_at(A_WINDOW / 2);
        scene.attacker.send_many(&mut scene.world, ahead);
        scene.use_flows();
        scene.world.settle();
        assert_eq!(scene.received(), before + 2 * PAIRS, "in round {round}");
        scene.attacker.send_many(&mut scene.world, behind);
        scene.attacker.inbox.clear();
        scene.pass(WINDOW);
    }
    assert!(scene.is_full("absences"));
    // Each was looked into, and of these as many were asked for as a session may.
    assert_eq!(scene.world.dropped(0, DropReason::TooManyMisses), 0);
    assert!(scene.asked() <= (MILLION / A_WINDOW * QUESTIONS) as u64 + 1000, "{}", scene.asked());
    let status = scene.world.routers[0].switch.status(scene.world.now);
    assert!(status.tables.iter().all(|table| table.used <= table.bound), "{:?}", status.tables);
    scene.check_nothing_is_asked_again();
}

#[test]
fn destinations_that_exist() {
    let mut scene = Scene::new();
    let owners: Vec<Arc<Identity>> =
        (0..FLOOD).map(|_| scene.world.identity(Role::Capsule)).collect();
    // No session may attach all of them.
    let new_server = |_| Stranger::new(&mut scene.world, 1, Role::Node);
    let mut servers: Vec<Stranger> = (0..SERVERS).map(new_server).collect();
    for (number, server) in servers.iter_mut().enumerate() {
        join(&mut scene.world, server, 1);
        for owner in owners.iter().skip(number).step_by(SERVERS) {
            server.serve(&mut scene.world, owner, 1);
        }
    }
    scene.pass(SECOND);
    servers.iter_mut().for_each(|server| server.keep_alive(&mut scene.world));
    scene.flood(|world, attacker, number| {
        let header = PduHeader::new(Action::Data, attacker.name(), owners[number].name());
        // Told to come back, it comes back.
        for _ in 0..2 {
            attacker.send(world, header, DATA, &[]);
            world.run(10 * MS);
        }
        servers.iter_mut().for_each(|server| server.keep_alive(world));
    });
    assert!(scene.is_full("routes") && scene.is_full("flows"));
    let inboxes = servers.iter().flat_map(|server| &server.inbox);
    let arrived = inboxes.filter(|(header, _)| header.action == Action::Data).count();
    assert!(arrived > FLOOD / 2, "the flood flowed: {arrived}");
    scene.check_nothing_is_asked_again();
}

#[test]
fn sources_that_have_a_right_to_send() {
    let mut scene = Scene::new();
    let owners: Vec<Arc<Identity>> =
        (0..FLOOD).map(|_| scene.world.identity(Role::Capsule)).collect();
    let to = scene.world.name(scene.pairs[0].1);
    scene.flood(|world, attacker, number| {
        let owner = &owners[number];
        attacker.serve(world, owner, 0);
        attacker.send(world, PduHeader::new(Action::Data, owner.name(), to), DATA, &[]);
    });
    assert!(
        scene.world.dropped(0, DropReason::Overloaded) > 0,
        "those that came too late were refused"
    );
    scene.check_nothing_is_asked_again();
}
