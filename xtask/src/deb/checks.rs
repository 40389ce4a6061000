//! What `cargo xtask test` tries of the Debian package, packed around the binary that the tests
//! have built, which saves the minutes of a release build.
//!
//! Flow: 1. pack; 2. what is in it, and whose; 3. install it below a folder, upgrade it, remove and
//! purge it, with dpkg and the package's own scripts; 4. before it is removed, its services as
//! systemd reads them and rates their sandbox; 5. all of it under a systemd (`trial`), or where
//! there can be none the services by their command lines (`smoke`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::inside::Inside;
use super::machine::Machine;
use super::{Packing, Stage, smoke, trial};
use crate::files::{files_below, make_folder, read, said, told};
use crate::packages::is_root;
use crate::process;
use crate::report::Outcome;

/// Makes the package and tries it: its services as truly as this machine lets them be tried.
pub(crate) fn step(root: &Path, target_directory: &Path) -> Outcome {
    try_package(root, target_directory, false)
}

/// The same, and services also by their command lines, as where no systemd can run.
pub(super) fn step_with_all(root: &Path, target_directory: &Path) -> Outcome {
    try_package(root, target_directory, true)
}

fn try_package(root: &Path, target_directory: &Path, with_all: bool) -> Outcome {
    for program in ["dpkg-deb", "dpkg-shlibdeps", "strip"] {
        if !process::is_installed(program) {
            return Outcome::skipped(format!("package: without `{program}`, of Debian"));
        }
    }
    let program = target_directory.join("debug/rhumb");
    let packed = Stage::new(root, target_directory, "debian/test")
        .and_then(|stage| Ok((stage.pack(&program, Packing::Fast)?, stage)));
    let (package, stage) = match packed {
        Ok(packed) => packed,
        Err(problem) => return Outcome::failed(format!("package: {problem}")),
    };
    let mut outcome = of("contents", contents(&package, &stage.files));
    if !is_root() {
        outcome.add(Outcome::skipped("package: installing it needs root"));
        return outcome;
    }
    // Services run as users of their own, who have to reach it.
    let host = match Host::new() {
        Ok(host) => host,
        Err(problem) => return Outcome::failed(format!("package: {problem}")),
    };
    outcome.add(of("installation", host.install(&package)));
    if outcome.failures.is_empty() {
        outcome.add(services(&host, &package, with_all));
        outcome.add(of("removal", host.remove(&package)));
    }
    outcome
}

/// What of the services can be tried here.
fn services(host: &Host, package: &Path, with_all: bool) -> Outcome {
    for program in ["unshare", "setpriv", "prlimit", "ip", "curl", "systemd-analyze"] {
        if !process::is_installed(program) {
            return Outcome::skipped(format!("package: services: without `{program}`"));
        }
    }
    let inside = match Inside::enter(&host.folder) {
        Ok(inside) => inside,
        Err(problem) => return Outcome::skipped(format!("package: services: {problem}")),
    };
    let mut outcome = of("units", units(&inside));
    let machine = Machine::boot(package);
    if with_all || machine.is_err() {
        outcome.add(of("services", smoke::run(&inside)));
    }
    outcome.add(match machine {
        Ok(machine) => trial::run(&machine),
        Err(reason) => Outcome::skipped(format!("package: services under a systemd: {reason}")),
    });
    outcome
}

/// Services are sound, and what they leave to whoever takes one over is little.
fn units(inside: &Inside) -> Result<(), String> {
    let mut verify = inside.command("systemd-analyze");
    // Services name pages of the manual, which have to be there.
    verify.arg(if process::is_installed("man") { "--man=yes" } else { "--man=no" });
    let complaints = said(verify.args(["verify", "--recursive-errors=no"]).args(UNITS))?;
    if !complaints.is_empty() {
        return Err(complaints);
    }
    for unit in UNITS {
        let mut rate = inside.command("systemd-analyze");
        said(rate.args(["security", "--offline=true", MOST_EXPOSED, unit]))?;
    }
    exceptions_count(inside)
}

