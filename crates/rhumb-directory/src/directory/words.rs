//! What each RIB has said of the ways to names, and where one contradicts itself or another.
//!
//! 1. An answer that was verified is noted: [`Directory::note_shown`], [`Directory::note_absent`].
//!    So is what a RIB says that it stored. That is its word: in its own store, of one session.
//! 2. One answer in so many is put to another RIB as well: [`Question::Check`]. Denials are not:
//!    where a RIB denies a name, the next one is asked for it anyway.
//! 3. A RIB that denies what another one shows, or shows something older, may not have heard of it
//!    yet. It is shown the other's statement, as if that were published: [`Question::Show`]. When
//!    it says that it stored it, it is asked again.
//! 4. It is proven wrong by its own word alone: what is older than that is `Stale`; a denial is
//!    `Withheld` when it says before and after that it stores the very statement, `Contradicted`
//!    when it had shown the statement by itself.
//!
//! INVARIANT: no name's holder can frame a RIB. What a RIB has stored it replaces by what is newer
//! only, and it remembers sequences for longer than older statements hold, withdrawn ones included:
//! so after a withdrawal it does not take the statement again that it denies, and says why.
//! Answers to questions that were sent before its word came are no evidence, nor is anything across
//! a session or a store, since either may begin from a back-up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::SessionId;
use rhumb_wire::rib::{Refusal, RibRequestBody};
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use super::conduct::Fault;
use super::second::Second;
use super::{Directory, Question};
use crate::chance::Chance;
use crate::table::Table;

/// How many answers are put to another RIB as well, and by whose chance.
pub struct Checks {
    /// One in so many, at least 1.
    pub one_in: u32,
    /// Nobody shall foresee which ones.
    pub chance: Chance,
}

pub(super) struct Words {
    /// Whether any of this is done.
    counts: bool,
    checks: Option<Checks>,
    said: Table<(Name, usize), Word>,
    /// What one RIB alone is asked, or shown, now.
    under_way: HashMap<(Name, usize), UnderWay>,
    /// How often a RIB was shown something of a name, in the last minute.
    shown_lately: Table<(Name, usize), (Instant, u32)>,
    /// In this second, of all names.
    shown_in: Second,
    /// Of each RIB: words of another generation are not its words any more.
    generations: Vec<u64>,
}

/// The word of one RIB of one name: a statement that it has.
struct Word {
    generation: u64,
    certificate: Box<Certificate>,
    metadata: Arc<Metadata>,
    /// Since when we know that.
    at: Instant,
    /// It was shown the statement by us, and said that it stored it.
    was_shown: bool,
    /// When it denied the name though, asked after that.
    denied_at: Option<Instant>,
    /// It was noted that it had been behind.
    is_counted: bool,
}

struct UnderWay {
    sent_at: Instant,
    /// What it is shown.
    shows: Option<(Box<Certificate>, Arc<Metadata>)>,
}

