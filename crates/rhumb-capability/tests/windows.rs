//! Key windows and epochs: which secret is taken when, to the
//! millisecond, and that nothing is lost when they change.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_capability::{
    Capability, DropReason, Epoch, EpochKeys, Family, Scheme, Suite, Window, WindowClock,
};

use crate::world::*;

const GRACE_MS: u64 = 4_000;
const SKEW_MS: u64 = 2_000;

fn clock(bits: u8) -> WindowClock {
    WindowClock::new(bits, GRACE_MS as u32, SKEW_MS as u32).unwrap()
}

/// What a waypoint says at `now_ms` of a fresh packet that was stamped under `window`.
fn verdict(clock: WindowClock, window: Window, now_ms: u64) -> Option<DropReason> {
    let mut config = config(Family::V4, 1);
    config.clock = clock;
    let capability = capability(Family::V4, 1, Suite::HeaderAes, Scheme::CaveatChain);
    let credential = mint(Capability { window, ..capability }, 1);
    let stamper =
        rhumb_capability::Stamper::new(&[&credential], rhumb_capability::Encapsulation::IP);
    let packet = stamp_with(&stamper.unwrap(), &ip_packet(Family::V4, b""), now_ms * 1000);
    reason_at(&mut verifier_of(config, 1), &packet, now_ms * 1000)
}

#[test]
fn windows_begin_and_end_to_the_millisecond() {
    for bits in 10..=12 {
        let clock = clock(bits);
        // The last of these is where the byte wraps.
        for number in [1_000_000, 1_000_001, 1_000_191] {
            let window = Window(number);
            let (start_ms, end_ms) = (clock.start_s(window) * 1000, clock.end_s(window) * 1000);
            for (now_ms, expected) in [
                (start_ms - SKEW_MS - 1, Some(DropReason::WindowEarly)),
                (start_ms - SKEW_MS, None),
                (start_ms - 1, None),
                (start_ms, None),
                (end_ms - 1, None),
                (end_ms, None),
                (end_ms + GRACE_MS - 1, None),
                (end_ms + GRACE_MS, Some(DropReason::WindowExpired)),
            ] {
                let verdict = verdict(clock, window, now_ms);
                assert_eq!(verdict, expected, "{bits} bits, {number}, {now_ms}");
            }
            assert!(clock.not_after_s(window) >= (end_ms + GRACE_MS) / 1000);
        }
    }
}

#[test]
fn the_byte_wraps_and_means_one_window_only() {
    let clock = clock(10);
    let window = Window(0x1_00FF);
    let next_start_ms = clock.end_s(window) * 1000;
    assert_eq!(verdict(clock, window, next_start_ms + 1), None);
    assert_eq!(verdict(clock, Window(0x1_0100), next_start_ms - 1), None);
    // The byte of a window long ago, with its secret, means
    // the present window: the binding does not fit.
    for rounds in [1, 2, 7] {
        let old = verdict(clock, Window(0x1_00FF - 256 * rounds), next_start_ms - 500_000);
        assert_eq!(old, Some(DropReason::Binding));
    }
    let now_us = (next_start_ms - 500_000) * 1000;
    let mut taken = (0..=255).filter_map(|byte| clock.select(byte, now_us).ok());
    assert_eq!((taken.next(), taken.next()), (Some(window), None));
}

#[test]
fn near_a_boundary_two_windows_are_taken_and_never_more() {
    let clock = clock(11);
    let start_us = clock.start_s(Window(830_000)) * 1_000_000;
    for (offset_ms, expected) in
        [(-2_001_i64, 1), (-2_000, 2), (-1, 2), (0, 2), (3_999, 2), (4_000, 1)]
    {
        let now_us = start_us.saturating_add_signed(offset_ms * 1000);
        let taken = (0..=255).filter(|byte| clock.select(*byte, now_us).is_ok()).count();
        assert_eq!(taken, expected, "{offset_ms} ms");
    }
}

#[test]
fn an_epoch_is_rolled_without_a_loss() {
    let mut verifier = verifier(Family::V4, 1);
    let stamper_of = |epoch: u8| {
        let capability = Capability {
            epoch: Epoch(epoch),
            ..capability(Family::V4, 1, Suite::HeaderAes, Scheme::CaveatChain)
        };
        let keys = EpochKeys::new(Epoch(epoch), &master(epoch));
        let credential = keys.mint(capability, u64::MAX).unwrap().into();
        rhumb_capability::Stamper::new(&[&credential], rhumb_capability::Encapsulation::IP).unwrap()
    };
    verifier.install_epoch(EpochKeys::new(Epoch(254), &master(254)));
    let mut ids = rhumb_capability::PacketIds::new(0, 0);
    let packet = ip_packet(Family::V4, b"under load");
    let epochs = [254_u8, 255, 0, 1];
    for pair in epochs.windows(2) {
        let (old, new) = (stamper_of(pair[0]), stamper_of(pair[1]));
        for step in 0..300 {
            if step == 100 {
                verifier.install_epoch(EpochKeys::new(Epoch(pair[1]), &master(pair[1])));
            }
            // Senders change some time later, one after the other.
            let stamper = if step < 150 || step < 250 && step % 2 == 0 { &old } else { &new };
            let packet = stamp_in(stamper, &packet, &mut ids, NOW_US);
            assert_eq!(reason(&mut verifier, &packet), None);
        }
    }
    assert_eq!(verifier.live_epochs().collect::<Vec<_>>(), [Epoch(0), Epoch(1)]);
    let late = stamp_in(&stamper_of(255), &packet, &mut ids, NOW_US);
    assert_eq!(reason(&mut verifier, &late), Some(DropReason::Epoch));
}

#[test]
fn a_number_of_an_epoch_used_again_with_another_key_opens_nothing_old() {
    let packet =
        stamped(&[&credential(Family::V4, 1, Suite::HeaderAes)], &ip_packet(Family::V4, b""));
    let mut verifier = verifier(Family::V4, 1);
    verifier.install_epoch(EpochKeys::new(EPOCH, &master(77)));
    assert_eq!(verifier.live_epochs().count(), 1);
    assert_eq!(reason(&mut verifier, &packet), Some(DropReason::Binding));
}
