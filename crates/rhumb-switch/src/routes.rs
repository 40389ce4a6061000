//! Where names are, as one switch sees it: attached to it, or as the shared [`Tables`] know.
//!
//! What belongs to sessions stays with the switch that has them: attached names come from their
//! holders' advertisements. All that is said of ways, absences and statements is in `tables`, and
//! so is the invariant about them.
//!
//! INVARIANT: every change that may make a flow wrong, here or by another switch, is noted after it
//! was made, by the names that it is about. A flow is as of the number of the latest change that
//! was read before what it was made from.

use std::sync::Arc;
use std::time::Instant;

use rhumb_directory::{Chance, Expires, Fill, Swept, Table};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use crate::changes::Seen;
use crate::tables::{Known, Tables, Way};

pub(crate) struct Routes {
    attached: Table<Name, Attached>,
    tables: Arc<Tables>,
    /// The number of the latest change that was seen.
    latest: u64,
}

/// A name that advertised itself on one of our sessions.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    pub(crate) session: SessionId,
    pub(crate) until: Instant,
    pub(crate) until_s: u64,
    /// What was verified: the holder's word for us, or its
    /// word for a server and the server's for us.
    pub(crate) certificates: Vec<Certificate>,
    /// By which domain it is known outside, if it is.
    pub(crate) export: Option<Box<Certificate>>,
    /// Whose traffic it takes, by that word.
    pub(crate) scope: Scope,
    /// Whether a RIB holds the holder's word durably.
    pub(crate) published: bool,
    /// Of the advertisement, for what there is to be said about it later.
    pub(crate) tag: u32,
    /// When the session's keys were made under which it was advertised.
    pub(crate) keys_of: Instant,
    /// The holder's last word under other keys of the same session: perhaps of another process.
    pub(crate) former: Option<Box<Certificate>>,
}

impl Attached {
    /// What RIBs are to keep of it: where it is, and by which domain it is known outside.
    pub(crate) fn words(&self) -> Vec<Certificate> {
        self.certificates.first().into_iter().chain(self.export.as_deref()).cloned().collect()
    }

    /// Orders what the holder says about where it is.
    pub(crate) fn sequence(&self) -> u64 {
        self.certificates.first().map_or(0, |certificate| certificate.sequence)
    }

    /// The holder's last word that did not come under the keys of `keys_of`.
    pub(crate) fn said_before(&self, keys_of: Instant) -> Option<Box<Certificate>> {
        match self.keys_of == keys_of {
            true => self.former.clone(),
            false => self.certificates.first().cloned().map(Box::new),
        }
    }

    /// Who answers for the name by its holder's word, when that is not the holder itself.
    pub(crate) fn server(&self) -> Option<Name> {
        match self.certificates.first()?.statement {
            Statement::Service { server, .. } => Some(server),
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
    Attached { session: SessionId, until: Instant, scope: Scope },
    Way(Way),
    AbsentUntil(Instant),
    Unknown,
}

// Flows.
impl Routes {
    pub(crate) fn new(bound: usize, tables: Arc<Tables>) -> Self {
        let latest = tables.changes().latest();
        let attached = Table::new(bound);
        Self { attached, tables, latest }
    }

    /// The changes as they were last seen.
    #[inline]
    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen { changes: self.tables.changes(), latest: self.latest }
    }

    /// Sees what other switches changed: once per batch, and before a
    /// flow is made. The number of the latest change.
    pub(crate) fn catch_up(&mut self) -> u64 {
        self.latest = self.tables.changes().latest();
        self.latest
    }

    /// Something about a name, or about the session of this name, has changed: flows that rest on
    /// it are looked into again. The number of this change.
    pub(crate) fn changed(&mut self, name: &Name) -> u64 {
        self.latest = self.tables.changes().note(name);
        self.latest
    }

    /// Something has changed on which every flow may rest.
    pub(crate) fn all_changed(&mut self) {
        self.latest = self.tables.changes().note_all();
    }

    /// For another worker to see when flows end.
    pub(crate) fn shared_tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    pub(crate) fn find(&mut self, destination: &Name, now: Instant) -> Found {
        if let Some(attached) = self.attached.get(destination) {
            if !attached.is_over(now) {
                let Attached { session, until, scope, .. } = *attached;
                return Found::Attached { session, until, scope };
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
    /// Attaches a name, and returns what it takes the place of, if that was attached on another
    /// session. An error, when a newer statement of its holder is in force, or there is no room:
    /// what is attached is never pushed out, because its holder relies on it until it renews it.
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
        let is_renewal = before.is_some_and(|it| it.scope == attached.scope) && elsewhere.is_none();
        self.tables.forget_absence(&name);
        self.tables.forget(&name);
        self.attached.insert(name, attached);
        if is_renewal {
            self.catch_up();
        } else {
            self.changed(&name);
        }
        Ok(elsewhere)
    }

    pub(crate) fn detach(&mut self, name: &Name) {
        if self.attached.remove(name).is_some() {
            self.changed(name);
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

    /// Most names attached, and most routes learnt.
    pub(crate) fn bound(&self) -> usize {
        self.attached.fill().bound
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
    pub(crate) fn learn(
        &mut self,
        way: (Verified<Chain>, u8),
        until: Instant,
        now: Instant,
    ) -> bool {
        let learnt = self.tables.learn(way, until, now);
        self.catch_up();
        learnt
    }

    /// As [`Tables::note`].
    pub(crate) fn note(&mut self, certificate: &Certificate) -> bool {
        let ends_something = self.tables.note(certificate);
        self.catch_up();
        ends_something
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
