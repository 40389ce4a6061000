//! A RIB that strangers have filled, and go on trying to fill, beside
//! one of the same size that they have left alone.

use rhumb_wire::Name;

use crate::attackers::{ATTACKER, Publisher, fill, keep_filling};
use crate::ground::{ANY, Daemon};
use crate::harness::{Place, remote};
use crate::machine::Core;
use crate::report::{Bound, Joins, Report};

/// A RIB that admits its router.
struct Site {
    place: Place,
    rib: Daemon,
    router: Daemon,
}

impl Site {
    fn new() -> Self {
        let place = Place::new();
        place.write(
            "rib.toml",
            &format!("[rib]\ndisk_mib = {DISK_MIB}\nmemory_mib = {MEMORY_MIB}\nstrangers_percent = {PERCENT}\n"),
        );
        place.keygen("rib", "rib.key");
        let router = place.keygen("router", "router.key");
        let words = ["--config", "rib.toml", "rib", "--listen", ANY, "--admin", ANY];
        let more = ["--key", "rib.key", "--admit", &router];
        let rib = Daemon::start(&place, Core::Load, &[&words[..], &more].concat());
        let to_rib = remote(&rib.ready);
        let words = ["router", "--listen", ANY, "--key", "router.key", "--rib", &to_rib];
        let router = Daemon::start(&place, Core::Measured, &words);
        Self { place, rib, router }
    }
}

pub(crate) fn measure(report: &mut Report) {
    let (left_alone, filled) = (Site::new(), Site::new());
    let mut before = Joins::default();
    before.try_some(filled.router.address, JOINS);
    let strangers = fill(filled.rib.address, 13);
    let stored = || strangers.iter().flat_map(|stranger| stranger.stored.iter().copied());
    report.condition("disk_mib", DISK_MIB);
    report.condition("memory_mib", MEMORY_MIB);
    report.condition("strangers_percent", PERCENT);
    report.condition("names_taken_of_strangers", stored().count());
    let some: Vec<Name> = stored().step_by(20).collect();

    let attack = keep_filling(strangers, 500);
    let (mut quiet, mut amid) = (Joins::default(), Joins::default());
    for _ in 0..ROUNDS {
        quiet.try_some(left_alone.router.address, JOINS);
        amid.try_some(filled.router.address, JOINS);
    }
    let names: Vec<Name> = before.names().chain(amid.names()).chain(some).collect();
    let found = Publisher::connect(ATTACKER, filled.rib.address).found(&names);
    report.condition("orders_per_s_meanwhile", attack.end());
    report.joins("", &quiet, &amid);
    report.target("names_found", found as f64 / names.len() as f64, Bound::AtLeast(1.0));
    let resident = filled.rib.resident() as f64 / (MEMORY_MIB << 20) as f64;
    report.target("memory_of_limit", resident, Bound::AtMost(1.0));
    let file = std::fs::metadata(filled.place.path("rib.redb")).unwrap().len();
    report.target("disk_of_limit", file as f64 / (DISK_MIB << 20) as f64, Bound::AtMost(1.0));
}

const DISK_MIB: u64 = 16;
const MEMORY_MIB: u64 = 128;
const PERCENT: u64 = 50;
const ROUNDS: usize = 5;
const JOINS: u8 = 10;
