//! Handshakes whose public-key work is done on another thread: what comes, is lost or is over while
//! they are out.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::SocketAddr;
use std::time::Duration;

use pair::{Fate, Flying, Net};
use proptest::prelude::*;
use rhumb_link::{Config, DropReason, Event};
use rhumb_wire::Name;
use rhumb_wire::datagram::{Datagram, SessionIndex, SessionParameters};

use crate::foreign::{Foreign, Version, certificate};
use crate::pair;

const MS: Duration = Duration::from_millis(1);

fn elsewhere() -> Config {
    let mut config = Config::default();
    config.handshakes_elsewhere = true;
    config
}

/// Host 1 has its work done elsewhere, which takes so long.
fn pair(work_takes: Duration) -> Net {
    let mut net = Net::pair_with(Config::default(), elsewhere());
    net.work_takes = work_takes;
    net
}

#[test]
fn a_session_is_made_and_renewed_as_if_the_work_were_done_here() {
    for work_takes in [Duration::ZERO, MS, 200 * MS, 700 * MS] {
        let mut net = pair(work_takes);
        net.connect(0, 1);
        net.run(Duration::from_secs(4));
        net.assert_carries(&format!("work takes {work_takes:?}"));
        net.take_events(1);
        net.connect(0, 1);
        net.run(Duration::from_secs(4));
        let events = net.take_events(1);
        assert!(
            matches!(events[..], [Event::Established { renewed: true, .. }]),
            "{events:?} where work takes {work_takes:?}"
        );
        net.assert_carries("renewed");
        assert_eq!(net.hosts[1].endpoint.half_open(), 0);
    }
}

#[test]
fn both_may_begin_at_once() {
    let mut net = Net::pair_with(elsewhere(), elsewhere());
    net.connect(0, 1);
    net.connect(1, 0);
    net.run(Duration::from_secs(3));
    net.assert_carries("both began");
}

#[test]
fn any_single_datagram_may_be_lost_or_repeated_while_work_is_done() {
    for number in 0..12 {
        for fate in [Fate::Lost, Fate::Twice(MS), Fate::Twice(15 * MS), Fate::Late(300 * MS)] {
            let mut net = pair(20 * MS);
            net.set_fate(move |n, _| if n == number { fate } else { Fate::Arrives });
            net.connect(0, 1);
            net.run(Duration::from_millis(2500));
            net.assert_carries(&format!("datagram {number} {fate:?}"));
        }
    }
}

/// Begins a handshake with host 1 from `from`: its datagram with a token.
fn proven(net: &mut Net, initial: &Flying, from: SocketAddr) -> Flying {
    let before = net.sent.len();
    net.deliver(&Flying { from, ..initial.clone() }).unwrap();
    let (Ok(Datagram::Retry { token, .. }), Ok(Datagram::Initial { inner, .. })) =
        (Datagram::parse(&net.sent[before].bytes), Datagram::parse(&initial.bytes))
    else {
        panic!("a retry for an initial")
    };
    let mut bytes = Vec::new();
    Datagram::emit_initial(Some(token), inner, &mut bytes);
    Flying { from, to: initial.to, bytes }
}

fn first_hello(net: &mut Net, of: usize) -> Flying {
    let at = net.sent.len();
    net.set_fate(|_, _| Fate::Lost);
    net.connect(of, 1);
    net.set_fate(|_, _| Fate::Arrives);
    net.sent[at].clone()
}

#[test]
fn whoever_begins_anew_has_the_work_of_the_last_hello_done_alone() {
    let mut net = pair(MS);
    net.add(Config::default());
    let hellos = [first_hello(&mut net, 0), first_hello(&mut net, 2)];
    let from = SocketAddr::from(([203, 0, 113, 1], 9));
    let both = hellos.each_ref().map(|hello| proven(&mut net, hello, from));
    let server = &mut net.hosts[1].endpoint;
    // Nobody asks for work meanwhile.
    for n in 0..100 {
        let Ok(datagram) = Datagram::parse(&both[n % 2].bytes) else { panic!("an initial") };
        server.handle_handshake(from, datagram, net.now).unwrap();
    }
    assert_eq!(server.half_open(), 1);
    let jobs: Vec<_> = std::iter::from_fn(|| server.poll_handshake_job()).collect();
    assert_eq!(jobs.len(), 1, "the others have ended");
    for job in jobs {
        server.handle_handshake_done(job.run(), net.now);
    }
    net.collect(1);
    assert_eq!(net.outside.len(), 0);
    assert!(net.sent.last().is_some_and(|it| it.to == from), "it is answered");
}

#[test]
fn a_handshake_that_is_over_when_its_work_is_done_is_forgotten() {
    let mut net = pair(Duration::from_secs(30));
    let hello = first_hello(&mut net, 0);
    let from = SocketAddr::from(([203, 0, 113, 1], 9));
    let proven = proven(&mut net, &hello, from);
    net.deliver(&proven).unwrap();
    assert_eq!(net.hosts[1].endpoint.half_open(), 1);
    let sent = |net: &Net| net.sent.iter().filter(|it| it.to == from).count();
    let before = sent(&net);
    // So have the attempts of host 0, which goes on for 12 s.
    net.run(Duration::from_secs(20));
    assert_eq!(net.hosts[1].endpoint.half_open(), 0, "it has timed out");
    net.run(Duration::from_secs(30));
    assert_eq!(sent(&net), before, "nothing is said any more");
    assert!(net.drops(1).iter().any(|(why, _)| *why == DropReason::HandshakeFailed));
    // What comes next is taken.
    net.work_takes = MS;
    net.connect(0, 1);
    net.run(Duration::from_secs(13));
    net.assert_carries("afterwards");
}

