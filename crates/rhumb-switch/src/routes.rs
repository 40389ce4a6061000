//! Where names are, as one switch sees it: attached to it, or as the shared [`Tables`] know.
//!
//! What belongs to sessions stays with the switch that has them: attached names come from their holders' advertisements.
//! All that is said of ways, absences and statements is in `tables`, and so is the invariant about them.
//!
//! INVARIANT: the generation changes after every change, here or by another switch, that may make a flow wrong. A flow is
//! made with the generation that was read before what it was made from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rhumb_link::SessionId;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::{Certificate, Metadata, Name, Statement};

use crate::chance::Chance;
use crate::table::{Expires, Fill, Swept, Table};
use crate::tables::{Known, Tables, Way};

pub(crate) struct Routes {
    attached: Table<Name, Attached>,
    tables: Arc<Tables>,
    /// Counts changes that may make a flow wrong; flows of an older generation ask again.
    generation: u64,
    /// The same, for the process's other workers to see.
    shown: Arc<AtomicU64>,
    /// The generation of the tables that is in ours already.
    caught_up_with: u64,
}

/// What flows are made under: the switch's own generation and that of its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generations {
    own: u64,
    tables: u64,
}

/// Both generations as they are now: two loads, once per batch, of what is seldom written.
pub(crate) struct GenerationsWatch {
    own: Arc<AtomicU64>,
    tables: Arc<Tables>,
}

impl GenerationsWatch {
    pub(crate) fn now(&self) -> Generations {
        Generations { own: self.own.load(Ordering::Acquire), tables: self.tables.generation() }
    }
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

/// Why a name is not attached.
pub(crate) enum NotAttached {
    /// A newer statement of its holder is in force: this one.
    Older(Box<Certificate>),
    /// There is no room.
    Full,
}

impl Expires for Attached {
    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// What is known of a destination.
pub(crate) enum Found {
    Attached { session: SessionId, until: Instant },
    Way(Way),
    AbsentUntil(Instant),
    Unknown,
}

// Flows.
impl Routes {
    pub(crate) fn new(bound: usize, tables: Arc<Tables>) -> Self {
        let caught_up_with = tables.generation();
        let attached = Table::new(bound);
        Self { attached, tables, generation: 0, shown: Arc::default(), caught_up_with }
    }

    /// The generation, as it was last seen.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Sees what other switches changed. Once per batch, and before a flow is made.
    pub(crate) fn catch_up(&mut self) -> u64 {
        let shared = self.tables.generation();
        if std::mem::replace(&mut self.caught_up_with, shared) != shared {
            self.invalidate_flows();
        }
        self.generation
    }

    /// Flows made before now must ask again. Nothing else changes the generation, so that every worker sees it.
    pub(crate) fn invalidate_flows(&mut self) {
        self.generation += 1;
        self.shown.store(self.generation, Ordering::Release);
    }

    /// What flows are made under, as it was last seen here.
    pub(crate) fn generations(&self) -> Generations {
        Generations { own: self.generation, tables: self.caught_up_with }
    }

    /// For another worker to see when flows end.
    pub(crate) fn watch_generations(&self) -> GenerationsWatch {
        GenerationsWatch { own: Arc::clone(&self.shown), tables: Arc::clone(&self.tables) }
    }

    pub(crate) fn find(&mut self, destination: &Name, now: Instant) -> Found {
        if let Some(attached) = self.attached.get(destination) {
            if !attached.is_over(now) {
                return Found::Attached { session: attached.session, until: attached.until };
            }
            self.detach(destination);
        }
        match self.tables.find(destination, now) {
            Known::Way(way) => Found::Way(way),
            Known::AbsentUntil(until) => Found::AbsentUntil(until),
            Known::Nothing => Found::Unknown,
        }
    }
}

// Attached names, which are the switch's own.
impl Routes {
    /// Attaches a name, and returns what it takes the place of, if that was attached on another session. An error, when a
    /// newer statement of its holder is in force, or there is no room: what is attached is never pushed out, because its holder
    /// relies on it until it renews it.
    pub(crate) fn attach(
        &mut self,
        name: Name,
        attached: Attached,
    ) -> Result<Option<Attached>, NotAttached> {
        let before = self.attached.peek(&name);
        let newer = before.filter(|current| current.sequence() > attached.sequence());
        if let Some(newer) = newer.and_then(|current| current.certificates.first()) {
            return Err(NotAttached::Older(Box::new(newer.clone())));
        }
        if before.is_none() && self.attached.is_full() {
            return Err(NotAttached::Full);
        }
        let elsewhere = before.filter(|current| current.session != attached.session).cloned();
        if elsewhere.is_some() {
            self.invalidate_flows();
        }
        self.tables.forget_absence(&name);
        self.forget(&name);
        self.attached.insert(name, attached);
        Ok(elsewhere)
    }

    pub(crate) fn detach(&mut self, name: &Name) {
        if self.attached.remove(name).is_some() {
            self.invalidate_flows();
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

    pub(crate) fn attached(&self) -> impl Iterator<Item = (&Name, &Attached)> {
        self.attached.iter()
    }

    pub(crate) fn attached_mut(&mut self, name: &Name) -> Option<&mut Attached> {
        self.attached.get(name)
    }

    pub(crate) fn attached_fill(&self) -> Fill {
        self.attached.fill()
    }

    /// Removes some of the attached names that have expired; their flows ended with them.
    pub(crate) fn sweep_attached(&mut self, chance: &mut Chance, now: Instant) -> Swept {
        self.attached.sweep(chance, now)
    }
}

// What is known of the world.
impl Routes {
    /// For what changes no flow of ours.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Marks what is known of a destination as in use.
    pub(crate) fn keep(&mut self, destination: &Name) {
        if self.attached.peek(destination).is_none() {
            self.tables.keep(destination);
        }
    }

    /// As [`Tables::learn`].
    pub(crate) fn learn(&mut self, chain: Verified<Chain>, until: Instant, now: Instant) -> bool {
        let learnt = self.tables.learn(chain, until, now);
        self.catch_up();
        learnt
    }

    /// As [`Tables::note`].
    pub(crate) fn note(&mut self, certificate: &Certificate) -> bool {
        let ends_something = self.tables.note(certificate);
        self.catch_up();
        ends_something
    }

    /// As [`Tables::forget`].
    pub(crate) fn forget(&mut self, destination: &Name) {
        self.tables.forget(destination);
        self.catch_up();
    }

    /// As [`Tables::ask_again`].
    pub(crate) fn ask_again(&mut self) {
        self.tables.ask_again();
        self.catch_up();
    }

    pub(crate) fn metadata_of(&self, name: &Name) -> Option<Arc<Metadata>> {
        self.tables.metadata_of(name)
    }
}
