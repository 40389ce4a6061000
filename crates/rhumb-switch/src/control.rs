//! What happens per name: advertisements, acceptances, and verdicts on what was verified.

use std::sync::Arc;

use rhumb_directory::{Slot, until};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, ChainError, Now, StatementError, Verified, name_of};
use rhumb_wire::accept::Accept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Certificate, Metadata, Name, Pdu, PduHeader, Statement};

use crate::budgets::Cost;
use crate::event::Event;
use crate::grants::Grant;
use crate::job::{Done, HeldPdu, Outcome, Task};
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::routes::{Attached, NotAttached};
use crate::{DropReason, Switch};

// Advertisements and acceptances.
impl Switch {
    /// A name wants to be attached here, or to leave.
    pub(crate) fn handle_advertise(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        let Ok(certificates) = pdu.certificates() else {
            self.refuse_advertisement(from, pdu.header(), DropReason::BadCertificate, now);
            return None;
        };
        if let [only] = &certificates[..]
            && (only.statement == Statement::Withdrawal || only.statement.exports_by().is_some())
        {
            return self.submit_own_word(from, pdu, only.clone(), now);
        }
        // Repeated because our Accept was lost, or the RIB has
        // not answered yet: nothing to verify again.
        if let Some(attached) = self.routes.attached_on(&pdu.source(), from)
            && certificates == attached.certificates
        {
            let (until_s, published) = (attached.until_s, attached.published);
            self.accept(from, pdu.source(), until_s, pdu.tag(), published, now);
            return None;
        }
        if let Err(stop) = self.submit_chain(from, pdu, now) {
            self.stop(from, pdu, &stop, now);
        }
        None
    }

    /// What a peer says of its own name alone: that it leaves, or by
    /// which domain it is known outside.
    fn submit_own_word(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        certificate: Certificate,
        now: Now,
    ) -> Option<SessionId> {
        let issuer =
            self.plane.peer(from).filter(|p| p.name == pdu.source()).map(|p| p.metadata.clone());
        let Some(issuer) = issuer else {
            self.refuse_advertisement(from, pdu.header(), DropReason::NotAuthorised, now);
            return None;
        };
        let request = HeldPdu { session: from, pdu: pdu.as_bytes().to_vec() };
        let task = match certificate.statement {
            Statement::Withdrawal => Task::Withdrawal { request, certificate, issuer },
            _ => Task::Export { request, certificate, issuer },
        };
        if !self.queue_job(Some(from), task, now) {
            self.plane.drop_pdu(DropReason::Overloaded);
        }
        None
    }

    /// A next hop tells us that it takes a name's PDUs without certificates from now on.
    pub(crate) fn handle_accept(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        let presented_to =
            self.plane.peer(from).is_some_and(|p| self.publishing.has_delegated_to(&p.name));
        match Accept::parse(pdu.data()) {
            Ok(accept) if presented_to => {
                let end = until(accept.until_s.saturating_sub(ACCEPTANCE_MARGIN_S), now);
                if let Some(acceptance) = self.admission.acceptance(accept.name, from, now.instant)
                {
                    acceptance.until = Some(end);
                }
            }
            Ok(_) => self.plane.drop_pdu(DropReason::UnexpectedAnswer),
            Err(_) => self.plane.drop_pdu(DropReason::MalformedPdu),
        }
        None
    }

    /// Tells a previous hop that a name's PDUs need no certificates any more.
    pub(crate) fn accept(
        &mut self,
        to: SessionId,
        name: Name,
        until_s: u64,
        tag: u32,
        published: bool,
        now: Now,
    ) {
        let Some(peer) = self.plane.peer(to).map(|peer| peer.name) else { return };
        let header = PduHeader { tag, ..PduHeader::new(Action::Accept, self.name(), peer) };
        let mut data = Vec::with_capacity(Accept::LEN);
        Accept { name, until_s, published }.emit(&mut data);
        self.send(to, header, &data, &[], now);
    }

    fn refuse_advertisement(
        &mut self,
        to: SessionId,
        about: PduHeader,
        drop: DropReason,
        now: Now,
    ) {
        self.plane.drop_pdu(drop);
        // As in `nack`: nobody waits for an answer to a chain that went ahead.
        if about.action == Action::Advertise && about.destination != self.name() {
            return;
        }
        let reason = match drop {
            DropReason::NotAuthorised | DropReason::AccessRefused => Reason::NotAuthorised,
            DropReason::Overloaded => Reason::Overloaded(RETRY_WHEN_BUSY_MS),
            DropReason::Expired => Reason::Expired,
            DropReason::NotYetValid => Reason::NotYetValid,
            _ => Reason::BadCertificate,
        };
        self.send_nack(to, about, Nack { reason, reporter: Some(self.name()) }, now);
    }

