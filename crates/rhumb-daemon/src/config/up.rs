//! `[up]`: what one node does for all programs of its host: services that it offers, ports of
//! others that it brings here, and a proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use rhumb_node::{Admits, RouterChoice};
use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use super::tun::RawTun;
use super::{ConfigFile, Fault, NodeSettings, TunSettings, line_at, refuse};
use crate::admin::Admin;
use crate::cli::{CalledPort, Local, UpArguments, parse_called_port, parse_label, parse_published};
use crate::failure::{Failure, Outcome};
use crate::network::{Created, Folder, Joined, Rank};
use crate::privileges::User;
use crate::published::publishing::Names;
use crate::remote::{Remote, parse_address, parse_name};

/// What `rhumb up` runs with.
#[derive(Debug)]
pub struct UpSettings {
    /// The node that does it all.
    pub node: NodeSettings,
    /// Where its proxy listens, if there is one.
    pub proxy: Option<SocketAddr>,
    /// What it offers.
    pub serve: Vec<OfferedPort>,
    /// What it brings here.
    pub forward: Vec<Brought>,
    /// What it publishes under its own name.
    pub publish: Names,
    /// The device by which this host has its name as an address, if it has one.
    pub tun: Option<TunSettings>,
    /// Who tells who was removed from the domains whose members it lets in.
    pub ribs: Vec<Remote>,
    /// AdCerts of the capsules that it answers for.
    pub ad_certs: Vec<PathBuf>,
    /// The network that it is a member of, by an invitation.
    pub network: Option<Joined>,
    /// Whether other commands of this user use it.
    pub commands: bool,
    /// Who it goes on as when everything is open.
    pub run_as: Option<User>,
    /// Where it tells how it is.
    pub admin: Admin,
}

/// How `rhumb up` goes about it.
#[derive(Debug)]
pub enum WayUp {
    /// By what the settings, or the network that this host is in, say.
    Usual,
    /// This host keeps a network of its link.
    Keeps(Box<Created>),
    /// This host is in a network of a link, whose host has to be found there.
    IsIn(Box<Joined>),
    /// A network is looked for on the link.
    Looks,
}

/// A program that is offered as a port.
#[derive(Debug, Clone)]
pub struct OfferedPort {
    /// By which name alone.
    pub only: Option<Name>,
    /// The port.
    pub port: u16,
    /// Whether it is one of datagrams.
    pub udp: bool,
    /// Where the program listens.
    pub to: SocketAddr,
    /// Who may use it.
    pub allow: Allowed,
}

/// Who may use a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Everybody who knows the name.
    Everybody,
    /// These.
    Chosen {
        /// By name.
        names: Vec<Name>,
        /// Members of these trust domains.
        domains: Vec<Name>,
    },
}

/// Somebody's port, brought here.
#[derive(Debug, Clone)]
pub struct Brought {
    /// Where programs of this host find it.
    pub local: SocketAddr,
    /// Whose, and which: as the book of whoever starts it has it, or as its owner publishes it.
    pub service: CalledPort,
    /// Whether it is one of datagrams.
    pub udp: bool,
}

impl Allowed {
    /// Somebody has to be named.
    ///
    /// # Errors
    ///
    /// When nobody could use it; `how` says how to name somebody.
    pub fn of(
        everybody: bool,
        names: Vec<Name>,
        domains: Vec<Name>,
        how: &str,
    ) -> Result<Self, String> {
        match (everybody, names.is_empty() && domains.is_empty()) {
            (true, true) => Ok(Self::Everybody),
            (false, false) => Ok(Self::Chosen { names, domains }),
            (true, false) => Err("it lets everybody, or those who are named; give either".into()),
            (false, true) => Err(format!("nobody could use it: {how}")),
        }
    }

    /// As nodes take it.
    pub fn admits(&self) -> Admits {
        match self {
            Self::Everybody => Admits::Everybody,
            Self::Chosen { names, domains } => Admits::Chosen {
                names: names.iter().copied().collect(),
                domains: domains.iter().copied().collect(),
            },
        }
    }

