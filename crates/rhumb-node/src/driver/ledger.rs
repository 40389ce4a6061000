//! What the thread has learned of destinations, for the handles:
//! failures to report once, and the longest bodies.
//!
//! Datagrams are sent without waiting for their fate; as with a connected UDP socket, a failure is
//! told to whoever sends to the same name next.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use rhumb_wire::nack::Reason;
use rhumb_wire::payload::PayloadHeader;

use crate::core::{PathLimits, SendFailure};

/// What is known of destinations.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Whether there is anything to look up: mostly there is not, and sending takes no lock.
    written: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    failures: HashMap<Name, (SendFailure, Instant)>,
    limits: PathLimits,
}

impl Ledger {
    /// Notes that data to `to` could not be delivered.
    pub(crate) fn failed(&self, to: Name, failure: SendFailure, now: Instant) {
        if let SendFailure::Nacked(Reason::TooBig(len)) = failure {
            self.too_big(to, len, now);
        }
        let mut entries = self.entries();
        if entries.failures.len() >= MAX_FAILURES {
            entries.failures.retain(|_, (_, at)| now < *at + REPORT_WITHIN);
        }
        if entries.failures.len() < MAX_FAILURES {
            entries.failures.insert(to, (failure, now));
            self.written.store(true, Ordering::Release);
        }
    }

    /// Notes that data to `to` may have `max_data_len` bytes.
    pub(crate) fn too_big(&self, to: Name, max_data_len: u16, now: Instant) {
        if self.entries().limits.learn(to, max_data_len, now) {
            self.written.store(true, Ordering::Release);
        }
    }

    /// The failure to report about `to`: each is reported once, and only while it is news.
    pub(crate) fn take_failure(&self, to: Name, now: Instant) -> Option<SendFailure> {
        if !self.written.load(Ordering::Acquire) {
            return None;
        }
        let (failure, at) = self.entries().failures.remove(&to)?;
        (now < at + REPORT_WITHIN).then_some(failure)
    }

    /// The longest body to `to` that was learned of its path.
    pub(crate) fn max_body_len(&self, to: Name, now: Instant) -> Option<usize> {
        if !self.written.load(Ordering::Acquire) {
            return None;
        }
        let max_data_len = self.entries().limits.max_data_len(&to, now)?;
        Some(max_data_len.saturating_sub(PayloadHeader::LEN))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing that holds the lock can panic half-way through a change that matters.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Older failures are no news to whoever sends now.
const REPORT_WITHIN: Duration = Duration::from_secs(10);
/// About 50 KB when full; further failures are only counted.
const MAX_FAILURES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Name = Name([1; 32]);

    #[test]
    fn a_failure_is_told_once_and_only_while_it_is_news() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        assert_eq!(ledger.take_failure(TO, now), None);
        ledger.failed(TO, SendFailure::NotJoined, now);
        assert_eq!(ledger.take_failure(Name([2; 32]), now), None);
        assert_eq!(ledger.take_failure(TO, now), Some(SendFailure::NotJoined));
        assert_eq!(ledger.take_failure(TO, now), None);
        ledger.failed(TO, SendFailure::NotJoined, now);
        assert_eq!(ledger.take_failure(TO, now + REPORT_WITHIN), None);
    }

    #[test]
    fn a_nack_teaches_the_longest_body() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        assert_eq!(ledger.max_body_len(TO, now), None);
        ledger.failed(TO, SendFailure::Nacked(Reason::TooBig(1000)), now);
        assert_eq!(ledger.max_body_len(TO, now), Some(1000 - PayloadHeader::LEN));
    }

    #[test]
    fn failures_are_bounded() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        for n in 0..2 * MAX_FAILURES as u32 {
            let mut name = [0; 32];
            name[..4].copy_from_slice(&n.to_be_bytes());
            ledger.failed(Name(name), SendFailure::NotJoined, now);
        }
        assert_eq!(ledger.entries().failures.len(), MAX_FAILURES);
        ledger.failed(TO, SendFailure::NotJoined, now + REPORT_WITHIN);
        assert_eq!(ledger.entries().failures.len(), 1, "old ones made room");
    }
}