impl Words {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            counts: false,
            checks: None,
            said: Table::new(MAX_WORDS),
            under_way: HashMap::new(),
            shown_lately: Table::new(MAX_WORDS),
            shown_in: Second::default(),
            generations: vec![0; replicas],
        }
    }

    /// Nothing that a RIB said counts any more.
    pub(super) fn forget(&mut self, replica: usize) {
        self.generations[replica] += 1;
        self.under_way.retain(|(_, of), _| *of != replica);
    }

    fn word(&mut self, name: Name, replica: usize) -> Option<&mut Word> {
        let generation = self.generations[replica];
        self.said.get(&(name, replica)).filter(|word| word.generation == generation)
    }

    /// A RIB has this statement. Whether it has it because it was shown that, and did not before.
    fn stand(
        &mut self,
        replica: usize,
        (certificate, metadata): (&Certificate, &Arc<Metadata>),
        was_shown: bool,
        now: Instant,
    ) -> bool {
        let (name, generation) = (certificate.issuer, self.generations[replica]);
        if let Some(word) = self.word(name, replica)
            && word.certificate.sequence >= certificate.sequence
        {
            let is_again = word.was_shown && !was_shown && *word.certificate == *certificate;
            return is_again && !std::mem::replace(&mut word.is_counted, true);
        }
        let (certificate, metadata) = (Box::new(certificate.clone()), metadata.clone());
        let (denied_at, is_counted) = (None, false);
        let word =
            Word { generation, certificate, metadata, at: now, was_shown, denied_at, is_counted };
        self.said.insert((name, replica), word);
        false
    }

    fn known(&self, name: Name, replica: usize) -> Option<&Word> {
        let word = self.said.peek(&(name, replica))?;
        (word.generation == self.generations[replica]).then_some(word)
    }

    /// Takes out what a RIB alone was asked or shown, and forgets what was never answered.
    fn take(&mut self, name: Name, replica: usize) -> Option<UnderWay> {
        self.under_way.remove(&(name, replica))
    }

    fn begin(&mut self, (name, replica): (Name, usize), under_way: UnderWay) -> bool {
        let now = under_way.sent_at;
        self.under_way.retain(|_, it| it.sent_at + GIVE_UP_AFTER > now);
        let may =
            self.under_way.len() < MAX_UNDER_WAY && !self.under_way.contains_key(&(name, replica));
        if may {
            self.under_way.insert((name, replica), under_way);
        }
        may
    }

    /// Whether a RIB may be shown something of a name now, which is counted if so.
    fn may_show(&mut self, name: Name, replica: usize, now: Instant) -> bool {
        let key = (name, replica);
        let lately = self.shown_lately.get(&key).filter(|(since, _)| *since + A_MINUTE > now);
        let times = lately.map_or(0, |(_, times)| *times);
        if times >= MOST_SHOWN_OF_A_NAME || !self.shown_in.take(MOST_SHOWN_IN_A_SECOND, now) {
            return false;
        }
        match self.shown_lately.get(&key).filter(|(since, _)| *since + A_MINUTE > now) {
            Some((_, times)) => *times += 1,
            None => self.shown_lately.insert(key, (now, 1)),
        }
        true
    }
}

// What RIBs say.
impl Directory {
    /// Holds RIBs to what they said, from now on.
    pub fn hold_to_word(&mut self) {
        self.words.counts = true;
    }

    /// The same, and puts one answer in so many to another RIB as well.
    pub fn check_answers(&mut self, checks: Checks) {
        self.words.checks = Some(checks);
        self.hold_to_word();
    }

    /// A RIB answered a question about the way to a name, from its own store, by a way that
    /// verified and begins with this statement, whose issuer's metadata these are. To be called
    /// before the question is settled.
    pub fn note_shown(
        &mut self,
        (question, replica): (Question, usize),
        certificate: &Certificate,
        metadata: &Arc<Metadata>,
        now: Instant,
    ) {
        let Some((name, asked_at)) = self.asked_at(&question, replica) else { return };
        let is_check = matches!(question, Question::Check(..));
        if is_check {
            self.settle_dispute((name, replica), Some(certificate), asked_at, now);
        }
        if !is_plain(certificate) || certificate.issuer != name {
            return;
        }
        let word = self.words.word(name, replica);
        if let Some(fault) = word.and_then(|word| word.shown(certificate, asked_at)) {
            return self.note_fault(replica, fault, now);
        }
        if self.words.stand(replica, (certificate, metadata), false, now) {
            self.conducts[replica].note_behind();
        }
        let denied = self.inquiries.deniers(&question);
        self.compare((name, replica), denied, is_check, now);
        if !is_check {
            self.check_by_chance(certificate, replica, now);
        }
    }

    /// A RIB denied a name, by an absence that verified. To be called before that is made
    /// something of.
    pub fn note_absent(
        &mut self,
        (question, replica): (Question, usize),
        absence: &Certificate,
        now: Instant,
    ) {
        let Some((name, asked_at)) = self.asked_at(&question, replica) else { return };
        let is_check = matches!(question, Question::Check(..));
        if is_check {
            self.settle_dispute((name, replica), None, asked_at, now);
        } else if self.is_to_be_checked() {
            self.prove((name, replica), None, now);
        }
        match self.words.word(name, replica) {
            Some(word) if !word.holds(absence) => {}
            Some(word) if asked_at < word.at || !is_plain(&word.certificate) => {}
            Some(word) => {
                // Perhaps it was withdrawn meanwhile: whether it still takes the statement tells.
                word.denied_at = Some(now);
                let shown = word.to_show();
                self.show(replica, shown, now);
            }
            None if is_check => self.compare_denial(name, replica, absence, now),
            None => {}
        }
    }