    /// The domains whose members may.
    pub fn domains(&self) -> &[Name] {
        match self {
            Self::Everybody => &[],
            Self::Chosen { domains, .. } => domains,
        }
    }
}

/// `[up]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawUp {
    proxy: Option<Spanned<String>>,
    pub(crate) admin: Option<Spanned<String>>,
    commands: Option<bool>,
    run_as: Option<Spanned<String>>,
    rib: Option<Vec<Spanned<String>>>,
    publish: Vec<Spanned<String>>,
    tun: Option<Spanned<RawTun>>,
    ad_certs: Vec<PathBuf>,
    network: Option<Spanned<String>>,
    serve: Vec<Spanned<RawService>>,
    forward: Vec<Spanned<RawForward>>,
}

/// `[[up.serve]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawService {
    port: Option<u16>,
    name: Option<Spanned<String>>,
    udp: bool,
    to: Option<Spanned<String>>,
    allow: Vec<Spanned<String>>,
    allow_domain: Vec<Spanned<String>>,
    allow_all: bool,
}

/// `[[up.forward]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawForward {
    local: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    udp: bool,
}

/// The keys of [`RawUp`] and those below it.
pub(super) const UP_KEYS: &[&str] = &[
    "proxy", "admin", "commands", "run_as", "rib", "publish", "tun", "ad_certs", "network",
    "serve", "forward",
];
pub(super) const SERVE_KEYS: &[&str] =
    &["port", "name", "udp", "to", "allow", "allow_domain", "allow_all"];
pub(super) const FORWARD_KEYS: &[&str] = &["local", "to", "udp"];

impl ConfigFile {
    /// Settings of `rhumb up`.
    ///
    /// # Errors
    ///
    /// With the line of what is wrong.
    pub fn up(&self, flags: &UpArguments) -> Outcome<UpSettings> {
        self.up_in(flags, self.network(flags)?)
    }

    /// How `rhumb up` goes about it; `has_people`: somebody sits at a terminal.
    ///
    /// # Errors
    ///
    /// When it is not clear of which network it is to be.
    pub fn way_up(&self, flags: &UpArguments, has_people: bool) -> Outcome<WayUp> {
        let network = match flags.lan {
            Some(_) => None,
            None => self.network(flags)?,
        };
        let way = match network {
            _ if flags.node_only => WayUp::Usual,
            Some(joined) => match Created::find(&joined.folder)?.filter(|it| it.is_lan) {
                Some(created) => WayUp::Keeps(Box::new(created)),
                None if joined.is_lan => WayUp::IsIn(Box::new(joined)),
                None => WayUp::Usual,
            },
            None if flags.lan.is_some() || flags.trust_lan => WayUp::Looks,
            None if self.says_how(flags) || !flags.node.says_nothing() => WayUp::Usual,
            None if has_people => WayUp::Looks,
            None => WayUp::Usual,
        };
        // What keeps a network starts its node as a process of its own.
        match way {
            WayUp::Keeps(_) | WayUp::Looks if !flags.node.says_nothing() => {
                Err(Failure::setup_text(
                    "options of a node go into [node] of the file where `rhumb up` looks for a \
                     network on this LAN, or keeps one",
                ))
            }
            way => Ok(way),
        }
    }

