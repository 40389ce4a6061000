//! What is known of the world, shared by the switches of a process and those who verify for
//! them: the second level of the caches (GDP paper, section 4.4).
//!
//! The first level is each switch's flow table, which asks nobody. What misses there
//! comes here; what misses here is asked of a RIB, once for all switches. A name has its
//! place in one of a few shards, chosen by a keyed hash so that strangers cannot aim,
//! each behind a lock that is held for one look-up.
//!
//! Flows are made from what is here, and must ask again when it changes. So each
//! change that may make a flow wrong is noted after it was made, in `changes`; nothing
//! here is written on the path of a known flow.
//!
//! INVARIANT: a chain is used only while no newer statement of any of its issuers says otherwise; a
//! RIB's word that a name is absent does not outweigh what its holder signed.
//! INVARIANT: no thread holds two shards.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use rhumb_directory::{Chance, Expires, Fill, Swept, Table, until};
use rhumb_trust::{Chain, Now, Standing, Verified, name_of};
use rhumb_wire::rib::MAX_WAYS;
use rhumb_wire::{Certificate, Metadata, Name, Statement};

use crate::Config;
use crate::changes::Changes;
use crate::newest::Newest;

/// What is known of the world: ways to names, names that are absent, what each issuer
/// said last, and metadata. Switches of one process share it by an [`Arc`], so that
/// what one learns the others need not ask for.
pub struct Tables {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// Of whatever may make a flow wrong.
    changes: Changes,
    /// Counts the times at which RIBs forgot to tell us of changes;
    /// routes of an earlier one are asked for again.
    epoch: AtomicU64,
    /// Counts changes of the ways, so that who saves them knows whether there is anything new.
    revision: AtomicU64,
    sweeper: Mutex<Sweeper>,
}

struct Shard {
    routes: Table<Name, Route>,
    /// Until when RIBs' word holds.
    absences: Table<Name, Instant>,
    newest: Table<Name, Newest>,
    metadata: Table<Name, Arc<Metadata>>,
    /// Those that strangers brought: names cost nothing, so they have a small part.
    brought: Table<Name, Arc<Metadata>>,
}

/// A verified way to a name, as it is kept.
struct Route {
    chain: Arc<Verified<Chain>>,
    level: u8,
    until: Instant,
    epoch: u64,
    /// When to ask the RIB again, so that a lease that its
    /// holder renewed never runs out here. Asked once.
    refresh_at: Option<Instant>,
    /// What else leads there, where an issuer says that this is one way of several.
    others: Option<Box<Others>>,
}

/// Ways besides the first.
struct Others {
    ways: Vec<Other>,
    /// The number of the next one that RIBs are to be asked for.
    next: u8,
    /// The newest statement that is one of several when the first was to be asked for, of all
    /// issuers on the way.
    as_of: u64,
}

/// A verified way besides the first.
#[derive(Clone)]
pub(crate) struct Other {
    pub(crate) chain: Arc<Verified<Chain>>,
    pub(crate) level: u8,
    pub(crate) until: Instant,
}

struct Sweeper {
    chance: Chance,
    due: Instant,
}

/// A verified way to a name, for whoever asked.
pub(crate) struct Way {
    pub(crate) chain: Arc<Verified<Chain>>,
    /// How many domains further out it was found: 0 in this router's own.
    pub(crate) level: u8,
    /// When a flow over it must ask again.
    pub(crate) flow_until: Instant,
    /// The RIB is to be asked again, by whoever got this.
    pub(crate) wants_refresh: bool,
    /// What else leads there.
    pub(crate) others: Vec<Other>,
    /// The number of another way that the RIB is to be asked for.
    pub(crate) wants_other: Option<u8>,
}

/// What was taken over of a way that a RIB told unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing: its origin has said something else since.
    Nothing,
    /// What its issuers say, since nobody here goes to its origin.
    Statements,
    /// The way, unless one that is known is newer: whether it was.
    Way(bool),
}

/// What is known of a destination.
pub(crate) enum Known {
    Way(Way),
    AbsentUntil(Instant),
    Nothing,
}

