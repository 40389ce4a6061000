//! Signals, as news: a view that ends, however it is told to, leaves the terminal as it was.

use std::sync::mpsc::SyncSender;

use rhumb_daemon::failure::{Failure, Outcome};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::askers::News;

/// Catches signals from now on.
pub(super) fn follow(news: SyncSender<News>) -> Outcome {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::operation)?;
    let caught = {
        let _entered = runtime.enter();
        Caught::begin().map_err(Failure::operation)?
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || tell(&runtime, caught, &news)).map(drop).map_err(Failure::operation)
}

struct Caught {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    stop: Signal,
    resume: Signal,
}

impl Caught {
    fn begin() -> std::io::Result<Self> {
        let raw = |number: rustix::process::Signal| SignalKind::from_raw(number.as_raw());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            stop: signal(raw(rustix::process::Signal::TSTP))?,
            resume: signal(raw(rustix::process::Signal::CONT))?,
        })
    }

    async fn next(&mut self) -> News {
        tokio::select! {
            _ = self.terminate.recv() => News::End,
            _ = self.interrupt.recv() => News::End,
            _ = self.hangup.recv() => News::End,
            _ = self.stop.recv() => News::Suspend,
            _ = self.resume.recv() => News::Resumed,
        }
    }
}

fn tell(runtime: &Runtime, mut caught: Caught, news: &SyncSender<News>) {
    runtime.block_on(async {
        loop {
            if news.send(caught.next().await).is_err() {
                return;
            }
        }
    });
}
