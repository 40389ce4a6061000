//! Programs that some tests use, and the Debian packages that bring them.
//!
//! Invariant: nothing is installed that is already there, and without the rights
//! to install nothing fails: the tests that lack their tool skip themselves, and
//! the reason printed here says what to install.

use std::process::Command;
use std::time::Duration;

use crate::process::{self, Echo};

/// Program, package, what for.
const WANTED: [(&str, &str, &str); 26] = [
    ("c++", "g++", "fuzzing: libFuzzer is C++"),
    ("openssl", "openssl", "a foreign DTLS peer"),
    ("ip", "iproute2", "network namespaces"),
    ("ethtool", "ethtool", "what network devices do themselves"),
    ("tcpdump", "tcpdump", "captured traffic"),
    ("nft", "nftables", "loss and NAT between namespaces"),
    ("nsupdate", "bind9-dnsutils", "asking and updating the key server by dig and nsupdate"),
    ("unbound", "unbound", "a resolver between principals and the key server"),
    ("iperf3", "iperf3", "unmodified programs through waypoints"),
    ("curl", "curl", "unmodified programs through waypoints"),
    ("chromium", "chromium", "a browser that opens names through a proxy"),
    ("ping", "iputils-ping", "unmodified programs between names"),
    ("redis-server", "redis-server", "unmodified programs between names"),
    ("wireguard-go", "wireguard-go", "a tunnel within a tunnel"),
    ("wg", "wireguard-tools", "a tunnel within a tunnel"),
    ("sshd", "openssh-server", "unmodified programs through waypoints"),
    ("bird", "bird2", "BGP speakers: members of an exchange, and a plain route server"),
    ("gobgp", "gobgpd", "BGP speakers: members of an exchange"),
    ("vtysh", "frr", "BGP speakers: members of an exchange"),
    ("bgpctl", "openbgpd", "BGP speakers: members of an exchange"),
    ("exabgp", "exabgp", "BGP speakers: members of an exchange"),
    ("stayrtr", "stayrtr", "a cache of the RPKI"),
    ("java", "default-jre-headless", "a CQL cluster under a RIB's store"),
    ("javac", "default-jdk-headless", "clocks of that cluster that a test sets"),
    ("mvn", "maven", "a CQL cluster under a RIB's store"),
    ("valgrind", "valgrind", "counting instructions, following secrets through ciphers"),
];

/// Installs what is missing where that is possible, and says what is still missing.
pub(crate) fn prepare(may_install: bool) {
    let mut missing = missing();
    if !missing.is_empty() && may_install && is_root() && process::is_installed("apt-get") {
        let packages: Vec<&str> = missing.iter().map(|(_, package, _)| *package).collect();
        println!("installing {} (--no-install prevents it)", packages.join(" "));
        if let Err(problem) = install(&packages) {
            println!("{problem}");
        }
        missing = self::missing();
    }
    for (program, package, purpose) in missing {
        println!("without `{program}` (Debian package {package}): {purpose}: skipped");
    }
}

fn missing() -> Vec<(&'static str, &'static str, &'static str)> {
    WANTED.into_iter().filter(|(program, _, _)| !process::is_installed(program)).collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    apt_get(&["update", "-q"])?;
    apt_get(&[&["install", "-q", "-y", "--no-install-recommends"], packages].concat())
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let finished = process::run(&mut command, INSTALL_DEADLINE, Echo::Kept)?;
    if finished.succeeded() {
        return Ok(());
    }
    Err(format!("apt-get {}: {}\n{}", arguments[0], finished.end, finished.tail(5)))
}

fn is_root() -> bool {
    let finished = process::run(Command::new("id").arg("-u"), Duration::from_secs(10), Echo::Kept);
    finished.is_ok_and(|finished| finished.output.trim() == "0")
}

const INSTALL_DEADLINE: Duration = Duration::from_secs(240);