    /// Refuses what rests on something older than we know, and shows what that
    /// is. Told about a chain that went ahead, too: it is for the router that
    /// sent it, which would send it again and again.
    fn refuse_superseded(
        &mut self,
        to: SessionId,
        about: PduHeader,
        newer: &Certificate,
        now: Now,
    ) {
        self.plane.drop_pdu(DropReason::Superseded);
        // Where a name of the inside is now is for nobody outside to see.
        let is_own = self.plane.peer(to).is_some_and(|peer| peer.name == newer.issuer);
        let shows_inside = newer.statement.exports_by().is_none() && !is_own;
        if shows_inside && self.is_outside(to, now) {
            let nack = Nack { reason: Reason::Superseded, reporter: None };
            return self.send_nack(to, about, nack, now);
        }
        self.nack_superseded(to, about, newer, now);
    }
}

// Verdicts.
impl Switch {
    /// Takes back what a [`Job`](crate::Job) found.
    pub fn handle_done(&mut self, done: Done, now: Now) {
        self.note_done(done.brought_at, now);
        match done.outcome {
            Outcome::Admit { request, result, fingerprint } => {
                if let Ok(pdu) = Pdu::parse(&request.pdu) {
                    self.jobs.end_admitting(pdu.source(), request.session);
                }
                match result {
                    Ok(chain) => self.admitted(request, chain, now),
                    Err(error) => {
                        let why = drop_reason(&error);
                        if let (DropReason::BadCertificate, Some(fingerprint)) = (why, fingerprint)
                        {
                            self.note_refused_chain(fingerprint);
                        }
                        self.not_admitted(&request, why, now);
                    }
                }
            }
            Outcome::Route { told, destination, result } => {
                self.route_verified(told, destination, result, now);
            }
            Outcome::Told(heard) => self.told_verified(heard, now),
            Outcome::Absence { replica, question, result } => {
                self.absence_verified(replica, question, result, now);
            }
            Outcome::Change { result } => self.change_verified(result, now),
            Outcome::Newer { session, result } => self.newer_verified(session, result, now),
            Outcome::Withdrawal { request, issuer, result } => match result {
                Ok(certificate) => self.withdrawn(&request, issuer, certificate.as_ref(), now),
                Err(error) => self.not_admitted(&request, window_or_bad(error), now),
            },
            Outcome::Export { request, issuer, result } => match result {
                Ok(export) => self.export_verified(&request, issuer, &export, now),
                Err(error) => self.not_admitted(&request, window_or_bad(error), now),
            },
            Outcome::Join { request, membership, is_member } => {
                self.membership_checked(&request, *membership, is_member, now);
            }
            Outcome::Expel { request, removal } => self.expelled(&request, removal, now),
            Outcome::Removals(heard) => self.removals_verified(heard, now),
            Outcome::Head { about, result } => self.head_verified(about, result, now),
            Outcome::Handshake(done) => {
                self.plane.link_mut().handle_handshake_done(done, now.instant);
            }
        }
        self.after_control(now);
    }

    pub(crate) fn admitted(&mut self, request: HeldPdu, chain: Verified<Chain>, now: Now) {
        self.plane.counters_mut().chains_accepted += 1;
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        let header = pdu.header();
        let (name, end, until_s) =
            (chain.origin(), until(chain.not_after_s(), now), chain.not_after_s());
        let session = request.session;
        if self.plane.peer(session).is_none() {
            return;
        }
        if !self.is_within_bounds(&chain) {
            return self.not_admitted(&request, DropReason::OutOfBounds, now);
        }
        // Good when it was made, but its origin has moved or withdrawn since.
        if let Some(newer) = self.routes.tables().newer_than(&chain) {
            if self.may_stand_in(header, &chain, &newer) {
                return self.ask_to_stand_in(request, chain, header.tag, now);
            }
            self.plane.counters_mut().chains_refused += 1;
            return self.refuse_superseded(session, header, &newer, now);
        }
        let brought = match header.action {
            Action::Advertise => Metadata::parse_list(pdu.data()).unwrap_or_default(),
            _ => Vec::new(),
        };
        let chain = Arc::new(chain);
        if header.destination == self.name() && header.action == Action::Advertise {
            if !self.attach(session, &chain, &brought, header, now) {
                return;
            }
        } else {
            self.accept(session, name, until_s, header.tag, false, now);
        }
        // Nothing is learnt from what is refused.
        self.routes.note(chain.first());
        let is_of_chain = |metadata: &Metadata| {
            let name = name_of(metadata);
            chain.certificates().iter().any(|certificate| certificate.issuer == name)
        };
        let standing = self.neighbour(session, now).standing;
        for metadata in brought.into_iter().filter(is_of_chain) {
            self.routes.tables().learn_brought(Arc::new(metadata), standing);
        }
        self.admission.enter_grant(name, session, Grant { chain, until: end });
        self.resume(request, now);
    }

