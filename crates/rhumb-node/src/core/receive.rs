//! What comes in: from datagrams to PDUs of the router joined,
//! and from those to arrivals, answers and events.
//!
//! Per datagram: the clear bytes, the seal, the PDU's frame, the session and the destination are
//! checked, in that order. Data are left where they were opened; only their place is noted.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use rhumb_link::SessionId;
use rhumb_trust::Now;
use rhumb_wire::accept::Accept;
use rhumb_wire::datagram::Datagram;
use rhumb_wire::discovery::Discovery;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::group::GroupAccept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::pdu::{Frame, LabelledHeader, LabelledPdu};
use rhumb_wire::{Action, Batch, Certificate, Metadata, Name, Pdu, PduHeader, bundle};

use super::labels::Flow;
use super::membership::Membership;
use super::pending::{Outcome, PendingKind, Settled};
use super::{Core, DropReason, Event, Evidence, Turn};
use crate::{Refusal, Wanted};

/// Data that arrived for a program, where the batch holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Who sent them.
    pub from: Name,
    /// Who they are for: this node, or a name that it serves.
    pub to: Name,
    /// What they are.
    pub kind: PayloadKind,
    /// Which port they are for.
    pub port: u16,
    /// The data, without the payload header.
    pub body: &'a [u8],
}

/// Where an arrival is.
#[derive(Debug)]
pub(super) struct ArrivedAt {
    slot: usize,
    body: Range<usize>,
    flow: Flow,
    kind: PayloadKind,
    port: u16,
}

