//! Step 2 of the slow path: where a destination is from here, or what its source is told.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_directory::Question;
use rhumb_link::SessionId;
use rhumb_trust::{Chain, Now};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Name, Role, Scope};

use crate::changes::Grounds;
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::reach::NoWay;
use crate::routes::Found;
use crate::{DropReason, Switch};

/// Where a PDU goes from here.
pub(crate) struct NextHop {
    pub(crate) session: SessionId,
    pub(crate) until: Instant,
    /// The next hop is the destination itself, which wants no certificates.
    pub(crate) last: bool,
    /// What the way there rests on.
    pub(crate) grounds: Grounds,
    /// How many domains further out it was found.
    pub(crate) level: u8,
}

/// Why a PDU does not go on, and what its source is told.
pub(crate) struct Stop {
    pub(crate) drop: DropReason,
    pub(crate) nack: Reason,
}

impl NextHop {
    /// The same for what is beyond it, so many domains further out, by a way that is to be asked
    /// for again at `until` and rests on these grounds.
    fn toward(mut self, level: u8, until: Instant, grounds: Grounds) -> Self {
        self.grounds.merge(grounds);
        Self { until: self.until.min(until), last: false, level, ..self }
    }
}

impl Stop {
    pub(crate) fn new(drop: DropReason, nack: Reason) -> Self {
        Self { drop, nack }
    }

    pub(crate) fn gone() -> Self {
        Self::new(DropReason::NextHopGone, Reason::NotYet(RETRY_WHEN_BUSY_MS))
    }
}

impl Switch {
    /// Where a destination is from here.
    pub(crate) fn next_hop(
        &mut self,
        (source, destination): (Name, Name),
        from: SessionId,
        now: Now,
    ) -> Result<NextHop, Stop> {
        let grounds = Grounds::on(self.routes.seen().changes.of(&destination));
        match self.routes.find(&destination, now.instant) {
            Found::Attached { session, until, scope } => {
                let next = NextHop { session, until, last: true, grounds, level: 0 };
                is_within(scope, source).then_some(next).ok_or_else(|| self.out_of_scope(from))
            }
            Found::AttachedBySeveral(servers) => {
                self.nearest_server((source, destination), servers, (from, grounds), now)
            }
            Found::Way(way) => {
                if way.wants_refresh {
                    self.refresh(destination, now);
                }
                self.ask_for_other(from, (destination, way.wants_other), now);
                if !way.others.is_empty() {
                    return self.nearest_way((source, destination), way, (from, grounds), now);
                }
                let way = (&**way.chain, way.level, way.flow_until);
                self.next_hop_by(way, (source, destination), (from, grounds), now)
            }
            Found::AbsentUntil(until) => {
                let left = until.saturating_duration_since(now.instant).as_millis();
                Err(unreachable(u16::try_from(left).unwrap_or(u16::MAX)))
            }
            Found::Unknown => Err(self.ask_for_way(from, destination, now)),
        }
    }

    /// Asks RIBs where a destination is. What its source is told meanwhile.
    pub(crate) fn ask_for_way(&mut self, from: SessionId, destination: Name, now: Now) -> Stop {
        let asked = self.ask(from, Question::Route(destination), now);
        self.flush_requests(now);
        let takes_ms = self.look_up_takes_ms();
        let ms = if asked { takes_ms } else { RETRY_WHEN_BUSY_MS };
        Stop::new(DropReason::RoutePending, Reason::NotYet(ms))
    }

