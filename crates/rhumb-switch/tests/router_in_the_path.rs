//! A router that a name has let carry its traffic, and that does not do as it should: what it can
//! do with what it was trusted with, and that it can do no more. It is a neighbour of an honest
//! router, by whose other side everything here is seen.
//!
//! Data are not sealed from end to end: who carries can read, alter, repeat and withhold what it
//! carries. The bound is *whose* data those are, and to whom they go: the name's own, within the
//! scope of its word, until that ends.

#![allow(clippy::unwrap_used)] // A helper of a test may panic as the test may.

use std::sync::Arc;
use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_trust::{Identity, Window};
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Certificate, Name, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
/// What a node takes for a datagram: a kind, a port, a body.
const DATA: &[u8] = &[1, 0, 0, 9, 42];
const OTHER_DATA: &[u8] = &[1, 0, 0, 9, 43];

/// An honest router with two nodes, and a router beside it that carries for somebody.
struct Scene {
    world: World,
    honest: Name,
    b: usize,
    c: usize,
    /// The router under test, in whose hands all that is sent for the source is.
    between: Stranger,
    source: Arc<Identity>,
    /// The source's word for it, and its own for the honest router.
    chain: [Certificate; 2],
}

impl Scene {
    /// The source lets the router carry within a scope that may depend on who B is.
    fn new(scope: impl Fn(Name) -> Scope) -> Self {
        let mut world = World::new();
        world.line(1);
        let (b, c) = (world.node(0), world.node(0));
        let honest = world.routers[0].switch.name();
        let mut between = Stranger::new(&mut world, 0, Role::Router);
        let source = world.identity(Role::Node);
        // It was here before, so that it is known: nothing is learned from chains that are refused.
        let mut before = Stranger::with_identity(&mut world, 0, source.clone());
        let join = PduHeader::new(Action::Advertise, source.name(), honest);
        let route = before.route(honest, &world);
        before.send(&mut world, join, &[], &[route]);
        world.run(SECOND);
        before.close(&world);
        world.run(SECOND);
        let window = Window::starting(world.now.unix_s(), 600);
        let statement = Statement::Route { via: between.name(), scope: scope(world.name(b)) };
        let word = source.certify(statement, world.now.unix_ms, window).unwrap();
        let chain = [word, between.route(honest, &world)];
        // The router joins under its own name.
        let own = PduHeader::new(Action::Advertise, between.name(), honest);
        between.send(&mut world, own, &[], std::slice::from_ref(&chain[1]));
        let header = PduHeader::new(Action::Data, source.name(), world.name(b));
        for _ in 0..5 {
            between.send(&mut world, header, DATA, &chain);
            world.run(SECOND);
            between.settle(&mut world);
        }
        assert!(!world.nodes[b].received.is_empty(), "{:?}", between.nacks());
        world.nodes[b].received.clear();
        between.inbox.clear();
        Self { world, honest, b, c, between, source, chain }
    }

    fn passes_on(&mut self, from: Name, to: usize, data: &[u8], chain: &[Certificate]) {
        let header = PduHeader::new(Action::Data, from, self.world.name(to));
        self.between.send(&mut self.world, header, data, chain);
    }

    /// B sends to the router under test, which says what came.
    fn sent_by_b(&mut self, body: &[u8], count: usize) -> Vec<(PduHeader, Vec<u8>)> {
        let to = self.between.name();
        for _ in 0..count {
            self.world.nodes[self.b].core.send(to, 7, body, self.world.now).unwrap();
        }
        // The way is looked up first; the node sends again meanwhile.
        for _ in 0..20 {
            self.world.run(SECOND / 10);
            self.between.settle(&mut self.world);
        }
        let inbox = std::mem::take(&mut self.between.inbox);
        inbox.into_iter().filter(|(header, _)| header.action == Action::Data).collect()
    }

    fn received(&self, node: usize) -> Vec<(Name, Vec<u8>)> {
        self.world.nodes[node].received.clone()
    }
}

#[test]
fn what_it_was_trusted_with_it_can_repeat_and_alter_under_that_name_alone() {
    let mut scene = Scene::new(|_| Scope::Any);
    let (from, chain) = (scene.source.name(), scene.chain.clone());
    scene.passes_on(from, scene.b, DATA, &chain);
    for _ in 0..2 {
        scene.passes_on(from, scene.b, DATA, &[]);
    }
    scene.passes_on(from, scene.b, OTHER_DATA, &[]);
    assert_eq!(scene.received(scene.b).len(), 4, "{:?}", scene.between.nacks());
    assert!(scene.received(scene.b).iter().all(|(name, _)| *name == from));
    // Under any other name it sends nothing: of a neighbour, of its own router, of the receiver.
    let others = [scene.world.name(scene.c), scene.honest, scene.world.name(scene.b)];
    for name in others {
        scene.passes_on(name, scene.b, DATA, &[]);
        scene.passes_on(name, scene.b, DATA, &chain);
    }
    assert_eq!(scene.received(scene.b).len(), 4);
    assert!(scene.received(scene.c).is_empty());
    let nacks = scene.between.nacks();
    assert_eq!(nacks.len(), 2 * others.len(), "{nacks:?}");
    let is_refusal = |nack: &Reason| matches!(nack, Reason::NotAuthorised | Reason::BadCertificate);
    assert!(nacks.iter().all(is_refusal), "{nacks:?}");
}

#[test]
fn what_is_for_one_it_cannot_redirect_to_another() {
    let mut scene = Scene::new(Scope::Destination);
    let (from, chain) = (scene.source.name(), scene.chain.clone());
    scene.passes_on(from, scene.c, DATA, &chain);
    scene.passes_on(from, scene.c, DATA, &[]);
    assert!(scene.received(scene.c).is_empty());
    assert_eq!(scene.between.nacks(), [Reason::NotAuthorised; 2]);
    scene.passes_on(from, scene.b, DATA, &chain);
    assert_eq!(scene.received(scene.b).len(), 1, "{:?}", scene.between.nacks());
}

