//! A node finds a router on its local network, or falls back to root
//! routers, and moves on when one does not do its work.

use std::time::Duration;

use lan::{Lan, State};
use rhumb_link::{KEEP_ALIVE, LinkError, PROBES};
use rhumb_node::core::{Disconnection, DropReason, Event};
use rhumb_node::{Remote, RouterChoice};
use rhumb_wire::discovery::{Discovery, Nonce};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name};
use world::OnAdvertise;

use crate::lan;
use crate::world;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TO: Name = Name([7; 32]);

/// The roots, with their names, in order.
fn roots(routers: &[lan::Station]) -> Vec<Remote> {
    let others = routers.iter().filter(|station| !station.is_local);
    others.map(|it| Remote { address: it.address, name: Some(it.name()) }).collect()
}

fn with_roots(routers: &[lan::Station]) -> RouterChoice {
    RouterChoice::Discovered { roots: roots(routers), only: Vec::new() }
}

#[test]
fn the_first_to_answer_is_joined_and_the_others_are_left_alone() {
    let mut lan = Lan::of(3);
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 0);
    assert!(after < 50 * MS, "{after:?}");
    lan.run_for(10 * SECOND);
    assert_eq!(lan.joined(), Some(0));
    assert_eq!(lan.asked, [Duration::ZERO], "nobody asks who has a router");
    assert!(lan.routers[1..].iter().all(|station| station.router.sessions_seen == 0));
    assert_eq!(lan.core.router_address(), Some(lan.routers[0].address));
}

#[test]
fn a_lost_query_is_repeated() {
    let mut lan = Lan::of(1);
    lan.lose_queries = 2;
    let (_, after) = lan.run_until_joined();
    assert_eq!(lan.asked, [Duration::ZERO, 250 * MS, 500 * MS]);
    assert!((500 * MS..600 * MS).contains(&after), "{after:?}");
}

#[test]
fn when_all_queries_are_lost_the_next_round_asks_again() {
    let mut lan = Lan::of(1);
    lan.lose_queries = 3;
    let (_, after) = lan.run_until_joined();
    assert!((SECOND..1300 * MS).contains(&after), "{after:?}");
    assert!(matches!(lan.events[0], Event::Disconnected { reason: Disconnection::NotFound, .. }));
}

#[test]
fn a_liar_costs_a_second_once() {
    let mut lan = Lan::of(2);
    lan.routers[0].state = State::Lying;
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 1);
    assert!((SECOND..1100 * MS).contains(&after), "{after:?}");
    // Its handshake fails while the node has long been elsewhere. That is no trouble.
    lan.run_for(15 * SECOND);
    assert_eq!(lan.joined(), Some(1));
    // When the node has to seek again, the liar comes last, so it costs nothing.
    let session = lan.routers[1].router.session.unwrap();
    lan.routers[1].router.endpoint.close(session, lan.now.instant);
    lan.run_for(300 * MS);
    assert_eq!((lan.joined(), lan.asked.len()), (Some(1), 4));
}

#[test]
fn eight_liars_do_not_keep_a_node_from_its_root() {
    let mut lan = Lan::new(8, 1, with_roots);
    for liar in &mut lan.routers[..8] {
        liar.state = State::Lying;
    }
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 8);
    assert!(after < 9 * SECOND, "{after:?}");
}

#[test]
fn who_takes_too_long_is_not_waited_for_and_joined_only_if_first() {
    let mut lan = Lan::new(1, 1, with_roots);
    lan.routers[0].latency = 300 * MS;
    lan.routers[1].latency = 50 * MS;
    // The local one answers after 600 ms, and its handshake takes longer than the patience with it.
    // The root, which is tried next, is done first.
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 1, "{after:?}");
    lan.run_for(10 * SECOND);
    assert_eq!(lan.joined(), Some(1), "the later one changes nothing");
    let sessions = lan.routers.iter().filter(|it| it.router.session.is_some()).count();
    assert_eq!(sessions, 1, "the other session is closed");
}

