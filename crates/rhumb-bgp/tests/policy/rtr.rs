//! The client of an RTR cache in virtual time, against a cache of a few lines.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rhumb_bgp::policy::Vrp;
use rhumb_bgp::policy::rtr::pdu::{Intervals, Pdu};
use rhumb_bgp::policy::rtr::{ANSWER, RtrCaches, RtrClient, RtrError};

use super::prefix;
use super::rpki::some_vrps;

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "a first instant, from which virtual time goes on"
    )]
    Instant::now()
}

fn vrp(text: &str, asn: u32) -> Vrp {
    Vrp::new(prefix(text), 24, asn).unwrap()
}

const SHORT: Intervals = Intervals {
    refresh: Duration::from_secs(100),
    retry: Duration::from_secs(30),
    expire: Duration::from_secs(600),
};

fn bytes(version: u8, pdus: &[Pdu]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for pdu in pdus {
        pdu.emit(version, &mut bytes);
    }
    bytes
}

fn end(session: u16, serial: u32) -> Pdu {
    Pdu::EndOfData { session, serial, intervals: Some(SHORT) }
}

fn prefix_pdu(announced: bool, vrp: Vrp) -> Pdu {
    Pdu::Prefix { announced, vrp }
}

/// What the client says next, parsed.
fn said(client: &mut RtrClient) -> Option<(u8, Pdu)> {
    let bytes = client.poll_transmit()?;
    let (received, len) = Pdu::parse(&bytes).unwrap().unwrap();
    assert_eq!(len, bytes.len(), "one message at a time");
    Some((received.version, received.pdu))
}

/// A client that has these from session 7, serial 1.
fn synchronized(vrps: &[Vrp], at: Instant) -> RtrClient {
    let mut client = RtrClient::default();
    client.connected(at);
    assert_eq!(said(&mut client), Some((1, Pdu::ResetQuery)));
    let mut answer = vec![Pdu::CacheResponse { session: 7 }];
    answer.extend(vrps.iter().map(|vrp| prefix_pdu(true, *vrp)));
    answer.push(end(7, 1));
    client.handle_bytes(&bytes(1, &answer), at).unwrap();
    assert!(client.take_news());
    client
}

#[test]
fn a_set_comes_as_a_whole() {
    let at = now();
    let mut client = RtrClient::default();
    assert_eq!((client.poll_timeout(), client.vrps()), (None, None));
    client.connected(at);
    assert_eq!(said(&mut client), Some((1, Pdu::ResetQuery)));
    let (a, b) = (vrp("10.0.0.0/8", 1), vrp("192.0.2.0/24", 2));
    let answer = bytes(
        1,
        &[Pdu::CacheResponse { session: 7 }, prefix_pdu(true, a), prefix_pdu(true, b), end(7, 1)],
    );
    // Byte by byte, and nothing of it counts before the end.
    let (last, before) = answer.split_last().unwrap();
    for byte in before {
        client.handle_bytes(&[*byte], at).unwrap();
        assert!(client.vrps().is_none() && !client.take_news());
    }
    client.handle_bytes(&[*last], at).unwrap();
    assert!(client.take_news() && !client.take_news());
    assert_eq!(client.vrps(), Some(&BTreeSet::from([a, b])));
    assert_eq!(client.counters().resets, 1);
}

