//! Why a datagram was dropped, and how often. Noise on a datagram socket is an everyday event: it
//! is counted by reason and never an error.

use std::fmt;

/// Why a datagram was not taken, or not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// Not a datagram of the protocol, or cut short.
    Malformed,
    /// A record for a session index that is not in use.
    UnknownSession,
    /// A record that was opened before.
    Replayed,
    /// A record from before the replay window.
    TooOld,
    /// A record of an epoch whose key is gone, or that is too far ahead.
    EpochOutOfRange,
    /// A record that its session's key does not open: forged, altered, or of another session.
    BadSeal,
    /// A record of a peer whose session parameters have not arrived yet.
    Early,
    /// A record sealed under a session's former keys that asks
    /// to end it: from before the last handshake.
    StaleClose,
    /// A record under a session's former keys from the address of before, after a handshake from
    /// another address: another process that holds the peer's key.
    FormerProcess,
    /// To be sent on a session that has ended.
    StaleSession,
    /// To be sent, and larger than the peer receives, or than its path is known to carry.
    TooBig,
    /// To be sent, and shorter than its own header and tag.
    TooShort,
    /// To be sent, but the session's counter has run out.
    CounterExhausted,
    /// An alert that anyone could have written.
    PlaintextAlert,
    /// A handshake datagram that belongs to no handshake, or that its handshake does not wait for.
    UnexpectedHandshake,
    /// A foreign peer's hello that cannot be answered: in fragments, or without a cipher suite or a
    /// share of a key that we have.
    HelloRefused,
    /// A handshake with an endpoint that takes none.
    NotAccepting,
    /// A retry token or a cookie that is forged, of another address or hello, or
    /// expired; for a token a fresh one was sent.
    BadToken,
    /// A retry that no handshake waits for.
    UnexpectedRetry,
    /// As many half-open handshakes as allowed.
    HalfOpenLimit,
    /// As many half-open handshakes from one source as allowed.
    SourceLimit,
    /// More handshakes begun than one source may begin, or all
    /// strangers together; addresses were proven.
    HandshakeRate,
    /// As many sessions from one source as strangers there may have.
    SourceSessionLimit,
    /// As many sessions as allowed, or as strangers may have.
    SessionLimit,
    /// An answer that would have been larger than what an unproven address sent.
    Amplification,
    /// A handshake that the other side began, and that the library gave up.
    HandshakeFailed,
    /// A handshake that the other side began, and whose certificate proves no name.
    IdentityRefused,
}

impl DropReason {
    /// Every reason, in the order of [`Drops`].
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The reason as a metric's label.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many datagrams were dropped, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drops {
    counts: [u64; DropReason::ALL.len()],
}

impl Drops {
    /// Datagrams dropped for `reason`.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.counts[reason as usize]
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|&reason| (reason, self.of(reason)))
    }

    #[inline]
    pub(crate) fn count(&mut self, reason: DropReason) -> DropReason {
        self.counts[reason as usize] += 1;
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_counts_for_itself_under_its_own_label() {
        let mut drops = Drops::default();
        for (times, &reason) in DropReason::ALL.iter().enumerate() {
            for _ in 0..=times {
                drops.count(reason);
            }
        }
        let counted: Vec<_> = drops.iter().map(|(_, count)| count).collect();
        assert_eq!(counted, (1..=DropReason::ALL.len() as u64).collect::<Vec<_>>());
        assert_eq!(DropReason::BadSeal.as_str(), "bad_seal");
    }
}
