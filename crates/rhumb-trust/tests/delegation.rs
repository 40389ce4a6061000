//! A domain's word for its border router and its parent: what is refused, and why.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use rhumb_trust::{
    CLOCK_SKEW_S, Delegation, DelegationError, Export, Identity, MAX_DELEGATION_LIFETIME_S,
    StatementError, Window,
};
use rhumb_wire::{Name, Role, Scope, Statement};

const ROUTER: Name = Name([7; 32]);
const PARENT: Name = Name([8; 32]);
const OUTERMOST: Name = Name([9; 32]);

fn domain() -> Identity {
    Identity::generate(Role::Domain, 3).unwrap()
}

fn by_parent() -> Option<Export> {
    Some(Export { domain: PARENT, up_to: Some(OUTERMOST) })
}

fn signed(parent: Option<Export>) -> Delegation {
    Delegation::sign(&domain(), (ROUTER, false), parent, 5, Window::starting(1000, 600)).unwrap()
}

#[test]
fn a_file_holds_all_of_it_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    for parent in [None, by_parent()] {
        let path = folder.path().join(format!("{}.border", parent.is_some()));
        let delegation = signed(parent);
        delegation.save(&path).unwrap();
        let read = Delegation::load(&path).unwrap();
        assert_eq!(read, delegation);
        assert_eq!((read.router(), read.parent(), read.not_after_s()), (ROUTER, parent, 1600));
        assert_eq!(read.certificates()[0].issuer, read.domain());
        assert!(matches!(signed(parent).save(&path), Err(DelegationError::File { .. })));
        std::fs::write(&path, [0xff; 99]).unwrap();
        let unreadable = Delegation::load(&path);
        assert!(matches!(unreadable, Err(DelegationError::Malformed { line: 1 })));
    }
}

#[test]
fn its_certificates_are_a_route_and_an_export_with_numbers_of_their_own() {
    let delegation = signed(by_parent());
    let said: Vec<_> =
        delegation.certificates().iter().map(|it| (it.sequence, it.statement)).collect();
    let up_to = Some(OUTERMOST);
    let expected = [
        (5, Statement::Route { via: ROUTER, scope: Scope::Several }),
        (6, Statement::Route { via: PARENT, scope: Scope::ByDomain { up_to } }),
    ];
    assert_eq!(said, expected);
}

#[test]
fn every_damaged_line_is_named() {
    let line_of = |text: &str| match Delegation::from_text(text) {
        Err(DelegationError::Malformed { line }) => Some(line),
        _ => None,
    };
    let text = signed(by_parent()).to_text();
    assert_eq!(line_of(&text), None);
    for (number, line) in text.lines().enumerate() {
        assert_eq!(line_of(&text.replace(line, "x")), Some(number + 1));
    }
    for number in 0..4 {
        let short: String = text.lines().take(number).flat_map(|l| [l, "\n"]).collect();
        assert_eq!(line_of(&short), Some(number + 1));
    }
    assert_eq!(line_of(&format!("{text}more\n")), Some(6));
}

#[test]
fn it_is_for_one_router_and_one_time() {
    let delegation = signed(by_parent());
    assert!(delegation.check(ROUTER, 1000).is_ok());
    assert!(matches!(
        delegation.check(PARENT, 1000),
        Err(DelegationError::OtherRouter { named: ROUTER, actual: PARENT, .. })
    ));
    let early = delegation.check(ROUTER, 1000 - CLOCK_SKEW_S - 1).unwrap_err();
    assert!(matches!(early, DelegationError::Statement(StatementError::NotYetValid { .. })));
    assert!(delegation.check(ROUTER, 1600 + CLOCK_SKEW_S).is_ok());
    let late = delegation.check(ROUTER, 1600 + CLOCK_SKEW_S + 1).unwrap_err();
    assert!(matches!(late, DelegationError::Statement(StatementError::Expired { .. })));
}

#[test]
fn a_delegation_that_says_something_else_cannot_be_made() {
    let (own, window) = (domain(), Window::starting(1000, 600));
    let sign = |issuer: &Identity, router, parent, window| {
        Delegation::sign(issuer, (router, false), parent, 5, window).unwrap_err()
    };
    let router = Identity::generate(Role::Router, 3).unwrap();
    assert!(matches!(sign(&router, ROUTER, None, window), DelegationError::NoDomain));
    assert!(matches!(sign(&own, own.name(), None, window), DelegationError::Itself));
    for parent in [
        Export { domain: own.name(), up_to: None },
        Export { domain: PARENT, up_to: Some(own.name()) },
    ] {
        assert!(matches!(sign(&own, ROUTER, Some(parent), window), DelegationError::Itself));
    }
    let long = |s| Window::starting(1000, MAX_DELEGATION_LIFETIME_S + s);
    assert!(Delegation::sign(&own, (ROUTER, false), None, 5, long(0)).is_ok());
    assert!(matches!(sign(&own, ROUTER, None, long(1)), DelegationError::TooLong));
}

#[test]
fn a_file_that_says_something_else_is_none() {
    let whole = signed(by_parent()).to_text();
    let lines: Vec<_> = whole.lines().collect();
    let with = |certificates: &[&str]| {
        let head = lines[..3].iter().chain(certificates);
        Delegation::from_text(&head.flat_map(|line| [*line, "\n"]).collect::<String>())
    };
    assert!(with(&[lines[3], lines[4]]).is_ok());
    // The parent alone, both in the wrong order, and the router twice.
    for wrong in [&[lines[4]][..], &[lines[4], lines[3]], &[lines[3], lines[3]]] {
        assert!(matches!(with(wrong), Err(DelegationError::OtherWords)), "{wrong:?}");
    }
    // Another domain's word, and a signature that is none.
    let foreign = signed(None).to_text();
    let foreign = foreign.lines().nth(3).unwrap();
    let (most, last) = lines[3].split_at(lines[3].len() - 1);
    let forged = format!("{most}{}", if last == "0" { "1" } else { "0" });
    for (wrong, error) in
        [(foreign, StatementError::WrongMetadata), (forged.as_str(), StatementError::BadSignature)]
    {
        let Err(DelegationError::Statement(found)) = with(&[wrong]) else { panic!("{error}") };
        assert_eq!(found, error);
    }
}
