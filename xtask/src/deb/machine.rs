//! A machine of its own for the package: systemd as the first process of namespaces, over a copy
//! of this machine's files.
//!
//! Flow: 1. the holder, a shell in a mount and a cgroup namespace, makes a file system in memory
//! and a cgroup; 2. in it the boot script lays files over this machine's, makes what a container's
//! manager makes (`/proc`, `/sys`, `/dev`, `/run`, `/tmp`), leaves of this machine's services none
//! that has a say, and becomes systemd; 3. we wait until that has reached its target.
//!
//! Invariant: nothing is written but to memory, below the one cgroup, and to the namespaces: the
//! settings of this machine's kernel are only read there. All of it ends with the holder, which
//! ends when its standard input closes; and if the holder is killed, since each process is killed
//! when its parent ends, and those of a process namespace with the first of them.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::files::said;
use crate::process;

/// One that has booted.
pub(super) struct Machine {
    /// The shell that ends it, once its standard input closes.
    holder: Child,
    /// Its first process, as it is numbered here.
    first: String,
}

impl Machine {
    /// Boots one that has the package in [`PACKAGE`], and has not installed it.
    ///
    /// # Errors
    /// With the reason why there can be none here.
    pub(super) fn boot(package: &Path) -> Result<Self, String> {
        if !Path::new(SYSTEMD).exists() {
            return Err(format!("without {SYSTEMD}"));
        }
        if Path::new("/etc/rhumb").exists() {
            return Err("Rhumb is installed here, with settings that a copy would have".to_owned());
        }
        for program in ["unshare", "nsenter", "setpriv", "systemctl", "journalctl"] {
            if !process::is_installed(program) {
                return Err(format!("without `{program}`"));
            }
        }
        let mut hold = Command::new("unshare");
        hold.args(["--mount", "--cgroup", "sh", "-ec", HOLD, "sh", BOOT, SYSTEMD]).arg(package);
        hold.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let holder = hold.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut machine = Self { holder, first: String::new() };
        if let Some(out) = machine.holder.stdout.take() {
            // Of a script that fails there is no line.
            let _ = BufReader::new(out).read_line(&mut machine.first);
        }
        machine.first.truncate(machine.first.trim_end().len());
        match machine.first.is_empty() {
            true => Err(machine.complaint()),
            false => machine.reach_target().map(|()| machine),
        }
    }

