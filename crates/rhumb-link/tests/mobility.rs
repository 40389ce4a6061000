//! A session follows its peer to another address: by a path check,
//! or by a fresh handshake. Nobody else moves it.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::SocketAddr;
use std::time::Duration;

use pair::{Fate, Flying, Net};
use rhumb_link::{CloseReason, DropReason, Event, KEEP_ALIVE, SILENCE, SessionId};

use crate::pair;

const MS: Duration = Duration::from_millis(1);
/// Of the network in `pair`.
const ROUND_TRIP: Duration = Duration::from_millis(20);
const PATH_RECORD_LEN: usize = 44;

fn elsewhere() -> SocketAddr {
    "203.0.113.66:6".parse().unwrap()
}

/// Where host 1 sends to.
fn destination(net: &Net, session: SessionId) -> SocketAddr {
    net.hosts[1].endpoint.peer(session).unwrap().address
}

fn is_path_message(flying: &Flying) -> bool {
    flying.bytes[0] >> 4 == 0xD
}

fn is_handshake(flying: &Flying) -> bool {
    !pair::is_record(&flying.bytes)
}

/// Bytes that went to and came from `address`, since the `since`-th datagram.
fn bytes_of(net: &Net, address: SocketAddr, since: usize) -> (usize, usize) {
    let sum = |of: &dyn Fn(&&Flying) -> bool| {
        net.sent[since..].iter().filter(of).map(|flying| flying.bytes.len()).sum()
    };
    (sum(&|flying| flying.to == address), sum(&|flying| flying.from == address))
}

#[test]
fn a_moved_peer_takes_its_session_along_without_a_handshake() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.take_events(0);
    net.take_events(1);
    let (home, since) = (net.hosts[0].address, net.sent.len());
    net.hosts[0].address = elsewhere();
    net.send(0, 1, b"the first from there");
    net.run(ROUND_TRIP * 3 / 2 - MS);
    assert_eq!(destination(&net, theirs), home, "before the answer is there");
    net.run(MS);
    let moved = Event::Moved { session: theirs, from: home, to: elsewhere() };
    assert_eq!(net.take_events(1), [moved]);
    assert_eq!(destination(&net, theirs), elsewhere());
    net.assert_carries("after the move");
    net.run(Duration::from_secs(60));
    assert!(!net.sent[since..].iter().any(is_handshake));
    assert_eq!((net.take_events(0), net.take_events(1)), (vec![], vec![]));
    net.assert_carries("a minute later");
}

#[test]
fn a_peer_that_moves_during_a_flow_receives_again_after_two_round_trips() {
    let mut net = Net::pair();
    net.establish();
    let (interval, mut last, mut gap) = (5 * MS, net.now, Duration::ZERO);
    for tick in 0..100 {
        if tick == 20 {
            net.hosts[0].address = elsewhere();
        }
        net.send(0, 1, b"as long as the least PDU");
        net.send(1, 0, b"down");
        net.run(interval);
        if !std::mem::take(&mut net.hosts[0].received).is_empty() {
            gap = gap.max(net.now - last);
            last = net.now;
        }
    }
    net.run(ROUND_TRIP);
    assert_eq!(net.hosts[1].received.len(), 100, "nothing is lost on the way up");
    // One interval for the next record from there, one for the next to there.
    assert!(gap <= 2 * ROUND_TRIP + 2 * interval, "{gap:?}");
}

#[test]
fn a_rebound_translator_that_still_passes_the_old_address_moves_it_once() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.take_events(1);
    let home = net.hosts[0].address;
    net.hosts[0].address = elsewhere();
    let mut passed_on = 0;
    for _ in 0..50 {
        net.send(0, 1, b"as long as the least PDU");
        net.send(1, 0, b"down");
        net.run(10 * MS);
        // What goes to the old address reaches the peer all the
        // same, whose answers come from the new one.
        for flying in std::mem::take(&mut net.outside) {
            assert_eq!(flying.to, home);
            passed_on += usize::from(is_path_message(&flying));
            net.deliver(&Flying { to: elsewhere(), ..flying }).unwrap();
        }
    }
    assert!(passed_on >= 1, "the old address was asked too");
    let moved = Event::Moved { session: theirs, from: home, to: elsewhere() };
    assert_eq!(net.take_events(1), [moved]);
}

