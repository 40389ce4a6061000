//! What happens per name and per session: advertisements,
//! acceptances, verdicts, sessions that come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rhumb_link::{AttemptId, CloseReason, LinkError, SessionId};
use rhumb_trust::{Chain, ChainError, Now, Standing, StatementError, Verified, name_of};
use rhumb_wire::accept::Accept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Certificate, Metadata, Name, Pdu, PduHeader, Statement};

use crate::budgets::Cost;
use crate::directory::reconnect_delay;
use crate::event::Event;
use crate::grants::Grant;
use crate::job::{Admission, Done, Outcome, Task};
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::reach::{NoWay, Way};
use crate::routes::{Attached, NotAttached};
use crate::switch::{Dial, until};
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
        if let [Certificate { statement: Statement::Withdrawal, .. }] = certificates[..] {
            return self.submit_withdrawal(from, pdu, certificates, now);
        }
        // Repeated because our Accept was lost, or the RIB has
        // not answered yet: nothing to verify again.
        if let Some(attached) = self.routes.attached_mut(&pdu.source())
            && attached.session == from
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

    fn submit_withdrawal(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        certificates: Vec<Certificate>,
        now: Now,
    ) -> Option<SessionId> {
        let issuer =
            self.endpoint.peer(from).filter(|p| p.name == pdu.source()).map(|p| p.metadata.clone());
        let (Some(issuer), Some(certificate)) = (issuer, certificates.into_iter().next()) else {
            self.refuse_advertisement(from, pdu.header(), DropReason::NotAuthorised, now);
            return None;
        };
        let request = Admission { session: from, pdu: pdu.as_bytes().to_vec() };
        if !self.queue_job(Some(from), Task::Withdrawal { request, certificate, issuer }, now) {
            self.drop_pdu(DropReason::Overloaded);
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
            self.endpoint.peer(from).is_some_and(|p| self.publishing.has_delegated_to(&p.name));
        match Accept::parse(pdu.data()) {
            Ok(accept) if presented_to => {
                let end = until(accept.until_s.saturating_sub(ACCEPTANCE_MARGIN_S), now);
                if let Some(acceptance) =
                    self.acceptances.current(&(accept.name, from), now.instant)
                {
                    acceptance.until = Some(end);
                }
            }
            Ok(_) => self.drop_pdu(DropReason::UnexpectedAnswer),
            Err(_) => self.drop_pdu(DropReason::MalformedPdu),
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
        let Some(peer) = self.endpoint.peer(to).map(|peer| peer.name) else { return };
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
        self.drop_pdu(drop);
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
        self.drop_pdu(DropReason::Superseded);
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
            Outcome::Absence { replica, destination, result } => {
                self.absence_verified(replica, destination, result, now);
            }
            Outcome::Change { result } => self.change_verified(result, now),
            Outcome::Newer { session, result } => self.newer_verified(session, result, now),
            Outcome::Withdrawal { request, issuer, result } => match result {
                Ok(certificate) => self.withdrawn(&request, issuer, &certificate, now),
                Err(error) => self.not_admitted(&request, window_or_bad(error), now),
            },
            Outcome::Handshake(done) => self.endpoint.handle_handshake_done(done, now.instant),
        }
        self.after_control(now);
    }

    pub(crate) fn admitted(&mut self, request: Admission, chain: Verified<Chain>, now: Now) {
        self.counters.chains_accepted += 1;
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        let header = pdu.header();
        let (name, end, until_s) =
            (chain.origin(), until(chain.not_after_s(), now), chain.not_after_s());
        let session = request.session;
        if self.endpoint.peer(session).is_none() {
            return;
        }
        // Good when it was made, but its origin has moved or withdrawn since.
        if let Some(newer) = self.routes.tables().newer_than(&chain) {
            if self.may_stand_in(header, &chain, &newer) {
                return self.ask_to_stand_in(request, chain, header.tag, now);
            }
            self.counters.chains_refused += 1;
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
        if let Some(own) = chain.certificates().first() {
            self.routes.note(own);
        }
        let is_of_chain = |metadata: &Metadata| {
            let name = name_of(metadata);
            chain.certificates().iter().any(|certificate| certificate.issuer == name)
        };
        let standing = self.neighbour(session, now.instant).standing;
        for metadata in brought.into_iter().filter(is_of_chain) {
            self.routes.tables().learn_brought(Arc::new(metadata), standing);
        }
        self.grants.insert((name, session), Grant { chain, until: end });
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
        let by_peer = self.endpoint.peer(session).is_some_and(|peer| peer.name == chain.holder());
        if metadata.as_ref().is_some_and(|it| self.is_name_refused(&name, it, now)) {
            self.refuse_advertisement(session, about, DropReason::AccessRefused, now);
            return false;
        }
        if !by_peer || chain.routers().count() != 1 {
            self.refuse_advertisement(session, about, DropReason::NotAuthorised, now);
            return false;
        }
        let may_publish =
            self.directory.can_publish(&name) && self.may_cost(session, Cost::Publication, now);
        if !may_publish || !self.may_attach(session, &name, now) {
            self.drop_pdu(DropReason::Overloaded);
            let reason = Reason::Overloaded(RETRY_ATTACHING_MS);
            self.send_nack(session, about, Nack { reason, reporter: Some(self.name()) }, now);
            return false;
        }
        let until_s = chain.not_after_s();
        let keys_of = self.endpoint.peer(session).map_or(now.instant, |peer| peer.renewed_at);
        let before = self.routes.attached_mut(&name).filter(|before| before.session == session);
        let former = before.and_then(|before| before.said_before(keys_of));
        let attached = Attached {
            session,
            until: until(until_s, now),
            until_s,
            certificates: chain.certificates().to_vec(),
            scope: chain.scope(),
            published: false,
            tag: about.tag,
            keys_of,
            former,
        };
        let own = &chain.certificates()[0];
        match self.routes.attach(name, attached) {
            Ok(None) => {}
            Ok(Some(before)) => self.tell_superseded(name, &before, own, now),
            Err(NotAttached::Older(newer)) => {
                self.refuse_superseded(session, about, &newer, now);
                return false;
            }
            Err(NotAttached::Full) => {
                self.refuse_advertisement(session, about, DropReason::Overloaded, now);
                return false;
            }
        }
        let neighbour = self.neighbour(session, now.instant);
        if !neighbour.attached.contains(&name) {
            let before = neighbour.attached.len();
            neighbour.attached.push(name);
            self.count_attached(session, before, now);
            self.events.push_back(Event::Joined { name });
        }
        self.accept(session, name, until_s, about.tag, false, now);
        if let Some(metadata) = metadata {
            self.publishing.await_publication(name, session, about.tag);
            self.publish(metadata, chain.certificates()[0].clone(), now);
        }
        true
    }

    /// Whether a session has room for another name.
    fn may_attach(&mut self, session: SessionId, name: &Name, now: Now) -> bool {
        let neighbour = self.neighbour(session, now.instant);
        if neighbour.attached.contains(name) {
            return true;
        }
        if neighbour.attached.len() < MAX_ATTACHED_PER_SESSION
            && self.has_room_for_name(session, now)
        {
            return true;
        }
        let mut attached = std::mem::take(&mut self.neighbour(session, now.instant).attached);
        let before = attached.len();
        attached.retain(|name| {
            self.routes.attached_mut(name).is_some_and(|attached| attached.session == session)
        });
        let has_room = attached.len() < MAX_ATTACHED_PER_SESSION;
        self.neighbour(session, now.instant).attached = attached;
        self.count_attached(session, before, now);
        has_room && self.has_room_for_name(session, now)
    }

    /// Another process held the key of a session's peer, and still uses the keys that
    /// the peer's newest handshake took the place of: it is shown the name's newer
    /// statement, and the newer process the older one.
    fn tell_both_processes(&mut self, session: SessionId, now: Now) {
        let Some(peer) = self.endpoint.peer(session) else { return };
        let (name, keys_of) = (peer.name, peer.renewed_at);
        let attached = self.routes.attached_mut(&name).filter(|it| it.session == session);
        let Some(attached) = attached.filter(|it| it.keys_of == keys_of) else { return };
        let (tag, former) = (attached.tag, attached.former.clone());
        let Some(newer) = attached.certificates.first().cloned() else { return };
        let about = PduHeader { tag, ..PduHeader::new(Action::Advertise, name, self.name()) };
        if self.nack_former(session, about, &newer, now) {
            self.events.push_back(Event::TwoProcesses { name });
        }
        if let Some(former) = former {
            self.nack_superseded(session, about, &former, now);
        }
    }

    fn not_admitted(&mut self, request: &Admission, why: DropReason, now: Now) {
        self.counters.chains_refused += 1;
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
        request: &Admission,
        issuer: Arc<Metadata>,
        certificate: &Certificate,
        now: Now,
    ) {
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        let name = certificate.issuer;
        self.take_withdrawal(certificate, Some(request.session), now);
        if !self.directory.can_publish(&name)
            || !self.may_cost(request.session, Cost::Publication, now)
        {
            // Here it counts; for the others it has to come back.
            self.drop_pdu(DropReason::Overloaded);
            let nack = Nack {
                reason: Reason::Overloaded(RETRY_WHEN_BUSY_MS),
                reporter: Some(self.name()),
            };
            return self.send_nack(request.session, pdu.header(), nack, now);
        }
        self.publishing.await_publication(name, request.session, pdu.tag());
        self.publish(issuer, certificate.clone(), now);
    }
}

// Sessions.
impl Switch {
    /// Whatever control traffic brought about: events of the link, requests to RIBs.
    pub(crate) fn after_control(&mut self, now: Now) {
        self.handle_link_events(now);
        self.take_conclusions();
        self.flush_requests(now);
    }

    pub(crate) fn handle_link_events(&mut self, now: Now) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                rhumb_link::Event::Established { session, attempt, peer, renewed, .. } => {
                    if renewed {
                        self.end_labels_of(session, &peer, now.instant);
                    }
                    self.established(session, attempt, peer, now);
                }
                rhumb_link::Event::Failed { attempt, error, .. } => {
                    self.failed(attempt, error, now);
                }
                rhumb_link::Event::Closed { session, peer, reason, .. } => {
                    if reason == CloseReason::Silent {
                        self.note_silent(peer, now.instant);
                    }
                    self.closed(session, &peer, now);
                }
                rhumb_link::Event::Former { session } => self.tell_both_processes(session, now),
                // Flows that have larger PDUs are to hear of it. That there
                // is more room each finds out by itself.
                rhumb_link::Event::Resized { session, before, now: size } if size < before => {
                    self.counters.paths_narrowed += 1;
                    if let Some(peer) = self.endpoint.peer(session).map(|peer| peer.name) {
                        self.routes.changed(&peer);
                    }
                }
                // Flows lead to the session, wherever its peer is.
                rhumb_link::Event::Moved { .. } => self.counters.sessions_moved += 1,
                _ => {}
            }
        }
    }

    fn established(
        &mut self,
        session: SessionId,
        attempt: Option<AttemptId>,
        peer: Name,
        now: Now,
    ) {
        self.dialling.remove(&peer);
        let Some(attempt) = attempt else { return };
        if let Some(peer) = self.endpoint.peer(session) {
            self.reach.note_answer(peer.address, now.instant);
        }
        if self.directory.established(attempt, session, now.instant) {
            self.events.push_back(Event::RibReady { name: peer });
        }
        if self.upstreams.established(attempt, session, now.instant) {
            self.events.push_back(Event::UpstreamReady { name: peer });
            self.choose_upstream(now);
        }
        self.treat_anew(session);
        self.renew_own_statements(now);
    }

    fn failed(&mut self, attempt: AttemptId, error: LinkError, now: Now) {
        if let Some(address) = self.directory.failed(attempt, now.instant) {
            self.events.push_back(Event::RibLost { address, error: Some(error) });
            return;
        }
        if let Some(address) = self.upstreams.failed(attempt, now.instant) {
            self.events.push_back(Event::UpstreamLost { address, error: Some(error) });
            return;
        }
        let dial = self.dialling.values_mut().find(|dial| dial.attempt == Some(attempt));
        if let Some(dial) = dial {
            dial.attempt = None;
            dial.failures += 1;
            dial.retry_at = now.instant + reconnect_delay(dial.failures);
        }
    }

    /// Perhaps the peer of a renewed session is a new process, which gives its labels to other
    /// flows: those that go there are looked into again, one by one when they are used.
    fn end_labels_of(&mut self, session: SessionId, peer: &Name, now: Instant) {
        let carries = self.neighbours.get(&session).is_some_and(|neighbour| neighbour.carries);
        if carries {
            let number = self.routes.changed(peer);
            self.neighbour(session, now).renewed_as_of = number;
        }
    }

    fn closed(&mut self, session: SessionId, peer: &Name, now: Now) {
        if let Some(address) = self.directory.closed(session, now.instant) {
            self.events.push_back(Event::RibLost { address, error: None });
            self.take_conclusions();
            self.flush_requests(now);
        }
        if let Some(address) = self.upstreams.closed(session, now.instant) {
            self.events.push_back(Event::UpstreamLost { address, error: None });
            self.choose_upstream(now);
        }
        if let Some(neighbour) = self.neighbours.remove(&session) {
            self.discharge(&neighbour);
            self.tell_gone(session, &neighbour.attached);
            self.flush_requests(now);
            self.routes.detach_session(session, &neighbour.attached);
            if neighbour.carries {
                self.routes.changed(peer);
            }
        }
        // Grants and acceptances of the session need no clearing: a session id is never used again.
    }

    /// Uses another upstream if it is time to, and says so to everybody.
    pub(crate) fn choose_upstream(&mut self, now: Now) {
        let is_another = self.upstreams.choose(now.instant);
        for session in self.upstreams.exchangeable() {
            self.endpoint.hasten(session, true);
            self.endpoint.watch_closely(session, now.instant);
        }
        if let Some(session) = self.upstreams.alone() {
            self.endpoint.hasten(session, false);
        }
        let used = self.upstreams.session().and_then(|session| self.endpoint.peer(session));
        if let Some(name) = used.map(|peer| peer.name).filter(|_| is_another) {
            self.events.push_back(Event::UpstreamUsed { name });
            self.publishing.hasten_own(now.instant);
            self.renew_own_statements(now);
            self.flush_requests(now);
        }
    }

    /// Starts the connections that are due.
    pub(crate) fn connect_due(&mut self, now: Now) {
        for (index, remote) in self.directory.connect_due(now.instant) {
            let attempt = self.endpoint.connect(remote.address, remote.name, now.instant);
            self.directory.connecting(index, attempt);
        }
        for (index, remote) in self.upstreams.connect_due(now.instant) {
            let attempt = self.endpoint.connect(remote.address, remote.name, now.instant);
            self.upstreams.connecting(index, attempt);
        }
    }

    /// A peer fell silent: if a route leads there, it counts as
    /// unreachable until a handshake says otherwise.
    fn note_silent(&mut self, peer: Name, now: Instant) {
        if self.publishing.has_delegated_to(&peer) {
            let retry_at = now + reconnect_delay(1);
            self.make_room_to_dial(peer, now);
            if self.dialling.len() < MAX_DIALS {
                let dial = Dial { attempt: None, failures: 1, begun_at: now, retry_at };
                self.dialling.insert(peer, dial);
            }
        }
    }

    /// Forgets dials that are over, if there are too many.
    fn make_room_to_dial(&mut self, router: Name, now: Instant) {
        if self.dialling.len() >= MAX_DIALS {
            self.dialling.retain(|name, dial| *name == router || !dial.is_idle(now));
        }
    }

    /// Connects to a router that a route leads to, which `for_whom` needs, unless that is under way
    /// or was in vain a moment ago, or there is a reason not to.
    pub(crate) fn dial(
        &mut self,
        router: Name,
        address: SocketAddr,
        for_whom: SessionId,
        now: Now,
    ) -> Result<(), NoWay> {
        self.make_room_to_dial(router, now.instant);
        let standing = self.neighbour(for_whom, now.instant).standing;
        let most = match standing {
            Standing::Admitted => MAX_DIALS,
            _ => MAX_DIALS - MAX_DIALS / 4,
        };
        let known = self.dialling.get(&router);
        if known.is_none() && self.dialling.len() >= most {
            return Err(NoWay::NotNow);
        }
        if known.is_some_and(|dial| !dial.is_idle(now.instant)) {
            return Ok(());
        }
        let failures = known.map_or(0, |dial| dial.failures);
        let mut credit = self.neighbour(for_whom, now.instant).credit;
        let way = self.reach.may_connect(address, &mut credit, now.instant);
        self.neighbour(for_whom, now.instant).credit = credit;
        let attempt = match way? {
            Way::Whole => self.endpoint.connect(address, Some(router), now.instant),
            Way::Once => {
                // Every other time as foreign routers understand it.
                let as_foreign = failures % 2 == 1;
                let (attempt, sent) =
                    self.endpoint.connect_once(address, router, as_foreign, now.instant);
                self.reach.note_hello(sent);
                attempt
            }
        };
        let (begun_at, retry_at) = (now.instant, now.instant);
        let fresh = Dial { attempt: None, failures: 0, begun_at, retry_at };
        self.dialling.entry(router).or_insert(fresh).attempt = Some(attempt);
        Ok(())
    }

    /// Sends what the directory wants sent.
    pub(crate) fn flush_requests(&mut self, now: Now) {
        while let Some((session, data)) = self.directory.poll_request() {
            let Some(rib) = self.endpoint.peer(session).map(|peer| peer.name) else { continue };
            self.counters.rib_requests += 1;
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
/// Until some of them have left.
const RETRY_ATTACHING_MS: u16 = 1000;
/// Routers connected to at once because routes lead there.
const MAX_DIALS: usize = 1024;
