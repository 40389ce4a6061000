//! PDUs that travel backward: NACKs of our own, and NACKs and
//! pongs passed back along the flow they answer.
//!
//! The flow table is the paper's `nack_cache` (section 3.3): a flow knows the session its PDUs came
//! in on, and exists only because that session proved its right to the source. An answer is taken
//! only from the flow's own next hop.

use rhumb_directory::Question;
use rhumb_link::SessionId;
use rhumb_trust::{Now, StatementError, Verified};
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::pdu::{Label, LabelledHeader, LabelledPdu};
use rhumb_wire::{Action, Certificate, Name, Pdu, PduHeader, Statement};

use crate::budgets::Cost;
use crate::flows::{flow_key, split_names};
use crate::grants::Grant;
use crate::job::Task;
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::newest::outdates;
use crate::{DropReason, Switch};

impl Switch {
    /// Tells whoever sent `about` why it was dropped: never about an answer, never larger than its
    /// cause, and not more often than a session may cost us.
    pub(crate) fn nack(&mut self, to: SessionId, about: &Pdu<'_>, reason: Reason, now: Now) {
        let is_request = matches!(
            about.action(),
            Action::Data | Action::Ping | Action::Advertise | Action::GroupRequest
        );
        if !is_request {
            return;
        }
        // A chain that went ahead has the tag of data that are answered by
        // themselves: two NACKs would resend them twice.
        if about.action() == Action::Advertise && about.destination() != self.name() {
            return;
        }
        let room = about.as_bytes().len() - PduHeader::LEN;
        let Some(nack) = self.nack_within(to, room, reason, now) else { return };
        if reason == Reason::TtlExceeded && about.action() == Action::Ping {
            self.send_evidence(to, about, nack, room, now);
        } else {
            self.send_nack(to, about.header(), nack, now);
        }
    }

    /// Tells whoever sent `about`, a PDU of a flow that is known by its label, why it was dropped:
    /// under the names of the flow.
    pub(crate) fn nack_labelled(
        &mut self,
        to: SessionId,
        about: &LabelledPdu<'_>,
        reason: Reason,
        now: Now,
    ) {
        let Some(names) = self.plane.flows().names_of(about.label(), to) else {
            return self.nack_label(to, about, now);
        };
        let (source, destination) = split_names(names);
        let LabelledHeader { action, ttl, tag, .. } = about.header();
        if let Some(nack) = self.nack_within(to, about.data().len(), reason, now) {
            self.send_nack(to, PduHeader { action, ttl, tag, source, destination }, nack, now);
        }
    }

    /// A NACK that is no longer than `room`, if `to` may be sent one more.
    fn nack_within(
        &mut self,
        to: SessionId,
        room: usize,
        reason: Reason,
        now: Now,
    ) -> Option<Nack> {
        if room < Nack::MIN_LEN || !self.may_cost(to, Cost::Nack, now) {
            return None;
        }
        let reporter = (room >= Nack::MAX_LEN).then_some(self.name());
        Some(Nack { reason, reporter })
    }

    /// A NACK to a trace: with our metadata, and the certificate by
    /// which the ping came to us, where there is room.
    fn send_evidence(&mut self, to: SessionId, about: &Pdu<'_>, nack: Nack, room: usize, now: Now) {
        let grant = self.admission.last_grant(about.source(), to);
        let certificate = grant.and_then(|grant| grant.chain.certificates().last().cloned());
        let metadata = self.publishing.metadata().emit();
        let fits = |c: &Certificate| Nack::MAX_LEN + metadata.len() + 1 + c.emitted_len() <= room;
        let Some(certificate) = certificate.filter(fits) else {
            return self.send_nack(to, about.header(), nack, now);
        };
        let header = PduHeader {
            tag: about.tag(),
            ..PduHeader::new(Action::Nack, about.destination(), about.source())
        };
        let mut data = Vec::with_capacity(Nack::MAX_LEN + metadata.len());
        nack.emit(&mut data);
        data.extend_from_slice(&metadata);
        self.send(to, header, &data, &[certificate], now);
        self.plane.counters_mut().nacks += 1;
    }

