//! Properties for the fuzzer and for tests: no chain is believed unless each of its certificates
//! was signed by its issuer, no membership gives more than its giver has, and nobody removes whom
//! he could not admit.
//!
//! That of chains is structure-aware, because random bytes stop at the first signature: the input
//! chooses who says what, and which of it is altered afterwards.

use std::sync::LazyLock;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use rhumb_wire::certificate::{Locator, MAX_CHAIN, SIGNATURE_LEN};
use rhumb_wire::{Certificate, Limits, Metadata, Name, PublicKey, Rights, Role, Scope, Statement};

use crate::{CLOCK_SKEW_S, MAX_DEPTH, Membership, Removal, name_of, verify_chain};

/// `verify_chain`: `data` are a byte for the time, then [`STEP`] bytes per certificate.
///
/// # Panics
/// When the property does not hold.
pub fn chain(data: &[u8]) {
    is_believed(data);
}

/// Whether the chain was believed.
fn is_believed(data: &[u8]) -> bool {
    let Some((&hour, steps)) = data.split_first() else { return false };
    let now_s = u64::from(hour) * 60;
    let statements: Option<Vec<(Certificate, bool)>> = steps
        .chunks_exact(STEP)
        .take(MAX_CHAIN + 1)
        .map(|step| PARTIES.state(step.try_into().ok()?))
        .collect();
    let Some(statements) = statements else { return false };
    let origin = PARTIES.0[0].name;
    let listed = statements.iter().map(|(certificate, _)| certificate.clone()).collect();
    let Ok(chain) = verify_chain(origin, listed, |name| PARTIES.key_of(name), now_s) else {
        return false;
    };
    assert!((1..=MAX_CHAIN).contains(&statements.len()));
    let mut issuer = origin;
    for (certificate, is_genuine) in &statements {
        assert!(is_genuine, "believed what nobody signed: {certificate:?}");
        assert_eq!(certificate.issuer, issuer, "the order of delegation");
        issuer = certificate.statement.hands_on_to().unwrap_or(issuer);
        assert!(certificate.not_before_s <= now_s + CLOCK_SKEW_S);
        assert!(now_s <= certificate.not_after_s + CLOCK_SKEW_S);
        assert!(chain.not_after_s() <= certificate.not_after_s);
        let scope = certificate.statement.scope();
        match scope {
            Scope::Any | Scope::Several => {}
            Scope::Destination(_) => assert_eq!(scope, chain.scope(), "a scope was widened"),
            Scope::ByDomain { up_to } | Scope::ByNeighbour { up_to } => {
                assert!(up_to.is_none_or(|name| chain.bounds().any(|it| it == name)));
            }
        }
    }
    let exported = statements.iter().map(|(it, _)| it.statement.exports_by().is_some());
    let inside = exported.skip(chain.exported_len());
    assert!(inside.into_iter().all(|is_export| !is_export), "an export behind the inside");
    let shown = &chain.certificates()[..chain.exported_len()];
    let only_exports = shown.iter().skip(usize::from(chain.server().is_some()));
    assert!(only_exports.into_iter().all(|it| it.statement.exports_by().is_some()));
    let mut names: Vec<Name> = chain.routers().chain(chain.server()).chain([origin]).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name occurs twice");
    true
}

/// `Membership::parse`, and what it takes for one.
///
/// # Panics
/// When a property does not hold.
pub fn membership(data: &[u8]) {
    let Ok(membership) = Membership::parse(data) else { return };
    assert_eq!(membership.emit(), data, "one encoding");
    let certificates = membership.certificates();
    assert!((1..=MAX_DEPTH).contains(&certificates.len()));
    for pair in certificates.windows(2) {
        let [own, given] = [0, 1].map(|at| match pair[at].statement {
            Statement::Member { rights, limits, .. } => (rights, limits),
            ref other => panic!("{other:?}"),
        });
        let ((own, within), (given, limits)) = (own, given);
        assert!(own.hold(Rights::ADMIT) && own.hold(given), "{own:?} gives {given:?}");
        assert_eq!(limits.wider_than(&within), None, "{within:?} gives {limits:?}");
    }
    let member = membership.member();
    assert!(membership.check(&membership.domain(), 0).is_err(), "a domain in itself");
    let _ = membership.check(&member, certificates[0].not_before_s);
}

/// `Removal::parse`, and what it takes for one.
///
/// # Panics
/// When a property does not hold.
pub fn removal(data: &[u8]) {
    let Ok(removal) = Removal::parse(data) else { return };
    assert_eq!(removal.emit(), data, "one encoding");
    assert!((1..=MAX_DEPTH).contains(&removal.signatures()));
    let said = removal.certificate();
    assert_eq!(said.statement, Statement::Removal { member: removal.removed() });
    if let Some(authority) = removal.authority() {
        assert_eq!(authority.member(), removal.issuer());
        assert!(authority.rights().hold(Rights::ADMIT), "by who may not admit");
        assert!(!removal.counts_against(authority), "against its own issuer's");
    }
    assert_ne!(removal.removed(), removal.issuer());
    let now_s = said.not_before_s;
    if let Ok(believed) = removal.verify(now_s) {
        assert!(believed.certificate().sequence / 1000 <= now_s + CLOCK_SKEW_S, "ahead");
    }
}

/// Holders with keys of their own; the last one's key is known to nobody.
struct Parties(Vec<Party>);

struct Party {
    name: Name,
    key: Ed25519KeyPair,
    public: PublicKey,
}

