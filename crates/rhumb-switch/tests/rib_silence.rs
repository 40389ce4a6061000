//! A RIB that leaves questions unanswered is told of within a
//! moment, though its session is given up much later.

use std::time::Duration;

use rhumb_switch::Event;
use rhumb_wire::metadata::Role;

use crate::world::{World, router_address};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_rib_that_answers_nothing_is_told_of_once_until_it_answers() {
    let mut world = World::new();
    let liar = world.liar(Box::new(|_, truth| Some(truth)));
    let identity = world.identity(Role::Router);
    let router = world.router(identity, router_address(0), None, Some(router_address(0)));
    world.run(SECOND);
    let silent_for = |world: &World| {
        let status = world.routers[router].switch.status(world.now);
        (status.ribs[0].name.is_some(), status.ribs[0].no_answer_since_s)
    };
    let told = |world: &mut World| {
        let events = std::iter::from_fn(|| world.routers[router].switch.poll_event());
        events.filter(|event| matches!(event, Event::RibSilent { .. })).count()
    };
    assert_eq!(silent_for(&world), (true, None));
    // While nothing is asked, there is nothing to answer.
    world.run(10 * SECOND);
    assert_eq!((silent_for(&world), told(&mut world)), ((true, None), 0));
    world.liars[liar].lie = Box::new(|_, _| None);
    world.node(0);
    world.run(5 * SECOND);
    let (has_session, silent) = silent_for(&world);
    assert!(has_session && silent.is_some_and(|lasts| lasts >= 4), "{silent:?}");
    assert_eq!(told(&mut world), 1);
    world.liars[liar].lie = Box::new(|_, truth| Some(truth));
    world.run(5 * SECOND);
    assert_eq!((silent_for(&world), told(&mut world)), ((true, None), 0));
}
