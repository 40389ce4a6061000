//! What is refused leaves nothing behind, and what strangers
//! attach has a bound that leaves room for others.

use std::time::Duration;

use rhumb_switch::{Config, DropReason};
use rhumb_trust::{Access, Rule, Standing, Window};
use rhumb_wire::metadata::{Metadata, Role};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
/// What one session may attach.
const NAMES: usize = 256;

fn used(world: &World, table: &str) -> usize {
    let status = world.routers[0].switch.status(world.now);
    status.tables.iter().find(|it| it.name == table).expect("a table").used
}

fn join(world: &mut World, stranger: &mut Stranger) {
    let via = world.routers[0].switch.name();
    let route = stranger.route(via, world);
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    stranger.send(world, header, &[], &[route]);
}

/// Advertises a fresh name by its owner's word for the stranger.
fn serve(world: &mut World, server: &mut Stranger) {
    let via = world.routers[0].switch.name();
    let owner = world.identity(Role::Capsule);
    let window = Window::starting(world.now.unix_s(), 600);
    let statement = Statement::Service { server: server.name(), several: false };
    let word = owner.certify(statement, world.now.unix_ms, window).expect("a key that signs");
    let mut metadata = Vec::new();
    // And those of somebody who has nothing to do with it.
    let other = world.identity(Role::Node);
    let list = [(**owner.metadata()).clone(), (**other.metadata()).clone()];
    Metadata::emit_list(&list, &mut metadata);
    let route = server.route(via, world);
    let header = PduHeader::new(Action::Advertise, owner.name(), via);
    server.send(world, header, &metadata, &[word, route]);
}

#[test]
fn refused_advertisements_fill_no_table() {
    let mut world = World::new();
    world.line(1);
    let mut stranger = Stranger::new(&mut world, 0, Role::Node);
    join(&mut world, &mut stranger);
    for _ in 0..4 {
        for _ in 0..NAMES {
            serve(&mut world, &mut stranger);
        }
        world.run(SECOND);
        stranger.keep_alive(&mut world);
    }
    let attached = used(&world, "attached");
    assert_eq!(attached, NAMES);
    for table in ["metadata", "statements"] {
        let used = used(&world, table);
        assert!(used <= attached + 2, "{used} {table} for {attached} names");
    }
}

#[test]
fn a_lease_of_500_years_is_refused_at_once() {
    let mut world = World::new();
    world.line(1);
    let mut stranger = Stranger::new(&mut world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let requests = world.counters(0).rib_requests;
    for (years, refused) in [(500, 1), (0, 1)] {
        let window = Window::starting(world.now.unix_s(), 600 + years * 366 * 24 * 3600);
        let route = Statement::Route { via, scope: Scope::Any };
        let route = stranger.identity.certify(route, world.now.unix_ms, window).unwrap();
        let header = PduHeader::new(Action::Advertise, stranger.name(), via);
        stranger.send(&mut world, header, &[], &[route]);
        assert_eq!(world.dropped(0, DropReason::LastsTooLong), refused, "{years}");
    }
    assert_eq!(stranger.nacks(), [Reason::BadCertificate]);
    assert!(world.counters(0).rib_requests > requests, "ten minutes are published");
    assert_eq!(used(&world, "attached"), 1);
}

#[test]
fn strangers_of_one_host_leave_room_to_others_and_all_of_them_to_who_is_admitted() {
    const BOUND: usize = 64;
    let mut world = World::new();
    world.config = Config { max_routes: BOUND, ..Config::default() };
    world.line(1);
    let mut strangers: Vec<Stranger> =
        (0..BOUND / 8 + 2).map(|_| Stranger::new(&mut world, 0, Role::Node)).collect();
    for stranger in &mut strangers {
        join(&mut world, stranger);
    }
    let refused: Vec<_> = strangers.iter_mut().flat_map(Stranger::nacks).collect();
    assert_eq!(refused, [Reason::Overloaded(1000); 2]);
    // From another host.
    world.node(0);
    assert_eq!(used(&world, "attached"), BOUND / 8 + 1);
    let admitted = strangers[BOUND / 8].name();
    let rule = Rule::named(admitted, Standing::Admitted);
    let now = world.now;
    world.routers[0].switch.set_access(Access { rules: vec![rule], ..Access::default() }, now);
    strangers.iter_mut().for_each(|stranger| stranger.keep_alive(&mut world));
    for stranger in &mut strangers[BOUND / 8..] {
        join(&mut world, stranger);
    }
    assert_eq!(used(&world, "attached"), BOUND / 8 + 2);
    assert_eq!(strangers[BOUND / 8].nacks(), []);
    // Whoever leaves makes room again.
    strangers[0].close(&world);
    world.settle();
    let last = strangers.last_mut().expect("the one that was refused twice");
    last.nacks();
    join(&mut world, last);
    assert_eq!(last.nacks(), []);
    assert_eq!(used(&world, "attached"), BOUND / 8 + 2);
}
