//! Removals from trust domains: against what they count, and who cannot make use of them.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_trust::{
    Access, CLOCK_SKEW_S, Identity, MAX_MEMBERSHIP_LIFETIME_S, Membership, MembershipError,
    Missing, Noted, Removal, RemovalError, Removals, Rule, Standing, StatementError, Window,
};
use rhumb_wire::{Name, Rights, Role};

const NOW_S: u64 = 1_700_000_000;
const NOW_MS: u64 = NOW_S * 1000;
const DAY_S: u64 = 24 * 60 * 60;

fn identity(role: Role) -> Identity {
    Identity::generate(role, 0).unwrap()
}

fn window() -> Window {
    Window::starting(NOW_S, DAY_S)
}

fn admit(issuer: &Identity, by: Option<&Membership>, member: Name, sequence: u64) -> Membership {
    let rights = Rights::JOIN.and(Rights::ADMIT);
    Membership::sign(issuer, by, member, rights, sequence, window()).unwrap()
}

fn remove(issuer: &Identity, by: Option<&Membership>, removed: Name, sequence: u64) -> Removal {
    Removal::sign(issuer, by, removed, sequence, window()).unwrap()
}

/// A domain, a key that it admitted to admit others, and a member that that admitted.
struct Line {
    domain: Identity,
    working: Identity,
    own: Membership,
    member: Name,
    membership: Membership,
}

fn line() -> Line {
    let (domain, working) = (identity(Role::Domain), identity(Role::Domain));
    let own = admit(&domain, None, working.name(), NOW_MS);
    let member = identity(Role::Node).name();
    let membership = admit(&working, Some(&own), member, NOW_MS);
    Line { domain, working, own, member, membership }
}

#[test]
fn it_counts_against_what_its_issuer_gave_by_then_and_all_that_came_of_it() {
    let Line { domain, working, own, member, membership } = line();
    for (issuer, by, removed) in
        [(&domain, None, member), (&domain, None, working.name()), (&working, Some(&own), member)]
    {
        assert!(!remove(issuer, by, removed, NOW_MS - 1).counts_against(&membership), "older");
        assert!(remove(issuer, by, removed, NOW_MS).counts_against(&membership));
    }
    // Whoever is admitted again later is a member again.
    let removal = remove(&domain, None, member, NOW_MS + 5);
    let again = |sequence| admit(&working, Some(&own), member, sequence);
    assert!(removal.counts_against(&again(NOW_MS + 5)));
    assert!(!removal.counts_against(&again(NOW_MS + 6)));
    // That who admitted him was admitted again is no reason, if he was not.
    let renewed = admit(&domain, None, working.name(), NOW_MS + 9);
    assert!(removal.counts_against(&admit(&working, Some(&renewed), member, NOW_MS)));
}

#[test]
fn nobody_removes_whom_he_did_not_admit() {
    let Line { domain, working, own, member, membership } = line();
    let direct = admit(&domain, None, member, NOW_MS);
    let by_admitter = remove(&working, Some(&own), member, NOW_MS + 1);
    assert!(by_admitter.counts_against(&membership) && !by_admitter.counts_against(&direct));
    let stranger = identity(Role::Domain);
    assert!(!remove(&stranger, None, member, NOW_MS + 1).counts_against(&membership));
    let sign = |issuer: &Identity, by, removed| {
        Removal::sign(issuer, by, removed, NOW_MS, window()).map(|_| ())
    };
    let refused = [
        ("itself", sign(&domain, None, domain.name())),
        ("a working key itself", sign(&working, Some(&own), working.name())),
        ("who admitted it", sign(&working, Some(&own), domain.name())),
    ];
    for (whom, result) in refused {
        assert!(matches!(result, Err(RemovalError::NotBelow)), "{whom}: {result:?}");
    }
    let node = identity(Role::Node);
    assert!(matches!(sign(&node, None, member), Err(RemovalError::NoAuthority)));
    assert!(matches!(sign(&node, Some(&own), member), Err(RemovalError::NoAuthority)));
    let plain = Membership::sign(&domain, None, node.name(), Rights::JOIN, 1, window()).unwrap();
    assert!(matches!(sign(&node, Some(&plain), member), Err(RemovalError::NoAuthority)));
}

#[test]
fn what_is_forged_ahead_or_over_is_not_believed() {
    let Line { domain, working, own, member, .. } = line();
    let removal = remove(&working, Some(&own), member, NOW_MS);
    assert_eq!(Removal::parse(&removal.emit()).unwrap(), removal);
    assert_eq!(Removal::from_lists(removal.lists()).unwrap(), removal);
    let len = removal.emit().len();
    for back in [1, 170] {
        let mut forged = removal.emit();
        forged[len - back] ^= 1;
        let result = Removal::parse(&forged).unwrap().verify(NOW_S);
        let is_forged =
            |error| matches!(error, RemovalError::Statement(StatementError::BadSignature));
        assert!(result.is_err_and(is_forged), "{back} bytes from the end");
    }
    // What nobody could be admitted again after.
    let skew_ms = CLOCK_SKEW_S * 1000;
    assert!(remove(&domain, None, member, NOW_MS + skew_ms).verify(NOW_S).is_ok());
    let ahead = remove(&domain, None, member, NOW_MS + skew_ms + 1000).verify(NOW_S);
    assert!(matches!(ahead, Err(RemovalError::Ahead)), "{ahead:?}");
    let last_s = NOW_S + DAY_S + CLOCK_SKEW_S;
    assert!(
        removal.clone().verify(last_s).is_ok(),
        "its issuer's own membership has ended by then"
    );
    assert!(matches!(removal.clone().verify(last_s + 1), Err(RemovalError::Statement(_))));
    assert!(matches!(removal.verify(NOW_S - CLOCK_SKEW_S - 1), Err(RemovalError::Statement(_))));
    let long = Window::starting(NOW_S, MAX_MEMBERSHIP_LIFETIME_S + 1);
    let long = Removal::sign(&domain, None, member, NOW_MS, long);
    assert!(matches!(long, Err(RemovalError::TooLong)), "{long:?}");
}

