//! What strangers may cost is counted by where they come from: more sessions, more names and roles
//! that they give themselves give them no more, and leave others what they need.

use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_switch::DropReason;
use rhumb_trust::{Access, Rule, Standing};
use rhumb_wire::metadata::Role;
use rhumb_wire::{Action, Name, PduHeader};

use crate::world::{Stranger, World};

const MS: Duration = Duration::from_millis(1);
/// What strangers of one source may have at once.
const MISSES: usize = 2000;
const QUESTIONS: u64 = 100;

fn any_name(number: usize) -> Name {
    let mut name = [9; 32];
    name[..8].copy_from_slice(&(number as u64).to_be_bytes());
    Name(name)
}

fn joined(world: &mut World, role: Role) -> Stranger {
    let mut stranger = Stranger::new(world, 0, role);
    let via = world.routers[0].switch.name();
    let route = stranger.route(via, world);
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    stranger.send(world, header, &[], &[route]);
    stranger
}

fn ping(world: &mut World, from: &mut Stranger, to: Name) {
    let header = PduHeader::new(Action::Ping, from.name(), to);
    from.send(world, header, &[], &[]);
}

#[test]
fn who_asks_for_5500_names_a_second_leaves_ten_of_ten_honest_joins_published() {
    let mut world = World::new();
    world.line(1);
    // It calls itself a router, which gives it nothing.
    let mut stranger = joined(&mut world, Role::Router);
    let mut names = 0;
    for join in 0..10 {
        let identity = world.identity(Role::Node);
        let node = world.node_of(identity, 0);
        for _ in 0..30 {
            for _ in 0..55 {
                names += 1;
                ping(&mut world, &mut stranger, any_name(names));
            }
            world.run(10 * MS);
            stranger.keep_alive(&mut world);
        }
        let published = |event: &Event| {
            matches!(
                event,
                Event::Joined { published: true, .. } | Event::Renewed { published: true, .. }
            )
        };
        let events = &world.nodes[node].events;
        assert!(events.iter().any(published), "join {join}, after 300 ms: {events:?}");
    }
    let asked = world.counters(0).rib_requests;
    assert!(asked < 1500, "{asked} requests in 3 s, for {names} names");
}

#[test]
fn forty_sessions_have_what_one_has_and_another_source_has_its_own() {
    let mut world = World::new();
    // To have a denial proven is a question, too.
    world.config.check_rib_answers = 0;
    world.line(1);
    let (from, to) = (world.node(0), world.node(0));
    let mut strangers: Vec<Stranger> = (0..40).map(|_| joined(&mut world, Role::Node)).collect();
    world.run(1000 * MS);
    strangers.iter_mut().for_each(|stranger| stranger.keep_alive(&mut world));
    let asked = world.counters(0).rib_requests;
    for number in 0..2 * MISSES {
        let stranger = &mut strangers[number % 40];
        ping(&mut world, stranger, any_name(number));
    }
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), MISSES as u64);
    assert_eq!(world.counters(0).rib_requests - asked, QUESTIONS);
    world.send(from, to, b"of another source");
    world.settle();
    assert_eq!(world.nodes[to].received.len(), 1);
}

#[test]
fn who_is_admitted_has_a_share_that_no_stranger_touches() {
    let mut world = World::new();
    // To have a denial proven is a question, too.
    world.config.check_rib_answers = 0;
    world.line(1);
    let mut stranger = joined(&mut world, Role::Node);
    // Of the same host.
    let mut admitted = joined(&mut world, Role::Node);
    let rule = Rule::named(admitted.name(), Standing::Admitted);
    let now = world.now;
    world.routers[0].switch.set_access(Access { rules: vec![rule], ..Access::default() }, now);
    for number in 0..MISSES + 7 {
        ping(&mut world, &mut stranger, any_name(number));
    }
    let dropped = world.dropped(0, DropReason::TooManyMisses);
    let asked = world.counters(0).rib_requests;
    for number in 0..MISSES {
        ping(&mut world, &mut admitted, any_name(1_000_000 + number));
    }
    assert_eq!(world.dropped(0, DropReason::TooManyMisses), dropped);
    assert_eq!(world.counters(0).rib_requests - asked, QUESTIONS);
}
