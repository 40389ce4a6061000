//! Two sessions from the first attempt to the last route.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use rhumb_bgp::{Config, DownReason, Event, Family, Session, State, Transmit};

use crate::pair::{Pair, v4, v6, via_v4, via_v6};

#[test]
fn they_come_up_and_agree() {
    let pair = Pair::established(|_, _| {});
    for end in 0..2 {
        assert_eq!(pair.sessions[end].state(), State::Established);
        let negotiated = pair.sessions[end].negotiated().unwrap();
        assert_eq!(negotiated.hold_time, Duration::from_secs(90));
        assert!(
            negotiated.four_octet_as
                && negotiated.extended_messages
                && negotiated.enhanced_route_refresh
        );
        assert_eq!(negotiated.families().collect::<Vec<_>>(), Family::ALL);
    }
    let ends = pair.events.map(|events| events[1..].to_vec());
    let both = [Event::EndOfRib(Family::Ipv4), Event::EndOfRib(Family::Ipv6)].to_vec();
    assert_eq!(ends, [both.clone(), both]);
}

#[test]
fn routes_come_change_and_go() {
    let mut pair = Pair::established(|_, _| {});
    pair.take(1);
    let now = pair.now;
    let (first, second, six) = (via_v4(&[64500]), via_v4(&[64500, 64496]), via_v6(&[64500]));
    let session = &mut pair.sessions[0];
    session.announce(v4(1), 0, &first, now).unwrap();
    session.announce(v4(2), 0, &first, now).unwrap();
    session.announce(v6(1), 0, &six, now).unwrap();
    pair.pump();
    let announced = |prefix, attributes: &rhumb_bgp::Attributes| Event::Announced {
        prefix,
        path: 0,
        attributes: attributes.clone(),
    };
    let mut events = pair.take(1);
    events
        .sort_by_key(|event| matches!(event, Event::Announced { prefix, .. } if *prefix != v4(1)));
    assert_eq!(events.len(), 3);
    for expected in [announced(v4(1), &first), announced(v4(2), &first), announced(v6(1), &six)] {
        assert!(events.contains(&expected), "{events:?}");
    }
    pair.sessions[0].announce(v4(1), 0, &second, now).unwrap();
    assert!(pair.sessions[0].withdraw(v4(2), 0, now) && pair.sessions[0].withdraw(v6(1), 0, now));
    pair.pump();
    let events = pair.take(1);
    let gone = |prefix| Event::Withdrawn { prefix, path: 0 };
    assert_eq!(events, [gone(v4(2)), announced(v4(1), &second), gone(v6(1))]);
    assert_eq!(
        (pair.sessions[1].count_in(Family::Ipv4), pair.sessions[1].count_in(Family::Ipv6)),
        (1, 0)
    );
}

#[test]
fn a_stopped_session_says_why_and_takes_its_routes_along() {
    let mut pair = Pair::established(|_, _| {});
    let now = pair.now;
    pair.sessions[0].announce(v4(1), 0, &via_v4(&[64500]), now).unwrap();
    pair.pump();
    pair.take(1);
    pair.sessions[0].stop("gone fishing", now);
    pair.pump();
    let events = pair.take(1);
    let [Event::Down(reason @ DownReason::Received(_)), Event::Withdrawn { prefix, .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*prefix, v4(1));
    assert_eq!(
        reason.to_string(),
        "the neighbour said: Administrative Shutdown (6/2): \"gone fishing\""
    );
    assert_eq!(pair.sessions[0].state(), State::Idle);
}

/// Nobody listens yet: it calls again soon, and still waits long for one that does not answer.
#[test]
fn the_rest_after_a_connection_that_failed_is_another_one_than_what_one_may_take() {
    let mut config = Config::new(64500, [10, 0, 0, 1].into(), 64501);
    (config.timers.connect_again, config.timers.connect_retry) = (SOON, LATE);
    let mut session = Session::new(config, 1).unwrap();
    let mut now = Pair::established(|_, _| {}).now;
    session.start(now);
    for _ in 0..3 {
        assert!(matches!(session.poll_transmit(now), Some(Transmit::Connect)));
        session.connect_failed(now);
        let again = session.poll_timeout().unwrap();
        assert!(again > now && again <= now + SOON, "{:?}", again - now);
        now = again;
        session.handle_timeout(now);
    }
    // This attempt is not answered.
    assert!(matches!(session.poll_transmit(now), Some(Transmit::Connect)));
    assert!(session.poll_timeout().unwrap() > now + SOON);
}

const SOON: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(120);
