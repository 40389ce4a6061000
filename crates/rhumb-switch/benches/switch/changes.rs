//! Known flows beside changes of routes: what is left for them where names that are nobody's
//! destination move between two members, ten thousand times in a second of the worker's time.
//!
//! Per batch: 1. sealed by members, not counted: known PDUs, and behind them the words of the names
//! that move; 2. the worker handles it; 3. the verifier, as if on another core, looks at what the
//! worker hands out, not counted; 4. the worker takes the verdicts, changes its tables and answers.
//! A move is a newer word of the name's owner that another member answers for it, so it replaces a
//! statement, an attachment and a grant. Slices with and without changes take turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rhumb_switch::Job;
use rhumb_trust::Identity;
use rhumb_wire::{Batch, Role};
use serde_json::{Value, json};

use crate::figures::rounded;
use crate::machine::{median, thread_cpu};
use crate::member::{self, Form};
use crate::memory::{BATCH_DATAGRAMS, Contestant, Scene, member_index};

/// What changes leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) form: Form,
    pub(crate) payload: usize,
    /// Nanoseconds of the worker for each known PDU, without changes and with.
    pub(crate) quiet_ns: f64,
    pub(crate) changing_ns: f64,
    /// The rate of known PDUs with changes, in terms of that without.
    pub(crate) kept: f64,
}

impl Row {
    pub(crate) fn json(&self) -> Value {
        json!({
            "form": self.form.name(),
            "payload": self.payload,
            "quiet_ns": rounded(self.quiet_ns),
            "changing_ns": rounded(self.changing_ns),
            "kept": rounded(self.kept),
        })
    }
}

pub(crate) fn measure() -> Vec<Row> {
    let mut changing = Changing::new();
    let cases = [Form::Labels, Form::Names].map(|form| PAYLOADS.map(|payload| (form, payload)));
    cases.into_iter().flatten().map(|(form, payload)| changing.measure(form, payload)).collect()
}

/// About a thousand flows, and names that move.
struct Changing {
    scene: Scene,
    names: Vec<Arc<Identity>>,
    /// How often a name was moved, all counted.
    moves: u64,
    jobs: VecDeque<Job>,
    /// The worker's own.
    out: Batch,
    /// Answers to those who took a name over.
    answered: u64,
}

impl Changing {
    fn new() -> Self {
        let scene = Scene::new(MEMBERS);
        let names = (0..NAMES).map(|_| member::identity(Role::Capsule, scene.now)).collect();
        Self { scene, names, moves: 0, jobs: VecDeque::new(), out: Batch::new(), answered: 0 }
    }

    fn measure(&mut self, form: Form, payload: usize) -> Row {
        self.scene.form = form;
        // The first of each warms up.
        let rounds: Vec<[f64; 2]> = (0..=ROUNDS)
            .map(|_| [0, CHANGES_PER_S].map(|per_s| self.slice(payload, per_s)))
            .skip(1)
            .collect();
        let middle = |of: fn(&[f64; 2]) -> f64| median(rounds.iter().map(of));
        Row {
            form,
            payload,
            quiet_ns: middle(|[quiet, _]| *quiet),
            changing_ns: middle(|[_, changing]| *changing),
            kept: middle(|[quiet, changing]| quiet / changing),
        }
    }

    /// Nanoseconds of the worker for each known PDU.
    fn slice(&mut self, payload: usize, changes_per_s: u32) -> f64 {
        let (mut took, mut known, before) = (Duration::ZERO, 0, self.moves);
        let (answered, mut batch) = (self.answered, Batch::new());
        while took < SLICE {
            batch.clear();
            self.scene.seal(&mut batch, payload);
            while self.moves - before < (took.as_secs_f64() * f64::from(changes_per_s)) as u64 {
                self.push_move(&mut batch);
            }
            let mut busy = self.timed(|it| {
                it.scene.switch.handle_batch(&mut batch, it.scene.now);
                it.advance();
            });
            while let Some(job) = self.jobs.pop_front() {
                let done = job.run();
                busy += self.timed(|it| {
                    it.scene.switch.handle_done(done, it.scene.now);
                    it.advance();
                });
            }
            let sent = batch.slots().iter().take(BATCH_DATAGRAMS).filter(|slot| !slot.is_empty());
            known += sent.count();
            took += busy;
            self.scene.now = self.scene.now.plus(busy);
            self.take_answers();
        }
        let moves = self.moves - before;
        assert_eq!(self.answered - answered, moves, "each move was verified and accepted");
        took.as_nanos() as f64 / known as f64
    }

    /// Appends the word of the name whose turn it is, by whom it goes to.
    fn push_move(&mut self, batch: &mut Batch) {
        let (round, which) = (self.moves / NAMES as u64, self.moves as usize % NAMES);
        let mover = &mut self.scene.members[round as usize % 2];
        mover.take_over(&self.names[which], round + 1, self.scene.now);
        let first = batch.len();
        mover.transmit(batch, self.scene.now);
        (first..batch.len()).for_each(|slot| batch.redirect(slot, mover.address));
        self.moves += 1;
    }

    /// The rest of a worker's turn.
    fn advance(&mut self) {
        let (switch, now) = (&mut self.scene.switch, self.scene.now);
        self.jobs.extend(std::iter::from_fn(|| switch.poll_job()));
        if switch.poll_timeout().is_some_and(|due| due <= now.instant) {
            switch.handle_timeout(now);
        }
        while switch.poll_event().is_some() {}
        switch.poll_transmit(&mut self.out);
    }

    /// Has members read what the switch has said by itself.
    fn take_answers(&mut self) {
        for slot in 0..self.out.len() {
            let (peer, datagram) = self.out.datagram_mut(slot);
            let member = &mut self.scene.members[member_index(peer)];
            self.answered += u64::from(member.is_accepted(datagram, self.scene.now));
        }
        self.out.clear();
    }

    fn timed(&mut self, work: impl FnOnce(&mut Self)) -> Duration {
        let begin = thread_cpu();
        work(self);
        thread_cpu() - begin
    }
}

/// The smallest, where a change costs most in terms of a PDU, and the size that most targets are
/// about.
const PAYLOADS: [usize; 2] = [64, 1000];
const CHANGES_PER_S: u32 = 10_000;
/// Between each two of which is a flow.
const MEMBERS: usize = 32;
/// Names that move. Each is somewhere else after so many changes.
const NAMES: usize = 256;
/// Of the worker's time, for each round.
const SLICE: Duration = Duration::from_millis(8);
const ROUNDS: usize = 25;
