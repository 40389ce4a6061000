//! Tables of both sides: packing, several paths, refreshes, restarts,
//! and what becomes of routes on their way out.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::time::Duration;

use rhumb_bgp::config::GracefulRestart;
use rhumb_bgp::wire::{BgpRole, Origin, PathAttribute, Prefix};
use rhumb_bgp::{
    Attributes, Config, Event, Family, FamilyConfig, NextHop, Propagation, State, Withheld,
};

use crate::pair::{Pair, basic, v4, v6, via_v4, via_v6};

const SECOND: Duration = Duration::from_secs(1);

fn announce(pair: &mut Pair, routes: impl IntoIterator<Item = (Prefix, u32, Attributes)>) {
    let now = pair.now;
    for (prefix, path, attributes) in routes {
        pair.sessions[0].announce(prefix, path, &attributes, now).unwrap();
    }
}

/// Prefixes and paths in a table of end 1.
fn table(pair: &Pair, family: Family) -> BTreeSet<(Prefix, u32)> {
    pair.sessions[1].routes_in(family).map(|(prefix, path, _)| (prefix, path)).collect()
}

fn updates(pair: &Pair, end: usize) -> usize {
    pair.sent[end].iter().filter(|message| message[18] == 2 && message.len() > 29).count()
}

#[test]
fn routes_that_share_attributes_share_messages() {
    let mut pair = Pair::established(|left, _| left.extended_messages = false);
    let (one, other, six) = (via_v4(&[64500]), via_v4(&[64500, 1]), via_v6(&[64500]));
    announce(
        &mut pair,
        (0..4000).map(|number| {
            (v4(number), 0, if number % 2 == 0 { one.clone() } else { other.clone() })
        }),
    );
    announce(&mut pair, (0..1000).map(|number| (v6(number), 0, six.clone())));
    pair.pump();
    assert_eq!(
        (pair.sessions[1].count_in(Family::Ipv4), pair.sessions[1].count_in(Family::Ipv6)),
        (4000, 1000)
    );
    // About 1010 prefixes of 4 bytes fit beside the attributes, and 570 of 7.
    assert_eq!(updates(&pair, 0), 2 * 2 + 2);
    assert!(pair.sent[0].iter().all(|message| message.len() <= 4096));
    assert_eq!(pair.sessions[1].distinct_attributes(), 3);
    let now = pair.now;
    for number in 0..4000 {
        assert!(pair.sessions[0].withdraw(v4(number), 0, now));
    }
    pair.pump();
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0);
    assert_eq!(updates(&pair, 0), 6 + 4);
}

#[test]
fn of_a_route_that_changes_the_last_word_alone_is_sent() {
    let mut pair = Pair::established(|_, _| {});
    pair.take(1);
    let now = pair.now;
    announce(&mut pair, (1..100).map(|number| (v4(1), 0, via_v4(&[64500, number]))));
    announce(&mut pair, [(v4(2), 0, via_v4(&[64500]))]);
    assert!(pair.sessions[0].withdraw(v4(2), 0, now));
    assert!(!pair.sessions[0].withdraw(v4(3), 0, now), "it was never there");
    pair.pump();
    let last = Event::Announced { prefix: v4(1), path: 0, attributes: via_v4(&[64500, 99]) };
    assert_eq!(pair.take(1), [last]);
    // Withdrawn and announced again before anything was
    // sent, with other attributes and with the same.
    for path in [&[64500, 5], &[64500, 5]] {
        assert!(pair.sessions[0].withdraw(v4(1), 0, now));
        announce(&mut pair, [(v4(1), 0, via_v4(path))]);
        pair.pump();
    }
    assert_eq!(
        pair.take(1),
        [Event::Announced { prefix: v4(1), path: 0, attributes: via_v4(&[64500, 5]) }]
    );
    // Announced, withdrawn: the neighbour hears of the withdrawal alone.
    announce(&mut pair, [(v4(1), 0, via_v4(&[64500, 6]))]);
    assert!(pair.sessions[0].withdraw(v4(1), 0, now));
    pair.pump();
    assert_eq!(pair.take(1), [Event::Withdrawn { prefix: v4(1), path: 0 }]);
}