/// How full the tables are, all shards together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fills {
    pub(crate) routes: Fill,
    pub(crate) absences: Fill,
    pub(crate) newest: Fill,
    pub(crate) metadata: Fill,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl Tables {
    /// Empty tables with the bounds of `config`. `secret` seeds
    /// the samples of the sweep: fresh random bytes.
    pub fn new(config: &Config, secret: &[u8; 32], now: Instant) -> Self {
        let smallest = config.max_routes.min(config.max_grants);
        let shards = (smallest / MIN_SHARD).clamp(1, MAX_SHARDS);
        let shard = |_| {
            Mutex::new(Shard {
                routes: Table::new(config.max_routes / shards),
                absences: Table::new(config.max_routes / shards),
                // A chain of a name mostly shares its routers with others.
                newest: Table::new(2 * config.max_routes / shards),
                metadata: Table::new(
                    config.max_grants / shards - config.max_grants / shards / PART_OF_STRANGERS,
                ),
                brought: Table::new(config.max_grants / shards / PART_OF_STRANGERS),
            })
        };
        Self {
            shards: (0..shards).map(shard).collect(),
            hasher: RandomState::default(),
            changes: Changes::new(),
            epoch: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            sweeper: Mutex::new(Sweeper { chance: Chance::new(secret, SHARED), due: now }),
        }
    }

    /// What may have made flows wrong.
    #[inline]
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Changes whenever a way is learnt or forgotten.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    fn ways_changed(&self) {
        self.revision.fetch_add(1, Ordering::Relaxed);
    }

    fn shard(&self, name: &Name) -> MutexGuard<'_, Shard> {
        // The index within a shard is by a hash of its own.
        let shard = self.hasher.hash_one(name) as usize % self.shards.len();
        lock(&self.shards[shard])
    }
}

// Ways and absences.
impl Tables {
    pub(crate) fn find(&self, destination: &Name, now: Instant) -> Known {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let absent = |shard: &mut Shard| match shard.absences.current(destination, now) {
            Some(until) => Known::AbsentUntil(*until),
            None => Known::Nothing,
        };
        // Each turn ends a way.
        loop {
            let mut shard = self.shard(destination);
            let Some(mut way) = shard.way(destination, epoch, now) else {
                return absent(&mut shard);
            };
            drop(shard);
            if self.is_superseded(&way.chain) {
                self.end_way(destination, &way.chain);
                continue;
            }
            way.others.retain(|other| {
                let stands = !self.is_superseded(&other.chain);
                if !stands {
                    self.end_way(destination, &other.chain);
                }
                stands
            });
            if is_one_of_several(&way.chain) {
                way.wants_other = self.number_to_ask(destination, &way.chain);
            }
            return Known::Way(way);
        }
    }

    /// The number of another way to a name that RIBs are to be asked for: all anew from 0 on, when
    /// an issuer on the way has said since that there is one more.
    fn number_to_ask(&self, destination: &Name, chain: &Chain) -> Option<u8> {
        let latest = self.several_to(chain);
        let mut shard = self.shard(destination);
        let others = shard.routes.get(destination)?.others.as_mut()?;
        if latest > others.as_of {
            (others.next, others.as_of) = (0, latest);
        }
        Some(others.next).filter(|next| *next < MAX_WAYS)
    }

    /// The highest sequence of what is one of several, of all issuers on a way.
    fn several_to(&self, chain: &Chain) -> u64 {
        let said = chain.certificates().iter().map(|certificate| {
            let issuer = &certificate.issuer;
            let known = self.shard(issuer).newest.peek(issuer).map_or(0, Newest::several_to);
            let is_one_of_several = certificate.statement.is_one_of_several();
            known.max(if is_one_of_several { certificate.sequence } else { 0 })
        });
        said.max().unwrap_or(0)
    }

    /// Takes over a verified way to a name. Flows change only when the way did,
    /// not when its lease was renewed. `false` when a statement in it is older
    /// than what is known, and nothing was learnt.
    pub(crate) fn learn(
        &self,
        (chain, level): (Arc<Verified<Chain>>, u8),
        until: Instant,
        now: Instant,
    ) -> bool {
        if self.is_superseded(&chain) {
            return false;
        }
        let destination = chain.origin();
        let refresh_at = Some(now + until.saturating_duration_since(now).mul_f32(REFRESH_AT));
        let epoch = self.epoch.load(Ordering::Relaxed);
        let several_to = is_one_of_several(&chain).then(|| self.several_to(&chain));
        let mut shard = self.shard(&destination);
        let before =
            shard.routes.peek(&destination).map(|route| (route.chain.clone(), route.level));
        if before.as_ref().is_some_and(|(before, _)| is_older(&chain, before)) {
            return false;
        }
        shard.absences.remove(&destination);
        let others = several_to.map(|as_of| {
            let ways = shard.routes.get(&destination).map_or(Vec::new(), Route::take_ways);
            Box::new(Others { ways: without(ways, &chain), next: 1, as_of })
        });
        let route = Route { chain: Arc::clone(&chain), level, until, epoch, refresh_at, others };
        shard.routes.insert(destination, route);
        drop(shard);
        self.ways_changed();
        let mut is_noted = false;
        for statement in chain.statements() {
            is_noted |= self.note(statement) && statement.issuer == destination;
        }
        let is_another =
            before.is_some_and(|(before, at)| at != level || !same_way(&before, &chain));
        if is_another && !is_noted {
            self.changes.note(&destination);
        }
        true
    }

