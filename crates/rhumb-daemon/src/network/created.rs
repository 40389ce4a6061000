//! A network that was made here: `network.toml` in its folder, with the keys beside it.
//!
//! | file | what it is |
//! |---|---|
//! | `domain.key` | the domain's own key: it admits the keeper, once a year, and may go off line |
//! | `keeper.key` | the working key: it admits everybody else |
//! | `rib.key`, `router.key` | of the directory and of who carries |
//! | `NAME.membership` | what the domain says of each, beside its key; for two weeks, but the keeper's |
//! | `rib.redb`, `router.state` | what the directory stores, and the routes that the router knows |
//! | `members.toml` | invitations and members: [`Ledger`](super::Ledger) |
//!
//! INVARIANT: a network is there as a whole or not at all: it is made in a folder that nobody looks
//! into, and that is renamed when all is written.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhumb_node::discovery::Links;
use rhumb_node::joined::{NODE_KEY, Site};
use rhumb_trust::invitation::Host;
use rhumb_trust::{Identity, Membership, Window};
use rhumb_wire::{Name, PublishedLabel, Rights, Role};
use serde::{Deserialize, Serialize};

use super::address::address_on_link;
use super::folder::{self, ROUTER_KEY};
use super::joined::{Joined, resolve};
use super::ledger::{Ledger, Rank};
use super::{DEFAULT_PORT, Folder, MEMBERSHIP_S, labels};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::key;
use crate::remote::parse_name;
use crate::secret_file;

/// What a network is made with.
#[derive(Debug)]
pub struct Making {
    /// What it is called.
    pub label: PublishedLabel,
    /// Where members reach this host.
    pub host: Site,
    /// The router's port; the two after it are the RIB's and the keeper's.
    pub port: u16,
    /// What this host is called as a member.
    pub own: PublishedLabel,
    /// Whether `rhumb up` made it for the hosts of a link.
    pub is_lan: bool,
}

/// A network whose keeper is this host.
#[derive(Debug, Clone)]
pub struct Created {
    /// Where its files are.
    pub folder: Folder,
    /// The trust domain that its members are of.
    pub domain: Name,
    /// Where members reach this host.
    pub host: Site,
    port: u16,
    /// The directory's name.
    pub rib: Name,
    /// The router's name.
    pub router: Name,
    /// The keeper's name.
    pub keeper: Name,
    /// Whether `rhumb up` made it for the hosts of a link, and runs it.
    pub is_lan: bool,
}

/// A part of a network that runs at its keeper's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The router, over UDP and TCP.
    Router,
    /// The directory, over UDP.
    Rib,
    /// The keeper, over TCP.
    Keeper,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: u32,
    domain: String,
    host: String,
    port: u16,
    rib: String,
    router: String,
    keeper: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lan: bool,
}

impl Making {
    /// A network for the hosts of this host's link, in which this one is called `own`: at an
    /// address that it has there, and ports that nobody has.
    ///
    /// # Errors
    /// When this host is on no link, or all ports are taken.
    pub fn for_lan(own: PublishedLabel) -> Outcome<Self> {
        let host = address_on_link()?;
        let most = PublishedLabel::MAX_LEN - LAN.len();
        let wanted = format!("{}{LAN}", &own.as_str()[..own.as_str().len().min(most)]);
        let wanted = wanted.parse().expect("invariant: it begins as a label does");
        let label = labels::free_network(&wanted, None)?;
        let port = free_ports().ok_or_else(|| {
            Failure::setup_text(format!(
                "programs of this host have the ports from UDP and TCP {DEFAULT_PORT} on; `rhumb \
                 status` shows whether another network runs here"
            ))
        })?;
        Ok(Self { label, host, port, own, is_lan: true })
    }

