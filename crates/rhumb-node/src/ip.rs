//! IP packets between names: a name is an IPv6 address ([`address`](crate::Name::address)), and
//! packets travel as private datagrams on port [`PORT`]. This is what to do with each of them,
//! without device, clock or connection: [`Overlay`] decides, and says so.
//!
//! 1. [`Overlay::outgoing`]: a packet of this host's goes to a name, or nobody knows to which.
//! 2. [`Overlay::cut`]: it fits a datagram, travels in two, or its sender hears how much fits.
//! 3. [`Overlay::take`]: what a name sent is a packet of its own, which it may send here.
//!
//! Runs of TCP segments that the stack hands over under one header travel in parts, and come to the
//! stack of the other end under one header again (`runs`).
//!
//! Networks may lie behind names and behind this host: [`sites`].
//!
//! INVARIANT: a packet reaches this host only with the address of the name that sent it, which the
//! connection has proven, as its source, or one that lies behind that name; and only if the name
//! was allowed, or the packet answers one that this host sent.
//!
//! Section 9.3 of the specification is normative.

mod drop_reason;
mod flows;
mod icmp;
mod overlay;
mod packet;
mod runs;
pub mod sites;
#[cfg(test)]
mod tests;

pub use drop_reason::{DropReason, Drops};
pub use overlay::{Arrived, Counted, Cut, Outgoing, Overlay};
pub use runs::{Joined, Piece, cut as cut_run};

/// The port of datagrams that are IP packets: the protocol number of packets in packets.
pub const PORT: u16 = rhumb_end::PACKETS;
/// What every IPv6 path carries (RFC 8200, section 5): as much goes to every name, in two datagrams
/// if need be.
pub const LEAST_MTU: usize = 1280;
