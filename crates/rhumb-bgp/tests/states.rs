//! The state machine in virtual time: timers of both sides, errors, two connections at once, rests.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use pair::Pair;
use rhumb_bgp::wire::{BgpRole, NotificationCode, cease_subcode};
use rhumb_bgp::{DownReason, Event, Family, FamilyConfig, State};

use crate::pair;

const SECOND: Duration = Duration::from_secs(1);

/// Code and subcode of the last NOTIFICATION that an end has sent.
fn said(pair: &Pair, end: usize) -> Option<(u8, u8)> {
    let notification = pair.sent[end].iter().rev().find(|message| message[18] == 3)?;
    Some((notification[19], notification[20]))
}

fn states(pair: &Pair) -> [State; 2] {
    [pair.sessions[0].state(), pair.sessions[1].state()]
}

#[test]
fn every_state_is_passed_in_its_order() {
    let mut pair = Pair::new(|_, right| right.passive = true);
    pair.connects = false;
    assert_eq!(states(&pair), [State::Idle, State::Idle]);
    assert!(
        pair.sessions[0].connected(rhumb_bgp::Side::Incoming, pair.now).is_none(),
        "a stopped session takes nothing"
    );
    pair.start();
    assert_eq!(states(&pair), [State::Connect, State::Active]);
    pair.refuse(0);
    assert_eq!(pair.sessions[0].state(), State::Active);
    pair.advance(120 * SECOND);
    assert_eq!(pair.sessions[0].state(), State::Connect);
    pair.mute = [true, true];
    pair.connect(0);
    pair.pump();
    assert_eq!(states(&pair), [State::OpenSent, State::OpenSent]);
    let open = pair.sent[1][0].clone();
    pair.hear(0, &open);
    assert_eq!(states(&pair), [State::OpenConfirm, State::OpenSent]);
    let keepalive = pair.sent[0].last().unwrap().clone();
    assert_eq!(keepalive.len(), 19);
    pair.hear(0, &keepalive);
    assert_eq!(pair.sessions[0].state(), State::Established);
}

#[test]
fn an_attempt_that_hangs_is_begun_anew() {
    let mut pair = Pair::new(|_, right| right.passive = true);
    pair.connects = false;
    pair.start();
    for _ in 0..3 {
        assert!(std::mem::take(&mut pair.attempts[0]));
        let at = pair.sessions[0].poll_timeout().unwrap() - pair.now;
        assert!(at >= 90 * SECOND && at <= 120 * SECOND, "{at:?}");
        pair.advance(at);
    }
}

#[test]
fn keepalives_hold_a_session_and_silence_ends_it() {
    let mut pair = Pair::established(|left, _| left.timers.hold = 9 * SECOND);
    let before = pair.sent[0].len();
    pair.advance(600 * SECOND);
    let keepalives = pair.sent[0].len() - before;
    assert!(
        (200..=267).contains(&keepalives),
        "a third of 9 s, less up to a quarter: {keepalives}"
    );
    assert_eq!(states(&pair), [State::Established, State::Established]);

    pair.mute[1] = true;
    pair.take(0);
    pair.advance(10 * SECOND);
    assert_eq!(said(&pair, 0), Some((4, 0)));
    assert!(
        matches!(&pair.events[0][..], [Event::Down(DownReason::Sent(said))] if said.code == NotificationCode::HoldTimerExpired)
    );
    assert!(matches!(pair.events[1].last(), Some(Event::Down(DownReason::Received(_)))));
}

#[test]
fn a_hold_time_of_zero_asks_for_no_keepalives() {
    let mut pair = Pair::established(|left, _| left.timers.hold = Duration::ZERO);
    let before = pair.sent[0].len();
    pair.mute = [true, true];
    pair.advance(100_000 * SECOND);
    assert_eq!((pair.sent[0].len(), states(&pair)), (before, [State::Established; 2]));
}

#[test]
fn an_open_that_never_comes_ends_the_connection() {
    let mut pair = Pair::new(|_, right| right.passive = true);
    pair.mute = [true, true];
    pair.start();
    pair.advance(239 * SECOND);
    assert_eq!(pair.sessions[0].state(), State::OpenSent);
    pair.advance(SECOND);
    assert_eq!(said(&pair, 0), Some((4, 0)));
    assert_eq!(pair.sessions[0].state(), State::Idle);
}

#[test]
fn errors_are_followed_by_rests_that_double_up_to_a_bound() {
    // Each finds the other's number wrong.
    let mut pair = Pair::new(|left, right| {
        right.passive = true;
        left.remote_as = 64999;
    });
    pair.start();
    let mut rests = Vec::new();
    for _ in 0..9 {
        assert_eq!(said(&pair, 0), Some((2, 2)));
        assert_eq!(pair.sessions[0].state(), State::Idle);
        rests.push(pair.sessions[0].poll_timeout().unwrap() - pair.now);
        // The other end rests as well: it was told of an error.
        pair.advance(300 * SECOND);
    }
    assert!(rests[0] <= 5 * SECOND && rests[0] >= 3 * SECOND, "{rests:?}");
    assert!(rests.iter().all(|rest| *rest <= 300 * SECOND), "{rests:?}");
}

