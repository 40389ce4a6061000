//! Runs as hosts and attackers send them, over paths that lose and reorder.

use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;
use rhumb_wire::Name;

use super::*;
mod vectors;

use crate::Admits;
use crate::ip::{Arrived, DropReason, Outgoing, Overlay};

const ME: Name = Name([1; 32]);
const FRIEND: Name = Name([2; 32]);
const STRANGER: Name = Name([3; 32]);
const SEGMENT: usize = 1208;

/// A run of TCP between two addresses, as a device gives it.
fn run(from: IpAddr, to: IpAddr, payload: usize) -> Vec<u8> {
    let mut tcp = [0; 32];
    tcp[..4].copy_from_slice(&[0x13, 0x88, 0, 80]);
    tcp[4..8].copy_from_slice(&0xFFFF_FF00_u32.to_be_bytes());
    (tcp[12], tcp[13]) = (0x80, 0x18);
    let len = tcp.len() + payload;
    let header = match (from, to) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let [a, b] = (len as u16).to_be_bytes();
            [&[0x60, 0, 0, 0, a, b, 6, 64][..], &from.octets(), &to.octets()].concat()
        }
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [a, b] = (20 + len as u16).to_be_bytes();
            let fixed = [0x45, 0, a, b, 0, 7, 0x40, 0, 64, 6, 0, 0];
            [&fixed[..], &from.octets(), &to.octets()].concat()
        }
        _ => panic!("of one family"),
    };
    let payload: Vec<u8> = (0..payload).map(|at| (at * 7 + at / 256) as u8).collect();
    [header, tcp.to_vec(), payload].concat()
}

fn between(from: Name, to: Name, payload: usize) -> Vec<u8> {
    run(from.address().into(), to.address().into(), payload)
}

/// The datagrams that a run travels in.
fn parts(packet: &[u8], number: u16, longest: usize) -> Vec<Vec<u8>> {
    let head = RunHead::parse(packet).unwrap();
    let mut packets = Packets::default();
    assert!(cut((packet, &head, SEGMENT), number, longest, &mut packets));
    packets.iter().map(<[u8]>::to_vec).collect()
}

/// What a run's bytes are, by their place in the connection, once its parts came in this order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    /// First byte and length of each piece that the stack was given, and whether it was the end.
    pieces: Vec<(usize, usize, bool)>,
    bytes: Vec<(usize, Vec<u8>)>,
}

fn give(overlay: &mut Overlay, from: Name, batches: &[&[Vec<u8>]], now: Instant) -> Came {
    let mut came = Came::default();
    for batch in batches {
        let mut arrived = Vec::new();
        overlay.take((from, false), batch.iter().map(|part| &**part), now, &mut arrived);
        let mut joined: Vec<Joined<'_>> = Vec::new();
        for one in arrived {
            let Arrived::Piece(piece) = one else { panic!("no packet was sent") };
            let piece = match joined.last_mut() {
                Some(last) => last.join(piece),
                None => Err(piece),
            };
            joined.extend(piece.err().map(Joined::new));
        }
        for run in joined {
            let head = run.head();
            let tcp = &head.bytes()[head.tcp_at()..];
            let sequence = u32::from_be_bytes(*tcp[4..].first_chunk().unwrap());
            let at = sequence.wrapping_sub(0xFFFF_FF00) as usize;
            let bytes: Vec<u8> = run.payloads().flatten().copied().collect();
            came.pieces.push((at, bytes.len(), tcp[13] == 0x18));
            came.bytes.push((at, bytes));
        }
    }
    came
}

fn overlay(now: Instant) -> Overlay {
    Overlay::new(ME, Admits::names([FRIEND]), now)
}

fn is_true(came: &Came, packet: &[u8]) -> bool {
    let payload = &packet[RunHead::parse(packet).unwrap().bytes().len()..];
    came.bytes.iter().all(|(at, bytes)| payload[*at..*at + bytes.len()] == bytes[..])
}

#[test]
fn a_run_comes_to_the_stack_under_one_header() {
    let now = Instant::now();
    for (payload, longest) in [(60_000, 1316), (2417, 1316), (65_000, 1100), (3000, 9000)] {
        let packet = between(FRIEND, ME, payload);
        let parts = parts(&packet, 5, longest);
        assert!(parts.iter().all(|it| it.len() <= longest));
        let full = parts.iter().filter(|it| it.len() == longest).count();
        assert!(full + 2 >= parts.len(), "all but the last are as long as can be");
        let came = give(&mut overlay(now), FRIEND, &[&parts], now);
        assert_eq!(came.pieces, [(0, payload, true)]);
        assert!(is_true(&came, &packet));
    }
}

