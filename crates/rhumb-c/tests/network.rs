//! A RIB and a router of the real binary, which end with the test.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Where everything of a test is.
pub(crate) struct Network {
    folder: TempDir,
    /// `NAME@ADDRESS` of the router.
    pub(crate) router: String,
    _processes: [Running; 2],
}

impl Network {
    /// Starts it.
    ///
    /// # Errors
    /// With the reason why it cannot be here.
    pub(crate) fn start() -> Result<Self, String> {
        let binary = built().join("rhumb");
        if !binary.is_file() {
            return Err("`rhumb` is not built; run: cargo build -p rhumb".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        let (rib, of_rib) = start(&binary, folder.path(), "rib", &["--store", "rib.redb"]);
        let (router, of_router) = start(&binary, folder.path(), "router", &["--rib", &of_rib]);
        Ok(Self { folder, router: of_router, _processes: [rib, router] })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Starts a daemon, with a new key: it, and where it is.
fn start(binary: &Path, folder: &Path, role: &str, options: &[&str]) -> (Running, String) {
    let command = || {
        let mut command = Command::new(binary);
        command.current_dir(folder).env("HOME", folder).env("XDG_RUNTIME_DIR", folder);
        command.env_remove("XDG_DATA_HOME").env_remove("RUST_LOG").env_remove("RHUMB_PASSPHRASE");
        command
    };
    let key = format!("{role}.key");
    let made = command().args(["keygen", "--role", role, "--out", &key]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut daemon = command();
    daemon.args(["--json", "--with-parent", role, "--listen", "127.0.0.1:0", "--key", &key]);
    let running = Running::spawn(daemon.args(options));
    let ready: Value = serde_json::from_str(&running.next_line()).unwrap();
    let remote =
        format!("{}@{}", ready["name"].as_str().unwrap(), ready["address"].as_str().unwrap());
    (running, remote)
}

/// A program that runs until it is dropped at the latest.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| told.send(line))
        });
        Self { child, lines }
    }

    #[track_caller]
    pub(crate) fn next_line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it prints a line in time")
    }

    /// Waits for its end: whether that was well, and what it printed until then.
    pub(crate) fn end(mut self) -> (bool, Vec<String>) {
        let mut said = Vec::new();
        // Its output ends with it.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            said.push(line);
        }
        match self.child.try_wait().unwrap() {
            Some(status) => (status.success(), said),
            None => {
                std::thread::sleep(Duration::from_millis(500));
                let status = self.child.try_wait().unwrap();
                (status.is_some_and(|status| status.success()), said)
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where cargo puts what it builds for tests: this program is in a folder of it.
pub(crate) fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// Valgrind on two busy cores takes its time.
const PATIENCE: Duration = Duration::from_secs(120);
