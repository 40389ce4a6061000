//! Groups: what is sent to one name reaches everybody whom its owner admitted, by copies made where
//! ways part, and reaches and is taken from nobody else.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rhumb_io::memory::{Capture, Captured, Conditions};
use rhumb_node::core::{Event, SendFailure};
use rhumb_switch::DropReason;
use rhumb_trust::{Identity, Membership, Removal, Window};
use rhumb_wire::datagram::LANES;
use rhumb_wire::group::{GroupAccept, GroupRequest, Part};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Name, PduHeader, Rights, Role, Scope, Statement};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

/// Routers that know each other by a RIB, the first of which is a group's root.
struct Scene {
    world: World,
    group: Arc<Identity>,
}

impl Scene {
    fn new(routers: usize) -> Self {
        Self::within(World::new(), routers)
    }

    fn within(mut world: World, routers: usize) -> Self {
        for number in 0..routers {
            let (identity, address) = (world.identity(Role::Router), router_address(number));
            world.router(identity, address, None, Some(address));
        }
        world.run(2 * SECOND);
        let group = world.identity(Role::Domain);
        let mut scene = Self { world, group };
        scene.lead_to(0);
        scene
    }

    fn name(&self) -> Name {
        self.group.name()
    }

    /// The owner lets a router be the root.
    fn lead_to(&mut self, router: usize) {
        let via = self.world.routers[router].switch.name();
        let statement = Statement::Route { via, scope: Scope::Any };
        let window = Window::starting(self.world.now.unix_s(), 600);
        let word = self.group.certify(statement, self.world.now.unix_ms, window).unwrap();
        let body = RibRequestBody::Publish {
            metadata: vec![(**self.group.metadata()).clone()],
            certificates: vec![word],
        };
        let mut data = Vec::new();
        RibRequest { id: RequestId(9), body }.emit(&mut data);
        let mut owner = Stranger::at_the_rib(&mut self.world);
        let to = self.world.rib.as_ref().unwrap().name;
        let header = PduHeader::new(Action::RibRequest, owner.name(), to);
        owner.send(&mut self.world, header, &data, &[]);
        let (_, answer) = owner.inbox.pop().unwrap();
        assert_eq!(RibResponse::parse(&answer).unwrap().body, RibResponseBody::Stored);
    }

    fn admit(&self, member: Name, rights: Rights, lasts_s: u64) -> Membership {
        let window = Window::starting(self.world.now.unix_s(), lasts_s);
        let now = self.world.now.unix_ms;
        Membership::sign(&self.group, None, member, rights, now, window).unwrap()
    }

    fn both(&self, member: Name) -> Membership {
        self.admit(member, Rights::JOIN.and(Rights::PUBLISH), 24 * 3600)
    }

    fn member(&mut self, router: usize, part: Part) -> usize {
        let node = self.world.node(router);
        self.join(node, part);
        self.world.run(SECOND);
        let drops = self.world.routers[router].switch.status(self.world.now).dropped_pdus;
        let drops: Vec<_> = drops.into_iter().filter(|(_, count)| *count > 0).collect();
        assert!(self.is_in(node), "{:?} {drops:?}", self.world.nodes[node].events);
        node
    }

    fn join(&mut self, node: usize, part: Part) {
        let membership = self.both(self.world.name(node));
        let (name, now) = (self.name(), self.world.now);
        self.world.nodes[node].core.join_group(name, part, membership, now).unwrap();
    }

    fn leave(&mut self, node: usize) {
        let (name, now) = (self.name(), self.world.now);
        self.world.nodes[node].core.leave_group(name, now);
    }

    fn is_in(&self, node: usize) -> bool {
        let events = &self.world.nodes[node].events;
        let last = events.iter().rev().find_map(|event| match event {
            Event::InGroup { .. } => Some(true),
            Event::NotInGroup { .. } => Some(false),
            _ => None,
        });
        last == Some(true)
    }

