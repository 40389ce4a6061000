//! A packet is taken once: within a batch, late, around the change of the filter's parts, and when clocks are set.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod world;

use rhumb_capability::{
    Carriage, Credential, DropReason, Encapsulation, Family, Packet, PacketIds, Stamper, Suite,
    Verdict, steer,
};
use world::*;

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
        // Somebody on the way changes the outer source, so that the system steers the copy elsewhere.
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
    // The same sender, id and header, with another payload: the header binding cannot tell, so it is a repetition.
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
    assert_eq!(verdicts.iter().filter(|verdict| verdict.is_none()).count(), 15);
    assert_eq!(verifier.drops().count(DropReason::ReplayFull), 35);
    for packet in &sent {
        assert!(reason(&mut verifier, packet).is_some());
    }
}
