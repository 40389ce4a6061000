//! What a key server answers to whom, to the millisecond and the byte.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, Name};
use domain::rdata::{A, Ns, Soa};
use proptest::prelude::*;
use rhumb_keyserver::record;
use rhumb_keyserver::record::SharedKey;
use rhumb_keyserver::server::{KeyServer, Outcome, Transport};
use rhumb_keyserver::{DropReason, MAX_AMPLIFICATION};

use crate::world::*;

fn key_name(waypoint: usize, principal: u32, window: u32) -> String {
    format!("{}.{APEX}", question(waypoints()[waypoint], principal, window).label())
}

#[test]
fn a_key_is_given_for_this_window_and_the_next_and_for_the_last_within_its_grace() {
    let mut server = server();
    let window = window_at(START_MS);
    for waypoint in [0, 1] {
        for (offset, now_ms, ttl_s) in [
            (0, START_MS, Some(1024)),
            (0, START_MS + 1_023_999, Some(1)),
            (1, START_MS, Some(2048)),
            (1, START_MS + 1_023_999, Some(1025)),
            (2, START_MS, None),
            (-1, START_MS, Some(10)),
            (-1, START_MS + 9_999, Some(1)),
            (-1, START_MS + 10_000, None),
            (-2, START_MS, None),
        ] {
            let asked = question(waypoints()[waypoint], 42, window.wrapping_add_signed(offset));
            let answer = ask(
                &mut server,
                &query(&key_name(waypoint, 42, asked.window.0), Rtype::TXT),
                now_ms,
            );
            let Some(ttl_s) = ttl_s else {
                assert_eq!(rcode(&answer), Rcode::NXDOMAIN, "{offset} at {now_ms}");
                continue;
            };
            let texts = texts(&answer);
            assert_eq!((texts.len(), texts[0].1), (1, ttl_s), "{offset} at {now_ms}");
            let name = server.zone().query_name(&asked.label());
            let opened =
                record::open(&texts[0].0, &SharedKey::new([42; 32]), &asked, &name).unwrap();
            let capability = opened.capability;
            let minted = epoch_keys(1).mint(capability, opened.not_after_s).unwrap();
            assert_eq!(minted, opened);
            assert_eq!(opened.not_after_s, clock().not_after_s(asked.window));
            assert_eq!(record::open(&texts[0].0, &SharedKey::new([43; 32]), &asked, &name), None);
        }
    }
}

#[test]
fn whoever_is_not_known_gets_the_same_answer_as_for_a_name_that_is_none() {
    let mut server = server();
    let window = window_at(START_MS);
    let elsewhere = question([192, 0, 2, 9].into(), 42, window).label();
    for name in [
        key_name(0, 44, window),
        format!("{elsewhere}.{APEX}"),
        format!("nonsense.{APEX}"),
        format!("x.{}", key_name(0, 42, window)),
        format!("42.revoked.{APEX}"),
    ] {
        let answer = ask_by(&mut server, &query(&name, Rtype::TXT), Transport::Stream, START_MS);
        let message = Message::from_octets(answer.as_slice()).unwrap();
        assert_eq!(message.header().rcode(), Rcode::NXDOMAIN, "{name}");
        assert!(message.header().aa());
        let soa = message.authority().unwrap().limit_to::<Soa<_>>().next().unwrap().unwrap();
        assert_eq!(soa.ttl(), soa.data().minimum());
    }
}

#[test]
fn letters_may_change_their_case_on_the_way() {
    let mut server = server();
    let plain = query(&key_name(0, 42, window_at(START_MS)), Rtype::TXT);
    let mut mixed = plain.clone();
    for at in (12..plain.len() - 4).step_by(2) {
        mixed[at] = mixed[at].to_ascii_uppercase();
    }
    assert_ne!(mixed, plain);
    let answer = ask(&mut server, &mixed, START_MS);
    // The question comes back as it was asked, and the record is sealed for the name in lower case.
    assert_eq!(answer[12..mixed.len()], mixed[12..]);
    assert_eq!(texts(&answer), texts(&ask(&mut server, &plain, START_MS)));
}