    /// Takes over of a verified way, which a RIB told unasked, what is of use here.
    pub(crate) fn take_told(&self, chain: &Arc<Verified<Chain>>, level: u8, now: Now) -> Taken {
        if !self.admits(chain) {
            return Taken::Nothing;
        }
        if self.concerns(&chain.origin()) {
            return Taken::Way(self.take_told_way(chain, level, now));
        }
        // Of a router in the middle of others' chains: those are looked up again where they are
        // used.
        for statement in chain.statements() {
            self.note(statement);
        }
        Taken::Statements
    }

    /// Takes over a verified way that a RIB told unasked. Whether it did.
    pub(crate) fn take_told_way(&self, chain: &Arc<Verified<Chain>>, level: u8, now: Now) -> bool {
        let name = chain.origin();
        if level > 0 && chain.exported_len() == chain.certificates().len() {
            // Nothing leads to the domain that it is known by: who needs it asks again.
            self.forget_beyond(&name);
            return true;
        }
        let end = until(chain.not_after_s(), now);
        let learnt = self.learn((Arc::clone(chain), level), end, now.instant);
        if learnt {
            self.forget_others(&name);
        }
        learnt
    }

    /// Takes over another verified way to a name, besides the first. As [`Tables::learn`].
    pub(crate) fn learn_other(&self, other: Other, now: Instant) -> bool {
        let chain = other.chain.clone();
        if self.is_superseded(&chain) {
            return false;
        }
        let destination = chain.origin();
        let mut shard = self.shard(&destination);
        let Some(route) = shard.routes.current(&destination, now) else { return true };
        let Some(others) = &mut route.others else { return true };
        // Around once, and it is the first again.
        let is_around = same_way(&route.chain, &chain);
        others.next = if is_around { MAX_WAYS } else { others.next.saturating_add(1) };
        let before = others.ways.len();
        if !is_around {
            others.ways = without(std::mem::take(&mut others.ways), &chain);
            others.ways.truncate(usize::from(MAX_WAYS) - 2);
            others.ways.push(other);
        }
        let is_news = others.ways.len() != before || others.next < MAX_WAYS;
        drop(shard);
        self.ways_changed();
        if is_news {
            self.changes.note(&destination);
        }
        for statement in chain.statements() {
            self.note(statement);
        }
        true
    }

    /// RIBs tell that something has changed: which ways there are besides the first is not known.
    pub(crate) fn forget_others(&self, destination: &Name) {
        let mut shard = self.shard(destination);
        let others = shard.routes.get(destination).and_then(|route| route.others.as_mut());
        if let Some(others) = others {
            **others = Others { ways: Vec::new(), next: 1, as_of: others.as_of };
            drop(shard);
            self.changes.note(destination);
        }
    }

    /// Forgets the way to a name, because something better
    /// is known: the caller notes what has changed.
    pub(crate) fn forget(&self, destination: &Name) {
        if self.shard(destination).routes.remove(destination).is_some() {
            self.ways_changed();
        }
    }

    /// Forgets the way to a name that was found further out, where nothing leads any more.
    pub(crate) fn forget_beyond(&self, destination: &Name) {
        let mut shard = self.shard(destination);
        if shard.routes.peek(destination).is_some_and(|route| route.level > 0) {
            shard.routes.remove(destination);
            drop(shard);
            self.ways_changed();
            self.changes.note(destination);
        }
    }

    /// Forgets the way to a name, if it is still this one. Its flows are ended by what ended it.
    fn end_way(&self, destination: &Name, chain: &Arc<Verified<Chain>>) {
        let mut shard = self.shard(destination);
        let Some(route) = shard.routes.get(destination) else { return };
        if Arc::ptr_eq(&route.chain, chain) {
            shard.end_first(destination);
        } else if let Some(others) = &mut route.others {
            others.ways.retain(|other| !Arc::ptr_eq(&other.chain, chain));
        }
        self.ways_changed();
    }

