//! What a file sets up on this host, section by section, for whoever looks whether that is right:
//! it is read as the commands read it, and what one of them would refuse hides nothing of the
//! others.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rhumb_node::RouterChoice;
use rhumb_wire::Role;

use super::{ConfigFile, NodeSettings};
use crate::cli::{NodeArguments, RibArguments, RouterArguments, UpArguments};
use crate::failure::{Failure, Outcome};
use crate::network::{Created, Folder, Part};
use crate::remote::Remote;

/// What a file sets up.
#[derive(Debug, Default)]
pub struct Survey {
    /// What commands would refuse to start with, by the section.
    pub faults: Vec<(&'static str, Failure)>,
    /// Sections that are not looked at.
    pub others: Vec<String>,
    /// Key files of daemons, and the role of each.
    pub keys: Vec<(PathBuf, Role)>,
    /// Where daemons of this host listen.
    pub listens: Vec<Listens>,
    /// RIBs that its router uses.
    pub router_ribs: Vec<Remote>,
    /// Routers that its router is reached through.
    pub upstreams: Vec<Remote>,
    /// What its nodes join by, if the file says that.
    pub node: Option<NodeSettings>,
}

/// A port that something of this host listens at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listens {
    /// What it is.
    pub what: String,
    /// Where.
    pub address: SocketAddr,
    /// Whether by TCP, or else UDP.
    pub is_tcp: bool,
}

impl Listens {
    fn new(what: &str, address: SocketAddr, is_tcp: bool) -> Self {
        Self { what: what.to_owned(), address, is_tcp }
    }

    /// Where the parts of a network listen whose keeper is this host; nowhere else.
    ///
    /// # Errors
    /// When its settings cannot be read.
    pub fn of_network(folder: &Folder) -> Outcome<Vec<Self>> {
        let Some(created) = Created::find(folder)? else { return Ok(Vec::new()) };
        let parts = [
            ("router", Part::Router, false),
            ("router over TLS", Part::Router, true),
            ("RIB", Part::Rib, false),
            ("keeper", Part::Keeper, true),
        ];
        let at = |(what, part, is_tcp)| Self::new(what, created.listens(part), is_tcp);
        Ok(parts.map(at).into())
    }
}

impl ConfigFile {
    /// Where it is; none where there is no file.
    pub fn path(&self) -> Option<&Path> {
        (!self.path.as_os_str().is_empty()).then_some(&self.path)
    }

    /// What it sets up.
    pub fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        // What does not parse was refused when it was read.
        let sections = self.text.parse::<toml::Table>().unwrap_or_default();
        for (section, value) in sections.iter().filter(|(_, value)| value.is_table()) {
            let (section, has_key) = (section.as_str(), value.get("key").is_some());
            match section {
                // One without a key is started with options, too.
                "rib" if has_key => self.look_at_rib(&mut survey),
                "router" if has_key => self.look_at_router(&mut survey),
                "node" => self.look_at_node(&mut survey),
                "up" => self.look_at_up(&mut survey),
                "receive" | "rib" | "router" => {}
                other => survey.others.push(other.to_owned()),
            }
        }
        survey
    }

    fn look_at_rib(&self, survey: &mut Survey) {
        match self.rib(&RibArguments::default()) {
            Ok(rib) => {
                survey.keys.push((rib.key, Role::Rib));
                survey.listens.push(Listens::new("RIB", rib.listen, false));
                let tls = rib.tls_listen.map(|at| Listens::new("RIB over TLS", at, true));
                survey.listens.extend(tls);
            }
            Err(failure) => survey.faults.push(("rhumb rib", failure)),
        }
    }

    fn look_at_router(&self, survey: &mut Survey) {
        match self.router(&RouterArguments::default()) {
            Ok(router) => {
                survey.keys.push((router.key, Role::Router));
                survey.listens.push(Listens::new("router", router.listen, false));
                let tls = router.tls_listen.map(|at| Listens::new("router over TLS", at, true));
                survey.listens.extend(tls);
                survey.router_ribs = router.ribs;
                survey.upstreams = router.upstreams;
            }
            Err(failure) => survey.faults.push(("rhumb router", failure)),
        }
    }

    fn look_at_node(&self, survey: &mut Survey) {
        match self.node(&NodeArguments::default()) {
            Ok(node) => {
                survey.node = Some(node);
            }
            Err(failure) => survey.faults.push(("a node", failure)),
        }
    }

    fn look_at_up(&self, survey: &mut Survey) {
        match self.up(&UpArguments::default()) {
            Ok(up) => {
                let proxy = up.proxy.map(|at| Listens::new("proxy", at, true));
                survey.listens.extend(proxy);
                let brought =
                    |it: &super::Brought| Listens::new("port brought here", it.local, !it.udp);
                survey.listens.extend(up.forward.iter().map(brought));
            }
            Err(failure) => survey.faults.push(("rhumb up", failure)),
        }
    }
}

impl NodeSettings {
    /// The routers that are to be joined, by name or as roots; none where one is looked for nearby.
    pub fn routers(&self) -> Vec<Remote> {
        let of = |it: &rhumb_node::Remote| Remote { name: it.name, address: it.address };
        match &self.router {
            RouterChoice::Fixed(router) => vec![of(router)],
            RouterChoice::Discovered { roots, .. } => roots.iter().map(of).collect(),
        }
    }

    /// The same node, by this router.
    #[must_use]
    pub fn by(mut self, router: Remote) -> Self {
        self.router = RouterChoice::Fixed(router.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw;

    fn survey(text: &str) -> Survey {
        let (path, text, raw) = ("test.toml".into(), text.to_owned(), raw::parse(text).unwrap());
        ConfigFile { path, text, raw }.survey()
    }

    #[test]
    fn what_one_command_would_refuse_hides_nothing_of_the_others() {
        let found = survey(
            "[router]\nkey = \"r.key\"\nrib = [\"127.0.0.1:9\"]\ntls_listen = \"127.0.0.1:443\"\n\
             [rib]\nkey = \"rib.key\"\nlisten = \"nowhere\"\n\
             [node]\nrouter = \"127.0.0.1:8\"\nkey = \"n.key\"\n[waypoint]\n",
        );
        assert_eq!(found.faults.len(), 1);
        assert_eq!((found.faults[0].0, &found.others[..]), ("rhumb rib", &["waypoint".into()][..]));
        assert_eq!(found.keys, [(PathBuf::from("r.key"), Role::Router)]);
        let listens: Vec<(u16, bool)> =
            found.listens.iter().map(|it| (it.address.port(), it.is_tcp)).collect();
        assert_eq!(listens, [(7460, false), (443, true)]);
        let node = found.node.unwrap();
        assert_eq!(node.routers(), ["127.0.0.1:8".parse().unwrap()]);
        assert_eq!(node.key, Some(PathBuf::from("n.key")));
    }

    #[test]
    fn daemons_that_are_started_with_options_are_not_judged_by_the_file() {
        let found = survey("[router]\nworkers = 2\n[rib]\nmemory_mib = 64\n");
        assert!(found.faults.is_empty() && found.listens.is_empty() && found.node.is_none());
    }
}
