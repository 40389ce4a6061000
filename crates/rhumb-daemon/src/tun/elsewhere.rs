//! TUN devices need Linux: elsewhere there are none.

use std::future::{Future, ready};
use std::sync::Arc;

use rhumb_node::Node;
use rhumb_trust::Identity;
use rhumb_wire::Name;

use crate::config::TunSettings;
use crate::daemon::Snapshot;
use crate::failure::{Failure, Outcome};
use crate::names::Book;

/// None is ever made.
#[derive(Debug)]
pub enum Device {}

/// Of no device.
#[derive(Debug, Clone)]
pub enum Gauge {}

impl Device {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn open(_: &TunSettings, _: &Arc<Identity>, _: &Book) -> Outcome<Self> {
        Err(Failure::setup_text("TUN devices need Linux"))
    }

    /// There is none.
    pub fn gauge(&self) -> Gauge {
        match *self {}
    }

    /// There is none.
    pub fn ask_as_stranger(&mut self) {
        match *self {}
    }

    /// There is none.
    ///
    /// # Errors
    ///
    /// None.
    pub fn carry<T>(self, _: &Node) -> Outcome<impl Future<Output = Outcome<T>> + use<T>> {
        Ok(ready::<Outcome<T>>(match self {}))
    }
}

impl Gauge {
    /// There is none.
    pub fn device(&self) -> &str {
        match *self {}
    }

    /// There is none.
    pub fn learn(&self, _: Name) -> bool {
        match *self {}
    }

    /// There is none.
    pub fn report(&self, _: &mut Snapshot) {
        match *self {}
    }
}
