//! A ring shared with the kernel: one side puts entries in, the other
//! takes them out, and neither waits for a lock.
//!
//! Invariant: both indexes run freely and wrap at 2^32; entries between the consumer's and the
//! producer's index belong to the consumer, the others to the producer. Each side reads the other's
//! index before it touches an entry (acquire) and moves its own afterwards (release). Source: Linux
//! `Documentation/networking/af_xdp.rst`, `tools/lib/bpf` (xsk.h).

use std::io;
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::sys::Mapping;

/// What may stand in a ring: plain integers.
pub(super) trait Entry: Copy {}

impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// The side of a ring that we put entries into.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Our index: entries before it are written, not all of them announced.
    next: u32,
}

/// The side of a ring that we take entries out of.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Our index: entries before it are read, not all of them given back.
    next: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        let ring = Ring::map(fd, page, offsets, entries)?;
        let next = ring.producer().load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Puts an entry in; false when there is no room. It is announced by [`Producer::publish`].
    pub(super) fn push(&mut self, entry: T) -> bool {
        let taken = self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire));
        if taken >= self.ring.entries {
            return false;
        }
        // SAFETY: the slot is inside of the ring, and ours: the consumer has moved beyond it.
        unsafe { self.ring.slot(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Announces what was put in.
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn untaken(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel waits to be told that there are entries.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Entry> Consumer<T> {
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        let ring = Ring::map(fd, page, offsets, entries)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Takes an entry out, if there is one. Its slot is given back by [`Consumer::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.ring.producer().load(Ordering::Acquire) == self.next {
            return None;
        }
        // SAFETY: the slot is inside of the ring, and ours: the producer has announced it.
        let entry = unsafe { self.ring.slot(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the slots of what was taken back.
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    slots: usize,
    entries: u32,
    of: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    /// The ring at `page` of a socket that was told to make
    /// it with that many entries, a power of two.
    fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        let [producer, consumer, flags, slots] =
            [offsets.producer, offsets.consumer, offsets.flags, offsets.desc]
                .map(|offset| offset as usize);
        let len = slots + entries as usize * size_of::<T>();
        let mapping = Mapping::ring(fd, len, page)?;
        let fits = |at: usize| at.is_multiple_of(align_of::<AtomicU32>()) && at + 4 <= len;
        let sound = fits(producer)
            && fits(consumer)
            && fits(flags)
            && slots.is_multiple_of(align_of::<T>());
        if !sound || !entries.is_power_of_two() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self { mapping, producer, consumer, flags, slots, entries, of: PhantomData })
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.consumer)
    }

    fn flags(&self) -> &AtomicU32 {
        self.word(self.flags)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offset was checked to be aligned and inside of the mapping, which lives as
        // long as `self`; the kernel reads and writes these words atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.base().add(offset).cast()) }
    }

    fn slot(&self, index: u32) -> *mut T {
        let at = self.slots + (index & (self.entries - 1)) as usize * size_of::<T>();
        // The offset is inside of the mapping: its length was made from the number of slots.
        self.mapping.base().wrapping_add(at).cast()
    }
}