    /// Marks the way to a name as in use, and the statements that it was checked against.
    pub(crate) fn keep(&self, destination: &Name) {
        let chains = self.shard(destination).routes.get(destination).map(|route| {
            let others = route.others.iter().flat_map(|others| &others.ways);
            others.map(|other| other.chain.clone()).chain([route.chain.clone()]).collect::<Vec<_>>()
        });
        let chains = chains.unwrap_or_default();
        for certificate in chains.iter().flat_map(|chain| chain.certificates()) {
            self.shard(&certificate.issuer).newest.get(&certificate.issuer);
        }
    }

    /// Nobody could be asked for a newer lease of the way to a name: it is tried again at `at`.
    pub(crate) fn postpone_refresh(&self, destination: &Name, at: Instant) {
        if let Some(route) = self.shard(destination).routes.get(destination) {
            route.refresh_at = Some(at);
        }
    }

    /// RIBs say that a name is absent. While a chain of its
    /// holder's is in force, that is used nevertheless.
    pub(crate) fn learn_absence(&self, name: Name, until: Instant) {
        self.shard(&name).absences.insert(name, until);
    }

    pub(crate) fn forget_absence(&self, name: &Name) {
        self.shard(name).absences.remove(name);
    }

    /// Whether ways to a name are of use here: one is known, or it was looked for in vain.
    pub(crate) fn concerns(&self, name: &Name) -> bool {
        let shard = self.shard(name);
        shard.routes.peek(name).is_some() || shard.absences.peek(name).is_some()
    }

    /// RIBs have forgotten to tell us of changes: every
    /// route is asked for again when it is used next.
    pub(crate) fn ask_again(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.changes.note_all();
    }

    /// The ways that are in force.
    pub(crate) fn chains(&self, now: Instant) -> Vec<(Arc<Verified<Chain>>, u8)> {
        let mut chains = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            for (_, route) in shard.routes.iter() {
                let others = route.others.iter().flat_map(|others| &others.ways);
                let others = others.map(|other| (&other.chain, other.level, other.until));
                let ways = others.chain([(&route.chain, route.level, route.until)]);
                let current = ways.filter(|(_, _, until)| *until > now);
                chains.extend(current.map(|(chain, level, _)| (chain.clone(), level)));
            }
        }
        chains
    }
}

// Statements.
impl Tables {
    /// Takes over a verified statement. What it ends, flows included, is
    /// not used again. Whether it ended anything.
    pub(crate) fn note(&self, certificate: Verified<&Certificate>) -> bool {
        let issuer = &certificate.issuer;
        let mut shard = self.shard(issuer);
        let mut first = None;
        let newest = match shard.newest.peek_mut(issuer) {
            Some(newest) => newest,
            None => first.insert(Newest::default()),
        };
        let several_to = newest.several_to();
        let ends_something = newest.take(certificate);
        let adds_something = newest.several_to() > several_to;
        if let Some(newest) = first {
            shard.newest.insert(*issuer, newest);
        }
        let is_covered =
            |route: &Route| route.chain.certificates()[0].sequence <= certificate.sequence;
        let forgets = certificate.statement == Statement::Withdrawal
            && shard.routes.peek(issuer).is_some_and(is_covered);
        if forgets {
            shard.routes.remove(issuer);
            self.ways_changed();
        }
        drop(shard);
        if ends_something || adds_something || forgets {
            self.changes.note(issuer);
        }
        ends_something
    }

    /// An older word for a server counts again, because the newer one's server is not there.
    pub(crate) fn step_back(&self, older: Verified<&Certificate>) {
        let issuer = &older.issuer;
        let mut shard = self.shard(issuer);
        if !shard.newest.peek_mut(issuer).is_some_and(|newest| newest.step_back(older)) {
            return;
        }
        shard.routes.remove(issuer);
        drop(shard);
        self.ways_changed();
        self.changes.note(issuer);
    }

    /// Those of a chain that were verified before, and are the last of their kind.
    pub(crate) fn believed(&self, certificates: &[Certificate]) -> Vec<Verified<Certificate>> {
        let same = |certificate: &Certificate| {
            let shard = self.shard(&certificate.issuer);
            shard.newest.peek(&certificate.issuer)?.same(certificate).cloned()
        };
        certificates.iter().filter_map(same).collect()
    }

