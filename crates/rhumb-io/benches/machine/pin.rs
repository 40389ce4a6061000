//! Keeping a thread on a core, so that two that are measured do not take turns on one, and before
//! all others there. Sources: sched_setaffinity(2), sched_setscheduler(2).

#![allow(unsafe_code)]
#![allow(dead_code, reason = "each bench takes a part")]

/// Cores of the machine, whichever of them this thread keeps to by now.
pub(crate) fn cores() -> usize {
    // SAFETY: no memory is involved.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Keeps this thread on the core of this number. Failure leaves it where it is: the figures get
/// noisier, not wrong.
pub(crate) fn pin_to(core: usize) {
    // SAFETY: a cpu_set_t is integers, for which zero is a value; a set holds 1024 cores, more
    // than we are told of; the set is valid for the whole call; thread 0 is the calling one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Has a thread, 0 for this one, run before all others that want its core, or as they do. Whether
/// we may: it takes a privilege.
pub(crate) fn go_first(thread: libc::pid_t, is_first: bool) -> bool {
    let (policy, sched_priority) =
        if is_first { (libc::SCHED_FIFO, 10) } else { (libc::SCHED_OTHER, 0) };
    let how = libc::sched_param { sched_priority };
    // SAFETY: the parameters are valid for the whole call.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const how) == 0 }
}
