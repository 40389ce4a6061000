//! `rhumb stamp daemon`: stamps for sockets that are handed over,
//! for users, and for networks behind this host.
//!
//! SIGHUP reads the configuration again: policies that stayed go on
//! untouched. A file that is wrong changes nothing.

use std::collections::HashMap;
use std::fmt;

use rhumb_daemon::cli::StampDaemonArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::{ConfigFile, StampDaemonSettings};
use rhumb_daemon::daemon;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::output::Form;
use rhumb_daemon::privileges::{self, Keep};
use rhumb_daemon::supervisor::{self, Heart};
use rhumb_waypoint::{Policy, Via};
use serde::Serialize;
use serde_json::json;

use super::door::{Allowed, Asked, Door, Granted};
use super::{Event, Stamping, report};

/// Runs the command.
pub(super) fn run(
    flags: &StampDaemonArguments,
    file: &ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let settings = file.stamp_daemon(flags)?;
    if flags.check {
        form.say("the settings are good");
        return Ok(());
    }
    let stamping = Stamping::start(&settings.stamp)?;
    let allowed = Allowed::new(&settings.allowed, settings.run_as);
    let door = settings.socket.as_ref().map(|path| Door::bind(path, allowed, settings.run_as));
    let door = door.transpose()?;
    // Before there are other threads. Ways are opened and closed as long as this runs.
    privileges::give_up(settings.run_as, Keep::Network)?;
    let control = daemon::take_control(settings.stamp.admin.as_ref(), "stamp", with_parent)?;
    let (events, waiting) = super::events();
    super::command::catch_signals(events.clone(), false)?;
    let mut server = Server { stamping, leases: HashMap::new(), policies: Vec::new() };
    server.set_policies(&settings.policies)?;
    if let Err(missing) = server.stamping.wait_for_keys(&waiting) {
        tracing::warn!(%missing, "packets are not stamped until it comes");
    }
    let _door = door.map(|door| door.open(events)).transpose()?;
    supervisor::say_ready(form, &Ready { settings: &settings, admin: control.admin() });
    let mut heart = Heart::new(clock::now().instant);
    loop {
        heart.beat(clock::now().instant);
        server.stamping.turn(false)?;
        control.answer(|| report::snapshot(&server.stamping, &server.policies));
        if control.is_stopped() {
            return Ok(());
        }
        match server.stamping.next(&waiting) {
            Some(Event::Asked(asked)) => server.handle(asked),
            Some(Event::Signal(HANGUP)) => server.reload(flags, file),
            // The others end us by the control thread.
            Some(Event::Signal(_) | Event::Ended(_)) | None => {}
        }
    }
}

struct Server {
    stamping: Stamping,
    /// The ways that each connection asked for.
    leases: HashMap<u64, Vec<usize>>,
    /// As people read them.
    policies: Vec<String>,
}

impl Server {
    fn handle(&mut self, asked: Asked) {
        match asked {
            Asked::Mark { connection, via, reply } => {
                let granted = self.grant(connection, &via);
                self.stamping.refused += u64::from(granted.is_err());
                // Who asked may have gone; then its connection is over next.
                let _ = reply.send(granted.map_err(|why| why.to_string()));
            }
            Asked::Over { connection } => {
                self.leases.remove(&connection);
                self.close_idle_ways();
            }
        }
    }

    fn grant(&mut self, connection: u64, via: &Via) -> Outcome<Granted> {
        let Stamping { instance, keys, .. } = &mut self.stamping;
        let way = instance.way(via, keys, clock::now().unix_ms)?;
        let leased = self.leases.entry(connection).or_default();
        if !leased.contains(&way) {
            leased.push(way);
        }
        let mtu = instance.ways().find(|(index, _)| *index == way).map_or(0, |(_, it)| {
            if !it.is_ready() {
                tracing::warn!(via = %it.via(), "no valid key: packets are not stamped until it comes");
            }
            it.mtu()
        });
        Ok(Granted { mark: instance.mark(way), mtu })
    }

    fn set_policies(&mut self, policies: &[Policy]) -> Outcome {
        let Stamping { instance, keys, .. } = &mut self.stamping;
        instance.set_policies(policies, keys, clock::now().unix_ms)?;
        self.policies = policies.iter().map(ToString::to_string).collect();
        self.close_idle_ways();
        Ok(())
    }

    /// Ends ways that neither a policy nor a connection has.
    fn close_idle_ways(&mut self) {
        let instance = &mut self.stamping.instance;
        let idle: Vec<usize> = instance
            .ways()
            .map(|(way, _)| way)
            .filter(|way| !instance.has_policy(*way))
            .filter(|way| !self.leases.values().any(|leased| leased.contains(way)))
            .collect();
        for way in idle {
            instance.close_way(way);
        }
    }

    fn reload(&mut self, flags: &StampDaemonArguments, file: &ConfigFile) {
        let _reloading = supervisor::reloading();
        let settings = file.read_again().and_then(|file| file.stamp_daemon(flags));
        let done = settings.and_then(|settings| self.set_policies(&settings.policies));
        match done {
            Ok(()) => tracing::info!(policies = self.policies.len(), "policies read again"),
            Err(why) => tracing::error!(%why, "the policies stay as they are"),
        }
    }
}

/// The one line that it prints when packets are stamped.
struct Ready<'a> {
    settings: &'a StampDaemonSettings,
    admin: Option<rhumb_daemon::admin::Admin>,
}

impl fmt::Display for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stamper ready: {} policies", self.settings.policies.len())?;
        if let Some(socket) = &self.settings.socket {
            write!(f, ", sockets at {}", socket.display())?;
        }
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb stamp status --admin {admin})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Ready<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "stamper",
            "policies": self.settings.policies.len(),
            "socket": self.settings.socket,
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

const HANGUP: i32 = 1;