#[test]
fn only_the_names_allowed_are_joined() {
    // One name: the handshake itself refuses the others.
    let only_last = |routers: &[lan::Station]| RouterChoice::Discovered {
        roots: Vec::new(),
        only: vec![routers[2].name()],
    };
    let mut lan = Lan::new(3, 0, only_last);
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 2);
    assert!(after < 100 * MS, "{after:?}");
    let expected = lan.routers[2].name();
    let refused = |index: usize| Disconnection::Connect {
        address: lan.routers[index].address,
        error: LinkError::UnexpectedName { expected, actual: lan.routers[index].name() },
    };
    assert_eq!(lan.passed_over(), [refused(0), refused(1)]);
    assert!(lan.routers[..2].iter().all(|it| it.router.seen.is_empty()));

    // Several: the node looks at who it is.
    let only_two = |routers: &[lan::Station]| RouterChoice::Discovered {
        roots: Vec::new(),
        only: vec![TO, routers[1].name()],
    };
    let mut lan = Lan::new(2, 0, only_two);
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 1);
    assert!(after < 100 * MS, "{after:?}");
    let (address, router) = (lan.routers[0].address, lan.routers[0].name());
    assert_eq!(lan.passed_over(), [Disconnection::NotAllowed { address, router }]);
    assert!(lan.routers[0].router.seen.is_empty(), "it learned nothing but the handshake");
    assert_eq!(lan.routers[0].router.session, None, "and it was told so");
}

#[test]
fn when_nobody_answers_the_roots_are_tried_in_order() {
    let mut lan = Lan::new(0, 2, with_roots);
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 0);
    assert!((SECOND..1100 * MS).contains(&after), "{after:?}");

    let mut lan = Lan::new(0, 2, with_roots);
    lan.routers[0].state = State::Dead;
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 1);
    assert!((2 * SECOND..2100 * MS).contains(&after), "{after:?}");
}

#[test]
fn a_root_that_is_somebody_else_is_not_joined() {
    let mut lan = Lan::new(0, 2, |routers| {
        let mut roots = roots(routers);
        roots[0].name = Some(TO);
        RouterChoice::Discovered { roots, only: Vec::new() }
    });
    assert_eq!(lan.run_until_joined().0, 1);
    assert!(matches!(
        lan.passed_over()[..],
        [Disconnection::Connect { error: LinkError::UnexpectedName { expected: TO, .. }, .. }]
    ));
}

#[test]
fn when_a_router_dies_the_node_moves_and_takes_along_what_waits() {
    let mut lan = Lan::of(2);
    assert_eq!(lan.run_until_joined().0, 0);
    lan.run_for(SECOND);
    lan.routers[0].state = State::Dead;
    let died = lan.now.instant;
    while lan.joined().is_some() {
        lan.run_for(MS);
    }
    // The router is asked once its keep-alive is due, and then again and again.
    let noticed = lan.now.instant - died;
    let probing = 100 * MS * PROBES as u32;
    assert!((probing..=KEEP_ALIVE + probing + 50 * MS).contains(&noticed), "{noticed:?}");
    for _ in 0..10 {
        lan.core.send(TO, 9, b"while away", lan.now).unwrap();
    }
    let (router, _) = lan.run_until_joined();
    assert_eq!(router, 1);
    let took = lan.now.instant - died - noticed;
    assert!(took < 200 * MS, "{took:?}");
    lan.run_for(SECOND);
    assert_eq!(lan.routers[1].router.seen(Action::Data).len(), 10);
    assert_eq!(lan.asked.len(), 2);
}

#[test]
fn what_a_dead_router_asked_to_repeat_goes_over_the_next() {
    let mut lan = Lan::of(2);
    assert_eq!(lan.run_until_joined().0, 0);
    lan.core.send(TO, 9, b"body", lan.now).unwrap();
    lan.run_for(100 * MS);
    let seen = lan.routers[0].router.seen(Action::Data)[0].clone();
    nack(&mut lan, 0, &seen, Reason::NotYet(300));
    lan.run_for(10 * MS);
    let session = lan.routers[0].router.session.unwrap();
    lan.routers[0].router.endpoint.close(session, lan.now.instant);
    lan.run_for(5 * MS);
    lan.routers[0].state = State::Dead;
    lan.run_for(SECOND);
    assert_eq!(lan.joined(), Some(1));
    assert_eq!(lan.routers[1].router.seen(Action::Data)[0].data, seen.data);
}