    /// The same by one way, which is to be asked for again at `until`.
    pub(crate) fn next_hop_by(
        &mut self,
        (chain, level, until): (&Chain, u8, Instant),
        (source, destination): (Name, Name),
        (from, mut grounds): (SessionId, Grounds),
        now: Now,
    ) -> Result<NextHop, Stop> {
        if !chain.permits(source) {
            return Err(self.out_of_scope(from));
        }
        self.rest_on(chain, &mut grounds);
        if let Some(gateway) = self.gateway(level).filter(|it| *it != destination) {
            let border = self.next_hop((source, gateway), from, now);
            return border.map(|it| it.toward(level, until, grounds));
        }
        // A router that is itself in the chain hands on to whoever named
        // it; any other starts at the far end. An address alone: the
        // destination is a router that is reached directly.
        let hop = chain.toward_origin(self.name()).or(chain.last_router());
        let is_direct = hop.is_none();
        let hop = hop.unwrap_or(destination);
        let holder = chain.holder();
        if hop == holder {
            if let Found::Attached { session, scope, .. } = self.routes.find(&holder, now.instant)
                && is_within(scope, source)
            {
                return Ok(NextHop { session, until, last: true, grounds, level });
            }
            let neighbour = self.plane.session_of(&holder).and_then(|s| self.plane.peer(s));
            let is_router = neighbour.is_some_and(|peer| peer.metadata.role == Role::Router);
            // The holder named us, but is not attached: it left, or has not
            // joined again yet. Routers need not join.
            if !is_router && !is_direct {
                self.doubt(destination, from, now);
                return Err(unreachable(RETRY_WHEN_BUSY_MS));
            }
        }
        match (self.plane.session_of(&hop), chain.locator()) {
            (Some(session), _) if session != from => {
                Ok(NextHop { session, until, last: false, grounds, level })
            }
            (None, Some(address)) => Err(self.dial_for(hop, address.address(), from, now)),
            _ => {
                self.doubt(destination, from, now);
                Err(unreachable(RETRY_WHEN_BUSY_MS))
            }
        }
    }

    /// Asks the RIB whether a route has a newer lease; later, if nobody can be asked now.
    fn refresh(&mut self, destination: Name, now: Now) {
        if !self.directory.look_up_route(destination, now.instant) {
            let tables = self.routes.tables();
            tables.postpone_refresh(&destination, now.instant + REFRESH_AGAIN_AFTER);
        }
        self.flush_requests(now);
    }

    /// Somebody says that the way to a name leads nowhere, about a PDU that came
    /// in on `from`: RIBs are asked for a newer one, at that session's expense.
    /// Until they know one, the way is used as before.
    pub(crate) fn doubt(&mut self, destination: Name, from: SessionId, now: Now) {
        if self.directory.is_worth_asking(destination, now.instant) {
            self.ask(from, Question::Route(destination), now);
            self.flush_requests(now);
        }
    }

    /// Connects to a next hop. What is told until that has come about.
    fn dial_for(&mut self, hop: Name, address: SocketAddr, for_whom: SessionId, now: Now) -> Stop {
        if self.dial(hop, address, for_whom, now) == Err(NoWay::Refused) {
            let reason = Reason::Unreachable(MAX_RETRY_OUT_OF_REACH_MS);
            return Stop::new(DropReason::LocatorRefused, reason);
        }
        match self.peering.in_vain_for(&hop, now.instant) {
            // Routers before us look the way up again: perhaps the name is elsewhere by now.
            Some(time) => {
                Stop::new(DropReason::Unreachable, Reason::Unreachable(retry_out_of_reach_ms(time)))
            }
            None => Stop::new(DropReason::RoutePending, Reason::NotYet(RETRY_AFTER_HANDSHAKE_MS)),
        }
    }

    /// The destination takes no traffic of this source.
    fn out_of_scope(&self, from: SessionId) -> Stop {
        Stop::new(DropReason::NotAuthorised, self.not_for_it(from))
    }

    /// What a flow by a chain rests on.
    pub(crate) fn rest_on(&self, chain: &Chain, grounds: &mut Grounds) {
        let changes = self.routes.seen().changes;
        chain.certificates().iter().for_each(|it| grounds.add(changes.of(&it.issuer)));
    }
}

fn unreachable(ms: u16) -> Stop {
    Stop::new(DropReason::Unreachable, Reason::Unreachable(ms))
}

/// Whether traffic between a name of this scope and `peer` is within it.
fn is_within(scope: Scope, peer: Name) -> bool {
    matches!(scope, Scope::Any) || scope == Scope::Destination(peer)
}

/// When to come back to a router that has been out of reach for `time`: half as long again, so that
/// a return is used soon and an absence costs ever less.
fn retry_out_of_reach_ms(time: Duration) -> u16 {
    let half = u16::try_from(time.as_millis() / 2).unwrap_or(u16::MAX);
    half.clamp(RETRY_AFTER_HANDSHAKE_MS, MAX_RETRY_OUT_OF_REACH_MS)
}

/// A handshake with a router: three round trips and two signatures.
const RETRY_AFTER_HANDSHAKE_MS: u16 = 50;
/// A source keeps what is unreachable for some seconds: it should come back a few times.
const MAX_RETRY_OUT_OF_REACH_MS: u16 = 1000;
/// Seldom enough that a RIB that is gone for hours costs a flow nothing.
const REFRESH_AGAIN_AFTER: Duration = Duration::from_secs(1);
