//! How fast a connection may send: BBR, by a model of the path of which two things are measured,
//! the rate at which it delivers and the least round trip. Losses by chance do not slow it down,
//! and it leaves queues nearly empty.
//!
//! The rules are those of draft-cardwell-iccrg-bbr-congestion-control-00 (version 1); sections
//! below are of that draft, and what is taken from a later version says so. Measuring is in
//! [`delivery`]; what the rate means for the time of a packet is in [`crate::pace`].
//!
//! Per acknowledgement that brings news:
//! 1. measure, and count rounds;
//! 2. bring the model up to date: rate, least round trip;
//! 3. go from state to state: [`State`];
//! 4. say what follows: pace and window.
//!
//! INVARIANT: no input makes it panic, and what it keeps is bounded ([`delivery::MOST_MARKS`]).

mod bbr;
mod delivery;
mod greatest;
mod measures;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use bbr::{Acked, Bbr};

/// Makes one for each path.
#[derive(Debug, Default)]
pub(crate) struct Factory;

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Bbr::new(now, mtu))
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet: u64) {
        self.sent(bytes, now);
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, _: &RttEstimator) {
        self.acked(bytes, sent);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.update(Acked { in_flight, is_app_limited: app_limited }, now);
    }

    fn on_congestion_event(&mut self, now: Instant, _: Instant, _: bool, lost_bytes: u64) {
        self.lost(lost_bytes, now);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.set_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = Some(self.pace().saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        bbr::INITIAL_WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
