//! Nobody can have us send more to an address than they
//! sent in its name, until that address is proven.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_link::Config;

use crate::foreign::{Foreign, Version, certificate};
use crate::pair::{Fate, Flying, Net, identity};

/// Delivers datagrams as from a victim that never answers, and checks the balance after each.
fn assert_no_gain(net: &mut Net, datagrams: &[Vec<u8>], context: &str) {
    let victim: SocketAddr = "203.0.113.99:99".parse().unwrap();
    let (mut received, first) = (0, net.sent.len());
    for bytes in datagrams {
        let to = net.hosts[0].address;
        let _ = net.deliver(&Flying { from: victim, to, bytes: bytes.clone() });
        received += bytes.len();
        net.run(Duration::from_millis(700));
        let sent: usize =
            net.sent[first..].iter().filter(|f| f.to == victim).map(|f| f.bytes.len()).sum();
        assert!(sent <= received, "{context}: {sent} bytes for {received}");
    }
    net.run(Duration::from_secs(30));
    let sent: usize =
        net.sent[first..].iter().filter(|f| f.to == victim).map(|f| f.bytes.len()).sum();
    assert!(sent <= received, "{context}, later: {sent} bytes for {received}");
}

#[test]
fn native_hellos_gain_nothing() {
    let mut net = Net::pair();
    net.set_fate(|_, _| Fate::Lost);
    net.connect(1, 0);
    let hello = net.sent[0].bytes.clone();
    assert_no_gain(&mut net, &vec![hello; 20], "initial");
    // With a token that another address was given.
    let mut net = Net::pair();
    net.connect(1, 0);
    net.run(Duration::from_millis(100));
    let with_token = net.sent.iter().find(|f| f.bytes[0] == 0x90 && f.bytes[4] == 24).unwrap();
    let with_token = with_token.bytes.clone();
    assert_no_gain(&mut net, &vec![with_token; 20], "initial with a stolen token");
}

#[test]
fn foreign_hellos_gain_nothing() {
    for version in [Version::Dtls12, Version::Dtls13] {
        let mut net = Net::new();
        net.add(Config::default());
        net.set_fate(|_, _| Fate::Lost);
        let them = identity();
        let certificate = certificate(&them, Some(them.metadata().emit()));
        let mut foreign = Foreign::new(&net, version, certificate, Some(0));
        foreign.run(&mut net, Duration::from_secs(10));
        let hellos: Vec<_> = net.sent.iter().map(|flying| flying.bytes.clone()).collect();
        assert!(hellos.len() >= 3, "the hello and its repetitions");
        assert_no_gain(&mut net, &hellos, &format!("{version:?}"));
    }
}

#[test]
fn no_captured_datagram_of_a_handshake_gains_anything() {
    let mut net = Net::pair();
    net.connect(1, 0);
    net.run(Duration::from_secs(1));
    let captured: Vec<_> = net.sent.iter().map(|flying| flying.bytes.clone()).collect();
    for bytes in &captured {
        assert_no_gain(&mut net, std::slice::from_ref(bytes), "one datagram");
    }
    assert_no_gain(&mut net, &captured, "all of them");
}
