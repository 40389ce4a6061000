//! What the protocol costs in time and in bytes: setting up a flow, a PDU
//! in each form, moving, and taking a name back.
//!
//! Times are of the simulator's virtual clock, on links of 5 ms each way without loss,
//! over production cores: they are round trips and timers, the same on every machine;
//! computing takes no virtual time but for the verifier, which takes
//! [`rhumb_sim::VERIFIER_TIME`] a job. What verifying really takes is measured beside, as
//! CPU time of one thread. Bytes are read off the wire.
//!
//! | scene | what there is |
//! |---|---|
//! | line | A - R1 - R2 - R3 - B: four links, 20 ms one way; the routers hold sessions with their neighbours |
//! | strangers | A - R1 - R2 - B: two routers that publish their addresses and have not met |
//! | two homes | B is at R2 and finds R1 on its local network when it looks; A sends to it through R1, every 10 ms |
//! | many routers | sixteen routers around one, a node at each, all sending to B |
//!
//! Run by `cargo xtask bench protocol`; `--json` prints one object. Takes about 10 seconds.

#[path = "../../rhumb-io/benches/machine/thread_cpu.rs"]
mod thread_cpu;

use std::time::Duration;

use rhumb_link::{PROBE_INTERVAL, PROBES, QUIET};
use rhumb_node::RouterChoice;
use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_trust::{Identity, Window, verify_chain};
use rhumb_wire::certificate::Locator;
use rhumb_wire::pdu::LabelledHeader;
use rhumb_wire::{Certificate, PduHeader, Role, Scope, Statement};
use serde_json::{Value, json};

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut figures = Vec::new();
    set_up(&mut figures);
    bytes(&mut figures);
    verification(&mut figures);
    hand_over(&mut figures);
    withdrawal(&mut figures);
    if json { print_json(&figures) } else { print_text(&figures) }
}

/// One measured thing, and what it should be.
struct Figure {
    name: String,
    what: &'static str,
    value: f64,
    unit: &'static str,
    /// The bound, with its reason.
    at_most: Option<(f64, &'static str)>,
}

impl Figure {
    fn met(&self) -> Option<bool> {
        self.at_most.map(|(bound, _)| self.value <= bound)
    }
}

// Setting up a flow.

fn set_up(figures: &mut Vec<Figure>) {
    let mut world = World::new(1, LINKS);
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    let other = world.add_node(line[0]);
    world.run(SETTLING);
    let mut add = |name: &str, what, value, at_most| {
        figures.push(Figure { name: name.to_owned(), what, value, unit: "ms", at_most });
    };
    let one_way = ms(LINKS.delay) * 4.0;
    let cold = delivery_ms(&mut world, a, b, 100);
    world.run(SETTLING);
    let known = delivery_ms(&mut world, a, b, 100);
    let warm = delivery_ms(&mut world, other, b, 100);
    add("set_up_cold", "line: no route known, nobody's metadata", cold, None);
    add("set_up_warm", "line: route known, another source", warm, None);
    add("known_flow", "line: the flow is known", known, Some((one_way + 1.0, "the way")));

    let mut world = World::new(2, LINKS);
    world.add_rib();
    let routers = [world.add_router(None), world.add_router(None)];
    let (a, b) = (world.add_node(routers[0]), world.add_node(routers[1]));
    world.run(SETTLING);
    let strangers = delivery_ms(&mut world, a, b, 100);
    add("set_up_strangers", "strangers: cold, and a handshake first", strangers, None);
}

// Bytes on the wire.

fn bytes(figures: &mut Vec<Figure>) {
    let mut world = World::new(3, LINKS);
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(SETTLING);
    let wire = |world: &mut World, from: StationId, to: StationId| {
        world.tap();
        delivery_ms(world, a, b, BODY_BYTES);
        let (from, to) = (world.address(from), world.address(to));
        let tapped = world.tap();
        let between = tapped.iter().filter(|(_, flight)| flight.from == from && flight.to == to);
        between.map(|(_, flight)| flight.bytes.len()).max().unwrap_or_default() - BODY_BYTES
    };
    let with_chain = wire(&mut world, line[0], line[1]);
    world.run(SETTLING);
    let labelled = wire(&mut world, line[0], line[1]);
    // The names that a label spares; the same flow with names
    // cannot be had any more once it has labels.
    let named = labelled + PduHeader::LEN - LabelledHeader::LEN;
    let mut add = |name: &str, what, value: usize, at_most| {
        let (name, value) = (name.to_owned(), value as f64);
        figures.push(Figure { name, what, value, unit: "B", at_most });
    };
    add("overhead_first", "first PDU between routers: names and chain", with_chain, None);
    add("overhead_names", "PDU with names", named, None);
    add("overhead_label", "PDU with a label", labelled, None);
}

// Computing.

fn verification(figures: &mut Vec<Figure>) {
    for len in [1, 2, 4, 8] {
        let (chain, holders) = chain_of(len);
        let origin = holders[0].name();
        let key_of = |name: &rhumb_wire::Name| {
            holders.iter().find(|holder| holder.name() == *name).map(|h| h.metadata().key)
        };
        let mut took: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let began = thread_cpu::now();
                verify_chain(origin, chain.clone(), key_of, NOW_S).expect("a good chain");
                (thread_cpu::now() - began).as_secs_f64() * 1e6
            })
            .collect();
        took.sort_by(f64::total_cmp);
        figures.push(Figure {
            name: format!("verify_chain_{len}"),
            what: "CPU time of verifying a chain of so many certificates, ECDSA P-256",
            value: took[took.len() / 2],
            unit: "us",
            at_most: None,
        });
    }
}

