//! Each class of error in an UPDATE message, by the name and section that RFC 7606 has for it.
#![allow(clippy::unwrap_used, reason = "tests")]

use rhumb_bgp::wire::{BgpRole, PathAttribute, Prefix};
use rhumb_bgp::{Config, DownReason, Event, Family, State};

use crate::pair::{Pair, v4, v6, via_v4, via_v6};

/// What became of a message, of the route 10.0.1.0/24 that it
/// announces, and of the one that was there before it.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The route is there, with attributes of these types.
    Taken(Vec<u8>),
    /// Treat-as-withdraw: the session goes on, and the route of before is gone.
    Withdrawn,
    /// The session has ended with this code and subcode.
    Reset(u8, u8),
    /// The message changed nothing.
    Ignored,
}

use Outcome::{Ignored, Reset, Taken, Withdrawn};

const ORIGIN: &[u8] = &[0x40, 1, 1, 0];
/// By AS 64500.
const AS_PATH: &[u8] = &[0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4];
const NEXT_HOP: &[u8] = &[0x40, 3, 4, 192, 0, 2, 9];
/// 10.0.1.0/24.
const NLRI: &[u8] = &[24, 10, 0, 1];

fn update(withdrawn: &[u8], attributes: &[&[u8]], nlri: &[u8]) -> Vec<u8> {
    let attributes = attributes.concat();
    let mut message = vec![0xff; 16];
    let length = 23 + withdrawn.len() + attributes.len() + nlri.len();
    message.extend((length as u16).to_be_bytes());
    message.push(2);
    message.extend((withdrawn.len() as u16).to_be_bytes());
    message.extend(withdrawn);
    message.extend((attributes.len() as u16).to_be_bytes());
    message.extend(attributes);
    message.extend(nlri);
    message
}

/// A session whose neighbour has announced 10.0.1.0/24 and 2001:db8:1::/48 before.
fn prepared(change: impl FnOnce(&mut Config)) -> Pair {
    let mut pair = Pair::established(|_, right| change(right));
    let now = pair.now;
    // Some configurations make the neighbour keep a family back.
    let _ = pair.sessions[0].announce(v4(1), 0, &via_v4(&[64500]), now);
    let _ = pair.sessions[0].announce(v6(1), 0, &via_v6(&[64500]), now);
    pair.pump();
    pair.take(1);
    pair
}

fn outcome_with(change: impl FnOnce(&mut Config), message: &[u8]) -> Outcome {
    let mut pair = prepared(change);
    pair.hear(1, message);
    judge(&mut pair)
}

fn judge(pair: &mut Pair) -> Outcome {
    let events = pair.take(1);
    let has_ended = events.iter().find_map(|event| match event {
        Event::Down(DownReason::Sent(said)) => Some(Reset(said.code.as_u8(), said.subcode)),
        _ => None,
    });
    if let Some(end) = has_ended {
        return end;
    }
    assert_eq!(pair.sessions[1].state(), State::Established);
    match events.last() {
        Some(Event::Announced { attributes, .. }) => {
            Taken(attributes.list().iter().map(PathAttribute::type_code).collect())
        }
        Some(Event::Withdrawn { .. }) => Withdrawn,
        None => Ignored,
        Some(other) => panic!("{other:?}"),
    }
}

fn outcome(message: &[u8]) -> Outcome {
    outcome_with(|_| {}, message)
}

/// A route with one attribute more.
fn with(attribute: &[u8]) -> Outcome {
    outcome(&update(&[], &[ORIGIN, AS_PATH, NEXT_HOP, attribute], NLRI))
}

#[test]
fn a_sound_message_is_taken() {
    assert_eq!(with(&[]), Taken(vec![1, 2]));
    assert_eq!(with(&[0x80, 4, 4, 0, 0, 0, 7]), Taken(vec![1, 2, 4]));
}

#[test]
fn section_3_a_lengths_that_do_not_add_up_reset_the_session() {
    let mut too_long = update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], NLRI);
    too_long[22] += 100;
    assert_eq!(outcome(&too_long), Reset(3, 1));
    let mut withdrawn = update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], NLRI);
    withdrawn[20] = 200;
    assert_eq!(outcome(&withdrawn), Reset(3, 1));
}

