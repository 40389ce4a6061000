//! ICMP messages that a waypoint made or passed on, and those it did not, by reason.

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum IcmpSent {
    /// Of our own: a packet's hops were over.
    TimeExceeded,
    /// Of our own: a packet does not fit the next link.
    TooBig,
    /// Of our own: there is no way to the next host.
    Unreachable,
    /// Of our own: the packet's capability was revoked.
    Prohibited,
    /// Of our own: the answer to a question whether this waypoint is there.
    EchoReply,
    /// Somebody else's, about a packet that was proven to be ours: with the original packet in it.
    Translated,
    /// Somebody else's, with too little of the packet in it for a proof: passed on as it came.
    PassedOn,
}

/// Why nobody was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum IcmpDrop {
    /// Too many messages, to all or to this host.
    RateLimited,
    /// The packet is an ICMP error itself.
    AboutAnError,
    /// The original source is no host's address.
    NoHost,
    /// The packet was too big, and its sender allows that it is cut.
    MayBeCut,
    /// No error message, or none that is understood: an echo request,
    /// for example, which is the kernel's to answer.
    NoError,
    /// The message is malformed, or its checksum is wrong.
    Malformed,
    /// It is about a packet that this waypoint has not sent, by its addresses or its protocol.
    NotOurs,
    /// The packet in it ends before the original source does.
    ShortQuote,
    /// The packet in it claims to be one of ours, and its binding says that it is not.
    Forged,
    /// It is about a packet about which somebody has told before.
    Repeated,
    /// Our own kernel's, about a packet that was too big: its source has been told already.
    OwnKernel,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IcmpCounters {
    sent: [u64; IcmpSent::ALL.len()],
    dropped: [u64; IcmpDrop::ALL.len()],
}

impl IcmpSent {
    /// All of them, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its label in metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl IcmpDrop {
    /// All of them, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its label in metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl IcmpCounters {
    /// Messages sent, by what they are.
    pub fn all_sent(&self) -> impl Iterator<Item = (IcmpSent, u64)> {
        IcmpSent::ALL.iter().copied().zip(self.sent)
    }

    /// Messages not sent, by reason.
    pub fn all_dropped(&self) -> impl Iterator<Item = (IcmpDrop, u64)> {
        IcmpDrop::ALL.iter().copied().zip(self.dropped)
    }

    /// How often this was sent.
    pub fn count_sent(&self, what: IcmpSent) -> u64 {
        self.sent[what as usize]
    }

    /// How often this was the reason for sending nothing.
    pub fn count_dropped(&self, why: IcmpDrop) -> u64 {
        self.dropped[why as usize]
    }

    /// Adds those of another core.
    pub fn add(&mut self, other: &Self) {
        let mine = self.sent.iter_mut().chain(&mut self.dropped);
        for (mine, theirs) in mine.zip(other.sent.iter().chain(&other.dropped)) {
            *mine += theirs;
        }
    }

    pub(super) fn sent(&mut self, what: IcmpSent) {
        self.sent[what as usize] += 1;
    }

    pub(super) fn drop(&mut self, why: IcmpDrop) {
        self.dropped[why as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        let mut one = IcmpCounters::default();
        one.sent(IcmpSent::PassedOn);
        one.drop(IcmpDrop::Forged);
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!(
            (sum.count_sent(IcmpSent::PassedOn), sum.count_dropped(IcmpDrop::Forged)),
            (2, 2)
        );
        assert_eq!(sum.all_sent().chain([]).map(|(_, count)| count).sum::<u64>(), 2);
    }
}
