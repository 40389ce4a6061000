//! A batch of datagrams in one arena: what I/O receives,
//! what a switch edits in place, what I/O sends.
//!
//! A slot is a range of the arena and an address: the sender's while the batch comes in, the
//! receiver's when it goes out. Emptying a slot drops its datagram. Datagrams that a switch makes
//! itself are appended. One batch is reused for ever, so once its arena has grown to the working
//! size, nothing is allocated per packet.

use std::net::SocketAddr;
use std::ops::Range;

/// Datagrams that travel through the pipeline together.
#[derive(Debug, Default)]
pub struct Batch {
    arena: Vec<u8>,
    slots: Vec<Slot>,
    /// Where the next appended datagram begins; all received ones end before.
    tail: usize,
}

/// One datagram of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Who sent it, or who it goes to.
    pub peer: SocketAddr,
    offset: usize,
    len: usize,
}

impl Slot {
    /// Bytes of the datagram; 0 when it was dropped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the datagram was dropped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all datagrams; keeps the arena.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.tail = 0;
    }

    /// Forgets all datagrams and lends `len` bytes for receiving into. Announce what was received
    /// with [`Batch::push_received`].
    pub fn receive_space(&mut self, len: usize) -> &mut [u8] {
        self.clear();
        if self.arena.len() < len {
            self.arena.resize(len, 0);
        }
        self.tail = len;
        &mut self.arena[..len]
    }

    /// Announces a datagram that stands at `offset` of the receive space.
    ///
    /// # Panics
    /// When the range is outside of the receive space.
    pub fn push_received(&mut self, peer: SocketAddr, offset: usize, len: usize) {
        assert!(offset + len <= self.tail, "a received datagram lies in the receive space");
        self.slots.push(Slot { peer, offset, len });
    }

    /// Appends a datagram.
    pub fn push(&mut self, peer: SocketAddr, datagram: &[u8]) {
        self.push_with(peer, datagram.len()).copy_from_slice(datagram);
    }

    /// Appends a datagram of `len` bytes for the caller to fill.
    pub fn push_with(&mut self, peer: SocketAddr, len: usize) -> &mut [u8] {
        let offset = self.extend(len);
        self.slots.push(Slot { peer, offset, len });
        &mut self.arena[offset..self.tail]
    }

    /// Has room for `len` bytes more behind everything; returns where.
    fn extend(&mut self, len: usize) -> usize {
        let offset = self.tail;
        self.tail += len;
        if self.arena.len() < self.tail {
            self.arena.resize(self.tail, 0);
        }
        offset
    }

    /// Datagrams, dropped ones included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The bytes of a slot's datagram.
    pub fn bytes(&self, slot: &Slot) -> &[u8] {
        &self.arena[slot.offset..slot.offset + slot.len]
    }

    /// The bytes of the datagram in slot `index`.
    ///
    /// # Panics
    /// When there is no slot `index`.
    #[inline]
    pub fn datagram(&self, index: usize) -> &[u8] {
        self.bytes(&self.slots[index])
    }

    /// One datagram and who it is from.
    ///
    /// # Panics
    /// When there is no slot `index`.
    #[inline]
    pub fn datagram_mut(&mut self, index: usize) -> (SocketAddr, &mut [u8]) {
        let slot = self.slots[index];
        (slot.peer, &mut self.arena[slot.offset..slot.offset + slot.len])
    }

    /// The datagrams in these slots and who they are from, all at once. Of one that stands before
    /// that of a slot before it there is nothing.
    ///
    /// # Panics
    /// When there are no such slots.
    #[inline]
    pub fn apart_mut(
        &mut self,
        slots: Range<usize>,
    ) -> impl Iterator<Item = (SocketAddr, &mut [u8])> {
        let (mut rest, mut at) = (&mut self.arena[..], 0);
        self.slots[slots].iter().map(move |slot| {
            let Some(skipped) = slot.offset.checked_sub(at) else {
                return (slot.peer, &mut [][..]);
            };
            let (datagram, behind) = std::mem::take(&mut rest)[skipped..].split_at_mut(slot.len);
            (rest, at) = (behind, slot.offset + slot.len);
            (slot.peer, datagram)
        })
    }

    /// Sends the datagram in slot `index`, as it now stands, to `peer`.
    #[inline]
    pub fn redirect(&mut self, index: usize, peer: SocketAddr) {
        self.slots[index].peer = peer;
    }

    /// Drops the datagram in slot `index`.
    #[inline]
    pub fn drop_datagram(&mut self, index: usize) {
        self.slots[index].len = 0;
    }

    /// Shortens the datagram in slot `index` to its first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, index: usize, len: usize) {
        let slot = &mut self.slots[index];
        slot.len = slot.len.min(len);
    }

    /// Puts `count` slots, without datagrams, in the place of slot `index`. Work: a step for each
    /// slot behind it, which moves on.
    ///
    /// # Panics
    /// When there is no slot `index`.
    pub fn split(&mut self, index: usize, count: usize) {
        let dropped = Slot { len: 0, ..self.slots[index] };
        self.slots.splice(index..=index, std::iter::repeat_n(dropped, count));
    }

    /// Gives slot `index` a datagram of `len` bytes that stands apart from what it had, for the
    /// caller to fill, in [`Batch::arena_mut`]. Returns where.
    ///
    /// # Panics
    /// When there is no slot `index`.
    pub fn replace(&mut self, index: usize, len: usize) -> Range<usize> {
        let offset = self.extend(len);
        let slot = &mut self.slots[index];
        (slot.offset, slot.len) = (offset, len);
        offset..self.tail
    }

    /// Where in [`Batch::arena_mut`] the datagram of slot `index` stands.
    ///
    /// # Panics
    /// When there is no slot `index`.
    pub fn range(&self, index: usize) -> Range<usize> {
        let slot = &self.slots[index];
        slot.offset..slot.offset + slot.len
    }

    /// Narrows the datagram of slot `index` to a part of where it stands.
    ///
    /// # Panics
    /// When `part` is not within [`Batch::range`].
    pub fn narrow(&mut self, index: usize, part: Range<usize>) {
        let whole = self.range(index);
        let is_within = whole.start <= part.start && part.end <= whole.end;
        assert!(is_within && part.start <= part.end, "a part lies within its datagram");
        let slot = &mut self.slots[index];
        (slot.offset, slot.len) = (part.start, part.len());
    }

    /// The bytes in which all datagrams stand, for who works at several at once.
    pub fn arena_mut(&mut self) -> &mut [u8] {
        &mut self.arena
    }

    /// The datagrams that were not dropped, in order.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.slots.iter().filter(|slot| !slot.is_empty()).map(|slot| (slot.peer, self.bytes(slot)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_and_appended_datagrams_do_not_overlap() {
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let other: SocketAddr = "127.0.0.1:2".parse().unwrap();
        let mut batch = Batch::new();
        batch.receive_space(10).copy_from_slice(b"0123456789");
        batch.push_received(peer, 0, 4);
        batch.push_received(peer, 4, 6);
        batch.push(other, b"own");
        batch.drop_datagram(0);
        batch.datagram_mut(1).1[0] = b'x';
        batch.redirect(1, other);
        batch.truncate(1, 5);
        let sent: Vec<_> = batch.iter().collect();
        assert_eq!(sent, [(other, &b"x5678"[..]), (other, &b"own"[..])]);
        let whole = batch.range(1);
        batch.narrow(1, whole.start + 2..whole.end - 1);
        batch.arena_mut()[whole.start + 2] = b'y';
        let (peer, part) = batch.datagram_mut(1);
        assert_eq!((peer, &*part), (other, &b"y7"[..]));
        batch.clear();
        assert!(batch.is_empty());
    }
}