#[test]
fn the_zone_tells_where_it_is_served() {
    let mut server = server();
    let stream = |server: &mut KeyServer, name: &str, qtype| {
        ask_by(server, &query(name, qtype), Transport::Stream, START_MS)
    };
    let answer = stream(&mut server, APEX, Rtype::SOA);
    let message = Message::from_octets(answer.as_slice()).unwrap();
    let soa = message.answer().unwrap().limit_to::<Soa<_>>().next().unwrap().unwrap();
    assert_eq!(soa.data().mname().to_string(), "ns._k.example.net");
    let answer = stream(&mut server, APEX, Rtype::NS);
    let message = Message::from_octets(answer.as_slice()).unwrap();
    let ns = message.answer().unwrap().limit_to::<Ns<_>>().next().unwrap().unwrap();
    assert_eq!(ns.data().nsdname().to_string(), "ns._k.example.net");
    let glue = message.additional().unwrap().limit_to::<A>().next().unwrap().unwrap();
    assert_eq!(glue.data().addr().to_string(), "192.0.2.53");
    let answer = stream(&mut server, "NS._k.example.net", Rtype::A);
    assert_eq!(Message::from_octets(answer.as_slice()).unwrap().header_counts().ancount(), 1);
    // What has other records has none of this type.
    let key = key_name(0, 42, window_at(START_MS));
    for (name, qtype) in
        [(APEX, Rtype::A), ("ns._k.example.net", Rtype::AAAA), (key.as_str(), Rtype::A)]
    {
        let answer = stream(&mut server, name, qtype);
        let message = Message::from_octets(answer.as_slice()).unwrap();
        assert_eq!(message.header().rcode(), Rcode::NOERROR, "{name}");
        let counts = message.header_counts();
        assert_eq!((counts.ancount(), counts.nscount()), (0, 1), "{name}");
    }
}

#[test]
fn what_is_not_ours_is_refused_by_its_reason() {
    let mut server = server();
    let key = key_name(0, 42, window_at(START_MS));
    for (message, code) in [
        (query("example.net", Rtype::SOA), Rcode::REFUSED),
        (query("xk.example.net", Rtype::SOA), Rcode::REFUSED),
        (query(".", Rtype::NS), Rcode::REFUSED),
        (query_in(&key, Rtype::TXT, Class::CH), Rcode::REFUSED),
        (query(APEX, Rtype::AXFR), Rcode::REFUSED),
        (query(APEX, Rtype::IXFR), Rcode::REFUSED),
        (query(&format!("0.after.{APEX}"), Rtype::TXT), Rcode::REFUSED),
        (with_opt(with_opt(query(APEX, Rtype::NS), 1232, 0), 1232, 0), Rcode::FORMERR),
        (query(APEX, Rtype::NS)[..12].to_vec(), Rcode::FORMERR),
        (query(APEX, Rtype::NS)[..20].to_vec(), Rcode::FORMERR),
    ] {
        let answer = ask(&mut server, &message, START_MS);
        assert_eq!(rcode(&answer), code, "{message:?}");
        assert!(answer.len() <= MAX_AMPLIFICATION * message.len());
    }
    for opcode in [Opcode::NOTIFY, Opcode::STATUS, Opcode::IQUERY] {
        let mut message = query(APEX, Rtype::SOA);
        message[2] = opcode.to_int() << 3;
        assert_eq!(rcode(&ask(&mut server, &message, START_MS)), Rcode::NOTIMP);
    }
    let newer = ask(&mut server, &with_opt(query(APEX, Rtype::NS), 1232, 1), START_MS);
    let message = Message::from_octets(newer.as_slice()).unwrap();
    assert_eq!(message.opt_rcode().to_int(), 16);
    assert_eq!(message.header_counts().ancount(), 0);
}

