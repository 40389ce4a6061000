//! ICMP messages that a waypoint made or passed on, and those it did not, by reason.

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub const ALL: [Self; 7] = [
        Self::TimeExceeded,
        Self::TooBig,
        Self::Unreachable,
        Self::Prohibited,
        Self::EchoReply,
        Self::Translated,
        Self::PassedOn,
    ];

    /// Its label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeExceeded => "time_exceeded",
            Self::TooBig => "too_big",
            Self::Unreachable => "unreachable",
            Self::Prohibited => "prohibited",
            Self::EchoReply => "echo_reply",
            Self::Translated => "translated",
            Self::PassedOn => "passed_on",
        }
    }
}

impl IcmpDrop {
    /// All of them, in order.
    pub const ALL: [Self; 11] = [
        Self::RateLimited,
        Self::AboutAnError,
        Self::NoHost,
        Self::MayBeCut,
        Self::NoError,
        Self::Malformed,
        Self::NotOurs,
        Self::ShortQuote,
        Self::Forged,
        Self::Repeated,
        Self::OwnKernel,
    ];

    /// Its label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::AboutAnError => "about_an_error",
            Self::NoHost => "no_host",
            Self::MayBeCut => "may_be_cut",
            Self::NoError => "no_error",
            Self::Malformed => "malformed",
            Self::NotOurs => "not_ours",
            Self::ShortQuote => "short_quote",
            Self::Forged => "forged",
            Self::Repeated => "repeated",
            Self::OwnKernel => "own_kernel",
        }
    }
}

impl IcmpCounters {
    /// Messages sent, by what they are.
    pub fn all_sent(&self) -> impl Iterator<Item = (IcmpSent, u64)> {
        IcmpSent::ALL.into_iter().zip(self.sent)
    }

    /// Messages not sent, by reason.
    pub fn all_dropped(&self) -> impl Iterator<Item = (IcmpDrop, u64)> {
        IcmpDrop::ALL.into_iter().zip(self.dropped)
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
    fn lists_are_complete_and_counters_add_up() {
        assert!(IcmpSent::ALL.iter().enumerate().all(|(at, what)| *what as usize == at));
        assert!(IcmpDrop::ALL.iter().enumerate().all(|(at, why)| *why as usize == at));
        let names = IcmpDrop::ALL.map(IcmpDrop::name);
        assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), names.len());
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