#[test]
fn what_changed_is_asked_for_when_told_or_when_it_is_time() {
    let at = now();
    let (a, b) = (vrp("10.0.0.0/8", 1), vrp("192.0.2.0/24", 2));
    let mut client = synchronized(&[a], at);
    client.handle_bytes(&bytes(1, &[Pdu::Notify { session: 7, serial: 2 }]), at).unwrap();
    assert_eq!(said(&mut client), Some((1, Pdu::SerialQuery { session: 7, serial: 1 })));
    let delta =
        [Pdu::CacheResponse { session: 7 }, prefix_pdu(false, a), prefix_pdu(true, b), end(7, 2)];
    client.handle_bytes(&bytes(1, &delta), at).unwrap();
    assert_eq!(client.vrps(), Some(&BTreeSet::from([b])));
    assert!(client.take_news());
    assert_eq!(client.poll_timeout(), Some(at + SHORT.refresh));
    client.handle_timeout(at + SHORT.refresh).unwrap();
    assert_eq!(said(&mut client), Some((1, Pdu::SerialQuery { session: 7, serial: 2 })));
    let nothing = [Pdu::CacheResponse { session: 7 }, end(7, 2)];
    client.handle_bytes(&bytes(1, &nothing), at + SHORT.refresh).unwrap();
    assert!(!client.take_news());
    assert_eq!(client.counters().deltas, 2);
}

#[test]
fn what_a_cache_tells_of_while_it_answers_is_asked_for_afterwards() {
    let at = now();
    for (told, asked) in [(3, true), (2, false)] {
        let mut client = synchronized(&[], at);
        client.handle_timeout(at + SHORT.refresh).unwrap();
        said(&mut client);
        let notify = Pdu::Notify { session: 7, serial: told };
        let answer = [Pdu::CacheResponse { session: 7 }, notify, end(7, 2)];
        client.handle_bytes(&bytes(1, &answer), at).unwrap();
        let question = (1, Pdu::SerialQuery { session: 7, serial: 2 });
        assert_eq!(said(&mut client), asked.then_some(question));
    }
}

#[test]
fn a_cache_that_cannot_say_what_changed_says_everything() {
    let at = now();
    let (a, b) = (vrp("10.0.0.0/8", 1), vrp("192.0.2.0/24", 2));
    let mut client = synchronized(&[a], at);
    client.handle_timeout(at + SHORT.refresh).unwrap();
    said(&mut client);
    client.handle_bytes(&bytes(1, &[Pdu::CacheReset]), at).unwrap();
    assert_eq!(said(&mut client), Some((1, Pdu::ResetQuery)));
    // What it had is in force meanwhile.
    assert_eq!(client.vrps(), Some(&BTreeSet::from([a])));
    let answer = [Pdu::CacheResponse { session: 8 }, prefix_pdu(true, b), end(8, 1)];
    client.handle_bytes(&bytes(1, &answer), at).unwrap();
    assert_eq!(client.vrps(), Some(&BTreeSet::from([b])));
}

#[test]
fn a_new_connection_goes_on_where_the_last_one_ended() {
    let at = now();
    let (a, b) = (vrp("10.0.0.0/8", 1), vrp("192.0.2.0/24", 2));
    let mut client = synchronized(&[a], at);
    client.handle_timeout(at + SHORT.refresh).unwrap();
    said(&mut client);
    // An answer breaks off: nothing of it counts.
    client
        .handle_bytes(&bytes(1, &[Pdu::CacheResponse { session: 7 }, prefix_pdu(false, a)]), at)
        .unwrap();
    client.disconnected();
    assert_eq!(client.vrps(), Some(&BTreeSet::from([a])));
    assert_eq!(client.poll_timeout(), Some(at + SHORT.expire));
    client.connected(at + SHORT.retry);
    assert_eq!(said(&mut client), Some((1, Pdu::SerialQuery { session: 7, serial: 1 })));
    let delta = [Pdu::CacheResponse { session: 7 }, prefix_pdu(true, b), end(7, 9)];
    client.handle_bytes(&bytes(1, &delta), at + SHORT.retry).unwrap();
    assert_eq!(client.vrps(), Some(&BTreeSet::from([a, b])));
}

#[test]
fn a_set_expires_at_its_time_and_not_before() {
    let at = now();
    let mut client = synchronized(&[vrp("10.0.0.0/8", 1)], at);
    client.disconnected();
    client.handle_timeout(at + SHORT.expire - Duration::from_millis(1)).unwrap();
    assert!(client.vrps().is_some() && !client.take_news());
    client.handle_timeout(at + SHORT.expire).unwrap();
    assert!(client.vrps().is_none() && client.take_news());
    assert_eq!((client.counters().expired, client.poll_timeout()), (1, None));
    client.connected(at + SHORT.expire);
    assert_eq!(said(&mut client), Some((1, Pdu::ResetQuery)));
}