#[test]
fn section_3_c_wrong_flags_are_treat_as_withdraw() {
    for attribute in [&[0x80, 1, 1, 0][..], &[0xc0, 1, 1, 0]] {
        assert_eq!(
            outcome(&update(&[], &[attribute, AS_PATH, NEXT_HOP], NLRI)),
            Withdrawn,
            "{attribute:?}"
        );
    }
    assert_eq!(with(&[0x40, 4, 4, 0, 0, 0, 7]), Withdrawn, "MED is optional");
    assert_eq!(with(&[0x40, 8, 4, 0, 0, 0, 7]), Withdrawn, "COMMUNITIES is optional");
}

#[test]
fn section_3_d_a_missing_mandatory_attribute_is_treat_as_withdraw() {
    assert_eq!(outcome(&update(&[], &[AS_PATH, NEXT_HOP], NLRI)), Withdrawn, "ORIGIN");
    assert_eq!(outcome(&update(&[], &[ORIGIN, NEXT_HOP], NLRI)), Withdrawn, "AS_PATH");
    assert_eq!(outcome(&update(&[], &[ORIGIN, AS_PATH], NLRI)), Withdrawn, "NEXT_HOP");
}

#[test]
fn section_3_g_of_duplicates_the_first_counts_but_of_mp_attributes_none() {
    assert_eq!(with(&[0x40, 1, 1, 1]), Taken(vec![1, 2]), "ORIGIN");
    let unreach: &[u8] = &[0x80, 15, 3, 0, 2, 1];
    assert_eq!(outcome(&update(&[], &[unreach, unreach], &[])), Reset(3, 1));
    let reach = mp_reach(&[48, 0x20, 1, 0xd, 0xb8, 0, 1]);
    assert_eq!(outcome(&update(&[], &[&reach, &reach, ORIGIN, AS_PATH], &[])), Reset(3, 1));
}

#[test]
fn section_3_j_and_5_3_prefixes_that_cannot_be_read_reset_the_session() {
    assert_eq!(
        outcome(&update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], &[33, 10, 0, 1, 0, 0])),
        Reset(3, 10)
    );
    assert_eq!(outcome(&update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], &[24, 10, 0])), Reset(3, 10));
    assert_eq!(outcome(&update(&[33, 10, 0, 1, 0, 0], &[], &[])), Reset(3, 10));
    let too_long = mp_reach(&[129, 0x20, 1]);
    assert_eq!(outcome(&update(&[], &[&too_long, ORIGIN, AS_PATH], &[])), Reset(3, 9));
    let unreach: &[u8] = &[0x80, 15, 5, 0, 2, 1, 129, 0x20];
    assert_eq!(outcome(&update(&[], &[unreach], &[])), Reset(3, 9));
}

#[test]
fn afi_safi_disable_ends_one_family_and_keeps_the_other() {
    let too_long = mp_reach(&[129, 0x20, 1]);
    // The same message has a sound route of IPv4.
    let message = update(&[], &[&too_long, ORIGIN, AS_PATH, NEXT_HOP], &[24, 10, 0, 7]);
    let mut pair = prepared(|config| config.disable_broken_family = true);
    pair.hear(1, &message);
    let events = pair.take(1);
    assert_eq!(events[0], Event::FamilyDisabled(Family::Ipv6));
    assert_eq!(events[1], Event::Withdrawn { prefix: v6(1), path: 0 });
    assert!(
        matches!(&events[2..], [Event::Announced { prefix, .. }] if *prefix == v4(7)),
        "{events:?}"
    );
    let again = mp_reach(&[48, 0x20, 1, 0xd, 0xb8, 0, 2]);
    pair.hear(1, &update(&[], &[&again, ORIGIN, AS_PATH], &[]));
    assert_eq!(judge(&mut pair), Ignored, "until the session ends");
    // The last family cannot be given up.
    pair.hear(1, &update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], &[33, 10, 0, 1, 0, 0]));
    assert_eq!(judge(&mut pair), Reset(3, 10));
    // A new session begins anew.
    pair.advance(std::time::Duration::from_secs(400));
    pair.hear(1, &update(&[], &[&again, ORIGIN, AS_PATH], &[]));
    assert_eq!(pair.sessions[1].count_in(Family::Ipv6), 2);
}

