//! The system calls of raw IP sockets and TUN devices behind safe functions.
//!
//! Invariant: pointers in message headers are written and used within one call of
//! [`Receiver::receive`] or [`Sender::send`], under the borrow of what they point to; between calls
//! they dangle and nothing follows them.
//! Source: raw(7), ipv6(7), RFC 3542, recvmmsg(2), sendmmsg(2), cmsg(3), Linux
//! `include/uapi/linux/if_tun.h`.

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;

use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr};

use super::batch::{HEADROOM, IpBatch};
use super::header::{HOP_LIMIT, Ipv6Fields};
use super::{RECEIVE_MOST, ends_of};
use crate::udp::address::{Address, Family};

/// A new raw socket: non-blocking, closed on exec, not bound. What is sent by it is whole packets.
pub(super) fn raw_socket(family: Family, protocol: u8) -> io::Result<OwnedFd> {
    let (domain, level, whole) = match family {
        Family::V4 => (libc::AF_INET, libc::IPPROTO_IP, libc::IP_HDRINCL),
        Family::V6 => (libc::AF_INET6, libc::IPPROTO_IPV6, IPV6_HDRINCL),
    };
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(domain, kind, c_int::from(protocol)) })?;
    // SAFETY: the call succeeded, so `fd` is open, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(socket.as_fd(), level, whole, 1)?;
    if family == Family::V6 {
        for option in [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVHOPLIMIT, libc::IPV6_FLOWINFO] {
            set_option(socket.as_fd(), level, option, 1)?;
        }
    }
    Ok(socket)
}

pub(super) use crate::udp::sys::{queue_overflows, set_option};

/// A socket whose being there has the kernel believe routers that say what a path takes: for IPv6
/// it asks whether any socket of the protocol wants to hear of errors. It is never read: packets
/// are refused, and few errors fit into its queue. A socket that is read would have to drain
/// errors, and would get them as those of packets that are not to blame.
pub(super) fn believer(protocol: u8) -> io::Result<OwnedFd> {
    let socket = raw_socket(Family::V6, protocol)?;
    let fd = socket.as_fd();
    // BPF_RET | BPF_K: no byte of any packet.
    let mut refuse = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut refuse };
    // SAFETY: the value is a sock_fprog on this stack frame, which points to its one instruction;
    // the kernel copies both during the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
    Ok(socket)
}

/// Binds a raw socket: it receives what is for this address.
pub(super) fn bind(fd: BorrowedFd<'_>, address: IpAddr) -> io::Result<()> {
    let address = SocketAddr::new(address, 0);
    let (raw, len) = Address::new(address, Family::of(&address))
        .expect("invariant: an address can be written in its own family");
    // SAFETY: `raw` is an initialized socket address of `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), len) }).map(|_| ())
}

/// What an IPv6 socket says of a packet beside its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ipv6Packet {
    pub(super) source: Ipv6Addr,
    pub(super) destination: Ipv6Addr,
    /// The protocol is the socket's.
    pub(super) fields: Ipv6Fields,
}

/// Buffers for receiving, reused from call to call.
pub(super) struct Receiver {
    headers: Box<[mmsghdr; RECEIVE_MOST]>,
    iovecs: Box<[iovec; RECEIVE_MOST]>,
    addresses: Box<[Address; RECEIVE_MOST]>,
    controls: Box<[Control; RECEIVE_MOST]>,
}