    /// Makes the network: its keys, what the domain says of them, and this host as its first
    /// member.
    ///
    /// # Errors
    /// When there is one of that label, or it cannot be written; then nothing is left of it.
    pub fn make(&self) -> Outcome<(Created, Joined)> {
        if self.port > u16::MAX - 2 || self.port == 0 {
            return Err(Failure::setup_text("three ports are needed; give a --port up to 65533"));
        }
        let place = Folder::of(&self.label)?;
        if place.path().exists() {
            return Err(place.is_there());
        }
        labels::check_network(&self.label, None)?;
        let folder = Folder::hidden(&self.label)?;
        folder.make()?;
        let made = self.make_in(&folder).and_then(|made| Ok((made, folder.clone().reveal()?)));
        let ((mut created, mut joined, own), folder) = made.inspect_err(|_| folder.discard())?;
        created.folder = folder.clone();
        joined.folder = folder;
        let members = [(self.own.clone(), own)].into();
        labels::enter(&self.label, created.domain, &members)?;
        Ok((created, joined))
    }

    fn make_in(&self, folder: &Folder) -> Outcome<(Created, Joined, Name)> {
        let now = clock::now();
        let domain = key::make(Role::Domain, None)?;
        let keeper = key::make(Role::Node, None)?;
        let rib = key::make(Role::Rib, None)?;
        let router = key::make(Role::Router, None)?;
        let node = key::make(Role::Node, None)?;
        for (identity, file) in [
            (&domain, DOMAIN_KEY),
            (&keeper, KEEPER_KEY),
            (&rib, RIB_KEY),
            (&router, ROUTER_KEY),
            (&node, NODE_KEY),
        ] {
            key::save(&folder.file(file), identity, None)?;
        }
        let created = Created {
            folder: folder.clone(),
            domain: domain.name(),
            host: self.host.clone(),
            port: self.port,
            rib: rib.name(),
            router: router.name(),
            keeper: keeper.name(),
            is_lan: self.is_lan,
        };
        created.renew_keeper(&domain)?;
        created.renew_parts()?;
        let mut ledger = Ledger::default();
        let (rank, since_s) = (Rank::Member, now.unix_s());
        ledger.add(self.own.clone(), node.name(), rank, since_s);
        ledger.write_first(folder)?;
        let giver = created.giver()?;
        let membership = give(&giver, node.name(), rank.rights())?;
        put(&folder.file(NODE_KEY), &membership)?;
        let joined = Joined {
            folder: folder.clone(),
            label: self.own.clone(),
            rank,
            domain: domain.name(),
            // From here it may not be reachable where others find it, as behind a NAT.
            host: Host::Address(created.near()).into(),
            router: (router.name(), created.port(Part::Router)),
            rib: (rib.name(), created.port(Part::Rib)),
            keeper: (keeper.name(), created.port(Part::Keeper)),
            is_lan: false,
        };
        joined.save()?;
        created.save()?;
        Ok((created, joined, node.name()))
    }
}

impl Created {
    /// The network in `folder`; none if its keeper is another host.
    ///
    /// # Errors
    /// When its settings cannot be read.
    pub fn find(folder: &Folder) -> Outcome<Option<Self>> {
        let path = folder.file(SETTINGS);
        if !path.exists() {
            return Ok(None);
        }
        let text = secret_file::read(&path, "rhumb network create")?;
        let read = Self::parse(folder, &text);
        let wrong = |problem| Failure::setup_text(format!("file {}: {problem}", path.display()));
        read.map(Some).map_err(wrong)
    }

    fn parse(folder: &Folder, text: &str) -> Result<Self, String> {
        let raw: Raw = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if raw.version != VERSION {
            return Err(format!("it has version {}, and this rhumb reads {VERSION}", raw.version));
        }
        if raw.port > u16::MAX - 2 {
            return Err("three ports are needed; give a `port` up to 65533".to_owned());
        }
        Ok(Self {
            folder: folder.clone(),
            domain: parse_name(&raw.domain)?,
            host: Site::parse(&raw.host)?,
            port: raw.port,
            rib: parse_name(&raw.rib)?,
            router: parse_name(&raw.router)?,
            keeper: parse_name(&raw.keeper)?,
            is_lan: raw.lan,
        })
    }

    fn save(&self) -> Outcome {
        secret_file::create(&self.folder.file(SETTINGS), &self.emit())
    }

