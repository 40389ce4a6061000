//! What share of a link each contestant has who is alone on it: 100 Mbit/s, with several delays and
//! losses. All go over the same wire, one after the other, and the turn begins with another one in
//! each round.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::flows::{Flow, Progress, pause};
use crate::machine::median;
use crate::place::Place;
use crate::report::{Report, Target};
use crate::wire::{Kind, RATE_BYTES_PER_S, Wire};

/// Who competes; the first is held against the second.
const FLOWS: [Flow; 4] = [Flow::File, Flow::Tcp("bbr"), Flow::Tcp("cubic"), Flow::Quic("bbr")];

/// Round trips in milliseconds, and parts of the packets that get lost.
pub(crate) const CELLS: [(u64, f64); 9] = [
    (10, 0.0),
    (10, 0.001),
    (10, 0.01),
    (50, 0.0),
    (50, 0.001),
    (50, 0.01),
    (200, 0.0),
    (200, 0.001),
    (200, 0.01),
];

pub(crate) fn run(cells: &[(u64, f64)], rounds: usize, report: &mut Report) -> Result<(), String> {
    for &(round_trip_ms, loss) in cells {
        let kind = Kind { round_trip: Duration::from_millis(round_trip_ms), loss };
        let wire = Wire::new(kind)?;
        let place = Place::along(&wire);
        let mut shares: [Vec<f64>; FLOWS.len()] = Default::default();
        for round in 0..rounds {
            for turn in 0..FLOWS.len() {
                let at = (round + turn) % FLOWS.len();
                let share = goodput(FLOWS[at], &place) / RATE_BYTES_PER_S as f64;
                report.progress(&format!("{}: {share:.3}", FLOWS[at].name()));
                shares[at].push(share);
            }
        }
        let [file, bbr, cubic, quic] = shares.map(|it| median(it.into_iter()));
        let cell = format!("{round_trip_ms}ms_{}%", loss * 100.0);
        report.row(
            "links",
            &cell,
            &[
                ("file", file),
                ("tcp_bbr", bbr),
                ("tcp_cubic", cubic),
                ("quic_bbr", quic),
                ("file_of_bbr", file / bbr),
                ("file_of_quic_bbr", file / quic),
            ],
        );
        let name = format!("file_of_tcp_bbr_{cell}");
        report.target(Target::at_least(name, file / bbr, OF_BBR));
    }
    Ok(())
}

/// Bytes a second, from the first that arrived to the last.
fn goodput(flow: Flow, place: &Place<'_>) -> f64 {
    let progress = Progress::default();
    std::thread::scope(|scope| {
        scope.spawn(|| flow.run(place, BYTES, &progress));
        let mut began = None;
        loop {
            let (arrived, now) = (progress.arrived.load(Ordering::Relaxed), Instant::now());
            let (first, since) = *began.get_or_insert((arrived, now));
            if first == 0 && arrived > 0 {
                began = Some((arrived, now));
            }
            let took = now - since;
            if arrived >= BYTES || first > 0 && took >= LONGEST || took >= GIVES_UP {
                progress.stop.store(true, Ordering::Relaxed);
                return (arrived - first) as f64 / took.as_secs_f64();
            }
            pause(GLANCE);
        }
    })
}

/// What a file has in terms of TCP with BBR, at the least.
const OF_BBR: f64 = 0.9;
/// Of a file: a good three seconds of the link.
const BYTES: u64 = 40_000_000;
/// Who takes longer is stopped, and held to what has arrived.
const LONGEST: Duration = Duration::from_secs(10);
/// Nothing at all has come.
const GIVES_UP: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(1);
