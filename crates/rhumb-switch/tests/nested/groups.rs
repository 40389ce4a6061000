//! Groups over domains: who is exported is a part of them from anywhere; for those whom a domain
//! admitted itself it receives in its own name, and nobody outside learns anything of them.

use std::sync::Arc;

use rhumb_node::core::Event;
use rhumb_trust::{AdCert, Identity, Membership, Removal, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::group::{GroupRequest, Part};
use rhumb_wire::nack::Reason;
use rhumb_wire::rib::RibRequestBody;
use rhumb_wire::{Action, Name, PduHeader, Rights, Role, Scope, Statement};

use super::{Nest, SECOND, Station, admit, contains};
use crate::world::Stranger;

/// A group that a node at sea serves.
pub(super) fn group_at_sea(nest: &mut Nest) -> Arc<Identity> {
    let server = nest.exported(|nest| &nest.sea, None);
    let group = nest.world.identity(Role::Domain);
    let window = Window::starting(nest.world.now.unix_s(), 600);
    let (now, server_name) = (nest.world.now, nest.world.name(server));
    let word = AdCert::sign(&group, server_name, now.unix_ms, window).unwrap();
    nest.world.nodes[server].core.serve(word, now).unwrap();
    nest.world.run(2 * SECOND);
    group
}

pub(super) fn join(nest: &mut Nest, group: &Identity, node: usize, part: Part) {
    let rights = Rights::JOIN.and(Rights::PUBLISH);
    let membership = admit(&nest.world, group, None, nest.world.name(node), rights);
    let core = &mut nest.world.nodes[node].core;
    core.join_group(group.name(), part, membership, nest.world.now).unwrap();
    nest.world.run(5 * SECOND);
}

pub(super) fn is_in_group(nest: &Nest, node: usize) -> bool {
    nest.world.nodes[node].events.iter().any(|it| matches!(it, Event::InGroup { .. }))
}

#[test]
fn a_group_reaches_three_domains_and_whoever_is_not_exported_is_told_so() {
    let mut nest = Nest::new();
    let (sender, far) = nest.far_apart();
    let at_sea = nest.exported(|nest| &nest.sea, None);
    let beside = nest.exported(|nest| &nest.port, None);
    let hidden = nest.node(nest.land.interior);
    let group = group_at_sea(&mut nest);
    join(&mut nest, &group, hidden, Part::Receives);
    let refused = nest.world.nodes[hidden].events.iter().find_map(|event| match event {
        Event::NotInGroup { reason, .. } => Some(*reason),
        _ => None,
    });
    assert!(matches!(refused, Some(Reason::Unreachable(_))), "not known outside: {refused:?}");
    join(&mut nest, &group, sender, Part::Sends);
    for node in [far, at_sea, beside] {
        join(&mut nest, &group, node, Part::Receives);
    }
    for node in [sender, far, at_sea, beside] {
        assert!(is_in_group(&nest, node), "{:?}", nest.world.nodes[node].events);
    }
    let wire = nest.world.capture(nest.port.border, nest.sea.interior);
    for number in 0..5 {
        let body = [&[number][..], &[7; 899]].concat();
        nest.world.nodes[sender].core.send(group.name(), 7, &body, nest.world.now).unwrap();
        nest.world.run(SECOND / 5);
    }
    for node in [far, at_sea, beside] {
        assert_eq!(nest.world.nodes[node].received.len(), 5, "{node}");
    }
    let across = wire.datagrams().iter().filter(|it| (900..1100).contains(&it.bytes.len())).count();
    assert!(
        (5..=7).contains(&across),
        "one copy each, and what asks for the path's size: {across}"
    );
    // Who is let take part outside hears who sends, and nothing of where he is.
    let mut outsider = Stranger::new(&mut nest.world, nest.sea.border, Role::Router);
    let name = outsider.name();
    let membership = admit(&nest.world, &group, None, name, Rights::JOIN);
    let request = GroupRequest::Join {
        part: Part::Receives,
        issuers: membership.issuers().to_vec(),
        certificates: membership.certificates().to_vec(),
    };
    let route = outsider.route(nest.world.routers[nest.sea.border].switch.name(), &nest.world);
    let mut data = Vec::new();
    request.emit(&mut data);
    let header = PduHeader::new(Action::GroupRequest, name, group.name());
    for _ in 0..3 {
        outsider.send(&mut nest.world, header, &data, std::slice::from_ref(&route));
        nest.world.run(SECOND);
        outsider.settle(&mut nest.world);
    }
    let told = |action| outsider.inbox.iter().filter(|(it, _)| it.action == action).count();
    assert!(told(Action::GroupAccept) > 0 && told(Action::GroupRequest) > 0);
    assert!(contains(&outsider.heard, &nest.world.name(sender)));
    for name in nest.inside() {
        assert!(!contains(&outsider.heard, &name), "a name of the inside");
    }
}

/// Which domain somebody is in.
type At = fn(&Nest) -> &Station;

/// As what a group admits a domain that receives for its own.
fn to_domain(nest: &Nest, group: &Identity, station: At) -> Membership {
    let rights = Rights::JOIN.and(Rights::ADMIT);
    admit(&nest.world, group, None, station(nest).name(), rights)
}

/// A node inside of a domain that is known nowhere else, and that the domain admits to the group.
fn hidden(nest: &mut Nest, of_domain: &Membership, station: At) -> usize {
    let node = hidden_that_asks(nest, of_domain, station);
    nest.world.run(5 * SECOND);
    assert!(is_in_group(nest, node), "{:?}", nest.world.nodes[node].events);
    node
}

fn hidden_that_asks(nest: &mut Nest, of_domain: &Membership, station: At) -> usize {
    let node = nest.node(station(nest).interior);
    let name = nest.world.name(node);
    let domain = station(nest).identity.clone();
    let membership = admit(&nest.world, &domain, Some(of_domain), name, Rights::JOIN);
    let core = &mut nest.world.nodes[node].core;
    core.join_group(of_domain.domain(), Part::Receives, membership, nest.world.now).unwrap();
    node
}

/// The domain takes back what it gave a member, who is told so inside of it.
fn remove(nest: &mut Nest, of_domain: &Membership, station: At, node: usize) {
    let (now, name) = (nest.world.now, nest.world.name(node));
    let window = Window::starting(now.unix_s(), 3600);
    let domain = station(nest).identity.clone();
    let removal =
        Removal::sign(&domain, Some(of_domain), name, now.unix_ms, window).unwrap().lists();
    let request = GroupRequest::Remove { issuers: removal.0, certificates: removal.1 };
    let mut data = Vec::new();
    request.emit(&mut data);
    let at = station(nest).interior;
    let mut teller = Stranger::new(&mut nest.world, at, Role::Node);
    let header = PduHeader::new(Action::GroupRequest, teller.name(), of_domain.domain());
    teller.send(&mut nest.world, header, &data, &[]);
    nest.world.run(SECOND);
    teller.settle(&mut nest.world);
    assert!(teller.inbox.iter().any(|(it, _)| it.action == Action::GroupAccept));
}

#[test]
fn a_domain_receives_for_its_own_whom_nobody_outside_knows() {
    let mut nest = Nest::new();
    let group = group_at_sea(&mut nest);
    let (land, port): (At, At) = (|nest| &nest.land, |nest| &nest.port);
    let [of_land, of_port] = [to_domain(&nest, &group, land), to_domain(&nest, &group, port)];
    let one = hidden(&mut nest, &of_land, land);
    let other = hidden(&mut nest, &of_land, land);
    let innermost = hidden(&mut nest, &of_port, port);
    let sender = nest.exported(|nest| &nest.sea, None);
    join(&mut nest, &group, sender, Part::Sends);
    let send = |nest: &mut Nest, body: &[u8]| {
        nest.world.nodes[sender].core.send(group.name(), 7, body, nest.world.now).unwrap();
        nest.world.run(SECOND / 2);
    };
    let received =
        |nest: &Nest| [one, other, innermost].map(|it| nest.world.nodes[it].received.len());
    send(&mut nest, b"to domains");
    assert_eq!(received(&nest), [1, 1, 1]);
    remove(&mut nest, &of_land, land, one);
    send(&mut nest, b"to those who are left");
    assert_eq!(received(&nest), [1, 2, 2]);
    // The domain leaves with the last of its own.
    let wire = nest.world.capture(nest.sea.border, nest.land.border);
    remove(&mut nest, &of_land, land, other);
    wire.datagrams();
    send(&mut nest, &[7; 900]);
    assert_eq!(received(&nest), [1, 2, 3]);
    let copies = wire.datagrams().iter().filter(|it| (900..1100).contains(&it.bytes.len())).count();
    assert_eq!(copies, 0);
}

#[test]
fn a_group_that_removes_a_domain_ends_it_for_all_of_its_own() {
    let mut nest = Nest::new();
    let group = group_at_sea(&mut nest);
    let of_land = to_domain(&nest, &group, |nest| &nest.land);
    let member = hidden(&mut nest, &of_land, |nest| &nest.land);
    let sender = nest.exported(|nest| &nest.sea, None);
    join(&mut nest, &group, sender, Part::Both);
    let (now, land) = (nest.world.now, nest.land.name());
    let window = Window::starting(now.unix_s(), 3600);
    let removal = Removal::sign(&group, None, land, now.unix_ms, window).unwrap();
    let core = &mut nest.world.nodes[sender].core;
    core.remove_from_group(group.name(), &removal, now);
    nest.world.run(SECOND);
    nest.world.nodes[sender].core.send(group.name(), 7, b"late", nest.world.now).unwrap();
    nest.world.run(SECOND);
    assert_eq!(nest.world.nodes[member].received.len(), 0);
}

#[test]
fn a_root_outside_hears_of_the_domain_and_of_nobody_inside() {
    let mut nest = Nest::new();
    let group = nest.world.identity(Role::Domain);
    let mut root = Stranger::new(&mut nest.world, nest.land.border, Role::Router);
    let to_root = Statement::Route { via: root.name(), scope: Scope::Any };
    let locator = Statement::Locator(Locator::new(root.address).unwrap());
    let window = Window::starting(nest.world.now.unix_s(), 600);
    let now = nest.world.now.unix_ms;
    let words = [(&group, to_root), (&root.identity, locator)];
    let certificates = words.map(|(by, word)| by.certify(word, now, window).unwrap()).to_vec();
    let metadata = [&group, &root.identity].map(|it| (**it.metadata()).clone()).to_vec();
    nest.publish(nest.rib, RibRequestBody::Publish { metadata, certificates });
    root.heard.clear();
    let of_land = to_domain(&nest, &group, |nest| &nest.land);
    // It is watched, as routers are.
    let wait = |nest: &mut Nest, root: &mut Stranger| {
        for _ in 0..50 {
            nest.world.run(SECOND / 10);
            root.keep_alive(&mut nest.world);
        }
    };
    let members = [0, 1].map(|_| {
        let member = hidden_that_asks(&mut nest, &of_land, |nest| &nest.land);
        wait(&mut nest, &mut root);
        member
    });
    let asked = |root: &Stranger| -> Vec<Name> {
        let requests = root.inbox.iter().filter(|(it, _)| it.action == Action::GroupRequest);
        requests.map(|(it, _)| it.source).collect()
    };
    let land = nest.land.name();
    assert!(!asked(&root).is_empty() && asked(&root).iter().all(|it| *it == land));
    for member in members {
        remove(&mut nest, &of_land, |nest| &nest.land, member);
        wait(&mut nest, &mut root);
    }
    let leaves = |(it, data): &(PduHeader, Vec<u8>)| {
        it.source == land && GroupRequest::parse(data) == Ok(GroupRequest::Leave)
    };
    assert!(root.inbox.iter().any(leaves), "nobody is left there");
    let routers = [nest.land.interior].map(|it| nest.world.routers[it].switch.name());
    let hidden = members.map(|it| nest.world.name(it));
    let rib = nest.world.remote_of(nest.land.rib).name.unwrap();
    for name in routers.into_iter().chain(hidden).chain([rib]) {
        assert!(!contains(&root.heard, &name), "a name of the inside");
    }
    assert!(contains(&root.heard, &land));
}
