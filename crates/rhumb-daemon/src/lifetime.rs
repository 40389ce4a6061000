//! When a long-running command ends: on SIGTERM, on SIGINT, or with the process that started it.
//!
//! The last is for children of a demo or a test: they hold the reading end of a pipe as standard
//! input, and when their parent is gone, however it went, the pipe closes. So nothing is left
//! running even after `kill -9`.

use std::io::Read;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::failure::{Failure, Outcome};
use crate::supervisor;

/// What a long-running command waits for besides its work.
#[derive(Debug)]
pub struct Lifetime {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<oneshot::Receiver<()>>,
}

impl Lifetime {
    /// Catches signals from now on; with `with_parent`, watches
    /// standard input too. To be called in a runtime.
    pub fn begin(with_parent: bool) -> Outcome<Self> {
        let caught = |kind| signal(kind).map_err(Failure::operation);
        Ok(Self {
            terminate: caught(SignalKind::terminate())?,
            interrupt: caught(SignalKind::interrupt())?,
            parent: if with_parent { Some(watch_standard_input()?) } else { None },
        })
    }

    /// Waits for the end, and tells the service manager of it; says why it came.
    pub async fn end(&mut self) -> &'static str {
        let parent = async {
            match &mut self.parent {
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        let cause = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = parent => "the parent process ended",
        };
        supervisor::stopping();
        cause
    }
}

fn watch_standard_input() -> Outcome<oneshot::Receiver<()>> {
    let (sender, closed) = oneshot::channel();
    std::thread::Builder::new()
        .name("parent".to_owned())
        .spawn(move || {
            let mut buffer = [0; 64];
            while matches!(std::io::stdin().lock().read(&mut buffer), Ok(read) if read > 0) {}
            // Nobody listens any more when the process is ending anyway.
            let _ = sender.send(());
        })
        .map_err(Failure::operation)?;
    Ok(closed)
}