    /// Whether a way to a name is known, good or not.
    pub(crate) fn has_way_to(&self, name: &Name) -> bool {
        self.shard(name).routes.peek(name).is_some()
    }

    /// Whether a statement, the first of what its issuer's
    /// routes are now, would change anything here.
    pub(crate) fn needs(&self, certificate: &Certificate) -> bool {
        let mut shard = self.shard(&certificate.issuer);
        let is_behind =
            |route: &Route| route.chain.certificates()[0].sequence < certificate.sequence;
        let knows = shard.newest.get(&certificate.issuer).is_some_and(|n| n.knows(certificate));
        !knows || shard.routes.peek(&certificate.issuer).is_some_and(is_behind)
    }

    /// Whether a chain may let traffic of its origin in: neither the origin nor its server has said
    /// anything else since, and nobody in the chain has withdrawn. Routers let several others carry
    /// at once, so their newer routes end nothing.
    pub(crate) fn admits(&self, chain: &Chain) -> bool {
        self.newer_than(chain).is_none()
    }

    /// The statement for which a chain may not let traffic of its origin in.
    pub(crate) fn newer_than(&self, chain: &Chain) -> Option<Certificate> {
        let is_service = |c: &&Certificate| matches!(c.statement, Statement::Service { .. });
        let own = 1 + chain.certificates().iter().take_while(is_service).count();
        chain.certificates().iter().enumerate().find_map(|(at, certificate)| {
            let mut shard = self.shard(&certificate.issuer);
            let newest = shard.newest.get(&certificate.issuer)?;
            match at < own {
                true => newest.newer_than(certificate).cloned(),
                false => newest.withdrawal_of(certificate).cloned(),
            }
        })
    }

    fn is_superseded(&self, chain: &Chain) -> bool {
        chain.certificates().iter().any(|certificate| self.supersedes(certificate))
    }

    fn supersedes(&self, certificate: &Certificate) -> bool {
        let mut shard = self.shard(&certificate.issuer);
        let newest = shard.newest.get(&certificate.issuer);
        newest.is_some_and(|newest| newest.newer_than(certificate).is_some())
    }
}

// Metadata.
impl Tables {
    /// Metadata need no trust in who sent them: they hash to their name.
    pub(crate) fn learn_metadata(&self, metadata: Arc<Metadata>) {
        let name = name_of(&metadata);
        self.shard(&name).metadata.insert(name, metadata);
    }

    /// Metadata that came with a chain, from somebody of this standing.
    pub(crate) fn learn_brought(&self, metadata: Arc<Metadata>, standing: Standing) {
        let name = name_of(&metadata);
        let mut shard = self.shard(&name);
        if standing == Standing::Admitted {
            shard.metadata.insert(name, metadata);
        } else if shard.metadata.peek(&name).is_none() {
            shard.brought.insert(name, metadata);
        }
    }

    pub(crate) fn metadata_of(&self, name: &Name) -> Option<Arc<Metadata>> {
        let mut shard = self.shard(name);
        let Shard { metadata, brought, .. } = &mut *shard;
        metadata.get(name).or_else(|| brought.get(name)).cloned()
    }
}

// What expires, and what is left.
impl Tables {
    /// Removes some of what has expired, if it is time and no other switch is at it. Whether there
    /// is more to do. Bounded by [`Table::sweep`], twice for each shard.
    pub(crate) fn sweep(&self, now: Instant) -> bool {
        let mut sweeper = match self.sweeper.try_lock() {
            Ok(sweeper) => sweeper,
            Err(TryLockError::Poisoned(sweeper)) => sweeper.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if now < sweeper.due {
            return false;
        }
        let mut swept = Swept::default();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let routes = shard.routes.sweep(&mut sweeper.chance, now);
            if routes.removed > 0 {
                self.ways_changed();
            }
            swept += routes;
            swept += shard.absences.sweep(&mut sweeper.chance, now);
        }
        sweeper.due = now + sweep_after(swept.goes_on);
        swept.goes_on
    }

    pub(crate) fn fills(&self) -> Fills {
        let none = Fill { used: 0, bound: 0 };
        let mut fills = Fills { routes: none, absences: none, newest: none, metadata: none };
        for shard in &self.shards {
            let shard = lock(shard);
            fills.routes += shard.routes.fill();
            fills.absences += shard.absences.fill();
            fills.newest += shard.newest.fill();
            fills.metadata += shard.metadata.fill();
            fills.metadata += shard.brought.fill();
        }
        fills
    }
}

