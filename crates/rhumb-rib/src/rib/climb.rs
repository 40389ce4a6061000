//! Look-ups that miss here and are handed on to the domain around, and what comes of them.
//!
//! 1. [`Rib::climb`] answers from what is remembered, or has the asker wait.
//! 2. [`Rib::hear`] takes what the RIBs of the domain around send; signatures are checked where
//!    those of orders are.
//! 3. [`Rib::advance`] puts new questions, believes what was verified, answers those who wait, and
//!    hands on what is to be known outside (`pass_up`).
//!
//! What was found there is found here one level further out. A RIB of the domain around that asks
//! is never answered from there: what it does not know is not to be looked for at where it asks.
//! Larger circles of domains end by time: a question is put once, for three seconds at most, and a
//! level beyond [`MAX_LEVEL`] is an absence.

use std::time::Duration;

use rhumb_directory::{Answered, NoAnswer, Question, until};
use rhumb_link::SessionId;
use rhumb_trust::{Now, name_of};
use rhumb_wire::rib::{MAX_LEVEL, Refusal, RequestId, RibResponse, RibResponseBody};
use rhumb_wire::{Metadata, Name, PublicKey, Statement};

use super::{Asker, OrderId, Outcome, Rib};
use crate::DropReason;
use crate::absence::ABSENCE_TTL_S;
use crate::beyond::{Climber, Heard, Remembered, Told};
use crate::lookup::Trail;
use crate::share::Payer;
use crate::store::Store;

// Asking.
impl<S: Store> Rib<S> {
    /// A look-up that misses here.
    pub(crate) fn climb(
        &mut self,
        asker: Asker,
        request: RequestId,
        question: Question,
        now_s: u64,
    ) -> Outcome {
        let Some(name) = name_in(&question) else { return Outcome::Noted };
        let Some(beyond) = &mut self.beyond else {
            return self.absent(asker, request, name, now_s);
        };
        if beyond.is_parent(&asker.name) {
            return self.absent(asker, request, name, now_s);
        }
        let known = beyond.recall(&question, now_s);
        if let Some(known) = self.reached(&question, now_s).or(known) {
            return self.found_beyond(asker, request, name, known, now_s);
        }
        let can_seek = self.can_seek();
        let Some(beyond) = &mut self.beyond else {
            return self.absent(asker, request, name, now_s);
        };
        let is_nowhere = !can_seek && !beyond.directory.is_ready();
        if is_nowhere || self.absences.recent(&name, now_s).is_some() {
            return self.absent(asker, request, name, now_s);
        }
        if !beyond.is_climbing(&question) && !beyond.may_ask(Payer::of(&asker), &self.config, now_s)
        {
            return self.dropped(DropReason::OverBudget);
        }
        let order = self.new_order_id();
        let Some(beyond) = &mut self.beyond else { return Outcome::Noted };
        match beyond.enter(question, Climber { order, request, asker }) {
            Some(former) => {
                self.abandoned.extend(former);
                Outcome::Staged(order)
            }
            None => self.dropped(DropReason::OverBudget),
        }
    }

    fn found_beyond(
        &mut self,
        asker: Asker,
        request: RequestId,
        name: Name,
        what: Remembered,
        now_s: u64,
    ) -> Outcome {
        let Remembered { level, metadata, certificates } = what;
        self.subscriptions.add_issuers(asker.subscriber(), &certificates, now_s);
        if certificates.is_empty() {
            self.subscriptions.add(asker.subscriber(), name, now_s);
        }
        let max_answer_len = asker.max_answer_len.min(self.config.max_answer_len);
        let trail = Trail { metadata, certificates }.cut(max_answer_len);
        let Trail { metadata, certificates } = trail;
        self.counters.lookups_found_beyond += 1;
        let body = RibResponseBody::Found { name, level, metadata, certificates };
        self.found(RibResponse { id: request, body })
    }