    /// Tells `to` about an earlier PDU of this header.
    pub(crate) fn send_nack(&mut self, to: SessionId, about: PduHeader, nack: Nack, now: Now) {
        let header = PduHeader {
            tag: about.tag,
            ..PduHeader::new(Action::Nack, about.destination, about.source)
        };
        let mut data = Vec::with_capacity(Nack::MAX_LEN);
        nack.emit(&mut data);
        self.send(to, header, &data, &[], now);
        self.plane.counters_mut().nacks += 1;
    }

    /// Tells `to` that something newer is in force than what it brought, and shows it.
    pub(crate) fn nack_superseded(
        &mut self,
        to: SessionId,
        about: PduHeader,
        newer: &Certificate,
        now: Now,
    ) {
        let (header, data) = superseded(about);
        self.send(to, header, &data, std::slice::from_ref(newer), now);
        self.plane.counters_mut().nacks += 1;
    }

    /// As [`Switch::nack_superseded`], to whoever used the session before
    /// its newest handshake. Whether that could be.
    pub(crate) fn nack_former(
        &mut self,
        to: SessionId,
        about: PduHeader,
        newer: &Certificate,
        now: Now,
    ) -> bool {
        let (header, data) = superseded(about);
        let mut pdu = Vec::new();
        if header.emit(&data, std::slice::from_ref(newer), &mut pdu).is_err() {
            return false;
        }
        let queued = self.plane.queue_former(to, &pdu, now);
        self.plane.counters_mut().nacks += u64::from(queued);
        queued
    }

    /// The next router knows something newer than what we presented for a
    /// source: when it is verified, our grant ends, and whoever sent us the
    /// source's PDUs presents the source's chain to us again.
    fn learn_newer(
        &mut self,
        from: SessionId,
        (source, ingress): (Name, SessionId),
        pdu: &Pdu<'_>,
        now: Now,
    ) {
        let shown = pdu.certificates().unwrap_or_default();
        let Ok([newer]) = <[Certificate; 1]>::try_from(shown) else {
            return self.plane.drop_pdu(DropReason::MalformedPdu);
        };
        let concerns = |grant: &mut Grant| {
            grant.chain.certificates().iter().any(|older| outdates(&newer, older))
        };
        if !self.admission.last_grant(source, ingress).is_some_and(concerns) {
            return self.plane.drop_pdu(DropReason::UnexpectedAnswer);
        }
        match self.metadata_of(&newer.issuer) {
            Some(issuer) => {
                let task = Task::Newer { session: from, certificate: newer, issuer };
                if !self.queue_job(Some(from), task, now) {
                    self.plane.drop_pdu(DropReason::Overloaded);
                }
            }
            None => {
                self.ask(from, Question::Metadata(newer.issuer), now);
                self.flush_requests(now);
            }
        }
    }

    /// Verdict on what the next router knows.
    pub(crate) fn newer_verified(
        &mut self,
        session: SessionId,
        result: Result<Verified<Certificate>, StatementError>,
        now: Now,
    ) {
        match result {
            Ok(newer) if newer.statement == Statement::Withdrawal => {
                self.take_withdrawal(newer.as_ref(), None, now);
            }
            Ok(newer) => {
                self.leave_if_moved(&newer, now);
                self.routes.note(newer.as_ref());
            }
            Err(_) => {
                self.plane.counters_mut().chains_refused += 1;
                self.note_forged(session, now);
            }
        }
    }

