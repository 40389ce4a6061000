//! RIBs that nobody need trust: one that lies, serves what is old, withholds or contradicts itself
//! is named with what it did, asked last, and traffic goes on; one that is slow or behind is not,
//! and the holder of a name cannot have it named.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use rhumb_switch::{Event, Fault, RibStatus};
use rhumb_trust::{Identity, Window};
use rhumb_wire::metadata::Role;
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Name, Statement};

use crate::world::{Lie, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

/// A liar that tells the truth so far, two honest RIBs, and routers that look at each answer.
fn scene() -> (World, usize) {
    let mut world = World::new();
    world.config.check_rib_answers = 1;
    let liar = world.liar(Box::new(|_, truth| Some(truth)));
    world.replica();
    for index in 0..3 {
        let identity = world.identity(Role::Router);
        let address = router_address(index);
        world.router(identity, address, None, Some(address));
        world.run(SECOND);
    }
    (world, liar)
}

/// One RIB dies, so that nothing that was learnt is relied on any more: all is asked for again.
fn have_all_asked_again(world: &mut World) {
    world.replicas.clear();
    world.run(30 * SECOND);
}

/// How the first router sees the liar, and the honest RIB.
fn seen(world: &World) -> (RibStatus, RibStatus) {
    let ribs = world.routers[0].switch.status(world.now).ribs;
    (ribs[0], ribs[1])
}

fn times(rib: &RibStatus, fault: Fault) -> u64 {
    rib.faults.iter().find(|(label, _)| *label == fault.as_str()).expect("each kind").1
}

fn total(rib: &RibStatus) -> u64 {
    rib.faults.iter().map(|(_, times)| times).sum()
}

fn told(world: &mut World) -> Vec<Fault> {
    let events = std::iter::from_fn(|| world.routers[0].switch.poll_event());
    let faults = events.filter_map(|event| match event {
        Event::RibFault { fault, .. } => Some(fault),
        _ => None,
    });
    faults.collect()
}

/// A new name joins at the second router, and one of the first sends to it.
fn is_reached(world: &mut World) -> bool {
    let (from, to) = (world.node(0), world.node(1));
    world.run(SECOND);
    reaches(world, from, to)
}

fn reaches(world: &mut World, from: usize, to: usize) -> bool {
    let before = world.nodes[to].received.len();
    world.send(from, to, b"does it?");
    world.run(SECOND);
    world.nodes[to].received.len() > before
}

fn of_routes(
    mut lie: impl FnMut(Name, RibResponseBody) -> Option<RibResponseBody> + 'static,
) -> Lie {
    Box::new(move |question, truth| match question {
        RibRequestBody::LookUpRoute(name) => lie(*name, truth),
        _ => Some(truth),
    })
}

/// A denial as a RIB signs it at this moment.
fn denial(rib: &Identity, name: Name, now_s: u64) -> RibResponseBody {
    let statement = Statement::Absence { subject: name };
    let certificate =
        rib.certify(statement, now_s * 1000, Window::starting(now_s, 2)).expect("a signature");
    RibResponseBody::Absent(certificate)
}

/// The clock of the world, for lies.
fn clock(world: &World) -> Rc<Cell<u64>> {
    Rc::new(Cell::new(world.now.unix_s()))
}

/// Looks at names until the liar is suspected, and says of what.
fn found_out(world: &mut World, clock: &Cell<u64>) -> (RibStatus, RibStatus) {
    for count in 0..20 {
        clock.set(world.now.unix_s());
        assert!(is_reached(world), "name {count}");
        let (liar, honest) = seen(world);
        if liar.suspected_of.is_some() {
            return (liar, honest);
        }
    }
    panic!("not found out: {:?}", seen(world));
}

#[test]
fn one_that_forges_is_named_and_asked_last() {
    let (mut world, liar) = scene();
    world.liars[liar].lie = of_routes(|_, mut truth| {
        if let RibResponseBody::Found { certificates, .. } = &mut truth {
            certificates[0].sequence += 1_000_000;
        }
        Some(truth)
    });
    let clock = clock(&world);
    let (lying, honest) = found_out(&mut world, &clock);
    assert_eq!(lying.suspected_of, Some("forged"));
    assert_eq!((total(&lying), total(&honest)), (times(&lying, Fault::Forged), 0));
    assert!(lying.suspected_for_s > Some(500) && lying.last_fault_s.is_some());
    assert_eq!(told(&mut world), [Fault::Forged], "once");
    // The others are asked first as long as that lasts, but for what is put to it to compare.
    let before = world.counters(0).rib_answers_refused;
    assert!((0..4).all(|_| is_reached(&mut world)));
    let asked = world.counters(0).rib_answers_refused - before;
    assert!(asked <= 8, "{asked} forged answers to 4 questions");
}

#[test]
fn one_that_serves_what_is_old_is_named() {
    let (mut world, liar) = scene();
    let mut first = HashMap::new();
    world.liars[liar].lie = of_routes(move |name, truth| {
        if matches!(truth, RibResponseBody::Found { .. }) {
            first.entry(name).or_insert_with(|| truth.clone());
        }
        Some(first.get(&name).cloned().unwrap_or(truth))
    });
    let from = world.node(0);
    let identity = world.identity(Role::Node);
    let before = world.node_of(identity.clone(), 1);
    world.run(SECOND);
    assert!(reaches(&mut world, from, before));
    assert_eq!(total(&seen(&world).0), 0);
    // It moves to the router of who sends, and the old process is gone.
    let now = world.node_of(identity, 2);
    world.run(SECOND);
    world.nodes.remove(before);
    let now = now - 1;
    assert!(reaches(&mut world, from, now));
    have_all_asked_again(&mut world);
    assert!(reaches(&mut world, from, now));
    let (lying, honest) = seen(&world);
    assert_eq!((lying.suspected_of, total(&honest)), (Some("stale"), 0), "{lying:?}");
    assert_eq!(total(&lying), times(&lying, Fault::Stale));
    assert_eq!(told(&mut world), [Fault::Stale]);
}

#[test]
fn one_that_withholds_is_named_by_what_it_says_it_has_stored() {
    let (mut world, liar) = scene();
    let (clock, identity) = (clock(&world), world.liars[liar].identity.clone());
    let now_s = clock.clone();
    world.liars[liar].lie = of_routes(move |name, _| Some(denial(&identity, name, now_s.get())));
    let (lying, honest) = found_out(&mut world, &clock);
    assert_eq!((lying.suspected_of, total(&honest)), (Some("withheld"), 0));
    assert_eq!(total(&lying), times(&lying, Fault::Withheld));
    assert_eq!(told(&mut world), [Fault::Withheld]);
    // Alone it is still asked: what nobody else can say is better than nothing.
    world.rib = None;
    world.replicas.clear();
    world.liars[liar].lie = Box::new(|_, truth| Some(truth));
    world.run(30 * SECOND);
    assert!(is_reached(&mut world));
}

#[test]
fn one_that_denies_what_it_has_shown_is_named() {
    let (mut world, liar) = scene();
    let (clock, identity) = (clock(&world), world.liars[liar].identity.clone());
    let (now_s, mut asked) = (clock.clone(), HashMap::new());
    // To every second question about a name it has another answer.
    world.liars[liar].lie = of_routes(move |name, truth| {
        let count = asked.entry(name).or_insert(0);
        *count += 1;
        match *count % 2 {
            0 => Some(denial(&identity, name, now_s.get())),
            _ => Some(truth),
        }
    });
    let (from, to) = (world.node(0), world.node(1));
    world.run(SECOND);
    assert!(reaches(&mut world, from, to));
    have_all_asked_again(&mut world);
    clock.set(world.now.unix_s());
    assert!(reaches(&mut world, from, to));
    let (lying, honest) = seen(&world);
    assert_eq!((lying.suspected_of, total(&honest)), (Some("contradicted"), 0), "{lying:?}");
    assert_eq!(total(&lying), times(&lying, Fault::Contradicted));
    assert_eq!(told(&mut world), [Fault::Contradicted]);
}

#[test]
fn one_that_is_slow_or_has_missed_something_is_not_named() {
    let (mut world, liar) = scene();
    world.liars[liar].delay = Duration::from_millis(300);
    assert!((0..5).all(|_| is_reached(&mut world)));
    world.liars[liar].delay = Duration::ZERO;
    world.run(5 * SECOND);
    // It misses what is published, as if it were cut off from who publishes, and takes it over
    // when it is shown that.
    let missed = Rc::new(Cell::new(0));
    let count = missed.clone();
    let (clock, identity) = (clock(&world), world.liars[liar].identity.clone());
    let now_s = clock.clone();
    let mut shown: HashMap<Name, u32> = HashMap::new();
    world.liars[liar].lie = Box::new(move |question, truth| match question {
        RibRequestBody::Publish { certificates, .. } => {
            *shown.entry(certificates[0].issuer).or_default() += 1;
            Some(truth)
        }
        RibRequestBody::LookUpRoute(name) if shown.get(name).is_none_or(|times| *times < 2) => {
            count.set(count.get() + 1);
            Some(denial(&identity, *name, now_s.get()))
        }
        _ => Some(truth),
    });
    for _ in 0..10 {
        clock.set(world.now.unix_s());
        assert!(is_reached(&mut world));
    }
    let (behind, honest) = seen(&world);
    assert!(missed.get() > 0 && behind.behind > 0, "{behind:?}");
    assert_eq!((total(&behind), total(&honest)), (0, 0), "{behind:?}");
    assert_eq!(told(&mut world), []);
}

#[test]
fn the_holder_of_a_name_cannot_have_a_rib_named() {
    let (mut world, honest) = scene();
    // It counts what it is shown, and tells nobody of changes.
    let shown = Rc::new(Cell::new(0));
    let count = shown.clone();
    world.liars[honest].is_mute = true;
    let holder = world.identity(Role::Node);
    let (from, to) = (world.node(0), world.node_of(holder.clone(), 1));
    world.run(SECOND);
    assert!(reaches(&mut world, from, to));
    // Its own word ends the name at this RIB, and at no other: from now on it is denied here, as it
    // has to be, and shown there.
    let window = Window::starting(world.now.unix_s(), 1);
    let withdrawal = holder.certify(Statement::Withdrawal, u64::MAX - 1, window).unwrap();
    let stored = world.hear_at_liar(honest, vec![withdrawal]);
    assert_eq!(stored, Some(RibResponseBody::Stored));
    let name = holder.name();
    world.liars[honest].lie = Box::new(move |question, truth| {
        if let RibRequestBody::Publish { certificates, .. } = question
            && certificates[0].issuer == name
        {
            assert!(!matches!(truth, RibResponseBody::Stored), "{truth:?}");
            count.set(count.get() + 1);
        }
        Some(truth)
    });
    have_all_asked_again(&mut world);
    let _ = reaches(&mut world, from, to);
    world.run(5 * SECOND);
    assert!(shown.get() > 0, "it was given the chance to contradict itself");
    let (one, other) = seen(&world);
    assert_eq!((total(&one), total(&other)), (0, 0), "{one:?} {other:?}");
    assert_eq!(told(&mut world), []);
}