/// A chain whose last certificate is an address, and all who signed it.
fn chain_of(len: usize) -> (Vec<Certificate>, Vec<Identity>) {
    let role = |at| if at == 0 { Role::Node } else { Role::Router };
    let holders: Vec<Identity> =
        (0..len).map(|at| Identity::generate(role(at), NOW_S).expect("a key")).collect();
    let address = "192.0.2.1:4000".parse().expect("an address");
    let chain = holders.iter().enumerate().map(|(at, holder)| {
        let statement = match holders.get(at + 1) {
            Some(next) => Statement::Route { via: next.name(), scope: Scope::Any },
            None => Statement::Locator(Locator::new(address).expect("usable")),
        };
        holder.certify(statement, 1, Window::starting(NOW_S, 600)).expect("signed")
    });
    (chain.collect(), holders)
}

// Moving.

fn hand_over(figures: &mut Vec<Figure>) {
    let scenes: [(&str, &str, Blow, usize, f64, &str); 3] = [
        (
            "address",
            "two homes, B's address changes",
            |world, b, _| world.apply(&Fault::MoveAddress(b)),
            0,
            2.0 * TWO_HOMES_RTT_MS + ms(STREAM_EVERY),
            "two round trips, and detection: the next PDU of its own",
        ),
        (
            "router",
            "two homes, B's router dies",
            |world, _, routers| world.apply(&Fault::Crash(routers[1])),
            0,
            2.0 * TWO_HOMES_RTT_MS + ms(QUIET + PROBE_INTERVAL * PROBES as u32),
            "two round trips, and detection by probes",
        ),
        (
            "router_known",
            "two homes, B's router dies after a minute",
            |world, _, routers| world.apply(&Fault::Crash(routers[1])),
            MINUTE_PDUS,
            1000.0,
            "one second: fewer probes where none was lost before",
        ),
    ];
    for (name, what, fault, before, bound, reason) in scenes {
        let stream = move_while_streaming(fault, before);
        let mut add = |suffix: &str, what, value, unit, at_most| {
            let name = format!("hand_over_{name}_{suffix}");
            figures.push(Figure { name, what, value, unit, at_most });
        };
        add("gap", what, stream.gap_ms, "ms", Some((bound, reason)));
        add("late", "PDUs of the stream that came later than usual", stream.late, "PDUs", None);
        add("lost", "PDUs of the stream that never came", stream.lost, "PDUs", None);
    }
}

/// What happens to B or its router.
type Blow = fn(&mut World, StationId, [StationId; 2]);

struct Stream {
    gap_ms: f64,
    late: f64,
    lost: f64,
}

/// A sends to B every 10 ms, and B to A, while B moves; so many PDUs each way before.
fn move_while_streaming(fault: Blow, known: usize) -> Stream {
    let mut world = World::new(4, LINKS);
    world.add_rib();
    let routers = [world.add_router(None), world.add_router(None)];
    let a = world.add_node(routers[0]);
    let b = world.add_node_with(routers[1], |config| config.router = RouterChoice::discovered());
    // The second is heard of only once it is needed, so that B is where it should be.
    world.put_nearby(b, &routers[1..]);
    world.run(SETTLING);
    world.put_nearby(b, &routers);
    for _ in 0..10 {
        delivery_ms(&mut world, a, b, 100);
        delivery_ms(&mut world, b, a, 100);
    }
    let usual = Duration::from_secs_f64(delivery_ms(&mut world, a, b, 100) / 1e3);
    for _ in 0..known {
        let _ = (world.send(a, b, 100), world.send(b, a, 100));
        world.run(STREAM_EVERY);
    }
    world.run(SETTLING);
    let before = world.received(b).len();
    let mut sent = 0;
    for at in 0..STREAM_PDUS {
        if at == STREAM_PDUS / 4 {
            fault(&mut world, b, routers);
        }
        sent += usize::from(world.send(a, b, 100).is_ok());
        // B has something to say too: a router that is silent is noticed by whoever talks to it.
        let _ = world.send(b, a, 100);
        world.run(STREAM_EVERY);
    }
    world.run(SETTLING);
    let end = world.now();
    let received = &world.received(b)[before..];
    // A stream that never came back has its gap until the end.
    let last_is_in = received.last().is_some_and(|last| last.at + STREAM_EVERY >= end - SETTLING);
    let times = received.iter().map(|delivery| delivery.at).chain((!last_is_in).then_some(end));
    let gap =
        times.clone().zip(times.skip(1)).map(|(at, next)| next - at).max().unwrap_or_default();
    let is_late = |number: u64, at: Duration| {
        at - world.message(number).sent_at > usual + Duration::from_millis(1)
    };
    Stream {
        gap_ms: ms(gap),
        late: received.iter().filter(|d| is_late(d.number, d.at)).count() as f64,
        lost: (sent - received.len()) as f64,
    }
}

