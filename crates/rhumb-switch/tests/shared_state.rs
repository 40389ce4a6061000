//! What a source chooses touches nothing that others share: not their routes, not their flows.

use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, Name, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

/// With five of the attacker's PDUs in each: 500 a second.
const STEP: Duration = Duration::from_millis(10);
const STEPS: usize = 200;

/// What became of a flow during an attack.
struct Outcome {
    arrived: usize,
    /// PDUs that a router could not carry because it had to ask for the way.
    pending: u64,
    /// Requests to RIBs by all routers.
    requests: u64,
}

/// Has `a` send to `b` in each step, and lets `attack` do what it does beside.
fn under_attack(
    world: &mut World,
    (a, b): (usize, usize),
    mut attack: impl FnMut(&mut World),
) -> Outcome {
    let sums = |world: &World| {
        let routers = || 0..world.routers.len();
        let pending = |at| world.dropped(at, DropReason::RoutePending);
        (
            routers().map(pending).sum::<u64>(),
            routers().map(|at| world.counters(at).rib_requests).sum::<u64>(),
        )
    };
    let (before, arrived) = (sums(world), world.nodes[b].received.len());
    for _ in 0..STEPS {
        world.send(a, b, b"every ten milliseconds");
        for _ in 0..5 {
            attack(world);
        }
        world.run(STEP);
    }
    let after = sums(world);
    let arrived = world.nodes[b].received.len() - arrived;
    Outcome { arrived, pending: after.0 - before.0, requests: after.1 - before.1 }
}

fn joined(world: &mut World, router: usize) -> Stranger {
    let mut stranger = Stranger::new(world, router, Role::Node);
    let via = world.routers[router].switch.name();
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    let route = stranger.route(via, world);
    stranger.send(world, header, &[], &[route]);
    stranger.inbox.clear();
    stranger
}

/// A certificate that nobody signed.
fn unsigned(issuer: Name, via: Name, world: &World) -> Certificate {
    let now_s = world.now.unix_s();
    Certificate {
        sequence: world.now.unix_ms,
        not_before_s: now_s,
        not_after_s: now_s + 600,
        issuer,
        statement: Statement::Route { via, scope: Scope::Any },
        signature: [0; SIGNATURE_LEN],
    }
}

#[test]
fn a_strangers_unsigned_certificates_erase_no_route() {
    for at in [0, 1] {
        let (mut world, a, b) = World::with_flow();
        let mut stranger = Stranger::new(&mut world, at, Role::Node);
        let (router, target) = (world.routers[at].switch.name(), world.name(b));
        let header = PduHeader::new(Action::Data, stranger.name(), target);
        let own = unsigned(stranger.name(), router, &world);
        let circle = [unsigned(router, stranger.name(), &world), own];
        let outcome = under_attack(&mut world, (a, b), |world| {
            stranger.send(world, header, &[7; 64], &circle);
        });
        assert_eq!(outcome.arrived, STEPS);
        assert_eq!(outcome.pending, 0, "the way to the destination was kept");
        assert_eq!(outcome.requests, 0, "nothing is asked for what nobody signed");
        assert!(stranger.nacks().iter().all(|it| matches!(it, Reason::Unreachable(_))));
    }
}

#[test]
fn a_low_ttl_erases_no_route() {
    for ttl in [2, 3] {
        let (mut world, a, b) = World::with_flow();
        let mut stranger = joined(&mut world, 0);
        let target = world.name(b);
        let header = PduHeader { ttl, ..PduHeader::new(Action::Data, stranger.name(), target) };
        let outcome = under_attack(&mut world, (a, b), |world| {
            stranger.send(world, header, &[7; 64], &[]);
        });
        assert_eq!(outcome.arrived, STEPS);
        assert_eq!(outcome.pending, 0, "the way to the destination was kept");
        let seconds = STEP.as_secs_f64() * STEPS as f64;
        assert!(outcome.requests as f64 <= 5.0 * 2.0 * seconds + 4.0, "{}", outcome.requests);
        let nacks = stranger.nacks();
        assert!(nacks.contains(&Reason::TtlExceeded), "its source is told");
    }
}
