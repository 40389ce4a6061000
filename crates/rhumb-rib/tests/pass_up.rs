//! What a domain's directory hands on to the domain around: what is to be known there, byte for
//! byte, and that it is handed on again when it has to be.

use rhumb_wire::rib::{
    RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId,
};
use rhumb_wire::{Certificate, Name, Role, Statement};

use crate::beyond::Domain;
use crate::world::net::Net;
use crate::world::{Holder, window};

/// Takes the part of the domain around: stores all that is published, and knows nothing.
fn serve(net: &mut Net, around: usize, rib: usize) -> Vec<RibRequestBody> {
    let (now, rib) = (net.now, net.rib(rib).name());
    let around = &mut net.ends[around];
    let mut asked = Vec::new();
    for (_, data) in std::mem::take(&mut around.heard) {
        let RibRequest { id, body } = RibRequest::parse(&data).expect("a request");
        let answer = match &body {
            RibRequestBody::Publish { .. } => RibResponseBody::Stored,
            RibRequestBody::WhichStore => RibResponseBody::Store(StoreId([7; 16])),
            _ => continue,
        };
        around.respond(rib, &RibResponse { id, body: answer }, now);
        asked.push(body);
    }
    asked
}

#[test]
fn the_domain_around_is_told_what_is_to_be_known_there_and_not_a_byte_more() {
    let mut net = Net::new();
    let around = net.add_end_at(Role::Rib, Net::address(50));
    let end = net.add_end(Role::Router);
    let (domain, parent) = (Holder::of(Role::Domain), Holder::of(Role::Domain));
    let rib = net.add_rib(&domain, &[Net::address(50)]);
    let [border, inner, node, hidden, bound, elsewhere] = [0; 6].map(|_| Holder::new());
    let [capsule, hidden_capsule] = [0; 2].map(|_| Holder::of(Role::Capsule));
    let serves = |owner: &Holder, server: &Holder| {
        owner.say(Statement::Service { server: server.name(), several: false }, 1, window())
    };
    let locator = |holder: &Holder, ip: [u8; 4]| {
        let address = rhumb_wire::certificate::Locator::new((ip, 4000).into()).unwrap();
        holder.say(Statement::Locator(address), 1, window())
    };
    let said = [
        (&inner, locator(&inner, [198, 51, 100, 77]), false),
        (&node, node.route(inner.name(), 1), false),
        // Before its server is exported, and after.
        (&capsule, serves(&capsule, &node), true),
        (&node, node.export(domain.name(), 2), true),
        (&hidden, hidden.route(inner.name(), 1), false),
        (&hidden_capsule, serves(&hidden_capsule, &hidden), false),
        (&bound, bound.export_up_to(domain.name(), Some(domain.name()), 1), false),
        (&elsewhere, elsewhere.export_up_to(domain.name(), Some(parent.name()), 1), true),
        (&border, locator(&border, [198, 51, 100, 1]), true),
        (&domain, domain.route(border.name(), 1), true),
        (&domain, domain.export(parent.name(), 2), true),
        (&hidden, hidden.withdrawal(3), false),
        (&elsewhere, elsewhere.withdrawal(3), true),
        // Something of a kind that may show, beside a withdrawal that may not.
        (&inner, inner.withdrawal(5), false),
        (&inner, inner.locator(6), false),
    ];
    let mut told = Vec::new();
    for (holder, certificate, _) in &said {
        net.publish(end, rib, holder, certificate.clone());
        net.run(60);
        told.extend(serve(&mut net, around, rib));
    }
    for _ in 0..100 {
        net.run(20);
        told.extend(serve(&mut net, around, rib));
    }
    let mut expected: Vec<Vec<u8>> = said
        .iter()
        .filter(|(_, _, shows)| *shows)
        .map(|(holder, certificate, _)| {
            bytes_of(RibRequestBody::Publish {
                metadata: vec![holder.metadata()],
                certificates: vec![certificate.clone()],
            })
        })
        .collect();
    expected.push(bytes_of(RibRequestBody::WhichStore));
    let mut told: Vec<Vec<u8>> = told.into_iter().map(bytes_of).collect();
    told.sort();
    expected.sort();
    told.dedup();
    assert_eq!(told, expected);
    // And in no byte of it is anything of the inside.
    let inside = [&inner, &hidden, &hidden_capsule, &bound].map(|holder| holder.name().0.to_vec());
    for secret in inside.iter().chain([&vec![198, 51, 100, 77]]) {
        let shows = |bytes: &Vec<u8>| bytes.windows(secret.len()).any(|some| some == secret);
        assert!(!told.iter().any(shows));
    }
}

