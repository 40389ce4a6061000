//! A world in memory: RIBs, routers and nodes, all of
//! them the production cores, on a virtual clock.
//!
//! Nothing takes time but what is waited for, so a test says how long
//! it waits and the world is the same each run.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests, each of which uses a part"
)]

pub mod border;
mod liar;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::memory::{Capture, Conditions, Endpoint as Wire, Network};
use rhumb_node::core::{Core, Event, Seed};

use rhumb_link::{Endpoint, SessionId};
use rhumb_rib::Server;
use rhumb_rib::store::Memory;
use rhumb_switch::{Config, Counters, DropReason, FastPath, Remote, Switch, Tables};
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::datagram::{Datagram, RecordHeader};
use rhumb_wire::metadata::{Metadata, Role};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::pdu::{Frame, LabelledHeader};
use rhumb_wire::rib::StoreId;
use rhumb_wire::{Action, Batch, Certificate, Name, PduHeader, Scope, Statement};

pub use liar::{Liar, Lie};

pub const START_S: u64 = 1_800_000_000;

pub struct World {
    pub now: Now,
    pub network: Network,
    pub rib: Option<RibStation>,
    /// More RIBs, after the first in the order of asking.
    pub replicas: Vec<RibStation>,
    /// RIBs that lie, before all others in the order of asking.
    pub liars: Vec<Liar>,
    pub routers: Vec<Router>,
    pub nodes: Vec<Node>,
    /// What routers are made with, but for what tells them apart.
    pub config: Config,
    /// What routers share, if they do.
    pub tables: Option<Arc<Tables>>,
    seeds: u8,
}

pub struct RibStation {
    pub server: Server<Memory>,
    pub name: Name,
    identity: Arc<Identity>,
    address: SocketAddr,
    wire: Wire,
}

pub struct Router {
    pub switch: Switch,
    /// Its other workers: worker 1 first.
    pub workers: Vec<FastPath>,
    /// Whether each worker receives what is for it, and not the switch everything.
    pub steered: bool,
    /// Whether public-key work is done as soon as it is handed out.
    pub verifies: bool,
    /// Whether it died: what comes is lost, and nothing is done.
    pub is_dead: bool,
    pub identity: Arc<Identity>,
    pub address: SocketAddr,
    wire: Wire,
}

pub struct Node {
    pub core: Core,
    pub address: SocketAddr,
    /// What arrived: source and body.
    pub received: Vec<(Name, Vec<u8>)>,
    pub events: Vec<Event>,
    wire: Wire,
}

impl World {
    pub fn new() -> Self {
        Self::with_conditions(1, Conditions::default())
    }

    pub fn with_conditions(seed: u64, conditions: Conditions) -> Self {
        #[allow(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
        let instant = Instant::now();
        let mut world = Self {
            now: Now { instant, unix_ms: START_S * 1000 },
            network: Network::new(seed, conditions),
            rib: None,
            replicas: Vec::new(),
            liars: Vec::new(),
            routers: Vec::new(),
            nodes: Vec::new(),
            config: Config::default(),
            tables: None,
            seeds: 0,
        };
        let rib = RibStation::new(&mut world, RIB.parse().unwrap());
        world.rib = Some(rib);
        world
    }

    /// One more RIB, for routers made from now on.
    pub fn replica(&mut self) -> usize {
        let address = SocketAddr::from(([10, 0, 0, 10 + self.replicas.len() as u8], 4000));
        let replica = RibStation::new(self, address);
        self.replicas.push(replica);
        self.replicas.len() - 1
    }

    /// A RIB of a domain of its own; routers are told of it by [`World::remote_of`].
    pub fn rib_of(&mut self, identity: Arc<Identity>, config: rhumb_rib::Config) -> usize {
        let address = SocketAddr::from(([10, 0, 0, 10 + self.replicas.len() as u8], 4000));
        let rib = RibStation::with(self, address, identity, config);
        self.replicas.push(rib);
        self.replicas.len() - 1
    }

