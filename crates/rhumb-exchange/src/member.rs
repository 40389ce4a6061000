//! A member's side: what it announces to both parties, and what it makes of their halves.
//!
//! 1. Each connection to a party begins with hellos in both directions ([`Member::connected`]).
//! 2. The party says how far it has heard this member; from there on it gets the member's words
//!    (`words.rs`), as fast as it takes them.
//! 3. Once both parties of a pair have marked the same place, the member says what it holds, and
//!    gets what it lacks (`streams.rs`).
//! 4. Halves that both parties send under the same tag are put
//!    together. What opens to a key opens a route.
//! 5. Asked to, the member ranks what it holds of a destination, and gets a result (`rounds.rs`).
//!
//! Invariant: nothing is installed that did not come from both parties of the same pair, for the
//! same order, under the same id.

pub(crate) mod rounds;
mod streams;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rhumb_mpc::Party;

use crate::coins::Coins;
use crate::config::Common;
use crate::message::Tag;
use crate::message::hello::{Hello, Speaker};
use crate::message::member::{FromMember, ToMember};
use crate::roster::{Lane, LaneSet};
use crate::route::{Destination, Route, RouteId};
use crate::{ExchangeError, MAX_ROUTES_PER_LANE, Roster};
use streams::{Stream, Waiting};
use words::Words;

/// A connection to a server, numbered by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u32);

/// A round of Select-Best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Round {
    shard: u16,
    tag: Tag,
}

/// A route to rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: RouteId,
    /// Who announced it, as the announcer says.
    pub from: Lane,
}

/// What a member learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A route that this member may have.
    Offered {
        /// Where it leads.
        destination: Destination,
        /// Who announced it, as the announcer says.
        from: Lane,
        /// Its id.
        id: RouteId,
        /// What it is.
        route: Route,
        /// The route in whose place it comes.
        replaces: Option<RouteId>,
    },
    /// A route is no more. If it was in use, the member's own
    /// ranking says what is until the next selection.
    Retracted {
        /// Where it led.
        destination: Destination,
        /// Who had announced it.
        from: Lane,
        /// Its id.
        id: RouteId,
    },
    /// Rank these, by [`Member::rank`], also if there are none: so that nobody sees which
    /// destinations this member has routes to.
    Rank {
        /// The round.
        round: Round,
        /// Where the routes lead, if there are any.
        destination: Option<Destination>,
        /// The routes.
        candidates: Vec<Candidate>,
    },
    /// The result of a round: the best route, or that there is none.
    Selected {
        /// Where it leads.
        destination: Destination,
        /// The route to use.
        id: Option<RouteId>,
    },
    /// A round went on without this member, or its result was none: its own ranking stands.
    Missed {
        /// Where its routes lead.
        destination: Destination,
    },
    /// All that the exchange had when this member joined is here.
    Synced,
}

/// What a member has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberStatus {
    /// Routes that it announces.
    pub announced: usize,
    /// Of these, routes that a server refused: they are beyond
    /// this member's quota, and nobody gets them.
    pub refused: usize,
    /// Routes of others that it may have.
    pub routes: usize,
    /// Ids of announcements that it knows, with those that it may not have.
    pub known: usize,
    /// Shards in which both parties of a pair have marked the same place.
    pub live_shards: usize,
    /// Of these, shards in which all that the exchange has is here.
    pub synced_shards: usize,
    /// Announcements whose key opened nothing: the fault of the
    /// announcer, or of a party that altered its share.
    pub unopened: u64,
    /// Results that the parties did not make together.
    pub inconsistent: u64,
    /// Messages of pairs that are no more, or out of their order.
    pub stale: u64,
    /// Lanes of the roster of the last server that said hello: more than the member's own say that
    /// there is another roster to be had.
    pub server_lanes: usize,
}

/// A member of the exchange.
pub struct Member {
    common: Common,
    lane: Lane,
    participates: bool,
    coins: Coins,
    links: BTreeMap<Connection, Link>,
    shards: Vec<MemberShard>,
    events: VecDeque<Event>,
    status: MemberStatus,
}

/// A connection.
struct Link {
    party: Party,
    /// The other side has said hello, and it was right.
    is_met: bool,
    outbox: VecDeque<Vec<u8>>,
    /// For each shard, the number of the last word that it
    /// has or was sent; none before it has said so.
    cursors: Vec<Option<u64>>,
    /// Shards take turns.
    next_shard: usize,
    streams: Vec<Stream>,
}

/// What belongs to a shard.
struct MemberShard {
    words: Words,
    holdings: streams::Holdings,
    rounds: rounds::MemberRounds,
    live: Option<Live>,
    is_synced: bool,
}

