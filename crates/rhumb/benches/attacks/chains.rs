//! Work that strangers give in many sessions: chains and statements whose
//! signatures are wrong, and sessions themselves.
//!
//! On two cores the attackers share one with the ends of the flow, so in quiet turns they make and
//! send the same chains, to a socket that nobody reads; and what the forwarding thread spends on
//! chains is said beside what the flow keeps.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::attackers::{ATTACKER, Publisher, Stranger, forge_chains, forge_statements};
use crate::full_rate::FullRate;
use crate::ground::Daemon;
use crate::harness::Place;
use crate::machine::median;
use crate::report::{Bound, Joins, Report, quantile};

pub(crate) fn measure(report: &mut Report) {
    let place = Place::new();
    let rib = Daemon::rib(&place);
    let router = Daemon::router(&place, "router.key", &rib);
    bad_chains(report, &router);
    bad_signatures(report, &rib);
    many_sessions(report, &place, &rib);
}

fn bad_chains(report: &mut Report, router: &Daemon) {
    let mut flow = FullRate::through(router);
    let (mut quiet, mut amid) = (Joins::default(), Joins::default());
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = nobody.local_addr().unwrap();
    let (mut kept, mut spent) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quiet.try_some(router.address, JOINS);
        let before = turn(router, &mut flow, nowhere, || ());
        let join = || amid.try_some(router.address, JOINS);
        let during = turn(router, &mut flow, router.address, join);
        report.condition("chains_per_s", during.chains_per_s);
        // Before and after, since others are at work, too.
        let after = turn(router, &mut flow, nowhere, || ());
        let alone = f64::midpoint(before.per_s, after.per_s);
        let cpu_alone = f64::midpoint(before.cpu_of_time, after.cpu_of_time);
        kept.push(during.per_s / alone);
        // More than the same messages take in quiet.
        spent.push(during.cpu_of_time - cpu_alone * during.per_s / alone);
    }
    report.joins("chains_", &quiet, &amid);
    report.target("chains_p99_ms", amid.p99_ms(), Bound::AtMost(50.0));
    report.target("chains_flow_rate", median(kept.into_iter()), Bound::AtLeast(0.9));
    report.target("chains_forwarding_time", median(spent.into_iter()), Bound::AtMost(0.1));
}

/// What a flow had of its router while chains were sent.
struct Turn {
    per_s: f64,
    /// Of the forwarding thread.
    cpu_of_time: f64,
    chains_per_s: f64,
}

/// Has chains sent to an address, and does something else amid them, and measures a flow.
fn turn(router: &Daemon, flow: &mut FullRate, to: SocketAddr, amid: impl FnOnce()) -> Turn {
    let attack = forge_chains(router.address, to, SESSIONS_OF_CHAINS, CHAINS_PER_S);
    amid();
    let (cpu, begun) = (router.forwarding_cpu(), Instant::now());
    let per_s = flow.run(SLICE).per_s();
    let cpu_of_time = (router.forwarding_cpu() - cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
    Turn { per_s, cpu_of_time, chains_per_s: attack.end() }
}

fn bad_signatures(report: &mut Report, rib: &Daemon) {
    let mut honest = Publisher::connect(Ipv4Addr::new(127, 11, 0, 1), rib.address);
    let mut publish = || {
        let mut publish = || {
            let begun = Instant::now();
            honest.publish_any();
            honest.finish();
            begun.elapsed().as_secs_f64()
        };
        (0..PUBLICATIONS).map(|_| publish()).collect::<Vec<f64>>()
    };
    let (mut quiet, mut amid) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quiet.extend(publish());
        let attack = forge_statements(rib.address, 30, STATEMENTS_PER_S);
        std::thread::sleep(Duration::from_millis(300));
        amid.extend(publish());
        report.condition("statements_per_s", attack.end());
    }
    report.target("publish_p99_ms", quantile(&mut amid, 0.99) * 1e3, Bound::AtMost(50.0));
    report.quantiles("publish_", &mut quiet, &mut amid);
}

fn many_sessions(report: &mut Report, place: &Place, rib: &Daemon) {
    let router = Daemon::router(place, "other.key", rib);
    let mut standing: Vec<Stranger> = Vec::new();
    let (mut begun, mut tried) = (Vec::<(Instant, Stranger)>::new(), 0);
    let (address, since) = (router.address, Instant::now());
    let mut kept_alive = since;
    let joins = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        let mut amid = Joins::default();
        amid.try_some(address, JOINS);
        amid
    });
    loop {
        let is_over = tried == SESSIONS || since.elapsed() > TRIED_FOR;
        if is_over && begun.is_empty() {
            break;
        }
        let room = AT_ONCE.saturating_sub(begun.len()).min(SESSIONS - tried).min(20);
        for _ in 0..if is_over { 0 } else { room } {
            let role = rhumb_wire::Role::Node;
            begun.push((Instant::now(), Stranger::begin(ATTACKER, router.address, role)));
            tried += 1;
        }
        begun.iter_mut().for_each(|(_, stranger)| stranger.pump());
        let (done, rest): (Vec<_>, Vec<_>) =
            begun.into_iter().partition(|(_, stranger)| stranger.has_session());
        standing.extend(done.into_iter().map(|(_, stranger)| stranger));
        begun = rest.into_iter().filter(|(at, _)| at.elapsed() < GIVE_UP).collect();
        if kept_alive.elapsed() > Duration::from_secs(1) {
            standing.iter_mut().for_each(Stranger::ignore);
            kept_alive = Instant::now();
        }
    }
    let amid = joins.join().unwrap();
    report.condition("sessions_tried", tried);
    report.condition("sessions_tried_in_s", since.elapsed().as_secs_f64());
    let stand = standing.iter().filter(|stranger| stranger.has_session()).count();
    report.target("sessions_of_one_address", stand as f64, Bound::AtMost(1024.0));
    report.target("sessions_joins_published", amid.share(), Bound::AtLeast(1.0));
    report.figure("sessions_joins_p99_ms", amid.p99_ms());
}

const ROUNDS: usize = 4;
const JOINS: u8 = 10;
const PUBLICATIONS: usize = 50;
const CHAINS_PER_S: u64 = 4000;
const SESSIONS_OF_CHAINS: usize = 40;
const STATEMENTS_PER_S: u64 = 6000;
const SESSIONS: usize = 8000;
/// Far more than a handshake takes here.
const GIVE_UP: Duration = Duration::from_millis(1500);
/// Sessions that are begun and not given up.
const AT_ONCE: usize = 1500;
/// If the machine has no time for all of them.
const TRIED_FOR: Duration = Duration::from_secs(12);
const SLICE: Duration = Duration::from_millis(700);