    /// A RIB told unasked that a name has this statement now. What it told before may come again.
    pub fn note_told(
        &mut self,
        session: SessionId,
        certificate: &Certificate,
        metadata: &Arc<Metadata>,
        now: Instant,
    ) {
        let at = self.replicas.iter().position(|rib| rib.session() == Some(session));
        let Some(replica) = at.filter(|_| self.words.counts) else { return };
        if is_plain(certificate) || certificate.statement == Statement::Withdrawal {
            self.words.stand(replica, (certificate, metadata), false, now);
        }
    }

    /// A RIB answered what does not verify, for other reasons than time.
    pub fn note_forged(&mut self, replica: usize, now: Instant) {
        self.note_fault(replica, Fault::Forged, now);
    }

    /// A RIB that was shown another one's statement has stored it, or refuses it.
    pub fn show_answered(
        &mut self,
        name: Name,
        replica: usize,
        answer: Result<(), Refusal>,
        now: Instant,
    ) {
        let Some(UnderWay { sent_at, shows }) = self.words.take(name, replica) else { return };
        // Whoever refuses has something newer, or rules of its own: no fault is proven.
        let (Some((certificate, metadata)), Ok(())) = (shows, answer) else { return };
        let word = self.words.word(name, replica);
        if let Some(fault) = word.and_then(|word| word.confirmed(&certificate, sent_at)) {
            return self.note_fault(replica, fault, now);
        }
        self.words.stand(replica, (&certificate, &metadata), true, now);
        self.check(name, replica, now);
    }

    pub(super) fn note_fault(&mut self, replica: usize, fault: Fault, now: Instant) {
        if let Some(conduct) = self.conducts.get_mut(replica) {
            conduct.note(fault, now);
        }
    }

    /// The name in a question that was put to a RIB, and when; nothing when nothing is noted.
    fn asked_at(&mut self, question: &Question, replica: usize) -> Option<(Name, Instant)> {
        if !self.words.counts {
            return None;
        }
        match *question {
            Question::Route(name) => Some((name, self.inquiries.asked_at(question, replica)?)),
            Question::Check(name, of) if of == replica => {
                Some((name, self.words.take(name, replica)?.sent_at))
            }
            _ => None,
        }
    }
}

// Where they contradict.
impl Directory {
    /// Compares what a RIB has shown with what others have said, of which some denied it just now.
    fn compare(
        &mut self,
        (name, replica): (Name, usize),
        denied: Vec<usize>,
        is_check: bool,
        now: Instant,
    ) {
        let words = &self.words;
        let Some(own) = words.known(name, replica) else { return };
        let mut to_show: Vec<_> = denied.into_iter().map(|other| (other, own.to_show())).collect();
        for other in (0..words.generations.len()).filter(|other| *other != replica) {
            match words.known(name, other) {
                Some(theirs) if ends(&theirs.certificate, &own.certificate) => {
                    to_show.push((replica, theirs.to_show()));
                }
                Some(theirs) if is_check && ends(&own.certificate, &theirs.certificate) => {
                    to_show.push((other, own.to_show()));
                }
                _ => {}
            }
        }
        for (replica, shown) in to_show {
            self.show(replica, shown, now);
        }
    }

    /// A RIB denies what others may have shown.
    fn compare_denial(&mut self, name: Name, replica: usize, absence: &Certificate, now: Instant) {
        let words = &self.words;
        let others = (0..words.generations.len()).filter(|other| *other != replica);
        let shows = |it: &&Word| it.holds(absence) && is_plain(&it.certificate);
        let shown = others.filter_map(|other| words.known(name, other)).filter(shows);
        let newest = shown.max_by_key(|it| it.certificate.sequence).map(Word::to_show);
        if let Some(newest) = newest {
            self.show(replica, newest, now);
        }
    }

    /// Puts the question to another RIB as well, and has the answer proven, of one in so many.
    fn check_by_chance(&mut self, shown: &Certificate, replica: usize, now: Instant) {
        if !self.is_to_be_checked() {
            return;
        }
        let ready = self.replicas.iter().enumerate().filter(|(_, rib)| rib.session().is_some());
        let others: Vec<usize> = ready.map(|(at, _)| at).filter(|at| *at != replica).collect();
        if let Some(Checks { chance, .. }) = &mut self.words.checks
            && !others.is_empty()
        {
            let other = others[chance.below(others.len())];
            self.check(shown.issuer, other, now);
        }
        self.prove((shown.issuer, replica), Some(shown), now);
    }

