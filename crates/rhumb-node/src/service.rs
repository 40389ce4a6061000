//! A program's handle of a name that its node serves.

use rhumb_trust::AdCert;
use rhumb_wire::Name;
use tokio::sync::{oneshot, watch};

use crate::driver::{Order, ServiceState};
use crate::node::Handle;
use crate::{NodeError, SendError, ServeError};

/// A name that a node answers for by its owner's AdCert. What is for it arrives at the node's ports
/// and as its files; this handle sends in its name. The name is served until this is dropped.
#[derive(Debug)]
pub struct Service {
    name: Name,
    handle: Handle,
    /// `None` only while this is dropped.
    state: Option<watch::Receiver<ServiceState>>,
}

impl Service {
    pub(crate) fn new(name: Name, handle: Handle, state: watch::Receiver<ServiceState>) -> Self {
        Self { name, handle, state: Some(state) }
    }

    /// The name served.
    pub fn name(&self) -> Name {
        self.name
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// How it stands.
    pub fn state(&self) -> ServiceState {
        self.state.as_ref().map_or(ServiceState::Waiting, |state| *state.borrow())
    }

    /// Waits until it stands otherwise than when this was asked last, and says how; `None` when the
    /// node has left. May be dropped and called again.
    pub async fn changed(&mut self) -> Option<ServiceState> {
        let state = self.state.as_mut()?;
        state.changed().await.ok()?;
        Some(*state.borrow_and_update())
    }

    /// Waits until the router takes this node's traffic for the name, or will not.
    pub(crate) async fn accepted(&mut self) -> Result<(), NodeError> {
        self.settled(|state| matches!(state, ServiceState::Serving { .. })).await
    }

    /// Waits until the name is published, or will not be.
    pub(crate) async fn published(&mut self) -> Result<(), NodeError> {
        self.settled(|state| matches!(state, ServiceState::Serving { published: true })).await
    }

    async fn settled(&mut self, is_it: impl Fn(&ServiceState) -> bool) -> Result<(), NodeError> {
        let name = self.name;
        let state = self.state.as_mut().ok_or(NodeError::Closed)?;
        let settled = state
            .wait_for(|state| is_it(state) || matches!(state, ServiceState::Ended(_)))
            .await
            .map_err(|_| NodeError::Closed)?;
        match *settled {
            ServiceState::Ended(reason) => Err(NodeError::NotServing { name, reason }),
            _ => Ok(()),
        }
    }

    /// Goes on by a newer AdCert of the same owner. The name is served all the while;
    /// [`Service::changed`] tells when routers and RIB have the new one. After an error the one
    /// before is in use as long as it holds.
    ///
    /// # Errors
    /// When it is of another owner, not for this node, does not
    /// hold now, or is older than the one there is.
    pub async fn renew(&self, ad_cert: AdCert) -> Result<(), NodeError> {
        let owner = ad_cert.owner();
        if owner != self.name {
            return Err(ServeError::OtherOwner { owner }.into());
        }
        let (done, taken) = oneshot::channel();
        self.handle.order(Order::Renew { ad_cert: Box::new(ad_cert), done });
        taken.await.map_err(|_| self.handle.end())??;
        Ok(())
    }

    /// Sends a plain datagram in the name served, as
    /// [`PlainPort::send_to`](crate::PlainPort::send_to) does in the node's own.
    ///
    /// # Errors
    /// As [`PlainPort::send_to`](crate::PlainPort::send_to).
    pub async fn send_plain(&self, to: Name, to_port: u16, body: &[u8]) -> Result<(), SendError> {
        self.handle.send_as(self.name, to, to_port, body).await
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.state = None;
        self.handle.order(Order::StopServing { name: self.name });
    }
}