#[test]
fn two_connections_at_once_are_one_too_many() {
    for (left_id, right_id, winner) in [(1, 2, 1), (2, 1, 0)] {
        let mut pair = Pair::new(|left, right| {
            left.local_id = [10, 0, 0, left_id].into();
            right.local_id = [10, 0, 0, right_id].into();
        });
        pair.connects = false;
        pair.start();
        assert_eq!(pair.attempts, [true, true]);
        // Both connect before either OPEN is read.
        pair.connect(0);
        pair.connect(1);
        pair.pump();
        assert_eq!(
            states(&pair),
            [State::Established; 2],
            "who has the higher identifier keeps its own"
        );
        assert_eq!(pair.connections_by(), [usize::from(winner == 0), usize::from(winner == 1)]);
        let collisions =
            pair.sessions.iter().map(|session| session.counters().collisions).sum::<u64>();
        assert!(collisions >= 1);
        let is_it =
            |end| said(&pair, end) == Some((6, cease_subcode::CONNECTION_COLLISION_RESOLUTION));
        assert!(is_it(0) || is_it(1));
        let ups =
            pair.events.iter().flatten().filter(|event| matches!(event, Event::Up(_))).count();
        assert_eq!(ups, 2);
    }
}

#[test]
fn an_established_session_takes_no_second_connection() {
    let mut pair = Pair::established(|_, _| {});
    let now = pair.now;
    assert!(pair.sessions[1].connected(rhumb_bgp::Side::Incoming, now).is_none());
    assert!(pair.sessions[0].connected(rhumb_bgp::Side::Outgoing, now).is_none());
    assert_eq!(states(&pair), [State::Established; 2]);
    assert_eq!(pair.sessions[1].counters().refused_connections, 1);
}

#[test]
fn an_open_with_a_fault_is_refused_by_its_name() {
    let refused = |change: fn(&mut rhumb_bgp::Config)| {
        let mut pair = Pair::new(|left, right| {
            right.passive = true;
            change(left);
        });
        pair.start();
        (said(&pair, 0), said(&pair, 1))
    };
    // Who finds the fault is the other end, end 1.
    assert_eq!(refused(|left| left.local_as = 64999).1, Some((2, 2)), "bad peer AS");
    let no_common = refused(|left| {
        left.set_family(Family::Ipv4, None);
        left.set_family(Family::Ipv6, None);
        left.set_family(Family::Ipv6, Some(FamilyConfig::default()));
    });
    assert_eq!(no_common, (None, None), "IPv6 is common");
    let mut pair = Pair::new(|left, right| {
        right.passive = true;
        left.set_family(Family::Ipv4, None);
        right.set_family(Family::Ipv6, None);
    });
    pair.start();
    assert_eq!(said(&pair, 1).or(said(&pair, 0)), Some((2, 7)), "unsupported capability");
}

#[test]
fn roles_that_do_not_fit_are_refused() {
    for (left, right, strict, refused) in [
        (Some(BgpRole::Provider), Some(BgpRole::Customer), false, false),
        (Some(BgpRole::RouteServer), Some(BgpRole::RouteServerClient), true, false),
        (Some(BgpRole::Peer), Some(BgpRole::Peer), false, false),
        (Some(BgpRole::Provider), Some(BgpRole::Provider), false, true),
        (Some(BgpRole::RouteServer), Some(BgpRole::Customer), false, true),
        (Some(BgpRole::Peer), None, false, false),
        (Some(BgpRole::Peer), None, true, true),
    ] {
        let mut pair = Pair::new(|one, other| {
            other.passive = true;
            (one.role, other.role, one.strict_role) = (left, right, strict);
        });
        pair.start();
        let is_refused = said(&pair, 0) == Some((2, 11)) || said(&pair, 1) == Some((2, 11));
        assert_eq!(is_refused, refused, "{left:?} {right:?} {strict}");
        assert_eq!(pair.sessions[0].state() == State::Established, !refused);
    }
}

#[test]
fn what_is_no_message_ends_the_session_by_its_name() {
    let marker = [0xff; 16];
    let message = |tail: &[u8]| [&marker[..], tail].concat();
    let mut broken_marker = message(&[0, 19, 4]);
    broken_marker[3] = 0;
    for (bytes, expected) in [
        (broken_marker, (1, 1)),
        (message(&[0, 18, 4]), (1, 2)),
        (message(&[0, 20, 4]), (1, 2)),
        (message(&[0, 22, 2]), (1, 2)),
        (message(&[0, 28, 1]), (1, 2)),
        (message(&[0, 20, 3]), (1, 2)),
        (message(&[0, 19, 6]), (1, 3)),
        // An OPEN where none belongs: RFC 6608 names the state.
        (message(&[0, 29, 1, 4, 251, 244, 0, 90, 10, 0, 0, 1, 0]), (5, 3)),
        // A refresh that ends too early (RFC 7313, section 5).
        (message(&[0, 22, 5, 0, 1, 1]), (7, 1)),
    ] {
        let mut pair = Pair::established(|_, _| {});
        pair.hear(1, &bytes);
        assert_eq!(said(&pair, 1), Some(expected), "{bytes:?}");
        assert!(matches!(pair.events[1].last(), Some(Event::Down(DownReason::Sent(_)))));
        assert_ne!(pair.sessions[1].state(), State::Established);
    }
}