#[test]
fn a_peer_may_move_back_and_forth() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    let home = net.hosts[0].address;
    let since = net.sent.len();
    for round in 0..20 {
        let at = if round % 2 == 0 { elsewhere() } else { home };
        net.hosts[0].address = at;
        net.send(0, 1, b"a PDU from here now");
        net.run(150 * MS);
        assert_eq!(destination(&net, theirs), at, "round {round}");
    }
    assert!(!net.sent[since..].iter().any(is_handshake));
    net.assert_carries("after twenty moves");
}

#[test]
fn an_idle_peer_that_moved_is_found_by_its_keep_alives() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.hosts[0].address = elsewhere();
    // One keep-alive does not pay for a challenge, two do.
    net.run(2 * KEEP_ALIVE + Duration::from_secs(1));
    assert_eq!(destination(&net, theirs), elsewhere());
    net.assert_carries("after idling");
}

#[test]
fn a_lost_challenge_or_answer_is_made_up_for() {
    for lost in 0..4 {
        let mut net = Net::pair();
        let (_, theirs) = net.establish();
        net.hosts[0].address = elsewhere();
        let mut path_messages = 0;
        net.set_fate(move |_, flying| {
            path_messages += usize::from(is_path_message(flying));
            let is_lost = is_path_message(flying) && path_messages <= lost;
            if is_lost { Fate::Lost } else { Fate::Arrives }
        });
        for _ in 0..60 {
            net.send(0, 1, b"as long as the least PDU");
            net.run(10 * MS);
        }
        assert_eq!(destination(&net, theirs), elsewhere(), "{lost} lost");
    }
}

#[test]
fn a_record_raced_from_elsewhere_diverts_nothing() {
    let mut net = Net::pair();
    let (ours, theirs) = net.establish();
    let home = net.hosts[0].address;
    let mut record = net.seal(0, ours, b"a captured record").unwrap();
    record.from = elsewhere();
    net.deliver(&record).expect("it is authentic all the same");
    assert_eq!(net.hosts[1].endpoint.records_from_elsewhere(), 1);
    net.run(Duration::from_secs(1));
    assert_eq!(destination(&net, theirs), home);
    assert_eq!(net.seal(1, theirs, b"answer").unwrap().to, home);
    // He is asked, but cannot answer, and what the peer sends next comes from home.
    assert!(net.outside.iter().all(is_path_message));
    assert_eq!(net.outside.len(), 1);
    net.assert_carries("after the attempt");
    assert_eq!(net.outside.len(), 1);
}

#[test]
fn replayed_and_forged_records_from_elsewhere_cause_nothing() {
    let mut net = Net::pair();
    let (ours, theirs) = net.establish();
    let (home, since) = (net.hosts[0].address, net.sent.len());
    let genuine = net.seal(0, ours, b"genuine").unwrap();
    net.deliver(&genuine).unwrap();
    let replayed = Flying { from: elsewhere(), ..genuine.clone() };
    assert_eq!(net.deliver(&replayed), Err(DropReason::Replayed));
    for at in 4..genuine.bytes.len() {
        let mut forged = replayed.clone();
        forged.bytes[at] ^= 0x40;
        assert!(net.deliver(&forged).is_err(), "byte {at}");
    }
    assert_eq!(net.sent.len(), since, "nothing is sent");
    assert_eq!(net.hosts[1].endpoint.records_from_elsewhere(), 0);
    assert_eq!(destination(&net, theirs), home);
}

#[test]
fn a_late_record_from_a_former_address_causes_nothing() {
    let mut net = Net::pair();
    let (ours, theirs) = net.establish();
    let late = net.seal(0, ours, b"overtaken").unwrap();
    net.hosts[0].address = elsewhere();
    net.send(0, 1, b"the first from there");
    net.run(200 * MS);
    assert_eq!(destination(&net, theirs), elsewhere());
    net.run(Duration::from_secs(1));
    let since = net.sent.len();
    net.deliver(&late).unwrap();
    assert_eq!(net.sent.len(), since, "it is older than what came from the present address");
    assert_eq!(destination(&net, theirs), elsewhere());
}

#[test]
fn no_more_bytes_go_to_an_unproven_address_than_came_from_there() {
    for len in [0, 1, 15, 16, 17, 1000] {
        let mut net = Net::pair();
        let (ours, _) = net.establish();
        let since = net.sent.len();
        let mut given = 0;
        for round in 0..40 {
            for _ in 0..3 {
                let record = net.seal(0, ours, &vec![7; len]).unwrap();
                given += record.bytes.len();
                net.deliver(&Flying { from: elsewhere(), ..record }).unwrap();
            }
            net.run(10 * MS);
            let (taken, _) = bytes_of(&net, elsewhere(), since);
            assert!(taken <= given, "{len}: {taken} bytes for {given} after round {round}");
            assert!(taken.is_multiple_of(PATH_RECORD_LEN));
        }
        // 400 ms: at 0, 100, 200 and 300 ms, or a little later where the first did not pay.
        let (taken, _) = bytes_of(&net, elsewhere(), since);
        assert_eq!(taken / PATH_RECORD_LEN, 4, "{len}: asked again and again, but not often");
    }
}

