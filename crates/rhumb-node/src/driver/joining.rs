//! The first join, as whoever called [`crate::Node::join`] sees it: it succeeds, or fails for one reason, in time.

use std::net::SocketAddr;
use std::time::Instant;

use rhumb_link::LinkError;
use rhumb_wire::Name;
use rhumb_wire::nack::Reason;
use tokio::sync::oneshot;

use crate::core::{Core, Disconnection, Event};
use crate::{Config, NodeError};

/// A join in progress.
pub(crate) struct Joining {
    address: SocketAddr,
    require_published: bool,
    deadline: Instant,
    last_error: Option<LinkError>,
    /// The router that answered last.
    refused: Option<(Name, Reason)>,
    done: oneshot::Sender<Result<(), NodeError>>,
}

impl Joining {
    pub(crate) fn new(
        config: &Config,
        now: Instant,
        done: oneshot::Sender<Result<(), NodeError>>,
    ) -> Self {
        Self {
            address: config.router,
            require_published: config.require_published,
            deadline: now + config.join_timeout,
            last_error: None,
            refused: None,
            done,
        }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        match event {
            Event::Disconnected { reason: Disconnection::Connect { error, .. }, .. } => {
                self.last_error = Some(error.clone());
            }
            Event::Refused { router, reason } => self.refused = Some((*router, *reason)),
            _ => {}
        }
    }

    /// How it ended, once it has.
    pub(super) fn outcome(&self, core: &Core, now: Instant) -> Option<Result<(), NodeError>> {
        if let Some((router, reason)) = self.refused {
            return Some(Err(NodeError::Refused { router, reason }));
        }
        let address = self.address;
        if let Some(LinkError::UnexpectedName { expected, actual }) = self.last_error {
            return Some(Err(NodeError::WrongRouter { address, expected, actual }));
        }
        match core.lease() {
            Some(lease) if lease.published || !self.require_published => return Some(Ok(())),
            _ if now < self.deadline => return None,
            _ => {}
        }
        Some(Err(match (core.router(), core.lease()) {
            (Some(router), Some(_)) => NodeError::NotPublished { router },
            (Some(router), None) => NodeError::NoAnswer { router },
            (None, _) => NodeError::RouterUnreachable { address, last: self.last_error.clone() },
        }))
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn tell(self, outcome: Result<(), NodeError>) {
        // Whoever asked may have lost interest; the node then ends as its handles do.
        let _ = self.done.send(outcome);
    }
}
