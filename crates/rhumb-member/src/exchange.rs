//! The member's core, and what its routes are called there: ids of announcements on one side,
//! prefixes and members on the other.
//!
//! It is made when the first server says how many shards there are, and by which circuit the best
//! route is found; and anew when one of these has changed, or sites have other places in the
//! roster. Routes of others stay meanwhile, until all is there again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_bgp::policy::Member as Index;
use rhumb_exchange::{
    Common, Connection, Destination, Event, ExchangeError, Hello, Lane, LaneSet, Latencies, Member,
    Party, Roster, Round, Route, RouteId,
};

use crate::encoding::Place;
use crate::pace::closes;
use crate::table::{Changes, ForExchange, Table};

/// This member at the exchange.
pub struct Exchange {
    roster: Arc<Roster>,
    lane: Lane,
    participates: bool,
    core: Option<Core>,
    /// Of the core before.
    incarnation: u64,
    /// Routes of others as they are known: what is said about other ids is of the past.
    current: HashMap<(PlaceKey, Lane), RouteId>,
    ids: HashMap<RouteId, (Place, Lane)>,
    /// Rounds that wait for their result.
    asked: HashMap<PlaceKey, Instant>,
    /// Rounds that wait for their answer.
    questions: VecDeque<Question>,
    /// What was counted since the start.
    pub counters: Counters,
    /// From a round's question to its result.
    pub rounds: Latencies,
    /// Since when no shard has both parties.
    pub apart_since: Option<Instant>,
    /// How many sites a server's roster has, if more than ours, and whether that was taken.
    longer: Option<(usize, bool)>,
}

