//! What the bench asks of the machine: CPU time, a core of its own, and what the figures depend on.

#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod shared;
#[path = "../../../rhumb-io/benches/machine/thread_cpu.rs"]
mod thread_clock;

use serde_json::{Map, Value};
pub(crate) use shared::{load_average, median};
pub(crate) use thread_clock::now as thread_cpu;

/// Where a thread runs. Two cores: one for the load, one for what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Core {
    Load,
    Measured,
}

/// Keeps this thread on a core. With a single core, leaves it where it is.
pub(crate) fn pin(core: Core) {
    if cores() >= 2 {
        sys::pin(usize::from(core == Core::Measured));
    }
}

/// Keeps this thread on the core of this number.
pub(crate) fn pin_to(core: usize) {
    sys::pin(core);
}

/// Cores of the machine, whichever of them this thread keeps to by now.
pub(crate) fn cores() -> usize {
    sys::cores()
}

/// What the figures depend on, whatever is measured.
pub(crate) fn conditions() -> Map<String, Value> {
    let own: [(&str, Value); 2] = [("cores", cores().into()), ("cipher", "AES-256-GCM".into())];
    let machine = shared::conditions().map(|(name, value)| (name, value.into()));
    machine.into_iter().chain(own).map(|(name, value)| (name.to_owned(), value)).collect()
}

#[allow(unsafe_code)]
mod sys {
    pub(super) fn cores() -> usize {
        // SAFETY: no memory is involved.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
    }

    /// Failure leaves the thread where it is: the figures get noisier, not wrong.
    pub(super) fn pin(core: usize) {
        // SAFETY: a cpu_set_t is integers, for which zero is a value; a set holds 1024 cores, more
        // than we are told of; the set is valid for the whole call; thread 0 is the calling one.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}
