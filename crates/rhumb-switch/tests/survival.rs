//! With no RIB left, a router goes on with what it knows until the
//! certificates end, and across its own restart.

use std::time::Duration;

use rhumb_switch::{SavedRoutes, SavedRoutesError, Switch};
use rhumb_wire::metadata::Role;

use crate::world::{World, router_address};

const SECOND: Duration = Duration::from_secs(1);

/// Two routers that reach each other directly with a node each, which have talked.
fn pair(world: &mut World) -> (usize, usize) {
    world.two_apart();
    let (a, b) = (world.node(0), world.node(1));
    world.send(a, b, b"there");
    world.send(b, a, b"and back");
    world.run(2 * SECOND);
    assert_eq!((world.nodes[a].received.len(), world.nodes[b].received.len()), (1, 1));
    (a, b)
}

/// Restarts a router, which then has `state` and nothing else.
fn restart(world: &mut World, router: usize, state: SavedRoutes) {
    let identity = world.routers[router].identity.clone();
    drop(world.routers.remove(router));
    world.router(identity, router_address(router), None, Some(router_address(router)));
    let mut restarted = world.routers.pop().expect("the new one");
    restarted.switch.import_routes(state, world.now);
    world.routers.insert(router, restarted);
}

fn saved(world: &mut World, router: usize) -> Vec<u8> {
    let now = world.now;
    world.routers[router].switch.export_routes(now).encode()
}

#[test]
fn known_routes_are_served_until_their_certificates_end() {
    let mut world = World::new();
    let (a, b) = pair(&mut world);
    world.rib = None;
    for _ in 0..50 {
        world.send(a, b, b"on and on");
        world.run(10 * SECOND);
    }
    assert_eq!(world.nodes[b].received.len(), 51);
    // The certificates of ten minutes that the RIB gave are over,
    // and there is nobody to ask for newer ones.
    world.run(120 * SECOND);
    world.nodes[b].received.clear();
    world.send(a, b, b"too late");
    world.run(10 * SECOND);
    assert!(world.nodes[b].received.is_empty());
}

#[test]
fn routes_outlive_a_restart_with_no_rib() {
    let mut world = World::new();
    let (a, b) = pair(&mut world);
    let bytes = saved(&mut world, 0);
    world.rib = None;
    let state = SavedRoutes::parse(&bytes).unwrap();
    assert_eq!(state.len(), 1);
    restart(&mut world, 0, state);
    world.run(40 * SECOND);
    assert_eq!(world.counters(0).routes_restored, 1);
    assert!(world.nodes[a].core.is_joined());
    world.send(a, b, b"after the restart");
    world.run(2 * SECOND);
    assert_eq!(world.nodes[b].received.len(), 2);
    // Without them, it would not know where to go.
    restart(&mut world, 0, SavedRoutes::default());
    world.run(40 * SECOND);
    world.send(a, b, b"nobody knows");
    world.run(5 * SECOND);
    assert_eq!(world.nodes[b].received.len(), 2);
}

#[test]
fn routes_that_were_saved_are_verified_again_and_asked_for_again() {
    let mut world = World::new();
    let (a, b) = pair(&mut world);
    let good = saved(&mut world, 0);
    // A bit of the signature, which is at the end, before the number of removals.
    let mut forged = good.clone();
    let at = forged.len() - 5;
    forged[at] ^= 1;
    let state = SavedRoutes::parse(&forged).unwrap();
    restart(&mut world, 0, state);
    world.run(SECOND);
    assert_eq!((world.counters(0).routes_restored, world.counters(0).chains_refused), (0, 1));
    // Too old.
    let state = SavedRoutes::parse(&good).unwrap();
    world.now = world.now.plus(700 * SECOND);
    restart(&mut world, 0, state);
    world.run(SECOND);
    assert_eq!(world.counters(0).routes_restored, 0);
    // A route that is good is used at once, and the RIB is asked whether it still is.
    world.run(40 * SECOND);
    world.send(a, b, b"fresh again");
    world.run(2 * SECOND);
    let state = SavedRoutes::parse(&saved(&mut world, 0)).unwrap();
    restart(&mut world, 0, state);
    world.run(40 * SECOND);
    assert_eq!(world.counters(0).routes_restored, 1);
    let asked = world.counters(0).rib_requests;
    world.send(a, b, b"at once");
    world.settle();
    assert!(world.counters(0).rib_requests > asked);
    world.run(SECOND);
    // So this router hears again when it changes.
    world.nodes[b].core.leave(world.now);
    world.run(SECOND);
    assert_eq!(world.routers[0].switch.status(world.now).routes, 0);
}

#[test]
fn what_was_saved_does_not_take_the_place_of_what_is_newer() {
    let mut world = World::new();
    let (a, _) = pair(&mut world);
    let identity = world.identity(Role::Node);
    let old = world.node_of(identity.clone(), 1);
    world.run(SECOND);
    world.send(a, old, b"to the old place");
    world.run(SECOND);
    let state = SavedRoutes::parse(&saved(&mut world, 0)).unwrap();
    let new = world.node_of(identity, 0);
    world.run(SECOND);
    let now = world.now;
    world.routers[0].switch.import_routes(state, now);
    world.run(SECOND);
    world.send(a, new, b"to the new place");
    world.run(SECOND);
    assert_eq!(world.nodes[new].received.len(), 1);
    assert_eq!(world.nodes[old].received.len(), 1);
}

#[test]
fn a_file_that_is_damaged_is_refused_wherever_it_was_cut() {
    let mut world = World::new();
    pair(&mut world);
    let bytes = saved(&mut world, 0);
    assert_eq!(SavedRoutes::parse(&bytes).unwrap().encode(), bytes);
    for cut in 0..bytes.len() {
        assert!(SavedRoutes::parse(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let with = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        SavedRoutes::parse(&changed).unwrap_err()
    };
    assert_eq!(with(0, b'X'), SavedRoutesError::Foreign);
    assert_eq!(with(4, 4), SavedRoutesError::UnknownVersion(4));
    // What was written before there were domains holds ways of one's own domain only, and then for
    // a while no removals.
    for version in [b"RHRS\x01", b"RHRS\x02"] {
        let former = [&version[..], &[0; 8]].concat();
        assert_eq!(SavedRoutes::parse(&former).unwrap().len(), 0);
    }
    assert!(matches!(with(5, 0xFF), SavedRoutesError::Damaged { .. }), "four billion metadata");
    // Whatever still parses is the one encoding of what it
    // says; whether it is true is for the verifier.
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        if let Ok(saved) = SavedRoutes::parse(&flipped) {
            assert_eq!(saved.encode(), flipped, "bit {at}");
        }
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(
        SavedRoutes::parse(&longer).unwrap_err(),
        SavedRoutesError::Damaged { at: bytes.len() }
    );
    assert_eq!(SavedRoutes::parse(b"").unwrap_err(), SavedRoutesError::Foreign);
}

#[test]
fn the_revision_tells_whether_there_is_anything_new_to_save() {
    let mut world = World::new();
    let (a, b) = pair(&mut world);
    let revision = |world: &World| Switch::routes_revision(&world.routers[0].switch);
    let before = revision(&world);
    world.send(a, b, b"nothing new");
    world.run(10 * SECOND);
    assert_eq!(revision(&world), before);
    world.nodes[b].core.leave(world.now);
    world.run(SECOND);
    assert!(revision(&world) > before);
}
