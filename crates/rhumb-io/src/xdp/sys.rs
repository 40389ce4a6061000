//! System calls of AF_XDP sockets, and memory shared with the kernel, behind safe functions.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`,
//! `include/uapi/linux/if_xdp.h`, mmap(2).

use std::ffi::c_void;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use libc::{c_int, socklen_t};

use crate::poll::poll;

/// A new AF_XDP socket, closed on exec.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call succeeded, so `fd` is open, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Registers the memory of all frames.
pub(super) fn register(fd: BorrowedFd<'_>, memory: &Mapping, frame_len: usize) -> io::Result<()> {
    let registration = libc::xdp_umem_reg {
        addr: memory.base.as_ptr() as u64,
        len: memory.len as u64,
        chunk_size: frame_len as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// Sets an option that is an int.
pub(super) fn set_number(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: u32,
) -> io::Result<()> {
    set(fd, level, option, &value)
}

/// Where the parts of each ring stand in its mapping.
pub(super) fn ring_offsets(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: the structure is integers, of which every bit pattern is one.
    unsafe { read(fd, libc::XDP_MMAP_OFFSETS) }
}

/// What the kernel has dropped on the way to and from the rings.
pub(super) fn statistics(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    // SAFETY: the structure is integers, of which every bit pattern is one.
    unsafe { read(fd, libc::XDP_STATISTICS) }
}

/// Whether the driver reads and writes our frames itself.
pub(super) fn is_zero_copy(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: the structure is integers, of which every bit pattern is one.
    let options: libc::xdp_options = unsafe { read(fd, libc::XDP_OPTIONS) }?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Ties the socket to a queue: with zero copy where the driver has it, else without. `beside` is a
/// socket that is tied to it already, whose memory is shared then, with all that was said of it.
pub(super) fn bind(
    fd: BorrowedFd<'_>,
    interface: u32,
    queue: u32,
    beside: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let (flags, first) = match beside {
        None => (libc::XDP_USE_NEED_WAKEUP, 0),
        Some(first) => (libc::XDP_SHARED_UMEM, first.as_raw_fd() as u32),
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: first,
    };
    let len = size_of::<libc::sockaddr_xdp>() as socklen_t;
    // SAFETY: the address is initialized and of `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }).map(|_| ())
}

/// Tries again for a while what is busy: the kernel clears a queue, and detaches a program, a
/// moment after their last owner has closed them, and a router may be started again at once.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..BUSY_ATTEMPTS {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                poll(&[], Some(BUSY_WAIT))?;
            }
            result => return result,
        }
    }
    attempt()
}

/// Has the kernel look at the ring of frames to send.
pub(super) fn kick_sending(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no bytes and no address are passed.
    let result =
        unsafe { libc::sendto(fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel look at the ring of frames to receive into.
pub(super) fn kick_receiving(fd: BorrowedFd<'_>) {
    // SAFETY: no room and no address are passed.
    let _ = unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
}

/// Memory that is shared with the kernel, or is ours alone, until it is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

// SAFETY: a shared reference gives base and length only; whoever uses the
// pointer says why nobody else uses the same bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Fresh memory, in whole pages, and in huge ones where the system has
    /// some: every frame is at another place, and few of so many small pages would be at hand.
    pub(super) fn memory(len: usize) -> io::Result<Self> {
        let mapping = Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // SAFETY: the range is the mapping's own, and nothing changes that could be seen in it.
        let _ = unsafe { libc::madvise(mapping.base().cast(), len, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// The ring of a socket that is found at `offset`.
    pub(super) fn ring(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        Self::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(len: usize, flags: c_int, fd: c_int, offset: u64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the system chooses the address, so nothing that exists is touched.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are what mmap gave; whoever holds
        // pointers into a mapping holds the mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast::<c_void>(), self.len) };
    }
}

fn set<T>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as socklen_t;
    // SAFETY: the value is initialized and of `len` bytes; the kernel only reads it.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len)
    })
    .map(|_| ())
}

/// # Safety
/// Every bit pattern is a `T`.
unsafe fn read<T>(fd: BorrowedFd<'_>, option: c_int) -> io::Result<T> {
    // SAFETY: zero is a bit pattern too.
    let mut value: T = unsafe { zeroed() };
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: `value` is valid for writes of the `len` bytes announced.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    // A kernel before 5.4 tells less, and then the rings have no place for flags.
    if (len as usize) < size_of::<T>() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(value) }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// How often something busy is tried again, and how long between: half a second in all.
const BUSY_ATTEMPTS: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(10);
