//! The parts of a network that run at this host, as processes of their own: one that dies is
//! started again, and takes no other one along.
//!
//! Each holds a pipe from us as standard input and ends when it closes (see
//! [`crate::lifetime`]), so that none outlives us even when we are killed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use rhumb_collector::Endpoint;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::cli::CipherChoice;
use crate::failure::{Failure, Outcome};
use crate::supervisor;

/// What is said of this process that parts go by, too.
#[derive(Debug, Clone, Copy)]
pub struct Passed<'a> {
    /// The configuration file, which is for this host's node alone.
    pub config: Option<&'a Path>,
    /// The filter of log lines.
    pub log: Option<&'a str>,
    /// Whose AES-GCM seals.
    pub cipher: Option<CipherChoice>,
    /// The collector of what is counted.
    pub otlp: Option<&'a Endpoint>,
    /// Seconds that the civil clock is ahead.
    pub clock_offset_s: i64,
}

impl Passed<'_> {
    /// What all go by, as options.
    fn shared(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        if let Some(log) = self.log {
            options.extend(["--log".into(), log.into()]);
        }
        if let Some(value) = self.cipher.and_then(|it| it.to_possible_value()) {
            options.extend(["--cipher".into(), value.get_name().into()]);
        }
        if let Some(collector) = self.otlp {
            options.extend(["--otlp".into(), collector.to_string().into()]);
        }
        if self.clock_offset_s != 0 {
            options.push(format!("--clock-offset-s={}", self.clock_offset_s).into());
        }
        options
    }

    /// Goes on as `rhumb ARGUMENTS`, in the place of this process: one that has done something else
    /// has threads, and privileges are given up by a process of one.
    pub fn go_on_as(&self, arguments: Vec<OsString>) -> Failure {
        let program = match std::env::current_exe() {
            Ok(program) => program,
            Err(error) => return Failure::operation(error),
        };
        let mut command = std::process::Command::new(program);
        if let Some(config) = self.config {
            command.arg("--config").arg(config);
        }
        Failure::operation(command.args(self.shared()).args(arguments).exec())
    }
}

/// One part, and how it is started.
pub(super) struct Part {
    pub(super) label: &'static str,
    arguments: Vec<OsString>,
}

impl Part {
    /// `rhumb ARGUMENTS`. Its standard error is ours.
    pub(super) fn new(
        label: &'static str,
        passed: &Passed<'_>,
        config: Option<&Path>,
        arguments: Vec<OsString>,
    ) -> Self {
        let mut all: Vec<OsString> = ["--json", "--with-parent"].map(OsString::from).into();
        if let Some(config) = config {
            all.extend(["--config".into(), config.into()]);
        }
        all.extend(passed.shared());
        all.extend(arguments);
        Self { label, arguments: all }
    }

    /// Keeps it running until `stop` says so. `ready` is told when it is the first time that it can
    /// be used; if it ends before that, so does this.
    pub(super) async fn keep(
        self,
        mut stop: watch::Receiver<bool>,
        ready: oneshot::Sender<()>,
    ) -> Outcome {
        let mut ready = Some(ready);
        let mut pause = LEAST_PAUSE;
        loop {
            let mut child = self.start()?;
            let lived = tokio::select! {
                lived = self.watch(&mut child, &mut ready) => lived,
                () = told(&mut stop) => {
                    end(child).await;
                    return Ok(());
                }
            };
            if ready.is_some() {
                return Err(Failure::setup_text(format!(
                    "the {} of the network does not start; the line before says why",
                    self.label
                )));
            }
            pause = if lived { LEAST_PAUSE } else { (pause * 2).min(MOST_PAUSE) };
            tracing::error!(part = self.label, ?pause, "a part has ended; it is started again");
            tokio::select! {
                () = sleep(pause) => {}
                () = told(&mut stop) => return Ok(()),
            }
        }
    }

    fn start(&self) -> Outcome<Child> {
        let program = std::env::current_exe().map_err(Failure::operation)?;
        let mut command = Command::new(program);
        // It is this process that the service manager has started.
        supervisor::not_for(&mut command);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.kill_on_drop(true).spawn().map_err(Failure::operation)
    }

    /// Until it has ended: whether it could be used meanwhile.
    async fn watch(&self, child: &mut Child, ready: &mut Option<oneshot::Sender<()>>) -> bool {
        let mut lived = false;
        if let Some(output) = child.stdout.take() {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if is_ready(&line) {
                    lived = true;
                    // Nobody waits if everything is to end.
                    let _ = ready.take().map(|ready| ready.send(()));
                }
            }
        }
        let _ = child.wait().await;
        lived
    }
}

fn is_ready(line: &str) -> bool {
    let told: Result<Value, _> = serde_json::from_str(line);
    // A node says so of each of its parts, and of itself last.
    told.is_ok_and(|told| {
        told["ready"] == true
            && ["router", "rib", "keeper", "node"].iter().any(|role| told["role"] == *role)
    })
}

/// Waits until all is to end.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|is_over| *is_over).await;
}

/// Asks a process to end, and has it end.
async fn end(mut child: Child) {
    drop(child.stdin.take());
    if timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.start_kill();
        let _ = child.wait().await;
    }
}

/// A part that dies once is missed for no longer than this.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// One that cannot start is no load, and its reason does not fill the log.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// How long a part may take to say goodbye.
const GRACE: Duration = Duration::from_secs(3);
