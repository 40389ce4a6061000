//! A packet is taken once: within a batch, late, around the change of the
//! filter's parts, when clocks are set, and when the verifier is another one;
//! and nobody takes the room for that from others.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_capability::{
    Carriage, Credential, DropReason, Encapsulation, EpochKeys, Family, Packet, PacketIds, Stamper,
    Suite, Verdict, WindowClock, steer,
};

use crate::world::*;

fn stamper() -> Stamper {
    Stamper::new(&[&credential(Family::V4, 1, Suite::HeaderAes)], Encapsulation::IP).unwrap()
}

#[test]
fn a_duplicate_in_one_batch_is_dropped_and_not_billed() {
    for suite in Suite::ALL {
        let packet = stamped(&[&credential(Family::V4, 1, suite)], &ip_packet(Family::V4, b"pay"));
        let mut arena = packet.repeat(20);
        let mut packets: Vec<Packet> =
            (0..20).map(|n| Packet::new(n * packet.len(), packet.len(), Carriage::Ip)).collect();
        let mut verifier = verifier(Family::V4, 1);
        verifier.verify_batch(&mut arena, &mut packets, NOW_US);
        assert!(matches!(packets[0].verdict, Verdict::Forward(_)));
        for packet in &packets[1..] {
            assert_eq!(packet.verdict, Verdict::Drop(DropReason::Replay));
        }
        assert_eq!(verifier.accounts().total().packets, 1);
        assert_eq!(verifier.drops().count(DropReason::Replay), 19);
    }
}

#[test]
fn a_replay_is_known_as_long_as_it_could_be_taken() {
    let (stamper, mut ids) = (stamper(), PacketIds::new(0, 5));
    let packet = ip_packet(Family::V4, b"x");
    // Packets as old and as early as they may be, repeated all the time until they are too old.
    let mut verifier = verifier(Family::V4, 1);
    let step_us = 37_000;
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for step in 0..400_u64 {
        let now_us = NOW_US + step * step_us;
        for sent_us in [now_us - 2_999_000, now_us, now_us + 499_000] {
            let mut fresh =
                stamp_in(&stamper, &packet, &mut PacketIds::new(0, step as u32), sent_us);
            assert_eq!(reason_at(&mut verifier, &fresh, now_us), None, "step {step}");
            fresh[8] -= 1;
            sent.push(fresh);
        }
        let recent = sent.len().saturating_sub(400);
        for old in &sent[recent..] {
            let verdict = reason_at(&mut verifier, old, now_us);
            assert!(
                matches!(verdict, Some(DropReason::Replay | DropReason::Stale)),
                "step {step}: {verdict:?}"
            );
        }
    }
    assert_eq!(verifier.accounts().total().packets, 1200);
    let _ = ids.next(NOW_US);
}

#[test]
fn a_clock_that_steps_back_does_not_open_the_filter() {
    let stamper = stamper();
    let packet = ip_packet(Family::V4, b"x");
    let mut verifier = verifier(Family::V4, 1);
    let early = stamp_with(&stamper, &packet, NOW_US);
    assert_eq!(reason_at(&mut verifier, &early, NOW_US), None);
    // Five seconds on: too old. Back again: time stands still, so it stays too old.
    assert_eq!(reason_at(&mut verifier, &early, NOW_US + 5_000_000), Some(DropReason::Stale));
    assert_eq!(reason_at(&mut verifier, &early, NOW_US), Some(DropReason::Stale));
    // A clock that was an hour ahead and is put right is followed.
    assert!(reason_at(&mut verifier, &early, NOW_US + 3_600_000_000).is_some());
    let fresh = stamp_with(&stamper, &packet, NOW_US + 7_000_000);
    assert_eq!(reason_at(&mut verifier, &fresh, NOW_US + 7_000_000), None);
}

#[test]
fn duplicates_across_cores_meet_in_one_filter() {
    let cores = 3;
    let packet =
        stamped(&[&credential(Family::V4, 1, Suite::HeaderAes)], &ip_packet(Family::V4, b"p"));
    let mut taken = 0;
    for core in 0..cores {
        let mut config = config(Family::V4, 1);
        (config.core, config.cores) = (core, cores);
        let mut verifier = verifier_of(config, 1);
        // Somebody on the way changes the outer source, so
        // that the system steers the copy elsewhere.
        for outer_source in [packet[15], 200] {
            let mut copy = packet.clone();
            copy[15] = outer_source;
            taken += u32::from(reason(&mut verifier, &copy).is_none());
        }
    }
    assert_eq!(taken, 1);
    assert!(steer(source(Family::V4), destination(Family::V4), cores) < cores);
}

