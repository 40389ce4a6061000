//! Runs of TCP segments that travel as a whole: what the stack hands over under one header goes in
//! parts, of which the first and the last have the headers, and comes to the stack of the other end
//! under one header again.
//!
//! 1. [`cut`] makes the parts of a run.
//! 2. [`Part::parse`] reads one.
//! 3. [`Arriving::part`] says what of the run it is, once the headers have come: a [`Piece`].
//! 4. [`Joining`] puts pieces together that follow each other.
//!
//! Nothing waits for what is missing: each part whose headers are known goes on with whatever
//! follows it, as segments with their own place in the connection, and the stack asks for the rest.
//! Only parts that came before the headers wait, few of them, and not for long.
//!
//! INVARIANT: a piece has the bytes that the run's sender put at its place: what is known of a
//! number is forgotten long before another run has it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_end::Packets;
use rhumb_io::ip::RunHead;

use super::Arrived;

/// What a part says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part<'a> {
    number: u16,
    /// Where in the payload of the run its bytes stand.
    offset: u16,
    headers: Option<Headers>,
    bytes: &'a [u8],
}

/// What a run's first and last part say of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Headers {
    head: RunHead,
    segment_len: u16,
    /// Bytes of payload.
    total: u16,
}

/// Bytes of a run, at their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<'a> {
    of: Arc<Headers>,
    offset: usize,
    bytes: Cow<'a, [u8]>,
}

/// Pieces that follow each other.
#[derive(Debug)]
pub struct Joined<'a> {
    of: Arc<Headers>,
    offset: usize,
    end: usize,
    parts: Vec<Cow<'a, [u8]>>,
}

/// The runs of one peer that are arriving.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    known: VecDeque<Known>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Known {
    number: u16,
    headers: Arc<Headers>,
    since: Instant,
}

#[derive(Debug)]
struct Waiting {
    number: u16,
    offset: u16,
    bytes: Vec<u8>,
    since: Instant,
}

/// Whether a datagram is a part of a run.
pub(super) fn is_part(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(&(LATER | WITH_HEADERS)))
}

/// Appends the parts of run `number`, none longer than `longest`, to the packets that leave. Says
/// no when there is no room for headers.
pub fn cut(
    (packet, head, segment_len): (&[u8], &RunHead, usize),
    number: u16,
    longest: usize,
    packets: &mut Packets,
) -> bool {
    let payload = packet.get(head.bytes().len()..).unwrap_or_default();
    let with_headers = LATER_LEN + HEADERS_LEN + head.bytes().len();
    let lens = (u16::try_from(segment_len), u16::try_from(payload.len()));
    let (Ok(segment_len), Ok(total)) = lens else { return false };
    if longest <= with_headers {
        return false;
    }
    let mut offset = 0;
    while offset < payload.len() {
        let left = payload.len() - offset;
        let [number_high, number_low] = number.to_be_bytes();
        let [offset_high, offset_low] = (offset as u16).to_be_bytes();
        let place = [number_high, number_low, offset_high, offset_low];
        // Those of the last part make up for those of the first, if that is lost; where they would
        // take one more datagram they do not go.
        let has_headers = offset == 0 || left + with_headers <= longest;
        let taken = if has_headers {
            let taken = left.min(longest - with_headers);
            let [a, b] = segment_len.to_be_bytes();
            let [c, d] = total.to_be_bytes();
            let bytes = &payload[offset..offset + taken];
            packets.push(&[&[WITH_HEADERS], &place, &[a, b, c, d], head.bytes(), bytes]);
            taken
        } else {
            let taken = left.min(longest - LATER_LEN);
            packets.push(&[&[LATER], &place, &payload[offset..offset + taken]]);
            taken
        };
        offset += taken;
    }
    true
}

impl<'a> Part<'a> {
    /// Reads a part; `None` when it is none.
    pub(super) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (&[kind, a, b, c, d], rest) = datagram.split_first_chunk()?;
        let (number, offset) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (headers, bytes) = match kind {
            LATER => (None, rest),
            WITH_HEADERS => {
                let (&[a, b, c, d], rest) = rest.split_first_chunk()?;
                let (segment_len, total) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                let head = RunHead::parse(rest)?;
                let (said, bytes) = rest.split_at_checked(head.bytes().len())?;
                // Lengths and checksums are not said: they are of each piece.
                let is_sound = said == head.bytes()
                    && segment_len > 0
                    && said.len() + usize::from(total) <= LONGEST_PACKET
                    && usize::from(offset) + bytes.len() <= usize::from(total);
                is_sound.then_some((Some(Headers { head, segment_len, total }), bytes))?
            }
            _ => return None,
        };
        let is_sound = !bytes.is_empty() && usize::from(offset) + bytes.len() <= LONGEST_PACKET;
        is_sound.then_some(Self { number, offset, headers, bytes })
    }
}

