//! The exchange's LAN: hosts, each a network namespace, on one bridge;
//! and what runs on them. A bench uses it, too.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each user takes a part; what sets a test up may panic"
)]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::wire::Host;

/// One Ethernet.
pub(crate) struct Lan {
    fabric: Host,
    ports: usize,
}

/// A host on it.
pub(crate) struct Station {
    pub(crate) host: Host,
    pub(crate) v4: String,
    pub(crate) v6: String,
}

impl Lan {
    /// # Errors
    ///
    /// Why there can be none.
    pub(crate) fn new() -> Result<Self, String> {
        let fabric =
            Host::new().map_err(|error| format!("namespaces need root and ip ({error})"))?;
        fabric.run("ip link add name bridge type bridge; ip link set bridge up");
        Ok(Self { fabric, ports: 0 })
    }

    /// A host with addresses 10.90.0.`number`, 2001:db8:90::`number` and fe80::`number`.
    pub(crate) fn station(&mut self, number: usize) -> Station {
        let host = Host::new().unwrap();
        let (port, path) = (self.ports, host.path());
        self.ports += 1;
        self.fabric.run(&format!(
            "ip link add port{port} type veth peer name eth netns {path}; \
             ip link set port{port} master bridge up"
        ));
        let (v4, v6) = (format!("10.90.0.{number}"), format!("2001:db8:90::{number}"));
        // OpenBGPD takes the first IPv6 address of the host for next hop where the
        // session is over IPv4, and would take ::1.
        host.run(&format!(
            "ip address del ::1/128 dev lo; ip address add {v6}/128 dev lo; \
             ip link set eth addrgenmode none; ip address add {v4}/24 dev eth; \
             ip address add {v6}/64 dev eth nodad; ip address add fe80::{number}/64 dev eth nodad; ip link set eth up"
        ));
        Station { host, v4, v6 }
    }
}

/// A process on a host, killed with the value.
pub(crate) struct Process(Child);

impl Process {
    /// Starts `script`, with what it prints in a file.
    pub(crate) fn start(host: &Host, script: &str, log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new("sh");
        command.args(["-ec", &format!("exec {script}")]).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        // In a group of its own, so that what it has started ends with it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Self(host.enter(|| command.spawn().unwrap()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).output();
        let _ = self.0.wait();
    }
}
