//! A server answers for a name it holds no key of, by the owner's word; the name moves to another
//! server, and whoever sends to it notices nothing.

use std::sync::Arc;
use std::time::Duration;

use rhumb_node::core::{Event, ServiceEnd};
use rhumb_trust::{AdCert, Identity, Window};
use rhumb_wire::metadata::{Metadata, Role};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Action, Certificate, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
const DATA: &[u8] = &[1, 0, 0, 9, 42];

/// The owner's word that `server` answers for its capsule.
fn service(owner: &Identity, server: &Stranger, world: &World) -> Certificate {
    let statement = Statement::Service { server: server.name(), several: false };
    let window = Window::starting(world.now.unix_s(), 600);
    owner.certify(statement, world.now.unix_ms, window).expect("a key that signs")
}

/// The server joins its router, by its own name and for the capsule.
fn serve(
    world: &mut World,
    server: &mut Stranger,
    owner: &Identity,
    service: &Certificate,
    router: usize,
) {
    let via = world.routers[router].switch.name();
    let route = server.route(via, world);
    let own = PduHeader::new(Action::Advertise, server.name(), via);
    server.send(world, own, &[], std::slice::from_ref(&route));
    let mut metadata = Vec::new();
    Metadata::emit_list(&[(**owner.metadata()).clone()], &mut metadata);
    let served = PduHeader::new(Action::Advertise, owner.name(), via);
    server.send(world, served, &metadata, &[service.clone(), route]);
    world.run(SECOND);
    server.settle(world);
    server.keep_alive(world);
}

fn received(server: &Stranger) -> usize {
    server
        .inbox
        .iter()
        .filter(|(header, data)| header.action == Action::Data && data == DATA)
        .count()
}

#[test]
fn a_server_answers_and_another_takes_over() {
    let mut world = World::new();
    world.line(3);
    let client = world.node(0);
    let owner: Arc<Identity> = world.identity(Role::Capsule);
    let mut one = Stranger::new(&mut world, 2, Role::Node);
    let mut two = Stranger::new(&mut world, 1, Role::Node);
    let for_one = service(&owner, &one, &world);
    serve(&mut world, &mut one, &owner, &for_one, 2);
    world.nodes[client].core.send(owner.name(), 9, &[42], world.now).unwrap();
    world.run(SECOND);
    one.settle(&mut world);
    assert_eq!((received(&one), received(&two)), (1, 0));
    // It sends in the capsule's name, too.
    let answer = PduHeader::new(Action::Data, owner.name(), world.name(client));
    while world.nodes[client].received.is_empty() {
        one.send(&mut world, answer, DATA, &[]);
        assert!(one.nacks().iter().all(|nack| matches!(nack, Reason::NotYet(_))));
        world.run(Duration::from_millis(20));
    }
    assert_eq!(world.nodes[client].received, [(owner.name(), vec![42])]);
    // The owner moves it, the first server is gone.
    let for_two = service(&owner, &two, &world);
    drop(one);
    serve(&mut world, &mut two, &owner, &for_two, 1);
    for _ in 0..30 {
        world.run(SECOND);
        two.keep_alive(&mut world);
    }
    world.nodes[client].core.send(owner.name(), 9, &[42], world.now).unwrap();
    world.run(2 * SECOND);
    two.settle(&mut world);
    assert_eq!(received(&two), 1);
}

/// Lets a node of the world serve the owner's name, by a word of now.
fn let_serve(world: &mut World, owner: &Identity, node: usize) -> AdCert {
    let window = Window::starting(world.now.unix_s(), 600);
    let server = world.name(node);
    let word = AdCert::sign(owner, server, world.now.unix_ms, window).expect("a key that signs");
    world.nodes[node].core.serve(word.clone(), world.now).expect("a good AdCert");
    world.run(SECOND);
    word
}

/// Whether the node serves, as it knows itself.
fn serves(world: &World, node: usize) -> bool {
    world.nodes[node].core.served().any(|it| it.accepted && it.published)
}

/// What the node was told of its end as a server, forgotten with this.
fn ends(world: &mut World, node: usize) -> Vec<ServiceEnd> {
    let events = std::mem::take(&mut world.nodes[node].events);
    let end = |event| match event {
        Event::NotServing { reason, .. } => Some(reason),
        _ => None,
    };
    events.into_iter().filter_map(end).collect()
}

