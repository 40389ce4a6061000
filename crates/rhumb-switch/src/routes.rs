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
use std::time::{Duration, Instant};

use rhumb_directory::{Chance, Expires, Fill, Swept, Table};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::rib::MAX_WAYS;
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use crate::changes::Seen;
use crate::clock::{Clock, Moment};
use crate::tables::{Known, Other, Tables, Way};

pub(crate) struct Routes {
    attached: Table<Name, Attached>,
    tables: Arc<Tables>,
    clock: Clock,
    /// The number of the latest change that was seen.
    latest: u64,
    /// When it was last another one than before.
    changed_at: Moment,
    /// The time of the batch.
    at: Moment,
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
    /// Others that answer for the name here, each by a word that is one of several. They have
    /// nobody beside them.
    pub(crate) beside: Vec<Attached>,
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

    /// Whether this is one of several, and another one may be attached besides.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.certificates.first().is_some_and(|it| it.statement.is_one_of_several())
    }

    /// Whether both may be attached at once.
    fn stands_beside(&self, other: &Self) -> bool {
        self.is_one_of_several() && other.is_one_of_several() && self.server() != other.server()
    }

    /// This one, and those beside it.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.beside)
    }

    /// All that are left when some are gone, the first of them with the others beside it.
    fn retained(self, stays: impl Fn(&Self) -> bool) -> Option<Self> {
        let mut all = vec![self];
        let beside = std::mem::take(&mut all[0].beside);
        all.extend(beside);
        all.retain(stays);
        let mut all = all.into_iter();
        let first = all.next()?;
        Some(Self { beside: all.collect(), ..first })
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
    Attached {
        session: SessionId,
        until: Instant,
        scope: Scope,
    },
    /// By several, each on a session of its own and until then.
    AttachedBySeveral(Vec<(SessionId, Instant)>),
    Way(Way),
    AbsentUntil(Instant),
    Unknown,
}

// Flows.
impl Routes {
    pub(crate) fn new(bound: usize, tables: Arc<Tables>, now: Instant) -> Self {
        let latest = tables.changes().latest();
        let attached = Table::new(bound);
        let (at, changed_at) = (Moment::START, Moment::START);
        Self { attached, tables, clock: Clock::new(now), latest, changed_at, at }
    }

    /// By which flows know until when they hold.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The changes as they were last seen.
    #[inline]
    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen { changes: self.tables.changes(), latest: self.latest, at: self.at }
    }

    /// Once per batch, and for whatever else comes with datagrams: sees what time it is, and what
    /// other switches changed.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.at = self.clock.moment(now);
        self.catch_up();
    }

    /// Sees what other switches changed, also before a flow is made. The number of the latest
    /// change.
    pub(crate) fn catch_up(&mut self) -> u64 {
        self.see(self.tables.changes().latest())
    }

    fn see(&mut self, latest: u64) -> u64 {
        if latest != self.latest {
            (self.latest, self.changed_at) = (latest, self.at);
        }
        latest
    }

    /// Whether anything has changed lately, so that many flows ask whether they stand.
    #[inline]
    pub(crate) fn changed_lately(&self) -> bool {
        self.at.since(self.changed_at) < LATELY
    }

    /// Something about a name, or about the session of this name, has changed: flows that rest on
    /// it are looked into again. The number of this change.
    pub(crate) fn changed(&mut self, name: &Name) -> u64 {
        self.see(self.tables.changes().note(name))
    }

    /// Something has changed on which every flow may rest.
    pub(crate) fn all_changed(&mut self) {
        self.see(self.tables.changes().note_all());
    }

    /// For another worker to see when flows end.
    pub(crate) fn shared_tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    pub(crate) fn find(&mut self, destination: &Name, now: Instant) -> Found {
        if let Some(attached) = self.attached.get(destination) {
            if attached.all().any(|it| it.is_over(now)) {
                self.detach_all_but(destination, |it| !it.is_over(now));
                return self.find(destination, now);
            }
            let Attached { session, until, scope, .. } = *attached;
            return match attached.is_one_of_several() {
                false => Found::Attached { session, until, scope },
                true => Found::AttachedBySeveral(
                    attached.all().map(|it| (it.session, it.until)).collect(),
                ),
            };
        }
        self.find_elsewhere(destination, now)
    }

    /// Where a destination is, besides here.
    pub(crate) fn find_elsewhere(&self, destination: &Name, now: Instant) -> Found {
        match self.tables.find(destination, now) {
            Known::Way(way) => Found::Way(way),
            Known::AbsentUntil(until) => Found::AbsentUntil(until),
            Known::Nothing => Found::Unknown,
        }
    }
}

