//! Network namespaces as hosts: two joined by a veth pair, as on one wire, or four in a [`Line`].
//! They have no name in the system and are gone with the process. Used by tests and by benches,
//! also of other crates, in turns from one thread or from several.

#![allow(clippy::unwrap_used, reason = "what sets a test up may panic as the test may")]
#![allow(dead_code, unused_imports, reason = "each user takes a part")]
#![allow(unsafe_code, reason = "unshare and setns have no safe form in the standard library")]

mod line;

pub(crate) use line::Line;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

/// A network namespace, as a host of its own would have it.
pub(crate) struct Host {
    namespace: File,
}

/// Two hosts. The near one has interface `near` with 10.9.0.1/24 and
/// 2001:db8:9::1/64, the far one `far` with .2 and ::2.
pub(crate) struct Wire {
    pub(crate) near: Host,
    pub(crate) far: Host,
}

impl Host {
    /// A new one, with loopback only; an error where the process may not make any.
    pub(crate) fn new() -> io::Result<Self> {
        let make = || {
            // SAFETY: no pointers are passed; only this thread moves, and it ends below.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net")
        };
        let namespace = thread::spawn(make).join().unwrap()?;
        let host = Self { namespace };
        let set_up = "ip link set lo up && echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad && \
                      echo '0 0' > /proc/sys/net/ipv4/ping_group_range";
        host.try_run(set_up).map_err(io::Error::other)?;
        Ok(host)
    }

    /// Does something as a process on this host would. Sockets made there stay there.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let work = || {
            // SAFETY: no pointers are passed; only this thread moves, and it ends with the work.
            let result = unsafe { libc::setns(self.namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "{}", io::Error::last_os_error());
            work()
        };
        thread::scope(|scope| scope.spawn(work).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs a shell command on it and returns what that printed.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> String {
        self.try_run(script).unwrap()
    }

    fn try_run(&self, script: &str) -> Result<String, String> {
        let output = self.enter(|| Command::new("sh").args(["-ec", script]).output());
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("{script}: {}", String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// Where other processes find it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd())
    }
}

impl Wire {
    /// A new one; `None`, and why, where the process may not make it.
    pub(crate) fn new() -> Option<Self> {
        let hosts = || Ok::<_, io::Error>((Host::new()?, Host::new()?));
        let (near, far) = hosts()
            .map_err(|error| println!("skipped: namespaces need root and ip ({error})"))
            .ok()?;
        let wire = Self { near, far };
        wire.lay();
        Some(wire)
    }

    /// Lays the wire, with fresh interfaces.
    pub(crate) fn lay(&self) {
        let far = self.far.path();
        self.near.run(&format!("ip link add near type veth peer name far netns {far}"));
        for (host, device, number) in [(&self.near, "near", 1), (&self.far, "far", 2)] {
            host.run(&format!(
                "ip address add 10.9.0.{number}/24 dev {device}; \
                 ip address add 2001:db8:9::{number}/64 dev {device} nodad; ip link set {device} up"
            ));
        }
    }
}
