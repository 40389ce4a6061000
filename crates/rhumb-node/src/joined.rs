//! A network that a host is a member of, as it lies in the host's files: `member.toml` in a folder
//! of the network's label, with the host's key and membership beside it. `rhumb join` makes it;
//! `rhumb up`, and libraries that join by a network's label, go by it.
//!
//! Invariant: nothing is believed of a file that others than its user could have written.

use std::path::{Path, PathBuf};

use rhumb_wire::{Name, PublishedLabel};
use serde::{Deserialize, Serialize};

pub use crate::site::Site;

/// What a host knows of a network that it is a member of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedNetwork {
    /// What the host is called in it.
    pub label: PublishedLabel,
    /// As what it was admitted: `member`, `keeper` or `router`.
    pub role: String,
    /// The trust domain that its members are of.
    pub domain: Name,
    /// Where router, RIB and keeper are.
    pub host: Site,
    /// Whether its host is found on the link, at whatever address it is now.
    pub is_lan: bool,
    /// The router that carries, and its port.
    pub router: (Name, u16),
    /// The directory, and its port.
    pub rib: (Name, u16),
    /// Who admits, and its port.
    pub keeper: (Name, u16),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: u32,
    label: String,
    role: String,
    domain: String,
    host: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lan: bool,
    router: RawPart,
    rib: RawPart,
    keeper: RawPart,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    name: String,
    port: u16,
}

impl JoinedNetwork {
    /// The text of its file.
    ///
    /// # Errors
    /// In words, when it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let raw: Raw = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if raw.version != VERSION {
            return Err(format!("it has version {}, and this rhumb reads {VERSION}", raw.version));
        }
        let name = |text: &str| {
            text.parse::<Name>().map_err(|error| format!("`{text}` is not a name: {error}"))
        };
        let part = |raw: &RawPart| Ok::<_, String>((name(&raw.name)?, raw.port));
        let label = raw.label.parse();
        Ok(Self {
            label: label.map_err(|_| format!("`{}` is no label", raw.label))?,
            domain: name(&raw.domain)?,
            host: Site::parse(&raw.host)?,
            is_lan: raw.lan,
            router: part(&raw.router)?,
            rib: part(&raw.rib)?,
            keeper: part(&raw.keeper)?,
            role: raw.role,
        })
    }

    /// What its file is to say.
    pub fn text(&self) -> String {
        let part = |(name, port): (Name, u16)| RawPart { name: name.to_string(), port };
        let raw = Raw {
            version: VERSION,
            label: self.label.to_string(),
            role: self.role.clone(),
            domain: self.domain.to_string(),
            host: self.host.to_string(),
            lan: self.is_lan,
            router: part(self.router),
            rib: part(self.rib),
            keeper: part(self.keeper),
        };
        toml::to_string(&raw).expect("invariant: names and hosts are text")
    }
}

/// Where this user's networks are, beside the book of names: below `$XDG_DATA_HOME`, or `$HOME`, as
/// the commands have it, some of which know no nodes. Nowhere, if neither says where.
pub fn data_folder() -> Option<PathBuf> {
    let folder = |variable: &str| {
        std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))?;
    Some(data.join("rhumb"))
}

/// Where networks are, in the folder of the user's.
pub fn networks_in(data: &Path) -> PathBuf {
    data.join("networks")
}

/// In the folder of a network, what this host knows of it as a member.
pub const MEMBER_FILE: &str = "member.toml";
/// The key of this host in a network. A key shows one membership, and whoever meets the host in two
/// networks need not know that it is one.
pub const NODE_KEY: &str = "node.key";
/// What is said of the role of a host that carries.
pub const ROUTER_ROLE: &str = "router";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> JoinedNetwork {
        let part = |byte| (Name([byte; 32]), 7460 + u16::from(byte));
        JoinedNetwork {
            label: "home".parse().unwrap(),
            role: "member".to_owned(),
            domain: Name([9; 32]),
            host: Site::parse("192.0.2.1").unwrap(),
            is_lan: false,
            router: part(0),
            rib: part(1),
            keeper: part(2),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (is_lan, host) in [(false, "192.0.2.1"), (true, "192.0.2.1"), (true, "fe80::1%eth0")] {
            let host = Site::parse(host).unwrap();
            let network = JoinedNetwork { is_lan, host, ..network() };
            assert_eq!(network.text().contains("lan"), is_lan);
            assert_eq!(JoinedNetwork::parse(&network.text()), Ok(network));
        }
    }

    #[test]
    fn what_is_damaged_or_of_another_version_is_told() {
        let text = network().text();
        for (from, to, problem) in [
            ("version = 1", "version = 2", "version 2"),
            ("label = \"home\"", "label = \"../x\"", "no label"),
            ("role", "rule", "unknown field"),
            ("domain = \"", "domain = \"-", "not a name"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(JoinedNetwork::parse(&changed).unwrap_err().contains(problem), "{problem}");
        }
    }
}
