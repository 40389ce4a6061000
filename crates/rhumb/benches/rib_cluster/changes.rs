//! How soon a change through one RIB is told by another to whoever has asked there.

use std::time::{Duration, Instant};

use rhumb_wire::rib::{RibRequestBody, RibResponseBody};

use crate::machine::median;
use crate::report::Report;
use crate::servers::Ribs;

const CHANGES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn measure(ribs: &mut Ribs, report: &mut Report) {
    let (mut tells, mut asks) = (ribs.connect_other(0), ribs.connect(1));
    let (mut told, mut stored) = (Vec::new(), Vec::new());
    for change in 0..CHANGES {
        let holder = change * (ribs.holders.len() / CHANGES);
        let name = ribs.holders[holder].name();
        let asked = asks.ask(RibRequestBody::LookUpRoute(name));
        wait_for(|| {
            let answers = asks.answers(Duration::from_millis(5));
            answers
                .iter()
                .any(|it| it.id == asked && matches!(it.body, RibResponseBody::Found { .. }))
        });
        // At no fixed time between two looks of the other RIB.
        std::thread::sleep(Duration::from_millis(change as u64 * 37 % 250));
        let began = Instant::now();
        let order = ribs.move_away(holder);
        let sent = tells.ask(order);
        wait_for(|| {
            let answers = tells.answers(Duration::from_millis(1));
            answers.iter().any(|it| it.id == sent && it.body == RibResponseBody::Stored)
        });
        stored.push(began.elapsed().as_secs_f64());
        wait_for(|| {
            let answers = asks.answers(Duration::from_millis(1));
            answers.iter().any(|answer| {
                matches!(&answer.body, RibResponseBody::Changed { name: of, .. } if *of == name)
            })
        });
        told.push(began.elapsed().as_secs_f64());
    }
    let longest = told.iter().copied().fold(0.0, f64::max);
    report.figure("order_by_protocol_ms", median(stored.into_iter()) * 1e3);
    report.figure("change_told_by_another_rib_ms", median(told.into_iter()) * 1e3);
    report.at_most("longest_change_told_s", longest, 1.0);
}

/// Waits for what must come.
fn wait_for(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "no answer");
    }
}
