//! The receiving side of a session's eight lanes, under the keys of one handshake.
//!
//! A lane is made at the first record that opens on it, so that an idle session keeps 32 bytes for
//! each it does not use, and a forged record leaves nothing behind.
//!
//! INVARIANT: a lane is in one place. Handing it to a worker takes it out of here, with its keys
//! and its window; what is left is what the worker last told of it.

use std::ops::Range;
use std::time::Instant;

use rhumb_wire::datagram::{AEAD_TAG_LEN, LANES, RecordHeader, RecordKind, SessionIndex};

use crate::aead::PacketKey;
use crate::keys::LaneSecret;
use crate::lane::ReceiveLane;
use crate::together::Decryption;
use crate::{Cipher, DropReason};

/// The lanes that a session index and its seven neighbours mean.
pub(crate) struct LaneGroup {
    cipher: Cipher,
    lanes: [Place; LANES as usize],
    /// When the group was made, or something was opened last on a lane that is elsewhere.
    opened_elsewhere: Instant,
}

/// One of the eight.
pub(crate) enum Place {
    /// Nothing was opened on it yet.
    Unused(LaneSecret),
    /// Boxed: most sessions use one of eight.
    Used(Box<ReceiveLane>),
    /// A worker has it, or nobody; the highest packet number that was told of.
    Elsewhere(Option<u64>),
    /// A stream, and when a frame that was not a close came last on it.
    Stream(Instant),
}

impl LaneGroup {
    pub(crate) fn new(cipher: Cipher, secrets: [LaneSecret; LANES as usize], now: Instant) -> Self {
        Self { cipher, lanes: secrets.map(Place::Unused), opened_elsewhere: now }
    }

    /// A group whose lanes are all elsewhere.
    pub(crate) fn empty(cipher: Cipher, now: Instant) -> Self {
        Self { cipher, lanes: [const { Place::Elsewhere(None) }; _], opened_elsewhere: now }
    }

