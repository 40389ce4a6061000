//! Three servers answer for a name, the nearest dies without a word, or its router does: for how
//! long nobody answers.
//!
//! A client sends every 10 ms, in worlds of different seeds; what is measured is the longest time
//! after the death in which nothing arrived at any server. Routers are 5, 20 and 40 ms away, and
//! links lose one datagram in a hundred.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId};
use serde_json::json;

use crate::figures::Figures;
use crate::scene::{DELAYS_MS, Scene};

pub(crate) fn measure(figures: &mut Figures) {
    let mut silences: Vec<f64> = Vec::new();
    let (mut nearest, mut all) = (0, 0);
    for seed in 0..WORLDS {
        let mut scene = Scene::new(seed, Conditions { loss: LOSS, ..Conditions::LAN });
        scene.talk(3 * SECOND);
        let arrived = scene.talk(SECOND);
        nearest += arrived[0];
        all += arrived.iter().sum::<usize>();
        let dies = if seed % 2 == 0 { scene.servers[0] } else { scene.routers[0] };
        silences.push(silence_after(&mut scene, dies));
    }
    silences.sort_by(f64::total_cmp);
    let at = |share: usize| silences[silences.len() * share / 100];
    figures.add("anycast_failover_half", "nobody answered for no longer, in half", at(50), "ms");
    let bound = (1000.0, "another one answers within a second");
    figures.hold("anycast_failover_p99", "in 99 of 100", (at(99), "ms"), bound);
    let share = nearest as f64 / f64::from(u32::try_from(all).unwrap_or(u32::MAX)) * 100.0;
    figures.add("anycast_nearest", "of what arrived in peace, at the nearest", share, "percent");
    figures.condition(
        "anycast",
        json!({ "worlds": WORLDS, "servers": DELAYS_MS.len(), "one_way_ms": DELAYS_MS, "loss": LOSS }),
    );
}

/// Milliseconds in which nothing arrived, at most, after somebody died.
fn silence_after(scene: &mut Scene, dies: StationId) -> f64 {
    let died_at = scene.world.now();
    scene.world.apply(&Fault::Crash(dies));
    scene.talk(WATCHED);
    scene.longest_silence(died_at).as_secs_f64() * 1000.0
}

const WORLDS: u64 = 200;
const LOSS: f64 = 0.01;
const SECOND: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(4);