    fn send(&mut self, from: usize, body: &[u8]) {
        let (name, now) = (self.name(), self.world.now);
        self.world.nodes[from].core.send(name, 7, body, now).unwrap();
    }

    /// What a node has received since it was asked last: the first byte of each.
    fn received(&mut self, node: usize) -> Vec<Vec<u8>> {
        let received = std::mem::take(&mut self.world.nodes[node].received);
        received.into_iter().map(|(_, body)| body[..1].to_vec()).collect()
    }

    fn groups(&self, router: usize) -> (usize, usize) {
        let status = self.world.routers[router].switch.status(self.world.now);
        (status.groups.len(), status.groups.iter().map(|group| group.members).sum())
    }
}

/// How many PDUs of some 900 bytes a wiretap has seen.
fn copies(wire: &Capture) -> usize {
    let is_one = |it: &&Captured| it.bytes[0] >> 4 == 8 && (900..1100).contains(&it.bytes.len());
    wire.datagrams().iter().filter(is_one).count()
}

#[test]
fn everybody_who_receives_has_one_copy_and_ways_have_one_between_routers() {
    let mut scene = Scene::new(3);
    let receivers: Vec<usize> =
        [0, 0, 1, 1, 2, 2].map(|router| scene.member(router, Part::Receives)).to_vec();
    let sender = scene.member(1, Part::Sends);
    let (up, down) = (scene.world.capture(1, 0), scene.world.capture(0, 2));
    let beside = scene.world.capture(1, 2);
    for number in 0..10u8 {
        scene.send(sender, &[&[number][..], &[7; 899]].concat());
        scene.world.run(SECOND / 10);
    }
    let expected: Vec<Vec<u8>> = (0..10u8).map(|number| vec![number]).collect();
    for node in receivers {
        assert_eq!(scene.received(node), expected, "{node}");
    }
    assert!(scene.received(sender).is_empty());
    assert_eq!([copies(&up), copies(&down), copies(&beside)], [10, 10, 0]);
    let made: Vec<u64> = (0..3).map(|router| scene.world.counters(router).copies).collect();
    assert_eq!(made, [20, 20, 10], "each goes 3, 3 and 2 ways");
}

#[test]
fn routers_of_several_workers_spread_what_comes_on_any_lane() {
    for (workers, steered) in [(2, true), (4, true), (8, true), (4, false)] {
        let mut world = World::new();
        world.config.link.workers = workers;
        let mut scene = Scene::within(world, 2);
        scene.world.routers.iter_mut().for_each(|router| router.steered = steered);
        let mut members = Vec::new();
        for lane in 0..LANES {
            let identity = loop {
                let identity = scene.world.identity(Role::Node);
                if identity.name().0[0] % LANES == lane {
                    break identity;
                }
            };
            let node = scene.world.node_of(identity, usize::from(lane % 2));
            scene.join(node, Part::Both);
            members.push(node);
        }
        scene.world.run(3 * SECOND);
        for round in 0..10 {
            for (number, node) in members.iter().enumerate() {
                scene.send(*node, &[&[number as u8][..], &[7; 300]].concat());
            }
            scene.world.run(SECOND / 5);
            for (number, node) in members.iter().enumerate() {
                let mut received = scene.received(*node);
                received.sort();
                let others = (0..LANES).filter(|it| usize::from(*it) != number);
                let expected: Vec<Vec<u8>> = others.map(|it| vec![it]).collect();
                assert_eq!(received, expected, "{workers} workers, {steered}, round {round}");
            }
        }
        let gone = members.pop().unwrap();
        scene.leave(gone);
        scene.world.run(SECOND);
        scene.send(members[0], b"1");
        scene.send(gone, b"2");
        scene.world.run(SECOND / 5);
        assert!(scene.received(gone).is_empty());
        assert_eq!(scene.received(members[1]), [b"1"], "what workers know of flows is of now");
    }
}

