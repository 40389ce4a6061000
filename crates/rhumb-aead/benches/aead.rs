//! What a record costs beside aws-lc: nanoseconds to seal and to open, by length, with each backend
//! that the processor has, in calls of 64 records of one key, in calls of 64 records of keys drawn
//! from 1,024, and record by record.
//!
//! All backends take turns within a round, so that a noisy machine disturbs all alike. Figures are
//! medians over the rounds, and ratios medians of each round's.
//!
//! `cargo bench -p rhumb-aead`; `-- --json` prints one object, `--len N` measures one length, and
//! `--aes-128` the smaller key. Takes about 20 seconds. What aws-lc does on processors without them
//! is seen with `OPENSSL_ia32cap=:~0x60000000000`, which hides VAES and VPCLMULQDQ from it.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;

use std::hint::black_box;
use std::time::Instant;

use machine::median;
use rhumb_aead::{Algorithm, Backend, Choice, Key, MAX_RECORDS, Record};
use serde_json::{Map, Value, json};

const ROUNDS: usize = 31;
const LENGTHS: [usize; 14] =
    [0, 32, 64, 100, 128, 256, 512, 1000, 1400, 1766, 2048, 4096, 4097, 8900];
/// Of the library's time over ours, with one key: in batches of these lengths, and anywhere.
const TARGETS: [(usize, f64); 2] = [(64, 2.0), (1000, 1.35)];
const NOWHERE_BELOW: f64 = 0.95;
/// Bytes before a record, as the header of a datagram is.
const BEFORE: usize = 20;

/// How records are handed over.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Batch,
    Single,
    ManyKeys,
}

impl Way {
    const ALL: [Self; 3] = [Self::Batch, Self::Single, Self::ManyKeys];

    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Single => "single",
            Self::ManyKeys => "1024 keys",
        }
    }

    fn keys(self) -> usize {
        if self == Self::ManyKeys { 1024 } else { 1 }
    }
}

/// What is measured beside what: keys as they are chosen, and those of one backend.
#[derive(Clone, Copy)]
enum Contender {
    Chosen,
    Only(Backend),
}

impl Contender {
    fn name(self) -> String {
        match self {
            Self::Chosen => "chosen".to_owned(),
            Self::Only(backend) => format!("{backend:?}").to_lowercase(),
        }
    }

    fn key(self, algorithm: Algorithm, secret: &[u8]) -> Key {
        match self {
            Self::Chosen => Key::new(algorithm, secret, Choice::Fastest),
            Self::Only(backend) => Key::for_backend(algorithm, secret, backend),
        }
    }
}

/// One length and way: of each contender the rounds' nanoseconds to seal and to open.
struct Row {
    len: usize,
    way: Way,
    contenders: Vec<(Contender, Vec<[f64; 2]>)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let has = |option: &str| arguments.iter().any(|it| it == option);
    let only = arguments.iter().position(|it| it == "--len").and_then(|at| arguments.get(at + 1));
    let only: Option<usize> = only.and_then(|len| len.parse().ok());
    let algorithm = if has("--aes-128") { Algorithm::Aes128Gcm } else { Algorithm::Aes256Gcm };
    let conditions = conditions(algorithm);
    let lengths = only.map_or_else(|| LENGTHS.to_vec(), |len| vec![len]);
    let rows: Vec<Row> = lengths
        .into_iter()
        .flat_map(|len| Way::ALL.map(|way| (len, way)))
        .map(|(len, way)| Row::measure(algorithm, len, way))
        .collect();
    if has("--json") { print_json(&conditions, &rows) } else { print_text(&conditions, &rows) }
}

fn conditions(algorithm: Algorithm) -> Map<String, Value> {
    let mut conditions: Map<String, Value> = machine::conditions()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    conditions.insert("algorithm".to_owned(), format!("{algorithm:?}").into());
    conditions.insert("backend".to_owned(), format!("{:?}", Backend::of(Choice::Fastest)).into());
    conditions
}

impl Row {
    fn measure(algorithm: Algorithm, len: usize, way: Way) -> Self {
        let own = Backend::ALL.into_iter().filter(|it| it.is_possible()).map(Contender::Only);
        let mut contenders: Vec<(Contender, Vec<[f64; 2]>)> =
            std::iter::once(Contender::Chosen).chain(own).map(|it| (it, Vec::new())).collect();
        let secret = |at: usize| vec![(at % 251) as u8; algorithm.key_len()];
        let keys: Vec<Vec<Key>> = contenders
            .iter()
            .map(|(it, _)| (0..way.keys()).map(|at| it.key(algorithm, &secret(at))).collect())
            .collect();
        for round in 0..=ROUNDS {
            for ((_, rounds), keys) in contenders.iter_mut().zip(&keys) {
                let ns = time(keys, len, way);
                // The first warms up.
                if round > 0 {
                    rounds.push(ns);
                }
            }
        }
        Self { len, way, contenders }
    }

