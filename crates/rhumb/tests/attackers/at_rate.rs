//! Something that is done at a rate, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Goes on until it is ended.
pub(crate) struct AtRate {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl AtRate {
    /// Begins to do it so many times a second, or as often as the machine
    /// has time for. It is told which time it is.
    pub(crate) fn start(per_s: u64, mut act: impl FnMut(u64) + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let (mut count, begun) = (0, Instant::now());
            while !is_over.load(Ordering::Relaxed) {
                let owed = begun.elapsed().as_micros() as u64 * per_s / 1_000_000;
                let most = per_s * TURN_MS * 5 / 1000 + 1;
                for _ in 0..owed.saturating_sub(count).min(most) {
                    act(count);
                    count += 1;
                }
                std::thread::sleep(Duration::from_millis(TURN_MS));
            }
            count as f64 / begun.elapsed().as_secs_f64()
        });
        Self { ends, thread }
    }

    /// How many times a second it was done.
    pub(crate) fn end(self) -> f64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

const TURN_MS: u64 = 1;
