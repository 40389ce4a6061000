//! One queue of an interface with rings of ours on it: frames come
//! in and go out past the kernel's network stack.
//!
//! Several threads may use one queue. Each has an AF_XDP socket of its own on it, with a receive
//! ring and a send ring that it shares with nobody; which receive ring a frame comes to says the
//! XDP program. The kernel allows one ring of empty frames and one of frames that were sent for a
//! queue, so these two and the memory are shared by its users: whoever is done with a batch takes
//! the lock on them if it is free, and otherwise keeps its frames until after the next batch.
//!
//! Each frame of the shared memory is in one place at a time: those for receiving are with the
//! kernel (in the fill ring or a receive ring), or with the user that took them out; those for
//! sending belong to one user, and are free, or with the kernel (in its send ring or the
//! completion ring).
//!
//! Invariants: a frame that is with the kernel is not touched. A user that takes nothing holds no
//! more frames than its share, so that the others go on receiving ([`Sizes`]). Bound: a call of
//! [`Queue::flush`] waits at most [`SEND_PATIENCE`] times [`SEND_WAIT`].
//! Source: Linux `Documentation/networking/af_xdp.rst`, XDP_SHARED_UMEM.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::refusal::Refusal;
use super::ring::{Consumer, Producer};
use super::sys::{self, Mapping};
use crate::poll::poll;
use crate::{Counters, SendReport};

/// A user's AF_XDP socket on a queue, with its rings.
pub(super) struct Queue {
    // Before the memory, so that the kernel has let go of it when it is unmapped.
    fd: OwnedFd,
    received: Consumer<libc::xdp_desc>,
    sending: Producer<libc::xdp_desc>,
    /// Frames of the batch that is taken out of the receive ring.
    arrived: Vec<libc::xdp_desc>,
    /// Frames taken out of the receive ring that are not back in the fill ring.
    unreturned: Vec<u64>,
    /// Frames that can be sent from.
    free: Vec<u64>,
    /// Which of the users this is.
    user: usize,
    zero_copy: bool,
    shared: Arc<Shared>,
}

/// What the users of a queue share.
struct Shared {
    ends: Mutex<Ends>,
    memory: Mapping,
    sizes: Sizes,
}

/// The two rings that a queue has once.
struct Ends {
    fill: Producer<u64>,
    completed: Consumer<u64>,
    /// Frames of each user that have been sent, and that another one has found.
    sent: Vec<Vec<u64>>,
}

/// Entries of rings, and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    users: u32,
    /// Frames that wait for one user at most.
    waiting: u32,
    /// Frames for receiving. A user that stands still holds what waits for it and what it has not
    /// returned; there are as many for each, so nobody lacks what another one holds.
    receiving: u32,
}

impl Sizes {
    fn of(users: u32) -> Self {
        // Rounded down to a power of two, which rings have.
        let waiting = 1 << (RECEIVE_FRAMES / users.max(1)).ilog2();
        let unreturned = if users > 1 { 2 * MAX_UNRETURNED as u32 } else { 0 };
        Self { users, waiting, receiving: users * (waiting + unreturned) }
    }

    fn memory_len(self) -> usize {
        (self.receiving + self.users * SEND_FRAMES) as usize * FRAME_LEN
    }

    /// The frames that a user sends from.
    fn sends_from(self, user: usize) -> impl Iterator<Item = u64> {
        let first = self.receiving + user as u32 * SEND_FRAMES;
        (first..first + SEND_FRAMES).map(|frame| u64::from(frame) * FRAME_LEN as u64)
    }

    /// The user that sends from a frame.
    fn sender(self, address: u64) -> Option<usize> {
        let frame = (address / FRAME_LEN as u64).checked_sub(u64::from(self.receiving))?;
        usize::try_from(frame / u64::from(SEND_FRAMES)).ok()
    }
}

/// What became of a flush.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flushed {
    /// System calls made.
    calls: u64,
    /// Frames that a full queue behind the ring swallowed.
    dropped: usize,
    /// Whether the interface is gone.
    pub(super) gone: bool,
}

impl Flushed {
    /// Takes what was swallowed out of what `report` and `counters` say was sent.
    pub(super) fn settle(&self, report: &mut SendReport, counters: &mut Counters) {
        counters.send_calls += self.calls;
        // Some may be of an earlier batch, which has had its report.
        let of_this = self.dropped.min(report.sent);
        report.sent -= of_this;
        report.dropped_busy += of_this;
        counters.sent_messages -= self.dropped as u64;
        counters.sent_datagrams -= self.dropped as u64;
        counters.send_dropped_busy += self.dropped as u64;
    }
}

