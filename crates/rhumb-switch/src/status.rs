//! What a switch tells about itself: plain data, for `status`, metrics and tests.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_wire::{Name, Role};

use crate::DropReason;

/// A switch as it stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its own name.
    pub name: Name,
    /// Its RIBs.
    pub ribs: Vec<RibStatus>,
    /// Its secure sessions.
    pub sessions: Vec<SessionStatus>,
    /// The names attached to it.
    pub attached: Vec<AttachedStatus>,
    /// Entries in the flow table.
    pub flows: usize,
    /// Names whose traffic is let in.
    pub grants: usize,
    /// Routes learnt from the RIB.
    pub routes: usize,
    /// Names known to be absent.
    pub absences: usize,
    /// What it has done.
    pub counters: Counters,
    /// Dropped PDUs by reason; then datagrams that the link below dropped, by its reasons.
    pub drops: Vec<(&'static str, u64)>,
}

/// A RIB as a switch sees it.
#[derive(Debug, Clone, Copy)]
pub struct RibStatus {
    /// Where it is.
    pub address: SocketAddr,
    /// Who it is, when there is a session.
    pub name: Option<Name>,
}

/// One secure session.
#[derive(Debug, Clone, Copy)]
pub struct SessionStatus {
    /// The peer's proven name.
    pub peer: Name,
    /// What the peer is.
    pub role: Role,
    /// Where it is.
    pub address: SocketAddr,
    /// How long the session has been up.
    pub age: Duration,
}

/// A name attached to a switch.
#[derive(Debug, Clone, Copy)]
pub struct AttachedStatus {
    /// The name.
    pub name: Name,
    /// Seconds until its certificate ends.
    pub expires_in_s: u64,
}

/// What a switch has done since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// PDUs forwarded to a next hop.
    pub forwarded_pdus: u64,
    /// Bytes of the datagrams they left in.
    pub forwarded_bytes: u64,
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
    /// Routes of an earlier run that were verified and taken over.
    pub routes_restored: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// PDUs dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// PDUs dropped, each reason with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().map(|reason| (reason, self.dropped(reason)))
    }

    #[inline]
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}