#[test]
fn section_4_attributes_that_overrun_are_treat_as_withdraw() {
    // COMMUNITIES claims 200 bytes: the prefixes behind are found all the same.
    assert_eq!(with(&[0xc0, 8, 200, 0, 0, 0, 7]), Withdrawn);
    assert_eq!(with(&[0xc0]), Withdrawn, "half a header");
}

#[test]
fn section_5_2_an_error_without_a_reachable_prefix_resets_the_session() {
    let bad_origin: &[u8] = &[0x40, 1, 1, 9];
    assert_eq!(outcome(&update(&[24, 10, 0, 9], &[bad_origin], &[])), Reset(3, 6));
    // What can be discarded resets nothing.
    let bad_aggregate: &[u8] = &[0x40, 6, 1, 0];
    assert_eq!(outcome(&update(&[24, 10, 0, 1], &[bad_aggregate], &[])), Withdrawn);
}

#[test]
fn section_7_1_origin() {
    for origin in [&[0x40, 1, 1, 3][..], &[0x40, 1, 2, 0, 0], &[0x40, 1, 0]] {
        assert_eq!(
            outcome(&update(&[], &[origin, AS_PATH, NEXT_HOP], NLRI)),
            Withdrawn,
            "{origin:?}"
        );
    }
}

#[test]
fn section_7_2_as_path() {
    for path in [
        // Of no known kind, of no length, cut short, longer than said, empty.
        &[0x40, 2, 6, 9, 1, 0, 0, 0xfb, 0xf4][..],
        &[0x40, 2, 2, 2, 0],
        &[0x40, 2, 6, 2, 2, 0, 0, 0xfb, 0xf4],
        &[0x40, 2, 7, 2, 1, 0, 0, 0xfb, 0xf4, 0],
        &[0x40, 2, 0],
    ] {
        assert_eq!(outcome(&update(&[], &[ORIGIN, path, NEXT_HOP], NLRI)), Withdrawn, "{path:?}");
    }
}

#[test]
fn rfc_9774_a_set_in_a_path_is_treat_as_withdraw() {
    let set: &[u8] = &[0x40, 2, 12, 2, 1, 0, 0, 0xfb, 0xf4, 1, 1, 0, 0, 0xfb, 0xff];
    assert_eq!(outcome(&update(&[], &[ORIGIN, set, NEXT_HOP], NLRI)), Withdrawn);
}

#[test]
fn rfc_7607_as_zero_is_treat_as_withdraw() {
    let zero: &[u8] = &[0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0, 0, 0, 0];
    assert_eq!(outcome(&update(&[], &[ORIGIN, zero, NEXT_HOP], NLRI)), Withdrawn);
    assert_eq!(
        with(&[0xc0, 7, 8, 0, 0, 0, 0, 10, 0, 0, 1]),
        Taken(vec![1, 2]),
        "AGGREGATOR is discarded"
    );
}

#[test]
fn section_7_3_next_hop() {
    for next_hop in [
        &[0x40, 3, 3, 192, 0, 2][..],
        &[0x40, 3, 4, 0, 0, 0, 0],
        &[0x40, 3, 4, 127, 0, 0, 1],
        &[0x40, 3, 4, 224, 0, 0, 1],
    ] {
        assert_eq!(
            outcome(&update(&[], &[ORIGIN, AS_PATH, next_hop], NLRI)),
            Withdrawn,
            "{next_hop:?}"
        );
    }
}

#[test]
fn section_7_4_multi_exit_disc() {
    assert_eq!(with(&[0x80, 4, 3, 0, 0, 7]), Withdrawn);
}

#[test]
fn section_7_5_local_pref_of_an_external_neighbour_is_discarded() {
    assert_eq!(with(&[0x40, 5, 4, 0, 0, 0, 7]), Taken(vec![1, 2]));
    assert_eq!(with(&[0x40, 5, 3, 0, 0, 7]), Taken(vec![1, 2]), "malformed as well");
}

