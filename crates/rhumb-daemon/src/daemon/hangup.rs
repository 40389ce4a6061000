//! SIGHUP: a daemon is asked to read its keys or rules again; or the terminal
//! that it was started from is gone, and it ends.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_io::Wake;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, Outcome};
use crate::supervisor::{self, Reloading};

/// Whether somebody asked.
#[derive(Debug)]
pub struct Hangup(Arc<AtomicBool>);

impl Hangup {
    /// Catches the signal from now on, and wakes `wake` for it.
    pub fn catch(wake: Wake) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(Failure::operation)?;
        let mut caught = {
            let _entered = runtime.enter();
            signal(SignalKind::hangup()).map_err(Failure::operation)?
        };
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        let wait = move || {
            runtime.block_on(async {
                while caught.recv().await.is_some() {
                    flag.store(true, Ordering::Release);
                    wake.wake();
                }
            });
        };
        std::thread::Builder::new()
            .name("hangup".to_owned())
            .spawn(wait)
            .map_err(Failure::operation)?;
        Ok(Self(asked))
    }

    /// Whether somebody asked since the last time: then settings count as being read again until
    /// what is returned is dropped.
    pub fn take(&self) -> Option<Reloading> {
        self.0.swap(false, Ordering::AcqRel).then(supervisor::reloading)
    }
}

/// The terminal that this process was started from, if it was.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    had: bool,
}

impl Terminal {
    /// Notes whether standard error is a terminal now.
    pub fn now() -> Self {
        Self { had: std::io::stderr().is_terminal() }
    }

    /// Whether it is not there any more: then nobody can stop this process
    /// there, and nobody asked to read anything again.
    pub fn is_gone(self) -> bool {
        self.had && !std::io::stderr().is_terminal()
    }

    /// Asks this process to end as by SIGTERM.
    pub(crate) fn end(self) {
        #[cfg(target_os = "linux")]
        let ended =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
        #[cfg(not(target_os = "linux"))]
        let ended: Result<(), &str> = Err("not known how");
        if let Err(error) = ended {
            tracing::warn!(%error, "the terminal is gone, and this process goes on");
        }
    }
}
