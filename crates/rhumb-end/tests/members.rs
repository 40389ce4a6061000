//! Who is let in for what he shows of a trust domain, for how long, and who is not.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rhumb_end::{
    Admits, Carries, ConnectionId, DropReason, EndError, Event, NOT_ALLOWED, StreamError, Way,
    WriteError,
};
use rhumb_trust::{
    Access, AdCert, Identity, Membership, Now, Removal, Rule, Standing, Verified, Window,
};
use rhumb_wire::{Limits, Name, Rights, Role};

use crate::world::{PORT, World};

/// A domain, and an end that lets in its members by rules.
struct Club {
    world: World,
    domain: Identity,
    access: Access,
    door: Name,
}

fn domain() -> Identity {
    Identity::generate(Role::Domain, 1).unwrap()
}

fn now_s(now: Now) -> u64 {
    now.unix_ms / 1000
}

impl Club {
    fn new() -> Self {
        let (mut world, domain) = (World::new(), domain());
        let door = world.join();
        for carries in [Carries::Streams, Carries::Datagrams] {
            world.end(door).offer(carries, PORT, Admits::Everybody);
        }
        let members = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
        let (otherwise, now) = (Standing::Refused, world.now);
        let access = Access { rules: vec![members], otherwise, ..Access::default() };
        world.end(door).set_access(access.clone(), now);
        Self { world, domain, access, door }
    }

    fn window(&self, lasts_s: u64) -> Window {
        Window::starting(now_s(self.world.now), lasts_s)
    }

    /// An end that shows a membership which `sign` makes for it.
    fn join(&mut self, sign: impl FnOnce(&Self, Name) -> Membership) -> Name {
        let identity = Identity::generate(Role::Node, 2).unwrap();
        let membership = sign(self, identity.name());
        let identity = identity.showing(Some(membership)).unwrap();
        self.world.join_as(Arc::new(identity))
    }

    fn member(&mut self, lasts_s: u64) -> Name {
        self.join(|club, name| {
            let window = club.window(lasts_s);
            Membership::sign(&club.domain, None, name, Rights::JOIN, 1, window).unwrap()
        })
    }

    /// Connects to the door, and waits until whoever was not let in knows it.
    fn knock(&mut self, from: Name) -> Result<ConnectionId, EndError> {
        let door = self.door;
        let id = self.world.connected(from, door)?;
        self.world.run(Duration::from_millis(50));
        self.world.ended(from, id).map_or(Ok(id), Err)
    }

    fn has_let_in(&self, name: Name) -> bool {
        let mut events = self.world.events[&self.door].iter();
        events.any(|event| matches!(event, Event::Connected { peer, .. } if *peer == name))
    }

    fn removal(&self, name: Name) -> Verified<Removal> {
        let removal = Removal::sign(&self.domain, None, name, 2, self.window(600)).unwrap();
        removal.verify(now_s(self.world.now)).unwrap()
    }
}

#[test]
fn members_are_let_in_and_nobody_else() {
    let mut club = Club::new();
    let member = club.member(600);
    let id = club.knock(member).unwrap();
    let door = club.door;
    assert_eq!(club.world.carry(member, door, id, b"hello"), b"hello");
    let stranger = club.world.join();
    assert_eq!(club.knock(stranger), Err(EndError::Refused(door)));
    let sign = |club: &Club, issuer: &Identity, name, rights| {
        Membership::sign(issuer, None, name, rights, 1, club.window(600)).unwrap()
    };
    let foreign = club.join(|club, name| sign(club, &domain(), name, Rights::JOIN));
    let barren = club.join(|club, name| sign(club, &club.domain, name, Rights::PUBLISH));
    let over = club.join(|club, name| {
        let window = Window::starting(now_s(club.world.now) - 9000, 60);
        Membership::sign(&club.domain, None, name, Rights::JOIN, 1, window).unwrap()
    });
    let elsewhere = club.join(|club, name| {
        let limits = Limits { only_to: Some(Name([9; 32])), ..Limits::NONE };
        let by = (&club.domain, None);
        Membership::sign_within(limits, by, name, Rights::JOIN, 1, club.window(600)).unwrap()
    });
    // The domain's name with another key's signature.
    let forged = club.join(|club, name| {
        let mut shown = sign(club, &club.domain, name, Rights::JOIN).emit();
        *shown.last_mut().unwrap() ^= 1;
        Membership::parse(&shown).unwrap()
    });
    for name in [foreign, barren, over, elsewhere, forged] {
        assert_eq!(club.knock(name), Err(EndError::Refused(door)));
        assert!(!club.has_let_in(name));
        let told = Event::Refused { peer: name, local: door, port: None };
        assert!(club.world.events[&door].contains(&told));
    }
    assert_eq!(club.world.end(door).drops().of(DropReason::SenderRefused), 6);
}

