//! What streams have done, in plain numbers: the daemon names and exports them as metrics.
//!
//! How to read them: frames sent divided by records sent is how well records are shared, on which
//! the cost of a frame depends more than on anything else.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals since the start, but for the first two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamCounters {
    /// Streams that carry frames now.
    pub open: u64,
    /// Handshakes that others began and that are not over.
    pub half_open: u64,
    /// Streams that others dialled and that have carried frames.
    pub accepted: u64,
    /// Streams of ours that have.
    pub dialled: u64,
    /// Dials that came to nothing.
    pub dials_failed: u64,
    /// Handshakes of others that came to nothing.
    pub handshakes_failed: u64,
    /// Connections that were closed at once: too many, or too fast.
    pub refused: u64,
    /// Streams that ended otherwise than by a close of ours.
    pub lost: u64,
    /// Of these, because of what came on them.
    pub malformed: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Bytes of TLS received.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Bytes of TLS that the system has taken.
    pub sent_bytes: u64,
    /// System calls made to receive.
    pub receive_calls: u64,
    /// System calls made to send.
    pub send_calls: u64,
    /// Frames dropped because the peer takes no more for now.
    pub dropped_busy: u64,
    /// Frames dropped because their stream was gone.
    pub dropped_gone: u64,
}

/// Those that the greeter counts, on its own thread.
#[derive(Debug, Default)]
pub(crate) struct GreeterCounters {
    pub(crate) half_open: AtomicU64,
    pub(crate) dials_failed: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl GreeterCounters {
    pub(crate) fn add_to(&self, counters: &mut StreamCounters) {
        counters.half_open = self.half_open.load(Ordering::Relaxed);
        counters.dials_failed = self.dials_failed.load(Ordering::Relaxed);
        counters.handshakes_failed = self.handshakes_failed.load(Ordering::Relaxed);
        counters.refused = self.refused.load(Ordering::Relaxed);
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