impl Parties {
    fn new() -> Self {
        let party = |number| {
            let key = Ed25519KeyPair::from_seed_unchecked(&[number; 32]).expect("a seed is a key");
            let bytes = key.public_key().as_ref().try_into().expect("32 bytes");
            let public = PublicKey::Ed25519(bytes);
            Party { name: name_of(&Metadata::new(Role::Router, public, 0)), key, public }
        };
        Self((0..PARTIES_LEN).map(party).collect())
    }

    fn key_of(&self, name: &Name) -> Option<PublicKey> {
        let (_, known) = self.0.split_last()?;
        known.iter().find(|party| party.name == *name).map(|party| party.public)
    }

    /// One certificate, and whether its issuer signed it as it is. `None`
    /// when what was altered does not even parse.
    fn state(&self, step: &[u8; STEP]) -> Option<(Certificate, bool)> {
        let [issuer, kind, subject, peer, signer, begins, at, change] = *step;
        let party = |number: u8| &self.0[usize::from(number % PARTIES_LEN)];
        let (issuer, subject, signer) = (party(issuer), party(subject), party(signer));
        let statement = match kind % 8 {
            0 | 1 => Statement::Route { via: subject.name, scope: Scope::Any },
            2 => {
                Statement::Route { via: subject.name, scope: Scope::Destination(party(peer).name) }
            }
            6 => {
                let up_to = (peer % 2 == 0).then(|| party(peer).name);
                Statement::Route { via: subject.name, scope: Scope::ByDomain { up_to } }
            }
            7 => {
                let up_to = (peer % 2 == 0).then(|| party(peer).name);
                Statement::Route { via: subject.name, scope: Scope::ByNeighbour { up_to } }
            }
            3 => Statement::Service { server: subject.name, several: false },
            4 => {
                let address = ([192, 0, 2, peer], 7460).into();
                Statement::Locator(Locator::new(address).expect("a unicast address"))
            }
            _ if peer % 2 == 0 => Statement::Withdrawal,
            _ if peer % 4 == 1 => Statement::Absence { subject: subject.name },
            _ => {
                let bits = u32::from(peer) / 4 % 16;
                let rights = Rights::from_bits(bits).unwrap_or(Rights::JOIN);
                Statement::Member { member: subject.name, rights, limits: Limits::NONE }
            }
        };
        let not_before_s = u64::from(begins) * 60;
        let mut certificate = Certificate {
            sequence: u64::from(peer),
            not_before_s,
            not_after_s: not_before_s + 600,
            issuer: issuer.name,
            statement,
            signature: [0; SIGNATURE_LEN],
        };
        let signature = signer.key.sign(&certificate.signed_bytes());
        certificate.signature = signature.as_ref().try_into().expect("64 bytes");
        if change == 0 {
            return Some((certificate, signer.name == issuer.name));
        }
        let mut bytes = Vec::new();
        certificate.emit(&mut bytes);
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= change;
        Certificate::parse(&bytes).ok().map(|altered| (altered, false))
    }
}

static PARTIES: LazyLock<Parties> = LazyLock::new(Parties::new);
/// One more than a chain can name, so that chains can be too long.
const PARTIES_LEN: u8 = MAX_CHAIN as u8 + 3;
/// Issuer, kind, subject, peer, signer, beginning in minutes,
/// the byte to alter, and how; 0 alters nothing.
const STEP: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, Window};
    use proptest::prelude::*;

    fn route(from: u8, to: u8) -> [u8; STEP] {
        [from, 0, to, 0, from, 10, 0, 0]
    }

    fn input(steps: &[[u8; STEP]]) -> Vec<u8> {
        [&[10][..], steps.as_flattened()].concat()
    }

    #[test]
    fn genuine_chains_are_believed_up_to_the_longest() {
        for len in 1..=MAX_CHAIN as u8 {
            let steps: Vec<_> = (0..len).map(|at| route(at, at + 1)).collect();
            assert!(is_believed(&input(&steps)), "{len} routes");
        }
        let nine: Vec<_> = (0..=MAX_CHAIN as u8).map(|at| route(at, at + 1)).collect();
        assert!(!is_believed(&input(&nine)));
    }

    #[test]
    fn any_altered_byte_is_refused() {
        for at in 0..=255 {
            let mut second = route(1, 2);
            (second[6], second[7]) = (at, 1);
            assert!(!is_believed(&input(&[route(0, 1), second])), "byte {at}");
        }
    }

    #[test]
    fn a_removal_with_any_changed_byte_keeps_to_what_removals_are() {
        let identity = || Identity::generate(Role::Domain, 0).unwrap();
        let (domain, working) = (identity(), identity());
        let (window, name) = (Window::starting(1000, 60), Name([7; 32]));
        let own = Membership::sign(&domain, None, working.name(), Rights::ADMIT, 1, window);
        let said = Removal::sign(&working, Some(&own.unwrap()), name, 1, window).unwrap();
        let bytes = said.emit();
        removal(&bytes);
        for at in 0..bytes.len() {
            for flipped in [1, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= flipped;
                removal(&changed);
                let is_believed = Removal::parse(&changed).is_ok_and(|it| it.verify(1000).is_ok());
                assert!(!is_believed, "byte {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_believed_that_nobody_signed(
            steps in prop::collection::vec(any::<[u8; STEP]>(), 0..10),
            genuine in 0u8..9,
            bent in prop::option::of((0usize..9, 0..STEP, any::<u8>())),
        ) {
            chain(&input(&steps));
            let mut line: Vec<_> = (0..genuine).map(|at| route(at, at + 1)).collect();
            if let Some((step, at, value)) = bent
                && let Some(step) = line.get_mut(step)
            {
                step[at] = value;
            }
            chain(&input(&line));
        }
    }
}