#[test]
fn what_is_left_of_a_run_goes_on_at_once() {
    let now = Instant::now();
    let packet = between(FRIEND, ME, 20_000);
    let all = parts(&packet, 5, 1316);
    let lens: Vec<usize> =
        give(&mut overlay(now), FRIEND, &[&all], now).bytes.iter().map(|it| it.1.len()).collect();
    assert_eq!(lens, [20_000]);
    for lost in 1..all.len() {
        let mut some = all.clone();
        some.remove(lost);
        let came = give(&mut overlay(now), FRIEND, &[&some], now);
        assert!(is_true(&came, &packet));
        let len: usize = came.pieces.iter().map(|it| it.1).sum();
        assert_eq!(came.pieces.len(), if lost + 1 == all.len() { 1 } else { 2 });
        assert!((20_000 - 1316..20_000).contains(&len), "nothing else is lost with it");
        let ends = came.pieces.iter().filter(|it| it.2).count();
        assert_eq!(ends, usize::from(lost + 1 < all.len()), "pushed where it ends");
    }
    // Without the first, what waited goes on when the last one brings the headers.
    let came = give(&mut overlay(now), FRIEND, &[&all[1..]], now);
    assert!(is_true(&came, &packet));
    assert_eq!(came.pieces.len(), 1);
    assert!(came.pieces[0].2 && came.pieces[0].0 > 0);
    // Without either, nothing does.
    let mut overlay = overlay(now);
    let came = give(&mut overlay, FRIEND, &[&all[1..all.len() - 1]], now);
    assert_eq!(came, Came::default());
    assert_eq!(overlay.drops().of(DropReason::PartGaveWay), 0, "they wait");
    assert_eq!(overlay.traffic()[1].packets, 0);
}

#[test]
fn parts_that_wait_are_few_and_do_not_wait_for_long() {
    let start = Instant::now();
    let packet = between(FRIEND, ME, 60_000);
    let all = parts(&packet, 5, 1316);
    let mut overlay = overlay(start);
    let (first, later) = all.split_first().unwrap();
    give(&mut overlay, FRIEND, &[&later[..40]], start);
    assert_eq!(overlay.drops().of(DropReason::PartGaveWay), 40 - MOST_WAITING as u64);
    let came = give(&mut overlay, FRIEND, &[std::slice::from_ref(first)], start);
    let expected = 1 + MOST_WAITING;
    assert_eq!(overlay.traffic()[1].packets, expected as u64);
    assert!(is_true(&came, &packet));
    let mut overlay = self::overlay(start);
    give(&mut overlay, FRIEND, &[&later[..4]], start);
    let late = start + LIVES_FOR;
    let came = give(&mut overlay, FRIEND, &[std::slice::from_ref(first)], late);
    assert_eq!(came.pieces.len(), 1, "what waited is gone");
    // And headers are not known for longer.
    let later = give(&mut overlay, FRIEND, &[&later[..1]], late + LIVES_FOR);
    assert!(later.pieces.is_empty());
}

#[test]
fn a_number_that_comes_again_is_another_run() {
    let now = Instant::now();
    let mut overlay = overlay(now);
    let packet = between(FRIEND, ME, 5000);
    let old = parts(&packet, 7, 1316);
    give(&mut overlay, FRIEND, &[&old[..1], &parts(&packet, 9, 1316)[1..2]], now);
    let between_them = parts(&packet, 7 + MOST_BEHIND, 1316);
    give(&mut overlay, FRIEND, &[&between_them], now);
    // Nothing of number 7 or 9 is known any more.
    assert!(give(&mut overlay, FRIEND, &[&old[1..2]], now).pieces.is_empty());
    let again = give(&mut overlay, FRIEND, &[&parts(&packet, 9, 1316)[..1]], now);
    assert_eq!(again.pieces.len(), 1);
}

#[test]
fn a_run_is_of_its_sender_and_for_this_host() {
    let now = Instant::now();
    for (from, packet, reason) in [
        (FRIEND, between(STRANGER, ME, 5000), DropReason::Spoofed),
        (FRIEND, between(ME, ME, 5000), DropReason::Spoofed),
        (FRIEND, between(FRIEND, STRANGER, 5000), DropReason::NotForUs),
        (FRIEND, run([10, 1, 0, 1].into(), [10, 2, 0, 1].into(), 5000), DropReason::Spoofed),
        (STRANGER, between(STRANGER, ME, 5000), DropReason::NotAllowed),
    ] {
        let mut overlay = overlay(now);
        let parts = parts(&packet, 1, 1316);
        assert_eq!(give(&mut overlay, from, &[&parts], now), Came::default());
        assert_eq!(overlay.drops().of(reason), parts.len() as u64);
        assert_eq!(overlay.traffic()[1].packets, 0);
    }
    // Who was not allowed may answer: from the port that was asked.
    let mut overlay = overlay(now);
    overlay.know(STRANGER, now);
    let mut asks = between(ME, STRANGER, 1);
    asks[40..44].copy_from_slice(&[0, 80, 0x13, 0x88]);
    assert_eq!(overlay.outgoing(&asks, now), Outgoing::To(STRANGER));
    let answer = between(STRANGER, ME, 5000);
    let came = give(&mut overlay, STRANGER, &[&parts(&answer, 1, 1316)], now);
    assert_eq!(came.pieces.len(), 1);
    let mut other = answer;
    other[43] = 81;
    let came = give(&mut overlay, STRANGER, &[&parts(&other, 2, 1316)], now);
    assert!(came.pieces.is_empty());
}

