//! Programs that some tests use, and the Debian packages that bring them.
//!
//! Invariant: nothing is installed that is already there, and without the rights
//! to install nothing fails: the tests that lack their tool skip themselves, and
//! the reason printed here says what to install.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Echo};

/// Program, package, what for.
const WANTED: [(&str, &str, &str); 38] = [
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
    ("chromedriver", "chromium-driver", "a browser that looks at the dashboard"),
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
    ("dpkg-shlibdeps", "dpkg-dev", "the Debian package"),
    ("strip", "binutils", "the Debian package"),
    ("systemd-analyze", "systemd", "services of the Debian package, and their sandbox"),
    ("tmux", "tmux", "a live view in terminals"),
    ("promtool", "prometheus", "metrics, alerts and a dashboard, as a Prometheus reads them"),
    ("skopeo", "skopeo", "the image for containers"),
    ("umoci", "umoci", "the image for containers"),
    ("runc", "runc", "the image for containers"),
    ("groff", "groff-base", "manual pages"),
    ("zsh", "zsh", "completion of commands"),
    ("fish", "fish", "completion of commands"),
    ("valgrind", "valgrind", "counting instructions, following secrets through ciphers"),
];

/// The compiler that Debian has beside rustup's, by which firefox and chromium are built: the one
/// that is recent in a stable release, with the standard library for other processors.
pub(crate) const COMPILER_OF_DEBIAN: &str = "/usr/bin/rustc";

/// A file, and the package that brings it.
const FOR_AARCH64: [(&str, &str); 3] = [
    ("/usr/bin/aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/include/stdio.h", "libc6-dev-arm64-cross"),
    ("/usr/bin/qemu-aarch64", "qemu-user"),
];

/// A compiler for it, where rustup brings none.
const COMPILER_FOR_AARCH64: [(&str, &str); 2] = [
    (COMPILER_OF_DEBIAN, "rustc-web"),
    ("/usr/lib/rustlib/aarch64-unknown-linux-gnu", "libstd-rust-web-dev:arm64"),
];

/// For programs that need no library of the system.
const FOR_MUSL: [(&str, &str); 1] = [(MUSL_COMPILER, "musl-tools")];
pub(crate) const MUSL_COMPILER: &str = "/usr/bin/musl-gcc";

/// For targets whose standard library is compiled from its sources.
const FOR_TARGETS: [(&str, &str); 2] =
    [(COMPILER_OF_DEBIAN, "rustc-web"), ("/usr/lib/rustlib/src/rust/library/std", "rust-web-src")];

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

/// Has rustup bring the standard library for these targets, where there is rustup and it may.
pub(crate) fn prepare_standard_libraries(targets: &[&str], may_install: bool) {
    let missing: Vec<&str> =
        targets.iter().copied().filter(|it| !has_standard_library("rustc", it)).collect();
    if missing.is_empty() || !may_install || !process::is_installed("rustup") {
        return;
    }
    println!("installing the standard library for {}, by rustup", missing.join(" "));
    if let Err(problem) = run("rustup", &[&["target", "add"], &missing[..]].concat()) {
        println!("{problem}");
    }
}

/// Whether a compiler can build programs for a target.
pub(crate) fn has_standard_library(compiler: impl AsRef<OsStr>, target: &str) -> bool {
    let mut ask = Command::new(compiler);
    ask.args(["--print", "target-libdir", "--target", target]);
    let Ok(finished) = process::run(&mut ask, ASK_DEADLINE, Echo::Kept) else { return false };
    let files = std::fs::read_dir(finished.output.trim());
    let mut names = files.into_iter().flatten().flatten().map(|it| it.file_name());
    finished.succeeded() && names.any(|it| it.to_string_lossy().starts_with("libstd-"))
}

/// Installs what is missing to build for aarch64 and to run that, where that is possible; with
/// a compiler for it unless rustup has brought one.
pub(crate) fn prepare_for_aarch64(needs_compiler: bool, may_install: bool) {
    let compiler = if needs_compiler { &COMPILER_FOR_AARCH64[..] } else { &[] };
    prepare_files(&[compiler, &FOR_AARCH64].concat(), "aarch64", may_install);
}

/// The same to check what is compiled for other systems.
pub(crate) fn prepare_for_targets(may_install: bool) {
    prepare_files(&FOR_TARGETS, "other systems", may_install);
}

/// The same to build programs with the C library musl in them.
pub(crate) fn prepare_for_musl(may_install: bool) {
    prepare_files(&FOR_MUSL, "programs that need no library", may_install);
}

fn prepare_files(wanted: &[(&str, &'static str)], purpose: &str, may_install: bool) {
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() || !may_install || !is_root() || !process::is_installed("apt-get") {
        return;
    }
    println!("installing {}, for {purpose}", missing.join(" "));
    let added = match missing.iter().any(|package| package.ends_with(":arm64")) {
        true => run("dpkg", &["--add-architecture", "arm64"]),
        false => Ok(()),
    };
    // By themselves, since not every release of Debian has them all.
    if let Err(problem) = added.and_then(|()| install(&missing)) {
        println!("{problem}");
    }
}

fn missing() -> Vec<(&'static str, &'static str, &'static str)> {
    WANTED.into_iter().filter(|(program, _, _)| !process::is_installed(program)).collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    run("apt-get", &["update", "-q"])?;
    // Nothing of what is there has to go for it. Who else installs something is waited for.
    let options = ["install", "-q", "-y", "--no-install-recommends", "--no-remove"];
    let options = [&options[..], &["-o", "DPkg::Lock::Timeout=100"]].concat();
    run("apt-get", &[&options[..], packages].concat())
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // A service that a package brings is not started, where that is asked before.
    command.env("RUNLEVEL", "1");
    let finished = process::run(&mut command, INSTALL_DEADLINE, Echo::Kept)?;
    if finished.succeeded() {
        return Ok(());
    }
    Err(format!("{program} {}: {}\n{}", arguments[0], finished.end, finished.tail(5)))
}

pub(crate) fn is_root() -> bool {
    let finished = process::run(Command::new("id").arg("-u"), Duration::from_secs(10), Echo::Kept);
    finished.is_ok_and(|finished| finished.output.trim() == "0")
}

const INSTALL_DEADLINE: Duration = Duration::from_secs(240);
const ASK_DEADLINE: Duration = Duration::from_secs(30);