    /// Attaches the origin of a chain to this router and publishes it: a node
    /// by its own word, a served name by its holder's word for the server and
    /// the server's for us. Whether it is attached.
    fn attach(
        &mut self,
        session: SessionId,
        chain: &Verified<Chain>,
        brought: &[Metadata],
        about: PduHeader,
        now: Now,
    ) -> bool {
        let name = chain.origin();
        let sent = || brought.iter().find(|it| name_of(it) == name).cloned().map(Arc::new);
        let metadata = self.metadata_of(&name).or_else(sent);
        let by_peer = self.plane.peer(session).is_some_and(|peer| peer.name == chain.holder());
        if metadata.as_ref().is_some_and(|it| self.is_name_refused(&name, it, session, now)) {
            self.refuse_advertisement(session, about, DropReason::AccessRefused, now);
            return false;
        }
        if !by_peer || chain.routers().count() != 1 {
            self.refuse_advertisement(session, about, DropReason::NotAuthorised, now);
            return false;
        }
        let may_publish =
            self.directory.can_publish(&name) && self.may_cost(session, Cost::Publication, now);
        let room = if may_publish {
            self.room_for(session, &chain.certificates()[0], now)
        } else {
            NO_ROOM
        };
        if let Err(why) = room {
            self.plane.drop_pdu(why);
            let reason = Reason::Overloaded(RETRY_ATTACHING_MS);
            self.send_nack(session, about, Nack { reason, reporter: Some(self.name()) }, now);
            return false;
        }
        let until_s = chain.not_after_s();
        let keys_of = self.plane.peer(session).map_or(now.instant, |peer| peer.renewed_at);
        let before = self.routes.attached_on(&name, session);
        let before_export = before.as_ref().and_then(|before| before.export.clone());
        let former = before.and_then(|before| before.said_before(keys_of));
        let attached = Attached {
            session,
            until: until(until_s, now),
            until_s,
            certificates: chain.certificates().to_vec(),
            export: before_export,
            scope: chain.scope(),
            published: false,
            tag: about.tag,
            keys_of,
            former,
            beside: Vec::new(),
        };
        let own = &chain.certificates()[0];
        match self.routes.attach(name, attached) {
            Ok(elsewhere) => {
                for before in &elsewhere {
                    self.tell_superseded(name, before, own, now);
                    self.forget_detached(before.session, now);
                }
            }
            Err(NotAttached::Older(newer)) => {
                self.refuse_superseded(session, about, &newer, now);
                return false;
            }
            Err(NotAttached::Full) => {
                self.refuse_advertisement(session, about, DropReason::Overloaded, now);
                return false;
            }
        }
        self.note_attached(session, own, now);
        self.accept(session, name, until_s, about.tag, false, now);
        if let Some(metadata) = metadata {
            self.publishing.await_publication(Slot::of(own), session, about.tag);
            let words = self.routes.attached_on(&name, session).map(|attached| attached.words());
            self.publish(metadata, words.unwrap_or_default(), now);
        }
        true
    }

    /// A session has attached a name by this word.
    fn note_attached(&mut self, session: SessionId, own: &Certificate, now: Now) {
        let name = own.issuer;
        let neighbour = self.neighbour(session, now);
        if !neighbour.attached.contains(&name) {
            let before = neighbour.attached.len();
            neighbour.attached.push(name);
            self.count_attached(session, before, now);
            self.plane.tell(Event::Joined { name });
        }
        if own.statement.is_one_of_several() {
            // Others answer as soon as it does not.
            self.plane.link_mut().watch(session, now.instant);
        }
    }

    /// Whether a session has room for a name, or why not.
    fn room_for(
        &mut self,
        session: SessionId,
        own: &Certificate,
        now: Now,
    ) -> Result<(), DropReason> {
        if self.neighbour(session, now).attached.contains(&own.issuer) {
            return Ok(());
        }
        match self.may_attach(session, now) {
            false => NO_ROOM,
            true if self.may_have_name(session, own, now) => Ok(()),
            true => Err(DropReason::TooManyNames),
        }
    }

    /// Whether a session has room for another name.
    fn may_attach(&mut self, session: SessionId, now: Now) -> bool {
        let neighbour = self.neighbour(session, now);
        if neighbour.attached.len() < MAX_ATTACHED_PER_SESSION
            && self.has_room_for_name(session, now)
        {
            return true;
        }
        self.forget_detached(session, now);
        self.neighbour(session, now).attached.len() < MAX_ATTACHED_PER_SESSION
            && self.has_room_for_name(session, now)
    }

