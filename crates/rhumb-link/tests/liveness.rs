//! Idle sessions stay, silent ones end, closed ones end at both ends.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use pair::{Fate, Net, is_record};
use rhumb_link::{
    CloseReason, Config, DropReason, Event, KEEP_ALIVE, PROBES, QUIET, SILENCE, WatchPeers,
};
use rhumb_trust::Identity;
use rhumb_wire::Role;

use crate::pair;

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
    let closed = Event::Closed {
        session,
        peer: net.name(1),
        reason: CloseReason::Silent,
        doubtful_from: None,
    };
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
    let closed =
        |session, peer, reason| Event::Closed { session, peer, reason, doubtful_from: None };
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
    // It is of a process at another address, which the session was taken over from.
    assert!(net.drops(1).contains(&(DropReason::FormerProcess, 1)), "{:?}", net.drops(1));
    assert!(net.hosts[0].endpoint.peer(session).is_some());
}

fn watchful() -> Config {
    watching(WatchPeers::Everybody)
}

fn watching(peers: WatchPeers) -> Config {
    let mut config = Config::default();
    config.watch_peers = peers;
    config
}

/// What a silent peer costs at most, over and above the wait for the
/// first probe: the network's round trip is 20 ms.
const PROBING: Duration = Duration::from_millis(100 * PROBES as u64);

#[test]
fn a_watched_peer_that_falls_silent_during_traffic_is_given_up_soon() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut net = Net::pair_with(watchful(), Config::default());
        let (session, _) = net.establish();
        for _ in 0..100 {
            net.run(Duration::from_millis(20));
            net.send(from, to, b"one way");
        }
        net.take_events(0);
        net.set_fate(|_, _| Fate::Lost);
        let cut = net.now;
        while net.find_session(0, 1).is_some() {
            if from == 0 {
                net.send(0, 1, b"into the void");
            }
            net.run(Duration::from_millis(1));
        }
        let took = net.now - cut;
        assert!(took <= QUIET + PROBING + Duration::from_millis(20), "{took:?}");
        assert!(took >= PROBING, "{took:?}: not all probes had their time");
        let events = net.take_events(0);
        let [
            Event::Doubtful { .. },
            Event::Suspected { .. },
            Event::Closed { session: closed, reason, doubtful_from, .. },
        ] = events[..]
        else {
            panic!("doubted, suspected and closed, and nothing else: {events:?}")
        };
        assert_eq!((closed, reason), (session, CloseReason::Silent));
        let from = doubtful_from.unwrap();
        assert!(from <= cut, "what was sent after {from:?} is in doubt, and the cut came before");
        assert!(cut - from <= QUIET + Duration::from_millis(100), "{:?}", cut - from);
    }
}

#[test]
fn a_watched_peer_that_falls_silent_while_idle_is_given_up_after_a_keep_alive() {
    let mut net = Net::pair_with(watchful(), Config::default());
    net.establish();
    net.run(Duration::from_secs(30));
    net.set_fate(|_, _| Fate::Lost);
    net.run(KEEP_ALIVE + PROBING + Duration::from_millis(20));
    assert!(net.find_session(0, 1).is_none());
    assert!(net.find_session(1, 0).is_some(), "the other end does not watch");
}

#[test]
fn watching_an_idle_peer_costs_what_keep_alives_do() {
    let mut net = Net::pair_with(watchful(), Config::default());
    net.establish();
    net.run(Duration::from_secs(5));
    let before = net.sent.len();
    net.run(Duration::from_secs(600));
    let expected = 2 * 600 / KEEP_ALIVE.as_secs() as usize;
    let sent = net.sent.len() - before;
    assert!((expected - 4..=expected + 4).contains(&sent), "{sent} for {expected}");
}

#[test]
fn watching_a_peer_that_answers_costs_four_probes_a_second_at_most() {
    let mut net = Net::pair_with(watchful(), Config::default());
    net.establish();
    let before = net.sent.len();
    for _ in 0..1000 {
        net.send(0, 1, b"one way");
        net.run(Duration::from_millis(10));
    }
    // Those about sizes are longer, and each has an answer.
    let (path, sizes): (Vec<_>, Vec<_>) = net.sent[before..]
        .iter()
        .filter(|flying| flying.bytes[0] >> 4 == 0xD)
        .partition(|flying| flying.bytes.len() == 44);
    let path = path.len() - sizes.len();
    assert!((2 * 25..=2 * 40).contains(&path), "{path} path messages in 10 s");
    let before = net.sent.len();
    for _ in 0..1000 {
        net.send(0, 1, b"both ways");
        net.send(1, 0, b"both ways");
        net.run(Duration::from_millis(10));
    }
    // Traffic shows that the peer is there; that it is asked all the
    // same, now and then, shows how much is lost.
    let sizes = net.sent[before..].iter().filter(|flying| flying.bytes.len() > 1000).count();
    let asked = net.sent.len() - before - 2000 - 2 * sizes;
    assert!((2..=20).contains(&asked), "{asked} path messages");
}