#[test]
fn a_silent_cache_is_left() {
    let at = now();
    let mut client = RtrClient::default();
    client.connected(at);
    assert_eq!(client.poll_timeout(), Some(at + ANSWER));
    client.handle_timeout(at + ANSWER - Duration::from_millis(1)).unwrap();
    // Each payload gives it as long again.
    let begun = at + ANSWER / 2;
    client.handle_bytes(&bytes(1, &[Pdu::CacheResponse { session: 7 }]), begun).unwrap();
    client.handle_timeout(at + ANSWER).unwrap();
    assert_eq!(client.handle_timeout(begun + ANSWER), Err(RtrError::Silent));
}

#[test]
fn an_older_cache_is_spoken_to_in_its_version() {
    let at = now();
    let a = vrp("10.0.0.0/8", 1);
    let answer = [
        Pdu::CacheResponse { session: 7 },
        prefix_pdu(true, a),
        Pdu::EndOfData { session: 7, serial: 1, intervals: None },
    ];
    // One that answers in its version.
    let mut client = RtrClient::default();
    client.connected(at);
    said(&mut client);
    client.handle_bytes(&bytes(0, &answer), at).unwrap();
    assert_eq!(client.vrps(), Some(&BTreeSet::from([a])));
    assert_eq!(client.poll_timeout(), Some(at + Intervals::DEFAULT.refresh));
    client.handle_timeout(at + Intervals::DEFAULT.refresh).unwrap();
    assert_eq!(said(&mut client), Some((0, Pdu::SerialQuery { session: 7, serial: 1 })));
    // One that reports an error: unsupported version, in its own.
    let mut client = RtrClient::default();
    client.connected(at);
    said(&mut client);
    let error = [0, 10, 0, 4, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(client.handle_bytes(&error, at), Err(RtrError::Version(0)));
    client.disconnected();
    client.connected(at);
    assert_eq!(said(&mut client), Some((0, Pdu::ResetQuery)));
    client.handle_bytes(&bytes(0, &answer), at).unwrap();
    assert!(client.vrps().is_some());
    // A version does not change once it is agreed.
    client.handle_timeout(at + Intervals::DEFAULT.refresh).unwrap();
    let refused = client.handle_bytes(&bytes(1, &[Pdu::CacheResponse { session: 7 }]), at);
    assert_eq!(refused, Err(RtrError::Version(1)));
}

#[test]
fn what_a_cache_must_not_say_ends_the_connection_and_not_the_set() {
    let at = now();
    let (a, b) = (vrp("10.0.0.0/8", 1), vrp("192.0.2.0/24", 2));
    let begin = |session| Pdu::CacheResponse { session };
    let error = |code: u8| vec![1, 10, 0, code, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0];
    for (name, stream, expected, reported) in [
        (
            "a payload twice",
            bytes(1, &[begin(7), prefix_pdu(true, a)]),
            RtrError::Inconsistent,
            Some(7),
        ),
        (
            "a withdrawal of nothing",
            bytes(1, &[begin(7), prefix_pdu(false, b)]),
            RtrError::Inconsistent,
            Some(7),
        ),
        ("another session", bytes(1, &[begin(8)]), RtrError::Session, Some(0)),
        ("another at the end", bytes(1, &[begin(7), end(8, 2)]), RtrError::Session, Some(0)),
        ("a payload before", bytes(1, &[prefix_pdu(true, b)]), RtrError::Unexpected, Some(0)),
        ("an end before", bytes(1, &[end(7, 2)]), RtrError::Unexpected, Some(0)),
        ("a beginning twice", bytes(1, &[begin(7), begin(7)]), RtrError::Unexpected, Some(0)),
        ("a query", bytes(1, &[Pdu::ResetQuery]), RtrError::Unexpected, Some(0)),
        ("a newer version", bytes(2, &[begin(7)]), RtrError::Version(2), Some(8)),
        ("an error", error(2), RtrError::Reported(2), None),
        ("an unknown error", error(99), RtrError::Reported(99), None),
    ] {
        let mut client = synchronized(&[a], at);
        client.handle_timeout(at + SHORT.refresh).unwrap();
        said(&mut client);
        assert_eq!(client.handle_bytes(&stream, at), Err(expected), "{name}");
        assert_eq!(client.vrps(), Some(&BTreeSet::from([a])), "{name}");
        let report = said(&mut client).map(|(_, pdu)| pdu);
        assert_eq!(report, reported.map(|code| Pdu::Error { code }), "{name}");
        assert_eq!(client.counters().faults, 1, "{name}");
        assert!(!client.take_news());
    }
}

/// StayRTR 0.5.1 answers a serial of the session before its restart so.
#[test]
fn after_an_error_everything_is_asked_for() {
    let at = now();
    let mut client = synchronized(&[vrp("10.0.0.0/8", 1)], at);
    client.disconnected();
    client.connected(at);
    assert_eq!(said(&mut client), Some((1, Pdu::SerialQuery { session: 7, serial: 1 })));
    let error = [1, 10, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(client.handle_bytes(&error, at), Err(RtrError::Reported(0)));
    client.disconnected();
    assert_eq!(client.vrps().map(BTreeSet::len), Some(1));
    client.connected(at);
    assert_eq!(said(&mut client), Some((1, Pdu::ResetQuery)));
}

/// So does it at times, without a word.
#[test]
fn after_a_question_without_an_answer_everything_is_asked_for() {
    let at = now();
    for silent in [false, true] {
        let mut client = synchronized(&[vrp("10.0.0.0/8", 1)], at);
        client.disconnected();
        client.connected(at);
        assert_eq!(said(&mut client), Some((1, Pdu::SerialQuery { session: 7, serial: 1 })));
        if silent {
            assert_eq!(client.handle_timeout(at + ANSWER), Err(RtrError::Silent));
        }
        client.disconnected();
        assert!(client.vrps().is_some() && !client.knows_serial());
        client.connected(at);
        assert_eq!(said(&mut client), Some((1, Pdu::ResetQuery)));
    }
}

#[test]
fn bytes_that_are_no_message_are_reported_as_such() {
    let at = now();
    // An error report is never answered.
    for (stream, expected, code) in [
        (vec![1, 77, 0, 0, 0, 0, 0, 8], "no message of RFC 8210: kind 77", Some(5)),
        (vec![1, 3, 0, 0, 0, 0, 0, 9], "no message of RFC 8210: length 9", Some(0)),
        (vec![1, 10, 0, 0, 0, 1, 0, 1], "no message of RFC 8210: length 65537", None),
        (
            vec![1, 4, 0, 0, 0, 0, 0, 20, 1, 33, 33, 0, 10, 0, 0, 0, 0, 0, 0, 1],
            "no message of RFC 8210: an impossible prefix",
            Some(0),
        ),
        (
            vec![1, 4, 0, 0, 0, 0, 0, 20, 1, 8, 7, 0, 10, 0, 0, 0, 0, 0, 0, 1],
            "no message of RFC 8210: an impossible prefix",
            Some(0),
        ),
        (
            vec![1, 4, 0, 0, 0, 0, 0, 20, 1, 8, 8, 0, 10, 1, 0, 0, 0, 0, 0, 1],
            "no message of RFC 8210: an impossible prefix",
            Some(0),
        ),
    ] {
        let mut client = RtrClient::default();
        client.connected(at);
        said(&mut client);
        assert_eq!(client.handle_bytes(&stream, at).unwrap_err().to_string(), expected);
        assert_eq!(said(&mut client), code.map(|code| (1, Pdu::Error { code })));
    }
}

#[test]
fn keys_of_routers_are_passed_over_and_notices_ignored_before_an_answer() {
    let at = now();
    let a = vrp("10.0.0.0/8", 1);
    let mut client = RtrClient::default();
    client.connected(at);
    said(&mut client);
    client.handle_bytes(&bytes(0, &[Pdu::Notify { session: 9, serial: 9 }]), at).unwrap();
    assert_eq!(said(&mut client), None);
    let mut answer = bytes(1, &[Pdu::CacheResponse { session: 7 }]);
    answer.extend([1, 9, 1, 0, 0, 0, 0, 33]);
    answer.extend([0; 25]);
    answer.extend(bytes(1, &[prefix_pdu(true, a), end(7, 1)]));
    client.handle_bytes(&answer, at).unwrap();
    assert_eq!(client.vrps(), Some(&BTreeSet::from([a])));
}

#[test]
fn intervals_are_kept_within_the_bounds_of_the_rfc() {
    let seconds = |refresh, retry, expire| Intervals {
        refresh: Duration::from_secs(refresh),
        retry: Duration::from_secs(retry),
        expire: Duration::from_secs(expire),
    };
    assert_eq!(seconds(0, 0, 0).bounded(), seconds(1, 1, 600));
    assert_eq!(
        seconds(u64::from(u32::MAX), 9999, u64::from(u32::MAX)).bounded(),
        seconds(86_400, 7200, 172_800)
    );
    assert_eq!(seconds(3600, 600, 600).bounded(), seconds(3600, 600, 3601));
    assert_eq!(Intervals::DEFAULT.bounded(), Intervals::DEFAULT);
}

#[test]
fn of_several_caches_the_first_with_a_set_counts() {
    let at = now();
    let (a, b) = (vrp("10.0.0.0/8", 1), vrp("192.0.2.0/24", 2));
    let mut caches = RtrCaches::new(2);
    assert!(caches.in_force().is_none() && caches.client(2).is_none());
    *caches.client(1).unwrap() = synchronized(&[b], at);
    assert_eq!(caches.in_force(), Some((1, &BTreeSet::from([b]))));
    *caches.client(0).unwrap() = synchronized(&[a], at);
    assert_eq!(caches.in_force(), Some((0, &BTreeSet::from([a]))));
    caches.client(0).unwrap().disconnected();
    assert_eq!(caches.in_force().unwrap().0, 0);
    caches.client(0).unwrap().handle_timeout(at + SHORT.expire).unwrap();
    assert_eq!(caches.in_force().unwrap().0, 1);
    assert_eq!(caches.iter().map(|client| client.counters().expired).sum::<u64>(), 1);
}

proptest! {
    /// Whatever sets follow one another, and however the bytes are cut, the client has each.
    #[test]
    fn deltas_lead_from_set_to_set(sets in proptest::collection::vec(some_vrps(), 1..5), piece in 1..50usize) {
        let at = now();
        let mut client = RtrClient::default();
        client.connected(at);
        let mut before = BTreeSet::new();
        for (serial, set) in (1..).zip(&sets) {
            let withdrawn = before.difference(set).map(|vrp| prefix_pdu(false, *vrp));
            let announced = set.difference(&before).map(|vrp| prefix_pdu(true, *vrp));
            let mut answer = vec![Pdu::CacheResponse { session: 7 }];
            answer.extend(withdrawn.chain(announced));
            answer.push(end(7, serial));
            for part in bytes(1, &answer).chunks(piece) {
                client.handle_bytes(part, at).unwrap();
            }
            prop_assert_eq!(client.vrps(), Some(set));
            client.handle_bytes(&bytes(1, &[Pdu::Notify { session: 7, serial: serial + 1 }]), at).unwrap();
            before.clone_from(set);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(data: Vec<u8>) {
        let mut client = RtrClient::default();
        client.connected(now());
        let _ = client.handle_bytes(&data, now());
    }
}