    pub fn remote_of(&self, replica: usize) -> Remote {
        let RibStation { address, name, .. } = &self.replicas[replica];
        Remote { address: *address, name: Some(*name) }
    }

    /// A RIB that lies, for routers made from now on, which ask it first.
    pub fn liar(&mut self, lie: Lie) -> usize {
        let address = SocketAddr::from(([10, 0, 0, 100 + self.liars.len() as u8], 4000));
        let liar = Liar::new(self, address, lie);
        self.liars.push(liar);
        self.liars.len() - 1
    }

    /// A statement is published at this liar alone; what it says to that.
    pub fn hear_at_liar(
        &mut self,
        liar: usize,
        certificates: Vec<Certificate>,
    ) -> Option<rhumb_wire::rib::RibResponseBody> {
        let now = self.now;
        self.liars[liar].hear(certificates, now)
    }

    fn remotes(&self) -> Vec<Remote> {
        let liars = self.liars.iter().map(|liar| (liar.address(), liar.identity.name()));
        let ribs = self.rib.iter().chain(&self.replicas).map(|rib| (rib.address, rib.name));
        liars.chain(ribs).map(|(address, name)| Remote { address, name: Some(name) }).collect()
    }

    /// Two routers that have addresses, and have not met.
    pub fn two_apart(&mut self) {
        for address in [router_address(0), router_address(1)] {
            let identity = self.identity(Role::Router);
            self.router(identity, address, None, Some(address));
        }
        self.run(Duration::from_secs(1));
    }

    /// A line of routers: the first and the last are reached through their inner neighbours, and so
    /// on to the middle one, which has an address.
    pub fn line(&mut self, len: usize) {
        let middle = len / 2;
        let first = self.routers.len();
        let addresses: Vec<SocketAddr> = (0..len).map(|i| router_address(first + i)).collect();
        let identities: Vec<_> = (0..len).map(|_| self.identity(Role::Router)).collect();
        for (index, identity) in identities.iter().enumerate() {
            let inner = if index < middle { index + 1 } else { index.max(middle + 1) - 1 };
            let upstream = (index != middle).then(|| Remote {
                address: addresses[inner],
                name: Some(identities[inner].name()),
            });
            let locator = (index == middle).then_some(addresses[index]);
            self.router(identity.clone(), addresses[index], upstream, locator);
        }
        self.run(Duration::from_secs(2));
    }

    pub fn router(
        &mut self,
        identity: Arc<Identity>,
        address: SocketAddr,
        upstream: Option<Remote>,
        locator: Option<SocketAddr>,
    ) -> usize {
        let upstreams = upstream.into_iter().collect();
        let config = Config { ribs: self.remotes(), upstreams, locator, ..self.config.clone() };
        self.router_with(identity, address, config)
    }

    /// A router that is told all of this, and nothing of the world's own RIBs.
    pub fn router_with(
        &mut self,
        identity: Arc<Identity>,
        address: SocketAddr,
        config: Config,
    ) -> usize {
        let secret = self.secret();
        let switch = match &self.tables {
            Some(tables) => {
                let tables = tables.clone();
                Switch::with_tables(identity.clone(), config, tables, secret, self.now).unwrap()
            }
            None => Switch::new(identity.clone(), config, secret, self.now).unwrap(),
        };
        let wire = self.network.endpoint(address).unwrap();
        let workers = (1..switch.workers()).map(|it| switch.fast_path(it, self.now)).collect();
        self.routers.push(Router {
            switch,
            workers,
            steered: true,
            verifies: true,
            is_dead: false,
            identity,
            address,
            wire,
        });
        self.routers.len() - 1
    }

    /// A node at a router, which it will have joined when this returns.
    pub fn node(&mut self, router: usize) -> usize {
        let identity = self.identity(Role::Node);
        let index = self.node_of(identity, router);
        self.run(Duration::from_secs(1));
        assert!(self.nodes[index].core.is_joined(), "{:?}", self.nodes[index].events);
        index
    }