// Taking a name back.

fn withdrawal(figures: &mut Vec<Figure>) {
    let mut world = World::new(5, LINKS);
    world.add_rib();
    let middle = world.add_router(None);
    let b = world.add_node(middle);
    let routers: Vec<_> = (0..MANY).map(|_| world.add_router(Some(middle))).collect();
    let nodes: Vec<_> = routers.iter().map(|router| world.add_node(*router)).collect();
    world.run(SETTLING);
    for node in &nodes {
        delivery_ms(&mut world, *node, b, 100);
    }
    let changes = |world: &World| -> Vec<u64> {
        let of = |router: &StationId| {
            world.switch(*router).map_or(0, |switch| switch.counters().rib_changes)
        };
        routers.iter().map(of).collect()
    };
    let (before, began) = (changes(&world), world.now());
    world.apply(&Fault::Leave(b));
    while world.now() < began + SETTLING
        && changes(&world).iter().zip(&before).any(|(now, before)| now == before)
    {
        world.run(Duration::from_millis(1));
    }
    figures.push(Figure {
        name: "withdrawal_everywhere".to_owned(),
        what: "many routers: until the last of sixteen that cached the route has ended it",
        value: ms(world.now() - began),
        unit: "ms",
        at_most: Some((1000.0, "one second")),
    });
}

// Printing.

fn print_text(figures: &[Figure]) {
    println!("virtual time: links of {} ms each way, no loss", LINKS.delay.as_millis());
    for figure in figures {
        let verdict = match (figure.at_most, figure.met()) {
            (Some((bound, reason)), Some(met)) => {
                format!("at most {bound} ({reason}): {}", if met { "met" } else { "MISSED" })
            }
            _ => String::new(),
        };
        let Figure { name, what, value, unit, .. } = figure;
        println!("{name:<24} {value:>8.1} {unit:<4} {what}");
        if !verdict.is_empty() {
            println!("{:24} {:>8} {verdict}", "", "");
        }
    }
}

fn print_json(figures: &[Figure]) {
    let (mut targets, mut others) = (Vec::new(), Vec::new());
    for Figure { name, value, unit, at_most, .. } in figures {
        let value = (value * 10.0).round() / 10.0;
        match at_most {
            Some((bound, reason)) => targets.push(json!({
                "name": name,
                "value": value,
                "target": format!("at most {bound} {unit}: {reason}"),
                "met": value <= *bound,
            })),
            None => others.push(json!({ "name": name, "value": value, "unit": unit })),
        }
    }
    let conditions: Value = json!({
        "clock": "virtual, but for CPU times",
        "delay_ms": LINKS.delay.as_millis() as u64,
        "loss": LINKS.loss,
        "verifier_us": rhumb_sim::VERIFIER_TIME.as_micros() as u64,
    });
    let object = json!({ "bench": "protocol", "conditions": conditions, "figures": others, "targets": targets });
    println!("{object}");
}

// Helpers.

/// Sends one message and says how long it took to arrive.
fn delivery_ms(world: &mut World, from: StationId, to: StationId, len: usize) -> f64 {
    let before = world.received(to).len();
    let sent_at = world.now();
    world.send(from, to, len).expect("there is room");
    assert!(
        world.run_until(SETTLING, |world| world.received(to).len() > before),
        "{}",
        world.history()
    );
    ms(world.received(to)[before].at - sent_at)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const LINKS: Conditions = Conditions { delay: Duration::from_millis(5), ..Conditions::LAN };
const SETTLING: Duration = Duration::from_secs(10);
const BODY_BYTES: usize = 500;
const STREAM_PDUS: usize = 1000;
const MINUTE_PDUS: usize = 6000;
const STREAM_EVERY: Duration = Duration::from_millis(10);
/// A, R1, R2, B and back.
const TWO_HOMES_RTT_MS: f64 = 30.0;
const MANY: usize = 16;
const ROUNDS: usize = 200;
const NOW_S: u64 = 1_000_000;
