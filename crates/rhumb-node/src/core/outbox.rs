//! PDUs on their way into datagrams: small ones that leave in one go share one, where the router
//! takes bundles (`docs/spec.md`, section 4.8).
//!
//! What waits for others waits here, unsealed, until [`Outbox::flush`], which whoever fills a batch
//! calls before it is sent. What cannot join goes out behind what waits, so the order is kept.

use std::time::Instant;

use rhumb_link::{Endpoint, SessionId};
use rhumb_wire::Batch;
use rhumb_wire::bundle::{LENGTH_LEN, MAX_BUNDLED, MAX_PDUS};
use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader};

use super::{DropReason, Drops};

#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Whom what waits is for.
    session: Option<SessionId>,
    /// A bundle.
    waiting: Vec<u8>,
    pdus: usize,
}

impl Outbox {
    /// Takes the PDU of these parts, for `session`: appends the datagram that carries it, or has it
    /// wait for others. Whether it is on its way.
    pub(super) fn push<const N: usize>(
        &mut self,
        (endpoint, drops): (&mut Endpoint, &mut Drops),
        session: SessionId,
        parts: [&[u8]; N],
        out: &mut Batch,
        now: Instant,
    ) -> bool {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let is_small = len + RECORD_OVERHEAD <= MAX_BUNDLED;
        let room = is_small.then(|| endpoint.bundle_room(session)).flatten().unwrap_or(0);
        let takes = RECORD_OVERHEAD + LENGTH_LEN + len;
        let is_full = self.waiting.len() + takes > room || self.pdus == MAX_PDUS;
        if self.pdus > 0 && (is_full || self.session != Some(session)) {
            self.flush((endpoint, drops), out, now);
        }
        if takes > room {
            return seal((endpoint, drops), session, &parts, 1, out, now);
        }
        self.session = Some(session);
        self.waiting.extend_from_slice(&(len as u16).to_be_bytes());
        parts.iter().for_each(|part| self.waiting.extend_from_slice(part));
        self.pdus += 1;
        true
    }

    /// Appends the datagram of what waits.
    pub(super) fn flush(
        &mut self,
        (endpoint, drops): (&mut Endpoint, &mut Drops),
        out: &mut Batch,
        now: Instant,
    ) {
        let Some(session) = self.session.take() else { return };
        let bytes = match self.pdus {
            1 => &self.waiting[LENGTH_LEN..],
            _ => &self.waiting[..],
        };
        seal((endpoint, drops), session, &[bytes], self.pdus, out, now);
        self.waiting.clear();
        self.pdus = 0;
    }
}

/// Appends the datagram that carries these parts of a PDU, or of a bundle of several; says whether
/// it did.
fn seal(
    (endpoint, drops): (&mut Endpoint, &mut Drops),
    session: SessionId,
    parts: &[&[u8]],
    pdus: usize,
    out: &mut Batch,
    now: Instant,
) -> bool {
    let not_sealed = |drops: &mut Drops| (0..pdus).for_each(|_| drops.count(DropReason::NotSealed));
    let Some(address) = endpoint.peer(session).map(|peer| peer.address) else {
        not_sealed(drops);
        return false;
    };
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let datagram = out.push_with(address, len + RECORD_OVERHEAD);
    let mut at = RecordHeader::LEN;
    for part in parts {
        datagram[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let sealed = match pdus {
        1 => endpoint.seal(session, datagram, now).is_ok(),
        _ => endpoint.seal_bundle(session, datagram, now).is_ok(),
    };
    if !sealed {
        out.drop_datagram(out.len() - 1);
        not_sealed(drops);
    }
    sealed
}