#[test]
fn a_sender_that_also_receives_is_not_sent_its_own_and_both_directions_work() {
    let mut scene = Scene::new(3);
    let all = [0, 1, 2].map(|router| scene.member(router, Part::Both));
    for (number, node) in all.into_iter().enumerate() {
        scene.send(node, &[number as u8]);
        scene.world.run(SECOND / 10);
    }
    for (number, node) in all.into_iter().enumerate() {
        let expected: Vec<Vec<u8>> =
            (0..3).filter(|other| *other != number).map(|it| vec![it as u8]).collect();
        assert_eq!(scene.received(node), expected);
    }
}

#[test]
fn nothing_goes_on_a_branch_within_a_second_after_the_last_one_there_has_left() {
    let mut scene = Scene::new(3);
    let sender = scene.member(0, Part::Sends);
    let stays = scene.member(1, Part::Receives);
    let first = scene.member(2, Part::Receives);
    let second = scene.member(2, Part::Receives);
    scene.leave(first);
    scene.world.run(SECOND);
    scene.send(sender, b"one is left");
    scene.world.run(SECOND / 10);
    assert_eq!(scene.received(second).len(), 1, "though the first was the one that was told of");
    assert!(scene.received(first).is_empty());
    scene.leave(second);
    scene.world.run(SECOND);
    let branch = scene.world.capture(0, 2);
    scene.send(sender, &[7; 900]);
    scene.world.run(SECOND / 10);
    assert_eq!(copies(&branch), 0);
    assert_eq!(scene.received(stays).len(), 2);
    assert_eq!(scene.groups(2), (0, 0), "what was told there is forgotten");
}

#[test]
fn whoever_is_no_member_neither_sends_nor_receives() {
    let mut scene = Scene::new(2);
    let receiver = scene.member(0, Part::Receives);
    let outsider = scene.world.node(1);
    let insider = scene.member(1, Part::Receives);
    scene.send(outsider, b"by nobody");
    scene.send(insider, b"by one who may only receive");
    scene.world.run(3 * SECOND);
    assert!(scene.received(receiver).is_empty());
    assert!(scene.world.dropped(1, DropReason::NotASender) >= 2);

    let mut stranger = Stranger::new(&mut scene.world, 1, Role::Node);
    let other = Identity::generate(Role::Domain, 0).unwrap();
    let good = scene.both(stranger.name());
    let of_other = scene.both(scene.world.name(insider));
    let window = Window::starting(scene.world.now.unix_s(), 600);
    let rights = Rights::JOIN.and(Rights::PUBLISH);
    let by_other = Membership::sign(&other, None, stranger.name(), rights, 1, window).unwrap();
    let narrow = scene.admit(stranger.name(), Rights::JOIN, 600);
    let mut forged = good.certificates().to_vec();
    forged[0].sequence += 1;
    let claims = [
        (of_other.issuers().to_vec(), of_other.certificates().to_vec()),
        (by_other.issuers().to_vec(), by_other.certificates().to_vec()),
        (narrow.issuers().to_vec(), narrow.certificates().to_vec()),
        (good.issuers().to_vec(), forged),
    ];
    let via = scene.world.routers[1].switch.name();
    let route = stranger.route(via, &scene.world);
    for (tag, (issuers, certificates)) in (1..).zip(claims) {
        let request = GroupRequest::Join { part: Part::Both, issuers, certificates };
        let (_, nack) = ask(&mut scene, &mut stranger, tag, &request, &route);
        assert_eq!(nack.unwrap().reason, Reason::NotAuthorised, "claim {tag}");
        assert_eq!(scene.groups(1).1, 1);
    }
    assert_eq!(scene.world.dropped(1, DropReason::NotAMember), 4);
    let (issuers, certificates) = (good.issuers().to_vec(), good.certificates().to_vec());
    let request = GroupRequest::Join { part: Part::Both, issuers, certificates };
    let (accept, _) = ask(&mut scene, &mut stranger, 9, &request, &route);
    assert_eq!(accept.unwrap().part, Some(Part::Both));
    assert_eq!(scene.groups(1).1, 2);
}