#[test]
fn what_was_announced_before_is_sent_when_the_session_comes_up_and_then_its_end() {
    let mut pair = Pair::new(|_, right| right.passive = true);
    announce(&mut pair, (0..10).map(|number| (v4(number), 0, via_v4(&[64500]))));
    pair.start();
    let events = pair.take(1);
    assert_eq!(events[11], Event::EndOfRib(Family::Ipv4));
    assert!(events[1..11].iter().all(|event| matches!(event, Event::Announced { .. })));
    pair.cut();
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0);
    pair.advance(10 * SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 10, "and again after a loss");
}

#[test]
fn the_end_is_said_when_the_user_says_so() {
    let mut pair = Pair::established(|left, _| left.automatic_end_of_rib = false);
    assert!(matches!(&pair.take(1)[..], [Event::Up(_)]));
    let now = pair.now;
    announce(&mut pair, [(v4(1), 0, via_v4(&[64500]))]);
    pair.sessions[0].end_of_rib(Family::Ipv4, now);
    pair.pump();
    assert!(matches!(&pair.take(1)[..], [Event::Announced { .. }, Event::EndOfRib(Family::Ipv4)]));
}

#[test]
fn several_paths_go_where_both_sides_want_them_and_path_0_elsewhere() {
    let paths = |send, receive| FamilyConfig {
        add_path_send: send,
        add_path_receive: receive,
        max_prefixes: None,
    };
    for (receives, expected) in [(true, [0, 1, 7].as_slice()), (false, &[0])] {
        let mut pair = Pair::established(|left, right| {
            left.set_family(Family::Ipv4, Some(paths(true, false)));
            right.set_family(Family::Ipv4, Some(paths(false, receives)));
        });
        assert_eq!(pair.sessions[0].sends_paths(Family::Ipv4), receives);
        announce(&mut pair, [0, 1, 7].map(|path| (v4(1), path, via_v4(&[64500, path + 10]))));
        announce(&mut pair, [(v6(1), 9, via_v6(&[64500]))]);
        pair.pump();
        let expected: BTreeSet<_> = expected.iter().map(|path| (v4(1), *path)).collect();
        assert_eq!(table(&pair, Family::Ipv4), expected);
        assert_eq!(
            table(&pair, Family::Ipv6),
            BTreeSet::from([(v6(1), 0)]),
            "no add-path there: the path is disregarded"
        );
        let now = pair.now;
        assert!(pair.sessions[0].withdraw(v4(1), 7, now));
        pair.pump();
        assert!(!table(&pair, Family::Ipv4).contains(&(v4(1), 7)));
        assert!(table(&pair, Family::Ipv4).contains(&(v4(1), 0)));
    }
}

#[test]
fn a_refresh_says_all_again_and_takes_along_what_was_lost() {
    let mut pair = Pair::established(|_, _| {});
    announce(&mut pair, (0..20).map(|number| (v4(number), 0, via_v4(&[64500]))));
    pair.pump();
    // The neighbour's word that 10.0.3.0/24 is gone is lost on the way.
    pair.mute[0] = true;
    let now = pair.now;
    assert!(pair.sessions[0].withdraw(v4(3), 0, now));
    pair.pump();
    pair.mute[0] = false;
    pair.take(1);
    assert!(pair.sessions[1].request_refresh(Family::Ipv4, now));
    pair.pump();
    let events = pair.take(1);
    assert_eq!(
        events,
        [Event::Withdrawn { prefix: v4(3), path: 0 }, Event::Refreshed(Family::Ipv4)]
    );
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 19);
    assert_eq!(pair.sessions[0].counters().refreshes_answered, 1);
}

#[test]
fn a_refresh_that_never_ends_is_ended() {
    let mut pair = Pair::established(|_, _| {});
    announce(&mut pair, [(v4(1), 0, via_v4(&[64500]))]);
    pair.pump();
    let begin = [&[0xff; 16][..], &[0, 23, 5, 0, 1, 1, 1]].concat();
    pair.hear(1, &begin);
    assert_eq!(pair.sessions[1].count_stale(Family::Ipv4), 1);
    pair.advance(899 * SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 1);
    pair.advance(SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0);
}

fn restarting(config: &mut Config) {
    let (restart_time, stale_time) = (120 * SECOND, 300 * SECOND);
    config.graceful_restart = Some(GracefulRestart { restart_time, stale_time, restarting: true });
}