    /// As [`World::node`], for traffic with this name alone.
    pub fn node_for(&mut self, router: usize, only_peer: Option<Name>) -> usize {
        let identity = self.identity(Role::Node);
        let index = self.node_with(identity, router, |config| config.only_peer = only_peer);
        self.run(Duration::from_secs(1));
        assert!(self.nodes[index].core.is_joined(), "{:?}", self.nodes[index].events);
        index
    }

    pub fn node_of(&mut self, identity: Arc<Identity>, router: usize) -> usize {
        self.node_with(identity, router, |_| {})
    }

    pub fn node_with(
        &mut self,
        identity: Arc<Identity>,
        router: usize,
        configure: impl FnOnce(&mut rhumb_node::Config),
    ) -> usize {
        let address = SocketAddr::from(([10, 0, 2, 1], 1000 + self.nodes.len() as u16));
        let Router { address: at, switch, .. } = &self.routers[router];
        let remote = rhumb_node::Remote { address: *at, name: Some(switch.name()) };
        let mut config = rhumb_node::Config::new(remote);
        configure(&mut config);
        let seed = Seed { link: self.secret(), spread: u64::from(self.seeds) };
        let core = Core::new(identity, &config, &seed, self.now).unwrap();
        let wire = self.network.endpoint(address).unwrap();
        let node = Node { core, address, received: Vec::new(), events: Vec::new(), wire };
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Gives a node another address, from now on.
    pub fn move_node(&mut self, node: usize) {
        let address = SocketAddr::from(([10, 0, 9, 1], 1000 + node as u16));
        let node = &mut self.nodes[node];
        (node.address, node.wire) = (address, self.network.endpoint(address).unwrap());
    }

    pub fn identity(&self, role: Role) -> Arc<Identity> {
        Arc::new(Identity::generate(role, START_S).unwrap())
    }

    pub fn secret(&mut self) -> [u8; 32] {
        self.seeds += 1;
        [self.seeds; 32]
    }

    pub fn name(&self, node: usize) -> Name {
        self.nodes[node].core.name()
    }

    pub fn send(&mut self, from: usize, to: usize, body: &[u8]) {
        let to = self.name(to);
        self.nodes[from].core.send(to, 7, body, self.now).unwrap();
    }

    pub fn counters(&self, router: usize) -> &Counters {
        self.routers[router].switch.counters()
    }

    pub fn dropped(&self, router: usize, reason: DropReason) -> u64 {
        self.counters(router).dropped(reason)
    }

    /// Has a flow from one node to another get its labels.
    pub fn warm_up(&mut self, a: usize, b: usize) {
        for _ in 0..3 {
            self.send(a, b, b"twelve bytes");
            self.run(Duration::from_secs(1));
        }
    }

    /// Three routers in a line, and a flow with labels from a node at the first to one at the last.
    pub fn with_flow() -> (Self, usize, usize) {
        let mut world = Self::new();
        world.line(3);
        let (a, b) = (world.node(0), world.node(2));
        world.warm_up(a, b);
        (world, a, b)
    }

    /// What a wiretap between two routers sees from now on.
    pub fn capture(&self, one: usize, other: usize) -> Capture {
        self.network.capture(self.routers[one].address, self.routers[other].address)
    }

    /// Lets the world go on for `duration`, from one due moment to the next.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now.plus(duration);
        loop {
            self.settle();
            let due = self.next_timeout().map_or(end.instant, |due| due.min(end.instant));
            // Timers may be due now and not yet gone: never stand still.
            let step =
                due.saturating_duration_since(self.now.instant).max(Duration::from_millis(1));
            self.now = self.now.plus(step);
            self.handle_timeouts();
            if self.now.instant >= end.instant {
                self.settle();
                return;
            }
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let ribs = self.rib.iter().chain(&self.replicas);
        let rib = ribs.filter_map(|rib| rib.server.poll_timeout());
        let liars = self.liars.iter().filter_map(Liar::poll_timeout);
        let routers = self.routers.iter().filter_map(Router::poll_timeout);
        let nodes = self.nodes.iter().filter_map(|node| node.core.poll_timeout());
        rib.chain(liars).chain(routers).chain(nodes).min()
    }

    fn handle_timeouts(&mut self) {
        let now = self.now;
        self.rib
            .iter_mut()
            .chain(&mut self.replicas)
            .for_each(|rib| rib.server.handle_timeout(now));
        self.liars.iter_mut().for_each(|liar| liar.handle_timeout(now));
        self.routers.iter_mut().for_each(|router| router.handle_timeout(now));
        self.nodes.iter_mut().for_each(|node| node.core.handle_timeout(now));
    }

    /// Moves datagrams until none is under way.
    pub fn settle(&mut self) {
        let now = self.now;
        for round in 0.. {
            assert!(round < 100_000, "the world does not come to rest");
            let mut moved = 0;
            let ribs = self.rib.iter_mut().chain(&mut self.replicas);
            moved += ribs.map(|rib| rib.step(now)).sum::<usize>();
            moved += self.liars.iter_mut().map(|liar| liar.step(now)).sum::<usize>();
            moved += self.routers.iter_mut().map(|router| router.step(now)).sum::<usize>();
            moved += self.nodes.iter_mut().map(|node| node.step(now)).sum::<usize>();
            if moved == 0 {
                return;
            }
        }
    }
}

/// Somebody with a secure session and any PDU it likes: what a
/// node of another make, or an attacker, can do.
pub struct Stranger {
    pub identity: Arc<Identity>,
    pub session: Option<SessionId>,
    /// PDUs that came: header and data.
    pub inbox: Vec<(PduHeader, Vec<u8>)>,
    /// All that came, opened.
    pub heard: Vec<u8>,
    /// The certificates that came with NACKs.
    pub shown: Vec<Certificate>,
    /// The reasons of NACKs that came in labelled form.
    pub labelled_nacks: Vec<Reason>,
    pub address: SocketAddr,
    endpoint: Endpoint,
    wire: Wire,
}

impl Stranger {
    /// Connects to a router.
    pub fn new(world: &mut World, router: usize, role: Role) -> Self {
        let identity = world.identity(role);
        Self::with_identity(world, router, identity)
    }

