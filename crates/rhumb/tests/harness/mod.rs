//! Runs the real binary in a folder of its own, with no configuration but what the test gives.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part of this; a test may panic.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A folder that is home and working directory of everything started in it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Ids of the processes that run in this place. Waits for a moment
    /// until there are none, and returns those left.
    pub(crate) fn processes_left(&self) -> Vec<u32> {
        let start = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || start.elapsed() > PATIENCE {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ids of the processes whose working directory is this place.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let here = self.folder().canonicalize().unwrap();
        let ids = std::fs::read_dir("/proc").unwrap().flatten();
        ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|id: &u32| {
                std::fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|folder| folder == here)
            })
            .collect()
    }

    /// The binary, to be run in this place.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_rhumb").as_ref(), arguments)
    }

    /// As [`Place::command`], of another binary.
    pub(crate) fn command_of<S: AsRef<OsStr>>(&self, binary: &Path, arguments: &[S]) -> Command {
        let mut command = Command::new(binary);
        command
            .args(arguments)
            .current_dir(self.folder())
            .env("HOME", self.folder())
            .env_remove("XDG_DATA_HOME")
            .env("XDG_RUNTIME_DIR", self.folder())
            .env_remove("RUST_LOG")
            .env_remove("RHUMB_PASSPHRASE")
            .stdin(Stdio::null());
        command
    }

    /// As [`Place::command`], in the network namespace of another process.
    pub(crate) fn command_in<S: AsRef<OsStr>>(&self, namespace: u32, arguments: &[S]) -> Command {
        let inside = self.command(arguments);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{namespace}/ns/net")).arg(inside.get_program());
        command.args(inside.get_args()).current_dir(self.folder()).stdin(Stdio::null());
        for (key, value) in inside.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        command
    }

    /// Starts a long-running command in the network namespace of another process.
    pub(crate) fn start_in(&self, namespace: u32, arguments: &[&str]) -> Running {
        let mut command = self.command_in(namespace, &["--json", "--with-parent"]);
        command.args(arguments);
        Running::spawn(command)
    }

    /// Runs to the end, which comes within [`RUN_PATIENCE`].
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let mut command = self.command(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let (sender, ended) = channel();
        let waiting = std::thread::spawn(move || {
            let output = child.wait_with_output().unwrap();
            // Nobody listens where it took too long.
            let _ = sender.send(());
            Run::of(output)
        });
        let in_time = ended.recv_timeout(RUN_PATIENCE).is_ok();
        if !in_time {
            send_signal(id, "KILL");
        }
        let run = waiting.join().unwrap();
        assert!(in_time, "{arguments:?} did not end: {}{}", run.output, run.errors);
        run
    }

    /// Makes a key file `ROLE.key` and returns its name.
    pub(crate) fn keygen(&self, role: &str, file: &str) -> String {
        let run = self.run(&["--json", "keygen", "--role", role, "--out", file]);
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()["name"].as_str().unwrap().to_owned()
    }

    /// Starts a long-running command; it ends with the returned value.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(arguments, |_| {})
    }

    /// As [`Place::start`], but it prints for people.
    pub(crate) fn start_for_people(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(&["--with-parent"]);
        command.args(arguments);
        Running::spawn(command)
    }

    /// As [`Place::start`], after `prepare` had a look at the command.
    pub(crate) fn start_with(
        &self,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Running {
        let mut command = self.command(&["--json", "--with-parent"]);
        command.args(arguments);
        prepare(&mut command);
        Running::spawn(command)
    }
}

/// `NAME@ADDR` of a ready line.
pub(crate) fn remote(ready: &Value) -> String {
    format!("{}@{}", ready["name"].as_str().unwrap(), ready["address"].as_str().unwrap())
}

