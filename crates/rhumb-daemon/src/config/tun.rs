//! A TUN device between names: of `rhumb tun`, and of `[up.tun]`.

use std::net::SocketAddr;

use ipnet::IpNet;
use rhumb_node::RouterChoice;
use rhumb_node::ip::sites::Sites;
use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use super::{Allowed, ConfigFile, NodeSettings};
use crate::cli::{
    AcceptedRoute, LEAST_MTU, MOST_MTU, RESOLVER, TunArguments, parse_accepted, parse_network,
};
use crate::failure::{Failure, Outcome};
use crate::remote::{Remote, parse_name};

/// What a device is made with.
#[derive(Debug, Clone)]
pub struct TunSettings {
    /// What the system calls it; the first name that is free, if it is not said.
    pub device: Option<String>,
    /// Who may begin to send packets to this host; nobody, if there are no names.
    pub allow: Allowed,
    /// Names that this host can send to, beside those of the book.
    pub peers: Vec<Name>,
    /// Networks behind this host, and behind others.
    pub sites: Sites,
    /// Who is asked for names of other addresses.
    pub ribs: Vec<Remote>,
    /// Where programs find names as hosts, if anywhere.
    pub resolver: Option<SocketAddr>,
    /// Bytes of the largest packet.
    pub mtu: u32,
}

impl TunSettings {
    /// Of the command line.
    ///
    /// # Errors
    ///
    /// When networks cannot lie as it says.
    pub fn of(arguments: &TunArguments) -> Outcome<Self> {
        let allow = match arguments.allow_all {
            true => Allowed::Everybody,
            false => Allowed::Chosen {
                names: arguments.allow.clone(),
                domains: arguments.allow_domain.clone(),
            },
        };
        let peers = [&arguments.allow[..], &arguments.peer].concat();
        let accepted: Vec<_> =
            arguments.accept_route.iter().map(|it| (it.network, it.name)).collect();
        let sites = Sites::new(&arguments.advertise_route, &accepted);
        Ok(Self {
            device: arguments.device.clone(),
            allow,
            peers,
            ribs: arguments.rib.clone(),
            resolver: arguments.resolver,
            sites: sites.map_err(Failure::setup)?,
            mtu: arguments.mtu,
        })
    }

    /// Whether the way to where `node` is joined stays outside of the device.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn check_way_of(&self, node: &NodeSettings) -> Outcome {
        let RouterChoice::Fixed(router) = &node.router else { return Ok(()) };
        let address = router.address.ip();
        match self.sites.accepted().iter().find(|(network, _)| network.contains(&address)) {
            Some((network, _)) => Err(Failure::setup_text(format!(
                "the router {address} lies in {network}, which would lead into the device: accept a network without it"
            ))),
            None => Ok(()),
        }
    }
}

/// `[up.tun]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTun {
    device: Option<String>,
    allow: Vec<Spanned<String>>,
    allow_domain: Vec<Spanned<String>>,
    allow_all: bool,
    peer: Vec<Spanned<String>>,
    advertise_route: Vec<Spanned<String>>,
    accept_route: Vec<Spanned<String>>,
    rib: Vec<Spanned<String>>,
    resolver: Option<Spanned<String>>,
    mtu: Option<Spanned<u32>>,
}

/// The keys of [`RawTun`].
pub(super) const TUN_KEYS: &[&str] = &[
    "device",
    "allow",
    "allow_domain",
    "allow_all",
    "peer",
    "advertise_route",
    "accept_route",
    "rib",
    "resolver",
    "mtu",
];

impl ConfigFile {
    /// The device that a node of `[up]` has.
    pub(super) fn tun(&self, raw: &Spanned<RawTun>) -> Outcome<TunSettings> {
        let item = raw.get_ref();
        let domains = self.full_names(&item.allow_domain)?;
        let allow = match (item.allow_all, self.full_names(&item.allow)?) {
            (true, names) if names.is_empty() && domains.is_empty() => Allowed::Everybody,
            (true, _) => {
                let problem = "the device lets everybody, or those who are named; give either";
                return Err(self.up_fault(raw, problem.to_owned()));
            }
            (false, names) => Allowed::Chosen { names, domains },
        };
        let mtu = match &item.mtu {
            None => LEAST_MTU,
            Some(mtu) if (LEAST_MTU..=MOST_MTU).contains(mtu.get_ref()) => *mtu.get_ref(),
            Some(mtu) => {
                let problem = format!("mtu is {}; give {LEAST_MTU} to {MOST_MTU}", mtu.get_ref());
                return Err(self.up_fault(mtu, problem));
            }
        };
        let mut peers = self.full_names(&item.peer)?;
        if let Allowed::Chosen { names, .. } = &allow {
            peers.extend(names);
        }
        let sites = self.sites(item).map_err(|problem| self.up_fault(raw, problem))?;
        let parse_resolver = |text: &str| match text {
            "on" => RESOLVER.parse().map_err(|_| "no usual address".to_owned()),
            text => text.parse::<SocketAddr>().map_err(|_| {
                format!("`{text}` is no address with a port like {RESOLVER}, and not `on`")
            }),
        };
        Ok(TunSettings {
            device: item.device.clone(),
            allow,
            peers,
            sites,
            ribs: self.remotes(&[], Some(&item.rib))?,
            resolver: self.parsed(item.resolver.as_ref(), parse_resolver)?,
            mtu,
        })
    }

    fn sites(&self, item: &RawTun) -> Result<Sites, String> {
        let own: Result<Vec<IpNet>, String> =
            item.advertise_route.iter().map(|it| parse_network(it.get_ref())).collect();
        let accepted = item.accept_route.iter().map(|it| {
            let AcceptedRoute { network, name } = parse_accepted(it.get_ref(), parse_name)?;
            Ok((network, name))
        });
        let accepted = accepted.collect::<Result<Vec<_>, String>>()?;
        Sites::new(&own?, &accepted).map_err(|it| it.to_string())
    }

    /// Names in full: whose label a file means would depend on who reads it.
    pub(super) fn full_names(&self, texts: &[Spanned<String>]) -> Outcome<Vec<Name>> {
        let read = texts.iter().filter_map(|it| self.parsed(Some(it), parse_name).transpose());
        read.collect()
    }
}
