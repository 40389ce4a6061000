//! Joining by the label of a network that this host has joined with `rhumb join`: its router, and
//! the key with the membership beside it.
//!
//! INVARIANT: two processes do not join with one key unless the program says so: of two, the later
//! one has the name, and would end this host's own node.

use std::fs;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rhumb_wire::{Name, PublishedLabel};

use super::{Fault, FaultKind};
use crate::joined::{
    JoinedNetwork, MEMBER_FILE, NODE_KEY, ROUTER_ROLE, Site, data_folder, networks_in,
};
use crate::{Remote, RouterChoice};

/// How a network is joined from this host.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// This host's key in it; its membership lies beside it.
    pub key: PathBuf,
    host: Site,
    /// Whether its host is found on the link, at whatever address it is now.
    is_lan: bool,
    router: (Name, u16),
}

impl Entrance {
    /// Of the network that is called `label` here; of the only one, if that is `None`.
    ///
    /// # Errors
    /// When there is none, or several and no label; when this host is a router there; when its
    /// files cannot be read, or others can write them.
    pub fn find(label: Option<&str>) -> Result<Self, Fault> {
        let data = data_folder()
            .ok_or_else(|| Fault::invalid("no place for networks: set HOME or XDG_DATA_HOME"))?;
        Self::find_in(&networks_in(&data), label)
    }

    fn find_in(networks: &Path, label: Option<&str>) -> Result<Self, Fault> {
        let folder = match label {
            Some(label) => {
                let is_label = label.parse::<PublishedLabel>().is_ok();
                let folder = networks.join(label);
                if !is_label || !folder.join(MEMBER_FILE).exists() {
                    return Err(Fault::invalid(format!(
                        "this host has joined no network that it calls `{label}`: `rhumb network` \
                         lists those there are, `rhumb join CODE` joins one"
                    )));
                }
                folder
            }
            None => only_one(networks)?,
        };
        let file = folder.join(MEMBER_FILE);
        let wrong = |problem: &dyn std::fmt::Display| {
            Fault::new(FaultKind::KeyFile, format!("file {}: {problem}", file.display()))
        };
        #[cfg(unix)]
        if fs::metadata(&file).map_err(|error| wrong(&error))?.mode() & 0o077 != 0 {
            return Err(wrong(&"others can read or write it; do: chmod 600 on it"));
        }
        let text = fs::read_to_string(&file).map_err(|error| wrong(&error))?;
        let network = JoinedNetwork::parse(&text).map_err(|error| wrong(&error))?;
        if network.role == ROUTER_ROLE {
            return Err(Fault::invalid(format!(
                "this host is a router of the network in {}, not a node of it: have it admitted as \
                 a member, too, by another user of this host",
                folder.display()
            )));
        }
        let JoinedNetwork { host, is_lan, router, .. } = network;
        Ok(Self { key: folder.join(NODE_KEY), host, is_lan, router })
    }

    /// How the router is found, as `rhumb up` does: it has to prove its name. That of a link's
    /// network is looked for on the link first, wherever it was before.
    ///
    /// # Errors
    /// When nobody knows its host.
    pub async fn router(&self) -> Result<RouterChoice, Fault> {
        let (name, port) = self.router;
        let router = self.address(port).await.map(|it| Remote { address: it, name: Some(name) });
        Ok(match self.is_lan {
            true => {
                RouterChoice::Discovered { roots: Vec::from_iter(router.ok()), only: vec![name] }
            }
            false => RouterChoice::Fixed(router?),
        })
    }

    /// Where its host was last, or is by what the resolver says.
    async fn address(&self, port: u16) -> Result<SocketAddr, Fault> {
        let unknown = |why: &dyn std::fmt::Display| {
            let host = &self.host;
            Fault::new(FaultKind::Unreachable, format!("cannot find the host `{host}`: {why}"))
        };
        let found = match self.host.address(port).map_err(|error| unknown(&error))? {
            Some(address) => vec![address],
            None => tokio::net::lookup_host(self.host.with_port(port))
                .await
                .map_err(|error| unknown(&error))?
                .collect::<Vec<SocketAddr>>(),
        };
        // As the network's own parts listen: by IPv4, if there is that.
        let address = found.iter().find(|it| it.is_ipv4()).or_else(|| found.first());
        address.copied().ok_or_else(|| unknown(&"it has no address"))
    }
}

/// Refuses to join as `name` while `rhumb up` of this user has it. What does not answer at once is
/// no reason.
///
/// # Errors
/// When it has.
pub fn check_nobody_is(name: Name) -> Result<(), Fault> {
    match running_node().is_some_and(|running| running == name) {
        false => Ok(()),
        true => Err(Fault::new(
            FaultKind::Busy,
            format!(
                "`rhumb up` runs as {name}, and of two with one key the later one has the name: end \
                 it, or give `key`, a file of another member"
            ),
        )),
    }
}

fn only_one(networks: &Path) -> Result<PathBuf, Fault> {
    let entries = fs::read_dir(networks).into_iter().flatten().flatten();
    let is_joined = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str());
        let is_label = name.is_some_and(|name| name.parse::<PublishedLabel>().is_ok());
        is_label && folder.join(MEMBER_FILE).exists()
    };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_joined).collect();
    all.sort();
    match &all[..] {
        [] => Err(Fault::invalid("this host has joined no network; join one: rhumb join CODE")),
        [one] => Ok(one.clone()),
        several => {
            let labels = several.iter().filter_map(|it| it.file_name()?.to_str());
            let labels: Vec<&str> = labels.collect();
            let text = format!("this host has joined several networks; say which: {labels:?}");
            Err(Fault::invalid(text))
        }
    }
}

