//! A switch as a worker that is always busy, and its verifier, each as if on a core of its own, on
//! a clock that is the worker's measured CPU time: what else there is takes none of it.
//!
//! The verifier takes as long for each piece of work as it took here, and what comes meanwhile
//! waits.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_switch::Job;
use rhumb_wire::Batch;

use crate::machine::thread_cpu;
use crate::scene::Scene;

pub(crate) struct Worker {
    pub(crate) scene: Scene,
    jobs: VecDeque<Job>,
    verifier_free_at: Instant,
    /// What the switch has to say besides what it was brought.
    out: Batch,
}

impl Worker {
    pub(crate) fn new(scene: Scene) -> Self {
        let verifier_free_at = scene.now.instant;
        Self { scene, jobs: VecDeque::new(), verifier_free_at, out: Batch::new() }
    }

    /// Whether the switch has a session with each of its RIBs.
    pub(crate) fn has_ribs(&self) -> bool {
        let status = self.scene.switch.status(self.scene.now);
        status.ribs.iter().all(|rib| rib.name.is_some())
    }

    /// The switch handles a batch and does the rest of its turn. What that took.
    pub(crate) fn handle(&mut self, batch: &mut Batch) -> Duration {
        timed(|| {
            self.scene.switch.handle_batch(batch, self.scene.now);
            self.advance();
        })
    }

    /// The rest of a worker's turn.
    pub(crate) fn advance(&mut self) {
        let (switch, now) = (&mut self.scene.switch, self.scene.now);
        self.jobs.extend(std::iter::from_fn(|| switch.poll_job()));
        if switch.poll_timeout().is_some_and(|due| due <= now.instant) {
            switch.handle_timeout(now);
        }
        while switch.poll_event().is_some() {}
        switch.poll_transmit(&mut self.out);
    }

    /// The verifier works until it has caught up with the clock. What its verdicts cost the worker.
    pub(crate) fn verify(&mut self) -> Duration {
        let now = self.scene.now;
        let mut busy = Duration::ZERO;
        while self.verifier_free_at <= now.instant
            && let Some(job) = self.jobs.pop_front()
        {
            let begin = thread_cpu();
            let done = job.run();
            self.verifier_free_at = now.instant + (thread_cpu() - begin);
            busy += timed(|| {
                self.scene.switch.handle_done(done, now);
                self.advance();
            });
        }
        busy
    }

    /// All that the switch sends, in `batch` and besides, is given to `take`.
    pub(crate) fn collect(&mut self, batch: &Batch, mut take: impl FnMut(SocketAddr, &[u8])) {
        for (peer, datagram) in batch.iter().chain(self.out.iter()) {
            take(peer, datagram);
        }
        self.out.clear();
    }

    /// The clock has gone on while others had their turn.
    pub(crate) fn keep_alive(&mut self, batch: &mut Batch) {
        for member in &mut self.scene.members {
            batch.clear();
            member.keep_alive(batch, self.scene.now);
            (0..batch.len()).for_each(|slot| batch.redirect(slot, member.address));
            self.scene.switch.handle_batch(batch, self.scene.now);
        }
    }
}

/// The CPU time that this thread took for some work.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let begin = thread_cpu();
    work();
    thread_cpu() - begin
}

/// More than a switch takes to find its RIBs.
pub(crate) const TURNS_TO_CONNECT: usize = 200;
