//! Every way in which a chain of certificates is refused,
//! and the two ways in which a good one is read.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::collections::HashMap;

use proptest::prelude::*;
use rhumb_trust::{
    CLOCK_SKEW_S, ChainError, Identity, StatementError, Verified, Window, verify_chain,
    verify_chain_beside,
};
use rhumb_wire::certificate::{Locator, MAX_CHAIN};
use rhumb_wire::{Certificate, Name, PublicKey, Role, Scope, Statement};

const NOW_S: u64 = 1_000_000;
const LIFETIME_S: u64 = 600;

/// Holders in a line: each lets the next one carry.
struct Line {
    holders: Vec<Identity>,
    keys: HashMap<Name, PublicKey>,
}

impl Line {
    fn of(len: usize) -> Self {
        let holders: Vec<_> =
            (0..len).map(|_| Identity::generate(Role::Router, 0).unwrap()).collect();
        let keys = holders.iter().map(|h| (h.name(), h.metadata().key)).collect();
        Self { holders, keys }
    }

    fn name(&self, index: usize) -> Name {
        self.holders[index].name()
    }

    fn certify(&self, issuer: usize, statement: Statement) -> Certificate {
        let window = Window::starting(NOW_S, LIFETIME_S);
        self.holders[issuer].certify(statement, 1, window).unwrap()
    }

    fn route(&self, from: usize, via: usize, scope: Scope) -> Certificate {
        self.certify(from, Statement::Route { via: self.name(via), scope })
    }

    fn routes(&self) -> Vec<Certificate> {
        (1..self.holders.len()).map(|via| self.route(via - 1, via, Scope::Any)).collect()
    }

    fn locator(&self, of: usize) -> Certificate {
        let locator = Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap();
        self.certify(of, Statement::Locator(locator))
    }

    fn verify_at(&self, certificates: Vec<Certificate>, now_s: u64) -> Result<(), ChainError> {
        verify_chain(self.name(0), certificates, |n| self.keys.get(n).copied(), now_s).map(|_| ())
    }

    fn refusal(&self, certificates: Vec<Certificate>) -> ChainError {
        self.verify_at(certificates, NOW_S).unwrap_err()
    }
}

#[test]
fn what_was_verified_before_is_not_verified_again_and_nothing_else_is_believed_for_it() {
    let line = Line::of(2);
    let chain = vec![line.route(0, 1, Scope::Any), line.locator(1)];
    let key_of = |name: &Name| line.keys.get(name).copied();
    let verified = verify_chain(line.name(0), chain.clone(), key_of, NOW_S).unwrap();
    assert_eq!(verified.first().cloned().into_inner(), chain[0]);
    let believed: Vec<_> = verified.statements().skip(1).map(Verified::cloned).collect();
    // With another key in its issuer's place it shows whether a signature is checked.
    let other = Identity::generate(Role::Router, 0).unwrap().metadata().key;
    let with = |certificates: &[Certificate], of: usize, believed: &[Verified<Certificate>]| {
        let key_of = |name: &Name| if *name == line.name(of) { Some(other) } else { key_of(name) };
        let certificates = certificates.to_vec();
        verify_chain_beside(line.name(0), certificates, believed, key_of, NOW_S).map(|_| ())
    };
    let bad = |at| Err(ChainError::Statement { at, error: StatementError::BadSignature });
    assert_eq!(with(&chain, 1, &believed), Ok(()), "checked before");
    assert_eq!(with(&chain, 1, &[]), bad(1));
    assert_eq!(with(&chain, 0, &believed), bad(0), "of the other one nothing was believed");
    // The same words with another signature, or a longer lease, are not what was believed.
    for forge in [
        (|it: &mut Certificate| it.signature[9] ^= 1) as fn(&mut Certificate),
        |it| it.not_after_s += 1,
        |it| it.sequence += 1,
    ] {
        let mut forged = chain.clone();
        forge(&mut forged[1]);
        let result =
            verify_chain_beside(line.name(0), forged, &believed, key_of, NOW_S).map(|_| ());
        assert_eq!(result, bad(1));
    }
    // It holds no longer than it says, believed or not.
    let late = NOW_S + LIFETIME_S + CLOCK_SKEW_S + 1;
    let result = verify_chain_beside(line.name(0), chain, &believed, key_of, late).map(|_| ());
    let error = StatementError::Expired { ended_ago_s: CLOCK_SKEW_S + 1 };
    assert_eq!(result, Err(ChainError::Statement { at: 0, error }));
}

