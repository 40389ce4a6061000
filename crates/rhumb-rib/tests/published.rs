//! Names that owners publish under their own: the newest list is shown, whatever comes when, and
//! whoever fills what he can keeps nobody from it.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_link::Source;
use rhumb_rib::store::{Embedded, Store};
use rhumb_rib::{Asker, Config, Outcome};
use rhumb_trust::{Access, CLOCK_SKEW_S, MAX_NAMES_LIFETIME_S, Standing, Window, verify_names};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Certificate, Name, PublishedNames, Role};

use crate::world::{ASKER, Directory, Holder, NOW_S};

const CAMERA: Name = Name([7; 32]);
const VIA: Name = Name([1; 32]);

/// What is called `camera` under this name.
fn list(owner: &Holder, sequence: u64, lifetime_s: u64) -> PublishedNames {
    labelled(owner, &["camera"], sequence, lifetime_s)
}

fn labelled(owner: &Holder, labels: &[&str], sequence: u64, lifetime_s: u64) -> PublishedNames {
    let names = labels.iter().map(|label| (label.parse().unwrap(), CAMERA)).collect();
    owner.0.publish(names, sequence, Window::starting(NOW_S, lifetime_s)).unwrap()
}

fn tell<S: Store>(
    directory: &mut Directory<S>,
    owner: &Holder,
    published: &PublishedNames,
) -> Result<(), Refusal> {
    let (metadata, published) = (vec![owner.metadata()], published.clone());
    match directory.ask(RibRequestBody::PublishNames { metadata, published }) {
        RibResponseBody::Stored => Ok(()),
        RibResponseBody::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

/// The list that is shown, which verifies.
fn shown<S: Store>(directory: &mut Directory<S>, owner: &Holder) -> Option<PublishedNames> {
    match directory.ask(RibRequestBody::LookUpNames(owner.name())) {
        RibResponseBody::Names { metadata, published } => {
            verify_names(published.clone(), &metadata[0], directory.now_s).unwrap();
            Some(published)
        }
        RibResponseBody::Found { name, metadata, certificates, .. } => {
            assert_eq!((name, certificates), (owner.name(), vec![]));
            assert_eq!(metadata, [owner.metadata()]);
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_newest_list_is_shown_in_whatever_order_they_come() {
    let owner = Holder::of(Role::Node);
    let lists: Vec<_> = (1..=3).map(|sequence| list(&owner, sequence, 600)).collect();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut directory = Directory::new();
        let mut newest = None;
        for at in order {
            let is_newer = newest.is_none_or(|newest| newest < at);
            let told = tell(&mut directory, &owner, &lists[at]);
            assert_eq!(told, if is_newer { Ok(()) } else { Err(Refusal::Superseded) });
            newest = newest.max(Some(at));
            assert_eq!(shown(&mut directory, &owner), newest.map(|at| lists[at].clone()));
        }
        // The very same is acknowledged again, and is no other list.
        assert_eq!(tell(&mut directory, &owner, &lists[2]), Ok(()));
        let counters = directory.rib.counters();
        let newer = [0, 1, 2].iter().filter(|at| order[..**at].iter().all(|it| *it < order[**at]));
        assert_eq!((counters.lists_stored, counters.lists_told), (newer.count() as u64, 3));
    }
}

#[test]
fn unknown_owners_and_those_who_publish_nothing_are_told_apart() {
    let mut directory = Directory::new();
    let (unknown, owner) = (Holder::of(Role::Node), Holder::of(Role::Node));
    let answer = directory.ask(RibRequestBody::LookUpNames(unknown.name()));
    assert!(matches!(answer, RibResponseBody::Absent(_)), "{answer:?}");
    directory.tell(&owner, owner.route(VIA, 1)).unwrap();
    assert_eq!(shown(&mut directory, &owner), None);
    tell(&mut directory, &owner, &list(&owner, 1, 600)).unwrap();
    assert!(shown(&mut directory, &owner).is_some());
    // Its ways and its names say nothing about each other.
    directory.tell(&owner, owner.withdrawal(9)).unwrap();
    assert!(shown(&mut directory, &owner).is_some());
    assert_eq!(directory.tell(&owner, owner.route(VIA, 10)), Ok(()));
    tell(&mut directory, &owner, &labelled(&owner, &[], 20, 600)).unwrap();
    assert_eq!(directory.found(owner.name()).len(), 1);
    // Who publishes names and nothing else is known, but not reached.
    tell(&mut directory, &unknown, &list(&unknown, 1, 600)).unwrap();
    let answer = directory.ask(RibRequestBody::LookUpRoute(unknown.name()));
    assert!(matches!(answer, RibResponseBody::Absent(_)), "{answer:?}");
}

#[test]
fn nothing_old_comes_back_after_a_withdrawal_or_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let store = || Directory::over(Embedded::open(&path).unwrap(), Config::default());
    let owner = Holder::of(Role::Capsule);
    let (first, second) = (list(&owner, 1, MAX_NAMES_LIFETIME_S), list(&owner, 2, 600));
    let nothing = labelled(&owner, &[], 3, MAX_NAMES_LIFETIME_S);
    let mut directory = store();
    tell(&mut directory, &owner, &first).unwrap();
    tell(&mut directory, &owner, &second).unwrap();
    drop(directory);
    let mut directory = store();
    assert_eq!(shown(&mut directory, &owner), Some(second.clone()));
    assert_eq!(tell(&mut directory, &owner, &first), Err(Refusal::Superseded));
    tell(&mut directory, &owner, &nothing).unwrap();
    drop(directory);
    let mut directory = store();
    assert_eq!(shown(&mut directory, &owner), Some(nothing.clone()));
    for old in [&first, &second] {
        assert_eq!(tell(&mut directory, &owner, old), Err(Refusal::Superseded));
    }
    // As long as an older one is in force, the newer one is remembered, though it has ended.
    directory.now_s += MAX_NAMES_LIFETIME_S + CLOCK_SKEW_S;
    directory.sweep();
    assert_eq!(tell(&mut directory, &owner, &first), Err(Refusal::Superseded));
    directory.now_s += 1;
    directory.sweep();
    assert_eq!(directory.rib.stored_names().unwrap(), 0);
    assert_eq!(tell(&mut directory, &owner, &first), Err(Refusal::Expired));
}

#[test]
fn what_has_expired_is_shown_as_that() {
    let mut directory = Directory::new();
    let owner = Holder::of(Role::Node);
    let published = list(&owner, 1, 600);
    tell(&mut directory, &owner, &published).unwrap();
    directory.now_s += 600 + CLOCK_SKEW_S + 1;
    directory.sweep();
    match directory.ask(RibRequestBody::LookUpNames(owner.name())) {
        RibResponseBody::Names { published: shown, .. } => assert_eq!(shown, published),
        other => panic!("{other:?}"),
    }
}

#[test]
fn windows_signatures_and_owners_are_looked_at() {
    let mut directory = Directory::new();
    let (owner, other) = (Holder::of(Role::Node), Holder::of(Role::Node));
    let refused = |directory: &mut Directory<crate::Usual>, by: &Holder, list: &PublishedNames| {
        tell(directory, by, list).unwrap_err()
    };
    let long = list(&owner, 1, MAX_NAMES_LIFETIME_S + 1);
    assert_eq!(refused(&mut directory, &owner, &long), Refusal::LifetimeTooLong);
    let window = Window::starting(NOW_S + CLOCK_SKEW_S + 1, 600);
    let early = owner.0.publish(list(&owner, 1, 1).names, 1, window).unwrap();
    assert_eq!(refused(&mut directory, &owner, &early), Refusal::NotYetValid);
    let window = Window { not_before_s: 0, not_after_s: NOW_S - CLOCK_SKEW_S - 1 };
    let late = owner.0.publish(list(&owner, 1, 1).names, 1, window).unwrap();
    assert_eq!(refused(&mut directory, &owner, &late), Refusal::Expired);
    // By another key: in the owner's name, and with the metadata of who signed.
    let forged = PublishedNames { owner: owner.name(), ..list(&other, 5, 600) };
    assert_eq!(refused(&mut directory, &other, &forged), Refusal::UnknownIssuer);
    for _ in 0..2 {
        assert_eq!(refused(&mut directory, &owner, &forged), Refusal::BadSignature);
    }
    let good = list(&owner, 1, 600);
    assert_eq!(tell(&mut directory, &owner, &good), Ok(()));
    assert_eq!(refused(&mut directory, &owner, &forged), Refusal::BadSignature);
    let bent = PublishedNames { sequence: 6, ..good.clone() };
    assert_eq!(refused(&mut directory, &owner, &bent), Refusal::BadSignature);
    assert_eq!(shown(&mut directory, &owner), Some(good));
}

#[test]
fn who_is_refused_neither_publishes_nor_asks() {
    let mut config = Config::default();
    config.access = Access { otherwise: Standing::Refused, ..Access::default() };
    let mut directory = Directory::with(config);
    directory.standing = Standing::Refused;
    let owner = Holder::of(Role::Node);
    assert_eq!(tell(&mut directory, &owner, &list(&owner, 1, 600)), Err(Refusal::NotAuthorised));
    let answer = directory.ask(RibRequestBody::LookUpNames(owner.name()));
    assert_eq!(answer, RibResponseBody::Refused(Refusal::NotAuthorised));
}

/// Publishes over the session of somebody at 192.0.2.`source`.
fn tell_from(
    directory: &mut Directory<crate::Usual>,
    (source, standing): (u8, Standing),
    owner: &Holder,
    what: RibRequestBody,
) -> Result<(), Refusal> {
    let source = Source::V4([192, 0, 2, source]);
    let asker = Asker { source, standing, ..Asker::stranger(owner.name(), 1300) };
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body: what }.emit(&mut data);
    let body = match directory.rib.handle_request(asker, &data, directory.now_s) {
        Outcome::Answer(RibResponse { body, .. }) => body,
        Outcome::Staged(_) => directory.rib.commit().pop().unwrap().body,
        other => panic!("{other:?}"),
    };
    match body {
        RibResponseBody::Stored => Ok(()),
        RibResponseBody::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn names_of(owner: &Holder, published: PublishedNames) -> RibRequestBody {
    RibRequestBody::PublishNames { metadata: vec![owner.metadata()], published }
}

fn route_of(owner: &Holder, certificate: Certificate) -> RibRequestBody {
    let (metadata, certificates) = (vec![owner.metadata()], vec![certificate]);
    RibRequestBody::Publish { metadata, certificates }
}

#[test]
fn strangers_who_publish_have_an_eighth_of_the_pool_and_no_more_by_growing() {
    let mut config = Config::default();
    config.max_names = 1600;
    (config.signatures_per_source_per_s, config.signatures_per_admitted_per_s) =
        (u32::MAX, u32::MAX);
    let mut directory = Directory::with(config);
    let stranger = |source| (source, Standing::Stranger);
    // Nodes that are there, by a route that lasts minutes, cannot all begin to publish for a month.
    let mut got = 0;
    for source in 1..=255 {
        let owner = Holder::of(Role::Node);
        let route = route_of(&owner, owner.route(VIA, 1));
        if tell_from(&mut directory, stranger(source), &owner, route).is_err() {
            continue;
        }
        let published = names_of(&owner, list(&owner, 1, MAX_NAMES_LIFETIME_S));
        got += usize::from(tell_from(&mut directory, stranger(source), &owner, published).is_ok());
    }
    assert!((50..=100).contains(&got), "{got} of 100");
    // Others still find room for what lasts minutes.
    let owner = Holder::of(Role::Node);
    let route = route_of(&owner, owner.route(VIA, 1));
    assert_eq!(tell_from(&mut directory, stranger(77), &owner, route), Ok(()));
    // Who is there by an admitted router publishes on its share, from wherever.
    let (owner, admitted) = (Holder::of(Role::Node), (9, Standing::Admitted));
    let route = route_of(&owner, owner.route(VIA, 1));
    assert_eq!(tell_from(&mut directory, admitted, &owner, route), Ok(()));
    let before = directory.rib.fill().unwrap().admitted;
    for sequence in 1..=3 {
        let published = names_of(&owner, list(&owner, sequence, MAX_NAMES_LIFETIME_S));
        assert_eq!(tell_from(&mut directory, stranger(78), &owner, published), Ok(()));
    }
    let after = directory.rib.fill().unwrap().admitted;
    assert_eq!(after.names, before.names);
    assert!(after.bytes > before.bytes, "{after:?}");
}

#[test]
fn a_list_that_grows_needs_room_and_one_that_does_not_is_renewed() {
    let mut config = Config::default();
    (config.max_names, config.max_bytes) = (1000, 64_000);
    let mut directory = Directory::with(config);
    let by = (5, Standing::Stranger);
    let owner = Holder::of(Role::Node);
    let labels: Vec<String> = (0..20).map(|number| format!("label-{number}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let small = names_of(&owner, list(&owner, 1, 600));
    assert_eq!(tell_from(&mut directory, by, &owner, small), Ok(()));
    let large = names_of(&owner, labelled(&owner, &labels, 2, 600));
    let refused = tell_from(&mut directory, by, &owner, large);
    assert_eq!(refused, Err(Refusal::QuotaExceeded));
    let renewed = names_of(&owner, list(&owner, 3, 600));
    assert_eq!(tell_from(&mut directory, by, &owner, renewed), Ok(()));
    let nothing = names_of(&owner, labelled(&owner, &[], 4, 600));
    assert_eq!(tell_from(&mut directory, by, &owner, nothing), Ok(()));
}

#[test]
fn a_long_list_is_shown_without_metadata_where_there_is_no_room_for_both() {
    let mut directory = Directory::new();
    let owner = Holder::of(Role::Node);
    let labels: Vec<String> = (0..13).map(|number| format!("{number:032}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    tell(&mut directory, &owner, &labelled(&owner, &labels, 1, 600)).unwrap();
    let mut data = Vec::new();
    let body = RibRequestBody::LookUpNames(owner.name());
    RibRequest { id: RequestId(1), body }.emit(&mut data);
    for (max_answer_len, has_metadata) in [(1128, true), (1010, false)] {
        let asker = Asker::stranger(ASKER, max_answer_len);
        let answer = match directory.rib.handle_request(asker, &data, NOW_S) {
            Outcome::Answer(answer) => answer,
            other => panic!("{other:?}"),
        };
        let mut bytes = Vec::new();
        answer.emit(&mut bytes);
        assert!(bytes.len() <= max_answer_len);
        match answer.body {
            RibResponseBody::Names { metadata, published } => {
                assert_eq!((published.names.len(), metadata.is_empty()), (13, !has_metadata));
            }
            other => panic!("{other:?}"),
        }
    }
}