#[test]
fn both_ends_may_watch() {
    let mut net = Net::pair_with(watchful(), watchful());
    net.establish();
    net.run(Duration::from_secs(120));
    net.assert_carries("after idling");
    net.take_events(0);
    net.take_events(1);
    net.set_fate(|_, _| Fate::Lost);
    net.run(KEEP_ALIVE + PROBING + Duration::from_millis(20));
    for host in 0..2 {
        let events = net.take_events(host);
        let expected = matches!(
            events[..],
            [Event::Doubtful { .. }, Event::Suspected { .. }, Event::Closed { .. }]
        );
        assert!(expected, "{host}: {events:?}");
    }
}

/// Loses one datagram in so many, by chance that is the same in each run.
fn lose_one_in(net: &mut Net, share: u64) {
    // A linear congruential generator (Knuth's constants).
    let mut chance: u64 = 1;
    net.set_fate(move |_, _| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (chance >> 33).is_multiple_of(share) { Fate::Lost } else { Fate::Arrives }
    });
}

#[test]
fn a_watched_peer_is_not_given_up_where_much_is_lost_in_haste_or_not() {
    for (share, hasty) in [(5, false), (5, true), (20, true), (100, true)] {
        let mut net = Net::pair_with(watchful(), Config::default());
        let (session, _) = net.establish();
        net.hosts[0].endpoint.hasten(session, hasty);
        net.take_events(0);
        net.take_events(1);
        lose_one_in(&mut net, share);
        for tick in 0..60_000 {
            // A minute of traffic, a minute without, for an hour and a half.
            if (tick / 600) % 2 == 0 {
                net.send(0, 1, b"one way");
            }
            net.run(Duration::from_millis(100));
        }
        let ends = |event: &Event| matches!(event, Event::Closed { .. });
        let ended = net.hosts[0].events.iter().chain(&net.hosts[1].events).any(ends);
        assert!(!ended, "one in {share}");
    }
}

#[test]
fn in_haste_and_after_a_minute_without_loss_a_silent_peer_is_given_up_within_a_second() {
    for hasty in [false, true] {
        let mut net = Net::pair_with(watchful(), Config::default());
        let (session, _) = net.establish();
        let exchange = |net: &mut Net| {
            net.send(0, 1, b"there");
            net.send(1, 0, b"and back");
            net.run(Duration::from_millis(10));
        };
        (0..6000).for_each(|_| exchange(&mut net));
        net.set_fate(|_, _| Fate::Lost);
        let cut = net.now;
        // Whoever stands by is found while the peer is only suspected.
        net.run(QUIET + Duration::from_millis(150));
        net.hosts[0].endpoint.hasten(session, hasty);
        while net.find_session(0, 1).is_some() {
            net.run(Duration::from_millis(1));
        }
        let took = net.now - cut;
        let most = if hasty { Duration::from_millis(600) } else { PROBING };
        assert!(
            (most - QUIET..=QUIET + most + Duration::from_millis(20)).contains(&took),
            "{took:?}"
        );
    }
}

#[test]
fn who_watches_routers_leaves_others_alone() {
    for role in [Role::Router, Role::Node] {
        let mut net = Net::new();
        net.add(watching(WatchPeers::Routers));
        net.add_identity(Identity::generate(role, 1).unwrap().into(), Config::default());
        net.establish();
        for _ in 0..100 {
            net.send(0, 1, b"one way");
            net.run(Duration::from_millis(10));
        }
        net.set_fate(|_, _| Fate::Lost);
        net.run(QUIET + PROBING + Duration::from_millis(20));
        assert_eq!(net.find_session(0, 1).is_none(), role == Role::Router, "{role:?}");
    }
}

#[test]
fn a_first_question_left_unanswered_is_told_once_and_so_is_a_third() {
    let mut net = Net::pair_with(watchful(), Config::default());
    let (session, _) = net.establish();
    net.take_events(0);
    for pause in [QUIET / 2, QUIET + Duration::from_millis(50), QUIET + PROBING / 2] {
        net.send(0, 1, b"before");
        net.run(Duration::from_millis(30));
        net.set_fate(|_, _| Fate::Lost);
        net.send(0, 1, b"in vain");
        net.run(pause);
        net.set_fate(|_, _| Fate::Arrives);
        net.run(Duration::from_millis(300));
        let told = net.take_events(0);
        let all = [Event::Doubtful { session }, Event::Suspected { session }];
        let unanswered = [QUIET, QUIET + PROBING / 4].iter().filter(|it| pause > **it).count();
        assert_eq!(told, all[..unanswered], "{pause:?}");
        assert!(!net.hosts[0].endpoint.is_suspected(session), "it was heard again");
    }
    net.assert_carries("after suspicion");
}
