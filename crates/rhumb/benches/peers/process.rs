//! A process that the bench starts: in a namespace, on a core, its output in a file, its CPU time
//! to be read; it ends with the bench, however that ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{self, Core};
use crate::namespace::Namespace;

/// Killed when dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
    output: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts `command`. What it prints goes to `NAME.out` and `NAME.log` in `folder`.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        (namespace, core): (&Namespace, Core),
        folder: &Path,
    ) -> Result<Self, String> {
        let describe = |error: std::io::Error| format!("{name}: {error}");
        let [output, log] = ["out", "log"].map(|end| folder.join(format!("{name}.{end}")));
        command.stdout(File::create(&output).map_err(describe)?);
        command.stderr(File::create(&log).map_err(describe)?);
        command.current_dir(folder).stdin(Stdio::piped());
        sys::end_with_this_thread(&mut command);
        // A process inherits the core of the thread that starts it.
        machine::pin(core);
        let child = namespace.run(|| command.spawn());
        machine::pin(Core::Load);
        Ok(Self { child: child?.map_err(describe)?, name: name.to_owned(), output, log })
    }

    /// CPU time of all its threads, and what the kernel did in them.
    pub(crate) fn cpu(&self) -> Duration {
        sys::cpu_of(self.child.id()).unwrap_or_default()
    }

    /// CPU seconds of it and of all that it has started and that still runs.
    #[allow(dead_code, reason = "for the bench of ends")]
    pub(crate) fn cpu_with_children(&self) -> f64 {
        let mut all = vec![self.child.id()];
        let stats: Vec<(u32, u32)> = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
                let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
                let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
                Some((id, parent))
            })
            .collect();
        let mut known = 0;
        while known < all.len() {
            let parent = all[known];
            all.extend(stats.iter().filter(|(_, by)| *by == parent).map(|(id, _)| *id));
            known += 1;
        }
        all.into_iter().filter_map(sys::cpu_of).map(|cpu| cpu.as_secs_f64()).sum()
    }

    /// Bytes of memory that it has.
    #[allow(dead_code, reason = "for the bench of ends")]
    pub(crate) fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// What it wrote to standard output so far.
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// The first whole line that it prints.
    pub(crate) fn first_line(&mut self) -> Result<String, String> {
        self.wait_for("print a line", |process| {
            let output = process.output();
            output.split_once('\n').map(|(line, _)| line.to_owned())
        })
    }

    /// Waits until `done` has something, as long as the process lives and [`PATIENCE`] allows.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(result) = done(self) {
                return Ok(result);
            }
            self.check()?;
            if Instant::now() > deadline {
                return Err(format!("{} does not {what}: {}", self.name, self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// # Errors
    /// When it has ended, with its last words.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(format!("{} ended with {status}: {}", self.name, self.last_words()))
            }
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// Its standard input.
    pub(crate) fn take_input(&mut self) -> Result<ChildStdin, String> {
        self.child.stdin.take().ok_or_else(|| format!("{}: no standard input", self.name))
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default() + &self.output();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `command` to its end in `namespace` and returns what it prints.
pub(crate) fn output_of(mut command: Command, namespace: &Namespace) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = namespace.run(|| command.stdin(Stdio::null()).output())?;
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// For a machine that is busy with everything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// System calls. Source: PR_SET_PDEATHSIG(2const), clock_getcpuclockid(3).
pub(crate) use sys::end_with_this_thread;

#[allow(unsafe_code)]
mod sys {
    use std::io;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    /// Has the process killed when the thread that starts it ends.
    pub(crate) fn end_with_this_thread(command: &mut Command) {
        let ask = || {
            // SAFETY: no memory is involved.
            let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: what runs between fork and exec makes one system call,
        // which is safe there, and allocates nothing.
        unsafe { command.pre_exec(ask) };
    }

    pub(super) fn cpu_of(process: u32) -> Option<Duration> {
        let mut clock: libc::clockid_t = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `clock` is valid for writes for the whole call.
        let found = unsafe { libc::clock_getcpuclockid(process.cast_signed(), &raw mut clock) };
        // SAFETY: `time` is valid for writes for the whole call.
        let read = found == 0 && unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
        read.then(|| Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32))
    }
}
