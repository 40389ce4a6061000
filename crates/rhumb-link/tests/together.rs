//! Records that are opened and sealed in one call come to what they come to one by one.

#![allow(clippy::unwrap_used)] // A test may.

use std::collections::HashSet;
use std::ops::Range;

use proptest::prelude::*;
use rhumb_link::{DropReason, EPOCH_LIFETIME, EPOCH_PACKETS, SessionId};
use rhumb_wire::Batch;
use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader};

use crate::pair::{Flying, Net};

/// Opens a batch as a switch does: what each datagram held, or why it was dropped.
fn open(net: &mut Net, batch: &mut Batch) -> Vec<Result<Vec<u8>, DropReason>> {
    let (endpoint, now, count) = (&mut net.hosts[1].endpoint, net.now, batch.len());
    let mut decrypted = endpoint.decrypt(batch, 0..count);
    let mut open = |slot| {
        let (from, datagram) = batch.datagram_mut(slot);
        let opened = endpoint.open_decrypted(from, datagram, decrypted.next(), now)?;
        Ok(datagram[opened.plaintext].to_vec())
    };
    (0..count).map(&mut open).collect()
}

fn batch_of(datagrams: &[Flying]) -> Batch {
    let mut batch = Batch::new();
    datagrams.iter().for_each(|it| batch.push(it.from, &it.bytes));
    batch
}

fn plaintext(length: usize, number: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ number) as u8).collect()
}

/// What is done to one of a group.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// A bit is another: of the header, of what is sealed, or of the tag.
    Bit(usize),
    /// It ends earlier.
    Cut(usize),
    /// It is that of another place once more.
    Repeat(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => any::<usize>().prop_map(Fault::Bit),
        1 => any::<usize>().prop_map(Fault::Cut),
        2 => (0usize..64).prop_map(Fault::Repeat),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_wrong_with_one_is_nothing_to_the_others(
        faults in prop::collection::vec((fault(), 1usize..300), 1..64),
    ) {
        let mut net = Net::pair();
        let (session, _) = net.establish();
        net.assert_carries("before");
        let good: Vec<Flying> = faults.iter().enumerate().map(|(number, (_, length))| {
            net.seal(0, session, &plaintext(*length, number)).unwrap()
        }).collect();
        let mut sent = good.clone();
        for (at, (fault, _)) in faults.iter().enumerate() {
            let len = good[at].bytes.len();
            match *fault {
                Fault::None => {}
                Fault::Bit(bit) => sent[at].bytes[bit / 8 % len] ^= 1 << (bit % 8),
                Fault::Cut(to) => sent[at].bytes.truncate(to % len),
                Fault::Repeat(of) => sent[at] = good[of % good.len()].clone(),
            }
        }
        let results = open(&mut net, &mut batch_of(&sent));
        let mut seen = HashSet::new();
        for (datagram, result) in sent.iter().zip(results) {
            let place = good.iter().position(|it| it.bytes == datagram.bytes);
            match place {
                Some(place) if seen.insert(place) => {
                    prop_assert_eq!(result, Ok(plaintext(faults[place].1, place)));
                }
                Some(_) => prop_assert_eq!(result, Err(DropReason::Replayed)),
                None => prop_assert!(result.is_err()),
            }
        }
        net.assert_carries("after");
    }
}

#[test]
fn both_epochs_are_opened_where_one_begins_among_them() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let mut sent: Vec<Flying> = (0..5).map(|n| net.seal(0, session, &[n]).unwrap()).collect();
    net.now += EPOCH_LIFETIME;
    sent.extend((5..10).map(|n| net.seal(0, session, &[n]).unwrap()));
    sent.swap(4, 7);
    let opened = open(&mut net, &mut batch_of(&sent));
    let numbers: Vec<u8> = opened.into_iter().map(|it| it.unwrap()[0]).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 7, 5, 6, 4, 8, 9]);
}

/// A batch with so many plaintexts, each with room for a seal.
fn unsealed(net: &Net, count: usize) -> Batch {
    let mut batch = Batch::new();
    for number in 0..count {
        let bytes = plaintext(40, number);
        let datagram = batch.push_with(net.hosts[0].address, bytes.len() + RECORD_OVERHEAD);
        datagram[RecordHeader::LEN..][..bytes.len()].copy_from_slice(&bytes);
    }
    batch
}

fn seal(net: &mut Net, batch: &mut Batch, slots: Range<usize>, sessions: &[Option<SessionId>]) {
    let now = net.now;
    net.hosts[0].endpoint.seal_all(batch, slots, sessions, now);
}

/// Has the other end open what is left of a batch: the numbers of what it held.
fn arrived(net: &mut Net, batch: &Batch) -> Vec<usize> {
    let (from, other) = (net.hosts[0].address, net.hosts[1].address);
    let mut received = Batch::new();
    for (to, datagram) in batch.iter() {
        assert_eq!(to, other);
        received.push(from, datagram);
    }
    let number = |bytes: Vec<u8>| (0..64).find(|it| plaintext(40, *it) == bytes).unwrap();
    open(net, &mut received).into_iter().map(|it| number(it.unwrap())).collect()
}

#[test]
fn an_epoch_that_ends_among_them_seals_those_before() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let last = net.seal(0, session, b"").unwrap();
    let mut sealed = RecordHeader::parse(&last.bytes).unwrap().counter.packet_number() + 1;
    while sealed < EPOCH_PACKETS - 20 {
        net.seal(0, session, b"").unwrap();
        sealed += 1;
    }
    let mut batch = unsealed(&net, 64);
    seal(&mut net, &mut batch, 0..64, &[Some(session); 64]);
    let epoch = |slot: usize| RecordHeader::parse(batch.datagram(slot)).unwrap().counter.epoch();
    assert_eq!([0, 19, 20, 63].map(epoch), [0, 0, 1, 1]);
    assert_eq!(arrived(&mut net, &batch), (0..64).collect::<Vec<_>>());
}

#[test]
fn what_has_no_session_is_dropped_and_the_others_go() {
    let mut net = Net::pair();
    let third = net.add(rhumb_link::Config::default());
    net.connect(0, third);
    let (session, _) = net.establish();
    let ended = net.session(0, third);
    let now = net.now;
    net.hosts[0].endpoint.close(ended, now);
    let mut batch = unsealed(&net, 9);
    let mut sessions = [Some(session); 9];
    (sessions[2], sessions[5]) = (None, Some(ended));
    // One is larger than goes there.
    let large = batch.replace(7, 40_000);
    batch.arena_mut()[large].fill(1);
    seal(&mut net, &mut batch, 0..9, &sessions);
    assert_eq!(arrived(&mut net, &batch), [0, 1, 3, 4, 6, 8]);
    let drops = net.drops(0);
    assert!(drops.contains(&(DropReason::StaleSession, 1)), "{drops:?}");
    assert!(drops.contains(&(DropReason::TooBig, 1)), "{drops:?}");
}

#[test]
fn slots_need_not_stand_in_their_order() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let mut batch = unsealed(&net, 6);
    // The third stands behind all others.
    let bytes = plaintext(40, 2);
    let at = batch.replace(2, bytes.len() + RECORD_OVERHEAD).start + RecordHeader::LEN;
    batch.arena_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
    seal(&mut net, &mut batch, 1..6, &[Some(session); 5]);
    for slot in 1..6 {
        let sealed = batch.datagram(slot);
        assert!(!sealed.windows(8).any(|it| it == &plaintext(40, slot)[..8]), "{slot}");
    }
    batch.drop_datagram(0);
    assert_eq!(arrived(&mut net, &batch), [1, 2, 3, 4, 5]);
}