impl Queue {
    /// Rings on queue `number` of an interface, for each of `users`. Frames come in
    /// once a program leads some to [`Queue::as_fd`] of one of them.
    pub(super) fn open(interface: u32, number: u32, users: u32) -> Result<Vec<Self>, Refusal> {
        let step = |call| move |error| Refusal::of(call, error);
        let sizes = Sizes::of(users);
        let first = sys::socket().map_err(step("socket(AF_XDP)"))?;
        let memory = Mapping::memory(sizes.memory_len()).map_err(step("mmap"))?;
        sys::register(first.as_fd(), &memory, FRAME_LEN).map_err(step("XDP_UMEM_REG"))?;
        let once = [
            (libc::XDP_UMEM_FILL_RING, sizes.receiving.next_power_of_two()),
            (libc::XDP_UMEM_COMPLETION_RING, (users * SEND_FRAMES).next_power_of_two()),
        ];
        for (ring, entries) in once {
            sys::set_number(first.as_fd(), libc::SOL_XDP, ring, entries)
                .map_err(step("setsockopt(SOL_XDP)"))?;
        }
        let ends = Ends::map(first.as_fd(), sizes).map_err(step("mmap(AF_XDP)"))?;
        let shared = Arc::new(Shared { ends: Mutex::new(ends), memory, sizes });
        let mut queues = vec![Self::with_rings(first, 0, &shared)?];
        let bind = |queue: &Self, with: Option<BorrowedFd<'_>>| {
            sys::patiently(|| sys::bind(queue.as_fd(), interface, number, with))
                .map_err(step("bind(AF_XDP)"))
        };
        bind(&queues[0], None)?;
        for user in 1..users as usize {
            let socket = sys::socket().map_err(step("socket(AF_XDP)"))?;
            let queue = Self::with_rings(socket, user, &shared)?;
            bind(&queue, Some(queues[0].as_fd()))?;
            queues.push(queue);
        }
        let zero_copy = sys::is_zero_copy(queues[0].as_fd()).map_err(step("XDP_OPTIONS"))?;
        queues.iter_mut().for_each(|queue| queue.zero_copy = zero_copy);
        Ok(queues)
    }

    /// A user's socket with its own two rings, not bound yet.
    fn with_rings(socket: OwnedFd, user: usize, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let step = |call| move |error| Refusal::of(call, error);
        let (fd, waiting) = (socket.as_fd(), shared.sizes.waiting);
        for (ring, entries) in [(libc::XDP_RX_RING, waiting), (libc::XDP_TX_RING, SEND_FRAMES)] {
            sys::set_number(fd, libc::SOL_XDP, ring, entries)
                .map_err(step("setsockopt(SOL_XDP)"))?;
        }
        // Both make sending cheaper and rarer to stall; what a system refuses is done without.
        let _ = sys::set_number(fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, SEND_FRAMES);
        let buffer = SEND_FRAMES * FRAME_LEN as u32;
        let _ = sys::set_number(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer);
        let offsets = sys::ring_offsets(fd).map_err(step("XDP_MMAP_OFFSETS"))?;
        let received = Consumer::map(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, waiting);
        let sending = Producer::map(fd, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, SEND_FRAMES);
        Ok(Self {
            received: received.map_err(step("mmap(AF_XDP)"))?,
            sending: sending.map_err(step("mmap(AF_XDP)"))?,
            fd: socket,
            arrived: Vec::new(),
            unreturned: Vec::new(),
            free: shared.sizes.sends_from(user).collect(),
            user,
            zero_copy: false,
            shared: Arc::clone(shared),
        })
    }

    /// Whether the driver works in our memory itself.
    pub(super) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Frames that arrived and were dropped because the rings were full.
    pub(super) fn overflows(&self) -> u64 {
        let statistics = sys::statistics(self.as_fd());
        statistics.map_or(0, |statistics| statistics.rx_dropped + statistics.rx_ring_full)
    }

    /// Shows up to `most` frames that arrived, one after the other, and gives
    /// them back to the kernel. Returns how many.
    pub(super) fn receive(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        self.arrived.clear();
        while self.arrived.len() < most.min(MAX_UNRETURNED) {
            let Some(entry) = self.received.pop() else { break };
            self.arrived.push(entry);
        }
        let frame = |at: usize| {
            let entry = self.arrived.get(at)?;
            self.frame(entry.addr, entry.len as usize)
        };
        for at in 0..self.arrived.len() {
            // Another core wrote it a moment ago, or the device: it is not in this one's cache.
            read_ahead(frame(at + READ_AHEAD).unwrap_or_default());
            if let Some(bytes) = frame(at) {
                take(bytes);
            }
        }
        if !self.arrived.is_empty() {
            self.unreturned.extend(self.arrived.iter().map(|entry| entry.addr));
            self.received.release();
            self.give_back();
        }
        self.arrived.len()
    }

    /// Gives the frames that were shown back to the kernel: now, or, while another user is at it,
    /// after a later batch, so that nobody waits for anybody as long as he holds less than his
    /// share. True when none is left.
    pub(super) fn give_back(&mut self) -> bool {
        if self.unreturned.is_empty() {
            return true;
        }
        let wait = self.unreturned.len() > MAX_UNRETURNED;
        let Some(mut ends) = self.shared.lock(wait) else { return false };
        for address in self.unreturned.drain(..) {
            // The kernel ignores where in its frame an address points.
            // There is room: as many slots as frames.
            ends.fill.push(address);
        }
        ends.fill.publish();
        let needs_wakeup = ends.fill.needs_wakeup();
        drop(ends);
        if needs_wakeup {
            sys::kick_receiving(self.as_fd());
        }
        true
    }

    /// Bytes of a frame that is ours at the moment.
    fn frame(&self, address: u64, len: usize) -> Option<&[u8]> {
        let memory = &self.shared.memory;
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(len)?;
        (end <= memory.len()).then_some(())?;
        // SAFETY: the range is inside of the memory, which lives as long as `self`. The frame was
        // taken from the receive ring and is not back in the fill ring, so nobody writes to it:
        // neither the kernel nor another user, to whom the kernel has not given it.
        Some(unsafe { slice::from_raw_parts(memory.base().add(start), len) })
    }

    /// Puts a frame into the send ring: `write` gets its whole room and returns how much of it to
    /// send. False when no frame is free, also after a look at those that have been sent.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if self.free.is_empty() {
            // All are on their way: a moment's wait for another user is nothing beside that.
            self.reclaim(true);
        }
        let Some(address) = self.free.pop() else { return false };
        // SAFETY: all addresses that `free` ever holds are of frames inside of the memory, and of
        // this user's; this one is neither in the send ring nor in the completion ring, so nobody
        // else looks at it.
        let room = unsafe {
            slice::from_raw_parts_mut(self.shared.memory.base().add(address as usize), FRAME_LEN)
        };
        let len = write(room).min(FRAME_LEN) as u32;
        // There is room: as many slots as frames.
        self.sending.push(libc::xdp_desc { addr: address, len, options: 0 })
    }

    /// Has everything in the send ring sent, as far as the queue behind it takes it. What it does
    /// not take stays in the ring for the next flush.
    pub(super) fn flush(&mut self) -> Flushed {
        self.sending.publish();
        let mut flushed = Flushed::default();
        let mut patience = SEND_PATIENCE;
        while self.sending.untaken() > 0 && self.sending.needs_wakeup() {
            let before = self.sending.untaken();
            flushed.calls += 1;
            let Err(error) = sys::kick_sending(self.as_fd()) else { break };
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                // Without zero copy, one frame reached the device's queue, and that was full.
                Some(libc::EBUSY) if !self.zero_copy => flushed.dropped += 1,
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM) => {}
                Some(libc::ENXIO) => {
                    flushed.gone = true;
                    break;
                }
                // The interface is down: what waits goes out, or
                // is overtaken by time, when it comes up.
                _ => break,
            }
            if self.sending.untaken() == before {
                if patience == 0 {
                    break;
                }
                patience -= 1;
                self.reclaim(false);
                // It is a device's queue that is full: no descriptor tells when there is room.
                let _ = poll(&[], Some(SEND_WAIT));
            }
        }
        self.reclaim(false);
        flushed
    }

    /// Whether frames wait that the kernel has to be told of again.
    pub(super) fn has_unsent(&self) -> bool {
        self.sending.untaken() > 0 && self.sending.needs_wakeup()
    }

    /// Takes back the frames that have been sent, and notes those of other users for them.
    /// While another user is at it, that is left to later unless it is to `wait`.
    fn reclaim(&mut self, wait: bool) {
        let Some(mut ends) = self.shared.lock(wait) else { return };
        let Ends { completed, sent, .. } = &mut *ends;
        let mut found = false;
        while let Some(address) = completed.pop() {
            found = true;
            match self.shared.sizes.sender(address) {
                Some(user) if user == self.user => self.free.push(address),
                Some(user) => sent.get_mut(user).into_iter().for_each(|sent| sent.push(address)),
                None => {}
            }
        }
        if found {
            completed.release();
        }
        self.free.append(&mut sent[self.user]);
    }
}

