//! Where names are: attached to this router, reached by a verified chain, or known to be absent.
//!
//! Attached names come from their holders' advertisements, chains and absences from the RIB. Each has its own bounded
//! table, so that look-ups of names that do not exist cannot push out those that do.
//!
//! INVARIANT: a chain is used only while no newer statement of any of its issuers says otherwise; a RIB's word that a name is
//! absent does not outweigh what its holder signed.

use std::sync::Arc;
use std::time::Instant;

use rhumb_link::SessionId;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::{Certificate, Name, Statement};

use crate::bounded::BoundedMap;
use crate::newest::NewestStatements;

pub(crate) struct Routes {
    attached: BoundedMap<Name, Attached>,
    chains: BoundedMap<Name, Route>,
    absences: BoundedMap<Name, Instant>,
    newest: NewestStatements,
    /// Counts the times at which RIBs forgot to tell us of changes; routes of an earlier one are asked for again.
    epoch: u64,
    /// Counts changes of the chains, so that who saves them knows whether there is anything new.
    revision: u64,
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
    /// Of the advertisement, for what there is to be said about it later.
    pub(crate) tag: u32,
}

impl Attached {
    /// Orders what the holder says about where it is.
    pub(crate) fn sequence(&self) -> u64 {
        self.certificates.first().map_or(0, |certificate| certificate.sequence)
    }

    /// Who answers for the name by its holder's word, when that is not the holder itself.
    pub(crate) fn server(&self) -> Option<Name> {
        match self.certificates.first()?.statement {
            Statement::Service { server } => Some(server),
            _ => None,
        }
    }
}

/// A newer statement of the same holder is in force.
pub(crate) struct Older;

