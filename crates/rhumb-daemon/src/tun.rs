//! Packets of a TUN device between names (`rhumb tun`, `rhumb up`): this host has its name as an
//! address, for all programs.
//!
//! 1. [`Device::open`] makes the device, before privileges are given up.
//! 2. [`Device::carry`] starts a thread that takes the host's packets to the names that they are
//!    for (`departures`), and one that gives the host what names send to it (`arrivals`).
//! 3. A third one asks RIBs whose an address is, if it may (`seeker`).
//!
//! 4. Tasks say what lies behind this host, and hear what lies behind others (`routes`).
//!
//! What may pass is for [`Overlay`] to say, which both ask, once for each batch. See
//! `docs/decisions/0074-addresses-of-names.md`.

mod arrivals;
mod departures;
mod routes;
mod seeker;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use rhumb_io::Wake;
use rhumb_io::ip::{Paths, Tun, TunOptions};
use rhumb_node::Node;
use rhumb_node::ip::{Overlay, PORT};
use rhumb_trust::Identity;
use rhumb_wire::Name;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::clock;
use crate::config::{Allowed, TunSettings};
use crate::daemon::{Metric, Snapshot};
use crate::failure::{Failure, Outcome};
use crate::names::Book;
use crate::remote::Remote;

use seeker::Seeker;

/// What both threads ask.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Overlay>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Overlay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device with this host's address on it, which carries nothing yet.
pub struct Device {
    tun: Tun,
    shared: Shared,
    identity: Arc<Identity>,
    ribs: Vec<Remote>,
    /// RIBs may be asked in its own name, where strangers are refused.
    asks_as_itself: bool,
    allow: Allowed,
}

/// What is known of a device while it carries.
#[derive(Clone)]
pub struct Gauge {
    shared: Shared,
    own: Name,
    device: String,
}

impl Device {
    /// Makes it. Names of the book can be sent to, as those of the settings.
    ///
    /// # Errors
    ///
    /// When this process may not, or another one has the address or the network.
    pub fn open(settings: &TunSettings, identity: &Arc<Identity>, book: &Book) -> Outcome<Self> {
        let name = identity.name();
        let tun = open(settings, name.address())?;
        let now = clock::now().instant;
        let sites = settings.sites.clone();
        let mut overlay = Overlay::new(name, settings.allow.admits(), now).with_sites(sites, now);
        let peers = settings.peers.iter().copied();
        for peer in peers.chain(book.entries().map(|it| it.name)) {
            if peer != name && !overlay.know(peer, now) {
                tracing::warn!(%peer, "another name has the same address, and was told first");
            }
        }
        let shared = Shared(Arc::new(Mutex::new(overlay)));
        let (identity, ribs) = (Arc::clone(identity), settings.ribs.clone());
        let allow = settings.allow.clone();
        let asks_as_itself = allow.domains().is_empty();
        Ok(Self { tun, shared, identity, ribs, asks_as_itself, allow })
    }

    /// Asks no RIB in its own name: by a session in that, removals are heard.
    pub fn ask_as_stranger(&mut self) {
        self.asks_as_itself = false;
    }

    /// What there is to know of it from now on.
    pub fn gauge(&self) -> Gauge {
        let own = self.identity.name();
        Gauge { shared: self.shared.clone(), own, device: self.tun.name().to_owned() }
    }

    /// Carries until what it returns is there, which says why it has ended.
    ///
    /// # Errors
    ///
    /// When somebody has its port of the node, or there are no threads.
    pub fn carry<T>(self, node: &Node) -> Outcome<impl Future<Output = Outcome<T>> + use<T>> {
        let Self { tun, shared, identity, ribs, asks_as_itself, allow } = self;
        let port = node.bind_packets(shared.lock().senders()).map_err(Failure::setup)?;
        let mut routes = begin_routes(node, &shared, &allow)?;
        let wake = Wake::new().map_err(Failure::setup)?;
        let to_host = tun.again().map_err(Failure::setup)?;
        let (done, ended) = oneshot::channel();
        let mut departures = departures::Departures::new(node.clone(), tun, shared.clone(), wake);
        if !ribs.is_empty() {
            let own = asks_as_itself.then_some(identity);
            departures.seek_by(|found| Seeker::start(own, ribs, found))?;
        }
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(run).map(drop).map_err(Failure::operation)
        };
        spawn("departures", Box::new(move || drop(done.send(departures.run()))))?;
        spawn("arrivals", Box::new(move || arrivals::run(port, to_host, &shared)))?;
        Ok(async move {
            let ended = ended.await;
            routes.abort_all();
            Err(ended.unwrap_or_else(|_| Failure::operation_text("the device is gone")))
        })
    }
}