#[test]
fn messages_grow_where_both_sides_offer_it() {
    for (offers, expected) in [(true, State::Established), (false, State::Idle)] {
        let mut pair = Pair::established(|left, _| left.extended_messages = offers);
        // An UPDATE of 5000 bytes: one withdrawal, 2490 times.
        let withdrawn = [16u8, 10, 0].repeat(1659);
        let length = (withdrawn.len() + 23) as u16;
        let mut bytes = [0xff; 16].to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.push(2);
        bytes.extend((withdrawn.len() as u16).to_be_bytes());
        bytes.extend(&withdrawn);
        bytes.extend([0, 0]);
        pair.hear(1, &bytes);
        assert_eq!(pair.sessions[1].state(), expected);
        assert_eq!(said(&pair, 1), (!offers).then_some((1, 2)));
    }
}

#[test]
fn who_announces_too_much_rests_for_long() {
    let mut pair = Pair::established(|_, right| {
        right.set_family(
            Family::Ipv4,
            Some(FamilyConfig { max_prefixes: Some(10), ..FamilyConfig::default() }),
        );
    });
    let now = pair.now;
    let announce = |pair: &mut Pair, numbers: std::ops::Range<u16>| {
        for number in numbers {
            pair.sessions[0].announce(pair::v4(number), 0, &pair::via_v4(&[64500]), now).unwrap();
        }
        pair.pump();
    };
    announce(&mut pair, 0..10);
    assert_eq!(pair.sessions[1].state(), State::Established);
    announce(&mut pair, 10..11);
    assert_eq!(said(&pair, 1), Some((6, cease_subcode::MAX_PREFIXES)));
    let notification = pair.sent[1].last().unwrap();
    assert_eq!(notification[21..], [0, 1, 1, 0, 0, 0, 10], "RFC 4486: the family and the bound");
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0);
    let withdrawn =
        pair.events[1].iter().filter(|event| matches!(event, Event::Withdrawn { .. })).count();
    let announced =
        pair.events[1].iter().filter(|event| matches!(event, Event::Announced { .. })).count();
    assert_eq!((announced, withdrawn), (11, 11));
    pair.advance(1200 * SECOND);
    assert_eq!(pair.sessions[1].state(), State::Idle);
    assert_eq!(pair.sessions[1].counters().established, 1);
    pair.advance(900 * SECOND);
    assert_eq!(pair.sessions[1].counters().established, 2);
}

#[test]
fn a_neighbour_that_takes_nothing_is_given_up() {
    let mut pair = Pair::established(|_, _| {});
    let start = pair.now;
    pair.sessions[0].announce(pair::v4(1), 0, &pair::via_v4(&[64500]), start).unwrap();
    // The driver has no room to write, and so does not poll; KEEPALIVEs come in all the same.
    let keepalive = [&[0xff; 16][..], &[0, 19, 4]].concat();
    let mut now = start;
    while pair.sessions[0].state() == State::Established && now < start + 600 * SECOND {
        now += 10 * SECOND;
        pair.hear_without_pump(0, &keepalive, now);
        pair.sessions[0].handle_timeout(now);
    }
    assert_eq!(now - start, 480 * SECOND, "RFC 9687: 8 minutes");
    let is_it = |event: &Event| matches!(event, Event::Down(DownReason::Sent(said)) if said.code == NotificationCode::SendHoldTimerExpired);
    assert!(std::iter::from_fn(|| pair.sessions[0].poll_event()).any(|event| is_it(&event)));
}

#[test]
fn a_lost_connection_is_sought_again() {
    let mut pair = Pair::established(|_, _| {});
    pair.cut();
    for end in 0..2 {
        assert_eq!(pair.events[end].last(), Some(&Event::Down(DownReason::Closed)));
    }
    pair.advance(5 * SECOND);
    assert_eq!(states(&pair), [State::Established; 2]);
    pair.sessions[0].reset("try again", pair.now);
    pair.advance(5 * SECOND);
    assert_eq!(states(&pair), [State::Established; 2]);
    assert_eq!(pair.sessions[0].counters().established, 3);
    pair.sessions[0].stop("", pair.now);
    pair.advance(1000 * SECOND);
    assert_eq!(states(&pair), [State::Idle, State::Active]);
    pair.sessions[0].start(pair.now);
    pair.pump();
    assert_eq!(states(&pair), [State::Established; 2]);
}