#[test]
fn a_good_chain_is_read_both_ways() {
    let line = Line::of(4);
    let mut certificates = line.routes();
    certificates.push(line.locator(3));
    let chain =
        verify_chain(line.name(0), certificates, |n| line.keys.get(n).copied(), NOW_S).unwrap();
    assert_eq!(chain.origin(), line.name(0));
    assert_eq!(chain.routers().collect::<Vec<_>>(), [line.name(1), line.name(2), line.name(3)]);
    assert_eq!(chain.last_router(), Some(line.name(3)));
    assert_eq!(chain.toward_origin(line.name(3)), Some(line.name(2)));
    assert_eq!(chain.toward_origin(line.name(1)), Some(line.name(0)));
    assert_eq!(chain.toward_origin(line.name(0)), None);
    assert_eq!(chain.locator().unwrap().address(), "192.0.2.1:4000".parse().unwrap());
    assert_eq!(chain.not_after_s(), NOW_S + LIFETIME_S);
    assert!(chain.permits(Name([9; 32])));
}

#[test]
fn the_length_is_bounded_from_both_sides() {
    let line = Line::of(MAX_CHAIN + 2);
    let mut certificates = line.routes();
    assert_eq!(line.refusal(certificates.clone()), ChainError::TooLong { len: MAX_CHAIN + 1 });
    certificates.pop();
    assert_eq!(line.verify_at(certificates, NOW_S), Ok(()));
    assert_eq!(line.refusal(Vec::new()), ChainError::Empty);
}

#[test]
fn the_order_of_delegation_is_checked() {
    let line = Line::of(4);
    let routes = line.routes();
    let issuer = line.name(1);
    assert_eq!(line.refusal(routes[1..].to_vec()), ChainError::WrongOrigin { issuer });
    let broken = vec![routes[0].clone(), routes[2].clone()];
    assert_eq!(line.refusal(broken), ChainError::Broken { at: 1 });
    let back = vec![routes[0].clone(), line.route(1, 0, Scope::Any)];
    assert_eq!(line.refusal(back), ChainError::Loop { at: 1 });
    assert_eq!(line.refusal(vec![line.route(0, 0, Scope::Any)]), ChainError::Loop { at: 0 });
}

#[test]
fn only_routes_delegate() {
    let line = Line::of(3);
    let withdrawal = line.certify(0, Statement::Withdrawal);
    assert_eq!(line.refusal(vec![withdrawal]), ChainError::NotARoute { at: 0 });
    let absence = line.certify(0, Statement::Absence { subject: line.name(1) });
    assert_eq!(line.refusal(vec![absence]), ChainError::NotARoute { at: 0 });
    let early = vec![line.route(0, 1, Scope::Any), line.locator(1), line.route(1, 2, Scope::Any)];
    assert_eq!(line.refusal(early), ChainError::NotARoute { at: 1 });
    // An address alone is a path, but grants nobody the right to carry.
    let alone = vec![line.locator(0)];
    let chain = verify_chain(line.name(0), alone, |n| line.keys.get(n).copied(), NOW_S).unwrap();
    assert_eq!((chain.last_router(), chain.locator().is_some()), (None, true));
}

