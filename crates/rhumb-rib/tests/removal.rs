//! Removals from the directory's domain: whose are taken, that they count at once and for as long
//! as they last, and that whoever asked is told until he says that he heard.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::time::{Duration, Instant};

use rhumb_rib::store::{Embedded, Memory, Store};
use rhumb_rib::{Asker, Config, Outcome};
use rhumb_trust::{
    Access, CLOCK_SKEW_S, Identity, MAX_MEMBERSHIP_LIFETIME_S, Membership, Now, Removal, Rule,
    Standing, Who, Window,
};
use rhumb_wire::rib::{
    Mark, Refusal, RequestId, RibRequest, RibRequestBody, RibResponseBody, StoreId,
};
use rhumb_wire::{Name, Rights, Role};

use crate::world::net::Net;
use crate::world::{ASKER, Directory, Holder, NOW_S};

const NOW_MS: u64 = NOW_S * 1000;

fn year() -> Window {
    Window::starting(NOW_S, MAX_MEMBERSHIP_LIFETIME_S)
}

fn admit(by: &Identity, own: Option<&Membership>, member: Name, sequence: u64) -> Membership {
    let rights = Rights::PUBLISH.and(Rights::ADMIT);
    Membership::sign(by, own, member, rights, sequence, year()).unwrap()
}

fn remove(by: &Identity, own: Option<&Membership>, member: Name, sequence: u64) -> Removal {
    Removal::sign(by, own, member, sequence, year()).unwrap()
}

fn order(removal: &Removal) -> RibRequestBody {
    let (metadata, certificates) = removal.lists();
    RibRequestBody::Publish { metadata, certificates }
}

/// A directory of a domain, which admits its members.
struct Scene<S> {
    directory: Directory<S>,
    domain: Holder,
    start: Instant,
}

fn config(domain: &Holder) -> Config {
    let mut config = Config::default();
    config.store = StoreId([7; 16]);
    config.domain = Some(domain.name());
    let rule = Rule::of_domain(domain.name(), Rights::PUBLISH, Standing::Admitted);
    config.access = Access { rules: vec![rule], ..Access::default() };
    config
}

impl Scene<crate::Usual> {
    fn new() -> Self {
        Self::over(crate::usual(Memory::new()), Holder::of(Role::Domain))
    }
}

