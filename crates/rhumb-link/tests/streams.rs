//! Sessions over streams: begun where UDP is blocked, left when it works again; and what nobody
//! gets into them by saying that it comes from there.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_link::{
    AttemptId, CloseReason, Config, DropReason, Event, LinkError, NewStream, SessionId, StreamNews,
    StreamOrder, Transport, WatchPeers,
};
use rhumb_trust::{Identity, x509};
use rhumb_wire::datagram::{Counter, Datagram, RecordHeader, RecordKind, SessionIndex};
use rhumb_wire::stream;

use crate::pair::{Fate, Flying, Net, identity};

/// Two hosts, 0 and 1, with identities whose certificates streams show; and who they are.
struct World {
    net: Net,
    who: Vec<Arc<Identity>>,
}

impl World {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl Fn(&mut Config)) -> Self {
        let (mut net, mut who) = (Net::new(), Vec::new());
        for _ in 0..2 {
            let mut config = Config::default();
            config.streams = true;
            change(&mut config);
            who.push(identity());
            net.add_identity(who[who.len() - 1].clone(), config);
        }
        Self { net, who }
    }

    /// Cuts UDP, and lets everything else through.
    fn block_udp(&mut self) {
        self.net.set_fate(|_, flying| match stream::is_address(&flying.to) {
            true => Fate::Arrives,
            false => Fate::Lost,
        });
    }

    fn claim(&self, host: usize) -> x509::Claim {
        x509::read(&x509::make(&self.who[host]).unwrap()).unwrap()
    }

    fn new_stream(&self, with: usize, attempt: Option<AttemptId>) -> StreamNews {
        // As different as addresses of TCP and UDP are.
        let peer = SocketAddr::new(self.net.hosts[with].address.ip(), 50_000);
        let claim = self.claim(with);
        let new = NewStream { peer, claim, max_datagram_len: 1452, attempt, shown: 0 };
        StreamNews::Opened(Box::new(new))
    }

    /// A handshake over TLS is over, that 0 has begun for this attempt.
    fn open(&mut self, attempt: AttemptId) -> Option<(SocketAddr, SocketAddr)> {
        let now = self.net.now;
        let (ours, theirs) = (self.new_stream(1, Some(attempt)), self.new_stream(0, None));
        let here = self.net.hosts[0].endpoint.handle_stream(ours, now)?;
        let there = self.net.hosts[1].endpoint.handle_stream(theirs, now)?;
        self.net.streams.insert(here, (1, there));
        self.net.streams.insert(there, (0, here));
        self.net.collect(0);
        self.net.collect(1);
        Some((here, there))
    }

    /// The attempt whose stream 0 was last told to dial.
    fn dialled(&self) -> Option<AttemptId> {
        self.net.hosts[0].orders.iter().rev().find_map(|order| match order {
            StreamOrder::Dial { attempt, .. } => Some(*attempt),
            _ => None,
        })
    }

    /// Has 0 connect to 1 where UDP is blocked.
    fn establish(&mut self) -> (SessionId, SessionId) {
        self.block_udp();
        self.net.connect(0, 1);
        self.net.run(Duration::from_millis(2_100));
        let attempt = self.dialled().expect("UDP has failed for two seconds");
        self.open(attempt).expect("both take it");
        (self.net.session(0, 1), self.net.session(1, 0))
    }

    fn transport(&self, host: usize) -> Transport {
        let session = self.net.session(host, 1 - host);
        self.net.hosts[host].endpoint.peer(session).unwrap().transport()
    }

    fn stream_orders(&self, host: usize) -> usize {
        self.net.hosts[host].orders.len()
    }
}

/// As [`Net::assert_carries`], over a network that stays as it is.
fn assert_carries(world: &mut World) {
    for (from, to) in [(0, 1), (1, 0)] {
        world.net.hosts[to].received.clear();
        world.net.send(from, to, b"carried");
        world.net.run(Duration::from_millis(100));
        let received: Vec<_> =
            world.net.hosts[to].received.iter().map(|(_, bytes)| &bytes[..]).collect();
        assert_eq!(received, [b"carried"], "{from} to {to}: {:?}", world.net.drops(to));
    }
}

/// A record that is not sealed, as streams have them.
fn frame(index: SessionIndex, kind: RecordKind, plaintext: &[u8]) -> Vec<u8> {
    let header = RecordHeader { kind, index, counter: Counter::new(0, 0) };
    [&header.emit()[..], plaintext, &[0; 16]].concat()
}

