//! What the handles of groups are told: how each group stands, the latest word only.

use std::collections::HashMap;

use rhumb_wire::Name;
use rhumb_wire::nack::Reason;
use tokio::sync::{oneshot, watch};

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

/// The handles' ends of all groups.
#[derive(Default)]
pub(super) struct Grouping {
    states: HashMap<Name, watch::Sender<GroupState>>,
    /// Who waits to hear that a group's routers have heard of a removal, in their order.
    tellers: Vec<(Name, oneshot::Sender<Result<(), NodeError>>)>,
}

impl Grouping {
    /// Takes over to tell about `group`; whoever was told before is told no more.
    pub(super) fn begin(&mut self, group: Name, state: watch::Sender<GroupState>) {
        self.states.insert(group, state);
    }

    /// A handle of `group` is gone. Whether it was the last.
    pub(super) fn end(&mut self, group: Name) -> bool {
        let is_last = self.states.get(&group).is_some_and(watch::Sender::is_closed);
        if is_last {
            self.states.remove(&group);
        }
        is_last
    }

    /// Whoever has a group's routers told of a removal is to hear of it.
    pub(super) fn await_told(&mut self, group: Name, done: oneshot::Sender<Result<(), NodeError>>) {
        self.tellers.push((group, done));
    }

    pub(super) fn observe(&mut self, event: &Event) {
        match *event {
            Event::InGroup { group, .. } => self.tell(group, GroupState::Joined),
            Event::NotInGroup { group, reason } => self.tell(group, GroupState::Refused(reason)),
            Event::GroupTold { group, refused } => {
                let told =
                    refused.map_or(Ok(()), |reason| Err(NodeError::NotRemoved { group, reason }));
                if let Some(at) = self.tellers.iter().position(|(name, _)| *name == group) {
                    // Whoever asked may be gone by now.
                    let _ = self.tellers.remove(at).1.send(told);
                }
            }
            Event::Disconnected { .. } => {
                for state in self.states.values() {
                    state.send_if_modified(|state| {
                        std::mem::replace(state, GroupState::Waiting) != GroupState::Waiting
                    });
                }
            }
            _ => {}
        }
    }

    fn tell(&self, group: Name, news: GroupState) {
        if let Some(state) = self.states.get(&group) {
            state.send_replace(news);
        }
    }
}
