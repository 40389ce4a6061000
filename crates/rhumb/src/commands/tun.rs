//! `rhumb tun`: this host has its name as an address, for all programs: packets of a TUN device
//! travel as private datagrams between names.
//!
//! 1. The device is made, and then privileges are given up.
//! 2. A thread takes the host's packets to the names that they are for ([`departures`]).
//! 3. Another one gives the host what names send to it ([`arrivals`]).
//! 4. A third one asks RIBs whose an address is, if it may ([`seeker`]).
//! 5. A [`Resolver`] tells programs which address is whose, if it is wanted.
//!
//! What may pass is for [`Overlay`] to say, which both ask, once for each batch. See
//! `docs/decisions/0074-addresses-of-names.md`.

mod arrivals;
mod departures;
mod seeker;

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhumb_daemon::admin::Admin;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::TunArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::daemon::{self, Control, Metric, Snapshot};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::names::Book;
use rhumb_daemon::names::host::SUFFIX;
use rhumb_daemon::node_status::answer_status;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::Seldom;
use rhumb_daemon::privileges::{self, Keep};
use rhumb_daemon::remote::Remote;
use rhumb_daemon::resolver::{Answers, Resolver};
use rhumb_io::Wake;
use rhumb_io::ip::{Paths, Tun, TunOptions};
use rhumb_node::ip::{Overlay, PORT};
use rhumb_node::{Admits, Node, Refusal, Wanted};
use rhumb_trust::Identity;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use seeker::Seeker;

/// What both threads ask.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Overlay>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Overlay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    let resolver = arguments.resolver.map(Resolver::open).transpose()?;
    let tun = open(arguments, name.address())?;
    let asks = Arc::clone(&identity);
    let ribs = arguments.rib.clone();
    let belonging = Belonging::of(identity, settings.key.as_deref());
    // Before there are other threads.
    privileges::give_up(run_as, Keep::Nothing)?;
    let control = arguments.admin.as_ref();
    let control =
        control.map(|admin| daemon::take_control(Some(admin), "tun", false)).transpose()?;
    let allowed: HashSet<Name> = arguments.allow.iter().copied().collect();
    let admits = if arguments.allow_all { Admits::Everybody } else { Admits::Names(allowed) };
    let now = clock::now().instant;
    let mut overlay = Overlay::new(name, admits, now);
    for peer in arguments.peer.iter().copied().chain(book.entries().map(|it| it.name)) {
        if peer != name && !overlay.know(peer, now) {
            tracing::warn!(%peer, "another name has the same address, and was told first");
        }
    }
    let shared = Shared(Arc::new(Mutex::new(overlay)));
    let shown = belonging.clone();
    joined_as(belonging, settings, with_parent, Ok(()), |node| async move {
        let mut helpers = JoinSet::new();
        let admin = control.as_ref().and_then(Control::admin);
        if let Some(control) = control {
            let (shared, device) = (shared.clone(), tun.name().to_owned());
            let answers = resolver.as_ref().map(Resolver::answers);
            let add = move |snapshot: &mut Snapshot| {
                report(&shared.lock(), &device, snapshot);
                if let Some(answers) = &answers {
                    report_answers(answers, snapshot);
                }
            };
            helpers.spawn(answer_status(control, node.clone(), shown, add)?);
        }
        helpers.spawn(tell_refusals(node.refusals(), form));
        let (device, resolves) = (tun.name().to_owned(), resolver.as_ref().map(Resolver::address));
        let ended = carry(&node, tun, &shared, (asks, ribs))?;
        if let Some(resolver) = resolver {
            let learn =
                move |found| found == name || shared.lock().found(found, clock::now().instant);
            helpers.spawn(async move {
                if let Err(failure) = resolver.run(book, learn).await {
                    tracing::error!(%failure, "hosts are not resolved");
                }
            });
        }
        form.print(&Ready { name, device, router: node.router().await, admin, resolves });
        Err(ended.await.unwrap_or_else(|_| Failure::operation_text("the device is gone")))
    })
}