// SAFETY: the pointers inside are only followed within
// `receive`, which writes them first (module invariant).
unsafe impl Send for Receiver {}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            headers: Box::new([EMPTY_HEADER; RECEIVE_MOST]),
            iovecs: Box::new([EMPTY_IOVEC; RECEIVE_MOST]),
            addresses: Box::new([Address::ZERO; RECEIVE_MOST]),
            controls: Box::new([Control::ZERO; RECEIVE_MOST]),
        }
    }

    /// Receives one packet into each spare cell, `skip` bytes behind where
    /// packets begin, up to `most`; returns how many.
    pub(super) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        packets: &mut IpBatch,
        skip: usize,
        most: usize,
    ) -> io::Result<usize> {
        let most = most.min(RECEIVE_MOST);
        let (cell_len, end) = (packets.cell_len(), HEADROOM + packets.packet_len());
        let cells = packets.spare(most).chunks_exact_mut(cell_len);
        for (index, cell) in cells.enumerate() {
            let room = &mut cell[(HEADROOM + skip).min(end)..end];
            self.iovecs[index] = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let header = &mut self.headers[index];
            *header = EMPTY_HEADER;
            header.msg_hdr.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_hdr.msg_namelen = Address::LEN;
            header.msg_hdr.msg_iov = &raw mut self.iovecs[index];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut self.controls[index]).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY:
        // - the first `most` headers are initialized and may be written.
        // - each points to its own address, iovec and control buffer
        //   with their true sizes, which live in `self`.
        // - each iovec points to its own cell of `packets`, which is
        //   borrowed for the whole call and does not move.
        // - a null timeout is allowed.
        let received = check(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                most as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        })?;
        Ok(received as usize)
    }

    /// Bytes of message `index` of the last call; `None` when it was cut short.
    pub(super) fn len(&self, index: usize) -> Option<usize> {
        let header = &self.headers[index];
        let whole = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
        whole.then_some(header.msg_len as usize)
    }

    /// What the socket said of message `index` of the last call, if it was an IPv6 socket.
    pub(super) fn ipv6(&self, index: usize, protocol: u8) -> Option<Ipv6Packet> {
        let header = &self.headers[index].msg_hdr;
        let SocketAddr::V6(source) = self.addresses[index].read_as_it_is(header.msg_namelen)?
        else {
            return None;
        };
        let mut destination = None;
        let mut fields = Ipv6Fields { flow: 0, protocol, hop_limit: HOP_LIMIT };
        for (kind, value) in self.controls[index].messages(header.msg_controllen as _) {
            let word = || Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?));
            match kind {
                libc::IPV6_PKTINFO => {
                    let octets: [u8; 16] = value.get(..16)?.try_into().ok()?;
                    destination = Some(Ipv6Addr::from(octets));
                }
                libc::IPV6_HOPLIMIT => fields.hop_limit = word()? as u8,
                libc::IPV6_FLOWINFO => fields.flow = word()?,
                _ => {}
            }
        }
        Some(Ipv6Packet { source: *source.ip(), destination: destination?, fields })
    }
}

/// Buffers for sending, reused from call to call.
pub(super) struct Sender {
    headers: Vec<mmsghdr>,
    iovecs: Vec<iovec>,
    addresses: Vec<Address>,
}

// SAFETY: the pointers inside are only followed within
// `send`, which writes them first (module invariant).
unsafe impl Send for Sender {}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            headers: Vec::with_capacity(SEND_MOST),
            iovecs: Vec::with_capacity(SEND_MOST),
            addresses: Vec::with_capacity(SEND_MOST),
        }
    }

    /// Sends the packets with these numbers, all of the socket's family, as many as it takes and a
    /// call can do; returns how many. An error is about the first.
    pub(super) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        packets: &IpBatch,
        numbers: &[usize],
    ) -> io::Result<usize> {
        self.headers.clear();
        self.iovecs.clear();
        self.addresses.clear();
        let mut address_len = 0;
        for &number in numbers.iter().take(SEND_MOST) {
            let packet = packets.packet(number);
            let address = ends_of(packet).and_then(|(_, destination)| {
                let address = SocketAddr::new(destination, 0);
                Address::new(address, Family::of(&address))
            });
            let Some((address, len)) = address else { break };
            address_len = len;
            self.addresses.push(address);
            // The kernel does not write through the iovecs of a message to be sent.
            let iov_base: *mut c_void = packet.as_ptr().cast_mut().cast();
            self.iovecs.push(iovec { iov_base, iov_len: packet.len() });
        }
        if self.addresses.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        for (address, iovec) in self.addresses.iter_mut().zip(&mut self.iovecs) {
            let mut header = EMPTY_HEADER;
            header.msg_hdr.msg_name = ptr::from_mut(address).cast();
            header.msg_hdr.msg_namelen = address_len;
            header.msg_hdr.msg_iov = iovec;
            header.msg_hdr.msg_iovlen = 1;
            self.headers.push(header);
        }
        // SAFETY:
        // - the headers are initialized and may be written.
        // - each points to its own address and iovec, with their true
        //   sizes, in vectors that have not moved since.
        // - each iovec points to bytes of `packets`, which is
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
}

