//! Which of several a PDU goes to: the nearest that is there.
//!
//! A name may have several servers, and a domain several borders; each is a way of its own.
//!
//! 1. All ways are looked at, so that there are sessions to measure. Where we are named in one, it
//!    goes before those that lead elsewhere: whoever named us has chosen already.
//! 2. Ways by different neighbours of a domain go in the order in which the RIB tells them, which
//!    is that of its rules. Of the others, the one whose next hop answers soonest. A flow stays
//!    where it is unless another one is clearly nearer ([`STAYS`]).
//! 3. Who leaves three questions unanswered, after 550 ms of silence, is suspected: flows go by
//!    others while he is.
//! 4. Who says that a name is unreachable by him is asked last for a while ([`SHUNNED_FOR`]).
//!
//! INVARIANT: nothing that one next hop says or leaves unsaid ends a way by another one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_directory::{Question, Table};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, Now};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Name, Statement};

use crate::changes::Grounds;
use crate::flows::flow_key;
use crate::next_hop::{NextHop, Stop};
use crate::routes::Found;
use crate::tables::{Other, Way};
use crate::{DropReason, Switch};

/// What is known of next hops that are alike.
pub(crate) struct Nearness {
    /// Next hops that are being connected to or measured, and for which destinations.
    expected: HashMap<Name, Expected>,
    /// Until when who counts as one by whom a destination is unreachable.
    shunned: Table<(Name, SessionId), Instant>,
    /// When to look whether something has been measured.
    look_at: Option<Instant>,
}

/// A next hop of which it is not known yet how near it is.
struct Expected {
    destinations: Vec<Name>,
    until: Instant,
}

impl Nearness {
    pub(crate) fn new() -> Self {
        Self { expected: HashMap::new(), shunned: Table::new(MAX_SHUNNED), look_at: None }
    }

    /// It is not known yet how near a next hop is, which a destination has others beside.
    fn expect(&mut self, hop: Name, destination: Name, now: Instant) {
        if self.expected.len() >= MAX_EXPECTED && !self.expected.contains_key(&hop) {
            return;
        }
        self.look_at.get_or_insert(now + MEASURED_EVERY);
        let fresh = || Expected { destinations: Vec::new(), until: now + EXPECTED_FOR };
        let expected = self.expected.entry(hop).or_insert_with(fresh);
        if expected.destinations.len() < MAX_DESTINATIONS
            && !expected.destinations.contains(&destination)
        {
            expected.destinations.push(destination);
        }
    }

    /// When to look whether something has been measured.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.look_at.filter(|_| !self.expected.is_empty())
    }
}

impl Switch {
    /// The next hop towards a destination that several ways lead to.
    pub(crate) fn nearest_way(
        &mut self,
        names: (Name, Name),
        way: Way,
        (from, grounds): (SessionId, Grounds),
        now: Now,
    ) -> Result<NextHop, Stop> {
        let Way { chain, level, flow_until: until, mut others, .. } = way;
        others.insert(0, Other { chain, level, until });
        let (own, destination) = (self.name(), names.1);
        let mut nearest: Option<((bool, bool, usize, Duration), NextHop)> = None;
        let mut why_not = None;
        let groups: Vec<Vec<Name>> = others.iter().map(|it| neighbours_on(&it.chain)).collect();
        for (Other { chain, level, until }, group) in others.into_iter().zip(&groups) {
            let named_us = chain.toward_origin(own);
            let hop = named_us.or(chain.last_router()).unwrap_or(destination);
            match self.next_hop_by((&chain, level, until), names, (from, grounds), now) {
                Ok(next) => {
                    let is_shunned = self.is_avoided(destination, next.session, now);
                    let distance = self.distance(names, next.session, now);
                    let order = groups.iter().position(|it| it == group).unwrap_or(0);
                    let rank = (is_shunned, named_us.is_none(), order, distance);
                    if nearest.as_ref().is_none_or(|(least, _)| rank < *least) {
                        nearest = Some((rank, next));
                    }
                }
                Err(stop) => {
                    if self.plane.session_of(&hop).is_none() {
                        self.peering.nearness.expect(hop, destination, now.instant);
                    }
                    why_not.get_or_insert(stop);
                }
            }
        }
        let Some((_, next)) = nearest else { return Err(why_not.unwrap_or_else(nobody)) };
        let until = next.until.min(now.instant + LOOK_AROUND_AFTER);
        Ok(NextHop { until, ..next })
    }

