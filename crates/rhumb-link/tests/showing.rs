//! A membership that is replaced while sessions go on: peers see the new one by a fresh handshake,
//! in place, and not one datagram is lost by it.

#![allow(clippy::unwrap_used)] // A test may.

use std::sync::Arc;
use std::time::Duration;

use rhumb_link::{Config, LinkError};
use rhumb_trust::{Identity, Membership, Window};
use rhumb_wire::{Name, Rights, Role};

use crate::pair::{Fate, Net, identity};

/// `member` as it is with another membership of `domain`, of this sequence.
fn again(domain: &Identity, member: &Identity, sequence: u64) -> Identity {
    let window = Window { not_before_s: 0, not_after_s: 1000 };
    let signed =
        Membership::sign(domain, None, member.name(), Rights::JOIN, sequence, window).unwrap();
    member.showing(Some(signed)).unwrap()
}

fn of_role(role: Role) -> Arc<Identity> {
    Arc::new(Identity::generate(role, 1).unwrap())
}

/// The sequence of the membership that host `of` was shown by host `by`.
fn seen(net: &Net, of: usize, by: usize) -> Option<u64> {
    let peer = net.hosts[of].endpoint.peer(net.session(of, by)).unwrap();
    peer.membership.as_ref().map(|it| it.certificates()[0].sequence)
}

/// A node and a router with a session that the node began, and the node's domain.
fn node_and_router() -> (Net, Identity, Arc<Identity>, Arc<Identity>) {
    node_and_router_of(Role::Node)
}

/// As [`node_and_router`], with somebody of this role in the node's place.
fn node_and_router_of(role: Role) -> (Net, Identity, Arc<Identity>, Arc<Identity>) {
    let domain = Identity::generate(Role::Domain, 1).unwrap();
    let (node, router) = (of_role(role), of_role(Role::Router));
    let mut net = Net::new();
    net.add_identity(Arc::new(again(&domain, &node, 1)), Config::default());
    net.add_identity(router.clone(), Config::default());
    net.establish();
    (net, domain, node, router)
}

#[test]
fn the_peer_sees_the_new_one_within_a_second_and_no_datagram_is_lost() {
    let (mut net, domain, node, _) = node_and_router();
    let sessions = (net.session(0, 1), net.session(1, 0));
    assert_eq!(seen(&net, 1, 0), Some(1));
    for sequence in 2..5 {
        let shown = again(&domain, &node, sequence);
        net.hosts[0].endpoint.show(&shown, net.now).unwrap();
        for n in 0u32..300 {
            net.send(0, 1, &n.to_be_bytes());
            net.send(1, 0, &n.to_be_bytes());
            net.run(Duration::from_millis(3));
        }
        assert_eq!(seen(&net, 1, 0), Some(sequence));
    }
    net.run(Duration::from_secs(1));
    assert_eq!((net.session(0, 1), net.session(1, 0)), sessions);
    for host in 0..2 {
        assert_eq!(net.hosts[host].received.len(), 900, "drops {:?}", net.drops(host));
    }
    net.hosts[0].endpoint.show(&node.showing(None).unwrap(), net.now).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(seen(&net, 1, 0), None);
}

#[test]
fn both_ends_may_be_given_others_at_the_same_time() {
    // The second one follows that late, in ms, at the other end.
    for late in 0..40 {
        let (mut net, domain, node, router) = node_and_router_of(Role::Router);
        let shown = [again(&domain, &node, 2), again(&domain, &router, 2)];
        net.hosts[0].endpoint.show(&shown[0], net.now).unwrap();
        for n in 0u64..200 {
            if n == late {
                net.hosts[1].endpoint.show(&shown[1], net.now).unwrap();
            }
            net.send(0, 1, &n.to_be_bytes());
            net.send(1, 0, &n.to_be_bytes());
            net.run(Duration::from_millis(1));
        }
        net.run(Duration::from_secs(3));
        assert_eq!((seen(&net, 0, 1), seen(&net, 1, 0)), (Some(2), Some(2)), "{late}");
        for host in 0..2 {
            let received = net.hosts[host].received.len();
            assert_eq!(received, 200, "late {late}, host {host}, drops {:?}", net.drops(host));
        }
    }
}

#[test]
fn it_is_shown_though_the_first_attempt_is_lost() {
    let (mut net, domain, node, _) = node_and_router();
    let from = net.hosts[0].address;
    net.set_fate(move |_, flying| {
        let is_hello = flying.bytes[0] == 0x90 || flying.bytes.get(13) == Some(&1);
        if flying.from == from && is_hello { Fate::Lost } else { Fate::Arrives }
    });
    net.hosts[0].endpoint.show(&again(&domain, &node, 2), net.now).unwrap();
    net.run(Duration::from_secs(15));
    assert_eq!(seen(&net, 1, 0), Some(1));
    net.set_fate(|_, _| Fate::Arrives);
    net.run(Duration::from_secs(30));
    assert_eq!(seen(&net, 1, 0), Some(2));
    net.assert_carries("shown late");
}

#[test]
fn a_handshake_that_was_under_way_is_followed_by_another() {
    // At whatever point of the handshake it is replaced, on either side of it.
    for (host, step) in (0..12).flat_map(|step| [(0, step), (1, step)]) {
        let domain = Identity::generate(Role::Domain, 1).unwrap();
        let both = [of_role(Role::Router), of_role(Role::Router)];
        let mut net = Net::new();
        for member in &both {
            net.add_identity(Arc::new(again(&domain, member, 1)), Config::default());
        }
        net.connect(0, 1);
        net.run(Duration::from_millis(10 * step));
        net.hosts[host].endpoint.show(&again(&domain, &both[host], 2), net.now).unwrap();
        net.collect(host);
        net.run(Duration::from_secs(2));
        assert_eq!(seen(&net, 1 - host, host), Some(2), "host {host}, step {step}");
        net.assert_carries("replaced under way");
    }
}

#[test]
fn a_node_that_answers_no_handshake_is_not_asked_for_one() {
    let (mut net, domain, _, router) = node_and_router();
    net.run(Duration::from_secs(30));
    let before = net.sent.len();
    net.hosts[1].endpoint.show(&again(&domain, &router, 2), net.now).unwrap();
    net.run(Duration::from_secs(3));
    let from = net.hosts[1].address;
    let is_record = |bytes: &[u8]| crate::pair::is_record(bytes);
    let mut sent = net.sent[before..].iter().filter(|it| it.from == from);
    assert!(sent.all(|it| is_record(&it.bytes)), "no handshake was begun");
    assert_eq!(seen(&net, 0, 1), None);
    // It sees it when it begins the next one itself.
    net.connect(0, 1);
    net.run(Duration::from_secs(1));
    assert_eq!(seen(&net, 0, 1), Some(2));
}

#[test]
fn another_name_is_not_shown() {
    let (mut net, _, node, _) = node_and_router();
    let (expected, other) = (net.name(0), identity());
    let refused = net.hosts[0].endpoint.show(&other, net.now).unwrap_err();
    assert_eq!(refused, LinkError::UnexpectedName { expected, actual: other.name() });
    assert_ne!(expected, Name([0; 32]));
    net.run(Duration::from_secs(2));
    assert_eq!((seen(&net, 1, 0), node.name()), (Some(1), expected));
}
