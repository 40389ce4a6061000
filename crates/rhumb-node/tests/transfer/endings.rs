//! However a transfer ends, both ends learn it, once, and fall silent.

use std::time::Duration;

use super::pair::{End, Fate, ID, MS, Pair, Path, Report, failed, file};
use rhumb_node::transfer::{Event, TransferError};
use rhumb_wire::transfer::{CancelReason, Message, MessageBody, TransferId};

fn under_way() -> Pair<Vec<u8>, Vec<u8>> {
    let mut pair = Pair::in_memory(&file(2_000_000, 1), Path::new(MS * 10));
    pair.run_until(|pair| pair.received() > 100_000);
    pair
}

fn assert_stopped(report: &Report, by: End) {
    let (stopped, told) = match by {
        End::Sender => (report.sender, report.receiver),
        End::Receiver => (report.receiver, report.sender),
    };
    assert_eq!(stopped, failed(TransferError::Stopped));
    assert_eq!(told, failed(TransferError::EndedByPeer(CancelReason::Stopped)));
}

#[test]
fn either_end_can_stop() {
    let mut pair = under_way();
    pair.sender.cancel(pair.now);
    let (before, report) = (pair.elapsed(), pair.run());
    assert_stopped(&report, End::Sender);
    assert!(report.elapsed <= before + MS * 25, "{report:?}");

    let mut pair = under_way();
    pair.receiver.as_mut().unwrap().cancel(pair.now);
    let (before, report) = (pair.elapsed(), pair.run());
    assert_stopped(&report, End::Receiver);
    assert!(report.elapsed <= before + MS * 25, "{report:?}");
}

#[test]
fn a_lost_stop_is_said_again() {
    for by in [End::Sender, End::Receiver] {
        let mut pair = under_way();
        let mut losses = 3;
        pair.switch = Box::new(move |_, _, bytes| {
            let is_cancel = matches!(Message::parse(bytes).unwrap().body, MessageBody::Cancel(_));
            if is_cancel && losses > 0 {
                losses -= 1;
                return Fate::Drop;
            }
            Fate::Forward
        });
        match by {
            End::Sender => pair.sender.cancel(pair.now),
            End::Receiver => pair.receiver.as_mut().unwrap().cancel(pair.now),
        }
        let report = pair.run();
        assert_stopped(&report, by);
        assert!(report.elapsed < MS * 2000, "{report:?}");
    }
}

#[test]
fn both_may_stop_at_once() {
    let mut pair = under_way();
    pair.sender.cancel(pair.now);
    pair.receiver.as_mut().unwrap().cancel(pair.now);
    let (before, report) = (pair.elapsed(), pair.run());
    assert_eq!(report.sender, failed(TransferError::Stopped));
    assert_eq!(report.receiver, failed(TransferError::Stopped));
    assert!(report.elapsed <= before + MS * 25, "{report:?}");
}

#[test]
fn a_file_that_is_too_large_is_refused_and_one_that_just_fits_is_not() {
    let content = file(5000, 1);
    let mut pair = Pair::new(content.clone(), 5000, Path::new(MS), |_| -> Result<Vec<u8>, _> {
        panic!("not even opened")
    });
    pair.receiver_config.max_length = 4999;
    let report = pair.run();
    assert_eq!(report.sender, failed(TransferError::EndedByPeer(CancelReason::TooLarge)));
    assert_eq!(report.receiver, failed(TransferError::TooLarge { length: 5000, limit: 4999 }));
    assert!(report.elapsed <= MS * 4, "{report:?}");

    let mut pair = Pair::in_memory(&content, Path::new(MS));
    pair.receiver_config.max_length = 5000;
    pair.run_and_compare(&content);
}

