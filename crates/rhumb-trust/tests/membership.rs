//! Memberships of trust domains: what is handed down is never more than its giver has, and every
//! way in which one does not serve has its own error.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use proptest::prelude::*;
use rhumb_trust::{
    Access, CLOCK_SKEW_S, Identity, MAX_DEPTH, MAX_MEMBERSHIP_LIFETIME_S, Membership,
    MembershipError, Rule, Standing, StatementError, Who, Window, x509,
};
use rhumb_wire::{Limit, Limits, Name, Rights, Role};

const NOW_S: u64 = 1_000_000;
const DAY_S: u64 = 24 * 60 * 60;

fn identity(role: Role) -> Identity {
    Identity::generate(role, 0).unwrap()
}

fn all() -> Rights {
    Rights::from_bits(15).unwrap()
}

fn admit(
    issuer: &Identity,
    by: Option<&Membership>,
    member: Name,
    rights: Rights,
) -> Result<Membership, MembershipError> {
    Membership::sign(issuer, by, member, rights, 1, Window::starting(NOW_S, DAY_S))
}

#[test]
fn a_working_key_admits_and_gives_no_more_than_it_has() {
    let (domain, working, member) =
        (identity(Role::Domain), identity(Role::Domain), identity(Role::Node));
    let own = Rights::ADMIT.and(Rights::JOIN);
    let own = admit(&domain, None, working.name(), own).unwrap();
    let membership = admit(&working, Some(&own), member.name(), Rights::JOIN).unwrap();
    assert_eq!((membership.domain(), membership.member()), (domain.name(), member.name()));
    assert_eq!(membership.rights(), Rights::JOIN);
    membership.check(&member.name(), NOW_S).unwrap();
    assert_eq!(Membership::parse(&membership.emit()).unwrap(), membership);
    assert_eq!(Membership::from_text(&membership.to_text()).unwrap(), membership);

    let more = admit(&working, Some(&own), member.name(), Rights::CARRY);
    assert!(matches!(more, Err(MembershipError::TooMuch { at: 1 })), "{more:?}");
    let further = admit(&member, Some(&membership), identity(Role::Node).name(), Rights::JOIN);
    assert!(matches!(further, Err(MembershipError::TooMuch { at: 2 })), "{further:?}");
    let anothers = admit(&member, Some(&own), identity(Role::Node).name(), Rights::JOIN);
    assert!(matches!(anothers, Err(MembershipError::OtherMember { .. })), "{anothers:?}");
    let alone = admit(&working, None, member.name(), Rights::JOIN).unwrap();
    assert_eq!(alone.domain(), working.name(), "by itself it is a domain of its own");
}

#[test]
fn limits_that_are_handed_down_are_never_wider_than_their_givers() {
    let [domain, site, desk, member] =
        [Role::Domain, Role::Node, Role::Node, Role::Node].map(identity);
    let window = Window::starting(NOW_S, DAY_S);
    let within = |limits, issuer, by, member, rights| {
        Membership::sign_within(limits, (issuer, by), member, rights, 1, window)
    };
    let rights = Rights::ADMIT.and(Rights::JOIN);
    let own = Limits { names: 10, kbit_per_s: 800, inside_only: true, only_to: None };
    let site_own = within(own, &domain, None, site.name(), rights).unwrap();
    let narrower = Limits { names: 3, only_to: Some(domain.name()), ..own };
    let desk_own = within(narrower, &site, Some(&site_own), desk.name(), rights).unwrap();
    let given = admit(&desk, Some(&desk_own), member.name(), Rights::JOIN).unwrap();
    assert_eq!(given.limits(), narrower, "without a word about them they stay as they are");
    let shares: Vec<_> = given.shares().collect();
    assert_eq!(shares, [(site.name(), own), (desk.name(), narrower), (member.name(), narrower)]);
    assert_eq!(given.nearest_domain(), domain.name(), "neither site nor desk is one");
    assert_eq!(Membership::parse(&given.emit()).unwrap(), given);
    for (limits, expected) in [
        (Limits { names: 4, ..narrower }, Limit::Names),
        (Limits { names: 0, ..narrower }, Limit::Names),
        (Limits { kbit_per_s: 801, ..narrower }, Limit::Rate),
        (Limits { kbit_per_s: 0, ..narrower }, Limit::Rate),
        (Limits { inside_only: false, ..narrower }, Limit::Reach),
        (Limits { only_to: Some(site.name()), ..narrower }, Limit::Reach),
        (Limits { only_to: None, ..narrower }, Limit::Reach),
    ] {
        let wider = within(limits, &desk, Some(&desk_own), member.name(), Rights::JOIN);
        let error = wider.unwrap_err();
        let is_named =
            matches!(error, MembershipError::Wider { at: 2, limit } if limit == expected);
        assert!(is_named, "{limits:?}: {error}");
    }
}