    /// The nearest of those who answer for a destination here; elsewhere, if all of these are to be
    /// avoided.
    pub(crate) fn nearest_server(
        &mut self,
        names: (Name, Name),
        servers: Vec<(SessionId, Instant)>,
        (from, grounds): (SessionId, Grounds),
        now: Now,
    ) -> Result<NextHop, Stop> {
        let rank = |switch: &mut Self, session| {
            let is_shunned = switch.is_avoided(names.1, session, now);
            (is_shunned, switch.distance(names, session, now))
        };
        let servers: Vec<_> = servers.into_iter().map(|it| (rank(self, it.0), it)).collect();
        let nearest = servers.into_iter().min_by_key(|(rank, _)| *rank);
        let ((is_avoided, _), (session, until)) = nearest.ok_or_else(nobody)?;
        let here = NextHop { session, until, last: true, grounds, level: 0 };
        if !is_avoided {
            return Ok(here);
        }
        match self.routes.find_elsewhere(&names.1, now.instant) {
            Found::Way(way) => {
                self.ask_for_other(from, (names.1, way.wants_other), now);
                self.nearest_way(names, way, (from, grounds), now).or(Ok(here))
            }
            Found::Unknown => Err(self.ask_for_way(from, names.1, now)),
            _ => Ok(here),
        }
    }

    /// How long a next hop takes to answer; less for the one that has the flow. It is asked, if it
    /// never was.
    fn distance(
        &mut self,
        (source, destination): (Name, Name),
        session: SessionId,
        now: Now,
    ) -> Duration {
        let Some(round_trip) = self.plane.link().round_trip(session) else {
            self.plane.link_mut().ask(session, now.instant);
            if let Some(hop) = self.plane.peer(session).map(|peer| peer.name) {
                self.peering.nearness.expect(hop, destination, now.instant);
            }
            return UNKNOWN;
        };
        let flow = self.plane.flows().peek(&flow_key(source, destination));
        match flow.is_some_and(|flow| flow.next == session) {
            true => round_trip.mul_f32(STAYS),
            false => round_trip,
        }
    }

    /// Flows are looked into again when more is known of the next hops that they may have.
    pub(crate) fn note_measured(&mut self, now: Now) {
        if self.peering.nearness.poll_timeout().is_none_or(|at| at > now.instant) {
            return;
        }
        self.peering.nearness.look_at = Some(now.instant + MEASURED_EVERY);
        let expected = &self.peering.nearness.expected;
        let is_known = |hop: &Name| {
            let session = self.plane.session_of(hop);
            session.is_some_and(|session| self.plane.link().round_trip(session).is_some())
        };
        let known: Vec<Name> = expected.keys().filter(|hop| is_known(hop)).copied().collect();
        for hop in known {
            let expected = self.peering.nearness.expected.remove(&hop);
            for destination in expected.iter().flat_map(|it| &it.destinations) {
                self.routes.changed(destination);
            }
        }
        self.peering.nearness.expected.retain(|_, expected| expected.until > now.instant);
    }

    /// A router that was expected is there: perhaps it is the first of several.
    pub(crate) fn note_expected(&mut self, hop: &Name) {
        let expected = self.peering.nearness.expected.get(hop);
        let destinations = expected.map_or(Vec::new(), |it| it.destinations.clone());
        for destination in destinations {
            self.routes.changed(&destination);
        }
    }

