//! Who reads and writes the store while the directory goes on.

use rhumb_daemon::daemon::{Snapshot, Worker};
use rhumb_daemon::failure::Outcome;
use rhumb_io::Wake;
use rhumb_rib::store::{Embedded, Store};
use rhumb_rib::{Commit, Committed, Server};
use rhumb_trust::Now;

/// Runs what a directory hands out of its store's work.
pub(super) trait Keeper<S: Store> {
    /// Gives it what is done.
    fn bring(&mut self, server: &mut Server<S>, now: Now);

    /// Takes what is to be done.
    fn fetch(&mut self, server: &mut Server<S>);

    /// Adds how the store is to what the directory tells of itself.
    fn report(&self, snapshot: &mut Snapshot);
}

/// Of a store in a file: the directory reads it itself, and a thread writes it.
pub(super) struct InFile {
    writer: Worker<Commit, Committed>,
}

impl InFile {
    pub(super) fn start(mut disk: Embedded, wake: Wake) -> Outcome<Self> {
        let writer = Worker::start("writer", wake, move |commit: Commit| commit.run(&mut disk))?;
        Ok(Self { writer })
    }
}

impl Keeper<Embedded> for InFile {
    fn bring(&mut self, server: &mut Server<Embedded>, now: Now) {
        for committed in self.writer.results() {
            server.handle_committed(committed, now);
        }
    }

    fn fetch(&mut self, server: &mut Server<Embedded>) {
        self.writer.hand_out(|| server.poll_commit());
    }

    fn report(&self, _: &mut Snapshot) {}
}
