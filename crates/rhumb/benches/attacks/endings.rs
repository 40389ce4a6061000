//! Sessions that end, a thousand a second, and a handshake that is renewed while there are many
//! flows: what that costs flows it is not about.
//!
//! On two cores those who end their sessions share one with the ends of the flow: in quiet turns
//! they do the same work, and tell a socket that nobody reads. What a flow keeps of its rate where
//! they do nothing is said beside (`rate_of_idle`), and what the forwarding thread spends on ends.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket as BatchSocket};
use rhumb_wire::{Action, Batch, Name, PduHeader, Role};
use serde_json::Value;

use crate::attackers::{AtRate, PATIENCE, Stranger};
use crate::full_rate::{FullRate, exchange_until};
use crate::ground::Daemon;
use crate::harness::Place;
use crate::machine::median;
use crate::member::{self, Form, Member};
use crate::report::{Bound, Report};

pub(crate) fn measure(report: &mut Report) {
    let place = Place::new();
    let rib = Daemon::rib(&place);
    let router = Daemon::router(&place, "router.key", &rib);
    ended_sessions(report, &place, &router);
    renewed_handshakes(report, &place, &rib);
}

fn ended_sessions(report: &mut Report, place: &Place, router: &Daemon) {
    let looked_into = |place: &Place| counter(place, router, "flows_looked_into_again");
    let mut flow = FullRate::through(router);
    let mut caller = Stranger::join(Ipv4Addr::new(127, 12, 0, 1), router.address, Role::Node);
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = Some(nobody.local_addr().unwrap());
    let (mut kept, mut labelled, mut looks, mut rates) = (vec![], vec![], vec![], vec![]);
    let (mut spent, mut of_idle) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let mut turn = |nowhere| turn(router, &mut flow, &mut caller, nowhere);
        let quiet = turn(nowhere);
        let before = looked_into(place);
        let amid = turn(None);
        looks.push(looked_into(place) - before);
        // Before and after, since others are at work, too.
        let quiet = quiet.mean(&turn(nowhere));
        let share = amid.per_s / quiet.per_s;
        kept.push(share);
        // More than the same messages take in quiet.
        spent.push(amid.cpu_of_time - quiet.cpu_of_time * share);
        rates.push(amid.endings_per_s);
        labelled.push(1.0 - amid.lost);
        of_idle.push(amid.per_s / flow.run(SLICE).per_s());
    }
    report.condition("sessions_ended_per_s", median(rates.into_iter()));
    report.target("labelled_share", median(labelled.into_iter()), Bound::AtLeast(0.999));
    report.target("rate", median(kept.into_iter()), Bound::AtLeast(0.95));
    report.target("forwarding_time", median(spent.into_iter()), Bound::AtMost(0.05));
    report.figure("rate_of_idle", median(of_idle.into_iter()));
    report.figure("flows_looked_into_again", median(looks.into_iter()));
}

struct Turn {
    per_s: f64,
    lost: f64,
    /// Of the forwarding thread.
    cpu_of_time: f64,
    endings_per_s: f64,
}

impl Turn {
    /// Of a turn before and one after.
    fn mean(&self, other: &Self) -> Self {
        Self {
            per_s: f64::midpoint(self.per_s, other.per_s),
            lost: f64::midpoint(self.lost, other.lost),
            cpu_of_time: f64::midpoint(self.cpu_of_time, other.cpu_of_time),
            endings_per_s: f64::midpoint(self.endings_per_s, other.endings_per_s),
        }
    }
}

