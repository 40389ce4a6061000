//! What it costs a router to send one PDU to a group with 1,000 members behind it, against a PDU of
//! a known flow to each of them.
//!
//! All members join one router. Then batches go from the sender's hand to the router's without the
//! world, and only the router's part is timed: one PDU to the group, which leaves in 1,000 copies;
//! and 1,000 PDUs, one to each member, in batches as the system brings them. Both take turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_node::core::Event;
use rhumb_sim::{Conditions, StationId, World};
use rhumb_trust::{Identity, MAX_MEMBERSHIP_LIFETIME_S, Membership, Standing, Window};
use rhumb_wire::group::Part;
use rhumb_wire::{Batch, Name, Rights, Role};

use crate::figures::Figures;
use crate::machine::median;

struct Scene {
    world: World,
    router: StationId,
    sender: StationId,
    members: Vec<Name>,
    group: Name,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new(1, Conditions::LAN);
        world.add_rib();
        // Strangers' copies are bounded by where they come from.
        let router = world.add_router_with(None, |config| {
            config.access.otherwise = Standing::Admitted;
        });
        world.expect_at_most(1_000_000);
        let owner = Arc::new(Identity::generate(Role::Domain, 0).expect("a key can be made"));
        let group = world.add_outsider_as(owner.clone());
        let sender = world.add_node(router);
        let nodes: Vec<StationId> = (0..MEMBERS).map(|_| world.add_node(router)).collect();
        let joined = |world: &World| nodes.iter().all(|node| world.is_joined(*node));
        assert!(world.run_until(120 * SECOND, joined), "{}", world.history());
        assert!(world.let_serve(group, sender, 7 * 86_400));
        let name = world.name(group);
        let serves = |world: &World| world.is_serving(sender, name);
        assert!(world.run_until(30 * SECOND, serves), "{}", world.history());
        take_part(&mut world, &owner, sender, Part::Sends);
        for node in &nodes {
            take_part(&mut world, &owner, *node, Part::Receives);
            world.run(SECOND / 100);
        }
        let takes_part = |world: &World, node: StationId| {
            world.told(node).iter().any(|(_, event)| matches!(event, Event::InGroup { .. }))
        };
        let all = |world: &World| nodes.iter().all(|node| takes_part(world, *node));
        assert!(world.run_until(60 * SECOND, all), "{}", world.history());
        let members: Vec<Name> = nodes.iter().map(|node| world.name(*node)).collect();
        let mut scene = Self { world, router, sender, members, group: name };
        // Labels, and whatever a flow needs once. What goes to the group never reaches the world,
        // which takes a message that comes to many for one that comes again and again.
        for to in scene.members.clone() {
            for _ in 0..3 {
                let _ = scene.world.send_to_name(scene.sender, to, PAYLOAD);
                scene.world.run(SECOND / 20);
            }
        }
        scene
    }

    /// Lets the router handle one PDU to each of these, in batches. How long it took, and how many
    /// datagrams left.
    fn carry(&mut self, to: &[Name], batch: &mut Batch) -> (Duration, usize) {
        let (mut took, mut left) = (Duration::ZERO, 0);
        for to in to.chunks(BATCH) {
            batch.clear();
            self.world.with_core(self.sender, |core, now| {
                for to in to {
                    core.send_unkept(*to, &[0; PAYLOAD], batch, now).expect("joined");
                }
            });
            let from = self.world.address(self.sender);
            (0..batch.len()).for_each(|slot| batch.redirect(slot, from));
            let elapsed = self.world.with_switch(self.router, |switch, now| {
                let begin = Instant::now();
                switch.handle_batch(batch, now);
                begin.elapsed()
            });
            took += elapsed.expect("it runs");
            left += batch.slots().iter().filter(|slot| slot.len() >= PAYLOAD).count();
        }
        (took, left)
    }
}

fn take_part(world: &mut World, owner: &Identity, node: StationId, part: Part) {
    let now = world.clock_of(node);
    let window = Window::starting(now.unix_s(), MAX_MEMBERSHIP_LIFETIME_S);
    let rights = Rights::JOIN.and(Rights::PUBLISH);
    let member = world.name(node);
    let membership = Membership::sign(owner, None, member, rights, now.unix_ms, window)
        .expect("a domain admits");
    world.with_core(node, |core, now| {
        core.join_group(owner.name(), part, membership, now).expect("it is a member");
    });
}

pub(crate) fn measure(figures: &mut Figures) {
    let mut scene = Scene::new();
    let mut batch = Batch::new();
    let (members, group) = (scene.members.clone(), [scene.group]);
    let (mut each, mut copies) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + WARM_UP {
        scene.world.run(SECOND / 5);
        let (took, left) = scene.carry(&members, &mut batch);
        assert!(left >= MEMBERS, "one to each: {left}");
        let (took_all, left) = scene.carry(&group, &mut batch);
        assert!(left >= MEMBERS, "a copy for each: {left}");
        if round >= WARM_UP {
            each.push(took.as_nanos() as f64 / MEMBERS as f64);
            copies.push(took_all.as_nanos() as f64 / MEMBERS as f64);
        }
    }
    // Of the same round, since the machine is not always as fast.
    let ratio = median(copies.iter().zip(&each).map(|(copy, each)| copy / each));
    let (copy, each) = (median(copies.iter().copied()), median(each.iter().copied()));
    figures.add("multicast_copy_ns", "a copy to one of 1,000 members", copy, "ns");
    figures.add("multicast_each_ns", "a PDU of a known flow to one of them", each, "ns");
    figures.hold(
        "multicast_ratio",
        "one PDU to 1,000 members over one to each of them: median within a round",
        (ratio, "times"),
        (1.3, "1.3 times one send per neighbour"),
    );
}

const MEMBERS: usize = 1000;
const BATCH: usize = 64;
/// A usual datagram, with names.
const PAYLOAD: usize = 1000;
const ROUNDS: usize = 60;
const WARM_UP: usize = 10;
const SECOND: Duration = Duration::from_secs(1);
