//! What breaks in the middle costs others nothing: neither a result, nor time, nor a route.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use rhumb_exchange::{Connection, Event, Form, RouteId, SETTLE};

use crate::world::{Way, World, destination, small};

fn ranks(world: &World, lane: u16) -> usize {
    world.events(lane).iter().filter(|event| matches!(event, Event::Rank { .. })).count()
}

fn retractions(world: &World, lane: u16) -> usize {
    world.events(lane).iter().filter(|event| matches!(event, Event::Retracted { .. })).count()
}

/// Members 0 and 1 have announced one destination to 2 and
/// 3, who were asked; member 3 has not answered.
fn asked() -> (World, RouteId) {
    let mut world = World::with(small(4, Form::TopClass, 1), 21);
    world.settle();
    world.mute[3] = true;
    let first = world.announce(0, b"d", &[2, 3], b"zero");
    world.announce(1, b"d", &[2, 3], b"one");
    world.settle();
    assert_eq!(ranks(&world, 3), 1);
    assert_eq!(world.selected(2, b"d"), None);
    (world, first)
}

/// The others have their result though no time has passed, and
/// the one that was lost has installed nothing.
fn check_result(world: &mut World, first: RouteId, how: &str) {
    world.settle();
    assert_eq!(world.selected(2, b"d"), Some(Some(first)), "{how}");
    assert_eq!(world.selected(3, b"d"), None, "{how}");
    world.mute[3] = false;
}

/// Who is back has a round of its own, and nobody else is asked again.
fn check_new_round(world: &mut World, first: RouteId, how: &str) {
    let before = [0, 1, 2].map(|lane| ranks(world, lane));
    world.settle();
    assert_eq!(world.selected(3, b"d"), Some(Some(first)), "{how}");
    assert_eq!([0, 1, 2].map(|lane| ranks(world, lane)), before, "{how}");
    assert_eq!(world.member(3).status().inconsistent, 0, "{how}");
    assert_eq!(world.status(0).counters.pairs_ended, 0, "{how}");
}

#[test]
fn a_member_lost_between_question_and_answer_is_not_waited_for() {
    // Killed; before it answered anybody, and after it answered one party alone.
    for answered in [None, Some(0), Some(2)] {
        let how = format!("killed, answered {answered:?}");
        let (mut world, first) = asked();
        if let Some(server) = answered {
            let asked = world.events(3).iter().rev().find_map(|event| match event {
                Event::Rank { round, candidates, .. } => Some((*round, candidates.clone())),
                _ => None,
            });
            let (round, candidates) = asked.unwrap();
            let classes: Vec<(RouteId, u8)> = candidates.iter().map(|it| (it.id, 1)).collect();
            world.member(3).rank(round, &classes);
            assert!(world.member(3).poll_message(Connection(2 - server)).is_some());
            world.settle();
            assert_eq!(world.selected(2, b"d"), None, "{how}");
        }
        world.stop_member(3);
        check_result(&mut world, first, &how);
        world.start_member(3, true);
        check_new_round(&mut world, first, &how);
    }
    // Its connection to one party is lost, and made anew.
    for server in [0, 2] {
        let how = format!("cut off from {server}");
        let (mut world, first) = asked();
        world.disconnect(3, server);
        check_result(&mut world, first, &how);
        world.connect(3, server);
        check_new_round(&mut world, first, &how);
    }
}

#[test]
fn a_member_killed_at_any_message_of_a_round_holds_up_nobody() {
    let mut is_over = false;
    for steps in (0..).step_by(2) {
        if is_over {
            assert!(steps > 30, "{steps}");
            break;
        }
        let mut world = World::with(small(4, Form::TopClass, 1), 100 + steps);
        world.settle();
        let first = world.announce(0, b"d", &[2, 3], b"zero");
        world.settle();
        world.announce(1, b"d", &[2, 3], b"one");
        is_over = !(0..steps).all(|_| world.step());
        world.stop_member(3);
        world.settle();
        assert_eq!(world.selected(2, b"d"), Some(Some(first)), "{steps}");
        assert_eq!(world.status(0).rounds, 0, "{steps}");
    }
}

/// Routes `x` and `b` of member 0, 1 and so on; `x` of
/// member 0 is withdrawn while a server is away.
fn withdrawn_while_away(server: usize) -> World {
    let mut world = World::with(small(4, Form::TopClass, 1), 23);
    // Its router never says that its table has ended.
    world.start_member_without_end(1, true);
    world.settle();
    world.announce(0, b"x", &[3], b"x");
    for from in 0..3 {
        world.announce(from, &[from as u8], &[3], b"r");
    }
    world.settle();
    world.stop_server(server);
    world.withdraw(0, b"x");
    world.settle();
    world
}

fn has_x(world: &World) -> bool {
    world.offered(3).iter().any(|(to, ..)| *to == destination(b"x"))
}

#[test]
fn what_went_while_a_server_was_away_goes_as_soon_as_all_are_back() {
    for server in [0, 2] {
        let mut world = withdrawn_while_away(server);
        assert!(has_x(&world));
        world.start_server(server);
        world.begin_pair(0, 2);
        world.settle();
        assert!(!has_x(&world), "{server}");
        assert_eq!((world.offered(3).len(), retractions(&world, 3)), (3, 1), "{server}");
    }
}

