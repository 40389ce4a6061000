//! A record is opened once: repeated at once, later, across epochs
//! and across a fresh handshake, it is dropped.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use proptest::prelude::*;
use rhumb_link::{DropReason, EPOCH_LIFETIME};

use crate::pair::{Flying, Net};

fn records(net: &mut Net, count: usize) -> Vec<Flying> {
    let session = net.session(0, 1);
    (0..count).map(|n| net.seal(0, session, &n.to_be_bytes()).unwrap()).collect()
}

#[test]
fn a_repeat_is_dropped_at_every_offset() {
    let mut net = Net::pair();
    net.establish();
    let records = records(&mut net, 4200);
    for record in &records {
        net.deliver(record).unwrap();
    }
    let received = net.hosts[1].received.len();
    for (age, record) in records.iter().rev().enumerate() {
        let reason = net.deliver(record).unwrap_err();
        let expected = if age < 4032 { DropReason::Replayed } else { DropReason::TooOld };
        assert_eq!(reason, expected, "age {age}");
    }
    assert_eq!(net.hosts[1].received.len(), received);
}

#[test]
fn a_repeat_is_dropped_across_epochs() {
    let mut net = Net::pair();
    net.establish();
    let mut all = Vec::new();
    for _ in 0..3 {
        let records = records(&mut net, 50);
        for record in &records {
            net.deliver(record).unwrap();
            all.push(record.clone());
            for earlier in &all {
                net.deliver(earlier).unwrap_err();
            }
        }
        net.now += EPOCH_LIFETIME;
    }
    assert_eq!(net.hosts[1].received.len(), 150);
}

#[test]
fn a_repeat_is_dropped_across_a_fresh_handshake() {
    let mut net = Net::pair();
    net.establish();
    let records = records(&mut net, 50);
    for record in &records {
        net.deliver(record).unwrap();
    }
    net.connect(0, 1);
    net.run(Duration::from_secs(1));
    let received = net.hosts[1].received.len();
    for record in &records {
        assert_eq!(net.deliver(record), Err(DropReason::Replayed));
    }
    net.run(Duration::from_secs(60));
    for record in &records {
        assert_eq!(net.deliver(record), Err(DropReason::UnknownSession));
    }
    assert_eq!(net.hosts[1].received.len(), received);
}

#[test]
fn a_forged_record_does_not_move_the_window() {
    let mut net = Net::pair();
    net.establish();
    let records = records(&mut net, 2);
    let mut forged = records[1].clone();
    forged.bytes[6] = 0xFF; // Packet number 2^47 and more.
    assert_eq!(net.deliver(&forged), Err(DropReason::BadSeal));
    net.deliver(&records[0]).unwrap();
    net.deliver(&records[1]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// In any order and with any repeats, each record within the window is received exactly once.
    #[test]
    fn any_order_delivers_each_once(order in prop::collection::vec(0usize..300, 1..900)) {
        let mut net = Net::pair();
        net.establish();
        let records = records(&mut net, 300);
        let before = net.hosts[1].received.len();
        let mut expected = std::collections::BTreeSet::new();
        for index in order {
            prop_assert_eq!(net.deliver(&records[index]).is_ok(), expected.insert(index));
        }
        prop_assert_eq!(net.hosts[1].received.len() - before, expected.len());
    }

    /// Any flipped bit of a record is noticed.
    #[test]
    fn an_altered_record_is_dropped(bit in 0usize..(28 + 8) * 8) {
        let mut net = Net::pair();
        net.establish();
        let mut record = records(&mut net, 1).remove(0);
        record.bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(net.deliver(&record).is_err());
        prop_assert!(net.hosts[1].received.is_empty());
    }
}
