//! What a border of a domain demands of everybody outside: domains bill each other for what they
//! carry, and nobody gets anything over the border whom nothing was given for it.

use std::sync::Arc;

use rhumb_capability::{
    Credential, DelegationId, Prefix, Principal, Revocation, Revocations, file,
};
use rhumb_node::core::{Event, SendFailure};
use rhumb_switch::{Domain, DropReason, NamePrefix, short_address};
use rhumb_trust::{CLOCK_SKEW_S, Identity, Membership, Window};
use rhumb_wire::group::Part;
use rhumb_wire::nack::{CapabilityFault, Reason};
use rhumb_wire::{Rights, Role};

use super::groups::{group_at_sea, is_in_group, join};
use super::{Nest, SECOND};
use crate::world::World;
use crate::world::border::PRINCIPAL;

/// Sends what does not arrive, and is not sent again for ever; what its sender was told.
#[track_caller]
fn refused(nest: &mut Nest, from: usize, to: usize) -> Option<Reason> {
    nest.world.nodes[from].events.clear();
    let before = nest.world.nodes[to].received.len();
    nest.world.send(from, to, b"in vain");
    nest.world.run(20 * SECOND);
    assert_eq!(nest.world.nodes[to].received.len(), before);
    let events = std::mem::take(&mut nest.world.nodes[from].events);
    let reason = |event| match event {
        Event::SendFailed { reason: SendFailure::Nacked(reason), .. } => Some(reason),
        _ => None,
    };
    events.into_iter().filter_map(reason).next_back()
}

const fn of(fault: CapabilityFault) -> Option<Reason> {
    Some(Reason::Capability(fault))
}

/// A credential as somebody makes it of his own who changes what it says.
fn changed(credential: &Credential, change: impl Fn(&str) -> String) -> Credential {
    let text = file::encode(credential);
    let lines = text.lines().map(|line| change(line) + "\n");
    file::decode(&lines.collect::<String>()).unwrap()
}

/// Has land's border stamp what goes to sea's.
fn give(nest: &mut Nest, border: usize, credential: Credential) {
    nest.world.stamp(border, nest.sea.border, vec![(NamePrefix::ANY, credential)]);
}

#[test]
fn a_border_demands_of_all_who_are_outside_and_domains_bill_each_other() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    let in_sea = nest.exported(|nest| &nest.sea, None);
    assert_eq!(nest.talk((a, b), 10), [10, 10], "with labels, before anything is demanded");
    let sea = nest.sea.border;
    nest.world.demand_of_outside(sea);
    // Who lies in the domain is a member of it, over its own border as well.
    assert!(nest.arrives(a, in_sea) && nest.arrives(in_sea, a) && nest.arrives(a, b));
    assert_eq!(nest.dropped(&nest.sea, DropReason::Unstamped), 0);
    let missing = of(CapabilityFault::Missing);
    assert_eq!(refused(&mut nest, b, a), missing, "also in a flow that was known");
    assert!(nest.dropped(&nest.sea, DropReason::Unstamped) > 0);
    // Nor for a sender of no domain at the border itself.
    let stranger = nest.node(sea);
    assert_eq!(refused(&mut nest, stranger, a), missing);

    // With a capability it passes, and is on the account; and the other domain demands the same.
    let land = nest.land.border;
    let credential = nest.world.capability(sea, PRINCIPAL, 0);
    give(&mut nest, land, credential);
    assert!(nest.arrives(b, a));
    nest.world.demand_of_outside(land);
    assert!(!nest.arrives(a, b));
    let credential = nest.world.capability(land, Principal(8), 0);
    nest.world.stamp(sea, land, vec![(NamePrefix::ANY, credential)]);
    nest.talk((a, b), 10);
    let billed =
        |nest: &Nest| [nest.world.billed(sea, PRINCIPAL), nest.world.billed(land, Principal(8))];
    let before = billed(&nest);
    assert_eq!(nest.talk((a, b), 10), [10, 10]);
    assert_eq!(billed(&nest), before.map(|it| it + 10), "each once");
}