/// What an operator lets a service do is no longer refused: its rating is worse then.
fn exceptions_count(inside: &Inside) -> Result<(), String> {
    let folder = format!("/etc/systemd/system/{}.d", UNITS[0]);
    let lines = "[Service]\nCapabilityBoundingSet=~\nPrivateUsers=no\nSystemCallFilter=\n";
    let mut except = inside.command("sh");
    let write = "mkdir -p \"$1\"; printf \"$2\" >\"$1/override.conf\"";
    said(except.args(["-ec", write, "sh", &folder, lines]))?;
    let mut rate = inside.command("systemd-analyze");
    let rated = said(rate.args(["security", "--offline=true", MOST_EXPOSED, UNITS[0]]));
    said(inside.command("rm").args(["-r", &folder]))?;
    match rated {
        Err(_) => Ok(()),
        Ok(_) => Err("what `systemctl edit` writes changes nothing".to_owned()),
    }
}

fn of(what: &str, result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::passed(1),
        Err(problem) => Outcome::failed(format!("package: {what}: {problem}")),
    }
}

/// All files are root's, nobody else writes them, and everything is there.
fn contents(package: &Path, files: &Path) -> Result<(), String> {
    let list = said(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    for line in list.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_root = fields.get(1) == Some(&"root/root");
        let expected = ["drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"];
        if !is_root || !expected.contains(&fields[0]) {
            return Err(format!("whose, and with what rights: {line}"));
        }
        if fields[0] == "-rwxr-xr-x" && !line.ends_with("./usr/bin/rhumb") {
            return Err(format!("no program: {line}"));
        }
    }
    for file in EXPECTED {
        if !list.lines().any(|line| line.ends_with(&format!(" ./{file}"))) {
            return Err(format!("{file} is not in it"));
        }
    }
    let settings = said(Command::new("dpkg-deb").args(["--info"]).arg(package).arg("conffiles"))?;
    let expected = files_below(&files.join("etc"))?;
    if expected.is_empty() || settings.lines().count() != expected.len() {
        return Err(format!("not all of /etc are settings that stay: {settings}"));
    }
    Ok(())
}

/// A folder in which packages are installed as on a host of their own.
struct Host {
    folder: PathBuf,
}

impl Host {
    /// One with no more than what dpkg needs, and the users that every host has.
    fn new() -> Result<Self, String> {
        let unique = format!("rhumb-package-{}", std::process::id());
        let host = Self { folder: std::env::temp_dir().join(unique) };
        // A folder that somebody else has made is none of ours.
        fs::create_dir(&host.folder).map_err(|error| told(&host.folder, &error))?;
        for folder in ["etc", "run", "var/lib/dpkg/info", "var/lib/dpkg/updates"] {
            make_folder(&host.folder.join(folder))?;
        }
        host.write("var/lib/dpkg/status", "")?;
        host.write("etc/passwd", USERS)?;
        host.write("etc/group", GROUPS)?;
        Ok(host)
    }

    /// Installs it, and again with a setting that was changed, which stays.
    fn install(&self, package: &Path) -> Result<(), String> {
        self.dpkg(&["--install"], package.as_os_str())?;
        let users = self.read("etc/passwd")?;
        for user in USERS_MADE {
            let line = users.lines().find(|line| line.starts_with(&format!("{user}:")));
            if !line.is_some_and(|line| line.ends_with("nologin")) {
                return Err(format!("no user {user} who logs in nowhere: {users}"));
            }
        }
        let home = self.folder.join("var/lib/rhumb");
        let facts = fs::metadata(&home).map_err(|error| told(&home, &error))?;
        if facts.mode() & 0o777 != 0o700 || facts.uid() == 0 {
            return Err(format!("{}: {:o} of {}", home.display(), facts.mode(), facts.uid()));
        }
        let changed = self.read(SETTING)? + "# changed here\n";
        self.write(SETTING, &changed)?;
        self.dpkg(&["--force-confold", "--install"], package.as_os_str())?;
        match self.read(SETTING)? == changed {
            true => Ok(()),
            false => Err(format!("an upgrade replaced {SETTING}, which was changed")),
        }
    }