/// A verified way to a name.
pub(crate) struct Route {
    pub(crate) chain: Arc<Verified<Chain>>,
    until: Instant,
    epoch: u64,
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
            // A chain of a name mostly shares its routers with others.
            newest: NewestStatements::new(2 * bound),
            epoch: 0,
            revision: 0,
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
        let newest = &mut self.newest;
        if self.chains.peek(destination).is_some_and(|route| {
            let mut certificates = route.chain.certificates().iter();
            route.until <= now || certificates.any(|certificate| newest.supersedes(certificate))
        }) {
            self.chains.remove(destination);
            self.revision += 1;
        }
        if let Some(attached) = self.attached.get(destination) {
            return Found::Attached(attached);
        }
        if let Some(route) = self.chains.get(destination) {
            if std::mem::replace(&mut route.epoch, self.epoch) != self.epoch {
                route.refresh_at = Some(now);
            }
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

    /// Attaches a name, unless a newer statement of its holder is in force: that is an error. Returns what it takes the place
    /// of, if that was attached on another session.
    pub(crate) fn attach(
        &mut self,
        name: Name,
        attached: Attached,
    ) -> Result<Option<Attached>, Older> {
        let before = self.attached.peek(&name);
        if before.is_some_and(|current| current.sequence() > attached.sequence()) {
            return Err(Older);
        }
        let elsewhere = before.filter(|current| current.session != attached.session).cloned();
        self.generation += u64::from(elsewhere.is_some());
        self.absences.remove(&name);
        self.forget(&name);
        self.attached.insert(name, attached);
        Ok(elsewhere)
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

    /// Takes over a verified way to a name. Flows change only when the way did, not when its lease was renewed. `false` when
    /// a statement in it is older than what is known, and nothing was learnt.
    pub(crate) fn learn(&mut self, chain: Verified<Chain>, until: Instant, now: Instant) -> bool {
        let destination = chain.origin();
        let older = chain.certificates().iter().any(|c| self.newest.supersedes(c))
            || self.chains.peek(&destination).is_some_and(|old| is_older(&chain, &old.chain));
        if older {
            return false;
        }
        for certificate in chain.certificates() {
            self.note(certificate);
        }
        self.absences.remove(&destination);
        if self.chains.peek(&destination).is_some_and(|old| !same_way(&old.chain, &chain)) {
            self.generation += 1;
        }
        let refresh_at = Some(now + until.saturating_duration_since(now).mul_f32(REFRESH_AT));
        let (chain, epoch) = (Arc::new(chain), self.epoch);
        self.chains.insert(destination, Route { chain, until, epoch, refresh_at });
        self.revision += 1;
        true
    }

    /// Takes over a verified statement. What it ends, flows included, is not used again. Whether it ended anything.
    pub(crate) fn note(&mut self, certificate: &Certificate) -> bool {
        let ends_something = self.newest.note(certificate);
        self.generation += u64::from(ends_something);
        if certificate.statement == Statement::Withdrawal {
            let is_covered =
                |route: &Route| route.chain.certificates()[0].sequence <= certificate.sequence;
            if self.chains.peek(&certificate.issuer).is_some_and(is_covered) {
                self.forget(&certificate.issuer);
            }
        }
        ends_something
    }

    /// Whether a statement, the first of what its issuer's routes are now, would change anything here.
    pub(crate) fn needs(&mut self, certificate: &Certificate) -> bool {
        let is_behind =
            |route: &Route| route.chain.certificates()[0].sequence < certificate.sequence;
        !self.newest.knows(certificate)
            || self.chains.peek(&certificate.issuer).is_some_and(is_behind)
    }

    /// Whether a chain may let traffic of its origin in: neither the origin nor its server has said anything else since, and
    /// nobody in the chain has withdrawn. Routers let several others carry at once, so their newer routes end nothing.
    pub(crate) fn admits(&mut self, chain: &Chain) -> bool {
        let is_service = |c: &&Certificate| matches!(c.statement, Statement::Service { .. });
        let own = 1 + chain.certificates().iter().take_while(is_service).count();
        chain.certificates().iter().enumerate().all(|(at, certificate)| match at < own {
            true => !self.newest.supersedes(certificate),
            false => !self.newest.withdraws(certificate),
        })
    }

    /// Whether ways to a name are of use here: one is known, or it was looked for in vain.
    pub(crate) fn concerns(&self, name: &Name) -> bool {
        self.chains.peek(name).is_some() || self.absences.peek(name).is_some()
    }

    /// RIBs have forgotten to tell us of changes: every route is asked for again when it is used next.
    pub(crate) fn ask_again(&mut self) {
        self.epoch += 1;
        self.generation += 1;
    }

    /// The ways that are in force.
    pub(crate) fn chains(&self, now: Instant) -> impl Iterator<Item = &Arc<Verified<Chain>>> {
        self.chains
            .iter()
            .filter(move |(_, route)| route.until > now)
            .map(|(_, route)| &route.chain)
    }

    /// Changes whenever a way is learnt or forgotten.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Forgets the way to a name, because its next hop says that it is wrong.
    pub(crate) fn forget(&mut self, destination: &Name) {
        if self.chains.remove(destination).is_some() {
            self.generation += 1;
            self.revision += 1;
        }
    }

    /// RIBs say that a name is absent. While a chain of its holder's is in force, that is used nevertheless.
    pub(crate) fn learn_absence(&mut self, name: Name, until: Instant) {
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

/// Whether a chain holds an earlier statement than another one of the same origin does.
fn is_older(chain: &Chain, known: &Chain) -> bool {
    chain.certificates().iter().any(|c| {
        let same_kind = |other: &&Certificate| {
            let hands_on = [*other, c].map(|c| c.statement.hands_on_to().is_some());
            other.issuer == c.issuer && hands_on[0] == hands_on[1]
        };
        known.certificates().iter().find(same_kind).is_some_and(|old| old.sequence > c.sequence)
    })
}

fn same_way(a: &Chain, b: &Chain) -> bool {
    a.routers().eq(b.routers()) && a.locator() == b.locator() && a.scope() == b.scope()
}

/// The share of a route's time after which it is asked for again: holders renew at half-life, so that by then the RIB has
/// the new lease, and a quarter of the time is left for the answer.
const REFRESH_AT: f32 = 0.75;