// Attached names, which are the switch's own.
impl Routes {
    /// Attaches a name, and returns what it takes the place of, as far as that was attached on
    /// other sessions. An error, when a newer statement of its holder is in force, or there is no
    /// room: what is attached is never pushed out, because its holder relies on it until it renews
    /// it.
    pub(crate) fn attach(
        &mut self,
        name: Name,
        mut attached: Attached,
    ) -> Result<Vec<Attached>, NotAttached> {
        let before = self.attached.peek(&name);
        let all: Vec<&Attached> = before.into_iter().flat_map(Attached::all).collect();
        let (beside, replaced): (Vec<&Attached>, Vec<&Attached>) =
            all.into_iter().partition(|current| current.stands_beside(&attached));
        let newer = replaced.iter().find(|current| current.sequence() > attached.sequence());
        if let Some(newer) = newer.and_then(|current| current.certificates.first()) {
            return Err(NotAttached::Older(Box::new(newer.clone())));
        }
        let has_room = before.is_some() || !self.attached.is_full();
        if !has_room || beside.len() >= usize::from(MAX_WAYS) {
            return Err(NotAttached::Full);
        }
        let elsewhere: Vec<Attached> = (replaced.iter().copied())
            .filter(|current| current.session != attached.session)
            .cloned()
            .collect();
        let is_as_before = replaced.iter().any(|current| current.scope == attached.scope);
        let is_renewal = is_as_before && elsewhere.is_empty();
        let alone = |current: &Attached| Attached { beside: Vec::new(), ..current.clone() };
        attached.beside = beside.into_iter().map(alone).collect();
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

    /// Detaches `names` as far as they are still attached by `session`, which ended.
    pub(crate) fn detach_session(&mut self, session: SessionId, names: &[Name]) {
        for name in names {
            self.detach_all_but(name, |attached| attached.session != session);
        }
    }

    /// Detaches a name as far as it is attached by others than those that stay.
    pub(crate) fn detach_all_but(&mut self, name: &Name, stays: impl Fn(&Attached) -> bool) {
        if self.attached.peek(name).is_none_or(|attached| attached.all().all(&stays)) {
            return;
        }
        if let Some(left) = self.attached.remove(name).and_then(|it| it.retained(stays)) {
            self.attached.insert(*name, left);
        }
        self.changed(name);
    }

    pub(crate) fn attached(&self) -> impl Iterator<Item = (&Name, &Attached)> {
        self.attached.iter()
    }

    /// All by whom a name is attached.
    pub(crate) fn attached_as(&self, name: &Name) -> impl Iterator<Item = &Attached> {
        self.attached.peek(name).into_iter().flat_map(Attached::all)
    }

    /// A name as it is attached by one of a few.
    pub(crate) fn attached_mut(
        &mut self,
        name: &Name,
        is_it: impl Fn(&Attached) -> bool,
    ) -> Option<&mut Attached> {
        let attached = self.attached.get(name)?;
        match is_it(attached) {
            true => Some(attached),
            false => attached.beside.iter_mut().find(|it| is_it(it)),
        }
    }

    /// A name as it is attached on this session.
    pub(crate) fn attached_on(&mut self, name: &Name, session: SessionId) -> Option<&mut Attached> {
        self.attached_mut(name, |it| it.session == session)
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
        way: (Arc<Verified<Chain>>, u8),
        until: Instant,
        now: Instant,
    ) -> bool {
        let learnt = self.tables.learn(way, until, now);
        self.catch_up();
        learnt
    }

    /// As [`Tables::learn_other`].
    pub(crate) fn learn_other(&mut self, way: Other, now: Instant) -> bool {
        let learnt = self.tables.learn_other(way, now);
        self.catch_up();
        learnt
    }

    /// As [`Tables::note`].
    pub(crate) fn note(&mut self, certificate: Verified<&Certificate>) -> bool {
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

/// After a change, most of many flows come by within it.
const LATELY: Duration = Duration::from_secs(1);