fn nack(lan: &mut Lan, router: usize, about: &world::Seen, reason: Reason) {
    let mut data = Vec::new();
    rhumb_wire::nack::Nack { reason, reporter: None }.emit(&mut data);
    let header = rhumb_wire::PduHeader {
        tag: about.header.tag,
        ..rhumb_wire::PduHeader::new(Action::Nack, about.header.destination, about.header.source)
    };
    lan.routers[router].router.send(header, &data, lan.now);
}

#[test]
fn a_router_that_refuses_is_left_for_another() {
    let mut lan = Lan::of(2);
    lan.routers[0].router.on_advertise = OnAdvertise::Nack(Reason::NotAuthorised);
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 1);
    assert!(after < 500 * MS, "{after:?}");
}

#[test]
fn a_router_that_accepts_nobody_is_left_for_another() {
    let mut lan = Lan::of(2);
    lan.routers[0].router.on_advertise = OnAdvertise::Silence;
    let (router, after) = lan.run_until_joined();
    assert_eq!(router, 1);
    assert!((3 * SECOND..4 * SECOND).contains(&after), "{after:?}");
}

#[test]
fn the_only_router_is_tried_again_although_it_refused() {
    let mut lan = Lan::of(1);
    lan.routers[0].router.on_advertise = OnAdvertise::Nack(Reason::BadCertificate);
    lan.run_for(5 * SECOND);
    assert!(!lan.core.is_over());
    lan.routers[0].router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    lan.run_until_joined();
}

#[test]
fn a_network_without_a_router_is_asked_ever_less_often() {
    let mut lan = Lan::of(1);
    lan.routers[0].state = State::Dead;
    lan.run_for(600 * SECOND);
    let early = lan.asked.iter().filter(|at| **at < 10 * SECOND).count();
    let late = lan.asked.iter().filter(|at| **at >= 500 * SECOND).count();
    assert!((12..=27).contains(&early), "{early} in the first ten seconds");
    assert!(late <= 3 * 100 * 2 / 7, "{late} in the last hundred");
    lan.routers[0].state = State::Working;
    let before = lan.now;
    lan.run_until_joined();
    assert!(lan.now.instant - before.instant < 7 * SECOND);
}

#[test]
fn answers_that_nobody_asked_for_lead_nowhere() {
    let mut lan = Lan::of(2);
    lan.routers[1].is_local = false;
    let mut answer = Vec::new();
    Discovery::Answer(Nonce([9; 8])).emit(&mut answer);
    lan.lose_queries = 1;
    lan.deliver(1, answer.clone());
    lan.run_for(100 * MS);
    assert_eq!(lan.core.drops().of(DropReason::UnknownAnswer), 1);
    assert_eq!(lan.run_until_joined().0, 0);
    lan.deliver(1, answer);
    let mut query = Vec::new();
    Discovery::Query(Nonce([9; 8])).emit(&mut query);
    lan.deliver(1, query);
    lan.run_for(SECOND);
    assert_eq!(lan.core.drops().of(DropReason::UnknownAnswer), 2);
    assert_eq!(lan.core.drops().of(DropReason::Foreign), 1, "nodes answer no queries");
    assert_eq!(lan.routers[1].router.sessions_seen, 0);
}

#[test]
fn a_node_that_was_given_its_router_asks_nobody() {
    let mut lan = Lan::new(1, 1, |routers| routers[1].address.into());
    lan.routers[1].state = State::Dead;
    lan.run_for(20 * SECOND);
    assert_eq!((lan.joined(), lan.asked.len()), (None, 0));
    assert_eq!(lan.routers[0].router.sessions_seen, 0);
}