    /// Passes a NACK or a pong back to where the PDU it answers
    /// came from. Returns the session to pass it to.
    pub(crate) fn relay_back(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        let (source, destination) = (pdu.destination(), pdu.source());
        let flow = self.plane.flows().peek(&flow_key(source, destination)).copied();
        let Some(flow) = flow.filter(|flow| flow.next == from && pdu.ttl() > 1) else {
            self.plane.drop_pdu(DropReason::UnexpectedAnswer);
            return None;
        };
        self.plane.counters_mut().relayed_back += 1;
        if pdu.action() == Action::Pong {
            return Some(flow.ingress);
        }
        let Ok((told, evidence)) = Nack::parse_with_metadata(pdu.data()) else {
            self.plane.drop_pdu(DropReason::MalformedPdu);
            return None;
        };
        self.note_capability_nack(from, &told, now);
        let is_cut = told.reporter.is_some() && self.is_outside(flow.ingress, now);
        let nack = if is_cut { Nack { reporter: None, ..told } } else { told };
        let on = match nack.reason {
            // The next router lost or refuses what we presented; it is ours to present again, and
            // the source only has to resend.
            Reason::NotAuthorised
            | Reason::BadCertificate
            | Reason::Expired
            | Reason::NotYetValid
            | Reason::Superseded
                if self.plane.is_router(from) =>
            {
                if nack.reason == Reason::Superseded {
                    self.learn_newer(from, (source, flow.ingress), pdu, now);
                }
                self.admission.end_acceptance(source, from);
                self.plane.flows_mut().end_acceptance(&flow_key(source, destination));
                if pdu.tag() != CHAIN_AHEAD_TAG {
                    self.have_resent(flow.ingress, pdu, nack.reporter, now);
                }
                None
            }
            // It may be reachable by another one of several.
            Reason::Unreachable(_)
                if self.goes_elsewhere((source, destination), (flow.ingress, from), now) =>
            {
                self.have_resent(flow.ingress, pdu, None, now);
                None
            }
            // The name may have moved.
            Reason::Unreachable(_) => {
                self.doubt(destination, flow.ingress, now);
                Some(flow.ingress)
            }
            // Old routes may lead in a circle. A trace, which comes
            // with evidence, means its TTL to run out.
            Reason::TtlExceeded if evidence.is_none() => {
                self.doubt(destination, flow.ingress, now);
                Some(flow.ingress)
            }
            _ => Some(flow.ingress),
        };
        if let (Some(ingress), true) = (on, is_cut) {
            // Outside of our domain it is told why, and not by which router of the inside.
            let about =
                PduHeader { tag: pdu.tag(), ..PduHeader::new(Action::Data, source, destination) };
            self.send_nack(ingress, about, nack, now);
            return None;
        }
        on
    }

    /// Has a source send what a NACK was about once more: it will go otherwise.
    fn have_resent(&mut self, to: SessionId, nack: &Pdu<'_>, reporter: Option<Name>, now: Now) {
        let (source, destination) = (nack.destination(), nack.source());
        let about =
            PduHeader { tag: nack.tag(), ..PduHeader::new(Action::Data, source, destination) };
        let reason = Reason::NotYet(RETRY_AFTER_LAPSE_MS);
        self.send_nack(to, about, Nack { reason, reporter }, now);
    }

    /// Answers a ping addressed to this router itself.
    pub(crate) fn answer_ping(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        if self.grant(pdu.source(), from, now).is_none() {
            if let Err(stop) = self.submit_chain(from, pdu, now) {
                self.stop(from, pdu, &stop, now);
            }
            return None;
        }
        let header =
            PduHeader { tag: pdu.tag(), ..PduHeader::new(Action::Pong, self.name(), pdu.source()) };
        self.send(from, header, pdu.data(), &[], now);
        None
    }

    /// A next hop gives the label under which it takes a flow's PDUs from now on.
    pub(crate) fn handle_flow_accept(
        &mut self,
        from: SessionId,
        pdu: &Pdu<'_>,
    ) -> Option<SessionId> {
        match FlowAccept::parse(pdu.data()) {
            Ok(accept) => {
                let names = flow_key(pdu.destination(), pdu.source());
                if !self.plane.flows_mut().set_next_label(&names, from, accept.label) {
                    self.plane.drop_pdu(DropReason::UnexpectedAnswer);
                }
            }
            Err(_) => self.plane.drop_pdu(DropReason::MalformedPdu),
        }
        None
    }

