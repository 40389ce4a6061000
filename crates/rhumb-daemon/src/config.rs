//! Settings: from options first, then the configuration file,
//! then the defaults below. Validated once, here.
//!
//! The file is `--config FILE`, or else the first there is of `./rhumb.toml` and
//! `~/.config/rhumb/rhumb.toml`; none is needed.

mod access;
mod border;
mod domain;
mod exchange;
mod keyserver;
mod member;
mod neighbours;
pub(crate) mod raw;
mod rib;
mod seat;
#[cfg(target_os = "linux")]
mod stamp;
mod survey;
mod telemetry;
mod tun;
mod up;
pub(crate) mod value;
mod waypoint;
mod words;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use rhumb_io::{Choice, xdp};
use rhumb_link::{DEFAULT_MAX_DATAGRAM_LEN, Limits, Rate};
use rhumb_node::RouterChoice;
use rhumb_trust::{Access, Export};
use rhumb_wire::Name;
use toml::Spanned;

use crate::admin::Admin;
use crate::cli::{
    AccessArguments, CipherChoice, IoArgument, NodeArguments, OnOff, ReceiveArguments,
    RibArguments, RouterArguments,
};
use crate::failure::{Failure, Outcome};
use crate::privileges::{self, User};
use crate::remote::{DEFAULT_RIB_PORT, DEFAULT_ROUTER_PORT, Remote, parse_address, parse_name};
use crate::size::parse_size;
use crate::store::StoreAt;
use crate::values::{
    DEFAULT_LEASE_S, LEASE_RANGE_S, LocatorChoice, MAX_DATAGRAM_RANGE, MOST_COALESCE_US,
    parse_locator, parse_workers,
};
pub use access::{AccessSettings, Service};
pub use border::{BorderSettings, BorderStampSettings};
pub use domain::{DomainSettings, RouterDomain};
pub use exchange::{ExchangeSettings, PlainClient, PlainSettings};
pub use keyserver::{KeyserverSettings, KeyserverWaypoint};
pub use member::{BgpSettings, MemberSettings, SiteName};
pub use neighbours::NeighbourSettings;
use raw::RawConfig;
pub use rib::ClusterSettings;
pub(crate) use rib::RibLimits;
pub use seat::SeatSettings;
#[cfg(target_os = "linux")]
pub use stamp::{StampDaemonSettings, StampSettings};
pub use survey::{Listens, Survey};
pub use telemetry::TelemetrySettings;
pub use tun::TunSettings;
pub use up::{Allowed, Brought, OfferedPort, UpSettings, WayUp};
use value::{Fault, RawNames, RawWorkers, line_at};
pub use waypoint::{FollowSettings, PacketIoChoice, Period, WaypointSettings};

