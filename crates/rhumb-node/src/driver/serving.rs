//! What the handles of served names are told: how each name stands, the latest word only.

use std::collections::HashMap;

use rhumb_wire::Name;
use tokio::sync::watch;

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

/// The handles' ends of all served names.
#[derive(Default)]
pub(super) struct Serving {
    states: HashMap<Name, watch::Sender<ServiceState>>,
}

impl Serving {
    /// Takes over to tell about `name`; whoever was told before is told no more.
    pub(super) fn begin(&mut self, name: Name, state: watch::Sender<ServiceState>) {
        self.states.insert(name, state);
    }

    /// A handle of `name` is gone. Whether it was the last: a
    /// name that was served anew has another one.
    pub(super) fn end(&mut self, name: Name) -> bool {
        let is_last = self.states.get(&name).is_some_and(watch::Sender::is_closed);
        if is_last {
            self.states.remove(&name);
        }
        is_last
    }

    /// Whether a name has a handle.
    pub(super) fn has(&self, name: Name) -> bool {
        self.states.contains_key(&name)
    }

    pub(super) fn observe(&mut self, event: &Event) {
        match *event {
            Event::Serving { name, published, .. } => {
                self.tell(name, ServiceState::Serving { published });
            }
            Event::NotServing { name, reason } => self.tell(name, ServiceState::Ended(reason)),
            Event::Disconnected { .. } => {
                for state in self.states.values() {
                    state.send_if_modified(|state| {
                        let served = matches!(state, ServiceState::Serving { .. });
                        if served {
                            *state = ServiceState::Waiting;
                        }
                        served
                    });
                }
            }
            _ => {}
        }
    }

    fn tell(&self, name: Name, news: ServiceState) {
        if let Some(state) = self.states.get(&name) {
            state.send_replace(news);
        }
    }
}
