//! What a switch tells about itself is what it does: its tables, its newest
//! flows, who is let in, and its own certificates.

use std::time::Duration;

use rhumb_switch::{DEFAULT_LEASE_S, DropReason, LISTED};
use rhumb_wire::Statement;

use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn flows_grants_and_certificates_are_told_with_the_time_they_have_left() {
    let mut world = World::new();
    world.line(2);
    let (a, b) = (world.node(0), world.node(1));
    world.send(a, b, b"hello");
    world.run(SECOND);
    let [near, far] = [0, 1].map(|router| world.routers[router].switch.status(world.now));
    let lease = 1..=DEFAULT_LEASE_S;

    let flow = near.newest_flows[0];
    assert_eq!((flow.source, flow.destination), (world.name(a), world.name(b)));
    assert_eq!(flow.next, Some(far.name));
    assert!(lease.contains(&flow.expires_in_s), "{flow:?}");
    let grant = near.some_grants.iter().find(|grant| grant.name == world.name(a)).unwrap();
    assert_eq!(grant.from, Some(world.name(a)));
    assert!(lease.contains(&grant.expires_in_s), "{grant:?}");
    let grant = far.some_grants.iter().find(|grant| grant.name == world.name(a)).unwrap();
    assert_eq!(grant.from, Some(near.name), "carried for it by the router before");

    let own = near.own_statement.unwrap();
    assert_eq!(own.statement.hands_on_to(), Some(far.name), "its upstream");
    assert!(lease.contains(&own.expires_in_s), "{own:?}");
    let own = far.own_statement.unwrap();
    assert!(matches!(own.statement, Statement::Locator(_)), "{own:?}");
    let to_far = near.delegations.iter().find(|it| it.statement.hands_on_to() == Some(far.name));
    assert!(lease.contains(&to_far.unwrap().expires_in_s));
    assert_eq!(near.dropped_pdus.len(), DropReason::ALL.len());
    assert_eq!(near.dropped_datagrams.len(), rhumb_link::DropReason::ALL.len());
}

#[test]
fn tables_are_told_with_their_bounds_and_lists_are_short() {
    let mut world = World::new();
    world.line(1);
    let hub = world.node(0);
    let senders = LISTED + 6;
    for _ in 0..senders {
        let node = world.node(0);
        world.send(node, hub, b"hello");
    }
    world.run(SECOND * 2);
    assert_eq!(world.nodes[hub].received.len(), senders);
    let status = world.routers[0].switch.status(world.now);
    assert_eq!((status.newest_flows.len(), status.some_grants.len()), (LISTED, LISTED));
    for table in &status.tables {
        assert!(table.used <= table.bound, "{table:?}");
    }
    let used = |name| status.tables.iter().find(|table| table.name == name).unwrap().used;
    assert_eq!(used("flows"), status.flows);
    assert_eq!(used("attached"), senders + 1);
    assert!(used("flows") >= senders && used("grants") >= senders);
}