/// The device, with the address on it.
fn open(arguments: &TunArguments, address: Ipv6Addr) -> Outcome<Tun> {
    let address = IpAddr::V6(address);
    let here = Paths::new().and_then(|mut paths| paths.host_addresses()).map_err(Failure::setup)?;
    if here.contains(&address) {
        return Err(Failure::setup_text(format!(
            "this host has the address {address} already: another `rhumb tun` runs with this key; end it first"
        )));
    }
    let mut options = TunOptions::default();
    if let Some(device) = &arguments.device {
        options.name.clone_from(device);
    }
    options.mtu = arguments.mtu;
    options.addresses = vec![(address, 128)];
    let tun = Tun::open(&options).map_err(Failure::setup)?;
    tun.lead_network((IpAddr::V6(ALL), ALL_BITS)).map_err(|error| {
        Failure::setup_text(format!(
            "{error}: {ALL}/{ALL_BITS} leads elsewhere on this host, perhaps into the device of another `rhumb tun`"
        ))
    })?;
    Ok(tun)
}

/// Starts both threads. Why they have ended, when they have.
fn carry(
    node: &Node,
    tun: Tun,
    shared: &Shared,
    (asks, ribs): (Arc<Identity>, Vec<Remote>),
) -> Outcome<oneshot::Receiver<Failure>> {
    let port = node.bind(PORT, shared.lock().senders()).map_err(Failure::setup)?;
    let wake = Wake::new().map_err(Failure::setup)?;
    let to_host = tun.again().map_err(Failure::setup)?;
    let (done, ended) = oneshot::channel();
    let mut departures = departures::Departures::new(node.clone(), tun, shared.clone(), wake);
    if !ribs.is_empty() {
        departures.seek_by(|found| Seeker::start(asks, ribs, found))?;
    }
    let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(run).map(drop).map_err(Failure::operation)
    };
    spawn("departures", Box::new(move || drop(done.send(departures.run()))))?;
    let shared = shared.clone();
    spawn("arrivals", Box::new(move || arrivals::run(port, to_host, &shared)))?;
    Ok(ended)
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

fn report(overlay: &Overlay, device: &str, snapshot: &mut Snapshot) {
    let [sent, received] = overlay.traffic();
    snapshot.status["role"] = json!("tun");
    snapshot.status["tun"] = json!({
        "device": device,
        "ip": overlay.address().to_string(),
        "known_addresses": overlay.known(),
        "sent": sent,
        "received": received,
        "drops": overlay.drops(),
    });
    snapshot.metrics.extend([
        PACKETS.by("way", [("sent", sent.packets), ("received", received.packets)]),
        BYTES.by("way", [("sent", sent.bytes), ("received", received.bytes)]),
        DROPPED.by_reason(overlay.drops().iter().map(|(it, count)| (it.as_str(), count))),
    ]);
}

fn report_answers(answers: &Answers, snapshot: &mut Snapshot) {
    snapshot.status["resolver"] = answers.iter().map(|(it, count)| (it, json!(count))).collect();
    snapshot.metrics.push(ANSWERS.by("answer", answers.iter()));
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
        // The usual port is one that it does not want to hear.
        let server = match address.port() {
            53 => address.ip().to_string(),
            _ => address.to_string(),
        };
        write!(
            f,
            "\n{SUFFIX} is resolved at {address}; with systemd: resolvectl dns {device} {server} && resolvectl domain {device} '~{}'",
            SUFFIX.trim_start_matches('.'),
        )
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

const PACKETS: Metric = Metric::counter(
    "rhumb_tun_packets_total",
    "IP packets of this host that were sent to names, and those that it received.",
);
const BYTES: Metric = Metric::counter("rhumb_tun_bytes_total", "The bytes of these packets.");
const DROPPED: Metric = Metric::counter(
    "rhumb_tun_dropped_packets_total",
    "IP packets that were dropped on their way to or from the device, by reason.",
);
const ANSWERS: Metric = Metric::counter(
    "rhumb_resolver_answered_queries_total",
    "Questions for hosts that are names, by what they were answered.",
);
/// The addresses of all names.
const ALL: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
const ALL_BITS: u8 = 8;
