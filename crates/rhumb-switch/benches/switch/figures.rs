//! The series behind the paper's figures, as one JSON object
//! for `cargo xtask figures`, which draws them.

use serde_json::{Map, Value, json};

use crate::cipher_off::CipherOff;
use crate::machine::{self, Core, median};
use crate::member::Form;
use crate::memory::{self, ENTRIES};
use crate::misses;
use crate::path::Path;
use crate::scene::{Bare, Scene};
use crate::{load, sockets, workers};

/// The word that asks for them.
pub(crate) const SERIES: &str = "figures";

pub(crate) fn print(cipher_off: &mut Option<CipherOff>, mut conditions: Map<String, Value>) {
    machine::pin(Core::Measured);
    let memory = in_memory(cipher_off);
    let misses: Vec<Value> =
        misses::PAYLOADS.into_iter().flat_map(misses::measure).map(|row| row.json()).collect();
    let workers = all_workers();
    let path = Path::new();
    let results = sockets::measure(&path, cipher_off, &PAYLOADS, SOCKET_ROUNDS);
    let sockets: Vec<Value> = results.rows.iter().map(socket).collect();
    let entries: [(&str, Value); 5] = [
        ("memory", format!("one flow with a label, batches of 64, {MEMORY_ROUNDS} rounds").into()),
        ("udp", path.describe().into()),
        ("udp_rounds", SOCKET_ROUNDS.into()),
        ("udp_datagrams_a_slice", load::SLICE_DATAGRAMS.into()),
        ("load_average_after", machine::load_average().into()),
    ];
    conditions.extend(entries.map(|(name, value)| (name.to_owned(), value)));
    let object = json!({
        "bench": "figures",
        "conditions": conditions,
        "memory": memory,
        "sockets": sockets,
        "workers": workers,
        "misses": misses,
    });
    println!("{object}");
}

/// Prints those of Figure 5 alone.
pub(crate) fn print_workers() {
    println!("{}", json!({ "bench": "workers", "workers": all_workers() }));
}

fn all_workers() -> Vec<Value> {
    WORKER_PAYLOADS.into_iter().flat_map(workers::measure).map(worker).collect()
}

/// One flow against the bare loop, with the cipher and without.
fn in_memory(cipher_off: &mut Option<CipherOff>) -> Vec<Value> {
    let mut scene = Scene::new(2);
    scene.form = Form::Labels;
    let mut bare = Bare::new(Form::Labels, ENTRIES, 1, 1);
    let mut rows = Vec::new();
    for payload in PAYLOADS {
        let mut slices: [Vec<f64>; 4] = Default::default();
        for _ in 0..MEMORY_ROUNDS {
            slices[0].push(memory::slice(&mut scene, payload));
            slices[1].push(memory::slice(&mut bare, payload));
            if let Some(build) = cipher_off {
                slices[2].push(build.memory_slice(Form::Labels, payload));
                slices[3].push(build.bare_slice(Form::Labels, payload));
            }
        }
        let forwarders = [sockets::SWITCH, "bare", sockets::CIPHER_OFF, "bare, cipher off"];
        for (forwarder, slices) in forwarders.into_iter().zip(slices) {
            if slices.is_empty() {
                continue;
            }
            let ns = median(slices.into_iter());
            rows.push(json!({
                "forwarder": forwarder,
                "payload": payload,
                "ns": rounded(ns),
                "mpps": rounded(1e3 / ns),
                "gbps": rounded(payload as f64 * 8.0 / ns),
            }));
        }
    }
    rows
}

fn socket(row: &sockets::Row) -> Value {
    json!({
        "forwarder": row.forwarder,
        "payload": row.payload,
        "mpps_per_core": rounded(row.gbps_per_core * 1e3 / (row.payload as f64 * 8.0)),
        "gbps_per_core": rounded(row.gbps_per_core),
        "mpps": rounded(row.mpps),
        "gbps": rounded(row.gbps),
        "busy": rounded(row.busy),
        "lost": row.lost,
    })
}

fn worker(row: workers::Row) -> Value {
    json!({
        "workers": row.workers,
        "payload": row.payload,
        "switch_mpps": rounded(row.switch_mpps),
        "bare_mpps": rounded(row.bare_mpps),
    })
}

/// To four decimals: the slowest are thousandths.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Bytes of a PDU's data. 1766 is the most that the paper's switch took.
const PAYLOADS: [usize; 10] = [64, 128, 256, 512, 1000, 1400, 1766, 3000, 6000, 8900];
const WORKER_PAYLOADS: [usize; 2] = [64, 1000];
const MEMORY_ROUNDS: usize = 15;
const SOCKET_ROUNDS: usize = 5;