#[test]
fn whoever_passes_records_on_diverts_a_session_only_while_he_does() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.take_events(1);
    let (home, server) = (net.hosts[0].address, net.hosts[1].address);
    // He sees all that the peer sends, before the network
    // delivers it, and passes on what he is sent.
    let mut seen = net.sent.len();
    let mut race = |net: &mut Net| {
        while let Some(mut flying) = net.sent.get(seen).cloned() {
            seen += 1;
            if flying.from == home {
                flying.from = elsewhere();
                let _ = net.deliver(&flying);
            }
        }
        for flying in std::mem::take(&mut net.outside) {
            let _ = net.deliver(&Flying { from: server, to: home, ..flying });
        }
    };
    for tick in 0..200 {
        if tick % 10 == 0 {
            net.send(0, 1, b"that is seen by him");
        }
        race(&mut net);
        net.run(MS);
        race(&mut net);
    }
    assert_eq!(destination(&net, theirs), elsewhere(), "as long as he works at it");
    // He stops: the next record comes from home.
    net.run(100 * MS);
    net.send(0, 1, b"that is not seen by him");
    net.run(ROUND_TRIP * 3 / 2 + MS);
    assert_eq!(destination(&net, theirs), home);
    net.outside.clear();
    net.assert_carries("after he stopped");
}

#[test]
fn two_ends_that_move_at_once_lose_each_other() {
    let mut net = Net::pair();
    let (ours, theirs) = net.establish();
    net.take_events(0);
    net.take_events(1);
    net.hosts[0].address = elsewhere();
    net.hosts[1].address = "203.0.113.77:7".parse().unwrap();
    for _ in 0..25 {
        if net.find_session(0, 1).is_some() && net.find_session(1, 0).is_some() {
            net.send(0, 1, b"to where you were");
            net.send(1, 0, b"to where you were");
        }
        net.run(SILENCE / 20);
    }
    // Neither ever hears of the other: it takes a handshake with an address from elsewhere.
    let silent = |session, peer| Event::Closed {
        session,
        peer,
        reason: CloseReason::Silent,
        doubtful_from: None,
    };
    assert_eq!(net.take_events(0), [silent(ours, net.name(1))]);
    assert_eq!(net.take_events(1), [silent(theirs, net.name(0))]);
    net.establish();
    net.assert_carries("after a fresh handshake");
}

#[test]
fn a_fresh_handshake_from_another_address_moves_a_session_too() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.take_events(1);
    net.hosts[0].address = elsewhere();
    net.connect(0, 1);
    net.run(Duration::from_secs(1));
    assert_eq!(
        net.take_events(1),
        [Event::Established { session: theirs, attempt: None, peer: net.name(0), renewed: true }]
    );
    assert_eq!(destination(&net, theirs), elsewhere());
    assert_eq!(net.hosts[1].endpoint.sessions().count(), 1);
    net.assert_carries("after the move");
}

#[test]
fn a_handshake_that_does_not_complete_moves_nothing() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    let home = net.hosts[0].address;
    // Somebody replays what the peer sends from another address, but never gets the answers.
    net.set_fate(|_, _| Fate::Lost);
    net.connect(0, 1);
    net.run(Duration::from_millis(500));
    for mut flying in net.sent.clone() {
        if flying.from == home {
            flying.from = elsewhere();
            let _ = net.deliver(&flying);
        }
    }
    assert_eq!(destination(&net, theirs), home);
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);
}

#[test]
fn a_move_during_a_renewal_breaks_neither() {
    for moved_after in 0..12 {
        let mut net = Net::pair();
        let (_, theirs) = net.establish();
        let since = net.sent.len();
        net.connect(0, 1);
        while net.sent.len() < since + moved_after {
            net.run(MS);
        }
        net.hosts[0].address = elsewhere();
        for _ in 0..100 {
            if net.find_session(0, 1).is_some() {
                net.send(0, 1, b"from there");
            }
            net.run(50 * MS);
        }
        assert_eq!(destination(&net, theirs), elsewhere(), "moved after {moved_after}");
        net.assert_carries(&format!("moved after {moved_after}"));
    }
}