impl Core {
    /// Takes received datagrams, which are opened in place.
    /// [`Core::arrivals`] is then about this batch.
    pub fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        self.arrivals.clear();
        for slot in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(slot);
            if let Err(reason) = self.handle_datagram(slot, from, datagram, now) {
                self.drops.count(reason);
            }
        }
        self.handle_link_events(now);
    }

    /// What the last [`Core::handle_batch`] brought for programs;
    /// `batch` is the one it was given, unchanged since.
    pub fn arrivals<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = Arrival<'a>> {
        self.arrivals.iter().map(|at| Arrival {
            from: at.flow.from,
            to: at.flow.to,
            kind: at.kind,
            port: at.port,
            body: &batch.datagram(at.slot)[at.body.clone()],
        })
    }

    fn handle_datagram(
        &mut self,
        slot: usize,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Result<(), DropReason> {
        match Datagram::parse(datagram) {
            Err(_) => return self.handle_answer(from, datagram, now.instant),
            Ok(Datagram::Record(_)) => {}
            Ok(handshake) => {
                return self
                    .endpoint
                    .handle_handshake(from, handshake, now.instant)
                    .map_err(|_| DropReason::Link);
            }
        }
        let opened =
            self.endpoint.open(from, datagram, now.instant).map_err(|_| DropReason::Link)?;
        if opened.plaintext.is_empty() {
            return Ok(());
        }
        // What the link learned from the seal, such as the session's
        // first record, comes before what was sealed.
        self.handle_link_events(now);
        let plaintext = opened.plaintext;
        if !opened.is_bundle {
            return self.handle_frame(opened.session, (slot, datagram), plaintext, now);
        }
        let begin = plaintext.start;
        let pdus = bundle::pdus(&datagram[plaintext]).map_err(|_| DropReason::Malformed)?;
        for pdu in pdus {
            let pdu = begin + pdu.start..begin + pdu.end;
            if let Err(reason) = self.handle_frame(opened.session, (slot, datagram), pdu, now) {
                self.drops.count(reason);
            }
        }
        Ok(())
    }

    /// Takes the PDU that stands in a part of an opened datagram.
    fn handle_frame(
        &mut self,
        session: SessionId,
        (slot, datagram): (usize, &[u8]),
        pdu: Range<usize>,
        now: Now,
    ) -> Result<(), DropReason> {
        if self.membership.session() != Some(session) {
            return Err(DropReason::OtherSession);
        }
        self.labels.keep_to(session);
        match Frame::parse(&datagram[pdu.clone()]).map_err(|_| DropReason::Malformed)? {
            Frame::Full(parsed) => self.handle_pdu(&parsed, slot, pdu.start, now),
            Frame::Labelled(parsed) => self.handle_labelled(&parsed, slot, pdu.start, now),
        }
    }

    /// A datagram of no session: somebody on the local network may offer to be our router.
    fn handle_answer(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        match Discovery::parse(datagram) {
            Ok(Discovery::Answer(nonce)) if self.membership.handle_answer(from, nonce, now) => {
                Ok(())
            }
            Ok(Discovery::Answer(_)) => Err(DropReason::UnknownAnswer),
            _ => Err(DropReason::Foreign),
        }
    }

    fn handle_pdu(
        &mut self,
        pdu: &Pdu<'_>,
        slot: usize,
        pdu_at: usize,
        now: Now,
    ) -> Result<(), DropReason> {
        let flow = Flow { from: pdu.source(), to: pdu.destination() };
        if self.groups.holds(&flow.to) && pdu.action() == Action::Data {
            return self.arrive_from_group(flow, pdu.data(), slot, pdu_at + PduHeader::LEN);
        }
        if pdu.destination() != self.name && !self.services.holds(&pdu.destination()) {
            return self.refuse_pdu(flow, pdu.header(), pdu.data());
        }
        match pdu.action() {
            Action::Data | Action::Ping if !self.answers_for(&flow.to) => {
                self.refuse_pdu(flow, pdu.header(), pdu.data())
            }
            Action::Data => {
                self.tell_label(pdu, now.instant);
                self.arrive(flow, pdu.data(), slot, pdu_at + PduHeader::LEN)
            }
            Action::Ping => {
                self.tell_label(pdu, now.instant);
                self.answer_ping(flow, pdu.tag(), pdu.data())
            }
            Action::Pong => self.handle_pong(pdu, now.instant),
            Action::Nack => {
                let (nack, metadata) =
                    Nack::parse_with_metadata(pdu.data()).map_err(|_| DropReason::Malformed)?;
                let certificates = pdu.certificates().map_err(|_| DropReason::Malformed)?;
                let shown = Shown { metadata, certificate: certificates.into_iter().next() };
                // A NACK's source is the destination of what it is about.
                let about = Flow { from: pdu.destination(), to: pdu.source() };
                self.handle_nack(pdu.tag(), about, nack, shown, now)
            }
            Action::Accept => self.handle_accept(pdu, now),
            Action::GroupAccept => {
                let accept = GroupAccept::parse(pdu.data()).map_err(|_| DropReason::Malformed)?;
                let about = (pdu.tag(), pdu.source());
                match self.groups.handle_accept(about, accept, now, &mut self.events) {
                    true => Ok(()),
                    false => Err(DropReason::UnknownAccept),
                }
            }
            Action::FlowAccept => {
                let accept = FlowAccept::parse(pdu.data()).map_err(|_| DropReason::Malformed)?;
                let flow = Flow { from: pdu.destination(), to: pdu.source() };
                self.labels.learn(flow, accept.label);
                Ok(())
            }
            _ => Err(DropReason::NotForNodes),
        }
    }

    /// A PDU with a label: one of ours in place of a source, or
    /// the router's that it does not know any more.
    fn handle_labelled(
        &mut self,
        pdu: &LabelledPdu<'_>,
        slot: usize,
        pdu_at: usize,
        now: Now,
    ) -> Result<(), DropReason> {
        let header = pdu.header();
        if header.action == Action::Nack {
            let nack = Nack::parse(pdu.data()).map_err(|_| DropReason::Malformed)?;
            let flow = self.labels.lapse(header.label).ok_or(DropReason::UnknownNack)?;
            return self.handle_nack(header.tag, flow, nack, Shown::default(), now);
        }
        let Some(flow) = self.labels.flow(header.label) else {
            self.nack_label(header, pdu.data());
            return Err(DropReason::UnknownLabel);
        };
        if !self.answers_for(&flow.to) {
            let named =
                PduHeader { tag: header.tag, ..PduHeader::new(header.action, flow.from, flow.to) };
            return self.refuse_pdu(flow, named, pdu.data());
        }
        match header.action {
            Action::Ping => self.answer_ping(flow, header.tag, pdu.data()),
            _ => self.arrive(flow, pdu.data(), slot, pdu_at + LabelledHeader::LEN),
        }
    }

    /// Notes where data are that somebody sent to a group: datagrams only, since nobody answers
    /// for all of it.
    fn arrive_from_group(
        &mut self,
        flow: Flow,
        data: &[u8],
        slot: usize,
        data_at: usize,
    ) -> Result<(), DropReason> {
        let kind = PayloadHeader::parse(data).map(|(header, _)| header.kind);
        match kind == Ok(PayloadKind::Datagram) && self.groups.receives(&flow.to) {
            true => self.arrive(flow, data, slot, data_at),
            false => Err(DropReason::NotForUs),
        }
    }

    /// Notes where data for a program are.
    fn arrive(
        &mut self,
        flow: Flow,
        data: &[u8],
        slot: usize,
        data_at: usize,
    ) -> Result<(), DropReason> {
        let (header, body) = PayloadHeader::parse(data).map_err(|_| DropReason::Malformed)?;
        // Who may connect, connections look at themselves.
        if header.kind == PayloadKind::Datagram {
            self.admit(flow, Wanted::Datagram { port: header.port })?;
        }
        let body_at = data_at + PayloadHeader::LEN;
        self.traffic.received += 1;
        self.arrivals.push(ArrivedAt {
            slot,
            body: body_at..body_at + body.len(),
            flow,
            kind: header.kind,
            port: header.port,
        });
        Ok(())
    }

    /// Whether who sends may send here. Who may not learns nothing:
    /// an answer would tell that somebody is here.
    fn admit(&mut self, flow: Flow, wanted: Wanted) -> Result<(), DropReason> {
        if !self.senders.refuses(&flow.from) {
            return Ok(());
        }
        self.events.push_back(Event::SenderRefused(Refusal {
            from: flow.from,
            to: flow.to,
            wanted,
        }));
        Err(DropReason::SenderRefused)
    }

    /// Tells the router the label to put in place of a source's name, from time to time.
    fn tell_label(&mut self, pdu: &Pdu<'_>, now: Instant) {
        if pdu.data().len() < FlowAccept::LEN || self.answers.len() >= MAX_ANSWERS {
            return;
        }
        let flow = Flow { from: pdu.source(), to: pdu.destination() };
        if let Some(label) = self.labels.give(flow, now) {
            let header = PduHeader {
                tag: pdu.tag(),
                ..PduHeader::new(Action::FlowAccept, flow.to, flow.from)
            };
            let mut answer = Vec::new();
            header
                .emit(&FlowAccept { label }.emit(), &[], &mut answer)
                .expect("invariant: four bytes fit a PDU");
            self.answers.push_back(answer);
        }
    }

    /// Tells the router that a label means nothing to us any more.
    fn nack_label(&mut self, about: LabelledHeader, data: &[u8]) {
        if data.len() < Nack::MIN_LEN || self.answers.len() >= MAX_ANSWERS {
            return;
        }
        let mut nack = Vec::with_capacity(Nack::MIN_LEN);
        Nack { reason: Reason::UnknownFlow, reporter: None }.emit(&mut nack);
        let header = LabelledHeader { action: Action::Nack, ttl: PduHeader::INITIAL_TTL, ..about };
        let mut answer = Vec::new();
        header.emit(&nack, &mut answer).expect("invariant: a NACK has a labelled form");
        self.answers.push_back(answer);
    }

    fn answers_for(&self, name: &Name) -> bool {
        *name == self.name || self.services.answers_for(name)
    }

    /// Tells whoever sent to a name that is not served here, or
    /// no longer, that it has to find another way.
    fn refuse_pdu(&mut self, flow: Flow, about: PduHeader, data: &[u8]) -> Result<(), DropReason> {
        let is_answerable = matches!(about.action, Action::Data | Action::Ping)
            && data.len() >= Nack::MIN_LEN
            && self.answers.len() < MAX_ANSWERS;
        if is_answerable {
            let reporter = (data.len() >= Nack::MAX_LEN).then_some(self.name);
            let mut nack = Vec::with_capacity(Nack::MAX_LEN);
            Nack { reason: Reason::Unreachable(TRY_ELSEWHERE_MS), reporter }.emit(&mut nack);
            let header =
                PduHeader { tag: about.tag, ..PduHeader::new(Action::Nack, flow.to, flow.from) };
            let mut answer = Vec::new();
            header.emit(&nack, &[], &mut answer).expect("invariant: a NACK fits a PDU");
            self.answers.push_back(answer);
        }
        Err(DropReason::NotForUs)
    }

    fn answer_ping(&mut self, flow: Flow, tag: u32, data: &[u8]) -> Result<(), DropReason> {
        self.admit(flow, Wanted::Ping)?;
        if self.answers.len() >= MAX_ANSWERS {
            return Err(DropReason::AnswerQueueFull);
        }
        let header = PduHeader { tag, ..PduHeader::new(Action::Pong, flow.to, flow.from) };
        let mut pong = Vec::new();
        header.emit(data, &[], &mut pong).expect("invariant: data that were in a PDU fit a PDU");
        self.answers.push_back(pong);
        Ok(())
    }

    fn handle_pong(&mut self, pong: &Pdu<'_>, now: Instant) -> Result<(), DropReason> {
        let (tag, from) = (pong.tag(), pong.source());
        let sent_at = self.pending.settle_ping(tag, from).ok_or(DropReason::UnknownPong)?;
        let rtt = now.saturating_duration_since(sent_at);
        self.events.push_back(Event::Pong { tag, from, rtt });
        Ok(())
    }

    fn handle_accept(&mut self, pdu: &Pdu<'_>, now: Now) -> Result<(), DropReason> {
        let accept = Accept::parse(pdu.data()).map_err(|_| DropReason::Malformed)?;
        if Some(pdu.source()) != self.membership.router() {
            return Err(DropReason::UnknownAccept);
        }
        if accept.name != self.name {
            let event = self
                .services
                .handle_accept(pdu.tag(), accept, now.instant)
                .map_err(|_| DropReason::UnknownAccept)?;
            self.events.extend(event);
            return Ok(());
        }
        self.ask_membership(now, |membership, turn| {
            membership.handle_accept(pdu.tag(), accept, turn).map_err(|_| DropReason::UnknownAccept)
        })
    }

    /// Acts on a NACK about the PDU of `tag` of a flow of ours.
    fn handle_nack(
        &mut self,
        tag: u32,
        Flow { from, to }: Flow,
        nack: Nack,
        shown: Shown,
        now: Now,
    ) -> Result<(), DropReason> {
        match self.pending.handle_nack(tag, to, nack.reason, now.instant, &mut self.jitter) {
            Outcome::Retried(settled) => self.tell_retried(settled, nack, now.instant),
            Outcome::GivenUp(settled) => {
                // A ping's reason to be given up may be its purpose: a trace counts on the TTL.
                self.give_up(settled, nack.reporter, shown.evidence(), now.instant);
            }
            Outcome::Unknown if self.streams.believes(tag, to) => {
                self.events.push_back(Event::Nacked { to, reason: nack.reason });
            }
            Outcome::Unknown => {
                let mut turn = Turn {
                    endpoint: &mut self.endpoint,
                    tags: &mut self.tags,
                    jitter: &mut self.jitter,
                    now,
                };
                let about = (tag, to);
                if self.groups.handle_nack(about, nack.reason, &mut turn, &mut self.events) {
                    self.traffic.nacks += 1;
                    return Ok(());
                }
                if Some(to) != self.membership.router() {
                    return Err(DropReason::UnknownNack);
                }
                if from != self.name {
                    return self.ask_services(tag, from, nack.reason, now);
                }
                return self.ask_membership(now, |membership, turn| {
                    membership
                        .handle_nack(tag, nack.reason, shown.certificate.as_ref(), turn)
                        .map_err(|_| DropReason::UnknownNack)
                });
            }
        }
        self.traffic.nacks += 1;
        if nack.reason == Reason::NotAuthorised {
            self.groups.ask_again(to, now);
        }
        match nack.reason {
            Reason::TooBig(len) => {
                self.path_limits.learn(to, len, now.instant);
            }
            Reason::BadCertificate
            | Reason::NotAuthorised
            | Reason::Expired
            | Reason::NotYetValid
                if from != self.name =>
            {
                self.services.advertise_again(from);
            }
            Reason::BadCertificate
            | Reason::NotAuthorised
            | Reason::Superseded
            | Reason::Expired
            | Reason::NotYetValid => {
                self.with_membership(now, Membership::advertise_again);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whoever waits for a pong wants to know why it takes so long; data simply go out again.
    fn tell_retried(&mut self, settled: Settled, nack: Nack, now: Instant) {
        if settled.kind != PendingKind::Ping {
            return;
        }
        self.events.push_back(Event::PingNacked {
            tag: settled.tag,
            to: settled.to,
            reason: nack.reason,
            reporter: nack.reporter,
            rtt: settled.sent_at.map(|at| now.saturating_duration_since(at)),
            retried: true,
            evidence: None,
        });
    }

    fn ask_services(
        &mut self,
        tag: u32,
        name: Name,
        reason: Reason,
        now: Now,
    ) -> Result<(), DropReason> {
        let mut turn = Turn {
            endpoint: &mut self.endpoint,
            tags: &mut self.tags,
            jitter: &mut self.jitter,
            now,
        };
        let event = self
            .services
            .handle_nack(tag, name, reason, &mut turn)
            .map_err(|_| DropReason::UnknownNack)?;
        self.events.extend(event);
        Ok(())
    }

    fn ask_membership(
        &mut self,
        now: Now,
        ask: impl FnOnce(&mut Membership, &mut Turn<'_>) -> Result<Option<Event>, DropReason>,
    ) -> Result<(), DropReason> {
        let mut refused = Ok(());
        self.with_membership(now, |membership, turn| {
            ask(membership, turn).unwrap_or_else(|reason| {
                refused = Err(reason);
                None
            })
        });
        refused
    }
}

/// What came along with a NACK. Not verified.
#[derive(Default)]
struct Shown {
    metadata: Option<Metadata>,
    certificate: Option<Certificate>,
}

impl Shown {
    fn evidence(self) -> Option<Box<Evidence>> {
        let (metadata, certificate) = self.metadata.zip(self.certificate)?;
        Some(Box::new(Evidence { metadata, certificate }))
    }
}

/// Whoever sent here by an old route has it looked up anew by the router that hears this.
const TRY_ELSEWHERE_MS: u16 = 20;
/// Answers that may wait: one batch of pings.
const MAX_ANSWERS: usize = 64;
