//! Runs programs with a deadline. Invariant: when [`run`] returns, the program and all it started
//! have ended or were killed, and its output up to then is kept.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

/// Where a program's output goes besides being kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Standard output is shown and kept; standard error is shown.
    Shown,
    /// Both are kept, mixed, and not shown.
    Kept,
    /// Standard output is kept; standard error is shown.
    ErrorsShown,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) output: String,
    pub(crate) end: End,
    /// Time of processors that it and those whom it started and awaited took, where the system
    /// tells; without the last [`POLL_INTERVAL`].
    pub(crate) cpu: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    /// Exit code, or -1 when a signal ended it.
    Failure(i32),
    TimedOut,
}

impl Finished {
    pub(crate) fn succeeded(&self) -> bool {
        self.end == End::Success
    }

    /// The last `count` lines of what it printed.
    pub(crate) fn tail(&self, count: usize) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Success => write!(out, "ended well"),
            Self::Failure(code) => write!(out, "ended with code {code}"),
            Self::TimedOut => write!(out, "did not end in time and was killed"),
        }
    }
}

/// Runs `command` to its end or to the deadline. Standard input is empty.
///
/// # Errors
/// When the program cannot be started.
pub(crate) fn run(
    command: &mut Command,
    deadline: Duration,
    echo: Echo,
) -> Result<Finished, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(if echo == Echo::Kept { Stdio::piped() } else { Stdio::inherit() });
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;

    let (sender, chunks) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || forward(stdout, echo == Echo::Shown, &sender));
    }
    if let Some(stderr) = child.stderr.take() {
        let sender = sender.clone();
        std::thread::spawn(move || forward(stderr, false, &sender));
    }
    drop(sender);

    let (end, cpu) = wait(&mut child, Instant::now() + deadline)?;
    // A grandchild that outlives the child may hold the pipe
    // open for ever: its output is not waited for.
    let mut bytes = Vec::new();
    let patience = Instant::now() + OUTPUT_PATIENCE;
    while let Ok(chunk) = chunks.recv_timeout(patience.saturating_duration_since(Instant::now())) {
        bytes.extend_from_slice(&chunk);
    }
    Ok(Finished { output: String::from_utf8_lossy(&bytes).into_owned(), end, cpu })
}

/// Whether a program of this name is found in `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Administration tools are often left out of an ordinary user's PATH.
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).any(|folder| folder.join(program).is_file())
}

fn forward(mut from: impl Read, show: bool, to: &Sender<Vec<u8>>) {
    let mut buffer = [0; 8192];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if show {
            let mut stdout = std::io::stdout().lock();
            // Losing our own terminal is no reason to fail the program that we watch.
            let _ = stdout.write_all(&buffer[..len]).and_then(|()| stdout.flush());
        }
        if to.send(buffer[..len].to_vec()).is_err() {
            return;
        }
    }
}

fn wait(child: &mut Child, deadline: Instant) -> Result<(End, Duration), String> {
    let mut cpu = Duration::ZERO;
    loop {
        cpu = cpu_of(child.id()).unwrap_or(cpu);
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok((End::Success, cpu)),
            Some(status) => return Ok((End::Failure(status.code().unwrap_or(-1)), cpu)),
            None if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            None => break,
        }
    }
    kill_with_descendants(child.id());
    child.wait().map_err(|error| error.to_string())?;
    Ok((End::TimedOut, cpu))
}

/// Kills by id: the process and whatever descends from it, as `/proc` tells.
fn kill_with_descendants(root: u32) {
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(children_of(parent));
        next += 1;
    }
    let ids = family.iter().map(u32::to_string);
    // Some may have ended by themselves meanwhile; `kill`
    // then complains and there is nothing to do.
    let _ = Command::new("kill").arg("-KILL").args(ids).stderr(Stdio::null()).status();
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

fn parent_of(id: u32) -> Option<u32> {
    field_of(&stat_of(id)?, 4)?.try_into().ok()
}

/// Time of processors that this process and those whom it started and awaited took until now.
pub(crate) fn own_cpu() -> Duration {
    cpu_of(std::process::id()).unwrap_or_default()
}

/// Its own time, and that of those whom it has awaited.
fn cpu_of(id: u32) -> Option<Duration> {
    let stat = stat_of(id)?;
    let ticks: Option<u64> = (14..=17).map(|number| field_of(&stat, number)).sum();
    Some(Duration::from_millis(ticks? * TICK_MS))
}

fn stat_of(id: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{id}/stat")).ok()
}

/// The field of this number in `/proc/PID/stat`, counted from 1 as in proc(5); not of the first
/// three.
fn field_of(stat: &str, number: usize) -> Option<u64> {
    // The second field is the program's name in brackets,
    // which may itself hold spaces and brackets.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// What `/proc` counts in, for programs on any Linux (proc(5), `sysconf(_SC_CLK_TCK)`).
const TICK_MS: u64 = 10;
/// How long output may still come after the program has ended.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Finished {
        run(Command::new("sh").args(["-c", script]), deadline, Echo::Kept).unwrap()
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let finished = shell("echo out; echo err >&2; exit 3", Duration::from_secs(20));
        assert_eq!(finished.end, End::Failure(3));
        assert!(finished.output.contains("out") && finished.output.contains("err"));
        assert!(shell("true", Duration::from_secs(20)).succeeded());
    }

    #[test]
    fn time_of_processors_is_that_of_a_program_and_of_what_it_started() {
        if !std::path::Path::new("/proc/self/stat").exists() {
            return;
        }
        // Some tenths of a second, and then time for somebody to look.
        let counts = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let own = shell(&format!("{counts}; sleep 0.1"), Duration::from_secs(60));
        let started =
            shell(&format!("(exec sh -c '{counts}'); sleep 0.1"), Duration::from_secs(60));
        for cpu in [own.cpu, started.cpu] {
            assert!(cpu >= Duration::from_millis(TICK_MS), "{cpu:?}");
        }
    }

    #[test]
    fn what_runs_too_long_is_killed_with_its_children() {
        // The grandchild would otherwise hold the pipe for a minute and print its own id first.
        let start = Instant::now();
        let finished = shell("(sh -c 'echo $$; exec sleep 60') & wait", Duration::from_millis(500));
        assert_eq!(finished.end, End::TimedOut);
        assert!(start.elapsed() < Duration::from_secs(30));
        let grandchild: u32 = finished.output.trim().parse().unwrap();
        // Killed, and either reaped or waiting for it; on a
        // busy machine that takes the kernel a moment.
        let stat =
            || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        let gone = || stat().is_empty() || stat().contains(") Z ");
        while !gone() && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(gone(), "{}", stat());
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let problem =
            run(&mut Command::new("no-such-program-at-all"), Duration::from_secs(1), Echo::Kept);
        assert!(problem.unwrap_err().contains("no-such-program-at-all"));
        assert!(!is_installed("no-such-program-at-all"));
        assert!(is_installed("sh"));
    }
}
