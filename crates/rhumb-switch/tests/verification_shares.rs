//! Chains that do not verify cost others next to nothing, from however many sessions they come:
//! measured in pieces of work that are done before an honest node's.

use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_wire::metadata::{Metadata, Role};
use rhumb_wire::{Action, Certificate, Name, PduHeader};
use world::{Stranger, World};

use crate::world;

const MS: Duration = Duration::from_millis(1);

/// A chain for `owner` by way of `by`, whose first signature is wrong, in one of many ways.
struct Forgery {
    owner: Name,
    metadata: Vec<u8>,
    certificates: Vec<Certificate>,
}

impl Forgery {
    fn new(world: &World, by: &Stranger) -> Self {
        let owner = world.identity(Role::Capsule);
        let via = world.routers[0].switch.name();
        let mut first = by.route(by.name(), world);
        first.issuer = owner.name();
        let mut metadata = Vec::new();
        Metadata::emit_list(&[(**owner.metadata()).clone()], &mut metadata);
        Self { owner: owner.name(), metadata, certificates: vec![first, by.route(via, world)] }
    }

    fn send(&mut self, world: &mut World, by: &mut Stranger, number: u32) {
        self.certificates[0].sequence = u64::from(number);
        let header = PduHeader::new(Action::Advertise, self.owner, world.routers[0].switch.name());
        by.send(world, header, &self.metadata, &self.certificates);
    }
}

/// Work that is done before an honest node has joined whose chain came last.
fn work_before_a_join(world: &mut World) -> usize {
    world.routers[0].verifies = false;
    let identity = world.identity(Role::Node);
    let name = identity.name();
    world.node_of(identity, 0);
    world.run(20 * MS);
    let (now, router) = (world.now, &mut world.routers[0]);
    let is_attached = |router: &world::Router| {
        router.switch.status(now).attached.iter().any(|it| it.name == name)
    };
    let mut work = 0;
    while !is_attached(router) {
        assert!(router.verify_one(now), "nothing is left to do after {work}");
        work += 1;
    }
    work
}

#[test]
fn forty_sessions_of_bad_chains_are_in_nobodys_way() {
    let mut world = World::new();
    world.line(1);
    let mut attackers: Vec<(Stranger, Forgery)> = (0..40)
        .map(|_| {
            let stranger = Stranger::new(&mut world, 0, Role::Node);
            let forgery = Forgery::new(&world, &stranger);
            (stranger, forgery)
        })
        .collect();
    // Nothing is known of them yet.
    world.routers[0].verifies = false;
    for (number, (stranger, forgery)) in attackers.iter_mut().enumerate() {
        forgery.send(&mut world, stranger, number as u32);
    }
    let work = work_before_a_join(&mut world);
    assert!(work <= 4, "{work} before a join, with strangers of whom nothing is known");
    // And when it is.
    for round in 1..4 {
        world.routers[0].verifies = true;
        world.run(10 * MS);
        world.routers[0].verifies = false;
        for (number, (stranger, forgery)) in attackers.iter_mut().enumerate() {
            stranger.keep_alive(&mut world);
            forgery.send(&mut world, stranger, round * 1000 + number as u32);
        }
        let work = work_before_a_join(&mut world);
        assert!(work <= 2, "{work} before a join in round {round}");
    }
}

#[test]
fn a_hundred_thousand_bad_chains_of_one_session_cost_a_bounded_part_of_the_work() {
    let mut world = World::new();
    world.line(1);
    let (from, to) = (world.node(0), world.node(0));
    let mut attacker = Stranger::new(&mut world, 0, Role::Node);
    let mut forgeries: Vec<Forgery> = (0..50).map(|_| Forgery::new(&world, &attacker)).collect();
    let refused = world.counters(0).chains_refused;
    for round in 0..100 {
        world.routers[0].verifies = false;
        for number in 0..1000 {
            let forgery = &mut forgeries[number as usize % 50];
            forgery.send(&mut world, &mut attacker, round * 1000 + number);
        }
        // An honest flow goes on, and begins anew, between them.
        world.routers[0].verifies = true;
        world.send(from, to, b"honest");
        world.run(MS);
        attacker.keep_alive(&mut world);
    }
    assert_eq!(world.nodes[to].received.len(), 100);
    let verified = world.counters(0).chains_refused - refused;
    assert!((1..=3200).contains(&verified), "{verified} of 100,000");
}

#[test]
fn of_sessions_of_which_much_was_refused_little_is_read() {
    let mut world = World::new();
    world.line(1);
    let mut attacker = Stranger::new(&mut world, 0, Role::Node);
    let mut forgery = Forgery::new(&world, &attacker);
    let refused = world.counters(0).chains_refused;
    for number in 0..4000 {
        forgery.send(&mut world, &mut attacker, number);
        if number % 4 == 3 {
            world.run(MS);
        }
    }
    let verified = world.counters(0).chains_refused - refused;
    assert!((200..=250).contains(&verified), "{verified} of 4000 in a second");
    // A node that comes from elsewhere is taken at once.
    assert!(work_before_a_join(&mut world) <= 2);
}

#[test]
fn a_chain_that_was_refused_is_known_when_it_comes_again_from_whomever() {
    let mut world = World::new();
    world.line(1);
    let mut attacker = Stranger::new(&mut world, 0, Role::Node);
    let mut forgery = Forgery::new(&world, &attacker);
    let refused = world.counters(0).chains_refused;
    for _ in 0..100 {
        forgery.send(&mut world, &mut attacker, 7);
    }
    assert_eq!(world.counters(0).chains_refused - refused, 1);
    // Once it is clear whom they are of, most are not even read.
    let unread = world.dropped(0, DropReason::Overloaded);
    assert_eq!(world.dropped(0, DropReason::BadCertificate) + unread, 100);
    assert!((50..=96).contains(&unread), "{unread}");
    world.run(1000 * MS);
    // Another one is another one.
    forgery.send(&mut world, &mut attacker, 8);
    assert_eq!(world.counters(0).chains_refused - refused, 2);
}