/// Has the first lines of a frame come nearer; those that follow come by themselves
/// once somebody reads on.
#[cfg(target_arch = "x86_64")]
fn read_ahead(frame: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in frame[..frame.len().min(LINES_AHEAD * LINE)].chunks(LINE) {
        // SAFETY: a hint, which may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_ahead(_: &[u8]) {}

impl Shared {
    /// The two rings; `None` while another user is at them, unless it is to `wait`.
    fn lock(&self, wait: bool) -> Option<MutexGuard<'_, Ends>> {
        // Of a user that panicked the rings are as sound as of one that did not: an entry is in
        // them or is not.
        match self.ends.try_lock() {
            Ok(ends) => Some(ends),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if wait => {
                Some(self.ends.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Ends {
    /// The rings of the queue's first socket, with all frames for receiving in the fill ring.
    fn map(fd: BorrowedFd<'_>, sizes: Sizes) -> io::Result<Self> {
        let offsets = sys::ring_offsets(fd)?;
        let entries = sizes.receiving.next_power_of_two();
        let mut fill = Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, entries)?;
        let entries = (sizes.users * SEND_FRAMES).next_power_of_two();
        let completed =
            Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, entries)?;
        for frame in 0..sizes.receiving {
            fill.push(u64::from(frame) * FRAME_LEN as u64);
        }
        fill.publish();
        Ok(Self { fill, completed, sent: vec![Vec::new(); sizes.users as usize] })
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes of a frame's place: a page, which every driver takes.
pub(super) const FRAME_LEN: usize = 4096;

/// Bytes that the kernel keeps free in front of each received frame (XDP_PACKET_HEADROOM).
pub(super) const HEADROOM_LEN: usize = 256;

/// Frames that can wait to be received, of all users: 5 ms at 0.8 Mpps, as the queue of a socket.
/// 16 MiB.
const RECEIVE_FRAMES: u32 = 4096;

/// Frames that a user takes out of the ring at most before it returns some, and those that it may
/// have kept while another user was at it: as large as the largest batch.
const MAX_UNRETURNED: usize = 256;

/// Frames between the one that is read and the one that is asked for, and how much of that.
const READ_AHEAD: usize = 3;
#[cfg(target_arch = "x86_64")]
const LINES_AHEAD: usize = 4;
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Frames of a user that can be on their way out: a batch, and what a device's queue holds. 4 MiB.
const SEND_FRAMES: u32 = 1024;

/// How often a flush waits for a queue that takes nothing.
const SEND_PATIENCE: u32 = 4;

/// How long each of these waits is.
const SEND_WAIT: Duration = Duration::from_millis(1);

/// Frames that one system call may send without zero copy; 32 before Linux 6.17. Source:
/// `include/uapi/linux/if_xdp.h`.
const MAX_TX_SKB_BUDGET: libc::c_int = 9;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever all others hold, a user has as many frames as can wait for it.
    #[test]
    fn nobody_lacks_frames_that_another_one_holds() {
        for users in 1..=8 {
            let sizes = Sizes::of(users);
            let held = sizes.waiting + if users > 1 { 2 * MAX_UNRETURNED as u32 } else { 0 };
            assert!(sizes.receiving - (users - 1) * held >= sizes.waiting, "{sizes:?}");
            assert!(sizes.waiting.is_power_of_two() && sizes.waiting * users <= RECEIVE_FRAMES);
            assert!(sizes.memory_len() <= (20 + 8 * (users as usize - 1)) << 20, "{sizes:?}");
        }
        assert_eq!(Sizes::of(1).receiving, RECEIVE_FRAMES);
    }

    #[test]
    fn a_sent_frame_goes_back_to_whose_it_is() {
        let sizes = Sizes::of(3);
        for user in 0..3 {
            assert!(sizes.sends_from(user).all(|address| sizes.sender(address) == Some(user)));
            assert_eq!(sizes.sends_from(user).count(), SEND_FRAMES as usize);
        }
        assert_eq!(sizes.sends_from(2).last(), Some((sizes.memory_len() - FRAME_LEN) as u64));
        assert_eq!(sizes.sender(0), None, "a frame for receiving");
    }
}