/// Sends a request about the scene's group, and says what came back.
fn ask(
    scene: &mut Scene,
    stranger: &mut Stranger,
    tag: u32,
    request: &GroupRequest,
    route: &rhumb_wire::Certificate,
) -> (Option<GroupAccept>, Option<Nack>) {
    let mut data = Vec::new();
    request.emit(&mut data);
    let header =
        PduHeader { tag, ..PduHeader::new(Action::GroupRequest, stranger.name(), scene.name()) };
    stranger.inbox.clear();
    stranger.send(&mut scene.world, header, &data, std::slice::from_ref(route));
    // The next router cannot verify who is not published, and is waited for.
    scene.world.run(3 * SECOND);
    stranger.settle(&mut scene.world);
    let about = |it: &&(PduHeader, Vec<u8>)| it.0.tag == tag;
    let of = |action| stranger.inbox.iter().filter(about).find(|(it, _)| it.action == action);
    let accept = of(Action::GroupAccept).map(|(_, data)| GroupAccept::parse(data).unwrap());
    (accept, of(Action::Nack).map(|(_, data)| Nack::parse(data).unwrap()))
}

#[test]
fn who_is_removed_hears_nothing_a_second_later_and_is_let_in_again_by_a_newer_word() {
    let mut scene = Scene::new(3);
    let [sender, out, stays] =
        [scene.member(0, Part::Both), scene.member(2, Part::Both), scene.member(2, Part::Receives)];
    let removed = scene.world.name(out);
    let window = Window::starting(scene.world.now.unix_s(), 3600);
    let now = scene.world.now.unix_ms;
    let (issuers, certificates) =
        Removal::sign(&scene.group, None, removed, now, window).unwrap().lists();
    let stranger = Identity::generate(Role::Domain, 0).unwrap();
    let forged = Removal::sign(&stranger, None, removed, now, window).unwrap().lists();
    let forged = GroupRequest::Remove { issuers: forged.0, certificates: forged.1 };
    let mut owner = Stranger::new(&mut scene.world, 1, Role::Node);
    let route = owner.route(scene.world.routers[1].switch.name(), &scene.world);
    let removal = GroupRequest::Remove { issuers, certificates };
    let (_, nack) = ask(&mut scene, &mut owner, 1, &removal, &route);
    assert!(matches!(nack.unwrap().reason, Reason::Unreachable(_)), "nobody is a part of it there");
    let mut owner = Stranger::new(&mut scene.world, 0, Role::Node);
    let (_, nack) = ask(&mut scene, &mut owner, 1, &forged, &route);
    assert_eq!(nack.unwrap().reason, Reason::NotAuthorised);
    scene.send(sender, b"1");
    scene.world.run(SECOND / 10);
    assert_eq!(scene.received(out).len(), 1);
    let (accept, _) = ask(&mut scene, &mut owner, 2, &removal, &route);
    assert_eq!(accept.unwrap().part, None);
    scene.send(sender, b"2");
    scene.send(out, b"3");
    scene.world.run(2 * SECOND);
    assert_eq!((scene.received(out).len(), scene.received(sender).len()), (0, 0));
    assert_eq!(scene.received(stays).len(), 2);
    scene.world.run(60 * SECOND);
    assert!(!scene.is_in(out));
    scene.join(out, Part::Both);
    scene.world.run(SECOND);
    scene.send(sender, b"4");
    scene.world.run(SECOND / 10);
    assert_eq!(scene.received(out), [b"4"], "admitted again");
}

