//! Whether nodes are published while a stranger has their router ask for thousands of names.

use std::time::Duration;

use crate::attackers::ping_random_names;
use crate::ground::Daemon;
use crate::harness::Place;
use crate::report::{Joins, Report};

pub(crate) fn measure(report: &mut Report) {
    let place = Place::new();
    let rib = Daemon::rib(&place);
    let router = Daemon::router(&place, "router.key", &rib);
    let (mut quiet, mut amid) = (Joins::default(), Joins::default());
    for _ in 0..ROUNDS {
        quiet.try_some(router.address, JOINS);
        let attack = ping_random_names(router.address, 5500);
        // Until what it may have at once is used up.
        std::thread::sleep(Duration::from_millis(500));
        amid.try_some(router.address, JOINS);
        report.condition("pings_per_s", attack.end());
    }
    report.joins("", &quiet, &amid);
}

const ROUNDS: usize = 3;
const JOINS: u8 = 10;
