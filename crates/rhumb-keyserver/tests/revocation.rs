//! Revocations: who may, in which order, and how soon everybody knows.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use domain::base::iana::{Rcode, Rtype};
use rhumb_capability::{DelegationId, Principal};
use rhumb_keyserver::feed::{FeedError, RevocationFeed};
use rhumb_keyserver::revocation::{Book, MAX_BATCH};
use rhumb_keyserver::server::{HOLD_WORDS_MS, Held, KeyServer, Outcome, Transport};
use rhumb_keyserver::tsig::{TsigKey, check_answer, sign_question};

use crate::world::*;

const NOW_MS: u64 = START_MS + 1_000;

fn signed(key: &TsigKey, mut message: Vec<u8>, now_ms: u64) -> Vec<u8> {
    sign_question(key, &mut message, now_ms / 1000);
    message
}

#[track_caller]
fn revoke(server: &mut KeyServer, records: &[(&str, &str)], now_ms: u64) -> Rcode {
    let message = signed(&key("operator"), update(records), now_ms);
    rcode(&ask_by(server, &message, Transport::Stream, now_ms))
}

fn feed(name: &str) -> RevocationFeed {
    RevocationFeed::new(APEX, key(name)).unwrap()
}

/// A feed that has been answered once.
fn joined(server: &mut KeyServer, name: &str) -> RevocationFeed {
    let mut feed = feed(name);
    let answer = follow(server, &mut feed, NOW_MS).unwrap();
    feed.handle_answer(&answer, NOW_MS).unwrap();
    feed
}

/// The answer to the feed's question, at the latest.
fn answer_to(server: &mut KeyServer, feed: &mut RevocationFeed, now_ms: u64) -> Vec<u8> {
    follow(server, feed, now_ms)
        .unwrap_or_else(|held| server.release(&held, held.until_ms).unwrap())
}