#[test]
fn a_service_begins_a_chain_and_grants_nothing_alone() {
    let line = Line::of(4);
    let service = line.certify(0, Statement::Service { server: line.name(1), several: false });
    assert_eq!(line.refusal(vec![service.clone()]), ChainError::NotARoute { at: 0 });
    let good = vec![service.clone(), line.route(1, 2, Scope::Any), line.route(2, 3, Scope::Any)];
    let chain = verify_chain(line.name(0), good, |n| line.keys.get(n).copied(), NOW_S).unwrap();
    assert_eq!((chain.server(), chain.holder()), (Some(line.name(1)), line.name(1)));
    assert_eq!(chain.routers().collect::<Vec<_>>(), [line.name(2), line.name(3)]);
    assert_eq!(chain.toward_origin(line.name(2)), Some(line.name(1)));
    // Only the holder of the name hands it to a server, and a server hands it to no other.
    let late = line.certify(1, Statement::Service { server: line.name(2), several: false });
    let second = vec![service.clone(), late.clone(), line.route(2, 3, Scope::Any)];
    assert_eq!(line.refusal(second), ChainError::NotARoute { at: 1 });
    let after_route = vec![line.route(0, 1, Scope::Any), late, line.route(2, 3, Scope::Any)];
    assert_eq!(line.refusal(after_route), ChainError::NotARoute { at: 1 });
    let to_itself = line.certify(0, Statement::Service { server: line.name(0), several: false });
    let looping = vec![to_itself, line.route(0, 1, Scope::Any)];
    assert_eq!(line.refusal(looping), ChainError::Loop { at: 0 });
}

#[test]
fn windows_are_checked_with_the_stated_allowance() {
    let line = Line::of(3);
    let end = NOW_S + LIFETIME_S + CLOCK_SKEW_S;
    assert_eq!(line.verify_at(line.routes(), end), Ok(()));
    let expired = StatementError::Expired { ended_ago_s: CLOCK_SKEW_S + 1 };
    assert_eq!(
        line.verify_at(line.routes(), end + 1),
        Err(ChainError::Statement { at: 0, error: expired })
    );
    let start = NOW_S - CLOCK_SKEW_S;
    assert_eq!(line.verify_at(line.routes(), start), Ok(()));
    let early = StatementError::NotYetValid { starts_in_s: CLOCK_SKEW_S + 1 };
    assert_eq!(
        line.verify_at(line.routes(), start - 1),
        Err(ChainError::Statement { at: 0, error: early })
    );
}

#[test]
fn keys_and_signatures_are_needed() {
    let mut line = Line::of(3);
    let mut certificates = line.routes();
    certificates[1].signature[0] ^= 1;
    let error = StatementError::BadSignature;
    assert_eq!(line.refusal(certificates), ChainError::Statement { at: 1, error });
    // Signed by the right key, but for another name.
    let mut stolen = line.routes();
    stolen[1].signature = stolen[0].signature;
    assert_eq!(line.refusal(stolen), ChainError::Statement { at: 1, error });
    let missing = line.name(1);
    line.keys.remove(&missing);
    assert_eq!(line.refusal(line.routes()), ChainError::UnknownIssuer { name: missing });
}

#[test]
fn the_narrowest_scope_rules() {
    let line = Line::of(3);
    let (x, y) = (Name([1; 32]), Name([2; 32]));
    let only = Scope::Destination;
    let narrow = vec![line.route(0, 1, Scope::Any), line.route(1, 2, only(x))];
    let chain = verify_chain(line.name(0), narrow, |n| line.keys.get(n).copied(), NOW_S).unwrap();
    assert_eq!((chain.permits(x), chain.permits(y), chain.scope()), (true, false, only(x)));
    let apart = vec![line.route(0, 1, only(x)), line.route(1, 2, only(y))];
    assert_eq!(line.refusal(apart), ChainError::ScopesExclude { at: 1 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// A statement of one kind, re-read as another with the same signature, is refused.
    #[test]
    fn no_kind_passes_for_another(from in 0usize..5, to in 0usize..5) {
        let line = Line::of(2);
        let statement = |kind| match kind {
            0 => Statement::Route { via: line.name(1), scope: Scope::Any },
            1 => Statement::Absence { subject: line.name(1) },
            2 => Statement::Withdrawal,
            3 => Statement::Service { server: line.name(1), several: false },
            _ => Statement::Route { via: line.name(1), scope: Scope::Destination(line.name(0)) },
        };
        let mut certificate = line.certify(0, statement(from));
        certificate.statement = statement(to);
        let result = rhumb_trust::verify_statement(&certificate, line.holders[0].metadata(), NOW_S);
        prop_assert_eq!(result.is_ok(), from == to);
    }
}