#[test]
fn who_may_send_inside_only_is_let_in_inside() {
    let mut club = Club::new();
    let member = club.join(|club, name| {
        let limits = Limits { inside_only: true, ..Limits::NONE };
        let by = (&club.domain, None);
        Membership::sign_within(limits, by, name, Rights::JOIN, 1, club.window(600)).unwrap()
    });
    assert_eq!(club.knock(member), Err(EndError::Refused(club.door)));
    // The door itself belongs to the domain from now on.
    let inside = club.member(600);
    let (access, now) = (club.access.clone(), club.world.now);
    club.world.end(inside).set_access(access, now);
    club.world.end(inside).offer(Carries::Streams, PORT, Admits::Everybody);
    club.door = inside;
    club.knock(member).unwrap();
}

#[test]
fn a_port_for_members_is_for_them_alone() {
    let mut club = Club::new();
    let (door, now) = (club.door, club.world.now);
    club.world.end(door).set_access(Access::default(), now);
    let domains: HashSet<Name> = [club.domain.name()].into();
    let friend = club.world.join();
    let admits = |names: HashSet<Name>, domains| Admits::Chosen { names, domains };
    club.world.end(door).offer(Carries::Streams, PORT, admits([].into(), domains));
    club.world.end(door).withdraw(Carries::Datagrams, PORT);
    club.world.end(door).offer(Carries::Streams, 9, admits([friend].into(), [].into()));
    let member = club.member(600);
    let id = club.knock(member).unwrap();
    assert_eq!(club.world.carry(member, door, id, b"hello"), b"hello");
    assert!(!is_strangers(&mut club, member));
    let wants = |club: &mut Club, from: Name, id, port| {
        let now = club.world.now;
        let stream = club.world.end(from).open(id, Way::Both, port, now).unwrap().unwrap();
        club.world.run(Duration::from_millis(50));
        club.world.outcome(from, id, stream)
    };
    let not_allowed = Err(WriteError::Over(StreamError::Ended { code: NOT_ALLOWED }));
    assert_eq!(wants(&mut club, member, id, 9), not_allowed);
    let id = club.knock(friend).unwrap();
    assert_eq!(wants(&mut club, friend, id, PORT), not_allowed);
    let stranger = club.world.join();
    assert_eq!(club.knock(stranger), Err(EndError::Refused(door)));
    // While something is there for everybody, he may come, and gets nothing else.
    club.world.end(door).offer(Carries::Datagrams, 1, Admits::Everybody);
    let id = club.knock(stranger).unwrap();
    assert_eq!(wants(&mut club, stranger, id, PORT), not_allowed);
}

fn is_strangers(club: &mut Club, peer: Name) -> bool {
    let events = &club.world.events[&club.door];
    let id = events.iter().rev().find_map(|event| match event {
        Event::Connected { id, peer: of, .. } if *of == peer => Some(*id),
        _ => None,
    });
    club.world.end(club.door).is_strangers(id.unwrap())
}

#[test]
fn a_connection_ends_with_the_membership_that_it_rests_on() {
    let mut club = Club::new();
    let (member, door) = (club.member(5), club.door);
    let id = club.knock(member).unwrap();
    // As long as clocks may differ.
    club.world.run(Duration::from_secs(60));
    assert_eq!(club.world.ended(member, id), None);
    club.world.run(Duration::from_secs(20));
    assert_eq!(club.world.ended(member, id), Some(EndError::Refused(door)));
    let ended = club.world.events[&door].iter().any(|event| {
        matches!(event, Event::Ended { error, .. } if *error == EndError::NotAllowed(member))
    });
    assert!(ended);
    assert_eq!(club.knock(member), Err(EndError::Refused(door)));
}

#[test]
fn who_is_removed_or_refused_meanwhile_is_put_out_at_once() {
    let mut club = Club::new();
    let (door, members) = (club.door, [club.member(600), club.member(600)]);
    let ids = members.map(|member| club.knock(member).unwrap());
    let (removal, now) = (club.removal(members[0]), club.world.now);
    club.world.end(door).note_removals(vec![removal], now);
    club.world.run(Duration::from_millis(50));
    assert_eq!(club.world.ended(members[0], ids[0]), Some(EndError::Refused(door)));
    assert_eq!(club.world.ended(members[1], ids[1]), None);
    assert_eq!(club.knock(members[0]), Err(EndError::Refused(door)));
    assert_eq!(club.world.carry(members[1], door, ids[1], b"on"), b"on");
    // Rules that name him, too.
    let mut access = club.access.clone();
    access.rules.insert(0, Rule::named(members[1], Standing::Refused));
    let now = club.world.now;
    club.world.end(door).set_access(access, now);
    club.world.run(Duration::from_millis(50));
    assert_eq!(club.world.ended(members[1], ids[1]), Some(EndError::Refused(door)));
    // Other rules make nobody forget who was removed.
    let (access, now) = (club.access.clone(), club.world.now);
    club.world.end(door).set_access(access, now);
    assert_eq!(club.knock(members[0]), Err(EndError::Refused(door)));
    club.knock(members[1]).unwrap();
}