#[test]
fn nobody_who_is_late_loses_routes_and_its_time_has_an_end() {
    for is_late_only in [true, false] {
        let mut world = withdrawn_while_away(0);
        world.stop_member(2);
        world.start_server(0);
        world.begin_pair(0, 2);
        world.settle();
        world.pass(SETTLE / 2);
        assert_eq!(world.offered(3).len(), 4);
        if is_late_only {
            // Its process is another: until it has said all, what the former had stays.
            world.start_member_without_end(2, true);
            world.settle();
            assert!(has_x(&world));
            world.announce(2, &[2], &[3], b"r");
            world.settle();
            assert!(has_x(&world));
            world.member(2).end_of_table();
            world.settle();
            assert_eq!((world.offered(3).len(), retractions(&world, 3)), (3, 1));
        } else {
            world.pass(SETTLE / 2 + Duration::from_secs(1));
            assert_eq!((world.offered(3).len(), retractions(&world, 3)), (2, 2));
        }
    }
}

#[test]
fn after_the_loss_of_both_servers_all_lanes_are_waited_for() {
    let mut world = withdrawn_while_away(0);
    world.member(1).end_of_table();
    world.stop_server(2);
    world.stop_member(2);
    for server in [0, 2] {
        world.start_server(server);
    }
    world.begin_pair(0, 2);
    world.settle();
    assert_eq!(retractions(&world, 3), 0);
    world.start_member_without_end(2, true);
    world.announce(2, &[2], &[3], b"r");
    world.settle();
    assert_eq!(retractions(&world, 3), 0);
    world.member(2).end_of_table();
    world.settle();
    assert_eq!((world.offered(3).len(), retractions(&world, 3)), (3, 1));
}

/// A member that takes part joins, is to be asked about
/// hundreds of destinations, and answers slowly.
#[test]
fn what_changes_does_not_wait_for_what_a_newcomer_is_asked() {
    let mut world = World::with(small(4, Form::TopClass, 1), 24);
    world.stop_member(3);
    for lane in [0, 1] {
        world.start_member(lane, false);
    }
    world.settle();
    for number in 0..400_u16 {
        for from in [0, 1] {
            world.announce(from, &number.to_le_bytes(), &[2, 3], b"r");
        }
    }
    world.settle();
    world.mute[3] = true;
    world.start_member(3, true);
    world.settle();
    let asked = ranks(&world, 3);
    assert!((1..400).contains(&asked), "{asked}");
    let changed = world.announce(0, &399_u16.to_le_bytes(), &[2, 3], b"changed");
    world.settle();
    // As long as anybody is waited for, once.
    world.pass(world.config.ranking);
    assert_eq!(world.selected(2, &399_u16.to_le_bytes()), Some(Some(changed)));
    // Nobody waits for the newcomer any more, so all was asked; but not before what has changed.
    let is_about = |event: &&Event| matches!(event, Event::Rank { candidates, .. } if candidates.iter().any(|it| it.id == changed));
    let asked_before = world.events(3).iter().take_while(|event| !is_about(event));
    let asked_before = asked_before.filter(|event| matches!(event, Event::Rank { .. })).count();
    assert!(asked_before < 400, "{asked_before}");
    world.mute[3] = false;
    world.pass(4 * world.config.ranking);
    assert!(world.selected(3, &7_u16.to_le_bytes()).is_some());
}

/// The places of ids and shares in party one's offers and party two's shares: after kind, shard,
/// tag and count; each offer has its route behind it.
fn shares_in(frame: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut places) = (3 + 16 + 4, Vec::new());
    while frame[0] == 3 && at < frame.len() {
        let share = at + 16 + 1 + 16;
        places.push((at, share));
        at = share + 16;
        at += 2 + usize::from(u16::from_le_bytes([frame[at], frame[at + 1]]));
    }
    while frame[0] == 4 && at < frame.len() {
        places.push((at, at + 16));
        at += 32;
    }
    places
}

/// Parties hand to one member, which may have nothing, what is another's, which may have all.
#[test]
fn a_lane_has_no_use_for_the_shares_of_another() {
    for (lying, opened) in [(&[0][..], 0), (&[2], 0), (&[0, 2], 10)] {
        let mut world = World::with(small(3, Form::TopClass, 1), 25);
        world.stop_member(1);
        world.settle();
        let seen = RefCell::new(HashMap::<(usize, [u8; 16]), [u8; 16]>::new());
        let lying = lying.to_vec();
        world.alter = Some(Box::new(move |way, frame| {
            let Way::ToMember { lane, server } = way else { return };
            for (id_at, share_at) in shares_in(frame) {
                let id = *frame[id_at..].first_chunk().unwrap();
                let share = &mut frame[share_at..share_at + 16];
                if lane == 2 {
                    seen.borrow_mut().insert((server, id), *share.first_chunk().unwrap());
                } else if lane == 1 && lying.contains(&server) {
                    share.copy_from_slice(&seen.borrow()[&(server, id)]);
                }
            }
        }));
        for number in 0..10 {
            world.announce(0, &[number], &[2], b"secret");
        }
        world.settle();
        world.start_member(1, true);
        world.settle();
        assert_eq!(world.offered(2).len(), 10);
        assert_eq!(world.offered(1).len(), opened, "both together have everything");
        // It is noticed.
        let noticed = world.member(1).status().unopened;
        assert_eq!(noticed, if opened == 0 { 10 } else { 0 });
    }
}
