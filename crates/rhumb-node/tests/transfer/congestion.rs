//! The congestion window finds what a bottleneck carries,
//! with queues deep and shallow, and gives it back.

use std::time::{Duration, Instant};

use super::one_end::{Said, accept, said, sender_of};
use super::pair::{MS, Pair, Path, file};

/// Megabytes per second, and how many times over the file was sent.
fn run(len: usize, path: Path) -> (f64, f64) {
    let content = file(len, path.seed);
    let report = Pair::in_memory(&content, path).run_and_compare(&content);
    let rate = len as f64 / 1e6 / report.told_after.as_secs_f64();
    (rate, report.sent as f64 / len as f64)
}

#[test]
fn a_long_line_with_a_deep_queue() {
    let path = Path { bottleneck: Some((12_500_000, 500_000)), ..Path::new(MS * 20) };
    let (rate, cost) = run(20_000_000, path);
    assert!(rate > 12.5 * 0.8, "{rate} MB/s of 12.5");
    assert!(cost < 1.08, "{cost}");
}

#[test]
fn a_long_line_with_a_shallow_queue() {
    let path = Path { bottleneck: Some((12_500_000, 60_000)), ..Path::new(MS * 20) };
    let (rate, cost) = run(20_000_000, path);
    assert!(rate > 12.5 * 0.6, "{rate} MB/s of 12.5");
    assert!(cost < 1.08, "{cost}");
}

#[test]
fn a_short_fast_line_with_the_queue_of_a_socket() {
    let path = Path { bottleneck: Some((500_000_000, 200_000)), ..Path::new(MS / 20) };
    let (rate, cost) = run(50_000_000, path);
    assert!(rate > 500.0 * 0.8, "{rate} MB/s of 500");
    assert!(cost < 1.10, "{cost}");
}

#[test]
fn a_thin_line() {
    let path = Path { bottleneck: Some((20_000, 10_000)), ..Path::new(MS * 50) };
    let (rate, cost) = run(200_000, path);
    assert!(rate > 0.02 * 0.8, "{rate} MB/s of 0.02");
    assert!(cost < 1.2, "{cost}");
}

#[test]
fn losses_without_a_queue_leave_most_of_the_line() {
    let path = Path { loss: 10, bottleneck: Some((2_500_000, 100_000)), ..Path::new(MS * 20) };
    let (rate, cost) = run(5_000_000, path);
    // Reno, and CUBIC at this length, would get 12 chunks per round trip: 0.34 MB/s.
    assert!(rate > 1.0, "{rate} MB/s of 2.5");
    assert!(cost < 1.08, "{cost}");
}

#[test]
fn the_window_of_the_receiver_is_kept() {
    let content = file(3_000_000, 1);
    let mut pair = Pair::in_memory(&content, Path::new(MS * 50));
    pair.receiver_config.window = 100_000;
    let report = pair.run_and_compare(&content);
    assert!(report.sent < 3_100_000, "nothing is sent beyond it: {report:?}");
    let rounds = Duration::from_millis(30 * 100);
    assert!(report.told_after > rounds && report.told_after < rounds * 5 / 4, "{report:?}");
}

#[test]
fn a_window_that_is_closed_is_asked_about() {
    let start = Instant::now();
    let mut sender = sender_of(&file(100_000, 1), start);
    assert_eq!(said(|out| sender.poll_transmit(start, out)), [Said::Offer]);
    sender.handle_message(&accept(0), start);
    assert_eq!(said(|out| sender.poll_transmit(start, out)), []);
    let now = sender.poll_timeout().unwrap();
    assert!(now < start + MS * 1000);
    assert_eq!(said(|out| sender.poll_transmit(now, out)), [Said::Offer]);
    sender.handle_message(&accept(100), now);
    assert_eq!(said(|out| sender.poll_transmit(now, out)), [Said::Chunk(0)]);
}