#[test]
fn where_udp_is_blocked_a_stream_is_dialled_and_carries() {
    let mut world = World::new();
    world.block_udp();
    let attempt = world.net.connect(0, 1);
    world.net.run(Duration::from_millis(1_900));
    assert_eq!(world.dialled(), None, "UDP may yet answer");
    world.net.run(Duration::from_millis(200));
    let (address, expected) = (world.net.hosts[1].address, None);
    let dial = StreamOrder::Dial { attempt, address, expected };
    assert_eq!(world.net.hosts[0].orders, [dial]);
    world.open(attempt).expect("both take it");
    let (a, b) = (world.net.session(0, 1), world.net.session(1, 0));
    let peers = [world.net.name(1), world.net.name(0)];
    let established = |session, attempt, peer| {
        vec![Event::Established { session, attempt, peer, renewed: false }]
    };
    assert_eq!(world.net.take_events(0), established(a, Some(attempt), peers[0]));
    assert_eq!(world.net.take_events(1), established(b, None, peers[1]));
    assert_eq!((world.transport(0), world.transport(1)), (Transport::Tls, Transport::Tls));
    let peer = world.net.hosts[0].endpoint.peer(a).unwrap();
    assert_eq!((peer.at, peer.max_datagram_len), (address, 1452), "as if over UDP");
    assert_carries(&mut world);
    // Nobody is told of what UDP has failed for, and keep-alives keep it.
    world.net.run(Duration::from_secs(300));
    assert_eq!((world.net.take_events(0), world.net.take_events(1)), (vec![], vec![]));
    assert_carries(&mut world);
}

#[test]
fn an_attempt_fails_when_both_ways_have() {
    for stream_first in [true, false] {
        let mut world = World::new();
        world.block_udp();
        let attempt = world.net.connect(0, 1);
        let failed = StreamNews::Failed { attempt, error: LinkError::SessionLimit };
        world.net.run(Duration::from_secs(if stream_first { 3 } else { 13 }));
        assert_eq!(world.net.take_events(0), []);
        assert_eq!(world.net.hosts[0].endpoint.handle_stream(failed, world.net.now), None);
        world.net.collect(0);
        world.net.run(Duration::from_secs(10));
        let (address, error) = (world.net.hosts[1].address, LinkError::TimedOut);
        assert_eq!(world.net.take_events(0), [Event::Failed { attempt, address, error }]);
        assert_eq!(world.open(attempt), None, "nobody waits for it any more");
    }
}

#[test]
fn whoever_carries_no_streams_is_asked_for_none_and_takes_none() {
    let mut world = World::with(|config| config.streams = false);
    world.block_udp();
    world.net.connect(0, 1);
    world.net.run(Duration::from_secs(13));
    assert!(matches!(world.net.take_events(0)[..], [Event::Failed { .. }]));
    assert_eq!(world.stream_orders(0), 0);
    let (news, now) = (world.new_stream(0, None), world.net.now);
    assert_eq!(world.net.hosts[1].endpoint.handle_stream(news, now), None);
}

#[test]
fn a_stream_is_of_no_use_once_udp_has_answered() {
    let mut world = World::new();
    let slow = Duration::from_millis(2_050);
    world.net.set_fate(move |number, _| if number < 8 { Fate::Late(slow) } else { Fate::Arrives });
    let attempt = world.net.connect(0, 1);
    world.net.run(Duration::from_secs(4));
    assert_eq!(world.dialled(), Some(attempt));
    assert_eq!(world.transport(0), Transport::Udp);
    let (news, now) = (world.new_stream(1, Some(attempt)), world.net.now);
    assert_eq!(world.net.hosts[0].endpoint.handle_stream(news, now), None);
    world.net.assert_carries("over UDP");
}

#[test]
fn a_session_leaves_its_stream_when_udp_works_again_and_nothing_is_lost() {
    let mut world = World::new();
    let (a, b) = world.establish();
    world.net.run(Duration::from_secs(30));
    world.net.set_fate(|_, _| Fate::Arrives);
    let (mut sent, mut number) = ([0, 0], 0_u32);
    for host in &mut world.net.hosts {
        host.received.clear();
    }
    // Traffic all the time, while the session goes from the one to the other.
    for _ in 0..3_000 {
        number += 1;
        for (from, to) in [(0, 1), (1, 0)] {
            world.net.send(from, to, &number.to_be_bytes());
            sent[to] += 1;
        }
        world.net.run(Duration::from_millis(10));
    }
    world.net.run(Duration::from_millis(100));
    assert_eq!((world.transport(0), world.transport(1)), (Transport::Udp, Transport::Udp));
    assert_eq!((world.net.session(0, 1), world.net.session(1, 0)), (a, b), "it is the same one");
    let received = [0, 1].map(|host| world.net.hosts[host].received.len());
    assert_eq!(received, sent, "{:?} {:?}", world.net.drops(0), world.net.drops(1));
    // The stream goes when nothing has come on it for a while, at both ends, and nobody minds.
    world.net.run(Duration::from_secs(30));
    assert!(world.net.streams.is_empty());
    let closes = |event: &Event| matches!(event, Event::Closed { .. } | Event::Former { .. });
    assert!(!(world.net.take_events(0).iter().chain(&world.net.take_events(1)).any(closes)));
    world.net.assert_carries("over UDP");
}

