//! The workers of one router, in memory: one that is not the switch against the switch and the bare
//! loop, and one beside another.
//!
//! A switch with three workers has a flow on the lane of each. One of the other two is timed alone;
//! then with its neighbour forwarding as fast as it can on another core. What the second costs the
//! first is what they share: if nothing is, the CPU time per datagram stays.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_switch::{FastPath, Switch};
use rhumb_trust::Now;
use rhumb_wire::Batch;
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::machine::{self, Core, median, thread_cpu};
use crate::member::{self, Form, Member};
use crate::memory::{BATCHES_A_SLICE, ROUNDS, check, slice};
use crate::scene::{
    BATCH_DATAGRAMS, Bare, Contestant, FIRST_PAYLOAD, ROUTER, Scene, TURNS_TO_JOIN, member_address,
    member_index,
};

/// What the bench showed.
pub(crate) struct Results {
    pub(crate) one: Vec<Row>,
    pub(crate) two: Pair,
}

/// Nanoseconds per datagram with a label, of one flow.
pub(crate) struct Row {
    payload: usize,
    bare: f64,
    switch: f64,
    worker: f64,
}

/// Nanoseconds of CPU time per datagram of the same worker.
pub(crate) struct Pair {
    alone: f64,
    beside: f64,
    pub(crate) ratio: f64,
}

pub(crate) fn measure() -> Results {
    machine::pin(Core::Measured);
    let [_, first, second] = Lone::of_one_router();
    let mut workers = [first, second];
    let mut scene = Scene::new(2);
    scene.form = Form::Labels;
    let mut bare = Bare::new(Form::Labels, ENTRIES, 1, 1);
    let mut one = Vec::new();
    for payload in PAYLOADS {
        check(&mut workers[0], payload);
        check(&mut workers[1], payload);
        let rounds: Vec<[f64; 3]> = (0..ROUNDS)
            .map(|_| {
                [
                    slice(&mut bare, payload),
                    slice(&mut scene, payload),
                    slice(&mut workers[0], payload),
                ]
            })
            .collect();
        let figure = |at: usize| median(rounds.iter().map(|round| round[at]));
        one.push(Row { payload, bare: figure(0), switch: figure(1), worker: figure(2) });
    }
    Results { one, two: measure_two(&mut workers) }
}

fn measure_two(workers: &mut [Lone; 2]) -> Pair {
    let [first, second] = workers;
    let rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let alone = cpu_slice(first);
            let (over, begin) = (AtomicBool::new(false), Barrier::new(2));
            let beside = std::thread::scope(|scope| {
                scope.spawn(|| {
                    machine::pin(Core::Load);
                    begin.wait();
                    while !over.load(Ordering::Acquire) {
                        cpu_batch(second);
                    }
                });
                begin.wait();
                let beside = cpu_slice(first);
                over.store(true, Ordering::Release);
                beside
            });
            (alone, beside)
        })
        .collect();
    Pair {
        alone: median(rounds.iter().map(|(alone, _)| *alone)),
        beside: median(rounds.iter().map(|(_, beside)| *beside)),
        ratio: median(rounds.iter().map(|(alone, beside)| beside / alone)),
    }
}

/// Nanoseconds of CPU time per datagram of the median batch.
fn cpu_slice(worker: &mut Lone) -> f64 {
    let per_batch: Vec<f64> = (0..BATCHES_A_SLICE).map(|_| cpu_batch(worker)).collect();
    median(per_batch.into_iter())
}

fn cpu_batch(worker: &mut Lone) -> f64 {
    let mut batch = std::mem::take(&mut worker.batch);
    batch.clear();
    worker.seal(&mut batch, SIZE);
    let begin = thread_cpu();
    worker.forward(&mut batch);
    let took = thread_cpu() - begin;
    worker.batch = batch;
    took.as_nanos() as f64 / BATCH_DATAGRAMS as f64
}

/// A worker of a router, and the two members of its flow.
pub(crate) struct Lone {
    path: Path,
    source: Member,
    sink: Member,
    now: Now,
    data: Vec<u8>,
    chance: Chance,
    batch: Batch,
}

/// What a worker forwards by.
enum Path {
    /// Worker 0.
    Switch(Box<Switch>),
    /// Any other.
    Fast(Box<FastPath>),
}

impl Lone {
    /// The workers of one router, each with a flow on its
    /// own lane; worker 0, the switch, is the first.
    pub(crate) fn of_one_router<const N: usize>() -> [Self; N] {
        let all = Self::all(N).try_into();
        all.unwrap_or_else(|_| unreachable!("invariant: as many as asked for"))
    }

    /// As [`Lone::of_one_router`], of so many.
    pub(crate) fn all(workers: usize) -> Vec<Self> {
        let now = member::now();
        let count = u8::try_from(workers).expect("at most as many workers as lanes");
        let mut switch = member::switch_with(count, 16, Vec::new(), now);
        let mut paths: Vec<FastPath> = (1..workers).map(|it| switch.fast_path(it, now)).collect();
        let members = (0..2 * count).map(|index| {
            let address = member_address(usize::from(index));
            Member::on_lane(index / 2, address, switch.name(), ROUTER, now)
        });
        let mut members: Vec<Member> = members.collect();
        for _ in 0..TURNS_TO_JOIN {
            turn(&mut switch, &mut paths, &mut members, now);
        }
        for worker in 0..workers {
            let ends = (2 * worker, 2 * worker + 1);
            open_flow(&mut switch, &mut paths, &mut members, ends, now);
        }
        let others = paths.into_iter().map(|path| Path::Fast(Box::new(path)));
        let paths = std::iter::once(Path::Switch(Box::new(switch))).chain(others);
        let mut members = members.into_iter();
        let lone = |path| {
            let mut next = || members.next().expect("two for each worker");
            let (source, sink) = (next(), next());
            let (data, chance, batch) = (Vec::new(), Chance::new(3), Batch::new());
            Self { path, source, sink, now, data, chance, batch }
        };
        paths.map(lone).collect()
    }
}

