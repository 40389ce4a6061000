//! A shard of a party: the destinations that are its own, and its side of the computations on them.
//!
//! 1. Members announce to both parties. What is heard is held, whether there is a pair or not: a
//!    standby is a shard without one.
//! 2. With a pair (`pair.rs`), party two tells what it has heard, and party one
//!    orders what both do (`pair/lead.rs`, `follow.rs`).
//! 3. Orders change the table at both parties alike, and what the announcers shared of each lane's
//!    key goes to the members (`orders.rs`).
//! 4. After a change, members rank the routes of a destination, and what is best is computed
//!    (`rounds.rs`, `select.rs`); results are shares.
//! 5. Party one has all of it chosen anew, slowly and for
//!    ever, by the load that there is (`sweep.rs`).
//! 6. A member that joins says what it holds, and gets what it lacks (`pair/lead/sync.rs`).
//!
//! Invariant: what is current at one party is current at the other after the same order; whatever
//! contradicts that ends the pair.

#[cfg(test)]
mod deviates;
mod follow;
mod latest;
mod orders;
mod pair;
mod rounds;
mod select;
mod sweep;
pub(crate) mod table;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rhumb_mpc::{Party, Stock};

use crate::circuits::MAX_ROUTES;
use crate::message::Mark;
use crate::message::member::{FromMember, Half, ToMember};
use crate::message::pair::{HeardWhat, Item, PairMessage};
use crate::roster::{Lane, Site};
use crate::route::{Destination, RouteId, Share, is_sealed_len, sealed_digest};
use crate::{ExchangeError, MAX_LANES, ServerConfig};
use orders::Programs;
use pair::Pair;
use rounds::Rounds;
pub(crate) use rounds::ranking_len;
use sweep::Preferences;
use table::{Held, Table};

/// What a shard wants its owner to do.
#[derive(Debug)]
pub enum Output {
    /// Send this to the member, if it is connected; else drop it.
    Member {
        /// Which.
        lane: Lane,
        /// One frame.
        message: Vec<u8>,
    },
    /// Send this to the other party.
    Peer(Vec<u8>),
    /// The pair has ended. Begin another, over a new connection.
    PairFailed(ExchangeError),
    /// What a member told the two parties differs. Close its connection; all others go on.
    MemberFailed {
        /// Which.
        lane: Lane,
        /// What is wrong.
        error: ExchangeError,
    },
}

/// What a shard has done, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Announcements held.
    pub held: usize,
    /// Routes that are current.
    pub current: usize,
    /// Announcements that wait for an order (party one).
    pub waiting: usize,
    /// Rounds under way.
    pub rounds: usize,
    /// Whether there is a pair that computes.
    pub paired: bool,
    /// Triples.
    pub stock: Stock,
    /// Counts since the shard began.
    pub counters: Counters,
}

/// Counts since a shard began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Routes handed out to all members.
    pub exported: u64,
    /// Routes that were refused, beyond a quota.
    pub refused: u64,
    /// Routes replayed to single members.
    pub replayed: u64,
    /// Runs of Select-Best.
    pub select_runs: u64,
    /// Rounds that they gave results of.
    pub selected: u64,
    /// Rankings that came too late, or for no round.
    pub late_rankings: u64,
    /// Lanes that a round went on without.
    pub missed: u64,
    /// Orders of the exchange's preference that were installed.
    pub orders_installed: u64,
    /// Pairs that ended.
    pub pairs_ended: u64,
}

/// What a party takes of a [`Half`].
type OwnHalf = (Share, Box<[u8]>, [u8; 32]);

/// A member as a shard sees it.
#[derive(Clone, Copy, Default)]
struct Connection {
    is_connected: bool,
    participates: bool,
    /// In this pair, by which order; and whether it takes part in rounds.
    joined: Option<(u64, bool)>,
    /// Routes of it that were refused.
    refused: u64,
}

/// A shard of a party.
pub struct Shard {
    party: Party,
    number: u16,
    config: Arc<ServerConfig>,
    connections: Vec<Connection>,
    table: Table,
    rounds: Rounds,
    pair: Option<Pair>,
    programs: Programs,
    /// Party one's preference for each lane as an announcer.
    preferences: Preferences,
    outbox: VecDeque<Output>,
    /// Since when members have said what nothing was done about.
    unheeded: Option<Instant>,
    counters: Counters,
}

