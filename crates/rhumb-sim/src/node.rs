//! A node in the world: the production client core, driven as its own thread drives it.

use std::sync::Arc;
use std::time::Instant;

use rhumb_link::LinkError;
use rhumb_node::Config;
use rhumb_node::core::{Core, Event, Seed};
use rhumb_trust::{Identity, Now};
use rhumb_wire::{Batch, Name};

/// A node as it runs.
pub(crate) struct NodeHost {
    pub(crate) core: Core,
    /// What arrived in the last turn: from whom, for which of its names, and the bytes.
    pub(crate) arrived: Vec<(Name, Name, Vec<u8>)>,
    /// What it told in the last turn.
    pub(crate) told: Vec<Event>,
    /// What it asked all of its local network in the last turn.
    pub(crate) asked: Vec<Vec<u8>>,
}

impl NodeHost {
    pub(crate) fn new(
        identity: Arc<Identity>,
        config: &Config,
        seed: &Seed,
        now: Now,
    ) -> Result<Self, LinkError> {
        let core = Core::new(identity, config, seed, now)?;
        Ok(Self { core, arrived: Vec::new(), told: Vec::new(), asked: Vec::new() })
    }

    /// Takes what is in `batch` and leaves there what is to be sent.
    pub(crate) fn turn(&mut self, batch: &mut Batch, now: Now) {
        if !batch.is_empty() {
            self.core.handle_batch(batch, now);
            let arrived = self.core.arrivals(batch).map(|a| (a.from, a.to, a.body.to_vec()));
            self.arrived.extend(arrived);
            batch.clear();
        }
        self.core.handle_timeout(now);
        while let Some(event) = self.core.poll_event() {
            self.told.push(event);
        }
        self.asked.extend(self.core.poll_query(now));
        loop {
            let before = batch.len();
            self.core.poll_transmit(batch, now);
            if batch.len() == before {
                return;
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.core.is_over() { None } else { self.core.poll_timeout() }
    }
}
