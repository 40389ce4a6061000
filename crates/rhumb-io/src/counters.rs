//! What a backend has done since it was made. Plain numbers:
//! the daemon names and exports them as metrics.
//!
//! How to read them: datagrams divided by messages is the length of the runs, on
//! which the cost per datagram depends more than on anything else; messages divided
//! by calls is how well the system calls are shared.

use crate::SendReport;

/// Totals since the backend was made. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// System calls made to wait for datagrams, or to let them gather.
    pub wait_calls: u64,
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
    /// Messages that the system dropped because the receive queue was full.
    /// Superpackets count once. The system keeps this number in 32 bits, so
    /// it wraps. 0 where the system does not tell.
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
    /// Adds those of another backend.
    pub fn add(&mut self, other: &Self) {
        let Self {
            wait_calls,
            receive_calls,
            received_messages,
            received_datagrams,
            received_bytes,
            receive_malformed,
            receive_errors,
            receive_queue_overflows,
            send_calls,
            sent_messages,
            sent_datagrams,
            sent_bytes,
            send_dropped_busy,
            send_dropped_too_big,
            send_dropped_unreachable,
            segmentation_refused,
            xdp_received_datagrams,
            xdp_sent_datagrams,
        } = other;
        self.wait_calls += wait_calls;
        self.receive_calls += receive_calls;
        self.received_messages += received_messages;
        self.received_datagrams += received_datagrams;
        self.received_bytes += received_bytes;
        self.receive_malformed += receive_malformed;
        self.receive_errors += receive_errors;
        self.receive_queue_overflows += receive_queue_overflows;
        self.send_calls += send_calls;
        self.sent_messages += sent_messages;
        self.sent_datagrams += sent_datagrams;
        self.sent_bytes += sent_bytes;
        self.send_dropped_busy += send_dropped_busy;
        self.send_dropped_too_big += send_dropped_too_big;
        self.send_dropped_unreachable += send_dropped_unreachable;
        self.segmentation_refused += segmentation_refused;
        self.xdp_received_datagrams += xdp_received_datagrams;
        self.xdp_sent_datagrams += xdp_sent_datagrams;
    }

    /// Datagrams that were not passed on, each reason with its count.
    pub fn drops(&self) -> [(&'static str, u64); 5] {
        [
            ("send_busy", self.send_dropped_busy),
            ("send_too_big", self.send_dropped_too_big),
            ("send_unreachable", self.send_dropped_unreachable),
            ("receive_malformed", self.receive_malformed),
            ("receive_queue_full", self.receive_queue_overflows),
        ]
    }

    /// Adds the drops of one batch.
    pub(crate) fn add_drops(&mut self, report: &SendReport) {
        self.send_dropped_busy += report.dropped_busy as u64;
        self.send_dropped_too_big += report.dropped_too_big as u64;
        self.send_dropped_unreachable += report.dropped_unreachable as u64;
    }
}
