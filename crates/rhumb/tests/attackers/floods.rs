//! Floods of PDUs that strangers send over their sessions.

use std::net::{Ipv4Addr, SocketAddr};

use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Action, Certificate, Name, PduHeader, Role, Scope, Statement};

use super::{AtRate, Stranger, now};

/// A stranger that never joins sends data with certificates that
/// nobody signed, in a circle through the router.
pub(crate) fn forge_certificates(router: SocketAddr, to: Name, per_s: u64) -> AtRate {
    let mut stranger = Stranger::connect(ATTACKER, router, Role::Node);
    let (own, via) = (stranger.name(), stranger.peer());
    let header = PduHeader::new(Action::Data, own, to);
    let circle = [unsigned(via, own), unsigned(own, via)];
    AtRate::start(per_s, move |_| {
        stranger.send(header, &[7; 64], &circle);
        stranger.ignore();
    })
}

/// A node that has joined sends data that get to the second router at most.
pub(crate) fn lower_ttl(router: SocketAddr, to: Name, per_s: u64) -> AtRate {
    let mut stranger = Stranger::join(ATTACKER, router, Role::Node);
    let header = PduHeader { ttl: 2, ..PduHeader::new(Action::Data, stranger.name(), to) };
    AtRate::start(per_s, move |_| {
        stranger.send(header, &[7; 64], &[]);
        stranger.ignore();
    })
}

/// Somebody who calls itself a router pings names that do not exist, each once.
pub(crate) fn ping_random_names(router: SocketAddr, per_s: u64) -> AtRate {
    let mut stranger = Stranger::join(ATTACKER, router, Role::Router);
    let own = stranger.name();
    AtRate::start(per_s, move |number| {
        let mut name = own;
        name.0[..8].copy_from_slice(&number.to_be_bytes());
        stranger.send(PduHeader::new(Action::Ping, own, name), &[], &[]);
        stranger.ignore();
    })
}

/// Strangers with a session each, and each time another certificate whose signature is wrong: sent
/// to the router, or elsewhere, for what they cost the attacker alone.
pub(crate) fn forge_chains(
    router: SocketAddr,
    to: SocketAddr,
    sessions: usize,
    per_s: u64,
) -> AtRate {
    let connect = |_| {
        let mut stranger = Stranger::connect(ATTACKER, router, Role::Node);
        stranger.divert(to);
        stranger
    };
    let mut strangers: Vec<Stranger> = (0..sessions).map(connect).collect();
    AtRate::start(per_s, move |number| {
        let stranger = &mut strangers[number as usize % sessions];
        let (own, via) = (stranger.name(), stranger.peer());
        let mut route = unsigned(own, via);
        route.sequence += number;
        route.signature[..8].copy_from_slice(&(number | 1 << 40).to_be_bytes());
        stranger.send(PduHeader::new(Action::Advertise, own, via), &[], &[route]);
        stranger.ignore();
    })
}

/// Sessions with a RIB, over which statements of self-made names come whose
/// signatures are wrong, each time another one.
pub(crate) fn forge_statements(rib: SocketAddr, sessions: usize, per_s: u64) -> AtRate {
    let connect = |_| Stranger::connect(ATTACKER, rib, Role::Router);
    let mut strangers: Vec<Stranger> = (0..sessions).map(connect).collect();
    AtRate::start(per_s, move |number| {
        let stranger = &mut strangers[number as usize % sessions];
        let (own, to) = (stranger.name(), stranger.peer());
        let mut route = unsigned(own, to);
        route.sequence += number;
        route.signature[..8].copy_from_slice(&(number | 1 << 40).to_be_bytes());
        let metadata = vec![(**stranger.identity.metadata()).clone()];
        let body = RibRequestBody::Publish { metadata, certificates: vec![route] };
        let mut data = Vec::new();
        RibRequest { id: RequestId(number as u32), body }.emit(&mut data);
        stranger.send(PduHeader::new(Action::RibRequest, own, to), &data, &[]);
        stranger.ignore();
    })
}

/// A certificate that nobody signed.
fn unsigned(issuer: Name, via: Name) -> Certificate {
    let now = now();
    Certificate {
        sequence: now.unix_ms,
        not_before_s: now.unix_s(),
        not_after_s: now.unix_s() + 600,
        issuer,
        statement: Statement::Route { via, scope: Scope::Any },
        signature: [0; SIGNATURE_LEN],
    }
}

/// Where those are who have one address.
pub(crate) const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 3, 0, 1);
