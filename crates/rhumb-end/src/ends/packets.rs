//! Packets: what has congestion control and repetition of its own, as IP packets of programs have,
//! and needs neither from QUIC. They travel as records, sealed with keys that are exported from the
//! connection, without acknowledgement; they are dropped where there is no room, as on any way.
//!
//! 1. [`Ends::send_packets`] takes a block of them into the queue of a connection.
//! 2. [`Ends::poll_train`] seals some of one length together (`train`).
//! 3. [`Ends::handle_records`] opens records, and hands their packets on in blocks if [`PACKETS`]
//!    is offered to who sent them.
//!
//! INVARIANT: there are records only between ends that have both said, in the handshake which
//! proved their names, that they understand them; all others have datagrams, as before.

use std::time::Instant;

use quinn_proto::Side;
use quinn_proto::crypto::rustls::HandshakeData;
use rhumb_link::Records;
use rhumb_trust::Now;
use rhumb_wire::Name;
use rhumb_wire::datagram::RecordHeader;
use zeroize::Zeroize as _;

use super::{ConnectionId, Ends};
use crate::connection::Connection;
use crate::credentials::PACKETS_TOO;
use crate::offers::Verdict;
use crate::packets::{Packets, Waiting};
use crate::{Carries, DatagramError, DropReason};

/// The port that packets are for: the protocol number of packets in packets.
pub const PACKETS: u16 = 41;

impl Ends {
    /// The longest packet that leaves in one piece now; `None` when the peer takes no packets, or
    /// the connection is over.
    pub fn max_packet_len(&mut self, id: ConnectionId) -> Option<usize> {
        let connection = self.open_connection(id).ok()?;
        connection.records.as_ref()?;
        let mtu = usize::from(connection.quic.current_mtu());
        Some(mtu.min(connection.longest).saturating_sub(Records::OVERHEAD))
    }

    /// Queues a block of packets if there is room, and leaves an empty one in its place; says
    /// whether there was. If not, [`Event::MaySend`](super::Event::MaySend) tells when there is.
    /// What has become too long for the path since [`Ends::max_packet_len`] said so is lost.
    ///
    /// # Errors
    /// When the connection is over, or its peer takes none.
    pub fn send_packets(
        &mut self,
        id: ConnectionId,
        packets: &mut Packets,
        now: Now,
    ) -> Result<bool, DatagramError> {
        let connection = self.open_connection(id)?;
        connection.records.as_ref().ok_or(DatagramError::NotTaken)?;
        let is_new = !packets.is_empty();
        let has_room = connection.waiting.take(packets);
        if is_new && has_room {
            connection.used_at = now.instant;
            self.make_ready(id);
        }
        Ok(has_room)
    }