#[test]
fn answers_and_noise_are_dropped() {
    let mut server = server();
    let mut answer = query(APEX, Rtype::SOA);
    answer[2] |= 0x80;
    for (message, reason) in [
        (&b""[..], DropReason::TooShort),
        (&answer[..11], DropReason::TooShort),
        (&answer[..], DropReason::NotAQuestion),
    ] {
        let outcome = server.handle(message, SOURCE, Transport::Datagram, START_MS);
        assert!(matches!(outcome, Outcome::Drop(why) if why == reason), "{outcome:?}");
    }
    assert!(server.counters().drops().map(|(_, count)| count).eq([2, 1, 0]));
}

#[test]
fn a_key_fits_a_datagram_and_what_does_not_is_to_be_asked_over_tcp() {
    let mut server = server();
    let window = window_at(START_MS);
    for waypoint in [0, 1] {
        let plain = query(&key_name(waypoint, 42, window), Rtype::TXT);
        for message in [plain.clone(), with_opt(plain, 1232, 0)] {
            let answer = ask(&mut server, &message, START_MS);
            assert!(!is_truncated(&answer) && texts(&answer).len() == 1);
            assert!(answer.len() <= MAX_AMPLIFICATION * message.len());
        }
    }
    let soa = query(APEX, Rtype::SOA);
    let answer = ask(&mut server, &soa, START_MS);
    assert!(is_truncated(&answer) && answer.len() <= soa.len());
    assert!(!is_truncated(&ask_by(&mut server, &soa, Transport::Stream, START_MS)));
}

#[test]
fn a_flood_from_one_network_is_answered_at_its_rate() {
    let mut config = config();
    config.rate_per_s = 10;
    let mut server = KeyServer::new(config, Default::default());
    let message = query(&key_name(0, 42, window_at(START_MS)), Rtype::TXT);
    let (mut whole, mut truncated, mut dropped) = (0, 0, 0);
    for _ in 0..60 {
        match server.handle(&message, SOURCE, Transport::Datagram, START_MS) {
            Outcome::Answer(answer) if is_truncated(&answer) => {
                assert!(answer.len() <= message.len());
                truncated += 1;
            }
            Outcome::Answer(_) => whole += 1,
            Outcome::Drop(DropReason::RateLimited) => dropped += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((whole, truncated, dropped), (20, 20, 20));
    let over_tcp = ask_by(&mut server, &message, Transport::Stream, START_MS);
    assert_eq!(texts(&over_tcp).len(), 1);
}

proptest! {
    /// Whatever comes as a datagram, nobody gets more than twice its bytes for it.
    #[test]
    fn nothing_is_amplified(
        labels in prop::collection::vec("[a-z0-9]{1,12}|revoked|after|ns", 0..4),
        in_zone: bool,
        qtype in prop::sample::select(vec![1u16, 2, 6, 16, 28, 41, 250, 252, 255, 257]),
        payload_size: Option<u16>,
        cut in 0usize..80,
        flip in prop::option::of((0usize..80, any::<u8>())),
    ) {
        let mut server = server();
        let mut name = labels.join(".");
        if in_zone {
            name = if name.is_empty() { APEX.to_owned() } else { format!("{name}.{APEX}") };
        }
        prop_assume!(Name::<Vec<u8>>::vec_from_str(&name).is_ok());
        let mut message = query(&name, Rtype::from_int(qtype));
        if let Some(payload_size) = payload_size {
            message = with_opt(message, payload_size, 0);
        }
        if let Some((at, bits)) = flip && at < message.len() {
            message[at] ^= bits;
        }
        if cut < 12 {
            message.truncate(message.len() - cut);
        }
        match server.handle(&message, SOURCE, Transport::Datagram, START_MS) {
            Outcome::Answer(answer) => {
                prop_assert!(answer.len() <= MAX_AMPLIFICATION * message.len());
                prop_assert!(Message::from_octets(answer).unwrap().header().qr());
            }
            Outcome::Drop(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
