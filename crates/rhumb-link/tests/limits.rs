//! Every bound holds, with one more refused and counted, and honest peers get through once there is room.

#![allow(clippy::unwrap_used)] // A test may.

mod pair;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use pair::{Fate, Flying, Net};
use rhumb_link::{Config, DropReason, Event, LinkError};
use rhumb_wire::datagram::Datagram;

fn limited(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

/// Begins a native handshake with host 1 in the name of `from`, who answers the retry but nothing after it.
fn half_open(net: &mut Net, initial: &Flying, from: SocketAddr) -> Result<(), DropReason> {
    let before = net.sent.len();
    net.deliver(&Flying { from, ..initial.clone() })?;
    let (Ok(Datagram::Retry(token)), Ok(Datagram::Initial { inner, .. })) =
        (Datagram::parse(&net.sent[before].bytes), Datagram::parse(&initial.bytes))
    else {
        panic!("a retry for an initial")
    };
    let mut bytes = Vec::new();
    Datagram::emit_initial(Some(token), inner, &mut bytes);
    net.deliver(&Flying { from, to: initial.to, bytes })
}

fn first_hello(net: &mut Net) -> Flying {
    net.set_fate(|_, _| Fate::Lost);
    net.connect(0, 1);
    net.set_fate(|_, _| Fate::Arrives);
    net.sent[0].clone()
}

fn source(n: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0A00_0000 + n), 1000))
}

#[test]
fn half_open_native_handshakes_are_bounded_and_honest_ones_finish() {
    let config = limited(|config| config.limits.half_open_native = 50);
    let mut net = Net::pair_with(Config::default(), config);
    let initial = first_hello(&mut net);
    for n in 0..50 {
        half_open(&mut net, &initial, source(n)).unwrap();
    }
    assert_eq!(half_open(&mut net, &initial, source(50)), Err(DropReason::HalfOpenLimit));
    assert_eq!(net.hosts[1].endpoint.half_open(), 50);
    // The honest one has been trying since before the flood; room comes back after 5 s.
    net.run(Duration::from_secs(12));
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);
    net.assert_carries("after slow ones were given up");
}

#[test]
fn half_open_handshakes_of_one_source_are_bounded() {
    let mut net = Net::pair();
    let initial = first_hello(&mut net);
    let port = |n: u16| SocketAddr::from(([10, 0, 0, 1], 2000 + n));
    for n in 0..16 {
        half_open(&mut net, &initial, port(n)).unwrap();
    }
    assert_eq!(half_open(&mut net, &initial, port(16)), Err(DropReason::SourceLimit));
    half_open(&mut net, &initial, source(77)).expect("others are not affected");
    net.run(Duration::from_secs(3));
    net.assert_carries("in spite of one greedy source");
}

#[test]
fn half_open_foreign_handshakes_are_bounded_and_native_ones_not_affected() {
    let mut net = Net::pair();
    let initial = first_hello(&mut net);
    let Ok(Datagram::Initial { inner, .. }) = Datagram::parse(&initial.bytes) else { panic!() };
    let bytes = inner.to_vec();
    for n in 0..256 {
        let flying = Flying { from: source(n), to: initial.to, bytes: bytes.clone() };
        net.deliver(&flying).unwrap();
    }
    let one_more = Flying { from: source(256), to: initial.to, bytes };
    assert_eq!(net.deliver(&one_more), Err(DropReason::HalfOpenLimit));
    assert_eq!(net.hosts[1].endpoint.half_open(), 256);
    net.run(Duration::from_millis(900));
    net.assert_carries("during a foreign flood");
    net.run(Duration::from_secs(10));
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);
}

#[test]
fn sessions_are_bounded_and_renewals_are_not_new_ones() {
    let mut net = Net::new();
    net.add(Config::default());
    net.add(limited(|config| config.limits.sessions = 2));
    net.add(Config::default());
    net.add(Config::default());
    for host in [0, 2] {
        net.connect(host, 1);
        net.run(Duration::from_secs(1));
    }
    let attempt = net.connect(3, 1);
    net.run(Duration::from_secs(30));
    let address = net.hosts[1].address;
    let failed = Event::Failed { attempt, address, error: LinkError::TimedOut };
    assert_eq!(net.take_events(3), [failed]);
    assert!(net.drops(1).iter().any(|(reason, _)| *reason == DropReason::SessionLimit));
    net.take_events(1);
    net.connect(0, 1);
    net.run(Duration::from_secs(1));
    assert!(matches!(net.take_events(1)[..], [Event::Established { renewed: true, .. }]));
}

#[test]
fn who_accepts_nobody_still_connects() {
    let closed = limited(|config| config.accept = false);
    let mut net = Net::pair_with(closed, Config::default());
    let attempt = net.connect(1, 0);
    net.run(Duration::from_secs(20));
    let address = net.hosts[0].address;
    let failed = Event::Failed { attempt, address, error: LinkError::TimedOut };
    assert_eq!(net.take_events(1), [failed]);
    assert!(net.drops(0).iter().any(|(reason, _)| *reason == DropReason::NotAccepting));
    net.establish();
    net.assert_carries("connected from within");
}

#[test]
fn too_small_a_datagram_limit_is_refused() {
    let config = limited(|config| config.max_datagram_len = 1231);
    let secret = [0; 32];
    let now = Net::new().now;
    let error = rhumb_link::Endpoint::new(pair::identity(), config, secret, now).unwrap_err();
    assert_eq!(error, LinkError::DatagramLimitTooSmall(1231));
}

#[test]
fn attempts_to_one_address_are_joined() {
    let mut net = Net::pair();
    let first = net.connect(0, 1);
    assert_eq!(net.connect(0, 1), first);
    let other = rhumb_wire::Name([1; 32]);
    let address = net.hosts[1].address;
    let busy = net.hosts[0].endpoint.connect(address, Some(other), net.now);
    net.run(Duration::from_secs(1));
    let events = net.take_events(0);
    let error = LinkError::AddressBusy;
    assert_eq!(events[0], Event::Failed { attempt: busy, address, error });
    assert!(matches!(events[1], Event::Established { attempt: Some(id), .. } if id == first));
    assert_eq!(events.len(), 2);
}