#[test]
fn whoever_stays_behind_a_router_misses_nothing_when_the_one_that_received_for_all_there_goes() {
    for is_removed in [true, false] {
        let mut scene = Scene::new(3);
        let sender = scene.member(0, Part::Sends);
        let near = scene.member(1, Part::Receives);
        let [out, stays] = [0, 1].map(|_| scene.member(2, Part::Receives));
        let removed = scene.world.name(out);
        let mut owner = Stranger::new(&mut scene.world, 0, Role::Node);
        for number in 0..250u8 {
            match (number, is_removed) {
                (20, true) => {
                    let (now, by) = (scene.world.now, (&*scene.group, None));
                    let window = Window::starting(now.unix_s(), 100);
                    let removal = Removal::sign(by.0, by.1, removed, now.unix_ms, window).unwrap();
                    let (issuers, certificates) = removal.lists();
                    let mut data = Vec::new();
                    GroupRequest::Remove { issuers, certificates }.emit(&mut data);
                    let (from, to) = (owner.name(), scene.name());
                    let header = PduHeader::new(Action::GroupRequest, from, to);
                    owner.send(&mut scene.world, header, &data, &[]);
                }
                (20, false) => scene.leave(out),
                _ => {}
            }
            scene.send(sender, &[number]);
            scene.world.run(SECOND / 100);
        }
        let expected: Vec<Vec<u8>> = (0..250u8).map(|number| vec![number]).collect();
        assert_eq!(scene.received(near), expected, "{is_removed}");
        assert_eq!(scene.received(stays), expected, "{is_removed}");
        let last = scene.received(out).pop().unwrap()[0];
        assert!((19..22).contains(&last), "{is_removed}: {last}");
        // It stays the one that receives for all there, and nothing else is left of the other.
        assert_eq!(scene.groups(0), (1, 3));
    }
}

#[test]
fn a_sender_that_comes_to_another_router_is_heard_where_it_was() {
    for leaves in [true, false] {
        let mut scene = Scene::new(3);
        let receivers = [1, 2].map(|router| scene.member(router, Part::Receives));
        let identity = scene.world.identity(Role::Node);
        let before = scene.world.node_of(identity.clone(), 1);
        scene.world.run(SECOND);
        scene.join(before, Part::Sends);
        scene.world.run(SECOND);
        scene.send(before, b"1");
        scene.world.run(SECOND / 10);
        assert_eq!(receivers.map(|node| scene.received(node)), [[b"1"], [b"1"]]);
        if leaves {
            let now = scene.world.now;
            scene.world.nodes[before].core.leave(now);
        }
        scene.world.settle();
        scene.world.nodes.remove(before);
        let after = scene.world.node_of(identity, 0);
        scene.world.run(SECOND / 5);
        scene.join(after, Part::Sends);
        while !scene.is_in(after) {
            scene.world.run(SECOND / 100);
        }
        scene.send(after, b"2");
        scene.world.run(SECOND / 10);
        assert_eq!(receivers.map(|node| scene.received(node)), [[b"2"], [b"2"]], "{leaves}");
    }
}

#[test]
fn a_renewal_that_is_lost_between_routers_is_repeated_before_the_old_word_ends() {
    let mut scene = Scene::new(2);
    let [receiver, sender] = [scene.member(0, Part::Receives), scene.member(1, Part::Sends)];
    let begin = scene.world.now.instant;
    let until = |scene: &mut Scene, second: u64| {
        let gone = scene.world.now.instant - begin;
        scene.world.run(Duration::from_secs(second) - gone);
    };
    until(&mut scene, 250);
    scene.lead_to(0);
    // At half of the ten minutes that hold, and again at their end, what a router tells of a
    // member, with his membership and his chain, does not arrive, but all that is shorter does.
    for (from, to) in [(280, 320), (590, 606)] {
        until(&mut scene, from);
        let narrow = Conditions { largest_datagram: 600, ..Conditions::default() };
        scene.world.network.set_conditions(narrow);
        until(&mut scene, to);
        scene.send(sender, b"1");
        scene.world.run(SECOND / 10);
        assert_eq!(scene.received(receiver), [b"1"], "after {to} s");
        scene.world.network.set_conditions(Conditions::default());
    }
}