#[test]
fn udp_is_tried_less_and_less_while_it_stays_blocked() {
    let mut world = World::new();
    world.establish();
    let tried = |world: &mut World, span: u64| {
        let before = world.net.sent.len();
        world.net.run(Duration::from_secs(span));
        let to_udp = |it: &&Flying| !stream::is_address(&it.to);
        world.net.sent[before..].iter().filter(to_udp).count()
    };
    // An attempt is some twenty datagrams: one in the first minute, seven or so in an hour.
    let (first, hour) = (tried(&mut world, 75), tried(&mut world, 3600));
    assert!((5..=40).contains(&first), "{first}");
    assert!((3 * first..=9 * first).contains(&hour), "{first} {hour}");
    assert_eq!(world.transport(0), Transport::Tls);
}

#[test]
fn a_stream_that_is_lost_ends_its_session_at_once() {
    let mut world = World::new();
    let (a, b) = world.establish();
    world.net.take_events(0);
    world.net.take_events(1);
    let index = world.net.hosts[0].endpoint.peer(a).map(|it| stream::index_of(&it.address));
    world.net.cut(0, index.flatten().unwrap());
    world.net.collect(0);
    for (host, session) in [(0, a), (1, b)] {
        let peer = world.net.name(1 - host);
        let reason = CloseReason::Broken;
        let closed = Event::Closed { session, peer, reason, doubtful_from: None };
        assert_eq!(world.net.take_events(host), [closed]);
    }
}

#[test]
fn a_close_ends_both_ends_and_the_stream() {
    let mut world = World::new();
    let (a, _) = world.establish();
    world.net.take_events(1);
    let now = world.net.now;
    world.net.hosts[0].endpoint.close(a, now);
    // What is to be sent goes before the stream is closed, as whoever carries it has it.
    world.net.collect(0);
    world.net.run(Duration::from_millis(50));
    assert!(matches!(world.net.take_events(1)[..], [Event::Closed { .. }]));
    let closes = |order: &StreamOrder| matches!(order, StreamOrder::Close { .. });
    assert!(world.net.hosts[0].orders.iter().any(closes));
    assert!(world.net.hosts[1].orders.iter().any(closes));
}

#[test]
fn a_stream_of_a_name_that_has_a_session_takes_it_over() {
    let mut world = World::new();
    let (a, b) = world.net.establish();
    assert_eq!(world.transport(1), Transport::Udp);
    world.net.take_events(1);
    // The session fell silent, for 0, which tries to connect while 1 still has it.
    world.block_udp();
    let now = world.net.now;
    world.net.hosts[0].endpoint.close(a, now);
    let (again, b_again) = world.establish();
    assert_ne!(again, a);
    assert_eq!(b_again, b, "renewed");
    let renewed = |event: &Event| matches!(event, Event::Established { renewed: true, .. });
    assert!(world.net.take_events(1).iter().any(renewed));
    assert_carries(&mut world);
    assert_eq!(world.transport(1), Transport::Tls);
}

#[test]
fn no_datagram_gets_into_a_session_that_is_on_a_stream() {
    let mut world = World::new();
    let (_, b) = world.establish();
    let address = world.net.hosts[1].endpoint.peer(b).unwrap().address;
    let index = stream::index_of(&address).unwrap();
    world.net.hosts[1].received.clear();
    let plain = SocketAddr::new(address.ip(), address.port());
    let udp = world.net.hosts[0].address;
    // Whoever knows everything but has only UDP to send by: addresses of the peer, right index.
    for from in [plain, udp, SocketAddr::new(address.ip().to_canonical(), address.port())] {
        for kind in [RecordKind::Pdu, RecordKind::Close, RecordKind::Path, RecordKind::Bundle] {
            for lane in 0..8 {
                let mut bytes = frame(index.with_lane(lane), kind, b"forged, sixteen.");
                let now = world.net.now;
                let refused = world.net.hosts[1].endpoint.open(from, &mut bytes, now);
                assert_eq!(refused, Err(DropReason::UnknownSession), "{from} {kind:?} {lane}");
            }
        }
    }
    assert_eq!(world.net.find_session(1, 0), Some(b));
    assert_carries(&mut world);
}

