//! Workers at once, each on a core of its own (GDP paper, section 5.2 and Figure 5).
//!
//! Threads meet before each slice, so that all of them work while any is measured. A worker's rate is that of its median
//! batch; the rate of several is the sum.

use std::sync::Barrier;

use crate::machine::{self, median};
use crate::member::Form;
use crate::memory::{self, Bare, Contestant, ENTRIES, Scene};

/// So many workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) workers: usize,
    pub(crate) payload: usize,
    /// Millions of datagrams a second, all together.
    pub(crate) switch_mpps: f64,
    pub(crate) bare_mpps: f64,
}

/// What a worker is: a switch of its own, with flows of its own. Nothing is shared that is written, as among the workers of
/// one router.
fn worker() -> impl Contestant {
    let mut scene = Scene::new(2);
    scene.form = Form::Labels;
    scene
}

pub(crate) fn measure(payload: usize) -> Vec<Row> {
    let row = |workers| Row {
        workers,
        payload,
        switch_mpps: together(workers, payload, worker),
        bare_mpps: together(workers, payload, || Bare::new(Form::Labels, ENTRIES, 1, 1)),
    };
    (1..=machine::cores()).map(row).collect()
}

fn together<C: Contestant>(workers: usize, payload: usize, make: fn() -> C) -> f64 {
    let barrier = Barrier::new(workers);
    let one = |core| {
        machine::pin_to(core);
        let mut contestant = make();
        let slices = (0..ROUNDS).map(|_| {
            barrier.wait();
            memory::slice(&mut contestant, payload)
        });
        // Millions a second, of nanoseconds each.
        1e3 / median(slices.collect::<Vec<_>>().into_iter())
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..workers).map(|core| scope.spawn(move || one(core))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker")).sum()
    })
}

const ROUNDS: usize = 101;
