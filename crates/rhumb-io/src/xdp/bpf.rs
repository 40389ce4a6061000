//! The system call bpf(2) behind safe functions: maps, programs, the link that ties a program to an
//! interface, and what ties one to a control group.
//!
//! Invariant: descriptors are owned, so what was made here for an interface is gone
//! with the process, however it ends: the kernel detaches a program when the last
//! descriptor of its link is closed. What is tied to a control group stays with it.
//! Source: bpf(2), Linux `include/uapi/linux/bpf.h`.

use std::ffi::c_void;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::program::{Instruction, marking};

/// A map from keys of 16 bytes to a byte.
pub(super) fn set_of_addresses(max_entries: u32) -> io::Result<OwnedFd> {
    create_map(MAP_TYPE_HASH, ADDRESS_LEN as u32, 1, max_entries)
}

/// A map from receive queues to AF_XDP sockets.
pub(super) fn ring_map(max_entries: u32) -> io::Result<OwnedFd> {
    create_map(MAP_TYPE_XSKMAP, 4, 4, max_entries)
}

/// Puts an address into a set.
pub(super) fn insert_address(map: BorrowedFd<'_>, key: &[u8; ADDRESS_LEN]) -> io::Result<()> {
    update(map, key, &[1])
}

/// Takes an address out of a set. One that is not there is an error.
pub(super) fn remove_address(map: BorrowedFd<'_>, key: &[u8; ADDRESS_LEN]) -> io::Result<()> {
    let attributes =
        MapElement { map: raw(map), key: key.as_ptr() as u64, ..MapElement::default() };
    // SAFETY: the key is valid for reads of the map's key size: maps
    // with keys of 16 bytes are what callers have.
    unsafe { bpf(MAP_DELETE_ELEM, &attributes) }.map(|_| ())
}

/// Lets `queue` lead to `socket`.
pub(super) fn insert_ring(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    update(map, &queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
}

/// Loads an XDP program. The kernel's verifier has looked at it when this succeeds.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = ProgramLoad {
        kind: PROG_TYPE_XDP,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        name: *b"rhumb\0\0\0\0\0\0\0\0\0\0\0",
        expected_attach: ATTACH_XDP,
        ..ProgramLoad::default()
    };
    // SAFETY: instructions and licence are valid for reads for the whole call,
    // in the numbers given; no log is asked for.
    unsafe { bpf(PROG_LOAD, &attributes) }.map(owned)
}

/// Ties a program to an interface for as long as the returned link is open.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    generic: bool,
) -> io::Result<OwnedFd> {
    let flags = if generic { FLAGS_SKB_MODE } else { FLAGS_DRV_MODE };
    let attributes =
        LinkCreate { program: raw(program), target: interface, attach: ATTACH_XDP, flags };
    // SAFETY: no pointers are passed.
    unsafe { bpf(LINK_CREATE, &attributes) }.map(owned)
}

/// Loads a program that marks each socket when it is made. The kernel's
/// verifier has looked at it when this succeeds.
pub(crate) fn load_for_sockets(mark: u32) -> io::Result<OwnedFd> {
    let program = marking(mark);
    let attributes = ProgramLoad {
        kind: PROG_TYPE_CGROUP_SOCK,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        name: *b"rhumb_mark\0\0\0\0\0\0",
        expected_attach: ATTACH_SOCK_CREATE,
        ..ProgramLoad::default()
    };
    // SAFETY: instructions and licence are valid for reads for the whole call,
    // in the numbers given; no log is asked for.
    unsafe { bpf(PROG_LOAD, &attributes) }.map(owned)
}

/// Ties a program to a control group for as long as that
/// is there, beside what others have tied to it.
pub(crate) fn attach_to_group(program: BorrowedFd<'_>, group: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = ProgramAttach {
        target: raw(group),
        program: raw(program),
        attach: ATTACH_SOCK_CREATE,
        flags: FLAG_ALLOW_MULTI,
        replace: 0,
    };
    // SAFETY: no pointers are passed.
    unsafe { bpf(PROG_ATTACH, &attributes) }.map(|_| ())
}

/// Runs a program on one frame as if it had arrived on queue 0, and returns what it said.
#[cfg(test)]
pub(super) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut attributes = TestRun {
        program: raw(program),
        len: frame.len() as u32,
        data: frame.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: the frame is valid for reads for the whole call; nothing is asked back but what
    // stands in `attributes`, which is valid for writes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROG_TEST_RUN,
            (&raw mut attributes).cast::<c_void>(),
            size_of::<TestRun>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(attributes.result) }
}

fn create_map(kind: u32, key_len: u32, value_len: u32, max_entries: u32) -> io::Result<OwnedFd> {
    let attributes = MapCreate { kind, key_len, value_len, max_entries, flags: 0 };
    // SAFETY: no pointers are passed.
    unsafe { bpf(MAP_CREATE, &attributes) }.map(owned)
}

/// The callers above pass keys and values of the sizes that their map was made with.
fn update(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let attributes = MapElement {
        map: raw(map),
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        ..MapElement::default()
    };
    // SAFETY: key and value are valid for reads of the map's sizes for the whole call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
}

/// # Safety
/// `T` is the part of `union bpf_attr` that `command` reads, and
/// pointers in it are valid as the command uses them.
unsafe fn bpf<T>(command: u32, attributes: &T) -> io::Result<i32> {
    // SAFETY: the attributes are valid for reads of their size
    // for the whole call; the rest is the caller's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            ptr::from_ref(attributes).cast::<c_void>(),
            size_of::<T>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: only called with what a successful call
    // returned: it is open, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_len: u32,
    value_len: u32,
    max_entries: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach: u32,
}

#[repr(C)]
struct ProgramAttach {
    target: u32,
    program: u32,
    attach: u32,
    flags: u32,
    replace: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

#[cfg(test)]
#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: u32,
    result: u32,
    len: u32,
    out_len: u32,
    data: u64,
    out: u64,
    repeat: u32,
    duration: u32,
    context_len: u32,
    context_out_len: u32,
    context: u64,
    context_out: u64,
}

/// Bytes of an address in a set: IPv6, or IPv4 mapped into it.
pub(super) const ADDRESS_LEN: usize = 16;

/// None of the helpers that the program calls is for programs under the GPL only.
const LICENSE: &[u8] = b"MIT OR Apache-2.0\0";

const MAP_CREATE: u32 = 0;
const MAP_UPDATE_ELEM: u32 = 2;
const MAP_DELETE_ELEM: u32 = 3;
const PROG_LOAD: u32 = 5;
const PROG_ATTACH: u32 = 8;
#[cfg(test)]
const PROG_TEST_RUN: u32 = 10;
const LINK_CREATE: u32 = 28;

const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const PROG_TYPE_CGROUP_SOCK: u32 = 9;
const ATTACH_SOCK_CREATE: u32 = 2;
const FLAG_ALLOW_MULTI: u32 = 1 << 1;
const ATTACH_XDP: u32 = 37;
const FLAGS_SKB_MODE: u32 = 1 << 1;
const FLAGS_DRV_MODE: u32 = 1 << 2;
