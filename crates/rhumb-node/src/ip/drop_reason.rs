//! Why a packet between names was dropped, and how often.

use serde::{Serialize, Serializer};

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// It is no IP packet, or does not have the length that it says.
    Malformed,
    /// This host's: its source is not this node's address.
    NotOurs,
    /// This host's: it goes to several, or to no address of a name.
    NoName,
    /// This host's: nobody knows a name with that address.
    UnknownName,
    /// This host's: the name that it goes to cannot be reached.
    Unreachable,
    /// This host's: it is longer than the way carries, and its sender was told so.
    TooBig,
    /// This host's: its way has no room, since it carries less than programs send.
    NoRoom,
    /// Its source is not the address of the name that sent it.
    Spoofed,
    /// It is for another address than this node's.
    NotForUs,
    /// Its sender was not allowed, and it answers nothing that this host sent.
    NotAllowed,
    /// A half that was given up for another one.
    HalfGaveWay,
    /// A part of a run of segments whose headers had not come, that was given up for another one.
    PartGaveWay,
    /// Another name has the same address.
    AddressTaken,
    /// The device did not take it.
    Device,
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
    /// Counts `times` more.
    pub fn count(&mut self, reason: DropReason, times: u64) {
        self.0[reason as usize] += times;
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
