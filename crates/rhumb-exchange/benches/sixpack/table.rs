//! Table 1 of the paper: what set-up and online phase of each circuit take, with 750 members.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rhumb_exchange::circuits::{ExportAll, SelectBest};
use rhumb_mpc::{FieldBits, Inputs, OrderSlot, Parameters, Party, Program, Seed, Session};
use serde_json::{Value, json};

use crate::channel::{self, Channel};
use crate::report::{Target, median};

/// As in the paper.
pub(crate) const MEMBERS: usize = 750;
/// Runs of each circuit.
const RUNS: usize = 50;
/// The second is the paper's.
const DELAYS_US: [u64; 2] = [0, 100];

/// Of the paper, in its Table 1: set-up and online phase, ms and KiB.
struct Published {
    setup: (f64, f64),
    online: (f64, f64),
}

const fn published(setup: (f64, f64), online: (f64, f64)) -> Option<Published> {
    Some(Published { setup, online })
}

struct Circuit {
    name: &'static str,
    routes: usize,
    program: Arc<Program>,
    order: Option<Vec<u32>>,
    published: Option<Published>,
}

/// A circuit's figures with one delay: medians.
pub(crate) struct Row {
    name: &'static str,
    routes: usize,
    delay_us: u64,
    setup_ms: f64,
    setup_kib: f64,
    online_ms: f64,
    online_kib: f64,
    /// To install an order of this size.
    order_ms: Option<f64>,
    published: Option<Published>,
}

fn circuits() -> Vec<Circuit> {
    let export = ExportAll::new(1).expect("within its bounds");
    let mut all = vec![Circuit {
        name: "Export-All",
        routes: 1,
        program: Arc::clone(export.program()),
        order: None,
        published: published((1.7, 28.0), (0.6, 25.0)),
    }];
    let papers = [
        published((19.8, 1492.0), (5.3, 106.0)),
        published((34.6, 3469.0), (10.3, 247.0)),
        published((63.7, 7409.0), (19.3, 528.0)),
        published((122.4, 15286.0), (35.9, 1091.0)),
    ];
    for (routes, paper) in [4, 8, 16, 32].into_iter().zip(papers) {
        // In the paper's count of inputs one stands for no route.
        let reference = SelectBest::paper(routes - 1).expect("within its bounds");
        let index = SelectBest::index(routes).expect("within its bounds");
        let top_class = SelectBest::top_class(routes, SLOT).expect("within its bounds");
        let order = Some((0..routes as u32).rev().collect());
        for (name, circuit, order, published) in [
            ("as in the paper", reference, None, paper),
            ("index", index, None, None),
            ("top class", top_class, order, None),
        ] {
            let program = Arc::clone(circuit.program());
            all.push(Circuit { name, routes, program, order, published });
        }
    }
    all
}

pub(crate) fn measure() -> Vec<Row> {
    let mut rows = Vec::new();
    for delay_us in DELAYS_US {
        for circuit in circuits() {
            rows.push(measure_circuit(circuit, delay_us));
        }
    }
    rows
}

/// What party one's thread has seen.
#[derive(Default)]
struct Seen {
    setup_ms: Vec<f64>,
    setup_kib: Vec<f64>,
    online_ms: Vec<f64>,
    online_kib: Vec<f64>,
    order_ms: Option<f64>,
}

fn measure_circuit(circuit: Circuit, delay_us: u64) -> Row {
    let parameters = pools(&circuit.program);
    #[expect(clippy::disallowed_methods, reason = "a bench owns its clock")]
    let clock = Instant::now();
    let channels = channel::pair(Duration::from_micros(delay_us), clock).expect("loopback");
    let barrier = Arc::new(Barrier::new(2));
    let [one, two] = channels;
    let work = |party: Party, mut channel: Channel| {
        let (barrier, program) = (Arc::clone(&barrier), Arc::clone(&circuit.program));
        let order = circuit.order.clone();
        move || {
            let mut side = Side::new(party, parameters, &mut channel);
            side.run_all(&program, order.as_deref(), &barrier, clock)
        }
    };
    #[expect(clippy::disallowed_methods, reason = "a bench owns its threads")]
    let other = std::thread::spawn(work(Party::Two, two));
    let mut seen = work(Party::One, one)();
    other.join().expect("party two ends well");
    Row {
        name: circuit.name,
        routes: circuit.routes,
        delay_us,
        setup_ms: median(&mut seen.setup_ms),
        setup_kib: median(&mut seen.setup_kib),
        online_ms: median(&mut seen.online_ms),
        online_kib: median(&mut seen.online_kib),
        order_ms: seen.order_ms,
        published: circuit.published,
    }
}

/// Pools that hold what one run takes, in whole batches, whatever is left over.
fn pools(program: &Program) -> Parameters {
    let words = MEMBERS.div_ceil(64);
    let cost = program.cost();
    let whole = |ands: usize| ((ands * words) as u64).div_ceil(BATCH) + 1;
    Parameters {
        field: FieldBits::Two,
        bit_words: (whole(cost.ands) * BATCH) as u32,
        vector_words: (whole(cost.vector_ands) * BATCH) as u32,
    }
}

/// A party.
struct Side<'a> {
    party: Party,
    session: Session,
    channel: &'a mut Channel,
    message: Vec<u8>,
    received: u64,
}

