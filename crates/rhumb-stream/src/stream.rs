//! A stream that carries frames: a socket, its TLS, and what has not come or gone whole.
//!
//! Reading, with room that all streams share: 1. what was left of the last record, and what the
//! system has, up to [`READ_LEN`]; 2. records are opened, frames split off and handed over; 3. what
//! is left is kept, less than a record and less than a frame.
//!
//! Writing: 1. frames gather; 2. they are sealed together, in records as large as may be, and
//! written; 3. what the system does not take is kept, up to [`MAX_BACKLOG`], and while that is
//! there frames are dropped, as by a queue of UDP that is full.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rhumb_wire::stream::StreamFrame;

use crate::counters::StreamCounters;
use crate::protected::{Life, Protected};
use crate::record::{Fault, MOST_RECORD_LEN, Outgoing};

/// A connection on which both ends have said their parameters.
pub(crate) struct Stream {
    pub(crate) socket: TcpStream,
    /// In batches.
    pub(crate) address: SocketAddr,
    tls: Box<Protected>,
    /// The longest PDU that we take.
    most: usize,
    /// The beginning of a TLS record.
    record: Vec<u8>,
    /// The beginning of a frame.
    frame: Vec<u8>,
    /// Frames that go with the next records.
    gathered: Outgoing,
    /// Sealed, and not taken by the system yet.
    backlog: Vec<u8>,
    /// Whether the poller was asked to say when it takes more.
    pub(crate) is_waiting: bool,
}

/// Room that the streams of a thread share.
#[derive(Default)]
pub(crate) struct Room {
    incoming: Vec<u8>,
    /// For frames to gather in.
    spare: Vec<Vec<u8>>,
}

/// Why a stream is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The peer, or somebody on the way, has closed it, with or without a word.
    Closed,
    /// What came is nothing that a peer says.
    Malformed,
}

impl Stream {
    /// `record` and `data` have come already: sealed, and opened. `unsent` has to go first.
    pub(crate) fn new(
        socket: TcpStream,
        address: SocketAddr,
        tls: Box<Protected>,
        most: usize,
        (record, data): (Vec<u8>, Vec<u8>),
        unsent: Vec<u8>,
    ) -> Self {
        let (frame, backlog, gathered) = (data, unsent, Outgoing::default());
        Self { socket, address, tls, most, record, frame, gathered, backlog, is_waiting: false }
    }

