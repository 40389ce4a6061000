//! The mark on sockets, by which rules of routing know their packets: on one that is at hand, and
//! on all that the processes of a control group make, by a BPF program of three instructions.
//!
//! Invariant: nothing but the mark of a socket is changed. Source: socket(7), Linux
//! `include/uapi/linux/bpf.h` (`struct bpf_sock`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;

use crate::udp::sys::{namespace_cookie, option, set_option};
use crate::xdp::{attach_to_group, load_for_sockets};

/// Marks a socket; 0 takes the mark away. Packets that it has made already keep theirs.
///
/// # Errors
/// When it is no socket, or the process may not (CAP_NET_ADMIN).
pub fn mark_socket(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
}

/// The mark of a socket.
///
/// # Errors
/// When it is no socket.
pub fn mark_of(socket: BorrowedFd<'_>) -> io::Result<u32> {
    option(socket, libc::SOL_SOCKET, libc::SO_MARK).map(c_int::cast_unsigned)
}

/// Whether a descriptor is a socket that sends by IPv4 or IPv6.
pub fn is_internet_socket(socket: BorrowedFd<'_>) -> bool {
    let domain = option(socket, libc::SOL_SOCKET, libc::SO_DOMAIN);
    matches!(domain, Ok(libc::AF_INET | libc::AF_INET6))
}

/// Whether two sockets are of the same network namespace. True
/// where the kernel does not tell (before 5.14).
pub fn share_namespace(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (namespace_cookie(one), namespace_cookie(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => true,
    }
}

/// Marks each socket that a process in this control group (version 2), or in one below, makes from
/// now on, also when this process is gone: it ends with the group.
///
/// # Errors
/// When the kernel has no such programs, the process may not load them (CAP_BPF or CAP_SYS_ADMIN,
/// and CAP_NET_ADMIN), or a group above has one that allows no other.
pub fn mark_sockets_of_group(group: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    let program = load_for_sockets(mark)?;
    attach_to_group(program.as_fd(), group)
}
