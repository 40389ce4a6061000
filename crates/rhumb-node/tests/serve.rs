//! A node answers for a name whose key it does not hold, by the owner's
//! AdCert, as long as that lasts and the owner wishes.

use std::time::Duration;

use rhumb_node::core::{DropReason, Event, MAX_SERVED, ServiceEnd};
use rhumb_node::{SendError, ServeError};
use rhumb_trust::{AdCert, AdCertError, Identity, Window, verify_chain};
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Metadata, Name, PduHeader, Role};

use crate::world::{OnAdvertise, START_S, World};

const SECOND: Duration = Duration::from_secs(1);
const PEER: Name = Name([5; 32]);
const DATA: &[u8] = &[1, 0, 0, 9, 42];

fn owner() -> Identity {
    Identity::generate(Role::Capsule, 1).expect("a key")
}

/// The owner's word for the node of `world`, for so many seconds from now.
fn word(owner: &Identity, world: &World, lifetime_s: u64) -> AdCert {
    let window = Window::starting(world.now.unix_s(), lifetime_s);
    AdCert::sign(owner, world.core.name(), world.now.unix_ms, window).expect("a key that signs")
}

/// A node that serves a name for a day, and whose router knows.
fn serving() -> (World, Identity) {
    let (mut world, owner) = (World::joined(), owner());
    world.core.serve(word(&owner, &world, 86_400), world.now).expect("a good AdCert");
    world.run_for(SECOND);
    let (name, until_s) = (owner.name(), world.now.unix_s() + 600);
    assert!(
        matches!(world.events[..], [Event::Serving { name: of, published: true, .. }] if of == name),
        "{:?}, until {until_s}",
        world.events
    );
    world.events.clear();
    (world, owner)
}

fn to_served(action: Action, owner: &Identity) -> PduHeader {
    PduHeader { tag: 77, ..PduHeader::new(action, PEER, owner.name()) }
}

#[test]
fn a_router_is_shown_the_owners_word_and_our_own() {
    let (mut world, owner) = serving();
    let advertised = world.router.seen(Action::Advertise);
    assert_eq!(advertised.len(), 1, "accepted and published at once");
    assert_eq!(advertised[0].header.source, owner.name());
    let sent_along = Metadata::parse_list(&advertised[0].data).unwrap();
    assert_eq!(sent_along, [(**owner.metadata()).clone()]);
    let keys = [owner.metadata().key, world.identity.metadata().key];
    let key_of = |name: &Name| Some(keys[usize::from(*name != owner.name())]);
    let chain = advertised[0].certificates.clone();
    let chain = verify_chain(owner.name(), chain, key_of, START_S).unwrap();
    assert_eq!(chain.server(), Some(world.core.name()));
    assert_eq!(chain.last_router(), Some(world.router.identity.name()));
    // It rests on the node's own route, and is renewed with that.
    world.run_for(301 * SECOND);
    let renewed = world.router.seen(Action::Advertise);
    let of = |name: Name| renewed.iter().rev().find(|seen| seen.header.source == name).unwrap();
    let (own, served) = (of(world.core.name()), of(owner.name()));
    assert_eq!(served.certificates[1], own.certificates[0]);
    assert_eq!(served.certificates[0], advertised[0].certificates[0]);
    assert_eq!(renewed.len(), 3);
    assert!(world.core.served().all(|it| it.accepted && it.published));
}

