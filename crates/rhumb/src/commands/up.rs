//! `rhumb up`: one node for the programs of a host: what the file offers and brings here, a proxy,
//! and a device by which the host has its name as an address; other commands of the same user use
//! it, too. It needs no file: then it is a proxy alone, under a name that is made at the first
//! start.
//!
//! 1. What the file asks for is checked and opened ([`Opened`]), and then privileges are given up.
//! 2. The node joins, and everything begins.

mod lan;
mod people;
mod requests;
mod telling;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::{CalledPort, UpArguments};
use rhumb_daemon::config::{Allowed, Brought, ConfigFile, UpSettings, WayUp};
use rhumb_daemon::daemon::{self, Snapshot};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::{check_peer, joined_as};
use rhumb_daemon::names::{self, Book, book};
use rhumb_daemon::network::running::Passed;
use rhumb_daemon::network::{Joined, renewal};
use rhumb_daemon::node_status::answer_status;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::door::Door;
use rhumb_daemon::ports::{listen, offer, proxy, until_ended};
use rhumb_daemon::privileges::{self, Keep};
use rhumb_daemon::published::Finder;
use rhumb_daemon::published::publishing::Publisher;
use rhumb_daemon::removals::Hearing;
use rhumb_daemon::resolver::{self, Resolver};
use rhumb_daemon::running::Counter;
use rhumb_daemon::supervisor;
use rhumb_daemon::tun::Device;
use rhumb_node::Node;
use rhumb_trust::Identity;
use rhumb_wire::{Name, Role};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use people::People;
use requests::Means;

/// Runs the command: by settings, or by a network of the LAN.
pub(crate) fn start(
    arguments: &UpArguments,
    file: &ConfigFile,
    passed: &Passed<'_>,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let people = People::at_terminal(with_parent);
    match file.way_up(arguments, people.is_some())? {
        WayUp::Usual => run(file.up(arguments)?, with_parent, form),
        way => lan::Lan { arguments, file, passed, with_parent, form, people }.run(way),
    }
}

/// Runs the node, and what the settings have it do.
fn run(mut settings: UpSettings, with_parent: bool, form: Form) -> Outcome {
    let (path, identity) = own(&mut settings)?;
    let ad_certs = offer::ad_certs(&settings.ad_certs, &settings.node, identity.name())?;
    for offered in &settings.serve {
        offer::check_own(offered, identity.name(), &ad_certs)?;
    }
    if settings.commands {
        Counter::check()?;
    }
    let opened = Opened::open(&settings, &identity)?;
    let asks = Arc::clone(&identity);
    let belonging = Belonging::of(identity, Some(&path));
    // Before there are other threads.
    privileges::give_up(settings.run_as, Keep::Nothing)?;
    let counter = settings.commands.then(Counter::open).transpose()?;
    let (shown, member_of) = (belonging.clone(), belonging.clone());
    // Its signals and its parent are looked after beside it.
    let control = daemon::take_control(Some(&settings.admin), "up", false)?;
    let settings = &settings;
    joined_as(belonging, &settings.node, with_parent, Ok(()), |node| async move {
        let (router, admin) = (node.router().await, control.admin());
        let gauge = opened.device.as_ref().map(Device::gauge);
        let answers = opened.resolver.as_ref().map(Resolver::answers);
        let resolves = opened.resolver.as_ref().map(Resolver::address);
        let device = gauge.as_ref().map(|it| it.device().to_owned());
        let mut helpers = JoinSet::new();
        helpers.spawn(offer::tell_refusals(node.refusals(), form));
        let tun = settings.tun.as_ref();
        let ribs = [&settings.ribs[..], tun.map_or(&[][..], |it| &it.ribs)].concat();
        let asked = [&ribs[..], &settings.node.ribs].concat();
        let hearing = Hearing::begin(&node, &asks, &ribs)?;
        let allowed = settings.serve.iter().map(|it| &it.allow).chain(tun.map(|it| &it.allow));
        let domains: Vec<_> = allowed.flat_map(Allowed::domains).copied().collect();
        // What RIBs say of removals is heard by a session in this name.
        let own = domains.is_empty().then_some(&asks);
        let mut opened = opened;
        if let (None, Some(device)) = (own, &mut opened.device) {
            device.ask_as_stranger();
        }
        let publisher = publish(settings, &asks, own.is_some())?;
        let add = move |snapshot: &mut Snapshot| {
            gauge.iter().for_each(|it| it.report(snapshot));
            answers.iter().for_each(|it| it.report(snapshot));
            publisher.iter().for_each(|it| it.report(snapshot));
        };
        helpers.spawn(answer_status(control, node.clone(), shown, add)?);
        let finder = Finder::start(own, &asked)?;
        hearing.heed(domains);
        let mut parts = begin(&node, opened, (settings, &finder), form).await?;
        if let Some(counter) = counter {
            let (node, belonging, receiver) = (node.clone(), member_of, Arc::default());
            let means = Means { node, hearing, finder, belonging, receiver, form };
            parts.spawn(requests::answer(means, counter));
        }
        if let Some(joined) = settings.network.clone() {
            parts.spawn(stay(node.clone(), Arc::clone(&asks), joined));
        }
        let _served = offer::serve_capsules(&node, ad_certs).await?;
        let network = settings.network.as_ref().map(Joined::to_string);
        let ready = Ready { own: node.name(), network, router, admin, device, resolves };
        supervisor::say_ready(form, &ready);
        loop {
            tokio::select! {
                ended = until_ended(&node) => return ended,
                Some(part) = parts.join_next() => part.map_err(Failure::operation)??,
            }
        }
    })
}

