//! How a flow shares a link with TCP's cubic, which most of the world uses: both begin together,
//! and what each has after its beginning counts.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::flows::{Flow, Progress, pause};
use crate::machine::median;
use crate::place::Place;
use crate::report::{Report, Target};
use crate::wire::{Kind, RATE_BYTES_PER_S, Wire};

const OTHER: Flow = Flow::Tcp("cubic");
/// Who is looked at beside it.
const FLOWS: [Flow; 3] = [Flow::File, Flow::Tcp("bbr"), OTHER];

pub(crate) fn run(rounds: usize, report: &mut Report) -> Result<(), String> {
    let wire = Wire::new(Kind { round_trip: ROUND_TRIP, loss: 0.0 })?;
    let place = Place::along(&wire);
    let mut shares: [Vec<[f64; 2]>; FLOWS.len()] = Default::default();
    for round in 0..rounds {
        for turn in 0..FLOWS.len() {
            let at = (round + turn) % FLOWS.len();
            let both = beside(FLOWS[at], &place);
            report.progress(&format!("{} beside cubic: {both:.3?}", FLOWS[at].name()));
            shares[at].push(both);
        }
    }
    for (flow, both) in FLOWS.iter().zip(&shares) {
        let of = |at: usize| median(both.iter().map(|it| it[at]));
        report.row("fairness", flow.name(), &[("itself", of(0)), ("cubic", of(1))]);
    }
    let of = |flow: usize, at: usize| median(shares[flow].iter().map(|it| it[at]));
    report.target(Target::at_least("file_beside_cubic".into(), of(0, 0), LEAST_SHARE));
    report.target(Target::at_least("cubic_beside_file".into(), of(0, 1), LEAST_SHARE));
    let of_bbrs = of(0, 1) / of(1, 1);
    report.target(Target::at_least("cubic_beside_file_of_beside_bbr".into(), of_bbrs, 1.0));
    Ok(())
}

/// What a flow and the other one have of the link.
fn beside(flow: Flow, place: &Place<'_>) -> [f64; 2] {
    let both = [Progress::default(), Progress::default()];
    std::thread::scope(|scope| {
        for (flow, progress) in [flow, OTHER].into_iter().zip(&both) {
            scope.spawn(move || flow.run(place, ENDLESS, progress));
        }
        let arrived = || both.each_ref().map(|it| it.arrived.load(Ordering::Relaxed));
        pause(BEGINNING);
        let (before, since) = (arrived(), Instant::now());
        pause(TIME);
        let (after, took) = (arrived(), since.elapsed());
        for progress in &both {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let link = took.as_secs_f64() * RATE_BYTES_PER_S as f64;
        [0, 1].map(|at| (after[at] - before[at]) as f64 / link)
    })
}

const ROUND_TRIP: Duration = Duration::from_millis(50);
/// What neither should fall below.
const LEAST_SHARE: f64 = 0.3;
/// More than there is time for.
const ENDLESS: u64 = 1 << 30;
/// Until both have found their pace.
const BEGINNING: Duration = Duration::from_secs(4);
const TIME: Duration = Duration::from_secs(20);
