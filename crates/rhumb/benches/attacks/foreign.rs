//! OpenSSL's handshakes amid hellos in the name of others.

use std::time::Duration;

use crate::attackers::{OpenSsl, spoof_hellos};
use crate::ground::Daemon;
use crate::harness::Place;
use crate::report::{Bound, Report};

pub(crate) fn measure(report: &mut Report) {
    let place = Place::new();
    let Ok(openssl) = OpenSsl::new(place.folder()) else {
        report.condition("skipped", "without openssl");
        return;
    };
    let rib = Daemon::rib(&place);
    let router = Daemon::router(&place, "router.key", &rib);
    let whole = |count| {
        let handshakes = (0..count).map(|_| openssl.handshake(router.address, WITHIN));
        handshakes.flatten().map(|took| took.as_secs_f64()).collect::<Vec<f64>>()
    };
    let (mut quiet, mut amid, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quiet.extend(whole(HANDSHAKES / 2));
        let attack = spoof_hellos(router.address, RATE);
        amid.extend(whole(HANDSHAKES));
        rates.push(attack.end());
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    report.condition("hellos_per_s", mean);
    let tried = (HANDSHAKES * ROUNDS) as f64;
    report.figure("quiet_whole", quiet.len() as f64 / (tried / 2.0));
    report.target("whole_within_2_s", amid.len() as f64 / tried, Bound::AtLeast(0.99));
    report.quantiles("", &mut quiet, &mut amid);
}

const RATE: u64 = 20_000;
const WITHIN: Duration = Duration::from_secs(2);
const HANDSHAKES: usize = 34;
const ROUNDS: usize = 3;