/// Sees to it that this host stays a member of its network, and ends when it is one no longer.
async fn stay(node: Node, identity: Arc<Identity>, joined: Joined) -> Outcome {
    let lost = Arc::new(Notify::new());
    let is_lan = joined.is_lan;
    let renewal = renewal::renew(identity, joined, Arc::clone(&lost));
    let mut standing = node.watch();
    let watch = async {
        let mut was_lost = false;
        while let Some(now) = standing.changed().await {
            let is_lost = now.router.is_none();
            // A router of a link that is there again may be so at another address, and the keeper.
            if is_lost || (was_lost && is_lan) {
                lost.notify_one();
            }
            was_lost = is_lost;
        }
        std::future::pending().await
    };
    tokio::select! {
        failure = renewal => Err(failure),
        never = watch => never,
    }
}

/// The node's key file, and what is in it, with a membership of its network that holds.
fn own(settings: &mut UpSettings) -> Outcome<(PathBuf, Arc<Identity>)> {
    let path = match &settings.node.key {
        Some(path) => path.clone(),
        None => key_of_this_host()?,
    };
    settings.node.key = Some(path.clone());
    let mut identity = key::load(&path, Role::Node)?;
    if let Some(joined) = &settings.network {
        renewal::renew_before(&identity, joined)?;
        identity = key::load(&path, Role::Node)?;
    }
    Ok((path, identity))
}

/// Publishes what the file says, if it does; asks RIBs in the node's own name only if that may be.
fn publish(
    settings: &UpSettings,
    own: &Arc<Identity>,
    as_itself: bool,
) -> Outcome<Option<Publisher>> {
    if settings.publish.is_empty() {
        return Ok(None);
    }
    let asks = if as_itself { Arc::clone(own) } else { key::load_or_ephemeral(None)? };
    let mut ribs = settings.ribs.clone();
    ribs.extend(settings.node.ribs.iter().filter(|rib| !settings.ribs.contains(rib)));
    Publisher::begin(Arc::clone(own), asks, ribs, settings.publish.clone()).map(Some)
}

/// What is opened before privileges are given up.
struct Opened {
    doors: Vec<(Door, Brought)>,
    proxy: Option<(TcpListener, SocketAddr)>,
    device: Option<Device>,
    resolver: Option<Resolver>,
    book: Book,
}

impl Opened {
    fn open(settings: &UpSettings, identity: &Arc<Identity>) -> Outcome<Self> {
        let open = |it: &Brought| Door::open(it.local, it.udp).map(|door| (door, it.clone()));
        let doors = settings.forward.iter().map(open).collect::<Outcome<_>>()?;
        let proxy = settings.proxy.map(listen).transpose()?;
        let book = Book::read()?;
        let tun = settings.tun.as_ref();
        tun.map_or(Ok(()), |it| it.check_way_of(&settings.node))?;
        let resolver = tun.and_then(|it| it.resolver).map(Resolver::open).transpose()?;
        let device = tun.map(|it| Device::open(it, identity, &book)).transpose()?;
        Ok(Self { doors, proxy, device, resolver, book })
    }
}

/// Begins what the file asks for. What is wrong with any of it is said before anything is used.
async fn begin(
    node: &Node,
    opened: Opened,
    (settings, finder): (&UpSettings, &Finder),
    form: Form,
) -> Outcome<JoinSet<Outcome>> {
    let mut parts = JoinSet::new();
    let Opened { doors, proxy, device, resolver, book } = opened;
    for (door, brought) in doors {
        let CalledPort { called, port } = brought.service;
        let name = finder.find(&called).await.map_err(Failure::setup)?;
        check_peer(&settings.node, name)?;
        parts.spawn(door.lead(node.clone(), (name, port), form));
    }
    for offered in &settings.serve {
        parts.spawn(offer::offer(node, offered.clone(), None, form).await?.carry());
    }
    if let Some(listening) = proxy {
        let finder = finder.clone();
        parts.spawn(proxy::lead(node.clone(), settings.node.clone(), finder, listening, form));
    }
    if let Some(device) = device {
        let gauge = device.gauge();
        parts.spawn(device.carry(node)?);
        if let Some(resolver) = resolver {
            parts.spawn(resolver.run(book, finder.clone(), move |name| gauge.learn(name)));
        }
    }
    Ok(parts)
}

/// The key of this user's node on this host, made at the first start beside the book of names.
fn key_of_this_host() -> Outcome<PathBuf> {
    let folder = book::folder().ok_or_else(|| {
        Failure::setup_text("no place for this node's key: give --key FILE, or set HOME")
    })?;
    let path = folder.join("node.key");
    if !path.exists() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| Failure::setup_text(format!("{}: {error}", folder.display())))?;
        let identity = key::make(Role::Node, None)?;
        key::save(&path, &identity, None)?;
        names::enter_key(None, identity.name(), &path);
    }
    Ok(path)
}

struct Ready {
    own: Name,
    /// Of which network, and how it is called there.
    network: Option<String>,
    router: Option<Name>,
    admin: Option<Admin>,
    device: Option<String>,
    resolves: Option<SocketAddr>,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "node",
            "name": self.own.to_string(),
            "network": self.network,
            "router": self.router.map(|name| name.to_string()),
            "admin": self.admin,
            "ip": self.device.as_ref().map(|_| self.own.address().to_string()),
            "device": self.device,
            "resolver": self.resolves,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ready: this host is {}", self.own)?;
        if let Some(network) = &self.network {
            write!(f, ", {network}")?;
        }
        if let Some(device) = &self.device {
            write!(f, ", {} on {device}", self.own.address())?;
        }
        if let Some(admin) = &self.admin {
            write!(f, " (status: rhumb status --admin {admin})")?;
        }
        if let (Some(address), Some(device)) = (self.resolves, &self.device) {
            write!(f, "\n{}", resolver::advice(address, device))?;
        }
        Ok(())
    }
}