#[test]
fn the_server_that_was_is_told_and_fights_for_nothing() {
    // At another router, and at the same one, which hears of it from the new server itself.
    for routers in [[2, 1], [1, 1]] {
        let mut world = World::new();
        world.line(3);
        let client = world.node(0);
        let [one, two] = routers.map(|router| world.node(router));
        world.run(SECOND);
        let owner: Arc<Identity> = world.identity(Role::Capsule);
        let old = let_serve(&mut world, &owner, one);
        assert!(serves(&world, one));
        let send = |world: &mut World| {
            world.nodes[client].core.send(owner.name(), 9, &[42], world.now).unwrap();
            world.run(SECOND);
        };
        send(&mut world);
        assert_eq!(world.nodes[one].received.len(), 1);
        let_serve(&mut world, &owner, two);
        assert!(serves(&world, two) && !serves(&world, one));
        assert_eq!(ends(&mut world, one), [ServiceEnd::Superseded]);
        send(&mut world);
        assert_eq!((world.nodes[one].received.len(), world.nodes[two].received.len()), (1, 1));
        // It tries again by the old word: now its router knows better.
        world.nodes[one].core.serve(old, world.now).unwrap();
        world.run(SECOND);
        assert_eq!(ends(&mut world, one), [ServiceEnd::Superseded]);
        send(&mut world);
        assert!(serves(&world, two));
        assert_eq!((world.nodes[one].received.len(), world.nodes[two].received.len()), (1, 2));
    }
}

#[test]
fn a_router_that_knows_nothing_asks_the_rib_before_it_believes_an_old_word() {
    let mut world = World::new();
    world.line(3);
    let client = world.node(0);
    let two = world.node(1);
    let one = world.node(2);
    world.run(SECOND);
    let owner: Arc<Identity> = world.identity(Role::Capsule);
    let window = Window::starting(world.now.unix_s(), 600);
    let old = AdCert::sign(&owner, world.name(one), world.now.unix_ms, window).unwrap();
    world.run(SECOND);
    let_serve(&mut world, &owner, two);
    world.nodes[one].core.serve(old, world.now).unwrap();
    world.run(SECOND);
    assert_eq!(ends(&mut world, one), [ServiceEnd::Superseded]);
    world.nodes[client].core.send(owner.name(), 9, &[42], world.now).unwrap();
    world.run(SECOND);
    assert_eq!(world.nodes[two].received.len(), 1);
}

#[test]
fn a_server_that_leaves_takes_the_way_to_what_it_serves_with_it() {
    let mut world = World::new();
    world.line(3);
    let (client, server) = (world.node(0), world.node(2));
    world.run(SECOND);
    let owner: Arc<Identity> = world.identity(Role::Capsule);
    let_serve(&mut world, &owner, server);
    let ping = |world: &mut World| {
        world.nodes[client].events.clear();
        world.nodes[client].core.ping(owner.name(), 64, 36, world.now).unwrap();
        world.run(SECOND);
        let events = std::mem::take(&mut world.nodes[client].events);
        let answered =
            |event: &Event| matches!(event, Event::Pong { from, .. } if *from == owner.name());
        let is_unreachable = |event: &Event| {
            matches!(event, Event::PingNacked { reason: Reason::Unreachable(_), .. })
        };
        (events.iter().any(answered), events.iter().any(is_unreachable))
    };
    assert_eq!(ping(&mut world), (true, false), "answered as the name that was asked");
    world.nodes[server].core.leave(world.now);
    world.run(SECOND);
    let now = world.now;
    let attached = |world: &World| world.routers[2].switch.status(now).attached.len();
    assert_eq!(attached(&world), 0);
    assert_eq!(ping(&mut world), (false, true), "and nobody waits for nothing");
    for router in 0..3 {
        assert_eq!(world.counters(router).rib_answers_refused, 0, "router {router}");
    }
}