/// Nobody has to name a domain's borders where something is demanded of them.
#[test]
fn another_border_of_the_same_domain_is_no_way_around() {
    let mut nest = Nest::with_borders(2, false);
    let (a, b) = nest.far_apart();
    let (sea, land, other) = (nest.sea.border, nest.land.border, nest.land.other_border.unwrap());
    // Sea has one.
    let second = nest.sea.other_border.unwrap();
    nest.world.routers[second].is_dead = true;
    nest.world.demand_of_outside(sea);
    let credential = nest.world.capability(sea, PRINCIPAL, 0);
    give(&mut nest, land, credential);
    nest.world.run(3 * SECOND);
    nest.world.routers[land].is_dead = true;
    nest.world.run(3 * SECOND);
    assert_eq!(refused(&mut nest, b, a), of(CapabilityFault::Missing));
    assert!(nest.dropped(&nest.sea, DropReason::Unstamped) > 0);
    let credential = nest.world.capability(sea, Principal(9), 0);
    give(&mut nest, other, credential);
    assert!(nest.arrives(b, a));
    assert!(nest.world.billed(sea, Principal(9)) > 0);
}

#[test]
fn what_was_given_to_another_or_is_over_or_revoked_passes_no_border() {
    let mut nest = Nest::new();
    let (a, b) = nest.far_apart();
    let in_sea = nest.exported(|nest| &nest.sea, None);
    let (sea, land) = (nest.sea.border, nest.land.border);
    nest.world.demand_of_outside(sea);
    // For one name of the inside alone.
    let [to_a, to_other] = [a, in_sea].map(|it| Prefix::host(short_address(&nest.world.name(it))));
    let all = nest.world.capability(sea, PRINCIPAL, 0);
    let delegated = all.delegate(to_other, DelegationId::new(9).unwrap()).unwrap();
    give(&mut nest, land, changed(&delegated, str::to_owned));
    assert!(nest.arrives(b, in_sea));
    assert_eq!(refused(&mut nest, b, a), of(CapabilityFault::Missing));
    assert!(nest.dropped(&nest.land, DropReason::NoCapability) > 0, "its own border knows");
    let billed = nest.world.billed(sea, PRINCIPAL);
    assert!(billed > 0);

    // A border that lies about what it was given, or until when: the other one knows.
    let forged = changed(&delegated, |line| line.replace(&to_other.to_string(), &to_a.to_string()));
    let mut old = nest.world.capability(sea, PRINCIPAL, -3);
    let until_s = all.not_after_s();
    old = changed(&old, |line| match line.starts_with("not-after ") {
        true => format!("not-after {until_s}"),
        false => line.to_owned(),
    });
    for (credential, reason, fault) in [
        (forged, "binding", CapabilityFault::Refused),
        (old, "window_expired", CapabilityFault::Time),
    ] {
        give(&mut nest, land, credential);
        assert_eq!(refused(&mut nest, b, a), of(fault), "{reason}");
        let counted = nest.world.refused(sea);
        assert!(counted.iter().any(|(why, count)| *why == reason && *count > 0), "{counted:?}");
    }
    assert!(nest.dropped(&nest.sea, DropReason::CapabilityRefused) > 0);
    assert_eq!(nest.world.billed(sea, PRINCIPAL), billed, "nobody pays for that");

    // Revoked within a batch, and the capability's own end, after which its border sends nothing.
    give(&mut nest, land, changed(&all, str::to_owned));
    assert!(nest.arrives(b, a));
    let mut revocations = Revocations::new();
    let order = Revocation { principal: PRINCIPAL, delegation: None, until_s: u64::MAX };
    revocations.apply(1, &[order]).unwrap();
    let revoke = |nest: &mut Nest, revocations: Revocations| {
        let border = nest.world.routers[sea].switch.border_mut().unwrap();
        border.verifier_mut().set_revocations(Arc::new(revocations));
    };
    revoke(&mut nest, revocations);
    assert_eq!(refused(&mut nest, b, a), of(CapabilityFault::Revoked));
    revoke(&mut nest, Revocations::new());
    assert!(nest.arrives(b, a));
    let soon = nest.world.now.unix_s() + 6;
    let ending = changed(&all, |line| match line.starts_with("not-after ") {
        true => format!("not-after {soon}"),
        false => line.to_owned(),
    });
    give(&mut nest, land, ending);
    assert!(nest.arrives(b, a));
    nest.world.run(4 * SECOND);
    let dropped = nest.dropped(&nest.land, DropReason::NoCapability);
    assert!(!nest.arrives(b, a));
    assert!(nest.dropped(&nest.land, DropReason::NoCapability) > dropped);
}