#[test]
fn two_senders_of_one_principal_may_give_the_same_id() {
    let own = credential(Family::V4, 1, Suite::HeaderAes);
    let delegate = delegated(Family::V4, 1, Suite::HeaderAes, 1);
    let mut verifier = verifier(Family::V4, 1);
    let packet = |credential: &Credential, payload: &[u8]| {
        let stamper = Stamper::new(&[credential], Encapsulation::IP).unwrap();
        stamp_in(&stamper, &ip_packet(Family::V4, payload), &mut PacketIds::new(0, 0), NOW_US)
    };
    assert_eq!(reason(&mut verifier, &packet(&own, b"one")), None);
    assert_eq!(reason(&mut verifier, &packet(&delegate, b"one")), None);
    // The same sender, id and header, with another payload: the header
    // binding cannot tell, so it is a repetition.
    assert_eq!(reason(&mut verifier, &packet(&own, b"two")), Some(DropReason::Replay));
}

#[test]
fn a_full_filter_refuses_what_it_could_not_know_again() {
    let mut config = config(Family::V4, 1);
    config.packets_per_s = 1;
    let mut verifier = verifier_of(config, 1);
    let (stamper, mut ids) = (stamper(), PacketIds::new(0, 0));
    let packet = ip_packet(Family::V4, b"x");
    let sent: Vec<_> = (0..50).map(|_| stamp_in(&stamper, &packet, &mut ids, NOW_US)).collect();
    let verdicts: Vec<_> = sent.iter().map(|packet| reason(&mut verifier, packet)).collect();
    assert_eq!(verdicts.iter().filter(|verdict| verdict.is_none()).count(), 5);
    assert_eq!(verifier.drops().count(DropReason::ReplayFull), 45);
    for packet in &sent {
        assert!(reason(&mut verifier, packet).is_some());
    }
}

#[test]
fn a_verifier_that_starts_takes_nothing_that_could_have_been_taken_before() {
    let stamper = stamper();
    let packet = ip_packet(Family::V4, b"x");
    let mut before = verifier(Family::V4, 1);
    // As old and as early as can be when the first one ends, which is when the second one starts.
    let dated = [-2_999_000, -1_000_000, 0, 499_000, 500_000];
    let sent: Vec<Vec<u8>> = dated
        .iter()
        .map(|us| stamp_with(&stamper, &packet, NOW_US.saturating_add_signed(*us)))
        .collect();
    for packet in &sent {
        assert_eq!(reason(&mut before, packet), None);
    }
    let start = || {
        let mut config = config(Family::V4, 1);
        config.start_us = NOW_US + 1;
        verifier_of(config, 1)
    };
    let mut after = start();
    for passed_ms in (0..4_000).step_by(37) {
        let now_us = NOW_US + 1 + passed_ms * 1000;
        for packet in &sent {
            assert_eq!(reason_at(&mut after, packet, now_us), Some(DropReason::Stale));
        }
    }
    assert_eq!(after.accounts().total().packets, 0);
    // What is stamped later is taken from the first moment on that it may be,
    // and a clock that is put right stops nobody.
    for passed_us in [0, 500_000, 7_000_000] {
        let mut after = start();
        let fresh = stamp_with(&stamper, &packet, NOW_US + 500_001 + passed_us);
        assert_eq!(reason_at(&mut after, &fresh, NOW_US + 1 + passed_us), None);
    }
    let mut after = start();
    let put_right_us = NOW_US - 100_000_000;
    let fresh = stamp_with(&stamper, &packet, put_right_us);
    assert_eq!(reason_at(&mut after, &fresh, put_right_us), None);
}

#[test]
fn one_principal_that_fills_a_slice_dated_ahead_takes_nothing_from_another() {
    let mut config = config(Family::V4, 1);
    config.packets_per_s = 1_000_000;
    let mut verifier = verifier_of(config, 1);
    let of = |principal: u32| {
        let clock = WindowClock::default();
        let mut capability =
            capability(Family::V4, 1, Suite::HeaderAes, rhumb_capability::Scheme::CaveatChain);
        capability.principal = rhumb_capability::Principal(principal);
        let keys = EpochKeys::new(EPOCH, &master(1));
        let minted = keys.mint(capability, clock.not_after_s(capability.window)).unwrap();
        Stamper::new(&[&minted.into()], Encapsulation::IP).unwrap()
    };
    let (greedy, honest) = (of(1), of(2));
    let packet = ip_packet(Family::V4, b"x");
    // All of one slice, nearly half a second before it begins: as many as there are places for.
    let slice_us = (NOW_US + 450_000) >> 14 << 14;
    let mut send = |stamper: &Stamper, ids: &mut PacketIds, count: usize, now_us: u64| {
        let passes = |_: &usize| {
            let stamped = stamp_in(stamper, &packet, ids, slice_us);
            reason_at(&mut verifier, &stamped, now_us).is_none()
        };
        (0..count).filter(passes).count()
    };
    let taken = send(&greedy, &mut PacketIds::new(0, 1), 61_440, NOW_US);
    assert_eq!(taken, 20_480, "half of what there is");
    let passed = send(&honest, &mut PacketIds::new(0, 1), 1_000, slice_us);
    assert!(passed >= 998, "{passed} of 1,000");
}
