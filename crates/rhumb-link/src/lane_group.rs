//! The receiving side of a session's eight lanes, under the keys of one handshake.
//!
//! A lane is made at the first record that opens on it, so that an idle session keeps 32 bytes for each it does not use,
//! and a forged record leaves nothing behind.
//!
//! INVARIANT: a lane is in one place. Handing it to a worker takes it out of here, with its keys and its window; what is
//! left is what the worker last told of it.

use std::ops::Range;
use std::time::Instant;

use rhumb_wire::datagram::{LANES, RecordHeader, RecordKind, SessionIndex};

use crate::keys::LaneSecret;
use crate::lane::ReceiveLane;
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
}

impl LaneGroup {
    pub(crate) fn new(
        cipher: Cipher,
        secrets: [LaneSecret; LANES as usize],
        now: Instant,
    ) -> Self {
        Self { cipher, lanes: secrets.map(Place::Unused), opened_elsewhere: now }
    }

    /// A group whose lanes are all elsewhere.
    pub(crate) fn empty(cipher: Cipher, now: Instant) -> Self {
        Self { cipher, lanes: [const { Place::Elsewhere(None) }; _], opened_elsewhere: now }
    }

    /// Opens a whole datagram in place and says where its plaintext stands. After an error the bytes are garbage.
    #[inline]
    pub(crate) fn open(
        &mut self,
        header: RecordHeader,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        match self.place_mut(header.index) {
            Place::Used(lane) => lane.open(header, datagram, now),
            Place::Unused(_) => self.open_first(header, datagram, now),
            Place::Elsewhere(_) => Err(DropReason::UnknownSession),
        }
    }

    /// The first record of a lane makes it, if it opens.
    #[cold]
    fn open_first(
        &mut self,
        header: RecordHeader,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        // A close is no sign of life, the first record of a lane or not: so the lane is as old as the group.
        let (cipher, since) = (self.cipher, self.opened_elsewhere);
        let place = self.place_mut(header.index);
        let Place::Unused(secret) = std::mem::replace(place, Place::Elsewhere(None)) else {
            return Err(DropReason::UnknownSession);
        };
        let mut lane = ReceiveLane::new(cipher, secret, since);
        let opened = lane.open(header, datagram, now);
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
            Place::Unused(_) => None,
            Place::Elsewhere(newest) => *newest,
        }
    }

    /// When a record that was not a close was opened last on any lane, or the group was made.
    pub(crate) fn last_opened(&self) -> Instant {
        let here = self.lanes.iter().filter_map(|place| match place {
            Place::Used(lane) => Some(lane.last_opened),
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