    /// As [`Stranger::new`], under a name of the test's choice.
    pub fn with_identity(world: &mut World, router: usize, identity: Arc<Identity>) -> Self {
        let at = world.routers[router].address;
        Self::connected(world, at, identity)
    }

    /// As [`Stranger::new`], to the first RIB.
    pub fn at_the_rib(world: &mut World) -> Self {
        let at = world.rib.as_ref().unwrap().address;
        let identity = world.identity(Role::Router);
        Self::connected(world, at, identity)
    }

    /// As [`Stranger::new`], to a RIB of a domain.
    pub fn at(world: &mut World, replica: usize) -> Self {
        let at = world.replicas[replica].address;
        let identity = world.identity(Role::Router);
        Self::connected(world, at, identity)
    }

    fn connected(world: &mut World, at: SocketAddr, identity: Arc<Identity>) -> Self {
        let address = SocketAddr::from(([10, 0, 3, 1], 5000 + u16::from(world.seeds)));
        let config = rhumb_link::Config::default();
        let secret = world.secret();
        let mut endpoint =
            Endpoint::new(identity.clone(), config, secret, world.now.instant).unwrap();
        let _ = endpoint.connect(at, None, world.now.instant);
        let wire = world.network.endpoint(address).unwrap();
        let mut stranger = Self {
            identity,
            session: None,
            inbox: Vec::new(),
            heard: Vec::new(),
            shown: Vec::new(),
            labelled_nacks: Vec::new(),
            address,
            endpoint,
            wire,
        };
        stranger.settle(world);
        assert!(stranger.session.is_some());
        stranger
    }

    pub fn name(&self) -> Name {
        self.identity.name()
    }

