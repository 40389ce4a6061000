//! A native handshake: a retry, DTLS 1.3, names proven at both ends, a session that carries data.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{Cipher, CloseReason, Config, DropReason, Event};
use rhumb_wire::datagram::Datagram;

use crate::pair::{Net, is_record};

#[test]
fn two_endpoints_prove_their_names_and_talk() {
    let mut net = Net::pair();
    let attempt = net.connect(0, 1);
    net.run(Duration::from_millis(200));

    let (a, b) = (net.session(0, 1), net.session(1, 0));
    let established =
        |session, attempt, peer| Event::Established { session, attempt, peer, renewed: false };
    assert_eq!(net.take_events(0), [established(a, Some(attempt), net.name(1))]);
    assert_eq!(net.take_events(1), [established(b, None, net.name(0))]);
    let peer = net.hosts[1].endpoint.peer(b).unwrap();
    assert_eq!((peer.address, peer.initiator), (net.hosts[0].address, false));
    assert!(net.hosts[0].endpoint.peer(a).unwrap().initiator);

    net.assert_carries("fresh");
    assert_eq!((net.drops(0), net.drops(1)), (vec![], vec![]));
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);
}

#[test]
fn it_takes_a_retry_and_three_round_trips() {
    let mut net = Net::pair();
    net.connect(0, 1);
    net.run(Duration::from_millis(200));
    let kinds: Vec<_> = net
        .sent
        .iter()
        .map(|flying| match Datagram::parse(&flying.bytes).unwrap() {
            Datagram::Initial { token: None, .. } => "initial",
            Datagram::Retry { .. } => "retry",
            Datagram::Initial { token: Some(_), .. } => "initial with token",
            Datagram::Dtls(_) => "dtls",
            Datagram::Record(_) => "record",
        })
        .collect();
    assert_eq!(kinds[..3], ["initial", "retry", "initial with token"]);
    assert!(kinds[3..].iter().all(|kind| matches!(*kind, "dtls" | "record")), "{kinds:?}");
    // The initiator can send after 2.5 round trips at the latest.
    let first_record = net.sent.iter().position(|flying| is_record(&flying.bytes)).unwrap();
    assert!(first_record < 20, "{kinds:?}");
}

fn with_cipher(cipher: Cipher) -> Config {
    let mut config = Config::default();
    config.cipher = cipher;
    config
}

#[test]
fn aes_128_serves_as_well() {
    let config = with_cipher(Cipher::Aes128Gcm);
    let mut net = Net::pair_with(config, config);
    net.establish();
    net.assert_carries("AES-128");
    net.run(rhumb_link::EPOCH_LIFETIME * 2);
    net.assert_carries("AES-128, epochs later");
}

#[test]
fn ends_of_different_ciphers_do_not_talk_and_find_out() {
    let mut net = Net::pair_with(with_cipher(Cipher::Aes128Gcm), with_cipher(Cipher::Aes256Gcm));
    net.connect(0, 1);
    net.run(Duration::from_secs(30));
    assert!(net.drops(0).iter().any(|(reason, _)| *reason == DropReason::BadSeal));
    let silent = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Silent, .. });
    assert!(net.take_events(0).iter().any(silent) && net.take_events(1).iter().any(silent));
}
