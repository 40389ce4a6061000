//! Loss, reordering and doubling cost what they must and little more.

use std::time::Instant;

use super::one_end::{Said, chunk, chunk_with, receiver_of, said};
use super::pair::{End, Fate, MS, Pair, Path, file};
use rhumb_wire::transfer::{Ack, Message, MessageBody};

#[test]
fn one_datagram_of_a_hundred() {
    for seed in 0..8 {
        let content = file(4_000_000, seed);
        let path = Path { seed, loss: 10, ..Path::new(MS * 20) };
        let report = Pair::in_memory(&content, path).run_and_compare(&content);
        assert!(report.sent < 4_000_000 * 106 / 100, "seed {seed}: {report:?}");
    }
}

#[test]
fn three_datagrams_of_ten() {
    for seed in 0..8 {
        let content = file(200_000, seed);
        let path = Path { seed, loss: 300, ..Path::new(MS * 10) };
        let report = Pair::in_memory(&content, path).run_and_compare(&content);
        assert!(report.sent < 200_000 * 185 / 100, "1 / 0.7 is 143 %: seed {seed}: {report:?}");
    }
}

#[test]
fn reordering_is_not_taken_for_loss_for_long() {
    for seed in 0..8 {
        let content = file(4_000_000, seed);
        let path = Path { seed, jitter: MS * 10, doubling: 20, ..Path::new(MS * 20) };
        let report = Pair::in_memory(&content, path).run_and_compare(&content);
        assert!(report.sent < 4_000_000 * 105 / 100, "seed {seed}: {report:?}");
        assert!(report.told_after < MS * 1000, "seed {seed}: {report:?}");
    }
}

#[test]
fn everything_at_once() {
    for seed in 0..8 {
        let content = file(1_000_000, seed);
        let path = Path { seed, jitter: MS * 5, doubling: 50, loss: 50, ..Path::new(MS * 5) };
        let report = Pair::in_memory(&content, path).run_and_compare(&content);
        assert!(report.sent < 1_000_000 * 125 / 100, "seed {seed}: {report:?}");
    }
}

#[test]
fn the_first_of_every_message_may_be_lost() {
    let content = file(100_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 10));
    let mut seen = [false; 6];
    pair.switch = Box::new(move |_, _, bytes| {
        let kind = match Message::parse(bytes).unwrap().body {
            MessageBody::Offer(_) => 0,
            MessageBody::Accept { .. } => 1,
            MessageBody::Chunk(_) => 2,
            MessageBody::Ack(_) => 3,
            MessageBody::Finished(_) => 4,
            MessageBody::Cancel(_) => 5,
        };
        if std::mem::replace(&mut seen[kind], true) { Fate::Forward } else { Fate::Drop }
    });
    let report = pair.run_and_compare(&content);
    assert!(report.elapsed < MS * 2000, "{report:?}");
}

#[test]
fn the_last_chunk_is_missed_soon() {
    let content = file(100_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 10));
    let mut dropped = false;
    pair.switch = Box::new(move |_, _, bytes| {
        let message = Message::parse(bytes).unwrap();
        let is_last = matches!(message.body, MessageBody::Chunk(chunk)
            if chunk.offset + chunk.bytes.len() as u64 == 100_000);
        if is_last && !std::mem::replace(&mut dropped, true) { Fate::Drop } else { Fate::Forward }
    });
    let report = pair.run_and_compare(&content);
    assert!(report.told_after < MS * 250, "a probe, not a collapse: {report:?}");
}

#[test]
fn a_jump_is_told_at_once_but_not_every_one_of_many() {
    let now = Instant::now();
    let mut receiver = receiver_of(&[7; 1000], 1000, now);
    let mut take = |number: u32| {
        let offset = u64::from(number) * 10;
        receiver.handle_message(&chunk_with(number, 16, offset, &[7; 10]), now);
        said(|out| receiver.poll_transmit(now, out))
    };
    assert_eq!(take(0), [Said::Accept]);
    assert_eq!(take(1), []);
    assert_eq!(take(3), [Said::Ack(20)], "at once");
    assert_eq!((take(5), take(7), take(9)), (vec![], vec![], vec![]));
    assert_eq!(take(11), [Said::Ack(20)], "the fourth");
    let calm: Vec<Said> = (12..16).flat_map(&mut take).collect();
    assert_eq!(calm, [Said::Ack(20)], "four again");
    let calm: Vec<Said> = (16..32).flat_map(&mut take).collect();
    assert_eq!(calm, [Said::Ack(20)], "sixteen");
}

#[test]
fn of_many_holes_the_newest_is_told() {
    let now = Instant::now();
    let mut receiver = receiver_of(&[7; 1000], 1000, now);
    for number in 0..90 {
        receiver.handle_message(&chunk(number, u64::from(number) * 10 + 5, &[7; 5]), now);
    }
    receiver.handle_message(&chunk(90, 5, &[7; 5]), now);
    let mut out = Vec::new();
    assert!(receiver.poll_transmit(now, &mut out), "the acceptance");
    out.clear();
    assert!(receiver.poll_transmit(now, &mut out));
    let MessageBody::Ack(ack) = Message::parse(&out).unwrap().body else { panic!("no Ack") };
    assert_eq!(ack.ranges.len(), Ack::MAX_RANGES);
    assert_eq!(ack.ranges[0], 5..10, "it came last");
    assert_eq!(ack.ranges.last(), Some(&(895..900)));
}

#[test]
fn a_chunk_that_comes_again_is_acknowledged_at_once() {
    let now = Instant::now();
    let mut receiver = receiver_of(&[7; 100], 100, now);
    receiver.handle_message(&chunk(0, 0, &[7; 10]), now);
    receiver.handle_message(&chunk(1, 10, &[7; 10]), now);
    assert_eq!(said(|out| receiver.poll_transmit(now, out)), [Said::Accept, Said::Ack(20)]);
    receiver.handle_message(&chunk(2, 20, &[7; 10]), now);
    assert_eq!(said(|out| receiver.poll_transmit(now, out)), [], "one that is new may wait");
    assert_eq!(said(|out| receiver.poll_transmit(now + MS * 5, out)), [Said::Ack(30)]);
    receiver.handle_message(&chunk(3, 10, &[7; 10]), now + MS * 5);
    assert_eq!(said(|out| receiver.poll_transmit(now + MS * 5, out)), [Said::Ack(30)]);
}

#[test]
fn an_interruption_is_survived() {
    let content = file(2_000_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 20));
    pair.switch =
        Box::new(
            |elapsed, _, _| {
                if (MS * 150..MS * 5000).contains(&elapsed) { Fate::Drop } else { Fate::Forward }
            },
        );
    let report = pair.run_and_compare(&content);
    assert!(report.told_after < MS * 8000, "{report:?}");
    assert!(report.sent < 2_000_000 * 115 / 100, "a dead path gets little: {report:?}");
}

#[test]
fn lost_acknowledgements_cost_nothing() {
    let content = file(2_000_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 20));
    let mut count = 0;
    pair.switch = Box::new(move |_, from, _| {
        count += u32::from(from == End::Receiver);
        if from == End::Receiver && count % 2 == 0 { Fate::Drop } else { Fate::Forward }
    });
    let report = pair.run_and_compare(&content);
    assert!(report.sent < 2_000_000 * 104 / 100, "{report:?}");
}