#[test]
fn what_is_for_the_name_says_so_and_is_answered_in_it() {
    let (mut world, owner) = serving();
    world.router.send(to_served(Action::Data, &owner), DATA, world.now);
    let own = PduHeader::new(Action::Data, PEER, world.core.name());
    world.router.send(own, DATA, world.now);
    world.router.send(to_served(Action::Ping, &owner), b"ping", world.now);
    world.run_for(SECOND);
    assert_eq!(world.arrived_for, [owner.name(), world.core.name()]);
    let pong = world.router.seen(Action::Pong)[0].clone();
    assert_eq!((pong.header.source, pong.header.destination), (owner.name(), PEER));
    // Each flow has a label of its own.
    let labels = world.router.seen(Action::FlowAccept);
    let given: Vec<_> = labels.iter().map(|it| (it.header.source, it.data.clone())).collect();
    assert_eq!(given.len(), 2);
    assert_eq!((given[0].0, given[1].0), (owner.name(), world.core.name()));
    assert_ne!(given[0].1, given[1].1);
    let label = FlowAccept::parse(&given[0].1).unwrap().label;
    let header = rhumb_wire::pdu::LabelledHeader { action: Action::Data, ttl: 9, tag: 1, label };
    world.router.send_labelled(header, DATA, world.now);
    world.run_for(SECOND);
    assert_eq!(world.arrived_for.last(), Some(&owner.name()));
}

#[test]
fn it_sends_in_the_name_and_presents_itself_again_when_the_router_forgot() {
    let (mut world, owner) = serving();
    let stranger = Name([8; 32]);
    let refused = world.core.send_as(stranger, PEER, 9, &[42], world.now);
    assert_eq!(refused, Err(SendError::NotServed { name: stranger }));
    let tag = world.core.send_as(owner.name(), PEER, 9, &[42], world.now).unwrap();
    world.run_for(SECOND / 100);
    let sent = world.router.seen(Action::Data)[0].clone();
    assert_eq!((sent.header.source, sent.header.tag), (owner.name(), tag));
    world.nack(&sent, Reason::NotAuthorised);
    world.run_for(SECOND);
    assert_eq!(world.router.seen(Action::Advertise).len(), 2);
    let again = world.router.seen(Action::Data);
    assert_eq!((again.len(), again[1].header.tag), (2, tag));
    // A label that the router gives one name's flow is no other's.
    let flow = PduHeader { tag, ..PduHeader::new(Action::FlowAccept, PEER, owner.name()) };
    let label = FlowAccept { label: rhumb_wire::pdu::Label(3) };
    world.router.send(flow, &label.emit(), world.now);
    world.run_for(SECOND / 100);
    world.core.send(PEER, 9, &[42], world.now).unwrap();
    world.core.send_as(owner.name(), PEER, 9, &[43], world.now).unwrap();
    world.run_for(SECOND / 100);
    assert_eq!(world.router.seen(Action::Data).len(), 3, "its own goes by names");
    assert_eq!(world.router.labelled.len(), 1);
}

#[test]
fn a_name_that_moved_is_let_go_and_asked_for_now_and_then_in_case_it_is_needed() {
    let (mut world, owner) = serving();
    let advertised = world.router.seen(Action::Advertise)[0].clone();
    world.router.on_advertise = OnAdvertise::Nack(Reason::Superseded);
    world.nack(&advertised, Reason::Superseded);
    world.nack(&advertised, Reason::Superseded);
    world.run_for(SECOND);
    let (name, reason) = (owner.name(), ServiceEnd::Superseded);
    assert_eq!(world.events, [Event::NotServing { name, reason }], "told once");
    assert_eq!(world.core.drops().of(DropReason::UnknownNack), 1);
    // Whoever still sends here is told to look elsewhere.
    world.router.send(to_served(Action::Data, &owner), DATA, world.now);
    world.router.send(to_served(Action::Ping, &owner), &[0; 36], world.now);
    world.run_for(SECOND);
    assert!(world.arrived_for.is_empty() && world.router.seen(Action::Pong).is_empty());
    let nacks = world.router.seen(Action::Nack);
    assert_eq!(nacks.len(), 2);
    for nack in nacks {
        assert_eq!((nack.header.source, nack.header.destination), (name, PEER));
        let said = Nack::parse(&nack.data).unwrap();
        assert!(matches!(said.reason, Reason::Unreachable(_)));
    }
    // It stands by: asks every five seconds or a little later, says
    // nothing of it, and is let in when it is needed.
    let asked = |world: &World| {
        world.router.seen(Action::Advertise).iter().filter(|it| it.header.source == name).count()
    };
    world.events.clear();
    let before = asked(&world);
    world.run_for(60 * SECOND);
    assert!((8..=12).contains(&(asked(&world) - before)), "{}", asked(&world) - before);
    assert_eq!(world.events, []);
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(8 * SECOND);
    assert!(world.core.served().all(|it| it.accepted && it.published));
    assert!(matches!(world.events[..], [Event::Serving { published: true, .. }]));
}