impl Shard {
    /// Holds nothing, and has no pair.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::OutOfRange`] if the configuration is.
    pub fn new(
        party: Party,
        number: u16,
        config: Arc<ServerConfig>,
    ) -> Result<Self, ExchangeError> {
        config.check()?;
        let lanes = config.common.roster.lanes();
        Ok(Self {
            party,
            number,
            connections: vec![Connection::default(); lanes],
            table: Table::new(lanes),
            rounds: Rounds::default(),
            pair: None,
            programs: Programs::default(),
            preferences: Preferences::new(lanes),
            outbox: VecDeque::new(),
            unheeded: None,
            counters: Counters::default(),
            config,
        })
    }

    /// A member's connection begins. An earlier one of the same lane has ended.
    pub fn member_joined(&mut self, lane: Lane, participates: bool, now: Instant) {
        if self.connections[lane.index()].is_connected {
            self.member_left(lane, now);
        }
        let connection = &mut self.connections[lane.index()];
        (connection.is_connected, connection.participates) = (true, participates);
        let mark = self.table.last(lane);
        self.tell(lane, &ToMember::Resume { mark });
        match self.party {
            Party::One => self.lane_changed(lane, now),
            Party::Two => self.tell_peer(&PairMessage::Here { lane, participates }),
        }
        self.pump(now);
    }

    /// A member's connection has ended.
    pub fn member_left(&mut self, lane: Lane, now: Instant) {
        self.connections[lane.index()].is_connected = false;
        let is_for =
            |output: &Output| matches!(output, Output::Member { lane: to, .. } if *to == lane);
        self.outbox.retain(|output| !is_for(output));
        match self.party {
            Party::One => self.lane_changed(lane, now),
            Party::Two => self.tell_peer(&PairMessage::Away { lane }),
        }
        self.pump(now);
    }

    /// A message of a connected member for this shard.
    ///
    /// # Errors
    ///
    /// What is wrong with it: the connection must be closed. Nothing else is affected.
    pub fn member_message(
        &mut self,
        lane: Lane,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), ExchangeError> {
        let (shard, message) = FromMember::parse(bytes)?;
        if shard != self.number {
            return Err(ExchangeError::Malformed("it is for another shard"));
        }
        match message {
            FromMember::Announce { mark, nonce, destination, half } => {
                let destination = self.own_destination(destination)?;
                if mark <= self.check_mark(lane, mark)? {
                    return Ok(());
                }
                let (share, sealed, digest) = self.check_half(half)?;
                let id = RouteId::new(lane, &destination, &nonce, &digest);
                let held = Held { id, destination, share, sealed, exported: false, current: None };
                let quota = self.config.quota(self.party, lane);
                if !self.table.has_room(lane, &held.destination, held.bytes(), quota) {
                    self.refuse((lane, mark), &held.destination);
                    self.unheeded = Some(now);
                    return Ok(());
                }
                let most = self.most_waiting(lane) + quota.routes as usize;
                if self.table.len(lane) >= most {
                    return Err(ExchangeError::TooMany {
                        what: "routes of one lane in a shard",
                        most,
                    });
                }
                let before = self.table.last(lane);
                self.table.hear((lane, mark), held, self.pair.is_some())?;
                self.heard(lane, before, mark, HeardWhat::Route(id), None);
            }
            FromMember::Withdraw { mark, destination } => {
                let destination = self.own_destination(destination)?;
                let before = self.check_mark(lane, mark)?;
                if mark <= before {
                    return Ok(());
                }
                self.table.hear_withdrawal((lane, mark), &destination, self.pair.is_some());
                self.heard(lane, before, mark, HeardWhat::Nothing, Some(destination));
            }
            FromMember::End { mark } => {
                let before = self.check_mark(lane, mark)?;
                if mark <= before {
                    return Ok(());
                }
                self.table.hear_end((lane, mark), self.pair.is_some());
                self.heard(lane, before, mark, HeardWhat::Nothing, None);
            }
            FromMember::Holding { tag, sums } => self.take_holding(lane, tag, sums, now),
            FromMember::Ids { tag, bucket, ids } => self.take_ids(lane, tag, bucket, &ids),
            FromMember::Ranking { round, share } => self.take_ranking(lane, round, share, now)?,
            FromMember::Bye => self.take_bye(lane),
            FromMember::Passed { tag } => self.take_passed(lane, tag),
        }
        self.unheeded = Some(now);
        Ok(())
    }

