//! The demo's network: keys, one RIB, three routers, and what else runs as processes of their own.
//!
//! R1 and R3 have no address in the RIB: they are reached through R2, as routers of two sites are
//! through a provider. So the only way from A to B is A - R1 - R2 - R3 - B.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::remote::Remote;
use rhumb_daemon::status;
use rhumb_daemon::words::Labels;
use rhumb_trust::{Identity, save_key};
use rhumb_wire::{Name, Role};
use serde_json::Value;

use super::children::Process;
use super::patience::Patience;

/// A name of the demo and where its key lies.
pub(super) struct Holder {
    pub(super) label: &'static str,
    pub(super) identity: Arc<Identity>,
    pub(super) key: PathBuf,
}

/// A RIB or router that runs.
pub(super) struct Daemon {
    pub(super) remote: Remote,
    admin: Admin,
    /// Runs for as long as this value lives.
    process: Process,
}

/// Everything that runs. Fields are ended in this order: who depends on others first.
pub(super) struct Network {
    pub(super) a: Holder,
    pub(super) b: Holder,
    pub(super) receiver: Process,
    pub(super) r1: Daemon,
    pub(super) r3: Daemon,
    pub(super) r2: Daemon,
    pub(super) rib: Daemon,
    pub(super) labels: Labels,
}

impl Network {
    /// Starts all of it below `folder`; B puts what it receives into `inbox`.
    pub(super) fn start(folder: &Path, inbox: &Path, patience: &Patience) -> Outcome<Self> {
        let holder = |label, role| Holder::make(label, role, folder);
        let (rib, r1, r2, r3) = (
            holder("RIB", Role::Rib)?,
            holder("R1", Role::Router)?,
            holder("R2", Role::Router)?,
            holder("R3", Role::Router)?,
        );
        let (a, b) = (holder("A", Role::Node)?, holder("B", Role::Node)?);
        let mut labels = Labels::default();
        for holder in [&rib, &r1, &r2, &r3, &a, &b] {
            labels.insert(holder.name(), holder.label);
        }

        let store = folder.join("rib.redb");
        let rib = Daemon::start(&rib, "rib", &["--store".as_ref(), store.as_ref()], patience)?;
        let to_rib = rib.remote.to_string();
        let r2 = Daemon::start(&r2, "router", &["--rib".as_ref(), to_rib.as_ref()], patience)?;
        let to_r2 = r2.remote.to_string();
        let edge: [&OsStr; 6] = [
            "--rib".as_ref(),
            to_rib.as_ref(),
            "--upstream".as_ref(),
            to_r2.as_ref(),
            "--locator".as_ref(),
            "none".as_ref(),
        ];
        let r1 = Daemon::start(&r1, "router", &edge, patience)?;
        let r3 = Daemon::start(&r3, "router", &edge, patience)?;

        let mut receiver = b.run(
            &["receive".as_ref(), "--quiet".as_ref(), "--dir".as_ref(), inbox.as_ref()],
            r3.remote,
        )?;
        receiver.next_object(patience)?;
        Ok(Self { a, b, receiver, r1, r3, r2, rib, labels })
    }
}

impl Holder {
    /// A fresh key, in a file of `folder`.
    pub(super) fn make(label: &'static str, role: Role, folder: &Path) -> Outcome<Self> {
        let identity =
            Identity::generate(role, clock::now().unix_s()).map_err(Failure::operation)?;
        let key = folder.join(format!("{label}.key"));
        save_key(&key, &identity, None).map_err(Failure::operation)?;
        Ok(Self { label, identity: Arc::new(identity), key })
    }

    /// The holder's name.
    pub(super) fn name(&self) -> Name {
        self.identity.name()
    }

    /// Starts a command of a node under this name, joined to `router`.
    pub(super) fn run(&self, arguments: &[&OsStr], router: Remote) -> Outcome<Process> {
        Process::start(self.label, &self.joining(arguments, &router.to_string()))
    }

    /// As [`Holder::run`], for a command that is expected to fail.
    pub(super) fn run_silent(&self, arguments: &[&OsStr], router: Remote) -> Outcome<Process> {
        Process::start_silent(self.label, &self.joining(arguments, &router.to_string()))
    }

    fn joining<'a>(&'a self, arguments: &[&'a OsStr], router: &'a str) -> Vec<&'a OsStr> {
        let mut all = arguments.to_vec();
        all.extend::<[&OsStr; 4]>([
            "--router".as_ref(),
            router.as_ref(),
            "--key".as_ref(),
            self.key.as_ref(),
        ]);
        all
    }
}

impl Daemon {
    /// Starts `command` under the name of `holder`, on a free port.
    pub(super) fn start(
        holder: &Holder,
        command: &str,
        arguments: &[&OsStr],
        patience: &Patience,
    ) -> Outcome<Self> {
        let common: [OsString; 7] = [
            command.into(),
            "--listen".into(),
            ANY_PORT.into(),
            "--admin".into(),
            ANY_PORT.into(),
            "--key".into(),
            holder.key.clone().into(),
        ];
        let mut all: Vec<&OsStr> = common.iter().map(AsRef::as_ref).collect();
        all.extend(arguments);
        let mut process = Process::start(holder.label, &all)?;
        let ready = process.next_object(patience)?;
        let silent =
            |key: &str| Failure::operation_text(format!("{} did not say its {key}", holder.label));
        let address = ready["address"].as_str().and_then(|text| text.parse().ok());
        let address = address.ok_or_else(|| silent("address"))?;
        let admin = ready["admin"].as_str().and_then(|text| Admin::parse(text).ok());
        let admin = admin.ok_or_else(|| silent("admin"))?;
        let remote = Remote { name: Some(holder.name()), address };
        Ok(Self { remote, admin, process })
    }

    /// Ends the daemon as a power cut would: without a word to anybody.
    pub(super) fn die(mut self) -> Outcome {
        self.process.die()
    }

    /// What the daemon says about itself now.
    pub(super) fn status(&self) -> Outcome<Value> {
        status::fetch(&self.admin).map_err(Failure::operation)
    }

    /// How many datagrams or PDUs it has dropped for `reason`.
    pub(super) fn dropped(&self, kind: &str, reason: &str) -> Outcome<u64> {
        Ok(self.status()?[kind][reason].as_u64().unwrap_or(0))
    }
}

/// A free port of this machine's own network.
const ANY_PORT: &str = "127.0.0.1:0";
