//! Locators that anybody can publish make a router send next to
//! nothing to addresses that never asked for it.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_io::PacketIo;
use rhumb_io::memory::Endpoint as Wire;
use rhumb_switch::{Config, DropReason};
use rhumb_trust::Window;
use rhumb_wire::certificate::Locator;
use rhumb_wire::metadata::Role;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Action, Batch, Name, PduHeader, Statement};

use crate::world::{Stranger, World, router_address};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A world of one router at a public address, and a stranger that has joined it.
fn world(config: Config) -> (World, Stranger) {
    let mut world = World::new();
    world.config = config;
    let identity = world.identity(Role::Router);
    let public = SocketAddr::from(([203, 0, 113, 1], 4000));
    world.router(identity, router_address(0), None, Some(public));
    world.run(SECOND);
    let mut stranger = Stranger::new(&mut world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let route = stranger.route(via, &world);
    let header = PduHeader::new(Action::Advertise, stranger.name(), via);
    stranger.send(&mut world, header, &[], &[route]);
    (world, stranger)
}

/// Publishes so many names by a router of one's own, all of them at `address`.
fn publish(world: &mut World, address: SocketAddr, count: usize) -> Vec<Name> {
    let mut publisher = Stranger::at_the_rib(world);
    let rib = world.rib.as_ref().expect("a RIB").name;
    let names = (0..count as u32).map(|number| {
        let identity = world.identity(Role::Router);
        let locator = Statement::Locator(Locator::new(address).expect("one host"));
        let window = Window::starting(world.now.unix_s(), 600);
        let certificate =
            identity.certify(locator, world.now.unix_ms, window).expect("a key that signs");
        let body = RibRequestBody::Publish {
            metadata: vec![(**identity.metadata()).clone()],
            certificates: vec![certificate],
        };
        let mut data = Vec::new();
        RibRequest { id: RequestId(number), body }.emit(&mut data);
        let header = PduHeader::new(Action::RibRequest, publisher.name(), rib);
        publisher.send(world, header, &data, &[]);
        identity.name()
    });
    names.collect()
}

/// Pings each name in turns for so long; says how many bytes the stranger sent.
fn ping_all(world: &mut World, stranger: &mut Stranger, names: &[Name], time: Duration) -> usize {
    let mut sent = 0;
    for turn in 0..time.as_millis() / 10 {
        for name in names.iter().skip(turn as usize % 10).step_by(10) {
            let header = PduHeader::new(Action::Ping, stranger.name(), *name);
            stranger.send(world, header, &[], &[]);
            sent += PduHeader::LEN + rhumb_wire::datagram::RECORD_OVERHEAD;
        }
        world.run(10 * MS);
        stranger.keep_alive(world);
    }
    sent
}

/// The lengths of the datagrams that arrived.
fn arrived(wire: &mut Wire) -> Vec<usize> {
    let mut lens = Vec::new();
    loop {
        let mut batch = Batch::new();
        if wire.receive(&mut batch).expect("a network in memory") == 0 {
            return lens;
        }
        lens.extend(batch.iter().map(|(_, datagram)| datagram.len()));
    }
}

#[test]
fn many_names_at_one_victim_send_it_less_than_the_asker_sent() {
    let (mut world, mut stranger) = world(Config::default());
    let victim: SocketAddr = "203.0.113.99:53".parse().expect("an address");
    let mut wire = world.network.endpoint(victim).expect("a free address");
    let names = publish(&mut world, victim, 100);
    let sent = ping_all(&mut world, &mut stranger, &names, 20 * SECOND);
    let got = arrived(&mut wire);
    let bytes: usize = got.iter().sum();
    // Whatever the names, one host gets a datagram a second, and eight at first.
    assert!((1..=8 + 20).contains(&got.len()), "{} datagrams", got.len());
    assert!(bytes < sent / 2, "{bytes} bytes for {sent}");
}

#[test]
fn many_names_at_many_victims_send_them_less_than_the_asker_sent() {
    let (mut world, mut stranger) = world(Config::default());
    let mut wires = Vec::new();
    let mut names = Vec::new();
    for host in 0..60u8 {
        let victim = SocketAddr::from(([203, 0, 113, 100 + host], 53));
        wires.push(world.network.endpoint(victim).expect("a free address"));
        names.extend(publish(&mut world, victim, 2));
    }
    let handshake = 600;
    let sent = handshake + ping_all(&mut world, &mut stranger, &names, 3 * SECOND);
    let bytes: usize = wires.iter_mut().flat_map(arrived).sum();
    assert!((1..=sent).contains(&bytes), "{bytes} bytes for {sent}");
}

#[test]
fn loopback_private_and_multicast_locators_are_not_dialled_unless_they_are_allowed() {
    for (text, allowed, is_dialled) in [
        ("127.0.0.1:9", None, false),
        ("192.168.1.1:9", None, false),
        ("169.254.1.1:9", None, false),
        ("192.168.1.1:9", Some("192.168.0.0/16"), true),
    ] {
        let locators = allowed.iter().map(|it| it.parse().expect("a network")).collect();
        let (mut world, mut stranger) = world(Config { locators, ..Config::default() });
        let address: SocketAddr = text.parse().expect("an address");
        let mut wire = world.network.endpoint(address).expect("a free address");
        let names = publish(&mut world, address, 1);
        for _ in 0..5 {
            ping_all(&mut world, &mut stranger, &[names[0]; 10], 100 * MS);
        }
        assert_eq!(!arrived(&mut wire).is_empty(), is_dialled, "{text}");
        let refused = world.dropped(0, DropReason::LocatorRefused);
        assert_eq!(refused > 0, !is_dialled, "{text}: {refused}");
    }
}

#[test]
fn a_router_that_answers_is_reached_at_once_and_without_bounds_afterwards() {
    let mut world = World::new();
    world.two_apart();
    let (a, b) = (world.node(0), world.node(1));
    world.send(a, b, b"hello");
    world.run(200 * MS);
    assert_eq!(world.nodes[b].received.len(), 1);
}