#[test]
fn nobody_is_admitted_by_a_sequence_that_no_removal_reaches() {
    let Line { working, own, member, .. } = line();
    let skew_ms = CLOCK_SKEW_S * 1000;
    let given = |sequence| admit(&working, Some(&own), member, sequence).check(&member, NOW_S);
    assert!(given(NOW_MS + skew_ms).is_ok());
    for sequence in [NOW_MS + skew_ms + 1000, u64::MAX] {
        let ahead = given(sequence);
        assert!(matches!(ahead, Err(MembershipError::Ahead { at: 1 })), "{ahead:?}");
    }
}

#[test]
fn rules_take_who_was_removed_for_no_member_and_say_by_whom() {
    let Line { domain, working, own, membership, .. } = line();
    let node = identity(Role::Node);
    let membership = {
        drop(membership);
        admit(&working, Some(&own), node.name(), NOW_MS)
    };
    let rule = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
    let access = Access { rules: vec![rule], ..Access::default() };
    // Somebody else judges by the same register.
    let removals = access.clone().removals;
    let (name, metadata) = (&node.name(), &**node.metadata());
    let who = rhumb_trust::Who { name, metadata, membership: Some(&membership), now_s: NOW_S };
    assert!(access.is_member(&who, &domain.name()));
    assert_eq!(access.standing(&who), Standing::Admitted);
    let removal = remove(&domain, None, working.name(), NOW_MS).verify(NOW_S).unwrap();
    assert_eq!(removals.note(removal), Noted::New);
    assert!(!access.is_member(&who, &domain.name()));
    let treatment = access.explain(&who);
    assert_eq!((treatment.standing, treatment.rule), (Standing::Stranger, None));
    let domain = domain.name();
    assert_eq!(treatment.missing, Some(Missing::Removed { domain, by: domain }));
}

#[test]
fn a_replayed_older_removal_changes_nothing() {
    let Line { domain, member, .. } = line();
    let removals = Removals::default();
    let said = |sequence| remove(&domain, None, member, sequence).verify(NOW_S).unwrap();
    assert_eq!(removals.note(said(NOW_MS + 5)), Noted::New);
    let revision = removals.revision();
    for sequence in [NOW_MS + 5, NOW_MS + 4] {
        assert_eq!(removals.note(said(sequence)), Noted::Known);
    }
    assert_eq!((removals.len(), removals.revision()), (1, revision));
    let again = admit(&domain, None, member, NOW_MS + 6);
    assert_eq!(removals.against(&again), None);
    assert_eq!(removals.note(said(NOW_MS + 7)), Noted::New);
    assert_eq!((removals.len(), removals.against(&again)), (1, Some(domain.name())));
    assert!(removals.sweep(NOW_S + DAY_S + CLOCK_SKEW_S).is_empty());
    assert_eq!(removals.sweep(NOW_S + DAY_S + CLOCK_SKEW_S + 1).len(), 1);
    assert_eq!((removals.is_empty(), removals.against(&again)), (true, None));
}

#[test]
fn one_admitter_leaves_room_for_others_and_all_of_them_for_the_domain() {
    let domain = identity(Role::Domain);
    let removals = Removals::default();
    let name = |number: u32| {
        let mut name = [0; 32];
        name[..4].copy_from_slice(&number.to_be_bytes());
        Name(name)
    };
    let admitter = || {
        let working = identity(Role::Domain);
        let own = admit(&domain, None, working.name(), NOW_MS);
        (working, own)
    };
    let fill = |(working, own): &(Identity, Membership)| {
        let mut taken = 0;
        for number in 0..5000 {
            let removal = remove(working, Some(own), name(number), NOW_MS).verify(NOW_S).unwrap();
            match removals.note(removal) {
                Noted::New => taken += 1,
                Noted::Full => return taken,
                Noted::Known => {}
            }
        }
        taken
    };
    let first = admitter();
    assert_eq!(fill(&first), 4096);
    // What is there can be said anew.
    let newer = remove(&first.0, Some(&first.1), name(0), NOW_MS + 1).verify(NOW_S).unwrap();
    assert_eq!(removals.note(newer), Noted::New);
    let other = admitter();
    let one = remove(&other.0, Some(&other.1), name(1), NOW_MS).verify(NOW_S).unwrap();
    assert_eq!(removals.note(one), Noted::New);
    let own = remove(&domain, None, name(1), NOW_MS).verify(NOW_S).unwrap();
    assert_eq!(removals.note(own), Noted::New);
}
