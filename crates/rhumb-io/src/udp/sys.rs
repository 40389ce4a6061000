//! The system calls of UDP sockets on Linux behind safe functions: the only place where message
//! headers and control messages exist in the kernel's form.
//!
//! Invariant: pointers in message headers are written and used within one call of
//! [`Receiver::receive`] or [`Sender::send`], under the borrow of what they point to; between calls
//! they dangle and nothing follows them.
//! Source: recvmmsg(2), sendmmsg(2), cmsg(3), udp(7).

use std::io;
use std::mem::{size_of, size_of_val};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, socklen_t};
use rhumb_wire::Batch;

use super::address::{Address, Family};
use super::group::Instruction;
use crate::runs::{MAX_SEGMENTS, Runs};

/// Most messages in one system call.
pub(super) const MAX_MESSAGES: usize = 64;

/// A new UDP socket: non-blocking, closed on exec, not bound.
pub(super) fn socket(family: Family) -> io::Result<OwnedFd> {
    let domain = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(domain, kind, 0) })?;
    // SAFETY: the call succeeded, so `fd` is open, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds the socket and says what it is bound to: the port is chosen now when `address` has none.
pub(super) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<SocketAddr> {
    let (raw, len) = Address::new(address, Family::of(&address))
        .expect("invariant: an address can be written in its own family");
    // SAFETY: `raw` is an initialized socket address of `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), len) })?;
    let (mut raw, mut len) = (Address::ZERO, Address::LEN);
    // SAFETY: `raw` is valid for writes of the `len` bytes
    // announced, and suits every family of this socket.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut raw).cast(), &raw mut len) })?;
    raw.read(len).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Sets a socket option that is an int.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    let len = size_of::<c_int>() as socklen_t;
    // SAFETY: the value is an int of `len` bytes on this stack frame.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len)
    })?;
    Ok(())
}

/// Reads a socket option that is an int.
pub(crate) fn option(fd: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let (mut value, mut len): (c_int, _) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: `value` is valid for writes of the `len`
    // bytes announced; every bit pattern is an int.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len)
    })?;
    Ok(value)
}

/// Has the system ask a program which of the sockets at this one's address a datagram goes to.
pub(super) fn attach_steering(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|&Instruction { code, then, otherwise, operand }| libc::sock_filter {
            code,
            jt: then,
            jf: otherwise,
            k: operand,
        })
        .collect();
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: the value is a sock_fprog on this stack frame, which points to its `len`
    // instructions; the kernel copies both during the call and checks the program before it runs.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as socklen_t,
        )
    })?;
    Ok(())
}

/// Messages that the system dropped on arrival because the receive queue was full.
pub(crate) fn queue_overflows(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut figures = [0u32; 16];
    let mut len = size_of_val(&figures) as socklen_t;
    // SAFETY: `figures` is valid for writes of the `len` bytes
    // announced; every bit pattern is an array of u32.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    Ok(figures[libc::SK_MEMINFO_DROPS as usize])
}

/// A number that all sockets of one network namespace share.
pub(crate) fn namespace_cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let (mut value, mut len): (u64, _) = (0, size_of::<u64>() as socklen_t);
    // SAFETY: `value` is valid for writes of the `len` bytes announced; every bit pattern is a u64.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value)
}

/// Source: Linux `include/uapi/asm-generic/socket.h`.
const SO_NETNS_COOKIE: c_int = 71;

/// What a socket received as one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    /// Who sent it; `None` when the system does not say.
    pub(super) peer: Option<SocketAddr>,
    /// Bytes of the message.
    pub(super) len: usize,
    /// Bytes of each of its datagrams but the last, when it is a superpacket.
    pub(super) segment_len: Option<usize>,
    /// Whether the message or its control messages were cut short.
    pub(super) cut: bool,
}

/// Buffers for receiving, reused from call to call.
pub(super) struct Receiver {
    headers: Box<[mmsghdr; MAX_MESSAGES]>,
    iovecs: Box<[iovec; MAX_MESSAGES]>,
    addresses: Box<[Address; MAX_MESSAGES]>,
    controls: Box<[Control; MAX_MESSAGES]>,
}