/// Room for what an IPv6 socket says of a packet.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 128]);

impl Control {
    const ZERO: Self = Self([0; 128]);

    /// Kind and value of the IPv6 control messages in the first `len` bytes.
    fn messages(&self, len: usize) -> impl Iterator<Item = (c_int, &[u8])> {
        let mut rest = &self.0[..len.min(self.0.len())];
        std::iter::from_fn(move || {
            loop {
                let header: &[u8; size_of::<cmsghdr>()] = rest.first_chunk()?;
                // SAFETY: a cmsghdr is integers, of which every bit
                // pattern is one; the copy needs no alignment.
                let header: cmsghdr = unsafe { header.as_ptr().cast::<cmsghdr>().read_unaligned() };
                let (level, kind) = (header.cmsg_level, header.cmsg_type);
                // A word of 32 bits with some C libraries.
                let len: usize = header.cmsg_len as _;
                let value = rest.get(size_of::<cmsghdr>()..len)?;
                // Each begins at a multiple of the size of a word.
                let next = len.next_multiple_of(size_of::<usize>());
                rest = rest.get(next..).unwrap_or_default();
                if level == libc::IPPROTO_IPV6 {
                    return Some((kind, value));
                }
            }
        })
    }
}

/// The TUN device called `name`, made if there is none; several times, each a queue of it, where
/// `several`. A name that ends in `%d` gets the first number that is free. Returns the name, too.
/// With `superpackets` each packet has a prefix, on both ways.
pub(super) fn open_tun(
    name: &str,
    several: bool,
    superpackets: bool,
) -> io::Result<(File, String)> {
    let mut options = File::options();
    let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open("/dev/net/tun")?;
    // SAFETY: an ifreq is integers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    let queues = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let prefix = if superpackets { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TUN | libc::IFF_NO_PI | queues | prefix) as libc::c_short;
    // SAFETY: the request is initialized and its name ends with
    // a zero; the call reads and writes it only.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    if superpackets {
        let offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        // SAFETY: no pointers are passed.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) })?;
    }
    let name = request.ifr_name.iter().take_while(|&&byte| byte != 0);
    // Characters of C have a sign on some processors, and none on others.
    let name: Vec<u8> = name.map(|byte| *byte as u8).collect();
    Ok((file, String::from_utf8_lossy(&name).into_owned()))
}

/// What the stack may leave to us: checksums, and TCP segments. Source: Linux
/// `include/uapi/linux/if_tun.h`.
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;

/// Packets that one call sends at most.
const SEND_MOST: usize = 64;

/// Source: Linux `include/uapi/linux/in6.h`.
const IPV6_HDRINCL: c_int = 36;

const EMPTY_IOVEC: iovec = iovec { iov_base: ptr::null_mut(), iov_len: 0 };

// SAFETY: an mmsghdr is integers and raw pointers, for which zero is a value.
const EMPTY_HEADER: mmsghdr = unsafe { zeroed() };

// What an IPv6 socket says fits: 20 bytes of addresses and twice a
// word, each behind a header, in multiples of 8.
const _: () = assert!(size_of::<Control>() >= 24 + 2 * 8 + 3 * size_of::<cmsghdr>());

/// Turns the -1 of a system call into its error.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
