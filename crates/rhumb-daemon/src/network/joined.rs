//! A network that this host is a member of: `member.toml` in its folder, with key and membership
//! beside it. `rhumb up` goes by it.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::ValueEnum;
use rhumb_node::joined::{JoinedNetwork, MEMBER_FILE, NODE_KEY, Site};
use rhumb_wire::{Name, PublishedLabel};

use super::Folder;
use super::folder::{self, ROUTER_KEY};
use super::ledger::Rank;
use crate::failure::{Failure, Outcome};
use crate::remote::Remote;
use crate::secret_file;

/// A network, as a member knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Where its files are.
    pub folder: Folder,
    /// What this host is called in it.
    pub label: PublishedLabel,
    /// As what it was admitted.
    pub rank: Rank,
    /// The trust domain that its members are of.
    pub domain: Name,
    /// Where router, RIB and keeper are.
    pub host: Site,
    /// The router that carries, and its port.
    pub router: (Name, u16),
    /// The directory, and its port.
    pub rib: (Name, u16),
    /// Who admits, and its port.
    pub keeper: (Name, u16),
    /// Whether its host is found on the link, at whatever address it is now.
    pub is_lan: bool,
}

impl Joined {
    /// The network in `folder`; none if this host is no member.
    ///
    /// # Errors
    /// When its settings cannot be read.
    pub fn find(folder: &Folder) -> Outcome<Option<Self>> {
        let path = folder.file(MEMBER_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = secret_file::read(&path, "rhumb join CODE")?;
        let read = Self::parse(folder, &text);
        let wrong = |problem| Failure::setup_text(format!("file {}: {problem}", path.display()));
        read.map(Some).map_err(wrong)
    }

    /// All that there are.
    ///
    /// # Errors
    /// When the settings of one cannot be read.
    pub fn all() -> Outcome<Vec<Self>> {
        let found = Folder::all()?.into_iter().map(|folder| Self::find(&folder));
        found.filter_map(Outcome::transpose).collect()
    }

    fn parse(folder: &Folder, text: &str) -> Result<Self, String> {
        let JoinedNetwork { label, role, domain, host, is_lan, router, rib, keeper } =
            JoinedNetwork::parse(text)?;
        let rank = Rank::from_str(&role, false).map_err(|_| format!("`{role}` is no role"))?;
        let folder = folder.clone();
        Ok(Self { folder, label, rank, domain, host, router, rib, keeper, is_lan })
    }

    pub(super) fn save(&self) -> Outcome {
        secret_file::create(&self.folder.file(MEMBER_FILE), &self.emit())
    }

    /// From now on its host is here.
    pub(super) fn move_to(&mut self, host: Site) -> Outcome {
        if self.host == host {
            return Ok(());
        }
        self.host = host;
        folder::replace(&self.folder.file(MEMBER_FILE), &self.emit())
    }

    fn emit(&self) -> String {
        let role = self.rank.to_possible_value().map(|it| it.get_name().to_owned());
        let network = JoinedNetwork {
            label: self.label.clone(),
            role: role.expect("invariant: no rank is hidden"),
            domain: self.domain,
            host: self.host.clone(),
            is_lan: self.is_lan,
            router: self.router,
            rib: self.rib,
            keeper: self.keeper,
        };
        format!("{HEAD}{}", network.text())
    }

    /// Its key, with the membership beside it.
    pub fn key(&self) -> PathBuf {
        self.folder.file(match self.rank {
            Rank::Router => ROUTER_KEY,
            Rank::Member | Rank::Keeper => NODE_KEY,
        })
    }

    /// The router, where it is now.
    ///
    /// # Errors
    /// When nobody knows the host.
    pub fn router(&self) -> Outcome<Remote> {
        self.at(self.router)
    }

    /// The directory, where it is now.
    ///
    /// # Errors
    /// When nobody knows the host.
    pub fn rib(&self) -> Outcome<Remote> {
        self.at(self.rib)
    }

    fn at(&self, (name, port): (Name, u16)) -> Outcome<Remote> {
        Ok(Remote { name: Some(name), address: resolve(&self.host, port)? })
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.label, self.folder.label())
    }
}

/// Where a host is now: of several addresses by IPv4, if it has one, as its parts listen.
///
/// # Errors
/// When nobody knows it, or the interface of its link is gone.
pub fn resolve(host: &Site, port: u16) -> Outcome<SocketAddr> {
    let gone = |error| {
        Failure::setup_text(format!("{host} is not reached: {error}; connect that link (ip link)"))
    };
    if let Some(address) = host.address(port).map_err(gone)? {
        return Ok(address);
    }
    let found = host.with_port(port).to_socket_addrs().map(Vec::from_iter);
    let first = |found: &[SocketAddr]| {
        found.iter().find(|it| it.is_ipv4()).or_else(|| found.first()).copied()
    };
    match found.as_deref().map(first) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::setup_text(format!("{host} has no address"))),
        Err(error) => Err(Failure::setup_text(format!("cannot resolve {host}: {error}"))),
    }
}

const HEAD: &str = "# A network that this host is a member of: rhumb up.\n";
