//! Stateless retry: a hello from an unproven address is
//! answered by a token and leaves nothing behind.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rhumb_link::{DropReason, RETRY_TOKEN_LIFETIME};
use rhumb_wire::datagram::{Datagram, RETRY_LEN};

use crate::pair::{Fate, Flying, Net};

/// The first datagram of a connect, which never arrived.
fn hello(net: &mut Net) -> Flying {
    net.set_fate(|_, _| Fate::Lost);
    let before = net.sent.len();
    net.connect(0, 1);
    net.sent[before].clone()
}

/// The token that host 1 answers an initial with.
fn token_for(net: &mut Net, initial: &Flying) -> [u8; 24] {
    let before = net.sent.len();
    net.deliver(initial).unwrap();
    assert_eq!(net.sent.len(), before + 1, "one answer");
    let retry = &net.sent[before];
    assert_eq!((retry.to, retry.bytes.len()), (initial.from, RETRY_LEN));
    let Ok(Datagram::Retry { token, .. }) = Datagram::parse(&retry.bytes) else {
        panic!("not a retry")
    };
    *token
}

fn with_token(initial: &Flying, token: &[u8; 24]) -> Flying {
    let Ok(Datagram::Initial { inner, .. }) = Datagram::parse(&initial.bytes) else {
        panic!("not an initial")
    };
    let mut bytes = Vec::new();
    Datagram::emit_initial(Some(token), inner, &mut bytes);
    Flying { bytes, ..initial.clone() }
}

#[test]
fn a_good_token_begins_a_handshake_and_others_do_not() {
    let mut net = Net::pair();
    let initial = hello(&mut net);
    let token = token_for(&mut net, &initial);
    let good = with_token(&initial, &token);

    let mut elsewhere = good.clone();
    elsewhere.from = "203.0.113.66:6".parse().unwrap();
    assert_eq!(net.deliver(&elsewhere), Err(DropReason::BadToken));
    for byte in 0..24 {
        let mut tampered = token;
        tampered[byte] ^= 1;
        assert_eq!(net.deliver(&with_token(&initial, &tampered)), Err(DropReason::BadToken));
    }
    let mut other_hello = good.clone();
    *other_hello.bytes.last_mut().unwrap() ^= 1;
    assert_eq!(net.deliver(&other_hello), Err(DropReason::BadToken));
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);

    net.deliver(&good).unwrap();
    assert_eq!(net.hosts[1].endpoint.half_open(), 1);
}

#[test]
fn a_token_expires() {
    for (age, expected) in [
        (RETRY_TOKEN_LIFETIME, Ok(())),
        (RETRY_TOKEN_LIFETIME + Duration::from_secs(1), Err(DropReason::BadToken)),
    ] {
        let mut net = Net::pair();
        let initial = hello(&mut net);
        let token = token_for(&mut net, &initial);
        net.now += age;
        assert_eq!(net.deliver(&with_token(&initial, &token)), expected, "{age:?}");
    }
}

#[test]
fn a_repeated_initial_is_one_handshake() {
    let mut net = Net::pair();
    let initial = hello(&mut net);
    let token = token_for(&mut net, &initial);
    let good = with_token(&initial, &token);
    for _ in 0..10 {
        net.deliver(&good).unwrap();
    }
    assert_eq!(net.hosts[1].endpoint.half_open(), 1);
}

#[test]
fn a_flood_of_spoofed_hellos_leaves_nothing_and_honest_ones_finish() {
    let mut net = Net::pair();
    let mut initial = hello(&mut net);
    net.set_fate(|_, _| Fate::Arrives);
    let empty = format!("{:?}", net.hosts[1].endpoint);
    for n in 0..10_000u32 {
        initial.from = SocketAddr::from((Ipv4Addr::from(0x0A00_0000 + n), 1000));
        net.deliver(&initial).unwrap();
    }
    assert_eq!(format!("{:?}", net.hosts[1].endpoint), empty, "sessions and exchanges as before");
    assert_eq!(net.hosts[1].endpoint.poll_timeout(), None, "not even a timer");
    net.run(Duration::from_secs(1));
    net.assert_carries("during a flood");
}

#[test]
fn forged_retries_cost_the_initiator_little_and_do_not_stop_it() {
    let mut net = Net::pair();
    net.connect(0, 1);
    // Only who sees the hello can write a retry that is taken at all.
    let Ok(Datagram::Initial { inner, .. }) = Datagram::parse(&net.sent[0].bytes) else { panic!() };
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &inner[13..]);
    let id: [u8; 8] = hash.as_ref()[..8].try_into().unwrap();
    let mut blind = Vec::new();
    Datagram::emit_retry(&[1; 8], &[1; 24], &mut blind);
    let blind = Flying { from: net.hosts[1].address, to: net.hosts[0].address, bytes: blind };
    assert_eq!(net.deliver(&blind), Err(DropReason::UnexpectedRetry));
    let forged = |net: &Net, n: u8| {
        let mut bytes = Vec::new();
        Datagram::emit_retry(&id, &[n; 24], &mut bytes);
        Flying { from: net.hosts[1].address, to: net.hosts[0].address, bytes }
    };
    let before = net.sent.len();
    for n in 0..100 {
        let _ = net.deliver(&forged(&net, n));
    }
    assert!(net.sent.len() - before <= 3, "{} hellos for forged retries", net.sent.len() - before);
    net.run(Duration::from_secs(3));
    net.assert_carries("in spite of forged retries");
}
