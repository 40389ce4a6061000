//! A server answers for a name it holds no key of, by the owner's word; the name moves to another server, and whoever
//! sends to it notices nothing.

mod world;

use std::sync::Arc;
use std::time::Duration;

use rhumb_trust::{Identity, Window};
use rhumb_wire::metadata::{Metadata, Role};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, PduHeader, Statement};
use world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
const DATA: &[u8] = &[1, 0, 0, 9, 42];

/// The owner's word that `server` answers for its capsule.
fn service(owner: &Identity, server: &Stranger, world: &World) -> Certificate {
    let statement = Statement::Service { server: server.name() };
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
    // The server's own word for the capsule; the owner's word for another server; no word for the router.
    let forged = Certificate {
        issuer: owner.name(),
        ..server
            .identity
            .certify(
                Statement::Service { server: server.name() },
                1,
                Window::starting(world.now.unix_s(), 60),
            )
            .unwrap()
    };
    let other = owner
        .certify(Statement::Service { server: via }, 1, Window::starting(world.now.unix_s(), 60))
        .unwrap();
    let good = service(&owner, &server, &world);
    let chains = [vec![forged, route.clone()], vec![other, route.clone()], vec![good.clone()]];
    for (index, chain) in chains.into_iter().enumerate() {
        server.send(&mut world, header, &metadata, &chain);
        assert_eq!(server.nacks(), [Reason::BadCertificate], "chain {index}");
    }
    // Metadata that are not metadata spoil the whole; without any, the router asks the RIB and says so.
    server.send(&mut world, header, &[1, 0, 0], &[good.clone(), route.clone()]);
    assert_eq!(server.nacks(), [Reason::BadCertificate]);
    server.send(&mut world, header, &[], &[good.clone(), route.clone()]);
    assert!(matches!(server.nacks()[..], [Reason::NotYet(_)]));
    server.send(&mut world, header, &metadata, &[good, route]);
    assert!(server.nacks().is_empty());
    let attached = world.routers[0].switch.status(world.now).attached;
    assert_eq!(attached.iter().map(|a| a.name).collect::<Vec<_>>(), [owner.name()]);
}
