//! A router that takes members of a trust domain and nobody else: they join by what their domain
//! signed, for as long as that holds, and no rule names them.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::sync::Arc;
use std::time::Duration;

use rhumb_trust::{Access, CLOCK_SKEW_S, Identity, Membership, Rule, Standing, Window};
use rhumb_wire::{Name, Rights, Role};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);

/// A world with one router that takes members of the domain who may join.
fn closed_to_all_but_members() -> (World, Identity) {
    let mut world = World::new();
    world.line(1);
    let domain = Identity::generate(Role::Domain, 0).unwrap();
    let rule = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
    let now = world.now;
    let access = Access { rules: vec![rule], otherwise: Standing::Refused, ..Access::default() };
    world.routers[0].switch.set_access(access, now);
    (world, domain)
}

/// A node that shows that `domain` gave it these rights.
fn member(world: &World, domain: &Identity, rights: Rights, lifetime_s: u64) -> Arc<Identity> {
    let node = Identity::generate(Role::Node, 0).unwrap();
    let window = Window::starting(world.now.unix_s(), lifetime_s);
    let membership = Membership::sign(domain, None, node.name(), rights, 1, window).unwrap();
    Arc::new(node.with_membership(membership).unwrap())
}

fn attached(world: &World) -> Vec<Name> {
    let status = world.routers[0].switch.status(world.now);
    status.attached.iter().map(|attached| attached.name).collect()
}

#[test]
fn members_join_and_talk_and_nobody_else_does() {
    let (mut world, domain) = closed_to_all_but_members();
    let foreign = Identity::generate(Role::Domain, 0).unwrap();
    let identities = [
        member(&world, &domain, Rights::JOIN, 3600),
        member(&world, &domain, Rights::JOIN.and(Rights::PUBLISH), 3600),
        // Of another domain; with another right; with none.
        member(&world, &foreign, Rights::JOIN, 3600),
        member(&world, &domain, Rights::PUBLISH, 3600),
        world.identity(Role::Node),
    ];
    let nodes = identities.map(|identity| world.node_of(identity, 0));
    world.run(3 * SECOND);
    let joined = nodes.map(|node| world.nodes[node].core.is_joined());
    assert_eq!(joined, [true, true, false, false, false]);
    world.send(nodes[0], nodes[1], b"among members");
    world.run(SECOND);
    assert_eq!(world.nodes[nodes[1]].received.len(), 1);
    let refused = world.routers[0].switch.status(world.now).refused;
    assert_eq!(refused.len(), 3, "{refused:?}");
}

#[test]
fn a_membership_that_ends_ends_what_rests_on_it() {
    let (mut world, domain) = closed_to_all_but_members();
    let identities =
        [member(&world, &domain, Rights::JOIN, 60), member(&world, &domain, Rights::JOIN, 3600)];
    let nodes = identities.map(|identity| world.node_of(identity, 0));
    world.run(3 * SECOND);
    assert_eq!(attached(&world).len(), 2);
    world.run(SECOND * (60 + CLOCK_SKEW_S as u32 + 5));
    assert_eq!(attached(&world), [world.name(nodes[1])]);
    assert!(!world.nodes[nodes[0]].core.is_joined());
    world.send(nodes[0], nodes[1], b"no more");
    world.run(SECOND);
    assert!(world.nodes[nodes[1]].received.is_empty());
}

#[test]
fn who_was_a_member_is_a_stranger_where_strangers_are_let_in() {
    let (mut world, domain) = closed_to_all_but_members();
    let rule = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
    let now = world.now;
    let open = Access { rules: vec![rule], otherwise: Standing::Stranger, ..Access::default() };
    world.routers[0].switch.set_access(open, now);
    let identity = member(&world, &domain, Rights::JOIN, 60);
    let node = world.node_of(identity, 0);
    world.run(3 * SECOND);
    let strangers = |world: &World| {
        let status = world.routers[0].switch.status(world.now);
        let table = status.tables.iter().find(|table| table.name == "strangers");
        table.map(|table| table.used)
    };
    assert_eq!(strangers(&world), Some(0));
    world.run(SECOND * (60 + CLOCK_SKEW_S as u32 + 5));
    assert_eq!(strangers(&world), Some(1));
    assert!(world.nodes[node].core.is_joined());
}

/// A node with these rights, and a capsule that it answers for from now on.
fn server(world: &mut World, domain: &Identity, rights: Rights) -> (Stranger, Arc<Identity>) {
    let identity = member(world, domain, rights, 24 * 3600);
    let mut server = Stranger::with_identity(world, 0, identity);
    let capsule = world.identity(Role::Capsule);
    server.serve(world, &capsule, 0);
    world.run(Duration::from_millis(20));
    server.keep_alive(world);
    (server, capsule)
}

fn missing(world: &World, name: Name) -> String {
    let refused = world.routers[0].switch.status(world.now).refused;
    let of_name = refused.into_iter().find(|it| it.name == name);
    of_name.and_then(|it| it.missing).unwrap_or_default()
}

#[test]
fn a_member_brings_names_of_strangers_only_if_its_domain_lets_it_serve() {
    let (mut world, domain) = closed_to_all_but_members();
    let (joins, foreign) = server(&mut world, &domain, Rights::JOIN);
    assert!(!attached(&world).contains(&foreign.name()), "it may join, as itself");
    let why = missing(&world, foreign.name());
    assert!(why.contains("the right to serve") && why.contains(&joins.name().to_string()), "{why}");
    let serving = Rights::JOIN.and(Rights::SERVE);
    let (_, capsule) = server(&mut world, &domain, serving);
    assert!(attached(&world).contains(&capsule.name()));
    // To serve is not to join.
    let (_, other) = server(&mut world, &domain, Rights::SERVE);
    assert!(!attached(&world).contains(&other.name()));

    // A rule about the name itself counts, whoever answers for it.
    let refused = Rule::named(capsule.name(), Standing::Refused);
    let members = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
    let rules = vec![refused, members];
    let access = Access { rules, otherwise: Standing::Refused, ..Access::default() };
    let now = world.now;
    world.routers[0].switch.set_access(access, now);
    assert!(!attached(&world).contains(&capsule.name()));
}

#[test]
fn what_a_member_serves_ends_with_its_right_to() {
    let (mut world, domain) = closed_to_all_but_members();
    let serving = Rights::JOIN.and(Rights::SERVE);
    let (mut first, capsule) = server(&mut world, &domain, serving);
    assert!(attached(&world).contains(&capsule.name()));
    // It shows what it may now, by a fresh handshake in the same session.
    let shown = |rights| {
        let (member, window) = (first.name(), Window::starting(world.now.unix_s(), 3600));
        let membership = Membership::sign(&domain, None, member, rights, 2, window).unwrap();
        first.identity.showing(Some(membership)).unwrap()
    };
    let (narrowed, again) = (shown(Rights::JOIN), shown(serving));
    first.show(&mut world, &narrowed);
    assert!(!attached(&world).contains(&capsule.name()));
    world.run(Duration::from_millis(20));
    first.show(&mut world, &again);
    first.serve(&mut world, &capsule, 0);
    world.run(Duration::from_millis(20));
    assert!(attached(&world).contains(&capsule.name()));
}