// SAFETY: the pointers inside are only followed within
// `receive`, which writes them first (module invariant).
unsafe impl Send for Receiver {}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            headers: Box::new([EMPTY_HEADER; MAX_MESSAGES]),
            iovecs: Box::new([EMPTY_IOVEC; MAX_MESSAGES]),
            addresses: Box::new([Address::ZERO; MAX_MESSAGES]),
            controls: Box::new([Control::ZERO; MAX_MESSAGES]),
        }
    }

    /// Receives one message into each `stride` bytes of `space`, as many as
    /// wait, fit and a call can do; returns how many.
    pub(super) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        space: &mut [u8],
        stride: usize,
    ) -> io::Result<usize> {
        let mut prepared = 0;
        for (index, room) in space.chunks_exact_mut(stride).take(MAX_MESSAGES).enumerate() {
            self.iovecs[index] = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            // With some C libraries a header has fields besides that are not to be named.
            let mut header = EMPTY_HEADER;
            header.msg_hdr.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_hdr.msg_namelen = Address::LEN;
            header.msg_hdr.msg_iov = &raw mut self.iovecs[index];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut self.controls[index]).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            self.headers[index] = header;
            prepared = index + 1;
        }
        // SAFETY:
        // - the first `prepared` headers are initialized and may be written.
        // - each points to its own address, iovec and control buffer
        //   with their true sizes, which live in `self`.
        // - each iovec points to its own part of `space`, which is borrowed for the whole call.
        // - a null timeout is allowed.
        let received = check(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                prepared as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        })?;
        Ok(received as usize)
    }

    /// What the last call received as its message `index`.
    pub(super) fn message(&self, index: usize) -> Message {
        let header = &self.headers[index];
        let flags = header.msg_hdr.msg_flags;
        let control = &self.controls[index];
        Message {
            peer: self.addresses[index].read(header.msg_hdr.msg_namelen),
            len: header.msg_len as usize,
            segment_len: control.segment_len(header.msg_hdr.msg_controllen as _),
            cut: flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        }
    }
}

/// Buffers for sending, reused from call to call.
pub(super) struct Sender {
    headers: Vec<mmsghdr>,
    iovecs: Vec<iovec>,
    addresses: Vec<Address>,
    controls: Vec<Control>,
}

// SAFETY: the pointers inside are only followed within
// `send`, which writes them first (module invariant).
unsafe impl Send for Sender {}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            headers: Vec::with_capacity(MAX_MESSAGES),
            iovecs: Vec::with_capacity(MAX_MESSAGES * MAX_SEGMENTS),
            addresses: Vec::with_capacity(MAX_MESSAGES),
            controls: Vec::with_capacity(MAX_MESSAGES),
        }
    }

    /// Sends the runs from `first` on, as many as the socket takes and a call can do; returns how
    /// many. An error is about the run `first`.
    pub(super) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        family: Family,
        batch: &Batch,
        runs: &Runs,
        first: usize,
    ) -> io::Result<usize> {
        self.prepare(family, batch, runs, first);
        if self.headers.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
        }
        // SAFETY:
        // - the headers are initialized and may be written.
        // - each points to its own address and control message and to its own iovecs,
        //   with their true sizes, in vectors that have not moved since: `prepare` fills
        //   them completely before it takes a pointer.
        // - each iovec points to bytes of `batch`, which is
        //   borrowed for the whole call; they are only read.
        let sent = check(unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as _,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        })?;
        Ok(sent as usize)
    }

    /// Writes the headers of up to [`MAX_MESSAGES`] runs. Stops
    /// before one whose peer the family cannot reach.
    fn prepare(&mut self, family: Family, batch: &Batch, runs: &Runs, first: usize) {
        self.headers.clear();
        self.iovecs.clear();
        self.addresses.clear();
        self.controls.clear();
        for (index, run) in runs.as_slice().iter().enumerate().skip(first).take(MAX_MESSAGES) {
            let Some((address, address_len)) = Address::new(run.peer, family) else { break };
            let begin = self.iovecs.len();
            for slot in runs.slots(index) {
                self.push_segment(begin, batch.datagram(slot));
            }
            self.addresses.push(address);
            self.controls.push(Control::segments_of(run.segment_len));
            let mut header = EMPTY_HEADER;
            header.msg_hdr.msg_namelen = address_len;
            header.msg_hdr.msg_iovlen = (self.iovecs.len() - begin) as _;
            // A message of one segment is an ordinary datagram and needs no control message.
            if run.segments > 1 {
                header.msg_hdr.msg_controllen = SEGMENT_CONTROL_LEN as _;
            }
            self.headers.push(header);
        }
        let mut iovecs = self.iovecs.as_mut_slice();
        let addresses = self.addresses.iter_mut().zip(&mut self.controls);
        for (header, (address, control)) in self.headers.iter_mut().zip(addresses) {
            let (own, others) = iovecs.split_at_mut(header.msg_hdr.msg_iovlen as _);
            header.msg_hdr.msg_iov = own.as_mut_ptr();
            header.msg_hdr.msg_name = ptr::from_mut(address).cast();
            if header.msg_hdr.msg_controllen > 0 {
                header.msg_hdr.msg_control = ptr::from_mut(control).cast();
            }
            iovecs = others;
        }
    }

    /// Adds a segment to the message whose iovecs begin at `begin`. Segments that stand one behind
    /// the other in the arena, as those of a received superpacket do, share an iovec.
    fn push_segment(&mut self, begin: usize, bytes: &[u8]) {
        if let Some(last) = self.iovecs[begin..].last_mut()
            && ptr::eq(last.iov_base.cast::<u8>().wrapping_add(last.iov_len), bytes.as_ptr())
        {
            last.iov_len += bytes.len();
            return;
        }
        // The kernel does not write through the iovecs of a message to be sent.
        let iov_base: *mut c_void = bytes.as_ptr().cast_mut().cast();
        self.iovecs.push(iovec { iov_base, iov_len: bytes.len() });
    }
}

