//! What the path refuses is sent again when the path says
//! so, and costs the congestion window nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::one_end::{Said, accept, chunk, chunk_len, receiver_of, said, sender_of};
use super::pair::{End, Fate, MS, Pair, Path, failed, file};
use rhumb_node::transfer::{Event, MIN_BODY_LEN, Sender, TransferError};
use rhumb_wire::nack::Reason;
use rhumb_wire::payload::PayloadHeader;

#[test]
fn a_route_that_is_looked_up_delays_the_offer_by_what_it_says() {
    let content = file(1000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 5));
    let mut refusals = 3;
    pair.switch = Box::new(move |_, from, _| {
        if from == End::Receiver || refusals == 0 {
            return Fate::Forward;
        }
        refusals -= 1;
        Fate::Refuse(Reason::NotYet(30))
    });
    let report = pair.run_and_compare(&content);
    assert_eq!(report.told_after, MS * (3 * (5 + 30) + 10 + 10));
}

#[test]
fn a_route_that_expires_on_the_way_costs_its_pause_only() {
    let content = file(4_000_000, 1);
    let run = |refuse: bool| {
        let mut pair = Pair::in_memory(&content, Path::new(MS * 20));
        pair.switch = Box::new(move |elapsed, from, _| {
            let gone = refuse && (MS * 150..MS * 190).contains(&elapsed);
            if gone && from == End::Sender {
                Fate::Refuse(Reason::NotYet(25))
            } else {
                Fate::Forward
            }
        });
        pair.run_and_compare(&content)
    };
    let (smooth, refused) = (run(false), run(true));
    assert!(refused.told_after < smooth.told_after + MS * 150, "{smooth:?} {refused:?}");
    assert!(
        refused.sent < smooth.sent * 130 / 100,
        "at most a window again: {smooth:?} {refused:?}"
    );
}

#[test]
fn a_refusal_does_not_end_slow_start() {
    let content = file(4_000_000, 1);
    let run = |fate: fn() -> Fate| {
        let mut pair = Pair::in_memory(&content, Path::new(MS * 20));
        let mut count = 0;
        pair.switch = Box::new(move |_, from, _| {
            count += u32::from(from == End::Sender);
            if from == End::Sender && count == 50 { fate() } else { Fate::Forward }
        });
        pair.run_and_compare(&content).told_after
    };
    let (smooth, lost) = (run(|| Fate::Forward), run(|| Fate::Drop));
    let refused = run(|| Fate::Refuse(Reason::NotYet(1)));
    assert!(refused < smooth + MS * 100, "{smooth:?} {refused:?}");
    assert!(refused + MS * 200 < lost, "a loss would have: {refused:?} {lost:?}");
}

/// A sender on a path of 100 ms whose initial window is under way.
fn sender_with_a_window_under_way(now: Instant) -> Sender<Vec<u8>> {
    let mut sender = sender_of(&file(100_000, 1), now - MS * 100);
    assert_eq!(said(|out| sender.poll_transmit(now - MS * 100, out)), [Said::Offer]);
    sender.handle_message(&accept(1 << 20), now);
    assert_eq!(said(|out| sender.poll_transmit(now, out)).len(), 10);
    sender
}

#[test]
fn a_window_that_is_refused_does_not_wait_for_a_timeout() {
    let start = Instant::now() + MS * 1000;
    for (pause, first) in [(1, 10 * chunk_len()), (200, 0)] {
        let mut sender = sender_with_a_window_under_way(start);
        for _ in 0..10 {
            sender.handle_nack(Reason::NotYet(pause), start);
        }
        let until = start + MS * u32::from(pause);
        assert_eq!(sender.poll_timeout(), Some(until));
        assert_eq!(said(|out| sender.poll_transmit(until - MS / 2, out)), []);
        // The answer to the first chunk is overdue after the long pause only.
        let (mut now, mut chunks) = (until, Vec::new());
        while now < until + MS * 50 {
            chunks.extend(said(|out| sender.poll_transmit(now, out)));
            now = sender.poll_timeout().unwrap();
        }
        assert_eq!((chunks.len(), chunks[0]), (10, Said::Chunk(first)), "{chunks:?}");
    }
}

#[test]
fn silence_after_many_refusals_is_probed_though_the_window_is_full() {
    let start = Instant::now() + MS * 1000;
    let mut sender = sender_with_a_window_under_way(start);
    for i in 1..=4 {
        sender.handle_nack(Reason::Overloaded(1), start + MS * 2 * i);
        let instead = said(|out| sender.poll_transmit(start + MS * (2 * i + 1), out));
        assert!(instead.len() <= 1, "{instead:?}");
    }
    // The window is two chunks now, and more is under way.
    let timeout = sender.poll_timeout().unwrap();
    assert!(timeout > start + MS * 100);
    assert_eq!(said(|out| sender.poll_transmit(timeout, out)), [Said::Chunk(0)]);
}