/// The core, and what it was made with.
struct Core {
    member: Member,
    common: Common,
    /// Whether all that the exchange has is here.
    is_synced: bool,
    /// Routes that were known to the core before, and not yet to this one.
    before: HashMap<RouteId, (Place, Lane)>,
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
            roster,
            lane,
            participates,
            core: None,
            incarnation: 0,
            current: HashMap::new(),
            ids: HashMap::new(),
            asked: HashMap::new(),
            questions: VecDeque::new(),
            counters: Counters::default(),
            rounds: Latencies::default(),
            apart_since: Some(now),
            longer: None,
        }
    }

    /// Another roster from now on; whether it extends the former one. If not, the core is made
    /// anew, when a server has it, too.
    pub fn set_roster(&mut self, roster: Arc<Roster>, lane: Lane) -> bool {
        let extends = roster.extends(&self.roster);
        let taken = self.core.as_mut().map(|core| {
            core.common.roster = Arc::clone(&roster);
            core.member.set_roster(Arc::clone(&roster))
        });
        if !extends || matches!(taken, Some(Err(_))) {
            self.core = None;
        }
        (self.roster, self.lane) = (roster, lane);
        extends
    }

    /// A connection to a server is up.
    pub fn connected(&mut self, connection: Connection, party: Party) {
        if let Some(core) = &mut self.core {
            core.member.connected(connection, party);
        }
    }

    /// A connection to a server is gone.
    pub fn disconnected(&mut self, connection: Connection) {
        if let Some(core) = &mut self.core {
            core.member.disconnected(connection);
        }
    }

    /// A server says something. `up` are all connections that there are; `fresh` is for a core
    /// that is made anew: the time, which orders this member's cores, and a secret.
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
        let mut outcomes = Outcomes::default();
        if self.core.is_none() {
            self.begin(&Hello::parse(message)?, up, fresh)?;
            outcomes.is_new = true;
        }
        let Some(core) = &mut self.core else { return Ok(outcomes) };
        let handled = core.member.handle(connection, message);
        let status = core.member.status();
        let (is_apart, sites) = (status.live_shards == 0, status.server_lanes);
        if sites > self.roster.lanes() && self.longer.is_none_or(|(known, _)| known != sites) {
            self.longer = Some((sites, false));
        }
        if let Err(ExchangeError::Parameter(_)) = handled
            && is_apart
        {
            // The parties have other parameters now. Whoever comes next says which.
            self.core = None;
        }
        handled.map(|()| outcomes)
    }

    fn begin(
        &mut self,
        hello: &Hello,
        up: &[(Connection, Party)],
        fresh: impl FnOnce() -> Result<(u64, [u8; 32]), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        let common =
            Common { roster: Arc::clone(&self.roster), shards: hello.shards, form: hello.form };
        common.check_alike(hello)?;
        let (unix_ms, seed) = fresh()?;
        self.incarnation = (self.incarnation + 1).max(unix_ms);
        let mut member =
            Member::new(common.clone(), self.lane, self.participates, self.incarnation, seed)?;
        up.iter().for_each(|(connection, party)| member.connected(*connection, *party));
        let before = std::mem::take(&mut self.ids);
        self.core = Some(Core { member, common, is_synced: false, before });
        Ok(())
    }

    /// How many sites a server's roster has, if more than ours; each such number once.
    pub fn take_longer_roster(&mut self) -> Option<usize> {
        let (sites, is_taken) = self.longer.as_mut()?;
        (!std::mem::replace(is_taken, true)).then_some(*sites)
    }

    /// Tells the exchange what changes for others.
    ///
    /// # Errors
    ///
    /// The table names what the exchange cannot have, which it does not do.
    pub fn tell(&mut self, change: &ForExchange) -> Result<(), ExchangeError> {
        let Some(core) = &mut self.core else { return Ok(()) };
        let destination = Destination::new(&change.place().to_bytes())?;
        let ForExchange::Announce { route, members, .. } = change else {
            self.counters.withdrawn += u64::from(core.member.withdraw(&destination));
            return Ok(());
        };
        let Ok(route) = Route::new(route) else {
            self.counters.too_long += 1;
            core.member.withdraw(&destination);
            return Ok(());
        };
        let lanes = members.iter().map(|member| Lane(member.0));
        let policy = LaneSet::of(&self.roster, lanes)?;
        match core.member.announce(&destination, &policy, &route) {
            Ok(_) => self.counters.announced += 1,
            Err(ExchangeError::TooMany { .. }) => self.counters.too_many += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// All that is there at first has been told.
    pub fn end_of_table(&mut self) {
        if let Some(core) = &mut self.core {
            core.member.end_of_table();
        }
    }

    /// Leaves, and all routes of this member with it.
    pub fn leave(&mut self) {
        if let Some(core) = &mut self.core {
            core.member.leave();
        }
    }

    /// The next answer for a server: what follows from what servers have said.
    pub fn poll_answer(&mut self, connection: Connection) -> Option<Vec<u8>> {
        self.core.as_mut()?.member.poll_answer(connection)
    }

    /// The next message for a server.
    pub fn poll_message(&mut self, connection: Connection) -> Option<Vec<u8>> {
        self.core.as_mut()?.member.poll_message(connection)
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
        while let Some(event) = self.core.as_mut().and_then(|core| core.member.poll_event()) {
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
                    if let Some(core) = &mut self.core {
                        core.before.remove(&id);
                    }
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
                Event::Synced => outcomes.is_synced |= self.synced(table, changes),
            }
        }
        self.note_pair(now);
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
        if let Some(core) = &mut self.core {
            core.member.rank(question.round, &classes);
        }
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

    /// All is here: what only the core before knew is no more.
    fn synced(&mut self, table: &mut Table, changes: &mut Changes) -> bool {
        let Some(core) = &mut self.core else { return false };
        let is_first = !std::mem::replace(&mut core.is_synced, true);
        for (id, (place, from)) in std::mem::take(&mut core.before) {
            let key = (place.to_bytes(), from);
            if self.current.get(&key) == Some(&id) {
                self.current.remove(&key);
                table.retracted(place, Index(from.0), changes);
            }
        }
        is_first
    }

    fn note_pair(&mut self, now: Instant) {
        let is_live = self.live_shards().is_some_and(|(live, _)| live > 0);
        self.apart_since = match self.apart_since {
            _ if is_live => None,
            Some(since) => Some(since),
            None => Some(now),
        };
    }

    /// Whether both parties have been away for longer than their routes are used.
    pub fn is_away(&mut self, now: Instant) -> bool {
        self.note_pair(now);
        self.apart_since.is_some_and(|since| now.saturating_duration_since(since) > AWAY)
    }

    /// Shards in which a pair computes, and how many there are.
    pub fn live_shards(&self) -> Option<(usize, u16)> {
        let core = self.core.as_ref()?;
        Some((core.member.status().live_shards, core.common.shards))
    }

    /// Whether all that the exchange has is here, now.
    pub fn has_all(&self) -> bool {
        let shards =
            |core: &Core| core.member.status().synced_shards == usize::from(core.common.shards);
        self.core.as_ref().is_some_and(shards)
    }

    /// What the core has, and whether once all was here.
    pub fn status(&self) -> Option<(rhumb_exchange::MemberStatus, bool)> {
        self.core.as_ref().map(|core| (core.member.status(), core.is_synced))
    }
}

/// Classes count down from here; without one a route is not wanted.
const BEST_CLASS: u8 = 15;
/// All further classes are one.
const WORST: u32 = 14;
/// For how long routes are used that nobody could take back: as long as routers keep those of a
/// neighbour that restarts, and some more.
const AWAY: Duration = Duration::from_secs(300);
