//! What a backend has done since it was made. Plain numbers: the daemon names and exports them as metrics.
//!
//! How to read them: datagrams divided by messages is the length of the runs, on which the cost per datagram depends more
//! than on anything else; messages divided by calls is how well the system calls are shared.

use crate::SendReport;

/// Totals since the backend was made. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// System calls made to receive, those that found nothing included.
    pub receive_calls: u64,
    /// Messages received: superpackets, or single datagrams.
    pub received_messages: u64,
    /// Datagrams received, after superpackets were split.
    pub received_datagrams: u64,
    /// Bytes of the datagrams received.
    pub received_bytes: u64,
    /// Messages dropped on arrival: cut short by the system, without a sender, or empty.
    pub receive_malformed: u64,
    /// Errors met on receiving that concern an earlier datagram or pass by themselves.
    pub receive_errors: u64,
    /// Messages that the system dropped because the receive queue was full. Superpackets count once. The system keeps
    /// this number in 32 bits, so it wraps. 0 where the system does not tell.
    pub receive_queue_overflows: u64,
    /// System calls made to send, those that failed included.
    pub send_calls: u64,
    /// Messages sent: runs of segments, or single datagrams.
    pub sent_messages: u64,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// Bytes of the datagrams sent.
    pub sent_bytes: u64,
    /// See [`SendReport::dropped_busy`].
    pub send_dropped_busy: u64,
    /// See [`SendReport::dropped_too_big`].
    pub send_dropped_too_big: u64,
    /// See [`SendReport::dropped_unreachable`].
    pub send_dropped_unreachable: u64,
    /// Runs of segments that the system refused and that were sent again as single datagrams.
    pub segmentation_refused: u64,
    /// Of the datagrams received, those that came by AF_XDP; the others came through a socket.
    pub xdp_received_datagrams: u64,
    /// Of the datagrams sent, those that left by AF_XDP; the others left through a socket.
    pub xdp_sent_datagrams: u64,
}

impl Counters {
    /// Adds the drops of one batch.
    pub(crate) fn add_drops(&mut self, report: &SendReport) {
        self.send_dropped_busy += report.dropped_busy as u64;
        self.send_dropped_too_big += report.dropped_too_big as u64;
        self.send_dropped_unreachable += report.dropped_unreachable as u64;
    }
}
