//! Where names are: attached to this router, reached by a verified chain, or known to be absent.
//!
//! Attached names come from their holders' advertisements, chains and absences from the RIB. Each has its own bounded
//! table, so that look-ups of names that do not exist cannot push out those that do.

use std::time::Instant;

use rhumb_link::SessionId;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::{Certificate, Name};

use crate::bounded::BoundedMap;

pub(crate) struct Routes {
    attached: BoundedMap<Name, Attached>,
    chains: BoundedMap<Name, Route>,
    absences: BoundedMap<Name, Instant>,
    /// Counts changes that may make a flow wrong; flows of an older generation ask again.
    generation: u64,
}

/// A name that advertised itself on one of our sessions.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    pub(crate) session: SessionId,
    pub(crate) until: Instant,
    pub(crate) until_s: u64,
    /// What was verified: the holder's word for us, or its word for a server and the server's for us.
    pub(crate) certificates: Vec<Certificate>,
    /// Whether a RIB holds the holder's word durably.
    pub(crate) published: bool,
}

impl Attached {
    /// Orders what the holder says about where it is.
    pub(crate) fn sequence(&self) -> u64 {
        self.certificates.first().map_or(0, |certificate| certificate.sequence)
    }
}

/// A verified way to a name.
pub(crate) struct Route {
    pub(crate) chain: Verified<Chain>,
    until: Instant,
    /// When to ask the RIB again, so that a lease that its holder renewed never runs out here. Asked once.
    refresh_at: Option<Instant>,
}

impl Route {
    /// When a flow over this route must ask again.
    pub(crate) fn flow_until(&self) -> Instant {
        self.refresh_at.unwrap_or(self.until)
    }

    /// Whether it is time to ask the RIB again; true once.
    pub(crate) fn take_refresh(&mut self, now: Instant) -> bool {
        self.refresh_at.take_if(|at| *at <= now).is_some()
    }
}

/// What is known of a destination.
pub(crate) enum Found<'a> {
    Attached(&'a Attached),
    Route(&'a mut Route),
    AbsentUntil(Instant),
    Unknown,
}

impl Routes {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            attached: BoundedMap::new(bound),
            chains: BoundedMap::new(bound),
            absences: BoundedMap::new(bound),
            generation: 0,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Flows made before now must ask again.
    pub(crate) fn invalidate_flows(&mut self) {
        self.generation += 1;
    }

    pub(crate) fn find(&mut self, destination: &Name, now: Instant) -> Found<'_> {
        if self.attached.peek(destination).is_some_and(|a| a.until <= now) {
            self.detach(destination);
        }
        if self.chains.peek(destination).is_some_and(|route| route.until <= now) {
            self.chains.remove(destination);
        }
        if let Some(attached) = self.attached.get(destination) {
            return Found::Attached(attached);
        }
        if let Some(route) = self.chains.get(destination) {
            return Found::Route(route);
        }
        match self.absences.peek(destination) {
            Some(until) if *until > now => Found::AbsentUntil(*until),
            Some(_) => {
                self.absences.remove(destination);
                Found::Unknown
            }
            None => Found::Unknown,
        }
    }

    /// Attaches a name, unless a newer statement of its holder is in force. Returns whether it is attached now.
    pub(crate) fn attach(&mut self, name: Name, attached: Attached) -> bool {
        match self.attached.peek(&name) {
            Some(current) if current.sequence() > attached.sequence() => {
                return false;
            }
            Some(current) if current.session != attached.session => self.generation += 1,
            _ => {}
        }
        self.absences.remove(&name);
        if self.chains.remove(&name).is_some() {
            self.generation += 1;
        }
        self.attached.insert(name, attached);
        true
    }

    pub(crate) fn detach(&mut self, name: &Name) {
        if self.attached.remove(name).is_some() {
            self.generation += 1;
        }
    }

    /// Detaches `names` as far as they are still attached by `session`, which ended.
    pub(crate) fn detach_session(&mut self, session: SessionId, names: &[Name]) {
        for name in names {
            if self.attached.peek(name).is_some_and(|attached| attached.session == session) {
                self.detach(name);
            }
        }
    }

    /// Takes over a verified way to a name. Flows change only when the way did, not when its lease was renewed.
    pub(crate) fn learn(&mut self, chain: Verified<Chain>, until: Instant, now: Instant) {
        let destination = chain.origin();
        self.absences.remove(&destination);
        if self.chains.peek(&destination).is_some_and(|old| !same_way(&old.chain, &chain)) {
            self.generation += 1;
        }
        let refresh_at = Some(now + until.saturating_duration_since(now).mul_f32(REFRESH_AT));
        self.chains.insert(destination, Route { chain, until, refresh_at });
    }

    /// Forgets the way to a name, because its next hop says that it is wrong.
    pub(crate) fn forget(&mut self, destination: &Name) {
        if self.chains.remove(destination).is_some() {
            self.generation += 1;
        }
    }

    pub(crate) fn learn_absence(&mut self, name: Name, until: Instant) {
        if self.chains.remove(&name).is_some() {
            self.generation += 1;
        }
        self.absences.insert(name, until);
    }

    pub(crate) fn attached(&self) -> impl Iterator<Item = (&Name, &Attached)> {
        self.attached.iter()
    }

    pub(crate) fn attached_mut(&mut self, name: &Name) -> Option<&mut Attached> {
        self.attached.get(name)
    }

    pub(crate) fn len(&self) -> (usize, usize, usize) {
        (self.attached.len(), self.chains.len(), self.absences.len())
    }
}

fn same_way(a: &Chain, b: &Chain) -> bool {
    a.routers().eq(b.routers()) && a.locator() == b.locator() && a.scope() == b.scope()
}

/// The share of a route's time after which it is asked for again: holders renew at half-life, so that by then the RIB has
/// the new lease, and a quarter of the time is left for the answer.
const REFRESH_AT: f32 = 0.75;
