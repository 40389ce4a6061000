//! What RIBs answer, and what they tell unasked. Nothing of it is
//! believed before it is verified, off the worker.
//!
//! 1. An answer is taken only for an open question, from the RIB that was
//!    asked, and only if it is about that question.
//! 2. Metadata hash to their name; certificates go to a job.
//! 3. A good answer that is not older than what is known settles the question; any other counts as
//!    none, and the next RIB is asked.
//! 4. A change is acknowledged when it is in hand, and taken over when it is verified: a withdrawal
//!    ends routes, grants and flows of its issuer, a move those that led by the old way. Whoever
//!    verifies a way takes it over, too, so that the worker need not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_directory::{Answered, NoAnswer, Question, until};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, ChainError, Now, StatementError, Verified, name_of};
use rhumb_wire::rib::{Refusal, RequestId, RibResponse, RibResponseBody};
use rhumb_wire::{Certificate, Metadata, Name, Pdu, PublicKey, Statement};

use crate::event::Event;
use crate::job::{Heard, HeardWay, Issuers, Task, ToldWay, keys};
use crate::newest::outdates;
use crate::routes::Attached;
use crate::tables::{Other, Taken};
use crate::{DropReason, Switch};

// Answers.
impl Switch {
    pub(crate) fn handle_rib_response(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        if !self.directory.is_rib(from) {
            self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
            return None;
        }
        let Ok(RibResponse { id, body }) = RibResponse::parse(pdu.data()) else {
            self.plane.drop_pdu(DropReason::MalformedPdu);
            return None;
        };
        if let RibResponseBody::Changed { name, level, metadata, certificates } = body {
            self.handle_change((from, id), level, name, metadata, certificates, now);
            return None;
        }
        if let RibResponseBody::Removals { to, removals } = body {
            self.handle_removals((from, id), (to, removals), now);
            return None;
        }
        match self.directory.take_answered(id, from, now.instant) {
            Answered::Question(Question::Publish(slot), replica) => {
                self.handle_published(slot, (replica, id), &body, now);
            }
            Answered::Question(Question::Store(_), replica) => {
                self.handle_store(replica, &body, now);
            }
            Answered::Question(Question::Removals(_), replica) => {
                self.removals_refused(replica, now);
            }
            Answered::Question(Question::Show(name, _), replica) => {
                self.handle_show_answered(from, (name, replica), body, now);
            }
            Answered::Question(question @ (Question::Prove(..) | Question::Link(_)), replica) => {
                self.handle_log_answer(from, (question, replica), body, now);
            }
            Answered::Question(question, replica) => {
                self.handle_answer(from, question, replica, body, now);
            }
            Answered::TooLate => {}
            Answered::Nothing => self.plane.drop_pdu(DropReason::UnexpectedRibAnswer),
        }
        self.take_conclusions();
        self.flush_requests(now);
        None
    }

    fn handle_answer(
        &mut self,
        from: SessionId,
        question: Question,
        replica: usize,
        body: RibResponseBody,
        now: Now,
    ) {
        match (question, body) {
            (
                Question::Route(name) | Question::Way(name, _),
                RibResponseBody::Found { name: found, level, metadata, certificates },
            ) if name == found => {
                self.learn_metadata(metadata);
                for certificate in &certificates {
                    self.directory.note_watched(certificate.issuer);
                }
                let told = Heard::Answer { replica, level, number: question.number() };
                self.submit_route(told, name, certificates, now);
            }
            (
                Question::Export(name),
                RibResponseBody::Found { name: found, level: 0, metadata, certificates },
            ) if name == found => {
                self.learn_metadata(metadata);
                for certificate in &certificates {
                    self.directory.note_watched(certificate.issuer);
                }
                self.submit_route(Heard::Export { replica }, name, certificates, now);
            }
            (
                Question::Check(name, _),
                RibResponseBody::Found { name: found, level, metadata, certificates },
            ) if name == found => {
                self.learn_metadata(metadata);
                self.submit_route(Heard::Check { replica, level }, name, certificates, now);
            }
            (
                Question::Route(_) | Question::Way(..) | Question::Export(_) | Question::Check(..),
                RibResponseBody::Absent(absence),
            ) => {
                self.submit_absence(from, replica, question, absence, now);
            }
            (Question::Metadata(name), RibResponseBody::Found { metadata, .. })
                if metadata.iter().any(|metadata| name_of(metadata) == name) =>
            {
                self.learn_metadata(metadata);
                self.directory.note_watched(name);
                self.directory.settle(&question);
            }
            (Question::Metadata(name), RibResponseBody::Absent(_)) => {
                // Nothing is made of it, so it need not be verified.
                self.directory.note_watched(name);
                self.directory.deny(question, replica, now.instant, now.instant);
            }
            (_, body) => {
                self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
                if is_beside(&question, &body) {
                    self.directory.note_forged(replica, now.instant);
                }
                self.refuse_answer(question, replica, now);
            }
        }
    }

