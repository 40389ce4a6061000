//! How long the demo waits for anything: until its deadline, or until somebody stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::lifetime::Lifetime;

/// The demo's deadline and whether it was stopped.
pub(super) struct Patience {
    deadline: Instant,
    stopped: Arc<AtomicBool>,
}

impl Patience {
    /// Ends after `length`; from here on signals are caught,
    /// so that the demo cleans up before it ends.
    pub(super) fn begin(length: Duration, with_parent: bool) -> Outcome<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::operation)?;
        let mut lifetime = {
            let _entered = runtime.enter();
            Lifetime::begin(with_parent)?
        };
        let stop = Arc::clone(&stopped);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(lifetime.end());
                stop.store(true, Ordering::Release);
            })
            .map_err(Failure::operation)?;
        Ok(Self { deadline: Instant::now() + length, stopped })
    }

    /// An error once there is no more time, or the demo was stopped.
    pub(super) fn check(&self) -> Outcome {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Failure::operation_text("stopped"));
        }
        if Instant::now() >= self.deadline {
            return Err(Failure::operation_text(
                "the demo took too long; the machine may be busy, or the file too large",
            ));
        }
        Ok(())
    }

    /// Asks `holds` every few milliseconds until it does, for at most `length`. Whether it did.
    pub(super) fn until(
        &self,
        length: Duration,
        mut holds: impl FnMut() -> Outcome<bool>,
    ) -> Outcome<bool> {
        let end = Instant::now() + length;
        loop {
            self.check()?;
            if holds()? {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(ASK_EVERY);
        }
    }
}

/// Local questions cost less than a millisecond.
const ASK_EVERY: Duration = Duration::from_millis(20);