    /// As [`Ends::handle`], of records that came one behind the other.
    pub fn handle_records<'a>(
        &mut self,
        from: Name,
        to: Name,
        bodies: impl IntoIterator<Item = &'a [u8]>,
        now: Now,
    ) -> Option<ConnectionId> {
        self.clock.set(now);
        let mut latest = None;
        for body in bodies {
            match self.handle_record(from, to, body, now) {
                Ok(id) => latest = id,
                Err(reason) => self.drops.count(reason),
            }
        }
        latest
    }

    /// Takes a record that `from` sent to `to`, by the word of routers.
    pub(super) fn handle_record(
        &mut self,
        from: Name,
        to: Name,
        body: &[u8],
        now: Now,
    ) -> Result<Option<ConnectionId>, DropReason> {
        let header = RecordHeader::parse(body).map_err(|_| DropReason::Malformed)?;
        let id = self.id_of_record((from, to), &header).ok_or(DropReason::UnknownRecord)?;
        self.latest_with_record = id;
        let as_member = match self.verdict((Carries::Datagrams, PACKETS), id, now) {
            Verdict::Chosen { as_member } => Some(as_member),
            Verdict::Open => Some(false),
            Verdict::Closed | Verdict::NotAllowed => None,
        };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(None) };
        if !self.shares.has_left(&connection.spent, connection.origin.is_stranger()) {
            return Err(DropReason::OverShare);
        }
        let Some(records) = &mut connection.records else { return Ok(None) };
        let most = body.len().saturating_sub(Records::OVERHEAD);
        let open = |plaintext: &mut [u8]| {
            records.open(header, &body[RecordHeader::LEN..], plaintext, now.instant)
        };
        let opened = match as_member {
            Some(as_member) => self.arrived.push_by((id, as_member), most, open, &mut self.events),
            None => self.arrived.open_in_vain(most, open),
        };
        if opened.is_ok() {
            connection.used_at = now.instant;
        }
        // Whoever sent what did not open has had this end try.
        self.drops.count(match opened {
            Ok(()) if as_member.is_none() => DropReason::DatagramNotOffered,
            // No packet is empty.
            Ok(()) if most == 0 => DropReason::Malformed,
            Ok(()) => return Ok(Some(id)),
            Err(rhumb_link::DropReason::Replayed | rhumb_link::DropReason::TooOld) => {
                DropReason::RepeatedRecord
            }
            Err(_) => DropReason::UnknownRecord,
        });
        Ok(Some(id))
    }

    /// Lends blocks of packets that were handed out, for those to come: as many as a batch has use
    /// for.
    pub fn lend(&mut self, blocks: impl IntoIterator<Item = Packets>) {
        self.arrived.lend(blocks);
    }

    /// The connection between two names whose keys a record is of. Most are of the same as the one
    /// before, which is found without a look at the names of all.
    fn id_of_record(&self, names: (Name, Name), header: &RecordHeader) -> Option<ConnectionId> {
        let is_of = |id: &&ConnectionId| {
            let of_names = self.connections.get(*id).filter(|it| (it.peer, it.local) == names);
            let records = of_names.and_then(|it| it.records.as_ref());
            records.is_some_and(|records| records.are_of(header))
        };
        let (from, to) = names;
        let all = || self.by_names.get(&(to, from))?.iter().rev().find(is_of);
        Some(&self.latest_with_record).filter(is_of).or_else(all).copied()
    }
}

impl Connection {
    /// The peer has proven its name: packets go as records if both said that they understand them.
    pub(super) fn begin_records(&mut self, now: Instant) {
        let data = self.quic.crypto_session().handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        if data.and_then(|data| data.protocol).as_deref() != Some(PACKETS_TOO) {
            return;
        }
        let mut export = [0; Records::EXPORT_LEN];
        let session = self.quic.crypto_session();
        if session.export_keying_material(&mut export, EXPORT_LABEL, &[]).is_ok() {
            self.records = Records::new(&export, self.side() == Side::Client, now);
        }
        export.zeroize();
    }

    /// Seals packets of one length, `most` at most, one behind the other, the last perhaps shorter.
    /// Says how long each record is; `None` when none is there. Counts what is too long.
    pub(super) fn train(
        &mut self,
        (most, longest): (usize, usize),
        body: &mut Vec<u8>,
        now: Instant,
    ) -> (Option<usize>, u64) {
        let mut too_long = 0;
        let mut each = None;
        for _ in 0..most.max(1) {
            let Some(records) = &mut self.records else { break };
            let packet = loop {
                match self.waiting.front() {
                    Some(packet) if packet.len() + Records::OVERHEAD > longest => {
                        self.waiting.pop();
                        too_long += 1;
                    }
                    packet => break packet,
                }
            };
            let Some(packet) = packet else { break };
            let len = packet.len() + Records::OVERHEAD;
            if each.is_some_and(|each| len > each) {
                break;
            }
            let begin = body.len();
            body.extend_from_slice(&[0; RecordHeader::LEN]);
            body.extend_from_slice(packet);
            body.resize(begin + len, 0);
            self.waiting.pop();
            if records.seal(&mut body[begin..], now).is_err() {
                // All counters were used, after months: QUIC goes on alone.
                body.truncate(begin);
                (self.records, self.waiting) = (None, Waiting::default());
                break;
            }
            if len < *each.get_or_insert(len) {
                break;
            }
        }
        (each, too_long)
    }
}

/// For TLS (RFC 8446, section 7.5), of the connection.
const EXPORT_LABEL: &[u8] = b"EXPORTER-rhumb-packets";
