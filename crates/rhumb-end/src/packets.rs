//! Packets in blocks, as they are handed over, and those that wait to leave on a connection.

use std::collections::VecDeque;

/// Packets that are handed over together, one behind the other in one buffer.
#[derive(Debug, Default, Clone)]
pub struct Packets {
    /// Those that are there, and behind them what earlier ones left, which is written over.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// How many have left.
    gone: usize,
}

impl Packets {
    /// Appends a packet, made of parts. It is not empty, since none is.
    pub fn push(&mut self, parts: &[&[u8]]) {
        let before = self.end();
        self.bytes.truncate(before);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        if self.bytes.len() > before {
            self.ends.push(self.bytes.len());
        }
    }

    /// Appends a packet that is put into `most` bytes of room, which hold anything before, by who
    /// says how long it is. After an error nothing is appended, and an empty one is none.
    pub(crate) fn push_by<E>(
        &mut self,
        most: usize,
        put: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let begin = self.end();
        // Only what nobody wrote before is filled up.
        self.bytes.resize(self.bytes.len().max(begin + most), 0);
        let len = put(&mut self.bytes[begin..begin + most])?;
        if len > 0 {
            self.ends.push(begin + len.min(most));
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.gone == self.ends.len()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len() - self.gone
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.end() - self.begin()
    }

    /// Bytes of memory, used or not.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(self.begin()).chain(self.ends[self.gone..].iter().copied());
        begins.zip(&self.ends[self.gone..]).map(|(begin, end)| &self.bytes[begin..*end])
    }

    /// Forgets them, and keeps the memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.gone = 0;
    }

    fn begin(&self) -> usize {
        self.gone.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn front(&self) -> Option<&[u8]> {
        let end = *self.ends.get(self.gone)?;
        Some(&self.bytes[self.begin()..end])
    }
}

impl PartialEq for Packets {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Packets {}

/// What waits to leave on one connection.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    blocks: VecDeque<Packets>,
    bytes: usize,
    /// Somebody found no room.
    is_awaited: bool,
    /// A block that is used up: its memory is for the next one.
    spare: Packets,
    /// Whether packets go before what QUIC has; they take turns.
    have_turn: bool,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether it is their turn, which the next one is not.
    pub(crate) fn take_turn(&mut self) -> bool {
        self.have_turn = !self.have_turn;
        self.have_turn && !self.is_empty()
    }

    /// Takes a block if there is room, and leaves an empty one in its place.
    pub(crate) fn take(&mut self, packets: &mut Packets) -> bool {
        if self.bytes > 0 && self.bytes + packets.bytes() > MOST_WAITING {
            self.is_awaited = true;
            return false;
        }
        if !packets.is_empty() {
            self.bytes += packets.bytes();
            let spare = std::mem::take(&mut self.spare);
            self.blocks.push_back(std::mem::replace(packets, spare));
        }
        true
    }

    /// Whether somebody who found no room is to be told that there is some, now and not again.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let has_room = self.is_awaited && self.bytes <= MOST_WAITING / 2;
        if has_room {
            self.is_awaited = false;
        }
        has_room
    }

    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.blocks.front().and_then(Packets::front)
    }

    pub(crate) fn pop(&mut self) {
        let Some(block) = self.blocks.front_mut() else { return };
        self.bytes -= block.front().map_or(0, <[u8]>::len);
        block.gone += 1;
        if block.is_empty()
            && let Some(mut block) = self.blocks.pop_front()
        {
            block.clear();
            self.spare = block;
        }
    }
}

/// Bytes that wait on a connection: some milliseconds of a fast one. Who has more waits, and drops
/// what does not want to.
const MOST_WAITING: usize = 512 << 10;
