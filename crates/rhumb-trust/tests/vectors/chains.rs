//! Section 3: chains that are believed, and every way in which one
//! is not. The bytes are a list of certificates.

use rhumb_trust::{CLOCK_SKEW_S, Chain, verify_chain};
use rhumb_wire::{Certificate, Name, Scope, Statement};
use serde_json::{Value, json};

use super::file::File;
use super::parties::{LIFETIME_S, NOW_S, Parties};

/// What a chain is verified with, besides the metadata of all parties.
struct Question<'a> {
    parties: &'a Parties,
    origin: Name,
    now_s: u64,
}

pub(crate) fn write(parties: &Parties, file: &mut File) {
    let Parties { alice, bob, near, far, capsule, domain, rib, .. } = parties;
    let good = [
        ("one route", alice.name, vec![alice.route(near)]),
        ("two routes", alice.name, vec![alice.route(near), near.route(far)]),
        (
            "two routes and a locator",
            alice.name,
            vec![alice.route(near), near.route(far), far.locator("192.0.2.1:7460")],
        ),
        (
            "a service and a route by its server",
            capsule.name,
            vec![capsule.service(alice), alice.route(near), near.locator("[2001:db8::1]:7460")],
        ),
        ("a locator alone", near.name, vec![near.locator("192.0.2.1:7460")]),
        (
            "by a domain and the domain around it, to a border",
            alice.name,
            vec![alice.export(domain, Some(far)), domain.export(far, None), far.route(near)],
        ),
        (
            "a service whose server is exported",
            capsule.name,
            vec![capsule.service(alice), alice.export(domain, Some(rib)), domain.route(near)],
        ),
        ("for one destination", alice.name, vec![alice.route_for(near, bob), near.route(far)]),
    ];
    for (name, origin, certificates) in good {
        let question = Question { parties, origin, now_s: NOW_S };
        question.good(name, &certificates, file);
    }
    for now_s in [NOW_S - CLOCK_SKEW_S, NOW_S + LIFETIME_S + CLOCK_SKEW_S] {
        let question = Question { parties, origin: alice.name, now_s };
        let early = now_s < NOW_S;
        let name = if early { "60 seconds early" } else { "60 seconds late" };
        question.good(name, &[alice.route(near)], file);
        let question = Question { now_s: if early { now_s - 1 } else { now_s + 1 }, ..question };
        let name = if early { "61 seconds early" } else { "61 seconds late" };
        question.refused(name, &[alice.route(near)], file);
    }
    refusals(parties, file);
}

fn refusals(parties: &Parties, file: &mut File) {
    let Parties { alice, bob, near, far, rib, .. } = parties;
    let first = alice.route(near);
    let mut forged = first.clone();
    forged.signature = alice.route(far).signature;
    let of_a_stranger = Certificate { issuer: Name([9; 32]), ..far.route(bob) };
    let to_a_stranger = near.says(Statement::Route { via: Name([9; 32]), scope: Scope::Any });
    let bad = [
        ("another origin", vec![near.route(far)]),
        ("broken", vec![first.clone(), far.route(near)]),
        ("back to the origin", vec![first.clone(), near.route(alice)]),
        (
            "a locator before the end",
            vec![first.clone(), near.locator("192.0.2.1:1"), far.route(bob)],
        ),
        ("a withdrawal", vec![first.clone(), near.says(Statement::Withdrawal)]),
        ("an absence", vec![alice.says(Statement::Absence { subject: near.name })]),
        ("two destinations", vec![alice.route_for(near, bob), near.route_for(far, rib)]),
        ("an export behind a route", vec![first.clone(), near.export(far, None)]),
        ("a service alone", vec![alice.service(near)]),
        ("a service and a locator", vec![alice.service(near), near.locator("192.0.2.1:1")]),
        ("a service in the middle", vec![first.clone(), near.service(far), far.route(bob)]),
        ("an issuer whose metadata are not known", vec![first, to_a_stranger, of_a_stranger]),
        ("another statement's signature", vec![forged]),
    ];
    let question = Question { parties, origin: alice.name, now_s: NOW_S };
    for (name, certificates) in bad {
        question.refused(name, &certificates, file);
    }
}

impl Question<'_> {
    fn good(&self, name: &str, certificates: &[Certificate], file: &mut File) {
        let key_of = |name: &Name| self.parties.key_of(name);
        let chain = verify_chain(self.origin, certificates.to_vec(), key_of, self.now_s).unwrap();
        file.good("3", "chain", name, &self.fields(&chain), &emitted(certificates));
    }

    #[track_caller]
    fn refused(&self, name: &str, certificates: &[Certificate], file: &mut File) {
        let key_of = |name: &Name| self.parties.key_of(name);
        let outcome = verify_chain(self.origin, certificates.to_vec(), key_of, self.now_s);
        let vector = file.refused("3", "chain", name, &emitted(certificates), outcome);
        vector["fields"] = json!({"origin": self.origin.to_string(), "now_s": self.now_s});
    }

    fn fields(&self, chain: &Chain) -> Value {
        let routers: Vec<String> = chain.routers().map(|name| name.to_string()).collect();
        let destination = match chain.scope() {
            Scope::Any | Scope::ByDomain { .. } | Scope::ByNeighbour { .. } | Scope::Several => {
                None
            }
            Scope::Destination(name) => Some(name.to_string()),
        };
        json!({
            "origin": self.origin.to_string(),
            "now_s": self.now_s,
            "server": chain.server().map(|name| name.to_string()),
            "routers": routers,
            "locator": chain.locator().map(|locator| locator.address().to_string()),
            "destination": destination,
            "up_to": chain.bounds().map(|name| name.to_string()).collect::<Vec<_>>(),
            "exported": chain.exported_len(),
            "not_after_s": chain.not_after_s(),
        })
    }
}

fn emitted(certificates: &[Certificate]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Certificate::emit_list(certificates, &mut bytes);
    bytes
}
