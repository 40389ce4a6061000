//! Network namespaces for one test. Each is held by a process that waits for its standard input to
//! close, so they are gone with the test however it ends; nothing of them has a name in the system.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part of this; a test may panic.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

/// A network namespace, as a machine of its own would have it.
pub(crate) struct Namespace {
    holder: Child,
}

impl Namespace {
    /// A new one, with loopback only; `None`, and why, where the test may not make any.
    pub(crate) fn new() -> Option<Self> {
        let script = "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad && ip link set lo up && \
                      echo ready && exec cat";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let holder = command.spawn().ok().map(|holder| Self { holder });
        let ready = holder.and_then(|mut namespace| {
            let mut line = [0; 6];
            let output = namespace.holder.stdout.as_mut()?;
            std::io::Read::read_exact(output, &mut line).ok()?;
            Some(namespace)
        });
        if ready.is_none() {
            println!("skipped: network namespaces need root, unshare, nsenter and ip");
        }
        ready
    }

    /// The process to find it by.
    pub(crate) fn id(&self) -> u32 {
        self.holder.id()
    }

    /// A program inside.
    pub(crate) fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.id())).arg(program);
        command
    }

    /// Runs a shell command inside.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) {
        let output = self.enter("sh").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Lays a wire to another namespace: the devices have these names, and are up.
    #[track_caller]
    pub(crate) fn wire(&self, device: &str, other: &Self, other_device: &str) {
        let id = other.id();
        self.run(&format!("ip link add {device} type veth peer name {other_device} netns {id}"));
        self.run(&format!("ip link set {device} up"));
        other.run(&format!("ip link set {other_device} up"));
    }

    /// Makes this one a switch: whatever is wired to it is one Ethernet.
    #[track_caller]
    pub(crate) fn bridge(&self, hosts: &[&Self]) {
        self.run("ip link add bridge type bridge && ip link set bridge up");
        for (index, host) in hosts.iter().enumerate() {
            let port = format!("port{index}");
            self.wire(&port, host, "eth");
            self.run(&format!("ip link set {port} master bridge"));
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