#[test]
fn no_word_of_the_source_can_be_altered() {
    let mut scene = Scene::new(Scope::Destination);
    let (from, [word, own]) = (scene.source.name(), scene.chain.clone());
    let via = scene.between.name();
    let altered = [
        Certificate { statement: Statement::Route { via, scope: Scope::Any }, ..word.clone() },
        Certificate {
            statement: Statement::Route {
                via,
                scope: Scope::Destination(scene.world.name(scene.c)),
            },
            ..word.clone()
        },
        Certificate { not_after_s: word.not_after_s + 1, ..word.clone() },
        Certificate { not_before_s: word.not_before_s - 1, ..word.clone() },
        Certificate { sequence: word.sequence + 1, ..word.clone() },
        Certificate { issuer: scene.world.name(scene.c), ..word.clone() },
    ];
    let count = altered.len() as u64;
    for word in altered {
        for to in [scene.b, scene.c] {
            scene.passes_on(word.issuer, to, DATA, &[word.clone(), own.clone()]);
        }
    }
    assert!(scene.received(scene.b).is_empty() && scene.received(scene.c).is_empty());
    assert_eq!(scene.world.dropped(0, DropReason::BadCertificate), 2 * count);
    assert_eq!(scene.between.nacks().len() as u64, 2 * count);
    scene.passes_on(from, scene.b, DATA, &[word, own]);
    assert_eq!(scene.received(scene.b).len(), 1);
}

#[test]
fn when_the_word_ends_nothing_more_is_carried() {
    let mut scene = Scene::new(|_| Scope::Any);
    let (from, chain) = (scene.source.name(), scene.chain.clone());
    scene.passes_on(from, scene.b, DATA, &chain);
    assert_eq!(scene.received(scene.b).len(), 1);
    // Ten minutes, and the minute by which clocks may differ.
    for _ in 0..67 {
        scene.world.run(10 * SECOND);
        scene.between.keep_alive(&mut scene.world);
    }
    scene.between.inbox.clear();
    scene.passes_on(from, scene.b, DATA, &[]);
    scene.passes_on(from, scene.b, DATA, &chain);
    assert_eq!(scene.received(scene.b).len(), 1);
    assert_eq!(scene.between.nacks(), [Reason::NotAuthorised, Reason::Expired]);
}

#[test]
fn what_it_drops_is_missed_and_others_are_served() {
    let mut scene = Scene::new(|_| Scope::Any);
    let held = scene.sent_by_b(b"to be dropped", 5).len();
    assert_eq!(held, 5, "it is where that goes, and keeps what comes");
    let (b, c) = (scene.b, scene.c);
    scene.world.send(b, c, b"another way");
    scene.world.send(c, b, b"and back");
    scene.world.settle();
    assert_eq!((scene.received(c).len(), scene.received(b).len()), (1, 1));
}

/// Two routers that point at each other: one of them hands everything back to where it came from.
#[test]
fn what_it_sends_back_goes_round_no_second_time() {
    let mut scene = Scene::new(|_| Scope::Any);
    let (header, data) = scene.sent_by_b(b"round", 1).remove(0);
    let forwarded = scene.world.counters(0).forwarded_pdus;
    // By nobody's right, by the right that was shown to it, and
    // by that with its own word for the way back.
    let window = Window::starting(scene.world.now.unix_s(), 600);
    let sequence = scene.world.now.unix_ms;
    let word = |identity: &Identity, via| {
        let statement = Statement::Route { via, scope: Scope::Any };
        identity.certify(statement, sequence, window).unwrap()
    };
    let to_between = word(&scene.world.routers[0].identity, scene.between.name());
    let back = scene.between.route(scene.honest, &scene.world);
    for chain in [vec![], vec![to_between.clone()], vec![to_between, back.clone()], vec![back]] {
        for _ in 0..10 {
            scene.between.send(&mut scene.world, header, &data, &chain);
        }
    }
    assert_eq!(scene.world.counters(0).forwarded_pdus, forwarded);
    let nacks = scene.between.nacks();
    assert_eq!(nacks.len(), 40, "each is refused, none is passed on: {nacks:?}");
}

/// About flows that go by way of it a router may say what
/// it likes; about others nobody listens to it.
#[test]
fn it_is_believed_about_its_own_flows_only() {
    let mut scene = Scene::new(|_| Scope::Any);
    let (b, c, between) = (scene.b, scene.c, scene.between.name());
    scene.world.send(b, c, b"not by way of it");
    assert_eq!(scene.sent_by_b(b"by way of it", 1).len(), 1);
    let mut data = Vec::new();
    Nack { reason: Reason::TooBig(100), reporter: None }.emit(&mut data);
    let limit = |scene: &Scene, of| scene.world.nodes[b].core.max_body_len(of, scene.world.now);
    let to_c = scene.world.name(c);
    let before = limit(&scene, to_c);
    let sender = scene.world.name(b);
    let header = PduHeader::new(Action::Nack, to_c, sender);
    scene.between.send(&mut scene.world, header, &data, &[]);
    assert_eq!(scene.world.dropped(0, DropReason::UnexpectedAnswer), 1);
    assert_eq!(limit(&scene, to_c), before);
    assert!(scene.between.nacks().is_empty(), "an answer is never answered");
    let header = PduHeader::new(Action::Nack, between, sender);
    scene.between.send(&mut scene.world, header, &data, &[]);
    assert_eq!(scene.world.dropped(0, DropReason::UnexpectedAnswer), 1, "this one is passed on");
}