    /// As [`ConfigFile::up`], as a member of `network`.
    ///
    /// # Errors
    ///
    /// With the line of what is wrong.
    pub fn up_in(&self, flags: &UpArguments, network: Option<Joined>) -> Outcome<UpSettings> {
        let raw = &self.raw.up;
        let parse_proxy = |text: &str| match text {
            "off" => Ok(None),
            text => text.parse().map(|Local(address)| Some(address)),
        };
        let proxy = self.parsed(raw.proxy.as_ref(), parse_proxy)?;
        let admin = self.admin(flags.admin.as_ref(), raw.admin.as_ref())?;
        let mut node = self.node(&flags.node)?;
        let mut ribs = self.remotes(&[], raw.rib.as_ref())?;
        if let Some(joined) = &network {
            let router = joined.router()?;
            node.router = match router.name {
                // Wherever on the link it is after it has started again, and nobody else.
                Some(name) if joined.is_lan => {
                    RouterChoice::Discovered { roots: vec![router.into()], only: vec![name] }
                }
                _ => RouterChoice::Fixed(router.into()),
            };
            node.key = Some(joined.key());
            if ribs.is_empty() {
                ribs.push(joined.rib()?);
            }
        }
        let mut serve: Vec<_> =
            raw.serve.iter().map(|it| self.service(it)).collect::<Outcome<_>>()?;
        serve.extend(served_to_members(&flags.serve, network.as_ref())?);
        Ok(UpSettings {
            node,
            proxy: proxy.unwrap_or(Some(DEFAULT_PROXY)),
            serve,
            forward: raw.forward.iter().map(|it| self.brought(it)).collect::<Outcome<_>>()?,
            publish: self.published(&raw.publish)?,
            tun: raw.tun.as_ref().map(|it| self.tun(it)).transpose()?,
            ribs,
            network,
            ad_certs: raw.ad_certs.clone(),
            commands: raw.commands.unwrap_or(true),
            run_as: self.run_as(flags.run_as.as_deref(), raw.run_as.as_ref())?,
            admin: admin.unwrap_or(Admin::Usual),
        })
    }

    /// The network that is named, or else the only one that this host has joined, where neither
    /// options nor the file say how to join otherwise.
    fn network(&self, flags: &UpArguments) -> Outcome<Option<Joined>> {
        let named = match &flags.network {
            Some(label) => Some(label.clone()),
            None => self.parsed(self.raw.up.network.as_ref(), parse_label)?,
        };
        let says_how = self.says_how(flags);
        if let Some(label) = named {
            if says_how {
                return Err(Failure::setup_text(format!(
                    "network {label} has its own router and key; leave those of options and [node] out"
                )));
            }
            let found = Joined::find(&Folder::of(&label)?)?;
            return found.map(Some).ok_or_else(|| {
                Failure::setup_text(format!(
                    "this host is in no network that is called {label}: `rhumb network` lists what there is"
                ))
            });
        }
        if says_how {
            return Ok(None);
        }
        let mut all = Joined::all()?;
        all.retain(|joined| joined.rank != Rank::Router);
        if all.len() > 1 {
            let labels: Vec<&str> = all.iter().map(|it| it.folder.label().as_str()).collect();
            return Err(Failure::setup_text(format!(
                "this host is in several networks; say which, --network LABEL or `network` in [up]: {}",
                labels.join(", ")
            )));
        }
        Ok(all.pop())
    }

    /// Whether options or the file say by which router to join, or as whom.
    fn says_how(&self, flags: &UpArguments) -> bool {
        let raw = &self.raw.node;
        flags.node.says_how()
            || raw.router.is_some()
            || raw.roots.is_some()
            || raw.only.is_some()
            || raw.key.is_some()
    }

    fn published(&self, raw: &[Spanned<String>]) -> Outcome<Names> {
        let mut names = Names::new();
        for text in raw {
            let Some((label, name)) = self.parsed(Some(text), parse_published)? else { continue };
            if names.insert(label, name).is_some() {
                return Err(self.up_fault(text, "it is published twice".to_owned()));
            }
        }
        let has_ribs = self.raw.up.rib.is_some() || self.raw.node.rib.is_some();
        match raw.first() {
            Some(first) if !has_ribs => {
                Err(self.up_fault(first, "RIBs publish it: give `rib` in [up] as well".to_owned()))
            }
            _ => Ok(names),
        }
    }

    fn service(&self, raw: &Spanned<RawService>) -> Outcome<OfferedPort> {
        let item = raw.get_ref();
        let port = item.port.ok_or_else(|| self.up_fault(raw, "a service needs `port`".into()))?;
        let names = self.full_names(&item.allow)?;
        let domains = self.full_names(&item.allow_domain)?;
        let allow = Allowed::of(item.allow_all, names, domains, ALLOW_HOW);
        let to = self.parsed(item.to.as_ref(), parse_address)?;
        Ok(OfferedPort {
            only: self.parsed(item.name.as_ref(), parse_name)?,
            port,
            udp: item.udp,
            to: to.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            allow: allow.map_err(|problem| self.up_fault(raw, problem))?,
        })
    }