/// Asks the feed's question; `None` when the answer waits.
#[track_caller]
fn follow(server: &mut KeyServer, feed: &mut RevocationFeed, now_ms: u64) -> Result<Vec<u8>, Held> {
    let question = feed.question(5, now_ms);
    match server.handle(&question, SOURCE, Transport::Stream, now_ms) {
        Outcome::Answer(answer) => Ok(answer),
        Outcome::Hold(held) => Err(held),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_revoked_principal_gets_no_key_until_it_is_restored() {
    let mut server = server();
    let asked = question(waypoints()[0], 42, window_at(NOW_MS));
    let message = query(&format!("{}.{APEX}", asked.label()), Rtype::TXT);
    let code = |server: &mut KeyServer, now_ms| {
        rcode(&ask_by(server, &message, Transport::Stream, now_ms))
    };
    assert_eq!(code(&mut server, NOW_MS), Rcode::NOERROR);
    // A part of it is none of the key server's business.
    assert_eq!(revoke(&mut server, &[("7.42.revoked", "1")], NOW_MS), Rcode::NOERROR);
    assert_eq!(code(&mut server, NOW_MS), Rcode::NOERROR);
    assert_eq!(revoke(&mut server, &[("42.Revoked", "2")], NOW_MS), Rcode::NOERROR);
    assert_eq!(code(&mut server, NOW_MS), Rcode::NXDOMAIN);
    server.sweep(NOW_MS + 100_000_000);
    assert!(server.book().is_revoked(Principal(42)));
    assert_eq!(revoke(&mut server, &[("42.restored", "3")], NOW_MS), Rcode::NOERROR);
    assert_eq!(code(&mut server, NOW_MS), Rcode::NOERROR);
}

#[test]
fn only_the_operator_revokes_and_only_forward() {
    let mut server = server();
    let good = [("42.revoked", "10"), ("7.43.revoked", "10")];
    assert_eq!(revoke(&mut server, &good, NOW_MS), Rcode::NOERROR);
    let book = server.book().clone();
    let operator = key("operator");
    let stranger = TsigKey::new("operator", &[0; 32]).unwrap();
    let one: &[(&str, &str)] = &[("43.revoked", "11")];
    for (message, code) in [
        (update(one), Rcode::REFUSED),
        (signed(&key("waypoint-a"), update(one), NOW_MS), Rcode::REFUSED),
        (signed(&key("nobody"), update(one), NOW_MS), Rcode::NOTAUTH),
        (signed(&stranger, update(one), NOW_MS), Rcode::NOTAUTH),
        (signed(&operator, update(one), NOW_MS - 400_000), Rcode::NOTAUTH),
        // The same again, and older ones.
        (signed(&operator, update(&good), NOW_MS), Rcode::YXRRSET),
        (signed(&operator, update(&[("43.revoked", "9")]), NOW_MS), Rcode::YXRRSET),
        // Not of the form.
        (signed(&operator, update(&[]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("43.revoked", "0")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("43.revoked", "011")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("43.revoked", "4294967296")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("043.revoked", "11")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("43.revoke", "11")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("revoked", "11")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("16777216.43.revoked", "11")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[("1.2.43.revoked", "11")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[one[0], ("44.revoked", "12")]), NOW_MS), Rcode::REFUSED),
        (signed(&operator, update(&[one[0], ("43.restored", "11")]), NOW_MS), Rcode::REFUSED),
    ] {
        let answer = ask_by(&mut server, &message, Transport::Stream, NOW_MS);
        assert_eq!(rcode(&answer), code);
        assert_eq!(*server.book(), book);
    }
    let many: Vec<String> = (0..=MAX_BATCH).map(|number| format!("{number}.revoked")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|owner| (owner.as_str(), "11")).collect();
    assert_eq!(revoke(&mut server, &many, NOW_MS), Rcode::REFUSED);
    assert_eq!(revoke(&mut server, &many[1..], NOW_MS), Rcode::NOERROR);
}

#[test]
fn nothing_is_answered_before_it_is_stored_and_a_failed_one_is_not_in_force() {
    let mut server = server();
    let update_at =
        |serial: &str| signed(&key("operator"), update(&[("42.revoked", serial)]), NOW_MS);
    let Outcome::Store(first) = server.handle(&update_at("5"), SOURCE, Transport::Stream, NOW_MS)
    else {
        panic!("not stored");
    };
    assert!(server.book().is_empty());
    // Meanwhile its serial counts.
    let stale = ask_by(&mut server, &update_at("5"), Transport::Stream, NOW_MS);
    assert_eq!(rcode(&stale), Rcode::YXRRSET);
    assert_eq!(rcode(&server.stored(&first, false, NOW_MS)), Rcode::SERVFAIL);
    assert!(!server.book().is_revoked(Principal(42)));
    assert_eq!(revoke(&mut server, &[("42.revoked", "6")], NOW_MS), Rcode::NOERROR);
    assert!(server.book().is_revoked(Principal(42)));
}

#[test]
fn an_answer_is_signed_for_its_question() {
    let mut server = server();
    let mut message = update(&[("42.revoked", "1")]);
    let mac = sign_question(&key("operator"), &mut message, NOW_MS / 1000);
    let answer = ask_by(&mut server, &message, Transport::Stream, NOW_MS);
    assert_eq!(check_answer(&key("operator"), &mac, &answer, NOW_MS / 1000), Ok(()));
}

#[test]
fn followers_are_told_at_once_and_say_what_they_have() {
    let mut server = server();
    let mut first = joined(&mut server, "waypoint-a");
    let mut second = joined(&mut server, "waypoint-bb");
    let held = [&mut first, &mut second].map(|feed| follow(&mut server, feed, NOW_MS).unwrap_err());
    let watcher =
        signed(&key("operator"), query(&format!("7.everywhere.{APEX}"), Rtype::TXT), NOW_MS);
    let Outcome::Hold(watcher) = server.handle(&watcher, SOURCE, Transport::Stream, NOW_MS) else {
        panic!("not held");
    };
    assert!(held.iter().all(|held| server.release(held, NOW_MS + 1).is_none()));
    assert_eq!(
        revoke(&mut server, &[("42.revoked", "7"), ("3.43.revoked", "7")], NOW_MS),
        Rcode::NOERROR
    );
    for (feed, held) in [&mut first, &mut second].into_iter().zip(&held) {
        assert!(server.release(&watcher, NOW_MS).is_none());
        let answer = server.release(held, NOW_MS).unwrap();
        assert!(feed.handle_answer(&answer, NOW_MS).unwrap());
        let set = feed.revocations(NOW_MS / 1000).unwrap();
        assert_eq!((set.serial(), set.len(), feed.serial()), (7, 2, 7));
        let ids = || DelegationId::new(3).into_iter();
        assert!(set.refuses(Principal(42), std::iter::empty(), NOW_MS / 1000));
        assert!(set.refuses(Principal(43), ids(), NOW_MS / 1000));
        assert!(!set.refuses(Principal(43), std::iter::empty(), NOW_MS / 1000));
        // The next question is the word that it is in force.
        follow(&mut server, feed, NOW_MS).unwrap_err();
    }
    let answer = server.release(&watcher, NOW_MS).unwrap();
    assert_eq!(texts(&answer)[0].0, b"reached 2 of 2");
    // A restored one is no longer refused.
    let held = follow(&mut server, &mut first, NOW_MS).unwrap_err();
    assert_eq!(revoke(&mut server, &[("42.restored", "8")], NOW_MS), Rcode::NOERROR);
    let answer = server.release(&held, NOW_MS).unwrap();
    assert!(first.handle_answer(&answer, NOW_MS).unwrap());
    assert_eq!(first.revocations(NOW_MS / 1000).unwrap().len(), 1);
}

#[test]
fn who_does_not_follow_is_named() {
    let mut server = server();
    revoke(&mut server, &[("42.revoked", "7")], NOW_MS);
    let mut feed = feed("waypoint-a");
    let answer = follow(&mut server, &mut feed, NOW_MS).unwrap();
    feed.handle_answer(&answer, NOW_MS).unwrap();
    follow(&mut server, &mut feed, NOW_MS).unwrap_err();
    let watcher =
        signed(&key("operator"), query(&format!("7.everywhere.{APEX}"), Rtype::TXT), NOW_MS);
    let Outcome::Hold(held) = server.handle(&watcher, SOURCE, Transport::Stream, NOW_MS) else {
        panic!("not held");
    };
    let answer = server.release(&held, held.until_ms).unwrap();
    let lines: Vec<String> =
        texts(&answer).into_iter().map(|(text, _)| String::from_utf8(text).unwrap()).collect();
    assert_eq!(lines, ["reached 1 of 2", "missing 2001:db8::1"]);
}

#[test]
fn a_held_question_is_answered_when_its_time_is_over() {
    let mut server = server();
    let mut feed = joined(&mut server, "waypoint-a");
    let held = follow(&mut server, &mut feed, NOW_MS).unwrap_err();
    assert!(server.release(&held, NOW_MS + HOLD_WORDS_MS - 1).is_none());
    let answer = server.release(&held, NOW_MS + HOLD_WORDS_MS).unwrap();
    assert!(!feed.handle_answer(&answer, NOW_MS + HOLD_WORDS_MS).unwrap());
    assert_eq!(feed.current_ms(), Some(NOW_MS + HOLD_WORDS_MS));
}

#[test]
fn what_a_follower_kept_is_in_force_again_and_it_asks_for_what_came_since() {
    let mut server = server();
    revoke(&mut server, &[("42.revoked", "7"), ("3.43.revoked", "7")], NOW_MS);
    let kept = joined(&mut server, "waypoint-a").keep().unwrap();
    revoke(&mut server, &[("44.revoked", "8"), ("42.restored", "8")], NOW_MS);
    let mut again = feed("waypoint-a");
    again.resume(&kept, NOW_MS / 1000).unwrap();
    let set = again.revocations(NOW_MS / 1000).unwrap();
    assert_eq!((set.serial(), set.len(), again.current_ms()), (7, 2, None));
    assert!(set.refuses(Principal(42), std::iter::empty(), NOW_MS / 1000));
    // Answered at once, not held: it has been away.
    let answer = follow(&mut server, &mut again, NOW_MS).unwrap();
    assert!(again.handle_answer(&answer, NOW_MS).unwrap());
    let set = again.revocations(NOW_MS / 1000).unwrap();
    assert_eq!((set.serial(), set.len()), (8, 2));
    assert!(!set.refuses(Principal(42), std::iter::empty(), NOW_MS / 1000));
    assert!(set.refuses(Principal(44), std::iter::empty(), NOW_MS / 1000));
    // What was over meanwhile is not kept, and the serial is.
    let mut late = feed("waypoint-a");
    late.resume(&kept, NOW_MS / 1000 + 100_000).unwrap();
    assert_eq!((late.revocations(NOW_MS / 1000).unwrap().len(), late.serial()), (0, 7));
    // Damage leaves a feed as it was.
    assert!(late.resume(&kept[..kept.len() - 1], 0).is_err());
    assert_eq!(late.serial(), 7);
}

#[test]
fn what_is_over_is_forgotten_by_followers() {
    let mut server = server();
    revoke(&mut server, &[("42.revoked", "7")], NOW_MS);
    let mut feed = feed("waypoint-a");
    let answer = follow(&mut server, &mut feed, NOW_MS).unwrap();
    feed.handle_answer(&answer, NOW_MS).unwrap();
    // Until the end of the next window, its grace, and a margin for clocks.
    let end_s = START_MS / 1000 + 2 * 1024 + 10 + 60;
    assert_eq!(feed.revocations(end_s - 1).unwrap().len(), 1);
    assert_eq!(feed.revocations(end_s).unwrap().len(), 0);
    let mut late = self::feed("waypoint-a");
    let answer = follow(&mut server, &mut late, end_s * 1000).unwrap();
    late.handle_answer(&answer, end_s * 1000).unwrap();
    assert_eq!((late.serial(), late.revocations(end_s).unwrap().len()), (7, 0));
}

#[test]
fn old_and_foreign_answers_are_not_taken() {
    let mut server = server();
    let mut feed = feed("waypoint-a");
    revoke(&mut server, &[("42.revoked", "7")], NOW_MS);
    let old = follow(&mut server, &mut feed, NOW_MS).unwrap();
    feed.handle_answer(&old, NOW_MS).unwrap();
    let held = follow(&mut server, &mut feed, NOW_MS).unwrap_err();
    assert!(matches!(feed.handle_answer(&old, NOW_MS), Err(FeedError::Forged)));
    // Nothing is pending any more.
    let answer = server.release(&held, held.until_ms).unwrap();
    assert!(matches!(feed.handle_answer(&answer, NOW_MS), Err(FeedError::Forged)));
    for bit in (0..answer.len() * 8).step_by(3) {
        let mut answer = answer_to(&mut server, &mut feed, NOW_MS);
        let whole = answer.clone();
        if bit < answer.len() * 8 {
            answer[bit / 8] ^= 1 << (bit % 8);
        }
        let same = answer.eq_ignore_ascii_case(&whole);
        assert!(same || feed.handle_answer(&answer, NOW_MS).is_err(), "{bit}");
    }
    assert_eq!(feed.serial(), 7);
    // A server that forgot: what is in force stays in force.
    let mut empty = KeyServer::new(config(), Book::default());
    let answer = follow(&mut empty, &mut feed, NOW_MS).unwrap();
    let backward = feed.handle_answer(&answer, NOW_MS);
    assert!(matches!(backward, Err(FeedError::Backward { ours: 7, theirs: 0 })));
    assert_eq!(feed.revocations(NOW_MS / 1000).unwrap().len(), 1);
    let mut stranger =
        RevocationFeed::new(APEX, TsigKey::new("waypoint-a", &[0; 32]).unwrap()).unwrap();
    let answer = follow(&mut server, &mut stranger, NOW_MS).unwrap();
    assert!(matches!(stranger.handle_answer(&answer, NOW_MS), Err(FeedError::KeyRefused(_))));
}

#[test]
fn a_long_book_is_told_in_parts() {
    let mut server = server();
    for serial in 1..=20u32 {
        let owners: Vec<String> =
            (0..50).map(|id| format!("{}.43.revoked", serial * 100 + id)).collect();
        let text = serial.to_string();
        let records: Vec<(&str, &str)> =
            owners.iter().map(|owner| (owner.as_str(), text.as_str())).collect();
        assert_eq!(revoke(&mut server, &records, NOW_MS), Rcode::NOERROR);
    }
    let mut feed = feed("waypoint-a");
    let mut answers = 0;
    while let Ok(answer) = follow(&mut server, &mut feed, NOW_MS) {
        assert!(answers < 10);
        assert!(answer.len() < 32_000, "{}", answer.len());
        feed.handle_answer(&answer, NOW_MS).unwrap();
        answers += 1;
    }
    assert_eq!((feed.serial(), feed.revocations(NOW_MS / 1000).unwrap().len()), (20, 1000));
    assert!((2..=5).contains(&answers), "{answers}");
}
