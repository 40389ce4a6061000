//! Whether a flow over two routers is delivered whole
//! while somebody tries to have its route forgotten.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_wire::Name;

use crate::attackers::{AtRate, Flow, forge_certificates, lower_ttl};
use crate::ground::Daemon;
use crate::harness::Place;
use crate::report::{Bound, Report};

type Attack = fn(SocketAddr, Name, u64) -> AtRate;

pub(crate) fn measure(report: &mut Report) {
    let place = Place::new();
    let rib = Daemon::rib(&place);
    let [first, second] = ["first.key", "second.key"].map(|key| Daemon::router(&place, key, &rib));
    let mut flow = Flow::between(first.address, second.address);
    report.condition("flow_per_s", FLOW_PER_S);
    let attacks: [(&str, Attack, u64); 3] = [
        ("forged_certificates_100_per_s", forge_certificates, 100),
        ("forged_certificates_500_per_s", forge_certificates, 500),
        ("ttl_2_500_per_s", lower_ttl, 500),
    ];
    let mut quiet = Vec::new();
    let mut shares = attacks.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, attack, per_s), shares) in attacks.iter().zip(&mut shares) {
            quiet.push(flow.run(FLOW_PER_S, SLICE).share());
            let attack = attack(first.address, flow.sink(), *per_s);
            shares.push(flow.run(FLOW_PER_S, SLICE).share());
            attack.end();
        }
    }
    report.figure("quiet_delivered", mean(&quiet));
    for ((name, ..), shares) in attacks.iter().zip(&shares) {
        report.target(format!("{name}_delivered"), mean(shares), Bound::AtLeast(1.0));
    }
}

/// All turns are of one length, so that this is the share of all that was sent.
fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

const FLOW_PER_S: u64 = 200;
const SLICE: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 2;
