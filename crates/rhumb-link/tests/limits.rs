//! Every bound holds, with one more refused and counted, and
//! honest peers get through once there is room.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use pair::{Fate, Flying, Net};
use rhumb_link::{Config, DropReason, Event, LinkError};
use rhumb_trust::{Access, Now, Rule, Standing};
use rhumb_wire::datagram::Datagram;

use crate::pair;

fn limited(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

/// Begins a native handshake with host 1 in the name of
/// `from`, who answers the retry but nothing after it.
fn half_open(net: &mut Net, initial: &Flying, from: SocketAddr) -> Result<(), DropReason> {
    let before = net.sent.len();
    net.deliver(&Flying { from, ..initial.clone() })?;
    let (Ok(Datagram::Retry { token, .. }), Ok(Datagram::Initial { inner, .. })) =
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

fn admit(net: &mut Net, server: usize, friend: usize) {
    let rules = vec![Rule::named(net.name(friend), Standing::Admitted)];
    let now = Now { instant: net.now, unix_ms: 0 };
    net.hosts[server].endpoint.set_access(Access { rules, ..Access::default() }, now);
}

fn source(n: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0A00_0000 + n), 1000))
}

#[test]
fn half_open_native_handshakes_are_bounded_and_honest_ones_finish() {
    let config = limited(|config| config.limits.half_open = 50);
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
    for n in 0..64 {
        half_open(&mut net, &initial, port(n)).unwrap();
    }
    assert_eq!(half_open(&mut net, &initial, port(64)), Err(DropReason::SourceLimit));
    half_open(&mut net, &initial, source(77)).expect("others are not affected");
    net.run(Duration::from_secs(3));
    net.assert_carries("in spite of one greedy source");
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

/// Another host, at the address of others but for the port.
fn neighbour(net: &mut Net, port: u16) -> usize {
    let host = net.add(Config::default());
    net.hosts[host].address = SocketAddr::from(([198, 51, 100, 9], port));
    host
}

#[test]
fn sessions_of_one_source_are_bounded_but_for_who_is_admitted() {
    let mut net = Net::new();
    let server = net.add(limited(|config| config.limits.sessions_per_source = 3));
    let join = |net: &mut Net, host: usize| {
        net.connect(host, server);
        net.run(Duration::from_secs(1));
        net.find_session(server, host).is_some()
    };
    let hosts: Vec<usize> = (0..4).map(|n| neighbour(&mut net, 1000 + n)).collect();
    assert!(hosts[..3].iter().all(|host| join(&mut net, *host)));
    assert!(!join(&mut net, hosts[3]));
    assert!(net.drops(server).iter().any(|(it, _)| *it == DropReason::SourceSessionLimit));
    assert_eq!(net.hosts[server].endpoint.most_strangers_at_a_source(), (3, 3));
    let elsewhere = net.add(Config::default());
    assert!(join(&mut net, elsewhere), "others are not affected");
    // Who is admitted is no stranger, and neither is whom we connect to.
    let friend = neighbour(&mut net, 2000);
    admit(&mut net, server, friend);
    assert!(join(&mut net, friend));
    let ours = neighbour(&mut net, 2001);
    net.connect(server, ours);
    net.run(Duration::from_secs(1));
    assert!(net.find_session(server, ours).is_some());
    assert_eq!(net.hosts[server].endpoint.strangers().0, 4);
    // A place that was left is taken, and a renewal needs none.
    let left = net.session(hosts[0], server);
    net.hosts[hosts[0]].endpoint.close(left, net.now);
    net.collect(hosts[0]);
    net.run(Duration::from_secs(20));
    assert!(join(&mut net, hosts[3]) && join(&mut net, hosts[1]));
    assert_eq!(net.hosts[server].endpoint.most_strangers_at_a_source(), (3, 3));
}

#[test]
fn strangers_leave_sessions_for_who_is_admitted() {
    let mut net = Net::new();
    let server = net.add(limited(|config| config.limits.sessions = 16));
    let hosts: Vec<usize> = (0..15).map(|_| net.add(Config::default())).collect();
    for host in &hosts {
        net.connect(*host, server);
        net.run(Duration::from_millis(200));
    }
    assert_eq!(net.hosts[server].endpoint.strangers(), (14, 14));
    let friend = net.add(Config::default());
    admit(&mut net, server, friend);
    net.connect(friend, server);
    net.run(Duration::from_secs(1));
    assert!(net.find_session(server, friend).is_some());
}

/// Two hellos of one address with good tokens, in turns, each of which
/// ends what the other began: work without end.
#[test]
fn hellos_in_turns_begin_no_more_than_a_source_may() {
    let mut net = Net::pair();
    let first = first_hello(&mut net);
    net.set_fate(|_, _| Fate::Lost);
    let third = net.add(Config::default());
    let before = net.sent.len();
    net.connect(third, 1);
    let second = net.sent[before].clone();
    let from = source(7);
    let mut refused = 0;
    for n in 0..6_000 {
        let initial = if n % 2 == 0 { &first } else { &second };
        if let Err(reason) = half_open(&mut net, initial, from) {
            assert_eq!(reason, DropReason::HandshakeRate);
            refused += 1;
        }
        net.now += Duration::from_micros(83);
    }
    // In half a second a source begins 200 and 25 more. Of the
    // others every second one is the one in progress.
    assert!(refused > (6_000 - 2 * 230) / 2, "{refused} refused");
    net.set_fate(|_, _| Fate::Arrives);
    net.connect(third, 1);
    net.run(Duration::from_secs(4));
    assert!(net.find_session(third, 1).is_some(), "others are not affected");
}

#[test]
fn ten_thousand_slow_handshakes_hold_nobody_up() {
    let mut net = Net::pair();
    let initial = first_hello(&mut net);
    let mut most = 0;
    for round in 0..10 {
        for n in 0..1_000 {
            let _ = half_open(
                &mut net,
                &initial,
                SocketAddr::from((source(n % 500).ip(), 1000 + round * 2 + (n / 500) as u16)),
            );
        }
        most = most.max(net.hosts[1].endpoint.half_open());
        net.outside.clear();
        net.set_fate(|_, _| Fate::Arrives);
        let honest = net.add(Config::default());
        net.connect(honest, 1);
        net.run(Duration::from_secs(1));
        assert!(net.find_session(honest, 1).is_some(), "round {round}: {:?}", net.drops(1));
    }
    assert!(most > 900, "{most}");
    net.run(Duration::from_secs(10));
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);
}