    /// A route that this stranger issues, from now for ten minutes.
    pub fn route(&self, via: Name, world: &World) -> Certificate {
        let statement = Statement::Route { via, scope: Scope::Any };
        let window = Window::starting(world.now.unix_s(), 600);
        self.identity.certify(statement, world.now.unix_ms, window).unwrap()
    }

    /// Joins for a name of which this stranger has its owner's word.
    pub fn serve(&mut self, world: &mut World, owner: &Identity, router: usize) {
        let via = world.routers[router].switch.name();
        let window = Window::starting(world.now.unix_s(), 600);
        let statement = Statement::Service { server: self.name(), several: false };
        let word = owner.certify(statement, world.now.unix_ms, window).unwrap();
        let mut metadata = Vec::new();
        Metadata::emit_list(&[(**owner.metadata()).clone()], &mut metadata);
        let header = PduHeader::new(Action::Advertise, owner.name(), via);
        let route = self.route(via, world);
        self.send(world, header, &metadata, &[word, route]);
    }

    /// Sends a PDU without data and closes the session behind it, so that both are there together.
    pub fn send_and_close(
        &mut self,
        world: &mut World,
        header: PduHeader,
        certificates: &[Certificate],
    ) {
        let session = self.session.take().unwrap();
        let mut datagram = vec![0; RecordHeader::LEN];
        header.emit(&[], certificates, &mut datagram).unwrap();
        datagram.extend_from_slice(&[0; 16]);
        let to = self.endpoint.seal(session, &mut datagram, world.now.instant).unwrap();
        let mut batch = Batch::new();
        batch.push(to, &datagram);
        self.endpoint.close(session, world.now.instant);
        self.endpoint.poll_transmit(&mut batch);
        self.wire.send(&batch).unwrap();
        self.settle(world);
    }

    /// Closes the session; its router hears of it together with whatever is sent next.
    pub fn close(&mut self, world: &World) {
        let session = self.session.take().unwrap();
        self.endpoint.close(session, world.now.instant);
        let mut batch = Batch::new();
        self.endpoint.poll_transmit(&mut batch);
        self.wire.send(&batch).unwrap();
    }

    /// Sends a PDU and lets the world come to rest.
    pub fn send(
        &mut self,
        world: &mut World,
        header: PduHeader,
        data: &[u8],
        certificates: &[Certificate],
    ) {
        let mut datagram = vec![0; RecordHeader::LEN];
        header.emit(data, certificates, &mut datagram).unwrap();
        self.send_datagram(world, datagram);
    }

    /// Sends PDUs without data, in batches after each of which the world comes to rest.
    pub fn send_many(&mut self, world: &mut World, headers: &[PduHeader]) {
        for headers in headers.chunks(BATCH) {
            let mut batch = Batch::new();
            for header in headers {
                let mut datagram = vec![0; RecordHeader::LEN];
                header.emit(&[], &[], &mut datagram).unwrap();
                datagram.extend_from_slice(&[0; 16]);
                let session = self.session.unwrap();
                let to = self.endpoint.seal(session, &mut datagram, world.now.instant).unwrap();
                batch.push(to, &datagram);
            }
            self.wire.send(&batch).unwrap();
            self.settle(world);
        }
    }

    /// Sends a PDU in labelled form and lets the world come to rest.
    pub fn send_labelled(&mut self, world: &mut World, header: LabelledHeader, data: &[u8]) {
        let mut datagram = vec![0; RecordHeader::LEN];
        header.emit(data, &mut datagram).unwrap();
        self.send_datagram(world, datagram);
    }

    /// Sends a record whose first bytes are left free, and lets the world come to rest.
    pub fn send_datagram(&mut self, world: &mut World, mut datagram: Vec<u8>) {
        datagram.extend_from_slice(&[0; 16]);
        let to =
            self.endpoint.seal(self.session.unwrap(), &mut datagram, world.now.instant).unwrap();
        let mut batch = Batch::new();
        batch.push(to, &datagram);
        self.wire.send(&batch).unwrap();
        self.settle(world);
    }