    /// The middle of what a contender took to seal or to open.
    fn ns(&self, contender: usize, side: usize) -> f64 {
        median(self.contenders[contender].1.iter().map(|ns| ns[side]))
    }

    /// The library's time over a contender's. The library is the last.
    fn ratio(&self, contender: usize, side: usize) -> f64 {
        let library = &self.contenders[self.contenders.len() - 1].1;
        let ours = &self.contenders[contender].1;
        median(ours.iter().zip(library).map(|(ours, library)| library[side] / ours[side]))
    }
}

/// Nanoseconds per record to seal and to open.
fn time(keys: &[Key], len: usize, way: Way) -> [f64; 2] {
    let mut buffers = vec![vec![0_u8; BEFORE + len]; MAX_RECORDS];
    let calls = (400 / (len / 100 + 4)).max(4);
    let (mut ns, mut key) = ([0.0; 2], 0);
    for call in 0..calls {
        let aad = [call as u8; 12];
        let mut records: Vec<Record<'_>> = Vec::with_capacity(MAX_RECORDS);
        for (at, buffer) in buffers.iter_mut().enumerate() {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&(call * MAX_RECORDS + at).to_le_bytes());
            key = (key * 5 + 12_345) % keys.len();
            records.push(Record::in_place(&keys[key], nonce, &aad, &mut buffer[BEFORE..]));
        }
        let begin = Instant::now();
        if way == Way::Single {
            for record in &mut records {
                record.tag = record.key.seal(record.nonce, record.aad, record.bytes);
            }
        } else {
            rhumb_aead::seal(black_box(&mut records));
        }
        ns[0] += begin.elapsed().as_nanos() as f64;
        let begin = Instant::now();
        let holds = if way == Way::Single {
            records.iter_mut().all(|it| it.key.open(it.nonce, it.aad, it.bytes, &it.tag))
        } else {
            rhumb_aead::open(black_box(&mut records)).are_all()
        };
        ns[1] += begin.elapsed().as_nanos() as f64;
        assert!(holds, "what was sealed opens");
    }
    ns.map(|ns| ns / (calls * MAX_RECORDS) as f64)
}

/// Name, value and least value of each target: the lower ratio of sealing and opening counts.
fn targets(rows: &[Row]) -> Vec<(String, f64, f64)> {
    let lower = |row: &Row| row.ratio(0, 0).min(row.ratio(0, 1));
    let mut targets = Vec::new();
    for (len, least) in TARGETS {
        for row in rows.iter().filter(|row| row.len == len && row.way == Way::Batch) {
            targets.push((format!("of_library_{len}"), lower(row), least));
        }
    }
    let of_one_key = rows.iter().filter(|row| row.way != Way::ManyKeys);
    let lowest = of_one_key.map(lower).fold(f64::INFINITY, f64::min);
    targets.push(("of_library_anywhere".to_owned(), lowest, NOWHERE_BELOW));
    targets
}

fn print_text(conditions: &Map<String, Value>, rows: &[Row]) {
    for (name, value) in conditions {
        println!("{name}: {}", value.as_str().unwrap_or_default());
    }
    println!("ns per record to seal / to open, and how many times as long the library takes");
    for row in rows {
        print!("{:>6} {:<10}", row.len, row.way.name());
        for (at, (contender, _)) in row.contenders.iter().enumerate() {
            print!("  {} {:.0}/{:.0}", contender.name(), row.ns(at, 0), row.ns(at, 1));
            if at + 1 < row.contenders.len() {
                print!(" ({:.2}/{:.2})", row.ratio(at, 0), row.ratio(at, 1));
            }
        }
        println!();
    }
    for (name, value, least) in targets(rows) {
        let verdict = if value >= least { "met" } else { "MISSED" };
        println!("{name:<24} {value:>5.2}, at least {least}: {verdict}");
    }
}

fn print_json(conditions: &Map<String, Value>, rows: &[Row]) {
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let rows_json: Vec<Value> = rows
        .iter()
        .map(|row| {
            let contenders: Map<String, Value> = row
                .contenders
                .iter()
                .enumerate()
                .map(|(at, (contender, _))| {
                    let figures = json!({
                        "seal_ns": rounded(row.ns(at, 0)),
                        "open_ns": rounded(row.ns(at, 1)),
                        "seal_of_library": rounded(row.ratio(at, 0)),
                        "open_of_library": rounded(row.ratio(at, 1)),
                    });
                    (contender.name(), figures)
                })
                .collect();
            json!({ "len": row.len, "way": row.way.name(), "backends": contenders })
        })
        .collect();
    let targets: Vec<Value> = targets(rows)
        .into_iter()
        .map(|(name, value, least)| {
            json!({
                "name": name,
                "value": rounded(value),
                "target": format!("at least {least}"),
                "met": value >= least,
            })
        })
        .collect();
    let object = json!({
        "bench": "aead",
        "conditions": conditions,
        "ns_per_record": rows_json,
        "targets": targets,
    });
    println!("{object}");
}
