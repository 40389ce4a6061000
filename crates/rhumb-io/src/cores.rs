//! Which processor core a thread runs on.

use std::io;

/// Keeps the calling thread on one core, counted from 0.
///
/// # Errors
/// When there is no such core, or this process may not use it, or the system knows no such thing.
#[cfg(target_os = "linux")]
pub fn pin_thread(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a cpu_set_t is integers, for which zero is a value; `core` is below the set's size;
    // the set is valid for the whole call; thread 0 is the calling one.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the calling thread on one core: this system knows no such thing.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn pin_thread(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