    /// A stream, in the place of lane 0.
    pub(crate) fn of_stream(cipher: Cipher, now: Instant) -> Self {
        let mut group = Self::empty(cipher, now);
        group.lanes[0] = Place::Stream(now);
        group
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.lanes[0], Place::Stream(_))
    }

    /// A frame that is not a close came on the stream.
    #[inline]
    pub(crate) fn note_frame(&mut self, now: Instant) {
        if let Place::Stream(last) = &mut self.lanes[0] {
            *last = now;
        }
    }

    /// Opens a whole datagram in place and says where its plaintext
    /// stands. After an error the bytes are garbage.
    #[inline]
    pub(crate) fn open(
        &mut self,
        header: &RecordHeader,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        match self.place_mut(header.index) {
            Place::Used(lane) => lane.open(*header, datagram, now),
            Place::Unused(_) => self.open_first(header, datagram, now),
            // What has no seal is no datagram's.
            Place::Elsewhere(_) | Place::Stream(_) => Err(DropReason::UnknownSession),
        }
    }

    /// As [`ReceiveLane::key_for`].
    #[inline]
    pub(crate) fn key_for(&self, header: &RecordHeader) -> Option<&PacketKey> {
        match &self.lanes[usize::from(header.index.lane())] {
            Place::Used(lane) => lane.key_for(header),
            _ => None,
        }
    }

    /// As [`LaneGroup::open`], of a datagram that may be decrypted already.
    #[inline(always)] // Called in one place of each worker, which is hot.
    pub(crate) fn open_decrypted(
        &mut self,
        header: &RecordHeader,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        match (decryption.0, self.place_mut(header.index)) {
            (None, _) => self.open(header, datagram, now),
            (Some(true), Place::Used(lane)) => {
                lane.take_decrypted(*header, now)?;
                Ok(RecordHeader::LEN..datagram.len() - AEAD_TAG_LEN)
            }
            (Some(true), _) => Err(DropReason::UnknownSession),
            (Some(false), _) => Err(DropReason::BadSeal),
        }
    }

    /// Asks for the memory that opening a record of this length needs.
    #[inline]
    pub(crate) fn read_ahead(&self, header: &RecordHeader, len: usize) {
        if let Place::Used(lane) = &self.lanes[usize::from(header.index.lane())] {
            lane.read_ahead(header.counter.packet_number(), len);
        }
    }

    /// The first record of a lane makes it, if it opens.
    #[cold]
    fn open_first(
        &mut self,
        header: &RecordHeader,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        // A close is no sign of life, the first record of a lane
        // or not: so the lane is as old as the group.
        let (cipher, since) = (self.cipher, self.opened_elsewhere);
        let place = self.place_mut(header.index);
        let Place::Unused(secret) = std::mem::replace(place, Place::Elsewhere(None)) else {
            return Err(DropReason::UnknownSession);
        };
        let mut lane = ReceiveLane::new(cipher, secret, since);
        let opened = lane.open(*header, datagram, now);
        *place = match opened {
            Ok(_) => Place::Used(Box::new(lane)),
            Err(_) => Place::Unused(lane.into_secret()),
        };
        opened
    }

    /// Whether a lane is in this group.
    pub(crate) fn has(&self, index: SessionIndex) -> bool {
        !matches!(self.lanes[usize::from(index.lane())], Place::Elsewhere(_))
    }

    /// Takes a lane out.
    pub(crate) fn take(&mut self, index: SessionIndex) -> Place {
        let newest = self.newest(index);
        std::mem::replace(self.place_mut(index), Place::Elsewhere(newest))
    }

    /// Puts a lane in.
    pub(crate) fn put(&mut self, index: SessionIndex, lane: Place) {
        *self.place_mut(index) = lane;
    }

    /// The highest packet number that was opened on a lane, as far as is known here.
    pub(crate) fn newest(&self, index: SessionIndex) -> Option<u64> {
        match &self.lanes[usize::from(index.lane())] {
            Place::Used(lane) => lane.newest(),
            Place::Unused(_) | Place::Stream(_) => None,
            Place::Elsewhere(newest) => *newest,
        }
    }

    /// When a record that was not a close was opened last on any lane, or the group was made.
    pub(crate) fn last_opened(&self) -> Instant {
        let here = self.lanes.iter().filter_map(|place| match place {
            Place::Used(lane) => Some(lane.last_opened),
            Place::Stream(last) => Some(*last),
            _ => None,
        });
        here.max().map_or(self.opened_elsewhere, |here| here.max(self.opened_elsewhere))
    }

    /// Records were opened on a lane that is elsewhere.
    pub(crate) fn note_opened(&mut self, index: SessionIndex, newest: Option<u64>, at: Instant) {
        if let Place::Elsewhere(before) = self.place_mut(index) {
            *before = newest.max(*before);
        }
        self.opened_elsewhere = self.opened_elsewhere.max(at);
    }

    /// As [`LaneGroup::note_opened`], of one record.
    pub(crate) fn note_record(&mut self, header: RecordHeader, newest: Option<u64>, at: Instant) {
        let at = if header.kind == RecordKind::Close { self.opened_elsewhere } else { at };
        self.note_opened(header.index, newest, at);
    }

    /// Wipes keys of past epochs that cannot be needed any more.
    pub(crate) fn wipe_previous(&mut self, now: Instant) {
        for place in &mut self.lanes {
            if let Place::Used(lane) = place {
                lane.wipe_previous(now);
            }
        }
    }

    #[inline]
    fn place_mut(&mut self, index: SessionIndex) -> &mut Place {
        &mut self.lanes[usize::from(index.lane())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ExportedKeys;
    use crate::lane::SendLane;
    use rhumb_wire::datagram::RECORD_OVERHEAD;

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn group() -> (LaneGroup, Instant) {
        let keys = ExportedKeys::new(&[3; 88]).unwrap();
        let now = Instant::now();
        (LaneGroup::new(Cipher::Aes256Gcm, keys.lane_secrets(true).0, now), now)
    }

    fn record(index: SessionIndex, now: Instant) -> Vec<u8> {
        let secrets = ExportedKeys::new(&[3; 88]).unwrap().lane_secrets(true).0;
        let secret = secrets.into_iter().nth(usize::from(index.lane())).unwrap();
        let mut bytes = vec![0; RECORD_OVERHEAD];
        let mut lane = SendLane::new(Cipher::Aes256Gcm, secret, index, now);
        lane.seal(RecordKind::Pdu, &mut bytes, now).unwrap();
        bytes
    }

    fn open(group: &mut LaneGroup, record: &[u8], now: Instant) -> bool {
        let header = RecordHeader::parse(record).unwrap();
        group.open(&header, &mut record.to_vec(), now).is_ok()
    }

    #[test]
    fn a_lane_is_made_by_its_first_record_and_by_no_forged_one() {
        let (mut group, now) = group();
        let used = |group: &LaneGroup| {
            group.lanes.iter().filter(|place| matches!(place, Place::Used(_))).count()
        };
        let base = SessionIndex::new(0x0123_4560).unwrap();
        for lane in 0..LANES {
            let good = record(base.with_lane(lane), now);
            let mut forged = good.clone();
            forged[RECORD_OVERHEAD - 1] ^= 1;
            for _ in 0..3 {
                assert!(!open(&mut group, &forged, now));
            }
            assert_eq!(used(&group), usize::from(lane));
            assert!(open(&mut group, &good, now) && !open(&mut group, &good, now));
            assert_eq!(used(&group), usize::from(lane) + 1);
        }
    }

    #[test]
    fn a_lane_that_was_taken_out_is_not_here() {
        let (mut group, now) = group();
        let index = SessionIndex::new(0x0123_4562).unwrap();
        let first = record(index, now);
        assert!(open(&mut group, &first, now));
        let lane = group.take(index);
        assert!(!group.has(index) && group.newest(index) == Some(0));
        assert!(!open(&mut group, &first, now));
        group.put(index, lane);
        assert!(group.has(index) && !open(&mut group, &first, now), "the window came back too");
    }

    /// What an idle session takes: two groups while it is renewed, a lane
    /// used in each, and its own lane to send on.
    #[test]
    fn an_idle_session_takes_little_memory() {
        let lane = size_of::<ReceiveLane>();
        let group = size_of::<LaneGroup>() + 128;
        let session = size_of::<crate::session::Session>();
        let (usual, renewed) = (session + group + lane, session + 2 * (group + lane));
        assert!(usual < 5_000 && renewed < 10_000, "{usual} {renewed}");
    }
}