#[test]
fn a_receiver_can_decline() {
    let mut pair = Pair::new(file(9, 1), 9, Path::new(MS), |offer| -> Result<Vec<u8>, _> {
        assert_eq!((offer.length, offer.name.as_str()), (9, "file"));
        Err(CancelReason::Declined)
    });
    let report = pair.run();
    assert_eq!(report.sender, failed(TransferError::EndedByPeer(CancelReason::Declined)));
    assert_eq!(report.receiver, failed(TransferError::Refused(CancelReason::Declined)));
    assert!(pair.receiver.unwrap().into_storage().is_none());
}

#[test]
fn nobody_there() {
    let mut pair = Pair::in_memory(&file(9, 1), Path::new(MS));
    pair.switch = Box::new(|_, _, _| Fate::Drop);
    let report = pair.run();
    let after = Duration::from_secs(30);
    assert_eq!(report.sender, failed(TransferError::NoProgress { after, last_nack: None }));
    assert_eq!(report.told_after, after);
    assert!(report.sent < 30 * 60, "an offer every two seconds: {report:?}");
}

#[test]
fn a_peer_that_vanishes_is_noticed_by_either_end() {
    for gone in [End::Sender, End::Receiver] {
        let mut pair = under_way();
        let since = pair.elapsed();
        pair.switch =
            Box::new(move |_, from, _| if from == gone { Fate::Drop } else { Fate::Forward });
        let report = pair.run();
        let after = Duration::from_secs(30);
        let expected = failed(TransferError::NoProgress { after, last_nack: None });
        let told = if gone == End::Sender { report.receiver } else { report.sender };
        assert_eq!(told, expected, "{gone:?}");
        assert!(report.elapsed < since + after + Duration::from_secs(8), "{report:?}");
    }
}

#[test]
fn a_lost_verdict_is_said_again() {
    let content = file(100_000, 1);
    for losses in [1, 2, 5] {
        let mut pair = Pair::in_memory(&content, Path::new(MS * 10));
        let mut left = losses;
        pair.switch = Box::new(move |_, from, bytes| {
            let is_last = matches!(Message::parse(bytes).unwrap().body, MessageBody::Finished(_));
            if is_last && from == End::Receiver && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Forward
        });
        let report = pair.run_and_compare(&content);
        assert!(report.elapsed < MS * 2000, "{report:?}");
    }
}

#[test]
fn a_sender_that_leaves_at_once_does_not_keep_the_receiver() {
    let mut pair = Pair::in_memory(&file(100_000, 1), Path::new(MS * 10));
    pair.switch = Box::new(|_, from, bytes| {
        let is_last = matches!(Message::parse(bytes).unwrap().body, MessageBody::Finished(_));
        if is_last && from == End::Sender { Fate::Drop } else { Fate::Forward }
    });
    let report = pair.run();
    assert_eq!((report.sender, report.receiver), (Some(Event::Completed), Some(Event::Completed)));
    assert!(report.elapsed < Duration::from_secs(8), "{report:?}");
}

#[test]
fn what_belongs_elsewhere_is_dropped_and_counted() {
    let mut pair = under_way();
    let receiver = pair.receiver.as_mut().unwrap();
    for body in [MessageBody::Cancel(CancelReason::Stopped), MessageBody::Accept { window: 1 }] {
        let foreign = Message { id: TransferId(ID.0 + 1), body };
        pair.sender.handle_message(&foreign, pair.now);
        receiver.handle_message(&foreign, pair.now);
    }
    assert_eq!((pair.sender.counts().foreign, receiver.counts().foreign), (2, 2));
    receiver.handle_message(&Message { id: ID, body: MessageBody::Accept { window: 1 } }, pair.now);
    assert_eq!(receiver.counts().unexpected, 1);
    let mut other = receiver.offer().clone();
    other.length += 1;
    receiver.handle_message(&Message { id: ID, body: MessageBody::Offer(other) }, pair.now);
    assert_eq!(receiver.counts().implausible, 1);
    let offer = Message { id: ID, body: MessageBody::Offer(receiver.offer().clone()) };
    pair.sender.handle_message(&offer, pair.now);
    assert_eq!(pair.sender.counts().unexpected, 1);
    pair.run_and_compare(&file(2_000_000, 1));
}