/// What a RIB runs with.
#[derive(Debug)]
pub struct RibSettings {
    /// Its UDP address.
    pub listen: SocketAddr,
    /// Where it takes links over TLS, if anywhere.
    pub tls_listen: Option<SocketAddr>,
    /// Its key file.
    pub key: PathBuf,
    /// Where its directory is.
    pub store: StoreAt,
    /// How a cluster is spoken to, if the directory is there.
    pub cluster: ClusterSettings,
    /// The trust domain whose names it knows.
    pub domain: Option<Name>,
    /// The RIBs of the domain around.
    pub parents: Vec<Remote>,
    /// The domains beside its own.
    pub neighbours: NeighbourSettings,
    /// What strangers may make its sessions hold.
    pub limits: Limits,
    /// What its directory may take of disk and memory.
    pub store_limits: RibLimits,
    /// Bytes of UDP payload, at most.
    pub max_datagram_len: u16,
    /// Who may use it.
    pub access: AccessSettings,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// What a router runs with.
#[derive(Debug)]
pub struct RouterSettings {
    /// Its UDP address.
    pub listen: SocketAddr,
    /// Where it takes links over TLS, if anywhere.
    pub tls_listen: Option<SocketAddr>,
    /// Its key file.
    pub key: PathBuf,
    /// Where it publishes and asks.
    pub ribs: Vec<Remote>,
    /// The routers that it is reached through, the preferred one first.
    pub upstreams: Vec<Remote>,
    /// Where others reach it.
    pub locator: LocatorChoice,
    /// What routes may lead to though it is no public address.
    pub locators: Vec<rhumb_switch::Network>,
    /// Whether it answers who looks for a router.
    pub discovery: DiscoveryChoice,
    /// By sockets, or past the kernel's network stack.
    pub io: Choice,
    /// Seconds that its certificates last.
    pub lease_s: u32,
    /// What strangers may make its sessions hold.
    pub limits: Limits,
    /// Bytes of UDP payload, at most.
    pub max_datagram_len: u16,
    /// Threads that forward, 1 to 8.
    pub workers: u8,
    /// How long datagrams may gather while they come close upon each other, if at all.
    pub coalesce: Option<Duration>,
    /// One in so many answers of RIBs is put to another one as well; 0: none, and RIBs are not held
    /// to what they said.
    pub check_rib_answers: u32,
    /// Whether each keeps to a core of its own.
    pub pin: bool,
    /// The file that keeps its routes over a restart.
    pub state: Option<PathBuf>,
    /// The trust domain that it is of.
    pub domain: Option<DomainSettings>,
    /// What is demanded of foreign peers.
    pub border: Option<BorderSettings>,
    /// What there is for peers that demand capabilities.
    pub stamps: Vec<BorderStampSettings>,
    /// Who may use it.
    pub access: AccessSettings,
    /// Who it goes on as when everything is open.
    pub run_as: Option<User>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// What a node runs with.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    pub(crate) router: RouterChoice,
    /// Its key file; without one, a key is made for this run.
    pub key: Option<PathBuf>,
    pub(crate) only_peer: Option<Name>,
    /// The domain by which it is known outside of it.
    pub(crate) export: Option<Export>,
    /// Who is asked whom an owner calls something.
    pub ribs: Vec<Remote>,
    pub(crate) lease_s: u32,
    pub(crate) max_datagram_len: u16,
    /// Who may send to it.
    pub(crate) access: Access,
}

/// What a receiver runs with.
#[derive(Debug)]
pub struct ReceiveSettings {
    /// The node that receives.
    pub node: NodeSettings,
    /// Who may send to it.
    pub access: AccessSettings,
    /// Who tells who was removed from the domains that the rules are about.
    pub ribs: Vec<Remote>,
    /// Bytes of the largest file.
    pub max_size: Option<u64>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// Whether a router is found on its local networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryChoice {
    /// No.
    Off,
    /// Yes, unless the discovery port cannot be had.
    IfPossible,
    /// Yes.
    On,
}

/// The configuration file, read.
#[derive(Debug, Default)]
pub struct ConfigFile {
    path: PathBuf,
    text: String,
    raw: RawConfig,
}

impl ConfigFile {
    /// Reads `explicit`, or the first file there is of the usual places, or nothing.
    pub fn find(explicit: Option<&Path>) -> Outcome<Self> {
        if let Some(path) = explicit {
            return Self::read(path);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let usual = [Some(PathBuf::from(FILE_NAME)), home.map(|home| home.join(FILE_BELOW_HOME))];
        match usual.into_iter().flatten().find(|path| path.exists()) {
            Some(path) => Self::read(&path),
            None => Ok(Self::default()),
        }
    }

    /// The same file, read again.
    pub fn again(&self) -> Outcome<Self> {
        Self::read(&self.path)
    }

    fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::setup_text(format!("config file {}: {error}", path.display()))
        })?;
        match raw::parse(&text) {
            Ok(raw) => Ok(Self { path: path.to_owned(), text, raw }),
            Err(fault) => Err(refuse(path, &fault)),
        }
    }

    /// The filter of log lines.
    pub fn log(&self) -> Option<&str> {
        self.raw.log.as_deref()
    }

    /// Whose AES-GCM is used.
    pub fn cipher(&self) -> Outcome<Option<CipherChoice>> {
        self.parsed(self.raw.cipher.as_ref(), parse_cipher)
    }

    /// Settings of `rhumb rib`.
    pub fn rib(&self, flags: &RibArguments) -> Outcome<RibSettings> {
        let raw = &self.raw.rib;
        let listen = match flags.listen {
            Some(listen) => Some(listen),
            None => self.parsed(raw.listen.as_ref(), parse_address)?,
        };
        let domain = match flags.domain {
            Some(domain) => Some(domain),
            None => self.parsed(raw.domain.as_ref(), parse_name)?,
        };
        let parents = self.remotes(&flags.parent, raw.parent.as_ref())?;
        if domain.is_none() && !parents.is_empty() {
            return Err(Failure::setup_text(
                "a RIB below another one is of a domain of its own; give --domain NAME",
            ));
        }
        let listen = listen.unwrap_or(SocketAddr::new(DEFAULT_LISTEN_IP, DEFAULT_RIB_PORT));
        let neighbours = self.neighbour_settings(domain, !parents.is_empty(), listen)?;
        Ok(RibSettings {
            domain,
            parents,
            neighbours,
            listen,
            tls_listen: self.tls_listen(flags.tls_listen, raw.tls_listen.as_ref())?,
            key: required_key(flags.key.as_ref().or(raw.key.as_ref()), "rib")?,
            store: self.store(flags)?,
            cluster: self.cluster(flags)?,
            limits: limits(raw.sessions_per_address, raw.handshakes_per_address),
            store_limits: self.rib_limits(flags)?,
            max_datagram_len: self.max_datagram(flags.max_datagram, raw.max_datagram.as_ref())?,
            access: self.access(Service::Rib, &flags.access)?,
            admin: self.admin(flags.admin.as_ref(), raw.admin.as_ref())?,
        })
    }

    /// Settings of `rhumb router`.
    pub fn router(&self, flags: &RouterArguments) -> Outcome<RouterSettings> {
        let raw = &self.raw.router;
        let listen = match flags.listen {
            Some(listen) => Some(listen),
            None => self.parsed(raw.listen.as_ref(), parse_address)?,
        };
        let ribs = self.remotes(&flags.rib, raw.rib.as_ref())?;
        if ribs.is_empty() {
            return Err(Failure::setup_text(
                "a router needs a RIB; give --rib NAME@ADDR (`rhumb rib` prints both)",
            ));
        }
        let upstreams = self.remotes(&flags.upstream, raw.upstream.as_ref())?;
        let locator = self.locator(flags)?;
        if locator == LocatorChoice::None && upstreams.is_empty() {
            return Err(Failure::setup_text(
                "a router without a locator is reached through another; give --upstream NAME@ADDR",
            ));
        }
        let listen = listen.unwrap_or(SocketAddr::new(DEFAULT_LISTEN_IP, DEFAULT_ROUTER_PORT));
        let asked = flags.discovery.map(|choice| choice == OnOff::On).or(raw.discovery);
        let discovery = match (asked, listen.ip().is_loopback()) {
            (Some(true), true) => {
                return Err(Failure::setup_text(format!(
                    "nobody on the local network reaches {listen}; listen elsewhere, or give \
                     --discovery off"
                )));
            }
            (Some(true), false) => DiscoveryChoice::On,
            (None, false) => DiscoveryChoice::IfPossible,
            (Some(false), _) | (None, true) => DiscoveryChoice::Off,
        };
        let workers = self.workers(flags.workers)?;
        let io = self.io(flags)?;
        let domain = self.domain(flags)?;
        Ok(RouterSettings {
            border: self.border(domain.is_some())?,
            domain,
            listen,
            tls_listen: self.tls_listen(flags.tls_listen, raw.tls_listen.as_ref())?,
            key: required_key(flags.key.as_ref().or(raw.key.as_ref()), "router")?,
            ribs,
            upstreams,
            locator,
            locators: self.locators()?,
            discovery,
            io,
            lease_s: self.lease(flags.lease_s, raw.lease_s.as_ref())?,
            limits: limits(raw.sessions_per_address, raw.handshakes_per_address),
            max_datagram_len: self.max_datagram(flags.max_datagram, raw.max_datagram.as_ref())?,
            workers,
            coalesce: self.coalesce(flags.coalesce_us)?,
            check_rib_answers: raw
                .check_rib_answers
                .unwrap_or(rhumb_switch::DEFAULT_CHECK_RIB_ANSWERS),
            pin: flags.pin || raw.pin.unwrap_or(false),
            state: flags.state.clone().or_else(|| raw.state.clone()),
            stamps: self.stamps()?,
            access: self.access(Service::Router, &flags.access)?,
            run_as: self.run_as(flags.run_as.as_deref(), raw.run_as.as_ref())?,
            admin: self.admin(flags.admin.as_ref(), raw.admin.as_ref())?,
        })
    }

    fn tls_listen(
        &self,
        flag: Option<SocketAddr>,
        raw: Option<&Spanned<String>>,
    ) -> Outcome<Option<SocketAddr>> {
        if flag.is_some() {
            return Ok(flag);
        }
        self.parsed(raw, parse_address)
    }

    /// Those of options, or else those of the file.
    fn remotes(
        &self,
        flags: &[Remote],
        raw: Option<&Vec<Spanned<String>>>,
    ) -> Outcome<Vec<Remote>> {
        let mut remotes = flags.to_vec();
        if remotes.is_empty() {
            for text in raw.into_iter().flatten() {
                remotes.extend(self.parsed(Some(text), str::parse::<Remote>)?);
            }
        }
        Ok(remotes)
    }

    fn locator(&self, flags: &RouterArguments) -> Outcome<LocatorChoice> {
        let locator = match flags.locator {
            Some(locator) => Some(locator),
            None => self.parsed(self.raw.router.locator.as_ref(), parse_locator)?,
        };
        Ok(locator.unwrap_or(LocatorChoice::Automatic))
    }

    /// What routes may lead to though it is no public address.
    fn locators(&self) -> Outcome<Vec<rhumb_switch::Network>> {
        let network =
            |text: &str| text.parse::<rhumb_switch::Network>().map_err(|error| error.to_string());
        let texts = self.raw.router.locators.iter().flatten();
        let read = texts.filter_map(|text| self.parsed(Some(text), network).transpose());
        read.collect()
    }

    fn io(&self, flags: &RouterArguments) -> Outcome<Choice> {
        let raw = &self.raw.router;
        let io = match flags.io {
            Some(io) => Some(io),
            None => self.parsed(raw.io.as_ref(), parse_io)?,
        };
        let interfaces = match &flags.interface[..] {
            [] => raw.interface.clone().map_or(Vec::new(), RawNames::into_vec),
            flags => flags.to_vec(),
        };
        match io.unwrap_or(IoArgument::Socket) {
            IoArgument::Socket if !flags.interface.is_empty() => Err(Failure::setup_text(
                "sockets work on all interfaces; --interface goes with --io xdp or --io auto",
            )),
            IoArgument::Socket => Ok(Choice::Socket),
            IoArgument::Auto => Ok(Choice::Auto { interfaces }),
            IoArgument::Xdp => {
                Ok(Choice::Xdp(xdp::Options { interfaces, ..xdp::Options::default() }))
            }
        }
    }

    /// The admin address in the file; of several daemons, that of the first in this order.
    pub fn any_admin(&self) -> Outcome<Option<Admin>> {
        let raw = &self.raw;
        let sections = [
            &raw.router.admin,
            &raw.rib.admin,
            &raw.keyserver.admin,
            &raw.waypoint.admin,
            &raw.exchange.admin,
            &raw.member.admin,
            #[cfg(target_os = "linux")]
            &raw.stamp.admin,
            &raw.up.admin,
            &raw.receive.admin,
        ];
        let first = sections.into_iter().find_map(Option::as_ref);
        Ok(self.admin(None, first)?.map(Admin::asked))
    }

    /// Settings of every command that joins as a node.
    pub fn node(&self, flags: &NodeArguments) -> Outcome<NodeSettings> {
        let raw = &self.raw.node;
        let only_peer = match flags.only_peer {
            Some(name) => Some(name),
            None => self.parsed(raw.only_peer.as_ref(), parse_name)?,
        };
        Ok(NodeSettings {
            router: self.router_choice(flags)?,
            key: flags.key.clone().or_else(|| raw.key.clone()),
            only_peer,
            export: self.export(flags)?,
            ribs: self.remotes(&[], raw.rib.as_ref())?,
            lease_s: self.lease(flags.lease_s, raw.lease_s.as_ref())?,
            access: Access::default(),
            max_datagram_len: self.max_datagram(flags.max_datagram, raw.max_datagram.as_ref())?,
        })
    }

    /// Settings of `rhumb receive`.
    pub fn receive(&self, flags: &ReceiveArguments) -> Outcome<ReceiveSettings> {
        let max_size = match flags.max_size {
            Some(max_size) => Some(max_size),
            None => self.parsed(self.raw.receive.max_size.as_ref(), parse_size)?,
        };
        let senders = AccessArguments::from(&flags.senders);
        let access = self.access(Service::Receive, &senders)?;
        let node = NodeSettings { access: access.access.clone(), ..self.node(&flags.node)? };
        let admin = self.admin(flags.admin.as_ref(), self.raw.receive.admin.as_ref())?;
        let ribs = self.remotes(&flags.rib, self.raw.receive.rib.as_ref())?;
        Ok(ReceiveSettings { node, access, ribs, max_size, admin })
    }

    /// Options come first here too: a root router given
    /// there is meant, whatever router the file names.
    fn router_choice(&self, flags: &NodeArguments) -> Outcome<RouterChoice> {
        let raw = &self.raw.node;
        let router = match flags.router {
            Some(router) => Some(router),
            None if flags.root.is_empty() && flags.only.is_empty() => {
                self.parsed(raw.router.as_ref(), str::parse)?
            }
            None => None,
        };
        if let Some(router) = router {
            return Ok(RouterChoice::Fixed(router.into()));
        }
        let mut roots = flags.root.clone();
        if roots.is_empty() {
            for text in raw.roots.iter().flatten() {
                roots.extend(self.parsed(Some(text), str::parse::<Remote>)?);
            }
        }
        let mut only = flags.only.clone();
        if only.is_empty() {
            for text in raw.only.iter().flatten() {
                only.extend(self.parsed(Some(text), parse_name)?);
            }
        }
        let roots = roots.into_iter().map(rhumb_node::Remote::from).collect();
        Ok(RouterChoice::Discovered { roots, only })
    }

    /// An option comes before the file.
    fn admin(&self, flag: Option<&Admin>, raw: Option<&Spanned<String>>) -> Outcome<Option<Admin>> {
        let admin = match flag {
            Some(admin) => Some(admin.clone()),
            None => self.parsed(raw, Admin::parse)?,
        };
        admin.map(Admin::check).transpose()
    }

    fn workers(&self, flag: Option<u8>) -> Outcome<u8> {
        if let Some(workers) = flag {
            return Ok(workers);
        }
        let Some(raw) = &self.raw.router.workers else { return Ok(DEFAULT_WORKERS) };
        let text = match raw.get_ref() {
            RawWorkers::Count(count) => count.to_string(),
            RawWorkers::Word(word) => word.clone(),
        };
        parse_workers(&text).map_err(|problem| {
            refuse(&self.path, &Fault { line: line_at(&self.text, Some(&raw.span())), problem })
        })
    }

    fn coalesce(&self, flag: Option<u16>) -> Outcome<Option<Duration>> {
        let raw = self.raw.router.coalesce_us.as_ref();
        let us = match (flag, raw) {
            (Some(us), _) => us,
            (None, Some(raw)) if *raw.get_ref() > MOST_COALESCE_US => {
                let problem =
                    format!("coalesce_us is {}; give 0 to {MOST_COALESCE_US}", raw.get_ref());
                let line = line_at(&self.text, Some(&raw.span()));
                return Err(refuse(&self.path, &Fault { line, problem }));
            }
            (None, Some(raw)) => *raw.get_ref(),
            (None, None) => DEFAULT_COALESCE_US,
        };
        Ok((us > 0).then(|| Duration::from_micros(us.into())))
    }

    fn lease(&self, flag: Option<u32>, raw: Option<&Spanned<u32>>) -> Outcome<u32> {
        if let Some(lease_s) = flag {
            return Ok(lease_s);
        }
        match raw.map(|value| (*value.get_ref(), value.span())) {
            None => Ok(DEFAULT_LEASE_S),
            Some((lease_s, _)) if LEASE_RANGE_S.contains(&lease_s) => Ok(lease_s),
            Some((lease_s, span)) => Err(refuse(
                &self.path,
                &Fault {
                    line: line_at(&self.text, Some(&span)),
                    problem: format!(
                        "lease_s is {lease_s}; give {} to {}",
                        LEASE_RANGE_S.start(),
                        LEASE_RANGE_S.end()
                    ),
                },
            )),
        }
    }

    fn max_datagram(&self, flag: Option<u16>, raw: Option<&Spanned<u16>>) -> Outcome<u16> {
        match raw.filter(|_| flag.is_none()).map(|value| (*value.get_ref(), value.span())) {
            None => Ok(flag.unwrap_or(DEFAULT_MAX_DATAGRAM_LEN)),
            Some((bytes, _)) if MAX_DATAGRAM_RANGE.contains(&bytes) => Ok(bytes),
            Some((bytes, span)) => {
                let (low, high) = (MAX_DATAGRAM_RANGE.start(), MAX_DATAGRAM_RANGE.end());
                let problem = format!("max_datagram is {bytes}; give {low} to {high}");
                let line = line_at(&self.text, Some(&span));
                Err(refuse(&self.path, &Fault { line, problem }))
            }
        }
    }

    /// The user that a daemon goes on as: the flag's, or else the file's.
    fn run_as(&self, flag: Option<&str>, raw: Option<&Spanned<String>>) -> Outcome<Option<User>> {
        match flag {
            Some(name) => privileges::user(name).map(Some).map_err(Failure::setup_text),
            None => self.parsed(raw, privileges::user),
        }
    }

    /// The value of a key that has text, or what is wrong with it and in which line.
    fn parsed<T>(
        &self,
        raw: Option<&Spanned<String>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Outcome<Option<T>> {
        let Some(raw) = raw else { return Ok(None) };
        parse(raw.get_ref()).map(Some).map_err(|problem| {
            refuse(&self.path, &Fault { line: line_at(&self.text, Some(&raw.span())), problem })
        })
    }
}

