//! A name that several servers answer for: who sends reaches the nearest that is there, and within
//! a second another one when that dies, without the owner doing anything.

mod scene;

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, World};

use scene::Scene;

const SECOND: Duration = Duration::from_secs(1);
#[test]
fn who_sends_reaches_the_nearest_once_all_are_measured() {
    for seed in 1..=5 {
        let mut scene = Scene::new(seed, Conditions::LAN);
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
            let mut scene = Scene::new(seed, Conditions::LAN);
            scene.talk(2 * SECOND);
            let died_at = scene.world.now();
            let who = if dies == "its router" { scene.routers[0] } else { scene.servers[0] };
            scene.world.apply(&Fault::Crash(who));
            scene.talk(3 * SECOND);
            let silence = scene.longest_silence(died_at);
            assert!(silence < SECOND, "{seed}, {dies}: {silence:?}");
            // What is sent from then on all arrives, and at the nearest that is left.
            scene.missing();
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
        let mut scene = Scene::new(seed, Conditions::LAN);
        scene.talk(2 * SECOND);
        scene.world.apply(&Fault::Leave(scene.servers[0]));
        scene.talk(2 * SECOND);
        let missing = scene.missing();
        assert!(missing <= 1, "{seed}: {missing} were under way");
    }
}

#[test]
fn two_servers_at_one_router_take_each_others_place() {
    let mut world = World::new(3, Conditions::LAN);
    world.add_rib();
    let (near, far) = (world.add_router(None), world.add_router(None));
    let mut scene = Scene::at(world, near, &[far, far]);
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
