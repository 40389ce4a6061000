//! What happened, as plain numbers. Each only grows while the process lives.

use rhumb_wire::rib::Refusal;
use serde::Serialize;

use crate::Waits;

/// What a RIB did since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Look-ups, of routes or metadata, that found something.
    pub lookups_found: u64,
    /// Look-ups answered by a signed absence.
    pub lookups_absent: u64,
    /// Look-ups that were found by the domain around.
    pub lookups_found_beyond: u64,
    /// Questions asked of the domain around.
    pub climbs: u64,
    /// Names looked for in the domains that neighbours offer.
    pub sought: u64,
    /// Answers to neighbours about which domains are offered to them.
    pub domains_told: u64,
    /// Answers and changes of the domain around that did not verify.
    pub beyond_refused: u64,
    /// Changes that the domain around told, and that hold.
    pub beyond_changes: u64,
    /// Statements handed to the domain around.
    pub passed_up: u64,
    /// Statements that the domain around refused.
    pub passed_up_refused: u64,
    /// Absences signed; the other answers of absence came from memory.
    pub absences_signed: u64,
    /// Orders to publish that were acknowledged.
    pub publishes_stored: u64,
    /// Statements that became the newest of their kind.
    pub statements_stored: u64,
    /// Lists of names that an owner publishes that became the newest of their owner.
    pub lists_stored: u64,
    /// Look-ups answered by such a list, in force or not.
    pub lists_told: u64,
    /// Removals that count since they were published.
    pub removals_stored: u64,
    /// Sessions that ended because their peers' memberships were taken back.
    pub members_removed: u64,
    /// Transactions written, for publishes and for the sweep.
    pub commits: u64,
    /// Entries that were in memory when they were needed.
    pub entries_at_hand: u64,
    /// Entries that had to be read, and names that have none.
    pub entries_read: u64,
    /// How long look-ups were waited for that were answered.
    pub look_ups_waited: Waits,
    /// How long orders were waited for that were stored.
    pub orders_waited: Waits,
    /// Requests and orders that waited for something to be read of a store elsewhere.
    pub parked: u64,
    /// What was read of it.
    pub reads: u64,
    /// Changes by others of the same store that were heard of.
    pub heard_changes: u64,
    /// Heads of the log that were made.
    pub heads_made: u64,
    /// Proofs shown of what the log says.
    pub proofs_shown: u64,
    /// Failures of the store.
    pub store_failures: u64,
    /// Entries that the sweep made smaller or removed.
    pub entries_swept: u64,
    /// Sweeps left out because the civil clock cannot be right.
    pub sweeps_refused: u64,
    /// Changes sent to subscribers, repetitions included.
    pub changes_sent: u64,
    /// Changes that their subscribers acknowledged.
    pub changes_acknowledged: u64,
    /// Changes that were never acknowledged.
    pub changes_given_up: u64,
    /// Secure sessions that began or were renewed.
    #[serde(skip)]
    pub sessions_established: u64,
    /// Secure sessions that ended.
    #[serde(skip)]
    pub sessions_closed: u64,
    #[serde(skip)]
    refused: [u64; Refusal::ALL.len()],
    #[serde(skip)]
    dropped: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Requests answered with this refusal.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        Refusal::ALL
            .iter()
            .position(|known| *known == refusal)
            .map_or(0, |index| self.refused[index])
    }

    /// Every refusal and how often it was answered.
    pub fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.into_iter().zip(self.refused)
    }

    /// Requests dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Every reason and how often something was dropped for it.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.dropped)
    }

    pub(crate) fn count_refusal(&mut self, refusal: Refusal) {
        if let Some(index) = Refusal::ALL.iter().position(|known| *known == refusal) {
            self.refused[index] += 1;
        }
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}

/// Why something that came to a RIB got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// The datagram is none of the protocol's.
    ForeignDatagram,
    /// The endpoint did not take the datagram; its own counters say why.
    RefusedByLink,
    /// What a session carried is not a PDU.
    MalformedPdu,
    /// The PDU asks for something that a RIB does not do.
    NotARequest,
    /// The PDU is for another name than the RIB's.
    OtherDestination,
    /// The PDU's source is not the peer whose session it came by.
    ForeignSource,
    /// The request is too short to be answered.
    UnreadableRequest,
    /// Who asks, all strangers of its source, or all together, have used up the signatures of this
    /// second, or what is asked of the domain around for them.
    OverBudget,
    /// Too many orders wait; the publisher repeats this one.
    TooManyOrders,
    /// An acknowledgement of nothing that is under way to its sender: of a repetition, mostly.
    UnexpectedAcknowledgement,
    /// An absence could not be signed.
    SigningFailed,
    /// The answer could not be sent: the session is gone, or cannot take so much.
    Unsendable,
    /// The RIB does not serve who acknowledges.
    NotAuthorised,
    /// An answer to nothing that was asked of the domain around.
    UnexpectedAnswer,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The reason as a metric label.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        let mut counters = Counters::default();
        DropReason::ALL.iter().for_each(|reason| counters.count_drop(*reason));
        assert!(counters.drops().all(|(_, count)| count == 1));
        counters.count_refusal(Refusal::Expired);
        let refused: Vec<_> = counters.refusals().filter(|(_, count)| *count > 0).collect();
        assert_eq!(refused, [(Refusal::Expired, 1)]);
        assert_eq!(counters.refused(Refusal::Expired), 1);
    }
}
