//! The workers of one router at once, each on a core of its own (GDP paper,
//! section 5.2 and Figure 5). Worker 0 is the switch, the others are its fast
//! paths; each forwards a flow on its own lane.
//!
//! Threads meet before each slice, so that all of them work while any is measured. A worker's rate
//! is that of its median batch; the rate of several is the sum.

use std::sync::Barrier;

use rhumb_wire::datagram::LANES;

use crate::fast_path::Lone;
use crate::machine::{self, median};
use crate::member::Form;
use crate::memory::{self, ENTRIES};
use crate::scene::Bare;

/// So many workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) workers: usize,
    pub(crate) payload: usize,
    /// Millions of datagrams a second, all together.
    pub(crate) switch_mpps: f64,
    pub(crate) bare_mpps: f64,
}

pub(crate) fn measure(payload: usize) -> Vec<Row> {
    let most = machine::cores().min(usize::from(LANES));
    let barrier = Barrier::new(most);
    let measured: Vec<Vec<[f64; 2]>> = std::thread::scope(|scope| {
        let run = |(core, worker)| {
            let barrier = &barrier;
            scope.spawn(move || one((core, worker), most, payload, barrier))
        };
        let threads: Vec<_> = Lone::all(most).into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker")).collect()
    });
    let row = |workers: usize| {
        let sum = |who: usize| measured[..workers].iter().map(|of| of[workers - 1][who]).sum();
        Row { workers, payload, switch_mpps: sum(0), bare_mpps: sum(1) }
    };
    (1..=most).map(row).collect()
}

/// One thread's rates, of switch and bare loop, by how many work at once. All numbers take turns,
/// so that a while in which the machine is slower counts for all of them.
fn one(
    (core, mut worker): (usize, Lone),
    most: usize,
    payload: usize,
    barrier: &Barrier,
) -> Vec<[f64; 2]> {
    machine::pin_to(core);
    memory::check(&mut worker, payload);
    let mut bare = Bare::new(Form::Labels, ENTRIES, 1, 1);
    let mut slices: Vec<[Vec<f64>; 2]> = vec![Default::default(); most];
    for _ in 0..ROUNDS {
        for (index, [of_switch, of_bare]) in slices.iter_mut().enumerate() {
            barrier.wait();
            if core <= index {
                of_switch.push(memory::slice(&mut worker, payload));
            }
            barrier.wait();
            if core <= index {
                of_bare.push(memory::slice(&mut bare, payload));
            }
        }
    }
    // Millions a second, of nanoseconds each.
    let rate = |slices: Vec<f64>| 1e3 / median(slices.into_iter());
    slices.into_iter().map(|of| of.map(rate)).collect()
}

const ROUNDS: usize = 101;