fn parse_cipher(text: &str) -> Result<CipherChoice, String> {
    CipherChoice::from_str(text, false)
        .map_err(|_| format!("cipher is `{text}`; give fastest, library or own"))
}

fn parse_io(text: &str) -> Result<IoArgument, String> {
    IoArgument::from_str(text, false)
        .map_err(|_| format!("io is `{text}`; give socket, auto or xdp"))
}

/// What strangers may cost, with what the file says of one address.
fn limits(sessions: Option<NonZeroU32>, handshakes: Option<NonZeroU32>) -> Limits {
    let mut limits = Limits::default();
    if let Some(sessions) = sessions {
        limits.sessions_per_source = sessions.get() as usize;
    }
    if let Some(per_s) = handshakes.map(NonZeroU32::get) {
        let usual = limits.handshakes_per_source;
        let burst = usual.burst.max(per_s.saturating_mul(usual.burst / usual.per_s));
        limits.handshakes_per_source = Rate { per_s, burst };
        // A site that may have more than all who begin many together needs them to have more.
        let all = limits.handshakes;
        let times = per_s.div_ceil(limits.handshakes_of_busy_sources().per_s).max(1);
        limits.handshakes =
            Rate { per_s: all.per_s.saturating_mul(times), burst: all.burst.saturating_mul(times) };
    }
    limits
}

