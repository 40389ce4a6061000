//! The first join, as whoever called [`crate::Node::join`] sees it: it succeeds, or fails for one reason, in time.

use std::time::Instant;

use rhumb_link::LinkError;
use rhumb_wire::Name;
use rhumb_wire::nack::Reason;
use tokio::sync::oneshot;

use crate::core::{Core, Disconnection, Event};
use crate::{Config, NodeError, RouterChoice};

/// A join in progress.
pub(crate) struct Joining {
    router: RouterChoice,
    require_published: bool,
    deadline: Instant,
    /// What was wrong with the last router tried.
    last: Option<Disconnection>,
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
            router: config.router.clone(),
            require_published: config.require_published,
            deadline: now + config.join_timeout,
            last: None,
            refused: None,
            done,
        }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        match event {
            // A search that ends says again what was wrong with the last, or that there was nobody in this round.
            Event::Disconnected { reason: Disconnection::NotFound, .. } => {}
            Event::Disconnected { reason, .. } | Event::PassedOver { reason } => {
                self.last = Some(reason.clone());
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
        if let (RouterChoice::Fixed(router), Some(Disconnection::Connect { error, .. })) =
            (&self.router, &self.last)
            && let LinkError::UnexpectedName { expected, actual } = *error
        {
            let address = router.address;
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
            (None, _) => self.unreachable(),
        }))
    }

    fn unreachable(&self) -> NodeError {
        match (&self.router, self.last.clone()) {
            (RouterChoice::Fixed(router), last) => NodeError::RouterUnreachable {
                address: router.address,
                last: match last {
                    Some(Disconnection::Connect { error, .. }) => Some(error),
                    _ => None,
                },
            },
            (RouterChoice::Discovered { roots, .. }, last) => {
                let roots = roots.iter().map(|root| root.address).collect();
                NodeError::NoRouterFound { roots, last: last.map(Box::new) }
            }
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn tell(self, outcome: Result<(), NodeError>) {
        // Whoever asked may have lost interest; the node then ends as its handles do.
        let _ = self.done.send(outcome);
    }
}