/// Both restart gracefully; end 0 has announced twenty routes, and the connection is cut.
fn cut_gracefully() -> Pair {
    let mut pair = Pair::established(|left, right| {
        restarting(left);
        restarting(right);
    });
    announce(&mut pair, (0..20).map(|number| (v4(number), 0, via_v4(&[64500]))));
    pair.pump();
    pair.take(1);
    pair.connects = false;
    pair.cut();
    assert!(matches!(&pair.take(1)[..], [Event::Down(_)]), "no route goes");
    assert_eq!(pair.sessions[1].count_stale(Family::Ipv4), 20);
    pair
}

/// A new process with other routes takes the place of end 0.
fn replace(pair: &mut Pair, change: impl FnOnce(&mut Config), numbers: std::ops::Range<u16>) {
    let mut other = Pair::new(|left, _| {
        restarting(left);
        change(left);
    });
    std::mem::swap(&mut pair.sessions[0], &mut other.sessions[0]);
    announce(pair, numbers.map(|number| (v4(number), 0, via_v4(&[64500]))));
    pair.connects = true;
    pair.sessions[0].start(pair.now);
    pair.pump();
}

#[test]
fn routes_stay_while_the_neighbour_restarts_and_what_it_lacks_goes_with_its_end_of_rib() {
    let mut pair = cut_gracefully();
    pair.advance(60 * SECOND);
    replace(&mut pair, |_| {}, 0..15);
    let events = pair.take(1);
    assert!(matches!(events[0], Event::Up(_)));
    assert!(
        !events.iter().any(|event| matches!(event, Event::Announced { .. })),
        "nothing changed: {events:?}"
    );
    let gone: Vec<_> =
        events.iter().filter(|event| matches!(event, Event::Withdrawn { .. })).collect();
    assert_eq!(gone.len(), 5);
    assert_eq!(
        (pair.sessions[1].count_in(Family::Ipv4), pair.sessions[1].count_stale(Family::Ipv4)),
        (15, 0)
    );
}

#[test]
fn routes_go_when_the_neighbour_does_not_come_back_in_time() {
    let mut pair = cut_gracefully();
    pair.advance(119 * SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 20);
    pair.advance(SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0);
    assert_eq!(pair.take(1).len(), 20);
}

#[test]
fn routes_go_when_the_neighbour_comes_back_without_having_forwarded() {
    let mut pair = cut_gracefully();
    let not_preserved = |config: &mut Config| {
        config.graceful_restart.as_mut().unwrap().restarting = false;
        config.automatic_end_of_rib = false;
    };
    replace(&mut pair, not_preserved, 0..0);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0);
}

#[test]
fn routes_go_when_the_neighbour_never_says_that_it_is_done() {
    let mut pair = cut_gracefully();
    replace(&mut pair, |config| config.automatic_end_of_rib = false, 0..5);
    pair.advance(299 * SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 20);
    pair.advance(SECOND);
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 5);
}

#[test]
fn a_new_connection_of_a_neighbour_that_restarts_replaces_the_old_one() {
    let mut pair = Pair::established(|left, right| {
        restarting(left);
        restarting(right);
    });
    announce(&mut pair, [(v4(1), 0, via_v4(&[64500]))]);
    pair.pump();
    pair.take(1);
    assert!(pair.sessions[1].connected(rhumb_bgp::Side::Incoming, pair.now).is_some());
    pair.pump();
    assert!(matches!(&pair.take(1)[..], [Event::Down(rhumb_bgp::DownReason::Replaced)]));
    assert_eq!(
        (pair.sessions[1].state(), pair.sessions[1].count_stale(Family::Ipv4)),
        (State::OpenSent, 1)
    );
}

#[test]
fn a_stop_is_for_good_and_a_reset_is_not() {
    for is_reset in [true, false] {
        let mut pair = Pair::established(|left, right| {
            restarting(left);
            restarting(right);
        });
        announce(&mut pair, [(v4(1), 0, via_v4(&[64500]))]);
        pair.pump();
        let now = pair.now;
        if is_reset {
            pair.sessions[0].reset("again", now);
        } else {
            pair.sessions[0].stop("for good", now);
        }
        pair.pump();
        // RFC 8538: any NOTIFICATION but a hard reset leaves routes in place.
        assert_eq!(pair.sessions[1].count_in(Family::Ipv4), usize::from(is_reset));
        let words = if is_reset { "again" } else { "for good" };
        let Some(Event::Down(reason)) =
            pair.events[1].iter().find(|event| matches!(event, Event::Down(_)))
        else {
            panic!()
        };
        assert!(reason.to_string().ends_with(&format!(": \"{words}\"")), "{reason}");
    }
}

