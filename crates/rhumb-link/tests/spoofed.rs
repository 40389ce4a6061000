//! Hellos in the name of others cost a responder no memory and its honest peers nothing, however
//! many there are and whoever they claim to come from.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rhumb_link::Config;
use rhumb_wire::datagram::Datagram;

use crate::foreign::{Foreign, Version, certificate};
use crate::pair::{Fate, Flying, Net, identity};

/// The first hello of each foreign version, to host 0.
fn plain_hellos() -> Vec<Vec<u8>> {
    [Version::Dtls12, Version::Dtls13]
        .into_iter()
        .map(|version| {
            let mut net = Net::new();
            net.add(Config::default());
            net.set_fate(|_, _| Fate::Lost);
            let them = identity();
            let certificate = certificate(&them, Some(them.metadata().emit()));
            Foreign::new(&net, version, certificate, Some(0))
                .run(&mut net, Duration::from_millis(10));
            net.sent[0].bytes.clone()
        })
        .collect()
}

/// A hello of each kind: an initial without a token, and two plain ones.
fn hellos() -> Vec<Vec<u8>> {
    let mut net = Net::pair();
    net.set_fate(|_, _| Fate::Lost);
    net.connect(0, 1);
    let mut hellos = vec![net.sent[0].bytes.clone()];
    hellos.extend(plain_hellos());
    hellos
}

fn spoof(net: &mut Net, from: SocketAddr, bytes: &[u8]) {
    let to = net.hosts[0].address;
    let _ = net.deliver(&Flying { from, to, bytes: bytes.to_vec() });
}

fn foreign_peer(net: &Net, version: Version) -> Foreign {
    let them = identity();
    let certificate = certificate(&them, Some(them.metadata().emit()));
    Foreign::new(net, version, certificate, Some(0))
}

#[test]
fn nobody_is_locked_out_by_hellos_in_its_name() {
    let hellos = hellos();
    let mut net = Net::pair();
    let victim: IpAddr = net.hosts[1].address.ip();
    let flood = |net: &mut Net| {
        for port in 0..200u16 {
            for hello in &hellos {
                spoof(net, SocketAddr::from((victim, 10_000 + port)), hello);
                // The very address that it will use, too.
                spoof(net, SocketAddr::from((victim, 4000)), hello);
            }
        }
    };
    for attempt in 0..4 {
        flood(&mut net);
        net.connect(1, 0);
        for _ in 0..10 {
            net.run(Duration::from_millis(20));
            flood(&mut net);
        }
        net.run(Duration::from_millis(200));
        assert!(net.find_session(1, 0).is_some(), "attempt {attempt}: {:?}", net.drops(0));
        let session = net.session(1, 0);
        net.hosts[1].endpoint.close(session, net.now);
        net.collect(1);
        net.run(Duration::from_secs(4));
    }
}

#[test]
fn a_hundred_thousand_of_each_kind_leave_nothing_and_honest_ones_finish() {
    let mut net = Net::pair();
    let hellos = hellos();
    let empty = format!("{:?}", net.hosts[0].endpoint);
    for n in 0..100_000u32 {
        let from = SocketAddr::from((Ipv4Addr::from(0x0A00_0000 + n), 1000));
        for hello in &hellos {
            spoof(&mut net, from, hello);
        }
        if n % 1000 == 0 {
            net.sent.clear();
            net.outside.clear();
            net.run(Duration::from_millis(20));
        }
    }
    assert_eq!(format!("{:?}", net.hosts[0].endpoint), empty, "sessions and exchanges as before");
    assert_eq!(net.hosts[0].endpoint.half_open(), 0);
    assert_eq!(net.hosts[0].endpoint.poll_timeout(), None, "not even a timer");
    net.connect(1, 0);
    net.run(Duration::from_secs(1));
    net.session(0, 1);
    for version in [Version::Dtls12, Version::Dtls13] {
        let mut peer = foreign_peer(&net, version);
        peer.run(&mut net, Duration::from_secs(1));
        assert!(peer.connected, "{version:?}");
    }
}

#[test]
fn foreign_peers_finish_amid_plain_hellos() {
    let hellos = plain_hellos();
    for version in [Version::Dtls12, Version::Dtls13] {
        let mut net = Net::pair();
        let mut peer = foreign_peer(&net, version);
        let mut n = 0u32;
        for _ in 0..100 {
            for _ in 0..100 {
                n += 1;
                let from = SocketAddr::from((Ipv4Addr::from(0x0A00_0000 + n), 1000));
                spoof(&mut net, from, &hellos[n as usize % hellos.len()]);
                // And some in the name of its host.
                let from = SocketAddr::from((peer.address.ip(), 10_000 + (n % 1000) as u16));
                spoof(&mut net, from, &hellos[n as usize % hellos.len()]);
            }
            net.outside.retain(|flying| flying.to == peer.address);
            peer.run(&mut net, Duration::from_millis(10));
        }
        assert!(peer.connected, "{version:?}: {:?}", net.drops(0));
    }
}

#[test]
fn an_answer_is_never_larger_than_its_hello() {
    for hello in hellos() {
        for len in (hello.len().saturating_sub(40)..=hello.len()).rev() {
            let mut net = Net::pair();
            let before = net.sent.len();
            spoof(&mut net, "203.0.113.9:9".parse().unwrap(), &hello[..len]);
            net.run(Duration::from_secs(10));
            let sent: usize = net.sent[before..].iter().map(|flying| flying.bytes.len()).sum();
            assert!(sent <= len, "{sent} bytes for {len}");
        }
    }
}

#[test]
fn our_hellos_are_small() {
    let mut net = Net::pair();
    net.set_fate(|_, _| Fate::Lost);
    net.connect(0, 1);
    net.run(Duration::from_secs(13));
    let native = net
        .sent
        .iter()
        .filter(|it| matches!(Datagram::parse(&it.bytes), Ok(Datagram::Initial { .. })));
    let foreign =
        net.sent.iter().filter(|it| matches!(Datagram::parse(&it.bytes), Ok(Datagram::Dtls(_))));
    assert!(native.clone().count() > 2 && foreign.clone().count() > 2);
    for hello in native.chain(foreign) {
        assert!(hello.bytes.len() <= 256, "{} bytes", hello.bytes.len());
    }
}
