//! What a switch has done, in numbers that only grow.

use rhumb_link::SessionId;
use rhumb_wire::Slot;
use serde::Serialize;

use crate::DropReason;

/// What a switch has done since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// PDUs forwarded to a next hop.
    pub forwarded_pdus: u64,
    /// Bytes of the datagrams they left in.
    pub forwarded_bytes: u64,
    /// Of the PDUs, those that left together with others.
    pub bundled_pdus: u64,
    /// Datagrams that these left in.
    pub bundles: u64,
    /// Copies of PDUs that went on by several ways, but for the first of each.
    pub copies: u64,
    /// NACKs made here.
    pub nacks: u64,
    /// NACKs and pongs passed back for others.
    pub relayed_back: u64,
    /// Chains verified, and found good.
    pub chains_accepted: u64,
    /// Chains verified, and refused.
    pub chains_refused: u64,
    /// Requests sent to RIBs.
    pub rib_requests: u64,
    /// Answers of RIBs that did not verify, or were older than what was known.
    pub rib_answers_refused: u64,
    /// Changes that RIBs told of and that were taken over.
    pub rib_changes: u64,
    /// Removals that RIBs told of and that count since.
    pub removals_heard: u64,
    /// Sessions that ended because their peers' memberships were taken back.
    pub members_removed: u64,
    /// Sessions that followed their peer to another address.
    pub sessions_moved: u64,
    /// Times that the path of a session was found to carry
    /// less than before, or a peer was elsewhere.
    pub paths_narrowed: u64,
    /// Routes of an earlier run that were verified and taken over.
    pub routes_restored: u64,
    /// Known flows that were looked into again, because something that they rest on had changed.
    pub flows_looked_into_again: u64,
    /// Datagrams that one worker handed to another.
    pub handed_over: u64,
    #[serde(skip)]
    drops: Drops,
}

/// For each reason so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Drops([u64; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; DropReason::ALL.len()])
    }
}

impl Counters {
    /// PDUs dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.0[reason as usize]
    }

    /// PDUs dropped, each reason with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|reason| (*reason, self.dropped(*reason)))
    }

    /// Adds what another worker has done on the path of known flows.
    pub(crate) fn add_worker(&mut self, other: &Self) {
        self.forwarded_pdus += other.forwarded_pdus;
        self.forwarded_bytes += other.forwarded_bytes;
        self.bundled_pdus += other.bundled_pdus;
        self.bundles += other.bundles;
        self.handed_over += other.handed_over;
        for (own, other) in self.drops.0.iter_mut().zip(&other.drops.0) {
            *own += other;
        }
    }

    /// A PDU went to its next hop, in a datagram of this length.
    #[inline]
    pub(crate) fn count_forwarded(&mut self, datagram_len: usize) {
        self.forwarded_pdus += 1;
        self.forwarded_bytes += datagram_len as u64;
    }

    /// So many PDUs went to their next hop, in one datagram of this length.
    #[inline]
    pub(crate) fn count_sealed(&mut self, datagram_len: usize, pdus: usize) {
        self.count_forwarded(datagram_len);
        if pdus > 1 {
            self.forwarded_pdus += pdus as u64 - 1;
            self.bundled_pdus += pdus as u64;
            self.bundles += 1;
        }
    }

    /// What had a next hop went there, or was refused and dropped from its slot.
    #[inline]
    pub(crate) fn count_sealed_in(&mut self, slots: &[Slot], next_hops: &[Option<SessionId>]) {
        for (slot, _) in slots.iter().zip(next_hops).filter(|(_, next)| next.is_some()) {
            match slot.is_empty() {
                false => self.count_forwarded(slot.len()),
                true => self.count_drop(DropReason::NextHopGone),
            }
        }
    }

    #[inline]
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.drops.0[reason as usize] += 1;
    }
}
