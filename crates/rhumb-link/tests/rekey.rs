//! Epoch keys are replaced by count and by time, and receivers follow
//! over reordering and loss, but not over forgery.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{DropReason, EPOCH_LIFETIME, EPOCH_PACKETS, MAX_EPOCHS_AHEAD};
use rhumb_wire::datagram::{Counter, RecordHeader};

use crate::pair::{Flying, Net};

fn counter(flying: &Flying) -> Counter {
    RecordHeader::parse(&flying.bytes).unwrap().counter
}

/// Seals a record in each of `epochs` consecutive epochs,
/// keeping the session alive without delivering them.
fn one_record_per_epoch(net: &mut Net, epochs: u16) -> Vec<Flying> {
    let session = net.session(0, 1);
    (0..epochs)
        .map(|_| {
            let flying = net.seal(0, session, b"epoch").unwrap();
            net.now += EPOCH_LIFETIME;
            flying
        })
        .collect()
}

#[test]
fn the_epoch_changes_after_so_many_packets_and_not_before() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let mut last = net.seal(0, session, b"").unwrap();
    assert_eq!(counter(&last).epoch(), 0);
    let mut sealed = counter(&last).packet_number() + 1;
    while sealed < EPOCH_PACKETS {
        last = net.seal(0, session, b"").unwrap();
        sealed += 1;
    }
    assert_eq!((counter(&last).epoch(), counter(&last).packet_number()), (0, EPOCH_PACKETS - 1));
    let first = net.seal(0, session, b"next").unwrap();
    assert_eq!((counter(&first).epoch(), counter(&first).packet_number()), (1, EPOCH_PACKETS));
    net.deliver(&first).unwrap();
    net.deliver(&last).expect("the previous epoch is still open");
}

#[test]
fn the_epoch_changes_after_so_much_time_and_not_before() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let began = net.seal(0, session, b"").unwrap();
    net.now += EPOCH_LIFETIME - Duration::from_secs(1) - Duration::from_millis(1);
    assert_eq!(counter(&net.seal(0, session, b"").unwrap()).epoch(), counter(&began).epoch());
    net.now += Duration::from_secs(1);
    assert_eq!(counter(&net.seal(0, session, b"").unwrap()).epoch(), counter(&began).epoch() + 1);
}

#[test]
fn a_session_lives_through_many_epochs() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    for epoch in 0..25 {
        net.run(EPOCH_LIFETIME);
        net.assert_carries(&format!("epoch {epoch}"));
    }
    assert!(counter(&net.seal(0, session, b"").unwrap()).epoch() >= 20);
    assert_eq!(net.drops(0), []);
}

#[test]
fn a_receiver_follows_four_epochs_and_no_more() {
    for (skipped, expected) in [
        (1, Ok(())),
        (MAX_EPOCHS_AHEAD - 1, Ok(())),
        (MAX_EPOCHS_AHEAD, Err(DropReason::EpochOutOfRange)),
    ] {
        let mut net = Net::pair();
        net.establish();
        let records = one_record_per_epoch(&mut net, skipped + 2);
        net.deliver(&records[0]).unwrap();
        assert_eq!(net.deliver(&records[usize::from(skipped) + 1]), expected, "skipped {skipped}");
    }
}

#[test]
fn the_previous_epoch_stays_open_and_the_one_before_does_not() {
    let mut net = Net::pair();
    net.establish();
    let records = one_record_per_epoch(&mut net, 4);
    net.deliver(&records[3]).unwrap();
    net.deliver(&records[2]).expect("overtaken by one epoch");
    assert_eq!(net.deliver(&records[1]), Err(DropReason::EpochOutOfRange));
}

#[test]
fn a_forged_epoch_changes_nothing() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let honest = net.seal(0, session, b"honest").unwrap();
    for ahead in 1..=MAX_EPOCHS_AHEAD + 1 {
        let mut forged = honest.clone();
        forged.bytes[4..6].copy_from_slice(&ahead.to_be_bytes());
        let reason = if ahead > MAX_EPOCHS_AHEAD {
            DropReason::EpochOutOfRange
        } else {
            DropReason::BadSeal
        };
        assert_eq!(net.deliver(&forged), Err(reason));
    }
    net.deliver(&honest).unwrap();
    net.assert_carries("after forged epochs");
}