/// A flow while strangers end their sessions, or say so nowhere until the turn is over.
fn turn(
    router: &Daemon,
    flow: &mut FullRate,
    caller: &mut Stranger,
    nowhere: Option<SocketAddr>,
) -> Turn {
    let mut strangers = called_strangers(router.address, caller, flow);
    let unsent = Arc::new(Mutex::new(Vec::new()));
    let later = Arc::clone(&unsent);
    let attack = AtRate::start(ENDINGS_PER_S, move |_| {
        let Some(mut stranger) = strangers.pop() else { return };
        match nowhere {
            Some(nowhere) => stranger.close_towards(nowhere, &mut later.lock().unwrap()),
            None => stranger.close(),
        }
    });
    let (cpu, begun) = (router.forwarding_cpu(), Instant::now());
    let slice = flow.run(SLICE);
    let cpu_of_time = (router.forwarding_cpu() - cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
    let endings_per_s = attack.end();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in unsent.lock().unwrap().iter() {
        socket.send_to(datagram, router.address).unwrap();
        std::thread::sleep(Duration::from_micros(100));
    }
    Turn { per_s: slice.per_s(), lost: slice.lost(), cpu_of_time, endings_per_s }
}

/// Strangers with a flow to each, so that the end of its session is a change.
fn called_strangers(
    router: SocketAddr,
    caller: &mut Stranger,
    flow: &mut FullRate,
) -> Vec<Stranger> {
    let begin = |number: usize| {
        let at = Ipv4Addr::new(127, 13, (number / 20) as u8, 1);
        Stranger::begin(at, router, Role::Node)
    };
    let mut strangers: Vec<Stranger> = Vec::new();
    let count = ENDINGS_PER_S as usize / 2 + 50;
    let mut waiting: Vec<(Instant, Stranger)> = Vec::new();
    let since = Instant::now();
    let mut kept_alive = since;
    while strangers.len() < count {
        if kept_alive.elapsed() > Duration::from_secs(1) {
            flow.run(Duration::from_millis(10));
            strangers.iter_mut().for_each(Stranger::ignore);
            kept_alive = Instant::now();
        }
        assert!(since.elapsed() < 3 * PATIENCE, "{} strangers have joined", strangers.len());
        // No more at once than a router takes of all strangers.
        while waiting.len() < 100 && strangers.len() + waiting.len() < count {
            waiting.push((Instant::now(), begin(strangers.len() + waiting.len())));
        }
        let mut rest = Vec::new();
        for (mut at, mut stranger) in waiting {
            stranger.pump();
            if stranger.is_accepted() {
                strangers.push(stranger);
                continue;
            }
            if stranger.has_session() && at.elapsed() > REPEAT {
                stranger.advertise();
                at = Instant::now();
            }
            rest.push((at, stranger));
        }
        waiting = rest;
        caller.ignore();
        std::thread::sleep(Duration::from_micros(200));
    }
    for stranger in &mut strangers {
        let header = PduHeader::new(Action::Data, caller.name(), stranger.name());
        caller.send(header, &[7; 16], &[]);
        caller.ignore();
        stranger.ignore();
    }
    strangers
}

fn renewed_handshakes(report: &mut Report, place: &Place, rib: &Daemon) {
    let router = Daemon::router(place, "renewals.key", rib);
    let to = Ipv4Addr::new(127, 14, 0, 1);
    let mut peer = Stranger::join(to, router.address, Role::Node);
    let few = renewal_cpu(&router, &mut peer);
    let many_flows = Many::join(&router);
    let flows = many_flows.make(place, &router);
    let many = renewal_cpu(&router, &mut peer);
    report.condition("flows", flows);
    report.figure("renewal_cpu_us", few * 1e6);
    report.figure("renewal_cpu_with_many_flows_us", many * 1e6);
    let more = (many - few) * 1e6;
    report.target("renewal_cpu_more_with_many_flows_us", more, Bound::AtMost(100.0));
}

/// What a renewed handshake takes of the forwarding thread.
fn renewal_cpu(router: &Daemon, peer: &mut Stranger) -> f64 {
    let renewal = |number: u8| {
        let identity = peer.identity.clone();
        // Each from an address of its own, so that none is held up.
        let at = Ipv4Addr::new(127, 15, number, 1);
        std::thread::sleep(Duration::from_millis(20));
        let before = router.forwarding_cpu();
        let mut again = Stranger::begin_as(identity, at, router.address);
        again.wait("a renewed session", |again| again.has_session());
        again.advertise();
        again.wait("an Accept", Stranger::is_accepted);
        std::thread::sleep(Duration::from_millis(5));
        (router.forwarding_cpu() - before).as_secs_f64()
    };
    median((0..RENEWALS).map(renewal))
}

/// Members with many names each, half of whom send to the others.
struct Many {
    sources: Vec<(BatchSocket, Box<Member>, Vec<Name>)>,
    sinks: Vec<(BatchSocket, Box<Member>, Vec<Name>)>,
    router: SocketAddr,
}

impl Many {
    fn join(router: &Daemon) -> Self {
        let join = |number: u8| {
            let at = SocketAddr::from((Ipv4Addr::new(127, 16, number, 1), 0));
            let mut socket = BatchSocket::bind(at, Options::default()).unwrap();
            let at = socket.local_address();
            let mut member = Box::new(Member::new(at, router.name, router.address, member::now()));
            exchange_until(&mut member, &mut socket, Member::is_joined);
            let names = (0..NAMES_EACH).map(|_| {
                let name = member.serve(member::now());
                // Below what strangers of one source may publish.
                exchange_for(&mut member, &mut socket, Duration::from_millis(5));
                name
            });
            let names = names.collect();
            exchange_for(&mut member, &mut socket, Duration::from_millis(200));
            (socket, member, names)
        };
        let sources = (0..2).map(join).collect();
        Self { sources, sinks: (2..4).map(join).collect(), router: router.address }
    }

    /// Sends from each name to each; how many flows there are.
    fn make(mut self, place: &Place, router: &Daemon) -> u64 {
        let mut batch = Batch::new();
        let sinks: Vec<Name> = self.sinks.iter().flat_map(|(.., names)| names.clone()).collect();
        for (socket, member, names) in &mut self.sources {
            for source in names.iter() {
                for some in sinks.chunks(50) {
                    batch.clear();
                    for sink in some {
                        let (to, now) = ((*sink, Form::Names), member::now());
                        member.push_data_as(*source, &mut batch, self.router, to, &[7; 8], now);
                    }
                    socket.send(&batch).unwrap();
                    std::thread::sleep(Duration::from_micros(100));
                }
                let mut discarded = Batch::new();
                for (socket, ..) in &mut self.sinks {
                    while socket.receive(&mut discarded).unwrap() > 0 {}
                }
            }
        }
        router.status(place)["flows"].as_u64().unwrap()
    }
}

fn exchange_for(member: &mut Member, socket: &mut BatchSocket, time: Duration) {
    let begun = Instant::now();
    exchange_until(member, socket, |_| begun.elapsed() > time);
}

fn counter(place: &Place, router: &Daemon, name: &str) -> f64 {
    match &router.status(place)["counters"][name] {
        Value::Number(number) => number.as_f64().unwrap(),
        other => panic!("{name}: {other}"),
    }
}

const ENDINGS_PER_S: u64 = 1000;
const ROUNDS: usize = 3;
/// With as many strangers as end in it.
const SLICE: Duration = Duration::from_millis(500);
const REPEAT: Duration = Duration::from_millis(300);
const RENEWALS: u8 = 25;
const NAMES_EACH: usize = 250;