    /// Reads what there is, up to a bound, and hands frames to `take`. Returns whether the system
    /// may have more.
    pub(crate) fn read(
        &mut self,
        room: &mut Room,
        counters: &mut StreamCounters,
        take: &mut dyn FnMut(StreamFrame<'_>),
    ) -> Result<bool, Lost> {
        let kept = self.record.len();
        let len = kept + READ_LEN;
        if room.incoming.len() < len {
            room.incoming.resize(len, 0);
        }
        counters.receive_calls += 1;
        let read = match self.socket.read(&mut room.incoming[kept..len]) {
            Ok(0) => return Err(Lost::Closed),
            Ok(read) => read,
            Err(error) if is_for_later(&error) => return Ok(false),
            Err(_) => return Err(Lost::Closed),
        };
        counters.received_bytes += read as u64;
        room.incoming[..kept].copy_from_slice(&self.record);
        self.record.clear();
        self.open(&mut room.incoming[..kept + read], counters, take)?;
        Ok(read == READ_LEN)
    }

    /// Hands over the frames that came with the handshake.
    pub(crate) fn begin(
        &mut self,
        counters: &mut StreamCounters,
        take: &mut dyn FnMut(StreamFrame<'_>),
    ) -> Result<(), Lost> {
        let early = std::mem::take(&mut self.frame);
        split(&early, &mut self.frame, self.most, counters, take)?;
        let mut record = std::mem::take(&mut self.record);
        self.open(&mut record, counters, take)
    }

    /// Opens records, and keeps what is left of them.
    fn open(
        &mut self,
        incoming: &mut [u8],
        counters: &mut StreamCounters,
        take: &mut dyn FnMut(StreamFrame<'_>),
    ) -> Result<(), Lost> {
        let Self { tls, most, frame, .. } = self;
        let mut result = Ok(());
        let mut data = |data: &[u8]| {
            if result.is_ok() {
                result = complete(data, frame, *most, counters, take)
                    .and_then(|rest| split(rest, frame, *most, counters, take));
            }
        };
        let (taken, state) = tls.open(incoming, &mut data);
        result?;
        let left = &incoming[taken..];
        match state {
            Ok(Life::Open) if left.len() < MOST_RECORD_LEN => {
                self.record.extend_from_slice(left);
                Ok(())
            }
            Ok(Life::Closed) => Err(Lost::Closed),
            Err(fault) => {
                self.say(fault, counters);
                Err(Lost::Malformed)
            }
            Ok(_) => Err(Lost::Malformed),
        }
    }

    /// Tells the peer what it did wrong, unless it does not take what we say anyway.
    fn say(&mut self, fault: Fault, counters: &mut StreamCounters) {
        if self.backlog.is_empty() {
            let mut alert = Vec::new();
            self.tls.say(fault, &mut alert);
            // Whether it is heard is the peer's affair.
            let _ = write_some(&mut self.socket, &alert, counters);
        }
    }

    /// Takes a frame for the next records; whether there was room.
    #[inline]
    pub(crate) fn gather(&mut self, frame: StreamFrame<'_>, room: &mut Room) -> bool {
        let has_room = self.backlog.len() + self.gathered.len() < MAX_BACKLOG;
        if has_room && let Some((header, pdu)) = frame.parts() {
            if self.gathered.is_empty() {
                self.gathered = Outgoing::reusing(room.spare.pop().unwrap_or_default());
            }
            self.gathered.append(&header);
            self.gathered.append(pdu);
        }
        has_room
    }

    /// Seals what was gathered and writes what the system takes. Whether it has taken all.
    pub(crate) fn write(
        &mut self,
        room: &mut Room,
        counters: &mut StreamCounters,
    ) -> Result<bool, Lost> {
        let mut sealed = Vec::new();
        if !self.gathered.is_empty() {
            let gathered = std::mem::take(&mut self.gathered);
            self.tls.renew_if_due(&mut self.backlog).map_err(|_| Lost::Closed)?;
            sealed = self.tls.seal(gathered).map_err(|_| Lost::Closed)?;
        }
        // What waits goes first. Most of the time there is nothing.
        if !self.backlog.is_empty() {
            let written = write_some(&mut self.socket, &self.backlog, counters)?;
            self.backlog.drain(..written);
        }
        let mut written = 0;
        if self.backlog.is_empty() {
            self.backlog = Vec::new();
            written = write_some(&mut self.socket, &sealed, counters)?;
        }
        self.backlog.extend_from_slice(&sealed[written..]);
        if sealed.capacity() > 0 && room.spare.len() < MAX_SPARE {
            room.spare.push(sealed);
        }
        Ok(self.backlog.is_empty())
    }

    /// Says the last words, if the system takes them now, and closes.
    pub(crate) fn close(mut self, room: &mut Room, counters: &mut StreamCounters) {
        if let Ok(true) = self.write(room, counters) {
            let mut words = Vec::new();
            self.tls.close(&mut words);
            // Whether they are heard is the peer's affair.
            let _ = write_some(&mut self.socket, &words, counters);
        }
    }

    /// Whether something waits for the system to take it.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }
}

/// Completes the frame whose beginning was kept, hands it over if it is whole, and returns what of
/// `data` is behind it. A record of frames is not copied for one that it began with half of.
fn complete<'a>(
    data: &'a [u8],
    begun: &mut Vec<u8>,
    most: usize,
    counters: &mut StreamCounters,
    take: &mut dyn FnMut(StreamFrame<'_>),
) -> Result<&'a [u8], Lost> {
    let mut rest = data;
    while !begun.is_empty() && !rest.is_empty() {
        let missing = match begun[..] {
            [high, low, _, ..] => {
                let len = StreamFrame::LENGTH_LEN + usize::from(u16::from_be_bytes([high, low]));
                len.saturating_sub(begun.len())
            }
            _ => StreamFrame::HEADER_LEN - begun.len(),
        };
        let (of_it, behind) = rest.split_at(missing.min(rest.len()));
        begun.extend_from_slice(of_it);
        rest = behind;
        let whole = std::mem::take(begun);
        split(&whole, begun, most, counters, take)?;
    }
    Ok(rest)
}

/// Hands over whole frames of `data`, and keeps the beginning of one in `rest`.
fn split(
    data: &[u8],
    rest: &mut Vec<u8>,
    most: usize,
    counters: &mut StreamCounters,
    take: &mut dyn FnMut(StreamFrame<'_>),
) -> Result<(), Lost> {
    let mut at = 0;
    loop {
        match StreamFrame::split(&data[at..], most) {
            Ok(Some((frame, len))) => {
                take(frame);
                counters.received_frames += 1;
                at += len;
            }
            Ok(None) => {
                rest.extend_from_slice(&data[at..]);
                return Ok(());
            }
            Err(_) => return Err(Lost::Malformed),
        }
    }
}

/// Writes as much as the system takes.
fn write_some(
    socket: &mut TcpStream,
    bytes: &[u8],
    counters: &mut StreamCounters,
) -> Result<usize, Lost> {
    let mut written = 0;
    while written < bytes.len() {
        counters.send_calls += 1;
        match socket.write(&bytes[written..]) {
            Ok(0) => return Err(Lost::Closed),
            Ok(len) => written += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_for_later(&error) => break,
            Err(_) => return Err(Lost::Closed),
        }
    }
    counters.sent_bytes += written as u64;
    Ok(written)
}

/// Whether the system has nothing for us, or takes nothing, for now.
pub(crate) fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What may wait for a peer that does not read: 200 ms at 10 Mbit/s. What is kept longer is of no
/// use to anybody, and whoever sends hears of a narrow way only by what is dropped.
pub const MAX_BACKLOG: usize = 256 << 10;
/// What is read at once: four records.
const READ_LEN: usize = 64 << 10;
/// Buffers that are kept for frames to gather in: a batch seldom goes to more streams.
const MAX_SPARE: usize = 16;