    /// Removes and purges it: keys stay.
    fn remove(&self, package: &Path) -> Result<(), String> {
        self.write("etc/rhumb/rib.key", "a key\n")?;
        self.dpkg(&["--remove"], "rhumb".as_ref())?;
        if self.folder.join("usr/bin/rhumb").exists() || !self.folder.join(SETTING).exists() {
            return Err("removed: the program is there, or settings are not".to_owned());
        }
        self.dpkg(&["--install"], package.as_os_str())?;
        self.dpkg(&["--purge"], "rhumb".as_ref())?;
        if self.folder.join(SETTING).exists() || self.read("etc/rhumb/rib.key").is_err() {
            return Err("purged: settings are there, or keys are not".to_owned());
        }
        Ok(())
    }

    fn dpkg(&self, arguments: &[&str], of: &std::ffi::OsStr) -> Result<(), String> {
        let mut dpkg = Command::new("dpkg");
        // The scripts run here, and are told where the folder is.
        dpkg.arg(format!("--root={}", self.folder.display()));
        dpkg.args(["--force-script-chrootless", "--force-depends"]).args(arguments).arg(of);
        said(dpkg.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
    }

    fn read(&self, path: &str) -> Result<String, String> {
        read(&self.folder.join(path))
    }

    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let file = self.folder.join(path);
        fs::write(&file, text).map_err(|error| told(&file, &error))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // What is left of it is no reason to fail.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Those whom programs of every host ask for.
const USERS: &str = "root:x:0:0::/root:/bin/sh\nman:x:6:12::/var/cache/man:/usr/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nman:x:12:\n";
const SETTING: &str = "etc/rhumb/rib.toml";
const USERS_MADE: [&str; 9] = [
    "rhumb-rib",
    "rhumb-router",
    "rhumb-waypoint",
    "rhumb-keyserver",
    "rhumb-exchange",
    "rhumb-member",
    "rhumb-stamp",
    "rhumb-dashboard",
    "rhumb",
];
const UNITS: [&str; 13] = [
    "rhumb-rib.service",
    "rhumb-router.service",
    "rhumb-router-xdp.service",
    "rhumb-up.service",
    "rhumb-vpn.service",
    "rhumb-network@home.service",
    "rhumb-waypoint.service",
    "rhumb-keyserver.service",
    "rhumb-exchange@one.service",
    "rhumb-exchange@two.service",
    "rhumb-member.service",
    "rhumb-stamp.service",
    "rhumb-dashboard.service",
];
/// In tenths: "OK" begins at 2.0 and below.
const MOST_EXPOSED: &str = "--threshold=20";
const EXPECTED: [&str; 15] = [
    "etc/default/rhumb-dashboard",
    "etc/rhumb/router.toml",
    "etc/rhumb/exchange-two.toml",
    "usr/bin/rhumb",
    "usr/lib/systemd/system/rhumb-network@.service",
    "usr/lib/systemd/system/rhumb-router.service",
    "usr/lib/systemd/system/rhumb-vpn.service.d/20-rights.conf",
    "usr/lib/sysusers.d/rhumb.conf",
    "usr/share/bash-completion/completions/rhumb",
    "usr/share/doc/rhumb/copyright",
    "usr/share/doc/rhumb/docs/operators.md",
    "usr/share/fish/vendor_completions.d/rhumb.fish",
    "usr/share/man/man1/rhumb.1.gz",
    "usr/share/man/man1/rhumb-network-create.1.gz",
    "usr/share/zsh/vendor-completions/_rhumb",
];
