//! Streams and datagrams as programs use them.

use std::time::Duration;

use rhumb_end::{
    Admits, CANCELLED, Carries, DatagramError, DropReason, EndError, Event, NOT_ALLOWED,
    PORT_CLOSED, Ports, StreamError, Way, WriteError,
};

use crate::world::{LONGEST, PORT, PORTS, World, noise};

fn ended_with(code: u64) -> Result<Option<Vec<u8>>, WriteError> {
    Err(WriteError::Over(StreamError::Ended { code }))
}

#[test]
fn both_ends_write_and_read_and_are_told_when_all_has_arrived() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.write(a, id, stream, b"question");
    world.run(Duration::from_millis(50));
    let (theirs, same) = world.opened(b)[0];
    assert_eq!(world.outcome(b, theirs, same), Ok(Some(b"question".to_vec())));
    world.write(b, theirs, same, b"answer");
    let now = world.now;
    world.end(b).finish(theirs, same, now).unwrap();
    world.end(a).finish(id, stream, now).unwrap();
    world.run(Duration::from_millis(100));
    assert_eq!(world.outcome(a, id, stream), Ok(Some(b"answer".to_vec())));
    assert_eq!(world.outcome(a, id, stream), Ok(None));
    assert!(world.events[&a].contains(&Event::Finished { id, stream }));
    assert_eq!(world.outcome(b, theirs, same), Ok(None));
}

#[test]
fn thousands_of_streams_at_once_go_each_its_way() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let streams: Vec<_> = (0..3000u32)
        .map(|n| {
            let stream = world.open(a, id);
            world.write(a, id, stream, &n.to_be_bytes());
            let now = world.now;
            world.end(a).finish(id, stream, now).unwrap();
            stream
        })
        .collect();
    world.run_until(Duration::from_secs(20), |world| world.opened(b).len() == streams.len());
    world.run(Duration::from_millis(100));
    let mut seen: Vec<u32> = world
        .opened(b)
        .into_iter()
        .map(|(id, stream)| {
            let mut bytes = Vec::new();
            assert!(world.read_all(b, id, stream, &mut bytes));
            u32::from_be_bytes(bytes.try_into().unwrap())
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..3000).collect::<Vec<_>>());
}

#[test]
fn no_more_streams_than_allowed_until_others_are_done() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let mut streams = Vec::new();
    let now = world.now;
    while let Ok(stream) = world.end(a).open(id, Way::Both, PORT, now).unwrap() {
        streams.push(stream);
        assert!(streams.len() <= 10_000);
    }
    assert_eq!(streams.len(), 4096);
    world.run(Duration::from_secs(2));
    let is_told = |world: &World| world.events[&a].contains(&Event::MayOpen { id });
    assert!(!is_told(&world));
    // Both ends are done with many of them.
    let now = world.now;
    for stream in streams.drain(..2000) {
        world.end(a).release(id, stream, now);
    }
    world.run(Duration::from_secs(1));
    for (theirs, stream) in world.opened(b).into_iter().take(2000) {
        let now = world.now;
        world.end(b).release(theirs, stream, now);
    }
    world.run(Duration::from_secs(2));
    assert!(is_told(&world));
    let now = world.now;
    assert!(world.end(a).open(id, Way::Both, PORT, now).unwrap().is_ok());
}

#[test]
fn who_does_not_read_holds_up_who_writes_and_nobody_else() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    let chunk = noise(1 << 20);
    let mut written = 0;
    for _ in 0..20_000 {
        let now = world.now;
        match world.end(a).write(id, stream, &chunk, now) {
            Ok(more) => written += more,
            Err(WriteError::Blocked) => {}
            Err(error) => panic!("{error:?}"),
        }
        world.step();
    }
    // The window, less the port at the stream's head.
    assert_eq!(written, (8 << 20) - 2);
    let (theirs, same) = world.opened(b)[0];
    let mut arrived = Vec::new();
    let before = world.events[&a].len();
    for _ in 0..2000 {
        world.read_all(b, theirs, same, &mut arrived);
        world.step();
    }
    assert_eq!(arrived.len(), written, "all of it came");
    let writable = Event::Writable { id, stream };
    assert!(world.events[&a][before..].contains(&writable));
}

#[test]
fn what_is_urgent_goes_first() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let (idle, urgent) = (world.open(a, id), world.open(a, id));
    world.run(Duration::from_millis(50));
    world.end(a).set_priority(id, idle, -1);
    world.write(a, id, idle, &noise(2 << 20));
    world.write(a, id, urgent, &noise(200_000));
    let opened = world.opened(b);
    let mut arrived = [Vec::new(), Vec::new()];
    while arrived[1].len() < 200_000 {
        world.step();
        for (bytes, (theirs, stream)) in arrived.iter_mut().zip(&opened) {
            world.read_all(b, *theirs, *stream, bytes);
        }
    }
    assert!(arrived[0].len() < 400_000, "{}", arrived[0].len());
}