    /// From now on members reach this host here.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn move_to(&mut self, host: Site) -> Outcome {
        if self.host == host {
            return Ok(());
        }
        self.host = host;
        folder::replace(&self.folder.file(SETTINGS), &self.emit())
    }

    /// Takes the network away, if nobody but this host was ever in it: whether that is so. None of
    /// its parts may run.
    ///
    /// # Errors
    /// When it cannot be looked at, or the book of names cannot be changed.
    pub fn discard_if_alone(&self) -> Outcome<bool> {
        let own = Joined::find(&self.folder)?.map(|own| own.label);
        let gone = Ledger::while_it_is_so(&self.folder, |ledger| {
            let is_alone = ledger.is_alone(clock::now().unix_s());
            if is_alone {
                self.folder.discard();
            }
            Ok(is_alone.then(|| ledger.members().to_vec()))
        })?;
        let Some(members) = gone else { return Ok(false) };
        let network = self.folder.label();
        labels::forget(network, network, self.domain)?;
        for member in members.iter().filter(|it| Some(&it.label) == own.as_ref()) {
            labels::forget(network, &member.label, member.name)?;
        }
        Ok(true)
    }

    fn emit(&self) -> String {
        let raw = Raw {
            version: VERSION,
            domain: self.domain.to_string(),
            host: self.host.to_string(),
            port: self.port,
            rib: self.rib.to_string(),
            router: self.router.to_string(),
            keeper: self.keeper.to_string(),
            lan: self.is_lan,
        };
        let text = toml::to_string(&raw).expect("invariant: names and hosts are text");
        format!("{HEAD}{text}")
    }

    /// The port of a part.
    pub fn port(&self, part: Part) -> u16 {
        self.port
            + match part {
                Part::Router => 0,
                Part::Rib => 1,
                Part::Keeper => 2,
            }
    }

    /// The key of a part, with its membership beside it.
    pub fn key(&self, part: Part) -> PathBuf {
        self.folder.file(match part {
            Part::Router => ROUTER_KEY,
            Part::Rib => RIB_KEY,
            Part::Keeper => KEEPER_KEY,
        })
    }

    /// Where a part listens: on this host alone, if that is where members are; in a link's network
    /// by IPv4 and IPv6, if there is a link by IPv6, since some there may have that alone.
    pub fn listens(&self, part: Part) -> SocketAddr {
        let has_ipv6 = || Links::read(Ipv6Addr::UNSPECIFIED.into()).is_ok_and(|it| it.has_ipv6());
        let ip = match self.host.ip() {
            Some(ip) if ip.is_loopback() => ip,
            _ if self.is_by_ipv6() || (self.is_lan && has_ipv6()) => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(ip, self.port(part))
    }

    /// Where members reach a part, as it is known now: on a link without the interface, which is
    /// for each of them to know.
    ///
    /// # Errors
    /// When nobody knows the host.
    pub fn address(&self, part: Part) -> Outcome<SocketAddr> {
        match self.host {
            Site::OnLink { address, .. } => Ok(SocketAddr::from((address, self.port(part)))),
            Site::Host(_) => resolve(&self.host, self.port(part)),
        }
    }

    /// This host, from itself.
    pub fn near(&self) -> IpAddr {
        match self.host.ip() {
            Some(ip) if ip.is_loopback() => ip,
            _ if self.is_by_ipv6() => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Whether members reach this host by IPv6; by IPv4 if nobody knows yet.
    fn is_by_ipv6(&self) -> bool {
        let is_on_link = matches!(self.host, Site::OnLink { .. });
        is_on_link || resolve(&self.host, self.port).is_ok_and(|address| address.is_ipv6())
    }

    /// Who admits: the working key, with its own membership.
    pub(super) fn giver(&self) -> Outcome<Arc<Identity>> {
        key::load(&self.folder.file(KEEPER_KEY), Role::Node)
    }

    /// Gives RIB and router their memberships again, which are in their last half, or not there.
    /// Their processes look for that.
    pub(super) fn renew_parts(&self) -> Outcome {
        let giver = self.giver()?;
        for (file, name, rights) in [
            (RIB_KEY, self.rib, Rights::PUBLISH),
            (ROUTER_KEY, self.router, Rights::CARRY.and(Rights::PUBLISH)),
        ] {
            let path = self.folder.file(file);
            if is_half_over(&path) {
                put(&path, &give(&giver, name, rights)?)?;
            }
        }
        Ok(())
    }

    /// Has the domain's own key admit the keeper again, if that is due and the key lies here.
    pub(super) fn renew_keeper_if_due(&self) -> Outcome {
        let path = self.folder.file(DOMAIN_KEY);
        if !is_half_over(&self.folder.file(KEEPER_KEY)) || !path.exists() {
            return Ok(());
        }
        self.renew_keeper(&*key::load(&path, Role::Domain)?)
    }

    /// For how many seconds the keeper may admit.
    pub(super) fn keeper_left_s(&self) -> Outcome<u64> {
        let giver = self.giver()?;
        let end_s = giver.membership().map_or(0, Membership::not_after_s);
        Ok(end_s.saturating_sub(clock::now().unix_s()))
    }

    fn renew_keeper(&self, domain: &Identity) -> Outcome {
        let now = clock::now();
        let window = Window::starting(now.unix_s(), rhumb_trust::MAX_MEMBERSHIP_LIFETIME_S);
        let all = Rights::ALL.into_iter().fold(Rights::ADMIT, |all, (_, right)| all.and(right));
        let membership = Membership::sign(domain, None, self.keeper, all, now.unix_ms, window);
        put(&self.folder.file(KEEPER_KEY), &membership.map_err(Failure::operation)?)
    }
}

/// Two weeks of membership for `member`.
pub(super) fn give(giver: &Identity, member: Name, rights: Rights) -> Outcome<Membership> {
    let now = clock::now();
    let window = Window::starting(now.unix_s(), MEMBERSHIP_S);
    Membership::sign(giver, giver.membership(), member, rights, now.unix_ms, window)
        .map_err(Failure::operation)
}

/// Lays a membership beside its key, in the place of the one before.
pub(super) fn put(key: &Path, membership: &Membership) -> Outcome {
    folder::replace(&key.with_extension("membership"), &membership.to_text())
}

/// Whether the membership beside a key is in its last half, or is none.
pub(super) fn is_half_over(key: &Path) -> bool {
    let Ok(membership) = Membership::load(&key.with_extension("membership")) else { return true };
    let end_s = membership.not_after_s();
    let begins = membership.certificates().iter().map(|it| it.not_before_s);
    let given_s = end_s.saturating_sub(begins.max().unwrap_or(end_s));
    end_s < clock::now().unix_s() + given_s / 2
}

/// The first of the usual ports, or of ten others, at which nothing listens.
fn free_ports() -> Option<u16> {
    let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let any_of_both = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    // A system may do without IPv6.
    let is_taken =
        |bound: io::Result<()>| bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
    let has_udp = |port| {
        let both = || UdpSocket::bind(any_of_both(port)).map(drop);
        UdpSocket::bind(any(port)).is_ok() && !is_taken(both())
    };
    let has_tcp = |port| {
        let both = || TcpListener::bind(any_of_both(port)).map(drop);
        TcpListener::bind(any(port)).is_ok() && !is_taken(both())
    };
    let is_free = |port: &u16| {
        [*port, port + 1].into_iter().all(has_udp) && [*port, port + 2].into_iter().all(has_tcp)
    };
    (0..=10).map(|at| DEFAULT_PORT + 10 * at).find(is_free)
}

/// Behind the label of the host that made a network for its link.
const LAN: &str = "-lan";
const VERSION: u32 = 1;
const SETTINGS: &str = "network.toml";
const HEAD: &str = "# A network whose keeper is this host: rhumb network.\n";
/// The domain's own key.
const DOMAIN_KEY: &str = "domain.key";
/// The working key.
const KEEPER_KEY: &str = "keeper.key";
/// The directory's key.
const RIB_KEY: &str = "rib.key";
