//! What middleboxes do to TCP: the link ends cleanly or goes on, nothing that was not sent is
//! delivered, and the way is open for another try.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{CloseReason, Event};

use crate::middlebox::{Middlebox, Mischief};
use crate::world::World;

/// Sends numbered PDUs both ways until the middlebox has done what it does, and checks that what
/// came is a beginning of what was sent.
fn send_until(world: &mut World, what: &str, mut is_over: impl FnMut(&mut World) -> bool) {
    let mut sent = 0_u32;
    for end in &mut world.ends {
        end.received.clear();
    }
    world.until(what, |it| {
        if it.sessions() == [true; 2] {
            sent += 1;
            let pdu = [&sent.to_be_bytes()[..], &[sent as u8; 700]].concat();
            for from in 0..2 {
                it.send(from, [&pdu[..]]);
            }
        }
        is_over(it)
    });
    for end in &world.ends {
        for (number, pdu) in (1_u32..).zip(&end.received) {
            assert_eq!(*pdu, [&number.to_be_bytes()[..], &[number as u8; 700]].concat());
        }
    }
    assert!(sent > 0);
}

fn reasons(world: &World, end: usize) -> Vec<CloseReason> {
    let reason = |event: &Event| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    };
    world.ends[end].events.iter().filter_map(reason).collect()
}

/// A mischief that ends the session at both ends, whatever it cuts in two, and the session after.
fn ends_and_comes_back(mischief: Mischief) {
    let mut world = World::new();
    let middlebox = Middlebox::new(world.listens);
    for after in [0, 1, 7, 1_000, 20_000] {
        world.establish_by(middlebox.address);
        middlebox.begins(mischief, after);
        send_until(&mut world, "the end", |it| it.sessions() == [false; 2]);
        middlebox.ends();
        for end in 0..2 {
            assert!(reasons(&world, end).iter().all(|it| *it == CloseReason::Broken));
            world.ends[end].events.clear();
        }
    }
    world.establish_by(middlebox.address);
    world.assert_carries();
    let open = world.ends.each_ref().map(|end| end.counters().open);
    assert_eq!(open, [1, 1], "of the former ones nothing is left");
}

#[test]
fn a_connection_that_is_reset_ends_the_session_at_once() {
    ends_and_comes_back(Mischief::Resets);
}

#[test]
fn a_connection_that_is_truncated_ends_the_session_at_once() {
    ends_and_comes_back(Mischief::Truncates);
}

#[test]
fn a_byte_that_is_altered_ends_the_session_and_is_never_delivered() {
    let mut world = World::new();
    let middlebox = Middlebox::new(world.listens);
    world.establish_by(middlebox.address);
    middlebox.begins(Mischief::Alters, 5_000);
    send_until(&mut world, "the end", |it| it.sessions() == [false; 2]);
    let malformed: u64 = world.ends.iter().map(|end| end.counters().malformed).sum();
    assert_eq!(malformed, 1, "one end has noticed, and has told the other one");
    middlebox.ends();
    world.establish_by(middlebox.address);
    world.assert_carries();
}

#[test]
fn a_connection_in_single_bytes_carries_all_the_same() {
    let mut world = World::new();
    let middlebox = Middlebox::new(world.listens);
    middlebox.begins(Mischief::Splits, 0);
    world.establish_by(middlebox.address);
    let passed = middlebox.passed();
    send_until(&mut world, "much of it", |it| it.ends.iter().all(|end| end.received.len() >= 20));
    assert!(middlebox.passed() > passed + 20 * 700);
}

#[test]
fn a_connection_that_stalls_ends_with_the_sessions_silence() {
    let mut world = World::new();
    let middlebox = Middlebox::new(world.listens);
    world.establish_by(middlebox.address);
    middlebox.begins(Mischief::Stalls, 3_000);
    let mut turns = 0;
    send_until(&mut world, "stalled", |_| {
        turns += 1;
        turns > 50
    });
    world.skip(Duration::from_secs(19));
    assert_eq!(world.sessions(), [true; 2], "it may yet go on");
    world.skip(Duration::from_secs(3));
    world.until("silent", |it| it.sessions() == [false; 2]);
    for end in 0..2 {
        assert_eq!(reasons(&world, end), [CloseReason::Silent]);
    }
    middlebox.ends();
    world.establish_by(middlebox.address);
    world.assert_carries();
}

#[test]
fn a_stall_that_passes_loses_nothing() {
    let mut world = World::new();
    let middlebox = Middlebox::new(world.listens);
    world.establish_by(middlebox.address);
    middlebox.begins(Mischief::Stalls, 2_000);
    let mut turns = 0;
    send_until(&mut world, "stalled", |_| {
        turns += 1;
        turns > 50
    });
    world.skip(Duration::from_secs(10));
    let sent = world.ends.each_ref().map(|end| end.counters().sent_frames);
    middlebox.ends();
    world.until("all of it", |it| {
        let received = it.ends.each_ref().map(|end| end.counters().received_frames);
        received[0] >= sent[1] && received[1] >= sent[0]
    });
    world.assert_carries();
}

#[test]
fn a_handshake_that_is_cut_or_stalled_anywhere_comes_to_nothing_and_leaves_nothing() {
    for mischief in [Mischief::Resets, Mischief::Truncates, Mischief::Stalls] {
        let mut world = World::new();
        let middlebox = Middlebox::new(world.listens);
        // The last may be enough for a session, which is over as soon.
        for after in [0, 100, 400, 900, 1_400] {
            middlebox.begins(mischief, after);
            world.ends[0].events.clear();
            world.dial(middlebox.address, None);
            world.skip(Duration::from_secs(22));
            world.until("told", |it| {
                let is_over =
                    |it: &Event| matches!(it, Event::Failed { .. } | Event::Closed { .. });
                it.ends[0].events.iter().any(is_over)
            });
            middlebox.ends();
        }
        world.until("nothing is left", |it| {
            let it = it.ends[1].counters();
            (it.half_open, it.open) == (0, 0)
        });
        world.establish_by(middlebox.address);
        world.assert_carries();
    }
}