#[test]
fn what_does_not_serve_is_refused_with_its_reason() {
    let (domain, member) = (identity(Role::Domain), identity(Role::Node));
    let membership = admit(&domain, None, member.name(), all()).unwrap();
    let other = membership.check(&domain.name(), NOW_S);
    assert!(matches!(other, Err(MembershipError::OtherMember { .. })), "{other:?}");
    for (now_s, expected) in [
        (NOW_S - CLOCK_SKEW_S - 1, StatementError::NotYetValid { starts_in_s: CLOCK_SKEW_S + 1 }),
        (
            NOW_S + DAY_S + CLOCK_SKEW_S + 1,
            StatementError::Expired { ended_ago_s: CLOCK_SKEW_S + 1 },
        ),
    ] {
        let error = membership.check(&member.name(), now_s).unwrap_err();
        assert!(matches!(error, MembershipError::Statement(it) if it == expected), "{error}");
    }
    assert!(!membership.has_ended(NOW_S + DAY_S + CLOCK_SKEW_S));
    assert!(membership.has_ended(NOW_S + DAY_S + CLOCK_SKEW_S + 1));

    let node = admit(&member, None, domain.name(), all());
    assert!(matches!(node, Err(MembershipError::NoDomain)), "{node:?}");
    let window = Window::starting(NOW_S, MAX_MEMBERSHIP_LIFETIME_S + 1);
    let long = Membership::sign(&domain, None, member.name(), all(), 1, window);
    assert!(matches!(long, Err(MembershipError::TooLong { at: 0 })), "{long:?}");
    let own = admit(&domain, None, domain.name(), all());
    assert!(matches!(own, Err(MembershipError::Broken { at: 0 })), "a domain in itself: {own:?}");
    let mut holders = vec![domain];
    let mut last: Option<Membership> = None;
    for _ in 0..MAX_DEPTH {
        let next = identity(Role::Domain);
        last = Some(admit(holders.last().unwrap(), last.as_ref(), next.name(), all()).unwrap());
        holders.push(next);
    }
    let back = holders[0].name();
    let circle = admit(&holders[2], None, back, all()).unwrap();
    assert_eq!(circle.domain(), holders[2].name(), "two that admit each other are two domains");
    let deeper = admit(holders.last().unwrap(), last.as_ref(), member.name(), all());
    assert!(matches!(deeper, Err(MembershipError::Depth { len }) if len == MAX_DEPTH + 1));
}

#[test]
fn a_membership_is_shown_in_the_certificate_of_its_member_alone() {
    let (domain, member, thief) =
        (identity(Role::Domain), identity(Role::Node), identity(Role::Node));
    let membership = admit(&domain, None, member.name(), all()).unwrap();
    let stolen = thief.with_membership(membership.clone());
    assert!(matches!(stolen, Err(MembershipError::OtherMember { .. })));
    let member = member.with_membership(membership.clone()).unwrap();
    let claim = x509::read(&x509::make(&member).unwrap()).unwrap();
    assert_eq!(claim.membership.as_deref(), Some(&membership));
    let access = Access {
        rules: vec![Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted)],
        otherwise: Standing::Refused,
        ..Access::default()
    };
    assert_eq!(access.standing(&claim.who(NOW_S)), Standing::Admitted);
    assert_eq!(access.standing(&claim.who(NOW_S + 2 * DAY_S)), Standing::Refused);
    // Who copies it into a certificate of his own shows what is not his.
    let thief = identity(Role::Node);
    let (name, metadata) = (&thief.name(), &**thief.metadata());
    let who = Who { name, metadata, membership: Some(&membership), now_s: NOW_S };
    assert_eq!(access.standing(&who), Standing::Refused);
    let other = Rule::of_domain(thief.name(), Rights::JOIN, Standing::Admitted);
    let elsewhere =
        Access { rules: vec![other], otherwise: Standing::Refused, ..Access::default() };
    assert_eq!(elsewhere.standing(&claim.who(NOW_S)), Standing::Refused);
}

proptest! {
    #[test]
    fn no_changed_byte_makes_a_member(at in 0usize..1000, by in 1u8..) {
        let (domain, member) = (identity(Role::Domain), identity(Role::Node));
        let membership = admit(&domain, None, member.name(), Rights::JOIN).unwrap();
        let mut bytes = membership.emit();
        let at = at % bytes.len();
        bytes[at] ^= by;
        if let Ok(changed) = Membership::parse(&bytes) {
            let is_one = changed.check(&member.name(), NOW_S).is_ok();
            prop_assert!(!is_one || changed.domain() != domain.name(), "byte {}", at);
        }
    }
}