impl<S: Store> Scene<S> {
    fn over(store: S, domain: Holder) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
        let start = Instant::now();
        Self { directory: Directory::over(store, config(&domain)), domain, start }
    }

    fn publish_as(&mut self, asker: Name, removal: &Removal) -> Result<(), Refusal> {
        match self.directory.ask_as(asker, order(removal)) {
            Some(RibResponseBody::Stored) => Ok(()),
            Some(RibResponseBody::Refused(refusal)) => Err(refusal),
            Some(RibResponseBody::Superseded(_)) => Err(Refusal::Superseded),
            other => panic!("{other:?}"),
        }
    }

    fn publish(&mut self, removal: &Removal) -> Result<(), Refusal> {
        self.publish_as(ASKER, removal)
    }

    fn standing(&self, member: &Holder, membership: &Membership) -> Standing {
        let (name, metadata) = (&member.name(), &member.metadata());
        let now_s = self.directory.now_s;
        self.directory.rib.standing(&Who { name, metadata, membership: Some(membership), now_s })
    }

    fn since(&mut self, asker: Name, since: Mark) -> (Mark, Vec<Removal>) {
        match self.directory.ask_as(asker, RibRequestBody::Removals(since)) {
            Some(RibResponseBody::Removals { to, removals }) => (to, parsed(removals)),
            other => panic!("{other:?}"),
        }
    }

    /// The removals that are told of now, after so many milliseconds.
    fn told(&mut self, after_ms: u64) -> Vec<(Name, RequestId, Vec<Removal>)> {
        let instant = self.start + Duration::from_millis(after_ms);
        let now = Now { instant, unix_ms: self.directory.now_s * 1000 };
        let rib = &mut self.directory.rib;
        std::iter::from_fn(|| rib.poll_change(now))
            .map(|push| match push.response.body {
                RibResponseBody::Removals { removals, .. } => {
                    (push.asker, push.response.id, parsed(removals))
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

fn parsed(removals: Vec<rhumb_wire::rib::RemovalLists>) -> Vec<Removal> {
    removals.into_iter().map(|lists| Removal::from_lists(lists).unwrap()).collect()
}

#[test]
fn a_members_standing_ends_with_its_removal_and_comes_back_with_a_later_admission() {
    let mut scene = Scene::new();
    let member = Holder::of(Role::Router);
    let membership = admit(&scene.domain.0, None, member.name(), NOW_MS);
    assert_eq!(scene.standing(&member, &membership), Standing::Admitted);
    let removal = remove(&scene.domain.0, None, member.name(), NOW_MS + 1);
    assert_eq!(scene.publish(&removal), Ok(()));
    assert_eq!(scene.standing(&member, &membership), Standing::Stranger);
    assert!(scene.directory.rib.take_new_removals());
    let again = admit(&scene.domain.0, None, member.name(), NOW_MS + 2);
    assert_eq!(scene.standing(&member, &again), Standing::Admitted);
    // Said again, it is stored; an older one, replayed, changes nothing.
    assert_eq!(scene.publish(&removal), Ok(()));
    let older = remove(&scene.domain.0, None, member.name(), NOW_MS);
    assert_eq!(scene.publish(&older), Err(Refusal::Superseded));
    assert_eq!(scene.standing(&member, &again), Standing::Admitted);
    assert_eq!(
        (scene.directory.rib.removals(), scene.directory.rib.take_new_removals()),
        (1, false)
    );
    // Rules that change do not let it in again.
    let rules = scene.directory.rib.access().rules.clone();
    scene.directory.rib.set_access(Access { rules, ..Access::default() });
    assert_eq!(scene.standing(&member, &membership), Standing::Stranger);
}

#[test]
fn strangers_removals_take_no_room_whoever_brings_them() {
    let mut scene = Scene::new();
    let member = Holder::of(Role::Node);
    let other = Holder::of(Role::Domain);
    for asker in [ASKER, other.name()] {
        let by_other = remove(&other.0, None, member.name(), NOW_MS);
        assert_eq!(scene.publish_as(asker, &by_other), Err(Refusal::NotAuthorised));
    }
    // By a member that may not admit.
    let barren = Membership::sign(&scene.domain.0, None, other.name(), Rights::JOIN, 1, year());
    assert!(Removal::sign(&other.0, barren.as_ref().ok(), member.name(), 1, year()).is_err());
    let (metadata, certificates) = remove(&other.0, None, member.name(), NOW_MS).lists();
    let with = barren.unwrap();
    let metadata = [vec![scene.domain.metadata()], metadata].concat();
    let certificates = [with.certificates().to_vec(), certificates].concat();
    let forged = RibRequestBody::Publish { metadata, certificates };
    let answer = scene.directory.ask(forged);
    assert_eq!(answer, RibResponseBody::Refused(Refusal::NotAuthorised));
    // By one who says that the domain admitted him.
    let own = admit(&scene.domain.0, None, other.name(), NOW_MS);
    let (metadata, mut certificates) = remove(&other.0, Some(&own), member.name(), NOW_MS).lists();
    certificates[0].signature[0] ^= 1;
    let forged = RibRequestBody::Publish { metadata, certificates };
    let answer = scene.directory.ask(forged);
    assert_eq!(answer, RibResponseBody::Refused(Refusal::BadSignature));
    assert_eq!((scene.directory.rib.removals(), scene.directory.stored_names()), (0, 0));
}

#[test]
fn who_was_removed_removes_nobody_and_who_was_admitted_only_whom_he_admitted() {
    let mut scene = Scene::new();
    let (working, one, other) =
        (Holder::of(Role::Domain), Holder::of(Role::Router), Holder::of(Role::Router));
    let own = admit(&scene.domain.0, None, working.name(), NOW_MS);
    let his = admit(&working.0, Some(&own), one.name(), NOW_MS);
    let domains = admit(&scene.domain.0, None, other.name(), NOW_MS);
    for member in [&one, &other] {
        let removal = remove(&working.0, Some(&own), member.name(), NOW_MS + 1);
        assert_eq!(scene.publish(&removal), Ok(()));
    }
    assert_eq!(scene.standing(&one, &his), Standing::Stranger);
    assert_eq!(scene.standing(&other, &domains), Standing::Admitted);
    let removal = remove(&scene.domain.0, None, working.name(), NOW_MS + 2);
    assert_eq!(scene.publish(&removal), Ok(()));
    let late = remove(&working.0, Some(&own), Name([9; 32]), NOW_MS + 3);
    assert_eq!(scene.publish(&late), Err(Refusal::NotAuthorised));
}

#[test]
fn a_sequence_ahead_of_the_time_and_clocks_too_far_apart_are_refused() {
    let mut scene = Scene::new();
    let skew_ms = CLOCK_SKEW_S * 1000;
    let removal =
        |scene: &Scene<_>, sequence| remove(&scene.domain.0, None, Holder::new().name(), sequence);
    let (near, far) = (removal(&scene, NOW_MS + skew_ms), removal(&scene, u64::MAX));
    assert_eq!(scene.publish(&near), Ok(()));
    assert_eq!(scene.publish(&far), Err(Refusal::NotYetValid));
    for (clock_s, expected) in [
        (NOW_S - CLOCK_SKEW_S, Ok(())),
        (NOW_S - CLOCK_SKEW_S - 1, Err(Refusal::NotYetValid)),
        (NOW_S + MAX_MEMBERSHIP_LIFETIME_S + CLOCK_SKEW_S, Ok(())),
        (NOW_S + MAX_MEMBERSHIP_LIFETIME_S + CLOCK_SKEW_S + 1, Err(Refusal::Expired)),
    ] {
        scene.directory.now_s = clock_s;
        let removal = removal(&scene, NOW_MS - skew_ms);
        assert_eq!(scene.publish(&removal), expected, "at {clock_s}");
    }
}

#[test]
fn a_closed_directory_takes_a_removal_from_its_issuer_and_from_nobody_else_who_is_refused() {
    let mut scene = Scene::new();
    scene.directory.standing = Standing::Refused;
    let removal = remove(&scene.domain.0, None, Name([9; 32]), NOW_MS);
    assert_eq!(scene.publish(&removal), Err(Refusal::NotAuthorised));
    let issuer = scene.domain.name();
    assert_eq!(scene.publish_as(issuer, &removal), Ok(()));
    // Nor does he hear anything.
    let asked = scene.directory.ask(RibRequestBody::Removals(Mark::default()));
    assert_eq!(asked, RibResponseBody::Refused(Refusal::NotAuthorised));
}

#[test]
fn an_admitter_that_has_filled_its_part_is_refused_one_more() {
    let mut scene = Scene::new();
    let working = Holder::of(Role::Domain);
    let own = admit(&scene.domain.0, None, working.name(), NOW_MS);
    let numbered = |number: u32| {
        let mut name = [1; 32];
        name[..4].copy_from_slice(&number.to_be_bytes());
        remove(&working.0, Some(&own), Name(name), NOW_MS)
    };
    let removals = scene.directory.rib.access().removals.clone();
    for number in 0..4096 {
        removals.note(numbered(number).verify(NOW_S).unwrap());
    }
    assert_eq!(scene.publish(&numbered(5000)), Err(Refusal::QuotaExceeded));
    let removal = remove(&scene.domain.0, None, working.name(), NOW_MS);
    assert_eq!(scene.publish(&removal), Ok(()));
}

#[test]
fn whoever_asked_is_told_of_the_next_one_until_he_says_that_he_heard() {
    let mut scene = Scene::new();
    let hearer = Name([0x11; 32]);
    let say = |scene: &mut Scene<_>, member: u8| {
        let removal = remove(&scene.domain.0, None, Name([member; 32]), NOW_MS);
        assert_eq!(scene.publish(&removal), Ok(()));
        removal
    };
    let first = say(&mut scene, 1);
    let (mark, heard) = scene.since(hearer, Mark::default());
    assert_eq!(heard, [first]);
    assert_eq!(scene.since(hearer, mark), (mark, vec![]));
    assert_eq!(scene.told(0), []);
    let second = say(&mut scene, 2);
    let told = scene.told(0);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0, &told[0].2), (hearer, &vec![second.clone()]));
    assert_eq!(scene.told(100), []);
    assert_eq!(scene.told(200), told);
    let mut data = Vec::new();
    RibRequest { id: told[0].1, body: RibRequestBody::Acknowledge }.emit(&mut data);
    let acknowledged =
        scene.directory.rib.handle_request(Asker::admitted(hearer, 1300), &data, NOW_S);
    assert_eq!(acknowledged, Outcome::Noted);
    assert_eq!(scene.told(10_000), []);
    // What was not asked behind yet comes along with the next.
    let third = say(&mut scene, 3);
    assert_eq!(scene.told(11_000)[0].2, [second, third]);
    // Its session ended.
    scene.directory.rib.forget_asker(&hearer);
    say(&mut scene, 4);
    assert_eq!(scene.told(12_000), []);
}

#[test]
fn it_is_there_after_a_restart_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let (domain, member) = (Holder::of(Role::Domain), Holder::of(Role::Router));
    let membership = admit(&domain.0, None, member.name(), NOW_MS);
    let removal = remove(&domain.0, None, member.name(), NOW_MS);
    let mut scene = Scene::over(Embedded::open(&path).unwrap(), domain);
    assert_eq!(scene.publish(&removal), Ok(()));
    let Scene { directory, domain, .. } = scene;
    drop(directory);
    let mut scene = Scene::over(Embedded::open(&path).unwrap(), domain);
    assert_eq!(scene.standing(&member, &membership), Standing::Stranger);
    assert_eq!(scene.since(ASKER, Mark::default()).1, [removal]);
    scene.directory.now_s = NOW_S + MAX_MEMBERSHIP_LIFETIME_S + CLOCK_SKEW_S;
    scene.directory.sweep();
    assert_eq!(scene.directory.rib.removals(), 1);
    scene.directory.now_s += 1;
    scene.directory.sweep();
    assert_eq!(scene.directory.rib.removals(), 0);
    let Scene { directory, domain, .. } = scene;
    drop(directory);
    let scene = Scene::over(Embedded::open(&path).unwrap(), domain);
    assert_eq!(scene.directory.rib.removals(), 0);
}

#[test]
fn the_session_of_who_is_removed_ends_and_he_comes_back_as_a_stranger() {
    let mut net = Net::new();
    let domain = Holder::of(Role::Domain);
    let rib = net.add_rib_with(&domain, &[], config(&domain));
    let member = Holder::of(Role::Router);
    let membership = admit(&domain.0, None, member.name(), NOW_MS);
    let name = member.name();
    let member = member.0.with_membership(membership).unwrap();
    let end = net.add_end_as(member.into(), ([192, 0, 2, 200], 4000).into());
    let operator = net.add_end(Role::Router);
    let ask = RibRequestBody::WhichStore;
    net.ask(end, rib, ask.clone());
    let began = |net: &Net| {
        let endpoint = net.rib(rib).endpoint();
        let session = endpoint.session_of(&name)?;
        let who = endpoint.peer(session)?.who(net.now.unix_s());
        Some((session, net.rib(rib).access().standing(&who)))
    };
    let (before, standing) = began(&net).unwrap();
    assert_eq!(standing, Standing::Admitted);
    let removal = remove(&domain.0, None, name, NOW_MS);
    assert_eq!(net.ask(operator, rib, order(&removal)), RibResponseBody::Stored);
    assert_eq!(began(&net), None);
    assert_eq!(net.rib(rib).counters().members_removed, 1);
    net.ask(end, rib, ask);
    let (after, standing) = began(&net).unwrap();
    assert_eq!((after == before, standing), (false, Standing::Stranger));
}
