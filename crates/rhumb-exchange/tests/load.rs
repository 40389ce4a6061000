//! The load of ports moves choices that were made before: slowly, without a withdrawal, and without
//! anybody seeing when it changes.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use rhumb_exchange::{Event, PASS};

use crate::world::World;

/// Announcers of all destinations, and those who may have all.
const ANNOUNCERS: [u16; 2] = [0, 1];
const CHOOSERS: [u16; 2] = [2, 3];
const DESTINATIONS: u8 = 40;

const FIRST: [u8; 4] = [12, 3, 0, 0];
const SWAPPED: [u8; 4] = [3, 12, 0, 0];

fn begin(seed: u64) -> World {
    let mut world = World::new(4, seed);
    world.prefer(&FIRST);
    for number in 0..DESTINATIONS {
        ANNOUNCERS.into_iter().for_each(|from| {
            world.announce(from, &[number], &CHOOSERS, &[number, from as u8]);
        });
    }
    world.pass(Duration::from_secs(1));
    world
}

/// Whose route a member was given last for each destination.
fn chosen(world: &World, lane: u16) -> Vec<u16> {
    let offered = world.offered(lane);
    let whose = |number: u8| {
        let id = world.selected(lane, &[number]).unwrap().unwrap();
        offered.iter().find(|(_, _, other, _)| *other == id).unwrap().1
    };
    (0..DESTINATIONS).map(whose).collect()
}

#[test]
fn a_load_that_stays_moves_all_choices_and_withdraws_nothing() {
    let mut world = begin(1);
    CHOOSERS.into_iter().for_each(|lane| assert_eq!(chosen(&world, lane), [0; 40]));
    world.prefer(&SWAPPED);
    // What is announced meanwhile is chosen by what is in force, as all else.
    world.announce(0, &[0], &CHOOSERS, b"again");
    world.pass(PASS / 2);
    CHOOSERS.into_iter().for_each(|lane| assert_eq!(chosen(&world, lane), [0; 40]));
    let before = CHOOSERS.map(|lane| world.events(lane).len());
    world.pass(PASS * 3);
    for (lane, before) in CHOOSERS.into_iter().zip(before) {
        assert_eq!(chosen(&world, lane), [1; 40]);
        let since = &world.events(lane)[before..];
        let is_loss = |event: &&Event| {
            !matches!(event, Event::Rank { .. } | Event::Selected { id: Some(_), .. })
        };
        assert_eq!(since.iter().find(is_loss), None, "a member had a route all the time");
    }
}

#[test]
fn a_load_that_goes_up_and_down_or_differs_little_moves_nothing() {
    let mut world = begin(2);
    for _ in 0..40 {
        world.prefer(&SWAPPED);
        world.pass(PASS / 8);
        world.prefer(&FIRST);
        world.pass(PASS / 8);
    }
    world.prefer(&[11, 3, 0, 0]);
    world.pass(PASS * 4);
    for lane in CHOOSERS {
        assert_eq!(chosen(&world, lane), [0; 40]);
        let moved =
            world.events(lane).iter().filter(|event| matches!(event, Event::Selected { .. }));
        assert!(moved.count() > 10 * usize::from(DESTINATIONS), "nothing was chosen anew at all");
    }
}

/// Everybody's view, second by second: neither party two, nor a member, nor party one's messages
/// show that the load has changed.
#[test]
fn who_is_asked_when_and_in_which_order_says_nothing_about_the_load() {
    let watch = |changes: &[(u64, [u8; 4])]| {
        let mut world = begin(3);
        world.tap = Some(Vec::new());
        let mut seen = Vec::new();
        for second in 0..PASS.as_secs() * 5 {
            for (_, preferences) in changes.iter().filter(|(at, _)| *at == second) {
                world.prefer(preferences);
            }
            world.pass(Duration::from_secs(1));
            let frames = world.tap.replace(Vec::new()).unwrap().into_iter();
            seen.push(frames.map(|(to, way, frame)| (to, way, frame[0], frame.len())).collect());
        }
        let result: Vec<Vec<_>> = seen;
        (result, chosen(&world, 2))
    };
    let (constant, first) = watch(&[]);
    let (other, second) = watch(&[(7, SWAPPED)]);
    let (often, _) = watch(&[(7, SWAPPED), (150, FIRST), (290, SWAPPED), (291, [0, 15, 3, 9])]);
    assert!(constant.iter().map(Vec::len).sum::<usize>() > 1000, "nothing was chosen anew");
    assert_ne!(first, second, "the load decided nothing");
    assert!(other == constant, "a change of load shows");
    assert!(often == constant, "changes of load show");
}
