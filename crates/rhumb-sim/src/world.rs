//! The world: stations, links, a clock that jumps from one event to the next, and the witness.
//!
//! 1. A datagram that arrives waits in its station's inbox; the station gets to it [`READ_AFTER`]
//!    later, and takes all that has come by then as one batch.
//! 2. In its turn a station handles its batch and whatever is due; what it sends goes to the links,
//!    which decide when it arrives.
//! 3. The station says when it wants its next turn.
//!
//! Invariant: events happen in the order of their time, and of decision where
//! times are equal; all chance is drawn from the seed. So the same calls on a
//! world of the same seed bring about the same.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rhumb_node::core::Event;
use rhumb_wire::{Batch, Name};

use crate::agenda::{Agenda, Occurrence};
use crate::conditions::Conditions;
use crate::network::{Fates, Flight, Network};
use crate::random::Random;
use crate::station::{Host, Plan, SOCKET_DATAGRAMS, Station, StationId};
use crate::witness::{Violation, Witness};

/// A world. See the [crate's page](crate).
pub struct World {
    pub(crate) seed: u64,
    pub(crate) now: Duration,
    pub(crate) random: Random,
    pub(crate) agenda: Agenda,
    pub(crate) network: Network,
    /// The routers on the local network of a node.
    pub(crate) nearby: BTreeMap<StationId, Vec<StationId>>,
    pub(crate) stations: Vec<Station>,
    pub(crate) witness: Witness,
    pub(crate) totals: Totals,
    /// Per station: what arrived, and what it told.
    pub(crate) received: Vec<Vec<Delivery>>,
    pub(crate) told: Vec<Vec<(Duration, Event)>>,
    /// Whether a node has left or was refused for good, in its present incarnation.
    pub(crate) over: Vec<bool>,
    pub(crate) history: VecDeque<String>,
    /// What the virtual clock's zero is for cores, which measure time from nowhere in particular.
    pub(crate) began: Instant,
    batch: Batch,
    pub(crate) tap: Option<Vec<(Duration, Flight)>>,
    /// The present second, and how many events there had been when it began.
    second: (u64, u64),
    pub(crate) most_events_per_s: u64,
}

/// A message that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Which message.
    pub number: u64,
    /// Its source.
    pub from: Name,
    /// When.
    pub at: Duration,
}

/// What happened in a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Virtual time that passed.
    pub lived: Duration,
    /// Events: arrivals, turns, faults.
    pub events: u64,
    /// Turns of stations.
    pub turns: u64,
    /// Faults.
    pub faults: u64,
    /// Messages that nodes took for sending.
    pub sent: u64,
    /// Messages that arrived.
    pub delivered: u64,
    /// Datagrams, by what became of them.
    pub datagrams: Fates,
}

impl World {
    /// An empty world, all links of which are as stated until that is changed.
    #[must_use]
    pub fn new(seed: u64, conditions: Conditions) -> Self {
        let random = Random::new(seed);
        #[expect(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
        let began = Instant::now();
        Self {
            seed,
            now: Duration::ZERO,
            agenda: Agenda::default(),
            network: Network::new(random.fork(LINKS), conditions),
            nearby: BTreeMap::new(),
            stations: Vec::new(),
            witness: Witness::default(),
            totals: Totals::default(),
            received: Vec::new(),
            told: Vec::new(),
            over: Vec::new(),
            history: VecDeque::new(),
            began,
            batch: Batch::new(),
            tap: None,
            second: (0, 0),
            most_events_per_s: MOST_EVENTS_PER_S,
            random,
        }
    }

