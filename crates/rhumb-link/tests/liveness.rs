//! Idle sessions stay, silent ones end, closed ones end at both ends.

#![allow(clippy::unwrap_used)] // A test may.

mod pair;

use std::time::Duration;

use pair::{Fate, Net, is_record};
use rhumb_link::{CloseReason, DropReason, Event, KEEP_ALIVE, SILENCE};

#[test]
fn an_idle_session_lives_by_keep_alives_alone() {
    let mut net = Net::pair();
    net.establish();
    let before = net.sent.len();
    net.run(Duration::from_secs(600));
    assert!(net.find_session(0, 1).is_some() && net.find_session(1, 0).is_some());
    let records = net.sent[before..].iter().filter(|flying| is_record(&flying.bytes)).count();
    let expected = 2 * 600 / KEEP_ALIVE.as_secs() as usize;
    assert!((expected - 4..=expected + 4).contains(&records), "{records} for {expected}");
    assert_eq!(net.sent[before..].len(), records, "nothing but records");
}

#[test]
fn whoever_sends_needs_no_keep_alives() {
    let mut net = Net::pair();
    net.establish();
    for _ in 0..60 {
        net.run(Duration::from_secs(1));
        net.send(0, 1, b"data");
    }
    let from = net.hosts[0].address;
    let idle =
        net.sent.iter().filter(|f| f.from == from && is_record(&f.bytes) && f.bytes.len() == 28);
    assert!(idle.count() <= 2, "the greeting only");
}

#[test]
fn a_silent_peer_is_given_up_after_twenty_seconds() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    net.run(Duration::from_secs(30));
    net.take_events(0);
    net.set_fate(|_, _| Fate::Lost);
    net.run(SILENCE - KEEP_ALIVE - Duration::from_secs(1));
    assert!(net.find_session(0, 1).is_some(), "too early");
    net.run(KEEP_ALIVE + Duration::from_secs(2));
    let closed = Event::Closed { session, peer: net.name(1), reason: CloseReason::Silent };
    assert_eq!(net.take_events(0), [closed]);
    assert!(net.find_session(0, 1).is_none() && net.hosts[0].endpoint.peer(session).is_none());
    assert_eq!(net.seal(0, session, b"late").unwrap_err(), DropReason::StaleSession);
}

#[test]
fn a_close_ends_both_ends_at_once() {
    let mut net = Net::pair();
    let (ours, theirs) = net.establish();
    net.take_events(0);
    net.take_events(1);
    let now = net.now;
    net.hosts[0].endpoint.close(ours, now);
    net.collect(0);
    net.run(Duration::from_millis(50));
    let closed = |session, peer, reason| Event::Closed { session, peer, reason };
    assert_eq!(net.take_events(0), [closed(ours, net.name(1), CloseReason::Local)]);
    assert_eq!(net.take_events(1), [closed(theirs, net.name(0), CloseReason::PeerClosed)]);
    net.hosts[0].endpoint.close(ours, now);
    net.collect(0);
    assert_eq!(net.take_events(0), [], "closing twice does nothing");
    net.run(Duration::from_secs(30));
    let (again, _) = net.establish();
    assert_ne!(again, ours);
    net.assert_carries("after a close");
}

#[test]
fn an_old_close_does_not_end_a_renewed_session() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    // The first incarnation closes, but its close is held back, and it comes again.
    let twin = pair::identity();
    let reborn = net.add_identity(twin.clone(), rhumb_link::Config::default());
    net.connect(reborn, 1);
    net.run(Duration::from_secs(1));
    let first = net.session(reborn, 1);
    let now = net.now;
    net.set_fate(|_, flying| {
        if flying.bytes[0] >> 4 == 0xB { Fate::Late(Duration::from_secs(2)) } else { Fate::Arrives }
    });
    net.hosts[reborn].endpoint.close(first, now);
    net.collect(reborn);
    let again = net.add_identity(twin, rhumb_link::Config::default());
    net.connect(again, 1);
    net.run(Duration::from_secs(5));
    assert!(net.find_session(again, 1).is_some() && net.find_session(1, again).is_some());
    assert!(net.drops(1).contains(&(DropReason::StaleClose, 1)), "{:?}", net.drops(1));
    assert!(net.hosts[0].endpoint.peer(session).is_some());
}