#[test]
fn work_that_nobody_does_is_bounded() {
    let mut config = elsewhere();
    config.limits.half_open = 8;
    let mut net = Net::pair_with(Config::default(), config);
    net.add(Config::default());
    let hellos = [first_hello(&mut net, 0), first_hello(&mut net, 2)];
    let from = SocketAddr::from(([203, 0, 113, 1], 9));
    let both = hellos.each_ref().map(|hello| proven(&mut net, hello, from));
    let server = &mut net.hosts[1].endpoint;
    let mut refused = Vec::new();
    for n in 0..20 {
        let Ok(datagram) = Datagram::parse(&both[n % 2].bytes) else { panic!("an initial") };
        refused.extend(server.handle_handshake(from, datagram, net.now).err());
    }
    // What is said again of the one in progress begins nothing.
    assert_eq!(refused, [DropReason::HalfOpenLimit; 6]);
}

const VERSIONS: [Version; 2] = [Version::Dtls12, Version::Dtls13];

/// A stock stack that begins with host 0, up to where it has told its parameters.
fn foreign_session(net: &mut Net, version: Version, context: &str) -> Name {
    let them = pair::identity();
    let certificate = certificate(&them, Some(them.metadata().emit()));
    let mut foreign = Foreign::new(net, version, certificate, Some(0));
    foreign.run(net, Duration::from_secs(6));
    assert!(foreign.connected && !foreign.failed, "{context}");
    assert!(SessionParameters::parse(&foreign.messages[0]).is_ok(), "{context}");
    let index = SessionIndex::new(5).unwrap();
    foreign.say(&SessionParameters { index, lanes: 1, max_datagram_len: 1300 }.emit());
    foreign.run(net, Duration::from_millis(1500));
    them.name()
}

fn assert_sealed_for(net: &mut Net, name: &Name, context: &str) {
    let session = net.hosts[0].endpoint.session_of(name).expect(context);
    assert!(net.seal(0, session, b"for them").is_ok(), "{context}");
    assert_eq!(net.hosts[0].endpoint.half_open(), 0, "{context}");
}

#[test]
fn foreign_stacks_have_their_work_done_elsewhere_too() {
    for version in VERSIONS {
        for work_takes in [Duration::ZERO, MS, 200 * MS, 700 * MS] {
            let context = format!("{version:?} where work takes {work_takes:?}");
            let mut net = Net::new();
            net.add(elsewhere());
            net.work_takes = work_takes;
            let name = foreign_session(&mut net, version, &context);
            assert_sealed_for(&mut net, &name, &context);
            // Its hello, and what its certificate and its proof come in.
            assert!(net.worked >= 2, "{} steps, {context}", net.worked);
        }
        let mut net = Net::new();
        net.add(Config::default());
        let name = foreign_session(&mut net, version, "here");
        assert_sealed_for(&mut net, &name, "here");
        assert_eq!(net.worked, 0, "nobody asked for it");
    }
}

#[test]
fn any_single_datagram_of_a_foreign_stack_may_be_lost_or_repeated_while_work_is_done() {
    for version in VERSIONS {
        for number in 0..10 {
            for fate in [Fate::Lost, Fate::Twice(MS), Fate::Twice(15 * MS), Fate::Late(300 * MS)] {
                let context = format!("{version:?}, datagram {number} {fate:?}");
                let mut net = Net::new();
                net.add(elsewhere());
                net.work_takes = 20 * MS;
                net.set_fate(move |n, _| if n == number { fate } else { Fate::Arrives });
                let name = foreign_session(&mut net, version, &context);
                assert_sealed_for(&mut net, &name, &context);
            }
        }
    }
}

#[test]
fn a_foreign_stack_that_proves_no_name_is_refused_by_work_done_elsewhere() {
    for version in VERSIONS {
        let mut net = Net::new();
        net.add(elsewhere());
        let nameless = certificate(&pair::identity(), None);
        let mut foreign = Foreign::new(&net, version, nameless, Some(0));
        foreign.run(&mut net, Duration::from_secs(4));
        let refused = net.drops(0).into_iter().find(|it| it.0 == DropReason::IdentityRefused);
        assert_eq!(refused, Some((DropReason::IdentityRefused, 1)), "{version:?}");
        assert_eq!(net.hosts[0].endpoint.half_open(), 0, "{version:?}");
        assert!(net.worked >= 2 && net.take_events(0).is_empty(), "{version:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn a_bad_network_delays_but_does_not_prevent(
        dice in prop::collection::vec(any::<(u8, u8)>(), 40),
        work_ms in 0u64..600,
    ) {
        let mut net = pair(Duration::from_millis(work_ms));
        net.set_fate(move |number, _| match dice.get(number) {
            Some((0..=50, _)) => Fate::Lost,
            Some((51..=101, span)) => Fate::Late(u32::from(*span) * 2 * MS),
            Some((102..=127, span)) => Fate::Twice(u32::from(*span) * 2 * MS),
            _ => Fate::Arrives,
        });
        for _ in 0..3 {
            net.connect(0, 1);
            net.run(Duration::from_secs(13));
            if net.find_session(0, 1).is_some() && net.find_session(1, 0).is_some() {
                break;
            }
        }
        net.assert_carries("after a bad network");
    }
}
