//! What a test says and asks: messages and faults to come, datagrams
//! to forge and to read, and how everybody fares.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_node::SendError;
use rhumb_node::core::{Core, Event};
use rhumb_switch::Switch;
use rhumb_trust::{AdCert, Now, Window};
use rhumb_wire::Name;

use crate::Fault;
use crate::agenda::Occurrence;
use crate::network::Flight;
use crate::outsider::Outsider;
use crate::station::{Host, StationId};
use crate::witness::Message;
use crate::world::{Delivery, LOOKS_EVERY, START_S, Totals, World};

impl World {
    /// Lets the world go on until `is_so`, for `limit` at most; whether it
    /// came to be so. Looked at ten times a second.
    pub fn run_until(&mut self, limit: Duration, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            if is_so(self) {
                return true;
            }
            if self.now >= end {
                return false;
            }
            self.run(LOOKS_EVERY.min(end - self.now));
        }
    }

    /// Takes more than so many events in a virtual second for a storm.
    pub fn expect_at_most(&mut self, events_per_s: u64) {
        self.most_events_per_s = events_per_s;
    }

    /// Does something to stations or links `after` so long.
    pub fn schedule(&mut self, after: Duration, fault: Fault) {
        self.agenda.add(self.now + after, Occurrence::Fault(fault));
    }

    /// Lets one node send another a message of `len` bytes `after` so long, if it can then.
    pub fn schedule_message(
        &mut self,
        after: Duration,
        from: StationId,
        to: StationId,
        len: usize,
    ) {
        self.agenda.add(self.now + after, Occurrence::Message { from, to, len });
    }

    /// Lets a node send a message of `len` bytes (at least
    /// [`crate::witness::LEAST_BODY_LEN`]); returns its number.
    ///
    /// # Errors
    /// As the node says; a node that is down is closed.
    pub fn send(&mut self, from: StationId, to: StationId, len: usize) -> Result<u64, SendError> {
        self.send_to_name(from, self.name(to), len)
    }

    /// As [`World::send`], to any name.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn send_to_name(
        &mut self,
        from: StationId,
        to: Name,
        len: usize,
    ) -> Result<u64, SendError> {
        let now = self.clock_of(from);
        let sent_at = self.now;
        let message = Message { from: self.name(from), to, len, sent_at, delivered_at: None };
        let (number, body) = self.witness.write_message(message);
        let result = match &mut self.stations[from.0].host {
            Some(Host::Node(node)) => node.core.send(to, PORT, &body, now),
            _ => Err(SendError::Closed),
        };
        match result {
            Ok(_) => {
                self.totals.sent += 1;
                self.wake(from, self.now);
                Ok(number)
            }
            Err(error) => {
                self.witness.take_back(number);
                Err(error)
            }
        }
    }

    /// The holder of `owner` lets a node answer for its name for so long,
    /// by a word of now. Whether the node took it.
    ///
    /// # Panics
    /// When the node is its own owner.
    pub fn let_serve(&mut self, owner: StationId, node: StationId, lifetime_s: u64) -> bool {
        let (now, server) = (self.clock_of(owner), self.name(node));
        let window = Window::starting(now.unix_s(), lifetime_s);
        let word = AdCert::sign(&self.stations[owner.0].identity, server, now.unix_ms, window)
            .expect("a key that signs for another name");
        let served = self.with_core(node, |core, now| core.serve(word, now).is_ok());
        served.unwrap_or(false)
    }

    /// As [`World::let_serve`], beside others that were let in this way.
    ///
    /// # Panics
    /// As there.
    pub fn let_serve_beside(&mut self, owner: StationId, node: StationId, lifetime_s: u64) -> bool {
        let (now, server) = (self.clock_of(owner), self.name(node));
        let window = Window::starting(now.unix_s(), lifetime_s);
        let owner = &self.stations[owner.0].identity;
        let word = AdCert::sign_one_of_several(owner, server, now.unix_ms, window)
            .expect("a key that signs for another name");
        let served = self.with_core(node, |core, now| core.serve(word, now).is_ok());
        served.unwrap_or(false)
    }

    /// Whether a node runs and everybody can find out that it answers for `name`.
    pub fn is_serving(&self, node: StationId, name: Name) -> bool {
        self.core(node).is_some_and(|core| core.served().any(|it| it.name == name && it.published))
    }

    /// Puts a datagram on the wire to `to` that claims to come from `from`, as an attacker can who
    /// reads and writes there; it arrives at once.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let flight = Flight { from, to, bytes: bytes.to_vec(), genuine: false };
        self.agenda.add(self.now, Occurrence::Arrival(flight));
    }

    /// Records what is sent from now on, for an attacker to read. Returns what was recorded so far.
    pub fn tap(&mut self) -> Vec<(Duration, Flight)> {
        self.tap.replace(Vec::new()).unwrap_or_default()
    }

    /// What arrived at a node, in all its incarnations, oldest first.
    pub fn received(&self, node: StationId) -> &[Delivery] {
        &self.received[node.0]
    }

    /// A message by its number.
    ///
    /// # Panics
    /// When there is none.
    pub fn message(&self, number: u64) -> &Message {
        &self.witness.messages[number as usize]
    }

    /// What a node told, in all its incarnations, oldest first.
    pub fn told(&self, node: StationId) -> &[(Duration, Event)] {
        &self.told[node.0]
    }

    /// A station's name.
    pub fn name(&self, station: StationId) -> Name {
        self.stations[station.0].identity.name()
    }

    /// Where a station is.
    pub fn address(&self, station: StationId) -> SocketAddr {
        self.stations[station.0].address
    }

    /// The time, as a station's clocks show it.
    pub fn clock_of(&self, station: StationId) -> Now {
        let ahead_ms = self.stations[station.0].ahead_ms;
        let unix_ms = START_S * 1000 + self.now.as_millis() as u64;
        Now { instant: self.began + self.now, unix_ms: unix_ms.saturating_add_signed(ahead_ms) }
    }

    /// The switch of a router that runs.
    pub fn switch(&self, router: StationId) -> Option<&Switch> {
        match &self.stations[router.0].host {
            Some(Host::Router(router)) => Some(&router.switch),
            _ => None,
        }
    }

    /// Lets a script use a router's switch, with the time of its clocks; what it sends is the
    /// script's.
    pub fn with_switch<T>(
        &mut self,
        router: StationId,
        act: impl FnOnce(&mut Switch, Now) -> T,
    ) -> Option<T> {
        let now = self.clock_of(router);
        match &mut self.stations[router.0].host {
            Some(Host::Router(router)) => Some(act(&mut router.switch, now)),
            _ => None,
        }
    }

    /// What a RIB that runs has counted.
    pub fn rib_counters(&self, rib: StationId) -> Option<&rhumb_rib::Counters> {
        match &self.stations[rib.0].host {
            Some(Host::Rib(rib)) => rib.counters(),
            _ => None,
        }
    }

    /// What a router that runs told.
    pub fn router_events(&self, router: StationId) -> &[rhumb_switch::Event] {
        match &self.stations[router.0].host {
            Some(Host::Router(router)) => &router.events,
            _ => &[],
        }
    }

    /// The core of a node that runs.
    pub fn core(&self, node: StationId) -> Option<&Core> {
        match &self.stations[node.0].host {
            Some(Host::Node(node)) => Some(&node.core),
            _ => None,
        }
    }

    /// Whether a node runs and is joined.
    pub fn is_joined(&self, node: StationId) -> bool {
        self.core(node).is_some_and(Core::is_joined)
    }

    /// Whether a node runs, is joined, and its name is published.
    pub fn is_published(&self, node: StationId) -> bool {
        self.core(node).is_some_and(|core| {
            core.is_joined() && core.lease().is_some_and(|lease| lease.published)
        })
    }

    /// Whether a station's process runs.
    pub fn is_running(&self, station: StationId) -> bool {
        self.stations[station.0].host.is_some() && !self.over[station.0]
    }

    /// Lets a script use a node's core, with the time of its clocks.
    pub fn with_core<T>(
        &mut self,
        node: StationId,
        act: impl FnOnce(&mut Core, Now) -> T,
    ) -> Option<T> {
        let now = self.clock_of(node);
        let done = match &mut self.stations[node.0].host {
            Some(Host::Node(node)) => act(&mut node.core, now),
            _ => return None,
        };
        self.wake(node, self.now);
        Some(done)
    }

    /// Lets a script use an outsider, with the time of its clocks; what it sends goes out at once.
    pub fn with_outsider<T>(
        &mut self,
        outsider: StationId,
        act: impl FnOnce(&mut Outsider, Now) -> T,
    ) -> Option<T> {
        let now = self.clock_of(outsider);
        let done = match &mut self.stations[outsider.0].host {
            Some(Host::Outsider(outsider)) => act(outsider, now),
            _ => return None,
        };
        self.wake(outsider, self.now);
        Some(done)
    }

    /// What happened so far.
    pub fn totals(&self) -> Totals {
        Totals { lived: self.now, datagrams: self.network.fates, ..self.totals }
    }

    /// A number that is the same for two runs only if the
    /// same was sent and delivered at the same times.
    pub fn digest(&self) -> u64 {
        self.witness.digest()
    }

    /// The last faults and what nodes told, one per line.
    pub fn history(&self) -> String {
        self.history.iter().map(|line| format!("  {line}\n")).collect()
    }

    /// Ends a run that went wrong.
    ///
    /// # Panics
    /// Always, with the seed and the last things that happened.
    pub fn give_up(&self, why: &str) -> ! {
        panic!(
            "seed {}, at {:.6} s: {why}\n{}replay: RHUMB_SIM_SEED={} cargo test -p rhumb-sim --test all sim::",
            self.seed,
            self.now.as_secs_f64(),
            self.history(),
            self.seed,
        );
    }
}

/// The port that messages are for.
const PORT: u16 = 7;
