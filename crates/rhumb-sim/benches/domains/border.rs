//! What a PDU of a known flow costs a router at a border, against one inside of a domain.
//!
//! Two flows are warmed up in the simulated world: one from the innermost domain to the other side,
//! over three borders, and one inside of a domain. Then batches go from hand to hand without the
//! world: a node seals, each router on the way handles the batch that the one before left, and only
//! that is timed. Batches of the two flows take turns. Instructions are counted by callgrind in
//! [`counted`] alone, in a process of its own for each kind of router; the cipher is in both.

use std::process::Command;
use std::time::Instant;

use rhumb_sim::{Disk, StationId, World};
use rhumb_switch::Switch;
use rhumb_trust::Now;
use rhumb_wire::{Batch, Name};

use crate::figures::Figures;
use crate::machine::median;
use crate::nest::{self, Domain, SETTLING, delivery_ms};

/// The word that makes a process do the work of one kind of router.
pub(crate) const CHILD: &str = "--instructions";

/// A flow with labels, and the routers on its way.
struct Way {
    from: StationId,
    to: Name,
    hops: Vec<StationId>,
}

struct Scene {
    world: World,
    crossing: Way,
    inside: Way,
}

impl Scene {
    fn new() -> Self {
        let mut world = nest::world(2);
        let empty = |_: &rhumb_rib::Config, _, _: &[_]| Disk::default();
        let outermost = Domain::add(&mut world, None, 0, empty);
        let sea = Domain::add(&mut world, Some(&outermost), 1, empty);
        let land = Domain::add(&mut world, Some(&outermost), 1, empty);
        let port = Domain::add(&mut world, Some(&sea), 2, empty);
        let (a, c) = (port.add_node(&mut world, 0), port.add_node(&mut world, 1));
        let b = land.add_node(&mut world, 0);
        world.run(SETTLING);
        for _ in 0..5 {
            for to in [b, c] {
                delivery_ms(&mut world, a, to).expect("it arrives");
                world.run(SETTLING / 5);
            }
        }
        let borders = [&port, &sea, &land].into_iter().filter_map(|it| it.border);
        let hops = std::iter::once(port.interiors[0]).chain(borders).chain([land.interiors[0]]);
        let crossing = Way { from: a, to: world.name(b), hops: hops.collect() };
        let inside = Way { from: a, to: world.name(c), hops: port.interiors.clone() };
        Self { world, crossing, inside }
    }

    /// Lets a batch go its way; what each router took, in nanoseconds a PDU.
    fn carry(&mut self, crosses: bool, batch: &mut Batch) -> Vec<f64> {
        let way = if crosses { &self.crossing } else { &self.inside };
        batch.clear();
        let (payload, to) = ([0; PAYLOAD], way.to);
        self.world.with_core(way.from, |core, now| {
            for _ in 0..BATCH {
                core.send_unkept(to, &payload, batch, now).expect("joined");
            }
        });
        let mut before = self.world.address(way.from);
        let mut took = Vec::with_capacity(way.hops.len());
        for hop in &way.hops {
            (0..batch.len()).for_each(|slot| batch.redirect(slot, before));
            before = self.world.address(*hop);
            let elapsed = self.world.with_switch(*hop, |switch, now| {
                let begin = Instant::now();
                counted(switch, batch, now);
                begin.elapsed()
            });
            let forwarded = batch.slots().iter().filter(|slot| !slot.is_empty()).count();
            assert_eq!(forwarded, BATCH, "all are forwarded");
            took.push(elapsed.expect("it runs").as_nanos() as f64 / BATCH as f64);
        }
        took
    }
}

/// A function of its own, with a name that callgrind finds.
#[inline(never)]
fn counted(switch: &mut Switch, batch: &mut Batch, now: Now) {
    switch.handle_batch(batch, now);
}

pub(crate) fn measure(figures: &mut Figures) {
    let mut scene = Scene::new();
    let mut batch = Batch::new();
    let (mut inside, mut crossing) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + WARM_UP {
        let took = [false, true].map(|crosses| scene.carry(crosses, &mut batch));
        if round >= WARM_UP {
            let [within, over] = took;
            inside.push(within);
            crossing.push(over);
        }
    }
    let hop = |rounds: &[Vec<f64>], hop: usize| median(rounds.iter().map(|it| it[hop]));
    let within = [0, 1].map(|at| hop(&inside, at));
    let over = [0, 1, 2, 3, 4].map(|at| hop(&crossing, at));
    figures.add(
        "border_inside_first_ns",
        "a router inside, from a node to a router",
        within[0],
        "ns",
    );
    figures.add(
        "border_inside_last_ns",
        "a router inside, from a router to a node",
        within[1],
        "ns",
    );
    for (at, name) in [(0, "way_out"), (1, "port"), (2, "sea"), (3, "land"), (4, "way_in")] {
        let what = match at {
            0 | 4 => "a router inside, on the way across",
            _ => "a border router, on the way across",
        };
        figures.add(&format!("border_{name}_ns"), what, over[at], "ns");
    }
    // Of the same round, since the machine is not always as fast.
    let extra = inside.iter().zip(&crossing).map(|(within, over)| {
        let borders = over[1..4].iter().sum::<f64>() / 3.0;
        borders - f64::midpoint(within[0], within[1])
    });
    figures.hold(
        "border_extra_ns",
        "a PDU at a border over one inside of a domain: median of the differences within a round",
        (median(extra), "ns"),
        (60.0, "60 ns"),
    );
    instructions(figures);
}

/// Does the work of one kind of router, once the flow is known.
pub(crate) fn work(words: &[String]) {
    let crosses = words.first().is_some_and(|word| word == "crossing");
    let mut scene = Scene::new();
    let mut batch = Batch::new();
    let rounds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    for _ in 0..rounds {
        scene.carry(crosses, &mut batch);
    }
}

/// Instructions a PDU and router, by callgrind; nothing where there is none.
fn instructions(figures: &mut Figures) {
    // What is counted besides cancels out between a longer and a shorter run.
    let per_pdu = |kind: &str, hops: usize| -> Option<f64> {
        let (short, long) = (count(kind, COUNTED_SHORT)?, count(kind, COUNTED_LONG)?);
        let pdus = (COUNTED_LONG - COUNTED_SHORT) * BATCH * hops;
        Some((long - short) / pdus as f64)
    };
    let (Some(inside), Some(crossing)) = (per_pdu("inside", 2), per_pdu("crossing", 5)) else {
        figures.condition("instructions_left_out", "no valgrind, or it counted nothing");
        return;
    };
    figures.add(
        "inside_instructions",
        "a PDU at a router inside, cipher included",
        inside,
        "instr.",
    );
    figures.add(
        "crossing_instructions",
        "a PDU on the way across, mean of three borders and two routers inside",
        crossing,
        "instr.",
    );
    figures.hold(
        "border_extra_instructions",
        "a PDU at a border over one inside, of the two means",
        ((crossing - inside) * 5.0 / 3.0, "instr."),
        (19.0, "a twentieth of the known path's budget"),
    );
}

fn count(kind: &str, rounds: usize) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*domains*border*counted*")
        .arg(program)
        .args([CHILD, kind, &rounds.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, rest) = text.rsplit_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok().filter(|count| *count > 0.0)
}

const BATCH: usize = 64;
const PAYLOAD: usize = 64;
const WARM_UP: usize = 100;
const ROUNDS: usize = 4000;
const COUNTED_SHORT: usize = 20;
const COUNTED_LONG: usize = 120;