#[test]
fn a_router_that_has_lost_the_way_to_the_root_is_not_told_of_each_member_all_the_time() {
    let mut scene = Scene::new(2);
    scene.member(0, Part::Receives);
    for _ in 0..8 {
        scene.member(1, Part::Sends);
    }
    // The owner's word for the root holds for ten minutes, and is not renewed.
    scene.world.run(500 * SECOND);
    let told = |scene: &Scene| scene.world.dropped(0, DropReason::RoutePending);
    let before = told(&scene);
    scene.world.run(140 * SECOND);
    let told = told(&scene) - before;
    assert!((8..400).contains(&told), "{told}");
}

#[test]
fn nobody_leaves_for_somebody_else() {
    let mut scene = Scene::new(2);
    let [sender, receiver] = [scene.member(0, Part::Sends), scene.member(1, Part::Receives)];
    let names = [sender, receiver].map(|node| scene.world.name(node));
    for router in [0, 1] {
        let mut stranger = Stranger::new(&mut scene.world, router, Role::Node);
        let mut data = Vec::new();
        GroupRequest::Leave.emit(&mut data);
        for name in names {
            let header = PduHeader::new(Action::GroupRequest, name, scene.name());
            stranger.send(&mut scene.world, header, &data, &[]);
        }
        scene.world.run(SECOND);
        assert_eq!(scene.groups(router).1, 2);
    }
    scene.send(sender, b"1");
    scene.world.run(SECOND / 10);
    assert_eq!(scene.received(receiver), [b"1"]);
}

/// Has somebody tell the first router of removals of these names. How many it took.
fn taken(scene: &mut Scene, teller: &mut Stranger, by: Signer<'_>, names: Range<u16>) -> usize {
    let (now, mut taken) = (scene.world.now, 0);
    let window = Window::starting(now.unix_s(), 100);
    for number in names {
        let name = Name([number.to_be_bytes(); 16].concat().try_into().unwrap());
        let (issuers, certificates) =
            Removal::sign(by.0, by.1, name, now.unix_ms, window).unwrap().lists();
        let mut data = Vec::new();
        GroupRequest::Remove { issuers, certificates }.emit(&mut data);
        let header = PduHeader::new(Action::GroupRequest, teller.name(), scene.name());
        teller.inbox.clear();
        teller.send(&mut scene.world, header, &data, &[]);
        scene.world.run(SECOND / 100);
        teller.settle(&mut scene.world);
        let answers: Vec<Action> = teller.inbox.iter().map(|(header, _)| header.action).collect();
        match answers.contains(&Action::GroupAccept) {
            true => taken += 1,
            false => assert_eq!(teller.nacks(), [Reason::Overloaded(200)]),
        }
    }
    taken
}

/// Who removes, and as what he is admitted unless it is the owner.
type Signer<'a> = (&'a Identity, Option<&'a Membership>);

#[test]
fn who_is_let_admit_others_leaves_the_owner_room_to_remove_and_what_has_ended_is_forgotten() {
    let mut scene = Scene::new(1);
    scene.member(0, Part::Receives);
    let mut teller = Stranger::new(&mut scene.world, 0, Role::Node);
    let owner = scene.group.clone();
    for number in 0..9 {
        let admitter = scene.world.identity(Role::Node);
        let admitted = scene.admit(admitter.name(), Rights::ADMIT, 3600);
        let names = 20 * number..20 * (number + 1);
        let taken = taken(&mut scene, &mut teller, (&admitter, Some(&admitted)), names);
        assert_eq!(taken, if number < 8 { 16 } else { 0 }, "admitter {number}");
    }
    assert_eq!(taken(&mut scene, &mut teller, (&owner, None), 500..640), 128);
    // They hold for as long as clocks may differ by, besides.
    scene.world.run(140 * SECOND);
    let mut teller = Stranger::new(&mut scene.world, 0, Role::Node);
    assert_eq!(taken(&mut scene, &mut teller, (&owner, None), 700..701), 0);
    scene.world.run(40 * SECOND);
    let mut teller = Stranger::new(&mut scene.world, 0, Role::Node);
    assert_eq!(taken(&mut scene, &mut teller, (&owner, None), 700..701), 1);
}

