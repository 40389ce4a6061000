//! A BGP router's routes at the exchange, and what they are called there: ids of announcements on
//! one side, prefixes and members on the other.
//!
//! Routes of others stay while the core ([`Seat`]) is made anew, until all is there again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use rhumb_bgp::policy::Member as Index;
use rhumb_exchange::{
    Connection, Destination, Event, ExchangeError, Lane, Latencies, Party, Roster, Round, Route,
    RouteId,
};

use crate::encoding::Place;
use crate::pace::closes;
use crate::seat::Seat;
use crate::table::{Changes, ForExchange, Table};

/// This member at the exchange.
pub struct Exchange {
    /// The core, and its connections.
    pub seat: Seat,
    /// Routes of others as they are known: what is said about other ids is of the past.
    current: HashMap<(PlaceKey, Lane), RouteId>,
    ids: HashMap<RouteId, (Place, Lane)>,
    /// Routes that were known to a core before, and not yet to this one.
    before: HashMap<RouteId, (Place, Lane)>,
    /// Rounds that wait for their result.
    asked: HashMap<PlaceKey, Instant>,
    /// Rounds that wait for their answer.
    questions: VecDeque<Question>,
    /// What was counted since the start.
    pub counters: Counters,
    /// From a round's question to its result.
    pub rounds: Latencies,
}

/// A round that this member is to rank routes for.
struct Question {
    round: Round,
    /// Where the routes lead, if this member has any.
    place: Option<Place>,
    candidates: Vec<(RouteId, Lane)>,
    /// When the answer leaves.
    due: Instant,
}

/// Places as keys of maps.
type PlaceKey = Vec<u8>;

/// What was counted. All only grow.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Counters {
    /// Own routes that were told, versions apart.
    pub announced: u64,
    /// Own routes that were taken back.
    pub withdrawn: u64,
    /// Routes of others that came.
    pub offered: u64,
    /// Routes of others that went.
    pub retracted: u64,
    /// Rounds that asked for a ranking.
    pub asked: u64,
    /// Rounds that ended.
    pub selected: u64,
    /// Rounds that were missed.
    pub missed: u64,
    /// Destinations of others that are no prefixes.
    pub no_prefix: u64,
    /// Own routes that are longer than the exchange takes.
    pub too_long: u64,
    /// Own routes beyond what the exchange takes of one member.
    pub too_many: u64,
    /// Rounds that were answered before all of their routes were judged.
    pub unjudged: u64,
}

/// What an input came to.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// All that the exchange has is here, for the first time with this core.
    pub is_synced: bool,
    /// A core was made: it must be told what this member announces.
    pub is_new: bool,
}

impl Exchange {
    /// Before any server was heard.
    pub fn new(roster: Arc<Roster>, lane: Lane, participates: bool, now: Instant) -> Self {
        Self {
            seat: Seat::new(roster, lane, participates, now),
            current: HashMap::new(),
            ids: HashMap::new(),
            before: HashMap::new(),
            asked: HashMap::new(),
            questions: VecDeque::new(),
            counters: Counters::default(),
            rounds: Latencies::default(),
        }
    }

    /// A server says something ([`Seat::handle`]).
    ///
    /// # Errors
    ///
    /// Why the connection must be cut.
    pub fn handle(
        &mut self,
        connection: Connection,
        message: &[u8],
        up: &[(Connection, Party)],
        fresh: impl FnOnce() -> Result<(u64, [u8; 32]), ExchangeError>,
    ) -> Result<Outcomes, ExchangeError> {
        let incarnation = self.seat.incarnation();
        let handled = self.seat.handle(connection, message, up, fresh);
        if self.seat.incarnation() != incarnation {
            self.before.extend(self.ids.drain());
        }
        handled.map(|is_new| Outcomes { is_new, is_synced: false })
    }

