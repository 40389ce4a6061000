//! What two-party computation costs: triples per second of one party's work, bytes per triple, and
//! the time of a run with both parties on one thread, in memory, over 768 lanes.
//!
//! All kinds take turns within a round, so that a noisy machine disturbs all alike;
//! figures are medians over the rounds. Both parties' work is done one after the other and
//! the whole is timed, so a party's is half of it.
//!
//! `cargo bench -p rhumb-mpc`; `-- --json` prints one object, `--only TEXT` measures what has the
//! text in its name. Takes about 10 seconds.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;

use std::sync::Arc;
use std::time::Instant;

use machine::median;
use rhumb_mpc::{
    Bit, Circuit, FieldBits, Inputs, OrderSlot, Owner, Parameters, Party, Program, Seed, Session,
    Traffic, Vector, exchange,
};

const ROUNDS: usize = 15;
const LANES: usize = 768;
/// Runs of one program in a round.
const RUNS: usize = 4;

/// A figure's name, its unit, whether more is better, and the design page's, where it has one.
type Figure = (String, &'static str, Option<&'static str>, Vec<f64>);

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut json, mut only) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--only" => only = arguments.next(),
            _ => eprintln!("not known: {argument}"),
        }
    }
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut figures: Vec<Figure> = Vec::new();
    let mut fields = [(FieldBits::Two, "k=2"), (FieldBits::Four, "k=4")]
        .map(|(field, name)| (name, ready(field, 512, 128), ready(field, 512, 2048)));
    let mut runner = ready(FieldBits::Two, 1 << 16, 1 << 11);
    let order: Vec<u32> = (0..32).rev().collect();
    for (slot, size) in [(0, 8), (1, 32)] {
        let order: Vec<u32> = order.iter().copied().filter(|place| *place < size).collect();
        runner.0.install_order(OrderSlot(slot), &order).expect("an order");
        exchange(&mut runner.0, &mut runner.1).expect("the parties agree");
    }
    let programs = [
        ("export 1 route", export(1), Some("12")),
        ("one level of 1024 ANDs", level(1024), None),
        ("paper's circuit R=8", tournament(8), Some("160")),
        ("paper's circuit R=32", tournament(32), Some("480")),
        ("top class R=8", top_class(8, OrderSlot(0)), Some("20")),
        ("top class R=32", top_class(32, OrderSlot(1)), Some("43")),
    ];
    for _ in 0..ROUNDS {
        if is_wanted("beginning") {
            begin(&mut figures);
        }
        for (name, bits, vectors) in fields.iter_mut().filter(|_| is_wanted("triples")) {
            make(&mut figures, name, bits, vectors);
        }
        for (name, program, design) in programs.iter().filter(|program| is_wanted(program.0)) {
            measure(&mut figures, name, program, *design, &mut runner);
        }
    }
    if json { print_json(&figures) } else { print_text(&figures) }
}

fn note(
    figures: &mut Vec<Figure>,
    label: String,
    unit: &'static str,
    design: Option<&'static str>,
    value: f64,
) {
    match figures.iter_mut().find(|(name, ..)| *name == label) {
        Some((.., values)) => values.push(value),
        None => figures.push((label, unit, design, vec![value])),
    }
}

fn ready(field: FieldBits, bit_words: u32, vector_words: u32) -> (Session, Session) {
    let (one, two, _) = begun(field, bit_words, vector_words);
    (one, two)
}

fn begun(field: FieldBits, bit_words: u32, vector_words: u32) -> (Session, Session, Traffic) {
    let parameters = Parameters { field, bit_words, vector_words };
    let session = |party, seed| Session::new(party, parameters, Seed::new([seed; 32]));
    let mut one = session(Party::One, 1).expect("parameters within their bounds");
    let mut two = session(Party::Two, 2).expect("parameters within their bounds");
    let traffic = exchange(&mut one, &mut two).expect("the parties agree");
    (one, two, traffic)
}

