//! A node's core on a local network in virtual time: routers that hear
//! its queries, and others that are further away.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.
#![allow(clippy::unwrap_used)] // Clippy knows tests by their functions, and these are helpers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_node::core::{Core, Disconnection, Event, Seed};
use rhumb_node::{Config, RouterChoice};
use rhumb_trust::{Identity, Now};
use rhumb_wire::discovery::Discovery;
use rhumb_wire::{Batch, Name, Role};

use crate::world::{LATENCY, Router, START_S};

/// A node and the routers around it.
pub struct Lan {
    pub now: Now,
    pub core: Core,
    pub routers: Vec<Station>,
    pub events: Vec<Event>,
    /// When the node asked for routers, since the start.
    pub asked: Vec<Duration>,
    /// Queries to lose.
    pub lose_queries: usize,
    begin: Instant,
    on_wire: Vec<Flight>,
}

/// A router somewhere.
pub struct Station {
    pub router: Router,
    pub address: SocketAddr,
    /// Whether it hears queries.
    pub is_local: bool,
    /// Whether it does nothing any more, or nothing but to answer queries.
    pub state: State,
    /// One way.
    pub latency: Duration,
}

/// What is left of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Working,
    /// Answers queries and nothing else.
    Lying,
    Dead,
}

struct Flight {
    arrives_at: Instant,
    router: usize,
    to_node: bool,
    bytes: Vec<u8>,
}

impl Lan {
    /// Routers of which so many are local and the rest are not;
    /// the node is told to join as `choice` says.
    pub fn new(
        local: usize,
        others: usize,
        choice: impl FnOnce(&[Station]) -> RouterChoice,
    ) -> Self {
        let begin = Instant::now();
        let now = Now { instant: begin, unix_ms: START_S * 1000 };
        let routers: Vec<Station> =
            (0..local + others).map(|index| Station::new(index, index < local, now)).collect();
        let config = Config::new(choice(&routers));
        let identity = Arc::new(Identity::generate(Role::Node, 1).unwrap());
        let seed = Seed { link: [1; 32], spread: 2 };
        Self {
            now,
            core: Core::new(identity, &config, &seed, now).unwrap(),
            routers,
            events: Vec::new(),
            asked: Vec::new(),
            lose_queries: 0,
            begin,
            on_wire: Vec::new(),
        }
    }

    /// Local routers only, any of which will do.
    pub fn of(local: usize) -> Self {
        Self::new(local, 0, |_| RouterChoice::discovered())
    }

    /// Which router the node has joined.
    pub fn joined(&self) -> Option<usize> {
        let router = self.core.router().filter(|_| self.core.is_joined())?;
        self.routers.iter().position(|station| station.name() == router)
    }

    /// Lets time pass until the node has joined a router; says which, and how long after the start.
    pub fn run_until_joined(&mut self) -> (usize, Duration) {
        let patience = self.now.instant + Duration::from_secs(60);
        while self.now.instant < patience {
            if let Some(router) = self.joined() {
                return (router, self.now.instant - self.begin);
            }
            self.step(patience);
        }
        panic!("joined nobody: {:?}", self.events);
    }

    /// Lets time pass.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now.instant + duration;
        while self.now.instant < end {
            self.step(end);
        }
    }

    /// Why routers were passed over.
    pub fn passed_over(&self) -> Vec<Disconnection> {
        let reasons = self.events.iter().filter_map(|event| match event {
            Event::PassedOver { reason } => Some(reason.clone()),
            _ => None,
        });
        reasons.collect()
    }

    /// Puts a datagram for the node on the wire, as if from a router.
    pub fn deliver(&mut self, router: usize, bytes: Vec<u8>) {
        let arrives_at = self.now.instant + self.routers[router].latency;
        self.on_wire.push(Flight { arrives_at, router, to_node: true, bytes });
    }

    fn step(&mut self, end: Instant) {
        self.exchange();
        let stations = self.routers.iter().map(|station| station.router.endpoint.poll_timeout());
        let flights = self.on_wire.iter().map(|flight| Some(flight.arrives_at));
        let next = stations.chain(flights).chain([self.core.poll_timeout()]).flatten().min();
        // A deadline that has passed would make time stand still.
        let least = self.now.instant + Duration::from_micros(1);
        let next = next.unwrap_or(end).max(least).min(end);
        self.now = self.now.plus(next - self.now.instant);
        self.exchange();
    }

    fn exchange(&mut self) {
        let now = self.now;
        let (due, on_wire) = std::mem::take(&mut self.on_wire)
            .into_iter()
            .partition::<Vec<_>, _>(|flight| flight.arrives_at <= now.instant);
        self.on_wire = on_wire;
        let mut batch = Batch::new();
        for flight in due {
            let station = &mut self.routers[flight.router];
            match flight.to_node {
                true => batch.push(station.address, &flight.bytes),
                false if station.state == State::Working => {
                    station.router.handle(flight.bytes, now);
                }
                false => {}
            }
        }
        self.core.handle_batch(&mut batch, now);
        if self.core.poll_timeout().is_some_and(|at| at <= now.instant) {
            self.core.handle_timeout(now);
        }
        self.events.extend(std::iter::from_fn(|| self.core.poll_event()));
        self.carry_queries();
        self.carry_from_node();
        self.carry_from_routers();
    }

    fn carry_queries(&mut self) {
        let Some(query) = self.core.poll_query(self.now) else { return };
        self.asked.push(self.now.instant - self.begin);
        let Ok(Discovery::Query(nonce)) = Discovery::parse(&query) else { panic!("{query:?}") };
        if self.lose_queries > 0 {
            self.lose_queries -= 1;
            return;
        }
        for index in 0..self.routers.len() {
            let station = &self.routers[index];
            if station.is_local && station.state != State::Dead {
                let mut answer = Vec::new();
                Discovery::Answer(nonce).emit(&mut answer);
                let arrives_at = self.now.instant + 2 * station.latency;
                self.on_wire.push(Flight {
                    arrives_at,
                    router: index,
                    to_node: true,
                    bytes: answer,
                });
            }
        }
    }

    fn carry_from_node(&mut self) {
        let mut out = Batch::new();
        loop {
            let before = out.len();
            self.core.poll_transmit(&mut out, self.now);
            if out.len() == before {
                break;
            }
        }
        for (to, datagram) in out.iter() {
            let is_to = |station: &Station| station.address == to;
            let router = self.routers.iter().position(is_to).unwrap();
            let arrives_at = self.now.instant + self.routers[router].latency;
            let bytes = datagram.to_vec();
            self.on_wire.push(Flight { arrives_at, router, to_node: false, bytes });
        }
    }

    fn carry_from_routers(&mut self) {
        for (index, station) in self.routers.iter_mut().enumerate() {
            station.router.endpoint.handle_timeout(self.now.instant);
            let Router { endpoint, out, .. } = &mut station.router;
            endpoint.poll_transmit(out);
            if station.state == State::Working {
                let arrives_at = self.now.instant + station.latency;
                self.on_wire.extend(out.iter().map(|(_, bytes)| Flight {
                    arrives_at,
                    router: index,
                    to_node: true,
                    bytes: bytes.to_vec(),
                }));
            }
            out.clear();
        }
    }
}

impl Station {
    fn new(index: usize, is_local: bool, now: Now) -> Self {
        Self {
            router: Router::new(now),
            address: SocketAddr::from(([192, 0, 2, 1 + index as u8], 7460)),
            is_local,
            state: State::Working,
            // The first is the nearest.
            latency: LATENCY * (1 + index as u32),
        }
    }

    pub fn name(&self) -> Name {
        self.router.identity.name()
    }
}