/// The name of the node that runs for this user, as it says itself.
#[cfg(unix)]
fn running_node() -> Option<Name> {
    running::ask()
}

/// No node runs there for all programs of a user.
#[cfg(not(unix))]
fn running_node() -> Option<Name> {
    None
}

/// The node of `rhumb up`, asked over its socket.
#[cfg(unix)]
mod running {
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Duration;

    use rhumb_wire::Name;

    pub(super) fn ask() -> Option<Name> {
        let stream = UnixStream::connect(runtime_folder()?.join("up.node")).ok()?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN)).ok()?;
        stream.set_write_timeout(Some(ANSWERS_WITHIN)).ok()?;
        (&stream).write_all(WHO).ok()?;
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST_ANSWER)).read_line(&mut line).ok()?;
        // `{"name": ..}`, among other things.
        let told: Answer = serde_json::from_str(&line).ok()?;
        told.name?.parse().ok()
    }

    /// Where this user's daemons have their sockets, unless told otherwise.
    fn runtime_folder() -> Option<PathBuf> {
        let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        if let Some(told) = told.filter(|path| path.is_absolute()) {
            return Some(told.join("rhumb"));
        }
        // Whose process this is; systems without it have the variable.
        match fs::metadata("/proc/self").ok()?.uid() {
            0 => Some(PathBuf::from("/run/rhumb")),
            user => Some(std::env::temp_dir().join(format!("rhumb-{user}"))),
        }
    }

    #[derive(serde::Deserialize)]
    struct Answer {
        name: Option<String>,
    }

    /// A request of the node's own protocol.
    const WHO: &[u8] = b"{\"ask\":\"who\"}\n";
    const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
    const LONGEST_ANSWER: u64 = 64 << 10;
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Networks in a folder of the test's own.
    struct Networks(PathBuf);

    impl Networks {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("rhumb-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn add(&self, label: &str, role: &str) -> PathBuf {
            self.add_at(label, role, "192.0.2.1", false)
        }

        fn add_at(&self, label: &str, role: &str, host: &str, is_lan: bool) -> PathBuf {
            let part = |byte| (Name([byte; 32]), 7460);
            let network = JoinedNetwork {
                label: "me".parse().unwrap(),
                role: role.to_owned(),
                domain: Name([9; 32]),
                host: Site::parse(host).unwrap(),
                is_lan,
                router: part(1),
                rib: part(2),
                keeper: part(3),
            };
            fs::create_dir_all(self.0.join(label)).unwrap();
            let file = self.0.join(label).join(MEMBER_FILE);
            fs::write(&file, network.text()).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            file
        }

        fn find(&self, label: Option<&str>) -> Result<Entrance, Fault> {
            Entrance::find_in(&self.0, label)
        }
    }

    impl Drop for Networks {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test]
    async fn a_network_is_found_by_its_label_or_because_it_is_the_only_one() {
        let networks = Networks::new("entrance");
        assert!(networks.find(None).unwrap_err().text.contains("rhumb join CODE"));
        networks.add("home", "member");
        // What is being made, or was left, is none.
        fs::create_dir_all(networks.0.join(".joining")).unwrap();
        fs::create_dir_all(networks.0.join("empty")).unwrap();
        let found = networks.find(None).unwrap();
        assert_eq!(found.key, networks.0.join("home/node.key"));
        let name = Name([1; 32]);
        let router = Remote { address: "192.0.2.1:7460".parse().unwrap(), name: Some(name) };
        assert_eq!(found.router().await.unwrap(), RouterChoice::Fixed(router));
        networks.add("work", "keeper");
        assert!(networks.find(None).unwrap_err().text.contains("[\"home\", \"work\"]"));
        assert_eq!(networks.find(Some("work")).unwrap().key, networks.0.join("work/node.key"));
    }

    #[tokio::test]
    async fn the_router_of_a_links_network_is_looked_for_there_by_its_name() {
        let networks = Networks::new("lan-entrance");
        networks.add_at("den", "member", "192.0.2.1", true);
        networks.add_at("attic", "member", "fe80::1%no-such", true);
        networks.add_at("work", "member", "fe80::1%no-such", false);
        let (only, name) = (vec![Name([1; 32])], Some(Name([1; 32])));
        let roots = vec![Remote { address: "192.0.2.1:7460".parse().unwrap(), name }];
        let router = networks.find(Some("den")).unwrap().router().await.unwrap();
        assert_eq!(router, RouterChoice::Discovered { roots, only: only.clone() });
        // An interface that is gone is no reason not to look.
        let router = networks.find(Some("attic")).unwrap().router().await.unwrap();
        assert_eq!(router, RouterChoice::Discovered { roots: Vec::new(), only });
        let fault = networks.find(Some("work")).unwrap().router().await.unwrap_err();
        assert!(fault.text.contains("no-such"), "{fault}");
    }

    #[test]
    fn what_is_no_network_of_this_hosts_or_open_to_others_is_refused() {
        let networks = Networks::new("no-entrance");
        for label in ["none", "", "..", "../home", "."] {
            let fault = networks.find(Some(label)).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Invalid, "{label}");
        }
        networks.add("carried", "router");
        assert!(networks.find(Some("carried")).unwrap_err().text.contains("is a router"));
        let file = networks.add("home", "member");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let fault = networks.find(Some("home")).unwrap_err();
        assert_eq!(fault.kind, FaultKind::KeyFile);
        assert!(fault.text.contains("chmod 600"), "{fault}");
    }
}