#[test]
fn ports_that_are_closed_or_another_ones_say_so() {
    let (mut world, a, b) = World::pair();
    let c = world.join();
    world.end(b).offer(Carries::Streams, 9, Admits::names([c]));
    let id = world.connected(a, b).unwrap();
    let now = world.now;
    for (port, code) in [(8, PORT_CLOSED), (9, NOT_ALLOWED)] {
        let stream = world.end(a).open(id, Way::Both, port, now).unwrap().unwrap();
        world.run(Duration::from_millis(50));
        assert_eq!(world.outcome(a, id, stream), ended_with(code));
        let now = world.now;
        let written = world.end(a).write(id, stream, b"x", now);
        assert_eq!(written, Err(WriteError::Over(StreamError::Ended { code })));
        let refused = Event::Refused { peer: a, local: b, port: Some(port) };
        assert!(world.events[&b].contains(&refused));
    }
    assert!(world.opened(b).is_empty());
}

#[test]
fn who_is_offered_nothing_is_told_so_before_he_costs_anything() {
    let (mut world, _, b) = World::pair();
    let c = world.join();
    assert_eq!(world.connected(c, b).unwrap_err(), EndError::Refused(b));
    // The packets of a hello, and no state for any.
    assert!(world.end(b).drops().of(DropReason::NotOffered) >= 1);
    assert_eq!(world.end(b).beginning(), 0);
    assert!(world.events[&b].contains(&Event::Refused { peer: c, local: b, port: None }));
    // Nor does an end that offers nothing to anybody keep silent.
    assert_eq!(world.connected(b, c).unwrap_err(), EndError::Refused(c));
}

#[test]
fn a_program_that_goes_away_ends_its_streams() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.write(a, id, stream, b"x");
    world.run(Duration::from_millis(50));
    let (theirs, same) = world.opened(b)[0];
    let now = world.now;
    world.end(b).release(theirs, same, now);
    world.run(Duration::from_millis(50));
    assert_eq!(world.outcome(a, id, stream), ended_with(CANCELLED));
    let now = world.now;
    world.end(a).release(id, stream, now);
    assert!(world.end(a).read(id, stream, 1, now).is_err(), "it is no longer his");
}

#[test]
fn streams_reset_and_stopped_say_why() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.write(a, id, stream, b"x");
    world.run(Duration::from_millis(50));
    let (theirs, same) = world.opened(b)[0];
    let now = world.now;
    world.end(a).reset(id, stream, 77, now);
    world.end(a).stop(id, stream, 78, now);
    world.run(Duration::from_millis(50));
    assert_eq!(world.outcome(b, theirs, same), ended_with(77));
    let now = world.now;
    let written = world.end(b).write(theirs, same, b"x", now);
    assert_eq!(written, Err(WriteError::Over(StreamError::Ended { code: 78 })));
}

#[test]
fn a_stream_out_is_read_at_the_other_end_alone() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let now = world.now;
    let stream = world.end(a).open(id, Way::Out, PORT, now).unwrap().unwrap();
    world.write(a, id, stream, b"told");
    world.run(Duration::from_millis(50));
    let closed = Err(WriteError::Over(StreamError::Closed));
    assert_eq!(world.outcome(a, id, stream), closed);
    let (theirs, same) = world.opened(b)[0];
    assert_eq!(world.outcome(b, theirs, same), Ok(Some(b"told".to_vec())));
    let now = world.now;
    assert!(world.end(b).write(theirs, same, b"x", now).is_err());
}

#[test]
fn datagrams_are_for_ports_and_have_a_longest() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let now = world.now;
    let max = world.end(a).max_datagram_body(id).unwrap();
    assert!(max >= 1100);
    world.end(a).send_datagram(id, PORTS, &noise(max), now).unwrap();
    world.end(a).send_datagram(id, PORTS, b"", now).unwrap();
    world.end(a).send_datagram(id, Ports { to: PORT + 1, ..PORTS }, b"x", now).unwrap();
    let len = 9999;
    let too_big = world.end(a).send_datagram(id, PORTS, &noise(len), now);
    assert!(matches!(too_big, Err(DatagramError::TooBig { len: 9999, .. })));
    world.run(Duration::from_millis(50));
    let bodies: Vec<usize> = world.events[&b]
        .iter()
        .filter_map(|event| match event {
            Event::Datagram { ports: PORTS, body, .. } => Some(body.len()),
            _ => None,
        })
        .collect();
    assert_eq!(bodies, [max, 0]);
    assert_eq!(world.end(b).drops().of(DropReason::DatagramNotOffered), 1);
}

/// Bodies of datagrams, of many lengths, some empty.
fn bodies() -> Vec<Vec<u8>> {
    (0..40).map(|number| noise([0, 1000, 1100, 30][number % 4] + number)).collect()
}