    /// Answers all who wait for a question that has ended: by what is remembered, even if it is not
    /// known whether it still holds, or by an absence.
    pub(crate) fn conclude(&mut self, question: &Question, now_s: u64) {
        let Some(name) = name_in(question) else { return };
        let reached = self.reached_before(question, now_s);
        let Some(beyond) = &mut self.beyond else { return };
        let climbers = beyond.take_climbers(question);
        let known = match question {
            _ if reached.is_some() => reached,
            _ if climbers.is_empty() => None,
            Question::Route(_) | Question::Way(..) => {
                let known = beyond.in_force(&name, question.number(), now_s);
                known.filter(Remembered::is_way)
            }
            _ => beyond.recall(question, now_s),
        };
        for Climber { order, request, asker } in climbers {
            let outcome = match &known {
                Some(known) => self.found_beyond(asker, request, name, known.clone(), now_s),
                None => self.absent(asker, request, name, now_s),
            };
            match outcome {
                Outcome::Answer(response) => self.answers.push_back((order, response)),
                _ => self.abandoned.push(order),
            }
        }
    }

    /// Nobody who waits for this question is answered: they ask again, and by then it can be.
    fn put_off(&mut self, question: &Question) {
        if let Some(beyond) = &mut self.beyond {
            let climbers = beyond.take_climbers(question);
            self.abandoned.extend(climbers.iter().map(|climber| climber.order));
        }
    }

    /// The next of those that wait for an answer and get none.
    pub fn poll_abandoned(&mut self) -> Option<OrderId> {
        self.abandoned.pop()
    }

    /// Does whatever is to be done with the domain around, for the log, and of who left, after
    /// anything happened.
    pub fn advance(&mut self, now: Now) {
        while let Some((told, holds)) = self.beyond.as_mut().and_then(|it| it.verified.pop_front())
        {
            self.told(told, holds, now);
        }
        while let Some(question) = self.beyond.as_mut().and_then(|it| it.next_to_ask()) {
            if !self.seek(&question, now.instant) {
                self.climb_on(&question, now);
            }
        }
        let concluded = |rib: &mut Self| rib.beyond.as_mut()?.directory.poll_concluded();
        while let Some((question, _)) = concluded(self) {
            self.conclude(&question, now.unix_s());
        }
        self.advance_reach(now);
        self.pass_up(now);
        self.advance_log(now);
        self.subscriptions.give_up(now.instant);
    }

    /// Puts a question to the RIBs of the domain around.
    pub(crate) fn climb_on(&mut self, question: &Question, now: Now) {
        let beyond = self.beyond.as_mut();
        if beyond.is_some_and(|it| it.directory.look_up(*question, now.instant)) {
            self.counters.climbs += 1;
        } else {
            self.conclude(question, now.unix_s());
        }
    }
}

// Hearing.
impl<S: Store> Rib<S> {
    /// Takes what a RIB of the domain around sent in a session with it.
    pub fn hear(&mut self, from: SessionId, data: &[u8], now: Now) {
        let Ok(RibResponse { id, body }) = RibResponse::parse(data) else {
            return self.counters.count_drop(DropReason::MalformedPdu);
        };
        if let RibResponseBody::Changed { name, level, metadata, certificates } = body {
            let what = Remembered { level: level + 1, metadata, certificates };
            return self.hear_change(from, id, name, what, now);
        }
        let Some(beyond) = &mut self.beyond else { return };
        match beyond.directory.take_answered(id, from, now.instant) {
            Answered::Question(Question::Publish(slot), replica) => {
                self.passed_up(slot, (replica, id), &body, now);
            }
            Answered::Question(Question::Store(_), replica) => {
                let store = match body {
                    RibResponseBody::Store(store) => Some(store),
                    _ => None,
                };
                if beyond.directory.store_told(replica, store) {
                    let names = beyond.upward.issuers();
                    beyond.directory.publish_anew(replica, names, now.instant);
                    beyond.upward.walk_again();
                }
            }
            Answered::Question(Question::Show(name, _), replica) => {
                let answer = match body {
                    RibResponseBody::Stored => Ok(()),
                    RibResponseBody::Refused(refusal) => Err(refusal),
                    _ => Err(Refusal::Superseded),
                };
                beyond.directory.show_answered(name, replica, answer, now.instant);
            }
            Answered::Question(question, replica) => {
                self.hear_answer(from, question, replica, body, now);
            }
            Answered::TooLate => {}
            Answered::Nothing => self.counters.count_drop(DropReason::UnexpectedAnswer),
        }
    }