#[test]
fn removals_that_strangers_bring_are_among_their_names_until_they_end() {
    let mut world = World::new();
    world.config.max_routes = 256;
    let mut scene = Scene::within(world, 1);
    let receiver = scene.member(0, Part::Receives);
    let owner = scene.group.clone();
    for (names, expected, wait) in [(0..40, 32, 1), (40..60, 0, 180), (60..100, 32, 1)] {
        let mut teller = Stranger::new(&mut scene.world, 0, Role::Node);
        let taken = taken(&mut scene, &mut teller, (&owner, None), names);
        assert_eq!(taken, expected, "an eighth of the names that the router has room for");
        scene.leave(receiver);
        scene.world.run(wait * SECOND);
        assert_eq!(scene.groups(0), (0, 0));
        scene.join(receiver, Part::Receives);
        scene.world.run(SECOND);
    }
}

#[test]
fn members_stay_while_leases_are_renewed_and_are_out_when_their_words_end() {
    let mut scene = Scene::new(2);
    let [sender, receiver] = [scene.member(0, Part::Sends), scene.member(1, Part::Receives)];
    let brief = scene.world.node(1);
    let membership = scene.admit(scene.world.name(brief), Rights::JOIN, 20);
    let (name, now) = (scene.name(), scene.world.now);
    scene.world.nodes[brief].core.join_group(name, Part::Receives, membership, now).unwrap();
    scene.world.run(10 * SECOND);
    scene.send(sender, b"1");
    scene.world.run(15 * SECOND);
    scene.send(sender, b"2");
    scene.world.run(SECOND);
    assert_eq!(scene.received(brief), [b"1"]);
    for _ in 0..5 {
        scene.lead_to(0);
        scene.world.run(300 * SECOND);
        scene.send(sender, b"3");
        scene.world.run(SECOND);
        assert_eq!(scene.received(receiver).last().unwrap(), b"3");
    }
}

#[test]
fn when_the_root_moves_the_tree_follows() {
    let mut scene = Scene::new(4);
    let [one, other] = [scene.member(1, Part::Both), scene.member(2, Part::Both)];
    scene.world.run(SECOND);
    scene.lead_to(3);
    scene.world.run(5 * SECOND);
    scene.send(one, b"1");
    scene.send(other, b"2");
    scene.world.run(SECOND);
    assert_eq!(scene.received(one), [b"2"]);
    assert_eq!(scene.received(other), [b"1"]);
    assert_eq!([0, 3].map(|router| scene.groups(router).0), [0, 1]);
}

#[test]
fn a_root_that_dies_stops_the_tree_until_it_is_back_and_members_move() {
    let mut scene = Scene::new(3);
    let [sender, receiver] = [scene.member(1, Part::Sends), scene.member(2, Part::Receives)];
    scene.world.routers[0].is_dead = true;
    scene.world.run(30 * SECOND);
    scene.world.routers[0].is_dead = false;
    scene.world.run(10 * SECOND);
    scene.send(sender, b"1");
    scene.world.run(SECOND);
    assert_eq!(scene.received(receiver), [b"1"]);
}

