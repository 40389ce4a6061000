//! Packets as attackers and hosts send them, and what becomes of them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rhumb_wire::Name;

use super::icmp::{finish, sum};
use super::*;
use crate::Admits;

const ME: Name = Name([1; 32]);
const FRIEND: Name = Name([2; 32]);
const STRANGER: Name = Name([3; 32]);

fn start() -> Instant {
    Instant::now()
}

/// A datagram of UDP, from and to, with so many bytes of payload.
pub(super) fn udp(addresses: [IpAddr; 2], ports: [u16; 2], len: usize) -> Vec<u8> {
    let udp_len = 8 + len as u16;
    let [a, b] = ports.map(u16::to_be_bytes);
    let payload = [&a[..], &b, &udp_len.to_be_bytes(), &[0, 0], &vec![7; len]].concat();
    packet(addresses, 17, &payload)
}

fn packet(addresses: [IpAddr; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut made = vec![0x60, 0, 0, 0];
    made.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    made.extend_from_slice(&[protocol, 64]);
    for address in addresses {
        let IpAddr::V6(address) = address else { panic!("of IPv6") };
        made.extend_from_slice(&address.octets());
    }
    made.extend_from_slice(payload);
    made
}

fn from_to(from: Name, to: Name) -> [IpAddr; 2] {
    [from.address().into(), to.address().into()]
}

fn echo(from: Name, to: Name, kind: u8) -> Vec<u8> {
    packet(from_to(from, to), 58, &[kind, 0, 0, 0, 0, 9, 0, 1])
}

fn overlay(now: Instant) -> Overlay {
    let mut overlay = Overlay::new(ME, Admits::names([FRIEND]), now);
    assert!(overlay.know(STRANGER, now));
    overlay
}

#[test]
fn nobody_sends_under_the_address_of_another() {
    let now = start();
    let mut overlay = overlay(now);
    let honest = udp(from_to(FRIEND, ME), [1, 2], 10);
    assert_eq!(overlay.incoming((FRIEND, false), &honest, now).as_deref(), Some(&honest[..]));
    let as_another = udp(from_to(STRANGER, ME), [1, 2], 10);
    assert_eq!(overlay.incoming((FRIEND, false), &as_another, now), None);
    let as_me = udp(from_to(ME, ME), [1, 2], 10);
    assert_eq!(overlay.incoming((FRIEND, false), &as_me, now), None);
    let of_elsewhere = udp([Ipv6Addr::LOCALHOST.into(), ME.address().into()], [1, 2], 10);
    assert_eq!(overlay.incoming((FRIEND, false), &of_elsewhere, now), None);
    assert_eq!(overlay.drops().of(DropReason::Spoofed), 3);
    let onwards = udp(from_to(FRIEND, STRANGER), [1, 2], 10);
    assert_eq!(
        overlay.incoming((FRIEND, false), &onwards, now),
        None,
        "nobody is led through here"
    );
    assert_eq!(overlay.drops().of(DropReason::NotForUs), 1);
    // In halves neither.
    for half in [0, 1] {
        let part = &as_another[as_another.len() / 2 * half..][..as_another.len() / 2];
        let datagram = [&[half as u8, 0, 7], part].concat();
        assert_eq!(overlay.incoming((FRIEND, false), &datagram, now), None);
    }
    assert_eq!(overlay.drops().of(DropReason::Spoofed), 4);
}

#[test]
fn who_was_not_allowed_answers_and_begins_nothing() {
    let now = start();
    let mut overlay = overlay(now);
    let begins = udp(from_to(STRANGER, ME), [80, 5000], 10);
    assert_eq!(overlay.incoming((STRANGER, false), &begins, now), None);
    assert!(overlay.incoming((STRANGER, true), &begins, now).is_some(), "as a member");
    let asks = udp(from_to(ME, STRANGER), [5000, 80], 10);
    assert_eq!(overlay.outgoing(&asks, now), Outgoing::To(STRANGER));
    assert_eq!(overlay.senders(), Admits::names([FRIEND, STRANGER]));
    assert!(overlay.incoming((STRANGER, false), &begins, now).is_some(), "an answer now");
    for ports in [[80, 5001], [81, 5000], [5000, 80]] {
        let other = udp(from_to(STRANGER, ME), ports, 10);
        assert_eq!(overlay.incoming((STRANGER, false), &other, now), None, "{ports:?}");
    }
    // Echoes are answered to whom this host has sent one, and not the other way round.
    assert_eq!(overlay.incoming((STRANGER, false), &echo(STRANGER, ME, 129), now), None);
    assert_eq!(overlay.outgoing(&echo(ME, STRANGER, 128), now), Outgoing::To(STRANGER));
    assert!(overlay.incoming((STRANGER, false), &echo(STRANGER, ME, 129), now).is_some());
    assert_eq!(overlay.incoming((STRANGER, false), &echo(STRANGER, ME, 128), now), None);
    // Errors are about what this host has sent.
    let error = |about: &[u8]| {
        let body = [&[1, 4, 0, 0, 0, 0, 0, 0], about].concat();
        packet(from_to(STRANGER, ME), 58, &body)
    };
    assert!(overlay.incoming((STRANGER, false), &error(&asks), now).is_some());
    let never_sent = udp(from_to(ME, STRANGER), [5001, 80], 10);
    assert_eq!(overlay.incoming((STRANGER, false), &error(&never_sent), now), None);
    assert_eq!(overlay.incoming((STRANGER, false), &error(&[]), now), None);
    assert!(overlay.incoming((FRIEND, false), &udp(from_to(FRIEND, ME), [1, 2], 0), now).is_some());
}

#[test]
fn this_host_sends_under_its_own_address_to_names() {
    let now = start();
    let mut overlay = overlay(now);
    let to = |to: IpAddr| udp([ME.address().into(), to], [1, 2], 0);
    assert_eq!(overlay.outgoing(&to(FRIEND.address().into()), now), Outgoing::To(FRIEND));
    let unknown = Name([9; 32]).address();
    assert_eq!(overlay.outgoing(&to(unknown.into()), now), Outgoing::Unknown(unknown));
    for nowhere in ["ff02::2", "2001:db8::1", "fe80::1", "::1"] {
        let packet = to(nowhere.parse().unwrap());
        assert_eq!(overlay.outgoing(&packet, now), Outgoing::Dropped);
    }
    assert_eq!(overlay.outgoing(&to(ME.address().into()), now), Outgoing::Dropped);
    assert_eq!(overlay.drops().of(DropReason::NoName), 5);
    let forwarded = udp(from_to(STRANGER, FRIEND), [1, 2], 0);
    assert_eq!(overlay.outgoing(&forwarded, now), Outgoing::Dropped);
    assert_eq!(overlay.drops().of(DropReason::NotOurs), 1);
}

#[test]
fn a_second_name_does_not_take_an_address_over() {
    let now = start();
    let mut twin = FRIEND;
    twin.0[31] ^= 1;
    assert_eq!(twin.address(), FRIEND.address());
    let mut overlay = Overlay::new(ME, Admits::Everybody, now);
    assert!(overlay.know(FRIEND, now) && !overlay.know(twin, now));
    let packet = udp(from_to(twin, ME), [1, 2], 0);
    assert_eq!(overlay.incoming((twin, false), &packet, now), None);
    assert_eq!(overlay.drops().of(DropReason::AddressTaken), 1);
    let back = udp(from_to(ME, FRIEND), [1, 2], 0);
    assert_eq!(overlay.outgoing(&back, now), Outgoing::To(FRIEND));
    // One that was only seen gives way to one that is given.
    let mut overlay = Overlay::new(ME, Admits::Everybody, now);
    assert!(overlay.incoming((twin, false), &packet, now).is_some());
    assert!(overlay.know(FRIEND, now));
    assert_eq!(overlay.outgoing(&back, now), Outgoing::To(FRIEND));
}

#[test]
fn whom_this_host_never_sends_to_gives_way_first() {
    let start = start();
    let mut overlay = Overlay::new(ME, Admits::names([]), start);
    let packet = udp(from_to(ME, FRIEND), [1, 2], 0);
    assert!(overlay.found(FRIEND, start));
    assert_eq!(overlay.outgoing(&packet, start), Outgoing::To(FRIEND));
    // A page that has a browser ask for any number of hosts.
    let now = start + Duration::from_secs(1);
    for number in 0..5000_u32 {
        let mut name = STRANGER;
        name.0[..4].copy_from_slice(&number.to_be_bytes());
        assert!(overlay.found(name, now));
    }
    assert_eq!(overlay.known(), 4096);
    assert_eq!(overlay.outgoing(&packet, now), Outgoing::To(FRIEND));
}

#[test]
fn names_that_are_merely_seen_give_way_and_those_given_stay() {
    let now = start();
    let mut overlay = Overlay::new(ME, Admits::Everybody, now);
    assert!(overlay.know(FRIEND, now));
    for number in 0..5000_u32 {
        let mut name = STRANGER;
        name.0[..4].copy_from_slice(&number.to_be_bytes());
        assert!(overlay.incoming((name, false), &udp(from_to(name, ME), [1, 2], 0), now).is_some());
    }
    assert_eq!(overlay.known(), 4096);
    let back = udp(from_to(ME, FRIEND), [1, 2], 0);
    assert_eq!(overlay.outgoing(&back, now), Outgoing::To(FRIEND));
}

/// Whether the checksum of an ICMPv6 message is right.
fn is_right(message: &[u8]) -> bool {
    let body = &message[40..];
    finish(sum(&message[8..40]) + body.len() as u64 + 58 + sum(body)) == [0, 0]
}

#[test]
fn whatever_fits_the_least_of_ipv6_gets_through_and_more_is_answered() {
    let now = start();
    let mut here = overlay(now);
    let mut there = Overlay::new(FRIEND, Admits::names([ME]), now);
    for longest in [1100, 1279, 1280, 1320] {
        for len in [40_usize, longest - 1, longest, longest + 1, 1280, 1281] {
            let packet = udp(from_to(ME, FRIEND), [1, 2], len.saturating_sub(48));
            let got = match here.cut(&packet, FRIEND, longest, now) {
                Cut::Whole => {
                    assert!(packet.len() <= longest);
                    there.incoming((ME, false), &packet, now).map(Cow::into_owned)
                }
                Cut::Halves(halves) => {
                    assert!(packet.len() > longest && packet.len() <= LEAST_MTU);
                    assert!(halves.iter().all(|half| half.len() <= longest));
                    let [first, second] = halves
                        .map(|half| there.incoming((ME, false), &half, now).map(Cow::into_owned));
                    assert_eq!(first, None);
                    second
                }
                Cut::TooBig(message) => {
                    let message = message.unwrap();
                    assert!(packet.len() > LEAST_MTU.max(longest));
                    assert_eq!(message[40..42], [2, 0]);
                    let fits = u32::from_be_bytes(message[44..48].try_into().unwrap());
                    assert_eq!(fits as usize, LEAST_MTU.max(longest));
                    assert!(is_right(&message));
                    assert_eq!(message[48..], packet[..packet.len().min(1232)]);
                    continue;
                }
            };
            assert_eq!(got.as_ref(), Some(&packet), "{len} of {longest}");
        }
    }
}

#[test]
fn what_goes_nowhere_is_answered_but_not_errors_and_not_without_end() {
    let now = start();
    let mut overlay = overlay(now);
    let lost = udp(from_to(ME, Name([9; 32])), [1, 2], 0);
    let answer = overlay.unreachable(&lost, DropReason::UnknownName, now).unwrap();
    assert_eq!((&answer[40..42], &answer[48..]), (&[1, 3][..], &lost[..]));
    assert!(is_right(&answer));
    let error = packet(from_to(ME, FRIEND), 58, &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(overlay.unreachable(&error, DropReason::Unreachable, now), None);
    let answers =
        (0..1000).filter_map(|_| overlay.unreachable(&lost, DropReason::UnknownName, now)).count();
    assert_eq!(answers, 99);
    let later = now + Duration::from_secs(1);
    assert!(overlay.unreachable(&lost, DropReason::UnknownName, later).is_some());
    assert_eq!(overlay.drops().of(DropReason::UnknownName), 1002);
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(mut bytes in proptest::collection::vec(0u8.., 0..120), next in 0u8..60) {
        crate::fuzz::ip_packets(&bytes);
        if let Some(at) = bytes.get_mut(6) {
            *at = next;
        }
        crate::fuzz::ip_packets(&bytes);
    }
}

#[test]
fn two_sites_are_joined_as_far_as_both_say_so_and_nobody_sends_as_another() {
    let now = start();
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let net = |text: &str| -> ipnet::IpNet { text.parse().unwrap() };
    // Of IPv6, whose packets are easier to make; the other family is looked at by the same code.
    let [here, there] = [net("2001:db8:1::/48"), net("2001:db8:2::/48")];
    let (host, far, other) = (ip("2001:db8:1::5"), ip("2001:db8:2::7"), ip("2001:db8:3::7"));
    let sites = sites::Sites::new(&[here], &[(there, FRIEND)]).unwrap();
    let mut overlay = overlay(now).with_sites(sites, now);
    let out = udp([host, far], [5000, 80], 10);
    assert_eq!(overlay.outgoing(&out, now), Outgoing::Nowhere, "nobody has said that it is there");
    let back = udp([far, host], [80, 5000], 10);
    assert_eq!(overlay.incoming((FRIEND, false), &back, now), None);
    assert_eq!(overlay.hear(FRIEND, vec![there]), []);
    assert_eq!(overlay.outgoing(&out, now), Outgoing::To(FRIEND));
    assert_eq!(overlay.incoming((FRIEND, false), &back, now).as_deref(), Some(&back[..]));
    // From its own address to a host here, and from a host here to its own.
    let own = FRIEND.address().into();
    assert!(overlay.incoming((FRIEND, false), &udp([own, host], [1, 2], 1), now).is_some());
    assert_eq!(overlay.outgoing(&udp([host, own], [1, 2], 1), now), Outgoing::To(FRIEND));
    let refused = [
        // A stranger with its sources, and it with those of another network, of a host here, and of
        // a stranger; to elsewhere.
        (STRANGER, [far, host]),
        (FRIEND, [other, host]),
        (FRIEND, [host, host]),
        (FRIEND, [STRANGER.address().into(), host]),
        (FRIEND, [far, other]),
    ];
    for (from, addresses) in refused {
        let packet = udp(addresses, [80, 5000], 10);
        assert_eq!(overlay.incoming((from, false), &packet, now), None, "{from} {addresses:?}");
    }
    assert_eq!(overlay.outgoing(&udp([other, far], [1, 2], 1), now), Outgoing::Dropped);
    assert_eq!(overlay.drops().of(DropReason::NotOurs), 1);
    // It takes its word back.
    overlay.hear(FRIEND, vec![]);
    assert_eq!(overlay.outgoing(&out, now), Outgoing::Nowhere);
    assert_eq!(overlay.incoming((FRIEND, false), &back, now), None);
}