    /// Party one: how much the exchange prefers routes of each lane, 0 to 15, more is better. Once
    /// something was chosen, this comes into force with a pass over all destinations, if it is so
    /// for a whole pass before, and by a margin.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::OutOfRange`] if there is a value above 15, or not one for each lane.
    pub fn set_preferences(&mut self, preferences: &[u8]) -> Result<(), ExchangeError> {
        let lanes = self.connections.len();
        if preferences.len() != lanes {
            let what = "the number of preferences";
            return Err(ExchangeError::OutOfRange { what, least: lanes, most: lanes });
        }
        let most = (1 << crate::circuits::LOAD_BITS) - 1;
        if preferences.iter().any(|preference| *preference > most) {
            let what = "a preference";
            return Err(ExchangeError::OutOfRange { what, least: 0, most: usize::from(most) });
        }
        self.preferences.want(preferences, self.counters.select_runs == 0);
        Ok(())
    }

    /// Another roster from now on, which extends the former one. With more lanes a pair
    /// has ended: the other party must have the roster, too, before another can begin.
    /// What is held stays, and so do connections.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Roster`] if it does not extend the former one;
    /// [`ExchangeError::Unexpected`] if something else has changed that both parties must have
    /// alike; [`ExchangeError::OutOfRange`]. Then nothing has changed.
    pub fn set_roster(
        &mut self,
        config: Arc<ServerConfig>,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        config.check()?;
        let (common, former) = (&config.common, &self.config.common);
        if !common.roster.extends(&former.roster) {
            return Err(ExchangeError::Roster);
        }
        if (common.shards, common.form, config.engine)
            != (former.shards, former.form, self.config.engine)
        {
            return Err(ExchangeError::Unexpected("another change than of the roster"));
        }
        let lanes = common.roster.lanes();
        if lanes > former.roster.lanes() {
            self.end_pair();
            self.connections.resize(lanes, Connection::default());
            self.preferences.extend(lanes);
            self.table.extend(lanes);
        }
        self.config = config;
        self.pump(now);
        Ok(())
    }

