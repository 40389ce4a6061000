//! Why an end dropped something that came in, and how often. Noise is counted here and returned
//! nowhere.

use serde::{Serialize, Serializer};

/// Why a payload was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// It is no QUIC datagram, or no half of one.
    Malformed,
    /// It is of a connection between two other names: copied, or redirected on the way.
    OtherNames,
    /// A half gave way to newer ones.
    HalfGaveWay,
    /// It would begin a connection, and nothing is offered to its sender.
    NotOffered,
    /// It would begin a connection, and the rules refuse its sender.
    SenderRefused,
    /// It would begin a connection, and strangers have begun as many in this second as they may.
    TooManyHandshakes,
    /// It had begun a connection and not gone on, and gave way to one that began later.
    GaveWay,
    /// It would begin a connection, and there are as many as can be.
    TooManyConnections,
    /// It began no connection: its first packet does not open.
    NotBegun,
    /// Its connection has had its share of this end's processor, and others wait.
    OverShare,
    /// A datagram of a connection for a port that nobody has, or that its sender may not use.
    DatagramNotOffered,
    /// A record of no connection between the two names, or one that does not open.
    UnknownRecord,
    /// A record that was opened before, or is too old to tell.
    RepeatedRecord,
    /// A packet that this end was to send, which the path had become too narrow for.
    PacketTooBig,
}

/// How often each thing was dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl DropReason {
    /// All reasons.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The label in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Drops {
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
