//! A handshake survives what a network does to datagrams: any one
//! of them lost, or many lost, late and repeated.

#![allow(clippy::unwrap_used)] // A test may.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rhumb_link::Config;
use rhumb_trust::Identity;
use rhumb_wire::{Metadata, Role};

use crate::pair::{Fate, Net};

/// Connects two ends whose datagram of this number is lost, and has each reach the other.
#[track_caller]
fn connected_without(mut net: Net, lost: usize) -> Net {
    net.set_fate(move |number, _| if number == lost { Fate::Lost } else { Fate::Arrives });
    net.connect(0, 1);
    net.run(Duration::from_millis(1500));
    assert!(net.find_session(0, 1).is_some(), "initiator without datagram {lost}");
    assert!(net.find_session(1, 0).is_some(), "responder without datagram {lost}");
    net.assert_carries(&format!("without datagram {lost}"));
    net
}

#[test]
fn any_single_datagram_may_be_lost() {
    let mut undisturbed = Net::pair();
    undisturbed.establish();
    let datagrams = undisturbed.sent.len();
    assert!(datagrams >= 8, "{datagrams}");
    for lost in 0..datagrams {
        let mut net = connected_without(Net::pair(), lost);
        net.run(Duration::from_secs(60));
        net.assert_carries(&format!("a minute after the loss of datagram {lost}"));
        assert_eq!(net.hosts[0].events.len() + net.hosts[1].events.len(), 2, "lost {lost}");
    }
}

#[test]
fn any_single_datagram_may_be_late_or_repeated() {
    for (number, span_ms) in (0..12).flat_map(|n| [5, 15, 300].map(|ms| (n, ms))) {
        for twice in [false, true] {
            let span = Duration::from_millis(span_ms);
            let fate = if twice { Fate::Twice(span) } else { Fate::Late(span) };
            let mut net = Net::pair();
            net.set_fate(move |n, _| if n == number { fate } else { Fate::Arrives });
            net.connect(0, 1);
            net.run(Duration::from_millis(1500));
            net.assert_carries(&format!("datagram {number} {fate:?}"));
        }
    }
}

/// Metadata as large as they get, so that flights take several datagrams.
fn verbose_pair() -> Net {
    let identity = || {
        let describe = |key| {
            (0..8).fold(Metadata::new(Role::Router, key, 1), |metadata, n| {
                metadata.with_attribute(&format!("{n}{}", "k".repeat(31)), &"v".repeat(64)).unwrap()
            })
        };
        Arc::new(Identity::generate_with(describe).unwrap())
    };
    let mut net = Net::new();
    net.add_identity(identity(), Config::default());
    net.add_identity(identity(), Config::default());
    net
}

#[test]
fn any_single_datagram_of_the_largest_flights_may_be_lost() {
    let mut undisturbed = verbose_pair();
    undisturbed.establish();
    let datagrams = undisturbed.sent.len();
    assert!(datagrams >= 10, "{datagrams}");
    for lost in 0..datagrams {
        let net = connected_without(verbose_pair(), lost);
        assert!(net.sent.len() < 2 * datagrams, "{} datagrams without {lost}", net.sent.len());
    }
}

#[test]
fn any_damaged_byte_costs_few_datagrams_and_prevents_nothing() {
    for number in 0..12 {
        for at in (0..700).step_by(61) {
            let mut net = Net::pair();
            net.set_fate(move |n, flying| {
                if n == number { Fate::Altered(at % flying.bytes.len()) } else { Fate::Arrives }
            });
            net.connect(0, 1);
            net.run(Duration::from_secs(12));
            for (of, with) in [(0, 1), (1, 0)] {
                let is_there = net.find_session(of, with).is_some();
                assert!(is_there, "byte {at} of {number}: {:?} {:?}", net.drops(0), net.drops(1));
            }
            assert!(net.sent.len() < 60, "{} datagrams, byte {at} of {number}", net.sent.len());
            net.assert_carries(&format!("byte {at} of datagram {number}"));
        }
    }
}

/// A fate for each datagram, from two bytes: 20 % lost, 20 % late, 10 % twice.
fn fate(dice: (u8, u8)) -> Fate {
    let span = Duration::from_millis(u64::from(dice.1) * 2);
    match dice.0 {
        0..=50 => Fate::Lost,
        51..=101 => Fate::Late(span),
        102..=127 => Fate::Twice(span),
        _ => Fate::Arrives,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever happens to the first datagrams, both ends agree
    /// within an attempt and a retry of the caller.
    #[test]
    fn a_bad_network_delays_but_does_not_prevent(dice in prop::collection::vec(any::<(u8, u8)>(), 40)) {
        let mut net = Net::pair();
        net.set_fate(move |number, _| dice.get(number).map_or(Fate::Arrives, |dice| fate(*dice)));
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