    /// Another process held the key of a session's peer, and still uses the keys that
    /// the peer's newest handshake took the place of: it is shown the name's newer
    /// statement, and the newer process the older one.
    pub(crate) fn tell_both_processes(&mut self, session: SessionId, now: Now) {
        let Some(peer) = self.plane.peer(session) else { return };
        let (name, keys_of) = (peer.name, peer.renewed_at);
        let attached = self.routes.attached_on(&name, session);
        let Some(attached) = attached.filter(|it| it.keys_of == keys_of) else { return };
        let (tag, former) = (attached.tag, attached.former.clone());
        let Some(newer) = attached.certificates.first().cloned() else { return };
        let about = PduHeader { tag, ..PduHeader::new(Action::Advertise, name, self.name()) };
        if self.nack_former(session, about, &newer, now) {
            self.plane.tell(Event::TwoProcesses { name });
        }
        if let Some(former) = former {
            self.nack_superseded(session, about, &former, now);
        }
    }

    fn not_admitted(&mut self, request: &HeldPdu, why: DropReason, now: Now) {
        self.plane.counters_mut().chains_refused += 1;
        if why == DropReason::BadCertificate {
            self.note_forged(request.session, now);
        }
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        // The PDU came with certificates that were taken off: a
        // NACK is far smaller than what it is about.
        self.refuse_advertisement(request.session, pdu.header(), why, now);
    }

    /// Tells whoever attached a name that another session has
    /// it now, or nobody, and by which statement.
    pub(crate) fn tell_superseded(
        &mut self,
        name: Name,
        before: &Attached,
        newer: &Certificate,
        now: Now,
    ) {
        let about =
            PduHeader { tag: before.tag, ..PduHeader::new(Action::Advertise, name, self.name()) };
        self.nack_superseded(before.session, about, newer, now);
    }

    /// A name took back what it said. It may have closed
    /// its session since: that is told all the same.
    fn withdrawn(
        &mut self,
        request: &HeldPdu,
        issuer: Arc<Metadata>,
        certificate: Verified<&Certificate>,
        now: Now,
    ) {
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        let name = certificate.issuer;
        self.take_withdrawal(certificate, Some(request.session), now);
        if !self.directory.can_publish(&name)
            || !self.may_cost(request.session, Cost::Publication, now)
        {
            // Here it counts; for the others it has to come back.
            self.plane.drop_pdu(DropReason::Overloaded);
            let nack = Nack {
                reason: Reason::Overloaded(RETRY_WHEN_BUSY_MS),
                reporter: Some(self.name()),
            };
            return self.send_nack(request.session, pdu.header(), nack, now);
        }
        self.publishing.await_publication(Slot::of(&certificate), request.session, pdu.tag());
        self.publish(issuer, vec![certificate.cloned().into_inner()], now);
    }
}

// What control traffic brought about.
impl Switch {
    /// Sees to whatever control traffic brought about: events of the link, requests to RIBs.
    pub(crate) fn after_control(&mut self, now: Now) {
        self.handle_link_events(now);
        self.take_conclusions();
        self.flush_requests(now);
    }

    /// Sends what the directory wants sent.
    pub(crate) fn flush_requests(&mut self, now: Now) {
        while let Some((session, data)) = self.directory.poll_request() {
            let Some(rib) = self.plane.peer(session).map(|peer| peer.name) else { continue };
            self.plane.counters_mut().rib_requests += 1;
            self.send(
                session,
                PduHeader::new(Action::RibRequest, self.name(), rib),
                &data,
                &[],
                now,
            );
        }
    }
}

/// What a chain that did not verify is counted, and its sender told, as.
fn drop_reason(error: &ChainError) -> DropReason {
    match error {
        ChainError::Statement { error, .. } => window_or_bad(*error),
        _ => DropReason::BadCertificate,
    }
}

/// Clocks that differ too much have reasons of their own, because another certificate is no cure.
fn window_or_bad(error: StatementError) -> DropReason {
    match error {
        StatementError::Expired { .. } => DropReason::Expired,
        StatementError::NotYetValid { .. } => DropReason::NotYetValid,
        _ => DropReason::BadCertificate,
    }
}

/// A chain is presented again this much before the next hop forgets it.
const ACCEPTANCE_MARGIN_S: u64 = 5;
/// A server's own name and many that it answers for; more are for
/// another session. They are searched one by one.
const MAX_ATTACHED_PER_SESSION: usize = 256;
const NO_ROOM: Result<(), DropReason> = Err(DropReason::Overloaded);
/// Until some of them have left.
const RETRY_ATTACHING_MS: u16 = 1000;
