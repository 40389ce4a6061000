//! What the domain around knows, as far as it was asked: the RIBs of that domain, the look-ups that
//! wait for their answers, and what they said, until it ends.
//!
//! 1. A look-up that misses here is put to them once, however many ask: [`Beyond::enter`].
//! 2. What they answer is verified before anything is made of it: [`Told`].
//! 3. It is remembered and told to whoever asks next, while those RIBs tell of changes; when they
//!    are away, until it ends: [`Beyond::recall`].
//!
//! INVARIANT: strangers, of whatever number, have no more than their part of what is asked in a
//! second and of the places to wait in; so those who were admitted are always heard.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use rhumb_directory::{Directory, Kind, Question, Slot, Table};
use rhumb_link::SessionId;
use rhumb_trust::{ChainError, StatementError, name_of, verify_chain, verify_statement};
use rhumb_wire::rib::{MAX_WAYS, RequestId};
use rhumb_wire::{Certificate, Metadata, Name, PublicKey, Statement};

use crate::allowance::Allowance;
use crate::config::Config;
use crate::lookup::Trail;
use crate::share::Payer;
use crate::signatures::Budgets;
use crate::upward::Upward;
use crate::{Asker, OrderId};

pub(crate) struct Beyond {
    pub(crate) directory: Directory,
    pub(crate) upward: Upward,
    /// The RIBs that there are sessions with.
    parents: HashMap<SessionId, Arc<Metadata>>,
    /// By name and the number of the way.
    remembered: Table<(Name, u8), Kept>,
    metadata: Table<Name, (u8, Metadata)>,
    /// The newest of each slot that changed: what rests on an older one is asked for again.
    newest: Table<Slot, u64>,
    /// The newest of any issuer's that is one of several: a way that was to be the only one is
    /// older.
    newest_of_several: Table<Name, u64>,
    climbers: HashMap<Question, Vec<Climber>>,
    places: [usize; 2],
    to_ask: VecDeque<Question>,
    pub(crate) unverified: VecDeque<Told>,
    pub(crate) verified: VecDeque<(Told, bool)>,
    budgets: Budgets,
    of_kind: [Allowance; 2],
}

/// Somebody who waits for what the domain around says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Climber {
    pub(crate) order: OrderId,
    pub(crate) request: RequestId,
    pub(crate) asker: Asker,
}

/// What was found, by how many domains further out.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) level: u8,
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) certificates: Vec<Certificate>,
}

/// The same, when it was heard.
struct Kept {
    what: Remembered,
    /// The newest statement that was known then, of all issuers on the way, to be one of several.
    as_of: u64,
}

/// What a RIB of the domain around said, to be verified.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) heard: Heard,
    pub(crate) name: Name,
    /// Of the way.
    pub(crate) number: u8,
    pub(crate) what: Remembered,
    pub(crate) keys: Vec<(Name, PublicKey)>,
    pub(crate) now_s: u64,
}

#[derive(Debug)]
pub(crate) enum Heard {
    Answer {
        replica: usize,
    },
    /// `alone` if it was asked to compare.
    Absence {
        replica: usize,
        rib: Arc<Metadata>,
        alone: bool,
    },
    /// It alone was asked, to compare.
    Check {
        replica: usize,
    },
    Change,
    /// By which certificates a name is known outside of its domain, by a RIB of that.
    AtHome {
        rib: Name,
    },
}

impl Told {
    /// Whether every signature of it does.
    pub(crate) fn holds(&self) -> bool {
        let certificates = &self.what.certificates;
        let alone = match &certificates[..] {
            [only] if only.statement.hands_on_to().is_none() => Some(only),
            [only] if matches!(only.statement, Statement::Service { .. }) => Some(only),
            _ => None,
        };
        let issuer = match &self.heard {
            Heard::Absence { rib, .. } => Some(&**rib),
            _ => self.what.metadata.iter().find(|metadata| name_of(metadata) == self.name),
        };
        match (alone, issuer, &self.heard) {
            (Some(only), Some(issuer), Heard::Absence { .. } | Heard::Change) => {
                verify_statement(only, issuer, self.now_s).is_ok()
            }
            (_, _, Heard::Absence { .. }) => false,
            _ => {
                let keys: HashMap<Name, PublicKey> = self.keys.iter().copied().collect();
                let key_of = |name: &Name| keys.get(name).copied();
                verify_chain(self.name, certificates.clone(), key_of, self.now_s).is_ok()
            }
        }
    }
}

