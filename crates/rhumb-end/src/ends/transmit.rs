//! What leaves: a train of payloads of one connection at a time, round robin over the connections
//! that have something to send. QUIC makes those of a train for less than one by one, and of one
//! length, so that the system takes them together.

use std::net::SocketAddr;
use std::time::Instant;

use rhumb_trust::Now;
use rhumb_wire::Name;
use rhumb_wire::payload::{Half, PayloadHeader, PayloadKind};

use super::{ConnectionId, Ends, Event};
use crate::DropReason;
use crate::connection::Connection;
use crate::transport::LEAST_DATAGRAM_LEN;

/// A payload to send, whose body [`Ends::poll_transmit`] has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// In whose name: this end's, or one that it serves.
    pub from: Name,
    /// To whom.
    pub to: Name,
    /// What stands before the body.
    pub header: PayloadHeader,
    /// It is of a handshake: worth being sent again as soon as a router says that it was too early.
    pub is_handshake: bool,
    /// Bytes of each payload's body: several may stand one behind the other, the last one perhaps
    /// shorter. It is never 0.
    pub each: usize,
}

impl Ends {
    /// Writes the next payload that is to be sent into `body`; `None` when there is none for now.
    /// `longest` says what the body of a payload to a name may have at most. Each call does a
    /// bounded amount of work.
    pub fn poll_transmit(
        &mut self,
        longest: impl Fn(&Name) -> usize,
        body: &mut Vec<u8>,
        now: Now,
    ) -> Option<Transmit> {
        self.poll_train(longest, 1, body, now)
    }

    /// As [`Ends::poll_transmit`], for `most` payloads at most, all of them between the same names.
    pub fn poll_train(
        &mut self,
        longest: impl Fn(&Name) -> usize,
        most: usize,
        body: &mut Vec<u8>,
        now: Now,
    ) -> Option<Transmit> {
        loop {
            if let Some((transmit, queued)) = self.outbox.pop_front() {
                if transmit.header.kind == PayloadKind::Connection
                    && queued.len() > longest(&transmit.to)
                {
                    self.halve(transmit, &queued);
                    continue;
                }
                body.clear();
                body.extend_from_slice(&queued);
                return Some(transmit);
            }
            let id = *self.ready.front()?;
            let Some(connection) = self.connections.get_mut(&id) else {
                self.ready.pop_front();
                continue;
            };
            body.clear();
            let longest = longest(&connection.peer);
            connection.longest = longest;
            if connection.waiting.take_turn()
                && let Some(transmit) = self.poll_packets(id, (most, longest), body, now)
            {
                return Some(transmit);
            }
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let (transmit, holds_until) = connection.poll_quic((most, longest), body, now);
            let Some(transmit) = transmit else {
                if let Some(transmit) = self.poll_packets(id, (most, longest), body, now) {
                    return Some(transmit);
                }
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_ready = false;
                }
                self.ready.pop_front();
                self.take_events(id, now);
                self.set_timer_before(id, holds_until);
                continue;
            };
            // The next one is another connection's.
            self.ready.rotate_left(1);
            if transmit.each <= longest {
                return Some(transmit);
            }
            let mtu = self.connections.get(&id).map_or(0, |it| it.quic.current_mtu());
            // A probe asks what gets through whole, and this does not.
            if body.len() <= usize::from(mtu.max(LEAST_DATAGRAM_LEN)) {
                let datagram = std::mem::take(body);
                self.halve(transmit, &datagram);
                *body = datagram;
            }
        }
    }

    /// Packets of the connection at the front, which goes to the back.
    fn poll_packets(
        &mut self,
        id: ConnectionId,
        (most, longest): (usize, usize),
        body: &mut Vec<u8>,
        now: Now,
    ) -> Option<Transmit> {
        let connection = self.connections.get_mut(&id)?;
        body.clear();
        let most = most.min(LONGEST_TRAIN);
        let (each, too_long) = connection.train((most, longest), body, now.instant);
        let (from, to) = (connection.local, connection.peer);
        if connection.waiting.has_room_again() {
            self.events.push_back(Event::MaySend { id });
        }
        (0..too_long).for_each(|_| self.drops.count(DropReason::PacketTooBig));
        self.ready.rotate_left(usize::from(each.is_some()));
        let header = PayloadHeader { kind: PayloadKind::Record, port: 0 };
        Some(Transmit { from, to, header, is_handshake: false, each: each? })
    }

    /// Whether [`Ends::poll_transmit`] may have something at once.
    pub fn has_more_to_send(&self) -> bool {
        !self.outbox.is_empty() || !self.ready.is_empty()
    }

    /// Queues an answer that belongs to no connection: it is in the scratch buffer.
    pub(super) fn answer(&mut self, from: Name, to: Name) {
        if self.outbox.len() >= MAX_ANSWERS {
            return;
        }
        let header = PayloadHeader { kind: PayloadKind::Connection, port: 0 };
        // Whoever asked asks again.
        let each = self.scratch.len();
        let transmit = Transmit { from, to, header, is_handshake: false, each };
        self.outbox.push_back((transmit, self.scratch.clone()));
    }

    fn halve(&mut self, transmit: Transmit, datagram: &[u8]) {
        let (number, [first, second]) = self.halves.split(datagram);
        let header = PayloadHeader { kind: PayloadKind::Half, port: number };
        for half in [second, first] {
            let transmit = Transmit { header, each: half.len(), ..transmit };
            self.outbox.push_front((transmit, half));
        }
    }
}

impl Connection {
    /// What QUIC has to send; if nothing now, when its pace lets it.
    fn poll_quic(
        &mut self,
        (most, longest): (usize, usize),
        body: &mut Vec<u8>,
        now: Now,
    ) -> (Option<Transmit>, Option<Instant>) {
        let mtu = self.quic.current_mtu().into();
        // What may have to be halved comes by itself.
        let most = if mtu <= longest { most.clamp(1, LONGEST_TRAIN) } else { 1 };
        let most = most.min(self.sends_together(mtu));
        if let Some(until) = self.holds_until(now.instant) {
            return (None, Some(until));
        }
        let Some(sent) = self.quic.poll_transmit(now.instant, most, body) else {
            return (None, None);
        };
        let each = sent.segment_size.unwrap_or(body.len());
        self.sent((each, body.len()), now.instant);
        let is_handshake = body.first().is_some_and(|first| first & LONG_HEADER != 0);
        let header = PayloadHeader { kind: PayloadKind::Connection, port: 0 };
        let (from, to) = (self.local, self.peer);
        (Some(Transmit { from, to, header, is_handshake, each }), None)
    }
}

/// What QUIC takes a name for. The whole name is compared where it matters.
pub(super) fn address_of(name: &Name) -> SocketAddr {
    SocketAddr::from((name.address(), PORT))
}

/// Any but 0: names have no ports here.
const PORT: u16 = 1;
/// The bit of a QUIC packet's first byte that packets of a handshake have.
const LONG_HEADER: u8 = 0x80;
/// Payloads of a connection before the next one has its turn: with fewer, each costs more; with
/// more, hardly less.
const LONGEST_TRAIN: usize = 16;
/// Answers that wait: those to one batch.
const MAX_ANSWERS: usize = 64;

const _: () = assert!(2 * (600 + Half::HEAD_LEN) >= LEAST_DATAGRAM_LEN as usize);
