//! Waiting for descriptors, and the event descriptor behind
//! [`Wake`](crate::Wake): thin safe wrappers over the system.
//!
//! Invariant: nothing here keeps a pointer or a borrowed descriptor
//! beyond the call. Source: ppoll(2), eventfd(2); on Windows WSAPoll.

use std::io;
#[cfg(not(windows))]
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::fd::BorrowedFd;

/// A descriptor and what to wait for on it.
#[derive(Debug)]
pub enum Interest<'a> {
    /// Until there is something to read, or an error.
    Readable(BorrowedFd<'a>),
    /// Until there is room to write, or an error.
    Writable(BorrowedFd<'a>),
    /// Never ready.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "only AF_XDP has a changing number of descriptors")
    )]
    Nothing,
}

/// Waits until one of the descriptors is ready or the time is over (`None`: for ever), and says
/// which are ready. Returns early, with none ready, when a signal arrives.
///
/// # Errors
/// When the system refuses to wait.
#[cfg(not(windows))]
pub fn poll<const N: usize>(
    interests: &[Interest<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut entries = interests.each_ref().map(|interest| match interest {
        Interest::Readable(fd) => {
            libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
        }
        Interest::Writable(fd) => {
            libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 }
        }
        // A negative descriptor is skipped.
        Interest::Nothing => libc::pollfd { fd: -1, events: 0, revents: 0 },
    });
    if let Err(error) = poll_entries(&mut entries, timeout)
        && error.kind() != io::ErrorKind::Interrupted
    {
        return Err(error);
    }
    Ok(entries.map(|entry| entry.revents != 0))
}

/// As elsewhere, of sockets.
///
/// # Errors
/// When the system refuses to wait.
#[cfg(windows)]
pub fn poll<const N: usize>(
    interests: &[Interest<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    // There is none that is never ready, so it is left out.
    let waited = interests.iter().enumerate().filter_map(|(at, interest)| match interest {
        Interest::Readable(fd) => Some((at, PollFd::from_borrowed_fd(*fd, PollFlags::IN))),
        Interest::Writable(fd) => Some((at, PollFd::from_borrowed_fd(*fd, PollFlags::OUT))),
        Interest::Nothing => None,
    });
    let (places, mut entries): (Vec<usize>, Vec<PollFd<'_>>) = waited.unzip();
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        // Of another width than elsewhere; a thousand million fits.
        tv_nsec: timeout.subsec_nanos() as _,
    });
    rustix::event::poll(&mut entries, timeout.as_ref())?;
    let mut ready = [false; N];
    for (at, entry) in places.into_iter().zip(&entries) {
        ready[at] = !entry.revents().is_empty();
    }
    Ok(ready)
}

/// Has waits of this thread end when their time is over, not up to 50 us
/// later, as the system does by itself to save wakes.
/// Source: PR_SET_TIMERSLACK(2const).
#[cfg(target_os = "linux")]
pub(crate) fn keep_time() {
    // SAFETY: no memory is involved. A refusal makes waits longer, not wrong.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
}

/// Short against any wait that is meant to be short.
#[cfg(target_os = "linux")]
const TIMER_SLACK_NS: libc::c_ulong = 1000;

#[cfg(target_os = "linux")]
fn poll_entries(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|timeout| libc::timespec {
        // Seconds are of another width with every C library.
        tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY:
    // - `entries` is valid for reads and writes of the length passed, for the whole call.
    // - `timeout` is null or points to a timespec on this stack frame with nanoseconds below 10^9.
    // - a null signal mask is allowed and leaves the mask alone.
    let result =
        unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as _, timeout, std::ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(not(any(target_os = "linux", windows)))]
fn poll_entries(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    // Rounded up, so that a wait below a millisecond does not spin.
    let timeout_ms = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: `entries` is valid for reads and writes of the length passed, for the whole call.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as _, timeout_ms) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A new event descriptor: non-blocking, closed on exec, reading 0.
#[cfg(target_os = "linux")]
pub(crate) fn event_descriptor() -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `fd` is open, and nothing else owns it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}
