//! What comes in: from datagrams to PDUs of the router joined, and from those to arrivals, answers and events.
//!
//! Per datagram: the clear bytes, the seal, the PDU's frame, the session and the destination are checked, in that order.
//! Data are left where they were opened; only their place is noted.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use rhumb_trust::Now;
use rhumb_wire::accept::Accept;
use rhumb_wire::datagram::Datagram;
use rhumb_wire::discovery::Discovery;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::pdu::{Frame, LabelledHeader, LabelledPdu};
use rhumb_wire::{Action, Batch, Name, Pdu, PduHeader};

use super::membership::Membership;
use super::pending::{Outcome, PendingKind, Settled};
use super::{Core, DropReason, Event, Evidence, Turn};

/// Data that arrived for a program, where the batch holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Who sent them.
    pub from: Name,
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
    from: Name,
    kind: PayloadKind,
    port: u16,
}

impl Core {
    /// Takes received datagrams, which are opened in place. [`Core::arrivals`] is then about this batch.
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

    /// What the last [`Core::handle_batch`] brought for programs; `batch` is the one it was given, unchanged since.
    pub fn arrivals<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = Arrival<'a>> {
        self.arrivals.iter().map(|at| Arrival {
            from: at.from,
            kind: at.kind,
            port: at.port,
            body: &batch.bytes(&batch.slots()[at.slot])[at.body.clone()],
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
        // What the link learned from the seal, such as the session's first record, comes before what was sealed.
        self.handle_link_events(now);
        let plaintext = opened.plaintext;
        if self.membership.session() != Some(opened.session) {
            return Err(DropReason::OtherSession);
        }
        self.labels.keep_to(opened.session);
        let bytes = &datagram[plaintext.clone()];
        match Frame::parse(bytes).map_err(|_| DropReason::Malformed)? {
            Frame::Full(pdu) => self.handle_pdu(&pdu, slot, plaintext.start, now),
            Frame::Labelled(pdu) => self.handle_labelled(&pdu, slot, plaintext.start, now),
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
        if pdu.destination() != self.name {
            return Err(DropReason::NotForUs);
        }
        match pdu.action() {
            Action::Data => {
                self.tell_label(pdu, now.instant);
                self.arrive(pdu.source(), pdu.data(), slot, pdu_at + PduHeader::LEN)
            }
            Action::Ping => {
                self.tell_label(pdu, now.instant);
                self.answer_ping(pdu.source(), pdu.tag(), pdu.data())
            }
            Action::Pong => self.handle_pong(pdu, now.instant),
            Action::Nack => {
                let (nack, metadata) =
                    Nack::parse_with_metadata(pdu.data()).map_err(|_| DropReason::Malformed)?;
                let certificates = pdu.certificates().map_err(|_| DropReason::Malformed)?;
                let evidence = metadata
                    .zip(certificates.into_iter().next())
                    .map(|(metadata, certificate)| Box::new(Evidence { metadata, certificate }));
                // A NACK's source is the destination of what it is about.
                self.handle_nack(pdu.tag(), pdu.source(), nack, evidence, now)
            }
            Action::Accept => self.handle_accept(pdu, now),
            Action::FlowAccept => {
                let accept = FlowAccept::parse(pdu.data()).map_err(|_| DropReason::Malformed)?;
                self.labels.learn(pdu.source(), accept.label);
                Ok(())
            }
            _ => Err(DropReason::NotForNodes),
        }
    }

    /// A PDU with a label: one of ours in place of a source, or the router's that it does not know any more.
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
            let to = self.labels.lapse(header.label).ok_or(DropReason::UnknownNack)?;
            return self.handle_nack(header.tag, to, nack, None, now);
        }
        let Some(source) = self.labels.source(header.label) else {
            self.nack_label(header, pdu.data());
            return Err(DropReason::UnknownLabel);
        };
        match header.action {
            Action::Ping => self.answer_ping(source, header.tag, pdu.data()),
            _ => self.arrive(source, pdu.data(), slot, pdu_at + LabelledHeader::LEN),
        }
    }

    /// Notes where data for a program are.
    fn arrive(
        &mut self,
        from: Name,
        data: &[u8],
        slot: usize,
        data_at: usize,
    ) -> Result<(), DropReason> {
        let (header, body) = PayloadHeader::parse(data).map_err(|_| DropReason::Malformed)?;
        let body_at = data_at + PayloadHeader::LEN;
        self.traffic.received += 1;
        self.arrivals.push(ArrivedAt {
            slot,
            body: body_at..body_at + body.len(),
            from,
            kind: header.kind,
            port: header.port,
        });
        Ok(())
    }

    /// Tells the router the label to put in place of a source's name, from time to time.
    fn tell_label(&mut self, pdu: &Pdu<'_>, now: Instant) {
        if pdu.data().len() < FlowAccept::LEN || self.answers.len() >= MAX_ANSWERS {
            return;
        }
        if let Some(label) = self.labels.give(pdu.source(), now) {
            let header = PduHeader {
                tag: pdu.tag(),
                ..PduHeader::new(Action::FlowAccept, self.name, pdu.source())
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

    fn answer_ping(&mut self, from: Name, tag: u32, data: &[u8]) -> Result<(), DropReason> {
        if self.answers.len() >= MAX_ANSWERS {
            return Err(DropReason::AnswerQueueFull);
        }
        let header = PduHeader { tag, ..PduHeader::new(Action::Pong, self.name, from) };
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
        self.ask_membership(now, |membership, turn| {
            membership.handle_accept(pdu.tag(), accept, turn).map_err(|_| DropReason::UnknownAccept)
        })
    }

    /// Acts on a NACK about the PDU of `tag` to `to`.
    fn handle_nack(
        &mut self,
        tag: u32,
        to: Name,
        nack: Nack,
        evidence: Option<Box<Evidence>>,
        now: Now,
    ) -> Result<(), DropReason> {
        match self.pending.handle_nack(tag, to, nack.reason, now.instant, &mut self.jitter) {
            Outcome::Retried(settled) => self.tell_retried(settled, nack, now.instant),
            Outcome::GivenUp(settled) => {
                // A ping's reason to be given up may be its purpose: a trace counts on the TTL.
                self.give_up(settled, nack.reporter, evidence, now.instant);
            }
            Outcome::Unknown if self.streams.believes(tag, to) => {
                self.events.push_back(Event::Nacked { to, reason: nack.reason });
            }
            Outcome::Unknown => {
                if Some(to) != self.membership.router() {
                    return Err(DropReason::UnknownNack);
                }
                return self.ask_membership(now, |membership, turn| {
                    membership
                        .handle_nack(tag, nack.reason, turn)
                        .map_err(|_| DropReason::UnknownNack)
                });
            }
        }
        self.traffic.nacks += 1;
        match nack.reason {
            Reason::TooBig(len) => {
                self.path_limits.learn(to, len, now.instant);
            }
            Reason::BadCertificate | Reason::NotAuthorised => {
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

/// Answers that may wait: one batch of pings.
const MAX_ANSWERS: usize = 64;
