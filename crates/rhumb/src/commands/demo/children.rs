//! The demo's processes: started from this very program, read
//! line by line, and ended by id whatever happens.
//!
//! Each holds a pipe from us as standard input and ends when it closes (see
//! [`rhumb_daemon::lifetime`]), so that none outlives us even when we are killed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rhumb_daemon::failure::{Failure, Outcome};
use serde_json::Value;

use super::patience::Patience;

/// A running process of the demo. Ends with this value.
pub(super) struct Process {
    label: &'static str,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts `rhumb --json ARGUMENTS`. Its standard error is ours:
    /// progress bars, and its one line when it fails.
    pub(super) fn start(label: &'static str, arguments: &[&OsStr]) -> Outcome<Self> {
        Self::start_with(label, arguments, Stdio::inherit())
    }

    /// As [`Process::start`], for one that is expected to fail: what it says of that is not shown.
    pub(super) fn start_silent(label: &'static str, arguments: &[&OsStr]) -> Outcome<Self> {
        Self::start_with(label, arguments, Stdio::null())
    }

    fn start_with(label: &'static str, arguments: &[&OsStr], errors: Stdio) -> Outcome<Self> {
        let program = std::env::current_exe().map_err(Failure::operation)?;
        let mut command = Command::new(program);
        command
            .args(["--json", "--with-parent", "--config", EMPTY_CONFIG])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        let mut child = command.spawn().map_err(Failure::operation)?;
        let (sender, lines) = channel();
        let output = child.stdout.take().expect("invariant: standard output is piped above");
        let process = Self { label, child, lines };
        // The thread ends when the process does, because its pipe does.
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
            })
            .map_err(Failure::operation)?;
        Ok(process)
    }

    /// The next object that the process prints.
    pub(super) fn next_object(&mut self, patience: &Patience) -> Outcome<Value> {
        loop {
            patience.check()?;
            match self.lines.recv_timeout(LOOK_UP_EVERY) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|_| {
                        Failure::operation_text(format!("{} printed no JSON: {line}", self.label))
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::operation_text(format!("{} ended early", self.label)));
                }
            }
        }
    }

    /// Waits for the process to end by itself: whether it did what it was to do.
    pub(super) fn succeeds(&mut self, patience: &Patience) -> Outcome<bool> {
        loop {
            patience.check()?;
            if let Some(status) = self.child.try_wait().map_err(Failure::operation)? {
                return Ok(status.success());
            }
            std::thread::sleep(LOOK_UP_EVERY);
        }
    }

    /// Whether the process has ended by itself.
    pub(super) fn has_ended(&mut self) -> Outcome<bool> {
        Ok(self.child.try_wait().map_err(Failure::operation)?.is_some())
    }

    /// Ends the process at once, by its id.
    pub(super) fn die(&mut self) -> Outcome {
        self.child.kill().and_then(|()| self.child.wait()).map_err(Failure::operation)?;
        Ok(())
    }

    /// The next object, if one has been printed already.
    pub(super) fn printed(&mut self) -> Option<Value> {
        self.lines.try_recv().ok().and_then(|line| serde_json::from_str(&line).ok())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // By its id, which stays ours until it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Children are told everything by option: a file that happens to lie about must not change them.
const EMPTY_CONFIG: &str = "/dev/null";
/// How often a wait looks up for a signal or the deadline.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);
/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
