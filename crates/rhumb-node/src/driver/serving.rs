//! What the handles of served names are told: how each name stands, the latest word only.

use super::watched::Watched;
use crate::core::{Event, ServiceEnd};

/// How a served name stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceState {
    /// No router has accepted it yet, or the one that had is lost.
    Waiting,
    /// The router takes this node's traffic for it.
    Serving {
        /// Whether the RIB holds the AdCert, so that everybody finds it.
        published: bool,
    },
    /// It is not served here any more. Unless its AdCert has
    /// expired, it is tried again at the next router.
    Ended(ServiceEnd),
}

impl Watched<ServiceState> {
    pub(super) fn observe(&self, event: &Event) {
        match *event {
            Event::Serving { name, published, .. } => {
                self.tell(name, ServiceState::Serving { published });
            }
            Event::NotServing { name, reason } => self.tell(name, ServiceState::Ended(reason)),
            Event::Disconnected { .. } => {
                self.tell_all(ServiceState::Waiting, |it| matches!(it, ServiceState::Ended(_)));
            }
            _ => {}
        }
    }
}
