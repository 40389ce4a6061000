//! At the first sign that its router is gone a node has another one stand by: whoever only pauses
//! is kept, and suspicion costs little, however often it comes.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_node::RouterChoice;
use rhumb_node::core::Event;
use rhumb_sim::{Conditions, Fault, StationId, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A node at one of two routers near it, and one far away that it sends to.
struct Scene {
    world: World,
    node: StationId,
    far: StationId,
    present: StationId,
    other: StationId,
}

impl Scene {
    fn new(seed: u64, conditions: Conditions) -> Self {
        let mut world = World::new(seed, conditions);
        world.add_rib();
        let routers = [0; 3].map(|_| world.add_router(None));
        let far = world.add_node(routers[2]);
        let node =
            world.add_node_with(routers[0], |config| config.router = RouterChoice::discovered());
        world.put_nearby(node, &routers[..2]);
        world.run(5 * SECOND);
        let joined = world.core(node).unwrap().router();
        let at = (0..2).find(|at| Some(world.name(routers[*at])) == joined);
        let Some(at) = at else { world.give_up("the node has joined nobody") };
        Self { world, node, far, present: routers[at], other: routers[1 - at] }
    }

    /// Lets the node send every 10 ms.
    fn send_for(&mut self, duration: Duration) {
        let end = self.world.now() + duration;
        while self.world.now() < end {
            let _ = self.world.send(self.node, self.far, 50);
            self.world.run(10 * MS);
        }
    }

    /// Whether the node has a session with the router that it
    /// has not joined, and is not attached there.
    fn other_stands_by(&self) -> bool {
        let switch = self.world.switch(self.other).unwrap();
        let status = switch.status(self.world.clock_of(self.other));
        let name = self.world.name(self.node);
        assert!(status.attached.iter().all(|attached| attached.name != name));
        status.sessions.iter().any(|session| session.peer == name)
    }

    fn disconnections(&self) -> usize {
        let told = self.world.told(self.node).iter();
        told.filter(|(_, event)| matches!(event, Event::Disconnected { .. })).count()
    }

    /// Handshake datagrams from the node to the other router since the last look.
    fn handshakes(&mut self) -> usize {
        let (from, to) = (self.world.address(self.node), self.world.address(self.other));
        let tapped = self.world.tap();
        let between = tapped.iter().filter(|(_, flight)| flight.from == from && flight.to == to);
        between.filter(|(_, flight)| matches!(flight.bytes[0], 20..=63 | 0x90)).count()
    }
}

#[test]
fn a_router_that_pauses_is_kept_and_whoever_stood_by_is_let_go() {
    let mut scene = Scene::new(1, Conditions::LAN);
    scene.send_for(SECOND);
    assert!(!scene.other_stands_by(), "nobody is suspected");
    scene.world.apply(&Fault::Freeze(scene.present));
    scene.send_for(SECOND);
    assert!(scene.other_stands_by());
    scene.world.apply(&Fault::Thaw(scene.present));
    scene.send_for(25 * SECOND);
    assert!(scene.other_stands_by(), "it may happen again");
    scene.send_for(10 * SECOND);
    assert!(!scene.other_stands_by());
    assert_eq!(scene.disconnections(), 0);
    let before = scene.world.received(scene.far).len();
    scene.send_for(SECOND);
    assert!(scene.world.received(scene.far).len() >= before + 99);
}

#[test]
fn a_router_that_pauses_again_and_again_costs_one_handshake() {
    let mut scene = Scene::new(2, Conditions::LAN);
    scene.send_for(SECOND);
    scene.world.tap();
    let mut handshakes = Vec::new();
    for _ in 0..20 {
        scene.world.apply(&Fault::Freeze(scene.present));
        // Five questions take half a second, and with somebody standing by they may be enough.
        scene.send_for(450 * MS);
        scene.world.apply(&Fault::Thaw(scene.present));
        scene.send_for(4 * SECOND);
        handshakes.push(scene.handshakes());
    }
    assert!((1..=6).contains(&handshakes[0]), "{handshakes:?}");
    assert!(handshakes[1..].iter().all(|further| *further == 0), "{handshakes:?}");
    assert_eq!(scene.disconnections(), 0);
}

#[test]
fn where_a_fifth_is_lost_suspicion_moves_nobody() {
    let lossy = Conditions { loss: 0.2, spares_handshakes: true, ..Conditions::LAN };
    let mut scene = Scene::new(3, lossy);
    scene.send_for(60 * SECOND);
    scene.world.tap();
    scene.send_for(600 * SECOND);
    let handshakes = scene.handshakes();
    // The node only sends, so it asks four times a second, and a third of that is
    // left unanswered: somebody always stands by.
    assert!(scene.other_stands_by());
    assert_eq!((handshakes, scene.disconnections()), (0, 0));
}

#[test]
fn when_nobody_else_is_there_a_search_in_vain_is_not_repeated_at_once() {
    let mut scene = Scene::new(4, Conditions::LAN);
    scene.world.put_nearby(scene.node, &[scene.present]);
    scene.send_for(SECOND);
    for _ in 0..5 {
        scene.world.apply(&Fault::Freeze(scene.present));
        scene.send_for(SECOND);
        scene.world.apply(&Fault::Thaw(scene.present));
        scene.send_for(SECOND);
        assert!(!scene.other_stands_by());
    }
    assert_eq!(scene.disconnections(), 0);
    // Its own router, which answers such a search, does not take its place.
    let before = scene.world.received(scene.far).len();
    scene.send_for(SECOND);
    assert!(scene.world.received(scene.far).len() >= before + 99);
}

#[test]
fn who_stands_by_may_die_first() {
    let mut scene = Scene::new(5, Conditions::LAN);
    scene.world.apply(&Fault::Freeze(scene.present));
    scene.send_for(SECOND);
    assert!(scene.other_stands_by());
    scene.world.apply(&Fault::Thaw(scene.present));
    scene.world.apply(&Fault::Crash(scene.other));
    scene.send_for(10 * SECOND);
    scene.world.apply(&Fault::Start(scene.other));
    scene.send_for(10 * SECOND);
    assert_eq!(scene.disconnections(), 0);
    // It is found again when it is needed.
    scene.world.apply(&Fault::Crash(scene.present));
    scene.send_for(3 * SECOND);
    assert_eq!(scene.disconnections(), 1);
    assert!(scene.world.is_joined(scene.node));
    assert_eq!(scene.world.core(scene.node).unwrap().router(), Some(scene.world.name(scene.other)));
}

#[test]
fn a_node_that_leaves_takes_leave_of_who_stands_by() {
    let mut scene = Scene::new(6, Conditions::LAN);
    scene.world.apply(&Fault::Freeze(scene.present));
    scene.send_for(SECOND);
    assert!(scene.other_stands_by());
    scene.world.apply(&Fault::Thaw(scene.present));
    scene.world.run(SECOND);
    scene.world.apply(&Fault::Leave(scene.node));
    scene.world.run(SECOND);
    assert!(!scene.other_stands_by());
}
