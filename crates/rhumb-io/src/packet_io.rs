//! The one shape of all backends: what a worker may ask of its packet I/O.
//!
//! Invariant: trouble with one datagram is counted in the report and never returned as an `Err`; a
//! returned `Err` means that the backend is of no further use.

use std::io;
use std::net::SocketAddr;

use rhumb_wire::Batch;

/// A source and sink of datagrams in batches. Never blocks for longer than a few milliseconds.
pub trait PacketIo {
    /// Forgets what is in the batch and fills it with the datagrams that wait, in order of arrival;
    /// returns how many. 0 when none wait. Each slot's peer is the sender.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Whether the last [`PacketIo::receive`] took all that waited, so that another one at once
    /// would be for nothing. False where the backend cannot tell.
    fn is_drained(&self) -> bool {
        false
    }

    /// Sends every datagram of the batch that was not dropped to its slot's
    /// peer. Datagrams to the same peer leave in the order of their slots; those
    /// to different peers may overtake each other.
    fn send(&mut self, batch: &Batch) -> io::Result<SendReport>;

    /// The address that this end is bound to.
    fn local_address(&self) -> SocketAddr;

    /// Bytes that the backend needs free in front of each datagram to send it without a copy.
    fn headroom(&self) -> usize;
}

/// What became of the datagrams of one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendReport {
    /// Datagrams handed over for transmission.
    pub sent: usize,
    /// Datagrams dropped because queues stayed full for as long as it was worth waiting.
    pub dropped_busy: usize,
    /// Datagrams dropped because they are larger than can be sent to their peer.
    pub dropped_too_big: usize,
    /// Datagrams dropped because there is no way to their peer: no
    /// route, forbidden, of another address family.
    pub dropped_unreachable: usize,
}

impl SendReport {
    /// Datagrams dropped, whatever the reason.
    pub fn dropped(&self) -> usize {
        self.dropped_busy + self.dropped_too_big + self.dropped_unreachable
    }
}
