//! The slow path: a PDU of no known flow.
//!
//! 0. Does its session have its share of these left? A flood
//!    of them costs hardly more than to open it.
//! 1. May it come from here? A grant says so: a verified chain from the source to
//!    the session's peer and on to us. With certificates but no grant, the chain
//!    goes to verification, and the PDU with it.
//! 2. Where does it go? Attached here, or along a verified chain, or the RIB
//!    is asked and the source told to come back.
//! 3. Does the next router take it? Until it has accepted the source, PDUs carry the
//!    chain, grown by our own certificate; where both do not fit together, the chain goes
//!    ahead and the source is told to come back.
//! 4. The flow is remembered.

use std::sync::Arc;
use std::time::Duration;

use rhumb_directory::Question;
use rhumb_link::SessionId;
use rhumb_trust::{Now, fingerprint_of, lasts_too_long, name_of};
use rhumb_wire::certificate::MAX_CHAIN;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::group::GroupRequest;
use rhumb_wire::nack::{CapabilityFault, Reason};
use rhumb_wire::pdu::{LabelledHeader, LabelledPdu, decrement_ttl};
use rhumb_wire::{Action, Certificate, Metadata, Name, Pdu, PduHeader, PublicKey};

use crate::answer::CHAIN_AHEAD_TAG;
use crate::budgets::Cost;
use crate::changes::Grounds;
use crate::flows::{Flow, LabelTold, Marks, NextLabel, Ready, split_names};
use crate::grants::{Acceptance, Grant};
use crate::groups::Group;
use crate::job::{HeldPdu, Task};
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::joining::wanted;
use crate::next_hop::{NextHop, Stop};
use crate::routes::Found;
use crate::{DropReason, Switch};

impl Switch {
    /// Handles any PDU that no known flow carries. Returns the session
    /// to which the PDU is forwarded as it stands.
    pub(crate) fn handle_slow(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        match self.transit.demands() && self.lacks_stamp(from, pdu, now) {
            true => None,
            false => self.handle_full(from, pdu, now),
        }
    }

    /// Handles a PDU of names that may come from where it comes from, as far as capabilities go.
    pub(crate) fn handle_full(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        let next = self.handle_unguarded(from, pdu, now)?;
        match self.transit.is_demanded() {
            true => self.pass_on_full(next, pdu, now),
            false => Some(next),
        }
    }