#[test]
fn datagrams_queued_together_arrive_as_they_are_and_in_order() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    world.end(b).offer(Carries::Datagrams, PORT, Admits::Everybody);
    let (now, sent) = (world.now, bodies());
    let all = sent.iter().map(Vec::as_slice);
    assert_eq!(world.end(a).send_datagrams(id, PORTS, all, now), Ok(sent.len()));
    world.run(Duration::from_millis(100));
    let arrived = world.events[&b].iter().filter_map(|event| match event {
        Event::Datagram { body, .. } => Some(body.to_vec()),
        _ => None,
    });
    assert_eq!(arrived.collect::<Vec<_>>(), sent);
}

#[test]
fn datagrams_that_find_no_room_are_left_and_it_is_told_when_there_is_some() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let (now, body) = (world.now, noise(1000));
    let all = std::iter::repeat_n(&body[..], 1000);
    let taken = world.end(a).send_datagrams(id, PORTS, all.clone(), now).unwrap();
    // A quarter of a megabyte waits at most, with what is kept of each.
    assert!((240..=262).contains(&taken), "{taken}");
    assert_eq!(world.end(a).send_datagrams(id, PORTS, all, now), Ok(0));
    world.events.clear();
    world.run(Duration::from_millis(1));
    assert!(world.events[&a].contains(&Event::MaySend { id }), "before anything has come back");
}

#[test]
fn a_train_is_as_long_as_was_asked_and_what_has_to_be_halved_comes_by_itself() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    world.run(Duration::from_secs(1));
    let found = usize::from(world.end(a).connections().next().unwrap().datagram_len);
    let (now, body) = (world.now, noise(1100));
    let mut train = Vec::new();
    for (most, longest, expected) in [(4, LONGEST, 4), (1, LONGEST, 1), (4, found - 1, 1)] {
        let all = std::iter::repeat_n(&body[..], 4);
        assert_eq!(world.end(a).send_datagrams(id, PORTS, all, now), Ok(4));
        let mut longest_train = 0;
        while let Some(it) = world.end(a).poll_train(|_| longest, most, &mut train, now) {
            assert!(it.each > 0 && it.each <= longest);
            longest_train = longest_train.max(train.chunks(it.each).len());
        }
        assert_eq!(longest_train, expected, "{most} of {longest}");
    }
}

#[test]
fn a_connection_is_used_again_and_ends_when_nobody_uses_it() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    assert_eq!(world.connect(a, b), id);
    let stream = world.open(a, id);
    world.run(Duration::from_secs(200));
    assert!(world.end(a).is_open(id), "a stream holds it");
    let now = world.now;
    world.end(a).release(id, stream, now);
    for (theirs, stream) in world.opened(b) {
        world.end(b).release(theirs, stream, now);
    }
    world.run(Duration::from_secs(130));
    assert!(!world.end(a).is_open(id));
    assert!(world.end(b).connections().next().is_none());
    assert_ne!(world.connected(a, b).unwrap(), id);
}

#[test]
fn how_a_connection_ended_is_known_as_long_as_somebody_wants_to_know() {
    // The other end has seen the end of the handshake, or not yet.
    for wait in [Duration::from_millis(50), Duration::ZERO] {
        how_it_ended_is_known(wait);
    }
}

fn how_it_ended_is_known(wait: Duration) {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    for _ in 0..2 {
        world.end(a).keep(id);
    }
    world.run(wait);
    let now = world.now;
    world.end(b).close_all(now);
    world.run(Duration::from_secs(60));
    let closed = EndError::ClosedByPeer { peer: b, code: 0 };
    let now = world.now;
    world.end(a).let_go(id, now);
    assert_eq!(world.end(a).end_of(id), Some(closed.clone()));
    let ports = Ports { from: 0, to: PORT };
    let sent = world.end(a).send_datagram(id, ports, b"x", now);
    assert_eq!(sent, Err(DatagramError::Connection(closed)));
    world.end(a).let_go(id, now);
    assert_eq!(world.end(a).end_of(id), Some(EndError::Closed), "forgotten");
}

#[test]
fn what_arrived_before_a_close_is_still_read() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.write(a, id, stream, b"last words");
    let now = world.now;
    world.end(a).finish(id, stream, now).unwrap();
    world.run(Duration::from_millis(50));
    let now = world.now;
    world.end(a).close(id, 5, now);
    world.run(Duration::from_millis(50));
    let (theirs, same) = world.opened(b)[0];
    assert_eq!(world.ended(b, theirs), Some(EndError::ClosedByPeer { peer: a, code: 5 }));
    assert_eq!(world.outcome(b, theirs, same), Ok(Some(b"last words".to_vec())));
    assert_eq!(world.outcome(b, theirs, same), Ok(None));
}