#[test]
fn a_refusal_ends_it_and_an_overload_does_not() {
    let (mut world, owner) = (World::joined(), owner());
    world.router.on_advertise = OnAdvertise::Nack(Reason::Overloaded(1000));
    world.core.serve(word(&owner, &world, 600), world.now).unwrap();
    world.run_for(5 * SECOND);
    assert!(world.events.is_empty());
    assert!(world.router.seen.len() >= 3);
    world.router.on_advertise = OnAdvertise::Nack(Reason::BadCertificate);
    world.run_for(5 * SECOND);
    let reason = ServiceEnd::Refused(Reason::BadCertificate);
    assert_eq!(world.events, [Event::NotServing { name: owner.name(), reason }]);
    let asked = world.router.seen.len();
    world.run_for(5 * SECOND);
    assert_eq!(world.router.seen.len(), asked);
    assert!(world.core.is_joined(), "its own name is none the worse");
}

#[test]
fn what_is_not_published_yet_is_asked_about_until_it_is() {
    let (mut world, owner) = (World::joined(), owner());
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: false };
    world.core.serve(word(&owner, &world, 600), world.now).unwrap();
    world.run_for(5 * SECOND);
    assert!(matches!(world.events[..], [Event::Serving { published: false, .. }]));
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(5 * SECOND);
    assert!(matches!(world.events[1..], [Event::Serving { published: true, .. }]));
}

#[test]
fn with_its_adcert_a_name_ends() {
    let (mut world, owner) = (World::joined(), owner());
    world.core.serve(word(&owner, &world, 30), world.now).unwrap();
    world.run_for(30 * SECOND);
    assert!(matches!(world.events[..], [Event::Serving { .. }]));
    world.run_for(SECOND);
    let (name, reason) = (owner.name(), ServiceEnd::Expired);
    assert_eq!(world.events[1..], [Event::NotServing { name, reason }]);
    assert_eq!(world.core.served().count(), 0);
    let refused = world.core.send_as(name, PEER, 9, &[42], world.now);
    assert_eq!(refused, Err(SendError::NotServed { name }));
}

#[test]
fn an_adcert_that_does_not_serve_is_refused() {
    let (mut world, owner) = (World::joined(), owner());
    let now = world.now;
    let sign = |server, sequence, begins_in_s: u64| {
        let window = Window::starting(now.unix_s() + begins_in_s, 600);
        AdCert::sign(&owner, server, sequence, window).unwrap()
    };
    let (me, other) = (world.core.name(), Name([8; 32]));
    let refused = world.core.serve(sign(other, 5, 0), now).unwrap_err();
    assert!(
        matches!(refused, ServeError::AdCert(AdCertError::OtherServer { named, .. }) if named == other)
    );
    let refused = world.core.serve(sign(me, 5, 100), now).unwrap_err();
    assert!(refused.to_string().contains("not valid for another 100 s"), "{refused}");
    world.core.serve(sign(me, 5, 0), now).unwrap();
    let refused = world.core.serve(sign(me, 4, 0), now).unwrap_err();
    assert!(matches!(refused, ServeError::Older { owner: of } if of == owner.name()));
    world.core.serve(sign(me, 6, 0), now).unwrap();
    for _ in 1..MAX_SERVED {
        world.core.serve(word(&self::owner(), &world, 600), now).unwrap();
    }
    let one_more = word(&self::owner(), &world, 600);
    assert!(matches!(world.core.serve(one_more, now), Err(ServeError::TooMany)));
    assert!(world.core.stop_serving(owner.name()));
    assert!(!world.core.stop_serving(owner.name()));
    assert!(world.core.serve(word(&self::owner(), &world, 600), now).is_ok());
}
