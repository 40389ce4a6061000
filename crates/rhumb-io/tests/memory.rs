//! The network in memory: perfect when told so, and otherwise bad in a way that a seed repeats.

use std::net::SocketAddr;

use rhumb_io::memory::{Conditions, Endpoint, Network};
use rhumb_io::{IoError, PacketIo, SendReport};
use rhumb_wire::Batch;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn pair(network: &Network) -> (Endpoint, Endpoint) {
    let endpoint = |port| network.endpoint(address(port)).expect("a free address");
    (endpoint(1), endpoint(2))
}

/// Sends `count` numbered datagrams from one end to the
/// other; returns the numbers that arrive, in order.
fn flood(from: &mut Endpoint, to: &mut Endpoint, count: u32) -> Vec<u32> {
    let (mut batch, mut arrived) = (Batch::new(), Vec::new());
    for number in 0..count {
        batch.clear();
        batch.push(to.local_address(), &number.to_be_bytes());
        from.send(&batch).expect("memory does not fail");
    }
    while to.receive(&mut batch).expect("memory does not fail") > 0 {
        for (peer, bytes) in batch.iter() {
            assert_eq!(peer, from.local_address());
            arrived.push(u32::from_be_bytes(bytes.try_into().expect("four bytes")));
        }
    }
    arrived
}

#[test]
fn a_perfect_network_delivers_everything_in_order() {
    let (mut one, mut other) = pair(&Network::new(1, Conditions::default()));
    assert_eq!(flood(&mut one, &mut other, 1000), (0..1000).collect::<Vec<_>>());
    assert_eq!(one.counters().sent_datagrams, 1000);
    assert_eq!(other.counters().received_datagrams, 1000);
}

#[test]
fn loss_duplication_and_reordering_keep_to_their_shares() {
    let bad = Conditions { loss: 0.1, duplication: 0.05, reordering: 0.2, ..Conditions::default() };
    let network = Network::new(2, bad);
    let (mut one, mut other) = pair(&network);
    let arrived = flood(&mut one, &mut other, 3000);
    let fates = network.fates();
    assert!((240..=360).contains(&fates.lost), "{fates:?}");
    assert!((90..=180).contains(&fates.duplicated), "{fates:?}");
    assert!((450..=630).contains(&fates.reordered), "{fates:?}");
    assert_eq!(arrived.len() as u64, fates.delivered);
    assert_eq!(fates.delivered, 3000 - fates.lost + fates.duplicated);
    assert!(!arrived.is_sorted());
    let mut distinct = arrived;
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len() as u64, 3000 - fates.lost);
}

#[test]
fn a_seed_repeats_a_run_and_another_does_not() {
    let bad = Conditions { loss: 0.2, duplication: 0.2, reordering: 0.2, ..Conditions::default() };
    let run = |seed| {
        let (mut one, mut other) = pair(&Network::new(seed, bad));
        flood(&mut one, &mut other, 500)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn queues_are_bounded() {
    let network = Network::new(5, Conditions { queue_datagrams: 10, ..Conditions::default() });
    let (mut one, mut other) = pair(&network);
    assert_eq!(flood(&mut one, &mut other, 12), (0..10).collect::<Vec<_>>());
    assert_eq!(network.fates().overflowed, 2);
    network.set_conditions(Conditions { loss: 1.0, ..Conditions::default() });
    assert!(flood(&mut one, &mut other, 12).is_empty());
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let network = Network::new(6, Conditions { largest_datagram: 100, ..Conditions::default() });
    let (mut one, mut other) = pair(&network);
    let mut batch = Batch::new();
    batch.push(other.local_address(), &[1; 101]);
    batch.push(SocketAddr::from(([0u16; 8], 1)), &[2]);
    batch.push(address(3), b"to nobody");
    batch.push(other.local_address(), &[3; 100]);
    let report = one.send(&batch).expect("memory does not fail");
    assert_eq!((report.sent, report.dropped_too_big, report.dropped_unreachable), (2, 1, 1));
    assert_eq!(report.dropped(), 2);
    assert_eq!(other.receive(&mut batch).expect("memory does not fail"), 1);
    assert_eq!(one.send(&Batch::new()).expect("memory does not fail"), SendReport::default());
}

#[test]
fn an_address_has_one_endpoint_at_a_time() {
    let network = Network::new(7, Conditions::default());
    let first = network.endpoint(address(1)).expect("a free address");
    let refused = network.endpoint(address(1)).map(|_| ());
    assert!(matches!(refused, Err(IoError::Bind { .. })), "{refused:?}");
    drop(first);
    network.endpoint(address(1)).expect("the address is free again");
}

#[test]
fn a_capture_sees_two_addresses_and_what_is_injected_can_be_forged() {
    let network = Network::new(8, Conditions { loss: 1.0, ..Conditions::default() });
    let (mut one, mut other) = pair(&network);
    let mut third = network.endpoint(address(3)).expect("a free address");
    let capture = network.capture(address(2), address(1));
    let mut batch = Batch::new();
    batch.push(address(2), b"there");
    batch.push(address(3), b"aside");
    one.send(&batch).expect("memory does not fail");
    batch.clear();
    batch.push(address(1), b"back");
    other.send(&batch).expect("memory does not fail");
    third.send(&batch).expect("memory does not fail");
    let seen: Vec<_> = capture.datagrams().into_iter().map(|c| (c.from, c.to, c.bytes)).collect();
    let expected =
        [(address(1), address(2), b"there".to_vec()), (address(2), address(1), b"back".to_vec())];
    assert_eq!(seen, expected);
    assert_eq!(capture.take().len(), 2);
    assert!(capture.datagrams().is_empty());

    assert!(network.inject(address(9), address(1), b"forged"));
    assert!(!network.inject(address(1), address(9), b"to nobody"));
    one.receive(&mut batch).expect("memory does not fail");
    assert_eq!(batch.iter().collect::<Vec<_>>(), [(address(9), &b"forged"[..])]);
}
