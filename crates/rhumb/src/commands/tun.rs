//! `rhumb tun`: this host has its name as an address, for all programs: packets of a TUN device
//! travel as private datagrams between names.
//!
//! 1. The device is made, and then privileges are given up.
//! 2. It carries ([`rhumb_daemon::tun`]).
//! 3. A [`Resolver`] tells programs which address is whose, if it is wanted.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::TunArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::{NodeSettings, TunSettings};
use rhumb_daemon::daemon::{self, Control, Snapshot};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::names::Book;
use rhumb_daemon::node_status::answer_status;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::Seldom;
use rhumb_daemon::privileges::{self, Keep};
use rhumb_daemon::published::Finder;
use rhumb_daemon::removals::Hearing;
use rhumb_daemon::resolver::{self, Resolver};
use rhumb_daemon::supervisor;
use rhumb_daemon::tun::Device;
use rhumb_node::{Refusal, Wanted};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

/// Runs the command.
pub(crate) fn run(
    arguments: &TunArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let identity = key::load_or_ephemeral(settings.key.as_deref())?;
    let name = identity.name();
    let run_as = arguments.run_as.as_deref().map(privileges::user);
    let run_as = run_as.transpose().map_err(Failure::setup_text)?;
    let book = Book::read()?;
    let tun = TunSettings::of(arguments)?;
    tun.check_way_of(settings)?;
    let resolver = tun.resolver.map(Resolver::open).transpose()?;
    let device = Device::open(&tun, &identity, &book)?;
    let asks = Arc::clone(&identity);
    let belonging = Belonging::of(identity, settings.key.as_deref());
    // Before there are other threads.
    privileges::give_up(run_as, Keep::Nothing)?;
    let control = daemon::take_control_if_asked(arguments.admin.as_ref(), "tun")?;
    let shown = belonging.clone();
    joined_as(belonging, settings, with_parent, Ok(()), |node| async move {
        let mut helpers = JoinSet::new();
        let admin = control.as_ref().and_then(Control::admin);
        let gauge = device.gauge();
        if let Some(control) = control {
            let gauge = gauge.clone();
            let answers = resolver.as_ref().map(Resolver::answers);
            let add = move |snapshot: &mut Snapshot| {
                snapshot.status["role"] = json!("tun");
                gauge.report(snapshot);
                if let Some(answers) = &answers {
                    answers.report(snapshot);
                }
            };
            helpers.spawn(answer_status(control, node.clone(), shown, add)?);
        }
        helpers.spawn(tell_refusals(node.refusals(), form));
        let resolves = resolver.as_ref().map(Resolver::address);
        let asked = if tun.ribs.is_empty() { &settings.ribs } else { &tun.ribs };
        // What RIBs say of removals is heard by a session in this name.
        let own = tun.allow.domains().is_empty().then_some(&asks);
        let finder = Finder::start(own, asked)?;
        let hearing = Hearing::begin(&node, &asks, &tun.ribs)?;
        hearing.heed(tun.allow.domains().iter().copied());
        let ended = device.carry(&node)?;
        let device = gauge.device().to_owned();
        if let Some(resolver) = resolver {
            helpers.spawn(async move {
                if let Err(failure) =
                    resolver.run(book, finder, move |name| gauge.learn(name)).await
                {
                    tracing::error!(%failure, "hosts are not resolved");
                }
            });
        }
        let ready = Ready { name, device, router: node.router().await, admin, resolves };
        supervisor::say_ready(form, &ready);
        ended.await
    })
}

/// Tells who was turned away, a few a minute.
async fn tell_refusals(mut refusals: Receiver<Refusal>, form: Form) {
    let seldom = Seldom::default();
    while let Some(Refusal { from, wanted, .. }) = refusals.recv().await {
        if matches!(wanted, Wanted::Connection { .. }) && seldom.may_say(clock::now().instant) {
            form.print(&Refused { peer: from });
        }
    }
}

struct Ready {
    name: Name,
    device: String,
    router: Option<Name>,
    admin: Option<Admin>,
    resolves: Option<SocketAddr>,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "tun",
            "name": self.name.to_string(),
            "ip": self.name.address().to_string(),
            "device": self.device,
            "router": self.router.map(|name| name.to_string()),
            "admin": self.admin,
            "resolver": self.resolves,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, device, .. } = self;
        write!(f, "ready: {name} is {} on {device}", name.address())?;
        if let Some(admin) = &self.admin {
            write!(f, " (status: rhumb status --admin {admin})")?;
        }
        let Some(address) = self.resolves else { return Ok(()) };
        write!(f, "\n{}", resolver::advice(address, device))
    }
}

/// Somebody wanted to send packets here.
struct Refused {
    peer: Name,
}

impl Serialize for Refused {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "refused": self.peer.to_string() }).serialize(serializer)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused {}, who may send nothing here; --allow would let it", self.peer)
    }
}
