//! Batched packet I/O. Datagrams behind one name, [`PacketIo`]: [`udp`] for real sockets,
//! [`xdp`] past the kernel's network stack, [`memory`] for tests; [`open`] chooses between
//! the first two as told. Whole IP packets behind another, `IpIo`, in `ip`; `steering` and
//! `marks` say which packets of this host come there (on Linux).
//!
//! A backend receives into a [`Batch`](rhumb_wire::Batch) and sends what stands in one; the switch
//! edits the batch between the two, so that no datagram is copied on its way through a worker. What
//! a backend may not do is grow slow with the number of datagrams per system call: on UDP, received
//! superpackets are split where they stand (GRO), and datagrams of one size to one peer leave as
//! one message (GSO). See `docs/benchmarks.md` for what that is worth.
//!
//! Invariant: `unsafe` stands only in the modules that call the system or share memory
//! with it: `cores`, `ethtool`, `ip::sys`, `poll`, `tcp_md5`, `udp::address`, `udp::sys`,
//! `xdp::bpf`, `xdp::queue`, `xdp::ring` and `xdp::sys`.

#![deny(unsafe_code)]

mod backend;
#[cfg(target_os = "linux")]
mod checksum;
#[allow(unsafe_code)]
mod cores;
mod counters;
mod devices;
mod error;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod ethtool;
pub mod fd;
#[cfg(target_os = "linux")]
pub mod ip;
#[cfg(target_os = "linux")]
pub mod marks;
pub mod memory;
#[cfg(target_os = "linux")]
mod netlink;
mod packet_io;
#[allow(unsafe_code)]
pub mod poll;
#[cfg(target_os = "linux")]
mod runs;
#[cfg(target_os = "linux")]
pub mod steering;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod tcp_md5;
pub mod udp;
mod wake;
pub mod xdp;

pub use backend::{Backend, Choice, Opened, open};
pub use cores::pin_thread;
pub use counters::Counters;
pub use devices::Device;
pub use error::IoError;
pub use packet_io::{PacketIo, SendReport};
#[cfg(target_os = "linux")]
pub use tcp_md5::set_tcp_md5_secret;
pub use wake::Wake;