    /// A command of root's there.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        // Root and folder are those of its first process.
        command.args(["--all", "--target", &self.first, "--", program]);
        command.env("HOME", "/root").env("DEBIAN_FRONTEND", "noninteractive");
        command.env_remove("XDG_DATA_HOME").env_remove("XDG_RUNTIME_DIR").env_remove("RUST_LOG");
        command
    }

    /// What a script of root's says there.
    pub(super) fn run(&self, script: &str) -> Result<String, String> {
        said(self.command("sh").args(["-ec", script]))
    }

    /// What `systemctl` says there.
    pub(super) fn systemctl(&self, words: &[&str]) -> Result<String, String> {
        said(self.command("systemctl").arg("--no-pager").args(words))
    }

    /// Asks until the answer is yes.
    pub(super) fn wait(
        &self,
        what: &str,
        mut is_so: impl FnMut() -> Result<bool, String>,
    ) -> Result<(), String> {
        let since = Instant::now();
        while !is_so()? {
            if since.elapsed() > PATIENCE {
                return Err(format!("{what}: not within {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn reach_target(&mut self) -> Result<(), String> {
        let since = Instant::now();
        // Before its socket is there nobody answers.
        while self.systemctl(&["is-active", "--quiet", TARGET]).is_err() {
            let has_ended = self.holder.try_wait().is_ok_and(|ended| ended.is_some());
            if has_ended || since.elapsed() > PATIENCE {
                return Err(format!("systemd does not reach {TARGET} in namespaces"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Why there is none, in the words of what failed.
    fn complaint(&mut self) -> String {
        drop(self.holder.stdin.take());
        let mut text = String::new();
        if let Some(mut errors) = self.holder.stderr.take() {
            // Words that cannot be read are missed by nobody.
            let _ = errors.read_to_string(&mut text);
        }
        match text.lines().next() {
            Some(line) => format!("no namespaces for a systemd: {line}"),
            None => "no namespaces for a systemd".to_owned(),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It ends by itself; what it cannot end the kernel does.
        let _ = self.holder.wait();
    }
}

/// Where the package is there.
pub(super) const PACKAGE: &str = "/run/rhumb.deb";
const SYSTEMD: &str = "/usr/lib/systemd/systemd";
/// What has been reached when journal, users and folders are there.
const TARGET: &str = "basic.target";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// For whatever happens there, in a debug build on two busy cores.
const PATIENCE: Duration = Duration::from_secs(60);

/// `/run` is the holder's own. Of the cgroups it sees those below its own, by a namespace also so
/// that options of the mount stay what this machine has them.
const HOLD: &str = r#"
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir /run/cgroup /run/over /run/work /run/root
    mount -t cgroup2 cgroup2 /run/cgroup
    group=/run/cgroup/rhumb-package-$$
    mkdir "$group"
    first=
    end() {
        trap - EXIT
        if [ -n "$first" ]; then
            kill -s KILL "$first" || :
            wait "$first" || :
        fi
        for attempt in $(seq 100); do
            # Processes that were killed are in there for a moment.
            find "$group" -depth -type d -exec rmdir {} + 2>/run/errors && break
            sleep 0.1
        done
    }
    trap end EXIT
    trap exit HUP INT TERM
    sh -ec 'echo $$ >"$0/cgroup.procs"
        exec setpriv --pdeathsig KILL unshare --mount --net --uts --ipc --cgroup --pid \
            --fork --kill-child=KILL sh -ec "$@"' "$group" "$1" sh "$2" "$3" &
    first=$!
    # Nothing of it holds what we are heard by.
    exec >/run/out 2>&1
    cat
"#;
const BOOT: &str = r#"
    # The old /proc still counts as outside.
    read -r self rest </proc/self/stat
    cd /run
    mount -t overlay -o lowerdir=/,upperdir=/run/over,workdir=/run/work overlay root
    cd root
    mount -t proc proc proc
    mount --bind proc/sys proc/sys
    mount -o remount,bind,ro proc/sys
    mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir dev/net dev/pts dev/shm
    for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 net/tun:10:200; do
        mknod -m 0666 "dev/${device%%:*}" c $(echo "${device#*:}" | tr : ' ')
    done
    ln -s /proc/self/fd dev/fd
    ln -s pts/ptmx dev/ptmx
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=1777 tmpfs tmp
    cp "$2" run/rhumb.deb
    # No service of this machine is one of that, and its policy of starting none is not either.
    rm -rf etc/systemd/system usr/lib/systemd/system-generators usr/lib/systemd/system/*.wants
    rm -rf var/lib/systemd var/log/journal usr/sbin/policy-rc.d
    wants=etc/systemd/system/sysinit.target.wants
    mkdir -p "$wants"
    # The kernel has one audit for all.
    ln -s /dev/null etc/systemd/system/systemd-journald-audit.socket
    for unit in systemd-journald systemd-sysusers systemd-tmpfiles-setup; do
        ln -s "/usr/lib/systemd/system/$unit.service" "$wants"
    done
    : >etc/fstab
    # With a number it is no first boot, at which all that is there would be enabled.
    tr -d - <proc/sys/kernel/random/uuid >etc/machine-id
    mkdir -p .outside
    pivot_root . .outside
    umount -l .outside
    rmdir .outside
    echo "$self"
    exec env -i container=rhumb PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        "$1" --system --unit=basic.target --log-target=journal --show-status=no >/dev/null 2>&1
"#;
