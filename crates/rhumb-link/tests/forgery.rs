//! Forged plaintext at any moment of a handshake: alerts
//! are dropped, anything else costs time at worst.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::DropReason;

use crate::pair::{Flying, Net};

/// A DTLS record of epoch 0.
fn plaintext_record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 9, 0, body.len() as u8];
    bytes.extend_from_slice(body);
    bytes
}

/// A handshake message of `kind`, whole, with the given body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u8;
    let mut bytes = vec![kind, 0, 0, len, 0, 0, 0, 0, 0, 0, 0, len];
    bytes.extend_from_slice(body);
    plaintext_record(22, &bytes)
}

/// Connects while, after the n-th datagram, `forged` is delivered to both ends as from each other.
fn connect_with(forged: &[u8], after: usize) -> Net {
    let mut net = Net::pair();
    net.connect(0, 1);
    let mut injected = false;
    for _ in 0..20_000 {
        if !injected && net.sent.len() > after {
            injected = true;
            for (from, to) in [(0, 1), (1, 0)] {
                let (from, to) = (net.hosts[from].address, net.hosts[to].address);
                let _ = net.deliver(&Flying { from, to, bytes: forged.to_vec() });
            }
        }
        if injected && net.find_session(0, 1).is_some() && net.find_session(1, 0).is_some() {
            break;
        }
        net.run(Duration::from_millis(1));
    }
    assert!(injected, "the handshake was over before datagram {after}");
    net
}

const FATAL_HANDSHAKE_FAILURE: [u8; 2] = [2, 40];

#[test]
fn an_alert_at_any_flight_is_dropped_and_costs_nothing() {
    for after in 0..8 {
        let mut net = connect_with(&plaintext_record(21, &FATAL_HANDSHAKE_FAILURE), after);
        for host in 0..2 {
            let alerts = (DropReason::PlaintextAlert, 1);
            assert!(net.drops(host).contains(&alerts), "{:?}", net.drops(host));
        }
        let session = net.session(0, 1);
        let took = net.hosts[0].endpoint.peer(session).unwrap().established_at;
        assert!(net.now - took < Duration::from_millis(50));
        net.assert_carries(&format!("alert after datagram {after}"));
    }
}

#[test]
fn an_alert_behind_another_record_is_dropped_too() {
    let hidden = [message(14, &[]), plaintext_record(21, &FATAL_HANDSHAKE_FAILURE)].concat();
    for after in 0..8 {
        let mut net = connect_with(&hidden, after);
        assert!(net.drops(0).contains(&(DropReason::PlaintextAlert, 1)));
        net.assert_carries(&format!("hidden alert after datagram {after}"));
    }
}

#[test]
fn other_forged_messages_delay_at_worst() {
    let random = [0x11; 32];
    let server_hello = [&[0xFE, 0xFD][..], &random, &[0, 0x13, 0x01, 0, 0, 0]].concat();
    let forgeries = [
        ("HelloVerifyRequest", message(3, &[0xFE, 0xFD, 4, 1, 2, 3, 4])),
        ("ServerHello", message(2, &server_hello)),
        ("Certificate", message(11, &[0, 0, 0])),
        ("Finished", message(20, &[7; 12])),
        ("garbage message", message(99, &[1; 40])),
        ("unknown record", plaintext_record(25, &[1; 40])),
        ("application data", plaintext_record(23, &[1; 40])),
        ("change cipher spec", plaintext_record(20, &[1])),
        ("protected garbage", [&[0x2E, 0, 1, 0, 40][..], &[9; 40]].concat()),
    ];
    for (what, forged) in forgeries {
        for after in 0..8 {
            let mut net = connect_with(&forged, after);
            assert!(net.find_session(0, 1).is_some(), "{what} after datagram {after}");
            net.assert_carries(&format!("{what} after datagram {after}"));
        }
    }
}