/// One control message that holds a segment size: an int on receiving, a u16 on sending.
#[derive(Clone, Copy)]
#[repr(C)]
struct Control {
    header: cmsghdr,
    value: [u8; 8],
}

/// What the kernel is told about the length of the control message in a [`Control`] for sending.
const SEGMENT_CONTROL_LEN: usize =
    // SAFETY: CMSG_SPACE only computes.
    unsafe { libc::CMSG_SPACE(size_of::<u16>() as _) as usize };

/// Length of the control message in a received [`Control`].
const GRO_CONTROL_LEN: usize =
    // SAFETY: CMSG_LEN only computes.
    unsafe { libc::CMSG_LEN(size_of::<c_int>() as _) as usize };

// The value of the first control message stands right behind
// its header, so that a struct can describe both.
const _: () = assert!(GRO_CONTROL_LEN == size_of::<cmsghdr>() + size_of::<c_int>());
const _: () = assert!(SEGMENT_CONTROL_LEN <= size_of::<Control>());

impl Control {
    // SAFETY: a cmsghdr is integers (and padding, on some targets), for which zero is a value.
    const ZERO: Self = Self { header: unsafe { std::mem::zeroed() }, value: [0; 8] };

    /// Asks for the message to be cut into segments of `segment_len` bytes.
    fn segments_of(segment_len: usize) -> Self {
        let mut control = Self::ZERO;
        control.header.cmsg_level = libc::SOL_UDP;
        control.header.cmsg_type = libc::UDP_SEGMENT;
        control.header.cmsg_len = (size_of::<cmsghdr>() + size_of::<u16>()) as _;
        // A run of several has segments below 2^16 bytes; a
        // run of one does not use its control message.
        control.value[..2].copy_from_slice(&(segment_len as u16).to_ne_bytes());
        control
    }

    /// The segment size of a superpacket, from the `len` bytes that the kernel wrote.
    fn segment_len(&self, len: usize) -> Option<usize> {
        if len < GRO_CONTROL_LEN
            || self.header.cmsg_level != libc::SOL_UDP
            || self.header.cmsg_type != libc::UDP_GRO
        {
            return None;
        }
        let value =
            c_int::from_ne_bytes([self.value[0], self.value[1], self.value[2], self.value[3]]);
        usize::try_from(value).ok().filter(|&len| len > 0)
    }
}

const EMPTY_IOVEC: iovec = iovec { iov_base: ptr::null_mut(), iov_len: 0 };

// SAFETY: an mmsghdr is integers and raw pointers, for which zero is a value.
const EMPTY_HEADER: mmsghdr = unsafe { std::mem::zeroed() };

/// Turns the -1 of a system call into its error.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
