//! What the bench asks of the machine: CPU time, a core of its own, and what the figures depend on.

use serde_json::{Map, Value};

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
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let entries: [(&str, Value); 5] = [
        ("cpu", model.trim_start_matches([' ', '\t', ':']).into()),
        ("cores", cores().into()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().into()),
        ("cipher", "AES-256-GCM".into()),
        ("load_average_before", load_average().into()),
    ];
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Of the last minute: above 1 before the bench starts, others were at work.
pub(crate) fn load_average() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The middle of `values`; 0 when there are none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

pub(crate) use sys::thread_cpu;

#[allow(unsafe_code)]
mod sys {
    use std::time::Duration;

    /// The CPU time of this thread.
    pub(crate) fn thread_cpu() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writes for the whole call.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(result, 0, "every system we build for has this clock");
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

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
