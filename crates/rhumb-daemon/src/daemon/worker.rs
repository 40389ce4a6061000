//! A thread beside the one that moves datagrams, for work that takes its time.
//!
//! Invariant: the queue is bounded, and whoever hands work out
//! never waits: what finds no room stays with it.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rhumb_io::Wake;

use crate::failure::{Failure, Outcome};

/// Does work of one kind, in the order in which it was handed out.
pub struct Worker<T, R> {
    tasks: SyncSender<T>,
    results: Receiver<R>,
    /// A task for which there was no room.
    waiting: Option<T>,
}

impl<T: Send + 'static, R: Send + 'static> Worker<T, R> {
    /// Starts the thread. `wake` is called for each result.
    pub fn start(
        name: &str,
        wake: Wake,
        work: impl FnMut(T) -> R + Send + 'static,
    ) -> Outcome<Self> {
        Self::start_after(name, wake, || (), work)
    }

    /// As [`start`](Self::start), for public-key work, which strangers can ask for: where cores
    /// are short, the threads that move datagrams go first.
    pub fn start_behind(
        name: &str,
        wake: Wake,
        work: impl FnMut(T) -> R + Send + 'static,
    ) -> Outcome<Self> {
        Self::start_after(name, wake, give_way, work)
    }

    fn start_after(
        name: &str,
        wake: Wake,
        first: impl FnOnce() + Send + 'static,
        mut work: impl FnMut(T) -> R + Send + 'static,
    ) -> Outcome<Self> {
        let (tasks, waiting) = sync_channel::<T>(QUEUE);
        let (finished, results) = sync_channel::<R>(QUEUE);
        let run = move || {
            first();
            for task in waiting {
                if finished.send(work(task)).is_err() {
                    return;
                }
                wake.wake();
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Failure::operation)?;
        Ok(Self { tasks, results, waiting: None })
    }

    /// Hands out what `next` gives, as long as there is room.
    pub fn hand_out(&mut self, mut next: impl FnMut() -> Option<T>) {
        while let Some(task) = self.waiting.take().or_else(&mut next) {
            if let Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) =
                self.tasks.try_send(task)
            {
                self.waiting = Some(task);
                return;
            }
        }
    }

    /// The results that are there.
    pub fn results(&self) -> Vec<R> {
        self.results.try_iter().take(QUEUE).collect()
    }
}

/// Lowers the priority of the calling thread alone. That needs no
/// right; where it is refused, all is as it was.
#[cfg(target_os = "linux")]
fn give_way() {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "the priority stays as it was");
    }
}

/// Threads have no priorities of their own on this system.
#[cfg(not(target_os = "linux"))]
fn give_way() {}

/// A third of the share of a thread beside it: little enough that forwarding hardly notices, and
/// enough that joins go on while every core is busy.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;
/// As many as a switch hands out at once.
const QUEUE: usize = 256;
