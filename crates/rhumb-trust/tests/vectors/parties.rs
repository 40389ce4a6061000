//! Who speaks in the vectors: names with fixed Ed25519 keys,
//! so that every signature is the same each time.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use rhumb_trust::log::Roots;
use rhumb_trust::{Window, name_of, verify_statement};
use rhumb_wire::certificate::{Locator, SIGNATURE_LEN};
use rhumb_wire::log::Head;
use rhumb_wire::{
    Certificate, Limits, Metadata, Name, PublicKey, PublishedNames, Rights, Role, Scope, Statement,
};

/// When every statement begins, unless it says otherwise: 2023-11-14, 22:13:20 UTC.
pub(crate) const NOW_S: u64 = 1_700_000_000;
/// How long every statement lasts, unless it says otherwise.
pub(crate) const LIFETIME_S: u64 = 600;
/// Milliseconds since 1970, as sequences are.
pub(crate) const SEQUENCE: u64 = NOW_S * 1000;

/// One name and its key. The key is public: never use it for anything else.
pub(crate) struct Party {
    pub(crate) title: &'static str,
    pub(crate) seed: [u8; 32],
    pub(crate) metadata: Metadata,
    pub(crate) name: Name,
    key: Ed25519KeyPair,
}

pub(crate) struct Parties {
    pub(crate) alice: Party,
    pub(crate) bob: Party,
    pub(crate) near: Party,
    pub(crate) far: Party,
    pub(crate) rib: Party,
    pub(crate) capsule: Party,
    pub(crate) domain: Party,
}

impl Parties {
    pub(crate) fn new() -> Self {
        Self {
            alice: Party::new("alice", 1, Role::Node),
            bob: Party::new("bob", 2, Role::Node),
            near: Party::new("the near router", 3, Role::Router),
            far: Party::new("the far router", 4, Role::Router),
            rib: Party::new("the RIB", 5, Role::Rib),
            capsule: Party::new("the capsule", 6, Role::Capsule),
            domain: Party::new("the domain", 7, Role::Domain),
        }
    }

    pub(crate) fn all(&self) -> [&Party; 7] {
        [&self.alice, &self.bob, &self.near, &self.far, &self.rib, &self.capsule, &self.domain]
    }

    pub(crate) fn key_of(&self, name: &Name) -> Option<PublicKey> {
        self.all().into_iter().find(|party| party.name == *name).map(|party| party.metadata.key)
    }
}

impl Party {
    fn new(title: &'static str, number: u8, role: Role) -> Self {
        let seed = [number; 32];
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let public = PublicKey::Ed25519(key.public_key().as_ref().try_into().unwrap());
        let metadata = Metadata::new(role, public, NOW_S);
        Self { title, seed, name: name_of(&metadata), metadata, key }
    }

    /// What this publishes under its own name.
    pub(crate) fn publishes(&self, names: &[(&str, &Self)]) -> PublishedNames {
        let names = names.iter().map(|(label, party)| (label.parse().unwrap(), party.name));
        let mut published = PublishedNames {
            sequence: SEQUENCE,
            not_before_s: NOW_S,
            not_after_s: NOW_S + LIFETIME_S,
            owner: self.name,
            names: names.collect(),
            signature: [0; SIGNATURE_LEN],
        };
        let signature = self.key.sign(&published.signed_bytes());
        published.signature.copy_from_slice(signature.as_ref());
        published
    }

    /// Signs a head of a log.
    pub(crate) fn head(&self, roots: Roots) -> Head {
        let Roots { epoch, began_ms, made_ms, names, map, history } = roots;
        let (rib, signature) = (self.name, [0; SIGNATURE_LEN]);
        let mut head = Head { epoch, began_ms, made_ms, names, rib, map, history, signature };
        let signature = self.key.sign(&head.signed_bytes());
        head.signature.copy_from_slice(signature.as_ref());
        head
    }

    /// DomainCert(this -> member), without limits.
    pub(crate) fn member(&self, member: &Self, rights: Rights) -> Certificate {
        self.member_within(Limits::NONE, member, rights)
    }

    /// DomainCert(this -> member).
    pub(crate) fn member_within(
        &self,
        limits: Limits,
        member: &Self,
        rights: Rights,
    ) -> Certificate {
        self.says(Statement::Member { member: member.name, rights, limits })
    }

    /// This takes back what made `member` one.
    pub(crate) fn removal(&self, member: &Self) -> Certificate {
        self.says(Statement::Removal { member: member.name })
    }

    /// Signs a statement of the usual sequence and window.
    pub(crate) fn says(&self, statement: Statement) -> Certificate {
        self.says_at(statement, SEQUENCE, Window::starting(NOW_S, LIFETIME_S))
    }

    pub(crate) fn says_at(
        &self,
        statement: Statement,
        sequence: u64,
        window: Window,
    ) -> Certificate {
        let mut certificate = Certificate {
            sequence,
            not_before_s: window.not_before_s,
            not_after_s: window.not_after_s,
            issuer: self.name,
            statement,
            signature: [0; SIGNATURE_LEN],
        };
        let signature = self.key.sign(&certificate.signed_bytes());
        certificate.signature = signature.as_ref().try_into().unwrap();
        verify_statement(&certificate, &self.metadata, window.not_before_s).unwrap();
        certificate
    }

    pub(crate) fn route(&self, via: &Self) -> Certificate {
        self.says(Statement::Route { via: via.name, scope: Scope::Any })
    }

    pub(crate) fn route_for(&self, via: &Self, destination: &Self) -> Certificate {
        self.says(Statement::Route { via: via.name, scope: Scope::Destination(destination.name) })
    }

    pub(crate) fn export(&self, domain: &Self, up_to: Option<&Self>) -> Certificate {
        let up_to = up_to.map(|outermost| outermost.name);
        self.says(Statement::Route { via: domain.name, scope: Scope::ByDomain { up_to } })
    }

    pub(crate) fn locator(&self, address: &str) -> Certificate {
        self.says(Statement::Locator(Locator::new(address.parse().unwrap()).unwrap()))
    }

    pub(crate) fn service(&self, server: &Self) -> Certificate {
        self.says(Statement::Service { server: server.name, several: false })
    }
}
