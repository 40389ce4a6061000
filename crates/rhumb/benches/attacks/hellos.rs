//! Proven hellos, each of which would begin a handshake anew: what a flow keeps of its rate, and
//! what the forwarding thread spends.
//!
//! On two cores load and attackers share one, which may be the narrow place; so what the forwarding
//! thread spends on hellos is said beside: as long as that is below a twentieth of its time, a flow
//! that has the rest keeps 0.95 of its rate.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::attackers::ProvenHellos;
use crate::full_rate::FullRate;
use crate::ground::Daemon;
use crate::harness::Place;
use crate::machine::median;
use crate::report::{Bound, Report};

pub(crate) fn measure(report: &mut Report) {
    let place = Place::new();
    let rib = Daemon::rib(&place);
    let router = Daemon::router(&place, "router.key", &rib);
    let mut flow = FullRate::through(&router);
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = nobody.local_addr().unwrap();
    report.condition("hellos_per_s", RATE);
    report.condition("many_addresses", MANY);
    report.condition("rounds", ROUNDS);
    for (which, addresses) in [("one_address", 1), ("many_addresses", MANY)] {
        let mut hellos = ProvenHellos::new(addresses);
        let (mut at_first, mut kept, mut spent, mut rates) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            hellos.prove(router.address);
            let shared = Arc::new(hellos);
            let quiet = turn(&router, &mut flow, &shared, nowhere);
            let attack = turn(&router, &mut flow, &shared, router.address);
            let after = turn(&router, &mut flow, &shared, nowhere);
            let quiet = quiet.mean(&after);
            hellos = Arc::into_inner(shared).unwrap();
            at_first.push(attack.at_first / quiet.at_first);
            kept.push(attack.then / quiet.then);
            // More than the same messages take in quiet.
            spent.push(attack.cpu_of_time - quiet.cpu_of_time * attack.then / quiet.then);
            rates.push(attack.hellos_per_s);
        }
        report.condition(&format!("{which}_sent_per_s"), median(rates.into_iter()));
        report.figure(format!("{which}_rate_in_first_half_second"), median(at_first.into_iter()));
        let share = median(kept.into_iter());
        report.target(format!("{which}_rate"), share, Bound::AtLeast(0.95));
        let spent = median(spent.into_iter());
        report.target(format!("{which}_forwarding_time"), spent, Bound::AtMost(0.05));
    }
    let dropped = &router.status(&place)["dropped_datagrams"];
    report.condition("dropped_datagrams", dropped.clone());
}

struct Turn {
    /// Messages a second, in the first moments, while what may be begun at once is.
    at_first: f64,
    /// And once it has been.
    then: f64,
    /// Of the forwarding thread.
    cpu_of_time: f64,
    hellos_per_s: f64,
}

impl Turn {
    /// Of a turn before and one after, since others are at work, too.
    fn mean(&self, other: &Self) -> Self {
        Self {
            at_first: f64::midpoint(self.at_first, other.at_first),
            then: f64::midpoint(self.then, other.then),
            cpu_of_time: f64::midpoint(self.cpu_of_time, other.cpu_of_time),
            hellos_per_s: f64::midpoint(self.hellos_per_s, other.hellos_per_s),
        }
    }
}

fn turn(router: &Daemon, flow: &mut FullRate, hellos: &Arc<ProvenHellos>, to: SocketAddr) -> Turn {
    let attack = hellos.start(to, RATE);
    let at_first = flow.run(Duration::from_millis(500)).per_s();
    let before = router.forwarding_cpu();
    let begun = Instant::now();
    let slice = flow.run(Duration::from_millis(500));
    let cpu = router.forwarding_cpu() - before;
    let cpu_of_time = cpu.as_secs_f64() / begun.elapsed().as_secs_f64();
    Turn { at_first, then: slice.per_s(), cpu_of_time, hellos_per_s: attack.end() }
}

/// As the attack that was seen.
const RATE: u64 = 12_000;
/// Enough for all of them to be below what one source may begin.
const MANY: u16 = 1000;
/// One alone says little where others are at work, too.
const ROUNDS: usize = 25;
