//! A batch of IP packets, each in a cell of its own with free bytes in front: what comes in, is
//! edited in place, and goes out.
//!
//! Packet `i` stands somewhere in cell `i`: it may grow to the front, and its end may move. Dropped
//! packets leave an empty place, so numbers stay as they are. One batch is reused for ever; once it
//! has its working size, nothing is allocated.

use std::ops::Range;

/// Bytes free in front of each packet received: the longest header that Platypus puts before one
/// (four capabilities with three levels each over IPv6, and an outer header), rounded up.
pub const HEADROOM: usize = 512;

/// What became of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It has not been sent, or it was dropped by the caller.
    #[default]
    Unsent,
    /// It was handed over for transmission.
    Sent,
    /// Dropped: queues stayed full for as long as it was worth waiting.
    Busy,
    /// Dropped: it is larger than the way to its destination takes, and may not be cut.
    /// [`Paths`](super::Paths) knows how large it may be.
    TooBig,
    /// Dropped: there is no way to its destination, or it is no packet.
    Unreachable,
}

/// IP packets that travel through a pipeline together.
#[derive(Debug)]
pub struct IpBatch {
    cells: Vec<u8>,
    cell_len: usize,
    packet_len: usize,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    start: usize,
    len: usize,
    fate: Fate,
}

impl IpBatch {
    /// An empty batch for packets of up to `packet_len` bytes as they are received; larger ones are
    /// dropped and counted. They may grow by [`HEADROOM`] after that.
    pub fn new(packet_len: usize) -> Self {
        // An odd number of cache lines: the first lines of all packets do
        // not fall on the same few sets of the cache.
        let cell_len = (HEADROOM + packet_len).next_multiple_of(64) | 64;
        Self { cells: Vec::new(), cell_len, packet_len, slots: Vec::new() }
    }

    /// Bytes of the largest packet that can be received.
    pub fn packet_len(&self) -> usize {
        self.packet_len
    }

    /// Forgets all packets; keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Packets, dropped ones included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no packets at all.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Packet `index`; empty when it was dropped.
    ///
    /// # Panics
    /// When there is none of that number, as all that follow.
    #[inline]
    pub fn packet(&self, index: usize) -> &[u8] {
        let Slot { start, len, .. } = self.slots[index];
        let begin = index * self.cell_len + start;
        &self.cells[begin..begin + len]
    }

    /// Packet `index`, if there is one of that number that was not dropped.
    pub(crate) fn packets(&self, index: usize) -> Option<&[u8]> {
        let is_there = self.slots.get(index).is_some_and(|slot| slot.len > 0);
        is_there.then(|| self.packet(index))
    }

    /// Packet `index`, for editing within its bounds.
    #[inline]
    pub fn packet_mut(&mut self, index: usize) -> &mut [u8] {
        let Slot { start, len, .. } = self.slots[index];
        let begin = index * self.cell_len + start;
        &mut self.cells[begin..begin + len]
    }