    /// Tells the previous hop under which label we take a flow's PDUs.
    pub(crate) fn tell_label(&mut self, to: SessionId, about: &Pdu<'_>, label: Label, now: Now) {
        if about.data().len() < FlowAccept::LEN {
            return;
        }
        let header = PduHeader {
            tag: about.tag(),
            ..PduHeader::new(Action::FlowAccept, about.destination(), about.source())
        };
        self.send(to, header, &FlowAccept { label }.emit(), &[], now);
    }

    /// Tells the previous hop that a label of ours means nothing to us any more.
    pub(crate) fn nack_label(&mut self, to: SessionId, about: &LabelledPdu<'_>, now: Now) {
        self.plane.drop_pdu(DropReason::UnknownFlow);
        if about.data().len() < Nack::MIN_LEN || !self.may_cost(to, Cost::Nack, now) {
            return;
        }
        let mut data = Vec::with_capacity(Nack::MIN_LEN);
        Nack { reason: Reason::UnknownFlow, reporter: None }.emit(&mut data);
        let header =
            LabelledHeader { action: Action::Nack, ttl: PduHeader::INITIAL_TTL, ..about.header() };
        let mut pdu = Vec::with_capacity(LabelledHeader::LEN + data.len());
        if header.emit(&data, &mut pdu).is_ok() && self.send_bytes(to, &pdu, now) {
            self.plane.counters_mut().nacks += 1;
        }
    }

    /// The next hop does not know its label any more: the flow goes back
    /// to names, and the source only has to resend.
    pub(crate) fn handle_label_nack(&mut self, from: SessionId, pdu: &LabelledPdu<'_>, now: Now) {
        if Nack::parse(pdu.data()).map(|nack| nack.reason) != Ok(Reason::UnknownFlow) {
            self.plane.drop_pdu(DropReason::MalformedPdu);
            return;
        }
        let Some((ingress, names)) = self.plane.flows_mut().lapse_next_label(from, pdu.label())
        else {
            self.plane.drop_pdu(DropReason::UnexpectedAnswer);
            return;
        };
        let (source, destination) = split_names(names);
        let about = PduHeader {
            tag: pdu.header().tag,
            ..PduHeader::new(Action::Data, source, destination)
        };
        let nack = Nack { reason: Reason::NotYet(RETRY_AFTER_LAPSE_MS), reporter: None };
        self.send_nack(ingress, about, nack, now);
    }

    /// What a session is told of a destination that it may not send to. A router before us would
    /// take "not authorised" for a word about the chain that it presented; so it hears
    /// "unreachable", and asks for the destination's word again.
    pub(crate) fn not_for_it(&self, from: SessionId) -> Reason {
        match self.plane.is_router(from) {
            true => Reason::Unreachable(RETRY_WHEN_BUSY_MS),
            false => Reason::NotAuthorised,
        }
    }
}

/// Header and data of Nack(superseded) about an advertisement or a chain.
fn superseded(about: PduHeader) -> (PduHeader, Vec<u8>) {
    let header = PduHeader {
        tag: about.tag,
        ..PduHeader::new(Action::Nack, about.destination, about.source)
    };
    let mut data = Vec::with_capacity(Nack::MIN_LEN);
    Nack { reason: Reason::Superseded, reporter: None }.emit(&mut data);
    (header, data)
}

/// No data's tag: the data that a chain went ahead of are answered by
/// themselves, and two NACKs would resend them twice.
pub(crate) const CHAIN_AHEAD_TAG: u32 = 0;
/// The next PDU carries the chain again; nothing needs to be waited for.
const RETRY_AFTER_LAPSE_MS: u16 = 1;
