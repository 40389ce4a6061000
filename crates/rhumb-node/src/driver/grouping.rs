//! What the handles of groups are told: how each group stands, the latest word only.

use rhumb_wire::Name;
use rhumb_wire::nack::Reason;
use tokio::sync::oneshot;

use super::watched::Watched;
use crate::NodeError;
use crate::core::Event;

/// How it stands with a group that a node is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupState {
    /// No router has taken the node for a part of it yet, or the one that had is lost.
    Waiting,
    /// The router has: what is sent to the group arrives, or may be sent.
    Joined,
    /// The router does not let it; it is asked again from time to time.
    Refused(Reason),
}

/// Whom to tell what of groups.
#[derive(Default)]
pub(super) struct Grouping {
    pub(super) states: Watched<GroupState>,
    /// Who waits to hear that a group's routers have heard of a removal, in their order.
    tellers: Vec<(Name, oneshot::Sender<Result<(), NodeError>>)>,
}

impl Grouping {
    /// Whoever has a group's routers told of a removal is to hear of it.
    pub(super) fn await_told(&mut self, group: Name, done: oneshot::Sender<Result<(), NodeError>>) {
        self.tellers.push((group, done));
    }

    pub(super) fn observe(&mut self, event: &Event) {
        match *event {
            Event::InGroup { group, .. } => self.states.tell(group, GroupState::Joined),
            Event::NotInGroup { group, reason } => {
                self.states.tell(group, GroupState::Refused(reason));
            }
            Event::GroupTold { group, refused } => {
                let told =
                    refused.map_or(Ok(()), |reason| Err(NodeError::NotRemoved { group, reason }));
                if let Some(at) = self.tellers.iter().position(|(name, _)| *name == group) {
                    // Whoever asked may be gone by now.
                    let _ = self.tellers.remove(at).1.send(told);
                }
            }
            Event::Disconnected { .. } => {
                self.states.tell_all(GroupState::Waiting, |_| false);
            }
            _ => {}
        }
    }
}