    /// Sends what it says is a bundle, and lets the world come to rest.
    pub fn send_bundle(&mut self, world: &mut World, bundle: &[u8]) {
        let mut datagram = [&[0; RecordHeader::LEN], bundle, &[0; 16]].concat();
        let (session, now) = (self.session.unwrap(), world.now.instant);
        let to = self.endpoint.seal_bundle(session, &mut datagram, now).unwrap();
        let mut batch = Batch::new();
        batch.push(to, &datagram);
        self.wire.send(&batch).unwrap();
        self.settle(world);
    }

    /// Shows that it is there, as its link's timers would.
    pub fn keep_alive(&mut self, world: &mut World) {
        self.endpoint.handle_timeout(world.now.instant);
        self.settle(world);
    }

    /// The reasons of the NACKs that came, oldest first; forgets them.
    pub fn nacks(&mut self) -> Vec<Reason> {
        let inbox = std::mem::take(&mut self.inbox);
        let nacks = inbox.iter().filter(|(header, _)| header.action == Action::Nack);
        nacks.map(|(_, data)| Nack::parse(data).unwrap().reason).collect()
    }

    /// Shows what an identity of its name shows of a domain, by a fresh handshake.
    pub fn show(&mut self, world: &mut World, identity: &Identity) {
        self.endpoint.show(identity, world.now.instant).unwrap();
        self.keep_alive(world);
    }

    pub fn settle(&mut self, world: &mut World) {
        loop {
            world.settle();
            let mut batch = Batch::new();
            let received = self.wire.receive(&mut batch).unwrap();
            for slot in 0..batch.len() {
                let (from, datagram) = batch.datagram_mut(slot);
                match Datagram::parse(datagram) {
                    Ok(Datagram::Record(_)) => {
                        let Ok(opened) = self.endpoint.open(from, datagram, world.now.instant)
                        else {
                            continue;
                        };
                        self.heard.extend_from_slice(&datagram[opened.plaintext.clone()]);
                        match Frame::parse(&datagram[opened.plaintext]) {
                            Ok(Frame::Full(pdu)) => {
                                if pdu.action() == Action::Nack {
                                    self.shown.extend(pdu.certificates().unwrap());
                                }
                                self.inbox.push((pdu.header(), pdu.data().to_vec()));
                            }
                            Ok(Frame::Labelled(pdu)) => {
                                self.labelled_nacks.push(Nack::parse(pdu.data()).unwrap().reason);
                            }
                            Err(_) => {}
                        }
                    }
                    Ok(handshake) => {
                        let _ = self.endpoint.handle_handshake(from, handshake, world.now.instant);
                    }
                    Err(_) => {}
                }
            }
            while let Some(event) = self.endpoint.poll_event() {
                if let rhumb_link::Event::Established { session, .. } = event {
                    self.session = Some(session);
                }
            }
            batch.clear();
            self.endpoint.poll_transmit(&mut batch);
            if received + self.wire.send(&batch).unwrap().sent == 0 {
                return;
            }
        }
    }
}

impl RibStation {
    fn new(world: &mut World, address: SocketAddr) -> Self {
        let identity = world.identity(Role::Rib);
        let mut config = rhumb_rib::Config::default();
        config.keeps_log = true;
        Self::with(world, address, identity, config)
    }

    fn with(
        world: &mut World,
        address: SocketAddr,
        identity: Arc<Identity>,
        config: rhumb_rib::Config,
    ) -> Self {
        let name = identity.name();
        let (secret, link) = (world.secret(), rhumb_link::Config::default());
        let server =
            Server::new(identity.clone(), Memory::default(), config, link, secret, world.now);
        let wire = world.network.endpoint(address).unwrap();
        Self { server: server.unwrap(), name, identity, address, wire }
    }

    /// It begins anew, with nothing in its store.
    pub fn lose_store(&mut self, secret: [u8; 32], now: Now) {
        let (mut config, link) = (rhumb_rib::Config::default(), rhumb_link::Config::default());
        config.store = StoreId(*secret.first_chunk().unwrap());
        let identity = self.identity.clone();
        self.server = Server::new(identity, Memory::default(), config, link, secret, now).unwrap();
    }