#[test]
fn a_flood_of_copies_is_bounded_and_leaves_others_theirs() {
    let mut scene = Scene::new(1);
    let flooder = scene.member(0, Part::Sends);
    let all: Vec<usize> = (0..40).map(|_| scene.member(0, Part::Receives)).collect();
    let mut sent = 0;
    while scene.world.dropped(0, DropReason::TooManyCopies) == 0 {
        assert!(sent < 2000, "nothing bounds it");
        for _ in 0..16 {
            scene.send(flooder, &[7; 900]);
            sent += 1;
        }
        scene.world.settle();
    }
    let copies = scene.world.counters(0).copies;
    assert!(copies <= 17_000, "more than a burst of strangers: {copies}");
    assert!(all.iter().all(|node| !scene.world.nodes[*node].received.is_empty()));
    // What goes to one name costs no copies.
    let (a, b) = (scene.world.node(0), scene.world.node(0));
    scene.world.send(a, b, b"as ever");
    scene.world.run(SECOND);
    assert_eq!(scene.received(b), [b"a"]);
}

/// A stranger at the first router that receives.
fn receiving_stranger(scene: &mut Scene) -> Stranger {
    let mut stranger = Stranger::new(&mut scene.world, 0, Role::Node);
    let membership = scene.both(stranger.name());
    let (issuers, certificates) =
        (membership.issuers().to_vec(), membership.certificates().to_vec());
    let route = stranger.route(scene.world.routers[0].switch.name(), &scene.world);
    let request = GroupRequest::Join { part: Part::Receives, issuers, certificates };
    assert!(ask(scene, &mut stranger, 1, &request, &route).0.is_some());
    stranger
}

#[test]
fn what_may_soon_fit_all_ways_is_to_be_sent_again_and_what_does_not_is_refused() {
    let narrow = Conditions { largest_datagram: 1400, ..Conditions::default() };
    let mut scene = Scene::within(World::with_conditions(1, narrow), 1);
    let [sender, receiver] = [scene.member(0, Part::Sends), scene.member(0, Part::Receives)];
    for _ in 0..60 {
        scene.world.send(receiver, sender, b"an end that is heard measures");
        scene.send(sender, b"0");
        scene.world.run(SECOND / 2);
    }
    scene.received(receiver);
    let (name, now) = (scene.name(), scene.world.now);
    let most = scene.world.nodes[sender].core.max_body_len(name, now);
    scene.send(sender, &vec![1; most]);
    scene.world.settle();
    assert_eq!(scene.received(receiver), [[1]], "as much as the path takes");
    // The router has to measure anew, and its first question is too large for the path.
    scene.world.move_node(receiver);
    scene.world.send(receiver, sender, b"from elsewhere");
    scene.world.run(SECOND / 100);
    scene.world.nodes[sender].events.clear();
    scene.send(sender, &vec![2; most]);
    scene.world.settle();
    assert_eq!(scene.world.dropped(0, DropReason::TooBig), 1);
    assert!(scene.world.nodes[sender].events.is_empty(), "it is told to come back");
    scene.world.run(5 * SECOND);
    let events = &scene.world.nodes[sender].events;
    let is_refused = |event: &Event| {
        matches!(event, Event::SendFailed { reason: SendFailure::Nacked(Reason::TooBig(_)), .. })
    };
    assert!(events.iter().any(is_refused), "it did not get through: {events:?}");
}

#[test]
fn no_receiver_says_for_all_that_nothing_fits() {
    let mut scene = Scene::new(1);
    let sender = scene.member(0, Part::Sends);
    let receiver = scene.member(0, Part::Receives);
    let mut liar = receiving_stranger(&mut scene);
    scene.send(sender, b"1");
    scene.world.run(SECOND / 10);
    liar.settle(&mut scene.world);
    let copy = liar.inbox.iter().find(|(it, _)| it.action == Action::Data).unwrap().0;
    let mut data = Vec::new();
    Nack { reason: Reason::TooBig(100), reporter: None }.emit(&mut data);
    let nack = PduHeader::new(Action::Nack, copy.destination, copy.source);
    liar.send(&mut scene.world, PduHeader { tag: copy.tag, ..nack }, &data, &[]);
    scene.world.run(SECOND / 10);
    scene.send(sender, &[b'2'; 900]);
    scene.world.run(SECOND / 10);
    assert_eq!(scene.received(receiver), [b"1", b"2"]);
}
