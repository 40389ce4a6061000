//! One queue of an interface with rings of ours on it: frames come
//! in and go out past the kernel's network stack.
//!
//! Each frame of the shared memory is in one place at a time: those for receiving are with the
//! kernel (in the fill ring or the receive ring) but for the moment that [`Queue::receive`] shows
//! one; those for sending are free, or with the kernel (in the send ring or the completion ring).
//!
//! Invariant: a frame that is with the kernel is not touched. Bound: a call of [`Queue::flush`]
//! waits at most [`SEND_PATIENCE`] times [`SEND_WAIT`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::time::Duration;

use super::refusal::Refusal;
use super::ring::{Consumer, Producer};
use super::sys::{self, Mapping};
use crate::poll::poll;
use crate::{Counters, SendReport};

/// An AF_XDP socket with its memory and rings.
pub(super) struct Queue {
    // Before the memory, so that the kernel has let go of it when it is unmapped.
    fd: OwnedFd,
    fill: Producer<u64>,
    received: Consumer<libc::xdp_desc>,
    sending: Producer<libc::xdp_desc>,
    completed: Consumer<u64>,
    memory: Mapping,
    /// Frames that can be sent from.
    free: Vec<u64>,
    zero_copy: bool,
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
    /// Rings on queue `number` of an interface. Frames come in
    /// once a program leads some to [`Queue::as_fd`].
    pub(super) fn open(interface: u32, number: u32) -> Result<Self, Refusal> {
        let step = |call| move |error| Refusal::of(call, error);
        let socket = sys::socket().map_err(step("socket(AF_XDP)"))?;
        let fd = socket.as_fd();
        let memory = Mapping::memory((RECEIVE_FRAMES + SEND_FRAMES) as usize * FRAME_LEN)
            .map_err(step("mmap"))?;
        sys::register(fd, &memory, FRAME_LEN).map_err(step("XDP_UMEM_REG"))?;
        let sizes = [
            (libc::XDP_UMEM_FILL_RING, RECEIVE_FRAMES),
            (libc::XDP_UMEM_COMPLETION_RING, SEND_FRAMES),
            (libc::XDP_RX_RING, RECEIVE_FRAMES),
            (libc::XDP_TX_RING, SEND_FRAMES),
        ];
        for (ring, entries) in sizes {
            sys::set_number(fd, libc::SOL_XDP, ring, entries)
                .map_err(step("setsockopt(SOL_XDP)"))?;
        }
        // Both make sending cheaper and rarer to stall; what a system refuses is done without.
        let _ = sys::set_number(fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, SEND_FRAMES);
        let buffer = SEND_FRAMES * FRAME_LEN as u32;
        let _ = sys::set_number(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer);
        let mut queue = Self::with_rings(socket, memory).map_err(step("mmap(AF_XDP)"))?;
        for frame in 0..RECEIVE_FRAMES {
            queue.fill.push(u64::from(frame) * FRAME_LEN as u64);
        }
        queue.fill.publish();
        sys::patiently(|| sys::bind(queue.as_fd(), interface, number))
            .map_err(step("bind(AF_XDP)"))?;
        queue.zero_copy = sys::is_zero_copy(queue.as_fd()).map_err(step("XDP_OPTIONS"))?;
        Ok(queue)
    }

    fn with_rings(socket: OwnedFd, memory: Mapping) -> io::Result<Self> {
        let fd = socket.as_fd();
        let offsets = sys::ring_offsets(fd)?;
        let fill = Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, RECEIVE_FRAMES)?;
        let completed =
            Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, SEND_FRAMES)?;
        let received =
            Consumer::map(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, RECEIVE_FRAMES)?;
        let sending = Producer::map(fd, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, SEND_FRAMES)?;
        let first = u64::from(RECEIVE_FRAMES);
        let free = (first..first + u64::from(SEND_FRAMES)).map(|frame| frame * FRAME_LEN as u64);
        Ok(Self {
            free: free.collect(),
            fd: socket,
            fill,
            received,
            sending,
            completed,
            memory,
            zero_copy: false,
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
        let mut frames = 0;
        while frames < most {
            let Some(entry) = self.received.pop() else { break };
            if let Some(bytes) = self.frame(entry.addr, entry.len as usize) {
                take(bytes);
            }
            // The kernel ignores where in its frame an address points.
            // There is room: as many slots as frames.
            self.fill.push(entry.addr);
            frames += 1;
        }
        if frames > 0 {
            self.received.release();
            self.fill.publish();
        }
        if self.fill.needs_wakeup() {
            sys::kick_receiving(self.as_fd());
        }
        frames
    }

    /// Bytes of a frame that is ours at the moment.
    fn frame(&self, address: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.memory.len()).then_some(())?;
        // SAFETY: the range is inside of the memory, which lives as long as `self`. The frame was
        // taken from the receive ring and is not back in the fill ring, so nobody writes to it.
        Some(unsafe { slice::from_raw_parts(self.memory.base().add(start), len) })
    }

    /// Puts a frame into the send ring: `write` gets its whole room and returns how much of it to
    /// send. False when no frame is free, also after a look at those that have been sent.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        let Some(address) = self.free.pop() else { return false };
        // SAFETY: all addresses that `free` ever holds are of frames inside of the memory; this one
        // is neither in the send ring nor in the completion ring, so nobody else looks at it.
        let room = unsafe {
            slice::from_raw_parts_mut(self.memory.base().add(address as usize), FRAME_LEN)
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
                self.reclaim();
                // It is a device's queue that is full: no descriptor tells when there is room.
                let _ = poll(&[], Some(SEND_WAIT));
            }
        }
        self.reclaim();
        flushed
    }

    /// Whether frames wait that the kernel has to be told of again.
    pub(super) fn has_unsent(&self) -> bool {
        self.sending.untaken() > 0 && self.sending.needs_wakeup()
    }

    /// Takes back the frames that have been sent.
    fn reclaim(&mut self) {
        let before = self.free.len();
        while let Some(address) = self.completed.pop() {
            self.free.push(address);
        }
        if self.free.len() > before {
            self.completed.release();
        }
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

/// Frames that can wait to be received: 5 ms at 0.8 Mpps, as the queue of a socket. 16 MiB.
const RECEIVE_FRAMES: u32 = 4096;

/// Frames that can be on their way out: a batch, and what a device's queue holds. 4 MiB.
const SEND_FRAMES: u32 = 1024;

/// How often a flush waits for a queue that takes nothing.
const SEND_PATIENCE: u32 = 4;

/// How long each of these waits is.
const SEND_WAIT: Duration = Duration::from_millis(1);

/// Frames that one system call may send without zero copy; 32 before Linux 6.17. Source:
/// `include/uapi/linux/if_xdp.h`.
const MAX_TX_SKB_BUDGET: libc::c_int = 9;