/// Says what lies behind this host, if anything does, and hears what lies behind others.
fn begin_routes(node: &Node, shared: &Shared, allow: &Allowed) -> Outcome<JoinSet<()>> {
    let mut routes = JoinSet::new();
    let overlay = shared.lock();
    let own = overlay.sites().own().to_vec();
    if !own.is_empty() {
        let listener = node.listen(PORT, allow.admits()).map_err(Failure::setup)?;
        routes.spawn(routes::say(listener, own));
    }
    let names: BTreeSet<Name> = overlay.sites().accepted().iter().map(|(_, name)| *name).collect();
    for name in names {
        routes.spawn(routes::ask(node.clone(), name, shared.clone()));
    }
    Ok(routes)
}

impl Gauge {
    /// What the system calls the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Has packets find a name by its address, which went out. Says no when the address leads to
    /// another name.
    pub fn learn(&self, found: Name) -> bool {
        found == self.own || self.shared.lock().found(found, clock::now().instant)
    }

    /// Puts in what it carries.
    pub fn report(&self, snapshot: &mut Snapshot) {
        let overlay = self.shared.lock();
        let [sent, received] = overlay.traffic();
        snapshot.status["tun"] = json!({
            "device": self.device,
            "ip": overlay.address().to_string(),
            "known_addresses": overlay.known(),
            "advertised_routes": overlay.sites().own().iter().map(IpNet::to_string).collect::<Vec<_>>(),
            "accepted_routes": overlay.sites().said().iter().map(|(network, name)| {
                json!({ "network": network.to_string(), "name": name })
            }).collect::<Vec<_>>(),
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
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.tun.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauge").field("device", &self.device).finish_non_exhaustive()
    }
}

/// The device, with the address on it.
fn open(settings: &TunSettings, address: Ipv6Addr) -> Outcome<Tun> {
    let address = IpAddr::V6(address);
    let here = Paths::new().and_then(|mut paths| paths.host_addresses()).map_err(Failure::setup)?;
    if here.contains(&address) {
        return Err(Failure::setup_text(format!(
            "this host has the address {address} already: another `rhumb tun` or `rhumb up` runs with this key; end it first"
        )));
    }
    let mut options = TunOptions::default();
    if let Some(device) = &settings.device {
        options.name.clone_from(device);
    }
    options.mtu = settings.mtu;
    options.addresses = vec![(address, 128)];
    let tun = Tun::open(&options).map_err(Failure::setup)?;
    tun.lead_network((IpAddr::V6(ALL), ALL_BITS)).map_err(|error| {
        Failure::setup_text(format!(
            "{error}: {ALL}/{ALL_BITS} leads elsewhere on this host, perhaps into the device of another `rhumb tun` or `rhumb up`"
        ))
    })?;
    for (network, _) in settings.sites.accepted() {
        tun.lead_network((network.addr(), network.prefix_len())).map_err(|error| {
            Failure::setup_text(format!("{error}: {network} leads elsewhere on this host"))
        })?;
    }
    settings.sites.own().iter().for_each(warn_of_forwarding);
    Ok(tun)
}

/// Says so where the system would not hand on what comes for a network behind this host.
fn warn_of_forwarding(network: &IpNet) {
    let key = match network {
        IpNet::V4(_) => "net/ipv4/ip_forward",
        IpNet::V6(_) => "net/ipv6/conf/all/forwarding",
    };
    let is_off =
        std::fs::read_to_string(format!("/proc/sys/{key}")).is_ok_and(|it| it.trim() == "0");
    if is_off {
        let key = key.replace('/', ".");
        tracing::warn!("this host hands nothing on to {network}: sysctl -w {key}=1");
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
/// The addresses of all names.
const ALL: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
const ALL_BITS: u8 = 8;