impl Arriving {
    /// Takes a part, and appends the pieces that go on: of parts that waited for headers, too. An
    /// error says that it makes no sense, or that another one gave way.
    pub(super) fn part<'a>(
        &mut self,
        part: Part<'a>,
        now: Instant,
        pieces: &mut Vec<Arrived<'a>>,
    ) -> Result<(), PartTrouble> {
        if let Some(headers) = part.headers {
            self.forget(part.number, now);
            return self.learn((part.number, part.offset), headers, part.bytes, now, pieces);
        }
        // Most are of the run whose headers came last; what is far behind those was forgotten then.
        let known = self.known.iter().rfind(|it| it.number == part.number);
        if let Some(known) = known.filter(|it| now < it.since + LIVES_FOR) {
            let of = Arc::clone(&known.headers);
            let piece = Piece::new(of, part.offset, Cow::Borrowed(part.bytes));
            pieces.push(Arrived::Piece(piece.ok_or(PartTrouble::Malformed)?));
            return Ok(());
        }
        self.forget(part.number, now);
        let gives_way = self.waiting.len() >= MOST_WAITING;
        if gives_way {
            self.waiting.pop_front();
        }
        let Part { number, offset, bytes, .. } = part;
        self.waiting.push_back(Waiting { number, offset, bytes: bytes.to_vec(), since: now });
        if gives_way { Err(PartTrouble::GaveWay) } else { Ok(()) }
    }

    /// Headers came.
    fn learn<'a>(
        &mut self,
        (number, offset): (u16, u16),
        headers: Headers,
        bytes: &'a [u8],
        now: Instant,
        pieces: &mut Vec<Arrived<'a>>,
    ) -> Result<(), PartTrouble> {
        let known = self.known.iter().rfind(|it| it.number == number);
        let of = match known {
            Some(known) if *known.headers == headers => Arc::clone(&known.headers),
            // Another run under the same number: its sender is not one of ours.
            Some(_) => return Err(PartTrouble::Malformed),
            None => {
                let headers = Arc::new(headers);
                if self.known.len() >= MOST_KNOWN {
                    self.known.pop_front();
                }
                let known = Known { number, headers: Arc::clone(&headers), since: now };
                self.known.push_back(known);
                headers
            }
        };
        let mut sound = true;
        let mut of_run = Vec::new();
        self.waiting.retain_mut(|it| {
            let is_of_it = it.number == number;
            if is_of_it {
                let bytes = Cow::Owned(std::mem::take(&mut it.bytes));
                let piece = Piece::new(Arc::clone(&of), it.offset, bytes);
                sound &= piece.is_some();
                of_run.extend(piece);
            }
            !is_of_it
        });
        of_run.extend(Piece::new(of, offset, Cow::Borrowed(bytes)));
        of_run.sort_by_key(|piece| piece.offset);
        pieces.extend(of_run.into_iter().map(Arrived::Piece));
        if sound { Ok(()) } else { Err(PartTrouble::Malformed) }
    }

    /// Forgets what is too old, by time and by number: of a run that is this far behind nothing
    /// comes any more, and its number comes again.
    fn forget(&mut self, newest: u16, now: Instant) {
        let is_young = |number: u16, since: Instant| {
            let behind = newest.wrapping_sub(number);
            let is_near = !(MOST_BEHIND..=u16::MAX - MOST_BEHIND).contains(&behind);
            now < since + LIVES_FOR && is_near
        };
        self.known.retain(|it| is_young(it.number, it.since));
        self.waiting.retain(|it| is_young(it.number, it.since));
    }
}

/// Why a part did not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartTrouble {
    Malformed,
    /// An older one gave way to it.
    GaveWay,
}

impl<'a> Piece<'a> {
    fn new(of: Arc<Headers>, offset: u16, bytes: Cow<'a, [u8]>) -> Option<Self> {
        let offset = usize::from(offset);
        let fits = offset + bytes.len() <= usize::from(of.total);
        fits.then_some(Self { of, offset, bytes })
    }

    /// The headers of the run.
    pub fn head(&self) -> &RunHead {
        &self.of.head
    }

    /// How many bytes of payload it has.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none, which no piece has.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl<'a> Joined<'a> {
    /// Begins with a piece.
    pub fn new(piece: Piece<'a>) -> Self {
        let Piece { of, offset, bytes } = piece;
        Self { of, offset, end: offset + bytes.len(), parts: vec![bytes] }
    }

    /// Appends a piece of the same run that follows.
    ///
    /// # Errors
    /// The piece, when it does not.
    pub fn join(&mut self, piece: Piece<'a>) -> Result<(), Piece<'a>> {
        if !Arc::ptr_eq(&self.of, &piece.of) || piece.offset != self.end {
            return Err(piece);
        }
        self.end += piece.bytes.len();
        self.parts.push(piece.bytes);
        Ok(())
    }

    /// The headers of what was joined, but for lengths and checksums.
    pub fn head(&self) -> RunHead {
        let is_end = self.end == usize::from(self.of.total);
        self.of.head.piece(self.offset, self.segment_len(), is_end)
    }

    /// Bytes of payload in each segment but the last.
    pub fn segment_len(&self) -> usize {
        usize::from(self.of.segment_len)
    }

    /// The payload, in order.
    pub fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|part| &**part)
    }
}

/// The first byte of a part that has no headers, and of one that has.
const LATER: u8 = 2;
const WITH_HEADERS: u8 = 3;
/// That byte, the number of the run, and the offset.
const LATER_LEN: usize = 5;
/// The length of segments, and of the payload; the headers follow.
const HEADERS_LEN: usize = 4;
const LONGEST_PACKET: usize = 65_535;
/// Runs of a peer whose headers are remembered: several of its connections send at once.
const MOST_KNOWN: usize = 16;
/// Parts that may wait for headers: what a router may have put in front of them.
const MOST_WAITING: usize = 16;
/// As long as halves wait.
const LIVES_FOR: Duration = Duration::from_millis(500);
/// Runs by which one may be behind another one: a number comes again after 65,536.
const MOST_BEHIND: u16 = 1024;

#[cfg(test)]
mod tests;