    fn step(&mut self, now: Now) -> usize {
        let mut batch = Batch::new();
        let received = self.wire.receive(&mut batch).unwrap();
        self.server.handle_batch(&mut batch, now);
        received + self.wire.send(&batch).unwrap().sent
    }
}

impl Router {
    fn poll_timeout(&self) -> Option<Instant> {
        if self.is_dead {
            return None;
        }
        let workers = self.workers.iter().map(FastPath::poll_timeout);
        workers.chain(self.switch.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Now) {
        self.workers.iter_mut().for_each(|worker| worker.handle_timeout(now));
        self.switch.handle_timeout(now);
    }

    /// Which worker a system that steers gives a datagram to.
    fn steer(&self, datagram: &[u8]) -> usize {
        match RecordHeader::parse(datagram) {
            Ok(header) if self.steered => {
                usize::from(header.index.lane()) % (1 + self.workers.len())
            }
            _ => 0,
        }
    }

    /// Lets the other workers have their shares of a batch. Says what they sent.
    fn work(&mut self, batch: &mut Batch, now: Now) -> usize {
        let mut shares: Vec<Batch> = self.workers.iter().map(|_| Batch::new()).collect();
        for slot in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(slot);
            if let Some(share) = self.steer(datagram).checked_sub(1) {
                shares[share].push(from, datagram);
                batch.drop_datagram(slot);
            }
        }
        let mut sent = 0;
        for (worker, share) in self.workers.iter_mut().zip(&mut shares) {
            worker.handle_batch(share, now);
            sent += self.wire.send(share).unwrap().sent;
        }
        sent
    }

    /// Does one piece of public-key work. Whether there was any.
    pub fn verify_one(&mut self, now: Now) -> bool {
        let Some(job) = self.switch.poll_job() else { return false };
        self.switch.handle_done(job.run(), now);
        true
    }

    /// Lets the switch hear from the other workers and order them, until
    /// there is nothing left. Says what they sent.
    fn confer(&mut self, now: Now) -> usize {
        let mut batch = Batch::new();
        loop {
            let mut rest = true;
            for worker in &mut self.workers {
                while let Some(handed) = worker.poll_hand_over() {
                    self.switch.handle_hand_over(handed, now);
                    rest = false;
                }
            }
            while let Some((worker, order)) = self.switch.poll_order() {
                self.workers[worker - 1].handle_order(order, &mut batch, now);
                rest = false;
            }
            if rest {
                return self.wire.send(&batch).unwrap().sent;
            }
        }
    }

    fn step(&mut self, now: Now) -> usize {
        let mut batch = Batch::new();
        let received = self.wire.receive(&mut batch).unwrap();
        if self.is_dead {
            return received;
        }
        let by_workers = self.work(&mut batch, now);
        let by_workers = by_workers + self.confer(now);
        self.switch.handle_batch(&mut batch, now);
        while self.verifies
            && let Some(job) = self.switch.poll_job()
        {
            let done = job.run();
            self.switch.handle_done(done, now);
        }
        let by_workers = by_workers + self.confer(now);
        self.switch.poll_transmit(&mut batch);
        received + by_workers + self.wire.send(&batch).unwrap().sent
    }
}

impl Node {
    fn step(&mut self, now: Now) -> usize {
        let mut batch = Batch::new();
        let received = self.wire.receive(&mut batch).unwrap();
        self.core.handle_batch(&mut batch, now);
        let arrived = self.core.arrivals(&batch).map(|a| (a.from, a.body.to_vec()));
        self.received.extend(arrived);
        while let Some(event) = self.core.poll_event() {
            self.events.push(event);
        }
        let mut out = Batch::new();
        self.core.poll_transmit(&mut out, now);
        received + self.wire.send(&out).unwrap().sent
    }
}

pub fn router_address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, 1 + index as u8], 4000))
}

/// As many as one read takes.
const BATCH: usize = 64;
const RIB: &str = "10.0.0.1:4000";