fn required_key(key: Option<&PathBuf>, role: &str) -> Outcome<PathBuf> {
    key.cloned().ok_or_else(|| {
        Failure::setup_text(format!(
            "a {role} needs a key; make one: rhumb keygen --role {role} --out {role}.key, then \
             give --key {role}.key"
        ))
    })
}

fn refuse(path: &Path, fault: &Fault) -> Failure {
    Failure::setup_text(format!(
        "config file {}, line {}: {}",
        path.display(),
        fault.line,
        fault.problem
    ))
}

const FILE_NAME: &str = "rhumb.toml";
const FILE_BELOW_HOME: &str = ".config/rhumb/rhumb.toml";
/// All addresses: a RIB or a router is there for others.
const DEFAULT_LISTEN_IP: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// In the working directory, where its owner sees it.
const DEFAULT_STORE: &str = "rib.redb";
/// One forwards what a host's usual link carries, and wakes no other core for it.
const DEFAULT_WORKERS: u8 = 1;
/// Half of the least round trip in a town, and less than what a batch waits for a busy worker.
const DEFAULT_COALESCE_US: u16 = 50;
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn file(text: &str) -> ConfigFile {
        let raw = raw::parse(text).unwrap();
        ConfigFile { path: "test.toml".into(), text: text.to_owned(), raw }
    }

    #[test]
    fn options_override_the_file_and_the_file_overrides_the_defaults() {
        let file = file("[rib]\nlisten = \"127.0.0.1:1\"\nkey = \"file.key\"\n");
        let mut flags = RibArguments::default();
        let settings = file.rib(&flags).unwrap();
        assert_eq!(settings.listen.port(), 1);
        assert_eq!(settings.key, Path::new("file.key"));
        assert_eq!(settings.store, StoreAt::File(DEFAULT_STORE.into()));
        flags.listen = Some("127.0.0.1:2".parse().unwrap());
        flags.key = Some("flag.key".into());
        let settings = file.rib(&flags).unwrap();
        assert_eq!((settings.listen.port(), settings.key), (2, PathBuf::from("flag.key")));
    }

    #[test]
    fn whoever_asks_a_daemon_finds_it_by_its_section_and_of_several_the_first() {
        let found = |text: &str| file(text).any_admin().unwrap().map(|admin| admin.to_string());
        let section = |name: &str, port: u16| format!("[{name}]\nadmin = \"127.0.0.1:{port}\"\n");
        let mut all = String::new();
        let names = "receive up stamp member exchange waypoint keyserver rib router";
        for (name, port) in names.split(' ').zip(1..) {
            let address = Some(format!("127.0.0.1:{port}"));
            assert_eq!(found(&section(name, port)), address, "{name}");
            all += &section(name, port);
            assert_eq!(found(&all), address, "{name}");
        }
        assert_eq!(found(""), None);
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        let refused =
            |text: &str| file(text).router(&RouterArguments::default()).unwrap_err().to_string();
        let listen = refused("[router]\nkey = \"k\"\nlisten = \"nowhere\"");
        assert!(listen.starts_with("config file test.toml, line 3: `nowhere` is not an address"));
        let rib = "[router]\nrib = [\"127.0.0.1:9\"]\nkey = \"k\"\n";
        assert!(refused(&format!("{rib}lease_s = 59")).contains("line 4: lease_s is 59; give 60"));
        for workers in ["0", "9", "\"many\""] {
            let refused = refused(&format!("{rib}workers = {workers}"));
            assert!(refused.contains("line 4") && refused.contains("1 to 8, or auto"), "{refused}");
        }
        let refused_pause = refused(&format!("{rib}coalesce_us = 1001"));
        assert!(refused_pause.contains("line 4: coalesce_us is 1001; give 0 to 1000"));
        assert!(refused(&format!("{rib}locator = \"none\"")).contains("--upstream"));
        assert!(refused(&format!("{rib}locators = [\"ten\"]")).contains("10.0.0.0/8"));
        assert!(refused(&format!("{rib}admin = \"192.0.2.1:9\"")).contains("loopback"));
        assert!(refused("[router]\nkey = \"k\"").contains("--rib NAME@ADDR"));
        let keyless = "[router]\nrib = [\"127.0.0.1:9\"]";
        assert!(refused(keyless).contains("rhumb keygen --role router"));
    }

    #[test]
    fn a_router_is_found_unless_one_is_named() {
        let name = rhumb_wire::Name([7; 32]);
        let file = file(&format!(
            "[node]\nrouter = \"127.0.0.1:1\"\nroots = [\"{name}@127.0.0.1:2\", \"127.0.0.1:3\"]\nonly = [\"{name}\"]"
        ));
        let choice = |flags: &NodeArguments| file.node(flags).unwrap().router;
        let mut flags = NodeArguments::default();
        let port = |port: u16| rhumb_node::Remote::new(SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(choice(&flags), RouterChoice::Fixed(port(1)));
        flags.only = vec![name];
        let named = rhumb_node::Remote { name: Some(name), ..port(2) };
        let found = RouterChoice::Discovered { roots: vec![named, port(3)], only: vec![name] };
        assert_eq!(choice(&flags), found);
        flags.root = vec!["127.0.0.1:4".parse().unwrap()];
        let found = RouterChoice::Discovered { roots: vec![port(4)], only: vec![name] };
        assert_eq!(choice(&flags), found);
        let nothing = ConfigFile::default().node(&NodeArguments::default()).unwrap();
        assert_eq!(nothing.router, RouterChoice::discovered());
    }

    #[test]
    fn a_node_talks_with_whom_the_file_names_unless_an_option_names_another() {
        let [a, b] = [7, 8].map(|byte| Name([byte; 32]));
        let configured = file(&format!("[node]\nfor = \"{a}\""));
        let only_peer = |flags: &NodeArguments| configured.node(flags).unwrap().only_peer;
        assert_eq!(only_peer(&NodeArguments::default()), Some(a));
        let flags = NodeArguments { only_peer: Some(b), ..NodeArguments::default() };
        assert_eq!(only_peer(&flags), Some(b));
        let wrong = file("[node]\n\nfor = \"alice\"").node(&NodeArguments::default());
        let problem = wrong.unwrap_err().to_string();
        assert!(problem.starts_with("config file test.toml, line 3: `alice` is not a name"));
        let unknown = raw::parse("[node]\nfour = \"x\"").unwrap_err();
        assert_eq!(unknown.problem, "unknown key `four` in [node]; did you mean `for`?");
    }

    #[test]
    fn discovery_is_on_where_others_can_reach_the_router() {
        let settings = |listen: &str, more: &str| {
            let ribs = "rib = [\"127.0.0.1:9\"]\nkey = \"k\"";
            file(&format!("[router]\nlisten = \"{listen}\"\n{ribs}\n{more}"))
                .router(&RouterArguments::default())
                .map(|settings| settings.discovery)
        };
        for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1"] {
            assert_eq!(settings(listen, "").unwrap(), DiscoveryChoice::IfPossible);
            assert_eq!(settings(listen, "discovery = true").unwrap(), DiscoveryChoice::On);
            assert_eq!(settings(listen, "discovery = false").unwrap(), DiscoveryChoice::Off);
        }
        for listen in ["127.0.0.1:1", "[::1]:1"] {
            assert_eq!(settings(listen, "").unwrap(), DiscoveryChoice::Off);
            let refused = settings(listen, "discovery = true").unwrap_err().to_string();
            assert!(refused.contains("--discovery off"), "{refused}");
        }
    }

    #[test]
    fn packet_io_is_by_sockets_unless_asked_for() {
        let io = |more: &str, flags: &RouterArguments| {
            let text = format!("[router]\nrib = [\"127.0.0.1:9\"]\nkey = \"k\"\n{more}");
            file(&text).router(flags).map(|settings| settings.io).map_err(|error| error.to_string())
        };
        let none = RouterArguments::default();
        let on = |names: &[&str]| {
            let interfaces = names.iter().map(|&name| name.to_owned()).collect();
            Choice::Xdp(xdp::Options { interfaces, ..xdp::Options::default() })
        };
        assert_eq!(io("", &none), Ok(Choice::Socket));
        assert_eq!(io("io = \"xdp\"\ninterface = \"eth0\"", &none), Ok(on(&["eth0"])));
        let two = "io = \"xdp\"\ninterface = [\"eth0\", \"eth1\"]\nworkers = 2";
        assert_eq!(io(two, &none), Ok(on(&["eth0", "eth1"])));
        assert_eq!(io("io = \"xdp\"", &none), Ok(on(&[])));
        assert_eq!(io("io = \"auto\"", &none), Ok(Choice::Auto { interfaces: Vec::new() }));
        let fault = io("io = \"dpdk\"", &none).unwrap_err();
        assert!(fault.ends_with("line 4: io is `dpdk`; give socket, auto or xdp"), "{fault}");
        let interface = vec!["eth0".to_owned()];
        let mut flags = RouterArguments { interface, ..RouterArguments::default() };
        assert!(io("", &flags).unwrap_err().contains("--interface goes with"));
        flags.io = Some(IoArgument::Xdp);
        assert_eq!(io("io = \"socket\"\ninterface = \"eth9\"", &flags), Ok(on(&["eth0"])));
    }

    #[test]
    fn a_lease_is_bounded_from_both_sides() {
        for (lease_s, good) in [(59, false), (60, true), (86_400, true), (86_401, false)] {
            let file = file(&format!("[node]\nrouter = \"127.0.0.1:9\"\nlease_s = {lease_s}"));
            assert_eq!(file.node(&NodeArguments::default()).is_ok(), good, "{lease_s}");
        }
    }
}