    /// The packets that were not dropped, in order, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (0..self.len()).map(|index| (index, self.packet(index))).filter(|(_, it)| !it.is_empty())
    }

    /// The packets that were not dropped, in order, with
    /// their numbers: for working on several at once.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut [u8])> {
        let cells = self.cells.chunks_exact_mut(self.cell_len).zip(&self.slots).enumerate();
        cells
            .filter(|(_, (_, slot))| slot.len > 0)
            .map(|(index, (cell, slot))| (index, &mut cell[slot.start..slot.start + slot.len]))
    }

    /// Bytes free in front of packet `index`.
    pub fn headroom(&self, index: usize) -> usize {
        self.slots[index].start
    }

    /// The whole cell of packet `index`, and where in it the packet stands. What is free around the
    /// packet may be written to; [`IpBatch::place`] says what the packet is then.
    #[inline]
    pub fn room_mut(&mut self, index: usize) -> (&mut [u8], Range<usize>) {
        let Slot { start, len, .. } = self.slots[index];
        let begin = index * self.cell_len;
        (&mut self.cells[begin..begin + self.cell_len], start..start + len)
    }

    /// Says that packet `index` is now what stands at `range` of its cell.
    ///
    /// # Panics
    /// When the range is not inside of the cell.
    #[inline]
    pub fn place(&mut self, index: usize, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.cell_len, "a packet is in its cell");
        let slot = &mut self.slots[index];
        (slot.start, slot.len) = (range.start, range.len());
    }

    /// The cells of all packets, one after the other, for whoever works on
    /// several packets at once by their places in it.
    #[inline]
    pub fn arena_mut(&mut self) -> &mut [u8] {
        &mut self.cells
    }

    /// Where in the arena packet `index` stands.
    #[inline]
    pub fn place_in_arena(&self, index: usize) -> Range<usize> {
        let Slot { start, len, .. } = self.slots[index];
        let begin = index * self.cell_len + start;
        begin..begin + len
    }

    /// As [`IpBatch::place`], by a range of the arena.
    ///
    /// # Panics
    /// When the range is not inside of the packet's own cell.
    #[inline]
    pub fn place_by_arena(&mut self, index: usize, range: Range<usize>) {
        let begin = index * self.cell_len;
        assert!(range.start >= begin, "a packet is in its cell");
        self.place(index, range.start - begin..range.end - begin);
    }

    /// Drops packet `index`.
    #[inline]
    pub fn drop_packet(&mut self, index: usize) {
        self.slots[index].len = 0;
    }

    /// Appends a packet of the caller's own, with [`HEADROOM`] in front. False, and nothing is
    /// done, when it is larger than a packet of this batch may be.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let fits = packet.len() <= self.packet_len;
        if fits {
            let cells = self.spare(1);
            cells[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
            self.received(HEADROOM, packet.len());
        }
        fits
    }

    /// What became of packet `index` in the last call of [`IpIo::send`](super::IpIo::send).
    pub fn fate(&self, index: usize) -> Fate {
        self.slots[index].fate
    }

    pub(crate) fn settle(&mut self, index: usize, fate: Fate) {
        self.slots[index].fate = fate;
    }

    /// Bytes of a cell.
    pub(crate) fn cell_len(&self) -> usize {
        self.cell_len
    }

    /// The cells of the next `count` packets. Each of them that is announced with
    /// [`IpBatch::received`], in order, is one.
    pub(crate) fn spare(&mut self, count: usize) -> &mut [u8] {
        let (begin, len) = (self.slots.len() * self.cell_len, count * self.cell_len);
        if self.cells.len() < begin + len {
            self.cells.resize(begin + len, 0);
        }
        &mut self.cells[begin..begin + len]
    }

    /// Announces a packet in the first spare cell; of no bytes, when what came is none.
    pub(crate) fn received(&mut self, start: usize, len: usize) {
        debug_assert!(start + len <= self.cell_len && self.cells.len() >= self.cell_len);
        self.slots.push(Slot { start, len, fate: Fate::Unsent });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_grow_to_the_front_and_do_not_touch_each_other() {
        let mut batch = IpBatch::new(100);
        assert!(batch.push(&[1; 100]) && batch.push(&[2; 40]) && batch.push(&[3; 1]));
        assert!(!batch.push(&[4; 101]), "larger than was said");
        assert_eq!((batch.len(), batch.headroom(1)), (3, HEADROOM));
        let (room, at) = batch.room_mut(1);
        room[at.start - HEADROOM..at.start].fill(9);
        batch.place(1, at.start - HEADROOM..at.end);
        assert_eq!((batch.headroom(1), batch.packet(1).len()), (0, HEADROOM + 40));
        assert_eq!(batch.packet(1)[HEADROOM - 1..HEADROOM + 1], [9, 2]);
        assert_eq!((batch.packet(0), batch.packet(2)), (&[1; 100][..], &[3; 1][..]));
        batch.drop_packet(0);
        for (_, packet) in batch.iter_mut() {
            packet[0] = 7;
        }
        let found: Vec<_> = batch.iter().map(|(index, it)| (index, it[0], it.len())).collect();
        assert_eq!(found, [(1, 7, HEADROOM + 40), (2, 7, 1)]);
        batch.clear();
        assert!(batch.is_empty());
    }

    #[test]
    fn places_in_the_arena_are_those_of_the_packets() {
        let mut batch = IpBatch::new(100);
        assert!(batch.push(&[1; 10]) && batch.push(&[2; 20]));
        let range = batch.place_in_arena(1);
        batch.arena_mut()[range.start + 3] = 9;
        assert_eq!(batch.packet(1)[2..5], [2, 9, 2]);
        batch.place_by_arena(1, range.start + 3..range.end);
        assert_eq!((batch.packet(1).len(), batch.packet(1)[0]), (17, 9));
        assert_eq!(batch.packet(0), [1; 10]);
    }

    #[test]
    #[should_panic(expected = "a packet is in its cell")]
    fn a_packet_does_not_leave_its_cell() {
        let mut batch = IpBatch::new(100);
        batch.push(&[1; 10]);
        let end = batch.cell_len() + 1;
        batch.place(0, HEADROOM..end);
    }
}