#[test]
fn nobody_serves_without_the_owners_word() {
    let mut world = World::new();
    world.line(1);
    let owner: Arc<Identity> = world.identity(Role::Capsule);
    let mut server = Stranger::new(&mut world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let route = server.route(via, &world);
    let mut metadata = Vec::new();
    Metadata::emit_list(&[(**owner.metadata()).clone()], &mut metadata);
    let header = PduHeader::new(Action::Advertise, owner.name(), via);
    // The server's own word for the capsule; the owner's word
    // for another server; no word for the router.
    let forged = Certificate {
        issuer: owner.name(),
        ..server
            .identity
            .certify(
                Statement::Service { server: server.name(), several: false },
                1,
                Window::starting(world.now.unix_s(), 60),
            )
            .unwrap()
    };
    let other = owner
        .certify(
            Statement::Service { server: via, several: false },
            1,
            Window::starting(world.now.unix_s(), 60),
        )
        .unwrap();
    let good = service(&owner, &server, &world);
    let chains = [vec![forged, route.clone()], vec![other, route.clone()], vec![good.clone()]];
    for (index, chain) in chains.into_iter().enumerate() {
        server.send(&mut world, header, &metadata, &chain);
        assert_eq!(server.nacks(), [Reason::BadCertificate], "chain {index}");
    }
    // Metadata that are not metadata spoil the whole;
    // without any, the router asks the RIB and says so.
    server.send(&mut world, header, &[1, 0, 0], &[good.clone(), route.clone()]);
    assert_eq!(server.nacks(), [Reason::BadCertificate]);
    server.send(&mut world, header, &[], &[good.clone(), route.clone()]);
    assert!(matches!(server.nacks()[..], [Reason::NotYet(_)]));
    server.send(&mut world, header, &metadata, &[good, route]);
    assert!(server.nacks().is_empty());
    let attached = world.routers[0].switch.status(world.now).attached;
    assert_eq!(attached.iter().map(|a| a.name).collect::<Vec<_>>(), [owner.name()]);
}

/// A router of nobody's that carries for a server of its own, one of several, and for nothing else.
fn of_several(world: &mut World, owner: &Identity, sequence: u64) -> Stranger {
    let router = Stranger::new(world, 0, Role::Router);
    let server = world.identity(Role::Node);
    let window = Window::starting(world.now.unix_s(), 600);
    let say = |issuer: &Identity, statement| {
        issuer.certify(statement, sequence, window).expect("a key that signs")
    };
    let by = Statement::Service { server: server.name(), several: true };
    let via = Statement::Route { via: router.name(), scope: Scope::Any };
    let certificates = vec![say(owner, by), say(&server, via)];
    let metadata = [owner, &server].map(|it| (**it.metadata()).clone()).to_vec();
    let mut data = Vec::new();
    let body = RibRequestBody::Publish { metadata, certificates };
    RibRequest { id: RequestId(1), body }.emit(&mut data);
    let mut publisher = Stranger::at_the_rib(world);
    let to = world.rib.as_ref().expect("it runs").name;
    let header = PduHeader::new(Action::RibRequest, publisher.name(), to);
    publisher.send(world, header, &data, &[]);
    world.run(SECOND);
    router
}

#[test]
fn a_next_hop_that_says_falsely_that_a_name_is_unreachable_loses_it_to_another_one() {
    let mut world = World::new();
    world.line(1);
    let client = world.node(0);
    let owner: Arc<Identity> = world.identity(Role::Capsule);
    let mut liar = of_several(&mut world, &owner, 1);
    let mut honest = None;
    let (mut lies, mut arrived) = (0, 0);
    for turn in 0..110 {
        if turn == 10 {
            assert!(lies > 0, "it was asked while it was the only one");
            lies = 0;
            honest = Some(of_several(&mut world, &owner, 2));
        }
        let _ = world.nodes[client].core.send(owner.name(), 9, &[42], world.now);
        // The liar answers at once, the honest one after a while: so the liar is nearer.
        for ms in 0..100 {
            world.run(Duration::from_millis(1));
            liar.settle(&mut world);
            if let Some(honest) = honest.as_mut().filter(|_| ms % 10 == 0) {
                honest.settle(&mut world);
            }
            for (header, _) in std::mem::take(&mut liar.inbox) {
                if header.action == Action::Data {
                    lies += 1;
                    let about = PduHeader::new(Action::Nack, header.destination, header.source);
                    let mut nack = Vec::new();
                    Nack { reason: Reason::Unreachable(10), reporter: None }.emit(&mut nack);
                    liar.send(&mut world, PduHeader { tag: header.tag, ..about }, &nack, &[]);
                }
            }
        }
        arrived += honest.as_mut().map_or(0, |honest| std::mem::take(&mut honest.inbox).len());
    }
    // It is tried again after some seconds, and each time what it had comes to the other one.
    assert!(arrived >= 98 && lies <= 10, "{arrived} arrived, {lies} lies");
}
