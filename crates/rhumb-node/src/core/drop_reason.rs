//! Why the node dropped something that came in, and how
//! often. Noise is counted here and returned nowhere.

use std::fmt;

use serde::{Serialize, Serializer};

/// Why something that the link had opened, or the socket had received, was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
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
    /// Its sender may not send to this node: see [`crate::Config::access`].
    SenderRefused,
}

impl DropReason {
    /// All reasons.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The label in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
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
        DropReason::ALL.iter().copied().map(|reason| (reason, self.of(reason)))
    }
}

impl Serialize for Drops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(reason, count)| (reason.as_str(), count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_counts_for_itself() {
        let mut drops = Drops::default();
        DropReason::ALL.iter().for_each(|reason| drops.count(*reason));
        assert_eq!(DropReason::NotForUs.as_str(), "not_for_us");
        assert!(drops.iter().all(|(_, count)| count == 1));
    }
}
