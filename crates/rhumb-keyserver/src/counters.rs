//! What happened, for metrics.

/// Counts since the start.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Key records given out.
    pub keys: u64,
    /// Answers about the zone itself.
    pub zone: u64,
    /// Answers that there is no such name, or no such record.
    pub negative: u64,
    /// Answers in datagrams that said to ask over TCP.
    pub truncated: u64,
    /// Answers with words for followers.
    pub told: u64,
    /// Updates stored.
    pub updates: u64,
    /// Updates that could not be stored.
    pub store_failures: u64,
    #[serde(skip)]
    refused: [u64; Refusal::ALL.len()],
    #[serde(skip)]
    dropped: [u64; DropReason::ALL.len()],
}

/// Why an asker got an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// Not a message that can be answered.
    Malformed,
    /// A kind of message that is not served.
    NotServed,
    /// A name or class that is not ours.
    Outside,
    /// A question or an update for which the key is missing, or another one.
    NotAllowed,
    /// A signature that does not verify.
    BadSignature,
    /// A signature made at another time.
    BadTime,
    /// An update whose serial is not above the last.
    Stale,
    /// An update that is none of ours, or finds no room.
    BadUpdate,
}

/// Why a datagram or a message got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// Too short to be a message.
    TooShort,
    /// An answer, not a question.
    NotAQuestion,
    /// Its source had too many answers already.
    RateLimited,
}

impl Counters {
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.refused[refusal as usize] += 1;
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }

    /// Refusals, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.iter().copied().zip(self.refused)
    }

    /// Messages without an answer, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.dropped)
    }
}

impl Refusal {
    /// All of them, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// For metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl DropReason {
    /// All of them, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// For metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_counts_for_itself() {
        let mut counters = Counters::default();
        Refusal::ALL.iter().for_each(|refusal| counters.refuse(*refusal));
        DropReason::ALL.iter().for_each(|reason| counters.drop(*reason));
        assert!(counters.refusals().all(|(_, count)| count == 1));
        assert!(counters.drops().all(|(_, count)| count == 1));
    }
}
