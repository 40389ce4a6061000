//! A node that says by which trust domain it is known outside: after each word about where it is,
//! until the router takes it or says why not; and nobody makes that word a claim against it.

use std::time::Duration;

use rhumb_node::Export;
use rhumb_node::core::Event;
use rhumb_trust::Window;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, Name, Scope, Statement};

use crate::world::{OnAdvertise, START_S, Seen, World};

const SECOND: Duration = Duration::from_secs(1);
const DOMAIN: Name = Name([5; 32]);

fn world() -> World {
    World::with(|config| config.export = Some(Export { domain: DOMAIN, up_to: None }))
}

/// The advertisements that say by which domain the node is known, and nothing else.
fn exports(world: &World) -> Vec<Seen> {
    let mut seen = world.router.seen(Action::Advertise);
    seen.retain(|it| it.certificates[0].statement.exports_by().is_some());
    assert!(seen.iter().all(|it| it.certificates.len() == 1));
    seen
}

#[test]
fn it_follows_each_word_that_was_taken_and_goes_alone() {
    let mut world = world();
    world.run_for(SECOND);
    let [route, export] = &world.router.seen(Action::Advertise)[..] else { panic!("two") };
    assert_eq!(route.certificates[0].statement.exports_by(), None);
    assert_eq!(export.certificates[0].statement.exports_by(), Some(DOMAIN));
    assert!(export.certificates[0].sequence > route.certificates[0].sequence);
    // Again with the renewal, at half the lease.
    world.run_for(310 * SECOND);
    assert_eq!(exports(&world).len(), 2);
    let mut plain = World::new();
    plain.run_for(310 * SECOND);
    assert!(exports(&plain).is_empty());
}

#[test]
fn it_is_said_with_each_lease_in_the_same_words_for_half_an_hour() {
    let mut world = world();
    world.run_for(3700 * SECOND);
    let mut words: Vec<_> = exports(&world).into_iter().map(|it| it.certificates).collect();
    assert!(words.len() >= 12, "{}", words.len());
    let window_s = |it: &[Certificate]| it[0].not_after_s - it[0].not_before_s;
    assert!(words.iter().all(|it| (3600..3700).contains(&window_s(it))));
    words.dedup();
    assert_eq!(words.len(), 3, "at the start, after half an hour, and after an hour");
    // One that was refused is not said again.
    let last = exports(&world).pop().unwrap();
    world.nack(&last, Reason::BadCertificate);
    world.run_for(320 * SECOND);
    assert_ne!(exports(&world).pop().unwrap().certificates, last.certificates);
}

#[test]
fn it_is_repeated_until_it_is_answered_and_told_when_it_is_refused() {
    let mut world = world();
    while world.router.seen(Action::Advertise).is_empty() {
        world.run_for(Duration::from_millis(1));
    }
    // From the Accept of the name on the router says nothing.
    world.router.on_advertise = OnAdvertise::Silence;
    world.run_for(5 * SECOND);
    let unanswered = exports(&world);
    assert!((3..=6).contains(&unanswered.len()), "{}", unanswered.len());
    world.nack(&unanswered[0], Reason::NotAuthorised);
    world.run_for(5 * SECOND);
    let told = Event::NotExported { reason: Reason::NotAuthorised };
    assert_eq!(world.events.iter().filter(|event| **event == told).count(), 1);
    assert_eq!(exports(&world).len(), unanswered.len(), "it is not repeated any more");
    assert!(world.core.is_joined());
}

#[test]
fn what_is_published_with_it_is_the_name_as_well() {
    let mut world = world();
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: false };
    let is_published = |world: &World| world.core.lease().is_some_and(|lease| lease.published);
    while exports(&world).is_empty() {
        world.run_for(Duration::from_millis(1));
    }
    assert!(world.core.is_joined() && !is_published(&world));
    // A router answers the latest word of a name.
    let tag = exports(&world)[0].header.tag;
    world.router.accept(world.identity.name(), tag, START_S + 600, true, world.now);
    world.run_for(Duration::from_millis(10));
    assert!(is_published(&world));
}

#[test]
fn what_is_refused_after_it_seemed_to_be_taken_is_told_too() {
    let mut world = world();
    world.run_for(SECOND);
    let taken = exports(&world)[0].clone();
    world.nack(&taken, Reason::NotAuthorised);
    world.run_for(SECOND);
    let told = Event::NotExported { reason: Reason::NotAuthorised };
    assert!(world.events.contains(&told), "{:?}", world.events);
    assert!(world.core.is_joined());
}

#[test]
fn shown_to_the_node_itself_it_is_no_claim_of_another_process() {
    let mut world = world();
    world.run_for(SECOND);
    let about = world.router.seen(Action::Advertise)[0].header;
    world.router.shown = exports(&world)[0].certificates.clone();
    world.router.supersede(about, world.now);
    world.run_for(SECOND);
    let displaced = |event: &Event| matches!(event, Event::Displaced { .. });
    assert!(!world.events.iter().any(displaced), "{:?}", world.events);
    assert!(world.core.is_joined());
}

#[test]
fn it_goes_on_from_its_own_newest_word() {
    let mut world = world();
    world.run_for(SECOND);
    let taken = exports(&world)[0].clone();
    let scope = Scope::ByDomain { up_to: None };
    let window = Window::starting(START_S, 600);
    let earlier = Statement::Route { via: DOMAIN, scope };
    let ahead = world.identity.certify(earlier, START_S * 1000 + 3_600_000, window).unwrap();
    world.router.shown = vec![ahead.clone()];
    world.router.supersede(taken.header, world.now);
    world.run_for(SECOND);
    assert_eq!(exports(&world)[1].certificates[0].sequence, ahead.sequence + 1);
    assert!(world.core.is_joined());
}