    fn handle_unguarded(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> Option<SessionId> {
        let for_us = pdu.destination() == self.name();
        let asks = matches!(
            pdu.action(),
            Action::Data | Action::Ping | Action::Advertise | Action::GroupRequest
        );
        if asks && self.is_refused(from, wanted(pdu.action(), for_us), now) {
            let stop = Stop::new(DropReason::AccessRefused, Reason::NotAuthorised);
            self.stop(from, pdu, &stop, now);
            return None;
        }
        match pdu.action() {
            Action::Nack if !for_us && !self.may_relay_nack(from, pdu, now) => None,
            Action::Nack | Action::Pong if !for_us && !self.may_answer(from, pdu, now) => None,
            Action::Nack if !for_us && self.take_group_nack(from, pdu, now) => None,
            Action::Nack | Action::Pong if !for_us => self.relay_back(from, pdu, now),
            Action::Data | Action::Ping | Action::Advertise | Action::GroupRequest if !for_us => {
                self.neighbour(from, now).note_sent(pdu.as_bytes().len());
                if !self.may_carry(from, pdu, now) || !self.may_miss(from, pdu, now) {
                    return None;
                }
                if pdu.action() == Action::GroupRequest && !GroupRequest::is_join(pdu.data()) {
                    self.handle_group_end(from, pdu, now);
                    return None;
                }
                self.transit(from, pdu, now)
            }
            Action::Advertise => self.handle_advertise(from, pdu, now),
            Action::Accept => self.handle_accept(from, pdu, now),
            Action::FlowAccept => self.handle_flow_accept(from, pdu),
            Action::GroupAccept => self.handle_group_accept(from, pdu, now),
            Action::RibResponse => self.handle_rib_response(from, pdu, now),
            Action::Ping => self.answer_ping(from, pdu, now),
            Action::Heads => {
                if !self.is_refused(from, wanted(pdu.action(), for_us), now) {
                    self.handle_heads(from, pdu, now);
                }
                None
            }
            Action::Data
            | Action::Nack
            | Action::Pong
            | Action::RibRequest
            | Action::GroupRequest => {
                self.plane.drop_pdu(DropReason::NotForUs);
                None
            }
        }
    }

    /// Step 0: whether a PDU is of a flow that is known, though not as it stands, or one more may
    /// miss. If not, its source is told while there are NACKs for it: before anything but the flow
    /// table and what it may cost is looked at.
    pub(crate) fn may_miss(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        if self.plane.flows().peek(pdu.names()).is_some_and(|flow| flow.ingress == from) {
            return true;
        }
        if self.may_cost(from, Cost::Miss, now) {
            return true;
        }
        let reason = DropReason::TooManyMisses;
        match self.has_nacks_left(from, now) {
            true => {
                let stop = Stop::new(reason, Reason::Overloaded(RETRY_WHEN_BUSY_MS));
                self.stop(from, pdu, &stop, now);
            }
            false => self.plane.drop_pdu(reason),
        }
        false
    }

    /// Handles a labelled PDU that does not go on as it
    /// stands: as the PDU of names that it stands for.
    pub(crate) fn handle_slow_labelled(
        &mut self,
        from: SessionId,
        pdu: &LabelledPdu<'_>,
        now: Now,
    ) {
        let header = pdu.header();
        if header.action == Action::Nack {
            return self.handle_label_nack(from, pdu, now);
        }
        if self.transit.demands() && self.lacks_stamp_labelled(from, pdu, now) {
            return;
        }
        if !self.may_carry_labelled(from, pdu, now) {
            return;
        }
        let is_demanded = self.transit.is_demanded();
        let is_gone = is_demanded && self.pass_on_stamped(from, pdu, now)
            || self.is_metered(from) && self.carry_labelled(from, pdu, now);
        if !is_gone {
            self.carry_by_names(from, pdu, now);
        }
    }

    /// Carries a labelled PDU as the PDU of names that it stands for.
    pub(crate) fn carry_by_names(&mut self, from: SessionId, pdu: &LabelledPdu<'_>, now: Now) {
        let header = pdu.header();
        let Some(names) = self.plane.flows().names_of(header.label, from) else {
            return self.nack_label(from, pdu, now);
        };
        let (source, destination) = split_names(names);
        let named = PduHeader {
            ttl: header.ttl,
            tag: header.tag,
            ..PduHeader::new(header.action, source, destination)
        };
        let mut bytes = Vec::with_capacity(PduHeader::LEN + pdu.data().len());
        if named.emit(pdu.data(), &[], &mut bytes).is_err() {
            return;
        }
        let Ok(full) = Pdu::parse(&bytes) else { return };
        let Some(next) = self.transit(from, &full, now) else { return };
        if !self.carry_labelled(from, pdu, now) {
            self.carry_on(next, bytes, now);
        }
    }

    /// Carries a labelled PDU as it is, if its flow came out as it was
    /// when it was looked into again. Whether it did.
    fn carry_labelled(&mut self, from: SessionId, pdu: &LabelledPdu<'_>, now: Now) -> bool {
        let len = LabelledHeader::LEN + pdu.data().len() + RECORD_OVERHEAD;
        let is_ready = |it| matches!(it, Ready::Open | Ready::Metered);
        let about = (len, self.routes.seen());
        let Some((next, label)) = self.plane.known_label(from, pdu, about, is_ready) else {
            return false;
        };
        let header = LabelledHeader { label, ttl: pdu.ttl() - 1, ..pdu.header() };
        let mut bytes = Vec::with_capacity(len);
        match header.emit(pdu.data(), &mut bytes).is_ok() && self.send_bytes(next, &bytes, now) {
            true => self.plane.count_forwarded(len),
            false => self.plane.drop_pdu(DropReason::NextHopGone),
        }
        true
    }

    /// Carries a PDU that is not in a slot of its own.
    fn carry_copy(&mut self, from: SessionId, bytes: Vec<u8>, now: Now) {
        let Ok(pdu) = Pdu::parse(&bytes) else { return };
        if let Some(next) = self.transit(from, &pdu, now) {
            self.carry_on(next, bytes, now);
        }
    }

    /// Sends a PDU in full form to its next hop, its TTL one less.
    fn carry_on(&mut self, next: SessionId, mut bytes: Vec<u8>, now: Now) {
        decrement_ttl(&mut bytes);
        if self.send_bytes(next, &bytes, now) {
            self.plane.count_forwarded(bytes.len() + RECORD_OVERHEAD);
        } else if !self.stamps_for(next) {
            // What could not be stamped is counted.
            self.plane.drop_pdu(DropReason::NextHopGone);
        }
    }

    /// Carries a PDU for others, or says why not.
    pub(crate) fn transit(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        match self.try_transit(from, pdu, now) {
            Ok(next) => next,
            Err(stop) => {
                self.stop(from, pdu, &stop, now);
                None
            }
        }
    }

    /// Drops a PDU, counts why and tells its source.
    pub(crate) fn stop(&mut self, from: SessionId, pdu: &Pdu<'_>, stop: &Stop, now: Now) {
        self.plane.drop_pdu(stop.drop);
        self.nack(from, pdu, stop.nack, now);
    }

    fn try_transit(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Result<Option<SessionId>, Stop> {
        if pdu.ttl() <= 1 {
            return Err(Stop::new(DropReason::TtlExceeded, Reason::TtlExceeded));
        }
        // Before anything that the flow will be made from is looked at.
        let as_of = self.routes.catch_up();
        let source = pdu.source();
        let grant = self.grant(source, from, now);
        // Certificates that differ from those of the grant are its successors:
        // not to look at them would let it run out.
        let news = |grant: &Grant| {
            pdu.has_certificates()
                && pdu.certificates().is_ok_and(|list| list != grant.chain.certificates())
        };
        let Some(grant) = grant.filter(|grant| !news(grant)) else {
            if self.is_inquiry(from, pdu) {
                // Whatever is missing is sought now; the rest is for when the peer has joined.
                let _ = self.next_hop((source, pdu.destination()), from, now);
                return Ok(None);
            }
            return self.submit_chain(from, pdu, now).map(|()| None);
        };
        if !grant.chain.permits(pdu.destination()) {
            return Err(Stop::new(DropReason::NotAuthorised, Reason::NotAuthorised));
        }
        if pdu.action() == Action::Advertise {
            // The chain is verified already: our Accept was lost, or crossed this PDU.
            self.accept(from, source, grant.chain.not_after_s(), pdu.tag(), false, now);
            return Ok(None);
        }
        self.check_only_to(from, &pdu.destination(), now)?;
        if pdu.action() == Action::GroupRequest {
            return self.handle_group_request(from, pdu, &grant, now).map(|()| None);
        }
        let group = self.groups.get(&pdu.destination()).filter(|_| pdu.action() == Action::Data);
        if group.is_some_and(Group::is_in_use) {
            return self.spread((from, as_of), pdu, &grant, now).map(|()| None);
        }
        let next = self.next_hop((source, pdu.destination()), from, now)?;
        self.check_level(from, next.level, now)?;
        self.enter_flow(from, pdu, &grant, &next, as_of, now)
    }

    /// Whether a peer that has not joined only wants a way to be there when it
    /// does: an empty ping in its own name. Nothing is carried, and it costs us no
    /// more than what anybody can have who joins.
    fn is_inquiry(&self, from: SessionId, pdu: &Pdu<'_>) -> bool {
        pdu.action() == Action::Ping
            && pdu.data().is_empty()
            && !pdu.has_certificates()
            && self.plane.peer(from).is_some_and(|peer| peer.name == pdu.source())
    }

    /// Step 1: the grant in force for a source on a session.
    pub(crate) fn grant(&mut self, source: Name, from: SessionId, now: Now) -> Option<Grant> {
        let grant = self.admission.grant(source, from, now.instant)?.clone();
        if !self.routes.tables().admits(&grant.chain) {
            self.admission.end_grant(source, from);
            return None;
        }
        self.watch(from, grant.chain.certificates().iter().map(|c| c.issuer), now);
        Some(grant)
    }

    /// Step 1, without a grant: the certificates go to verification, together with the PDU.
    pub(crate) fn submit_chain(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Result<(), Stop> {
        if !pdu.has_certificates() {
            return Err(Stop::new(DropReason::NotAuthorised, Reason::NotAuthorised));
        }
        if self.jobs.is_admitting(pdu.source(), from) {
            let reason = Reason::NotYet(expected_ms(self.jobs.time()));
            return Err(Stop::new(DropReason::VerificationPending, reason));
        }
        let busy = || Stop::new(DropReason::Overloaded, Reason::Overloaded(RETRY_WHEN_BUSY_MS));
        if !self.is_listened_to(from, now) {
            return Err(busy());
        }
        let bad = || Stop::new(DropReason::BadCertificate, Reason::BadCertificate);
        let certificates = pdu.certificates().map_err(|_| bad())?;
        // It has been here before: old routes lead in a circle, or somebody made that up.
        // Nothing is verified yet, so it changes nothing here; each router of a true
        // circle hears of it, and asks for the way.
        if certificates.iter().any(|certificate| certificate.issuer == self.name()) {
            return Err(Stop::new(
                DropReason::Unreachable,
                Reason::Unreachable(RETRY_WHEN_BUSY_MS),
            ));
        }
        if !self.ends_at_us(from, &certificates) {
            return Err(bad());
        }
        if self.was_chain_refused(|| fingerprint_of(&pdu.source(), &certificates)) {
            self.note_forged(from, now);
            return Err(bad());
        }
        let sent_along = match pdu.action() {
            Action::Advertise => Metadata::parse_list(pdu.data()).map_err(|_| bad())?,
            _ => Vec::new(),
        };
        let role_of = |issuer: &Name| {
            let sent = || sent_along.iter().find(|it| name_of(it) == *issuer).map(|it| it.role);
            self.metadata_of(issuer).map(|it| it.role).or_else(sent)
        };
        if certificates.iter().any(|it| lasts_too_long(it, role_of(&it.issuer))) {
            return Err(Stop::new(DropReason::LastsTooLong, Reason::BadCertificate));
        }
        let keys = self.keys_of_issuers(from, &certificates, &sent_along, now);
        if keys.is_err() && pdu.destination() != self.name() {
            // The PDU has to come back anyway: whatever else it
            // will need is asked for in the same breath.
            if matches!(self.routes.find(&pdu.destination(), now.instant), Found::Unknown) {
                self.ask(from, Question::Route(pdu.destination()), now);
            }
        }
        self.flush_requests(now);
        let keys = keys?;
        // What waits is the PDU alone: its certificates are in the task.
        let mut bytes = Vec::new();
        let _ = pdu.header().emit(pdu.data(), &[], &mut bytes);
        let request = HeldPdu { session: from, pdu: bytes };
        let issuers = self.issuers(keys, &certificates);
        let task = Task::Admit { request, origin: pdu.source(), certificates, issuers };
        match self.queue_job(Some(from), task, now) {
            true => {
                self.jobs.note_admitting(pdu.source(), from);
                Ok(())
            }
            false => Err(busy()),
        }
    }

    /// Whether a chain's last certificate is by the session's peer, and names us: that the peer may
    /// carry is what the chain before it says, and that we may is what the peer says.
    pub(crate) fn ends_at_us(&self, from: SessionId, certificates: &[Certificate]) -> bool {
        let Some(peer) = self.plane.peer(from) else { return false };
        certificates.last().is_some_and(|last| {
            last.issuer == peer.name
                && matches!(last.statement, rhumb_wire::Statement::Route { via, .. } if via == self.name())
        })
    }

    /// The keys of all issuers; those that are neither known nor sent along
    /// are asked for, and the PDU has to come back.
    fn keys_of_issuers(
        &mut self,
        from: SessionId,
        certificates: &[Certificate],
        sent_along: &[Metadata],
        now: Now,
    ) -> Result<Vec<(Name, PublicKey)>, Stop> {
        let mut keys = Vec::with_capacity(certificates.len());
        let (mut missing, mut all_asked) = (false, true);
        for certificate in certificates {
            let issuer = certificate.issuer;
            let known = self.metadata_of(&issuer).map(|metadata| metadata.key);
            let sent = || sent_along.iter().find(|m| name_of(m) == issuer).map(|m| m.key);
            match known.or_else(sent) {
                Some(key) => keys.push((issuer, key)),
                None => {
                    missing = true;
                    all_asked &= self.ask(from, Question::Metadata(issuer), now);
                }
            }
        }
        let pending = |ms| Err(Stop::new(DropReason::MetadataPending, Reason::NotYet(ms)));
        match (missing, all_asked) {
            (true, true) => pending(self.look_up_takes_ms()),
            (true, false) => pending(RETRY_WHEN_BUSY_MS),
            (false, _) => Ok(keys),
        }
    }

    /// Asks RIBs on behalf of a session, while its share of questions lasts, or that of where it
    /// comes from. Whether it is being asked now.
    pub(crate) fn ask(&mut self, from: SessionId, question: Question, now: Now) -> bool {
        self.directory.is_asking(&question)
            || self.may_cost(from, Cost::Question, now)
                && self.directory.look_up(question, now.instant)
    }

    /// What is known of how long a look-up takes: the answer of the RIB
    /// that is asked first, and its verification.
    pub(crate) fn look_up_takes_ms(&self) -> u16 {
        match self.directory.answer_time() {
            Some(time) => expected_ms(time + self.jobs.time()),
            None => RETRY_AFTER_FIRST_LOOK_UP_MS,
        }
    }

    /// Metadata at hand: of ourselves, of a session's peer, or fetched earlier.
    pub(crate) fn metadata_of(&self, name: &Name) -> Option<Arc<Metadata>> {
        if *name == self.name() {
            return Some(self.publishing.metadata().clone());
        }
        if let Some(peer) = self.plane.session_of(name).and_then(|s| self.plane.peer(s)) {
            return Some(peer.metadata.clone());
        }
        self.routes.metadata_of(name)
    }

    /// Steps 3 and 4. Returns the session when the PDU can go as it stands.
    fn enter_flow(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        grant: &Grant,
        next: &NextHop,
        as_of: u64,
        now: Now,
    ) -> Result<Option<SessionId>, Stop> {
        let max_datagram_len = self.room_to(next.session).ok_or_else(Stop::gone)?;
        self.check_capability(next.session, pdu, now)?;
        let (grounds, renewed_as_of) = self.grounds(grant, next, now);
        let is_guarded = self.is_foreign(from, now) || self.stamps_for(next.session);
        let accepted_until = match next.last {
            true => Some(next.until),
            false => self
                .admission
                .acceptance(pdu.source(), next.session, now.instant)
                .filter(|acceptance| grant.chain.routers().eq(acceptance.path.iter().copied()))
                .and_then(|acceptance| acceptance.until),
        }
        .filter(|until| *until > now.instant);
        let known = self.plane.flows().peek(pdu.names()).copied();
        if known.is_some_and(|flow| flow.ingress == from && flow.as_of != as_of) {
            self.plane.counters_mut().flows_looked_into_again += 1;
        }
        let told = known.and_then(|flow| flow.told_lately(from, now));
        let until = grant.until.min(next.until).min(accepted_until.unwrap_or(next.until));
        let flow = Flow {
            ingress: from,
            next: next.session,
            next_label: known
                .filter(|flow| flow.next == next.session && flow.as_of >= renewed_as_of)
                .map_or(NextLabel::None, |flow| flow.next_label),
            until: self.routes.clock().moment(until),
            as_of,
            grounds,
            label_told: told.unwrap_or(LabelTold::at(now)),
            max_datagram_len,
            ready: match accepted_until {
                None => Ready::No,
                Some(_) if is_guarded => Ready::Guarded,
                Some(_) if self.is_metered(from) => Ready::Metered,
                Some(_) => Ready::Open,
            },
            marks: Marks::default(),
        };
        let label = self.plane.flows_mut().insert(flow, pdu.names());
        if told.is_none() {
            self.tell_label(from, pdu, label, now);
        }
        let max_data_len =
            usize::from(max_datagram_len).saturating_sub(RECORD_OVERHEAD + PduHeader::LEN);
        if pdu.data().len() > max_data_len {
            return Err(self.too_big(next.session, pdu.data().len(), max_data_len));
        }
        if flow.ready != Ready::No {
            // Certificates that came along are not carried on to a destination that wants none.
            return match pdu.has_certificates() {
                true => self.forward_copy(next.session, pdu, &[], now),
                false => Ok(Some(next.session)),
            };
        }
        let names = (pdu.source(), pdu.destination());
        let (chain, chain_len) = self.present(grant, (from, next.session), names, now)?;
        if pdu.data().len() + chain_len <= max_data_len {
            return self.forward_copy(next.session, pdu, &chain, now);
        }
        if self.plane.flows_mut().may_send_ahead(pdu.names(), CHAIN_AHEAD_INTERVAL_MS, now) {
            self.send(next.session, chain_ahead(pdu), &[], &chain, now);
        }
        Err(Stop::new(DropReason::ChainAhead, Reason::NotYet(RETRY_AFTER_ADVERTISING_MS)))
    }

    /// All that a flow rests on, and as of which change the labels of its next hop are good. The
    /// session of that is noted as one that flows go to.
    fn grounds(&mut self, grant: &Grant, next: &NextHop, now: Now) -> (Grounds, u64) {
        let mut grounds = next.grounds;
        self.rest_on(&grant.chain, &mut grounds);
        if let Some(peer) = self.plane.peer(next.session) {
            grounds.add(self.routes.seen().changes.of(&peer.name));
        }
        let neighbour = self.neighbour(next.session, now);
        neighbour.carries = true;
        (grounds, neighbour.renewed_as_of)
    }

    /// What a source is told of data that are longer than a datagram to the next hop takes.
    pub(crate) fn too_big(&self, next: SessionId, data_len: usize, max_data_len: usize) -> Stop {
        let carried = self.plane.peer(next).map_or(0, |peer| peer.max_datagram_len);
        let needed = usize::from(carried) + data_len - max_data_len;
        // A session that has just begun does not know its path yet.
        let reason = match self.plane.link().may_soon_carry(next, needed) {
            true => Reason::NotYet(RETRY_WHEN_MEASURED_MS),
            false => Reason::TooBig(u16::try_from(max_data_len).unwrap_or(u16::MAX)),
        };
        Stop::new(DropReason::TooBig, reason)
    }

    fn check_capability(&mut self, next: SessionId, pdu: &Pdu<'_>, now: Now) -> Result<(), Stop> {
        let missing = Reason::Capability(CapabilityFault::Missing);
        match self.has_capability(next, pdu, now) {
            true => Ok(()),
            false => Err(Stop::new(DropReason::NoCapability, missing)),
        }
    }

    /// The certificates by which a source is presented to the next router, and their bytes in a
    /// PDU. It is noted that it is.
    pub(crate) fn present(
        &mut self,
        grant: &Grant,
        (from, next): (SessionId, SessionId),
        (source, toward): (Name, Name),
        now: Now,
    ) -> Result<(Vec<Certificate>, usize), Stop> {
        let chain = self.chain_to_present(grant, (from, next, toward), now)?;
        let path = grant.chain.routers().collect();
        Ok(self.presented((source, path), next, chain, now))
    }

    /// It is noted that this chain of a source, by this path, is presented to the next router. The
    /// chain, and its bytes in a PDU.
    pub(crate) fn presented(
        &mut self,
        (source, path): (Name, Vec<Name>),
        next: SessionId,
        chain: Vec<Certificate>,
        now: Now,
    ) -> (Vec<Certificate>, usize) {
        let presented = Acceptance { until: None, presented_at: now.instant, path };
        self.admission.note_presented(source, next, presented);
        let len = 1 + chain.iter().map(Certificate::emitted_len).sum::<usize>();
        (chain, len)
    }

    /// The grant's chain, or what of it shows outside of our domain, and our own certificate for
    /// the next router. None when that would be too long or we cannot sign.
    fn chain_to_present(
        &mut self,
        grant: &Grant,
        (from, next, toward): (SessionId, SessionId, Name),
        now: Now,
    ) -> Result<Vec<Certificate>, Stop> {
        if self.is_outside(next, now) {
            return self.chain_outside(grant, (from, next, toward), now);
        }
        let router = self.plane.peer(next).map(|peer| peer.name);
        let own = router.and_then(|router| self.publishing.delegation_to(router, now));
        let mut chain = grant.chain.certificates().to_vec();
        chain.extend(own.filter(|_| chain.len() < MAX_CHAIN));
        match chain.len() > grant.chain.certificates().len() {
            true => Ok(chain),
            false => Err(Stop::gone()),
        }
    }

    /// Sends a PDU on with other certificates than it came with.
    fn forward_copy(
        &mut self,
        next: SessionId,
        pdu: &Pdu<'_>,
        certificates: &[Certificate],
        now: Now,
    ) -> Result<Option<SessionId>, Stop> {
        let header = pdu.header();
        self.send(next, PduHeader { ttl: header.ttl - 1, ..header }, pdu.data(), certificates, now);
        self.plane.counters_mut().forwarded_pdus += 1;
        Ok(None)
    }

    /// A PDU that waited for the verification of its chain goes on.
    pub(crate) fn resume(&mut self, request: HeldPdu, now: Now) {
        let Ok(pdu) = Pdu::parse(&request.pdu) else { return };
        match pdu.action() {
            Action::Advertise => {}
            Action::Ping if pdu.destination() == self.name() => {
                self.answer_ping(request.session, &pdu, now);
            }
            _ => self.carry_copy(request.session, request.pdu, now),
        }
    }
}

/// The header of the chain that goes ahead of a PDU: to the next router and no further, so it is
/// taken there even if the PDU's own TTL, a trace's, will not last for another one.
fn chain_ahead(of: &Pdu<'_>) -> PduHeader {
    let (action, ttl, tag) = (Action::Advertise, (of.ttl() - 1).max(2), CHAIN_AHEAD_TAG);
    PduHeader { action, ttl, tag, ..of.header() }
}

/// When to come back for what took so long of late: half as long
/// again, because it is asked in turn with others.
fn expected_ms(time: Duration) -> u16 {
    let ms = (time * 3 / 2).as_micros().div_ceil(1000);
    u16::try_from(ms).unwrap_or(u16::MAX).clamp(1, MAX_EXPECTED_MS)
}

/// Before any RIB has answered: a look-up at one nearby, and its verification.
const RETRY_AFTER_FIRST_LOOK_UP_MS: u16 = 10;
/// A RIB that takes longer is asked beside another one by then.
const MAX_EXPECTED_MS: u16 = 200;
/// A round trip or two to the next hop.
const RETRY_WHEN_MEASURED_MS: u16 = 10;
/// A chain that went ahead and got lost is sent again no sooner.
const CHAIN_AHEAD_INTERVAL_MS: u32 = 4;
/// A chain sent ahead, verified and accepted by the next router.
const RETRY_AFTER_ADVERTISING_MS: u16 = 5;
