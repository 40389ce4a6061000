//! A program's handle of a group that its node is a part of.

use rhumb_wire::Name;
use tokio::sync::watch;

use crate::driver::{GroupState, Order};
use crate::node::Handle;
use crate::{NodeError, SendError};

/// A group that a node is a part of, until this is dropped. What is sent to it arrives at the
/// node's ports, as messages to the group's name.
#[derive(Debug)]
pub struct Group {
    name: Name,
    handle: Handle,
    /// `None` only while this is dropped.
    state: Option<watch::Receiver<GroupState>>,
}

impl Group {
    pub(crate) fn new(name: Name, handle: Handle, state: watch::Receiver<GroupState>) -> Self {
        Self { name, handle, state: Some(state) }
    }

    /// The group.
    pub fn name(&self) -> Name {
        self.name
    }

    /// How it stands.
    pub fn state(&self) -> GroupState {
        self.state.as_ref().map_or(GroupState::Waiting, |state| *state.borrow())
    }

    /// Waits until it stands otherwise than when this was asked last, and says how; `None` when the
    /// node has left. May be dropped and called again.
    pub async fn changed(&mut self) -> Option<GroupState> {
        let state = self.state.as_mut()?;
        state.changed().await.ok()?;
        Some(*state.borrow_and_update())
    }

    /// Waits until the router has the node be a part of it, or will not.
    pub(crate) async fn joined(&mut self) -> Result<(), NodeError> {
        let group = self.name;
        let state = self.state.as_mut().ok_or(NodeError::Closed)?;
        let settled = state.wait_for(|state| *state != GroupState::Waiting).await;
        match *settled.map_err(|_| NodeError::Closed)? {
            GroupState::Refused(reason) => Err(NodeError::NotInGroup { group, reason }),
            _ => Ok(()),
        }
    }

    /// Sends a datagram to a port of everybody who receives, as
    /// [`PlainPort::send_to`](crate::PlainPort::send_to) does to one. Whoever cannot be reached
    /// misses it.
    ///
    /// # Errors
    /// As [`PlainPort::send_to`](crate::PlainPort::send_to).
    pub async fn send_to(&self, to_port: u16, body: &[u8]) -> Result<(), SendError> {
        self.handle.send_to(self.name, to_port, body).await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.state = None;
        self.handle.order(Order::LeaveGroup { group: self.name });
    }
}