#[test]
fn runs_of_ipv4_go_between_networks() {
    let now = Instant::now();
    let net = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
    let sites =
        crate::ip::sites::Sites::new(&[net("10.2.0.0/24")], &[(net("10.1.0.0/24"), FRIEND)]);
    let mut overlay = overlay(now).with_sites(sites.unwrap(), now);
    overlay.hear(FRIEND, vec![net("10.1.0.0/24")]);
    let packet = run([10, 1, 0, 1].into(), [10, 2, 0, 1].into(), 5000);
    let came = give(&mut overlay, FRIEND, &[&parts(&packet, 1, 1316)], now);
    assert_eq!(came.pieces, [(0, 5000, true)]);
    assert!(is_true(&came, &packet));
    let elsewhere = run([10, 1, 1, 1].into(), [10, 2, 0, 1].into(), 5000);
    let came = give(&mut overlay, FRIEND, &[&parts(&elsewhere, 2, 1316)], now);
    assert!(came.pieces.is_empty());
}

#[test]
fn parts_that_make_no_sense_are_dropped() {
    let now = Instant::now();
    let packet = between(FRIEND, ME, 5000);
    let [first, second, ..] = &parts(&packet, 1, 1316)[..] else { panic!("several") };
    let with = |of: &[u8], at: usize, bytes: &[u8]| {
        let mut other = of.to_vec();
        other[at..at + bytes.len()].copy_from_slice(bytes);
        other
    };
    for wrong in [
        with(first, 5, &[0, 0]),           // segments of no length
        with(first, 7, &[0xFF, 0xFF]),     // more than a packet can be
        with(first, 7, &[0, 9]),           // less than this part has
        with(first, 9 + 4, &[0, 1]),       // a length, which is of each piece
        with(first, 9 + 40 + 16, &[0, 1]), // a checksum
        with(first, 9 + 6, &[17]),         // not of TCP
        with(first, 9 + 40 + 13, &[0x12]), // not of data
        with(second, 3, &[0xFF, 0xFF]),    // beyond the end of any packet
        first[..9 + 72].to_vec(),          // without a byte
        second[..5].to_vec(),
        first[..20].to_vec(),
        vec![2],
        vec![3, 0],
    ] {
        assert_eq!(Part::parse(&wrong), None, "{:?}", &wrong[..wrong.len().min(12)]);
        let mut overlay = overlay(now);
        assert_eq!(
            give(&mut overlay, FRIEND, &[std::slice::from_ref(&wrong)], now),
            Came::default()
        );
        assert_eq!(overlay.drops().of(DropReason::Malformed), 1);
    }
    let mut overlay = overlay(now);
    let beyond = with(second, 3, &[0x13, 0x80]);
    let other_headers = with(first, 9 + 40 + 4, &[1, 2, 3, 4]);
    let came = give(&mut overlay, FRIEND, &[&[first.clone(), beyond, other_headers]], now);
    assert_eq!(came.pieces.len(), 1);
    assert_eq!(overlay.drops().of(DropReason::Malformed), 2);
    assert!(!is_part(&[0x60]) && !is_part(&[0]) && !is_part(&[]) && !is_part(&[4]));
}

proptest! {
    /// Whatever is lost, comes twice or in another order: what the stack gets is what was sent.
    #[test]
    fn what_goes_on_is_what_was_sent(
        payload in 1usize..20_000,
        longest in 200usize..1400,
        order in proptest::collection::vec((0usize..200, any::<bool>()), 0..120),
    ) {
        let now = Instant::now();
        let packet = between(FRIEND, ME, payload);
        let all = parts(&packet, 65_535, longest);
        let mut overlay = overlay(now);
        let mut batch = Vec::new();
        for (at, ends_batch) in order {
            batch.push(all[at % all.len()].clone());
            if ends_batch {
                prop_assert!(is_true(&give(&mut overlay, FRIEND, &[&batch], now), &packet));
                batch.clear();
            }
        }
        prop_assert!(is_true(&give(&mut overlay, FRIEND, &[&batch], now), &packet));
    }

    #[test]
    fn what_the_fuzzer_looks_for_is_not_there(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        crate::fuzz::ip_runs(&bytes);
    }

    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 2u8..4) {
        let now = Instant::now();
        let mut overlay = overlay(now);
        let mut arrived = Vec::new();
        let datagram = [&[kind], &bytes[..]].concat();
        overlay.take((FRIEND, false), [&datagram[..]], now, &mut arrived);
        for one in arrived {
            if let Arrived::Piece(piece) = one {
                let from: Ipv6Addr = FRIEND.address();
                prop_assert_eq!(piece.head().ends().0, IpAddr::V6(from));
            }
        }
    }
}
