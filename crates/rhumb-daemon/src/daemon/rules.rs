//! Rules of access that are read again at SIGHUP, beside the
//! thread that moves datagrams: files may be slow.
//!
//! Invariant: rules that cannot be read change nothing, and are said.

use std::sync::mpsc::{Receiver, sync_channel};

use rhumb_io::Wake;
use rhumb_trust::Access;
use tokio::signal::unix::{SignalKind, signal};

use super::Terminal;
use crate::config::AccessSettings;
use crate::failure::{Failure, Outcome};
use crate::supervisor::{self, Reloading};

/// The thread that reads them.
#[derive(Debug)]
pub struct RulesFollower(Receiver<(Access, Reloading)>);

impl RulesFollower {
    /// Catches SIGHUP from now on, reads `rules` again for each, and wakes
    /// `wake`. When the terminal that this process was started from is gone,
    /// which is a SIGHUP too, the process is asked to end.
    pub fn start(rules: AccessSettings, wake: &Wake) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(Failure::operation)?;
        let mut hangup = {
            let _entered = runtime.enter();
            signal(SignalKind::hangup()).map_err(Failure::operation)?
        };
        let (sender, read) = sync_channel(1);
        let (terminal, wake) = (Terminal::now(), wake.clone());
        let follow = move || {
            while runtime.block_on(hangup.recv()).is_some() {
                if terminal.is_gone() {
                    return terminal.end();
                }
                let reloading = supervisor::reloading();
                match rules.again() {
                    Ok(access) => {
                        tracing::info!(
                            rules = access.rules.len(),
                            "read the rules of access again"
                        );
                        if sender.send((access, reloading)).is_err() {
                            return;
                        }
                        wake.wake();
                    }
                    Err(failure) => tracing::warn!(%failure, "going on with the rules from before"),
                }
            }
        };
        let thread = std::thread::Builder::new().name("rules".to_owned());
        thread.spawn(follow).map_err(Failure::operation)?;
        Ok(Self(read))
    }

    /// The rules as they were read last, if they were since the last time; in force when what is
    /// beside them is dropped.
    pub fn poll(&mut self) -> Option<(Access, Reloading)> {
        self.0.try_iter().last()
    }
}