#[test]
fn section_7_6_atomic_aggregate_is_discarded() {
    assert_eq!(with(&[0x40, 6, 0]), Taken(vec![1, 2, 6]));
    assert_eq!(with(&[0x40, 6, 1, 0]), Taken(vec![1, 2]));
}

#[test]
fn section_7_7_aggregator_is_discarded() {
    assert_eq!(with(&[0xc0, 7, 8, 0, 0, 0xfb, 0xf4, 10, 0, 0, 1]), Taken(vec![1, 2, 7]));
    assert_eq!(with(&[0xc0, 7, 6, 0xfb, 0xf4, 10, 0, 0, 1]), Taken(vec![1, 2]));
}

#[test]
fn section_7_8_communities() {
    assert_eq!(with(&[0xc0, 8, 4, 0xfb, 0xf4, 0, 1]), Taken(vec![1, 2, 8]));
    assert_eq!(with(&[0xc0, 8, 3, 0xfb, 0xf4, 0]), Withdrawn);
    assert_eq!(with(&[0xc0, 8, 0]), Withdrawn);
}

#[test]
fn sections_7_9_and_7_10_attributes_of_reflectors_are_discarded() {
    assert_eq!(with(&[0x80, 9, 4, 10, 0, 0, 1]), Taken(vec![1, 2]));
    assert_eq!(with(&[0x80, 9, 3, 10, 0, 0]), Taken(vec![1, 2]));
    assert_eq!(with(&[0x80, 10, 4, 10, 0, 0, 1]), Taken(vec![1, 2]));
    assert_eq!(with(&[0x80, 10, 3, 10, 0, 0]), Taken(vec![1, 2]));
}

#[test]
fn section_7_11_mp_reach_nlri() {
    let next_hop_too_short: &[u8] =
        &[0x80, 14, 15, 0, 2, 1, 3, 1, 2, 3, 0, 48, 0x20, 1, 0xd, 0xb8, 0, 1];
    assert_eq!(outcome(&update(&[], &[next_hop_too_short, ORIGIN, AS_PATH], &[])), Reset(3, 9));
    let names_no_family: &[u8] = &[0x80, 14, 2, 0, 2];
    assert_eq!(outcome(&update(&[], &[names_no_family, ORIGIN, AS_PATH], &[])), Reset(3, 5));
}

#[test]
fn section_7_14_extended_communities() {
    assert_eq!(with(&[0xc0, 16, 8, 0, 2, 0xfb, 0xf4, 0, 0, 0, 1]), Taken(vec![1, 2, 16]));
    assert_eq!(with(&[0xc0, 16, 7, 0, 2, 0xfb, 0xf4, 0, 0, 0]), Withdrawn);
}

#[test]
fn rfc_8092_large_communities() {
    assert_eq!(
        with(&[0xc0, 32, 12, 0, 0, 0xfb, 0xf4, 0, 0, 0, 1, 0, 0, 0, 2]),
        Taken(vec![1, 2, 32])
    );
    assert_eq!(with(&[0xc0, 32, 11, 0, 0, 0xfb, 0xf4, 0, 0, 0, 1, 0, 0, 0]), Withdrawn);
}

#[test]
fn attributes_that_nobody_knows() {
    assert_eq!(
        with(&[0xc0, 99, 2, 1, 2]),
        Taken(vec![1, 2, 99]),
        "optional transitive: it goes on, as partial"
    );
    assert_eq!(
        with(&[0x80, 99, 2, 1, 2]),
        Taken(vec![1, 2]),
        "optional non-transitive: it ends here"
    );
    assert_eq!(with(&[0x40, 99, 2, 1, 2]), Withdrawn, "well-known, yet unknown");
}

