//! A member's seat at the exchange: its core, whatever the routes are.
//!
//! The core is made when the first server says how many shards there are, and by which circuit the
//! best route is found; and anew when one of these has changed, or sites have other places in the
//! roster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_exchange::{
    Common, Connection, Destination, Event, ExchangeError, Hello, Lane, LaneSet, Member,
    MemberStatus, Party, Roster, Round, Route, RouteId,
};

/// A member at the exchange.
pub struct Seat {
    roster: Arc<Roster>,
    lane: Lane,
    participates: bool,
    core: Option<Core>,
    /// Of the last core.
    incarnation: u64,
    /// Since when no shard has both parties.
    apart_since: Option<Instant>,
    /// How many sites a server's roster has, if more than ours, and whether that was taken.
    longer: Option<(usize, bool)>,
}

/// The core, and what it was made with.
struct Core {
    member: Member,
    common: Common,
    /// Whether all that the exchange has was here once.
    is_synced: bool,
}

impl Seat {
    /// Before any server was heard.
    pub fn new(roster: Arc<Roster>, lane: Lane, participates: bool, now: Instant) -> Self {
        Self {
            roster,
            lane,
            participates,
            core: None,
            incarnation: 0,
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
    /// that is made anew: the time, which orders this member's cores, and a secret. Whether a core
    /// was made: it must be told what this member announces.
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
    ) -> Result<bool, ExchangeError> {
        let is_new = self.core.is_none();
        if is_new {
            self.begin(&Hello::parse(message)?, up, fresh)?;
        }
        let Some(core) = &mut self.core else { return Ok(false) };
        let handled = core.member.handle(connection, message);
        let status = core.member.status();
        let (is_apart, sites) = (status.live_shards == 0, status.server_lanes);
        if sites > self.roster.lanes() && self.longer.is_none_or(|(known, _)| known != sites) {
            self.longer = Some((sites, false));
        }
        if is_apart && (is_new || matches!(handled, Err(ExchangeError::Parameter(_)))) {
            // The parties have other parameters now, or who said hello is not whom it should be.
            // Whoever comes next says which they are.
            self.core = self.core.take().filter(|_| handled.is_ok());
        }
        handled.map(|()| is_new)
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
        self.core = Some(Core { member, common, is_synced: false });
        Ok(())
    }

    /// Another number for each core.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// How many sites a server's roster has, if more than ours; each such number once.
    pub fn take_longer_roster(&mut self) -> Option<usize> {
        let (sites, is_taken) = self.longer.as_mut()?;
        (!std::mem::replace(is_taken, true)).then_some(*sites)
    }

    /// Announces a route to these lanes, in place of the former one to the destination. Whether
    /// there is a core to be told.
    ///
    /// # Errors
    ///
    /// One of the lanes is not of the roster, or there are too many routes.
    pub fn announce(
        &mut self,
        destination: &Destination,
        lanes: impl IntoIterator<Item = Lane>,
        route: &Route,
    ) -> Result<bool, ExchangeError> {
        let Some(core) = &mut self.core else { return Ok(false) };
        let policy = LaneSet::of(&self.roster, lanes)?;
        core.member.announce(destination, &policy, route).map(|_| true)
    }

    /// Takes a route back; false if there was none.
    pub fn withdraw(&mut self, destination: &Destination) -> bool {
        self.core.as_mut().is_some_and(|core| core.member.withdraw(destination))
    }

    /// Answers a round.
    pub fn rank(&mut self, round: Round, classes: &[(RouteId, u8)]) {
        if let Some(core) = &mut self.core {
            core.member.rank(round, classes);
        }
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

    /// What the core has to say; that all is there, once for each core.
    pub fn poll_event(&mut self) -> Option<Event> {
        let core = self.core.as_mut()?;
        let mut events = std::iter::from_fn(|| core.member.poll_event());
        events.find(|it| *it != Event::Synced || !std::mem::replace(&mut core.is_synced, true))
    }

    /// Takes note whether both parties are there.
    pub fn note_pair(&mut self, now: Instant) {
        let is_live = self.live_shards().is_some_and(|(live, _)| live > 0);
        self.apart_since = match self.apart_since {
            _ if is_live => None,
            Some(since) => Some(since),
            None => Some(now),
        };
    }

    /// Since when no shard has both parties.
    pub fn apart_since(&self) -> Option<Instant> {
        self.apart_since
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
    pub fn status(&self) -> Option<(MemberStatus, bool)> {
        self.core.as_ref().map(|core| (core.member.status(), core.is_synced))
    }
}

/// For how long routes are used that nobody could take back: as long as routers keep those of a
/// neighbour that restarts, and some more.
pub const AWAY: Duration = Duration::from_secs(300);