    fn hear_answer(
        &mut self,
        from: SessionId,
        question: Question,
        replica: usize,
        body: RibResponseBody,
        now: Now,
    ) {
        let Some(beyond) = &mut self.beyond else { return };
        let Some(rib) = beyond.parent(from).cloned() else { return };
        match (question, body) {
            (_, RibResponseBody::Found { level, .. }) if level >= MAX_LEVEL => {
                let until = now.instant + Duration::from_secs(ABSENCE_TTL_S);
                beyond.directory.deny(question, replica, until, now.instant);
            }
            (
                Question::Route(name) | Question::Way(name, _),
                RibResponseBody::Found { name: found, level, metadata, certificates },
            ) if name == found && !certificates.is_empty() => {
                for certificate in &certificates {
                    beyond.directory.note_watched(certificate.issuer);
                }
                let what = Remembered { level: level + 1, metadata, certificates };
                let number = question.number();
                if !self.verify(Heard::Answer { replica }, (name, number), what, now) {
                    self.put_off(&question);
                    self.fail(question, replica, NoAnswer::Unverified, now);
                }
            }
            (
                Question::Check(name, _),
                RibResponseBody::Found { name: found, level, metadata, certificates },
            ) if name == found && !certificates.is_empty() => {
                let what = Remembered { level: level + 1, metadata, certificates };
                self.verify(Heard::Check { replica }, (name, 0), what, now);
            }
            (
                Question::Route(name) | Question::Way(name, _) | Question::Check(name, _),
                RibResponseBody::Absent(absence),
            ) if absence.statement == (Statement::Absence { subject: name })
                && absence.issuer == name_of(&rib) =>
            {
                let certificates = vec![absence];
                let what = Remembered { level: 0, metadata: Vec::new(), certificates };
                let alone = matches!(question, Question::Check(..));
                let heard = Heard::Absence { replica, rib, alone };
                let (keys, number) = (Vec::new(), question.number());
                let told = Told { heard, name, number, what, keys, now_s: now.unix_s() };
                if !beyond.verify(told) {
                    self.put_off(&question);
                    self.fail(question, replica, NoAnswer::Unverified, now);
                }
            }
            (Question::Metadata(name), RibResponseBody::Found { level, metadata, .. })
                if metadata.iter().any(|metadata| name_of(metadata) == name) =>
            {
                beyond.learn_metadata(level + 1, &metadata);
                beyond.directory.note_watched(name);
                beyond.directory.settle(&question);
                self.conclude(&question, now.unix_s());
            }
            (Question::Metadata(name), RibResponseBody::Absent(_)) => {
                // Nothing is made of it, so it need not be verified.
                beyond.directory.note_watched(name);
                beyond.directory.deny(question, replica, now.instant, now.instant);
            }
            _ => {
                self.counters.beyond_refused += 1;
                self.fail(question, replica, NoAnswer::Refused, now);
            }
        }
    }

    fn fail(&mut self, question: Question, replica: usize, why: NoAnswer, now: Now) {
        if let Some(beyond) = &mut self.beyond {
            beyond.directory.fail(question, replica, why, now.instant);
        }
    }

    /// What changed out there is told again until it is in hand.
    fn hear_change(
        &mut self,
        from: SessionId,
        id: RequestId,
        name: Name,
        what: Remembered,
        now: Now,
    ) {
        let Some(beyond) = &mut self.beyond else { return };
        if what.certificates.first().is_none_or(|first| first.issuer != name) {
            return self.counters.count_drop(DropReason::UnexpectedAnswer);
        }
        for certificate in &what.certificates {
            beyond.directory.note_watched(certificate.issuer);
        }
        let is_too_far = what.level > MAX_LEVEL;
        if (is_too_far || self.verify(Heard::Change, (name, 0), what, now))
            && let Some(beyond) = &mut self.beyond
        {
            beyond.directory.acknowledge(from, id);
        }
    }