    /// A RIB that was shown what another one has stored it, or not.
    fn handle_show_answered(
        &mut self,
        from: SessionId,
        (name, replica): (Name, usize),
        body: RibResponseBody,
        now: Now,
    ) {
        let answer = match body {
            RibResponseBody::Stored => Ok(()),
            RibResponseBody::Refused(refusal) => Err(refusal),
            RibResponseBody::Superseded(newer) => {
                // What it has that is newer is news to the others, and to us.
                if newer.issuer == name && self.routes.tables().needs(&newer) {
                    self.submit_statement(from, newer, now);
                }
                Err(Refusal::Superseded)
            }
            _ => return self.plane.drop_pdu(DropReason::UnexpectedRibAnswer),
        };
        self.directory.show_answered(name, replica, answer, now.instant);
    }

    fn refuse_answer(&mut self, question: Question, replica: usize, now: Now) {
        self.plane.counters_mut().rib_answers_refused += 1;
        self.directory.fail(question, replica, NoAnswer::Refused, now.instant);
    }

    /// Metadata need no trust in who sent them: they hash to their name.
    pub(crate) fn learn_metadata(&mut self, list: Vec<Metadata>) {
        for metadata in list {
            self.routes.tables().learn_metadata(Arc::new(metadata));
        }
    }

    fn submit_route(
        &mut self,
        told: Heard,
        destination: Name,
        certificates: Vec<Certificate>,
        now: Now,
    ) {
        let submitted = self.keys_of(&certificates, now).is_some_and(|keys| {
            let issuers = self.issuers(keys, &certificates);
            self.queue_job(None, Task::Route { told, destination, certificates, issuers }, now)
        });
        if let (Some((question, replica)), false) = (told.answers(destination), submitted) {
            self.directory.fail(question, replica, NoAnswer::Unverified, now.instant);
        }
    }

    /// The same of a way that a RIB tells unasked. Whether it is in hand.
    fn submit_told_way(
        &mut self,
        (from, level): (SessionId, u8),
        destination: Name,
        certificates: Vec<Certificate>,
        now: Now,
    ) -> bool {
        let Some(issuers) = self.metadata_of_all(&certificates, now) else { return false };
        let tables = self.routes.shared_tables();
        let told = ToldWay { from, level, destination, certificates, issuers, tables, now };
        self.queue_job(Some(from), Task::Told(told), now)
    }

    /// The keys of all issuers; those that are not known are asked for.
    fn keys_of(
        &mut self,
        certificates: &[Certificate],
        now: Now,
    ) -> Option<Vec<(Name, PublicKey)>> {
        Some(keys(certificates, &self.metadata_of_all(certificates, now)?))
    }

    /// The metadata of all issuers, likewise.
    fn metadata_of_all(
        &mut self,
        certificates: &[Certificate],
        now: Now,
    ) -> Option<Vec<Arc<Metadata>>> {
        let mut issuers = Vec::with_capacity(certificates.len());
        for certificate in certificates {
            match self.metadata_of(&certificate.issuer) {
                Some(metadata) => issuers.push(metadata),
                None => {
                    self.directory.look_up_metadata(certificate.issuer, now.instant);
                }
            }
        }
        (issuers.len() == certificates.len()).then_some(issuers)
    }

    /// These keys, and what of a chain was verified before.
    pub(crate) fn issuers(
        &self,
        keys: Vec<(Name, PublicKey)>,
        certificates: &[Certificate],
    ) -> Issuers {
        Issuers { keys, believed: self.routes.tables().believed(certificates) }
    }

