//! What a process has used so far, as the kernel tells it.

use std::fs;

/// Of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// Seconds of processors, also of a process in whose place it came.
    pub(crate) cpu_s: f64,
    pub(crate) resident_mb: f64,
    /// The most that it ever had resident.
    pub(crate) most_resident_mb: f64,
}

impl Usage {
    /// Of a process; nothing for one that is gone.
    pub(crate) fn of(id: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let megabytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let kilobytes =
                line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
            kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
        };
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // Behind the name in brackets: state, and ten numbers before those of user and system time.
        let ticks = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Self {
            cpu_s: ticks / TICKS_A_SECOND,
            resident_mb: megabytes("VmRSS:"),
            most_resident_mb: megabytes("VmHWM:"),
        }
    }
}

/// `USER_HZ`, which is 100 on all architectures that matter.
const TICKS_A_SECOND: f64 = 100.0;