/// Times the beginning of a session, up to where both parties can make triples.
fn begin(figures: &mut Vec<Figure>) {
    let begin = Instant::now();
    let (_, _, traffic) = begun(FieldBits::Two, 512, 128);
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    note(figures, "beginning".to_owned(), "ms per party", None, ms / 2.0);
    let kib = traffic.bytes[0] as f64 / 1024.0;
    note(figures, "beginning, traffic of each party".to_owned(), "KiB", None, kib);
}

fn fill((one, two): &mut (Session, Session)) -> Traffic {
    let mut all = Traffic::default();
    while one.refill().expect("the session is ready") {
        let traffic = exchange(one, two).expect("the parties agree");
        all.bytes.iter_mut().zip(traffic.bytes).for_each(|(all, bytes)| *all += bytes);
    }
    all
}

/// Times the making of triples: a pool that holds four batches of bits and one of vectors, and one
/// that holds many of vectors. What the small one takes is measured beside, and taken off.
fn make(
    figures: &mut Vec<Figure>,
    name: &str,
    small: &mut (Session, Session),
    large: &mut (Session, Session),
) {
    let design =
        |two: &'static str, four: &'static str| Some(if name == "k=2" { two } else { four });
    let timed = |pair: &mut (Session, Session)| {
        drain(pair);
        let before = pair.0.stock();
        let begin = Instant::now();
        let traffic = fill(pair);
        let us = begin.elapsed().as_secs_f64() * 1e6;
        let after = pair.0.stock();
        let bits = 64.0 * (after.bit_words - before.bit_words) as f64;
        let vectors = 64.0 * (after.vector_words - before.vector_words) as f64;
        (us, bits, vectors, (traffic.bytes[0] + traffic.bytes[1]) as f64)
    };
    let (small_us, bits, few, small_bytes) = timed(small);
    let (large_us, _, many, large_bytes) = timed(large);
    let vector_us = (large_us - small_us) / (many - few);
    let vector_bytes = (large_bytes - small_bytes) / (many - few);
    let bit_us = (small_us - few * vector_us) / bits;
    let bytes = (small_bytes - few * vector_bytes) / bits;
    let per_s = |us: f64| 2.0 / us;
    note(figures, format!("triples {name}"), "M/s and party", design("46", "17-33"), per_s(bit_us));
    note(figures, format!("triples {name}, traffic"), "B", design("16", "8"), bytes);
    note(figures, format!("vector triples {name}"), "M/s and party", None, per_s(vector_us));
    note(figures, format!("vector triples {name}, traffic"), "B", None, vector_bytes);
}

/// Uses all that is in stock.
fn drain(pair: &mut (Session, Session)) {
    let stock = pair.0.stock();
    if stock.bit_words == 0 {
        return;
    }
    let mut circuit = Circuit::new();
    let bit = circuit.input(Owner::Shared);
    let vector = circuit.input_vector(Owner::Shared);
    for _ in 0..stock.bit_words {
        circuit.and(bit, bit);
    }
    for _ in 0..stock.vector_words {
        circuit.and_vector(bit, vector);
    }
    let program = Arc::new(circuit.finish());
    run(&program, 64, pair);
}

fn measure(
    figures: &mut Vec<Figure>,
    name: &str,
    program: &Arc<Program>,
    design: Option<&'static str>,
    pair: &mut (Session, Session),
) {
    fill(pair);
    let mut bytes = 0;
    let begin = Instant::now();
    for _ in 0..RUNS {
        let traffic = run(program, LANES, pair);
        bytes = traffic.bytes[0] + traffic.bytes[1];
    }
    let us = begin.elapsed().as_secs_f64() * 1e6 / RUNS as f64;
    // Two machines work at the same time; here one does the work of both.
    note(figures, format!("run: {name}"), "us per party", design, us / 2.0);
    note(figures, format!("run: {name}, traffic"), "KiB", None, bytes as f64 / 1024.0);
}

fn run(program: &Arc<Program>, lanes: usize, (one, two): &mut (Session, Session)) -> Traffic {
    for (party, session) in [(Party::One, &mut *one), (Party::Two, &mut *two)] {
        let inputs = Inputs::zeros(program, party, lanes).expect("lanes within their bounds");
        session.start(program, &inputs).expect("triples enough");
    }
    let traffic = exchange(one, two).expect("the parties agree");
    assert!(one.take_outputs().is_some() && two.take_outputs().is_some());
    traffic
}

