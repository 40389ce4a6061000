//! Why a packet was dropped: one list for verifier, metrics and tests.

/// In the order of the checks: what is refused for several reasons is counted for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
#[repr(u8)]
pub enum DropReason {
    // Structure.
    /// The packet ends before its headers do.
    Truncated,
    /// Neither IP protocol 253 nor UDP to the port of Platypus.
    NotPlatypus,
    /// A fragment of the outer packet.
    Fragment,
    /// The outer IPv4 header has options.
    OuterOptions,
    /// A version that this code does not speak.
    Version,
    /// A reserved bit or flag is set.
    Reserved,
    /// Outer header, Platypus header and prefixes are not of one family.
    Family,
    /// A suite that does not exist.
    Suite,
    /// No capability, or more than four.
    Count,
    /// The pointer is past the last capability.
    Pointer,
    /// A delegation scheme that does not exist.
    Scheme,
    /// More levels than the scheme has.
    Levels,
    /// A prefix that is too long, or has bits beyond its length.
    Prefix,
    /// The header is not as long as it says.
    HeaderLength,
    /// The packet is not as long as it says.
    InnerLength,
    /// Steered to a core that it does not belong to.
    WrongCore,

    // The waypoint.
    /// The outer destination, the current capability's waypoint and this waypoint are not one.
    WrongWaypoint,
    /// A scheme of the paper that this waypoint's configuration
    /// does not allow, here or for a single address.
    SchemeRefused,
    /// A delegation that is wider than the one before.
    NotNested,
    /// The destination is outside of what was delegated.
    OutsidePrefix,

    // Time.
    /// No master key of that epoch.
    Epoch,
    /// The key window is over.
    WindowExpired,
    /// The key window has not begun.
    WindowEarly,
    /// The packet is older than three seconds, or than this waypoint's start.
    Stale,
    /// The packet comes from the future.
    Early,

    /// The binding is not that of this packet.
    Binding,

    // From here on the packet has proven its capability.
    /// The principal, or a delegation, was revoked.
    Revoked,
    /// Its time to live is over.
    TtlExpired,
    /// What it carries whole is not from and to whom its header says.
    InnerMismatch,
    /// It was here before.
    Replay,
    /// The replay filter has no place for it.
    ReplayFull,
    /// It comes from or goes to what is no host, or to this host itself where that is not wanted.
    Unroutable,
    /// It asked this waypoint whether it is there: answered, and not forwarded.
    Echo,
}

impl DropReason {
    /// All of them, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its label in metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the packet had proven its capability before it was
    /// dropped. Only then may anybody be told by ICMP.
    pub fn is_proven(self) -> bool {
        self as u8 > Self::Binding as u8
    }
}

/// Packets dropped, by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropCounts([u64; DropReason::ALL.len()]);

impl Default for DropCounts {
    fn default() -> Self {
        Self([0; DropReason::ALL.len()])
    }
}

impl DropCounts {
    /// Packets dropped for `reason`.
    pub fn count(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Packets dropped.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason and its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.0)
    }

    /// Adds those of another core.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Counts a packet. A verifier counts its own; whoever
    /// refuses packets beside it has counts of its own.
    pub fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_the_binding_is_proven() {
        assert!(!DropReason::Binding.is_proven() && DropReason::Revoked.is_proven());
    }

    #[test]
    fn each_reason_has_its_count() {
        let mut counts = DropCounts::default();
        counts.add(DropReason::Replay);
        counts.add(DropReason::Replay);
        counts.add(DropReason::Truncated);
        assert_eq!((counts.count(DropReason::Replay), counts.total()), (2, 3));
        assert_eq!(counts.iter().filter(|(_, count)| *count > 0).count(), 2);
    }
}