    fn brought(&self, raw: &Spanned<RawForward>) -> Outcome<Brought> {
        let item = raw.get_ref();
        let local = self.parsed(item.local.as_ref(), str::parse::<Local>)?;
        let service = self.parsed(item.to.as_ref(), parse_called_port)?;
        let (Some(Local(local)), Some(service)) = (local, service) else {
            let lacks = "a forward needs `local`, [ADDR:]PORT, and `to`, NAME:PORT";
            return Err(self.up_fault(raw, lacks.to_owned()));
        };
        Ok(Brought { local, service, udp: item.udp })
    }

    pub(super) fn up_fault<T>(&self, raw: &Spanned<T>, problem: String) -> Failure {
        let line = line_at(&self.text, Some(&raw.span()));
        refuse(&self.path, &Fault { line, problem })
    }
}

/// Ports of this host, for all members of its network.
fn served_to_members(ports: &[u16], network: Option<&Joined>) -> Outcome<Vec<OfferedPort>> {
    let Some(&first) = ports.first() else { return Ok(Vec::new()) };
    let joined = network.ok_or_else(|| {
        Failure::setup_text(format!(
            "--serve {first} is for the members of a network, and this host is in none: `rhumb serve {first}` offers \
             it to those who are named, --allow NAME, or to everybody, --allow-all"
        ))
    })?;
    let offered = |port: &u16| OfferedPort {
        only: None,
        port: *port,
        udp: false,
        to: SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
        allow: Allowed::Chosen { names: Vec::new(), domains: vec![joined.domain] },
    };
    Ok(ports.iter().map(offered).collect())
}

const ALLOW_HOW: &str = "give `allow`, a list of the names that may, or allow_all = true";
const DEFAULT_PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1080);

#[cfg(test)]
mod tests {
    use rhumb_node::joined::Site;

    use super::super::tests::file;
    use super::*;
    use crate::names::Called;

    fn up(text: &str) -> Outcome<UpSettings> {
        file(text).up(&UpArguments::default())
    }

    #[test]
    fn a_file_says_what_is_offered_and_brought_and_none_is_enough() {
        let none = up("").unwrap();
        assert_eq!((none.proxy, none.admin), (Some(DEFAULT_PROXY), Admin::Usual));
        assert!(none.serve.is_empty() && none.forward.is_empty());
        let name = Name([7; 32]);
        let text = format!(
            "[up]\nproxy = \"off\"\n[[up.serve]]\nport = 80\nallow = [\"{name}\"]\n\
             [[up.serve]]\nport = 53\nudp = true\nto = \"192.0.2.1:5353\"\nallow_all = true\n\
             [[up.forward]]\nlocal = \"9000\"\nto = \"{name}:80\"\n"
        );
        let settings = up(&text).unwrap();
        assert_eq!(settings.proxy, None);
        let [web, dns] = &settings.serve[..] else { panic!("{settings:?}") };
        assert_eq!((web.to.to_string(), web.udp), ("127.0.0.1:80".to_owned(), false));
        assert_eq!(web.allow, Allowed::Chosen { names: vec![name], domains: vec![] });
        assert_eq!((dns.to.to_string(), dns.udp), ("192.0.2.1:5353".to_owned(), true));
        assert_eq!(dns.allow, Allowed::Everybody);
        assert_eq!(settings.forward[0].local.to_string(), "127.0.0.1:9000");
        assert_eq!(
            settings.forward[0].service,
            CalledPort { called: Called::Name(name), port: 80 }
        );
        let published = up(&format!("[[up.forward]]\nlocal = \"1\"\nto = \"camera.{name}:80\""));
        let [camera] = &published.unwrap().forward[..] else { panic!("one") };
        assert_eq!(camera.service.called.to_string(), format!("camera.{name}"));
    }