#[test]
fn an_answer_that_is_refused_waits_and_is_said_once_more() {
    let start = Instant::now();
    let mut receiver = receiver_of(&[7; 100], 100, start);
    assert_eq!(said(|out| receiver.poll_transmit(start, out)), [Said::Accept]);
    receiver.handle_nack(Reason::NotYet(30), start);
    assert_eq!(receiver.poll_timeout(), Some(start + MS * 30));
    assert_eq!(said(|out| receiver.poll_transmit(start + MS * 29, out)), []);
    assert_eq!(said(|out| receiver.poll_transmit(start + MS * 30, out)), [Said::Accept]);

    let now = start + MS * 50;
    receiver.handle_message(&chunk(0, 0, &[7; 10]), now);
    receiver.handle_message(&chunk(1, 10, &[7; 10]), now);
    assert_eq!(said(|out| receiver.poll_transmit(now, out)), [Said::Ack(20)]);
    receiver.handle_nack(Reason::Overloaded(30), now);
    assert_eq!(said(|out| receiver.poll_transmit(now + MS * 29, out)), []);
    assert_eq!(receiver.poll_timeout(), Some(now + MS * 30));
    assert_eq!(said(|out| receiver.poll_transmit(now + MS * 30, out)), [Said::Ack(20)]);
    assert_eq!(said(|out| receiver.poll_transmit(now + MS * 90, out)), []);
}

#[test]
fn an_overloaded_path_slows_a_transfer_down_but_does_not_stop_it() {
    let content = file(500_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 2));
    let mut count = 0;
    pair.switch = Box::new(move |_, _, _| {
        count += 1;
        if count % 40 == 0 { Fate::Refuse(Reason::Overloaded(5)) } else { Fate::Forward }
    });
    let report = pair.run_and_compare(&content);
    assert!(report.told_after < MS * 1000, "{report:?}");
    assert!(report.sent < 500_000 * 115 / 100, "{report:?}");
}

#[test]
fn answers_that_are_refused_are_said_again() {
    let content = file(300_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 5));
    let mut count = 0;
    pair.switch = Box::new(move |_, from, _| {
        count += u32::from(from == End::Receiver);
        let refused = from == End::Receiver && count % 3 != 0;
        if refused { Fate::Refuse(Reason::NotYet(3)) } else { Fate::Forward }
    });
    let report = pair.run_and_compare(&content);
    assert!(report.told_after < MS * 1500, "{report:?}");
}

#[test]
fn chunks_shrink_to_what_the_path_carries() {
    let content = file(1_000_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 5));
    let refused = Rc::new(Cell::new([0; 2]));
    let counter = refused.clone();
    pair.switch = Box::new(move |elapsed, _, bytes| {
        // The path changes to a smaller one on the way.
        let is_smaller = elapsed > MS * 45;
        let limit: usize = if is_smaller { 600 } else { 900 };
        if bytes.len() + PayloadHeader::LEN <= limit {
            return Fate::Forward;
        }
        let mut counts = counter.get();
        counts[usize::from(is_smaller)] += 1;
        counter.set(counts);
        Fate::Refuse(Reason::TooBig(limit as u16))
    });
    let report = pair.run_and_compare(&content);
    assert!(refused.get().iter().all(|&count| count > 5), "both limits are met: {refused:?}");
    assert!(report.told_after < MS * 500, "{report:?}");
}

#[test]
fn an_absurd_limit_is_not_obeyed_below_what_every_path_carries() {
    let content = file(100_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 5));
    let mut said = false;
    pair.switch = Box::new(move |elapsed, from, bytes| {
        assert!(elapsed < MS * 40 || bytes.len() <= MIN_BODY_LEN, "shrunk");
        let say = from == End::Sender
            && bytes.len() > MIN_BODY_LEN
            && !std::mem::replace(&mut said, true);
        if say { Fate::Refuse(Reason::TooBig(0)) } else { Fate::Forward }
    });
    pair.run_and_compare(&content);
}

#[test]
fn a_name_that_stays_unreachable_is_given_up_with_that_reason() {
    for (reason, most) in [
        (Reason::Unreachable(1000), 31),
        (Reason::Unreachable(u16::MAX), 2),
        (Reason::NotYet(0), 31),
        (Reason::NotAuthorised, 310),
    ] {
        let mut pair = Pair::in_memory(&file(1000, 1), Path::new(MS));
        let count = Rc::new(Cell::new(0));
        let counter = count.clone();
        pair.switch = Box::new(move |_, _, _| {
            counter.set(counter.get() + 1);
            Fate::Refuse(reason)
        });
        let after = Duration::from_secs(30);
        let report = pair.run();
        assert_eq!(
            report.sender,
            failed(TransferError::NoProgress { after, last_nack: Some(reason) })
        );
        assert_eq!(report.told_after, after);
        // The farewell is said seven times whatever the path says.
        assert!(
            count.get() <= most + 7 || reason == Reason::NotYet(0),
            "{reason}: {}",
            count.get()
        );
        assert!(count.get() <= 16_000, "no busy loop: {}", count.get());
    }
}

#[test]
fn a_path_that_is_gone_for_good_on_the_way_is_given_up() {
    let mut pair = Pair::in_memory(&file(4_000_000, 1), Path::new(MS * 20));
    pair.switch = Box::new(|elapsed, _, _| {
        if elapsed < MS * 150 { Fate::Forward } else { Fate::Refuse(Reason::Unreachable(500)) }
    });
    let report = pair.run();
    let last_nack = Some(Reason::Unreachable(500));
    let after = Duration::from_secs(30);
    assert_eq!(report.sender, failed(TransferError::NoProgress { after, last_nack }));
    let told = matches!(report.receiver, Some(Event::Failed(TransferError::NoProgress { .. })));
    assert!(told, "{report:?}");
    assert!(report.sent < 1_500_000, "what was under way, and then little: {report:?}");
}