impl<'a> Side<'a> {
    /// Ready.
    fn new(party: Party, parameters: Parameters, channel: &'a mut Channel) -> Self {
        let seed = Seed::new([party as u8; 32]);
        let session = Session::new(party, parameters, seed).expect("parameters in bounds");
        let mut side = Self { party, session, channel, message: Vec::new(), received: 0 };
        while !side.session.is_ready() {
            side.flush();
            side.take();
        }
        side.flush();
        side
    }

    fn run_all(
        &mut self,
        program: &Arc<Program>,
        order: Option<&[u32]>,
        barrier: &Barrier,
        clock: Instant,
    ) -> Seen {
        let mut seen = Seen::default();
        let ms = |since: Duration| (clock.elapsed() - since).as_secs_f64() * 1e3;
        if let Some(order) = order {
            barrier.wait();
            let begun = clock.elapsed();
            if self.party == Party::One {
                self.session.install_order(SLOT, order).expect("an order");
            }
            self.flush();
            while self.session.order_epoch(SLOT).is_none() {
                self.take();
                self.flush();
            }
            seen.order_ms = Some(ms(begun));
        }
        let words = MEMBERS.div_ceil(64);
        let cost = program.cost();
        let needed = [(cost.ands * words) as f64, (cost.vector_ands * words) as f64];
        for _ in 0..RUNS {
            barrier.wait();
            let (begun, before, stock) = (clock.elapsed(), self.traffic(), self.session.stock());
            self.refill();
            let after = self.session.stock();
            // A batch is made whole; what one run takes of it counts.
            let made = [
                (after.bit_words - stock.bit_words) as f64,
                (after.vector_words - stock.vector_words) as f64,
            ];
            let kind = usize::from(cost.ands == 0);
            if made[kind] > 0.0 {
                let part = needed[kind] / made[kind];
                seen.setup_ms.push(ms(begun) * part);
                seen.setup_kib.push((self.traffic() - before) as f64 / 1024.0 * part);
            }

            let inputs = Inputs::zeros(program, self.party, MEMBERS).expect("lanes in bounds");
            barrier.wait();
            let (begun, before) = (clock.elapsed(), self.traffic());
            self.session.start(program, &inputs).expect("triples enough");
            self.flush();
            let outputs = loop {
                if let Some(outputs) = self.session.take_outputs() {
                    break outputs;
                }
                self.take();
                self.flush();
            };
            seen.online_ms.push(ms(begun));
            seen.online_kib.push((self.traffic() - before) as f64 / 1024.0);
            drop(outputs);
        }
        seen
    }

    /// Until the pools are full. Both parties begin batches, so that both work at the same time.
    fn refill(&mut self) {
        let is_full = |session: &Session| {
            let (stock, parameters) = (session.stock(), session.parameters());
            u64::from(parameters.bit_words) - stock.bit_words < BATCH
                && u64::from(parameters.vector_words) - stock.vector_words < BATCH
        };
        while !is_full(&self.session) {
            self.session.refill().expect("ready");
            self.flush();
            self.take();
        }
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(message) = self.session.poll_message() {
            self.channel.send(&message).expect("the channel stands");
            self.session.recycle(message);
        }
        while self.channel.has_unsent() {
            self.channel.wait(None, channel::LONG).expect("the channel stands");
        }
    }

    fn take(&mut self) {
        while !self.channel.receive(&mut self.message) {
            self.channel.look(SPIN).expect("the channel stands");
        }
        self.received += self.message.len() as u64;
        self.session.handle(&self.message).expect("the parties agree");
    }

    /// Bytes sent and received, as the paper counts.
    fn traffic(&self) -> u64 {
        self.channel.bytes + self.received
    }
}

impl Row {
    pub(crate) fn text(&self) -> String {
        let factor = self.published.as_ref().map_or(String::new(), |paper| {
            format!(
                "   paper {:>6.1} ms {:>6.0} KiB, {:>5.1} ms {:>5.0} KiB: online {:.0} times faster",
                paper.setup.0,
                paper.setup.1,
                paper.online.0,
                paper.online.1,
                paper.online.0 / self.online_ms
            )
        });
        let order = self.order_ms.map_or(String::new(), |ms| format!("   order {ms:.2} ms"));
        format!(
            "{:<16} R={:<3} +{:<3} us   set-up {:>7.3} ms {:>7.0} KiB   online {:>7.3} ms {:>7.1} KiB{factor}{order}",
            self.name,
            self.routes,
            self.delay_us,
            self.setup_ms,
            self.setup_kib,
            self.online_ms,
            self.online_kib,
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "circuit": self.name,
            "routes": self.routes,
            "added_delay_us": self.delay_us,
            "setup_ms": self.setup_ms,
            "setup_kib": self.setup_kib,
            "online_ms": self.online_ms,
            "online_kib": self.online_kib,
            "order_ms": self.order_ms,
        })
    }
}

/// The issue's: at R = 32 without added delay 20 times faster than the
/// paper, whatever the circuit that does the same.
pub(crate) fn targets(rows: &[Row]) -> Vec<Target> {
    let undelayed = rows.iter().filter(|row| row.routes == 32 && row.delay_us == 0);
    let papers = 35.9;
    undelayed
        .map(|row| {
            let name = format!("online_speedup_r32_{}", row.name.replace(' ', "_"));
            Target::at_least(name, papers / row.online_ms, 20.0)
        })
        .collect()
}

const SLOT: OrderSlot = OrderSlot(0);
/// Longer than a level takes: each party has a processor of its own here, and waking it from sleep
/// would take as long as the level.
pub(crate) const SPIN: Duration = Duration::from_micros(50);
/// Words that the engine makes at a time.
const BATCH: u64 = 128;