    #[test]
    fn a_device_is_had_by_its_table_and_lets_nobody_begin() {
        assert!(up("[up]").unwrap().tun.is_none());
        let tun = |text: &str| up(&format!("[up.tun]\n{text}")).unwrap().tun.unwrap();
        let usual = tun("");
        assert_eq!(
            (usual.allow, usual.mtu, usual.resolver),
            (Allowed::Chosen { names: vec![], domains: vec![] }, 1280, None)
        );
        assert_eq!(tun("resolver = \"on\"").resolver, Some("127.0.0.41:53".parse().unwrap()));
        let [a, b] = [Name([7; 32]), Name([8; 32])];
        let some = tun(&format!("allow = [\"{a}\"]\npeer = [\"{b}\"]\nmtu = 65535"));
        assert_eq!(
            (some.allow, some.mtu),
            (Allowed::Chosen { names: vec![a], domains: vec![] }, 65_535)
        );
        assert_eq!(some.peers, [b, a]);
        assert_eq!(tun("allow_all = true").allow, Allowed::Everybody);
    }

    #[test]
    fn ports_for_the_members_of_a_network_need_one() {
        let file = file("[[up.serve]]\nport = 53\nallow_all = true");
        let flags = UpArguments { serve: vec![80, 443], ..UpArguments::default() };
        let failure = file.up_in(&flags, None).unwrap_err().to_string();
        assert!(failure.contains("--serve 80 is for the members of a network"), "{failure}");
        assert!(!failure.contains("  "), "{failure}");
        let domain = Name([5; 32]);
        let joined = Joined {
            folder: Folder::of(&parse_label("home").unwrap()).unwrap(),
            label: parse_label("desk").unwrap(),
            rank: Rank::Member,
            domain,
            host: Site::parse("192.0.2.1").unwrap(),
            router: (Name([1; 32]), 7460),
            rib: (Name([2; 32]), 7461),
            keeper: (Name([3; 32]), 7462),
            is_lan: false,
        };
        let settings = file.up_in(&flags, Some(joined)).unwrap();
        let all: Vec<u16> = settings.serve.iter().map(|it| it.port).collect();
        assert_eq!(all, [53, 80, 443]);
        let web = &settings.serve[1];
        assert_eq!((web.udp, web.to.to_string()), (false, "127.0.0.1:80".to_owned()));
        assert_eq!(web.allow, Allowed::Chosen { names: vec![], domains: vec![domain] });
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let name = Name([7; 32]);
        for (text, what) in [
            ("[[up.serve]]\nallow_all = true".to_owned(), "needs `port`"),
            ("[[up.serve]]\nport = 80".to_owned(), "nobody could use it"),
            (format!("[[up.serve]]\nport = 1\nallow_all = true\nallow = [\"{name}\"]"), "either"),
            ("[[up.forward]]\nlocal = \"9000\"".to_owned(), "needs `local`"),
            ("[[up.forward]]\nlocal = \"x\"".to_owned(), "line 2"),
            (format!("[[up.forward]]\nlocal = \"1\"\nto = \"{name}\""), "NAME:80"),
            ("[[up.forward]]\nlocal = \"1\"\nto = \"x/y:80\"".to_owned(), "x/y"),
            ("[up]\nproxy = \"on\"".to_owned(), "line 2"),
            ("[up]\nrun_as = \"nobody here\"".to_owned(), "there is no user"),
            (format!("[up.tun]\nallow_all = true\nallow = [\"{name}\"]"), "either"),
            ("[up.tun]\nallow = [\"bob\"]".to_owned(), "not a name"),
            (format!("[up]\npublish = [\"a={name}\"]"), "give `rib`"),
            (format!("[up]\npublish = [\"a={name}\", \"a={name}\"]"), "twice"),
            ("[up]\npublish = [\"A=x\"]".to_owned(), "cannot be published"),
            ("[up.tun]\nmtu = 1279".to_owned(), "give 1280 to 65535"),
            ("[up.tun]\nmtu = 65536".to_owned(), "give 1280 to 65535"),
            ("[up.tun]\nresolver = \"off\"".to_owned(), "and not `on`"),
        ] {
            let failure = up(&text).unwrap_err().to_string();
            assert!(failure.contains(what) && failure.contains("line "), "{text}: {failure}");
        }
    }
}
