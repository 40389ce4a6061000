//! A router in the world: the production switch, and a verifier beside it that takes its time.
//!
//! The verifier does one job after another, as the router's second thread does. A job waits in the
//! switch until the verifier is free, so its queue fills under load as in production.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::LinkError;
use rhumb_switch::{Config, Done, Event, Switch};
use rhumb_trust::{Identity, Now};
use rhumb_wire::Batch;
use rhumb_wire::discovery::Discovery;

/// A router as it runs.
pub(crate) struct RouterHost {
    pub(crate) switch: Switch,
    /// What the verifier found, and will say when its time has passed.
    verifying: Option<Done>,
    pub(crate) events: Vec<Event>,
}

impl RouterHost {
    pub(crate) fn new(
        identity: Arc<Identity>,
        config: Config,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        // As a router's process has it.
        let mut config = config;
        config.link.handshakes_elsewhere = true;
        let switch = Switch::new(identity, config, secret, now)?;
        Ok(Self { switch, verifying: None, events: Vec::new() })
    }

    pub(crate) fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        let answers = take_queries(batch);
        self.switch.handle_batch(batch, now);
        for (to, answer) in answers {
            batch.push(to, &answer);
        }
        self.take_events();
    }

    pub(crate) fn handle_timeout(&mut self, out: &mut Batch, now: Now) {
        self.switch.handle_timeout(now);
        self.switch.poll_transmit(out);
        self.take_events();
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.switch.poll_timeout()
    }

    /// Gives the verifier its next job, if it has none and there is one; whether it did.
    pub(crate) fn begin_verifying(&mut self) -> bool {
        if self.verifying.is_some() {
            return false;
        }
        self.verifying = self.switch.poll_job().map(rhumb_switch::Job::run);
        self.verifying.is_some()
    }

    /// The verifier's time has passed.
    pub(crate) fn finish_verifying(&mut self, out: &mut Batch, now: Now) {
        if let Some(done) = self.verifying.take() {
            self.switch.handle_done(done, now);
            self.switch.poll_transmit(out);
            self.take_events();
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.switch.poll_event() {
            if self.events.len() < MOST_EVENTS {
                self.events.push(event);
            }
        }
    }
}

/// Takes queries for routers out of a batch, and answers
/// them as a router's own thread for that does.
fn take_queries(batch: &mut Batch) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut answers = Vec::new();
    for index in 0..batch.len() {
        let (from, datagram) = batch.datagram_mut(index);
        if let Ok(Discovery::Query(nonce)) = Discovery::parse(datagram) {
            let mut answer = Vec::with_capacity(Discovery::ANSWER_LEN);
            Discovery::Answer(nonce).emit(&mut answer);
            answers.push((from, answer));
            batch.drop_datagram(index);
        }
    }
    answers
}

/// What a P-256 verification and its way to another thread take.
pub const VERIFIER_TIME: Duration = Duration::from_micros(150);
/// More are not kept, so that a world may run for days.
const MOST_EVENTS: usize = 100_000;