/// The attributes of 10.0.1.0/24 as end 1 has them.
fn through(
    change: impl FnOnce(&mut Config, &mut Config),
    given: &Attributes,
) -> Result<Attributes, Withheld> {
    let mut pair = Pair::established(change);
    let now = pair.now;
    pair.sessions[0].announce(v4(1), 0, given, now)?;
    pair.pump();
    Ok(pair.sessions[1].route_in(v4(1), 0).unwrap().clone())
}

fn given(more: &[PathAttribute]) -> Attributes {
    let list = [basic(&[64510, 64511]), more.to_vec()].concat();
    Attributes::new(NextHop::V4([192, 0, 2, 77].into()), &list).unwrap()
}

fn as_client(_: &mut Config, right: &mut Config) {
    right.enforce_first_as = false;
}

#[test]
fn a_route_server_hands_routes_on_as_they_are() {
    let more = [
        PathAttribute::Med(5),
        PathAttribute::AtomicAggregate,
        PathAttribute::Communities(vec![0xffff_ff01, 7]),
    ];
    assert_eq!(through(as_client, &given(&more)).unwrap(), given(&more));
    let inner = [&more[..], &[PathAttribute::LocalPref(900)]].concat();
    assert_eq!(
        through(as_client, &given(&inner)).unwrap(),
        given(&more),
        "local preference stays here"
    );
}

#[test]
fn a_router_puts_itself_before_the_path() {
    let external = |left: &mut Config, _: &mut Config| {
        left.propagation =
            Propagation::External { next_hop: Some([192, 0, 2, 200].into()), next_hop_v6: None };
    };
    let route =
        through(external, &given(&[PathAttribute::Med(5), PathAttribute::LocalPref(9)])).unwrap();
    assert_eq!(route.next_hop().to_string(), "192.0.2.200");
    assert_eq!(route.as_path().asns().collect::<Vec<_>>(), [64500, 64510, 64511]);
    assert_eq!(route.list().len(), 2, "MED and local preference stay here: {route:?}");
    let own =
        Attributes::new(NextHop::V4([192, 0, 2, 77].into()), &[PathAttribute::Origin(Origin::Igp)])
            .unwrap();
    assert_eq!(through(external, &own).unwrap().as_path().asns().collect::<Vec<_>>(), [64500]);
    for community in [0xffff_ff01, 0xffff_ff02, 0xffff_ff03] {
        let kept = given(&[PathAttribute::Communities(vec![community])]);
        assert_eq!(through(external, &kept), Err(Withheld::Community));
    }
    let full: Vec<u32> = (1..=255).collect();
    let long = Attributes::new(NextHop::V4([192, 0, 2, 77].into()), &basic(&full)).unwrap();
    let route = through(external, &long).unwrap();
    assert_eq!(
        (route.as_path().segments.len(), route.as_path().asns().count()),
        (2, 256),
        "a segment holds 255"
    );
}

#[test]
fn roles_mark_and_withhold() {
    let server = |left: &mut Config, right: &mut Config| {
        left.role = Some(BgpRole::RouteServer);
        right.role = Some(BgpRole::RouteServerClient);
    };
    let marked = |route: &Attributes| route.list().iter().find_map(PathAttribute::only_to_customer);
    assert_eq!(marked(&through(server, &given(&[])).unwrap()), Some(64500));
    assert_eq!(
        marked(&through(server, &given(&[PathAttribute::OnlyToCustomer(9)])).unwrap()),
        Some(9)
    );
    let customer = |left: &mut Config, right: &mut Config| {
        left.role = Some(BgpRole::Customer);
        right.role = Some(BgpRole::Provider);
        right.enforce_first_as = false;
    };
    assert_eq!(
        through(customer, &given(&[PathAttribute::OnlyToCustomer(9)])),
        Err(Withheld::OnlyToCustomer)
    );
    assert_eq!(marked(&through(customer, &given(&[])).unwrap()), None);
}

#[test]
fn a_route_without_a_next_hop_of_its_family_or_without_its_family_is_withheld() {
    let mut pair = Pair::established(|left, _| left.set_family(Family::Ipv6, None));
    let now = pair.now;
    assert_eq!(pair.sessions[0].announce(v4(1), 0, &via_v6(&[64500]), now), Err(Withheld::NextHop));
    assert_eq!(pair.sessions[0].announce(v6(1), 0, &via_v6(&[64500]), now), Err(Withheld::Family));
    announce(&mut pair, [(v4(1), 0, via_v4(&[64500]))]);
    pair.pump();
    assert_eq!(pair.sessions[0].announce(v4(1), 0, &via_v6(&[64500]), now), Err(Withheld::NextHop));
    pair.pump();
    assert_eq!(pair.sessions[1].count_in(Family::Ipv4), 0, "what was there before goes");
}