/// The connections whose parties are a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Live {
    one: Connection,
    two: Connection,
    epoch: u64,
}

impl Member {
    /// Has no connection, and announces nothing. The seed is fresh from the
    /// system's generator. The incarnation is greater than that of any process of
    /// this lane before, such as the time in milliseconds.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::OutOfRange`]; [`ExchangeError::Policy`] if the roster has no such lane.
    pub fn new(
        common: Common,
        lane: Lane,
        participates: bool,
        incarnation: u64,
        seed: [u8; 32],
    ) -> Result<Self, ExchangeError> {
        common.check()?;
        if common.roster.site(lane).is_none() {
            return Err(ExchangeError::Policy { lane, lanes: common.roster.lanes() });
        }
        let shards = 0..common.shards;
        let shards = shards.map(|_| MemberShard {
            words: Words::new(incarnation.max(1)),
            holdings: streams::Holdings::default(),
            rounds: rounds::MemberRounds::default(),
            live: None,
            is_synced: false,
        });
        Ok(Self {
            shards: shards.collect(),
            common,
            lane,
            participates,
            coins: Coins::new(seed),
            links: BTreeMap::new(),
            events: VecDeque::new(),
            status: MemberStatus::default(),
        })
    }

    /// Another roster from now on, which extends the former one. Connections, announcements and
    /// what is held stay; servers need not have it yet.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Roster`] if it does not extend the former one.
    pub fn set_roster(&mut self, roster: Arc<Roster>) -> Result<(), ExchangeError> {
        if !roster.extends(&self.common.roster) {
            return Err(ExchangeError::Roster);
        }
        self.common.roster = roster;
        Ok(())
    }

    /// A connection to a server of this party has begun.
    /// An earlier one of the same number has ended.
    pub fn connected(&mut self, connection: Connection, party: Party) {
        self.disconnected(connection);
        let speaker = Speaker::Member { lane: self.lane, participates: self.participates };
        let hello = self.common.hello(speaker).emit();
        let link = Link {
            party,
            is_met: false,
            outbox: VecDeque::from([hello]),
            cursors: vec![None; self.shards.len()],
            next_shard: 0,
            streams: self.shards.iter().map(|_| Stream::default()).collect(),
        };
        self.links.insert(connection, link);
    }

    /// A connection has ended. What is held stays, until another pair says otherwise.
    pub fn disconnected(&mut self, connection: Connection) {
        self.links.remove(&connection);
        for shard in &mut self.shards {
            if shard.live.is_some_and(|live| live.one == connection || live.two == connection) {
                shard.live = None;
                shard.rounds.clear();
            }
        }
    }

    /// A message of a server.
    ///
    /// # Errors
    ///
    /// What is wrong with it: the connection must be closed, and [`Member::disconnected`] called.
    pub fn handle(&mut self, connection: Connection, bytes: &[u8]) -> Result<(), ExchangeError> {
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        if !link.is_met {
            let theirs = Hello::parse(bytes)?;
            self.common.check_alike(&theirs)?;
            return match theirs.speaker {
                Speaker::Party { party, .. } if party == link.party => {
                    link.is_met = true;
                    self.status.server_lanes = theirs.lanes.into();
                    Ok(())
                }
                Speaker::Party { .. } => {
                    Err(ExchangeError::Speaker("is the other party than was expected"))
                }
                Speaker::Member { .. } => {
                    Err(ExchangeError::Speaker("is a member, and should be a party"))
                }
            };
        }
        let (shard, message) = ToMember::parse(bytes)?;
        let at = usize::from(shard);
        if at >= self.shards.len() {
            return Err(ExchangeError::Malformed("it is for a shard that is not there"));
        }
        match (message, link.party) {
            (ToMember::Resume { mark }, _) => self.resume(connection, at, mark)?,
            (ToMember::Refused { mark }, _) => self.shards[at].words.refused(mark),
            (ToMember::Joined { tag }, _) => self.joined(connection, at, tag),
            (ToMember::Ask { round, ids }, _) => self.take_ask(connection, at, round, ids)?,
            (ToMember::Result { round, share }, _) => {
                self.take_result(connection, at, round, share);
            }
            (ToMember::Shares { tag, shares }, Party::Two) => {
                self.take_shares(connection, at, tag, shares)?;
            }
            (ToMember::Offers { tag, offers }, Party::One) => {
                self.take_offers(connection, at, tag, &offers)?;
            }
            (ToMember::Retract { tag, ids }, Party::One) => {
                self.take_in_turn(connection, at, tag, Waiting::Retract(ids))?;
            }
            (ToMember::Wanted { tag, buckets }, Party::One) => {
                self.answer_wanted(connection, at, tag, &buckets);
            }
            (ToMember::Synced { tag }, Party::One) => {
                self.take_in_turn(connection, at, tag, Waiting::Synced)?;
            }
            (ToMember::Milestone { tag }, Party::One) => {
                self.take_in_turn(connection, at, tag, Waiting::Milestone)?;
            }
            (ToMember::Missed { round }, Party::One) => self.take_missed(connection, at, round),
            _ => return Err(ExchangeError::Unexpected("a message of the other party")),
        }
        self.advance(at);
        Ok(())
    }