#[test]
fn families_that_were_not_agreed_on_are_ignored() {
    let only_v4 = |config: &mut Config| config.set_family(Family::Ipv6, None);
    let reach = mp_reach(&[48, 0x20, 1, 0xd, 0xb8, 0, 2]);
    assert_eq!(outcome_with(only_v4, &update(&[], &[&reach, ORIGIN, AS_PATH], &[])), Ignored);
    // Not even read: its prefixes are broken.
    let broken = mp_reach(&[129, 0x20, 1]);
    assert_eq!(outcome_with(only_v4, &update(&[], &[&broken, ORIGIN, AS_PATH], &[])), Ignored);
    let multicast: &[u8] = &[0x80, 14, 13, 0, 1, 2, 4, 192, 0, 2, 1, 0, 24, 10, 0, 9];
    assert_eq!(outcome(&update(&[], &[multicast, ORIGIN, AS_PATH], &[])), Ignored);
    let nobody_knows: &[u8] = &[0x80, 15, 6, 0x40, 4, 71, 24, 10, 0];
    assert_eq!(outcome(&update(&[], &[nobody_knows], &[])), Ignored);
    // The rest of the message counts.
    assert_eq!(
        outcome(&update(&[], &[multicast, ORIGIN, AS_PATH, NEXT_HOP], NLRI)),
        Taken(vec![1, 2])
    );
    let only_v6 = |config: &mut Config| config.set_family(Family::Ipv4, None);
    assert_eq!(outcome_with(only_v6, &update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], NLRI)), Ignored);
}

#[test]
fn an_ipv6_next_hop_for_ipv4_was_not_agreed_on() {
    let mut reach = vec![0x80, 14, 25, 0, 1, 1, 16];
    reach.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    reach.extend([0, 24, 10, 0, 1]);
    assert_eq!(outcome(&update(&[], &[&reach, ORIGIN, AS_PATH], &[])), Withdrawn);
}

#[test]
fn loops_and_strangers_first_are_withdrawn() {
    let path = |numbers: &[u32]| {
        let mut bytes = vec![0x40, 2, 2 + 4 * numbers.len() as u8, 2, numbers.len() as u8];
        numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes
    };
    let by = |numbers: &[u32]| update(&[], &[ORIGIN, &path(numbers), NEXT_HOP], NLRI);
    assert_eq!(outcome(&by(&[64500, 64501, 7])), Withdrawn, "our own number");
    assert_eq!(outcome(&by(&[7, 64500])), Withdrawn, "the first is not the neighbour");
    assert_eq!(
        outcome_with(|config| config.enforce_first_as = false, &by(&[7, 64500])),
        Taken(vec![1, 2])
    );
    assert_eq!(
        outcome_with(|config| config.role = Some(BgpRole::RouteServerClient), &by(&[7])),
        Taken(vec![1, 2, 35])
    );
}

#[test]
fn rfc_9234_leaks_are_withdrawn_and_routes_marked() {
    let marked: &[u8] = &[0xc0, 35, 4, 0, 0, 0, 7];
    let message = update(&[], &[ORIGIN, AS_PATH, NEXT_HOP, marked], NLRI);
    assert_eq!(
        outcome_with(|config| config.role = Some(BgpRole::RouteServer), &message),
        Withdrawn
    );
    assert_eq!(outcome_with(|config| config.role = Some(BgpRole::Peer), &message), Withdrawn);
    assert_eq!(
        outcome_with(|config| config.role = Some(BgpRole::Customer), &message),
        Taken(vec![1, 2, 35])
    );
    assert_eq!(with(&[0xc0, 35, 3, 0, 0, 7]), Withdrawn, "malformed");
}

#[test]
fn a_message_that_withdraws_and_announces_a_route_announces_it() {
    assert_eq!(outcome(&update(NLRI, &[ORIGIN, AS_PATH, NEXT_HOP], NLRI)), Taken(vec![1, 2]));
}

/// IPv6 unicast by way of 2001:db8::9.
fn mp_reach(nlri: &[u8]) -> Vec<u8> {
    let mut attribute = vec![0x80, 14, (21 + nlri.len()) as u8, 0, 2, 1, 16];
    attribute.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0]);
    attribute.extend(nlri);
    attribute
}

#[test]
fn the_helper_makes_what_it_says() {
    let message = update(&[], &[ORIGIN, AS_PATH, NEXT_HOP], NLRI);
    let mut pair = prepared(|_| {});
    pair.hear(1, &message);
    let route = pair.sessions[1].route_in(v4(1), 0).unwrap();
    assert_eq!(route.next_hop().to_string(), "192.0.2.9");
    assert!(matches!(v4(1), Prefix::V4(prefix) if prefix.to_string() == "10.0.1.0/24"));
}