/// Export-All: the key, where the policy allows it.
fn export(routes: usize) -> Arc<Program> {
    let mut circuit = Circuit::new();
    for _ in 0..routes {
        let allowed = circuit.input(Owner::Shared);
        let keys = [(); 2].map(|()| circuit.input_vector(Owner::Shared));
        let key = circuit.mux_vector(allowed, keys[0], keys[1]);
        circuit.output_vector(key);
    }
    Arc::new(circuit.finish())
}

fn level(ands: usize) -> Arc<Program> {
    let mut circuit = Circuit::new();
    let inputs = circuit.inputs(Owner::Shared, ands + 1);
    for pair in inputs.windows(2) {
        let out = circuit.and(pair[0], pair[1]);
        circuit.output(out);
    }
    Arc::new(circuit.finish())
}

/// Select-Best as in the paper: preferences masked by the
/// policy, then a tournament of preferences and keys.
fn tournament(routes: usize) -> Arc<Program> {
    let mut circuit = Circuit::new();
    let mut players: Vec<(Vec<Bit>, Vector)> = (0..routes)
        .map(|_| {
            let allowed = circuit.input(Owner::Shared);
            let preference = circuit.inputs(Owner::Shared, 8);
            let masked = preference.iter().map(|bit| circuit.and(allowed, *bit)).collect();
            (masked, circuit.input_vector(Owner::Shared))
        })
        .collect();
    while players.len() > 1 {
        players = players
            .chunks(2)
            .map(|pair| {
                let [left, right] = pair else { return pair[0].clone() };
                let wins = circuit.greater(&left.0, &right.0);
                let preference = circuit.mux_all(wins, &left.0, &right.0);
                (preference, circuit.mux_vector(wins, left.1, right.1))
            })
            .collect();
    }
    circuit.output_vector(players[0].1);
    let program = circuit.finish();
    let cost = program.cost();
    assert_eq!(cost.ands + 128 * cost.vector_ands, 8 * routes + (19 + 136) * (routes - 1));
    assert_eq!(cost.rounds, 1 + 5 * routes.ilog2() as usize);
    Arc::new(program)
}

/// The first in the exchange's order of a member's best class, where the policy allows it.
fn top_class(routes: usize, order: OrderSlot) -> Arc<Program> {
    let mut circuit = Circuit::new();
    let best = circuit.inputs(Owner::Shared, routes);
    let allowed = circuit.inputs(Owner::Shared, routes);
    let masked: Vec<Bit> =
        best.iter().zip(&allowed).map(|(best, allowed)| circuit.and(*best, *allowed)).collect();
    let ordered = circuit.permute(order, &masked);
    let first = circuit.first_one(&ordered);
    let chosen = circuit.unpermute(order, &first);
    chosen.into_iter().for_each(|bit| circuit.output(bit));
    let program = circuit.finish();
    let levels = routes.ilog2() as usize;
    assert_eq!(program.cost().ands, routes + routes / 2 * levels);
    assert_eq!(program.cost().rounds, levels + 3);
    Arc::new(program)
}

fn print_text(figures: &[Figure]) {
    println!(
        "medians of {ROUNDS} rounds, the best of them, and the design's measurement of a prototype"
    );
    for (label, unit, design, values) in figures {
        let design = design.unwrap_or("-");
        let is_rate = unit.starts_with("M/s");
        let best = values.iter().copied().reduce(if is_rate { f64::max } else { f64::min });
        let (median, best) = (median(values.iter().copied()), best.unwrap_or_default());
        println!("  {label:<40}{median:10.2}{best:10.2} {unit:<14}{design:>8}");
    }
}

fn print_json(figures: &[Figure]) {
    let figures: serde_json::Map<String, serde_json::Value> = figures
        .iter()
        .map(|(label, unit, _, values)| {
            (format!("{label}, {unit}"), median(values.iter().copied()).into())
        })
        .collect();
    println!("{}", serde_json::json!({ "bench": "mpc", "figures": figures }));
}