    /// The next message for a server that follows from what servers have said: how late it is sent
    /// may tell what this member thinks.
    pub fn poll_answer(&mut self, connection: Connection) -> Option<Vec<u8>> {
        self.links.get_mut(&connection)?.outbox.pop_front()
    }

    /// The next message for a server, answers first. Words are made when they are asked for, so
    /// take no more than the connection does.
    pub fn poll_message(&mut self, connection: Connection) -> Option<Vec<u8>> {
        let link = self.links.get_mut(&connection)?;
        if let Some(message) = link.outbox.pop_front() {
            return Some(message);
        }
        for _ in 0..self.shards.len() {
            let at = link.next_shard;
            link.next_shard = (at + 1) % self.shards.len();
            let Some(cursor) = &mut link.cursors[at] else { continue };
            if let Some((number, message)) =
                self.shards[at].words.next(*cursor, link.party, at as u16)
            {
                *cursor = number;
                return Some(message);
            }
        }
        None
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Announces a route to those whom the policy has, in place of an earlier one to the same
    /// destination. Its own lane is left out.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Policy`] if the policy was made for another number of lanes;
    /// [`ExchangeError::TooMany`] above [`MAX_ROUTES_PER_LANE`].
    pub fn announce(
        &mut self,
        destination: &Destination,
        policy: &LaneSet,
        route: &Route,
    ) -> Result<RouteId, ExchangeError> {
        let lanes = self.common.roster.lanes();
        if policy.words().len() != self.common.roster.words() {
            return Err(ExchangeError::Policy { lane: Lane(lanes as u16), lanes });
        }
        let shard = usize::from(self.common.shard_of(destination));
        let words = &mut self.shards[shard].words;
        if words.announced() >= MAX_ROUTES_PER_LANE {
            let what = "routes of one lane in a shard";
            return Err(ExchangeError::TooMany { what, most: MAX_ROUTES_PER_LANE });
        }
        let mut policy = policy.clone();
        policy.remove(self.lane);
        let policy = (policy, lanes as u16);
        Ok(words.announce(self.lane, destination, policy, route, &mut self.coins))
    }

    /// Takes a route back; false if there was none.
    pub fn withdraw(&mut self, destination: &Destination) -> bool {
        let at = usize::from(self.common.shard_of(destination));
        let words = &mut self.shards[at].words;
        let makes_room = !words.is_refused(destination);
        let was_there = words.withdraw(destination);
        if was_there && makes_room {
            words.say_refused_again(self.lane, &mut self.coins);
        }
        if words.is_crowded() {
            self.say_anew(at);
        }
        was_there
    }

    /// All that the member announces at first has been announced: what an
    /// earlier process of it did besides is gone.
    pub fn end_of_table(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.words.end());
    }

    /// Leaves, and all its routes with it. Messages to the servers come
    /// of it; then the connections can be closed.
    pub fn leave(&mut self) {
        for (at, shard) in self.shards.iter_mut().enumerate() {
            shard.words = Words::new(shard.words.incarnation() + 1);
            for link in self.links.values_mut().filter(|link| link.is_met) {
                link.cursors[at] = link.cursors[at].map(|_| 0);
                link.outbox.push_back(FromMember::Bye.emit(at as u16));
            }
        }
    }

    /// What it has.
    #[must_use]
    pub fn status(&self) -> MemberStatus {
        let mut status = self.status;
        for shard in &self.shards {
            status.announced += shard.words.announced();
            status.refused += shard.words.refused_count();
            status.routes += shard.holdings.routes();
            status.known += shard.holdings.known();
            status.live_shards += usize::from(shard.live.is_some());
            status.synced_shards += usize::from(shard.live.is_some() && shard.is_synced);
        }
        status
    }

    fn send(&mut self, connection: Connection, shard: usize, message: &FromMember<'_>) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.outbox.push_back(message.emit(shard as u16));
        }
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({:?}, {:?})", self.lane, self.status())
    }
}