    /// Whether this answer is one of so many.
    fn is_to_be_checked(&mut self) -> bool {
        let Some(Checks { one_in, chance }) = &mut self.words.checks else { return false };
        chance.below((*one_in).max(1) as usize) == 0
    }

    /// Asks one RIB alone.
    pub(super) fn check(&mut self, name: Name, replica: usize, now: Instant) {
        let is_there = self.replicas[replica].session().is_some();
        if is_there && self.words.begin((name, replica), UnderWay { sent_at: now, shows: None }) {
            let body = RibRequestBody::LookUpRoute(name);
            self.send(replica, Question::Check(name, replica), body, now);
        }
    }

    /// Shows a RIB what another one, or itself, has shown.
    fn show(&mut self, replica: usize, shown: (Box<Certificate>, Arc<Metadata>), now: Instant) {
        let name = shown.0.issuer;
        if self.replicas[replica].session().is_none() || !self.words.may_show(name, replica, now) {
            return;
        }
        let (metadata, certificates) = (vec![(*shown.1).clone()], vec![(*shown.0).clone()]);
        let under_way = UnderWay { sent_at: now, shows: Some(shown) };
        if self.words.begin((name, replica), under_way) {
            let body = RibRequestBody::Publish { metadata, certificates };
            self.send(replica, Question::Show(name, replica), body, now);
        }
    }
}

impl Word {
    /// It shows this, asked then. Which fault that proves.
    fn shown(&mut self, certificate: &Certificate, asked_at: Instant) -> Option<Fault> {
        if asked_at >= self.at && ends(&self.certificate, certificate) {
            return Some(Fault::Stale);
        }
        self.confirmed(certificate, asked_at)
    }

    /// It says, asked then, that it has this. Which fault that proves.
    fn confirmed(&mut self, certificate: &Certificate, asked_at: Instant) -> Option<Fault> {
        let has_denied = self.denied_at.is_some_and(|at| at <= asked_at);
        if !has_denied || *self.certificate != *certificate {
            return None;
        }
        self.denied_at = None;
        Some(if self.was_shown { Fault::Withheld } else { Fault::Contradicted })
    }

    /// Whether the statement was in force for as long as an absence holds that an honest RIB dates
    /// so, by the RIB's own clock.
    fn holds(&self, absence: &Certificate) -> bool {
        absence.not_before_s.saturating_add(ABSENCE_S) <= self.certificate.not_after_s
    }

    fn to_show(&self) -> (Box<Certificate>, Arc<Metadata>) {
        (self.certificate.clone(), self.metadata.clone())
    }
}

/// Whether it is the only route by which its issuer is found: a RIB always shows the newest.
fn is_plain(certificate: &Certificate) -> bool {
    let scope = certificate.statement.scope();
    matches!(certificate.statement, Statement::Route { .. })
        && matches!(scope, Scope::Any | Scope::Destination(_))
}

/// Whether no honest RIB that has `newer` shows `older`.
fn ends(newer: &Certificate, older: &Certificate) -> bool {
    match newer.statement {
        Statement::Withdrawal => newer.sequence >= older.sequence,
        _ => is_plain(newer) && is_plain(older) && newer.sequence > older.sequence,
    }
}

/// With a certificate each, 3 MB when full.
const MAX_WORDS: usize = 1 << 12;
/// What RIBs are asked or shown beside the questions of those who need an answer.
const MAX_UNDER_WAY: usize = 256;
/// Longer than any RIB takes that is worth asking.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);
/// Each contradiction takes two; whoever goes on is proven wrong three times a minute by one name.
const MOST_SHOWN_OF_A_NAME: u32 = 6;
/// A RIB verifies them as what we publish, of which it takes a thousand in a second.
const MOST_SHOWN_IN_A_SECOND: u32 = 16;
const A_MINUTE: Duration = Duration::from_secs(60);
/// How long an absence holds (section 9.1 of the specification).
const ABSENCE_S: u64 = 2;
