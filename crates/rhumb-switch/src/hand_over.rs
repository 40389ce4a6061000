//! What a switch and its other workers tell each other.

use std::fmt;
use std::net::SocketAddr;

use rhumb_link::{Drops, LaneReport, LaneUpdate, OpenedElsewhere, SessionId};
use rhumb_wire::pdu::Label;

use crate::changes::Grounds;
use crate::clock::Moment;
use crate::counters::Counters;

/// What a worker hands to the switch.
pub struct HandOver {
    pub(crate) worker: usize,
    pub(crate) what: Handed,
}

pub(crate) enum Handed {
    /// A datagram as it came: no record, or of a lane that is not the worker's.
    Datagram { from: SocketAddr, bytes: Vec<u8> },
    /// A datagram that was opened in place.
    Opened { from: SocketAddr, bytes: Vec<u8>, record: OpenedElsewhere },
    /// What was done since the last report, and ever.
    Report(Box<Report>),
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) lanes: LaneReport,
    /// Flows that were used.
    pub(crate) used: Vec<Label>,
    pub(crate) counters: Counters,
    pub(crate) drops: Drops,
}

/// What the switch tells a worker. It may hold keys.
pub struct Order(pub(crate) Told);

pub(crate) enum Told {
    /// About the lanes it has.
    Lanes(LaneUpdate),
    /// A flow to forward by itself.
    Flow(FlowCopy),
    /// The flow of this label is otherwise by now.
    Recall(Label),
    /// A datagram of one of its lanes that came elsewhere.
    Datagram { from: SocketAddr, bytes: Vec<u8> },
}

/// What the switch gives of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowCopy {
    pub(crate) label: Label,
    pub(crate) ingress: SessionId,
    pub(crate) next: SessionId,
    pub(crate) next_label: Label,
    /// By the switch's clock.
    pub(crate) until: Moment,
    pub(crate) max_datagram_len: u16,
    /// As the switch's flow has them.
    pub(crate) as_of: u64,
    pub(crate) grounds: Grounds,
}

impl HandOver {
    /// Whether it is a report, which comes by the clock and not with datagrams.
    pub fn is_report(&self) -> bool {
        matches!(self.what, Handed::Report(_))
    }
}

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.what {
            Handed::Datagram { .. } => "datagram",
            Handed::Opened { .. } => "opened",
            Handed::Report(_) => "report",
        };
        f.debug_struct("HandOver").field("worker", &self.worker).field("what", &what).finish()
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Told::Lanes(update) => update.fmt(f),
            Told::Flow(copy) => copy.label.fmt(f),
            Told::Recall(label) => f.debug_tuple("Recall").field(label).finish(),
            Told::Datagram { .. } => f.write_str("Datagram(..)"),
        }
    }
}
