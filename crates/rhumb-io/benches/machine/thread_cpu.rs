//! The CPU time of this thread. Source: clock_gettime(2). Shared by benches, also of other crates.

use std::time::Duration;

#[expect(unsafe_code, reason = "the standard library has no clock of a thread's CPU time")]
pub(crate) fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes for the whole call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every system we build for has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