impl Told {
    /// Which question it answers, and by which RIB.
    pub(crate) fn answers(&self) -> Option<(Question, usize)> {
        let Self { name, number, .. } = *self;
        match self.heard {
            Heard::Check { replica } | Heard::Absence { replica, alone: true, .. } => {
                Some((Question::Check(name, replica), replica))
            }
            Heard::Answer { replica } | Heard::Absence { replica, .. } => {
                Some((Question::way(name, number), replica))
            }
            Heard::Change | Heard::AtHome { .. } => None,
        }
    }

    /// Of what does not hold: whether no time and no change makes that of something good.
    pub(crate) fn is_forged(&self) -> bool {
        let certificates = self.what.certificates.clone();
        let keys: HashMap<Name, PublicKey> = self.keys.iter().copied().collect();
        let verified =
            verify_chain(self.name, certificates, |name| keys.get(name).copied(), self.now_s);
        let is_way = matches!(self.heard, Heard::Answer { .. } | Heard::Check { .. });
        let is_bad = matches!(
            verified,
            Err(ChainError::WrongOrigin { .. }
                | ChainError::Statement { error: StatementError::BadSignature, .. })
        );
        is_way && is_bad
    }
}

impl Beyond {
    /// For a directory that has these RIBs around it, of which nothing is known yet.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let bound = config.max_beyond;
        let mut directory = Directory::new(&config.parents, bound, MAX_PUBLICATIONS, now);
        directory.hold_to_word();
        Self {
            directory,
            upward: Upward::new(bound),
            parents: HashMap::new(),
            remembered: Table::new(bound),
            metadata: Table::new(bound),
            newest: Table::new(bound),
            newest_of_several: Table::new(bound),
            climbers: HashMap::new(),
            places: [0; 2],
            to_ask: VecDeque::new(),
            unverified: VecDeque::new(),
            verified: VecDeque::new(),
            budgets: Budgets::new(),
            of_kind: [Allowance::default(); 2],
        }
    }

    /// There is a session with one of the RIBs.
    pub(crate) fn joined(&mut self, session: SessionId, metadata: Arc<Metadata>) {
        self.parents.insert(session, metadata);
    }

    pub(crate) fn left(&mut self, session: SessionId) {
        self.parents.remove(&session);
    }

    /// Who the RIB at the other end of a session is.
    pub(crate) fn parent(&self, session: SessionId) -> Option<&Arc<Metadata>> {
        self.parents.get(&session)
    }

    /// Whether one of the RIBs has this name.
    pub(crate) fn is_parent(&self, name: &Name) -> bool {
        self.parents.values().any(|metadata| name_of(metadata) == *name)
    }

    /// Whether one more question may be asked for `payer`, which is counted if so.
    pub(crate) fn may_ask(&mut self, payer: Payer, config: &Config, now_s: u64) -> bool {
        let (kind, each, all) = match payer {
            Payer::Admitted(_) => (0, config.climbs_per_admitted_per_s, 2 * config.climbs_per_s),
            Payer::Stranger(_) => (1, config.climbs_per_source_per_s, config.climbs_per_s),
        };
        self.budgets.take(payer, 1, each, now_s) && self.of_kind[kind].take(1, all, now_s)
    }

    /// What was told and verified is a RIB's word, to which it is held; what is forged, a fault.
    pub(crate) fn note_word(&mut self, told: &Told, holds: bool, now: Instant) {
        let (Some(answer), Some(first)) = (told.answers(), told.what.certificates.first()) else {
            return;
        };
        if !holds {
            if told.is_forged() {
                self.directory.note_forged(answer.1, now);
            }
            return;
        }
        match &told.heard {
            Heard::Absence { .. } => self.directory.note_absent(answer, first, now),
            // Its own store is one level further out than ours.
            _ if told.what.level == 1 => {
                let sent = told.what.metadata.iter().find(|it| name_of(it) == first.issuer);
                let metadata = sent.or_else(|| self.metadata_of(&first.issuer)).cloned();
                if let Some(metadata) = metadata.map(Arc::new) {
                    self.directory.note_shown(answer, first, &metadata, now);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn is_climbing(&self, question: &Question) -> bool {
        self.climbers.contains_key(question)
    }

    /// Has somebody wait for the answer to a question, which is asked if it is a new one. Returns
    /// whose place it takes: its own of an earlier request. `None` when there is no place.
    pub(crate) fn enter(
        &mut self,
        question: Question,
        climber: Climber,
    ) -> Option<Option<OrderId>> {
        let is_new = !self.climbers.contains_key(&question);
        let kind = kind_of(&climber.asker);
        if let Some(waiting) = self.climbers.get_mut(&question)
            && let Some(place) = waiting.iter_mut().find(|it| it.asker.name == climber.asker.name)
        {
            return Some(Some(std::mem::replace(place, climber).order));
        }
        if self.places[kind] >= MAX_CLIMBERS / 2 {
            return None;
        }
        self.places[kind] += 1;
        self.climbers.entry(question).or_default().push(climber);
        if is_new {
            self.to_ask.push_back(question);
        }
        Some(None)
    }

    /// The next question to ask.
    pub(crate) fn next_to_ask(&mut self) -> Option<Question> {
        self.to_ask.pop_front()
    }

    /// All who wait for the answer to a question, which wait no longer.
    pub(crate) fn take_climbers(&mut self, question: &Question) -> Vec<Climber> {
        let climbers = self.climbers.remove(question).unwrap_or_default();
        for climber in &climbers {
            self.places[kind_of(&climber.asker)] -= 1;
        }
        climbers
    }

    /// What is remembered that answers a question. While the RIBs are there, only what they tell
    /// changes of.
    pub(crate) fn recall(&mut self, question: &Question, now_s: u64) -> Option<Remembered> {
        let is_alone = !self.directory.is_ready();
        match question {
            Question::Route(name) | Question::Way(name, _) => {
                let is_watched = self.directory.is_watched(name);
                let number = question.number();
                let known = self.in_force(name, number, now_s);
                known.filter(|it| it.is_way() && (is_watched || is_alone))
            }
            Question::Metadata(name) => {
                let (level, metadata) = self.metadata.get(name)?.clone();
                Some(Remembered { level, metadata: vec![metadata], certificates: Vec::new() })
            }
            _ => None,
        }
    }

    /// What is remembered of a name and holds, be it that it was withdrawn.
    pub(crate) fn in_force(&mut self, name: &Name, number: u8, now_s: u64) -> Option<Remembered> {
        let Kept { what: remembered, as_of } = self.remembered.get(&(*name, number))?;
        let holds = |it: &Certificate| it.not_after_s >= now_s;
        let certificates = &remembered.certificates;
        let newest = Newest { by_slot: &self.newest, of_several: &self.newest_of_several };
        // Which way has which number is not known any more, when there is another one.
        let is_as_then = newest.several_to(certificates) <= *as_of;
        if is_as_then && certificates.iter().all(|it| holds(it) && newest.is(it)) {
            return Some(remembered.clone());
        }
        self.remembered.remove(&(*name, number));
        None
    }

    /// Whether nothing newer is known than any of these certificates.
    pub(crate) fn is_newest(&self, certificates: &[Certificate]) -> bool {
        let newest = Newest { by_slot: &self.newest, of_several: &self.newest_of_several };
        certificates.iter().all(|certificate| newest.is(certificate))
    }

    pub(crate) fn remember(&mut self, (name, number): (Name, u8), what: Remembered) {
        self.learn_metadata(what.level, &what.metadata);
        let newest = Newest { by_slot: &self.newest, of_several: &self.newest_of_several };
        let as_of = newest.several_to(&what.certificates);
        self.remembered.insert((name, number), Kept { what, as_of });
    }

    /// Which ways there are besides the first may have changed.
    pub(crate) fn forget_other_ways(&mut self, name: Name) {
        for number in 1..MAX_WAYS {
            self.remembered.remove(&(name, number));
        }
    }

    pub(crate) fn learn_metadata(&mut self, level: u8, list: &[Metadata]) {
        for metadata in list {
            self.metadata.insert(name_of(metadata), (level, metadata.clone()));
        }
    }

    pub(crate) fn metadata_of(&self, name: &Name) -> Option<&Metadata> {
        self.metadata.peek(name).map(|(_, metadata)| metadata)
    }

    /// Notes what changed, of which everything older holds no longer.
    pub(crate) fn note_newest(&mut self, certificate: &Certificate) {
        let Slot { issuer, kind } = Slot::of(certificate);
        if certificate.statement == Statement::Withdrawal {
            for kind in [Kind::Way, Kind::Locator, Kind::Export] {
                self.newest.insert(Slot { issuer, kind }, certificate.sequence.saturating_add(1));
            }
        } else if certificate.statement.is_one_of_several() {
            let before = self.newest_of_several.peek(&issuer).copied().unwrap_or(0);
            self.newest_of_several.insert(issuer, before.max(certificate.sequence));
        } else {
            self.newest.insert(Slot { issuer, kind }, certificate.sequence);
        }
    }

    /// Puts something that was told behind what is to be verified, if there is room.
    pub(crate) fn verify(&mut self, told: Told) -> bool {
        let has_room = self.unverified.len() < MAX_UNVERIFIED;
        if has_room {
            self.unverified.push_back(told);
        }
        has_room
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.directory.poll_timeout().into_iter().chain(self.upward.due()).min()
    }
}

impl Remembered {
    /// Whether a name is reached this way.
    pub(crate) fn is_way(&self) -> bool {
        let withdrawn = |it: &Certificate| it.statement == Statement::Withdrawal;
        !self.certificates.iter().any(withdrawn) && Trail::leads(&self.certificates)
    }
}

/// The newest of each slot that changed.
struct Newest<'a> {
    by_slot: &'a Table<Slot, u64>,
    of_several: &'a Table<Name, u64>,
}

impl Newest<'_> {
    /// The highest sequence that was heard, of all issuers of these, of what is one of several.
    fn several_to(&self, certificates: &[Certificate]) -> u64 {
        let heard = certificates.iter().filter_map(|it| self.of_several.peek(&it.issuer).copied());
        heard.max().unwrap_or(0)
    }

    /// Whether nothing newer is known than this certificate.
    fn is(&self, certificate: &Certificate) -> bool {
        let issuer = certificate.issuer;
        // A withdrawal is noted under one more than its own.
        let own = match certificate.statement {
            // An older server takes the place of a newer one that is gone: the RIBs say when.
            Statement::Service { several: false, .. } => return true,
            Statement::Withdrawal => certificate.sequence.saturating_add(1),
            _ => certificate.sequence,
        };
        let is_one_of_several = certificate.statement.is_one_of_several();
        let slot = match is_one_of_several {
            true => Slot { issuer, kind: Kind::Way },
            false => Slot::of(certificate),
        };
        let several = self.of_several.peek(&issuer);
        let several = several.filter(|_| slot.kind == Kind::Way && !is_one_of_several);
        let newer = |newest: &u64| *newest > own;
        !self.by_slot.peek(&slot).is_some_and(newer) && !several.is_some_and(newer)
    }
}

fn kind_of(asker: &Asker) -> usize {
    usize::from(matches!(Payer::of(asker), Payer::Stranger(_)))
}

/// Each waits for three seconds at most; half of the places are strangers'.
const MAX_CLIMBERS: usize = 1 << 13;
/// A second of a core's work, and what more is told is repeated.
const MAX_UNVERIFIED: usize = 1 << 12;
/// Statements that wait for the RIBs to take them: 32 MB when full.
const MAX_PUBLICATIONS: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::{Identity, Window};
    use rhumb_wire::{Role, Scope};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn what_is_older_than_a_change_is_not_told_but_for_a_server_that_steps_in() {
        let mut beyond = Beyond::new(&Config::default(), Instant::now());
        let holder = Identity::generate(Role::Node, 0).unwrap();
        let say = |statement, sequence| {
            holder.certify(statement, sequence, Window::starting(1000, 600)).unwrap()
        };
        let route =
            |sequence| say(Statement::Route { via: Name([1; 32]), scope: Scope::Any }, sequence);
        let remember = |beyond: &mut Beyond, certificate: &Certificate| {
            let certificates = vec![certificate.clone()];
            beyond.remember(
                (holder.name(), 0),
                Remembered { level: 1, metadata: Vec::new(), certificates },
            );
            beyond.in_force(&holder.name(), 0, 1000).is_some()
        };
        assert!(remember(&mut beyond, &route(5)));
        assert!(beyond.in_force(&holder.name(), 0, 1600).is_some());
        assert!(beyond.in_force(&holder.name(), 0, 1601).is_none(), "it has ended");
        beyond.note_newest(&route(7));
        assert!(!remember(&mut beyond, &route(6)));
        assert!(remember(&mut beyond, &route(7)));
        let withdrawal = say(Statement::Withdrawal, 7);
        beyond.note_newest(&withdrawal);
        assert!(!remember(&mut beyond, &route(7)));
        assert!(remember(&mut beyond, &withdrawal));
        assert!(remember(&mut beyond, &route(8)));
        assert!(remember(
            &mut beyond,
            &say(Statement::Service { server: Name([2; 32]), several: false }, 3)
        ));
    }
}
