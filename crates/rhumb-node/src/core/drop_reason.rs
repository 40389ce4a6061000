//! Why the node dropped something that came in, and how
//! often. Noise is counted here and returned nowhere.

use std::fmt;

/// Why something that the link had opened, or the socket had received, was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(usize)]
pub enum DropReason {
    /// The datagram is none of the protocol's.
    Foreign,
    /// The link refused it: see the link's own counters.
    Link,
    /// What was sealed is no PDU, or its data are not what its action demands.
    Malformed,
    /// It came over a session that is not the one with the router joined.
    OtherSession,
    /// It is for another name.
    NotForUs,
    /// Nodes have no use for a PDU of this action.
    NotForNodes,
    /// A NACK about a PDU that is not held: forged, late, or answered before.
    UnknownNack,
    /// A pong that answers no ping.
    UnknownPong,
    /// An Accept that answers no advertisement.
    UnknownAccept,
    /// An answer to a question for routers that we did not ask, or ask no more.
    UnknownAnswer,
    /// A label that we did not give, or do not remember.
    UnknownLabel,
    /// More answers of ours wait than the queue holds.
    AnswerQueueFull,
    /// Sealing failed: the session ended or its bound shrank meanwhile.
    NotSealed,
    /// No program listens on the port.
    PortUnbound,
    /// The program that listens on the port does not keep up.
    PortFull,
    /// A transfer message that belongs to no transfer.
    UnknownTransfer,
    /// Its sender may not send to this node: see [`crate::Config::access`].
    SenderRefused,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 17] = [
        Self::Foreign,
        Self::Link,
        Self::Malformed,
        Self::OtherSession,
        Self::NotForUs,
        Self::NotForNodes,
        Self::UnknownNack,
        Self::UnknownPong,
        Self::UnknownAccept,
        Self::UnknownAnswer,
        Self::UnknownLabel,
        Self::AnswerQueueFull,
        Self::NotSealed,
        Self::PortUnbound,
        Self::PortFull,
        Self::UnknownTransfer,
        Self::SenderRefused,
    ];

    /// The label in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Link => "link",
            Self::Malformed => "malformed",
            Self::OtherSession => "other_session",
            Self::NotForUs => "not_for_us",
            Self::NotForNodes => "not_for_nodes",
            Self::UnknownNack => "unknown_nack",
            Self::UnknownPong => "unknown_pong",
            Self::UnknownAccept => "unknown_accept",
            Self::UnknownAnswer => "unknown_answer",
            Self::UnknownLabel => "unknown_label",
            Self::AnswerQueueFull => "answer_queue_full",
            Self::NotSealed => "not_sealed",
            Self::PortUnbound => "port_unbound",
            Self::PortFull => "port_full",
            Self::UnknownTransfer => "unknown_transfer",
            Self::SenderRefused => "sender_refused",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often each thing was dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Counts one.
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// How often `reason` came up.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Every reason and how often it came up.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().map(|reason| (reason, self.of(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place_and_its_own_label() {
        let mut drops = Drops::default();
        for (at, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
            drops.count(reason);
            assert!(DropReason::ALL[..at].iter().all(|other| other.as_str() != reason.as_str()));
        }
        assert!(drops.iter().all(|(_, count)| count == 1));
    }
}