    /// Has something verified. Whether there is room, and all keys are there; those that are
    /// missing are asked for.
    fn verify(
        &mut self,
        heard: Heard,
        (name, number): (Name, u8),
        what: Remembered,
        now: Now,
    ) -> bool {
        let mut keys = Vec::with_capacity(what.certificates.len());
        for certificate in &what.certificates {
            if let Some(key) = self.key_of(&certificate.issuer, &what.metadata) {
                keys.push((certificate.issuer, key));
            } else if let Some(beyond) = &mut self.beyond {
                beyond.directory.look_up_metadata(certificate.issuer, now.instant);
            }
        }
        let is_complete = keys.len() == what.certificates.len();
        let told = Told { heard, name, number, what, keys, now_s: now.unix_s() };
        is_complete && self.beyond.as_mut().is_some_and(|beyond| beyond.verify(told))
    }

    fn key_of(&mut self, name: &Name, sent: &[Metadata]) -> Option<PublicKey> {
        if let Some(metadata) = sent.iter().find(|metadata| name_of(metadata) == *name) {
            return Some(metadata.key);
        }
        if let Ok(Some(entry)) = self.store.entry(name) {
            return Some(entry.metadata().key);
        }
        self.beyond.as_ref()?.metadata_of(name).map(|metadata| metadata.key)
    }

    /// Something was verified.
    fn told(&mut self, told: Told, holds: bool, now: Now) {
        if let Heard::AtHome { rib } = told.heard {
            return self.found_at_home(rib, told, holds, now);
        }
        let Some(beyond) = &mut self.beyond else { return };
        beyond.note_word(&told, holds, now.instant);
        let Told { heard, name, number, what, .. } = told;
        let question = Question::way(name, number);
        if !holds {
            self.counters.beyond_refused += 1;
        }
        match heard {
            Heard::Check { .. } | Heard::Absence { alone: true, .. } => {}
            Heard::Answer { replica } | Heard::Absence { replica, .. } if !holds => {
                self.fail(question, replica, NoAnswer::Refused, now);
            }
            Heard::Answer { replica } if !beyond.is_newest(&what.certificates) => {
                self.fail(question, replica, NoAnswer::Old, now);
            }
            Heard::Answer { .. } => {
                beyond.remember((name, number), what);
                beyond.directory.settle(&question);
                self.conclude(&question, now.unix_s());
            }
            Heard::Absence { replica, .. } => {
                let end = what.certificates.first().map_or(0, |absence| absence.not_after_s);
                let end = until(end, now);
                beyond.directory.deny(question, replica, end, now.instant);
            }
            Heard::Change if holds && beyond.is_newest(&what.certificates) => {
                self.counters.beyond_changes += 1;
                if let Some(first) = what.certificates.first() {
                    beyond.note_newest(first);
                }
                let is_told = self.subscriptions.has_any(&name);
                if is_told || beyond.in_force(&name, 0, now.unix_s()).is_some() {
                    beyond.forget_other_ways(name);
                    beyond.remember((name, 0), what);
                    self.push_to_subscribers(name);
                }
            }
            Heard::Change | Heard::AtHome { .. } => {}
        }
    }

    /// What subscribers are told that was told by the domain around.
    pub(crate) fn change_beyond(
        &mut self,
        name: Name,
        max_answer_len: usize,
        now_s: u64,
    ) -> Option<RibResponseBody> {
        let reached = self.reached_before(&Question::Route(name), now_s);
        let known = match reached.or_else(|| self.lost_way(&name, now_s)) {
            Some(reached) => reached,
            None => self.beyond.as_mut()?.in_force(&name, 0, now_s)?,
        };
        let Remembered { level, metadata, certificates } = known;
        let trail = Trail { metadata, certificates }.cut(max_answer_len);
        let Trail { metadata, certificates } = trail;
        Some(RibResponseBody::Changed { name, level, metadata, certificates })
    }
}

pub(super) fn name_in(question: &Question) -> Option<Name> {
    match question {
        Question::Route(name) | Question::Way(name, _) | Question::Metadata(name) => Some(*name),
        _ => None,
    }
}