/// What came of a run to the end.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            output: String::from_utf8(output.stdout).unwrap(),
            errors: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one object printed.
    pub(crate) fn object(&self) -> Value {
        serde_json::from_str(&self.output).unwrap_or_else(|_| panic!("no JSON: {}", self.output))
    }

    /// The setup failed, in one line that says `what`.
    #[track_caller]
    pub(crate) fn is_refused_with(&self, what: &[&str]) {
        assert_eq!(self.code, 2, "{}{}", self.output, self.errors);
        assert_eq!(self.errors.lines().count(), 1, "{}", self.errors);
        for what in what {
            assert!(self.errors.contains(what), "`{what}` is not in: {}", self.errors);
        }
    }
}

impl Run {
    /// An argument was refused, and the text says `what`.
    #[track_caller]
    pub(crate) fn refused_by_the_command_line(&self, what: &str) {
        assert_eq!(self.code, 2, "{}{}", self.output, self.errors);
        assert!(self.errors.contains(what), "`{what}` is not in: {}", self.errors);
    }
}

/// A long-running command. Ended by id when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Running {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = line_channel(child.stdout.take().unwrap());
        let errors = line_channel(child.stderr.take().unwrap());
        Self { child, lines, errors }
    }

    /// The next object it prints.
    #[track_caller]
    pub(crate) fn next_object(&mut self) -> Value {
        self.next_object_within(PATIENCE)
    }

    /// The next object it prints, which may take so long.
    #[track_caller]
    pub(crate) fn next_object_within(&mut self, patience: Duration) -> Value {
        match self.lines.recv_timeout(patience) {
            Ok(line) => serde_json::from_str(&line).unwrap(),
            Err(_) => panic!("printed nothing; errors: {}", self.errors_so_far()),
        }
    }

    /// The next object it prints, unless it ends before.
    pub(crate) fn next_object_or_end(&mut self) -> Option<Value> {
        let line = self.lines.recv_timeout(PATIENCE).ok()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next line it prints.
    #[track_caller]
    pub(crate) fn next_line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(_) => panic!("printed nothing; errors: {}", self.errors_so_far()),
        }
    }

    /// The lines that it has printed and that have not been taken yet.
    pub(crate) fn lines_so_far(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// What is on its standard error and has not been taken yet.
    pub(crate) fn errors_so_far(&self) -> String {
        self.errors.try_iter().map(|line| line + "\n").collect()
    }

    /// Kills it without a warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end as its parent's end would, and returns its
    /// exit code and the rest of its standard error.
    pub(crate) fn end(mut self) -> (i32, String) {
        drop(self.child.stdin.take());
        self.end_by_itself()
    }

    /// Waits for its end, and returns its exit code and the rest of its standard error.
    pub(crate) fn end_by_itself(mut self) -> (i32, String) {
        let code = self.wait();
        let mut errors = String::new();
        while let Ok(line) = self.errors.recv_timeout(PATIENCE) {
            errors += &line;
            errors.push('\n');
        }
        (code, errors)
    }

    /// Sends it a signal by name, and returns its exit code.
    pub(crate) fn signal(mut self, name: &str) -> i32 {
        self.nudge(name);
        self.wait()
    }

    /// Sends it a signal by name that it does not end by.
    pub(crate) fn nudge(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// Waits for a line with `text` on its standard error.
    #[track_caller]
    pub(crate) fn wait_for_error(&self, text: &str) -> String {
        loop {
            match self.errors.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("`{text}` is not among its errors"),
            }
        }
    }

    fn wait(&mut self) -> i32 {
        wait_for(&mut self.child)
    }
}

/// Sends a process a signal by name.
pub(crate) fn send_signal(process: u32, name: &str) {
    let id = process.to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

/// Waits for a process to end, and returns its exit code; kills one that does not end.
pub(crate) fn wait_for(child: &mut Child) -> i32 {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("did not end");
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line_channel(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// For a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(20);
/// Likewise, for whatever a command does.
const RUN_PATIENCE: Duration = Duration::from_secs(180);