/// Leases are renewed every few minutes, exports seldom: the domain around pays for the latter.
#[test]
fn leases_that_are_renewed_beside_an_export_cost_the_domain_around_nothing() {
    let mut net = Net::new();
    let around = net.add_end_at(Role::Rib, Net::address(50));
    let end = net.add_end(Role::Router);
    let (domain, router, node) = (Holder::of(Role::Domain), Holder::new(), Holder::new());
    let rib = net.add_rib(&domain, &[Net::address(50)]);
    let [first, second] = [2, 21].map(|sequence| node.export(domain.name(), sequence));
    let told = |net: &mut Net, sequence: u64, export: &Certificate| {
        net.publish(end, rib, &node, node.route(router.name(), sequence));
        net.publish(end, rib, &node, export.clone());
        let mut published = 0;
        for _ in 0..50 {
            net.run(20);
            let asked = serve(net, around, rib);
            let is_order = |it: &&RibRequestBody| matches!(it, RibRequestBody::Publish { .. });
            published += asked.iter().filter(is_order).count();
        }
        published
    };
    assert_eq!(told(&mut net, 1, &first), 1);
    for renewal in 0..6 {
        assert_eq!(told(&mut net, 10 + renewal, &first), 0);
    }
    assert_eq!(told(&mut net, 20, &second), 1);
}

fn bytes_of(body: RibRequestBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    RibRequest { id: RequestId(0), body }.emit(&mut bytes);
    bytes
}

/// A domain in another one, and a node of it that is known outside.
fn inner_and_outer() -> (Net, usize, Domain, Domain, Holder) {
    let mut net = Net::new();
    let end = net.add_end(Role::Router);
    let out = Domain::at(&mut net, end, None);
    let inner = Domain::at(&mut net, end, Some(&out));
    let node = Holder::of(Role::Node);
    net.publish(end, inner.rib, &node, node.export(inner.name(), 1));
    net.run(500);
    assert!(way(&mut net, end, &out, &node).is_some());
    (net, end, out, inner, node)
}

fn way(net: &mut Net, end: usize, domain: &Domain, node: &Holder) -> Option<Vec<Certificate>> {
    net.look_up(end, domain.rib, node.name()).map(|(_, certificates)| certificates)
}

#[test]
fn a_domain_around_that_lost_its_store_is_told_everything_again() {
    let (mut net, end, out, inner, node) = inner_and_outer();
    net.stop(out.rib);
    net.start_empty(out.rib);
    net.run(8000);
    let chain = way(&mut net, end, &out, &node).expect("known again");
    let names: Vec<Name> = chain.iter().map(|it| it.issuer).collect();
    assert_eq!(names, [node.name(), inner.name(), inner.border.name()]);
}

#[test]
fn a_directory_that_was_started_again_hands_on_what_is_in_its_store() {
    let (mut net, end, out, inner, node) = inner_and_outer();
    net.stop(inner.rib);
    net.stop(out.rib);
    net.start_empty(out.rib);
    net.run(1000);
    assert_eq!(way(&mut net, end, &out, &node), None);
    net.start(inner.rib);
    net.run(8000);
    assert!(way(&mut net, end, &out, &node).is_some());
}

#[test]
fn what_is_renewed_here_is_renewed_there_and_what_is_said_while_it_is_away_comes_later() {
    let (mut net, end, out, inner, node) = inner_and_outer();
    net.publish(end, inner.rib, &node, node.export(inner.name(), 5));
    net.run(500);
    assert_eq!(way(&mut net, end, &out, &node).expect("known")[0].sequence, 5);
    net.stop(out.rib);
    net.publish(end, inner.rib, &node, node.export(inner.name(), 6));
    let other = Holder::of(Role::Node);
    net.publish(end, inner.rib, &other, other.export(inner.name(), 1));
    net.run(1000);
    net.start(out.rib);
    net.run(8000);
    assert_eq!(way(&mut net, end, &out, &node).expect("known")[0].sequence, 6);
    assert!(way(&mut net, end, &out, &other).is_some());
}