    fn submit_absence(
        &mut self,
        from: SessionId,
        replica: usize,
        question: Question,
        certificate: Certificate,
        now: Now,
    ) {
        let (Question::Route(destination)
        | Question::Way(destination, _)
        | Question::Export(destination)
        | Question::Check(destination, _)) = question
        else {
            return;
        };
        let Some(rib) = self.plane.peer(from) else { return };
        let about_it = matches!(certificate.statement, Statement::Absence { subject } if subject == destination);
        if !about_it || certificate.issuer != rib.name {
            self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
            self.directory.note_forged(replica, now.instant);
            return self.refuse_answer(question, replica, now);
        }
        let rib = rib.metadata.clone();
        if !self.queue_job(None, Task::Absence { replica, question, certificate, rib }, now) {
            self.directory.fail(question, replica, NoAnswer::Unverified, now.instant);
        }
    }

    /// Verdict on a route.
    pub(crate) fn route_verified(
        &mut self,
        told: Heard,
        destination: Name,
        result: Result<Verified<Chain>, ChainError>,
        now: Now,
    ) {
        match &result {
            Ok(chain) => self.note_word(told, destination, chain, now),
            Err(error) => self.note_if_forged(told, destination, error, now),
        }
        let within = result.as_ref().is_ok_and(|chain| self.is_within_bounds(chain));
        let (taken, why_not) = match result {
            Ok(chain) if within => {
                self.plane.counters_mut().chains_accepted += 1;
                (self.take_route(told, chain, now), NoAnswer::Old)
            }
            Ok(_) | Err(_) => {
                self.plane.counters_mut().chains_refused += 1;
                (false, NoAnswer::Refused)
            }
        };
        let Some((question, replica)) = told.answers(destination) else {
            self.plane.counters_mut().routes_restored += u64::from(taken);
            return;
        };
        if taken {
            return self.directory.settle(&question);
        }
        self.plane.counters_mut().rib_answers_refused += 1;
        self.directory.fail(question, replica, why_not, now.instant);
    }

    /// What a RIB has in its own store of a name is its word, to which it is held.
    fn note_word(&mut self, told: Heard, name: Name, chain: &Verified<Chain>, now: Now) {
        let first = &chain.certificates()[0];
        let is_its_own =
            matches!(told, Heard::Answer { level: 0, .. } | Heard::Check { level: 0, .. });
        let Some(answer) = told.answers(name).filter(|_| is_its_own) else { return };
        if let Some(metadata) = self.metadata_of(&first.issuer) {
            self.directory.note_shown(answer, first, &metadata, now.instant);
        }
    }

    /// A RIB verifies what it takes: no time and no change makes these of something good.
    fn note_if_forged(&mut self, told: Heard, name: Name, error: &ChainError, now: Now) {
        let is_forged = matches!(
            error,
            ChainError::WrongOrigin { .. }
                | ChainError::Statement { error: StatementError::BadSignature, .. }
        );
        if let Some((_, replica)) = told.answers(name).filter(|_| is_forged) {
            self.directory.note_forged(replica, now.instant);
        }
    }

    /// Takes over a verified route. Whether it is not older than what is known.
    fn take_route(&mut self, told: Heard, chain: Verified<Chain>, now: Now) -> bool {
        let name = chain.origin();
        let level = match told {
            Heard::Export { .. } => {
                let is_current = self.routes.tables().admits(&chain);
                if let Some(place) = self.transit.place_mut().filter(|_| is_current) {
                    place.learn_export(&chain, now);
                }
                return is_current;
            }
            Heard::Answer { level, .. } | Heard::Check { level, .. } | Heard::Saved { level } => {
                level
            }
        };
        // Whoever has a way to the newer server does not take an older one, whatever a RIB says.
        if matches!(told, Heard::Answer { .. }) && !self.routes.tables().has_way_to(&name) {
            self.routes.tables().step_back(chain.first());
            self.routes.catch_up();
        }
        let (end, chain) = (until(chain.not_after_s(), now), Arc::new(chain));
        if matches!(told, Heard::Answer { number: 1.., .. }) {
            return self.routes.learn_other(Other { chain, level, until: end }, now.instant);
        }
        self.routes.learn((chain, level), end, now.instant)
    }