#[test]
fn attributes_that_fit_no_message_stay_here_and_take_the_old_route_along() {
    let mut pair = Pair::established(|left, _| left.extended_messages = false);
    announce(&mut pair, [(v4(1), 0, via_v4(&[64500])), (v4(2), 0, via_v4(&[64500]))]);
    pair.pump();
    let long = given(&[PathAttribute::Communities((0..2000).collect())]);
    announce(&mut pair, [(v4(1), 0, long)]);
    pair.pump();
    assert_eq!(table(&pair, Family::Ipv4), BTreeSet::from([(v4(2), 0)]));
    assert_eq!(pair.sessions[0].counters().too_long, 1);
}

#[test]
fn a_neighbour_with_short_numbers_gets_and_gives_whole_paths() {
    // End 1 hears an OPEN without the capability for four octets, and
    // from then on messages of a speaker with two.
    let mut pair = Pair::new(|left, right| {
        right.passive = true;
        (left.remote_as, right.remote_as) = (64501, 64500);
    });
    pair.mute = [true, true];
    pair.start();
    let mut open = [0xff; 16].to_vec();
    open.extend([0, 29, 1, 4, 0xfb, 0xf4, 0, 90, 10, 0, 0, 1, 0]);
    pair.hear(1, &open);
    pair.hear(1, &[&[0xff; 16][..], &[0, 19, 4]].concat());
    assert_eq!(pair.sessions[1].state(), State::Established);
    assert!(!pair.sessions[1].negotiated().unwrap().four_octet_as);
    assert_eq!(
        pair.sessions[1].negotiated().unwrap().families().collect::<Vec<_>>(),
        [Family::Ipv4]
    );
    // A path of 64500, AS_TRANS, and AS4_PATH that says who that was.
    let attributes = [
        &[0x40u8, 1, 1, 0, 0x40, 2, 6, 2, 2, 0xfb, 0xf4, 0x5b, 0xa0, 0x40, 3, 4, 192, 0, 2, 9][..],
        &[0xc0, 17, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0xfa, 0x56, 0xea, 0],
    ]
    .concat();
    let mut update = [0xff; 16].to_vec();
    update.extend([0, (23 + attributes.len() + 4) as u8, 2, 0, 0, 0, attributes.len() as u8]);
    update.extend(&attributes);
    update.extend([24, 10, 0, 1]);
    pair.hear(1, &update);
    let route = pair.sessions[1].route_in(v4(1), 0).unwrap().clone();
    assert_eq!(route.as_path().asns().collect::<Vec<_>>(), [64500, 4_200_000_000]);
    // The same route goes back as it came.
    let now = pair.now;
    pair.sent[1].clear();
    pair.sessions[1].announce(v4(9), 0, &route, now).unwrap();
    pair.pump();
    let sent = &pair.sent[1][0];
    let has = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    assert!(has(&[0x40, 2, 6, 2, 2, 0xfb, 0xf4, 0x5b, 0xa0]), "{sent:?}");
    assert!(has(&[0xc0, 17, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0xfa, 0x56, 0xea, 0]), "{sent:?}");
}

#[test]
fn many_requests_for_all_cost_two_answers() {
    let mut pair = Pair::established(|_, _| {});
    announce(
        &mut pair,
        (0..100).map(|number| (v4(number), 0, via_v4(&[64500, u32::from(number) + 1]))),
    );
    pair.pump();
    let before = updates(&pair, 0);
    let now = pair.now;
    pair.sessions[1].request_refresh(Family::Ipv4, now);
    pair.deliver(1, 1);
    // The answer has begun when more requests come.
    pair.deliver(0, 5);
    for _ in 0..50 {
        pair.sessions[1].request_refresh(Family::Ipv4, now);
    }
    pair.pump();
    assert_eq!(updates(&pair, 0) - before, 200);
    assert_eq!(pair.sessions[0].counters().refreshes_answered, 51);
    assert_eq!(
        pair.take(1).iter().filter(|event| **event == Event::Refreshed(Family::Ipv4)).count(),
        2
    );
}
