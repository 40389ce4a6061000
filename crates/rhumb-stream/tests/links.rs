//! Links over TLS where UDP is blocked, and back to UDP where it is not.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use rhumb_link::{Event, LinkError, Transport};

use crate::world::{End, World};

#[test]
fn where_udp_is_blocked_links_go_over_tls() {
    let mut world = World::new();
    let expected = world.ends[1].name();
    let attempt = world.dial(world.listens, Some(expected));
    world.until("a session at both ends", |it| it.sessions() == [true; 2]);
    let told = |event: &Event| {
        matches!(event, Event::Established { attempt: Some(it), peer, renewed: false, .. }
            if *it == attempt && *peer == expected)
    };
    assert!(world.ends[0].events.iter().any(told), "{:?}", world.ends[0].events);
    world.assert_carries();
    let [dialler, listener] = world.ends.each_ref().map(End::counters);
    assert_eq!((dialler.open, dialler.dialled, dialler.accepted), (1, 1, 0));
    assert_eq!((listener.open, listener.dialled, listener.accepted), (1, 0, 1));
    assert_eq!(listener.half_open, 0);
}

#[test]
fn frames_of_a_batch_share_large_records_and_come_whole_and_in_order() {
    let mut world = World::new();
    world.establish();
    let before = [0, 1].map(|end| world.ends[end].counters());
    let pdus: Vec<Vec<u8>> = (0..640_u32)
        .map(|number| [&number.to_be_bytes()[..], &[number as u8; 996]].concat())
        .collect();
    world.ends[1].received.clear();
    for pdus in pdus.chunks(64) {
        world.send(0, pdus.iter().map(Vec::as_slice));
        world.turn();
    }
    world.until("all of them", |it| it.ends[1].received.len() == pdus.len());
    assert_eq!(world.ends[1].received, pdus);
    let after = [0, 1].map(|end| world.ends[end].counters());
    let frames = after[0].sent_frames - before[0].sent_frames;
    let bytes = after[0].sent_bytes - before[0].sent_bytes;
    assert!(frames >= 640);
    // 3 bytes for each frame, and 22 for each record of 16 KiB: four in a batch of 64.
    let most = 640 * 1_003 + 10 * 4 * 22 + (frames - 640) * 25;
    assert!(bytes <= most, "{bytes} of {most}");
    assert!(after[1].receive_calls - before[1].receive_calls < 640);
}

#[test]
fn links_go_back_to_udp_by_themselves_and_the_stream_ends() {
    let mut world = World::new();
    let session = world.establish();
    let relay = world.let_udp_through();
    world.skip(Duration::from_secs(62));
    let udp = [Some(Transport::Udp); 2];
    world.until("UDP is back", |it| it.transports() == udp);
    assert_eq!(world.ends[0].endpoint.session_of(&world.ends[1].name()), Some(session));
    world.assert_carries();
    world.skip(Duration::from_secs(25));
    world.until("no streams", |it| it.ends.iter().all(|end| end.counters().open == 0));
    assert_eq!(world.transports(), udp);
    world.assert_carries();
    drop(relay);
    // Blocked again: the session falls silent, and whoever connects anew is back over TLS.
    world.swallows = Some(std::net::UdpSocket::bind(world.listens).unwrap());
    world.skip(Duration::from_secs(25));
    world.until("the session is over", |it| it.sessions() == [false; 2]);
    world.establish();
    world.assert_carries();
}

#[test]
fn another_name_than_the_expected_is_refused_and_told_of() {
    let mut world = World::new();
    let other = World::new();
    let (expected, actual) = (other.ends[0].name(), world.ends[1].name());
    let attempt = world.dial(world.listens, Some(expected));
    world.skip(Duration::from_secs(12));
    let failed = |event: &Event| matches!(event, Event::Failed { .. });
    world.until("told", |it| it.ends[0].events.iter().any(failed));
    let (address, error) = (world.listens, LinkError::UnexpectedName { expected, actual });
    assert_eq!(world.ends[0].events, [Event::Failed { attempt, address, error }]);
    assert_eq!(world.ends[1].counters().open, 0, "it has not even seen a name");
    assert_eq!(world.ends[1].counters().handshakes_failed, 1);
}

#[test]
fn who_speaks_no_tls_fails_as_who_does_not_answer_at_all() {
    let mut world = World::new();
    // One that closes, one that says nothing, and one where nobody listens.
    let closes = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let closing = closes.local_addr().unwrap();
    let thread = std::thread::spawn(move || drop(closes.accept()));
    let nobody = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for address in [closing, nobody, silent.local_addr().unwrap()] {
        world.ends[0].events.clear();
        let attempt = world.dial(address, None);
        world.skip(Duration::from_secs(12));
        world.until("told", |it| !it.ends[0].events.is_empty());
        let error = LinkError::TimedOut;
        assert_eq!(world.ends[0].events, [Event::Failed { attempt, address, error }]);
    }
    thread.join().unwrap();
    assert_eq!(world.ends[0].counters().dials_failed, 3);
}

#[test]
fn a_certificate_that_is_shown_anew_is_shown_over_a_fresh_stream() {
    let mut world = World::new();
    let session = world.establish();
    let now = world.now();
    let identity = world.ends[0].identity.clone();
    world.ends[0].endpoint.show(&identity, now).unwrap();
    world.until("a second stream", |it| it.ends[1].counters().accepted == 2);
    world.until("in use", |it| it.ends[0].counters().dialled == 2);
    assert_eq!(world.ends[0].endpoint.session_of(&world.ends[1].name()), Some(session));
    world.assert_carries();
    world.skip(Duration::from_secs(25));
    world.until("one stream", |it| it.ends.iter().all(|end| end.counters().open == 1));
    world.assert_carries();
}

#[test]
fn the_last_words_of_an_end_arrive() {
    let mut world = World::new();
    let session = world.establish();
    let now = world.now();
    world.send(0, [&b"last words"[..]]);
    world.ends[0].endpoint.close(session, now);
    world.until("closed", |it| it.sessions() == [false; 2]);
    assert_eq!(world.ends[1].received, [b"last words"]);
    let reasons: Vec<_> = world.ends[1]
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [rhumb_link::CloseReason::PeerClosed]);
}