    /// What to do next. To be called until there is nothing, after each other call, or after
    /// several messages of members: what they say at once is ordered at once.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outbox.is_empty() {
            if let Some(now) = self.unheeded {
                self.pump(now);
            }
            self.tell_heard();
        }
        self.outbox.pop_front()
    }

    /// The site that a lane is.
    #[must_use]
    pub fn site(&self, lane: Lane) -> Option<&Site> {
        self.config.common.roster.site(lane)
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What it has done, and holds. Counts what it holds, so not for every message.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            held: self.table.total_held(),
            current: self.table.total_current(),
            waiting: self.pair.as_ref().map_or(0, Pair::waiting),
            rounds: self.rounds.len(),
            paired: self.pair.as_ref().is_some_and(Pair::is_ready),
            stock: self.pair.as_ref().map_or(Stock::default(), Pair::stock),
            counters: self.counters,
        }
    }

    fn own_destination(&self, bytes: &[u8]) -> Result<Destination, ExchangeError> {
        let destination = Destination::new(bytes)?;
        if self.config.common.shard_of(&destination) != self.number {
            return Err(ExchangeError::Malformed("its destination is another shard's"));
        }
        Ok(destination)
    }

    /// Gives the lane's highest mark so far. A mark that is not above it was heard before.
    fn check_mark(&self, lane: Lane, mark: Mark) -> Result<Mark, ExchangeError> {
        if mark.number == 0 || mark.incarnation == 0 {
            return Err(ExchangeError::Malformed("a mark of zero"));
        }
        let last = self.table.last(lane);
        if mark.incarnation < last.incarnation {
            return Err(ExchangeError::Unexpected(
                "a word of a process that a later one has replaced",
            ));
        }
        let most = self.most_waiting(lane);
        if self.pair.as_ref().is_some_and(|pair| pair.waiting_of(lane) >= most) {
            return Err(ExchangeError::TooMany { what: "words of one lane that wait", most });
        }
        Ok(last)
    }

    /// This party's half of a route: its share, the sealed route if it has it, and its digest.
    fn check_half(&self, half: Half<'_>) -> Result<OwnHalf, ExchangeError> {
        match (half, self.party) {
            (Half::One { seed, lanes, sealed }, Party::One) => {
                if !is_sealed_len(sealed.len()) {
                    return Err(ExchangeError::Malformed("the length of a sealed route"));
                }
                check_lanes(lanes.into())?;
                Ok((Share::Seed { seed, lanes }, sealed.into(), sealed_digest(sealed)))
            }
            (Half::Two { sealed, policy, keys }, Party::Two) => {
                check_lanes(keys.len())?;
                if policy.len() != keys.len().div_ceil(64) {
                    return Err(ExchangeError::Malformed("the length of a policy"));
                }
                let (policy, keys) = (policy.into(), keys.into());
                Ok((Share::Masked { policy, keys }, Box::default(), sealed))
            }
            _ => Err(ExchangeError::Malformed("the half for the other party")),
        }
    }

    /// Words of a lane that may wait: a full table, announced and taken back, and some of a few
    /// routes that change again and again.
    fn most_waiting(&self, lane: Lane) -> usize {
        2 * self.config.quota(self.party, lane).routes as usize + MORE_WAITING
    }

    /// A route that is beyond its lane's quota is held nowhere; what it would
    /// have replaced is gone. The member is told.
    fn refuse(&mut self, item: Item, destination: &Destination) {
        let (lane, mark) = item;
        let before = self.table.last(lane);
        let had = self.table.refuse(item, destination, self.pair.is_some());
        match self.party {
            Party::One => self.lead_refused(item, before, had.then(|| destination.clone())),
            Party::Two => self.note_heard(item, HeardWhat::Refused),
        }
        self.tell_refused(lane, mark);
    }

    fn tell_refused(&mut self, lane: Lane, mark: Mark) {
        self.counters.refused += 1;
        self.connections[lane.index()].refused += 1;
        self.tell(lane, &ToMember::Refused { mark });
    }

    /// Routes that were refused since the shard began, by lane, if there are any.
    pub fn refused(&self) -> impl Iterator<Item = (Lane, u64)> + '_ {
        let lanes = (0..).map(Lane).zip(&self.connections);
        lanes.map(|(lane, it)| (lane, it.refused)).filter(|(_, refused)| *refused > 0)
    }

    /// Something has been heard and is in the table.
    fn heard(
        &mut self,
        lane: Lane,
        before: Mark,
        mark: Mark,
        what: HeardWhat,
        withdrawn: Option<Destination>,
    ) {
        match self.party {
            Party::One => self.lead_heard(lane, before, mark, what, withdrawn),
            Party::Two => self.note_heard((lane, mark), what),
        }
    }

    fn tell(&mut self, lane: Lane, message: &ToMember<'_>) {
        if self.connections[lane.index()].is_connected {
            let message = message.emit(self.number);
            self.outbox.push_back(Output::Member { lane, message });
        }
    }

    /// Nothing without a pair.
    fn tell_peer(&mut self, message: &PairMessage<'_>) {
        if self.pair.is_some() {
            self.outbox.push_back(Output::Peer(message.emit(self.number)));
        }
    }

    /// Lanes that get what is computed.
    fn joined(&self) -> impl Iterator<Item = Lane> + use<> {
        let joined: Vec<Lane> = self
            .connections
            .iter()
            .enumerate()
            .filter(|(_, connection)| connection.joined.is_some())
            .map(|(lane, _)| Lane(lane as u16))
            .collect();
        joined.into_iter()
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({:?}, {}, {:?})", self.party, self.number, self.status())
    }
}

/// Words of a lane that may wait beside twice its quota.
const MORE_WAITING: usize = 256;

fn check_lanes(lanes: usize) -> Result<(), ExchangeError> {
    if (1..=MAX_LANES).contains(&lanes) {
        return Ok(());
    }
    Err(ExchangeError::Malformed("the number of lanes of a share"))
}

/// Routes of a destination that a round compares; more are left to the members' own ranking. The
/// paper's circuit has a place less.
const MAX_COMPARED: usize = MAX_ROUTES - 1;