#[test]
fn no_frame_gets_into_a_session_that_is_not_on_its_stream() {
    let mut world = World::new();
    world.net.establish();
    let third = world.net.add(Config::default());
    world.net.connect(third, 1);
    world.net.run(Duration::from_secs(1));
    let session = world.net.session(1, third);
    let peer = world.net.hosts[1].endpoint.peer(session).unwrap().address;
    let now = world.net.now;
    // Every index that there is, and some that are not: sealed sessions have no streams.
    let mut tried = 0;
    for sent in &world.net.sent {
        let Ok(Datagram::Record(header)) = Datagram::parse(&sent.bytes) else { continue };
        let from = stream::address_of(header.index, peer);
        for kind in [RecordKind::Pdu, RecordKind::Close] {
            let mut bytes = frame(header.index, kind, b"forged");
            let refused = world.net.hosts[1].endpoint.open(from, &mut bytes, now);
            assert_eq!(refused, Err(DropReason::UnknownSession));
            tried += 1;
        }
    }
    assert!(tried > 4);
    let hello = world.net.sent.iter().find(|it| it.bytes[0] == 0x90).unwrap().bytes.clone();
    let from = stream::address_of(SessionIndex::new(8).unwrap(), peer);
    let hello = Datagram::parse(&hello).unwrap();
    let refused = world.net.hosts[1].endpoint.handle_handshake(from, hello, now);
    assert_eq!(refused, Err(DropReason::UnexpectedHandshake));
}

#[test]
fn records_that_are_late_move_no_session_off_its_stream() {
    let mut world = World::new();
    let (a, _) = world.net.establish();
    let kept = world.net.seal(0, a, b"late").unwrap();
    let now = world.net.now;
    world.block_udp();
    world.net.hosts[0].endpoint.close(a, now);
    world.establish();
    let before = world.net.sent.len();
    world.net.hosts[1].received.clear();
    // From where it was sealed, and from elsewhere: it is opened, by its own keys, and no more.
    let elsewhere = SocketAddr::from(([198, 51, 100, 7], 9));
    let _ = world.net.deliver(&Flying { from: elsewhere, ..kept.clone() });
    let _ = world.net.deliver(&kept);
    assert_eq!(world.net.hosts[1].received.len(), 1);
    world.net.run(Duration::from_millis(400));
    let to_udp = world.net.sent[before..].iter().filter(|it| !stream::is_address(&it.to)).count();
    assert_eq!(to_udp, 0, "no challenge goes anywhere but over the stream");
    assert_eq!(world.transport(1), Transport::Tls);
    assert_carries(&mut world);
}

#[test]
fn nothing_is_sent_unsealed_but_to_the_stream() {
    let mut world = World::with(|config| config.watch_peers = WatchPeers::Everybody);
    world.establish();
    world.net.run(Duration::from_secs(120));
    world.net.set_fate(|_, _| Fate::Arrives);
    world.net.run(Duration::from_secs(120));
    assert_eq!(world.transport(0), Transport::Udp);
    world.net.assert_carries("over UDP, and watched again");
    // What went to sockets is sealed: no two counters of one index are the same, while frames
    // have none.
    let mut seen = std::collections::HashSet::new();
    for flying in world.net.sent.iter().filter(|it| !stream::is_address(&it.to)) {
        if let Ok(Datagram::Record(header)) = Datagram::parse(&flying.bytes) {
            assert!(seen.insert((flying.to, header.index, header.counter.as_u64())), "{header:?}");
        }
    }
}

#[test]
fn names_are_looked_at_on_streams_as_elsewhere() {
    let mut world = World::new();
    world.block_udp();
    let other = identity().name();
    let address = world.net.hosts[1].address;
    let now = world.net.now;
    let attempt = world.net.hosts[0].endpoint.connect(address, Some(other), now);
    world.net.run(Duration::from_millis(2_100));
    assert_eq!(world.open(attempt), None);
    world.net.collect(0);
    let error = LinkError::UnexpectedName { expected: other, actual: world.net.name(1) };
    assert_eq!(world.net.take_events(0), [Event::Failed { attempt, address, error }]);
    // Its own name.
    let own = world.new_stream(1, None);
    assert_eq!(world.net.hosts[1].endpoint.handle_stream(own, now), None);
    assert_eq!(world.net.drops(1), [(DropReason::IdentityRefused, 1)]);
}
