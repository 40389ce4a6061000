//! The first join, as whoever called [`crate::Node::join`] sees it:
//! it succeeds, or fails for one reason, in time.

use std::time::{Duration, Instant};

use rhumb_link::LinkError;
use rhumb_wire::Name;
use rhumb_wire::nack::Reason;
use tokio::sync::oneshot;

use crate::core::{Core, Disconnection, Event};
use crate::{Config, NodeError, RouterChoice};

/// A join in progress.
pub(crate) struct Joining {
    router: RouterChoice,
    /// How long to wait for publication once the router has
    /// accepted the name; for ever, if that is required.
    publish_within: Option<Duration>,
    deadline: Instant,
    /// When the router accepted the name.
    accepted_at: Option<Instant>,
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
            publish_within: (!config.require_published).then_some(config.publish_within),
            deadline: now + config.join_timeout,
            accepted_at: None,
            last: None,
            refused: None,
            done,
        }
    }

    pub(super) fn observe(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Joined { .. } => self.accepted_at = Some(now),
            // A search that ends says again what was wrong with the last,
            // or that there was nobody in this round.
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
            Some(lease) if lease.published => return Some(Ok(())),
            Some(_) if self.goes_on_at().is_some_and(|at| at <= now) => return Some(Ok(())),
            _ if now < self.deadline => return None,
            _ => {}
        }
        Some(Err(match (core.router(), core.lease()) {
            (Some(_), Some(_)) if self.publish_within.is_some() => return Some(Ok(())),
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

    /// When to be content with a router that has accepted the name.
    fn goes_on_at(&self) -> Option<Instant> {
        Some(self.accepted_at? + self.publish_within?)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.goes_on_at().map_or(self.deadline, |at| at.min(self.deadline))
    }

    pub(super) fn tell(self, outcome: Result<(), NodeError>) {
        // Whoever asked may have lost interest; the node then ends as its handles do.
        let _ = self.done.send(outcome);
    }
}