    /// A next hop says of a destination that it is unreachable. Whether it is to be
    /// tried by another one, which there is.
    pub(crate) fn goes_elsewhere(
        &mut self,
        (source, destination): (Name, Name),
        (ingress, next): (SessionId, SessionId),
        now: Now,
    ) -> bool {
        if !self.has_several(&destination, now) {
            return false;
        }
        let until = now.instant + SHUNNED_FOR;
        self.peering.nearness.shunned.insert((destination, next), until);
        let other = self.next_hop((source, destination), ingress, now);
        let is_better = other.is_ok_and(|other| {
            other.session != next && !self.is_avoided(destination, other.session, now)
        });
        if is_better {
            self.routes.changed(&destination);
        }
        is_better
    }

    /// Whether several ways lead to a destination, or to the border behind which it is.
    fn has_several(&mut self, destination: &Name, now: Now) -> bool {
        match self.routes.find(destination, now.instant) {
            Found::AttachedBySeveral(_) => true,
            Found::Way(Way { others, .. }) if !others.is_empty() => true,
            Found::Way(Way { level, .. }) => {
                let gateway = self.gateway(level).filter(|gateway| gateway != destination);
                gateway.is_some_and(|gateway| self.has_several(&gateway, now))
            }
            _ => false,
        }
    }

    /// A session's peer is suspected: flows that go there are looked into again.
    pub(crate) fn note_suspected(&mut self, session: SessionId) {
        if let Some(peer) = self.plane.peer(session).map(|peer| peer.name) {
            self.routes.changed(&peer);
        }
    }

    /// Whether another next hop is better for a destination, however far it is.
    fn is_avoided(&mut self, destination: Name, session: SessionId, now: Now) -> bool {
        self.plane.link().is_suspected(session) || self.is_shunned(destination, session, now)
    }

    fn is_shunned(&mut self, destination: Name, session: SessionId, now: Now) -> bool {
        self.peering.nearness.shunned.current(&(destination, session), now.instant).is_some()
    }

    /// Asks RIBs for another way, if there are several and not all are known.
    pub(crate) fn ask_for_other(
        &mut self,
        from: SessionId,
        (destination, number): (Name, Option<u8>),
        now: Now,
    ) {
        if let Some(number) = number {
            self.ask(from, Question::way(destination, number), now);
            self.flush_requests(now);
        }
    }
}

/// The neighbours of domains by which a way leads where a domain has several.
fn neighbours_on(chain: &Chain) -> Vec<Name> {
    let certificates = chain.certificates().iter().map(|it| it.statement);
    certificates.filter(Statement::is_one_of_several).filter_map(|it| it.exports_by()).collect()
}

/// None of several is left.
fn nobody() -> Stop {
    Stop::new(DropReason::Unreachable, Reason::Unreachable(RETRY_ELSEWHERE_MS))
}

/// Of a session whose peer was never asked: longer than any way on earth.
const UNKNOWN: Duration = Duration::from_secs(1);
/// A flow moves to who is nearer by so much.
const STAYS: f32 = 0.7;
/// Somebody nearer may be back of whom nobody told.
const LOOK_AROUND_AFTER: Duration = Duration::from_secs(10);
/// Who said so may have heard meanwhile that it is otherwise.
const SHUNNED_FOR: Duration = Duration::from_secs(5);
/// 1 MB when full.
const MAX_SHUNNED: usize = 1 << 12;
/// Next hops that are expected at once, each for some seconds.
const MAX_EXPECTED: usize = 1024;
const MAX_DESTINATIONS: usize = 64;
/// A handshake, and what it takes to be tried twice.
const EXPECTED_FOR: Duration = Duration::from_secs(5);
const MEASURED_EVERY: Duration = Duration::from_millis(20);
/// As long as any other try.
const RETRY_ELSEWHERE_MS: u16 = 200;
