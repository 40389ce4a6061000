//! A station: what a world knows of one party, whether it runs or not.
//!
//! A station outlives its process: key, address, clock and disk stay when it crashes. Each start is
//! an *incarnation*, with fresh secrets that follow from the seed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::LinkError;
use rhumb_node::core::Seed;
use rhumb_trust::{Identity, Now};
use rhumb_wire::Batch;

use crate::network::Flight;
use crate::node::NodeHost;
use crate::outsider::Outsider;
use crate::random::Random;
use crate::rib::{Disk, RibHost};
use crate::router::RouterHost;

/// A party of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StationId(pub(crate) usize);

/// How a station is started, again and again.
pub(crate) enum Plan {
    Rib { disk: Disk, config: Box<rhumb_rib::Config>, lies: bool },
    Router { config: rhumb_switch::Config, verifier_time: Duration },
    Node { config: rhumb_node::Config },
    Outsider,
}

/// A station's process.
pub(crate) enum Host {
    Rib(RibHost),
    Router(Box<RouterHost>),
    Node(Box<NodeHost>),
    Outsider(Box<Outsider>),
}

pub(crate) struct Station {
    pub(crate) identity: Arc<Identity>,
    pub(crate) address: SocketAddr,
    pub(crate) plan: Plan,
    /// `None` while it is down.
    pub(crate) host: Option<Host>,
    pub(crate) incarnation: u32,
    pub(crate) frozen: bool,
    /// How far its civil clock is ahead.
    pub(crate) ahead_ms: i64,
    /// Datagrams that arrived and were not read.
    pub(crate) inbox: VecDeque<Flight>,
    /// When it will get to its inbox and its timers.
    pub(crate) wake_at: Option<Duration>,
    /// Turns in a row that were due before they began.
    pub(crate) overdue: u32,
    random: Random,
}

impl Station {
    pub(crate) fn new(
        identity: Arc<Identity>,
        address: SocketAddr,
        plan: Plan,
        random: Random,
    ) -> Self {
        Self {
            identity,
            address,
            plan,
            host: None,
            incarnation: 0,
            frozen: false,
            ahead_ms: 0,
            inbox: VecDeque::new(),
            wake_at: None,
            overdue: 0,
            random,
        }
    }

    /// Starts the station's process.
    pub(crate) fn start(&mut self, now: Now) -> Result<(), LinkError> {
        self.incarnation += 1;
        self.frozen = false;
        let mut random = self.random.fork(u64::from(self.incarnation));
        let (identity, secret) = (self.identity.clone(), random.bytes());
        self.host = Some(match &self.plan {
            Plan::Rib { disk, config, lies: false } => {
                let config = (**config).clone();
                Host::Rib(RibHost::honest(identity, disk.clone(), config, secret, now)?)
            }
            Plan::Rib { disk, lies: true, .. } => {
                Host::Rib(RibHost::liar(identity, disk.clone(), secret, now)?)
            }
            Plan::Router { config, .. } => {
                Host::Router(Box::new(RouterHost::new(identity, config.clone(), secret, now)?))
            }
            Plan::Node { config } => {
                let seed = Seed { link: secret, spread: random.bits() };
                Host::Node(Box::new(NodeHost::new(identity, config, &seed, now)?))
            }
            Plan::Outsider => Host::Outsider(Box::new(Outsider::new(identity, secret, now)?)),
        });
        Ok(())
    }

    /// Ends it without a word.
    pub(crate) fn crash(&mut self) {
        self.host = None;
        self.frozen = false;
        self.inbox.clear();
        self.wake_at = None;
        self.overdue = 0;
    }

    /// Whether it computes.
    pub(crate) fn is_awake(&self) -> bool {
        self.host.is_some() && !self.frozen
    }

    /// Moves what waits in the inbox to `batch`, as far as one read takes.
    pub(crate) fn read(&mut self, batch: &mut Batch) {
        batch.clear();
        for flight in self.inbox.drain(..self.inbox.len().min(BATCH)) {
            batch.push(flight.from, &flight.bytes);
        }
    }
}

impl Host {
    /// Handles what is in `batch` and what is due; leaves in `batch` what is to be sent.
    pub(crate) fn turn(&mut self, batch: &mut Batch, now: Now) {
        match self {
            Self::Rib(rib) => {
                if !batch.is_empty() {
                    rib.handle_batch(batch, now);
                }
                if rib.poll_timeout().is_some_and(|due| due <= now.instant) {
                    rib.handle_timeout(batch, now);
                }
            }
            Self::Router(router) => {
                if !batch.is_empty() {
                    router.handle_batch(batch, now);
                }
                if router.poll_timeout().is_some_and(|due| due <= now.instant) {
                    router.handle_timeout(batch, now);
                }
                router.switch.poll_transmit(batch);
            }
            Self::Node(node) => node.turn(batch, now),
            Self::Outsider(outsider) => outsider.turn(batch, now),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Rib(rib) => rib.poll_timeout(),
            Self::Router(router) => router.poll_timeout(),
            Self::Node(node) => node.poll_timeout(),
            Self::Outsider(outsider) => outsider.poll_timeout(),
        }
    }
}

/// Datagrams that one read takes, as production does.
const BATCH: usize = 64;
/// Datagrams that wait in a socket at most.
pub(crate) const SOCKET_DATAGRAMS: usize = 512;