#[test]
fn nobody_is_taken_for_a_member_before_it_was_told_who_was_removed() {
    let mut club = Club::new();
    let (door, members) = (club.door, [club.member(600), club.member(600)]);
    club.world.end(door).await_removals();
    assert_eq!(club.knock(members[0]), Err(EndError::Refused(door)));
    let (removal, now) = (club.removal(members[0]), club.world.now);
    club.world.end(door).note_removals(vec![removal], now);
    assert_eq!(club.knock(members[1]), Err(EndError::Refused(door)), "there may be more");
    club.world.end(door).told_removals();
    assert_eq!(club.knock(members[0]), Err(EndError::Refused(door)));
    club.knock(members[1]).unwrap();
}

#[test]
fn strangers_who_fill_all_places_keep_no_member_out() {
    let mut club = Club::new();
    let door = club.door;
    let (mut access, now) = (club.access.clone(), club.world.now);
    access.otherwise = Standing::Stranger;
    club.world.end(door).set_access(access, now);
    for _ in 0..256 {
        let stranger = club.world.join();
        assert!(club.knock(stranger).is_ok());
    }
    let last = club.world.join();
    assert_eq!(club.knock(last), Err(EndError::Refused(door)));
    assert_eq!(club.world.end(door).drops().of(DropReason::TooManyConnections), 1);
    let member = club.member(600);
    let id = club.knock(member).unwrap();
    assert!(!is_strangers(&mut club, member));
    let chosen = [member, last].map(|name| club.world.end(door).has_chosen(name));
    assert_eq!(chosen, [true, false]);
    assert_eq!(club.world.carry(member, door, id, &[7; 100_000]), [7; 100_000]);
}

#[test]
fn a_member_has_the_share_of_who_was_chosen() {
    let mut club = Club::new();
    let door = club.door;
    let (mut access, now) = (club.access.clone(), club.world.now);
    access.otherwise = Standing::Stranger;
    club.world.end(door).set_access(access, now);
    let streams = |club: &mut Club, from: Name| {
        let id = club.knock(from).unwrap();
        let now = club.world.now;
        let open = |_: &u32| matches!(club.world.end(from).open(id, Way::Both, 7, now), Ok(Ok(_)));
        (0..1000).take_while(open).count()
    };
    let (stranger, member) = (club.world.join(), club.member(600));
    assert_eq!(streams(&mut club, stranger), 256);
    assert_eq!(streams(&mut club, member), 1000);
}

#[test]
fn who_is_refused_opens_nothing_where_he_was_called() {
    let mut club = Club::new();
    let (door, now) = (club.door, club.world.now);
    let peer = club.world.join();
    club.world.end(peer).offer(Carries::Streams, PORT, Admits::Everybody);
    let id = club.world.connected(door, peer).unwrap();
    assert_eq!(club.world.carry(door, peer, id, b"I called"), b"I called");
    let back = club.world.end(peer).connect(peer, door, now).unwrap();
    let stream = club.world.open(peer, back);
    club.world.run(Duration::from_millis(50));
    let not_allowed = Err(WriteError::Over(StreamError::Ended { code: NOT_ALLOWED }));
    assert_eq!(club.world.outcome(peer, back, stream), not_allowed);
    // Where a port was made for him, he may answer.
    club.world.end(door).offer(Carries::Streams, PORT, Admits::names([peer]));
    assert_eq!(club.world.carry(peer, door, back, b"I answer"), b"I answer");
}

#[test]
fn a_membership_that_is_renewed_is_shown_from_then_on() {
    let mut club = Club::new();
    let door = club.door;
    let mine = |club: &Club, identity: &Identity, lasts_s| {
        let (name, window) = (identity.name(), club.window(lasts_s));
        Membership::sign(&club.domain, None, name, Rights::JOIN, 1, window).unwrap()
    };
    let identity = World::identity();
    let name = club.world.join_as(Arc::clone(&identity));
    assert_eq!(club.knock(name), Err(EndError::Refused(door)));
    let shown = mine(&club, &identity, 600);
    let der = identity.pkcs8_der().to_vec().into();
    let identity = Identity::from_parts((**identity.metadata()).clone(), der).unwrap();
    let identity = Arc::new(identity.showing(Some(shown)).unwrap());
    club.world.end(name).show(identity).unwrap();
    club.knock(name).unwrap();
}

#[test]
fn a_server_is_let_in_for_a_name_by_the_right_to_serve() {
    let mut club = Club::new();
    let door = club.door;
    for (rights, is_let_in) in [(Rights::JOIN, false), (Rights::JOIN.and(Rights::SERVE), true)] {
        let server = club.join(|club, name| {
            Membership::sign(&club.domain, None, name, rights, 1, club.window(600)).unwrap()
        });
        let capsule = Identity::generate(Role::Capsule, 5).unwrap();
        let ad_cert = AdCert::sign(&capsule, server, 1, club.window(600)).unwrap();
        club.world.end(server).serve(&ad_cert).unwrap();
        club.world.served_by.insert(capsule.name(), server);
        let now = club.world.now;
        let id = club.world.end(server).connect(capsule.name(), door, now).unwrap();
        club.world.run(Duration::from_secs(1));
        let ended = (!is_let_in).then_some(EndError::Refused(door));
        assert_eq!(club.world.ended(server, id), ended);
        assert_eq!(club.has_let_in(capsule.name()), is_let_in);
    }
}