    /// Verdict on a way that a RIB told unasked. What of it is of use here is in the tables by now,
    /// if it is not for some domains only.
    pub(crate) fn told_verified(&mut self, heard: HeardWay, now: Now) {
        let HeardWay { from, level, metadata, result } = heard;
        let tables = self.routes.shared_tables();
        let verdict = result.ok().and_then(|(chain, taken)| {
            // What a RIB tells of its own store is its word, too.
            if level == 0 {
                let first = &chain.certificates()[0];
                self.directory.note_told(from, first, &metadata, now.instant);
            }
            let bounded =
                || self.is_within_bounds(&chain).then(|| tables.take_told(&chain, level, now));
            Some((taken.or_else(bounded)?, chain))
        });
        let Some((taken, chain)) = verdict else {
            let counters = self.plane.counters_mut();
            counters.chains_refused += 1;
            counters.rib_answers_refused += 1;
            return;
        };
        let has_left =
            taken != Taken::Nothing && self.leave_if_moved(&chain.certificates()[0], now);
        let is_taken = match taken {
            Taken::Nothing => false,
            // Whoever it was attached for goes on by the new way.
            Taken::Statements if has_left => tables.take_told_way(&chain, level, now),
            Taken::Statements => true,
            Taken::Way(is_new) => is_new,
        };
        self.routes.catch_up();
        let counters = self.plane.counters_mut();
        counters.chains_accepted += 1;
        match is_taken {
            true => counters.rib_changes += 1,
            false => counters.rib_answers_refused += 1,
        }
    }

    /// Detaches a name that has said since it was attached that
    /// another router carries for it. Whether it has.
    pub(crate) fn leave_if_moved(&mut self, newer: &Certificate, now: Now) -> bool {
        let name = newer.issuer;
        if newer.statement.exports_by().is_some() {
            // It is known outside so, and attached where it was.
            return false;
        }
        let moved = |attached: &&Attached| {
            attached.sequence() < newer.sequence
                && attached.certificates.first().is_some_and(|own| outdates(newer, own))
        };
        let before: Vec<Attached> = self.routes.attached_as(&name).filter(moved).cloned().collect();
        for before in &before {
            self.detach(name, before.session, |name| Event::Moved { name });
            self.tell_superseded(name, before, newer, now);
        }
        !before.is_empty()
    }

    /// Detaches a name, and with it those that it answers for:
    /// the way to them is the way to their server.
    fn detach(&mut self, name: Name, session: SessionId, event: impl Fn(Name) -> Event) {
        let neighbour = self.admission.known_neighbour(session);
        let mut leaving = neighbour.map_or(Vec::new(), |neighbour| neighbour.attached.clone());
        leaving.retain(|other| {
            let attached = self.routes.attached_on(other, session);
            *other == name || attached.is_some_and(|it| it.server() == Some(name))
        });
        for name in leaving {
            self.admission.end_grant(name, session);
            self.routes.detach_all_but(&name, |attached| attached.session != session);
            self.plane.tell(event(name));
        }
    }

    /// Verdict on an absence.
    pub(crate) fn absence_verified(
        &mut self,
        replica: usize,
        question: Question,
        result: Result<Verified<Certificate>, StatementError>,
        now: Now,
    ) {
        match result {
            Ok(absence) => {
                self.directory.note_absent((question, replica), &absence, now.instant);
                let end = until(absence.not_after_s, now).min(now.instant + MAX_ABSENCE);
                self.directory.deny(question, replica, end, now.instant);
            }
            Err(why) => {
                // RIBs sign absences as they answer, so this is their time.
                if matches!(
                    why,
                    StatementError::Expired { .. } | StatementError::NotYetValid { .. }
                ) {
                    self.plane.tell(Event::RibClockDiffers { why });
                } else {
                    self.directory.note_forged(replica, now.instant);
                }
                self.plane.counters_mut().chains_refused += 1;
                self.refuse_answer(question, replica, now);
            }
        }
    }

    /// What the directory has made up its mind about.
    pub(crate) fn take_conclusions(&mut self) {
        while let Some((question, absent_until)) = self.directory.poll_concluded() {
            let Some(until) = absent_until else { continue };
            match (question, self.transit.place_mut()) {
                (Question::Route(name), _) => self.routes.tables().learn_absence(name, until),
                (Question::Export(name), Some(place)) => place.learn_no_export(name, until),
                _ => {}
            }
        }
        if self.directory.take_unwatched() {
            self.routes.ask_again();
        }
    }
}