    /// Tells the exchange what changes for others.
    ///
    /// # Errors
    ///
    /// The table names what the exchange cannot have, which it does not do.
    pub fn tell(&mut self, change: &ForExchange) -> Result<(), ExchangeError> {
        let destination = Destination::new(&change.place().to_bytes())?;
        let ForExchange::Announce { route, members, .. } = change else {
            self.counters.withdrawn += u64::from(self.seat.withdraw(&destination));
            return Ok(());
        };
        let Ok(route) = Route::new(route) else {
            self.counters.too_long += 1;
            self.seat.withdraw(&destination);
            return Ok(());
        };
        let lanes = members.iter().map(|member| Lane(member.0));
        match self.seat.announce(&destination, lanes, &route) {
            Ok(was_told) => self.counters.announced += u64::from(was_told),
            Err(ExchangeError::TooMany { .. }) => self.counters.too_many += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Takes what the core has to say. Answers to what it asks leave when they are `due`.
    pub fn take_events(
        &mut self,
        table: &mut Table,
        changes: &mut Changes,
        due: Instant,
        now: Instant,
    ) -> Outcomes {
        let mut outcomes = Outcomes::default();
        while let Some(event) = self.seat.poll_event() {
            match event {
                Event::Offered { destination, from, id, route, replaces } => {
                    let Some(place) = Place::parse(destination.as_bytes()) else {
                        self.counters.no_prefix += 1;
                        continue;
                    };
                    self.counters.offered += 1;
                    if let Some(replaced) = replaces {
                        self.forget(replaced, (id, place, from), table, changes);
                    }
                    self.before.remove(&id);
                    if let Some(old) = self.current.insert((place.to_bytes(), from), id) {
                        self.ids.remove(&old);
                    }
                    self.ids.insert(id, (place, from));
                    table.offered(place, Index(from.0), route.as_bytes(), changes);
                }
                Event::Retracted { id, .. } => {
                    self.counters.retracted += 1;
                    self.retract(id, table, changes);
                }
                Event::Rank { round, destination, candidates } => {
                    self.counters.asked += 1;
                    let candidates = candidates.iter().map(|it| (it.id, it.from)).collect();
                    let place = destination.and_then(|it| Place::parse(it.as_bytes()));
                    if let Some(place) = place {
                        self.asked.insert(place.to_bytes(), now);
                    }
                    self.questions.push_back(Question { round, place, candidates, due });
                }
                Event::Selected { destination, id } => {
                    self.selected(&destination, id, table, changes, now);
                }
                Event::Missed { destination } => {
                    self.counters.missed += 1;
                    if let Some(place) = Place::parse(destination.as_bytes()) {
                        self.asked.remove(destination.as_bytes());
                        table.selected(place, None, changes);
                    }
                }
                Event::Synced => {
                    self.synced(table, changes);
                    outcomes.is_synced = true;
                }
            }
        }
        self.seat.note_pair(now);
        outcomes
    }

    /// Answers one of the questions for which there is no more time, by what is
    /// known then; gives when its answer is due. None is answered earlier: it
    /// would be one that nothing had to be judged for.
    pub fn answer(&mut self, table: &Table, now: Instant) -> Option<Instant> {
        let is_judged = |question: &Question| {
            let mut from = question.candidates.iter().map(|(_, from)| Index(from.0));
            question.place.is_none_or(|place| !from.any(|from| table.is_waiting(place, from)))
        };
        let at = self.questions.iter().position(|it| closes(it.due) <= now)?;
        let question = self.questions.remove(at)?;
        self.counters.unjudged += u64::from(!is_judged(&question));
        let mut classes = Vec::new();
        if let Some(place) = question.place {
            let ranked = table.classes(place);
            for (id, from) in &question.candidates {
                let is_current = self.current.get(&(place.to_bytes(), *from)) == Some(id);
                let class = ranked.iter().find(|(member, _)| member.0 == from.0);
                if let Some((_, class)) = class.filter(|_| is_current) {
                    classes.push((*id, BEST_CLASS - (*class).min(WORST) as u8));
                }
            }
        }
        self.seat.rank(question.round, &classes);
        Some(question.due)
    }

    /// When there is no more time for a question.
    pub fn closes(&self) -> Option<Instant> {
        self.questions.iter().map(|question| closes(question.due)).min()
    }

    fn selected(
        &mut self,
        destination: &Destination,
        id: Option<RouteId>,
        table: &mut Table,
        changes: &mut Changes,
        now: Instant,
    ) {
        self.counters.selected += 1;
        if let Some(since) = self.asked.remove(destination.as_bytes()) {
            self.rounds.add(now.saturating_duration_since(since).as_micros() as u64);
        }
        if let Some(place) = Place::parse(destination.as_bytes()) {
            let chosen = id.and_then(|id| self.ids.get(&id)).map(|(_, from)| Index(from.0));
            table.selected(place, chosen, changes);
        }
    }

    /// A route was replaced by another, of the same place if its announcer is honest.
    fn forget(
        &mut self,
        replaced: RouteId,
        by: (RouteId, Place, Lane),
        table: &mut Table,
        changes: &mut Changes,
    ) {
        let (_, place, from) = by;
        if self.ids.get(&replaced).is_some_and(|it| *it != (place, from)) {
            self.retract(replaced, table, changes);
        }
    }

    fn retract(&mut self, id: RouteId, table: &mut Table, changes: &mut Changes) {
        let Some((place, from)) = self.ids.remove(&id) else { return };
        let key = (place.to_bytes(), from);
        if self.current.get(&key) == Some(&id) {
            self.current.remove(&key);
            table.retracted(place, Index(from.0), changes);
        }
    }

    /// All is here: what only cores before knew is no more.
    fn synced(&mut self, table: &mut Table, changes: &mut Changes) {
        for (id, (place, from)) in std::mem::take(&mut self.before) {
            let key = (place.to_bytes(), from);
            if self.current.get(&key) == Some(&id) {
                self.current.remove(&key);
                table.retracted(place, Index(from.0), changes);
            }
        }
    }
}

/// Classes count down from here; without one a route is not wanted.
const BEST_CLASS: u8 = 15;
/// All further classes are one.
const WORST: u32 = 14;
