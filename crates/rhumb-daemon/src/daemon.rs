//! What daemons have in common: a thread that waits for signals and serves the admin endpoint, what
//! that shows, and work beside the thread that moves packets or datagrams.

pub mod bgp;
mod control;
mod copies;
mod hangup;
mod http;
mod listing;
mod otlp;
mod rules;
mod snapshot;
mod telemetry;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_io::Wake;
use rhumb_wire::{Name, Role};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::admin::Admin;
use crate::failure::{Failure, Outcome};

pub use control::Control;
pub(crate) use control::bind_socket;
pub use copies::WriteCopy;
pub use hangup::{Hangup, Terminal};
pub use listing::{ListNames, Refused};
pub use rules::RulesFollower;
pub use snapshot::{Metric, Reading, Snapshot, VERSION, by_reason};
pub use telemetry::name_collector;
pub use worker::Worker;

/// The one line a daemon prints when others may use it.
pub struct Ready {
    /// What it is.
    pub role: Role,
    /// Who answers there.
    pub name: Name,
    /// Where others reach it.
    pub address: SocketAddr,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
    /// How packets come in and go out, by interface, where there is a choice.
    pub io: Vec<String>,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ready: {}@{}", self.role.as_str(), self.name, self.address)?;
        if let Some(admin) = &self.admin {
            write!(f, " (status: rhumb status --admin {admin})")?;
        }
        match &self.io[..] {
            [] => Ok(()),
            io => write!(f, "; {}", io.join(", ")),
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": self.role.as_str(),
            "name": self.name.to_string(),
            "address": self.address,
            "admin": self.admin,
            "io": self.io,
        })
        .serialize(serializer)
    }
}

/// A worker's wake and control, with its signals caught from here on. A
/// socket at the usual place is called `label`.
pub fn take_control(admin: Option<&Admin>, label: &str, with_parent: bool) -> Outcome<Control> {
    let wake = Wake::new().map_err(Failure::setup)?;
    let admin = admin.map(|admin| admin.settled(label)).transpose()?;
    Control::start(admin, label, with_parent, wake)
}

/// As [`take_control`], of a command that tells of itself only if it is asked to.
pub fn take_control_if_asked(admin: Option<&Admin>, label: &str) -> Outcome<Option<Control>> {
    match admin.is_some() || telemetry::has_collector() {
        true => take_control(admin, label, false).map(Some),
        false => Ok(None),
    }
}

/// Wakes are for threads that wait: this makes one that waits, and tells a task.
pub fn notify_by(wake: Wake, woken: Arc<Notify>) -> Outcome {
    let pass = move || {
        while let Ok(is_woken) = wake.wait(WAKE_WAIT) {
            if is_woken {
                woken.notify_one();
            }
        }
        tracing::error!("status is not answered any more: waiting for wakes failed");
    };
    let thread = std::thread::Builder::new().name("wake".to_owned());
    thread.spawn(pass).map(|_| ()).map_err(Failure::operation)
}

/// Nothing depends on it: a wake ends the wait.
const WAKE_WAIT: Duration = Duration::from_secs(3600);