// Changes.
impl Switch {
    fn handle_change(
        &mut self,
        (from, id): (SessionId, RequestId),
        level: u8,
        name: Name,
        metadata: Vec<Metadata>,
        certificates: Vec<Certificate>,
        now: Now,
    ) {
        let first = &certificates[0];
        if first.issuer != name {
            self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
            return;
        }
        self.learn_metadata(metadata);
        if let Some(place) = self.transit.place_mut() {
            place.forget_export(&name);
        }
        // Somebody else answers for the name now, and where they are is not known yet.
        let is_lone_service =
            matches!(&certificates[..], [Certificate { statement: Statement::Service { .. }, .. }]);
        // What leads to the domain of a name may change while the name's own word stands.
        let by_another_way = level > 0 && first.statement.exports_by().is_some();
        let is_in_hand = if !self.routes.tables().needs(first) && !by_another_way {
            true
        } else if first.statement.hands_on_to().is_some() && !is_lone_service {
            for certificate in &certificates {
                self.directory.note_watched(certificate.issuer);
            }
            self.submit_told_way((from, level), name, certificates, now)
        } else {
            self.submit_statement(from, first.clone(), now)
        };
        // What is not in hand is told again.
        if is_in_hand {
            self.directory.acknowledge(from, id);
        }
        self.flush_requests(now);
    }

    fn submit_statement(&mut self, from: SessionId, certificate: Certificate, now: Now) -> bool {
        match self.metadata_of(&certificate.issuer) {
            Some(issuer) => {
                let task = Task::Change { certificate, issuer };
                self.queue_job(Some(from), task, now)
            }
            None => {
                self.directory.look_up_metadata(certificate.issuer, now.instant);
                false
            }
        }
    }

    /// Verdict on a withdrawal, a locator, or a word for a server.
    pub(crate) fn change_verified(
        &mut self,
        result: Result<Verified<Certificate>, StatementError>,
        now: Now,
    ) {
        match result {
            Ok(certificate) if certificate.statement == Statement::Withdrawal => {
                self.plane.counters_mut().rib_changes += 1;
                self.take_withdrawal(certificate.as_ref(), None, now);
            }
            Ok(certificate) => {
                self.plane.counters_mut().rib_changes += 1;
                if matches!(certificate.statement, Statement::Service { .. }) {
                    self.leave_if_moved(&certificate, now);
                }
                if self.routes.note(certificate.as_ref())
                    && let Statement::Locator(locator) = certificate.statement
                {
                    self.follow(certificate.issuer, locator.address(), now);
                }
            }
            Err(_) => {
                self.plane.counters_mut().chains_refused += 1;
                self.plane.counters_mut().rib_answers_refused += 1;
            }
        }
    }

    /// A router we have a session with is at another
    /// address now: a handshake there moves the session.
    fn follow(&mut self, router: Name, address: SocketAddr, now: Now) {
        let session = self.plane.session_of(&router);
        let peer = session.and_then(|session| self.plane.peer(session));
        if let (Some(session), Some(peer)) = (session, peer)
            && peer.at != address
        {
            // The session is there, and stays if nobody answers where its peer says that it is now.
            let _ = self.dial(router, address, session, now);
        }
    }

    /// Ends what a verified withdrawal covers: routes and flows here and now, grants when they are
    /// used next. `by` brought it, and needs not be told.
    pub(crate) fn take_withdrawal(
        &mut self,
        withdrawal: Verified<&Certificate>,
        by: Option<SessionId>,
        now: Now,
    ) {
        let name = withdrawal.issuer;
        let is_covered = |attached: &&Attached| attached.sequence() <= withdrawal.sequence;
        self.routes.note(withdrawal);
        let before: Vec<Attached> =
            self.routes.attached_as(&name).filter(is_covered).cloned().collect();
        for before in before {
            self.detach(name, before.session, |name| Event::Left { name });
            if Some(before.session) != by {
                self.tell_superseded(name, &before, &withdrawal, now);
            }
        }
    }

    /// Sees to it that RIBs tell us of changes of these names, on behalf of the session that
    /// brought them: when it may cause no more questions now, another time that they are used.
    pub(crate) fn watch(
        &mut self,
        from: SessionId,
        names: impl IntoIterator<Item = Name>,
        now: Now,
    ) {
        for name in names {
            if name != self.name() && !self.directory.is_watched(&name) {
                self.ask(from, Question::Metadata(name), now);
            }
        }
        self.flush_requests(now);
    }
}

/// Whether a RIB was asked one thing and answers another, or about another name.
fn is_beside(question: &Question, body: &RibResponseBody) -> bool {
    match (question, body) {
        (
            Question::Route(name) | Question::Way(name, _) | Question::Check(name, _),
            RibResponseBody::Found { name: found, .. },
        ) => name != found,
        (_, RibResponseBody::Stored | RibResponseBody::Store(_)) => true,
        _ => false,
    }
}

/// A RIB that denies for longer is asked again nevertheless: ten times the two seconds of ours.
const MAX_ABSENCE: Duration = Duration::from_secs(20);