    /// Since the world began.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets the world go on for `duration`.
    ///
    /// # Panics
    /// On a [`Violation`], as all that lets time pass.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some((at, occurrence)) = self.agenda.take(end) {
            self.now = at;
            self.happen(occurrence);
        }
        self.now = end;
    }

    fn happen(&mut self, occurrence: Occurrence) {
        self.totals.events += 1;
        self.watch_for_storms();
        match occurrence {
            Occurrence::Arrival(flight) => self.arrive(flight),
            Occurrence::Wake(station) => {
                if self.stations[station.0].wake_at == Some(self.now) {
                    self.stations[station.0].wake_at = None;
                    self.turn(station);
                }
            }
            Occurrence::Verified { router, incarnation } => self.verified(router, incarnation),
            Occurrence::Fault(fault) => {
                self.totals.faults += 1;
                self.apply(&fault);
            }
            Occurrence::Message { from, to, len } => {
                // What cannot be sent now would be sent by nobody.
                let _ = self.send(from, to, len);
            }
        }
    }

    fn watch_for_storms(&mut self) {
        let (second, begin) = self.second;
        if self.now.as_secs() != second {
            self.second = (self.now.as_secs(), self.totals.events);
        } else if self.totals.events - begin > self.most_events_per_s {
            self.fail(&Violation::Storm { events: self.totals.events - begin });
        }
    }

    fn arrive(&mut self, flight: Flight) {
        let Some(id) = self.network.holder(flight.to) else {
            self.network.fates.astray += 1;
            return;
        };
        let sender =
            self.network.holder(flight.from).map(|id| (id, self.stations[id.0].incarnation));
        let station = &mut self.stations[id.0];
        if station.host.is_none() || station.inbox.len() >= SOCKET_DATAGRAMS {
            self.network.fates.astray += 1;
            return;
        }
        self.witness.arrived((id, station.incarnation), sender, &flight);
        station.inbox.push_back(flight);
        self.wake(id, self.now + READ_AFTER);
    }

    /// Lets a station have a turn no later than `at`.
    pub(crate) fn wake(&mut self, id: StationId, at: Duration) {
        let station = &mut self.stations[id.0];
        if station.is_awake() && station.wake_at.is_none_or(|earlier| at < earlier) {
            station.wake_at = Some(at);
            self.agenda.add(at, Occurrence::Wake(id));
        }
    }

    fn turn(&mut self, id: StationId) {
        let now = self.clock_of(id);
        let mut batch = std::mem::take(&mut self.batch);
        let station = &mut self.stations[id.0];
        if station.is_awake() {
            self.totals.turns += 1;
            station.read(&mut batch);
            if let Some(host) = &mut station.host {
                host.turn(&mut batch, now);
            }
            self.conclude(id, &batch);
        }
        self.batch = batch;
    }

    /// The verifier of a router is done, unless it died with its router.
    fn verified(&mut self, id: StationId, incarnation: u32) {
        let now = self.clock_of(id);
        let station = &mut self.stations[id.0];
        if station.incarnation != incarnation {
            return;
        }
        if station.frozen {
            let again = Occurrence::Verified { router: id, incarnation };
            return self.agenda.add(self.now + LOOKS_EVERY, again);
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        if let Some(Host::Router(router)) = &mut station.host {
            router.finish_verifying(&mut batch, now);
            self.conclude(id, &batch);
        }
        self.batch = batch;
    }

    /// What follows a station's turn: its datagrams leave,
    /// its next turn is fixed, the witness looks.
    fn conclude(&mut self, id: StationId, out: &Batch) {
        self.dispatch(id, out);
        self.ask_routers(id);
        self.listen(id);
        let station = &mut self.stations[id.0];
        let incarnation = station.incarnation;
        if let (Some(Host::Router(router)), Plan::Router { verifier_time, .. }) =
            (&mut station.host, &station.plan)
            && router.begin_verifying()
        {
            let at = self.now + *verifier_time;
            self.agenda.add(at, Occurrence::Verified { router: id, incarnation });
        }
        if !station.inbox.is_empty() {
            self.wake(id, self.now + READ_AFTER);
        }
        self.fix_next_turn(id);
        if self.totals.turns.is_multiple_of(TABLES_CHECKED_EVERY) {
            self.check_tables(id);
        }
    }

    fn dispatch(&mut self, id: StationId, out: &Batch) {
        let station = &self.stations[id.0];
        let (from, process) = (station.address, (id, station.incarnation));
        for (to, bytes) in out.iter() {
            let flight = Flight { from, to, bytes: bytes.to_vec(), genuine: true };
            let receiver = self.network.holder(to);
            let incarnation = receiver.map_or(0, |id| self.stations[id.0].incarnation);
            if let Err(violation) = self.witness.sent(process, &flight, incarnation, self.now) {
                self.fail(&violation);
            }
            if let Some(tap) = &mut self.tap {
                tap.push((self.now, flight.clone()));
            }
            for (at, flight) in self.network.carry(id, flight, self.now) {
                self.agenda.add(at, Occurrence::Arrival(flight));
            }
        }
    }

    /// Carries what a node asks its local network to the routers that are on it.
    fn ask_routers(&mut self, id: StationId) {
        let from = self.address(id);
        let Some(Host::Node(node)) = &mut self.stations[id.0].host else { return };
        let asked = std::mem::take(&mut node.asked);
        let nearby = self.nearby.get(&id).cloned().unwrap_or_default();
        for (bytes, router) in
            asked.iter().flat_map(|query| nearby.iter().map(move |to| (query, to)))
        {
            let flight =
                Flight { from, to: self.address(*router), bytes: bytes.clone(), genuine: true };
            for (at, flight) in self.network.carry(id, flight, self.now) {
                self.agenda.add(at, Occurrence::Arrival(flight));
            }
        }
    }

    /// Takes what arrived at a node and what it told.
    fn listen(&mut self, id: StationId) {
        let Some(Host::Node(node)) = &mut self.stations[id.0].host else { return };
        let arrived = std::mem::take(&mut node.arrived);
        let told = std::mem::take(&mut node.told);
        let over = node.core.is_over();
        for (from, to, bytes) in arrived {
            if self.over[id.0] {
                self.fail(&Violation::DeliveredAfterLeaving { at: id });
            }
            match self.witness.receive(id, to, from, &bytes, self.now) {
                Ok(number) => {
                    self.totals.delivered += 1;
                    self.received[id.0].push(Delivery { number, from, at: self.now });
                }
                Err(violation) => self.fail(&violation),
            }
        }
        for event in told {
            self.remember(|| format!("{id:?} tells {event:?}"));
            if self.told[id.0].len() < MOST_EVENTS {
                self.told[id.0].push((self.now, event));
            }
        }
        self.over[id.0] = over;
    }

    fn fix_next_turn(&mut self, id: StationId) {
        let station = &mut self.stations[id.0];
        let Some(due) = station.host.as_ref().and_then(Host::poll_timeout) else { return };
        let due = due.saturating_duration_since(self.began);
        if due > self.now {
            station.overdue = 0;
            return self.wake(id, due);
        }
        station.overdue += 1;
        if station.overdue > MOST_OVERDUE {
            self.fail(&Violation::NeverRests { station: id });
        }
        self.wake(id, self.now + READ_AFTER);
    }

    fn check_tables(&self, id: StationId) {
        let station = &self.stations[id.0];
        let Some(Host::Router(router)) = &station.host else { return };
        let status = router.switch.status(self.clock_of(id));
        for rhumb_switch::TableStatus { name: table, used: len, bound } in status.tables {
            if len > bound {
                self.fail(&Violation::TableOverflow { station: id, table, len, bound });
            }
        }
    }

    /// Keeps a line for whoever has to understand a violation.
    pub(crate) fn remember(&mut self, line: impl FnOnce() -> String) {
        if self.history.len() >= HISTORY {
            self.history.pop_front();
        }
        let line = format!("{:>12.6} {}", self.now.as_secs_f64(), line());
        self.history.push_back(line);
    }

    pub(crate) fn fail(&self, violation: &Violation) -> ! {
        self.give_up(&violation.to_string())
    }
}

/// When every world begins, in seconds since 1970.
pub const START_S: u64 = 1_800_000_000;
/// How long a datagram waits until its host gets to it; what comes meanwhile is read with it.
pub(crate) const READ_AFTER: Duration = Duration::from_micros(20);
/// How often [`World::run_until`] looks.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Turns in a row that come to nothing: a second of a processor that does nothing else.
const MOST_OVERDUE: u32 = 50_000;
/// A look at all tables costs more than a turn.
const TABLES_CHECKED_EVERY: u64 = 32;
const HISTORY: usize = 60;
/// A small world in which each of a thousand messages takes twenty events.
const MOST_EVENTS_PER_S: u64 = 20_000;
/// More of one node are not kept, so that a world may run for days.
const MOST_EVENTS: usize = 100_000;
/// The source of the links' chance.
const LINKS: u64 = 1;