/// What is sent to a group comes over the border once, and is paid for once, whoever receives it
/// there.
#[test]
fn what_is_sent_to_a_group_pays_at_the_border_too() {
    let mut nest = Nest::new();
    let (near, sender) = nest.far_apart();
    let at_sea = nest.exported(|nest| &nest.sea, None);
    let group = group_at_sea(&mut nest);
    join(&mut nest, &group, sender, Part::Sends);
    for node in [near, at_sea] {
        join(&mut nest, &group, node, Part::Receives);
        assert!(is_in_group(&nest, node));
    }
    let arrive = |nest: &mut Nest| {
        let before = [near, at_sea].map(|it| nest.world.nodes[it].received.len());
        for _ in 0..5 {
            nest.world.nodes[sender].core.send(group.name(), 7, b"all", nest.world.now).unwrap();
            nest.world.run(SECOND / 5);
        }
        nest.world.run(SECOND);
        [0, 1].map(|it| nest.world.nodes[[near, at_sea][it]].received.len() - before[it])
    };
    assert_eq!(arrive(&mut nest), [5, 5]);
    let (sea, land) = (nest.sea.border, nest.land.border);
    nest.world.demand_of_outside(sea);
    assert_eq!(arrive(&mut nest), [0, 0]);
    assert!(nest.dropped(&nest.sea, DropReason::Unstamped) > 0);
    let credential = nest.world.capability(sea, PRINCIPAL, 0);
    give(&mut nest, land, credential);
    nest.world.run(5 * SECOND);
    let billed = nest.world.billed(sea, PRINCIPAL);
    assert_eq!(arrive(&mut nest), [5, 5]);
    assert_eq!(nest.world.billed(sea, PRINCIPAL) - billed, 5);
}

/// One router of a domain, whose members pay nothing.
#[test]
fn whose_membership_ends_has_to_pay_from_then_on() {
    let mut world = World::new();
    let domain = world.identity(Role::Domain);
    let place = Domain {
        name: domain.name(),
        around: Vec::new(),
        customers: Vec::new(),
        words: Vec::new(),
    };
    world.config.domain = Some(place);
    world.line(1);
    world.demand_of_outside(0);
    let member = |world: &mut World, seconds: u64| {
        let node = Identity::generate(Role::Node, 0).unwrap();
        let window = Window::starting(world.now.unix_s(), seconds);
        let (name, at) = (node.name(), world.now.unix_ms);
        let shown = Membership::sign(&domain, None, name, Rights::JOIN, at, window).unwrap();
        world.node_with(Arc::new(node.with_membership(shown).unwrap()), 0, |_| {})
    };
    let (short, long) = (member(&mut world, 10), member(&mut world, 3600));
    world.run(SECOND);
    let ends_s = world.now.unix_s() + 10 + CLOCK_SKEW_S;
    // A flow that is known, and goes on all the time.
    let mut sent = 0;
    while world.now.unix_s() + 5 < ends_s {
        world.send(short, long, b"of the same domain");
        world.run(SECOND / 2);
        sent += 1;
    }
    assert_eq!(world.nodes[long].received.len(), sent);
    for _ in 0..20 {
        world.send(short, long, b"and from then on?");
        world.run(SECOND / 2);
    }
    assert!(world.dropped(0, DropReason::Unstamped) > 0);
    let arrived = world.nodes[long].received.len() - sent;
    assert!(arrived < 16, "{arrived} in ten seconds, of which five were left");
    world.send(short, long, b"nothing more");
    world.send(long, short, b"but it is reached");
    world.run(3 * SECOND);
    assert_eq!(world.nodes[long].received.len() - sent, arrived);
    assert_eq!(world.nodes[short].received.len(), 1);
}