impl Route {
    /// All ways, as those besides another one that takes the place of the first.
    fn take_ways(&mut self) -> Vec<Other> {
        let others = self.others.as_mut();
        let mut ways = others.map_or(Vec::new(), |others| std::mem::take(&mut others.ways));
        ways.push(Other { chain: self.chain.clone(), level: self.level, until: self.until });
        ways
    }
}

impl Shard {
    /// The first way to a name has ended: another one takes its place, if there is one.
    fn end_first(&mut self, destination: &Name) {
        let Some(route) = self.routes.get(destination) else { return };
        match route.others.as_mut().and_then(|others| others.ways.pop()) {
            Some(Other { chain, level, until }) => {
                (route.chain, route.level, route.until) = (chain, level, until);
                route.refresh_at = None;
            }
            None => drop(self.routes.remove(destination)),
        }
    }

    fn way(&mut self, destination: &Name, epoch: u64, now: Instant) -> Option<Way> {
        while self.routes.peek(destination).is_some_and(|it| it.until <= now && it.others.is_some())
        {
            self.end_first(destination);
        }
        let route = self.routes.current(destination, now)?;
        if std::mem::replace(&mut route.epoch, epoch) != epoch {
            route.refresh_at = Some(now);
        }
        let wants_refresh = route.refresh_at.take_if(|at| *at <= now).is_some();
        let flow_until = route.refresh_at.unwrap_or(route.until);
        let (chain, level) = (route.chain.clone(), route.level);
        let mut others = Vec::new();
        if let Some(known) = &mut route.others {
            known.ways.retain(|other| other.until > now);
            others.clone_from(&known.ways);
        }
        Some(Way { chain, level, flow_until, wants_refresh, others, wants_other: None })
    }
}

impl Expires for Route {
    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// How long to wait with the next sweep.
pub(crate) fn sweep_after(goes_on: bool) -> Duration {
    match goes_on {
        true => SWEEP_ON_AFTER,
        false => SWEEP_EVERY,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A switch that panicked took its process along, or its entries
    // stand as they were before: none is half made.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a chain holds an earlier statement than another one of the same origin does.
fn is_older(chain: &Chain, known: &Chain) -> bool {
    chain.certificates().iter().any(|c| {
        let same_kind = |other: &&Certificate| {
            let hands_on = [*other, c].map(|c| c.statement.hands_on_to().is_some());
            let exports = [*other, c].map(|c| c.statement.exports_by().is_some());
            let several = [*other, c].map(|c| c.statement.is_one_of_several());
            if several == [true; 2] && other.statement != c.statement {
                return false;
            }
            other.issuer == c.issuer && hands_on[0] == hands_on[1] && exports[0] == exports[1]
        };
        known.certificates().iter().find(same_kind).is_some_and(|old| old.sequence > c.sequence)
    })
}

fn is_one_of_several(chain: &Chain) -> bool {
    chain.certificates().iter().any(|certificate| certificate.statement.is_one_of_several())
}

fn without(mut ways: Vec<Other>, chain: &Chain) -> Vec<Other> {
    ways.retain(|other| !same_way(&other.chain, chain));
    ways
}

fn same_way(a: &Chain, b: &Chain) -> bool {
    a.routers().eq(b.routers()) && a.locator() == b.locator() && a.scope() == b.scope()
}

/// The share of a route's time after which it is asked for again: holders renew at half-life, so
/// that by then the RIB has the new lease, and a quarter of the time is left for the answer.
const REFRESH_AT: f32 = 0.75;
/// Of the metadata that are kept, one in so many may be what strangers brought.
const PART_OF_STRANGERS: usize = 16;
/// Two of eight switches that miss at the same moment seldom meet in one.
const MAX_SHARDS: usize = 16;
/// Names spread evenly over shards only when there are many of them.
const MIN_SHARD: usize = 256;
/// What expires lives for seconds to hours; a quarter of it
/// may stay a while, and costs nothing but room.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A sweep that has more to do lets a few batches pass first.
const SWEEP_ON_AFTER: Duration = Duration::from_millis(10);
/// The purpose of the chances of shared tables.
const SHARED: u64 = 1;

#[cfg(test)]
mod tests;