/// Lets everybody say what it has to say, and the switch and its workers handle it.
fn turn(switch: &mut Switch, paths: &mut [FastPath], members: &mut [Member], now: Now) {
    let mut batch = Batch::new();
    for member in &mut *members {
        let first = batch.len();
        member.transmit(&mut batch, now);
        (first..batch.len()).for_each(|slot| batch.redirect(slot, member.address));
    }
    carry(switch, paths, members, &mut batch, now);
}

/// The switch gets all datagrams, and hands over: nothing is measured yet.
fn carry(
    switch: &mut Switch,
    paths: &mut [FastPath],
    members: &mut [Member],
    batch: &mut Batch,
    now: Now,
) {
    switch.handle_batch(batch, now);
    while let Some(job) = switch.poll_job() {
        let done = job.run();
        switch.handle_done(done, now);
    }
    while let Some((worker, order)) = switch.poll_order() {
        paths[worker - 1].handle_order(order, batch, now);
        while let Some(handed) = paths[worker - 1].poll_hand_over() {
            switch.handle_hand_over(handed, now);
        }
    }
    switch.poll_transmit(batch);
    for slot in 0..batch.len() {
        let (peer, datagram) = batch.datagram_mut(slot);
        if !datagram.is_empty() {
            members[member_index(peer)].handle(datagram, now);
        }
    }
}

/// Opens a flow by names, and goes on with labels until its worker has a copy.
fn open_flow(
    switch: &mut Switch,
    paths: &mut [FastPath],
    members: &mut [Member],
    (source, sink): (usize, usize),
    now: Now,
) {
    let destination = members[sink].name();
    for form in [Form::Names, Form::Labels, Form::Labels] {
        let mut batch = Batch::new();
        let member = &mut members[source];
        let data = [0; FIRST_PAYLOAD];
        member.push_data(&mut batch, member.address, (destination, form), &data, now);
        match form {
            Form::Names => carry(switch, paths, members, &mut batch, now),
            // The sink has its label already, and expects no more of this.
            Form::Labels => {
                switch.handle_batch(&mut batch, now);
                while let Some((worker, order)) = switch.poll_order() {
                    paths[worker - 1].handle_order(order, &mut batch, now);
                    while let Some(handed) = paths[worker - 1].poll_hand_over() {
                        switch.handle_hand_over(handed, now);
                    }
                }
                switch.poll_transmit(&mut Batch::new());
            }
        }
        turn(switch, paths, members, now);
    }
}

impl Contestant for Lone {
    fn seal(&mut self, batch: &mut Batch, payload: usize) {
        if self.data.len() != payload {
            self.data = member::data(payload, &mut self.chance);
        }
        let to = (self.sink.name(), Form::Labels);
        for _ in 0..BATCH_DATAGRAMS {
            self.source.push_data(batch, self.source.address, to, &self.data, self.now);
        }
    }

    fn forward(&mut self, batch: &mut Batch) {
        match &mut self.path {
            Path::Switch(path) => path.handle_batch(batch, self.now),
            Path::Fast(path) => path.handle_batch(batch, self.now),
        }
    }

    fn arrives(&mut self, _: std::net::SocketAddr, datagram: &mut [u8]) -> bool {
        self.sink.arrives(datagram, Form::Labels, &self.data, self.now)
    }
}

impl Results {
    pub(crate) fn json(&self) -> Value {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let one: Vec<Value> = self
            .one
            .iter()
            .map(|row| {
                json!({
                    "payload": row.payload,
                    "bare": round(row.bare),
                    "switch": round(row.switch),
                    "worker": round(row.worker),
                })
            })
            .collect();
        json!({
            "ns_per_datagram": one,
            "two": {
                "payload": SIZE,
                "cpu_ns_alone": round(self.two.alone),
                "cpu_ns_beside_another": round(self.two.beside),
                "ratio": round(self.two.ratio),
            },
        })
    }

    pub(crate) fn print_text(&self) {
        println!("\nworkers, in memory, one flow with labels, ns per datagram");
        println!("payload   bare  switch  worker  worker's rate in terms of bare");
        for Row { payload, bare, switch, worker } in &self.one {
            println!("{payload:>7} {bare:>6.0} {switch:>7.0} {worker:>7.0} {:>7.2}", bare / worker);
        }
        println!(
            "CPU ns per datagram of {SIZE} bytes: {:.0} alone, {:.0} beside another worker, ratio {:.3}",
            self.two.alone, self.two.beside, self.two.ratio
        );
    }
}

/// Bytes of a PDU's data.
const PAYLOADS: [usize; 3] = [64, 1000, 1400];
/// The size of those that two workers forward.
const SIZE: usize = 1000;
/// Entries in the bare loop's table.
const ENTRIES: usize = 1 << 20;
