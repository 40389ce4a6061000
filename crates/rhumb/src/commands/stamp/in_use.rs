//! What the threads of a way share, the one that stamps and those that ask which lane works: the
//! lanes, which of them is in use, and what was done.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rhumb_io::Wake;
use rhumb_waypoint::stamping::Counts;

use super::lane::Lanes;

/// What a way's threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) lanes: Mutex<Arc<Lanes>>,
    /// Which lane is in use, by family.
    pub(super) current: [AtomicUsize; 2],
    pub(super) counts: Counts,
    pub(super) mtu: AtomicU32,
    pub(super) is_over: AtomicBool,
    pub(super) wake: Wake,
}

impl Shared {
    /// The lanes of both families.
    pub(super) fn lanes(&self) -> Arc<Lanes> {
        Arc::clone(&self.lanes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which lane of a family is in use.
    pub(super) fn current(&self, is_v6: bool) -> usize {
        self.current[usize::from(is_v6)].load(Ordering::Relaxed)
    }

    /// Has another one used from now on.
    pub(super) fn set_current(&self, is_v6: bool, lane: usize) {
        self.current[usize::from(is_v6)].store(lane, Ordering::Relaxed);
        self.wake.wake();
    }

    /// What was done.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }
}
