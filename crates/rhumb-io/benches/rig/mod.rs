//! Where forwarders of IP packets are measured: source - forwarder - sink, over two veth pairs
//! between namespaces, with what the forwarder's kernel does for arrivals in a thread of its own,
//! whose CPU time can be read. Shared by benches, also of other crates.

#![allow(dead_code, reason = "each user takes a part")]

#[path = "../machine/thread_cpu.rs"]
pub(crate) mod thread_cpu;
#[path = "../../tests/wire/mod.rs"]
pub(crate) mod wire;

use wire::{Host, Line};

/// Three hosts of a line, and the thread in which the forwarder's kernel handles what arrives.
pub(crate) struct Rig {
    /// `a` is the source, `r1` the forwarder, `r2` the sink.
    pub(crate) line: Line,
    /// Number of the thread that handles arrival.
    pub(crate) arrival: u32,
}

impl Rig {
    /// A rig that handles arrivals at the forwarder on one core, those at the sink on another, both
    /// by number; `None`, and why, where the process may not make it.
    pub(crate) fn new(arrival_core: usize, sink_core: usize) -> Option<Self> {
        let line = Line::new()?;
        // The source knows the way to what is behind a TUN device, too: its default route.
        // Arrival goes by NAPI when its end puts packets together, from ends
        // that do not leave TCP segments to the device.
        let set = |host: &Host, device: &str, command, on| {
            host.enter(|| sys::set_feature(device, command, on)).expect("veth has this feature");
        };
        set(&line.a, "right", sys::TCP_SEGMENTATION, false);
        set(&line.r1, "left", sys::GENERIC_RECEIVE_OFFLOAD, true);
        let before = sys::threads_called("napi/left-");
        line.r1.run(&in_sys("echo 1 > /sys/class/net/left/threaded"));
        let new = |thread: &u32| !before.contains(thread);
        let arrival = sys::threads_called("napi/left-").into_iter().find(new);
        let arrival = arrival.expect("the kernel runs NAPI in a thread");
        sys::settle(arrival, arrival_core);
        let rig = Self { line, arrival };
        rig.handle_sinks_arrivals_on(sink_core);
        Some(rig)
    }

    /// Has arrivals at the sink, and at the source what comes back, handled on a core: on another
    /// one than that which sends to the sink, or they are handled in its time. A machine without
    /// that core leaves them where they are.
    pub(crate) fn handle_sinks_arrivals_on(&self, core: usize) {
        let cores = 1_u32 << core;
        for (host, device) in [(&self.line.r2, "left"), (&self.line.a, "right")] {
            let file = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
            host.run(&in_sys(&format!("echo {cores:x} > {file} || true")));
        }
    }
}

/// A script that sees devices of its network namespace in `/sys`.
fn in_sys(script: &str) -> String {
    format!("unshare --mount sh -ec 'mount -t sysfs none /sys; {script}'")
}

/// System calls, and what the kernel tells of its threads. Source: sched(7), proc(5), Linux
/// `include/uapi/linux/ethtool.h`, `Documentation/scheduler/sched-stats.rst`.
#[allow(unsafe_code)]
pub(crate) mod sys {
    use std::io;
    use std::mem::{size_of, zeroed};
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    /// The CPU time of another thread.
    pub(crate) fn cpu_of(thread: u32) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
        let nanos = text.split(' ').next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanos.expect("the kernel tells a thread's CPU time"))
    }

    /// Threads of the kernel whose names begin so.
    pub(crate) fn threads_called(prefix: &str) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").expect("every Linux has /proc");
        let numbers = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        let is_called = |thread: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{thread}/comm"));
            name.is_ok_and(|name| name.starts_with(prefix))
        };
        numbers.filter(is_called).collect()
    }

    /// Keeps another thread on `core`, without the right to interrupt others there: packets come to
    /// it by the batch, as they do to a forwarder at its limit, and not one by one.
    pub(crate) fn settle(thread: u32, core: usize) {
        let thread = thread.cast_signed();
        // SAFETY: a set of cores is integers, for which zero is a value, and so
        // is a sched_param; the calls read them only.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set);
            let parameters: libc::sched_param = zeroed();
            libc::sched_setscheduler(thread, libc::SCHED_BATCH, &raw const parameters);
        }
    }

    /// Has this thread, and those that it starts, not interrupt others when it wakes: whoever works
    /// goes on until nothing is left to do.
    pub(crate) fn wake_politely() {
        // SAFETY: a sched_param is integers, for which zero is a value; the call reads it only;
        // thread 0 is the calling one.
        unsafe {
            let parameters: libc::sched_param = zeroed();
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters);
        }
    }

    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }

    /// Commands that set one feature of a device.
    pub(crate) const TCP_SEGMENTATION: u32 = 0x1F;
    pub(crate) const GENERIC_RECEIVE_OFFLOAD: u32 = 0x2C;

    /// Turns a feature of a device of this thread's namespace on or off.
    pub(crate) fn set_feature(device: &str, command: u32, on: bool) -> io::Result<()> {
        // Any socket will do to ask by.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        let mut value = Value { command, data: u32::from(on) };
        // SAFETY: an ifreq is integers, and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names a device, ends with a zero, and points to a value of the form
        // that this command takes; both are valid for the whole call.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
